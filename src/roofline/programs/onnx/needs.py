"""Which elements of its inputs and weights the results of an ONNX graph need, followed back through its nodes.

Of nodes that hold graphs and of what a rule does not follow all is needed (``programs.regions``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from roofline.frozen import NamedTuple
from roofline.programs import regions
from roofline.programs.onnx.rules.contractions import windows_of
from roofline.programs.onnx.rules.vector import NAMES, OTHERS, REDUCTIONS
from roofline.programs.regions import WHOLE, Region
from roofline.sizes import maximum, minimum


class _Node(NamedTuple):
    """A node with what its results need: attributes, shapes, known numbers, regions of results."""

    attributes: Mapping[str, Any]
    ins: Sequence[tuple[int, ...]]
    outs: Sequence[tuple[int, ...]]
    values: Sequence[Any]
    wanted: Sequence[Region]
    node: str = ""

    @property
    def region(self) -> Region:
        """What is needed of the first result."""
        return regions.box_in(self.wanted[0], self.outs[0])

    def axis(self, default: int = 0) -> int:
        """The axis that an attribute names, counted from the front."""
        return int(self.attributes.get("axis", default)) % max(1, len(self.ins[0]))

    def listed(self, place: int, name: str) -> list[int] | None:
        """Whole numbers that an input or, in older files, an attribute is; None where they are not known."""
        if len(self.values) > place and self.ins[place] is not None:
            held = self.values[place]
            return None if held is None else [int(n) for n in (held if isinstance(held, list) else [held])]
        found = self.attributes.get(name)
        return None if found is None else [int(n) for n in found]


def needed_of(
    graph: Any, attributes: Callable[[Any], Mapping[str, Any]], shapes: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, Region]:
    """What is needed of each tensor of a graph, by its name, for all of the graph's results."""
    found: dict[str, Region] = {item.name: WHOLE for item in graph.output}
    for node in reversed(graph.node):
        wanted = [found.get(word, regions.NOTHING) for word in node.output]
        inside = [item.g for item in node.attribute if item.HasField("g")]
        inside += [graph for item in node.attribute for graph in item.graphs]
        if inside:
            found |= dict.fromkeys((*node.input, *_words(inside)), WHOLE)
            continue
        if all(region == regions.NOTHING for region in wanted):
            continue
        needed = _operands(node, attributes, shapes, values, wanted)
        for word, region in zip(node.input, needed, strict=True):
            found[word] = regions.union(found.get(word, regions.NOTHING), region)
    return found


def _words(graphs: Sequence[Any]) -> Iterator[str]:
    """All that the nodes of graphs read."""
    for graph in graphs:
        for node in graph.node:
            yield from node.input
            yield from _words([item.g for item in node.attribute if item.HasField("g")])


def _operands(
    node: Any,
    attributes: Callable[[Any], Mapping[str, Any]],
    shapes: Mapping[str, Any],
    values: Mapping[str, Any],
    wanted: Sequence[Region],
) -> Sequence[Region]:
    """What a node needs of its inputs."""
    everything: list[Region] = [WHOLE] * len(node.input)
    rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    ins: list[Any] = [_shape(shapes, word) for word in node.input]
    outs: list[Any] = [_shape(shapes, word) for word in node.output]
    several = any(region != regions.NOTHING for region in wanted[1:]) and node.op_type != "Split"
    if rule is None or several or None in (ins[:1] + outs[:1]):
        return everything
    numbers = [values.get(word) for word in node.input]
    try:
        found = list(rule(_Node(attributes(node), ins, outs, numbers, wanted, node.op_type)))
    except TypeError:  # a comparison that depends on an open size
        if all(type(size) is int for shape in (*ins, *outs) for size in shape or ()):
            raise
        found = []
    return [*found, *everything[len(found) :]]


#: The least that an open size stands for.
LEAST = 1


def _shape(shapes: Mapping[str, Any], word: str) -> tuple[Any, ...] | None:
    return regions.counted_from(LEAST, shapes[word]) if word in shapes else None


