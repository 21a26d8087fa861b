"""Elements that a program makes of positions alone, as formulas, and how many pairs the masks made of them let see.

A mask of an open size has no values to look at. Its elements are formulas of where they stand: x-1 is a place along the
last axis, x-2 along the one before it. A causal mask is 1 where x-2 - x-1 >= 0:

>>> S, T = (sizes.symbol(name) for name in "ST")
>>> rows, columns = Elements((S, 1), place(-2)), Elements((T,), place(-1))
>>> causal = worked_out("greater_equal", rows, columns)
>>> causal.visible().pairs(S, S)
S*(S + 1)/2
>>> near = worked_out("less", worked_out("subtract", rows, columns), 4)
>>> worked_out("logical_and", causal, near).visible().pairs(100, 100)                 # 1 + 2 + 3 + 97 rows of 4
394
>>> chunks = [worked_out("floor_divide", each, 8) for each in (rows, columns)]
>>> worked_out("equal", *chunks).visible().pairs(20, 20)                              # two squares of 8, one of 4
144

A mask is an "or" of parts, each an "and" of conditions: a formula of a row and a column is 0 or more.
Of a front end's operations those that work element by element have a function here, by numpy's name; those that move
elements say at which places of their operand they find them (:meth:`Elements.moved`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import combinations
from itertools import product as every
from typing import Any, ParamSpec, TypeAlias, TypeVar

from roofline import sizes
from roofline.frozen import NamedTuple
from roofline.lazy import np, sympy
from roofline.ops.masks import BandMask
from roofline.programs.regions import (
    HIDDEN,
    below_the_largest,
    between,
    boxes_where,
    elements_of,
    expanded,
    is_at_most,
    maximum,
    minimum,
    once,
)
from roofline.programs.tensor_parts import Edges
from roofline.sizes import Size, ceil_div, floor_div, is_symbol, product

#: More parts of a mask, or cases of a number, are not told apart.
_MOST_PARTS, _MOST_CASES = 16, 6
#: Of more sets of parts the pairs that they share are not worked out.
_MOST_SHARED = 32
#: Columns beside a row are told apart up to so many; pairs of rows and columns of steps that have so many turns.
_MOST_BESIDE, _MOST_TURNS = 8, 8
#: Constants of more elements are not looked at.
_LARGEST = 2**24


_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


class _Unknown(Exception):
    """What no formula here says."""


def _if_told(function: Callable[_Given, _Found]) -> Callable[_Given, _Found | None]:
    """A function that gives None where no formula here says what it asks for."""

    @wraps(function)
    def found(*args: _Given.args, **kwargs: _Given.kwargs) -> _Found | None:
        try:
            return function(*args, **kwargs)
        except _Unknown:
            return None

    return found


def _of_any(members: Sequence[Any], count: Callable[[Sequence[Any]], Size]) -> Size:
    """How much several have together, those that share some once; ``count`` says how much some of them share."""
    amount: Size = 0
    sharing: list[tuple[int, ...]] = [(each,) for each in range(len(members))]
    many = 0
    for place in sharing:  # what shares nothing shares nothing with one more
        shared = count([members[at] for at in place])
        if not sizes.is_zero(shared):
            many += 1
            amount = amount - (-1) ** len(place) * shared
            sharing += [(*place, at) for at in range(place[-1] + 1, len(members))]
        if many > _MOST_SHARED:
            raise _Unknown
    return sizes.plain_number(amount)


def place(axis: int, shape: Sequence[Size] = ()) -> Any:
    """The place of an element along an axis, counted from the last: -1 is the last; 0 where a shape has one alone."""
    return (
        sympy.S.Zero
        if shape and sizes.is_one(shape[axis])
        else sympy.Symbol(f"x{axis}", integer=True, nonnegative=True)
    )


def _axes_in(form: Any) -> dict[int, Any]:
    """The places in a formula, by their axis."""
    return {int(each.name[1:]): each for each in form.free_symbols if each.name.startswith("x-")}


#: An "or" of parts, each an "and" of conditions: formulas that are 0 or more.
Parts: TypeAlias = "frozenset[frozenset[Any]]"
EVERYWHERE: Parts = frozenset((frozenset(),))
NOWHERE: Parts = frozenset()


def _either(*masks: Parts) -> Parts:
    found = frozenset[frozenset[Any]]().union(*masks)
    found = frozenset(part for part in found if not any(other < part for other in found))
    if len(found) > _MOST_PARTS:
        raise _Unknown
    return found


def _both(*masks: Parts) -> Parts:
    found = (frozenset[Any]().union(*parts) for parts in every(*masks))
    return _either(frozenset(part for part in map(_tight, found) if part is not None))


def _tight(part: frozenset[Any]) -> frozenset[Any] | None:
    """Conditions without those that follow from another; None where two cannot hold together."""
    left = set(part)
    for one, other in combinations(part, 2):
        if (apart := one - other).is_number:
            left.discard(one if apart >= 0 else other)
        elif (one + other).is_negative:
            return None
    return frozenset(left)


def _negated(mask: Parts) -> Parts:
    return _both(*(frozenset(frozenset((-each - 1,)) for each in part) for part in mask))


def _moved(part: Iterable[Any], names: Mapping[Any, Any]) -> Parts:
    """Conditions where places stand elsewhere."""
    return _both(*(_at_least(each.xreplace(names)) for each in part))


class _Term(NamedTuple):
    """``factor`` · ⌊(place + start)/chunk⌋."""

    factor: Any
    place: Any
    start: Any
    chunk: Any


def _terms(form: Any) -> tuple[list[_Term], Any]:
    """The places of a formula, and what is added to them."""
    found, rest = [], form
    for each in (*_axes_in(form).values(), *(each for each in form.atoms(sympy.floor) if _axes_in(each))):
        factor = form.coeff(each)
        if factor == 0:  # a place inside a floor
            continue
        inside, own = each.args[0] if each.args else each, [*_axes_in(each).values()]
        chunk = 1 / inside.coeff(own[0]) if len(own) == 1 and inside.coeff(own[0]) != 0 else None
        if not factor.is_Integer or chunk is None or not chunk.is_integer or not chunk.is_positive:
            raise _Unknown
        found.append(_Term(factor, own[0], sympy.floor(sympy.expand(chunk * inside) - own[0]), chunk))
        rest = rest - factor * each
    if _axes_in(rest) or any(_axes_in(each.start) for each in found):
        raise _Unknown
    return found, rest


def _at_least(form: Any) -> Parts:
    """Where a formula is 0 or more, as one condition: ±x + n, ±p·x ± q·y + n, or ±(⌊(x + a)/c⌋ - ⌊(y + b)/c⌋) + n."""
    form = sympy.expand(form)
    if form.is_nonnegative is not None:
        return EVERYWHERE if form.is_nonnegative else NOWHERE
    places = (*_axes_in(form).values(), *(each for each in form.atoms(sympy.floor) if _axes_in(each)))
    parts = [form.coeff(each) for each in places]
    if all(each.is_Rational for each in parts):
        form = sympy.expand(form * sympy.ilcm(1, *(each.q for each in parts)))
    terms, rest = _terms(form)
    more, less = ([each for each in terms if (each.factor > 0) == is_more] for is_more in (True, False))
    if not terms or len(terms) > 2 or len({each.place for each in terms}) < len(terms):
        raise _Unknown
    if len(terms) == 2 and not (more and less):  # along the other diagonal
        (m, x, a, c), (n, y, b, d) = terms
        if (c, d) != (1, 1):
            raise _Unknown
        return _one((m * (x + a) + n * (y + b)) / sympy.gcd(m, n) + sympy.floor(rest / sympy.gcd(m, n)))
    if not less or not more:
        ((factor, own, start, chunk),) = terms
        steps = sympy.floor(rest / abs(factor)) * chunk
        return _one(own + start + steps if more else steps + chunk - 1 - own - start)
    (m, x, a, c), (n, y, b, d) = more[0], less[0]
    if (m, c) == (-n, d):
        rest = sympy.floor(rest / m)
    elif (m, n) == (c, -d) and 1 in (c, d):  # c·⌊i/c⌋ against j
        a, b, c = (a, c - 1 - sympy.floor(rest), c) if d == 1 else (sympy.floor(rest), b, d)
        rest = 0
    elif m == -n and d == 1:  # ⌊x/c⌋ + r >= y where x + c·r >= c·y
        return _at_least(x + a + c * (sympy.floor(rest / m) - b - y))
    elif m == -n and c == 1:  # x + r >= ⌊y/d⌋ where d·x + d·r + d - 1 >= y
        return _at_least(d * (x + a + sympy.floor(rest / m) + 1) - 1 - b - y)
    elif (c, d) == (1, 1):
        both = sympy.gcd(m, n)
        return _one((m * x + n * y) / both + sympy.floor(rest / both))
    else:
        raise _Unknown
    if c == 1:
        return _one(x + a - y - b + rest)
    if c.is_Integer:
        (p, a), (q, b) = (start.as_coeff_Add() for start in (a, b))
        a, b, rest = a + p % c, b + q % c, rest + p // c - q // c
    return _one(sympy.floor((x + a) / c) - sympy.floor((y + b) / c) + rest)


def _one(condition: Any) -> Parts:
    return frozenset((frozenset((sympy.expand(condition),)),))


def _equal(first: Any, second: Any) -> Parts:
    """Where two formulas are one number."""
    return _both(_at_least(first - second), _at_least(second - first))


class Visible(NamedTuple):
    """Where a mask of so many elements lets see."""

    shape: tuple[Size, ...]
    parts: Parts

    def axes(self) -> list[int]:
        """The axes along which it differs, the first first."""
        return sorted({axis for part in self.parts for form in part for axis in _axes_in(form)})

    @_if_told
    def negated(self) -> Visible:
        """What it hides; None where it is not told."""
        return self._replace(parts=_negated(self.parts))

    @_if_told
    def both(self, other: Visible) -> Visible:
        """What two masks of one shape both let see; None where it is not told."""
        return self._replace(parts=_both(self.parts, other.parts))

    @_if_told
    def either(self, other: Visible) -> Visible:
        """What one of two masks of one shape lets see; None where it is not told."""
        return self._replace(parts=_either(self.parts, other.parts))

    @_if_told
    def moved(self, shape: Sequence[Size], along: Sequence[tuple[int, Any, Size] | None]) -> Visible:
        """The mask of a tensor of which this is that of a result: each axis of the result by one of the tensor.

        Axis, factor and start: a place of the result is the factor times that of the tensor, and the start. None is no
        axis of the tensor: what differs along it is not told.
        """
        names = {place(d - len(along)): told for d, told in enumerate(along)}
        if any(names.get(place(axis), ()) is None for axis in self.axes()):
            raise _Unknown
        found = {
            own: told[1] * place(told[0] - len(shape)) + told[2] for own, told in names.items() if told is not None
        }
        return Visible(tuple(shape), _either(*(_moved(part, found) for part in self.parts)))

    def reshaped(self, out: Sequence[Size], shape: Sequence[Size]) -> Visible | None:
        """The mask of a tensor of this shape that a result has in another one."""
        found = Elements(out, cases={sympy.S.One: self.parts}).reshaped(shape)
        return None if found is None else found.shown(1)

    def elements_in(self, box: Sequence[Edges]) -> Size:
        """How many elements of a box it lets see; those of the largest part alone where no more is known."""
        row, column = self._plane()
        edges = [box[axis] if -axis <= len(box) else (0, 1, 1) for axis in (row, column)]
        rest = [-(-(last - first) // step) for at, (first, last, step) in enumerate(box)
                if at - len(box) not in (row, column)]  # fmt: skip
        # of rows and columns with steps between them those in order
        names = {
            place(axis): a + s * place(axis) for axis, (a, _, s) in zip((row, column), edges, strict=True) if s != 1
        }
        along = [(a, b) if s == 1 else (0, ceil_div(b - a, s)) for a, b, s in edges]

        def seen(parts: Iterable[frozenset[Any]]) -> Size | None:
            moved = _if_told(lambda: _either(*(_moved(part, names) for part in parts)))() if names else frozenset(parts)
            return None if moved is None else self._replace(parts=moved)._pairs(along[0], along[1], row, column)

        found = seen(self.parts)
        if found is None:
            told = [amount for part in self.parts if (amount := seen([part])) is not None]
            found = maximum(0, *told)
        return product(rest) * found

    def share(self) -> tuple[Size, Size] | None:
        """Pairs that it lets see, of how many, along the axes along which it differs; None where that is not known."""
        row, column = self._plane()
        S, T = (self.shape[axis] if -axis <= len(self.shape) else 1 for axis in (row, column))
        seen = self.pairs(S, T, row, column)
        return None if seen is None else (seen, S * T)

    def _plane(self) -> list[int]:
        """The two axes along which it differs, or the last ones."""
        return [*(axis for axis in (-2, -1) if axis not in self.axes()), *self.axes()][-2:]

    def elements(self, of: Size) -> Size | None:
        """How many of so many elements it lets see, over which it is spread; None where that is not known.

        >>> S = sizes.symbol("S")
        >>> diagonal = worked_out("equal", Elements((S, 1), place(-2)), Elements((S,), place(-1)))
        >>> diagonal.visible().elements(8 * S * S)
        8*S
        """
        share = self.share()
        return None if share is None or sizes.is_zero(share[1]) else expanded(sizes.exact_div(of * share[0], share[1]))

    def pairs(self, S: Size, T: Size, row: int = -2, column: int = -1) -> Size | None:
        """Pairs of S rows and T columns that see each other; None if not known."""
        return self._pairs((0, S), (0, T), row, column)

    @_if_told
    def _pairs(self, rows: Sequence[Size], columns: Sequence[Size], row: int, column: int) -> Size:
        """Those of rows and of columns from one place to another."""

        def shared(parts: Sequence[frozenset[Any]]) -> Size:
            together = _tight(frozenset[Any]().union(*parts))
            return 0 if together is None else _Bounds(together, rows, columns, row, column).pairs()

        return _of_any(sorted(self.parts, key=str), shared)

    def keys(self, S: Size, T: Size) -> Size:
        """Columns that some row sees, all of them where that is not known."""

        def shared(ends: Sequence[tuple[Size, Size]]) -> Size:
            first, last = zip(*ends, strict=True)
            return maximum(0, minimum(*last) - maximum(*first))

        found = _if_told(lambda: _of_any(self._ends((0, S, 1), T), shared))()
        return T if found is None else found

    def columns(self, rows: Edges, T: Size, row: int = -2, column: int = -1) -> list[Edges]:
        """From which columns to which the rows from one to another surely see some."""
        return [*dict.fromkeys(each for part in self.parts for each in _seen(part, rows, T, row, column) or ())]

    def seen_of(self, box: Sequence[Edges]) -> tuple[Edges, ...]:
        """A box without the columns and rows, before and behind, that see none of the others; with steps as it is."""
        found, axes = list(box), {*self.axes()} if len(box) > 1 else {0}
        turns = ((-2, -1), (-1, -2)) if -2 in axes else ((-2, -1),)
        for row, column in turns if axes <= {-2, -1} and all(step == 1 for _, _, step in box[-2:]) else ():
            ends = _if_told(self._ends)(box[row], box[column][1], row, column)
            if ends is not None and len({first for first, _ in ends}) < 2:
                seen = (ends[0][0], maximum(*(last for _, last in ends))) if ends else (0, 0)
                found[column] = between(box[column], *seen)
        return tuple(found)

    def rows_of_several(self) -> list[Edges]:
        """From which rows to which some see more than one column, where these lie side by side."""
        last = len(self.shape) - 1
        behind = self.moved(self.shape, [*((axis, 1, 0) for axis in range(last)), (last, 1, -1)])
        both = None if behind is None else self.both(behind)
        S, T = self.shape[-2:]
        is_told = both is not None and (not both.parts or -2 in both.axes())
        return both.columns((1, T, 1), S, -1, -2) if both is not None and is_told else [(0, S, 1)]

    def _ends(self, rows: Edges, T: Size, row: int = -2, column: int = -1) -> list[tuple[Size, Size]]:
        """Between which columns all lie that some of the rows see under each part."""
        return [_Bounds(part, rows, (0, T), row, column).ends() for part in self.parts]


@_if_told
def _seen(part: Iterable[Any], rows: Edges, T: Size, row: int, column: int) -> list[Edges]:
    """The columns that some of the rows surely see under a part."""
    return _Bounds(part, rows, (0, T), row, column).columns_seen()


class _Bounds:
    """What the conditions of a part leave: rows and columns, how far apart they may lie, and how far their chunks.

    By 1 stands how far a column may come after a row, by -1 how far before it. Turned columns are their negatives: one
    diagonal becomes the other.
    """

    def __init__(
        self, part: Iterable[Any], rows: Sequence[Size], columns: Sequence[Size], row: int = -2, column: int = -1
    ) -> None:
        self.rows, self.columns, self.places = [*rows[:2]], [*columns], (place(row), place(column))
        self.step: Size = rows[2] if len(rows) > 2 else 1
        self.is_of_all_rows = True
        self.band: dict[int, Size] = {}
        # places of a row stand so many times, those of a column so many, in a band
        self.slopes = (1, 1)
        self.apart: dict[int, int] = {}
        # what rows and columns have before them of a chunk, and its length
        self.chunk: tuple[Size, Size, Size] | None = None
        own, other = self.places
        self.is_turned = any(each.coeff(own) * each.coeff(other) > 0 for each in part)
        if self.is_turned:
            part, self.columns = [each.xreplace({other: -other}) for each in part], [1 - columns[1], 1 - columns[0]]
        for condition in part:
            self._add(condition)

    def _add(self, condition: Any) -> None:
        terms, rest = _terms(condition)
        own, rest = {each.place: each for each in terms}, sizes.plain_number(rest)
        if not own.keys() <= {*self.places}:
            raise _Unknown
        row, column = (own.get(each, _Term(0, each, 0, 1)) for each in self.places)
        way = int(sympy.sign(row.factor))
        if row.chunk != 1:
            a, b, length = map(sizes.plain_number, (row.start, column.start, row.chunk))
            if way in self.apart or is_symbol(rest) or self.chunk not in (None, (a, b, length)):
                raise _Unknown
            if not any(sympy.sympify(each).is_nonnegative for each in (a, b)):
                raise _Unknown  # chunks before the first
            self.chunk, self.apart[way] = (a, b, length), rest
        elif way and column.factor:
            if way * column.factor > 0:
                raise _Unknown  # along both diagonals
            slopes = int(abs(row.factor)), int(abs(column.factor))
            if self.band and slopes != self.slopes:
                raise _Unknown
            self.slopes, self.band = slopes, _closer(self.band, way, rest)
        else:
            edges = self.rows if way else self.columns
            self.is_of_all_rows &= edges is self.columns
            low, high = (-rest, edges[1]) if way + column.factor == 1 else (edges[0], rest + 1)
            if way and self.step != 1:
                edges[:] = between((edges[0], edges[1], self.step), low, high)[:2]
            else:
                edges[:] = maximum(edges[0], low), minimum(edges[1], high)

    def pairs(self) -> Size:
        """Pairs of rows and columns that see each other."""
        if self.chunk is None:
            (r0, r1), (c0, c1), (p, q) = self.rows, self.columns, self.slopes
            return _pairs_of(self.band, maximum(0, r1 - r0), maximum(0, c1 - c0), p * r0 - q * c0, p, q)
        if self.slopes != (1, 1):
            raise _Unknown
        if len(self.apart) == 2:
            if sum(self.apart.values()) > _MOST_CASES:
                raise _Unknown
            return sum(self._pairs(self.band, apart) for apart in range(-self.apart[1], self.apart[-1] + 1))
        # what a diagonal through the corners of chunks lets see, and what they do beyond it
        ((way, apart),), (a, b, length) = self.apart.items(), self.chunk
        edge = length * apart + way * (a - b)
        found = _Bounds((), self.rows, self.columns)
        found.band = _closer(self.band, way, edge)
        return found.pairs() + self._pairs(_closer(self.band, -way, -edge - 1), -way * apart)

    def _pairs(self, band: Mapping[int, Size], apart: int) -> Size:
        """Those of a band that lie so many chunks apart."""
        assert self.chunk is not None
        (r0, r1), (c0, c1), (a, b, chunk) = self.rows, self.columns, self.chunk
        a, b = a + chunk * max(0, -apart), b + chunk * max(0, apart)
        band = {way: side + way * (b - a) for way, side in band.items()}

        def up_to(S: Size, T: Size) -> Size:
            """Pairs of the first S rows and T columns, counted from the start of a chunk."""
            S, T = maximum(0, S), maximum(0, T)
            full = floor_div(minimum(S, T), chunk)
            rows, columns = (n - full * chunk if S == T else minimum(chunk, n - full * chunk) for n in (S, T))
            return full * _pairs_of(band, chunk, chunk, 0) + _pairs_of(band, rows, columns, 0)

        r1, c1 = maximum(r0, r1), maximum(c0, c1)
        found = up_to(r1 + a, c1 + b)
        for S, T, sign in ((r0 + a, c1 + b, -1), (r1 + a, c0 + b, -1), (r0 + a, c0 + b, 1)):
            found = found if sizes.is_zero(S) or sizes.is_zero(T) else found + sign * up_to(S, T)
        return found

    def columns_seen(self) -> list[Edges]:
        """The columns that some row surely sees; of rows with gaps between what they see each beside a row, or few."""
        (r0, r1), (c0, c1) = self.rows, self.columns
        if self.is_turned or not self._leave_gaps():
            return [(*self.ends(last=self._leave_gaps()), 1)]
        sides = [0, 0] if self.chunk else [-self.band.get(-1, 0), self.band.get(1, 0)]
        is_band = self.slopes == (1, 1) and len(self.band) == 2 and not self.chunk
        if is_band and not any(map(is_symbol, sides)) and sides[1] - sides[0] < _MOST_BESIDE:
            each_side = range(sides[0], sides[1] + 1)
            return [between((r0 + side, r1 + side, self.step), c0, c1) for side in each_side]
        if self._is_ahead():
            beside = self.chunk[0] - self.chunk[1] if self.chunk else 0
            return [between((r0 + beside, r1 + beside, self.step), c0, c1)]
        return [(*self.ends(last=True), 1)]

    def ends(self, last: bool = False) -> tuple[Size, Size]:
        """Between which columns all lie that some row sees, or that the ``last`` one does."""
        (r0, r1), (c0, c1), (p, q) = self.rows, self.columns, self.slopes
        is_told = self.is_of_all_rows or is_at_most(r0 + 1, r1)
        if self.is_turned and not is_told:
            raise _Unknown
        some = 1 if is_told else 0 if is_at_most(r1, r0) else minimum(1, maximum(0, r1 - r0))
        a, b, chunk = self.chunk or (0, 0, 1)
        if self.chunk is not None and self.band and not self._is_ahead():
            raise _Unknown
        r0 = r1 - 1 if last else r0
        if -1 in self.apart:
            c0 = maximum(c0, (floor_div(r0 + a, chunk) - self.apart[-1]) * chunk - b)
        if 1 in self.apart and not is_at_most(c1 + b, r1 + a + self.apart[1] * chunk):  # no chunk ends before a row
            c1 = minimum(c1, (ceil_div(r1 + a, chunk) + self.apart[1]) * chunk - b)
        c0 = maximum(c0, ceil_div(p * r0 - self.band[-1], q)) if -1 in self.band else c0
        c1 = minimum(c1, floor_div(p * (r1 - 1) + self.band[1], q) + 1) if 1 in self.band else c1
        if self.is_turned:
            return 1 - c1, 1 - c0
        return c0, c1 if is_told else c0 if some == 0 else minimum(c1, c0 + some * c1)

    def _is_ahead(self) -> bool:
        """Whether each row surely sees the column at its own place, in its chunk where there are some."""
        a, b, _ = self.chunk or (0, 0, 1)
        band = {way: side + way * (b - a) for way, side in self.band.items()}
        return self.slopes == (1, 1) and _is_ahead(band, self.apart)

    def _leave_gaps(self) -> bool:
        """Whether rows one after the other may see columns with others between them."""
        (p, q), is_narrow = self.slopes, len(self.band or self.apart) > 1
        if self.band and self.apart:
            return not sizes.is_one(self.step)
        reach = self.chunk[2] if self.chunk else sum(self.band.values()) + 2 - q
        return is_narrow and not (p == q == 1 and sizes.is_one(self.step)) and not is_at_most(p * self.step, reach)


def _closer(band: Mapping[int, Size], way: int, side: Size) -> dict[int, Size]:
    """A band that is limited on one side."""
    return {**band, way: minimum(band[way], side) if way in band else side}


def _is_ahead(*bands: Mapping[int, Size]) -> bool:
    """Whether each row surely sees the column at its own place."""
    return not any(is_symbol(side) or side < 0 for band in bands for side in band.values())


def _pairs_of(band: Mapping[int, Size], S: Size, T: Size, offset: Size, p: int = 1, q: int = 1) -> Size:
    """Pairs of a band of so many rows and columns, of which the first row stands at column ``offset``.

    ``p`` times the place of a row lies beside ``q`` times that of a column. Rows take turns: the (q·i + k)-th sees as
    many columns as if each row stood p columns on.
    """
    if (p, q) != (1, 1):
        if q > p:
            return _pairs_of({-way: side for way, side in band.items()}, T, S, -offset, q, p)
        if q > _MOST_TURNS:
            raise _Unknown
        found: Size = 0
        for turn in range(q):
            rows = S if q == 1 else ceil_div(S - turn, q)
            up_to = floor_div(offset + p * turn + band[1], q) + 1 if 1 in band else None
            before = ceil_div(offset + p * turn - band[-1], q) if -1 in band else 0
            found = found + (rows * T if up_to is None else _stairs(rows, T, up_to, p))
            found = found - (_stairs(rows, T, before, p) if -1 in band else 0)
        return found if len(band) < 2 else maximum(0, found)
    own = None if offset == T - S and _is_ahead(band) else offset
    found = BandMask(own, band.get(-1), band.get(1)).pairs(S, T)
    return found if len(band) < 2 or sympy.sympify(sum(band.values()) + 1).is_nonnegative else maximum(0, found)


def _stairs(rows: Size, T: Size, first: Size, step: int) -> Size:
    """Columns of T that rows see of which the first sees ``first``, each other one ``step`` more than the one before.

    >>> _stairs(4, 7, -2, 3)                                               # none, 1, 4, all 7
    12
    """

    def above(first: Size) -> Size:
        """Σ over i < rows of max(0, first + step·i)."""
        if is_at_most(first + step * (rows - 1), 0):
            return 0
        none = 0 if is_at_most(0, first) else minimum(rows, maximum(0, ceil_div(-first, step)))
        many = rows - none
        return many * (first + step * none) + sizes.exact_div(step * many * (many - 1), 2)

    return above(first) - above(first - T)


def _exact(value: Any) -> Any:
    """A number or a formula as sympy's; a whole one of floating point as a whole one, as 1.0 is not 1 there."""
    found = sympy.sympify(value)
    return sympy.Integer(int(found)) if found.is_Float and int(found) == float(found) else found


