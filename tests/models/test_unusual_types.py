"""Types whose layers few others have: what is counted equals transformers, published figures and sums by hand."""

from __future__ import annotations

from typing import Any

import pytest

from roofline import llm
from roofline.errors import InputError
from roofline.hardware import chip
from roofline.models import Parallelism, decode, load, prefill, train
from roofline.models.blocks.residual import AttentionResidual
from roofline.models.parallelism.block_splitting import split_by_layout
from roofline.models.parallelism.layout import name_axes
from tests.models.small import small
from tests.models.test_published import sizes
from tests.models.tiny import TINY
from tests.strategies import some

GROK = sizes(
    "grok-1", 6144, 64, 48, 32768, 131072, num_key_value_heads=8, num_experts=8, num_experts_per_tok=2,
    attn_output_multiplier=0.08838834764831845, embedding_multiplier_scale=78.38367176906169, max_attn_value=30.0,
    output_multiplier_scale=0.5773502691896257, max_position_embeddings=8192, tie_word_embeddings=True,
)  # fmt: skip
ARCTIC = sizes(
    "arctic", 7168, 35, 56, 4864, 32000, num_key_value_heads=8, num_local_experts=128, num_experts_per_tok=2,
    moe_layer_frequency=1, parallel_attn_mlp_res=True, use_residual=True, moe_token_dropping=False, enc_index=[0],
    moe_eval_capacity_factor=1, moe_train_capacity_factor=1, enable_expert_tensor_parallelism=False,
    hidden_act="silu", attention_bias=False, max_position_embeddings=4096, tie_word_embeddings=False,
)  # fmt: skip
LONGCAT = {
    "model_type": "longcat_flash", "hidden_size": 6144, "num_layers": 28, "num_attention_heads": 64,
    "vocab_size": 131072, "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "moe_topk": 12,
    "n_routed_experts": 512, "zero_expert_num": 256, "zero_expert_type": "identity", "routed_scaling_factor": 6.0,
    "attention_method": "MLA", "mla_scale_q_lora": True, "mla_scale_kv_lora": True, "attention_bias": False,
}  # fmt: skip
MINIMAX = sizes(
    "minimax_text_01", 6144, 80, 64, 9216, 200064, head_dim=128, num_key_value_heads=8, num_local_experts=32,
    num_experts_per_tok=2, rotary_dim=64, attn_type_list=[int(number % 8 == 7) for number in range(80)],
    postnorm=True, shared_intermediate_size=0, shared_moe_mode="sigmoid", layernorm_full_attention_alpha=3.5565588,
    layernorm_linear_attention_beta=1.0, layernorm_mlp_alpha=3.5565588, hidden_act="silu", sliding_window=None,
    max_position_embeddings=10240000, tie_word_embeddings=False,
)  # fmt: skip
GRIFFIN = sizes(
    "recurrent_gemma", 2560, 26, 10, 15360, 256000, num_key_value_heads=1, head_dim=256, lru_width=2560,
    attention_window_size=2048, conv1d_width=4, logits_soft_cap=30.0, partial_rotary_factor=0.5, attention_bias=False,
    hidden_activation="gelu_pytorch_tanh", block_types=["recurrent", "recurrent", "attention"],
    w_init_variance_scale=0.01, tie_word_embeddings=True,
)  # fmt: skip
STEP3 = sizes(
    "step3_text", 7168, 61, 64, 18432, 128815, num_attention_groups=1, head_dim=256, share_q_dim=2048,
    moe_intermediate_size=5120, moe_num_experts=48, moe_top_k=3, share_expert_dim=5120, norm_expert_weight=False,
    moe_layers_enum=",".join(map(str, range(4, 60))), max_seq_len=65536, max_position_embedding=65536,
)  # fmt: skip
#: Parameters, those a token uses, bytes of keys and values a token, and the sums of a layer's matrices that a token
#: uses with FLOPs of a step at a context of 1000: matrices (twice, the head too), attention over 1001 keys, states.
#: Parameters of MiniMax and RecurrentGemma equal those of transformers 5.2 built without memory. LongCat's do less the
#: matrices that transformers holds for its 256 experts without any, and with the vector that it keeps as a buffer.
WHOLE: dict[str, tuple[dict[str, Any], tuple[int, int, int], int]] = {
    # published: 314B, a quarter of the experts active
    "grok-1": (
        GROK, (315_684_820_992, 83_756_587_008, 64 * 2 * 1024 * 2),
        2 * (64 * (2 * 6144 * 6144 + 2 * 6144 * 1024 + 8 * 6144 + 2 * 3 * 6144 * 32768) + 131072 * 6144)
        + 64 * 48 * 4 * 128 * 1001,
    ),
    # published: 480B, 17B active
    "arctic": (
        ARCTIC, (478_584_608_768, 17_318_647_808, 35 * 2 * 1024 * 2),
        2 * (35 * (2 * 7168 * 7168 + 2 * 7168 * 1024 + 3 * 7168 * 7168 + 128 * 7168 + 2 * 3 * 7168 * 4864)
             + 32000 * 7168)
        + 35 * 56 * 4 * 128 * 1001,
    ),
    # published: 560B, 18.6B to 31.3B active, 27B on average
    "longcat-flash": (
        LONGCAT, (741_053_585_408 - 28 * 256 * 2 * 2048 * 6144 + 28 * 768, 27_954_818_048, 28 * 2 * 576 * 2),
        2 * (28 * (2 * (6144 * 1536 + 1536 * 64 * 192 + 6144 * 576 + 512 * 64 * 256 + 64 * 128 * 6144)
                   + 2 * 3 * 6144 * 12288 + 768 * 6144 + 8 * 3 * 6144 * 2048) + 131072 * 6144)
        + 56 * 64 * 2 * (576 + 512) * 1001,
    ),
    # published: 456B, 45.9B active without the vocabulary
    "minimax-text-01": (
        MINIMAX, (456_089_655_296, 45_944_920_064 + 2 * 200064 * 6144, 10 * 2 * 1024 * 2),
        2 * (70 * 5 * 6144 * 8192 + 10 * (2 * 6144 * 8192 + 2 * 6144 * 1024)
             + 80 * (32 * 6144 + 2 * 3 * 6144 * 9216) + 200064 * 6144)
        + 10 * 64 * 4 * 128 * 1001 + 70 * 64 * 2 * 2 * 128 * 128,
    ),
    "recurrentgemma-2b": (
        GRIFFIN, (2_682_862_080, 2_682_862_080, 8 * 2 * 256 * 2),
        2 * (18 * (3 * 2560 * 2560 + 2 * 2560 * 256) + 8 * (2 * 2560 * 2560 + 2 * 2560 * 256) + 26 * 3 * 2560 * 7680
             + 256000 * 2560)
        + 8 * 10 * 4 * 256 * 1001,
    ),
    # published: 316B without the vision tower, 38B active
    "step-3": (
        STEP3, (316_294_538_240, 38_841_328_640, 61 * 2 * 256 * 2),
        2 * (61 * (7168 * 2048 + 2048 * 64 * 256 + 2 * 7168 * 256 + 64 * 256 * 7168) + 5 * 3 * 7168 * 18432
             + 56 * (48 * 7168 + (3 + 1) * 3 * 7168 * 5120) + 128815 * 7168)
        + 61 * 64 * 4 * 256 * 1001,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_published_models(name: str) -> None:
    data, counts, flops = WHOLE[name]
    model = load(data, name=name)
    assert (model.parameters, model.active_parameters, model.kv_bytes_per_token()) == counts
    step = decode(model, batch=1, context=1000)
    assert sum(op.work.total("flops", "matrix") * op.repeat for op in step) == flops
    assert not model.gaps


def test_arctic_has_experts_in_every_second_layer_unless_its_file_says_so() -> None:
    model = load({name: value for name, value in ARCTIC.items() if name != "moe_layer_frequency"})
    # 17 of 35 layers have 128 experts, a router, an MLP as wide as the model and its norm; 18 one of an expert's size
    dense = 3 * 7168 * 4864
    layer = (load(ARCTIC).parameters - (2 * 32000 + 1) * 7168) // 35
    without = 127 * dense + 128 * 7168 + 3 * 7168 * 7168 + 7168
    assert model.parameters == (2 * 32000 + 1) * 7168 + 35 * layer - 18 * without


def test_step_3_5_as_published_has_more_heads_in_windows_and_lists_the_layers_with_experts() -> None:
    """Published: 196B and 11B active, the head apart. 64 heads in one layer of four, 96 in windows, 3 layers dense."""
    kinds = ["sliding_attention" if number % 4 else "full_attention" for number in range(48)]  # 3 are of predictors
    other = {"attention_type": "sliding_attention", "num_attention_heads": 96, "num_attention_groups": 8}
    data = sizes(
        "step3p5", 4096, 45, 64, 11264, 128896, num_attention_groups=8, head_dim=128, moe_intermediate_size=1280,
        moe_num_experts=288, moe_top_k=8, share_expert_dim=1280, moe_layers_enum=",".join(map(str, range(3, 45))),
        layer_types=kinds, sliding_window=512, attention_other_setting=other | {"head_dim": 128, "true_head_dim": 128},
    )  # fmt: skip
    model = load(data)
    heads = 12 * 64 + 33 * 96
    attention = heads * (2 * 128 + 1) * 4096 + 45 * (2 * 8 * 128 * 4096 + 2 * 128 + 2 * 4096)
    dense, expert = 3 * 4096 * 11264, 3 * 4096 * 1280
    rest = 3 * dense + 42 * (expert + 288 * 4096) + (2 * 128896 + 1) * 4096
    assert model.parameters == attention + rest + 42 * 288 * expert
    assert model.active_parameters == attention + rest + 42 * 8 * expert
    assert model.kv_bytes_per_token() == 45 * 2 * 8 * 128 * 2
    assert not model.gaps


def test_linear_attention_keeps_a_state_that_does_not_grow() -> None:
    model = load(MINIMAX)
    states = 70 * 64 * 128 * 128 * 4
    assert model.cache_bytes(1000) - 1000 * model.kv_bytes_per_token() == states
    assert model.cache_bytes(9000) - 9000 * model.kv_bytes_per_token() == states


def test_griffin_keeps_a_number_a_channel_and_a_window() -> None:
    model = load(GRIFFIN)
    states = 18 * (2560 * 4 + 3 * 2560 * 2)
    assert model.cache_bytes(1000) == states + 1000 * 8192
    assert model.cache_bytes(9000) == model.cache_bytes(2048) == states + 2048 * 8192
    (scan,) = (op for op in decode(model, batch=1, context=1000) if op.name.endswith("scan"))
    assert (scan.work.total("flops", "vector"), scan.repeat) == (9 * 2560, 18)


def on_chips(data: dict[str, Any], ways: int) -> Any:
    machine = name_axes(chip(f"h200:{ways}"), {"tensor": ways})
    return split_by_layout(load(data), Parallelism(tensor=ways), machine)


def test_layers_split_over_chips() -> None:
    """Heads with their states; experts and the MLP beside them share one AllReduce."""
    for data, ways in ((MINIMAX, 8), (GRIFFIN, 2)):
        assert on_chips(data, ways).cache_bytes(0) * ways == load(data).cache_bytes(0)
    for data, sums in ((ARCTIC, 2), (LONGCAT, 4)):
        names = [type(block).__name__ for block in on_chips(data, 8).layers[0].blocks]
        assert names.count("TensorParallelCollective") == sums


def test_experts_that_return_their_input_are_scored_and_not_run() -> None:
    model = load(LONGCAT)
    assert model.notes == (
        "12 of 768 experts a token, 256 of which return their input: 8 of the other 512 on average, as many as every "
        "token is taken to have",
    )
    with pytest.raises(InputError, match="sends a token to a fraction of an expert on average"):
        load({**LONGCAT, "zero_expert_num": 255})
    assert load({**LONGCAT, "zero_expert_num": 0}).notes == ()


def test_forms_that_were_not_published_are_not_read() -> None:
    with pytest.raises(InputError, match="has no MLP beside its experts"):
        load({**ARCTIC, "parallel_attn_mlp_res": False})
    with pytest.raises(InputError, match=r"postnorm of .* is False; it is read only as True"):
        load({**MINIMAX, "postnorm": False})
    with pytest.raises(InputError, match=r"attn_type_list of .* is not understood"):
        load({**MINIMAX, "attn_type_list": [2] * 80})
    with pytest.raises(InputError, match=r"block_types of .* is not understood"):
        load({**GRIFFIN, "block_types": ["mamba"]})
    with pytest.raises(InputError, match=r"moe_layers_enum of .* is not understood"):
        load({**STEP3, "moe_layers_enum": "4-60"})
    with pytest.raises(InputError, match="axk2 has no q_lora_rank"):  # its gates are made of the same latents
        load({**TINY["axk2"], "q_lora_rank": None})


def test_step_3_beside_its_tower() -> None:
    data = {"model_type": "step3_vl", "text_config": STEP3, "vision_config": {"hidden_size": 1792}}
    found = load({**data, "understand_projector_stride": 2, "projector_bias": False})
    assert (found.parameters, found.context) == (load(STEP3).parameters, 65536)
    assert found.gaps == ("vision_config is not modelled: only the language part is",)
    assert load({**STEP3, "moe_layers_enum": [*range(4, 60)]}).parameters == found.parameters
    with pytest.raises(InputError, match="64 query heads do not share 3 key heads evenly"):
        load({**STEP3, "num_attention_groups": 3})


def test_the_language_part_of_a_model_that_speaks() -> None:
    """Qwen3-Omni-30B-A3B: its thinker is Qwen3-30B-A3B with 128 more words."""
    thinker = sizes(
        "qwen3_omni_moe_text", 2048, 48, 32, 768, 152064, num_key_value_heads=4, head_dim=128, num_experts=128,
        num_experts_per_tok=8, moe_intermediate_size=768, decoder_sparse_step=1, shared_expert_intermediate_size=0,
    )  # fmt: skip
    parts = {"text_config": thinker, "vision_config": {"depth": 27}, "audio_config": {"d_model": 1280}}
    data = {"model_type": "qwen3_omni_moe", "thinker_config": {**parts, "position_id_per_seconds": 13}}
    model = load({**data, "talker_config": {"hidden_size": 1024}, "code2wav_config": {"hidden_size": 1024}})
    plain = load("qwen3-30b-a3b")
    assert model.parameters - plain.parameters == 2 * 128 * 2048
    assert model.kv_bytes_per_token() == plain.kv_bytes_per_token() == 48 * 2 * 4 * 128 * 2
    parts_left = ("talker_config", "code2wav_config", "vision_config", "audio_config")
    assert sorted(model.gaps) == sorted(f"{part} is not modelled: only the language part is" for part in parts_left)
    dense = {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": small("qwen2_5_omni_text", head_dim=...)}}
    assert load(dense).parameters == load(small("qwen2", head_dim=...)).parameters
    with pytest.raises(InputError, match="has no text_config"):
        load({"model_type": "qwen3_omni_moe", "thinker_config": {}})


def test_the_language_part_of_deepseek_vl2_and_ocr() -> None:
    """DeepSeek-VL2-Small's is DeepSeek-V2-Lite; the smaller ones have keys for each head in place of latents."""
    routed = {"moe_intermediate_size": 896, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6}
    wide = {"hidden_size": 1280, "intermediate_size": 6848, "num_hidden_layers": 12, "vocab_size": 129280}
    heads = {"num_attention_heads": 10, "num_key_value_heads": 10, "first_k_dense_replace": 1, "use_mla": False}
    none = {"kv_lora_rank": None, "q_lora_rank": None, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0}
    found = load({"model_type": "deepseek_vl_v2", "language_config": {**wide, **routed, **heads, **none}})
    layers = 12 * (4 * 1280**2 + 2 * 1280) + 3 * 1280 * 6848 + 11 * (64 * 1280 + 66 * 3 * 1280 * 896)
    assert found.parameters == 2 * 129280 * 1280 + 1280 + layers
    assert found.kv_bytes_per_token() == 12 * 2 * 1280 * 2
    latent = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    small_one = {**wide, **routed, **heads, **latent, "model_type": "deepseek_v2", "use_mla": True}
    again = {"model_type": "deepseek_vl_v2", "language_config": small_one, "tile_tag": "2D", "num_attention_heads": 10}
    assert load(again).kv_bytes_per_token() == 12 * 576 * 2
    assert load(again).gaps == ()


def test_experts_of_aria_have_their_own_width() -> None:
    """25.3 billion with a tower of 0.4 (arXiv:2410.05993): not as wide as the field of dense layers says."""
    text = {
        "model_type": "aria_text", "hidden_size": 2560, "intermediate_size": 13568, "moe_intermediate_size": 1664,
        "moe_num_experts": 64, "moe_num_shared_experts": 2, "moe_topk": 6, "num_attention_heads": 20,
        "num_key_value_heads": 20, "num_hidden_layers": 28, "vocab_size": 100352,
    }  # fmt: skip
    assert load({"model_type": "aria", "text_config": text}).parameters == 24_869_091_840


ERNIE: dict[str, Any] = small(
    "ernie4_5_vl_moe_text", head_dim=..., moe_num_experts=6, moe_k=2, moe_intermediate_size=[24, 20],
    moe_num_shared_experts=1, mlp_layer_types=["dense", "sparse", "sparse"],
)  # fmt: skip


def test_experts_of_pictures_are_held_and_not_run() -> None:
    """ERNIE 4.5 VL: each of two layers has a router and 6 narrower experts more, as transformers counts them."""
    model = load(ERNIE)
    plain = load({**ERNIE, "model_type": "ernie4_5_moe", "moe_intermediate_size": 24})
    assert model.parameters == 170_968
    assert model.parameters - plain.parameters == 2 * (6 * 64 + 6 + 6 * 3 * 64 * 20)
    assert model.active_parameters == plain.active_parameters
    assert load({**ERNIE, "moe_num_experts": [6, 6]}).parameters == model.parameters
    with pytest.raises(InputError, match=r"moe_num_experts or moe_intermediate_size of .* is not understood"):
        load({**ERNIE, "moe_num_experts": [6]})


def test_inkling_keeps_inputs_of_its_convolutions() -> None:
    """Windows of 8 in two of three layers; 3 inputs of keys and values, and of each block's result."""
    model = load(TINY["inkling_text"])
    assert model.kv_bytes_per_token("bf16") == 2 * (48 + 64 + 48)
    inputs = 3 * (48 + 64 + 48 + 6 * 64)
    assert model.cache_bytes(100, dtype="bf16") == 2 * (100 * 64 + 8 * 2 * 48 + inputs)
    with pytest.raises(InputError, match="pass a state from token to token"):
        split_by_layout(model, Parallelism(context=2), name_axes(chip("h200:2"), {"context": 2}))


def test_rwkv_keeps_a_state_and_the_token_before() -> None:
    """Numerator, denominator and maximum in fp32; the inputs of both blocks; nothing grows."""
    model = load(TINY["rwkv"])
    assert model.kv_bytes_per_token() == 0
    assert model.cache_bytes(10, dtype="bf16") == model.cache_bytes(1000) == 3 * (3 * 64 * 4 + 2 * 64 * 2)
    local = on_chips(TINY["rwkv"], 2)
    assert local.cache_bytes(0) == 3 * (3 * 32 * 4 + 2 * 64 * 2)


def test_rwkv_5_keeps_a_matrix_of_each_head() -> None:
    """States of 3 layers of 4 heads of 16 x 16 in fp32, and the inputs of both blocks; chips split heads."""
    data = {**TINY["rwkv"], "model_type": "rwkv5", "head_size": 16, "model_version": "5_2"}
    model = load(data)
    assert model.kv_bytes_per_token() == 0
    assert model.cache_bytes(10, dtype="bf16") == model.cache_bytes(1000) == 3 * (4 * 16 * 16 * 4 + 2 * 64 * 2)
    assert on_chips(data, 2).cache_bytes(0) == 3 * (2 * 16 * 16 * 4 + 2 * 64 * 2)
    # beside five matrices: shares of four mixtures, decays and first weights, and the norm of heads
    older = load(TINY["rwkv"]).parameters
    assert model.parameters - older == 3 * (64 * 64 + 64 + 2 * 64)


def test_inkling_2() -> None:
    """Every number is the class's own in transformers 5.24, and parameters are those that it builds.

    Of 48 layers 8 see everything; each token uses 8 of 384 experts.
    """
    text: dict[str, Any] = {"model_type": "inkling2_text"}
    model = load({"model_type": "inkling2", "dtype": "bfloat16", "text_config": text})
    assert model.parameters == 593_718_478_848
    experts = 48 * 376 * 3 * 4608 * 2304
    # 966 rows of the table stand for words that the head never says
    assert model.active_parameters == model.parameters - experts - 966 * 4608
    assert model.kv_bytes_per_token() == 2 * 48 * 8 * (128 + 128)
    assert model.cache_bytes(9000) - model.cache_bytes(8000) == 1000 * 2 * 8 * 8 * (128 + 128)
    # blocks of 6 layers: the last mixes eight of them and what the ninth would be
    assert [block.states for block in model.after if isinstance(block, AttentionResidual)] == [9]
    mixed = [block.states for block in model.layers[13].blocks if isinstance(block, AttentionResidual)]
    assert mixed == [4, 4]


@pytest.mark.parametrize("kind", ["xlstm", "zaya", "hrm_text", "phi3small", "deepseek_v41", "gemma4_assistant"])
def test_types_with_layers_of_their_own_are_named_as_such(kind: str) -> None:
    with pytest.raises(InputError, match=r"has layers (that are not modelled|over the keys and values of the model)"):
        load({"model_type": kind})


@pytest.mark.parametrize(
    "name",
    some(
        [
            "inkling_text",
            "rwkv",
            "axk2",
            "hy_v4",
            "dots3_note_text",
            "diffllama",
            "glm5_next_text",
            "inkling2_text",
            "inkling2_loop_text",
        ],
        2,
    ),
)
def test_newer_types_can_be_trained(name: str) -> None:
    model = load(TINY[name], name=name)
    step = train(model, on="h200:2", tensor=2, batch_tokens=64, sequence=32)
    assert 0 < step.lower <= step.op_by_op


def test_experts_of_attention_count_as_in_transformers() -> None:
    small: dict[str, Any] = {
        "model_type": "jetmoe", "vocab_size": 90, "hidden_size": 64, "num_hidden_layers": 3, "num_key_value_heads": 2,
        "kv_channels": 16, "intermediate_size": 48, "num_local_experts": 6, "num_experts_per_tok": 2,
    }  # fmt: skip
    model = load(small)
    steps = prefill(model, batch=2, prompt=21, count="full", logits="all"), decode(model, batch=2, context=21)
    found = [sum(op.work.total("flops", "matrix") * op.repeat for op in ops) for ops in steps]
    # transformers 5.24 has so many parameters, torch counts so many FLOPs, and the cache keeps so many numbers
    assert (model.parameters, found, model.cache_bytes(21, batch=2, dtype="fp32") / 4) == (
        260_800, [9_096_192, 434_688], 8_064,
    )  # fmt: skip
    assert model.gaps == ()
    # published: 8B, of which 2.2B are active beside the table; under the names of its own code
    eight = load({
        "model_type": "jetmoe", "hidden_size": 2048, "num_layers": 24, "num_key_value_heads": 16, "kv_channels": 128,
        "ffn_hidden_size": 5632, "moe_num_experts": 8, "moe_top_k": 2, "num_attention_heads": 32, "vocab_size": 32000,
        "bias": True, "glu": True, "length": 4096, "rotary_percent": 1.0, "activation_function": "silu",
        "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    })  # fmt: skip
    assert (eight.parameters, eight.active_parameters, eight.gaps) == (8_522_237_952, 2_331_445_248, ())
    local = split_by_layout(eight, Parallelism(tensor=4), name_axes(chip("h100:4"), {"tensor": 4}))
    whole, part = (
        sum(op.work.total("flops", "matrix") * op.repeat for op in decode(each, batch=8, context=100))
        for each in (eight, local)
    )
    routers = 2 * 8 * 24 * 2 * 8 * 2048  # run whole on every chip
    assert part == (whole - routers) / 4 + routers
    step = llm(eight, on="h100", batch=8, prompt=512, context=600, estimate=True)
    assert step.prefill.op_by_op < step.prefill.expectation.value < 4 * step.prefill.op_by_op
    with pytest.raises(InputError, match="experts of attention on chips of their own are not modelled, and jetmoe has"):
        split_by_layout(eight, Parallelism(tensor=4, expert=4), name_axes(chip("h100:4"), {"tensor": 4}))


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"conv_kernel_size": 3}, "conv_kernel_size of .* is set; a convolution of all channels is not read"),
        ({"pos_att_type": "c2p|p2p"}, "pos_att_type of .* is not understood; c2p, p2c or both"),
        ({"pos_att_type": True}, "pos_att_type of .* is True; it is a list"),
        ({"pos_att_type": [["c2p"]]}, r"pos_att_type of .* lists \['c2p'\]; a list of words"),
        ({"max_relative_positions": "x"}, "max_relative_positions of .* is 'x'; it is a whole number of at least 1"),
        ({"position_buckets": -7}, "position_buckets of .* is -7; it is a whole number of at least 1"),
    ],
)
def test_forms_of_deberta_that_are_not_read(field: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        load({**TINY["deberta-v2"], **field})


@pytest.mark.parametrize("name", ["deberta-v2", "deberta-v2 with matrices for positions"])
def test_relative_positions_are_made_once_and_scored_by_each_sequence(name: str) -> None:
    """Matrices of positions do not grow with the batch; a table that no norm changes is read once by a floor."""
    model = load(TINY[name], name=name)
    one, four = (prefill(model, batch=batch, prompt=30) for batch in (1, 4))
    for part, times in (("pos_key_proj", 1), ("pos_query_proj", 1), ("c2p", 4), ("p2c", 4)):
        found = [[op.work.total("flops") for op in ops if op.where.endswith(part)] for ops in (one, four)]
        assert found[1] == [times * each for each in found[0]] != []
    tables = {t.ident: t for op in one for t in op.reads if t.ident.endswith("rel_embeddings")}
    assert [t.elements if t.needed is None else 3 * t.needed for t in tables.values()] == [
        t.elements for t in tables.values()
    ]
    local = on_chips(TINY[name], 2)
    assert local.parameters < model.parameters
    if "matrices" not in name:  # their norm is there without them, as transformers 5.24 builds it
        assert load({**TINY[name], "relative_attention": False}, name=name).parameters == 75856


@pytest.mark.parametrize(
    ("kind", "more", "counted"),
    [
        ("chameleon", {"num_key_value_heads": 2}, (77_824, 6_612_480, 316_416)),
        ("chameleon", {"num_key_value_heads": 2, "swin_norm": True}, (77_824, 6_612_480, 316_416)),
        # scales of a delay are made of one row in each of 3 layers, and a prefill has no logits there
        (
            "voxtral_realtime_text", {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8},
            (83_392, 6_120_960 - 24_576 + 2 * 2 * 21 * 64 * 96, 294_912 - 24_576 + 2 * 2 * 64 * 96),
        ),
        (
            "kyutai_speech_to_text",
            {
                "ffn_dim": 96, "intermediate_size": None, "sliding_window": 8, "num_codebooks": 4,
                "codebook_vocab_size": 20,
            },
            (94_720, 7_644_672, 344_064),
        ),
    ],
)  # fmt: skip
def test_words_that_stand_for_pictures_and_sounds(kind: str, more: dict[str, Any], counted: tuple[int, ...]) -> None:
    """Parameters, a prefill of 2 x 21 tokens and the step behind it as transformers 5.24 and torch count them."""
    sizes = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 3}
    model = load({"model_type": kind, **sizes, "num_attention_heads": 4, "max_position_embeddings": 128, **more})
    assert model.gaps == ()
    ops = prefill(model, batch=2, prompt=21, count="full", logits="all"), decode(model, batch=2, context=21)
    products = (sum(op.work.total("flops", "matrix") * op.repeat for op in each) for each in ops)
    assert (model.parameters, *products) == counted


PLAMO = small(
    "plamo2", head_dim=..., hidden_size_per_head=16, attention_window_size=8, mamba_d_state=6, mamba_d_conv=4,
    mamba_num_heads=6, mamba_step=2, num_hidden_layers=4, full_attention_idx=[1], tie_word_embeddings=True,
)  # fmt: skip


def test_mixers_of_one_step_width_a_head_beside_windows() -> None:
    """Two layers of 6 heads of 16 channels with a state of 6 for each, one of all tokens and one with a window."""
    model = load(PLAMO)
    assert model.gaps == ()
    kept = {
        name: sum(p.elements for b in model.blocks for p in b.cache(100) if p.name == name)
        for name in ("state", "keys")
    }
    assert kept == {"state": 2 * 96 * 6, "keys": 2 * 16 * (100 + 8)}
    mixer = 2 * 96 * 64 + 96 * (64 + 12) + 64 * 6 + 96 * 64
    attention, mlp = 64 * 16 * (4 + 2 * 2) + 64 * 64, 3 * 64 * 48
    products = 2 * (2 * mixer + 2 * attention + 4 * mlp + 64 * 96) + 4 * 4 * 16 * (101 + 8) + 2 * 2 * 2 * 96 * 6
    ops = decode(model, batch=1, context=100)
    assert sum(op.work.total("flops", "matrix") * op.repeat for op in ops) == products
    local = on_chips(PLAMO, 2)
    assert local.gaps == ()
    assert next(b for b in local.blocks if b.name == "mixer").inner == 48


@pytest.mark.parametrize(("kind", "more"), [("cohere", {"use_qk_norm": True}), ("stablelm", {"qk_layernorm": True})])
def test_norms_of_single_heads_with_scales_of_their_own_need_no_sums_of_other_chips(
    kind: str, more: dict[str, Any]
) -> None:
    whole, local = load({**TINY[kind], **more}), on_chips({**TINY[kind], **more}, 2)
    assert whole.parameters - load(TINY[kind]).parameters == 3 * (4 + 2) * 16
    assert local.gaps == ()


def test_words_beside_pictures_and_long_documents() -> None:
    """Parameters of transformers 5.24 for the defaults of each type; a window is half to each side."""
    sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 8}
    wide = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    found = {
        kind: load({"model_type": kind, **more})
        for kind, more in {
            "clip_text_model": {**sizes, "vocab_size": 49408, "max_position_embeddings": 77},
            "owlvit_text_model": {**sizes, "vocab_size": 49408, "max_position_embeddings": 16},
            "siglip2_text_model": {**wide, "vocab_size": 32000, "max_position_embeddings": 64},
            "layoutlm": {**wide, "vocab_size": 30522, "max_2d_position_embeddings": 1024},
            "layoutlmv3": {
                **wide, "vocab_size": 50265, "max_2d_position_embeddings": 1024, "coordinate_size": 128,
                "shape_size": 128, "rel_pos_bins": 32, "rel_2d_pos_bins": 64,
            },
            "longformer": {**wide, "vocab_size": 30522, "attention_window": 8},
        }.items()
    }  # fmt: skip
    assert {kind: model.parameters for kind, model in found.items()} == {
        "clip_text_model": 63_165_952, "owlvit_text_model": 63_134_720, "siglip2_text_model": 110_271_744,
        "layoutlm": 112_627_968, "layoutlmv3": 125_326_208, "longformer": 130_743_552,
    }  # fmt: skip
    assert found["clip_text_model"].kv_bytes_per_token() == 0
    wide = {"hidden_size": 1280, "intermediate_size": 5120, "num_attention_heads": 20, "num_hidden_layers": 32}
    second = {**wide, "vocab_size": 49408, "projection_dim": 1280, "architectures": ["CLIPTextModelWithProjection"]}
    assert load({"model_type": "clip_text_model", **second}).parameters == 694_659_840  # that of Stable Diffusion XL
    full, seen = (
        sum(op.work.total("flops", "matrix") * op.repeat for op in prefill(found["longformer"], prompt=64, count=count))
        for count in ("full", "causal")
    )
    near = sum(abs(query - key) <= 4 for query in range(64) for key in range(64))
    assert full - seen == 12 * 4 * 768 * (64**2 - near)
    with pytest.raises(InputError, match=r"talking_head of .* is set; scores that heads mix are not read"):
        load({**TINY["deberta"], "talking_head": True})


