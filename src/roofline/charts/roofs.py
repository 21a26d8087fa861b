"""What a machine allows, as the parts of a roof: slopes, ceilings, and the ridges where they meet.

>>> from roofline.hardware import chip
>>> roof = machine_roof(chip("v5e", hbm="8.2e11 B/s"), dtypes=["bf16"])
>>> [(slope.level, slope.bandwidth) for slope in roof.slopes], [(c.unit, c.peak) for c in roof.ceilings]
([('hbm', 820000000000.0)], [('mxu', 197000000000000.0)])
>>> [round(corner.intensity, 1) for corner in roof.corners()]
[240.2]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from roofline.bounds.bound import Bound
from roofline.charts.size_axes import NEUTRAL
from roofline.errors import InputError, suggest
from roofline.hardware.machine import Machine
from roofline.hardware.rate import WARM, find_level, level, rate, ridge
from roofline.work import Key


@dataclass(frozen=True, slots=True, eq=False)
class Slope:
    """One memory level: attainable = intensity × bandwidth. ``series`` is its colour, ``dash`` its stroke."""

    machine: Machine
    level: str
    bandwidth: float
    series: int = 0
    dash: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Ceiling:
    """The peak of one unit in one dtype; ``note`` is what had to be said about the choice."""

    machine: Machine
    unit: str
    dtype: str
    peak: float
    note: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Corner:
    """Where a slope meets a ceiling."""

    slope: Slope
    ceiling: Ceiling
    intensity: float


@dataclass(frozen=True, slots=True, eq=False)
class Roof:
    """The slopes and ceilings of one machine, highest ceiling first.

    ``series`` is the colour of its ceilings and points, ``dash`` the stroke of its ceilings.
    """

    machine: Machine
    slopes: tuple[Slope, ...]
    ceilings: tuple[Ceiling, ...]
    series: int = 0
    dash: int = 0

    def corners(self) -> Iterator[Corner]:
        """Every slope with every ceiling."""
        for slope in self.slopes:
            for ceiling in self.ceilings:
                at = ridge(slope.machine, ceiling.dtype, slope.level, ceiling.unit)
                if at is not None:
                    yield Corner(slope, ceiling, at)


def machine_roof(
    machine: Machine,
    *,
    dtypes: Sequence[str] = (),
    levels: Sequence[str] = (),
    answers: Iterable[Bound] = (),
) -> Roof:
    """Gather a machine's roof: the dtypes and levels asked for, and what ``answers`` on it compute in.

    A dtype is ``bf16`` (on the unit that runs matmuls) or ``vector/fp32`` (on that unit). Without any, bf16; without
    a level, the one data comes from, and of warm data those it lies in. What this machine has no figure for is left
    out.
    """
    answers = tuple(answers)
    found = [c for dtype in dtypes if (c := _ceiling(machine, dtype)) is not None]
    for answer in answers:
        for use in answer.uses:
            if use.quantity == "flops":
                found.append(Ceiling(machine, use.resource, use.dtype, float(use.rate.value), use.rate.note))
    if not found and not dtypes:
        found = [c for c in [_ceiling(machine, "bf16")] if c is not None]
    ceilings = {(c.unit, c.dtype): c for c in reversed(found)}
    lying = [use.resource for answer in answers for use in answer.uses if use.quantity == "bytes"]
    wanted = levels or ("main", *(lying if machine.over == WARM else ()))
    slopes = {s.level: s for name in wanted if (s := _slope(machine, name)) is not None}
    return Roof(machine, tuple(slopes.values()), tuple(sorted(ceilings.values(), key=lambda c: -c.peak)))


def styled(roofs: Sequence[Roof]) -> list[Roof]:
    """Give each roof and slope a colour and a stroke by which it is known.

    Several machines each have a colour, and the stroke tells their levels apart, or where there is one level, them.
    Of one machine each level has a colour and a stroke, and what they share is neutral.

    >>> from roofline.hardware import chip
    >>> one, two = machine_roof(chip("v5e"), levels=["hbm", "vmem"]), machine_roof(chip("h100"), levels=["hbm"])
    >>> [(s.level, s.series, s.dash) for s in styled([one])[0].slopes], styled([one])[0].series == NEUTRAL
    ([('hbm', 0, 0), ('vmem', 1, 1)], True)
    >>> [(s.level, s.series, s.dash) for roof in styled([one, two]) for s in roof.slopes]
    [('hbm', 0, 0), ('vmem', 0, 1), ('hbm', 1, 0)]
    >>> [(s.level, s.series, s.dash) for roof in styled([two, two]) for s in roof.slopes]
    [('hbm', 0, 0), ('hbm', 1, 1)]
    """
    several = any(len(roof.slopes) > 1 for roof in roofs)
    if len(roofs) == 1 and several:
        (roof,) = roofs
        slopes = tuple(replace(slope, series=i, dash=i) for i, slope in enumerate(roof.slopes))
        return [replace(roof, slopes=slopes, series=NEUTRAL, dash=0)]
    levels = list(dict.fromkeys(slope.level for roof in roofs for slope in roof.slopes))
    found = []
    for i, roof in enumerate(roofs):
        slopes = tuple(replace(s, series=i, dash=levels.index(s.level) if several else i) for s in roof.slopes)
        found.append(replace(roof, slopes=slopes, series=i, dash=0 if several else i))
    return found


def check_known(machines: Sequence[Machine], dtypes: Sequence[str], levels: Sequence[str]) -> None:
    """Raise where a dtype or level that was asked for has a figure on none of the machines."""
    for wanted in dtypes:
        if not any(_ceiling(machine, wanted) for machine in machines):
            peaks = sorted({dtype for machine in machines for unit in machine.units for dtype in unit.peaks})
            hint = suggest(wanted.rpartition("/")[2], peaks, what="dtypes with a peak")
            raise InputError(f"no peak for {wanted!r} on {_names(machines)}", hint=hint)
    for name in levels:
        if not any(_slope(machine, name) for machine in machines):
            chosen = next((found for machine in machines if (found := find_level(machine, name))), None)
            if chosen is None:
                level(machines[0], name)
            raise InputError(
                f"no bandwidth is known for {name} of {_names(machines)}", hint=f"give one: set {name}='… B/s'"
            )


def _ceiling(machine: Machine, wanted: str) -> Ceiling | None:
    place, _, dtype = wanted.rpartition("/")
    found = rate(machine, Key("flops", place or "matrix", dtype))
    return None if found is None else Ceiling(machine, found.resource, found.dtype, float(found.value), found.note)


def _slope(machine: Machine, name: str) -> Slope | None:
    found = rate(machine, Key("bytes", name))
    return None if found is None else Slope(machine, found.resource, float(found.value))


def _names(machines: Sequence[Machine]) -> str:
    return ", ".join(machine.name for machine in machines)
