"""Sizes of an ONNX file as formulas in the open sizes of its inputs, where the onnx library has no name for them.

It calls a size that it does not work out ``unk__0`` and so on. Behind a Reshape, a Concat, a convolution or a pooling
the size follows from those before:

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
from typing import Any

from onnx import helper

from roofline.programs.onnx_folding import UNKNOWN
from roofline.programs.onnx_graph import dims_of
from roofline.sizes import Size, floor_div, is_symbol, product

Dims = Sequence[Size]


def solved(graph: Any) -> dict[str, Size]:
    """What the onnx library's own names for sizes stand for, as far as it follows from the nodes."""
    items = (*graph.input, *graph.value_info, *graph.output)
    known: dict[str, Dims | None] = {item.name: dims_of(item) for item in items}
    known |= {item.name: tuple(item.dims) for item in graph.initializer}
    found: dict[str, Size] = {}
    for node in graph.node:
        rule = _RULES.get(node.op_type)
        out = known.get(node.output[0]) if node.output else None
        if rule is None or out is None or node.domain not in ("", "ai.onnx"):
            continue
        out = put(out, found)
        ins = [put(known.get(word) or (), found) for word in node.input]
        if not any(map(_is_open, out)) or not ins[0] or any(map(_is_open, ins[0])):
            continue
        attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        for size, value in zip(out, rule(attributes, ins, out), strict=False):
            if _is_open(size) and value is not None and not _is_open(value):
                found[str(size)] = value
    return found


def put(dims: Dims, found: Mapping[str, Size]) -> tuple[Size, ...]:
    """Dimensions with what is known of open ones."""
    return tuple(found.get(str(size), size) if is_symbol(size) else size for size in dims)


def _is_open(size: Size) -> bool:
    """Whether a size has a name of the onnx library's in it."""
    return is_symbol(size) and any(str(name).startswith(UNKNOWN) for name in size.free_symbols)


def _reshaped(attributes: Mapping[str, Any], ins: Sequence[Dims], out: Dims) -> Sequence[Size | None]:
    """All elements over those of the other dimensions, where that is whole."""
    kept = [size for size in out if not _is_open(size)]
    if len(kept) != len(out) - 1:
        return [None] * len(out)
    import sympy

    ratio = sympy.cancel(sympy.sympify(product(ins[0])) / product(kept))
    whole = sympy.fraction(ratio)[1] == 1
    value = (int(ratio) if ratio.is_Integer else ratio) if whole else None
    return [value] * len(out)


def _joined(attributes: Mapping[str, Any], ins: Sequence[Dims], out: Dims) -> Sequence[Size | None]:
    """The sum of what is joined along the axis."""
    axis = attributes["axis"] % len(out)
    if not all(len(item) == len(out) for item in ins):
        return [None] * len(out)
    lengths = [item[axis] for item in ins]
    return [sum(lengths[1:], lengths[0]) if place == axis else None for place in range(len(out))]


def _windows(attributes: Mapping[str, Any], ins: Sequence[Dims], out: Dims) -> Sequence[Size | None]:
    """⌊(n + padding − reach)/stride⌋ + 1 places of a window, for each dimension of an image."""
    spatial = len(out) - 2
    taps = attributes.get("kernel_shape") or (list(ins[1][2:]) if len(ins) > 1 else [])
    stated = attributes.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID") and not attributes.get("ceil_mode")
    if len(taps) != spatial or not stated:
        return [None] * len(out)
    pads = attributes.get("pads") or [0] * (2 * spatial)
    strides, dilations = (attributes.get(name) or [1] * spatial for name in ("strides", "dilations"))
    found: list[Size | None] = [None, None]
    for place, n in enumerate(ins[0][2:]):
        reach = dilations[place] * (taps[place] - 1) + 1
        found.append(floor_div(n + pads[place] + pads[place + spatial] - reach, strides[place]) + 1)
    return found


_RULES: dict[str, Callable[[Mapping[str, Any], Sequence[Dims], Dims], Sequence[Size | None]]] = {
    "Reshape": _reshaped,
    "Concat": _joined,
    "Conv": _windows,
    "MaxPool": _windows,
    "AveragePool": _windows,
}
