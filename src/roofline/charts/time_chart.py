"""Time against a size: one line a resource, the lower bound (all overlaps) and the upper (nothing does).

>>> from roofline.charts.plot import plot
>>> chart = plot("fp16[B, 5120] * fp16[5120, 5120]", on="a100", set={"hbm": 1.5e12}, vary="B", kind="time",
...              B=range(1, 513))
>>> [line.label for line in chart.lines]
['lower', 'tensor', 'hbm', 'upper']
>>> lower = chart.line("lower").y
>>> round(lower[207] / lower[0], 2)          # 208 tokens take 8 % longer than 1
1.08
"""

from __future__ import annotations

from collections.abc import Mapping

from roofline.bounds.bound import BOUND_KINDS
from roofline.charts.chart import Chart
from roofline.charts.marks import Line, Ridge, Role
from roofline.charts.series import Series
from roofline.charts.size_axes import NEUTRAL, named, shared_notes, size_axis, upwards


def time_chart(curves: Mapping[str, Series], *, title: str = "", theme: str = "light") -> Chart:
    """Draw the time of one curve resource by resource with both bounds, or of several curves with both bounds each."""
    listed = list(curves.values())
    marks = _in_detail(listed[0]) if len(listed) == 1 else _side_by_side(curves)
    x = size_axis(listed)
    times = [t for mark in marks if isinstance(mark, Line) for t in mark.y]
    expressions = list(dict.fromkeys(curve.expression for curve in listed))
    return Chart(
        kind="time",
        title=title or f"Time over {listed[0].unknown}",
        subtitle=" · ".join(filter(None, [named([c.answer.machine.name for c in listed]), *expressions])),
        x=x,
        y=upwards(times, x.scale, "time at best", "s"),
        marks=marks,
        notes=("lower: everything overlaps; upper: nothing does", *shared_notes(listed)),
        theme=theme,
    )


def _in_detail(curve: Series) -> tuple[Line | Ridge, ...]:
    words = {use.resource: BOUND_KINDS[use.quantity].removesuffix("-bound") for use in curve.answer.uses}
    lines = [
        _line("lower", curve, curve.lower, "lower", NEUTRAL, 0, "lower"),
        *(
            _line(name, curve, times, "resource", number, number, f"{words.get(name, '')} ({name})".strip())
            for number, (name, times) in enumerate(curve.times.items())
            if any(times)
        ),
        _line("upper", curve, curve.upper, "upper", NEUTRAL, 2, "upper"),
    ]
    return (*lines, *_knees(curve, "", NEUTRAL))


def _side_by_side(curves: Mapping[str, Series]) -> tuple[Line | Ridge, ...]:
    marks: list[Line | Ridge] = []
    for number, (label, curve) in enumerate(curves.items()):
        marks.append(_line(label, curve, curve.lower, "curve", number, 0, label))
        marks.append(_line(f"{label}, upper", curve, curve.upper, "resource", number, 2, ""))
        marks += _knees(curve, f"{label}: ", number)
    return tuple(marks)


def _line(label: str, curve: Series, times: tuple[float, ...], role: Role, series: int, dash: int, text: str) -> Line:
    """A line where there is anything to time: one chip alone sends nothing."""
    used = [(x, time) for x, time in zip(curve.x, times, strict=True) if time > 0]
    return Line(label, tuple(x for x, _ in used), tuple(time for _, time in used), role, series, dash, text)


def _knees(curve: Series, prefix: str, series: int) -> list[Ridge]:
    found = []
    for knee in curve.knees:
        text = knee.said(curve.unknown)
        found.append(Ridge(knee.x, knee.lower, f"{prefix}from {text} {knee.after} binds", text, series))
    return found
