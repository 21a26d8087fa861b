"""ModernBERT: an encoder with rotated heads, a gated MLP, and windows in two layers of three."""

from __future__ import annotations

from roofline.models.description import Layer, Model
from roofline.models.families import family
from roofline.models.families._parts import (
    Norm,
    Shape,
    activation,
    attention,
    decoder_layer,
    dense,
    layer_types,
    make,
)
from roofline.models.fields import Fields

_KINDS = {"full_attention": "full", "sliding_attention": "sliding"}


@family("modernbert")
def read(fields: Fields) -> Model:
    """Read the encoder without a head; the first layer's attention has no norm before it."""
    fields.ignore(
        "initializer_cutoff_factor", "embedding_dropout", "mlp_dropout", "decoder_bias", "classifier_pooling",
        "classifier_bias", "classifier_activation", "deterministic_flash_attn", "sparse_prediction", "local_rope_theta",
        "sparse_pred_ignore_index", "global_rope_theta", "reference_compile", "repad_logits_with_grad",
        "tie_word_embeddings", "layer_norm_eps", "position_embedding_type",
    )  # fmt: skip
    shape = Shape(fields)
    width, shift = shape.width, fields.flag("norm_bias", False)
    bias = fields.flag("attention_bias", False)
    mlp = dense(
        fields, shape, activation(fields, "hidden_activation", default="gelu"), bias=fields.flag("mlp_bias", False)
    )
    every = fields.size("global_attn_every_n_layers", default=3)
    kinds = layer_types(fields, shape.layers, _KINDS)
    if "layer_types" not in fields:
        kinds = ["sliding" if number % every else "full" for number in range(shape.layers)]
    window = fields.size("local_attention", default=128)

    def layer(number: int, kind: str) -> Layer:
        mixer = attention(
            shape, "attn", bias=bias, out_bias=bias, causal=False, window=window if kind == "sliding" else None
        )
        made = decoder_layer(width, mixer, mlp, "layer_norm", shift, ("attn_norm", "mlp_norm"))
        return made if number else Layer(made.blocks[1:])

    first = Norm("embeddings.norm", width, "layer_norm", shift, restarts=True)
    return make(
        fields, shape, [layer(*each) for each in enumerate(kinds)], ("layer_norm", shift), ends="final_norm",
        causal=False, head=False, before=(first,), embedding_name="embeddings.tok_embeddings",
    )  # fmt: skip
