"""A chart → SVG, PNG or PDF. matplotlib is only the pen: every position comes from :mod:`roofline.charts.layout`.

Drawn with Figure and canvas objects, under default settings whatever the user's own are, and without dates or random
names, so that the same chart gives the same bytes. Text in SVG is text, which can be searched and read out.

Colours, strokes and markers are told apart by the colour-blind, and by stroke and shape where there is no colour. The
hues are those of M. Okabe and K. Ito, "Color Universal Design" (2008), each darkened on white or lightened on black
until text in it has a contrast of at least 4.5 : 1 with the background (WCAG 2.1, 1.4.3).
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, lru_cache
from threading import RLock
from typing import Any

from roofline.charts.layout import (
    BAND,
    BLOCK,
    LINE_SPACING,
    PALE_STRIPES,
    SHADE,
    STRIPES,
    SWATCH,
    SWATCH_GAP,
    ChartLayout,
    Frame,
    Text,
    layout,
    ridge_drop,
)
from roofline.charts.placement import Vertex
from roofline.charts.specification import Bar, HeatCell, Line, Mark, Point, Region, Ridge, Specification, minor_ticks
from roofline.errors import InputError
from roofline.files import replaced
from roofline.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of one theme.

    ``series`` are those of machines and curves, ``regions`` the washes behind them, ``shades`` those of heat maps from
    the least to the most: on each of them ``text`` is read.
    """

    background: str
    text: str
    muted: str
    grid: str
    axis: str
    series: tuple[str, ...]
    regions: Mapping[str, str]
    region_text: Mapping[str, str]
    shades: tuple[str, ...]


THEMES: Mapping[str, Theme] = {
    "light": Theme(
        background="#ffffff",
        text="#1b1f24",
        muted="#59636e",
        grid="#e7eaee",
        axis="#8c959f",
        series=("#0067a5", "#b64a00", "#007a59", "#a03c78", "#7d5d00", "#24292f"),
        regions={"red": "#fbe0d3", "yellow": "#faf3c8", "green": "#d6efe6"},
        region_text={"red": "#8f3200", "yellow": "#6a5800", "green": "#005f45"},
        shades=("#fdf8d8", "#e0efc9", "#c3e5b9", "#a3d9b7", "#82ccbc", "#69bdc2", "#5fabcc", "#5599d6"),
    ),
    "dark": Theme(
        background="#0d1117",
        text="#e6edf3",
        muted="#9aa4af",
        grid="#21272f",
        axis="#6e7681",
        series=("#5cb8f0", "#f08a4b", "#2cc295", "#e294c4", "#e8b23a", "#d0d7de"),
        regions={"red": "#47200f", "yellow": "#3d3610", "green": "#0c3a2c"},
        region_text={"red": "#ffb08a", "yellow": "#ecd95f", "green": "#6fdcb8"},
        shades=("#1d2126", "#1a2c3d", "#183654", "#164560", "#145667", "#176567", "#23715b", "#2c784b"),
    ),
}

#: Strokes in units of the line width: solid, dashed, dotted, dash-dot, long dashes.
DASHES: tuple[tuple[float, ...], ...] = ((), (5.0, 2.2), (1.2, 1.8), (6.0, 1.8, 1.2, 1.8), (9.0, 2.5))

#: Marker shapes of operations, in matplotlib's letters.
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "p")

#: Pixels of a marker of full size.
MARKER_SIZE = 7.5

#: Pixels an inch: a picture 720 wide is 7.2 inches of matplotlib's.
DPI = 100
POINTS_PER_PIXEL = 72 / DPI

#: The sides of an SVG in points, which are written in pixels.
_POINTS = re.compile(r'\b(width|height)="([\d.]+)pt"')

FONT = "DejaVu Sans"

#: Fonts for letters that it lacks, where one of them is installed.
_OTHER_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Noto Sans Devanagari",
    "Noto Emoji",
)

#: What the text of an SVG is shown in where the font it was set in is missing: Verdana has nearly its widths.
_SUBSTITUTES = "Verdana, sans-serif"

#: The fonts that a text was measured in: those of this machine, which a page elsewhere may not have.
_FAMILIES = re.compile(rf"font-family: '{FONT}'[^;\"]*")

