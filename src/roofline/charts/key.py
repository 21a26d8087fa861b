"""The key below a picture: which stroke is which chip, which number which operation, and labels that found no place.

>>> from roofline.charts.marks import Line
>>> roof = [Line("h100 hbm", (1.0, 2.0), (1.0, 2.0), "slope", 0, 0, "hbm 3.35 TB/s", "h100"),
...         Line("a100 hbm", (1.0, 2.0), (1.0, 2.0), "slope", 1, 1, "hbm 2.04 TB/s", "a100")]
>>> chips = groups(roof)
>>> [(item.group, item.series, item.dash) for item in chips]
[('h100', 0, 0), ('a100', 1, 1)]
>>> [item.shown for item in merged([*chips, of_line(roof[1])])]
['h100', 'a100: hbm 2.04 TB/s']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roofline.charts.marks import Bar, Line, Ridge
from roofline.charts.text import MARGIN, SMALL, SWATCH, SWATCH_GAP, Measure, Text, wrap

#: Space between two entries in a row, in pixels.
ENTRY_GAP = 16.0


@dataclass(frozen=True, slots=True)
class KeyItem:
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


def groups(lines: Sequence[Line]) -> list[KeyItem]:
    """An entry for each chip of several, in the stroke of its ceilings, or of its first line."""
    members = [line for line in lines if line.group]
    first = {line.group: line for line in reversed(members)}
    style = first | {line.group: line for line in members if line.role == "ceiling"}
    return [KeyItem("", style[name].series, style[name].dash, name) for name in dict.fromkeys(m.group for m in members)]


def parts(bars: Sequence[Bar]) -> list[KeyItem]:
    """An entry for each part that bars are made of."""
    return list(dict.fromkeys(KeyItem(bar.part, bar.series) for bar in bars if bar.part))


def of_line(line: Line) -> KeyItem:
    """The entry of a line whose label found no place: its full text, its figure included."""
    return KeyItem(line.text or line.label, line.series, line.dash, line.group)


def of_ridge(ridge: Ridge) -> KeyItem:
    """The entry of a ridge whose number found no place."""
    return KeyItem(ridge.named)


def merged(items: Sequence[KeyItem]) -> list[KeyItem]:
    """Put the entries of one chip in one stroke together."""
    found: dict[KeyItem, KeyItem] = {}
    for item in items:
        home = replace(item, text="") if item.group else item
        text = ", ".join(filter(None, (found.get(home, home).text, item.text))) if item.group else item.text
        found[home] = replace(item, text=text)
    return list(found.values())


def key_rows(items: Sequence[KeyItem], room: float, measure: Measure) -> list[list[Text]]:
    """Set the entries in rows, as many in each as ``room`` holds; one longer than a row is broken into several."""
    rows: list[list[Text]] = []
    used = 0.0
    for item in merged(items):
        swatch = None if item.series is None else (item.series, item.dash)
        indent = 0.0 if swatch is None else SWATCH + SWATCH_GAP
        for number, line in enumerate(wrap(item.shown, room - indent, SMALL, measure)):
            width = indent + measure(line, SMALL, False)
            if number or not rows or used + width > room:
                rows.append([])
                used = 0.0
            x = MARGIN + used + indent
            rows[-1].append(Text((line,), x, 0, SMALL, "left", swatch=None if number else swatch))
            used += width + ENTRY_GAP
    return rows
