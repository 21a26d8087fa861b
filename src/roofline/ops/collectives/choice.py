"""The choice of a collective's algorithm on a machine: the fastest at its size, or the one asked for.

>>> from roofline.hardware import chip
>>> node = chip("h100:8")
>>> for size in (2**13, 2**20):
...     print(cost("AllReduce", node.mesh.select("X"), size, algorithm=Chooser(machine=node)))
CollectiveCost(AllReduce over X, 8 chips: direct; wire/X: 57344, hops/X: 1)
CollectiveCost(AllReduce over X, 8 chips: in-switch; wire/X: 1048576, hops/X: 2)
>>> for regime in regimes("AllReduce", node.mesh.select("X"), node):
...     print(f"{regime.algorithm} from {regime.start:.0f} bytes on")
direct from 0 bytes on
in-switch from 77143 bytes on

An array of sizes takes the fastest for each of them; a formula has a piece for each:

>>> import numpy as np
>>> from roofline.sizes import symbol
>>> found = cost("AllReduce", node.mesh.select("X"), np.array([2.0**13, 2.0**20]), algorithm=Chooser(machine=node))
>>> found.algorithm, found.work.total("wire").tolist()
('direct or in-switch', [57344.0, 1048576.0])
>>> print(cost("AllReduce", node.mesh.select("X"), symbol("V"), algorithm=Chooser(machine=node)).work.total("hops"))
Piecewise((1, V < 77142.8571428571), (2, True))

The time of an algorithm is the larger of two: that of the busiest link and that of the hops. Of equal ones, the
algorithm whose times add up to less is taken, then the one of fewer hops. Figures that are limits do not take part.
Where no latency is known it is the one of the least bytes. For an array of axis sizes, those within a tier take what it
can do, those beyond what all tiers can; where the number of chips is open, the one for large arrays is taken
(:func:`~roofline.ops.collectives.cost.default_algorithm`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import combinations, takewhile
from itertools import product as product_of
from typing import Any

from roofline.errors import InputError, check_one_of
from roofline.frozen import NamedTuple, dataclass, fields, replace
from roofline.hardware.machine import Machine, MeshAxis
from roofline.hardware.rate import rate, rates
from roofline.lazy import np, sympy
from roofline.ops.collectives.cost import CollectiveCost, algorithms, cost, default_algorithm, limit_reason
from roofline.ops.collectives.registry import KINDS, find_algorithm
from roofline.ops.collectives.routing import Density, TopKRouting
from roofline.quantity import format_quantity
from roofline.sizes import (
    TIE,
    Size,
    chip_counts,
    is_array,
    is_symbol,
    maximum,
    minimum,
    of_largest,
    product,
    sums_by_name,
)
from roofline.work import Key, Op, Work

#: One algorithm for all collectives that it does, or one for each kind.
Algorithms = str | Mapping[str, str] | None

#: Asks for the fastest, as nothing does.
AUTO = "auto"

#: Bytes at which an array is large.
_LARGE = 2**60

#: Ways of several collectives that are compared, at most: a closed form has one for each.
_MOST_TOGETHER = 31

#: By how much another algorithm must be faster to be named beside the one that was asked for.
_WORTH_SAYING = 1.01


class _Asked(NamedTuple):
    """A collective whose algorithm is chosen."""

    kind: str
    axes: tuple[MeshAxis, ...]
    density: Density
    dtype: str
    machine: Machine | None

    def cost(self, nbytes: Size, algorithm: str | None = None) -> CollectiveCost:
        """Count it by an algorithm; None takes the one for large arrays."""
        return cost(self.kind, self.axes, nbytes, algorithm, self.density, self.dtype, self.machine)

    @property
    def feasible(self) -> tuple[str, ...]:
        """The algorithms that the network can do."""
        return feasible_algorithms(self.kind, self.axes, self.density, self.dtype)

    @property
    def is_of_numbers(self) -> bool:
        """Whether the sizes of its axes and its density are single numbers."""
        return all(_is_number(size) for size in (*(axis.size for axis in self.axes), self.density))

    @property
    def counts(self) -> list[Any]:
        """The numbers of chips that are open in the sizes of its axes."""
        return [each for axis in self.axes for each in chip_counts(axis.size)]


@lru_cache(maxsize=1024)
def _on_chips(asked: _Asked, count: Any, value: int) -> _Asked:
    """What is asked where a number of chips that is open has a value."""

    def put(size: Any) -> Any:
        return int(size.subs(count, value)) if is_symbol(size) else size

    def placed(each: Any) -> Any:
        return replace(each, size=put(each.size), below=put(each.below))

    known = (replace(a, size=put(a.size), segments=tuple(map(placed, a.segments))) for a in asked.axes)
    return asked._replace(axes=tuple(known))


@dataclass(frozen=True, slots=True, eq=False)
class Chooser:
    """The algorithms wanted for collectives, and the machine whose rates decide which is the fastest.

    With ``compares``, the note of a collective names an algorithm that is faster than the one that was asked for. A
    search over plans reads no notes and leaves it out.

    >>> from roofline.hardware import chip
    >>> Chooser("in-switch").name("AllReduce"), Chooser("in-switch").name("AllGather")
    ('in-switch', None)
    >>> Chooser({"AllGather": "book"}).name("AllGather")
    'book'
    """

    wanted: Algorithms = None
    machine: Machine | None = None
    compares: bool = True

    def name(self, kind: str) -> str | None:
        """Name the algorithm that was asked for where it does such a collective; None asks for the fastest."""
        wanted = self.wanted
        if wanted is None:
            return None
        if not isinstance(wanted, str):
            for name in wanted:
                check_one_of(f"unknown collective {name!r}", name, KINDS, "collectives")
            return wanted.get(kind)
        found = find_algorithm(wanted)
        return wanted if found is None or kind in found.kinds else None

    def cost(
        self, kind: str, axes: Sequence[MeshAxis], nbytes: Size, density: Density, dtype: str = ""
    ) -> CollectiveCost:
        """Count a collective by the fastest algorithm, or by the one asked for; say what would be faster than that."""
        asked = _Asked(kind, tuple(axes), density, dtype, self.machine)
        name = self._name_for(asked)
        if name is None and self.machine is not None:
            return self._passed_over(self._fastest(asked, nbytes))
        found = asked.cost(nbytes, name)
        return found if name is None else self._compared(found, asked)

    def _name_for(self, asked: _Asked) -> str | None:
        """The algorithm that was asked for, or None where the fastest is taken."""
        name = self.name(asked.kind)
        if name is not None and name.strip().lower() == AUTO and self.machine is not None:
            return None
        others = isinstance(self.wanted, str) and _only_others(self.wanted, asked.kind, asked.axes, asked.dtype)
        return None if others else name

    def open_to(self, op: Op) -> _Asked | None:
        """What a collective asks for that goes by its fastest algorithm; None of other operations."""
        if op.kind != "collective" or self.machine is None or self.machine.mesh is None or "borders" in op.options:
            return None
        axes = tuple(self.machine.mesh.select(op.options["axes"]))
        dtype = next((tensor.dtype for tensor in (*op.reads, *op.writes)), "")
        asked = _Asked(op.options["collective"], axes, op.options["density"], dtype, self.machine)
        is_known = asked.is_of_numbers or (asked.counts and _is_number(asked.density))
        is_open = is_known and not isinstance(asked.density, TopKRouting)
        return asked if is_open and self._name_for(asked) is None else None

    def ways(self, ops: Sequence[Op]) -> tuple[Mapping[int, _Asked], Sequence[tuple[str, ...]]]:
        """Collectives that may go by one algorithm or another, by their places, and the ways of all to choose among.

        Of an open number of chips these are the ways that there are at any. There is no choice where one goes alone.
        """
        asked = {at: each for at, op in enumerate(ops) if (each := self.open_to(op)) is not None}
        if self.machine is None or len(asked) < 2:
            return {}, ()
        tried = [tuple(asked.values())]
        for count in dict.fromkeys(count for each in asked.values() for count in each.counts):
            tried = [tuple(_on_chips(each, count, n) for each in every) for every in tried for n in count.values]
        named = list(dict.fromkeys(way for each in tried for way in _ways_together(each, self.machine)))
        return (asked, named) if len(named) > 1 else ({}, ())

    def _fastest(self, asked: _Asked, nbytes: Size) -> CollectiveCost:
        assert self.machine is not None
        if asked.counts:
            return _of_each_count(asked, _open_regimes(asked, self.machine), nbytes)
        if not asked.is_of_numbers:
            return _of_each_mesh(asked, nbytes, self.machine)
        if _is_number(nbytes):
            return _of_one_size(asked, asked.density, nbytes, self.machine)
        return _of_each_size(asked, nbytes, self.machine)

    def _passed_over(self, found: CollectiveCost) -> CollectiveCost:
        """Say of a collective which algorithm was asked for that does no such collective here."""
        wanted = self.wanted if isinstance(self.wanted, str) else AUTO
        if wanted.strip().lower() == AUTO or not self.compares or not found.note:
            return found
        return replace(found, note=f"{found.note}; {wanted} does no {found.kind} here")

    def _compared(self, found: CollectiveCost, asked: _Asked) -> CollectiveCost:
        """Name the fastest algorithm at this size beside the one that was asked for, where it is another."""
        if self.machine is None or not self.compares or not _is_number(found.nbytes) or not _is_number(found.chips):
            return found
        best = self._fastest(asked, found.nbytes)
        ours, theirs = (_times(each.work, self.machine)[0] for each in (found, best))
        if not theirs or ours < theirs * _WORTH_SAYING:
            return found
        times = f"{format_quantity(theirs, 's')} rather than {format_quantity(ours, 's')}"
        return replace(found, note=f"{found.note}; at this size {best.algorithm} would take {times}")


def chosen_together(
    ops: Sequence[Op], loads: Sequence[Work], chooser: Chooser, way: int | None = None
) -> tuple[Op, ...]:
    """Operations, which move ``loads`` in memory, with the algorithms by which they are the fastest together.

    Times on a link add up, so one that is slower by itself may leave a busy link to others. Each goes by its own
    fastest unless one of :meth:`Chooser.ways` is faster together. With open sizes each keeps its own, or takes that of
    a ``way``: 0 is its own, the others are those to choose among.
    """
    machine, (asked, named) = chooser.machine, chooser.ways(ops)
    own = {at: ops[at] for at in asked}
    if machine is None or not named or way == 0:
        return tuple(ops)
    is_open = any(
        is_symbol(amount) for op, load in zip(ops, loads, strict=True) for _, amount in (op.work + load).items()
    )
    if is_open and way is None:
        said = "each collective by itself; of plain numbers the fastest of all together are taken"
        return tuple(replace(op, note=f"{op.note}; {said}") if at in own else op for at, op in enumerate(ops))

    def spent(part: Mapping[int, Op]) -> dict[str, Size]:
        each = ((op.repeat, _by_resource(op.work + loads[at], machine, op)) for at, op in part.items())
        return sums_by_name((name, time * repeat) for repeat, times in each for name, time in times.items())

    def by(names: Sequence[str]) -> dict[int, Op]:
        return {at: _by(ops[at], each, name) for name, (at, each) in zip(names, asked.items(), strict=True)}

    if way is not None:
        return tuple(by(named[way - 1]).get(at, op) for at, op in enumerate(ops))
    others = spent({at: op for at, op in enumerate(ops) if at not in own})
    ways, times = [own, *map(by, named)], list[Size]()
    for each in ways:
        busy = spent(each)
        times.append(maximum(*(busy.get(name, 0) + others.get(name, 0) for name in {**others, **busy})))
    least = minimum(*times) * (1 + TIE)
    if all(map(_is_number, times)):
        chosen = next(each for each, time in zip(ways, times, strict=True) if time <= least)
        return tuple(chosen.get(at, op) for at, op in enumerate(ops))
    first = [np.where(time <= least, -place, -len(times)) for place, time in enumerate(times)]
    return tuple(_of_ways(first, [each[at] for each in ways]) if at in own else op for at, op in enumerate(ops))


@lru_cache(maxsize=1024)
def _ways_together(asked: tuple[_Asked, ...], machine: Machine) -> tuple[tuple[str, ...], ...]:
    """The ways that several collectives may go, an algorithm for each.

    Each is free to go by its own, or all of one kind over the same axes go by one where that makes more ways than
    :data:`_MOST_TOGETHER`. There is none where there are still more.
    """
    for alike in (range(len(asked)), [asked.index(each) for each in asked]):
        named = {first: _undominated(asked[first], machine) for first in alike}
        if product(map(len, named.values())) <= _MOST_TOGETHER:
            ways = (dict(zip(named, names, strict=True)) for names in product_of(*named.values()))
            return tuple(tuple(way[first] for first in alike) for way in ways)
    return ()


@lru_cache(maxsize=1024)
def _undominated(asked: _Asked, machine: Machine) -> tuple[str, ...]:
    """The algorithms that another one is not as fast as on every link and in the hops."""
    times = {name: _by_resource(asked.cost(_LARGE, name).work, machine) for name in asked.feasible}

    def as_fast(one: str, other: str) -> bool:
        return all(time <= times[other].get(name, 0) for name, time in times[one].items())

    kept: list[str] = []
    for name in times:
        if not any(
            as_fast(other, name) and (other in kept or not as_fast(name, other)) for other in times if other != name
        ):
            kept.append(name)
    return tuple(kept)


def _by(op: Op, asked: _Asked, algorithm: str) -> Op:
    """A collective by another algorithm, which is faster beside other collectives."""
    if op.options["algorithms"] == (algorithm,):
        return op
    found = asked.cost(op.dims["bytes"], algorithm)
    note = f"{found.note}; the fastest beside other collectives, by itself {' or '.join(op.options['algorithms'])} is"
    return replace(op, work=found.work, options={**op.options, "algorithms": (algorithm,)}, note=note)


def _of_ways(keys: Sequence[Size], ways: Sequence[Op]) -> Op:
    """A collective by the algorithm of the way with the largest key."""
    names = dict.fromkeys(name for op in ways for name in op.options["algorithms"])
    work = {
        key: of_largest(keys, [op.work[key] for op in ways]) for key in dict.fromkeys(k for op in ways for k in op.work)
    }
    own = ways[0]
    note = f"{own.note}; beside other collectives {' or '.join(names)}, whichever is the fastest for all together"
    return replace(own, work=Work(work), options={**own.options, "algorithms": tuple(names)}, note=note)


def _only_others(wanted: str, kind: str, axes: Sequence[MeshAxis], dtype: str) -> bool:
    """Say whether an algorithm does other collectives over these axes, and not this one."""
    found = find_algorithm(wanted)
    if found is None or found.name in algorithms(kind, axes, dtype):
        return False
    return any(found.name in algorithms(other, axes, dtype) for other in found.kinds if other != kind)


class Regime(NamedTuple):
    """From so many bytes on this algorithm is the fastest."""

    start: float
    algorithm: str


def feasible_algorithms(kind: str, axes: Sequence[MeshAxis], density: Density = 1, dtype: str = "") -> tuple[str, ...]:
    """List the algorithms that this network can do, the one for large arrays first, then direct exchange.

    Of several that take as long the first is taken.

    >>> from roofline.hardware import chip
    >>> feasible_algorithms("AllReduce", chip("v5e:8").mesh.select("X"))
    ('chain', 'direct', 'one-way ring', 'line', 'torus', 'spanning trees')
    """
    first = default_algorithm(kind, axes, density, dtype)
    names = [name for name in algorithms(kind, axes, dtype) if not limit_reason(kind, axes, name)]
    names.sort(key=lambda name: (name != first, name != "direct"))
    return tuple(names)


def regimes(
    kind: str, axes: Sequence[MeshAxis], machine: Machine, *, density: Density = 1, dtype: str = ""
) -> tuple[Regime, ...]:
    """List which algorithm is the fastest from which number of bytes on.

    Nothing is listed where sizes of axes are open or no latency is known.
    """
    asked = _Asked(kind, tuple(axes), density, dtype, machine)
    if not asked.is_of_numbers:
        return ()
    known = _hops_known(asked.cost(1, asked.feasible[0]).work, machine)
    return _regimes(asked, machine) if known else ()


class _Line(NamedTuple):
    """One algorithm: seconds a byte over all links and over the busiest one, seconds of the hops, and their number."""

    algorithm: str
    together: float
    busiest: float
    hop_time: float
    hops: Size


def _fastest_line(lines: Sequence[_Line], nbytes: float) -> _Line:
    """The one of the least time, of those that are as fast the one of the least times together, then of hops."""
    by_time = [(max(line.busiest * nbytes, line.hop_time), line) for line in lines]
    together = [(line.together * nbytes + line.hop_time, line) for line in _least(by_time)]
    return min(_least(together), key=lambda line: line.hops)


def _least(lines: Sequence[tuple[float, _Line]]) -> list[_Line]:
    most = min(time for time, _ in lines) * (1 + TIE)
    return [line for time, line in lines if time <= most]


@lru_cache(maxsize=1024)
def _regimes(asked: _Asked, machine: Machine) -> tuple[Regime, ...]:
    """The fastest algorithm from each number of bytes on.

    Bytes over links grow with V and hops do not, so the order of two algorithms changes only where the bytes of one
    take as long as its hops or the other's, or where the sums of both are equal.
    """
    names = asked.feasible
    lines = [_line(asked, name, machine) for name in names]
    if not _hops_known(asked.cost(1, names[0]).work, machine):
        return (Regime(0.0, _fastest_line(lines, _LARGE).algorithm),)
    marks = {0.0}
    for line in lines:
        for other in lines:
            if line.busiest > 0:
                marks.add(other.hop_time / line.busiest)
            if line.together != other.together:
                marks.add((other.hop_time - line.hop_time) / (line.together - other.together))
    starts = sorted(mark for mark in marks if mark >= 0)
    found: list[Regime] = []
    for start, end in zip(starts, [*starts[1:], 2 * starts[-1] + 2], strict=True):
        middle = (start + end) / 2
        if end - start <= 1e-9 * end:
            continue
        name = _fastest_line(lines, middle).algorithm
        if not found or found[-1].algorithm != name:
            found.append(Regime(start, name))
    return tuple(found)


def _line(asked: _Asked, name: str, machine: Machine) -> _Line:
    work = asked.cost(_LARGE, name).work
    hops = Work({key: amount for key, amount in work.items() if key.quantity == "hops"})
    wire = Work({key: amount for key, amount in work.items() if key.quantity == "wire"})
    busiest, together, _ = _times(wire, machine)
    waits = sum(_by_resource(hops, machine).values())
    return _Line(name, together / _LARGE, busiest / _LARGE, waits, work.total("hops"))


@lru_cache(maxsize=4096, typed=True)
def _of_one_size(asked: _Asked, density: Density, nbytes: Size, machine: Machine) -> CollectiveCost:
    """Count by the fastest algorithm of a number of bytes: layers, passes and plans ask for the same again.

    ``density`` is that of ``asked``, whose kind of number is a part of the key.
    """
    return _of_each_size(asked, nbytes, machine)


def _of_each_size(asked: _Asked, nbytes: Size, machine: Machine) -> CollectiveCost:
    """Count by the fastest algorithm: one of a number, one for each entry of an array or each piece of a formula."""
    by_size = _regimes(asked, machine)
    starts = [regime.start for regime in by_size]
    if _is_number(nbytes) or len(by_size) == 1:
        at = max(0, bisect_right(starts, nbytes) - 1) if _is_number(nbytes) else 0
        taken = asked.cost(nbytes, by_size[at].algorithm)
        said = "the fastest at this size" if _is_number(nbytes) else "the fastest at every size"
        said = said if _hops_known(taken.work, machine) else "the least bytes: no hop latency is known"
        return replace(taken, note=f"{taken.note}; {said}")
    costs = [asked.cost(nbytes, regime.algorithm) for regime in by_size]
    if is_array(nbytes):
        return _picked(costs, np.searchsorted(starts, nbytes, side="right") - 1)
    ends = [nbytes < start for start in starts[1:]] + [True]
    pieces = {
        key: sympy.Piecewise(*((each.work[key], end) for each, end in zip(costs, ends, strict=True)))
        for key in dict.fromkeys(key for each in costs for key in each.work)
    }
    first, names = costs[0], [each.algorithm for each in costs]
    where = [f"{name} from {format_quantity(start, 'B')}" for name, start in zip(names[1:], starts[1:], strict=True)]
    note = f"{first.kind} over {', '.join(first.axes)}: the fastest at each size: {', '.join([names[0], *where])}"
    return replace(first, algorithms=tuple(names), work=Work(pieces), note=note)


class _OpenRegimes(NamedTuple):
    """The regimes at numbers of chips that are open: ``at`` gives those of one, ``lines`` every algorithm's times."""

    count: Any
    at: Callable[[int], tuple[Regime, ...]]
    lines: tuple[_Line, ...]


