"""Mixtures that list layer by layer what is dense, sparse or windowed: Hy3, Mellum, Laguna, AFMoE, Command mixtures."""

from __future__ import annotations

from typing import Any

from roofline.models.blocks.attention import Attention
from roofline.models.description import Block, Layer, Model
from roofline.models.families import family
from roofline.models.families._parts import (
    Norm,
    ResidualAdd,
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
    side_by_side,
)
from roofline.models.fields import Fields

_KINDS = {"full_attention": "full", "sliding_attention": "sliding"}


def _first_dense(fields: Fields, layers: int, first: int) -> list[bool]:
    """Which layers have experts: those listed, else all but the first ones."""
    named = "mlp_layer_types" in fields or "first_k_dense_replace" in fields
    return expert_layers(fields, layers) if named else [number >= first for number in range(layers)]


def _windows(fields: Fields, layers: int, every: int) -> list[str]:
    """Which layers see a window: those listed, else all but each ``every``-th; none where that is 0."""
    if "layer_types" in fields or not every:
        return layer_types(fields, layers, _KINDS)
    return ["sliding" if (number + 1) % every else "full" for number in range(layers)]


@family("hy_v3")
def hunyuan(fields: Fields) -> Model:
    """Read a Hy3: queries and keys normalised head by head, a dense layer first, a shared expert."""
    shape = Shape(fields)
    fields.ignore("router_scaling_factor", "enable_moe_fp32_combine", "enable_attention_fp32_softmax", "qk_norm")
    fields.ignore("enable_lm_head_fp32", "moe_router_enable_expert_bias", "moe_router_use_sigmoid", "route_norm")
    act, bias = activation(fields, "hidden_act"), fields.flag("attention_bias", False)
    shared = fields.size("moe_intermediate_size") * fields.count("num_shared_experts")
    experts = routed(fields, shape, act, experts=("num_experts",), shared=shared, scored="sigmoid")
    mlp = dense(fields, shape, act, bias=fields.flag("mlp_bias", False))
    mixer = attention(shape, norm="head", bias=bias, out_bias=bias)
    layers = [
        decoder_layer(shape.width, mixer, experts if sparse else mlp)
        for sparse in _first_dense(fields, shape.layers, 1)
    ]
    last = decoder_layer(shape.width, mixer, experts)
    return make(fields, shape, layers, **prediction(shape.width, [last] * fields.count("num_nextn_predict_layers")))


@family("mellum", "laguna")
def mellum(fields: Fields) -> Model:
    """Read a Mellum or a Laguna; the second has gates of attention, numbers of heads by layer and a shared expert."""
    laguna = fields.kind == "laguna"
    shape = Shape(fields)
    fields.ignore("sliding_window", "mtp_layer_types", "mtp_mlp_layer_types", "moe_router_logit_softcapping")
    fields.ignore("moe_routed_scaling_factor", "intermediate_size", "swa_rope_parameters")
    act, bias = activation(fields, "hidden_act"), fields.flag("attention_bias", False)
    experts = routed(
        fields, shape, act, experts=("num_experts",), shared=fields.count("shared_expert_intermediate_size"),
        scored="sigmoid" if laguna else "softmax",
        router_scales=(("gate.e_score_correction_bias", fields.size("num_experts")),) if laguna else (),
    )  # fmt: skip
    gate = ("head" if fields.get("gating", True) in (True, "per-head") else "full") if laguna else None
    heads = fields.listed("num_attention_heads_per_layer", shape.layers) or [shape.heads] * shape.layers
    kinds = _windows(fields, shape.layers, 0)

    def layer(kind: str, sparse: bool, count: int) -> Layer:
        mixer = attention(
            shape, heads=count, norm="head", bias=bias, out_bias=bias, gate=gate, rotary=_turned(fields, shape, kind),
            window=fields.size("sliding_window") if kind == "sliding" else None,
        )  # fmt: skip
        return decoder_layer(shape.width, mixer, experts if sparse else dense(fields, shape, act))

    sparse = _first_dense(fields, shape.layers, 1 if laguna else 0)
    layers = [layer(*each) for each in zip(kinds, sparse, heads[: shape.layers], strict=True)]
    more = [layer("sliding", True, shape.heads)] * fields.count("num_mtp_layers")
    return make(fields, shape, layers, **prediction(shape.width, more))


