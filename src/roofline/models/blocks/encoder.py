"""Encoders of text, sound and images: a source read once, in prefill, that each layer of a decoder attends to.

Keys and values of the source are made in prefill and kept; they do not grow while the answer does. ::

    encoder             once for each sequence: every token of the source sees every other one
    cross-attention     pairs = new·source; keys and values of the source cached: source·kv_heads·(key + value)

Sources: Vaswani et al., arXiv:1706.03762, section 3.2.3; Raffel et al. (T5), arXiv:1910.10683, section 2.1 (biases by
distance); Radford et al. (Whisper), arXiv:2212.04356, section 2.2 (convolutions of the spectrogram).

>>> block = CrossAttention("encoder_attn", 1024, 16, 16, 64, 64, source=512)
>>> [part.elements for part in block.cache(1)], block.kv_per_token()
([524288, 524288], 0)

A vision tower has position tables on a grid, and merges or averages patches:

>>> [weight.shape for weight in GridPositionEmbedding("pos_embed", rows=2304, width=1024, taps=2).weights()]
[(2304, 1024)]
"""

from __future__ import annotations

from math import isqrt

from roofline.errors import InputError
from roofline.frozen import NamedTuple, dataclass, replace
from roofline.models.blocks.attention import Attention, attention_core
from roofline.models.description import Block, Cached, CachedTokens, Layer, Model, RecordedBlock
from roofline.models.operation_builder import OperationBuilder
from roofline.models.weights import Weight, join_path
from roofline.ops.basic import embedding
from roofline.ops.contraction import contraction
from roofline.signatures import spelled
from roofline.sizes import Size, check, exact_div, floor_div, grouped, is_array, is_symbol, is_zero, minimum
from roofline.work import Tensor, Work

_SOURCE = "what the encoder made of its source"


@dataclass(frozen=True, slots=True)
class CrossAttention(Attention):
    """Attention to the ``source`` tokens that the encoder has read; their keys and values are made once.

    ``source_width`` is the encoder's width; 0: the decoder's.
    """

    source: int = 0
    source_width: int = 0

    def kept_per_token(self) -> tuple[CachedTokens, ...]:
        return ()  # keys and values are the source's, and stay as they are

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        widths = (("keys of the source", self.key), ("values of the source", self.value))
        return tuple(Cached(name, self.source * self.kv_heads * width) for name, width in widths)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        """Attend to the source; in a prefill make its keys and values first."""
        step = builder.step
        q = builder.linear(self.names[0], x, self.heads * self.key, bias=self.bias)
        out = attention_core(
            builder, q, self.of_source(builder), pairs=step.new * self.source, heads=self.heads,
            kv_heads=self.kv_heads, key=self.key, value=self.value, length=self.source,
        )  # fmt: skip
        return self._output(builder, out)

    def of_source(self, builder: OperationBuilder) -> list[Tensor]:
        """Keys and values of the source: made in a prefill, else those that are kept."""
        step = builder.step
        if step.decoding or not is_zero(step.past):
            names = [builder.path("cache", part.name) for part in self.kept_per_sequence()]
            kept = [Tensor(name, (), step.kv, "kv") for name in names]
        else:
            rows = step.own * self.source
            # keys and values are made of hidden states as wide as the encoder
            states = replace(builder.from_earlier(_SOURCE)[0], dims=(rows, self.source_width or self.inputs))
            widths = zip(self.names[1:3], (self.key, self.value), (self.key_bias, True), strict=True)
            keys, values = (
                builder.linear(name, states, self.kv_heads * width, bias=self.bias and has_bias)
                for name, width, has_bias in widths
            )
            if self.norm:
                keys = builder.norm(self.norm_function, keys, "k_norm", rows * self.kv_heads, self.key, scaled=False)
            kept = [builder.write_to_cache(made) for made in (keys, values)]
        return self._by_head(builder, kept, self.source)


@dataclass(frozen=True, slots=True)
class MergedAttention(CrossAttention):
    """Attention to the tokens before, and to the ``source``, by the same matrices under one softmax (T5Gemma 2)."""

    def kept_per_token(self) -> tuple[CachedTokens, ...]:
        return Attention.kept_per_token(self)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        return Attention.run(self, builder, x)

    def beside(self, builder: OperationBuilder, x: Tensor) -> tuple[list[Tensor], Size]:
        """Keys and values of the source, and how many they are."""
        return self.of_source(builder), self.source


def add_to_scores(builder: OperationBuilder, sums: Size, added: list[Tensor]) -> None:
    """Count so many sums of a sequence's scores in the last attention, which reads what is added."""
    index = max(index for index, op in enumerate(builder.ops) if op.kind == "attention")
    op, work = builder.ops[index], Work.flops("vector", builder.arithmetic, sums * builder.step.attended)
    builder.ops[index] = replace(op, work=op.work + work, reads=(*op.reads, *added))


