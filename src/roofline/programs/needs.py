"""What an operation needs of its operands for regions of its results, whichever front end it comes from.

A rule gives the region of each operand, in order; of those that it says nothing of all is needed. A front end says
which rule an operation has, and reads its parameters.

>>> both = Asked({}, ins=[(4, 8), (2, 8)], outs=[(6, 8)], wanted=[(((3, 6, 1), (0, 8, 1)),)])
>>> needed_of_operands(lambda asked: joined(asked, 0), both)
[(((3, 4, 1), (0, 8, 1)),), (((0, 2, 1), (0, 8, 1)),)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from roofline.frozen import NamedTuple
from roofline.programs import regions
from roofline.programs.positions import EVERYWHERE, Elements, Visible, worked_out
from roofline.programs.regions import NOTHING, WHOLE, Box, Region
from roofline.programs.tensor_parts import Edges
from roofline.sizes import Size, is_one, is_symbol, minimum, product

#: A triangle has so many stairs.
_STAIRS = 32


class Asked(NamedTuple):
    """An operation with what is needed of its results.

    ``facts`` are its parameters as the front end has them, ``ins`` and ``outs`` shapes of operands and results,
    ``wanted`` regions of the results, ``numbers`` the whole numbers that operands are known to hold, ``name`` its own.
    """

    facts: Any
    ins: Sequence[Any]
    outs: Sequence[Any]
    wanted: Sequence[Region]
    numbers: Sequence[Any] = ()
    name: str = ""

    @property
    def region(self) -> Region:
        """What is needed of the first result."""
        return regions.box_in(self.wanted[0], self.outs[0])


Rule: TypeAlias = Callable[[Asked], Iterable[Region]]


def needed_of_operands(rule: Rule, asked: Asked) -> list[Region]:
    """What an operation needs of each operand; of all that a rule cannot say with open sizes everything."""
    try:
        found = list(rule(asked))
    except TypeError:  # a comparison that depends on an open size
        if not any(is_symbol(size) for shape in (*asked.ins, *asked.outs) for size in shape or ()):
            raise
        found = []
    return [*found, *[WHOLE] * (len(asked.ins) - len(found))]


def alike(asked: Asked) -> Iterator[Region]:
    """Element by element, of what is repeated along a dimension too."""
    for shape in asked.ins:
        yield WHOLE if shape is None else regions.aligned(asked.region, shape, asked.outs[0])


def reshaped(asked: Asked) -> Iterator[Region]:
    """In another shape."""
    yield regions.reshaped(asked.region, asked.outs[0], asked.ins[0])


def repeated(asked: Asked) -> Iterator[Region]:
    """Several times along each dimension, of which the result may have more."""
    x, out = asked.ins[0], asked.outs[0]
    shape = (1,) * (len(out) - len(x)) + tuple(x)
    yield regions.reshaped(regions.repeated(asked.region, shape), shape, x)


def joined(asked: Asked, axis: int) -> Iterator[Region]:
    """One behind the other along an axis; what has not this many dimensions is empty."""
    start = 0
    for shape in asked.ins:
        if len(shape) != len(asked.outs[0]):
            yield NOTHING
            continue
        yield regions.joined(asked.region, axis, start, shape[axis])
        start += shape[axis]


def stacked(asked: Asked, axis: int) -> Iterator[Region]:
    """One behind the other along an axis of its own."""
    shape = list(asked.outs[0])
    shape[axis] = 1
    for place, own in enumerate(asked.ins):
        yield regions.reshaped(regions.joined(asked.region, axis, place, 1), shape, own)


def split(asked: Asked, axis: int) -> Iterator[Region]:
    """The parts that the results are along an axis."""
    start, parts = 0, []
    for region, shape in zip(asked.wanted, asked.outs, strict=True):
        starts = [start if place == axis else 0 for place in range(len(shape))]
        parts.append(regions.sliced(region, shape, starts, (1,) * len(shape)))
        start += shape[axis]
    yield regions.union(*parts)


def padded(asked: Asked, before: Sequence[Any], gaps: Sequence[int] = ()) -> Iterator[Region]:
    """Behind so many places along each dimension, its elements so far apart."""
    found = asked.region
    for axis, (size, low) in enumerate(zip(asked.ins[0], before, strict=True)):
        found = regions.joined(found, axis, low, size, gaps[axis] if gaps else 1)
    yield found


def along(asked: Asked, axes: Sequence[int], kept: bool = True, many: int | None = 1) -> Iterator[Region]:
    """The first so ``many`` operands, worked on along axes that the results have too if they are ``kept``."""
    wanted = regions.union(*map(regions.box_in, asked.wanted, asked.outs))
    for shape in asked.ins[:many]:
        yield regions.along(wanted, shape, axes, kept)


def normed(asked: Asked, axes: Sequence[int]) -> Iterator[Region]:
    """Along axes; scale and shift, whose dimensions are the last of the result's, as far as the result has them."""
    yield from along(asked, axes)
    for shape in asked.ins[1:]:
        yield WHOLE if shape is None else regions.aligned(asked.region, shape, asked.outs[0])


