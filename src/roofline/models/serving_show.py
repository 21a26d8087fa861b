"""How further answers about serving look in a terminal: fronts, answers, chunks, drafts, servers, cost, advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.models.advice import StepAdvice
from roofline.models.chunked_prefill import Chunked
from roofline.models.cost import TokenCost
from roofline.models.disaggregation import Disaggregation
from roofline.models.fewest_chips import Fewest
from roofline.models.front import Choice, Front
from roofline.models.generating import Generation
from roofline.models.show import MOST_ROWS, indented, listed
from roofline.models.speculation import Speculation
from roofline.quantity import format_amount as show
from roofline.quantity import format_number, format_quantity

#: Which bound of a step a time is, in words.
FORM_TEXT = {
    "lower": "if all overlaps",
    "op_by_op": "if only each operation overlaps within itself",
    "upper": "if nothing overlaps",
    "estimate": "by the stated overlap and overhead",
}


def section(name: str, lines: Sequence[str]) -> Any:
    """A named paragraph."""
    from rich.console import Group
    from rich.text import Text

    return Group(Text(), Text.assemble("  ", (name, "bold")), *indented(lines, 4))


def front_table(found: Front) -> Any:
    """One row a choice that fits, from the fastest for a user; those none beats are marked."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    varies = [name for name in ("context", "chips", "tensor") if len({getattr(c, name) for c in found.choices}) > 1]
    if "chips" in varies and "tensor" in varies:
        varies.remove("tensor")
    names = ["", "batch", *varies]
    names += ["each user", "TPOT", "each chip", "bound by", "memory"]
    for name in names:
        rows.add_column(name, justify="left" if name in ("", "bound by") else "right", overflow="fold")
    shown = _thinned(sorted(found.fitting, key=lambda choice: (choice.context, choice.time_per_token)))
    for choice in shown:
        sizes = [f"{getattr(choice, name):,}" for name in varies]
        rows.add_row(
            "best" if choice.best else "",
            f"{choice.batch:,}",
            *sizes,
            f"{format_number(choice.tokens_per_second_per_user)}/s",
            format_quantity(choice.time_per_token, "s"),
            f"{format_number(choice.tokens_per_second_per_chip)}/s",
            choice.bound_by,
            format_quantity(choice.memory, "B"),
            style="" if choice.best else "dim",
        )
    contexts = {choice.context for choice in found.choices}
    after = f" after {contexts.pop():,} tokens" if len(contexts) == 1 else ""
    chips = {choice.chips for choice in found.choices}
    number = f"{chips.pop():,} x " if len(chips) == 1 and min(c.chips for c in found.choices) > 1 else ""
    number = "" if found.machine.name.startswith(number) else number
    title = Text.assemble((found.model.name, "bold"), f"  on {number}{found.machine.name}")
    head = [f"decode{after}, {FORM_TEXT[found.form]}: tokens a second of each user and of each chip"]
    if len(shown) < len(found.fitting):
        head.append(f"{len(shown)} of {len(found.fitting)} choices that fit; {len(found.best)} of them none beats")
    left = found.said or (() if found.capacity is None else ("all of them fit",))
    return Group(
        title, Text(), *indented(head, 2), rows, *indented([*left, *_within(found)], 2), Text(),
        listed("assumes", list(found.assumptions), "dim"), listed("incomplete", list(found.incomplete), "bold yellow"),
    )  # fmt: skip


def _within(found: Front) -> list[str]:
    """What makes the most of a chip in the time that a token may take."""
    if found.most_time is None:
        return []
    limit = show(found.most_time, "s")
    lines = []
    for choice in found.within:
        chips = f" on {choice.chips:,} chips" if choice.chips > 1 else ""
        made = f"{format_number(choice.tokens_per_second_per_chip)} tokens/s of each chip"
        lines.append(
            f"in {limit} a token after {choice.context:,} tokens: batch {choice.batch:,}{chips}, {made}, "
            f"{show(choice.time_per_token, 's')} a token"
        )
    fastest = min((choice.time_per_token for choice in found.fitting), default=None)
    least = "nothing fits" if fastest is None else f"the least is {show(fastest, 's')}"
    return lines or [f"no choice takes {limit} a token or less: {least}"]


