"""Attention over latents (multi-head latent attention, DeepSeek-V2 and later) or compressed entries (DeepSeek-V4).

>>> block = LatentAttention("self_attn", 7168, 128, 1536, 512, 128, 64, 128)
>>> block.kv_per_token()
576
>>> sum(weight.elements for weight in block.weights())
187107328
"""

from __future__ import annotations

from typing import Any

from roofline.frozen import dataclass, replace
from roofline.models.blocks import attention
from roofline.models.blocks.attention import Indexer
from roofline.models.blocks.residual import gated_by_rank
from roofline.models.description import CachedTokens, RecordedBlock
from roofline.models.operation_builder import OperationBuilder
from roofline.models.weights import Weight
from roofline.ops.contraction import contraction
from roofline.ops.masks import CAUSAL, sliding_window
from roofline.sizes import Size, floor_div, minimum
from roofline.work import Tensor


@dataclass(frozen=True, slots=True)
class LatentAttention(RecordedBlock, is_latent=True, keeps="keys"):
    """``heads`` heads; ``query_rank`` (0: none) and ``rank`` are the latents' widths, ``nope`` + ``rotary`` a key's.

    ``rotates`` says that the second part of a key is rotated, ``key_norm`` that it is normalised before. ``gate`` is a
    sigmoid that multiplies the result: ``full`` (its own matrix), ``head`` (one number a head) or ``query`` (of one
    matrix with the queries, over their latents before and after the norm). ``window`` counts the keys that a query
    sees, itself included. ``scaled`` queries are multiplied by a number for each head and place, those of the indexer
    too; without latents of queries these are made of the normalised inputs. The latents' norms have gates of a
    ``gate_rank``. Where chips share the tokens between blocks (sequence parallelism), each makes the latents of its
    own, which ``gather`` brings to all.

    ::

        expanded   K, V = latent · kv_b for every token attended to; pairs·2·N·(nope + rotary + value)
        absorbed   q · kv_b's key half, scores on the latents, result · kv_b's value half;
                   pairs·2·N·(2·rank + rotary): more FLOPs, but nothing is made of the cache

    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1; selection: DeepSeek-V3.2-Exp technical report, section 2.1;
    latents that are gathered: ``MLASelfAttention`` of Megatron-LM.
    """

    inputs: int
    heads: int
    query_rank: int
    rank: int
    nope: int
    rotary: int
    value: int
    bias: bool = False
    indexer: Indexer | None = None
    rotates: bool = True
    gate: str | None = None
    key_norm: bool = False
    window: int | None = None
    sinks: bool = False
    scaled: bool = False
    gate_rank: int = 0
    gather: Any = None

    @property
    def reads_latents_alone(self) -> bool:
        """Whether heads are made of latents alone, so that no chip needs the inputs of all tokens."""
        is_chosen = self.indexer is not None and not self.indexer.shared
        return bool(self.query_rank) and self.gate in (None, "query") and not is_chosen

    @property
    def for_all_heads(self) -> list[str]:
        """Names of the weights that make the latents, which the heads of all chips read."""
        return [w.name for w in self.weights() if w.name.startswith(("q_a_", "kv_a_", "k_rope_only_"))]

    def kept_per_token(self) -> tuple[CachedTokens, ...]:
        return CachedTokens("latents", self.rank + self.rotary, self.window), *attention.index_keys(self.indexer)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step = builder.step
        tokens = step.tokens
        own = tokens if self.gather is None else x.dims[0]
        narrow, gate, n, key = x, None, self.heads, self.nope + self.rotary
        if self.query_rank:
            wide = builder.linear("q_a_proj", x, self.query_rank, bias=self.bias)
            narrow = self._gated(builder, builder.norm("rms_norm", wide, "q_a_layernorm"), "q_a_layernorm")
            narrow = narrow if self.gather is None else self.gather.run(builder, narrow, "q_a_all_gather")
            if self.gate == "query":
                both = replace(narrow, dims=(tokens, 2 * self.query_rank))
                q = builder.linear("q_gate_proj", both, n * (key + self.value))
                gate = replace(q, dims=(tokens, n * self.value))
                q = replace(q, dims=(tokens, n * key))
            else:
                q = builder.linear("q_b_proj", narrow, n * key)
        else:
            q = builder.linear("q_proj", x, n * key)
        if self.rotates:
            q = attention.rotate(builder, q, "q_rope", tokens, self.heads, self.rotary)
        q = self._scale(builder, q, "softmax_scaling", n)
        latent = builder.linear("kv_a_proj_with_mqa", x, self.rank + self.rotary, bias=self.bias)
        if self.key_norm:
            latent = builder.norm("rms_norm", latent, "k_rope_only_layernorm", own, self.rotary)
        latent = builder.norm("rms_norm", latent, "kv_a_layernorm", own, self.rank)
        latent = self._gated(builder, latent, "kv_a_layernorm")
        latent = replace(latent, dims=(own, self.rank + self.rotary))
        latent = latent if self.gather is None else self.gather.run(builder, latent, "kv_a_all_gather")
        latent = builder.write_to_cache(
            attention.rotate(builder, latent, "k_rope", tokens, 1, self.rotary) if self.rotates else latent,
            most=self.window,
        )
        if self.indexer is not None and not self.indexer.shared:
            self._select(builder, x, narrow, self.indexer)
        builder.declare("kv_b_proj", (n * (self.nope + self.value), self.rank), "linear")
        read = [latent, *self._cached(builder), *builder.declare_and_read({"sinks": n} if self.sinks else {})]
        out = (self._absorbed if step.absorbed else self._expanded)(builder, q, read, builder.weights["kv_b_proj"])
        if self.gate:
            gate = builder.linear("g_proj", x, n * (1 if self.gate == "head" else self.value)) if gate is None else gate
            opened = builder.elementwise("sigmoid", (gate,), "gate")
            out = builder.elementwise("multiply", (out, opened), "gated", like=out)
        return builder.linear("o_proj", out, self.inputs, bias=self.bias)

    def _gated(self, builder: OperationBuilder, latent: Tensor, name: str) -> Tensor:
        """Latents behind their norm, times its gate."""
        if not self.gate_rank:
            return latent
        width = self.query_rank if name.startswith("q") else self.rank
        return gated_by_rank(builder, replace(latent, dims=(latent.dims[0], width)), width, self.gate_rank, name)

    def _scale(self, builder: OperationBuilder, q: Tensor, name: str, heads: int) -> Tensor:
        """Queries times a number for each head and place."""
        if not self.scaled:
            return q
        factors = builder.declare_and_read(dict.fromkeys((f"{name}.scale", f"{name}.bias"), heads))
        return builder.elementwise("multiply", (q, *factors), name, like=q)

    def _cached(self, builder: OperationBuilder) -> list[Tensor]:
        step, seen = builder.step, self._seen(builder)
        if self.indexer is not None and step.absorbed:
            seen = minimum(step.past, step.new * self.indexer.top_k - 1)
        return builder.cached("latents", self.rank + self.rotary, seen=seen)

    def _seen(self, builder: OperationBuilder) -> Size:
        past = builder.step.past
        return past if self.window is None else minimum(past, self.window - 1)

    def _pairs(self, builder: OperationBuilder) -> Size:
        step = builder.step
        if step.full:
            return step.new * step.length
        if self.indexer is not None:
            return attention.chosen_pairs(step.new, step.length, self.indexer)
        return (CAUSAL if self.window is None else sliding_window(self.window)).pairs(step.new, step.length)

    def _expanded(self, builder: OperationBuilder, q: Tensor, read: list[Tensor], kv_b: Weight) -> Tensor:
        step = builder.step
        rows = step.attended * (self._seen(builder) + step.new)
        made = builder.linear(kv_b, read[0], rows=rows)
        op = builder.ops[-1]
        role = "expand" if read[1:] else op.role
        builder.mark(reads=(*op.reads, *read[1:]), by_sequence=True, role=role)
        return attention.attention_core(
            builder, q, (made, read[0]), pairs=self._pairs(builder), heads=self.heads, kv_heads=self.heads,
            key=self.nope + self.rotary, value=self.value, length=step.length,
        )  # fmt: skip

    def _absorbed(self, builder: OperationBuilder, q: Tensor, read: list[Tensor], kv_b: Weight) -> Tensor:
        tokens = builder.step.tokens
        narrowed = self._half(builder, kv_b, q, "absorb_key", self.nope, self.rank)
        out = attention.attention_core(
            builder, narrowed, (q, *read), pairs=self._pairs(builder), heads=self.heads, kv_heads=1,
            key=self.rank + self.rotary, value=self.rank, length=builder.step.length,
        )  # fmt: skip
        return replace(
            self._half(builder, kv_b, out, "absorb_value", self.rank, self.value),
            dims=(tokens, self.heads * self.value),
        )

    def _half(self, builder: OperationBuilder, kv_b: Weight, x: Tensor, part: str, k: int, n: int) -> Tensor:
        """Multiply each head by its half of kv_b: the keys' half or the values'."""
        half = kv_b._replace(name=f"{kv_b.name}.{part}", shape=(self.heads * (k + n - self.rank), self.rank))
        (matrix, *beside), compute = builder.read_weight(half)
        tokens = builder.step.tokens
        out = builder.output(part, tokens, self.heads * n)
        sizes = {"m": tokens, "n": n, "k": k, "batch": self.heads}
        op = contraction("", (x, matrix), (out,), **sizes, unit="matrix", compute=compute or None)
        builder.add(replace(op, reads=(x, matrix, *beside), role="absorb"), part)
        return self._adapt_half(builder, kv_b, x, out, part, k, n) if builder.step.rank else out

    def _adapt_half(
        self, builder: OperationBuilder, kv_b: Weight, x: Tensor, out: Tensor, part: str, k: int, n: int
    ) -> Tensor:  # fmt: skip
        """Multiply each head by A and its half of B of an adapter beside kv_b, in either order, and add what it makes.

        The keys' half is qᵀ·B·A of each head, the values' half B·A of what each head has of latents.
        """
        tokens, rank = builder.step.tokens, builder.step.rank
        down, up = builder.adapter(kv_b)
        rows = up.shape[0] * (k + n - self.rank) // (self.nope + self.value)
        up = up._replace(name=f"{up.name}.{part}", shape=(rows, rank))
        made, first = x, part == "absorb_key"
        for weight, ins, outs in ((up, k, rank), (down, rank, n)) if first else ((down, k, rank), (up, rank, n)):
            ((matrix, *_), _) = builder.read_weight(weight)
            made, before = builder.output(weight.name, tokens, self.heads * outs), made
            sizes = {"m": tokens, "n": outs, "k": ins, "batch": self.heads}
            builder.add(contraction("", (before, matrix), (made,), **sizes, unit="matrix"), weight.name)
            builder.mark_adapter()
        return builder.elementwise("add", (out, made), f"{part}.lora_add", like=out)

    def _select(self, builder: OperationBuilder, x: Tensor, narrow: Tensor, indexer: Indexer) -> None:
        """Score every key against every query and keep the best: Σ over heads of w·relu(q·k)."""
        step = builder.step
        if not self.query_rank:
            narrow = builder.norm("layer_norm", x, "indexer.q_input_norm", shift=True)
        heads, width = indexer.heads, indexer.width
        q = builder.linear("indexer.wq_b", narrow, heads * width)
        q = self._scale(builder, q, "indexer.softmax_scaling", heads)
        k = builder.linear("indexer.wk", x, width)
        k = builder.norm("layer_norm", k, "indexer.k_norm", shift=True)
        kept = step.index_format(indexer.dtype)
        if indexer.pool:
            w = builder.linear("indexer.weights_proj", x, heads, kind="other")
            gate = builder.linear("indexer.index_kpool_compress_gate", x, width, kind="other")
            parts = [k, gate, *builder.declare_and_read({"indexer.index_kpool_compress_ape": (indexer.pool, width)})]
            k = _pool(builder, parts, "indexer", width, indexer.pool)
            entries = attention.keep_entries(builder, k, "indexer", width, indexer.pool, None, kept)
            attention.score_keys(builder, [q, w, *entries], indexer, attention.entry_pairs(builder, indexer.pool, None))
            return
        k = builder.write_to_cache(k, kept)
        w = builder.linear("indexer.weights_proj", x, heads, kind="other")
        attention.score_keys(builder, [q, k, w, *attention.cached_index_keys(builder, indexer)], indexer)


