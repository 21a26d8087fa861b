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

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from roofline.bounds.bound import BINDS, Bound
from roofline.bounds.sweep import Sweep, resized, sweep
from roofline.charts.chart import Chart, draws, machines_said, ordered_notes
from roofline.charts.roofline_charts import why_no_rate
from roofline.charts.specification import NEUTRAL, LeftOut, Line, Ridge, Role, Scale, log_axis, rising_axis, size_axis
from roofline.errors import InputError, SizeError, near_words
from roofline.formulas.compiled import Evaluated
from roofline.formulas.tables import UNITS
from roofline.frozen import dataclass, replace
from roofline.lazy import np
from roofline.quantity import agree, format_number, format_quantity
from roofline.signatures import takes
from roofline.sizes import grouped, is_number
from roofline.statements import BY_WHAT_IS_TIMED, Assumption

if TYPE_CHECKING:
    from roofline.bounds.comparison import SideBySideBySize
    from roofline.models.sweeps import StepSweep

COLUMNS = ("flops", "lower", "upper", "attainable", "times", "bound_by")

#: The most curves one chart can hold and still be told apart.
MOST_CURVES = 12

#: The text of a line of what is expected, beside one of what is at best.
EXPECTED = "expected"

#: Rows of one refinement when a knee is looked for between two sizes that are far apart.
_REFINED = 1024

# Of a sharded expression, 2 to this power of sizes are tried one by one, since not all divide.
_SHARDED_BITS = 6

#: Sizes this near each other, as a share, have a straight line between them.
_CLOSE = 0.02

#: A time that is less than this part of what a fall with the cube of a size leaves has made a step.
_STEEP = 0.99


