"""What to expect, drawn below what cannot be beaten: a dashed roof or curve, whiskers of 80%, launch-bound sizes.

>>> from roofline.charts.plot import plot
>>> chart = plot("bf16[512, 8192] @ bf16[8192, 8192]", on="h100", estimate="vllm")
>>> [line.label for line in chart.lines if "expected" in line.label][:2]
['h100 expected bf16 slope', 'h100 expected bf16']
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from roofline.bounds.bound import Bound
from roofline.charts.chart import Chart
from roofline.charts.roofline_charts import ROUND, machine_index
from roofline.charts.roofs import ceiling_line, machine_roof, slope_line
from roofline.charts.series import Series
from roofline.charts.specification import Line, Mark, Region
from roofline.errors import InputError
from roofline.estimates.estimator import Estimator, Expectation
from roofline.estimates.expected_roof import ExpectedRoof, expected_roof
from roofline.hardware.machine import Machine
from roofline.quantity import format_quantity

#: The stroke of what is expected, of roofs and of whiskers.
DASH, SOLID = 1, 0
#: Sizes at which a curve is estimated, and those of them with a whisker.
MOST_SIZES, WHISKERS = 25, 5
#: Share of the expected time that the launch takes at n½.
HALF = 0.5
NO_CONSTANTS = "nothing is expected of {0}: no constants of {1} are known; roofline calibrate makes some from ten runs"


def with_expected_roofs(chart: Chart, machines: Sequence[Machine], answers: Sequence[Bound], by: Estimator) -> Chart:
    """A roofline with the roof that products reach in practice, and a whisker below each operation's place."""
    marks: list[Mark] = []
    notes: list[str] = []
    missing: list[str] = []
    low, high = chart.x.limits
    for number, machine in enumerate(machines):
        mine = [answer for answer in answers if machine_index(answer.machine, machines) == number]
        formats = dict.fromkeys(ceiling.dtype for ceiling in machine_roof(machine, answers=mine).ceilings)
        for dtype in formats:
            roof = _roof(machine, dtype, by)
            if roof is None:
                missing.append(NO_CONSTANTS.format(f"{machine.key} {dtype}", by.library))
                continue
            group = machine.key if len(machines) > 1 else ""
            at, label = roof.peak / roof.bandwidth, f"{machine.key} expected {dtype}"
            peak = f"expected {dtype} {format_quantity(roof.peak, 'FLOP/s')}"
            rate = f"expected {format_quantity(roof.bandwidth, 'B/s')}"
            marks.append(slope_line(f"{label} slope", roof.bandwidth, (low, min(at, high)), number, DASH, rate, group))
            marks.append(ceiling_line(label, roof.peak, (max(at, low), high), number, DASH, peak, group))
            small = f"{format_quantity(roof.half_bytes, 'B')} or {format_quantity(roof.half_flops, 'FLOP')}"
            notes.append(f"{label}: launch-bound below n½ = {small}: as long as a start of {_seconds(roof.start)}")
    whiskers = [line for answer in answers for line in _whiskers(answer, machine_index(answer.machine, machines), by)]
    lowest = min([chart.y.limits[0], *(line.y[0] / ROUND for line in whiskers)])
    said = f"dashed: what products of {by.library} reach; whiskers: 80% of what is expected of an operation"
    axis = replace(chart.y, limits=(lowest, chart.y.limits[1]))
    small_print = (said, *notes, *chart.notes) if marks or whiskers else chart.notes
    subtitle = " · ".join(filter(None, (chart.subtitle, *missing)))
    return replace(chart, marks=(*chart.marks, *marks, *whiskers), y=axis, notes=small_print, subtitle=subtitle)


