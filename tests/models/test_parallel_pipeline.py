"""A pipeline's step against a simulation of its stages, one event after the other."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.cli import main
from roofline.errors import InputError, SizeError
from roofline.models import load, serve, serve_bound, serve_table
from roofline.models.closed_form import model_formula
from roofline.models.parallelism.schedules import any_number
from roofline.models.serving.bound import Pipelined, _ended, _steady
from tests.strategies import for_each, some

TIMES = st.lists(st.integers(1, 20), min_size=1, max_size=6)


def simulated(times: Sequence[Sequence[float]]) -> float:
    """When the last job leaves the last stage: each stage does its jobs in order, each after the stage before."""
    free = [0.0] * len(times)
    end = 0.0
    for job in range(len(times[0])):
        end = 0.0
        for stage, each in enumerate(times):
            free[stage] = end = max(end, free[stage]) + each[job]
    return end


@given(times=TIMES, turns=st.integers(1, 8))
def test_prefill_of_equal_micro_batches(times: list[int], turns: int) -> None:
    assert _steady("prefill", times, turns) == simulated([[time] * turns for time in times])


@given(times=st.lists(st.lists(st.integers(1, 20), min_size=4, max_size=4), min_size=1, max_size=5))
def test_prefill_of_chunks(times: list[list[int]]) -> None:
    assert _ended(times) == simulated(times)


@given(times=TIMES, turns=st.integers(1, 8))
def test_decode_settles_to_one_token_a_cycle(times: list[int], turns: int) -> None:
    """Each micro-batch goes round and round; a stage does whichever comes first."""
    stages, rounds = len(times), 60
    ready = [0.0] * turns
    free = [0.0] * stages
    ends: list[float] = []
    for _ in range(rounds):
        for turn in range(turns):
            now = ready[turn]
            for stage in range(stages):
                now = max(now, free[stage]) + times[stage]
                free[stage] = now
            ready[turn] = now
        ends.append(ready[0])
    assert ends[-1] - ends[-2] == _steady("decode", times, turns)


def staged(name: str, phase: str, **options: Any) -> Pipelined:
    found = serve_bound(name, phase, **options)
    assert isinstance(found, Pipelined)
    return found


OPTIONS: dict[str, Any] = {"on": "h100:8", "tensor": 2, "batch": 32}

MODELS = ("llama-3-70b", "llama-3-8b", "gpt-2", "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b", "qwen3.5-35b-a3b")


@for_each("seed", some(range(300), 80))
def test_no_stated_number_of_micro_batches_is_faster_than_none_stated(seed: int) -> None:
    """Of random models, chips, layouts and sizes; decode has the fastest, and the floor of all is near the best."""
    chance = random.Random(seed)
    model, stages, tensor = chance.choice(MODELS), chance.choice((2, 3, 4, 8)), chance.choice((1, 2))
    ways: dict[str, int] = {"tensor": tensor, "pipeline": stages}
    if load(model).sparsity and chance.random() < 0.3:
        ways, tensor = {"expert": 4, "pipeline": stages}, 4
    asked: dict[str, Any] = {"on": f"{chance.choice(('h100', 'a100', 'b200'))}:{tensor * stages}", **ways}
    batch, length = int(2 ** chance.uniform(0, 7)), int(2 ** chance.uniform(3, 13))
    decoded = {"batch": batch, "context": length}
    best = staged(model, "decode", **asked, **decoded)
    each = [staged(model, "decode", **asked, **decoded, microbatches=n) for n in range(1, min(stages, batch) + 2)]
    assert best.lower == pytest.approx(min(found.lower for found in each), rel=1e-11)
    assert serve_bound(model, "decode", **asked, batch=batch + 1, context=length).lower >= best.lower * (1 - 1e-12)
    sizes = {"batch": batch, "prompt": length}
    floor = staged(model, "prefill", **asked, **sizes)
    counts = [n for n in some((1, 2, 3, 4, 5, 7, 8, 12, 16), 2) if n <= max(batch, length)]
    each = [staged(model, "prefill", **asked, **sizes, microbatches=n) for n in counts]
    for time in ("lower", "op_by_op", "upper"):
        assert getattr(floor, time) <= min(getattr(found, time) for found in each) * (1 + 1e-12)
    assert floor.lower > 0.6 * min(found.lower for found in each)


@given(data=st.data())
def test_no_way_to_deal_out_tokens_is_faster_than_any_number_of_micro_batches(data: st.DataObject) -> None:
    """Micro-batches of any sizes through stages of any speeds, which take no more for each token of a larger one."""
    stages = data.draw(
        st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=5)
    )
    pieces = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=8))
    stages.sort(reverse=True)

    def times(tokens: float) -> list[float]:
        return [max(read, each * tokens) + more * tokens**0.5 for read, each, more in stages]

    every = sum(pieces)
    shares = [(number, times(every / number)) for number in (2, 4)]
    in_order = data.draw(st.permutations(range(len(stages))))
    run = [[times(tokens)[number] for tokens in pieces] for number in in_order]
    assert any_number(times(every), times(1), shares) <= simulated(run) * (1 + 1e-12)


def test_no_number_of_chunks_that_are_counted_in_full_is_faster_than_any_number() -> None:
    """Chunks meet none of the tokens of later ones, so that more of them count fewer pairs."""
    asked: dict[str, Any] = {"on": "h100:2", "pipeline": 2, "prompt": 131072, "count": "full"}
    floor = serve_bound("llama-3-8b", "prefill", **asked).lower
    assert floor <= min(serve_bound("llama-3-8b", "prefill", **asked, microbatches=n).lower for n in (1, 2, 8, 32))


@pytest.mark.parametrize(("model", "least"), some([("llama-3-70b", 1.2), ("qwen3-30b-a3b", 1.1)], 2))
def test_an_estimate_of_any_number_of_micro_batches_is_that_of_one_that_may_be_stated(model: str, least: float) -> None:
    """The floor of any number is no run that somebody could see."""
    batch, asked = np.array([1, 4]), {"on": "h100:4", "tensor": 2, "pipeline": 2, "overlap": 0.5}
    for prompt in some((3, 1000), 2, 1):
        several = serve_bound(model, "prefill", **asked, batch=batch, prompt=prompt)
        for row, each in enumerate(batch.tolist()):
            found = staged(model, "prefill", **asked, batch=each, prompt=prompt)
            numbers = [number for number in (1, 2, 4, 8, 16) if number <= max(each, prompt)]
            stated = [
                staged(model, "prefill", **asked, batch=each, prompt=prompt, microbatches=number).estimate
                for number in numbers
            ]
            assert found.estimate == min(stated) == pytest.approx(several.estimate[row], rel=1e-12)
    assert found.estimate > least * found.lower


@pytest.mark.parametrize(("batch", "numbers"), some([(295, [3, 3, 4]), (8, [2, 2, 2])], 2))
def test_memory_grows_with_sequences_whatever_number_of_micro_batches_is_the_fastest(
    batch: int, numbers: list[int]
) -> None:
    """It is that of as many as stages, which is what fits, too."""
    asked: dict[str, Any] = {"on": "h200:8", "pipeline": 4, "tensor": 2, "weights": "fp8", "context": 21}
    batches = [batch, batch + 1, 2 * batch]
    found = [serve("llama-3-8b", batch=each, **asked) for each in batches]
    stated = [serve("llama-3-8b", batch=each, **asked, microbatches=4).memory.total for each in batches]
    many = serve("llama-3-8b", batch=batches, **asked)
    assert [each.memory.total for each in found] == stated == sorted(stated) == many.memory.total.tolist()
    assert [each.decode.micro_batches for each in found] == numbers == many.decode.micro_batches.tolist()


def test_latency_and_throughput_are_apart() -> None:
    found = staged("llama-3-70b", "decode", pipeline=4, microbatches=4, context=4096, **OPTIONS)
    alone = [stage.lower for stage in found.stages]
    assert found.latency == pytest.approx(sum(alone))
    assert found.lower == pytest.approx(4 * max(alone))
    assert alone.index(max(alone)) == found.slowest == 3
    assert found.lower == pytest.approx(max(found.times.values()))
    one = staged("llama-3-70b", "decode", pipeline=4, micro_batches=1, context=4096, **OPTIONS)
    assert one.lower == pytest.approx(one.latency)
    # each micro-batch reads the weights again: one batch through all is faster for each user
    assert one.lower > found.latency
    assert 32 / found.lower > 32 / one.lower


def test_a_micro_batch_is_a_part_of_the_batch() -> None:
    """A stage's step is that of a model with its layers and a quarter of the batch."""
    found = staged("llama-3-70b", "decode", on="h100:4", pipeline=4, microbatches=4, batch=32, context=4096)
    quarter = serve_bound("llama-3-70b", "decode", on="h100", batch=8, context=4096)
    layers = sum(p.times.get("hbm", 0) for p in quarter.ops if p.op.where.startswith("layers."))
    second = found.stages[1]
    taken = sum(p.times.get("hbm", 0) for p in second.ops if p.op.where.startswith("layers."))
    assert taken == pytest.approx(layers / 4, rel=1e-9)
    assert found.footprint is not None
    held = load("llama-3-70b").cache_bytes(4097, batch=32) / 4
    assert found.footprint.parts["kv"] == pytest.approx(held)


