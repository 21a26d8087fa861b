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
from dataclasses import dataclass

from roofline.bounds.bound import Bound
from roofline.errors import InputError, suggest
from roofline.hardware.machine import Machine
from roofline.hardware.rate import find_level, level, rate, ridge
from roofline.work import Key


@dataclass(frozen=True, slots=True, eq=False)
class Slope:
    """One memory level: attainable = intensity × bandwidth. ``series`` is its colour."""

    machine: Machine
    level: str
    bandwidth: float
    series: int = 0


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
    """The slopes and ceilings of one machine, highest ceiling first; ``series`` is the colour of its ceilings."""

    machine: Machine
    slopes: tuple[Slope, ...]
    ceilings: tuple[Ceiling, ...]
    series: int = 0

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
    series: int = 0,
) -> Roof:
    """Gather a machine's roof: the dtypes and levels asked for, and what ``answers`` on it compute in.

    A dtype is ``bf16`` (on the unit that runs matmuls) or ``vector/fp32`` (on that unit). Without any, bf16; without
    a level, the one data comes from. What this machine has no figure for is left out.
    """
    found = [c for wanted in dtypes if (c := _ceiling(machine, wanted)) is not None]
    for answer in answers:
        for use in answer.uses:
            if use.quantity == "flops":
                found.append(Ceiling(machine, use.resource, use.dtype, float(use.rate.value), use.rate.note))
    if not found and not dtypes:
        found = [c for c in [_ceiling(machine, "bf16")] if c is not None]
    ceilings = {(c.unit, c.dtype): c for c in reversed(found)}
    slopes = {s.level: s for name in levels or ("main",) if (s := _slope(machine, name, series)) is not None}
    return Roof(machine, tuple(slopes.values()), tuple(sorted(ceilings.values(), key=lambda c: -c.peak)), series)


def check_known(machines: Sequence[Machine], dtypes: Sequence[str], levels: Sequence[str]) -> None:
    """Raise where a dtype or level that was asked for has a figure on none of the machines."""
    for wanted in dtypes:
        if not any(_ceiling(machine, wanted) for machine in machines):
            peaks = sorted({dtype for machine in machines for unit in machine.units for dtype in unit.peaks})
            hint = suggest(wanted.rpartition("/")[2], peaks, what="dtypes with a peak")
            raise InputError(f"no peak for {wanted!r} on {_names(machines)}", hint=hint)
    for name in levels:
        if not any(_slope(machine, name, 0) for machine in machines):
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


def _slope(machine: Machine, name: str, series: int) -> Slope | None:
    found = rate(machine, Key("bytes", name))
    return None if found is None else Slope(machine, found.resource, float(found.value), series)


def _names(machines: Sequence[Machine]) -> str:
    return ", ".join(machine.name for machine in machines)
