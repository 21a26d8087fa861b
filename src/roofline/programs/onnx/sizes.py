"""Sizes of an ONNX file as formulas in the open sizes of its inputs, where the onnx library has no name for them.

It calls a size that it does not work out ``unk__0`` and so on, even that of a sum of two tensors of one open size.
Behind a Reshape, a Concat, a convolution, a pooling, a Resize or whatever broadcasts it follows from those before:

>>> import onnx
>>> from onnx import TensorProto, helper
>>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", "S", 64])
>>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["unk__0", 64])
>>> node = helper.make_node("Reshape", ["x", "shape"], ["y"])
>>> solved(helper.make_graph([node], "rows", [x], [y]))
{'unk__0': B*S}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from onnx import TensorProto, helper, numpy_helper

from roofline.programs.onnx.graph import UNKNOWN, dims_of
from roofline.sizes import Size, floor_div, is_symbol, product

Dims = Sequence[Size]


class Node(NamedTuple):
    """A node: its attributes, the dimensions of its inputs and of its result, its scales where it has some."""

    attributes: Mapping[str, Any]
    ins: Sequence[Any]
    out: Dims
    scales: Sequence[float] = ()


def solved(graph: Any, named: Mapping[str, Size] | None = None) -> dict[str, Size]:
    """What names of sizes stand for: those ``named`` already, and the library's own as far as it follows from nodes."""
    items = (*graph.input, *graph.value_info, *graph.output)
    known: dict[str, Dims | None] = {item.name: dims_of(item) for item in items}
    known |= {item.name: tuple(item.dims) for item in graph.initializer}
    lists = _lists(graph)
    found: dict[str, Size] = dict(named or {})
    for node in graph.node:
        rule = _RULES.get(node.op_type)
        stated = known.get(node.output[0]) if node.output else None
        if rule is None or stated is None or node.domain not in ("", "ai.onnx"):
            continue
        out = put(stated, found)
        given = [known.get(word) for word in node.input if word]
        ins = [None if dims is None else put(dims, found) for dims in given]
        if not any(map(_is_open, out)) or None in ins[: _NEEDED.get(node.op_type)]:
            continue
        attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        scales = next((lists[word] for word in reversed(node.input[1:]) if word in lists), ())
        for size, value in zip(out, rule(Node(attributes, ins, out, scales)), strict=False):
            if _is_open(size) and value is not None and not _is_open(value):
                found[str(size)] = value
    return found


def _lists(graph: Any) -> dict[str, Sequence[float]]:
    """Short lists of fractions that the file holds, as scales are."""
    held = [(item.name, item) for item in graph.initializer]
    constants = [node for node in graph.node if node.op_type == "Constant"]
    held += [(node.output[0], item.t) for node in constants for item in node.attribute if item.HasField("t")]
    return {
        name: numpy_helper.to_array(item).tolist()
        for name, item in held
        if item.data_type == TensorProto.FLOAT and len(item.dims) == 1 and 0 < item.dims[0] <= 8
        if item.data_location != TensorProto.EXTERNAL
    }


def put(dims: Dims, found: Mapping[str, Size]) -> tuple[Size, ...]:
    """Dimensions with what is known of open ones."""
    return tuple(found.get(str(size), size) if is_symbol(size) else size for size in dims)


def _is_open(size: Size) -> bool:
    """Whether a size has a name of the onnx library's in it."""
    return is_symbol(size) and any(str(name).startswith(UNKNOWN) for name in size.free_symbols)


def _reshaped(node: Node) -> Sequence[Size | None]:
    """All elements over those of the other dimensions, where that is whole."""
    kept = [size for size in node.out if not _is_open(size)]
    if len(kept) != len(node.out) - 1:
        return [None] * len(node.out)
    import sympy

    ratio = sympy.cancel(sympy.sympify(product(node.ins[0])) / product(kept))
    whole = sympy.fraction(ratio)[1] == 1
    value = (int(ratio) if ratio.is_Integer else ratio) if whole else None
    return [value] * len(node.out)