@pytest.mark.parametrize("batch", some([8, 64], 2))
def test_stages_are_cut_by_the_times_of_a_micro_batch(batch: int) -> None:
    """One of a sequence reads few experts, so that the head weighs more: a cut of its own is the fastest."""
    asked: dict[str, Any] = {"on": "v5p:4x2", "pipeline": 4, "balance": "time", "kv": "fp8", "context": 4096}
    alone = staged("llama-4-scout", "decode", batch=batch, **asked)
    for other in (1, 16, 512):
        several = serve_bound("llama-4-scout", "decode", batch=[batch, other], **asked)
        assert alone.lower <= several.lower[0] * (1 + 1e-9)
    assert max(stage.lower for stage in alone.stages) < 1.07 * alone.latency / 4


def test_stages_balanced_by_time_are_no_slower() -> None:
    for name, stages in (("llama-3-8b", 3), ("gpt-2", 5), ("qwen3.5-35b-a3b", 4)):
        options: dict[str, Any] = {"on": f"h100:{stages}", "pipeline": stages, "batch": 64, "context": 500}
        even = staged(name, "decode", **options)
        timed = staged(name, "decode", balance="time", **options)
        assert timed.lower <= even.lower * (1 + 1e-9)
        assert any("the slowest stage is as fast as can be" in line for line in timed.assumptions)


