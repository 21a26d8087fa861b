"""Parameter counts: equal to what transformers builds, in all and by layer; hand counts where it builds nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.models import load
from roofline.models.config import _index
from tests.strategies import for_each

COUNTS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "parameter_counts.json").read_text(encoding="utf-8")
)
FILES = sorted({file.removesuffix(".json") for file in _index().values()})
#: Remote code: transformers does not build these.
BY_HAND = {"xiaomimimo--mimo-7b-base", "nvidia--llama-3_3-nemotron-super-49b-v1"}


def test_every_shipped_model_is_counted_by_someone() -> None:
    assert set(FILES) == set(COUNTS["models"]) | BY_HAND
    assert COUNTS["transformers"]


@for_each("name", sorted(COUNTS["models"]))
def test_counts_equal_those_of_transformers(name: str) -> None:
    stored = COUNTS["models"][name]
    model = load(name)
    assert model.parameters == stored["parameters"]
    assert [layer.parameters for layer in model.layers] == [
        each for count, each in stored["layers"] for _ in range(count)
    ]


def test_mimo_7b_by_hand() -> None:
    """Qwen2's layers (biases on q, k, v) without its tied embedding; one prediction layer apart."""
    width, hidden, kv, vocabulary = 4096, 11008, 8 * 128, 151680
    attention = 2 * width * width + 2 * width * kv + width + 2 * kv
    layer = attention + 3 * width * hidden + 2 * width
    model = load("mimo-7b")
    assert model.parameters == 2 * vocabulary * width + 36 * layer + width
    assert model.mtp_parameters == layer + 2 * width * width + 3 * width


def test_nemotron_super_by_hand() -> None:
    """49 layers with attention over 8 key heads, 31 without any; MLP widths from their multipliers."""
    width, vocabulary = 8192, 128256
    attention = 2 * width * width + 2 * width * 8 * 128 + width
    widths = {5.25: 49, 2.625: 6, 1.3125: 10, 1.0: 8, 0.5: 6, 3.28125: 1}

    def hidden(multiplier: float) -> int:
        return -(-int(2 * multiplier * width / 3) // 256) * 256

    feed_forward = sum(count * (3 * width * hidden(multiplier) + width) for multiplier, count in widths.items())
    assert sum(widths.values()) == 80
    assert load("nemotron-super-49b").parameters == 2 * vocabulary * width + 49 * attention + feed_forward + width


def test_prediction_layers_by_hand() -> None:
    """DeepSeek-V3's one: a full layer with its 256 experts, a projection, three norms (arXiv:2412.19437)."""
    width, expert = 7168, 3 * 7168 * 2048
    attention = 7168 * 1536 + 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 + 512 * 128 * 256 + 128 * 128 * 7168
    layer = attention + 257 * expert + 256 * width + 2 * width
    assert load("deepseek-v3").mtp_parameters == layer + 2 * width * width + 3 * width


@pytest.mark.parametrize(
    ("name", "billions"),
    [("llama-2-7b", 6.74), ("gpt-3", 175), ("deepseek-v3", 671), ("mixtral-8x7b", 46.7), ("kimi-k2", 1026)],
)
def test_published_sizes(name: str, billions: float) -> None:
    assert load(name).parameters / 1e9 == pytest.approx(billions, rel=0.005)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("deepseek-v3", 37.6),
        ("qwen3-235b-a22b", 22.2),
        ("qwen3-30b-a3b", 3.35),
        ("gpt-oss-120b", 5.7),
        ("kimi-k2", 32.9),
    ],
)
def test_parameters_a_token_uses(name: str, billions: float) -> None:
    """The embedding table and the head count in full."""
    assert load(name).active_parameters / 1e9 == pytest.approx(billions, rel=0.02)


def test_modules_add_up() -> None:
    for name in FILES:
        model = load(name)
        assert sum(model.parameters_by_module().values()) == model.parameters
        assert model.active_parameters <= model.parameters


def test_tied_head_is_counted_once() -> None:
    model = load("qwen3-0.6b")
    assert model.tied
    assert "lm_head" not in model.parameters_by_module()


#: Types that hold a language model beside a tower, and the language part of their default configuration as
#: transformers builds it.
BESIDE_TOWERS = {
    "glm46v": ("glm4v_text", 9_400_279_040),
    "exaone4_5": ("exaone4", 9_429_069_824),
    "mllama": ("mllama_text_model", 9_775_192_080),
    "gemma3n": ("gemma3n_text", 6_835_235_568),
}


@pytest.mark.parametrize("kind", sorted(BESIDE_TOWERS))
def test_language_parts_beside_towers(kind: str) -> None:
    """What the section of text leaves out is as its own type has it."""
    text, count = BESIDE_TOWERS[kind]
    more: dict[str, Any] = {"mllama": {"cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]}}.get(kind, {})
    model = load({"model_type": kind, "text_config": {"model_type": text, **more}, "vision_config": {"patch_size": 14}})
    assert model.parameters == count
    assert model.gaps == ("vision_config is not modelled: only the language part is",)
