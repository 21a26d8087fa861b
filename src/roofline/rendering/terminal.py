"""Sections for a terminal, as renderables of rich.

>>> from roofline.sections import Column, Headline, Row, Table, figures
>>> from rich.console import Console
>>> table = Table((Column("resource"), *figures("time")), [Row(("hbm", "84.5 µs")), Row(("mxu", "43.6 µs"))])
>>> Console(width=60).print(terminal([Headline("A * B", "on TPU v5e"), table]))
A * B  on TPU v5e
  resource     time
  hbm       84.5 µs
  mxu       43.6 µs
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from roofline.frozen import NamedTuple
from roofline.sections import (
    Blank,
    Cell,
    Column,
    CrossTable,
    Headline,
    Listing,
    Pairs,
    Row,
    Section,
    Sentences,
    ShareBar,
    Table,
    Tone,
    Words,
    YesNo,
)

#: How each tone looks.
STYLES: dict[Tone, str] = {
    "": "",
    "strong": "bold",
    "quiet": "dim",
    "warning": "yellow",
    "gap": "bold yellow",
    "alert": "bold red",
}

_BAR_COLORS: dict[Tone, str] = {"": "bright_black", "alert": "red"}

#: The longest word that a column of any text has room for; a longer one is broken where there is no other way.
LONGEST_WORD = 32

#: The characters that a column of sentences has beside others; where there are fewer, it goes on below them. A short
#: phrase needs its longest word.
COMFORT = 10

#: The same of a column of dotted names.
COMFORT_OF_NAMES = 14

#: The characters that a last column of sentences has under a head; where there are fewer, each stands below its row.
COMFORT_OF_SENTENCES = 24

#: Characters that a row is set in by where it goes on below.
SET_IN = 4

#: Stands for the space between a number and its unit until lines are broken: rich breaks lines at a no-break space too.
_JOINT = "\ue000"

_UNIT = r"(?:[kKMGTPEZYmunpfµ]i?)?(?:B|FLOPs?|s|Hz|W|Wh)(?:/(?:s|B))?|[kMGT]/s|min|h|days|tokens(?:/s)?"


def terminal(sections: Iterable[Section]) -> _Page:
    """Render sections one below the other."""
    return _Page(Group(*(part for section in sections for part in _RENDERERS[type(section)](section))))


class _Page(NamedTuple):
    """What was rendered, its numbers joined with their units and its lines without blanks at the end."""

    whole: Group

    def __rich_measure__(self, console: Any, options: Any) -> Any:
        return Measurement.get(console, options, self.whole)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        for line in Segment.split_lines(console.render(self.whole, options)):
            parts = [part._replace(text=part.text.replace(_JOINT, " ")) for part in line]
            while parts and not parts[-1].text.strip():
                parts.pop()
            if parts:
                parts[-1] = parts[-1]._replace(text=parts[-1].text.rstrip())
            yield from (*parts, Segment.line())


def _joined(text: str) -> str:
    """A sentence that is broken into lines nowhere between a number and the unit behind it, or the mark before it.

    >>> _joined("? 20.6 GB/s").count(_JOINT), _joined("4.99 G/s").count(_JOINT), _joined("why? 2 reads").count(_JOINT)
    (2, 1, 0)
    """
    return re.sub(rf"(?<=\d) (?=(?:{_UNIT})(?![\w/]))|(?<=^\?) (?=\d)", _JOINT, text)


def as_text(sections: Iterable[Section], width: int = 100) -> str:
    """Write sections as plain text, without colours.

    >>> as_text([Headline("A * B", "on TPU v5e")])
    'A * B  on TPU v5e\\n'
    """
    from io import StringIO

    console = Console(width=width, file=StringIO(), record=True, highlight=False, markup=False)
    console.print(terminal(sections), crop=False)
    return console.export_text()


def _headline(section: Headline) -> Iterator[Any]:
    indent = "  " * (section.level - 1)
    beside = f"  {section.beside}" if section.beside else ""
    yield Text.assemble(indent, (section.subject, "bold"), beside)


def _sentences(section: Sentences) -> Iterator[Any]:
    for line in section.lines:
        if section.whole:
            yield Text(" " * section.indent + line, STYLES[section.tone], no_wrap=True, overflow="ignore")
        else:
            text = Text(_joined(line), STYLES[section.tone])
            yield Padding(text, (0, 0, 0, section.indent), expand=False) if section.indent else text


def _pairs(section: Pairs) -> Iterator[Any]:
    if section.pairs:
        columns = (Column(tone="quiet"), Column(wrap="words"))
        rows = [Row(pair) for pair in section.pairs]
        yield from _table(Table(columns, rows, indent=section.indent, gap=section.gap, headed=False))


def _listing(section: Listing) -> Iterator[Any]:
    if section.items:
        columns = (Column(tone=section.tone), Column(wrap="words", tone=section.tone))
        rows = [Row((section.name if index == 0 else "", item)) for index, item in enumerate(section.items)]
        yield from _table(Table(columns, rows, headed=False))


def _table(section: Table) -> Iterator[Any]:
    """Draw a table, without its empty columns."""
    filled = [
        ("  " * row.level + str(row.cells[0]), *row.cells[1:]) if row.level else row.cells for row in section.rows
    ]
    kept = [
        index
        for index, column in enumerate(section.columns)
        if (section.headed and column.name) or any(str(cells[index]) for cells in filled if index < len(cells))
    ]
    columns = [section.columns[index] for index in kept]
    head = _Line([Text(column.name) for column in columns], STYLES[section.head_tone], at_bottom=True)
    lines = [head] if section.headed else []
    for row, cells in zip(section.rows, filled, strict=True):
        drawn = [_cell(cells[i] if i < len(cells) else "", section.columns[i]) for i in kept]
        lines.append(_Line(drawn, STYLES[row.tone]))
    if lines and kept:
        yield _FittedTable(columns, lines, section.gap, section.headed, section.indent)


class _Line(NamedTuple):
    """The cells of a row as they are drawn, its style, and whether short cells stand at its bottom, as of a head."""

    cells: Sequence[Any]
    style: str
    at_bottom: bool = False


class _Width(NamedTuple):
    """The least characters that a column needs beside others, and the most: those of its longest cell."""

    least: int
    most: int


class _FittedTable(NamedTuple):
    """A table that fits the width there is: text and heads go on below between words, figures stay whole.

    Names that begin alike stand below their beginning. Where even words do not fit beside each other, bars are left
    out, then columns that can be spared; then the table goes on below with the columns that are left, named again, each
    row behind what tells it from the others.
    """

    columns: Sequence[Column]
    lines: Sequence[_Line]
    gap: int
    headed: bool
    indent: int

    def __rich_measure__(self, console: Any, options: Any) -> Any:
        widths = self._needs(console, options)
        gaps = self.gap * (len(widths) - 1)
        least, most = max(width.least for width in widths), sum(width.most for width in widths) + gaps
        return Measurement(least + self.indent, most + self.indent)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        needs, options = self._needs(console, options), options.update_width(options.max_width - self.indent)
        if sum(need.most for need in needs) + self.gap * (len(needs) - 1) <= options.max_width:
            yield from self._drawn(console, options, needs, self.gap)
            return
        narrow = self._replace(lines=_below_beginnings(self.lines))
        yield from narrow._drawn(console, options, narrow._needs(console, options), 2)

    def _drawn(self, console: Any, options: Any, needs: Sequence[_Width], gap: int) -> Iterator[Any]:
        parts = self._parts(needs, gap, options.max_width)
        for at_once in parts:
            widths = [_shared([needs[i] for i in group], options.max_width - set_in, gap) for set_in, group in at_once]
            for line in self.lines:
                style = console.get_style(line.style)
                own = [i for _, group in at_once for i in group if at_once is parts[0] or i not in parts[0][0][1]]
                if self.headed and not _says_something(line, own, len(parts)):
                    continue
                for (set_in, group), given in zip(at_once, widths, strict=True):
                    drawn = [
                        self._block(console, options, line.cells[i], i, width, style)
                        for i, width in zip(group, given, strict=True)
                    ]
                    is_empty = not any(part.text.strip() for block in drawn for row in block for part in row)
                    if set_in and (line.at_bottom or is_empty):
                        continue
                    tall = max(map(len, drawn))
                    for block, width in zip(drawn, given, strict=True):
                        blank = [[Segment(" " * width)]] * (tall - len(block))
                        block[:] = blank + block if line.at_bottom else block + blank
                    for row in zip(*drawn, strict=True):
                        yield Segment(" " * (self.indent + set_in))
                        for number, segments in enumerate(row):
                            yield from (Segment(" " * (gap if number else 0)), *segments)
                        yield Segment.line()

    def _block(self, console: Any, options: Any, cell: Any, index: int, width: int, style: Any) -> Any:
        """A cell as lines of so many characters."""
        column, style = self.columns[index], console.get_style(STYLES[self.columns[index].tone]) + style
        blank = width - cell_len(cell.plain) if isinstance(cell, Text) and not {*"\n\t"} & {*cell.plain} else -1
        if blank >= 0:  # as rich draws it, which takes ten times as long
            text = " " * blank + cell.plain if column.align == "right" else cell.plain + " " * blank
            return [[Segment(text, style + console.get_style(cell.style))]]
        if isinstance(cell, Text):
            cell = Text(_broken(cell.plain, width), cell.style)
        room = options.update(width=width, justify=column.align, overflow="fold", no_wrap=False, height=None)
        return console.render_lines(cell, room, style=style, pad=True)

    def _needs(self, console: Any, options: Any) -> list[_Width]:
        """What each column needs."""
        wide, found = options.update(width=10_000), []
        for index, column in enumerate(self.columns):
            cells = [line.cells[index] for line in self.lines]
            needs = [
                cell.__rich_measure__(console, wide)
                if isinstance(cell, Text | _DottedName)
                else Measurement.get(console, wide, cell)
                for cell in cells
            ]
            most = max(need.maximum for need in needs)
            most = max(min(most, column.most or most), column.least)
            figures = max(
                need.minimum if line.at_bottom else need.maximum for need, line in zip(needs, self.lines, strict=True)
            )
            comfort = COMFORT_OF_NAMES if column.wrap == "dots" else COMFORT if most > COMFORT_OF_SENTENCES else 0
            least = figures if column.wrap == "never" else max(*(need.minimum for need in needs), comfort)
            least = min(least, LONGEST_WORD) if column.wrap == "anywhere" else least
            found.append(_Width(min(max(least, column.least), most), most))
        return found

    def _parts(self, needs: Sequence[_Width], gap: int, room: int) -> list[list[tuple[int, list[int]]]]:
        """The parts of the table below each other: columns that stand beside each other, and how far they are set in.

        Under heads, a further part begins again with the columns that tell rows apart, and sentences that have no
        comfort beside the first part stand below its rows; without, they and other cells go on below their row.
        """

        def fits(columns: Sequence[int], set_in: int = 0) -> bool:
            return set_in + sum(needs[i].least + gap for i in columns) - gap <= room

        kept = list(range(len(needs)))
        for index in sorted(kept, key=lambda i: (not self._is_bar(i), -self.columns[i].spare)):
            if not fits(kept) and (self._is_bar(index) or self.columns[index].spare):
                kept.remove(index)
        sentences, last, alone = [], self.columns[kept[-1]], -1
        if len(kept) > 2 and last.align == "left" and last.wrap in ("words", "anywhere"):
            beside, most = _shared([needs[i] for i in kept], room, gap)[-1], needs[kept[-1]].most
            if self.headed:
                sentences = [kept.pop()] if beside < COMFORT_OF_SENTENCES < most else []
            elif beside < min(COMFORT_OF_SENTENCES, most):
                alone = kept[-1]
        named = sum(bool(str(line.cells[kept[0]]).strip()) for line in self.lines)
        below = 0 if self.headed else needs[kept[0]].most + gap if 2 * named < len(self.lines) else SET_IN
        lead = self._telling(kept) if self.headed else []
        if not all(fits([*lead, index]) for index in kept[len(lead) :]):
            lead = kept[:1]
        groups: list[tuple[int, list[int]]] = [(0, [])]
        for index in kept:
            set_in, group = groups[-1]
            if group and group != kept[:1] and (index == alone or not fits((*group, index), set_in)):
                groups.append((below, [*lead, index] if self.headed else [index]))
            else:
                group.append(index)
        if not self.headed:
            return [groups]
        return [[group, *([(SET_IN, sentences)] if sentences and group is groups[0] else [])] for group in groups]

    def _telling(self, kept: Sequence[int]) -> list[int]:
        """The fewest first columns that tell rows apart, an empty cell being as the one above; else the first alone."""
        rows = [[str(line.cells[index]) for index in kept] for line in self.lines if not line.at_bottom]
        for above, row in pairwise(rows):
            row[0] = row[0] if row[0].strip() else above[0]
        if self.columns[kept[0]].wrap != "dots":
            for count in range(1, len(kept)):
                if len({tuple(row[:count]) for row in rows}) == len(rows):
                    return [*kept[:count]]
        return [kept[0]]

    def _is_bar(self, index: int) -> bool:
        from rich.bar import Bar

        return any(isinstance(line.cells[index], Bar) for line in self.lines)


def _says_something(line: _Line, group: Sequence[int], parts: int) -> bool:
    """Whether a line has a figure in a part of its table; a line without any, as that of a beginning, has words."""
    filled = [i for i, cell in enumerate(line.cells) if i and (not isinstance(cell, Text) or cell.plain.strip())]
    return parts == 1 or not filled or not {*group}.isdisjoint(filled)


def _below_beginnings(lines: Sequence[_Line]) -> list[_Line]:
    """The same lines; names of rows in a row that begin with the same layers stand below that beginning, set in."""
    found: list[_Line] = []
    last = ""
    for line in lines:
        name, *rest = line.cells
        begin = re.match(r"(?:[^.\d ]+\.)*[^. ]*\d[^. ]*\.", name.name) if isinstance(name, _DottedName) else None
        now = begin[0] if begin else ""
        if now and now != last:
            found.append(_Line([_DottedName(now), *(Text() for _ in rest)], line.style))
        found.append(line._replace(cells=[_DottedName(f"  {name.name[len(now) :]}"), *rest]) if now else line)
        last = now
    return found


def _shared(needs: Sequence[_Width], room: int, gap: int) -> list[int]:
    """The width of each column: what it needs at most, where that fits; else the widest become narrower alike.

    >>> _shared([_Width(5, 5), _Width(4, 30), _Width(6, 20)], 40, 2)
    [5, 16, 15]

    A path in a column makes it no wider than there is room.

    >>> _shared([_Width(5, 5), _Width(60, 80)], 50, 2)
    [5, 43]
    """
    room -= gap * (len(needs) - 1)
    level = max((need.most for need in needs), default=0)

    def widths() -> list[int]:
        return [min(max(level, need.least), need.most) for need in needs]

    while level > 1 and sum(widths()) > room:
        level -= 1
    found = widths()
    for index, need in enumerate(needs):
        found[index] += min(max(room - sum(found), 0), need.most - found[index])
    widest = max(found, default=0)
    if (beyond := sum(found) - room) > 0 and widest > COMFORT_OF_SENTENCES:
        found[found.index(widest)] = max(widest - beyond, COMFORT_OF_SENTENCES)
    return found


_PIECES = re.compile(r"[^/:@._,=&?-]+[/:@._,=&?-]*|[/:@._,=&?-]+")


def _broken(text: str, width: int) -> str:
    """A text in which a word that is longer than a line, such as a path or an address, breaks behind its signs.

    >>> _broken("in NVIDIA/nccl:src/graph/tuning.cc (hwLat)", 20)
    'in NVIDIA/nccl:src/\\ngraph/tuning.cc (hwLat)'
    """

    def lines(word: re.Match[str]) -> str:
        found = [""]
        for piece in _PIECES.findall(word[0]):
            found += [""] if found[-1] and len(found[-1]) + len(piece) > width else []
            found[-1] += piece
        return "\n".join(found)

    return re.sub(rf"\S{{{width + 1},}}", lines, text)


def _cell(cell: Cell, column: Column) -> Any:
    if isinstance(cell, ShareBar):
        from rich.bar import Bar

        return Bar(1.0, 0, cell.share, color=_BAR_COLORS[cell.tone])
    cell = cell.words if isinstance(cell, YesNo) else cell
    if isinstance(cell, Words):
        return Text(cell.text, STYLES[cell.tone])
    if column.wrap == "dots":
        return _DottedName(str(cell))
    return Text(_joined(str(cell)) if column.wrap in ("words", "anywhere") else str(cell))


_RENDERERS: dict[type, Callable[[Any], Iterator[Any]]] = {
    Headline: _headline,
    Sentences: _sentences,
    Pairs: _pairs,
    Table: _table,
    CrossTable: lambda section: iter([_CrossTable(section)]),
    Listing: _listing,
    Blank: lambda section: iter([Text()]),
}


class _CrossTable(NamedTuple):
    """A table of two names; its columns become rows where they would not fit."""

    section: CrossTable

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        upright, turned = (next(_table(self.section.table(turned=turned))) for turned in (False, True))
        fits = Measurement.get(console, options.update(width=10_000), upright).maximum <= options.max_width
        yield upright if fits else turned


class _DottedName(NamedTuple):
    """A dotted name, which a narrow terminal breaks after its dots."""

    name: str

    def __rich_measure__(self, console: Any, options: Any) -> Any:
        """From its longest piece to the whole."""
        set_in = len(self.name) - len(self.name.lstrip())
        return Measurement(set_in + max(map(len, self._pieces), default=0), len(self.name))

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """As many pieces a line as there is room for, set in as the first."""
        set_in = " " * (len(self.name) - len(self.name.lstrip()))
        lines = [set_in]
        for piece in self._pieces:
            if lines[-1].strip() and len(lines[-1]) + len(piece) > options.max_width:
                lines.append(set_in)
            lines[-1] += piece
        yield Text("\n".join(lines), overflow="fold")

    @property
    def _pieces(self) -> list[str]:
        return re.findall(r"[^. _]+[._]?|[. _]", self.name.strip())
