"""How points look: a table for a terminal with the gap and what explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.measurement.points import Point
from roofline.measurement.profiles.profile import AROUND, Profile
from roofline.quantity import format_quantity

#: Operations listed with their share of the time.
MOST_SPLIT = 10


def table(points: Sequence[Point], title: str) -> Any:
    """Render points: time, rate, share of the roof, what bounds, what explains the time; then what is odd."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = Table(box=None, padding=(0, 2), header_style="dim", pad_edge=False)
    rows.add_column("  operation", overflow="fold", min_width=24)
    for name in ("time", "FLOP/s", "B/s", "of roof"):
        rows.add_column(name, justify="right", no_wrap=True)
    rows.add_column("bound by", no_wrap=True)
    for point in points:
        run = point.run
        cells = [
            f"  {run.name}",
            format_quantity(run.seconds, "s"),
            format_quantity(run.flops / run.seconds, "FLOP/s") if run.flops else "",
            format_quantity(run.bytes / run.seconds, "B/s") if run.bytes else "",
            f"{point.fraction:.0%}" if point.fraction >= 0.1 else f"{100 * point.fraction:.2g}%",
            str(point.bound.bound_by or ""),
        ]
        rows.add_row(*cells)
    parts: list[Any] = [Text(title, "bold"), Text(), rows]
    told = [(point.run.name, _explained(point)) for point in points if point.effects]
    if told:
        parts += [Text(), Text("  where the time goes", "dim")]
        parts += [Text(f"  {name}: {said}") for name, said in told]
    flags = [f"  {point.run.name}: {flag}" for point in points for flag in point.flags]
    how = list(dict.fromkeys(point.how for point in points if point.how))
    if flags or how:
        parts.append(Text())
    parts += [Text(line, "yellow") for line in flags]
    parts += [Text(f"  timed with {said}", "dim") for said in how]
    doubts = [f"  {p.run.name}: {d}" for p in points if p.summary is not None for d in p.summary.doubts]
    parts += [Text(line, "yellow") for line in doubts]
    assumed = list(dict.fromkeys(said for point in points for said in point.assumptions))
    if assumed:
        rows = Table.grid(padding=(0, 2))
        for number, said in enumerate(assumed):
            rows.add_row(Text("" if number else "  assumes", "dim"), Text(said, "dim"))
        parts += [Text(), rows]
    return Group(*parts)


def split(points: Sequence[Point], unpriced: Mapping[str, float] | None = None) -> list[tuple[str, float, float]]:
    """Divide the time over operations: name, seconds and share of all, longest first; equal names together.

    ``unpriced`` are seconds of operations without a rule, which took time all the same.
    """
    seconds: dict[str, float] = dict(unpriced or {})
    total = sum(point.run.seconds for point in points) + sum(seconds.values())
    for point in points:
        seconds[point.run.name] = seconds.get(point.run.name, 0.0) + point.run.seconds
    return [(name, time, time / total) for name, time in sorted(seconds.items(), key=lambda item: -item[1])]


def _explained(point: Point) -> str:
    shares = [(effect.name, effect.seconds / point.run.seconds) for effect in point.effects]
    named = [f"{name} {share:.0%}" for name, share in shares if share >= 0.01] or ["no effect of 1%"]
    rest = 1 - sum(share for _, share in shares)
    if abs(rest) < 0.01:
        return ", ".join(named)
    return ", ".join(named) + (f"; unexplained {rest:.0%}" if rest > 0 else f"; {-rest:.0%} more than it took")


def imported_table(points: Sequence[Point], found: Profile, title: str, top: int) -> Any:
    """Render what a profile held: the longest runs, where the time goes, and what has no rule."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[Any] = [table(points[:top], title), Text()]
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(justify="right")
    rows.add_column(justify="right")
    for name, seconds, share in split(points, found.unpriced)[:MOST_SPLIT]:
        rows.add_row(f"  {name}", format_quantity(seconds, "s"), f"{share:.0%}")
    parts += [Text("  time by operation", "dim"), rows]
    if (hidden := len(points) - top) > 0:
        parts.append(Text(f"  {hidden} shorter run{'s are' if hidden > 1 else ' is'} not shown (--top)", "dim"))
    named = sorted(found.unpriced.items(), key=lambda item: -item[1])
    around = found.unpriced.get(AROUND, 0.0)
    if named := [item for item in named if item[0] != AROUND]:
        said = ", ".join(f"{name} {format_quantity(seconds, 's')}" for name, seconds in named[:8])
        parts.append(Text(f"  incomplete: no rule for {said}", "bold yellow"))
    if around:
        parts.append(
            Text(f"  {format_quantity(around, 's')} {AROUND}: views, calls, what autograd does between", "dim")
        )
    parts += [Text(f"  {note}", "dim") for note in found.notes]
    return Group(*parts)
