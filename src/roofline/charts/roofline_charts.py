"""The roofline: attainable FLOP/s against intensity, a slope for each memory level, a ceiling for each dtype.

>>> from roofline.hardware import chip
>>> chart = roofline_chart([chip("v5e", hbm="8.2e11 B/s")], dtypes=["bf16", "int8"])
>>> [(line.label, line.role) for line in chart.lines]
[('v5e hbm', 'slope'), ('v5e mxu int8', 'ceiling'), ('v5e mxu bf16', 'ceiling')]
>>> [(ridge.label, ridge.text) for ridge in chart.ridges][1]
('v5e mxu bf16 over hbm', '240 FLOP/B')

Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.

Pictures of a measured machine: its roofline, and bandwidth over the working set.

The measured roofline has a slope for each level that was found and two ceilings a dtype: the upper one is what its
registers can do, the lower one what a library's best product reached. A data sheet may stand beside it. Bandwidth has a
line for each kernel and a mark where each memory level ends. Both are drawn from a
:class:`~roofline.measurement.result.Measurement`, fresh or read back from its file.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from roofline.bounds.bound import Bound, OpBound, is_in_model
from roofline.bounds.ridges import Zones
from roofline.charts.chart import Chart, draws, joined, machines_said, ordered_notes
from roofline.charts.roofs import (
    RidgePoint,
    Roof,
    RoofStroke,
    check_known,
    machine_roof,
    roof_lines,
    roof_ridges,
    stroke_lines,
    unnumbered_ridges,
    with_styles,
    without_slope,
)
from roofline.charts.specification import NEUTRAL, Axis, Line, Mark, Point, Region, Ridge, log_axis
from roofline.errors import InputError, SizeError, suggest
from roofline.estimates.own_runs import columns_left_out
from roofline.frozen import replace
from roofline.hardware.machine import Machine
from roofline.hardware.overrides import describe_given
from roofline.lazy import np
from roofline.measurement import points as measured_points
from roofline.measurement.levels import Level
from roofline.measurement.points import bounds_of
from roofline.measurement.result import Measurement, threads_text
from roofline.measurement.runs import Measured
from roofline.quantity import format_number, format_percent, format_quantity
from roofline.signatures import setting, takes
from roofline.sizes import Size, is_array, is_symbol, sums_by_name

#: How far the axes reach beyond what is drawn, as factors: left of the first ridge (with one slope, with several), and
#: round any point.
LEFT, LEFT_OF_SEVERAL, ROUND = 60.0, 12.0, 6.0

#: The share of the width right of the last ridge, where the ceilings' labels stand, and of the height above the roof.
CEILING_SHARE, HEADROOM = 0.34, 0.15

#: The most points whose attainable rate is written out below their name.
MOST_DETAILED = 4

#: Measured points above their roof that the small print names.
MOST_FASTER = 4

#: A picture's height, and what each point more than this many adds to it, for the key has a row for one or two of them.
HEIGHT, HEIGHT_OF_POINT, POINTS_WITH_ROOM = 480, 8, 20

#: The same for machines, which have a row each where all their figures stand in the key.
HEIGHT_OF_MACHINE, MACHINES_WITH_ROOM = 14, 3

#: As many points have names; of more, those that take the most time.
MOST_NAMED = 60

#: Letters of a line of a point's name, and lines.
NAME_WIDTH, NAME_LINES = 36, 3

#: Points of a program no farther apart than this factor in either direction are drawn as one.
NEAR = 1.12

#: The same for rows of an answer over arrays.
NEAR_ROWS = 1.05

#: Points of a program, those that take longest first.
MOST_POINTS = 16

#: Operations without a point that the small print names, and the least share of the time of one that it names.
MOST_TOLD, LEAST_TOLD = 3, 0.01

#: The height of a picture of gathered points in pixels.
GATHERED_HEIGHT = 520

#: What an operation without a place on a roofline may be asked for instead.
_ELSEWHERE = "a point needs FLOPs with a peak, and bytes; `bound` gives its time, and kind='time' draws it over a size"


@draws("roofline", "roofline")
@takes()
def roofline_chart(
    machines: Sequence[Machine],
    bounds: Sequence[Bound] = (),
    *,
    names: Mapping[int, str] | None = None,
    dtypes: Sequence[str] = (),
    levels: Sequence[str] = (),
    zones: Zones | None = None,
    measured: Sequence[Measured] = (),
    allowed: Sequence[Bound] = (),
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
    ``allowed``   what that is for each run, where it is known already
    """
    if not machines:
        raise InputError("no machine to draw the roof of", hint="name one, such as 'h100'")
    check_known(machines, dtypes, levels)
    found = [points_of_answer(answer, (names or {}).get(index)) for index, answer in enumerate(bounds)]
    skipped = [point for points in found for point in points if isinstance(point, str)]
    if skipped and len(skipped) == sum(map(len, found)) and not measured:
        raise InputError(f"nothing to place on a roofline: {'; '.join(dict.fromkeys(skipped))}", hint=_ELSEWHERE)
    runs = [(run, _ran_on(run, machines)) for run in measured]
    if allowed and len(allowed) != len(runs):
        hint = "give one for each of measured"
        raise InputError(f"allowed has {len(allowed)} bounds for {len(runs)} runs", hint=hint)
    priced = list(allowed) or bounds_of([(run, machines[at]) for run, at in runs])
    places = [machine_index(answer.machine, machines) for answer in bounds]
    answers = list(zip([*bounds, *priced], [*places, *(at for _, at in runs)], strict=True))
    roofs = _roofs(machines, dtypes, levels, answers, zones)
    if not any(any(roof.ridge_points()) for roof in roofs):
        known = joined([machine.name for machine in machines])
        wrong = f"no roof to draw: {known} needs a peak and a bandwidth"
        raise InputError(wrong, hint=f"give both, as in {setting('bf16', '1e14')}")
    colors = range(len(machines)) if zones else [roof.series for roof in roofs]
    done = [
        (replace(point, series=colors[at]), part if len(points) > 1 else answer)
        for answer, points, at in zip(bounds, found, places, strict=True)
        for point, part in zip(points, answer.ops, strict=False)
        if isinstance(point, Point)
    ]
    times = [float(part.lower) for _, part in done]
    took = [run.seconds for run in measured]
    timed = times if not any(answer.is_rate_only for answer in bounds) else []
    sized = _sized([point for point, _ in done], timed, [*timed, *took])
    named, unnamed = _longest_named(_labelled(sized, len(machines) == 1, len(machines) == 1 and not levels), times)
    for (_, part), point in zip(done, list(named), strict=True):
        named += _at_levels(point, part, roofs) if levels else ()
    ran, others = _longest_named(_sized(list(_run_points(runs, priced, colors)), took, [*timed, *took]), took)
    drawn, left_out = [*named, *ran], [*unnamed, *others]
    left_out += [*without_slope(roofs, levels), *columns_left_out(run.unread for run in measured)]
    left_out += [SIZES_SAY] if len({point.size for point in (*sized, *ran)}) > 1 else []
    notes = (*left_out, *_notes([*bounds, *priced], roofs, drawn, skipped))
    title = title or f"Roofline of {machines_said(machines)}"
    return _under_roofs(roofs, drawn, title, notes, zones).with_theme(theme)


