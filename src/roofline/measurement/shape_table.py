"""What a library's products reach over shapes: small and flat ones, where a roof knows only the best.

A shape is the rows of a product and the side √(n·k) of the matrix they meet. Rates were measured at some shapes and are
read between them: straight lines in logarithms. Beyond the largest shape the rate stays; below the smallest the time
does.

>>> from roofline.measurement.samples import Summary
>>> rates = {(8, 64): 10e9, (8, 256): 40e9, (128, 64): 40e9, (128, 256): 160e9}
>>> points = tuple((*shape, Summary(rate, rate, rate, 9, 1.0)) for shape, rate in rates.items())
>>> table = ShapeTable("library", "fp32", "torch matmul", 1, points)
>>> [round(table.rate(*shape) / 1e9) for shape in ((8, 64), (32, 128), (4096, 1024))]
[10, 40, 160]
>>> table.seconds(8, 64) == table.seconds(1, 1) == 2 * 8 * 64**2 / 10e9
True
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from roofline.measurement.samples import Summary


@dataclass(frozen=True, slots=True)
class ShapeTable:
    """Rates of one library's products in a dtype on some threads: ``points`` are (rows, side, summary of FLOP/s)."""

    name: str
    dtype: str
    kernel: str
    threads: int
    points: tuple[tuple[float, float, Summary], ...]

    @property
    def call(self) -> float:
        """Time of the smallest product of several rows: what calling costs."""
        rows = sorted({point[0] for point in self.points})
        return self.seconds(rows[min(1, len(rows) - 1)], 0.0)

    def seconds(self, rows: float, side: float) -> float:
        """Time of ``rows`` by a matrix with n·k = ``side``²."""
        least_rows = min(point[0] for point in self.points)
        least_side = min(point[1] for point in self.points)
        rows, side = max(rows, least_rows), max(side, least_side)
        return 2 * rows * side**2 / self.rate(rows, side)

    def rate(self, rows: float, side: float) -> float:
        """FLOP/s at a shape; where a large product was left out, the largest measured with its rows stands for it."""
        below, above, share = _between(sorted({point[0] for point in self.points}), rows)
        return _mixed(self._along(below, side), self._along(above, side), share)

    def _along(self, rows: float, side: float) -> float:
        found = {width: summary.value for count, width, summary in self.points if count == rows}
        below, above, share = _between(sorted(found), side)
        return _mixed(found[below], found[above], share)


def _mixed(low: float, high: float, share: float) -> float:
    return float(low ** (1 - share) * high**share)


def _between(steps: Sequence[float], at: float) -> tuple[float, float, float]:
    """The neighbours of a value among ascending steps, and how far between them it lies in logarithms."""
    place = bisect_right(steps, at)
    if place == 0 or place == len(steps):
        end = steps[0 if place == 0 else -1]
        return end, end, 0.0
    below, above = steps[place - 1], steps[place]
    return below, above, math.log(at / below) / math.log(above / below)
