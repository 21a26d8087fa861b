"""What chips that share a model send each other, as blocks and operations of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from roofline import dtypes
from roofline.hardware.machine import MeshAxis
from roofline.models.description import Block, Cached, Weight
from roofline.models.step import divided
from roofline.models.trace import Trace
from roofline.ops.collective import cost
from roofline.ops.collective_choice import Chooser
from roofline.ops.collective_picks import Density
from roofline.sizes import Size, product
from roofline.work import Op, Tensor

#: How collectives go: by a named algorithm, as a chooser says, or as is usual.
Algorithm = str | Chooser | None


def exchanged(
    kind: str,
    axes: Sequence[MeshAxis],
    nbytes: Size,
    x: Tensor | None = None,
    out: Tensor | None = None,
    algorithm: Algorithm = None,
    density: Density = 1,
) -> Op:
    """A collective of an array of ``nbytes`` as an operation from ``x`` to ``out``; without, it happens in place."""
    found = cost(kind, axes, nbytes, algorithm=algorithm, density=density)
    return Op(
        name=kind,
        kind="collective",
        work=found.work,
        reads=() if x is None else (x,),
        writes=() if out is None else (out,),
        dims={"bytes": nbytes, "chips": found.chips},
        note=found.note,
        options={"collective": kind, "algorithm": found.algorithm, "axes": found.axes, "density": density},
    )


@dataclass(frozen=True, slots=True)
class Exchange(Block):
    """A collective of the hidden state between a layer's blocks, over all tokens of the step."""

    kind: str
    axes: tuple[MeshAxis, ...]
    algorithm: Algorithm = None

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the collective and return what each chip then holds: its own tokens after a ReduceScatter, else all."""
        tokens = trace.step.tokens
        ways = product(axis.size for axis in self.axes)
        rows = divided(tokens, ways) if self.kind == "ReduceScatter" else tokens
        out = trace.made("", rows, *x.dims[1:], dtype=x.dtype)
        whole = x if self.kind != "AllGather" else out
        trace.add(exchanged(self.kind, self.axes, whole.traffic_bytes, x, out, self.algorithm), "")
        return out


@dataclass(frozen=True, slots=True)
class HandOn(Block):
    """Send the hidden state to the next stage of a pipeline, each chip what it holds to its like there."""

    axes: tuple[MeshAxis, ...]
    algorithm: Algorithm = None

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the message."""
        axes = tuple(map(_neighbours, self.axes))
        trace.add(exchanged("Permute", axes, x.traffic_bytes, x, algorithm=self.algorithm), "")
        return x


def _neighbours(axis: MeshAxis) -> MeshAxis:
    """Two chips of an axis of a torus that lie side by side; behind switches the farthest pair sets the time."""
    first = axis.segments[0]
    if first.topology != "torus":
        return axis
    return replace(axis, size=2, segments=(replace(first, size=2, wrap=False),))


@dataclass(frozen=True, slots=True)
class Received(Block):
    """What a stage takes up where tokens are split between blocks: its own share of them."""

    ways: int

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Return the chip's own tokens."""
        trace.stream = replace(x, dims=(divided(x.dims[0], self.ways), *x.dims[1:]))
        return trace.stream


@dataclass(frozen=True, slots=True)
class ContextParallel(Block):
    """Attention whose sequences several chips share, each with its part of the keys and values.

    ::

        prefill   every chip's keys and values pass all others (ring attention): V·(c − 1)/c received by each,
                  V what the sequences keep; queries are dealt so that each chip has as many pairs
        decode    every chip attends to its part for every query; the sums over parts are put together:
                  an AllGather of each head's log-sum-exp (fp32), an AllReduce of the weighted results

    Sources: Liu, Zaharia, Abbeel, arXiv:2310.01889 (ring); Brandon et al., arXiv:2311.09431 (causal balance);
    Bhatia et al., arXiv:2507.07120 (decode).
    """

    inner: Any
    axes: tuple[MeshAxis, ...]
    algorithm: Algorithm = None

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        found: tuple[Weight, ...] = self.inner.weights()
        return found

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """What a sequence of ``length`` tokens keeps between steps."""
        found: tuple[Cached, ...] = self.inner.cache(length)
        return found

    def kv_per_token(self) -> float:
        """Elements of keys and values that one more token adds while no window is full."""
        return float(self.inner.kv_per_token())

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add attention with what is passed before it or put together after it."""
        start = len(trace.ops)
        out: Tensor = self.inner.run(trace, x)
        where = [i for i, op in enumerate(trace.ops) if i >= start and op.kind == "attention"][-1]
        attention = trace.ops[where]
        if trace.step.ring:
            passed, kept = self._passed(trace)
            trace.ops[where] = replace(attention, reads=(*attention.reads, passed))
            trace.ops.insert(where, kept)
        else:
            after = trace.ops[where + 1 :]
            del trace.ops[where + 1 :]
            self._combined(trace, attention.writes[0])
            trace.ops += after
        return out

    def _passed(self, trace: Trace) -> tuple[Tensor, Op]:
        step = trace.step
        kept = [part.elements for part in self.inner.cache(step.length)]
        # what an encoder keeps from no step to the next, it passes whole
        elements: Size = sum(kept[1:], kept[0]) if kept else self.inner.kv_per_token() * step.length
        ways = product(axis.size for axis in self.axes)
        nbytes = dtypes.get(step.kv).nbytes(step.batch * elements)
        others = divided(step.batch * elements * (ways - 1), ways)
        out = trace.made("ring", others, dtype=step.kv)
        trace.add(exchanged("AllGather", self.axes, nbytes, out=out, algorithm=self.algorithm), "ring")
        return out, trace.ops.pop()

    def _combined(self, trace: Trace, partial: Tensor) -> None:
        step = trace.step
        heads = self.inner.heads
        value = getattr(self.inner, "value", 0) or self.inner.width
        ways = product(axis.size for axis in self.axes)
        sums = dtypes.get("fp32").nbytes(step.tokens * heads) * ways
        results = dtypes.get(step.activations).nbytes(step.tokens * heads * value)
        trace.add(exchanged("AllGather", self.axes, sums, algorithm=self.algorithm), "sums")
        trace.add(exchanged("AllReduce", self.axes, results, partial, algorithm=self.algorithm), "combine")


__all__ = ["Algorithm", "ContextParallel", "Exchange", "HandOn", "Received", "exchanged"]
