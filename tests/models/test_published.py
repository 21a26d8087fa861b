"""Configurations as published: what they leave out, what they hold beside the language model, what they change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError
from roofline.models import load
from roofline.models.blocks.attention import Attention
from tests.models.published import PUBLISHED
from tests.models.small import small

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


@pytest.mark.parametrize(
    ("field", "value"),
    [("enable_bias", False), ("layer_norm_elementwise_affine", False), ("_remove_final_layer_norm", True)],
)
def test_what_opt_leaves_away_is_refused(field: str, value: bool) -> None:
    with pytest.raises(InputError, match=f"{field} of .* is {value}; that is not read"):
        load(small("opt", ffn_dim=48, head_dim=..., num_key_value_heads=..., **{field: value}))


def test_bitnet_packs_four_weights_a_byte() -> None:
    model = load(PUBLISHED["bitnet-b1.58-2b-4t"])
    layer = 2560 * (2560 * 2 + 2 * 640) + 3 * 2560 * 6912
    kept = model.parameters - 30 * layer
    scales = 7 * 2 * 30
    assert model.weight_bytes() == 30 * layer // 4 + 2 * kept + scales


def test_multimodal_sections_that_name_an_unknown_type() -> None:
    data = {"model_type": "llava", "text_config": {"model_type": "rwkv"}, "vision_config": {"hidden_size": 8}}
    with pytest.raises(InputError, match="model_type 'rwkv' has layers that are not modelled"):
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


def test_a_chatglm_of_another_form_is_not_read() -> None:
    with pytest.raises(InputError, match="has layer norms or biases everywhere"):
        load({**_CODE["chatglm3-6b"][2], "add_bias_linear": True})
