"""Files of a measurement: the machine file that the catalog's loader reads, and a table as CSV.

A machine file is TOML. The chips ``this`` (all threads) and ``this-core`` (one) hold what bounds need, every figure
with its kernel and spread; an accelerator is the chip ``this-device``, beside its data sheet. ``[measurement]`` holds
all that was sampled, so that charts can be drawn again without measuring.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from roofline.errors import HardwareError, InputError, quoted
from roofline.files import is_replaced, read_toml, replaced, toml_value, write_rows, write_text
from roofline.frozen import NamedTuple
from roofline.hardware import chip
from roofline.hardware.catalog import chip_of_device, shipped_chip, user_file
from roofline.hardware.machine import Machine
from roofline.hardware.rate import choose_unit, main_level
from roofline.measurement.levels import Level, SampleSummary
from roofline.measurement.result import VERSION, Ceiling, Conditions, Curve, Measurement, ShapeTable, threads_text
from roofline.quantity import format_percent, format_quantity
from roofline.signatures import either, spelled, takes
from roofline.sizes import grouped

#: The chip that stands for all threads, the one for a single thread, and the one for an accelerator.
ALL, ONE, DEVICE = "this", "this-core", "this-device"

#: The doubt of a figure that is above its share of what fewer threads reached.
NOT_BELIEVED = "not believed: above its share of what fewer threads reached"

#: What a ceiling of an accelerator's link is called, and the memory level data then comes over.
HOST_LINK = "from host"


def processor_chip(key: str, measured: Measurement, threads: int, memory_bytes: float | None) -> Iterator[str]:
    """Write the chip of a processor on a number of threads."""
    told = measured.conditions
    yield f"[chip.{key}]"
    peaks = (measured.best_ceiling(c.name, threads, c.dtype) for c in measured.ceilings)
    fewer = " or fewer" if any(c is not None and c.unit == "FLOP/s" and c.threads < threads for c in peaks) else ""
    yield f"name = {toml_value(f'{told.processor}, {threads_text(threads)}{fewer}, as measured')}"
    yield f"cores = {threads}"
    yield f"notes = {toml_value([f'measured {told.date}', *measured.warnings()[:4]])}"
    yield ""
    for unit, name in (("vector", "register"), ("amx", "tile")):
        yield from _unit(key, unit, name, measured, threads)
    yield from _levels_toml(key, measured, threads, memory_bytes)


def _levels_toml(
    key: str, measured: Measurement, threads: int, memory_bytes: float | None = None, sourced: bool = True
) -> Iterator[str]:
    """Write the memory levels, the main memory with its curve first; ``sourced`` says where capacities are from.

    A main memory that no working set reached has no bandwidth.
    """
    levels = measured.levels(threads)
    if levels and levels[-1].capacity is not None:
        levels.append(Level("dram", 0.0, None, math.inf))
    for number, level in enumerate(reversed(levels)):
        yield f"[[chip.{key}.memory]]"
        yield f"level = {toml_value(level.name)}"
        if level.bandwidth:
            yield f"bandwidth = {_level_toml(level.bandwidth, measured, level, threads)}"
        capacity = memory_bytes if level.capacity is None else level.capacity
        if capacity is not None:
            said = "as the system reports it" if level.capacity is None else "the largest working set that keeps it"
            where = f"source = {toml_value(said)}, " if sourced else ""
            yield f'capacity = {{ value = {capacity:.0f}, {where}basis = "measured" }}'
        if number == 0 and measured.reaches_memory(threads):
            pairs = ", ".join(f"[{size:.0f}, {value:.4g}]" for size, value in measured.best_curve(threads))
            yield f"curve = [{pairs}]"
        yield ""


def _unit(key: str, unit: str, name: str, measured: Measurement, threads: int) -> Iterator[str]:
    """Write a unit: register or tile ceilings as peaks, the library's products as achievable fractions of them.

    More threads can do what fewer can: a peak is the highest of those on at most so many threads. A library that was
    measured on fewer threads alone is held against the peak of as many.
    """
    named = [c for c in measured.ceilings if c.name == f"{name} {c.dtype}"]
    peaks = {c.dtype: best for c in named if (best := measured.best_ceiling(c.name, threads)) is not None}
    if not peaks:
        return
    tiled = {c.dtype for c in measured.ceilings if c.name == f"tile {c.dtype}"}
    clock = measured.ceiling("clock")
    yield f"[chip.{key}.unit.{unit}]"
    if clock is not None:
        yield f"clock = {ceiling_toml(clock, measured.conditions.date)}"
    for dtype, ceiling in peaks.items():
        yield f"peak.{dtype} = {ceiling_toml(ceiling, measured.conditions.date, measured.is_odd(ceiling))}"
        library = measured.best_ceiling("library", threads, dtype)
        if library is not None and not (unit == "vector" and dtype in tiled):
            measured_here = measured.ceiling("library", threads, dtype) is not None
            peer = ceiling if measured_here else measured.best_ceiling(ceiling.name, library.threads) or ceiling
            share = min(1.0, library.value / peer.value)
            ran = f"{library.kernel}, {threads_text(library.threads)}, of the peak on {threads_text(peer.threads)}"
            doubt = NOT_BELIEVED if measured.is_odd(library) else ""
            figure = figure_toml(share, ran, measured.conditions.date, library.summary, doubt)
            yield f"achievable.{dtype} = {figure}"
    yield f"irregular = {toml_value(list(peaks))}"
    yield ""


def device_chip(measured: Measurement) -> Iterator[str]:
    """Write the chip of an accelerator: fractions of its data sheet where the catalog has one, else plain figures."""
    told = measured.conditions
    known = chip_of_device(told.processor)
    yield f"[chip.{DEVICE}]"
    yield f"name = {toml_value(f'{told.processor}, as measured')}"
    yield f"notes = {toml_value([f'measured {told.date}', *measured.warnings()[:4]])}"
    if known is not None:
        yield f"inherits = {toml_value(known)}"
        yield ""
        yield from _fractions(measured, shipped_chip(known))
    else:
        yield ""
        yield from _plain_device(measured)


def _fractions(measured: Measurement, sheet: Machine) -> Iterator[str]:
    """Put what was reached beside the data sheet: achievable fractions of the peaks and of the main bandwidth."""
    date = measured.conditions.date
    for ceiling in measured.ceilings:
        choice = choose_unit(sheet, "matrix", ceiling.dtype) if ceiling.name == "library" else None
        if choice is not None and choice.dtype == ceiling.dtype:
            share = min(1.0, ceiling.value / choice.unit.peaks[choice.dtype].value)
            yield f"[chip.{DEVICE}.unit.{choice.unit.name}.achievable]"
            yield f"{ceiling.dtype} = {figure_toml(share, ceiling.kernel, date, ceiling.summary)}"
            yield ""
    main, levels = main_level(sheet), measured.levels(1)
    if levels and main.bandwidth is not None:
        share = min(1.0, levels[-1].bandwidth / main.bandwidth.value)
        yield f"[[chip.{DEVICE}.memory]]"
        yield f"level = {toml_value(main.name)}"
        yield f"achievable = {_level_toml(share, measured, levels[-1], 1)}"
        yield ""


def _plain_device(measured: Measurement) -> Iterator[str]:
    date = measured.conditions.date
    products = [ceiling for ceiling in measured.ceilings if ceiling.name == "library"]
    if products:
        yield f"[chip.{DEVICE}.unit.matrix]"
        for ceiling in products:
            yield f"peak.{ceiling.dtype} = {ceiling_toml(ceiling, date)}"
        yield f"irregular = {toml_value([ceiling.dtype for ceiling in products])}"
        yield ""
    yield from _levels_toml(DEVICE, measured, 1, sourced=False)
    host = measured.ceiling(HOST_LINK)
    if host is not None:
        yield f"[[chip.{DEVICE}.memory]]"
        yield 'level = "pcie"'
        yield f"bandwidth = {ceiling_toml(host, date)}"
        yield ""


def _level_toml(value: float, measured: Measurement, level: Level, threads: int) -> str:
    """Write a figure of a level with the kernel and working set it stands on, on this many threads or on fewer."""
    found, date = measured.behind(level, threads), measured.conditions.date
    if found is None:
        return figure_toml(value, threads_text(threads), date)
    curve, size, summary = found
    doubt = NOT_BELIEVED if measured.level_is_odd(level, threads) else ""
    source = f"{curve.name}, {threads_text(curve.threads)}, {format_quantity(size, 'B')}"
    return figure_toml(value, source, date, summary, doubt)


_FIGURES = ("value", "low", "high", "samples", "clean")

#: What is sampled at several points: its record and its fields, the sizes of a point and how they are written.
_SERIES: Mapping[str, tuple[Any, tuple[str, ...], tuple[str, ...], str]] = {
    "curve": (Curve, ("name", "kernel", "threads"), ("bytes",), ".0f"),
    "shapes": (ShapeTable, ("name", "dtype", "kernel", "threads"), ("rows", "side"), ".6g"),
}

#: Conditions that every file states.
_CONDITIONS = ("processor", "date", "cores", "seconds", "quick", "interrupted", "pinned", "device", "missing")

#: Conditions that are stated where they are known.
_KNOWN = ("load", "caches", "largest_cache", "others", "ahead", "ran")

#: How numbers are written, by the name of their field.
_FORMS = {"load": ".2f", "clock": ".6g"} | dict.fromkeys(("others", "ran", "clean"), ".4f")
_FORMS |= dict.fromkeys(("largest_cache", "working_set"), ".0f")


@takes()
def to_toml(measured: Measurement, memory_bytes: float | None = None) -> str:
    """Write a measurement as a machine file; ``memory_bytes`` is the size of the main memory, where known."""
    threads = measured.thread_counts() or tuple(sorted({c.threads for c in measured.ceilings}))
    head = "# Measured by `roofline measure`. SI base units, explicit bytes."
    lines = [head, "schema = 1", 'family = "measured"', ""]
    if measured.conditions.device:
        lines += device_chip(measured)
    elif threads:
        lines += processor_chip(ALL, measured, threads[-1], memory_bytes)
    if len(threads) > 1:
        lines += processor_chip(ONE, measured, threads[0], memory_bytes)
    return "\n".join([*lines, *_record(measured), ""])


@takes()
def write_machine_file(measured: Measurement, path: str | os.PathLike[str]) -> None:
    """Write ``measured`` to a file, making its folder where needed; a file that was there stays until the end.

    What is no file but a device or a pipe (``/dev/null``) is written to, and a link stays one.
    """
    write_text(path, to_toml(measured, main_memory()), error=HardwareError, folder=True)


def check_machine_file(path: str | os.PathLike[str]) -> None:
    """Refuse a file that :func:`write_machine_file` could not write, before anything is measured for it."""
    if os.path.isdir(path) or is_replaced(path):
        with replaced(path, error=HardwareError, keep=False, folder=True) as part, open(part, "w", encoding="utf-8"):
            pass


@takes()
def read_machine_file(path: str | os.PathLike[str], *, device: str | None = None) -> Measurement:
    """Read back what :func:`write_machine_file` wrote under ``[measurement]``.

    ``device`` is the one to measure where there is no such file, which the error says.
    """
    name = os.fspath(path)
    made = _measured_by(**({} if device is None else {"device": device}))
    data = read_toml(name, "machine file", error=HardwareError, hint=f"make it with {made}").get("measurement")
    if not isinstance(data, dict):
        raise HardwareError(f"{name} holds no measurement", hint=f"make one with {_measured_by()}")
    if data.get("version") != VERSION:
        raise HardwareError(
            f"{name}: the measurement is of version {data.get('version')!r}, this reads {VERSION}", hint="measure again"
        )
    try:
        return _measurement(data)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise HardwareError(f"{name}: the measurement is damaged at {error}", hint="measure again") from None


def main_memory() -> float | None:
    """Return the bytes of this machine's main memory, None where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return None


