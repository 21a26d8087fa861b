"""Blocks of vision towers: position tables on a grid, merged and averaged patches.

>>> [weight.shape for weight in GridPositionEmbedding("pos_embed", rows=2304, width=1024, taps=4).weights()]
[(2304, 1024)]
"""

from __future__ import annotations

from math import isqrt

from roofline.frozen import dataclass, replace
from roofline.models.description import Block
from roofline.models.operation_builder import OperationBuilder
from roofline.models.weights import Weight
from roofline.sizes import Size, exact_div, minimum
from roofline.work import Tensor, Work


@dataclass(frozen=True, slots=True)
class GridPositionEmbedding(Block):
    """A learned table of positions on a grid, added to the patches: ``taps`` of its rows for each patch.

    ``weighted`` where they are interpolated (4 taps bilinear, 16 bicubic); ``axes`` where the table has one part for
    each side of the grid. ::

        vector FLOPs = patches·width·taps·(2 if weighted else 1)        products, and adding up

    An image reads at least one row for each patch, or with ``axes`` for each row and column: 2·sqrt(patches).
    """

    rows: int
    width: int
    taps: int = 1
    weighted: bool = False
    axes: bool = False

    def weights(self) -> tuple[Weight, ...]:
        return (Weight("", (self.rows, self.width), "embedding"),)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        patches = builder.step.new
        least = 2 * isqrt(patches) if self.axes and isinstance(patches, int) else patches
        (table, *_), _ = builder.read_weight(self.weights()[0], touched=minimum(least, self.rows))
        builder.stream = builder.elementwise("add", (x, table), "")
        op = builder.ops[-1]
        count = x.dims[0] * self.width * self.taps * (2 if self.weighted else 1)
        builder.ops[-1] = replace(op, work=Work(dict.fromkeys(op.work, count)))
        return builder.stream


@dataclass(frozen=True, slots=True)
class MergePatches(Block):
    """Lay ``side`` by ``side`` neighbouring patches into one row: a view, which costs nothing."""

    side: int

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        """Return ``x`` in its new shape."""
        together = self.side * self.side
        rows, width = x.dims
        return Tensor(x.ident, (exact_div(rows, together), width * together), x.dtype, x.role)


@dataclass(frozen=True, slots=True)
class PoolPatches(Block):
    """Average ``side`` by ``side`` neighbouring patches, then ``steps`` products or sums with each element. ::

    vector FLOPs = patches·width + tokens·width·steps
    """

    side: int
    steps: int = 0

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        rows, width = x.dims
        tokens: Size = exact_div(rows, self.side * self.side)
        out = builder.output("", tokens, width)
        builder.vector(
            "pooling", (x,), out, "", flops=rows * width + tokens * width * self.steps, elements=rows * width
        )
        return out


@dataclass(frozen=True, slots=True)
class DeepStackAdd(Block):
    """Add a branch's result to the language model's hidden state; the tower goes on with the branch's input."""

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        """Add the operation and return the stream."""
        builder.elementwise("add", (x, x), "")
        return builder.stream
