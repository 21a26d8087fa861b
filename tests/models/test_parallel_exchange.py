"""What chips send each other, against formulas written by hand, and against published times."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InputError, RooflineError, SizeError
from roofline.hardware import chip
from roofline.models import decode, load, prefill, serve, serve_bound, serve_table
from roofline.models.blocks.experts import Experts
from roofline.models.blocks.mlp import Mlp
from roofline.models.blocks.residual import Norm, Residual
from roofline.models.description import Layer, Model
from roofline.models.limits import network_limit, network_share
from roofline.models.parallelism import Parallelism
from roofline.models.sharded import share, shares
from roofline.sizes import symbol
from roofline.work import Op
from tests.models.tiny import TINY


def sent(ops: Any, kind: str, part: str = "") -> list[Op]:
    return [op for op in ops if op.options.get("collective") == kind and part in op.where]


@given(ways=st.sampled_from([2, 4, 8]), batch=st.integers(1, 64), name=st.sampled_from(["llama-3-70b", "gpt-3"]))
@settings(max_examples=20, deadline=None)
def test_two_all_reduces_of_the_tokens_a_layer(ways: int, batch: int, name: str) -> None:
    """Megatron: forward, 2 AllReduce of tokens x width in each layer, and one after the vocabulary's table."""
    model = load(name)
    local, _ = share(model, chip(f"h200:{ways}"), tensor=ways)
    found = sent(decode(local, batch=batch, context=100), "AllReduce")
    assert sum(op.repeat for op in found) == 2 * len(model.layers) + 1
    assert {op.dims["bytes"] for op in found} == {batch * model.width * 2}
    wire = sum(op.work.total("wire") * op.repeat for op in found)
    assert wire == pytest.approx((2 * len(model.layers) + 1) * 2 * batch * model.width * 2 * (ways - 1) / ways)


@pytest.mark.parametrize("exchange", ["all-to-all", "per-expert"])
@pytest.mark.parametrize(("tensor", "data", "each"), [(1, 8, 32), (2, 4, 64), (8, 1, 256)])
def test_two_all_to_alls_of_the_chosen_rows_a_layer(tensor: int, data: int, each: int, exchange: str) -> None:
    """Each chip sends tokens · c rows in fp8 and gets as many back in bf16, 1/n of them its own; then an AllGather.

    c are the chips that a token's experts lie on: 8 of the 128 on four of eight chips, as routing is limited to those.
    """
    model, n = load("deepseek-v3"), 8
    ways = {"tensor": tensor, "expert": 8, "exchange": exchange}
    sent_to = 8 if exchange == "per-expert" else 4 * (1 - comb(96, 8) / comb(128, 8))
    local, _ = share(model, chip("h200:8"), **ways)
    ops = decode(local, batch=each * data, context=100)
    own, k, width = each // tensor, 8, 7168
    for part, size in (("dispatch", 1), ("combine", 2)):
        (op,) = sent(ops, "AllToAll", part)
        assert op.repeat == 58
        assert op.work.total("wire") == pytest.approx(own * sent_to * width * size * (n - 1) / n)
    gathers = sent(ops, "AllGather", "mlp.gather")
    assert len(gathers) == (tensor > 1)
    if gathers:
        assert gathers[0].dims["bytes"] == each * width * 2
    # tokens reach each expert that all copies chose, and each chip has 32 of the 256
    up = next(op for op in ops if op.where.endswith("experts.up_proj"))
    everyone = each * data
    assert up.dims["m"] == everyone * k / n
    assert up.dims["groups"] == pytest.approx(256 * (1 - (1 - 8 / 256) ** everyone) / n)