@dataclass(frozen=True, slots=True)
class Knee:
    """A point of a curve. Of a knee what binds changes at ``x``, from ``before`` to ``after``; times by resource.

    ``ends`` are the sizes on both sides of it that were evaluated, the nearest there are.
    """

    x: float
    attainable: float
    lower: float
    upper: float
    times: Mapping[str, float]
    before: str
    after: str
    ends: tuple[int, int]

    def text(self, unknown: str) -> str:
        """Where it is: a figure between sizes that are close, else both sizes, for nothing between them can be run.

        >>> Knee(2.5, 1.0, 1.0, 1.0, {}, "hbm", "mxu", (2, 3)).text("B")
        'B = 2.5'
        >>> Knee(3.2, 1.0, 1.0, 1.0, {}, "mxu", "ici", (2, 4)).text("n")
        'n between 2 and 4'
        """
        low, high = self.ends
        if _close(low, high):
            return f"{unknown} = {format_number(self.x)}"
        return f"{unknown} between {low} and {high}"

    def label(self, unknown: str) -> str:
        """Where it is, and what binds beyond: ``from B = 255.5 mxu binds``."""
        return f"from {self.text(unknown)} {self.after} binds"


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One curve: sizes in rising order, its knees among them, and for each what is attainable and how long it takes.

    ``answer`` is the whole bound at the largest size, for its rates and assumptions, ``smallest`` that at the smallest;
    ``sizes`` are the other sizes that differ between curves; ``left_out`` says which rows have no figures.
    """

    expression: str
    unknown: str
    sizes: Mapping[str, int]
    x: tuple[float, ...]
    attainable: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    times: Mapping[str, tuple[float, ...]]
    knees: tuple[Knee, ...]
    answer: Bound
    smallest: Bound | None = None
    left_out: tuple[str, ...] = ()

    @property
    def said(self) -> list[str]:
        """What was assumed and left out over all sizes, and of what differs at which end."""
        last = _said_of(self.answer)
        if self.smallest is None:
            return last
        first = _said_of(self.smallest)
        ends = ((self.x[0], first, last), (self.x[-1], last, first))
        only = [
            _at_size(note, f"{self.unknown} = {size:g}")
            for size, own, other in ends
            for note in own
            if note not in other
        ]
        return [*(note for note in last if note in first), *only, *self.left_out]

    @property
    def label(self) -> str:
        """The sizes that tell this curve from its neighbours: ``D = F = 1024``."""
        by_value = grouped((value, name) for name, value in self.sizes.items())
        return ", ".join(" = ".join([*names, str(value)]) for value, names in by_value.items())


def _said_of(answer: Bound) -> list[str]:
    return [*answer.assumptions, *answer.incomplete]


def _at_size(note: str, size: str) -> str:
    """A statement with the size that it is of."""
    text = f"at {size}: {note}"
    return Assumption(note.kind, text) if isinstance(note, Assumption) else text


def series(expression: str | None, unknown: str, *, sizes: Mapping[str, Any], **arguments: Any) -> list[Series]:
    """Evaluate an expression over ``unknown``, one curve a combination of the other sizes with several values.

    ``arguments`` are those of :func:`roofline.bound`. Sizes given as text are formulas and add no curve.

    >>> curves = series("bf16[B, D] * int8[D, F] -> bf16[B, F]", "B", on="v5e", set={"hbm": 8.2e11},
    ...                 sizes={"B": range(1, 512), "D": [1024, 4096], "F": "D"})
    >>> [(curve.label, round(curve.knees[0].x, 1), curve.knees[0].before) for curve in curves]
    [('D = F = 1024', 226.3, 'hbm'), ('D = F = 4096', 136.1, 'hbm')]
    """
    _check(unknown, sizes)
    table = sweep(expression, columns=COLUMNS, sizes=sizes, **arguments)

    def finer(values: Sequence[int], others: Mapping[str, int]) -> Sweep:
        fixed = {k: v if isinstance(v, str) else others[k] for k, v in sizes.items() if k != unknown}
        return resized(table, COLUMNS, {**fixed, unknown: values})

    groups = _groups(table, unknown, sizes)
    if len(drawn := {size for rows, _ in groups for size in table[unknown][rows].tolist()}) == 1:
        wrong = f"of the values of size {unknown} only {drawn.pop():,} can be asked"
        raise SizeError(wrong, hint=f"a curve needs several{_AS_IN.format(unknown)}")
    return [_curve(table, rows, unknown, others, finer) for rows, others in groups]


_AS_IN = ", as in {0}=range(1, 512), on a command line {0}=1:511"


def _check(unknown: str, sizes: Mapping[str, Any]) -> None:
    if unknown not in sizes:
        hint = near_words(unknown, sizes) or f"give it several values{_AS_IN.format(unknown)}"
        raise SizeError(f"nothing varies: size {unknown} is not given", hint=hint)
    given = sizes[unknown]
    if not _is_listed(given) or len({float(value) for value in given}) < 2:
        wrong = f"size {unknown} has one value, {given!r}"
        raise SizeError(wrong, hint=f"a curve needs several{_AS_IN.format(unknown)}")
    several = {name: len(set(value)) for name, value in sizes.items() if name != unknown and _is_listed(value)}
    curves = math.prod(several.values())
    if curves > MOST_CURVES:
        hint = f"give fewer values to {', '.join(name for name, count in several.items() if count > 1)}"
        raise SizeError(f"{curves:,} curves are more than a chart can tell apart ({MOST_CURVES})", hint=hint)


def _is_listed(value: Any) -> bool:
    return not isinstance(value, str) and hasattr(value, "__len__")


def _groups(table: Sweep, unknown: str, sizes: Mapping[str, Any]) -> list[tuple[Any, dict[str, int]]]:
    """Row numbers of each curve that have figures, by rising unknown, with its other sizes."""
    others = [name for name in table.names if name != unknown and not isinstance(sizes.get(name), str)]
    known = ~np.isnan(table["lower"])
    keys: dict[tuple[int, ...], None] = dict.fromkeys(
        zip(*(map(int, table[name].tolist()) for name in others), strict=True) if others else [()]
    )
    groups = []
    for key in keys:
        same = known.copy()
        for name, value in zip(others, key, strict=True):
            same &= table[name] == value
        rows = np.flatnonzero(same)
        if not len(rows):
            continue
        _, first = np.unique(table[unknown][rows], return_index=True)
        groups.append((rows[first], dict(zip(others, key, strict=True))))
    return groups


def _curve(
    table: Sweep, rows: Any, unknown: str, others: Mapping[str, int], finer: Callable[[Sequence[int], Any], Sweep]
) -> Series:
    varied = {name for name in table.names if len(set(table[name].tolist())) > 1 and len(set(table[name][rows])) == 1}
    first, answer = int(rows[0]), table.row(int(rows[-1]))
    asked = _points(table, unknown, rows)
    drawn: list[Knee] = asked[:1]
    for left, right in pairwise(asked):
        drawn += [*_bends(left, right, lambda values: _points(_refined(values, others, finer), unknown)), right]
    return Series(
        expression=table.question.text or table.question.expression,
        unknown=unknown,
        sizes={name: int(table[name][first]) for name in table.names if name in varied},
        **{name: tuple(getattr(point, name) for point in drawn) for name in ("x", "attainable", "lower", "upper")},
        times={name: tuple(point.times.get(name, 0.0) for point in drawn) for name in _resources(table)},
        knees=tuple(point for point in drawn if point.after != point.before),
        answer=answer,
        smallest=table.row(first),
        left_out=tuple(line for line in table.incomplete if line not in answer.incomplete),
    )


def _points(table: Sweep, unknown: str, rows: Any = slice(None)) -> list[Knee]:
    """Rows of a table as points of a curve, at which nothing changes."""
    names = [f"time.{name}" for name in _resources(table)]
    columns = (table[name][rows].tolist() for name in (unknown, "attainable", "lower", "upper", "bound_by", *names))
    return [
        Knee(float(x), rate, lower, upper, dict(zip(_resources(table), times, strict=True)), by, by, (int(x), int(x)))
        for x, rate, lower, upper, by, *times in zip(*columns, strict=True)
    ]


def _close(low: float, high: float) -> bool:
    return high - low <= max(1, _CLOSE * low)


def _bends(left: Knee, right: Knee, between: Callable[[tuple[int, int]], list[Knee]]) -> Iterator[Knee]:
    """What a curve does between two of its points: knees, and the two points of each step."""
    before, after = _narrowed(left, right, between, _fall) if _is_step(left, right) else (left, right)
    if not _is_step(before, after):
        if left.before == right.before:
            return
        before, after = _narrowed(left, right, between, _flip)
        if not _is_step(before, after):
            yield _knee(before, after)
            return
    if before.x > left.x:
        yield from (*_bends(left, before, between), before)
    if after.x < right.x:
        yield from (after, *_bends(after, right, between))


def _is_step(low: Knee, high: Knee) -> bool:
    """Whether a time falls so much faster than sizes rise that a line would mislead: another algorithm is faster."""
    ratio = low.x / high.x
    return any(time > 0 and high.times[name] < _STEEP * ratio**3 * time for name, time in low.times.items())


def _fall(points: Sequence[Knee]) -> int:
    """The point before which a time falls most."""
    falls = ((after.times[n] / time for n, time in one.times.items() if time > 0) for one, after in pairwise(points))
    left_over = [min(each, default=1.0) for each in falls]
    return 1 + left_over.index(min(left_over))


def _flip(points: Sequence[Knee]) -> int:
    """The first point at which something else binds."""
    return next(at for at, point in enumerate(points) if point.before != points[0].before)


def _narrowed(
    low: Knee, high: Knee, between: Callable[[tuple[int, int]], list[Knee]], change: Callable[[Sequence[Knee]], int]
) -> tuple[Knee, Knee]:
    """The two sizes next to each other that a change lies between, or the nearest that can be run."""
    while high.x - low.x > 1:
        points = between((int(low.x), int(high.x)))
        at = change(points)
        low, high = points[at - 1], points[at]
        if len(points) == 2:
            break
    return low, high


def _knee(low: Knee, high: Knee) -> Knee:
    """Put the crossing of what binds between two sizes by a straight line.

    Times are linear in a size between neighbours, or nearly so, which makes it exact. Between sizes that are far apart,
    where nothing can be run, the line is that of the logarithms, as it is drawn, of all that has one.
    """
    before, after = low.before, high.before
    far = not _close(low.x, high.x)

    def straight(begin: float, end: float, bent: bool) -> tuple[float, float]:
        return (math.log(begin), math.log(end)) if bent else (begin, end)

    there = [(low.times[name], high.times[name]) for name in (before, after)]
    bent = far and min(map(min, there)) > 0
    first, second = (straight(*ends, bent) for ends in there)
    gap = first[0] - second[0], first[1] - second[1]
    part = gap[0] / (gap[0] - gap[1]) if gap[0] != gap[1] else 0.5
    left, right = straight(low.x, high.x, bent)
    x = math.exp(left + part * (right - left)) if bent else left + part * (right - left)

    def at_knee(begin: float, end: float) -> float:
        """A figure at the knee; of sizes far apart by its logarithm, where it has one at both."""
        bent = far and min(begin, end) > 0
        (begin, end), (left, right) = straight(begin, end, bent), straight(low.x, high.x, bent)
        found = begin + (end - begin) * ((math.log(x) if bent else x) - left) / (right - left)
        return math.exp(found) if bent else found

    times = {name: at_knee(low.times[name], high.times[name]) for name in low.times}
    time = times[after]
    flops = at_knee(low.attainable * low.lower, high.attainable * high.lower)
    upper, ends = at_knee(low.upper, high.upper), (int(low.x), int(high.x))
    return Knee(x, flops / time, time, upper, times | {before: time}, before, after, ends)


def _refined(ends: tuple[int, int], others: Mapping[str, int], finer: Callable[[Sequence[int], Any], Sweep]) -> Sweep:
    """Evaluate sizes between two; of a sharded expression those that its mesh axes divide."""
    start, stop = ends
    found = finer(sorted({int(size) for size in np.linspace(start, stop, _REFINED).tolist()}), others)
    if np.isnan(found["lower"]).any():
        step = 1 << max((stop - start).bit_length() - _SHARDED_BITS, 0)
        inside = [s for s in range(start - start % step + step, stop, step) if _divides(s, others, finer)]
        return finer([start, *inside, stop], others)
    return found


def _divides(size: int, others: Mapping[str, int], finer: Callable[[Sequence[int], Any], Sweep]) -> bool:
    try:
        finer([size], others)
    except SizeError:
        return False
    return True


def _resources(table: Sweep) -> list[str]:
    return [name.removeprefix("time.") for name in table.columns if name.startswith("time.")]


#: A peak is drawn where it is at most so many times above the highest curve.
IN_SIGHT = 1.6


@draws("size", "throughput")
@takes()
def throughput_chart(curves: Mapping[str, Series], *, title: str = "", theme: str = "light") -> Chart:
    """Draw the attainable FLOP/s of each curve, its knees, and the peaks they run into.

    ``curves`` are :class:`~roofline.charts.size_charts.Series` by label, all over the same size. One without FLOPs, or
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
    return _over_size("throughput", quantity, curves, [*lines, *knees], scale="linear", title=title).with_theme(theme)


