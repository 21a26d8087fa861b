"""How machines of the catalog look: a list, one in detail, several side by side, and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.bounds.rules import Rule, rules_of_thumb
from roofline.hardware import Machine
from roofline.hardware.machine import Figure
from roofline.hardware.rate import main_level, rate, ridge
from roofline.quantity import format_number, format_quantity
from roofline.work import Key


def row_figures(machine: Machine, dtype: str) -> dict[str, float | None]:
    """The figures of one line of the list: peak for matmuls in ``dtype``, main memory, ridge."""
    main = main_level(machine)
    peak = rate(machine, Key("flops", "matrix", dtype))
    return {
        "peak": peak.value if peak else None,
        "bandwidth": main.bandwidth.value if main.bandwidth else None,
        "capacity": main.capacity.value if main.capacity else None,
        "ridge": ridge(machine, dtype),
    }


def listing(machines: Sequence[Machine], dtype: str) -> Any:
    """A line a chip; a figure nobody has sourced is left blank."""
    from rich.console import Group
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    table.add_column("chip", overflow="fold")
    table.add_column("name", overflow="fold")
    for name in (f"{dtype} peak", "memory", "capacity", f"{dtype} ridge"):
        table.add_column(name, justify="right", overflow="fold")
    for machine in machines:
        row = row_figures(machine, dtype)
        used = rate(machine, Key("flops", "matrix", dtype))
        stand_in = f" {used.dtype}" if used is not None and used.dtype != dtype else ""
        table.add_row(
            machine.key,
            machine.name,
            _show(row["peak"], "FLOP/s") + stand_in,
            _show(row["bandwidth"], "B/s"),
            _show(row["capacity"], "B"),
            _show(row["ridge"], "FLOP/B"),
        )
    many = f"{len(machines)} chip" + ("s" if len(machines) != 1 else "")
    note = f"{many}; dense peaks, one-way bandwidths; blank: no source; another dtype: what it runs as."
    return Group(table, "", note)


def detail(machine: Machine, *, sources: bool = False) -> Any:
    """One chip: units, memories, links, what each figure is based on, and its rules of thumb."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for column in range(4):
        table.add_column(no_wrap=column < 3, justify="right" if column == 2 else "left", overflow="fold")
    for part, what, value, figure in _figures(machine):
        table.add_row(f"  {part}", what, value, Text(_origin(figure, sources), "dim"))
    parts: list[Any] = [Text.assemble((machine.name, "bold"), f"  {machine.key}{_cores(machine)}"), Text(), table]
    if sources and machine.alternates:
        parts += [Text(), Text("  other sources say"), _alternates(machine)]
    rules = rules_of_thumb(machine)
    if rules:
        parts += [Text(), Text("  rules of thumb"), Text(), _rules(rules)]
    if machine.warnings:
        parts += [Text(), *(Text(f"  {warning}", "yellow") for warning in machine.warnings)]
    notes = [*machine.notes, *_accumulation(machine)]
    if notes:
        parts += [Text(), *(Text(f"  {note}", "dim") for note in notes)]
    return Group(*parts)


def _accumulation(machine: Machine) -> list[str]:
    """What the formats are that a chip has two peaks of."""
    peaks = (name for unit in machine.units for name in unit.peaks)
    twice = [name.removesuffix("_acc16") for name in peaks if name.endswith("_acc16")]
    return [f"{name} accumulates in fp32, {name}_acc16 in fp16" for name in twice]


def comparison(machines: Sequence[Machine]) -> Any:
    """Several chips side by side: every figure one of them has, blank where it has none."""
    from rich.table import Table

    tables = [{(part, what): value for part, what, value, _ in _figures(machine)} for machine in machines]
    rules = [{(r.group, r.name): _show(r.value, r.unit) for r in rules_of_thumb(m)} for m in machines]
    grid = Table(box=None, padding=(0, 2), header_style="bold", pad_edge=False)
    grid.add_column("")
    for machine in machines:
        grid.add_column(machine.key, justify="right")
    for columns in (tables, rules):
        for key in dict.fromkeys(k for column in columns for k in column):
            label = key[1] if columns is rules else " ".join(key)
            grid.add_row(f"  {label}", *(column.get(key, "") for column in columns))
    return grid