def test_a_prompt_is_cut_into_chunks() -> None:
    """One sequence: chunks follow each other through the stages, each over the ones before it."""
    whole = serve_bound("llama-3-70b", "prefill", on="h100", batch=1, prompt=8000)
    found = staged("llama-3-70b", "prefill", on="h100:4", pipeline=4, microbatches=8, batch=1, prompt=8000)
    assert found.micro_batches == 8
    assert found.flops * 4 == pytest.approx(whole.flops, rel=0.02)
    assert whole.lower / 4 < found.lower < whole.lower / 2
    assert found.op_by_op >= found.lower
    every = staged("llama-3-70b", "prefill", on="h100:4", pipeline=4, batch=1, prompt=8000, logits="all")
    last = staged("llama-3-70b", "prefill", on="h100:4", pipeline=4, batch=1, prompt=8000)
    assert every.flops - last.flops == pytest.approx(2 * 7999 * 128256 * 8192)
    assert found.flops == last.flops  # of 8 chunks one makes an output
    with pytest.raises(SizeError, match="a prompt of 3 tokens makes no 4 chunks; microbatches 3 at most"):
        serve_bound("llama-3-70b", "prefill", on="h100:4", pipeline=4, microbatches=4, batch=1, prompt=3)


def test_arrays_over_stages() -> None:
    batch = np.array([4.0, 32.0, 256.0])
    many = staged("llama-3-70b", "decode", on="h100:4", pipeline=4, batch=batch, context=1000)
    for index, size in enumerate(batch):
        one = staged("llama-3-70b", "decode", on="h100:4", pipeline=4, batch=int(size), context=1000)
        assert many.lower[index] == pytest.approx(one.lower)
        assert many.latency[index] == pytest.approx(one.latency)