def test_the_published_time_of_dispatch_and_combine() -> None:
    """(1 + 2) bytes · 32 tokens · 9 experts · 7,000 ÷ 50 GB/s = 120.96 µs for each layer.

    Zhao et al., "Insights into DeepSeek-V3", arXiv:2505.09343, section 2.3.2. It sends to the shared expert too, rounds
    7168 to 7k, and has no expert on a token's own chip; all of it over InfiniBand.
    """
    published = (1 + 2) * 32 * 9 * 7000 / 50e9
    assert published == pytest.approx(120.96e-6)
    chips = 256
    asked: dict[str, Any] = {"expert": chips, "batch": 32 * chips, "context": 1000, "expert_exchange": "per-expert"}
    found = serve_bound("deepseek-v3", "decode", on=f"h200:{chips}", **asked)
    over_ib = sum(
        use.time / part.op.repeat
        for part in found.ops
        if part.op.options.get("collective") == "AllToAll"
        for use in part.uses
        if use.resource == "nic"
    )
    assert over_ib == pytest.approx(published * (8 / 9) * (7168 / 7000) * (chips - 8) / chips)
    # 61 layers as in the paper: 14.76 ms a token, 67 tokens a second, with two micro-batches that hide the rest
    assert 2 * published * 61 == pytest.approx(14.76e-3, rel=1e-3)


def test_sums_or_tokens() -> None:
    """Eight chips that split attention: AllReduce adds up sums, AllToAll sends tokens; the work is the same."""
    options: dict[str, Any] = {"on": "h200:8", "tensor": 8, "expert": 8, "batch": 64, "context": 1000}
    summed = serve_bound("deepseek-v3", "decode", **options)
    tokens = serve_bound("deepseek-v3", "decode", expert_exchange="all-to-all", **options)

    def routed(found: Any) -> dict[str, float]:
        return {p.op.where: float(p.flops) for p in found.ops if ".experts." in p.op.where and "proj" in p.op.where}

    assert routed(summed) == pytest.approx(routed(tokens))
    reduced = next(part for part in summed.ops if part.op.where == "layers.3-60.mlp.all_reduce")
    assert reduced.op.dims["bytes"] == 64 * 7168 * 2
    assert not [part for part in tokens.ops if part.op.where == "layers.3-60.mlp.all_reduce"]
    assert any("a token is sent once to each chip that has some of its experts" in line for line in tokens.assumptions)
    each = serve_bound("deepseek-v3", "decode", expert_exchange="per-expert", **options)
    assert routed(each) == pytest.approx(routed(tokens))
    assert any("a token is sent once for each of its experts" in line for line in each.assumptions)


def test_the_busiest_chip_sets_the_time_of_skewed_experts() -> None:
    """Half of the choices fall on two of eight experts, which lie on the first of four chips."""
    model = load("mixtral-8x7b")
    skew = [2, 2] + [4 / 6] * 6
    local, _ = share(model, chip("h200:4"), expert=4)
    even = decode(local, batch=64, context=100)
    skewed = decode(local, batch=64, context=100, skew=skew)

    def rows(ops: Any) -> Any:
        return next(op for op in ops if op.where.endswith("up_proj")).dims

    assert rows(even)["m"] == 64 * 2 / 4
    assert rows(skewed)["m"] == pytest.approx(64 * 2 * 4 / 8)
    assert rows(skewed)["groups"] == pytest.approx(2 * (1 - (1 - 2 * 2 / 8) ** 64))

    def wire(ops: Any) -> float:
        return sum(op.work.total("wire") * op.repeat for op in sent(ops, "AllToAll"))

    met = 1 - comb(6, 2) / comb(8, 2)
    assert wire(skewed) / wire(even) == pytest.approx((1 - (1 - met) ** 2) / met)
    each, _ = share(model, chip("h200:4"), expert=4, exchange="per-expert")
    sizes: dict[str, Any] = {"batch": 64, "context": 100}
    assert wire(decode(each, **sizes, skew=skew)) == pytest.approx(2 * wire(decode(each, **sizes)))
    alike = decode(local, **sizes, skew=[3] * 8)
    assert wire(alike) == pytest.approx(wire(even))
    with pytest.raises(SizeError, match="the skew has 4 shares, and there are 8 experts"):
        decode(local, batch=64, context=100, skew=[1, 1, 1, 1])


