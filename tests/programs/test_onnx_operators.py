"""Operators beside the usual ones: each against PyTorch's count of the same, or a count by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper

from roofline.programs import trace
from roofline.sizes import symbol
from tests.programs.onnx_models import model, value, weight

INT = TensorProto.INT64


def _node(kind, inputs, outputs=1, opset=20, constants=None, order=None, dtype=TensorProto.FLOAT, **attributes):
    """A file of one operator; constants follow the inputs unless an order is given."""
    constants = constants or {}
    names = order or [*inputs, *constants]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(kind, names, results, **attributes)
    given = [value(name, *dims) if type(dims) is tuple else value(name, *dims[1:], dtype=dims[0])
             for name, dims in inputs.items()]  # fmt: skip
    held = [numpy_helper.from_array(np.array(item), name) for name, item in constants.items()]
    return trace(model([node], given, [value(name, dtype=dtype) for name in results], held, opset), frontend="onnx")


@pytest.mark.parametrize(("mode", "theirs"), [("linear", "bilinear"), ("nearest", "nearest"), ("cubic", "bicubic")])
def test_sampling_at_places_is_what_torch_counts(mode, theirs):
    ours = _node("GridSample", {"x": (2, 3, 8, 8), "g": (2, 5, 5, 2)}, mode=mode)
    other = trace(
        lambda x, g: F.grid_sample(x, g, mode=theirs, align_corners=False), "fp32[2, 3, 8, 8]", "fp32[2, 5, 5, 2]"
    )
    assert ours.flops("all") == other.flops("all")
    assert ours.bytes() == other.bytes()


def test_a_grid_is_a_product_for_each_place():
    sizes = {"size": [2, 3, 8, 8]}
    ours = _node("AffineGrid", {"theta": (2, 2, 3)}, constants=sizes)
    other = trace(lambda t: F.affine_grid(t, (2, 3, 8, 8), align_corners=False), "fp32[2, 2, 3]")
    assert ours.macs() == other.macs() == 2 * 64 * 2 * 3
    assert ours.bytes() == other.bytes()


@pytest.mark.parametrize(("shape", "attributes", "theirs"), [
    ((2, 64, 1), {"axis": 1}, lambda: trace(torch.fft.rfft, "fp32[2, 64]")),
    ((2, 64, 1), {"axis": 1, "onesided": 1}, lambda: trace(torch.fft.rfft, "fp32[2, 64]")),
    ((2, 64, 2), {"axis": 1}, lambda: trace(torch.fft.fft, "complex64[2, 64]")),
    ((2, 64, 2), {"axis": 1, "inverse": 1}, lambda: trace(torch.fft.ifft, "complex64[2, 64]")),
])  # fmt: skip
def test_fourier_transforms_are_what_torch_counts(shape, attributes, theirs):
    found = _node("DFT", {"x": shape}, opset=17, **attributes)
    assert found.flops("all") == theirs().flops("all")
    assert found.complete
    later = _node("DFT", {"x": shape}, opset=20, constants={"axis": 1}, order=["x", "", "axis"])
    assert later.flops("all") == _node("DFT", {"x": shape}, opset=17, axis=1).flops("all")


def test_windows_of_a_signal_are_weighted_and_transformed():
    constants = {"step": 8, "length": 16}
    found = _node("STFT", {"x": (2, 128, 1), "w": (16,)}, constants=constants, order=["x", "step", "w", "length"])
    frames = 2 * (1 + (128 - 16) // 8)
    assert found.flops("all") == frames * (16 + 5 * 16 * 4 / 2)
    exported = _node("STFT", {"x": (2, 128), "w": (16,)}, constants=constants, order=["x", "step", "w", "length"])
    assert exported.flops("all") == found.flops("all")


@pytest.mark.parametrize(("pads", "is_said"), [([1, 1, 1, 1], True), ([0, 0, 1, 1], True), ([0, 0, 0, 0], False)])
def test_padded_positions_are_told_at_whichever_end_they_lie(pads, is_said):
    (op,) = _node("Conv", {"x": (1, 3, 8, 8), "w": (4, 3, 3, 3)}, pads=pads).ops
    assert bool(op.note) == (op.options["valid_macs"] < op.options["macs"]) == is_said


def test_a_deformed_convolution_is_one_that_mixes_first():
    inputs = {"x": (2, 4, 9, 9), "w": (8, 4, 3, 3), "offset": (2, 18, 7, 7), "b": (8,), "mask": (2, 9, 7, 7)}
    found = _node("DeformConv", inputs)
    taken = 2 * 49 * 4 * 9
    assert found.macs() == 2 * 49 * 8 * 4 * 9
    assert found.flops("all") == 2 * found.macs() + (8 + 1) * taken + 2 * 8 * 49
    assert found.bytes() == 4 * sum(np.prod(shape) for shape in (*inputs.values(), (2, 8, 7, 7)))


@pytest.mark.parametrize(("kind", "inputs", "options", "flops"), [
    ("Shrink", {"x": (4, 8)}, {}, 3 * 32),
    ("Det", {"x": (3, 16, 16)}, {}, 3 * (2 * 16**3 / 3 + 16)),
    ("Col2Im", {"x": (1, 36, 49)}, {"constants": {"image": [9, 9], "block": [3, 3]}}, 36 * 49),
    ("CenterCropPad", {"x": (4, 8)}, {"constants": {"size": [2, 10]}}, 0),
    ("NegativeLogLikelihoodLoss", {"x": (4, 10), "t": [INT, 4]}, {}, 4),
    ("SoftmaxCrossEntropyLoss", {"x": (4, 10), "t": [INT, 4]}, {}, 5 * 40 + 4 + 4),
    ("GroupNormalization", {"x": (2, 4, 8, 8), "s": (4,), "b": (4,)}, {"opset": 21, "num_groups": 2}, 7 * 512 + 2 * 4),
    ("MeanVarianceNormalization", {"x": (2, 4, 8, 8)}, {}, 5 * 512 + 2 * 4),
    ("LayerNormalization", {"x": (2, 3, 8), "s": (8,)}, {}, 6 * 48 + 2 * 6),
    ("LayerNormalization", {"x": (2, 3, 8), "s": (3, 8), "b": (3, 8)}, {"axis": 1}, 7 * 48 + 2 * 2),
    ("InstanceNormalization", {"x": (2, 3, 8, 8), "s": (3,), "b": (3,)}, {}, 7 * 384 + 2 * 6),
    ("Sum", {"x": (4, 4), "y": (4, 4), "z": (4, 4)}, {}, 2 * 16),
    ("Max", {"x": (4, 4), "y": (4,), "z": (4, 4), "w": (1,)}, {}, 3 * 16),
    ("Mean", {"x": (4, 4), "y": (4, 4)}, {}, 2 * 16),
    ("RoiAlign", {"x": (1, 3, 8, 8), "r": (4, 4), "b": [INT, 4]},
     {"output_height": 2, "output_width": 2, "sampling_ratio": 2}, 48 * 4 * 9),
    ("HannWindow", {}, {"constants": {"n": 16}}, 5 * 16),
    ("HardSigmoid", {"x": (4, 4)}, {}, 4 * 16),
    ("Hardmax", {"x": (4, 8)}, {}, 4 * 7),
    ("ReduceL1", {"x": (4, 8)}, {"constants": {"axes": [1]}}, 4 * 15),
    ("ReduceL2", {"x": (4, 8)}, {"constants": {"axes": [1]}}, 4 * 16),
    ("ReduceLogSum", {"x": (4, 8)}, {"constants": {"axes": [1]}}, 4 * 8),
    ("SwiGLU", {"x": (4, 4), "y": (4, 4)}, {"opset": 28}, 5 * 16),
    ("SwiGLU", {"x": (4, 4), "y": (4, 4)}, {"opset": 28, "alpha": 1.7}, 5 * 16),
    ("CumProd", {"x": (4, 8)}, {"opset": 26, "constants": {"axis": 1}}, 4 * 7),
    ("CausalConvWithState", {"x": (2, 16, 10), "w": (16, 1, 4), "b": (16,)},
     {"opset": 27, "activation": "silu", "outputs": 2}, 320 * (2 * 4 + 1 + 4)),
    ("Softsign", {"x": (4, 4)}, {}, 3 * 16),
])  # fmt: skip
def test_counts_by_hand(kind, inputs, options, flops):
    found = _node(kind, inputs, **options)
    assert found.flops("all") == pytest.approx(flops)
    assert found.complete


@pytest.mark.parametrize(("kind", "inputs", "options", "reason"), [
    ("RoiAlign", {"x": (1, 3, 8, 8), "r": (4, 4), "b": [INT, 4]}, {}, "depends on the regions"),
    ("MaxRoiPool", {"x": (1, 3, 8, 8), "r": (4, 5)}, {"pooled_shape": [2, 2]}, "depends on the regions"),
    ("NonMaxSuppression", {"b": (1, 20, 4), "s": (1, 3, 20)}, {"dtype": INT}, "depends on the scores"),
])  # fmt: skip
def test_what_depends_on_values_says_on_which(kind, inputs, options, reason):
    (gap,) = _node(kind, inputs, **options).listed_gaps()
    assert (gap.name, reason in gap.reason) == (kind, True)


def test_a_group_norm_inside_a_network_keeps_the_shapes_behind_it():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"]),
        helper.make_node("GroupNormalization", ["h", "s", "b"], ["n"], num_groups=4),
        helper.make_node("Conv", ["n", "v"], ["y"]),
    ]
    weights = [weight("w", 8, 3, 3, 3), weight("s", 8), weight("b", 8), weight("v", 4, 8, 1, 1)]
    found = trace(model(nodes, [value("x", "N", 3, 10, 10)], [value("y")], weights, 21), frontend="onnx", batch=2)
    assert found.macs() == 2 * 64 * (8 * 27 + 4 * 8)
    assert found.complete


def _halved(*dims):
    """A file that takes the first half of x, rounded up, by arithmetic on its shape: float, divide, ceil, cast."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=1, end=2),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["f", "two"], ["q"]),
        helper.make_node("Ceil", ["q"], ["c"]),
        helper.make_node("Cast", ["c"], ["end"], to=INT),
        helper.make_node("Slice", ["x", "zero", "end", "axis"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    constants = {"two": np.array([2], "f4"), "zero": np.array([0]), "axis": np.array([1])}
    held = [numpy_helper.from_array(item, name) for name, item in constants.items()]
    return model(nodes, [value("x", *dims)], [value("y")], [*held, weight("w", 8, 16)], 20)


def test_sizes_that_a_file_works_out_from_shapes_are_numbers():
    found = trace(_halved(2, 7, 8), frontend="onnx")
    assert found.macs() == 2 * 4 * 8 * 16
    assert [op.name for op in found.ops] == ["Cast", "Div", "Ceil", "Cast", "Slice", "MatMul"]
    assert found.complete
    again = trace(_halved("B", 7, 8), frontend="onnx", batch=2)
    assert (again.macs(), again.bytes()) == (found.macs(), found.bytes())


def test_behind_an_unknown_operator_gaps_are_listed():
    nodes = [
        helper.make_node("Foo", ["x"], ["h"], domain="own"),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    found = trace(model(nodes, [value("x", 2, 8)], [value("y")], [weight("w", 8, 16)]), frontend="onnx")
    assert [gap.name for gap in found.listed_gaps()] == ["Foo", "MatMul"]


@pytest.mark.parametrize(("wanted", "each"), [(5, 1), (100, 7)])
def test_all_of_a_row_in_order_is_a_row_sorted(wanted, each):
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"])
    results = [value("y"), value("i", dtype=INT)]
    held = [numpy_helper.from_array(np.array([wanted]), "k")]
    assert trace(model([node], [value("x", 4, 100)], results, held)).flops("all") == each * 400


@pytest.mark.parametrize(("first", "second", "moved"), [((0, 4), (4, 8), 8), ((0, 6), (2, 8), 8), ((0, 3), (0, 3), 3)])
def test_the_floor_reads_every_part_that_is_cut_out_once(first, second, moved):
    """Of parts that overlap, what they have in common is read once."""
    edges = [numpy_helper.from_array(np.array([edge]), f"e{edge}") for edge in sorted({*first, *second})]
    cut = [helper.make_node("Slice", ["x", f"e{low}", f"e{high}"], [f"y{i}"])
           for i, (low, high) in enumerate((first, second))]  # fmt: skip
    results = [value("y0"), value("y1")]
    found = trace(model(cut, [value("x", 8, 100)], results, edges), frontend="onnx")
    written = first[1] - first[0] + second[1] - second[0]
    assert found.bytes("minimal") == 400 * (moved + written)


def test_the_floor_reads_every_matrix_that_a_stack_is_asked_for():
    places = [numpy_helper.from_array(np.array(i), f"i{i}") for i in range(3)]
    taken = [helper.make_node("Gather", ["w", f"i{i}"], [f"w{i}"]) for i in range(3)]
    used = [helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"]) for i in range(3)]
    given, held = [value("x", 4, 8)], [weight("w", 3, 8, 16), *places]
    found = trace(model([*taken, *used], given, [value(f"y{i}") for i in range(3)], held), frontend="onnx")
    assert found.bytes("minimal") == 4 * (4 * 8 + 3 * 8 * 16 + 3 * 4 * 16)


@pytest.mark.parametrize("places", [[0, 1, 1, 3], [5, 0, 5, 1], [2, 2, 2, 2]])
def test_rows_that_a_file_picks_twice_are_read_once(places):
    taken = helper.make_node("Gather", ["x", "i"], ["y"])
    held = [numpy_helper.from_array(np.array(places), "i")]
    found = trace(model([taken], [value("x", 8, 100)], [value("y")], held), frontend="onnx")
    assert found.bytes("minimal") == 400 * (4 + len(set(places)))


@pytest.mark.parametrize(("rule", "more", "products", "beside"), [
    ("linear", {}, 4 + 2, 0),
    ("gated", {"decay": (2, 10, 2)}, 4 + 2, 2 * 16 * 32 + 2),
    ("gated", {"decay": (2, 10, 32)}, 4 + 2, 2 * 16 * 32 + 32),
    ("delta", {"beta": (2, 10, 2)}, 4 + 2 * 2, 2 * 2 * 32),
])  # fmt: skip
def test_linear_attention_is_counted_token_by_token(rule, more, products, beside):
    """20 tokens; 4 heads of queries read 2 states of 16 x 32, which keys and values go into."""
    inputs = {"q": (2, 10, 4 * 16), "k": (2, 10, 2 * 16), "v": (2, 10, 2 * 32)}
    order = ["q", "k", "v", "", "decay" if "decay" in more else "", *(["beta"] if "beta" in more else [])]
    heads = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule}
    found = _node("LinearAttention", inputs | more, outputs=2, opset=27, order=order, **heads)
    assert found.macs() == 20 * products * 16 * 32
    assert found.flops("all") == 2 * found.macs() + 20 * beside


def _update(kind, *after, **attributes):
    """One row of a cache of 8 x 2048 x 128 is written, an input of the file."""
    update = helper.make_node(kind, ["cache", "row", "place"], ["new"], **attributes)
    inputs = [value("cache", 1, 8, 2048, 128), value("row", 1, 8, 1, 128), value("place", 1, dtype=INT)]
    more = [item for node in after for item in (value("q", 1, 8, 1, 128), value(node.output[0]))]
    results = [value("new", 1, 8, 2048, 128), *more[1::2]]
    return trace(model([update, *after], [*inputs, *more[::2]], results, opset=24), frontend="onnx")


def test_an_update_of_an_input_that_nobody_else_reads_is_done_in_place():
    """The row is read and written, the cache is not copied; attention reads all of it."""
    row, whole = 4 * 8 * 128, 4 * 8 * 2048 * 128
    found = _update("TensorScatter")
    assert found.bytes() == found.bytes("minimal") == 2 * row + 8
    assert "in place" in found.assumptions[0]
    attend = helper.make_node("Attention", ["q", "new", "new"], ["y"])
    assert _update("TensorScatter", attend).bytes("minimal") == 2 * row + 8 + 2 * row + whole


def test_an_update_of_what_is_read_elsewhere_copies_it():
    row, whole = 4 * 8 * 128, 4 * 8 * 2048 * 128
    found = _update("TensorScatter", helper.make_node("Attention", ["q", "cache", "cache"], ["y"]))
    assert found.only(name="TensorScatter").bytes() == 2 * whole + row + 8
    assert not found.assumptions


def test_a_result_that_the_file_reads_too_is_written():
    nodes = [helper.make_node("Concat", ["past", "x"], ["new"], axis=0), helper.make_node("Relu", ["new"], ["y"])]
    results = [value("new", 101, 32), value("y", 101, 32)]
    found = trace(model(nodes, [value("past", 100, 32), value("x", 1, 32)], results), frontend="onnx")
    assert found.bytes("minimal") == 4 * 32 * (100 + 1 + 101 + 101)


def test_weights_with_brackets_in_their_names_are_no_parts():
    names = [f"layers[{i}].w" for i in range(3)]
    nodes = [helper.make_node("MatMul", ["x", name], [f"y{i}"]) for i, name in enumerate(names)]
    results = [value(f"y{i}") for i in range(3)]
    found = trace(model(nodes, [value("x", 4, 8)], results, [weight(name, 8, 16) for name in names]), frontend="onnx")
    assert found.bytes("minimal") == 4 * (4 * 8 + 3 * 8 * 16 + 3 * 4 * 16)


def test_dropout_costs_while_training_and_nothing_else():
    constants = {"ratio": np.float32(0.5), "training": np.array(True)}
    training = _node("Dropout", {"x": (8, 16)}, constants=constants)
    assert training.flops("all") == 2 * 8 * 16
    assert training.bytes() == 2 * 8 * 16 * 4
    alone = model([helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Dropout", ["h"], ["y"])],
                  [value("x", 8, 16)], [value("y")])  # fmt: skip
    assert [op.name for op in trace(alone, frontend="onnx").ops] == ["Relu"]


def test_results_that_no_operator_writes_are_written():
    assert _node("Transpose", {"x": (8, 16)}, perm=[1, 0]).bytes() == 2 * 8 * 16 * 4
    assert _node("ConstantOfShape", {}, constants={"s": [8, 16]}).bytes() == 8 * 16 * 4
    assert _node("Identity", {"x": (8, 16)}).bytes() == 0
    kept = model([helper.make_node("Neg", ["x"], ["h"]), helper.make_node("Transpose", ["h"], ["y"])],
                 [value("x", 8, 16)], [value("y")])  # fmt: skip
    assert trace(kept, frontend="onnx").bytes() == 2 * 8 * 16 * 4


#: Attributes of an optimizer, its tensors for each parameter, and its FLOPs by the formulas of its page at onnx.ai.
STEPS = [
    ("Adam", 4, 12, {}), ("Adam", 4, 14, {"norm_coefficient": 0.1}), ("Adam", 4, 13, {"norm_coefficient_post": 0.1}),
    ("Adagrad", 3, 7, {}), ("Momentum", 3, 5, {"beta": 0.9, "mode": "standard"}),
    ("Momentum", 3, 4, {"beta": 1.0, "mode": "standard"}), ("Momentum", 3, 6, {"beta": 1.0, "mode": "nesterov"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "states", "each", "attributes"), STEPS)
def test_optimizers_cost_what_they_do_in_torch(kind, states, each, attributes):
    names = ["R", "T", *(f"s{i}" for i in range(states))]
    outs = [f"y{i}" for i in range(states - 1)]
    given = [value("R"), value("T", dtype=INT), *(value(name, 8, 16) for name in names[2:])]
    given[0].type.tensor_type.shape.SetInParent()
    given[1].type.tensor_type.shape.SetInParent()
    attributes = {"alpha": 0.9, "norm_coefficient": 0.0} | attributes if kind == "Momentum" else attributes
    node = helper.make_node(kind, names, outs, domain="ai.onnx.preview.training", **attributes)
    program = model([node], given, [value(name, 8, 16) for name in outs])
    program.opset_import.add(domain="ai.onnx.preview.training", version=1)
    found = trace(program, frontend="onnx")
    assert found.flops("all") == each * 8 * 16
    assert found.complete


def test_sequences_hold_tensors_as_they_are():
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0, keepdims=1),
        helper.make_node("ConcatFromSequence", ["parts"], ["y"], axis=0),
    ]
    found = trace(model(nodes, [value("x", 8, 16)], [value("y", 8, 16)]), frontend="onnx")
    assert found.only(name="SplitToSequence").bytes() == 2 * 8 * 16 * 4
    assert found.only(name="ConcatFromSequence").bytes() != 0
    assert found.complete


def test_a_clip_with_one_bound_is_one_comparison():
    both, one = (
        _node("Clip", {"x": (64,)}, constants={"a": 0.0, "b": 1.0}),
        _node("Clip", {"x": (64,)}, constants={"a": 0.0}),
    )
    upper = _node("Clip", {"x": (64,)}, constants={"b": 1.0}, order=["x", "", "b"])
    old = _node("Clip", {"x": (64,)}, opset=6, min=0.0)
    assert [found.flops("all") for found in (both, one, upper, old)] == [128, 64, 64, 64]


def test_a_triangle_is_read_alone_and_what_is_cut_off_is_not_read():
    upper, lower = np.triu(np.ones((5, 7)), 1).sum(), np.tril(np.ones((5, 7)), -1).sum()
    assert _node("Trilu", {"x": (2, 5, 7)}, constants={"k": 1}).bytes() == 4 * 2 * (upper + 35)
    assert _node("Trilu", {"x": (2, 5, 7)}, constants={"k": -1}, upper=0).bytes() == 4 * 2 * (lower + 35)
    assert _node("Trilu", {"x": (5, 5)}).bytes() == 4 * (15 + 25)
    assert _node("Pad", {"x": (8, 64)}, constants={"p": [2, -1, -3, 1]}).bytes() == 4 * (5 * 63 + 7 * 64)


@pytest.mark.parametrize(
    ("kind", "given", "dims", "moved"),
    [
        ("CumSum", ["x", "n"], [8, 64], 2 * 4 * 512 + 8),
        ("Trilu", ["x", "n"], [8, 64], 2 * 4 * 512 + 8),
        ("EyeLike", ["x"], [8, 64], 4 * 512),
        ("RandomNormalLike", ["x"], [8, 64], 4 * 512),
        ("Bernoulli", ["x"], [8, 64], 2 * 4 * 512),
        ("CastLike", ["x", "h"], [8, 64], 2 * 4 * 512),
    ],
)
def test_small_inputs_are_read_unless_only_their_shape_counts(kind, given, dims, moved):
    shapes = {"x": [8, 64], "n": [], "h": [512]}
    whole = [TensorProto.INT64 if name == "n" else TensorProto.FLOAT for name in given]
    pairs = zip(given, whole, strict=True)
    inputs = [helper.make_tensor_value_info(name, dtype, shapes[name]) for name, dtype in pairs]
    node = helper.make_node(kind, given, ["y"])
    program = model([node], inputs, [value("y", *dims)], opset=22 if kind == "Bernoulli" else 17)
    assert trace(program).bytes("minimal") == moved


@pytest.mark.parametrize(
    ("node", "dims", "elements"),
    [
        (helper.make_node("Split", ["x", "sizes"], ["y", "rest"], axis=0), [16, 64], 2 * 16 * 64),
        (helper.make_node("Einsum", ["x"], ["y"], equation="ii->i"), [64], 2 * 64),
        (helper.make_node("Einsum", ["x"], ["y"], equation="ii->"), [], 64 + 1),
    ],
)
def test_no_more_is_read_than_a_result_needs(node, dims, elements):
    sizes = numpy_helper.from_array(np.array([16, 48]), "sizes")
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)
    traced = trace(model([node], [value("x", 64, 64)], [result], [sizes] if node.op_type == "Split" else []))
    assert traced.bytes("minimal") == 4 * elements


def test_what_is_cut_off_and_weights_of_other_classes_are_not_read():
    size = numpy_helper.from_array(np.array([3, 8]), "size")
    cut = model([helper.make_node("CenterCropPad", ["x", "size"], ["y"])], [value("x", 6, 5)], [value("y")], [size], 18)
    assert trace(cut).bytes("minimal") == trace(cut).bytes() == 4 * (3 * 5 + 3 * 8)
    loss = helper.make_node("NegativeLogLikelihoodLoss", ["x", "t", "w"], ["y"])
    given = [value("x", 2, 5), value("t", 2, dtype=INT), value("w", 5)]
    assert trace(model([loss], given, [value("y")])).bytes("minimal") == 4 * 2 + 8 * 2 + 4 * 2 + 4


def test_an_einsum_of_three_says_that_its_order_is_that_of_large_sizes():
    node = helper.make_node("Einsum", ["a", "b", "c"], ["y"], equation="ij,jk,kl->il")
    for rows, is_said in (("S", True), (5, False)):
        given = [value("a", rows, 30), value("b", 30, 40), value("c", 40, 7)]
        said = trace(model([node], given, [value("y")])).assumptions
        assert any("products go in the order" in line for line in said) == is_said


def test_rows_of_an_einsum_read_those_rows():
    places = [numpy_helper.from_array(np.array([n]), name) for name, n in (("from", 0), ("to", 3))]
    nodes = [
        helper.make_node("Einsum", ["x", "z"], ["k"], equation="ij,jk->ik"),
        helper.make_node("Slice", ["k", "from", "to"], ["y"]),
    ]
    traced = trace(model(nodes, [value("x", 16, 10), value("z", 10, 12)], [value("y", 3, 12)], places))
    assert 0 <= traced.bytes("minimal") - 4 * (3 * 10 + 10 * 12 + 3 * 12) <= 16  # and where to cut


def test_a_slice_of_a_join_reads_its_places():
    places = [numpy_helper.from_array(np.array([n]), name) for name, n in (("from", 0), ("to", 8))]
    nodes = [
        helper.make_node("Concat", ["x", "z"], ["k"], axis=0),
        helper.make_node("Slice", ["k", "from", "to"], ["y"]),
    ]
    traced = trace(model(nodes, [value("x", 64, 64), value("z", 64, 64)], [value("y", 8, 64)], places))
    assert traced.bytes("minimal") == 2 * 4 * 8 * 64


@pytest.mark.parametrize(
    ("node", "elements"),
    [
        (helper.make_node("MatMul", ["x", "z"], ["k"]), 8 * 64 + 64 * 64),
        (helper.make_node("Gemm", ["x", "z"], ["k"], transA=1, transB=1), 8 * 64 + 64 * 64),
        (helper.make_node("Softmax", ["x"], ["k"]), 8 * 64),
        (helper.make_node("Softmax", ["x"], ["k"], axis=0), 64 * 64),
        (helper.make_node("ReduceMean", ["x"], ["k"], axes=[1]), 8 * 64),
        (helper.make_node("ArgMax", ["x"], ["k"], axis=1), 8 * 64),
        (helper.make_node("CumSum", ["x", "from"], ["k"]), 8 * 64),
        (helper.make_node("CumSum", ["x", "from"], ["k"], exclusive=1), 7 * 64),
        (helper.make_node("CumSum", ["x", "from"], ["k"], exclusive=1, reverse=1), 63 * 64),
        (helper.make_node("LayerNormalization", ["x", "z"], ["k"]), 2 * 8 * 64),
        (helper.make_node("Add", ["x", "z"], ["k"]), 2 * 8 * 64),
    ],
)
def test_rows_of_what_is_worked_out_along_columns_need_those_rows(node, elements):
    places = [numpy_helper.from_array(np.array([n]), name) for name, n in (("from", 0), ("to", 8))]
    nodes = [node, helper.make_node("Slice", ["k", "from", "to"], ["y"]), helper.make_node("Abs", ["y"], ["r"])]
    kind = INT if node.op_type == "ArgMax" else TensorProto.FLOAT
    program = model(nodes, [value("x", 64, 64), value("z", 64, 64)], [value("r", dtype=kind)], places, 17)
    traced = trace(program, frontend="onnx")
    written = traced.ops[-1].writes[0].traffic_bytes
    assert traced.bytes("minimal") == 4 * elements + written


_IMAGE = {"x": (1, 6, 6, 8), **dict.fromkeys("sbmv", (6,))}
_PARTS_OF_IMAGES = {
    "each channel": (("InstanceNormalization", "xsb", {}), 2 * 48 + 2 * 2),
    "groups of two": (("GroupNormalization", "xsb", {"num_groups": 3}), 4 * 48 + 2 * 2),
    "stored statistics": (("BatchNormalization", "xsbmv", {}), 2 * 2 * 3 + 4 * 2),
    "all of a channel": (("GlobalMaxPool", "x", {}), 2 * 48),
    "a channel of the batch": (("MeanVarianceNormalization", "x", {}), 2 * 48),
    "the nearest": (("Resize", ["x", "", "scales"], {}), 2 * 2 * 2),
    "a mix of two": (("Resize", ["x", "", "scales"], {"mode": "linear"}), 2 * 2 * 2),
    "padded with its edge": (("Pad", ["x", "pads"], {"mode": "edge"}), 2 * 2 * 2),
    "padded with what lies before its edge": (("Pad", ["x", "pads"], {"mode": "reflect"}), 2 * 2 * 2),
    "padded round about": (("Pad", ["x", "pads"], {"mode": "wrap"}), 2 * 2 * 3),
    "neighbouring channels": (("LRN", "x", {"size": 4}), 5 * 2 * 3),
    "a mix of four": (("Resize", ["x", "", "scales"], {"mode": "cubic"}), 2 * 3 * 3),
    "corners": (
        ("Resize", ["x", "", "scales"], {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
        2 * 2 * 2,
    ),
}


@pytest.mark.parametrize("case", _PARTS_OF_IMAGES)
def test_a_part_of_an_image_is_made_of_a_part(case):
    """Of x[1, 6, 6, 8] channels 1 and 2, rows 1 and columns up to 2 are asked for, at twice the size where resized."""
    (kind, names, options), read = _PARTS_OF_IMAGES[case]
    first = [1, 0, 0] if kind == "GlobalMaxPool" else [1, 1, 0]
    held = {"first": first, "last": [3, 3, 3], "axes": [1, 2, 3], "scales": np.array([1, 1, 2, 2], np.float32)}
    held["pads"] = [0, 1, 1, 1, 0, 0, 0, 0]
    nodes = [
        helper.make_node(kind, list(names), ["k"], **options),
        helper.make_node("Slice", ["k", "first", "last", "axes"], ["p"]),
        helper.make_node("Abs", ["p"], ["y"]),
    ]
    given = [value(name, *dims) for name, dims in _IMAGE.items() if name in names]
    constants = [numpy_helper.from_array(np.asarray(number), name) for name, number in held.items()]
    traced = trace(model(nodes, given, [value("y")], constants, 21), frontend="onnx")
    given_back = 2 if kind == "GlobalMaxPool" else 2 * 2 * 3
    assert traced.bytes("minimal") == 4 * (read + given_back)


def _masked(kind, names, shapes, mask, rows, **options):
    """A node under a lower triangle that the file holds; of its result the first rows are asked for."""
    held = {"mask": mask, "first": np.array([0]), "last": np.array([rows]), "axes": np.array([-2])}
    nodes = [
        helper.make_node(kind, list(names), ["t"], **options),
        helper.make_node("Slice", ["t", "first", "last", "axes"], ["p"]),
        helper.make_node("Abs", ["p"], ["y"]),
    ]
    constants = [numpy_helper.from_array(number, name) for name, number in held.items()]
    given = [value(name, *dims) for name, dims in shapes.items()]
    return trace(model(nodes, given, [value("y")], constants, 23), frontend="onnx").bytes("minimal")


@pytest.mark.parametrize("rows", [3, 8])
def test_of_what_a_mask_in_the_file_hides_nothing_is_read(rows):
    mask, below = np.tril(np.ones((8, 8), bool)), rows * (rows + 1) // 2
    both = {"x": (8, 8), "w": (8, 8)}
    assert _masked("Where", ["mask", "x", "w"], both, mask, rows) == 4 * 2 * 8 * rows + 8 * rows
    with_number = 4 * (below + 8 * rows + 1) + 8 * rows
    assert _masked("Where", ["mask", "x", "w"], {"x": (8, 8), "w": (1, 1)}, mask, rows) == with_number
    heads = dict.fromkeys("qkv", (2, 3, 8, 4))
    seen = 4 * 4 * (2 * 3 * rows * 4)  # queries, the keys and values that they see, and results
    assert _masked("Attention", ["q", "k", "v", "mask"], heads, mask, rows) == seen + 8 * rows
    assert _masked("Attention", ["q", "k", "v"], heads, mask, rows, is_causal=1) == seen


def test_what_a_file_makes_of_sizes_alone_is_no_input():
    """Zeros of the input's shape, and a shape that is put together for a reshape; a shape that is given back is one."""
    zeros = [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
             helper.make_node("Add", ["x", "zeros"], ["y"])]  # fmt: skip
    assert trace(model(zeros, [value("x", 8, 8)], [value("y", 8, 8)])).bytes("minimal") == 2 * 256
    last = numpy_helper.from_array(np.array([-1]), "last")
    turned = [helper.make_node("Shape", ["x"], ["first"], end=1), helper.make_node("Exp", ["x"], ["e"]),
              helper.make_node("Concat", ["first", "last"], ["shape"], axis=0),
              helper.make_node("Reshape", ["e", "shape"], ["y"])]  # fmt: skip
    found = trace(model(turned, [value("x", 8, 2, 4)], [value("y", 8, 8)], [last]))
    assert ([op.name for op in found.ops], found.bytes("minimal")) == (["Exp"], 2 * 256)
    shapes = [helper.make_node("Shape", ["x"], ["y"])]
    assert trace(model(shapes, [value("x", 8, 8)], [value("y", 2, dtype=INT)])).bytes() == 16


_BELOW = np.tril(np.ones((96, 96), bool))  # more elements than a list of sizes has


@pytest.mark.parametrize("mask", [_BELOW, np.where(_BELOW, 0, -np.inf).astype(np.float32)[None],
                                  np.arange(96)[None] < 60], ids=["bool", "added", "keys"])  # fmt: skip
@pytest.mark.parametrize("is_causal", [0, 1])
def test_attention_counts_the_scores_that_a_mask_in_the_file_lets_through(mask, is_causal):
    heads = {"q": (2, 4, 96, 8), "k": (2, 2, 96, 8), "v": (2, 2, 96, 8)}
    shown = np.broadcast_to(mask == (mask.dtype == bool), (1, 96, 96))
    shown = shown & _BELOW if is_causal else shown
    ours = _node("Attention", heads, constants={"mask": mask}, order=[*"qkv", "mask"], opset=23, is_causal=is_causal)
    assert ours.macs() == 2 * 4 * shown.sum() * 2 * 8
    known = torch.from_numpy(shown.copy())
    theirs = trace(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=known, enable_gqa=True),
        *(f"fp32{list(dims)}" for dims in heads.values()),
    )
    assert (ours.flops("all"), ours.bytes() - mask.nbytes) == (theirs.flops("all"), theirs.bytes() - known.nbytes)


@pytest.mark.parametrize("is_causal", [0, 1])
@pytest.mark.parametrize("rows", [1, 96])
def test_a_mask_in_the_file_stands_beside_an_open_number_of_queries(rows, is_causal):
    """A mask of one row counts. Beside a causal one, or with more rows, it is not looked at."""

    def macs(mask):
        heads = {"q": (2, 4, "S", 8), "k": (2, 2, 96, 8), "v": (2, 2, 96, 8)}
        constants = {} if mask is None else {"mask": mask}
        return _node("Attention", heads, constants=constants, opset=23, is_causal=is_causal).macs()

    mask = np.broadcast_to(np.arange(96) < 60, (rows, 96))
    opened, whole = macs(mask), macs(None)
    assert opened == (whole if rows > 1 or is_causal else 2 * 4 * 60 * 2 * 8 * whole.free_symbols.pop())


@pytest.mark.parametrize(("dims", "more"), [((2, 4, 5, 16), {}), ((2, 5, 64), {"num_heads": 4})])
def test_of_each_head_as_much_is_turned_as_the_tables_hold(dims, more):
    for width in (8, 3):
        facts = more | ({"rotary_embedding_dim": 2 * width} if width < 8 else {})
        found = _node("RotaryEmbedding", {"x": dims, "cos": (9, width), "sin": (9, width), "at": [INT, 2, 5]},
                      opset=23, **facts)  # fmt: skip
        assert found.flops("all") == 2 * 5 * 4 * width * (4 + 2)  # 4 products and 2 sums for each pair
        assert found.bytes() == 4 * (2 * 2 * 4 * 5 * 16 + 2 * 9 * width) + 8 * 10


def _of_positions(mask):
    """An attention under a mask that the file makes of the sizes of its queries and keys."""
    held = {"two": 2, "zero": 0, "one": 1, "first": [0], "last": [1], "width": 4, "low": np.float32(-1e9)}
    held |= {"none": np.float32(0)}
    nodes = (
        """Shape q qs; Gather qs two S; Shape k ks; Gather ks two T; Sub T S apart; Range zero S one i; Add i apart q_at
        Range zero T one k_at; Unsqueeze q_at last rows; Unsqueeze k_at first columns; Sub rows columns behind
        GreaterOrEqual rows columns causal; Less behind width near; Less columns width start; """
        + mask
    )
    made = [line.split() for line in nodes.replace("\n", ";").split(";") if line.strip()]
    every = [helper.make_node(kind, words[:-1], words[-1:]) for kind, *words in made]
    every.append(helper.make_node("Attention", [*"qkv", "mask"], ["y"]))
    given = [value("q", 2, 3, "S", 8), value("k", 2, 3, "T", 8), value("v", 2, 3, "T", 8)]
    constants = [numpy_helper.from_array(np.array(number), name) for name, number in held.items()]
    return model(every, given, [value("y", 2, 3, "S", 8)], constants, 23)


@pytest.mark.parametrize(("nodes", "seen"), [
    ("And causal near mask", lambda i, j: (i >= j) & (i - j < 4)),
    ("Or causal start mask", lambda i, j: (i >= j) | (j < 4)),
    ("Where causal none low mask", lambda i, j: i >= j),
], ids=["window", "prefix", "added"])  # fmt: skip
def test_attention_counts_the_scores_that_a_mask_of_positions_lets_through(nodes, seen):
    found = trace(_of_positions(nodes))
    opened = found.flops()
    assert found.bytes().free_symbols == {symbol("S"), symbol("T")}
    for S, T in ((13, 13), (6, 17)):
        pairs = seen(np.arange(S)[:, None] + T - S, np.arange(T)).sum()
        assert trace(_of_positions(nodes), sizes={"S": S, "T": T}).flops() == 4 * 2 * 3 * 8 * pairs
        assert opened.subs({symbol("S"): S, symbol("T"): T}) == 4 * 2 * 3 * 8 * pairs


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_fills_an_open_tensor_and_is_none_hides_nothing(number):
    fill = helper.make_tensor("fill", TensorProto.FLOAT, [1], [number])
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["filled"], value=fill),
        helper.make_node("Add", ["x", "filled"], ["y"]),
    ]
    assert trace(model(nodes, [value("x", "N", 4)], [value("y")])).bytes("minimal") == 32 * symbol("N")