def _under_roofs(
    roofs: Sequence[Roof], drawn: Sequence[Point], title: str, notes: tuple[str, ...], zones: Zones | None
) -> Chart:
    """Points under the roofs of a chart, as wide and high as they need; notes begin with ridges without a number."""
    ridges = [point for roof in roofs for point in roof.ridge_points()]
    x, y = _axes(ridges, drawn)
    regions = _regions(zones, x) if zones else ()
    marks: list[Mark] = [*regions, *roof_lines(roofs, x), *roof_ridges(ridges, roofs), *drawn]
    height = HEIGHT + HEIGHT_OF_POINT * max(0, sum(bool(point.text) for point in drawn) - POINTS_WITH_ROOM)
    height += HEIGHT_OF_MACHINE * max(0, len(roofs) - MACHINES_WITH_ROOM)
    notes = (*unnumbered_ridges(ridges), *notes)
    return Chart(kind="roofline", title=title, x=x, y=y, marks=tuple(marks), notes=notes, height=height)


def rows_roofline(answer: Bound) -> Chart:
    """Draw each row of an answer over arrays under the roof; of rows in nearly one place the one that takes longest.

    >>> from roofline.bounds.api import bound
    >>> chart = rows_roofline(bound("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 64, 512], D=[4096, 8192, 1024], F=4096))
    >>> [(point.label, round(point.x), point.bound_by) for point in chart.points][:2]
    [('B = 64, D = 8192', 63, 'hbm'), ('B = 1, D = 4096', 1, 'hbm')]
    """
    missing = why_no_rate(answer, answer.machine)
    if missing or answer.intensity is None or not is_array(answer.attainable):
        raise InputError(f"nothing to place on a roofline: it {missing or 'moves no bytes'}", hint=_ELSEWHERE)
    sizes = {name: size for name, size in answer.sizes.items() if is_array(size)}
    measures: list[Any] = [*sizes.values(), answer.intensity, answer.attainable, answer.lower]
    *rows, x, y, times = (each.ravel() for each in np.broadcast_arrays(*measures))
    binds = np.broadcast_to(answer.bound_by, answer.lower.shape).ravel()
    order = np.argsort(-times, kind="stable")
    order = order[(x > 0)[order] & (y > 0)[order]]
    places = np.round(np.log([x[order], y[order]]) / math.log(NEAR_ROWS))
    shown = order[np.sort(np.unique(places, axis=1, return_index=True)[1])].tolist()

    def point(row: int) -> Point:
        label = ", ".join(f"{name} = {size[row]:g}" for name, size in zip(sizes, rows, strict=True))
        return Point(label, float(x[row]), float(y[row]), bound_by=str(binds[row]), on=answer.machine.key)

    found = [point(row) for row in shown]
    named = list(_labelled(found, True, True)) if len(found) <= MOST_POINTS else found
    drawn = _sized(named, times[shown].tolist(), times[shown].tolist())
    roofs = _roofs([answer.machine], (), (), [(answer, 0)], None)
    said = [f"{len(shown):,} of {times.size:,} rows: of those in nearly one place the one that takes longest"]
    said = [*said * (len(shown) < times.size), *[SIZES_SAY] * (len(shown) > 1)]
    notes = (*said, *_notes([answer], roofs, drawn, ()))
    return _under_roofs(roofs, drawn, f"{answer.expression} on {answer.target}", notes, None)


