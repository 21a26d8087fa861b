"""Where the time went: a bar an operation, longest first, and in it the part that its roof cannot do without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.charts.bars_chart import Row, bars_chart
from roofline.charts.chart import Chart
from roofline.errors import InputError
from roofline.measurement.points import Point
from roofline.measurement.points_show import split
from roofline.quantity import format_quantity

#: Operations that have a bar of their own.
MOST = 12

#: The parts of a bar.
LEAST, REST, RULELESS = "the least its roof allows", "the rest", "no rule"


def split_chart(
    points: Sequence[Point], *, unpriced: Mapping[str, float] | None = None, title: str = "", theme: str = "light"
) -> Chart:
    """Draw the time every operation took; operations of one name count together, those beyond the first as one.

    ``unpriced`` are seconds of operations without a rule: nobody knows what their roof allows.
    """
    if not points:
        raise InputError("there are no runs to split the time of", hint="give points of a run or a profile")
    ruleless = dict(unpriced or {})
    total = sum(point.run.seconds for point in points) + sum(ruleless.values())
    least: dict[str, float] = dict.fromkeys(ruleless, 0.0)
    for point in points:
        least[point.run.name] = least.get(point.run.name, 0.0) + float(point.bound.lower)
    rows = split(points, ruleless)
    shown = [
        _row(f"{name}, {share:.0%}", seconds, least[name], ruleless.get(name, 0.0))
        for name, seconds, share in rows[:MOST]
    ]
    rest = sum(seconds for _, seconds, _ in rows[MOST:])
    if rest:
        name = f"{len(rows) - MOST} more, {rest / total:.0%}"
        shown.append(
            _row(name, rest, *(sum(part.get(one, 0.0) for one, _, _ in rows[MOST:]) for part in (least, ruleless)))
        )
    return bars_chart(
        shown,
        title=title or "Time by operation",
        subtitle=f"{format_quantity(total, 's')} in all, under the roof of {points[0].bound.machine.name}",
        label="time",
        unit="s",
        theme=theme,
    )


def _row(name: str, seconds: float, least: float, ruleless: float) -> Row:
    """A bar as long as the time; one above its roof has no rest."""
    inside = min(least, seconds - ruleless)
    parts = [(LEAST, inside), (REST, seconds - inside - ruleless), (RULELESS, ruleless)]
    return name, parts if ruleless else parts[:2]
