"""Messages between chips that share a model, as blocks and operations of a step.

Tensor-parallel chips may hold the same keys and values. With ``kv`` they split these by sequence:

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> from roofline.models.parallelism.splitting import local_model
>>> twice, _ = local_model(load("llama-3-70b"), chip("h100:16"), tensor=16)
>>> once, _ = local_model(load("llama-3-70b"), chip("h100:16"), tensor=16, kv=2)
>>> twice.kv_bytes_per_token() / once.kv_bytes_per_token()
2.0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline import dtypes
from roofline.frozen import dataclass, replace
from roofline.hardware.machine import MeshAxis
from roofline.models.blocks.attention import tokens_passed
from roofline.models.description import Block, Cached, CachedTokens
from roofline.models.operation_builder import OperationBuilder
from roofline.models.weights import Weight
from roofline.ops.collectives.choice import Chooser
from roofline.ops.collectives.cost import price_collective
from roofline.ops.collectives.routing import Density
from roofline.sizes import Size, exact_div, is_one, is_zero, product
from roofline.work import Op, Tensor, Work

#: How collectives go: by a named algorithm, as a chooser says, or as is usual.
Algorithm = str | Chooser | None


def collective_operation(
    kind: str, axes: Sequence[MeshAxis], nbytes: Size, x: Tensor | None = None, out: Tensor | None = None,
    algorithm: Algorithm = None, density: Density = 1,
) -> Op:  # fmt: skip
    """A collective of an array of ``nbytes`` as an operation from ``x`` to ``out``; without, it happens in place."""
    reads, writes = (() if tensor is None else (tensor,) for tensor in (x, out))
    return price_collective(
        kind, reads, writes, kind=kind, axes=axes, nbytes=nbytes, algorithm=algorithm, density=density
    )


@dataclass(frozen=True, slots=True)
class TensorParallelCollective(Block, runs_whole=True):
    """A collective of the hidden state between a layer's blocks, over all tokens of the step."""

    kind: str
    axes: tuple[MeshAxis, ...]
    algorithm: Algorithm = None

    def run(self, builder: OperationBuilder, x: Tensor, part: str = "") -> Tensor:
        """Add the collective and return its result: a chip's own tokens after a ReduceScatter, else all tokens."""
        tokens = builder.step.tokens
        ways = product(axis.size for axis in self.axes)
        rows = exact_div(tokens, ways) if self.kind == "ReduceScatter" else tokens
        out = builder.output(part, rows, *x.dims[1:], dtype=x.dtype)
        whole = x if self.kind != "AllGather" else out
        builder.add(collective_operation(self.kind, self.axes, whole.traffic_bytes, x, out, self.algorithm), part)
        return out


#: What chips of a stage do that split its layers without sequence parallelism.
PARTS_SENT = "with the same hidden state send a part each to the next stage"


@dataclass(frozen=True, slots=True)
class PipelineSend(Block):
    """Send the hidden state to the next pipeline stage, each chip its part to the same chip there.

    ``alike`` chips have the same hidden state and send a part each, which they put together where links are fast; that
    is not counted. So do Megatron-LM (Narayanan et al., arXiv:2104.04473, section 4.1) and vLLM.
    """

    axes: tuple[MeshAxis, ...]
    algorithm: Algorithm = None
    alike: int = 1

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        axes = tuple(axis if _closes(axis) else _neighbours(axis) for axis in self.axes)
        sent = exact_div(x.traffic_bytes, self.alike)
        op = collective_operation("Permute", axes, sent, x, algorithm=self.algorithm)
        builder.add(_with_sent(op, product(_share_of_a_link(axis, 1, self.algorithm) for axis in self.axes)), "")
        return x


def send_to_both_sides(
    axis: MeshAxis, pieces: tuple[int, int], chunks: int, nbytes: Size, x: Tensor, algorithm: Algorithm = None
) -> list[Op]:
    """Hidden states sent to the next pipeline stage and gradients to the one before, so many ``pieces`` of each.

    A link of a torus carries both at once, one each way. Two links of a ring lead away from a stage, so each carries
    half of what it sends; of several rings, parts may go by others (:func:`_share_of_a_link`). On a line, where the
    last stage's go back to the first over all links, a direction carries 2·chunks − 1. Behind switches both leave a
    chip by the same link.
    """
    out = replace(x, ident=f"{x.ident} sent")
    sent = collective_operation("Permute", (_neighbours(axis),), nbytes, x, out, algorithm)
    if _on_torus(axis):
        alone = len(axis.segments) == 1 and not _closes(axis)
        share = exact_div(2 * chunks - 1, sum(pieces)) if alone else exact_div(_share_of_a_link(axis, 2, algorithm), 2)
        sent = _with_sent(sent, share)
    return [replace(sent, repeat=count) for count in pieces]


def _with_sent(op: Op, share: Size) -> Op:
    """The operation with this share of its bytes on each link."""
    if is_one(share):
        return op
    return replace(op, work=Work({key: n * share if key.quantity == "wire" else n for key, n in op.work.items()}))