#: What no XML may hold, and no text: control characters, bytes that are no letters.
_NO_CHARACTERS = re.compile("[^\\t\\n\\r -\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")

#: The halo of labels in an SVG: text stays text.
_HALO = "halo"

_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "roofline", "pdf.fonttype": 42, "path.simplify": True}
_NO_DATES: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}

#: matplotlib's settings and Python's warning filters belong to the process.
_ONE_THREAD = RLock()

#: The share of a row's height that its bar takes.
BAR_SHARE = 0.68

#: Line widths in pixels by role; the lower bound is a pale band behind the resource that sets it.
_WIDTHS = {"slope": 1.8, "ceiling": 1.8, "curve": 2.2, "lower": 2 * BAND, "upper": 1.8, "resource": 1.6}
_PALE = 0.22

#: How far the middle of a line of text is above the foot of its letters, for a size of 1: all in a row then stand on
#: one height, which the middle of each, with or without a comma or a bracket, does not give.
MIDDLE = 0.37


def write(chart: Specification, path: str, scale: float) -> None:
    """Draw to a file whose ending is a known format."""
    ending = path.rsplit(".", 1)[1].lower()
    drawn = render(chart, ending, scale)
    with replaced(path) as part, open(part, "wb") as file:
        file.write(drawn)


def _is_date(seconds: str) -> bool:
    """Whether a text is seconds since 1970 of a day that calendars have.

    >>> _is_date("1700000000"), _is_date("abc"), _is_date("1e9"), _is_date("9" * 20)
    (True, False, False, False)
    """
    try:
        datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return False
    return True


def svg(chart: Specification) -> str:
    """Draw as SVG text."""
    return render(chart, "svg", 1.0).decode()


def render(chart: Specification, ending: str, scale: float) -> bytes:
    """Draw in memory."""
    with _settled():
        figure = _figure(chart, as_text=ending == "svg")
        buffer = io.BytesIO()
        try:
            figure.savefig(buffer, format=ending, dpi=DPI * scale, metadata=_NO_DATES[ending])
        except (ValueError, OverflowError, OSError):
            date = os.environ.get("SOURCE_DATE_EPOCH")
            if date is None or _is_date(date):
                raise
            raise InputError(f"SOURCE_DATE_EPOCH is {date!r}, and takes seconds since 1970", hint="unset it") from None
        drawn = buffer.getvalue()
        return drawn if ending != "svg" else _described(chart, drawn.decode()).encode()


def _described(chart: Specification, drawn: str) -> str:
    """An SVG with a title and a description for readers of screens, and a halo round its labels."""
    from html import escape

    background = THEMES[chart.theme].background
    said = "; ".join(filter(None, (chart.subtitle, *chart.notes)))
    style = f'[id^="{_HALO}"] text {{ paint-order: stroke; stroke: {background}; stroke-width: 3px }}'
    head = (
        f"<title>{escape(_legal(chart.title))}</title>\n <desc>{escape(_legal(said))}</desc>\n <style>{style}</style>"
    )
    start = drawn.index(">", drawn.index("<svg ")) + 1
    named = _FAMILIES.sub(f"font-family: '{FONT}', {_SUBSTITUTES}", drawn[start:])
    opened = _POINTS.sub(lambda each: f'{each[1]}="{float(each[2]) / POINTS_PER_PIXEL:.6g}"', drawn[: start - 1])
    return f'{opened} role="img">\n {head}{named}'


def _legal(text: str) -> str:
    """A text with a mark in place of what no picture can hold."""
    return _NO_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text)


def drawn_layout(chart: Specification) -> ChartLayout:
    """The layout with the widths of the font it is drawn in: what a test of overlaps inspects."""
    with _settled():
        return _laid_out(chart)


@lru_cache(maxsize=4)
def _laid_out(chart: Specification) -> ChartLayout:
    """The layout of a chart that is drawn again, or in another format, is worked out once."""
    return layout(chart, text_width)


