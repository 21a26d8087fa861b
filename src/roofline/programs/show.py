"""How a traced program looks: one line, a tree of modules, a flat list, a comparison. Values in, renderables out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from roofline.bounds.traffic import traffic
from roofline.ops.counting import each
from roofline.ops.pricing import UNKNOWN
from roofline.quantity import format_amount as show
from roofline.sizes import Size, is_symbol

if TYPE_CHECKING:
    from roofline.bounds.bound import Bound
    from roofline.programs.compare import Comparison
    from roofline.programs.traced import Traced
    from roofline.work import Op


def one_line(program: Traced) -> str:
    """Say it in one line.

    >>> from roofline.ops.contraction import matmul
    >>> from roofline.programs.traced import Traced
    >>> Traced("demo", (matmul(8, 16, 32),))
    <Traced demo: 1 operation, 8.19 kFLOP, 1.79 kB unfused>
    """
    many = f"{len(program.ops)} operation{'s' if len(program.ops) != 1 else ''}"
    gaps = program.listed_gaps()
    missing = f", {len(gaps)} without a rule" if gaps else ""
    flops, moved = show(program.flops(), "FLOP"), show(program.bytes(), "B")
    return f"<Traced {program.name}: {many}, {flops}, {moved} unfused{missing}>"


def tree(program: Traced, depth: int | None = None) -> Any:
    """Render the modules as a tree, each with its FLOPs, its share, its bytes; then totals and gaps."""
    from rich.console import Group
    from rich.text import Text

    loads = [load.total("bytes") * op.repeat for op, load in zip(program.ops, traffic(program.ops), strict=True)]
    sums = _sums(program.ops, loads)
    alike = _alike(sums, program.modules)
    whole = program.flops()
    numbers = not is_symbol(whole)
    shares: tuple[tuple[str, Literal["left", "right"]], ...] = (("share", "right"),) if numbers else ()
    rows = _grid(("module", "left"), ("", "left"), ("FLOPs", "right"), *shares, ("bytes", "right"), whole=not numbers)
    for path in sorted(sums, key=lambda p: sums[p][2]):
        level = path.count(".") + 1 if path else 0
        if (depth is not None and level > depth) or _hidden(path, alike):
            continue
        flops, moved, _ = sums[path]
        name = "  " * level + (path.rsplit(".", 1)[-1] if path else program.name)
        name += f" … {alike[path][-1].rsplit('.', 1)[-1]} (each of {len(alike[path])})" if path in alike else ""
        share = [f"{float(flops) / float(whole):.1%}" if whole else ""] if numbers else []
        rows.add_row(f"  {name}", program.modules.get(path, ""), show(flops, "FLOP"), *share, show(moved, "B"))
    title = Text.assemble((program.name, "bold"), "  " + ", ".join(program.inputs))
    return Group(title, Text(), rows, Text(), *_closing(program))


def flat(program: Traced, most: int | None = None) -> Any:
    """Render the operations as a flat list."""
    from rich.console import Group
    from rich.text import Text

    rows = _grid(("operation", "left"), ("where", "left"), ("source", "left"), ("FLOPs", "right"), ("bytes", "right"))
    loads = traffic(program.ops)
    chosen = list(zip(program.ops, loads, strict=True))[:most]
    for op, load in chosen:
        moved = load.total("bytes") * op.repeat
        times = "" if not is_symbol(op.repeat) and op.repeat == 1 else f" x{op.repeat}"
        source = str(op.options.get("source", ""))
        flops = _counted(op, each(op, "all"))
        rows.add_row(f"  {op.name}{times}", op.where, source, flops, show(moved, "B"))
    left = len(program.ops) - len(chosen)
    more = [Text(f"  … and {left} more", "dim")] if left else []
    return Group(Text(program.name, "bold"), Text(), rows, *more, Text(), *_closing(program))


def under_the_roof(answer: Bound, most: int | None = 15) -> Any:
    """Render a program's bound: the resources, then the operations that take longest, alike ones together.

    With open sizes which takes longest is not known, and the resources stand alone.
    """
    from dataclasses import replace

    from rich.console import Group
    from rich.text import Text

    from roofline.rendering.terminal import terminal

    whole = terminal(replace(answer, ops=()).sections())
    if is_symbol(answer.op_by_op):
        return whole
    groups: dict[tuple[str, str], list[Any]] = {}
    for part in answer.ops:
        groups.setdefault((part.op.name, str(part.bound_by or "")), []).append(part)
    longest = sorted(groups.items(), key=lambda item: -sum(float(part.lower) for part in item[1]))
    rows = _grid(
        ("operation", "left"), ("count", "right"), ("FLOPs", "right"), ("bytes", "right"), ("FLOP/B", "right"),
        ("at best", "right"), ("bound by", "left"),
    )  # fmt: skip
    for (name, resource), parts in longest[:most]:
        flops, moved = sum(part.flops for part in parts), sum(part.bytes for part in parts)
        known = parts[0].op.kind != UNKNOWN
        intensity = f"{flops / moved:.3g}" if moved and known else ""
        time = show(sum(part.lower for part in parts), "s")
        rows.add_row(
            f"  {name}",
            str(len(parts)),
            _counted(parts[0].op, flops),
            show(moved, "B"),
            intensity,
            time,
            resource,
        )
    line = f"  {show(answer.op_by_op, 's')} if each operation overlaps within itself; operations that take longest:"
    more = [Text(f"  … and {len(longest[most:])} shorter kinds", "dim")] if most and longest[most:] else []
    return Group(whole, Text(), Text(line), Text(), rows, *more)


def comparison(found: Comparison) -> Any:
    """Render what differs between two programs."""
    from rich.console import Group
    from rich.text import Text

    ours, theirs = found.ours.name, found.theirs.name
    if ours == theirs:  # the same at other shapes
        ours, theirs = (f"{p.name} {', '.join(p.inputs)}" for p in (found.ours, found.theirs))
    rows = _grid(("", "left"), (ours, "right"), (theirs, "right"), ("ratio", "right"))
    for line in found.changed:
        unit = "B" if line.what == "bytes" else "FLOP"
        ratio = "" if line.ratio is None else f"{line.ratio:.3g}"
        rows.add_row(f"  {line.what}", show(line.ours, unit), show(line.theirs, unit), ratio)
    return Group(Text(f"{ours} beside {theirs}, counted as {found.convention}", "bold"), rows)


def _counted(op: Op, flops: Size) -> str:
    """A count; of an operation without a rule there is none."""
    return "unknown" if op.kind == UNKNOWN else show(flops, "FLOP")


def _closing(program: Traced) -> list[Any]:
    from rich.text import Text

    kinds = ", ".join(f"{kind} {show(amount, 'FLOP')}" for kind, amount in program.totals("all").items())
    moved = ", ".join(f"{policy} {show(program.bytes(policy), 'B')}" for policy in ("each-op", "fused", "minimal"))
    lines = [Text(f"  {show(program.flops(), 'FLOP')} in matmuls (2 per multiply-add); all work: {kinds or 'none'}")]
    lines.append(Text(f"  bytes: {moved}"))
    lines += [Text(f"  assumes     {line}", "dim") for line in program.assumptions]
    lines += [Text(f"  incomplete  {gap}", "bold yellow") for gap in program.listed_gaps()]
    return lines


def _sums(ops: Sequence[Op], loads: Sequence[Size]) -> dict[str, tuple[Size, Size, int]]:
    """FLOPs, bytes and position by module path, every module holding what is under it."""
    found: dict[str, tuple[Size, Size, int]] = {}
    for op, load in zip(ops, loads, strict=True):
        parts = op.where.split(".") if op.where else []
        for level in range(len(parts) + 1):
            path = ".".join(parts[:level])
            flops, moved, place = found.get(path, (0, 0, len(found)))
            found[path] = (flops + each(op), moved + load, place)
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


def _grid(*columns: tuple[str, Literal["left", "right"]], whole: bool = False) -> Any:
    """A table without lines; where ``whole``, what is too long for a column goes on below."""
    from rich.table import Table

    rows = Table(box=None, padding=(0, 2), header_style="dim", pad_edge=False)
    overflow: Literal["fold", "ellipsis"] = "fold" if whole else "ellipsis"
    for name, side in columns:
        first = f"  {name}" if not rows.columns else name
        rows.add_column(first, justify=side, no_wrap=not whole, overflow=overflow)
    return rows
