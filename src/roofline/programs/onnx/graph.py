"""An ONNX file with its shapes: read, its sizes filled in, shapes inferred by the onnx library.

Sizes that the library has no name for become formulas in the open sizes of the inputs. It calls a size that it does not
work out ``unk__0`` and so on, even that of a sum of two tensors of one open size. Behind a Reshape, a Concat, a Slice,
a Tile, a Pad, a Range, a convolution, a pooling, a Resize or whatever broadcasts it follows from those before:

>>> import onnx
>>> from onnx import TensorProto, helper
>>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", "S", 64])
>>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["unk__0", 64])
>>> node = helper.make_node("Reshape", ["x", "shape"], ["y"])
>>> solved(helper.make_graph([node], "rows", [x], [y]))
{'unk__0': B*S}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import zip_longest
from operator import add, mul, sub
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

from roofline import dtypes
from roofline.errors import InputError, NotationError, SizeError, check_one_of, quoted
from roofline.files import read_bytes
from roofline.frozen import NamedTuple
from roofline.lazy import sympy
from roofline.ops.convolution import window_count
from roofline.ops.formula import formula, formula_names
from roofline.programs.api import one_size
from roofline.programs.onnx.standins import attributes_of, copies, graphs_of, replace_all, restored, standing_in
from roofline.sizes import Size, ceil_div, floor_div, is_symbol, maximum, minimum, product, symbol

Dims = Sequence[Size]


class Node(NamedTuple):
    """A node: its attributes, sizes of its inputs and of a result, numbers that the file holds of inputs, its kind."""

    attributes: Mapping[str, Any]
    ins: Sequence[Any]
    out: Dims
    lists: Sequence[Sequence[Any] | None] = ()
    kind: str = ""

    def listed(self, place: int, name: str = "") -> Sequence[Any] | None:
        """Numbers of an input or, in older files, of an attribute; None where they are not known."""
        found = self.lists[place] if place < len(self.lists) else None
        return self.attributes.get(name) if found is None else found


def solved(graph: Any, named: Mapping[str, Size] | None = None) -> dict[str, Size]:
    """What names of sizes stand for: those ``named`` already, and the library's own as far as it follows from nodes."""
    items = (*graph.input, *graph.value_info, *graph.output)
    known: dict[str, Dims | None] = {item.name: dims_of(item) for item in items}
    known |= {item.name: tuple(item.dims) for item in graph.initializer}
    lists = _lists(graph)
    sizes: dict[str, Sequence[Any] | None] = dict(lists)
    found: dict[str, Size] = dict(named or {})
    for node in graph.node:
        rule = _RULES.get(node.op_type)
        if node.domain not in ("", "ai.onnx"):
            continue
        given = [known.get(word) for word in node.input if word]
        ins = [None if dims is None else put(dims, found) for dims in given]
        if node.op_type in _OF_SIZES and node.output:
            sizes[node.output[0]] = _sizes(node, ins[0], [sizes.get(word) for word in node.input])
        if rule is None:
            continue
        numbers = [(sizes if node.op_type == "Range" else lists).get(word) for word in node.input]
        for stated in (known.get(word) for word in node.output):
            out = () if stated is None else put(stated, found)
            if not any(map(_is_open, out)) or None in ins[: _NEEDED.get(node.op_type)]:
                continue
            values = rule(Node(attributes_of(node), ins, out, numbers, node.op_type))
            for size, value in zip(out, values, strict=False):
                if _is_open(size) and value is not None and not _is_open(value):
                    found[str(size)] = value
    return found


def _lists(graph: Any) -> dict[str, Sequence[Any]]:
    """Short lists of numbers that the file holds, as scales and axes are."""
    held = [(item.name, item) for item in graph.initializer]
    constants = [node for node in graph.node if node.op_type == "Constant"]
    held += [(node.output[0], item.t) for node in constants for item in node.attribute if item.HasField("t")]
    return {
        name: numpy_helper.to_array(item).reshape(-1).tolist()
        for name, item in held
        if item.data_type in _NUMBERS and len(item.dims) < 2 and all(0 < size <= 16 for size in item.dims)
        if item.data_location != TensorProto.EXTERNAL
    }


