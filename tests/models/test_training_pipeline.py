"""Training in pipeline stages and microbatches: conservation, waits as a step-by-step run shows, memory, sends."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline
from roofline.cli import main
from roofline.errors import RooflineError
from roofline.models import load
from roofline.models.parallelism.schedules import SCHEDULES
from roofline.models.serving import serve_bound
from roofline.models.training import train
from roofline.models.training.stage import cut
from roofline.sizes import symbol
from tests.models.pipeline_simulation import simulate
from tests.strategies import LONG, for_each, some

SIZES: dict[str, Any] = {"on": "h100:64", "batch_tokens": 2**20, "tensor": 4, "checkpoint": "none", "zero": 1}


def staged(found: Any) -> list[Any]:
    """The stage of each number."""
    return [stage for number in range(found.ways["pipeline"]) for stage in found.stages if number in stage.numbers]


@pytest.mark.parametrize("name", ["llama-2-7b", "mixtral-8x7b", "gpt-2"])
@pytest.mark.parametrize("pipeline", [2, 3, 4])
def test_flops_and_parameters_are_conserved(name: str, pipeline: int) -> None:
    found = train(
        name,
        on="h100",
        batch_tokens=2**16,
        sequence=1024,
        pipeline=pipeline,
        checkpoint="none",
        weights="bf16",
        unfused=True,
        count="full",
    )
    assert sum(stage.bound.flops for stage in staged(found)) == pytest.approx(found.model_flops, rel=1e-12)
    assert found.flops == pytest.approx(found.model_flops, rel=1e-12)
    held = sum(stage.memory.parts["weights"] for stage in staged(found)) / 2
    tied = load(name).vocabulary * load(name).width if load(name).tied else 0
    assert held == found.model.parameters + tied
    assert sum(stage.layers for stage in staged(found)) == len(found.model.layers)


@given(layers=st.integers(4, 40), stages=st.integers(1, 4), chunks=st.integers(1, 3))
def test_every_layer_is_held_once(layers: int, stages: int, chunks: int) -> None:
    class Some:
        pass

    model: Any = Some()
    model.layers = (0,) * layers
    held = cut(model, stages, chunks)
    assert sorted(layer for each in held for layer in each) == list(range(layers))
    pieces = [len(each) for each in held]
    assert max(pieces) - min(pieces) <= chunks


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_waits_are_those_of_a_run(schedule: str) -> None:
    """The step is no longer than the stages run one by one take, and close to it."""
    chunks = 2 if SCHEDULES[schedule].splits else 1
    found = train("llama-3-70b", pipeline=4, schedule=schedule, chunks=chunks, microbatches=16, **SIZES)
    times = []
    for stage in staged(found):
        passes = {"F": 0.0, "B": 0.0, "W": 0.0}
        for part in stage.bound.ops:
            where = part.op.where
            if part.op.repeat == 1 and "optimizer" in where:
                continue
            kind = "W" if where.endswith("weight gradient") else "B" if "gradient" in where else "F"
            passes[kind] += part.times.get("tensor", 0) / 16
        times.append(passes)
    run = simulate(schedule, 4, 16, chunks, times=times)
    assert found.bound.bound_by == "tensor"
    assert found.lower <= run.end * (1 + 1e-9)
    assert found.lower >= run.end * 0.97


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-h2"])
def test_faster_memory_never_slows_stages_whose_waits_are_filled(schedule: str) -> None:
    """Passes that memory binds take a smaller share of a slot where it is faster; the others no larger waits."""
    asked: dict[str, Any] = {
        "on": "h100:16", "batch_tokens": 2**19, "sequence": 1024, "tensor": 2, "pipeline": 4, "zero": 1,
        "microbatches": 4, "schedule": schedule, "policy": "fused",
    }  # fmt: skip
    floors = [train("llama-3-8b", set={"hbm": rate}, **asked).lower for rate in (0.8e12, 1e12, 1.3e12, 1.7e12)]
    assert floors == sorted(floors, reverse=True)


def test_bubbles_shrink_with_better_schedules_and_more_microbatches() -> None:
    at: dict[str, Any] = {"pipeline": 4, **SIZES}
    plain = train("llama-3-70b", microbatches=16, **at)
    finer = train("llama-3-70b", microbatches=64, **at)
    pieces = train("llama-3-70b", microbatches=16, schedule="interleaved", chunks=2, **at)
    filled = train("llama-3-70b", microbatches=16, schedule="zb-h1", **at)
    assert plain.bubble > pieces.bubble > finer.bubble
    assert plain.bubble > filled.bubble
    assert pieces.memory.parts["activations"] > plain.memory.parts["activations"]
    assert train("llama-3-70b", microbatches=16, **{**at, "pipeline": 1}).idle == 0


def test_activations_in_flight() -> None:
    """Stage s of four keeps 4 - s microbatches; GPipe keeps all of them on every stage."""
    kept = {}
    for schedule in ("1f1b", "gpipe"):
        found = train("llama-2-7b", on="h100", batch_tokens=2**17, pipeline=4, schedule=schedule, checkpoint=1)
        kept[schedule] = [stage.memory.parts["activations"] for stage in staged(found)]
    one = 4096 * 4096 * 2 * 8
    assert kept["1f1b"][:3] == [4 * one, 3 * one, 2 * one]
    assert kept["gpipe"][:3] == [32 * one] * 3


def test_hidden_states_sent() -> None:
    """Once forward and once back for each microbatch and boundary, once more for each further piece."""
    for chunks in (1, 2):
        found = train(
            "llama-2-7b", on="h100:4", batch_tokens=2**16, pipeline=4, chunks=chunks,
            schedule="interleaved" if chunks > 1 else "1f1b",
        )  # fmt: skip
        hidden = 4096 * 4096 * 2
        sent = [sum(stage.bound.wire.values()) / (16 * hidden) for stage in staged(found)]
        assert sent == pytest.approx([2 * chunks - 1, *[2 * chunks] * 2, 2 * chunks - 1])


@pytest.mark.parametrize(
    ("on", "stages", "closes"), [("v5e:2x4", 2, False), ("v5e:4x4", 4, False), ("v5e:16x16", 16, True)]
)
@pytest.mark.parametrize("chunks", [1, 2])
def test_links_of_a_torus_carry_states_one_way_and_gradients_the_other(
    on: str, stages: int, closes: bool, chunks: int
) -> None:
    """Every message walked over the links: the busiest direction of a link carries what the fullest stage counts."""
    asked: dict[str, Any] = {"on": on, "pipeline": stages, "microbatches": stages, "batch_tokens": 2**20}
    found = train("llama-2-7b", schedule="interleaved" if chunks > 1 else "1f1b", chunks=chunks, **asked)
    carried = Counter[tuple[int, int]]()
    for stage in range(stages):
        for step, pieces in ((1, chunks - (stage == stages - 1)), (-1, chunks - (stage == 0))):
            end = (stage + step) % stages if closes else stage + step
            if not closes and not 0 <= end < stages:  # back over all links
                step, end = -step, end % stages
            at = stage
            while at != end and pieces:
                to = (at + step) % stages
                carried[at, to] += pieces
                at = to
    sent = [[e.op for e in stage.bound.ops if "pipeline: " in (e.op.where or "")] for stage in staged(found)]
    most = max(sum(op.work.total("wire") * op.repeat / op.dims["bytes"] for op in ops) for ops in sent)
    assert most == pytest.approx(stages * max(carried.values()))
    assert {op.work.total("hops") for ops in sent for op in ops} == {1}


def test_the_next_stage_gets_a_part_the_other_way_round_a_ring() -> None:
    """Nothing is sent back where a model only answers: three quarters go straight on a ring of four, one round it."""
    found = serve_bound("llama-2-7b", "prefill", on="v5p:4x4x4", pipeline=4, microbatches=4, batch=64, prompt=4096)
    sent = [sum(stage.wire.values()) / (4096 * 4096 * 2) for stage in found.stages]
    assert sent == [0.75, 0.75, 0.75, 0]


def test_chips_with_the_same_hidden_state_send_a_part_each() -> None:
    """Megatron-LM's scatter and gather: s·b·h / t between stages, with sequence parallelism or without."""
    sent = []
    for split in (True, False):
        asked: dict[str, Any] = {"on": "h100:16", "tensor": 8, "pipeline": 2, "batch_tokens": 2**16}
        found = train("llama-2-7b", sequence_parallel=split, **asked)
        ops = [each.op for each in found.stages[0].bound.ops if "hidden state sent on" in each.op.where]
        sent.append(sum(op.dims["bytes"] * op.repeat for op in ops))
        said = "8 chips with the same hidden state send a part each to the next stage"
        assert (said in found.bound.assumptions) is not split
    assert sent == [2**16 * 4096 * 2 / 8] * 2


