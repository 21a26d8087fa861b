"""ONNX: the same network as in torch and JAX, symbolic batches, loops and branches, clear errors."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax
from onnx import TensorProto, helper, numpy_helper, save
from torch import nn

from roofline.cli import main
from roofline.errors import InputError, RooflineError, SizeError
from roofline.programs import trace
from tests.programs.onnx_models import model, value, weight
from tests.programs.onnx_networks import Graph
from tests.strategies import some


def _value(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims) if dims else None)


def _weight(name, *dims):
    return numpy_helper.from_array(np.zeros(dims, np.float32), name)


def _model(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "net", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _network(batch="N"):
    """Convolve with groups and stride, pool, classify, softmax."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="/features/0/Conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"], name="/features/1/Relu"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], name="/features/2/Conv", group=4),
        helper.make_node("GlobalAveragePool", ["c2"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["g"], name="/head/Gemm", transB=1),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    weights = [_weight("w1", 8, 3, 3, 3), _weight("b1", 8), _weight("w2", 16, 2, 3, 3), _weight("w3", 10, 16)]
    return _model(nodes, [_value("x", batch, 3, 16, 16)], [_value("y")], [*weights, _weight("b3", 10)])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, groups=4, bias=False)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.second(torch.relu(self.first(x)))
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)).softmax(-1)


def _jax_net(x, w1, b1, w2, w3, b3):
    x = jax.nn.relu(lax.conv_general_dilated(x, w1, (2, 2), ((1, 1), (1, 1))) + b1[:, None, None])
    x = lax.conv_general_dilated(x, w2, (1, 1), "VALID", feature_group_count=4)
    return jax.nn.softmax(jnp.dot(x.mean((2, 3)), w3.T) + b3)


@pytest.mark.parametrize("convention", ["flops", "macs", "valid"])
def test_torch_is_jax_is_onnx(convention):
    shapes = [(5, 3, 16, 16), (8, 3, 3, 3), (8,), (16, 2, 3, 3), (10, 16), (10,)]
    ours = trace(_network(), frontend="onnx", batch=5)
    theirs = trace(Net(), "fp32[5, 3, 16, 16]")
    also = trace(_jax_net, *(jax.ShapeDtypeStruct(s, "float32") for s in shapes), weights=range(1, 6))
    assert ours.flops(convention) == theirs.flops(convention) == also.flops(convention)
    assert ours.parameters() == theirs.parameters() == also.parameters()
    by_hand = 5 * (8 * 64 * 27 + 16 * 36 * 18 + 160)
    assert ours.macs() == by_hand
    assert ours.bytes("minimal") == theirs.bytes("minimal")


def test_places():
    traced = trace(_network(), frontend="onnx", batch=1)
    assert [op.where for op in traced.ops[:3]] == ["features.0", "features.1", "features.2"]
    assert traced.under("head").macs() == 160
    assert traced.complete


def test_an_open_batch_is_a_symbol_and_linear():
    open_, eight = trace(_network(), frontend="onnx"), trace(_network(), frontend="onnx", batch=8)
    (symbol,) = open_.flops().free_symbols
    assert str(symbol) == "N"
    assert open_.flops().subs(symbol, 8) == eight.flops() == 8 * trace(_network(1), frontend="onnx").flops()
    assert open_.bytes().subs(symbol, 8) == eight.bytes()
    assert trace(_network(), frontend="onnx", sizes={"N": 8}).flops() == eight.flops()


def test_a_file(tmp_path):
    path = tmp_path / "net.onnx"
    save(_network(), path)
    traced = trace(str(path), batch=2)
    assert (traced.name, traced.inputs) == ("net", ("fp32[2, 3, 16, 16]",))
    assert traced.bound("l4").lower > 0
    assert traced.to_dict()["parameters"] == traced.parameters()


@pytest.mark.parametrize(("kind", "layer"), [("LSTM", nn.LSTM), ("GRU", nn.GRU), ("RNN", nn.RNN)])
def test_recurrent_layers_as_in_torch(kind, layer):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    node = helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=32, direction="bidirectional")
    weights = [_weight("w", 2, gates * 32, 16), _weight("r", 2, gates * 32, 32)]
    traced = trace(_model([node], [_value("x", 7, 3, 16)], [_value("y")], weights), frontend="onnx")
    assert traced.flops() == trace(layer(16, 32, bidirectional=True), "fp32[7, 3, 16]").flops()