#: Formats of scales, of axes, starts and pads.
_NUMBERS = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32)


def _sizes(node: Any, dims: Dims | None, given: Sequence[Sequence[Any] | None]) -> Sequence[Any] | None:
    """Numbers that a node makes of sizes of the inputs; None where it makes others."""
    attributes, kind = attributes_of(node), node.op_type
    if kind == "Shape":
        return None if dims is None else dims[attributes.get("start", 0) : attributes.get("end")]
    first, *others = given
    if first is None or None in others:
        return None
    if kind == "Gather":
        return [first[at] for at in others[0] or () if -len(first) <= at < len(first)]
    combine = _OF_SIZES[kind]
    return first if combine is None else [combine(a, b) for a, b in zip(first, others[0] or (), strict=False)]


#: What makes sizes of sizes.
_OF_SIZES: dict[str, Any] = {**dict.fromkeys(("Shape", "Gather", "Cast", "Identity", "Unsqueeze", "Squeeze")),
                             "Add": add, "Sub": sub, "Mul": mul}  # fmt: skip


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
        chosen = [size for size in different.values() if not is_symbol(size)] or [*different.values()] or [1]
        found.insert(0, chosen[0] if len(chosen) == 1 else None)
    return found


def _resized(node: Node) -> Sequence[Size | None]:
    """So many times as large, rounded down; by scales for each dimension that the file holds."""
    scales = next((held for held in reversed(node.lists[1:]) if held is not None and type(held[0]) is float), ())
    if len(scales) != len(node.out) or "axes" in node.attributes:
        return [None] * len(node.out)
    pairs = [(scale.as_integer_ratio(), n) for scale, n in zip(scales, node.ins[0], strict=True)]
    return [floor_div(n * above, below) for (above, below), n in pairs]


def _sliced(node: Node) -> Sequence[Size | None]:
    """Places from the start to the end, both counted from the back where they are negative, a step apart."""
    rank = len(node.out)
    starts, ends = node.listed(1, "starts"), node.listed(2, "ends")
    if starts is None or ends is None or None in node.lists[1:]:
        return [None] * rank
    axes = node.listed(3, "axes") or range(len(starts))
    steps = node.listed(4) or [1] * len(axes)
    found: list[Size | None] = [None] * rank
    for first, last, axis, step in zip(starts, ends, axes, steps, strict=True):
        n = node.ins[0][axis]
        low, high = (0, n) if step > 0 else (-1, n - 1)
        begin, end = (
            minimum(high, at) if at >= 0 else maximum(low, n + at) if at > -_FAR else low
            for at in (min(first, _FAR), min(last, _FAR))
        )
        begin, end = (high if at >= _FAR else place for at, place in ((first, begin), (last, end)))
        found[axis] = _whole(maximum(0, ceil_div(end - begin, step)))
    return found


#: Beyond this a start or an end stands for that of the dimension.
_FAR = 2**31 - 1


def _whole(size: Size) -> Size:
    return int(size) if is_symbol(size) and size.is_Integer else size


def _tiled(node: Node) -> Sequence[Size | None]:
    """Each dimension as often as it is repeated."""
    times = node.listed(1)
    return [None] * len(node.out) if times is None else [n * often for n, often in zip(node.ins[0], times, strict=True)]


def _padded(node: Node) -> Sequence[Size | None]:
    """Each dimension with what is put before and behind it."""
    pads, rank = node.listed(1, "pads"), len(node.out)
    if pads is None or len(pads) != 2 * rank:
        return [None] * rank
    return [n + pads[place] + pads[place + rank] for place, n in enumerate(node.ins[0])]


