"""Small configurations of types that came last: gates and windows over latents, streams that do not mix."""

from __future__ import annotations

from typing import Any

from tests.models.small import small

_SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
_LATENT: dict[str, Any] = {
    "head_dim": ..., "num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 20, "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8, "v_head_dim": 10, "n_routed_experts": 6, "n_shared_experts": 1, "n_group": 1,
    "topk_group": 1, "mlp_layer_types": ["dense", "sparse", "sparse"],
}  # fmt: skip
_INDEX: dict[str, Any] = {"index_topk": 12, "index_head_dim": 16, "index_n_heads": 2}
_LINEAR: dict[str, Any] = {"layer_types": ["linear_attention", "linear_attention", "full_attention"]}
_OLD: dict[str, Any] = {
    "vocab_size": 96, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True,
}  # fmt: skip
_GPT: dict[str, Any] = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128}
_BIOGPT: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 128,
}  # fmt: skip

LATEST: dict[str, dict[str, Any]] = {
    "axk2": small("axk2", _LATENT, _EXPERTS, _INDEX, gated_norm_rank=6, attention_bias=True),
    "mistral_large4_text": small(
        "mistral_large4_text", _LATENT, _EXPERTS, _INDEX, q_lora_rank=..., first_k_dense_replace=1,
        no_rope_layers=[1, 1, 0], indexer_types=["full", "shared", "full"],
    ),
    "glm5_next_text": small(
        "glm5_next_text", _LATENT, _EXPERTS, _INDEX, qk_rope_head_dim=0, index_kpool=4, hc_mult=4,
        linear_num_heads=6, linear_head_dim=8,
        layer_types=["linear_attention", "indexed_attention", "indexed_attention"],
        indexer_types=["full", "full", "shared"],
    ),
    "hy_v4": small("hy_v4", _LATENT, _EXPERTS, _INDEX, hc_mult=3, indexer_types=["full", "shared", "full"]),
    "dots3_note_text": small(
        "dots3_note_text", _LATENT, _EXPERTS, _INDEX, index_topk=32, sliding_window=8,
        shared_experts_intermediate_size=40,
        layer_types=["indexed_attention", "sliding_attention", "indexed_attention"],
        per_layer_config={"01": {"num_attention_heads": 2, "num_key_value_heads": 2, "kv_lora_rank": 28,
                                 "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "head_dim": 24}},
    ),
    "bailing_hybrid": small(
        "bailing_hybrid", _LATENT, _EXPERTS, _LINEAR, q_lora_rank=..., head_dim=8, num_experts=6,
        n_routed_experts=..., num_nextn_predict_layers=0, short_conv_kernel_size=4,
    ),
    "beam": small(
        "beam", _EXPERTS, num_experts=6, n_group=2, topk_group=1, sliding_window=8, attention_bias=True,
        layer_types=_SLIDING, mlp_layer_types=["dense", "sparse", "sparse"],
    ),
    "emu3_text_model": {**small("emu3_text_model", head_dim=...), "architectures": ["Emu3ForCausalLM"]},
    "diffllama": small("diffllama", attention_bias=True),
    "cohere_compass_text": small(
        "cohere_compass_text", head_dim=..., sliding_window=8, layer_types=_SLIDING, tie_word_embeddings=True,
        rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 1e4}, "full_attention": None},
    ),
    "gpt_neox_japanese": small(
        "gpt_neox_japanese", head_dim=..., num_key_value_heads=..., intermediate_size=...,
        intermediate_multiple_size=3, tie_word_embeddings=True,
    ),
    "openai-gpt": {"model_type": "openai-gpt", **_OLD, **_GPT},
    "ctrl": {"model_type": "ctrl", **_OLD, **_GPT, "dff": 48},
    "biogpt": {"model_type": "biogpt", **_OLD, **_BIOGPT, "intermediate_size": 48},
    "xglm": {
        "model_type": "xglm", **_OLD, "d_model": 64, "ffn_dim": 48, "num_layers": 3, "attention_heads": 4,
        "max_position_embeddings": 128,
    },
    "modernbert-decoder": small(
        "modernbert-decoder", head_dim=..., num_key_value_heads=..., local_attention=16, tie_word_embeddings=True,
        layer_types=_SLIDING, cls_token_id=1, sep_token_id=2, norm_bias=True, classifier_bias=True,
    ),
    "inkling_text": small(
        "inkling_text", _EXPERTS, swa_num_attention_heads=2, swa_num_key_value_heads=1, swa_head_dim=24,
        sliding_window_size=8, d_rel=6, rel_extent=16, n_routed_experts=6, n_shared_experts=2, conv_kernel_size=4,
        layer_types=["hybrid_sliding", "hybrid", "hybrid_sliding"], mlp_layer_types=["dense", "sparse", "sparse"],
    ),
    "inkling2_text": small(
        "inkling2_text", _EXPERTS, vocab_size=104, unpadded_vocab_size=96, num_hidden_layers=4,
        swa_num_attention_heads=2, swa_num_key_value_heads=1, swa_head_dim=24, sliding_window_size=8, d_rel=6,
        rel_extent=16, n_routed_experts=6, conv_kernel_size=4, intermediate_size=..., n_layers_per_attn_res_block=2,
        layer_types=["hybrid", "hybrid_sliding", "hybrid", "hybrid_sliding"],
    ),
    "qwen4_exp_text": small(
        "qwen4_exp_text", _EXPERTS, num_hidden_layers=5, intermediate_size=..., num_experts=6, hc_count=3,
        shared_expert_intermediate_size=40, hc_lowrank=10, ple_layer_ids=[1, 3], ple_embed_dim=32, heads_per_ngram=4,
        ngram_vocab_size_base=50, make_ngram_vocab_size_divisible_by=8, indexer_n_heads=2, indexer_kv_heads=1,
        indexer_head_dim=16, indexer_budget=8, indexer_compress_ratio=4, linear_num_key_heads=2,
        linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12, linear_conv_kernel_dim=4,
        layer_types=[*["linear_attention", "full_attention"] * 2, "linear_attention"],
    ),
    "inkling2_loop_text": small(
        "inkling2_loop_text", _EXPERTS, vocab_size=104, unpadded_vocab_size=96, num_hidden_layers=8,
        swa_num_attention_heads=2, swa_num_key_value_heads=1, swa_head_dim=24, sliding_window_size=8, d_rel=6,
        rel_extent=16, n_routed_experts=6, conv_kernel_size=4, intermediate_size=..., n_layers_per_attn_res_block=2,
        layer_types=[*["hybrid", "hybrid_sliding"] * 2, *["hybrid_sliding", "hybrid"] * 2], loop_layer_index_start=2,
        loop_layer_index_end=6, loop_num_passes=3, loop_gate_rank=10,
    ),
    **{
        f"{kind}{more}": {
            "model_type": kind, **_OLD, **_BIOGPT, "intermediate_size": 48,
            "architectures": [f"{name}Model"], **extra,
        }
        for kind, more, name, extra in (
            ("ernie", "", "Ernie", {"use_task_id": True, "task_type_vocab_size": 3}),
            ("data2vec-text", "", "Data2VecText", {}),
            ("electra", "", "Electra", {"embedding_size": 24}),
            ("electra", " as wide", "Electra", {"embedding_size": 64}),
            ("rembert", "", "RemBert", {"input_embedding_size": 24, "output_embedding_size": 80}),
            ("roformer", "", "RoFormer", {"embedding_size": 24}),
            ("megatron-bert", "", "MegatronBert", {}),
            ("xlm-roberta-xl", "", "XLMRobertaXL", {"type_vocab_size": 2}),
            ("roberta-prelayernorm", "", "RobertaPreLayerNorm", {}),
            ("bert-generation", "", "BertGeneration", {"architectures": ["BertGenerationEncoder"]}),
            (
                "deberta-v2", "", "DebertaV2",
                {
                    "relative_attention": True, "position_buckets": 5, "norm_rel_ebd": "layer_norm",
                    "share_att_key": True, "pos_att_type": "p2c|c2p", "position_biased_input": False,
                },
            ),
            (
                "deberta-v2", " with matrices for positions", "DebertaV2",
                {
                    "relative_attention": True, "max_relative_positions": 6, "pos_att_type": ["c2p", "p2c"],
                    "type_vocab_size": 3, "embedding_size": 24,
                },
            ),
            (
                "deberta", "", "Deberta",
                {"relative_attention": True, "max_relative_positions": 6, "pos_att_type": ["c2p", "p2c"]},
            ),
            ("layoutlm", "", "LayoutLM", {"max_2d_position_embeddings": 30}),
            (
                "layoutlmv3", "", "LayoutLMv3",
                {
                    "max_2d_position_embeddings": 30, "coordinate_size": 10, "shape_size": 12, "input_size": 32,
                    "rel_pos_bins": 8, "rel_2d_pos_bins": 10,
                },
            ),
            (
                "layoutlmv3", " of words", "LayoutLMv3",
                {
                    "max_2d_position_embeddings": 30, "coordinate_size": 10, "shape_size": 12, "visual_embed": False,
                    "has_spatial_attention_bias": False, "has_relative_attention_bias": False, "rel_2d_pos_bins": 64,
                },
            ),
            ("ibert", "", "IBert", {}),
            ("clap_text_model", "", "ClapText", {"type_vocab_size": 1}),
            ("clip_text_model", "", "CLIPText", {}),
            ("clipseg_text_model", "", "CLIPSegText", {}),
            ("groupvit_text_model", "", "GroupViTText", {}),
            ("chinese_clip_text_model", "", "ChineseCLIPText", {}),
            ("siglip_text_model", "", "SiglipText", {"projection_size": 40}),
            (
                "openai_privacy_filter", "", "OpenAIPrivacyFilter",
                {
                    "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 2,
                    "sliding_window": 4, "pad_token_id": 1,
                },
            ),
            ("mpnet", "", "MPNet", {}),
            ("esm", "", "Esm", {}),
            ("esm", " that rotates", "Esm", {"position_embedding_type": "rotary", "emb_layer_norm_before": True}),
            ("splinter", "", "Splinter", {}),
            ("nomic_bert", "", "NomicBert", {}),
            ("gte", "", "Gte", {"type_vocab_size": 0}),
            ("jina_embeddings_v3", "", "JinaEmbeddingsV3", {"type_vocab_size": 3}),
            ("albert", "", "Albert", {"embedding_size": 24}),
            (
                "albert", " of groups", "Albert",
                {"num_hidden_layers": 5, "num_hidden_groups": 2, "inner_group_num": 2, "embedding_size": 64},
            ),
        )
    },
    "dory": small(
        "dory", num_hidden_layers=6, n_input_layers=1, n_output_layers=1, n_recurrent_loops=3, sliding_window=32,
        layer_types=["sliding_attention", "full_attention"] * 3,
    ),
    "zamba": small(
        "zamba", head_dim=..., num_hidden_layers=9, n_mamba_heads=4, mamba_d_state=10, mamba_dt_rank=6,
        attn_layer_period=4, attn_layer_offset=2, mamba_proj_bias=True, tie_word_embeddings=True,
    ),
    "zamba2": small(
        "zamba2", head_dim=..., num_key_value_heads=4, num_hidden_layers=6, n_mamba_heads=4, mamba_d_state=10,
        mamba_ngroups=2, num_mem_blocks=2, adapter_rank=6, use_shared_attention_adapter=True, use_mem_rope=True,
        layers_block_type=["linear_attention", "hybrid", "linear_attention", "hybrid", "hybrid", "linear_attention"],
        tie_word_embeddings=True,
    ),
    "zamba2 of one block with biases": small(
        "zamba2", head_dim=..., num_hidden_layers=3, n_mamba_heads=8, mamba_d_state=10, add_bias_linear=True,
        adapter_rank=6, layers_block_type=["hybrid", "linear_attention", "hybrid"], tie_word_embeddings=True,
    ),
    "rwkv": {
        "model_type": "rwkv", **_OLD, "hidden_size": 64, "num_hidden_layers": 3, "attention_hidden_size": 64,
        "intermediate_size": 80, "context_length": 128, "tie_word_embeddings": False,
    },
    "olmo_hybrid": small(
        "olmo_hybrid", _LINEAR, head_dim=..., linear_num_key_heads=4, linear_num_value_heads=4,
        linear_key_head_dim=8, linear_value_head_dim=12, linear_conv_kernel_dim=4,
    ),
}  # fmt: skip
