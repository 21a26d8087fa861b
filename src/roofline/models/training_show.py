"""How an answer about training looks in a terminal."""

from __future__ import annotations

from typing import Any

from roofline.models.show import indented, listed, off_matrix_unit, operations, short_count
from roofline.models.training import Training
from roofline.models.training_advice import advise
from roofline.models.training_limits import best_mix, limits
from roofline.quantity import format_amount as show
from roofline.quantity import format_number, format_quantity

#: Lines of advice shown.
MOST = 6


def training_table(found: Training) -> Any:
    """The step, what binds it, the operations that cost most, memory by part, the token budget, the assumptions."""
    from rich.console import Group
    from rich.text import Text

    bound = found.bound
    chips = f"{found.chips:,} x " if found.chips > 1 else ""
    ways = ", ".join(f"{name} {size}" for name, size in found.ways.items() if size > 1)
    title = Text.assemble((found.model.name, "bold"), f"  on {chips}{bound.target}" + (f"  ({ways})" if ways else ""))
    lines = [
        f"step of {found.batch_tokens:,} tokens in sequences of {found.sequence:,}: "
        f"at best {show(found.lower, 's')}, {bound.kind} ({bound.bound_by})",
        f"  {show(found.op_by_op, 's')} if only each operation overlaps within itself, "
        f"{show(found.upper, 's')} if nothing does",
        "  " + ", ".join(f"{name} {show(time, 's')}" for name, time in _longest_first(bound.times)),
        *_waits(found),
        *(f"  {line}" for line in off_matrix_unit(bound, "--weights")),
        f"{format_quantity(float(found.model_flops), 'FLOP')} forward and backward, "
        f"{float(found.model_flops / found.six):.3g} of 6·parameters·tokens; "
        f"{float(found.flops / found.model_flops):.3g} of it computed, what is run again included",
        _rate(found),
        *_reached(found),
        *_budget(found),
        *_memory(found),
    ]
    body = indented(lines, 2)
    mix = best_mix(found)
    scales = listed("scales", [*map(str, limits(found)), *([] if mix is None else [str(mix)])], "")
    faster = listed("faster", [str(line) for line in advise(found)[:MOST]], "")
    said = listed("assumes", list(bound.assumptions), "dim")
    return Group(
        title, Text(), *body, Text(), operations(bound), Text(), scales, faster, said,
        listed("incomplete", list(bound.incomplete), "bold yellow"),
    )  # fmt: skip


def _longest_first(times: Any) -> list[tuple[str, Any]]:
    return sorted(times.items(), key=lambda each: -float(each[1]))


def _waits(found: Training) -> list[str]:
    """Where a step's time goes that is not computing: the pipeline's waits and collectives nothing hides."""
    lines = []
    if found.idle:
        lines.append(
            f"  {show(found.idle, 's')} of it waiting for other stages ({float(found.bubble):.1%}), "
            f"{found.schedule} with {found.microbatches:,} microbatches"
        )
    if found.exposed > 0:
        lines.append(f"  {show(found.exposed, 's')} of it collectives that computing does not cover")
    return lines


def _rate(found: Training) -> str:
    how = "at the floor"
    if found.stated is not None:
        how = f"at the stated MFU, {show(found.time, 's')} a step"
        if found.stated > float(found.most_mfu):
            how += f" (it cannot be: the floor allows {float(found.most_mfu):.1%})"
    elif found.measured is not None:
        how = f"as measured, {show(found.measured, 's')} a step"
    elif found.estimate is not None:
        how = f"as estimated, {show(found.time, 's')} a step"
    again = f", {float(found.hfu):.1%} with what is run again" if found.flops > found.model_flops * 1.0001 else ""
    return f"MFU {float(found.mfu):.1%}{again}, {how}: {short_count(int(found.tokens_per_day))} tokens a day"


def _reached(found: Training) -> list[str]:
    """How far a measured step is from its bounds."""
    if found.measured is None:
        return []
    if found.measured < found.lower:
        return [
            f"  it cannot be: the floor is {show(found.lower, 's')}; other work, chips or formats ran than asked about"
        ]
    line = f"  {format_number(float(found.over_floor or 0), 3)} times the floor"
    if found.measured <= found.upper:
        share = "" if found.overlapped is None else f": as if {float(found.overlapped):.0%} of the times overlapped"
        return [f"{line}{share}"]
    return [f"{line}, and {show(found.measured - found.upper, 's')} more than where nothing overlaps"]


def _budget(found: Training) -> list[str]:
    if found.tokens is None or found.days is None:
        return []
    line = f"{short_count(int(found.tokens))} tokens take {format_number(float(found.days))} days"
    if found.cost is not None:
        line += f", cost ${format_number(float(found.cost))}"
    if found.energy is not None:
        line += (
            f", {format_number(float(found.energy) / 3.6e9)} MWh at {format_number(float(found.power or 0))} W a chip"
        )
    return [line]


def _memory(found: Training) -> list[str]:
    needed = found.memory
    parts = ", ".join(f"{name} {show(size, 'B')}" for name, size in needed.parts.items() if size)
    which = f" of stage {_numbers(found.fullest.numbers)}, the fullest" if len(found.stages) > 1 else ""
    line = f"memory of a chip{which} {show(needed.total, 'B')}: {parts}"
    if needed.capacity is None:
        return [f"{line}; its capacity is not known"]
    if needed.fits:
        line += f"; fits {show(needed.capacity, 'B')} of {needed.level}"
    else:
        line += f"; does not fit: {show(needed.total - needed.capacity, 'B')} more than {needed.level} holds"
    least = found.least_chips
    if least is None:
        return [line, "  no number of chips is enough: what each holds whole does not fit"]
    return [line, f"  this batch and its states fit on {least:,} such chips at the least"]


def _numbers(numbers: tuple[int, ...]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
