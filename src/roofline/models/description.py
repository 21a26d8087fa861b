"""A model, whatever its family: layers of blocks, each with its weights, its operations and its cache.

A family's reader (:mod:`roofline.models.families`) turns a ``config.json`` into a :class:`Model`; counts, operations
and memory all follow from it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

from roofline import dtypes
from roofline.answers import Answer, attributes, capability
from roofline.errors import InputError, SizeError, quoted
from roofline.frozen import NamedTuple, Same, dataclass, fields, kept, once, replace
from roofline.models.operation_builder import ForwardPass, OperationBuilder, StorageOf
from roofline.models.weights import Quantisation, ServedAdapters, Storage, Weight, join_path, lies_in
from roofline.sections import Section
from roofline.sizes import (
    Size,
    ceil_div,
    check,
    exact_div,
    floor_div,
    is_array,
    is_number,
    is_one,
    is_symbol,
    is_zero,
    maximum,
    minimum,
)
from roofline.work import Tensor


class Cached(NamedTuple):
    """A tensor that one sequence keeps between steps: its elements, and its role (kv: keys and values; state).

    ``dtype`` fixes the format of a state. Keys and values take the format asked for, else their own, else the model's.
    """

    name: str
    elements: Size
    role: str = "kv"
    dtype: str = ""


class CachedTokens(NamedTuple):
    """Keys, values or latents of each token: ``each`` elements of every one, or of every ``rate`` of them together.

    ``most`` is how many tokens are kept at most, where a window or a chunk needs no more. ``chooses`` tells the keys by
    which an indexer picks others. ``dtype`` is as in :class:`Cached`.
    """

    name: str
    each: Size
    most: int | None = None
    rate: int = 1
    dtype: str = ""
    chooses: bool = False

    def of(self, length: Size) -> Cached:
        """What is kept of a sequence of ``length`` tokens."""
        entries = length if self.rate == 1 else floor_div(length, self.rate)
        entries = entries if self.most is None else minimum(entries, self.most)
        return Cached(self.name, entries * self.each, dtype=self.dtype)


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a layer. ``name`` is its module's name in the checkpoint.

    ``runs_whole``: every chip runs all of it, however layers are split. ``keeps`` says what it has of earlier tokens:
    their ``keys``, a ``state`` that passes from one to the next, or nothing. ``is_latent``: its keys and values are
    made of latents, before the scores or never. A class says these three behind its base, and its heirs have them too.
    """

    runs_whole: ClassVar[bool] = False
    keeps: ClassVar[str] = ""
    is_latent: ClassVar[bool] = False
    name: str

    def __init_subclass__(cls, runs_whole: bool = False, keeps: str = "", is_latent: bool = False) -> None:
        cls.runs_whole = runs_whole or cls.runs_whole
        cls.keeps = keeps or cls.keeps
        cls.is_latent = is_latent or cls.is_latent

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        return ()

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        """Add the block's operations on ``x`` to ``builder`` and return their result."""
        return x

    def kept_per_token(self) -> tuple[CachedTokens, ...]:
        """Keys, values and latents that it keeps of each token."""
        return ()

    def attended(self) -> tuple[CachedTokens, ...]:
        """Those that a token attends to: what the block keeps, and what an encoder makes and does not keep."""
        return self.kept_per_token()

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        """What a sequence keeps however long it is: states, inputs of convolutions, what was made of a source."""
        return ()

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """Keys, values and states that a sequence of ``length`` tokens keeps between steps."""
        return (*(each.of(length) for each in self.kept_per_token()), *self.kept_per_sequence())

    def kv_per_token(self) -> float:
        """Elements of keys and values that one more token adds while no window is full."""
        found: float = sum(exact_div(kept.each, kept.rate) for kept in self.kept_per_token() if not kept.chooses)
        return found

    def active(self) -> int:
        """Parameters that one token uses."""
        return sum(weight.elements for weight in self.weights())

    def parts(self) -> tuple[Block, ...]:
        """The blocks that stand in it, where it holds others; else itself."""
        return (self,)


@dataclass(frozen=True, slots=True)
class RecordedBlock(Block):
    """A block whose weights and states are those that its own run names: each is said once."""

    def weights(self) -> tuple[Weight, ...]:
        return _recorded(self)[0]

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return _recorded(self)[1]


