"""The seeds' and the book's questions as tests."""

from __future__ import annotations

from typing import Any


def left_open(case: dict[str, Any]) -> list[dict[str, Any]]:
    """What a case expects beside the answers that one call gives (:mod:`tests.cases.test_one_call`)."""
    from tests.cases.test_one_call import ALL_ROWS

    return [entry for entry in case["expected"] if (case["id"], entry["name"]) not in ALL_ROWS]
