"""A step that was asked of late is there at once: the same answer, apart from what its first asker did to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from roofline.models import serve_bound
from roofline.models.serving import step as serving
from roofline.models.training import step as training
from roofline.models.training.step import train


def served(**changes: Any) -> Any:
    return serve_bound("llama-3-8b", "decode", **{"on": "h100:2", "batch": 8, "context": 1024, "tensor": 2, **changes})


def trained(**changes: Any) -> Any:
    return train("qwen3-0.6b", **{"on": "h100:4", "batch_tokens": 2**16, "pipeline": 2, **changes})


@pytest.mark.parametrize("ask", [served, trained])
def test_an_answer_is_the_same_again_and_keeps_its_own_tables(ask: Callable[..., Any]) -> None:
    first = ask()
    before = first.to_dict()
    again = ask()
    assert again is not first
    assert again.to_dict() == before
    getattr(first, "bound", first).times.clear()
    assert ask().to_dict() == again.to_dict() == before


@pytest.mark.parametrize("change", [{"batch": 9}, {"context": 1025}, {"on": "h200:2"}, {"overlap": 0.5}, {"kv": "fp8"}])
def test_whatever_is_changed_is_asked_anew(change: dict[str, Any]) -> None:
    served()
    changed = served(**change).to_dict()
    serving._known_step.cache_clear()
    assert served(**change).to_dict() == changed != served().to_dict()


@pytest.mark.parametrize(
    "change",
    [{"zero": 2}, {"checkpoint": "full"}, {"mfu": 0.4}, {"tokens": 10**12, "price": 2}, {"overlap": 0.5}],
)
def test_what_a_training_step_costs_is_of_each_question(change: dict[str, Any]) -> None:
    """The stages of a step are priced once; its cost, and how it is told, follow from each question."""
    trained()
    changed = trained(**change).to_dict()
    training._known_stages.cache_clear()
    assert trained(**change).to_dict() == changed != trained().to_dict()


def test_an_array_gives_what_is_known() -> None:
    assert served(batch=np.asarray([8, 9])).lower.tolist() == [served(batch=8).lower, served(batch=9).lower]
