"""The fastest training layout against every layout asked by itself."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from roofline.cli import main
from roofline.errors import RooflineError
from roofline.frozen import replace
from roofline.models import train
from roofline.models.serving.llm import llm
from roofline.plans import training
from roofline.plans.answer import plan
from roofline.plans.training import TrainingPlan, search_training
from roofline.quantity import parse
from tests.strategies import some


def times_that_fit(model: str, asked: Mapping[str, Any], layouts: Mapping[str, Sequence[Any]]) -> list[float]:
    """Seconds of each step that fits, over every choice of layouts, by asking for one after another."""
    times = []
    for choice in itertools.product(*layouts.values()):
        try:
            each = train(model, **asked, **dict(zip(layouts, choice, strict=True)))
        except RooflineError:
            continue
        if each.memory.fits:
            times.append(each.time)
    return times


@cache
def of_eight() -> TrainingPlan:
    """All layouts of eight chips; an answer is not changed, so tests share it."""
    return search_training("llama-3-8b", on="h100:8", batch_tokens=65536)


def test_no_layout_that_fits_is_faster() -> None:
    asked = {"on": "h200:4", "batch_tokens": 32768, "sequence": 4096}
    found = search_training("llama-3-8b", **asked, data=1)
    assert found.best is not None
    layouts: dict[str, Sequence[Any]] = {"tensor": (1, 2, 4), "pipeline": (1, 2, 4), "zero": (1, 2, 3)}
    layouts["checkpoint"] = ("none", "selective", "full")
    assert found.best.time == min(times_that_fit("llama-3-8b", asked, layouts))


def test_a_stage_that_sends_less_is_taken_where_its_states_fit() -> None:
    """ZeRO 1 adds gradients up once a step; ZeRO 3 gathers weights for each microbatch too."""
    asked: dict[str, Any] = {"on": "h100:16", "batch_tokens": 2**19, "tensor": 1, "pipeline": 1, "data": 1}
    found = {zero: search_training("llama-3-8b", **asked, zero=zero).best for zero in (1, 2, 3)}
    best = search_training("llama-3-8b", **asked)
    assert best.best.time == min(each.time for each in found.values()) == found[best.best.question.zero].time
    assert best.best.op_by_op == min(each.op_by_op for each in found.values())
    assert f"ZeRO {best.best.question.zero}, checkpoint" in str(best)


@pytest.mark.long
def test_the_options_of_every_row_ask_for_its_step_again() -> None:
    asked = {"on": "h100:64", "batch_tokens": 2**21}
    found = search_training("mixtral-8x7b", **asked, tensor=4)
    rows = [each for each in found.to_dict()["choices"] if each.get("options") and each["kind"] != "fit"]
    assert any(row["options"].get("expert", 1) > 8 and row["bubble"] > 0 for row in rows)
    for choice, row in some(zip(found.fitting, rows, strict=True), 3):
        alone = train("mixtral-8x7b", **asked, **row["options"])
        assert (alone.time, alone.memory.total) == pytest.approx((row["time"], row["memory"]), rel=1e-12)
        named = dict(zip(*[iter(choice.layout.split())] * 2, strict=True))
        assert {name: str(row["options"][name]) for name in named} == named
    assert "--zero 1 --checkpoint" in str(found) or "zero=1, checkpoint" in str(found)


def test_what_is_given_stays(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "llama-3-8b", "--on", "h100:8", "--batch-tokens", "65536", "--search", "--json"]
    assert main([*words, "--tensor", "2", "--checkpoint", "full", "--pipeline", "1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "roofline/train-search/1"
    choices = [each for each in answer["choices"] if each["kind"] != "legal"]
    assert choices
    assert all(each["layout"]["tensor"] == 2 and each["checkpoint"] == "full" for each in choices)


def test_nothing_fits_with_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "llama-3-70b", "--on", "h100:8", "--batch-tokens", "65536", "--search", "--pipeline", "1"]
    assert main(words) == 3
    shown = capsys.readouterr().out
    assert "NOTHING FITS" in shown
    assert "does not fit by" in shown


def test_a_chip_without_a_number_is_laid_out_as_given() -> None:
    one = search_training("qwen3-0.6b", on="h100", batch_tokens=16384)
    assert [(each.answer.chips, each.answer.checkpoint) for each in one.fitting if each.answer] == [(1, "none")]
    assert "h100 has no number of chips: the layout is as given; h100:8 tries those of 8 chips" in str(one)
    given = search_training("llama-3-8b", on="h100", batch_tokens=2**20, fsdp=64, tensor=2)
    assert {each.answer.chips for each in given.choices if each.answer} == {128}
    assert (
        given.best.time == search_training("llama-3-8b", on="h100:128", batch_tokens=2**20, fsdp=64, tensor=2).best.time
    )


def test_no_layout_has_a_fraction_of_a_sequence_for_a_copy() -> None:
    found = search_training("llama-3-8b", on="h100:16", batch_tokens=8 * 4096, data=1, pipeline=1, checkpoint="full")
    assert found.fitting
    for choice in found.choices:
        if choice.answer is not None:
            ways = choice.answer.ways
            assert 8 / (ways["data"] * ways["fsdp"] * ways["expert"] * choice.answer.microbatches) >= 1
    reasons = [each.reason for each in found.choices if each.kind == "legal"]
    assert "0.5 sequences for each microbatch of a copy of the model: none is split over chips" in reasons


@pytest.mark.parametrize(
    ("pipeline", "sequences", "options"),
    some(
        [(1, 5, {"tensor": 2}), (1, 8, {"tensor": 1}), (2, 9, {"tensor": 1}), (4, 7, {"tensor": 1, "weights": "fp8"})],
        4,
    ),
)
def test_no_number_of_microbatches_is_faster(pipeline: int, sequences: int, options: dict[str, Any]) -> None:
    copies = 8 // pipeline // options["tensor"]
    asked = {"on": "h100:8", "batch_tokens": sequences * copies * 4096, "data": 1, "pipeline": pipeline, **options}
    found = search_training("llama-3-8b", **asked, zero=3)
    fits = []
    for policy, number in itertools.product(("none", "selective", "full"), range(1, sequences + 1)):
        each = train("llama-3-8b", **asked, checkpoint=policy, microbatches=number)
        if each.memory.fits:
            fits.append((each.time, number))
    assert found.best is not None
    least = min(time for time, _ in fits)
    assert found.best.time == pytest.approx(least, rel=1e-9)
    assert found.best.microbatches == min(number for time, number in fits if time <= least * (1 + 1e-9))


@pytest.mark.long
def test_microbatches_of_a_mixture_are_tried_at_once() -> None:
    asked = {"on": "b300:8", "batch_tokens": 2**18, "sequence": 4096, "expert": 1, "pipeline": 1}
    found = search_training("mixtral-8x7b", **asked)
    assert found.best is not None
    layouts = {"tensor": (1, 2, 4, 8), "checkpoint": ("none", "selective", "full"), "microbatches": (1, 2, 4, 8)}
    least = min(times_that_fit("mixtral-8x7b", asked, layouts))
    assert least * (1 - 1e-9) <= found.best.time <= 1.01 * least


def test_equally_fast_layouts_are_told_apart() -> None:
    found = search_training("llama-3-8b", on="h100:8", batch_tokens=65536, pipeline=1)
    ties = [each.answer for each in found.fitting if each.answer and each.answer.time < 1.000001 * found.best.time]
    assert len(ties) > 1
    assert [tie.op_by_op for tie in ties] == sorted(tie.op_by_op for tie in ties)
    frame = found.to_pandas()
    assert {"op_by_op", "network", "microbatches", "over the fastest", "lower", "bound_by", "mfu"} <= set(frame.columns)
    assert frame["network"].nunique() > 1


def test_ctrl_c_keeps_the_layouts_that_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    import roofline.plans.training as searching

    real, asked = searching._fastest_that_fits, []

    def some(*given: Any) -> Any:
        asked.append(given)
        if len(asked) > 9:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(searching, "_fastest_that_fits", some)
    found = search_training("llama-3-8b", on="h100:8", batch_tokens=65536)
    assert found.best is not None
    assert found.stopped.startswith("stopped after 9 of 32 layouts")
    assert found.to_dict()["stopped"] == found.stopped


SEARCHED = ["train", "llama-3-8b", "--on", "h100:8", "--batch-tokens", "65536", "--pipeline", "1", "--data", "1"]


def test_a_search_says_the_budget_and_the_step_to_ask_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    budget = ["--tokens", "300B", "--price", "1.5"]
    assert main([*SEARCHED, *budget, "--search"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    _, _, options = said.partition("the step by itself, without --search: ")
    alone = options.partition(" 300B tokens take")[0].split()
    assert main([*SEARCHED, *budget, *alone]) == 0
    step = " ".join(capsys.readouterr().out.split())
    cost = said[said.index("300B tokens take") :].partition(" a chip")[0]
    assert "cost $" in cost
    assert cost in step
    assert main([*SEARCHED, *budget, "--search", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["choices"][0]
    assert first["cost"] == pytest.approx(first["days"] * 24 * 8 * 1.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mfu", "0.4"], "--search compares floors, and --mfu is of one layout"),
        (["--measured", "3 bananas"], "bananas"),
        (["--estimate"], "--search compares floors, and --estimate is of one layout"),
        (["--memory"], "--search and --memory are two answers"),
        (["--on", "a100:8"], "--search is on one machine"),
        (["--expert-exchange", "all-reduce"], "--expert-exchange says nothing of"),
    ],
)
def test_a_search_refuses_what_it_would_drop(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SEARCHED, "--search", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.long
def test_a_measured_step_has_its_mfu_beside_the_layout_and_the_least_op_by_op_its_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = search_training("llama-3-8b", on="h100:8", batch_tokens=65536, measured="3s")
    plain = of_eight()
    assert found.measured.mfu == pytest.approx(plain.best.model_flops / (3 * 8 * 989.4e12), rel=1e-3)
    assert str(found).splitlines()[2].startswith("  MFU 13.3%")
    assert found.best.lower == plain.best.lower
    assert (found.to_dict()["measured"], "measured" in plain.to_dict()) == (3.0, False)
    monkeypatch.setattr("roofline.plans.training.MOST_ROWS", 2)
    least = min(plain.fitting, key=lambda each: each.answer.op_by_op)
    turned = replace(plain, choices=tuple(reversed(plain.fitting)))
    assert (turned.fitting[-1], len(turned.fitting)) == (least, 10)
    assert len(re.findall(r"^  (?:fsdp|tensor|pipeline) .* ms ", str(turned), re.MULTILINE)) == 3


def test_the_fastest_layout_says_what_the_next_pays_more_and_where_overlap_decides() -> None:
    found = search_training("llama-3-70b", on="h100:64", batch_tokens=4_000_000, sequence=8192, tensor=8)
    first, second = found.fitting[:2]
    named = re.search(
        r"takes (\S+ \w+) more \(1\.02x\): (\S+ \w+) of waits for other stages, (\S+ \w+) of stages", found.reasons[0]
    )
    assert named is not None
    more, waits, rest = (parse(text, "s") for text in named.groups())
    assert more == pytest.approx(second.answer.time - first.answer.time, rel=1e-2)
    assert waits == pytest.approx(second.answer.idle - first.answer.idle, rel=1e-2)
    assert waits + rest == pytest.approx(more, rel=1e-2)
    least = min(found.fitting, key=lambda each: each.answer.op_by_op)
    assert least is not first
    assert f"op by op {least.layout} takes the least" in found.reasons[1]
    assert found.reasons[2] == "1.969 sequences on average in each of 31 microbatches: not all are full"
    assert "times are floors" in str(found)
    stated = search_training("llama-3-8b", on="h100:8", batch_tokens=65536, pipeline=1, overlap=0.5)
    assert "times are by the stated overlap and overhead" in str(stated)
    assert "rests on overlap" not in str(stated)


def test_layouts_that_differ_by_rounding_take_as_long() -> None:
    found = search_training("llama-3-8b", on="v5p:4x4", batch_tokens=2**20, pipeline=1, checkpoint="none")
    first, second = (each.answer.time for each in found.fitting[:2])
    assert second == pytest.approx(first, rel=1e-12)
    assert found.reasons[0] == f"the next, {found.fitting[1].layout}, takes as long"


def test_floors_within_one_per_cent_are_ranked_op_by_op() -> None:
    """A microsecond of a step of seconds decides nothing: the layout that needs the least overlap is taken."""
    found = of_eight()
    times = [float(each.answer.time) for each in found.fitting]
    tied = [each for each in found.fitting if float(each.answer.time) <= 1.01 * min(times)]
    assert len(tied) > 1
    assert float(found.best.op_by_op) == min(float(each.answer.op_by_op) for each in tied)
    assert sorted(times[len(tied) :]) == pytest.approx(times[len(tied) :], rel=1e-8)
    assert f"{len(tied)} are within 1%: op by op this takes the least of them" in " ".join(found.reasons)


def test_of_steps_in_a_tie_the_least_op_by_op_comes_first_and_then_the_least_on_the_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training, "_network_time", lambda found: found.on_the_network)
    figures = {"fastest": (1.0, 3.0, 0.0), "tied": (1.009, 2.0, 0.2), "less sent": (1.008, 2.0, 0.1)}
    figures |= {"slower": (1.02, 1.0, 0.0), "slowest": (1.03, 0.5, 0.0)}
    names = ("time", "op_by_op", "on_the_network")
    answers = {name: SimpleNamespace(**dict(zip(names, each, strict=True))) for name, each in figures.items()}
    ranked = training._ranked([SimpleNamespace(name=name, answer=answer) for name, answer in answers.items()])
    assert [each.name for each in ranked] == ["less sent", "tied", "fastest", "slower", "slowest"]


def test_a_figure_that_is_likely_a_slip_is_said_first() -> None:
    """By a search, by a plan, and by a table of batches: each says it once."""
    asked: dict[str, Any] = {"on": "h100", "set": {"hbm": 3.35}}
    for found in (
        search_training("llama-3-8b", batch_tokens=2**20, checkpoint="full", **asked),
        plan("llama-3-8b", rate="2/s", prompt=64, output=8, count=1, formats=["bf16"], **asked),
        llm("llama-3-8b", batch=[1, 2], **asked),
    ):
        lines = str(found).splitlines()
        assert "given hbm.bandwidth is below a thousandth" in lines[2]
        assert str(found).count("below a thousandth") == 1