def _flattened(node: Node) -> Sequence[Size | None]:
    """What stands before the axis, and what stands behind it."""
    (dims, *_), axis = node.ins, node.attributes.get("axis", 1)
    return [product(dims[:axis]), product(dims[axis:])]


def _joined(node: Node) -> Sequence[Size | None]:
    """The sum of what is joined along the axis."""
    rank = len(node.out)
    axis = node.attributes["axis"] % rank
    if not all(len(item) == rank for item in node.ins):
        return [None] * rank
    lengths = [item[axis] for item in node.ins]
    return [sum(lengths[1:], lengths[0]) if place == axis else None for place in range(rank)]


def _broadcast(node: Node) -> Sequence[Size | None]:
    """Of each dimension the one size that is not 1."""
    return _met(node.ins)


def _product(node: Node) -> Sequence[Size | None]:
    """Batches as anything broadcasts, the rows of the first, the columns of the second."""
    if any(len(dims) < 2 for dims in node.ins):
        return [None] * len(node.out)
    (*first, rows, _), (*second, _, columns) = node.ins
    return [*_met([first, second]), rows, columns]


def _met(dims: Sequence[Dims]) -> list[Size | None]:
    """Dimensions that meet, the last ones first: a size of 1 gives way, a number that is not 1 wins."""
    found: list[Size | None] = []
    for sizes in zip_longest(*(reversed(item) for item in dims), fillvalue=1):
        different = {str(size): size for size in sizes if is_symbol(size) or size != 1}
        numbers = [size for size in different.values() if not is_symbol(size)]
        chosen = numbers or [*different.values(), 1][: len(different) or 1]
        found.insert(0, chosen[0] if len(chosen) == 1 else None)
    return found


def _resized(node: Node) -> Sequence[Size | None]:
    """So many times as large, rounded down; by scales for each dimension that the file holds."""
    if len(node.scales) != len(node.out) or "axes" in node.attributes:
        return [None] * len(node.out)
    pairs = [(scale.as_integer_ratio(), n) for scale, n in zip(node.scales, node.ins[0], strict=True)]
    return [floor_div(n * above, below) for (above, below), n in pairs]


def _windows(node: Node) -> Sequence[Size | None]:
    """⌊(n + padding − reach)/stride⌋ + 1 places of a window, for each dimension of an image."""
    spatial = len(node.out) - 2
    attributes, ins = node.attributes, node.ins
    taps = attributes.get("kernel_shape") or (list(ins[1][2:]) if len(ins) > 1 else [])
    stated = attributes.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID") and not attributes.get("ceil_mode")
    if len(taps) != spatial or not stated:
        return [None] * len(node.out)
    pads = attributes.get("pads") or [0] * (2 * spatial)
    strides, dilations = (attributes.get(name) or [1] * spatial for name in ("strides", "dilations"))
    found: list[Size | None] = [None, None]
    for place, n in enumerate(ins[0][2:]):
        reach = dilations[place] * (taps[place] - 1) + 1
        found.append(floor_div(n + pads[place] + pads[place + spatial] - reach, strides[place]) + 1)
    return found


#: How many inputs it takes to know the size of a result, where that is not all of them.
_NEEDED = dict.fromkeys(("Reshape", "Flatten", "Resize", "MaxPool", "AveragePool"), 1)

#: Operators whose inputs broadcast as numpy's do.
_MEETING = (
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where", "PRelu", "And", "Or", "Xor",
    "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift",
)  # fmt: skip

_RULES: dict[str, Callable[[Node], Sequence[Size | None]]] = {
    **dict.fromkeys(_MEETING, _broadcast),
    "MatMul": _product,
    "Reshape": _reshaped,
    "Flatten": _flattened,
    "Concat": _joined,
    "Resize": _resized,
    "Conv": _windows,
    "MaxPool": _windows,
    "AveragePool": _windows,
}