def with_expected_curves(chart: Chart, curves: Mapping[str, Series], by: Estimator) -> Chart:
    """A chart over a size with an expected curve beside each, whiskers on it, and the sizes that the launch binds."""
    marks: list[Mark] = []
    said = f"dashed: what is expected of kernels of {by.library}; whiskers: 80%"
    missing: list[str] = []
    in_time = chart.kind == "time"
    for number, (label, curve) in enumerate(curves.items()):
        found = [(x, *_at(curve, x, by)) for x in _some(curve.x)]
        if not all(_known(one) for _, _, one in found):
            missing.append(NO_CONSTANTS.format(label, by.library))
            continue
        ends = [(x, *(_value(answer, float(t), in_time) for t in (e.value, e.low, e.high))) for x, answer, e in found]
        across, up = tuple(float(x) for x, *_ in ends), tuple(y for _, y, *_ in ends)
        line = Line(f"expected: {label}", across, up, "curve", number, DASH, "expected")
        marks.append(line)
        step = max(1, (len(found) - 1) // WHISKERS)
        for (x, _, e), (_, _, one, other) in list(zip(found, ends, strict=True))[::step]:
            said = f"expected at {curve.unknown} = {x:g}: {_interval(e)}"
            marks.append(Line(said, (x, x), (min(one, other), max(one, other)), "resource", number, SOLID))
        below = _half(found)
        if below is not None and len(curves) == 1:
            text = f"launch-bound below n½: {curve.unknown} = {below:.3g}"
            marks.insert(0, Region(text, chart.x.limits[0], below, "yellow"))
    values = [y for mark in marks if isinstance(mark, Line) for y in mark.y]
    bottom, top = chart.y.limits
    lowest = min([bottom, *values]) if chart.y.scale == "log" else bottom
    axis = replace(chart.y, limits=(lowest, max([top, *values])))
    notes = (said, *chart.notes) if marks else chart.notes
    subtitle = " · ".join(filter(None, (chart.subtitle, *missing)))
    return replace(chart, marks=(*chart.marks, *marks), y=axis, notes=notes, subtitle=subtitle)


def _roof(machine: Machine, dtype: str, by: Estimator) -> ExpectedRoof | None:
    try:
        return expected_roof(machine, dtype=dtype, library=by)
    except InputError:
        return None


def _whiskers(answer: Bound, number: int, by: Estimator) -> Iterator[Line]:
    """From the least to the most FLOP/s that are expected of an operation, at its intensity."""
    for one in by.expect(answer).kernels:
        flops = float(sum(part.flops for part in one.run.parts))
        parts = [part for part in one.run.parts if part.intensity]
        if one.source is None or not flops or not parts:
            continue
        x = flops / sum(float(part.flops) / float(part.intensity or 1.0) for part in parts)
        ends = (flops / float(one.high), flops / float(one.low))
        said = f"expected: {one.run.name}: {format_quantity(flops / float(one.value), 'FLOP/s')}, {_interval(one)}"
        yield Line(said, (x, x), ends, "resource", number, SOLID)


def _interval(found: Any) -> str:
    return f"{_seconds(found.value)} ({_seconds(found.low)} to {_seconds(found.high)}, 80%)"


def _seconds(time: Any) -> str:
    return format_quantity(float(time), "s")


def _some(sizes: Sequence[float]) -> list[int]:
    """Whole sizes among those of a curve, at most so many, evenly in their order."""
    whole = [int(x) for x in sizes if float(x).is_integer()]
    step = max(1, math.ceil((len(whole) - 1) / (MOST_SIZES - 1)))
    return list(dict.fromkeys([*whole[::step], whole[-1]]))


def _at(curve: Series, x: int, by: Estimator) -> tuple[Bound, Expectation]:
    answer = curve.answer.question.with_sizes(**{curve.unknown: x}).answer()
    return answer, by.expect(answer)


def _known(found: Expectation) -> bool:
    return bool(found.kernels) and all(one.source is not None for one in found.kernels)


def _value(answer: Bound, seconds: float, in_time: bool) -> float:
    return seconds if in_time else float(answer.flops) / seconds


def _half(found: Sequence[tuple[int, Bound, Expectation]]) -> float | None:
    """The size at which the launch takes half of the expected time, between the sizes around it; None where none do."""
    shares = [(x, sum(float(k.parts.get("launch", 0.0)) for k in e.kernels) / float(e.value)) for x, _, e in found]
    for (x0, before), (x1, after) in pairwise(shares):
        if before >= HALF > after:
            return x0 + (x1 - x0) * (before - HALF) / (before - after)
    return None


__all__ = ["with_expected_curves", "with_expected_roofs"]
