"""What a chart is made of: axes and marks, as plain frozen values in data units. Nothing here draws.

>>> Point("softmax", 0.75, 6e11, roof=2.5e12, kind="measured").share
0.24
>>> Axis("arithmetic intensity", "FLOP/B", "linear", (0.0, 1000.0)).position(250.0)
0.25
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

#: How a line is drawn: the roof's parts, a curve over a size, or a bound's lower, upper and per-resource times.
Role = Literal["slope", "ceiling", "curve", "lower", "upper", "resource"]

Scale = Literal["log", "linear"]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: what it shows, the unit of its numbers, log or linear, and from where to where.

    With ``names`` it is an axis of rows, the first from 0 to 1, the next from 1 to 2, and has no numbers. An axis of
    ``whole`` numbers is marked at no others.
    """

    label: str
    unit: str
    scale: Scale
    limits: tuple[float, float]
    names: tuple[str, ...] = ()
    whole: bool = False

    def position(self, value: float) -> float:
        """Where a value lies: 0 at the lower limit, 1 at the upper."""
        low, high = self.limits
        if self.scale == "log":
            tiny = low * 1e-12
            return (math.log(max(value, tiny)) - math.log(low)) / (math.log(high) - math.log(low))
        return (value - low) / (high - low)


@dataclass(frozen=True, slots=True)
class Line:
    """Points joined by a line.

    ``series`` chooses the colour, ``dash`` the stroke; marks of one machine or curve share a ``series``.
    ``text`` is what stands beside the line; ``label`` its full name; ``group`` the chip it belongs to, where a chart
    holds several, which the key names.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    role: Role = "curve"
    series: int = 0
    dash: int = 0
    text: str = ""
    group: str = ""

    @property
    def named(self) -> str:
        """What a key says of the line: its chip, where there are several, and its text."""
        return " · ".join(filter(None, (self.group, self.text or self.label)))


@dataclass(frozen=True, slots=True)
class Point:
    """One operation: what it attains (``kind`` bound) or attained (measured).

    ``roof`` is what the machine allows a measured point at best. ``text`` stands beside the point, ``label`` is the
    full name, ``on`` the key of its machine, ``shape`` chooses the marker.
    """

    label: str
    x: float
    y: float
    roof: float | None = None
    kind: Literal["bound", "measured"] = "bound"
    series: int = 0
    shape: int = 0
    text: str = ""
    bound_by: str = ""
    on: str = ""

    @property
    def share(self) -> float | None:
        """Fraction of the roof reached, None for a point that is a bound itself."""
        return None if self.roof is None else self.y / self.roof


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of the horizontal axis; ``color`` is red, yellow or green."""

    label: str
    x0: float
    x1: float
    color: Literal["red", "yellow", "green"]


@dataclass(frozen=True, slots=True)
class Ridge:
    """A corner: where a slope meets a ceiling, or where what binds changes along a curve.

    ``label`` names it in full, ``text`` is what stands beside it.
    """

    x: float
    y: float
    label: str
    text: str = ""
    series: int = 0

    @property
    def named(self) -> str:
        """What a key says of the ridge: its number, and which it is.

        >>> Ridge(2.0, 6.69e13, "cuda fp32 over smem", "2").named
        '2: cuda fp32 over smem'
        >>> Ridge(9.0, 1.0, "from B = 9 mxu binds", "B = 9").named
        'from B = 9 mxu binds'
        """
        said = f" {self.text} " in f" {self.label} " or not self.text
        return self.label if said else f"{self.text}: {self.label}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of a row, from ``x0`` to ``x1``; several of one row stand one after the other.

    ``part`` is what its colour stands for, which the key names; ``text`` stands to the right of it.
    """

    label: str
    row: int
    x0: float
    x1: float
    series: int = 0
    part: str = ""
    text: str = ""


Mark = Line | Point | Region | Ridge | Bar

#: The name of each kind of mark in ``Chart.to_dict``.
MARK_NAMES: dict[type[Mark], str] = {
    Line: "line",
    Point: "point",
    Region: "region",
    Ridge: "ridge",
    Bar: "bar",
}
