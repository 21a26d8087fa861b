"""Mixtures of experts on a grouped-query decoder: Mixtral, Qwen, MiniMax-M2, gpt-oss, GLM-4.5, OLMoE, Granite …"""

from __future__ import annotations

from typing import Any

from roofline.errors import InputError
from roofline.models.description import Block, Layer, Model
from roofline.models.families import family
from roofline.models.families._parts import (
    Shape,
    activation,
    attention,
    decoder_layer,
    dense,
    expert_layers,
    layer_types,
    limited,
    make,
    prediction,
    routed,
)
from roofline.models.families.llama import rotated, windows
from roofline.models.fields import Fields

_KINDS = {"full_attention": "full", "sliding_attention": "sliding"}
#: Names of the fields of the older mixtures: every layer's experts are as wide as a dense MLP would be.
_LOCAL: dict[str, Any] = {"experts": ("num_local_experts",), "hidden": ("intermediate_size",)}


@family("mixtral", "minimax_m2")
def mixtral(fields: Fields) -> Model:
    """Every layer has experts; MiniMax-M2 normalises queries and keys over all heads together."""
    shape = Shape(fields)
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
    experts = routed(
        fields, shape, activation(fields, "hidden_act"), name="block_sparse_moe", **_LOCAL,
        shared=fields.count("shared_intermediate_size"), scored=str(fields.get("scoring_func", "softmax")),
    )  # fmt: skip
    window = fields.optional("sliding_window")
    layer = decoder_layer(shape.width, attention(shape, norm=norm, window=window), experts)
    modules = fields.count("num_mtp_modules") if fields.flag("use_mtp", True) else 0
    depth = fields.count("mtp_transformer_layers") or 1
    return make(fields, shape, [layer] * shape.layers, **prediction(shape.width, [layer] * (modules * depth)))


@family("granitemoe", "granitemoeshared", "granitemoe_swa")
def granite(fields: Fields) -> Model:
    """Every layer has experts; the second kind one more for every token, the third sinks, and windows in most."""
    shape = Shape(fields)
    bias = fields.flag("attention_bias", False)
    experts = routed(
        fields, shape, activation(fields, "hidden_act"), name="block_sparse_moe", **_LOCAL,
        shared=fields.count("shared_intermediate_size"), names=("router", "experts", "shared_mlp"),
    )  # fmt: skip
    if fields.kind != "granitemoe_swa":
        layer = decoder_layer(shape.width, attention(shape, bias=bias, out_bias=bias), experts)
        return make(fields, shape, [layer] * shape.layers)
    layers = [
        decoder_layer(
            shape.width,
            attention(
                shape, bias=bias, out_bias=bias, sinks=True, rotary=shape.rotary if turned else 0,
                window=fields.optional("sliding_window") if kind == "sliding" else None,
            ),
            experts,
        )
        for kind, turned in zip(windows(fields, shape.layers), rotated(fields, shape.layers), strict=True)
    ]  # fmt: skip
    return make(fields, shape, layers)


@family("phimoe")
def phi(fields: Fields) -> Model:
    """Phi-3.5-MoE: layer norms, and where the configuration says so biases of attention and of the head."""
    shape = Shape(fields)
    bias = fields.flag("attention_bias", False)
    fields.ignore("input_jitter_noise", "lm_head_bias")
    window = fields.optional("sliding_window")
    experts = routed(
        fields, shape, activation(fields, "hidden_act"), **_LOCAL, shared=0, names=("router", "experts", "")
    )
    mixer = attention(shape, bias=bias, out_bias=bias, window=window)
    layer = decoder_layer(shape.width, mixer, experts, "layer_norm", True)
    return make(
        fields, shape, [layer] * shape.layers, norm=("layer_norm", True), head_bias=fields.flag("lm_head_bias", False)
    )


