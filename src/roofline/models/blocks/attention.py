"""Attention over keys and values that are cached: MHA, GQA and MQA, with windows, chunks, gates and selection.

>>> block = Attention("self_attn", 4096, 32, 8, 128, 128)
>>> [(weight.name, weight.shape) for weight in block.weights()][:2]
[('q_proj', (4096, 4096)), ('k_proj', (1024, 4096))]
>>> block.kv_per_token()
2048

Small attentions ("lightning indexers") pick the keys that a query attends to, in formats that the chip has units for:

>>> from roofline.hardware import chip
>>> [index_format(Indexer(64, 128, 2048), chip(name)) for name in ("a100", "h200", "b200")]
['', 'fp8_e4m3', 'mxfp4']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from roofline import dtypes
from roofline.frozen import dataclass, replace
from roofline.hardware.machine import Machine
from roofline.hardware.rate import rate
from roofline.models.description import CachedTokens, Model, RecordedBlock
from roofline.models.operation_builder import ForwardPass, OperationBuilder
from roofline.ops.attention import AttentionSizes, attention, index_scores
from roofline.ops.contraction import contraction
from roofline.ops.masks import CAUSAL, FULL, BandMask, chunked_pairs, compressed_pairs, selected_pairs, sliding_window
from roofline.sizes import Size, ceil_div, exact_div, floor_div, maximum, minimum
from roofline.work import Key, Op, Tensor, Work

Kind = TypeVar("Kind", bound="Attention")

#: Formats that public kernels score in, narrowest first, and whose kernels those are. A chip runs those it has units
#: for; where it has none, activations keep their format.
Kernels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Indexer:
    """Picks the ``top_k`` keys each query attends to (DeepSeek-V3.2, GLM-5, DeepSeek-V4).

    Where ``shared``, an earlier layer's choice is taken over and the layer has no weights for it. ``dtype`` is the
    format of its scores and of the keys it keeps; empty: those of activations and of keys and values. Where there is a
    ``pool``, so many consecutive keys are scored and picked as one, which a softmax of gates makes of them; keys behind
    the last whole pool are seen as well where ``tail`` (GLM-5.3-Flash).
    """

    #: Sources: github.com/deepseek-ai/DeepGEMM (``fp8_mqa_logits`` for SM90, ``fp8_fp4_mqa_logits`` for SM100);
    #: MXFP4 keys for GLM-5 and DeepSeek-V3.2: vllm-project/vllm#48558, sgl-project/sglang#30546, measured on B200;
    #: for DeepSeek-V4: sgl-project/sglang#26209, and on MI355X ROCm/ATOM#1581.
    KERNELS: ClassVar[Kernels] = (
        ("mxfp4", "fp8_fp4_mqa_logits of DeepGEMM"),
        ("fp8_e4m3", "fp8_mqa_logits of DeepGEMM"),
    )

    heads: int
    width: int
    top_k: int
    shared: bool = False
    dtype: str = ""
    pool: int = 0
    tail: bool = True

    #: Vector FLOPs of a pair: relu, weight, sum over heads.
    each: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class MeanIndexer(Indexer):
    """Picks the best pools of keys, each by its mean (Qwen4): Σ over heads of relu(q·k); keys behind them are seen."""

    KERNELS: ClassVar[Kernels] = ()
    #: Vector FLOPs of a pair: relu, sum over heads.
    each: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class BlockIndexer:
    """Picks the ``top_blocks`` blocks of ``block`` keys each query attends to (MiniMax-M3); ``dtype`` as above."""

    #: Sources: flashinfer-ai/flashinfer#3655 (NVFP4); NVIDIA/TensorRT-LLM#17318 and sgl-project/sglang#30971 (FP8).
    KERNELS: ClassVar[Kernels] = (("nvfp4", "msa_ops of FlashInfer"), ("fp8_e4m3", "the indexer of TensorRT-LLM"))

    heads: int
    width: int
    block: int
    top_blocks: int
    dtype: str = ""

    #: Vector FLOPs of a pair: the largest of a block.
    each: ClassVar[int] = 1
    shared: ClassVar[bool] = False


def index_format(indexer: Indexer | BlockIndexer, machine: Machine) -> str:
    """The narrowest format that public kernels of the family use on a chip with units for it; empty: none is."""
    peaks = {name for unit in machine.units for name in unit.peaks}
    return next((name for name, _ in indexer.KERNELS if dtypes.get(name).arithmetic in peaks), "")


def with_index_formats(model: Model, machine: Machine) -> Model:
    """The model whose indexers run in the formats that public kernels use on this machine."""

    def in_format(block: Any) -> Any:
        indexer = getattr(block, "indexer", None)
        if indexer is None or indexer.dtype == (dtype := index_format(indexer, machine)):
            return block
        return replace(block, indexer=replace(indexer, dtype=dtype))

    return model.with_blocks(in_format)


def index_keys(
    indexer: Indexer | BlockIndexer | None, rate: int = 0, name: str = "index keys"
) -> tuple[CachedTokens, ...]:
    """The keys that an indexer keeps of tokens, or of ``rate`` together; nothing where it takes a choice over.

    Of a whole pool it keeps one key.
    """
    if indexer is None or indexer.shared:
        return ()
    return (
        CachedTokens(name, indexer.width, None, rate or getattr(indexer, "pool", 0) or 1, indexer.dtype, chooses=True),
    )


def cached_index_keys(builder: OperationBuilder, indexer: Indexer | BlockIndexer) -> list[Tensor]:
    """The indexer's keys of earlier steps."""
    return builder.cached("index keys", indexer.width, dtype=builder.step.index_format(indexer.dtype))


