"""The roof of a machine: slopes, ceilings and the ridges where they meet, and the lines and marks that draw them.

>>> from roofline.hardware import chip
>>> roof = machine_roof(chip("v5e", hbm="8.2e11 B/s"), dtypes=["bf16"])
>>> [(slope.level, slope.bandwidth) for slope in roof.slopes], [(c.unit, c.peak) for c in roof.ceilings]
([('hbm', 820000000000.0)], [('mxu', 197000000000000.0)])
>>> [round(point.intensity, 1) for point in roof.ridge_points()]
[240.2]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from roofline.answers import numbered
from roofline.bounds.bound import Bound
from roofline.charts.chart import joined
from roofline.charts.specification import NEUTRAL, Axis, Line, Ridge
from roofline.errors import InputError, suggest
from roofline.frozen import NamedTuple, dataclass, replace
from roofline.hardware.machine import Machine
from roofline.hardware.rate import WARM, find_level, level, rate, ridge
from roofline.quantity import format_number, format_quantity
from roofline.signatures import setting
from roofline.sizes import grouped
from roofline.work import Key

#: The most ridges whose unit is written beside them.
MOST_WITH_UNIT = 4

#: The most ridges that all carry their number; of more, those of the first level do, and a note lists the others.
MOST_NUMBERED = 16


@dataclass(frozen=True, slots=True, eq=False)
class RoofSlope:
    """One memory level: attainable = intensity × bandwidth. ``series`` is its colour, ``dash`` its stroke."""

    machine: Machine
    level: str
    bandwidth: float
    series: int = 0
    dash: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RoofCeiling:
    """The peak of one unit in one dtype; ``note`` is what had to be said about the choice."""

    machine: Machine
    unit: str
    dtype: str
    peak: float
    note: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class RidgePoint:
    """Where a slope meets a ceiling: the least intensity at which the ceiling can be reached."""

    slope: RoofSlope
    ceiling: RoofCeiling
    intensity: float


@dataclass(frozen=True, slots=True, eq=False)
class Roof:
    """The slopes and ceilings of one machine, highest ceiling first.

    ``series`` is the colour of its ceilings and points, ``dash`` the stroke of its ceilings.
    """

    machine: Machine
    slopes: tuple[RoofSlope, ...]
    ceilings: tuple[RoofCeiling, ...]
    series: int = 0
    dash: int = 0

    def ridge_points(self) -> Iterator[RidgePoint]:
        """Every slope with every ceiling."""
        for slope in self.slopes:
            for ceiling in self.ceilings:
                at = ridge(slope.machine, ceiling.dtype, slope.level, ceiling.unit)
                if at is not None:
                    yield RidgePoint(slope, ceiling, at)


def machine_roof(
    machine: Machine, *, dtypes: Sequence[str] = (), levels: Sequence[str] = (), answers: Iterable[Bound] = ()
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
                found.append(RoofCeiling(machine, use.resource, use.dtype, float(use.rate.value), use.rate.note))
    if not found and not dtypes:
        found = [c for c in [_ceiling(machine, "bf16")] if c is not None]
    ceilings = {(c.unit, c.dtype): c for c in reversed(found)}
    lying = [use.resource for answer in answers for use in answer.uses if use.quantity == "bytes"]
    wanted = levels or ("main", *(lying if machine.over == WARM else ()))
    slopes = {s.level: s for name in wanted if (s := _slope(machine, name)) is not None}
    return Roof(machine, tuple(slopes.values()), tuple(sorted(ceilings.values(), key=lambda c: -c.peak)))


def with_styles(roofs: Sequence[Roof]) -> list[Roof]:
    """Give each roof and slope a colour and a stroke by which it is known.

    Several machines each have a colour, and the stroke tells their levels apart, or where there is one level, them.
    Of one machine each level has a colour and a stroke, and what they share is neutral.

    >>> from roofline.hardware import chip
    >>> one, two = machine_roof(chip("v5e"), levels=["hbm", "vmem"]), machine_roof(chip("h100"), levels=["hbm"])
    >>> [(s.level, s.series, s.dash) for s in with_styles([one])[0].slopes], with_styles([one])[0].series == NEUTRAL
    ([('hbm', 0, 0), ('vmem', 1, 1)], True)
    >>> [(s.level, s.series, s.dash) for roof in with_styles([one, two]) for s in roof.slopes]
    [('hbm', 0, 0), ('vmem', 0, 1), ('hbm', 1, 0)]
    >>> [(s.level, s.series, s.dash) for roof in with_styles([two, two]) for s in roof.slopes]
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
            wrong = f"no bandwidth is known for {name} of {_names(machines)}"
            raise InputError(wrong, hint=f"give one: {setting(name, '8.2e11')}")


def without_slope(roofs: Sequence[Roof], levels: Sequence[str]) -> list[str]:
    """Say of levels that were asked for on which machines they have no slope."""
    lacking = ((roof.machine, name) for roof in roofs if roof.slopes for name in levels)
    return [
        f"no slope for {name}: no bandwidth of it is known on {machine.name}"
        for machine, name in lacking
        if _slope(machine, name) is None
    ]