@family("olmoe")
def olmoe(fields: Fields) -> Model:
    """OLMoE: queries and keys are normalised over all heads together."""
    shape = Shape(fields)
    fields.ignore("clip_qkv")
    bias = fields.flag("attention_bias", False)
    experts = routed(
        fields, shape, activation(fields, "hidden_act"), experts=("num_experts",), hidden=("intermediate_size",)
    )
    layer = decoder_layer(shape.width, attention(shape, norm="full", bias=bias, out_bias=bias), experts)
    return make(fields, shape, [layer] * shape.layers)


@family("dbrx")
def dbrx(fields: Fields) -> Model:
    """DBRX: layer norms without a shift; sizes of attention and of the experts stand in sections of their own."""
    heads, inner = fields.section("attn_config"), fields.section("ffn_config")
    if heads is None or inner is None:
        raise InputError(f"{fields.name} has no attn_config or no ffn_config", hint="a dbrx configuration needs both")
    fields = fields.given(num_key_value_heads=heads.get("kv_n_heads", 1))
    shape = Shape(fields)
    fields.ignore("num_key_value_heads", "emb_pdrop", "max_seq_len")
    function = inner.section("ffn_act_fn")
    act = activation(function, "name") if function is not None else "silu"
    experts = routed(
        inner, shape, act, name="ffn", experts=("moe_num_experts",), each=("moe_top_k",), hidden=("ffn_hidden_size",),
        shared=0, names=("router.layer", "experts.mlp", ""),
    )  # fmt: skip
    names = ("norm_attn_norm.norm_1", "norm_attn_norm.norm_2")
    layer = decoder_layer(shape.width, attention(shape, "norm_attn_norm.attn"), experts, "layer_norm", False, names)
    return make(
        fields, shape, [layer] * shape.layers, ("layer_norm", False), ends="norm_f", prefix="transformer.",
        embedding_name="wte", context=fields.get("max_seq_len"),
    )  # fmt: skip


@family("qwen3_moe", "qwen2_moe")
def qwen_moe(fields: Fields) -> Model:
    """Qwen's mixtures: some layers may be dense; Qwen2 has a shared expert with a gate, and biases on q, k, v."""
    shape = Shape(fields)
    older = fields.kind == "qwen2_moe"
    act = activation(fields, "hidden_act")
    fields.ignore("intermediate_size", "shared_expert_intermediate_size", "sliding_window")
    experts = routed(
        fields, shape, act, experts=("num_experts", "num_local_experts"),
        shared=fields.count("shared_expert_intermediate_size"), shared_gate=older,
        names=("gate", "experts", "shared_expert"),
    )  # fmt: skip
    bias = fields.flag("attention_bias", False)
    kinds = _windows(fields, shape.layers, older)
    layers = [
        decoder_layer(
            shape.width,
            attention(
                shape, bias=bias or fields.flag("qkv_bias", older), out_bias=bias and not older,
                norm=None if older else "head", window=fields.size("sliding_window") if kind == "sliding" else None,
            ),
            experts if sparse else dense(fields, shape, act),
        )
        for kind, sparse in zip(kinds, expert_layers(fields, shape.layers), strict=True)
    ]  # fmt: skip
    return make(fields, shape, layers)


def _windows(fields: Fields, layers: int, older: bool) -> list[str]:
    """Which layers see a window where windows are switched on: all, or of Qwen2 every second of the first ones."""
    if not fields.flag("use_sliding_window", False) or fields.get("sliding_window") is None:
        fields.ignore("layer_types")
        return ["full"] * layers
    if "layer_types" in fields:
        return layer_types(fields, layers, _KINDS)
    first = fields.size("max_window_layers", default=28) if older else layers
    return ["sliding" if i < first and not (older and i % 2) else "full" for i in range(layers)]


