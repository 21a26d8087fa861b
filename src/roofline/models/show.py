"""How answers about models look in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.bounds.bound import Bound, Codes
from roofline.bounds.traffic import POLICIES
from roofline.hardware.rate import rate
from roofline.models.pipeline import Pipelined
from roofline.models.report import Serving
from roofline.models.summary import Summary
from roofline.quantity import format_amount as show
from roofline.quantity import format_number, format_quantity
from roofline.sizes import is_array
from roofline.statements import without
from roofline.work import Key

#: Rows a terminal shows of operations and of configurations.
SHOWN = 16
MOST_ROWS = 40


def summary_table(found: Sequence[Summary]) -> Any:
    """Models side by side, one a row."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    first = found[0]
    rows = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    rows.add_column("model", overflow="fold")
    active = [short_count(each.active) if each.active < each.parameters * 0.9 else "" for each in found]
    some = ("active",) if any(active) else ()
    # models that take no prompt of the usual length are asked for their own
    prompts = ("prompt",) if any(each.prompt != first.prompt for each in found) else ()
    for name in ("parameters", *some, *prompts, "FLOPs", "memory", "bytes\nmoved", "FLOP/B", "KV per\ntoken"):
        rows.add_column(name, justify="right", no_wrap=True)
    for each, used in zip(found, active, strict=True):
        rows.add_row(
            each.model.name,
            short_count(each.parameters),
            *([used] if some else []),
            *([f"{each.prompt:,}"] if prompts else []),
            format_quantity(each.flops, "FLOP"),
            format_quantity(float(each.memory.total), "B"),
            format_quantity(float(each.bytes), "B"),
            format_number(each.intensity),
            format_quantity(each.kv_per_token, "B"),
        )
    title = Text.assemble(("prefill", "bold"), f" of {first.batch} x {'prompt' if prompts else first.prompt} tokens")
    said = [
        "memory: weights, keys and values, activations" + ("; active: parameters one token uses" if some else ""),
        f"bytes moved: {POLICIES[first.policy].text}",
        *(f"{each.model.name}: {each.model.vision.counted()}" for each in found if each.model.vision),
        *dict.fromkeys(f"{each.model.name}: {note}" for each in found for note in each.model.notes),
    ]
    gaps = list(dict.fromkeys(f"{each.model.name}: {gap}" for each in found for gap in each.model.gaps))
    return Group(title, Text(), rows, Text(), listed("assumes", said, "dim"), listed("incomplete", gaps, "yellow"))


def serving_table(found: Serving) -> Any:
    """Both phases: what each takes at best, what binds, the operations that cost most; memory; assumptions."""
    from rich.console import Group
    from rich.text import Text

    phases = [(name, phase) for name, phase in (("prefill", found.prefill), ("decode", found.decode)) if phase]
    last = phases[-1][1]
    chips = f"{found.ways.chips} x " if found.ways.chips > 1 else ""
    title = Text.assemble((found.model.name, "bold"), f"  on {chips}{last.target}")
    parts: list[Any] = [title, Text()]
    if any(is_array(phase.lower) for _, phase in phases):
        parts.append(_configurations(found))
    else:
        for name, phase in phases:
            parts += [*indented(_sentences(name, phase, found), 2), operations(phase), Text()]
    parts += indented(_memory(found), 2)
    # what the line about memory says need not be said again
    every = [item for _, phase in phases for item in phase.assumptions]
    said = dict.fromkeys(without(every, ("fit",)))
    missing = dict.fromkeys(item for _, phase in phases for item in phase.incomplete)
    parts += [Text(), listed("assumes", list(said), "dim"), listed("incomplete", list(missing), "bold yellow")]
    return Group(*parts)


def indented(lines: Sequence[str], by: int) -> list[Any]:
    """Lines set in, what they are broken into as well; two spaces before a line set it in further."""
    from rich.padding import Padding
    from rich.text import Text

    return [
        Padding(Text(line.lstrip()), (0, 0, 0, by + len(line) - len(line.lstrip())), expand=False) for line in lines
    ]


def listed(name: str, items: Sequence[str], style: str) -> Any:
    """Sentences under a word, one a line."""
    from rich.table import Table

    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True, style=style)
    rows.add_column(style=style)
    for index, item in enumerate(items):
        rows.add_row(f"  {name}" if index == 0 else "", item)
    return rows


