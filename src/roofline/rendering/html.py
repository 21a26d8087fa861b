"""Sections as HTML, for a notebook or a page.

>>> from roofline.sections import Amount, Row, Table, figures
>>> print(html([Table(figures("time"), [Row([Amount(84.5e-6, "s")])])]))
<div class="roofline"><table><thead><tr><th ...>time</th></tr></thead><tbody><tr><td ...>84.5 µs</td></tr></tbody>...

A cell of a figure carries its value in SI units (``data-value``) and its unit, so that a page can sort by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from roofline.sections import (
    Amount,
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
    return f'<div class="roofline">{"".join(map(_section, sections))}</div>'


def page(sections: Iterable[Section], title: str = "roofline") -> str:
    """A whole page with sections.

    >>> page([], "A * B").splitlines()[1]
    '<html><head><meta charset="utf-8"><title>A * B</title></head>'
    """
    head = f'<meta charset="utf-8"><title>{escape(title)}</title>'
    return f"<!doctype html>\n<html><head>{head}</head>\n<body>{html(sections)}</body></html>\n"


def _section(section: Section) -> str:
    match section:
        case Headline(subject=subject, beside=beside):
            return f"<p><b>{escape(subject)}</b>{f' {escape(beside)}' if beside else ''}</p>"
        case Sentences(lines=lines, tone=tone) if lines:
            return f"<p{_style(tone)}>{'<br>'.join(map(escape, lines))}</p>"
        case Pairs(pairs=pairs):
            left = 'style="text-align:left"'
            rows = (f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(text)}</td></tr>" for name, text in pairs)
            return f"<table>{''.join(rows)}</table>"
        case Listing(name=name, items=items, tone=tone) if items:
            listed = "".join(f"<li>{escape(item)}</li>" for item in items)
            opened = "" if tone == "quiet" else " open"
            return f"<details{opened}{_style(tone)}><summary>{escape(name)}</summary><ul>{listed}</ul></details>"
        case CrossTable():
            return _section(section.table())
        case Table(columns=columns, rows=rows):
            head = "".join(f'<th style="text-align:{each.align}">{escape(each.name)}</th>' for each in columns)
            head = f"<thead><tr>{head}</tr></thead>" if any(column.name for column in columns) else ""
            return f"<table>{head}<tbody>{''.join(_row(row, columns) for row in rows)}</tbody></table>"
    return ""


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


def _style(tone: Tone) -> str:
    return f' style="{STYLES[tone]}"' if tone else ""
