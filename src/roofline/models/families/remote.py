"""Models that came with code of their own: ChatGLM 2 and 3, GLM-4 as first published, and the first Qwen."""

from __future__ import annotations

from roofline.errors import InputError
from roofline.models.description import Model
from roofline.models.families import family
from roofline.models.families._parts import Shape, attention, decoder_layer, dense, make
from roofline.models.fields import Fields, divide

_CHATGLM = """
apply_query_key_layer_scaling attention_softmax_in_fp32 bias_dropout_fusion fp32_residual_connection original_rope
post_layer_norm apply_residual_connection_post_layernorm multi_query_attention quantization_bit pre_seq_len
prefix_projection rmsnorm
"""
_QWEN = """
attn_dropout_prob emb_dropout_prob bf16 fp16 fp32 onnx_safe rotary_emb_base rotary_pct scale_attn_weights seq_length
softmax_in_fp32 use_cache_kernel use_cache_quantization use_dynamic_ntk use_flash_attn use_logn_attn no_bias
"""


@family("chatglm")
def chatglm(fields: Fields) -> Model:
    """Read a ChatGLM 2 or 3: biases on q, k, v, few heads of keys, half of each head rotated."""
    fields.ignore(*_CHATGLM.split())
    if fields.flag("add_bias_linear", False) or not fields.flag("rmsnorm", True):
        raise InputError(f"{fields.name} has layer norms or biases everywhere; that is not read")
    grouped = fields.flag("multi_query_attention", False)
    fields = fields.renamed(
        num_layers="num_hidden_layers", padded_vocab_size="vocab_size", seq_length="max_position_embeddings",
        kv_channels="head_dim", ffn_hidden_size="intermediate_size",
    )  # fmt: skip
    groups = fields.optional("multi_query_group_num")
    if grouped and groups is not None:
        fields = fields.given(num_key_value_heads=groups)
    shape = Shape(fields)
    mixer = attention(shape, bias=fields.flag("add_qkv_bias", False), rotary=shape.head // 2)
    return make(fields, shape, [decoder_layer(shape.width, mixer, dense(fields, shape, "silu"))] * shape.layers)


@family("qwen")
def qwen(fields: Fields) -> Model:
    """Read a first Qwen: biases on q, k, v alone; its ``intermediate_size`` is of gate and up together."""
    fields.ignore(*_QWEN.split())
    both = fields.size("intermediate_size")
    half = divide(fields, both, 2, "an intermediate_size of {total} does not divide into gate and up")
    fields = fields.renamed(kv_channels="head_dim").given(intermediate_size=half)
    shape = Shape(fields)
    mixer = attention(shape, bias=True)
    return make(fields, shape, [decoder_layer(shape.width, mixer, dense(fields, shape, "silu"))] * shape.layers)