@lru_cache(maxsize=256)
def _open_regimes(asked: _Asked, machine: Machine) -> _OpenRegimes:
    (n,) = {*asked.counts}

    @cache
    def at(value: int) -> tuple[Regime, ...]:
        return _regimes(_on_chips(asked, n, value), machine)

    names = dict.fromkeys(regime.algorithm for value in n.values for regime in at(value))
    return _OpenRegimes(n, at, tuple(_line(asked, name, machine) for name in names))


def _of_each_count(asked: _Asked, regimes: _OpenRegimes, nbytes: Size) -> CollectiveCost:
    """Count by the fastest algorithm at each number of chips that is open, and at each size where that is open too."""
    n = regimes.count
    is_open = is_symbol(nbytes) and bool(nbytes.free_symbols - {n})

    def names(value: int) -> tuple[str, ...]:
        if is_open:
            return tuple(regime.algorithm for regime in regimes.at(value))
        size = float(nbytes.subs(n, value)) if is_symbol(nbytes) else nbytes
        return (max((r for r in regimes.at(value) if r.start <= size), key=lambda r: r.start).algorithm,)

    runs = [[n.values[0]]]
    for value in n.values[1:]:
        if names(value) == names(runs[-1][-1]):
            runs[-1].append(value)
        else:
            high = _first_other(n, runs[-1][-1], value, lambda middle: names(middle) == names(runs[-1][-1]))
            runs.append([high, *([value] if value > high else [])])
    parts = []
    for run in runs:
        while run:
            starts, held = _open_starts(regimes, run) if is_open else ([0], run)
            parts.append((starts, held))
            run = run[len(held) :]
            if run:
                high = _first_other(n, held[-1], run[0], partial(_are_starts, regimes, starts))
                run = [high, *(value for value in run if value > high)]
    pieces: list[tuple[CollectiveCost, Any]] = []
    for (starts, run), after in zip(parts, [*parts[1:], None], strict=True):
        inside = True if after is None else n < after[1][0]
        ends = [*(nbytes < start for start in starts[1:]), True]
        pieces += [
            (asked.cost(nbytes, name), sympy.And(inside, end)) for name, end in zip(names(run[0]), ends, strict=True)
        ]
    first = pieces[0][0]
    if len(pieces) == 1:
        return replace(first, note=f"{first.note}; the fastest at every {n} here")
    keys = dict.fromkeys(key for each, _ in pieces for key in each.work)
    work = Work({key: sympy.Piecewise(*((each.work[key], holds) for each, holds in pieces)) for key in keys})
    named = tuple(dict.fromkeys(each.algorithm for each, _ in pieces))
    note = f"{first.kind} over {', '.join(first.axes)}: the fastest at each size and {n}: {', '.join(named)}"
    return replace(first, algorithms=named, work=work, note=note)