@contextmanager
def _settled() -> Iterator[None]:
    """Work under matplotlib's own defaults and put the user's settings back. One thread at a time: both are global."""
    import warnings

    try:
        import matplotlib
    except ValueError as wrong:  # of MPLBACKEND
        raise InputError(f"matplotlib does not load: {wrong}", hint="unset MPLBACKEND, or set it to agg") from None

    with _ONE_THREAD, matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a box in the picture says it better
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)  # type: ignore[arg-type]
        yield


@cache
def text_width(text: str, size: float, bold: bool) -> float:
    """Width in pixels."""
    renderer = _pen()
    width, _, _ = renderer.get_text_width_height_descent(_legal(text), _font(size, bold), False)
    return float(width)


@cache
def _pen() -> Any:
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(8, 8, DPI)  # type: ignore[no-untyped-call]


@cache
def _families() -> list[str]:
    from matplotlib.font_manager import fontManager

    known = set(fontManager.get_font_names())
    return [FONT, *(name for name in _OTHER_FONTS if name in known)]


@cache
def _font(size: float, bold: bool) -> Any:
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=_families(), weight="bold" if bold else "normal", size=size * POINTS_PER_PIXEL)


@dataclass(frozen=True, slots=True)
class _Sheet:
    """What the pen needs: the axes to draw in, the plotting area, its clip path, the colours."""

    axes: Any
    frame: Frame
    clip: Any
    theme: Theme

    def color(self, series: int) -> str:
        return self.theme.series[series % len(self.theme.series)]

    def path(self, vertices: Any, *, clip: bool = True, **style: Any) -> None:
        from matplotlib.lines import Line2D

        line = Line2D([x for x, _ in vertices], [y for _, y in vertices], **style)
        self.axes.add_line(line)
        if clip:
            line.set_clip_path(self.clip)

    def rectangle(self, corner: Vertex, width: float, height: float, color: str, *, zorder: int) -> None:
        from matplotlib.patches import Rectangle

        self.axes.add_patch(Rectangle(corner, width, height, facecolor=color, linewidth=0, zorder=zorder))

    def hatched(self, corner: Vertex, width: float, height: float) -> None:
        """Stripes over a rectangle, in the colour of the background."""
        from matplotlib.patches import Rectangle

        style: dict[str, Any] = {"hatch": "////", "edgecolor": self.theme.background, "linewidth": 0, "zorder": 4}
        self.axes.add_patch(Rectangle(corner, width, height, fill=False, **style))

    def marker(
        self, at: Vertex, shape: str, size: float, face: str, edge: str, edge_width: float, zorder: float
    ) -> None:
        self.path(
            [at], marker=shape, markersize=size * POINTS_PER_PIXEL, markerfacecolor=face, markeredgecolor=edge,
            markeredgewidth=edge_width, linestyle="none", clip=False, zorder=zorder,
        )  # fmt: skip


