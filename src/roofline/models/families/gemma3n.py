"""Gemma 3n: several streams of the hidden state, inputs of each layer's own, layers that borrow keys and values."""

from __future__ import annotations

from roofline.models.blocks.attention import Attention
from roofline.models.blocks.residual import ParallelBranches
from roofline.models.blocks.residual_streams import (
    AddToOtherStreams,
    AltUpCorrect,
    AltUpPredict,
    LowRankResidual,
    PerLayerEmbedding,
    PerLayerInput,
    StreamProjections,
)
from roofline.models.description import Layer, Model
from roofline.models.families import family
from roofline.models.families._parts import Mlp, Norm, ResidualAdd, Shape, activation, layer_types, make
from roofline.models.families.gemma import borrowing, said_of_borrowing
from roofline.models.fields import Fields

_KINDS = {"full_attention": "full", "sliding_attention": "sliding"}


@family("gemma3n_text")
def read(fields: Fields) -> Model:
    """Read the language part; widths of the MLP may be listed by layer."""
    shape = Shape(fields)
    width, each, streams = shape.width, fields.size("hidden_size_per_layer_input"), fields.size("altup_num_inputs")
    fields.ignore("final_logit_softcapping", "altup_active_idx", "altup_coef_clip", "altup_correct_scale")
    fields.ignore("altup_lr_multiplier", "query_pre_attn_scalar")
    act = activation(fields, "hidden_activation", default="gelu_pytorch_tanh")
    kinds = layer_types(fields, shape.layers, _KINDS)
    if "layer_types" not in fields:
        kinds = ["full" if (i + 1) % 5 == 0 else "sliding" for i in range(shape.layers)]
    borrows = borrowing(fields, kinds)
    bias = fields.flag("attention_bias", False)

    def layer(kind: str, borrowed: bool, hidden: int, cut: bool) -> Layer:
        attention = Attention(
            "self_attn", width, shape.heads, shape.kv_heads, shape.head, shape.head, bias=bias, out_bias=bias,
            norm="head", value_norm=True, rotary=shape.head, lends="" if borrowed else kind,
            borrows=kind if borrowed else "", window=fields.size("sliding_window") if kind == "sliding" else None,
        )  # fmt: skip
        beside = (LowRankResidual("laurel", width, fields.size("laurel_rank")),)
        return Layer(
            (
                AltUpPredict("altup", streams, width),
                Norm("input_layernorm", width),
                ParallelBranches("", (beside, (attention, Norm("post_attention_layernorm", width))), inside=True),
                ResidualAdd("add_attention"),
                Norm("pre_feedforward_layernorm", width),
                Mlp("mlp", width, hidden, activation=act, cut=cut),
                Norm("post_feedforward_layernorm", width),
                ResidualAdd("add_feed_forward"),
                AltUpCorrect("altup", streams, width),
                PerLayerInput("", width, each, act),
                AddToOtherStreams("altup.add", streams, width),
            )
        )

    table = PerLayerEmbedding("", fields.size("vocab_size_per_layer_input"), width, each, shape.layers)
    cuts = _cuts(fields, shape.layers)
    model = make(
        fields, shape, [layer(*of) for of in zip(kinds, borrows, _widths(fields, shape.layers), cuts, strict=True)],
        tied=True, before=(table, StreamProjections("altup_projections", streams, width)),
        after=(StreamProjections("altup_unembed_projections", streams, width, back=True), Norm("norm", width)),
        notes=(
            *said_of_borrowing(borrows),
            *(["zeros that the MLP's cut leaves are multiplied like other numbers"] if any(cuts) else []),
        ),
    )  # fmt: skip
    return model


def _widths(fields: Fields, layers: int) -> list[int]:
    """Widths of the MLP, one for every layer or one for all."""
    found = fields.get("intermediate_size")
    if not isinstance(found, list):
        return [fields.size("intermediate_size")] * layers
    listed = fields.listed("intermediate_size", layers) or []
    return [fields.given(intermediate_size=each).size("intermediate_size") for each in listed[:layers]]


def _cuts(fields: Fields, layers: int) -> list[bool]:
    """Which layers set most of what their gate has to zero: the first ten where nothing is said."""
    found = fields.get("activation_sparsity_pattern")
    if found is None:
        return [layers > 10 and number < 10 for number in range(layers)]
    if not isinstance(found, list):
        return [bool(found)] * layers
    return [bool(each) for each in (fields.listed("activation_sparsity_pattern", layers) or [])[:layers]]
