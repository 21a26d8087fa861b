"""Axes: their limits, where they are marked and what is written there, for pictures and for the terminal alike.

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
from collections.abc import Iterable, Sequence
from typing import Literal

from roofline.frozen import dataclass
from roofline.quantity import format_quantity

Scale = Literal["log", "linear"]

#: Units that stand in the axis label once and not at every tick.
_BARE_UNITS = frozenset({"FLOP/B", ""})


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
    """
    longest = max(curves, key=len)
    low = min(sizes[0] for sizes in curves)
    high = max(sizes[-1] for sizes in curves)
    by_factors = longest[-1] / longest[0] > 20 and longest[len(longest) // 2] < longest[-1] / 4
    scale: Scale = "log" if by_factors else "linear"
    start = low if by_factors or low > 0.3 * high else 0.0
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
            return format_quantity(value, "").strip() if value < 1e6 else _prefixed(value)
        return f"{value:,.10g}"
    if value == 0:
        return "0 s" if unit == "s" else "0"
    if unit == "s" and value >= 1:  # steps of ten are no round numbers of minutes or hours
        return f"{value:,.10g} s"
    return format_quantity(value, unit, 4)


def axis_title(axis: Axis) -> str:
    """What the axis shows, with the unit where the ticks do not carry it."""
    return f"{axis.label}, {axis.unit}" if axis.unit == "FLOP/B" else axis.label


def _prefixed(value: float) -> str:
    return format_quantity(value, "B", 4).removesuffix("B").strip()


def _log_values(low: float, high: float, most: int, whole: bool) -> list[float]:
    decades = math.log10(high) - math.log10(low)
    if decades < 0.8:
        return [v for v in _linear_values(low, high, most, whole) if v > 0]
    steps = (1, 2, 5) if decades <= 2 else (1,)
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
