"""Configurations as published: what they leave out, what they hold beside the language model, what they change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline import llm
from roofline.errors import InputError
from roofline.models import decode, load
from roofline.models.blocks.attention import Attention
from tests.models.published import PUBLISHED
from tests.models.small import small
from tests.models.tiny import TINY

COUNTS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "published_counts.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", PUBLISHED)
def test_counts_equal_those_of_transformers(name: str) -> None:
    assert load(PUBLISHED[name], name=name).parameters == COUNTS["parameters"][name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_only_towers_are_not_modelled(name: str) -> None:
    gaps = load(PUBLISHED[name], name=name).gaps
    assert gaps == (("vision_config is not modelled: only the language part is",) if "llava" in name else gaps[:1])
    assert ("vision_config" in PUBLISHED[name]) == bool(gaps)


def windows(data: dict[str, Any]) -> list[int | None]:
    return [b.window for layer in load(data).layers for b in layer.blocks if isinstance(b, Attention)]


def test_what_is_left_out_is_said() -> None:
    found = load(PUBLISHED["mistral-7b, short"])
    assert found.notes == (
        "left out, so as transformers takes it for mistral: num_key_value_heads 8, sliding_window 4096",
    )
    assert windows(PUBLISHED["mistral-7b, short"]) == [4096] * 32


def test_what_no_layer_needs_is_not_said_to_be_left_out() -> None:
    experts = (
        "n_shared_experts",
        "moe_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "num_experts_per_tok",
    )
    fields = {name: value for name, value in TINY["nemotron_h"].items() if name not in experts}
    assert load({**fields, "layers_block_type": ["mamba", "mlp", "attention", "mamba", "mlp"]}).notes == ()
    assert len(load(fields).notes) == 1


def test_null_is_not_left_out() -> None:
    assert windows({**PUBLISHED["mistral-7b, short"], "sliding_window": None}) == [None] * 32
    assert (
        load({**PUBLISHED["mistral-7b, short"], "num_key_value_heads": None}).kv_bytes_per_token() == 2 * 2 * 4096 * 32
    )


def test_window_patterns_that_the_types_have() -> None:
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8}
    assert windows(small("gpt_oss", **experts)) == [8, None, 8]
    assert windows(small("cwm", sliding_window=8, num_hidden_layers=5)) == [None, 8, 8, 8, None]


@pytest.mark.parametrize("kind", ["mistral", "phi3", "gpt_oss", "olmo3", "starcoder2", "mixtral"])
def test_a_window_of_nothing(kind: str) -> None:
    with pytest.raises(InputError, match=r"sliding_window of .* is 0; it is a whole number of at least 1"):
        load(small(kind, sliding_window=0, num_local_experts=4, num_experts_per_tok=2))


@pytest.mark.parametrize("field", ["is_encoder_decoder", "add_cross_attention"])
def test_cross_attention_is_a_gap(field: str) -> None:
    assert f"{field} is not understood and not modelled" in load(small("llama", **{field: True})).gaps
    assert not load(small("llama", **{field: False})).gaps


def test_bitnet_packs_four_weights_a_byte() -> None:
    model = load(PUBLISHED["bitnet-b1.58-2b-4t"])
    layer = 2560 * (2560 * 2 + 2 * 640) + 3 * 2560 * 6912
    kept = model.parameters - 30 * layer
    scales = 7 * 2 * 30
    assert model.weight_bytes() == 30 * layer // 4 + 2 * kept + scales


def test_multimodal_sections_that_name_an_unknown_type() -> None:
    data = {"model_type": "llava", "text_config": {"model_type": "xlstm"}, "vision_config": {"hidden_size": 8}}
    with pytest.raises(InputError, match="model_type 'xlstm' has layers that are not modelled"):
        load(data)


def test_an_older_name_of_the_language_part() -> None:
    """InternVL's own code calls it ``llm_config``; what is inside decides the rest."""
    text = small("qwen2", head_dim=...)
    inside = {"model_type": "internvl_chat", "llm_config": text, "vision_config": {"hidden_size": 8}, "template": "x"}
    found = load(inside)
    assert found.parameters == load(text).parameters
    assert found.gaps == ("vision_config is not modelled: only the language part is",)
    with pytest.raises(InputError, match="has no text_config; a kimi_vl configuration holds its language model there"):
        load({"model_type": "kimi_vl", "hidden_size": 64})


def test_numbers_of_tokens_change_no_cost() -> None:
    assert not load(small("llama", some_new_token_id=3, other_token_index=4)).gaps


