"""Pictures of a model that serves: operations under the roof, time by operation, memory, latency against throughput.

>>> from roofline.models import serve
>>> found = serve("llama-3-8b", on="h100", batch=8, prompt=1024)
>>> time_by_operation(found, phase="decode").bars[0].label
'layers.0-31.mlp.up_proj: hbm'
>>> [bar.part for bar in memory_by_part(found).bars if bar.row == 0]
['weights', 'kv', 'activations']

To add one, write a function here and register it with :func:`~roofline.charts.chart.draws`; ``--view`` then knows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.bounds.bound import Bound, OpBound
from roofline.charts.bars import MOST_ROWS, Row, bars_chart, colors_of_resources, left_out, memory_chart, with_the_rest
from roofline.charts.chart import Chart, draws
from roofline.charts.roofline_charts import gathered_roofline, without_place
from roofline.charts.size_charts import MOST_CURVES
from roofline.charts.specification import LeftOut, Line, Mark, Point, Role, log_axis
from roofline.errors import InputError
from roofline.frozen import replace
from roofline.lazy import np
from roofline.models.serving.answer import Serving
from roofline.models.serving.generation import FORM_TEXT
from roofline.models.serving.pareto import ParetoFront, ServingChoice
from roofline.quantity import format_quantity, in_a_row
from roofline.sections import spread
from roofline.signatures import spelled
from roofline.sizes import grouped, is_array

#: Points of a phase on a roofline, the longest first; the rest are said to be left out.
MOST_POINTS = 7

#: Names of operations that one point carries.
MOST_NAMES = 4

#: How far the axes of the front reach beyond its choices, as a factor.
BEYOND_CHOICES = 1.6

#: The most points of a front that carry their batch.
MOST_NAMED = 7


@draws("model", "roofline")
def serving_roofline(found: Serving, *, phase: str | None = None) -> Chart:
    """Each operation of prefill and decode (or of one ``phase``) under the roof of the chip it runs on.

    Operations in nearly one place share a point.
    """
    phases = _phases(found, phase)
    first = phases[0][1].machine
    several = len(phases) > 1

    def renamed(number: int, members: Sequence[OpBound]) -> dict[str, Any]:
        text = _last_words(members)
        name = f"{phases[number][0]}: {text}" if several else text
        of_phase = {"series": number, "shape": number} if several else {}
        return {**of_phase, "label": name, "text": name}

    answers = [replace(_single(phase), machine=first) for _, phase in phases]
    chart, left = gathered_roofline(answers, MOST_POINTS, renamed, f"{found.model.name} on {first.name}")
    rest = [
        f"{count} shorter or byte-free operations of {name} left out"
        for (name, _), count in zip(phases, left, strict=True)
        if count
    ]
    for (name, _), answer in zip(phases, answers, strict=True):
        rest += [f"{name}: {said}" for said in without_place(answer, lambda part: _last_words([part]))]
    asked = " · ".join(_sizes(name, phase) for name, phase in phases)
    return replace(chart, subtitle=asked, notes=(*rest, *chart.notes))


@draws("model", "time")
def time_by_operation(found: Serving, *, phase: str | None = None) -> Chart:
    """How long each operation of a phase takes at best, the longest first, in the colour of what binds it."""
    name, bound = _phases(found, phase)[-1]
    _single(bound)
    ordered = sorted(bound.ops, key=lambda part: -float(part.lower))
    rows = [(part.op.where, [(str(part.bound_by), float(part.lower))]) for part in ordered if part.lower]
    total = format_quantity(float(bound.op_by_op), "s")
    lower = format_quantity(float(bound.lower), "s")
    return bars_chart(
        with_the_rest(rows),
        title=f"Time by operation: {found.model.name} {name} on {bound.target}",
        subtitle=f"{_sizes(name, bound)} · at best {lower} if all overlaps, {total} one after the other",
        label="time at best",
        unit="s",
        of="operation",
        colors=colors_of_resources(bound),
        notes=("colours: what binds each operation", *bound.assumptions),
    )


@draws("model", "memory")
def memory_by_part(found: Serving, *, phase: str | None = None) -> Chart:
    """Weights, keys and values and activations against what the chip holds, for each configuration asked for."""
    phases = _phases(found, phase)
    needed = found.memory
    asked = 1
    if not is_array(needed.total):
        rows: list[Row] = [
            (name, [(part, float(size)) for part, size in phase.footprint.parts.items()])
            for name, phase in phases
            if phase.footprint is not None
        ]
    else:
        rows, asked = _configurations(found, phases)
    each = [] if found.ways.chips == 1 else [f"of each of {found.ways.chips} chips"]
    configurations = [_sizes(name, phase) for name, phase in phases if not is_array(needed.total)]
    return memory_chart(
        rows,
        needed,
        title=f"Memory of {found.model.name} on {phases[0][1].target}",
        subtitle=" · ".join([*each, *configurations]),
        notes=(*left_out(asked, "configurations"), *phases[-1][1].assumptions),
    )


def _configurations(found: Serving, phases: Sequence[tuple[str, Bound]]) -> tuple[list[Row], int]:
    """A row a configuration, spread evenly where they are many, and how many there are."""
    needed = found.memory
    varying = {name: size for _, phase in phases for name, size in phase.sizes.items() if is_array(size)}
    sizes = np.broadcast_arrays(*varying.values(), *needed.parts.values())
    flat = [array.ravel() for array in sizes]
    count = len(flat[0])
    rows: list[Row] = []
    for index in spread(count, MOST_ROWS):
        name = ", ".join(f"{name} {int(array[index]):,}" for name, array in zip(varying, flat, strict=False))
        parts = zip(needed.parts, flat[len(varying) :], strict=True)
        rows.append((name, [(part, float(array[index])) for part, array in parts]))
    return rows, count


def _phases(found: Serving, phase: str | None) -> list[tuple[str, Bound]]:
    """The phases that were asked for, decode last; or the one that is named."""
    have = [(name or "training", bound) for name, bound in found.steps().items()]
    chosen = [(name, bound) for name, bound in have if phase in (None, name)]
    if not chosen:
        raise InputError(f"no {phase} was asked for", hint=f"there is {in_a_row(name for name, _ in have)}")
    return chosen


def _single(bound: Bound) -> Bound:
    if is_array(bound.lower):
        raise InputError(
            "this picture is of one configuration",
            hint="give every size one value, or ask for the view memory; the view front takes several batches, "
            f"contexts or {spelled('tensor')}",
        )
    return bound


def _sizes(name: str, phase: Bound) -> str:
    asked = ", ".join(f"{key} {value:,}" for key, value in phase.sizes.items() if not is_array(value))
    return f"{name} ({asked})"


def _last_words(members: Sequence[OpBound]) -> str:
    """The operations of one point: the last words of their places, each once."""
    names = list(dict.fromkeys(part.op.where.rpartition(".")[2] for part in members))
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


@draws("model", "front")
def front_chart(found: ParetoFront) -> Chart:
    """Tokens a second of each chip over those of each user: a line for each number of chips, the front as a pale band.

    >>> from roofline.models.serving.pareto import latency_throughput
    >>> found = latency_throughput("llama-3-8b", on="h100", batch=[1, 4, 16, 64], context=4096)
    >>> chart = front_chart(found)
    >>> chart
    <Chart 'Latency and throughput of llama-3-8b': front with 2 lines, 4 points>
    >>> [point.text for point in chart.points]
    ['batch 1, 4.64 ms a token', '4', '16', 'batch 64, 14.7 ms a token']
    """
    if not found.fitting:
        raise InputError("no choice fits, so there is nothing to draw", hint="; ".join(found.said))
    curves = grouped(((choice.chips, choice.context, choice.tensor), choice) for choice in found.fitting)
    if len(curves) > MOST_CURVES:
        hint = "ask for fewer chips or contexts"
        raise InputError(f"{len(curves)} curves are more than a chart can tell apart ({MOST_CURVES})", hint=hint)
    several = {name: len({key[at] for key in curves}) > 1 for at, name in enumerate(("chips", "context", "tensor"))}
    marks: list[Mark] = list(_front_band(found))
    for number, ((chips, context, tensor), choices) in enumerate(curves.items()):
        words = [f"{chips} chips" if chips > 1 else "1 chip"] if several["chips"] else []
        words += [f"tensor {tensor}"] if several["tensor"] and not several["chips"] else []
        words += [f"after {context:,} tokens"] if several["context"] else []
        name = ", ".join(words) or "choices"
        ordered = sorted(choices, key=lambda choice: choice.time_per_token)
        marks.append(_choices_line(ordered, name, "curve", number, name if words else ""))
        marks += _choice_points(ordered, number, detailed=len(curves) == 1)
    users = [choice.tokens_per_second_per_user for choice in found.fitting]
    made = [choice.tokens_per_second_per_chip for choice in found.fitting]
    after = f"after {next(iter(curves))[1]:,} tokens, " if not several["context"] else ""
    return Chart(
        kind="front",
        title=f"Latency and throughput of {found.model.name}",
        subtitle=f"{found.where} · a decode step {after}{FORM_TEXT[found.form]}",
        x=log_axis("tokens a second of each user", "", users, BEYOND_CHOICES),
        y=log_axis("tokens a second of each chip", "", made, BEYOND_CHOICES),
        marks=tuple(marks),
        notes=(*map(LeftOut, found.said), "band: what no other choice beats; numbers: batch", *found.assumptions),
    )


def _choices_line(choices: Sequence[ServingChoice], label: str, role: Role, series: int, text: str) -> Line:
    x = tuple(choice.tokens_per_second_per_user for choice in choices)
    y = tuple(choice.tokens_per_second_per_chip for choice in choices)
    return Line(label, x, y, role, series, series, text)


def _front_band(found: ParetoFront) -> list[Line]:
    """The front of each context."""
    best = [choice for choice in found.best if choice.fits is not False]
    contexts = dict.fromkeys(choice.context for choice in best)
    bands = [[choice for choice in best if choice.context == context] for context in contexts]
    return [_choices_line(band, "front", "lower", 5, "") for band in bands if len(band) > 1]


def _choice_points(choices: Sequence[ServingChoice], series: int, *, detailed: bool) -> list[Point]:
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
