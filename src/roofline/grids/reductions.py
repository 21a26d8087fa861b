"""Reductions of rows that are merged in any order to the same bits: a Pareto front, the best rows, a histogram.

>>> import numpy as np
>>> best = Top(2, "lower")
>>> one = best.reduced({"lower": np.array([3.0, 1.0, 2.0])}, np.array([0, 1, 2]))
>>> other = best.reduced({"lower": np.array([1.0, 5.0])}, np.array([3, 4]))
>>> best.merged(one, other)["row"].tolist()                       # of equal rows the first
[1, 3]
>>> front = Front(("lower", "throughput"))
>>> columns = {"lower": np.array([1.0, 2.0, 3.0, 3.0]), "throughput": np.array([5.0, 9.0, 7.0, 10.0])}
>>> front.reduced(columns, np.arange(4))["row"].tolist()
[0, 1, 3]
>>> counts = Histogram("lower").reduced({"lower": np.array([1.0, 1.01, 2.0])}, np.arange(3))
>>> [edge.hex() for edge in bin_edges(counts["bin"][:1])], counts["rows"].tolist()
(['0x1.0000000000000p+0'], [2, 1])

Each is a function of sets of rows: numbers are compared and counted, never added up, and ties go to the lower row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from roofline.errors import InputError, suggest
from roofline.frozen import dataclass
from roofline.lazy import np
from roofline.quantity import whole_number
from roofline.signatures import spelled
from roofline.sizes import Codes

#: Columns of which more is better; of the others less is.
MORE_IS_BETTER = frozenset(("attainable", "throughput", "intensity", "utilisation"))

#: Bins of a histogram are 16 from a number to twice it: the highest 4 bits of its fraction of 52.
_SHIFT = 52 - 4

#: Rows of a front by which others are sifted before they are sorted.
_SIFTERS = 8

#: What a reduction keeps: arrays by name, ``row`` among them where it keeps rows.
State = Mapping[str, Any]


class RowReduction(ABC):
    """A reduction of rows: ``reduced`` of some rows, ``merged`` of two states. ``word`` is its own in ``keep``."""

    __slots__ = ()
    word: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """What it is called in ``keep`` and in file names."""
        return "-".join((self.word, *self.columns))

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns it looks at."""

    @abstractmethod
    def reduced(self, columns: Mapping[str, Any], rows: Any, before: State | None = None) -> State:
        """Reduce rows by their numbers; those that what was kept ``before`` beats may be left out."""

    @abstractmethod
    def merged(self, one: State, other: State) -> State:
        """Merge two states."""


def _oriented(name: str, values: Any) -> Any:
    """A column of which less is better."""
    return -values if name in MORE_IS_BETTER else values


def _joined(one: State, other: State) -> dict[str, Any]:
    return {name: np.concatenate([one[name], other[name]]) for name in one}


@dataclass(frozen=True, slots=True)
class Top(RowReduction):
    """The ``most`` best rows by a column."""

    word: ClassVar[str] = "top"
    most: int
    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def reduced(self, columns: Mapping[str, Any], rows: Any, before: State | None = None) -> State:
        values = columns[self.column]
        order = _oriented(self.column, values)
        if before is not None and len(before["row"]) == self.most:
            worst = _oriented(self.column, before[self.column][-1])
            chosen = np.flatnonzero(order <= worst)
        elif len(order) > 2 * self.most:
            chosen = np.flatnonzero(order <= np.partition(order, self.most - 1)[self.most - 1])
        else:
            chosen = np.arange(len(order))
        return self._best({self.column: values[chosen], "row": rows[chosen]})

    def merged(self, one: State, other: State) -> State:
        return self._best(_joined(one, other))

    def _best(self, found: State) -> State:
        order = np.lexsort((found["row"], _oriented(self.column, found[self.column])))[: self.most]
        return {name: values[order] for name, values in found.items()}


