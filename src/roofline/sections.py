"""What an answer is made of: headlines, sentences, pairs, tables of typed cells, lists of assumptions.

An answer yields sections. A renderer turns sections into text for a terminal, HTML for a notebook or a page, and knows
no answer. Figures in tables keep their value and unit, so that a page can sort, scale and draw them:

>>> rows = [Row(("hbm", Amount(69.2e6, "B"), Amount(819e9, "B/s"), Amount(84.5e-6, "s")))]
>>> table = Table((Column("resource"), *figures("amount", "rate", "time")), rows)
>>> [str(cell) for cell in table.rows[0].cells]
['hbm', '69.2 MB', '819 GB/s', '84.5 µs']
>>> table.rows[0].cells[3].value
8.45e-05

``name`` says what a section is about (``resources``, ``operations``, ``plans`` …), for whoever wants one of them.

:func:`configurations` is the table of an answer over lists of sizes: a row a configuration, its sizes first.

>>> import numpy as np
>>> found = configurations([SizeColumn("batch", np.array([1, 8]), "size"), SizeColumn("decode at best", 0.01, "s")])
>>> [[str(cell) for cell in row.cells] for row in found.rows]
[['1', '10 ms'], ['8', '10 ms']]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from roofline.frozen import NamedTuple
from roofline.lazy import np
from roofline.quantity import format_amount, format_number, format_percent
from roofline.statements import HEADLINES, kind_of

#: How much attention a piece of text asks for.
Tone = Literal["", "strong", "quiet", "warning", "gap", "alert"]

#: Where a column's text may be broken: nowhere, between words, anywhere, or after the dots of a name.
Wrap = Literal["never", "words", "anywhere", "dots"]


class Amount(NamedTuple):
    """A figure with its unit: a number, an array or a formula. ``text`` is how it is written where that is special.

    ``source`` says where it is from; a page shows it.
    """

    value: Any
    unit: str = ""
    text: str = ""
    source: str = ""

    def __str__(self) -> str:
        return self.text or format_amount(self.value, self.unit)


def percentage(share: float, *, signed: bool = False) -> Amount:
    """A share as percent, which is a part of 1 as data; ``signed`` with a digit and its sign.

    >>> str(percentage(0.0525)), str(percentage(-0.0144, signed=True)), str(percentage(-1e-4, signed=True))
    ('5.2%', '-1.4%', '+0.0%')
    """
    return Amount(share, "", f"{100 * share:+z.1f}%" if signed else format_percent(share))


class ShareBar(NamedTuple):
    """A bar as long as ``share`` of the longest; ``tone`` says whether it stands out."""

    share: float
    tone: Tone = ""

    def __str__(self) -> str:
        return format_percent(self.share)


class Words(NamedTuple):
    """A cell of text with a tone of its own; ``source`` says where a figure in it is from."""

    text: str
    tone: Tone = ""
    source: str = ""

    def __str__(self) -> str:
        return self.text


class YesNo(NamedTuple):
    """Whether something is so: a word for a reader, a truth value as data; ``tone`` is that of ``yes``."""

    value: bool
    yes: str = "yes"
    no: str = "no"
    tone: Tone = ""

    def __str__(self) -> str:
        return self.words.text

    @property
    def words(self) -> Words:
        """What a reader sees."""
        return Words(self.yes, self.tone) if self.value else Words(self.no)


#: What stands in a cell of a table.
Cell: TypeAlias = str | Amount | ShareBar | Words | YesNo


class Column(NamedTuple):
    """A column's name and how its cells are set; ``least`` and ``most`` are widths in characters, 0 for any.

    ``meaning`` names it in data where a reader sees no name, or another word. Where a row would not fit the width, the
    columns with the highest ``spare`` are left out first, and none without one.
    """

    name: str = ""
    align: Literal["left", "right"] = "left"
    wrap: Wrap = "never"
    tone: Tone = ""
    least: int = 0
    most: int = 0
    meaning: str = ""
    spare: int = 0


class Row(NamedTuple):
    """The cells of one row; ``level`` is its depth in a tree, which sets its first cell in."""

    cells: Sequence[Cell]
    tone: Tone = ""
    level: int = 0


class Headline(NamedTuple):
    """The subject of what follows, and what stands beside it; ``level`` 1 for an answer, 2 for a part of one."""

    subject: str
    beside: str = ""
    level: int = 1


class Sentences(NamedTuple):
    """Sentences, one a line; ``indent`` is in characters. A ``whole`` line, as of an address, is never broken."""

    lines: Sequence[str]
    tone: Tone = ""
    indent: int = 2
    name: str = ""
    whole: bool = False


class Pairs(NamedTuple):
    """Words with a sentence each; an empty word goes on with the one above."""

    pairs: Sequence[tuple[str, str]]
    indent: int = 2
    gap: int = 2
    name: str = ""


class Table(NamedTuple):
    """Rows under columns. ``headed`` prints the columns' names in a terminal, ``gap`` is the space between columns.

    A page always has the names, where there are any: a reader of screens says them with the cells. Where ``rows`` are
    some of them, or sum the rest up, ``every`` makes them all, for data. ``phase`` is that of a model that it is of.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    name: str = ""
    indent: int = 2
    gap: int = 2
    headed: bool = True
    head_tone: Tone = "quiet"
    every: Callable[[], Sequence[Row]] | None = None
    phase: str = ""

    def in_full(self) -> Table:
        """The same with every row.

        >>> some = Table((Column("batch"),), [Row(("1",)), Row(("2 more",))], every=lambda: [Row((n,)) for n in "123"])
        >>> [row.cells for row in some.in_full().rows]
        [('1',), ('2',), ('3',)]
        """
        return self if self.every is None else self._replace(rows=self.every(), every=None)