def _record(measured: Measurement) -> Iterator[str]:
    yield "[measurement]"
    yield f"version = {VERSION}"
    yield from _entries(measured.conditions, _CONDITIONS[:-1])
    yield from _known_entries(measured.conditions, _KNOWN)
    yield from _entries(measured, ("contended", "clean"))
    yield f"missing = {toml_value(measured.conditions.missing)}"
    yield f"warnings = {toml_value(measured.warnings())}"
    for ceiling in measured.ceilings:
        yield "\n[[measurement.ceiling]]"
        yield from _entries(ceiling, ("name", "unit", "kernel", "threads"))
        yield from _known_entries(ceiling, ("dtype", "working_set"))
        yield f"figures = {numbers_toml(ceiling.summary)}"
        yield from _known_entries(ceiling.summary, ("clock", "doubts"))
    several: list[tuple[str, Any]] = [("curve", each) for each in measured.curves]
    for kind, each in [*several, *(("shapes", each) for each in measured.shapes)]:
        _, names, sizes, form = _SERIES[kind]
        yield f"\n[[measurement.{kind}]]"
        yield from _entries(each, names)
        yield f"columns = {toml_value((*sizes, *_FIGURES))}"
        rows, doubts = list[str](), list[str]()
        for place, (*at, summary) in enumerate(each.points):
            told = ", ".join(f"{size:{form}}" for size in at)
            rows.append(f"  [{told}, {numbers_toml(summary)[1:-1]}],")
            key = told if len(at) == 1 else place
            doubts += [f"[{key}, {toml_value(doubt)}]" for doubt in summary.doubts]
        yield "\n".join(("points = [", *rows, "]"))
        if doubts:
            yield f"doubts = [{', '.join(doubts)}]"