def _first_other(n: Any, low: int, high: int, is_alike: Callable[[int], bool]) -> int:
    """The least number of chips above ``low`` that is not as it is, by halves: ``high`` is not."""
    while high - low > n.multiple:
        middle = low + (high - low) // (2 * n.multiple) * n.multiple
        low, high = (middle, high) if is_alike(middle) else (low, middle)
    return high


def _open_starts(regimes: _OpenRegimes, run: Sequence[int]) -> tuple[list[Any], list[int]]:
    """From how many bytes on each algorithm is the fastest, in the number of chips; and the first it holds for."""
    n = regimes.count
    forms = [line.hop_time / other.busiest for line in regimes.lines for other in regimes.lines]
    pairs = [(a, b) for a, b in combinations(regimes.lines, 2) if a.together != b.together]
    forms += [(a.hop_time - b.hop_time) / (b.together - a.together) for a, b in pairs]
    starts: list[Any] = [0]
    held = list(run)
    for index in range(1, len(regimes.at(run[0]))):

        def holds(form: Any, index: int = index, run: Sequence[int] = held) -> list[int]:
            return list(takewhile(lambda value: _is_start(regimes, form, index, value), run))

        found = max(dict.fromkeys(forms), key=lambda form: len(holds(form)))
        held = holds(found)
        if not held:
            hint = f"give {n} a number: the size at which the fastest algorithm changes has no one form in it"
            raise InputError(f"an open number of chips {n} has no closed form here", hint=hint)
        starts.append(found)
    return starts, held


