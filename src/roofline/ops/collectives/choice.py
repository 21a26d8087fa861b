"""The choice of a collective's algorithm on a machine: the one asked for, the usual one, or the fastest at its size.

>>> from roofline.hardware import chip
>>> node = chip("h100:8")
>>> for size in (2**13, 2**20):
...     print(cost("AllReduce", node.mesh.select("X"), size, algorithm=Chooser("auto", node)))
CollectiveCost(AllReduce over X, 8 chips: direct; wire/X: 57344, hops/X: 1)
CollectiveCost(AllReduce over X, 8 chips: in-switch; wire/X: 1048576, hops/X: 2)
>>> for regime in regimes("AllReduce", node.mesh.select("X"), node):
...     print(f"{regime.algorithm} from {regime.start:.0f} bytes on")
direct from 0 bytes on
in-switch from 77143 bytes on

An array of sizes takes the fastest for each of them; a size that is open, the fastest for large arrays:

>>> import numpy as np
>>> found = cost("AllReduce", node.mesh.select("X"), np.array([2.0**13, 2.0**20]), algorithm=Chooser("auto", node))
>>> found.algorithm, found.work.total("wire").tolist()
('direct or in-switch', [57344.0, 1048576.0])

The time of an algorithm is the larger of two: that of the busiest link and that of the hops. Of equal ones, the
algorithm whose times add up to less is taken. Figures that are limits do not take part. For an array of axis sizes,
only algorithms that all of them can do take part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from roofline.errors import InputError, suggest
from roofline.hardware.axes import MeshAxis
from roofline.hardware.machine import Machine
from roofline.hardware.rate import rate
from roofline.ops.collectives.cost import CollectiveCost, algorithms, cost, default_algorithm, limit_reason
from roofline.ops.collectives.registry import KINDS, find_algorithm
from roofline.ops.collectives.routing import Density
from roofline.quantity import format_quantity
from roofline.sizes import Size, is_array, is_symbol, maximum
from roofline.work import Work

#: One algorithm for all collectives that it does, or one for each kind.
Algorithms = str | Mapping[str, str] | None

AUTO = "auto"

#: Bytes at which a size that is open is taken to be large.
_LARGE = 2**60

#: By how much another algorithm must be faster to be named beside the one that was taken.
_WORTH_SAYING = 1.01


@dataclass(frozen=True, slots=True, eq=False)
class Chooser:
    """The algorithms wanted for collectives, and the machine whose rates decide which is the fastest.

    With ``compares``, the note of a collective names an algorithm that is faster than the usual one. A search over
    plans reads no notes and leaves it out.

    >>> from roofline.hardware import chip
    >>> Chooser("in-switch").name("AllReduce"), Chooser("in-switch").name("AllGather")
    ('in-switch', None)
    >>> Chooser({"AllGather": "book"}).name("AllGather")
    'book'
    """

    wanted: Algorithms = None
    machine: Machine | None = None
    compares: bool = True
    _faster: dict[Any, CollectiveCost] = field(default_factory=dict, repr=False)

    def name(self, kind: str) -> str | None:
        """Choose the algorithm of one collective: the one asked for where it does such, else None, the usual one."""
        wanted = self.wanted
        if wanted is None:
            return None
        if not isinstance(wanted, str):
            unknown = next((name for name in wanted if name not in KINDS), None)
            if unknown is not None:
                raise InputError(f"unknown collective {unknown!r}", hint=suggest(unknown, KINDS, what="collectives"))
            return wanted.get(kind)
        found = find_algorithm(wanted)
        return wanted if found is None or kind in found.kinds else None

    def cost(self, kind: str, axes: Sequence[MeshAxis], nbytes: Size, density: Density) -> CollectiveCost:
        """Count a collective by the algorithm chosen for it; say what would be faster where none was asked for."""
        name = self.name(kind)
        if self.machine is not None and name is not None and name.strip().lower() == AUTO:
            return fastest(kind, axes, nbytes, self.machine, density=density)
        if isinstance(self.wanted, str) and _only_others(self.wanted, kind, axes):
            name = None
        found = cost(kind, axes, nbytes, algorithm=name, density=density)
        return self._compared(found, axes, density) if name is None and self.compares else found

    def _compared(self, found: CollectiveCost, axes: Sequence[MeshAxis], density: Density) -> CollectiveCost:
        """Name the fastest algorithm at this size beside the usual one, where it is another."""
        if self.machine is None or not _is_number(found.nbytes) or not _is_number(found.chips):
            return found
        asked = (found.kind, tuple((axis.name, axis.size) for axis in axes), found.nbytes, density)
        best = self._faster.get(asked) if _is_number(density) else None
        if best is None:
            best = fastest(found.kind, axes, found.nbytes, self.machine, density=density)
            if _is_number(density):
                self._faster[asked] = best
        ours, theirs = (_times(each.work, self.machine)[0] for each in (found, best))
        if not theirs or ours < theirs * _WORTH_SAYING:
            return found
        times = f"{format_quantity(theirs, 's')} rather than {format_quantity(ours, 's')}"
        return replace(found, note=f"{found.note}; at this size {best.algorithm} would take {times} (algorithm auto)")


def _only_others(wanted: str, kind: str, axes: Sequence[MeshAxis]) -> bool:
    """Say whether an algorithm does other collectives over these axes, and not this one: it goes its usual way."""
    found = find_algorithm(wanted)
    if found is None or found.name in algorithms(kind, axes):
        return False
    return any(found.name in algorithms(other, axes) for other in found.kinds)


class Regime(NamedTuple):
    """From so many bytes on this algorithm is the fastest."""

    start: float
    algorithm: str


def feasible_algorithms(kind: str, axes: Sequence[MeshAxis], density: Density = 1) -> tuple[str, ...]:
    """List the algorithms that this network can do, the usual one first.

    >>> from roofline.hardware import chip
    >>> feasible_algorithms("AllReduce", chip("v5e:8").mesh.select("X"))
    ('line', 'one-way ring', 'torus', 'chain', 'direct')
    """
    usual = default_algorithm(kind, axes, density)
    names = [name for name in algorithms(kind, axes) if not limit_reason(kind, axes, name)]
    return tuple(dict.fromkeys([usual, *names] if usual in names else names))


def fastest(
    kind: str, axes: Sequence[MeshAxis], nbytes: Size, machine: Machine, *, density: Density = 1
) -> CollectiveCost:
    """Count a collective by the algorithm that takes the least time on this machine."""
    if is_symbol(nbytes) or any(is_symbol(axis.size) for axis in axes):
        return _for_large(kind, axes, nbytes, machine, density)
    costs = [
        cost(kind, axes, nbytes, algorithm=name, density=density) for name in feasible_algorithms(kind, axes, density)
    ]
    times = [_times(each.work, machine) for each in costs]
    if any(is_array(time) for pair in times for time in pair[:2]):
        return _for_each(costs, times)
    best = costs[min(range(len(costs)), key=lambda i: times[i])]
    said = "the fastest at this size" if _hops_known(best.work, machine) else "the least bytes: no hop latency is known"
    return replace(best, note=f"{best.note}; {said}")


def _for_large(kind: str, axes: Sequence[MeshAxis], nbytes: Size, machine: Machine, density: Density) -> CollectiveCost:
    """A formula takes one algorithm: the fastest for large arrays, or the usual one of an open number of chips."""
    numbers = all(_is_number(axis.size) for axis in axes) and _is_number(density)
    name = fastest(kind, axes, _LARGE, machine, density=density).algorithm if numbers else None
    found = cost(kind, axes, nbytes, algorithm=name, density=density)
    said = "the fastest for large arrays" if numbers else "the usual one, as the number of chips is open"
    return replace(found, note=f"{found.note}; {said}")


def _for_each(costs: Sequence[CollectiveCost], times: Sequence[tuple[Size, Size, Size]]) -> CollectiveCost:
    """Take the fastest for each entry of an array."""
    import numpy as np

    shape = np.broadcast_shapes(*(np.shape(part) for each in times for part in each))
    columns = [np.stack([np.broadcast_to(each[part], shape) for each in times]) for part in range(3)]
    ranked = np.lexsort(columns[::-1], axis=0)
    chosen = ranked[0]
    keys = dict.fromkeys(key for each in costs for key in each.work)
    work = {
        key: np.choose(chosen, np.stack([np.broadcast_to(each.work[key], shape) for each in costs])) for key in keys
    }
    taken = [i for i in range(len(costs)) if bool((chosen == i).any())]
    names = [costs[i].algorithm for i in taken]
    where = [f"{costs[i].algorithm} {_range(np.broadcast_to(costs[i].nbytes, shape)[chosen == i])}" for i in taken]
    first = costs[taken[0]]
    over = f"{first.kind} over {', '.join(first.axes)}"
    note = f"{over}: the fastest at each size: {'; '.join(where)}"
    return replace(first, algorithm=" or ".join(names), work=Work(work), note=note)


def _range(nbytes: Any) -> str:
    low, high = format_quantity(float(nbytes.min()), "B"), format_quantity(float(nbytes.max()), "B")
    return f"at {low}" if low == high else f"for {low} to {high}"


def _times(work: Work, machine: Machine) -> tuple[Size, Size, Size]:
    """The longest time of any link and of the hops, all times together, and how many hops; what has no rate is left."""
    by_resource: dict[str, Size] = {}
    for key, amount in work.items():
        found = rate(machine, key)
        if found is not None:
            by_resource[found.resource] = by_resource.get(found.resource, 0) + amount / found.value
    times = list(by_resource.values())
    if not times:
        return 0, 0, work.total("hops")
    return (maximum(*times) if len(times) > 1 else times[0]), sum(times[1:], times[0]), work.total("hops")


def regimes(kind: str, axes: Sequence[MeshAxis], machine: Machine, *, density: Density = 1) -> tuple[Regime, ...]:
    """List which algorithm is the fastest from which number of bytes on.

    Nothing is listed where sizes of axes are open or no latency is known.

    Bytes over links grow with V and hops do not, so the order of two algorithms changes only where the bytes of one
    take as long as its hops or the other's, or where the sums of both are equal.
    """
    if not all(_is_number(axis.size) for axis in axes):
        return ()
    names = feasible_algorithms(kind, axes, density)
    if not _hops_known(cost(kind, axes, 1, algorithm=names[0]).work, machine):
        return ()
    lines = [_slopes(cost(kind, axes, _LARGE, algorithm=name, density=density).work, machine) for name in names]
    marks = {0.0}
    for together, busiest, hops in lines:
        for other_together, _, other_hops in lines:
            if busiest > 0:
                marks.add(other_hops / busiest)
            if together != other_together:
                marks.add((other_hops - hops) / (together - other_together))
    starts = sorted(mark for mark in marks if mark >= 0)
    found: list[Regime] = []
    for start, end in zip(starts, [*starts[1:], 2 * starts[-1] + 2], strict=True):
        middle = (start + end) / 2
        if end - start <= 1e-9 * end:
            continue
        name = fastest(kind, axes, middle, machine, density=density).algorithm
        if not found or found[-1].algorithm != name:
            found.append(Regime(start, name))
    return tuple(found)


def _slopes(work: Work, machine: Machine) -> tuple[float, float, float]:
    """Seconds a byte of V over all links and over the busiest one, and those of the hops."""
    hops = Work({key: amount for key, amount in work.items() if key.quantity == "hops"})
    wire = Work({key: amount for key, amount in work.items() if key.quantity == "wire"})
    busiest, together, _ = _times(wire, machine)
    return together / _LARGE, busiest / _LARGE, _times(hops, machine)[1]


def _hops_known(work: Work, machine: Machine) -> bool:
    return all(rate(machine, key) is not None for key in work if key.quantity == "hops")


def _is_number(size: Density) -> bool:
    return not is_array(size) and not is_symbol(size)