@family("gpt_oss")
def gpt_oss(fields: Fields) -> Model:
    """gpt-oss: sinks, biases everywhere, every second layer sees a window."""
    shape = Shape(fields)
    bias = fields.flag("attention_bias", True)
    experts = routed(
        fields, shape, activation(fields, "hidden_act"), **_LOCAL, shared=0,
        each=("num_experts_per_tok", "experts_per_token"), router_bias=True, expert_bias=True,
        names=("router", "experts", ""),
    )  # fmt: skip
    window = fields.optional("sliding_window")
    kinds = layer_types(fields, shape.layers, _KINDS)
    if "layer_types" not in fields:
        kinds = ["full" if number % 2 else "sliding" for number in range(shape.layers)]
    layers = [
        decoder_layer(
            shape.width,
            attention(shape, bias=bias, out_bias=bias, sinks=True, window=window if kind == "sliding" else None),
            experts,
        )
        for kind in kinds
    ]
    return make(fields, shape, layers)


@family("glm4_moe", "dots1", "solar_open")
def glm(fields: Fields) -> Model:
    """GLM-4.5, Solar, dots.llm1: dense layers first, a shared expert; biases on q, k, v, or norms of each head."""
    if fields.kind == "solar_open":  # experts in every layer, whatever else is said
        fields.ignore("intermediate_size")
        fields = fields.given(first_k_dense_replace=0)
    shape = Shape(fields)
    dots = fields.kind == "dots1"
    act = activation(fields, "hidden_act")
    experts = routed(fields, shape, act, scored="sigmoid", limit=limited(fields, fields.size("n_routed_experts")))
    bias = fields.flag("attention_bias", False)
    norm = "head" if dots or fields.flag("use_qk_norm", False) else None
    window = fields.optional("sliding_window") if dots else None
    fields.ignore("sliding_window", "max_window_layers")

    def layer(kind: str, feed_forward: Block) -> Layer:
        seen = window if kind == "sliding" else None
        return decoder_layer(
            shape.width, attention(shape, bias=bias, out_bias=bias and dots, norm=norm, window=seen), feed_forward
        )

    kinds = layer_types(fields, shape.layers, _KINDS)
    layers = [
        layer(kind, experts if sparse else dense(fields, shape, act))
        for kind, sparse in zip(kinds, expert_layers(fields, shape.layers), strict=True)
    ]
    more = prediction(shape.width, [layer("full", experts)] * fields.count("num_nextn_predict_layers"))
    return make(fields, shape, layers, **more)


@family("hunyuan_v1_moe")
def hunyuan(fields: Fields) -> Model:
    """Hunyuan-A13B: norms of each head, one shared expert as wide as the others; numbers may be listed by layer."""
    fields = fields.evened("moe_topk", "num_shared_expert", "moe_intermediate_size", "num_experts")
    shape = Shape(fields)
    bias = fields.flag("attention_bias", False)
    if fields.get("use_cla") or fields.get("use_mixed_mlp_moe") is False or fields.get("num_shared_expert", 1) != 1:
        raise InputError(
            f"{fields.name} shares keys between layers or has not one shared expert", hint="that is not read"
        )
    fields.ignore("moe_intermediate_size", *_UNUSED)
    experts = routed(
        fields, shape, activation(fields, "hidden_act"), experts=("num_experts",), each=("moe_topk",),
        hidden=("intermediate_size",), shared=fields.size("intermediate_size"),
        names=("gate.wg", "experts", "shared_mlp"),
    )  # fmt: skip
    layer = decoder_layer(shape.width, attention(shape, norm="head", bias=bias, out_bias=bias), experts)
    return make(fields, shape, [layer] * shape.layers)


#: Fields of Hunyuan's configurations that its code for language models does not use, or that change no cost.
_UNUSED = (
    "cla_share_factor", "capacity_factor", "moe_drop_tokens", "moe_random_routing_dropped_token", "use_cla", "n_group",
    "moe_layer_num_skipped", "group_limited_greedy", "use_qk_norm", "use_rotary_pos_emb", "norm_type", "mlp_bias",
    "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "attention_head_dim",
    "use_mixed_mlp_moe", "mask_init_id", "im_start_id", "im_end_id", "im_newline_id", "text_start_id", "text_end_id",
    "pool_type", "class_num", "sep_id", "pad_id", "eod_token_id", "num_media_embeds", "vit_type",
    "anyres_pooling_size",
)  # fmt: skip