def _are_starts(regimes: _OpenRegimes, starts: Sequence[Any], value: int) -> bool:
    return all(_is_start(regimes, form, index, value) for index, form in enumerate(starts) if index)


def _is_start(regimes: _OpenRegimes, form: Any, index: int, value: int) -> bool:
    start = regimes.at(value)[index].start
    return bool(abs((form.subs(regimes.count, value) if is_symbol(form) else form) - start) <= 1e-9 * start)


def _of_each_mesh(asked: _Asked, nbytes: Size, machine: Machine) -> CollectiveCost:
    """Count by the fastest algorithm of each entry where axes are arrays; by one where the number of chips is open."""
    if any(is_symbol(size) for size in (nbytes, asked.density, *(axis.size for axis in asked.axes))):
        found = asked.cost(nbytes)
        said = "the fastest for large arrays; small ones may take less by another, which a number of chips takes"
        return replace(found, note=f"{found.note}; {said}")
    tiers = _tiers_of_each(asked.axes)
    if not isinstance(asked.density, TopKRouting) and (tiers != tiers.flat[0]).any():
        return _of_each_tier(tiers, asked, nbytes, machine)
    costs = [asked.cost(nbytes, name) for name in asked.feasible]
    times = [_times(each.work, machine) for each in costs]
    shape = np.broadcast_shapes(np.shape(nbytes), *(np.shape(part) for each in times for part in each))
    columns = [np.stack([np.broadcast_to(each[part], shape) for each in times]) for part in range(3)]
    return _picked(costs, np.lexsort(columns[::-1], axis=0)[0])


