"""Where the time went: a bar an operation, longest first, and in it the part that its roof cannot do without."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.charts.chart import Chart
from roofline.charts.marks import Axis, Line
from roofline.charts.size_axes import NEUTRAL
from roofline.errors import InputError
from roofline.measurement.points import Point
from roofline.measurement.points_show import split
from roofline.quantity import format_quantity

#: Operations that have a bar of their own.
MOST = 12


def split_chart(points: Sequence[Point], *, title: str = "", theme: str = "light") -> Chart:
    """Draw the share of the time every operation took; operations of one name count together.

    The thin line in a bar is the least time the roof allows for it.
    """
    if not points:
        raise InputError("there are no runs to split the time of", hint="give points of a run or a profile")
    total = sum(point.run.seconds for point in points)
    least: dict[str, float] = {}
    for point in points:
        least[point.run.name] = least.get(point.run.name, 0.0) + float(point.bound.lower)
    rows = split(points)
    marks: list[Line] = []
    for number, (name, seconds, share) in enumerate(rows[:MOST], 1):
        roof = 100 * least[name] / total
        text = f"{name}: {format_quantity(seconds, 's')}, {share:.0%}; at its roof {least[name] / seconds:.0%} of that"
        marks.append(Line(name, (0.0, 100 * share), (-number, -number), "lower", 0, 0, text))
        marks.append(Line(f"{name}, at its roof", (0.0, roof), (-number, -number), "curve", NEUTRAL, 0, ""))
    shown = rows[:MOST]
    rest = sum(seconds for _, seconds, _ in rows[MOST:])
    notes = ["pale: the time it took; dark: the least its roof allows"]
    if rest:
        notes.append(f"{len(rows) - MOST} more operations took {format_quantity(rest, 's')}, {rest / total:.0%}")
    return Chart(
        kind="split",
        title=title or "Time by operation",
        subtitle=f"{format_quantity(total, 's')} in all, under the roof of {points[0].bound.machine.name}",
        x=Axis("share of the time, %", "", "linear", (0.0, max(100 * shown[0][2], 1.0) * 1.9)),
        y=Axis("", "#", "linear", (-len(shown) - 0.5, -0.5)),
        marks=tuple(marks),
        notes=tuple(notes),
        theme=theme,
    )
