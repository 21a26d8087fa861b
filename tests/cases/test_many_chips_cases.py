"""The seeds' and the book's questions about several chips: every expected figure of the case files.

Collectives and networks by themselves are answered in ``tests/ops/test_collective_cases.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cases.many_chips_answers import ANSWERS
from tests.cases.test_one_chip_cases import check

DATA = Path(__file__).parent.parent / "data"
CASES = {
    case["id"]: case
    for name in ("seed_cases_many_chips", "book_cases_many_chips")
    for case in json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))["cases"]
}

#: Expectations that are about something else than sharding: whole models, days of training, measured times, and one
#: row that the book prints inconsistently with another.
ELSEWHERE = {
    "training.llama70b_17days": {"flops", "days"},
    "training.llama_2M": {"per_tpu"},
    "training.table": {"mixed_as_printed"},
    "training.q3.2": {"acts", "total", "per_chip"},
    "applied-training.q2b": {"days"},
    "jax.collective_matmul": {"overlap_gain"},
    "profiling.q1": {"true"},
}
WHOLE_MODELS = {"inference.q4"}


def entries() -> Iterator[Any]:
    for case_id, case in CASES.items():
        for entry in case["expected"]:
            if case_id not in WHOLE_MODELS and entry["name"] not in ELSEWHERE.get(case_id, ()):
                yield pytest.param(case_id, entry, id=f"{case_id}-{entry['name']}")


@cache
def answered(case_id: str) -> dict[str, Any]:
    return ANSWERS[case_id]()


@pytest.mark.parametrize(("case_id", "entry"), list(entries()))
def test_case(case_id: str, entry: dict[str, Any]) -> None:
    answers = answered(case_id)
    assert entry["name"] in answers, f"{case_id} does not answer {entry['name']}"
    check(entry, answers[entry["name"]])


def test_every_case_is_answered() -> None:
    assert set(ANSWERS) == set(CASES) - WHOLE_MODELS
