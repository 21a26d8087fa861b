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