def _entries(value: Any, names: Sequence[str]) -> Iterator[str]:
    """Write fields of a value under their names."""
    for name in names:
        yield f"{name} = {toml_value(getattr(value, name), _FORMS.get(name, ''))}"


def _known_entries(value: Any, names: Sequence[str]) -> Iterator[str]:
    """Write those fields of a value that are known."""
    fields = ((name, getattr(value, name)) for name in names)
    yield from _entries(value, [name for name, known in fields if known not in (None, "", ()) and known is not False])


def _measurement(data: dict[str, Any]) -> Measurement:
    stated = {name: data[name] for name in _CONDITIONS if name != "device"}
    known = {name: data[name] for name in ("device", *_KNOWN) if name in data}
    told = _checked(Conditions(**stated | known | {"date": str(data["date"]), "missing": tuple(data["missing"])}))
    ceilings = [
        _checked(Ceiling(
            one["name"], one["unit"], one["kernel"], one["threads"],
            _summary(one["figures"], one.get("doubts", ()), one.get("clock")),
            one.get("dtype", ""), one.get("working_set"),
        ))
        for one in data.get("ceiling", [])
    ]  # fmt: skip
    curves, shapes = (tuple(_sampled(kind, each) for each in data.get(kind, [])) for kind in _SERIES)
    return Measurement(told, tuple(ceilings), curves, shapes)


