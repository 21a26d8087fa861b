"""Bad ONNX files: whatever is wrong with one, there is one clear error, and it names the node where it can."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from roofline.cli import main
from roofline.errors import InputError, MissingExtraError, RooflineError, SizeError
from roofline.formulas.column_code import ColumnForms, column_code
from roofline.formulas.printers import Way, javascript_source, python_source
from roofline.programs import trace
from roofline.programs.api import front_end
from roofline.signatures import on_command_line
from roofline.sizes import symbol
from tests.programs.onnx_models import model, value, weight
from tests.programs.onnx_networks import Graph


def _small():
    g = Graph()
    x = g.add("Flatten", g.add("MaxPool", g.conv("x", 3, 8), kernel_shape=[2, 2]))
    return g.model(value("x", "N", 3, 16, 16), g.add("Softmax", g.dense(x, 8 * 225, 10)))


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_damaged_file_is_an_error_or_a_count(seed, tmp_path):
    data, path, draw = _small().SerializeToString(), tmp_path / "net.onnx", random.Random(seed)
    answers = 0
    for _ in range(40):
        broken = bytearray(data[: draw.randrange(len(data))] if draw.random() < 0.3 else data)
        for _ in range(draw.randint(1, 3) if broken else 0):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        path.write_bytes(bytes(broken))
        try:
            trace(str(path))
        except RooflineError:
            answers += 1
    assert answers


@pytest.mark.parametrize(
    ("op", "second", "attributes"),
    [("Gemm", [32, 64], {"transB": 1}), ("Conv", [4, 64, 1, 1], {}), ("Gather", [2], {}), ("Gather", None, {})],
)
def test_an_operand_without_a_shape_is_read_whole(
    op: str, second: list[int] | None, attributes: dict[str, int]
) -> None:
    inputs = [value("a", *([1, 64, 8, 8] if op == "Conv" else [2, 64]))]
    inputs += [] if second is None else [helper.make_tensor_value_info("b", 0, second)]  # of no kind that there is
    node = helper.make_node(op, ["a", "" if second is None else "b"], ["y"], **attributes)
    found = trace(model([node], inputs, [value("y", 1)], opset=17), frontend="onnx")
    assert found.flops() == 0


def test_indices_of_no_dimension_name_any_part():
    """No shape inference refuses them, so of the values all are read."""
    at = helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [])
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"])
    found = model([node], [value("x", 4, 6), at, value("u", 3, 6)], [value("y", 4, 6)], opset=17)
    assert trace(found, frontend="onnx").bytes("minimal") >= 4 * 3 * 6


@pytest.mark.parametrize(
    ("kind", "indices", "facts", "said"),
    [
        ("ScatterND", [[6]], {}, "index 6 of a dimension of size 6"),
        ("ScatterND", [[-7]], {}, "index -7 of a dimension of size 6"),
        ("ScatterND", [[0, 4]], {}, "index 4 of a dimension of size 4"),
        ("ScatterND", [[0.5]], {}, "the indices are not whole numbers"),
        ("ScatterND", [["a"]], {}, "the indices are not whole numbers"),
        ("ScatterElements", [[4, 0, 0, 0]], {"axis": -1}, "index 4 of a dimension of size 4"),
        ("ScatterElements", [[0, 0, 0, 0]], {"axis": 7}, "axis 7 of a tensor of rank 2"),
        ("ScatterElements", [[-6, 5, 0, 0]], {}, None),
    ],
)
def test_indices_that_no_runtime_takes_are_an_error(kind, indices, facts, said):
    """They lie in [-n, n) of a dimension of n, and are whole numbers."""
    node = helper.make_node(kind, ["x", "i", "u"], ["y"], **facts)
    held = np.array(indices, dtype=object if said and isinstance(indices[0][0], str) else None)
    shape = [1] if len(indices[0]) == 2 else [1, 4]
    indices = onnx.numpy_helper.from_array(held, "i")
    found = model([node], [value("x", 6, 4), value("u", *shape)], [value("y", 6, 4)], [indices], opset=18)
    if said is None:
        assert trace(found, frontend="onnx").bytes("minimal") == 4 * (4 + 4) + 8 * 4
        return
    with pytest.raises(InputError, match=said):
        trace(found, frontend="onnx")


@pytest.mark.parametrize(
    ("kind", "indices", "facts", "said"),
    [
        ("Gather", [0, 6], {}, "index 6 of a dimension of size 6"),
        ("Gather", [-5], {"axis": 1}, "index -5 of a dimension of size 4"),
        ("Gather", [0.5], {}, "the indices are not whole numbers"),
        ("GatherElements", [[0, 0, 6, 0]], {}, "index 6 of a dimension of size 6"),
        ("GatherND", [[0, 4]], {}, "index 4 of a dimension of size 4"),
        ("GatherND", [[4]] * 6, {"batch_dims": 1}, "index 4 of a dimension of size 4"),
        ("GatherND", [[3]] * 6, {"batch_dims": 1}, None),
        ("Gather", [-6, 5], {}, None),
    ],
)
def test_indices_to_gather_that_no_runtime_takes_are_an_error(kind, indices, facts, said):
    node = helper.make_node(kind, ["x", "i"], ["y"], **facts)
    indices = onnx.numpy_helper.from_array(np.array(indices), "i")
    out = {"Gather": [len(indices.dims) and indices.dims[0], 4], "GatherND": [6]}.get(kind, [1, 4])
    found = model([node], [value("x", 6, 4)], [value("y", *out)], [indices], opset=18)
    if said is None:
        assert trace(found, frontend="onnx").bytes("minimal") > 0
        return
    with pytest.raises(InputError, match=said):
        trace(found, frontend="onnx")


def test_a_node_whose_only_input_is_absent_has_no_known_value() -> None:
    node = helper.make_node("Transpose", [""], ["z"])
    nodes = [node, helper.make_node("Relu", ["x"], ["y"])]
    found = trace(model(nodes, [value("x", "B", 4)], [value("y", "B", 4)], opset=17), frontend="onnx")
    assert str(found.flops()) == "0"


def test_a_result_of_a_branch_may_have_the_name_of_the_whole_result() -> None:
    """A cycle of names ends: the outer result is the inner one of the same name."""
    inner = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "then", [], [value("y", 8, 8)])
    other = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "else", [], [value("z", 8, 8)])
    node = helper.make_node("If", ["which"], ["y"], then_branch=inner, else_branch=other)
    which = helper.make_tensor_value_info("which", onnx.TensorProto.BOOL, [])
    graph = model([node], [value("x", 8, 8), which], [value("y", 8, 8)], opset=17)
    assert trace(graph, frontend="onnx").flops() == 2 * 8**3


def test_a_node_without_an_attribute_is_no_error_of_python() -> None:
    node = helper.make_node("MaxPool", ["a"], ["y"], domain="com.microsoft")
    graph = model([node], [value("a", 1, 64, 8, 8)], [value("y", 1)], opset=17)
    with pytest.raises(
        InputError, match="y: the inputs or attributes of MaxPool cannot be read: one is missing, or of"
    ):
        trace(graph, frontend="onnx")


def test_a_node_without_what_it_needs_is_named():
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], name="/layer/Attention")
    found = model([node], [value(name, 2, 6, 64) for name in "qkv"], [value("y", 2, 6, 64)], opset=17)
    with pytest.raises(InputError, match="/layer/Attention: the inputs or attributes of Attention cannot be read"):
        trace(found, frontend="onnx")


@pytest.mark.parametrize("heads", [-(2**63), -1, 0, 3, 2**40])
@pytest.mark.parametrize(
    ("op", "domain", "names"),
    [
        ("MultiHeadAttention", "com.microsoft", ["num_heads"]),
        ("GroupQueryAttention", "com.microsoft", ["num_heads", "kv_num_heads"]),
        ("Attention", "", ["q_num_heads", "kv_num_heads"]),
        ("LinearAttention", "", ["q_num_heads", "kv_num_heads"]),
    ],
)
def test_heads_are_whole_and_divide_the_width(op, domain, names, heads):
    node = helper.make_node(op, list("qkv"), ["y"], domain=domain, name="here", **dict.fromkeys(names, heads))
    found = model([node], [value(name, 2, 8, 64) for name in "qkv"], [value("y", 2, 8, 64)], opset=23)
    with pytest.raises(InputError, match=r"here.*(num_heads|_heads of|heads)"):
        trace(found, frontend="onnx")


@pytest.mark.parametrize("name", ["op_type", "domain", "name"])
def test_a_name_that_is_no_text_is_an_error(tmp_path, name):
    node = helper.make_node("Relu", ["x"], ["y"], name="here", domain="own")
    setattr(node, name, "MARKED")
    path = tmp_path / "net.onnx"
    path.write_bytes(
        model([node], [value("x", 1, 4)], [value("y", 1, 4)]).SerializeToString().replace(b"MARK", b"\xff\xff\xff\xff")
    )
    with pytest.raises(InputError, match=r"a name in the graph is not text|is not an ONNX file"):
        trace(str(path))


def test_inputs_that_do_not_fit_name_the_node():
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="/head/MatMul")
    found = model([node], [value("x", 2, 3)], [value("y")], [weight("w", 4, 5)])
    with pytest.raises(InputError, match=r"do not fit: .*MatMul.*/head/MatMul"):
        trace(found, frontend="onnx")


@pytest.mark.parametrize("groups", [3, 4, 16, 2**31])
def test_groups_of_a_convolution_divide_its_channels(groups):
    g = Graph()
    node = g.add("Conv", "x", g.weight(8, 3, 3, 3), group=groups, kernel_shape=[3, 3])
    found = g.model(value("x", 2, 3 * groups % 2**20, 16, 16), node)
    if groups == 4:
        assert trace(found, frontend="onnx").flops() > 0
        return
    with pytest.raises(InputError, match=rf"8 does not divide into group = {groups}"):
        trace(found, frontend="onnx")


def test_external_weights_that_are_missing_are_not_needed(tmp_path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    path = tmp_path / "net.onnx"
    path.write_bytes(model([node], [value("x", 2, 3)], [value("y")], [weight("w", 3, 5)]).SerializeToString())
    assert not (tmp_path / "weights.bin").exists()
    traced = trace(str(path))
    assert (traced.macs(), traced.parameters()) == (30, 15)


@pytest.mark.parametrize("library", ["onnx", "jax"])
def test_a_missing_library_names_its_extra(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"{library} is not installed; .*'\.\[{library}\]'"):
        front_end(library)


def test_inputs_beside_a_file_are_refused():
    with on_command_line(), pytest.raises(InputError, match="leave --input out, and say --batch 8 or S=128 for open"):
        trace(_small(), "fp32[1, 3, 16, 16]", frontend="onnx")
    with pytest.raises(InputError, match="an ONNX file has inputs of its own; say batch=8"):
        trace(_small(), "fp32[1, 3, 16, 16]", frontend="onnx")


def test_sizes_that_no_library_takes_are_refused():
    reshaped = model(
        [helper.make_node("Reshape", ["x", "s"], ["y"])], [value("x", 100, 8), value("s", 1000)], [value("y")]
    )
    reshaped.graph.input[1].type.tensor_type.elem_type = 7
    with pytest.raises(InputError, match="'y' has 1,000 dimensions; at most 64"):
        trace(reshaped, frontend="onnx")
    added = model([helper.make_node("Add", ["x", "s"], ["y"])], [value("x", 1), value("s", 2**62)], [value("y")])
    for item in (*added.graph.input, *added.graph.output):
        item.type.tensor_type.elem_type = 7
    assert [op.writes[0].elements for op in trace(added, frontend="onnx").ops] == [2**62]


@pytest.mark.parametrize("name", ["N*2", "batch size", "x=print('RAN')", "0", "a, b", "x): import os  #"])
def test_a_size_of_a_file_is_a_name_and_never_code(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns are compiled from source with the names of sizes: a file's are letters, digits and _ by then."""
    x, y = (helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, [name, 64]) for each in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    path = tmp_path / "g.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    for words in (["--formula", "--json"], ["--formula", "--python"], ["--json"]):
        assert main(["trace", str(path), "--on", "h100", *words]) == 0
        said = capsys.readouterr()
        assert "RAN" not in said.err
        assert not said.out.startswith("RAN")