def _windows(node: Node) -> Sequence[Size | None]:
    """⌊(n + padding − reach)/stride⌋ + 1 places of a window, for each dimension of an image, or ⌈n/stride⌉ by SAME.

    With ``ceil_mode`` rounded up, but none that begins behind the image. Of a transposed convolution the image whose
    windows these are: (n − 1)·stride + reach − padding + what is added, or n·stride.
    """
    spatial = len(node.out) - 2
    attributes, ins = node.attributes, node.ins
    weights = ins[3 if node.kind == "QLinearConv" else 1] if len(ins) > 1 else ()
    taps = attributes.get("kernel_shape") or weights[2:]
    if len(taps) != spatial:
        return [None] * len(node.out)
    pads = attributes.get("pads") or [0] * (2 * spatial)
    strides, dilations = (attributes.get(name) or [1] * spatial for name in ("strides", "dilations"))
    added = attributes.get("output_padding") or [0] * spatial
    is_same, up = attributes.get("auto_pad", b"").startswith(b"SAME"), bool(attributes.get("ceil_mode"))
    found: list[Size | None] = [None, None]
    for place, n in enumerate(ins[0][2:]):
        stride, low, high = strides[place], pads[place], pads[place + spatial]
        reach = dilations[place] * (taps[place] - 1) + 1
        if node.kind == "ConvTranspose":
            given = attributes.get("output_shape", {place: (n - 1) * stride + reach - low - high + added[place]})
            found.append(n * stride if is_same else given[place])
        elif is_same:
            found.append(ceil_div(n, stride))
        else:
            found.append(window_count(n, taps[place], stride, low, high, dilations[place], beyond=up))
    return found


def _rearranged(node: Node) -> Sequence[Size | None]:
    """Blocks of an image as channels, or channels as blocks."""
    batch, channels, *image = node.ins[0]
    block = node.attributes["blocksize"]
    if node.kind == "SpaceToDepth":
        return [batch, channels * block**2, *(floor_div(n, block) for n in image)]
    return [batch, floor_div(channels, block**2), *(n * block for n in image)]


def _largest(node: Node) -> Sequence[Size | None]:
    """So many along an axis, the last where none is named."""
    found, many = list(node.ins[0]), node.listed(1)
    found[node.attributes.get("axis", -1)] = many[0] if many else None
    return found


def _counted(node: Node) -> Sequence[Size | None]:
    """The numbers from a start to an end, a step apart."""
    first, last, step = (held[0] if held else None for held in node.lists)
    if first is None or last is None or not all(type(each) is int or is_symbol(each) for each in (first, last)):
        return [None]
    if type(step) is not int or step < 1:
        return [None]
    return [_whole(maximum(0, ceil_div(last - first, step)))]


#: How many inputs it takes to know the size of a result, where that is not all of them.
_NEEDED = dict.fromkeys(("Reshape", "Flatten", "Resize", "Upsample", "MaxPool", "AveragePool", "LpPool", "Slice",
                         "Tile", "Pad", "TopK"), 1)  # fmt: skip

#: Operators whose inputs broadcast as numpy's do.
_MEETING = (
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where", "PRelu", "And", "Or", "Xor",
    "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift",
)  # fmt: skip

_RULES: dict[str, Callable[[Node], Sequence[Size | None]]] = {
    **dict.fromkeys(_MEETING, lambda node: _met(node.ins)),
    "MatMul": _product, "Reshape": _reshaped, "Flatten": _flattened, "Concat": _joined,
    "Resize": _resized, "Upsample": _resized,
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv", "DeformConv", "ConvTranspose", "MaxPool", "AveragePool",
                     "LpPool"), _windows),
    **dict.fromkeys(("SpaceToDepth", "DepthToSpace"), _rearranged),
    "Slice": _sliced, "Tile": _tiled, "Pad": _padded, "TopK": _largest, "Range": _counted,
}  # fmt: skip