def test_keys_and_values_pass_round() -> None:
    """Ring attention: each chip gets the others' keys and values, (c − 1)/c of 2·K·H·S bytes a layer and sequence."""
    model = load("llama-3-70b")
    local, _ = share(model, chip("h200:8"), tensor=2, context=4)
    ops = prefill(local, batch=2, prompt=8192)
    (ring,) = sent(ops, "AllGather", "ring")
    kept = 2 * 8192 * 2 * 4 * 128 * 2
    assert ring.dims["bytes"] == kept
    assert ring.work.total("wire") == pytest.approx(kept * 3 / 4)
    later = prefill(local, batch=2, prompt=4096, past=4096)
    assert sent(later, "AllGather", "ring")[0].dims["bytes"] == kept


def test_partial_results_are_put_together() -> None:
    """Decode: each head's log-sum-exp in fp32 from every chip, and an AllReduce of tokens x heads x width."""
    local, _ = share(load("llama-3-70b"), chip("h200:8"), tensor=2, context=4)
    ops = decode(local, batch=3, context=10000)
    (sums,), (results,) = sent(ops, "AllGather", "sums"), sent(ops, "AllReduce", "combine")
    assert sums.dims["bytes"] == 3 * 32 * 4 * 4
    assert results.dims["bytes"] == 3 * 32 * 128 * 2


def test_stages_send_the_hidden_state_on() -> None:
    ways = Parallelism.on(chip("h200:8"), pipeline=4, tensor=2)
    parts, machine = shares(load("llama-3-70b"), chip("h200:8"), ways)
    assert str(machine.mesh) == "Mesh(pipeline=4 nvlink switch, tensor=2 nvlink switch)"
    for number, part in enumerate(parts):
        found = sent(decode(part, batch=3, context=10), "Permute")
        assert len(found) == (number < 3)
        if found:
            assert found[0].work.total("wire") == 3 * 8192 * 2


# ---- one chip, arrays, limits


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v3", "qwen3.5-35b-a3b", "deepseek-v4-flash"])
def test_ways_of_one_are_no_ways(name: str) -> None:
    ones = dict.fromkeys(("tensor", "pipeline", "data", "expert", "context_parallel"), 1)
    for phase, sizes in (("prefill", {"prompt": 100}), ("decode", {"context": 100})):
        plain = serve_bound(name, phase, on="h200", batch=4, **sizes)
        assert serve_bound(name, phase, on="h200", batch=4, **sizes, **ones).to_dict() == plain.to_dict()


def test_arrays_of_layouts_are_single_answers() -> None:
    tensor, batch = np.array([1, 2, 4, 8]), np.array([[1], [24], [64]])
    found = serve_bound("llama-3-70b", "decode", on="h200:8", tensor=tensor, batch=batch, context=5000)
    assert found.lower.shape == (3, 4)
    for i, size in enumerate(batch[:, 0]):
        for j, ways in enumerate(tensor):
            one = serve_bound("llama-3-70b", "decode", on="h200:8", tensor=int(ways), batch=int(size), context=5000)
            for field in ("lower", "op_by_op", "upper", "flops", "utilisation", "intensity"):
                assert getattr(found, field)[i, j] == pytest.approx(getattr(one, field), rel=1e-12)
            assert found.bound_by.decode()[4 * i + j] == one.bound_by
            assert found.footprint is not None
            assert one.footprint is not None
            assert found.footprint.total[i, j] == pytest.approx(one.footprint.total)
            for resource, times in found.times.items():
                assert times[i, j] == pytest.approx(one.times.get(resource, 0.0))
    with pytest.raises(SizeError, match="the sizes do not broadcast"):
        serve_bound("llama-3-70b", "decode", on="h200:8", tensor=[1, 2], batch=np.array([1, 2, 3]), context=10)