class Elements:
    """The elements of a tensor: one formula, or several cases, each with the parts where it stands."""

    def __init__(self, shape: Sequence[Size], value: Any = None, cases: Mapping[Any, Parts] | None = None) -> None:
        self.shape = tuple(shape)
        self.cases = {_exact(+value): EVERYWHERE} if cases is None else cases

    @_if_told
    def visible(self, is_added: bool = False) -> Visible:
        """Where a truth value lets see, or a number that is added to scores and not surely very low."""
        shown = (
            parts
            for value, parts in self.cases.items()
            if ((value <= HIDDEN) != True if is_added else value != 0)  # noqa: E712
        )
        return Visible(self.shape, _either(*shown))

    def shown(self, number: int) -> Visible:
        """Where it is a number."""
        return Visible(self.shape, self.cases.get(sympy.Integer(number), NOWHERE))

    @_if_told
    def tested(self, test: Callable[[Any], Any]) -> Elements:
        """1 where a test of its values surely holds, else 0."""
        return Elements(self.shape, cases=_merged((sympy.Integer(test(v) == True), p) for v, p in self.cases.items()))  # noqa: E712

    def is_at_most(self, most: float) -> bool:
        """Whether all of them surely are."""
        return all((value <= most) == True for value in self.cases)  # noqa: E712

    def row(self) -> Elements | None:
        """One of its first axis, whichever, where they are alike."""
        own = place(-len(self.shape))
        is_told = any(own in form.free_symbols for form in self._forms())
        return None if is_told else Elements(self.shape[1:], cases=self.cases)

    def _forms(self) -> Iterator[Any]:
        """The formulas of values and of conditions."""
        for value, parts in self.cases.items():
            yield from (value, *(form for part in parts for form in part))

    @property
    def number(self) -> Any:
        """The number, or the formula of open sizes, that all of them are; None where they differ."""
        value, *others = self.cases
        return None if others or _axes_in(value) else value

    def moved(self, shape: Sequence[Size], at: Sequence[Any]) -> Elements | None:
        """The elements in another shape: where each of the first axes on is looked up, in places of the new one."""
        alone = {place(axis): sympy.S.Zero for axis in range(-len(shape), 0) if place(axis, shape) == 0}
        names = {place(axis - len(self.shape)): sympy.sympify(each).xreplace(alone) for axis, each in enumerate(at)}
        return self.renamed({name: each for name, each in names.items() if name != each}, shape)

    @_if_told
    def renamed(self, names: Mapping[Any, Any], shape: Sequence[Size]) -> Elements:
        """The elements in a shape, with other formulas for places, or for open sizes; None where they are not told."""
        if not names:
            return Elements(shape, cases=self.cases)
        cases = [
            (value.xreplace(names), [_moved(part, names) for part in parts]) for value, parts in self.cases.items()
        ]
        return Elements(shape, cases=_merged((value, _either(*parts)) for value, parts in cases))

    @property
    def open_sizes(self) -> set[Any]:
        """The open sizes in the formulas."""
        return {each for form in self._forms() for each in form.free_symbols - {*_axes_in(form).values()}}

    def line(self) -> tuple[Size, int, int] | None:
        """The first number, by how much each next one along an axis is larger, and this axis; None if not told."""
        value, *others = self.cases
        axis = next(iter(_axes_in(value)), -1)
        first = sizes.plain_number(value.xreplace({place(axis): sympy.S.Zero}))
        step = sympy.expand(value - first).coeff(place(axis))
        is_told = not others and step.is_Integer and sympy.expand(value - first - step * place(axis)) == 0
        return (first, int(step), axis) if is_told and not _axes_in(sympy.sympify(first)) else None

    def transposed(self, order: Sequence[int]) -> Elements | None:
        """The axes in another order."""
        rank = len(self.shape)
        at = [place(list(order).index(axis) - rank) for axis in range(rank)]
        return self.moved([self.shape[axis] for axis in order], at)

    def flipped(self, axes: Sequence[int]) -> Elements | None:
        """Backwards along axes, counted from the first."""
        at = [place(d - len(self.shape)) for d in range(len(self.shape))]
        return self.moved(self.shape, [self.shape[d] - 1 - x if d in axes else x for d, x in enumerate(at)])

    def rolled(self, shift: Size, axis: int) -> Elements | None:
        """The last ``shift`` along an axis before the others, or the first behind them where it is negative."""
        size, rank = self.shape[axis], len(self.shape)
        first = size - shift if is_at_most(0, shift) else -shift
        if not (is_at_most(0, first) and is_at_most(first, size)):
            return None
        parts = []
        for start, many in ((first, size - first), (0, first)):
            at = [place(d - rank) + (start if d == axis % rank else 0) for d in range(rank)]
            parts.append(self.moved((*self.shape[: axis % rank], many, *self.shape[axis % rank + 1 :]), at))
        return None if None in parts else joined([part for part in parts if part is not None], axis % rank - rank)

    def spread(self, shape: Sequence[Size], axes: Sequence[int] | None = None) -> Elements | None:
        """Repeated along axes that it lacks, or has one element along; ``axes`` are those of the result it has."""
        rank = len(shape)
        axes = range(rank - len(self.shape), rank) if axes is None else axes
        return self.moved(shape, [place(axis - rank) for axis in axes])

    def reshaped(self, shape: Sequence[Size]) -> Elements | None:
        """In another shape: axes split, or joined to one."""
        old, new, rank, at = list(self.shape), list(shape), len(shape), list[Any]()
        first = 0
        while old:
            taken, made = [old.pop(0)], list[Size]()
            while sizes.product(taken) != sizes.product(made):
                longer = first + len(made) == rank or (made and _is_shorter(product(taken), product(made)))
                if longer and not old:
                    return None
                if longer:
                    taken.append(old.pop(0))
                else:
                    made.append(new[first + len(made)])
            flat = sum(place(first + n - rank) * product(made[n + 1 :]) for n, size in enumerate(made) if size != 1)
            for n, size in enumerate(taken):
                behind = product(taken[n + 1 :])
                if size == 1:
                    at.append(0)
                elif len(taken) == 1 or (behind == 1 and product(taken[:n]) == 1):
                    at.append(flat)
                else:
                    row = sympy.floor(flat / behind)
                    at.append(row if product(taken[:n]) == 1 else row - size * sympy.floor(row / size))
            first += len(made)
        return self.moved(shape, at)


