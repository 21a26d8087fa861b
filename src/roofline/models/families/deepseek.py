"""Latent attention with shared and routed experts: DeepSeek-V2 and V3, Kimi-K2, GLM-5 (selected keys), MiniCPM 3."""

from __future__ import annotations

from roofline.errors import InputError
from roofline.models.blocks.latent_attention import Indexer, LatentAttention
from roofline.models.description import Layer, Model
from roofline.models.families import family
from roofline.models.families._parts import (
    Norm,
    Shape,
    activation,
    decoder_layer,
    dense,
    expert_layers,
    limited,
    make,
    prediction,
    routed,
)
from roofline.models.fields import Fields


@family("deepseek_v2", "deepseek_v3", "kimi_k2", "glm_moe_dsa", "deepseek_v32", "glm4_moe_lite", "mistral4", "axk1")
def read(fields: Fields) -> Model:
    """Read a decoder with latent attention; the first layers have a dense MLP, the rest experts."""
    fields.ignore("layer_types")
    shape = latent_shape(fields)
    act = activation(fields, "hidden_act")
    of_token = dense(fields, shape, act, bias=fields.flag("mlp_bias", False))
    limit = limited(fields, fields.size("n_routed_experts"))
    experts = routed(fields, shape, act, scored=str(fields.get("scoring_func", "softmax")), limit=limit)
    selectors = _selectors(fields, shape.layers)

    def layer(selector: Indexer | None, sparse: bool) -> Layer:
        made = decoder_layer(shape.width, latent_attention(fields, shape, selector), experts if sparse else of_token)
        if fields.kind == "axk1" and sparse:  # what experts return is normalised
            made = Layer((*made.blocks[:-1], Norm("mlp.post_mlp_layernorm", shape.width), made.blocks[-1]))
        return made

    sparse = expert_layers(fields, shape.layers)
    layers = [layer(*each) for each in zip(selectors, sparse, strict=True)]
    selector = next((found for found in selectors if found is not None), None)
    more = prediction(shape.width, [layer(selector, True)] * fields.count("num_nextn_predict_layers"))
    return make(fields, shape, layers, **more)


@family("minicpm3", "youtu")
def minicpm(fields: Fields) -> Model:
    """Read a MiniCPM 3 or Youtu-LLM: latent attention, dense layers alone; scales cost nothing."""
    fields.ignore("scale_emb", "scale_depth", "dim_model_base", "embedding_initializer_range")
    shape = latent_shape(fields)
    of_token = dense(fields, shape, activation(fields, "hidden_act"), bias=fields.flag("mlp_bias", False))
    layer = decoder_layer(shape.width, latent_attention(fields, shape, None), of_token)
    return make(fields, shape, [layer] * shape.layers, tied=True)


def latent_shape(fields: Fields) -> Shape:
    """Heads that need not divide the width, and have latents in place of keys of their own."""
    fields.ignore("head_dim", "num_key_value_heads")
    return Shape(fields.given(head_dim=fields.size("qk_rope_head_dim"), num_key_value_heads=None))


def latent_attention(fields: Fields, shape: Shape, selector: Indexer | None) -> LatentAttention:
    """Attention over latents, as wide as the usual fields say."""
    return LatentAttention(
        "self_attn",
        shape.width,
        shape.heads,
        fields.count("q_lora_rank"),
        fields.size("kv_lora_rank"),
        fields.size("qk_nope_head_dim"),
        fields.size("qk_rope_head_dim"),
        fields.size("v_head_dim"),
        bias=fields.flag("attention_bias", False),
        selector=selector,
    )


def _selectors(fields: Fields, layers: int) -> list[Indexer | None]:
    """Which layers select keys themselves, which take over the choice of the layer before."""
    if "index_topk" not in fields:
        return [None] * layers
    made = (fields.size("index_n_heads"), fields.size("index_head_dim"), fields.size("index_topk"))
    kinds = fields.listed("indexer_types", layers)
    pattern = fields.get("index_topk_pattern")
    frequency, offset = fields.size("index_topk_freq", default=1), fields.get("index_skip_topk_offset", 2)
    if kinds is None and pattern is not None:
        kinds = [{"F": "full", "S": "shared"}.get(letter) for letter in pattern]
    if kinds is None:
        kinds = ["full" if max(i - offset + 1, 0) % frequency == 0 else "shared" for i in range(layers)]
    if not set(kinds) <= {"full", "shared"} or len(kinds) < layers:
        raise InputError(
            f"indexer_types of {fields.name} is not understood", hint="a list of 'full' and 'shared', one a layer"
        )
    return [Indexer(*made, shared=kind == "shared") for kind in kinds[:layers]]