def test_layouts_of_stages_and_experts_stack_too() -> None:
    found = serve_bound("deepseek-v3", "decode", on="h200:8", expert=[1, 8], batch=512, context=1000)
    assert found.lower[1] < found.lower[0]
    staged = serve_bound("llama-3-70b", "decode", on="h200:8", pipeline=[1, 2, 8], batch=64, context=1000)
    one = serve_bound("llama-3-70b", "decode", on="h200:8", pipeline=8, batch=64, context=1000)
    assert staged.lower[2] == pytest.approx(one.lower)


@pytest.mark.parametrize(
    ("name", "phase", "where", "kind", "sizes"),
    [
        ("llama-3-70b", "prefill", "h200", "tensor", {"batch": 64, "prompt": 4096}),
        ("llama-3-8b", "decode", "v5p", "tensor", {"batch": 64, "context": 4096}),
        ("llama-2-7b", "decode", "h100", "tensor", {"batch": 1, "context": 100}),
        ("deepseek-v3", "decode", "h200", "expert", {"batch": 64, "context": 4096}),
        ("gpt-oss-120b", "prefill", "v5e", "tensor", {"batch": 8, "prompt": 2048}),
    ],
)
def test_the_limit_is_that_of_a_scan(name: str, phase: str, where: str, kind: str, sizes: dict[str, Any]) -> None:
    """Fresh answers for every number that divides: the network binds from the one that was solved for on."""
    found = network_limit(load(name), phase, chip(where), kind=kind, **sizes)
    kinds: dict[int, bool] = {}
    for ways in range(2, 257):
        total = sizes["batch"] * (ways if kind == "expert" else 1)
        options: dict[str, Any] = {**sizes, "batch": total, kind: ways}
        try:
            one = serve_bound(name, phase, on=where, **options)
        except RooflineError:
            continue
        kinds[ways] = one.kind in ("network-bound", "latency-bound")
        assert kinds[ways] == (network_share(one) > 1)
    free = [ways for ways, waits in kinds.items() if not waits]
    waiting = [ways for ways, waits in kinds.items() if waits]
    assert found.ways == max(free, default=None)
    assert found.beyond == min(waiting, default=None)


def test_the_limit_of_the_books_layer() -> None:
    """Two matrices of D x F, an AllGather and a ReduceScatter of B x D: n − 1 < F·W/C in one node (chapters 5, 12)."""
    width, hidden = 4096, 16384
    layer = Layer((Norm("norm", width), Mlp("mlp", width, hidden, gated=False), Residual("add")))
    model = Model("two matrices", "test", width, 64, (layer,) * 8, "bf16", head=False, tied=True)
    peak, link = 990e12, 450e9

    def share_of_network(ways: int) -> float:
        found = serve_bound(
            model, "prefill", on="h100", tensor=ways, sequence_parallel=True, batch=1, prompt=65536,
            set={"bf16": peak, "nvlink": link},
        )  # fmt: skip
        parts = [part for part in found.ops if ".mlp" in part.op.where]
        network = sum(use.time for part in parts for use in part.uses if use.quantity == "wire")
        return network / sum(use.time for part in parts for use in part.uses if use.resource == "tensor")

    most = hidden * link / peak
    assert int(most) == 7
    for ways in (2, 4, 8):
        assert share_of_network(ways) == pytest.approx((ways - 1) / most)