def _sentences(name: str, phase: Bound, found: Serving) -> list[str]:
    sizes = {key: value for key, value in phase.sizes.items() if value is not None}
    asked = ", ".join(f"{key} {value}" for key, value in sizes.items())
    lines = [f"{name} ({asked}): at best {show(phase.lower, 's')}, {phase.kind} ({phase.bound_by})"]
    within, nothing = show(phase.op_by_op, "s"), show(phase.upper, "s")
    lines.append(f"  {within} if only each operation overlaps within itself, {nothing} if nothing does")
    if phase.estimate is not None:
        lines.append(f"  {show(phase.estimate, 's')} by the stated overlap and overhead, an estimate")
    tokens = sizes["batch"] * (sizes.get("prompt", 1))
    made = f"{format_number(float(tokens / phase.lower))} tokens/s"
    if name == "decode":
        made += f", {format_number(float(1 / phase.lower))} tokens/s for each user"
    moved = phase.times.get(found.memory.level)
    used = "" if moved is None else f", {float(moved / phase.lower):.0%} of bandwidth"
    flops = "" if phase.utilisation is None else f" · {float(phase.utilisation):.0%} of peak FLOP/s"
    lines.append(f"  {made}{flops}{used}")
    lines += [f"  {line}" for line in off_matrix_unit(phase, "--activations")]
    lines += [f"  {line}" for line in several_chips(phase, found, name)]
    flips = found.compute_bound_from() if name == "decode" else None
    if flips is not None:
        whole = "at no batch" if flips["whole"] is None else f"from batch {flips['whole']:,}"
        alone = "at none" if flips["matrices"] is None else f"from {flips['matrices']:,}"
        lines.append(f"  compute-bound {whole} at this context; the matrices alone {alone}")
    return lines


def off_matrix_unit(phase: Bound, option: str) -> list[str]:
    """Say where matrix products run beside the matrix unit as it takes no such format, and what would use it."""
    matrix = {unit.name for unit in phase.machine.units if unit.kind == "matrix"}
    runs = {name: rate(phase.machine, Key("flops", "matrix", name)) for name in ("bf16", "fp16")}
    usual = next(((name, found.resource) for name, found in runs.items() if found and found.resource in matrix), None)
    products = next((part for part in phase.ops if part.op.kind == "contraction"), None)
    if usual is None or products is None:
        return []
    formats = {key.dtype for key, _ in products.op.work.items() if key.quantity == "flops" and key.place == "matrix"}
    found = {rate(phase.machine, Key("flops", "matrix", name)) for name in formats} - {None}
    other = next((each.resource for each in found if each and each.resource not in matrix), None)
    if other is None:
        return []
    names = ", ".join(sorted(formats))
    return [f"matrix products run on {other}: {usual[1]} takes no {names}; {option} {usual[0]} would run on it"]


def several_chips(phase: Bound, found: Serving, name: str) -> list[str]:
    """What a step over several chips has to say: its stages, and how far it may be split before it waits."""
    lines = []
    if isinstance(phase, Pipelined):
        stages = f"{phase.micro_batches} micro-batches over {len(phase.stages)} stages"
        slow = phase.stages[phase.slowest].lower
        lines.append(
            f"{stages}: each takes {show(phase.latency, 's')} through all, {show(slow, 's')} in the slowest, "
            f"number {phase.slowest + 1}"
        )
        lines.append("where it becomes compute-bound or network-bound is not worked out over stages")
    limit = found.network_limit(name)
    if limit is not None:
        lines.append(limit.says)
    return lines


@dataclass(frozen=True, slots=True)
class _Dotted:
    """A dotted name, which a narrow terminal breaks after its dots."""

    name: str

    def __rich_measure__(self, console: Any, options: Any) -> Any:
        """From its longest piece to the whole."""
        from rich.measure import Measurement

        return Measurement(max(map(len, self._pieces)), len(self.name))

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """As many pieces a line as there is room for."""
        from rich.text import Text

        lines = [""]
        for piece in self._pieces:
            if lines[-1] and len(lines[-1]) + len(piece) > options.max_width:
                lines.append("")
            lines[-1] += piece
        yield Text("\n".join(lines), overflow="fold")

    @property
    def _pieces(self) -> list[str]:
        return re.findall(r"[^. ]+\.?|[. ]", self.name)


