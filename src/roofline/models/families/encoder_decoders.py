"""Encoders beside a decoder: T5, BART and its kin, Whisper, and sides that are rows of other tables.

A type of BART's is a row that says where its norms and its positions differ. Source: the modelling code of transformers
5.24 (``modeling_t5``, ``modeling_bart``, ``modeling_whisper`` and those of the other types).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from roofline.errors import InputError
from roofline.frozen import replace
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.encoder import (
    BlockSumAttention,
    CrossAttention,
    DistanceBiasedAttention,
    Encoder,
    MergedAttention,
    SoundConvolutions,
    SoundKernel,
)
from roofline.models.blocks.feed_forward import ACTIVATIONS, MixtureOfExperts, Mlp
from roofline.models.blocks.residual import Norm, PositionEmbedding, ResidualAdd
from roofline.models.description import Block, Layer, Model
from roofline.models.families import family
from roofline.models.families.decoder import Decoder, activation, rows_beyond_the_head
from roofline.models.families.decoder import read as read_decoder
from roofline.models.families.dense import global_matrices
from roofline.models.families.dense import read as read_gemma
from roofline.models.fields import Fields, divide_evenly

_ADD = ResidualAdd("add_attention"), ResidualAdd("add_cross_attention"), ResidualAdd("add_feed_forward")
#: Tokens that the encoder reads where nothing is said.
_USUAL = 512


def _t5_attention(fields: Fields, name: str, kind: type[Attention], **more: Any) -> Attention:
    heads, each = fields.size("num_heads"), fields.size("d_kv", default=64)
    return kind(name, fields.size("d_model"), heads, heads, each, each, names=("q", "k", "v", "o"), **more)


@family("t5", "mt5", "umt5", "switch_transformers", "longt5")
def read_t5(fields: Fields) -> Model:
    """Read T5: scores have trained biases by distance, in one table for all layers, in umT5 in one for each.

    Switch Transformers have experts in some layers, of which a token takes one. LongT5's encoder sees a window, and
    sums of blocks of tokens where it is ``transient-global``. Of a ``T5EncoderModel``, which reads text for pictures or
    for embeddings, only the encoder is there.
    """
    width, source = fields.size("d_model"), fields.size("n_positions", default=_USUAL)
    depth = fields.layers("num_layers", default=6)
    usual = "relu" if fields.kind in ("t5", "switch_transformers", "longt5") else "gated-gelu"
    gate, _, name = str(fields.get("feed_forward_proj", usual)).rpartition("-")
    if gate not in ("", "gated") or name not in ACTIVATIONS:
        raise fields.not_understood("feed_forward_proj", "an activation, as in 'relu' or 'gated-gelu'")
    act = "gelu_new" if (gate, name) == ("gated", "gelu") else name
    names = ("wi_0", "wi_1", "wo") if gate else ("", "wi", "wo")
    feed = Mlp("DenseReluDense", width, fields.size("d_ff", default=4 * width), bool(gate), act, names=names)
    buckets = fields.size("relative_attention_num_buckets", default=32)
    fields.ignore("relative_attention_max_distance", "dense_act_fn", "is_gated_act")
    deep = fields.layers("num_decoder_layers", default=depth)
    switched = fields.kind == "switch_transformers"
    seen: tuple[type[Attention], dict[str, Any]] = DistanceBiasedAttention, {}
    if fields.kind == "longt5":
        sums = fields.choice("encoder_attention_type", ("local", "transient-global"), "local") != "local"
        block = fields.size("global_block_size", default=16)
        window = {"window": 2 * fields.size("local_radius", default=127)}
        seen = (BlockSumAttention, {**window, "block": block}) if sums else (DistanceBiasedAttention, window)
    experts = _experts(fields, "mlp", width, fields.size("d_ff"), act, 1) if switched else feed
    steps = {
        causal: switched and _step(fields, side, layers)
        for causal, side, layers in ((True, "decoder", deep), (False, "encoder", depth))
    }

    def layer(number: int, causal: bool) -> Layer:
        step = steps[causal]
        sparse = bool(step) and (step == 1 or number % step == 1)
        holds = number == 0 or fields.kind == "umt5"
        kind, more = seen if not causal else (DistanceBiasedAttention, {})
        own = _t5_attention(fields, "SelfAttention", kind, buckets=buckets, holds=holds, causal=causal, **more)
        across = _t5_attention(fields, "EncDecAttention", CrossAttention, source=source)
        cross = (Norm("EncDecAttention.layer_norm", width), across, _ADD[1]) if causal else ()
        return Layer((
            Norm("layer_norm", width), own, _ADD[0], *cross, Norm("DenseReluDense.layer_norm", width),
            experts if sparse else feed, _ADD[2],
        ))  # fmt: skip

    read = tuple(layer(number, False) for number in range(depth))
    after = (Norm("final_layer_norm", width),)
    encoder = Encoder("encoder", width, source, fields.size("vocab_size"), 0, (), read, after)
    layers = [layer(number, True) for number in range(deep)]
    model = _model(fields, width, layers, (), after, "decoder.", encoder)
    if any(name.endswith("EncoderModel") for name in fields.classes):
        return replace(model, layers=read, before=(), head=False, causal=False, prefix="encoder.")
    return model


def _step(fields: Fields, side: str, layers: int) -> int:
    """Every how many layers of a side have experts; 0 where none has."""
    count = fields.count(f"num_sparse_{side}_layers") if f"num_sparse_{side}_layers" in fields else 3
    fields.ignore(f"{side}_sparse_step")
    return layers // count if count else 0


def _experts(fields: Fields, module: str, width: int, hidden: int, act: str, each: int) -> MixtureOfExperts:
    """Plain experts, of which a token takes ``each``, all that it chose: none is full."""
    fields.ignore("expert_capacity", "moe_eval_capacity_token_fraction")
    return MixtureOfExperts(
        module, width, hidden, fields.size("num_experts"), each, gated=False, activation=act,
        router_bias=fields.flag("router_bias", False), expert_bias=each > 1, names=("router.classifier", "experts", ""),
    )  # fmt: skip


@dataclass(frozen=True)
class Bart:
    """Where a type differs from BART.

    Attributes
        ``first``      norms stand before the blocks, and one behind the last layer; else they are of each sum
        ``embedding``  a norm of the embedding
        ``positions``  rows of the table of positions beyond the tokens that it takes; None: they are computed, not kept
        ``act``        the activation where nothing is said
        ``sounds``     the encoder reads sounds, and keys have no biases
        ``windows``    tokens of the encoder see a window, half to each side (LED)
        ``experts``    each n-th layer of a side has experts, of which a token takes two (arXiv:2207.04672, section 6.2)
    """

    first: bool = False
    embedding: bool = True
    positions: int | None = 2
    act: str = "gelu"
    sounds: bool = False
    experts: bool = False
    windows: bool = False


def _bart_layer(row: Bart, fields: Fields, side: str, act: str, source: int, sparse: bool, window: int | None) -> Layer:
    width, heads = fields.size("d_model"), fields.size(f"{side}_attention_heads")
    each = divide_evenly(fields, width, heads, "a width of {total} does not divide into {parts} heads")
    shared: dict[str, Any] = {
        "inputs": width, "heads": heads, "kv_heads": heads, "key": each, "value": each, "bias": True, "out_bias": True,
        "key_bias": not row.sounds, "names": ("q_proj", "k_proj", "v_proj", "out_proj"),
    }  # fmt: skip
    hidden = fields.size(f"{side}_ffn_dim")
    feed: Block = Mlp("mlp", width, hidden, False, act, True, ("", "fc1", "fc2"))
    feed = _experts(fields, "ffn", width, hidden, act, 2) if sparse else feed
    parts: list[tuple[str, Block]] = [
        ("self_attn_layer_norm", Attention("self_attn", causal=side == "decoder", window=window, **shared)),
        ("final_layer_norm", feed),
    ]
    adds = [_ADD[0], _ADD[2]]
    if side == "decoder":
        parts.insert(1, ("encoder_attn_layer_norm", CrossAttention("encoder_attn", source=source, **shared)))
        adds.insert(1, _ADD[1])
    blocks: list[Block] = []
    for (name, block), add in zip(parts, adds, strict=True):
        norm = Norm(name, width, "layer_norm", True, restarts=not row.first)
        blocks += [norm, block, add] if row.first else [block, add, norm]
    return Layer(tuple(blocks))


def read_bart(row: Bart, fields: Fields) -> Model:
    """Read a configuration of BART's kind: norms with shifts, biases everywhere, ends of both sides alike."""
    width, act = fields.size("d_model"), activation(fields, "activation_function", default=row.act)
    longest = fields.size("max_source_positions" if row.sounds else "max_position_embeddings", default=1024)
    context = fields.size("max_target_positions") if row.sounds else longest
    if row.windows:
        longest, context = (fields.size(f"max_{side}_position_embeddings") for side in ("encoder", "decoder"))
    words = fields.size("vocab_size")
    shared = fields.flag("share_encoder_decoder_embeddings", True)
    if not shared or fields.size("decoder_vocab_size", default=words) != words:
        raise InputError(f"{fields.name} has two tables of words", hint="one table for encoder and decoder is read")
    fields.ignore("num_hidden_layers", "prompt_length", "prompt_mid_dim")
    if fields.flag("use_prompt", False):
        raise InputError(f"use_prompt of {fields.name} is set", hint="trained prompts of each layer are not read")

    def ends(rows: int) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
        more = row.positions or 0
        positions = PositionEmbedding("embed_positions", rows + more, width, trained=row.positions is not None)
        norm = (Norm("layernorm_embedding", width, "layer_norm", True, restarts=True),) if row.embedding else ()
        return (positions, *norm), (Norm("layer_norm", width, "layer_norm", True),) if row.first else ()

    sides: dict[str, tuple[Layer, ...]] = {}
    for side in ("encoder", "decoder"):
        count, step = fields.layers(f"{side}_layers"), fields.count(f"{side}_sparse_step") if row.experts else 0
        in_windows = row.windows and side == "encoder"
        windows = fields.sizes("attention_window", count, 512) if in_windows else [None] * count
        sides[side] = tuple(
            _bart_layer(row, fields, side, act, longest, bool(step) and (number + 1) % step == 0, window)
            for number, window in enumerate(windows)
        )
    before, after = ends(longest)
    bins = fields.size("num_mel_bins", default=80) if row.sounds else 0
    kernels = (SoundKernel("conv1", 3, 1, width), SoundKernel("conv2", 3, 2, width))
    heard: tuple[Block, ...] = (SoundConvolutions("", bins, kernels),) if row.sounds else ()
    heard += (global_matrices(width, len(sides["encoder"])),) if row.windows else ()
    encoder = Encoder(
        "encoder", width, longest, 0 if row.sounds else words, bins, (*heard, *before),
        sides["encoder"], after, longest,
    )  # fmt: skip
    before, after = ends(context)
    return _model(fields, width, sides["decoder"], before, after, "model.decoder.", encoder, context)


