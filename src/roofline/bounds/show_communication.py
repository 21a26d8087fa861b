"""How a collective looks: its time, a row for every algorithm, and where another one is the fastest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.bounds.explain import show
from roofline.sizes import is_array, is_symbol

if TYPE_CHECKING:
    from roofline.bounds.communication import Communication


def communication_table(found: Communication) -> Any:
    """Render a collective: its time on the network, every algorithm that fits, and what was assumed."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    bound = found.bound
    title = Text.assemble((bound.expression, "bold"), f"  on {bound.target}")
    head = f"  {show(found.time, 's')} on the network by {found.algorithm}: {found.row.says}"
    table = _formulas(found) if is_symbol(found.time) else _figures(found)
    memory = {name: time for name, time in bound.times.items() if name in bound.bytes}
    lines = _bandwidths(found)
    lines += [f"  {name} takes {show(time, 's')} to read and write it" for name, time in memory.items()]
    if len(found.regimes) > 1:
        parts = [f"{regime.algorithm} from {show(regime.start, 'B')}" for regime in found.regimes[1:]]
        lines.append(f"  fastest: {', '.join([found.regimes[0].algorithm, *parts])}")
    elif found.regimes:
        lines.append(f"  fastest at every size: {found.regimes[0].algorithm}")
    if found.crossing is not None:
        lines.append(f"  latency-bound below {show(found.crossing, 'B')}; this is {show(found.nbytes, 'B')}")
    said = Table.grid(padding=(0, 2))
    for index, line in enumerate(bound.assumptions):
        said.add_row(Text("  assumes" if index == 0 else "", "dim"), Text(line, "dim"))
    for index, line in enumerate(bound.incomplete):
        said.add_row(Text("  incomplete" if index == 0 else "", "bold yellow"), Text(line))
    return Group(title, Text(), Text(head), Text(), table, Text(), *(Text(line) for line in lines), Text(), said)


def _bandwidths(found: Communication) -> list[str]:
    """The two bandwidths that benchmarks of collectives print; none of formulas, nor where one chip sends nothing."""
    if is_symbol(found.time) or (is_array(found.time) and bool((found.time == 0).any())):
        return []
    algorithm, bus = (show(rate, "B/s") for rate in (found.algorithm_bandwidth, found.bus_bandwidth))
    return [f"  as nccl-tests count: {algorithm} of the buffer (algbw), {bus} on the bus (busbw)"]


def _figures(found: Communication) -> Any:
    """A row an algorithm: bytes, hops, their times, and how it goes."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    table.add_column("  algorithm", no_wrap=True)
    for name in ("each link", "hops", "bytes take", "hops take"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in found.algorithms:
        style = "bold" if row.algorithm == found.algorithm else "dim"
        cells = (
            f"  {row.algorithm}",
            show(row.sent, "B"),
            show(row.hops, "").strip(),
            show(row.wire_time, "s"),
            "" if row.hop_time is None else show(row.hop_time, "s"),
            row.says if not row.limit else f"{row.says} ({row.limit})",
        )
        table.add_row(*(Text(cell, style) for cell in cells))
    return table


def _formulas(found: Communication) -> Any:
    """A row an algorithm where sizes are open: its hops, and the formula of its bytes' time, on lines of its own."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    table.add_column("  algorithm", no_wrap=True)
    table.add_column("hops", justify="right", no_wrap=True)
    table.add_column("bytes take, s")
    for row in found.algorithms:
        style = "bold" if row.algorithm == found.algorithm else "dim"
        limit = f"  ({row.limit})" if row.limit else ""
        cells = (f"  {row.algorithm}", show(row.hops, "").strip(), f"{row.wire_time}{limit}")
        table.add_row(*(Text(cell, style) for cell in cells))
    return table
