"""A chart in a terminal: lines in Braille dots, a number on each line, a letter at each operation, and a key below.

>>> from roofline.charts.chart import Chart
>>> from roofline.charts.marks import Axis, Line, Ridge
>>> roof = Chart(
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
from collections.abc import Iterator
from itertools import pairwise

from roofline.charts.chart import Chart
from roofline.charts.marks import Line, Point, Region
from roofline.charts.ticks import axis_title, ticks
from roofline.errors import InputError
from roofline.quantity import format_number, format_quantity

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


def to_text(chart: Chart, width: int = 80, height: int = 24, *, color: bool = False) -> str:
    """Draw in ``width`` columns; the plotting area is ``height`` rows high, title, axis and key come on top.

    ``color`` wraps marks in ANSI codes. A width below 40 or a height below 5 is an error.
    """
    if width < SMALLEST[0] or height < SMALLEST[1]:
        hint = f"at least {SMALLEST[0]} × {SMALLEST[1]}"
        raise InputError(f"{width} columns by {height} rows are too few for a chart", hint=hint)
    if chart.bars:
        from roofline.charts.terminal_bars import bars_text

        return bars_text(chart, width)
    y_ticks = ticks(chart.y, most=max(2, height // 2))
    margin = max((len(text) for _, text in y_ticks), default=0) + 2
    canvas = _Canvas(chart, width - margin, height)
    for mark in chart.lines:
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

    def __init__(self, chart: Chart, columns: int, rows: int) -> None:
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


def _marked(chart: Chart, canvas: _Canvas) -> Iterator[tuple[str, int | None]]:
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
    for number, line in enumerate(chart.lines, 1):
        sign = str(number) if number < 10 else chr(ord("①") + number - 10)
        cell = _free_cell(line, canvas)
        if cell is not None:
            canvas.put(cell, sign, line.series)
        yield f"{sign} {line.named}", line.series
    for ridge in chart.ridges:
        yield f"{_RIDGE} {ridge.named}", ridge.series
    for point in chart.points:
        yield f"{letters[point.label]} {_described(point, chart)}", point.series
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


def _between(line: Line, part: float, chart: Chart) -> tuple[float, float]:
    """The values a fraction of the way along a straight line, as it is drawn."""
    found = []
    for axis, (start, end) in ((chart.x, line.x[:2]), (chart.y, line.y[:2])):
        if axis.scale == "log":
            found.append(math.exp(math.log(start) + part * (math.log(end) - math.log(start))))
        else:
            found.append(start + part * (end - start))
    return found[0], found[1]


def _described(point: Point, chart: Chart) -> str:
    several = len({other.on for other in chart.points}) > 1
    name = f"{point.label} on {point.on}" if several else point.label
    reached = f"{format_quantity(point.y, chart.y.unit)} at {format_quantity(point.x, chart.x.unit)}"
    if point.share is not None:
        return f"{name}: {reached}, {format_number(100 * point.share, 2)} % of the roof"
    return f"{name}: {reached}" + (f", {point.bound_by} binds" if point.bound_by else "")


def _with_axes(chart: Chart, canvas: _Canvas, margin: int, color: bool) -> list[str]:
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
        for column in _columns_of(region, chart, canvas.columns):
            foot[column] = _SHADES[region.color]
    for value, text in ticks(chart.x, most=max(2, canvas.columns // 9)):
        column = round(canvas.at(value, chart.y.limits[0])[0]) // 2
        start = min(margin + column - len(text) // 2 + (len(text) + 1) % 2, len(below) - len(text))
        foot[column] = "┬"
        if start >= free:
            below[start : start + len(text)] = text
            free = start + len(text) + 1
    return [*rows, " " * (margin - 1) + "└" + "".join(foot), "".join(below), " " * min(margin, room) + title]


def _columns_of(region: Region, chart: Chart, columns: int) -> range:
    low, high = (min(max(chart.x.position(x), 0.0), 1.0) for x in (region.x0, region.x1))
    return range(round(low * columns), round(high * columns))


def _colored(text: str, series: int | None, color: bool) -> str:
    return f"\x1b[{_ANSI[series % len(_ANSI)]}m{text}\x1b[0m" if color and series is not None else text