def normed_by_channel(asked: Asked, axes: Sequence[int] = (), group: int = 1) -> Iterator[Region]:
    """Of [batch, channels, …] along axes, the channels of a group together; of vectors the channels of the result."""

    def with_group(box: Any) -> list[Any]:
        first, last, step = box[1]
        together = (first // group * group, -(-last // group) * group, 1)
        return [(box[0], (first, last, step) if group == 1 else together, *box[2:])]

    yield regions.along(regions.each(asked.region, with_group), asked.ins[0], axes)
    yield from (regions.each(asked.region, lambda box: [(box[1],)]) for _ in asked.ins[1:])


def by_rows(asked: Asked, rows: Sequence[Callable[[Any], Any] | None]) -> Iterator[Region]:
    """Of the last dimensions of an image the rows that each of these says for places of the result; None: the same."""

    def back(box: Box, axis: int, of: Callable[[Any], Any]) -> list[Box] | None:
        many = max(len(range(*box[axis])), asked.ins[0][axis])
        return regions.with_rows(box, axis, of(np.arange(*box[axis]))) if many <= _MOST_ROWS else None

    found = asked.region
    for axis, of in enumerate(rows, len(asked.ins[0]) - len(rows)):
        if of is not None:
            found = regions.each(found, lambda box, axis=axis, of=of: back(box, axis, of))
    yield found


#: More rows are not worked out one by one.
_MOST_ROWS = 2**20


#: Which of ``size`` elements stands at a place counted from the first, where they are padded with themselves.
_OWN_PADDING: Mapping[str, Callable[[Any, int], Any]] = {
    "reflect": lambda at, size: size - 1 - abs(size - 1 - abs(at)),
    "edge": lambda at, size: np.clip(at, 0, size - 1),
    "wrap": lambda at, size: at % size,
}


def padded_by_own(asked: Asked, before: Sequence[int], mode: str) -> Iterator[Region]:
    """Of an image that is padded with its own elements those that stand for the padding too.

    >>> asked = Asked({}, ins=[(2, 5)], outs=[(2, 8)], wanted=[(((0, 2, 1), (0, 2, 1)),)])
    >>> [*padded_by_own(asked, (0, 2), "edge")]
    [(((0, 2, 1), (0, 1, 1)),)]
    """
    own, out = (shape[len(shape) - len(before) :] for shape in (asked.ins[0], asked.outs[0]))

    def rows(size: int, many: int, low: int) -> Callable[[Any], Any] | None:
        return None if size == many and not low else lambda at: _OWN_PADDING[mode](at - low, size)

    return by_rows(asked, [rows(*axis) for axis in zip(own, out, before, strict=True)])


def adapted(asked: Asked, spatial: int) -> Iterator[Region]:
    """Windows that cover an image: the i-th of r over n elements from ⌊i·n/r⌋ to ⌈(i + 1)·n/r⌉."""
    pairs = zip(asked.ins[0][-spatial:], asked.outs[0][-spatial:], strict=True)

    def reached(size: int, many: int) -> Callable[[Any], Any]:
        return lambda at: [row for i in at.tolist() for row in range(i * size // many, -(-(i + 1) * size // many))]

    return by_rows(asked, [reached(*pair) for pair in pairs])


#: Elements that are mixed beside the one before a place, by the kind of a resampling.
_BESIDE = {"linear": (0, 1), "cubic": (-1, 2)}


def mixed(size: int, ratio: float, middle: float, kind: str) -> Callable[[Any], Any]:
    """Elements of ``size`` that places of a resampled image are mixed of, place i at (i + middle)·ratio − middle.

    A place that meets an element takes it alone. Source: PyTorch, ``aten/src/ATen/native/UpSample.h``; ONNX, Resize.

    >>> mixed(4, 0.5, 0.5, "linear")(np.arange(0, 3)), mixed(7, 3.0, 0.0, "cubic")(np.arange(1, 2))
    ([0, 1], [3])
    """

    def rows(at: Any) -> list[int]:
        exact = np.round((at + middle) * ratio - middle, 9)
        low = np.floor(exact).astype(int)
        first, last = _BESIDE[kind]
        taken = [np.where(low == exact, low, low + beside) for beside in range(first, last + 1)]
        return sorted({*np.clip(taken, 0, size - 1).ravel().tolist()})

    return rows


def corners(size: int, many: int) -> float:
    """The ratio of a resampling whose first and last places meet the first and last elements."""
    return (size - 1) / max(1, many - 1)


def picked(asked: Asked, axis: int, rows: Sequence[int] | Elements | None) -> Iterator[Region]:
    """Rows of a table that known indices name, of unknown ones all, as much of each as the result has; and indices."""
    table, index = asked.ins[:2]
    count = product(index)
    flat = regions.reshaped(asked.region, asked.outs[0], (*table[:axis], count, *table[axis + 1 :]))
    line = rows.line() if isinstance(rows, Elements) and len(index) == 1 else None
    if line is not None:
        yield regions.picked_evenly(flat, [*table[:axis], count, *table[axis + 1 :]], axis, table[axis], *line[:2])
    elif rows is None or isinstance(rows, Elements):
        yield regions.along(flat, table, (axis,))
    else:
        yield regions.picked(flat, axis, [row % table[axis] for row in rows])
    yield regions.reshaped(regions.each(flat, lambda box: [(box[axis],)]), (count,), index)


def beside_some(asked: Asked, sizes: Sequence[Size]) -> Region:
    """Of a tensor a part of which is replaced, so large, nobody knows where: what lies beside it at least."""
    region = asked.region
    return regions.outside(region, regions.somewhere(region, asked.ins[0], sizes)) if region else region


def at_places(region: Region, axis: int, shape: Sequence[Any], places: Any = None, size: Any = None) -> Region:
    """Of values that stand in a result at places along an axis, which spread over them where known, of ``size``.

    >>> at_places((((0, 2, 1), (1, 3, 1)),), 0, (3, 4), np.array([[5], [0], [0]]), 6)
    (((1, 3, 1), (1, 3, 1)),)
    """

    def held(box: Box) -> Sequence[Box]:
        part = box
        for d, n in enumerate(shape):
            found = (box,) if d == axis else regions.joined((part,), d, 0, n)
            if found == NOTHING:
                return []
            edges = (0, n, 1) if d == axis else found[0][d]  # type: ignore[index]
            part = (*part[:d], edges, *part[d + 1 :])
        if places is None or (is_symbol(size) and (places < 0).any()):
            return [part]
        own = places if is_symbol(size) else places % size
        return regions.let_through((part,), shape, np.isin(own, np.arange(*box[axis]))) or ()

    return regions.each(region, held)


def chosen(asked: Asked, choice: Any, cases: Sequence[int | None]) -> Iterator[Region]:
    """Of each operand the elements that a choice takes, where it is known, whose case it is; None is no case."""
    for shape, case in zip(asked.ins, cases, strict=False):
        region = asked.region
        taken = worked_out("equal", choice, case) if isinstance(choice, Elements) and case is not None else choice
        if taken is not None and case is not None:
            mask = taken.shown(1) if isinstance(taken, Elements) else np.asarray(taken == case)
            region = regions.let_through(region, asked.outs[0], mask)
        yield regions.aligned(region, shape, asked.outs[0])


def scaled(asked: Asked, known: Sequence[Any]) -> Iterator[Region]:
    """A product element by element: of each factor what the other, where that is known, does not make zero.

    >>> product = Asked({}, ins=[(2, 4), (2, 4)], outs=[(2, 4)], wanted=[WHOLE])
    >>> next(scaled(product, [None, np.broadcast_to([0, 1, 1, 0], (2, 4))]))
    (((0, 2, 1), (1, 3, 1)),)
    """
    out = asked.outs[0]
    for shape, other in zip(asked.ins, reversed(known), strict=True):
        region = asked.region
        if isinstance(other, Elements):
            shown = worked_out("not_equal", other, 0)
            region = region if shown is None else regions.let_through(region, out, shown.shown(1))
            other = None
        nonzero = True if other is None else regions.once(other) != 0
        if len(known) == 2 and not np.all(nonzero):
            region = regions.let_through(region, out, np.broadcast_to(nonzero, other.shape))
        yield WHOLE if shape is None else regions.aligned(region, shape, out)


def of_scores(asked: Asked, shown: Elements | None) -> Iterator[Region]:
    """A softmax of scores of which some are ``shown``: those of rows that have more than one."""
    shape = asked.ins[0]
    visible = Visible(shape, EVERYWHERE) if shown is None else shown.shown(1)
    of_several = visible.rows_of_several()

    def several(box: Box) -> list[Box]:
        edges = [regions.between(box[-2], low, high) if step == 1 else box[-2] for low, high, step in of_several]
        return [(*box[:-2], each, box[-1]) for each in edges]

    rows = regions.each(regions.box_in(asked.region, shape), several)
    yield regions.let_through(regions.along(rows, shape, (len(shape) - 1,)), shape, visible)


def multiplied(asked: Asked, known: Sequence[Any] = (None, None)) -> Iterator[Region]:
    """Matrices, vectors, or batches of matrices: the rows of the first that the result has, columns of the second."""
    first, second = (len(shape) for shape in asked.ins[:2])
    batch = range(max(first, second) - 2)
    rows, columns = ["row"] * (first > 1), ["column"] * (second > 1)
    words = [[*batch[len(batch) + 2 - first :], *rows, "sum"], [*batch[len(batch) + 2 - second :], "sum", *columns]]
    return lettered(asked._replace(ins=asked.ins[:2]), words, [*batch, *rows, *columns], known)


def batched(asked: Asked, half: str = "") -> Iterator[Region]:
    """Worked on matrix by matrix: whole ones of the batch that any of the results is of.

    Of the first operand's matrices the ``lower`` or ``upper`` triangle, where one is named.
    """
    before = max(map(len, asked.ins)) - 2
    out, boxes = asked.outs[0][:before], map(regions.box_in, asked.wanted, asked.outs)
    wanted = regions.union(*(regions.each(region, lambda box: [box[:before]]) for region in boxes))
    for place, shape in enumerate(asked.ins):
        many = max(0, len(shape) - 2)
        given = regions.aligned(wanted, shape[:many], out)
        if half and not place:
            facts = shape[:many], shape[-1], half == "upper"
            yield regions.each(given, lambda box, facts=facts: triangle(box, *facts))
            continue
        last = regions.box_of(shape[many:])
        yield regions.each(given, lambda box, last=last: [(*box, *last)])


def triangle(
    batch: Box, many: Sequence[int], n: int, upper: bool, diagonal: bool = True, rows: Edges | None = None
) -> list[Box] | None:
    """The triangle of n·n matrices, ``batch`` of so ``many``, or of ``rows`` that depend on each other alone.

    Of more rows than stairs the largest staircase inside it, which has 1/32 less; None for all triangles, which the
    operation counts itself.

    >>> triangle((), (), 9, upper=False, rows=(0, 3, 1))
    [((0, 1, 1), (0, 1, 1)), ((1, 2, 1), (0, 2, 1)), ((2, 3, 1), (0, 3, 1))]
    """
    first, last, _ = rows or (0, n, 1)
    if (*batch, (first, last, 1)) == regions.box_of((*many, n)):
        return None
    if is_symbol(first) or is_symbol(last):
        return [(*batch, (0, n, 1), (0, n, 1))]
    ends, own = np.unique(np.linspace(first, last, _STAIRS + 1).astype(int)).tolist(), int(diagonal)
    return [(*batch, (a, b, 1), (b - own, last, 1) if upper else (first, a + own, 1)) for a, b in pairwise(ends)]


def solved(
    region: Region, matrix: Any, known: Any, out: Any, left: bool, upper: bool, diagonal: bool, turned: bool = False
) -> tuple[Region, Region]:
    """Of a triangular matrix A, ``turned`` if it is given as Aᵀ, and of B: what a part of X depends on, A·X or X·A = B.

    Rows of X follow each other: what comes before is needed for what comes later, or the other way round.
    """
    axis, n, is_upper = len(out) - (2 if left else 1), matrix[-1], upper is not turned
    asked = regions.up_to(region, out, axis, is_upper is left)
    square = regions.each(asked, lambda box: triangle(box[:-2], out[:-2], n, is_upper, diagonal, box[axis]))
    if turned:
        square = regions.each(square, lambda box: [(*box[:-2], box[-1], box[-2])])
    return regions.aligned(square, matrix, (*out[:-2], n, n)), regions.aligned(asked, known, out)


def lettered(
    asked: Asked, words: Sequence[Sequence[Any]], result: Sequence[Any], known: Sequence[Any] = (None, None)
) -> Iterator[Region]:
    """A sum over products whose dimensions have letters: all of what is summed, else what the result has.

    Of two factors one may be ``known``: of the other what meets none but zeros along the only sum is not needed.

    >>> product = Asked({}, ins=[(3, 3), (3, 4)], outs=[(3, 4)], wanted=[(((0, 2, 1), (0, 4, 1)),)])
    >>> [*lettered(product, ["ij", "jk"], "ik", [np.tril(np.ones((3, 3))), None])][1]
    (((0, 2, 1), (0, 4, 1)),)
    """

    def part(box: Box, word: Sequence[Any], shape: Sequence[Any]) -> Box:
        given = dict(zip(result, box, strict=True))
        letters = zip(word, shape, strict=True)
        return tuple((0, n, 1) if n == 1 else given.get(letter, (0, n, 1)) for letter, n in letters)

    for place, word in enumerate(words):
        other = known[1 - place] if len(words) == 2 else None
        summed = [] if other is None else [each for each in word if each in words[1 - place] and each not in result]

        def back(box: Box, other: Any = other, place: int = place, summed: Any = summed) -> Sequence[Box]:
            own = part(box, words[place], asked.ins[place])
            if len(summed) != 1:
                return [own]
            if isinstance(other, Elements):
                met, at = part(box, words[1 - place], other.shape), words[place].index(summed[0])
                row, column = (-2, -1) if words[1 - place][-1] == summed[0] else (-1, -2)
                seen = other.shown(1).columns(met[row], own[at][1], row, column)
                return [(*own[:at], each, *own[at + 1 :]) for each in seen]
            axis, shown = words[1 - place].index(summed[0]), part(box, words[1 - place], other.shape)
            nonzero = regions.once(other[tuple(slice(*edges) for edges in shown)]) != 0
            rows = np.flatnonzero(nonzero.any(tuple(d for d in range(nonzero.ndim) if d != axis)))
            if len(rows) == nonzero.shape[axis]:
                return [own]
            return regions.with_rows(own, words[place].index(summed[0]), rows) or ([own] if len(rows) else [])

        yield WHOLE if len({*word}) < len(word) else regions.each(asked.region, back)  # twice: a diagonal


def added_to(
    asked: Asked, words: Sequence[Sequence[Any]], result: Sequence[Any], factors: slice = slice(-2, None)
) -> list[Region]:
    """A sum over products of some operands, the last two or others, to which the other operands are added."""
    found = [*alike(asked)]
    found[factors] = lettered(asked._replace(ins=asked.ins[factors]), words, result)
    return found


def attended(asked: Asked, causal: bool = False, shown: Any = None) -> Iterator[Region]:
    """Attention: rows of the queries, all keys or those that these rows see, columns of the values.

    They see those up to their own number if it is ``causal``, and those that are ``shown`` by a mask that is known. Of
    rows that see at most one key of several its values are the result, whatever the scores are.
    """
    (queries, keys, values, *masks), out = asked.ins, asked.outs[0]
    seen: Callable[[Edges], Any] | None = None
    is_open = causal and is_symbol(queries[-2])
    if isinstance(shown, Visible):

        def seen(rows: Edges) -> Any:
            return shown.columns(rows, keys[-2])

    elif shown is not None and shown.ndim > 1 and shown.shape[-1] == keys[-2] and not is_open:
        chosen = shown.reshape(-1, *shown.shape[-2:]).any(0)
        if causal:
            chosen = np.tril(np.broadcast_to(chosen, (queries[-2], keys[-2])))

        def seen(rows: Edges) -> Any:
            return np.flatnonzero((chosen if len(chosen) == 1 else chosen[slice(*rows)]).any(0))

    elif causal:

        def seen(rows: Edges) -> Any:
            return [(0, minimum(rows[1], keys[-2]), 1)]

    def is_copy(box: Any) -> bool:
        found = [(0, keys[-2], 1)] if seen is None else seen(box[-2])
        is_edges = isinstance(found, list) and len(found) == 1
        many = found[0][1] - found[0][0] if is_edges else len(found)
        return not is_one(keys[-2]) and regions.is_less(many, 2)

    scored = regions.each(asked.region, lambda box: [] if is_copy(box) else [box])

    def shared(box: Any, shape: Any, last: Any) -> list[Any]:
        first, end, step = box[-3] if len(box) > 2 else (0, 1, 1)
        found = [(*box[:-2], (0, shape[-2], 1), last)]
        if seen is not None:
            found = rows_of(found[0], seen(box[-2]), len(box) - 2)
        if len(box) < 3 or shape[-3] in (1, out[-3]):
            return found
        group = out[-3] // shape[-3]
        heads = np.arange(first, end, step) // group
        return [each for one in found for each in rows_of(one, heads, len(box) - 3)]

    def rows_of(box: Any, rows: Any, axis: int) -> list[Any]:
        if isinstance(rows, list):
            return [(*box[:axis], each, *box[axis + 1 :]) for each in rows]
        return (regions.with_rows(box, axis, rows) or [box]) if len(rows) else []

    yield regions.aligned(regions.along(scored, (*out[:-1], queries[-1]), (len(out) - 1,)), queries, out)
    for region, shape, last in ((scored, keys, (0, keys[-1], 1)), (asked.region, values, None)):
        part = regions.each(region, lambda box, s=shape, e=last: shared(box, s, e or box[-1]))
        yield regions.aligned(part, shape, out)
    for shape in masks:
        scores = (*out[:-1], keys[-2])
        yield regions.aligned(regions.along(scored, scores, (len(out) - 1,)), shape, scores)


#: What a loop's steps hand on is followed so many times; then all of it is needed.
_MOST_ROUNDS = 8

Regions: TypeAlias = Sequence[Region]

#: What a step of a loop needs of what is the same in each, of what it is handed on and of the rest, for its results.
Step: TypeAlias = Callable[[Regions], Regions]


def steady(step: Step, shared: int, carried: Regions, others: Regions) -> tuple[Regions, list[Region], Regions, bool]:
    """What any step of a loop needs of ``shared`` that are the same in each, of what is handed on, and of the rest.

    The last says whether a step needs anything of the one before.
    """
    held = list(carried)
    for _ in range(_MOST_ROUNDS):
        asked = step([*held, *others])
        own = asked[shared : shared + len(held)]
        more = [regions.union(before, now) for before, now in zip(held, own, strict=True)]
        if more == held:
            break
        held = more
    else:
        held = [region if region == NOTHING else WHOLE for region in held]
        asked = step([*held, *others])
    return asked[:shared], held, asked[shared + len(held) :], any(region != NOTHING for region in own)


def of_scan(
    step: Step, shared: int, results: Regions, stacks: Regions, ins: Sequence[Any], length: Any, backwards: bool = False
) -> list[Region]:
    """What a loop needs of its operands, for what it hands on at last and what its steps' results are stacked to.

    Of what it runs through it needs the rows that count, and of those before the last of them what is handed on.
    """
    inside = [regions.each(region, lambda box: [box[1:]]) for region in stacks]
    consts, carried, moved, is_carried = steady(step, shared, results, inside)
    steps = regions.union(*(regions.each(region, lambda box: [box[:1]]) for region in stacks))
    parts, first, is_asked = [(steps, moved)], shared + len(results), any(region != NOTHING for region in results)
    if is_carried or is_asked:

        def before(box: Box) -> list[Box]:
            return [((box[0][0] + 1, length, 1) if backwards else (0, box[0][1] - 1, 1),)]

        last = (((0, 1, 1) if backwards else (length - 1, length, 1),),)
        earlier = regions.each(regions.box_in(steps, (length,)), before)
        earlier = (WHOLE if is_carried else last) if is_asked else earlier
        own, handed = [*[NOTHING] * len(results), *inside], [*carried, *[NOTHING] * len(inside)]
        parts = [(steps, step(own)[first:]), (earlier, step(handed)[first:])]
    found = [*consts, *carried]
    for place, shape in enumerate(ins[first:]):
        rows = [
            row + box
            for many, needed in parts
            for row in regions.box_in(many, (length,)) or ()
            for box in regions.box_in(needed[place], shape[1:]) or ()
        ]
        found.append(WHOLE if any(many is needed[place] is WHOLE for many, needed in parts) else regions.union(rows))
    return found
