"""Fields of configurations: second names of one thing, defaults that are not in the file."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.errors import InputError
from roofline.models import load
from tests.models.tiny import TINY
from tests.strategies import for_each, some

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip


def test_the_width_of_a_head_has_two_names() -> None:
    assert load({**LLAMA, "attention_head_dim": 32}).parameters == load({**LLAMA, "head_dim": 32}).parameters
    assert load({**LLAMA, "attention_head_dim": 32}).parameters > load(LLAMA).parameters
    assert load({**LLAMA, "attention_head_dim": 32, "head_dim": 16}).gaps == ()


@pytest.mark.parametrize(("more", "gaps"), [({"num_kv_heads": 2}, 0), ({"num_kv_heads": 4}, 1), ({"new_trick": 2}, 1)])
def test_a_field_that_repeats_another_is_no_gap(more: dict[str, Any], gaps: int) -> None:
    assert len(load({**LLAMA, **more}).gaps) == gaps


@for_each("name", some(sorted(TINY), 3))
def test_defaults_that_are_not_in_the_file_are_no_gaps(name: str) -> None:
    """Whatever a configuration leaves out, a gap names a field that it has."""
    fields = TINY[name]
    for left in list(fields):
        if left in ("model_type", "text_config", "vision_config"):
            continue
        rest = {key: value for key, value in fields.items() if key != left}
        try:
            gaps = load(rest, name=name).gaps
        except InputError:  # what a type needs is tested elsewhere
            continue
        for gap in gaps:
            field = gap.split(" is not understood")[0].removeprefix("text_config.")
            assert field in rest or field in (rest.get("text_config") or {}), gap


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"layer_types": [{}, "full_attention"]}, "layer_types of .* lists {}; a list of words or numbers"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": [[0]]}, r"mlp_only_layers of .* lists \[0\]"),
        ({"max_position_embeddings": "4096"}, "max_position_embeddings of .* is '4096'"),
        ({"max_position_embeddings": [4096]}, "max_position_embeddings"),
        ({"quantization_config": {"quant_method": "quanto", "weights": {"a": 1}}}, "weights of Quanto: {'a': 1}"),
        ({"model_type": "gpt_neo", "attention_types": [[["x"], 10**12]]}, "'global' or 'local' for every layer"),
    ],
)
def test_a_list_or_a_text_in_the_wrong_place_is_an_error(more: dict[str, Any], said: str) -> None:
    usual = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "num_layers": 2, "num_heads": 4}
    with pytest.raises(InputError, match=said):
        load({**LLAMA, **usual, **more})