def test_a_formula_is_not_compiled_of_what_is_no_name() -> None:
    size = symbol("B=print('RAN')")
    with pytest.raises(SizeError, match="is no name in a program; letters, digits and _, as in batch"):
        column_code(
            "g", ColumnForms({"B": size}, {}, {}, {"hbm": 8 * size}, {}, {}), ("time.hbm",), frozenset("B"), True
        )
    for source in (python_source, javascript_source):
        with pytest.raises(SizeError, match="is no name in a program"):
            source("g", [size], Way({}, {"hbm": 8 * size}, {}))


def test_a_rule_that_compares_an_open_size_asks_for_its_number(monkeypatch):
    monkeypatch.setattr("roofline.programs.onnx.trace.find", lambda name: lambda call: call.shape(0)[0] > 3 or None)
    with pytest.raises(InputError, match="of Relu need the numbers of open sizes; give batch= or sizes="):
        trace(model([helper.make_node("Relu", ["x"], ["y"])], [value("x", "N")], [value("y")]))


def test_long_lists_and_large_images_are_not_worked_out_number_by_number():
    held = [helper.make_tensor(name, TensorProto.INT64, [], [n]) for name, n in (("a", 0), ("b", 2**60), ("c", 1))]
    many = helper.make_node("Range", ["a", "b", "c"], ["r"])
    counted = model([many, helper.make_node("Cast", ["r"], ["y"], to=TensorProto.FLOAT)], [], [value("y", 2**60)], held)
    assert trace(counted, frontend="onnx").bytes("minimal") == 4 * 2**60
    held = [helper.make_tensor("s", TensorProto.FLOAT, [4], [1, 1, 2**40, 2])]
    held += [
        helper.make_tensor(name, TensorProto.INT64, [4], n) for name, n in (("a", [0] * 4), ("b", [1, 1, 2**39, 3]))
    ]
    nodes = [helper.make_node("Resize", ["x", "", "s"], ["k"]), helper.make_node("Slice", ["k", "a", "b"], ["y"])]
    resized = model(nodes, [value("x", 1, 1, 4, 4)], [value("y", 1, 1, 2**39, 3)], held)
    assert trace(resized, frontend="onnx").bytes("minimal") >= 4 * 3 * 2**39


def test_a_result_without_a_shape_is_a_gap():
    axes = value("axes", 1, dtype=TensorProto.INT64)
    found = trace(model([helper.make_node("Squeeze", ["x", "axes"], ["y"])], [value("x", 1, 8), axes], [value("y")]))
    assert "the shape or dtype of y is not known" in str(found.listed_gaps()[0])