def _is_shorter(one: Size, other: Size) -> bool:
    """Whether a product of sizes lacks some of those of another."""
    if not (is_symbol(other) or is_symbol(one)):
        return bool(one < other)
    return bool(sympy.denom(sympy.cancel(other / one)) == 1)


def _merged(cases: Iterable[tuple[Any, Parts]]) -> dict[Any, Parts]:
    """Cases by their value; of two the one of fewer parts says where the other stands."""
    found: dict[Any, Parts] = {}
    for value, parts in cases:
        if parts:
            found[value] = _either(found.get(value, NOWHERE), parts)
    if len(found) > _MOST_CASES:
        raise _Unknown
    if len(found) == 2:
        fewest, other = sorted(found, key=lambda value: sum(map(len, found[value])) + len(found[value]))
        found[other] = _negated(found[fewest])
    return {value: parts for value, parts in found.items() if parts}


@_if_told
def joined(operands: Sequence[Elements], axis: int) -> Elements:
    """One behind the other along an axis, counted from the last; None where that is not told."""
    start: Any = sympy.S.Zero
    cases: list[tuple[Any, Parts]] = []
    for each in operands:
        behind, end = {place(axis): place(axis) - start}, start + each.shape[axis]
        here = _both(_at_least(place(axis) - start), _at_least(end - 1 - place(axis)))
        for value, parts in each.cases.items():
            cases.append((value.xreplace(behind), _either(*(_both(here, _moved(part, behind)) for part in parts))))
        start = end
    shape = list(operands[0].shape)
    shape[axis] = start
    return Elements(shape, cases=_merged(cases))


