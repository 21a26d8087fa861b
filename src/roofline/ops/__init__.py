"""What each operation costs: a resolved step, or plain sizes, → :class:`~roofline.work.Op`.

One family, one file. Each file holds a plain cost function (usable without the notation) and the rule that calls it
for a step of a program.
"""

from __future__ import annotations

from roofline.ops.build import build
from roofline.ops.formula import formula, formula_names, read_names
from roofline.ops.raw import raw
from roofline.ops.tiles import padded, tile_bytes, tiled_traffic

__all__ = ["build", "formula", "formula_names", "padded", "raw", "read_names", "tile_bytes", "tiled_traffic"]
