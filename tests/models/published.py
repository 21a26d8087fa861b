"""Configurations as published that leave out what their type says, or that hold a language model beside others.

Copied from the models' public pages, without fields of training and generation.
"""

from __future__ import annotations

from typing import Any

_TOWER: dict[str, Any] = {"hidden_size": 1152, "patch_size": 14, "num_hidden_layers": 2, "num_attention_heads": 16}

PUBLISHED: dict[str, dict[str, Any]] = {
    "gemma-3-4b-it": {
        "model_type": "gemma3",
        "mm_tokens_per_image": 256,
        "text_config": {
            "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
        },
        "vision_config": {**_TOWER, "intermediate_size": 4304, "image_size": 896, "model_type": "siglip_vision_model"},
    },
    "llava-1.5-7b": {
        "model_type": "llava",
        "projector_hidden_act": "gelu",
        "text_config": {"max_position_embeddings": 4096, "model_type": "llama", "rms_norm_eps": 1e-5,
                        "torch_dtype": "float16", "vocab_size": 32064},
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
        "vision_config": {"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "patch_size": 14,
                          "model_type": "clip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 2},
    },
    "qwen2-vl-7b": {
        "model_type": "qwen2_vl", "hidden_act": "silu", "hidden_size": 3584, "intermediate_size": 18944,
        "max_position_embeddings": 32768, "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28,
        "num_key_value_heads": 4, "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": False,
        "use_sliding_window": False, "vocab_size": 152064,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "vision_config": {"depth": 2, "embed_dim": 1280, "hidden_size": 3584, "num_heads": 16, "patch_size": 14},
    },
    "mistral-small-3.1-24b": {
        "model_type": "mistral3",
        "multimodal_projector_bias": False,
        "spatial_merge_size": 2,
        "text_config": {
            "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "intermediate_size": 32768,
            "max_position_embeddings": 131072, "model_type": "mistral", "num_attention_heads": 32,
            "num_hidden_layers": 40, "num_key_value_heads": 8, "rope_theta": 1000000000.0, "sliding_window": None,
            "vocab_size": 131072,
        },
        "tie_word_embeddings": False,
        "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "image_size": 1540,
                          "head_dim": 64, "num_attention_heads": 16, "num_hidden_layers": 2, "patch_size": 14},
    },
    "glm-4.1v-9b": {
        "model_type": "glm4v", "image_start_token_id": 151339, "video_end_token_id": 151342,
        "text_config": {
            "model_type": "glm4v_text", "attention_bias": True, "head_dim": 128, "hidden_act": "silu",
            "hidden_size": 4096, "intermediate_size": 13696, "max_position_embeddings": 65536,
            "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 2, "rope_theta": 10000.0,
            "tie_word_embeddings": False, "vocab_size": 151552, "partial_rotary_factor": 0.5,
        },
        "tie_word_embeddings": False,
        "vision_config": {"depth": 2, "hidden_size": 1536, "num_heads": 12, "patch_size": 14,
                          "out_hidden_size": 4096, "intermediate_size": 13696},
    },
    "glm-4.7-flash": {
        "model_type": "glm4_moe_lite", "attention_bias": False, "hidden_act": "silu", "hidden_size": 2048,
        "intermediate_size": 10240, "kv_lora_rank": 512, "max_position_embeddings": 202752,
        "moe_intermediate_size": 1536, "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 1,
        "num_attention_heads": 20, "num_experts_per_tok": 4, "num_hidden_layers": 47, "num_key_value_heads": 20,
        "num_nextn_predict_layers": 1, "q_lora_rank": 768, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
        "tie_word_embeddings": False, "v_head_dim": 256, "vocab_size": 154880, "first_k_dense_replace": 1,
    },
    "bitnet-b1.58-2b-4t": {
        "model_type": "bitnet", "hidden_act": "relu2", "hidden_size": 2560, "intermediate_size": 6912,
        "max_position_embeddings": 4096, "num_attention_heads": 20, "num_hidden_layers": 30, "num_key_value_heads": 5,
        "tie_word_embeddings": True, "vocab_size": 128256, "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "bitnet", "linear_class": "autobitlinear",
                                "quantization_mode": "offline"},
    },
    "falcon-40b": {
        "model_type": "falcon", "alibi": False, "bias": False, "hidden_size": 8192, "new_decoder_architecture": True,
        "num_attention_heads": 128, "num_hidden_layers": 60, "num_kv_heads": 8, "parallel_attn": True,
        "vocab_size": 65024, "layer_norm_epsilon": 1e-5,
    },
    "mistral-7b, short": {
        "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_hidden_layers": 32, "vocab_size": 32000,
    },
    "qwen3-4b, short": {
        "model_type": "qwen3", "hidden_size": 2560, "intermediate_size": 9728, "num_attention_heads": 32,
        "num_hidden_layers": 36, "num_key_value_heads": 8, "vocab_size": 151936, "attention_bias": True,
    },
    "smollm3-3b, short": {
        "model_type": "smollm3", "hidden_size": 2048, "intermediate_size": 11008, "num_attention_heads": 16,
        "num_hidden_layers": 36, "vocab_size": 128256,
    },
}  # fmt: skip
