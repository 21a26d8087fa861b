"""Pools that prefill and pools that decode against every pair of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from roofline.plans.answer import plan
from roofline.plans.cost import million_tokens
from roofline.plans.load import ServerTimes
from roofline.plans.question import Limits
from roofline.plans.search import Deployment, best_apart
from tests.plans.test_search import MadeUp, problem

LONG = bool(os.environ.get("ROOFLINE_LONG"))

#: How many random problems are tried.
PROBLEMS = 60 if LONG else 5

ASKED: dict[str, Any] = {
    "on": ["h100"], "rate": 12, "prompt": 2048, "output": 128, "tpot": "20 ms", "ttft": "1 s", "formats": ["fp8"],
    "disaggregate": True,
}  # fmt: skip


def pairs(search: MadeUp, cheaper_than: float) -> Iterator[Deployment]:
    """Every pair of pools with an allowed number of chips of each kind that costs less."""
    most_chips, priced = max(search.asked.counts), search._priced
    pools = [
        (replica, copies)
        for replica, times in priced.items()
        if not isinstance(times, str) and times.most > 0
        for copies in range(1, most_chips // replica.chips + 1)
    ]
    for (first, before), (later, copies) in product(pools, pools):
        times = priced[later]
        assert not isinstance(times, str)
        for most in search.places(times, times.server(apart=True)):
            pair = Deployment(later, copies, 0, most, first, before)
            allowed = all(number in search.asked.counts for number in pair.numbers.values())
            if allowed and search.cost(pair) < cheaper_than * (1 - 1e-12):
                yield pair


def test_no_pair_of_pools_is_cheaper() -> None:
    seen = 0
    for seed in range(PROBLEMS):
        search = problem(seed)
        limits: Limits = search.asked.limits
        if seed % 2:
            limits = replace(limits, end_to_end=1.5)
        asked = replace(search.asked, limits=limits, counts=(1, 2, 4) if seed % 3 else (2, 3))
        times = {
            replica: each if isinstance(each, str) else replace(each, asked=asked)
            for replica, each in search._priced.items()
        }
        found = best_apart(MadeUp(asked, times))
        if found is None and not LONG:
            continue
        assert found is None or all(number in asked.counts for number in found.deployment.numbers.values())
        fresh = MadeUp(asked, times)
        for pair in pairs(fresh, float("inf") if found is None else found.cost):
            assert fresh.assess(pair).reason is not None, (seed, pair)
            seen += 1
    assert seen > PROBLEMS


@pytest.mark.long
def test_both_pools_together_are_as_many_chips_as_allowed() -> None:
    found = plan("llama-3-70b", **ASKED, count=[8])
    apart = next(each for each in found.choices if each.deployment.prefill is not None)
    assert apart.deployment.chips == 8
    assert found.why(str(apart.deployment)) is None or found.best is not apart


def test_what_is_handed_over_lengthens_the_gaps_of_short_answers_most() -> None:
    server = ServerTimes.of(step=np.full(65, 0.01), prompt=0.0, output=102, apart=True)
    alone = server.under(1e-6, handover=0.5)
    # of geometric lengths E[1/L] = −p·ln p / (1 − p), and one in twenty gives no more than 5 tokens
    assert alone.time_per_token.mean == pytest.approx(0.01 + 0.5 * np.log(101) / 100, rel=0.02)
    assert alone.time_per_token.percentile == pytest.approx(0.01 + 0.5 / 6, rel=0.05)
    assert alone.token_gap.mean == pytest.approx(0.01 + 0.5 / 101, rel=1e-3)
    prefill = ServerTimes.of(step=np.full(2, 0.05), prompt=0.05, output=1)
    whole = alone.end_to_end(prefill.under(1e-6))
    assert whole.mean == pytest.approx(0.05 + 0.5 + 1.01, rel=1e-3)
    assert whole.percentile == pytest.approx(0.55 + 0.01 * server.steps_within(0.95), rel=0.01)
    # a step that is at work is waited for: all of the time three sequences decode, half a step on average
    short = ServerTimes.of(step=np.full(65, 0.01), prompt=0.0, output=3, lengths="fixed", apart=True)
    busy = short.under(400, handover=0.0)
    assert busy.time_per_token.mean == pytest.approx(0.01 + 0.005 / 2, rel=0.01)


def test_each_pool_pays_for_its_own_tokens() -> None:
    """Pools of other chips: dollars by their prices, energy by their watts, the time of chips by their number."""
    asked = {**ASKED, "rate": 4, "on": ["h100", "l40s"], "price": {"h100": 4.0, "l40s": 0.5}}
    found = plan("llama-3-8b", **asked, count=[1, 2])
    h100, l40s = (next(each for each in found.search.replicas if str(each) == f"{name} fp8") for name in asked["on"])
    choice = found.search.assess(Deployment(h100, 1, 0, 16, l40s, 2))
    costs = million_tokens(found.asked, choice)
    assert choice.prefill_share == pytest.approx(2 / 3)
    for name, dollars, watts, tokens in (("input", 1.0, 700.0, 2048), ("output", 4.0, 700.0, 128)):
        assert costs[name].dollars == pytest.approx(dollars / 3600 / (4 * tokens) * 1e6)
        assert costs[name].joules == pytest.approx(watts / (4 * tokens))
