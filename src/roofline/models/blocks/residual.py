"""The residual stream: norms, additions, branches side by side; several streams, and further inputs of each layer.

- hyper-connections (DeepSeek-V4): streams are mixed before and after each block. Source: DeepSeek-V4 technical report,
  section 2.2, and the transformers implementation (modular_deepseek_v4.py)
- AltUp and LAuReL (Gemma 3n): a layer predicts all streams, computes one, and corrects the others by the difference.
  Sources: Baykal et al., arXiv:2301.13310; Menghani et al., arXiv:2411.07501; modular_gemma3n.py of transformers
- per-layer embeddings (Gemma 3n and 4): each layer reads rows of a table of its own. All layers' tables lie side by
  side in one, of which only the tokens' rows move

Mixing ``n`` numbers is arithmetic of the vector unit.

>>> table = PerLayerEmbedding("", 100, 64, 8, 3)
>>> [weight.shape for weight in table.weights()], table.active()
([(100, 24), (24, 64), (8,)], 1568)
"""

from __future__ import annotations

from roofline.frozen import dataclass
from roofline.models.blocks.feed_forward import ACTIVATIONS
from roofline.models.description import Block, Cached, CachedTokens, Layer, RecordedBlock
from roofline.models.operation_builder import OperationBuilder
from roofline.models.weights import Weight, join_path
from roofline.ops.basic import embedding
from roofline.sizes import Size
from roofline.work import Op, Tensor, Work


@dataclass(frozen=True, slots=True)
class Norm(RecordedBlock, runs_whole=True):
    """RMS or layer norm over the hidden state; ``restarts`` makes its result the residual stream (post-norm).

    ``scaled`` says whether it has a scale. With a ``gate_rank`` a sigmoid multiplies the result, made of it by two
    matrices with a SiLU between.
    """

    width: int
    function: str = "rms_norm"
    shift: bool = False
    restarts: bool = False
    scaled: bool = True
    gate_rank: int = 0

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        out = builder.norm(self.function, x, "", width=self.width, scaled=self.scaled, shift=self.shift)
        if self.gate_rank:
            out = gated_by_rank(builder, out, self.width, self.gate_rank)
        if self.restarts:
            builder.stream = out
        return out


def gated_by_rank(builder: OperationBuilder, x: Tensor, width: int, rank: int, within: str = "") -> Tensor:
    """A sigmoid times a norm's result, which it is made of by two matrices, ``rank`` numbers and a SiLU between."""
    down, act, up, gate, gated = (join_path(within, f"mlp.{part}") for part in ("fc1", "act", "fc2", "gate", "gated"))
    narrow = builder.elementwise("silu", (builder.linear(down, x, rank),), act)
    opened = builder.elementwise("sigmoid", (builder.linear(up, narrow, width),), gate)
    return builder.elementwise("multiply", (x, opened), gated, like=x)


@dataclass(frozen=True, slots=True)
class ResidualAdd(RecordedBlock, runs_whole=True):
    """Add a branch's result to the residual stream.

    With ``gated`` channels each of the two is multiplied by a number for each channel first, made of one vector. What
    the next block alone reads is ``inside``: the stream stays.
    """

    gated: int = 0
    inside: bool = False

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        if self.inside:
            return builder.elementwise("add", (x, builder.stream), "")
        if self.gated:
            read = (x, builder.stream, *builder.declare_and_read({"gate": self.gated}))
            builder.stream = builder.vector("elementwise", read, "", *x.dims, each=3)
        else:
            builder.stream = builder.elementwise("add", (x, builder.stream), "")
        return builder.stream


@dataclass(frozen=True, slots=True)
class ParallelBranches(Block):
    """Branches whose results are added. All start from the residual stream; with ``inside``, from the input."""

    branches: tuple[tuple[Block, ...], ...]
    inside: bool = False

    def parts(self) -> tuple[Block, ...]:
        return tuple(part for branch in self.branches for block in branch for part in block.parts())

    def weights(self) -> tuple[Weight, ...]:
        return tuple(weight for _, weight in Layer(self.parts()).weights())

    def active(self) -> int:
        return sum(block.active() for branch in self.branches for block in branch)

    def kept_per_token(self) -> tuple[CachedTokens, ...]:
        return tuple(each for branch in self.branches for block in branch for each in block.kept_per_token())

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return tuple(each for branch in self.branches for block in branch for each in block.kept_per_sequence())

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        ends = []
        for branch in self.branches:
            end = x if self.inside else builder.stream
            for block in branch:
                builder.enter(block.name, block.weights(), type(block).__name__)
                end = block.run(builder, end)
            ends.append(end)
        total = ends[0]
        for number, end in enumerate(ends[1:], 1):
            builder.enter("")
            total = builder.elementwise("add", (total, end), f"sum{number}" if number > 1 else "sum")
        return total


