"""A chart as a value: axes, marks and words, all in data units. Nothing here draws.

>>> Point("softmax", 0.75, 6e11, roof=2.5e12, kind="measured").share
0.24
>>> roof = Specification(
...     kind="roofline",
...     title="TPU v5e",
...     x=Axis("arithmetic intensity", "FLOP/B", "log", (10.0, 1000.0)),
...     y=Axis("attainable", "FLOP/s", "log", (1e13, 1e15)),
...     marks=(Line("hbm", (10.0, 240.0), (8.2e12, 1.97e14), "slope"), Ridge(240.0, 1.97e14, "ridge")),
... )
>>> roof.line("hbm").x, roof.ridges[0].x
((10.0, 240.0), 240.0)
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar

from roofline.charts.axes import Axis
from roofline.errors import InputError, suggest
from roofline.frozen import dataclass
from roofline.signatures import check_methods

#: The colour (``series``) of what belongs to no machine or curve in particular.
NEUTRAL = 5

#: How a line is drawn: the roof's parts, a curve over a size, or a bound's lower, upper and per-resource times.
Role = Literal["slope", "ceiling", "curve", "lower", "upper", "resource"]


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
    def key_text(self) -> str:
        """What a key says of the line: its chip, where there are several, and its text."""
        return " · ".join(filter(None, (self.group, self.text or self.label)))


@dataclass(frozen=True, slots=True)
class Point:
    """One operation: what it attains (``kind`` bound) or attained (measured).

    ``roof`` is what the machine allows a measured point at best. ``text`` stands beside the point, ``label`` is the
    full name, ``on`` the key of its machine, ``shape`` chooses the marker, ``size`` is its share of the usual
    width.
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
    size: float = 1.0

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
    def key_text(self) -> str:
        """What a key says of the ridge: its number, and which it is.

        >>> Ridge(2.0, 6.69e13, "cuda fp32 over smem", "2").key_text
        '2: cuda fp32 over smem'
        >>> Ridge(9.0, 1.0, "from B = 9 mxu binds", "B = 9").key_text
        'from B = 9 mxu binds'
        """
        said = f" {self.text} " in f" {self.label} " or not self.text
        return self.label if said else f"{self.text}: {self.label}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of a row, from ``x0`` to ``x1``; several of one row stand one after the other.

    ``part`` is what its colour stands for, which the key names; ``text`` stands to the right of it; what lies beyond
    ``over`` does not fit.
    """

    label: str
    row: int
    x0: float
    x1: float
    series: int = 0
    part: str = ""
    text: str = ""
    over: float | None = None


Mark = Line | Point | Region | Ridge | Bar

#: The name of each kind of mark in ``Specification.to_dict``.
MARK_NAMES: dict[type[Mark], str] = {
    Line: "line",
    Point: "point",
    Region: "region",
    Ridge: "ridge",
    Bar: "bar",
}

AnyMark = TypeVar("AnyMark", Line, Point, Region, Ridge, Bar)


@check_methods
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Specification:
    """All that a chart shows.

    Attributes
        ``kind``      ``roofline``, ``throughput``, ``time``, ``bars`` or ``front``
        ``title``, ``subtitle``   what is shown, and of which machine
        ``x``, ``y``  the axes
        ``marks``     lines, points, regions, ridges and bars in data units, in drawing order
        ``notes``     conventions and anything a reader must know, in small print below
        ``theme``     ``light`` or ``dark``
        ``width``, ``height``   of the picture in pixels
    """

    kind: str
    title: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    subtitle: str = ""
    notes: tuple[str, ...] = ()
    theme: str = "light"
    width: int = 720
    height: int = 480

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines in order."""
        return self._only(Line)

    @property
    def points(self) -> tuple[Point, ...]:
        """The operations in order."""
        return self._only(Point)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The coloured stretches in order."""
        return self._only(Region)

    @property
    def ridges(self) -> tuple[Ridge, ...]:
        """The corners in order: ridges of a roofline, knees of a curve."""
        return self._only(Ridge)

    @property
    def bars(self) -> tuple[Bar, ...]:
        """The bars in order."""
        return self._only(Bar)

    def line(self, label: str) -> Line:
        """Find a line by its label."""
        found = next((line for line in self.lines if line.label == label), None)
        if found is None:
            known = [line.label for line in self.lines]
            raise InputError(f"no line {label!r} in this chart", hint=suggest(label, known, what="lines"))
        return found

    def to_dict(self) -> dict[str, Any]:
        """The specification under stable keys in SI units (schema ``roofline/chart/1``)."""
        return {
            "schema": "roofline/chart/1",
            "kind": self.kind,
            "title": self.title,
            "subtitle": self.subtitle,
            "x": _plain(self.x),
            "y": _plain(self.y),
            "marks": [{"mark": MARK_NAMES[type(mark)], **_plain(mark)} for mark in self.marks],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        names = [MARK_NAMES[type(mark)] for mark in self.marks]
        counts = [f"{n} {name}{'s' * (n > 1)}" for name in MARK_NAMES.values() if (n := names.count(name))]
        return f"<{type(self).__name__} {self.title!r}: {self.kind} with {', '.join(counts)}>"

    def _only(self, kind: type[AnyMark]) -> tuple[AnyMark, ...]:
        return tuple(mark for mark in self.marks if isinstance(mark, kind))


def _plain(value: Any) -> dict[str, Any]:
    """The fields of a value by name; those of values within it too. Faster than ``asdict``, which copies deeply."""
    return {each.name: _plain_field(getattr(value, each.name)) for each in fields(value)}


def _plain_field(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain_field(item) for item in value]
    return _plain(value) if is_dataclass(value) else value