@pytest.mark.parametrize(("stride", "groups", "pad"), [(1, 1, 0), (2, 1, 1), (3, 2, 2)])
def test_transposed_convolutions_as_in_torch(stride, groups, pad):
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[stride], group=groups, pads=[pad, pad])
    model = _model([node], [_value("x", 2, 4, 9)], [_value("y")], [_weight("w", 4, 6 // groups, 3)])
    layer = nn.ConvTranspose1d(4, 6, 3, stride, pad, groups=groups, bias=False)
    for convention in ("flops", "valid"):
        assert trace(model, frontend="onnx").flops(convention) == trace(layer, "fp32[2, 4, 9]").flops(convention)


def test_a_loop_and_a_branch():
    step = helper.make_graph(
        [helper.make_node("MatMul", ["c", "w"], ["d"]), helper.make_node("Identity", ["on"], ["go"])],
        "step",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            _value("c", 8, 8),
        ],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []), _value("d", 8, 8)],
    )
    many = numpy_helper.from_array(np.array(6, np.int64), "many")
    loop = helper.make_node("Loop", ["many", "", "x"], ["y"], body=step)
    traced = trace(
        _model([loop], [_value("x", 8, 8)], [_value("y", 8, 8)], [many, _weight("w", 8, 8)]), frontend="onnx"
    )
    assert traced.flops() == 6 * 2 * 8**3
    free = [helper.make_tensor_value_info("many", TensorProto.INT64, []), _value("x", 8, 8)]
    unknown = _model([loop], free, [_value("y", 8, 8)], [_weight("w", 8, 8)])
    with pytest.raises(InputError, match="how often this Loop runs is not in the file; say trips=10"):
        trace(unknown, frontend="onnx")
    assert trace(unknown, frontend="onnx", trips=3).flops() == 3 * 2 * 8**3
    for item in (step.input[2], step.output[1]):  # a name in the body is the size of that name outside
        item.type.tensor_type.shape.dim[0].dim_param = "B"
    named = helper.make_node("Loop", ["many", "", "x"], ["y"], body=step)
    model = _model([named], [_value("x", "B", 8)], [_value("y", "B", 8)], [many, _weight("w", 8, 8)])
    assert trace(model, frontend="onnx", sizes={"B": 8}).flops() == 6 * 2 * 8**3

    small = helper.make_graph([helper.make_node("Identity", ["x"], ["a"])], "small", [], [_value("a", 8, 8)])
    large = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["b"])], "large", [], [_value("b", 8, 8)])
    branch = helper.make_node("If", ["which"], ["y"], then_branch=small, else_branch=large)
    which = helper.make_tensor_value_info("which", TensorProto.BOOL, [])
    chosen = trace(_model([branch], [which, _value("x", 8, 8)], [_value("y", 8, 8)]), frontend="onnx")
    assert chosen.flops() == 2 * 8**3
    assert any("larger branch" in text for text in chosen.assumptions)


def _branches(nodes, given, weights=()):
    """Which flops and bytes an If of a product and a constant, or of an input, has."""
    held = helper.make_node("Constant", [], ["a"], value=_weight("", 8, 8))
    large = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["b"])], "large", [], [_value("b", 8, 8)])
    small = helper.make_graph([held], "small", [], [_value("a", 8, 8)])
    branch = helper.make_node("If", ["which"], ["y"], then_branch=large, else_branch=small)
    inputs = [_value("x", 8, 8), *given]
    found = trace(_model([*nodes, branch], inputs, [_value("y", 8, 8)], list(weights)), frontend="onnx")
    return found.flops(), [op.name for op in found.ops], found.assumptions