@dataclass(frozen=True, slots=True)
class PositionEmbedding(RecordedBlock, runs_whole=True):
    """A table of positions (or of token types) that is added to the embedding: one row for each new token.

    It is learned where ``trained``, else computed of sines.
    """

    rows: int
    width: int
    trained: bool = True

    def active(self) -> int:
        return self.width if self.trained else 0

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        if not self.trained:
            builder.stream = builder.elementwise("add", (x,), "add")
            return builder.stream
        builder.declare("", (self.rows, self.width), "embedding")
        table, *_ = builder.read_weights("")
        new = builder.step.new
        index = Tensor(builder.path("index"), (new,), "int32", "index")
        rows = builder.output("rows", new, self.width)
        builder.add(embedding("", (table, index), (rows,)), "gather")
        builder.mark(by_sequence=True)
        builder.stream = builder.elementwise("add", (x, rows), "add", like=x)
        builder.mark(by_sequence=True)
        return builder.stream


_EMBEDDED = "the embedding"


@dataclass(frozen=True, slots=True)
class KeepEmbedding(Block, runs_whole=True):
    """Leave the embedding for later layers, which read it beside the hidden state."""

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        builder.kept[_EMBEDDED] = [x]
        return x


@dataclass(frozen=True, slots=True)
class ConcatenateEmbedding(Block, runs_whole=True):
    """Put the embedding beside the hidden state: the result is twice as wide."""

    width: int

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        out = builder.output("", x.dims[0], 2 * self.width)
        read = (x, *builder.from_earlier(_EMBEDDED))
        builder.add(Op("", "copy", Work(), read, (out,), {"elements": out.elements}), "")
        return out