_CODE: dict[str, tuple[int, int, dict[str, Any]]] = {
    "roberta-base": (124_645_632, 0, {
        "model_type": "roberta", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1,
    }),
    # published: 184M, of which 86M are its layers; 137M; 434M; 109M
    "deberta-v3-base": (183_831_552, 0, {
        "model_type": "deberta-v2", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "vocab_size": 128100, "max_position_embeddings": 512, "type_vocab_size": 0,
        "relative_attention": True, "position_buckets": 256, "max_relative_positions": -1, "share_att_key": True,
        "norm_rel_ebd": "layer_norm", "pos_att_type": "p2c|c2p", "position_biased_input": False,
        "pooler_hidden_size": 768, "pooler_dropout": 0, "pooler_hidden_act": "gelu",
    }),
    "nomic-embed-text-v1.5": (136_731_648, 0, {
        "model_type": "nomic_bert", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": 3072, "vocab_size": 30528,
        "n_positions": 512, "activation_function": "swiglu", "qkv_proj_bias": False, "mlp_fc1_bias": False,
        "mlp_fc2_bias": False, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "type_vocab_size": 2,
    }),
    "gte-large-en-v1.5": (434_139_136, 0, {
        "model_type": "new", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
        "intermediate_size": 4096, "vocab_size": 30528, "max_position_embeddings": 512, "type_vocab_size": 2,
        "pack_qkv": True, "layer_norm_type": "layer_norm", "position_embedding_type": "rope",
    }),
    "all-mpnet-base-v2": (109_486_464, 0, {
        "model_type": "mpnet", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "vocab_size": 30527, "max_position_embeddings": 514,
        "relative_attention_num_buckets": 32,
    }),
    "xlm-roberta-large": (559_890_432, 0, {
        "model_type": "xlm-roberta", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
        "intermediate_size": 4096, "vocab_size": 250002, "max_position_embeddings": 514, "type_vocab_size": 1,
        "output_past": True,
    }),
    "distilbert-base-uncased": (66_362_880, 0, {
        "model_type": "distilbert", "activation": "gelu", "dim": 768, "hidden_dim": 3072, "n_heads": 12, "n_layers": 6,
        "max_position_embeddings": 512, "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False,
        "tie_weights_": True, "vocab_size": 30522,
    }),
    "chatglm3-6b": (6_243_584_000, 28 * 2 * 2 * 128 * 2, {
        "model_type": "chatglm", "add_bias_linear": False, "add_qkv_bias": True, "ffn_hidden_size": 13696,
        "hidden_size": 4096, "kv_channels": 128, "multi_query_attention": True, "multi_query_group_num": 2,
        "num_attention_heads": 32, "num_layers": 28, "original_rope": True, "padded_vocab_size": 65024,
        "post_layer_norm": True, "rmsnorm": True, "seq_length": 32768, "tie_word_embeddings": False,
    }),
    "qwen-7b": (7_721_324_544, 32 * 2 * 4096 * 2, {
        "model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016, "kv_channels": 128,
        "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 151936, "no_bias": True,
        "max_position_embeddings": 32768, "use_flash_attn": "auto", "tie_word_embeddings": False,
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", _CODE)
def test_counts_of_encoders_and_of_models_with_code_of_their_own(name: str) -> None:
    parameters, kept, data = _CODE[name]
    model = load(data, name=name)
    assert (model.parameters, model.kv_bytes_per_token()) == (parameters, kept)
    assert not model.gaps
    assert model.context == (512 if not kept else 32768)


def test_classes_that_files_name_without_more_may_generate() -> None:
    parameters, _, fields = _CODE["chatglm3-6b"]
    assert load({**fields, "architectures": ["ChatGLMModel"]}).parameters == parameters
    seeing = {"model_type": "internvl_chat", "architectures": ["InternVLChatModel"], "llm_config": TINY["qwen3_moe"]}
    assert load(seeing).head


def test_a_chatglm_of_another_form_is_not_read() -> None:
    with pytest.raises(InputError, match="has layer norms or biases everywhere"):
        load({**_CODE["chatglm3-6b"][2], "add_bias_linear": True})


def sizes(kind: str, width: int, layers: int, heads: int, hidden: int, words: int, **more: Any) -> dict[str, Any]:
    """The usual fields of a configuration."""
    return {
        "model_type": kind, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "intermediate_size": hidden, "vocab_size": words, **more,
    }  # fmt: skip


_UNTIED = {"tie_word_embeddings": False}
_LING: dict[str, Any] = {
    "use_bias": False, "use_qkv_bias": False, "num_key_value_heads": 4, "head_dim": 128, **_UNTIED,
}  # fmt: skip


def openelm(width: int, layers: int, kv_heads: list[int]) -> dict[str, Any]:
    """An OpenELM of this width: 4 heads of queries to each of keys, MLPs of half to four times its width."""
    return {
        "model_type": "openelm", "model_dim": width, "num_transformer_layers": layers, "head_dim": 64,
        "num_kv_heads": kv_heads, "num_query_heads": [4 * heads for heads in kv_heads], "vocab_size": 32000,
        "ffn_multipliers": [round(0.5 + 3.5 * number / (layers - 1), 2) for number in range(layers)],
        "ffn_dim_divisor": 256, "ffn_with_glu": True, "activation_fn_name": "swish", "normalize_qk_projections": True,
        "share_input_output_layers": True, "max_context_length": 2048, "num_gqa_groups": 4, "rope_max_length": 4096,
    }  # fmt: skip


#: Public configurations with the fields that a reader may stumble over, and their parameters: those of transformers
#: 5.23 built without memory, or of the published checkpoint where it has no such type.
PUBLIC: dict[str, tuple[dict[str, Any], int]] = {
    "phi-4-mini": (
        sizes("phi3", 3072, 32, 24, 8192, 200064, num_key_value_heads=8, partial_rotary_factor=0.75, full_attn_mod=1,
              interpolate_factor=1, sliding_window=262144, tie_word_embeddings=True),
        3836021760,
    ),
    "phi-4-multimodal, language": (
        sizes("phi4mm", 3072, 32, 24, 8192, 200064, num_key_value_heads=8, partial_rotary_factor=0.75,
              tie_word_embeddings=True),
        3836021760,
    ),
    "exaone-4.0-1.2b": (
        sizes("exaone4", 2048, 30, 32, 4096, 102400, num_key_value_heads=8, head_dim=64, sliding_window=None,
              sliding_window_pattern=None, reorder_and_qk_norm=True, tie_word_embeddings=True),
        1279391488,
    ),
    "command-a": (
        sizes("cohere2", 12288, 64, 96, 36864, 256000, num_key_value_heads=8, head_dim=128, sliding_window=4096,
              sliding_window_pattern=4, use_embedding_sharing=True, layer_switch=4),
        111057580032,
    ),
    "stablelm-2-12b": (
        sizes("stablelm", 5120, 40, 32, 13824, 100352, num_key_value_heads=8, qk_layernorm=True, use_qkv_bias=False,
              use_parallel_residual=True, partial_rotary_factor=0.25, rotary_scaling_factor=1.0, **_UNTIED),
        12143185920,
    ),
    "baichuan2-13b": (
        sizes("baichuan", 5120, 40, 40, 13696, 125696, _from_model_config=True, model_max_length=4096, **_UNTIED),
        13896668160,
    ),
    "minicpm3-4b": (
        sizes("minicpm3", 2560, 62, 40, 6400, 73448, num_key_value_heads=40, q_lora_rank=768, kv_lora_rank=256,
              qk_nope_head_dim=64, qk_rope_head_dim=32, scale_emb=12, tie_word_embeddings=True),
        4073875968,
    ),
    "minicpm-moe-8x2b": (
        sizes("minicpm", 2304, 40, 36, 5760, 122753, num_key_value_heads=36, num_experts=8, num_experts_per_tok=2),
        13873291776,
    ),
    "minicpm-2b": (sizes("minicpm", 2304, 40, 36, 5760, 122753, num_key_value_heads=36, scale_emb=12), 2724880896),
    "galactica-6.7b": (
        {"model_type": "opt", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "ffn_dim": 16384,
         "vocab_size": 50000, "enable_bias": False, "layer_norm_elementwise_affine": False, "learned_embeddings": True,
         "activation_function": "gelu"},
        6655647744,
    ),
    "fuyu-8b": (  # transformers counts its matrix of patches too
        sizes("fuyu", 4096, 36, 64, 16384, 262144, patch_size=30, num_channels=3, text_model_type="persimmon",
              hidden_act="relu2", **_UNTIED),
        9408238592,
    ),
    "phi-2 as first published": (
        {"model_type": "phi-msft", "n_embd": 2560, "n_head": 32, "n_head_kv": None, "n_inner": None, "n_layer": 32,
         "n_positions": 2048, "rotary_dim": 32, "vocab_size": 51200, "activation_function": "gelu_new", **_UNTIED},
        2779683840,
    ),
    "grok-2": (
        sizes("git", 8192, 64, 64, 32768, 131072, num_key_value_heads=8, head_dim=128, moe_intermediate_size=16384,
              num_local_experts=8, num_experts_per_tok=2, residual_moe=True, sliding_window_size=-1,
              final_logit_softcapping=50, architectures=["Grok1ForCausalLM"]),
        269515497472,
    ),
    "openelm-270m": (openelm(1280, 16, [3] * 5 + [4] * 7 + [5] * 4), 271527168),
    "openelm-1.1b": (openelm(2048, 28, [4] * 3 + [5] * 7 + [6] * 8 + [7] * 6 + [8] * 4), 1079891456),
    "plamo-13b": (
        sizes("plamo", 5120, 40, 40, 16640, 50432, num_key_value_heads=40, n_shared_head=8, **_UNTIED), 13099545600,
    ),
    "solar-pro-preview": (
        sizes("solar", 5120, 64, 40, 17920, 32128, num_key_value_heads=10, sliding_window=2047,
              bskcn_1=[12, 20, 32, 44], bskcn_2=[20, 32], bskcn_3=[16, 24, 36, 48], bskcn_4=[28, 40],
              bskcn_tv=[0.9, 0.8], **_UNTIED),
        22140032000,
    ),
    "rwkv-5-world-1b5": (
        {"model_type": "rwkv5", "hidden_size": 2048, "attention_hidden_size": 2048, "num_hidden_layers": 24,
         "head_size": 64, "head_size_divisor": 8, "num_attention_heads": 64, "intermediate_size": None,
         "model_version": "5_2", "rescale_every": 6, "vocab_size": 65536, **_UNTIED},
        1577754624,
    ),
    "youtu-llm-2b as first published": (
        sizes("youtu_llm", 2048, 32, 16, 6144, 128256, num_key_value_heads=16, q_lora_rank=1536, kv_lora_rank=512,
              qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, tie_word_embeddings=True),
        1961560064,
    ),
    "internlm-7b": (sizes("internlm", 4096, 32, 32, 11008, 103168, bias=True, **_UNTIED), 7321948160),
    "minimax-m2": (
        sizes("minimax_m2", 3072, 62, 48, 1536, 200064, num_key_value_heads=8, head_dim=128, num_local_experts=256,
              num_experts_per_tok=8, use_qk_norm=True, qk_norm_type="per_layer", rotary_dim=64, scoring_func="sigmoid",
              mlp_intermediate_size=8192, attn_type_list=[1] * 62, use_mtp=True, shared_intermediate_size=0, **_UNTIED),
        228689748992,
    ),
    "ernie-4.5-300b-a47b": (
        sizes("ernie4_5_moe", 8192, 54, 64, 28672, 103424, num_key_value_heads=8, moe_intermediate_size=3584,
              moe_num_experts=64, moe_k=8, moe_layer_start_index=3, moe_layer_end_index=53, moe_num_shared_experts=0,
              moe_use_aux_free=True, use_bias=False, use_rmsnorm=True, **_UNTIED),
        299484163264,
    ),
    "hunyuan-a13b": (
        sizes("hunyuan_v1_moe", 4096, 32, 32, 3072, 128167, num_key_value_heads=8, moe_intermediate_size=[3072] * 32,
              num_experts=64, moe_topk=[8] * 32, num_shared_expert=[1] * 32, use_mixed_mlp_moe=True, use_qk_norm=True,
              org_vocab_size=128167, tie_word_embeddings=True),
        80393183232,
    ),
    "hunyuan-large": (  # every second layer has no keys and values of its own; 389B as published, arXiv:2411.02265
        sizes("hunyuan", 6400, 64, 80, 18304, 129024, num_key_value_heads=8, num_experts=16, moe_topk=1,
              num_shared_expert=1, use_mixed_mlp_moe=True, use_cla=True, cla_share_factor=2, use_qk_norm=True,
              tie_word_embeddings=True),
        6400 * 129024 + 6400 + 64 * (17 * 3 * 6400 * 18304 + 16 * 6400 + 2 * 6400**2 + 2 * 6400 + 80)
        + 32 * (2 * 6400 * 8 * 80 + 80),
    ),
    "dream-7b": (
        sizes("Dream", 3584, 28, 28, 18944, 152064, num_key_value_heads=4, mask_token_id=151666, use_mrope=False,
              use_sliding_window=False, **_UNTIED),
        7615616512,
    ),
    "llada-8b": (
        {"model_type": "llada", "d_model": 4096, "n_heads": 32, "n_kv_heads": 32, "n_layers": 32,
         "mlp_hidden_size": 12288, "embedding_size": 126464, "vocab_size": 126464, "weight_tying": False,
         "include_bias": False, "include_qkv_bias": False, "block_type": "llama", "layer_norm_type": "rms",
         "activation_type": "silu", "rope": True, "mlp_ratio": 4},
        2 * 126464 * 4096 + 32 * (4 * 4096**2 + 3 * 4096 * 12288 + 2 * 4096) + 4096,
    ),
    "ouro-1.4b": (  # a norm behind each turn is one, and a gate may end a text's turns
        sizes("ouro", 2048, 24, 16, 5632, 49152, num_key_value_heads=16, head_dim=128, total_ut_steps=4,
              early_exit_threshold=1.0, **_UNTIED),
        2 * 49152 * 2048 + 24 * (4 * 2048**2 + 3 * 2048 * 5632 + 4 * 2048) + 2048 + 2049,
    ),
    "dory-4b": (  # as transformers 5.24 builds it; an attention and an MLP are listed as two layers
        sizes("dory", 2560, 72, 16, 7168, 131072, num_key_value_heads=4, attention_head_dim=256, n_input_layers=16,
              n_recurrent_layers=40, n_output_layers=16, n_recurrent_loops=2, recurrent_kv_cache_mode="per_loop",
              swa_window_size=1024, hybrid_layer_pattern="S-S-S-*-" * 9, no_rope_layers=[0] * 72, **_UNTIED),
        3975229440,
    ),
    "plamo-3-nict-8b": (  # as published
        sizes("plamo3", 4096, 32, 32, 16384, 107520, num_key_value_heads=4, head_dim=128, window_size=2048,
              sliding_window_pattern=8, interleaved_sliding_window=([2048] * 7 + [None]) * 4),
        8091348992,
    ),
    "alice-ai-80b-a3b": (  # with what predicts a further token 162.6 GB as published
        sizes("alice_ai", 2048, 48, 16, 5120, 129024, num_key_value_heads=2, head_dim=256, num_experts=512,
              num_experts_per_tok=10, moe_intermediate_size=512, shared_expert_intermediate_size=512,
              linear_num_key_heads=32, linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128,
              linear_conv_kernel_dim=4, mtp_num_hidden_layers=1, block_attn_res_block_size=4, **_UNTIED),
        2 * 129024 * 2048 + 2048 + 96 * 2 * 2048 + 48 * (513 * 3 * 2048 * 512 + 512 * 2048 + 3 * 2048)
        + 36 * (4 * 2048 * 4096 + 2 * (2048 * 128 + 128 * 4096) + 2048 * 32 + 3 * 4096 * 4 + 4096 + 32 + 128)
        + 12 * (2048 * 36 * 256 + 16 * 256 * 2048 + 2 * 256),
    ),
    "xing-4.0-29b-a4b": (
        sizes("xing4_0", 3584, 40, 32, 9216, 131072, num_key_value_heads=32, q_lora_rank=768, kv_lora_rank=512,
              qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, first_k_dense_replace=2, hc_mult=4,
              moe_intermediate_size=1024, n_routed_experts=64, n_shared_experts=1, num_experts_per_tok=4,
              n_group=1, topk_group=1, scoring_func="sigmoid", **_UNTIED),
        2 * 131072 * 3584 + 3584 + 2 * 3 * 3584 * 9216 + 38 * (65 * 3 * 3584 * 1024 + 64 * 3584)
        + 40 * (3584 * (768 + 576 + 2) + 768 + 768 * 32 * 192 + 512 + 512 * 32 * 256 + 32 * 128 * 3584)
        + 40 * 2 * (24 * 4 * 3584 + 24 + 3),
    ),
    "smallthinker-4b-a0.6b": (
        sizes("smallthinker", 1536, 32, 12, 1, 151936, num_key_value_heads=2, head_dim=128, moe_ffn_hidden_size=768,
              moe_num_active_primary_experts=4, moe_num_primary_experts=32, rope_layout=[1] * 32,
              sliding_window_size=4096, sliding_window_layout=[0] * 32),
        151936 * 1536 + 1536
        + 32 * (2 * 1536**2 + 2 * 1536 * 256 + 32 * 1536 + 32 * 3 * 1536 * 768 + 2 * 1536),
    ),
    "gigachat-3.5-432b-a28b": (  # gates of rank 16 behind norms; 432.6B with what predicts further tokens
        sizes("gigachat3_5", 7168, 40, 64, 18432, 128256, num_key_value_heads=64, head_dim=64, q_lora_rank=1536,
              kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, moe_intermediate_size=2048,
              n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, n_group=1, topk_group=1,
              first_k_dense_replace=3, num_nextn_predict_layers=3, full_attention_layers=[*range(3, 40, 4)],
              linear_num_key_heads=32, linear_num_value_heads=64, linear_key_head_dim=128, linear_value_head_dim=128,
              linear_conv_kernel_dim=4, **_UNTIED),
        2 * 128256 * 7168 + (1 + 4 * 40) * 33 * 7168 + 3 * 3 * 7168 * 18432 + 37 * (257 * 3 * 2048 + 256) * 7168
        + 10 * (7168 * (1536 + 576) + 33 * (1536 + 512) + 1536 * 64 * 192 + 512 * 64 * 256 + 2 * 64 * 128 * 7168)
        + 30 * (7168 * (3 * 8192 + 128) + 4 * 16384 + 2 * 64 + 128 + 8192 * 7168),
    ),
    "longcat-flash-lite": (  # 31.4B of its 68.5B are rows for words with those before them
        {"model_type": "longcat_flash_ngram", "hidden_size": 3072, "num_layers": 14, "num_attention_heads": 32,
         "ffn_hidden_size": 6144, "expert_ffn_hidden_size": 1024, "n_routed_experts": 256, "zero_expert_num": 128,
         "moe_topk": 12, "vocab_size": 131072, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "v_head_dim": 128, "ngram_vocab_size_ratio": 78, "emb_neighbor_num": 4,
         "emb_split_num": 4, "mla_scale_q_lora": True, "mla_scale_kv_lora": True, **_UNTIED},
        2 * 131072 * 3072 + 3072 + sum(78 * 131072 + 2 * n + 1 for n in range(12)) * 256 + 3072**2
        + 14 * (256 * 3 * 3072 * 1024 + 384 * 3072 + 384)
        + 28 * (3072 * (1536 + 576 + 2) + 1536 + 1536 * 32 * 192 + 512 + 512 * 32 * 256 + 32 * 128 * 3072
                + 3 * 3072 * 6144),
    ),
    "jais-13b": (
        {"model_type": "jais", "n_embd": 5120, "n_head": 40, "n_inner": 13653, "n_layer": 40, "vocab_size": 84992,
         "activation_function": "swiglu", "position_embedding_type": "alibi", "n_positions": 2048},
        84992 * 5120 + 40 * (4 * 5120**2 + 4 * 5120 + 3 * 5120 * 13653 + 2 * 13653 + 5 * 5120) + 2 * 5120,
    ),
    "openpangu-ultra-moe-718b": (
        sizes("pangu_ultra_moe", 7680, 61, 128, 18432, 153600, num_key_value_heads=128, attention_q_lora_dim=1536,
              attention_kv_lora_dim=512, attention_qk_dim=128, attention_qk_rope_dim=64, attention_v_dim=128,
              moe_intermediate_size=2048, num_dense_layers=3, num_experts_per_tok=8, num_routed_experts=256,
              num_shared_experts=1, sandwich_norm=True, **_UNTIED),
        2 * 153600 * 7680 + 7680 + 3 * 3 * 7680 * 18432 + 58 * (256 * 7680 + 257 * 3 * 7680 * 2048)
        + 61 * (7680 * (1536 + 576 + 4) + 1536 + 1536 * 128 * 192 + 512 + 512 * 128 * 256 + 128 * 128 * 7680),
    ),
    "nanbeige-4.2-3b": (  # 22 layers that run twice, a norm behind each turn
        sizes("nanbeige", 3072, 22, 48, 9728, 166144, num_key_value_heads=8, head_dim=128, num_loops=2,
              skip_loop_final_norm=False, loop_loss_weights=[], **_UNTIED),
        2 * 166144 * 3072 + 22 * (2 * 48 * 128 * 3072 + 2 * 8 * 128 * 3072 + 3 * 3072 * 9728 + 2 * 3072) + 3072,
    ),
    "plamo-2-1b": (  # every second layer is a mixer of 32 heads with one step width each; 1.29B as published
        sizes("plamo2", 2048, 16, 16, 8192, 100000, num_key_value_heads=1, hidden_size_per_head=128, mamba_num_heads=32,
              mamba_d_state=64, mamba_d_conv=4, mamba_step=2, mamba_chunk_size=256, attention_window_size=2048,
              mamba_enabled=True),
        2048 * 100001 + 16 * (3 * 2048 * 8192 + 4 * 2048) + 8 * (2 * 2048 * 17 * 128 + 17 * 128)
        + 8 * (3 * 2048 * 4096 + 4096 * (4 + 128 + 128) + 128 * 32 + 3 * 32 + 128 + 2 * 64),
    ),
    "telechat3-36b": (
        sizes("telechat3", 6144, 64, 48, 24576, 131072, num_key_value_heads=8, head_dim=128, **_UNTIED),
        2 * 131072 * 6144 + 64 * (2 * 6144**2 + 2 * 1024 * 6144 + 3 * 6144 * 24576 + 2 * 6144) + 6144,
    ),
    "ling-mini-2.0": (
        sizes("bailing_moe_v2", 2048, 20, 16, 5120, 157184, moe_intermediate_size=512, num_experts=256, n_group=8,
              topk_group=4, num_experts_per_tok=8, num_shared_experts=1, first_k_dense_replace=1, use_qk_norm=True,
              partial_rotary_factor=0.5, score_function="sigmoid", router_dtype="fp32", use_rmsnorm=True, **_LING),
        16255638528,
    ),
    # linear attention: five matrices of the width of all heads, norms of queries, keys (a head) and results
    "ring-mini-linear-2.0": (
        sizes("bailing_moe_linear", 2048, 20, 16, 5120, 157184, moe_intermediate_size=512, num_experts=256, n_group=8,
              topk_group=4, num_experts_per_tok=8, num_shared_experts=1, first_k_dense_replace=1, use_qk_norm=True,
              partial_rotary_factor=0.5, score_function="sigmoid", layer_group_size=5, group_norm_size=4,
              linear_silu=False, moe_shared_expert_intermediate_size=512, **_LING),
        16255638528 + 16 * (2 * 2048 * (2048 - 512) + 2048 * 2048 + 2048),
    ),
    "ring-2.5-1t": (
        sizes("bailing_hybrid", 8192, 80, 64, 18432, 157184, moe_intermediate_size=2048, num_experts=256, n_group=8,
              topk_group=4, num_experts_per_tok=8, num_shared_experts=1, first_k_dense_replace=4, use_qk_norm=True,
              q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
              layer_group_size=8, group_norm_size=8, score_function="sigmoid",
              moe_shared_expert_intermediate_size=2048, **_LING),
        2 * 157184 * 8192 + 8192 + 80 * 2 * 8192 + 4 * 3 * 8192 * 18432 + 76 * (257 * 3 * 8192 * 2048 + 256 * 8192)
        + 70 * (5 * 8192**2 + 8192 + 2 * 128)
        + 10 * (8192 * (1536 + 576) + 1536 + 512 + 64 * (1536 * 192 + 512 * 256 + 128 * 8192)),
    ),
    # windows and full attention have as many heads; its checkpoint stores experts alone as mxfp4
    "mimo-v2.6-pro": (
        sizes("mimo_v2", 6144, 70, 128, 16384, 152576, num_key_value_heads=8, head_dim=192, v_head_dim=128,
              swa_num_attention_heads=128, swa_num_key_value_heads=8, swa_head_dim=192, swa_v_head_dim=128,
              hybrid_layer_pattern=[0] + [1] * 60 + [0] * 9, moe_layer_freq=[0] + [1] * 69, sliding_window=128,
              n_routed_experts=384, num_experts_per_tok=8, moe_intermediate_size=2048, scoring_func="sigmoid",
              n_group=1, topk_group=1, num_nextn_predict_layers=3, attention_projection_layout="fused_qkv",
              quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128], "store_dtype": "mxfp4",
                                   "ignored_layers": [f"model.layers.{n}.self_attn.o_proj" for n in range(70)]},
              **_UNTIED),
        2 * 152576 * 6144 + 6144 + 70 * (6144 * (27136 + 128 * 128) + 2 * 6144) + 60 * 128
        + 3 * 6144 * 16384 + 69 * 384 * (6144 * 3 * 2048 + 6144),
    ),
    "sdar-1.7b": (
        sizes("sdar", 2048, 28, 16, 6144, 151936, num_key_value_heads=8, head_dim=128, max_window_layers=28,
              block_size=4, use_sliding_window=False, fuse_cross_entropy=True, **_UNTIED),
        2 * 151936 * 2048 + 2048 + 28 * (2 * 2048 * (2048 + 1024) + 3 * 2048 * 6144 + 2 * 2048 + 2 * 128),
    ),
    "ling-lite": (
        sizes("bailing_moe", 2048, 28, 16, 5632, 126464, moe_intermediate_size=1408, num_experts=64,
              num_experts_per_tok=6, num_shared_experts=2, first_k_dense_replace=0, norm_softmax=False, **_LING),
        16801974272,
    ),
    "deepseek-moe-16b": (
        sizes("deepseek", 2048, 28, 16, 10944, 102400, num_key_value_heads=16, moe_intermediate_size=1408,
              n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1,
              moe_layer_freq=1, **_UNTIED),
        16375728128,
    ),
    "orion-14b": (
        sizes("orion", 5120, 40, 40, 15360, 84608, num_key_value_heads=40, pretraining_tp=1, **_UNTIED),
        2 * 84608 * 5120 + 40 * (4 * 5120**2 + 3 * 5120 * 15360 + 4 * 5120) + 2 * 5120,
    ),
    "aquila2-34b": (
        sizes("aquila", 6144, 60, 48, 24576, 100008, num_key_value_heads=8, **_UNTIED),
        2 * 100008 * 6144 + 60 * (2 * 6144**2 + 2 * 1024 * 6144 + 3 * 6144 * 24576 + 2 * 6144) + 6144,
    ),
    "xverse-13b": (
        sizes("xverse", 5120, 40, 40, 13824, 100534, max_tokenizer_truncation=8192, **_UNTIED),
        2 * 100534 * 5120 + 40 * (4 * 5120**2 + 3 * 5120 * 13824 + 2 * 5120) + 5120,
    ),
}  # fmt: skip
PUBLIC["openpangu-embedded-7b"] = (
    sizes("PanguEmbedded", 4096, 34, 32, 12800, 153376, num_key_value_heads=8, bias=True, **_UNTIED),
    2 * 153376 * 4096
    + 34 * (2 * 4096 * (4096 + 1024) + 2 * (4096 + 1024) + 3 * 4096 * 12800 + 2 * 4096) + 4096,
)  # fmt: skip
PUBLIC["telechat2-7b"] = (  # biases behind attention and the MLP alone
    {
        "model_type": "telechat", "hidden_size": 4096, "n_layer": 30, "n_head": 32, "ffn_hidden_size": 12288,
        "vocab_size": 131072, "num_key_value_heads": 32, "skip_bias_add": True, "embed_layernorm": False, **_UNTIED,
    },
    2 * 131072 * 4096 + 30 * (4 * 4096**2 + 3 * 4096 * 12288 + 4 * 4096) + 4096,
)  # fmt: skip
_MINICPM: dict[str, Any] = {"vision_config": {"hidden_size": 1152}, "query_num": 64, "slice_mode": True, **_UNTIED}
#: Published with the language model's fields beside those of pictures: what is not read, and parameters.
_SEEING: dict[str, tuple[dict[str, Any], str, int]] = {
    "molmo-7b-d": (  # Qwen2-7B, and 128 rows more
        sizes("molmo", 3584, 28, 28, 37888, 152064, embedding_size=152064, num_key_value_heads=4, qkv_bias=True,
              norm_after=False, attention_layer_norm=False, layer_norm_type="rms", use_position_ids=True, **_UNTIED),
        "the vision tower, which no field describes, is not modelled", 7615616512 + 128 * 3584,
    ),
    "molmo-7b-o": (
        sizes("molmo", 4096, 32, 32, 22016, 100278, embedding_size=100352, num_key_value_heads=None, qkv_bias=False,
              norm_after=True, attention_layer_norm=True, layer_norm_type="rms", **_UNTIED),
        "the vision tower, which no field describes, is not modelled",
        (2 * 100352 + 128) * 4096 + 32 * (4 * 4096**2 + 3 * 4096 * 11008 + 4 * 4096) + 4096,
    ),
    "phi-3.5-vision": (  # Phi-3-mini
        sizes("phi3_v", 3072, 32, 32, 8192, 32064, num_key_value_heads=32, sliding_window=262144,
              embd_layer={"embedding_cls": "image"}, img_processor={"name": "clip_vision_model"}),
        "img_processor is not understood and not modelled", 3821079552,
    ),
    "dots.ocr": (
        sizes("dots_ocr", 1536, 28, 12, 8960, 151936, num_key_value_heads=2, attention_bias=True,
              vision_config={"embed_dim": 1536, "num_hidden_layers": 42}, image_token_id=151665, **_UNTIED),
        "vision_config is not modelled: only the language part is",
        2 * 151936 * 1536 + 28 * (2 * 1536**2 + 2 * 1536 * 256 + 2048 + 3 * 1536 * 8960 + 2 * 1536) + 1536,
    ),
    "minicpm-v-2.6": (  # Qwen2-7B without 398 rows of padding
        sizes("minicpmv", 3584, 28, 28, 18944, 151666, num_key_value_heads=4, version=2.6, **_MINICPM),
        "vision_config is not modelled: only the language part is", 7615616512 - 2 * 398 * 3584,
    ),
    "minicpm-v-4.5": (  # Qwen3-8B without 188
        sizes("minicpmv", 4096, 36, 32, 12288, 151748, num_key_value_heads=8, head_dim=128, version=4.5, **_MINICPM),
        "vision_config is not modelled: only the language part is", 8190735360 - 2 * 188 * 4096,
    ),
    "minicpm-llama3-v-2.5": (  # Llama-3-8B, of no version
        sizes("minicpmv", 4096, 32, 32, 14336, 128256, num_key_value_heads=8, **_MINICPM),
        "vision_config is not modelled: only the language part is", 8030261248,
    ),
    "ernie-4.5-vl-28b-a3b": (
        sizes("ernie4_5_moe_vl", 2560, 28, 20, 12288, 103424, num_key_value_heads=4, moe_intermediate_size=[1536, 512],
              moe_k=6, moe_layer_start_index=[1, 1], moe_layer_end_index=[29, 28], moe_num_experts=[64, 64],
              moe_num_shared_experts=2, pixel_hidden_size=1280, rope_3d=True, tie_word_embeddings=True, use_bias=False,
              vision_config={"depth": 32, "embed_dim": 1280}),
        "vision_config is not modelled: only the language part is",
        103424 * 2560 + 28 * (2 * 2560**2 + 2 * 2560 * 512 + 2 * 2560) + 2560 + 3 * 2560 * 12288
        + 27 * (3 * 2560 * (66 * 1536 + 64 * 512) + 2 * 64 * (2560 + 1)),
    ),
    "paddleocr-vl": (
        sizes("paddleocr_vl", 1024, 18, 16, 3072, 103424, num_key_value_heads=2, head_dim=128, use_bias=False,
              compression_ratio=1.0, rope_is_neox_style=True, use_3d_rope=True, weight_share_add_bias=True,
              vision_config={"hidden_size": 1152}, **_UNTIED),
        "vision_config is not modelled: only the language part is",
        2 * 103424 * 1024 + 1024 + 18 * (1024 * (2 * 2048 + 2 * 256 + 3 * 3072) + 2 * 1024),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _SEEING)
def test_the_language_part_of_flat_configurations_is_read(name: str) -> None:
    data, gap, parameters = _SEEING[name]
    found = load(data, name=name)
    assert (found.parameters, found.gaps) == (parameters, (gap,))


@pytest.mark.parametrize("name", PUBLIC)
def test_public_configurations_are_read_whole(name: str) -> None:
    data, parameters = PUBLIC[name]
    found = load(data, name=name)
    assert (found.parameters, found.gaps) == (parameters, ())


def test_keys_that_are_chosen_in_a_way_that_is_not_modelled_are_no_silent_full_attention() -> None:
    """MiniCPM4.1 attends to the blocks of keys that its ``sparse_config`` picks."""
    fields = sizes("minicpm", 4096, 32, 32, 16384, 73448, num_key_value_heads=2, mup_denominator=32, **_UNTIED)
    assert load(fields).gaps == ()
    chosen = load({**fields, "sparse_config": {"kernel_size": 32, "block_size": 64, "topk": 64}})
    assert chosen.gaps == ("sparse_config is not understood and not modelled",)


def test_an_empty_list_of_layers_without_rotation_is_the_usual_one() -> None:
    """Llama 4 is published with ``no_rope_layers: []``."""
    experts = {"num_local_experts": 4, "num_experts_per_tok": 1, "attention_chunk_size": 8, "num_hidden_layers": 4}
    listed, left = (load(small("llama4_text", **experts, no_rope_layers=each)).layers for each in ([1, 1, 1, 0], []))
    assert listed == left


@pytest.mark.parametrize(
    ("name", "kept", "products"),
    [
        # keys and values of 2 bytes; parameters of norms, and of a table beside the head, are in no product
        ("openelm-270m", 2 * 2 * 64 * (3 * 5 + 4 * 7 + 5 * 4), 271527168 - 33 * 1280 - 16 * 2 * 64),
        ("plamo-13b", 2 * 2 * 128 * 5 * 40, 13099545600 - 50432 * 5120 - 41 * 5120),
        ("solar-pro-preview", 2 * 2 * 128 * 10 * 64, 22140032000 - 32128 * 5120 - 129 * 5120),
        ("rwkv-5-world-1b5", 0, 24 * (6 * 2048**2 + 2 * 2048 * 7168) + 65536 * 2048),
        ("dory-4b", 2 * 2 * 4 * 256 * 56, 56 * 2560 * (6144 + 2 * 4096 + 3 * 7168) + 131072 * 2560),
        ("nanbeige-4.2-3b", 2 * 2 * 8 * 128 * 44, 44 * 3072 * (2 * 56 * 128 + 3 * 9728) + 166144 * 3072),
    ],
)
def test_keys_and_products_of_a_token_by_hand(name: str, kept: int, products: int) -> None:
    """Keys and values of one token, and two FLOPs for each weight that it meets."""
    model = load(PUBLIC[name][0])
    assert model.kv_bytes_per_token("bf16") == kept
    products_run = [op for op in decode(model, context=1) if op.kind == "contraction"]
    assert sum(op.work.total("flops", "matrix") * op.repeat for op in products_run) == 2 * products


def test_types_that_are_another_but_for_names() -> None:
    llama, xing = sizes("llama", 64, 2, 4, 128, 100, num_key_value_heads=2), PUBLIC["xing-4.0-29b-a4b"][0]
    for kind, data in (("kormo", llama), ("xingchen4", xing)):
        one, other = load({**data, "model_type": kind}), load(data)
        assert (one.parameters, one.gaps) == (other.parameters, other.gaps)


def test_turns_are_said_by_weights_of_losses_too() -> None:
    data = PUBLIC["nanbeige-4.2-3b"][0]
    assert load({**data, "num_loops": 1, "loop_loss_weights": [0.5]}).layers == load(data).layers


def test_longcat_has_experts_and_rows_for_words_with_those_before_them() -> None:
    """Experts of LongCat stand in a branch of a layer; chips that split it share the rows, add up the rest."""
    model = load(PUBLIC["longcat-flash-lite"][0])
    assert model.sparsity == 256 / 8
    split = llm(model, on="h200:8", tensor=8, batch=1, context=1024)
    assert split.memory.parts["weights"] * 8 == pytest.approx(model.weight_bytes(), rel=0.03)
    rows, *_, total = (part.op for part in split.decode.ops[1:5])
    assert (rows.reads[0].traffic_elements, total.kind) == (2 * 256, "collective")  # of 12 rows ⌈12/8⌉
    with pytest.raises(InputError, match="emb_neighbor_num of toy is not understood; 2 at least"):
        load({**PUBLIC["longcat-flash-lite"][0], "emb_neighbor_num": 1}, name="toy")


def test_grok_2_activates_what_was_published() -> None:
    """115B of a token; the type alone is that of another model."""
    assert load(PUBLIC["grok-2"][0]).active_parameters == 114896674816
    with pytest.raises(InputError, match="model_type 'git' of toy is read as Grok 2 alone; residual_moe is true"):
        load(small("git"), name="toy")


def test_opt_without_its_last_norm() -> None:
    whole = small("opt", ffn_dim=48, head_dim=..., num_key_value_heads=...)
    assert load(whole).parameters - load({**whole, "_remove_final_layer_norm": True}).parameters == 2 * 64


def test_ling_activates_what_its_report_says() -> None:
    """Ling-mini-2.0: 1.4B of a token, 789M without the vocabulary (its README); Ring-mini-linear 957M, Ring-2.5 63B."""
    found = {name: load(PUBLIC[name][0]).active_parameters for name in ("ling-mini-2.0", "ring-mini-linear-2.0")}
    table = 2 * 157184 * 2048
    assert found["ling-mini-2.0"] == table + 789142528
    assert found["ring-mini-linear-2.0"] == table + 956947456
    assert 63e9 < load(PUBLIC["ring-2.5-1t"][0]).active_parameters < 64e9


def test_mimo_stores_what_its_checkpoint_holds() -> None:
    """Headers of MiMo-V2.6-Pro: elements of 8 bits, with those of layers that predict, and bytes of 4-bit ones."""
    model = load(PUBLIC["mimo-v2.6-pro"][0])
    eight, four = 70 * 27136 * 6144 + 3 * 6144 * 16384, 69 * 384 * 3 * 6144 * 2048
    assert (eight + 3 * (27136 + 3 * 16384) * 6144, four * 17 // 32) == (13378781184, 531351207936)
    rest = model.parameters - eight - four
    assert model.weight_bytes() == pytest.approx(eight * (1 + 4 / 128**2) + four * 17 / 32 + 2 * rest, rel=1e-4)
    assert model.mtp_parameters == 3 * (6144 * (27136 + 128 * 128 + 3 * 16384 + 2 * 6144) + 128 + 5 * 6144)


def test_flags_that_end_like_sections_are_none() -> None:
    """SmolVLM2 says ``is_llama_config: true`` inside its language part; PaliGemma 2 repeats the number of layers."""
    text = sizes("llama", 64, 2, 4, 128, 100, is_llama_config=True, perceiver_config={"hidden_act": "silu"},
                 _resampler_config={"n_latents": 64}, pixel_shuffle_factor=3)  # fmt: skip
    tower = {"model_type": "smolvlm_vision", "hidden_size": 1152, "patch_size": 14}
    found = load({"model_type": "smolvlm", "text_config": text, "vision_config": tower, "scale_factor": 3})
    assert found.gaps == ("vision_config is not modelled: only the language part is",)
    text = sizes("gemma2", 64, 2, 4, 128, 100, num_key_value_heads=2)
    found = load({"model_type": "paligemma", "num_hidden_layers": 2, "text_config": text, "vision_config": tower})
    assert found.gaps == ("vision_config is not modelled: only the language part is",)