def test_a_branch_that_the_file_decides():
    def scalar(name, value):
        return numpy_helper.from_array(np.array(value), name)

    product = 2 * 8**3
    assert _branches([], (), [scalar("which", True)]) == (product, ["MatMul"], ())
    assert _branches([], (), [scalar("which", False)]) == (0, ["If"], ())  # the constant is written
    negated = [helper.make_node("Not", ["other"], ["which"])]
    assert _branches(negated, (), [scalar("other", True)])[0] == 0
    sizes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "first"], ["d"])]
    for size, flops in ((8, product), (1, 0)):
        asked = [*sizes, helper.make_node("Equal", ["d", "one"], ["which"])]
        found = _branches(asked, (), [scalar("first", 0), scalar("one", size)])
        assert (found[0], found[2]) == (flops, ())
    last = [helper.make_node("Shape", ["x"], ["d"], start=-1), helper.make_node("Equal", ["d", "one"], ["which"])]
    count = [helper.make_node("Size", ["x"], ["d"]), helper.make_node("Equal", ["d", "one"], ["which"])]
    assert [_branches(last, (), [scalar("one", size)])[0] for size in (8, 1)] == [product, 0]
    assert [_branches(count, (), [scalar("one", size)])[0] for size in (64, 8)] == [product, 0]
    open_ = [helper.make_tensor_value_info("which", TensorProto.BOOL, [])]
    flops, names, assumptions = _branches([], open_)
    assert (flops, names) == (product, ["MatMul"])
    assert any("larger branch" in text for text in assumptions)


def test_a_branch_that_gives_an_input_copies_it():
    one = helper.make_graph([helper.make_node("Identity", ["x"], ["a"])], "one", [], [_value("a", 8, 8)])
    branch = helper.make_node("If", ["which"], ["y"], then_branch=one, else_branch=one)
    which = helper.make_tensor_value_info("which", TensorProto.BOOL, [])
    found = trace(_model([branch], [which, _value("x", 8, 8)], [_value("y", 8, 8)]), frontend="onnx")
    assert found.bytes() == 2 * 4 * 8 * 8


def test_what_is_worked_out_for_a_shape_alone_is_no_operation():
    """As exporters write an expanded tensor: where a size is -1, 1 stands for it."""
    sizes = [numpy_helper.from_array(np.array(held, np.int64), name) for name, held in (
        ("first", [0]), ("last", [3]), ("axis", [1]), ("any", [-1, -1]), ("ones", [1, 1]),
    )]  # fmt: skip
    nodes = [
        helper.make_node("Slice", ["x", "first", "last", "axis"], ["part"]),
        helper.make_node("Shape", ["part"], ["shape"]),
        helper.make_node("Equal", ["shape", "any"], ["free"]),
        helper.make_node("Where", ["free", "ones", "shape"], ["wanted"]),
        helper.make_node("Expand", ["row", "wanted"], ["rows"]),
        helper.make_node("Relu", ["rows"], ["y"]),
    ]
    found = trace(_model(nodes, [_value("x", 4, 8), _value("row", 1, 3)], [_value("y", 4, 3)], sizes), frontend="onnx")
    assert [op.name for op in found.ops] == ["Relu"]
    assert found.bytes("minimal") == found.bytes() == 4 * (3 + 4 * 3)


def test_attention_whole():
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)
    graph = helper.make_graph([node], "net", [_value(n, 2, 4, 16, 8) for n in "qkv"], [_value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    traced = trace(model, frontend="onnx")
    assert traced.flops("unmasked") == 2 * 2 * 2 * 4 * 16 * 16 * 8
    assert traced.flops() == 2 * 2 * 2 * 4 * (16 * 17 // 2) * 8


def test_an_operator_without_a_rule_is_a_gap():
    node = helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[2, 2])
    traced = trace(_model([node], [_value("x", 1, 3, 8, 8), _value("r", 4, 5)], [_value("y")]), frontend="onnx")
    (gap,) = traced.listed_gaps()
    assert (gap.name, gap.bytes) == ("MaxRoiPool", 4 * (192 + 20 + 48))


def test_messages(tmp_path):
    broken = tmp_path / "broken.onnx"
    save(_network(), broken)
    broken.write_bytes(broken.read_bytes()[:200])
    with pytest.raises(InputError, match=r"broken\.onnx"):
        trace(str(broken))
    broken.write_bytes(b"not a model at all")
    with pytest.raises(InputError, match="is not an ONNX file, or is cut short"):
        trace(str(broken))
    with pytest.raises(InputError, match="there is no file"):
        trace(str(tmp_path / "none.onnx"))
    with pytest.raises(SizeError, match="no input has a size 'M'"):
        trace(_network(), frontend="onnx", sizes={"M": 3})
    with pytest.raises(SizeError, match=r"no input's first size is free to be the batch: x\[1, 3, 16, 16\]"):
        trace(_network(1), frontend="onnx", batch=3)
    wrong = _model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], [_value("x", 2, 3)], [_value("y")], [_weight("w", 4, 5)]
    )
    with pytest.raises(RooflineError, match="the shapes of the ONNX graph do not fit"):
        trace(wrong, frontend="onnx")