def _roofs(
    machines: Sequence[Machine],
    dtypes: Sequence[str],
    levels: Sequence[str],
    answers: Sequence[tuple[Bound, int]],
    zones: Zones | None,
) -> list[Roof]:
    """A roof for each machine; with zones, one roof with a slope for each bandwidth."""
    found = [
        machine_roof(machine, dtypes=dtypes, levels=levels, answers=[answer for answer, at in answers if at == series])
        for series, machine in enumerate(machines)
    ]
    if zones is None:
        return with_styles(found)
    ceilings = {(c.unit, c.dtype): c for roof in found for c in roof.ceilings}
    slopes = tuple(slope for roof in found for slope in roof.slopes)
    return with_styles([replace(found[0], slopes=slopes, ceilings=tuple(ceilings.values()))])


def machine_index(machine: Machine, machines: Sequence[Machine]) -> int:
    """Which of the machines this is: the same object, else the one with the same name and figures."""
    figures = (machine.key, machine.units, machine.memories)
    is_it = [known is machine for known in machines]
    is_alike = [(known.key, known.units, known.memories) == figures for known in machines]
    if True not in (*is_it, *is_alike):
        raise InputError(f"a bound on {machine.name} has no roof in this chart", hint="name its machine in `machines`")
    return (is_it if True in is_it else is_alike).index(True)


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


def _axes(ridges: Sequence[RidgePoint], points: Sequence[Point]) -> tuple[Axis, Axis]:
    intensities = [ridge.intensity for ridge in ridges]
    beyond = LEFT_OF_SEVERAL if len({(c.slope.machine, c.slope.level) for c in ridges}) > 1 else LEFT
    low = min([min(intensities) / beyond, *(point.x / ROUND for point in points)])
    slopes = max(intensities) / low
    high = max(
        [max(intensities) * slopes ** (CEILING_SHARE / (1 - CEILING_SHARE)), *(point.x * ROUND for point in points)]
    )
    floor = min([*(c.slope.bandwidth * low for c in ridges), *(point.y / ROUND for point in points)])
    top = max([*(c.ceiling.peak for c in ridges), *(point.y for point in points)])
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