def _thinned(choices: Sequence[Choice]) -> list[Choice]:
    """As many rows as a terminal shows, spread evenly, with the first and the last."""
    if len(choices) <= MOST_ROWS:
        return list(choices)
    kept = sorted({round(i * (len(choices) - 1) / (MOST_ROWS - 1)) for i in range(MOST_ROWS)})
    return [choices[i] for i in kept]


def generation_lines(found: Generation) -> list[str]:
    """A whole answer: first token, the tokens after it, the end."""
    mean = found.mean_time_per_token
    steps = "" if mean is None else (
        f", then {found.output - 1:,} steps of {show(found.first_step, 's')} to {show(found.last_step, 's')}, "
        f"{show(mean, 's')} on average"
    )  # fmt: skip
    rate = f"{format_number(found.tokens_per_second)} tokens/s and {format_number(found.answers_per_second)} answers/s"
    total, kept = show(found.memory.total, "B"), show(found.memory.parts["kv"], "B")
    held = f"memory at the end {total}, of it keys and values {kept}"
    best = "" if found.form == "estimate" else "at best "
    return [
        f"{best}{show(found.total, 's')} {FORM_TEXT[found.form]}: first token after "
        f"{show(found.time_to_first_token, 's')}{steps}",
        f"{rate} with {found.batch:,} at once; {held}" + ("" if found.memory.fits is not False else ", does not fit"),
    ]


def chunked_lines(found: Chunked) -> list[str]:
    """A prefill in chunks against one in a piece, and what the sequences beside it wait."""
    beside = f" beside {found.batch:,} that decode" if found.batch else ""
    longer = found.time_to_first_token / found.whole
    lines = [
        f"{found.steps:,} steps of {found.chunk:,} tokens{beside}, {FORM_TEXT[found.form]}: first token after "
        f"{show(found.time_to_first_token, 's')}, {format_number(longer)} times a prefill in one piece"
    ]
    if found.alone is not None:
        mean, most = show(found.mean_step, "s"), show(found.longest_step, "s")
        other = f"{show(found.alone, 's')} with no chunk, {show(found.whole + found.alone, 's')} with the prompt whole"
        lines.append(f"a token beside it every {mean} on average, {most} at most; {other}")
    bound = {name: found.binds.count(name) for name in dict.fromkeys(found.binds)}
    lines.append("bound by " + ", ".join(f"{name} in {count} of {found.steps}" for name, count in bound.items()))
    return lines


def cost_lines(found: dict[str, TokenCost], said: Sequence[str]) -> list[str]:
    """Dollars and energy of a million tokens, those that are read and those that are made."""
    lines = []
    for name, cost in found.items():
        parts = [f"{format_number(float(cost.chip_hours))} chip-hours"]
        if cost.dollars is not None:
            parts.append(f"${format_number(float(cost.dollars))}")
        if cost.kilowatt_hours is not None and cost.joules_per_token is not None:
            energy = f"{format_number(float(cost.kilowatt_hours))} kWh"
            parts.append(f"{energy} ({format_quantity(float(cost.joules_per_token), 'J')} a token)")
        lines.append(f"a million {name} tokens: {', '.join(parts)}")
    return [*lines, *said]


