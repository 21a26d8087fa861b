"""A measurement as a machine file: TOML that the catalog's loader reads, with every figure's kernel and spread.

The chips ``this`` (all threads) and ``this-core`` (one) hold what bounds need; ``[measurement]`` holds all that was
sampled, so that charts can be drawn again without measuring.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from roofline.errors import HardwareError
from roofline.measurement.machine_chips import ALL, ONE, device_chip, processor_chip
from roofline.measurement.result import VERSION, Ceiling, Conditions, Curve, Measurement
from roofline.measurement.samples import Summary
from roofline.measurement.shape_table import ShapeTable
from roofline.measurement.toml_text import numbers_toml, text_toml, texts_toml

_FIGURES = ("value", "low", "high", "samples", "clean")
_POINT = ("bytes", *_FIGURES)
_SHAPE = ("rows", "side", *_FIGURES)


def to_toml(measured: Measurement, memory_bytes: float | None = None) -> str:
    """Write a measurement as a machine file; ``memory_bytes`` is the size of the main memory, where known."""
    threads = measured.thread_counts() or tuple(sorted({c.threads for c in measured.ceilings}))
    lines = [
        "# Measured by `roofline measure`. SI base units, explicit bytes.",
        "schema = 1",
        'family = "measured"',
        "",
    ]
    if measured.conditions.device:
        lines += device_chip(measured)
    elif threads:
        lines += processor_chip(ALL, measured, threads[-1], memory_bytes)
    if len(threads) > 1:
        lines += processor_chip(ONE, measured, threads[0], memory_bytes)
    return "\n".join([*lines, *_record(measured), ""])


def write_machine_file(measured: Measurement, path: str | os.PathLike[str]) -> None:
    """Write a measurement to a file, making its folder where needed; a file that was there stays until the end.

    What is no file but a device or a pipe (``/dev/null``) is written to, and a link stays one.
    """
    text = to_toml(measured, main_memory())
    with _written(path) as file:
        file.write(text)


def check_machine_file(path: str | os.PathLike[str]) -> None:
    """Refuse a file that :func:`write_machine_file` could not write, before anything is measured for it."""
    if os.path.isdir(path) or _is_replaced(path):
        with _written(path, keep=False):
            pass


def _is_replaced(path: str | os.PathLike[str]) -> bool:
    """Whether a new file takes the place of what is there, if anything is: not that of a device or a pipe."""
    return os.path.isfile(path) or not os.path.exists(path)


@contextmanager
def _written(path: str | os.PathLike[str], *, keep: bool = True) -> Iterator[TextIO]:
    """Open what takes a file's place once all is written, or the file itself where it is none to be replaced."""
    own = _is_replaced(path)
    target = os.path.realpath(path) if own else os.fspath(path)
    part = f"{target}.part" if own else target
    try:
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        try:
            with open(part, "w", encoding="utf-8") as file:
                yield file
            if own and keep:
                os.replace(part, target)
        finally:
            if own:
                Path(part).unlink(missing_ok=True)
    except OSError as error:
        said = f"cannot write {os.fspath(path)!r}: {error.strerror}"
        raise HardwareError(said, hint="name another file: -o FILE") from None


def read_machine_file(path: str | os.PathLike[str], *, device: str | None = None) -> Measurement:
    """Read back what :func:`write_machine_file` wrote under ``[measurement]``.

    ``device`` is the one to measure where there is no such file, which the error says.
    """
    import tomllib

    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8-sig", newline="") as file:
            data = tomllib.loads(file.read()).get("measurement")
    except OSError as error:
        made = "roofline measure" if device is None else f"roofline measure --device {device}"
        raise HardwareError(f"cannot read {name!r}: {error.strerror}", hint=f"make it with `{made}`") from None
    except ValueError as error:
        raise HardwareError(f"{name}: does not read as TOML: {error}", hint="measure again") from None
    if not isinstance(data, dict):
        raise HardwareError(f"{name} holds no measurement", hint="make one with `roofline measure`")
    if data.get("version") != VERSION:
        raise HardwareError(
            f"{name}: the measurement is of version {data.get('version')!r}, this reads {VERSION}", hint="measure again"
        )
    try:
        return _measurement(data)
    except (KeyError, TypeError, ValueError) as error:
        raise HardwareError(f"{name}: the measurement is damaged at {error}", hint="measure again") from None


