"""Which elements of a tensor the results of a program need: a union of boxes, followed back through what moves them.

A box is a first place, the place behind the last and a step for each dimension. Each function gives the region of an
operand from the region of a result:

>>> picked = (((0, 10, 1),),)                                          # the first ten of jnp.repeat(x, 2)
>>> picked = reshaped(picked, (16,), (8, 2))
>>> picked, elements_of(broadcast(picked, (8,), (0,)), (8,))
((((0, 5, 1), (0, 2, 1)),), 5)
>>> elements_of(union([((0, 10, 1),)], [((5, 15, 1),)]), (100,))               # two that overlap
15
>>> joined([((6, 10, 1),)], 0, 8, 8)                                   # of the second half of a concatenation
(((0, 2, 1),),)

Open sizes go through as symbols that count what a size has beyond its least (:func:`counted_from`), which decides most
comparisons; where it does not, all is needed.

>>> from roofline.sizes import symbol
>>> (rows,) = counted_from(1, [symbol("B")])
>>> first = sliced(WHOLE, (rows, 4), (0, 2), (1, 1))                  # x[:, 2:6] of x[B, 8]
>>> as_named(elements_of(first, (rows, 8)))
4*B

``WHOLE`` stands for all of a tensor: of what is not followed, of too many boxes, of sizes that cannot be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import combinations, pairwise
from itertools import product as every_pair
from math import gcd, prod
from operator import gt, le, lt
from typing import Any, TypeAlias

from roofline import sizes
from roofline.frozen import replace
from roofline.lazy import np, sympy
from roofline.ops.pricing import Reach
from roofline.programs.tensor_parts import Edges, Stretches, places_together
from roofline.sizes import (
    SHORT,
    Size,
    at_typical_size,
    has_more_operations,
    is_one,
    is_surely,
    is_symbol,
    is_zero,
    product,
    symbol,
    undominated,
)
from roofline.work import Op, Tensor

Box: TypeAlias = tuple[Edges, ...]
#: None for all of a tensor.
Region: TypeAlias = "tuple[Box, ...] | None"
WHOLE: Region = None
NOTHING: Region = ()
#: More boxes than these are not told apart.
MOST_BOXES = 64
#: A score is hidden from here down, by a mask that is added: its exponential is zero.
HIDDEN = -1e4
#: A size that is the sum of more products is not written out, and places of such sizes are not told.
_MOST_PRODUCTS = 1_000
#: Windows of more taps are not taken apart.
_MOST_TAPS = 8
#: Of more places of taps all taps are taken to meet an element.
_MOST_PLACED_TAPS = 2**20
#: Of more boxes of open sizes what they share is not worked out.
_MOST_OPEN_BOXES = 3


#: A largest of smallest sums of more sums is left as it is.
_MOST_SUMS = 24


def maximum(*values: Size) -> Size:
    """The largest place, of those that hold others inside as one largest of smallest sums.

    >>> S = sympy.Symbol("S", integer=True, nonnegative=True)
    >>> maximum(1, S + maximum(0, 1 - S)), minimum(S + 5, 2 * S + maximum(0, 1 - S) + 4)
    (Max(1, S), S + 5)
    """
    return _plainer(sizes.maximum(*values))


def minimum(*values: Size) -> Size:
    """The smallest place, as :func:`maximum` gives the largest."""
    return _plainer(sizes.minimum(*values))


@lru_cache(4096, typed=True)
def _plainer(size: Size) -> Size:
    """A size that holds a ``Max`` or ``Min`` inside another as the largest of smallest sums, where these are few."""
    if not is_symbol(size) or not any(each.has(sympy.Max, sympy.Min) for each in size.args):
        return size
    groups = _smallest_sums(size)
    return size if groups is None else sizes.maximum(*(sizes.minimum(*each) for each in groups))


@lru_cache(4096, typed=True)
def _smallest_sums(size: Any) -> tuple[tuple[Any, ...], ...] | None:
    """The groups of sums of whose smallest ones a size is the largest; None for too many, or products of such."""
    factor, rest = size.as_coeff_Mul()
    inner = size.args if isinstance(size, sympy.Max | sympy.Min) or size.is_Add else (rest,)
    if inner == (size,) or not size.has(sympy.Max, sympy.Min):
        return None if size.has(sympy.Max, sympy.Min) else ((size,),)
    parts = [_smallest_sums(each) for each in inner]
    known = [each for each in parts if each is not None]
    if len(known) < len(parts) or prod(map(len, known)) > _MOST_SUMS:
        return None
    if isinstance(size, sympy.Max):
        found = [group for each in known for group in each]
    elif isinstance(size, sympy.Min):
        found = [tuple(form for group in chosen for form in group) for chosen in every_pair(*known)]
    elif size.is_Add:
        found = [tuple(expanded(sympy.Add(*each)) for each in every_pair(*chosen)) for chosen in every_pair(*known)]
    elif factor > 0:
        found = [tuple(expanded(factor * form) for form in group) for group in known[0]]
    elif prod(map(len, known[0])) > _MOST_SUMS:
        return None
    else:
        found = [tuple(expanded(factor * form) for form in chosen) for chosen in every_pair(*known[0])]
    kept = list(dict.fromkeys(tuple(undominated([*map(sympy.sympify, group)], largest=False)) for group in found))
    for group in [*kept]:  # below another one throughout
        if any(other != group and all(any(is_surely(le, x, y) for x in group) for y in other) for other in kept):
            kept.remove(group)
    return tuple(kept) if sum(map(len, kept)) <= _MOST_SUMS else None


def whole_quotient_of(amount: Size, by: int) -> Size:
    """How often a number goes into an amount, of what is whole in it without a floor, of the largest of several each.

    >>> S = symbol("S")
    >>> whole_quotient_of(32 * S + 31, 32), whole_quotient_of(sizes.maximum(8 * S - 1, 40), 8)
    (S, Max(5, S - 1))
    """
    if not is_symbol(amount) or is_symbol(by):
        return amount // by
    for kind, join in ((sympy.Max, maximum), (sympy.Min, minimum)):
        if isinstance(amount, kind):
            return join(*(whole_quotient_of(each, by) for each in amount.args))
    terms = [(each, each / by) for each in sympy.Add.make_args(expanded(amount))]
    whole = sum(part for _, part in terms if part.as_coeff_Mul()[0].is_integer and part.is_integer)
    left = sum(each for each, part in terms if not (part.as_coeff_Mul()[0].is_integer and part.is_integer))
    return whole + (left // by if is_symbol(left) else int(left) // by)


def counted_from(least: int | Mapping[str, int], sizes: Sequence[Size]) -> tuple[Size, ...]:
    """Sizes, each open one as its least and a symbol for what it has beyond, so that comparisons are decided.

    What is counted from a least before is counted from a higher one where ``least`` says it by name:

    >>> counted_from({"B": 5}, counted_from(2, [symbol("B") - 1]))
    (B beyond 5 + 4,)
    """

    def beyond(word: str) -> Any:
        name, _, before = word.partition(_BEYOND)
        start = int(before or least) if isinstance(least, int) else least.get(name, int(before or 1))
        return sympy.Symbol(f"{name}{_BEYOND}{start}", integer=True, nonnegative=True) + start - int(before or 0)

    return tuple(_renamed(size, beyond) for size in sizes)


def as_named(amount: Size) -> Size:
    """An amount in the open sizes themselves again."""

    def named(word: str) -> Any:
        name, _, least = word.partition(_BEYOND)
        return symbol(name) - int(least or 0)

    return _renamed(amount, named)


_BEYOND = " beyond "


def _renamed(size: Size, other: Callable[[str], Any]) -> Size:
    if not is_symbol(size):
        return size
    return expanded(size.xreplace({name: other(name.name) for name in size.free_symbols}))


def box_of(shape: Sequence[int]) -> Box:
    """All places of a shape."""
    return tuple((0, size, 1) for size in shape)


def edge(first: int, count: int, step: int = 1) -> Edges:
    """So many places, evenly apart."""
    return (first, first + (count - 1) * step + 1, step if step == 1 or _several(count) else 1)


def between(edges: Edges, low: Size, high: Size) -> Edges:
    """Of places those from one to another; none where the other lies before it."""
    first, last, step = edges
    if is_at_most(low, first) and is_at_most(last, high):
        return edges
    start = maximum(first, low) if step == 1 else first + maximum(0, -(-(low - first) // step)) * step
    ends = [(a, b) for a in (first, low) for b in (last, high)]
    if any(is_at_most(b, a) for a, b in ends):
        return (start, start, 1)
    if step == 1 and all(is_at_most(*pair) for pair in ends):
        return (start, minimum(last, high), 1)
    if step == 1 and has_more_operations([size for pair in ends for size in pair if is_symbol(size)], 4 * SHORT):
        return (start, minimum(last, high), 1)
    return edge(start, maximum(0, minimum(*(_places((start, end, step)) for end in (last, high)))), step)


def _places(edges: Edges) -> Any:
    return -(-(edges[1] - edges[0]) // edges[2])


def _several(places: Size) -> bool:
    return not is_at_most(places, 1)


class MaskedBox(tuple[Edges, ...]):
    """A box of open sizes of which a mask of positions (``programs.positions``) lets some elements through.

    The mask is of the places of the tensor. What moves a tensor gives plain boxes, in which all counts.
    """

    mask: Any

    def __new__(cls, box: Box, mask: Any) -> MaskedBox:
        """The box under one more mask, without columns before and behind that no row sees."""
        made = super().__new__(cls, mask.seen_of(box))
        made.mask = box.mask.both(mask) or box.mask if isinstance(box, MaskedBox) else mask
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MaskedBox) and tuple(self) == tuple(other) and self.mask == other.mask

    def __hash__(self) -> int:
        return hash((*self, self.mask))

    @property
    def elements(self) -> Size:
        """How many elements it surely has."""
        found: Size = self.mask.elements_in(self)
        return found


def under(box: Box, found: Box, told: Sequence[tuple[int, Any, Size] | None]) -> Box:
    """Where a box comes from, under its mask if each of its axes is told by one there (``Visible.moved``)."""
    mask = box.mask.moved([last for _, last, _ in found], told) if isinstance(box, MaskedBox) else None
    return found if mask is None else MaskedBox(found, mask)


def union(*regions: Region | Sequence[Box]) -> Region:
    """What several regions have together."""
    if any(region is None for region in regions):
        return WHOLE
    found = dict.fromkeys(box for region in regions for box in region or () if not any(map(_is_empty, box)))
    masked = [box for box in found if isinstance(box, MaskedBox)]
    for one, other in combinations(masked, 2):  # of one box what several masks let see together
        both = one.mask.either(other.mask) if tuple(one) == tuple(other) and {one, other} <= found.keys() else None
        if both is not None:
            del found[one], found[other]
            found[MaskedBox(tuple(one), both)] = None
    boxes: list[Box] = []
    for box in found:
        if not any(_holds(other, box) for other in boxes):
            boxes = [*(other for other in boxes if not _holds(box, other)), box]
    return tuple(boxes) if len(boxes) <= MOST_BOXES else WHOLE


def _is_empty(edges: Edges) -> bool:
    return is_at_most(edges[1], edges[0])


def _holds(outer: Box, inner: Box) -> bool:
    return (
        outer != inner
        and not isinstance(outer, MaskedBox)
        and all(
            (a == b or (is_at_most(a[0], b[0]) and is_at_most(b[1], a[1])))
            and (a[2] == 1 or (b[2] % a[2] == 0 and (b[0] - a[0]) % a[2] == 0))
            for a, b in zip(outer, inner, strict=True)
        )
    )


def elements_of(region: Region | Sequence[Box], shape: Sequence[Size]) -> Size:
    """Elements of a region, each once; of boxes that cannot be cut the largest alone."""
    if region is None:
        return product(shape)
    masked = [box for box in region if isinstance(box, MaskedBox)]
    if masked:
        apart = [box for at, box in enumerate(masked) if all(_are_apart(box, other) for other in region[:at])]
        plain = elements_of([box for box in region if not isinstance(box, MaskedBox)], shape)
        if len(apart) == len(region) or len(region) == 1:
            return sum((box.elements for box in apart[1:]), apart[0].elements)
        return maximum(*(box.elements for box in masked), plain)
    sizes = [product(map(_places, box)) for box in region]
    if len(sizes) < 2:
        return sum(sizes)
    if any(map(is_symbol, (*shape, *sizes))):
        alike = [axis for axis in range(len(shape)) if len({box[axis] for box in region}) == 1]
        if not alike:
            return _open_elements(region, sizes)
        rest = [axis for axis in range(len(shape)) if axis not in alike]
        parts = tuple(tuple(box[axis] for axis in rest) for box in region)
        return product(_places(region[0][axis]) for axis in alike) * elements_of(parts, [shape[axis] for axis in rest])
    strides = [prod(shape[place + 1 :]) for place in range(len(shape))]
    return places_together([stretches_of(box, strides) for box in region])


def _open_elements(region: Sequence[Box], sizes: Sequence[Size]) -> Size:
    """Elements of boxes of open sizes, less those that boxes share; of many, or with steps, those that lie apart."""
    for one, other in combinations(region, 2):
        both = _together(one, other)
        if both is not None:
            left = union([each for each in region if each not in (one, other)], [both]) or ()
            return elements_of(left, [0] * len(both))
    apart: list[int] = []
    for place, box in enumerate(region):
        apart += [place] if all(_are_apart(box, region[other]) for other in apart) else []
    stepping = any(edges[2] != 1 for box in region for edges in box)
    if len(apart) == len(region) or len(region) > _MOST_OPEN_BOXES or stepping:
        return sum((sizes[place] for place in apart[1:]), sizes[apart[0]])
    amount: Size = 0
    for many in range(1, len(region) + 1):
        for boxes in combinations(region, many):
            shared = [
                maximum(0, minimum(*(e[1] for e in along)) - maximum(*(e[0] for e in along)))
                for along in zip(*boxes, strict=True)
            ]
            amount = amount + (-1) ** (many + 1) * product(shared)
    return amount


def _together(one: Box, other: Box) -> Box | None:
    """Two boxes as one that meet along one axis and are alike along the others; None where that is not sure."""
    differ = [axis for axis, edges in enumerate(one) if edges != other[axis]]
    if len(differ) != 1 or one[differ[0]][2] != 1 or other[differ[0]][2] != 1:
        return None
    (a, b, _), (c, d, _) = one[differ[0]], other[differ[0]]
    if not (is_at_most(a, d) and is_at_most(c, b)):
        return None
    return (*one[: differ[0]], (minimum(a, c), maximum(b, d), 1), *one[differ[0] + 1 :])


def _are_apart(one: Box, other: Box) -> bool:
    """Whether two boxes surely share no element."""
    return any(
        is_at_most(a[1], b[0]) or is_at_most(b[1], a[0]) or _take_turns(a, b) for a, b in zip(one, other, strict=True)
    )


def _take_turns(one: Edges, other: Edges) -> bool:
    """Whether places with steps between them never meet: even and odd ones.

    >>> _take_turns((0, 8, 2), (1, 8, 2)), _take_turns((0, 8, 2), (1, 8, 3)), _take_turns((0, 8, 4), (2, 8, 2))
    (True, False, False)
    """
    *steps, apart = map(expanded, (one[2], other[2], one[0] - other[0]))
    return not any(map(is_symbol, (*steps, apart))) and apart % gcd(*steps) != 0


def _far_first(step: tuple[Size, Size]) -> float:
    return -at_typical_size(step[1])


def stretches_of(box: Box, strides: Sequence[int], start: int = 0, width: int = 1) -> Stretches:
    """The places of a box in a tensor whose dimensions lie at these distances, each element so wide."""
    along = list(zip(box, strides, strict=True))
    steps = [(_places(edges), edges[2] * stride) for edges, stride in along if stride and _several(_places(edges))]
    steps += [] if width == 1 and any(stride == 1 for _, stride in steps) else [(width, 1)]
    start += sum(edges[0] * stride for edges, stride in along)
    return Stretches(start, tuple(sorted(steps, key=_far_first)))


def each(region: Region, change: Any) -> Region:
    """The region whose boxes are changed one by one, each into several or, as None, into all of the tensor."""
    if region is None:
        return WHOLE
    found: list[Box] = []
    for box in region:
        try:
            changed = change(box)
        except TypeError:  # a comparison that depends on an open size
            if not any(is_symbol(size) for edges in box for size in edges):
                raise
            changed = None
        if changed is None:
            return WHOLE
        found += changed
    return union(found)


def looked_up(region: Region, shape: Sequence[Size], at: Mapping[int, tuple[int, Size, Size]]) -> Region:
    """Of a tensor that a result has in another order: where an axis of the result looks, along which one of the tensor.

    ``at`` gives that axis, the step from place to place, and the place of the first. Along other axes all is needed.
    A step of 0 repeats one place.

    >>> looked_up((((0, 2, 1), (1, 3, 1)),), (4, 9), {0: (1, -2, 8), 1: (0, 1, 0)})                    # x[:, ::-2].T
    (((1, 3, 1), (6, 9, 2)),)
    """
    inverse = {
        d: (axis, step, -start * step) if abs(step) == 1 else (axis, _ratio(1, step), -_ratio(start, step))
        for d, (axis, step, start) in at.items()
        if step != 0
    }

    def back(box: Box) -> list[Box]:
        found = [*box_of(shape)]
        for d, (axis, step, start) in at.items():
            first, many = box[d][0], _places(box[d]) if step != 0 else 1
            first = first if step > 0 else first + (many - 1) * box[d][2]
            found[axis] = box[d] if (step, start) == (1, 0) else edge(start + first * step, many, box[d][2] * abs(step))
        return [under(box, tuple(found), [inverse.get(d) for d in range(len(box))])]

    return each(region, back)


def sliced(region: Region, shape: Sequence[int], starts: Sequence[int], steps: Sequence[int]) -> Region:
    """Of a part that begins at ``starts``."""
    pairs = enumerate(zip(starts, steps, strict=True))
    return looked_up(box_in(region, shape), shape, {d: (d, step, start) for d, (start, step) in pairs})


def box_in(region: Region, shape: Sequence[int]) -> Region:
    """The region with the boxes written out: all of a result of this shape."""
    return (box_of(shape),) if region is None else region


def joined(region: Region, axis: int, start: int, size: int, gap: int = 1) -> Region:
    """Of a tensor that stands in the result from ``start`` on along an axis, ``size`` long, ``gap`` places apart."""

    def back(box: Box) -> list[Box]:
        found = _within(box[axis], start, size, gap)
        told = [(d, gap, start) if d == axis else (d, 1, 0) for d in range(len(box))]
        own = None if found is None else (*box[:axis], found, *box[axis + 1 :])
        return [] if own is None else [under(box, own, told)]

    return each(region, back)


def _within(edges: Edges, start: int, size: int, gap: int) -> Edges | None:
    """Which of ``size`` places from ``start`` on, so far apart, lie among others."""
    first, last, step = edges
    if gap == 1:
        first += maximum(0, -(-(start - first) // step)) * step - start
    else:
        first, step = maximum(0, -(-(first - start) // gap)), 1
    last = minimum((last - 1 - start) // gap + 1, size)
    return None if _is_empty((first, last, 1)) else edge(first, maximum(0, -(-(last - first) // step)), step)


def outside(region: Region, part: Box) -> Region:
    """Of a tensor a part of which is replaced, what lies beside the part.

    >>> outside([((0, 8, 1),)], ((2, 7, 2),))                              # x[2:8:2] = …
    (((0, 2, 1),), ((7, 8, 1),), ((3, 6, 2),))
    """

    def back(box: Box) -> list[Box]:
        if _are_apart(box, part):
            return [box]
        found, left = list[Box](), box
        for axis, ((first, last, step), (low, high, gap)) in enumerate(zip(box, part, strict=True)):

            def cut(start: Size, count: Size, step: Size = step, axis: int = axis, left: Box = left) -> Box:
                return (*left[:axis], edge(start, count, step), *left[axis + 1 :])

            many = _places((first, last, step))
            before, behind = (maximum(0, -(-(at - first) // step)) for at in (low, high))
            inside = minimum(behind, many)
            found.append(cut(first, before))
            found.append(cut(first + inside * step, many - inside))
            if is_at_most(behind, before):
                break
            first, many = first + before * step, maximum(0, inside - before)
            turn = gap // gcd(gap, step) if gap != 1 else 1  # of so many places in a row one may be replaced
            if turn > MOST_BOXES:
                return [box]
            classes = [cut(first + at * step, -(-(many - at) // turn), step * turn) for at in range(turn)]
            met = [(first + at * step - low) % gap == 0 for at in range(turn)] if gap != 1 else [True]
            found += [each for each, is_met in zip(classes, met, strict=True) if not is_met]
            if not any(met):
                break
            left = classes[met.index(True)]
        return [each for each in found if not any(map(_is_empty, each))]

    return each(region, back)


def rows_of(shape: Sequence[Size], axes: Sequence[int], many: Size) -> list[Size]:
    """Sizes of a part that so many indices along some axes name, each another row: of the first axis before the next.

    >>> rows_of((2, 8, 4), (0, 1), 6)
    [2, 3, 4]
    """
    sizes = list(shape)
    for axis in axes:
        sizes[axis] = minimum(shape[axis], many)
        many = many // maximum(1, sizes[axis])
    return sizes


def somewhere(region: Sequence[Box], shape: Sequence[Size], sizes: Sequence[Size]) -> Box:
    """A part of a tensor, so large, where it covers much of a region: nobody knows where it really lies.

    >>> somewhere([((0, 2, 1), (0, 4, 1)), ((5, 8, 1), (0, 4, 1))], (8, 4), (2, 4))
    ((5, 7, 1), (0, 4, 1))
    """
    is_open = any(is_symbol(n) for box in region for edges in box for n in edges)
    box = region[0] if is_open else max(region, key=lambda box: prod(map(_places, box)))
    return tuple(
        (0, size, 1) if size == whole else (first, first + size * step, step)
        for (first, _, step), whole, size in zip(box, shape, sizes, strict=True)
    )


def let_through(region: Region, shape: Sequence[int], mask: Any) -> Region:
    """What a mask that spreads over a tensor lets through of a part of it, or most of that (:func:`boxes_where`).

    A mask of open sizes stands beside the boxes. Of the whole tensor all of it where that is not exact: the operation
    counts itself what it lets through.

    >>> let_through([((1, 3, 1), (0, 3, 1))], (3, 3), np.tril(np.ones((3, 3), bool)))
    (((1, 2, 1), (0, 2, 1)), ((2, 3, 1), (0, 3, 1)))
    """
    asked = box_in(region, shape)
    if not isinstance(mask, np.ndarray):
        if not mask.axes():
            return asked if mask.parts else NOTHING
        boxes = [MaskedBox(box, mask) for box in asked or ()]
        return tuple(box for box in boxes if box.mask.parts)
    held = [1 if is_symbol(size) else size for size in shape]  # along an open size a mask is repeated, or not looked at
    if any(n not in (1, size) for n, size in zip(mask.shape[::-1], held[::-1], strict=False)):
        return asked
    spread = np.broadcast_to(mask, held)

    def back(box: Box) -> list[Box] | None:
        shown = spread[tuple(slice(*((0, 1) if is_symbol(n) else e)) for e, n in zip(box, shape, strict=True))]
        parts = boxes_where(shown)
        if box == box_of(shape) and sum(prod(map(_places, part)) for part in parts) != count_where(shown):
            return None
        return [
            tuple(
                o if is_symbol(n) else edge(o[0] + i[0] * o[2], _places(i), i[2] * o[2])
                for o, i, n in zip(box, part, shape, strict=True)
            )
            for part in parts
        ]

    found = each(asked, back)
    return asked if found is None else found


def boxes_where(mask: Any) -> list[Box]:
    """Where a mask holds; of one that changes too often the largest boxes in which all of it holds.

    Rows that are alike share their boxes. Of too many kinds of rows, so many that follow each other share what holds in
    all of them, which leaves 1/64 of a large triangle out, and so do all places of a third dimension.

    >>> boxes_where(np.tril(np.ones((2, 3), bool)))
    [((0, 1, 1), (0, 1, 1)), ((1, 2, 1), (0, 2, 1))]
    >>> elements_of(tuple(boxes_where(np.tril(np.ones((640, 640), bool)))), (640, 640)) / (640 * 641 // 2)
    0.985520670826833
    """
    if not mask.size:
        return []
    held, whole = once(mask), box_of(mask.shape)
    axes = [axis for axis, size in enumerate(held.shape) if size > 1 and not (held == held.take([0], axis)).all()]
    plane = held[tuple(slice(None) if axis in axes else 0 for axis in range(mask.ndim))]
    if not axes:
        return [whole] if plane else []
    row, column = axes[-2:] if len(axes) > 1 else (None, axes[0])
    plane = plane.all(tuple(range(plane.ndim - 2))) if len(axes) > 1 else plane[None]
    ends = [0, *(np.flatnonzero((plane[1:] != plane[:-1]).any(1)) + 1).tolist(), len(plane)]
    if len(ends) > MOST_BOXES + 1:
        ends = [0, *np.linspace(1, len(plane) - 1, MOST_BOXES - 1).astype(int).tolist(), len(plane)]
    found: list[Box] = []
    for first, last in pairwise(ends):
        for edges in _runs(np.flatnonzero(plane[first:last].all(0))):
            own = {column: edges} if row is None else {row: (first, last, 1), column: edges}
            found.append(tuple(own.get(axis, every) for axis, every in enumerate(whole)))
    return sorted(sorted(found, key=lambda box: -prod(map(_places, box)))[:MOST_BOXES])


def once(array: Any) -> Any:
    """An array of which nothing is repeated.

    >>> once(np.broadcast_to(np.eye(2), (4, 2, 2))).shape
    (1, 2, 2)
    """
    return array[(*(slice(None) if step else slice(0, 1) for step in array.strides), ...)]


def below_the_largest(mask: Any, subtracted: Sequence[Any]) -> Any:
    """Where scores stay low when the largest of each line is subtracted: not in a line that is hidden as a whole.

    Its scores are alike, so that softmax weighs all of its values.
    """
    lines = enumerate(subtracted, mask.ndim - len(subtracted))
    axes = tuple(axis for axis, size in lines if axis >= 0 and size == 1 < mask.shape[axis])
    held = once(mask)
    return np.broadcast_to(held & ~held.all(axes, keepdims=True), mask.shape) if axes else mask


def count_where(mask: Any) -> int:
    """Elements in which a mask holds, what is repeated counted as often."""
    held = once(mask)
    return int(np.count_nonzero(held) * (mask.size // max(1, held.size)))


def _runs(rows: Any) -> list[Edges]:
    """Places in order as stretches without a gap, or as one where they are evenly apart."""
    gaps = np.diff(rows)
    if len(rows) and (gaps == gaps[:1]).all():
        return [edge(int(rows[0]), len(rows), int(gaps[0]) if len(gaps) else 1)]
    ends = np.flatnonzero(gaps != 1)
    pairs = zip(rows[[0, *(ends + 1)]].tolist(), rows[[*ends, -1]].tolist(), strict=True) if len(rows) else ()
    return [(first, last + 1, 1) for first, last in pairs]


def moved(region: Region, order: Sequence[int]) -> Region:
    """Of a tensor whose dimensions stand in another order in the result."""
    return looked_up(region, (1,) * len(order), {d: (axis, 1, 0) for d, axis in enumerate(order)})


def broadcast(region: Region, shape: Sequence[int], places: Sequence[int]) -> Region:
    """Of a tensor whose dimensions stand at these places of the result; those of size one are repeated."""
    along = enumerate(zip(places, shape, strict=True))
    return looked_up(region, shape, {place: (axis, 1, 0) for axis, (place, n) in along if not is_one(n)})


def aligned(region: Region, shape: Sequence[int], out: Sequence[int]) -> Region:
    """Of an operand that is combined element by element, its dimensions the last of the result; all if it has more."""
    if len(shape) > len(out):
        return WHOLE
    if tuple(shape) == tuple(out):
        return box_in(region, out)
    return broadcast(box_in(region, out), shape, range(len(out) - len(shape), len(out)))


def along(region: Region, shape: Sequence[int], axes: Sequence[int], kept: bool = True) -> Region:
    """Of a tensor that is worked on along these axes, which the result has too if they are ``kept``."""
    others = [axis for axis in range(len(shape)) if axis not in axes]
    return looked_up(region, shape, {axis if kept else d: (axis, 1, 0) for d, axis in enumerate(others)})


def up_to(region: Region, shape: Sequence[int], axis: int, reverse: bool = False) -> Region:
    """Of a tensor whose running values along an axis are asked for: all before them.

    Under a mask that hides some of the last ones, those that are asked for at least.
    """

    def back(box: Box) -> list[Box]:
        first, last, _ = box[axis]
        ends = (*box[:axis], (first, first + 1, 1) if reverse else (last - 1, last, 1), *box[axis + 1 :])
        if isinstance(box, MaskedBox) and expanded(box.mask.elements_in(ends) - product(map(_places, ends))) != 0:
            return [box]
        return [(*box[:axis], (first, shape[axis], 1) if reverse else (0, last, 1), *box[axis + 1 :])]

    return each(region, back)


def flipped(region: Region, shape: Sequence[int], axes: Sequence[int]) -> Region:
    """Of a tensor that the result has backwards along these axes."""
    at = {d: (d, -1, size - 1) if d in axes else (d, 1, 0) for d, size in enumerate(shape)}
    return looked_up(region, shape, at)


def repeated(region: Region, shape: Sequence[int]) -> Region:
    """Of a tensor that the result has several times, one behind the other."""
    found = region
    for axis, size in enumerate(shape):

        def back(box: Box, axis: int = axis, size: int = size) -> list[Box] | None:
            first, last, step = box[axis]
            if is_at_most(last, size):
                return [box]
            if step == 1 and last - first >= size:
                return [(*box[:axis], (0, size, 1), *box[axis + 1 :])]
            return with_rows(box, axis, np.arange(first, last, step) % size)

        found = each(found, back)
    return found


def windowed(edges: Edges, windows: Reach) -> Edges:
    """Of a dimension over which windows slide, from what the first of these results reaches to what the last does.

    >>> windowed((2, 6, 1), Reach(16, 16, 3, 1, 1)), windowed((0, 4, 2), Reach(16, 8, 1, 2))
    ((1, 7, 1), (0, 5, 4))
    """
    length, _, taps, stride, low, dilation, base = windows
    first, many = edges[0] * stride - low, _places(edges)
    if taps == 1 and base == 1:
        apart = edges[2] * stride
        skipped = 0 if low == 0 else maximum(0, -(first // apart))  # what lies in the padding
        first = first + skipped * apart
        fits = low == 0 and is_less(first + (many - 1) * apart, length)
        inside = many if fits else maximum(0, minimum(many - skipped, (length - 1 - first) // apart + 1))
        return edge(first, inside, apart)
    last = first + (many - 1) * edges[2] * stride + (taps - 1) * dilation
    if base == 1 and dilation != 1 and (many == 1 or edges[2] * stride % dilation == 0):  # taps that lie apart
        first += maximum(0, -(first // dilation)) * dilation
        return edge(first, maximum(0, (minimum(last, length - 1) - first) // dilation + 1), dilation)
    end = last // base + 1
    return (maximum(0, -(-first // base)), end if is_less(end - 1, length) else minimum(length, end), 1)


def under_windows(region: Region, places: Sequence[Reach]) -> Region:
    """Of a tensor over whose last dimensions windows slide; tap by tap where windows leave elements between them out.

    >>> under_windows((((0, 3, 1),),), [Reach(9, 3, 2, 3)])
    (((0, 7, 3),), ((1, 8, 3),))
    """

    def back(box: Box, by_taps: bool = True) -> list[Box]:
        rest = len(box) - len(places)
        pairs = zip(box[rest:], places, strict=True)
        along = [(by_taps and windows_apart(*each)) or [windowed(*each)] for each in pairs]
        return [(*box[:rest], *each) for each in every_pair(*along)]

    found = each(region, back)
    return each(region, lambda box: back(box, by_taps=False)) if found is WHOLE else found


def windows_apart(edges: Edges, windows: Reach) -> list[Edges]:
    """Of a dimension what each tap of its windows reaches for these results, if these leave elements between them out.

    >>> windows_apart((0, 2, 1), Reach(30, 3, 3, 9, 3, 4))                 # from -3, 1, 5 and 6, 10, 14
    [(6, 7, 1), (1, 11, 9), (5, 15, 9)]
    >>> windows_apart((7, 9, 1), Reach(6, 11, 3, 1, 5, 3, 2))               # 2, 5, 8 and 3, 6, 9: even ones
    [(1, 2, 1), (3, 5, 1)]
    """
    length, _, taps, stride, low, dilation, base = windows
    many, span = _places(edges), (taps - 1) * dilation + 1
    if base != 1:
        at, met = _taps_over_image(edges, windows) or (None, None)
        return [] if at is None else _runs(np.unique(at[met] // base)) or [(0, 0, 1)]
    if many == 1 or not 1 < taps <= _MOST_TAPS:
        return []
    found = [windowed(edges, windows._replace(taps=1, low=low - tap * dilation)) for tap in range(taps)]
    if is_less(span, edges[2] * stride) or is_less(many, dilation):
        return found
    if any(map(is_symbol, (length, many))):
        return []
    reached = elements_of(union([(each,) for each in found]), (length,))
    return found if is_less(reached, _places(windowed(edges, windows))) else []


def convolved(
    region: Region, kernel: Sequence[int], places: Sequence[Reach], groups: int = 1, transposed: bool = False
) -> tuple[Region, Region]:
    """Of an image [B, C, spatial…] and of a kernel [O, C/groups, taps…], transposed [C, O/groups, taps…].

    The windows of a transposed one slide over its result: they are those of a plain one over an image with gaps.
    """
    first, second = kernel[:2]
    made, given = (second, first // groups) if transposed else (first // groups, second)

    def channels(box: Box) -> Box:
        return ((box[1][0] // made * given, ((box[1][1] - 1) // made + 1) * given, 1),)

    image = each(region, lambda box: [(box[0], *channels(box), *box[2:])])
    if transposed:
        places = [Reach(n, out, k, 1, d * (k - 1) - low, d, stride) for out, n, k, stride, low, d, _ in places]

    def weights(box: Box) -> list[Box]:
        (a, b, step), is_within = box[1], groups == 1 or box[1][0] // made == (box[1][1] - 1) // made
        own = box[1] if groups == 1 else (a % made, (b - 1) % made + 1, step)
        rows: Box = (*channels(box), own if is_within else (0, second, 1))
        taps = every_pair(*(taps_met(*pair, transposed) for pair in zip(box[2:], places, strict=True)))
        return [(*(rows if transposed else (box[1], (0, second, 1))), *each_taps) for each_taps in taps]

    return under_windows(image, places), each(region, weights)


def taps_met(edges: Edges, windows: Reach, backwards: bool = False) -> list[Edges]:
    """Taps that meet an element in some of these results, those that lie in the padding alone left out.

    >>> taps_met((0, 14, 1), Reach(14, 14, 3, 1, 18, 18)), taps_met((0, 1, 1), Reach(9, 9, 3, 1, 1))
    ([(1, 2, 1)], [(1, 3, 1)])
    """
    placed = _taps_over_image(edges, windows)
    if placed is None:
        return [(0, windows.taps, 1)]
    met = placed[1].any(1)
    return _runs(np.flatnonzero(met[::-1] if backwards else met))


def _taps_over_image(edges: Edges, windows: Reach) -> tuple[Any, Any] | None:
    """Where each tap lies for each of these results, and whether on an element; None for sizes unknown or too many.

    Places are those over an image with ``base - 1`` gaps between its elements.
    """
    length, _, taps, stride, low, dilation, base = windows
    if any(type(size) is not int for size in (*edges, *windows)) or taps * _places(edges) > _MOST_PLACED_TAPS:
        return None
    at = np.add.outer(np.arange(taps) * dilation - low, np.arange(*edges) * stride)
    return at, (at >= 0) & (at <= (length - 1) * base) & (at % base == 0)


def picked(region: Region, axis: int, places: Sequence[int]) -> Region:
    """Of a tensor that known places along an axis are picked of."""
    held = np.asarray(places)
    return each(region, lambda box: with_rows(box, axis, held[slice(*box[axis])]))


def picked_evenly(region: Region, shape: Sequence[Size], axis: int, size: Size, first: Size, step: int) -> Region:
    """Of a tensor, ``size`` long along an axis, of which a result has each ``step``-th row from ``first`` on.

    >>> picked_evenly((((0, 2, 1),),), (3,), 0, 8, 7, -2)                  # 7 and 5 of 7, 5, 3
    (((5, 8, 2),),)
    """
    at = {d: (d, 1, 0) for d in range(len(shape)) if d != axis}
    at |= {axis: (axis, step, first)} if are_inside(first, step, shape[axis], size) else {}
    return looked_up(region, [size if d == axis else n for d, n in enumerate(shape)], at)


def are_inside(first: Size, step: int, many: Size, size: Size) -> bool:
    """Whether so many places evenly apart surely all lie within a size."""
    low, high = (first, first + step * (many - 1))[:: -1 if step < 0 else 1]
    return is_at_most(0, low) and is_less(high, size)


def with_rows(box: Box, axis: int, rows: Any) -> list[Box] | None:
    """A box with these places along an axis, in runs; None for too many."""
    runs = _runs(np.unique(rows))
    return None if len(runs) > MOST_BOXES else [(*box[:axis], run, *box[axis + 1 :]) for run in runs]


def named(
    box: Box, places: Any, batch: Sequence[int], shown: Mapping[int, int], axes: Sequence[int], rank: int
) -> list[Box] | None:
    """The boxes that indices name for a box of a gather's result."""
    inside = [box[shown[axis]] if axis in shown else (0, 1, 1) for axis in range(rank)]
    chosen = np.unique(places[tuple(slice(*box[place]) for place in batch)].reshape(-1, len(axes)), axis=0)
    if len(axes) == 1:
        rows = np.add.outer(chosen[:, 0], np.arange(*inside[axes[0]]))
        return with_rows(tuple(inside), axes[0], rows)
    if len(chosen) > MOST_BOXES:
        return None
    shift = [dict(zip(axes, row.tolist(), strict=True)) for row in chosen]
    return [
        tuple((a + at.get(axis, 0), b + at.get(axis, 0), step) for axis, (a, b, step) in enumerate(inside))
        for at in shift
    ]


def reshaped(region: Region, out: Sequence[int], shape: Sequence[int]) -> Region:
    """Of a tensor of this shape that the result has in another one."""
    if tuple(out) == tuple(shape):
        return region
    strides = [prod(out[place + 1 :]) for place in range(len(out))]

    def back(box: Box) -> Sequence[Box] | None:
        found = boxes_of(stretches_of(box, strides), shape)
        mask = box.mask.reshaped(out, shape) if found and isinstance(box, MaskedBox) else None
        return found if mask is None or found is None else [MaskedBox(each, mask) for each in found]

    return each(region, back)


def boxes_of(places: Stretches, shape: Sequence[int]) -> list[Box] | None:
    """The boxes of a shape that are these places of its elements in order; None where they are too many or not told.

    >>> boxes_of(Stretches(0, ((10, 1),)), (8, 2)), boxes_of(Stretches(3, ((6, 1),)), (4, 4))
    ([((0, 5, 1), (0, 2, 1))], [((0, 1, 1), (3, 4, 1)), ((1, 2, 1), (0, 4, 1)), ((2, 3, 1), (0, 1, 1))])
    >>> boxes_of(Stretches(0, ((symbol("S", exact=True), 1),)), (8, 5))  # the last row may not be full
    >>> boxes_of(Stretches(0, ((prod(symbol(f"S_{n}") + 1 for n in range(60)), 1),)), (64, 8))  # sums of 2**60 products
    """
    several = sorted((step for step in places.steps if _several(step[0])), key=_far_first)
    if any(is_symbol(n) for step in several for n in step):  # an open size that stands in both shapes
        with suppress(TypeError):
            found = _laid(places.start, _joined_steps(several, int), tuple(shape))
            if found is not None:
                return found
    return _laid(places.start, _joined_steps(several), tuple(shape))


def _joined_steps(several: Sequence[tuple[Any, Any]], kinds: Any = object) -> tuple[tuple[Any, Any], ...]:
    """Steps of which those that go on where the ones behind them end are one, as far as they are of some kinds."""
    steps: list[tuple[Any, Any]] = []
    for n, stride in several:
        if steps and steps[-1][1] == n * stride and all(isinstance(each, kinds) for each in (*steps[-1], n, stride)):
            steps[-1] = (steps[-1][0] * n, stride)
        else:
            steps.append((n, stride))
    return tuple(steps)


def _laid(start: int, steps: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> list[Box] | None:
    if not shape:
        return [()]
    if max(map(_products_in, (start, prod(shape), *(n * stride for n, stride in steps)))) > _MOST_PRODUCTS:
        return None
    row = expanded(prod(shape[1:]))
    if not row:
        return []
    ratios = [whole_quotient(stride, row) for _, stride in steps]
    outer = [(n, ratio) for (n, _), ratio in zip(steps, ratios, strict=True) if ratio is not None]
    inner = tuple(step for step, ratio in zip(steps, ratios, strict=True) if ratio is None)
    reach = sum((n - 1) * stride for n, stride in inner)
    wholes = (0, *(sympy.div(start, row, auto=False)[0] - n for n in (0, 1))) if is_symbol(row) else ()
    for ends in (reach, 0):  # where the last is in the same row, all are, or there is none
        rows = ((first, expanded(start - first * row)) for first in wholes)
        found_row = next((r for r in rows if is_zero(r[1]) or (is_less(r[1] + ends, row) and _is_in(*r))), None)
        if found_row is not None:
            break
    first, inside = found_row or divmod(start, row)
    if len(outer) < 2 and is_less(inside + reach, row):
        n, apart = outer[0] if outer else (1, 1)
        rest = _laid(inside, inner, shape[1:])
        return None if rest is None else [(edge(first, n, apart), *box) for box in rest]
    (n, stride), others = steps[0], steps[1:]
    parts: list[tuple[int, tuple[tuple[int, int], ...]]] = []
    if (
        row % stride == 0
        and stride > sum((m - 1) * s for m, s in others)
        and inside % stride + sum((m - 1) * s for m, s in others) < stride
    ):  # a step that goes on from one row to the next: its end of the first, whole ones, the rest
        turn = row // stride
        head = minimum(n, -(-(row - inside) // stride)) if is_at_most(stride, inside) else 0
        full = expanded((n - head) // turn if (q := whole_quotient(n - head, turn)) is None else q)
        if q is None and is_symbol(full):
            return None  # nobody knows where in a row the rest ends
        parts.append((start, ((head, stride), *others)))
        parts.append((start + head * stride, ((full, row), (turn, stride), *others)))
        rest = expanded(n - head - full * turn)
        parts.append((start + (head + full * turn) * stride, ((rest, stride), *others)))
    elif n <= MOST_BOXES:
        parts = [(start + turn * stride, others) for turn in range(n)]
    else:
        return None
    found: list[Box] = []
    for begin, each_steps in parts:
        if all(m != 0 for m, _ in each_steps):
            more = _laid(begin, tuple(step for step in each_steps if _several(step[0])), shape)
            if more is None or len(found) + len(more) > MOST_BOXES:
                return None
            found += more
    return found


def _is_in(first: Size, inside: Size) -> bool:
    """Whether a place is surely not before the row that it is counted from."""
    return first == 0 or is_at_most(0, inside)


@lru_cache(2048, typed=True)
def is_less(amount: Size, limit: Size) -> bool:
    """Whether an amount is surely less than a limit, as it is with more for a ``Min`` or a floor that it grows with.

    >>> S = symbol("S")
    >>> is_less(2 * sympy.floor(S / 2), S + 1), is_less(3 * sympy.Min(S, 8), 3 * S + 1), is_less(S - sympy.Min(S, 8), 1)
    (True, True, False)
    >>> is_less(sympy.Max(1, sympy.floor(S / 2)), S + 1), is_less(sympy.Max(S, 8), S + 1)                  # every term
    (True, False)
    """
    if is_surely(lt, expanded(amount - limit), 0):  # as floor(x) < floor(x) + 1 is not decided
        return True
    parts = sympy.preorder_traversal(amount) if is_symbol(amount) else ()  # the outer ones first, which are soon gone
    for part in dict.fromkeys(each for each in parts if isinstance(each, sympy.Min | sympy.Max | sympy.floor)):
        more, suffices = sympy.Dummy(nonnegative=True), all if isinstance(part, sympy.Max) else any
        grown = expanded(amount).xreplace({part: more})
        if grown.diff(more).is_nonnegative and suffices(is_less(grown.subs(more, each), limit) for each in part.args):
            return True
    return False


@lru_cache(4096, typed=True)
def is_at_most(amount: Size, limit: Size) -> bool:
    """Whether an amount, each of a ``Max`` in it, is surely no more than a limit, each of a ``Min`` in it."""
    if is_surely(le, expanded(amount - limit), 0):
        return True
    amounts, limits = (_each_of(size, kind) for size, kind in ((amount, "Max"), (limit, "Min")))
    return len(amounts) + len(limits) > 2 and all(is_at_most(*pair) for pair in every_pair(amounts, limits))


def _each_of(size: Size, kind: str) -> list[Size]:
    """The sums that a sum with a ``Max`` or ``Min`` is the largest or smallest of."""
    terms = sympy.Add.make_args(size) if is_symbol(size) else ()
    found = next((term for term in terms if isinstance(term, getattr(sympy, kind))), None)
    return [size] if found is None else [expanded(size - found + each) for each in found.args]


def expanded(size: Size) -> Size:
    """The size as a sum of products, as equal ones are the same, if it has not too many; a number as Python's."""
    found = size.expand() if is_symbol(size) and _products_in(size) <= _MOST_PRODUCTS else size
    return int(found) if is_symbol(found) and found.is_Integer else found


def _products_in(size: Any) -> int:
    """How many products a size is the sum of, written out; 1 of a number.

    >>> S, T = symbol("S"), symbol("T")
    >>> _products_in((S + 1) * (S + T + 1) ** 2), _products_in(S / (T + 1))
    (18, 2)
    """
    if not is_symbol(size):
        return 1
    if size.is_Add:
        return sum(map(_products_in, size.args))
    if size.is_Mul:
        return prod(map(_products_in, size.args))
    return _products_in(size.base) ** min(abs(int(size.exp)), 10) if size.is_Pow and size.exp.is_Integer else 1


def elements_of_stretches(places: Sequence[Stretches]) -> Size:
    """How many elements places of open sizes are together; of those that lie on no common grid the largest."""
    if len(places) == 1:
        held: Size = 1
        for n, stride in sorted(places[0].steps, key=lambda step: at_typical_size(step[1])):
            held = (n - 1) * stride + held if is_surely(lt, stride, held) else n * held  # windows that overlap
        return held
    with suppress(TypeError):  # an order that depends on an open size
        _, shape = _grid_of(places)
        boxes = [boxes_of(each, shape) if shape else None for each in places]
        if all(found is not None for found in boxes):
            return elements_of(union(*(found or () for found in boxes)), shape)
    return maximum(*(product(n for n, _ in each.steps) for each in places))


def _grid_of(places: Sequence[Stretches], others: Sequence[Stretches] = ()) -> tuple[list[Any], tuple[Any, ...]]:
    """Distances of the grid that places lie on, and its shape, which holds others too; no shape where there is none."""
    strides: list[Any] = []
    for stride in sorted({stride for each in places for _, stride in each.steps}, key=at_typical_size, reverse=True):
        shared = stride
        if strides:  # every second row of three, third element of a row: rows, elements
            far = strides[-1]
            shared = expanded(sympy.gcd(far, stride)) if is_symbol(far + stride) else gcd(far, stride)
        if not strides or shared != strides[-1]:
            strides.append(shared)
    wholes = [whole_quotient(far, near) for far, near in pairwise(strides)]
    last = maximum(*(each.last for each in (*places, *others)))
    return strides, () if None in wholes else (whole_quotient_of(last, strides[0]) + 1, *wholes)


def without(places: Sequence[Stretches], part: Stretches) -> Sequence[Stretches] | None:
    """Places without those of a part; None where these lie on no common grid.

    >>> without([Stretches(0, ((4, 8), (6, 1)))], Stretches(4, ((4, 8), (2, 1))))      # two of six columns
    [Stretches(start=0, steps=((4, 8), (4, 1)))]
    """
    strides, left, removed = _on_a_grid(places, part)
    for box in removed:
        left = outside(left, box)
    return None if left is None else [stretches_of(box, strides) for box in left]


def shown_by(view: Stretches, shape: Sequence[int], places: Sequence[Stretches]) -> Region:
    """Of a view its elements at places of its tensor, in this shape; all of it where these lie on no common grid.

    >>> shown_by(Stretches(16, ((2, 8), (8, 1))), (2, 8), [Stretches(0, ((20, 1),))])  # two rows of 8 behind two others
    (((0, 1, 1), (0, 4, 1)),)
    """
    _, region, part = _on_a_grid(places, view)
    if region is None or len(part) != 1:
        return WHOLE
    sizes = tuple(map(_places, part[0]))
    for axis, (first, _, gap) in enumerate(part[0]):
        region = joined(region, axis, first, sizes[axis], gap)
    return reshaped(region, sizes, shape) if prod(sizes) == prod(shape) else WHOLE


def _on_a_grid(places: Sequence[Stretches], part: Stretches) -> tuple[list[Any], Region, Sequence[Box]]:
    """Distances of a grid, places and a part as boxes of it, one for the part if that can be; all without a grid."""
    grids: list[tuple[list[Any], Region, Sequence[Box]]] = []
    for own, others in (([*places, part], ()), ([part], places)):
        with suppress(TypeError):  # an order that depends on an open size
            strides, shape = _grid_of(own, others)
            first, *boxes = [boxes_of(each, shape) if shape else None for each in (part, *places)]
            if first is not None and None not in boxes:
                grids.append((strides, union(*(each or () for each in boxes)), first))
    return min(grids, key=lambda grid: len(grid[2]), default=([], WHOLE, ()))


def needed_at_most(ops: Sequence[Op], amounts: Mapping[str, Size]) -> tuple[Op, ...]:
    """The operations; of a tensor from outside, with all its parts, a floor counts no more than so many elements.

    >>> ops = [Op("add", "elementwise", reads=(Tensor("x", (8,), "fp32"),))]
    >>> [t.needed for op in needed_at_most(ops, {"x": 5}) for t in op.reads]
    [5]
    """
    held: dict[str, dict[str, tuple[Size, Size]]] = {}
    for op in ops:
        for tensor in op.reads:
            base = tensor.base
            if base in amounts:
                moved = _moved(tensor)
                before = held.setdefault(base, {}).setdefault(tensor.ident, (moved, op.repeat))
                if is_surely(gt, moved, before[0]):  # the most is what counts
                    held[base][tensor.ident] = (moved, op.repeat)
                elif not is_surely(le, moved, before[0]):
                    held[base][tensor.ident] = (maximum(moved, before[0]), before[1])
    limits: dict[str, Size | None] = {}
    spare: dict[str, int] = {}
    for base, parts in held.items():
        left, total = amounts[base], sum(moved * often for moved, often in parts.values())
        if total == left or is_surely(le, total, left):
            continue
        loops = any(often != 1 for _, often in parts.values())
        shares = {ident: whole_quotient(moved * left, total) for ident, (moved, _) in parts.items() if loops}
        if shares and None not in shares.values():
            limits |= {ident: minimum(parts[ident][0], share) for ident, share in shares.items() if share is not None}
            continue
        opened = any(is_symbol(often) for _, often in parts.values())
        for ident, (moved, often) in sorted(parts.items(), key=lambda part: bool(part[1][1] == 1) is not opened):
            if is_zero(left):
                limits[ident] = 0
                continue
            if often != 1 and any(map(is_symbol, (moved, often, left))):
                break
            limits[ident] = minimum(moved, left // often)
            left = left - limits[ident] * often
        if loops and type(left) is int and left > 0:  # what the steps' equal shares leave over
            if often == 1:
                limits[ident] = minimum(moved, limits[ident] or 0) + left
            elif type(often) is int:
                spare[ident] = left

    def limited(tensor: Tensor) -> Tensor:
        limit = limits.get(tensor.ident)
        if limit is None:
            return tensor
        moved, (most, _) = _moved(tensor), held[tensor.base][tensor.ident]
        is_told = moved == most or is_surely(gt, limit, moved)  # the limit is of the most
        return replace(tensor, needed=limit if is_told else minimum(moved, limit))

    found = (replace(op, reads=tuple(map(limited, op.reads))) for op in ops) if limits else ops
    return tuple(each for op in found for each in _with_spare(op, spare))


def _with_spare(op: Op, spare: dict[str, int]) -> tuple[Op, ...]:
    """The operation; of a tensor of which its steps need elements that do not divide, so many steps need one more.

    They stand apart from the others. Each tensor's are taken out of ``spare`` by the first operation that needs it.
    """
    tensor = next((t for t in op.reads if t.ident in spare), None)
    if tensor is None or tensor.needed is None:
        return (op,)
    steps = spare.pop(tensor.ident)
    more = replace(
        tensor, ident=f"{tensor.ident} {steps}", needed=tensor.needed + 1, storage=tensor.storage or tensor.ident
    )
    first = replace(op, repeat=steps, reads=tuple(more if t is tensor else t for t in op.reads))
    return (first, *_with_spare(replace(op, repeat=op.repeat - steps), spare))


def _ratio(amount: Size, of: Size) -> Any:
    """A quotient that is no float."""
    return sympy.sympify(amount) / of


def whole_quotient(amount: Size, of: Size) -> Size | None:
    """A quotient, where it is whole for every size."""
    if not (is_symbol(amount) or is_symbol(of)):
        return amount // of if amount % of == 0 else None
    found = sympy.cancel(amount / of)
    return found if found.is_integer else None


def picked_together(
    ops: Sequence[Op], amounts: Mapping[str, Size], names: Collection[str] | None = None
) -> tuple[Op, ...]:
    """The operations; of a tensor that only these read, in parts, a floor counts what the parts hold together.

    Two reads go by one name where it is not known that they differ. ``amounts`` says how much they have together, at
    most, or exactly where no ``names`` are given:

    >>> part = Tensor("x", (8,), "fp32", touched=3)
    >>> ops = [Op("slice", "copy", reads=(part,)), Op("slice", "copy", reads=(part,))]
    >>> [t.needed for op in picked_together(ops, {"x": 5}, ("slice",)) for t in op.reads]
    [5, None]
    """
    found = list(ops)
    for base, together in amounts.items():
        reads = [(at, t) for at, op in enumerate(ops) for t in op.reads if t.base == base]
        if len(reads) < 2 or not (names is None or all(ops[at].name in names for at, _ in reads)):
            continue
        most = sum(_moved(t, whole=True) * ops[at].repeat for at, t in reads)
        payers: dict[str, tuple[int, Tensor]] = {}
        for at, t in reads:
            before = payers.get(t.ident)
            if before is None or is_surely(gt, _moved(t), _moved(before[1])):
                payers[t.ident] = (at, t)
        counted = sum(_moved(t) * ops[at].repeat for at, t in payers.values())
        missing = (together if names is None else minimum(together, most)) - counted
        at, t = next((pair for pair in payers.values() if ops[pair[0]].repeat == 1), next(iter(payers.values())))
        often = ops[at].repeat
        if is_surely(le, missing, 0) or (often != 1 and any(map(is_symbol, (missing, often)))):
            continue
        more = replace(t, needed=_moved(t) + missing // often)
        found[at] = replace(found[at], reads=tuple(more if each is t else each for each in found[at].reads))
    return tuple(found)


def _moved(tensor: Tensor, whole: bool = False) -> Size:
    """Elements that are read of a tensor, or that are needed of these."""
    return tensor.traffic_elements if whole or tensor.needed is None else tensor.needed
