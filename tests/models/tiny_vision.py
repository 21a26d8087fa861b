"""Small configurations of models with a vision tower, and the images that the counter was run on."""

from __future__ import annotations

from typing import Any

_TEXT: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128, "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}  # fmt: skip
_QWEN: dict[str, Any] = {
    "depth": 5, "hidden_size": 48, "intermediate_size": 112, "num_heads": 4, "out_hidden_size": 64, "patch_size": 8,
    "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3, "num_position_embeddings": 64,
    "hidden_act": "gelu_pytorch_tanh",
}  # fmt: skip
_KIMI: dict[str, Any] = {
    "vt_hidden_size": 48, "vt_intermediate_size": 112, "vt_num_attention_heads": 4, "vt_num_hidden_layers": 3,
    "patch_size": 14, "merge_kernel_size": [2, 2], "init_pos_emb_height": 8, "init_pos_emb_width": 8,
    "init_pos_emb_time": 4, "mm_hidden_size": 48, "text_hidden_size": 64,
}  # fmt: skip
_GEMMA: dict[str, Any] = {
    "hidden_size": 48, "intermediate_size": 112, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "num_hidden_layers": 3, "patch_size": 8, "pooling_kernel_size": 3, "position_embedding_size": 64,
    "default_output_length": 20, "standardize": True, "use_clipped_linears": False,
    "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
}  # fmt: skip
_LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}

#: Configurations by name.
TINY_VISION: dict[str, dict[str, Any]] = {
    "qwen3_vl": {
        "model_type": "qwen3_vl",
        "text_config": {**_TEXT, "model_type": "qwen3_vl_text"},
        "vision_config": {**_QWEN, "deepstack_visual_indexes": [0, 2, 3]},
    },
    "qwen3_5": {
        "model_type": "qwen3_5",
        "text_config": {
            **_TEXT, "model_type": "qwen3_5_text", "linear_num_key_heads": 2, "linear_num_value_heads": 4,
            "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4,
            "full_attention_interval": 4,
        },
        "vision_config": {**_QWEN, "spatial_merge_size": 3, "deepstack_visual_indexes": []},
    },
    "kimi_k25": {
        "model_type": "kimi_k25",
        "text_config": {
            **_TEXT, **_LATENT, "model_type": "kimi_k2", "num_key_value_heads": 4, "moe_intermediate_size": 32,
            "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
        },
        "vision_config": _KIMI,
    },
    "gemma4": {
        "model_type": "gemma4",
        "text_config": {**_TEXT, "model_type": "gemma4_text", "global_head_dim": 16, "num_global_key_value_heads": 1,
                        "sliding_window": 512, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]},
        "vision_config": _GEMMA,
    },
}  # fmt: skip

#: Height and width in pixels of the two images that are alike: what the tower is run on, nothing left to resize.
IMAGES = {"qwen3_vl": (96, 64), "qwen3_5": (96, 48), "kimi_k25": (84, 56), "gemma4": (120, 96)}
