"""Plans: the cheapest deployment, one reason for each of the others, and the command."""

from __future__ import annotations

import json
import re
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from roofline.charts.chart import charts_of
from roofline.charts.plan_charts import CROSS, DOTTED
from roofline.cli import main
from roofline.errors import InputError
from roofline.estimates.transfer import OTHER_MODEL, transfer
from roofline.hardware import chip
from roofline.hardware.figures import listed_prices
from roofline.models import load
from roofline.models.closed_form import step_function
from roofline.models.serving import serve_bound
from roofline.models.serving.llm import llm
from roofline.plans.answer import DeploymentPlan, plan
from roofline.plans.cost import ScaledSearch
from roofline.plans.question import Limits, Load, PlanQuestion
from roofline.plans.replicas import FORMATS, Replica, UnloadedReplica, unloaded
from roofline.plans.search import KINDS, Deployment, Search
from roofline.progress import watched
from tests.strategies import some

EIGHT: dict[str, Any] = {
    "on": ["h100", "h200"],
    "count": range(1, 3),
    "rate": "20/s",
    "prompt": 1024,
    "output": 128,
    "ttft": "300 ms",
    "tpot": "20 ms",
    "formats": ["bf16"],
    "price": {"h100": 2.5, "h200": 3.1},
}


@cache
def eight() -> DeploymentPlan:
    """One or two of two chips, in one format; an answer is not changed, so tests share it."""
    return plan("llama-3-8b", **EIGHT)


def test_a_plan_says_what_stays_with_the_host_and_which_adapters_are_served() -> None:
    few = {**EIGHT, "on": "h100", "count": 1, "price": None, "rate": "1/s", "ttft": "900 ms", "tpot": "300 ms"}
    found = plan("llama-3-8b", **few, host_layers=4, lora=16, adapters=8)
    assert found.best is not None
    step = serve_bound("llama-3-8b", "decode", on="h100", batch=1, context=64, host_layers=4, lora=16, adapters=8)
    for start in ("the weights of 4 of 32 layers stay in the host's memory: 1.74 GB", "8 adapters of rank 16 (LoRA)"):
        (said,) = [line for line in found.assumptions if line.startswith(start)]
        assert said in step.assumptions
    assert not [line for line in eight().assumptions if "host's memory" in line or "LoRA" in line]


def test_no_deployment_of_the_space_is_cheaper() -> None:
    found = eight()
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


@pytest.mark.parametrize(("prompt", "output", "bound_by"), some([(8000, 10, "tensor"), (200, 1000, "dram")], 2, 1))
def test_what_binds_is_the_figure_that_the_largest_rate_follows(prompt: int, output: int, bound_by: str) -> None:
    """Of a chip whose peak, or memory, is 2% more the same deployment keeps up with 2% more."""
    ask = partial(plan, "llama-3-8b", on="l4", count=[2], rate=0.2, prompt=prompt, output=output, formats=["bf16"])
    found = ask().best
    assert found.bound_by == bound_by
    more = {name: ask(set={name: "+2%"}).assess(found.deployment).largest_rate for name in ("bf16", "dram")}
    assert max(more, key=more.get) == {"tensor": "bf16"}.get(bound_by, bound_by)


def test_a_plan_says_which_chips_lack_a_latency() -> None:
    ask = partial(plan, "llama-3-70b", count=[2, 4], rate=1, prompt=1000, output=100, formats=["bf16"])
    assert "INCOMPLETE: mi300x:2 tensor 2 bf16: not timed: hops at tensor" in str(ask(on="mi300x"))
    assert "INCOMPLETE" not in str(ask(on="h200"))


def test_why_not_is_asked_afresh() -> None:
    found = eight()
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


def test_the_deployment_that_is_taken_is_not_among_those_that_are_not() -> None:
    load = {"rate": 4, "prompt": 100, "output": 100}
    found = plan("llama-3-8b", on="h100", count=1, formats=["bf16"], **load)
    times = found.search.priced(found.best.deployment.replica)
    assert not isinstance(times, str)
    assert sum(found.reasons.values()) == (len(times.chunks) + 1) * times.most - 1
    assert " other deployments: " in str(found)
    nothing = plan("llama-3-8b", on="h100", count=1, formats=["bf16"], **{**load, "rate": 1e3})
    assert nothing.nearest.largest_rate == found.best.largest_rate  # in chunks, as whole prompts serve half as many
    assert nothing.reasons["rate"] == sum(nothing.reasons.values()) == sum(found.reasons.values()) + 1


def test_a_plan_without_a_choice_says_nothing_of_others() -> None:
    """One sequence of 300,000 tokens has room, and a prompt whose answer is one token is taken whole."""
    said = str(plan("llama-3-8b", on="h100", count=1, formats="bf16", rate=0.001, prompt=300_000, output=1))
    assert "prompts whole, 1 sequence at most: 1 chip" in said
    assert "other deployment" not in said
    assert "\n\n\n" not in said


TWO: dict[str, Any] = {
    "on": ["l4", "h100"], "count": [1, 2], "rate": "1/s", "prompt": 1024, "output": 128, "tpot": "50 ms",
    "price": {"l4": 0.8, "h100": 2.5}, "formats": ["bf16", "fp8 kv fp8"],
}  # fmt: skip


@cache
def two() -> DeploymentPlan:
    """One or two of two chips, in every format."""
    return plan("llama-3-8b", **TWO)