@pytest.mark.parametrize("word", ["Where", "Add"])
def test_masks_that_are_written_out_are_said_to_count_whole(word):
    g = Graph()
    query, key, value_ = (g.dense("x", 64, 64, bias=False) for _ in range(3))
    scores = g.add("Div", g.add("MatMul", query, g.add("Transpose", key, perm=[0, 2, 1])), g.weight(1))
    mask = g.weight(16, 16)
    hidden = g.add("Where", mask, scores, g.weight(1)) if word == "Where" else g.add("Add", scores, mask)
    found = g.model(value("x", "N", 16, 64), g.add("MatMul", g.add("Softmax", hidden), value_))
    traced = trace(found, frontend="onnx", batch=1)
    (said,) = [line for line in traced.assumptions if "may be a mask" in line]
    assert traced.flops() == 3 * 2 * 16 * 64 * 64 + 2 * 2 * 16 * 16 * 64
    assert said.endswith("a kernel that knows the mask would skip its part of 65.5 kFLOP")


def test_scores_that_nothing_masks_say_nothing():
    g = Graph()
    weights = g.add("Softmax", g.add("MatMul", "x", g.add("Transpose", "x", perm=[0, 2, 1])))
    traced = trace(g.model(value("x", 1, 16, 64), g.add("MatMul", weights, "x")), frontend="onnx")
    assert traced.assumptions == ()


def test_what_is_chosen_by_values_is_counted_or_listed():
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Unique", ["x"], ["u"])]
    stated = [helper.make_tensor_value_info("i", TensorProto.INT64, [2, 9]), _value("u", 12)]
    traced = trace(_model(nodes, [_value("x", 8, 16)], stated), frontend="onnx")
    assert traced.totals("all") == {"gather": 128}
    assert [gap.name for gap in traced.listed_gaps()] == ["Unique"]


@pytest.mark.parametrize(
    ("kind", "module", "shape", "attributes"),
    [
        ("LayerNormalization", torch.nn.LayerNorm(8), (2, 3, 8), {}),
        ("RMSNormalization", torch.nn.RMSNorm(8), (2, 6, 8), {}),
        ("GroupNormalization", torch.nn.GroupNorm(3, 6), (2, 6, 8, 8), {"num_groups": 3}),
        ("InstanceNormalization", torch.nn.InstanceNorm2d(3, affine=True), (2, 3, 8, 8), {}),
    ],
)
def test_a_norm_is_what_it_is_in_torch(kind, module, shape, attributes):
    weights = [weight(name, *tensor.shape) for name, tensor in module.named_parameters()]
    node = helper.make_node(kind, ["x", *(item.name for item in weights)], ["y"], **attributes)
    found = trace(model([node], [value("x", *shape)], [value("y")], weights, opset=23), frontend="onnx")
    same = trace(module, f"fp32[{', '.join(map(str, shape))}]")
    assert found.totals("all") == same.totals("all")
    assert found.bytes("minimal") == same.bytes("minimal")


def _sized(name, *numbers):
    return numpy_helper.from_array(np.array(numbers, np.int64), name)