def test_arrays_of_prompts_fewer_than_stages() -> None:
    """Those that are cut into chunks and those that are not, in one call: each as a call of its own gives."""
    batch, prompt = np.array([1, 2, 3, 8, 16]), np.array([[64], [1000]])
    asked: dict[str, Any] = {"on": "h100:8", "tensor": 2, "pipeline": 4, "microbatches": 4}
    many = serve_bound("llama-3-8b", "prefill", **asked, batch=batch, prompt=prompt)
    for row, column in np.ndindex(2, 5):
        sizes = {"batch": int(batch[column]), "prompt": int(prompt[row, 0])}
        one = serve_bound("llama-3-8b", "prefill", **asked, **sizes)
        for name in ("lower", "op_by_op", "upper", "flops"):
            assert getattr(many, name)[row, column] == pytest.approx(getattr(one, name), rel=1e-12)
        assert many.footprint is not None
        assert one.footprint is not None
        assert many.footprint.total[row, column] == one.footprint.total
    with pytest.raises(SizeError, match="a prompt of 3 tokens makes no 4 chunks"):
        serve_bound("llama-3-8b", "prefill", **asked, batch=1, prompt=np.array([3, 400]))


@pytest.mark.long
def test_arrays_whose_entries_take_either_way_of_latent_attention() -> None:
    batch, tokens = np.array([1, 8, 64]), np.array([[2], [3000]])
    where: dict[str, Any] = {"on": "h100:32", "tensor": 8, "pipeline": 4, "context": 2000}
    many = serve_bound("deepseek-v3", "decode", **where, batch=batch, tokens=tokens)
    for row, column in np.ndindex(2, 3):
        one = serve_bound("deepseek-v3", "decode", **where, batch=int(batch[column]), tokens=int(tokens[row, 0]))
        assert many.lower[row, column] == pytest.approx(one.lower, rel=1e-12)


@pytest.mark.long
def test_a_table_over_stages_is_single_answers() -> None:
    where: dict[str, Any] = {"on": "h100:4", "pipeline": 4}
    batches = some([1, 2, 100], 2)
    table = serve_table("llama-3-70b", "decode", **where, batch=batches, context=100, columns=("lower", "upper"))
    for row, batch in enumerate(batches):
        one = serve_bound("llama-3-70b", "decode", **where, batch=batch, context=100)
        assert table["lower"][row] == pytest.approx(one.lower, rel=1e-12)
        assert table["upper"][row] == pytest.approx(one.upper, rel=1e-12)
    few = serve_table("llama-3-70b", "prefill", **where, batch=[1, 4], prompt=100)
    each = [serve_bound("llama-3-70b", "prefill", **where, batch=batch, prompt=100).lower for batch in (1, 4)]
    assert few["lower"] == pytest.approx(each, rel=1e-12)
    chunks = {"microbatches": 4, "prompt": 100}
    few = serve_table("llama-3-70b", "prefill", **where, batch=[1, 4], **chunks)
    each = [serve_bound("llama-3-70b", "prefill", **where, batch=batch, **chunks).lower for batch in (1, 4)]
    assert few["lower"] == pytest.approx(each, rel=1e-12)  # one sequence goes over the stages in chunks


