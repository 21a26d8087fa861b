"""Attainable FLOP/s against a size: how large it must be before the chip runs at its peak.

>>> from roofline.charts.plot import plot
>>> chart = plot("bf16[B, D] * int8[D, F] -> bf16[B, F]", on="v5e", set={"hbm": 8.2e11}, vary="B",
...              B=range(1, 512), D=[1024, 4096], F="D")
>>> [line.label for line in chart.lines]
['D = F = 1024', 'D = F = 4096', 'peak mxu bf16']
>>> [knee.text for knee in chart.ridges]
['B = 226.3', 'B = 136.1']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from roofline.charts.chart import Chart
from roofline.charts.marks import Line, Ridge
from roofline.charts.operations import wanting
from roofline.charts.series import Series
from roofline.charts.size_axes import NEUTRAL, named, shared_notes, size_axis, upwards
from roofline.errors import InputError
from roofline.quantity import format_quantity

#: A peak is drawn where it is at most so many times above the highest curve.
IN_SIGHT = 1.6


def throughput_chart(curves: Mapping[str, Series], *, title: str = "", theme: str = "light") -> Chart:
    """Draw the attainable FLOP/s of each curve, its knees, and the peaks they run into.

    ``curves`` are :class:`~roofline.charts.series.Series` by label, all over the same size. One without FLOPs, or
    whose FLOPs the machine has no peak for, is an error.
    """
    listed = list(curves.values())
    for curve in listed:
        missing = wanting(curve.answer, curve.answer.machine)
        if missing:
            raise InputError(
                f"{curve.expression} {missing}, so it has no throughput", hint="kind='time' draws its time"
            )
    marks: list[Line | Ridge] = []
    for number, (label, curve) in enumerate(curves.items()):
        marks.append(Line(label, curve.x, curve.attainable, "curve", number, number, label))
        marks += [_knee(label, curve, index, number) for index in range(len(curve.knees))]
    marks.sort(key=lambda mark: isinstance(mark, Ridge))
    x = size_axis(listed)
    peaks = list(_peaks(listed, x.limits))
    marks = [*(m for m in marks if isinstance(m, Line)), *peaks, *(m for m in marks if isinstance(m, Ridge))]
    values = [v for curve in listed for v in curve.attainable]
    values += [line.y[0] for line in peaks]
    expressions = list(dict.fromkeys(curve.expression for curve in listed))
    return Chart(
        kind="throughput",
        title=title or f"Attainable throughput over {listed[0].unknown}",
        subtitle=" · ".join(filter(None, [named([c.answer.machine.name for c in listed]), *expressions])),
        x=x,
        y=upwards(values, "linear", "attainable FLOP/s", "FLOP/s"),
        marks=tuple(marks),
        notes=shared_notes(listed),
        theme=theme,
    )


def _knee(label: str, curve: Series, index: int, number: int) -> Ridge:
    knee = curve.knees[index]
    text = knee.said(curve.unknown)
    return Ridge(knee.x, knee.attainable, f"{label}: from {text} {knee.after} binds", text, number)


def _peaks(curves: list[Series], limits: tuple[float, float]) -> Iterator[Line]:
    """The peaks of one machine that are in sight of the curves; the curves of several end in theirs."""
    if len({curve.answer.machine.key for curve in curves}) > 1:
        return
    highest = max(v for curve in curves for v in curve.attainable)
    uses = [use for curve in curves for use in curve.answer.uses if use.quantity == "flops"]
    for unit, dtype, peak in dict.fromkeys((use.resource, use.dtype, float(use.rate.value)) for use in uses):
        if peak <= highest * IN_SIGHT:
            name = f"peak {unit} {dtype}"
            yield Line(name, limits, (peak, peak), "ceiling", NEUTRAL, 2, f"{name} {format_quantity(peak, 'FLOP/s')}")
