"""Whole networks as ONNX graphs against the same counts by hand as in torch and JAX; loops over layers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from onnx import TensorProto, helper

from roofline.errors import InputError
from roofline.programs import trace as trace_any
from tests.programs import onnx_networks
from tests.programs.onnx_models import model, value, weight
from tests.strategies import some

#: 2 per multiply-add; convolutions with padded positions, every score, logits of every token. The mean and variance
#: of a batch norm are no parameters.
COUNTS = [
    ("vgg16", onnx_networks.vgg16, 30_940_528_640, 138_357_544),
    ("mobilenet v1", onnx_networks.mobilenet_v1, 1_137_480_704, 4_231_976),
    ("resnet-50", onnx_networks.resnet50, 8_178_368_512, 25_557_032),
    ("gpt-2", onnx_networks.gpt2, 291_648_307_200, 124_439_808),
    ("bert-base", onnx_networks.bert_of_the_runtime, 22_348_431_360, 109_482_240),
]


def trace(program, **options):
    return trace_any(program, frontend="onnx", **options)


@pytest.mark.parametrize(
    ("build", "flops", "parameters"), some([c[1:] for c in COUNTS], 2), ids=some([c[0] for c in COUNTS], 2)
)
def test_network(build, flops, parameters):
    traced = trace(build())
    (batch,) = traced.flops("unmasked").free_symbols
    assert traced.flops("unmasked") == flops * batch
    assert traced.parameters() == parameters
    assert traced.complete


def test_llama_as_the_runtime_writes_it():
    traced = trace(onnx_networks.llama_of_the_runtime(), batch=1, sizes={"S": 2048})
    hidden = 32 * 32 * 4 * 128 * (2048 * 2048 - 2048 * 2049 // 2)
    assert traced.flops("unmasked") == 29_261_612_187_648
    assert traced.flops() == 29_261_612_187_648 - hidden
    assert traced.parameters() - 2 * 4096 * 64 == 6_738_415_616
    assert traced.complete
    formula = trace(onnx_networks.llama_of_the_runtime(layers=2), batch=1).flops("unmasked")
    (length,) = formula.free_symbols
    products = 2 * (4 * 4096**2 + 3 * 4096 * 11008)
    assert formula.expand() == 2 * length * (products + 4096 * 32000) + 2 * 4 * 4096 * length**2


def _layer(weights):
    """tanh(x·w) as the body of a loop."""
    nodes = [helper.make_node("MatMul", ["c", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["d"])]
    return nodes, [value("c", 8, 16), *weights]


@pytest.mark.parametrize("batch", [8])
def test_unrolled_is_scanned(batch):
    nodes, inputs = _layer([value("w", 16, 16)])
    body = helper.make_graph(nodes, "layer", inputs, [value("d", batch, 16)])
    scan = helper.make_node("Scan", ["x", "ws"], ["y"], body=body, num_scan_inputs=1)
    looped = trace(model([scan], [value("x", batch, 16)], [value("y")], [weight("ws", 5, 16, 16)]))
    flat, x = [], "x"
    for i in range(5):
        flat += [helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"]), helper.make_node("Tanh", [f"m{i}"], [f"x{i}"])]
        x = f"x{i}"
    unrolled = trace(model(flat, [value("x", batch, 16)], [value(x)], [weight(f"w{i}", 16, 16) for i in range(5)]))
    assert looped.flops("all") == unrolled.flops("all")
    assert looped.flops() == 5 * 2 * batch * 16 * 16
    assert looped.bytes() == unrolled.bytes()


@pytest.mark.parametrize("times", [1, 2, 3, 7])
def test_the_floor_of_a_loop_reads_its_weights_once_and_none_of_what_it_carries(times):
    scalars = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("i", 7), ("on", 9), ("go", 9))]
    nodes = [*_layer([])[0], helper.make_node("Identity", ["on"], ["go"])]
    body = helper.make_graph(nodes, "body", [*scalars[:2], value("c", 8, 16)], [scalars[2], value("d", 8, 16)])
    loop = helper.make_node("Loop", ["many", "", "x"], ["h"], body=body)
    many = helper.make_tensor("many", TensorProto.INT64, [], [times])
    held = [many, weight("w", 16, 16)]
    last = helper.make_node("Relu", ["h"], ["y"])
    traced = trace(model([loop, last], [value("x", 8, 16)], [value("y", 8, 16)], held))
    assert traced.flops() == times * 2 * 8 * 16 * 16
    assert traced.bytes("minimal") == 4 * (8 * 16 + 16 * 16 + 8 * 16)
    alone = trace(model([loop], [value("x", 8, 16)], [value("h", 8, 16)], held))
    assert alone.bytes("minimal") == traced.bytes("minimal")


def _counting(nodes, stated=()):
    """A body that counts its steps in ``i`` and brings c to d, of what its nodes do."""
    scalars = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("i", 7), ("on", 9), ("go", 9))]
    nodes = [helper.make_node("Identity", ["on"], ["go"]), *nodes]
    ends = [scalars[2], value("d", 8, 16)]
    return helper.make_graph(nodes, "body", [*scalars[:2], value("c", 8, 16)], ends, value_info=stated)


_PICKED = [helper.make_node("Gather", ["w", "i"], ["l"]), helper.make_node("MatMul", ["c", "l"], ["d"])]
_SLICED = [
    *(helper.make_node("Constant", [], [name], value_ints=[n]) for n, name in enumerate(("zero", "one"))),
    helper.make_node("Unsqueeze", ["i", "zero"], ["from"]),
    helper.make_node("Add", ["from", "one"], ["to"]),
    helper.make_node("Slice", ["w", "from", "to", "zero"], ["s"]),
    helper.make_node("Squeeze", ["s", "zero"], ["l"]),
    helper.make_node("MatMul", ["c", "l"], ["d"]),
]


@pytest.mark.parametrize("times", [1, 2, 3, 6, 12])
@pytest.mark.parametrize("nodes", [_PICKED, _SLICED])
def test_layers_that_a_loop_picks_by_its_counter_are_read_each_once(times, nodes):
    body = _counting(nodes, [value("s", 1, 16, 16), value("l", 16, 16)] if nodes is _SLICED else [])
    held = [helper.make_tensor("many", TensorProto.INT64, [], [times]), weight("w", 6, 16, 16)]
    loop = helper.make_node("Loop", ["many", "", "x"], ["y"], body=body)
    traced = trace(model([loop], [value("x", 8, 16)], [value("y", 8, 16)], held))
    assert traced.flops() == times * 2 * 8 * 16 * 16
    assert 0 <= traced.bytes("minimal") - 4 * (2 * 8 * 16 + min(times, 6) * 16 * 16) <= 256  # and counters
    if nodes is _PICKED:
        again = [helper.make_node("Loop", ["many", "", a], [b], body=body) for a, b in (("x", "h"), ("h", "y"))]
        twice = trace(model(again, [value("x", 8, 16)], [value("y", 8, 16)], held))
        assert twice.bytes("minimal") == traced.bytes("minimal")


def test_layers_that_a_loop_in_a_loop_picks_are_read_each_once():
    scalars = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("j", 7), ("on2", 9), ("go2", 9))]
    inner = helper.make_node("Loop", ["many", "", "e"], ["f"], body=_counting(_PICKED))
    nodes = [helper.make_node("Identity", ["on2"], ["go2"]), inner]
    outer = helper.make_graph(nodes, "o", [*scalars[:2], value("e", 8, 16)], [scalars[2], value("f", 8, 16)])
    held = [helper.make_tensor("many", TensorProto.INT64, [], [6]), weight("w", 6, 16, 16)]
    loop = helper.make_node("Loop", ["many", "", "x"], ["y"], body=outer)
    traced = trace(model([loop], [value("x", 8, 16)], [value("y", 8, 16)], held))
    assert traced.flops() == 36 * 2 * 8 * 16 * 16
    assert 0 <= traced.bytes("minimal") - 4 * (2 * 8 * 16 + 6 * 16 * 16) <= 256


@pytest.mark.parametrize("after", ["Gather", "ReduceSum"])
def test_what_a_scan_reads_slice_by_slice_is_not_read_again(after):
    step = helper.make_graph(
        [helper.make_node("MatMul", ["h", "row"], ["d"])], "s", [value("h", 8, 16), value("row", 16, 16)],
        [value("d", 8, 16)],
    )  # fmt: skip
    number = helper.make_tensor("k", TensorProto.INT64, [] if after == "Gather" else [1], [0])
    more = {} if after == "Gather" else {"keepdims": 0}
    nodes = [
        helper.make_node("Scan", ["x", "w"], ["z"], body=step, num_scan_inputs=1),
        helper.make_node(after, ["w", "k"], ["l"], **more),
        helper.make_node("MatMul", ["z", "l"], ["y"]),
    ]
    held = [number, weight("w", 6, 16, 16)]
    traced = trace(model(nodes, [value("x", 8, 16)], [value("y", 8, 16)], held))
    assert traced.bytes("minimal") == 4 * (2 * 8 * 16 + 6 * 16 * 16)
    assert traced.bound(on="h100").footprint.parts["weight"] == 4 * 6 * 16 * 16


def test_a_scan_with_a_batch_of_its_own_is_refused():
    body = helper.make_graph([helper.make_node("Relu", ["row"], ["out"])], "cell", [value("row", 3)], [value("out", 3)])
    scan = helper.make_node("Scan", ["", "rows"], ["ys"], body=body, num_scan_inputs=1)
    old = model([scan], [value("rows", 2, 5, 3)], [value("ys", 2, 5, 3)])
    old.opset_import[0].version = 8
    with pytest.raises(InputError, match="a Scan of operator set 8 has a batch"):
        trace(old)


@pytest.mark.parametrize("given", [("last", "ys"), ("last",), ("ys",)])
@pytest.mark.parametrize("stacked", ["Relu", "Identity", "before"])
def test_a_recurrence_is_scanned_in_onnx_as_in_jax(stacked, given):
    nodes = [
        helper.make_node("MatMul", ["h", "w"], ["m"]),
        helper.make_node("Add", ["m", "row"], ["a"]),
        helper.make_node("Tanh", ["a"], ["d"]),
        helper.make_node("Relu" if stacked == "Relu" else "Identity", ["h" if stacked == "before" else "d"], ["out"]),
    ]
    inputs, outputs = [value("h", 4, 16), value("row", 4, 16)], [value("d", 4, 16), value("out", 4, 16)]
    body = helper.make_graph(nodes, "cell", inputs, outputs)
    scan = helper.make_node("Scan", ["first", "rows"], ["last", "ys"], body=body, num_scan_inputs=1)
    taken = [value("first", 4, 16), value("rows", 10, 4, 16)]
    results = {"last": value("last", 4, 16), "ys": value("ys", 10, 4, 16)}
    ours = trace(model([scan], taken, [results[name] for name in given], [weight("w", 16, 16)]))

    def recurrence(w, first, rows):
        def cell(h, row):
            d = jnp.tanh(h @ w + row)
            return d, {"Relu": jax.nn.relu(d), "Identity": d, "before": h}[stacked]

        found = dict(zip(("last", "ys"), jax.lax.scan(cell, first, rows), strict=True))
        return [found[name] for name in given]

    other = trace_any(recurrence, "fp32[16, 16]", "fp32[4, 16]", "fp32[10, 4, 16]", frontend="jax")
    assert ours.flops() == other.flops() == 10 * 2 * 4 * 16 * 16
    assert ours.bytes("minimal") == other.bytes("minimal")
    rows = 1 + 10 + sum({"last": 1, "ys": 10}[name] for name in given)
    rows -= stacked == "before" and given == ("ys",)  # the last row is of nothing that is given back
    assert ours.bytes("minimal") == 4 * (16 * 16 + rows * 4 * 16)
    if stacked == "before":
        return
    taken[1], results["ys"] = value("rows", "n", 4, 16), value("ys", "n", 4, 16)
    opened = trace(model([scan], taken, [results[name] for name in given], [weight("w", 16, 16)])).bytes("minimal")
    assert opened.subs(dict.fromkeys(opened.free_symbols, 10)) == ours.bytes("minimal")


@pytest.mark.parametrize(("which", "taken"), [(1, 2 * 8**3), (0, 0)])
def test_a_branch_that_the_file_decides(which, taken):
    small = helper.make_graph([helper.make_node("Relu", ["x"], ["a"])], "small", [], [value("a", 8, 8)])
    large = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["b"])], "large", [], [value("b", 8, 8)])
    branch = helper.make_node("If", ["which"], ["y"], then_branch=large, else_branch=small)
    held = helper.make_tensor("which", TensorProto.BOOL, [], [which])
    traced = trace(model([branch], [value("x", 8, 8)], [value("y", 8, 8)], [held]))
    assert traced.flops() == taken
    assert not any("larger" in text for text in traced.assumptions)


def test_loops_whose_lengths_are_stated_by_name():
    kinds = [("i", TensorProto.INT64), ("on", TensorProto.BOOL), ("go", TensorProto.BOOL)]
    scalars = {name: helper.make_tensor_value_info(name, kind, []) for name, kind in kinds}
    nodes = [helper.make_node("MatMul", ["c", "w"], ["d"]), helper.make_node("Identity", ["on"], ["go"])]
    body = helper.make_graph(
        nodes, "body", [scalars["i"], scalars["on"], value("c", 8, 8)], [scalars["go"], value("d", 8, 8)]
    )
    many = helper.make_tensor_value_info("many", TensorProto.INT64, [])
    loops = [helper.make_node("Loop", ["many", "", given], [name], name=name, body=body)
             for given, name in (("x", "first"), ("first", "second"))]  # fmt: skip
    found = model(loops, [many, value("x", 8, 8)], [value("second", 8, 8)], [weight("w", 8, 8)])
    with pytest.raises(InputError, match=r'first: how often this Loop runs .* or trips=\{"first": 10\}'):
        trace(found)
    with pytest.raises(InputError, match="second: how often this Loop runs"):
        trace(found, trips={"first": 3})
    assert trace(found, trips={"first": 3, "second": 4}).flops() == 7 * 2 * 8**3
    assert trace(found, trips=5).flops() == 10 * 2 * 8**3
