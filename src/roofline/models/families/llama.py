"""Llama and those built like it: grouped-query attention, a gated MLP, RMS norms (Mistral, Qwen2, Qwen3, MiMo …)."""

from __future__ import annotations

from roofline.models.description import Model
from roofline.models.families import family
from roofline.models.families._parts import (
    Shape,
    activation,
    attention,
    decoder_layer,
    dense,
    layer_types,
    make,
    prediction,
)
from roofline.models.fields import Fields

_KINDS = {"full_attention": "full", "sliding_attention": "sliding"}
#: Types whose windows count wherever the configuration gives a width; elsewhere ``use_sliding_window`` decides.
_WINDOWED = ("mistral", "ministral", "ministral3", "phi3", "cwm", "granite_swa", "granitemoe_swa")
#: Types of which one layer in four sees everything, the first of them.
_FIRST_OF_FOUR = ("cwm", "granite_swa", "granitemoe_swa")
#: Types whose biases of q, k and v leave the output's matrix without one.
_OWN_BIASES = ("qwen2", "mimo", "seed_oss", "helium")


@family(
    "llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3", "mimo", "smollm3", "seed_oss", "granite", "phi3",
    "gemma", "cwm", "helium", "internlm3", "iquestcoder", "granite_swa",
)  # fmt: skip
def read(fields: Fields) -> Model:
    """Read a dense decoder; Qwen2 and MiMo have biases on q, k, v, Qwen3 norms on each head's q and k."""
    if fields.kind == "internlm3":
        fields = fields.renamed(qkv_bias="attention_bias", bias="mlp_bias")
    shape = Shape(fields)
    kind = fields.kind
    mlp = dense(
        fields, shape, activation(fields, "hidden_activation", "hidden_act"), bias=fields.flag("mlp_bias", False)
    )
    bias = fields.flag("attention_bias", kind in ("qwen2", "mimo"))
    out_bias = fields.flag("attention_out_bias", bias and kind not in _OWN_BIASES)
    kinds = windows(fields, shape.layers)
    window = fields.optional("sliding_window") if "sliding" in kinds else None
    layers = [
        decoder_layer(
            shape.width,
            attention(
                shape,
                bias=bias,
                out_bias=out_bias,
                norm="head" if kind == "qwen3" else None,
                rotary=shape.rotary if turned else 0,
                sinks=kind == "granite_swa",
                window=window if of == "sliding" else None,
            ),
            mlp,
        )
        for of, turned in zip(kinds, rotated(fields, shape.layers), strict=True)
    ]
    more = prediction(shape.width, [layers[-1]] * fields.count("num_nextn_predict_layers"))
    return make(fields, shape, layers, tied=kind == "gemma", **more)


def windows(fields: Fields, layers: int) -> list[str]:
    """Which layers see a window: those listed, else all from ``max_window_layers`` on where windows are switched on."""
    fields.ignore("sliding_window", "max_window_layers")
    switched = fields.flag("use_sliding_window", fields.kind in _WINDOWED)
    if "layer_types" in fields:
        return layer_types(fields, layers, _KINDS)
    if not switched or fields.get("sliding_window") is None:
        return ["full"] * layers
    if fields.kind in _FIRST_OF_FOUR:
        return ["sliding" if i % 4 else "full" for i in range(layers)]
    first = fields.count("max_window_layers") if fields.kind.startswith("qwen") else 0
    return ["full" if i < first else "sliding" for i in range(layers)]


def rotated(fields: Fields, layers: int) -> list[bool]:
    """Which layers rotate queries and keys by their positions: all but those SmolLM3 and Granite leave out."""
    thetas = fields.listed("layer_rope_theta", layers)
    if thetas is not None:
        return [bool(theta) for theta in thetas[:layers]]
    fields.ignore("no_rope_layer_interval")
    listed = fields.listed("no_rope_layers", layers)
    return [True] * layers if listed is None else [bool(flag) for flag in listed[:layers]]