#: What a chart says where points differ in size.
SIZES_SAY = "a larger point takes longer"

#: How much smaller the points of further memory levels are.
SMALLER = 0.75


def _at_levels(point: Point, part: Bound | OpBound, roofs: Sequence[Roof]) -> Iterator[Point]:
    """Where an operation lies under the other memory levels that are shown: each passes on all its bytes."""
    computes = max((float(use.time) for use in part.uses if use.quantity == "flops"), default=0.0)
    for roof in roofs:
        if roof.machine.key != point.on or len(roof.slopes) < 2 or not computes:
            continue
        for slope in roof.slopes:
            rate = min(float(part.flops) / computes, slope.bandwidth * point.x)
            if not math.isclose(rate, point.y, rel_tol=1e-3):
                label, size = f"{point.label} at {slope.level}", SMALLER * point.size
                yield replace(point, label=label, y=rate, text="", size=size, series=slope.series)


def _labelled(done: Sequence[Point], alone: bool, colored: bool) -> Iterator[Point]:
    """A marker for every operation on every machine; its name stands once, beside the highest.

    ``alone`` is one machine; where colours tell no levels apart either, each operation is ``colored`` in its own.
    """
    highest: dict[str, Point] = {}
    for point in done:
        if point.label not in highest or point.y > highest[point.label].y:
            highest[point.label] = point
    order = {label: number for number, label in enumerate(highest)}
    detailed = len(done) <= MOST_DETAILED and alone
    for point in done:
        text = _wrapped(point.label) if point is highest[point.label] else ""
        if text and detailed:
            text += f"\n{format_quantity(point.y, 'FLOP/s')}, {point.bound_by} binds"
        at = order[point.label]
        yield replace(point, shape=at, text=text, series=at % NEUTRAL if colored else point.series)


def _sized(points: Sequence[Point], times: Sequence[float], of: Sequence[float]) -> list[Point]:
    """Points as large as their share of the longest time ``of`` a chart; of one size where there are no two times."""
    if not times or len(of) < 2:
        return list(points)
    return [replace(p, size=marker_size(time / max(of))) for p, time in zip(points, times, strict=True)]


def _longest_named(points: Iterable[Point], times: Sequence[float]) -> tuple[list[Point], list[str]]:
    """The points with names only beside those that take the most time, and a note where others have none."""
    found = list(points)
    having = [index for index, point in enumerate(found) if point.text]
    if len(having) <= MOST_NAMED:
        return found, []
    longest = set(sorted(having, key=lambda index: -times[index])[:MOST_NAMED])
    note = f"names stand beside the {MOST_NAMED} of {len(having):,} points that take the most time"
    return [point if at in longest else replace(point, text="") for at, point in enumerate(found)], [note]


def _run_points(
    runs: Sequence[tuple[Measured, int]], priced: Sequence[Bound], colors: Sequence[int]
) -> Iterator[Point]:
    for number, ((run, at), answer) in enumerate(zip(runs, priced, strict=True)):
        missing = why_no_rate(answer, answer.machine)
        if answer.attainable is None or missing:
            hint = f"give one, as in {setting(run.dtype, '1e14')}"
            raise InputError(f"{run.name!r} {missing}, so it has no roof", hint=hint)
        roof = float(answer.attainable)
        yield run_point(run, answer, roof, colors[at], number, _wrapped(run.name))


def run_point(run: Measured, answer: Bound, roof: float, series: int, shape: int, name: str) -> Point:
    """The mark of a run below its roof, with its ``name`` and the percentage reached of it beside it."""
    text = f"{name}\n{format_percent(run.rate / roof)} of the roof"
    bound_by, on = str(answer.bound_by), answer.machine.key
    return Point(run.name, run.intensity, run.rate, roof, "measured", series, shape, text, bound_by, on)