def _alike(each: _Node) -> Iterator[Region]:
    """Element by element, of what is repeated along a dimension too."""
    yield from (WHOLE if shape is None else regions.aligned(each.region, shape, each.outs[0]) for shape in each.ins)


def _reshaped(each: _Node) -> Iterator[Region]:
    yield regions.reshaped(each.region, each.outs[0], each.ins[0])


def _transposed(each: _Node) -> Iterator[Region]:
    yield regions.moved(each.region, each.attributes.get("perm") or range(len(each.ins[0]))[::-1])


def _expanded(each: _Node) -> Iterator[Region]:
    yield regions.aligned(each.region, each.ins[0], each.outs[0])


def _sliced(each: _Node) -> Iterator[Region]:
    first, last = each.listed(1, "starts"), each.listed(2, "ends")
    axes = each.listed(3, "axes") or list(range(len(first or ())))
    steps = each.listed(4, "steps") or [1] * len(axes)
    unknown = any(len(each.ins) > n and each.ins[n] is not None and each.values[n] is None for n in range(1, 5))
    if first is None or last is None or unknown:
        yield WHOLE
        return
    shape, region = each.ins[0], each.region
    starts, apart = [0] * len(shape), [1] * len(shape)
    for start, axis, step in zip(first, axes, steps, strict=True):
        lowest, highest = (0, shape[axis]) if step > 0 else (-1, shape[axis] - 1)
        at = minimum(start, highest) if start >= 0 else maximum(shape[axis] + start, lowest)
        starts[axis], apart[axis] = at, step
    backwards = [axis for axis, step in enumerate(apart) if step < 0]
    for axis in backwards:
        region = regions.flipped(region, each.outs[0], [axis])
        starts[axis] += (each.outs[0][axis] - 1) * apart[axis]
    yield regions.sliced(region, each.outs[0], starts, [abs(step) for step in apart])


def _split(each: _Node) -> Iterator[Region]:
    axis, start, parts = each.axis(), 0, []
    for region, shape in zip(each.wanted, each.outs, strict=True):
        starts = [start if place == axis else 0 for place in range(len(shape))]
        parts.append(regions.sliced(region, shape, starts, (1,) * len(shape)))
        start += shape[axis]
    yield regions.union(*parts)


def _concatenated(each: _Node) -> Iterator[Region]:
    axis, start = each.axis(), 0
    for shape in each.ins:
        yield regions.joined(each.region, axis, start, shape[axis])
        start += shape[axis]


def _padded(each: _Node) -> Iterator[Region]:
    pads, mode = each.listed(1, "pads"), each.attributes.get("mode", b"constant")
    if pads is None or mode != b"constant" or (len(each.ins) > 3 and each.ins[3] is not None):
        yield WHOLE
        return
    region = each.region
    for axis, size in enumerate(each.ins[0]):
        region = regions.joined(region, axis, pads[axis], size)
    yield region


def _gathered(each: _Node) -> Iterator[Region]:
    """Rows that known indices name; of unknown ones all rows, as much of each as the result has."""
    shape, axis = each.ins[0], each.axis()
    if each.ins[1] is None:  # indices of a file that is damaged
        yield WHOLE
        return
    picked = (*shape[:axis], prod(each.ins[1]), *shape[axis + 1 :])
    region = regions.reshaped(each.region, each.outs[0], picked)
    places = each.listed(1, "")
    if places is None:
        yield regions.along(region, shape, (axis,))
    else:
        yield regions.picked(region, axis, [place % shape[axis] for place in places])


def _reduced(each: _Node) -> Iterator[Region]:
    axes = each.listed(1, "axes")
    if axes is None and len(each.ins) > 1 and each.ins[1] is not None:
        yield WHOLE
        return
    rank = len(each.ins[0])
    axes = axes or ([] if each.attributes.get("noop_with_empty_axes") else list(range(rank)))
    yield regions.along(each.region, each.ins[0], [a % rank for a in axes], bool(each.attributes.get("keepdims", 1)))