def counted_up(elements: Elements, axis: int) -> Elements | None:
    """Sums of one number up to each place along an axis, counted from the last."""
    number = elements.number
    return None if number is None else Elements(elements.shape, number * (place(axis, elements.shape) + 1))


def triangle(elements: Elements, shift: Any, upper: bool) -> Elements | None:
    """Zero above a diagonal, or below it."""
    rows = Elements(elements.shape, place(-2, elements.shape) + sympy.sympify(shift))
    kept = worked_out("less_equal" if upper else "greater_equal", rows, place(-1, elements.shape))
    return worked_out("where", kept, elements, 0)


@_if_told
def worked_out(name: str, *operands: Any) -> Elements:
    """What a function of elements or numbers gives, by its name; None where it has no formula."""
    function = FUNCTIONS.get(name.lower())
    if function is None or any(each is None for each in operands):
        raise _Unknown
    given = [each if isinstance(each, Elements) else Elements((), each) for each in operands]
    found: list[tuple[Any, Parts | None]] = []
    for chosen in every(*(each.cases.items() for each in given)):
        parts = [part for _, part in chosen]
        for value, where in function(*(value for value, _ in chosen)) if _if_told(_both)(*parts) != NOWHERE else ():
            if value is sympy.nan:
                raise _Unknown
            found.append((_exact(value), _if_told(_both)(*parts, where)))
    rest = {value for value, parts in found if parts is None}  # of too many parts: where no other value stands
    told = [(value, parts) for value, parts in found if parts is not None and value not in rest]
    if len(rest) > 1:
        raise _Unknown
    told += [(value, _negated(_either(*(parts for _, parts in told)))) for value in rest]
    return Elements(broadcast(*(each.shape for each in given)), cases=_merged(told))


