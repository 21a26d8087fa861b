"""Shapes through the operators of ONNX Runtime (domain ``com.microsoft``), which the onnx library knows nothing of.

For inference alone each is replaced by standard operators whose results have the same shapes; the shapes found are then
those of the file's own values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import onnx
from onnx import TensorProto, helper

DOMAIN = "com.microsoft"
#: Operators of the standard domain that the library does not know the shapes of: the runtime's own, and some norms.
UNOFFICIAL = ("SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", "SkipLayerNormalization",
              "GroupNormalization", "MeanVarianceNormalization")  # fmt: skip
Nodes = list[Any]

#: What adds the standard nodes that stand for one node.
StandIn: TypeAlias = "Callable[[Builder], object]"


class Builder:
    """Standard nodes for one node: names of its own, and constants and weights that only have a shape."""

    def __init__(self, node: Any, graphs: list[Any], prefix: str) -> None:
        self.node, self.graph, self.outer, self.prefix = node, graphs[0], graphs, prefix
        self.nodes: Nodes = []
        self.attributes = attributes_of(node)

    def given(self, place: int) -> str:
        """An input, "" where it is left out."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def shape(self, place: int) -> Sequence[int]:
        """Dimensions of an input that is a weight or an input of the file."""
        name = self.given(place)
        found = [list(item.dims) for graph in self.outer for item in graph.initializer if item.name == name]
        inputs = (item.type.tensor_type.shape.dim for g in self.outer for item in g.input if item.name == name)
        found += [[dim.dim_value for dim in dims] for dims in inputs if all(dim.dim_value > 0 for dim in dims)]
        return found[0] if found else ()

    def dtype(self, place: int, default: int = TensorProto.FLOAT) -> int:
        """Format of an input that is a weight or an input of the file."""
        name = self.given(place)
        weights = (item.data_type for graph in self.outer for item in graph.initializer if item.name == name)
        inputs = (item.type.tensor_type.elem_type for graph in self.outer for item in graph.input if item.name == name)
        return next(weights, None) or next(inputs, default)

    def name(self) -> str:
        """A name that nothing else has."""
        return f"{self.prefix}_{len(self.nodes)}_{len(self.graph.initializer)}"

    def weight(self, *dims: int) -> str:
        """A tensor without values."""
        held = self.graph.initializer.add()
        held.name, held.data_type = f"{self.name()}_weight", TensorProto.FLOAT
        held.data_location = TensorProto.EXTERNAL
        held.dims.extend(dims)
        return str(held.name)

    def numbers(self, *values: int) -> str:
        """A list of whole numbers."""
        held = helper.make_tensor(self.name(), TensorProto.INT64, [len(values)], values)
        self.graph.initializer.append(held)
        return str(held.name)

    def add(self, kind: str, *inputs: str, output: int | None = None, **attributes: Any) -> str:
        """A node that gives a value of its own, or one of the results."""
        name = self.name() if output is None else self.node.output[output]
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name


def standing_in(model: Any) -> Any:
    """A copy of the model with standard operators for those of the runtime; the model itself if it has none."""
    if not _has_one(model.graph):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if all(item.domain for item in copy.opset_import):
        copy.opset_import.add().version = 17
    _replace(copy.graph, [], "standin")
    return copy


def restored(found: Any, model: Any) -> Any:
    """The file's own operators again, with the shapes found."""
    if _has_one(model.graph):
        _restore(found.graph, model.graph)
    return found


def _replace(graph: Any, outer: list[Any], prefix: str) -> None:
    """Put standard nodes in place, in a graph and in the graphs inside it, which see the weights of those outside."""
    nodes: Nodes = []
    for number, node in enumerate(graph.node):
        if _is_one(node):
            build = Builder(node, [graph, *outer], f"{prefix}_{number}")
            STANDINS[node.op_type](build)
            nodes += build.nodes
            continue
        for place, inner in enumerate(graphs_of(node)):
            _replace(inner, [graph, *outer], f"{prefix}_{number}_{place}")
        nodes.append(node)
    replace_all(graph, "node", nodes)


def _restore(found: Any, own: Any) -> None:
    standard = {tuple(node.output): node for node in found.node}
    nodes: Nodes = []
    for node in own.node:
        same = node if _is_one(node) else standard[tuple(node.output)]
        for new, old in zip(graphs_of(same), graphs_of(node), strict=True):
            _restore(new, old)
        nodes.append(same)
    replace_all(found, "node", nodes)
    replace_all(found, "initializer", own.initializer)


