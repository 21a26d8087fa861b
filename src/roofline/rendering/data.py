"""Sections as plain data, for a page that shows them itself.

>>> from roofline.sections import Amount, Headline, Row, Table, figures
>>> plain_sections([Headline("A * B", "on v5e")])
[{'kind': 'headline', 'subject': 'A * B', 'beside': 'on v5e', 'level': 1}]
>>> plain_sections([Table(figures("time"), [Row([Amount(84.5e-6, "s")])])])[0]["rows"]
[{'cells': [{'text': '84.5 µs', 'value': 8.45e-05, 'unit': 's'}]}]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
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
    Words,
    YesNo,
)


def plain_sections(sections: Iterable[Section]) -> list[dict[str, Any]]:
    """Each section as a mapping with its ``kind``; what has nothing to say is left out."""
    found = (_RENDERERS[type(section)](section) for section in sections)
    return [each for each in found if each is not None]


def _headline(section: Headline) -> dict[str, Any]:
    return {"kind": "headline", **section._asdict()}


def _sentences(section: Sentences) -> dict[str, Any] | None:
    return {"kind": "sentences", "lines": list(section.lines), "tone": section.tone} if section.lines else None


def _pairs(section: Pairs) -> dict[str, Any] | None:
    return {"kind": "pairs", "pairs": [list(pair) for pair in section.pairs]} if section.pairs else None


def _listing(section: Listing) -> dict[str, Any] | None:
    if not section.items:
        return None
    return {"kind": "listing", "name": section.name, "items": list(section.items), "tone": section.tone}


def _table(section: Table) -> dict[str, Any]:
    return {
        "kind": "table",
        "name": section.name,
        "columns": [_column(column) for column in section.columns],
        "rows": [_row(row) for row in section.rows],
    }


def _column(column: Column) -> dict[str, Any]:
    return {"name": column.name, "align": column.align}


def _row(row: Row) -> dict[str, Any]:
    said = {"tone": row.tone, "level": row.level}
    return {"cells": [_cell(cell) for cell in row.cells], **{name: value for name, value in said.items() if value}}


def _cell(cell: Cell) -> dict[str, Any]:
    if isinstance(cell, ShareBar):
        return {"text": str(cell), "share": float(cell.share)}
    cell = cell.words if isinstance(cell, YesNo) else cell
    if isinstance(cell, Words):
        said = {"tone": cell.tone, "source": cell.source}
        return {"text": cell.text, **{name: value for name, value in said.items() if value}}
    if isinstance(cell, Amount) and isinstance(cell.value, int | float) and math.isfinite(cell.value):
        source = {"source": cell.source} if cell.source else {}
        return {"text": str(cell), "value": cell.value, "unit": cell.unit, **source}
    return {"text": str(cell)}


def _cross_table(section: CrossTable) -> dict[str, Any]:
    return _table(section.table())


def _blank(section: Blank) -> None:
    return None


_RENDERERS: dict[type, Callable[[Any], dict[str, Any] | None]] = {
    Headline: _headline,
    Sentences: _sentences,
    Pairs: _pairs,
    Table: _table,
    CrossTable: _cross_table,
    Listing: _listing,
    Blank: _blank,
}