def fewest_lines(found: Fewest) -> list[str]:
    """Chips by memory, the least slice with what it has left, and the fewest that split the model."""
    total = show(found.needed.total, "B")
    held = f"{total} are {format_number(found.ratio)} times the {show(found.capacity, 'B')} of one {found.machine.name}"
    lines = [f"{held}: {found.chips:,} by memory"]
    if found.slice is not None:
        nodes = f" on {found.slice.nodes} nodes" if found.slice.nodes > 1 else ""
        room = f"; {found.sequences:,} sequences of this context fit" if found.sequences else ""
        left = f"weights leave {show(found.left, 'B')}{room}"
        lines.append(f"the least there is of so many: {found.slice.target}{nodes}, where {left}")
    if found.split is None or found.each is None:
        lines.append("split by heads, columns or experts it fits no number of them that was tried")
    else:
        lines.append(f"split by heads, columns or experts: {found.split:,}, with {show(found.each.total, 'B')} on each")
    return lines


def speculation_lines(found: Speculation) -> list[str]:
    """The draft asked for, the best one, and plain decoding."""
    asked, best = found.asked, found.best
    lines = [
        f"{asked.length} tokens by {found.by}, {found.acceptance:.0%} of them accepted: {format_number(asked.tokens)} "
        f"tokens for {show(asked.drafting, 's')} of drafting and {show(asked.checking, 's')} of checking",
        f"{show(asked.time_per_token, 's')} a token, {found.speedup:.2f} times as fast as {show(found.plain, 's')} "
        f"({FORM_TEXT[found.form]})",
    ]
    if best.length == 0:
        return [*lines, "no draft helps at this batch"]
    return [
        *lines,
        f"best with {best.length}: {show(best.time_per_token, 's')} a token, {found.best_speedup:.2f} times",
    ]


def disaggregation_lines(found: Disaggregation) -> list[str]:
    """How many servers of each kind, and what goes between them."""
    first, other = found.rounded
    lines = [
        f"prefill on {_server(found.prefill_chips, found.prefill_target)}: {found.prefill_batch} x {found.prompt:,} "
        f"tokens in {show(found.prefill_time, 's')}",
        f"decode on {_server(found.decode_chips, found.decode_target)}: {found.batch:,} at once, {found.steps:,} steps "
        f"of {show(found.step_time, 's')}",
        f"{format_number(found.ratio)} prefill servers for each that decodes, as {first} and {other}; "
        f"{format_number(found.chips_ratio)} chips for each; {format_number(found.answers_per_second_per_chip)} "
        "answers a second for each chip",
    ]
    moved = f"a prompt hands over {show(found.cache_bytes, 'B')} of keys and values"
    if found.link is None or found.transfer_time is None:
        return [*lines, f"{moved}; no link is known: say how fast it is"]
    pace = "it keeps pace" if found.keeps_pace else "it does not keep pace"
    return [
        *lines,
        f"{moved}: {show(found.transfer_time, 's')} over {found.links} x {show(found.link, 'B/s')}; prefill makes "
        f"{show(found.transfer_rate, 'B/s')}, {pace}",
    ]


def _server(chips: int, name: str) -> str:
    return name if chips == 1 or name.startswith(f"{chips} x") else f"{chips} x {name}"


def advice_rows(lists: Sequence[Sequence[StepAdvice]], most: int = 12) -> Any:
    """What to change in each phase, the gain, and why; the largest gain first."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    tables: list[Any] = []
    for found in lists:
        if not found:
            tables.append(section("faster", ["nothing that was tried helps"]))
            continue
        rows = Table(box=None, padding=(0, 2), header_style="dim", pad_edge=False)
        rows.add_column("    change", no_wrap=True)
        for name in ("gain", "step"):
            rows.add_column(name, justify="right", no_wrap=True)
        rows.add_column("why")
        for each in found[:most]:
            step = f"{show(each.before.lower, 's')} → {show(each.after.lower, 's')}"
            rows.add_row(f"    {each.change}", f"{each.gain:.2f}x", step, each.reason)
        head = Text.assemble("  ", ("faster", "bold"), f"  {found[0].phase}, for the same tokens")
        tables += [Text(), head, rows]
    return Group(*tables)