def test_a_plan_serves_adapters_blocks_and_weights_of_the_host() -> None:
    """On an H100 an engine has 90 % of 84.94 GB; a sequence of Llama 3 8B 131,072 bytes a token."""
    asked = {"on": "h100", "count": 1, "rate": "1/s", "prompt": 1000, "output": 100, "formats": ["bf16"]}

    def most(**served: Any) -> tuple[float, UnloadedReplica]:
        search = Search(plan("llama-3-8b", **asked, **served).asked)
        times = search.priced(search.replicas[0])
        assert isinstance(times, UnloadedReplica)
        return times.memory.parts["weights"], times

    plain, before = most()
    assert before.sequence == 1104 * 131072
    rank, layers = 16 * 2 * 32 * (4 * 4096 + 2 * (4096 + 1024) + 3 * (4096 + 14336)), 4 * 218112000 * 2
    found, times = most(lora=16, adapters=8)
    assert (found - plain, times.sequence) == (8 * rank, before.sequence)
    one = serve_bound("llama-3-8b", "decode", on="h100", batch=64, context=1098, lora=16, adapters=8)
    assert times.step[64] == pytest.approx(one.lower, rel=1e-12)
    assert most(kv_block=100)[1].sequence == 1100 * 131072
    found, times = most(host_layers=4)
    assert found - plain == -layers
    assert times.step_bound_by[1] == "pcie"
    held = most(host_kv=True)[1]
    assert (held.sequence, held.most) == (0, 1024)