@pytest.mark.parametrize(("zero", "times"), [(0, 2), (1, 2), (2, 5), (3, 12)])
def test_gradient_accumulation(zero: int, times: int) -> None:
    """Four microbatches: as many FLOPs, a quarter of the activations; what is shared goes round for each of them.

    ZeRO 2 shares gradients out for each, and gathers the weights once; ZeRO 3 gathers them twice for each as well,
    those outside the layers once.
    """
    at: dict[str, Any] = {"on": "a100:8", "batch_tokens": 2**19, "zero": zero}
    whole, parts = train("llama-2-7b", **at), train("llama-2-7b", microbatches=4, **at)
    assert parts.bound.flops == pytest.approx(whole.bound.flops)
    assert parts.memory.parts["activations"] == pytest.approx(whole.memory.parts["activations"] / 4)
    moved = times * whole.model.parameters - (4 * (2 * 32000 * 4096 + 4096) if zero == 3 else 0)
    assert sum(parts.bound.wire.values()) == pytest.approx(moved * 2 * 7 / 8)
    assert parts.bound.bytes["hbm"] > whole.bound.bytes["hbm"]


@pytest.mark.parametrize("more", [{}, {"microbatches": 8}, {"zero": 3}])
def test_the_least_chips_fit(more: dict[str, Any]) -> None:
    sizes: dict[str, Any] = {"batch_tokens": 2**21, "pipeline": 4, "tensor": 2, "zero": 1, "checkpoint": "full", **more}
    found = train("llama-3-8b", on="v5p:4x4x4", **sizes)
    assert found.least_chips is not None
    fewest = found.least_chips // 8
    assert found.least_chips % 8 == 0
    for fsdp, fits in ((fewest, True), (fewest - 1, False)):
        alone = {name: size for name, size in sizes.items() if name != "zero" or fsdp > 1}  # one chip shares nothing
        assert fsdp < 1 or train("llama-3-8b", on="v5p", fsdp=fsdp, **alone).memory.fits is fits


