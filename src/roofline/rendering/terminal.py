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
from typing import Any, NamedTuple

from rich.console import Group
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

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


#: Stands for the space between a number and its unit until lines are broken: rich breaks lines at a no-break space too.
_JOINT = "\ue000"

_UNIT = r"(?:[kMGTPEZYmunpfµ]i?)?(?:B|FLOPs?|s|Hz|W|Wh)(?:/(?:s|B))?|min|h|days|tokens(?:/s)?"


def terminal(sections: Iterable[Section]) -> _Page:
    """Render sections one below the other."""
    return _Page(Group(*(part for section in sections for part in _RENDERERS[type(section)](section))))


class _Page(NamedTuple):
    """What was rendered, its numbers joined with their units and its lines without blanks at the end."""

    whole: Group

    def __rich_measure__(self, console: Any, options: Any) -> Any:
        from rich.measure import Measurement

        return Measurement.get(console, options, self.whole)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.segment import Segment

        for line in Segment.split_lines(console.render(self.whole, options)):
            parts = [part._replace(text=part.text.replace(_JOINT, " ")) for part in line]
            while parts and not parts[-1].text.strip():
                parts.pop()
            if parts:
                parts[-1] = parts[-1]._replace(text=parts[-1].text.rstrip())
            yield from (*parts, Segment.line())


def _joined(text: str) -> str:
    """A sentence that is broken into lines nowhere between a number and the unit behind it."""
    return re.sub(rf"(?<=\d) (?=(?:{_UNIT})(?![\w/]))", _JOINT, text)


def as_text(sections: Iterable[Section], width: int = 100) -> str:
    """Write sections as plain text, without colours.

    >>> as_text([Headline("A * B", "on TPU v5e")])
    'A * B  on TPU v5e\\n'
    """
    from io import StringIO

    from rich.console import Console

    console = Console(width=width, file=StringIO(), record=True, highlight=False, markup=False)
    console.print(terminal(sections))
    return console.export_text()


def _headline(section: Headline) -> Iterator[Any]:
    indent = "  " * (section.level - 1)
    beside = f"  {section.beside}" if section.beside else ""
    yield Text.assemble(indent, (section.subject, "bold"), beside)


def _sentences(section: Sentences) -> Iterator[Any]:
    for line in section.lines:
        yield _indented(Text(_joined(line), STYLES[section.tone]), section.indent)


def _pairs(section: Pairs) -> Iterator[Any]:
    if section.pairs:
        rows = Grid.grid(padding=(0, section.gap))
        rows.add_column(no_wrap=True, style="dim")
        rows.add_column(overflow="fold")
        for name, text in section.pairs:
            rows.add_row(Text(name), Text(_joined(text)))
        yield _indented(rows, section.indent)


def _listing(section: Listing) -> Iterator[Any]:
    if section.items:
        style = STYLES[section.tone]
        rows = Grid.grid(padding=(0, 2))
        rows.add_column(no_wrap=True, style=style)
        rows.add_column(style=style, overflow="fold")
        for index, item in enumerate(section.items):
            rows.add_row(Text(section.name if index == 0 else ""), Text(_joined(item)))
        yield _indented(rows, section.indent)


def _table(section: Table) -> Iterator[Any]:
    """Draw a table, without its empty columns: rich gives each a character that it does not measure."""
    rows = Grid(
        box=None,
        padding=(0, section.gap),
        collapse_padding=True,
        header_style=STYLES[section.head_tone],
        show_header=section.headed,
        pad_edge=False,
    )
    filled = [_set_in(row) for row in section.rows]
    kept = [
        index
        for index, column in enumerate(section.columns)
        if (section.headed and column.name) or any(str(cells[index]) for cells in filled if index < len(cells))
    ]
    for index in kept:
        _add_column(rows, section.columns[index])
    for row, cells in zip(section.rows, filled, strict=True):
        texts = (_cell(cells[index], section.columns[index]) for index in kept if index < len(cells))
        rows.add_row(*texts, style=STYLES[row.tone])
    if rows.row_count or section.headed:
        yield _indented(rows, section.indent)


def _add_column(rows: Grid, column: Column) -> None:
    rows.add_column(
        column.name,
        justify=column.align,
        no_wrap=column.wrap == "never",
        overflow="ellipsis" if column.wrap == "never" else "fold",
        style=STYLES[column.tone],
        min_width=column.least or None,
        max_width=column.most or None,
    )


def _set_in(row: Row) -> Sequence[Cell]:
    """The cells of a row, the first set in by its depth in a tree."""
    return ("  " * row.level + str(row.cells[0]), *row.cells[1:]) if row.level else row.cells


def _cell(cell: Cell, column: Column) -> Any:
    if isinstance(cell, ShareBar):
        from rich.bar import Bar

        return Bar(1.0, 0, cell.share, color=_BAR_COLORS[cell.tone])
    if isinstance(cell, Words):
        return Text(cell.text, STYLES[cell.tone])
    if column.wrap == "dots":
        return _DottedName(str(cell))
    return Text(_joined(str(cell)) if column.wrap == "words" else str(cell))


def _cross_table(section: CrossTable) -> Iterator[Any]:
    yield _CrossTable(section)


def _indented(renderable: Any, indent: int) -> Any:
    return Padding(renderable, (0, 0, 0, indent), expand=False) if indent else renderable


def _blank(section: Blank) -> Iterator[Any]:
    yield Text()


_RENDERERS: dict[type, Callable[[Any], Iterator[Any]]] = {
    Headline: _headline,
    Sentences: _sentences,
    Pairs: _pairs,
    Table: _table,
    CrossTable: _cross_table,
    Listing: _listing,
    Blank: _blank,
}


class _CrossTable(NamedTuple):
    """A table of two names; its columns become rows where they would not fit."""

    section: CrossTable

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.measure import Measurement

        upright, turned = (next(_table(self.section.table(turned=turned))) for turned in (False, True))
        fits = Measurement.get(console, options.update(width=10_000), upright).maximum <= options.max_width
        yield upright if fits else turned


class _DottedName(NamedTuple):
    """A dotted name, which a narrow terminal breaks after its dots."""

    name: str

    def __rich_measure__(self, console: Any, options: Any) -> Any:
        """From its longest piece to the whole."""
        from rich.measure import Measurement

        return Measurement(max(map(len, self._pieces), default=0), len(self.name))

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """As many pieces a line as there is room for."""
        lines = [""]
        for piece in self._pieces:
            if lines[-1] and len(lines[-1]) + len(piece) > options.max_width:
                lines.append("")
            lines[-1] += piece
        yield Text("\n".join(lines), overflow="fold")

    @property
    def _pieces(self) -> list[str]:
        return re.findall(r"[^. ]+\.?|[. ]", self.name)
