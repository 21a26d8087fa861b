"""ONNX files at random: small networks of many operators, with their sizes, attributes, types and names changed."""

from __future__ import annotations

import functools
import random
from typing import Any


@functools.cache
def _graphs() -> tuple[Any, ...]:
    """Small ONNX models of many operators."""
    from onnx import TensorProto, helper

    from tests.programs.onnx_models import MICROSOFT, model, value

    def one(kind: str, dims: list[tuple[Any, ...]], out: int = 4, domain: str = "", **attributes: Any) -> Any:
        names = [f"x{place}" for place in range(len(dims))]
        node = helper.make_node(kind, names, ["y"], domain=domain, **attributes)
        inputs = [value(name, *shape) for name, shape in zip(names, dims, strict=True)]
        return model([node], inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])

    image, weights = ("N", 3, 32, 32), (8, 3, 3, 3)
    return (
        one("MatMul", [("B", 64), (64, 32)]), one("Gemm", [(8, 64), (32, 64), (32,)], transB=1),
        one("Conv", [image, weights], pads=[1, 1, 1, 1], strides=[2, 2], dilations=[1, 1], kernel_shape=[3, 3], group=1),
        one("ConvTranspose", [image, (3, 8, 2, 2)], strides=[2, 2]),
        one("MaxPool", [image], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=0), one("AveragePool", [image], kernel_shape=[3, 3]),
        one("GlobalAveragePool", [image]), one("Softmax", [("B", 64)], axis=-1), one("ReduceSum", [("B", 8, 8)], keepdims=0),
        one("LayerNormalization", [("B", 64), (64,), (64,)], axis=-1), one("Add", [("B", 64), (64,)]),
        one("Concat", [("B", 8), ("B", 8)], axis=1), one("Flatten", [image], axis=1), one("Transpose", [(4, 5)], perm=[1, 0]),
        one("LSTM", [(7, "B", 8), (1, 64, 8), (1, 64, 16)], hidden_size=16), one("Einsum", [("B", 8), (8, 4)], equation="ij,jk->ik"),
        one("DepthToSpace", [("B", 16, 4, 4)], blocksize=2), one("Gather", [(100, 8), ("B",)]), one("TopK", [("B", 64), (1,)]),
        one("MultiHeadAttention", [(2, 8, 64)] * 3, domain=MICROSOFT, num_heads=4), one("Sigmoid", [("B", 4)]),
        one("BatchNormalization", [image, (3,), (3,), (3,), (3,)]), one("Split", [("B", 8)], axis=1, num_outputs=2),
        one("Resize", [image], scales=[1.0, 1.0, 2.0, 2.0]), one("Slice", [("B", 8)], starts=[0], ends=[4]),
        one("GatherElements", [("B", 8), ("B", 8)]),
        one("MatMulNBits", [("B", 64), (32, 2, 16), (64,)], domain=MICROSOFT, K=64, N=32, bits=4, block_size=32),
        one("GroupQueryAttention", [(2, 8, 64), (2, 8, 16), (2, 8, 16)], domain=MICROSOFT, num_heads=8, kv_num_heads=2),
        *_pairs(), *_nested(),
    )  # fmt: skip


def _pairs() -> tuple[Any, ...]:
    """Products between DequantizeLinear and QuantizeLinear, one with weights laid out anew behind theirs."""
    from onnx import TensorProto, helper

    from tests.programs.onnx_models import model, value, weight

    found = []
    for kind, x, w, attributes in (
        ("MatMul", ("B", 16), (32, 16), {}), ("Gemm", (4, 16), (32, 16), {"transB": 1}),
        ("Conv", (2, 3, 10, 10), (8, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ):  # fmt: skip
        nodes = [helper.make_node("DequantizeLinear", [word, "s", "z"], [f"{word}_wide"]) for word in "xw"]
        if kind == "MatMul":
            nodes.append(helper.make_node("Transpose", ["w_wide"], ["w_turned"], perm=[1, 0]))
        words = ["x_wide", "w_turned" if kind == "MatMul" else "w_wide"]
        nodes += [helper.make_node(kind, words, ["y"], **attributes), helper.make_node("Relu", ["y"], ["r"])]
        nodes.append(helper.make_node("QuantizeLinear", ["r", "s", "z"], ["o"]))
        held = [weight("w", *w, dtype=TensorProto.UINT8), weight("s"), weight("z", dtype=TensorProto.UINT8)]
        given, out = value("x", *x, dtype=TensorProto.UINT8), value("o", dtype=TensorProto.UINT8)
        found.append(model(nodes, [given], [out], held))
    return tuple(found)


def _nested() -> tuple[Any, ...]:
    """A Loop whose body picks its weights by the counter, a Scan, an If and a function of the file's own."""
    from onnx import TensorProto, helper

    from tests.programs.onnx_models import model, value, weight

    scalars = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("i", 7), ("on", 9), ("go", 9))]
    step = [helper.make_node("MatMul", ["c", "l"], ["d"])]
    looped = [helper.make_node("Identity", ["on"], ["go"]), helper.make_node("Gather", ["w", "i"], ["l"]), *step]
    body = helper.make_graph(looped, "body", [*scalars[:2], value("c", 8, 16)], [scalars[2], value("d", 8, 16)])
    scanned = helper.make_graph(step, "layer", [value("c", 8, 16), value("l", 16, 16)], [value("d", 8, 16)])
    small, large = (
        helper.make_graph([helper.make_node(kind, ["x"] * count, [kind])], kind, [], [value(kind, 8, 8)])
        for kind, count in (("Relu", 1), ("MatMul", 2))
    )
    own = helper.make_function(
        "own",
        "Layer",
        ["a", "b"],
        ["c"],
        [helper.make_node("MatMul", ["a", "b"], ["c"])],
        [helper.make_opsetid("", 17)],
    )
    ways = helper.make_node("If", ["which"], ["y"], then_branch=large, else_branch=small)
    which = helper.make_tensor_value_info("which", TensorProto.BOOL, [])
    many = helper.make_tensor("many", TensorProto.INT64, [], [6])
    out = value("y")
    return (
        model([helper.make_node("Loop", ["many", "", "x"], ["y"], body=body)], [value("x", 8, 16)], [out], [many, weight("w", 6, 16, 16)]),
        model([helper.make_node("Scan", ["x", "w"], ["y"], body=scanned, num_scan_inputs=1)], [value("x", 8, 16)], [out], [weight("w", 6, 16, 16)]),
        model([ways], [value("x", 8, 8), which], [out]),
        model([helper.make_node("Layer", ["x", "w"], ["y"], domain="own")], [value("x", "B", 8)], [out], [weight("w", 8, 8)], functions=[own]),
    )  # fmt: skip


