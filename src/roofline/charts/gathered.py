"""Many operations on one roofline: those in nearly one place share a point, and the shortest are left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from roofline.bounds.bound import Bound, OpBound
from roofline.charts.chart import Chart
from roofline.charts.marks import Point
from roofline.charts.operations import Operation, placed
from roofline.charts.roofline_chart import roofline_chart
from roofline.errors import InputError

#: Points no farther apart than this factor in either direction are drawn as one.
NEAR = 1.12

#: Points of a program, those that take longest first.
MOST_POINTS = 16


def program_roofline(answer: Bound, *, theme: str = "light") -> Chart:
    """The operations of a traced program under the roof of its machine, those in nearly one place together."""
    groups, left = gathered(answer, MOST_POINTS)
    if not groups:
        raise InputError("no operation of the program has both FLOPs and bytes", hint="there is nothing to draw")
    kept = only(answer, [members[0] for members in groups])
    chart = roofline_chart([answer.machine], [kept], title=f"{answer.expression} on {answer.target}", theme=theme)
    labels = iter(_named(members) for members in groups)
    marks = []
    for mark in chart.marks:
        text = next(labels) if isinstance(mark, Point) else ""
        marks.append(replace(mark, label=text, text=text) if isinstance(mark, Point) else mark)
    notes = (f"{left} shorter, byte-free or FLOP-free operations left out",) if left else ()
    return replace(chart, marks=tuple(marks), notes=(*notes, *chart.notes), height=520)


def gathered(answer: Bound, most: int) -> tuple[list[list[OpBound]], int]:
    """Operations that have a place on a roofline, those in nearly one place together; and how many are left out."""
    groups: list[tuple[Operation, list[OpBound]]] = []
    for part, point in sorted(placed(answer), key=lambda each: -float(each[0].lower)):
        home = next((members for other, members in groups if _near(point, other)), None)
        if home is None:
            groups.append((point, [part]))
        else:
            home.append(part)
    shown = [members for _, members in groups[:most]]
    return shown, len(answer.ops) - sum(map(len, shown))


def only(answer: Bound, parts: Sequence[OpBound]) -> Bound:
    """An answer with these operations alone, as far as a roofline asks."""
    if len(parts) != 1:
        return replace(answer, ops=tuple(parts))
    part = parts[0]
    figures = {"flops": part.flops, "intensity": part.intensity, "lower": part.lower, "bound_by": part.bound_by}
    return replace(answer, ops=(part,), **figures)


def _near(one: Operation, other: Operation) -> bool:
    ratios = (one.intensity / other.intensity, one.attainable / other.attainable)
    return all(abs(math.log(ratio)) < math.log(NEAR) for ratio in ratios)


def _named(members: Sequence[OpBound]) -> str:
    """What the operations of a point are called, and how many of each: ``conv (13), linear``; a single one's place."""
    if len(members) == 1:
        return f"{members[0].op.name} {members[0].op.where}".strip()
    names = [part.op.name for part in members]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in counts.items())
