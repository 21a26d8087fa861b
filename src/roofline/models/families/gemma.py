"""Gemma 2, 3, 3n, 4, and the encoder like it: norms around each block, shared keys and values, experts beside MLPs."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.errors import InputError
from roofline.frozen import replace
from roofline.models.blocks import residual
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.feed_forward import MixtureOfExperts, Mlp
from roofline.models.blocks.residual import Norm, ParallelBranches, PerLayerEmbedding, PerLayerInput, ResidualAdd
from roofline.models.description import Block, Layer, Model
from roofline.models.families import family
from roofline.models.families.decoder import Routing, to_each_side
from roofline.models.families.parts import DecoderSizes, activation, build_model, by_layer, layer_types
from roofline.models.fields import Fields

#: Types whose queries and keys are not normalised, and whose layers see a window in turn.
_OLDER = ("gemma2", "vaultgemma")
_AFTER = ("post_attention_layernorm", "post_feedforward_layernorm")
#: An encoder like Gemma 4, without a table of inputs to each layer, whose full layers have values of their own.
_ENCODER = "embedding_gemma2_text"


@family("gemma2", "gemma3_text", "gemma4_text", "gemma4_unified_text", "vaultgemma", _ENCODER)
def read(fields: Fields) -> Model:
    """Read the decoder. The embedding is the output head too unless the configuration says otherwise."""
    if fields.kind == _ENCODER:
        fields = to_each_side(fields.with_values(use_bidirectional_attention="all", vocab_size_per_layer_input=0))
    shape = DecoderSizes(fields)
    width = shape.width
    both = _both_ways(fields)
    each = fields.count("hidden_size_per_layer_input")
    act = activation(fields, "hidden_activation", "hidden_act", default="gelu_pytorch_tanh")
    kinds = layer_types(fields, shape.layers)
    if "layer_types" not in fields:
        every = fields.size("sliding_window_pattern", default=2 if fields.kind in _OLDER else 6)
        kinds = ["full" if (i + 1) % every == 0 else "sliding" for i in range(shape.layers)]
    borrows = _borrowing(fields, kinds)
    hidden, doubled = fields.size("intermediate_size"), fields.flag("use_double_wide_mlp", False)
    experts = _experts(fields, width, act)
    layers = [
        Layer((
            Norm("input_layernorm", width),
            _attention(own, shape, kind, borrowed, any(borrows)),
            Norm("post_attention_layernorm", width),
            ResidualAdd("add_attention"),
            *_feed_forward(
                width, Mlp("mlp", width, hidden * (2 if borrowed and doubled else 1), activation=act), experts
            ),
            Norm("post_feedforward_layernorm", width),
            ResidualAdd("add_feed_forward"),
            *((PerLayerInput("", width, each, act), ResidualAdd("add_per_layer_input")) if each else ()),
        ))
        for kind, borrowed, own in zip(kinds, borrows, by_layer(fields, shape.layers, _OF_FULL), strict=True)
    ]  # fmt: skip
    if fields.kind == "vaultgemma":  # norms before each block alone
        layers = [Layer(tuple(block for block in layer.blocks if block.name not in _AFTER)) for layer in layers]
    before: tuple[Block, ...] = ()
    if each:
        before = (PerLayerEmbedding("", fields.count("vocab_size_per_layer_input"), width, each, shape.layers),)
    inside = fields.count("embedding_dim")
    return build_model(
        fields, shape, layers, tied=True, before=before, notes=_borrowing_notes(borrows), causal=not both,
        head=not both, final=(residual.Linear("embedding_projection", width, inside, bias=False),) if inside else (),
    )  # fmt: skip


#: What ``per_layer_config`` says of full layers, by its names.
_OF_FULL = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}


def _both_ways(fields: Fields) -> bool:
    """Say whether every token sees later ones too, as in encoders made of a Gemma; elsewhere pictures alone may."""
    return fields.get("use_bidirectional_attention") in (True, "all")


def _borrowing(fields: Fields, kinds: Sequence[str]) -> list[bool]:
    """Which layers attend to keys and values that the last layer of their kind before them made."""
    count = fields.count("num_kv_shared_layers")
    first = len(kinds) - count
    if first <= 0 or not set(kinds[first:]) <= set(kinds[:first]):
        wrong = f"num_kv_shared_layers of {fields.name} is {count}, and its other layers leave no keys of every kind"
        raise InputError(wrong, hint="the two contradict each other")
    return [number >= first for number in range(len(kinds))]


def _borrowing_notes(borrows: Sequence[bool]) -> tuple[str, ...]:
    """Say how keys and values that several layers read are counted."""
    if not any(borrows):
        return ()
    first = borrows.index(True)
    return (
        f"layers from {first} on attend to keys and values of earlier ones: the floor reads those once",
        f"a prefill runs all layers on every token; those from {first} on leave no keys, so the last token would do",
    )


def _attention(fields: Fields, shape: DecoderSizes, kind: str, borrowed: bool, lends: bool) -> Attention:
    """Gemma 4's full layers have wider heads, fewer of keys, and values made from the keys' matrix."""
    full = kind == "full"
    head = fields.size("global_head_dim", default=shape.head) if full else shape.head
    encodes, equal = fields.kind == _ENCODER, full and fields.flag("attention_k_eq_v", False)
    latest = encodes or fields.kind.startswith("gemma4")
    # else heads of full layers count only where values are made from the keys' matrix
    fields.ignore("num_global_key_value_heads")
    own = equal or (full and encodes)
    kv_heads = fields.size("num_global_key_value_heads", default=shape.kv_heads) if own else shape.kv_heads
    parameters = fields.section("rope_parameters")
    turned = parameters.section("full_attention") if parameters and latest and full else None
    share = (turned.fraction("partial_rotary_factor") if turned else None) or 1
    bias = fields.flag("attention_bias", False)
    return Attention(
        "self_attn", shape.width, shape.heads, kv_heads, head, head, bias=bias, out_bias=bias,
        norm=None if fields.kind in _OLDER else "head", value_norm=latest, rotary=int(head * share),
        window=None if full else fields.size("sliding_window"), shared_kv=equal, causal=not _both_ways(fields),
        shares_kv_as=kind if lends and not borrowed else "", reads_kv_of=kind if borrowed else "",
    )  # fmt: skip


_ROUTING = Routing(
    module="", experts=("num_experts",), top_k=("top_k_experts",), shared_count=0, names=("router.proj", "experts", ""),
    when=lambda fields: fields.flag("enable_moe_block", False),
)  # fmt: skip


def _experts(fields: Fields, width: int, act: str) -> MixtureOfExperts | None:
    found = _ROUTING.read(fields, width, act)
    if found is None:
        return None
    return replace(found, router_scales=(("router.scale", width), ("router.per_expert_scale", found.count)))


def _feed_forward(width: int, mlp: Mlp, experts: MixtureOfExperts | None) -> tuple[Block, ...]:
    """The dense MLP, and the experts beside it, each between norms of its own."""
    if experts is None:
        return Norm("pre_feedforward_layernorm", width), mlp
    dense = (Norm("pre_feedforward_layernorm", width), mlp, Norm("post_feedforward_layernorm_1", width))
    routed = (Norm("pre_feedforward_layernorm_2", width), experts, Norm("post_feedforward_layernorm_2", width))
    return (ParallelBranches("", (dense, routed)),)


@family("gemma3n_text")
def read_3n(fields: Fields) -> Model:
    """Read the language part; widths of the MLP may be listed by layer."""
    shape = DecoderSizes(fields)
    width, each, streams = shape.width, fields.size("hidden_size_per_layer_input"), fields.size("altup_num_inputs")
    act = activation(fields, "hidden_activation", default="gelu_pytorch_tanh")
    kinds = layer_types(fields, shape.layers, usual=lambda number: "sliding" if (number + 1) % 5 else "full")
    borrows = _borrowing(fields, kinds)
    bias = fields.flag("attention_bias", False)

    def layer(kind: str, borrowed: bool, hidden: int, cut: bool) -> Layer:
        attention = Attention(
            "self_attn", width, shape.heads, shape.kv_heads, shape.head, shape.head, bias=bias, out_bias=bias,
            norm="head", value_norm=True, rotary=shape.head, shares_kv_as="" if borrowed else kind,
            reads_kv_of=kind if borrowed else "", window=fields.size("sliding_window") if kind == "sliding" else None,
        )  # fmt: skip
        beside = (residual.LowRankResidual("laurel", width, fields.size("laurel_rank")),)
        return Layer((
            residual.AltUpPredict("altup", streams, width),
            Norm("input_layernorm", width),
            ParallelBranches("", (beside, (attention, Norm("post_attention_layernorm", width))), inside=True),
            ResidualAdd("add_attention"),
            Norm("pre_feedforward_layernorm", width),
            Mlp("mlp", width, hidden, activation=act, cut=cut),
            Norm("post_feedforward_layernorm", width),
            ResidualAdd("add_feed_forward"),
            residual.AltUpCorrect("altup", streams, width),
            PerLayerInput("", width, each, act),
            residual.AddToOtherStreams("altup.add", streams, width),
        ))  # fmt: skip

    table = PerLayerEmbedding("", fields.size("vocab_size_per_layer_input"), width, each, shape.layers)
    widths, cuts = fields.sizes("intermediate_size", shape.layers), _cuts(fields, shape.layers)
    return build_model(
        fields, shape, [layer(*of) for of in zip(kinds, borrows, widths, cuts, strict=True)],
        tied=True, before=(table, residual.StreamProjections("altup_projections", streams, width)),
        after=(residual.StreamProjections("altup_unembed_projections", streams, width, back=True), Norm("norm", width)),
        notes=(
            *_borrowing_notes(borrows),
            *(["zeros that the MLP's cut leaves are multiplied like other numbers"] if any(cuts) else []),
        ),
    )  # fmt: skip


def _cuts(fields: Fields, layers: int) -> list[bool]:
    """Layers that set most of their gate to zero: by default the first ten."""
    found = fields.get("activation_sparsity_pattern")
    if found is None:
        return [layers > 10 and number < 10 for number in range(layers)]
    if not isinstance(found, list):
        return [bool(found)] * layers
    return [bool(each) for each in (fields.listed("activation_sparsity_pattern", layers) or [])[:layers]]
