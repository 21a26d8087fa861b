"""Plans: the cheapest deployment, one reason for each of the others, and the command."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofline.cli import main
from roofline.plans.answer import plan
from roofline.plans.search import KINDS, Deployment, Search

EIGHT: dict[str, Any] = {
    "on": ["h100", "h200"],
    "count": range(1, 3),
    "rate": "20/s",
    "prompt": 1024,
    "output": 128,
    "ttft": "300 ms",
    "tpot": "20 ms",
    "formats": ["bf16"],
    "prices": {"h100": 2.5, "h200": 3.1},
}


def test_no_deployment_of_the_space_is_cheaper() -> None:
    found = plan("llama-3-8b", **EIGHT)
    assert found.best is not None
    search = Search(found.asked)
    for replica in search.replicas:
        for count in found.asked.counts:
            if count % replica.chips or search.unloaded_reason(replica) is not None:
                continue
            times = search.priced(replica)
            assert not isinstance(times, str)
            for chunk in (*times.chunks, 0):
                for most in search.places(times, times.server(chunk)):
                    each = search.assess(Deployment(replica, count // replica.chips, chunk, most))
                    assert each.reason is not None or each.order >= found.best.order


def test_why_not_is_asked_afresh() -> None:
    found = plan("llama-3-8b", **EIGHT)
    assert found.best is not None
    assert found.why(found.best.deployment) is None
    dear = found.why("h200:2 tensor 2 bf16")
    assert dear is not None
    assert (dear.kind, dear.text.startswith("beaten by")) == ("beaten", True)
    small = plan("llama-3-70b", **{**EIGHT, "count": [1]})
    assert small.best is None
    reason = small.why("h100 bf16")
    assert reason is not None
    assert reason.kind == "fit"
    assert "does not fit by" in reason.text
    assert set(found.reasons) <= set(KINDS)


@pytest.mark.parametrize("change", [{"ttft": "600 ms"}, {"tpot": "40 ms"}, {"prices": {"h100": 2.5, "h200": 2.4}}])
def test_a_looser_limit_or_a_cheaper_chip_is_never_worse(change: dict[str, Any]) -> None:
    tight, loose = plan("llama-3-8b", **EIGHT), plan("llama-3-8b", **{**EIGHT, **change})
    assert tight.best is not None
    assert loose.best is not None
    assert loose.best.cost <= tight.best.cost


WORDS = [
    "plan",
    "llama-3-8b",
    "--on",
    "h100",
    "--count",
    "1:2",
    "--prompt",
    "1024",
    "--output",
    "128",
    "--formats",
    "bf16",
]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--rate", "2/s", "--tpot", "30ms", "--prices", "h100=2.5", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "roofline/plan/1"
    assert answer["choices"][0]["deployment"] == "h100:1 bf16"
    assert main([*WORDS, "--rate", "2/s", "--why", "h100:2 tensor 2 bf16"]) == 0
    assert "beaten by h100:1 bf16: 2 chips against 1 chip" in capsys.readouterr().out


def test_nothing_meets_the_limits_with_code_3_and_the_nearest_miss(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--rate", "2/s", "--tpot", "1ms"]) == 3
    shown = capsys.readouterr().out
    assert "NOTHING MEETS THE LIMITS" in shown
    assert "nearest: h100:2 tensor 2 bf16, 2 chips: TPOT without load" in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--rate", "fast"], "requests a second, as in 12/s"),
        (["--rate", "2/fortnight"], "12/s, 700/min or 40k/h"),
        (["--rate", "2/s", "--prices", "h200=2"], "a price of h200, which the plan is not about"),
        (["--rate", "2/s", "--why", "h900:8"], "a number of chips of the plan"),
        (["--rate", "2/s", "--percentile", "100"], "percentile 100"),
    ],
)
def test_mistakes_are_pointed_at(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, *words]) == 2
    assert text in capsys.readouterr().err


def test_an_expected_plan_takes_longer_than_its_floor_and_says_by_how_much() -> None:
    asked = {**EIGHT, "on": ["h100"], "count": [1], "rate": "4/s"}
    floor, expected = plan("llama-3-8b", **asked), plan("llama-3-8b", **asked, estimate="vllm")
    assert floor.best is not None
    assert expected.best is not None
    for name in ("first_token", "per_token"):
        assert getattr(expected.best, name).mean > getattr(floor.best, name).mean
    low, high = expected.best.interval
    assert low < 1 < high
    assert expected.to_dict()["basis"] == "estimate"
    assert any("steps by constants of" in text for text in expected.assumptions)
    assert floor.floor_only(floor.best) == ()