#: Kinds of elements, one of them none.
_KINDS = (0, 1, 2, 3, 7, 8, 9, 10, 16, 17, 22, 23, 99)
_SIZES = (0, 1, -1, 2, 3, 5, 7, -8, 64, 2**31, 2**62, -(2**63), 2**63 - 1, 1000)


def changed_graph(rng: random.Random) -> bytes:
    """An ONNX file: sizes, attributes, types and names changed."""
    import onnx

    made = onnx.ModelProto()
    made.CopyFrom(rng.choice(_graphs()))
    for _ in range(rng.randint(1, 3)):
        _change_graph(rng, made.graph)
    return bytes(made.SerializeToString())


def _change_graph(rng: random.Random, graph: Any) -> None:
    """Change one thing of a graph, or of one that a node of it holds."""
    from onnx import helper

    node = rng.choice(list(graph.node))
    inside = [item.g for item in node.attribute if item.HasField("g")]
    if inside and rng.random() < 0.6:
        return _change_graph(rng, rng.choice(inside))
    given, kind = [*graph.input, *graph.value_info], rng.random()
    held = rng.choice(given) if given else None
    dims = held.type.tensor_type.shape.dim if held else ()
    attributes = [item for item in node.attribute if not item.HasField("g")]
    if kind < 0.35 and dims:
        dim = rng.choice(list(dims))
        if rng.random() < 0.8:
            dim.dim_value = rng.choice(_SIZES)
        else:
            dim.dim_param = rng.choice(("B", "N*2", "B-1", "", "1", "9**9", "é", "B S", "a" * 50, "max(B,1)"))
    elif kind < 0.65 and attributes:
        _change_attribute(rng, rng.choice(attributes))
    elif kind < 0.72 and held:
        held.type.tensor_type.elem_type = rng.choice(_KINDS)
    elif kind < 0.8:
        node.op_type = rng.choice(
            ("Conv", "MaxPool", "MatMul", "Softmax", "LSTM", "Concat", "Nonsense", "Loop", "If", "Reshape", "Scan",
             "QuantizeLinear", "DequantizeLinear", "QLinearMatMul", "QLinearConv", "Transpose")
        )  # fmt: skip
    elif kind < 0.87 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(
            (node.input[-1], "", "nowhere", "y", node.output[0], graph.node[-1].output[0])
        )
    elif kind < 0.91 and graph.initializer:
        weight = rng.choice(list(graph.initializer))
        if rng.random() < 0.5:
            weight.dims[:] = [rng.choice(_SIZES) for _ in range(rng.randint(0, 5))]
        else:
            weight.data_type = rng.choice(_KINDS)
    elif kind < 0.94 and held:
        shape = [rng.choice(_SIZES) for _ in range(rng.randint(0, 5))]
        graph.initializer.append(helper.make_tensor(held.name, 1, [], [1.0]))
        graph.initializer[-1].dims[:] = shape
        if rng.random() < 0.5:
            graph.initializer[-1].data_location = 1
    elif kind < 0.96:
        other = rng.choice(list(graph.node))
        node.output[0] = other.input[0] if other.input else ""
    elif graph.output:
        graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [rng.choice(_SIZES) for _ in range(3)]))


def _change_attribute(rng: random.Random, item: Any) -> None:
    if item.ints:
        item.ints[rng.randrange(len(item.ints))] = rng.choice(_SIZES)
    elif item.floats:
        item.floats[0] = rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    elif item.s:
        item.s = rng.choice((b"", b"ij->", b"...", b"ij,jk,kl->il", b"\xff", b"i" * 200))
    else:
        item.i = rng.choice(_SIZES)
