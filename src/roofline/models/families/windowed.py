"""Experts behind attention of several shapes by layer: MiMo-V2-Flash, Step-3.7, MiniMax-M3."""

from __future__ import annotations

from roofline.models.blocks.attention import Attention, BlockIndexer
from roofline.models.description import Model
from roofline.models.families import family
from roofline.models.families._parts import (
    MixtureOfExperts,
    Mlp,
    Shape,
    activation,
    chosen,
    decoder_layer,
    expert_layers,
    layer_types,
    limited,
    make,
    prediction,
    shared_expert,
)
from roofline.models.fields import Fields

_KINDS = {"full_attention": "full", "sliding_attention": "sliding"}


@family("mimo_v2_flash")
def mimo(fields: Fields) -> Model:
    """MiMo-V2-Flash: windows with sinks and twice the key heads; heads of keys wider than those of values."""
    fields.ignore("attention_chunk_size", "sliding_window", "swa_num_attention_heads")
    shape = Shape(fields)
    pattern = fields.listed("hybrid_layer_pattern", shape.layers)
    kinds = (
        layer_types(fields, shape.layers, _KINDS)
        if pattern is None
        else ["sliding" if p else "full" for p in pattern[: shape.layers]]
    )
    act = activation(fields, "hidden_act")
    # the reference attends to so many tokens before the query, which comes on top
    window = fields.size("sliding_window_size", default=fields.size("sliding_window", default=128)) + 1
    full = Attention(
        "self_attn",
        shape.width,
        shape.heads,
        shape.kv_heads,
        shape.head,
        fields.size("v_head_dim", default=shape.head),
        bias=fields.flag("attention_bias", False),
        rotary=shape.rotary,
        sinks=fields.flag("add_full_attention_sink_bias", False),
    )
    sliding = Attention(
        "self_attn",
        shape.width,
        fields.size("swa_num_attention_heads", default=shape.heads),
        fields.size("swa_num_key_value_heads", default=shape.kv_heads),
        fields.size("swa_head_dim", default=shape.head),
        fields.size("swa_v_head_dim", default=fields.size("v_head_dim", default=shape.head)),
        bias=fields.flag("attention_bias", False),
        rotary=shape.rotary,
        sinks=fields.flag("add_swa_attention_sink_bias", False),
        window=window,
    )
    experts, hidden = fields.size("n_routed_experts"), fields.size("moe_intermediate_size")
    routed = MixtureOfExperts(
        "mlp",
        shape.width,
        hidden,
        experts,
        chosen(fields, experts, "num_experts_per_tok"),
        activation=act,
        shared=shared_expert(shape.width, hidden * fields.count("n_shared_experts"), act),
        scored="sigmoid",
        limit=limited(fields, experts),
    )
    dense = Mlp("mlp", shape.width, fields.size("intermediate_size"), activation=act)
    layers = [
        decoder_layer(shape.width, full if kind == "full" else sliding, routed if sparse else dense)
        for kind, sparse in zip(kinds, expert_layers(fields, shape.layers), strict=True)
    ]
    return make(
        fields, shape, layers, **prediction(shape.width, [layers[-1]] * fields.count("num_nextn_predict_layers"))
    )


@family("step3p7", "step3p5")
def step(fields: Fields) -> Model:
    """Step-3.7: windows in three layers of four, a gate for each head, a shared expert."""
    fields.ignore("share_expert_dim")
    shape = Shape(fields)
    act = activation(fields, "hidden_act")
    experts = fields.size("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
    shared = fields.count("share_expert_dim", "share_expert_dims") * fields.size("n_shared_experts", default=1)
    routed = MixtureOfExperts(
        "mlp",
        shape.width,
        fields.size("moe_intermediate_size"),
        experts,
        chosen(fields, experts, "num_experts_per_tok", "moe_top_k"),
        activation=act,
        shared=shared_expert(shape.width, shared, act),
        scored="sigmoid",
    )
    dense = Mlp("mlp", shape.width, fields.size("intermediate_size"), activation=act)
    layers = [
        decoder_layer(
            shape.width,
            Attention(
                "self_attn",
                shape.width,
                fields.size("num_sliding_attention_heads", default=shape.heads) if kind == "sliding" else shape.heads,
                shape.kv_heads,
                shape.head,
                shape.head,
                bias=fields.flag("attention_bias", False),
                norm="head",
                gate="head",
                rotary=shape.rotary,
                window=fields.size("sliding_window") if kind == "sliding" else None,
            ),
            routed if sparse else dense,
        )
        for kind, sparse in zip(
            layer_types(fields, shape.layers, _KINDS), expert_layers(fields, shape.layers), strict=True
        )
    ]
    more = prediction(shape.width, [layers[-1]] * fields.count("num_nextn_predict_layers"))
    return make(fields, shape, layers, **more)


@family("minimax_m3")
def minimax(fields: Fields) -> Model:
    """MiniMax-M3: in most layers each query attends to the blocks of keys that a small attention picks."""
    fields.ignore("moe_intermediate_size", "use_qk_norm", "num_mtp_modules", "attention_output_gate")
    shape = Shape(fields)
    act = activation(fields, "hidden_act")
    experts = fields.size("num_local_experts")
    shared = fields.count("n_shared_experts") * fields.count("shared_intermediate_size")
    routed = MixtureOfExperts(
        "mlp",
        shape.width,
        fields.size("intermediate_size"),
        experts,
        chosen(fields, experts, "num_experts_per_tok"),
        activation=act,
        shared=shared_expert(shape.width, shared, act),
        scored="sigmoid",
    )
    dense = Mlp("mlp", shape.width, fields.size("dense_intermediate_size"), activation=act)
    norm = {"per_head": "head", "per_layer": "full"}[
        fields.choice("qk_norm_type", ("per_head", "per_layer"), "per_head")
    ]
    selector, selecting = _selection(fields, shape.layers)
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
                norm=norm,
                rotary=shape.rotary,
                selector=selector if selects else None,
                gate="full" if fields.flag("attention_output_gate", False) else None,
            ),
            routed if sparse else dense,
        )
        for selects, sparse in zip(selecting, expert_layers(fields, shape.layers), strict=True)
    ]
    modules = fields.count("num_mtp_modules", "num_nextn_predict_layers")
    return make(fields, shape, layers, **prediction(shape.width, [layers[-1]] * modules))


def _selection(fields: Fields, layers: int) -> tuple[BlockIndexer | None, list[bool]]:
    sparse = fields.section("sparse_attention_config")
    if sparse is None or not sparse.flag("use_sparse_attention", True):
        return None, [False] * layers
    selector = BlockIndexer(
        sparse.size("sparse_num_index_heads"),
        sparse.size("sparse_index_dim"),
        sparse.size("sparse_block_size"),
        sparse.size("sparse_topk_blocks"),
    )
    frequency = sparse.listed("sparse_attention_freq", layers) or [1] * layers
    return selector, [bool(flag) for flag in frequency[:layers]]
