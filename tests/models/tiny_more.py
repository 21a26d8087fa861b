"""Further small configurations: the families that are not among the shipped models."""

from __future__ import annotations

from typing import Any

from tests.models.small import small

_SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
_OLD: dict[str, Any] = {"vocab_size": 96, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_EXPERTS: dict[str, Any] = {"num_local_experts": 6, "num_experts_per_tok": 2}
_MAMBA: dict[str, Any] = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_n_groups": 2,
    "mamba_d_state": 10,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_chunk_size": 8,
}
_BLOOM: dict[str, Any] = {"hidden_size": 64, "n_layer": 3, "n_head": 4}
_FALCON: dict[str, Any] = {**_OLD, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}

MORE: dict[str, dict[str, Any]] = {
    "phi": small("phi", head_dim=..., num_key_value_heads=4, partial_rotary_factor=0.5),
    "phimoe": small("phimoe", _EXPERTS, head_dim=..., attention_bias=True, lm_head_bias=True),
    "stablelm": small("stablelm", head_dim=..., use_qkv_bias=True, partial_rotary_factor=0.25),
    "stablelm beside": small("stablelm", head_dim=..., use_parallel_residual=True, partial_rotary_factor=0.25),
    "falcon 7b": {"model_type": "falcon", **_FALCON, "multi_query": True, "bias": False},
    "falcon 40b": {
        "model_type": "falcon", **_FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "bias": False,
    },
    "falcon rw": {
        "model_type": "falcon", **_FALCON, "multi_query": False, "parallel_attn": False, "bias": True, "alibi": True,
    },
    "cohere": small("cohere", head_dim=..., tie_word_embeddings=True),
    "cohere2": small("cohere2", sliding_window=8, layer_types=_SLIDING, tie_word_embeddings=True),
    "ernie4_5": small("ernie4_5", use_bias=True, tie_word_embeddings=True),
    "ernie4_5_moe": small(
        "ernie4_5_moe", head_dim=..., moe_num_experts=6, moe_k=2, moe_intermediate_size=24, moe_num_shared_experts=1,
        moe_layer_start_index=1, moe_layer_end_index=2, moe_layer_interval=1,
    ),
    "exaone4": small("exaone4", sliding_window=8, layer_types=_SLIDING),
    "olmo": small("olmo", head_dim=...),
    "olmo3": small("olmo3", head_dim=..., sliding_window=8, layer_types=_SLIDING),
    "olmoe": small("olmoe", head_dim=..., num_experts=6, num_experts_per_tok=2),
    "granitemoe": small("granitemoe", _EXPERTS, head_dim=...),
    "granitemoeshared": small("granitemoeshared", _EXPERTS, head_dim=..., shared_intermediate_size=40),
    "granitemoehybrid": small(
        "granitemoehybrid", _EXPERTS, _MAMBA, head_dim=..., shared_intermediate_size=40,
        layer_types=["mamba", "attention", "mamba"],
    ),
    "starcoder2": small("starcoder2", head_dim=..., use_bias=True, sliding_window=8, tie_word_embeddings=True),
    "gptj": {
        "model_type": "gptj", **_OLD, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "rotary_dim": 8,
        "tie_word_embeddings": False,
    },
    "codegen": {
        "model_type": "codegen", **_OLD, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "rotary_dim": 8,
        "tie_word_embeddings": False,
    },
    "bloom": {"model_type": "bloom", **_OLD, **_BLOOM},
    "mpt": {
        "model_type": "mpt", **_OLD, "d_model": 64, "n_layers": 3, "n_heads": 4, "max_seq_len": 128,
        "tie_word_embeddings": True,
    },
    "gpt_bigcode": {
        "model_type": "gpt_bigcode", **_OLD, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128,
    },
    "gpt_neo": {
        "model_type": "gpt_neo", **_OLD, "hidden_size": 64, "num_layers": 4, "num_heads": 4, "window_size": 8,
        "attention_types": [[["global", "local"], 2]], "max_position_embeddings": 128,
    },
    "glm": small("glm", attention_bias=True, partial_rotary_factor=0.5),
    "glm4": small("glm4", attention_bias=True, partial_rotary_factor=0.5),
    "arcee": small("arcee", hidden_act="relu2"),
    "nemotron": small("nemotron", hidden_act="relu2", partial_rotary_factor=0.5),
    "seed_oss": small("seed_oss", attention_bias=True, attention_out_bias=False),
    "hunyuan_v1_dense": small("hunyuan_v1_dense"),
    "hunyuan_v1_moe": small("hunyuan_v1_moe", num_experts=6, moe_topk=2),
    "dots1": small(
        "dots1", n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=24,
        first_k_dense_replace=1, n_group=1, topk_group=1, sliding_window=None,
    ),
    "dbrx": {
        "model_type": "dbrx", **_OLD, "d_model": 64, "n_layers": 3, "n_heads": 4, "max_seq_len": 128,
        "tie_word_embeddings": False,
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 6, "moe_top_k": 2, "hidden_size": 64},
    },
    "minicpm3": small(
        "minicpm3", head_dim=..., num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=12,
        qk_rope_head_dim=8, v_head_dim=16, tie_word_embeddings=True,
    ),
    "mamba": {
        "model_type": "mamba", **_OLD, "hidden_size": 64, "num_hidden_layers": 3, "state_size": 8, "expand": 2,
        "conv_kernel": 4, "time_step_rank": 4, "tie_word_embeddings": True,
    },
    "falcon_mamba": {
        "model_type": "falcon_mamba", **_OLD, "hidden_size": 64, "num_hidden_layers": 3, "state_size": 8, "expand": 2,
        "conv_kernel": 4, "time_step_rank": 4, "tie_word_embeddings": True,
    },
    "mamba2": {
        "model_type": "mamba2", **_OLD, "hidden_size": 64, "num_hidden_layers": 3, "state_size": 10, "expand": 2,
        "num_heads": 8, "head_dim": 16, "n_groups": 2, "conv_kernel": 4, "chunk_size": 8, "tie_word_embeddings": False,
    },
    "jamba": small(
        "jamba", head_dim=..., num_hidden_layers=4, attn_layer_period=4, attn_layer_offset=2, expert_layer_period=2,
        expert_layer_offset=1, num_experts=6, num_experts_per_tok=2, mamba_d_state=8, mamba_d_conv=4, mamba_expand=2,
        mamba_dt_rank=4, use_mamba_kernels=False,
    ),
    "bamba": small("bamba", _MAMBA, head_dim=..., attn_layer_indices=[1], partial_rotary_factor=0.5),
    "falcon_h1": small("falcon_h1", _MAMBA, mamba_d_ssm=128, mamba_rms_norm=False),
    "lfm2": small(
        "lfm2", head_dim=..., conv_L_cache=3, layer_types=["conv", "full_attention", "conv"], tie_word_embeddings=True,
        block_multiple_of=16,
    ),
    "lfm2_moe": small(
        "lfm2_moe", head_dim=..., conv_L_cache=3, layer_types=["conv", "full_attention", "conv"], num_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=24, num_dense_layers=1, tie_word_embeddings=True,
    ),
}  # fmt: skip
