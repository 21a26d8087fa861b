"""Sections as HTML, for a notebook or a page; before it as plain data, which a page shows itself too.

>>> from roofline.sections import Amount, Row, Table, figures
>>> print(html([Table(figures("time"), [Row([Amount(84.5e-6, "s")])])]))
<div class="roofline"><table><thead><tr><th ...>time</th></tr></thead><tbody><tr><td ...>84.5 µs</td></tr></tbody>...

A cell of a figure carries its value in SI units (``data-value``) and its unit, so that a page can sort by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from roofline import sections as parts
from roofline.sections import Section, Tone

#: How each tone looks.
STYLES: dict[Tone, str] = {
    "": "",
    "strong": "font-weight:bold",
    "quiet": "opacity:0.7",
    "warning": "color:#a60",
    "gap": "color:#a60;font-weight:bold",
    "alert": "color:#c00;font-weight:bold",
}


def data(sections: Iterable[parts.Section]) -> list[dict[str, Any]]:
    """Each section as a mapping with its ``kind``; what has nothing to say is left out.

    >>> data([parts.Headline("A * B", "on v5e")])
    [{'kind': 'headline', 'subject': 'A * B', 'beside': 'on v5e', 'level': 1}]
    >>> data([parts.Table(parts.figures("time"), [parts.Row([parts.Amount(84.5e-6, "s")])])])[0]["rows"]
    [{'cells': [{'text': '84.5 µs', 'value': 8.45e-05, 'unit': 's'}]}]
    """
    return [each for each in map(_section_data, sections) if each is not None]


def _section_data(section: parts.Section) -> dict[str, Any] | None:
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
            return _section_data(section.table())
        case parts.Table(columns=columns, rows=rows, name=name):
            heads = [{"name": column.name, "align": column.align} for column in columns]
            return {"kind": "table", "name": name, "columns": heads, "rows": list(map(_row_data, rows))}
    return None


def _row_data(row: parts.Row) -> dict[str, Any]:
    said = {"tone": row.tone, "level": row.level}
    return {"cells": [_cell_data(cell) for cell in row.cells], **{name: value for name, value in said.items() if value}}


def _cell_data(cell: parts.Cell) -> dict[str, Any]:
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


def html(sections: Iterable[Section]) -> str:
    """Render sections one below the other."""
    return f'<div class="roofline">{"".join(map(_section, data(sections)))}</div>'


def _section(section: Mapping[str, Any]) -> str:
    match section:
        case {"kind": "headline", "subject": subject, "beside": beside}:
            return f"<p><b>{escape(subject)}</b>{f' {escape(beside)}' if beside else ''}</p>"
        case {"kind": "sentences", "lines": lines, "tone": tone}:
            return f"<p{_style(tone)}>{'<br>'.join(map(escape, lines))}</p>"
        case {"kind": "pairs", "pairs": pairs}:
            left = 'style="text-align:left"'
            rows = (f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(text)}</td></tr>" for name, text in pairs)
            return f"<table>{''.join(rows)}</table>"
        case {"kind": "listing", "name": name, "items": items, "tone": tone}:
            listed = "".join(f"<li>{escape(item)}</li>" for item in items)
            opened = "" if tone == "quiet" else " open"
            return f"<details{opened}{_style(tone)}><summary>{escape(name)}</summary><ul>{listed}</ul></details>"
        case {"kind": "table", "columns": columns, "rows": rows}:
            head = "".join(f'<th style="text-align:{each["align"]}">{escape(each["name"])}</th>' for each in columns)
            head = f"<thead><tr>{head}</tr></thead>" if any(each["name"] for each in columns) else ""
            body = "".join(_row(row, [each["align"] for each in columns]) for row in rows)
            return f"<table>{head}<tbody>{body}</tbody></table>"
    return ""


def _row(row: Mapping[str, Any], aligned: Iterable[str]) -> str:
    levels = [row.get("level", 0), *[0] * len(row["cells"])]
    cells = "".join(map(_cell, row["cells"], aligned, levels))
    return f"<tr{_style(row.get('tone', ''))}>{cells}</tr>"


def _cell(cell: Mapping[str, Any], align: str, level: int) -> str:
    if "share" in cell:
        return f'<td><meter min="0" max="1" value="{cell["share"]:.4g}"></meter></td>'
    style = f"text-align:{align}" + (f";padding-left:{level + 0.5:g}em" if level else "")
    style += f";{STYLES[cell['tone']]}" if "tone" in cell else ";white-space:nowrap" if "value" in cell else ""
    figure = f' data-value="{cell["value"]!r}"' if "value" in cell else ""
    figure += f' data-unit="{escape(cell["unit"])}"' if cell.get("unit") else ""
    return f'<td style="{style}"{figure}>{escape(cell["text"])}</td>'


def _style(tone: Tone) -> str:
    return f' style="{STYLES[tone]}"' if tone else ""
