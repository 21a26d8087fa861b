"""Pictures of a measured machine: its roofline, and bandwidth over the working set.

The measured roofline has a slope for each level that was found and two ceilings a dtype: the upper one is what its
registers can do, the lower one what a library's best product reached. A data sheet may stand beside it. Bandwidth has a
line for each kernel and a mark where each memory level ends. Both are drawn from a
:class:`~roofline.measurement.result.Measurement`, fresh or read back from its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofline.charts.chart import Chart
from roofline.charts.roofline_charts import run_point
from roofline.charts.roofs import ceiling_line, machine_roof, slope_line
from roofline.charts.specification import NEUTRAL, Axis, Line, Mark, Point, Ridge, log_axis
from roofline.errors import InputError
from roofline.hardware.machine import Machine
from roofline.measurement import points as measured_points
from roofline.measurement.levels import Level
from roofline.measurement.result import Measurement, threads_text
from roofline.quantity import format_number, format_quantity

#: Dtypes drawn where none are named, as far as they were measured.
DTYPES = ("fp32", "bf16")

#: The colour of the library's ceilings: none of a level or of the registers.
LIBRARY = 4

#: How far the axes reach beyond the slopes' ends and the points, as factors.
LEFT, RIGHT, ROUND = 30.0, 40.0, 4.0


def measured_chart(
    measured: Measurement,
    *,
    threads: int | None = None,
    dtypes: Sequence[str] = (),
    sheet: Machine | None = None,
    points: Sequence[measured_points.MeasuredPoint] = (),
    title: str = "",
    theme: str = "light",
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
    ceilings = list(_ceilings(measured, count, dtypes))
    if not levels or not ceilings:
        known = ", ".join(map(str, measured.thread_counts())) or "no"
        raise InputError(f"no roof was measured on {count} threads", hint=f"measured on {known} threads")
    slopes = [(level.name, level.bandwidth) for level in levels]
    beside = _sheet(sheet, [dtype for dtype, *_ in ceilings]) if sheet is not None else ((), ())
    highest = max(peak for *_, peak in (*ceilings, *beside[1]))
    shown = [point for point in points if point.run.flops and point.run.bytes]
    own = max(peak for *_, peak in ceilings)
    ridges = [own / slopes[-1][1], *(peak / beside[0][-1][1] for *_, peak in beside[1] if beside[0])]
    low = min([own / slopes[0][1] / LEFT, *(point.run.intensity / ROUND for point in shown)])
    high = max([max(ridges) * RIGHT / ROUND, *(point.run.intensity * ROUND for point in shown)])
    marks: list[Mark] = [
        *_lines(slopes, ceilings, (low, high)),
        *_lines(*beside, (low, high), of=sheet),
        *_points(shown),
    ]
    floor = min([slopes[-1][1] * low, *(point.run.rate / ROUND for point in shown)])
    told = measured.conditions
    return Chart(
        kind="roofline",
        title=title or f"Measured roofline, {count} thread{'s' * (count > 1)}",
        subtitle=f"{told.processor}, {told.date}" + (f"; beside it {sheet.name}" if sheet is not None else ""),
        x=Axis("arithmetic intensity", "FLOP/B", "log", (low, high)),
        y=Axis("FLOP/s", "FLOP/s", "log", (floor, highest * 4)),
        marks=tuple(marks),
        notes=(
            *([f"the catalog has no peak of {sheet.name} to draw"] if sheet is not None and not beside[1] else []),
            "registers, tiles: without data; library: its best product; levels: the best bandwidth of any kernel",
            *measured.warnings(brief=True)[:3],
        ),
        theme=theme,
    )


Ceiling = tuple[str, str, tuple[int, int], float]
Ceilings = Sequence[Ceiling]
Slopes = Sequence[tuple[str, float]]


def _ceilings(measured: Measurement, threads: int, dtypes: Sequence[str]) -> Iterator[Ceiling]:
    """Dtype, what reached it, dash and colour, FLOP/s: of registers the fastest unit's, then the library's."""
    for dtype in dtypes or DTYPES:
        units = [measured.ceiling(f"{name} {dtype}", threads) for name in ("tile", "register")]
        peaks = [unit for unit in units if unit is not None and unit.threads == threads]
        library = measured.best_ceiling("library", threads, dtype)
        if dtypes and not peaks and library is None:
            raise InputError(f"no ceiling was measured in {dtype}", hint=f"drawn by default: {', '.join(DTYPES)}")
        if peaks:
            best = max(peaks, key=lambda unit: unit.value)
            yield dtype, best.name.split()[0] + "s", (0, NEUTRAL), best.value
        if library is not None:
            on = "" if library.threads == threads else f", {threads_text(library.threads)}"
            yield dtype, f"library{on}", (1, LIBRARY), library.value


def _sheet(sheet: Machine, dtypes: Sequence[str]) -> tuple[Slopes, Ceilings]:
    roof = machine_roof(sheet, dtypes=list(dict.fromkeys(dtypes)))
    return (
        [(slope.level, slope.bandwidth) for slope in roof.slopes],
        [(ceiling.dtype, "data sheet", (2, NEUTRAL), ceiling.peak) for ceiling in roof.ceilings],
    )


def _lines(
    slopes: Slopes, ceilings: Ceilings, limits: tuple[float, float], of: Machine | None = None
) -> Iterator[Line]:
    """Slopes up to the highest ceiling, ceilings from the steepest slope: dashed where they are a data sheet's."""
    low, high = limits
    if not slopes:
        return
    top = max((peak for *_, peak in ceilings), default=slopes[0][1] * high)
    steepest = max(bandwidth for _, bandwidth in slopes)
    for number, (name, bandwidth) in enumerate(slopes):
        end = min(high, top / bandwidth)
        text = f"{name} {format_quantity(bandwidth, 'B/s')}" + (", data sheet" if of else "")
        series = NEUTRAL if of else number
        yield slope_line(name, bandwidth, (low, end), series, 2 if of else 0, text)
    for dtype, what, (dash, series), peak in ceilings:
        start = max(low, peak / steepest)
        text = f"{dtype} {what} {format_quantity(peak, 'FLOP/s')}"
        yield ceiling_line(f"{dtype} {what}", peak, (start, high), series, dash, text)


def _points(points: Sequence[measured_points.MeasuredPoint]) -> Iterator[Point]:
    for number, point in enumerate(points):
        roof = point.run.flops / float(point.bound.lower)
        yield run_point(point.run, point.bound, roof, NEUTRAL, number, point.run.name)


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
        x=log_axis("working set", "B", sizes),
        y=log_axis("bandwidth", "B/s", speeds, margin=1.6),
        marks=tuple(marks),
        notes=("best of any kernel: " + ", ".join(said), *measured.warnings(brief=True)[:3]),
        theme=theme,
    )


def _end(level: Level) -> Ridge:
    size = level.capacity or 0.0
    unit, factor = ("MiB", 2**20) if size >= 2**20 else ("KiB", 2**10)
    text = f"{level.name} {format_number(size / factor, 3)} {unit}"
    return Ridge(size, level.bandwidth, f"{level.name} ends at {text}", text)
