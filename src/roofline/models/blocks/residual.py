"""Norms, residual additions and branches that run side by side."""

from __future__ import annotations

from typing import ClassVar

from roofline.frozen import dataclass
from roofline.models.description import Block, Cached
from roofline.models.operation_builder import OperationBuilder
from roofline.models.weights import Weight, join_path
from roofline.ops.basic import embedding
from roofline.sizes import Size
from roofline.work import Tensor


@dataclass(frozen=True, slots=True)
class Norm(Block):
    """RMS or layer norm over the hidden state; ``restarts`` makes its result the residual stream (post-norm).

    ``scaled`` says whether it has a scale. With a ``gate_rank`` a sigmoid multiplies the result, made of it by two
    matrices with a SiLU between.
    """

    runs_whole: ClassVar[bool] = True
    width: int
    function: str = "rms_norm"
    shift: bool = False
    restarts: bool = False
    scaled: bool = True
    gate_rank: int = 0

    def weights(self) -> tuple[Weight, ...]:
        if not self.scaled:
            return ()
        found = [Weight("", (self.width,), "norm")]
        if self.shift:
            found.append(Weight("bias", (self.width,), "norm"))
        if self.gate_rank:
            shape = (self.gate_rank, self.width)
            found += [Weight("mlp.fc1", shape), Weight("mlp.fc2", shape[::-1])]
        return tuple(found)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        rows = x.dims[0]
        out = builder.norm(self.function, x, "", rows, self.width)
        if self.gate_rank:
            narrow = builder.elementwise("silu", (builder.linear("mlp.fc1", out, rows),), "mlp.act")
            gate = builder.elementwise("sigmoid", (builder.linear("mlp.fc2", narrow, rows),), "mlp.gate")
            out = builder.elementwise("multiply", (out, gate), "gated", like=out)
        if self.restarts:
            builder.stream = out
        return out


@dataclass(frozen=True, slots=True)
class ResidualAdd(Block):
    """Add a branch's result to the residual stream."""

    runs_whole: ClassVar[bool] = True

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        builder.stream = builder.elementwise("add", (x, builder.stream), "")
        return builder.stream


@dataclass(frozen=True, slots=True)
class ParallelBranches(Block):
    """Branches whose results are added. All start from the residual stream; with ``inside``, from the input."""

    branches: tuple[tuple[Block, ...], ...]
    inside: bool = False

    def weights(self) -> tuple[Weight, ...]:
        return tuple(
            weight._replace(name=join_path(block.name, weight.name))
            for branch in self.branches
            for block in branch
            for weight in block.weights()
        )

    def active(self) -> int:
        return sum(block.active() for branch in self.branches for block in branch)

    def cache(self, length: Size) -> tuple[Cached, ...]:
        return tuple(part for branch in self.branches for block in branch for part in block.cache(length))

    def kv_per_token(self) -> float:
        return sum(block.kv_per_token() for branch in self.branches for block in branch)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        ends = []
        for branch in self.branches:
            end = x if self.inside else builder.stream
            for block in branch:
                builder.enter(block.name, block.weights())
                end = block.run(builder, end)
            ends.append(end)
        total = ends[0]
        for number, end in enumerate(ends[1:], 1):
            builder.enter("")
            total = builder.elementwise("add", (total, end), f"sum{number}" if number > 1 else "sum")
        return total


@dataclass(frozen=True, slots=True)
class PositionEmbedding(Block):
    """A table of positions (or of token types) that is added to the embedding: one row for each new token.

    It is learned where ``trained``, else computed of sines.
    """

    runs_whole: ClassVar[bool] = True
    rows: int
    width: int
    trained: bool = True

    def weights(self) -> tuple[Weight, ...]:
        return (Weight("", (self.rows, self.width), "embedding"),) if self.trained else ()

    def active(self) -> int:
        return self.width if self.trained else 0

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        if not self.trained:
            builder.stream = builder.elementwise("add", (x,), "add")
            return builder.stream
        (table, *_), _ = builder.read_weight(self.weights()[0])
        new = builder.step.new
        index = Tensor(builder.path("index"), (new,), "int32", "index")
        rows = builder.output("rows", new, self.width)
        builder.add(embedding("", (table, index), (rows,)), "gather")
        builder.mark_by_sequence()
        builder.stream = builder.elementwise("add", (x, rows), "add", like=x)
        builder.mark_by_sequence()
        return builder.stream


@dataclass(frozen=True, slots=True)
class IdleBlocks(Block):
    """Blocks whose weights are in memory and that no plain step runs."""

    blocks: tuple[Block, ...]

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the blocks."""
        return tuple(
            weight._replace(name=join_path(block.name, weight.name))
            for block in self.blocks
            for weight in block.weights()
        )

    def active(self) -> int:
        """Parameters that one token uses: none."""
        return 0


@dataclass(frozen=True, slots=True)
class Linear(Block):
    """A matrix and its activation at the ends of a model (a wider embedding, a pooler, a head's transform).

    ``restarts`` makes its result the residual stream.
    """

    runs_whole: ClassVar[bool] = True
    inputs: int
    outputs: int
    activation: str = ""
    bias: bool = True
    restarts: bool = False

    def weights(self) -> tuple[Weight, ...]:
        matrix = (Weight("", (self.outputs, self.inputs), "linear"),)
        return (*matrix, Weight("bias", (self.outputs,), "bias")) if self.bias else matrix

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        out = builder.linear("", x, x.dims[0])
        out = builder.elementwise(self.activation, (out,), "activation") if self.activation else out
        if self.restarts:
            builder.stream = out
        return out