def everywhere(value: Any, shape: Sequence[Size]) -> Elements | None:
    """A number, or elements that are repeated, in a shape."""
    found = worked_out("positive", value)
    return None if found is None else found.spread(shape)


def broadcast(*shapes: Sequence[Size]) -> tuple[Size, ...]:
    """The shape that operands have together: sizes stand from the last, and a 1 is repeated as often as needed.

    >>> broadcast((4, 1, 8), (6, 8))
    (4, 6, 8)
    """
    rank = max(map(len, shapes))
    columns = zip(*[(*[1] * (rank - len(shape)), *shape) for shape in shapes], strict=True)
    return tuple(next((size for size in column if is_symbol(size) or size != 1), 1) for column in columns)


_Cases: TypeAlias = "list[tuple[Any, Parts]]"


def _each(function: Callable[..., Any]) -> Callable[..., _Cases]:
    return lambda *values: [(function(*values), EVERYWHERE)]


def _test(find: Callable[[Any, Any], Parts], negated: bool = False) -> Callable[..., _Cases]:
    def cases(first: Any, second: Any) -> _Cases:
        parts = find(first, second)
        return [(int(not negated), parts), (int(negated), _negated(parts))]

    return cases


def _truth(function: Callable[..., Any]) -> Callable[..., _Cases]:
    """A function of truth values."""

    def cases(*values: Any) -> _Cases:
        if any(not value.is_number for value in values):
            raise _Unknown
        return [(int(function(*(value != 0 for value in values))), EVERYWHERE)]

    return cases


