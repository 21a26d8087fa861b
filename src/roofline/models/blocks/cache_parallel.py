"""Keys and values that tensor-parallel chips would hold several times, dealt out by sequence instead.

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> from roofline.models.sharded import share
>>> twice, _ = share(load("llama-3-70b"), chip("h100:16"), tensor=16)
>>> once, _ = share(load("llama-3-70b"), chip("h100:16"), tensor=16, kv=2)
>>> twice.kv_bytes_per_token() / once.kv_bytes_per_token()
2.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from roofline import dtypes
from roofline.hardware.machine import MeshAxis
from roofline.models.blocks.exchange import Algorithm, exchanged
from roofline.models.description import Block, Cached, Weight
from roofline.models.step import divided, is_zero
from roofline.models.trace import Trace
from roofline.sizes import Size, product
from roofline.work import Op, Tensor


@dataclass(frozen=True, slots=True)
class CacheParallel(Block):
    """Attention of chips whose heads read the same keys and values, of which each holds a part of every sequence.

    ::

        decode    an AllGather of the queries; every chip attends with the heads of all to its part; an AllGather of
                  each head's log-sum-exp (fp32) and a ReduceScatter of the results, weighted
        prefill   as without it, the cached tokens' keys and values gathered first

    As many FLOPs as without; 1/n of the cache. Source: vLLM, decode context parallelism; arXiv:2507.07120.
    """

    inner: Any
    axes: tuple[MeshAxis, ...]
    algorithm: Algorithm = None

    @property
    def ways(self) -> Size:
        """Chips that share keys and values."""
        return product(axis.size for axis in self.axes)

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        found: tuple[Weight, ...] = self.inner.weights()
        return found

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """What a sequence of ``length`` tokens keeps between steps."""
        return tuple(part._replace(elements=divided(part.elements, self.ways)) for part in self.inner.cache(length))

    def kv_per_token(self) -> float:
        """Elements of keys and values that one more token adds while no window is full."""
        return float(self.inner.kv_per_token() / self.ways)

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add attention, with what is sent before and after it."""
        start = len(trace.ops)
        out: Tensor = self.inner.run(trace, x)
        if is_zero(trace.step.past):
            return out
        inside, trace.ops = trace.ops[start:], trace.ops[:start]
        cached = {t.ident: t for op in inside for t in op.reads if _is_cached(t)}
        inside = [replace(op, reads=tuple(map(self._part, op.reads))) for op in inside]
        if trace.step.decoding:
            last = max(index for index, op in enumerate(inside) if op.kind == "attention")
            trace.ops += inside[:last]
            self._sent(trace, inside[last])
            trace.ops += inside[last + 1 :]
        else:
            first = min(index for index, op in enumerate(inside) if any(map(_is_cached, op.reads)))
            trace.ops += inside[:first]
            whole = self._gathered(trace, [tensor.traffic_bytes for tensor in cached.values()])
            trace.ops += [replace(inside[first], reads=(*inside[first].reads, whole)), *inside[first + 1 :]]
        return out

    def _part(self, tensor: Tensor) -> Tensor:
        """A chip's part of what is cached."""
        if not _is_cached(tensor):
            return tensor
        touched = None if tensor.touched is None else divided(tensor.touched, self.ways)
        return replace(tensor, dims=(divided(tensor.dims[0], self.ways), *tensor.dims[1:]), touched=touched)

    def _sent(self, trace: Trace, attention: Op) -> None:
        tokens, heads = trace.step.tokens, self.inner.heads * self.ways
        format_ = dtypes.get(trace.step.activations)
        value = getattr(self.inner, "value", 0) or self.inner.width
        queries = format_.nbytes(tokens * heads * attention.dims["head_size"])
        sums = dtypes.get("fp32").nbytes(tokens * heads) * self.ways
        results = format_.nbytes(tokens * heads * value)
        trace.add(exchanged("AllGather", self.axes, queries, algorithm=self.algorithm), "queries")
        trace.ops.append(attention)
        trace.add(exchanged("AllGather", self.axes, sums, algorithm=self.algorithm), "sums")
        trace.add(exchanged("ReduceScatter", self.axes, results, algorithm=self.algorithm), "combine")

    def _gathered(self, trace: Trace, parts: Sequence[Size]) -> Tensor:
        """Bring together what is cached."""
        nbytes = sum(parts[1:], parts[0])
        out = trace.made("gathered", nbytes, dtype="int8")
        trace.add(exchanged("AllGather", self.axes, nbytes, out=out, algorithm=self.algorithm), "gathered")
        return out


def _is_cached(tensor: Tensor) -> bool:
    return tensor.role == "kv" and ".cache." in f"{tensor.ident}."


__all__ = ["CacheParallel"]