def _model(
    fields: Fields, width: int, layers: Sequence[Layer], before: tuple[Block, ...], after: tuple[Block, ...],
    prefix: str, encoder: Encoder, context: int | None = None,
) -> Model:  # fmt: skip
    fields.flag("is_encoder_decoder", True)
    return Model(
        name=fields.name, family=fields.kind, width=width, vocabulary=fields.size("vocab_size"), layers=tuple(layers),
        dtype="", before=(encoder, *before), after=after, tied=fields.flag("tie_word_embeddings", True),
        context=context, prefix=prefix,
    )  # fmt: skip


def _side_by_side(
    fields: Fields, decoder: Model, encoder: Model, source: int, attending: Callable[[tuple[Block, ...]], list[Block]],
    **more: Any,
) -> Model:  # fmt: skip
    """A decoder each of whose layers attends to what the encoder made."""
    before = more.pop("heard", ())
    side = Encoder(
        "encoder", encoder.width, source, encoder.vocabulary, before[0].bins if before else 0, before, encoder.layers,
        encoder.after, encoder.context, **more,
    )  # fmt: skip
    fields.flag("is_encoder_decoder", True)
    decoder = decoder.with_layers(lambda layer: replace(layer, blocks=tuple(attending(layer.blocks))))
    return replace(
        decoder, family=fields.kind, before=(side, *decoder.before), tied=fields.flag("tie_word_embeddings", True),
        prefix="model.decoder.",
    )  # fmt: skip


