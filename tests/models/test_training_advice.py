"""Limits and advice for training: each line is what a fresh answer says, on both sides of it."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.cli import main
from roofline.errors import InputError
from roofline.models import advise_step, serve
from roofline.models.training import train
from roofline.models.training.advice import BUBBLE, advise, again, axis_times, computing, layouts_over_slices, limits
from roofline.models.training.budget import training_memory
from roofline.models.training.step import TrainingQuestion
from roofline.quantity import format_quantity
from roofline.signatures import spelled
from tests.models.test_answers_in_full import drawn
from tests.strategies import some

LAYOUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "fsdp and tensor": (
        "llama-3-70b",
        {"on": "v5p:16x16x16", "batch_tokens": 2**22, "tensor": 4, "checkpoint": "full"},
    ),
    "slices": ("llama-3-8b", {"on": "v5e:16x16:2", "batch_tokens": 2**22, "data": 2, "checkpoint": "full"}),
    "pipeline": ("llama-3-70b", {"on": "h100:256", "batch_tokens": 2**22, "tensor": 8, "pipeline": 4, "zero": 1}),
    "experts": ("mixtral-8x7b", {"on": "h200:64", "batch_tokens": 2**21, "expert": 8, "checkpoint": "full"}),
}


@cache
def laid_out(name: str) -> Any:
    """One of these steps; an answer is not changed, so tests share it."""
    model, arguments = LAYOUTS[name]
    return train(model, **arguments)


@cache
def advice(name: str) -> Any:
    """What is advised for it, once for all tests too."""
    return advise(laid_out(name))


def covered(found: Any, axis: str) -> bool:
    """Whether computing takes longer than every link of an axis."""
    return max(map(float, axis_times(found.bound, axis).values())) <= computing(found.bound)


def test_tokens_that_cover_what_is_gathered_are_those_of_one_microbatch_where_as_many_run_as_fit() -> None:
    """Smaller batches run in fewer microbatches: the line is that of a batch that fits as one, as a fresh answer is."""
    asked: dict[str, Any] = {"model": "llama-3-8b", "on": "h100:8", "sequence": 512}
    found = [roofline.train(batch_tokens=tokens, **asked) for tokens in (2**15, 2**17, 2**20)]
    assert [each.microbatches for each in found] == [1, 2, 16]
    values = [limits(each)[0].value for each in found]
    assert values == pytest.approx([values[0]] * 3)
    assert values[0]
    for share in (1.01, 0.99):
        fresh = roofline.train(batch_tokens=int(share * values[0] * 8), **asked)
        assert covered(fresh, "fsdp") is (share > 1)


@pytest.mark.parametrize(("zero", "sequence", "value"), some([(3, 4096, 261), (3, 1024, 807), (1, 4096, 175)], 2))
def test_tokens_that_cover_what_stages_send_do_not_follow_the_batch(
    zero: int, sequence: int, value: int | None
) -> None:
    """At the floor weights are gathered once a step, however many tokens it has; copies send gradients once."""
    asked: dict[str, Any] = {"on": "h100:8", "pipeline": 2, "tensor": 2 if zero == 1 or sequence > 1024 else 1}
    for tokens in (2**15, 2**17):
        found = train("llama-3-70b", **asked, batch_tokens=tokens, sequence=sequence, zero=zero)
        least = {line.axis: line.value for line in limits(found)}["fsdp"]
        assert (least if least is None else round(least)) == value


@pytest.mark.parametrize("name", some(sorted(LAYOUTS), 2))
def test_limits_hold_on_both_sides(name: str) -> None:
    found = laid_out(name)
    lines = {limit.axis: limit for limit in limits(found)}
    assert set(lines) == {axis for axis, ways in found.ways.items() if ways > 1}
    for axis in {"data", "fsdp"} & set(lines):
        limit = lines[axis]
        assert limit.value
        tokens = limit.value * found.chips
        assert covered(again(found, batch_tokens=int(tokens * 1.01)), axis)
        assert not covered(again(found, batch_tokens=int(tokens * 0.99)), axis)
    if "tensor" in lines:
        limit, both = lines["tensor"], found.ways["tensor"] * found.ways["fsdp"]
        assert limit.value
        inside = again(found, tensor=int(limit.value), fsdp=both // int(limit.value), microbatches=None)
        outside = again(found, tensor=2 * int(limit.value), fsdp=both // 2 // int(limit.value), microbatches=None)
        assert covered(inside, "tensor")
        assert not covered(outside, "tensor")
    if "pipeline" in lines:
        fewest = lines["pipeline"].value
        assert fewest
        bubbles = [again(found, microbatches=int(fewest) - n).bubble for n in (0, 1)]
        assert bubbles[0] <= BUBBLE < bubbles[1]


@pytest.mark.parametrize("tensor", some([1, 2, 4], 2))
def test_copies_run_over_slices_unless_asked(tensor: int) -> None:
    """Gradients cross the slow network once; weights and layers' sums would cross it for every layer."""
    asked: dict[str, Any] = {"on": "v5e:16x16:2", "batch_tokens": 2**19, "tensor": tensor}
    found = train("llama-3-8b", **asked)
    assert (found.ways["data"], found.ways["fsdp"]) == (2, 256 // tensor)
    assert "data 2 runs over the 2 slices" in found.bound.assumptions
    assert found.lower == train("llama-3-8b", **asked, data=2).lower
    others = layouts_over_slices(found)
    assert {line.change.split()[0] for line in others} == {"fsdp", "pipeline"}
    for line in others:
        fresh = train("llama-3-8b", **{**asked, **line.arguments})
        assert fresh.lower == line.after.lower >= found.lower
    whole = train("llama-3-8b", **asked, data=1)
    assert whole.ways["fsdp"] == 512 // tensor
    assert f"fsdp {512 // tensor} runs over the 2 slices" in whole.bound.assumptions
    first = layouts_over_slices(whole)[0]
    assert first.after.lower == found.lower


def test_layouts_over_slices_are_listed() -> None:
    said = drawn(train("llama-3-8b", on="v5e:16x16:2", batch_tokens=2**19, tensor=2), 120)
    assert "over slices  as it is: at best 254 ms" in said
    assert "fsdp over the slices (fsdp 256, tensor 2): at best " in said
    assert layouts_over_slices(train("llama-3-8b", on="v5e:16x16", batch_tokens=2**19)) == ()


def test_what_nothing_covers_is_said() -> None:
    """Tokens to experts and back grow with the batch as computing does: no batch helps where one does not."""
    found = train("deepseek-v3", on="b200:64", batch_tokens=2**20, expert=64, checkpoint="full", zero=1)
    limit = next(limit for limit in limits(found) if limit.axis == "expert")
    assert limit.value is None
    assert not limit.holds
    assert str(limit) == "expert 64: computing covers it at no number of tokens a chip"
    assert not covered(again(found, batch_tokens=2**26), "expert")


@pytest.mark.parametrize("name", some(sorted(LAYOUTS), 2))
def test_each_line_of_advice_is_a_fresh_answer(name: str) -> None:
    (model, arguments), found = LAYOUTS[name], laid_out(name)
    lines = advice(name)
    assert lines
    gains = [line.gain for line in lines if not line.fits]
    assert gains == sorted(gains, reverse=True) or found.memory.fits is False
    for line in lines:
        fresh = train(model, **{**arguments, **line.arguments})
        assert fresh.time == line.after.time
        saves = found.memory.fits is False and fresh.memory.total <= found.memory.total / 2
        assert line.fits or saves or fresh.batch_tokens / fresh.time > found.batch_tokens / found.time
        assert line.after.memory.fits is not False or found.memory.fits is False


@pytest.mark.parametrize(
    ("model", "arguments"),
    some(
        [
            ("mixtral-8x7b", {"on": "h100:64", "batch_tokens": 2**22, "expert": 8}),
            ("llama-3-8b", {"on": "h100:8", "batch_tokens": 2**18, "fsdp": 2, "tensor": 4}),
        ],
        2,
    ),
)
def test_what_a_line_names_is_all_that_changes_where_microbatches_follow_or_fsdp_is_given(
    model: str, arguments: dict[str, Any]
) -> None:
    found = roofline.train(model, **arguments)
    assert found.question.as_fits
    for line in advise(found):
        assert roofline.train(model, **{**arguments, **line.arguments}).time == line.after.time
        shown = "fsdp" in line.arguments and "fsdp" in arguments
        assert (f"fsdp {line.arguments.get('fsdp')}" in line.change) == shown


def test_formats_of_sixteen_bits_that_the_chip_lacks() -> None:
    """Llama 2 is stored in fp16, for which a TPU has no unit; a V100 has none for bf16."""
    found = train("llama-2-7b", on="v5p:4x4x4", batch_tokens=2**16)
    assert {line.change: line.gain for line in advise(found)}["bf16"] > 2
    for chip, dtype, wanted in (("v5p", "fp16", "bf16"), ("v100", "bf16", "fp16")):
        lines = advise_step("llama-2-7b", "prefill", on=chip, prompt=2048, activations=dtype)
        assert (lines[0].change, lines[0].gain > 2) == (f"{wanted} in place of {dtype}", True)
        stored = advise_step("llama-2-7b", "prefill", on=chip, prompt=2048, activations=dtype, weights=dtype)
        assert stored[0].options == {"activations": wanted, "weights": wanted}


@pytest.mark.parametrize("mfu", some([0.4, 0.05, 0.9], 3))
def test_no_line_promises_less_than_its_floor(mfu: float) -> None:
    found = train("llama-3-70b", on="h100:64", batch_tokens=2**17, tensor=8, mfu=mfu)
    for line in advise(found):
        fresh = train(
            "llama-3-70b", **{"on": "h100:64", "batch_tokens": 2**17, "tensor": 8, "mfu": mfu, **line.arguments}
        )
        said = line.to_dict()
        assert said["time_after"] == max(float(fresh.time), float(fresh.lower)) >= fresh.lower
        assert said["memory_after"] == fresh.memory.total
        assert line.effect.split(" → ")[1].startswith(format_quantity(said["time_after"], "s"))


@pytest.mark.parametrize(
    ("chip", "formats"), some([("a100", {"bf16"}), ("v100", {"fp16"}), ("h100", {"bf16", "fp8"})], 2)
)
def test_formats_are_those_the_chip_computes_in(chip: str, formats: set[str]) -> None:
    """GPT-2 is stored in fp32, in which a tensor core does nothing; an A100 has no fp8."""
    lines = advise(train("gpt-2", on=f"{chip}:8", batch_tokens=2**16, sequence=1024))
    assert {line.change for line in lines} & {"bf16", "fp16", "fp8"} == formats
    assert {line.after.bound.bound_by for line in lines if line.change in formats} == {"tensor"}


def test_advice_is_an_answer_with_a_table() -> None:
    advice = train("llama-3-8b", on="h100:8", batch_tokens="1M").advise()
    first = advice[0]
    assert advice.to_dict()["advice"][0] == first.to_dict()
    assert str(advice).splitlines()[2].split()[:3] == [*first.change.split(), f"{first.gain:.2f}x"]
    lists = train("llama-3-8b", on="h100:8", batch_tokens=["1M", "2M"]).advise()
    assert (len(lists), "nothing that was tried helps" in str(lists)) == (0, True)


def test_what_is_said_of_a_step_works_each_changed_step_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits, the best mix and advice ask for many of the same: here for nine of 45."""
    asked: list[str] = []
    answer = TrainingQuestion.answer

    def noted(question: TrainingQuestion) -> Any:
        asked.append(repr([getattr(question, each.name) for each in fields(question) if each.name != "model"]))
        return answer(question)

    monkeypatch.setattr(TrainingQuestion, "answer", noted)
    str(train("llama-3-70b", on="h100:64", batch_tokens=2**20, tensor=8, pipeline=2, microbatches=16))
    assert len(asked) == len(set(asked)) > 30


def test_kinds_of_advice() -> None:
    """What binds decides: narrower arithmetic, fewer operations again, other chips, what makes it fit."""
    said = {line.change for line in advice("pipeline")}
    assert {"fp8", "schedule zb-h1", "b200 chips"} <= said
    again = {
        line.change
        for line in advise(train("llama-3-8b", on="h100:8", batch_tokens=65536, checkpoint="full", overlap=0.5))
    }
    assert {"checkpoint none", "complete overlap"} <= again
    tight = train("llama-3-8b", on="h100:8", batch_tokens=2**18, checkpoint="none")
    assert tight.memory.fits is False
    first = advise(tight)[0]
    assert first.fits
    assert str(first).endswith("a chip: fits")


def test_what_does_not_fit_is_offered_less_memory_and_never_more() -> None:
    """The states of 70 billion parameters alone are more than eight H100 hold: no line fits, and each one says so."""
    large = train("llama-3-70b", on="h100:8", batch_tokens=4 * 10**6)
    lines = advise(large)
    assert {"122 microbatches", "checkpoint full, 122 microbatches", "fp8", "b200 chips"} <= {x.change for x in lines}
    assert not any("checkpoint none" in line.change for line in lines)
    memory = [line.after.memory.total for line in lines]
    assert memory == sorted(memory)
    assert memory[-1] <= large.memory.total
    assert all(str(line).endswith("still does not fit") for line in lines)


def test_where_a_microbatch_is_less_than_a_sequence_no_line_says_that_memory_is_short() -> None:
    lines = advise(train("llama-3-8b", on="h100:64", batch_tokens=2**20, sequence=8192, pipeline=8, microbatches=32))
    assert {line.after.memory.fits for line in lines} == {True}
    assert not any(line.gain < 1 and not line.fits for line in lines)  # less memory is no gain
    ends = {str(line).rpartition(": ")[2] for line in lines}
    assert ends == {"fits", "still does not run"}


def test_the_fewest_microbatches_that_fit_are_offered() -> None:
    asked: dict[str, Any] = {"on": "h100:8", "batch_tokens": 2**18, "checkpoint": "none"}
    lines = advise(train("llama-3-8b", **asked))
    assert lines[0].change == "b200 chips"
    few = next(line for line in lines if "microbatches" in line.change)
    assert few.change == "4 microbatches"
    assert train("llama-3-8b", **asked, microbatches=4).memory.fits
    assert not train("llama-3-8b", **asked, microbatches=2).memory.fits


def test_changes_with_the_same_result_stand_in_one_line() -> None:
    found = train("llama-3-70b", on="v5p:16x16x16", batch_tokens=4 * 10**6, tensor=8, checkpoint="full")
    said = drawn(found, 200)
    assert "h100, h200 or b200 chips: " in said
    assert "checkpoint matmuls or none, tensor 16: " in said
    unfused = {line.change for line in advise(replace(found.question, unfused=True).answer())}
    assert {"checkpoint selective", "checkpoint none"} <= unfused


def test_a_stated_utilisation_above_the_floor_is_said() -> None:
    few = {"on": "h100:8", "batch_tokens": 8192, "sequence": 1024}
    floor = train("llama-3-70b", **few)
    assert floor.most_mfu == floor.mfu < 0.6
    high, low = (train("llama-3-70b", mfu=mfu, **few) for mfu in (0.6, floor.mfu / 2))
    assert high.most_mfu == floor.mfu
    assert f"(it cannot be: the floor allows {floor.mfu:.1%})" in drawn(high, 200)
    assert "it cannot be" not in drawn(low, 200)


def test_advice_at_a_stated_utilisation_above_the_floor_stays_above_the_floor() -> None:
    """The network sets the floor of 3 s, whatever the MFU says: other chips on the same network gain nothing."""
    step = {"on": "h100:64", "batch_tokens": 10**6, "sequence": 4096, "context_parallel": 2, "tensor": 2}
    found = train("minimax-m2.7-nvfp4", mfu=0.4, checkpoint="full", **step)
    assert found.time < found.lower
    lines = {line.change: line for line in advise(found)}
    for line in lines.values():
        said = line.to_dict()
        assert said["time_before"] == found.lower
        assert said["time_after"] >= line.after.lower
        assert said["gain"] <= found.lower / line.after.lower * (1 + 1e-12)
    assert "b200 chips" not in lines
    assert "3 s → 2 s, 1.5x" in str(lines["fp8"])


def test_a_measured_step_says_what_it_reached_and_how_far_it_is_from_the_floor() -> None:
    asked: dict[str, Any] = {"on": "h100:8", "batch_tokens": 65536, "sequence": 8192}
    floor = train("llama-3-8b", **asked)
    middle = (floor.lower + 3 * floor.upper) / 4
    found = train("llama-3-8b", **asked, measured=middle, tokens=10**12)
    assert found.mfu == pytest.approx(found.model_flops / (8 * 989e12 * middle), rel=1e-3)
    assert (found.time, found.lower, found.over_floor) == (middle, floor.lower, middle / floor.lower)
    assert found.to_dict()["fraction"] == found.fraction == floor.lower / middle
    assert found.overlapped == pytest.approx(0.25)
    assert train("llama-3-8b", **asked, overlap=0.25).time == pytest.approx(middle)
    assert found.days == pytest.approx(10**12 / 65536 * middle / 86400)
    assert [line.gain for line in advise(found)] == [line.gain for line in advise(floor)]
    assert found.to_dict()["measured"] == middle
    for measured, said in (
        (middle, "times the floor: as if 25% of the times overlapped"),
        (floor.upper + 1, "times the floor, and 1 s more than where nothing overlaps"),
        (floor.lower / 2, "it cannot be: the floor is"),
    ):
        assert said in drawn(train("llama-3-8b", **asked, measured=f"{measured} s"), 200)
    with pytest.raises(InputError, match="a measured time is of one step"):
        train("llama-3-8b", on="h100:8", batch_tokens=np.array([65536, 131072]), measured=1.0)
    with pytest.raises(InputError, match="mfu and measured both say how long a step takes"):
        train("llama-3-8b", **asked, measured=1.0, mfu=0.4)


def test_what_was_measured_ran_and_its_mfu_stands_first() -> None:
    asked: dict[str, Any] = {"on": "h100:8", "batch_tokens": 10**6}
    ran, floor = (drawn(train("llama-3-8b", **asked, **more), 200) for more in ({"measured": 14.0}, {}))
    order = [
        "MFU 43.5%",
        "2.27 times the floor",
        "DOES NOT FIT as asked: by this layout",
        "step of 1,000,000",
        "faster",
    ]
    assert [ran.index(said) for said in order] == sorted(ran.index(said) for said in order)
    assert ran.count("MFU 43.5%") == 1
    assert "it ran, so give microbatches=, checkpoint= and the layout as they were" in ran
    assert "less memory" not in ran
    less, faster = floor[floor.index("  less memory") :].partition("  assumes")[0].split("  faster  ")
    assert "16 microbatches: 6.16 s as before, 1x" in less
    assert ", 1x, " not in faster
    assert ", 0." not in faster
    assert "fp8: 6.16 s → 3.08 s, 2x" in faster


def test_what_training_holds_says_what_is_not_in_it_and_which_chips_hold_it() -> None:
    held = drawn(training_memory("llama-2-13b", on="a100"), 200)
    assert "208 GB without activations: weights 26 GB" in held
    assert "3 hold it, the smallest target is a100:3: 208 GB are 2.447 times the 85.1 GB of one" in held
    assert "without activations" not in drawn(training_memory("llama-2-13b", on="a100", tokens=10**6), 200)


def test_what_training_holds_on_several_machines_says_what_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "llama-3-8b", "--on", "h100:8,h200:8"]
    assert main([*words, "--memory"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "TrainingMemory" not in said
    assert "one model and machine at a time; or in place of --memory a step with --batch-tokens 4M" in said
    assert main([*words, "--batch-tokens", "4M"]) == 0
    assert "memory" in capsys.readouterr().out


@pytest.mark.long
def test_what_makes_a_step_fit_stands_in_the_first_line() -> None:
    asked = {"on": "h100:64", "batch_tokens": 4 * 10**6, "sequence": 8192, "checkpoint": "none"}
    first = next(line for line in drawn(train("llama-3-8b", **asked), 200).splitlines() if "DOES NOT FIT" in line)
    assert first.endswith("would fit: 4 microbatches, in 3.32 s a step; or 248 such chips")
    assert train("llama-3-8b", **asked, microbatches=4).memory.fits


@pytest.mark.parametrize("more", some([{}, {"checkpoint": "full"}], 2))
def test_where_no_number_of_copies_fits_layers_split_over_more_chips_are_advised(more: dict[str, Any]) -> None:
    found = train("llama-3-8b", on="4090", batch_tokens=4096, **more)
    assert found.least_chips is None
    assert "4090:8, tensor 8" in (found.fitting() or "")
    (line,) = (line for line in found.advise() if "tensor" in line.arguments)
    fresh = train("llama-3-8b", on="4090:8", tensor=8, batch_tokens=4096, **more)
    assert fresh.fits
    assert (line.after.lower, line.after.memory.total) == (fresh.lower, fresh.memory.total)
    assert line.gain == pytest.approx(float(found.lower) / float(fresh.lower) / 8)
    assert f"{line.gain:.3g}x a chip, then network-bound" in line.effect
    assert not train("llama-3-8b", on="4090:4", tensor=4, batch_tokens=4096, **more).fits
    said = " ".join(drawn(found, 200).split())
    assert (
        "with this layout, no number of chips is enough for this batch: each takes a whole sequence, and its part"
        in said
    )
    assert "batch and states fit on 1 such chip at the least" in drawn(train("gpt2", on="h100", batch_tokens=8192), 200)


def test_a_part_of_a_sequence_in_a_microbatch_does_not_run() -> None:
    asked = {"on": "h100:512", "batch_tokens": 4 * 10**6, "sequence": 8192, "fsdp": 512, "microbatches": 4}
    found = train("llama-3-70b", **asked)
    assert found.fits is False
    assert found.incomplete == found.bound.incomplete != ()
    assert found.fitting() == "1 microbatch, checkpoint full, tensor 2, fsdp 256, in 4.76 s a step"
    lines = drawn(found, 200).splitlines()
    assert "  DOES NOT RUN: 0.238 sequences in a microbatch, and a chip takes whole ones" in lines[2]
    assert any(line.endswith("(nic), for what is modelled: see incomplete below") for line in lines)
    asked |= {"microbatches": 1, "checkpoint": "full", "fsdp": 256, "tensor": 2}
    assert train("llama-3-70b", **asked).fits


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "asked", "first"),
    some(
        [
            ("llama-3-8b", {"fsdp": 1, "data": 8}, "data 1, fsdp 8, in 404 ms a step"),
            ("llama-3-70b", {"lora": 16}, "tensor 2, 4 microbatches, in 2.47 s a step"),
        ],
        2,
    ),
)
def test_what_fits_on_the_same_chips_comes_first(model: str, asked: dict[str, Any], first: str) -> None:
    """The layout is one that the search takes for as fast."""
    found = train(model, on="h100:8", batch_tokens=65536, **asked)
    best = roofline.train(model, on="h100:8", batch_tokens=65536, search=True, pipeline=1, lora=asked.get("lora")).best
    said = found.fitting()
    assert said is not None
    assert said.startswith(first)
    (line,) = [line for line in found.advise() if first.startswith(f"{line.change}, in")]
    assert line.after.fits
    assert line.after.lower == pytest.approx(best.lower, rel=0.005)


def test_states_that_no_layout_of_the_chips_holds_are_said() -> None:
    found = train("llama-3-70b", on="h100:8", batch_tokens=65536)
    assert found.least_states == pytest.approx(16 * 70.55e9 / 8, rel=0.001)  # 2 + 2 + 12 bytes a parameter
    said = " ".join(str(found).split())
    assert "weights, gradients and optimizer alone are 141 GB a chip, though all 8 share them: no layout" in said
    assert train("llama-3-8b", on="h100:8", batch_tokens=65536, data=8, fsdp=1).least_states == pytest.approx(
        16 * 8.03e9 / 8, rel=0.001
    )


def test_of_changes_that_take_as_long_by_a_stated_mfu_the_lower_floor_comes_first() -> None:
    found = train("llama-3-8b", on="h100:64", batch_tokens=4 * 10**6, sequence=8192, mfu=0.4)
    first, *others = [line for line in found.advise() if line.fits and "batch_tokens" not in line.arguments]
    floors = [line.after.lower for line in (first, *others) if line.after.time == first.after.time]
    assert first.change == "4 microbatches"
    assert floors == sorted(floors)
    assert floors[0] < floors[-1]


@pytest.mark.parametrize("tokens", [1, 3, 4, 5])
def test_the_least_chips_hold_whole_sequences(tokens: int) -> None:
    asked: dict[str, Any] = {"batch_tokens": tokens * 10**6, "sequence": 8192}
    least = train("llama-3-8b", on="h100:64", **asked).least_chips
    assert least is not None
    assert train("llama-3-8b", on="h100", fsdp=least, **asked).fits
    assert not train("llama-3-8b", on="h100", fsdp=least - 8, **asked).fits


@pytest.mark.long
@pytest.mark.parametrize("tokens", some([10**18, 10**30], 2, 1))
def test_a_batch_of_any_size_is_shown(tokens: int) -> None:
    found = train("llama-3-8b", on="h100:64", batch_tokens=tokens, sequence=8192)
    least = found.least_chips
    assert least is None or least * 8192 <= tokens
    assert "at best" in found.one_line()
    assert found._repr_html_()


def test_no_number_of_chips_holds_less_than_a_sequence() -> None:
    assert train("llama-3-70b", on="h100:512", batch_tokens=4 * 10**6, sequence=8192).least_chips is None


@pytest.mark.long
def test_a_measured_step_is_taken_in_the_microbatches_of_one_that_is_not() -> None:
    asked: dict[str, Any] = {"on": "h100:32", "batch_tokens": "1M"}
    floor, ran = roofline.train("llama-3-8b", **asked), roofline.train("llama-3-8b", **asked, measured="5.2 s")
    assert (ran.microbatches, ran.lower, ran.fits) == (floor.microbatches, floor.lower, True)
    assert ran.microbatches > 1
    said = drawn(ran, 200)
    assert "DOES NOT FIT" not in said
    # 5.2 s less the floor; what nothing overlaps takes above it; the floor at 80% of peak above the floor
    above, apart, slow = (
        5.2 - ran.lower,
        ran.upper - ran.lower,
        ran.lower / ran.bound.machine.units[0].achievable["bf16"].value - ran.lower,
    )
    assert f"of {above:.3g} s above the floor, times that do not overlap explain {apart * 1e3:.0f} ms" in said
    assert f"that was measured explain {slow * 1e3:.0f} ms at most; {above - apart - slow:.3g} s are left" in said
    near = drawn(roofline.train("llama-3-8b", **asked, measured=float(ran.lower) * 1.1), 200)
    assert "are left: slower kernels" not in near


def test_advice_for_a_step_has_the_words_that_advice_has_elsewhere() -> None:
    found = roofline.train("llama-3-8b", on="h100:32", batch_tokens="1M")
    for each in found.advise():
        assert each.more == each.after.batch_tokens / each.before.batch_tokens
        assert each.effect.endswith(each.reason)
        assert ("then " in each.reason) == (each.after.bound.kind != each.before.bound.kind)


def test_memory_by_part_is_a_table() -> None:
    found = roofline.train("llama-3-8b", on="h100:32", batch_tokens="1M")
    frame = found.to_pandas("memory")
    assert dict(zip(frame["part"], frame["bytes"], strict=True)) == dict(found.memory.parts)
    assert frame["bytes"].sum() == pytest.approx(float(found.memory.total))
    assert frame["share"].sum() == pytest.approx(float(found.memory.total) / found.memory.capacity)


def test_products_off_the_matrix_unit_say_the_time_in_a_format_that_it_has() -> None:
    layout: dict[str, Any] = {"on": "v5p:4x4x4", "fsdp": 64, "batch_tokens": 64_000, "sequence": 1000}
    found, other = train("llama-2-13b", **layout), train("llama-2-13b", **layout, weights="bf16")
    after = format_quantity(float(other.lower), "s")
    text = " ".join(drawn(found, 100).split())
    assert f"compute-bound (vpu); {after} with {spelled('weights', 'bf16')}" in text
    assert "of the peak of vpu" in text
    assert "computing is that of vpu: on mxu more must be computed to cover it" in text
    assert limits(other)[0].value > 10 * limits(found)[0].value
    first = advise(found)[0]
    assert (first.arguments, first.after.lower) == ({"weights": "bf16"}, other.lower)
    assert "vpu" not in drawn(other, 100).split("scales")[1].partition("operation")[0]
    served = serve("llama-2-13b", on="v5e", prompt=1024, context=1536, weights="int8")
    prefill = serve("llama-2-13b", on="v5e", prompt=1024, weights="int8", activations="bf16").prefill
    assert prefill is not None
    text, there = " ".join(drawn(served, 100).split()), spelled("activations", "bf16")
    assert f"(vpu); {format_quantity(float(prefill.lower), 's')} with {there}" in text
    assert text.count(f"with {there}") == 1  # the decode step is bound by memory


def test_where_no_chips_are_enough_for_a_batch_a_larger_one_is_dealt_out() -> None:
    more: dict[str, Any] = {"lora": 16, "weights": "nf4", "checkpoint": "full"}
    found = train("llama-3-70b", on="l40s", batch_tokens=2048, sequence=2048, **more)
    said = " ".join(drawn(found, 100).split())
    assert "or l40s:2, 4,096 tokens a step" in said
    fresh = train("llama-3-70b", on="l40s:2", batch_tokens=4096, sequence=2048, **more)
    (line,) = (line for line in found.advise() if "batch_tokens" in line.arguments)
    assert fresh.fits
    assert (line.after.lower, line.after.memory.total) == (fresh.lower, fresh.memory.total)
    longest = int(said.partition("sequences of up to ")[2].partition(" ")[0].replace(",", ""))
    for tokens, fits in ((longest, True), (longest + 1, False)):
        assert train("llama-3-70b", on="l40s", batch_tokens=tokens, sequence=tokens, **more).fits is fits


def test_memory_is_listed_by_stage_of_zero() -> None:
    """By hand, of 16 bytes a parameter: 2 of weights, 2 of gradients, 12 of the optimizer, over 8 chips."""
    held = training_memory(30e9, on="h100:8")
    assert held.by_zero_stage == pytest.approx([30e9 * each for each in (16, 4 + 12 / 8, 2 + 14 / 8, 16 / 8)])
    assert held.by_zero_stage[-1] == held.each
    assert "0: 480 GB, 1: 165 GB, 2: 112 GB, 3: 60 GB each" in drawn(held, 200)
    assert training_memory(30e9, on="h100").by_zero_stage is None
    assert "ZeRO" not in drawn(training_memory(30e9, on="h100"), 200)


@pytest.mark.long
def test_changes_of_a_step_that_fits_in_no_microbatches_take_as_many_as_fit() -> None:
    asked: dict[str, Any] = {"on": "h100:16", "batch_tokens": 4 * 10**6, "checkpoint": 2}
    found = roofline.train("llama-3-70b", **asked)
    assert found.fits is False
    lines = {line.change: line for line in found.advise()}
    for change in ("b200 chips, 8 microbatches", "fp8, 32 microbatches"):
        fresh = roofline.train("llama-3-70b", **{**asked, **lines[change].arguments})
        assert (fresh.fits, fresh.lower) == (True, pytest.approx(lines[change].time_after, rel=1e-12))


def test_advice_under_which_no_chips_share_a_copy_leaves_the_stage_of_zero_out() -> None:
    asked: dict[str, Any] = {"on": "h100:16", "zero": 0, "sequence": 2048, "batch_tokens": 8192}
    line = next(each for each in train("gemma-2-9b", **asked).advise() if each.change == "tensor 16")
    assert line.arguments == {"tensor": 16, "fsdp": 1, "zero": 3}
    assert train("gemma-2-9b", **{**asked, **line.arguments}).lower == line.time_after


@pytest.mark.long
def test_without_a_pipeline_a_step_takes_as_many_microbatches_as_fit() -> None:
    asked: dict[str, Any] = {"on": "h100:16", "batch_tokens": 2**20}
    found = roofline.train("llama-3-8b", pipeline=2, **asked)
    line = next(each for each in found.advise() if each.change == "no pipeline, 8 microbatches")
    fresh = roofline.train("llama-3-8b", **asked)
    assert (fresh.microbatches, fresh.fits, fresh.lower) == (8, True, pytest.approx(line.time_after, rel=1e-12))