def _chosen(which: Any, yes: Any, no: Any) -> _Cases:
    if not which.is_number:
        raise _Unknown
    return [(no if which == 0 else yes, EVERYWHERE)]


def _larger(first: Any, second: Any) -> _Cases:
    parts = _not_below(first, second)
    return [(first, parts), (second, _negated(parts))]


def _not_below(first: Any, second: Any) -> Parts:
    if first.is_number and second.is_number:
        return EVERYWHERE if first >= second else NOWHERE
    if not (first.is_finite is not False and second.is_finite is not False):
        raise _Unknown
    return _at_least(first - second)


def _floored(first: Any, second: Any) -> Any:
    if not second.is_positive:
        raise _Unknown
    return sympy.floor(first / second)


def _truncated(a: Any) -> _Cases:
    if a.is_integer or a.is_finite is False:
        return [(a, EVERYWHERE)]
    whole, of = sympy.fraction(sympy.together(a))
    parts = _at_least(whole)
    up = sympy.floor(sympy.expand((whole + of - 1) / of)) if whole.is_integer and of.is_integer else -sympy.floor(-a)
    return [(sympy.floor(a), parts), (up, _negated(parts))]


#: Functions by the names that numpy, PyTorch, JAX and ONNX have for them, in small letters.
_SPELLED: Mapping[str, Callable[..., _Cases]] = {
    "positive identity": _each(lambda a: a), "negative neg": _each(lambda a: -a),
    "add": _each(lambda a, b: a + b), "subtract sub": _each(lambda a, b: a - b),
    "multiply mul": _each(lambda a, b: a * b), "true_divide": _each(lambda a, b: a / b),
    "floor_divide": _each(_floored), "remainder mod": _each(lambda a, b: a - b * _floored(a, b)),
    "floor": _each(lambda a: sympy.floor(a)), "trunc": _truncated, "absolute abs": lambda a: _larger(a, -a),
    "maximum max": _larger, "minimum min": lambda a, b: [(-x, parts) for x, parts in _larger(-a, -b)],
    "greater_equal greaterorequal ge": _test(_not_below), "less lt": _test(_not_below, True),
    "less_equal lessorequal le": _test(lambda a, b: _not_below(b, a)),
    "greater gt": _test(lambda a, b: _not_below(b, a), True),
    "equal eq": _test(_equal), "not_equal ne": _test(_equal, True),
    "logical_and and": _truth(lambda a, b: a and b), "logical_or or": _truth(lambda a, b: a or b),
    "logical_xor xor": _truth(lambda a, b: a != b), "logical_not not": _truth(lambda a: not a), "where": _chosen,
}  # fmt: skip
FUNCTIONS = {name: function for names, function in _SPELLED.items() for name in names.split()}


