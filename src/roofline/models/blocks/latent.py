"""Multi-head latent attention: keys and values are kept as one narrow latent a token (DeepSeek-V2 and later).

>>> block = LatentAttention("self_attn", 7168, 128, 1536, 512, 128, 64, 128)
>>> block.kv_per_token()
576
>>> sum(weight.elements for weight in block.weights())
187107328
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.models.blocks.attention import rotate
from roofline.models.blocks.scores import scores, selected_pairs, visible_pairs
from roofline.models.description import Block, Cached, Weight
from roofline.models.step import is_zero
from roofline.models.trace import Trace
from roofline.ops.contraction import contraction
from roofline.sizes import Size, minimum
from roofline.work import Op, Tensor, Work


@dataclass(frozen=True, slots=True)
class Selector:
    """Picks the ``most`` keys each query attends to, by a small attention of its own ("lightning indexer").

    Where ``shared``, an earlier layer's choice is taken over and the layer has no weights for it.
    """

    heads: int
    width: int
    most: int
    shared: bool = False


@dataclass(frozen=True, slots=True)
class LatentAttention(Block):
    """``heads`` heads; ``query_rank`` (0: none) and ``rank`` are the latents' widths, ``plain`` + ``rotary`` a key's.

    ``turned`` says that the second part of a key is rotated.

    ::

        expanded   K, V = latent · kv_b for every token attended to; pairs·2·N·(plain + rotary + value)
        absorbed   q · kv_b's key half, scores on the latents, result · kv_b's value half;
                   pairs·2·N·(2·rank + rotary): more FLOPs, but nothing is made of the cache

    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1; selection: DeepSeek-V3.2-Exp technical report, section 2.1.
    """

    inputs: int
    heads: int
    query_rank: int
    rank: int
    plain: int
    rotary: int
    value: int
    bias: bool = False
    selector: Selector | None = None
    turned: bool = True

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        n, key = self.heads, self.plain + self.rotary
        if self.query_rank:
            found = [
                Weight("q_a_proj", (self.query_rank, self.inputs)),
                Weight("q_a_layernorm", (self.query_rank,), "norm"),
                Weight("q_b_proj", (n * key, self.query_rank)),
            ]
        else:
            found = [Weight("q_proj", (n * key, self.inputs))]
        found += [
            Weight("kv_a_proj_with_mqa", (self.rank + self.rotary, self.inputs)),
            Weight("kv_a_layernorm", (self.rank,), "norm"),
            Weight("kv_b_proj", (n * (self.plain + self.value), self.rank)),
            Weight("o_proj", (self.inputs, n * self.value)),
        ]
        if self.bias:
            names = ("q_a_proj", "kv_a_proj_with_mqa", "o_proj")
            found += [Weight(f"{w.name}.bias", w.shape[:1], "bias") for w in found if w.name in names]
        if self.selector is not None and not self.selector.shared:
            s = self.selector
            found += [
                Weight("indexer.wq_b", (s.heads * s.width, self.query_rank)),
                Weight("indexer.wk", (s.width, self.inputs)),
                Weight("indexer.k_norm", (s.width,), "norm"),
                Weight("indexer.k_norm.bias", (s.width,), "norm"),
                Weight("indexer.weights_proj", (s.heads, self.inputs), "other"),
            ]
        return tuple(found)

    def kv_per_token(self) -> float:
        """Elements of keys and values that one more token adds while no window is full."""
        index = self.selector.width if self.selector and not self.selector.shared else 0
        return self.rank + self.rotary + index

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """What a sequence of ``length`` tokens keeps between steps."""
        parts = [Cached("latents", length * (self.rank + self.rotary))]
        if self.selector is not None and not self.selector.shared:
            parts.append(Cached("index keys", length * self.selector.width))
        return tuple(parts)

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        step = trace.step
        tokens = step.tokens
        weights = {weight.name: weight for weight in self.weights()}
        narrow = x
        if self.query_rank:
            narrow = trace.linear(weights["q_a_proj"], x, tokens, bias=weights.get("q_a_proj.bias"))
            narrow = trace.norm(
                "rms_norm", narrow, (weights["q_a_layernorm"],), "q_a_layernorm", tokens, self.query_rank
            )
            q = trace.linear(weights["q_b_proj"], narrow, tokens)
        else:
            q = trace.linear(weights["q_proj"], x, tokens)
        if self.turned:
            q = rotate(trace, q, "q_rope", tokens, self.heads, self.rotary)
        latent = trace.linear(weights["kv_a_proj_with_mqa"], x, tokens, bias=weights.get("kv_a_proj_with_mqa.bias"))
        latent = trace.norm("rms_norm", latent, (weights["kv_a_layernorm"],), "kv_a_layernorm", tokens, self.rank)
        latent = replace(latent, dims=(tokens, self.rank + self.rotary))
        latent = trace.keep(rotate(trace, latent, "k_rope", tokens, 1, self.rotary) if self.turned else latent)
        if self.selector is not None and not self.selector.shared:
            self._select(trace, x, narrow, weights, self.selector)
        read = [latent, *self._cached(trace)]
        out = (self._absorbed if step.absorbed else self._expanded)(trace, q, read, weights["kv_b_proj"])
        return trace.linear(weights["o_proj"], out, tokens, bias=weights.get("o_proj.bias"))

    def _cached(self, trace: Trace) -> list[Tensor]:
        step = trace.step
        if is_zero(step.past):
            return []
        seen = step.past
        if self.selector is not None and step.absorbed:
            seen = minimum(step.past, step.new * self.selector.most - 1)
        width = self.rank + self.rotary
        dims = (step.attended, step.past, width)
        return [Tensor(trace.place("cache", "latents"), dims, step.kv, "kv", touched=step.attended * seen * width)]

    def _pairs(self, trace: Trace) -> Size:
        step = trace.step
        if step.full:
            return step.new * step.length
        if self.selector is not None:
            return selected_pairs(step.new, step.past, self.selector.most)
        return visible_pairs(step.new, step.length, causal=True)

    def _expanded(self, trace: Trace, q: Tensor, read: list[Tensor], kv_b: Weight) -> Tensor:
        step = trace.step
        # latents are passed between chips that share a sequence, so each makes keys and values of all
        rows = (step.batch if step.ring else step.attended) * step.length
        made = trace.linear(kv_b, read[0], rows)
        op = trace.ops[-1]
        trace.ops[-1] = replace(op, reads=(*op.reads, *read[1:]))
        return scores(
            trace, q, (made, read[0]), pairs=self._pairs(trace), heads=self.heads, kv_heads=self.heads,
            key=self.plain + self.rotary, value=self.value, length=step.length,
        )  # fmt: skip

    def _absorbed(self, trace: Trace, q: Tensor, read: list[Tensor], kv_b: Weight) -> Tensor:
        tokens = trace.step.tokens
        narrowed = self._half(trace, kv_b, q, "absorb_key", self.plain, self.rank)
        out = scores(
            trace, narrowed, (q, *read), pairs=self._pairs(trace), heads=self.heads, kv_heads=1,
            key=self.rank + self.rotary, value=self.rank, length=trace.step.length,
        )  # fmt: skip
        return replace(
            self._half(trace, kv_b, out, "absorb_value", self.rank, self.value), dims=(tokens, self.heads * self.value)
        )

    def _half(self, trace: Trace, kv_b: Weight, x: Tensor, part: str, k: int, n: int) -> Tensor:
        """Multiply each head by its half of kv_b: the keys' half or the values'."""
        half = kv_b._replace(name=f"{kv_b.name}.{part}", shape=(self.heads * (k + n - self.rank), self.rank))
        (matrix, *beside), compute = trace.stored(half)
        tokens = trace.step.tokens
        out = trace.made(part, tokens, self.heads * n)
        op = contraction(x, matrix, out, m=tokens, n=n, k=k, batch=self.heads, compute=compute or None)
        trace.add(replace(op, reads=(x, matrix, *beside)), part)
        return out

    def _select(self, trace: Trace, x: Tensor, narrow: Tensor, weights: dict[str, Weight], selector: Selector) -> None:
        """Score every key against every query and keep the best: Σ over heads of w·relu(q·k)."""
        step = trace.step
        tokens = step.tokens
        q = trace.linear(weights["indexer.wq_b"], narrow, tokens)
        k = trace.linear(weights["indexer.wk"], x, tokens)
        scale = (weights["indexer.k_norm"], weights["indexer.k_norm.bias"])
        k = trace.keep(trace.norm("layer_norm", k, scale, "indexer.k_norm", tokens, selector.width))
        w = trace.linear(weights["indexer.weights_proj"], x, tokens)
        read = [q, k, w]
        if not is_zero(step.past):
            dims = (step.attended, step.past, selector.width)
            read.append(Tensor(trace.place("cache", "index keys"), dims, step.kv, "kv"))
        pairs = visible_pairs(step.new, step.length, causal=not step.full)
        trace.add(
            index_scores(trace, tuple(read), pairs, selector.heads, selector.width, selector.most), "indexer.scores"
        )


def index_scores(trace: Trace, read: tuple[Tensor, ...], pairs: Size, heads: int, width: int, most: int) -> Op:
    """Price the selection: 2·heads·width a pair on the matrix unit; relu, weight and sum a head on the vector unit."""
    step = trace.step
    best = trace.made("indexer.choice", step.tokens, most, dtype="int32")
    count = step.attended * heads * pairs
    work = Work.flops("matrix", step.activations, 2 * count * width) + Work.flops("vector", step.activations, 3 * count)
    return Op("", "attention", work, read, (best,), {"pairs": pairs, "heads": heads, "head_size": width})