def _share_of_a_link(axis: MeshAxis, ways: int, algorithm: Algorithm = None) -> Size:
    """Least share of a message that the busiest link carries where every stage sends one to a neighbour.

    Over several axes of a torus a part f goes straight and the rest takes ``around`` links of others, at least 3, or 2
    round a ring of three; by ``direct`` all of it goes straight. All links together are as many as carry that::

        links·P·f ≥ ways·(P − 1)·(f + around·(1 − f))       links: those of a chip on average; ways: 2 back and forth

    >>> from roofline.hardware import chip
    >>> [_share_of_a_link(MeshAxis("p", 16, chip(on).mesh.axes[0].segments * 2), 2) for on in ("v5p:4x4x4", "v5e:4x4")]
    [0.7258064516129032, 0.8333333333333334]
    """
    asked = algorithm.name("Permute") if isinstance(algorithm, Chooser) else algorithm
    if len(axis.segments) < 2 or not _on_torus(axis) or asked == "direct":
        return 1
    sizes = [each.size for each in axis.segments]
    links = sum(each.directions if each.shape == "ring" else 2 - 2 / each.size for each in axis.segments)
    around, chips = 2 if 3 in sizes else 3, product(sizes)
    taken = ways * (chips - 1) / (chips * links)
    return around * taken / (1 + (around - 1) * taken)


def _closes(axis: MeshAxis) -> bool:
    """Whether an axis is one ring of a torus."""
    return [segment.shape for segment in axis.segments] == ["ring"]


def _on_torus(axis: MeshAxis) -> bool:
    return all(segment.topology == "torus" for segment in axis.segments)


def _neighbours(axis: MeshAxis) -> MeshAxis:
    """Two chips of an axis of a torus that lie side by side; behind switches the farthest pair sets the time."""
    if not _on_torus(axis):
        return axis
    return replace(axis, size=2, segments=(replace(axis.segments[0], size=2, wrap=False),))


@dataclass(frozen=True, slots=True)
class PipelineReceive(Block):
    """The hidden state that a stage receives under sequence parallelism: a chip's own share of the tokens."""

    ways: int

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        builder.stream = replace(x, dims=(exact_div(x.dims[0], self.ways), *x.dims[1:]))
        return builder.stream


@dataclass(frozen=True, slots=True)
class SharedAttention(Block):
    """Attention ``inner`` whose keys and values lie on several chips, those of ``axes``."""

    inner: Any
    axes: tuple[MeshAxis, ...]
    algorithm: Algorithm = None

    @property
    def is_latent(self) -> bool:  # type: ignore[override]
        """Whether the attention that is shared works on latents."""
        return bool(self.inner.is_latent)

    @property
    def ways(self) -> Size:
        """Chips that share keys and values."""
        return product(axis.size for axis in self.axes)

    def weights(self) -> tuple[Weight, ...]:
        return tuple(self.inner.weights())

    def kept_per_token(self) -> tuple[CachedTokens, ...]:
        return tuple(self.inner.kept_per_token())

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return tuple(self.inner.kept_per_sequence())

    def send(self, builder: OperationBuilder, kind: str, nbytes: Size, part: str, x: Tensor | None = None) -> None:
        """Add a collective of the chips that share keys and values."""
        builder.add(collective_operation(kind, self.axes, nbytes, x, algorithm=self.algorithm), part)

    def gather_sums(self, builder: OperationBuilder, heads: Size) -> None:
        """Add the AllGather of each head's log-sum-exp in fp32, by which results of parts are weighted."""
        self.send(builder, "AllGather", dtypes.get("fp32").nbytes(builder.step.tokens * heads) * self.ways, "sums")


@dataclass(frozen=True, slots=True)
class ContextParallelAttention(SharedAttention):
    """Attention whose sequences several chips share, each with its part of the keys and values.

    ::

        prefill   every chip's keys and values pass all others (ring attention): V·(c − 1)/c received by each,
                  V those of all tokens; in a window of w those of the w − 1 tokens before its own; queries are
                  dealt so that each chip has as many pairs; of latents that are expanded each chip expands its
                  part, the least both of bytes and of FLOPs
        decode    every chip attends to its part for every query; the sums over parts are put together:
                  an AllGather of each head's log-sum-exp (fp32), an AllReduce of the weighted results; each chip
                  multiplies results on latents by kv_b's value half before, which makes them narrower

    Sources: Liu, Zaharia, Abbeel, arXiv:2310.01889 (ring); Brandon et al., arXiv:2311.09431 (causal balance);
    Bhatia et al., arXiv:2507.07120 (decode).
    """

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        """Add attention, the keys passed around before it, or the parts combined after it."""
        start = len(builder.ops)
        out: Tensor = self.inner.run(builder, x)
        where = [i for i, op in enumerate(builder.ops) if i >= start and op.kind == "attention"][-1]
        attention = builder.ops[where]
        if builder.step.ring:
            passed, kept = self._passed(builder)
            builder.ops[where] = replace(attention, reads=(*attention.reads, *passed))
            builder.ops.insert(where, kept)
        else:
            last = max(i for i, op in enumerate(builder.ops) if i == where or (i > where and op.role == "absorb"))
            after, (results, *_) = builder.ops[last + 1 :], builder.ops[last].writes
            del builder.ops[last + 1 :]
            self.gather_sums(builder, self.inner.heads)
            self.send(builder, "AllReduce", results.traffic_bytes, "combine", results)
            builder.ops += after
        return out

    def _passed(self, builder: OperationBuilder) -> tuple[list[Tensor], Op]:
        """What the other chips keep, part by part, and the message that brings it."""
        step = builder.step
        # of keys, values and latents those that each chip needs; all others whole
        sees = ("window", "chunk", "causal")
        tokens = tokens_passed(step, self.ways, **{n: getattr(self.inner, n) for n in sees if hasattr(self.inner, n)})
        kept = [
            each.of(step.length) if each.chooses or each.rate > 1 else Cached(each.name, tokens * each.each)
            for each in self.inner.attended()
        ]
        formats = [step.index_format(part.dtype) for part in kept]
        sizes = [dtypes.get(each).nbytes(step.batch * part.elements) for each, part in zip(formats, kept, strict=True)]
        self.send(builder, "AllGather", sum(sizes[1:], sizes[0]), "ring")
        others = exact_div(step.batch * (self.ways - 1), self.ways)
        out = [
            builder.output(f"ring.{part.name}", others * part.elements, dtype=each)
            for each, part in zip(formats, kept, strict=True)
        ]
        return out, replace(builder.ops.pop(), writes=tuple(out))