def read(program: Any) -> Any:
    """Load a file without its external weights; a model that is loaded already is copied."""
    if isinstance(program, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(program)
        return model
    path = Path(program)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}", hint="give the path of a .onnx file")
    try:
        model = onnx.load_model_from_string(read_bytes(path, "ONNX file"))
    except (DecodeError, ValueError, RuntimeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not an ONNX file, or is cut short", hint="export or download it again") from error
    if not model.graph.node or not model.opset_import:
        raise InputError(f"{path} holds no graph", hint="export or download it again")
    if any(isinstance(word, bytes) for word in _names(model.graph)):  # as the library gives what is no UTF-8
        raise InputError(f"{path}: a name in the graph is not text", hint="export or download it again")
    return model


def _names(graph: Any) -> Iterator[Any]:
    """Names of operators, values and sizes in a graph, and in those that its nodes hold."""
    for item in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield item.name
        if hasattr(item, "type"):
            yield from (dim.dim_param for dim in _dims(item))
    for node in graph.node:
        yield from (node.op_type, node.domain, node.name, *node.input, *node.output)
        yield from (item.name for item in node.attribute)
        for inner in graphs_of(node):
            yield from _names(inner)


def inferred(model: Any, batch: int | None, sizes: Mapping[str, Size]) -> tuple[Any, dict[str, Size]]:
    """Fill sizes into the inputs and infer every shape; also give what names of sizes stand for."""
    batch = None if batch is None else one_size("batch", batch)
    sizes = {name: one_size(name, value) for name, value in sizes.items()}
    _check_sizes(model.graph)
    held = {item.name for item in model.graph.initializer}
    inputs = [item for item in model.graph.input if item.name not in held]
    used = _fill(inputs, batch, sizes)
    _fill_inside(model.graph, used)
    for name in sizes:
        check_one_of(
            f"no input has a size {name!r}", name, [*filter(None, used)], "sizes of the inputs", error=SizeError
        )
    if batch is not None and "" not in used:
        first = ", ".join(f"{item.name}[{', '.join(_word(dim) for dim in _dims(item))}]" for item in inputs)
        raise SizeError(f"no input's first size is free to be the batch: {first}", hint="leave the batch out")
    if model.functions:
        try:
            model = onnx.inliner.inline_local_functions(model)
        except onnx.checker.ValidationError as error:
            raise InputError(f"the functions of the ONNX file cannot be put in place: {error}") from error
    written = copies((*model.graph.value_info, *model.graph.output))
    formulas = {item.name: _in_sizes(item, used) for item in written}
    stated = [item for item in written if _holds(item, used)]
    del model.graph.value_info[:]
    for item in model.graph.output:
        if item.type.HasField("tensor_type"):
            item.type.tensor_type.ClearField("shape")
    standing = standing_in(model)
    _check_equations(standing.graph)
    inputs, weights = _set_aside(standing.graph)
    found = _shapes(standing)
    known = {item.name for item in (*found.graph.value_info, *found.graph.output) if dims_of(item) is not None}
    missing = [item for item in stated if item.name not in known]
    if missing:
        standing.graph.value_info.extend(missing)
        found = _shapes(standing)
    found = _through_loops(standing, found)
    found = settled(standing, found, _shapes)
    _check_ranks(found.graph)
    named = {name: value for name, value in used.items() if is_symbol(value)}
    named |= _as_stated(found.graph, formulas)
    replace_all(found.graph, "input", inputs)
    found.graph.initializer.extend(weights)
    return restored(found, model), named


class _Loop(NamedTuple):
    """A Loop with its body, the graph that it stands in, and the types that are known there."""

    node: Any
    body: Any
    graph: Any
    known: Mapping[str, Any]


#: Loops behind and inside each other through which shapes are carried.
_MOST_LOOPS = 8


def _through_loops(model: Any, found: Any) -> Any:
    """Shapes of a model that go through Loops whose bodies state none: what each step gives on as it was given."""
    changed: set[str] = set()
    for _ in range(_MOST_LOOPS):
        if not _carry_shapes(model.graph, found.graph, changed):
            break
        found = _shapes(model)
        if _drop_changed(model.graph, found.graph, changed) | _give_shapes(model.graph, found.graph):
            found = _shapes(model)
    return found


def _loops(graph: Any, outside: Mapping[str, Any] = {}) -> Iterator[_Loop]:
    """The Loops of a graph and of the graphs inside it."""
    known = {**outside, **_typed(graph)}
    for node in graph.node:
        for inner in graphs_of(node):
            if node.op_type == "Loop":
                yield _Loop(node, inner, graph, known)
            yield from _loops(inner, known)


def _carry_shapes(graph: Any, found: Any, changed: Set[str]) -> bool:
    """State what a Loop carries in the shape that it is given, where its body states none; whether there was any."""
    fresh = False
    for loop, inferred_loop in zip(_loops(graph), _loops(found), strict=True):
        for word, inside in zip(loop.node.input[2:], loop.body.input[2:], strict=False):
            kind = inferred_loop.known.get(word)
            if kind is not None and not inside.type.tensor_type.HasField("shape") and inside.name not in changed:
                inside.type.CopyFrom(kind)
                fresh = True
    return fresh


def _drop_changed(graph: Any, found: Any, changed: set[str]) -> bool:
    """Take back the shape of what a step of a Loop gives on in another shape."""
    before = len(changed)
    for loop, inferred_loop in zip(_loops(graph), _loops(found), strict=True):
        for inside, back in zip(loop.body.input[2:], inferred_loop.body.output[1:], strict=False):
            known = dims_of(back)
            if known is not None and dims_of(inside) not in (None, known):
                inside.type.tensor_type.ClearField("shape")
                changed.add(inside.name)
    return len(changed) > before


def _give_shapes(graph: Any, found: Any) -> bool:
    """State the shapes of what Loops give back as their bodies have them: what is carried, not what is stacked."""
    fresh = False
    for loop, inferred_loop in zip(_loops(graph), _loops(found), strict=True):
        pairs = zip(loop.node.output, inferred_loop.body.output[1 : len(loop.node.input) - 1], strict=False)
        for word, back in pairs:
            if word and word not in inferred_loop.known and dims_of(back) is not None:
                own = [item for item in loop.graph.output if item.name == word]
                (own or [loop.graph.value_info.add(name=word)])[0].type.CopyFrom(back.type)
                fresh = True
    return fresh


def _typed(graph: Any) -> dict[str, Any]:
    """Types of a graph's values whose shapes are known."""
    items = (*graph.input, *graph.value_info, *graph.output)
    known = {item.name: item.type for item in items if dims_of(item) is not None}
    weights = [helper.make_tensor_value_info(item.name, item.data_type, item.dims) for item in graph.initializer]
    return known | {item.name: item.type for item in weights}


def _check_sizes(graph: Any) -> None:
    """Raise where a weight or a result is stated with a size below 1. A list of no values is none that is given."""
    for item in graph.initializer:
        if any(n < 0 for n in item.dims) or (0 in item.dims and len(item.dims) > 1):
            raise SizeError(f"the weight {item.name!r} has the sizes {list(item.dims)}", hint=_SIZES)
    for item in graph.output:
        sizes = [dim.dim_value for dim in _dims(item) if dim.HasField("dim_value")]
        if any(n < 0 for n in sizes):
            raise SizeError(f"the output {item.name!r} has a size of {min(sizes)}", hint=_SIZES)


def _check_ranks(graph: Any) -> None:
    """Raise where a tensor has more dimensions than any library takes: a product of a thousand sizes says nothing."""
    for item in (*graph.value_info, *graph.output, *graph.input):
        if len(_dims(item)) > MOST_DIMENSIONS:
            said = f"{quoted(item.name)} has {len(_dims(item)):,} dimensions"
            raise SizeError(said, hint=f"at most {MOST_DIMENSIONS}, as in PyTorch and NumPy")


_SIZES = "a size is a whole number of at least 1; only an input may leave one open"


def _set_aside(graph: Any) -> tuple[list[Any], list[Any]]:
    """Make large weights, and those in other files, inputs while shapes are inferred: nothing reads their values.

    Gives the graph's own inputs, and the weights without their values, to be put back. Masks and indices keep theirs.
    """
    inputs = copies(graph.input)
    outside = onnx.TensorProto.EXTERNAL
    large = [item for item in graph.initializer if item.data_location == outside or product(item.dims) > LARGEST]
    masks = {word for node in graph.node if node.op_type == "Attention" for word in node.input[3:4]}
    weights = [
        onnx.TensorProto(name=item.name, dims=item.dims, data_type=item.data_type, data_location=outside)
        if product(item.dims) > LARGEST_MASK or not (item.data_type in _OF_PLACES or item.name in masks)
        else copies((item,))[0]
        for item in large
    ]
    names = {item.name for item in weights}
    replace_all(graph, "initializer", [item for item in graph.initializer if item.name not in names])
    replace_all(graph, "input", [item for item in graph.input if item.name not in names])
    graph.input.extend(helper.make_tensor_value_info(item.name, item.data_type, item.dims) for item in weights)
    return inputs, weights


def _holds(item: Any, given: Mapping[str, Size]) -> bool:
    """Whether a shape that the file states still holds; its names become the sizes given, and none may be left over."""
    for dim in _dims(item):
        value = given.get(dim.dim_param) if dim.dim_param else None
        if value is not None and not is_symbol(value):
            dim.dim_value = int(value)
        elif not dim.HasField("dim_value") and dim.dim_param not in given:
            return False
    return bool(item.type.tensor_type.HasField("shape"))


def _in_sizes(item: Any, used: Mapping[str, Size]) -> list[Size | None]:
    """A shape that the file states, if sizes of the inputs stand in it: others may be those of another export."""
    dims = [(dim, _size(dim.dim_param, used)) for dim in _dims(item)]
    if all(value is None for _, value in dims):
        return []
    return [int(dim.dim_value) if dim.HasField("dim_value") else value for dim, value in dims]


def _as_stated(graph: Any, stated: Mapping[str, Sequence[Size | None]]) -> dict[str, Size]:
    """Sizes that the library has no name for, as the file states them."""
    found: dict[str, Size] = {}
    for item in (*graph.value_info, *graph.output):
        dims, own = _dims(item), stated.get(item.name, [])
        pairs = zip(dims, own, strict=True) if len(dims) == len(own) else ()
        found |= {dim.dim_param: n for dim, n in pairs if dim.dim_param.startswith(UNKNOWN) and n is not None}
    return found


def _size(text: str, used: Mapping[str, Size]) -> Size | None:
    """A size by its name, or by a formula of names: ``past + sequence``, ``Min(512, S)``; None for any other text."""
    if text and text in used:
        return used[text]
    words = re.sub(r"\b(Max|Min)\(", lambda found: found[0].lower(), text)
    names = formula_names(words)
    if not names or not used.keys() >= set(names):  # a name may have a sign: "B-S"
        return None
    try:
        found = formula(words, used)
    except NotationError:
        return None
    return found if is_symbol(found) or found == int(found) else None


def _inferred(model: Any, *, strict: bool) -> Any:
    """Sizes go through the operators that work them out, but for a list of them that is longer than any."""
    named = (dim.dim_value for item in model.graph.input for dim in _dims(item)[:1] if len(_dims(item)) == 1)
    short = all(count <= LARGEST_LIST for count in (*named, *_counted_up(model.graph, {})))
    return onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=short)