@pytest.mark.parametrize(
    ("model", "on", "more"),
    [
        ("qwen3-30b-a3b", "a100", {"batch_tokens": 2**16, "sequence": 1024, "schedule": "zb-h1", "checkpoint": "full"}),
        ("llama-3-8b", "b200", {"batch_tokens": 2**20, "schedule": "gpipe", "checkpoint": "matmuls", "data": 2}),
    ],
)
def test_the_least_chips_are_chips_on_which_the_axes_lie(model: str, on: str, more: dict[str, Any]) -> None:
    """Three chips that share a copy, twice, do not fill a node of eight."""
    found = train(model, on=f"{on}:8", pipeline=2, **more)
    ways = found.least_chips * found.layout.fsdp // found.chips
    assert train(model, on=f"{on}:{found.least_chips}", pipeline=2, **{**more, "fsdp": ways}).memory.fits
    for fewer in range(1, ways):
        chips = found.chips // found.layout.fsdp * fewer
        try:
            fits = train(model, on=f"{on}:{chips}", pipeline=2, **{**more, "fsdp": fewer}).memory.fits
        except RooflineError:
            continue
        assert not fits or (chips > 8 and chips % 8)


def test_utilisation_energy_and_overlap() -> None:
    at: dict[str, Any] = {**SIZES, "checkpoint": "full", "pipeline": 4, "tokens": 10**12}
    found = train("llama-3-70b", power=1000, **at)
    assert found.hfu / found.mfu == pytest.approx(found.flops / found.model_flops)
    assert found.hfu > found.mfu
    assert found.days is not None
    assert found.energy == pytest.approx(found.days * 86400 * 64 * 1000)
    assert train("llama-3-70b", **at).energy == pytest.approx(found.energy * 0.7)
    stated = train("llama-3-70b", microbatches=found.microbatches, **at)
    assert train("llama-3-70b", overlap=1, **at).time == pytest.approx(stated.lower)
    assert train("llama-3-70b", overlap=0, **at).time == pytest.approx(stated.upper)
    half = train("llama-3-70b", overlap=0.5, **at)
    assert half.time == pytest.approx((stated.lower + stated.upper) / 2)
    assert half.mfu < found.mfu


