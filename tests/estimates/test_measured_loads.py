"""Loads of measured experts: what the benchmark of a library gave one rank."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy")

from benchmarks.estimates.rows import expert_load, power_law_loads, rank_load, tokens_hit


@pytest.mark.parametrize(("ranks", "share"), [(8, 1.0), (16, 0.5), (64, 0.125)])
def test_a_rank_alone_is_timed_with_all_choices_of_the_tokens_that_have_one_on_it(ranks: int, share: float) -> None:
    """Token i of balanced rows chooses i, i + 32, …, i + 224 of 256: up to 8 ranks each has one of them."""
    picks, touched, *_, tokens, choices = rank_load(64, 8, 256, ranks, "balanced")
    assert (picks, choices, tokens) == (512 * share, 512 * share, 64 * share)
    assert touched == 256 / ranks


@pytest.mark.parametrize(("tokens", "ranks"), [(4, 16), (96, 4), (1024, 8)])
def test_the_tokens_of_a_rank_are_those_that_a_table_of_all_choices_counts(tokens: int, ranks: int) -> None:
    """All choices laid out as the benchmark does: the most loaded expert first, one column after the other."""
    for load in power_law_loads(tokens, 8, 128, ranks, "power_law_1.2"):
        counts = load.ravel().astype(int)
        assert counts.sum() == tokens * 8
        assert counts.max() <= tokens
        order = np.argsort(-counts, kind="stable")
        chosen = np.repeat(order, counts[order]).reshape(8, tokens).T
        assert tokens_hit(load, tokens)[1] == (chosen < 128 // ranks).any(axis=1).sum()
        assert load[0].sum() == load.sum(axis=1).max()


def test_of_one_rank_both_readings_are_the_same() -> None:
    alone, among = rank_load(512, 8, 128, 1, "power_law_1.01"), expert_load(512, 8, 128, 1, "power_law_1.01")
    assert alone[:2] == pytest.approx(among[:2])
