"""Where everything on a picture goes, in pixels from its lower left corner: margins, ticks and placed labels.

Knows no drawing library: how wide a text is comes in as a function, so that the same layout holds for SVG, PNG and
for the test that no two labels overlap.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from roofline.charts.placement import (
    Box,
    Boxes,
    Candidate,
    Segment,
    Segments,
    Vertex,
    place,
    places_around,
    places_beside,
    segment_box,
)
from roofline.charts.specification import (
    NEUTRAL,
    Axis,
    HeatCell,
    Line,
    Mark,
    Point,
    Region,
    Ridge,
    Specification,
    axis_title,
    ticks,
)
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
    """Break text between words into lines no wider than ``width``; a word that is wider is broken too.

    >>> wrap("one two three", 7.0, 1.0, lambda text, size, bold: float(len(text)))
    ['one two', 'three']
    """
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

    A chip has the stroke of its ceilings, or of its first line. Labels that found no place stand in it too:

    >>> roof = [Line("h100 hbm", (1.0, 2.0), (1.0, 2.0), "slope", 0, 0, "hbm 3.35 TB/s", "h100"),
    ...         Line("a100 hbm", (1.0, 2.0), (1.0, 2.0), "slope", 1, 1, "hbm 2.04 TB/s", "a100")]
    >>> axis = Axis("", "", "log", (1.0, 2.0))
    >>> chips = chart_key(Specification("roofline", "", axis, axis, tuple(roof)))
    >>> [(entry.group, entry.series, entry.dash) for entry in chips]
    [('h100', 0, 0), ('a100', 1, 1)]
    >>> [entry.shown for entry in merged_by_chip([*chips, line_entry(roof[1])])]
    ['h100', 'a100: hbm 2.04 TB/s']
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


MARKER = 11.0

#: How far the pale band of the lower bound reaches to either side of its line, and how much of that labels keep free.
BAND, BAND_KEPT = 4.0, 2.5

#: How far a label may stand from its point, and from its ridge, in pixels.
REACH, RIDGE_REACH = 160.0, 70.0

#: Names a chart may carry, and those of them that may stand away from their points, joined by a thin line.
MOST_NAMES, MOST_LEADERS = 10, 4

#: What a place costs that stands nearer to another point, as much as some pixels away from its own.
NEARER_COST = 40.0

#: Of more markers than this, those in one cell of so many pixels count as one where labels look for room.
MANY_MARKERS, CELL = 200, 8.0

#: The height a picture keeps for its plotting area with its axis titles and ticks, in pixels.
LEAST_FRAME = 150.0

#: The height of a picture for each line of its heading, in pixels.
LEAST_HEIGHT_OF_LINE = 80

#: The share of a picture's width that names of rows may take.
NAMES_SHARE = 0.42

#: Ticks of an axis.
MOST_TICKS = 9

#: Lines of small print below a picture.
MOST_NOTES = 3


@dataclass(frozen=True, slots=True)
class Frame:
    """The plotting area: its lower left corner, its size, and the axes that map data into it."""

    left: float
    bottom: float
    width: float
    height: float
    x: Axis
    y: Axis

    def at(self, x: float, y: float) -> Vertex:
        """The pixel of a pair of values."""
        return (self.left + self.width * self.x.position(x), self.bottom + self.height * self.y.position(y))

    @property
    def box(self) -> Box:
        """The area as a rectangle."""
        return Box(self.left + self.width / 2, self.bottom + self.height / 2, self.width, self.height)


@dataclass(frozen=True, slots=True)
class ChartLayout:
    """The plotting area, the texts around it, and the labels in it, none of which overlap."""

    frame: Frame
    around: tuple[Text, ...]
    labels: tuple[Text, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class _Label:
    """A label that wants a place, and what stands in the key where there is none."""

    text: Text
    candidates: tuple[Candidate, ...]
    entry: KeyEntry | None = None


def layout(chart: Specification, measure: Measure) -> ChartLayout:
    """Lay a chart out.

    Of several chips each label names its own, where there is room for that in all of them. Where a point's name finds
    no place, or too many names stand far from their points, the names become numbers, explained in a key below the
    picture.
    """
    if any(line.group for line in chart.lines):
        marks = (replace(m, text=f"{m.group} {m.text}") if isinstance(m, Line) and m.text else m for m in chart.marks)
        named = replace(chart, marks=tuple(marks))
        found, missing = _attempt(named, measure, chart_key(named))
        if not missing and _clear(found, [text.lines for text in found.labels]):
            return found
    labels = {point.text: point.label for point in chart.points if point.text and not _is_number(point.text)}
    names = list(labels)
    key = chart_key(chart)
    if len(names) <= MOST_NAMES:
        plain, well = _labelled(chart, measure, key, names)
        if well:
            return plain
    numbered = replace(chart, marks=tuple(_numbered(mark, names) for mark in chart.marks))
    numbers = [KeyEntry(f"{number} {_one_line(text, labels[text])}") for number, text in enumerate(names, 1)]
    return _labelled(numbered, measure, [*key, *numbers], ())[0]


def _labelled(
    chart: Specification, measure: Measure, key: Sequence[KeyEntry], names: Sequence[str]
) -> tuple[ChartLayout, bool]:
    """Move labels without a place to the key, which takes room from the others, until each stands here or there.

    It does not go well where one of ``names`` would have to move, is not clear, or lies across a line.
    """
    lines = [tuple(name.split("\n")) for name in names]
    while True:
        found, missing = _attempt(chart, measure, key)
        well = _clear(found, lines) and not any(entry.text in names for entry in missing)
        named = Boxes.of([text.box for text in found.labels if text.lines in lines])
        well &= not any(named.overlap(segment_box(line)).any() for line in _segments(chart, found.frame))
        if not missing or not well:
            return found, well
        key = [*key, *missing]


def _clear(found: ChartLayout, names: Sequence[tuple[str, ...]]) -> bool:
    """Whether few names stand far from what they name, and none with a thin line through another label."""
    boxes = Boxes.of([text.box for text in found.labels])
    led = [text.leader for text in found.labels if text.leader is not None and text.lines in names]
    return len(led) <= MOST_LEADERS and not any(boxes.overlap(segment_box(leader)).any() for leader in led)


def _numbered(mark: Mark, names: Sequence[str]) -> Mark:
    if isinstance(mark, Point) and mark.text in names:
        return replace(mark, text=str(names.index(mark.text) + 1))
    return mark


def _is_number(text: str) -> bool:
    """Whether a name is a number, which a key could not explain: of a batch, or of an entry there."""
    return text.replace(",", "").isdigit()


def _attempt(chart: Specification, measure: Measure, key: Sequence[KeyEntry]) -> tuple[ChartLayout, list[KeyEntry]]:
    """Lay out with this key and every label that is not in it; return also the entries of those without a place."""
    frame, texts, x_ticks, y_ticks = _surroundings(chart, measure, key)
    asked = [label for label in _labels(chart, frame, measure) if label.entry not in key]
    found = place(
        [label.candidates for label in asked],
        inside=_inside(chart, frame),
        taken=_markers(chart, frame),
        lines=list(_segments(chart, frame)),
        faint=[ridge_drop(ridge, frame) for ridge in chart.ridges],
    )
    labels = tuple(
        replace(label.text, x=c.box.x, y=c.box.y, angle=c.box.angle, leader=c.leader, box=c.box)
        for label, c in zip(asked, found, strict=True)
        if c is not None
    )
    missing = dict.fromkeys(
        label.entry for label, c in zip(asked, found, strict=True) if c is None and label.entry is not None
    )
    return ChartLayout(frame, tuple(texts), labels, x_ticks, y_ticks), list(missing)


def _inside(chart: Specification, frame: Frame) -> Box:
    """Where labels may stand: cells and rows of bars reach to the edges, figures beside bars to that of the picture."""
    if not chart.bars:
        margin = 0 if chart.cells else 4
        return Box(frame.box.x, frame.box.y, frame.width - margin, frame.height - margin)
    beyond = chart.width - GAP - frame.left - frame.width
    return Box(frame.box.x + beyond / 2, frame.box.y, frame.width + beyond - 4, frame.height)


def _markers(chart: Specification, frame: Frame) -> list[Box]:
    """Where no label may stand: the markers, of very many one for each cell."""
    places = [frame.at(x, y) for x, y in _marked(chart)]
    if len(places) > MANY_MARKERS:
        places = list({(round(x / CELL), round(y / CELL)): (x, y) for x, y in places}.values())
    return [Box(x, y, MARKER, MARKER) for x, y in places]


def _marked(chart: Specification) -> Iterator[Vertex]:
    """Where markers stand, in data units."""
    yield from ((point.x, point.y) for point in chart.points)
    yield from ((ridge.x, ridge.y) for ridge in chart.ridges)


def _surroundings(
    chart: Specification, measure: Measure, key: Sequence[KeyEntry]
) -> tuple[Frame, list[Text], tuple[tuple[float, str], ...], tuple[tuple[float, str], ...]]:
    """Title, ticks, axis titles, key and notes, and the frame that is left between them."""
    room = chart.width - 2 * MARGIN
    texts: list[Text] = []
    top = chart.height - MARGIN
    heading = [
        *((t, TITLE, True, "text") for t in wrap(chart.title, room, TITLE, measure, bold=True)),
        *((t, SUBTITLE, False, "muted") for t in wrap(chart.subtitle, room, SUBTITLE, measure)),
    ]
    most = max(2, chart.height // LEAST_HEIGHT_OF_LINE)
    if len(heading) > most:
        line, size, bold, role = heading[most - 1]
        while measure(f"{line} …", size, bold) > room:
            line = line[:-1]
        heading = [*heading[: most - 1], (f"{line} …", size, bold, role)]
    for line, size, bold, role in heading:
        texts.append(Text((line,), MARGIN, top - size * LINE_SPACING / 2, size, "left", bold, role=role))
        top -= size * LINE_SPACING + (2 if bold else 0)
    bottom = MARGIN
    least = max(LEAST_FRAME, 0 if chart.cells else TEXT * LINE_SPACING * (len(chart.y.names) + 4))
    rows = int((top - bottom - least) / (SMALL * LINE_SPACING))
    named = key_rows(key, room, measure)
    lines = _whole_notes(chart.notes, room, min(MOST_NOTES, rows - len(named)), measure)
    notes = [[Text((line,), MARGIN, 0, SMALL, "left", role="muted")] for line in lines]
    for number, row in reversed(list(enumerate(_cut([*named, *notes], rows), 1))):
        bottom += GAP / 2 if notes and number == len(named) else 0
        texts += [replace(text, y=bottom + SMALL * LINE_SPACING / 2) for text in row]
        bottom += SMALL * LINE_SPACING
    bottom += GAP if bottom > MARGIN else 0
    texts.append(Text((axis_title(chart.x),), 0, bottom + TEXT * LINE_SPACING / 2, TEXT, role="muted"))
    bottom += TEXT * LINE_SPACING + GAP / 2
    x_row = bottom + TEXT * LINE_SPACING / 2
    bottom += TEXT * LINE_SPACING + GAP / 2
    top -= GAP - 1
    if chart.y.label:
        texts.append(Text((axis_title(chart.y),), MARGIN, top - TEXT * LINE_SPACING / 2, TEXT, "left", role="muted"))
        top -= TEXT * LINE_SPACING * 1.5  # a tick at the upper end reaches half a line above it
    y_ticks = ticks(chart.y, most=min(MOST_TICKS, max(3, int((top - bottom) / 34))))
    if chart.y.names:
        y_ticks = _row_names(y_ticks, top - bottom, room * NAMES_SHARE, measure)
    left = MARGIN + max((measure(text, TEXT, False) for _, text in y_ticks), default=0.0) + GAP
    x_ticks = ticks(chart.x, most=min(MOST_TICKS, max(3, int((chart.width - left) / 75))))
    right = chart.width - MARGIN - max((measure(text, TEXT, False) / 2 for _, text in x_ticks[-1:]), default=0.0)
    if chart.x.names:
        right = chart.width - MARGIN
        widest = max(measure(text, TEXT, False) for _, text in x_ticks) + 2 * GAP
        x_ticks = tuple(x_ticks[:: max(1, math.ceil(widest * len(x_ticks) / (right - left)))])
    frame = Frame(left, bottom, right - left, top - bottom, chart.x, chart.y)
    x_ticks = _apart(x_ticks, frame, measure)
    texts = [replace(t, x=left + frame.width / 2) if t.align == "center" else t for t in texts]
    for value, text in x_ticks:
        texts.append(Text((text,), frame.at(value, chart.y.limits[0])[0], x_row, TEXT, role="text"))
    for value, text in y_ticks:
        y = frame.at(chart.x.limits[0], value)[1]
        texts.append(Text((text,), left - GAP, y, TEXT, "right", role="text"))
    return frame, [_boxed(t, measure) for t in texts], x_ticks, y_ticks


def _apart(found: tuple[tuple[float, str], ...], frame: Frame, measure: Measure) -> tuple[tuple[float, str], ...]:
    """Ticks whose texts do not touch: all of them, else the powers of ten, else every other one."""
    powers = tuple(each for each in found if frame.x.scale == "log" and math.log10(each[0]).is_integer())
    for kept in (found, powers, found[::2]):
        ends = [(frame.at(at, 1.0)[0], measure(text, TEXT, False) / 2 + GAP / 4) for at, text in kept]
        if len(kept) > 1 and all(left + half < right - beyond for (left, half), (right, beyond) in pairwise(ends)):
            return kept
    return found


def _row_names(
    names: Sequence[tuple[float, str]], height: float, room: float, measure: Measure
) -> tuple[tuple[float, str], ...]:
    """Names of rows, cut to the room there is; of rows that are too narrow for text, every so many.

    A path is cut at its front, at a dot where it has one, as its end says more; words at their end.

    >>> short = _row_names([(0, "layers.0.up_proj"), (1, "decode (batch 600)")], 99.0, 12.0, lambda t, s, b: len(t))
    >>> [name for _, name in short]
    ['…0.up_proj', 'decode (bat…']
    """
    every = max(1, math.ceil(TEXT * LINE_SPACING * len(names) / height))
    found = []
    for row, name in names[::every]:
        shown = name
        while len(shown) > 4 and measure(shown, TEXT, False) > room:
            path = "" if " " in name else shown.partition(".")[2]
            shown = f"…{path}" if path else f"{shown[:-2]}…" if " " in name else f"…{shown[2:]}"
        found.append((row, shown))
    return tuple(found)


def _boxed(text: Text, measure: Measure) -> Text:
    width, height = block(text.lines, text.size, measure, bold=text.bold)
    before = 0.0 if text.swatch is None else SWATCH + SWATCH_GAP
    shift = {"left": width / 2, "right": -width / 2}.get(text.align, 0.0) - before / 2
    return replace(text, box=Box(text.x + shift, text.y, width + before, height))


def _labels(chart: Specification, frame: Frame, measure: Measure) -> Iterator[_Label]:
    lines = Segments(list(_segments(chart, frame)))
    paths = [_path(line, frame) for line in chart.lines]
    for line, path in zip(chart.lines, paths, strict=True):
        if line.text:
            beside = Segments([pair for other in paths if other is not path for pair in pairwise(other)])
            yield _line_label(line, frame, lines, beside, measure)
    named = [(_stem(point, frame), point) for point in chart.points if point.text]
    ridges = [(at, at) for at in (frame.at(ridge.x, ridge.y) for ridge in chart.ridges if ridge.text)]
    for (at, top), point in named:
        entry = None if _is_number(point.text) else KeyEntry(point.text)
        label = _mark_label(point.text, at, point.series, REACH, entry, measure)
        others = [other for other, _ in named if other != (at, top)] if len(named) <= MOST_NAMES else []
        yield replace(label, candidates=tuple(_by_its_own(label.candidates, at, [*others, *ridges], lines)))
    for ridge in chart.ridges:
        if ridge.text:
            at, entry = frame.at(ridge.x, ridge.y), KeyEntry(ridge.key_text)
            label = _mark_label(ridge.text, at, ridge.series, RIDGE_REACH, entry, measure)
            others = [other for other, _ in named] if len(named) <= MOST_NAMES else []
            yield replace(label, candidates=tuple(_by_its_own(label.candidates, at, others, Segments([]))))
    strokes = Boxes.of([segment_box(each) for each in _segments(chart, frame)]) if chart.regions else Boxes.of([])
    for region in chart.regions:
        yield from _region_label(region, frame, strokes, measure)
    yield from _cell_labels(chart.cells, frame, measure)
    across = [frame.at(line.x[0], line.y[0])[0] for line in chart.lines] if chart.bars else []
    for bar in chart.bars:
        if bar.text:
            width, height = block((bar.text,), TEXT, measure)
            x, y = frame.at(bar.x1, bar.row + 0.5)
            x = max([x, *(limit for limit in across if x < limit < x + 2 * GAP + width)])
            yield _Label(
                Text((bar.text,), 0, 0, TEXT, role="label"),
                (Candidate(Box(x + GAP + width / 2, y, width, height), 0.0),),
            )


def _cell_labels(cells: Sequence[HeatCell], frame: Frame, measure: Measure) -> Iterator[_Label]:
    """Texts in the middle of their cells; where each cell has one, on as many lines as fit it, or else of none."""
    told = [cell for cell in cells if cell.text]
    each = [tuple(cell.text.split("\n")) for cell in told]
    if len(told) == len(cells):
        (left, top), (right, bottom) = frame.at(0, 1), frame.at(1, 0)
        broken = [tuple(" ".join(lines).split(" ")) for lines in each]
        sized = ((lines, [block(one, TEXT, measure) for one in lines]) for lines in (each, broken))
        each = next(
            (lines for lines, sizes in sized if all(w < right - left and h < abs(top - bottom) for w, h in sizes)), []
        )
    for cell, lines in zip(told, each, strict=False):
        width, height = block(lines, TEXT, measure)
        x, y = frame.at(cell.column + 0.5, cell.row + 0.5)
        half = width / 2 + GAP if len(told) < len(cells) else 0.0  # within the picture
        x = min(max(x, frame.left + half), max(frame.left + frame.width - half, frame.left + half))
        yield _Label(Text(lines, 0, 0, TEXT, role="text"), (Candidate(Box(x, y, width, height), 0.0),))


def _mark_label(text: str, at: Vertex, series: int, reach: float, entry: KeyEntry | None, measure: Measure) -> _Label:
    lines = tuple(text.split("\n"))
    width, height = block(lines, TEXT, measure)
    places = tuple(places_around(at, width, height, reach=reach))
    return _Label(Text(lines, 0, 0, TEXT, series=series, role="label"), places, entry)


def _by_its_own(
    places: Sequence[Candidate], at: Vertex, others: Sequence[Segment], lines: Segments
) -> Iterator[Candidate]:
    """Places round a point; one as near to another point, its gap or a ridge, and without a leader would seem its name.

    So would one beyond a line that does not go through the point.

    >>> [own, beside] = [Candidate(Box(x, 0, 10, 4), 1.0) for x in (-8, 8)]
    >>> none = Segments([])
    >>> [each.cost for each in _by_its_own([own, beside], (0, 0), [((16, -9), (16, 9))], none)]
    [1.0, 41.0]
    >>> [each.cost for each in _by_its_own([own, beside], (0, 0), [], Segments([((2, -9), (2, 9))]))]
    [1.0, 41.0]
    """
    uprights = [(x, low, high) for (x, low), (_, high) in others]
    beyond = lines.crossed_by(Segments([(at, each.box.nearest(at)) for each in places])).any(1)
    for each, is_beyond in zip(places, beyond.tolist(), strict=True):
        room = math.dist(each.box.nearest(at), at)
        nearest = ((x, min(max(each.box.y, min(ends)), max(ends))) for x, *ends in uprights)
        seems = each.leader is None and (
            any(math.dist(each.box.nearest(other), other) <= room for other in nearest) or is_beyond
        )
        yield replace(each, cost=each.cost + NEARER_COST) if seems else each


def _line_label(line: Line, frame: Frame, lines: Segments, others: Segments, measure: Measure) -> _Label:
    text = Text((line.text,), 0, 0, TEXT, series=line.series, role="label")
    width, height = block((line.text,), TEXT, measure)
    path = clipped([frame.at(x, y) for x, y in zip(line.x, line.y, strict=True)], frame.box)
    found: list[Candidate] = []
    if line.role in ("slope", "ceiling"):
        for start, end in pairwise(path):
            for gap in (3.5, MARKER / 2 + 2):
                found += places_beside(start, end, width, height, best=0.35 if line.role == "slope" else 1.0, gap=gap)
    else:
        stations = _spread(path, 14)
        for index, vertex in enumerate(stations):
            late = 2.0 * (len(stations) - 1 - index)
            near = _by_its_own(places_around(vertex, width, height, reach=8.0, gap=5.0), vertex, (), lines)
            found += [replace(each, cost=each.cost + late, clear=True) for each in near]
        boxes, own = [each.box for each in found], Segments(list(pairwise(path)))
        if boxes:  # nearer to another line it would be taken for that line's
            away = own.distance(boxes) > others.distance(boxes) + 0.5
            found = [each for each, far in zip(found, away, strict=True) if not far]
    return _Label(text, tuple(found), line_entry(line))


def _region_label(region: Region, frame: Frame, strokes: Boxes, measure: Measure) -> Iterator[_Label]:
    """A label in its region, on as few lines as stand clear of the strokes of the chart, at its foot if they can."""
    low, high = max(region.x0, frame.x.limits[0]), min(region.x1, frame.x.limits[1])
    if low >= high:
        return
    left, right = (frame.at(x, frame.y.limits[0])[0] for x in (low, high))
    room = right - left - 8
    upright = any(measure(word, SMALL, False) > room for word in words(region.label))
    shapes = [[region.label]] if upright else [wrap(region.label, room / n, SMALL, measure) for n in (1, 1.4, 2)]
    found = [_places_in_region(lines, left, right, upright, frame, measure) for lines in shapes]
    clear = (i for i, places in enumerate(found) if any(not strokes.overlap(each.box).any() for each in places))
    best = next(clear, 0)
    yield _Label(Text(tuple(shapes[best]), 0, 0, SMALL, role=region.color), found[best], KeyEntry(region.label))


def _places_in_region(
    lines: Sequence[str], left: float, right: float, upright: bool, frame: Frame, measure: Measure
) -> tuple[Candidate, ...]:
    """From the foot of a region upwards, in its middle or at one of its sides; none where it is too narrow."""
    width, height = block(lines, SMALL, measure)
    tall, aside = (width, height / 2) if upright else (height, width / 2)
    if upright and height > right - left + GAP:  # beside so narrow a region it would stand in others
        return ()
    rows = [frame.bottom + 5 + tall / 2 + 12 * step for step in range(12)]
    across = [(0.0, (left + right) / 2), *(() if upright else ((8.0, right - 4 - aside), (8.0, left + 4 + aside)))]
    return tuple(
        Candidate(Box(x, y, width, height, 90.0 * upright), 4.0 * i + cost)
        for i, y in enumerate(rows)
        for cost, x in across
    )


def _segments(chart: Specification, frame: Frame) -> Iterator[Segment]:
    """What labels had better not cross: the lines, thinned out, and the gaps of measured points to their roof."""
    for line in chart.lines:
        path = _path(line, frame)
        yield from pairwise(path)
        if line.role == "lower" and line.text:
            yield from (pair for up in (BAND_KEPT, -BAND_KEPT) for pair in pairwise([(x, y + up) for x, y in path]))
    yield from (_stem(point, frame) for point in chart.points if point.roof is not None and point.text)


def _path(line: Line, frame: Frame) -> list[Vertex]:
    """The line as far as it lies in the frame, thinned out."""
    path = clipped([frame.at(x, y) for x, y in zip(line.x, line.y, strict=True)], frame.box)
    return path if len(path) <= 40 else _spread(path, 40)


def _stem(point: Point, frame: Frame) -> Segment:
    """The gap of a measured point to its roof; a point without one is its own."""
    return frame.at(point.x, point.y), frame.at(point.x, point.y if point.roof is None else point.roof)


def clipped(path: Sequence[Vertex], box: Box) -> list[Vertex]:
    """Cut a path to the part that lies in a box; what leaves and comes back is joined along the way.

    >>> clipped([(-10.0, 0.0), (10.0, 0.0)], Box(0, 0, 10, 10))
    [(-5.0, 0.0), (5.0, 0.0)]
    """
    found: list[Vertex] = []
    for start, end in pairwise(path):
        piece = _clip(start, end, box)
        if piece is not None:
            found += [v for v in piece if not found or v != found[-1]]
    return found


def _clip(start: Vertex, end: Vertex, box: Box) -> Segment | None:
    """Liang and Barsky's line clipping, ACM Transactions on Graphics 3(1), 1984."""
    first, last = 0.0, 1.0
    dx, dy = end[0] - start[0], end[1] - start[1]
    for step, room in (
        (-dx, start[0] - (box.x - box.width / 2)),
        (dx, box.x + box.width / 2 - start[0]),
        (-dy, start[1] - (box.y - box.height / 2)),
        (dy, box.y + box.height / 2 - start[1]),
    ):
        if step == 0:
            if room < 0:
                return None
        elif step < 0:
            first = max(first, room / step)
        else:
            last = min(last, room / step)
    if first > last:
        return None
    return (start[0] + first * dx, start[1] + first * dy), (start[0] + last * dx, start[1] + last * dy)


