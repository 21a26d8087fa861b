"""A measurement as chips of a machine file: a processor with its levels, an accelerator beside its data sheet."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.hardware.machine import Machine
from roofline.measurement.levels import Level
from roofline.measurement.result import Measurement
from roofline.measurement.toml_text import ceiling_toml, figure_toml, spread, text_toml, texts_toml, threads_text
from roofline.quantity import format_quantity

#: The chip that stands for all threads, the one for a single thread, and the one for an accelerator.
ALL, ONE, DEVICE = "this", "this-core", "this-device"

#: What a ceiling of an accelerator's link is called, and the memory level data then comes over.
HOST_LINK = "from host"


def processor_chip(key: str, measured: Measurement, threads: int, memory_bytes: float | None) -> Iterator[str]:
    """Write the chip of a processor on a number of threads."""
    told = measured.conditions
    yield f"[chip.{key}]"
    yield f"name = {text_toml(f'{told.processor}, {threads_text(threads)}, as measured')}"
    yield f"cores = {threads}"
    yield f"notes = {texts_toml([f'measured {told.date}', *measured.warnings()[:4]])}"
    yield ""
    for unit, name in (("vector", "register"), ("amx", "tile")):
        yield from _unit(key, unit, name, measured, threads)
    levels = measured.levels(threads)
    for number, level in enumerate(reversed(levels)):
        yield f"[[chip.{key}.memory]]"
        yield f"level = {text_toml(level.name)}"
        source = _source(measured, level, threads)
        yield f"bandwidth = {figure_toml(level.bandwidth, source, told.date)}"
        capacity = memory_bytes if level.capacity is None else level.capacity
        if capacity is not None:
            said = "as the system reports it" if level.capacity is None else "the largest working set that keeps it"
            yield f'capacity = {{ value = {capacity:.0f}, source = {text_toml(said)}, basis = "measured" }}'
        if number == 0:
            pairs = ", ".join(f"[{size:.0f}, {value:.4g}]" for size, value in measured.best_curve(threads))
            yield f"curve = [{pairs}]"
        yield ""


def _unit(key: str, unit: str, name: str, measured: Measurement, threads: int) -> Iterator[str]:
    """Write a unit: register or tile ceilings as peaks, the library's products as achievable fractions of them."""
    peaks = {c.dtype: c for c in measured.ceilings if c.name == f"{name} {c.dtype}" and c.threads == threads}
    if not peaks:
        return
    tiled = {c.dtype for c in measured.ceilings if c.name == f"tile {c.dtype}"}
    clock = measured.ceiling("clock")
    yield f"[chip.{key}.unit.{unit}]"
    if clock is not None:
        yield f"clock = {ceiling_toml(clock, measured.conditions.date)}"
    for dtype, ceiling in peaks.items():
        yield f"peak.{dtype} = {ceiling_toml(ceiling, measured.conditions.date)}"
        library = measured.reached("library", threads, dtype)
        if library is not None and not (unit == "vector" and dtype in tiled):
            share = min(1.0, library.value / ceiling.value)
            figure = figure_toml(share, library.kernel, measured.conditions.date, spread(library.summary))
            yield f"achievable.{dtype} = {figure}"
    yield f"irregular = {texts_toml(list(peaks))}"
    yield ""


def device_chip(measured: Measurement) -> Iterator[str]:
    """Write the chip of an accelerator: fractions of its data sheet where the catalog has one, else plain figures."""
    from roofline.hardware.catalog import chip_of_device, shipped_chip

    told = measured.conditions
    known = chip_of_device(told.processor)
    yield f"[chip.{DEVICE}]"
    yield f"name = {text_toml(f'{told.processor}, as measured')}"
    yield f"notes = {texts_toml([f'measured {told.date}', *measured.warnings()[:4]])}"
    if known is not None:
        yield f"inherits = {text_toml(known)}"
        yield ""
        yield from _fractions(measured, shipped_chip(known))
    else:
        yield ""
        yield from _plain_device(measured)


def _fractions(measured: Measurement, sheet: Machine) -> Iterator[str]:
    """Put what was reached beside the data sheet: achievable fractions of the peaks and of the main bandwidth."""
    from roofline.hardware.rate import choose_unit, main_level

    date = measured.conditions.date
    for ceiling in measured.ceilings:
        choice = choose_unit(sheet, "matrix", ceiling.dtype) if ceiling.name == "library" else None
        if choice is not None and choice.dtype == ceiling.dtype:
            share = min(1.0, ceiling.value / choice.unit.peaks[choice.dtype].value)
            yield f"[chip.{DEVICE}.unit.{choice.unit.name}.achievable]"
            yield f"{ceiling.dtype} = {figure_toml(share, ceiling.kernel, date, spread(ceiling.summary))}"
            yield ""
    main, levels = main_level(sheet), measured.levels(1)
    if levels and main.bandwidth is not None:
        share = min(1.0, levels[-1].bandwidth / main.bandwidth.value)
        yield f"[[chip.{DEVICE}.memory]]"
        yield f"level = {text_toml(main.name)}"
        yield f"achievable = {figure_toml(share, _source(measured, levels[-1], 1), date)}"
        yield ""


def _plain_device(measured: Measurement) -> Iterator[str]:
    date = measured.conditions.date
    products = [ceiling for ceiling in measured.ceilings if ceiling.name == "library"]
    if products:
        yield f"[chip.{DEVICE}.unit.matrix]"
        for ceiling in products:
            yield f"peak.{ceiling.dtype} = {ceiling_toml(ceiling, date)}"
        yield f"irregular = {texts_toml([ceiling.dtype for ceiling in products])}"
        yield ""
    levels = measured.levels(1)
    for number, level in enumerate(reversed(levels)):
        yield f"[[chip.{DEVICE}.memory]]"
        yield f"level = {text_toml(level.name)}"
        yield f"bandwidth = {figure_toml(level.bandwidth, _source(measured, level, 1), date)}"
        if level.capacity is not None:
            yield f'capacity = {{ value = {level.capacity:.0f}, basis = "measured" }}'
        if number == 0:
            pairs = ", ".join(f"[{size:.0f}, {value:.4g}]" for size, value in measured.best_curve(1))
            yield f"curve = [{pairs}]"
        yield ""
    host = measured.ceiling(HOST_LINK)
    if host is not None:
        yield f"[[chip.{DEVICE}.memory]]"
        yield 'level = "pcie"'
        yield f"bandwidth = {ceiling_toml(host, date)}"
        yield ""


def _source(measured: Measurement, level: Level, threads: int) -> str:
    """Name the kernel and the working set a level's bandwidth stands on."""
    for curve in measured.curves:
        for size, summary in curve.points:
            if curve.threads == threads and summary.value == level.bandwidth:
                return f"{curve.name}, {threads_text(threads)}, {format_quantity(size, 'B')}; {spread(summary)}"
    return threads_text(threads)
