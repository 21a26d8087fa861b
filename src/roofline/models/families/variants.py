"""Dense decoders that vary Llama's: norms elsewhere or of another kind, biases (OLMo, GLM-4, EXAONE …)."""

from __future__ import annotations

from typing import Any

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
    limited,
    make,
    routed,
    unscaled,
)
from roofline.models.fields import Fields

_KINDS = {"full_attention": "full", "sliding_attention": "sliding"}


@family("olmo2", "olmo3", "exaone4", "flex_olmo")
def norms_after(fields: Fields) -> Model:
    """Read an OLMo 2 or 3, FlexOlmo or EXAONE 4: norms after each block, queries and keys normalised."""
    shape = Shape(fields)
    width, exaone = shape.width, fields.kind == "exaone4"
    fields.ignore("sliding_window", "sliding_window_pattern")
    bias = fields.flag("attention_bias", False)
    kinds = layer_types(fields, shape.layers, _KINDS)
    window = fields.optional("sliding_window")
    if "layer_types" not in fields and window and fields.kind != "olmo2":
        pattern = fields.get("sliding_window_pattern", 4)
        kinds = ["full" if full else "sliding" for full in _pattern(pattern, shape.layers)]
    act = activation(fields, "hidden_act")
    mlp: Block = dense(fields, shape, act)
    if fields.kind == "flex_olmo":
        mlp = routed(fields, shape, act, experts=("num_experts",), hidden=("intermediate_size",), shared=0)
    after = (Norm("post_attention_layernorm", width), ResidualAdd("add_attention"))
    ends = (Norm("post_feedforward_layernorm", width), ResidualAdd("add_feed_forward"))

    def layer(kind: str) -> Layer:
        mixer = attention(
            shape, bias=bias, out_bias=bias, norm="head" if exaone else "full",
            window=window if kind == "sliding" else None,
            rotary=0 if exaone and window and kind == "full" else shape.rotary,
        )  # fmt: skip
        return Layer((mixer, *after, mlp, *ends))

    return make(fields, shape, [layer(kind) for kind in kinds])


def _pattern(pattern: Any, layers: int) -> list[bool]:
    """Which layers see all: every so many, or by the letters of a pattern such as LLLG."""
    if isinstance(pattern, str):
        return [pattern[number % len(pattern)] == "G" for number in range(layers)]
    return [(number + 1) % int(pattern) == 0 for number in range(layers)]


@family("exaone_moe")
def exaone(fields: Fields) -> Model:
    """Read an EXAONE mixture: EXAONE 4's attention behind norms, dense layers first, shared experts."""
    shape = Shape(fields)
    act = activation(fields, "hidden_act")
    kinds = layer_types(fields, shape.layers, _KINDS)
    window, pattern = fields.optional("sliding_window"), fields.get("sliding_window_pattern", 4)
    if "layer_types" not in fields and window:
        kinds = ["full" if full else "sliding" for full in _pattern(pattern, shape.layers)]
    width = fields.size("moe_intermediate_size")
    experts = routed(
        fields, shape, act, experts=("num_experts",), shared=width * fields.count("num_shared_experts"),
        scored="sigmoid", limit=limited(fields, fields.size("num_experts")),
    )  # fmt: skip
    mlp = dense(fields, shape, act)
    layers = [
        decoder_layer(
            shape.width,
            attention(
                shape, norm="head", window=window if kind == "sliding" else None,
                rotary=0 if window and kind == "full" else shape.rotary,
            ),
            experts if sparse else mlp,
        )
        for kind, sparse in zip(kinds, expert_layers(fields, shape.layers), strict=True)
    ]  # fmt: skip
    return make(fields, shape, layers)


@family("bitnet")
def bitnet(fields: Fields) -> Model:
    """Read a BitNet: a norm before each block's last matrix as well, squared ReLU."""
    shape = Shape(fields)
    bias = fields.flag("attention_bias", False)
    mixer = attention(shape, bias=bias, out_bias=bias, out_norm=True)
    mlp = dense(fields, shape, activation(fields, "hidden_act", default="relu2"), norm=True)
    return make(fields, shape, [decoder_layer(shape.width, mixer, mlp)] * shape.layers)


