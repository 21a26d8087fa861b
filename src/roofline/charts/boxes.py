"""Many rectangles or segments at once, as arrays: which of them one rectangle covers, and which one line crosses.

Placing the labels of a chart asks this millions of times; it knows no more of drawing than numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Vertex = tuple[float, float]
Segment = tuple[Vertex, Vertex]

#: Boxes that share less than this touch, and do not overlap.
TOUCH = 1e-6


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle about a centre, turned by ``angle`` degrees."""

    x: float
    y: float
    width: float
    height: float
    angle: float = 0.0

    def corners(self) -> tuple[Vertex, ...]:
        """The four corners in order."""
        turn = math.radians(self.angle)
        cos, sin = math.cos(turn), math.sin(turn)
        w, h = self.width / 2, self.height / 2
        return tuple(
            (self.x + dx * cos - dy * sin, self.y + dx * sin + dy * cos)
            for dx, dy in ((-w, -h), (w, -h), (w, h), (-w, h))
        )

    def grown(self, by: float) -> Box:
        """The rectangle with a margin all around."""
        return Box(self.x, self.y, self.width + 2 * by, self.height + 2 * by, self.angle)


def drawn(segment: Segment) -> Box:
    """A segment as a rectangle without height."""
    (x0, y0), (x1, y1) = segment
    length = math.hypot(x1 - x0, y1 - y0)
    return Box((x0 + x1) / 2, (y0 + y1) / 2, length, 0.0, math.degrees(math.atan2(y1 - y0, x1 - x0)))


class Boxes:
    """Rectangles in arrays, and which of them another one overlaps.

    >>> Boxes.of([Box(0, 0, 10, 2), Box(0, 9, 10, 2), Box(0, 4, 10, 2, angle=90)]).overlap(Box(0, 4, 10, 2)).tolist()
    [False, False, True]
    """

    def __init__(self, columns: Any) -> None:
        self._columns = columns
        self.x, self.y, self.width, self.height, self.turn = columns

    @classmethod
    def of(cls, boxes: Sequence[Box]) -> Boxes:
        """The arrays of some boxes."""
        import numpy as np

        rows = [(b.x, b.y, b.width, b.height, math.radians(b.angle)) for b in boxes]
        return cls(np.array(rows, dtype=float).reshape(-1, 5).T.copy())

    def part(self, span: slice) -> Boxes:
        """Some of them, one after another."""
        return Boxes(self._columns[:, span])

    def overlap(self, other: Box) -> Any:
        """Whether each shares area with the other, by separating axes."""
        across, up = 2 * (self.x - other.x), 2 * (self.y - other.y)
        found = (abs(across) < self.width + other.width - TOUCH) & (abs(up) < self.height + other.height - TOUCH)
        turned = (self.turn != 0) | (other.angle != 0)
        return self._share(across, up, other) & turned | found & ~turned if turned.any() else found

    def _share(self, across: Any, up: Any, other: Box) -> Any:
        """Separating axes: twice the distance of the centres along a side against what both boxes cover of it."""
        import numpy as np

        turn = math.radians(other.angle)
        cos, sin = abs(np.cos(self.turn - turn)), abs(np.sin(self.turn - turn))
        shared = np.ones(len(self.x), dtype=bool)
        for angle, width, height, far_width, far_height in (
            (turn, other.width, other.height, self.width, self.height),
            (self.turn, self.width, self.height, other.width, other.height),
        ):
            along = across * np.cos(angle) + up * np.sin(angle)
            away = up * np.cos(angle) - across * np.sin(angle)
            shared &= abs(along) < width + far_width * cos + far_height * sin - 2 * TOUCH
            shared &= abs(away) < height + far_width * sin + far_height * cos - 2 * TOUCH
        return shared


class Segments:
    """Segments in arrays, and which of them a line crosses.

    >>> Segments([((0, 0), (2, 2)), ((0, 0), (2, 0))]).cross(((0, 2), (2, 0))).tolist()
    [True, False]
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        import numpy as np

        ends = np.array(segments, dtype=float).reshape(-1, 4)
        self.ends = ((ends[:, 0], ends[:, 1]), (ends[:, 2], ends[:, 3]))
        self.length = np.hypot(ends[:, 2] - ends[:, 0], ends[:, 3] - ends[:, 1])

    def cross(self, line: Segment) -> Any:
        """Whether each crosses the line; one that only starts on it does not."""
        return self._apart(line, self.ends, math.dist(*line)) & self._apart(self.ends, line, self.length)

    @staticmethod
    def _apart(line: Any, ends: Any, length: Any) -> Any:
        """Whether the two ends lie on different sides of a line; either side of the question may be arrays."""
        (x0, y0), (x1, y1) = line
        first, second = ((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) for x, y in ends)
        tiny = 1e-6 * length
        return (abs(first) > tiny) & (abs(second) > tiny) & (first * second < 0)
