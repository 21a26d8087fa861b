"""The picture of a plan: what each chip can give over the time a token takes, the limit, and what was chosen.

>>> from roofline.plans.answer import plan
>>> found = plan("llama-3-8b", on=["h100"], count=[1], rate=4, prompt=1024, output=128, tpot="30 ms", formats=["bf16"])
>>> plan_chart(found)
<Chart 'Plan for llama-3-8b': front with 1 line, 1 point, 1 region>
"""

from __future__ import annotations

from roofline.charts.axes import log_axis
from roofline.charts.chart import Chart, draws
from roofline.charts.specification import Line, Mark, Point, Region, Ridge
from roofline.errors import InputError
from roofline.plans.answer import DeploymentPlan
from roofline.quantity import format_amount

#: How far the axes reach beyond the curves, as a factor.
BEYOND_CURVES = 1.3


@draws("plan", "frontier")
def plan_chart(found: DeploymentPlan, *, theme: str = "light") -> Chart:
    """Output tokens a second a chip over the time per token: a curve a chip, with corners; limits missed are shaded."""
    curves = found.curves()
    if not curves:
        raise InputError("no replica fits, so there is nothing to draw", hint="more chips, or narrower formats")
    marks: list[Mark] = []
    x = [float(value) for curve in curves for value in (curve.per_token[0], curve.per_token.max())]
    y = [float(value) for curve in curves for value in (curve.per_chip[0], curve.per_chip.max())]
    limit = found.asked.limits.per_token
    if limit is not None:
        x.append(limit)
        text = f"over {format_amount(limit, 's')} a token"
        marks.append(Region(text, limit, max(*x) * BEYOND_CURVES, "red"))
    chosen = {choice.deployment.replica: choice for choice in reversed(found.choices)}
    for number, curve in enumerate(curves):
        points = tuple(map(float, curve.per_token)), tuple(map(float, curve.per_chip))
        marks.append(Line(str(curve.replica), *points, "curve", number, number, str(curve.replica)))
        flips = curve.corners.compute_bound_from
        if flips is not None and flips > 1 and flips <= len(curve.per_token):
            label = f"{curve.replica}: compute-bound from {flips:,} sequences"
            marks.append(Ridge(points[0][flips - 1], points[1][flips - 1], label, series=number))
        choice = chosen.get(curve.replica)
        if choice is not None and choice.per_token is not None:
            each = found.asked.load.rate * found.asked.load.output / choice.deployment.chips
            y.append(each)
            label = f"{choice.deployment} at this load"
            marks.append(Point(label, choice.per_token.mean, each, series=number, shape=number, text="at this load"))
    return Chart(
        kind="front",
        title=f"Plan for {found.asked.model.name}",
        subtitle=found.asked.load.said,
        x=log_axis("time per token", "s", x, BEYOND_CURVES),
        y=log_axis("output tokens a second a chip", "", y, BEYOND_CURVES),
        marks=tuple(marks),
        notes=("curves: all places taken; points: the plan's load, mean time per token", *found.assumptions),
        theme=theme,
    )