def _to_source(kind: type[CrossAttention], own: Attention, encoder: Model, source: int, **more: Any) -> CrossAttention:
    """Attention to the source like a layer's ``own``."""
    width = encoder.width if encoder.width != own.inputs else 0
    return own.as_kind(kind, source=source, source_width=width, **more)


def _behind_its_own(
    name: str, norms: Sequence[str], encoder: Model, source: int
) -> Callable[[tuple[Block, ...]], list[Block]]:
    """Attention to the source behind a layer's own, between norms like its first."""

    def blocks(own: tuple[Block, ...]) -> list[Block]:
        attention = next(block for block in own if isinstance(block, Attention))
        norm = next(block for block in own if isinstance(block, Norm))
        at = own.index(_ADD[0]) + 1
        before, *after = (replace(norm, name=each) for each in norms)
        across = _to_source(CrossAttention, attention, encoder, source, name=name, window=None, rotary=0)
        return [*own[:at], before, across, *after, _ADD[1], *own[at:]]

    return blocks


@family("t5gemma", "t5gemma2")
def read_t5gemma(fields: Fields) -> Model:
    """Read a Gemma 2 on both sides, each with a table of words, or a Gemma 3, whose decoder attends to both at once."""
    merged, read = fields.kind == "t5gemma2", {}
    gaps: list[str] = []
    for side in ("encoder", "decoder"):
        section = fields.section(side)
        if section is None:
            raise InputError(f"{fields.name} has no {side}", hint=f"a {fields.kind} configuration has both sides")
        if merged and side == "encoder":
            if section.get("vision_config"):
                gaps.append("vision_config is not modelled: only the language part is")
            section = section.section("text_config") or section
        section = section.with_values(model_type="gemma3_text" if merged else "gemma2")
        if side == "encoder":
            window = section.size("sliding_window", default=4096)
            # of all keys that a token sees, or of those to each side
            window = max(window - 1, 1) if merged else 2 * window
            section = section.with_values(sliding_window=window, use_bidirectional_attention=True)
        section.ignore_inert()
        read[side] = read_gemma(section)
        section.ignore("dropout_rate", "cross_attention_hidden_size")
        gaps += [f"{side}.{name} is not understood and not modelled" for name in section.unread()]
    fields.ignore("vocab_size")
    encoder = read["encoder"]
    if not merged:
        norms = ("pre_cross_attn_layernorm", "post_cross_attn_layernorm")
        found = _side_by_side(
            fields, read["decoder"], encoder, _USUAL, _behind_its_own("cross_attn", norms, encoder, _USUAL), own=True
        )
    else:
        found = _side_by_side(
            fields, read["decoder"], encoder, _USUAL,
            lambda own: [
                _to_source(MergedAttention, block, encoder, _USUAL) if isinstance(block, Attention) else block
                for block in own
            ],
        )  # fmt: skip
        found = replace(found, before=(*found.before, *rows_beyond_the_head(found.width, 1)))
    return replace(found, gaps=(*found.gaps, *gaps))


