"""Latency and bandwidth from times over sizes: time = latency + size ÷ bandwidth.

>>> fit_line([(1e3, 2.01e-6), (1e6, 12e-6), (1e9, 10.002e-3)])
(2e-06, 100000000000.0)
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.errors import InputError


def fit_line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Fit (size in bytes, seconds) by latency in seconds and bandwidth in B/s, to nine digits.

    Least squares of relative errors, Σ ((a + b·size)/seconds − 1)², so that small messages count as much as large
    ones. A latency below zero is none. Raises :class:`~roofline.errors.InputError` for fewer than two sizes.
    """
    if len({size for size, _ in points}) < 2:
        raise InputError("a latency and a bandwidth need times of at least two sizes")
    inverse = [1 / seconds for _, seconds in points]
    ratio = [size / seconds for size, seconds in points]
    aa, ab, bb = (
        sum(x * y for x, y in zip(*pair, strict=True))
        for pair in ((inverse, inverse), (inverse, ratio), (ratio, ratio))
    )
    a, b = sum(inverse), sum(ratio)
    determinant = aa * bb - ab * ab
    latency, slope = (a * bb - b * ab) / determinant, (aa * b - ab * a) / determinant
    if latency < 0:
        latency, slope = 0.0, b / bb
    if slope <= 0:
        raise InputError("larger messages take no longer: no bandwidth can be read off")
    return float(f"{latency:.9g}"), float(f"{1 / slope:.9g}")