def _counted_up(graph: Any, outer: Mapping[str, Any]) -> Iterator[float]:
    """How many numbers each Range of a graph, and of those inside it, makes out of numbers that the file holds."""
    held = {**outer, **{item.name: item for item in graph.initializer}}
    for node in graph.node:
        held.update((node.output[0], item.t) for item in node.attribute if item.HasField("t") and node.output)
        given = [held.get(word) for word in node.input]
        if node.op_type == "Range" and len(given) == 3 and all(each is not None and not each.dims for each in given):
            first, last, step = (float(numpy_helper.to_array(each)) for each in given)
            yield abs(last - first) / abs(step) if step else 0.0
        for inner in graphs_of(node):
            yield from _counted_up(inner, held)


def _check_equations(graph: Any) -> None:
    """Raise where an Einsum has a sign that no equation has: of scalars the onnx library would read it without end."""
    for node in graph.node:
        equation = attributes_of(node).get("equation", b"") if node.op_type == "Einsum" else b""
        if isinstance(equation, bytes) and re.search(rb"[^A-Za-z,.>\s-]", equation):
            said = quoted(equation.decode("utf-8", "replace"))
            raise InputError(f"the equation of an Einsum is {said}", hint="letters, commas, '...' and '->'")
        for inner in graphs_of(node):
            _check_equations(inner)