def _wrapped(name: str) -> str:
    """Break a name into lines, between tensors rather than within one.

    >>> _wrapped("bf16[512, 8192] @ bf16[8192, 8192]; softmax(fp32[8, 32])")
    'bf16[512, 8192] @ bf16[8192, 8192];\\nsoftmax(fp32[8, 32])'
    >>> _wrapped("attention(bf16[8, 32, 4096], bf16[8, 8, 4096], bf16[8, 8, 4096])")
    'attention(bf16[8, 32, 4096],\\nbf16[8, 8, 4096], bf16[8, 8, 4096])'
    """
    tied = re.sub(r"\[[^]]*\]", lambda tensor: tensor[0].replace(" ", "\N{NO-BREAK SPACE}"), name)
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
        who = joined(faster if len(faster) <= MOST_FASTER else [*faster[: MOST_FASTER - 1], "others"])
        bounds = "its bound" if len(faster) == 1 else "their bounds"
        cold = all(roof.machine.over is None for roof in roofs)
        why = f"{'data already in a cache, or ' if cold else ''}fewer bytes than stated?"
        said.append(f"{who} ran faster than {bounds}: {why}")
    said += [f"not on the chart: {why}" for why in skipped]
    return ordered_notes(said, [roof.machine for roof in roofs])


def points_of_answer(answer: Bound, name: str | None = None) -> list[Point | str]:
    """The points of an answer, with the reason in place of a point that cannot be.

    A single operation is one point, and so is an answer with a ``name`` of its own; else each operation is one. A point
    has both FLOPs and bytes. Sizes without a number are an error.

    >>> from roofline.bounds.api import bound
    >>> [point] = points_of_answer(bound("bf16[64, 8192] @ bf16[8192, 8192]", on="v5e"))
    >>> point.label, round(point.x), point.bound_by
    ('bf16[64, 8192] * bf16[8192, 8192]', 63, 'hbm')
    """
    _check_numbers(answer)
    if len(answer.ops) == 1 or name is not None:
        return [_point(answer, answer, name or without_output(answer.expression))]
    return [_point(answer, part, _name(part)) for part in answer.ops]


def _point(answer: Bound, part: Bound | OpBound, name: str) -> Point | str:
    missing = why_no_rate(part, answer.machine)
    if missing or not part.intensity:
        return f"{name} {missing or 'moves no bytes at a known bandwidth'}"
    attained = float(part.flops / part.lower)
    return Point(name, float(part.intensity), attained, bound_by=str(part.bound_by), on=answer.machine.key)


def _name(part: OpBound) -> str:
    return part.op.where or without_output(part.op.name)


def why_no_rate(answer: Bound | OpBound, machine: Machine) -> str:
    """Why no FLOP/s can be given for an answer or an operation; empty where they can."""
    if not (answer.flops.any() if is_array(answer.flops) else answer.flops):
        return "has no FLOPs"
    if isinstance(answer, Bound):
        has_rate = answer.attainable is not None
    else:
        places = {key.place for key in answer.op.work if key.quantity == "flops"}
        counted = "matrix" if "matrix" in places else "vector"
        has_rate = any(use.quantity == "flops" and use.place == counted for use in answer.uses)
    return "" if has_rate else f"has FLOPs that {machine.name} has no peak for"


def without_output(expression: str) -> str:
    """The left side of an expression, which is enough to know it by.

    >>> without_output("bf16[B, D] * bf16[D, F] -> bf16[B, F]")
    'bf16[B, D] * bf16[D, F]'
    """
    return expression.partition(" -> ")[0]


def _check_numbers(answer: Bound) -> None:
    values: tuple[Size, ...] = (answer.flops, answer.intensity, *answer.bytes.values())
    for value in values:
        if is_symbol(value) and value.free_symbols:  # no FLOPs for a symbol of bytes are a zero of sympy's
            names = sorted(str(symbol) for symbol in value.free_symbols)
            raise SizeError(f"size {names[0]} has no value", hint=f"a point needs numbers, as in {names[0]}=64")
        if is_array(value):
            raise SizeError("a point needs single sizes, not arrays", hint="say which size to draw over: vary='B'")