@draws("size", "time")
@takes()
def time_chart(curves: Mapping[str, Series], *, title: str = "", theme: str = "light") -> Chart:
    """Draw the time of one curve resource by resource with both bounds, or of several curves with both bounds each."""
    marks = _one_in_detail(*curves.values()) if len(curves) == 1 else _side_by_side(curves)
    bounds = ("lower", "upper") if len(curves) == 1 else ("solid", "dotted")
    said = f"{bounds[0]}: everything overlaps; {bounds[1]}: nothing does"
    return _over_size("time", ("Time", "time", "s"), curves, marks, said, title=title).with_theme(theme)


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
    )


#: Columns of steps as pictures: title, axis; where no expected time is drawn beside, the figure is that at best.
_OF_STEPS = {
    "lower": ("Time", "time of a step"),
    "throughput": ("Throughput", "tokens a second of each chip"),
    "tokens_per_second": ("Throughput", "tokens a second"),
}


def step_chart(table: StepSweep, column: str = "lower") -> Chart:
    """Draw the steps of a sweep over the size with the most values, a curve for each of the rest.

    The height is the time at best, or a rate of tokens: a ``column`` of the table. Curves end where memory does.

    >>> from roofline import sweep
    >>> table = sweep("llama-3-8b", on="h100", batch=[1, 8, 64], context=[1024, 8192])
    >>> chart = step_chart(table)
    >>> [(line.label, line.x) for line in chart.lines]
    [('context = 1024', (1.0, 8.0, 64.0)), ('context = 8192', (1.0, 8.0, 64.0))]
    >>> chart.lines[1].y == tuple(table["lower"].tolist()[1::2])
    True
    """
    over = max(table.sizes, key=lambda name: len(set(table[name].tolist())))
    names = list(table.columns)
    others = [name for name in names[: names.index(table.sizes[-1]) + 1] if name != over]
    has_expected = column == "lower" and "expected" in names
    kept = {name: table.plain(name) for name in [*others, over, column, *["expected"] * has_expected]}
    told = [name for name in others if len(set(map(str, kept[name]))) > 1]
    curves: dict[str, list[tuple[float, float]]] = {}
    expected: dict[str, list[tuple[float, float]]] = {}
    fits = table.plain("fits") if "fits" in table.columns else []
    drawn_all = not any(fits)
    for row in range(len(table)):
        if kept[column][row] is not None and (drawn_all or fits[row] is not False):
            label = ", ".join(_named(name, kept[name][row]) for name in told) or column.replace("_", " ")
            label += f", {BY_WHAT_IS_TIMED}" * table.is_partial(row)
            curves.setdefault(label, []).append((float(kept[over][row]), float(kept[column][row])))
            if (value := kept.get("expected", kept[column])[row]) is not None:
                expected.setdefault(label, []).append((float(kept[over][row]), float(value)))
    same = [_named(name, kept[name][0]) for name in others if name not in told]
    unfit = sum(each is not None and not each for each in fits)
    lacks = _LACKS["does not run" in dict(table.notes)]
    shown, axis = _OF_STEPS[column]
    axis += " at best" * (not has_expected)
    found = _curves_of_points(
        curves, over, axis, UNITS[column], f"{shown} of {table.subject} over {over}",
        ", ".join(filter(None, [table.same_in_all, *same])),
        ("steps", len(table), _left_out(0 if drawn_all else unfit, lacks)),
    )  # fmt: skip
    said = [f"no step {lacks[1]}"] if unfit and drawn_all else []
    kind = "time" if column == "lower" else "throughput"
    found = replace(found, kind=kind, notes=(*said, *found.notes, *table.incomplete))
    return _with_expected_steps(found, expected) if has_expected else found


