"""Sections as HTML, for a notebook or a page.

>>> from roofline.sections import Amount, Row, Table, figures
>>> print(html([Table(figures("time"), [Row([Amount(84.5e-6, "s")])])]))
<div class="roofline"><table><thead><tr><th ...>time</th></tr></thead><tbody><tr><td ...>84.5 µs</td></tr></tbody>...

A cell of a figure carries its value in SI units (``data-value``) and its unit, so that a page can sort by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

from roofline.sections import (
    Amount,
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
    "strong": "font-weight:bold",
    "quiet": "opacity:0.7",
    "warning": "color:#a60",
    "gap": "color:#a60;font-weight:bold",
    "alert": "color:#c00;font-weight:bold",
}


def html(sections: Iterable[Section]) -> str:
    """Render sections one below the other."""
    return f'<div class="roofline">{"".join(_RENDERERS[type(section)](section) for section in sections)}</div>'


def page(sections: Iterable[Section], title: str = "roofline") -> str:
    """A whole page with sections.

    >>> page([], "A * B").splitlines()[1]
    '<html><head><meta charset="utf-8"><title>A * B</title></head>'
    """
    head = f'<meta charset="utf-8"><title>{escape(title)}</title>'
    return f"<!doctype html>\n<html><head>{head}</head>\n<body>{html(sections)}</body></html>\n"


def _headline(section: Headline) -> str:
    beside = f" {escape(section.beside)}" if section.beside else ""
    return f"<p><b>{escape(section.subject)}</b>{beside}</p>"


def _sentences(section: Sentences) -> str:
    if not section.lines:
        return ""
    return f"<p{_style(section.tone)}>{'<br>'.join(map(escape, section.lines))}</p>"


def _pairs(section: Pairs) -> str:
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in section.pairs
    )
    return f"<table>{rows}</table>"


def _listing(section: Listing) -> str:
    if not section.items:
        return ""
    items = "".join(f"<li>{escape(item)}</li>" for item in section.items)
    opened = "" if section.tone == "quiet" else " open"
    return f"<details{opened}{_style(section.tone)}><summary>{escape(section.name)}</summary><ul>{items}</ul></details>"


def _table(section: Table) -> str:
    head = "".join(f'<th style="text-align:{each.align}">{escape(each.name)}</th>' for each in section.columns)
    body = "".join(_row(row, section.columns) for row in section.rows)
    named = any(column.name for column in section.columns)
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if named else ''}<tbody>{body}</tbody></table>"


def _row(row: Row, columns: Iterable[Column]) -> str:
    cells = "".join(
        _cell(cell, column, row.level if index == 0 else 0)
        for index, (cell, column) in enumerate(zip(row.cells, columns, strict=False))
    )
    return f"<tr{_style(row.tone)}>{cells}</tr>"


def _cell(cell: Cell, column: Column, level: int = 0) -> str:
    if isinstance(cell, ShareBar):
        return f'<td><meter min="0" max="1" value="{cell.share:.4g}"></meter></td>'
    align = f"text-align:{column.align}" + (f";padding-left:{level + 0.5:g}em" if level else "")
    cell = cell.words if isinstance(cell, YesNo) else cell
    if isinstance(cell, Words):
        return f'<td style="{";".join(filter(None, (align, STYLES[cell.tone])))}">{escape(cell.text)}</td>'
    whole = ";white-space:nowrap" if isinstance(cell, Amount) else ""
    return f'<td style="{align}{whole}"{_data(cell)}>{escape(str(cell))}</td>'


def _data(cell: Cell) -> str:
    """The value and unit of a figure that is a plain number."""
    if not isinstance(cell, Amount) or not isinstance(cell.value, int | float):
        return ""
    return f' data-value="{cell.value!r}"' + (f' data-unit="{escape(cell.unit)}"' if cell.unit else "")


def _cross_table(section: CrossTable) -> str:
    return _table(section.table())


def _style(tone: Tone) -> str:
    return f' style="{STYLES[tone]}"' if tone else ""


def _blank(section: Blank) -> str:
    return ""


_RENDERERS: dict[type, Callable[[Any], str]] = {
    Headline: _headline,
    Sentences: _sentences,
    Pairs: _pairs,
    Table: _table,
    CrossTable: _cross_table,
    Listing: _listing,
    Blank: _blank,
}
