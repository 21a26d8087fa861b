"""Layer norms and biases: GPT-2 and GPT-3, GPT-Neo, BigCode, OPT, BLOOM, MPT, and BERT, which sees both ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.errors import InputError
from roofline.models.blocks.residual import Linear, PositionEmbedding
from roofline.models.description import Block, Layer, Model
from roofline.models.families import family
from roofline.models.families._parts import Mlp, Norm, ResidualAdd, Shape, activation, attention, decoder_layer, make
from roofline.models.fields import Fields

#: Norms with a scale and a shift.
_NORM = ("layer_norm", True)
_BIASED: dict[str, Any] = {"bias": True, "out_bias": True}


def _wide(fields: Fields, shape: Shape, names: tuple[str, str], *sizes: str, bias: bool = True, act: str = "") -> Mlp:
    """An MLP without a gate; four times the width where the configuration says nothing."""
    hidden = fields.size(*sizes, default=4 * shape.width) if sizes else 4 * shape.width
    return Mlp("mlp", shape.width, hidden, False, act, bias, ("", *names))


def _normed_after(width: int, mixer: Block, mlp: Block, names: tuple[str, str]) -> Layer:
    """A layer whose norms stand behind what they add, as BERT's do."""
    return Layer(
        (
            mixer, ResidualAdd("add_attention"), Norm(names[0], width, *_NORM, True),
            mlp, ResidualAdd("add_feed_forward"), Norm(names[1], width, *_NORM, True),
        )
    )  # fmt: skip


@family("gpt2", "gpt_bigcode", "gpt-sw3")
def gpt(fields: Fields) -> Model:
    """Read a GPT-2, or a BigCode model, whose heads of keys may be one for all."""
    shape = Shape(fields)
    bigcode = fields.kind == "gpt_bigcode"
    fields.ignore(
        "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner", "validate_runner_input"
    )
    fields.ignore("pre_allocate_kv_cache", "max_sequence_length", "max_batch_size")
    heads = 1 if bigcode and fields.flag("multi_query", True) else shape.heads
    act = activation(fields, "activation_function", default="gelu_pytorch_tanh" if bigcode else "gelu_new")
    mixer = attention(shape, "attn", kv_heads=heads, rotary=0, **_BIASED)
    layer = decoder_layer(
        shape.width, mixer, _wide(fields, shape, ("c_fc", "c_proj"), "n_inner", act=act), *_NORM, ("ln_1", "ln_2")
    )
    positions = fields.size("n_positions", "n_ctx", default=1024)
    return make(
        fields, shape, [layer] * shape.layers, _NORM, tied=True, ends="ln_f", prefix="transformer.",
        before=(PositionEmbedding("wpe", positions, shape.width),), context=positions, embedding_name="wte",
    )  # fmt: skip


@family("gpt_neo")
def neo(fields: Fields) -> Model:
    """Read a GPT-Neo: every second layer sees a window, as ``attention_types`` says; no biases on q, k, v."""
    fields.ignore("attention_types", "attention_layers")
    shape = Shape(fields)
    kinds = fields.listed("attention_layers", shape.layers)
    if kinds is None:
        kinds = []
        for run in fields.listed("attention_types") or []:
            known = isinstance(run, list) and len(run) == 2 and isinstance(run[0], list) and isinstance(run[1], int)
            kinds += run[0] * run[1] if known else ["?"]
    if len(kinds) < shape.layers or any(kind not in ("global", "local") for kind in kinds):
        raise InputError(
            f"attention_types of {fields.name} is not understood", hint="'global' or 'local' for every layer"
        )
    window = fields.size("window_size", default=256)
    act = activation(fields, "activation_function", default="gelu_new")
    mlp = _wide(fields, shape, ("c_fc", "c_proj"), "intermediate_size", act=act)
    layers = [
        decoder_layer(
            shape.width,
            attention(shape, "attn.attention", rotary=0, out_bias=True, window=window if kind == "local" else None),
            mlp, *_NORM, ("ln_1", "ln_2"),
        )
        for kind in kinds[: shape.layers]
    ]  # fmt: skip
    positions = fields.size("max_position_embeddings", default=2048)
    return make(
        fields, shape, layers, _NORM, tied=True, ends="ln_f", prefix="transformer.",
        before=(PositionEmbedding("wpe", positions, shape.width),), context=positions, embedding_name="wte",
    )  # fmt: skip


@family("bloom")
def bloom(fields: Fields) -> Model:
    """Read a BLOOM: a norm after the embedding, biases everywhere, no positions but a slope of each head's scores."""
    fields.ignore(
        "n_embed", "apply_residual_connection_post_layernorm", "slow_but_exact", "masked_softmax_fusion", "seq_length",
        "attention_softmax_in_fp32", "bias_dropout_fusion", "skip_bias_add", "skip_bias_add_qkv", "unk_token_id",
        "hidden_dropout", "offset_alibi", "num_attention_heads",
    )  # fmt: skip
    if "hidden_size" not in fields and "n_embed" in fields:
        fields = fields.renamed(n_embed="hidden_size")
    shape = Shape(fields)
    mixer = attention(shape, "self_attention", rotary=0, **_BIASED)
    mlp = _wide(fields, shape, ("dense_h_to_4h", "dense_4h_to_h"), act="gelu_pytorch_tanh")
    return make(
        fields, shape, [decoder_layer(shape.width, mixer, mlp, *_NORM)] * shape.layers, _NORM, tied=True, ends="ln_f",
        prefix="transformer.", embedding_name="word_embeddings",
        before=(Norm("word_embeddings_layernorm", shape.width, *_NORM),),
    )  # fmt: skip