def _figure(chart: Specification, *, as_text: bool = False) -> Any:
    """Draw with matplotlib; ``as_text`` leaves the halo of labels to a style, since an outline would be shapes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    theme = THEMES[chart.theme]
    planned = _laid_out(chart)
    frame = planned.frame
    figure = Figure(figsize=(chart.width / DPI, chart.height / DPI), dpi=DPI, facecolor=theme.background)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, chart.width)
    axes.set_ylim(0, chart.height)
    clip = Rectangle((frame.left, frame.bottom), frame.width, frame.height, transform=axes.transData)
    sheet = _Sheet(axes, frame, clip, theme)
    _grid(sheet, planned, chart)
    _cells(sheet, chart.cells)
    for mark in chart.marks:
        if not isinstance(mark, HeatCell):
            _PENS[type(mark)](sheet, mark)
    for number, text in enumerate((*planned.around, *planned.labels)):
        artist = _text(sheet, text)
        if text.role == "label" and not chart.regions:
            if as_text:
                artist.set_gid(f"{_HALO}{number}")
            else:
                artist.set_path_effects([withStroke(linewidth=2.2, foreground=theme.background)])
    return figure


def _grid(sheet: _Sheet, planned: ChartLayout, chart: Specification) -> None:
    frame, theme = sheet.frame, sheet.theme
    left, right = frame.left, frame.left + frame.width
    bottom, top = frame.bottom, frame.bottom + frame.height
    style: dict[str, Any] = {"color": theme.grid, "linewidth": 0.9 * POINTS_PER_PIXEL, "zorder": 1, "clip": False}
    for value, _ in planned.x_ticks:
        x = frame.at(value, chart.y.limits[0])[0]
        sheet.path([(x, bottom), (x, top)], **style)
        sheet.path([(x, bottom), (x, bottom - 4)], color=theme.axis, linewidth=0.7, zorder=2, clip=False)
    for value, _ in () if chart.y.names else planned.y_ticks:
        y = frame.at(chart.x.limits[0], value)[1]
        sheet.path([(left, y), (right, y)], **style)
    for value in minor_ticks(chart.x):
        x = frame.at(value, chart.y.limits[0])[0]
        sheet.path([(x, bottom), (x, bottom - 2.5)], color=theme.axis, linewidth=0.5, zorder=2, clip=False)
    sheet.path([(left, bottom), (right, bottom)], color=theme.axis, linewidth=0.8, zorder=2, clip=False)


def _region(sheet: _Sheet, region: Region) -> None:
    frame = sheet.frame
    low, high = max(region.x0, frame.x.limits[0]), min(region.x1, frame.x.limits[1])
    left, right = frame.at(low, frame.y.limits[0])[0], frame.at(high, frame.y.limits[0])[0]
    color = sheet.theme.regions[region.color]
    sheet.rectangle((left, frame.bottom), right - left, frame.height, color, zorder=0)


def _bar(sheet: _Sheet, bar: Bar) -> None:
    left, top = sheet.frame.at(bar.x0, bar.row + (1 - BAR_SHARE) / 2)
    right, bottom = sheet.frame.at(bar.x1, bar.row + (1 + BAR_SHARE) / 2)
    sheet.rectangle((left, bottom), right - left, top - bottom, sheet.color(bar.series), zorder=3)
    if bar.over is not None and bar.over < bar.x1:
        beyond, _ = sheet.frame.at(max(bar.over, bar.x0), bar.row)
        sheet.hatched((beyond, bottom), right - beyond, top - bottom)


def _cells(sheet: _Sheet, cells: Sequence[HeatCell]) -> None:
    """The cells of each shade as one shape, neighbours in a row joined, on whole pixels so that no seam shows."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    shades: dict[tuple[int, bool], list[Vertex]] = {}
    for shade, over, row, first, last in _runs(cells):
        left, bottom = (round(each) for each in sheet.frame.at(first, row))
        right, top = (round(each) for each in sheet.frame.at(last + 1, row + 1))
        corners: list[Vertex] = [(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)]
        shades.setdefault((shade, over), []).extend(corners)
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    for (shade, over), corners in shades.items():
        path = Path(corners, codes * (len(corners) // len(codes)))
        color = sheet.theme.grid if over else sheet.theme.shades[shade % len(sheet.theme.shades)]
        sheet.axes.add_patch(PathPatch(path, facecolor=color, linewidth=0, antialiased=False, zorder=2))
        if over:
            style: dict[str, Any] = {"hatch": "////", "edgecolor": sheet.theme.background, "linewidth": 0}
            sheet.axes.add_patch(PathPatch(path, fill=False, zorder=2.5, **style))


def _runs(cells: Sequence[HeatCell]) -> Iterator[tuple[int, bool, int, int, int]]:
    """Neighbours of one shade in a row: it (0 of what does not fit), whether they do not, row, first and last column.

    >>> list(_runs([HeatCell("", 0, 0, 1.0), HeatCell("", 1, 0, 1.0), HeatCell("", 2, 0, 2.0, 1)]))
    [(0, False, 0, 0, 1), (1, False, 0, 2, 2)]
    """
    kept: tuple[int, bool, int, int, int] | None = None
    for cell in sorted(cells, key=lambda each: (each.row, each.column)):
        here = (0 if cell.over else cell.shade, cell.over, cell.row)
        if kept is not None and kept[:3] == here and kept[4] + 1 == cell.column:
            kept = (*here, kept[3], cell.column)
            continue
        if kept is not None:
            yield kept
        kept = (*here, cell.column, cell.column)
    if kept is not None:
        yield kept


def _line(sheet: _Sheet, line: Line) -> None:
    width = _WIDTHS[line.role] * POINTS_PER_PIXEL
    sheet.path(
        [sheet.frame.at(x, y) for x, y in zip(line.x, line.y, strict=True)],
        color=sheet.color(line.series),
        linewidth=width,
        linestyle=_stroke(line.dash),
        solid_capstyle="round",
        alpha=_PALE if line.role == "lower" else 1.0,
        zorder=3,
    )


def _stroke(dash: int) -> Any:
    """The stroke of a dash's number, as matplotlib writes one."""
    pattern = DASHES[dash % len(DASHES)]
    return (0, pattern) if pattern else "-"


def _point(sheet: _Sheet, point: Point) -> None:
    color, background = sheet.color(point.series), sheet.theme.background
    here = sheet.frame.at(point.x, point.y)
    if point.roof is not None and point.text:
        roof = sheet.frame.at(point.x, point.roof)
        sheet.path([here, roof], color=color, linewidth=0.9, linestyle=(0, (2, 1.6)), zorder=4)
        sheet.path([(roof[0] - 4, roof[1]), (roof[0] + 4, roof[1])], color=color, linewidth=1.1, zorder=4)
    shape = SHAPES[point.shape % len(SHAPES)]
    if point.kind == "measured":
        sheet.marker(here, shape, MARKER_SIZE * point.size, background, color, 1.2, layer(point))
    else:
        edge = 0.8 if point.size >= 1 else 0.3
        sheet.marker(here, shape, MARKER_SIZE * point.size, color, background, edge, layer(point))


def layer(point: Point) -> float:
    """How far up a marker lies: a small one on a large one, and of equal ones the named one."""
    return 6.5 - point.size / 10 + 0.01 * bool(point.text)


def _ridge(sheet: _Sheet, ridge: Ridge) -> None:
    color = sheet.color(ridge.series)
    sheet.path(ridge_drop(ridge, sheet.frame), color=color, linewidth=0.6, linestyle=(0, (1, 2.5)), zorder=2)
    sheet.marker(sheet.frame.at(ridge.x, ridge.y), "D", 5.0, sheet.theme.background, color, 1.0, 5)


def _text(sheet: _Sheet, text: Text) -> Any:
    theme = sheet.theme
    if text.leader is not None:
        sheet.path(text.leader, color=theme.muted, linewidth=0.6, clip=False, zorder=4)
    if text.swatch is not None:
        series, dash = text.swatch
        right, y = text.x - SWATCH_GAP, text.y
        width = _WIDTHS["ceiling"] * POINTS_PER_PIXEL
        ends = [(right - SWATCH, y), (right, y)]
        if dash in (BLOCK, STRIPES, SHADE, PALE_STRIPES):
            corner = (right - SWATCH, y - SWATCH / 4)
            fill = sheet.theme.shades[series] if dash == SHADE else sheet.color(series)
            fill = sheet.theme.grid if dash == PALE_STRIPES else fill
            sheet.rectangle(corner, SWATCH, SWATCH / 2, fill, zorder=3)
            if dash in (STRIPES, PALE_STRIPES):
                sheet.hatched(corner, SWATCH, SWATCH / 2)
        else:
            sheet.path(ends, color=sheet.color(series), linewidth=width, linestyle=_stroke(dash), clip=False, zorder=4)
    colors = {"text": theme.text, "label": theme.text, "muted": theme.muted, **theme.region_text}
    color = colors[text.role] if text.series is None else sheet.color(text.series)
    alone = len(text.lines) == 1
    down, turn = text.size * MIDDLE * alone, math.radians(text.angle)
    return sheet.axes.text(
        text.x + down * math.sin(turn), text.y - down * math.cos(turn), _legal("\n".join(text.lines)),
        fontproperties=_font(text.size, text.bold), color=color, ha=text.align, va="baseline" if alone else "center",
        rotation=text.angle, rotation_mode="anchor", linespacing=LINE_SPACING - 0.15,
        multialignment="left" if text.role == "label" else "center", parse_math=False, zorder=8,
    )  # fmt: skip


_PENS: dict[type[Mark], Callable[[_Sheet, Any], None]] = {
    Line: _line,
    Point: _point,
    Ridge: _ridge,
    Region: _region,
    Bar: _bar,
}