OPEN = [
    # x[B, S, 64] with its rows one after the other
    ([("Reshape", ["x", "flat"], "r", {}), ("MatMul", ["r", "w"], "y", {})], 2 * 64 * 5, "B*S"),
    # its first size taken from its shape, the rest together
    ([("Shape", ["x"], "n", {"end": 1}), ("Concat", ["n", "rest"], "s", {"axis": 0}), ("Reshape", ["x", "s"], "r", {}),
      ("Reshape", ["r", "flat"], "t", {}), ("MatMul", ["t", "w"], "y", {})], 2 * 64 * 5, "B*S"),
    # keys from before joined with those of now
    ([("Concat", ["p", "x"], "k", {"axis": 1}), ("MatMul", ["k", "w"], "y", {})], 2 * 64 * 5, "B*(P + S)"),
    # what broadcasts: two of one open size, a row, a product in batches
    ([("Add", ["x", "x"], "a", {}), ("Mul", ["row", "a"], "m", {}), ("MatMul", ["m", "w"], "y", {})], 640, "B*S"),
    ([("Transpose", ["x"], "t", {"perm": [0, 2, 1]}), ("MatMul", ["x", "t"], "s", {}), ("Add", ["s", "s"], "a", {}),
      ("MatMul", ["a", "x"], "y", {})], 2 * 2 * 64, "B*S*S"),
    ([("Add", ["x", "x"], "a", {}), ("Flatten", ["a"], "f", {"axis": 2}), ("MatMul", ["f", "w"], "y", {})], 640, "B*S"),
    # every second row between the rows
    ([("Resize", ["x", "", "twice"], "r", {}), ("MatMul", ["r", "w"], "y", {})], 2 * 64 * 5, "B*2*S"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "flops", "rows"), OPEN)
def test_sizes_behind_open_ones_are_formulas(nodes, flops, rows):
    made = [helper.make_node(kind, ins, [out], **attributes) for kind, ins, out, attributes in nodes]
    inputs = [value("x", "B", "S", 64), value("p", "B", "P", 64)]
    twice = numpy_helper.from_array(np.array([1, 2, 1], np.float32), "twice")
    weights = [weight("w", 64, 5), weight("row", 1, 64), _sized("flat", -1, 64), _sized("rest", -1), twice]
    program = model(made, inputs, [value("y")], weights)
    formula = trace(program).flops()
    wanted = {"B": 3, "S": 7, "P": 11}
    assert {str(name) for name in formula.free_symbols} <= set(wanted)
    numbers = {name: number for name, number in wanted.items() if name in rows}
    here = trace(program, frontend="onnx", sizes=wanted).flops()
    assert formula.subs({name: wanted[str(name)] for name in formula.free_symbols}) == here
    assert here == flops * eval(rows, numbers)


@pytest.mark.parametrize(("mode", "read"), [("nearest", 1 * 4), ("linear", 2 * 4), ("cubic", 4 * 4)])
def test_rows_between_those_a_resize_mixes_are_not_read(mode, read):
    scales = numpy_helper.from_array(np.array([1, 1, 0.125, 1], np.float32), "scales")
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode)
    program = model([node], [value("x", 1, 3, 32, 8)], [value("y", 1, 3, 4, 8)], [scales])
    assert trace(program, frontend="onnx").bytes("minimal") == 4 * 3 * 8 * (read + 4)


def test_a_resize_to_one_row_as_pytorch_takes_the_first_one():
    """Source: ONNX, Resize: in pytorch_half_pixel the place is 0 where the length of the result is 1."""
    scales = numpy_helper.from_array(np.array([1, 1, 1 / 32, 1], np.float32), "scales")
    reads = {}
    for counted in ("half_pixel", "pytorch_half_pixel"):
        options = {"mode": "linear", "coordinate_transformation_mode": counted}
        node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **options)
        program = model([node], [value("x", 1, 3, 32, 8)], [value("y", 1, 3, 1, 8)], [scales])
        reads[counted] = trace(program, frontend="onnx").bytes("minimal") / (4 * 3 * 8) - 1
    assert reads == {"half_pixel": 2, "pytorch_half_pixel": 1}