@family("mpt")
def mpt(fields: Fields) -> Model:
    """Read an MPT: no biases, no positions but a slope of each head's scores."""
    inner = fields.section("attn_config")
    for field, usual in (("attn_type", "multihead_attention"), ("prefix_lm", False), ("qk_ln", False)):
        if inner is not None and inner.get(field, usual) != usual:
            raise InputError(f"{field} in attn_config of {fields.name} is {inner.get(field)!r}", hint="it is not read")
    fields.ignore(
        "learned_pos_emb", "init_device", "no_bias", "embedding_fraction", "norm_type", "emb_pdrop", "verbose",
        "init_config", "emb_prob_drop", "logit_scale", "max_seq_len",
    )  # fmt: skip
    shape = Shape(fields)
    hidden = fields.size("expansion_ratio", default=4) * shape.width
    mlp = Mlp("ffn", shape.width, hidden, False, "gelu", False, ("", "up_proj", "down_proj"))
    layer = decoder_layer(
        shape.width, attention(shape, "attn", rotary=0), mlp, "layer_norm", False, ("norm_1", "norm_2")
    )
    return make(
        fields, shape, [layer] * shape.layers, ("layer_norm", False), tied=True, ends="norm_f", prefix="transformer.",
        embedding_name="wte", context=fields.get("max_seq_len"),
    )  # fmt: skip


@family("bert", "roberta", "xlm-roberta", "camembert", "distilbert")
def bert(fields: Fields) -> Model:
    """Read a BERT encoder with its pooler and no head: every token sees every other.

    RoBERTa's table of positions has two more rows than it takes tokens; DistilBERT has no pooler and no token types.
    """
    fields.ignore("qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_")
    small = fields.kind == "distilbert"
    if small:
        fields = fields.renamed(dim="hidden_size", hidden_dim="intermediate_size", activation="hidden_act")
    shape = Shape(fields)
    width = shape.width
    mixer = attention(shape, "attention", rotary=0, causal=False, names=("query", "key", "value", "output"), **_BIASED)
    mlp = Mlp(
        "mlp", width, fields.size("intermediate_size"), False, activation(fields, "hidden_act", default="gelu"), True,
        ("", "intermediate", "output"),
    )  # fmt: skip
    layer = _normed_after(width, mixer, mlp, ("attention.output.LayerNorm", "output.LayerNorm"))
    positions = fields.size("max_position_embeddings", default=512)
    types = PositionEmbedding("token_type_embeddings", fields.size("type_vocab_size", default=2), width)
    before: tuple[Block, ...] = (
        PositionEmbedding("position_embeddings", positions, width),
        *(() if small else (types,)),
        Norm("embeddings.LayerNorm", width, *_NORM, True),
    )
    return make(
        fields, shape, [layer] * shape.layers, causal=False, head=False, prefix="bert.", after=(),
        context=positions if fields.kind in ("bert", "distilbert") else positions - 2,
        embedding_name="word_embeddings", before=before,
        final=() if small else (Linear("pooler", width, width, "tanh"),),
    )  # fmt: skip


@family("opt")
def opt(fields: Fields) -> Model:
    """Read an OPT: two more rows of positions than it takes tokens; one has a narrower table, norms after blocks."""
    shape = Shape(fields)
    width = shape.width
    table, first = fields.size("word_embed_proj_dim", default=width), fields.flag("do_layer_norm_before", True)
    for field, usual in (
        ("enable_bias", True), ("layer_norm_elementwise_affine", True), ("_remove_final_layer_norm", False),
    ):  # fmt: skip
        if fields.get(field, usual) != usual:
            raise InputError(f"{field} of {fields.name} is {fields.get(field)!r}", hint="that is not read")
    act = activation(fields, "activation_function", default="relu")
    mixer = attention(shape, rotary=0, names=("q_proj", "k_proj", "v_proj", "out_proj"), **_BIASED)
    mlp = Mlp("mlp", width, fields.size("ffn_dim"), False, act, True, ("", "fc1", "fc2"))
    names = ("self_attn_layer_norm", "final_layer_norm")
    layer = decoder_layer(width, mixer, mlp, *_NORM, names) if first else _normed_after(width, mixer, mlp, names)
    positions = fields.size("max_position_embeddings", default=2048)
    before: tuple[Block, ...] = (PositionEmbedding("embed_positions", positions + 2, width),)
    after: tuple[Block, ...] = (Norm("final_layer_norm", width, *_NORM),) if first else ()
    if table != width:
        before = (Linear("project_in", table, width, bias=False), *before)
        after = (*after, Linear("project_out", width, table, bias=False))
    model = make(
        fields, shape, [layer] * shape.layers, tied=True, context=positions, prefix="model.decoder.", before=before,
        after=after,
    )  # fmt: skip
    return replace(model, width=table)