def _turned(fields: Fields, shape: Shape, kind: str) -> int:
    """How much of a head is rotated, where the configuration says it by kind of layer."""
    parameters = fields.section("rope_parameters")
    of = parameters.section(f"{kind}_attention") if parameters else None
    share = of.share("partial_rotary_factor") if of else None
    return shape.rotary if share is None else int(shape.head * share)


@family("afmoe")
def afmoe(fields: Fields) -> Model:
    """Read an AFMoE (Trinity): norms before and after each block, gated attention that rotates under windows alone."""
    shape = Shape(fields)
    width = shape.width
    fields.ignore("route_scale", "mup_enabled", "route_norm", "score_func", "load_balance_coeff", "num_limited_groups")
    fields.ignore("num_expert_groups", "use_grouped_mm")
    act, bias = activation(fields, "hidden_act"), fields.flag("attention_bias", False)
    experts: Block = routed(
        fields, shape, act, experts=("num_experts",), scored="sigmoid",
        shared=fields.size("moe_intermediate_size") * fields.size("num_shared_experts", default=2),
        router_scales=(("expert_bias", fields.size("num_experts")),),
        names=("router.gate", "experts", "shared_experts"),
    )  # fmt: skip
    mlp = dense(fields, shape, act)
    kinds = _windows(fields, shape.layers, fields.size("global_attn_every_n_layers", default=4))
    first = fields.count("num_dense_layers") if "num_dense_layers" in fields else 1

    def layer(kind: str, sparse: bool) -> Layer:
        local = kind == "sliding"
        mixer = attention(
            shape, norm="head", gate="full", bias=bias, out_bias=bias, rotary=shape.rotary if local else 0,
            window=fields.size("sliding_window", default=1024) if local else None,
        )  # fmt: skip
        return Layer(
            (
                Norm("input_layernorm", width), mixer, Norm("post_attention_layernorm", width),
                ResidualAdd("add_attention"),
                Norm("pre_mlp_layernorm", width), experts if sparse else mlp, Norm("post_mlp_layernorm", width),
                ResidualAdd("add_feed_forward"),
            )
        )  # fmt: skip

    return make(fields, shape, [layer(kind, number >= first) for number, kind in enumerate(kinds)])


@family("cohere2_moe")
def cohere(fields: Fields) -> Model:
    """Read a Command mixture: one norm for attention and experts; layers that see everything do not rotate."""
    shape = Shape(fields)
    fields.ignore("shared_expert_combination_strategy", "prefix_dense_sliding_window_pattern", "sliding_window_pattern")
    act, bias = activation(fields, "hidden_act"), fields.flag("attention_bias", False)
    norm: tuple[str, bool] = ("rms_norm" if "rms_norm_eps" in fields else "layer_norm", False)
    wide = fields.size("intermediate_size")
    experts = routed(
        fields, shape, act, experts=("num_experts",), hidden=("intermediate_size",),
        shared=wide * fields.count("num_shared_experts"), scored=str(fields.get("expert_selection_fn", "softmax")),
    )  # fmt: skip
    prefix = fields.count("first_k_dense_replace")
    sparse = _first_dense(fields, shape.layers, prefix)
    kinds = layer_types(fields, shape.layers, _KINDS)
    # dense layers that come first see windows in a pattern of their own
    own = fields.size("prefix_dense_sliding_window_pattern", default=1)
    every = fields.size("sliding_window_pattern", default=4)
    if "layer_types" not in fields:
        kinds = ["sliding" if (i + 1) % own else "full" for i in range(prefix)]
        kinds += ["sliding" if (i + 1) % every else "full" for i in range(shape.layers - prefix)]

    def layer(kind: str, routes: bool) -> Layer:
        local, turned = kind == "sliding", kind == "sliding" or (own == 1 and not routes)
        mixer: Attention = attention(
            shape, bias=bias, out_bias=bias, rotary=shape.rotary if turned else 0,
            window=fields.size("sliding_window", default=4096) if local else None,
        )  # fmt: skip
        feed: Any = experts if routes else dense(fields, shape, act, size="prefix_dense_intermediate_size")
        return side_by_side(shape.width, mixer, feed, *norm)

    layers = [layer(kind, routes) for kind, routes in zip(kinds, sparse, strict=True)]
    return make(fields, shape, layers, norm, tied=True)
