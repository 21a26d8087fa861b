"""Pools that prefill and pools that decode against every pair of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from roofline.plans.answer import plan
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


def test_both_pools_together_are_as_many_chips_as_allowed() -> None:
    found = plan("llama-3-70b", **ASKED, count=[8])
    apart = next(each for each in found.choices if each.deployment.prefill is not None)
    assert apart.deployment.chips == 8
    assert found.why(str(apart.deployment)) is None or found.best is not apart
