"""Text on a picture: its place, its lines, and how wide it is, in pixels, without a drawing library.

>>> wrap("one two three", 7.0, 1.0, lambda text, size, bold: float(len(text)))
['one two', 'three']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roofline.charts.boxes import Box, Segment

#: Sizes of text in pixels.
TITLE, SUBTITLE, TEXT, SMALL = 15.0, 11.5, 11.0, 9.5

#: Space round the picture and between its parts, in pixels.
MARGIN, GAP = 14.0, 6.0

LINE_SPACING = 1.3

#: The stroke that stands before an entry of the key, and the space after it, in pixels.
SWATCH, SWATCH_GAP = 22.0, 5.0

#: Width in pixels of a text of a given size; bold or not.
Measure = Callable[[str, float, bool], float]

#: The box of a text that is not placed yet.
NOWHERE = Box(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Text:
    """Lines of text in their place: ``x`` and ``y`` are the middle of the block, or of the edge ``align`` names.

    ``swatch`` is the colour and the dash of a stroke to the left of it, ``leader`` a thin line to what it names.
    """

    lines: tuple[str, ...]
    x: float
    y: float
    size: float
    align: str = "center"
    bold: bool = False
    angle: float = 0.0
    role: str = "text"
    series: int | None = None
    leader: Segment | None = None
    swatch: tuple[int, int] | None = None
    box: Box = NOWHERE


def block(lines: Sequence[str], size: float, measure: Measure, *, bold: bool = False) -> tuple[float, float]:
    """Width and height of lines of text."""
    return max((measure(line, size, bold) for line in lines), default=0.0), size * LINE_SPACING * len(lines)


def wrap(text: str, width: float, size: float, measure: Measure, *, bold: bool = False) -> list[str]:
    """Break text between words into lines no wider than ``width``; a word that is wider stands alone."""
    lines: list[str] = []
    for word in filter(None, text.split(" ")):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and measure(longer, size, bold) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
