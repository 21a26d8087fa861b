"""Values of the package as Python's own tools meet them: copied, pickled, sent to others, asked for by name."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import roofline
from roofline.errors import MissingExtraError, NotationError, RooflineError
from roofline.frozen import Frozen
from roofline.models import fewest, load, serve, train

LINE = "bf16[B, D] * int8[D, F] -> bf16[B, F]"
SHARDED = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
SIZES = {"B": 64, "D": 4096, "F": 4096}

VALUES: dict[str, Callable[[], Any]] = {
    "chip": lambda: roofline.chip("h100"),
    "program": lambda: roofline.program(LINE),
    "bound": lambda: roofline.bound(LINE, on="v5e", **SIZES),
    "bound in formulas": lambda: roofline.bound(LINE, on="v5e"),
    "bound of arrays": lambda: roofline.bound(LINE, on="v5e", **{**SIZES, "B": [1, 2, 3]}),
    "bound with plans": lambda: roofline.bound(SHARDED, on="v5e:8", **SIZES),
    "solution": lambda: roofline.solve(LINE, "B", on="v5e"),
    "advice": lambda: roofline.advise(LINE, on="v5e", **SIZES),
    "sweep": lambda: roofline.sweep(LINE, on="v5e", **{**SIZES, "B": [1, 2, 3]}),
    "plans": lambda: roofline.shard(SHARDED, on="v5e:8", **SIZES),
    "collective": lambda: roofline.comm("AllReduce_X(bf16[1024])", on="v5e:8"),
    "condition": lambda: roofline.scaling("dp", on="v5p"),
    "chart": lambda: roofline.plot(LINE, on="v5e", **SIZES),
    "model": lambda: load("llama-2-7b"),
    "serving": lambda: serve("llama-2-7b", on="h100", context=128),
    "fewest chips": lambda: fewest("llama-2-70b", on="h100", batch=1, context=128),
    "training": lambda: train("llama-2-7b", on="h100:8", batch_tokens=1e6, fsdp=8),
}


def seen(value: Any) -> Any:
    """What a value says of itself."""
    return value.to_dict() if hasattr(value, "to_dict") else repr(value)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_value_is_the_same_when_copied_or_sent_to_another_process(name: str, again: Callable[[Any], Any]) -> None:
    value = VALUES[name]()
    assert seen(again(value)) == seen(value)


def test_a_question_goes_on_in_another_process() -> None:
    found = pickle.loads(pickle.dumps(roofline.bound(LINE, on="v5e")))
    assert found.question.with_sizes(**SIZES).answer().lower == roofline.bound(LINE, on="v5e", **SIZES).lower


@pytest.mark.parametrize(
    "error", [MissingExtraError("torch", "torch"), NotationError("expected ']'", text="bf16[B", position=6)]
)
def test_an_error_comes_back_from_another_process(error: RooflineError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    "change",
    [
        lambda mapping: mapping.update(a=2),
        lambda mapping: mapping.pop("a"),
        lambda mapping: mapping.setdefault("b", 1),
        lambda mapping: mapping.clear(),
        lambda mapping: mapping.__delitem__("a"),
        lambda mapping: mapping.__ior__({"b": 1}),
    ],
)
def test_a_frozen_mapping_is_not_changed(change: Callable[[Any], Any]) -> None:
    mapping = Frozen({"a": 1})
    with pytest.raises(TypeError, match="make a new one"):
        change(mapping)
    assert mapping == {"a": 1}
    assert hash(mapping) == hash(Frozen(a=1))


def test_rooms_are_reached_by_their_names_alone() -> None:
    code = "import roofline; print(roofline.models.load('llama-2-7b').layers and roofline.errors.SizeError.__name__)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "SizeError\n"


def test_what_models_have_is_pointed_to() -> None:
    with pytest.raises(AttributeError, match=r"did you mean roofline\.models\.speculate"):
        roofline.speculate  # type: ignore[attr-defined]
