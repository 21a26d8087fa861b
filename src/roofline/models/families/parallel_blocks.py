"""Attention and MLP side by side: GPT-NeoX and Pythia, GPT-J, CodeGen, Phi, Falcon, Cohere, StableLM."""

from __future__ import annotations

from roofline.models.description import Model
from roofline.models.families import family
from roofline.models.families._parts import (
    Mlp,
    Shape,
    activation,
    attention,
    decoder_layer,
    dense,
    layer_types,
    make,
    side_by_side,
)
from roofline.models.fields import Fields

_NORM = ("layer_norm", True)
_KINDS = {"full_attention": "full", "sliding_attention": "sliding"}


@family("gpt_neox")
def neox(fields: Fields) -> Model:
    """Read a GPT-NeoX or Pythia: a norm for each of the two."""
    shape = Shape(fields)
    bias = fields.flag("attention_bias", True)
    fields.ignore("rotary_pct", "rotary_emb_base")
    rotary = int(shape.head * (fields.share("rotary_pct") or 1)) if "rotary_pct" in fields else shape.rotary
    mixer = attention(shape, "attention", bias=bias, out_bias=bias, rotary=rotary)
    act = activation(fields, "hidden_act", default="gelu")
    mlp = Mlp(
        "mlp", shape.width, fields.size("intermediate_size"), False, act, True, ("", "dense_h_to_4h", "dense_4h_to_h")
    )
    names = ("input_layernorm", "post_attention_layernorm")
    build = side_by_side if fields.flag("use_parallel_residual", True) else decoder_layer
    return make(
        fields, shape, [build(shape.width, mixer, mlp, *_NORM, names)] * shape.layers, _NORM, ends="final_layer_norm",
        prefix="gpt_neox.", embedding_name="embed_in", head_name="embed_out",
    )  # fmt: skip


@family("gptj", "codegen")
def gptj(fields: Fields) -> Model:
    """Read a GPT-J: one norm for both, biases in the MLP and the head alone."""
    shape = Shape(fields)
    mixer = attention(shape, "attn", names=("q_proj", "k_proj", "v_proj", "out_proj"))
    act = activation(fields, "activation_function", default="gelu_new")
    hidden = fields.size("n_inner", default=4 * shape.width)
    mlp = Mlp("mlp", shape.width, hidden, False, act, True, ("", "fc_in", "fc_out"))
    return make(
        fields, shape, [side_by_side(shape.width, mixer, mlp, names=("ln_1",))] * shape.layers, _NORM, ends="ln_f",
        prefix="transformer.", embedding_name="wte", head_bias=True,
    )  # fmt: skip


@family("phi")
def phi(fields: Fields) -> Model:
    """Read a Phi-1 or Phi-2: one norm for both, biases everywhere, half of each head rotated."""
    shape = Shape(fields)
    names = ("q_proj", "k_proj", "v_proj", "dense")
    share = fields.get("partial_rotary_factor") is None and fields.get("rope_parameters") is None
    mixer = attention(
        shape, bias=True, out_bias=True, names=names, rotary=shape.head // 2 if share else shape.rotary,
        norm="head" if fields.flag("qk_layernorm", False) else None, norm_function="layer_norm", norm_shift=True,
    )  # fmt: skip
    act = activation(fields, "hidden_act", default="gelu_new")
    mlp = Mlp("mlp", shape.width, fields.size("intermediate_size"), False, act, True, ("", "fc1", "fc2"))
    layers = [side_by_side(shape.width, mixer, mlp)] * shape.layers
    return make(fields, shape, layers, _NORM, ends="final_layernorm", head_bias=True)


@family("falcon")
def falcon(fields: Fields) -> Model:
    """Read a Falcon: one head of keys for all (7B), groups of them (40B, 180B, 11B), or one for each (RW)."""
    fields.ignore("ffn_hidden_size", "alibi", "n_layer", "n_head", "multi_query", "num_kv_heads", "ff_factor")
    fields.ignore("parallel_attn", "num_ln_in_parallel_attn")
    shape = Shape(fields)
    newer = fields.flag("new_decoder_architecture", False)
    kv_heads = shape.heads
    if newer:
        kv_heads = fields.size("num_kv_heads", "n_head_kv", default=shape.heads)
    elif fields.flag("multi_query", True):
        kv_heads = 1
    bias = fields.flag("bias", False)
    mixer = attention(
        shape, "self_attention", kv_heads=kv_heads, bias=bias, out_bias=bias,
        rotary=0 if fields.flag("alibi", False) else shape.rotary,
    )  # fmt: skip
    hidden = fields.size("ffn_hidden_size", default=4 * shape.width)
    act = activation(fields, "activation", default="gelu")
    mlp = Mlp("mlp", shape.width, hidden, False, act, bias, ("", "dense_h_to_4h", "dense_4h_to_h"))
    norms = fields.size("num_ln_in_parallel_attn", default=2 if newer else 1)
    if newer or fields.flag("parallel_attn", True):
        names = ("ln_attn", "ln_mlp") if newer and norms == 2 else ("input_layernorm",)
        layer = side_by_side(shape.width, mixer, mlp, names=names)
    else:
        layer = decoder_layer(shape.width, mixer, mlp, *_NORM)
    return make(
        fields, shape, [layer] * shape.layers, _NORM, tied=True, ends="ln_f", prefix="transformer.",
        embedding_name="word_embeddings",
    )  # fmt: skip


@family("cohere", "cohere2")
def cohere(fields: Fields) -> Model:
    """Read a Command R or A: one norm for both; the newer rotate and window three layers of four."""
    shape = Shape(fields)
    windowed = fields.kind == "cohere2"
    fields.ignore("sliding_window", "sliding_window_pattern", "use_gated_activation", "use_parallel_block")
    fields.ignore("use_parallel_embedding", "order_of_interleaved_layers", "layer_switch", "rotary_pct", "attn_type")
    bias = fields.flag("attention_bias", False)
    kinds = layer_types(fields, shape.layers, _KINDS)
    if windowed and "layer_types" not in fields:
        every = fields.size("sliding_window_pattern", default=4)
        kinds = ["full" if (i + 1) % every == 0 else "sliding" for i in range(shape.layers)]
    mlp = dense(fields, shape, activation(fields, "hidden_act"))
    norm = "full" if fields.flag("use_qk_norm", False) else None
    layers = [
        side_by_side(
            shape.width,
            attention(
                shape, bias=bias, out_bias=bias, norm=norm, norm_function="layer_norm",
                window=fields.size("sliding_window", default=4096) if kind == "sliding" else None,
                rotary=shape.rotary if kind == "sliding" or not windowed else 0,
            ),
            mlp, shift=False,
        )
        for kind in kinds
    ]  # fmt: skip
    return make(fields, shape, layers, ("layer_norm", False), tied=True)


@family("stablelm")
def stablelm(fields: Fields) -> Model:
    """Read a StableLM: a gated MLP after or beside attention, a quarter of each head rotated."""
    shape = Shape(fields)
    share = fields.get("partial_rotary_factor") is None and fields.get("rope_parameters") is None
    mixer = attention(
        shape, bias=fields.flag("use_qkv_bias", False), rotary=shape.head // 4 if share else shape.rotary,
        norm="full" if fields.flag("qk_layernorm", False) else None, norm_function="layer_norm",
    )  # fmt: skip
    mlp = dense(fields, shape, activation(fields, "hidden_act"))
    build = side_by_side if fields.flag("use_parallel_residual", False) else decoder_layer
    return make(fields, shape, [build(shape.width, mixer, mlp, *_NORM)] * shape.layers, _NORM)