def _sampled(kind: str, data: dict[str, Any]) -> Any:
    """A curve or a table of shapes, of at least one point: sizes above 0, then their figures."""
    record, names, sizes, _ = _SERIES[kind]
    doubts = grouped((float(at), doubt) for at, doubt in data.get("doubts", []))
    rows, points = data["points"], list[Any]()
    if not rows or not all(0 < size < math.inf for row in rows for size in row[: len(sizes)]):
        raise ValueError(f"{data['name']!r}: points at sizes above 0 are expected")
    for place, row in enumerate(rows):
        at, figures = tuple(map(float, row[: len(sizes)])), row[len(sizes) :]
        points.append((*at, _summary(figures, doubts.get(at[0] if len(at) == 1 else place, ()))))
    return _checked(record(*(data[name] for name in names), tuple(points)))


def _summary(figures: Sequence[Any], doubts: Sequence[str], clock: float | None = None) -> SampleSummary:
    value, low, high, samples, clean = figures
    if not all(0 < float(figure) < math.inf for figure in (value, low, high)):
        raise ValueError(f"{value}, {low} and {high}: figures are above 0")
    rates = float(value), float(low), float(high)
    return _checked(SampleSummary(*rates, int(samples), float(clean), tuple(doubts), clock))


_Record = TypeVar("_Record", Conditions, Ceiling, Curve, ShapeTable, SampleSummary)
#: What the fields of a record hold, by their annotation.
_KINDS: dict[str, Any] = {"str": str, "int": int, "float": int | float, "bool": bool, "None": type(None)}


def _checked(record: _Record) -> _Record:
    """The record; each field holds what its annotation says, and no number is below 0 or infinite."""
    for each in fields(record):
        value, names = getattr(record, each.name), str(each.type).split(" | ")
        if each.type == "tuple[str, ...]":
            right = all(isinstance(word, str) for word in value)
        elif set(names) <= set(_KINDS):
            right = any(isinstance(value, _KINDS[name]) for name in names)
            right = right and (isinstance(value, str | None) or 0 <= value < math.inf)
            right = right and isinstance(value, bool) == ("bool" in names)
        else:
            continue
        if not right:
            raise ValueError(f"{each.name} is {quoted(value)}")
    return record


class MeasuredMachine(NamedTuple):
    """What was ``measured``, the roof ``on`` the threads asked for, and that of ``one_thread``."""

    measured: Measurement
    on: Machine
    one_thread: Machine


