"""Colours, strokes and markers: told apart by the colour-blind, and by stroke and shape where there is no colour.

The hues are those of M. Okabe and K. Ito, "Color Universal Design" (2008), each darkened on white or lightened on
black until text in it has a contrast of at least 4.5 : 1 with the background (WCAG 2.1, 1.4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of one theme; ``series`` are those of machines and curves, ``regions`` the washes behind them."""

    background: str
    text: str
    muted: str
    grid: str
    axis: str
    series: tuple[str, ...]
    regions: Mapping[str, str]
    region_text: Mapping[str, str]


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
    ),
}

#: Strokes in units of the line width: solid, dashed, dotted, dash-dot, long dashes.
DASHES: tuple[tuple[float, ...], ...] = ((), (5.0, 2.2), (1.2, 1.8), (6.0, 1.8, 1.2, 1.8), (9.0, 2.5))

#: Marker shapes of operations, in matplotlib's letters.
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "p")


def contrast(first: str, second: str) -> float:
    """Contrast of two colours, 1 (the same) to 21 (black on white).

    Source: WCAG 2.1, definitions of contrast ratio and relative luminance.

    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