def test_the_limit_of_the_books_layer_in_decode() -> None:
    """The same matrices, B tokens: weights at M bytes/s against B x D both ways, n − 1 < F·W/(B·M) (chapter 7)."""
    width, hidden, batch = 4096, 16384, 32
    layer = Layer((Norm("norm", width), Mlp("mlp", width, hidden, gated=False), Residual("add")))
    model = Model("two matrices", "test", width, 64, (layer,) * 8, "bf16", head=False, tied=True)
    memory, link = 3.3e12, 450e9
    most = hidden * link / (batch * memory)
    for ways in (2, 4, 8):
        found = serve_bound(
            model, "decode", on="h100", tensor=ways, sequence_parallel=True, batch=batch, context=1,
            policy="streamed", set={"hbm": memory, "nvlink": link},
        )  # fmt: skip
        network = sum(use.time for part in found.ops if ".mlp" in part.op.where
                      for use in part.uses if use.quantity == "wire")  # fmt: skip
        assert network / found.times["hbm"] == pytest.approx((ways - 1) / most)


def test_stages_on_a_torus_are_neighbours() -> None:
    parts, _ = shares(load("llama-2-70b"), chip("v5e:4x4"), Parallelism.on(chip("v5e:4x4"), pipeline=4, tensor=4))
    (message,) = sent(decode(parts[0], batch=2, context=10), "Permute")
    assert message.work.total("hops") == 1
    assert message.work.total("wire") == 2 * 8192 * 2


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("shared", ["replicated", "split"])
def test_experts_over_everything(sequence: bool, shared: str) -> None:
    """Two copies of two parts of sequences of two halves of layers, all with the same experts."""
    model = load("deepseek-v3")
    ways = Parallelism.on(chip("h200:8"), tensor=2, context=2, data=2, expert=8, shared=shared, sequence=sequence)
    local, _ = share(model, chip("h200:8"), ways)
    for build, sizes in ((prefill, {"prompt": 64}), (decode, {"context": 64})):
        whole, part = (build(each, batch=4, **sizes) for each in (model, local))  # type: ignore[operator]
        tokens = 4 * sizes.get("prompt", 1)
        for ops, chips in ((whole, 1), (part, 8)):
            up = next(op for op in ops if op.where.endswith("mlp.experts.up_proj"))
            assert up.dims["m"] * chips == tokens * 8
            assert up.dims["groups"] * chips == pytest.approx(256 * (1 - (1 - 8 / 256) ** tokens))
        (there,) = sent(part, "AllToAll", "dispatch")
        assert there.dims["bytes"] == tokens * 8 * 7168
        # what shared experts do over all chips is one model's, whichever way they lie
        flops = [
            sum(op.work.total("flops", "matrix") * op.repeat for op in ops if "shared_experts" in op.where)
            for ops in (whole, part)
        ]
        assert flops[1] * 8 == flops[0]


def test_a_batch_that_copies_do_not_divide() -> None:
    found = serve_bound("llama-3-8b", "decode", on="h100:4", batch=6, context=1000)
    fullest = serve_bound("llama-3-8b", "decode", on="h100", batch=2, context=1000)
    assert found.lower == fullest.lower
    assert "4 copies do not divide a batch of 6: the fullest has 2" in found.assumptions
    many = serve_bound("llama-3-8b", "decode", on="h100:4", batch=np.array([4.0, 6.0, 8.0]), context=1000)
    assert many.lower[1] == found.lower == many.lower[2]


def test_json_of_several_layouts() -> None:
    found = serve("llama-3-70b", on="h200:8", tensor=[2, 4], batch=16, context=4096).to_dict()
    assert found["tensor"] == [2, 4]
    assert found["parallelism"] == {"chips": [8, 8], "data": [4, 2], "tensor": [2, 4]}
    assert len(found["time_per_token"]) == 2
    assert found["memory"]["fits"] == [True, True]


