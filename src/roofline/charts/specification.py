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

Axes have limits, and say where they are marked and what is written there, in pictures and in the terminal alike.

>>> Axis("arithmetic intensity", "FLOP/B", "linear", (0.0, 1000.0)).position(250.0)
0.25
>>> [text for _, text in ticks(Axis("", "FLOP/s", "log", (1e11, 2e15)))]
['100 GFLOP/s', '1 TFLOP/s', '10 TFLOP/s', '100 TFLOP/s', '1 PFLOP/s']
>>> [text for _, text in ticks(Axis("B", "", "linear", (0.0, 511.0)))]
['0', '100', '200', '300', '400', '500']
>>> [text for _, text in ticks(Axis("", "s", "linear", (0.0, 4.4e-5)))]
['0 s', '10 µs', '20 µs', '30 µs', '40 µs']
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, is_dataclass
from itertools import groupby
from typing import Any, Generic, Literal, Self, TypeVar

from roofline.answers import attributes
from roofline.errors import check_one_of
from roofline.frozen import dataclass, replace
from roofline.quantity import format_quantity
from roofline.signatures import check_methods

Scale = Literal["log", "linear"]

#: Columns of a picture on a page in which a line has points of its own.
COLUMNS = 200


class LeftOut(str):
    """A note that says how much of an answer is drawn, and why the rest is not."""

    __slots__ = ()


#: Units that stand in the axis label once and not at every tick.
_BARE_UNITS = frozenset({"FLOP/B", ""})


@check_methods
@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: what it shows, the unit of its numbers, log or linear, and its lower and upper limit.

    With ``names`` it is an axis of rows, the first from 0 to 1, the next from 1 to 2, and has no numbers. An axis of
    ``whole`` numbers has ticks at whole numbers only.
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


def log_axis(label: str, unit: str, values: Iterable[float], margin: float = 1.0) -> Axis:
    """A log axis that holds some values, with a margin on both sides as a factor.

    >>> log_axis("bandwidth", "B/s", [1e9, 4e9], margin=2.0).limits
    (500000000.0, 8000000000.0)
    """
    held = list(values)
    return Axis(label, unit, "log", (min(held) / margin, max(held) * margin))


def rising_axis(values: Sequence[float], scale: Scale, label: str, unit: str) -> Axis:
    """The vertical axis of curves: from 0 when linear, with room for a label above the highest value."""
    high, low = max(values), min(values)
    if scale == "log":
        return Axis(label, unit, "log", (low / 1.6, high * 2.2))
    return Axis(label, unit, "linear", (0.0, high * 1.16))