@family("olmo")
def olmo(fields: Fields) -> Model:
    """Read an OLMo: norms without a scale."""
    shape = Shape(fields)
    fields.ignore("clip_qkv")
    bias = fields.flag("attention_bias", False)
    mlp = dense(fields, shape, activation(fields, "hidden_act"))
    layer = unscaled(decoder_layer(shape.width, attention(shape, bias=bias, out_bias=bias), mlp, "layer_norm"))
    end = Norm("norm", shape.width, "layer_norm", scaled=False)
    return make(fields, shape, [layer] * shape.layers, after=(end,))


def _normed_twice(width: int, mixer: Block, mlp: Block, names: tuple[str, str]) -> Layer:
    """The usual layer with a norm after each block as well."""
    first, block, add, second, feed_forward, add_again = decoder_layer(width, mixer, mlp).blocks
    return Layer((first, block, Norm(names[0], width), add, second, feed_forward, Norm(names[1], width), add_again))


@family("hyperclovax")
def hyperclova(fields: Fields) -> Model:
    """Read a HyperCLOVA X: Granite's scales, which cost nothing, and norms after each block unless it has none."""
    shape = Shape(fields)
    bias = fields.flag("attention_bias", False)
    mixer = attention(shape, bias=bias, out_bias=bias)
    mlp = dense(fields, shape, activation(fields, "hidden_act"), bias=fields.flag("mlp_bias", False))
    layer = decoder_layer(shape.width, mixer, mlp)
    if fields.flag("use_post_norm", True):
        layer = _normed_twice(shape.width, mixer, mlp, ("post_norm1", "post_norm2"))
    return make(fields, shape, [layer] * shape.layers)


@family("glm", "glm4")
def glm(fields: Fields) -> Model:
    """Read a GLM-4: biases on q, k, v, half of each head rotated; the newer with norms after each block as well."""
    shape = Shape(fields)
    width = shape.width
    share = fields.get("partial_rotary_factor") is None and fields.get("rope_parameters") is None
    mixer = attention(
        shape, bias=fields.flag("attention_bias", False), rotary=shape.head // 2 if share else shape.rotary
    )
    mlp = dense(fields, shape, activation(fields, "hidden_act"))
    layer = decoder_layer(width, mixer, mlp)
    if fields.kind == "glm4":
        layer = _normed_twice(width, mixer, mlp, ("post_self_attn_layernorm", "post_mlp_layernorm"))
    return make(fields, shape, [layer] * shape.layers)


@family("ernie4_5")
def ernie(fields: Fields) -> Model:
    """Read an ERNIE 4.5: one switch for all biases."""
    shape = Shape(fields)
    bias = fields.flag("use_bias", False)
    mlp = dense(fields, shape, activation(fields, "hidden_act"), bias=bias)
    layer = decoder_layer(shape.width, attention(shape, bias=bias, out_bias=bias), mlp)
    return make(fields, shape, [layer] * shape.layers, tied=True)


@family("hunyuan_v1_dense")
def hunyuan(fields: Fields) -> Model:
    """Read a dense Hunyuan: norms of each head's queries and keys."""
    shape = Shape(fields)
    fields.ignore("use_qk_norm", "use_cla", "cla_share_factor", "attention_head_dim", "mlp_bias", "norm_type")
    fields.ignore("use_rotary_pos_emb", "eod_token_id", "im_end_id", "im_start_id", "im_newline_id", "pad_id", "sep_id")
    fields.ignore("text_start_id", "text_end_id", "mask_init_id", "org_vocab_size", "pool_type", "class_num")
    bias = fields.flag("attention_bias", False)
    mlp = dense(fields, shape, activation(fields, "hidden_act"))
    layer = decoder_layer(shape.width, attention(shape, norm="head", bias=bias, out_bias=bias), mlp)
    return make(fields, shape, [layer] * shape.layers)


@family("internlm2", "baichuan", "exaone")
def remote(fields: Fields) -> Model:
    """Read what comes with code of its own: InternLM 2 and EXAONE 3 (grouped heads), Baichuan (a head of keys each)."""
    shape = Shape(fields)
    fields.ignore(
        "model_max_length", "z_loss_weight", "_from_model_config", "attn_implementation", "position_embedding"
    )
    bias = fields.flag("bias", False)
    mlp = dense(fields, shape, activation(fields, "hidden_act", "activation_function"))
    # the larger Baichuan has slopes of scores in place of rotation
    rotary = 0 if fields.kind == "baichuan" and shape.width == 5120 else shape.rotary
    layer = decoder_layer(shape.width, attention(shape, bias=bias, out_bias=bias, rotary=rotary), mlp)
    return make(fields, shape, [layer] * shape.layers)
