"""Rows that chips share: statistics of softmax, norms and attention, and tables split by rows, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roofline import bound, shard
from roofline.errors import SizeError
from roofline.notation import program
from roofline.ops.sharding.plans import plans

CHIPS, ROWS, WIDTH = 4, 6, 32


def best(line: str, **sizes: int) -> Any:
    summed = any("AllReduce" in plan.name for plan in shard(line, on="h100:8", **sizes))
    return shard(line, on="h100:8", algorithm={"AllReduce": "two-shot"} if summed else None, **sizes).best


def test_a_softmax_along_a_sharded_dimension_sends_two_numbers_a_row() -> None:
    found = bound("softmax_V(fp32[B, V_X]) -> fp32[B, V_X]", on="a100:8", B=10240, V=128000)
    assert found.plan == "AllReduce_X(statistics)"
    assert sum(found.wire.values()) == 2 * 7 / 8 * 10240 * 2 * 4
    assert found.flops_by == {"cuda/fp32": 5 * 10240 * 128000 // 8}
    assert any("share each row and exchange the largest entry and a sum of it, in fp32" in x for x in found.assumptions)


def test_norms_send_the_sums_they_need() -> None:
    for function, sums in (("rms_norm", 1), ("layer_norm", 2)):
        found = best(f"{function}_D(bf16[B, D_X]) -> bf16[B, D_X]", B=1024, D=8192)
        assert (found.name, found.link_bytes) == ("AllReduce_X(statistics)", 2 * 7 / 8 * 1024 * sums * 4)


@pytest.mark.parametrize("chips", [8, 16])
def test_a_group_norm_of_an_image_in_parts_sends_two_numbers_a_group(chips: int) -> None:
    line = "group_norm(bf16[N, H_X, W, C], groups=32) -> bf16[N, H_X, W, C]"
    found = shard(line, on=f"h100:{chips}", N=4, H=64, W=64, C=512)
    alone = bound(line.replace("_X", ""), on="h100", N=4, H=64, W=64, C=512)
    assert found.best.name == "AllReduce_X(statistics)"
    exchange, rows = found.best.bound.ops[-1].op, 4 * 32
    assert exchange.reads[0].dims == (4, 32, 2)
    assert found.best.bound.flops == 5 * alone.ops[0].op.reads[0].elements // chips + 2 * rows


@pytest.mark.parametrize(
    "line",
    [
        "group_norm(bf16[N, H, W, C_X], bf16[C_X], groups=32) -> bf16[N, H, W, C_X]",
        "batch_norm(bf16[N, H, W, C_X], bf16[C_X], bf16[C_X]) -> bf16[N, H, W, C_X]",
        "batch_norm(bf16[N, H, W_X, C], bf16[C], bf16[C]) -> bf16[N, H, W_X, C]",
    ],
)
def test_norms_of_channels_need_nothing_of_other_channels(line: str) -> None:
    found = best(line, N=4, H=64, W=64, C=512)
    alone = bound(line.replace("_X", ""), on="h100", N=4, H=64, W=64, C=512)
    assert found.name == "no communication"
    assert found.bound.flops * 8 == alone.flops


def test_chips_that_do_not_divide_the_groups_of_a_norm_move_the_image() -> None:
    line = "group_norm(bf16[N, H, W, C_X], groups=4) -> bf16[N, H, W, C_X]"
    assert best(line, N=8, H=64, W=64, C=512).name != "no communication"


def test_keys_that_are_sharded_stay_where_they_are() -> None:
    line = "attention(bf16[B, S, N, H], bf16[B, T_X, K, H], bf16[B, T_X, K, H]{}) -> bf16[B, S, N, H]"
    sizes = {"B": 4, "S": 1, "T": 131072, "N": 64, "K": 8, "H": 128}
    found = best(line.format(""), **sizes)
    assert found.name == "AllReduce_X(statistics); AllReduce_X(bf16[B, S, N, H] {U_X})"
    assert found.link_bytes == 2 * 7 / 8 * (4 * 64 * 2 * 4 + 4 * 64 * 128 * 2)
    assert found.bound.flops_by["tensor/bf16"] == 2 * 4 * 64 * (131072 // 8) * 2 * 128
    assert best(line.format(", causal"), **sizes).name == found.name
    assert best(line.format(", causal"), **{**sizes, "S": 2}).name == found.name


def test_latents_that_are_sharded_are_gathered_once() -> None:
    """Each of 8 chips has an eighth of the queries and of the latents, which hold the values too."""
    line = "attention(bf16[S_X, N, 576], bf16[S_X, 1, 576], values=512, causal) -> bf16[S_X, N, 512]"
    found = bound(line, on="h100:8", S=4096, N=16, plan="AllGather_X(bf16[S_X, 1, 576])")
    assert sum(found.wire.values()) == 7 / 8 * 4096 * 576 * 2
    rows = bound(line.replace("S_X, 1", "S, 1"), on="h100:8", S=4096, N=16)
    assert rows.bytes["hbm"] == 2 * (512 * 16 * (576 + 512) + 4096 * 576)


def test_a_table_split_by_rows_gives_partial_sums() -> None:
    sizes = {"B": 1024, "D": 8192, "V": 128256, "plan": "AllReduce_X(bf16[B, D] {U_X})"}
    found = bound(
        "embedding(bf16[V_X, D], int32[B]) -> bf16[B, D]", on="h100:8", algorithm={"AllReduce": "two-shot"}, **sizes
    )
    assert sum(found.wire.values()) == 2 * 7 / 8 * 1024 * 8192 * 2
    assert found.ops[0].op.reads[0].traffic_bytes == 1024 // 8 * 8192 * 2


@pytest.mark.parametrize(("indices", "result"), [("B_X", "B_X"), ("B", "B_X"), ("B_X", "B"), ("B", "B")])
def test_a_table_split_by_rows_sends_each_row_to_the_chip_that_has_its_index(indices: str, result: str) -> None:
    """Each of 8 chips has 128 of 1024 indices, whose rows lie on all: seven eighths of both are sent."""
    line = f"embedding(bf16[V_X, D], int32[{indices}]) -> bf16[{result}, D]"
    found = best(line, B=1024, D=8192, V=128256)
    rows, asked = 1024 // 8 * 8192 * 2, 1024 // 8 * 4 * (indices == "B_X")
    gathered = 7 * rows * (result == "B")
    assert "AllToAll_X(rows of the table)" in found.name
    assert found.link_bytes == 7 / 8 * (rows + asked) + gathered
    (lookup,) = [op.op for op in found.bound.ops if op.op.kind == "embedding"]
    assert lookup.reads[0].traffic_bytes == lookup.writes[0].traffic_bytes == rows
    assert any("send each other the rows that they look up" in text for text in found.bound.assumptions)
    apart = best(line.replace("V_X", "V_{XY}"), B=1024, D=8192, V=128256, mesh={"X": 4, "Y": 2})
    (lookup,) = [op.op for op in apart.bound.ops if op.op.kind == "embedding"]
    assert lookup.reads[0].traffic_bytes <= 1024 // 4 * 8192 * 2


def test_formulas_and_arrays_agree_with_numbers() -> None:
    line = "softmax_V(fp32[B, V_X]) -> fp32[B, V_X]"
    number = bound(line, on="v5e:8", B=1024, V=128000)
    rows = bound(line, on="v5e:8", B=[1024, 2048], V=128000)
    form = bound(line, on="v5e:8")
    assert (number.plan, rows.plan, form.plan) == ("AllReduce_X(statistics)",) * 3
    assert rows.upper[0] == pytest.approx(number.upper)
    rates = {use.rate.value: use.rate.plain for use in form.uses}
    sizes = {each: {"B": 1024, "V": 128000}[each.name] for each in form.upper.free_symbols if each not in rates}
    assert float(form.upper.subs({**rates, **sizes})) == pytest.approx(number.upper)


def test_what_chips_tell_each_other_is_enough() -> None:
    """Two numbers a row make a softmax and an attention of parts whole, one a root mean square."""
    random = np.random.default_rng(3)
    scores, values = random.normal(size=(ROWS, WIDTH)), random.normal(size=(WIDTH, 5))
    parts = np.split(scores, CHIPS, axis=1)
    largest = [part.max(axis=1, keepdims=True) for part in parts]
    sums = [np.exp(part - most).sum(axis=1, keepdims=True) for part, most in zip(parts, largest, strict=True)]
    most = np.max(largest, axis=0)
    total = sum(part * np.exp(own - most) for part, own in zip(sums, largest, strict=True))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    whole = weights / weights.sum(axis=1, keepdims=True)
    mine = [np.exp(part - most) / total for part in parts]
    np.testing.assert_allclose(np.concatenate(mine, axis=1), whole)
    partial = [part @ rows for part, rows in zip(mine, np.split(values, CHIPS), strict=True)]
    np.testing.assert_allclose(sum(partial), whole @ values)
    squares = sum((part**2).sum(axis=1) for part in parts)
    np.testing.assert_allclose(squares / WIDTH, (scores**2).mean(axis=1))


def test_the_fewest_axes_come_first_without_sizes() -> None:
    steps = program("h = bf16[B, D_X] + bf16[B, D_X]; rms_norm_D(h) -> bf16[B, D_X]").steps
    assert next(plans(steps)).words == ("AllReduce_X(statistics)",)


def test_parts_of_a_maximum_are_not_added_up() -> None:
    line = "a = {0}_D(fp32[B, D_X]); b = {0}_D(fp32[B, D_X]); a + b -> fp32[B]"
    names = {name: {plan.name for plan in shard(line.format(name), on="h100:8", B=64, D=64)} for name in ("sum", "max")}
    assert "AllReduce_X(fp32[B] {U_X})" in names["sum"]
    assert "AllReduce_X(fp32[B] {U_X})" not in names["max"]
    assert "AllReduce_X(a[B] {U_X}); AllReduce_X(b[B] {U_X})" in names["max"]


def test_partial_sums_stay_partial_through_what_is_linear_in_them() -> None:
    """A sum over the rows of a bag is sent, not the rows; what is no linear operation adds them up before."""
    bag = "sum_S(embedding(bf16[V_X, D], int32[B, S])) -> bf16[{}, D]"
    sizes, rows = {"V": 10**7, "D": 128, "B": 65536, "S": 20}, 65536 * 128 * 2
    for result, name, sent in (("B", "AllReduce_X(", rows), ("B_X", "ReduceScatter_{X,B}(", rows * 7 / 8)):
        found = shard(bag.format(result), on="h100:8", policy="minimal", **sizes).best
        assert (found.name, found.link_bytes) == (f"{name}bf16[B, D] {{U_X}})", sent)
    matmul, sizes = "h = bf16[B, D_X] * bf16[D_X, F]; ", {"B": 512, "D": 4096, "F": 4096}
    for after, stays in {
        "sum_F(h) -> bf16[B]": True,
        "sum_F(neg(h)) -> bf16[B]": True,
        "sum_F(h / bf16[F]) -> bf16[B]": True,
        "h * bf16[F, K] -> bf16[B, K]": True,
        "sum_F(relu(h)) -> bf16[B]": False,
        "sum_F(bf16[F] / h) -> bf16[B]": False,
        "max_F(h) -> bf16[B]": False,
    }.items():
        widths = {"K": 64} if "K" in after else {}
        names = [plan.name for plan in shard(matmul + after, on="h100:8", **sizes, **widths)]
        sums = {"AllReduce_X(bf16[B] {U_X})", "AllReduce_X(bf16[B, K] {U_X})"}
        assert (not sums.isdisjoint(names)) == stays, after


@pytest.mark.parametrize(("function", "dtype"), [("argmax", "int32"), ("logsumexp", "fp32"), ("variance", "fp32")])
def test_reductions_over_a_sharded_vocabulary_send_two_numbers_a_row_at_once(function: str, dtype: str) -> None:
    """One after the other they take twice the hops, and less where the partial results are narrower."""
    line = f"{function}_V(fp32[B, V_X]) -> {dtype}[B]"
    found = best(line, B=64, V=128256)
    assert (found.name, found.link_bytes) == ("AllReduce_X(statistics)", 2 * 7 / 8 * 64 * 2 * 4)
    apart = f"AllReduce_X(statistics); AllReduce_X({dtype}[B] {{U_X}})"
    assert apart in [plan.name for plan in shard(line, on="h100:8", B=64, V=128256)]


def test_a_running_sum_along_a_sharded_dimension_sends_one_number_a_row() -> None:
    for function in ("cumsum", "cumprod", "cummax"):
        found = best(f"{function}_T(fp32[B, T_X]) -> fp32[B, T_X]", B=1024, T=65536)
        assert (found.name, found.link_bytes) == ("AllReduce_X(statistics)", 2 * 7 / 8 * 1024 * 4)


def test_the_largest_of_a_sharded_row_are_merged() -> None:
    found = best("topk_V(bf16[B, V_X], k=8) -> bf16[B, 8]", B=64, V=128256)
    assert found.name == "AllReduce_X(statistics)"
    assert found.link_bytes == 2 * 7 / 8 * 64 * 8 * (2 + 4)  # an entry in bf16 and its place in int32
    assert best("topk_V(fp32[B, V_X], k=8) -> fp32[B, 8]", B=64, V=128256).link_bytes == 2 * 7 / 8 * 64 * 8 * (4 + 4)
    assert found.bound.flops == 64 * 128256 // 8


def test_more_may_be_the_largest_of_a_row_than_a_chip_has_of_it() -> None:
    line = "topk_V(bf16[B, V_X], k={}) -> bf16[B, {}]"
    assert bound(line.format(8, 8), on="h100:8", B=1, V=32, plan="AllReduce_X(statistics)").flops == 32 // 8
    with pytest.raises(SizeError, match="topk cannot take 33 of 32"):
        bound(line.format(33, 33), on="h100:8", B=1, V=32)