@lru_cache(4096)
def _recorded(block: Any) -> tuple[tuple[Weight, ...], tuple[Cached, ...]]:
    """The weights and the states that a block names as it runs one token; every layout of a model asks for them."""
    widths = (getattr(block, "inputs", None), getattr(block, "width", None), 1)
    x = Tensor("x", (1, next(width for width in widths if isinstance(width, int))), "bf16")
    builder = OperationBuilder(ForwardPass(1, 1), lambda path, weight: Storage("bf16"), "", 1, x, records=True)
    block.run(builder, x)
    # the last one first: the state of a recurrence before the inputs of its convolution
    states = tuple(Cached(name, size, "state", dtype) for name, size, dtype in reversed(builder.kept_states))
    return tuple(builder.weights.values()), states


class BatchShare(NamedTuple):
    """The part of a step's sequences that one chip works on.

    ``copies`` of the model share nothing; ``sharing`` copies inside each share experts; ``context`` chips share every
    sequence; ``turns`` micro-batches run one after the other. A batch that the copies do not divide leaves some with
    one sequence more: those are counted. Micro-batches are equal; fractions of sequences add up. Where they ``cut``
    sequences, copies that share experts have equal parts.
    """

    copies: int = 1
    sharing: int = 1
    context: int = 1
    turns: Size = 1
    cut: bool = False

    def group(self, batch: Size) -> Size:
        """Sequences of all the copies that share experts."""
        return batch if self.copies == 1 else ceil_div(batch, self.copies)

    def local(self, group: Size) -> Size:
        """Sequences of a ``group`` that one copy works on."""
        return group if self.sharing == 1 else ceil_div(group, self.sharing)

    def turn(self, group: Size) -> tuple[Size, Size]:
        """Sequences of one micro-batch of a ``group``: of all its copies, and that one copy works on."""
        each, own = exact_div(group, self.turns), exact_div(self.local(group), self.turns)
        if self.sharing == 1 or is_one(self.turns):
            return each, own
        # of fewer than there are copies some have one, others none
        return each, exact_div(each, self.sharing) if self.cut else maximum(own, 1)


