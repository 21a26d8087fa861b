"""Mixed steps and chunked prefill: what both parts share runs once, what they do not runs for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import llm
from roofline.bounds.memory import traffic
from roofline.cli import main
from roofline.errors import RooflineError
from roofline.models import chunked, decode, generation, load, mixed, prefill, serve_bound, serve_table
from roofline.models.blocks.encoder import encoder_of
from roofline.models.blocks.feed_forward import touched_experts
from roofline.models.config import _index
from roofline.sizes import symbol
from roofline.work import Op
from tests.strategies import few, some

FILES = sorted({file.removesuffix(".json") for file in _index().values()})
CAUSAL = [name for name in FILES if load(name).causal and encoder_of(load(name)) is None]


def flops(ops: tuple[Op, ...], place: str = "matrix") -> float:
    return sum(op.work.total("flops", place) * op.repeat for op in ops)


def moved(ops: tuple[Op, ...], policy: str = "minimal") -> float:
    return sum(work.total("bytes") * op.repeat for op, work in zip(ops, traffic(ops, policy), strict=True))


@given(name=st.sampled_from(CAUSAL), chunk=st.integers(1, 90), past=st.integers(0, 90), batch=st.integers(1, 40))
@few(20)
def test_arithmetic_is_that_of_both_parts_and_bytes_lie_between(name: str, chunk: int, past: int, batch: int) -> None:
    model = load(name)
    first = prefill(model, prompt=chunk, past=past)
    other = decode(model, batch=batch, context=150)
    both = mixed(model, chunk=chunk, past=past, batch=batch, context=150, last=True)
    for place in ("matrix", "vector"):
        assert flops(both, place) == pytest.approx(flops(first, place) + flops(other, place), rel=1e-12)
    assert max(moved(first), moved(other)) <= moved(both) * (1 + 1e-12)
    assert moved(both) <= (moved(first) + moved(other)) * (1 + 1e-12)


def test_bytes_of_a_dense_model_by_hand() -> None:
    """Matrices and norms once; new keys and values of all tokens, cached ones of each part; rows, numbers, logits."""
    model, token = load("llama-2-7b"), 32 * 2 * 4096 * 2
    ops = mixed(model, chunk=300, past=500, batch=7, context=900)
    matrices = (model.parameters - 32000 * 4096) * 2
    kept = (300 + 7 + 500 + 7 * 900) * token
    beside = (300 + 7) * (4096 * 2 + 4) + 7 * 32000 * 2
    assert moved(ops) == matrices + kept + beside


def test_experts_see_the_tokens_of_both_parts() -> None:
    ops = mixed(load("mixtral-8x7b"), chunk=5, past=10, batch=3, context=20)
    up = next(op for op in ops if op.where.endswith("experts.up_proj"))
    assert up.dims["groups"] == touched_experts(8, 2, 8)
    assert up.dims["m"] == 16


def test_a_chunk_that_does_not_end_its_prompt_makes_no_logits() -> None:
    model = load("llama-3-8b")
    heads = [
        next(op for op in mixed(model, chunk=64, batch=4, context=50, last=last) if op.where == "lm_head")
        for last in (False, True)
    ]
    assert [op.dims["m"] for op in heads] == [4, 5]
    assert not any("lm_head" in op.where for op in prefill(model, prompt=64, logits="none"))


def test_numbers_arrays_and_symbols_agree() -> None:
    sizes: dict[str, Any] = {"chunk": 128, "past": 512, "context": 700}
    for name in some(["deepseek-v3", "llama-3-8b", "mixtral-8x7b"], 2):
        batch = np.array(some([1.0, 5.0, 64.0], 2))
        many = serve_bound(name, "mixed", on="h200", batch=batch, **sizes)
        table = serve_table(name, "mixed", on="h200", batch=batch, columns=("lower", "op_by_op", "memory"), **sizes)
        for i, each in enumerate(batch.astype(int).tolist()):
            one = serve_bound(name, "mixed", on="h200", batch=each, **sizes)
            assert one.footprint is not None
            assert many.lower[i] == pytest.approx(one.lower, rel=1e-12)
            assert table["lower"][i] == pytest.approx(one.lower, rel=1e-12)
            assert table["op_by_op"][i] == pytest.approx(one.op_by_op, rel=1e-12)
            assert table["memory"][i] == pytest.approx(one.footprint.total, rel=1e-12)


def test_a_closed_form() -> None:
    B = symbol("B")
    found = serve_bound("llama-2-7b", "mixed", on="a100", batch=B, chunk=8, context=99, policy="streamed")
    weights = 2 * (6738415616 - 32000 * 4096 - 65 * 4096)
    assert found.bytes["hbm"].expand() == weights + (B * 100 + 8) * 524288


def test_a_mixed_step_split_over_chips() -> None:
    sizes: dict[str, Any] = {"batch": 16, "chunk": 256, "past": 256, "context": 1000}
    alone = serve_bound("llama-3-70b", "mixed", on="h200", **sizes)
    split = serve_bound("llama-3-70b", "mixed", on="h200:8", tensor=8, **sizes)
    assert alone.flops == pytest.approx(split.flops * 8, rel=1e-12)
    reduced = [part.op for part in split.ops if part.op.kind == "collective"]
    assert {op.dims["bytes"] for op in reduced} == {(16 + 256) * 8192 * 2}


def test_copies_each_have_their_part_of_both() -> None:
    """The busiest copy counts; copies that share experts bring their tokens together."""
    sizes: dict[str, Any] = {"chunk": 256, "past": 100, "context": 1000}
    eight = serve_bound("llama-3-8b", "mixed", on="h200:8", batch=17, prompts=8, **sizes)
    one = serve_bound("llama-3-8b", "mixed", on="h200", batch=3, prompts=1, **sizes)
    assert (eight.lower, eight.flops, eight.bytes) == (one.lower, one.flops, one.bytes)
    shared = serve_bound("mixtral-8x7b", "mixed", on="h200:8", expert=8, batch=16, prompts=8, **sizes)
    up = next(part.op for part in shared.ops if part.op.where.endswith("experts.up_proj"))
    assert up.dims["groups"] * 8 == pytest.approx(touched_experts(8, 2, 16 + 8 * 256))
    assert up.dims["m"] == pytest.approx((16 + 8 * 256) * 2 / 8)


def test_what_is_not_modelled_is_said() -> None:
    for ways in ({"pipeline": 2}, {"context_parallel": 2}):
        with pytest.raises(RooflineError, match="a mixed step over the stages of a pipeline or the parts of sequences"):
            serve_bound("llama-3-8b", "mixed", on="h200:2", chunk=8, context=8, batch=2, **ways)


# ---- a prompt in chunks


@pytest.mark.parametrize("name", ["llama-3-8b", "gpt-oss-20b", "deepseek-v3", "qwen3-32b"])
def test_a_chunk_without_output_gives_back_keys_and_values_alone(name: str) -> None:
    """The hidden states of its tokens are read by no one: what it moves less is what makes output, and nothing more."""
    ways: dict[str, Any] = {"on": "h200:8", "tensor": 8, "prompt": 256, "past": 512}
    some, none = (serve_bound(name, "prefill", logits=logits, **ways) for logits in ("last", "none"))
    moved = {each.op.where: each.bytes for each in none.ops}
    for each in some.ops:
        if each.op.where in moved:
            assert each.bytes == moved[each.op.where], each.op.where
    each_op = [serve_bound(name, "prefill", logits="none", policy=policy, **ways) for policy in ("minimal", "each-op")]
    assert each_op[0].total_bytes < each_op[1].total_bytes


def test_chunks_load_weights_and_the_cache_again() -> None:
    """Each chunk but the first adds the matrices once more, and reads what is cached before it."""
    sizes: dict[str, Any] = {"on": "a100", "policy": "streamed"}
    whole = serve_bound("llama-2-7b", "prefill", prompt=1000, **sizes)
    steps = [
        serve_bound("llama-2-7b", "prefill", prompt=250, past=past, logits="last" if past == 750 else "none", **sizes)
        for past in (0, 250, 500, 750)
    ]
    layers = 2 * (6738415616 - 2 * 32000 * 4096 - 65 * 4096)
    again = sum(sum(step.bytes.values()) for step in steps) - sum(whole.bytes.values())
    assert again == 3 * layers + (250 + 500 + 750) * 524288
    assert sum(step.flops for step in steps) == whole.flops
    found = chunked("llama-2-7b", prompt=1000, chunk=250, **sizes)
    assert found.moved - found.whole_moved == again
    assert found.times_at_worst == pytest.approx(sum(step.upper for step in steps) / whole.upper, rel=1e-12)
    assert "more: weights and earlier keys again for each" in found.said


@pytest.mark.parametrize(("name", "beside"), [("llama-3-8b", {}), ("deepseek-v3", {"batch": 3, "context": 900})])
def test_chunks_are_priced_as_each_step_is(name: str, beside: dict[str, Any]) -> None:
    """All chunks but the last are priced at once, and give to the last bit what one step after the other does."""
    asked: dict[str, Any] = {"on": "h200:8", "tensor": 8}
    found = chunked(name, prompt=500, chunk=120, past=40, **beside, **asked)
    steps = []
    for past in range(0, 500, 120):
        new, last = min(120, 500 - past), past + 120 >= 500
        if beside:
            steps.append(serve_bound(name, "mixed", chunk=new, past=40 + past, last=last, **beside, **asked))
        else:
            logits = "last" if last else "none"
            steps.append(serve_bound(name, "prefill", prompt=new, past=40 + past, logits=logits, **asked))
    assert found.times == tuple(step.lower for step in steps)
    assert found.binds == tuple(step.bound_by for step in steps)
    needed = [step.footprint.total for step in steps if step.footprint]
    assert found.memory is not None
    assert found.memory.total == max(needed) > needed[-1]  # the last chunk is short


@given(prompt=st.integers(1, 700), chunk=st.integers(1, 900), batch=st.integers(0, 20))
@few(8)
def test_chunks_are_the_steps_they_say(prompt: int, chunk: int, batch: int) -> None:
    sizes: dict[str, Any] = {"batch": batch, "context": 500} if batch else {}
    found = chunked("llama-3-8b", on="h100", prompt=prompt, chunk=chunk, **sizes)
    size = min(prompt, chunk)
    assert found.steps == -(-prompt // size)
    assert found.time_to_first_token >= found.whole * (1 - 1e-12)
    assert found.longest_step >= found.mean_step >= min(found.times)
    if found.steps > 1:
        before = size * ((found.steps - 1) // 2)
        how: dict[str, Any] = {"chunk": size, **sizes} if batch else {"prompt": size, "logits": "none"}
        middle = serve_bound("llama-3-8b", "mixed" if batch else "prefill", on="h100", past=before, **how)
        assert found.times[before // size] == pytest.approx(middle.lower, rel=1e-12)
        assert found.binds[before // size] == middle.bound_by
    if batch:
        assert found.alone is not None
        assert min(found.times) >= found.alone * (1 - 1e-12)
        last = {"chunk": prompt - size * (found.steps - 1), "past": size * (found.steps - 1), "last": True}
        one = serve_bound("llama-3-8b", "mixed", on="h100", **sizes, **last)
        assert found.times[-1] == pytest.approx(one.lower, rel=1e-12)


def test_one_chunk_without_others_is_a_prefill() -> None:
    found = chunked("llama-3-8b", on="h100", prompt=512, chunk=4096)
    assert found.times == (found.whole,)
    assert found.alone is None


MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"chunk": 0}, "size chunk is 0"),
    ({"chunk": 8, "batch": 4}, "sequences that decode need a context"),
    ({"chunk": 8, "logits": "all"}, "a chunked prefill gives the last token alone"),
    ({"chunk": [8, 16]}, "size chunk has several values; give one"),
    ({"chunk": 8, "batch": [1, 2], "context": 9}, "size batch has several values; give one"),
    ({"chunk": 8, "batch": 4, "context": [9, 10]}, "size context has several values; give one"),
    ({"chunk": 8, "past": [9, 10]}, "size past has several values; give one"),
    ({"chunk": 1, "prompt": 10**12}, "a prompt in chunks of 1,000,000,000,000 steps, and at most 2,000,000 are timed"),
    ({"chunk": 8, "form": "fast"}, "no form 'fast' of a bound; forms are: lower, op_by_op, upper"),
]


@pytest.mark.parametrize(("arguments", "message"), MESSAGES)
def test_messages(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RooflineError) as caught:
        chunked("llama-2-7b", **{"on": "h100", "prompt": 64, **arguments})
    assert message in str(caught.value)


def test_an_answer_longer_than_anything_is_not_timed_step_by_step() -> None:
    with pytest.raises(RooflineError, match="an output of 1,000,000,000,000 tokens, and at most 2,000,000 are timed"):
        generation("llama-2-7b", on="h100", prompt=64, output=10**12)
    with pytest.raises(RooflineError, match="size past has several values; give one"):
        generation("llama-2-7b", on="h100", prompt=64, output=9, past=[8, 16])


@pytest.mark.parametrize("option", [{"chunk": 8}, {"draft": 4, "accept": 0.8}])
def test_further_answers_are_about_one_configuration(option: dict[str, Any]) -> None:
    with pytest.raises(RooflineError, match=r"is about one configuration; give (past|context)= one value"):
        llm("llama-2-7b", on="h100", prompt=64, past=[8, 16], **option)
    with pytest.raises(RooflineError, match=r"is about one configuration; give (prompt|context)= one value"):
        llm("llama-2-7b", on="h100", prompt=[64, 65], past=8, **option)


@pytest.mark.parametrize("sizes", some([{"batch": [1, 8]}, {"prompt": [64, 65], "past": 8}, {"past": [8, 16]}], 2))
def test_whole_answers_at_several_sizes_are_asked_at_each(sizes: dict[str, Any]) -> None:
    """One machine answers as several do: a comparison a size, each that of the size asked alone."""
    asked = {"prompt": 64, "output": 8} | sizes
    several = next(name for name, value in sizes.items() if isinstance(value, list))
    found, both = (llm("llama-2-7b", on=on, **asked) for on in ("h100", ["h100", "h200"]))
    assert [one.names for one in found.each] == [("h100",)] * 2
    for value, one, two in zip(sizes[several], found.each, both.each, strict=True):
        alone = llm("llama-2-7b", on="h100", **{**asked, several: value})
        assert one.answers[0].further["generation"].total == alone.further["generation"].total
        assert one.facts[one.headline][0] == two.facts[one.headline][0]
    assert "best of its row" not in str(found)
    assert "lowest floor" not in str(found)
    assert "best of its row" in str(both)


def test_fewest_chips_without_a_step_are_no_comparison_over_sizes() -> None:
    with pytest.raises(RooflineError, match="answers of this kind do not compare; give context='8k' or prompt='8k'"):
        llm("llama-3-8b", on="h100", batch=[8, 16], fit=True)


def test_sizes_that_are_texts_in_a_list_are_read_as_numbers() -> None:
    asked: dict[str, Any] = {"on": ["h100", "h200"], "prompt": 64}
    said = [str(llm("llama-2-7b", batch=batch, **asked)) for batch in (["1", "1k"], [1, 1000])]
    assert said[0] == said[1]


def test_whole_answers_at_several_sizes_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["llm", "llama-2-7b", "--on", "h100", "--batch", "1,8", "--prompt", "64", "--output", "8"]
    assert main([*words, "-o", str(tmp_path / "x.svg")]) == 0
    assert "whole answers at best over batch" in (tmp_path / "x.svg").read_text()
    assert main([*words, "--view", "memory"]) == 2
    assert "--view is of one step, and several sizes are given" in capsys.readouterr().err


def test_a_mixed_step_says_what_it_needs() -> None:
    with pytest.raises(RooflineError, match="mixed needs chunk="):
        serve_bound("llama-2-7b", "mixed", on="h100", context=8)
