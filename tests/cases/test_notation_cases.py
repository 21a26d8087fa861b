"""The book's questions of chapters 4 and 9 on lines of notation: dots, contractions, a profile's matmul, a type."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roofline import bound, layout
from tests.cases import left_open
from tests.cases.test_one_chip_cases import check

CASES: dict[str, Any] = {
    case["id"]: case
    for case in json.loads(
        (Path(__file__).parents[1] / "data" / "book_cases_notation.json").read_text(encoding="utf-8")
    )["cases"]
}


def flops(expression: str) -> Callable[..., Any]:
    """FLOPs of a line at given sizes."""
    return lambda **sizes: bound(expression, on="h100", sizes={n: int(size) for n, size in sizes.items()}).flops


def dots() -> dict[str, Any]:
    lines = [line.strip() for line in CASES["transformers.dots"]["notation"].split(";")]
    return dict(zip(("dot", "matvec", "matmat"), map(flops, lines), strict=True))


def line(case_id: str) -> dict[str, Any]:
    return {"flops": flops(CASES[case_id]["notation"])}


def profiled() -> dict[str, Any]:
    """Four shards of the batch by two of the hidden width; one core of a TPU v2 as the book has it."""
    case = CASES["profiling.matmul"]
    text, _ = case["notation"].split(";")
    found = bound(text.strip(), on="v3", mesh={"X": 4, "Y": 2}, set={"bf16": case["inputs"]["peak"]})
    rows = found.ops[0].op.dims
    return {"t": found.lower * 1e3, "batch_shard": rows["m"] * rows["batch"]}


def hlo() -> dict[str, Any]:
    found = layout(CASES["profiling.hlo"]["notation"])
    assert layout(CASES["profiling.hlo"]["notation"].replace("S(1)", "")).assumptions == ()
    return {"bytes": found.bytes, "space": found.assumptions[0].removeprefix("lies in ")}


ANSWERS: dict[str, Callable[[], dict[str, Any]]] = {
    "profiling.matmul": profiled,
    "profiling.hlo": hlo,
}


def entries() -> Iterator[Any]:
    for case_id, case in CASES.items():
        for entry in left_open(case):
            yield pytest.param(case_id, entry, id=f"{case_id}-{entry['name']}")


@pytest.mark.parametrize(("case_id", "entry"), list(entries()))
def test_case(case_id: str, entry: dict[str, Any]) -> None:
    check(entry, ANSWERS[case_id]()[entry["name"]])


def test_every_case_has_answers() -> None:
    assert set(ANSWERS) >= {key for key, case in CASES.items() if left_open(case)}
