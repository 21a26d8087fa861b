"""How answers look: one line for a prompt, a table for a terminal, HTML for a notebook. Values in, renderables out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline.bounds.bound import Bound, Codes
from roofline.bounds.explain import show
from roofline.quantity import format_number, format_quantity
from roofline.sizes import is_array, is_symbol

if TYPE_CHECKING:
    from roofline.bounds.advise import Advice
    from roofline.bounds.solution import Solution
    from roofline.bounds.solve_dtypes import DTypeSolution

BAR = 24
_AMOUNT = {"flops": "FLOP", "bytes": "B", "wire": "B", "hops": "hops"}
_RATE = {"flops": "FLOP/s", "bytes": "B/s", "wire": "B/s", "hops": "hops/s"}


def one_line(answer: Bound) -> str:
    """Say it in one line.

    >>> from roofline import bound
    >>> bound("bf16[B, D] * int8[D, F]", on="v5e", B=64, D=8192, F=8192)
    <Bound: 84.5 µs at best, 128 µs at worst on TPU v5e, memory-bound (hbm)>
    """
    if isinstance(answer.bound_by, Codes):
        count = answer.bound_by.codes.size
        return f"<Bound: {count} configurations, {show(answer.lower, 's')} at best on {answer.target}>"
    if answer.bound_by is None:
        return f"<Bound: lower {answer.lower} on {answer.target}>"
    times = f"{show(answer.lower, 's')} at best, {show(answer.upper, 's')} at worst"
    return f"<Bound: {times} on {answer.target}, {answer.kind} ({answer.bound_by})>"


def headline(answer: Bound) -> list[str]:
    """The sentences under the table: the bounds, the intensity, what flips."""
    if is_symbol(answer.lower):
        lines = [f"lower bound  {answer.lower} s", f"upper bound  {answer.upper} s"]
        return lines if answer.intensity is None else [*lines, f"intensity    {answer.intensity} FLOP/B"]
    low, high = show(answer.lower, "s"), show(answer.upper, "s")
    line = f"at best {low} if all overlaps, {high} if nothing does" if len(answer.times) > 1 else f"at best {low}"
    if len(answer.ops) > 1:
        line += f", {show(answer.op_by_op, 's')} if each operation overlaps within itself"
    lines = [line]
    if not is_array(answer.lower) and answer.flops:
        reached = f"{show(answer.attainable, 'FLOP/s')}"
        if answer.utilisation is not None:
            reached += f", {_percent(answer.utilisation)} of peak"
        lines[0] += f" · {reached}"
    if answer.estimate is not None:
        lines.append(f"estimate {show(answer.estimate, 's')} with the stated overlap and overhead")
    if answer.intensity is not None and answer.critical_intensity is not None and answer.flops is not None:
        words = f"{show(answer.intensity, 'FLOP/B')} against a ridge of {show(answer.critical_intensity, 'FLOP/B')}"
        lines.append(f"{words}: {answer.kind}" if answer.kind else words)
    return lines


def table(answer: Bound, advice: Sequence[Advice] = ()) -> Any:
    """Render the answer for a terminal: a row a resource with its bar, then the sentences, advice, assumptions."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = Text.assemble((answer.expression, "bold"), f"  on {answer.target}")
    rows = Table.grid(padding=(0, 2))
    for column in range(6):
        rows.add_column(justify="left" if column in (0, 1, 5) else "right", no_wrap=True)
    longest = None if is_symbol(answer.lower) or is_array(answer.lower) else answer.lower
    for use in answer.uses:
        bar = "" if longest is None else "█" * max(1, round(BAR * float(use.time) / float(longest)))
        rows.add_row(
            f"  {use.resource}",
            use.dtype,
            show(use.amount, _AMOUNT[use.quantity]),
            show(use.rate.plain or use.rate.value, _RATE[use.quantity]),
            show(use.time, "s"),
            Text(bar, "red" if use.resource == answer.bound_by else "dim")
            + Text("  binds" if use.resource == answer.bound_by else "", "bold red"),
        )
    parts: list[Any] = [title, Text(), rows, Text()]
    parts += [Text(f"  {line}") for line in headline(answer)]
    if len(answer.ops) > 1:
        parts += [Text(), _operations(answer)]
    if advice:
        parts += [Text(), _advice(advice)]
    parts += [Text(), _listed("assumes", answer.assumptions, "dim")]
    if answer.incomplete:
        parts += [_listed("incomplete", answer.incomplete, "bold yellow")]
    return Group(*parts)


def _operations(answer: Bound) -> Any:
    from rich.table import Table

    rows = Table(box=None, padding=(0, 2), header_style="dim", pad_edge=False)
    rows.add_column("  operation", no_wrap=True, overflow="ellipsis", ratio=1)
    for name in ("FLOPs", "bytes", "FLOP/B", "at best"):
        rows.add_column(
            name, justify="right", no_wrap=True, min_width=len("888.8 GFLOP" if name == "FLOPs" else "88.8 MB")
        )
    rows.add_column("bound by", no_wrap=True, min_width=len("bound by"))
    for part in answer.ops:
        intensity = "" if part.intensity is None else _short(part.intensity, "")
        cells = (_short(part.flops, "FLOP"), _short(part.bytes, "B"), intensity, _short(part.lower, "s"))
        rows.add_row(f"  {part.op.name}", *cells, str(part.bound_by or ""))
    return rows