@dataclass(frozen=True, slots=True)
class Front(RowReduction):
    """The rows that no other beats in one of the columns without being worse in another, by the first column.

    Of rows that are equal in all of them the first is kept.
    """

    word: ClassVar[str] = "front"
    over: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.over

    def reduced(self, columns: Mapping[str, Any], rows: Any, before: State | None = None) -> State:
        if not len(rows):
            return {name: columns[name] for name in self.over} | {"row": rows}
        keys = [_oriented(name, columns[name]) for name in self.over]
        first = [int(np.argmin(key)) for key in keys]
        known = {name: columns[name][first] for name in self.over} | {"row": rows[first]}
        if before is not None and len(before["row"]):
            known = _joined(known, before)
        # rows that are not less in any column than one that is known and before them are sifted out
        points = np.stack([_oriented(name, known[name]) for name in self.over])
        at = np.unique(np.linspace(0, points.shape[1] - 1, _SIFTERS).round().astype(int))
        left: Any = slice(None)
        for i in (at[len(at) // 2], *at):
            less = keys[0] < points[0, i]
            for key, value in zip(keys[1:], points[1:, i], strict=True):
                less |= key < value
            chosen = np.flatnonzero(less)
            keys = [key[chosen] for key in keys]
            left = chosen if isinstance(left, slice) else left[chosen]
        sifted = {name: columns[name][left] for name in self.over} | {"row": rows[left]}
        return self._undominated(_joined(sifted, known))

    def merged(self, one: State, other: State) -> State:
        return self._undominated(_joined(one, other))

    def _undominated(self, found: State) -> State:
        """Sort by the columns, then the row; keep each that no one before it equals or beats."""
        keys = [_oriented(name, found[name]) for name in self.over]
        order = np.lexsort((found["row"], *reversed(keys)))
        first, *rest = [values[order] for values in keys]
        if len(rest) == 1:  # the least so far of the second column decides
            least = np.minimum.accumulate(rest[0])
            kept = np.r_[True, rest[0][1:] < least[:-1]] if len(order) else np.zeros(0, bool)
            return {name: values[order[kept]] for name, values in found.items()}
        left, points = np.arange(len(first)), np.stack([first, *rest])
        chosen = []
        while len(left):
            chosen.append(left[0])
            left = left[(points[:, left] < points[:, left[:1]]).any(axis=0)]
        picked = order[np.asarray(chosen, dtype=np.int64)]
        return {name: values[picked] for name, values in found.items()}


@dataclass(frozen=True, slots=True)
class Histogram(RowReduction):
    """How many rows there are in each bin of a column: 16 bins from a number to twice it, or each name."""

    word: ClassVar[str] = "histogram"
    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def reduced(self, columns: Mapping[str, Any], rows: Any, before: State | None = None) -> State:
        values = columns[self.column]
        if isinstance(values, Codes):
            counts = np.bincount(values.codes, minlength=len(values.names))
            named = {name: int(count) for name, count in zip(values.names, counts, strict=True) if count}
            names = sorted(named)
            return {"bin": np.asarray(names, dtype=np.str_), "rows": np.asarray([named[n] for n in names], np.int64)}
        bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64) >> _SHIFT
        if not len(bits):
            return {"bin": bits, "rows": bits}
        least = bits.min()
        if bits.max() - least > 2**20:
            found, each = np.unique(bits, return_counts=True)
            return {"bin": found, "rows": each}
        counts = np.bincount(bits - least)
        taken = np.flatnonzero(counts)
        return {"bin": taken + least, "rows": counts[taken].astype(np.int64)}

    def merged(self, one: State, other: State) -> State:
        if not len(one["bin"]) or not len(other["bin"]):
            return other if not len(one["bin"]) else one
        both = _joined(one, other)
        bins, at = np.unique(both["bin"], return_inverse=True)
        rows = np.zeros(len(bins), np.int64)
        np.add.at(rows, at, both["rows"])
        return {"bin": bins, "rows": rows}


@dataclass(frozen=True, slots=True)
class ForEach(RowReduction):
    """A front or the best rows for each value of a column by itself: ``front/context``.

    >>> import numpy as np
    >>> columns = {"lower": np.array([3.0, 1.0, 2.0]), "context": np.array([64, 64, 512])}
    >>> found = ForEach(Top(1, "lower"), "context").reduced(columns, np.arange(3))
    >>> found["context"].tolist(), found["row"].tolist()
    ([64, 512], [1, 2])
    """

    of: RowReduction
    by: str

    @property
    def name(self) -> str:
        return f"{self.of.name}-each-{self.by}"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.of.columns, self.by)))

    def reduced(self, columns: Mapping[str, Any], rows: Any, before: State | None = None) -> State:
        taken = {name: columns[name] for name in self.columns}
        if isinstance(taken[self.by], Codes):
            taken[self.by] = np.asarray(taken[self.by].decode(), dtype=np.str_)
        parts = self._of_each({**taken, "row": rows})
        return self._together({value: self.of.reduced(part, part["row"]) for value, part in parts.items()})

    def merged(self, one: State, other: State) -> State:
        first, second = map(self._of_each, (one, other))
        both = {value: self.of.merged(first[value], second[value]) for value in first.keys() & second.keys()}
        every = {**first, **second, **both}
        return self._together({value: every[value] for value in sorted(every)})

    def _of_each(self, rows: State) -> dict[Any, State]:
        """Rows by their value of the column, in its order; no rows are those of one value."""
        values = np.unique(rows[self.by])
        order = np.argsort(rows[self.by], kind="stable")
        ends = np.searchsorted(rows[self.by][order], values, side="right")
        places = np.split(order, ends[:-1]) if len(values) else []
        return {
            value: {name: each[place] for name, each in rows.items()}
            for value, place in zip(values.tolist(), places, strict=True)
        }

    def _together(self, parts: Mapping[Any, State]) -> State:
        """The rows of all values, one value after the other."""
        if not parts:
            return {name: np.zeros(0) for name in self.columns} | {"row": np.zeros(0, np.int64)}
        each = [{**part, self.by: np.full(len(part["row"]), value)} for value, part in parts.items()]
        return {name: np.concatenate([part[name] for part in each]) for name in each[0]}


