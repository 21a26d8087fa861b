"""Llama 4: three layers of chunked attention to one of full attention, one routed expert beside a shared one."""

from __future__ import annotations

from roofline.models.description import Model
from roofline.models.families import family
from roofline.models.families._parts import (
    Shape,
    activation,
    attention,
    decoder_layer,
    dense,
    layer_types,
    make,
    routed,
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
    experts = routed(
        fields,
        shape,
        act,
        name="feed_forward",
        experts=("num_local_experts",),
        hidden=("intermediate_size",),
        shared=fields.size("intermediate_size"),
        scored="sigmoid",
        names=("router", "experts", "shared_expert"),
    )
    of_token = dense(fields, shape, act, size="intermediate_size_mlp", name="feed_forward")
    step = fields.size("interleave_moe_layer_step", default=1)
    listed = fields.listed("moe_layers")
    sparse = set(range(step - 1, shape.layers, step) if listed is None else listed)
    layers = [
        decoder_layer(
            shape.width,
            attention(
                shape,
                bias=fields.flag("attention_bias", False),
                out_bias=fields.flag("attention_bias", False),
                norm="plain" if normed and rotated[i] else None,
                rotary=shape.rotary if rotated[i] else 0,
                chunk=fields.size("attention_chunk_size") if kinds[i] == "chunked" else None,
            ),
            experts if i in sparse else of_token,
        )
        for i in range(shape.layers)
    ]
    return make(fields, shape, layers)