@pytest.mark.long
def test_words_that_leave_something_out_mean_the_best_of_all_that_they_may_mean() -> None:
    found = two()
    assert found.best is not None
    assert (str(found.best.deployment), found.why("l4:1"), found.why("l4")) == ("l4:1 fp8 kv fp8", None, None)
    bf16 = found.why("l4:1 bf16")
    assert bf16 is not None
    assert bf16.kind == "limit"  # what l4:1 would be in one format of all
    every = Search(found.asked)
    counted = []
    for replica in (each for each in every.replicas if each.chip == "l4"):
        times = every.priced(replica)
        if not isinstance(times, str) and times.most:
            for chunk in (*times.chunks, 0):
                for most in every.places(times, times.server(chunk)):
                    counted.append(every.assess(Deployment(replica, 2 // replica.chips, chunk, most)))
    best = min((each for each in counted if each.reason is None), key=lambda each: each.order)
    assert found.assess("l4:2").order == best.order
    for choice in found.choices[::2]:
        assert found.assess(str(choice.deployment)).order == choice.order
    first = next(each for each in found.choices if each.deployment.replica.chip == "h100")
    assert found.assess("h100").deployment == first.deployment
    assert found.assess("h100 batch 3").deployment.most == 3
    apart = found.assess("prefill h100:1, decode l4:1").deployment
    assert apart.prefill is not None
    assert "kv" in apart.prefill.formats
    assert "kv" in apart.replica.formats


def test_where_nothing_meets_the_limits_words_mean_the_nearest_miss() -> None:
    found = plan("llama-3-8b", **{**TWO, "on": ["l4"], "tpot": "10 ms", "formats": ["bf16"]})
    assert found.nearest is not None
    about = found.assess("l4")
    assert (about.deployment, about.reason) == (found.nearest.deployment, found.nearest.reason)
    assert found.assess("l4:1").deployment.chips == 1


def test_what_is_beaten_by_another_chip_would_cost_less_below_a_price() -> None:
    found = two()
    for words, price in (("h100", 0.8), ("h100:2 tensor 2 bf16", 0.4)):
        reason = found.why(words)
        assert reason is not None
        assert f"; it would cost less with h100 below ${price} an hour; it keeps the limits itself: TTFT" in reason.text
        own = found.assess(words)
        assert own.deployment.chips * price == pytest.approx(0.8)
    assert dict(found.break_even()) == {"h100": 0.8}
    same, chips = found.why("l4:2"), plan("llama-3-8b", **{**TWO, "price": None, "formats": ["fp8"]}).why("h100:2")
    assert same is not None
    assert chips is not None
    assert "would cost less" not in same.text + chips.text


@pytest.mark.long
def test_a_plan_by_floors_names_prefill_apart_where_measured_times_turn_the_order() -> None:
    """By floors whole replicas take 16 chips and pools 20; as measured 48 and 40."""
    load = {"rate": 9.5, "prompt": 6000, "output": 800, "ttft": "2s", "tpot": "40ms", "disaggregate": True}
    asked = {**load, "on": "h100", "count": [16, 40, 48], "formats": "bf16"}
    found, own = plan("llama-3-70b", **asked), plan("llama-3-70b", **asked, estimate="vllm")
    assert (found.best.chips, own.best.chips, found.best.deployment.prefill) == (16, 40, None)
    said = " ".join(str(found).split())
    assert f"(48 chips) would keep the limits; with prefill apart 40 chips would do: {own.best.deployment}" in said
    whose = (
        "take h100:24 as 6 replicas of tensor 4, bf16 for prefill + h100:16 as 2 replicas of tensor 8, bf16 for decode"
    )
    assert whose in " ".join(str(own).split())
    assert own.best.deployment.takes_prompts == "in own pool"
    assert any(
        getattr(mark, "text", "").startswith("prefill h100:24 tensor 4 bf16 apart,\ndecode")
        for mark in own.plot().marks
    )


def test_a_plan_by_floors_says_so_first_and_how_it_does_as_a_library_is_measured() -> None:
    asked = {"on": "h200", "rate": "5/s", "prompt": 3000, "output": 300, "ttft": "1s", "tpot": "40ms"}
    found = plan("llama-3-70b", **asked)
    said = str(found)
    assert "by floors, no less than h200:2 as 1 replica of tensor 2, fp8 kv fp8" in said
    assert "fp8 kv fp8 was not asked for: narrower formats change what a model answers" in said
    real = found.as_measured()
    assert real is not None
    assert real.reason is not None
    enough = found.enough()
    assert enough is not None
    assert found.to_dict()["enough"]["chips"] == enough.deployment.chips
    more = f"{enough.deployment.copies} such replicas ({enough.deployment.chips} chips) would keep the limits"
    line = (
        f"with the step times measured on vllm it falls short: {real.reason.text}; {more}; estimate='vllm' plans with"
    )
    assert line in " ".join(said.split())
    assert said.index("falls short") < said.index("TTFT p95")  # what is known to be too little is said before its times
    own = plan("llama-3-70b", **asked, count=2, formats="fp8 kv fp8", estimate=True)
    assert own.assess(real.deployment).reason == real.reason
    counts = [2 * copies for copies in range(1, enough.deployment.copies + 1)]
    chip = enough.deployment.replica.chip
    reasons = [own.assess(f"{chip}:{count} tensor 2 fp8 kv fp8").reason for count in counts]
    keeps = [reason is None or reason.text.startswith("keeps the limits") for reason in reasons]
    assert keeps == [False] * (len(counts) - 1) + [True]
    easy = plan("llama-3-8b", on="h100", rate=1, prompt=300, output=100, formats="bf16")
    assert "with the step times measured on vllm it keeps the limits: TTFT p95" in " ".join(str(easy).split())
    whole = next(each for each in found.choices if each.deployment.replica.formats == "bf16")
    assert f"a floor of 2 chips; in bf16, {whole.chips} chips: {whole.deployment}" in " ".join(said.split())
    assert "by floors, take h100:1" in str(easy)
    assert "1 chip, the fewest" in " ".join(str(easy).split())
    assert "was not asked for" not in str(easy)


def test_what_lies_outside_the_measured_sizes_is_said_once() -> None:
    found = plan("llama-3-8b", **{**TWO, "count": 1, "formats": ["bf16"], "price": 2, "estimate": "vllm"})
    outside = [said for said in found.assumptions if "outside the sizes" in said]
    assert len(outside) == 1
    assert "lm_head" in outside[0]


def test_a_plan_repeats_its_limits_and_asks_about_one_that_was_meant_in_milliseconds() -> None:
    asked = {"on": "h100", "rate": 1, "prompt": 300, "output": 100, "formats": "bf16"}
    assert "answers of 100, within TTFT 400 ms and TPOT 25 ms at p95" in " ".join(
        str(plan("llama-3-8b", **asked, ttft="400ms", tpot=0.025)).split()
    )
    assert "within" not in str(plan("llama-3-8b", **asked)).partition("\n\n")[0]
    for limit in ({"ttft": "400"}, {"tpot": 25}, {"e2e": 2000.0}):
        with pytest.raises(InputError, match="as it has no unit; write"):
            plan("llama-3-8b", **asked, **limit)
    assert plan("llama-3-8b", **asked, ttft="400s").asked.limits.first_token == 400


def test_chips_without_constants_have_no_plan_of_what_to_expect() -> None:
    asked = {"count": "1", "rate": 1, "prompt": 300, "output": 100, "formats": "bf16"}
    why = plan("llama-3-8b", on="h100,mi300x", estimate=True, **asked).why("mi300x")
    assert why is not None
    assert why.text.startswith("no constants of vllm are known for contraction in bf16 on AMD MI300X; leave estimate=")
    floors = plan("llama-3-8b", on="mi300x", **asked)
    assert floors.as_measured() is None
    assert "vllm" not in str(floors)


def test_a_plan_of_a_number_of_parameters_is_by_floors_alone() -> None:
    asked: dict[str, Any] = {"on": ["h100"], "rate": 1, "prompt": 64, "output": 16, "count": [1], "formats": "bf16"}
    found = plan("7e9", **asked)
    assert found.best is not None
    assert found.as_measured() is None
    assert "measured on" not in str(found)
    assert "whose shapes are not known" in " ".join(str(plan("7e9", **asked, estimate=True)).split())


def test_gaps_shorter_than_the_mean_gap_are_explained() -> None:
    found = plan("llama-3-8b", on="h100", count="1", rate=1, prompt=3000, output=300, estimate=True, formats="bf16")
    assert found.best.token_gap.percentile < found.best.per_token.percentile
    assert any(each.startswith("ITL may be below TPOT: few gaps hold") for each in found.assumptions)


def test_the_reply_names_the_deployment_that_words_mean(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*WORDS[:-2], "--rate", "2/s"]
    assert main([*asked, "--why", "h100:1"]) == 0
    said = capsys.readouterr().out
    assert "take h100:1 fp8 kv fp8, the best of 'h100:1'" in said
    assert "deployment" in said.partition("the best of")[2], "the plan stands below the reply"
    assert main([*asked, "--why", "h100:1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "asked": "h100:1", "deployment": "h100:1 fp8 kv fp8", "reason": None
    }  # fmt: skip
    assert main([*asked, "--tpot", "1ms", "--why", "h100:1"]) == 0
    assert "no 'h100:1' will do; the nearest is h100:1 fp8 kv fp8\n    TPOT without load" in capsys.readouterr().out


def test_a_number_of_chips_that_no_layout_takes_as_one_replica_is_told_so():
    """7 chips are 7 replicas of one, each too small for 141 GB; 7 chips of one replica are for the words to name.

    Where 7 are all that is allowed, a replica of 2 or more is not priced.
    """
    asked = {"on": "h100", "rate": 1, "prompt": 1024, "output": 128, "formats": "bf16"}
    assert {replica.chips for replica in plan("llama-3-70b", count=7, **asked).search._priced} == {1}
    found = plan("llama-3-70b", count=range(1, 9), **asked)
    said = found.why("h100:7").text
    assert "does not fit" in said
    assert said.endswith("so 7 chips are 7 replicas of 1 chip at the largest: name another, as in 'tensor 7'")
    assert "layouts are tried" not in found.why("h100:1").text
    assert found.why("h100:7 tensor 7").kind == "beaten"


@pytest.mark.parametrize("change", [{"ttft": "600 ms"}, {"tpot": "40 ms"}, {"price": {"h100": 2.5, "h200": 2.4}}])
def test_a_looser_limit_or_a_cheaper_chip_is_never_worse(change: dict[str, Any]) -> None:
    tight, loose = eight(), plan("llama-3-8b", **{**EIGHT, **change})
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
    assert main([*WORDS, "--rate", "2/s", "--tpot", "30ms", "--price", "h100=2.5", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "roofline/plan/1"
    assert answer["choices"][0]["deployment"] == "h100:1 bf16"
    assert main([*WORDS, "--rate", "2/s", "--why", "h100:2 tensor 2 bf16"]) == 0
    assert "beaten by h100:1 bf16: 2 chips against 1 chip" in capsys.readouterr().out


def test_words_without_a_chip_mean_any_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--on", "h100,a100", "--rate", "2/s", "--price", "table"]
    asked = [*(word for word in WORDS if word not in ("--on", "h100")), *words]
    assert main([*asked, "--why", "tensor 2"]) == 0
    assert "not a100:2 tensor 2 bf16, the best of 'tensor 2'" in capsys.readouterr().out
    assert main([*asked, "--why", "batch 8"]) == 0
    assert "the best of 'batch 8'" in capsys.readouterr().out
    assert main([*asked, "--why", "prefill tensor 1, decode h100:1"]) == 2
    assert "pool '' has no number of chips; as in h100:8" in capsys.readouterr().err


@pytest.mark.long
def test_without_machines_those_with_a_price_are_considered_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, Any] = {"rate": "2/s", "prompt": 512, "output": 64, "count": 1, "formats": "bf16"}
    listed = plan("llama-3-8b", **asked)
    assert listed.asked.chips == tuple(listed_prices())
    said = "considered are the chips with a listed price: a100, b200, gb200, h100, h200;"
    assert said in " ".join(str(listed).split())
    named = plan("llama-3-8b", **asked, on=list(listed_prices()), price="table")
    assert repr(listed) == repr(named)
    assert plan("llama-3-8b", **asked, price="l4=0.7,a100=1.8").asked.prices == {"l4": 0.7, "a100": 1.8}
    assert set(plan("llama-3-8b", **asked, price={"table": "table", "l4": 1}).asked.chips) == {*listed_prices(), "l4"}
    assert plan("llama-3-8b", **asked, objective="energy").asked.prices == {}
    assert main([*(word for word in WORDS if word not in ("--on", "h100")), "--rate", "2/s", "--price", "h100=2"]) == 0
    assert "considered are the chips with a listed price: h100; --on CHIP,CHIP names others" in capsys.readouterr().out


def test_what_does_not_keep_up_has_no_costs_of_tokens_and_no_share_of_prefill() -> None:
    load = {"rate": 9000.0, "prompt": 512, "output": 64, "formats": ["bf16"]}
    nearest = plan("llama-3-8b", on=["h100"], count=1, price={"h100": 2.0}, **load).to_dict()["nearest"]
    assert nearest["largest_rate"] > 0
    for name in ("cost_per_million_input_tokens", "cost_per_million_output_tokens", "prefill_share", "in_flight"):
        assert nearest[name] is None


def test_nothing_meets_the_limits_with_code_3_and_the_nearest_miss(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--rate", "2/s", "--tpot", "1ms"]) == 3
    shown = capsys.readouterr().out
    assert "NOTHING MEETS THE LIMITS" in shown
    assert "nearest: h100:2 tensor 2 bf16, 2 chips: TPOT without load" in shown
    assert "would keep the limits" in shown or "chips do not help" in shown
    many = plan("llama-3-8b", on="h100", count=1, rate=500, prompt=1000, output=300, formats="bf16", tpot="8ms")
    enough = re.search(
        r"; (\d+) such replicas \(\1 chips, count=\1\) would keep the limits", " ".join(str(many).split())
    )
    assert enough is not None  # and one replica less would not
    reasons = [many.assess(f"h100:{count} bf16").reason for count in (int(enough[1]) - 1, int(enough[1]))]
    assert reasons[0] is not None
    assert (reasons[0].kind, int(enough[1]) > 20) == ("load", True)  # twice as many as serve the rate
    assert reasons[1] is None or "keeps the limits" in reasons[1].text


def test_chips_without_constants_stay_in_an_estimate_with_that_reason(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "llama-3-8b", "--count", "1,2", "--rate", "1/s", "--prompt", "512", "--output", "64"]
    asked += ["--formats", "bf16", "--estimate", "--on"]
    assert main([*asked, "h100,mi300x"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "take h100:1" in shown
    assert "mi300x no constants of vllm" in shown
    assert main([*asked, "mi300x", "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert "no constants of vllm are known" in answer["without_constants"]["mi300x"]
    assert main([*asked, "mi300x"]) == 3
    shown = capsys.readouterr().out
    assert "NO CHIP HAS CONSTANTS FOR AN ESTIMATE" in shown
    assert "NOTHING MEETS" not in shown
    assert main([*(word for word in asked if word != "--estimate"), "mi300x"]) == 0
    assert "by floors, no less than mi300x:1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--rate", "fast"], "requests a second, as in 12/s"),
        (["--rate", "2/fortnight"], "12/s, 700/min or 40k/h"),
        (["--rate", "2/s", "--price", "h200=2"], "not one price for each of h100: 1 given"),
        (["--rate", "2/s", "--why", "h900:8"], "is no chip of the plan, nor a number of one"),
        (["--rate", "2/s", "--percentile", "100"], "percentile 100"),
        (["--rate", "2/s", "--estimate", "take"], "no constants of a library 'take'"),
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


@pytest.mark.long
def test_an_expected_plan_of_a_model_that_was_not_measured_has_the_interval_of_its_steps() -> None:
    asked = {**EIGHT, "on": "b200", "count": 1, "rate": "4/s", "formats": ["fp8"], "price": None}
    found = plan("llama-3-8b", **asked, estimate="vllm").best
    seen = transfer("served_step", OTHER_MODEL)
    assert found is not None
    assert seen is not None
    assert found.interval[0] <= seen.interval[0] * (1 + 1e-9) < seen.interval[1] <= found.interval[1] * (1 + 1e-9)
    step = llm(
        "llama-3-8b", on="b200", weights="fp8", compute="fp8", kv="fp8", batch=512, context=1088, estimate="vllm"
    ).decode.expectation  # half of the sequences that have room are 506
    assert [step.low / step.value, step.high / step.value] == pytest.approx(found.interval, rel=0.01)


def test_times_of_steps_are_those_of_the_compiled_formulas_and_of_single_steps() -> None:
    of = Load(4, 3000, 128, shared=0.5)
    asked = PlanQuestion(load("llama-3-8b"), of, Limits(), ("h100",), (2,), objective="chips", most_sequences=600)
    replica = Replica("h100", "fp8", tensor=2)
    times = unloaded(asked, replica)
    options = {"on": "h100:2", "tensor": 2, **FORMATS["fp8"]}
    context, few = asked.load.mean_context, np.array([1, 2, 77, 256])
    step = step_function("llama-3-8b", "decode", **options)(batch=few, context=context)
    assert times.step[few] == pytest.approx(step["lower"], rel=1e-12)
    assert [times.step_bound_by[n] for n in few] == step["bound_by"].tolist()
    mixed = {size: times.mixed(size) for size in times.chunks}
    assert list(mixed) == [512, 2048]
    for size, found in mixed.items():
        count = -(-1500 // size)
        new = round(1500 / count)
        sizes = {"context": context, "chunk": new, "past": 1500 + (1500 - new) // 2, "last": True}
        one = serve_bound("llama-3-8b", "mixed", batch=77, **sizes, **options)
        assert found[77] == pytest.approx(float(one.lower), rel=1e-12), size


@pytest.mark.filterwarnings("default")
def test_workers_find_the_same_plan() -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = plan("llama-3-8b", **EIGHT, client=client)
    assert found.to_dict() == eight().to_dict()


def test_a_load_that_misses_the_time_to_first_token_is_seen_to_miss_it() -> None:
    found = plan("llama-3-8b", **{**EIGHT, "on": ["h100"], "count": [1], "rate": "30/s", "ttft": "30 ms"})
    assert not found.meets
    over_token, over_first = (charts_of("plan")[name](found) for name in ("frontier", "first-token"))
    (point,), (region,) = over_first.points, over_first.regions
    assert (point.text, point.shape, region.label) == ("misses TTFT", CROSS, "TTFT over 30 ms")
    assert region.x0 == 0.03 < point.x
    assert [each.text for each in over_token.points] == ["misses TTFT"]
    dotted = [line for line in over_token.lines if line.dash == DOTTED]
    assert [line.text for line in dotted] == ["TTFT over 30 ms"]
    assert point.y in dotted[0].y
    kept = next(line for line in over_first.lines if line.dash != DOTTED)
    assert list(kept.y) == sorted(kept.y)


def test_a_limit_at_the_median_is_held_against_the_median_alone() -> None:
    asked = {"on": "h100", "count": [8], "rate": 7, "prompt": 4000, "output": 200, "formats": "bf16", "percentile": 50}
    found = plan("llama-3-70b", **asked, ttft="80 ms", e2e="2 s").best
    assert found.first_token.percentile < 0.08 < found.first_token.mean
    assert 1.1 * found.end_to_end.percentile < found.end_to_end.mean  # half of all answers are short
    missed = plan("llama-3-70b", **{**asked, "percentile": 95}, ttft="1 s", e2e=found.end_to_end.percentile).nearest
    assert missed.reason.text.startswith("end to end p95 ")


def test_energy_is_a_ceiling_and_input_and_output_share_the_time() -> None:
    found = plan("llama-3-8b", **{**EIGHT, "on": ["h100"]})
    best, load_ = found.choices[0], found.asked.load
    answer = found.to_dict()["choices"][0]
    chips = best.deployment.chips
    assert answer["power"] == 700.0 * chips
    each = answer["most_joules_per_input_token"] * load_.prompt + answer["most_joules_per_output_token"] * load_.output
    assert each * load_.rate == pytest.approx(700.0 * chips)
    dollars = answer["cost_per_million_input_tokens"] * load_.prompt + (
        answer["cost_per_million_output_tokens"] * load_.output
    )
    assert dollars * load_.rate / 1e6 * 3600 == pytest.approx(2.5 * chips)
    # by hand: a prompt alone, and a step over the sequences in flight for each further token
    times = found.search.priced(best.deployment.replica)
    assert not isinstance(times, str)
    n = max(1, round(best.in_flight))
    decode = (load_.output - 1) * float(times.step[n]) / n
    assert best.prefill_share == pytest.approx(times.prompt / (times.prompt + decode))
    # a real run may take more chips than a plan by floors: then the ceiling is none
    assert "energy is a ceiling if these chips do: TDP times time" in " ".join(str(found).split())
    expected = " ".join(str(plan("llama-3-8b", **{**EIGHT, "on": ["h100"], "count": 1}, estimate="vllm")).split())
    assert "energy is a ceiling: TDP times time" in expected
    assert "if these chips do" not in expected


def test_a_chip_without_a_tdp_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "--rate", "2/s"]
    words[words.index("h100")] = "trn2"
    assert main(words) == 0
    assert "energy: no TDP of trn2 is known, so none is given" in " ".join(capsys.readouterr().out.split())


def test_what_is_done_is_kept_when_it_is_stopped() -> None:
    def stop(done: float, total: float, part: str) -> None:
        if done >= 0.5:
            raise KeyboardInterrupt

    with watched(stop):
        found = plan("llama-3-8b", **EIGHT)
    assert found.best is not None
    assert {choice.deployment.replica.chip for choice in found.choices} == {"h100"}
    assert found.stopped == "stopped after 1 of 2 chips and formats: the others were not searched"
    assert found.to_dict()["stopped"] == found.stopped


def test_answers_of_one_token_have_no_cost_of_output_and_no_silent_zeros(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "--rate", "2/s", "--price", "h100=2.5"]
    words[words.index("128")] = "1"
    assert main([*words, "--explain", "--simulate"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "time to first token, p95" in shown
    assert "time per token" not in shown
    assert "output tokens:" not in shown
    assert "0 J" not in shown
    assert main([*words, "--json"]) == 0
    choice = json.loads(capsys.readouterr().out)["choices"][0]
    assert choice["cost_per_million_output_tokens"] is choice["most_joules_per_output_token"] is None
    assert choice["per_token"] is choice["token_gap"] is None
    assert choice["cost_per_million_input_tokens"] == pytest.approx(2.5 / 3600 / (2 * 1024) * 1e6)


def test_plans_whose_cost_intervals_overlap_are_indistinguishable() -> None:
    found = plan("llama-3-8b", **EIGHT, estimate="vllm")
    assert found.best is not None
    for choice in found.choices:
        low, high = found.cost_intervals[choice.deployment]
        assert low <= choice.cost <= high
        overlap = low <= found.cost_intervals[found.best.deployment][1]
        assert found.is_indistinguishable(choice) == overlap
    # by hand: steps that take as long as the high end says, searched for the chip alone
    name = found.best.deployment.replica.chip
    alone = [each for each in found.search.replicas if each.chip == name]
    slow = ScaledSearch(found.search, 1)
    slow.replicas = tuple(alone)
    again = slow.best_of(tuple(alone))
    assert again is not None
    assert again.cost == found.cost_intervals[found.best.deployment][1] > found.best.cost
    assert min(found.elasticities().values()) >= -0.02


def test_chips_without_bf16_are_asked_in_fp16_and_named_formats_are_turned_down() -> None:
    old = plan("llama-3-8b", on=["v100"], count=[2], rate=1, prompt=512, output=64, tpot="60 ms")
    assert old.best is not None
    assert old.best.deployment.replica.formats == "fp16"
    assert "--dtype half" in old.settings()["vllm"]
    found = plan("llama-3-8b", on=["a100", "h100"], count=[1], rate=1, prompt=512, output=64, formats=["fp8"])
    reason = found.why("a100 fp8")
    assert reason is not None
    assert (reason.kind, "no peak of fp8 arithmetic is known of a100" in reason.text) == ("legal", True)
    assert "or give its peak, as in set={'fp8': 1e14}" in reason.text
    assert found.reasons["legal"] == 1
    nothing = plan("llama-3-8b", on=["epyc_9965"], count=[1], rate=1, prompt=512, output=64)
    assert nothing.nearest is not None
    assert nothing.nearest.reason is not None
    assert "no peak of bf16" in nothing.nearest.reason.text


def test_a_plan_of_no_chips_is_an_error() -> None:
    with pytest.raises(InputError, match="a plan of no chips") as caught:
        plan("llama-3-8b", **{**EIGHT, "count": [0]})
    assert "numbers from 1" in str(caught.value.hint)


def test_what_is_better_but_was_not_asked_for_says_so() -> None:
    found = plan("llama-3-8b", **{**EIGHT, "on": ["h100"], "count": [2], "rate": "2/s"})
    reason = found.why("h100:1 bf16")
    assert reason is not None
    assert "these numbers or formats were not asked for" in reason.text


def test_sequences_beyond_what_a_model_was_trained_on_are_said() -> None:
    found = plan("llama-3-8b", on=["h100"], count=[1], rate="1/h", prompt=200_000, output=8, formats=["bf16"])
    assert any(
        "longer than the 131,072 that llama-3-8b (Meta-Llama-3.1-8B) was trained on" in text
        for text in found.assumptions
    )


def test_stages_are_left_out_only_where_they_are_no_better() -> None:
    asked = {"count": [4], "rate": 1, "prompt": 512, "output": 64, "formats": ["bf16"]}
    switched, slow = (plan("llama-3-70b", on=[name], **asked).search for name in ("h100", "l40s"))
    four = Replica("h100", "bf16", tensor=2, pipeline=2)
    assert switched.outdone(four)
    assert not slow.outdone(Replica("l40s", "bf16", tensor=2, pipeline=2))
    stages, ways = (switched.priced(each) for each in (four, Replica("h100", "bf16", tensor=4)))
    assert not isinstance(stages, str)
    assert not isinstance(ways, str)
    assert stages.most <= ways.most + 1  # the smallest pieces of a prompt take no room
    both = slice(1, min(stages.most, ways.most) + 1)
    assert (stages.step[both] >= ways.step[both] * (1 - 1e-3)).all()
    assert stages.prompt >= ways.prompt * (1 - 1e-3)


def test_a_model_that_does_not_generate_has_plans_for_answers_of_one_token() -> None:
    found = plan("bert-base", on=["h100"], count=[1], rate=100, prompt=128, output=1, ttft="5 ms", formats=["bf16"])
    assert found.best is not None
    assert found.curves() == []
    # 128 tokens by 85e6 weights, and attention over them: prompts that come together compute without end
    flops = 12 * (2 * 128 * 12 * 768**2 + 4 * 128**2 * 768)
    assert found.best.largest_rate == pytest.approx(989.4e12 / flops, rel=0.01)


def test_a_figure_that_is_not_known_may_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "--rate", "0.1/s", "--set", "dram.capacity=64GB"]
    words[words.index("h100")], words[words.index("bf16")] = "m4_max", "fp16"
    assert main(words) == 0
    assert "no less than m4_max:1 as 1 replica, fp16" in " ".join(capsys.readouterr().out.split())


def test_a_model_in_fp16_is_served_in_bf16() -> None:
    found = plan("llama-2-7b", on=["h100"], count=[1], rate="1/s", prompt=64, output=16, formats=["bf16"])
    assert found.best is not None
    assert found.best.deployment.replica.formats == "bf16"


def test_listed_prices_take_ones_own_on_top_and_a_chip_without_a_price_is_not_ranked() -> None:
    asked = {"on": "h100,h200,l4", "count": 1, "rate": "1/s", "prompt": 64, "output": 16, "formats": "fp8"}

    def prices(price: Any, **changed: Any) -> dict[str, float]:
        return dict(plan("llama-3-8b", **{**asked, "price": price, **changed}).asked.prices)

    own = {"h100": 2.0, "h200": chip("h200").figure("price").value, "l4": 0.8}
    assert prices("table,h100=2,l4=0.8") == prices(["table", "h100=2", "l4=0.8"]) == own
    assert prices([2, "table", 0.8]) == prices({"table": "table", "h100": "$2", "l4": 0.8}) == own
    assert prices(3) == dict.fromkeys(own, 3.0)
    assert prices(None, prices="table,l4=0.8") == prices("table,l4=0.8")
    found = plan("llama-3-8b", **{**asked, "price": "table,l4=0.8"})
    assert any(each.startswith("price of h100: RunPod on demand, 2026 (https") for each in found.assumptions)
    found = plan("llama-3-8b", **{**asked, "price": "table,h100=2"})
    assert "l4" not in found.asked.prices
    assert [each.is_ranked for each in found.choices] == [True, True, False]
    last, dollars = found.choices[-1], found.choices[0].cost_per_hour
    assert (last.chip, last.cost_per_hour, last.deployment.chips) == ("l4", None, 1)
    said = f"no price of l4 is listed, so it is not ranked: its best is {last.deployment}, which costs less below "
    assert f"{said}${dollars:g} a chip an hour (price='table,l4=…')" in " ".join(str(found).split())
    assert "it would cost less with l4 below" in str(found.why("l4").text)
    assert found.to_dict()["choices"][-1]["is_ranked"] is False
    with pytest.raises(InputError, match="not one price for each of h100, h200: 1 given"):
        plan("llama-3-8b", **{**EIGHT, "price": {"h100": 2.5}})


def test_without_prices_the_answer_says_what_the_cheapest_is_and_what_ranks_otherwise() -> None:
    asked = {"on": "h100,l40s", "count": [1, 2], "rate": "20/s", "prompt": 1000, "output": 300, "formats": "fp8"}
    found = plan("llama-3-8b", **asked)
    said = " ".join(str(found).split())
    assert "cheapest is taken as fewest chips (chip-hours a token), as there are no prices: " in said
    assert "price='table,l40s=…' ranks by dollars, objective='energy' by energy" in said
    with pytest.raises(InputError, match="does not start with a number; expected a price per hour"):
        plan("llama-3-8b", **asked, price="table,l40s=…")
    assert re.fullmatch(r"<Assessment h100:1 fp8, 1 chip: first token [\d.]+ ms, a token [\d.]+ ms>", repr(found.best))
    unlisted = plan("llama-3-8b", **{**asked, "on": "l40s"}, price="table")
    assert (unlisted.asked.objective, unlisted.asked.price_words) == ("chips", "l40s=…")
    assert "as no price of l40s is listed: price='l40s=…' ranks by dollars" in " ".join(str(unlisted).split())
    drawn = plan("llama-3-8b", **asked, objective="energy")
    watts = [each.cost for each in drawn.choices]
    assert watts == sorted(watts)
    assert all(each.cost == each.deployment.chips * {"h100": 700, "l40s": 350}[each.chip] for each in drawn.choices)


def test_a_plan_takes_machines_and_figures_as_a_bound_does() -> None:
    asked = {"count": [1, 2], "rate": "1/s", "prompt": 100, "output": 2000, "formats": "bf16"}
    mine = {"name": "my chip", "bf16": 1e14, "hbm": {"bandwidth": 1e12, "capacity": 32e9}}
    faster = chip("h100", hbm="4 TB/s")
    assert plan("llama-3-8b", on=chip("h100"), **asked).best.cost == plan("llama-3-8b", on="h100", **asked).best.cost
    found = plan("llama-3-8b", on=["h100", faster, mine], **asked)
    names = [each.chip for each in found.choices]
    assert names == ["h100-hbm-4-TB/s", "h100", "mychip"]
    assert found.why("mychip").kind == "beaten"
    assert found.to_pandas()["chip"].tolist() == names
    alone = plan("llama-3-8b", on=faster, **asked).best
    assert alone.per_token == found.best.per_token
    with pytest.raises(InputError, match="'h100:8' is a number of chips"):
        plan("llama-3-8b", on=chip("h100:8"), **asked)


def test_what_is_rejected_is_a_frame_with_the_reason_of_each() -> None:
    found = eight()
    frame = found.to_pandas("rejected")
    assert found.best is not None
    assert str(found.best.deployment) not in set(frame["deployment"])
    groups = {(each.chip, each.formats) for each in found.search.replicas}
    assert len(frame) == len(groups) * len(found.asked.counts) - 1
    for row in frame.iloc[:: max(1, len(frame) // 4)].itertuples():
        reason = found.why(f"{row.chip}:{row.chips} {row.formats}")
        assert reason is not None
        assert (row.reason, row.text) == (reason.kind, reason.text)
    order = [KINDS.index(kind) for kind in frame["reason"]]
    assert order == sorted(order, reverse=True)
    with pytest.raises(InputError, match="no table 'refused'; tables are: choices, rejected"):
        found.to_pandas("refused")


def test_a_plan_says_why_fewer_chips_will_not_do() -> None:
    asked = {"rate": 100, "prompt": 1024, "output": 128, "formats": "bf16"}
    said = str(plan("llama-3-8b", on="h100", count=[1, 2], **asked))
    assert "fewer will not do: h100:1 bf16, serves at most" in said
    assert "fewest; 1 chip would be too slow" in said
    assert "fewer will not do" not in str(plan("llama-3-8b", on="h100", count=2, **asked))
    # where the next smaller number is none of the layout's, one replica less is said too
    asked = {"rate": 60, "prompt": 1024, "output": 128, "formats": "bf16", "tpot": "20ms"}
    found = plan("llama-3-8b", on="v5e", count="1:8", **asked)
    own, several = found.best.deployment, " ".join(str(found).split())
    assert own.replica.chips > 1
    fewer = found.assess(f"v5e:{own.chips - own.replica.chips} bf16")
    assert fewer.reason is not None
    assert f"; {fewer.deployment}, {fewer.reason.text}" in several.partition("fewer will not do")[2]


def test_a_chip_that_will_not_do_stays_beside_others_with_its_nearest_miss() -> None:
    asked = {"rate": 4, "prompt": 1024, "output": 128, "formats": "bf16", "count": [1, 2], "tpot": "11ms"}
    found = plan("llama-3-8b", on="h100,v5e,l4", **asked)
    said = " ".join(str(found).split())
    assert {choice.chip for choice in found.choices} == {"h100"}
    for name in ("v5e", "l4"):
        miss = found.assess(name)
        assert miss.reason is not None
        assert f"{miss.deployment} none will do: {miss.reason.text}" in said


@pytest.mark.long
def test_a_ranking_that_is_undecided_is_said_once_under_the_table() -> None:
    asked = {"rate": 12, "prompt": 1024, "output": 128, "price": {"l40s": 0.9, "a100": 1.3, "h100": 2.69}}
    found = plan("llama-3-8b", on="h100,l40s,a100", count=[1, 2], formats=["bf16", "fp8"], estimate=True, **asked)
    near = [choice for choice in found.choices[1:] if found.is_indistinguishable(choice)]
    said = str(found)
    assert len(near) > 1
    which = f"{len(near)} of the {len(found.choices) - 1} others cost less is undecided"
    assert which in " ".join(said.split())
    assert said.count("≈") == len(near) + 1


@pytest.mark.long
def test_a_plan_by_floors_says_a_prompt_too_long_by_measured_times() -> None:
    """A prompt that takes longer than its limit by itself serves no rate at all."""
    asked = {"rate": "2/s", "prompt": 100_000, "output": 200, "ttft": "1s", "formats": "fp8 kv fp8"}
    found = plan("llama-3.1-8b", on="h100", count=8, **asked)
    assert found.best is not None
    assert "measured on vllm it falls short: TTFT without load" in " ".join(str(found).split())


@pytest.mark.long
def test_the_nearest_smaller_number_that_holds_it_says_why_it_will_not_do() -> None:
    """On 7 chips nothing splits so that it fits; 6 hold it and are too slow."""
    found = plan("llama-3-70b", on="h100", rate=20, prompt=2048, output=256, ttft=0.5, tpot=0.03, formats="bf16")
    assert found.best is not None
    fewer = found.fewer(found.best)
    assert fewer is not None
    assert fewer.reason is not None
    assert (found.best.deployment.chips, fewer.deployment.chips, fewer.reason.kind) == (8, 6, "rate")
    assert "a floor of 8 chips" in str(found)
    assert "fewest; 6 chips would be too slow" in " ".join(str(found).split())


def test_a_plan_by_floors_on_a_chip_without_constants_says_so_first() -> None:
    asked = {"rate": 2, "prompt": 1024, "output": 128, "formats": "bf16", "count": [1]}
    both = " ".join(str(plan("llama-3-8b", on="mi300x,h100", price={"mi300x": 1, "h100": 3}, **asked)).split())
    said = "no step times of mi300x are measured: these are floors alone"
    assert f"{said}, and estimate='vllm' plans without it" in both
    assert f"{said} " in " ".join(str(plan("llama-3-8b", on="mi300x", **asked)).split())
    assert "no step times" not in str(plan("llama-3-8b", on="h100", **asked))


def test_a_quantised_checkpoint_is_tried_with_narrower_keys_and_values_too() -> None:
    """gpt-oss has no format of keys and values of its own; Qwen's checkpoint says fp8 itself."""
    asked: dict[str, Any] = {"on": "b200", "count": 1, "rate": "1/s", "prompt": 1000, "output": 100}

    def tried(model: str) -> list[str]:
        return list(dict.fromkeys(each.formats for each in plan(model, **asked).search.replicas))

    assert tried("gpt-oss-20b") == ["stored", "stored kv fp8", "fp8 kv fp8"]
    assert tried("nvidia--qwen3-235b-a22b-nvfp4") == ["stored", "fp8 kv fp8"]
    found = plan("gpt-oss-20b", **asked)
    said = f"{found.best.deployment.replica.formats} was not asked for: narrower formats change what a model answers"
    assert f"{said}, and formats='stored' keeps them out" in " ".join(str(found).split())
    named = plan("gpt-oss-20b", **asked, formats="stored kv fp8")
    assert "--kv-cache-dtype fp8" in named.settings()["vllm"]
    assert "--quantization" not in named.settings()["vllm"]


@pytest.mark.long
def test_keys_and_values_of_a_quantised_checkpoint_in_fp8_need_fewer_chips() -> None:
    asked: dict[str, Any] = {"on": "l40s", "rate": "1.4/s", "prompt": 30000, "output": 1000, "count": [1, 2]}
    best = [plan("gpt-oss-20b", **asked, formats=each).best.chips for each in ("stored kv fp8", "stored")]
    assert best == [1, 2]