class RoofStroke(NamedTuple):
    """A slope or a ceiling as it is drawn: its full name, the text beside it, its B/s or FLOP/s, colour and stroke."""

    label: str
    text: str
    rate: float
    series: int = 0
    dash: int = 0


def roof_lines(roofs: Sequence[Roof], x: Axis) -> Iterator[Line]:
    """The lines of each roof, every one with the unit where its machine has several."""
    for roof, group in zip(roofs, _groups(roofs), strict=True):
        units = {ceiling.unit for ceiling in roof.ceilings}
        slopes, ceilings = [], []
        for slope in roof.slopes:
            text = f"{slope.level} {format_quantity(slope.bandwidth, 'B/s')}"
            label = f"{roof.machine.key} {slope.level}"
            slopes.append(RoofStroke(label, text, slope.bandwidth, slope.series, slope.dash))
        for ceiling in roof.ceilings:
            text = f"{ceiling.dtype} {format_quantity(ceiling.peak, 'FLOP/s')}"
            text = f"{ceiling.unit} {text}" if len(units) > 1 else text
            label = f"{roof.machine.key} {ceiling.unit} {ceiling.dtype}"
            ceilings.append(RoofStroke(label, text, ceiling.peak, roof.series, roof.dash))
        yield from stroke_lines(slopes, ceilings, x.limits, group)


def stroke_lines(
    slopes: Sequence[RoofStroke], ceilings: Sequence[RoofStroke], limits: tuple[float, float], group: str = ""
) -> Iterator[Line]:
    """Slopes up to the highest ceiling, ceilings from the steepest slope, between two intensities.

    >>> hbm, mxu = RoofStroke("hbm", "", 8e11), RoofStroke("mxu", "", 2e14)
    >>> [(line.label, line.x) for line in stroke_lines([hbm], [mxu], (1.0, 1e4))]
    [('hbm', (1.0, 250.0)), ('mxu', (250.0, 10000.0))]
    """
    low, high = limits
    top = max((ceiling.rate for ceiling in ceilings), default=math.inf)
    steepest = max((slope.rate for slope in slopes), default=math.inf)
    for name, text, bandwidth, series, dash in slopes:
        end = min(high, top / bandwidth)
        yield Line(name, (low, end), (bandwidth * low, bandwidth * end), "slope", series, dash, text, group)
    for name, text, peak, series, dash in ceilings:
        yield Line(name, (max(low, peak / steepest), high), (peak, peak), "ceiling", series, dash, text, group)


def _groups(roofs: Sequence[Roof]) -> list[str]:
    """What the key calls each machine: nothing where it is alone, and a number too where several have one name."""
    if len(roofs) == 1:
        return [""]
    return numbered([roof.machine.key for roof in roofs])


def roof_ridges(points: Sequence[RidgePoint], roofs: Sequence[Roof]) -> Iterator[Ridge]:
    """A mark for every ridge point; of ceilings that are equally high, one for all."""
    unit = " FLOP/B" if len(points) <= MOST_WITH_UNIT else ""
    first = {id(roof.slopes[0]) for roof in roofs if roof.slopes}
    meeting = grouped(((id(point.slope), point.ceiling.peak), point) for point in points)
    for together in meeting.values():
        point = together[0]
        slope, ceiling = point.slope, point.ceiling
        peaks = joined([f"{c.ceiling.unit} {c.ceiling.dtype}" for c in together])
        numbered = len(points) <= MOST_NUMBERED or id(slope) in first
        yield Ridge(
            point.intensity,
            ceiling.peak,
            f"{slope.machine.key} {peaks} over {slope.level}",
            f"{format_number(point.intensity, 3)}{unit}" if numbered else "",
            slope.series,
        )


def unnumbered_ridges(points: Sequence[RidgePoint]) -> list[str]:
    """The ridges as a note, where not all can carry their number."""
    if len(points) <= MOST_NUMBERED:
        return []
    several = len({point.slope.machine.key for point in points}) > 1
    by_slope: dict[str, list[str]] = {}
    for point in points:
        slope = f"{point.slope.machine.key} {point.slope.level}" if several else point.slope.level
        number = f"{point.ceiling.dtype} {format_number(point.intensity, 3)}"
        by_slope.setdefault(slope, []).append(number)
    return ["ridges in FLOP/B: " + ", ".join(f"{slope} {' '.join(found)}" for slope, found in by_slope.items())]


def _ceiling(machine: Machine, wanted: str) -> RoofCeiling | None:
    place, _, dtype = wanted.rpartition("/")
    found = rate(machine, Key("flops", place or "matrix", dtype))
    return None if found is None else RoofCeiling(machine, found.resource, found.dtype, float(found.value), found.note)


def _slope(machine: Machine, name: str) -> RoofSlope | None:
    found = rate(machine, Key("bytes", name))
    return None if found is None else RoofSlope(machine, found.resource, float(found.value))


def _names(machines: Sequence[Machine]) -> str:
    return ", ".join(machine.name for machine in machines)