def copies(items: Iterable[Any]) -> list[Any]:
    """Copies of parts of a graph, which hold whatever becomes of it."""
    return [type(item).FromString(item.SerializeToString()) for item in items]


def replace_all(graph: Any, field: str, items: Iterable[Any]) -> None:
    """Put other nodes, inputs or weights in place of all there are."""
    kept = copies(items)
    graph.ClearField(field)
    getattr(graph, field).extend(kept)


def attributes_of(node: Any) -> dict[str, Any]:
    """Values of a node's attributes by their names."""
    return {item.name: helper.get_attribute_value(item) for item in node.attribute}


def graphs_of(node: Any) -> list[Any]:
    """The graphs that a node holds."""
    held = [item for item in node.attribute if item.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)]
    return [graph for item in held for graph in (item.graphs or (item.g,))]


def uses_in(graph: Any) -> Iterator[str]:
    """Each use of a value in a graph: by nodes, by those of the graphs inside, and as a result."""
    for node in graph.node:
        yield from node.input
        for inner in graphs_of(node):
            yield from uses_in(inner)
    yield from (item.name for item in graph.output)


def _has_one(graph: Any) -> bool:
    return any(_is_one(node) or any(map(_has_one, graphs_of(node))) for node in graph.node)


def _is_one(node: Any) -> bool:
    return (node.domain == DOMAIN or node.op_type in UNOFFICIAL) and node.op_type in STANDINS


def _same(*outputs: int) -> StandIn:
    """Results with the shape of the first input."""

    def run(build: Builder) -> None:
        for place in outputs or (0,):
            if place < len(build.node.output) and build.node.output[place]:
                build.add("Identity", build.given(0), output=place)

    return run


def _as(kind: str, *places: int) -> StandIn:
    """A standard operator of the inputs at these places."""
    return lambda build: build.add(kind, *map(build.given, places), output=0)


def _fused_matmul(build: Builder) -> None:
    left = "...ji" if build.attributes.get("transA") else "...ij"
    right = "...kj" if build.attributes.get("transB") else "...jk"
    build.add("Einsum", build.given(0), build.given(1), output=0, equation=f"{left},{right}->...ik")


def _projected_attention(build: Builder) -> None:
    """Weights [D, Dq + Dk + Dv] are part of it: the result is [B, S, Dv]."""
    parts = build.attributes.get("qkv_hidden_sizes")
    shape = build.shape(1)
    if shape:
        width = parts[2] if parts else shape[1] // 3
        build.add("MatMul", build.given(0), build.weight(shape[0], width), output=0)