def _spread(path: Sequence[Vertex], count: int) -> list[Vertex]:
    """Take ``count`` vertices evenly along a path."""
    if len(path) < 2:
        return list(path)
    lengths = [0.0]
    for a, b in pairwise(path):
        lengths.append(lengths[-1] + math.dist(a, b))
    found, at = [], 0
    for step in range(count):
        target = lengths[-1] * step / (count - 1)
        while at < len(path) - 2 and lengths[at + 1] < target:
            at += 1
        stretch = lengths[at + 1] - lengths[at]
        part = (target - lengths[at]) / stretch if stretch else 0.0
        (x0, y0), (x1, y1) = path[at], path[at + 1]
        found.append((x0 + part * (x1 - x0), y0 + part * (y1 - y0)))
    return found


def _whole_notes(notes: Sequence[str], room: float, most: int, measure: Measure) -> list[str]:
    """At most so many lines of as many notes as have room, whole; of the rest how many there are."""
    for shown in range(len(notes), 0, -1):
        rest = len(notes) - shown
        more = [f"and {rest} more, which the answer lists"] if rest else []
        lines = wrap("; ".join([*notes[:shown], *more]), room, SMALL, measure)
        if len(lines) <= most:
            return lines
    return wrap(f"{len(notes)} notes, which the answer lists", room, SMALL, measure) if notes else []


def _cut(rows: list[list[Text]], most: int) -> list[list[Text]]:
    """Keep the first rows of the small print; a chart's notes and marks hold it all."""
    if len(rows) <= most or most < 1:
        return rows[: max(most, 0)]
    *before, last = rows[most - 1]
    return [*rows[: most - 1], [*before, replace(last, lines=(f"{last.lines[0].rpartition(' ')[0]} …",))]]


def _one_line(text: str, label: str) -> str:
    """A point's text in the key, with a comma between its name and what stands below that."""
    line = text.replace("\n", " ")
    return f"{label},{line[len(label) :]}" if line.startswith(f"{label} ") else line


def ridge_drop(ridge: Ridge, frame: Frame) -> Segment:
    """The thin line from a ridge down to the horizontal axis."""
    x, y = frame.at(ridge.x, ridge.y)
    return (x, y), (x, frame.bottom)
