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
