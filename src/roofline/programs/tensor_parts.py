"""What the floor has to know of tensors: parts that are cut out of them, results that the program reads too.

A part goes by the name of its tensor with a bracket, first:last:step of each dimension where they are known:

>>> halves = [Tensor(f"x[{at}:{at + 4}]", (8,), "fp32", touched=4) for at in (0, 4)]
>>> ops = [Op("add", "elementwise", reads=(part,)) for part in halves]
>>> [t.ident for op in named_apart(ops) for t in op.reads]
['x[0]', 'x[1]']
>>> ops.append(Op("sum", "reduction", reads=(Tensor("x", (8,), "fp32"),)))
>>> [t.ident for op in named_apart(ops) for t in op.reads]
['x', 'x', 'x']

:func:`pieces` says which places of one stretch of memory each part has, so that each place is read once.

>>> left, right = Stretches(0, ((4, 32), (16, 1))), Stretches(16, ((4, 32), (16, 1)))  # halves of four rows of 32
>>> pieces([left, right])
Pieces(sizes=(64, 64), of=((0,), (1,)))
>>> pieces([left, Stretches(0, ((4, 32), (24, 1)))])                               # the second holds the first
Pieces(sizes=(64, 32), of=((0,), (0, 1)))

Of an array from outside each step of a loop may take another part, as where it picks a layer of stacked weights by its
counter. The first step is walked apart, the others together: they read as many parts beside its own as the array still
has, and what they take beyond that was read before.

>>> stack, layer = Tensor("w", (6, 8), "fp32", touched=8), Tensor("h", (8,), "fp32")
>>> op = Op("gather", "gather", reads=(stack,), writes=(layer,))
>>> def parts(length):
...     steps = LoopSteps(length - 1, before=1)
...     return [(each.reads[0].needed, times) for each, times in part_by_part(op, "w", steps, set())]
>>> parts(6), parts(9)
([(None, 5)], [(None, 5), (0, 3)])
>>> first_part(op, ("gather",), LoopSteps(5, before=1, in_parts={"w"})).reads[0].ident
'w[0]'
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Any, TypeAlias

from roofline import dtypes
from roofline.frozen import NamedTuple, replace
from roofline.lazy import np
from roofline.ops.basic import UNKNOWN
from roofline.sizes import Size, ceil_div, exact_div, maximum, minimum, product
from roofline.work import Op, Tensor

#: Parts are told apart up to so many cells between the edges of boxes, times parts; and so many runs without a grid.
_MOST = 10**7
_MOST_RUNS = 10**6


class Stretches(NamedTuple):
    """The places that a part has: where they start, and how many there are at which distances."""

    start: int
    steps: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """How many they are."""
        return prod(n for n, _ in self.steps)

    @property
    def last(self) -> int:
        """The last of them."""
        return self.start + sum((n - 1) * stride for n, stride in self.steps)

    @property
    def is_one_run(self) -> bool:
        """Whether they surely have no gap: no step is farther than the places of the shorter ones reach."""
        reach = 1
        for n, stride in sorted(self.steps, key=lambda step: step[1]):
            if stride > reach:
                return False
            reach += (n - 1) * stride
        return True


class Pieces(NamedTuple):
    """What regions are made of: the places of each piece, and the pieces of each region."""

    sizes: tuple[int, ...]
    of: tuple[tuple[int, ...], ...]

    def union(self, regions: Sequence[int]) -> int:
        """Places of these regions together."""
        return sum(self.sizes[piece] for piece in {piece for region in regions for piece in self.of[region]})

    @property
    def apart(self) -> bool:
        """Whether no two regions share a place."""
        return sum(map(len, self.of)) == len(self.sizes)


def pieces(regions: Sequence[Stretches]) -> Pieces | None:
    """Cut regions where one of them begins or ends, run by run where they are no boxes; None for too many."""
    cut = _boxes(regions) or _runs(regions)
    if cut is None:
        return None
    held, spans = cut
    marks = np.random.default_rng(0).integers(1, 2**63, len(regions), dtype=np.int64)  # a sum names who holds a cell
    cells = np.zeros(held.shape, np.int64)
    for span, mark in zip(spans, marks, strict=True):
        cells[span] ^= mark
    names, numbers = np.unique(cells, return_inverse=True)
    numbers = numbers.reshape(held.shape)
    sizes = np.bincount(numbers.ravel(), weights=held.ravel(), minlength=len(names))
    found = [np.flatnonzero(np.bincount(numbers[span].ravel())).tolist() for span in spans]
    order = {number: at for at, number in enumerate(dict.fromkeys(number for each in found for number in each))}
    of = tuple(tuple(sorted(order[number] for number in each)) for each in found)
    return Pieces(tuple(int(sizes[number]) for number in order), of)


def places_together(regions: Sequence[Stretches]) -> int:
    """Places of regions together, each once; of regions that cannot be cut those of the largest.

    >>> places_together([Stretches(0, ((2, 64), (64, 1)))]), places_together([Stretches(0, ((10**9, 1),))] * 2)
    (128, 1000000000)
    >>> rows, half = Stretches(0, ((4, 8), (6, 1))), Stretches(0, ((16, 1),))
    >>> places_together([rows, half]), places_together([half, Stretches(8, ((12, 1),))])
    (28, 20)
    """
    runs: list[Stretches] = []
    for first, last in sorted((each.start, each.last + 1) for each in regions if each.is_one_run):
        if runs and first <= runs[-1].last + 1:
            first, last = runs[-1].start, max(last, runs.pop().last + 1)
        runs.append(Stretches(first, ((last - first, 1),)))
    others = [each for each in regions if not any(run.start <= each.start and each.last <= run.last for run in runs)]
    if not others:
        return sum(run.size for run in runs)
    found = pieces([*runs, *others])
    return max(each.size for each in regions) if found is None else found.union(range(len(found.of)))


#: Places in each cell, and the cells of each region.
_Cells: TypeAlias = "tuple[np.ndarray[Any, Any], list[Any]]"


def _boxes(regions: Sequence[Stretches]) -> _Cells | None:
    """Cells between the edges of regions that are boxes on one grid."""
    strides = sorted({1, *(stride for region in regions for n, stride in region.steps if n != 1)}, reverse=True)
    if any(far % near for far, near in pairwise(strides)):
        return None
    boxes = [_box(region, strides) for region in regions]
    if not all(boxes):
        return None
    edges = [sorted({edge for box in boxes for edge in box[level]}) for level in range(len(strides))]
    shape = [len(level) - 1 for level in edges]
    if prod(shape) * len(regions) > _MOST:
        return None
    at = [{edge: place for place, edge in enumerate(level)} for level in edges]
    held = np.ones(shape, np.int64)
    for level, edge in enumerate(edges):
        held *= np.diff(edge).reshape([-1 if place == level else 1 for place in range(len(shape))])
    return held, [tuple(slice(at[n][a], at[n][b]) for n, (a, b) in enumerate(box)) for box in boxes]


def _runs(regions: Sequence[Stretches]) -> _Cells | None:
    """Cells between the edges of the runs of places without a gap that regions are made of."""
    edges = []
    for region in regions:
        (length, finest), *outer = sorted(region.steps, key=lambda step: step[1]) or [(1, 1)]
        if finest != 1:
            outer, length = [(length, finest), *outer], 1
        while outer and outer[0][1] == length:
            length *= outer.pop(0)[0]
        if prod(n for n, _ in outer) * len(regions) > _MOST_RUNS:
            return None
        starts = np.array([region.start])
        for n, stride in outer:
            starts = np.add.outer(starts, np.arange(n) * stride).ravel()
        edges.append((starts, starts + length))
    cut = np.unique(np.concatenate([edge for pair in edges for edge in pair]))
    spans = []
    for pair in edges:
        begun, ended = (np.bincount(np.searchsorted(cut, edge), minlength=len(cut)) for edge in pair)
        spans.append(np.cumsum(begun - ended)[:-1] > 0)
    return np.diff(cut), spans


def _box(region: Stretches, strides: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """First and last place of a region at each distance; nothing where it is no box."""
    several = [step for step in region.steps if step[0] != 1]
    counts, box = {stride: n for n, stride in several}, []
    if len(counts) < len(several):
        return ()
    for stride, far in zip(reversed(strides), (*reversed(strides[:-1]), None), strict=True):
        first, n = (region.start % far if far else region.start) // stride, counts.get(stride, 1)
        if far and first + n > (turn := far // stride):  # it goes on in the next row: whole rows are of that distance
            if first or n % turn or far in counts:
                return ()
            counts[far], n = n // turn, turn
        box.append((first, first + n))
    return tuple(reversed(box))


def in_one_stretch(regions: Sequence[Stretches]) -> bool:
    """Whether the stretches of memory that regions span run into each other."""
    spans = sorted((region.start, region.last) for region in regions)
    return any(second[0] <= first[1] for first, second in pairwise(spans))


#: Indices of more elements are not looked at.
MOST_PLACES = 2**16

#: First place, the place behind the last, step.
Edges = tuple[int, int, int]


def part_name(edges: Sequence[Edges]) -> str:
    """How a part is called whose places are known in each dimension.

    >>> part_name([(0, 4, 1), (2, 8, 2)])
    '0:4:1,2:8:2'
    """
    return ",".join(":".join(map(str, edge)) for edge in edges)


def edges_of_places(places: Any, size: int = 1) -> Edges | None:
    """What pieces of one size that begin at these places cover, where they lie evenly; None where they do not.

    >>> edges_of_places([3]), edges_of_places([4, 0, 2, 0]), edges_of_places([2, 0], size=2), edges_of_places([0, 1, 3])
    ((3, 4, 1), (0, 5, 2), (0, 4, 1), None)
    """
    first, *others = np.unique(places).tolist() or [0]
    steps = {second - before for before, second in pairwise([first, *others])}
    if not steps:
        return (first, first + size, 1)
    step = steps.pop()
    if steps or (size > 1 and step > size):
        return None
    return (first, others[-1] + size, step if size == 1 else 1)


def once_each(amount: Size, places: Any) -> Size:
    """Of so many elements in pieces at these places those of the pieces that differ: none is read twice.

    >>> once_each(40, [3, 0, 1, 1]), once_each(40, [[0, 1], [0, 1]]), once_each(0, [])
    (30, 20, 0)
    """
    return exact_div(amount, len(places)) * len(np.unique(places, axis=0)) if len(places) else amount


def named_apart(ops: Sequence[Op]) -> tuple[Op, ...]:
    """The operations, parts of an outside tensor under names of their own, all others under that of the whole.

    So the policy ``minimal`` counts what the parts have together. Parts whose places are known are read as the pieces
    that they have in common and those that they have not; of others each is one, if there are no more of them than the
    tensor holds. A part of what the program made, or of what is read whole too, goes by the name of the whole.
    """
    parts: dict[str, dict[str, Tensor]] = {}
    times: dict[str, Size] = {}
    plain = {t.ident for op in ops for t in (*op.reads, *op.writes)}
    for op in ops:
        for tensor in op.reads:
            base, bracket, _ = tensor.ident.partition("[")
            if bracket and base not in plain:
                parts.setdefault(base, {})[tensor.ident] = tensor
                times.setdefault(tensor.ident, op.repeat)
    cut: dict[str, tuple[Tensor, ...]] = {}
    kept: set[str] = set()
    for base, found in parts.items():
        known = _pieces(base, found)
        cut |= known
        if not known and _apart(found):
            kept.add(base)
            cut |= {} if _fit(found, times) else _beside_steps(base, found, times)

    def named(tensor: Tensor) -> tuple[Tensor, ...]:
        base, bracket, _ = tensor.ident.partition("[")
        whole = tensor if not bracket or base in kept else replace(tensor, ident=base)
        return cut.get(tensor.ident, (whole,))

    return tuple(replace(op, reads=tuple(each for t in op.reads for each in named(t))) for op in ops)


def _apart(parts: Mapping[str, Tensor]) -> bool:
    """Whether parts whose places are not known are taken to be apart: together they are no more than the tensor."""
    return any(map(_of_steps, parts)) or _fit(parts, {})


def _of_steps(ident: str) -> bool:
    """Whether a part is what the steps of a loop take, each another (:class:`LoopSteps`)."""
    return _STEPS.search(ident) is not None


_STEPS = re.compile(r"\[[^][:,]+:\](\[[^][:,]+:\]|\[0\])*$")


def _fit(parts: Mapping[str, Tensor], times: Mapping[str, Size]) -> bool:
    """Whether parts are together no more than the tensor, each read so many times another one."""
    held = [t.traffic_elements * (times.get(ident, 1) if _of_steps(ident) else 1) for ident, t in parts.items()]
    whole = maximum(*(t.elements for t in parts.values()))
    return all(isinstance(amount, int) for amount in (*held, whole)) and sum(held) <= whole


def _beside_steps(base: str, parts: Mapping[str, Tensor], times: Mapping[str, Size]) -> dict[str, tuple[Tensor, ...]]:
    """Parts beside those of a loop's steps: needed of them is what these leave of the tensor.

    A loop whose steps stand together leaves nothing to another one, whose first step stands apart.
    """
    every = f"{base}[0:]"
    steps = {ident: t for ident, t in parts.items() if _of_steps(ident) or not ident[len(base) :].strip("[0]")}
    steps = {every: parts[every]} if every in parts else steps
    others = {ident: t for ident, t in parts.items() if ident not in steps}
    taken = [t.traffic_elements * (times.get(ident, 1) if _of_steps(ident) else 1) for ident, t in steps.items()]
    left = maximum(0, maximum(*(t.elements for t in parts.values())) - sum(taken[1:], taken[0]))
    found: dict[str, tuple[Tensor, ...]] = {}
    if every in parts:
        found[every] = (replace(parts[every], storage=base),)
    for ident, tensor in others.items():
        fresh = minimum(left, tensor.traffic_elements)
        dims = tensor.dims if every in parts else (fresh,)
        storage = base if every in parts else tensor.storage
        found[ident] = (replace(tensor, dims=dims, touched=tensor.traffic_elements, needed=fresh, storage=storage),)
        left = left - fresh
    return found


def _pieces(base: str, parts: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, ...]]:
    """The pieces that each part is made of; nothing where the places of one are not known."""
    if len({t.dims for t in parts.values()}) != 1:
        return {}
    opened = product(n for n in next(iter(parts.values())).dims if not isinstance(n, int))
    regions = [_stretches(tensor) for tensor in parts.values()]
    known = [region for region in regions if region is not None]
    found = pieces(known) if len(known) == len(regions) else None
    if found is None:
        return {}
    return {
        ident: tuple(
            replace(tensor, ident=f"{base}[{piece}]", dims=(found.sizes[piece] * opened,), touched=None)
            for piece in held
        )
        for (ident, tensor), held in zip(parts.items(), found.of, strict=True)
    }


def _stretches(tensor: Tensor) -> Stretches | None:
    """The places of a part by its name, where they are numbers; along an open size, which it has whole, the first."""
    edges = [edge.split(":") for edge in tensor.ident.partition("[")[2].rstrip("]").split(",")]
    if len(edges) != len(tensor.dims):
        return None
    dims = [size if isinstance(size, int) else 1 for size in tensor.dims]
    for place, size in enumerate(tensor.dims):
        if not isinstance(size, int):
            is_whole = edges[place] in (["0", str(size)], ["0", str(size), "1"])
            edges[place] = ["0", "1"] if is_whole else [""]
    if not all(len(edge) in (2, 3) and all(word.isdigit() for word in edge) for edge in edges):
        return None
    start, steps = 0, []
    for place, edge in enumerate(edges):
        first, last, step = *map(int, edge[:2]), int(edge[2]) if len(edge) == 3 else 1
        stride = int(product(dims[place + 1 :]))
        start += first * stride
        steps.append((-(-(last - first) // step), step * stride))
    kept = [(n, stride) for n, stride in steps if n > 1]
    if not any(stride == 1 for _, stride in kept):
        kept.append((1, 1))
    return Stretches(start, tuple(sorted(kept, key=lambda step: -step[1])))


def as_stored(tensor: Tensor, dims: tuple[Size, ...] | None) -> Tensor:
    """A tensor with the dimensions it is stored in, however often it is repeated or however little of it is read.

    So weights and memory are counted whole where a loop reads a slice at a time.

    >>> as_stored(Tensor("w[1:]", (8, 8), "fp32"), (5, 8, 8)).touched
    64
    """
    if dims is None or product(dims) == tensor.elements:
        return tensor
    moved = tensor.traffic_elements
    return replace(tensor, dims=dims, touched=None if moved == product(dims) else moved)


def needing(op: Op, counts: Mapping[str, Size]) -> Op:
    """The operation, of whose operands no more than these numbers of elements are needed for its results."""
    return replace(op, reads=tuple(_needing(t, counts[t.ident]) if t.ident in counts else t for t in op.reads))


def with_views(op: Op, views: Iterable[tuple[Tensor | None, Any]]) -> Op:
    """The operation; it needs all of a tensor that it reads in several views, as one that adds it to its transpose.

    ``views`` are its operands, each with what tells one view of a tensor from another.

    >>> x = Tensor("x", (4, 4), "fp32")
    >>> [t.needed for t in with_views(Op("add", "elementwise", reads=(x,)), [(x, "rows"), (x, "columns")]).reads]
    [16]
    """
    found: dict[str, set[Any]] = defaultdict(set)
    for tensor, view in views if op.kind == "elementwise" else ():
        if tensor is not None:
            found[tensor.ident].add(view)
    return needing(op, {t.ident: t.traffic_elements for t in op.reads if len(found[t.ident]) > 1})


def _needing(tensor: Tensor, elements: Size) -> Tensor:
    held = [n for n in (tensor.touched, tensor.needed) if n is not None]
    return replace(tensor, needed=minimum(elements, *held) if held else elements)


def without_unused(ops: Sequence[Op], results: Set[str], stacked: bool = False) -> tuple[Op, ...]:
    """The operations; of a result that nothing uses nothing is given back, where the program has results.

    Where results are ``stacked`` of rows under names of their own, only such beside others of their operation are.

    The values of a sort of which the order alone is taken are written by its kernel, and are no part of the floor.
    Neither is a gradient that nobody asks for; a program without results has its gradients as results.

    >>> values, order = Tensor("v", (8,), "fp32"), Tensor("o", (8,), "int64")
    >>> [t.given for op in without_unused([Op("sort", "sort", writes=(values, order))], {"o"}) for t in op.writes]
    [0, None]
    """
    used = {t.ident for op in ops for t in op.reads} | results
    passing = ("activation", "gradient") if results else ("activation",)

    def written(op: Op) -> Op:
        spare = [t.ident not in used and t.role in passing and "[" not in t.ident for t in op.writes]
        if not any(spare) or (op.name.endswith("backward") and not results):
            return op
        if all(spare) and (stacked or not results or op.kind in ("collective", UNKNOWN)):
            return op
        if not all(spare) and op.kind == "copy" and len(op.reads) == 1:  # parts of one tensor, of which some are read
            parts = [t.elements for t, s in zip(op.writes, spare, strict=True) if not s]
            op = needing(op, {op.reads[0].ident: sum(parts[1:], parts[0])})
        return replace(op, writes=tuple(replace(t, given=0) if s else t for t, s in zip(op.writes, spare, strict=True)))

    return tuple(map(written, ops))


def _in_format(part: Tensor, dtype: str) -> Size:
    """Elements of a part, in another format those that take as many bytes."""
    widths = [dtypes.get(name).bits for name in (part.dtype, dtype)]
    return part.elements if widths[0] == widths[1] else ceil_div(part.elements * widths[0], widths[1])


def _in_finer_format(tensor: Tensor, dtype: str) -> Tensor:
    """A tensor as elements of a narrower format that a part shows it in, as the real parts of complex numbers."""
    ratio, rest = divmod(int(dtypes.get(tensor.dtype).bits), int(dtypes.get(dtype).bits))
    if ratio < 2 or rest:
        return tensor
    touched = None if tensor.touched is None else tensor.touched * ratio
    return replace(tensor, dims=(*tensor.dims, ratio), dtype=dtype, touched=touched)


def given_back(
    ops: Sequence[Op],
    results: Set[str],
    parts: Mapping[str, Tensor] = MappingProxyType({}),
    stacked: bool = False,
    held: Set[str] = frozenset(),
) -> tuple[Op, ...]:
    """The operations, what they give back written for good though the program reads it too.

    Of some tensors only ``parts`` are given back: as many elements as each of these holds. Gradients that are ``held``
    stay where the program does not read them.

    >>> h, y = Tensor("h", (8,), "fp32"), Tensor("y", (8,), "fp32")
    >>> ops = [Op("linear", "contraction", writes=(h,)), Op("relu", "elementwise", reads=(h,), writes=(y,))]
    >>> [t.role for op in given_back(ops, {"h", "y"}) for t in op.writes]
    ['state', 'activation']
    >>> [t.given for op in given_back(ops, {"h"}, {"y": replace(y, dims=(2,))}) for t in op.writes]
    [None, 2]
    """
    read = {t.ident for op in ops for t in op.reads} & results
    asked = read | parts.keys()
    shown = results | parts.keys()
    ops = without_unused(ops, shown | held if shown else shown, stacked)
    written = [(t, place) for place, op in enumerate(ops) for t in op.writes if t.ident in asked]
    last = {t.ident: place for t, place in written if t.ident in parts}
    last |= {t.ident: place for t, place in written if t.touched is None}

    def kept(place: int, tensor: Tensor) -> Tensor:
        part = parts.get(tensor.ident)
        if part is not None:
            if tensor.given is not None or last[tensor.ident] != place:
                return tensor
            tensor = _in_finer_format(tensor, part.dtype)
            amount = _in_format(part, tensor.dtype)
            return replace(tensor, given=amount if tensor.touched is None else minimum(amount, tensor.touched))
        stays = tensor.ident in read and last.get(tensor.ident, place) == place and tensor.given is None
        if stays and tensor.role == "gradient":
            return replace(tensor, given=tensor.traffic_elements)
        return replace(tensor, role="state") if stays and tensor.role == "activation" else tensor

    return tuple(
        replace(op, writes=tuple(kept(place, t) for t in op.writes)) if asked else op for place, op in enumerate(ops)
    )


class LoopSteps(NamedTuple):
    """Steps of a loop that are walked as one, behind ``before`` others.

    ``differ`` are tensors that differ from step to step, ``in_parts`` arrays from outside that are read part by part.
    ``again`` says that an outer loop runs through the steps more than once.
    """

    times: Size
    before: int
    differ: Any = frozenset()
    in_parts: Any = frozenset()
    again: bool = False

    def is_other(self, operands: Sequence[Tensor | None]) -> bool:
        """Whether some operand differs from step to step."""
        return any(tensor is not None and tensor.ident in self.differ for tensor in operands)

    def follow(self, name: str, operands: Sequence[Tensor | None], results: Sequence[Tensor]) -> None:
        """Note which results of an operation differ from step to step."""
        if self.is_other(operands):
            self.differ.update(differing(name, results))


#: Operations that give several whole numbers one result, in JAX and ONNX: what they say is no part of its own.
_MANY_TO_ONE = frozenset(("div", "sign", "shift_right_logical", "shift_right_arithmetic", "Div", "Sign", "BitShift"))


def differing(name: str, results: Sequence[Tensor]) -> set[str]:
    """Results of an operation whose operands differ from step to step that differ as well; ``i // 2`` may not.

    >>> half, layer = Tensor("half", (), "int32"), Tensor("layer", (4, 4), "bf16")
    >>> differing("add", [half]), differing("div", [half]), differing("div", [layer])
    ({'half'}, set(), {'layer'})
    """
    return {
        each.ident
        for each in results
        if not (each.elements == 1 and (each.dtype == "bool" or ("int" in each.dtype and name in _MANY_TO_ONE)))
    }


def part_by_part(op: Op, source: str, steps: LoopSteps, read: set[str]) -> Sequence[tuple[Op, Size]]:
    """The operation, of which each step takes another part of ``source``, and in how many of the steps it does so.

    ``read`` are the arrays of which loops have read parts. An outer loop that runs through them again reads no more.
    """
    taken = next(t for t in op.reads if t.ident == source)
    size, name = taken.touched, f"{source}[{steps.before}:]"
    if not size or not all(isinstance(n, int) for n in (size, taken.elements, *steps[:2])):
        return [(op, steps.times)]
    fresh = 0 if steps.again else min(steps.times, max(0, taken.elements // size - steps.before))
    if taken.elements // size < 2 or (steps.again and source not in read):
        return [(op, steps.times)]

    def taking(part: Tensor) -> Op:
        return replace(op, reads=tuple(part if t is taken else t for t in op.reads))

    part = replace(taken, ident=name, storage=taken.storage or source)
    read.add(source)
    shares = [(part, fresh), (replace(part, needed=0), steps.times - fresh)]
    return [(taking(each), times) for each, times in shares if times]


def shares_of_steps(
    op: Op, picked: Sequence[Tensor | None], steps: LoopSteps | None, repeat: Size, read: set[str]
) -> Sequence[tuple[Op, Size]]:
    """The operation with how often it happens; in a loop apart by the parts of an array that its steps take.

    ``picked`` are the array and its indices, where the operation picks a part of one.
    """
    if steps is None or not picked or picked[0] is None or steps.is_other(picked[:1]) or not steps.is_other(picked[1:]):
        return [(op, repeat)]
    shares = part_by_part(op, picked[0].ident, steps, read)
    if shares[0][0] is not op:
        steps.in_parts.add(picked[0].ident)
    return [(each, exact_div(repeat, steps.times) * times) for each, times in shares]


def first_part(op: Op, names: Collection[str], steps: LoopSteps) -> Op:
    """An operation of a loop's first step, its part of an array that later steps read part by part named as such."""
    if op.name not in names or not op.reads or op.reads[0].ident not in steps.in_parts:
        return op
    taken = op.reads[0]
    part = replace(taken, ident=f"{taken.ident}[0]", storage=taken.storage or taken.ident)
    return replace(op, reads=(replace(part, needed=0) if steps.again else part, *op.reads[1:]))