def _tiers_of_each(axes: Sequence[MeshAxis]) -> Any:
    """Which links each entry of arrays of axes runs over: a bit each."""
    links = [segment.size for axis in axes for segment in axis.segments]
    found = sum((np.asarray(size) > 1) * 2**place for place, size in enumerate(links))
    return np.broadcast_to(found, np.broadcast_shapes(*(np.shape(axis.size) for axis in axes)))


def _of_each_tier(tiers: Any, asked: _Asked, nbytes: Size, machine: Machine) -> CollectiveCost:
    """Count entries that stay within a tier by what that tier can do, and those beyond it by what all of them can."""
    density: Any = asked.density
    shape = np.broadcast_shapes(tiers.shape, np.shape(nbytes), np.shape(density))
    tiers = np.broadcast_to(tiers, shape)
    work: dict[Key, Any] = {}
    names: dict[str, None] = {}
    for links in np.unique(tiers[tiers > 0]):
        own = tiers == links

        def some(size: Any, own: Any = own) -> Any:
            return np.broadcast_to(size, shape)[own] if is_array(size) else size

        parts = []
        for axis in asked.axes:
            runs = [each for each in axis.segments if bool((np.asarray(some(each.size)) > 1).any())]
            runs = [replace(each, **{f.name: some(getattr(each, f.name)) for f in fields(each)}) for each in runs]
            parts.append(replace(axis, size=some(axis.size), segments=tuple(runs)))
        own_part = asked._replace(axes=tuple(parts), density=some(density))
        found = Chooser(None, _laid_out(machine, parts))._fastest(own_part, some(nbytes))
        names |= dict.fromkeys(found.algorithms)
        for key, amount in found.work.items():
            work.setdefault(key, np.zeros(shape))[own] = amount
    over = ", ".join(axis.name for axis in asked.axes)
    note = f"{asked.kind} over {over}: the fastest at each number of chips: {', '.join(names)}"
    return replace(asked.cost(nbytes), algorithms=tuple(names), work=Work(work), note=note)