_MOONSHINE = Decoder(
    norm=("layer_norm", False), norms=("input_layernorm", "final_layernorm"), out_bias=False, mlp_bias=True,
)  # fmt: skip
_HEARING = replace(
    _MOONSHINE, norms=("input_layernorm", "post_attention_layernorm"), causal=False, gated=False,
    mlp_names=("", "fc1", "fc2"), last_norm="layer_norm",
)  # fmt: skip
#: Tokens of thirty seconds of sound, 384 numbers each of 16,000 a second.
_THIRTY_SECONDS = 1250


@family("moonshine")
def read_moonshine(fields: Fields) -> Model:
    """Read Moonshine: three convolutions over the sound itself, then a Llama with norms that scale on both sides."""
    if fields.get("partial_rotary_factor") is None and fields.section("rope_parameters") is None:
        fields = fields.with_values(partial_rotary_factor=0.9)

    def side(row: Decoder, name: str, act: str) -> Model:
        moved = fields.renamed(
            **{f"{name}_{each}": each for each in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads")}
        )
        return read_decoder(row, moved.with_values(hidden_act=fields.get(f"{name}_hidden_act", act)))

    fields.ignore("pad_head_dim_to_multiple_of")
    decoder, encoder = side(_MOONSHINE, "decoder", "silu"), side(_HEARING, "encoder", "gelu")
    width = decoder.width
    kernels = (
        SoundKernel("conv1", 127, 64, width, "tanh", bias=False, padded=False),
        SoundKernel("conv2", 7, 3, 2 * width, padded=False),
        SoundKernel("conv3", 3, 2, width, padded=False),
    )
    encoder = replace(encoder, vocabulary=0, context=None)
    heard = (SoundConvolutions("", 1, kernels, norm="groupnorm"),)
    across = _behind_its_own("encoder_attn", ("post_attention_layernorm",), encoder, _THIRTY_SECONDS)
    return _side_by_side(fields, decoder, encoder, _THIRTY_SECONDS, across, heard=heard, frames=384)


_KINDS = {
    "bart plbart mvp": Bart(),
    "mbart": Bart(first=True),
    "pegasus": Bart(first=True, embedding=False, positions=0),
    "marian": Bart(embedding=False, positions=0),
    "blenderbot": Bart(first=True, embedding=False, positions=0),
    "blenderbot-small": Bart(positions=0),
    "m2m_100": Bart(first=True, embedding=False, positions=None, act="relu"),
    "led": Bart(positions=0, windows=True),
    "nllb-moe": Bart(first=True, embedding=False, positions=None, act="relu", experts=True),
    "whisper": Bart(first=True, embedding=False, positions=0, sounds=True),
}
for _types, _row in _KINDS.items():
    family(*_types.split())(partial(read_bart, _row))
