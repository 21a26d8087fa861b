"""Rectangles and segments one by one, what :mod:`roofline.charts.placement` is held against; contrasts of colours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofline.charts.placement import TOUCH, Box, Segment, Vertex, segment_box


def overlap(first: Box, second: Box) -> bool:
    """Whether two rectangles share area (separating axes).

    >>> overlap(Box(0, 0, 10, 2), Box(0, 4, 10, 2)), overlap(Box(0, 0, 10, 2), Box(0, 4, 10, 2, angle=90))
    (False, True)
    """
    across, up = abs(first.x - second.x) * 2, abs(first.y - second.y) * 2
    if first.angle == second.angle == 0:
        return across < first.width + second.width - TOUCH and up < first.height + second.height - TOUCH
    if max(across, up) >= first.width + first.height + second.width + second.height:
        return False
    a, b = first.corners(), second.corners()
    return not any(_separates(axis, a, b) for box in (first, second) for axis in _axes(box))


def crosses(segment: Segment, box: Box) -> bool:
    """Whether a segment runs through a rectangle."""
    return overlap(segment_box(segment), box)


def crosses_line(first: Segment, second: Segment) -> bool:
    """Whether two segments cross; a segment that only starts on the other does not.

    >>> crosses_line(((0, 0), (2, 2)), ((0, 2), (2, 0))), crosses_line(((0, 0), (2, 2)), ((0, 0), (2, 0)))
    (True, False)
    """
    return _sides(first, second) < 0 and _sides(second, first) < 0


def _sides(line: Segment, ends: Segment) -> float:
    """Negative where two ends lie on different sides of a line, 0 where one lies on it."""
    (x0, y0), (x1, y1) = line
    first, second = ((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) for x, y in ends)
    tiny = 1e-6 * math.hypot(x1 - x0, y1 - y0)
    return 0.0 if min(abs(first), abs(second)) <= tiny else first * second


def _axes(box: Box) -> tuple[Vertex, Vertex]:
    turn = math.radians(box.angle)
    return (math.cos(turn), math.sin(turn)), (-math.sin(turn), math.cos(turn))


def _separates(axis: Vertex, a: Sequence[Vertex], b: Sequence[Vertex]) -> bool:
    along_a = [x * axis[0] + y * axis[1] for x, y in a]
    along_b = [x * axis[0] + y * axis[1] for x, y in b]
    return max(along_a) <= min(along_b) + TOUCH or max(along_b) <= min(along_a) + TOUCH


def contrast(first: str, second: str) -> float:
    """Contrast of two colours, 1 (the same) to 21 (black on white).

    Source: WCAG 2.1, definitions of contrast ratio and relative luminance.

    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