def program_roofline(answer: Bound) -> Chart:
    """The operations of a traced program under the roof of its machine, those in nearly one place together."""

    def renamed(_: int, members: Sequence[OpBound]) -> dict[str, Any]:
        text = _counted_names(members)
        return {"label": text, "text": text}

    if not gather_operations(answer, 1)[0]:
        raise InputError("no operation of the program has both FLOPs and bytes", hint="there is nothing to draw")
    chart, [left] = gathered_roofline([answer], MOST_POINTS, renamed, f"{answer.expression} on {answer.target}")
    notes = (f"{left} shorter, byte-free or FLOP-free operations left out",) if left else ()
    return replace(
        chart, notes=(*notes, *without_place(answer, lambda part: without_output(part.op.name)), *chart.notes)
    )


def without_place(answer: Bound, named: Callable[[OpBound], str]) -> list[str]:
    """The time of operations without FLOPs or bytes of their own, which no roofline can place, by their names.

    Those that take less than :data:`LEAST_TOLD` of the time are not named.
    """
    whole = sum(float(part.lower) for part in answer.ops)
    times = sums_by_name(
        (("bytes" if part.flops else "FLOPs", named(part)), float(part.lower))
        for part in answer.ops
        if isinstance(_point(answer, part, ""), str)
    )
    said = []
    for lacking in ("bytes", "FLOPs"):
        longest = sorted(((t, name) for (of, name), t in times.items() if of == lacking), reverse=True)
        told = [
            f"{name} {format_quantity(time, 's')} ({format_percent(time / whole)} of the time)"
            for time, name in longest[:MOST_TOLD]
            if whole and time >= LEAST_TOLD * whole
        ]
        said += [f"not on the chart, having no {lacking} of its own: {joined(told)}"] if told else []
    return said


def gathered_roofline(
    answers: Sequence[Bound], most: int, changes: Callable[[int, Sequence[OpBound]], dict[str, Any]], title: str
) -> tuple[Chart, list[int]]:
    """Draw the longest operations of some answers, those in nearly one place as one point.

    ``changes`` says how a point differs from that of its first operation, given the number of its answer and all its
    operations. Returns also how many operations of each answer are left out.
    """
    found = [gather_operations(answer, most) for answer in answers]
    kept = [
        only_operations(answer, [members[0] for members in groups])
        for answer, (groups, _) in zip(answers, found, strict=True)
    ]
    chart = roofline_chart([answers[0].machine], kept, title=title)
    gathered = [(number, members) for number, (groups, _) in enumerate(found) for members in groups]
    times = [sum(float(member.lower) for member in members) for _, members in gathered]
    longest = [
        max((t for (of, _), t in zip(gathered, times, strict=True) if of == n), default=0.0) for n in range(len(found))
    ]
    own = iter(zip(gathered, times, strict=True))

    def changed(point: Point) -> Point:
        (number, members), time = next(own)
        return replace(point, size=marker_size(time / longest[number]), **changes(number, members))

    marks = [changed(mark) if isinstance(mark, Point) else mark for mark in chart.marks]
    notes = (SIZES_SAY, *(note for note in chart.notes if note != SIZES_SAY))
    return replace(chart, marks=tuple(marks), notes=notes, height=GATHERED_HEIGHT), [left for _, left in found]


def marker_size(share: float) -> float:
    """The width of a marker, whose area grows with its share of the longest time; the smallest can be seen.

    >>> marker_size(1.0), marker_size(0.25), marker_size(0.0)
    (1.4, 0.75, 0.75)
    """
    return max(0.75, 1.4 * math.sqrt(share))


def gather_operations(answer: Bound, most: int) -> tuple[list[list[OpBound]], int]:
    """Operations that have a place on a roofline, those in nearly one place together; and how many are left out."""
    _check_numbers(answer)
    groups: list[tuple[Point, list[OpBound]]] = []
    for part in sorted(answer.ops, key=lambda each: -float(each.lower)):
        point = _point(answer, part, _name(part))
        if isinstance(point, str):
            continue
        home = next((members for other, members in groups if _near(point, other)), None)
        if home is None:
            groups.append((point, [part]))
        else:
            home.append(part)
    shown = [members for _, members in groups[:most]]
    return shown, len(answer.ops) - sum(map(len, shown))


def only_operations(answer: Bound, parts: Sequence[OpBound]) -> Bound:
    """An answer with these operations alone, as far as a roofline asks."""
    if len(parts) != 1:
        return replace(answer, ops=tuple(parts))
    part = parts[0]
    figures = {"flops": part.flops, "intensity": part.intensity, "lower": part.lower, "bound_by": part.bound_by}
    return replace(answer, ops=(part,), **figures)


