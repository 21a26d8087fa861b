"""How plans look: a row a plan with its times, what it sends and what one chip needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline.bounds.explain import show
from roofline.bounds.ranked_plan import RankedPlan
from roofline.sizes import is_array, is_symbol

if TYPE_CHECKING:
    from roofline.bounds.shard import ShardPlans

#: Plans shown beside a bound, and in a list of plans.
FEW, MANY = 4, 24


def plan_rows(plans: Sequence[RankedPlan], chosen: str | None) -> Any:
    """Render the first plans beside a bound; the one taken is bold."""
    from rich.table import Table
    from rich.text import Text

    rows = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "left", "right"):
        rows.add_column(justify=justify, no_wrap=True)
    rows.columns[2].no_wrap = False
    listed = list(plans[:FEW]) + [plan for plan in plans[FEW:] if plan.name == chosen]
    for index, plan in enumerate(listed):
        style = "bold" if plan.name == chosen else "dim"
        lower = "" if plan.bound is None else show(plan.bound.lower, "s")
        cells = (Text(text, style) for text in (f"{plan.rank}.", plan.name, lower))
        rows.add_row("  plans" if index == 0 else "", *cells)
    rest = len(plans) - len(listed)
    if rest > 0:
        rows.add_row("", "", Text(f"… and {rest} more: roofline shard lists them", "dim"), "")
    return rows


def plans_table(found: ShardPlans, most: int = MANY) -> Any:
    """Render every plan with T_math, T_comms, the bounds, the bytes it sends and those one chip needs."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    asked = found.question
    bound = found.best.bound
    formulas = bound is not None and is_symbol(bound.lower)
    title = Text.assemble((asked.expression, "bold"), f"  on {asked.machine.name}")
    estimated = found.best.bound is not None and found.best.bound.estimate is not None
    table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("plan", overflow="fold")
    names = ("math", "comms", "all overlaps", *(["estimate"] if estimated else []), "none does", "sent", "needs")
    arrays = bound is not None and is_array(bound.lower)
    names = ("sent, bytes", "math, s") if formulas else ("comms", "all overlaps") if arrays else names
    for name in names:
        table.add_column(name, justify="left" if formulas else "right", no_wrap=not formulas)
    for plan in found.plans[:most]:
        table.add_row(
            f"  {plan.rank}.",
            Text(plan.name),
            *(_formulas(plan) if formulas else _ranges(plan) if arrays else _cells(plan, estimated)),
        )
    rest = len(found) - most
    parts: list[Any] = [title, Text(), table]
    if rest > 0:
        parts.append(Text(f"  … and {rest} more; --json lists them all", "dim"))
    if formulas or arrays:
        parts.append(Text("  sizes are open or arrays: the plans that send over the fewest mesh axes first", "dim"))
        if any(plan.bound is None for plan in found.plans[:most]):
            parts.append(Text("  the first of them have figures", "dim"))
    return Group(*parts)


def _cells(plan: RankedPlan, estimated: bool) -> list[str]:
    bound = plan.bound
    if bound is None:
        return []
    times = [plan.math, plan.comms, bound.lower, *([bound.estimate] if estimated else []), bound.upper]
    memory = plan.memory
    needs = "" if memory is None else show(memory, "B")
    return [*(show(time, "s") for time in times), show(plan.link_bytes, "B"), needs]


def _formulas(plan: RankedPlan) -> list[str]:
    return [str(plan.link_bytes), str(plan.math)]


def _ranges(plan: RankedPlan) -> list[str]:
    return [] if plan.bound is None else [show(plan.comms, "s"), show(plan.bound.lower, "s")]
