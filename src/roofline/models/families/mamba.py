"""Mamba and its hybrids: Mamba 1 and 2, Falcon Mamba, Jamba, Bamba, Granite 4, Falcon H1; LFM2's short convolutions."""

from __future__ import annotations

from typing import Any

from roofline.errors import InputError, suggest
from roofline.models.blocks.recurrent import Mamba1, Mamba2, ShortConvolution
from roofline.models.blocks.residual import ParallelBranches
from roofline.models.description import Block, Layer, Model
from roofline.models.families import family
from roofline.models.families._parts import (
    Mlp,
    Norm,
    ResidualAdd,
    Shape,
    activation,
    attention,
    decoder_layer,
    dense,
    make,
    routed,
)
from roofline.models.fields import Fields

_KINDS = {
    "mamba": "mamba", "linear_attention": "mamba", "attention": "attention", "full_attention": "attention",
    "hybrid": "hybrid", "conv": "conv",
}  # fmt: skip
#: What a model without attention says of its heads, so that the usual shape can be read.
_NO_HEADS: dict[str, Any] = {"num_attention_heads": 1, "head_dim": 1}


@family("mamba", "falcon_mamba", "mamba2")
def pure(fields: Fields) -> Model:
    """Read a model of mixers alone."""
    mixer = _second(fields, "") if fields.kind == "mamba2" else _first(fields)
    fields.ignore(
        "time_step_scale", "time_step_init_scheme", "use_mambapy", "use_associative_scan", "hidden_act", "head_dim",
        "num_heads", "intermediate_size", "expand", "mixer_rms_eps", "fused_add_norm", "rms_norm", "norm_before_gate",
        "d_inner", "ssm_cfg", "d_model", "n_layer", "pad_vocab_size_multiple",
    )  # fmt: skip
    shape = Shape(fields.given(**_NO_HEADS))
    layer = Layer((Norm("norm", shape.width), mixer, ResidualAdd("add")))
    return make(
        fields, shape, [layer] * shape.layers, tied=fields.kind != "mamba2", ends="norm_f", prefix="backbone.",
        embedding_name="embeddings", context=None,
    )  # fmt: skip