@pytest.mark.parametrize(
    "layout",
    [
        {"tensor": 4}, {"expert": 8}, {"tensor": 2, "expert": 8, "shared_experts": "split"},
        {"tensor": 4, "context_parallel": 2}, {"tensor": 8, "expert": 2},
    ],
    ids=str,
)  # fmt: skip
def test_numbers_arrays_symbols_and_tables_agree(layout: dict[str, Any]) -> None:
    sizes, letter = np.array([3.0, 64.0]), symbol("batch")
    asked: dict[str, Any] = {"on": "h200:8", "context": 1000, **layout}
    many = serve_bound("mixtral-8x7b", "decode", batch=sizes, **asked)
    rows = serve_table("mixtral-8x7b", "decode", batch=sizes, columns=("lower", "op_by_op", "upper"), **asked)
    open_ = serve_bound("mixtral-8x7b", "decode", batch=letter, **asked)
    for index, size in enumerate((3, 64)):
        one = serve_bound("mixtral-8x7b", "decode", batch=size, **asked)
        for name in ("lower", "op_by_op", "upper"):
            assert getattr(many, name)[index] == pytest.approx(getattr(one, name), rel=1e-12)
            assert rows[name][index] == pytest.approx(getattr(one, name), rel=1e-12)
        sent_ = sum(use.amount for use in open_.uses if use.quantity == "wire")
        assert float(sent_.subs(letter, size)) == pytest.approx(sum(one.wire.values()), rel=1e-12)


@pytest.mark.parametrize("layout", [{"tensor": 2}, {"tensor": 4, "data": 2}, {"expert": 8}], ids=str)
def test_where_copies_become_compute_bound(layout: dict[str, Any]) -> None:
    """The batch is that of all copies: fresh answers on both sides of it."""
    asked: dict[str, Any] = {"on": "h200:8", "context": 100, "policy": "streamed", **layout}
    found = serve("mixtral-8x7b", batch=8, **asked)
    flips = found.compute_bound_from()
    assert flips is not None
    batch = flips["whole"]
    assert batch is not None

    def computing(size: int) -> bool:
        one = serve_bound("mixtral-8x7b", "decode", batch=size, **asked)
        units = max(time for name, time in one.times.items() if name in ("tensor", "cuda"))
        return units >= one.times["hbm"]

    assert computing(batch)
    assert not computing(batch - 1)


def test_a_limit_that_the_length_of_an_axis_sets_says_so() -> None:
    sizes: dict[str, Any] = {"batch": 32, "context": 8192, "weights": "int8"}
    found = network_limit(load("llama-3-70b"), "decode", chip("v5e"), **sizes)
    assert found.says == "the network does not bind up to tensor 16, the most along one axis of the network"
    node = network_limit(load("llama-3-70b"), "decode", chip("h100"), batch=32, context=8192)
    assert node.says == "the network does not bind up to tensor 64, the most there can be here"


V3: dict[str, Any] = {**TINY["deepseek_v3"], "n_routed_experts": 16, "num_experts_per_tok": 2}


def limits_of(**fields: Any) -> set[tuple[int, int]]:
    config = {key: value for key, value in {**V3, **fields}.items() if value is not ...}
    layers = load(config, name="tiny").layers
    return {block.limit for layer in layers for block in layer.blocks if isinstance(block, Experts)}


def test_routing_that_is_limited_to_groups_is_read() -> None:
    """As transformers' classes do: DeepSeek-V3 has 4 of 8 groups where nothing is said, V2 none unless it says so."""
    assert limits_of(n_group=4, topk_group=2) == {(2, 4)}
    assert limits_of(n_group=..., topk_group=...) == {(4, 8)}
    assert limits_of(n_group=4, topk_group=2, topk_method="greedy") == {(1, 1)}
    assert limits_of(n_group=1, topk_group=1) == {(1, 1)}
    assert limits_of(model_type="deepseek_v2", n_group=4, topk_group=2) == {(1, 1)}
    for groups, taken, each in ((3, 1, 2), (4, 5, 2), (8, 1, 4)):
        with pytest.raises(InputError, match=f"to {each} experts of {taken} of {groups} groups of its 16"):
            limits_of(n_group=groups, topk_group=taken, num_experts_per_tok=each)