@dataclass(frozen=True, slots=True)
class IdleBlocks(Block):
    """Blocks whose weights are in memory and that no plain step runs."""

    blocks: tuple[Block, ...]

    def weights(self) -> tuple[Weight, ...]:
        return tuple(weight for _, weight in Layer(self.blocks).weights())

    def active(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Linear(RecordedBlock, runs_whole=True):
    """A matrix and its activation at the ends of a model (a wider embedding, a pooler, a head's transform).

    ``restarts`` makes its result the residual stream.
    """

    inputs: int
    outputs: int
    activation: str = ""
    bias: bool = True
    restarts: bool = False

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        out = builder.linear("", x, self.outputs, bias=self.bias)
        out = builder.elementwise(self.activation, (out,), "activation") if self.activation else out
        if self.restarts:
            builder.stream = out
        return out


@dataclass(frozen=True, slots=True)
class StreamBlock(RecordedBlock, runs_whole=True):
    """A block of ``streams`` residual streams, each ``width`` wide, that every chip runs whole."""

    streams: int
    width: int


@dataclass(frozen=True, slots=True)
class CopyToStreams(StreamBlock):
    """Copy the embedding into every stream."""

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        builder.stream = builder.output("", x.dims[0], self.streams * self.width)
        builder.add(Op("", "copy", Work(), (x,), (builder.stream,), {"elements": builder.stream.elements}), "")
        return builder.stream


@dataclass(frozen=True, slots=True)
class CollapseStreams(StreamBlock):
    """Compute the mixing weights from all streams and collapse them into a block's input.

    ``outputs`` are the weights for each token: n before the block, n after it, n·n between streams where ``mixed`` (n
    alone at the end of the model). They are kept in fp32 and multiplied as tf32, which matrix units take; a ``dtype``
    of the matrix may be the model's (empty). What is not ``trained`` takes the mean of the streams.
    """

    last: bool = False
    mixed: bool = True
    dtype: str = "fp32"
    trained: bool = True

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        streams = builder.stream
        rows = streams.dims[0]
        read: tuple[Tensor, ...] = (streams,)
        if self.trained:
            n, before = self.streams, "hc_" * self.last
            made, parts = (n, 1) if self.last else ((2 + n * self.mixed) * n, 2 + self.mixed)
            flat = builder.norm("rms_norm", streams, "norm", rows, n * self.width, scaled=False)
            mixed = builder.linear(f"{before}fn", flat, made, kind="other", dtype=self.dtype, compute="tf32")
            read = (streams, mixed, *builder.declare_and_read({f"{before}base": made, f"{before}scale": parts}, "fp32"))
        sizes = {"each": 2, "elements": rows * self.streams * self.width}
        return builder.vector("reduction", read, "collapse", rows, self.width, **sizes, compute="fp32")


@dataclass(frozen=True, slots=True)
class ExpandStreams(StreamBlock):
    """Add a block's result to every stream; where ``mixed``, an n x n matrix of the token's own mixes the streams."""

    mixed: bool = True

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        before, each = builder.stream, 2 * ((self.streams if self.mixed else 0) + 1)
        builder.stream = builder.vector("elementwise", (x, before), "mix", *before.dims, each=each)
        return builder.stream


@dataclass(frozen=True, slots=True)
class GatedCollapse(StreamBlock):
    """Make a block's input of all streams (Qwen4): the mean of their norms, each number times a sigmoid.

    Sigmoids are made of the norms over ``rank`` numbers. But for the ``last``, those of other numbers say how much of
    the block's result is added to each stream.
    """

    rank: int
    last: bool = False

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        rows, wide = builder.stream.dims[0], self.streams * self.width
        builder.declare("hc_norm", (wide,), "norm")
        normed = builder.norm("rms_norm", builder.stream, "hc_norm", rows * self.streams, self.width)
        normed = Tensor(normed.ident, (rows, wide), normed.dtype)
        narrow = builder.elementwise("silu", (builder.linear("input_mix_weight_down", normed, self.rank),), "mix.act")
        mixed = builder.elementwise("sigmoid", (builder.linear("input_mix_weight_up", narrow, wide),), "mix.gate")
        if not self.last:
            builder.elementwise("sigmoid", (builder.linear("block_inject_weight", normed, self.streams),), "inject")
        return builder.vector("reduction", (normed, mixed), "collapse", rows, self.width, each=2, elements=rows * wide)


def _looked_up(
    builder: OperationBuilder, name: str, table: tuple[int, int], rows: Size, heads: int, parts: int = 1
) -> Tensor:
    """``heads`` rows of a table, or of one of its ``parts``, for each token, one behind the other."""
    index = Tensor(builder.path("index"), (rows, heads), "int32", "index")
    found = builder.output("rows", rows * heads, table[1])
    builder.declare(name, table, "embedding")
    builder.add(embedding("", (*builder.read_weights(name), index), (found,), parts=parts), name)
    return Tensor(found.ident, (rows, heads * table[1]), found.dtype)


@dataclass(frozen=True, slots=True)
class NgramEmbedding(RecordedBlock, runs_whole=True):
    """Add to a word's embedding ``heads`` rows of a table, chosen by hashes of it and the words before, and projected.

    Of a table that ``splits`` chips share each has an even part, and adds zeros for the other rows.
    Source: LongCat-Flash-Lite; its code has a table and a projection for each row, which together are these.
    """

    table: tuple[int, int]
    heads: int
    width: int
    splits: int = 1

    def active(self) -> int:
        """The rows of one token, and the projection."""
        return self.heads * self.table[1] * (1 + self.width)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        found = _looked_up(builder, "embedders", self.table, x.dims[0], self.heads, self.splits)
        made = builder.linear("post_projs", found, self.width)
        builder.stream = builder.elementwise("add", (x, made), "add")
        return builder.stream


@dataclass(frozen=True, slots=True)
class HashedEmbedding(StreamBlock):
    """Add to every stream what the last ``words`` words together bring (Qwen4): rows of a table, chosen by hashes.

    ``heads`` rows of ``table`` are one vector. Of it are made a value, and a key for each stream, which gates the value
    with the stream. A convolution runs over ``kernel`` tokens, ``words`` apart.
    """

    table: tuple[int, int]
    heads: int
    kernel: int
    words: int

    def active(self) -> int:
        """The rows of one token, and all else."""
        rows, each = self.table
        return sum(weight.elements for weight in self.weights()) - (rows - self.heads) * each

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        streams = builder.stream
        rows, wide = streams.dims[0], self.streams * self.width
        for name in ("key", "query", "conv"):
            builder.declare(f"norm_{name}", (wide,), "norm")
        found = _looked_up(builder, "ple_embedding.ngram_embedding", self.table, rows, self.heads)
        keys = builder.linear("key_proj", found, wide)
        value = builder.linear("value_proj", found, self.width)
        parts = rows * self.streams
        keys = builder.norm("rms_norm", keys, "norm_key", parts, self.width)
        queries = builder.norm("rms_norm", streams, "norm_query", parts, self.width)
        gated = builder.vector("elementwise", (keys, queries, value), "gate", rows, wide, each=3)
        normed = builder.norm("rms_norm", gated, "norm_conv", parts, self.width)
        out = builder.convolve(normed, wide, self.kernel, apart=self.words)
        builder.stream = builder.elementwise("add", (streams, gated, out), "add", like=streams)
        return builder.stream


_PREDICTED, _CORRECTED = "predictions", "corrected streams"


@dataclass(frozen=True, slots=True)
class StreamProjections(StreamBlock):
    """Make the streams of one hidden state, or ``back`` one of the streams: a matrix for each but the first.

    Each is brought to the magnitude of the first; ``back`` takes their mean.
    """

    back: bool = False

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        count, wide = x.dims[0], self.streams * self.width
        part = Tensor(x.ident, (count, self.width), x.dtype, x.role)
        parts = [builder.linear(str(number), part, self.width) for number in range(self.streams - 1)]
        # a square and a sum for each magnitude, a product to scale by it, a sum for the mean
        flops = count * self.width * (2 * self.streams + (2 if self.back else 1) * (self.streams - 1))
        sizes = {"flops": flops, "elements": count * wide}
        made = self.width if self.back else wide
        builder.stream = builder.vector("reduction", (part, *parts), "streams", count, made, **sizes)
        return builder.stream


@dataclass(frozen=True, slots=True)
class AltUpPredict(StreamBlock):
    """Predict every stream as a mixture of all, by weights of each token; the layer computes the first one."""

    def route(self, builder: OperationBuilder, x: Tensor, part: str) -> Tensor:
        """Compute the token's weights of the streams from ``x``."""
        scale = Weight("router_norm", (self.width,), "norm")
        router = Weight("modality_router", (self.streams, self.width), "router")
        seen = builder.norm("rms_norm", x, scale, part=f"{part}.{scale.name}")
        found = builder.linear(router, seen)
        return builder.elementwise("tanh", (found,), f"{part}.modalities")

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        streams, n = builder.stream, self.streams
        count = streams.dims[0]
        active = Tensor(streams.ident, (count, self.width), streams.dtype, streams.role)
        builder.declare("router_norm", (self.width,), "norm")
        builder.declare("modality_router", (n, self.width), "router")
        weights = builder.linear("prediction_coefs", self.route(builder, active, "predict"), n * n, kind="other")
        read = (streams, weights)
        out = builder.vector("elementwise", read, "predictions", count, n * self.width, each=2 * n + 1)
        builder.kept[_PREDICTED] = [out]
        builder.stream = Tensor(out.ident, (count, self.width), out.dtype)
        return builder.stream


@dataclass(frozen=True, slots=True)
class AltUpCorrect(StreamBlock):
    """Correct every stream by the difference between computed and predicted; returns the first, scaled."""

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        count, n = x.dims[0], self.streams
        before = builder.from_earlier(_PREDICTED)[0]
        routed = AltUpPredict(self.name, n, self.width).route(builder, x, "correct")
        weights = builder.linear("correction_coefs", routed, n, kind="other")
        read, flops = (x, before, weights), count * self.width * (2 * n + 1)
        out = builder.vector("elementwise", read, "corrected", count, n * self.width, flops=flops)
        builder.kept[_CORRECTED] = [out]
        first = Tensor(out.ident, (count, self.width), out.dtype)
        scale = builder.declare_and_read({"correct_output_scale": self.width})
        return builder.elementwise("multiply", (first, *scale), "scaled", like=first)


@dataclass(frozen=True, slots=True)
class AddToOtherStreams(StreamBlock):
    """Add a result to every stream but the first."""

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        before = builder.from_earlier(_CORRECTED)[0]
        elements = before.dims[0] * (self.streams - 1) * self.width
        builder.stream = builder.vector("elementwise", (x, before), "", *before.dims, elements=elements)
        return builder.stream


@dataclass(frozen=True, slots=True)
class LowRankResidual(RecordedBlock, runs_whole=True):
    """A low-rank residual: the input plus two narrow matrices and a norm of it."""

    width: int
    rank: int

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        wide = builder.linear("linear_right", builder.linear("linear_left", x, self.rank), self.width)
        wide = builder.norm("rms_norm", wide, "post_laurel_norm")
        return builder.elementwise("add", (wide, x), "add")


@dataclass(frozen=True, slots=True)
class AttentionResidual(RecordedBlock, runs_whole=True):
    """Mix the hidden state with those of earlier blocks of layers: a softmax over ``states`` of norm(state)·proj.

    With ``queries`` (Inkling 2) there are so many mixtures, the norm has no scale, and what is added to stays.
    Source: Kimi K3 technical report, arXiv:2607.24653 (block attention residuals).
    """

    width: int
    states: int
    queries: int = 0

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        """Add the mixture: 4 FLOPs an element for the norm, and for each mixture 2 for its score, 2 for the sum."""
        rows, several = x.dims[0], self.queries or 1
        if self.queries:
            builder.declare("query", (self.queries, self.width), dtype="fp32")
        else:
            builder.declare(f"{self.name}_norm", (self.width,), "norm")
            builder.declare(f"{self.name}_proj", (1, self.width))
        others = builder.output(f"{self.name}.states", rows, (self.states - 1) * self.width)
        read = [x, *([others] if self.states > 1 else []), *builder.read_weights(*builder.weights)]
        elements = rows * self.states * self.width
        sizes = {"flops": (4 + 4 * several) * elements, "elements": several * elements}
        out = builder.vector("softmax", read, self.name, rows, several * self.width, **sizes)
        if not self.queries:
            builder.stream = out
        return out


_HEARD = "messages of the turn before"


@dataclass(frozen=True, slots=True)
class LoopMessages(AttentionResidual):
    """Mixtures of the states of an earlier turn of the same layers, for :class:`MessageGates`; the input stays."""

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        builder.kept[_HEARD] = [AttentionResidual.run(self, builder, x)]
        return x


@dataclass(frozen=True, slots=True)
class MessageGates(RecordedBlock, runs_whole=True):
    """Add a message to each of ``inputs``: (1 − f)·x + g·m, with f and g of tanh, made of both over ``rank`` numbers.

    Each is ``width`` wide; several of them lie below each other. Norms without a scale stand before the products.
    """

    width: int
    rank: int
    inputs: tuple[str, ...]

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        message, width = builder.from_earlier(_HEARD)[0], self.width
        rows = message.dims[0]
        both = [Tensor(each.ident, (rows, width), each.dtype, each.role) for each in (x, message)]
        out = both[0]
        for name in self.inputs:
            place = f"{name}_message_gate"
            for part in both:
                normed = builder.norm("rms_norm", part, f"{place}.norm", rows, width, scaled=False)
            both_normed = Tensor(normed.ident, (rows, 2 * width), normed.dtype)
            narrow = builder.linear(f"{place}.down_proj", both_normed, self.rank, kind="other")
            made = (
                (gate, builder.linear(f"{place}.{gate}_gate_proj", narrow, width, kind="other", dtype="fp32"))
                for gate in ("forget", "message")
            )
            gates = [builder.elementwise("tanh", (opened,), gate) for gate, opened in made]
            out = builder.vector("elementwise", [*both, *gates], place, rows, width, each=4)
        return Tensor(out.ident, (len(self.inputs) * rows, width), out.dtype)


_HANDED = "the inputs of its layers"


@dataclass(frozen=True, slots=True)
class PerLayerEmbedding(RecordedBlock, runs_whole=True):
    """Look the inputs of all ``layers`` up, ``each`` wide, and add a projection of the embedding to them.

    With no ``rows`` there is no table: the projection is all.
    """

    rows: int
    width: int
    each: int
    layers: int

    def active(self) -> int:
        return sum(weight.elements // (self.rows if weight.kind == "embedding" else 1) for weight in self.weights())

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step, count, wide = builder.step, x.dims[0], self.layers * self.each
        if self.rows:
            builder.declare("embed_tokens_per_layer", (self.rows, wide), "embedding")
        made = builder.linear("per_layer_model_projection", x, wide)
        made = builder.norm("rms_norm", made, "per_layer_projection_norm", count * self.layers, self.each)
        for table in builder.read_weights("embed_tokens_per_layer")[:1]:
            tokens = Tensor("tokens", (step.own, step.new), "int32", "index")
            found = builder.output("rows", count, wide)
            builder.add(embedding("", (table, tokens), (found,)), "embed_tokens_per_layer")
            made = builder.elementwise("add", (made, found), "per_layer_inputs", like=found)
        builder.kept[_HANDED] = [made]
        return x


@dataclass(frozen=True, slots=True)
class PerLayerInput(RecordedBlock, runs_whole=True):
    """Multiply a narrow projection of the hidden state by the layer's own input, and widen the result again."""

    width: int
    each: int
    activation: str

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        count = x.dims[0]
        every = builder.from_earlier(_HANDED)[0]
        narrow = builder.linear("per_layer_input_gate", x, self.each)
        narrow = builder.elementwise(ACTIVATIONS[self.activation], (narrow,), "per_layer_act")
        own = Tensor(every.ident, (count, self.each), every.dtype)
        narrow = builder.elementwise("multiply", (narrow, own), "per_layer_multiply")
        wide = builder.linear("per_layer_projection", narrow, self.width)
        return builder.norm("rms_norm", wide, "post_per_layer_input_norm")
