"""Small configurations of types that differ from another by a few facts."""

from __future__ import annotations

from typing import Any

from tests.models.small import small

_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
_SARVAM: dict[str, Any] = {**_EXPERTS, "n_routed_experts": 6, "n_shared_experts": 1, "first_k_dense_replace": 1}
_SECTIONS: dict[str, Any] = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
_MUSE: dict[str, Any] = {"num_hidden_layers": 6, "sliding_window": 8}

_KOSMOS: dict[str, Any] = {
    "vocab_size": 96,
    "max_position_embeddings": 128,
    "embed_dim": 64,
    "layers": 3,
    "ffn_dim": 96,
    "attention_heads": 4,
}

ROWS: dict[str, dict[str, Any]] = {
    "sarvam_mla": small(
        "sarvam_mla", _SARVAM, head_dim=..., num_key_value_heads=4, kv_lora_rank=20, qk_nope_head_dim=12,
        qk_rope_head_dim=8, v_head_dim=10,
    ),
    "sarvam_moe": small("sarvam_moe", _SARVAM),
    "lara_mini": small(
        "lara_mini", _EXPERTS, intermediate_size=..., num_experts=6, shared_expert_intermediate_size=40,
        num_hidden_layers=5, sliding_window=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=12, linear_conv_kernel_dim=4,
    ),
    "apertus1p5_text": small("apertus1p5_text", head_dim=..., output_vocab_size=80),
    "molmo2_text": small("molmo2_text", additional_vocab_size=8),
    "molmo2_text normed after": small(
        "molmo2_text", additional_vocab_size=8, qk_norm_type="olmo", norm_after=True, attention_bias=True
    ),
    "muse_glimmer_text": small("muse_glimmer_text", _MUSE),
    "muse_spark_text": small(
        "muse_spark_text", _MUSE, _EXPERTS, num_local_experts=6, moe_hidden_size=40,
        mlp_layer_types=["dense", *["sparse"] * 5],
    ),
    "cosmos3_edge_text": small(
        "cosmos3_edge_text", hidden_act="relu2", rope_parameters=_SECTIONS,
    ),
    "eurobert": {**small("eurobert", attention_bias=True, mlp_bias=True), "architectures": ["EuroBertModel"]},
    "ultrabert": {**small("ultrabert", head_dim=..., sliding_window=4), "architectures": ["UltrabertModel"]},
    "esmc": {**small("esmc", num_key_value_heads=4), "architectures": ["EsmcModel"]},
    "embedding_gemma2_text": {
        **small(
            "embedding_gemma2_text", sliding_window=4, hidden_size_per_layer_input=12, embedding_dim=40,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            per_layer_config={"2": {"head_dim": 24, "num_key_value_heads": 1}},
        ),
        "architectures": ["EmbeddingGemma2TextModel"],
    },
    "kosmos_2_text_model": {
        **_KOSMOS, "model_type": "kosmos_2_text_model", "architectures": ["Kosmos2TextForCausalLM"],
    },
    "kosmos_2_5_text_model": {
        **_KOSMOS, "model_type": "kosmos_2_5_text_model", "architectures": ["Kosmos2_5TextForCausalLM"],
    },
    "glm4v_text": small("glm4v_text", rope_parameters=_SECTIONS),
}  # fmt: skip
