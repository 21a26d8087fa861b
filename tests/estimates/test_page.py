"""The page of accuracy holds what the constants say: its tables are made, not written."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.estimates.page import GOALS, PAGE, alone, chance, covered_by_chance, page

from roofline.estimates.accuracy import KINDS, accuracy
from roofline.estimates.constants import KERNELS, KernelConstants, shipped


def test_tables_are_those_of_the_shipped_constants() -> None:
    """``python -m benchmarks.estimates.page`` makes them anew."""
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, shipped()) == text


def test_constants_of_attention_stand_in_one_row_each() -> None:
    for record in (r for r in shipped() if r.kernel in ("prefill_attention", "decode_attention")):
        rows = [kind.name for kind in KINDS if record.kernel in kind.kernels and kind.picks(record)]
        assert len(rows) == 1, (record.name, rows)


def test_a_group_has_fifteen_constants_six_of_them_its_own() -> None:
    """A quantiser in front of a product is an operation of its own, with three more."""
    for record in (one for one in shipped() if one.kernel not in ("served_step", "first_token")):
        quantiser = 3 * record.kernel.startswith("quantised_")
        assert len(record.values) <= 15 + quantiser, record.name
        assert len(KERNELS[record.kernel].own(record.policy)) <= 6 + quantiser, record.name
    assert [record.name for record in alone(shipped())] == []


def test_every_goal_is_of_a_kind_that_there_is() -> None:
    assert set(GOALS) < {kind.name for kind in KINDS}


def test_the_command_says_what_the_page_says() -> None:
    """One number for one question: a cell of the page's first table, and the answer that a command prints."""
    text = PAGE.read_text(encoding="utf-8")
    chips = next(line for line in text.splitlines() if line.startswith("| kind of kernel | goal |")).split("|")
    for kernel in ("decode", "Decode Attention", "prefill", "gemm"):
        found = accuracy("h100", kernel=kernel)
        for each in found.to_dict()["kinds"]:
            row = next(line.split("|") for line in text.splitlines() if line.startswith(f"| {each['kind']} |"))
            cell = row[[name.strip() for name in chips].index("h100")].strip()
            assert cell == f"{100 * each['median']:.1f} ({100 * each['p90']:.0f})"
    assert "median error 6." in str(accuracy("h100", kernel="decode attention"))


def test_the_coverage_that_chance_gives_is_that_of_drawn_rows() -> None:
    """Ends are the fourth and the 36th of 39 drawn rows, 39 others are counted between them."""
    record = KernelConstants("", "", "", "", {}, error={"n_test": 39.0, "coverage": 0.8}, interval=((0.9, 1.1),))
    draw = np.random.default_rng(3)
    ends = np.sort(draw.random((40_000, 39)), axis=1)[:, [3, 35]]
    rows = draw.random((40_000, 39))
    covered = ((rows >= ends[:, :1]) & (rows <= ends[:, 1:])).sum(axis=1)
    exact = covered_by_chance(record)
    assert exact.sum() == pytest.approx(1)
    assert exact == pytest.approx(np.bincount(covered, minlength=40) / 40_000, abs=0.01)
    assert chance(record) > 0.9
