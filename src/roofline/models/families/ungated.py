"""Dense decoders whose MLP has no gate: Arcee, Nemotron-4, StarCoder 2, Jais 2, Apertus, nanochat, Persimmon."""

from __future__ import annotations

from roofline.models.description import Model
from roofline.models.families import family
from roofline.models.families._parts import Mlp, Norm, Shape, activation, attention, decoder_layer, make, unscaled
from roofline.models.fields import Fields

_UP = ("", "up_proj", "down_proj")
_NORM = ("layer_norm", True)


@family("arcee", "nemotron", "starcoder2")
def ungated(fields: Fields) -> Model:
    """Read an MLP without a gate: squared ReLU (AFM, Nemotron-4, Minitron) or GELU (StarCoder 2)."""
    shape = Shape(fields)
    starcoder = fields.kind == "starcoder2"
    every = fields.flag("use_bias", True) if starcoder else False
    bias = fields.flag("attention_bias", every)
    norm = ("rms_norm", False) if fields.kind == "arcee" else _NORM
    if starcoder:
        fields.ignore("norm_type", "mlp_type", "embedding_dropout", "residual_dropout")
    act = activation(fields, "hidden_act", default="gelu_pytorch_tanh" if starcoder else "relu2")
    names = ("", "c_fc", "c_proj") if starcoder else _UP
    hidden = fields.size("intermediate_size")
    mlp = Mlp("mlp", shape.width, hidden, False, act, fields.flag("mlp_bias", every), names)
    half = fields.kind == "nemotron" and fields.get("partial_rotary_factor") is None
    half = half and fields.get("rope_parameters") is None
    mixer = attention(
        shape, bias=bias, out_bias=bias, rotary=shape.head // 2 if half else shape.rotary,
        window=fields.optional("sliding_window") if starcoder else None,
    )  # fmt: skip
    return make(fields, shape, [decoder_layer(shape.width, mixer, mlp, *norm)] * shape.layers, norm, tied=starcoder)


@family("jais2")
def jais(fields: Fields) -> Model:
    """Read a Jais 2: layer norms and biases, squared ReLU."""
    shape = Shape(fields)
    bias = fields.flag("attention_bias", True)
    act = activation(fields, "hidden_act", default="relu2")
    mlp = Mlp("mlp", shape.width, fields.size("intermediate_size"), False, act, fields.flag("mlp_bias", True), _UP)
    layer = decoder_layer(shape.width, attention(shape, bias=bias, out_bias=bias), mlp, *_NORM)
    return make(fields, shape, [layer] * shape.layers, _NORM)


@family("apertus")
def apertus(fields: Fields) -> Model:
    """Read an Apertus: queries and keys normalised head by head; its activation has two numbers of its own a layer."""
    shape = Shape(fields)
    fields.ignore("post_norm", "qk_norm")
    bias = fields.flag("attention_bias", False)
    act = activation(fields, "hidden_act", default="xielu")
    mlp = Mlp("mlp", shape.width, fields.size("intermediate_size"), False, act, fields.flag("mlp_bias", False), _UP)
    mixer = attention(shape, norm="head", bias=bias, out_bias=bias)
    layer = decoder_layer(shape.width, mixer, mlp, names=("attention_layernorm", "feedforward_layernorm"))
    return make(fields, shape, [layer] * shape.layers)


@family("nanochat")
def nanochat(fields: Fields) -> Model:
    """Read a nanochat: norms without a scale, one of them before the first layer, of queries and keys as well."""
    shape = Shape(fields)
    bias = fields.flag("attention_bias", False)
    act = activation(fields, "hidden_act", default="relu2")
    mlp = Mlp("mlp", shape.width, fields.size("intermediate_size"), False, act, False, ("", "fc1", "fc2"))
    layer = unscaled(decoder_layer(shape.width, attention(shape, bias=bias, out_bias=bias, norm="plain"), mlp))
    first = Norm("norm", shape.width, restarts=True, scaled=False)
    fields.ignore("final_logit_softcapping")
    end = Norm("norm", shape.width, scaled=False)
    return make(fields, shape, [layer] * shape.layers, before=(first,), after=(end,))


@family("persimmon")
def persimmon(fields: Fields) -> Model:
    """Read a Persimmon: layer norms and biases everywhere, half of each head rotated."""
    shape = Shape(fields)
    said = fields.get("partial_rotary_factor") is not None or fields.get("rope_parameters") is not None
    mixer = attention(
        shape, bias=True, out_bias=True, rotary=shape.rotary if said else shape.head // 2, norm_function="layer_norm",
        norm="head" if fields.flag("qk_layernorm", True) else None, norm_shift=True,
        names=("q_proj", "k_proj", "v_proj", "dense"),
    )  # fmt: skip
    act = activation(fields, "hidden_act", default="relu2")
    names = ("", "dense_h_to_4h", "dense_4h_to_h")
    mlp = Mlp("mlp", shape.width, fields.size("intermediate_size"), False, act, True, names)
    layer = decoder_layer(shape.width, mixer, mlp, *_NORM)
    return make(fields, shape, [layer] * shape.layers, _NORM, ends="final_layernorm")
