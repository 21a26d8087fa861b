"""What chips send each other, against formulas written by hand, and against published times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import RooflineError, SizeError
from roofline.hardware import chip
from roofline.models import decode, load, prefill, serve, serve_bound, serve_table
from roofline.models.blocks.attention import tokens_passed
from roofline.models.blocks.feed_forward import Mlp
from roofline.models.blocks.residual import Norm, ResidualAdd
from roofline.models.description import Layer, Model
from roofline.models.operation_builder import ForwardPass
from roofline.models.parallelism.block_splitting import divides
from roofline.models.parallelism.layout import Parallelism
from roofline.models.parallelism.splitting import local_model, local_stages
from roofline.models.serving.limits import network_limit, network_share
from roofline.sizes import symbol
from roofline.work import Op
from tests.strategies import LONG, few, some


def sent(ops: Any, kind: str, part: str = "") -> list[Op]:
    return [op for op in ops if op.options.get("collective") == kind and part in op.where]


@given(ways=st.sampled_from([2, 4, 8]), batch=st.integers(1, 64), name=st.sampled_from(["llama-3-70b", "gpt-3"]))
@few(20)
def test_two_all_reduces_of_the_tokens_a_layer(ways: int, batch: int, name: str) -> None:
    """Megatron: forward, 2 AllReduce of tokens x width in each layer, and one after the vocabulary's table."""
    model = local_model(load(name), chip("h200"))[0]
    local, _ = local_model(model, chip(f"h200:{ways}"), tensor=ways)
    found = sent(decode(local, batch=batch, context=100), "AllReduce")
    assert sum(op.repeat for op in found) == 2 * len(model.layers) + 1
    assert {op.dims["bytes"] for op in found} == {batch * model.width * 2}
    wire = sum(op.work.total("wire") * op.repeat for op in found)
    # small arrays go to all others at once in one hop of 0.6 µs, large ones through the switches in two
    each = batch * model.width * 2
    sent_by_each = each * (ways - 1) if each * (ways - 1) < 1.2e-6 * 450e9 else each
    assert wire == pytest.approx((2 * len(model.layers) + 1) * sent_by_each)


def test_keys_and_values_pass_round() -> None:
    """Ring attention: each chip gets the others' keys and values, (c − 1)/c of 2·K·H·S bytes a layer and sequence."""
    model = load("llama-3-70b")
    local, _ = local_model(model, chip("h200:8"), tensor=2, context=4)
    ops = prefill(local, batch=2, prompt=8192)
    (ring,) = sent(ops, "AllGather", "ring")
    kept = 2 * 8192 * 2 * 4 * 128 * 2
    assert ring.dims["bytes"] == kept
    assert ring.work.total("wire") == pytest.approx(kept * 3 / 4)
    later = prefill(local, batch=2, prompt=4096, past=4096)
    assert sent(later, "AllGather", "ring")[0].dims["bytes"] == kept


def foreign(chips: int, sees: Callable[[int, int], bool]) -> int:
    """Of 48 tokens in runs on so many chips, those on others that the tokens of the busiest chip see."""
    run = 48 // chips
    runs = [range(first, first + run) for first in range(0, 48, run)]
    return max(sum(any(sees(i, j) for i in own) for j in range(48) if j not in own) for own in runs)