def _measured_by(**options: str) -> str:
    """What makes a machine file of a measurement, as the caller writes it; ``o`` is a file of one's own.

    >>> _measured_by(), _measured_by(o="mine.toml")
    ('`roofline measure` in a terminal', "roofline.write_machine_file(roofline.measure(), 'mine.toml')")
    """
    words = "".join(f" -{'-' * (len(name) > 1)}{name} {value}" for name, value in options.items())
    command = f"`roofline measure{words}`"
    written = f"roofline.write_machine_file(roofline.measure(), {options.get('o')!r})"
    return either(command, written if "o" in options else f"{command} in a terminal")


@takes()
def this_machine(machine: str | os.PathLike[str] | None = None, threads: int | None = None) -> MeasuredMachine:
    """Load a machine file of ``roofline measure``, by default the one that ``--on this`` reads.

    Raises :class:`~roofline.errors.InputError` where there is none.
    """
    named = None if machine is None or str(machine).strip().lower() == "this" else os.fspath(machine)
    if named is not None and ".toml#" in named:  # as measure says: --on FILE.toml#this
        threads = 1 if chip(named).key == ONE else threads
        named = named.rpartition("#")[0]
    path = user_file("this.toml") if named is None else named
    if named is not None and not os.path.isfile(path):
        if not path.endswith(".toml"):
            hint = f"operations run on this machine, whose measurement is {spelled('on', 'FILE.toml')} or this"
            raise InputError(f"{path!r} is no machine file", hint=hint)
        raise InputError(f"there is no file {path!r}", hint=f"make it with {_measured_by(o=path)}")
    if not os.path.isfile(path):
        hint = f"make one with {_measured_by()}; one in a file of your own is {spelled('on', 'FILE.toml')}"
        raise InputError("no measurement of this machine is known", hint=hint)
    measured = read_machine_file(path)
    several = len(measured.thread_counts()) > 1
    one = chip(f"{path}#{ONE if several else ALL}")
    return MeasuredMachine(measured, one if threads == 1 else chip(f"{path}#{ALL}"), one)


CSV_COLUMNS = (
    "kind", "name", "dtype", "threads", "working_set", "rows", "side", "unit", "value", "low", "high", "samples",
    "clean", "confirmed",
)  # fmt: skip


def write_csv(measured: Measurement, path: str | os.PathLike[str]) -> None:
    """Write a measurement as CSV in SI units; a column that does not apply is empty."""
    write_rows(path, [CSV_COLUMNS, *([row.get(name, "") for name in CSV_COLUMNS] for row in csv_rows(measured))])


def csv_rows(measured: Measurement) -> Iterator[dict[str, Any]]:
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


def _figures(summary: SampleSummary) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in CSV_COLUMNS[-6:]}


def ceiling_toml(ceiling: Ceiling, date: str, odd: bool = False) -> str:
    """Write a ceiling as a figure with its kernel, threads and spread, and whether it is ``odd``."""
    source, doubt = f"{ceiling.kernel}, {threads_text(ceiling.threads)}", NOT_BELIEVED if odd else ""
    return figure_toml(ceiling.value, source, date, ceiling.summary, doubt)


def figure_toml(value: float, source: str, date: str, summary: SampleSummary | None = None, doubt: str = "") -> str:
    """Write a measured figure as a table of TOML: with the spread of its samples, and why it is in doubt."""
    said = f'value = {value:.5g}, source = {toml_value(source)}, basis = "measured", date = {toml_value(date)}'
    if summary is not None:
        doubt = doubt or ("" if summary.confirmed else "in doubt, as no second round confirms it")
        said += f", note = {toml_value(spread(summary))}"
    return f"{{ {said}{f', doubt = {toml_value(doubt)}' if doubt else ''} }}"


def spread(summary: SampleSummary) -> str:
    """Say the quartiles, on how many windows they rest and how fast the cores went."""
    meanwhile = f", at {summary.clock / 1e9:.2f} GHz" if summary.clock else ""
    windows = f"{summary.samples} windows, {format_percent(summary.clean)} clean"
    return f"quartiles {summary.low:.4g} to {summary.high:.4g} of {windows}{meanwhile}"


def numbers_toml(summary: SampleSummary) -> str:
    """Write what a summary found as a list: value, quartiles, samples, share of clean windows."""
    return f"[{summary.value:.6g}, {summary.low:.6g}, {summary.high:.6g}, {summary.samples}, {summary.clean:.4f}]"
