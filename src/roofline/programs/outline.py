"""Tables of a traced program: its modules as a tree, its operations as a list, what takes longest under a roof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from roofline.bounds.bound import Bound
from roofline.bounds.traffic import traffic
from roofline.ops.counting import count_operation
from roofline.ops.pricing import UNKNOWN
from roofline.quantity import format_amount
from roofline.sections import BLANK, Amount, Cell, Column, Row, Section, Sentences, Table, Wrap, figures
from roofline.sizes import Size, is_symbol
from roofline.work import Op

#: Characters between columns.
GAP = 4


def module_table(name: str, ops: Sequence[Op], modules: Mapping[str, str], depth: int | None = None) -> Table:
    """The modules as a tree, ``depth`` levels deep, each with its FLOPs, its share, its bytes."""
    loads = [load.total("bytes") * op.repeat for op, load in zip(ops, traffic(ops), strict=True)]
    sums = _sums(ops, loads)
    alike = _alike(sums, modules)
    whole = sums[""][0] if sums else 0
    is_open = is_symbol(whole)
    rows = []
    for path in sorted(sums, key=lambda p: sums[p][2]):
        level = path.count(".") + 1 if path else 0
        if (depth is not None and level > depth) or _hidden(path, alike):
            continue
        flops, moved, _ = sums[path]
        word = path.rsplit(".", 1)[-1] if path else name
        word += f" … {alike[path][-1].rsplit('.', 1)[-1]} (each of {len(alike[path])})" if path in alike else ""
        share: list[Cell] = [] if is_open else [f"{float(flops) / float(whole):.1%}" if whole else ""]
        cells: tuple[Cell, ...] = (word, modules.get(path, ""), Amount(flops, "FLOP"), *share, Amount(moved, "B"))
        rows.append(Row(cells, level=level))
    wrap: Wrap = "anywhere" if is_open else "never"
    names = ("FLOPs", "bytes") if is_open else ("FLOPs", "share", "bytes")
    columns = (Column("module", wrap=wrap), Column(wrap=wrap), *figures(*names, wrap=wrap))
    return Table(columns, rows, "modules", gap=GAP)


def operation_table(ops: Sequence[Op], most: int | None = None) -> Iterator[Section]:
    """The operations as a flat list, the first ``most`` of them."""
    chosen = list(zip(ops, traffic(ops), strict=True))[:most]
    rows = []
    for op, load in chosen:
        times = "" if not is_symbol(op.repeat) and op.repeat == 1 else f" x{op.repeat}"
        source = str(op.options.get("source", ""))
        moved = Amount(load.total("bytes") * op.repeat, "B")
        rows.append(Row((op.name + times, op.where, source, _counted(op, count_operation(op, "all")), moved)))
    columns = (*map(Column, ("operation", "where", "source")), *figures("FLOPs", "bytes"))
    yield Table(columns, rows, "operations", gap=GAP)
    if left := len(ops) - len(chosen):
        yield Sentences([f"… and {left} more"], "quiet")


def under_the_roof(answer: Bound, most: int | None = 15) -> Iterator[Section]:
    """A program's bound: the resources, then the operations that take longest, alike ones together.

    With open sizes which takes longest is not known, and the resources stand alone.
    """
    yield from replace(answer, ops=()).sections()
    if is_symbol(answer.op_by_op):
        return
    groups: dict[tuple[str, str], list[Any]] = {}
    for part in answer.ops:
        groups.setdefault((part.op.name, str(part.bound_by or "")), []).append(part)
    longest = sorted(groups.items(), key=lambda item: -sum(float(part.lower) for part in item[1]))
    rows = []
    for (name, resource), parts in longest[:most]:
        flops, moved = sum(part.flops for part in parts), sum(part.bytes for part in parts)
        is_known = parts[0].op.kind != UNKNOWN
        intensity = f"{flops / moved:.3g}" if moved and is_known else ""
        time = Amount(sum(part.lower for part in parts), "s")
        counted = _counted(parts[0].op, flops)
        rows.append(Row((name, str(len(parts)), counted, Amount(moved, "B"), intensity, time, resource)))
    together = format_amount(answer.op_by_op, "s")
    yield BLANK
    yield Sentences([f"{together} if each operation overlaps within itself; operations that take longest:"])
    yield BLANK
    columns = (Column("operation"), *figures("count", "FLOPs", "bytes", "FLOP/B", "at best"), Column("bound by"))
    yield Table(columns, rows, "longest", gap=GAP)
    if most and longest[most:]:
        yield Sentences([f"… and {len(longest[most:])} shorter kinds"], "quiet")


def _counted(op: Op, flops: Size) -> Cell:
    """A count; of an operation without a rule there is none."""
    return "unknown" if op.kind == UNKNOWN else Amount(flops, "FLOP")


def _sums(ops: Sequence[Op], loads: Sequence[Size]) -> dict[str, tuple[Size, Size, int]]:
    """FLOPs, bytes and position by module path, every module holding what is under it."""
    found: dict[str, tuple[Size, Size, int]] = {}
    for op, load in zip(ops, loads, strict=True):
        parts = op.where.split(".") if op.where else []
        for level in range(len(parts) + 1):
            path = ".".join(parts[:level])
            flops, moved, place = found.get(path, (0, 0, len(found)))
            found[path] = (flops + count_operation(op), moved + load, place)
    return _in_tree_order(found)


def _alike(sums: dict[str, tuple[Size, Size, int]], classes: Mapping[str, str]) -> dict[str, list[str]]:
    """Numbered siblings of one class that cost the same, by the first of them."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for path in sorted(sums, key=lambda p: sums[p][2]):
        parent, _, name = path.rpartition(".")
        if name.isdigit():
            flops, moved, _ = sums[path]
            found.setdefault((parent, classes.get(path, ""), str(flops), str(moved)), []).append(path)
    return {paths[0]: paths for paths in found.values() if len(paths) > 2}


def _hidden(path: str, alike: Mapping[str, list[str]]) -> bool:
    """Whether a module is one of several that are shown once, or is inside such a one."""
    return any(path == other or path.startswith(f"{other}.") for paths in alike.values() for other in paths[1:])


def _in_tree_order(found: dict[str, tuple[Size, Size, int]]) -> dict[str, tuple[Size, Size, int]]:
    """Number the paths so that what is under a module follows it, siblings in the order they ran."""

    def key(path: str) -> list[int]:
        parts = path.split(".") if path else []
        return [found[".".join(parts[:level])][2] for level in range(len(parts) + 1)]

    return {path: (*found[path][:2], place) for place, path in enumerate(sorted(found, key=key))}