#: The share of a chip that runs the whole model alone.
WHOLE_BATCH = BatchShare()


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its blocks in order. Equal layers cost the same. ``memory`` is where its weights lie: main or host.

    ``shared`` are modules whose weights other layers use too, each with the name of these weights; an empty module is
    the whole layer. Each layer computes with them; whoever has some of the layers holds the weights once.
    """

    blocks: tuple[Block, ...]
    memory: str = "main"
    shared: tuple[tuple[str, str], ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @once
    def _hash(self) -> int:
        return hash((self.blocks, self.memory, self.shared))

    @property
    def parameters(self) -> int:
        """Parameters of the layer."""
        return block_parameters(self.blocks)

    def shared_as(self, path: str) -> str:
        """The name of the shared weights that a module of the layer is of; empty where they are the layer's own.

        >>> layer = Layer((), shared=(("mlp", "block 0"),))
        >>> layer.shared_as("mlp.up_proj"), layer.shared_as("mlp_adapter.up_proj")
        ('block 0', '')
        """
        return next((n for module, n in self.shared if not module or f"{path}.".startswith(f"{module}.")), "")

    @once
    def active(self) -> int:
        """Parameters that one token uses."""
        return sum(block.active() for block in self.blocks)

    @kept
    def weights(self) -> tuple[tuple[Block, Weight], ...]:
        """Every parameter tensor, named by its path in the layer, with the block that it is of."""
        return tuple(
            (part, weight._replace(name=join_path(part.name, weight.name)))
            for block in self.blocks
            for part in block.parts()
            for weight in part.weights()
        )


class HeldWeight(NamedTuple):
    """A parameter tensor that layers hold: its block, the layers with one of their own, and the memory it lies in.

    Weights that layers share are held once, by the first of them, under the name ``shared``.
    """

    block: Block
    weight: Weight
    layers: tuple[int, ...]
    memory: str
    shared: str


def shared_said(model: Model) -> list[str]:
    """A sentence about weights that several layers use."""
    sets = [{name for _, name in layer.shared} for layer in model.layers if layer.shared]
    many = len(set().union(*sets))
    which = "one set" if many == 1 else f"{many} sets"
    once = "in memory once, and the floor reads it once a step"
    return [f"{len(sets)} layers use {which} of weights: each is {once}"] if sets else []


def block_parameters(blocks: Iterable[Block]) -> int:
    """Parameters of blocks."""
    return sum(weight.elements for block in blocks for weight in block.weights())


#: Models of which the groups of layers are remembered: a search asks for those of a few again and again.
KEPT = 64


#: How many fields of a model have no default.
_REQUIRED = 6


@dataclass(frozen=True, slots=True, eq=False)
class Model(Answer):
    """A language model, read from its configuration.

    Attributes
        ``name``         the name it was loaded under
        ``family``       the ``model_type`` it was read by
        ``width``        size of the hidden state
        ``vocabulary``   rows of the embedding table and of the output head; ``splits`` chips have so many each
        ``layers``       the layers in order
        ``before``       blocks between the gather and the first layer (further tables, a norm)
        ``after``        blocks after the last layer, for every token
        ``final``        blocks only for tokens whose output is wanted (BERT's pooler)
        ``head``         whether there is an output head over the vocabulary; ``tied`` to the embedding table or not;
                         ``head_bias`` says that it adds one number for each word
        ``extra``        layers that predict further tokens (MTP); counted apart, as no plain step runs them
        ``dtype``        format of the checkpoint; ``quantisation``: exceptions, by its quantization_config
        ``context``      the longest sequence the configuration allows, where it says
        ``gaps``         parts of the configuration that are not modelled, one sentence each
        ``prefix``       start of module paths in the checkpoint
        ``first``        number of the first layer in the whole model, where this is a stage of a pipeline
        ``receives``     width of the hidden state from the stage before; 0: the model gathers embeddings itself
        ``share``        the part of a step's sequences that is this chip's, where several have copies of the model
        ``stage_end``    blocks after the last layer of a stage, for every token: the sends to the next stage
        ``vision``       the tower that makes tokens of images, where there is one and it is modelled
        ``adapters``     the adapters that are served beside it, in the format of activations
        ``kv_block``     tokens of a block of keys and values, of which each sequence takes whole ones
        ``kv_memory``    where keys, values and states of sequences lie: main or host
    """

    name: str
    family: str
    width: int
    vocabulary: int
    layers: tuple[Layer, ...]
    dtype: str
    before: tuple[Block, ...] = ()
    after: tuple[Block, ...] = ()
    final: tuple[Block, ...] = ()
    head: bool = True
    tied: bool = False
    head_bias: bool = False
    causal: bool = True
    extra: tuple[Layer, ...] = ()
    extra_blocks: tuple[Block, ...] = ()
    quantisation: Quantisation | None = None
    context: int | None = None
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    prefix: str = "model."
    embedding_name: str = "embed_tokens"
    head_name: str = "lm_head"
    source: str = ""
    first: int = 0
    receives: int = 0
    share: BatchShare = WHOLE_BATCH
    stage_end: tuple[Block, ...] = ()
    vision: Vision | None = None
    adapters: ServedAdapters | None = None
    kv_block: int = 1
    kv_memory: str = "main"
    splits: int = 1

    def __new__(cls, *given: Any, **named: Any) -> Any:
        """Refuse a call by other names than those of its fields, which a reader of configurations fills."""
        if any(name not in _FIELDS for name in named) or 0 < len(given) + len(named) < _REQUIRED:
            hint = "roofline.model({'model_type': 'llama', 'hidden_size': 4096, …}) reads the fields of a config.json"
            raise InputError("a Model is made by reading a configuration, not by its sizes", hint=hint)
        return object.__new__(cls)

    @property
    def in_outline(self) -> bool:
        """Whether all that is known is a number of parameters, and of keys and values a token."""
        return self.family == "outline"

    @property
    def embeds(self) -> bool:
        """Whether it gathers its tokens' embeddings, as a whole model and the first stage of a pipeline do."""
        return not self.receives

    @property
    def hidden(self) -> int:
        """Width of the hidden state between layers: the embedding's, or that of a matrix which stands behind it."""
        return next((wide for block in reversed(self.before) if (wide := getattr(block, "outputs", 0))), self.width)

    @property
    def parameters(self) -> int:
        """Parameters of the language model, without prediction layers (``mtp_parameters``) and ``vision``'s.

        >>> from roofline.models import load
        >>> load("llama-2-7b").parameters
        6738415616
        """
        return sum(self.parameters_by_module().values())

    @property
    def sparsity(self) -> float | None:
        """Experts for each that a token goes to, E ÷ k, of the first layer that has any; None where none has.

        >>> from roofline.models import load
        >>> load("deepseek-v3").sparsity, load("llama-2-7b").sparsity
        (32.0, None)
        """
        routed = (each for each in self.layer_blocks if hasattr(each, "top_k") and hasattr(each, "count"))
        return next((each.count / each.top_k for each in routed), None)

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses: its routed experts, its rows of further tables, and both ends whole.

        A tied head is the embedding table, counted once.

        >>> from roofline.models import load
        >>> round(load("mixtral-8x7b").active_parameters / 1e9, 2)
        12.88
        """
        head = self.vocabulary * (self.width + self.head_bias) if self.head else 0
        table = 0 if self.tied or not self.embeds else self.vocabulary * self.width
        seen: set[tuple[str, str]] = set()
        again = 0
        for layer in self.layers if any(layer.shared for layer, _ in self.layer_counts()) else ():
            for block in layer.blocks:
                named = {(layer.shared_as(w.name), w.name): w.elements for _, w in Layer((block,)).weights()}
                known = sum(elements for key, elements in named.items() if key in seen)
                again += min(known, block.active())
                seen |= {key for key in named if key[0] and block.active()}
        once = sum(block.active() for block in (*self.before, *self.after, *self.final))
        return once + sum(layer.active for layer in self.layers) + head + table - again

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Every block that runs, in order."""
        return (*self.before, *(block for layer in self.layers for block in layer.blocks), *self.after, *self.final)

    @property
    def layer_blocks(self) -> tuple[Block, ...]:
        """The blocks of each kind of layer, those of branches too."""
        return tuple(part for layer, _ in self.layer_counts() for block in layer.blocks for part in block.parts())

    @property
    def tables(self) -> tuple[Weight, ...]:
        """The embedding table, the head where it has one of its own, and the head's bias."""
        shape, has_bias = (self.vocabulary, self.width), self.head and self.head_bias
        embedding = (Weight(self.embedding_name, shape, "embedding"),) if self.embeds else ()
        head = (Weight(self.head_name, shape, "head"),) if self.head and not self.tied else ()
        return (*embedding, *head, *((Weight(f"{self.head_name}.bias", shape[:1], "bias"),) if has_bias else ()))

    @property
    def mtp_parameters(self) -> int:
        """Parameters of the layers that predict further tokens (multi-token prediction), in their usual form."""
        return sum(layer.parameters for layer in self.extra) + block_parameters(self.extra_blocks)

    def parameters_by_module(self) -> dict[str, int]:
        """Parameters by module, summed over layers: ``layers.self_attn.q_proj`` and so on.

        >>> from roofline.models import load
        >>> load("llama-2-7b").parameters_by_module()["layers.self_attn.q_proj"] == 32 * 4096 * 4096
        True
        """
        counts = {table.name: table.elements for table in self.tables if table.kind == "embedding"}
        before, after = (Layer(blocks).weights() for blocks in (self.before, (*self.after, *self.final)))
        held = [(join_path("layers", each.weight.name), each.weight, len(each.layers)) for each in self.layer_weights()]
        beside = [[(weight.name, weight, 1) for _, weight in weights] for weights in (before, after)]
        for path, weight, times in (*beside[0], *held, *beside[1]):
            counts[path] = counts.get(path, 0) + times * weight.elements
        outer = f"{self.head_name.rpartition('.')[0]}."
        return counts | {w.name.removeprefix(outer): w.elements for w in self.tables if w.kind != "embedding"}

    def storages(self, weights: str | None = None, compute: str | None = None) -> Callable[[str], StorageOf]:
        """Storage of each weight: the format asked for, else the checkpoint's quantisation, else the model's own.

        Weights that the checkpoint has in the format asked for stay as they are, and so do those that it keeps out.
        """
        return _storages(self.prefix, self.dtype, self.quantisation, weights, compute)

    def layer_groups(
        self, weights: str | None = None, compute: str | None = None
    ) -> tuple[tuple[str, tuple[int, ...], Layer], ...]:
        """Groups of equal layers, storage included: the name of the group, the layers' numbers, and one layer."""
        section = self.quantisation
        by_place = section is not None and (weights is None or section.has(dtypes.get(weights).name))
        formats = (self.prefix, self.dtype, Same(section), weights, compute) if by_place else ()
        return _layer_groups(Same(self.layers), self.first, formats)

    def layer_weights(self, weights: str | None = None, among: Sequence[int] | None = None) -> Iterator[HeldWeight]:
        """Every parameter tensor that layers hold, or those ``among`` them; equal ones together, shared ones once."""
        seen: set[tuple[str, str]] = set()
        for _, every, layer in self.layer_groups(weights):
            numbers = every if among is None else tuple(number for number in every if number in among)
            for block, weight in layer.weights() if numbers else ():
                shared = layer.shared_as(weight.name)
                if not shared:
                    yield HeldWeight(block, weight, numbers, layer.memory, "")
                elif (shared, weight.name) not in seen:
                    seen.add((shared, weight.name))
                    yield HeldWeight(block, weight, numbers[:1], "main", shared)

    @lru_cache(maxsize=KEPT)  # noqa: B019
    def weight_bytes(self, weights: str | None = None) -> int:
        """Bytes of all parameters in the formats of the checkpoint, or with the matrices in ``weights``.

        The vision tower's keep their own formats; adapters that are served are included, prediction layers and layers
        in the host's memory are not. See :func:`roofline.models.prefill` for ``weights``.

        >>> from roofline.models import load
        >>> load("llama-2-7b").weight_bytes(), load("llama-2-7b").cache_bytes(2048, dtype="bf16")
        (13476831232, 1073741824)
        """
        return self._stored_bytes(weights, "main")

    def host_bytes(self, weights: str | None = None) -> int:
        """Bytes of the weights that stay in the host's memory, those of layers that were put there."""
        return self._stored_bytes(weights, "host")

    @property
    def reads_host(self) -> bool:
        """Whether the weights of some layers, or keys and values, stay in the host's memory."""
        return self.kv_memory == "host" or any(layer.memory == "host" for layer, _ in self.layer_counts())

    def _stored_bytes(self, weights: str | None, memory: str) -> int:
        of = self.storages(weights)

        def stored(weight: Weight, place: str = "") -> Size:
            return of(place)(weight.name, weight).nbytes(weight.shape)

        held = (each for each in self.layer_weights(weights) if each.memory == memory)
        total = sum(len(each.layers) * stored(each.weight, f"layers.{each.layers[0]}") for each in held)
        if memory != "main":
            return int(total)
        outside = (weight for _, weight in Layer((*self.before, *self.after, *self.final)).weights())
        total = total + sum(map(stored, (*self.tables, *outside)))
        return int(total + self._adapter_bytes()) + (0 if self.vision is None else self.vision.weight_bytes())

    def _adapter_bytes(self) -> Size:
        """Bytes of the adapters that are served: of each, two matrices beside every one of a layer but experts'."""
        served = self.adapters
        if served is None:
            return 0
        count = sum(len(each.layers) * served.elements(each.weight) for each in self.layer_weights())
        return dtypes.get(self.dtype).nbytes(count)

    @lru_cache(maxsize=KEPT)  # noqa: B019
    def layer_counts(self) -> tuple[tuple[Layer, int], ...]:
        """Layers that are one object, and how many they are."""
        counts = Counter(map(id, self.layers))
        return tuple((layer, counts[key]) for key, layer in {id(layer): layer for layer in self.layers}.items())

    def cache_bytes(
        self, length: Size, *, batch: Size = 1, dtype: str | None = None, activations: str | None = None
    ) -> Size:
        """Bytes that ``batch`` sequences of ``length`` tokens keep: keys and values (in ``dtype``) and states.

        Where neither says the checkpoint nor ``dtype`` how keys and values are stored, they are as ``activations``.
        """
        _check_amount("length", length)
        _check_amount("batch", batch)
        kv = self._cache_format(dtype, activations)
        length = length if self.kv_block == 1 else ceil_div(length, self.kv_block) * self.kv_block
        total: Size = 0
        for layer, count in self.layer_counts():
            for block in layer.blocks:
                for part in block.cache(length):
                    is_kv = part.role == "kv" and (dtype or not part.dtype)
                    format_ = kv if is_kv else dtypes.get(part.dtype or self.dtype)
                    total = total + count * format_.nbytes(part.elements)
        sequences = self.share.local(self.share.group(batch))
        return total * (sequences if self.share.context == 1 else exact_div(sequences, self.share.context))

    def kv_bytes_per_token(self, dtype: str | None = None) -> float:
        """Bytes of keys and values that one more token of one sequence adds while no attention window is full.

        States do not grow and are not counted.

        >>> from roofline.models import load
        >>> load("llama-2-7b").kv_bytes_per_token("bf16")
        524288
        """
        kv, bits = self._cache_format(dtype), 0.0
        for layer, count in self.layer_counts():
            for part in (part for block in layer.blocks for part in block.kept_per_token()):
                format_ = kv if dtype or not part.dtype else dtypes.get(part.dtype)
                bits += count * part.each * format_.bits_per_element / part.rate
        found = bits / 8
        return int(found) if found == int(found) else found

    def state_bytes(self) -> Size:
        """Bytes of the states of one sequence, which do not grow with it.

        >>> from roofline.models import load
        >>> load("llama-2-7b").state_bytes()
        0
        """
        blocks = ((count, block) for layer, count in self.layer_counts() for block in layer.blocks)
        kept = ((count, part) for count, block in blocks for part in block.kept_per_sequence() if part.role != "kv")
        return sum(count * dtypes.get(part.dtype or self.dtype).nbytes(part.elements) for count, part in kept)

    @lru_cache(maxsize=KEPT)  # noqa: B019
    def in_format(self, activations: str) -> Model:
        """The model with an fp16 checkpoint converted to bf16, or the other way round, to match ``activations``.

        Only formats of equal width are converted; what is quantised stays.
        """
        same_width = dtypes.get(self.dtype).bits == dtypes.get(activations).bits
        return replace(self, dtype=activations) if same_width and activations != self.dtype else self

    @property
    def usual_length(self) -> int:
        """The tokens of a sequence where nobody says: 4096, or the most that the model was trained on."""
        return min(4096, self.context or 4096)

    def with_layers(self, changed: Callable[[Layer], Layer]) -> Model:
        """The model with each layer changed, equal ones once; the model itself where nothing changes."""
        made: dict[Layer, Layer] = {}
        for layer, _ in self.layer_counts():
            if layer not in made:
                made[layer] = changed(layer)
        if all(old is new for old, new in made.items()):
            return self
        found = {id(layer): made[layer] for layer, _ in self.layer_counts()}
        return replace(self, layers=tuple(found[id(layer)] for layer in self.layers))

    def with_blocks(self, changed: Callable[[Block], Block | tuple[Block, ...]]) -> Model:
        """The model with each block of its layers changed, or several blocks in its place."""

        def layer(before: Layer) -> Layer:
            made = map(changed, before.blocks)
            blocks = tuple(block for each in made for block in (each if isinstance(each, tuple) else (each,)))
            return before if blocks == before.blocks else replace(before, blocks=blocks)

        return self.with_layers(layer)

    @property
    def checkpoint(self) -> str:
        """The published name that the configuration is from, where it is not the model's; else nothing.

        >>> from roofline.models import load
        >>> load("llama-3-8b").checkpoint, load("llama-3.1-8b").checkpoint
        ('Meta-Llama-3.1-8B', '')
        """
        published = self.source.partition("/blob/")[0].rpartition("/")[2] if "/blob/" in self.source else ""
        own = self.name.rpartition("/")[2].rpartition("--")[2]
        plain, whole = ("".join(filter(str.isalnum, each)).lower() for each in (own, published))
        return "" if plain in whole else published

    @property
    def named(self) -> str:
        """Its name, and what was published under another one."""
        return f"{self.name} ({self.checkpoint})" if self.checkpoint else self.name

    def beyond_training(self, length: Size) -> list[str]:
        """A sentence where sequences are longer than the model was trained on; a floor holds for them all the same.

        Another where its trained length was likely meant, as with 4k, which is 4,000.

        >>> from roofline.models import load
        >>> load("llama-2-7b").beyond_training(5000), load("llama-2-7b").beyond_training(4096)
        (['sequences of 5,000 tokens are longer than the 4,096 that llama-2-7b was trained on'], [])
        >>> load("llama-2-7b").beyond_training(4000)
        ['4,000 tokens, as k is a thousand; the 4,096 that llama-2-7b was trained on are 4Ki']
        """
        _check_amount("length", length)
        if self.context is None or is_symbol(length):
            return []
        longest = int(length.max() if is_array(length) else length)
        thousands, rest = divmod(longest, 1000)  # a decode step adds its own token
        if rest <= 1 and self.context == 1024 * thousands:
            trained = f"the {self.context:,} that {self.named} was trained on are {thousands}Ki"
            return [f"{1000 * thousands:,} tokens, as k is a thousand; {trained}"]
        if longest <= self.context:
            return []
        trained = f"the {self.context:,} that {self.named} was trained on"
        return [f"sequences of {longest:,} tokens are longer than {trained}"]

    def _cache_format(self, dtype: str | None, activations: str | None = None) -> dtypes.DType:
        stored = self.quantisation.kv if self.quantisation else None
        return dtypes.get(dtype or stored or activations or self.dtype)

    def sections(self) -> Iterator[Section]:
        """Parameters, FLOPs, memory and bytes of one prefill, keys and values of a token; its parts."""
        yield from capability("Model.sections")(self)

    def to_dict(self) -> dict[str, Any]:
        """The model in the JSON of an answer: name, family, parameters of each kind, layers, source."""
        return {
            **attributes(self, "name", "family", "parameters", "active_parameters", "mtp_parameters"),
            "vision_parameters": None if self.vision is None else self.vision.parameters_by_part(),
            "layers": len(self.layers),
            "source": self.source or None,
        }

    def __repr__(self) -> str:
        return f"Model({self.name}: {self.parameters:,} parameters, {len(self.layers)} layers)"


#: What the fields of a model are called.
_FIELDS = frozenset(each.name for each in fields(Model))


def _storages(
    prefix: str, dtype: str, quantisation: Quantisation | None, weights: str | None, compute: str | None
) -> Callable[[str], StorageOf]:
    chosen = None if weights is None else Storage(dtypes.get(weights).name)
    arithmetic = "" if compute is None else dtypes.arithmetic_name(compute)
    plain = Storage(chosen.dtype if chosen and converts_all(chosen.dtype) else dtype, compute=arithmetic)
    own = quantisation if quantisation and (chosen is None or quantisation.has(chosen.dtype)) else None

    def within(place: str) -> StorageOf:
        before = f"{prefix}{place}." if place else prefix

        def of(path: str, weight: Weight) -> Storage:
            if weight.dtype:
                return Storage(weight.dtype)
            found = own.storage(path if weight.kind == "head" else before + path, weight.kind) if own else None
            if chosen is not None and weight.kind in ("linear", "expert"):
                found = chosen if own is None or (found and not lies_in(found, chosen.dtype)) else found
            if found is None:
                return plain
            return found.computing(arithmetic) if arithmetic else found

        return of

    return within


def _check_amount(name: str, amount: Size) -> None:
    """Refuse a number of tokens or sequences that is none."""
    ends = (float(amount.min()), float(amount.max())) if is_array(amount) and amount.size else (amount,)
    if not (is_symbol(amount) or all(is_number(each) and 0 <= each < math.inf for each in ends)):
        what = "tokens" if name == "length" else "sequences"
        raise SizeError(f"{name} is {quoted(amount)}", hint=f"a number of {what}, an array or a symbol")


def converts_all(weights: str) -> bool:
    """Whether a format of weights is that of all of them, embedding and head too; narrower ones are of matrices.

    >>> converts_all("bf16"), converts_all("fp8"), converts_all("int4")
    (True, False, False)
    """
    found = dtypes.get(weights)
    return found.family == "float" and found.bits >= 16


@lru_cache(maxsize=256)
def _layer_groups(
    layers: Same[tuple[Layer, ...]], first: int, formats: tuple[Any, ...]
) -> tuple[tuple[str, tuple[int, ...], Layer], ...]:
    """Groups of equal layers; ``formats`` are the arguments of the storage of weights where it depends on the layer."""
    found: dict[Any, list[int]] = {}
    # comparing layers is slow, and most are one object: each object is looked at once
    alike: dict[Layer, Layer] = {}
    same: dict[int, Layer] = {}
    inside: dict[int, tuple[tuple[str, str, str], ...]] = {}
    for number, layer in enumerate(layers.value, first):
        if id(layer) not in same:
            same[id(layer)] = alike.setdefault(layer, layer)
        layer = same[id(layer)]
        if not formats:
            found.setdefault((id(layer), ()), []).append(number)
            continue
        if id(layer) not in inside:
            inside[id(layer)] = tuple((weight.name, weight.kind, weight.dtype) for _, weight in layer.weights())
        found.setdefault((id(layer), _stored(formats, number, inside[id(layer)])), []).append(number)
    return tuple((f"layers.{layer_ranges(numbers)}", tuple(numbers), same[key[0]]) for key, numbers in found.items())


@lru_cache(maxsize=4096)
def _stored(formats: tuple[Any, ...], number: int, weights: tuple[tuple[str, str, str], ...]) -> tuple[Storage, ...]:
    """The storage of a layer's weights by name, kind and format; every layout of a model asks for that of each."""
    prefix, dtype, quantisation, chosen, compute = formats
    of = _storages(prefix, dtype, quantisation.value, chosen, compute)(f"layers.{number}")
    return tuple(of(name, Weight(name, (), kind, own)) for name, kind, own in weights)


def layer_ranges(numbers: Sequence[int]) -> str:
    """Layer numbers in a short form.

    >>> layer_ranges([0, 1, 2, 5]), layer_ranges([1, 3, 5, 7]), layer_ranges([0, 1, 4, 5, 8, 9, 12, 13])
    ('0-2,5', '1-7:2', '0-1,4-5…12-13')
    """
    if len(numbers) > 2:
        step = numbers[1] - numbers[0]
        if step > 1 and all(b - a == step for a, b in pairwise(numbers)):
            return f"{numbers[0]}-{numbers[-1]}:{step}"
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in parts]
    return ",".join(texts) if len(texts) < 4 else f"{','.join(texts[:2])}…{texts[-1]}"


