"""How XLA's cost analysis counts, over our operations."""

from __future__ import annotations

from typing import Any

from roofline.ops.counting import valid_macs
from roofline.programs.traced import Traced
from roofline.work import Op


def as_xla(traced: Traced) -> Any:
    """2 per multiply-add that meets an element, 1 for every FLOP but transcendentals; a conversion is one too.

    Each window of a pooling takes one for all its elements but the first.
    """
    return sum(op.repeat * _each(op) for op in traced.ops)


def _each(op: Op) -> Any:
    if op.kind in ("contraction", "convolution"):
        return 2 * valid_macs(op)
    if "window" in op.dims:
        return op.dims["results"] * (op.dims["window"] - 1)
    converted = op.dims["elements"] if op.name == "cast" else 0
    return op.work.total("flops") - op.dims.get("transcendentals", 0) + converted