def joined(tables: Sequence[Table]) -> Table:
    """Tables of one name as one, for data: rows under each other, their phase as a column where they have one.

    >>> prefill = Table((Column("operation"),), [Row(("q",))], phase="prefill")
    >>> both = joined([prefill, Table((Column("operation"), Column("sent")), [Row(("q", "1 MB"))], phase="decode")])
    >>> [column.name for column in both.columns], [row.cells for row in both.rows]
    (['phase', 'operation', 'sent'], [('prefill', 'q', ''), ('decode', 'q', '1 MB')])
    """
    has_phases = any(each.phase for each in tables)
    if len(tables) == 1 and not has_phases:
        return tables[0]
    columns = {column.meaning or column.name: column for each in tables for column in each.columns}
    rows = []
    for each in tables:
        names = [column.meaning or column.name for column in each.columns]
        for row in each.rows:
            cells = dict(zip(names, row.cells, strict=False))
            rows.append(Row((*[each.phase] * has_phases, *(cells.get(name, "") for name in columns))))
    return tables[0]._replace(columns=(*[Column("phase")] * has_phases, *columns.values()), rows=rows)


class CrossTable(NamedTuple):
    """Cells by two names, ``(row, column, cell)``: columns become rows where they would not fit the width there is."""

    heading: str
    cells: Sequence[tuple[str, str, Cell]]
    name: str = ""
    indent: int = 4

    def table(self, *, turned: bool = False) -> Table:
        """The same as a table, its columns and rows exchanged where ``turned``.

        >>> prices = CrossTable("dtype", [("bf16", "h100", "1"), ("bf16", "a100", "2"), ("fp8", "h100", "3")])
        >>> [column.name for column in prices.table().columns], [row.cells for row in prices.table().rows]
        (['dtype', 'h100', 'a100'], [('bf16', '1', '2'), ('fp8', '3', '')])
        >>> [row.cells for row in prices.table(turned=True).rows]
        [('h100', '1', '3'), ('a100', '2', '')]
        """
        columns: dict[str, None] = {}
        cells_by_row: dict[str, dict[str, Cell]] = {}
        for one, other, cell in self.cells:
            row, column = (other, one) if turned else (one, other)
            columns[column] = None
            cells_by_row.setdefault(row, {})[column] = cell
        head = Column(self.heading, least=18 - self.indent)
        rows = [Row((row, *(cells.get(column, "") for column in columns))) for row, cells in cells_by_row.items()]
        heads = (head, *(Column(column, "right") for column in columns))
        return Table(heads, rows, self.name or self.heading, self.indent)


class Listing(NamedTuple):
    """Sentences that belong to one word: ``assumes``, ``incomplete``, ``faster``."""

    name: str
    items: Sequence[str]
    tone: Tone = ""
    indent: int = 2


class Blank(NamedTuple):
    """An empty line in a terminal; a page sets its own distances."""


