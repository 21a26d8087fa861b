"""Kimi Linear: three layers of delta attention to one of latent attention that does not rotate; experts."""

from __future__ import annotations

from dataclasses import replace

from roofline.errors import InputError
from roofline.models.blocks.recurrent import KimiDeltaAttention
from roofline.models.description import Block, Model
from roofline.models.families import family
from roofline.models.families._parts import (
    activation,
    decoder_layer,
    dense,
    expert_layers,
    layer_types,
    limited,
    make,
    routed,
)
from roofline.models.families.deepseek import latent_attention, latent_shape
from roofline.models.fields import Fields

_KINDS = {"full_attention": "full", "linear_attention": "linear"}


@family("kimi_linear")
def read(fields: Fields) -> Model:
    """Read the hybrid; what its code of its own calls ``linear_attn_config`` numbers layers from 1."""
    fields = fields.renamed(
        num_experts="n_routed_experts", num_local_experts="n_routed_experts", num_shared_experts="n_shared_experts",
        num_experts_per_token="num_experts_per_tok",
    )  # fmt: skip
    fields.ignore(
        "moe_renormalize", "moe_router_activation_func", "mla_use_nope",
    )  # fmt: skip
    shape = latent_shape(fields)
    act = activation(fields, "hidden_act")
    section = fields.section("linear_attn_config")
    kinds = layer_types(fields, shape.layers, _KINDS)
    if "layer_types" not in fields:
        full = section.listed("full_attn_layers") if section is not None else None
        named = [number % 4 == 0 for number in range(1, shape.layers + 1)]
        if full is not None:
            named = [number in full for number in range(1, shape.layers + 1)]
        kinds = ["full" if each else "linear" for each in named]
    heads, head, kernel = (
        section.size(inside) if section is not None and inside in section else fields.size(name, default=usual)
        for inside, name, usual in (
            ("num_heads", "linear_num_heads", 32), ("head_dim", "linear_head_dim", 128),
            ("short_conv_kernel_size", "linear_conv_kernel_dim", 4),
        )
    )  # fmt: skip
    mixers: dict[str, Block] = {
        "full": replace(latent_attention(fields, shape, None), turned=False),
        "linear": KimiDeltaAttention("self_attn", shape.width, heads, head, kernel),
    }
    experts = routed(fields, shape, act, scored="sigmoid", limit=limited(fields, fields.size("n_routed_experts")))
    sparse = expert_layers(fields, shape.layers)
    if "mlp_layer_types" not in fields and "first_k_dense_replace" not in fields:
        sparse = [number > 0 for number in range(shape.layers)]
    if fields.get("moe_layer_freq", 1) != 1:
        raise InputError(f"moe_layer_freq of {fields.name} is {fields.get('moe_layer_freq')}", hint="1 is read")
    layers = [
        decoder_layer(shape.width, mixers[kind], experts if routes else dense(fields, shape, act))
        for kind, routes in zip(kinds, sparse, strict=True)
    ]
    return make(fields, shape, layers)