def _short(value: Any, unit: str) -> str:
    return show(value, unit) if unit or is_symbol(value) else format_number(float(value))


def _advice(advice: Sequence[Advice]) -> Any:
    from rich.table import Table

    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column()
    rows.add_column(justify="right", no_wrap=True)
    rows.add_column(justify="right", no_wrap=True)
    rows.add_column()
    for index, item in enumerate(advice):
        before, after = format_quantity(item.before.lower, "s"), format_quantity(item.after.lower, "s")
        rows.add_row(
            "  faster" if index == 0 else "",
            item.change,
            f"{before} → {after}",
            f"{item.gain:.2f}x",
            item.reason,
        )
    return rows


def advice_table(answer: Bound, advice: Sequence[Advice]) -> Any:
    """Render the advice for a bound, or say that nothing listed would help."""
    from rich.console import Group
    from rich.text import Text

    title = Text.assemble((answer.expression, "bold"), f"  on {answer.target}")
    bound = Text(f"  {show(answer.lower, 's')} at best, {answer.kind} ({answer.bound_by})")
    body = _advice(advice) if advice else Text("  nothing that was tried makes it faster")
    return Group(title, bound, Text(), body)


def pairs_table(what: str, target: str, pairs: Sequence[tuple[str, str]]) -> Any:
    """Render an answer that is a few words with a sentence each."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True, style="dim")
    rows.add_column()
    for name, text in pairs:
        rows.add_row(f"  {name}", Text(text))
    return Group(Text.assemble((what, "bold"), f"  on {target}"), Text(), rows)


def pairs_html(what: str, target: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Render an answer that is a few words with a sentence each, for a notebook."""
    from html import escape

    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in pairs)
    return f"<div><b>{escape(what)}</b> on {escape(target)}<table>{rows}</table></div>"


def dtype_lines(found: DTypeSolution) -> list[tuple[str, str]]:
    """The bound for every storage format of one operand as pairs of a format and a sentence."""
    flip = found.flips_at
    said = f"flips at {flip}" if flip else f"{found.rows[0].bound.kind} in every format"
    pairs = [(r.dtype, f"{show(r.bound.lower, 's')}, {r.bound.kind} ({r.bound.bound_by})") for r in found.rows]
    return [("answer", said), *pairs]


def solution_lines(found: Solution) -> list[tuple[str, str]]:
    """The answer to "where does it flip?" as pairs of a word and a sentence."""
    lines = [("answer", found.verdict)]
    if found.value is not None:
        value = format_quantity(found.value, found.unit) if found.unit else format_number(found.value)
        lines.append(("exactly", f"{found.unknown} = {value}"))
    if found.pick is not None:
        at = found.at_pick()
        reach = f": {show(at.lower, 's')}, {_percent(at.utilisation or 0)} of peak" if at is not None else ""
        lines.append(("take", f"{found.unknown} = {found.pick}{reach}"))
    if found.form is not None:
        lines.append(("closed form", f"{found.unknown} = {found.form}"))
        if found.valid is not True:
            lines.append(("valid while", str(found.valid)))
    if found.limit is not None:
        lines.append(("for large sizes", f"{found.unknown} → {format_number(found.limit)} = {found.limit_form}"))
    if found.intensity_limit is not None:
        lines.append(("intensity", f"→ {format_number(found.intensity_limit)} FLOP/B as all sizes grow"))
    if len(found.flips) > 1:
        steps = "; ".join(f"{a} → {b} at {format_number(v)}" for v, a, b in found.flips)
        lines.append(("changes", steps))
    if found.method != "closed form":
        lines.append(("found by", found.method))
    return lines


def html(answer: Bound) -> str:
    """Render the answer for a notebook."""
    from html import escape

    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        for cells in (
            (
                use.resource,
                use.dtype,
                show(use.amount, _AMOUNT[use.quantity]),
                show(use.rate.plain or use.rate.value, _RATE[use.quantity]),
                show(use.time, "s"),
                "binds" if use.resource == answer.bound_by else "",
            )
            for use in answer.uses
        )
    )
    head = "".join(f"<th>{name}</th>" for name in ("resource", "dtype", "amount", "rate", "time", ""))
    said = "".join(f"<li>{escape(item)}</li>" for item in (*answer.assumptions, *answer.incomplete))
    sentences = "<br>".join(escape(line) for line in headline(answer))
    return (
        f"<div><b>{escape(answer.expression)}</b> on {escape(answer.target)}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        f"<p>{sentences}</p><details><summary>assumes</summary><ul>{said}</ul></details></div>"
    )


def _listed(name: str, items: Sequence[str], style: str) -> Any:
    from rich.table import Table

    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True, style=style)
    rows.add_column(style=style)
    for index, item in enumerate(items):
        rows.add_row(f"  {name}" if index == 0 else "", item)
    return rows


def _percent(fraction: Any) -> str:
    """Two digits below a tenth, whole per cents above."""
    return f"{float(fraction):.0%}" if fraction >= 0.1 else f"{100 * float(fraction):.2g}%"