def test_number_equals_array_equals_symbol() -> None:
    at: dict[str, Any] = {"on": "h100:2", "sequence": 512, "pipeline": 2, "microbatches": 16, "checkpoint": "full"}
    letter, plain = symbol("T"), (2**18, 2**19)
    closed = train("gpt-2", batch_tokens=letter, **at)
    many = train("gpt-2", batch_tokens=np.array(plain), **at)
    for index, tokens in enumerate(plain):
        one = train("gpt-2", batch_tokens=tokens, **at)
        assert many.lower[index] == pytest.approx(one.lower, rel=1e-12)
        assert float(closed.lower.subs(letter, tokens)) == pytest.approx(one.lower, rel=1e-12)
        assert many.idle[index] == pytest.approx(one.idle, rel=1e-9)


@pytest.mark.parametrize("policy", ["fused", "each-op", "streamed"])
def test_lists_of_batches_over_stages_are_taken_by_every_byte_policy(policy: str) -> None:
    """Microbatches that follow the batch are a list, too."""
    asked: dict[str, Any] = {"on": "h100:2", "pipeline": 2, "policy": policy, "sequence": 512}
    many = train("gpt-2", batch_tokens=np.array([2**14, 2**15]), **asked)
    alone = [train("gpt-2", batch_tokens=tokens, **asked).op_by_op for tokens in (2**14, 2**15)]
    assert many.op_by_op.tolist() == pytest.approx(alone, rel=1e-12)


@pytest.mark.long
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = "train llama-3-70b --on h100:256 --batch-tokens 4e6 --tensor 8 --pipeline 4 --zero 1 --tokens 15e12"
    assert main(words.split()) == 0
    text = " ".join(capsys.readouterr().out.split())
    for piece in ("waiting for other stages", "1f1b with 122 microbatches", "MWh at 700 W a chip", "of stage 0"):
        assert piece in text


MESSAGES = [
    ("--pipeline 4 --schedule 1f1", "no pipeline schedule '1f1'; did you mean '1f1b'?"),
    ("--pipeline 4 --chunks 2", "1f1b has one piece of the model on each stage; interleaved has several"),
    ("--pipeline 4 --schedule interleaved --microbatches 6", "in rounds of 4, and 6 is no multiple; 8 would do"),
    ("--pipeline 64", "32 layers do not make 64 pieces of a pipeline; at most 32 stages"),
    ("--pipeline 3", "pipeline 3 does not divide the 8 chips of h100:8; a divisor of 8"),
    ("--pipeline 0", "size pipeline is 0"),
    ("--microbatches 0", "size microbatches is 0"),
    ("--power 0 --tokens 1e9", "power 0.0 is not above 0; watts of one chip, as in 700"),
]


@pytest.mark.parametrize(("words", "message"), MESSAGES)
def test_messages(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "llama-2-7b", "--on", "h100:8", "--batch-tokens", "65536", *words.split()]) == 2
    assert message in capsys.readouterr().err


SPLIT: dict[str, Any] = {"on": "h100:64", "pipeline": 8, "tensor": 8, "batch_tokens": 10**6}


