"""The page of accuracy holds what the constants say: its tables are made, not written."""

from __future__ import annotations

from benchmarks.estimates.page import PAGE, page

from roofline.estimates.constants import shipped


def test_tables_are_those_of_the_shipped_constants() -> None:
    """``python -m benchmarks.estimates.page`` makes them anew."""
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, shipped()) == text