def score_keys(
    builder: OperationBuilder, read: Sequence[Tensor], indexer: Indexer | BlockIndexer, pairs: Size | None = None
) -> None:
    """Score ``pairs`` of one sequence and head, all that are visible unless given; write the choice.

    Σ over heads of w·relu(q·k), or the largest q·k of each block of keys.
    """
    step = builder.step
    if pairs is None:
        pairs = (FULL if step.full else CAUSAL).pairs(step.new, step.length)
    if isinstance(indexer, BlockIndexer):
        best = builder.output("indexer.scores", step.tokens, indexer.heads, ceil_div(step.length, indexer.block))
        dims: dict[str, Size] = {"pairs": step.attended * indexer.heads * pairs}
    else:
        best = builder.output("indexer.choice", step.tokens, indexer.top_k // (indexer.pool or 1), dtype="int32")
        dims = {"pairs": pairs, "heads": indexer.heads}
    kept = step.index_format(indexer.dtype)
    compute = step.asked_compute or dtypes.arithmetic([indexer.dtype or step.activations, kept])
    op = index_scores(
        "", read, [best], pairs=step.attended * indexer.heads * pairs, head_size=indexer.width, each=indexer.each,
        dims=dims, compute=compute, vector_compute=builder.arithmetic,
    )  # fmt: skip
    builder.add(replace(op, role="selection", options={"kernel": _kernel(indexer, compute, kept)}), "indexer.scores")


def chosen_pairs(new: Size, length: Size, indexer: Indexer) -> Size:
    """Pairs of queries and keys that an indexer leaves: the best keys, or the best whole pools and what follows."""
    if not indexer.pool:
        return selected_pairs(new, length, indexer.top_k)
    pool = indexer.pool
    chosen = pool * compressed_pairs(new, length, pool, indexer.top_k // pool)
    if not indexer.tail:
        return chosen
    return chosen + CAUSAL.pairs(new, length) - pool * compressed_pairs(new, length, pool)


def tokens_passed(
    step: ForwardPass, chips: Size, *, window: int | None = None, chunk: int | None = None, causal: bool = True
) -> Size:
    """Tokens of a sequence whose AllGather brings each of the ``chips`` that share it as many as it needs. ::

        all        every token that the others have
        window     w − 1 tokens before its own run, half a window on each side where it is not causal
        chunk      what lies before its own run in a chunk: nothing where chips hold whole chunks

    Neighbouring tokens on one chip need the fewest; never more than the tokens that are kept.
    """
    every = step.length
    if chunk is not None:
        every = minimum(every, chunk)
        needed = maximum(every - exact_div(step.new, chips), 0)
    elif window is None:
        return every
    elif causal:
        needed, every = window - 1, minimum(every, window - 1 + step.new)
    else:
        needed = window // 2 * minimum(chips - 1, 2)
    return minimum(every, exact_div(needed * chips, chips - 1))


def entry_pairs(builder: OperationBuilder, rate: int, most: int | None) -> Size:
    """Pairs of a query and a compressed entry it sees, at most ``most`` of them."""
    step = builder.step
    if step.full:
        return step.new * floor_div(step.length, rate)
    return compressed_pairs(step.new, step.length, rate, most)


def keep_entries(
    builder: OperationBuilder, made: Tensor, module: str, width: int, rate: int, most: int | None, dtype: str
) -> list[Tensor]:
    """Keep new entries; with those of earlier steps, of which a query reads at most ``most``."""
    step = builder.step
    entries = builder.write_to_cache(made, dtype)
    before = floor_div(step.past, rate)
    seen = before if most is None else minimum(before, step.new * most)
    return [entries, *builder.cached(f"{module} entries", width, length=before, seen=seen, dtype=entries.dtype)]


def _kernel(indexer: Indexer | BlockIndexer, compute: str, kept: str) -> str:
    """What is said about the formats of the scores and of the keys."""
    own = kept == indexer.dtype and compute == dtypes.get(kept).arithmetic
    source = dict(indexer.KERNELS).get(kept, "") if own else ""
    return f"the indexer scores in {compute} and keeps its keys in {kept}" + (f", as {source} does" if source else "")


def selection_said(ops: Sequence[Op]) -> list[str]:
    """The formats of the indexers among a step's operations, one sentence each."""
    return list(dict.fromkeys(str(op.options["kernel"]) for op in ops if op.role == "selection"))


@dataclass(frozen=True, slots=True)
class Attention(RecordedBlock, keeps="keys"):
    """Queries of ``heads`` heads over ``kv_heads`` heads of keys (``key`` wide) and values (``value`` wide).

    Attributes
        ``norm``          of queries and keys: None, ``head`` (one scale for all), ``own`` (each head's own scale),
                          ``full`` (over all heads together), ``plain`` (no scale) or ``clipped`` (each head of queries,
                          and of what makes biases for distances, has a scale; keys have none); ``norm_shift``: it has a
                          shift; ``value_norm``: values have one too
        ``window``        keys that a query sees, itself included; half to each side where not ``causal``
        ``chunk``         length of the parts of a sequence that see only themselves
        ``gate``          a sigmoid that multiplies the result: ``head`` (one number a head), ``full`` (its own matrix)
                          or ``query`` (the second half of the query's matrix); ``gate_bias``: one number a head is
                          added to it
        ``shared_kv``     values are made with the keys' matrix
        ``shares_kv_as``  name under which later layers find keys and values; ``reads_kv_of``: the name of an earlier
                          layer's keys and values that it attends to
        ``rotary``        elements of a head that are rotated
        ``query_rank``    width between the two matrices that make queries, with a norm between; 0: there is one matrix
        ``differential``  the result is the difference of two maps, each over the values of two heads, and normalised
        ``kv_kernel``     tokens of a short convolution over the channels of keys and values; 0: there is none
        ``made_sinks``    whether each head has a sink that is made of the input
        ``parted``        whether queries, keys and values have inputs of their own, each with a norm, and the short
                          convolution has weights that are made of them
        ``relative``      width of what a query makes a bias for each distance of, and the distances; 0: there is none
        ``outputs``       width of the result; 0: as wide as the input
        ``adapter_rank``  rank of what is added to the matrices of queries, keys and values, of the layer's own where
                          layers share these; 0: nothing is
        ``key_bias``      whether keys have a bias where ``bias`` says so
        ``cached``        whether keys and values are kept for later steps, where it is causal
        ``names``         the projections' names; ``out_norm``: a norm before the last one, ``full`` (over all heads
                          together) or ``plain`` (head by head, no scale)
    """

    inputs: int
    heads: int
    kv_heads: int
    key: int
    value: int
    bias: bool = False
    out_bias: bool = False
    norm: str | None = None
    norm_function: str = "rms_norm"
    norm_shift: bool = False
    value_norm: bool = False
    window: int | None = None
    chunk: int | None = None
    sinks: bool = False
    gate: str | None = None
    gate_bias: bool = False
    shared_kv: bool = False
    rotary: int = 0
    causal: bool = True
    indexer: BlockIndexer | MeanIndexer | None = None
    out_norm: str | None = None
    shares_kv_as: str = ""
    reads_kv_of: str = ""
    query_rank: int = 0
    differential: bool = False
    kv_kernel: int = 0
    made_sinks: bool = False
    parted: bool = False
    relative: tuple[int, int] = (0, 0)
    outputs: int = 0
    adapter_rank: int = 0
    key_bias: bool = True
    cached: bool = True
    names: tuple[str, str, str, str] = ("q_proj", "k_proj", "v_proj", "o_proj")

    def as_kind(self, kind: type[Kind], **more: Any) -> Kind:
        """Attention of another kind with the same fields, but for ``more``."""
        return kind(**{name: getattr(self, name) for name in Attention.__dataclass_fields__} | more)

    @property
    def _keeps(self) -> bool:
        return self.causal and self.cached

    def kept_per_token(self) -> tuple[CachedTokens, ...]:
        """Keys and values of each token; an encoder keeps none."""
        return self.attended() if self._keeps and not self.reads_kv_of else ()

    def attended(self) -> tuple[CachedTokens, ...]:
        limit, widths = self.window or self.chunk, (("keys", self.key), ("values", self.value))
        return *(CachedTokens(name, self.kv_heads * width, limit) for name, width in widths), *index_keys(self.indexer)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step = builder.step
        x, *inputs = self._inputs(builder, x)
        q, k, v, gate = self._project(builder, x, *inputs)
        read = [] if k is None or v is None else self._by_head(builder, (k, v), step.new)
        if self.reads_kv_of:
            read = list(builder.from_earlier(f"keys and values of {self.reads_kv_of} layers"))
        elif self.causal:
            seen = self._seen(step.past, step.new)
            for name, width in (("keys", self.key), ("values", self.value)):
                read += builder.cached(name, self.kv_heads, width, seen=seen)
        if self.shares_kv_as:
            builder.kept[f"keys and values of {self.shares_kv_as} layers"] = list(read)
        if self.indexer is not None:
            self._select(builder, x, self.indexer)
        if self.sinks:
            read += builder.declare_and_read({"sinks": self.heads})
        if self.made_sinks:
            read.append(builder.linear("sink_proj", x, self.heads, kind="other"))
        if self.relative[0]:
            read.append(self._distances(builder, x))
        further, count = self.beside(builder, x)
        out = attention_core(
            builder, q, [*read, *further], pairs=self._pairs(builder) + step.new * count, heads=self.heads,
            kv_heads=self.kv_heads, key=self.key, value=self.value * (1 + self.differential),
            length=step.length + count, window=self.window if self.causal else None,
        )  # fmt: skip
        if self.differential:
            out = self._difference(builder, out)
        if gate is not None:
            opened = builder.elementwise("sigmoid", (gate,), "gate")
            out = builder.elementwise("multiply", (out, opened), "gated", like=out)
        if self.out_norm:
            parts = 1 if self.out_norm == "full" else self.heads
            width = self.heads * self.value
            rows, full = step.tokens * parts, self.out_norm == "full"
            out = builder.norm(
                self.norm_function, out, "attn_sub_norm", rows, width // parts, scaled=full, shift=self.norm_shift
            )
            out = Tensor(out.ident, (step.tokens, width), out.dtype)
        return self._output(builder, out)

    def _by_head(self, builder: OperationBuilder, made: Sequence[Tensor], length: Size) -> list[Tensor]:
        """Keys and values of ``length`` tokens of each sequence, head by head."""
        dims, widths = (builder.step.own, length, self.kv_heads), (self.key, self.value)
        return [Tensor(t.ident, (*dims, width), t.dtype, t.role) for t, width in zip(made, widths, strict=True)]

    def beside(self, builder: OperationBuilder, x: Tensor) -> tuple[list[Tensor], Size]:
        """Keys and values that every token sees beside those of its sequence, and how many they are."""
        return [], 0

    def _output(self, builder: OperationBuilder, out: Tensor) -> Tensor:
        """Bring what attention gives back to the width of the model."""
        return builder.linear(self.names[3], out, self.outputs or self.inputs, bias=self.out_bias)

    def _distances(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        """Make a bias for each query and distance that it sees, on chip; attention reads what they are made of."""
        tokens, made = builder.step.tokens, builder.linear("r_proj", x, self.heads * self.relative[0])
        if self.norm == "clipped":
            builder.declare("r_norm", (self.heads * self.relative[0],), "norm")
            rows = tokens * self.heads
            made = builder.norm(self.norm_function, made, "r_norm", rows, self.relative[0], scaled=False)
        (table,) = builder.declare_and_read({"rel_logits_proj": self.relative[::-1]})
        sizes = {"m": tokens * self.heads, "n": minimum(builder.step.length, self.relative[1]), "k": self.relative[0]}
        out = replace(builder.output("rel_logits_proj", sizes["m"], sizes["n"]), touched=0)
        builder.add(contraction("", (made, table), (out,), **sizes, unit="matrix"), "rel_logits_proj")
        return made

    def _difference(self, builder: OperationBuilder, maps: Tensor) -> Tensor:
        """One half of the heads less λ times the other, normalised over the values of two heads."""
        tokens = builder.step.tokens
        names = [f"lambda_{name}" for name in ("q1", "k1", "q2", "k2")]
        read = (maps, *builder.declare_and_read(dict.fromkeys(names, self.key)))
        out = builder.vector("elementwise", read, "difference", tokens, self.heads * self.value, each=2)
        out = builder.norm("rms_norm", out, "groupnorm", tokens * self.heads // 2, 2 * self.value, scaled=False)
        return Tensor(out.ident, (tokens, self.heads * self.value), out.dtype)

    def _inputs(self, builder: OperationBuilder, x: Tensor) -> list[Tensor]:
        """What queries, keys and values are made of."""
        tokens = builder.step.tokens
        x = replace(x, dims=(tokens, self.inputs))
        if not self.parted:
            return [x] * 3
        found = [builder.norm("rms_norm", x, f"{part}_input_layernorm") for part in "qkv"]
        return [replace(each, dims=(tokens, self.inputs)) for each in found]

    def _project(
        self, builder: OperationBuilder, x: Tensor, of_keys: Tensor, of_values: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
        tokens = builder.step.tokens
        q_name, k_name, v_name, _ = self.names
        queries = self.heads * self.key * (2 if self.gate == "query" else 1)
        q = builder.linear(q_name, x, self.query_rank or queries, bias=self.bias)
        if self.query_rank:
            q = builder.norm("rms_norm", q, "inter_norm")
            q = builder.linear("wq", q, queries, bias=self.bias)
        gate = None
        if self.gate == "query":
            half = (tokens, self.heads * self.key)
            gate = Tensor(q.ident, half, q.dtype)
            q = Tensor(q.ident, half, q.dtype)
        elif self.gate:
            if self.gate_bias:
                builder.declare("g_proj.bias", (self.heads,), "bias")
            gate = builder.linear("g_proj", x, self.heads * (1 if self.gate == "head" else self.value))
        if self.reads_kv_of:
            q = self._normalise(builder, q, "q_norm", self.heads) if self.norm else q
            return rotate(builder, q, "q_rope", tokens, self.heads, self.rotary) if self.rotary else q, None, None, gate
        keys, values = self.kv_heads * self.key, self.kv_heads * self.value
        k = builder.linear(k_name, of_keys, keys, bias=self.bias and self.key_bias)
        v = k if self.shared_kv else builder.linear(v_name, of_values, values, bias=self.bias)
        if self.adapter_rank:
            q, k, v = (
                builder.add_low_rank(f"linear_{name}_adapter", of, made, self.adapter_rank)
                for name, of, made in (("q", x, q), ("k", of_keys, k), ("v", of_values, v))
            )
        if self.kv_kernel:
            made = zip("kv", (of_keys, of_values), strict=True) if self.parted else ()
            own = [builder.linear(f"{part}_sconv_proj", each, self.kv_heads * self.kv_kernel) for part, each in made]
            mixed = builder.convolve(
                [k, v, *own], int(self.kv_per_token()), self.kv_kernel, "kv_sconv", activated=False
            )
            k, v = (Tensor(mixed.ident, (tokens, self.kv_heads * n), mixed.dtype) for n in (self.key, self.value))
        if self.value_norm:
            v = builder.norm("rms_norm", v, "v_norm", tokens * self.kv_heads, self.value, scaled=False)
        if self.norm:
            q = self._normalise(builder, q, "q_norm", self.heads)
            k = self._normalise(builder, k, "k_norm", self.kv_heads)
        if self.rotary:
            q = rotate(builder, q, "q_rope", tokens, self.heads, self.rotary)
            k = rotate(builder, k, "k_rope", tokens, self.kv_heads, self.rotary)
        if self._keeps:
            limit = self.window or self.chunk
            k, v = builder.write_to_cache(k, most=limit), builder.write_to_cache(v, most=limit)
        return q, k, v, gate

    def _normalise(self, builder: OperationBuilder, x: Tensor, name: str, heads: int) -> Tensor:
        tokens = builder.step.tokens
        rows, width = (tokens, heads * self.key) if self.norm == "full" else (tokens * heads, self.key)
        scales = self.key if self.norm == "head" else heads * self.key
        if self.norm != "plain" and (self.norm, name) != ("clipped", "k_norm"):
            for weight in (name, f"{name}.bias")[: 1 + self.norm_shift]:
                builder.declare(weight, (scales,), "norm")
        return builder.norm(self.norm_function, x, name, rows, width, scaled=False)

    def _pairs(self, builder: OperationBuilder) -> Size:
        step = builder.step
        if step.full or not (self.causal or self.window):
            return step.new * step.length
        if not self.causal and self.window:
            half = self.window // 2
            return BandMask(before=half, after=half).pairs(step.new, step.new)
        if isinstance(self.indexer, MeanIndexer):
            return chosen_pairs(step.new, step.length, self.indexer)
        if self.indexer is not None:
            return selected_pairs(step.new, step.length, self.indexer.block * self.indexer.top_blocks)
        if self.chunk is not None:
            return chunked_pairs(step.new, step.length, self.chunk)
        mask = CAUSAL if self.window is None else sliding_window(self.window)
        return mask.pairs(step.new, step.length)

    def _seen(self, past: Size, new: Size) -> Size:
        """How many cached tokens of a sequence the new ones read."""
        if self.window is not None:
            return minimum(past, self.window - 1)
        if self.chunk is not None:
            return past - floor_div(past, self.chunk) * self.chunk
        if isinstance(self.indexer, MeanIndexer):
            return minimum(past, new * self.indexer.top_k + self.indexer.pool - 1)
        if self.indexer is not None:
            return minimum(past, new * self.indexer.block * self.indexer.top_blocks - 1)
        return past

    def _select(self, builder: OperationBuilder, x: Tensor, indexer: BlockIndexer | MeanIndexer) -> None:
        """Score every key and take the largest of each block, or score the means of pools; pick the best ones."""
        step = builder.step
        tokens = step.tokens
        if isinstance(indexer, MeanIndexer):
            both = builder.linear("indexer.index_qk_proj", x, (indexer.heads + 1) * indexer.width)
            q = builder.norm("rms_norm", both, "indexer.q_layernorm", tokens * indexer.heads, indexer.width)
            q = rotate(builder, q, "indexer.q_rope", tokens, indexer.heads, minimum(self.rotary, indexer.width))
            rows = step.own * (floor_div(step.length, indexer.pool) - floor_div(step.past, indexer.pool))
            elements = tokens * indexer.width
            mean = builder.vector("reduction", [both], "indexer.mean", rows, indexer.width, elements=elements)
            builder.mark(by_sequence=True)
            scale = indexer.width * minimum(rows, 1)
            mean = builder.norm("rms_norm", mean, "indexer.k_layernorm", rows, indexer.width, touched=scale)
            builder.mark(by_sequence=True)
            kept = step.index_format(indexer.dtype)
            entries = keep_entries(builder, mean, "indexer", indexer.width, indexer.pool, None, kept)
            score_keys(builder, [q, *entries], indexer, entry_pairs(builder, indexer.pool, None))
            return
        q = builder.linear("indexer.q_proj", x, indexer.heads * indexer.width)
        q = builder.norm("rms_norm", q, "indexer.q_norm", tokens * indexer.heads, indexer.width)
        k = builder.linear("indexer.k_proj", x, indexer.width)
        k = builder.norm("rms_norm", k, "indexer.k_norm")
        k = builder.write_to_cache(k, step.index_format(indexer.dtype))
        score_keys(builder, [q, k, *cached_index_keys(builder, indexer)], indexer)


def attention_format_said(ops: Sequence[Op], machine: Machine) -> list[str]:
    """That attention computes in the format of its cache, where its queries come in a wider one and the chip has it.

    The choice of keys has a format of its own.
    """
    narrow = Key("flops", "matrix", "fp8")
    attending = [op for op in ops if op.kind == "attention" and op.role != "selection"]
    if not any(narrow in op.work and dtypes.get(op.reads[0].dtype).bits > 8 for op in attending):
        return []
    found = rate(machine, narrow)
    if found is not None and found.dtype != narrow.dtype:
        return [f"keys and values in fp8 are widened to {found.dtype} as they are read: this chip has no fp8 products"]
    return ["keys and values in fp8 are multiplied in fp8, with queries cast to it, as vLLM and TensorRT-LLM do"]


def rotate(builder: OperationBuilder, x: Tensor, part: str, rows: Size, heads: int, width: int) -> Tensor:
    """Rotate ``width`` of each head of ``x`` by its position: 3 FLOPs an element that is rotated."""
    out = builder.elementwise("rope", (x,), part)
    count = rows * heads * width
    work = Work(dict.fromkeys(builder.ops[-1].work, 3 * count))
    builder.mark(work=work, dims={"elements": count, "transcendentals": 0})
    return out


def attention_core(
    builder: OperationBuilder, q: Tensor, read: Sequence[Tensor], *, pairs: Size, heads: int, kv_heads: int, key: int,
    value: int, length: Size, window: int | None = None,
) -> Tensor:  # fmt: skip
    """softmax(q·kᵀ)·v for ``heads`` heads over ``pairs`` pairs of one sequence in one head, under a causal window."""
    step, part = builder.step, "attention"
    count = step.attended * heads * pairs
    dtype = step.attention_arithmetic(q.dtype)
    out = builder.output(part, step.tokens, heads * value)
    reads: tuple[Tensor, ...] = (q, *read)
    writes: tuple[Tensor, ...] = (out,)
    if step.unfused:
        square = (step.attended, heads, step.new, length)
        between = tuple(builder.output(f"{part}.{name}", *square) for name in ("scores", "probabilities"))
        pairs, window = step.new * length, None
        count = step.attended * heads * pairs
        reads, writes = (*reads, *between), (out, *between)
    sizes = AttentionSizes(step.attended, step.new, length, heads, kv_heads, key, value, count, window=window)
    softmax = "bf16" if dtypes.get(q.dtype).bits < 16 else dtypes.get(q.dtype).arithmetic
    op = attention("", reads, writes, sizes, head_pairs=pairs, compute=dtype, vector_compute=softmax)
    builder.add(op, part)
    return out