def _shapes(model: Any) -> Any:
    """Infer every shape that the onnx library can."""
    try:
        return _inferred(model, strict=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        said = lines[-1] if lines else type(error).__name__
        if "instead is null" in said:  # behind an operator that the library does not know: what is left are gaps
            return _inferred(model, strict=False)
        raise InputError(f"the shapes of the ONNX graph do not fit: {said}", hint="check the sizes given") from error


def dims_of(item: Any) -> tuple[Size, ...] | None:
    """Dimensions of a value, None where they are not known."""
    kind = item.type.tensor_type
    if not item.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    found: list[Size] = []
    for dim in kind.shape.dim:
        if dim.HasField("dim_value"):
            if dim.dim_value < 0:
                raise SizeError(f"{item.name!r} has a size of {dim.dim_value}", hint=_SIZES)
            found.append(int(dim.dim_value))
        elif dim.dim_param:
            found.append(_open_size(dim.dim_param))
        else:
            return None
    return tuple(found)


#: ONNX's names of dtypes where they are not ours.
_DTYPES = {"float8e4m3fn": "fp8_e4m3", "float8e4m3fnuz": "fp8_e4m3", "float8e5m2": "fp8_e5m2",
           "float8e5m2fnuz": "fp8_e5m2", "float8e8m0": "fp8_e8m0", "float4e2m1": "fp4_e2m1",
           "float6e2m3": "fp6_e2m3", "float6e3m2": "fp6_e3m2"}  # fmt: skip


def dtype_of(kind: int) -> str | None:
    """Our name of a tensor's element type; None for what is not a number (strings)."""
    name = onnx.TensorProto.DataType.Name(kind).lower()
    name = _DTYPES.get(name, name)
    return dtypes.get(name).name if dtypes.is_dtype(name) else None


def _open_size(name: str) -> Any:
    """An open size by its name in the file, whose letters are those of a name in any language it is printed in.

    >>> str(_open_size("N*2")), str(_open_size("batch size")), str(_open_size("0=f()"))
    ('N_2', 'batch_size', 'size_0_f__')
    """
    plain = re.sub(r"\W", "_", name)
    return symbol(plain if plain.isidentifier() else f"size_{plain}")


def _fill(inputs: list[Any], batch: int | None, sizes: Mapping[str, Size]) -> dict[str, Size]:
    """Write sizes into the inputs; give them by name, the batch by "", open ones as symbols."""
    used: dict[str, Size] = {}
    for item in inputs:
        for dim in _dims(item):
            if dim.HasField("dim_value") and dim.dim_value < 1:  # exporters write 0 or -1 for an open size
                dim.ClearField("dim_value")
    if batch is not None:
        for item in inputs:
            for dim in _dims(item)[:1]:
                if not dim.HasField("dim_value"):
                    used |= {"": batch, dim.dim_param or "": batch}
                    dim.dim_value = batch
    formulas = []
    for item in inputs:
        for place, dim in enumerate(_dims(item)):
            name = dim.dim_param
            if dim.HasField("dim_value"):
                continue
            if not name:
                dim.dim_param = f"{item.name.replace('.', '_')}_{place}"
            elif name.isidentifier() or name in sizes:
                _put(dim, sizes[name] if name in sizes else used.get(name, _open_size(name)), used)
            else:
                formulas.append(dim)
    for dim in formulas:
        value = _size(dim.dim_param, used)
        _put(dim, _open_size(dim.dim_param) if value is None else value, used)
    return used


def _fill_inside(graph: Any, used: Mapping[str, Size]) -> None:
    """Write sizes into the graphs that nodes hold: a name is one size in the whole file."""
    for inner in (inner for node in graph.node for inner in graphs_of(node)):
        for item in (*inner.input, *inner.value_info):  # what they give back follows
            _holds(item, used)
        _fill_inside(inner, used)


def _put(dim: Any, value: Size, used: dict[str, Size]) -> None:
    used[dim.dim_param] = value
    if not is_symbol(value):
        dim.dim_value = int(value)


def _dims(item: Any) -> list[Any]:
    return list(item.type.tensor_type.shape.dim)


def _word(dim: Any) -> str:
    return str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"


#: The most dimensions of a tensor, and the longest list that may hold sizes.
MOST_DIMENSIONS, LARGEST_LIST = 64, 65_536

#: Values of more elements are data, not sizes; masks and indices of more are not looked at.
LARGEST, LARGEST_MASK = 4096, 2**20
#: Formats of masks and of indices.
_OF_PLACES = (TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64)
#: Names that the onnx library gives to sizes it does not know.
UNKNOWN = "unk__"


def settled(model: Any, found: Any, infer: Callable[[Any], Any]) -> Any:
    """Shapes of a model in which sizes that depend on nothing but shapes are numbers.

    ``model`` is changed; its own nodes stand in the result.
    """
    originals: dict[str, Any] = {}
    held = [item for item in model.graph.initializer if item.data_location != onnx.TensorProto.EXTERNAL]
    known = {item.name: numpy_helper.to_array(item) for item in held if product(item.dims) <= LARGEST}
    while _has_open_sizes(found.graph):
        made = _fold(model.graph, _known_dims(found.graph), known, originals)
        if not made:
            break
        found = infer(model)
    for node in found.graph.node:
        if len(node.output) == 1 and node.output[0] in originals:
            node.CopyFrom(originals[node.output[0]])
    return found


def _fold(graph: Any, dims: dict[str, Any], known: dict[str, Any], originals: dict[str, Any]) -> bool:
    """Put constants in place of nodes whose results are ``known`` by now; whether there were any."""
    fresh = False
    for node in graph.node:
        if len(node.output) != 1 or node.output[0] in known or node.domain not in ("", "ai.onnx"):
            continue
        name = node.output[0]
        result = _result(node, known, dims)
        if result is None or result.size > LARGEST:
            continue
        known[name] = result
        if node.op_type != "Constant":
            originals[name] = onnx.NodeProto.FromString(node.SerializeToString())
            node.CopyFrom(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(result)))
            fresh = True
    return fresh