def main_memory() -> float | None:
    """Return the bytes of this machine's main memory, None where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return None


def _record(measured: Measurement) -> Iterator[str]:
    told = measured.conditions
    yield "[measurement]"
    yield f"version = {VERSION}"
    for name in ("processor", "date"):
        yield f"{name} = {text_toml(getattr(told, name))}"
    yield f"cores = {told.cores}"
    yield f"seconds = {told.seconds}"
    for name in ("quick", "interrupted", "pinned", "device"):
        yield f"{name} = {str(getattr(told, name)).lower()}"
    if told.load is not None:
        yield f"load = {told.load:.2f}"
    if told.caches is not None:
        yield f"caches = {told.caches}"
    if told.others is not None:
        yield f"others = {told.others:.4f}"
    if told.ahead:
        yield "ahead = true"
    if told.ran is not None:
        yield f"ran = {told.ran:.4f}"
    yield f"contended = {str(measured.contended).lower()}"
    yield f"clean = {measured.clean:.4f}"
    yield f"missing = {texts_toml(told.missing)}"
    yield f"warnings = {texts_toml(measured.warnings())}"
    for ceiling in measured.ceilings:
        yield "\n[[measurement.ceiling]]"
        yield f"name = {text_toml(ceiling.name)}"
        yield f"unit = {text_toml(ceiling.unit)}"
        yield f"kernel = {text_toml(ceiling.kernel)}"
        yield f"threads = {ceiling.threads}"
        if ceiling.dtype:
            yield f"dtype = {text_toml(ceiling.dtype)}"
        if ceiling.working_set is not None:
            yield f"working_set = {ceiling.working_set:.0f}"
        yield f"figures = {numbers_toml(ceiling.summary)}"
        if ceiling.summary.clock is not None:
            yield f"clock = {ceiling.summary.clock:.6g}"
        if ceiling.summary.doubts:
            yield f"doubts = {texts_toml(ceiling.summary.doubts)}"
    for curve in measured.curves:
        yield "\n[[measurement.curve]]"
        yield f"name = {text_toml(curve.name)}"
        yield f"kernel = {text_toml(curve.kernel)}"
        yield f"threads = {curve.threads}"
        yield f"columns = {texts_toml(_POINT)}"
        rows = [f"  [{size:.0f}, {numbers_toml(summary)[1:-1]}]," for size, summary in curve.points]
        yield "points = [\n" + "\n".join(rows) + "\n]"
        doubted = [f"[{size:.0f}, {text_toml(doubt)}]" for size, summary in curve.points for doubt in summary.doubts]
        if doubted:
            yield f"doubts = [{', '.join(doubted)}]"
    for table in measured.shapes:
        yield "\n[[measurement.shapes]]"
        for name in ("name", "dtype", "kernel"):
            yield f"{name} = {text_toml(getattr(table, name))}"
        yield f"threads = {table.threads}"
        yield f"columns = {texts_toml(_SHAPE)}"
        entries = [f"  [{rows:.6g}, {side:.6g}, {numbers_toml(s)[1:-1]}]," for rows, side, s in table.points]
        yield "points = [\n" + "\n".join(entries) + "\n]"
        unsure = [f"[{place}, {text_toml(said)}]" for place, (*_, s) in enumerate(table.points) for said in s.doubts]
        if unsure:
            yield f"doubts = [{', '.join(unsure)}]"


def _measurement(data: dict[str, Any]) -> Measurement:
    told = Conditions(
        processor=data["processor"],
        date=str(data["date"]),
        cores=data["cores"],
        seconds=data["seconds"],
        quick=data["quick"],
        interrupted=data["interrupted"],
        load=data.get("load"),
        pinned=data["pinned"],
        device=data.get("device", False),
        caches=data.get("caches"),
        others=data.get("others"),
        ahead=data.get("ahead", False),
        ran=data.get("ran"),
        missing=tuple(data["missing"]),
    )
    ceilings = [
        Ceiling(
            one["name"], one["unit"], one["kernel"], one["threads"],
            _summary(one["figures"], one.get("doubts", ()), one.get("clock")),
            one.get("dtype", ""), one.get("working_set"),
        )
        for one in data.get("ceiling", [])
    ]  # fmt: skip
    curves, shapes = (data.get(name, []) for name in ("curve", "shapes"))
    return Measurement(told, tuple(ceilings), tuple(map(_curve, curves)), tuple(map(_shapes, shapes)))


def _curve(data: dict[str, Any]) -> Curve:
    doubts: dict[float, list[str]] = {}
    for size, doubt in data.get("doubts", []):
        doubts.setdefault(float(size), []).append(doubt)
    points = tuple((float(size), _summary(figures, doubts.get(float(size), ()))) for size, *figures in _rows(data))
    return Curve(data["name"], data["kernel"], data["threads"], points)


def _shapes(data: dict[str, Any]) -> ShapeTable:
    doubts: dict[int, list[str]] = {}
    for place, doubt in data.get("doubts", []):
        doubts.setdefault(place, []).append(doubt)
    points = tuple(
        (float(rows), float(side), _summary(figures, doubts.get(place, ())))
        for place, (rows, side, *figures) in enumerate(_rows(data))
    )
    return ShapeTable(data["name"], data["dtype"], data["kernel"], data["threads"], points)


def _rows(data: dict[str, Any]) -> list[list[Any]]:
    """The points of a curve or of a table, of which there are some: sizes above 0, then their figures."""
    rows: list[list[Any]] = data["points"]
    if not rows or not all(0 < size < math.inf for row in rows for size in row[: -len(_FIGURES)]):
        raise ValueError(f"{data['name']!r}: points at sizes above 0 are expected")
    return rows


def _summary(figures: Sequence[Any], doubts: Sequence[str], clock: float | None = None) -> Summary:
    value, low, high, samples, clean = figures
    if not all(0 < float(figure) < math.inf for figure in (value, low, high)):
        raise ValueError(f"{value}, {low} and {high}: figures are above 0")
    return Summary(float(value), float(low), float(high), int(samples), float(clean), tuple(doubts), clock)
