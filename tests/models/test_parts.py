"""Parameters by part of a model, with and without norms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofline.cli import main
from roofline.models import load
from roofline.models.config import names
from roofline.models.summary import parameters_by_part, summary
from tests.models.tiny import TINY


def test_llama_13b_as_the_book_counts_it() -> None:
    """Chapter 5, question 1: three MLP matrices, four of attention, two tables; norms left out."""
    found = summary(load("llama-2-13b"))
    assert found.parts["mlp"] == 3 * 40 * 5120 * 13824
    assert found.parts["attention"] == 4 * 40 * 5120 * 5120
    assert found.parts["vocabulary"] == 2 * 32000 * 5120
    assert found.parameters_without_norms == 13_015_449_600


def test_a_pooler_is_of_one_part_in_parameters_and_in_flops() -> None:
    """It runs for one token of a sequence, and is no part of the vocabulary."""
    found = summary(load("bert-base"), prompt=16)
    assert found.parts["other"] == 768 * 768
    assert found.flops_by_part["other"] == 2 * 768 * 768
    assert "vocabulary" not in found.flops_by_part


@pytest.mark.parametrize("first", "abdglmnopqx")
def test_parts_add_up(first: str) -> None:
    """A few families for each letter; every module is in one part."""
    for name in [name for name in names() if name.startswith(first)][::4]:
        model = load(name)
        assert sum(parameters_by_part(model).values()) == model.parameters, name


@pytest.mark.parametrize("first", "abdglmnopqx")
def test_products_are_of_the_part_that_has_the_matrices(first: str) -> None:
    """A token meets each matrix of an MLP and of a router once, whatever the blocks of other layers are called."""
    for name in [name for name in names() if name.startswith(first)][::3]:
        found = summary(load(name), prompt=16)
        for part in ("mlp", "routers"):
            assert found.flops_by_part.get(part, 0) == 2 * 16 * found.parts.get(part, 0), (name, part)


GEMMA = {
    "model_type": "recurrent_gemma", "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 1, "intermediate_size": 512, "vocab_size": 1000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        (GEMMA, {"attention", "mlp", "recurrent", "scores", "vocabulary"}),
        (TINY["rwkv"], {"mlp", "recurrent", "vocabulary"}),
        (TINY["inkling_text"], {"attention", "experts", "mlp", "routers", "scores", "vocabulary"}),
    ],
)
def test_every_recurrence_and_mlp_has_its_part(fields: dict[str, Any], parts: set[str]) -> None:
    found = summary(load(fields), prompt=16)
    assert set(found.flops_by_part) == parts
    assert "other" not in found.parts


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "llama-2-13b", "llama-3-8b", "--parts"]) == 0
    shown = capsys.readouterr().out
    assert "without norms  13,015,449,600" in shown
    assert main(["model", "llama-2-13b", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["models"][0]
    assert found["parameters_without_norms"] == 13_015_449_600