def size_axis(name: str, curves: Sequence[Sequence[float]]) -> Axis:
    """The horizontal axis of curves over a size: log where the sizes grow by factors, linear where by equal steps.

    They grow by factors where they cover more than a factor of 20 and their second half (by count) starts below a
    quarter of the range.

    >>> size_axis("B", [[4, 8]]).limits, size_axis("B", [[8]]).limits
    ((4.0, 8.0), (0.0, 8.0))
    """
    longest = max(curves, key=len)
    low = min(sizes[0] for sizes in curves)
    high = max(sizes[-1] for sizes in curves)
    by_factors = longest[-1] / longest[0] > 20 and longest[len(longest) // 2] < longest[-1] / 4
    scale: Scale = "log" if by_factors else "linear"
    start = low if by_factors or high > low > 0.3 * high else 0.0
    return Axis(f"size {name}", "", scale, (float(start), float(high)), whole=True)


def ticks(axis: Axis, most: int = 7) -> tuple[tuple[float, str], ...]:
    """List at most about ``most`` values with their text, from the lower limit up; the middle of each row."""
    if axis.names:
        return tuple((row + 0.5, name) for row, name in enumerate(axis.names))
    values = (_log_values if axis.scale == "log" else _linear_values)(*axis.limits, most, axis.whole)
    return tuple((value, tick_text(value, axis.unit)) for value in values)


def minor_ticks(axis: Axis) -> tuple[float, ...]:
    """List the values between decades (2, 3 … 9) of a log axis; a linear axis has none."""
    if axis.scale != "log":
        return ()
    low, high = axis.limits
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    if len(decades) > 12:
        return ()
    return tuple(v for e in decades for m in range(2, 10) if low <= (v := m * 10.0**e) <= high)


def tick_text(value: float, unit: str) -> str:
    """Write one value the way an engineer would.

    >>> tick_text(1e14, "FLOP/s"), tick_text(1000, "FLOP/B"), tick_text(2.5e-4, "s"), tick_text(0, "FLOP/s")
    ('100 TFLOP/s', '1,000', '250 µs', '0')
    >>> tick_text(1e4, "s")
    '10,000 s'
    """
    if unit in _BARE_UNITS:
        if value and not 1e-3 <= abs(value) < 1e6:
            return (
                format_quantity(value, "").strip()
                if value < 1e6
                else format_quantity(value, "B", 4).removesuffix("B").strip()
            )
        return f"{value:,.10g}"
    if value == 0:
        return "0 s" if unit == "s" else "0"
    if unit == "s" and value >= 1:  # steps of ten are no round numbers of minutes or hours
        return f"{value:,.10g} s"
    return format_quantity(value, unit, 4)


def axis_title(axis: Axis) -> str:
    """What the axis shows, with the unit where the ticks do not carry it."""
    return f"{axis.label}, {axis.unit}" if axis.unit == "FLOP/B" else axis.label


#: Where a log axis has fewer powers of ten, it has ticks between them too.
FEW_POWERS = 3


def _log_values(low: float, high: float, most: int, whole: bool) -> list[float]:
    decades = math.log10(high) - math.log10(low)
    if decades < 0.8:
        return [v for v in _linear_values(low, high, most, whole) if v > 0]
    powers = math.floor(math.log10(high) + 1e-9) - math.ceil(math.log10(low) - 1e-9) + 1
    steps = (1, 2, 5) if decades <= 2 or powers < FEW_POWERS else (1,)
    every = max(1, math.ceil(decades / most)) if steps == (1,) else 1
    first = math.floor(math.log10(low) + 1e-9)
    exponents = range(first - first % every, math.ceil(math.log10(high)) + 1, every)
    slack = 1 + 1e-9
    return [v for e in exponents for m in steps if low / slack <= (v := m * 10.0**e) <= high * slack]


def _linear_values(low: float, high: float, most: int, whole: bool) -> list[float]:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten.

    >>> _linear_values(1, 4, 7, False), _linear_values(1, 4, 7, True), _linear_values(1000, 1010, 5, True)
    ([1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0], [1.0, 2.0, 3.0, 4.0], [1000.0, 1002.0, 1004.0, 1006.0, 1008.0, 1010.0])
    """
    rough = max((high - low) / most, 1.0 if whole else 0.0)
    power = 10.0 ** math.floor(math.log10(rough))
    factors = (1, 2, 5, 10) if whole and power == 1 else (1, 2, 2.5, 5, 10)
    step = next(power * m for m in factors if power * m >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 15 - math.floor(math.log10(step * max(abs(i), 1)))) for i in range(first, last + 1)]


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


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell of a heat map: the ``column`` and ``row`` whose names the axes have, the first from 0 to 1.

    ``part`` is what its ``shade`` stands for, which the key names; ``text`` stands in it; ``over``: does not fit;
    ``figure`` is its ``value`` as a person reads it, or what binds.
    """

    label: str
    column: int
    row: int
    value: float
    shade: int = 0
    part: str = ""
    text: str = ""
    over: bool = False
    figure: str = ""


Mark = Line | Point | Region | Ridge | Bar | HeatCell

#: The name of each kind of mark in ``Specification.to_dict``.
MARK_NAMES: dict[type[Mark], str] = {
    Line: "line",
    Point: "point",
    Region: "region",
    Ridge: "ridge",
    Bar: "bar",
    HeatCell: "cell",
}

AnyMark = TypeVar("AnyMark", Line, Point, Region, Ridge, Bar, HeatCell)


class _Marks(Generic[AnyMark]):
    """A property of a specification: its marks of one kind, in order."""

    def __init__(self, kind: type[AnyMark], says: str) -> None:
        self.kind: type[AnyMark] = kind
        self.__doc__ = says

    def __get__(self, chart: Any, owner: type | None = None) -> tuple[AnyMark, ...]:
        return self if chart is None else tuple(mark for mark in chart.marks if isinstance(mark, self.kind))  # type: ignore[return-value]


@check_methods
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Specification:
    """All that a chart shows.

    Attributes
        ``kind``      ``roofline``, ``throughput``, ``time``, ``bars``, ``front`` or ``heatmap``
        ``title``, ``subtitle``   what is shown, and of which machine
        ``x``, ``y``  the axes
        ``marks``     lines, points, regions, ridges, bars and cells in data units, in drawing order
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

    lines = _Marks(Line, "The lines in order.")
    points = _Marks(Point, "The operations in order.")
    regions = _Marks(Region, "The coloured stretches in order.")
    ridges = _Marks(Ridge, "The corners in order: ridges of a roofline, knees of a curve.")
    bars = _Marks(Bar, "The bars in order.")
    cells = _Marks(HeatCell, "The cells of a heat map in order.")

    def line(self, label: str) -> Line:
        """Find a line by its label."""
        check_one_of(f"no line {label!r} in this chart", label, [line.label for line in self.lines], "lines")
        return next(line for line in self.lines if line.label == label)

    def thinned(self, columns: int = COLUMNS) -> Self:
        """The same with as many points of a line as a page can show: in each of so many columns the ends and extremes.

        >>> axis = Axis("", "", "linear", (0.0, 1e4))
        >>> many = Line("many", tuple(map(float, range(10_001))), tuple(map(float, range(10_001))))
        >>> [len(line.x) for line in Specification("time", "", axis, axis, (many,)).thinned(100).lines]
        [201]
        """
        kept = {ridge.x for ridge in self.ridges}
        marks = [
            _thinned(mark, self.x, columns, kept) if isinstance(mark, Line) and len(mark.x) > 2 * columns else mark
            for mark in self.marks
        ]
        return replace(self, marks=tuple(marks))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The notes that say what is not drawn, and why."""
        return tuple(note for note in self.notes if isinstance(note, LeftOut))

    def to_dict(self) -> dict[str, Any]:
        """The specification under stable keys in SI units (schema ``roofline/chart/1``)."""
        return {
            "schema": "roofline/chart/1",
            **attributes(self, "kind", "title", "subtitle"),
            "x": _plain(self.x),
            "y": _plain(self.y),
            "marks": [{"mark": MARK_NAMES[type(mark)], **_plain(mark)} for mark in self.marks],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        names = [MARK_NAMES[type(mark)] for mark in self.marks]
        counts = [f"{n} {name}{'s' * (n > 1)}" for name in MARK_NAMES.values() if (n := names.count(name))]
        above = sum(mark.share is not None and mark.share > 1 for mark in self.points)
        odd = f", {above} above the roof" if above else ""
        return f"<{type(self).__name__} {self.title!r}: {self.kind} with {', '.join(counts)}{odd}>"


def _thinned(line: Line, axis: Axis, columns: int, kept: Collection[float]) -> Line:
    """A line with the first, last, lowest and highest of its points in each column, and those at ``kept``."""
    chosen = {at for at, x in enumerate(line.x) if x in kept}
    by_column = groupby(range(len(line.x)), key=lambda at: int(axis.position(line.x[at]) * columns))
    for _, each in by_column:
        within = list(each)
        chosen |= {within[0], within[-1], *(pick(within, key=lambda at: line.y[at]) for pick in (min, max))}
    order = sorted(chosen)
    return replace(line, x=tuple(line.x[at] for at in order), y=tuple(line.y[at] for at in order))


def _plain(value: Any) -> dict[str, Any]:
    """The fields of a value by name; those of values within it too. Faster than ``asdict``, which copies deeply."""
    return {each.name: _plain_field(getattr(value, each.name)) for each in fields(value)}


def _plain_field(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain_field(item) for item in value]
    return _plain(value) if is_dataclass(value) else value