@pytest.mark.parametrize("chips", [2, 4])
@pytest.mark.parametrize("width", [1, 2, 7, 12, 30, 200])
def test_a_chip_receives_what_its_window_or_chunk_sees(chips: int, width: int) -> None:
    """Counted pair by pair: a window before its tokens, an encoder's on both sides, the rest of a chunk before them."""
    step = ForwardPass(1, 48, context=chips, ring=True)
    least = foreign(chips, lambda i, j: i - width < j <= i)
    assert tokens_passed(step, chips, window=width) * (chips - 1) / chips == pytest.approx(least)
    if width // 2 < 48 // chips:
        least = foreign(chips, lambda i, j: abs(i - j) <= width // 2)
        found = tokens_passed(step, chips, window=width, causal=False)
        assert found * (chips - 1) / chips == pytest.approx(least)
    if (48 // chips) % width == 0 or width % (48 // chips) == 0 or width > 48:
        least = foreign(chips, lambda i, j: j <= i and i // width == j // width)
        assert tokens_passed(step, chips, chunk=width) * (chips - 1) / chips == pytest.approx(least)


def test_an_encoder_passes_its_keys_and_values() -> None:
    """BERT keeps none between steps; each chip gets those of the 3/4 of the tokens that the others have, in fp32."""
    local, _ = local_model(load("bert-base"), chip("h200:4"), context=4)
    (ring,) = sent(prefill(local, batch=2, prompt=512), "AllGather", "ring")
    assert ring.work.total("wire") == 2 * 512 * 2 * 768 * 4 * 3 / 4


def test_partial_results_are_put_together() -> None:
    """Decode: each head's log-sum-exp in fp32 from every chip, and an AllReduce of tokens x heads x width."""
    local, _ = local_model(load("llama-3-70b"), chip("h200:8"), tensor=2, context=4)
    ops = decode(local, batch=3, context=10000)
    (sums,), (results,) = sent(ops, "AllGather", "sums"), sent(ops, "AllReduce", "combine")
    assert sums.dims["bytes"] == 3 * 32 * 4 * 4
    assert results.dims["bytes"] == 3 * 32 * 128 * 2


def test_results_on_latents_are_put_together_where_they_are_narrow() -> None:
    """A chip with kv_b's value half of every head multiplies by it first: 128 numbers a head are sent, not 512."""
    local, _ = local_model(load("deepseek-v3"), chip("h200:8"), tensor=2, context=4)
    ops = [op for op in decode(local, batch=3, context=10000) if "self_attn" in op.where]
    names = [op.name for op in ops[: len(ops) // 2]]
    assert names.index("absorb_value") < names.index("sums") < names.index("combine") < names.index("o_proj")
    results = next(op for op in ops if op.name == "combine")
    assert results.dims["bytes"] == sum(t.traffic_bytes for t in results.reads) == 3 * 64 * 128 * 2


def test_stages_send_the_hidden_state_on() -> None:
    ways = Parallelism.on(chip("h200:8"), pipeline=4, tensor=2)
    parts, machine = local_stages(load("llama-3-70b"), chip("h200:8"), ways)
    assert str(machine.mesh) == "Mesh(pipeline=4 nvlink switch, tensor=2 nvlink switch)"
    for number, part in enumerate(parts):
        found = sent(decode(part, batch=3, context=10), "Permute")
        assert len(found) == (number < 3)
        if found:
            assert found[0].work.total("wire") == 3 * 8192 * 2 / 2  # each of two chips a half


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
    some(
        [
            ("llama-3-70b", "prefill", "h200", "tensor", {"batch": 64, "prompt": 4096}),
            ("llama-3-8b", "decode", "v5p", "tensor", {"batch": 64, "context": 4096}),
            ("llama-2-7b", "decode", "h100", "tensor", {"batch": 1, "context": 100}),
            ("deepseek-v3", "decode", "h200", "expert", {"batch": 64, "context": 4096}),
            ("gemma-4-26b-a4b-nvfp4", "decode", "h100", "expert", {"batch": 8, "context": 1000}),
            ("gpt-oss-120b", "prefill", "v5e", "tensor", {"batch": 8, "prompt": 2048}),
            ("llama-13b", "decode", "h100", "tensor", {"batch": 1, "context": 100}),
            ("llama-13b", "prefill", "h200", "tensor", {"batch": 64, "prompt": 4096}),
        ],
        2,
        1,
    ),
)
def test_the_limit_is_that_of_a_scan(name: str, phase: str, where: str, kind: str, sizes: dict[str, Any]) -> None:
    """Fresh answers for every number of equal parts: the network binds from the one that was solved for on."""
    model = load(name)
    found = network_limit(model, phase, chip(where), kind=kind, **sizes)
    kinds: dict[int, bool] = {}
    for ways in range(2, 257):
        equal = divides(model, 1, ways) if kind == "expert" else divides(model, ways)
        if not equal and ways > (20 if LONG else 8):
            continue
        total = sizes["batch"] * (ways if kind == "expert" else 1)
        options: dict[str, Any] = {**sizes, "batch": total, kind: ways}
        try:
            one = serve_bound(name, phase, on=where, **options)
        except RooflineError:
            continue
        waits = one.kind in ("network-bound", "latency-bound")
        assert waits == (network_share(one) > 1)
        if equal:  # parts that are padded are answered, but are no limit
            kinds[ways] = waits
    free = [ways for ways, waits in kinds.items() if not waits]
    waiting = [ways for ways, waits in kinds.items() if waits]
    assert found.ways == max(free, default=None)
    assert found.beyond == min(waiting, default=None)


def test_the_limit_of_the_books_layer() -> None:
    """Two matrices of D x F, an AllGather and a ReduceScatter of B x D: n − 1 < F·W/C in one node (chapters 5, 12)."""
    width, hidden = 4096, 16384
    layer = Layer((Norm("norm", width), Mlp("mlp", width, hidden, gated=False), ResidualAdd("add")))
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
    layer = Layer((Norm("norm", width), Mlp("mlp", width, hidden, gated=False), ResidualAdd("add")))
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
    parts, _ = local_stages(load("llama-2-70b"), chip("v5e:4x4"), Parallelism.on(chip("v5e:4x4"), pipeline=4, tensor=4))
    (message,) = sent(decode(parts[0], batch=2, context=10), "Permute")
    assert message.work.total("hops") == 1
    assert message.work.total("wire") == 2 * 8192 * 2 / 4


@pytest.mark.parametrize("on", ["v5p:4x4x4", "v5e:4x4"])
def test_stages_over_two_axes_of_a_torus_send_no_less_than_the_best_routes(on: str) -> None:
    """A linear program over all routes of all messages, stages in a row as a snake."""
    optimize = pytest.importorskip("scipy.optimize")
    target = chip(on)
    layout = Parallelism.on(target, pipeline=16, tensor=target.mesh.chips // 16)
    parts, _ = local_stages(load("llama-2-70b"), target, layout)
    (message,) = sent(decode(parts[0], batch=2, context=10), "Permute")
    counted = message.work.total("wire") / message.dims["bytes"]
    snake = [(row, column if row % 2 == 0 else 3 - column) for row in range(4) for column in range(4)]
    closes = on == "v5p:4x4x4"
    apart = {(a, b): [_apart(x, y, closes) for x, y in zip(a, b, strict=True)] for a in snake for b in snake}
    links = [ends for ends, steps in apart.items() if sum(steps) == 1]
    hops, pairs = np.array([[(b == c) - (a == c) for a, b in links] for c in snake]), list(pairwise(snake))
    wanted = np.concatenate([[(c == end) - (c == begin) for c in snake] for begin, end in pairs])
    routes = np.hstack([np.kron(np.eye(len(pairs)), hops), np.zeros((len(wanted), 1))])
    carried = np.hstack([np.tile(np.eye(len(links)), len(pairs)), -np.ones((len(links), 1))])
    most = [0] * len(links) * len(pairs) + [1]
    best = optimize.linprog(most, carried, np.zeros(len(links)), routes, wanted).fun
    assert 0.8 * best < counted <= best < 0.7
    parts, _ = local_stages(load("llama-2-70b"), target, replace(layout, algorithm="direct"))
    (message,) = sent(decode(parts[0], batch=2, context=10), "Permute")
    assert message.work.total("wire") == message.dims["bytes"]


def _apart(a: int, b: int, closes: bool) -> int:
    return min(abs(a - b), 4 - abs(a - b)) if closes else abs(a - b)


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
    some(
        [
            {"tensor": 4}, {"expert": 8}, {"tensor": 2, "expert": 8, "shared_experts": "split"},
            {"tensor": 4, "context_parallel": 2}, {"tensor": 8, "expert": 2},
        ],
        3, 1,
    ),
    ids=str,
)  # fmt: skip
def test_numbers_arrays_symbols_and_tables_agree(layout: dict[str, Any]) -> None:
    sizes, letter = np.array([3.0, 64.0]), symbol("batch")
    asked: dict[str, Any] = {"on": "h200:8", "context": 1000, **layout}
    model = "deepseek-v3" if "shared_experts" in layout else "mixtral-8x7b"
    many = serve_bound(model, "decode", batch=sizes, **asked)
    rows = serve_table(model, "decode", batch=sizes, columns=("lower", "op_by_op", "upper"), **asked)
    open_ = serve_bound(model, "decode", batch=letter, **asked)
    for index, size in enumerate((3, 64)):
        one = serve_bound(model, "decode", batch=size, **asked)
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
    assert (
        found.says()
        == "the network does not bind up to tensor 16, the most in equal parts along one axis of the network"
    )
    node = network_limit(load("llama-3-70b"), "decode", chip("h100"), batch=32, context=8192)
    assert node.says() == "the network does not bind up to tensor 64, the most in equal parts"
    wide = network_limit(load("llama-3-70b"), "decode", chip("h100"), batch=8, context=1024, weights="int8")
    assert wide.says(8) == wide.says() == "the network does not bind up to tensor 32; from 64 on it does"
    assert wide.says(64) == "the network binds from tensor 64 on; up to 32 it does not"


def test_a_limit_of_heads_in_branches_is_that_of_the_same_heads_in_turn() -> None:
    """Attention beside the MLP has the heads of a model that runs one behind the other."""
    fields = {
        "model_type": "gpt_neox", "hidden_size": 6144, "num_hidden_layers": 44, "num_attention_heads": 64,
        "intermediate_size": 24576, "vocab_size": 50432,
    }  # fmt: skip
    limits = [
        network_limit(load({**fields, "use_parallel_residual": beside}), "decode", chip("h100"), batch=8, context=1000)
        for beside in (True, False)
    ]
    assert [limit.ways for limit in limits] == [64, 32]  # in turn there are twice as many sums to exchange
    found = serve({**fields, "use_parallel_residual": True}, on="h100", batch=8, context=8000)
    assert "half the heads of keys and values" in [line.change for line in found.advise()]


def test_a_model_without_equal_parts_has_no_limit() -> None:
    odd = {
        "model_type": "llama", "hidden_size": 320, "num_hidden_layers": 2, "num_attention_heads": 5,
        "intermediate_size": 333, "vocab_size": 1000,
    }  # fmt: skip
    found = network_limit(load(odd), "decode", chip("h100"), batch=8, context=1000)
    assert found.says() == "no number of chips has equal parts of heads and columns"
    assert repr(found) == "NetworkLimit(tensor: no equal parts)"
