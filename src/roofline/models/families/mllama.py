"""Llama 3.2's vision models: a Llama with layers between that attend to pictures, and do not run without any."""

from __future__ import annotations

from roofline.models.blocks.residual import IdleBlocks, PositionEmbedding
from roofline.models.description import Layer, Model
from roofline.models.families import family
from roofline.models.families._parts import Norm, Shape, activation, attention, decoder_layer, dense, make
from roofline.models.fields import Fields

#: Where the layers stand in the smaller model, if nothing is said.
_USUAL = (3, 8, 13, 18, 23, 28, 33, 38)
#: Rows of the table beyond the vocabulary: words that only stand for pictures.
_SPECIAL = 8


@family("mllama_text_model")
def read(fields: Fields) -> Model:
    """Read the language part; what attends to pictures is held in memory, and not run."""
    shape = Shape(fields)
    width = shape.width
    mlp = dense(fields, shape, activation(fields, "hidden_act"))
    plain = decoder_layer(width, attention(shape), mlp)
    seeing = decoder_layer(width, attention(shape, "cross_attn", norm="head", rotary=0), mlp)
    numbers = fields.listed("cross_attention_layers")
    numbers = list(_USUAL) if numbers is None else numbers
    gates = (Norm("cross_attn_attn_gate", 1), Norm("cross_attn_mlp_gate", 1))
    blocks = tuple(block for block in seeing.blocks if block.weights())
    held = Layer((IdleBlocks("", (*blocks, *gates)),))
    layers = [held if number in numbers else plain for number in range(shape.layers)]
    skipped = sum(layer is held for layer in layers)
    said = f"{skipped} layers that attend to pictures are in memory and not run: pictures are not modelled"
    return make(
        fields, shape, layers, before=(IdleBlocks("embed_tokens.special", (PositionEmbedding("", _SPECIAL, width),)),),
        notes=(said,) if skipped else (),
    )  # fmt: skip
