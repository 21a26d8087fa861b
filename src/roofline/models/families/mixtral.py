"""Mixtures of experts on a grouped-query decoder: Mixtral, Qwen2 and Qwen3 MoE, MiniMax-M2, gpt-oss, GLM-4.5."""

from __future__ import annotations

from typing import Any

from roofline.errors import InputError
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
    expert_layers,
    layer_types,
    make,
    prediction,
    shared_expert,
)
from roofline.models.fields import Fields

_KINDS = {"full_attention": "full", "sliding_attention": "sliding"}


def _attention(shape: Shape, **more: Any) -> Attention:
    return Attention(
        "self_attn", shape.width, shape.heads, shape.kv_heads, shape.head, shape.head, rotary=shape.rotary, **more
    )


@family("mixtral", "minimax_m2")
def mixtral(fields: Fields) -> Model:
    """Every layer has experts; MiniMax-M2 normalises queries and keys over all heads together."""
    shape = Shape(fields)
    experts = fields.size("num_local_experts")
    minimax = fields.kind == "minimax_m2"
    norm = None
    if minimax and fields.flag("use_qk_norm", True):
        norm = (
            "full" if fields.choice("qk_norm_type", ("per_layer", "per_head"), "per_layer") == "per_layer" else "head"
        )
    if minimax and any(kind != 1 for kind in fields.listed("attn_type_list", shape.layers) or []):
        raise InputError(
            f"attn_type_list of {fields.name} has linear attention", hint="only full attention (1) is read"
        )
    shared = shared_expert(shape.width, fields.count("shared_intermediate_size"), "silu")
    feed_forward = Experts(
        "block_sparse_moe",
        shape.width,
        fields.size("intermediate_size"),
        experts,
        chosen(fields, experts, "num_experts_per_tok"),
        activation=activation(fields, "hidden_act"),
        shared=shared,
        scored=str(fields.get("scoring_func", "softmax")),
    )
    window = fields.get("sliding_window")
    layer = decoder_layer(shape.width, _attention(shape, norm=norm, window=window), feed_forward)
    modules = fields.count("num_mtp_modules") if fields.flag("use_mtp", True) else 0
    depth = fields.count("mtp_transformer_layers") or 1
    return make(fields, shape, [layer] * shape.layers, **prediction(shape.width, [layer] * (modules * depth)))


@family("qwen3_moe", "qwen2_moe")
def qwen_moe(fields: Fields) -> Model:
    """Qwen's mixtures: some layers may be dense; Qwen2 has a shared expert with a gate, and biases on q, k, v."""
    shape = Shape(fields)
    older = fields.kind == "qwen2_moe"
    act = activation(fields, "hidden_act")
    fields.ignore("intermediate_size", "shared_expert_intermediate_size", "use_sliding_window", "sliding_window")
    experts = fields.size("num_experts", "num_local_experts")
    routed = Experts(
        "mlp",
        shape.width,
        fields.size("moe_intermediate_size"),
        experts,
        chosen(fields, experts, "num_experts_per_tok"),
        activation=act,
        shared=shared_expert(shape.width, fields.count("shared_expert_intermediate_size"), act),
        shared_gate=older,
        names=("gate", "experts", "shared_expert"),
    )
    attention = _attention(
        shape,
        bias=fields.flag("attention_bias", False) or fields.flag("qkv_bias", older),
        norm=None if older else "head",
    )
    layers = [
        decoder_layer(
            shape.width,
            attention,
            routed if sparse else Mlp("mlp", shape.width, fields.size("intermediate_size"), activation=act),
        )
        for sparse in expert_layers(fields, shape.layers)
    ]
    return make(fields, shape, layers)


@family("gpt_oss")
def gpt_oss(fields: Fields) -> Model:
    """gpt-oss: sinks, biases everywhere, every second layer sees a window."""
    shape = Shape(fields)
    fields.ignore("experts_per_token")
    bias = fields.flag("attention_bias", True)
    experts = fields.size("num_local_experts")
    feed_forward = Experts(
        "mlp",
        shape.width,
        fields.size("intermediate_size"),
        experts,
        chosen(fields, experts, "num_experts_per_tok", "experts_per_token"),
        activation=activation(fields, "hidden_act"),
        router_bias=True,
        expert_bias=True,
        names=("router", "experts", ""),
    )
    window = fields.get("sliding_window")
    layers = [
        decoder_layer(
            shape.width,
            _attention(shape, bias=bias, out_bias=bias, sinks=True, window=window if kind == "sliding" else None),
            feed_forward,
        )
        for kind in layer_types(fields, shape.layers, _KINDS)
    ]
    return make(fields, shape, layers)


@family("glm4_moe")
def glm(fields: Fields) -> Model:
    """GLM-4.5: dense layers first, a shared expert, biases on q, k, v."""
    shape = Shape(fields)
    act = activation(fields, "hidden_act")
    experts, hidden = fields.size("n_routed_experts"), fields.size("moe_intermediate_size")
    routed = Experts(
        "mlp",
        shape.width,
        hidden,
        experts,
        chosen(fields, experts, "num_experts_per_tok"),
        activation=act,
        shared=shared_expert(shape.width, hidden * fields.count("n_shared_experts"), act),
        scored="sigmoid",
    )
    dense = Mlp("mlp", shape.width, fields.size("intermediate_size"), activation=act)
    norm = "head" if fields.flag("use_qk_norm", False) else None
    attention = _attention(shape, bias=fields.flag("attention_bias", False), norm=norm)
    layers = [
        decoder_layer(shape.width, attention, routed if sparse else dense)
        for sparse in expert_layers(fields, shape.layers)
    ]
    last = decoder_layer(shape.width, attention, routed)
    more = prediction(shape.width, [last] * fields.count("num_nextn_predict_layers"))
    return make(fields, shape, layers, **more)