def bin_edges(bins: Any) -> Any:
    """The least number of each bin: its bits, the rest zero. Bins of names have none."""
    return (np.asarray(bins, dtype=np.int64) << _SHIFT).view(np.float64)


@dataclass(frozen=True, slots=True)
class KeepRequest:
    """What is kept of a grid: reductions, and the rows themselves where they are asked for."""

    reductions: tuple[RowReduction, ...]
    rows: bool = False

    @classmethod
    def read(cls, text: str, known: Sequence[str], usual: Sequence[str]) -> KeepRequest:
        """Read ``front,top=100,histogram=lower``; ``known`` are the columns, ``usual`` those of a front.

        >>> KeepRequest.read("front,top=100:upper,rows", ["lower", "upper", "bound_by"], ("lower", "upper"))
        KeepRequest(reductions=(Front(over=('lower', 'upper')), Top(most=100, column='upper')), rows=True)
        """
        found: dict[str, RowReduction] = {}
        rows = False
        for item in filter(None, (part.strip() for part in text.split(","))):
            asked, each_of, by = (part.strip() for part in item.partition("/"))
            kind, equals, value = (part.strip() for part in asked.partition("="))
            if each_of and not by:
                raise InputError(f"{spelled('keep', item)} names no column after /", hint="as in front/batch")
            if by and kind in ("rows", "histogram"):
                raise InputError(f"{spelled('keep', item)} is not for each value", hint="front and top are")
            if kind == "rows" and not equals:
                rows = True
            elif kind in _READERS:
                each = _READERS[kind](value, known, usual)
                each = ForEach(each, _column(by, known, names=True)) if by else each
                found[each.name] = each
            else:
                hint = suggest(item, ("rows", *EXAMPLES), what="words")
                raise InputError(f"{spelled('keep', item)} is not understood", hint=hint)
        if not found and not rows:
            raise InputError(
                f"{spelled('keep').rstrip('=')} names nothing to keep", hint=f"some of rows, {', '.join(EXAMPLES)}"
            )
        return cls(tuple(found.values()), rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that reductions look at."""
        return tuple(dict.fromkeys(name for each in self.reductions for name in each.columns))


def columns_to_keep(text: str | None) -> list[str]:
    """The names of columns in ``keep``, so that a table makes those too.

    >>> columns_to_keep("front=time_per_token:throughput,top=100:upper/bound_by,top=5,histogram=lower,front,rows")
    ['time_per_token', 'throughput', 'upper', 'bound_by', 'lower']
    """
    asked = [item.partition("/") for item in (text or "").split(",")]
    given = (name.strip() for item, _, by in asked for name in (*item.partition("=")[2].split(":"), by))
    return list(dict.fromkeys(name for name in given if name and whole_number(name) is None))


#: How each kind of reduction is asked for.
EXAMPLES = ("front", "front=lower:memory", "front/batch", "top=100", "top=100:lower", "histogram=lower")


def _column(name: str, known: Sequence[str], *, names: bool = False) -> str:
    if name not in known or (name == "bound_by" and not names):
        shown = [each for each in known if each != "bound_by" or names]
        raise InputError(
            f"{spelled('keep').rstrip('=')}: no column {name!r} of numbers", hint=suggest(name, shown, what="columns")
        )
    return name


def _front(value: str, known: Sequence[str], usual: Sequence[str]) -> Front:
    over = tuple(name.strip() for name in value.split(":")) if value else tuple(usual)
    if len(set(over)) < 2:
        raise InputError(
            f"{spelled('keep', f'front={value}')} is over one column", hint="two or more, as in front=lower:memory"
        )
    return Front(tuple(_column(name, known) for name in over))


def _top(value: str, known: Sequence[str], usual: Sequence[str]) -> Top:
    count, _, name = value.partition(":")
    rows = whole_number(count)
    if not rows:
        raise InputError(
            f"{spelled('keep', f'top={value}')} is no number of rows", hint="as in top=100 or top=100:lower"
        )
    return Top(rows, _column(name.strip() or _first(usual, f"top={rows}"), known))


def _first(usual: Sequence[str], kept: str) -> str:
    """The column that is usually kept, which rows of a question's own columns may not have."""
    if not usual:
        joint = ":" if "=" in kept else "="
        raise InputError(
            f"{spelled('keep', kept)} names no column", hint=f"as in {kept}{joint}COLUMN, of those that are shown"
        )
    return usual[0]


#: Reads what stands after ``=``, given the columns that are known and those of a usual front.
Reader = Callable[[str, Sequence[str], Sequence[str]], RowReduction]

_READERS: dict[str, Reader] = {
    "front": _front, "top": _top,
    "histogram": lambda value, known, usual: Histogram(_column(value or _first(usual, "histogram"), known, names=True)),
}  # fmt: skip
