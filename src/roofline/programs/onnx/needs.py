"""Which elements of its inputs and weights the results of an ONNX graph need, followed back through its nodes.

Of nodes that hold graphs and of what a rule does not follow all is needed (``programs.regions``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from roofline.ops.einsum import operand_letters
from roofline.programs import needs, regions
from roofline.programs.needs import Asked, Regions, needed_of_operands
from roofline.programs.onnx.graph import LARGEST_MASK
from roofline.programs.onnx.rules import NAMES, OTHERS, REDUCTIONS, windows_of
from roofline.programs.onnx.standins import attributes_of, graphs_of, uses_in
from roofline.programs.regions import WHOLE, Region
from roofline.sizes import is_symbol, maximum, minimum, product

#: What is known of each tensor of a graph by its name.
Facts: TypeAlias = Mapping[str, Any]


def _axis(each: Asked, default: int = 0) -> int:
    """The axis that an attribute names, counted from the front."""
    return int(each.facts.get("axis", default)) % max(1, len(each.ins[0]))


def _listed(each: Asked, place: int, name: str = "") -> list[int] | None:
    """Whole numbers that an input or, in older files, an attribute is; None where they are not known."""
    held = each.facts.get(name)
    if len(each.numbers) > place and each.ins[place] is not None:
        held = each.numbers[place]
    if isinstance(held, np.ndarray):
        return [int(n) for n in held.flat]
    return None if held is None else [int(n) for n in (held if isinstance(held, list | tuple) else [held])]


def needed_of(graph: Any, shapes: Facts, values: Facts, asked: Regions | None = None) -> dict[str, Region]:
    """What is needed of each tensor of a graph, by its name, for its results or these regions of them."""
    found: dict[str, Region] = {}
    for item, region in zip(graph.output, asked or [WHOLE] * len(graph.output), strict=True):
        found[item.name] = regions.union(found.get(item.name, regions.NOTHING), region)
    for node in reversed(graph.node):
        wanted = [found.get(word, regions.NOTHING) for word in node.output]
        inside = graphs_of(node)
        words, needed = list(node.input), _of_scan(node, shapes, values, wanted) if inside else None
        if inside:
            words = [*(word for each in inside for word in uses_in(each)), *words]
            needed = needed or [WHOLE] * len(words)
        elif all(region == regions.NOTHING for region in wanted):
            continue
        for word, region in zip(words, needed or _operands(node, shapes, values, wanted), strict=True):
            found[word] = regions.union(found.get(word, regions.NOTHING), region)
    return found


def _of_scan(node: Any, shapes: Facts, values: Facts, wanted: Regions) -> Regions | None:
    """What a loop over rows needs of what its graph uses from outside, and of its inputs; None for other loops."""
    facts, ins = attributes_of(node), [_shape(shapes, word) for word in node.input]
    if node.op_type != "Scan" or None in ins or any(any(facts.get(name) or ()) for name in _OTHER_SCANS):
        return None
    (body,), many = graphs_of(node), len(node.input) - facts["num_scan_inputs"]
    words = [*uses_in(body), *(item.name for item in body.input)]

    def step(asked: Sequence[Region]) -> list[Region]:
        found = needed_of(body, shapes, values, asked)
        return [found.get(word, regions.NOTHING) for word in words]

    def in_order(found: Sequence[Region], sizes: Sequence[Any], way: str) -> list[Region]:
        """Rows in the order of the steps, or the other way round; the same where a direction says 1."""
        ways = facts.get(way) or [0] * len(found)
        turns = zip(found, sizes, ways, strict=True)
        return [regions.flipped(region, shape, [0]) if back else region for region, shape, back in turns]

    shared, rows, outs = len(words) - len(body.input), ins[-1], [_shape(shapes, word) for word in node.output[many:]]
    if not rows or None in outs:
        return None
    asked = in_order(wanted[many:], outs, "scan_output_directions")
    found = needs.of_scan(step, shared, wanted[:many], asked, [()] * shared + ins, rows[0])
    return [*found[: shared + many], *in_order(found[shared + many :], ins[many:], "scan_input_directions")]


#: Attributes of a Scan along other dimensions than the first.
_OTHER_SCANS = ("scan_input_axes", "scan_output_axes")


def _operands(node: Any, shapes: Facts, values: Facts, wanted: Regions) -> Regions:
    """What a node needs of its inputs."""
    everything: list[Region] = [WHOLE] * len(node.input)
    rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    ins: list[Any] = [_shape(shapes, word) for word in node.input]
    outs: list[Any] = [_shape(shapes, word) for word in node.output]
    several = any(region != regions.NOTHING for region in wanted[1:]) and node.op_type != "Split"
    unknown = any(word and shape is None for word, shape in zip(node.input, ins, strict=True))  # of a damaged file
    if rule is None or several or unknown or None in (ins[:1] + outs[:1]):
        return everything
    numbers = [values.get(word) for word in node.input]
    return needed_of_operands(rule, Asked(attributes_of(node), ins, outs, wanted, numbers, node.op_type))


#: The least that an open size stands for.
LEAST = 1


def _shape(shapes: Mapping[str, Any], word: str) -> tuple[Any, ...] | None:
    return regions.counted_from(LEAST, shapes[word]) if word in shapes else None


def _mask(each: Asked, place: int) -> Any:
    """A mask that an input is known to be."""
    mask = each.numbers[place] if len(each.ins) > place else None
    return mask if isinstance(mask, np.ndarray) else None


def _normed_by_neighbours(each: Asked) -> Iterator[Region]:
    """Of an image its channels and those within a window around them."""
    size, channels = each.facts["size"], each.ins[0][1]
    before, behind = (size - 1) // 2, size // 2

    def with_neighbours(box: Any) -> list[Any]:
        first, last, _ = box[1]
        return [(box[0], (maximum(0, first - before), minimum(channels, last + behind), 1), *box[2:])]

    yield regions.each(each.region, with_neighbours)


def _attended(each: Asked) -> Iterator[Region]:
    """Rows of the queries, and of heads [B, heads, S, H] the keys that they may see; with a cache all is needed."""
    if len(each.ins[0]) != 4 or any(shape is not None for shape in each.ins[4:]):
        return iter(())
    return needs.attended(each, bool(each.facts.get("is_causal")), _mask(each, 3))


def _sliced(each: Asked) -> Iterator[Region]:
    first, last = _listed(each, 1, "starts"), _listed(each, 2, "ends")
    axes = _listed(each, 3, "axes") or list(range(len(first or ())))
    steps = _listed(each, 4, "steps") or [1] * len(axes)
    unknown = any(len(each.ins) > n and each.ins[n] is not None and each.numbers[n] is None for n in range(1, 5))
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


def _padded(each: Asked) -> Iterator[Region]:
    pads, mode, rank = _listed(each, 1, "pads"), each.facts.get("mode", b"constant").decode(), len(each.ins[0])
    if pads is None or (len(each.ins) > 3 and each.ins[3] is not None):
        return iter([WHOLE])
    return needs.padded(each, pads[:rank]) if mode == "constant" else needs.padded_by_own(each, pads[:rank], mode)


def _gathered(each: Asked) -> Iterator[Region]:
    """Rows that known indices name; of unknown ones all rows, as much of each as the result has."""
    yield from [WHOLE] if each.ins[1] is None else needs.picked(each, _axis(each), _listed(each, 1))


def _scattered(each: Asked) -> Iterator[Region]:
    """Of values that indices along an axis write, along the others what the result has, of known ones these.

    Of what they replace nothing.
    """
    axis, places, (shape, index) = _axis(each), _places(each), each.ins[:2]
    values, left = needs.at_places(each.region, axis, index, places, shape[axis]), each.region
    if each.facts.get("reduction", b"none") == b"none":
        if places is None or any(map(is_symbol, shape)) or prod(shape) > LARGEST_MASK:
            left = needs.beside_some(each, index)
        else:
            at, kept = list(np.indices(index)), np.ones(shape, bool)
            at[axis] = places % shape[axis]
            kept[tuple(at)] = False
            left = regions.let_through(left, shape, kept)
    yield from (left, values, values)


def _places(each: Asked) -> Any:
    """The places that the indices of a scatter name; None where they are not known, or sizes that are open."""
    places = np.asarray(each.numbers[1])
    return places.reshape(each.ins[1]) if places.dtype.kind in "iu" else None


def _scattered_parts(each: Asked) -> Iterator[Region]:
    """Of values that indices along the first dimensions write, along the last what the result has.

    Of known places those that it has, and of what they replace nothing.
    """
    if not each.ins[1]:  # of a damaged file
        return
    (shape, (*batch, many)), places, region = each.ins[:2], _places(each), each.region
    rest = regions.box_of(shape[many:])
    is_new = each.facts.get("reduction", b"none") == b"none"
    if places is None or any(type(size) is not int for size in shape[:many]):
        sizes = regions.rows_of(shape, range(many), product(batch))
        left = needs.beside_some(each, sizes) if is_new else region
        yield from (left, WHOLE, regions.each(region, lambda box: [(*regions.box_of(batch), *box[many:])]))
        return
    places = places % shape[:many]
    if is_new:
        whole, shown = (*regions.box_of(batch), *rest), {many + d: len(batch) + d for d in range(len(rest))}
        boxes = regions.named(whole, places, range(len(batch)), shown, range(many), len(shape)) or ()
        for part in boxes[: regions.MOST_BOXES]:
            region = regions.outside(region, part)

    def written(box: regions.Box) -> Sequence[regions.Box]:
        held = np.all([np.isin(places[..., axis], np.arange(*box[axis])) for axis in range(many)], axis=0)
        part = (*regions.box_of(batch), *box[many:])
        return regions.let_through((part,), each.ins[2], held.reshape(*batch, *[1] * len(rest))) or ()

    yield from (region, WHOLE, regions.each(each.region, written))


def _recurrent(each: Asked) -> Iterator[Region]:
    """Of sequences [steps, batch, elements] those of the result [steps, directions, batch, elements], up to its last.

    Backwards they begin at its first step; where each sequence has a length, or both ways count, all steps are needed.
    """
    if each.facts.get("layout"):
        return
    many, width = each.ins[0][0], each.ins[0][2]
    has_lengths = any(shape is not None for shape in each.ins[4:5])
    way = each.facts.get("direction", b"forward")

    def stepped(box: Any) -> list[Any]:
        first = box[0][0] if way == b"reverse" and not has_lengths else 0
        return [((first, box[0][1] if way == b"forward" else many, 1), box[2], (0, width, 1))]

    yield regions.each(each.region, stepped)
    for place, shape in enumerate(each.ins[1:], 1):
        own = (2,) if place == 4 else (1, 2) if place in (5, 6) else (1,)  # directions, sequences

        def part(box: Any, own: Any = own, shape: Any = shape) -> list[Any]:
            return [(*(box[axis] for axis in own), *regions.box_of(shape[len(own) :]))]

        yield WHOLE if shape is None else regions.each(each.region, part)


def _reduced(each: Asked) -> Iterator[Region]:
    axes = _listed(each, 1, "axes")
    if axes is None and len(each.ins) > 1 and each.ins[1] is not None:
        yield WHOLE
        return
    rank = len(each.ins[0])
    axes = axes or ([] if each.facts.get("noop_with_empty_axes") else list(range(rank)))
    yield from needs.along(each, [a % rank for a in axes], bool(each.facts.get("keepdims", 1)))


def _running(each: Asked) -> Iterator[Region]:
    axis = _listed(each, 1)
    rank = len(each.ins[0])
    backwards = bool(each.facts.get("reverse", 0))
    if axis is None:
        return iter([WHOLE])
    found = regions.up_to(each.region, each.ins[0], axis[0] % rank, backwards)
    apart = [int(d == axis[0] % rank and bool(each.facts.get("exclusive"))) for d in range(rank)]  # not its own element
    return needs.padded(each._replace(wanted=(found,)), [-n if backwards else n for n in apart])


def _linear(each: Asked) -> list[Region]:
    """A product of matrices that may be given the other way round, and a bias."""
    words = ["km" if each.facts.get("transA", 0) else "mk", "nk" if each.facts.get("transB", 0) else "kn"]
    return needs.added_to(each, words, "mn", slice(2))


def _convolved(each: Asked) -> Iterator[Region]:
    (image, kernel), out, transposed = each.ins[:2], each.outs[0], each.name == "ConvTranspose"
    seen, slid = (out[2:], image[2:]) if transposed else (image[2:], out[2:])
    places = windows_of(each.facts, seen, slid, kernel[2:])
    yield from regions.convolved(each.region, kernel, places, each.facts.get("group", 1), transposed)
    yield from (regions.each(each.region, lambda box: [(box[1],)]) for _ in each.ins[2:])


def _pooled(each: Asked) -> Iterator[Region]:
    places = windows_of(each.facts, each.ins[0][2:], each.outs[0][2:], each.facts["kernel_shape"])
    yield regions.under_windows(each.region, places)


def _normed_by_channel(each: Asked) -> Iterator[Region]:
    """With statistics of each image's channels or groups of them; stored ones, of a batch norm, are elementwise."""
    x, groups = each.ins[0], each.facts.get("num_groups")
    if each.facts.get("training_mode") or any(shape != x[1:2] for shape in each.ins[1:]):
        return iter(())  # with statistics of the batch, or a scale for each group
    stored = each.name == "BatchNormalization"
    return needs.normed_by_channel(each, () if stored else range(2, len(x)), x[1] // groups if groups else 1)


#: The middle of an element, by the way that a Resize counts places.
_MIDDLE = {"half_pixel": 0.5, "pytorch_half_pixel": 0.5, "asymmetric": 0.0, "align_corners": 0.0}

#: Elements that a Resize takes the nearest to be, by its rounding.
_NEAREST: Mapping[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5), "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": np.floor, "ceil": np.ceil,
}  # fmt: skip