def _first(fields: Fields, prefix: str = "", name: str = "mixer") -> Mamba1:
    """A Mamba mixer; the step widths' rank is a sixteenth of the width where nothing is said."""
    width = fields.size("hidden_size")
    rank = f"{prefix}dt_rank" if prefix else "time_step_rank"
    long = bool(prefix)
    inner = width * fields.size(f"{prefix}expand" if long else "expand", default=2)
    return Mamba1(
        name,
        width,
        inner if long or fields.get("intermediate_size") is None else fields.size("intermediate_size"),
        fields.size("mamba_d_state" if long else "state_size", default=16),
        -(-width // 16) if fields.get(rank, "auto") == "auto" else fields.size(rank),
        fields.size("mamba_d_conv" if long else "conv_kernel", default=4),
        fields.flag("mamba_proj_bias" if long else "use_bias", False),
        fields.flag("mamba_conv_bias" if long else "use_conv_bias", True),
        norms=long or fields.kind == "falcon_mamba",
        plain=fields.kind == "falcon_mamba",
    )


def _second(fields: Fields, name: str, **more: Any) -> Mamba2:
    """A Mamba-2 mixer, under either set of names."""
    bias = fields.flag("mamba_proj_bias", False) or fields.flag("use_bias", False)
    return Mamba2(
        name or "mixer",
        fields.size("hidden_size"),
        fields.size("mamba_n_heads", "num_heads"),
        fields.size("mamba_d_head", "head_dim"),
        fields.size("mamba_n_groups", "n_groups", default=1),
        fields.size("mamba_d_state", "state_size"),
        fields.size("mamba_d_conv", "conv_kernel", default=4),
        bias,
        fields.flag("mamba_conv_bias", True) and fields.flag("use_conv_bias", True),
        **{"out_bias": bias, **more},
    )


def _kinds(fields: Fields, layers: int) -> list[str]:
    """Kinds of layer in order: listed, or attention where the usual fields of these families put it."""
    fields.ignore("attn_layer_indices", "attn_layer_period", "attn_layer_offset", "full_attn_idxs")
    listed = fields.listed("layers_block_type", layers) or fields.listed("layer_types", layers)
    if listed is not None:
        unknown = next((kind for kind in listed if kind not in _KINDS), None)
        if unknown is not None:
            hint = suggest(str(unknown), _KINDS, what="known here")
            raise InputError(f"layer type {unknown!r} of {fields.name} is not understood", hint=hint)
        return [_KINDS[kind] for kind in listed[:layers]]
    indices = fields.listed("attn_layer_indices") or fields.listed("full_attn_idxs")
    if indices is not None:
        return ["attention" if number in indices else "mamba" for number in range(layers)]
    if fields.kind == "bamba":
        return ["mamba"] * layers
    if "attn_layer_period" not in fields:
        raise InputError(f"{fields.name} has no layer_types", hint="a hybrid's configuration says which layers attend")
    period, offset = fields.size("attn_layer_period"), fields.count("attn_layer_offset")
    return ["attention" if number % period == offset else "mamba" for number in range(layers)]


@family("jamba")
def jamba(fields: Fields) -> Model:
    """Read a Jamba: attention without rotation in one layer of eight, experts in every second."""
    shape = Shape(fields)
    fields.ignore("use_mambapy", "use_associative_scan", "sliding_window", "mamba_dt_rank")
    act = activation(fields, "hidden_act")
    mixers = {"attention": attention(shape, rotary=0), "mamba": _first(fields, "mamba_", "mamba")}
    mlp = dense(fields, shape, act, name="feed_forward")
    experts: Block = mlp
    if fields.size("num_experts") > 1:
        experts = routed(
            fields, shape, act, name="feed_forward", experts=("num_experts",), hidden=("intermediate_size",), shared=0,
            names=("router", "experts", ""),
        )  # fmt: skip
    period, offset = fields.size("expert_layer_period", default=2), fields.count("expert_layer_offset")
    names = ("input_layernorm", "pre_ff_layernorm")
    layers = [
        decoder_layer(shape.width, mixers[kind], experts if number % period == offset else mlp, names=names)
        for number, kind in enumerate(_kinds(fields, shape.layers))
    ]
    return make(fields, shape, layers, ends="final_layernorm")


@family("bamba", "granitemoehybrid", "falcon_h1")
def hybrid(fields: Fields) -> Model:
    """Read a hybrid of Mamba 2 and attention: by layers (Bamba, Granite 4) or side by side in each (Falcon H1)."""
    fields.ignore(*_MULTIPLIERS, "mamba_expand", "mamba_chunk_size", "attn_rotary_emb", "mamba_use_mlp")
    shape = Shape(fields)
    act = activation(fields, "hidden_act")
    bias = fields.flag("attention_bias", False)
    rotary = (
        0 if fields.kind == "granitemoehybrid" and fields.get("position_embedding_type") != "rope" else shape.rotary
    )
    if fields.kind == "bamba" and fields.get("partial_rotary_factor") is None:
        rotary = shape.head // 2 if fields.get("rope_parameters") is None else shape.rotary
    attending = attention(shape, bias=bias, out_bias=bias, rotary=rotary)
    names = ("input_layernorm", "pre_ff_layernorm")
    if fields.kind == "falcon_h1":
        inner = fields.get("mamba_d_ssm")
        mixer = _second(
            fields, "mamba", normed=fields.flag("mamba_rms_norm", False),
            out_bias=fields.flag("projectors_bias", False),
        )  # fmt: skip
        if inner is not None and inner != mixer.inner:
            raise InputError(f"mamba_d_ssm of {fields.name} is {inner} and its heads make {mixer.inner}")
        both = ParallelBranches("", ((attending,), (mixer,)), inside=True)
        mlp = dense(fields, shape, act, name="feed_forward", bias=fields.flag("mlp_bias", False))
        layer = decoder_layer(shape.width, both, mlp, names=names)
        return make(fields, shape, [layer] * shape.layers, ends="final_layernorm")
    mixers: dict[str, Block] = {"attention": attending, "mamba": _second(fields, "mamba")}
    if fields.kind == "bamba":
        mlp = dense(fields, shape, act, name="feed_forward", bias=fields.flag("mlp_bias", False))
        layers = [decoder_layer(shape.width, mixers[k], mlp, names=names) for k in _kinds(fields, shape.layers)]
        return make(fields, shape, layers, ends="final_layernorm")
    feed_forward = _granite(fields, shape, act)
    return make(
        fields, shape, [decoder_layer(shape.width, mixers[k], feed_forward) for k in _kinds(fields, shape.layers)]
    )


def _granite(fields: Fields, shape: Shape, act: str) -> Block:
    """Experts beside the MLP that every token uses, or that alone."""
    wide = fields.size("shared_intermediate_size")
    fields.ignore("num_local_experts", "num_experts_per_tok", "intermediate_size")
    if not fields.get("num_local_experts"):
        return Mlp("shared_mlp", shape.width, wide, activation=act)
    return routed(
        fields, shape, act, name="block_sparse_moe", experts=("num_local_experts",), hidden=("intermediate_size",),
        shared=wide, names=("router", "experts", "shared_mlp"),
    )  # fmt: skip


#: Scales of parts of the model, and how the mixer's norm is applied: they change no cost worth counting.
_MULTIPLIERS = (
    "lm_head_multiplier", "embedding_multiplier", "mlp_multipliers", "key_multiplier", "attention_out_multiplier",
    "attention_in_multiplier", "ssm_multipliers", "ssm_in_multiplier", "ssm_out_multiplier", "mamba_norm_before_gate",
    "projectors_bias", "mlp_expansion_factor", "normalization_function", "init_method", "mamba_d_ssm",
)  # fmt: skip


@family("lfm2", "lfm2_moe")
def lfm2(fields: Fields) -> Model:
    """Read an LFM2: short gated convolutions, attention in some layers; the mixture has dense layers first."""
    fields.ignore(
        "block_multiple_of", "block_ffn_dim_multiplier", "block_auto_adjust_ff_dim", "block_dim", "block_ff_dim",
        "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_swiglu", "block_use_xavier_init",
        "conv_dim", "conv_dim_out", "conv_use_xavier_init", "num_dense_layers", "use_expert_bias", "num_heads",
        "use_pos_enc", "rotary_emb", "routed_scaling_factor", "tie_embedding", "max_seq_len",
    )  # fmt: skip
    shape = Shape(fields)
    width = shape.width
    tied = fields.get("tie_embedding", True)
    short = ShortConvolution("conv", width, fields.size("conv_L_cache"), fields.flag("conv_bias", False))
    attending = attention(shape, norm="head", names=("q_proj", "k_proj", "v_proj", "out_proj"))
    mixture = fields.kind == "lfm2_moe"
    hidden = fields.size("block_ff_dim", "intermediate_size")
    if not mixture and fields.flag("block_auto_adjust_ff_dim", True):
        hidden = int(fields.get("block_ffn_dim_multiplier", 1.0) * int(2 * hidden / 3))
        rounded = fields.size("block_multiple_of", default=256)
        hidden = -(-hidden // rounded) * rounded
    mlp: Block = Mlp("feed_forward", width, hidden, names=("w1", "w3", "w2"))
    experts = mlp
    if mixture:
        experts = routed(
            fields, shape, "silu", name="feed_forward", experts=("num_experts",), shared=0, scored="sigmoid"
        )
    first = fields.count("num_dense_layers") if mixture else shape.layers
    kinds = ["conv" if kind == "mamba" else kind for kind in _kinds(fields, shape.layers)]
    layers = [
        decoder_layer(
            width, attending if kind == "attention" else short, mlp if number < first else experts,
            names=("operator_norm", "ffn_norm"),
        )
        for number, kind in enumerate(kinds)
    ]  # fmt: skip
    return make(fields, shape, layers, tied=bool(tied), ends="embedding_norm")


@family("ernie4_5_moe")
def ernie(fields: Fields) -> Model:
    """Read an ERNIE 4.5 mixture: experts from one layer to another; one switch for all biases."""
    shape = Shape(fields)
    fields.ignore("moe_norm_min", "moe_capacity", "moe_use_aux_free", "moe_gate", "num_nextn_predict_layers")
    bias = fields.flag("use_bias", False)
    act = activation(fields, "hidden_act")
    width = fields.size("moe_intermediate_size")
    experts = routed(
        fields, shape, act, experts=("moe_num_experts",), each=("moe_k",),
        shared=width * fields.count("moe_num_shared_experts"),
        router_scales=(("gate.moe_statics.e_score_correction_bias", fields.size("moe_num_experts")),),
    )  # fmt: skip
    first, every = fields.count("moe_layer_start_index"), fields.size("moe_layer_interval", default=1)
    last = fields.count("moe_layer_end_index") if fields.get("moe_layer_end_index", -1) != -1 else shape.layers - 1
    mixer = attention(shape, bias=bias, out_bias=bias)
    mlp = dense(fields, shape, act, bias=bias)
    layers = [
        decoder_layer(shape.width, mixer, experts if (n + 1) % every == 0 and first <= n <= last else mlp)
        for n in range(shape.layers)
    ]
    return make(fields, shape, layers, tied=True)
