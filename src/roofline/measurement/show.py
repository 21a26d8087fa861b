"""How a measurement looks: a table for a terminal, plain data for JSON. Values in, renderables out."""

from __future__ import annotations

from typing import Any

from roofline.measurement.result import Ceiling, Measurement
from roofline.measurement.samples import CONFIRMED, Summary
from roofline.quantity import format_number, format_quantity

#: Before a figure in doubt.
MARK = "? "


def table(measured: Measurement) -> Any:
    """Render the ceilings, the memory levels and the warnings."""
    from rich.console import Group
    from rich.text import Text

    told = measured.conditions
    title = Text.assemble((told.processor, "bold"), f"  {told.cores} core{'s' * (told.cores != 1)}, {told.date}")
    parts: list[Any] = [title, Text(), _ceilings(measured)]
    for threads in measured.thread_counts():
        parts += [Text(), _levels(measured, threads)]
    if any(_is_function(ceiling) for ceiling in measured.ceilings):
        parts += [Text(), _functions(measured)]
    parts.append(Text())
    if any(not ceiling.summary.confirmed for ceiling in measured.ceilings):
        parts.append(Text(f"  {MARK}no second round on cores of its own came within {CONFIRMED:.0%} of it", "dim"))
    parts.append(Text(f"  {measured.clean:.0%} of the windows were clean, {told.seconds:g} s in all", "dim"))
    parts += [Text(f"  {warning}", "yellow") for warning in measured.warnings()]
    return Group(*parts)


def record(measured: Measurement) -> dict[str, Any]:
    """Give a measurement as plain data under stable keys in SI units (schema ``roofline/measurement/1``)."""
    told = measured.conditions
    return {
        "schema": "roofline/measurement/1",
        "processor": told.processor,
        "date": told.date,
        "cores": told.cores,
        "seconds": told.seconds,
        "quick": told.quick,
        "interrupted": told.interrupted,
        "contended": measured.contended,
        "others": told.others,
        "ahead": told.ahead,
        "ran": measured.ran,
        "clean": measured.clean,
        "ceilings": [
            {
                "name": c.name,
                "dtype": c.dtype or None,
                "unit": c.unit,
                "threads": c.threads,
                "working_set": c.working_set,
                "kernel": c.kernel,
                **_summary(c.summary),
            }
            for c in measured.ceilings
        ],
        "curves": [
            {
                "name": curve.name,
                "kernel": curve.kernel,
                "threads": curve.threads,
                "points": [{"bytes": size, **_summary(summary)} for size, summary in curve.points],
            }
            for curve in measured.curves
        ],
        "shapes": [
            {
                "name": table.name,
                "dtype": table.dtype,
                "threads": table.threads,
                "kernel": table.kernel,
                "points": [{"rows": rows, "side": side, **_summary(found)} for rows, side, found in table.points],
            }
            for table in measured.shapes
        ],
        "levels": {
            str(threads): [
                {"name": level.name, "bandwidth": level.bandwidth, "capacity": level.capacity}
                for level in measured.levels(threads)
            ]
            for threads in measured.thread_counts()
        },
        "warnings": list(measured.warnings()),
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "value": summary.value,
        "low": summary.low,
        "high": summary.high,
        "samples": summary.samples,
        "clean": summary.clean,
        "confirmed": summary.confirmed,
        "doubts": list(summary.doubts),
    }


