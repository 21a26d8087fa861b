"""How answers look: one line for a prompt, a table for a terminal, HTML for a notebook. Values in, renderables out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline.bounds.bound import Bound, Codes, OpBound
from roofline.bounds.explain import show
from roofline.bounds.record import decoded
from roofline.quantity import format_number, format_quantity
from roofline.sizes import is_array, is_symbol

if TYPE_CHECKING:
    from roofline.bounds.advise import Advice
    from roofline.bounds.solution import Solution
    from roofline.bounds.solve_dtypes import DTypeSolution

BAR = 24

#: Flips listed of one solution.
MOST_FLIPS = 6

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
    if _is_rate_only(answer):
        times = f"{show(answer.attainable, 'FLOP/s')} attainable"
    return f"<Bound: {times} on {answer.target}, {answer.kind} ({answer.bound_by})>"


def headline(answer: Bound) -> list[str]:
    """The sentences under the table: the bounds, the intensity, what flips."""
    if is_symbol(answer.lower):
        lines = [f"lower bound  {answer.lower} s", f"upper bound  {answer.upper} s"]
        return lines if answer.intensity is None else [*lines, f"intensity    {answer.intensity} FLOP/B"]
    low, high = show(answer.lower, "s"), show(answer.upper, "s")
    if _is_rate_only(answer):
        return [
            f"attainable {show(answer.attainable, 'FLOP/s')}, {_percent(answer.utilisation)} of peak",
            *_ridge(answer),
        ]
    line = f"at best {low} if all overlaps, {high} if nothing does" if len(answer.times) > 1 else f"at best {low}"
    if len(answer.ops) > 1:
        line += f", {show(answer.op_by_op, 's')} if each operation overlaps within itself"
    if answer.incomplete:
        line = f"at least {low}, for what could be timed: see incomplete below"
    lines = [line]
    if not is_array(answer.lower) and answer.flops and answer.attainable is not None:
        reached = f"{show(answer.attainable, 'FLOP/s')}"
        if answer.utilisation is not None:
            reached += f", {_percent(answer.utilisation)} of peak"
        lines[0] += f" · {reached}"
    if answer.estimate is not None:
        lines.append(f"estimate {show(answer.estimate, 's')} with the stated overlap and overhead")
    if is_array(answer.lower):
        lines.append(f"{answer.lower.size} configurations; roofline sweep lists each")
    return [*lines, *_against_math(answer), *_ridge(answer)]


def _against_math(answer: Bound) -> list[str]:
    """The time on the network against that of the arithmetic, where there are both."""
    ratio = answer.comms_over_math if answer.wire else None
    if ratio is None or is_array(ratio) or is_symbol(ratio):
        return []
    times = f"{show(answer.comms, 's')} of communication against {show(answer.math, 's')} of arithmetic"
    return [f"{times}: {format_number(ratio)} times as long"]


def _ridge(answer: Bound) -> list[str]:
    """The intensity against the ridge, where both are known."""
    if answer.intensity is None or answer.critical_intensity is None:
        return []
    words = f"{show(answer.intensity, 'FLOP/B')} against a ridge of {show(answer.critical_intensity, 'FLOP/B')}"
    return [f"{words}: {answer.kind}" if answer.kind else words]


def table(answer: Bound, advice: Sequence[Advice] = ()) -> Any:
    """Render the answer for a terminal: a row a resource with its bar, then the sentences, advice, assumptions."""
    from rich.console import Group
    from rich.text import Text

    title = Text.assemble((answer.expression, "bold"), f"  on {answer.target}")
    parts: list[Any] = [title, Text()]
    if not _is_rate_only(answer):
        parts += [_resources(answer), Text()]
    parts += [Text(f"  {line}") for line in headline(answer)]
    if len(answer.ops) > 1:
        parts += [Text(), _operations(answer)]
    if advice:
        parts += [Text(), _advice(advice)]
    if len(answer.plans) > 1:
        from roofline.bounds.show_plans import plan_rows

        parts += [Text(), plan_rows(answer.plans, answer.plan)]
    parts += [Text(), _listed("assumes", answer.assumptions, "dim")]
    if answer.incomplete:
        parts += [_listed("incomplete", answer.incomplete, "bold yellow")]
    return Group(*parts)


def _is_rate_only(answer: Bound) -> bool:
    """Whether an intensity was asked about: then the amounts mean nothing."""
    return answer.question is not None and answer.question.raw.get("intensity") is not None


def _resources(answer: Bound) -> Any:
    """A row a resource: amount, rate, time, and a bar that gives way first where the terminal is narrow.

    Formulas are long: they go over several lines.
    """
    from rich.bar import Bar
    from rich.table import Table
    from rich.text import Text

    rows = Table.grid(padding=(0, 2))
    wrapped = (2, 4, 5) if is_symbol(answer.lower) else (5,)
    for column in range(7):
        rows.add_column(justify="right" if column in (2, 3, 4) else "left", no_wrap=column not in wrapped)
    rows.columns[5].max_width = BAR
    plain = not is_symbol(answer.lower) and not is_array(answer.lower)
    for cells, time, name in _resource_cells(answer):
        binds = name == answer.bound_by
        bar = Bar(float(answer.lower), 0, float(time), color="red" if binds else "bright_black") if plain else ""
        rows.add_row(
            Text(f"  {cells[0]}"), *(Text(cell) for cell in cells[1:]), bar, Text("binds" if binds else "", "bold red")
        )
    return rows


def _resource_cells(answer: Bound) -> list[tuple[tuple[str, ...], Any, str]]:
    """The cells of each resource with its time and name; for arrays the range of the times."""
    if is_array(answer.lower):
        return [((name, "", "", "", show(time, "s")), time, name) for name, time in answer.times.items()]
    return [
        (
            (
                use.resource,
                use.dtype,
                show(use.amount, _AMOUNT[use.quantity]),
                show(use.rate.plain or use.rate.value, _RATE[use.quantity]),
                show(use.time, "s"),
            ),
            use.time,
            use.resource,
        )
        for use in answer.uses
    ]


def _operations(answer: Bound) -> Any:
    return _OperationsTable(answer)


class _OperationsTable:
    """A row an operation; the name takes the room the figures leave."""

    def __init__(self, answer: Bound) -> None:
        self.answer = answer

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.table import Table
        from rich.text import Text

        rows = [self._cells(part) for part in self.answer.ops]
        head = ("FLOPs", "bytes", "FLOP/B", "at best", "bound by")
        if is_symbol(self.answer.lower):
            for name, *formulas in rows:
                yield Text(name)
                yield _listed("", [f"{what:<7} {one}" for what, one in zip(head, formulas, strict=True) if one], "")
            return
        taken = sum(max(len(row[i + 1]) for row in (*rows, ("", *head))) + 2 for i in range(len(head)))
        room = max(12, options.max_width - taken - 2)
        table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
        table.add_column("  operation", no_wrap=True)
        for name in head:
            table.add_column(name, justify="left" if name == "bound by" else "right", no_wrap=True)
        for name, *cells in rows:
            short = name if len(name) <= room else name[: room - 1] + "…"
            table.add_row(Text(short), *(Text(cell) for cell in cells))
        yield table

    def _cells(self, part: OpBound) -> tuple[str, ...]:
        intensity = "" if part.intensity is None else _short(part.intensity, "")
        figures = (_short(part.flops, "FLOP"), _short(part.bytes, "B"), intensity, _short(part.lower, "s"))
        binding = decoded(part.bound_by)
        names = ", ".join(dict.fromkeys(binding)) if isinstance(binding, list) else binding or ""
        return (f"  {part.op.name}", *figures, names)


def _short(value: Any, unit: str) -> str:
    if unit or is_symbol(value):
        return show(value, unit)
    ends = (value.min(), value.max()) if is_array(value) else (value,)
    return " … ".join(dict.fromkeys(format_number(float(end)) for end in ends))


def _advice(advice: Sequence[Advice]) -> Any:
    from rich.table import Table
    from rich.text import Text

    rows = Table.grid(padding=(0, 2))
    for column in range(5):
        justify: Any = "right" if column in (2, 3) else "left"
        rows.add_column(no_wrap=column in (0, 2, 3), justify=justify, overflow="fold")
    for index, item in enumerate(advice):
        cells = ("  faster" if index == 0 else "", *_advice_cells(item))
        rows.add_row(*(Text(cell) for cell in cells))
    return rows


def _advice_cells(item: Advice) -> tuple[str, str, str, str]:
    before, after = format_quantity(item.before.lower, "s"), format_quantity(item.after.lower, "s")
    return item.change, f"{before} → {after}", f"{item.gain:.2f}x", item.reason


def advice_table(advice: Sequence[Advice], answer: Bound | None = None) -> Any:
    """Render advice, under the bound it is for where that is given; say so where nothing would help."""
    from rich.console import Group
    from rich.text import Text

    body = _advice(advice) if advice else Text("  nothing that was tried makes it faster")
    if answer is None:
        return body
    title = Text.assemble((answer.expression, "bold"), f"  on {answer.target}")
    bound = Text(f"  {show(answer.lower, 's')} at best, {answer.kind} ({answer.bound_by})")
    return Group(
        title,
        bound,
        Text(),
        body,
        *([_listed("incomplete", answer.incomplete, "bold yellow")] if answer.incomplete else []),
    )


def advice_html(advice: Sequence[Advice]) -> str:
    """Render advice for a notebook."""
    from html import escape

    head = "".join(f"<th>{name}</th>" for name in ("change", "at best", "faster", "why"))
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _advice_cells(item)) + "</tr>" for item in advice
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


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


def rendered_html(renderable: Any) -> str:
    """Render what has a terminal form for a notebook, as it stands there."""
    from io import StringIO

    from rich.console import Console

    console = Console(record=True, file=StringIO(), width=110, highlight=False, markup=False)
    console.print(renderable)
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def dtype_lines(found: DTypeSolution) -> list[tuple[str, str]]:
    """The bound for every storage format of one operand as pairs of a format and a sentence."""
    flip = found.flips_at
    said = f"flips at {flip}" if flip else f"{found.rows[0].bound.kind} in every format"
    pairs = [(r.dtype, f"{show(r.bound.lower, 's')}, {r.bound.kind} ({r.bound.bound_by})") for r in found.rows]
    missing = dict.fromkeys(line for row in found.rows for line in row.bound.incomplete)
    return [("answer", said), *pairs, *_said("incomplete", tuple(missing))]


def _said(name: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    return [(name if i == 0 else "", line) for i, line in enumerate(lines)]


def solution_lines(found: Solution) -> list[tuple[str, str]]:
    """The answer to "where does it flip?" as pairs of a word and a sentence."""
    lines = [("answer", found.verdict)]
    if found.value is not None:
        exact = 8  # significant digits: the row says "exactly"
        value = format_quantity(found.value, found.unit, exact) if found.unit else format_number(found.value, exact)
        lines.append(("exactly", f"{found.unknown} = {value}"))
        if found.fraction is not None:
            sheet = format_quantity(found.value / found.fraction, found.unit)
            lines.append(("data sheet", f"{sheet}, of which {found.fraction:.3g} is reached as measured"))
    if found.pick is not None:
        at = found.at_pick()
        time = "" if at is None or _is_rate_only(at) else f"{show(at.lower, 's')}, "
        reach = "" if at is None else f": {time}{_percent(at.utilisation or 0)} of peak"
        lines.append(("take", f"{found.unknown} = {found.pick}{reach}"))
    if found.form is not None:
        lines.append(("closed form", f"{found.unknown} = {found.form}"))
        if found.valid is not True:
            lines.append(("valid while", str(found.valid)))
    if found.limit is not None:
        form = "" if found.limit_form is None else f" = {found.limit_form}"
        lines.append(("for large sizes", f"{found.unknown} → {format_number(found.limit)}{form}"))
    if found.intensity_limit is not None:
        ridge = found.critical_intensity
        against = f" against a ridge of {format_number(ridge)}" if ridge is not None else ""
        lines.append(
            ("intensity", f"→ {format_number(found.intensity_limit)} FLOP/B as {found.unknown} grows{against}")
        )
    if len(found.flips) > 1:
        steps = "; ".join(f"{a} → {b} at {format_number(v)}" for v, a, b in found.flips[:MOST_FLIPS])
        steps += f"; … ({len(found.flips)} in all)" if len(found.flips) > MOST_FLIPS else ""
        lines.append(("changes", steps))
    if found.method != "closed form":
        lines.append(("found by", found.method))
    if found.question.plan is not None:
        lines.append(("plan", str(found.question.plan)))
    if found.collectives:
        lines.append(("algorithm", "; ".join(found.collectives)))
    lines += _said("assumes", found.question.particular(found.assumptions))
    lines += _said("incomplete", found.incomplete)
    lines += [("math = comms" if i == 0 else "", str(crossing)) for i, crossing in enumerate(found.by_algorithm)]
    return lines


def html(answer: Bound) -> str:
    """Render the answer for a notebook."""
    from html import escape

    rows = "".join(
        "<tr>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in (*cells, "binds" if name == answer.bound_by else ""))
        + "</tr>"
        for cells, _, name in _resource_cells(answer)
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
    from rich.text import Text

    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True, style=style)
    rows.add_column(style=style)
    for index, item in enumerate(items):
        rows.add_row(Text(f"  {name}" if index == 0 else ""), Text(item))
    return rows


def _percent(fraction: Any) -> str:
    """Two digits below a tenth, whole per cents above; the least and the most of several."""
    if is_array(fraction):
        return f"{_percent(fraction.min())} … {_percent(fraction.max())}"
    return f"{float(fraction):.0%}" if fraction >= 0.1 else f"{100 * float(fraction):.2g}%"
