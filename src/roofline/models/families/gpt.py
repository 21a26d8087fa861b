"""Layer norms and biases: GPT-2 and GPT-3, OPT, GPT-NeoX, and BERT, which sees both ways."""

from __future__ import annotations

from roofline.errors import InputError
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.residual import Dense, Parallel, Positions
from roofline.models.description import Layer, Model
from roofline.models.families import family
from roofline.models.families._parts import Mlp, Norm, Residual, Shape, activation, decoder_layer
from roofline.models.fields import Fields


@family("gpt2")
def gpt(fields: Fields) -> Model:
    """Read a GPT-2; ``n_inner`` is four times the width where it is not given."""
    shape = Shape(fields)
    width = shape.width
    act = activation(fields, "activation_function", default="gelu_new")
    mlp = Mlp("mlp", width, fields.size("n_inner", default=4 * width), False, act, True, ("", "c_fc", "c_proj"))
    attention = Attention("attn", width, shape.heads, shape.heads, shape.head, shape.head, bias=True, out_bias=True)
    layer = decoder_layer(width, attention, mlp, "layer_norm", True, ("ln_1", "ln_2"))
    positions = fields.size("n_positions", "n_ctx", default=1024)
    return Model(
        name=fields.name,
        family=fields.kind,
        width=width,
        vocabulary=shape.vocabulary,
        layers=(layer,) * shape.layers,
        dtype="",
        before=(Positions("wpe", positions, width),),
        after=(Norm("ln_f", width, "layer_norm", True),),
        tied=fields.flag("tie_word_embeddings", True),
        context=positions,
        prefix="transformer.",
        embedding_name="wte",
    )


@family("bert")
def bert(fields: Fields) -> Model:
    """Read a BERT encoder with its pooler and no head: every token sees every other."""
    shape = Shape(fields)
    width = shape.width
    act = activation(fields, "hidden_act", default="gelu")
    attention = Attention(
        "attention",
        width,
        shape.heads,
        shape.heads,
        shape.head,
        shape.head,
        bias=True,
        out_bias=True,
        causal=False,
        names=("query", "key", "value", "output"),
    )
    mlp = Mlp("mlp", width, fields.size("intermediate_size"), False, act, True, ("", "intermediate", "output"))
    layer = Layer(
        (
            attention,
            Residual("add_attention"),
            Norm("attention.output.LayerNorm", width, "layer_norm", True, True),
            mlp,
            Residual("add_feed_forward"),
            Norm("output.LayerNorm", width, "layer_norm", True, True),
        )
    )
    positions = fields.size("max_position_embeddings", default=512)
    return Model(
        name=fields.name,
        family=fields.kind,
        width=width,
        vocabulary=shape.vocabulary,
        layers=(layer,) * shape.layers,
        dtype="",
        causal=False,
        head=False,
        context=positions,
        prefix="bert.",
        embedding_name="word_embeddings",
        before=(
            Positions("position_embeddings", positions, width),
            Positions("token_type_embeddings", fields.size("type_vocab_size", default=2), width),
            Norm("embeddings.LayerNorm", width, "layer_norm", True, True),
        ),
        final=(Dense("pooler", width, width, "tanh"),),
    )


@family("opt")
def opt(fields: Fields) -> Model:
    """Read an OPT: two more rows of positions than it takes tokens; the smallest one's projections are not read."""
    shape = Shape(fields)
    width = shape.width
    if fields.size("word_embed_proj_dim", default=width) != width or not fields.flag("do_layer_norm_before", True):
        raise InputError(
            f"{fields.name} projects its embedding or normalises after its blocks", hint="that is not read"
        )
    fields.ignore("enable_bias", "layer_norm_elementwise_affine")
    act = activation(fields, "activation_function", default="relu")
    attention = Attention(
        "self_attn",
        width,
        shape.heads,
        shape.heads,
        shape.head,
        shape.head,
        bias=True,
        out_bias=True,
        names=("q_proj", "k_proj", "v_proj", "out_proj"),
    )
    mlp = Mlp("mlp", width, fields.size("ffn_dim"), False, act, True, ("", "fc1", "fc2"))
    layer = decoder_layer(width, attention, mlp, "layer_norm", True, ("self_attn_layer_norm", "final_layer_norm"))
    positions = fields.size("max_position_embeddings", default=2048)
    return Model(
        name=fields.name,
        family=fields.kind,
        width=width,
        vocabulary=shape.vocabulary,
        layers=(layer,) * shape.layers,
        dtype="",
        before=(Positions("embed_positions", positions + 2, width),),
        after=(Norm("final_layer_norm", width, "layer_norm", True),),
        tied=fields.flag("tie_word_embeddings", True),
        context=positions,
        prefix="model.decoder.",
    )


@family("gpt_neox")
def neox(fields: Fields) -> Model:
    """Read a GPT-NeoX or Pythia: attention and MLP side by side, each behind a norm of its own."""
    shape = Shape(fields)
    width = shape.width
    bias = fields.flag("attention_bias", True)
    fields.ignore("rotary_pct", "rotary_emb_base")
    attention = Attention(
        "attention",
        width,
        shape.heads,
        shape.heads,
        shape.head,
        shape.head,
        bias=bias,
        out_bias=bias,
        rotary=int(shape.head * (fields.share("rotary_pct") or 1)) if "rotary_pct" in fields else shape.rotary,
    )
    act = activation(fields, "hidden_act", default="gelu")
    mlp = Mlp("mlp", width, fields.size("intermediate_size"), False, act, True, ("", "dense_h_to_4h", "dense_4h_to_h"))
    before = (
        Norm("input_layernorm", width, "layer_norm", True),
        Norm("post_attention_layernorm", width, "layer_norm", True),
    )
    if fields.flag("use_parallel_residual", True):
        layer = Layer((Parallel("", ((before[0], attention), (before[1], mlp))), Residual("add")))
    else:
        layer = Layer((before[0], attention, Residual("add_attention"), before[1], mlp, Residual("add_feed_forward")))
    return Model(
        name=fields.name,
        family=fields.kind,
        width=width,
        vocabulary=shape.vocabulary,
        layers=(layer,) * shape.layers,
        dtype="",
        after=(Norm("final_layer_norm", width, "layer_norm", True),),
        tied=shape.tied,
        context=fields.get("max_position_embeddings"),
        prefix="gpt_neox.",
        embedding_name="embed_in",
        head_name="embed_out",
    )