def converted(elements: Elements, dtype: str) -> Elements | None:
    """In another number format: a truth value, or cut to a whole number."""
    if dtype == "bool":
        return worked_out("not_equal", elements, 0)
    return worked_out("trunc", elements) if dtype.startswith(("int", "uint")) else elements


def of_values(values: Any) -> Elements | None:
    """A constant: one number, positions in order along an axis, or a band of one number among another."""
    values = np.asarray(values)
    if not 0 < values.size <= _LARGEST or values.dtype.kind not in "biuf":
        return None
    values = values.astype(int) if values.dtype.kind in "bu" else values
    shape, low, high = values.shape, values.min(), values.max()
    if low == high:
        return Elements(shape, low.item())
    matrix = values.reshape(shape[-2:]) if all(n == 1 for n in shape[:-2]) else values
    if matrix.ndim == 1 and matrix.dtype.kind in "iu" and len(steps := np.unique(np.diff(matrix)).tolist()) == 1:
        return Elements(shape, matrix[0].item() + steps[0] * place(-1))
    numbers = np.unique(matrix).tolist() if matrix.ndim < 3 else []
    if len(numbers) == 2 and matrix.ndim == 2:
        rows, columns = matrix.shape
        apart = np.subtract.outer(np.arange(rows), np.arange(columns))
        for one, other in (numbers, numbers[::-1]):
            seen = matrix == other
            least, most = apart[seen].min().item(), apart[seen].max().item()
            if np.array_equal(seen, (apart >= least) & (apart <= most)):
                form = place(-2, matrix.shape) - place(-1, matrix.shape)
                inside = [*([form - least] if least > 1 - columns else []), *([most - form] if most < rows - 1 else [])]
                here = frozenset((frozenset(inside),))
                return Elements(shape, cases={_exact(other): here, _exact(one): _negated(here)})
    return _of_boxes(shape, matrix, numbers) if len(numbers) <= _MOST_CASES and matrix.ndim < 3 else None


