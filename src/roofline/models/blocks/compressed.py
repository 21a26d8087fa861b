"""Attention over a window of keys and compressed entries of everything before it (DeepSeek-V4).

Keys and values are one shared vector a token. Every ``rate`` tokens make one compressed entry; a query attends to the
window, and to all entries or to those an index picks.

Source: DeepSeek-V4 technical report, section 2.3, and the transformers implementation (modular_deepseek_v4.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.models.blocks.attention import rotate
from roofline.models.blocks.latent import Selector, index_scores
from roofline.models.blocks.scores import compressed_pairs, scores, visible_pairs
from roofline.models.description import Block, Cached, Weight
from roofline.models.step import is_zero
from roofline.models.trace import Trace
from roofline.sizes import Size, floor_div, minimum
from roofline.work import Op, Tensor, Work


@dataclass(frozen=True, slots=True)
class CompressedAttention(Block):
    """``heads`` heads of ``width`` over one shared key-value head; ``rate`` 0 is the window alone.

    Two series of entries overlap where there is a ``selector``, which doubles the compressor's matrices. The output
    goes through ``groups`` blocks of rank ``out_rank`` and a second matrix.
    """

    inputs: int
    heads: int
    width: int
    query_rank: int
    rotary: int
    window: int
    groups: int
    out_rank: int
    rate: int = 0
    selector: Selector | None = None
    names: tuple[str, ...] = ("q_a_proj", "q_a_norm", "q_b_proj", "kv_proj", "kv_norm", "o_a_proj", "o_b_proj")

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        q_a, q_norm, q_b, kv, kv_norm, o_a, o_b = self.names
        found = [
            Weight("sinks", (self.heads,), "other", "fp32"),
            Weight(q_a, (self.query_rank, self.inputs)),
            Weight(q_norm, (self.query_rank,), "norm"),
            Weight(q_b, (self.heads * self.width, self.query_rank)),
            Weight(kv, (self.width, self.inputs)),
            Weight(kv_norm, (self.width,), "norm"),
            Weight(o_a, (self.groups * self.out_rank, self.heads * self.width // self.groups)),
            Weight(o_b, (self.inputs, self.groups * self.out_rank)),
        ]
        if self.rate:
            found += self._compressor("compressor", self.width)
        if self.selector is not None:
            s = self.selector
            found += self._compressor("indexer", s.width)
            found += [
                Weight("indexer.q_b_proj", (s.heads * s.width, self.query_rank)),
                Weight("indexer.weights_proj", (s.heads, self.inputs), "other"),
            ]
        return tuple(found)

    def _compressor(self, module: str, width: int) -> list[Weight]:
        both = width * (2 if self.selector is not None else 1)
        return [
            Weight(f"{module}.kv_proj", (both, self.inputs), "other"),
            Weight(f"{module}.gate_proj", (both, self.inputs), "other"),
            Weight(f"{module}.position_bias", (self.rate, both), "other", "fp32"),
            Weight(f"{module}.kv_norm", (width,), "norm"),
        ]

    def kv_per_token(self) -> float:
        """Elements of keys and values that one more token adds while no window is full."""
        entry = self.width + (self.selector.width if self.selector else 0)
        return self.width + (entry / self.rate if self.rate else 0)

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """What a sequence of ``length`` tokens keeps between steps."""
        parts = [Cached("window", minimum(length, self.window) * self.width)]
        if self.rate:
            entries = floor_div(length, self.rate)
            parts.append(Cached("entries", entries * self.width))
            if self.selector is not None:
                parts.append(Cached("index entries", entries * self.selector.width))
        return tuple(parts)

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        step = trace.step
        tokens = step.tokens
        weights = {weight.name: weight for weight in self.weights()}
        q_a, q_norm, q_b, kv_name, kv_norm, o_a, o_b = self.names
        narrow = trace.linear(weights[q_a], x, tokens)
        narrow = trace.norm("rms_norm", narrow, (weights[q_norm],), q_norm, tokens, self.query_rank)
        q = trace.linear(weights[q_b], narrow, tokens)
        q = trace.norm("rms_norm", q, (), "q_b_norm", tokens * self.heads, self.width)
        q = rotate(trace, q, "q_rope", tokens, self.heads, self.rotary)
        kv = trace.linear(weights[kv_name], x, tokens)
        kv = trace.norm("rms_norm", kv, (weights[kv_norm],), kv_norm, tokens, self.width)
        kv = trace.keep(rotate(trace, kv, "k_rope", tokens, 1, self.rotary))
        read, pairs = [kv], visible_pairs(step.new, step.length, causal=True, window=self.window)
        if step.full:
            pairs = step.new * step.length
        if not is_zero(step.past):
            dims = (step.attended, step.past, self.width)
            touched = step.attended * minimum(step.past, self.window - 1) * self.width
            read.append(Tensor(trace.place("cache", "window"), dims, step.kv, "kv", touched=touched))
        if self.rate:
            most = self.selector.most if self.selector else None
            read += self._compress(trace, x, weights, "compressor", self.width, most)
            pairs = pairs + self._entries(trace, most)
        if self.selector is not None:
            self._select(trace, x, narrow, weights, self.selector)
        read += trace.stored(weights["sinks"])[0]
        out = scores(
            trace, q, read, pairs=pairs, heads=self.heads, kv_heads=1,
            key=self.width, value=self.width, length=step.length,
        )  # fmt: skip
        out = rotate(trace, out, "o_rope", tokens, self.heads, self.rotary)
        out = trace.linear(weights[o_a], out, tokens, copies=self.groups)
        return trace.linear(weights[o_b], out, tokens)

    def _compress(
        self, trace: Trace, x: Tensor, weights: dict[str, Weight], module: str, width: int, most: int | None
    ) -> list[Tensor]:
        """Weigh each window's tokens by a softmax of gates, add them up, normalise: one entry a window."""
        step = trace.step
        tokens = step.tokens
        kv = trace.linear(weights[f"{module}.kv_proj"], x, tokens)
        gate = trace.linear(weights[f"{module}.gate_proj"], x, tokens)
        bias = trace.stored(weights[f"{module}.position_bias"])[0]
        closed = floor_div(step.length, self.rate) - floor_div(step.past, self.rate)
        made = trace.made(f"{module}.pool", step.own * closed, width)
        elements = kv.elements
        pool = Op(
            "",
            "softmax",
            Work.flops("vector", step.activations, 8 * elements),
            (kv, gate, *bias),
            (made,),
            {"elements": elements},
        )
        trace.add(pool, f"{module}.pool")
        scale = (weights[f"{module}.kv_norm"],)
        entries = trace.keep(trace.norm("rms_norm", made, scale, f"{module}.kv_norm", step.own * closed, width))
        if is_zero(step.past):
            return [entries]
        before = floor_div(step.past, self.rate)
        seen = before if most is None else minimum(before, step.new * most)
        dims = (step.attended, before, width)
        cached = Tensor(
            trace.place("cache", f"{module} entries"), dims, step.kv, "kv", touched=step.attended * seen * width
        )
        return [entries, cached]

    def _entries(self, trace: Trace, most: int | None) -> Size:
        """Pairs of a query and a compressed entry it attends to."""
        step = trace.step
        if step.full:
            return step.new * floor_div(step.length, self.rate)
        return compressed_pairs(step.new, step.past, self.rate, most)

    def _select(self, trace: Trace, x: Tensor, narrow: Tensor, weights: dict[str, Weight], selector: Selector) -> None:
        step = trace.step
        entries = self._compress(trace, x, weights, "indexer", selector.width, None)
        q = trace.linear(weights["indexer.q_b_proj"], narrow, step.tokens)
        w = trace.linear(weights["indexer.weights_proj"], x, step.tokens)
        pairs = self._entries(trace, None)
        read = (q, w, *entries)
        trace.add(index_scores(trace, read, pairs, selector.heads, selector.width, selector.most), "indexer.scores")