def _chosen(each: _Node) -> Iterator[Region]:
    yield regions.along(each.region, each.ins[0], (each.axis(),), bool(each.attributes.get("keepdims", 1)))


def _normed(each: _Node) -> Iterator[Region]:
    """Along one axis, or from it to the last."""
    yield regions.along(each.region, each.ins[0], [each.axis(-1)])


def _normed_from(each: _Node) -> Iterator[Region]:
    yield regions.along(each.region, each.ins[0], range(each.axis(-1), len(each.ins[0])))


def _running(each: _Node) -> Iterator[Region]:
    axis = each.listed(1, "")
    rank = len(each.ins[0])
    backwards = bool(each.attributes.get("reverse", 0))
    yield WHOLE if axis is None else regions.up_to(each.region, each.ins[0], axis[0] % rank, backwards)


def _multiplied(each: _Node) -> Iterator[Region]:
    """The rows of the first that the result has, and the columns of the second."""
    (first, second), out = each.ins[:2], each.outs[0]
    if min(len(first), len(second)) < 2:
        return
    rows = regions.along(each.region, (*out[:-1], first[-1]), (len(out) - 1,))
    columns = regions.along(each.region, (*out[:-2], second[-2], out[-1]), (len(out) - 2,))
    yield regions.aligned(rows, first, (*out[:-1], first[-1]))
    yield regions.aligned(columns, second, (*out[:-2], second[-2], out[-1]))


def _linear(each: _Node) -> Iterator[Region]:
    """A product of matrices that may be given the other way round, and a bias."""
    for place, (name, axis) in enumerate((("transA", 1), ("transB", 0))):
        shape = each.ins[place][::-1] if each.attributes.get(name, 0) else each.ins[place]
        region = regions.along(each.region, shape, (axis,))
        yield regions.moved(region, (1, 0)) if each.attributes.get(name, 0) else region
    yield from (regions.aligned(each.region, shape, each.outs[0]) for shape in each.ins[2:] if shape is not None)


def _convolved(each: _Node) -> Iterator[Region]:
    (image, kernel), out, transposed = each.ins[:2], each.outs[0], each.node == "ConvTranspose"
    seen, slid = (out[2:], image[2:]) if transposed else (image[2:], out[2:])
    places = windows_of(each.attributes, seen, slid, kernel[2:])
    yield from regions.convolved(each.region, kernel, places, each.attributes.get("group", 1), transposed)
    yield from (regions.each(each.region, lambda box: [(box[1],)]) for _ in each.ins[2:])


def _pooled(each: _Node) -> Iterator[Region]:
    places = windows_of(each.attributes, each.ins[0][2:], each.outs[0][2:], each.attributes["kernel_shape"])
    yield regions.under_windows(each.region, places)


_RULES: dict[str, Callable[[_Node], Iterator[Region]]] = {
    **dict.fromkeys((*NAMES, *OTHERS, "Gelu", "Cast", "Mean", "Sum", "Max", "Min"), _alike),
    **dict.fromkeys(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Dropout"), _reshaped),
    "Transpose": _transposed, "Expand": _expanded, "Slice": _sliced, "Split": _split, "Concat": _concatenated,
    "Tile": lambda each: iter([regions.repeated(each.region, each.ins[0])]), "Pad": _padded, "Gather": _gathered,
    **dict.fromkeys(REDUCTIONS, _reduced), **dict.fromkeys(("Softmax", "LogSoftmax"), _normed),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _normed_from), "CumSum": _running,
    **dict.fromkeys(("Conv", "ConvTranspose"), _convolved), **dict.fromkeys(("MaxPool", "AveragePool"), _pooled),
    **dict.fromkeys(("ArgMax", "ArgMin"), _chosen), "MatMul": _multiplied, "Gemm": _linear,
}  # fmt: skip
