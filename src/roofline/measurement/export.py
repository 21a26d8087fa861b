"""A measurement as a table: every ceiling, every point of a curve and every shape, a line each."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from typing import Any

from roofline.errors import InputError
from roofline.measurement.result import Measurement
from roofline.measurement.samples import Summary

COLUMNS = (
    "kind", "name", "dtype", "threads", "working_set", "rows", "side", "unit", "value", "low", "high", "samples",
    "clean", "confirmed",
)  # fmt: skip


def write_table(measured: Measurement, path: str | os.PathLike[str]) -> None:
    """Write a measurement as CSV in SI units; a column that does not apply is empty."""
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(rows(measured))
    except OSError as error:
        raise InputError(f"cannot write {os.fspath(path)}: {error.strerror}", hint="name another file") from None


def rows(measured: Measurement) -> Iterator[dict[str, Any]]:
    """Give the lines of the table."""
    for c in measured.ceilings:
        told = {"kind": "ceiling", "name": c.name, "dtype": c.dtype, "threads": c.threads, "unit": c.unit}
        yield {**told, "working_set": "" if c.working_set is None else c.working_set, **_figures(c.summary)}
    for curve in measured.curves:
        told = {"kind": "curve", "name": curve.name, "threads": curve.threads, "unit": "B/s"}
        for size, summary in curve.points:
            yield {**told, "working_set": size, **_figures(summary)}
    for table in measured.shapes:
        told = {"kind": "shape", "name": table.name, "dtype": table.dtype, "threads": table.threads, "unit": "FLOP/s"}
        for count, side, summary in table.points:
            yield {**told, "rows": count, "side": side, **_figures(summary)}


def _figures(summary: Summary) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in COLUMNS[-6:]}