def _with_expected_steps(chart: Chart, expected: Mapping[str, Sequence[tuple[float, float]]]) -> Chart:
    """The chart with a thin curve of what is expected beside each of its curves."""
    more = []
    for line in chart.lines:
        if points := sorted(expected.get(line.label, ())):
            x, y = zip(*points, strict=True)
            more.append(Line(f"expected: {line.label}", x, y, "resource", line.series, line.dash, EXPECTED))
    values = [value for line in (*chart.lines, *more) for value in line.y]
    y_axis = rising_axis(values, chart.y.scale, chart.y.label, chart.y.unit)
    return replace(chart, marks=(*chart.marks, *more), y=y_axis)


def resources_chart(table: Evaluated, over: str) -> Chart:
    """Draw the time of each resource in a table of a formula's columns over one of its sizes: the highest binds.

    >>> from roofline import formula
    >>> step = formula("llama-3-8b", "train", on="h100:n", batch_tokens=2**20)
    >>> chart = resources_chart(step(n=[16, 64, 256, 1024], batch_tokens=2**20, sequence=4096), "n")
    >>> [(line.label, len(line.x)) for line in chart.lines][:2]
    [('hbm', 5), ('cuda', 4)]
    """
    marks = []
    for at, label in enumerate(table.function.resources):
        if points := _with_steps(table, over, f"time.{label}"):
            x, y = zip(*points, strict=True)
            marks.append(Line(label, x, y, "curve", at, at, label))
    if not marks:
        raise InputError("the formula holds at none of these sizes", hint="its incomplete says why")
    ends = [size for line in marks for size in (line.x[0], line.x[-1])]
    across = replace(log_axis(over.replace("_", " "), "", ends), whole=True)
    same = [_named(name, table.plain(name)[0]) for name in table.whole if name != over]
    said = table.function.assumptions  # the algorithm of a collective first: its change is a step in the picture
    return Chart(
        kind="time",
        title=f"Time of {table.function.name} over {over}",
        subtitle=" · ".join(filter(None, [table.function.on, ", ".join(same)])),
        x=across,
        y=rising_axis([value for line in marks for value in line.y], "log", "time on a resource", "s"),
        marks=tuple(marks),
        notes=(*table.incomplete, *sorted(said, key=lambda each: getattr(each, "kind", "") != "collective")),
    )