def _resampled(each: Asked) -> Iterator[Region]:
    """Of each place of the result the nearest element, or those that it is mixed of."""
    facts, own, out = each.facts, each.ins[0], each.outs[0]
    words = {"mode": "nearest", "nearest_mode": "round_prefer_floor", "coordinate_transformation_mode": "half_pixel"}
    kind, rounding, counted = (getattr(facts.get(name), "decode", lambda w=word: w)() for name, word in words.items())
    scales = each.numbers[2] if len(each.numbers) > 2 and each.ins[2] is not None else None
    if counted not in _MIDDLE or facts.get("antialias") or facts.get("axes") or (scales is None and len(each.ins) < 4):
        return iter(())
    nearest = _NEAREST[rounding]

    def rows(size: int, many: int, scale: float) -> Callable[[Any], Any]:
        ratio = needs.corners(size, many) if counted == "align_corners" else 1 / scale
        middle = _MIDDLE[counted]
        if counted == "pytorch_half_pixel" and many == 1:  # the only place is the first one
            ratio, middle = 0.0, 0.0
        if kind != "nearest":
            return needs.mixed(size, ratio, middle, kind)
        return lambda at: np.clip(nearest(np.round((at + middle) * ratio - middle, 9)).astype(int), 0, size - 1)

    given = scales or [many / size for size, many in zip(own, out, strict=True)]
    return needs.by_rows(each, [rows(*axis) for axis in zip(own, out, given, strict=True)])