def numbers_in(ranges: str) -> list[int]:
    """The layer numbers of a short form that leaves none out.

    >>> numbers_in("0-2,5"), numbers_in("1-7:2")
    ([0, 1, 2, 5], [1, 3, 5, 7])
    """
    found: list[int] = []
    for part in ranges.split(","):
        ends, _, step = part.partition(":")
        first, _, last = ends.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


#: Height and width in pixels.
ImageSize = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Vision:
    """A tower and its projector, each described as a model without embeddings or head.

    ``patch`` is the side of a patch in pixels; ``merge`` by ``merge`` of them become one token; ``fit`` says how an
    image becomes a grid of them (:data:`FITS`); ``most`` is the most tokens of an image, where it is made to fit;
    ``usual`` is the size of an image where none is given. ``both_ways`` says that the language model lets tokens of an
    image see later ones of it.
    """

    tower: Model
    projector: Model
    patch: int
    merge: int
    fit: str
    usual: ImageSize
    most: int | None = None
    both_ways: bool = False

    @property
    def parameters(self) -> int:
        """Parameters of tower and projector."""
        return self.tower.parameters + self.projector.parameters

    def parameters_by_part(self) -> dict[str, int]:
        """Parameters of the tower and of the projector apart."""
        return {"vision_tower": self.tower.parameters, "projector": self.projector.parameters}

    def parameters_sentence(self) -> str:
        """Parameters apart, in a sentence."""
        return (
            f"beside the language part a vision tower of {self.tower.parameters:,} parameters and a projector of "
            f"{self.projector.parameters:,}, in memory and not run: the prompt holds no images"
        )

    def grid(self, size: ImageSize | None = None) -> tuple[int, int]:
        """Patches of an image: rows and columns."""
        height, width = self.usual if size is None else size
        for name, side in (("height", height), ("width", width)):
            check(f"image {name}", side)
        rows, columns = FITS[self.fit](self, height, width)
        return rows * self.merge, columns * self.merge

    def tokens(self, size: ImageSize | None = None) -> int:
        """Tokens an image becomes."""
        rows, columns = self.grid(size)
        return rows * columns // (self.merge * self.merge)

    def in_formats(self, dtype: str, quantisation: Quantisation | None) -> Vision:
        """The same with its weights in the format the checkpoint has them in."""
        parts = (self.tower, self.projector)
        tower, projector = (replace(one, dtype=one.dtype or dtype, quantisation=quantisation) for one in parts)
        return replace(self, tower=tower, projector=projector)

    def weight_bytes(self) -> int:
        """Bytes of all its parameters."""
        return self.tower.weight_bytes() + self.projector.weight_bytes()

    def gaps(self, images: Size) -> tuple[str, ...]:
        """Costs of images in the prompt that are not counted."""
        if is_zero(images) or not self.both_ways:
            return ()
        return ("tokens of an image see later ones of it in some layers: these pairs are not counted",)

    def describe(self, images: Size, size: ImageSize | None, split: bool = False) -> str:
        """A sentence about the images that are run; ``split``: several chips share the model."""
        if is_zero(images):
            return "no images in the prompt: the vision tower does not run; its weights are in memory"
        rows, columns = self.grid(size)
        count = "images in the prompt" if is_array(images) or is_symbol(images) else f"{images} in each prompt"
        return (
            f"images of {rows * self.patch}x{columns * self.patch} pixels, {count}: {rows * columns} patches and "
            f"{self.tokens(size)} of the prompt's tokens each; the vision tower keeps the checkpoint's formats"
            + (", and chips that split the language part each run all of it" if split else "")
        )

    def __repr__(self) -> str:
        return f"Vision(tower {self.tower.parameters:,} parameters, projector {self.projector.parameters:,})"


def _nearest(vision: Vision, height: int, width: int) -> tuple[int, int]:
    """Each side to the nearest multiple of a token's side, one at least (half to even)."""
    side = vision.patch * vision.merge
    return max(round(height / side), 1), max(round(width / side), 1)


def _padded(vision: Vision, height: int, width: int) -> tuple[int, int]:
    """Each side up to a multiple of a token's side."""
    side = vision.patch * vision.merge
    return -(-height // side), -(-width // side)


def _budget(vision: Vision, height: int, width: int) -> tuple[int, int]:
    """The largest of nearly the same shape that has at most ``most`` tokens.

    Both sides are scaled by f = sqrt(most·side²/(height·width)) and cut to whole tokens.
    """
    most = vision.most or 1
    factor = math.sqrt(most / (height * width))
    rows, columns = math.floor(factor * height), math.floor(factor * width)
    if not rows:
        return 1, min(width // height, most)
    return (rows, columns) if columns else (min(height // width, most), 1)


#: How an image becomes a grid of tokens, by name.
FITS: dict[str, Callable[[Vision, int, int], tuple[int, int]]] = {
    "nearest": _nearest,
    "padded": _padded,
    "budget": _budget,
}