#: Points that are put between those asked, so that a curve bends and steps where its formula does.
MOST_BETWEEN = 400

#: A curve that lies so near the line between two of its points goes along it.
_ALONG = 0.02


def _with_steps(table: Evaluated, over: str, column: str) -> list[tuple[float, float]]:
    """The points of a column that have figures, and more where it leaves the line between two of them, as at a step."""
    given = (name for name in table if name in (*table.function.sizes, *table.function.rates))
    fixed = {name: table.plain(name)[0] for name in given if name != over}

    def at(sizes: Iterable[int]) -> dict[int, float]:
        asked = [*sizes]
        found = table.function.evaluate({**fixed, over: asked}, (column,)).plain(column) if asked else []
        return {size: time for size, time in zip(asked, found, strict=True) if time is not None and time > 0}

    asked = zip(table.plain(over), table.plain(column), strict=True)
    points = {int(size): time for size, time in asked if time is not None and time > 0}
    near, most = list(pairwise(sorted(points))), len(points) + MOST_BETWEEN
    while near and len(points) < most:
        between = {round(math.sqrt(low * high)): (low, high) for low, high in near if high - low > 1}
        near = []
        for size, time in at(between).items():
            low, high = between[size]
            share = math.log(size / low) / math.log(high / low)
            along = points[low] * (points[high] / points[low]) ** share
            if low < size < high and abs(time / along - 1) > _ALONG:
                points[size] = time
                near += [(low, size), (size, high)]
    return [(float(size), time) for size, time in sorted(points.items())]


