"""Norms, residual additions and branches that run side by side."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.models.description import Block, Cached, Weight
from roofline.models.trace import Trace
from roofline.ops.embedding import embedding
from roofline.sizes import Size
from roofline.work import Tensor


@dataclass(frozen=True, slots=True)
class Norm(Block):
    """RMS or layer norm over the hidden state; ``restarts`` makes its result the residual stream (post-norm).

    ``scaled`` says whether it has a scale.
    """

    width: int
    function: str = "rms_norm"
    shift: bool = False
    restarts: bool = False
    scaled: bool = True

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        if not self.scaled:
            return ()
        scale = (Weight("", (self.width,), "norm"),)
        return (*scale, Weight("bias", (self.width,), "norm")) if self.shift else scale

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        out = trace.norm(self.function, x, self.weights(), "", x.dims[0], self.width)
        if self.restarts:
            trace.stream = out
        return out


@dataclass(frozen=True, slots=True)
class Residual(Block):
    """Add a branch's result to the residual stream."""

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        trace.stream = trace.elementwise("add", (x, trace.stream), "")
        return trace.stream


@dataclass(frozen=True, slots=True)
class Parallel(Block):
    """Branches that are added: all start from the residual stream, or ``inside`` from what comes in."""

    branches: tuple[tuple[Block, ...], ...]
    inside: bool = False

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        return tuple(
            weight._replace(name=".".join(filter(None, (block.name, weight.name))))
            for branch in self.branches
            for block in branch
            for weight in block.weights()
        )

    def active(self) -> int:
        """Parameters that one token uses."""
        return sum(block.active() for branch in self.branches for block in branch)

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """What a sequence of ``length`` tokens keeps between steps."""
        return tuple(part for branch in self.branches for block in branch for part in block.cache(length))

    def kv_per_token(self) -> float:
        """Elements of keys and values that one more token adds while no window is full."""
        return sum(block.kv_per_token() for branch in self.branches for block in branch)

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        ends = []
        for branch in self.branches:
            end = x if self.inside else trace.stream
            for block in branch:
                trace.enter(block.name)
                end = block.run(trace, end)
            ends.append(end)
        total = ends[0]
        for number, end in enumerate(ends[1:], 1):
            trace.enter("")
            total = trace.elementwise("add", (total, end), f"sum{number}" if number > 1 else "sum")
        return total


@dataclass(frozen=True, slots=True)
class Positions(Block):
    """A learned table of positions (or of token types) that is added to the embedding: one row for each new token."""

    rows: int
    width: int

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        return (Weight("", (self.rows, self.width), "embedding"),)

    def active(self) -> int:
        """Parameters that one token uses."""
        return self.width

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        (table, *_), _ = trace.stored(self.weights()[0])
        new = trace.step.new
        index = Tensor(trace.place("index"), (new,), "int32", "index")
        rows = trace.made("rows", new, self.width)
        trace.add(embedding(table, index, rows), "gather")
        trace.stream = trace.elementwise("add", (x, rows), "add", like=x)
        return trace.stream


@dataclass(frozen=True, slots=True)
class Held(Block):
    """Blocks whose weights are in memory and that no plain step runs."""

    blocks: tuple[Block, ...]

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the blocks."""
        return tuple(
            weight._replace(name=".".join(filter(None, (block.name, weight.name))))
            for block in self.blocks
            for weight in block.weights()
        )

    def active(self) -> int:
        """Parameters that one token uses: none."""
        return 0


@dataclass(frozen=True, slots=True)
class Dense(Block):
    """A matrix and its activation for the tokens whose output is wanted (a pooler, a head's transform)."""

    inputs: int
    outputs: int
    activation: str = ""
    bias: bool = True

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        matrix = (Weight("", (self.outputs, self.inputs), "linear"),)
        return (*matrix, Weight("bias", (self.outputs,), "bias")) if self.bias else matrix

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        matrix, *bias = self.weights()
        out = trace.linear(matrix, x, x.dims[0], bias=bias[0] if bias else None)
        return trace.elementwise(self.activation, (out,), "activation") if self.activation else out
