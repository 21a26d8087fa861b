"""Pictures of plans: output tokens over the time per token and to first token, each under load; layouts of training.

>>> from roofline.plans.answer import plan
>>> found = plan("llama-3-8b", on=["h100"], count=[1], rate=4, prompt=1024, output=128, tpot="30 ms", formats=["bf16"])
>>> plan_chart(found)
<Chart 'Plan for llama-3-8b': front with 1 line, 1 point, 1 region>
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from roofline.charts.chart import Chart, draws
from roofline.charts.specification import NEUTRAL, Line, Mark, Point, Region, Ridge, log_axis
from roofline.errors import InputError
from roofline.plans.answer import DeploymentPlan
from roofline.plans.question import LIMIT_NAMES
from roofline.plans.replicas import LoadedCurve
from roofline.plans.search import Assessment
from roofline.plans.training import TrainingPlan
from roofline.quantity import format_amount, in_a_row
from roofline.signatures import either

#: How far the axes reach beyond the curves, as a factor.
BEYOND_CURVES = 1.3

#: Strokes of curves, that of the part that misses the other limit, and the marker of a load that misses one.
STROKES, DOTTED, CROSS = (0, 1, 3, 4), 2, 6

#: Layouts of training that have their name beside them.
NAMED = 3

#: The other time of each picture's own.
OTHER = {"per_token": "first_token", "first_token": "per_token"}


@draws("plan", "frontier")
def plan_chart(found: DeploymentPlan) -> Chart:
    """Output tokens a second a chip over the time per token: a curve a chip, under loads up to its largest rate.

    Times over the limit are shaded; where a curve misses the limit of the time to first token it is dotted.
    """
    return _chart(found, "per_token", "time per token")


@draws("plan", "first-token")
def first_token_chart(found: DeploymentPlan) -> Chart:
    """The same over the time to first token; where a curve misses the limit of the time per token it is dotted."""
    return _chart(found, "first_token", "time to first token")


def training_plan_chart(found: TrainingPlan) -> Chart:
    """The time of a step over the memory of a chip: a point a layout, what does not fit as a cross in the shaded part.

    >>> from roofline.plans.training import search_training
    >>> training_plan_chart(search_training("llama-3-8b", on="h100:8", batch_tokens=65536, pipeline=1))
    <Chart 'Layouts of llama-3-8b on 8 x NVIDIA H100 SXM5 80GB': front with 5 points, 1 region>
    """
    drawn = [(each.layout, each.answer) for each in found.choices if each.answer is not None]
    if not drawn:
        raise InputError("no layout divides the model, so there is nothing to draw", hint="other chips")
    held, took = (
        [float(value) for value in of] for of in zip(*((a.memory.total, a.time) for _, a in drawn), strict=True)
    )
    capacity = drawn[0][1].memory.capacity
    marks: list[Mark] = []
    if capacity is not None:
        text = f"over {format_amount(float(capacity), 'B')}"
        marks.append(Region(text, float(capacity), max(*held, float(capacity)) * BEYOND_CURVES, "red"))
    for number, ((layout, answer), x, y) in enumerate(zip(drawn, held, took, strict=True)):
        said = f"{layout}, {format_amount(y, 's')}" if number < min(NAMED, len(found.fitting)) else ""
        fits = answer.memory.fits is not False
        marks.append(Point(f"{layout}, checkpoint {answer.checkpoint}", x, y, shape=0 if fits else CROSS, text=said))
    return Chart(
        kind="front",
        title=f"Layouts of {found.model.name} on {found.target}",
        subtitle=f"{int(drawn[0][1].batch_tokens):,} tokens a step",
        x=log_axis("memory of a chip", "B", [*held, float(capacity or held[0])], BEYOND_CURVES),
        y=log_axis("time of a step", "s", took, BEYOND_CURVES),
        marks=tuple(marks),
        notes=("each layout with the checkpointing and the number of microbatches that are its fastest; floors",),
    )


def _chart(found: DeploymentPlan, name: str, label: str) -> Chart:
    curves = found.loaded_curves()
    if not curves:
        raise InputError("no replica fits, so there is nothing to draw", hint="more chips, or narrower formats")
    if name == "per_token" and found.asked.load.output == 1:
        hint = either("--view first-token", "plot('first-token')")
        raise InputError("answers of one token have no time per token", hint=hint)
    limits, which = dict(found.asked.limits.items()), f"p{found.asked.limits.percentile:g}"
    limit = limits.get(name)
    x = [float(value) for _, curve in curves for value in getattr(curve, name)]
    y = [float(value) for _, curve in curves for value in curve.per_chip]
    x += [] if limit is None else [limit]
    marks: list[Mark] = []
    if limit is not None:
        marks.append(
            Region(f"{LIMIT_NAMES[name]} over {format_amount(limit, 's')}", limit, max(x) * BEYOND_CURVES, "red")
        )
    for number, (choice, curve) in enumerate(curves):
        marks += _curve(found, choice, curve, number, name, limits.get(OTHER[name]))
    for choice in found.choices:
        took = getattr(choice, name)
        if choice.deployment.prefill is not None and took is not None:
            x.append(took.percentile)
            y.append(found.asked.load.rate * found.asked.load.output / choice.deployment.chips)
            said = "prefill {} apart,\ndecode {}".format(*choice.deployment.pools)
            at = Point(f"{choice.deployment} at this load", x[-1], y[-1], series=NEUTRAL, shape=3, text=said)
            marks.append(at)
    ends = "where dotted, " + f"{LIMIT_NAMES[OTHER[name]]} {which} is over its limit" if OTHER[name] in limits else ""
    drawn = f"curves: a replica under loads up to its largest rate, {which}; points: the plan's load"
    return Chart(
        kind="front",
        title=f"Plan for {found.asked.model.name}",
        subtitle=found.asked.load.said,
        x=log_axis(f"{label}, {which}", "s", x, BEYOND_CURVES),
        y=log_axis("output tokens a second a chip", "", y, BEYOND_CURVES),
        marks=tuple(marks),
        notes=("; ".join(filter(None, (drawn, ends))), *found.assumptions),
    )


def _curve(
    found: DeploymentPlan, choice: Assessment, curve: LoadedCurve, number: int, name: str, other: float | None
) -> Iterator[Mark]:
    """A chip's curve in the parts that keep and miss the other limit, its corner, and its load."""
    x, kept = getattr(curve, name), str(curve.replica)
    misses = np.zeros(len(x), bool) if other is None else getattr(curve, OTHER[name]) > other
    first = int(misses.argmax()) if misses.any() else len(x)
    if first < len(x):
        from_here = max(first - 1, 0)
        text = f"{LIMIT_NAMES[OTHER[name]]} over {format_amount(other or 0, 's')}"
        parts = _floats(x[from_here:]), _floats(curve.per_chip[from_here:])
        yield Line(f"{kept}: {text}", *parts, "curve", number, DOTTED, text)
    if first:
        dash = STROKES[number % len(STROKES)]
        yield Line(kept, _floats(x[:first]), _floats(curve.per_chip[:first]), "curve", number, dash, kept)
    flips = next((each.corners.compute_bound_from for each in found.curves() if each.replica == curve.replica), None)
    if flips is not None and curve.in_flight[0] < flips <= curve.in_flight[-1]:
        across, up = (float(np.interp(flips, curve.in_flight, values)) for values in (x, curve.per_chip))
        yield Ridge(across, up, f"{kept}: compute-bound from {flips:,} sequences", series=number)
    here = {"per_token": choice.per_token, "first_token": choice.first_token}[name]
    if here is None:
        return
    made = found.asked.load.rate * found.asked.load.output / choice.deployment.chips
    missed = [
        LIMIT_NAMES[each]
        for each, value in found.asked.limits.items()
        if (took := getattr(choice, each)) is not None and max(took.mean, took.percentile) > value
    ]
    text = f"misses {in_a_row(missed)}" if missed else "at this load"
    shape = CROSS if missed else number
    yield Point(f"{choice.deployment} {text}", here.percentile, made, series=number, shape=shape, text=text)


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(map(float, values))
