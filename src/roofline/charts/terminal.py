"""A chart in a terminal: lines in Braille dots, a number on each line, a letter at each operation, and a key below.

Bars are rows of block characters, another character for each part.

>>> from roofline.charts.specification import Axis
>>> from roofline.charts.specification import Line, Ridge, Specification
>>> roof = Specification(
...     kind="roofline", title="TPU v5e",
...     x=Axis("arithmetic intensity", "FLOP/B", "log", (1.0, 10000.0)),
...     y=Axis("attainable FLOP/s", "FLOP/s", "log", (1e12, 1e15)),
...     marks=(
...         Line("hbm", (1.0, 240.0), (8.2e11, 1.97e14), "slope", text="hbm 820 GB/s"),
...         Line("bf16", (240.0, 10000.0), (1.97e14, 1.97e14), "ceiling", text="bf16 197 TFLOP/s"),
...         Ridge(240.0, 1.97e14, "bf16 over hbm", "240 FLOP/B"),
...     ),
... )
>>> print(to_text(roof, 50, 7))
TPU v5e
attainable FLOP/s
  1 PFLOP/s ┤
            │                    ⢀◇⠤⠤⠤⠤⠤⠤⠤⠤⠤2⠤⠤⠤⠤⠄
100 TFLOP/s ┤                 ⣀⠤⠚⠁
            │             ⣀1⠒⠉
 10 TFLOP/s ┤        ⢀⣀⠤⠒⠉
            │    ⢀⡠⠔⠊⠁
  1 TFLOP/s ┤⢀⡠⠔⠊⠁
            └┬────────┬────────┬────────┬────────┬
             1        10      100     1,000 10,000
             arithmetic intensity, FLOP/B
1 hbm 820 GB/s
2 bf16 197 TFLOP/s
◇ 240 FLOP/B: bf16 over hbm
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise

from roofline.charts.layout import NAMES_SHARE
from roofline.charts.specification import HeatCell, Line, Point, Specification, axis_title, ticks
from roofline.errors import InputError
from roofline.quantity import format_percent, format_quantity

#: Columns and rows of the smallest chart.
SMALLEST = (40, 5)

#: Dots of a cell from the top, left column then right, as bits of its Braille character.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_EMPTY_CELL = 0x2800

#: Of every so many dots along a line, how many are set: solid, dashed, dotted, dash-dot, long dashes.
_STROKES = ((1, 1), (6, 9), (1, 3), (9, 12), (12, 16))

#: Colours of series as ANSI codes: blue, red, green, magenta, yellow, default.
_ANSI = (34, 31, 32, 35, 33, 39)

_SHADES = {"red": "░", "yellow": "▒", "green": "▓"}
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZαβγδεζηθικλμνξπρστυφχψω"
_RIDGE = "◇"

#: What fills the cells of each shade of a heat map, and those that do not fit.
_LEVELS, _BEYOND = "▁▂▃▄▅▆▇█", "╳"

#: What fills the bars of a part, in order, where there is no colour.
FILLS = "█▒▓░▚▞"


def to_text(chart: Specification, width: int = 80, height: int = 24, *, color: bool = False) -> str:
    """Draw in ``width`` columns; the plotting area is ``height`` rows high, title, axis and key come on top.

    ``color`` wraps marks in ANSI codes. A width below 40 or a height below 5 is an error.
    """
    if width < SMALLEST[0] or height < SMALLEST[1]:
        hint = f"at least {SMALLEST[0]} × {SMALLEST[1]}"
        raise InputError(f"{width} columns by {height} rows are too few for a chart", hint=hint)
    if chart.bars:
        return bars_text(chart, width)
    y_ticks = ticks(chart.y, most=max(2, height // 2))
    margin = max((len(text) for _, text in y_ticks), default=0) + 2
    if chart.cells:
        height = min(height, len(chart.y.names) * max(1, height // len(chart.y.names)))
    canvas = _Canvas(chart, width - margin, height)
    for cell in chart.cells:
        canvas.fill(cell)
    for mark in () if chart.cells else chart.lines:
        canvas.line(mark)
    key = list(_marked(chart, canvas))
    body = _with_axes(chart, canvas, margin, color)
    head = [line for text in (chart.title, chart.subtitle) for line in textwrap.wrap(text, width)]
    lines = [*head, axis_title(chart.y), *body]
    for text, series in key:
        for line in textwrap.wrap(text, width, subsequent_indent="  "):
            lines.append(_colored(line, series, color))
    return "\n".join(line.rstrip() for line in lines)


class _Canvas:
    """Cells of Braille dots, and characters laid over them."""

    def __init__(self, chart: Specification, columns: int, rows: int) -> None:
        self.chart, self.columns, self.rows = chart, columns, rows
        self.dots: dict[tuple[int, int], int] = {}
        self.over: dict[tuple[int, int], str] = {}
        self.series: dict[tuple[int, int], int] = {}

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Dots from the left and from the top; the limits are the middles of the outermost dots."""
        across = self.chart.x.position(x) * (2 * self.columns - 1)
        down = (1 - self.chart.y.position(y)) * (4 * self.rows - 1)
        return across, down

    def cell(self, x: float, y: float) -> tuple[int, int] | None:
        across, down = self.at(x, y)
        column, row = round(across) // 2, round(down) // 4
        return (column, row) if 0 <= column < self.columns and 0 <= row < self.rows else None

    def fill(self, cell: HeatCell) -> None:
        """A cell of a heat map: a block as high as its shade, a crossed one where it does not fit."""
        (left, right), (low, high) = (cell.column, cell.column + 1), (cell.row, cell.row + 1)
        columns = range(*(round(self.chart.x.position(x) * self.columns) for x in (left, right)))
        rows = range(*(round((1 - self.chart.y.position(y)) * self.rows) for y in (high, low)))
        sign = _BEYOND if cell.over else _LEVELS[cell.shade]
        self.over |= {(column, row): sign for column in columns for row in rows}

    def line(self, line: Line) -> None:
        vertices = [self.at(x, y) for x, y in zip(line.x, line.y, strict=True)]
        drawn, every = _STROKES[line.dash % len(_STROKES)]
        walked = 0
        for (x0, y0), (x1, y1) in pairwise(vertices):
            steps = max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0))))
            for step in range(steps):
                walked += 1
                if walked % every < drawn:
                    part = step / steps
                    self._dot(round(x0 + part * (x1 - x0)), round(y0 + part * (y1 - y0)), line.series)

    def _dot(self, x: int, y: int, series: int) -> None:
        if 0 <= x < 2 * self.columns and 0 <= y < 4 * self.rows:
            cell = (x // 2, y // 4)
            self.dots[cell] = self.dots.get(cell, 0) | _DOTS[y % 4][x % 2]
            self.series[cell] = series

    def put(self, cell: tuple[int, int], character: str, series: int) -> None:
        self.over[cell] = character
        self.series[cell] = series

    def row(self, row: int, color: bool) -> str:
        cells = []
        for column in range(self.columns):
            cell = (column, row)
            dots = self.dots.get(cell)
            character = self.over.get(cell) or (chr(_EMPTY_CELL + dots) if dots else " ")
            cells.append(_colored(character, self.series.get(cell), color and character != " "))
        return "".join(cells)


def _marked(chart: Specification, canvas: _Canvas) -> Iterator[tuple[str, int | None]]:
    """Put ridges, letters and numbers on the canvas; yield the lines of the key with their colour."""
    for ridge in chart.ridges:
        cell = canvas.cell(ridge.x, ridge.y)
        if cell is not None:
            canvas.put(cell, _RIDGE, ridge.series)
    letters: dict[str, str] = {}
    for point in chart.points:
        letter = letters.setdefault(point.label, _LETTERS[len(letters) % len(_LETTERS)])
        cell = canvas.cell(point.x, point.y)
        if cell is not None:
            canvas.put(cell, letter, point.series)
    cells = sorted(chart.cells, key=lambda each: each.shade)
    shades = dict.fromkeys((cell.shade, cell.part) for cell in cells if not cell.over)
    yield from ((f"{_LEVELS[shade]} {part}", None) for shade, part in shades)
    if any(cell.over for cell in cells):
        yield f"{_BEYOND} does not fit", None
    for number, line in enumerate(() if chart.cells else chart.lines, 1):
        sign = str(number) if number < 10 else chr(ord("①") + number - 10)
        cell = _free_cell(line, canvas)
        if cell is not None:
            canvas.put(cell, sign, line.series)
        yield f"{sign} {line.key_text}", line.series
    for ridge in chart.ridges:
        yield f"{_RIDGE} {ridge.key_text}", ridge.series
    several = len({point.on for point in chart.points}) > 1
    for point in chart.points:
        yield f"{letters[point.label]} {_described(point, chart, several)}", point.series
    for region in chart.regions:
        yield f"{_SHADES[region.color]} {region.label}", None


def _free_cell(line: Line, canvas: _Canvas) -> tuple[int, int] | None:
    """A cell on the line that carries no sign yet, from two thirds along outwards."""
    count = len(line.x)
    for part in (0.66, 0.5, 0.8, 0.35, 0.9, 0.2, 0.98, 0.05):
        if count == 2:
            cell = canvas.cell(*_between(line, part, canvas.chart))
        else:
            at = min(count - 1, round(part * (count - 1)))
            cell = canvas.cell(line.x[at], line.y[at])
        if cell is not None and cell not in canvas.over:
            return cell
    return None


def _between(line: Line, part: float, chart: Specification) -> tuple[float, float]:
    """The values a fraction of the way along a straight line, as it is drawn."""
    found = []
    for axis, (start, end) in ((chart.x, line.x[:2]), (chart.y, line.y[:2])):
        if axis.scale == "log":
            found.append(math.exp(math.log(start) + part * (math.log(end) - math.log(start))))
        else:
            found.append(start + part * (end - start))
    return found[0], found[1]


def _described(point: Point, chart: Specification, several: bool) -> str:
    """A point in words; of ``several`` machines, with its own."""
    name = f"{point.label} on {point.on}" if several else point.label
    reached = f"{format_quantity(point.y, chart.y.unit)} at {format_quantity(point.x, chart.x.unit)}"
    if point.share is not None:
        return f"{name}: {reached}, {format_percent(point.share)} of the roof"
    return f"{name}: {reached}" + (f", {point.bound_by} binds" if point.bound_by else "")


def _with_axes(chart: Specification, canvas: _Canvas, margin: int, color: bool) -> list[str]:
    """The canvas between its axes, with ticks and their texts."""
    beside = {}
    for value, text in ticks(chart.y, most=max(2, canvas.rows // 2)):
        cell = canvas.cell(chart.x.limits[0], value)
        if cell is not None:
            beside[cell[1]] = text
    rows = [
        f"{beside.get(row, ''):>{margin - 2}} {'┤' if row in beside else '│'}{canvas.row(row, color)}"
        for row in range(canvas.rows)
    ]
    title = axis_title(chart.x)
    room = max(0, canvas.columns + margin - len(title))
    foot = ["─"] * canvas.columns
    below = [" "] * (canvas.columns + margin)
    free = 0
    for region in chart.regions:
        low, high = (min(max(chart.x.position(x), 0.0), 1.0) for x in (region.x0, region.x1))
        for column in range(round(low * canvas.columns), round(high * canvas.columns)):
            foot[column] = _SHADES[region.color]
    for value, text in ticks(chart.x, most=max(2, canvas.columns // 9)):
        column = round(canvas.at(value, chart.y.limits[0])[0]) // 2
        start = min(margin + column - len(text) // 2 + (len(text) + 1) % 2, len(below) - len(text))
        foot[column] = "┬"
        if start >= free:
            below[start : start + len(text)] = text
            free = start + len(text) + 1
    return [*rows, " " * (margin - 1) + "└" + "".join(foot), "".join(below), " " * min(margin, room) + title]


def _colored(text: str, series: int | None, color: bool) -> str:
    return f"\x1b[{_ANSI[series % len(_ANSI)]}m{text}\x1b[0m" if color and series is not None else text


def bars_text(chart: Specification, width: int = 80) -> str:
    """Draw the bars of a chart in ``width`` columns.

    >>> from roofline.charts.bars import bars_chart
    >>> rows = [("batch 1", [("weights", 8e9), ("kv", 1e9)]), ("batch 8", [("weights", 8e9), ("kv", 8e9)])]
    >>> print(bars_text(bars_chart(rows, title="Memory", label="memory", unit="B", limit=("hbm", 24e9)), 50))
    Memory
    batch 1 ████████████▒                      ┃ 9 GB
    batch 8 ████████████▒▒▒▒▒▒▒▒▒▒▒            ┃ 16 GB
    █ weights  ▒ kv  ┃ hbm 24 GB
    """
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
    return "\n".join([*shown, *_key_lines(key, width)])


def _key_lines(entries: Sequence[str], width: int) -> list[str]:
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
