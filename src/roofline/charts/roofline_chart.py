"""The roofline: attainable FLOP/s against intensity, a slope for each memory level, a ceiling for each dtype.

>>> from roofline.hardware import chip
>>> chart = roofline_chart([chip("v5e", hbm="8.2e11 B/s")], dtypes=["bf16", "int8"])
>>> [(line.label, line.role) for line in chart.lines]
[('v5e hbm', 'slope'), ('v5e mxu int8', 'ceiling'), ('v5e mxu bf16', 'ceiling')]
>>> [(ridge.label, ridge.text) for ridge in chart.ridges][1]
('v5e mxu bf16 over hbm', '240 FLOP/B')

Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from roofline.bounds.bound import Bound
from roofline.bounds.zones import Zones
from roofline.charts.chart import Chart
from roofline.charts.marks import Axis, Line, Mark, Point, Region, Ridge
from roofline.charts.operations import Operation, left_out, operations, wanting
from roofline.charts.roofs import Corner, Roof, check_known, machine_roof, styled
from roofline.charts.size_axes import in_order, named
from roofline.errors import InputError, suggest
from roofline.hardware.machine import Machine
from roofline.hardware.overrides import describe_given
from roofline.measurement.points import bound_of
from roofline.measurement.runs import Measured
from roofline.quantity import format_number, format_quantity

#: How far the axes reach beyond what is drawn, as factors: left of the first ridge (with one slope, with several), and
#: round any point.
LEFT, LEFT_OF_SEVERAL, ROUND = 60.0, 12.0, 6.0

#: The share of the width right of the last ridge, where the ceilings' labels stand, and of the height above the roof.
CEILING_SHARE, HEADROOM = 0.34, 0.12

#: The most points whose attainable rate is written out below their name, and ridges whose unit is.
MOST_DETAILED = 4

#: The most ridges that all carry their number; of more, those of the first level do, and a note lists the others.
MOST_NUMBERED = 16

#: Measured points above their roof that the small print names.
MOST_FASTER = 4

#: A picture's height, and what each point more than this many adds to it, for the key has a row for one or two of them.
HEIGHT, HEIGHT_OF_POINT, POINTS_WITH_ROOM = 480, 8, 20

#: Letters of a line of a point's name, and lines.
NAME_WIDTH, NAME_LINES = 36, 3


#: What an operation without a place on a roofline may be asked for instead.
_ELSEWHERE = "a point needs FLOPs with a peak, and bytes; `bound` gives its time, and kind='time' draws it over a size"


def roofline_chart(
    machines: Sequence[Machine],
    bounds: Sequence[Bound] = (),
    *,
    names: Mapping[int, str] | None = None,
    dtypes: Sequence[str] = (),
    levels: Sequence[str] = (),
    zones: Zones | None = None,
    measured: Sequence[Measured] = (),
    title: str = "",
    theme: str = "light",
) -> Chart:
    """Draw the roofs of one or several machines, with operations and measured points under them.

    ``bounds``    answers on these machines: each operation becomes a point at (intensity, attainable)
    ``names``     what stands beside the point of a bound, by the bound's position
    ``dtypes``    a ceiling for each (``bf16``, or ``vector/fp32`` for one unit's); those the points use come anyway
    ``levels``    a slope for each memory level; by default the one data comes from
    ``zones``     the machines are one machine at these bandwidths, drawn under one ceiling over coloured regions
    ``measured``  runs, each drawn below what its machine allows
    """
    if not machines:
        raise InputError("no machine to draw the roof of", hint="name one, such as 'h100'")
    check_known(machines, dtypes, levels)
    labels = dict(names or {})
    done = [operation for index, answer in enumerate(bounds) for operation in operations(answer, labels.get(index))]
    skipped = [why for index, answer in enumerate(bounds) for why in left_out(answer, labels.get(index))]
    if skipped and not (done or measured):
        raise InputError(f"nothing to place on a roofline: {'; '.join(dict.fromkeys(skipped))}", hint=_ELSEWHERE)
    runs = [(run, _ran_on(run, machines)) for run in measured]
    priced = [bound_of(run, machines[at]) for run, at in runs]
    answers = [(answer, index_of(answer.machine, machines)) for answer in bounds]
    answers += [(answer, at) for answer, (_, at) in zip(priced, runs, strict=True)]
    roofs = _roofs(machines, dtypes, levels, answers, zones)
    corners = [corner for roof in roofs for corner in roof.corners()]
    if not corners:
        known = named([machine.name for machine in machines])
        raise InputError(
            f"no roof to draw: {known} needs a peak and a bandwidth", hint="give both, as in set bf16=1e14"
        )
    colors = range(len(machines)) if zones else [roof.series for roof in roofs]
    points = [*_points(done, machines, colors), *_run_points(runs, priced, colors)]
    x, y = _axes(corners, points)
    marks: list[Mark] = [
        *(_regions(zones, x) if zones else ()),
        *_lines(roofs, x),
        *_ridges(corners, roofs),
        *points,
    ]
    return Chart(
        kind="roofline",
        title=title or f"Roofline of {named([m.name for m in machines])}",
        x=x,
        y=y,
        marks=tuple(marks),
        notes=(*_listed(corners), *_notes([*bounds, *priced], roofs, points, skipped)),
        theme=theme,
        height=HEIGHT + HEIGHT_OF_POINT * max(0, sum(bool(point.text) for point in points) - POINTS_WITH_ROOM),
    )


def _roofs(
    machines: Sequence[Machine],
    dtypes: Sequence[str],
    levels: Sequence[str],
    answers: Sequence[tuple[Bound, int]],
    zones: Zones | None,
) -> list[Roof]:
    """A roof for each machine; with zones, one roof with a slope for each bandwidth."""
    found = [
        machine_roof(
            machine,
            dtypes=dtypes,
            levels=levels,
            answers=[answer for answer, at in answers if at == series],
        )
        for series, machine in enumerate(machines)
    ]
    if zones is None:
        return styled(found)
    ceilings = {(c.unit, c.dtype): c for roof in found for c in roof.ceilings}
    slopes = tuple(slope for roof in found for slope in roof.slopes)
    return styled([replace(found[0], slopes=slopes, ceilings=tuple(ceilings.values()))])


def index_of(machine: Machine, machines: Sequence[Machine]) -> int:
    """Which of the machines this is: the same object, else the one with the same name and figures."""
    for index, known in enumerate(machines):
        if known is machine:
            return index
    same = [
        index
        for index, known in enumerate(machines)
        if (known.key, known.units, known.memories) == (machine.key, machine.units, machine.memories)
    ]
    if not same:
        raise InputError(f"a bound on {machine.name} has no roof in this chart", hint="name its machine in `machines`")
    return same[0]


def _ran_on(run: Measured, machines: Sequence[Machine]) -> int:
    if not run.on:
        if len({machine.key for machine in machines}) > 1:
            hint = f"add a column 'on' with one of {', '.join(m.key for m in machines)}, or draw one machine"
            raise InputError(f"it is not said which machine {run.name!r} ran on", hint=hint)
        return 0
    for index, machine in enumerate(machines):
        if run.on.lower() in (machine.key, *machine.aliases):
            return index
    hint = suggest(run.on, [machine.key for machine in machines], what="the machines of this chart")
    raise InputError(f"{run.name!r} ran on {run.on!r}, which is not in this chart", hint=hint)


def _axes(corners: Sequence[Corner], points: Sequence[Point]) -> tuple[Axis, Axis]:
    ridges = [corner.intensity for corner in corners]
    beyond = LEFT_OF_SEVERAL if len({(c.slope.machine, c.slope.level) for c in corners}) > 1 else LEFT
    low = min([min(ridges) / beyond, *(point.x / ROUND for point in points)])
    slopes = max(ridges) / low
    high = max([max(ridges) * slopes ** (CEILING_SHARE / (1 - CEILING_SHARE)), *(point.x * ROUND for point in points)])
    floor = min([*(c.slope.bandwidth * low for c in corners), *(point.y / ROUND for point in points)])
    top = max([*(c.ceiling.peak for c in corners), *(point.y for point in points)])
    top *= (top / floor) ** (HEADROOM / (1 - HEADROOM))
    return (
        Axis("arithmetic intensity", "FLOP/B", "log", (low, high)),
        Axis("attainable FLOP/s", "FLOP/s", "log", (floor, top)),
    )


def _regions(zones: Zones, x: Axis) -> list[Region]:
    """Memory-bound at every bandwidth, at some, at none; the middle one is absent where there is one bandwidth."""
    fast, slow = (format_quantity(zones.bandwidths[i], "B/s") for i in (0, -1))
    between = f"memory-bound at {slow}, compute-bound at {fast}" if len(zones.bandwidths) > 2 else ""
    low, high = x.limits
    found = [
        Region(f"memory-bound even at {fast}", low, zones.red_below, "red"),
        Region(between or f"memory-bound at {slow} only", zones.red_below, zones.green_from, "yellow"),
        Region("compute-bound", zones.green_from, high, "green"),
    ]
    return [region for region in found if region.x0 < region.x1]


def _lines(roofs: Sequence[Roof], x: Axis) -> Iterator[Line]:
    """Slopes up to their last ridge, ceilings from their first."""
    groups = _groups(roofs)
    for roof, group in zip(roofs, groups, strict=True):
        corners = list(roof.corners())
        units = {ceiling.unit for ceiling in roof.ceilings}
        for slope in roof.slopes:
            last = max((c.intensity for c in corners if c.slope is slope), default=x.limits[1])
            xs = (x.limits[0], last)
            yield Line(
                f"{roof.machine.key} {slope.level}",
                xs,
                tuple(slope.bandwidth * intensity for intensity in xs),
                "slope",
                slope.series,
                slope.dash,
                f"{slope.level} {format_quantity(slope.bandwidth, 'B/s')}",
                group,
            )
        for ceiling in roof.ceilings:
            first = min((c.intensity for c in corners if c.ceiling is ceiling), default=x.limits[0])
            written = f"{ceiling.dtype} {format_quantity(ceiling.peak, 'FLOP/s')}"
            yield Line(
                f"{roof.machine.key} {ceiling.unit} {ceiling.dtype}",
                (first, x.limits[1]),
                (ceiling.peak, ceiling.peak),
                "ceiling",
                roof.series,
                roof.dash,
                f"{ceiling.unit} {written}" if len(units) > 1 else written,
                group,
            )


def _groups(roofs: Sequence[Roof]) -> list[str]:
    """What the key calls each machine: nothing where it is alone, and a number too where several have one name."""
    if len(roofs) == 1:
        return [""]
    keys = [roof.machine.key for roof in roofs]
    return [f"{key} ({keys[:i].count(key) + 1})" if keys.count(key) > 1 else key for i, key in enumerate(keys)]


def _ridges(corners: Sequence[Corner], roofs: Sequence[Roof]) -> Iterator[Ridge]:
    """A mark for every corner; of ceilings that are equally high, one for all."""
    unit = " FLOP/B" if len(corners) <= MOST_DETAILED else ""
    first = {id(roof.slopes[0]) for roof in roofs if roof.slopes}
    meeting: dict[tuple[int, float], list[Corner]] = {}
    for corner in corners:
        meeting.setdefault((id(corner.slope), corner.ceiling.peak), []).append(corner)
    for together in meeting.values():
        corner = together[0]
        slope, ceiling = corner.slope, corner.ceiling
        peaks = named([f"{c.ceiling.unit} {c.ceiling.dtype}" for c in together])
        numbered = len(corners) <= MOST_NUMBERED or id(slope) in first
        yield Ridge(
            corner.intensity,
            ceiling.peak,
            f"{slope.machine.key} {peaks} over {slope.level}",
            f"{format_number(corner.intensity, 3)}{unit}" if numbered else "",
            slope.series,
        )


def _listed(corners: Sequence[Corner]) -> list[str]:
    """The ridges in small print, where not all can carry their number."""
    if len(corners) <= MOST_NUMBERED:
        return []
    several = len({corner.slope.machine.key for corner in corners}) > 1
    by_slope: dict[str, list[str]] = {}
    for corner in corners:
        slope = f"{corner.slope.machine.key} {corner.slope.level}" if several else corner.slope.level
        number = f"{corner.ceiling.dtype} {format_number(corner.intensity, 3)}"
        by_slope.setdefault(slope, []).append(number)
    return ["ridges in FLOP/B: " + ", ".join(f"{slope} {' '.join(found)}" for slope, found in by_slope.items())]


def _points(done: Sequence[Operation], machines: Sequence[Machine], colors: Sequence[int]) -> Iterator[Point]:
    """A marker for every operation on every machine; its name stands once, beside the highest."""
    order = list(dict.fromkeys(operation.name for operation in done))
    highest = {name: max((o for o in done if o.name == name), key=lambda o: o.attainable) for name in order}
    detailed = len(done) <= MOST_DETAILED and len(machines) == 1
    for operation in done:
        text = ""
        if operation is highest[operation.name]:
            text = _wrapped(operation.name)
            if detailed:
                text += f"\n{format_quantity(operation.attainable, 'FLOP/s')}, {operation.bound_by} binds"
        yield Point(
            operation.name,
            operation.intensity,
            operation.attainable,
            series=colors[index_of(operation.machine, machines)],
            shape=order.index(operation.name),
            text=text,
            bound_by=operation.bound_by,
            on=operation.machine.key,
        )


def _run_points(
    runs: Sequence[tuple[Measured, int]], priced: Sequence[Bound], colors: Sequence[int]
) -> Iterator[Point]:
    for number, ((run, at), answer) in enumerate(zip(runs, priced, strict=True)):
        missing = wanting(answer, answer.machine)
        if answer.attainable is None or missing:
            raise InputError(f"{run.name!r} {missing}, so it has no roof", hint=f"give one, as in set {run.dtype}=1e14")
        roof = float(answer.attainable)
        yield Point(
            run.name,
            run.intensity,
            run.rate,
            roof,
            "measured",
            colors[at],
            number,
            f"{_wrapped(run.name)}\n{format_number(100 * run.rate / roof, 2)} % of the roof",
            str(answer.bound_by),
            answer.machine.key,
        )


def _wrapped(name: str) -> str:
    """Break a name into lines, between tensors rather than within one.

    >>> _wrapped("bf16[512, 8192] @ bf16[8192, 8192]; softmax(fp32[8, 32])")
    'bf16[512, 8192] @ bf16[8192, 8192];\\nsoftmax(fp32[8, 32])'
    """
    tied = name.replace(", ", ",\N{NO-BREAK SPACE}")
    lines = textwrap.wrap(tied, NAME_WIDTH, break_on_hyphens=False, max_lines=NAME_LINES, placeholder=" …")
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def _notes(
    answers: Sequence[Bound], roofs: Sequence[Roof], points: Sequence[Point], skipped: Sequence[str]
) -> tuple[str, ...]:
    said = [note for answer in answers for note in (*answer.assumptions, *answer.incomplete)]
    if not answers:
        said.append("dense data-sheet peaks and one-way bandwidths")
        said += [line for roof in roofs for line in describe_given(roof.machine)]
    said += [f"no bandwidth is known for these levels of {roof.machine.name}" for roof in roofs if not roof.slopes]
    said += [f"no peak is known for these dtypes on {roof.machine.name}" for roof in roofs if not roof.ceilings]
    said += [ceiling.note for roof in roofs for ceiling in roof.ceilings if ceiling.note]
    faster = list(dict.fromkeys(point.label for point in points if point.share is not None and point.share > 1))
    if faster:
        who = named(faster if len(faster) <= MOST_FASTER else [*faster[: MOST_FASTER - 1], "others"])
        bounds = "its bound" if len(faster) == 1 else "their bounds"
        cold = all(roof.machine.over is None for roof in roofs)
        why = f"{'data already in a cache, or ' if cold else ''}fewer bytes than stated?"
        said.append(f"{who} ran faster than {bounds}: {why}")
    said += [f"not on the chart: {why}" for why in skipped]
    return in_order(said, [roof.machine for roof in roofs])
