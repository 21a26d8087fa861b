"""Charts over a size: attainable throughput, and time resource by resource.

Throughput shows how large a size must be before the chip runs at its peak:

>>> from roofline.charts.plot import plot
>>> chart = plot("bf16[B, D] * int8[D, F] -> bf16[B, F]", on="v5e", set={"hbm": 8.2e11}, vary="B",
...              B=range(1, 512), D=[1024, 4096], F="D")
>>> [line.label for line in chart.lines]
['D = F = 1024', 'D = F = 4096', 'peak mxu bf16']
>>> [knee.text for knee in chart.ridges]
['B = 226.3', 'B = 136.1']

Time shows one line a resource, the lower bound (everything overlaps) and the upper (nothing does):

>>> chart = plot("fp16[B, 5120] * fp16[5120, 5120]", on="a100", set={"hbm": 1.5e12}, vary="B", kind="time",
...              B=range(1, 513))
>>> [line.label for line in chart.lines]
['lower', 'tensor', 'hbm', 'upper']
>>> lower = chart.line("lower").y
>>> round(lower[207] / lower[0], 2)          # 208 tokens take 8 % longer than 1
1.08

To add a chart over a size, write a function here and register it with :func:`~roofline.charts.chart.draws`.
``plot(kind=…)`` and ``--kind`` then know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roofline.bounds.bound import BOUND_KINDS
from roofline.charts.chart import Chart, draws, machines_said, ordered_notes
from roofline.charts.roofline_charts import why_no_rate
from roofline.charts.series import Series
from roofline.charts.specification import NEUTRAL, LeftOut, Line, Ridge, Role, Scale, log_axis, rising_axis, size_axis
from roofline.errors import InputError
from roofline.frozen import replace
from roofline.quantity import format_quantity
from roofline.signatures import takes
from roofline.sizes import is_number

if TYPE_CHECKING:
    from roofline.bounds.comparison import SideBySideBySize
    from roofline.formulas.compiled import Evaluated
    from roofline.models.sweeps import StepSweep

#: A peak is drawn where it is at most so many times above the highest curve.
IN_SIGHT = 1.6

#: Curves of a sweep of steps that are drawn.
MOST_CURVES = 12


@draws("size", "throughput")
@takes()
def throughput_chart(curves: Mapping[str, Series], *, title: str = "", theme: str = "light") -> Chart:
    """Draw the attainable FLOP/s of each curve, its knees, and the peaks they run into.

    ``curves`` are :class:`~roofline.charts.series.Series` by label, all over the same size. One without FLOPs, or
    whose FLOPs the machine has no peak for, is an error.
    """
    for curve in _some(curves):
        missing = why_no_rate(curve.answer, curve.answer.machine)
        if missing:
            hint = "kind='time' draws its time"
            raise InputError(f"{curve.expression} {missing}, so it has no throughput", hint=hint)
    named = list(enumerate(curves.items()))
    lines = [Line(label, curve.x, curve.attainable, "curve", number, number, label) for number, (label, curve) in named]
    lines += _peaks(list(curves.values()))
    knees = [
        Ridge(knee.x, knee.attainable, f"{label}: {knee.label(curve.unknown)}", knee.text(curve.unknown), number)
        for number, (label, curve) in named
        for knee in curve.knees
    ]
    quantity = ("Attainable throughput", "attainable FLOP/s", "FLOP/s")
    return _over_size("throughput", quantity, curves, [*lines, *knees], scale="linear", title=title, theme=theme)


@draws("size", "time")
@takes()
def time_chart(curves: Mapping[str, Series], *, title: str = "", theme: str = "light") -> Chart:
    """Draw the time of one curve resource by resource with both bounds, or of several curves with both bounds each."""
    marks = _one_in_detail(*curves.values()) if len(curves) == 1 else _side_by_side(curves)
    bounds = ("lower", "upper") if len(curves) == 1 else ("solid", "dotted")
    said = f"{bounds[0]}: everything overlaps; {bounds[1]}: nothing does"
    return _over_size("time", ("Time", "time at best", "s"), curves, marks, said, title=title, theme=theme)


def _some(curves: Mapping[str, Series]) -> list[Series]:
    if not curves:
        raise InputError("there is no curve to draw", hint="give curves by label, each over the same size")
    return list(curves.values())


def _over_size(
    kind: str,
    quantity: tuple[str, str, str],
    curves: Mapping[str, Series],
    marks: Sequence[Line | Ridge],
    *notes: str,
    scale: Scale | None = None,
    title: str,
    theme: str,
) -> Chart:
    """The chart of a ``quantity`` (its name, its axis, its unit) over the size all curves share.

    The vertical axis has the ``scale`` of the size axis where none is given.
    """
    listed = _some(curves)
    machines, unknown = [curve.answer.machine for curve in listed], listed[0].unknown
    name, label, unit = quantity
    x = size_axis(unknown, [curve.x for curve in listed])
    values = [value for mark in marks if isinstance(mark, Line) for value in mark.y]
    conventions = [note for curve in listed for note in curve.said]
    expressions = dict.fromkeys(curve.expression for curve in listed)
    return Chart(
        kind=kind,
        title=title or f"{name} over {unknown}",
        subtitle=" · ".join(filter(None, [machines_said(machines), *expressions])),
        x=x,
        y=rising_axis(values, scale or x.scale, label, unit),
        marks=tuple(marks),
        notes=(*notes, *ordered_notes(conventions, machines)),
        theme=theme,
    )


def step_time_chart(table: StepSweep, *, theme: str = "light") -> Chart:
    """Draw the time at best of the steps of a sweep over the size with the most values, a curve for each of the rest.

    >>> from roofline import sweep
    >>> table = sweep("llama-3-8b", on="h100", batch=[1, 8, 64], context=[1024, 8192])
    >>> chart = step_time_chart(table)
    >>> [(line.label, line.x) for line in chart.lines]
    [('context = 1024', (1.0, 8.0, 64.0)), ('context = 8192', (1.0, 8.0, 64.0))]
    >>> chart.lines[1].y == tuple(table["lower"].tolist()[1::2])
    True
    """
    over = max(table.sizes, key=lambda name: len(set(table[name].tolist())))
    names = list(table.columns)
    others = [name for name in names[: names.index(table.sizes[-1]) + 1] if name != over]
    kept = {name: table.plain(name) for name in [*others, over, "lower"]}
    told = [name for name in others if len(set(map(str, kept[name]))) > 1]
    curves: dict[str, list[tuple[float, float]]] = {}
    fits = table.plain("fits") if "fits" in table.columns else []
    drawn_all = not any(fits)
    for row in range(len(table)):
        if kept["lower"][row] is not None and (drawn_all or fits[row] is not False):
            label = ", ".join(_named(name, kept[name][row]) for name in told) or "lower"
            curves.setdefault(label, []).append((float(kept[over][row]), float(kept["lower"][row])))
    same = [_named(name, kept[name][0]) for name in others if name not in told]
    unfit = sum(each is not None and not each for each in fits)
    found = _curves_of_points(
        curves, over, "time of a step at best", "s", f"Time of {table.model.name} {table.phase} over {over}",
        ", ".join(filter(None, [table.same_in_all, *same])), ("steps", len(table), 0 if drawn_all else unfit), theme,
    )  # fmt: skip
    said = ["no step fits the memory"] if unfit and drawn_all else []
    return replace(found, notes=(*said, *found.notes, *table.incomplete))


def resources_chart(table: Evaluated, over: str, *, theme: str = "light") -> Chart:
    """Draw the time of each resource in a table of a formula's columns over one of its sizes: the highest binds.

    >>> from roofline import formula
    >>> step = formula("llama-3-8b", "train", on="h100:n", batch_tokens=2**20)
    >>> chart = resources_chart(step(n=[16, 64, 256, 1024], batch_tokens=2**20, sequence=4096), "n")
    >>> [(line.label, len(line.x)) for line in chart.lines][:2]
    [('hbm', 4), ('cuda', 4)]
    """
    marks = []
    for at, label in enumerate(table.function.resources):
        drawn = zip(table.plain(over), table.plain(f"time.{label}"), strict=True)
        points = sorted((float(size), time) for size, time in drawn if time is not None and time > 0)
        if points:
            x, y = zip(*points, strict=True)
            marks.append(Line(label, x, y, "curve", at, at, label))
    if not marks:
        raise InputError("the formula holds at none of these sizes", hint="its incomplete says why")
    ends = [size for line in marks for size in (line.x[0], line.x[-1])]
    across = replace(log_axis(over.replace("_", " "), "", ends), whole=True)
    same = [_named(name, table.plain(name)[0]) for name in table.whole if name != over]
    return Chart(
        kind="time",
        title=f"Time of {table.function.name} over {over}",
        subtitle=", ".join(same),
        x=across,
        y=rising_axis([value for line in marks for value in line.y], "log", "time on a resource", "s"),
        marks=tuple(marks),
        notes=table.incomplete,
        theme=theme,
    )


def beside_chart(found: SideBySideBySize, *, theme: str = "light") -> Chart:
    """Draw the first figure of answers side by side over the size with the most values, a curve for each answer.

    >>> from roofline import llm
    >>> chart = beside_chart(llm("llama-3-8b", on="h100,h200", batch=[1, 64, 4096], context=8192))
    >>> [(line.label, line.x) for line in chart.lines], chart.left_out
    ([('h100', (1.0, 64.0)), ('h200', (1.0, 64.0))], ('4 of 6 answers are drawn: 2 do not fit the memory',))
    """
    values = {name: {size[name] for size in found.sizes} for name in found.sizes[0]}
    over = max(values, key=lambda name: len(values[name]))
    told = [name for name in values if name != over and len(values[name]) > 1]
    headline = found.each[0].headline
    curves: dict[str, list[tuple[float, float]]] = {}
    unit, out, every = "", 0, 0
    for size, one in zip(found.sizes, found.each, strict=True):
        for who, fact, fits in zip(found.names, one.facts[headline], one.fitting, strict=True):
            every += 1
            out += not fits
            if fits and fact is not None and is_number(fact.value):
                unit = fact.unit
                label = ", ".join([who, *(_named(name, size[name]) for name in told)])
                curves.setdefault(label, []).append((float(size[over]), float(fact.value)))
    if not curves:
        raise InputError("no answer fits the memory, so there is nothing to draw", hint="its table() has the figures")
    same = [_named(name, found.sizes[0][name]) for name in values if name != over and name not in told]
    title = f"{found.subject}: {headline} over {over.replace('_', ' ')}"
    return _curves_of_points(curves, over, headline, unit, title, ", ".join(same), ("answers", every, out), theme)


def _curves_of_points(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    over: str,
    label: str,
    unit: str,
    title: str,
    subtitle: str,
    of: tuple[str, int, int],
    theme: str,
) -> Chart:
    """A curve through the points of each label; ``of`` names what points are, counts all, and those that do not fit."""
    shown = list(curves.items())[:MOST_CURVES]
    ends = [(name, tuple(zip(*sorted(points), strict=True))) for name, points in shown]
    marks = [Line(name, x, y, "curve", at, at, name) for at, (name, (x, y)) in enumerate(ends)]
    across = replace(size_axis(over, [line.x for line in marks]), label=over.replace("_", " "))
    what, every, out = of
    reasons = [f"{out:,} {'does' if out == 1 else 'do'} not fit the memory"] * bool(out)
    reasons += [f"{len(curves):,} curves are more than {MOST_CURVES}"] * (len(curves) > MOST_CURVES)
    drawn = sum(len(line.x) for line in marks)
    return Chart(
        kind="time",
        title=title,
        subtitle=subtitle,
        x=across,
        y=rising_axis([value for line in marks for value in line.y], across.scale, label, unit),
        marks=tuple(marks),
        notes=(LeftOut(f"{drawn:,} of {every:,} {what} are drawn: {', '.join(reasons)}"),) if reasons else (),
        theme=theme,
    )


def _named(name: str, value: Any) -> str:
    """A size or a choice with its name; chips say by themselves what they are."""
    return str(value) if name == "on" else f"{name} = {value}"


def _peaks(curves: Sequence[Series]) -> Iterator[Line]:
    """The peaks of one machine that are in sight of the curves; the curves of several machines end in theirs."""
    if len({curve.answer.machine.key for curve in curves}) > 1:
        return
    limits = size_axis("", [curve.x for curve in curves]).limits
    highest = max(rate for curve in curves for rate in curve.attainable)
    uses = [use for curve in curves for use in curve.answer.uses if use.quantity == "flops"]
    for unit, dtype, peak in dict.fromkeys((use.resource, use.dtype, float(use.rate.value)) for use in uses):
        if peak <= highest * IN_SIGHT:
            name = f"peak {unit} {dtype}"
            yield Line(name, limits, (peak, peak), "ceiling", NEUTRAL, 2, f"{name} {format_quantity(peak, 'FLOP/s')}")


def _one_in_detail(curve: Series) -> list[Line | Ridge]:
    words = {use.resource: BOUND_KINDS[use.quantity].removesuffix("-bound") for use in curve.answer.uses}
    marks: list[Line | Ridge] = [_times("lower", curve, curve.lower, "lower", NEUTRAL, 0, "lower")]
    for number, (resource, times) in enumerate(curve.times.items()):
        if any(times):
            text = f"{words.get(resource, '')} ({resource})".strip()
            marks.append(_times(resource, curve, times, "resource", number, number, text))
    marks.append(_times("upper", curve, curve.upper, "upper", NEUTRAL, 2, "upper"))
    return [*marks, *_knees(curve, "", NEUTRAL)]


def _side_by_side(curves: Mapping[str, Series]) -> list[Line | Ridge]:
    marks: list[Line | Ridge] = []
    for number, (label, curve) in enumerate(curves.items()):
        marks.append(_times(label, curve, curve.lower, "curve", number, 0, label))
        marks.append(_times(f"{label}, upper", curve, curve.upper, "resource", number, 2, ""))
        marks += _knees(curve, f"{label}: ", number)
    return marks


def _times(label: str, curve: Series, times: Sequence[float], role: Role, series: int, dash: int, text: str) -> Line:
    """A line over the sizes that take any time: one chip alone sends nothing."""
    used = [(x, time) for x, time in zip(curve.x, times, strict=True) if time > 0]
    return Line(label, tuple(x for x, _ in used), tuple(time for _, time in used), role, series, dash, text)


def _knees(curve: Series, prefix: str, series: int) -> list[Ridge]:
    unknown = curve.unknown
    return [
        Ridge(knee.x, knee.lower, f"{prefix}{knee.label(unknown)}", knee.text(unknown), series) for knee in curve.knees
    ]
