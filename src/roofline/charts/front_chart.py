"""Latency against throughput: tokens a second of each chip over those of each user, one line for each number of chips.

>>> from roofline.models.front import latency_throughput
>>> found = latency_throughput("llama-3-8b", on="h100", batch=[1, 4, 16, 64], context=4096)
>>> chart = front_chart(found)
>>> chart
<Chart 'Latency and throughput of llama-3-8b': front with 2 lines, 4 points>
>>> [point.text for point in chart.points]
['batch 1, 4.64 ms a token', '4', '16', 'batch 64, 14.7 ms a token']
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.charts.chart import Chart
from roofline.charts.marks import Axis, Line, Mark, Point
from roofline.errors import InputError
from roofline.models.front import Choice, Front
from roofline.models.serving_show import FORM_TEXT
from roofline.quantity import format_quantity

#: How far the axes reach beyond the choices, as a factor.
ROUND = 1.6

#: The most points that carry their batch.
MOST_NAMED = 7


def front_chart(found: Front, *, title: str = "", theme: str = "light") -> Chart:
    """Draw every choice that fits, a point each where they are few, and the front as a pale band behind them."""
    if not found.fitting:
        raise InputError("no choice fits, so there is nothing to draw", hint="; ".join(found.said))
    curves: dict[tuple[int, int, int], list[Choice]] = {}
    for choice in found.fitting:
        curves.setdefault((choice.chips, choice.context, choice.tensor), []).append(choice)
    several = {name: len({key[at] for key in curves}) > 1 for at, name in enumerate(("chips", "context", "tensor"))}
    marks: list[Mark] = list(_band(found))
    for number, ((chips, context, tensor), choices) in enumerate(curves.items()):
        words = [f"{chips} chips" if chips > 1 else "1 chip"] if several["chips"] else []
        words += [f"tensor {tensor}"] if several["tensor"] and not several["chips"] else []
        words += [f"after {context:,} tokens"] if several["context"] else []
        name = ", ".join(words) or "choices"
        ordered = sorted(choices, key=lambda choice: choice.time_per_token)
        marks.append(_line(ordered, name, "curve", number, name if words else ""))
        marks += _points(ordered, number, detailed=len(curves) == 1)
    users = [choice.tokens_per_second_per_user for choice in found.fitting]
    made = [choice.tokens_per_second_per_chip for choice in found.fitting]
    after = f"after {next(iter(curves))[1]:,} tokens, " if not several["context"] else ""
    return Chart(
        kind="front",
        title=title or f"Latency and throughput of {found.model.name}",
        subtitle=f"{found.machine.name} · a decode step {after}{FORM_TEXT[found.form]}",
        x=Axis("tokens a second of each user", "", "log", (min(users) / ROUND, max(users) * ROUND)),
        y=Axis("tokens a second of each chip", "", "log", (min(made) / ROUND, max(made) * ROUND)),
        marks=tuple(marks),
        notes=(*found.said, "band: what no other choice beats; numbers: batch", *found.assumptions),
        theme=theme,
    )


def _line(choices: Sequence[Choice], label: str, role: str, series: int, text: str) -> Line:
    x = tuple(choice.tokens_per_second_per_user for choice in choices)
    y = tuple(choice.tokens_per_second_per_chip for choice in choices)
    return Line(label, x, y, role, series, series, text)  # type: ignore[arg-type]


def _band(found: Front) -> list[Line]:
    """The front of each context."""
    best = [choice for choice in found.best if choice.fits is not False]
    contexts = dict.fromkeys(choice.context for choice in best)
    bands = [[choice for choice in best if choice.context == context] for context in contexts]
    return [_line(band, "front", "lower", 5, "") for band in bands if len(band) > 1]


def _points(choices: Sequence[Choice], series: int, *, detailed: bool) -> list[Point]:
    """Markers with the batch: the first and the last in words, powers of two between them."""
    powers = [choice for choice in choices[1:-1] if choice.batch & (choice.batch - 1) == 0]
    every = -(-len(powers) // (MOST_NAMED - 2)) if powers else 1
    shown = [choices[0], *powers[::every], *([choices[-1]] if len(choices) > 1 else [])]
    found = []
    for choice in shown:
        words = f"batch {choice.batch:,}, {format_quantity(choice.time_per_token, 's')} a token"
        ends = choice in (choices[0], choices[-1])
        found.append(
            Point(
                f"batch {choice.batch:,} on {choice.chips}",
                choice.tokens_per_second_per_user,
                choice.tokens_per_second_per_chip,
                series=series,
                text=words if ends and detailed else f"{choice.batch:,}",
                bound_by=choice.bound_by,
            )
        )
    return found