def test_qwen_4() -> None:
    """Parameters of transformers 5.24 for these numbers; a token reads 16 rows of each table of several words."""
    text: dict[str, Any] = {
        "model_type": "qwen4_exp_text", "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 256,
        "indexer_budget": 2048, "indexer_compress_ratio": 16, "ple_layer_ids": [2, 5],
    }  # fmt: skip
    model = load({"model_type": "qwen4_exp", "dtype": "bfloat16", "text_config": text})
    assert model.parameters == 149_310_758_528
    tables = [weight for each in model.layer_weights() if (weight := each.weight).kind == "embedding"]
    rows = [weight.shape[0] for weight in tables]
    assert [weight.shape[1] for weight in tables] == [128, 128]
    # 16 primes behind 20,000,000 each, the second table's behind the first one's, to a multiple of 128
    assert all(320_000_000 < each < 320_010_000 and each % 128 == 0 for each in rows)
    assert rows[0] < rows[1]
    experts = 40 * 502 * 3 * 2048 * 512
    assert model.active_parameters == model.parameters - experts - 128 * (sum(rows) - 2 * 16)
    # 10 of 40 layers attend: keys and values of 2 heads, and one key of an indexer for 16 tokens
    assert model.kv_bytes_per_token() == 2 * 10 * (2 * (256 + 256) + 256 / 16)
    pairs = [op.dims["pairs"] for op in decode(model, batch=1, context=9999) if op.kind == "attention"]
    assert pairs == [10_000 // 16, 2048]
    assert not model.gaps


def test_tables_of_several_words_are_checked() -> None:
    with pytest.raises(InputError, match="1,024 tables at most, and an ngram_size of at least 2"):
        load({**TINY["qwen4_exp_text"], "ngram_size": 1})
