"""Bars in a terminal: one row each, a block of its own for every part, and what the blocks stand for.

>>> from roofline.charts.bars_chart import bars_chart
>>> rows = [("batch 1", [("weights", 8e9), ("kv", 1e9)]), ("batch 8", [("weights", 8e9), ("kv", 8e9)])]
>>> print(bars_text(bars_chart(rows, title="Memory", label="memory", unit="B", limit=("hbm", 24e9)), 50))
Memory
batch 1 ████████████▒                      ┃ 9 GB
batch 8 ████████████▒▒▒▒▒▒▒▒▒▒▒            ┃ 16 GB
█ weights  ▒ kv  ┃ hbm 24 GB
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from roofline.charts.chart import Chart
from roofline.charts.layout import NAMES_SHARE

#: What fills the bars of a part, in order, where there is no colour.
FILLS = "█▒▓░▚▞"


def bars_text(chart: Chart, width: int = 80) -> str:
    """Draw the bars of a chart in ``width`` columns."""
    names = [_cut(name, max(12, int(width * NAMES_SHARE))) for name in chart.y.names]
    margin = max(map(len, names))
    texts = {bar.row: bar.text for bar in chart.bars if bar.text}
    room = max(4, width - margin - 3 - max(map(len, texts.values()), default=0))
    most = max([bar.x1 for bar in chart.bars] + [x for line in chart.lines for x in line.x])
    shown = [line for text in (chart.title, chart.subtitle) for line in textwrap.wrap(text, width)]
    for row, name in enumerate(names):
        cells = [" "] * (room + 1)
        for bar in (bar for bar in chart.bars if bar.row == row):
            start, end = (round(x / most * room) for x in (bar.x0, bar.x1))
            cells[start:end] = FILLS[bar.series % len(FILLS)] * (end - start)
        for line in chart.lines:
            at = round(line.x[0] / most * room)
            cells[at] = "┃"
        shown.append(f"{name:<{margin}} {''.join(cells)} {texts.get(row, '')}".rstrip())
    parts = dict.fromkeys((FILLS[bar.series % len(FILLS)], bar.part) for bar in chart.bars if bar.part)
    key = [f"{fill} {part}" for fill, part in parts] + [f"┃ {line.text}" for line in chart.lines]
    return "\n".join([*shown, *_rows(key, width)])


def _rows(entries: Sequence[str], width: int) -> list[str]:
    """As many entries in a line as it holds."""
    lines: list[str] = []
    for entry in entries:
        longer = f"{lines[-1]}  {entry}" if lines else entry
        if lines and len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(entry)
    return lines


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"…{text[1 - most :]}"