def _positions(*stated):
    """Rows of a table at 0 … S − 1, whose number the onnx library does not work out; ``stated`` is in the file."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], start=1, end=2),
        helper.make_node("ReduceMax", ["n"], ["last"], keepdims=0),
        helper.make_node("Range", ["zero", "last", "one"], ["places"]),
        helper.make_node("Gather", ["table", "places"], ["g"]),
        helper.make_node("MatMul", ["g", "w"], ["y"]),
    ]
    numbers = [numpy_helper.from_array(np.array(n, np.int64), name) for name, n in (("zero", 0), ("one", 1))]
    weights = [weight("table", 100, 64), weight("w", 64, 5), *numbers]
    made = model(nodes, [value("x", "B", "S")], [value("y")], weights)
    made.graph.value_info.extend([value("g", *stated)] if stated else [])
    return made


@pytest.mark.parametrize(
    ("stated", "rows"), [(("S", 64), "S"), (("Min(100, S)", 64), "Min(100, S)"), (("2*S", 64), "2*S")]
)
def test_what_a_file_says_of_sizes_names_them(stated, rows):
    formula = trace(_positions(*stated)).flops()
    assert {str(name) for name in formula.free_symbols} == {"S"}
    assert str(formula / (2 * 64 * 5)) == rows
    assert trace(_positions("S", 64), sizes={"S": 12}).flops() == 12 * 2 * 64 * 5


@pytest.mark.parametrize("stated", [(), (7, 64), ("T", 64)])
def test_what_a_file_says_of_other_sizes_does_not(stated):
    """Shapes without an open size of an input may be those of an export at other sizes."""
    assert {str(name)[:5] for name in trace(_positions(*stated)).flops().free_symbols} == {"unk__"}


def test_an_input_may_be_as_long_as_others_together():
    """A mask over keys from before and those of now, as exporters of decoders state it."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["k"], axis=1),
        helper.make_node("Mul", ["k", "mask"], ["m"]),
        helper.make_node("MatMul", ["m", "w"], ["y"]),
    ]
    inputs = [value("x", "B", "now", 64), value("mask", "B", "past + now", 1), value("past", "B", "past", 64)]
    program = model(nodes, inputs, [value("y", "B", "past + now", 5)], [weight("w", 64, 5)])
    assert str(trace(program).flops()) == "640*B*(now + past)"
    assert str(trace(program, sizes={"now": 1}).flops().expand()) == "640*B*past + 640*B"
    found = trace(program, sizes={"B": 2, "now": 1, "past": 9})
    assert found.flops() == 640 * 2 * 10
    assert found.inputs == ("fp32[2, 1, 64]", "fp32[2, 10, 1]", "fp32[2, 9, 64]")


@pytest.mark.parametrize(("stated", "size", "macs"), [("B/2", 6, "60"), ("B/2", 5, "20*B_2"), ("B/0", 6, "20*B_0")])
def test_a_stated_size_that_is_no_whole_number_stays_open(stated, size, macs):
    inputs = [value("x", "B", 4), value("h", stated, 4)]
    nodes = [helper.make_node("MatMul", ["h", "w"], ["y"]), helper.make_node("Relu", ["x"], ["r"])]
    program = model(nodes, inputs, [value("y", stated, 5), value("r", "B", 4)], [weight("w", 4, 5)])
    assert str(trace(program, sizes={"B": size}).macs()) == macs


@pytest.mark.parametrize("where", ["here", "in another file"])
def test_whole_numbers_of_any_amount_may_be_in_another_file(where):
    """Places that a table is read at, which the onnx library looks for when it infers what unsqueezes them."""
    nodes = [
        helper.make_node("Unsqueeze", ["places", "axes"], ["p"]),
        helper.make_node("Gather", ["x", "p"], ["g"]),
        helper.make_node("MatMul", ["g", "w"], ["y"]),
    ]
    outside = weight("places", 5000, dtype=TensorProto.INT64)
    places = outside if where != "here" else numpy_helper.from_array(np.zeros(5000, np.int64), "places")
    program = model(nodes, [value("x", "N", 64)], [value("y")], [places, _sized("axes", 0), weight("w", 64, 5)])
    found = trace(program)
    assert found.flops() == 2 * 5000 * 64 * 5
    assert [t.role for op in found.ops for t in op.reads if t.dims == (5000,) or t.dims == (1, 5000)] == ["state"]
    assert found.inputs == ("fp32[N, 64]",)