def _quantised_attention(build: Builder) -> None:
    """Attention of integers, which gives floating point."""
    shape = build.shape(1)
    if shape:
        x = build.add("Cast", build.given(0), to=TensorProto.FLOAT)
        product = build.add("MatMul", x, build.weight(shape[0], shape[1] // 3))
        build.add("Cast", product, output=0, to=build.dtype(3))


def _converted(like: int, kind: str, *places: int, default: int = TensorProto.FLOAT) -> StandIn:
    """A standard operator whose result has the format of another input, of a scale or a zero point."""

    def run(build: Builder) -> None:
        build.add("Cast", build.add(kind, *map(build.given, places)), output=0, to=build.dtype(like, default))

    return run


def _multi_head(build: Builder) -> object:
    """[B, S, D] from queries [B, S, D], or from [B, S, heads, 3, H] where all three are one."""
    if build.given(1):
        return _as("Identity", 0)(build)
    one = build.add("Gather", build.given(0), build.numbers(0), axis=3)
    return build.add("Reshape", one, build.numbers(0, 0, -1), output=0)


def _grouped_query(build: Builder) -> object:
    """[B, S, heads·H] from queries alone, or from [B, S, (heads + 2·kv heads)·H]."""
    if build.given(1):
        return _as("Identity", 0)(build)
    heads = build.attributes["num_heads"]
    every = heads + 2 * build.attributes["kv_num_heads"]
    split = build.add("Reshape", build.given(0), build.numbers(0, 0, every, -1))
    queries = build.add("Slice", split, build.numbers(0), build.numbers(heads), build.numbers(2))
    return build.add("Reshape", queries, build.numbers(0, 0, -1), output=0)


def _general(build: Builder) -> None:
    """A quantised Gemm: A, scale, zero, B, scale, zero."""
    product = build.add("Gemm", build.given(0), build.given(3), **_turns(build))
    build.add("Cast", product, output=0, to=build.dtype(8 if build.given(7) else 1))


def _turns(build: Builder) -> dict[str, Any]:
    """Which of two matrices are transposed."""
    return {name: value for name, value in build.attributes.items() if name in ("transA", "transB")}


def _convolved(build: Builder) -> None:
    kept = {name: value for name, value in build.attributes.items() if not name.startswith("activation")}
    build.add("Conv", *build.node.input[:3], output=0, **kept)


def _channels_last(kind: str, turned: int) -> StandIn:
    """An operator of images, and of a kernel, whose channels stand last."""

    def run(build: Builder) -> None:
        kept = {name: value for name, value in build.attributes.items() if not name.startswith("activation")}
        given = (build.add("Transpose", build.given(place), perm=[0, 3, 1, 2]) for place in range(turned))
        build.add("Transpose", build.add(kind, *given, **kept), output=0, perm=[0, 2, 3, 1])

    return run


def _unpacked_rows(build: Builder) -> None:
    """The rows that are picked, of bytes so many times as wide as they hold elements, in the format of the scales."""
    words = build.attributes
    packed = 8 // words.get("bits", 4) if build.dtype(0) == TensorProto.UINT8 else 1
    rows = build.add("Gather", build.given(0), build.given(1), axis=words.get("gather_axis", 0))
    wide = build.add("Concat", *[rows] * packed, axis=-1) if packed > 1 else rows
    build.add("Cast", wide, output=0, to=build.dtype(2))


def _halved(build: Builder) -> None:
    """The first half of the last dimension, as long as the bias."""
    if shape := build.shape(1):
        axes = build.numbers(-1)
        build.add("Slice", build.given(0), build.numbers(0), build.numbers(shape[0] // 2), axes, output=0)


STANDINS: dict[str, StandIn] = {
    **dict.fromkeys(
        ("Gelu", "FastGelu", "BiasGelu", "QuickGelu", "BiasAdd", "BiasSoftmax", "BiasDropout", "RotaryEmbedding",
         "GemmaRotaryEmbedding", "GroupNorm", "GroupNormalization", "MeanVarianceNormalization",
         "MoE", "QMoE", "SimplifiedLayerNormalization", "QLinearSigmoid", "Inverse",
         "QLinearLeakyRelu", "QLinearSoftmax"),
        _same(),
    ),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _same(0, 3)),
    "SkipGroupNorm": _same(0, 1), "BiasSplitGelu": _halved, "GatherBlockQuantized": _unpacked_rows,
    **dict.fromkeys(("NhwcConv", "NhwcFusedConv"), _channels_last("Conv", 2)),
    "NhwcMaxPool": _channels_last("MaxPool", 1),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _as("Add", 0, 3)),
    "DynamicQuantizeMatMul": _as("MatMul", 0, 1), "MatMulIntegerToFloat": _converted(2, "MatMul", 0, 1),
    "QuantizeLinear": _converted(2, "Identity", 0, default=TensorProto.UINT8),
    "DequantizeLinear": _converted(1, "Identity", 0),
    "Attention": _projected_attention, "QAttention": _quantised_attention,
    "QLinearMatMul": _as("MatMul", 0, 3), "FusedMatMul": _fused_matmul, "TransposeMatMul": _fused_matmul,
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4"), lambda build: build.add(
        "MatMul", build.given(0), build.weight(build.attributes["K"], build.attributes["N"]), output=0
    )),
    "MultiHeadAttention": _multi_head, "DecoderMaskedMultiHeadAttention": _multi_head,
    "GroupQueryAttention": _grouped_query, "EmbedLayerNormalization": _as("Gather", 2, 0),
    "QLinearConcat": lambda build: build.add(  # the scale and zero of the result, then tensor, scale and zero of each
        "Concat", *build.node.input[2::3], output=0, axis=build.attributes["axis"]
    ),
    "QGemm": _general,
    "FusedGemm": lambda build: build.add("Gemm", *build.node.input[:3], output=0, **_turns(build)),
    "FusedConv": _convolved, "QLinearGlobalAveragePool": _as("GlobalAveragePool", 0),
}  # fmt: skip