@dataclass(frozen=True, slots=True)
class KVParallelAttention(SharedAttention):
    """Attention of chips whose heads read the same keys and values, of which each holds a part of every sequence.

    ::

        decode    an AllGather of the queries; every chip attends with the heads of all to its part; an AllGather of
                  each head's log-sum-exp (fp32) and a ReduceScatter of the results, weighted: of latents as wide
                  as these, since a chip has kv_b's value half of its own heads alone
        prefill   as without it, the cached tokens' keys and values gathered first

    As many FLOPs as without; 1/n of the cache. Source: vLLM, decode context parallelism; arXiv:2507.07120.
    """

    def kept_per_token(self) -> tuple[CachedTokens, ...]:
        return tuple(part._replace(each=exact_div(part.each, self.ways)) for part in self.inner.kept_per_token())

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        """Add attention, and the messages before and after it."""
        start = len(builder.ops)
        out: Tensor = self.inner.run(builder, x)
        inside, builder.ops = builder.ops[start:], builder.ops[:start]
        cached = {t.ident: t for op in inside for t in op.reads if _is_cached(t)}
        inside = [
            replace(op, reads=tuple(map(self._part, op.reads)), writes=tuple(map(self._kept, op.writes)))
            for op in inside
        ]
        if is_zero(builder.step.past):
            builder.ops += inside
            return out
        if builder.step.decoding:
            last = max(index for index, op in enumerate(inside) if op.kind == "attention")
            builder.ops += inside[:last]
            self._sent(builder, inside[last])
            builder.ops += inside[last + 1 :]
        else:
            first = min(index for index, op in enumerate(inside) if any(map(_is_cached, op.reads)))
            builder.ops += inside[:first]
            whole = self._gathered(builder, list(cached.values()))
            builder.ops += [replace(inside[first], reads=(*inside[first].reads, *whole)), *inside[first + 1 :]]
        return out

    def _part(self, tensor: Tensor) -> Tensor:
        """A chip's part of a cached tensor."""
        if not _is_cached(tensor):
            return tensor
        touched = None if tensor.touched is None else exact_div(tensor.touched, self.ways)
        return replace(tensor, dims=(exact_div(tensor.dims[0], self.ways), *tensor.dims[1:]), touched=touched)

    def _kept(self, tensor: Tensor) -> Tensor:
        """A chip's part of what is written to the cache."""
        return tensor if tensor.given is None else replace(tensor, given=exact_div(tensor.given, self.ways))

    def _sent(self, builder: OperationBuilder, attention: Op) -> None:
        heads = self.inner.heads * self.ways
        rows, format_ = builder.step.tokens * heads, dtypes.get(builder.step.activations)
        self.send(builder, "AllGather", format_.nbytes(rows * attention.dims["head_size"]), "queries")
        builder.ops.append(attention)
        self.gather_sums(builder, heads)
        self.send(builder, "ReduceScatter", format_.nbytes(rows * attention.dims["v_head_size"]), "combine")

    def _gathered(self, builder: OperationBuilder, cached: Sequence[Tensor]) -> list[Tensor]:
        """Gather the cached keys and values of all chips."""
        parts = [tensor.traffic_bytes for tensor in cached]
        self.send(builder, "AllGather", sum(parts[1:], parts[0]), "gathered")
        out = [
            builder.output(f"gathered.{number}", each.traffic_elements, dtype=each.dtype)
            for number, each in enumerate(cached)
        ]
        sent = builder.ops[-1].work
        # where the cache is empty nothing is sent
        work = sent if isinstance(builder.step.past, int) else sent * builder.step.begun
        builder.mark(work=work, writes=tuple(out))
        return out


def _is_cached(tensor: Tensor) -> bool:
    return tensor.role == "kv" and ".cache." in f"{tensor.ident}."
