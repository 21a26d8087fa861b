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

from tests.cases import left_open
from tests.cases.many_chips_answers import ANSWERS
from tests.cases.many_chips_models import MODELS
from tests.cases.test_one_chip_cases import check

DATA = Path(__file__).parent.parent / "data"
CASES = {
    case["id"]: case
    for name in ("seed_cases_many_chips", "book_cases_many_chips")
    for case in json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))["cases"]
}

#: What is no figure of a model: times somebody measured, and a row that the book prints inconsistently with another.
OUTSIDE = {"training.table": {"mixed_as_printed"}, "jax.collective_matmul": {"overlap_gain"}}


def entries() -> Iterator[Any]:
    for case_id, case in CASES.items():
        for entry in left_open(case):
            if entry["name"] not in OUTSIDE.get(case_id, ()):
                yield pytest.param(case_id, entry, id=f"{case_id}-{entry['name']}")


@cache
def answered(case_id: str) -> dict[str, Any]:
    given = [answers[case_id]() for answers in (ANSWERS, MODELS) if case_id in answers]
    return {name: answer for each in given for name, answer in each.items()}


@pytest.mark.parametrize(("case_id", "entry"), list(entries()))
def test_case(case_id: str, entry: dict[str, Any]) -> None:
    answers = answered(case_id)
    assert entry["name"] in answers, f"{case_id} does not answer {entry['name']}"
    check(entry, answers[entry["name"]])


def test_every_case_is_answered() -> None:
    assert {*ANSWERS, *MODELS} >= {key for key, case in CASES.items() if left_open(case)}


def expected(case_id: str, name: str) -> dict[str, Any]:
    return next(entry for entry in CASES[case_id]["expected"] if entry["name"] == name)


def test_the_row_that_is_left_out_counts_one_exchange_more() -> None:
    """The mixed row has 8·B·D/X backward where the tensor-parallel row has 4: nothing sends the difference."""
    (point,) = expected("training.table", "mixed_as_printed")["points"]
    at = point["at"]
    consistent = answered("training.table")["mixed_consistent"](**at)
    assert point["value"] - consistent == pytest.approx(4 * at["B"] * at["D"] / at["X"])


def test_the_gain_that_is_left_out_is_of_measured_times() -> None:
    case = CASES["jax.collective_matmul"]
    assert "measured 311 / 244 / 224 us" in case["question"]
    assert expected("jax.collective_matmul", "overlap_gain")["computed"] == pytest.approx(311 / 244)
