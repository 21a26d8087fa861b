"""Qwen3.5, 3.6 and Qwen3-Next: three layers of gated delta nets to one of gated attention; dense or with experts.

Their multimodal configurations hold a ``text_config``; the language part is read here.
"""

from __future__ import annotations

from roofline.models.blocks.recurrent import GatedDeltaNet
from roofline.models.description import Model
from roofline.models.families import family
from roofline.models.families._parts import (
    MixtureOfExperts,
    Shape,
    activation,
    attention,
    decoder_layer,
    dense,
    expert_layers,
    layer_types,
    make,
    prediction,
    routed,
)
from roofline.models.fields import Fields

_KINDS = {"full_attention": "full", "linear_attention": "linear"}
_STATES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@family("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next")
def read(fields: Fields) -> Model:
    """Read the hybrid decoder."""
    shape = Shape(fields)
    act = activation(fields, "hidden_act")
    every = fields.size("full_attention_interval", default=4)
    kinds = layer_types(fields, shape.layers, _KINDS)
    if "layer_types" not in fields:
        kinds = ["full" if (i + 1) % every == 0 else "linear" for i in range(shape.layers)]
    bias = fields.flag("attention_bias", False)
    full = attention(
        shape,
        norm="head",
        gate="query" if fields.flag("attn_output_gate", True) else None,
        bias=bias,
        out_bias=bias,
    )
    linear = GatedDeltaNet(
        "linear_attn",
        shape.width,
        fields.size("linear_num_key_heads"),
        fields.size("linear_num_value_heads"),
        fields.size("linear_key_head_dim"),
        fields.size("linear_value_head_dim"),
        fields.size("linear_conv_kernel_dim"),
        state=_STATES[fields.choice("mamba_ssm_dtype", _STATES, "float32")],
    )
    experts = _experts(fields, shape, act) if "num_experts" in fields else None
    layers = [
        decoder_layer(
            shape.width,
            full if kind == "full" else linear,
            experts if experts is not None and sparse else dense(fields, shape, act),
        )
        for kind, sparse in zip(kinds, expert_layers(fields, shape.layers), strict=True)
    ]
    fields.ignore("mtp_use_dedicated_embeddings", "intermediate_size")
    last = decoder_layer(shape.width, full, experts or dense(fields, shape, act))
    more = prediction(shape.width, [last] * fields.count("mtp_num_hidden_layers"))
    return make(fields, shape, layers, **more)


def _experts(fields: Fields, shape: Shape, act: str) -> MixtureOfExperts:
    return routed(
        fields,
        shape,
        act,
        experts=("num_experts",),
        shared=fields.size("shared_expert_intermediate_size"),
        shared_gate=True,
        names=("gate", "experts", "shared_expert"),
    )