_RULES: dict[str, needs.Rule] = {
    **dict.fromkeys((*NAMES, *OTHERS, "Gelu", "Cast", "Mean", "Sum", "Max", "Min"), needs.alike),
    **dict.fromkeys(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Dropout"), needs.reshaped),
    "Transpose": lambda each: [regions.moved(each.region, each.facts.get("perm") or range(len(each.ins[0]))[::-1])],
    "Expand": lambda each: [regions.aligned(each.region, each.ins[0], each.outs[0])],
    "Slice": _sliced, "Tile": needs.repeated, "Pad": _padded,
    "CenterCropPad": lambda each: needs.padded(  # the middle of a tensor, or all of it in the middle of zeros
        each, [(many - size) // 2 for size, many in zip(each.ins[0], each.outs[0], strict=True)]
    ),
    "Split": lambda each: needs.split(each, _axis(each)), "Concat": lambda each: needs.joined(each, _axis(each)),
    "Gather": _gathered, **dict.fromkeys(REDUCTIONS, _reduced),
    **dict.fromkeys(("Scatter", "ScatterElements"), _scattered), "ScatterND": _scattered_parts,
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    **dict.fromkeys(("Softmax", "LogSoftmax", "TopK", "Hardmax"), lambda each: needs.along(each, [_axis(each, -1)])),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"),
                    lambda each: needs.normed(each, range(_axis(each, -1), len(each.ins[0])))),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization", "GroupNormalization"), _normed_by_channel),
    "Resize": _resampled,
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"),
                    lambda each: needs.along(each, range(2, len(each.ins[0])))),
    "LpNormalization": lambda each: needs.along(each, [_axis(each, -1)]),
    "MeanVarianceNormalization": lambda each: needs.along(
        each, [axis % len(each.ins[0]) for axis in each.facts.get("axes", (0, 2, 3))]
    ),
    "CumSum": _running, **dict.fromkeys(("Conv", "ConvTranspose"), _convolved),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pooled),
    **dict.fromkeys(("ArgMax", "ArgMin"),
                    lambda each: needs.along(each, [_axis(each)], bool(each.facts.get("keepdims", 1)))),
    "Where": lambda each: needs.chosen(each, _mask(each, 0), (None, True, False)),
    "LRN": _normed_by_neighbours, "Attention": _attended,
    "Det": needs.batched, "MatMul": needs.multiplied, "Gemm": _linear,
    "Einsum": lambda each: needs.lettered(
        each, *operand_letters(each.facts["equation"].decode(), [len(shape) for shape in each.ins])
    ),
}  # fmt: skip
