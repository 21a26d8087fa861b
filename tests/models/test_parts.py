"""Parameters by part of a model, with and without norms."""

from __future__ import annotations

import json

import pytest

from roofline.cli import main
from roofline.models import load
from roofline.models.config import names
from roofline.models.summary import parameters_by_part, summary


def test_llama_13b_as_the_book_counts_it() -> None:
    """Chapter 5, question 1: three MLP matrices, four of attention, two tables; norms left out."""
    found = summary(load("llama-2-13b"))
    assert found.parts["mlp"] == 3 * 40 * 5120 * 13824
    assert found.parts["attention"] == 4 * 40 * 5120 * 5120
    assert found.parts["vocabulary"] == 2 * 32000 * 5120
    assert found.parameters_without_norms == 13_015_449_600


@pytest.mark.parametrize("first", "abdglmnopqx")
def test_parts_add_up(first: str) -> None:
    """A few families for each letter; every module is in one part."""
    for name in [name for name in names() if name.startswith(first)][::4]:
        model = load(name)
        assert sum(parameters_by_part(model).values()) == model.parameters, name


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "llama-2-13b", "llama-3-8b", "--parts"]) == 0
    shown = capsys.readouterr().out
    assert "without norms  13,015,449,600" in shown
    assert main(["model", "llama-2-13b", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["models"][0]
    assert found["parameters_without_norms"] == 13_015_449_600
