"""Small configurations of newer types, and of biases that few models have."""

from __future__ import annotations

from typing import Any

from tests.models.small import small

_SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
_DELTA: dict[str, Any] = {
    "layer_types": ["linear_attention", "linear_attention", "full_attention"],
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip
_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
_LFM3: dict[str, Any] = {
    "layer_types": ["conv", "sliding_attention", "full_attention"], "conv_L_cache": 7, "conv_bias": False,
    "sliding_window": 8, "tie_word_embeddings": True, "norm_eps": 1e-6,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
    },
}  # fmt: skip

NEWER: dict[str, dict[str, Any]] = {
    "cwm": small("cwm", sliding_window=32, num_hidden_layers=5),
    "helium": small("helium"),
    "ministral3": small("ministral3", sliding_window=None),
    "vaultgemma": small("vaultgemma", sliding_window=32, layer_types=_SLIDING, tie_word_embeddings=True),
    "bitnet": small("bitnet", head_dim=..., hidden_act="relu2"),
    "solar_open": small("solar_open", _EXPERTS, n_routed_experts=6, n_shared_experts=1, n_group=1, topk_group=1,
                        first_k_dense_replace=0),
    "exaone_moe": small("exaone_moe", _EXPERTS, num_experts=6, num_shared_experts=1, sliding_window=32,
                        layer_types=_SLIDING, mlp_layer_types=["dense", "sparse", "sparse"], head_dim=...),
    "glm4_moe_lite": small(
        "glm4_moe_lite", _EXPERTS, head_dim=..., num_attention_heads=3, num_key_value_heads=3, q_lora_rank=24,
        kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, n_routed_experts=6,
        n_shared_experts=1, mlp_layer_types=["dense", "sparse", "sparse"], n_group=1, topk_group=1,
    ),
    "flint": small("flint", _EXPERTS, num_experts=6, shared_expert_intermediate_size=40, sliding_window=8,
                   layer_types=_SLIDING, mlp_only_layers=[0], decoder_sparse_step=1, attention_bias=True),
    "kolibri1": small("kolibri1", _EXPERTS, num_local_experts=6, shared_expert_intermediate_size=40, sliding_window=8,
                      layer_types=_SLIDING),
    "aria_text": small("aria_text", moe_num_experts=6, moe_topk=2, moe_num_shared_experts=2, attention_bias=True),
    "lfm3": small("lfm3", _LFM3),
    "lfm3 normed and gated less": small("lfm3", _LFM3, use_sandwich_norm=False, use_attention_gate=False,
                                        attention_bias=True),
    "gemma4_unified_text": small("gemma4_unified_text", sliding_window=8, num_hidden_layers=4,
                                 layer_types=[*_SLIDING, "full_attention"], global_head_dim=24,
                                 num_global_key_value_heads=1, attention_k_eq_v=True, tie_word_embeddings=True),
    "minimax_m3_vl_text": small(
        "minimax_m3_vl_text", num_experts_per_tok=2, num_local_experts=6, dense_intermediate_size=80,
        shared_intermediate_size=40, rotary_dim=8, mlp_layer_types=["dense", "sparse", "sparse"],
    ),
    "qwen3 with biases": small("qwen3", attention_bias=True),
    "qwen3_moe with biases": small("qwen3_moe", _EXPERTS, attention_bias=True, num_experts=6),
    "gemma with biases": small("gemma", attention_bias=True, tie_word_embeddings=True),
    "gemma3_text with biases": small("gemma3_text", attention_bias=True, sliding_window=32, layer_types=_SLIDING),
    "smollm3 with biases": small("smollm3", attention_bias=True),
    "qwen3_5_text with biases": small("qwen3_5_text", _DELTA, attention_bias=True),
    "falcon_h1 with biases": small(
        "falcon_h1", mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=10, mamba_d_conv=4,
        mamba_expand=2, mamba_chunk_size=8, mamba_d_ssm=128, mamba_rms_norm=False, mamba_proj_bias=True,
        projectors_bias=False,
    ),
}  # fmt: skip
