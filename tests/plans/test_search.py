"""The search against every deployment asked by itself, on small random problems with made-up times."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.bounds.memory import Footprint
from roofline.models.config import outline
from roofline.plans import search
from roofline.plans.answer import answer
from roofline.plans.load import ServerTimes
from roofline.plans.question import Limits, Load, PlanQuestion
from roofline.plans.replicas import Replica, UnloadedReplica, divides
from roofline.plans.search import Assessment, Deployment, Search

MODEL = outline(8e9, kv=131072)


class MadeUp(Search):
    """A search over replicas whose times are given."""

    def __init__(self, asked: PlanQuestion, times: dict[Replica, UnloadedReplica | str]) -> None:
        super().__init__(asked)
        self.replicas = tuple(times)
        self._priced = dict(times)

    def afresh(self) -> MadeUp:
        """The same, with nothing assessed."""
        return MadeUp(self.asked, self._priced)


def problem(seed: int) -> MadeUp:
    """Two chips, one to four of each, each in two layouts, with random times, memory, prices, load and limits."""
    random = np.random.default_rng(seed)
    output, prompt = int(random.integers(2, 200)), int(random.integers(100, 3000))
    tpot = float(random.choice([0.01, 0.03, 0.1]))
    asked = PlanQuestion(
        MODEL,
        Load(float(10 ** random.uniform(-1, 1.5)), prompt, output),
        Limits(float(random.choice([0.1, 0.5, 2.0])), tpot if random.random() < 0.8 else None),
        ("h100", "h200"),
        (1, 2, 3, 4),
        {"h100": float(random.uniform(1, 4)), "h200": float(random.uniform(1, 4))},
    )
    times: dict[Replica, UnloadedReplica | str] = {}
    for name, tensor in itertools.product(asked.chips, (1, 2)):
        replica = Replica(name, "bf16", tensor=tensor)
        if random.random() < 0.05:
            times[replica] = "it does not divide"
            continue
        most = int(random.choice([0, 4, 30, 100], p=[0.1, 0.2, 0.3, 0.4]))
        base = float(10 ** random.uniform(-2.5, -1.3)) / tensor
        step = base + base * float(10 ** random.uniform(-3, -1)) * np.arange(most + 1)
        footprint = Footprint({"weights": 60e9 / tensor + (60e9 if most == 0 else 0), "kv": 1e8}, "hbm", 85e9)
        took = base * float(10 ** random.uniform(0, 1.5))
        times[replica] = UnloadedReplica(
            asked, replica, footprint, 76e9, 1e8, most, step, ("hbm",) * (most + 1), took, "tensor",
            _mixed={size: np.maximum(step * 1.02, took / 2 + step * 0.5) for size in (512, 2048, 8192)},
            _mixed_bound_by=dict.fromkeys((512, 2048, 8192), ("tensor",) * (most + 1)),
        )  # fmt: skip
    return MadeUp(asked, times)


@cache
def one_by_one(seed: int) -> list[Assessment]:
    """Every deployment there is of a problem, each asked by a search of its own."""
    search, found = problem(seed), []
    for replica, times in search._priced.items():
        for count in search.asked.counts:
            if isinstance(times, str) or times.most < 1 or count % replica.chips:
                continue
            for chunk in (*times.chunks, 0):
                for most in search.places(times, times.server(chunk)):
                    alone = MadeUp(search.asked, {replica: times})
                    found.append(alone.assess(Deployment(replica, count // replica.chips, chunk, most)))
    return found


#: How many random problems are tried.
PROBLEMS = 200 if os.environ.get("ROOFLINE_LONG") else 3


def test_a_plan_is_what_exhaustive_search_finds() -> None:
    for seed in range(PROBLEMS):
        search = problem(seed)
        meets = [each for each in one_by_one(seed) if each.reason is None]
        found = answer(search.asked, search)
        if not meets:
            assert found.best is None, seed
            continue
        best = min(meets, key=lambda each: each.order)
        assert found.best is not None, seed
        assert found.best.order == best.order, seed


def test_why_not_gives_the_reason_that_a_fresh_assessment_has() -> None:
    kinds = set()
    for seed in range(max(5, PROBLEMS // 2)):
        search = problem(seed)
        found = answer(search.asked, search)
        for each in one_by_one(seed)[::7]:
            reason = found.why(each.deployment)
            if each.reason is not None:
                assert reason == each.reason
            elif found.best is not None and each.order > found.best.order:
                assert reason is not None
                assert reason.kind == "beaten"
                assert each.cost > found.best.cost or each.tightness > found.best.tightness
            kinds.add("" if reason is None else reason.kind)
    assert kinds >= {"rate", "load", "beaten"}


def test_looser_limits_and_cheaper_chips_never_cost_more() -> None:
    for seed in range(PROBLEMS // 2):
        search = problem(seed)
        asked, times = search.asked, search._priced
        before = answer(asked, search).best
        if before is None:
            continue
        limits = asked.limits
        loose = replace(limits, first_token=(limits.first_token or 1) * 2, per_token=(limits.per_token or 1) * 2)
        cheap = {**asked.prices, "h200": asked.prices["h200"] / 2}
        for changed in (replace(asked, limits=loose), replace(asked, prices=cheap)):
            again = {
                replica: each if isinstance(each, str) else replace(each, asked=changed)
                for replica, each in times.items()
            }
            after = answer(changed, MadeUp(changed, again)).best
            assert after is not None
            assert after.cost <= before.cost * (1 + 1e-12)


def test_fewer_sequences_than_the_token_time_allows_only_wait_longer() -> None:
    server = ServerTimes.of(step=0.01 + 0.0001 * np.arange(101), prompt=0.02, output=51)
    waits = [server.limited_to(most).under(4.0).time_to_first_token.percentile for most in (6, 10, 20, 50, 100)]
    assert all(fewer >= more * (1 - 1e-6) for fewer, more in itertools.pairwise(waits))


def test_after_a_number_of_replicas_that_misses_a_limit_the_next_is_tried() -> None:
    """At some rates one replica keeps up and lets requests wait too long: the fewest that do not are next to it."""
    replica, counts, step = Replica("h100", "bf16"), (1, 2, 3, 4), 0.01 + 1e-4 * np.arange(31)
    footprint, mixed = Footprint({"weights": 60e9}, "hbm", 85e9), {512: step * 1.1, 2048: step * 2, 8192: step * 4}
    found = []
    for rate in (4.0, 12.0, 20.0):
        asked = PlanQuestion(MODEL, Load(rate, 500, 100), Limits(0.08, None), ("h100",), counts, {"h100": 1.0})
        times = UnloadedReplica(
            asked, replica, footprint, 76e9, 1e8, 30, step, ("hbm",) * 31, 0.05, "tensor", _mixed=mixed,
            _mixed_bound_by=dict.fromkeys(mixed, ("tensor",) * 31),
        )  # fmt: skip
        search = MadeUp(asked, {replica: times})
        ways = [(chunk, most) for chunk in (*times.chunks, 0) for most in search.places(times, times.server(chunk))]
        every = [search.afresh().assess(Deployment(replica, many, *way)) for many in counts for way in ways]
        best = answer(asked, search).best
        found.append((best and best.deployment.copies, min(x.deployment.copies for x in every if x.reason is None)))
    assert [best for best, _ in found] == [least for _, least in found]
    assert len({least for _, least in found}) > 1


def test_a_replica_that_holds_no_sequence_has_no_steps_to_be_slower() -> None:
    """Ends of an interval are asked of every deployment of a chip and formats, those that hold nothing among them."""
    asked = PlanQuestion(MODEL, Load(1.0, 500, 100), Limits(0.08, None), ("h100",), (1,), library="vllm")
    footprint = Footprint({"weights": 90e9}, "hbm", 85e9)
    none = UnloadedReplica(asked, Replica("h100", "bf16"), footprint, 76e9, 1e8, 0)
    assert none.slower(1.2) is none


def test_a_layout_is_split_and_its_chips_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from roofline.models.parallelism import splitting
    from roofline.plans import question

    found: dict[str, list[Any]] = {"splits": [], "chips": []}
    split, resolve = splitting._stages.__wrapped__, question.resolve
    # a cache of its own: what other tests have split is kept
    counted = lru_cache(maxsize=256)(lambda *given: found["splits"].append(given[2]) or split(*given))
    monkeypatch.setattr(splitting, "_stages", counted)
    monkeypatch.setattr(question, "resolve", lambda on, **more: found["chips"].append(on) or resolve(on, **more))
    roofline.plan("llama-2-13b", on=["h100"], rate=1, prompt=64, output=16, count=[2, 4], formats=["bf16", "fp8"])
    assert len(found["splits"]) == len(set(found["splits"])) >= 2
    assert len(found["chips"]) == len(set(found["chips"])) >= 2


def test_a_replica_is_priced_once_whatever_is_asked_of_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    priced: list[tuple[str | None, Replica]] = []

    def counted(asked: PlanQuestion, replica: Replica) -> UnloadedReplica | str:
        priced.append((asked.library, replica))
        return divides(asked, replica)

    monkeypatch.setattr(search, "divides", counted)
    found = roofline.plan("llama-3-8b", on="h100", count=[1], rate=40, prompt=1024, output=128, formats="bf16")
    assert found.enough_as_measured() is not None
    assert len(list(found.sections())) > 3
    assert len(priced) == len(set(priced)) > 1