def _near(one: Point, other: Point) -> bool:
    return all(abs(math.log(ratio)) < math.log(NEAR) for ratio in (one.x / other.x, one.y / other.y))


def _counted_names(members: Sequence[OpBound]) -> str:
    """The names of a point's operations and how many of each: ``conv (13), linear``; of a single one its place too."""
    if len(members) == 1:
        name, where = members[0].op.name, members[0].op.where
        return where if name in where else f"{name} {where}".strip()
    names = [part.op.name for part in members]
    counts = Counter(names)
    text = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in counts.items())
    are_gradients = all(part.op.phase == "backward" and is_in_model(part.op) for part in members)
    return f"gradients of {text}" if are_gradients else text


#: Dtypes drawn where none are named, as far as they were measured.
DTYPES = ("fp32", "bf16")

#: The colour of the library's ceilings: none of a level or of the registers.
LIBRARY = 4

#: The stroke of a data sheet's figures.
SHEET = 2

#: How far the axes reach beyond the slopes' ends and the points, as factors.
LEFT_OF_MEASURED, RIGHT_OF_MEASURED, ROUND_MEASURED = 30.0, 40.0, 4.0


def measured_chart(
    measured: Measurement,
    *,
    threads: int | None = None,
    dtypes: Sequence[str] = (),
    sheet: Machine | None = None,
    points: Sequence[measured_points.MeasuredPoint] = (),
) -> Chart:
    """Draw a measurement on the most threads, or on ``threads``.

    ``dtypes``  ceilings for each, by default fp32 and bf16
    ``sheet``   a machine of the catalog whose data sheet is drawn beside, in dashes
    ``points``  timed operations, each with the gap to what is its own roof

    Raises :class:`~roofline.errors.InputError` where nothing was measured on so many threads, or in a dtype.
    """
    counts = sorted({ceiling.threads for ceiling in measured.ceilings})
    count = threads or max(counts, default=1)
    levels = measured.levels(count)
    found = list(_ceilings(measured, count, dtypes))
    ceilings = [stroke for _, stroke in found]
    if not levels or not ceilings:
        known = ", ".join(map(str, measured.thread_counts())) or "no"
        raise InputError(f"no roof was measured on {count} threads", hint=f"measured on {known} threads")
    slopes = [_slope(level.name, level.bandwidth, number) for number, level in enumerate(levels)]
    beside: tuple[list[RoofStroke], list[RoofStroke]] = ([], [])
    if sheet is not None:
        roof = machine_roof(sheet, dtypes=list(dict.fromkeys(dtype for dtype, _ in found)))
        of_sheet = [_ceiling(each.dtype, "data sheet", each.peak, NEUTRAL, SHEET) for each in roof.ceilings]
        beside = [_slope(each.level, each.bandwidth, NEUTRAL, SHEET) for each in roof.slopes], of_sheet
    shown = [point for point in points if point.run.flops and point.run.bytes]
    own, highest = (max(each.rate for each in strokes) for strokes in (ceilings, [*ceilings, *beside[1]]))
    ridges = [own / slopes[-1].rate, *(each.rate / beside[0][-1].rate for each in beside[1] if beside[0])]
    low = min([own / slopes[0].rate / LEFT_OF_MEASURED, *(point.run.intensity / ROUND_MEASURED for point in shown)])
    high = max(
        [max(ridges) * RIGHT_OF_MEASURED / ROUND_MEASURED, *(point.run.intensity * ROUND_MEASURED for point in shown)]
    )
    floor = min([slopes[-1].rate * low, *(point.run.rate / ROUND_MEASURED for point in shown)])
    told = measured.conditions
    return Chart(
        kind="roofline",
        title=f"Measured roofline, {count} thread{'s' * (count > 1)}",
        subtitle=f"{told.processor}, {told.date}" + (f"; beside it {sheet.name}" if sheet is not None else ""),
        x=Axis("arithmetic intensity", "FLOP/B", "log", (low, high)),
        y=Axis("FLOP/s", "FLOP/s", "log", (floor, highest * 4)),
        marks=(*stroke_lines(slopes, ceilings, (low, high)), *stroke_lines(*beside, (low, high)), *_points(shown)),
        notes=(
            *([f"the catalog has no peak of {sheet.name} to draw"] if sheet is not None and not beside[1] else []),
            "registers, tiles: without data; library: its best product; levels: the best bandwidth of any kernel",
            *measured.warnings(brief=True)[:3],
        ),
    )


