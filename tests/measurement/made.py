"""A measurement made up for tests: a machine with known levels, ceilings and effects."""

from __future__ import annotations

from roofline.measurement.levels import SampleSummary
from roofline.measurement.library import SHAPE_ROWS, SHAPE_SIDES
from roofline.measurement.result import Ceiling, Conditions, Curve, Measurement, ShapeTable

#: What a call of a product costs in the made-up library, in seconds.
CALL = 2e-6


def summary(value, clean=1.0, doubts=()):
    return SampleSummary(value, value * 0.99, value * 1.01, 15, clean, doubts)


def bandwidth(size, threads):
    capacities = ((48e3 * threads, 540e9), (1e6 * threads, 210e9), (32e6, 110e9), (float("inf"), 45e9))
    return next(value for capacity, value in capacities if size <= capacity) * threads


def shapes(dtype, best, threads, clean=1.0):
    """Products that take a call and their FLOPs at the best rate."""
    points = []
    for rows in SHAPE_ROWS:
        for side in SHAPE_SIDES:
            flops = 2.0 * rows * side**2
            points.append((float(rows), float(side), summary(flops / (CALL + flops / best), clean)))
    return ShapeTable("library", dtype, "torch matmul", threads, tuple(points))


def made(*, clean=1.0, interrupted=False, doubts=()):
    sizes = [2.0 ** (13.5 + n / 2) for n in range(31)]
    conditions = Conditions("Made-up CPU", "2026-01-01", 2, 12.5, interrupted=interrupted, load=0.5, caches=3)
    ceilings = [Ceiling("clock", "Hz", "a chain", 1, summary(4e9, clean))]
    for threads in (1, 2):
        for dtype, peak in (("fp32", 256e9), ("bf16", 512e9)):
            ceilings.append(
                Ceiling(f"register {dtype}", "FLOP/s", "chains", threads, summary(peak * threads, clean, doubts), dtype)
            )
            ceilings.append(Ceiling("library", "FLOP/s", "torch", threads, summary(peak * threads / 2, clean), dtype))
        ceilings.append(
            Ceiling("library softmax", "element/s", "torch softmax", threads, summary(0.5e9 * threads, clean), "fp32")
        )
        ceilings.append(
            Ceiling("library exp", "element/s", "torch exp", threads, summary(1e9 * threads, clean), "fp32")
        )
        ceilings.append(Ceiling("fresh pages", "B/s", "first write", threads, summary(2e9, clean), working_set=16e6))
    ceilings.append(Ceiling("dispatch", "s", "add", 1, summary(1e-6, clean)))
    ceilings.append(Ceiling("call softmax", "s", "torch softmax", 1, summary(3e-6, clean), "fp32"))
    curves = [
        Curve("load", "reads", n, tuple((s * n, summary(bandwidth(s * n, n), clean)) for s in sizes)) for n in (1, 2)
    ]
    peaks = {"fp32": 128e9, "bf16": 256e9}
    tables = [shapes(dtype, peak * n, n, clean) for n in (1, 2) for dtype, peak in peaks.items()]
    return Measurement(conditions, tuple(ceilings), tuple(curves), tuple(tables))