def _ceilings(measured: Measurement) -> Any:
    """A row a ceiling, one thread beside all."""
    from rich.table import Table

    counts = sorted({c.threads for c in measured.ceilings})
    rows = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    rows.add_column("  ceiling", no_wrap=True)
    for count in counts:
        rows.add_column(f"{count} thread{'s' * (count > 1)}", justify="right", no_wrap=True)
    rows.add_column("quartiles", justify="right", no_wrap=True)
    rows.add_column("clean", justify="right", style="dim", no_wrap=True)
    names = dict.fromkeys((c.name, c.dtype) for c in measured.ceilings if not _is_function(c))
    for name, dtype in names:
        found = {c.threads: c for c in measured.ceilings if (c.name, c.dtype) == (name, dtype)}
        most = found[max(found)]
        low, high = (_compact(value, most.unit) for value in (most.summary.low, most.summary.high))
        cells = [_marked(found.get(count)) for count in counts]
        rows.add_row(f"  {most.label}", *cells, _between(low, high), f"{most.summary.clean:.0%}")
    return rows


def _between(low: str, high: str) -> str:
    """Two figures, with their unit once where it is that of both.

    >>> _between("159 GFLOP/s", "178 GFLOP/s"), _between("0.99 TFLOP/s", "1 PFLOP/s")
    ('159 … 178 GFLOP/s', '0.99 TFLOP/s … 1 PFLOP/s')
    """
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(f' {unit}') else low} … {high}"


def _is_function(ceiling: Ceiling) -> bool:
    return ceiling.name.startswith(("library ", "call ")) and ceiling.unit in ("element/s", "s")


def _functions(measured: Measurement) -> Any:
    """A row a function of the library: its rate in a cache by format and threads, and what a call costs."""
    from rich.table import Table

    found = {(c.name, c.dtype, c.threads): c for c in measured.ceilings if _is_function(c)}
    rated = {(dtype, threads) for name, dtype, threads in found if name.startswith("library ")}
    columns = sorted(rated, key=lambda column: (column[0] != "fp32", *column))
    rows = Table(box=None, padding=(0, 2), header_style="dim", pad_edge=False)
    rows.add_column("  elements/s in a cache", no_wrap=True)
    for dtype, threads in columns:
        rows.add_column(f"{dtype} x {threads}", justify="right", no_wrap=True)
    rows.add_column("a call", justify="right", no_wrap=True)
    for name in dict.fromkeys(name.partition(" ")[2] for name, _, _ in found):
        rates = [found.get((f"library {name}", *column)) for column in columns]
        calls = [c for (called, _, _), c in found.items() if called == f"call {name}"]
        fastest = min(calls, key=lambda call: call.value, default=None)
        rows.add_row(f"  {name}", *map(_marked, rates), _marked(fastest))
    return rows


def _levels(measured: Measurement, threads: int) -> Any:
    from rich.table import Table

    rows = Table(box=None, padding=(0, 2), header_style="dim", pad_edge=False)
    rows.add_column(f"  memory, {threads} thread{'s' * (threads > 1)}", no_wrap=True)
    curves = [curve for curve in measured.curves if curve.threads == threads]
    rows.add_column("holds", justify="right")
    rows.add_column("best", justify="right")
    for curve in curves:
        rows.add_column(curve.name, justify="right")
    levels = measured.levels(threads)
    for number, level in enumerate(levels):
        inner = levels[number - 1].capacity if number else None
        cells = [max((value for _, value in level.told_by(curve.values(), inner)), default=0.0) for curve in curves]
        holds = "" if level.capacity is None else _binary(level.capacity)
        best = format_quantity(level.bandwidth, "B/s")
        rows.add_row(f"  {level.name}", holds, best, *(format_quantity(v, "B/s") if v else "" for v in cells))
    return rows


def _marked(ceiling: Ceiling | None) -> str:
    """Show a figure, with a mark where no second round on its own cores confirms it; nothing where there is none."""
    if ceiling is None:
        return ""
    return f"{'' if ceiling.summary.confirmed else MARK}{_compact(ceiling.value, ceiling.unit)}"


def _compact(value: float, unit: str) -> str:
    if unit == "element/s":
        return f"{format_number(value / 1e9, 3)} G/s"
    return format_quantity(value, unit)


def _binary(size: float) -> str:
    for name, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{format_number(size / factor, 3)} {name}"
    return f"{size:.0f} B"