@pytest.mark.parametrize(("size", "pads", "stride"), some([(224, 1, 2), (17, 0, 1), (31, 2, 3)], 3, 2))
def test_an_open_image_is_a_formula(size, pads, stride):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], pads=[pads] * 4, strides=[stride] * 2, dilations=[2, 2]),
        helper.make_node("MaxPool", ["h"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "v"], ["y"]),
    ]
    weights = [weight("w", 8, 3, 3, 3), weight("v", 4, 8, 1, 1)]
    program = model(nodes, [value("x", "N", 3, "H", "W")], [value("y")], weights)
    formula = trace(program).flops()
    numbers = {name: 2 if str(name) == "N" else size for name in formula.free_symbols}
    assert {str(name) for name in numbers} == {"N", "H", "W"}
    assert formula.subs(numbers) == trace(program, sizes={"N": 2, "H": size, "W": size}).flops()


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_file_in_fp32_is_asked_about_in_another_format(dtype):
    def file(kind):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
        return model(
            nodes, [value("x", "N", 64, dtype=kind)], [value("y", dtype=kind)], [weight("w", 64, 32, dtype=kind)]
        )

    taken = trace(file(TensorProto.FLOAT), frontend="onnx", batch=8, dtype=dtype)
    own = trace(file(TensorProto.BFLOAT16 if dtype == "bf16" else TensorProto.FLOAT16), frontend="onnx", batch=8)
    assert [op.work for op in taken.ops] == [op.work for op in own.ops]
    assert (taken.bytes(), taken.bytes("minimal")) == (own.bytes(), own.bytes("minimal"))
    assert f"fp32 tensors of the file are taken as {dtype}" in taken.assumptions


def test_a_format_that_a_program_cannot_be_taken_in_is_one_clear_error():
    file = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", "N", 64)], [value("y")])
    with pytest.raises(RooflineError, match="fp32 tensors cannot be taken as int8; a floating format"):
        trace(file, frontend="onnx", dtype="int8")
    with pytest.raises(InputError, match="dtype= is for ONNX files; a module has its own"):
        trace(lambda x: x, "fp32[8]", dtype="bf16")
    with pytest.raises(InputError, match="size batch is several numbers; trace the program once for each"):
        trace(file, frontend="onnx", batch=[1, 64])


def _bare_body(kind="MatMul", given="c", name="co", second="w", **attributes):
    """A step of a Loop whose body states no shapes: what it carries goes through one node."""
    nodes = [
        helper.make_node(kind, [given, second], [name], **attributes),
        helper.make_node("Identity", ["go"], ["on"]),
    ]
    counter, go, on = (
        helper.make_tensor_value_info(n, k, d) for n, k, d in (("i", 7, []), ("go", 9, []), ("on", 9, None))
    )
    return helper.make_graph(nodes, "body", [counter, go, _value(given)], [on, _value(name)])


def _of_loops(nodes, result, *more):
    many = numpy_helper.from_array(np.array(5, np.int64), "many")
    return _model(nodes, [_value("x", 8, 32), _value("w", 32, 32), *more], [_value(result)], [many])


def test_a_loop_whose_body_states_no_shapes_carries_those_it_is_given():
    loop = helper.make_node("Loop", ["many", "", "x"], ["y"], body=_bare_body())
    again = helper.make_node("Loop", ["many", "", "y"], ["z"], body=_bare_body(given="d", name="do"))
    relu = helper.make_node("Relu", ["y"], ["z"])
    step, least = 2 * 8 * 32 * 32, 4 * (2 * 8 * 32 + 32 * 32)
    for nodes, result, steps in (([loop], "y", 5), ([loop, relu], "z", 5), ([loop, again], "z", 10)):
        found = trace(_of_loops(nodes, result))
        assert (found.flops(), found.complete) == (steps * step, True)
        assert 0 <= found.bytes("minimal") - least <= 64
    inner = helper.make_node("Loop", ["many", "", "e"], ["f"], body=_bare_body())
    outer = _bare_body(given="e", name="g")
    outer.node[0].CopyFrom(inner)
    outer.output[1].name = "f"
    nested = trace(_of_loops([helper.make_node("Loop", ["many", "", "x"], ["y"], body=outer)], "y"))
    assert (nested.flops(), nested.complete) == (25 * step, True)
    growing = _bare_body("Concat", second="x", axis=0)
    found = trace(_of_loops([helper.make_node("Loop", ["many", "", "x"], ["y"], body=growing)], "y"))
    assert [gap.name for gap in found.listed_gaps()] == ["Concat"]  # each step gives on more than it was given