Section: TypeAlias = Headline | Sentences | Pairs | Table | CrossTable | Listing | Blank

BLANK = Blank()


def assumes(items: Iterable[str]) -> Listing:
    """What was assumed."""
    return Listing("assumes", tuple(items), "quiet")


def incomplete(items: Iterable[str]) -> Listing:
    """What could not be counted or timed."""
    return Listing("incomplete", tuple(items), "gap")


def caveats(statements: Iterable[str]) -> list[Section]:
    """The first lines of an answer whose figures a gap or a likely slip changes; nothing where none does."""
    lines = [each for each in dict.fromkeys(statements) if kind_of(each) in HEADLINES]
    return [Sentences(lines, "alert"), BLANK] if lines else []


def figures(*names: str, wrap: Wrap = "never") -> tuple[Column, ...]:
    """Columns of figures, set to the right."""
    return tuple(Column(name, "right", wrap) for name in names)


def word_pairs(subject: str, target: str, pairs: Sequence[tuple[str, str]]) -> tuple[Section, ...]:
    """An answer that is a few words with a sentence each, on a machine where there is one."""
    return Headline(subject, f"on {target}" if target else ""), BLANK, Pairs(pairs)


def paragraph(name: str, lines: Sequence[str]) -> tuple[Section, ...]:
    """A part of an answer with a name and sentences."""
    return BLANK, Headline(name, level=2), Sentences(lines, indent=4)


def named(name: str, items: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of several sentences under one word, which stands before the first.

    >>> named("assumes", ("dense peaks", "one-way links"))
    [('assumes', 'dense peaks'), ('', 'one-way links')]
    """
    return [(name if index == 0 else "", item) for index, item in enumerate(items)]


def spread(count: int, most: int) -> list[int]:
    """The positions of as many rows as are shown, spread evenly, with the first and the last.

    >>> spread(3, 40), spread(9, 3)
    ([0, 1, 2], [0, 4, 8])
    """
    if count <= most:
        return list(range(count))
    return sorted({round(index * (count - 1) / (most - 1)) for index in range(most)})


#: The name of their table.
CONFIGURATIONS = "configurations"

#: Configurations that are shown.
MOST_ROWS = 40

#: Columns of words; others hold figures.
_WORDS = ("bound by", "fits")
#: Columns that a narrow terminal leaves out, the highest first.
_SPARE = {"each user": 2, "bound by": 1}
#: Units whose figures are written without one: the head says it.
_PLAIN = ("", "token/s", "token", "USD")


class SizeColumn(NamedTuple):
    """A column: its name, a value or an array of them, the unit (``size`` of a size, ``bar`` of a share as a bar).

    ``meaning`` is its name as data.
    """

    name: str
    values: Any
    unit: str = ""
    meaning: str = ""


def configurations(columns: Sequence[SizeColumn], most: int = MOST_ROWS) -> Table:
    """A row for each entry of the arrays, which broadcast against each other; at ``most`` so many are shown."""
    shape = np.broadcast_shapes(*(np.shape(each.values) for each in columns))
    flat = [np.broadcast_to(np.asarray(each.values), shape).ravel() for each in columns]

    def rows(most: int) -> list[Row]:
        return [
            Row([_cell(values[index], each.unit) for values, each in zip(flat, columns, strict=True)])
            for index in spread(flat[0].size, most)
        ]

    heads = [
        Column(
            each.name,
            "left" if each.name in _WORDS else "right",
            "words" if each.name == "bound by" else "never",
            meaning=each.meaning or each.name,
            spare=_SPARE.get(each.name, 0),
        )
        for each in columns
    ]
    return Table(heads, rows(most), CONFIGURATIONS, indent=0, every=lambda: rows(flat[0].size))


def _cell(value: Any, unit: str) -> Cell:
    if isinstance(value, str):
        return value
    if value != value:
        return ""
    if value.dtype == bool:
        return YesNo(bool(value))
    if unit == "size" and float(value).is_integer():
        return Amount(int(value), "", format_number(float(value)))
    if unit == "bar":
        return ShareBar(float(value))
    if unit == "share":
        return Amount(float(value), "", format_percent(float(value)))
    unit = unit.removeprefix("size")
    return Amount(float(value), unit, format_number(float(value)) if unit in _PLAIN else "")
