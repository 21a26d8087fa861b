"""Loads that change over a day, engines' settings, and the frontier's corners against its own steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline.cli import main
from roofline.errors import InputError
from roofline.models import load
from roofline.models.serving import serve_bound
from roofline.plans.answer import plan
from roofline.plans.cost import Fleet, Trace
from roofline.plans.load import ServerTimes
from roofline.plans.question import Limits, Load, PlanQuestion
from roofline.plans.replicas import Replica, corners, decode_tends_to, elasticities, unloaded
from tests.strategies import LONG, some

ASKED = ["plan", "llama-3-8b", "--on", "h100", "--count", "1:4", "--prompt", "1024", "--output", "128"]


def test_the_fewest_replicas_are_those_of_each_moment(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    rates = [2.0, 3.5, 11.0, 6.0]
    file.write_text("time,rate\n" + "".join(f"{3600 * n},{rate}\n" for n, rate in enumerate(rates, start=5)))
    trace = Trace.read(str(file))
    assert (trace.peak, trace.mean, trace.seconds) == (11.0, np.mean(rates), 4 * 3600.0)
    fleet = Fleet(trace, "replica", 2, 3.0, 5.0, "floor")
    each = [int(np.ceil(rate / 3.0)) for rate in rates]
    assert [count for _, count in trace.replicas(3.0)] == each
    assert fleet.mean == pytest.approx(np.mean(each))
    assert fleet.steps == [(3.0, 2), (6.0, 3), (9.0, 4)]


def test_times_of_requests_are_gathered(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("time\n" + "".join(f"{n / 2}\n" for n in range(240)))
    trace = Trace.read(str(file))
    assert trace.rates == pytest.approx((2.0, 2.0))
    file.write_text("time,prompt,output\n" + "".join(f"{n / 2},{4000 if n % 10 == 0 else 100},9\n" for n in range(240)))
    uneven = Fleet(Trace.read(str(file)), "replica of h100", 1, 9.0, None, "floor")
    assert (uneven.trace.prompt, uneven.trace.long_prompt) == (490, 4000)
    assert "twenty has 4,000 tokens or more: times are of prompts that all have 490, and" in str(uneven.sections())


@pytest.mark.parametrize("names", ["time,prompt,output", "time,rate"])
def test_further_columns_are_not_read(names: str, tmp_path: Path) -> None:
    values = "1," * names.count(",")
    files = [tmp_path / "plain.csv", tmp_path / "further.csv"]
    for file, more in zip(files, ("", ",id"), strict=True):
        file.write_text(f"{names}{more}\n" + "".join(f"{n},{values[:-1]}{more}\n" for n in range(3)))
    first, second = map(Trace.read, map(str, files))
    assert first == second


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rate\n1\n", "no column time, its first line has rate"),
        ("when;rate\n0;1\n", "has no column time, its first line has when, rate"),
        ("time,rate\n", "no rows below"),
        ("time,rate\n0,fast\n", "line 2: 'fast' is not a number"),
        ("time,rate\n0,1\n0,2\n", "do not rise"),
        ("time,rate\n-1,1\n0,2\n", "a time of -1 s in a trace; seconds from 0 on, in order"),
        ("time,prompt,output\n-1,64,16\n1.5,32,8\n", "a time of -1 s in a trace"),
        ("time,prompt,output\n0,64,16\n1.5,-32,8\n", "a prompt or an answer of -32 tokens in a trace"),
        ("time,rate\n0,0\n", "without requests"),
        ("time,rate\n0,1\n9,-2\n", "a rate of -2 requests/s"),
        ("", "no column time"),
        ("time,prompt\n0,inf\n1,8\n", "'inf' is not a number"),
        ("time,rtae\n0,1\n9,2\n", "no column rate, and one that is unknown: 'rtae'; did you mean 'rate'?"),
        ("time,foo\n0,1\n9,2\n", "unknown: 'foo'; columns are: time, rate, prompt, output"),
        ("time,prompt,outputs\n0,64,8\n", "no column output, and one that is unknown: 'outputs'"),
        ("time,rate,promt\n0,1,64\n", "no column prompt, and one that is unknown: 'promt'; did you mean 'prompt'?"),
        ("time\n0\n1e14\n", "spans 1e\\+14 s of requests"),
    ],
)
def test_what_is_no_trace_is_an_error(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        Trace.read(str(file))


def test_the_command_takes_a_trace_and_gives_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("time,rate\n0,5\n3600,40\n7200,10\n")
    words = [*ASKED, "--rate", str(file), "--tpot", "20ms", "--prices", "h100=2", "--formats", "bf16", "--json"]
    assert main(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["question"]["load"]["rate"] == 40.0
    assert answer["fleet"]["peak_rate"] == 40.0
    assert answer["fleet"]["at_peak"] >= answer["fleet"]["mean"]
    most = answer["choices"][0]["most_sequences"]
    assert f"--max-num-seqs {most}" in answer["settings"]["vllm"]
    assert f"--max-running-requests {most}" in answer["settings"]["sglang"]
    assert f"--max_batch_size {most}" in answer["settings"]["tensorrt-llm"]


def test_corners_are_where_the_line_of_a_step_says() -> None:
    found = plan("llama-3-8b", on=["h100"], count=[1], rate=4, prompt=512, output=128, tpot="8 ms", formats=["fp8"])
    times = unloaded(found.asked, Replica("h100", "fp8"))
    at, model, chip = corners(times), found.asked.model, found.asked.machine("h100")
    one, two = (
        serve_bound(model, "decode", on="h100", batch=n, context=found.asked.load.mean_context, weights="fp8",
                    compute="fp8", activations="bf16") for n in (1, 2)
    )  # fmt: skip
    memory = next(level for level in chip.memories if level.name == "hbm").bandwidth.value
    peaks = next(unit for unit in chip.units if unit.name == "tensor").peaks
    each, flops = two.total_bytes - one.total_bytes, two.flops - one.flops
    weights, room = one.total_bytes - each, flops * memory / peaks["fp8"].value - each
    assert at.within_limit == min(times.most, int((0.008 * memory - weights) / each))
    if room <= 0 or weights / room > times.most:
        assert at.compute_bound_from is None
    else:
        assert at.compute_bound_from == pytest.approx(weights / room, abs=2)
    assert decode_tends_to(times, 1) > times.most / times.step[-1]


@pytest.mark.long
def test_a_break_even_price_makes_two_chips_equal() -> None:
    asked = {
        "on": ["h100", "h200"], "count": [1, 2], "rate": "60/s", "prompt": 1024, "output": 128, "tpot": "20 ms",
        "formats": ["bf16", "fp8"],
    }  # fmt: skip
    found = plan("llama-3-8b", **asked, prices={"h100": 2.5, "h200": 3.1})
    assert {choice.deployment.chips for choice in found.choices} == {1, 2}
    ((name, price),) = found.break_even()
    again = plan("llama-3-8b", **asked, prices={"h100": 2.5, "h200": 3.1, name: price})
    costs = {each.deployment.replica.chip: each.cost for each in reversed(again.choices)}
    assert costs["h100"] == pytest.approx(costs["h200"])
    worth = found.elasticities()
    assert all(-0.02 <= value <= 3 for value in worth.values())
    assert max(worth.values()) > 0.1


@pytest.mark.parametrize(
    ("load_of_it", "limits", "chunk", "tensor", "worthless"),
    some(
        [
            (Load(4, 1024, 64), Limits(per_token=0.015), 512, 2, "nvlink bandwidth"),
            (Load(40, 32, 1), Limits(first_token=0.03), 0, 1, "hbm capacity"),  # a higher peak: more prompts a step
        ],
        2,
    ),
)
def test_a_figure_that_changes_no_time_is_worth_what_a_search_finds(
    load_of_it: Load, limits: Limits, chunk: int, tensor: int, worthless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roofline.plans.replicas.HALVINGS", 10)  # both searches end as they do after 14
    asked = PlanQuestion(load("llama-3-8b"), load_of_it, limits, ("h100",), (tensor,))
    replica = Replica("h100", "bf16", tensor)
    found = elasticities(asked, replica, chunk, 0, 1)
    assert found[worthless] == 0 < 0.5 < max(found.values())
    monkeypatch.setattr(ServerTimes, "takes_as_long_as", lambda *_: False)
    assert elasticities(asked, replica, chunk, 0, 1) == found


def test_a_simulation_stands_beside_the_closed_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--rate", "10/s", "--tpot", "20ms", "--formats", "bf16", "--simulate"]) == 0
    shown = capsys.readouterr().out
    assert "one replica, 4,000 requests at" in shown
    assert "time to first token, p95" in shown


def test_every_peak_that_a_prefill_computes_at_has_its_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Qwen3 as it is stored in fp8 multiplies its matrices in fp8 and attends in bf16."""
    monkeypatch.setattr("roofline.plans.replicas.HALVINGS", 14 if LONG else 8)
    asked: dict[str, Any] = {"on": "h200", "count": 1, "rate": 1, "prompt": 10000, "output": 2, "tpot": "200ms"}
    worth = plan("qwen--qwen3-30b-a3b-fp8", **asked, formats="stored").elasticities()
    peaks = {name: each for name, each in worth.items() if name.endswith("peak")}
    assert list(peaks) == ["bf16 peak", "fp8 peak"]
    assert min(peaks.values()) > 0.3
    assert sum(peaks.values()) == pytest.approx(1.0, abs=0.02)
