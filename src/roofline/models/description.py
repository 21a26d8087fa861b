"""What a model is, whatever its family: layers of blocks, each with its weights, its operations and its cache.

A family's reader (:mod:`roofline.models.families`) turns a ``config.json`` into a :class:`Model`; counts, operations
and memory all follow from it.

>>> Weight("up_proj", (11008, 4096)).elements
45088768
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from roofline.sizes import Size, ceil_div

if TYPE_CHECKING:
    from roofline.models.quantisation import Quantisation
    from roofline.models.trace import Trace
    from roofline.models.vision import Vision
    from roofline.work import Tensor


class Weight(NamedTuple):
    """One parameter tensor of a block: its module's name, its shape as stored, and what may be done to it.

    ``kind`` is linear (a matrix a quantiser converts), expert (one matrix for each expert, the first dimension),
    router, head, embedding, norm, bias, or other (never converted). ``dtype`` fixes a format (``fp32``) that neither
    the model's dtype nor a quantiser changes.
    """

    name: str
    shape: tuple[int, ...]
    kind: str = "linear"
    dtype: str = ""

    @property
    def elements(self) -> int:
        """Parameters it holds."""
        count = 1
        for size in self.shape:
            count *= size
        return count


class Cached(NamedTuple):
    """What one sequence keeps between steps: elements, and whether they are keys and values (kv) or a state.

    ``dtype`` fixes the format of a state; keys and values take the one asked for.
    """

    name: str
    elements: Size
    role: str = "kv"
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a layer. ``name`` is its module's name in the checkpoint."""

    name: str

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        return ()

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations to ``trace`` and return the tensor they make of ``x``."""
        return x

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """What a sequence of ``length`` tokens keeps between steps."""
        return ()

    def kv_per_token(self) -> float:
        """Elements of keys and values that one more token adds while no window is full."""
        return 0

    def active(self) -> int:
        """Parameters that one token uses."""
        return sum(weight.elements for weight in self.weights())


class Share(NamedTuple):
    """What part of a step's sequences one chip has a hand in.

    ``copies`` of the model share nothing, ``sharing`` copies inside each share experts; ``context`` chips share every
    sequence; ``turns`` micro-batches take turns. A batch that the copies do not divide leaves some with one sequence
    more: those are counted. Micro-batches are alike, parts of sequences added up.
    """

    copies: int = 1
    sharing: int = 1
    context: int = 1
    turns: Size = 1

    def group(self, batch: Size) -> Size:
        """Sequences of all the copies that share experts."""
        return batch if self.copies == 1 else ceil_div(batch, self.copies)

    def local(self, group: Size) -> Size:
        """Of them, those of one copy."""
        return group if self.sharing == 1 else ceil_div(group, self.sharing)

    def turn(self, sequences: Size) -> Size:
        """Of them, those of one micro-batch."""
        if isinstance(self.turns, int) and isinstance(sequences, int) and sequences % self.turns == 0:
            return sequences // self.turns
        return sequences / self.turns


#: The share of a chip that runs the whole model alone.
ALONE = Share()


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its blocks in order. Equal layers cost the same."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A language model, read from its configuration.

    Attributes
        ``name``         what it was loaded as
        ``family``       the ``model_type`` it was read by
        ``width``        size of the hidden state
        ``vocabulary``   rows of the embedding table and of the output head
        ``layers``       the layers in order
        ``before``       blocks between the gather and the first layer (further tables, a norm)
        ``after``        blocks after the last layer, for every token
        ``final``        blocks only for tokens whose output is wanted (BERT's pooler)
        ``head``         whether there is an output head over the vocabulary; ``tied`` to the embedding table or not;
                         ``head_bias`` says that it adds one number for each word
        ``extra``        layers that predict further tokens (MTP); counted apart, as no plain step runs them
        ``dtype``        format the checkpoint is in; ``quantisation`` what its section changes
        ``context``      the longest sequence the configuration allows, where it says
        ``gaps``         what the configuration holds that is not modelled, one sentence each
        ``prefix``       what module paths in the checkpoint start with
        ``first``        number of the first layer in the whole model, where this is a stage of a pipeline
        ``receives``     width of the hidden state that an earlier stage hands on; 0: it gathers embeddings itself
        ``share``        the part of a step's sequences that is this chip's, where several have copies of the model
        ``hands``        blocks after the last layer that every token goes through: what a stage sends on
        ``vision``       the tower that makes tokens of images, where there is one and it is modelled
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
    share: Share = ALONE
    hands: tuple[Block, ...] = ()
    vision: Vision | None = None

    @property
    def embeds(self) -> bool:
        """Whether it gathers its tokens' embeddings, as a whole model and the first stage of a pipeline do."""
        return not self.receives

    @property
    def parameters(self) -> int:
        """Parameters of the language model, without prediction layers (``mtp_parameters``) and ``vision``'s.

        >>> from roofline.models import load
        >>> load("llama-2-7b").parameters
        6738415616
        """
        return sum(self.parameters_by_module().values())

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses: of the routed experts only those it is sent to.

        >>> from roofline.models import load
        >>> round(load("mixtral-8x7b").active_parameters / 1e9, 2)
        12.88
        """
        from roofline.models.parameters import active

        return active(self)

    @property
    def mtp_parameters(self) -> int:
        """Parameters of the layers that predict further tokens (multi-token prediction), in their usual form."""
        from roofline.models.parameters import of_blocks, of_layer

        return sum(map(of_layer, self.extra)) + of_blocks(self.extra_blocks)

    def parameters_by_module(self) -> dict[str, int]:
        """Parameters by module, summed over layers: ``layers.self_attn.q_proj`` and so on.

        >>> from roofline.models import load
        >>> load("llama-2-7b").parameters_by_module()["layers.self_attn.q_proj"] == 32 * 4096 * 4096
        True
        """
        from roofline.models.parameters import by_module

        return by_module(self)

    def kv_bytes_per_token(self, dtype: str | None = None) -> float:
        """Bytes of keys and values that one more token of one sequence adds while no attention window is full.

        >>> from roofline.models import load
        >>> load("llama-2-7b").kv_bytes_per_token("bf16")
        524288
        """
        from roofline.models.memory import kv_bytes_per_token

        return kv_bytes_per_token(self, dtype)

    def weight_bytes(self, weights: str | None = None) -> int:
        """Bytes of all parameters in the formats of the checkpoint, or with the matrices in ``weights``."""
        from roofline.models.memory import weight_bytes

        return weight_bytes(self, weights)

    def to_dict(self) -> dict[str, Any]:
        """What every answer about the model says of it: name, family, parameters of each kind, layers, source."""
        return {
            "name": self.name,
            "family": self.family,
            "parameters": self.parameters,
            "active_parameters": self.active_parameters,
            "mtp_parameters": self.mtp_parameters,
            "vision_parameters": None if self.vision is None else self.vision.parameters_by_part(),
            "layers": len(self.layers),
            "source": self.source or None,
        }

    def __repr__(self) -> str:
        return f"Model({self.name}: {self.parameters:,} parameters, {len(self.layers)} layers)"
