"""The seeds' and the book's questions about one chip: every expected figure of the case files.

A figure recomputed without intermediate rounding (``computed``) must match to 1e-6, a printed one within the rounding
it implies, a closed form at its sample points.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import left_open
from tests.cases.one_chip_answers import ANSWERS

DATA = Path(__file__).parent.parent / "data"
CASES = {
    case["id"]: case
    for name in ("seed_cases_one_chip", "book_cases_one_chip")
    for case in json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))["cases"]
}


def entries() -> Iterator[Any]:
    for case_id, case in CASES.items():
        for entry in left_open(case):
            yield pytest.param(case_id, entry, id=f"{case_id}-{entry['name']}")


#: Expectations that are a fact of prose, not of the model; the docs page of errata states them.
PROSE = {("s002.history", "year")}


def check(entry: dict[str, Any], answer: Any) -> None:
    """Compare an answer with a case's entry, by the rules of the case files."""
    if entry["status"] == "formula":
        for point in entry["points"]:
            assert answer(**point["at"]) == pytest.approx(point["value"], rel=max(entry["rtol"], 1e-9))
    elif entry["status"] == "categorical":
        assert answer == entry["value"]
    else:
        assert answer == pytest.approx(entry["computed"], rel=1e-6)
        if entry.get("value") is not None and entry["status"] != "erratum":
            assert math.isclose(answer, entry["value"], rel_tol=entry["rtol"] * (1 + 1e-9))


@pytest.mark.parametrize(("case_id", "entry"), list(entries()))
def test_case(case_id: str, entry: dict[str, Any]) -> None:
    if (case_id, entry["name"]) in PROSE:
        errata = (Path(__file__).parents[2] / "docs" / "seeds.md").read_text(encoding="utf-8")
        assert str(entry["value"]) in errata
        return
    answers = ANSWERS[case_id]()
    assert entry["name"] in answers, f"{case_id} does not answer {entry['name']}"
    check(entry, answers[entry["name"]])


def test_a_wrong_answer_is_caught() -> None:
    entry = {"status": "agrees", "computed": 240.2439, "value": 240.0, "rtol": 0.0212}
    check(entry, 240.2439)
    with pytest.raises(AssertionError):
        check(entry, 243.2)
