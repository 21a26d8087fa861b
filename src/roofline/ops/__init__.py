"""The price of each operation, from the tensors it reads and writes and its shape facts → :class:`~roofline.work.Op`.

A family of operations is one file: its price, with the formula and its source, and the rule that translates a step of
the notation into the price. ``pricing`` gathers those that programs take, ``masks`` counts attention pairs,
``collectives`` and ``sharding`` are rooms of their own.
"""

from __future__ import annotations

from roofline.ops.basic import raw
from roofline.ops.contraction import padded, tile_bytes, tiled_traffic
from roofline.ops.formula import formula, formula_names, read_names
from roofline.ops.rules import build

__all__ = ["build", "formula", "formula_names", "padded", "raw", "read_names", "tile_bytes", "tiled_traffic"]