def _result(node: Any, known: dict[str, Any], dims: dict[str, Any]) -> Any:
    """The value of a node, None where it is not known."""
    if node.op_type == "Shape":
        return _shape(node, dims.get(node.input[0]))
    inside = any(item.type == onnx.AttributeProto.GRAPH for item in node.attribute)
    if inside or node.op_type.startswith("Random") or not all(word in known for word in node.input if word):
        return None
    if not node.input and node.op_type != "Constant":
        return None
    from onnx.reference import ReferenceEvaluator

    try:
        (result,) = ReferenceEvaluator(node).run(None, {word: known[word] for word in node.input if word})
    except Exception:  # what the reference does not do stays open
        return None
    return result if hasattr(result, "dtype") and result.dtype.kind not in "OUS" else None


def _shape(node: Any, dims: Any) -> Any:
    limits = {item.name: item.i for item in node.attribute}
    asked = [""] if dims is None else dims[limits.get("start", 0) : limits.get("end", len(dims))]
    return np.array(asked, dtype=np.int64) if all(isinstance(size, int) for size in asked) else None


def _known_dims(graph: Any) -> dict[str, Any]:
    """Dimensions by name, numbers where they are known."""
    found: dict[str, Any] = {}
    for item in (*graph.input, *graph.value_info, *graph.output):
        kind = item.type.tensor_type
        if item.type.HasField("tensor_type") and kind.HasField("shape"):
            found[item.name] = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in kind.shape.dim]
    return found | {item.name: list(item.dims) for item in graph.initializer}


def _has_open_sizes(graph: Any) -> bool:
    """Whether a size has no number and no name of the file's own, or a result no shape."""
    dims = _known_dims(graph)
    unknown = any(isinstance(size, str) and (not size or size.startswith(UNKNOWN)) for n in dims.values() for size in n)
    return unknown or any(word and word not in dims for node in graph.node for word in node.output)