def beside_chart(found: SideBySideBySize) -> Chart:
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
    unit, out, every, partial = "", 0, 0, 0
    lacks = _LACKS[not all(one.all_by_room for one in found.each)]
    for size, one in zip(found.sizes, found.each, strict=True):
        for who, fact, fits in zip(found.names, one.facts[headline], one.fitting, strict=True):
            every += 1
            out += not fits
            partial += fits and fact is not None and fact.value is None
            if fits and fact is not None and is_number(fact.value):
                unit = fact.unit
                label = ", ".join([who, *(_named(name, size[name]) for name in told)])
                curves.setdefault(label, []).append((float(size[over]), float(fact.value)))
    if not curves:
        raise InputError(f"no answer {lacks[1]}, so there is nothing to draw", hint="its table() has the figures")
    same = [_named(name, found.sizes[0][name]) for name in values if name != over and name not in told]
    title = f"{found.subject}: {headline} over {over.replace('_', ' ')}"
    reasons = _left_out(out, lacks) + [f"{partial:,} {'is' if partial == 1 else 'are'} timed in part"] * bool(partial)
    of = ("answers", every, reasons)
    return _curves_of_points(curves, over, headline, unit, title, ", ".join(same), of)


def _curves_of_points(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    over: str,
    label: str,
    unit: str,
    title: str,
    subtitle: str,
    of: tuple[str, int, list[str]],
) -> Chart:
    """A curve through the points of each label; ``of`` says what points are, how many, and why others are left out."""
    shown = list(curves.items())[:MOST_CURVES]
    ends = [(name, tuple(zip(*sorted(points), strict=True))) for name, points in shown]
    marks = [Line(name, x, y, "curve", at, at, name) for at, (name, (x, y)) in enumerate(ends)]
    across = replace(size_axis(over, [line.x for line in marks]), label=over.replace("_", " "))
    what, every, reasons = of
    reasons = reasons + [f"{len(curves):,} curves are more than {MOST_CURVES}"] * (len(curves) > MOST_CURVES)
    drawn = sum(len(line.x) for line in marks)
    are_drawn = f"{what} {agree(drawn, 'are')} drawn"
    return Chart(
        kind="time",
        title=title,
        subtitle=subtitle,
        x=across,
        y=rising_axis([value for line in marks for value in line.y], across.scale, label, unit),
        marks=tuple(marks),
        notes=(LeftOut(f"{drawn:,} of {every:,} {are_drawn}: {', '.join(reasons)}"),) if reasons else (),
    )


#: What steps that are left out do not do, and what none does: some may not run either.
_LACKS = {False: ("fit the memory", "fits the memory"), True: ("fit the memory or run", "fits the memory or runs")}


def _left_out(many: int, lacks: tuple[str, str]) -> list[str]:
    """How many do not do what."""
    return [f"{many:,} {agree(many, 'do')} not {lacks[0]}"] * bool(many)


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
    words = {use.resource: BINDS[use.quantity] for use in curve.answer.uses}
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