def operations(phase: Bound) -> Any:
    """The operations that take longest, one a row; in a narrow terminal it is their names that are broken."""
    from rich.padding import Padding
    from rich.table import Table

    rows = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    rows.add_column("operation")
    for name in ("FLOPs", "bytes", "FLOP/B", "at best"):
        rows.add_column(name, justify="right", no_wrap=True)
    rows.add_column("bound by", no_wrap=True)
    ordered = sorted(phase.ops, key=lambda part: -float(part.lower))
    for part in ordered[:SHOWN]:
        intensity = "" if part.intensity is None else format_number(float(part.intensity))
        amounts = (format_quantity(float(part.flops), "FLOP"), format_quantity(float(part.bytes), "B"), intensity)
        rows.add_row(_Dotted(part.op.where), *amounts, show(part.lower, "s"), str(part.bound_by or ""))
    rest = ordered[SHOWN:]
    if rest:
        rows.add_row(f"{len(rest)} more", "", "", "", show(sum(part.lower for part in rest), "s"), "")
    return Padding(rows, (0, 0, 0, 4), expand=False)


def _configurations(found: Serving) -> Any:
    """One row a configuration where sizes are arrays."""
    import numpy as np
    from rich.table import Table

    rows = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    columns: list[tuple[str, Any, str]] = []
    phases = [(name, phase) for name, phase in (("prefill", found.prefill), ("decode", found.decode)) if phase]
    sizes: dict[str, Any] = {}
    for _, phase in phases:
        sizes |= {key: value for key, value in phase.sizes.items() if is_array(value)}
    shape = np.broadcast_shapes(*(value.shape for value in sizes.values()))
    columns += [(key, value, "") for key, value in sizes.items()]
    for name, phase in phases:
        columns += [(name, phase.lower, "s"), ("bound by", _decoded(phase.bound_by), "")]
    if found.decode is not None:
        columns += [("tokens/s", found.tokens_per_second, ""), ("each user", 1 / found.decode.lower, "")]
    columns.append(("memory", found.memory.total, "B"))
    for name, _, _ in columns:
        rows.add_column(name, justify="left" if name == "bound by" else "right", overflow="fold")
    flat = [np.broadcast_to(np.asarray(values), shape).ravel() for _, values, _ in columns]
    count = len(flat[0])
    kept = (
        range(count)
        if count <= MOST_ROWS
        else sorted({round(i * (count - 1) / (MOST_ROWS - 1)) for i in range(MOST_ROWS)})
    )
    for index in kept:
        rows.add_row(*(_cell(column[index], unit) for column, (_, _, unit) in zip(flat, columns, strict=True)))
    return rows


def _decoded(binding: Any) -> Any:
    import numpy as np

    return np.asarray(binding.decode()).reshape(binding.codes.shape) if isinstance(binding, Codes) else binding


def _cell(value: Any, unit: str) -> str:
    if isinstance(value, str):
        return value
    return format_quantity(float(value), unit) if unit else format_number(float(value))


def _memory(found: Serving) -> list[str]:
    needed = found.memory
    parts = ", ".join(f"{name} {show(value, 'B')}" for name, value in needed.parts.items())
    line = f"memory {show(needed.total, 'B')}: {parts}"
    if needed.capacity is None:
        return [f"{line}; the chip's capacity is not known"]
    if is_array(needed.total):
        fitting = int((needed.total <= needed.capacity).sum())
        return [
            line,
            f"{fitting} of {needed.total.size} configurations fit {show(needed.capacity, 'B')} of {needed.level}",
        ]
    if needed.fits:
        free = show(needed.capacity - needed.total, "B")
        return [f"{line}; fits {show(needed.capacity, 'B')} of {needed.level}, {free} free"]
    over = f"{line}; does not fit: {show(needed.total - needed.capacity, 'B')} more than {needed.level} holds"
    if found.ways.pipeline > 1:
        return [
            over,
            "  the nearest that fits is not worked out over stages: fewer sequences, more chips, another format",
        ]
    instead = found.fitting()
    return [over, f"  instead: {instead}"] if instead else [over]


def short_count(number: int) -> str:
    """Parameters as people write them: 6.74B.

    >>> short_count(6738415616), short_count(124439808)
    ('6.74B', '124M')
    """
    for factor, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if number >= factor:
            return f"{number / factor:.3g}{letter}"
    return str(number)
