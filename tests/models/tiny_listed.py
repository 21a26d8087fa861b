"""Small configurations of types that list layer by layer what they are, and of dense ones built otherwise."""

from __future__ import annotations

from typing import Any

from tests.models.small import small

_SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
_LATENT: dict[str, Any] = {
    "q_lora_rank": 24, "kv_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "head_dim": ..., "num_key_value_heads": 4,
}  # fmt: skip
_OPT: dict[str, Any] = {
    "model_type": "opt", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "ffn_dim": 96,
    "max_position_embeddings": 128, "vocab_size": 96,
}  # fmt: skip
_SHARED: dict[str, Any] = {"n_routed_experts": 6, "n_shared_experts": 1, "n_group": 1, "topk_group": 1}
_WINDOWED: dict[str, Any] = {"num_experts": 6, "sliding_window": 8, "layer_types": _SLIDING}

_BORROWING: dict[str, Any] = {
    "num_hidden_layers": 6, "layer_types": ["sliding_attention", "full_attention"] * 3, "sliding_window": 8,
    "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 90, "num_kv_shared_layers": 2,
    "tie_word_embeddings": True,
}  # fmt: skip

LISTED: dict[str, dict[str, Any]] = {
    "opt normed after": {**_OPT, "word_embed_proj_dim": 48, "do_layer_norm_before": False},
    "opt narrow": {**_OPT, "word_embed_proj_dim": 48},
    "gpt-sw3": {"model_type": "gpt-sw3", "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "vocab_size": 96},
    "internlm3": small("internlm3", attention_bias=True, mlp_bias=True),
    "iquestcoder": small("iquestcoder"),
    "granite_swa": small(
        "granite_swa", head_dim=..., sliding_window=8, num_hidden_layers=5, layer_rope_theta=[0, 1e4, 1e4, 0, 1e4]
    ),
    "granitemoe_swa": small(
        "granitemoe_swa", head_dim=..., sliding_window=8, num_hidden_layers=5, num_local_experts=6,
        num_experts_per_tok=2, shared_intermediate_size=40,
    ),
    "jais2": small("jais2", hidden_act="relu2"),
    "apertus": small("apertus", head_dim=..., hidden_act="xielu"),
    "nanochat": small("nanochat", head_dim=..., hidden_act="relu2"),
    "persimmon": small("persimmon", head_dim=..., num_key_value_heads=..., hidden_act="relu2"),
    "phi with norms": small(
        "phi", head_dim=..., num_key_value_heads=4, partial_rotary_factor=0.5, qk_layernorm=True
    ),
    "hyperclovax": small("hyperclovax"),
    "hyperclovax normed once": small("hyperclovax", use_post_norm=False, attention_bias=True),
    "youtu": small("youtu", _LATENT, tie_word_embeddings=True),
    "mistral4": small(
        "mistral4", _LATENT, _EXPERTS, _SHARED, first_k_dense_replace=1, architectures=["Mistral4ForCausalLM"]
    ),
    "axk1": small("axk1", _LATENT, _EXPERTS, _SHARED, mlp_layer_types=["dense", "sparse", "sparse"]),
    "flex_olmo": small("flex_olmo", head_dim=..., num_experts=6, num_experts_per_tok=2),
    "hy_v3": small("hy_v3", _EXPERTS, num_experts=6, num_shared_experts=1, attention_bias=True),
    "mellum": small("mellum", _EXPERTS, _WINDOWED, mlp_layer_types=["sparse", "dense", "sparse"]),
    "laguna": small(
        "laguna", _EXPERTS, _WINDOWED, shared_expert_intermediate_size=40, num_attention_heads_per_layer=[4, 2, 4]
    ),
    "laguna gated in full": small(
        "laguna", _EXPERTS, _WINDOWED, shared_expert_intermediate_size=40, gating="per-element"
    ),
    "afmoe": small(
        "afmoe", _EXPERTS, num_experts=6, num_shared_experts=1, num_dense_layers=1, sliding_window=8,
        num_hidden_layers=5,
    ),
    "gemma4_text with values of their own": small(
        "gemma4_text", num_hidden_layers=4, layer_types=[*_SLIDING, "full_attention"], sliding_window=8,
        global_head_dim=24, num_global_key_value_heads=1, attention_k_eq_v=False, hidden_size_per_layer_input=0,
        num_kv_shared_layers=0, tie_word_embeddings=True,
    ),
    "gemma4_text that borrows": small("gemma4_text", _BORROWING, global_head_dim=24, use_double_wide_mlp=True),
    "gemma3n_text": small(
        "gemma3n_text", _BORROWING, laurel_rank=6, altup_num_inputs=4, intermediate_size=[48] * 4 + [80] * 2,
        activation_sparsity_pattern=[0.95] * 2 + [0.0] * 4,
    ),
    "gemma3n_text with biases": small(
        "gemma3n_text", _BORROWING, num_kv_shared_layers=0, laurel_rank=6, altup_num_inputs=3, attention_bias=True
    ),
    "kimi_linear": small(
        "kimi_linear", _LATENT, _EXPERTS, q_lora_rank=None, num_hidden_layers=4, linear_head_dim=8, linear_num_heads=6,
        linear_conv_kernel_dim=4, num_local_experts=6, n_shared_experts=1, n_group=1, topk_group=1,
        layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"],
    ),
    "modernbert": small(
        "modernbert", head_dim=..., num_key_value_heads=..., num_hidden_layers=5, local_attention=8,
        architectures=["ModernBertModel"],
    ),
    "mllama_text_model": small(
        "mllama_text_model", head_dim=..., num_hidden_layers=5, cross_attention_layers=[1, 3],
        architectures=["MllamaForCausalLM"],
    ),
    "qwen2_moe windowed": small(
        "qwen2_moe", _EXPERTS, head_dim=..., num_hidden_layers=4, num_experts=6, shared_expert_intermediate_size=40,
        use_sliding_window=True, sliding_window=8, max_window_layers=3,
    ),
    "qwen3_moe windowed": small("qwen3_moe", _EXPERTS, num_experts=6, use_sliding_window=True, sliding_window=8),
    "phimoe windowed": small(
        "phimoe", head_dim=..., num_local_experts=6, num_experts_per_tok=2, sliding_window=8
    ),
    "cohere2_moe": small(
        "cohere2_moe", num_experts=6, num_experts_per_tok=2, num_shared_experts=1, first_k_dense_replace=1,
        prefix_dense_intermediate_size=80, sliding_window=8, num_hidden_layers=6, tie_word_embeddings=True,
    ),
}  # fmt: skip
