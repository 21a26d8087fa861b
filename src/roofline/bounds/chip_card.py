"""A chip as a person reads it: its figures with their basis, its rules of thumb, what is odd about it; and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from roofline import dtypes
from roofline.answers import Fact
from roofline.bounds.comparison import MARK, aligned, fact_row
from roofline.bounds.ridges import rules_of_thumb
from roofline.hardware.machine import Figure, Machine, figure_unit
from roofline.hardware.network import bisection_bandwidth, network
from roofline.hardware.rate import main_level
from roofline.quantity import format_number, format_quantity
from roofline.sections import BLANK, Amount, Column, CrossTable, Headline, Row, Section, Sentences, Table, figures


def detail(machine: Machine, *, sources: bool = False) -> Iterator[Section]:
    """One chip: its figures with their basis, its rules of thumb, and what is odd about it."""
    yield Headline(machine.name, f"{machine.key}{_cores(machine)}")
    yield BLANK
    columns = (
        Column(meaning="part"),
        Column(meaning="figure"),
        Column(align="right", meaning="value"),
        Column(wrap="anywhere", tone="quiet", meaning="basis"),
    )
    rows = [Row((part, what, value, _origin(figure, sources))) for part, what, value, figure in _figures(machine)]
    yield Table(columns, rows, headed=False)
    if sources and machine.alternates:
        yield from (BLANK, Sentences(("other sources say",)))
        yield _alternates(machine)
    if (sums := slice_sums(machine)) is not None:
        shown = ", ".join(f"{name} {_show(value, unit)}" for name, value, unit in sums if value is not None)
        yield from (BLANK, Sentences((f"{machine.target} together: {shown}",)))
    rules = rules_of_thumb(machine)
    if rules:
        yield from (BLANK, Sentences(("rules of thumb",)))
    for group in dict.fromkeys(rule.group for rule in rules):
        chosen = [rule for rule in rules if rule.group == group]
        yield from (BLANK, Sentences((chosen[0].meaning,), "quiet"))
        yield CrossTable(group, [(rule.row, rule.column, format_number(rule.value)) for rule in chosen])
    if machine.warnings:
        yield from (BLANK, Sentences(machine.warnings, "warning"))
    notes = [*machine.notes, *_accumulation(machine)]
    if notes:
        yield from (BLANK, Sentences(notes, "quiet"))


def slice_sums(machine: Machine) -> list[tuple[str, float | None, str]] | None:
    """What the chips of a target have together, as (name, value, unit); None of one chip.

    >>> from roofline.hardware import chip
    >>> [(name, value) for name, value, _ in slice_sums(chip("v5e:16x16"))][:3]
    [('chips', 256), ('hosts', 32), ('cores', 256)]
    """
    if machine.mesh is None or not isinstance(machine.mesh.chips, int) or machine.mesh.chips == 1:
        return None
    many, main = machine.mesh.chips, main_level(machine)
    matrix = next((unit for unit in machine.units if unit.kind == "matrix"), machine.units[0])
    return [
        ("chips", many, ""),
        ("hosts", network(machine).hosts(many), ""),
        ("cores", machine.cores * many if machine.cores else None, ""),
        *((f"{dtype} peak", peak.value * many, "FLOP/s") for dtype, peak in matrix.peaks.items()),
        ("memory", main.capacity.value * many if main.capacity else None, "B"),
        ("memory bandwidth", main.bandwidth.value * many if main.bandwidth else None, "B/s"),
        ("bisection bandwidth one way", bisection_bandwidth(machine), "B/s"),
    ]


def comparison(machines: Sequence[Machine]) -> Iterator[Section]:
    """Several chips side by side, a row a meaning, the best marked: blank where a chip has no figure."""
    names = [machine.key for machine in machines]
    said = aligned([sorted(_facts(machine), key=_place) for machine in machines])
    ordered = sorted(said, key=lambda name: _place(next(fact for fact in said[name] if fact is not None)))
    yield Table(
        (Column(), *figures(*names)), [fact_row(names, name, said[name]) for name in ordered], gap=4, head_tone="strong"
    )
    yield Sentences((f"{MARK} best of its row; dense peaks, one-way bandwidths; blank: no source",), "quiet")


#: What stands above what, side by side.
_ORDER = (
    "matrix",
    "vector",
    "scalar",
    "main",
    "link",
    "network",
    "power",
    "l",
    "v",
    "s",
    "p",
    "ridge",
    "crit",
    "width",
)


def _place(fact: Fact) -> tuple[int, bool, str, int]:
    """Where a fact stands: arithmetic, memory, network, power, other levels, rules of thumb; wide formats first."""
    first = fact.name.split()[0]
    group = next((at for at, word in enumerate(_ORDER) if first.startswith(word)), len(_ORDER))
    level = fact.name.partition(" over ")[2]
    bits = next((dtypes.get(word).bits for word in fact.name.split() if dtypes.is_dtype(word)), 0)
    return group, level != "main memory", level, -bits


def _facts(machine: Machine) -> Iterator[Fact]:
    """The figures of a machine under what they mean on any: ``matrix bf16``, ``main memory``, ``link one way``."""
    for unit in machine.units:
        for dtype, peak in unit.peaks.items():
            yield Fact(f"{unit.kind} {dtype}", peak.value, "FLOP/s", "more", peak.source)
        for dtype, share in unit.achievable.items():
            yield Fact(f"{unit.kind} {dtype} best matmul", share.value, "share", "more", share.source)
    main = main_level(machine)
    for memory in machine.memories:
        name = "main memory" if memory is main else memory.name
        if memory.bandwidth:
            yield Fact(f"{name} bandwidth", memory.bandwidth.value, "B/s", "more", memory.bandwidth.source)
        if memory.capacity:
            yield Fact(f"{name} capacity", memory.capacity.value, "B", "more", memory.capacity.source)
    for name, link in zip(("link", "network", *(each.name for each in machine.links[2:])), machine.links, strict=False):
        if link.bandwidth:
            one = format_quantity(link.bandwidth.value, "B/s")
            yield Fact(f"{name} one way", f"{link.links} x {one}" if link.links else one, source=link.bandwidth.source)
        if link.latency:
            yield Fact(f"{name} hop", link.latency.value, "s", "less", link.latency.source)
    if machine.tdp:
        yield Fact("power TDP", machine.tdp.value, "W", source=machine.tdp.source)
    for rule in rules_of_thumb(machine):
        yield Fact(rule.name.replace(f"over {main.name}", "over main memory"), _show(rule.value, rule.unit))


def _alternates(machine: Machine) -> Table:
    rows = []
    for item in machine.alternates:
        word = "rejected: " if item.rejected else ""
        said = ", ".join(filter(None, (word + item.figure.source, item.figure.note)))
        rows.append(Row((item.of, _show(item.figure.value, figure_unit(item.of)), said)))
    columns = [Column(wrap="words", meaning=name) for name in ("figure", "value", "source")]
    return Table(columns, rows, indent=4, headed=False)


def _accumulation(machine: Machine) -> list[str]:
    """What the formats are that a chip has two peaks of."""
    peaks = (name for unit in machine.units for name in unit.peaks)
    twice = [name.removesuffix("_acc16") for name in peaks if name.endswith("_acc16")]
    return [f"{name} accumulates in fp32, {name}_acc16 in fp16" for name in twice]


def chip_data(machine: Machine) -> dict[str, Any]:
    """One chip as plain data in SI units, every figure with its source and basis."""
    return {
        "key": machine.key,
        "name": machine.name,
        "vendor": machine.vendor or None,
        "cores": machine.cores,
        "units": [
            {
                "name": unit.name,
                "kind": unit.kind,
                "clock": _figure(unit.clock),
                "tile": list(unit.tile) if unit.tile else None,
                "peaks": {dtype: _figure(peak) for dtype, peak in unit.peaks.items()},
                "achievable": {dtype: _figure(fraction) for dtype, fraction in unit.achievable.items()},
                "per_clock": {dtype: _figure(flops) for dtype, flops in unit.per_clock.items()},
            }
            for unit in machine.units
        ],
        "memories": [
            {
                "name": memory.name,
                "bandwidth": _figure(memory.bandwidth),
                "capacity": _figure(memory.capacity),
                "per_core": _figure(memory.per_core),
                "achievable": _figure(memory.achievable),
                "link": memory.link,
            }
            for memory in machine.memories
        ],
        "links": [
            {
                "name": link.name,
                "bandwidth": _figure(link.bandwidth),
                "links": link.links,
                "latency": _figure(link.latency),
                "domain": link.domain,
                "topology": link.topology or None,
            }
            for link in machine.links
        ],
        "slice": None if (sums := slice_sums(machine)) is None else {n.replace(" ", "_"): v for n, v, _ in sums},
        "tdp": _figure(machine.tdp),
        "prices": {name: _figure(price) for name, price in machine.prices.items()},
        "rules": [{"name": r.name, "value": r.value, "unit": r.unit} for r in rules_of_thumb(machine)],
        "notes": list(machine.notes),
        "warnings": list(machine.warnings),
        "alternates": [
            {"of": item.of, "rejected": item.rejected, **(_figure(item.figure) or {})} for item in machine.alternates
        ],
    }


def _figures(machine: Machine) -> list[tuple[str, str, Amount, Figure]]:
    """Every figure of a machine as (part, what, value, figure)."""
    rows: list[tuple[str, str, Amount, Figure]] = []
    for unit in machine.units:
        rows += [(unit.name, dtype, Amount(peak.value, "FLOP/s"), peak) for dtype, peak in unit.peaks.items()]
        rows += [
            (unit.name, f"{dtype} best matmul", Amount(share.value, "", f"{share.value:.0%}"), share)
            for dtype, share in unit.achievable.items()
        ]
    for memory in machine.memories:
        for what, figure, of in (("bandwidth", memory.bandwidth, "B/s"), ("capacity", memory.capacity, "B")):
            rows += [(memory.name, what, Amount(figure.value, of), figure)] if figure else []
    for link in machine.links:
        if link.bandwidth:
            many, each = link.links or 1, link.bandwidth.value
            text = f"{many} x {_show(each, 'B/s')}" if link.links else ""
            rows.append((link.name, "one way", Amount(many * each, "B/s", text), link.bandwidth))
        if link.latency:
            rows.append((link.name, "hop", Amount(link.latency.value, "s"), link.latency))
    if machine.tdp:
        rows.append(("power", "TDP", Amount(machine.tdp.value, "W"), machine.tdp))
    return rows


def _origin(figure: Figure, sources: bool) -> str:
    if not sources:
        return "" if figure.basis == "spec" else figure.basis
    return ", ".join(filter(None, (figure.basis, figure.source, figure.date, figure.note)))


def _figure(figure: Figure | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    named = {"source": figure.source, "basis": figure.basis, "note": figure.note, "date": figure.date}
    return {"value": figure.value, **{name: text for name, text in named.items() if text}}


def _cores(machine: Machine) -> str:
    if not machine.cores:
        return ""
    return f"  {machine.cores} {'core' if machine.cores == 1 else 'cores'}"


def _show(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return format_quantity(value, unit) if unit not in ("tokens", "elements", "") else format_number(value)
