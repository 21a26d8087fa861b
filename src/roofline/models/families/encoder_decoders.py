"""Encoders beside a decoder: T5, BART and its kin, Whisper.

A type of BART's is a row that says where its norms and its positions differ. Source: the modelling code of transformers
5.24 (``modeling_t5``, ``modeling_bart``, ``modeling_whisper`` and those of the other types).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from roofline.errors import InputError
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.encoder import CrossAttention, DistanceBiasedAttention, Encoder, SoundConvolutions
from roofline.models.blocks.feed_forward import ACTIVATIONS, Mlp
from roofline.models.blocks.residual import Norm, PositionEmbedding, ResidualAdd
from roofline.models.description import Block, Layer, Model
from roofline.models.families import family
from roofline.models.families.parts import activation
from roofline.models.fields import Fields, divide_evenly

_ADD = ResidualAdd("add_attention"), ResidualAdd("add_cross_attention"), ResidualAdd("add_feed_forward")
#: Tokens that the encoder reads where nothing is said.
_USUAL = 512


# T5


def _t5_attention(fields: Fields, name: str, kind: type[Attention], **more: Any) -> Attention:
    heads, each = fields.size("num_heads"), fields.size("d_kv", default=64)
    return kind(name, fields.size("d_model"), heads, heads, each, each, names=("q", "k", "v", "o"), **more)


@family("t5", "mt5", "umt5")
def read_t5(fields: Fields) -> Model:
    """Read T5: scores have trained biases by distance, in one table for all layers, in umT5 in one for each."""
    width, source = fields.size("d_model"), fields.size("n_positions", default=_USUAL)
    depth = fields.layers("num_layers", default=6)
    gate, _, name = fields.get("feed_forward_proj", "relu" if fields.kind == "t5" else "gated-gelu").rpartition("-")
    if gate not in ("", "gated") or name not in ACTIVATIONS:
        raise fields.not_understood("feed_forward_proj", "an activation, as in 'relu' or 'gated-gelu'")
    act = "gelu_new" if (gate, name) == ("gated", "gelu") else name
    names = ("wi_0", "wi_1", "wo") if gate else ("", "wi", "wo")
    feed = Mlp("DenseReluDense", width, fields.size("d_ff", default=4 * width), bool(gate), act, names=names)
    buckets = fields.size("relative_attention_num_buckets", default=32)
    fields.ignore("relative_attention_max_distance", "dense_act_fn", "is_gated_act")

    def layer(number: int, causal: bool) -> Layer:
        holds = number == 0 or fields.kind == "umt5"
        own = _t5_attention(
            fields, "SelfAttention", DistanceBiasedAttention, buckets=buckets, holds=holds, causal=causal
        )
        across = _t5_attention(fields, "EncDecAttention", CrossAttention, source=source)
        cross = (Norm("EncDecAttention.layer_norm", width), across, _ADD[1]) if causal else ()
        return Layer(
            (Norm("layer_norm", width), own, _ADD[0], *cross, Norm("DenseReluDense.layer_norm", width), feed, _ADD[2])
        )

    return _model(
        fields, width, [layer(number, True) for number in range(fields.layers("num_decoder_layers", default=depth))],
        (), (Norm("final_layer_norm", width),), "decoder.",
        Encoder(
            "encoder", width, source, fields.size("vocab_size"), 0, (),
            tuple(layer(number, False) for number in range(depth)), (Norm("final_layer_norm", width),),
        ),
    )  # fmt: skip


# BART and Whisper


@dataclass(frozen=True)
class Bart:
    """Where a type differs from BART.

    Attributes
        ``first``      norms stand before the blocks, and one behind the last layer; else they are of each sum
        ``embedding``  a norm of the embedding
        ``positions``  rows of the table of positions beyond the tokens that it takes; None: they are computed, not kept
        ``act``        the activation where nothing is said
        ``sounds``     the encoder reads sounds, and keys have no biases
    """

    first: bool = False
    embedding: bool = True
    positions: int | None = 2
    act: str = "gelu"
    sounds: bool = False


def _bart_layer(row: Bart, fields: Fields, side: str, act: str, source: int) -> Layer:
    width, heads = fields.size("d_model"), fields.size(f"{side}_attention_heads")
    each = divide_evenly(fields, width, heads, "a width of {total} does not divide into {parts} heads")
    shared: dict[str, Any] = {
        "inputs": width, "heads": heads, "kv_heads": heads, "key": each, "value": each, "bias": True, "out_bias": True,
        "key_bias": not row.sounds, "names": ("q_proj", "k_proj", "v_proj", "out_proj"),
    }  # fmt: skip
    feed = Mlp("mlp", width, fields.size(f"{side}_ffn_dim"), False, act, True, ("", "fc1", "fc2"))
    parts: list[tuple[str, Block]] = [
        ("self_attn_layer_norm", Attention("self_attn", causal=side == "decoder", **shared)),
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
    words = fields.size("vocab_size")
    shared = fields.flag("share_encoder_decoder_embeddings", True)
    if not shared or fields.size("decoder_vocab_size", default=words) != words:
        raise InputError(f"{fields.name} has two tables of words", hint="one table for encoder and decoder is read")
    fields.ignore("num_hidden_layers")

    def ends(rows: int) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
        more = row.positions or 0
        positions = PositionEmbedding("embed_positions", rows + more, width, trained=row.positions is not None)
        norm = (Norm("layernorm_embedding", width, "layer_norm", True, restarts=True),) if row.embedding else ()
        return (positions, *norm), (Norm("layer_norm", width, "layer_norm", True),) if row.first else ()

    sides = {side: _bart_layer(row, fields, side, act, longest) for side in ("encoder", "decoder")}
    counts = {side: fields.layers(f"{side}_layers") for side in sides}
    before, after = ends(longest)
    bins = fields.size("num_mel_bins", default=80) if row.sounds else 0
    heard = (SoundConvolutions("", bins, width),) if row.sounds else ()
    encoder = Encoder(
        "encoder", width, longest, 0 if row.sounds else words, bins, (*heard, *before),
        (sides["encoder"],) * counts["encoder"], after, longest,
    )  # fmt: skip
    before, after = ends(context)
    layers = [sides["decoder"]] * counts["decoder"]
    return _model(fields, width, layers, before, after, "model.decoder.", encoder, context)


def _model(
    fields: Fields, width: int, layers: list[Layer], before: tuple[Block, ...], after: tuple[Block, ...], prefix: str,
    encoder: Encoder, context: int | None = None,
) -> Model:  # fmt: skip
    fields.flag("is_encoder_decoder", True)
    return Model(
        name=fields.name, family=fields.kind, width=width, vocabulary=fields.size("vocab_size"), layers=tuple(layers),
        dtype="", before=(encoder, *before), after=after, tied=fields.flag("tie_word_embeddings", True),
        context=context, prefix=prefix,
    )  # fmt: skip


_KINDS = {
    "bart plbart": Bart(),
    "mbart": Bart(first=True),
    "pegasus": Bart(first=True, embedding=False, positions=0),
    "marian": Bart(embedding=False, positions=0),
    "blenderbot": Bart(first=True, embedding=False, positions=0),
    "blenderbot-small": Bart(positions=0),
    "m2m_100": Bart(first=True, embedding=False, positions=None, act="relu"),
    "whisper": Bart(first=True, embedding=False, positions=0, sounds=True),
}
for _types, _row in _KINDS.items():
    family(*_types.split())(partial(read_bart, _row))
