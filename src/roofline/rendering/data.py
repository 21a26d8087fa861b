"""Sections as plain data, which a page shows itself and from which HTML is written.

>>> from roofline.sections import Amount, Headline, Row, Table, figures
>>> data([Headline("A * B", "on v5e")])
[{'kind': 'headline', 'subject': 'A * B', 'beside': 'on v5e', 'level': 1}]
>>> data([Table(figures("time"), [Row([Amount(84.5e-6, "s")])])])[0]["rows"]
[{'cells': [{'text': '84.5 µs', 'value': 8.45e-05, 'unit': 's'}]}]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from roofline import sections as parts


def data(sections: Iterable[parts.Section]) -> list[dict[str, Any]]:
    """Each section as a mapping with its ``kind``; what has nothing to say is left out."""
    return [each for each in map(_section, sections) if each is not None]


def _section(section: parts.Section) -> dict[str, Any] | None:
    match section:
        case parts.Headline():
            return {"kind": "headline", **section._asdict()}
        case parts.Sentences(lines=lines, tone=tone) if lines:
            return {"kind": "sentences", "lines": list(lines), "tone": tone}
        case parts.Pairs(pairs=pairs) if pairs:
            return {"kind": "pairs", "pairs": [list(pair) for pair in pairs]}
        case parts.Listing(name=name, items=items, tone=tone) if items:
            return {"kind": "listing", "name": name, "items": list(items), "tone": tone}
        case parts.CrossTable():
            return _section(section.table())
        case parts.Table(columns=columns, rows=rows, name=name):
            heads = [{"name": column.name, "align": column.align} for column in columns]
            return {"kind": "table", "name": name, "columns": heads, "rows": list(map(_row, rows))}
    return None


def _row(row: parts.Row) -> dict[str, Any]:
    said = {"tone": row.tone, "level": row.level}
    return {"cells": [_cell(cell) for cell in row.cells], **{name: value for name, value in said.items() if value}}


def _cell(cell: parts.Cell) -> dict[str, Any]:
    if isinstance(cell, parts.ShareBar):
        return {"text": str(cell), "share": float(cell.share)}
    cell = cell.words if isinstance(cell, parts.YesNo) else cell
    if isinstance(cell, parts.Words):
        said = {"tone": cell.tone, "source": cell.source}
        return {"text": cell.text, **{name: value for name, value in said.items() if value}}
    if isinstance(cell, parts.Amount) and isinstance(cell.value, int | float) and math.isfinite(cell.value):
        source = {"source": cell.source} if cell.source else {}
        return {"text": str(cell), "value": cell.value, "unit": cell.unit, **source}
    return {"text": str(cell)}