def test_lists_of_microbatches_print_a_row_each_with_its_waits() -> None:
    """What print says as time at best is that of `lower`, waits of the pipeline included."""
    counts = [16, 32, 64, 128]
    found = train("llama-3-70b", **SPLIT, microbatches=counts)
    alone = [train("llama-3-70b", **SPLIT, microbatches=count) for count in counts]
    frame = found.to_pandas()
    for name in ("lower", "bubble", "most_mfu", "tokens_per_day", "fits"):
        assert frame[name].tolist() == pytest.approx([getattr(each, name) for each in alone])
    assert frame["memory"].tolist() == pytest.approx([each.memory.total for each in alone])
    assert frame["microbatches"].tolist() == counts
    text = " ".join(str(found).split())
    assert "4 configurations: at best 7.95 s … 10.5 s a step; of those that fit, most tokens a day with" in text
    assert "microbatches 128 microbatches" in text  # the head of the table follows
    assert "10.5 s 28% tensor 65%" in text
    assert "2 of 4 configurations fit 84.9 GB" in text
    assert "sweep()" not in text
    parted = train("llama-3-8b", on="h100:8", batch_tokens=65536, microbatches=[2, 4])
    assert parted.fits.tolist() == [True, False]
    shown = " ".join(str(parted).split())
    assert "2 of 2 configurations fit 84.9 GB 1 of 2 does not run: less than a sequence in a microbatch" in shown
    assert "of those that fit and run, most tokens a day with microbatches 2 " in shown
    assert "less than a sequence" not in text
    none = " ".join(str(train("llama-3-70b", **SPLIT, microbatches=[8, 16])).split())
    assert "DOES NOT FIT: needs 192 GB … 364 GB, hbm has 84.9 GB" in none


@pytest.mark.parametrize("words", ["16,32", "16:32:*2"])
def test_lists_of_microbatches_are_taken_on_the_command_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["train", "llama-3-70b", "--on", "h100:64", "--pipeline", "8", "--tensor", "8", "--batch-tokens", "1e6"]
    assert main([*asked, "--microbatches", words]) == 0
    assert capsys.readouterr().out.strip() == str(train("llama-3-70b", **SPLIT, microbatches=[16, 32])).strip()
    for wrong, said in (("x", "--microbatches 'x' is not a number of parts"), ("0", "size microbatches is 0")):
        assert main([*asked, "--microbatches", wrong]) == 2
        assert said in capsys.readouterr().err
    assert main([*asked, "--microbatches", words, "--search"]) == 2
    assert "--search tries numbers of microbatches; give one" in capsys.readouterr().err


def test_a_pipeline_has_a_table_of_stages_and_an_error_names_every_table() -> None:
    found = train("llama-3-70b", **SPLIT, microbatches=128)
    frame = found.to_pandas("stages")
    assert frame["stage"].tolist() == list(range(8))
    assert frame["layers"].sum() == len(found.model.layers)
    assert frame["memory"].max() == found.memory.total
    assert frame["lower"].max() == found.bound.lower
    with pytest.raises(RooflineError, match="no table 'slices'; tables are: operations, facts, memory, stages"):
        found.to_pandas("slices")
    with pytest.raises(RooflineError, match="no table 'stages'; tables are: operations, facts, memory"):
        train("llama-3-8b", on="h100:8", batch_tokens=2**19).to_pandas("stages")


@pytest.mark.long
def test_a_change_that_costs_nothing_stands_before_other_chips_and_once() -> None:
    found = train("llama-3-70b", **SPLIT, microbatches=32)
    assert found.fitting() == "64 microbatches, in 8.32 s a step; b200 chips, in 3.99 s a step; or 128 such chips"
    changes = [line.change for line in found.advise()]
    assert len(changes) == len(set(changes))


@pytest.mark.long
def test_the_quickest_number_of_microbatches_is_advised_and_no_other_is_quicker() -> None:
    asked = {"on": "h100:64", "tensor": 8, "pipeline": 8, "batch_tokens": 2**17, "sequence": 4096}
    found = roofline.train("llama-3-70b", microbatches=8, **asked)
    (said,) = (line for line in found.advise() if "microbatches" in line.change)
    times = {count: roofline.train("llama-3-70b", microbatches=count, **asked).lower for count in (1, 2, 4, 8, 16, 32)}
    quickest = min(times, key=lambda count: times[count])
    assert (said.change, said.after.lower) == (f"{quickest} microbatches, the quickest number", times[quickest])
    best = roofline.train("llama-3-70b", microbatches=quickest, **asked)
    assert not [line for line in best.advise() if "microbatches" in line.change]
    assert f"the bubble ({found.bubble:.1%})" in str(found)