def _slope(level: str, bandwidth: float, series: int, dash: int = 0) -> RoofStroke:
    source = ", data sheet" * (dash == SHEET)
    return RoofStroke(level, f"{level} {format_quantity(bandwidth, 'B/s')}{source}", bandwidth, series, dash)


def _ceiling(dtype: str, what: str, peak: float, series: int, dash: int) -> RoofStroke:
    return RoofStroke(f"{dtype} {what}", f"{dtype} {what} {format_quantity(peak, 'FLOP/s')}", peak, series, dash)


def _ceilings(measured: Measurement, threads: int, dtypes: Sequence[str]) -> Iterator[tuple[str, RoofStroke]]:
    """Of each dtype what its registers reached, on the fastest unit, then its library."""
    for dtype in dtypes or DTYPES:
        units = [(name, measured.ceiling(f"{name} {dtype}", threads)) for name in ("tile", "register")]
        peaks = [(each.value, f"{name}s") for name, each in units if each is not None and each.threads == threads]
        library = measured.best_ceiling("library", threads, dtype)
        if dtypes and not peaks and library is None:
            raise InputError(f"no ceiling was measured in {dtype}", hint=f"drawn by default: {', '.join(DTYPES)}")
        if peaks:
            best, what = max(peaks, key=lambda each: each[0])
            yield dtype, _ceiling(dtype, what, best, NEUTRAL, 0)
        if library is not None:
            on = "" if library.threads == threads else f", {threads_text(library.threads)}"
            yield dtype, _ceiling(dtype, f"library{on}", library.value, LIBRARY, 1)


def _points(points: Sequence[measured_points.MeasuredPoint]) -> Iterator[Point]:
    for number, point in enumerate(points):
        roof = point.run.flops / float(point.bound.lower)
        yield run_point(point.run, point.bound, roof, NEUTRAL, number, point.run.name)


def bandwidth_chart(measured: Measurement, *, threads: int | None = None) -> Chart:
    """Draw the curves of a measurement on the most threads, or on ``threads``.

    Raises :class:`~roofline.errors.InputError` where nothing was measured on so many threads.
    """
    counts = measured.thread_counts()
    count = threads or max(counts, default=1)
    curves = [curve for curve in measured.curves if curve.threads == count]
    if not curves:
        known = ", ".join(map(str, counts)) or "no"
        raise InputError(f"no bandwidth was measured on {count} threads", hint=f"measured on {known} threads")
    marks: list[Mark] = []
    for number, curve in enumerate(curves):
        x, y = zip(*curve.values(), strict=True)
        marks.append(Line(curve.name, x, y, "curve", number, number, curve.name))
    levels = measured.levels(count)
    marks += [_end(level) for level in levels if level.capacity is not None]
    sizes = [size for curve in curves for size, _ in curve.values()]
    speeds = [speed for curve in curves for _, speed in curve.values()]
    told = measured.conditions
    said = [f"{level.name}: {format_quantity(level.bandwidth, 'B/s')}" for level in levels]
    return Chart(
        kind="bandwidth",
        title=f"Bandwidth over the working set, {count} thread{'s' * (count > 1)}",
        subtitle=f"{told.processor}, {told.date}",
        x=log_axis("working set", "B", sizes),
        y=log_axis("bandwidth", "B/s", speeds, margin=1.6),
        marks=tuple(marks),
        notes=("best of any kernel: " + ", ".join(said), *measured.warnings(brief=True)[:3]),
    )


def _end(level: Level) -> Ridge:
    size = level.capacity or 0.0
    unit, factor = ("MiB", 2**20) if size >= 2**20 else ("KiB", 2**10)
    text = f"{level.name} {format_number(size / factor, 3)} {unit}"
    return Ridge(size, level.bandwidth, f"{level.name} ends at {text}", text)