@dataclass(frozen=True, slots=True)
class DistanceBiasedAttention(Attention):
    """Attention that adds a trained number for each head and distance to the scores, made on chip: a FLOP a pair.

    The numbers are a table of ``buckets`` of distances, which the layers share: the one that ``holds`` it has it.
    """

    buckets: int = 0
    holds: bool = False

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        out = Attention.run(self, builder, x)
        if self.holds:
            builder.declare("relative_attention_bias", (self.buckets, self.heads), "embedding")
        add_to_scores(builder, self._pairs(builder) * self.heads, builder.read_weights("relative_attention_bias"))
        return out


@dataclass(frozen=True, slots=True)
class BlockSumAttention(DistanceBiasedAttention):
    """Attention to a window, and by the same matrices to the normalised sum of each ``block`` of tokens (LongT5).

    Source: Guo et al., LongT5, arXiv:2112.07916, section 3.1.2 ("transient global").
    """

    block: int = 16

    def beside(self, builder: OperationBuilder, x: Tensor) -> tuple[list[Tensor], Size]:
        """Keys and values of the sums of whole blocks, and how many they are."""
        step, count = builder.step, floor_div(builder.step.new, self.block)
        rows = step.own * count
        sums = builder.vector("reduction", (x,), "global", rows, self.inputs, elements=step.tokens * self.inputs)
        sums = builder.norm("rms_norm", sums, "global_input_layer_norm")
        if self.holds:
            builder.declare("global_relative_attention_bias", (self.buckets, self.heads), "embedding")
        made = [builder.linear(name, sums) for name in self.names[1:3]]
        return self._by_head(builder, made, count), count


_RELATIVE, _SCORES = "the table of relative positions", "scores of relative positions"


@dataclass(frozen=True, slots=True)
class RelativePositions(RecordedBlock, runs_whole=True):
    """A table of ``rows`` relative positions, with a norm or none, that each layer's attention reads."""

    rows: int
    width: int
    normed: bool = True

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        """Normalise the table, once for all layers and sequences."""
        builder.declare("rel_embeddings", (self.rows, self.width), "embedding")
        (table,) = builder.read_weights("rel_embeddings")
        if self.normed:
            table = builder.norm("layer_norm", table, "LayerNorm", self.rows, self.width, shift=True)
        builder.kept[_RELATIVE] = [table]
        return x


