"""The page of accuracy holds what the constants say: its tables are made, not written."""

from __future__ import annotations

from benchmarks.estimates.page import KINDS, PAGE, page

from roofline.estimates.constants import shipped


def test_tables_are_those_of_the_shipped_constants() -> None:
    """``python -m benchmarks.estimates.page`` makes them anew."""
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, shipped()) == text


def test_constants_of_attention_stand_in_one_row_each() -> None:
    for record in (r for r in shipped() if r.kernel in ("prefill_attention", "decode_attention")):
        rows = [kind.name for kind in KINDS if record.kernel in kind.kernels and kind.picks(record)]
        assert len(rows) == 1, (record.name, rows)
