"""The book's questions about serving on several chips that memory and arithmetic alone answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roofline import bound
from tests.cases import left_open
from tests.models.test_cases import llama

CASES = {
    case["id"]: case
    for case in json.loads(
        (Path(__file__).parents[1] / "data" / "book_cases_training.json").read_text(encoding="utf-8")
    )["cases"]
    if "inference" in case["id"]
}


def seconds(flops: float = 0, bytes: float = 0, *, chips: float, **figures: float) -> float:
    """Time of work that ``chips`` chips of the book share evenly."""
    chip = {"hbm": 8.2e11, "bf16": 1.97e14, **figures}
    amounts: dict[str, Any] = {name: amount / chips for name, amount in (("flops", flops), ("bytes", bytes)) if amount}
    return float(bound(**amounts, on="v5e", set=chip).lower)


def step(B: float, KV: float, P: float, *, n: float = 0, chips: float = 16, **figures: float) -> float:
    """Attention waits for keys and values; the matrices for their weights or for arithmetic."""
    attention = seconds(bytes=B * KV, chips=chips, **figures)
    return attention + seconds(flops=2 * B * n, bytes=P, chips=chips, **figures)


def formula() -> dict[str, Any]:
    """The book's letters: W and C of all chips together."""
    return {
        "min_step": lambda B, KV, P, W: step(B, KV, P, chips=1, hbm=W),
        "max_tps": lambda B, KV, P, W: B / step(B, KV, P, chips=1, hbm=W),
        "general": lambda B, KV, n, P, W, C: step(B, KV, P, n=n, chips=1, hbm=W, bf16=C),
    }


def table(name: str) -> dict[str, Any]:
    inputs = CASES[name]["inputs"]
    batch, kv, params = inputs["batch"], inputs["kv_per_seq_GB"] * 1e9, inputs["params_GB"] * 1e9
    time = step(batch, kv, params, n=params / 2, chips=inputs["chips"])
    return {"kv": batch * kv / 1e9, "total": (batch * kv + params) / 1e9, "step": time * 1e3, "tps": batch / time}


def ratio(**at: int) -> float:
    """Parameters of the two matrices of a plain MLP to the keys of S tokens."""
    model = llama(D=at["D"], F=at["F"], N=64, K=at["K"], H=at["H"])
    counts = model.parameters_by_module()
    two = sum(count for name, count in counts.items() if name.endswith(("up_proj", "down_proj")))
    return two / (model.kv_bytes_per_token("int8") / 2 * at["S"])


ANSWERS: dict[str, Callable[[], dict[str, Any]]] = {
    "inference.step_formula": formula,
    "inference.kv_param_ratio": lambda: {"ratio": ratio},
    **{name: partial(table, name) for name in CASES if name.startswith("inference.table.")},
}

#: The book rounds 262,144 bytes a token to 262 kB.
ROUNDED = {("inference.q2", "kv_seq"): 1e-3}


def entries() -> Iterator[Any]:
    for case_id, case in CASES.items():
        for entry in left_open(case):
            yield pytest.param(case_id, entry, id=f"{case_id}-{entry['name']}")


def test_every_case_has_answers() -> None:
    assert set(ANSWERS) >= {key for key, case in CASES.items() if left_open(case)}


@pytest.mark.parametrize(("case_id", "entry"), list(entries()))
def test_case(case_id: str, entry: dict[str, Any]) -> None:
    answer = ANSWERS[case_id]()[entry["name"]]
    if entry["status"] == "formula":
        for point in entry["points"]:
            assert answer(**point["at"]) == pytest.approx(point["value"], rel=1e-9)
    else:
        assert answer == pytest.approx(entry["computed"], rel=ROUNDED.get((case_id, entry["name"]), 1e-6))
