"""Bandwidth over the working set, as measured: a line a kernel, a mark where each memory level was found to end.

The chart is drawn from a :class:`~roofline.measurement.result.Measurement`, fresh or read back from its file.
"""

from __future__ import annotations

from roofline.charts.chart import Chart
from roofline.charts.marks import Axis, Line, Mark, Ridge
from roofline.errors import InputError
from roofline.measurement.levels import Level
from roofline.measurement.result import Measurement
from roofline.quantity import format_number, format_quantity


def bandwidth_chart(
    measured: Measurement, *, threads: int | None = None, title: str = "", theme: str = "light"
) -> Chart:
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
        title=title or f"Bandwidth over the working set, {count} thread{'s' * (count > 1)}",
        subtitle=f"{told.processor}, {told.date}",
        x=Axis("working set", "B", "log", (min(sizes), max(sizes))),
        y=Axis("bandwidth", "B/s", "log", (min(speeds) / 1.6, max(speeds) * 1.6)),
        marks=tuple(marks),
        notes=("best of any kernel: " + ", ".join(said), *measured.warnings()[:3]),
        theme=theme,
    )


def _end(level: Level) -> Ridge:
    size = level.capacity or 0.0
    unit, factor = ("MiB", 2**20) if size >= 2**20 else ("KiB", 2**10)
    text = f"{level.name} {format_number(size / factor, 3)} {unit}"
    return Ridge(size, level.bandwidth, f"{level.name} ends at {text}", text)
