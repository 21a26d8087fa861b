"""One chip's part of a model: blocks with local sizes, and the collectives that combine their results.

Tensor parallelism splits each block's heads or hidden width over the chips of a mesh axis, and the vocabulary. What a
chip holds and does follows from the local model as it does from any other:

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> from roofline.models.parallelism.layout import name_axes
>>> local = split_by_layout(load("llama-2-70b"), Parallelism(tensor=8), name_axes(chip("h200:8"), {"tensor": 8}))
>>> [block.name for block in local.layers[0].blocks][:3], local.parameters
(['input_layernorm', 'self_attn', 'self_attn.all_reduce'], 8623235072)

How each kind of block is split:

============================ ======================================================================================
attention, cross-attention   query heads; heads of keys and values too, or several chips hold each
latent attention             heads; every chip holds the latents, made of its own tokens where it has a share of them
compressed attention         heads and the blocks of its output matrix; every chip holds the shared keys and values
gated delta net              heads of keys and of values, with their channels of the convolution and their states
linear attention             heads, with their states
Mamba-2                      heads and groups, with their channels and states; or several chips hold each group
RG-LRU (RecurrentGemma)      blocks of its gates, with their channels and states; or several chips hold each block
Mamba, short convolutions    channels, with their states; Mamba adds up what its step widths, B and C are made of
MLP, experts                 hidden columns; or whole experts
norms, residuals, streams    every chip runs them whole
============================ ======================================================================================

Source: Megatron-LM, arXiv:1909.08053 (tensor) and arXiv:2205.05198 (sequence parallelism); the layers of vLLM for
Mamba-2 and gated delta nets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from roofline.errors import SizeError, UnsplitError
from roofline.frozen import replace
from roofline.hardware.machine import Machine, MeshAxis
from roofline.models.blocks import collectives
from roofline.models.blocks.collectives import TensorParallelCollective
from roofline.models.blocks.encoder import Encoder
from roofline.models.blocks.feed_forward import ExpertExchange, MixtureOfExperts
from roofline.models.blocks.residual import IdleBlocks, NgramEmbedding, ParallelBranches
from roofline.models.description import BatchShare, Block, Layer, Model
from roofline.models.parallelism.layout import SHARED, Parallelism
from roofline.models.weights import join_path
from roofline.ops.collectives.choice import Chooser
from roofline.signatures import either
from roofline.sizes import ceil_div, is_one, product

#: What each collective is called in a model's operations.
NAMES = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter"}


@dataclass(slots=True)
class BlockSplitter:
    """Splits blocks into one chip's part, and collects the notes and gaps of doing so.

    ``ways`` chips of ``axes`` split each block; those of ``context`` share every sequence. Experts are whole on
    ``expert`` chips; ``exchange`` says how these send each other tokens, if they do. ``kv`` are the last of ``axes``:
    their chips share keys and values by sequence.
    """

    name: str
    ways: int
    axes: tuple[MeshAxis, ...]
    expert: int = 1
    sequence: bool = False
    algorithm: collectives.Algorithm = None
    context: tuple[MeshAxis, ...] = ()
    exchange: ExpertExchange | None = None
    kv: tuple[MeshAxis, ...] = ()
    notes: dict[str, None] = field(default_factory=dict)
    gaps: dict[str, None] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Collect a note, once, where several chips split blocks."""
        if self.ways > 1:
            self.notes[text] = None

    def gap(self, text: str) -> None:
        """Collect a gap, once, where several chips split blocks."""
        if self.ways > 1:
            self.gaps[text] = None

    def reduce_after(self, name: str) -> TensorParallelCollective:
        """The collective that adds up the parts of a block's result."""
        return self.collective("ReduceScatter" if self.sequence else "AllReduce", name)

    def collective(self, kind: str, name: str) -> TensorParallelCollective:
        """A collective of the hidden state at a block: an AllGather before it gives it all tokens."""
        return TensorParallelCollective(join_path(name, NAMES[kind]), kind, self.axes, self.algorithm)

    def split_blocks(self, blocks: Sequence[Block]) -> tuple[Block, ...]:
        """Split each block that has work to split, with the collectives around it."""
        found: list[Block] = []
        for block in blocks:
            if block.runs_whole:
                found.append(block)
            elif isinstance(block, ParallelBranches) and not self._ends_alike(block):
                # a branch that goes on after its matrices needs its sums there
                found.append(replace(block, branches=tuple(self.split_blocks(branch) for branch in block.branches)))
            elif self.ways == 1 or self._sends(block) or isinstance(block, IdleBlocks):
                found.append(self.split_block(block))
            else:
                own: Any = block
                if self.sequence and getattr(own, "reads_latents_alone", False):
                    block = replace(own, gather=self.collective("AllGather", block.name))
                elif self.sequence:
                    found.append(self.collective("AllGather", block.name))
                found += [self.split_block(block), self.reduce_after(block.name)]
        return tuple(found)

    def split_block(self, block: Block) -> Block:
        """One chip's share of a block."""
        kind = type(block).__name__
        rule = SPLITS.get(kind)
        if rule is None and self.ways == 1 and not self.kv and not self.context:
            return block  # in copies of the model each is whole
        if rule is None:
            wrong = f"splitting {self.name} over chips is not modelled: it has {kind} layers ({block.name})"
            raise UnsplitError(wrong, hint=f"those that are: {', '.join(SPLITS)}")
        local = rule(self, block)
        either_way = "context_parallel 1, kv_parallel 1"
        if getattr(block, "reads_kv_of", "") and (self.kv or self.context):
            raise self._not_shared("layers attend to keys of earlier ones", either_way)
        if kind in ("CrossAttention", "MergedAttention", "Encoder") and (self.kv or self.context):
            raise self._not_shared("it has an encoder beside its decoder", either_way)
        if self.kv and block.keeps == "keys":
            return self._kv_parallel(block, local)
        if not self.context or not block.keeps:
            return local
        if block.keeps == "state" or getattr(block, "kv_kernel", False):
            why = f"its {kind} layers ({block.name}) pass a state from token to token"
            raise self._not_shared(why, "context_parallel 1")
        if getattr(block, "indexer", None) is not None:
            self.gaps["each chip selects among its own keys: putting the choices together is not counted"] = None
        return collectives.ContextParallelAttention(local.name, local, self.context, self.algorithm)

    def _not_shared(self, why: str, hint: str) -> UnsplitError:
        return UnsplitError(f"sharing sequences of {self.name} over chips is not modelled: {why}", hint=hint)

    def refuse_sequence(self, why: str) -> None:
        """Refuse to split the hidden state between blocks by tokens."""
        if self.sequence:
            hint = either("--no-sequence-parallel leaves it out", "sequence_parallel=False leaves it out")
            raise UnsplitError(f"sequence parallelism of {self.name} is not modelled: {why}", hint=hint)

    def divide_or_pad(self, what: str, size: int, ways: int | None = None) -> int:
        """The fullest chip's part of a size, which is padded where the chips do not divide it; a note says so."""
        ways = self.ways if ways is None else ways
        each = -(-size // ways)
        if size % ways:
            self.note(f"{size} {what} on {ways} chips: padded to {each * ways}, {each} on each")
        return each

    def divide_or_share(self, what: str, size: int) -> int:
        """The fullest chip's part of a size, at least 1. Below the number of chips several hold one; a note says so."""
        if size % self.ways and self.ways % size:
            held = -(-size // self.ways)
            self.note(f"{size} {what} on {self.ways} chips: they do not divide, and a chip holds at least {held}")
            return held
        if size % self.ways == 0:
            return size // self.ways
        self.note(f"{size} {what} on {self.ways} chips: each is held by {self.ways // size}")
        return 1

    def _kv_parallel(self, block: Any, local: Any) -> Block:
        """Attention whose keys and values are dealt out by sequence where several chips would hold them."""
        if getattr(block, "indexer", None) is not None:
            wrong = f"keys and values of {self.name} dealt out by sequence are not modelled: {block.name} selects some"
            raise UnsplitError(wrong, hint="kv_parallel 1")
        shared = int(product(axis.size for axis in self.kv))
        copies = max(self.ways // getattr(block, "kv_heads", 1), 1)
        if copies % shared:
            fitting = [n for n in range(1, copies + 1) if copies % n == 0]
            raise SizeError(
                f"{shared} chips share no keys and values: {self.name} has {getattr(block, 'kv_heads', 1)} heads of "
                f"them, and {self.ways} chips split them",
                hint=f"kv_parallel of {', '.join(map(str, fitting))}",
            )
        return collectives.KVParallelAttention(local.name, local, self.kv, self.algorithm)

    def _sends(self, block: Block) -> bool:
        return self.exchange is not None and isinstance(block, MixtureOfExperts)

    def _ends_alike(self, block: ParallelBranches) -> bool:
        """Say whether each branch ends with the only block that is split: one collective then serves all."""
        return all(
            not branch[-1].runs_whole and not self._sends(branch[-1]) and all(each.runs_whole for each in branch[:-1])
            for branch in block.branches
        )


_OVER_ALL_HEADS = "the norm over all heads: its sums are exchanged between chips, which is not counted"


def _attention(splitter: BlockSplitter, block: Any) -> Any:
    heads = splitter.divide_or_pad("heads", block.heads)
    kv_heads = splitter.divide_or_share("heads of keys and values", block.kv_heads)
    if "full" in (block.norm, block.out_norm):
        splitter.gap(_OVER_ALL_HEADS)
    if block.indexer is not None:
        splitter.note("every chip selects keys by itself")
    return replace(block, heads=heads, kv_heads=kv_heads)


def _lightning(splitter: BlockSplitter, block: Any) -> Any:
    """Heads that are normalised in groups stay together, as far as there are groups."""
    heads = splitter.divide_or_pad("heads of linear attention", block.heads)
    if block.groups * heads < block.heads:
        splitter.gap(_OVER_ALL_HEADS)
    return replace(block, heads=heads)


def _sizes(note: str = "", gap: str = "", shared: Mapping[str, str] = MappingProxyType({}), **padded: str) -> Any:
    """A rule that divides sizes of a block, each with what it is of: ``padded`` ones, and those that may be shared."""

    def rule(splitter: BlockSplitter, block: Any) -> Any:
        if note:
            splitter.note(note)
        if gap:
            splitter.gap(gap)
        parts = {name: splitter.divide_or_pad(what, getattr(block, name)) for name, what in padded.items()}
        parts |= {name: splitter.divide_or_share(what, getattr(block, name)) for name, what in shared.items()}
        return replace(block, **parts)

    return rule


def _mamba1(splitter: BlockSplitter, block: Any) -> Any:
    axes = splitter.axes if splitter.ways > 1 else ()
    if block.heads > 1:
        heads = splitter.divide_or_share("heads of Mamba channels", block.heads)
        if splitter.ways > block.heads:
            splitter.gap("chips that share a head of Mamba channels add up its steps, B and C, which is not counted")
        block, axes = replace(block, heads=heads), ()
    if block.steps:
        heads = splitter.divide_or_share("heads of Mamba channels", block.steps)
        inner = heads * (block.inner // block.steps)
        return replace(block, steps=heads, inner=inner, axes=axes, algorithm=splitter.algorithm)
    inner = splitter.divide_or_pad("Mamba channels", block.inner)
    return replace(block, inner=-(-inner // block.heads) * block.heads, axes=axes, algorithm=splitter.algorithm)


def _real_gated(splitter: BlockSplitter, block: Any) -> Any:
    blocks = splitter.divide_or_share("blocks of a recurrence's gates", block.blocks)
    return replace(block, width=blocks * (block.width // block.blocks), blocks=blocks)


def _mlp(splitter: BlockSplitter, block: Any) -> Any:
    if block.norm:
        splitter.gap("the norm over all hidden columns: its sums are exchanged between chips, which is not counted")
    return replace(block, hidden=splitter.divide_or_pad("hidden columns", block.hidden))


def _experts(splitter: BlockSplitter, block: Any) -> Any:
    held = ceil_div(block.count, splitter.expert)
    if held * splitter.expert > block.count:
        slots = held * splitter.expert
        more = f"{held} on each, {slots - block.count} of the {slots} are redundant copies"
        splitter.notes[f"{block.count} experts on {splitter.expert} chips: {more}"] = None
    shared = block.shared
    if shared is not None and (splitter.exchange is None or splitter.exchange.split):
        shared = _mlp(splitter, shared)
    if splitter.exchange is not None:
        return replace(block, shared=shared, ways=splitter.expert, exchange=splitter.exchange)
    slices = splitter.ways // splitter.expert
    splitter.note("every chip routes all tokens")
    if splitter.expert > 1:
        splitter.note("each chip holds whole experts and gets its share of the tokens, all experts alike")
    if slices > 1 and block.expert_norm:
        splitter.gap("the norm of what an expert returns: its parts are added up between chips first, not counted")
    if slices > 1 and splitter.expert > 1:
        splitter.note(f"each expert is split over {slices} chips")
    hidden = splitter.divide_or_pad("hidden columns of an expert", block.hidden, slices)
    return replace(block, shared=shared, hidden=hidden, ways=splitter.expert)


def _attention_of_experts(splitter: BlockSplitter, block: Any) -> Any:
    if splitter.expert > 1:
        wrong = f"experts of attention on chips of their own are not modelled, and {splitter.name} has them"
        raise UnsplitError(wrong, hint=either("--tensor splits each", "tensor= splits each"))
    splitter.note("every chip routes all tokens")
    kv_heads = splitter.divide_or_pad("heads of keys and values", block.kv_heads)
    return replace(block, heads=kv_heads * block.top_k, kv_heads=kv_heads)


def _parallel(splitter: BlockSplitter, block: Any) -> Any:
    if not block.inside:
        splitter.refuse_sequence("its branches stand behind norms of their own")
    return replace(block, branches=tuple((*first, splitter.split_block(last)) for *first, last in block.branches))


def _encoder(splitter: BlockSplitter, block: Any) -> Any:
    splitter.refuse_sequence("it has an encoder beside its decoder")
    if splitter.ways == 1:
        return block
    if block.bins:
        splitter.note("every chip runs the convolutions of sounds whole")
    layers = {layer: Layer(splitter.split_blocks(layer.blocks)) for layer in dict.fromkeys(block.layers)}
    looked_up = (splitter.reduce_after("embed_tokens"),) if block.rows else ()
    return replace(
        block, rows=ceil_div(block.rows, splitter.ways), splits=splitter.ways, before=(*looked_up, *block.before),
        layers=tuple(layers[layer] for layer in block.layers),
    )  # fmt: skip


#: Kinds of attention that chips split by heads, by the name of their class.
_ATTENTIONS = (
    "Attention", "CrossAttention", "MergedAttention", "DistanceBiasedAttention", "BlockSumAttention",
    "DisentangledAttention",
)  # fmt: skip

#: How blocks are split that no chip runs whole, by the name of their class.
SPLITS: Mapping[str, Callable[[BlockSplitter, Any], Block]] = {
    **dict.fromkeys(_ATTENTIONS, _attention),
    "Encoder": _encoder,
    "MixtureOfAttention": _attention_of_experts,
    "LatentAttention": _sizes("every chip holds the latents of all heads", heads="heads"),
    "CompressedAttention": _sizes(
        "every chip holds the keys and values that all heads share, and compresses and selects them",
        heads="heads", groups="groups of the output matrix",
    ),
    "GatedDeltaNet": _sizes(key_heads="heads of keys", value_heads="heads of values"),
    "KimiDeltaAttention": _sizes(heads="heads of delta attention"),
    "LightningAttention": _lightning,
    "Mamba2": _sizes(
        "Mamba's norm runs over each chip's own channels", heads="Mamba heads", shared={"groups": "groups"},
    ),
    "Mamba1": _mamba1,
    "RealGatedRecurrence": _real_gated,
    "TimeMix": _sizes(hidden="channels of a time mix"),
    "HeadedTimeMix": _sizes(heads="heads of a time mix"),
    "ChannelMix": _sizes("every chip computes the gate of a channel mix", hidden="hidden columns"),
    "ShortConvolution": lambda splitter, block: replace(
        block, channels=splitter.divide_or_pad("channels of a convolution", block.width)
    ),
    "Mlp": _mlp,
    "MixtureOfExperts": _experts,
    "NgramEmbedding": lambda splitter, block: replace(
        block, table=(ceil_div(block.table[0], splitter.ways), block.table[1]), splits=splitter.ways
    ),
    "ParallelBranches": _parallel,
    "IdleBlocks": lambda splitter, block: replace(
        block, blocks=tuple(b if b.runs_whole else splitter.split_block(b) for b in block.blocks)
    ),
}  # fmt: skip


def split_by_layout(model: Model, ways: Parallelism, machine: Machine, *, compares: bool = True) -> Model:
    """One chip's part of a model, or of a stage, in the layout ``ways`` on a machine with that mesh.

    ``compares`` says whether notes of collectives name a faster algorithm, which nobody reads in a search.
    """
    named = {axis.name: axis for axis in machine.mesh or ()}
    algorithm = Chooser(ways.algorithm, machine, compares)
    used = {name for name, size in ways.axes.items() if not is_one(size)} - ({"data"} - {*named})
    axes = {name: (named[name],) if name in used else () for name in ways.axes}
    axes["tensor"] = (*axes["tensor"], *axes["kv"])
    exchange = None
    if ways.sends and ways.expert > 1:
        exchange = ExpertExchange(
            axes=tuple(axis for name in ways.expert_axes for axis in axes[name]),
            tensor=axes["tensor"],
            context=axes["context"] if ways.expert > ways.tensor else (),
            group=ways.sharing > 1,
            scattered=ways.sequence and ways.tensor > 1,
            split=ways.shared == "split" and ways.tensor > 1,
            dispatch=ways.dispatch or _quantised(model),
            combine=ways.combine or "",
            algorithm=algorithm,
            once=ways.exchange == "all-to-all",
        )
    splitter = BlockSplitter(
        model.name, ways.tensor, axes["tensor"], ways.expert, ways.sequence and ways.tensor > 1, algorithm,
        axes["context"], exchange, axes["kv"],
    )  # fmt: skip
    local = _split(model, splitter)
    if ways.pipeline > 1 and not model.head and not model.final:
        send = collectives.PipelineSend("hand_on", axes["pipeline"], algorithm, 1 if ways.sequence else ways.tensor)
        local = replace(local, stage_end=(*local.stage_end, send))
    share = BatchShare(ways.copies, ways.sharing, ways.context)
    return replace(local, share=share, notes=(*local.notes, *_said(ways, exchange, model)))


def divides(model: Model, tensor: int, expert: int = 1) -> bool:
    """Whether chips have equal parts of heads, hidden columns and experts, so that nothing is padded or held twice."""

    def whole(block: Any) -> bool:
        if isinstance(block, MixtureOfExperts):
            slices = tensor if expert == 1 else max(tensor // expert, 1)
            return block.count % expert == 0 and block.hidden % slices == 0
        sizes = [getattr(block, name, 0) for name in ("heads", "key_heads", "value_heads", "hidden")]
        return block.runs_whole or all(size % tensor == 0 for size in sizes)

    return all(map(whole, model.layer_blocks))


def experts_of(model: Model) -> Iterator[MixtureOfExperts]:
    """The blocks of a model that have experts to exchange over chips, of each kind of layer."""
    return (block for block in model.layer_blocks if isinstance(block, MixtureOfExperts))


def has_experts(model: Model) -> bool:
    """Say whether a model has experts to exchange over chips."""
    return next(experts_of(model), None) is not None


def check_experts(model: Model, chips: int) -> None:
    """Refuse to spread the experts of a model that has none."""
    if chips > 1 and not has_experts(model):
        raise UnsplitError(f"{model.name} has no experts to spread over {chips} chips", hint="leave expert out")


def _split(model: Model, splitter: BlockSplitter) -> Model:
    local = model.with_layers(lambda layer: replace(layer, blocks=splitter.split_blocks(layer.blocks)))
    parted = Encoder | NgramEmbedding
    before = tuple(splitter.split_block(each) if isinstance(each, parted) else each for each in model.before)
    local = replace(local, before=before, extra=(), extra_blocks=())
    # rows for several words are added to those of words before chips add up what they found
    words = sum(isinstance(each, NgramEmbedding) for each in before[:1])
    if splitter.ways > 1:
        first: tuple[Block, ...] = (splitter.reduce_after(model.embedding_name),) if model.embeds else ()
        if splitter.sequence and not model.embeds:
            first = (collectives.PipelineReceive("", splitter.ways),)
        gather = (splitter.collective("AllGather", "lm_head"),) if splitter.sequence and model.head else ()
        adapters = model.adapters
        if adapters is not None:
            for layer, part in zip(model.layers, local.layers, strict=True):
                whole, own = ([weight for _, weight in each.weights()] for each in (layer, part))
                adapters = adapters.split(whole, own, splitter.ways)
        local = replace(
            local,
            vocabulary=ceil_div(model.vocabulary, splitter.ways),
            splits=splitter.ways,
            before=(*before[:words], *first, *before[words:]),
            after=(*model.after, *gather),
            adapters=adapters,
            notes=(*local.notes, *_notes(model, splitter)),
        )
    return replace(local, notes=(*local.notes, *splitter.notes), gaps=(*model.gaps, *splitter.gaps))


def _quantised(model: Model) -> str:
    """The format activations are quantised to before their products with experts' matrices, if they are."""
    expert = next((each for each in model.layer_weights() if each.weight.kind == "expert"), None)
    if expert is None:
        return ""
    of = model.storages()(f"layers.{expert.layers[0]}")(expert.weight.name, expert.weight)
    return of.compute if of.compute.startswith("fp8") else ""


def _said(ways: Parallelism, exchange: ExpertExchange | None, model: Model) -> list[str]:
    said = list(ways.notes)
    if exchange is not None:
        sent = f"dispatch {exchange.dispatch or 'as activations'}, combine {exchange.combine or 'as activations'}"
        alike = f"whole experts on {ways.expert} chips, all chosen alike unless a skew is given"
        said.append(f"{alike}; {exchange.describe()} ({sent})")
        if any(block.shared for block in experts_of(model)):
            said.append(SHARED["split" if exchange.split else "replicated"])
    if ways.pipeline > 1 and ways.tensor > 1 and not ways.sequence:
        said.append(f"{ways.tensor} chips {collectives.PARTS_SENT}")
    if ways.kv > 1:
        said.append(f"{ways.kv} chips share the keys and values of the same heads by sequence")
    if ways.context > 1:
        said.append(
            f"{ways.context} chips share each sequence: prefill passes keys and values round, queries dealt evenly; in "
            "decode each chip has a part of the keys and values and runs everything else on all new tokens"
        )
        if any(block.is_latent for block in model.layer_blocks):
            said.append(
                "where latent attention is expanded, the latents are passed and each chip makes keys and values of its "
                "part: no less can be sent or computed; a program that passes latents makes all of them on each chip, "
                "one that passes keys and values sends more"
            )
    return said


def _notes(model: Model, splitter: BlockSplitter) -> list[str]:
    ways = splitter.ways
    how = "a ReduceScatter and an AllGather" if splitter.sequence else "an AllReduce"
    said = [f"{ways} chips split heads, hidden columns and vocabulary; {how} after each block puts the sums together"]
    if splitter.sequence:
        said.append("between blocks each chip has its share of the tokens (sequence parallelism)")
    if model.vocabulary % ways:
        said.append(f"the vocabulary of {model.vocabulary} is padded to {ceil_div(model.vocabulary, ways) * ways}")
    if model.head:
        said.append("logits stay split by vocabulary: only each chip's largest would be exchanged")
    return said