@dataclass(frozen=True, slots=True)
class DisentangledAttention(Attention):
    """Attention that adds q·k_δ (``c2p``) and k·q_δ (``p2c``) to the scores, δ the position of a key from its query.

    k_δ and q_δ are made of a table of ``rows`` relative positions, by the matrices of keys and queries where ``same``,
    else by matrices of their own. A query meets as many of them as there are keys, or all. These scores are made on
    chip, and attention adds a number for each pair. ``rows`` of them are made, or those that the sequence has where
    ``own`` (DeBERTa 1, whose matrices of keys have no bias).

    Source: He et al., DeBERTa, arXiv:2006.03654, section 3.1.
    """

    rows: int = 0
    parts_added: tuple[str, ...] = ()
    same: bool = False
    own: bool = False

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        out, added = Attention.run(self, builder, x), builder.kept.pop(_SCORES)
        add_to_scores(builder, len(added) * self._pairs(builder) * self.heads, added)
        return out

    def _project(
        self, builder: OperationBuilder, x: Tensor, of_keys: Tensor, of_values: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
        q, k, v, gate = Attention._project(self, builder, x, of_keys, of_values)
        (table,), step = builder.from_earlier(_RELATIVE), builder.step
        sizes = {"m": step.new, "n": minimum(step.new, self.rows), "k": self.key, "batch": step.attended * self.heads}
        builder.kept[_SCORES] = []
        for part in self.parts_added:
            made, of = self._made(builder, table, part), q if part == "c2p" else k
            assert of is not None
            out = replace(builder.output(part, sizes["batch"] * sizes["m"], sizes["n"]), touched=0)
            builder.add(contraction("", (of, made), (out,), **sizes, unit="matrix"), part)
            builder.kept[_SCORES].append(out)
        return q, k, v, gate

    def _made(self, builder: OperationBuilder, table: Tensor, part: str) -> Tensor:
        """Keys or queries of relative positions."""
        name, at = _MADE[part]
        table = replace(builder.shared(table) if table.role == "weight" else table, dims=(self.rows, self.inputs))
        if not self.same:
            rows = minimum(2 * builder.step.new, self.rows) if self.own else self.rows
            has_bias = not (self.own and name == "pos_key_proj")
            return builder.linear(name, table, self.heads * self.key, rows=rows, bias=has_bias)
        weight = builder.weights[self.names[at]]
        rows, width = self.rows, self.heads * self.key
        out, read = builder.output(name, rows, width), (table, *builder.read_weight(weight)[0])
        builder.add(contraction("", read, (out,), m=rows, n=width, k=self.inputs, unit="matrix"), name)
        return out


#: What makes keys or queries of relative positions, and the matrix that else does, by the part of the scores.
_MADE = {"c2p": ("pos_key_proj", 1), "p2c": ("pos_query_proj", 0)}


class SoundKernel(NamedTuple):
    """A convolution over ``taps`` frames, every ``stride``-th; ``padded`` where frames are added at both ends."""

    name: str
    taps: int
    stride: int
    channels: int
    activation: str = "gelu"
    bias: bool = True
    padded: bool = True


@dataclass(frozen=True, slots=True)
class SoundConvolutions(RecordedBlock):
    """Convolutions that make a token of several frames of ``bins`` numbers, each with its activation behind. ::

        FLOPs = Σ over kernels of 2·rows·(taps·channels before)·channels
        rows of the last = tokens; of another: stride·rows of the next (+ taps − stride where nothing is padded)

    A ``norm`` over all frames and channels of a sequence stands behind the first kernel, or none.
    """

    bins: int
    kernels: tuple[SoundKernel, ...]
    norm: str = ""

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        """Several frames become a token."""
        step, rows, inputs = builder.step, [builder.step.new], self.bins
        for kernel in self.kernels[:0:-1]:
            rows.append(kernel.stride * rows[-1] + (0 if kernel.padded else kernel.taps - kernel.stride))
        for kernel, length in zip(self.kernels, reversed(rows), strict=True):
            builder.declare(kernel.name, (kernel.channels, kernel.taps * inputs), "other")
            if kernel.bias:
                builder.declare(f"{kernel.name}.bias", (kernel.channels,), "bias")
            x, inputs = builder.linear(kernel.name, x, rows=step.own * length), kernel.channels
            x = builder.elementwise(kernel.activation, (x,), f"{kernel.name}.act")
            if self.norm and kernel is self.kernels[0]:
                for name in (self.norm, f"{self.norm}.bias"):
                    builder.declare(name, (kernel.channels,), "norm")
                x = builder.norm("layer_norm", x, self.norm, step.own, length * kernel.channels, scaled=False)
                x = replace(x, dims=(step.own * length, kernel.channels))
        builder.stream = x
        return x


@dataclass(frozen=True, slots=True)
class Encoder(Block):
    """Layers that read ``source`` tokens of each sequence in prefill, and leave what they made for cross-attention.

    Words are looked up in the decoder's table of ``rows``, of which ``splits`` chips have as many each, or in its
    ``own``; sounds come as ``frames`` of ``bins`` numbers a token. ``longest`` is the most that it can read, where that
    is limited.
    """

    width: int
    source: int
    rows: int
    bins: int
    before: tuple[Block, ...]
    layers: tuple[Layer, ...]
    after: tuple[Block, ...]
    longest: int | None = None
    own: bool = False
    frames: int = 2
    splits: int = 1

    @property
    def table(self) -> Weight:
        """The table that words are looked up in."""
        return Weight("embed_tokens", (self.rows, self.width), "embedding")

    def _groups(self) -> list[tuple[str, int, tuple[Block, ...]]]:
        """Blocks by where they stand: before the layers, in equal layers, behind them."""
        found: list[tuple[str, int, tuple[Block, ...]]] = [("", 1, self.before)]
        numbers = grouped((layer, number) for number, layer in enumerate(self.layers))
        for layer, held in numbers.items():
            label = str(held[0]) if len(held) == 1 else f"{held[0]}-{held[-1]}"
            found.append((f"layers.{label}", len(held), layer.blocks))
        return [*found, ("", 1, self.after)]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Every block, in order."""
        return (*self.before, *(block for layer in self.layers for block in layer.blocks), *self.after)

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the encoder; the table of words may be the decoder's."""
        found = [self.table] if self.own else []
        found += [weight for _, weight in Layer((*self.before, *self.after)).weights()]
        inside = (weight for layer in self.layers for _, weight in layer.weights())
        return *found, *(weight._replace(name=join_path("layers", weight.name)) for weight in inside)

    def active(self) -> int:
        """Those that one token uses, and its row of the encoder's own table."""
        return sum(block.active() for block in self.blocks) + (self.width if self.own else 0)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        """Read the source, unless an earlier step has; the decoder's hidden state stays as it is."""
        step = builder.step
        if not step.decoding and (is_symbol(step.past) or (is_array(step.past) and not step.past.all())):
            raise InputError(
                f"{spelled('past')} beside an encoder is a number: where it is 0 the source is read, else it has been",
                hint="ask for each by itself",
            )
        if step.decoding or not is_zero(step.past):
            return x
        reading = replace(step, new=self.source, past=0, wanted=None, group=None, skew=None)
        rows = reading.tokens * (self.frames if self.bins else 1)
        stream = Tensor("source", (rows, self.bins or self.width), step.activations)
        if self.rows:
            part, table = builder.inside(reading, "", 1, stream), self.table
            tokens = Tensor("source tokens", (reading.own, reading.new), "int32", "index")
            part.enter("")
            read = (part.read_weight(table)[0][0], tokens)
            part.add(embedding("", read, (stream,), parts=self.splits), table.name)
            builder.ops += part.ops
        for place, count, blocks in self._groups():
            part = builder.inside(reading, place, count, stream)
            for block in blocks:
                part.enter(block.name, block.weights(), type(block).__name__)
                stream = block.run(part, stream)
            builder.ops += part.ops
        builder.kept[_SOURCE] = [stream]
        return x


def encoder_of(model: Model) -> Encoder | None:
    """The encoder of a model, None where it has none."""
    return next((block for block in model.before if isinstance(block, Encoder)), None)


def refuse_encoder(model: Model, what: str) -> None:
    """Refuse something that is modelled for decoders alone."""
    if encoder_of(model) is not None:
        wrong = f"{what} of {model.name} is not modelled: it has an encoder beside its decoder"
        raise InputError(wrong, hint="prefill and decode are, on one chip or split by tensor")


def source_said(model: Model) -> str:
    """What a model with an encoder reads, in a sentence; empty where it has none."""
    encoder = encoder_of(model)
    if encoder is None:
        return ""
    read = f"{encoder.source:,} tokens of {'sound' if encoder.bins else 'text'}"
    return f"the encoder reads {read} of each sequence once, in prefill; prompt and context are the decoder's tokens"


def with_source(model: Model, source: Size | None) -> Model:
    """The model whose encoder reads ``source`` tokens of each sequence; None: as many as it was read with.

    >>> from roofline.models import load
    >>> t5 = load({"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4,
    ...            "vocab_size": 100, "torch_dtype": "bfloat16"})
    >>> [with_source(t5, source).cache_bytes(1) for source in (100, 200)]
    [51712, 102912]
    """
    if source is None:
        return model
    encoder = encoder_of(model)
    if encoder is None:
        raise InputError(f"{model.name} has no encoder that reads a source", hint="leave the source out")
    count = check("source", source)
    if not isinstance(count, int):
        raise InputError("the source has one length", hint="a whole number of tokens")
    if encoder.longest is not None and count > encoder.longest:
        wrong = f"the encoder of {model.name} reads {encoder.longest:,} tokens at most, and the source has {count:,}"
        raise InputError(wrong, hint="a source as long as its table of positions, or shorter")

    def reading(block: Block) -> Block:
        return replace(block, source=count) if isinstance(block, CrossAttention) or block is encoder else block

    return replace(model.with_blocks(reading), before=tuple(map(reading, model.before)))


@dataclass(frozen=True, slots=True)
class GridPositionEmbedding(RecordedBlock):
    """A learned table of positions on a grid, added to the patches: ``taps`` of its rows for each patch.

    ``weighted`` where they are interpolated along one side of the grid and then along the other, whose taps count (2
    bilinear, 4 bicubic); those before depend on the sides, which are open. ``axes`` where the table has one part for
    each side. ::

        vector FLOPs = patches·width·taps·(2 if weighted else 1)        products, and adding up

    An image reads at least one row for each patch, or with ``axes`` for each row and column: 2·sqrt(patches).
    """

    rows: int
    width: int
    taps: int = 1
    weighted: bool = False
    axes: bool = False

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        patches = builder.step.new
        least = 2 * isqrt(patches) if self.axes and isinstance(patches, int) else patches
        builder.declare("", (self.rows, self.width), "embedding")
        table, *_ = builder.read_weights("", touched=minimum(least, self.rows))
        builder.stream = builder.elementwise("add", (x, table), "")
        count = x.dims[0] * self.width * self.taps * (2 if self.weighted else 1)
        builder.mark(work=Work(dict.fromkeys(builder.ops[-1].work, count)))
        return builder.stream


@dataclass(frozen=True, slots=True)
class MergePatches(Block):
    """Lay ``side`` by ``side`` neighbouring patches into one row: a view, which costs nothing."""

    side: int

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
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
        flops = rows * width + tokens * width * self.steps
        return builder.vector("pooling", (x,), "", tokens, width, flops=flops, elements=rows * width)


@dataclass(frozen=True, slots=True)
class DeepStackAdd(Block):
    """Add a branch's result to the language model's hidden state; the tower goes on with the branch's input."""

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        builder.elementwise("add", (x, x), "")
        return builder.stream