def test_the_command_tells_latency_from_throughput(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["llm", "llama-3-70b", "--on", "h100:8", "--tensor", "2", "--pipeline", "4", "--batch", "32"]
    assert main([*words, "--context", "4096"]) == 0
    text = capsys.readouterr().out
    assert "3 micro-batches over 4 stages: each takes" in text
    assert "at least" not in text
    assert main([*words, "--prompt", "100"]) == 0
    text = capsys.readouterr().out
    assert "any number of micro-batches over 4 stages: the smallest takes" in text
    assert text.count("    at least") == 1
    assert "None" not in text
    assert main([*words, "--context", "4096", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parallelism"] == {"chips": 8, "pipeline": 4, "tensor": 2}
    assert len(found["decode"]["pipeline"]["stages"]) == 4
    assert found["tokens_per_second"] == pytest.approx(32 / found["decode"]["lower"])


def test_serving_over_stages() -> None:
    found = serve("llama-3-70b", pipeline=4, prompt=2048, **OPTIONS)
    assert found.decode is not None
    assert found.time_per_token == found.decode.lower
    assert found.memory.fits


def test_parts_of_a_batch_have_one_name_and_the_older_one_is_taken() -> None:
    asked = {"on": "h100:2", "pipeline": 2, "batch": 4, "context": 512}
    new, old = (staged("llama-3-8b", "decode", **{name: 1}, **asked) for name in ("microbatches", "micro_batches"))
    assert new.lower == old.lower
    assert new.micro_batches == 1
    with pytest.raises(InputError, match="there is no argument 'micro_batches'"):
        staged("llama-3-8b", "decode", microbatches=1, micro_batches=1, **asked)


def test_of_several_stages_the_first_that_is_full_counts() -> None:
    """At 16 sequences the last stage, with the head, needs the most; another, with an attention layer, grows faster."""
    asked: dict[str, Any] = {"on": "h200:16", "pipeline": 16, "microbatches": 16, "weights": "fp8", "context": 5000}
    name = "nvidia-nemotron-3-nano-30b-a3b-nvfp4"
    most = serve(name, batch=16, **asked).full_from()
    assert most is not None
    assert [serve(name, batch=batch, **asked).memory.fits for batch in (most, most + 1)] == [True, False]


def test_a_closed_form_is_written_once_for_every_number_of_micro_batches() -> None:
    sizes = {"batch": some([1, 2, 3, 7, 8, 64, 1000], 3), "context": 3000}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("llama-3-70b", {"on": "h100:16", "tensor": 2, "pipeline": 4}),
        ("gpt-oss-20b", {"on": "h100:16", "pipeline": 2, "expert": 8}),
    ]
    for model, layout in some(asked, 2):
        found = model_formula(model, "decode", batch=8, context=3000, **layout)
        stated = model_formula(model, "decode", batch=8, context=3000, microbatches=2, **layout)
        for language in ("python", "javascript", "c"):
            assert len(found.printed(language)) < 1.4 * len(stated.printed(language)), (model, language)
        assert list(found.sizes) == list(stated.sizes)
        program: dict[str, Any] = {}
        exec(found.printed("python"), program)
        for batch, column in zip(sizes["batch"], found(**sizes)["lower"].tolist(), strict=True):
            step = serve_bound(model, "decode", batch=batch, context=3000, **layout)
            assert column == pytest.approx(step.lower, rel=1e-12), (model, batch)
            assert program["bound"](batch, 3000)["lower"] == pytest.approx(step.lower, rel=1e-12), (model, batch)


def test_a_program_of_any_number_of_chips_tries_every_number_of_micro_batches() -> None:
    layout = {"tensor": 2, "pipeline": 4, "context": 3000}
    program: dict[str, Any] = {}
    found = model_formula("llama-3-70b", on="h100:n", **layout)
    assert "hbm binds" in str(found)
    exec(found.printed("python"), program)
    for chips, batch in ((8, 1), (8, 64), (64, 64)):
        step = serve_bound("llama-3-70b", "decode", on=f"h100:{chips}", batch=batch, **layout)
        assert program["bound"](chips, batch, 3000)["lower"] == pytest.approx(step.lower, rel=1e-12), (chips, batch)


@pytest.mark.long
def test_bounds_over_stages_are_written_in_the_times_of_the_stages() -> None:
    known = {"on": "h100:4", "pipeline": 4}
    found = model_formula("gpt-oss-20b", "prefill", batch=4, prompt=2000, **known)
    assert found.definitions
    assert len(found.printed("javascript")) < 60_000
    assert {each.name for each in found.lower.free_symbols} <= {"batch", "prompt", *found.rates}
    for batch, prompt in ((1, 500), (4, 2000), (9, 30000)):
        step = serve_bound("gpt-oss-20b", "prefill", batch=batch, prompt=prompt, **known)
        columns = found(batch=batch, prompt=prompt)
        for name in ("lower", "op_by_op", "upper"):
            assert columns[name] == pytest.approx(getattr(step, name), rel=1e-12), (name, batch)
