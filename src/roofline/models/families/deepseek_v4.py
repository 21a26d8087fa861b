"""DeepSeek-V4: windows and compressed entries in place of a full cache, several residual streams, experts."""

from __future__ import annotations

from roofline.errors import InputError
from roofline.models.blocks.latent_attention import CompressedAttention, Indexer
from roofline.models.blocks.residual_streams import CollapseStreams, CopyToStreams, ExpandStreams
from roofline.models.description import Layer, Model
from roofline.models.families import family
from roofline.models.families._parts import Norm, Shape, activation, make, prediction, routed
from roofline.models.fields import Fields

#: Compression rates, and the names newer configurations give the layers.
_RATES = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}


@family("deepseek_v4", "deepseek_ref")
def read(fields: Fields) -> Model:
    """Read a decoder with compressed attention; ``deepseek_ref`` is the name the reference code uses."""
    fields.ignore("partial_rotary_factor", "expert_dtype", "num_key_value_heads", "hc_sinkhorn_iters")
    shape = Shape(fields)
    act = activation(fields, "hidden_act")
    streams = fields.size("hc_mult")
    experts = routed(fields, shape, act, name="ffn", scored=str(fields.get("scoring_func", "sqrtsoftplus")))
    rates = _rates(fields, shape.layers)

    def layer(rate: int) -> Layer:
        width = shape.width
        return Layer(
            (
                CollapseStreams("attn_hc", streams, width),
                Norm("input_layernorm", width),
                _attention(fields, shape, rate),
                ExpandStreams("attn_mix", streams, width),
                CollapseStreams("ffn_hc", streams, width),
                Norm("post_attention_layernorm", width),
                experts,
                ExpandStreams("ffn_mix", streams, width),
            )
        )

    layers = [layer(rate) for rate in rates[: shape.layers]]
    more = prediction(shape.width, [layer(0)] * fields.count("num_nextn_predict_layers"))
    hash_layers = fields.count("num_hash_layers")
    notes = (
        (f"the first {hash_layers} routers look experts up by token; they still score all of them",)
        if hash_layers
        else ()
    )
    return make(
        fields,
        shape,
        layers,
        before=(CopyToStreams("streams", streams, shape.width),),
        after=(CollapseStreams("hc_head", streams, shape.width, last=True), Norm("norm", shape.width)),
        prefix="",
        head_name="head",
        notes=notes,
        **more,
    )


def _attention(fields: Fields, shape: Shape, rate: int) -> CompressedAttention:
    selector = None
    if rate and rate < 128:
        selector = Indexer(fields.size("index_n_heads"), fields.size("index_head_dim"), fields.size("index_topk"))
    return CompressedAttention(
        "attn",
        shape.width,
        shape.heads,
        shape.head,
        fields.size("q_lora_rank"),
        fields.size("qk_rope_head_dim"),
        fields.size("sliding_window"),
        fields.size("o_groups"),
        fields.size("o_lora_rank"),
        rate,
        selector,
    )


def _rates(fields: Fields, layers: int) -> list[int]:
    ratios = fields.listed("compress_ratios", layers)
    kinds = fields.listed("layer_types", layers)
    if ratios is None and kinds is not None:
        ratios = [_RATES.get(kind) for kind in kinds]
    if ratios is None:
        raise InputError(
            f"{fields.name} has no compress_ratios", hint="a deepseek_v4 configuration needs them or layer_types"
        )
    if any(rate not in _RATES.values() for rate in ratios):
        raise InputError(
            f"compress_ratios of {fields.name} is not understood", hint="each is 0 (window alone), 4 or 128"
        )
    return [int(rate) for rate in ratios]