def _pool(builder: OperationBuilder, parts: list[Tensor], module: str, width: int, rate: int) -> Tensor:
    """Weigh the tokens of each ``rate`` that are complete by a softmax of gates, and add them up: one entry."""
    step = builder.step
    rows = step.own * (floor_div(step.length, rate) - floor_div(step.past, rate))
    made = builder.vector("softmax", parts, f"{module}.pool", rows, width, each=8, elements=parts[0].elements)
    builder.mark(by_sequence=True)
    return made


@dataclass(frozen=True, slots=True)
class CompressedAttention(RecordedBlock, keeps="keys"):
    """``heads`` heads of ``width`` over one shared key-value head (DeepSeek-V4).

    Keys and values are one vector a token. Every ``rate`` tokens make one compressed entry; a query attends to a
    window of tokens, and to all entries or to those that the ``indexer`` selects. With ``rate`` 0 there are no entries.

    Two series of entries overlap where there is a ``indexer``, which doubles the compressor's matrices. The output
    goes through ``groups`` blocks of rank ``out_rank`` and a second matrix.

    Source: DeepSeek-V4 technical report, section 2.3, and the transformers implementation (modular_deepseek_v4.py).
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
    indexer: Indexer | None = None

    def kept_per_token(self) -> tuple[CachedTokens, ...]:
        """Tokens of the window, entries, and keys by which entries are chosen."""
        window = CachedTokens("window", self.width, self.window)
        if not self.rate:
            return (window,)
        chosen_by = attention.index_keys(self.indexer, self.rate, "index entries")
        return window, CachedTokens("entries", self.width, rate=self.rate), *chosen_by

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step = builder.step
        tokens = step.tokens
        narrow = builder.linear("q_a_proj", x, self.query_rank)
        narrow = builder.norm("rms_norm", narrow, "q_a_norm")
        q = builder.linear("q_b_proj", narrow, self.heads * self.width)
        q = builder.norm("rms_norm", q, "q_b_norm", tokens * self.heads, self.width, scaled=False)
        q = attention.rotate(builder, q, "q_rope", tokens, self.heads, self.rotary)
        kv = builder.linear("kv_proj", x, self.width)
        kv = builder.norm("rms_norm", kv, "kv_norm")
        kv = attention.rotate(builder, kv, "k_rope", tokens, 1, self.rotary)
        kv = builder.write_to_cache(kv, most=self.window)
        pairs = sliding_window(self.window).pairs(step.new, step.length)
        if step.full:
            pairs = step.new * step.length
        read = [kv, *builder.cached("window", self.width, seen=minimum(step.past, self.window - 1))]
        if self.rate:
            most = self.indexer.top_k if self.indexer else None
            read += self._compress(builder, x, "compressor", self.width, most)
            pairs = pairs + attention.entry_pairs(builder, self.rate, most)
        if self.indexer is not None:
            self._select(builder, x, narrow, self.indexer)
        read += builder.declare_and_read({"sinks": self.heads}, "fp32")
        out = attention.attention_core(
            builder, q, read, pairs=pairs, heads=self.heads, kv_heads=1,
            key=self.width, value=self.width, length=step.length,
        )  # fmt: skip
        out = attention.rotate(builder, out, "o_rope", tokens, self.heads, self.rotary)
        out = builder.linear("o_a_proj", out, self.groups * self.out_rank, copies=self.groups)
        return builder.linear("o_b_proj", out, self.inputs)

    def _compress(
        self, builder: OperationBuilder, x: Tensor, module: str, width: int, most: int | None, dtype: str = ""
    ) -> list[Tensor]:
        """Weigh each window's tokens by a softmax of gates, add them up, normalise: one entry a window."""
        step, both = builder.step, width * (2 if self.indexer is not None else 1)
        kv = builder.linear(f"{module}.kv_proj", x, both, kind="other")
        gate = builder.linear(f"{module}.gate_proj", x, both, kind="other")
        bias = builder.declare_and_read({f"{module}.position_bias": (self.rate, both)}, "fp32")
        closed = floor_div(step.length, self.rate) - floor_div(step.past, self.rate)
        made = _pool(builder, [kv, gate, *bias], module, width, self.rate)
        scale = width * minimum(closed, 1)  # it is read where a window closes
        normed = builder.norm("rms_norm", made, f"{module}.kv_norm", step.own * closed, width, touched=scale)
        builder.mark(by_sequence=True)
        return attention.keep_entries(builder, normed, module, width, self.rate, most, dtype)

    def _select(self, builder: OperationBuilder, x: Tensor, narrow: Tensor, indexer: Indexer) -> None:
        step = builder.step
        kept = step.index_format(indexer.dtype)
        entries = self._compress(builder, x, "indexer", indexer.width, None, kept)
        q = builder.linear("indexer.q_b_proj", narrow, indexer.heads * indexer.width)
        w = builder.linear("indexer.weights_proj", x, indexer.heads, kind="other")
        attention.score_keys(builder, (q, w, *entries), indexer, attention.entry_pairs(builder, self.rate, None))
