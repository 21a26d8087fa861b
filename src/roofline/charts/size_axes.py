"""Axes of a chart over a size, and what throughput and time charts share."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.charts.marks import Axis, Scale
from roofline.charts.series import Series
from roofline.hardware.machine import Machine

#: The colour of what belongs to no machine or curve in particular.
NEUTRAL = 5


def size_axis(curves: Sequence[Series]) -> Axis:
    """The horizontal axis: log where the sizes are spread by factors, linear where they are spread evenly.

    A list is spread by factors when it covers more than a factor of 20 and its second half (by count) starts below
    a quarter of its range.
    """
    longest = max(curves, key=lambda curve: len(curve.x)).x
    low = min(curve.x[0] for curve in curves)
    high = max(curve.x[-1] for curve in curves)
    by_factors = longest[-1] / longest[0] > 20 and longest[len(longest) // 2] < longest[-1] / 4
    scale: Scale = "log" if by_factors else "linear"
    start = low if by_factors or low > 0.3 * high else 0.0
    return Axis(f"size {curves[0].unknown}", "", scale, (float(start), float(high)), whole=True)


def upwards(values: Sequence[float], scale: Scale, label: str, unit: str) -> Axis:
    """The vertical axis: from 0 when linear, and with room for a label on top."""
    high, low = max(values), min(values)
    if scale == "log":
        return Axis(label, unit, "log", (low / 1.6, high * 2.2))
    return Axis(label, unit, "linear", (0.0, high * 1.16))


def shared_notes(curves: Sequence[Series]) -> tuple[str, ...]:
    """The conventions behind the curves, each once."""
    said = [note for curve in curves for note in (*curve.answer.assumptions, *curve.answer.incomplete)]
    return in_order(said, [curve.answer.machine for curve in curves])


def in_order(notes: Sequence[str], machines: Sequence[Machine]) -> tuple[str, ...]:
    """Each note once, without a full stop; the remarks of the machines' own data sheets last."""
    remarks = {note for machine in machines for note in machine.notes}
    ordered = [*(n for n in notes if n not in remarks), *(n for n in notes if n in remarks)]
    return tuple(dict.fromkeys(note.rstrip(".") for note in ordered))


def named(names: Sequence[str]) -> str:
    """Join names the way a sentence does.

    >>> named(["H100"]), named(["H100", "A100"]), named(["a", "b", "c"])
    ('H100', 'H100 and A100', 'a, b and c')
    """
    listed = list(dict.fromkeys(names))
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
