"""Llama 4: three layers of chunked attention to one of full attention, one routed expert beside a shared one."""

from __future__ import annotations

from roofline.models.blocks.attention import Attention
from roofline.models.description import Model
from roofline.models.families import family
from roofline.models.families._parts import (
    Experts,
    Mlp,
    Shape,
    activation,
    chosen,
    decoder_layer,
    layer_types,
    make,
    shared_expert,
)
from roofline.models.fields import Fields

_KINDS = {"full_attention": "full", "chunked_attention": "chunked"}


@family("llama4_text")
def read(fields: Fields) -> Model:
    """Read the decoder; queries and keys are normalised without a scale in the layers that rotate them."""
    shape = Shape(fields)
    act = activation(fields, "hidden_act")
    every = fields.size("no_rope_layer_interval", default=4)
    rotated = fields.listed("no_rope_layers", shape.layers) or [int((i + 1) % every != 0) for i in range(shape.layers)]
    kinds = layer_types(fields, shape.layers, _KINDS)
    if "layer_types" not in fields:
        kinds = ["chunked" if rope else "full" for rope in rotated]
    normed = fields.flag("use_qk_norm", True)
    fields.ignore("attn_scale", "attn_temperature_tuning", "floor_scale", "for_llm_compressor")
    experts = fields.size("num_local_experts")
    hidden = fields.size("intermediate_size")
    routed = Experts(
        "feed_forward",
        shape.width,
        hidden,
        experts,
        chosen(fields, experts, "num_experts_per_tok"),
        activation=act,
        shared=shared_expert(shape.width, hidden, act),
        scored="sigmoid",
        names=("router", "experts", "shared_expert"),
    )
    dense = Mlp("feed_forward", shape.width, fields.size("intermediate_size_mlp"), activation=act)
    step = fields.size("interleave_moe_layer_step", default=1)
    sparse = set(fields.listed("moe_layers") or range(step - 1, shape.layers, step))
    layers = [
        decoder_layer(
            shape.width,
            Attention(
                "self_attn",
                shape.width,
                shape.heads,
                shape.kv_heads,
                shape.head,
                shape.head,
                bias=fields.flag("attention_bias", False),
                out_bias=fields.flag("attention_bias", False),
                norm="plain" if normed and rotated[i] else None,
                rotary=shape.rotary if rotated[i] else 0,
                chunk=fields.size("attention_chunk_size") if kinds[i] == "chunked" else None,
            ),
            routed if i in sparse else dense,
        )
        for i in range(shape.layers)
    ]
    return make(fields, shape, layers)
