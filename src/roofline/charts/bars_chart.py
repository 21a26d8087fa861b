"""Bars in rows, each made of parts, against a limit: time by operation, memory by part.

>>> rows = [("batch 8", [("weights", 8e9), ("kv", 4e9)])]
>>> chart = bars_chart(rows, title="Memory", label="memory", unit="B", limit=("hbm", 16e9))
>>> chart
<Chart 'Memory': bars with 1 line, 2 bars>
>>> [(bar.part, bar.x0, bar.x1, bar.text) for bar in chart.bars]
[('weights', 0.0, 8000000000.0, ''), ('kv', 8000000000.0, 12000000000.0, '12 GB')]
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.charts.chart import Chart
from roofline.charts.marks import Axis, Bar, Line
from roofline.errors import InputError
from roofline.quantity import format_quantity

#: A row: its name, and its parts with their sizes.
Row = tuple[str, Sequence[tuple[str, float]]]

#: The most rows a picture holds.
MOST_ROWS = 16

#: Pixels of a row, and of what stands around the rows.
ROW, AROUND = 26, 170

#: The share of the width that is left for the figures beside the longest bar.
BESIDE = 0.25


def bars_chart(
    rows: Sequence[Row],
    *,
    title: str,
    label: str,
    unit: str,
    of: str = "",
    limit: tuple[str, float] | None = None,
    subtitle: str = "",
    notes: Sequence[str] = (),
    theme: str = "light",
) -> Chart:
    """Draw the ``rows`` from the top; each bar is as long as its parts together, and its size stands beside it.

    ``label`` and ``unit`` are those of the sizes, ``of`` says what the rows are. Parts of one name have one colour.
    ``limit`` is a line across all rows with its name.
    """
    if not rows or len(rows) > MOST_ROWS:
        raise InputError(f"{len(rows)} rows of bars", hint=f"from 1 to {MOST_ROWS}")
    names = list(dict.fromkeys(part for _, parts in rows for part, _ in parts))
    marks: list[Bar | Line] = []
    longest = 0.0
    for row, (name, parts) in enumerate(rows):
        at = 0.0
        for number, (part, size) in enumerate(parts, 1):
            text = format_quantity(at + size, unit) if number == len(parts) else ""
            marks.append(Bar(f"{name}: {part}", row, at, at + float(size), names.index(part), part, text))
            at += float(size)
        longest = max(longest, at)
    if limit is not None:
        what, most = limit
        across = (0.0, float(len(rows)))
        text = f"{what} {format_quantity(most, unit)}"
        marks.append(Line(what, (most, most), across, "ceiling", len(names), 1, text))
        longest = max(longest, most)
    return Chart(
        kind="bars",
        title=title,
        subtitle=subtitle,
        x=Axis(label, unit, "linear", (0.0, longest * (1 + BESIDE) or 1.0)),
        y=Axis(of, "", "linear", (float(len(rows)), 0.0), tuple(name for name, _ in rows)),
        marks=tuple(marks),
        notes=tuple(notes),
        theme=theme,
        height=max(260, AROUND + ROW * len(rows)),
    )