def test_what_a_branch_gives_is_not_written_and_read_again():
    chosen, plain = [_value("t")], [_value("e")]
    loop = helper.make_node("Loop", ["many", "", "x"], ["t"], body=_bare_body())
    for node, steps in ((helper.make_node("MatMul", ["x", "w"], ["t"]), 1), (loop, 5)):
        then = helper.make_graph([node], "then", [], chosen)
        other = helper.make_graph([helper.make_node("Relu", ["x"], ["e"])], "other", [], plain)
        branch = helper.make_node("If", ["p"], ["y"], then_branch=then, else_branch=other)
        asked = helper.make_tensor_value_info("p", TensorProto.BOOL, [])
        for nodes, result in (([branch], "y"), ([branch, helper.make_node("Relu", ["y"], ["z"])], "z")):
            found = trace(_of_loops(nodes, result, asked))
            assert found.flops() == steps * 2 * 8 * 32 * 32
            assert 0 <= found.bytes("minimal") - 4 * (2 * 8 * 32 + 32 * 32) <= 64


def test_nodes_without_a_module_stand_by_their_names(tmp_path, capsys):
    """Their names stand beside operations side by side, no column is empty, and what is assumed is said once."""
    names = [("Conv", "x", "a"), ("Relu", "a", "b"), ("Conv", "b", "c"), ("Relu", "c", "y")]
    nodes = [
        helper.make_node(kind, [before, "w"][: 1 + (kind == "Conv")], [after], name=f"{kind}_{at}", **padded)
        for at, (kind, before, after) in enumerate(names)
        for padded in [{"pads": [1, 1, 1, 1]} if kind == "Conv" else {}]
    ]
    save(
        model(nodes, [value("x", "N", 8, 16, 16)], [value("y")], [_weight("w", 8, 8, 3, 3)]),
        path := tmp_path / "n.onnx",
    )
    assert main(["trace", str(path), "--on", "l4", "--batch", "1,64"]) == 0
    beside = capsys.readouterr().out
    assert all(line.split()[0] == line.split()[1][:4] for line in beside.splitlines() if line.startswith("  Conv "))
    assert [f"{kind}_{at}" in beside for at, (kind, *_) in enumerate(names)] == [True] * 4
    assert main(["trace", str(path), "--on", "l4", "--batch", "64", "--flat"]) == 0
    flat = capsys.readouterr().out
    assert "  operation  source  FLOPs" in re.sub("  +", "  ", flat)
    assert flat.count("padded positions of a convolution are counted") == 1


X, W, V = ("x", "B", 4, "H", 7), ("w", 3, 4, 3, 2), ("w", 4, 3, 3, 2)
WINDOWS = [
    ("Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 1]}, W),
    ("Conv", {"auto_pad": "SAME_LOWER", "dilations": [2, 1]}, W),
    ("ConvTranspose", {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}, V),
    ("ConvTranspose", {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, V),
    ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}, None),
    ("LpPool", {"kernel_shape": [3, 2], "strides": [3, 2]}, None),
    ("DepthToSpace", {"blocksize": 2}, None),
    ("Upsample", {}, None),
    ("TopK", {"axis": 2}, None),
]


@pytest.mark.parametrize(("kind", "attributes", "weights"), some(WINDOWS, 2))
def test_an_open_image_has_the_sizes_of_numbers(kind, attributes, weights):
    """Whatever the size: of windows that reach beyond the image, are rounded up or laid back, blocks, resizing."""
    held = {"Upsample": np.array([1, 1, 2, 1.5], np.float32), "TopK": np.array([2])}.get(kind)
    held = [] if held is None else [numpy_helper.from_array(held, "n")]
    names = ["x", *(["w"] if weights else []), *(["n"] if held else [])]
    outs = ["y", "i"] if kind in ("MaxPool", "TopK") else ["y"]
    node = helper.make_node(kind, names, outs, **attributes)
    results = [value("y"), *[value("i", dtype=TensorProto.INT64)] * (len(outs) - 1)]
    program = model(
        [node], [value(*X)], results, [*held, *([weight(*weights)] if weights else [])], 9 if kind == "Upsample" else 17
    )
    opened = trace(program)
    for height in (5, 6, 7, 8):
        fixed = trace(program, sizes={"H": height, "B": 2})
        for ours, theirs in ((opened.flops("all"), fixed.flops("all")), (opened.bytes(), fixed.bytes())):
            at = {name: {"H": height, "B": 2}[str(name)] for name in getattr(ours, "free_symbols", ())}
            assert (ours.subs(at) if at else ours) == theirs