def _laid_out(machine: Machine, axes: Sequence[MeshAxis]) -> Machine:
    """The machine with some of its mesh's axes in place of those of their names."""
    if machine.mesh is None:
        return machine
    placed = {axis.name: axis for axis in axes}
    mesh = replace(machine.mesh, axes=tuple(placed.get(axis.name, axis) for axis in machine.mesh.axes))
    return replace(machine, mesh=mesh)


def _picked(costs: Sequence[CollectiveCost], chosen: Any) -> CollectiveCost:
    """Take one of several costs for each entry of an array: ``chosen`` holds which."""
    taken = [i for i in range(len(costs)) if bool((chosen == i).any())]
    keys = dict.fromkeys(key for i in taken for key in costs[i].work)
    shape = chosen.shape
    stacked = {key: np.stack([np.broadcast_to(each.work[key], shape) for each in costs]) for key in keys}
    work = {key: np.choose(chosen, each) for key, each in stacked.items()}
    where = [f"{costs[i].algorithm} {_range(np.broadcast_to(costs[i].nbytes, shape)[chosen == i])}" for i in taken]
    first = costs[taken[0]]
    note = f"{first.kind} over {', '.join(first.axes)}: the fastest at each size: {'; '.join(where)}"
    return replace(first, algorithms=tuple(costs[i].algorithm for i in taken), work=Work(work), note=note)


def _range(nbytes: Any) -> str:
    low, high = format_quantity(float(nbytes.min()), "B"), format_quantity(float(nbytes.max()), "B")
    return f"at {low}" if low == high else f"for {low} to {high}"


def _times(work: Work, machine: Machine) -> tuple[Size, Size, Size]:
    """The longest time of any link and of the hops, all times together, and how many hops; what has no rate is left."""
    times = list(_by_resource(work, machine).values()) or [0]
    return (maximum(*times) if len(times) > 1 else times[0]), sum(times[1:], times[0]), work.total("hops")


def _by_resource(work: Work, machine: Machine, op: Op | None = None) -> dict[str, Size]:
    """The time of each resource; what has no rate is left out."""
    each = ((amount, known) for key, amount in work.items() for known in rates(machine, key, op))
    return sums_by_name((known.resource, amount * known.share / known.value) for amount, known in each)


def _hops_known(work: Work, machine: Machine) -> bool:
    return all(rate(machine, key) is not None for key in work if key.quantity == "hops")


def _is_number(size: Density) -> bool:
    return not is_array(size) and not is_symbol(size)