def to_dict(machine: Machine) -> dict[str, Any]:
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
        "tdp": _figure(machine.tdp),
        "prices": {name: _figure(price) for name, price in machine.prices.items()},
        "rules": [{"name": r.name, "value": r.value, "unit": r.unit} for r in rules_of_thumb(machine)],
        "notes": list(machine.notes),
        "warnings": list(machine.warnings),
        "alternates": [
            {"of": item.of, "rejected": item.rejected, **(_figure(item.figure) or {})} for item in machine.alternates
        ],
    }


def _figures(machine: Machine) -> list[tuple[str, str, str, Figure | None]]:
    """Every figure of a machine as (part, what, value, figure)."""
    rows: list[tuple[str, str, str, Figure | None]] = []
    for unit in machine.units:
        rows += [(unit.name, dtype, _show(peak.value, "FLOP/s"), peak) for dtype, peak in unit.peaks.items()]
        rows += [
            (unit.name, f"{dtype} best matmul", f"{fraction.value:.0%}", fraction)
            for dtype, fraction in unit.achievable.items()
        ]
    for memory in machine.memories:
        if memory.bandwidth:
            rows.append((memory.name, "bandwidth", _show(memory.bandwidth.value, "B/s"), memory.bandwidth))
        if memory.capacity:
            rows.append((memory.name, "capacity", _show(memory.capacity.value, "B"), memory.capacity))
    for link in machine.links:
        if link.bandwidth:
            many = f"{link.links} x " if link.links else ""
            rows.append((link.name, "one way", many + _show(link.bandwidth.value, "B/s"), link.bandwidth))
        if link.latency:
            rows.append((link.name, "hop", _show(link.latency.value, "s"), link.latency))
    if machine.tdp:
        rows.append(("power", "TDP", _show(machine.tdp.value, "W"), machine.tdp))
    return rows


def _rules(rules: Sequence[Rule]) -> Any:
    """A small table a group: a row a memory level, a column a dtype (or mix, or number of chips)."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = []
    for group in dict.fromkeys(rule.group for rule in rules):
        chosen = [rule for rule in rules if rule.group == group]
        parts += [Text(f"  {chosen[0].meaning}", "dim"), _Grid(chosen), Text()]
    return Group(*parts[:-1])


class _Grid:
    """The rules of a group as a table, its columns made rows where they would not fit the width there is."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.measure import Measurement

        upright = self._table([(rule.row, rule.column, rule.value) for rule in self.rules])
        wide = Measurement.get(console, options.update(width=10_000), upright).maximum > options.max_width
        yield self._table([(rule.column, rule.row, rule.value) for rule in self.rules]) if wide else upright

    def _table(self, cells: Sequence[tuple[str, str, float]]) -> Any:
        from rich.table import Table

        table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
        table.add_column(f"    {self.rules[0].group}", no_wrap=True, min_width=18)
        columns = list(dict.fromkeys(column for _, column, _ in cells))
        for column in columns:
            table.add_column(column, justify="right", no_wrap=True)
        for row in dict.fromkeys(row for row, _, _ in cells):
            said = {column: format_number(value) for at, column, value in cells if at == row}
            table.add_row(f"    {row}", *(said.get(column, "") for column in columns))
        return table


def _alternates(machine: Machine) -> Any:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column()
    for item in machine.alternates:
        unit = _unit_of(item.of)
        word = "rejected: " if item.rejected else ""
        said = ", ".join(filter(None, (word + item.figure.source, item.figure.note)))
        table.add_row(f"    {item.of}", _show(item.figure.value, unit), said)
    return table


def _unit_of(path: str) -> str:
    """The unit of a figure by its path."""
    last = path.rpartition(".")[2]
    units = {"bandwidth": "B/s", "capacity": "B", "latency": "s", "clock": "Hz", "tdp": "W", "per_core": "B"}
    if "achievable" in path:
        return ""
    return units.get(last, "FLOP/s")


def _origin(figure: Figure | None, sources: bool) -> str:
    if figure is None:
        return ""
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
