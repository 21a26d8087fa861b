"""Fields of configurations: second names of one thing, defaults that are not in the file."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.errors import InputError
from roofline.models import load
from tests.models.tiny import TINY
from tests.strategies import some

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


@pytest.mark.parametrize("name", some(sorted(TINY), 3))
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