def test_figures_over_lists_are_of_the_slowest_stage_of_each_entry() -> None:
    """Stages of expert layers are the slowest at some, the one with the head at others; each is as if asked alone."""
    asked: dict[str, Any] = {"on": "h100:16", "pipeline": 16, "batch_tokens": 2**20, "microbatches": 32}
    several = train("deepseek-v3", sequence=np.array([2048, 8192, 32768]), **asked)
    times = np.array([stage.bound.lower for stage in several.stages])
    assert len({*times.argmax(axis=0)}) > 1
    for at, sequence in enumerate((2048, 8192, 32768)):
        one = train("deepseek-v3", sequence=sequence, **asked)
        assert str(several.bound_by.as_names()[at]) == one.bound_by
        for name in ("flops", "lower", "op_by_op", "intensity"):
            assert getattr(several.bound, name)[at] == pytest.approx(getattr(one.bound, name))
        assert {name: pytest.approx(time[at]) for name, time in several.bound.times.items()} == one.bound.times
        assert (several.idle[at], several.exposed[at]) == pytest.approx((one.idle, one.exposed))


def test_an_explanation_adds_the_waits_up_to_the_step() -> None:
    found = train("llama-3-70b", on="h100:64", tensor=8, pipeline=8, batch_tokens="1Mi", microbatches=8)
    line = next(line for line in found.explain().splitlines() if line.startswith("lower bound"))
    assert line == (
        "lower bound = max + waits = 7.95 s + 6.22 s = 14.2 s (tensor binds); "
        "op by op + waits = 11.4 s + 9.25 s = 20.7 s; upper bound = sum + waits = 11.5 s + 9.27 s = 20.7 s"
    )
    assert (found.lower, found.idle) == (pytest.approx(14.17, rel=1e-3), pytest.approx(6.22, rel=1e-3))
    alone = train("llama-3-8b", on="h100:8", fsdp=8, batch_tokens="1Mi")
    assert "waits = " not in alone.explain()


def test_explanations_of_steps_over_stages_have_their_waits() -> None:
    served = roofline.llm("llama-3-70b", on="h100:16", tensor=8, pipeline=2, batch=1, context=4096, prompt=2048)
    lines = [line for line in served.explain().splitlines() if line.startswith("lower bound")]
    assert [line.split(" (")[0].rpartition(" = ")[2] for line in lines] == ["20.7 ms", "5.23 ms"]
    assert all(line.startswith("lower bound = max + waits") for line in lines)
    several = train("llama-3-70b", on="h100:64", tensor=8, pipeline=8, batch_tokens="1Mi", microbatches=[8, 16])
    assert "lower bound = max + waits = 11.1 s … 14.2 s; op by op + waits" in several.explain()


@for_each("seed", some(range(200), 60))
def test_no_stated_number_of_microbatches_is_faster_than_none_stated(seed: int) -> None:
    """Of random models, layouts, schedules and ZeRO stages: few are gathered for less often, many wait less."""
    chance = random.Random(seed)
    model, stages, tensor = chance.choice(("llama-3-8b", "qwen3-30b-a3b", "llama-2-7b")), 4, chance.choice((1, 2))
    order, length = chance.choice(list(SCHEDULES)), chance.choice((1024, 4096))
    asked: dict[str, Any] = {"on": "h100:16", "pipeline": stages, "tensor": tensor, "sequence": length}
    asked |= {"batch_tokens": chance.choice((8, 32, 96)) * 4 * length, "schedule": order}
    asked |= {"zero": chance.choice((1, 2, 3))} if tensor == 1 else {}
    asked |= {"chunks": chance.choice((1, 2))} if order == "interleaved" else {}
    floor = train(model, **asked)
    most, found = int(floor.microbatches), []
    for count in sorted({*(2**power for power in range(8)), most} - ({1, 2} if order == "interleaved" else set())):
        found += [train(model, **asked, microbatches=count)] if count <= most else []
    for time in ("lower", "op_by_op", "upper"):
        assert getattr(floor, time) <= min(getattr(each, time) for each in found) * (1 + 1e-12)
    best = min(each.lower for each in found)
    assert floor.lower > 0.75 * best
    if most < 64:
        more = train(model, **{**asked, "batch_tokens": asked["batch_tokens"] + 4 * length})
        assert more.lower >= floor.lower * (1 - 1e-12)
    assert floor.memory.total == found[-1].memory.total or order == "gpipe"