@_if_told
def _of_boxes(shape: Sequence[int], matrix: Any, numbers: Sequence[Any]) -> Elements:
    """A constant of a few numbers, each of which stands in a few boxes."""
    cases: dict[Any, Parts] = {}
    for number in numbers:
        found = boxes_where(matrix == number)
        if elements_of(tuple(found), matrix.shape) != np.count_nonzero(matrix == number):
            raise _Unknown
        runs = [edges for box in found for edges in every(*map(_in_runs, box))]
        conditions = (
            [
                each
                for axis, (first, last, _) in enumerate(run, -matrix.ndim)
                for each in _within(axis, first, last, shape)
            ]
            for run in runs
        )
        cases[_exact(number)] = _either(*(frozenset((frozenset(each),)) for each in conditions))
    return Elements(shape, cases=cases)


def _in_runs(edges: Edges) -> list[Edges]:
    """Places as runs without gaps."""
    return [edges] if edges[2] == 1 else [(n, n + 1, 1) for n in range(*edges)]


def _within(axis: int, first: int, last: int, shape: Sequence[int]) -> list[Any]:
    """The conditions that a place along an axis lies from one to another."""
    own = place(axis, shape)
    return [*([own - first] if first else []), *([last - 1 - own] if last < shape[axis] else [])]


#: How a front end is asked for the elements of an operand: those that are zeros, that are very low, or very large.
ZERO, LOW, LARGE = "zero", "low", "large"


def hidden_by(
    name: str,
    given: Sequence[Any],
    shape: Sequence[int],
    kind: str,
    held: Callable[[Any, str], Any],
    lines: Sequence[int] = (),
    axis: int = -1,
) -> Any:
    """Which elements of a result are zeros or very low by a mask that a program knows; None where that is none.

    ``name`` is numpy's; a choice takes its first case where the mask is 0. ``held`` says it of an operand. ``lines`` is
    the shape of what is subtracted, ``axis`` that of a softmax.

    >>> scores, low, mask = None, np.float32(-1e9), np.tri(2, dtype=bool)
    >>> hidden_by("where", [mask, low, scores], (2, 2), LOW, values_held)
    array([[False,  True],
           [False, False]])
    """

    if any(map(is_symbol, shape)):
        return _hidden_of_open(name, given, shape, kind, held, lines, axis)

    def own(operand: Any, of: str = kind) -> Any:
        mask = held(operand, of)
        return None if mask is None or isinstance(mask, Elements) else once(mask)

    found: list[Any] = []
    if name == "where":
        which, *cases = given
        found = [(which == at) & mask for at, case in enumerate(cases) if (mask := own(case)) is not None]
    elif name in ("exp", "softmax") and kind == ZERO:
        found = [own(given[0], LOW)]
        if name == "softmax" and found[0] is not None:
            found = [found[0] & ~found[0].all(axis, keepdims=True)]  # of scores that are all as low none is
    elif name == "subtract" and kind == LOW:
        first = held(given[0], kind)
        found = [None if first is None else below_the_largest(first, lines), own(given[1], LARGE)]
    elif name in ("add", "multiply", "divide") and kind == (LOW if name == "add" else ZERO):
        found = [own(each) for each in given[: 1 if name == "divide" else 2]]
    elif name == "positive":
        found = [own(given[0])]
    known = [once(mask) for mask in found if mask is not None and mask.any()]
    if not known:
        return None
    return np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*known)) if known[1:] else known[0], shape)


def _hidden_of_open(
    name: str,
    given: Sequence[Any],
    shape: Sequence[Size],
    kind: str,
    held: Callable[[Any, str], Any],
    lines: Sequence[Size],
    axis: int,
) -> Elements | None:
    """The same of open sizes, as elements that are 1 where they are hidden; ``held`` says it so of an operand."""

    def own(operand: Any, of: str = kind) -> Elements | int:
        mask = held(operand, of)
        found = of_values(mask) if isinstance(mask, np.ndarray) else mask
        return found if isinstance(found, Elements) else int(mask is not None and bool(np.all(mask)))

    found: Elements | int | None = 0
    if name == "where" and isinstance(given[0], Elements):
        found = worked_out("where", given[0], own(given[2]), own(given[1]))
    elif name in ("exp", "softmax") and kind == ZERO:
        found = own(given[0], LOW)
        is_told = name != "softmax" or (axis % len(shape) == len(shape) - 1 and each_row_sees(found, shape))
        found = found if is_told else None
    elif name == "subtract" and kind == LOW:  # the largest of each row
        found = own(given[0])
        of_rows = (*shape[len(shape) - len(lines) : -1], 1)
        found = found if not lines or (tuple(lines) == of_rows and each_row_sees(found, shape)) else None
    elif name in ("add", "multiply") and kind == (LOW if name == "add" else ZERO):
        found = worked_out("logical_or", *map(own, given[:2]))
    elif name in ("positive", "divide") and (kind == ZERO or name == "positive"):
        found = own(given[0])
    return found.spread(shape) if isinstance(found, Elements) and sympy.S.One in found.cases else None


def each_row_sees(hidden: Any, shape: Sequence[Size]) -> bool:
    """Whether each row surely has an element that is not hidden: its first, or in a square that on the diagonal."""
    shown = hidden.shown(0).parts if isinstance(hidden, Elements) else NOWHERE
    places = [sympy.S.Zero, *([place(-2)] if shape[-2:-1] == shape[-1:] else [])]
    told = (_if_told(_moved)(part, {place(-1): at}) for part in shown for at in places)
    return EVERYWHERE in told


def values_held(values: Any, kind: str) -> Any:
    """Where numbers are zeros, very low or very large; None where they are not known."""
    if values is None:
        return None
    if isinstance(values, Elements):
        return values.tested(lambda v: v == 0 if kind == ZERO else v <= HIDDEN if kind == LOW else v >= -HIDDEN)
    own = once(values) if isinstance(values, np.ndarray) else values  # PyTorch's may have formats that numpy has not
    found = own == 0 if kind == ZERO else own <= HIDDEN if kind == LOW else own >= -HIDDEN
    return np.broadcast_to(np.asarray(found), np.shape(values))
