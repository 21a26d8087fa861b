"""Text on a picture and the key below it: lines, places and widths in pixels, without a drawing library.

>>> wrap("one two three", 7.0, 1.0, lambda text, size, bold: float(len(text)))
['one two', 'three']

The key says which stroke is which chip, which number which operation, and holds labels that found no place:

>>> roof = [Line("h100 hbm", (1.0, 2.0), (1.0, 2.0), "slope", 0, 0, "hbm 3.35 TB/s", "h100"),
...         Line("a100 hbm", (1.0, 2.0), (1.0, 2.0), "slope", 1, 1, "hbm 2.04 TB/s", "a100")]
>>> from roofline.charts.specification import Axis
>>> axis = Axis("", "", "log", (1.0, 2.0))
>>> chips = chart_key(Specification("roofline", "", axis, axis, tuple(roof)))
>>> [(entry.group, entry.series, entry.dash) for entry in chips]
[('h100', 0, 0), ('a100', 1, 1)]
>>> [entry.shown for entry in merged_by_chip([*chips, line_entry(roof[1])])]
['h100', 'a100: hbm 2.04 TB/s']
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from roofline.charts.placement import Box, Segment
from roofline.charts.specification import NEUTRAL, Line, Specification
from roofline.frozen import dataclass, replace

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
    """Break text between words into lines no wider than ``width``; a word that is wider is broken too."""
    lines: list[str] = []
    # words are measured once: only where their sum is near the width, to a fifth of a letter a word, is a line measured
    gap = measure("x x", size, bold) - 2 * measure("x", size, bold)
    about = slack = 0.0
    for word in _words(text, width, size, measure, bold):
        alone = measure(word, size, bold)
        about, slack = about + gap + alone, slack + size / 5
        longer = f"{lines[-1]} {word}" if lines else word
        fits = about + slack <= width or (about - slack <= width and measure(longer, size, bold) <= width)
        if lines and fits:
            lines[-1] = longer
        else:
            lines.append(word)
            about, slack = alone, 0.0
    return lines


#: A word of a text: what stands between blanks, or a number with its unit.
_WORD = re.compile(r"\d(?:[\d.,]*\d)? [A-Za-zµ][^ \t-\r]*|[^ \t-\r]+")


def words(text: str) -> list[str]:
    """The words of a text; a number and its unit are one.

    >>> words("hbm at 1.5 TB/s of 2,048 tokens, a half")
    ['hbm', 'at', '1.5 TB/s', 'of', '2,048 tokens,', 'a', 'half']
    """
    return _WORD.findall(text)


def _words(text: str, width: float, size: float, measure: Measure, bold: bool) -> Iterator[str]:
    """The words of a text; one that is wider than a line in pieces that are not.

    >>> list(_words("one\\ttwo-three", 4.0, 1.0, lambda text, size, bold: float(len(text)), False))
    ['one', 'two-', 'thre', 'e']
    """
    for word in words(text):
        rest = word
        while len(rest) > 1 and measure(rest, size, bold) > width:
            at = bisect_left(range(2, len(rest)), True, key=lambda end: measure(rest[:end], size, bold) > width) + 1
            yield rest[:at]
            rest = rest[at:]
        yield rest


#: Space between two entries in a row, in pixels.
ENTRY_GAP = 16.0


#: The dash of a swatch that is a block, as of a bar.
BLOCK = -1

#: The dash of a swatch that is a striped block, as of what does not fit.
STRIPES = -2

#: The dash of a swatch that is a block in a shade of heat maps, and of one for their cells that do not fit.
SHADE, PALE_STRIPES = -3, -4


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """An entry: a text, the chip it belongs to, and the colour and dash of the stroke before it.

    Without a ``series`` there is no stroke.
    """

    text: str
    series: int | None = None
    dash: int = 0
    group: str = ""

    @property
    def shown(self) -> str:
        """What the key says: ``a100: hbm 2.04 TB/s``."""
        return ": ".join(filter(None, (self.group, self.text)))


def chart_key(chart: Specification) -> list[KeyEntry]:
    """The key of a chart: its chips where there are several, the parts of its bars or shades, the lines across them.

    A chip has the stroke of its ceilings, or of its first line.
    """
    members = [line for line in chart.lines if line.group]
    style = {line.group: line for line in reversed(members)}
    style |= {line.group: line for line in members if line.role == "ceiling"}
    chips = dict.fromkeys(line.group for line in members)
    entries = [KeyEntry("", style[chip].series, style[chip].dash, chip) for chip in chips]
    entries += dict.fromkeys(
        KeyEntry(bar.part, bar.series, BLOCK) for bar in chart.bars if bar.part not in ("", chart.x.label)
    )
    cells = sorted(chart.cells, key=lambda each: each.shade)
    entries += dict.fromkeys(KeyEntry(cell.part, cell.shade, SHADE) for cell in cells if cell.part and not cell.over)
    beyond = [STRIPES for bar in chart.bars if bar.over is not None] + [PALE_STRIPES for cell in cells if cell.over]
    entries += [KeyEntry("does not fit", NEUTRAL, dash) for dash in beyond[:1]]
    borders = dict.fromkeys(line_entry(replace(line, text="")) for line in chart.lines if chart.cells)
    return [*entries, *(line_entry(line) for line in chart.lines if chart.bars), *borders]


def line_entry(line: Line) -> KeyEntry:
    """The entry of a line whose label found no place: its full text, its figure included."""
    return KeyEntry(line.text or line.label, line.series, line.dash, line.group)


def merged_by_chip(entries: Sequence[KeyEntry]) -> list[KeyEntry]:
    """Put the entries of one chip in one stroke together."""
    found: dict[KeyEntry, KeyEntry] = {}
    for entry in entries:
        home = replace(entry, text="") if entry.group else entry
        text = ", ".join(filter(None, (found.get(home, home).text, entry.text))) if entry.group else entry.text
        found[home] = replace(entry, text=text)
    return list(found.values())


def key_rows(entries: Sequence[KeyEntry], room: float, measure: Measure) -> list[list[Text]]:
    """Set the entries in rows, as many in each as ``room`` holds; one longer than a row is broken into several."""
    rows: list[list[Text]] = []
    used = 0.0
    for entry in merged_by_chip(entries):
        swatch = None if entry.series is None else (entry.series, entry.dash)
        indent = 0.0 if swatch is None else SWATCH + SWATCH_GAP
        for number, line in enumerate(wrap(entry.shown, room - indent, SMALL, measure)):
            width = indent + measure(line, SMALL, False)
            if number or not rows or used + width > room:
                rows.append([])
                used = 0.0
            x = MARGIN + used + indent
            rows[-1].append(Text((line,), x, 0, SMALL, "left", swatch=None if number else swatch))
            used += width + ENTRY_GAP
    return rows