@pytest.mark.parametrize("order", some(SCHEDULES, 2))
def test_few_microbatches_wait_as_long_as_they_do_where_no_number_is_stated(order: str) -> None:
    """One that is zero-bubble fills its waits with other microbatches, and those of pieces are as many as stages."""
    asked: dict[str, Any] = {"on": "a100:12", "pipeline": 3, "fsdp": 4, "schedule": order, "sequence": 512}
    times = []
    for sequences in (3, 6, 9) if LONG else (3, 6):
        rest = {**asked, "batch_tokens": 4 * 512 * sequences}
        floor = train("qwen3-30b-a3b", **rest).lower
        stated = [
            train("qwen3-30b-a3b", **rest, microbatches=number).lower
            for number in range(1, sequences + 1)
            if order != "interleaved" or number % 3 == 0
        ]
        assert 0.95 * min(stated) <= floor <= min(stated) * (1 + 1e-12)
        times.append(floor)
    assert times == sorted(times)
    said = " ".join(str(train("qwen3-30b-a3b", **rest)).split())
    assert ("and reading weights more than once" in said) is (order not in ("gpipe", "1f1b"))


@pytest.mark.parametrize(("stated", "instead"), [(None, "another schedule"), (4, "fewer microbatches")])
def test_fewer_sequences_than_interleaved_stages_do_not_run(stated: int | None, instead: str) -> None:
    asked: dict[str, Any] = {"on": "h100:4", "pipeline": 4, "schedule": "interleaved", "sequence": 1024}
    found = train("gpt-2", **asked, batch_tokens=1024, microbatches=stated)
    assert found.incomplete[0].startswith("0.25 sequences for each microbatch")
    assert f"modelled; {instead}, shorter sequences" in found.incomplete[0]
    assert str(found).splitlines()[2].startswith("  DOES NOT RUN: 0.25 sequences in a microbatch")


@pytest.mark.parametrize("order", SCHEDULES)
def test_more_sequences_are_no_faster_where_copies_have_unlike_numbers_of_them(order: str) -> None:
    """The smallest microbatch is a sequence; 19 over 10 copies take no longer than 20, of which each has two."""
    asked: dict[str, Any] = {"on": "h100:20", "pipeline": 2, "data": 10, "schedule": order, "sequence": 4096}
    counts = [20, 25, 29, 30, 39, 40, 41, 59, 60]
    alone = [train("llama-3-8b", **asked, batch_tokens=4096 * count).lower for count in counts]
    assert alone == sorted(alone)
    together = train("llama-3-8b", **asked, batch_tokens=[4096 * count for count in counts])
    assert together.lower.tolist() == pytest.approx(alone, rel=1e-12)
    two_each = train("llama-3-8b", **asked, batch_tokens=4096 * 20, microbatches=2)
    assert train("llama-3-8b", **asked, batch_tokens=4096 * 19).lower <= two_each.lower * (1 + 1e-12)


@pytest.mark.long
def test_an_estimate_is_of_the_microbatches_that_memory_is_of() -> None:
    """The floor of any number is no run that somebody could see."""
    asked: dict[str, Any] = {"on": "h100:16", "fsdp": 4, "pipeline": 4, "overlap": 0.5}
    tokens = [2**17, 2**18]
    several = train("llama-3-8b", **asked, batch_tokens=tokens)
    open_size = train("llama-3-8b", **asked, batch_tokens=symbol("T")).estimate
    for row, each in enumerate(tokens):
        found = train("llama-3-8b", **asked, batch_tokens=each)
        stated = train("llama-3-8b", **asked, batch_tokens=each, microbatches=found.microbatches)
        assert found.estimate == stated.estimate > stated.lower >= found.lower
        assert found.memory.total == stated.memory.total
        assert several.estimate[row] == pytest.approx(found.estimate, rel=1e-12)
        assert float(open_size.subs(symbol("T"), each)) == pytest.approx(found.estimate, rel=1e-12)
