"""Whole answers, speculative decoding, servers apart, cost: each against steps asked one by one, or a simulation."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline
from roofline.errors import InputError, RooflineError
from roofline.models import (
    answer_rate,
    disaggregate,
    expected_tokens,
    generation,
    load,
    serve_bound,
    servers_ratio,
    speculate,
    token_cost,
)
from roofline.models.serving.speculation import prediction_layer
from roofline.quantity import format_quantity
from tests.strategies import few, some

# ---- whole answers


@pytest.mark.parametrize("name", some(["llama-3-8b", "mixtral-8x7b", "gpt-oss-20b"], 3, 1))
def test_an_answer_is_the_sum_of_its_steps(name: str) -> None:
    prefill = serve_bound(name, "prefill", on="h200", batch=3, prompt=100)
    bounds = [serve_bound(name, "decode", on="h200", batch=3, context=100 + i) for i in range(39)]
    for form in ("lower", "op_by_op", "upper"):
        found = generation(name, on="h200", batch=3, prompt=100, output=40, form=form)
        first, steps = getattr(prefill, form), [getattr(step, form) for step in bounds]
        assert found.time_to_first_token == pytest.approx(first, rel=1e-12)
        assert found.total == pytest.approx(first + sum(steps), rel=1e-12)
        assert found.mean_time_per_token == pytest.approx(sum(steps) / 39, rel=1e-12)
        assert (found.first_step, found.last_step) == pytest.approx((steps[0], steps[-1]), rel=1e-12)
        assert found.tokens_per_second == pytest.approx(120 / (first + sum(steps)), rel=1e-12)


def test_memory_at_the_end_and_an_answer_of_one_token() -> None:
    found = generation("llama-2-7b", on="a100", batch=2, prompt=1000, output=500)
    assert found.memory.parts["kv"] == load("llama-2-7b").cache_bytes(1499, batch=2)
    one = generation("llama-2-7b", on="a100", prompt=1000, output=1)
    assert one.mean_time_per_token is None
    assert one.total == one.time_to_first_token


def test_an_answer_after_a_cached_prefix() -> None:
    found = generation("llama-2-7b", on="a100", prompt=100, past=900, output=3)
    assert found.time_to_first_token == serve_bound("llama-2-7b", "prefill", on="a100", prompt=100, past=900).lower
    assert found.first_step == serve_bound("llama-2-7b", "decode", on="a100", context=1000).lower


def test_a_context_that_prefill_has_passed_is_of_other_sequences() -> None:
    """Decode stays at the context that was asked for, and says whose it is."""
    asked = {"on": "h100", "past": 8000, "prompt": 1000}
    said = "decode of other sequences: 4,000 tokens of context are fewer than the 9,000 that prefill leaves"
    assert said in (shorter := roofline.llm("llama-3-8b", context=4000, **asked)).assumptions
    assert shorter.decode.sizes["context"] == 4000
    for context in (None, 9000, 16000):
        assert "other sequences" not in str(roofline.llm("llama-3-8b", context=context, **asked).assumptions)


def test_an_answer_beyond_what_the_model_was_trained_on() -> None:
    found = generation("llama-2-7b", on="a100", prompt=4000, output=100)
    shorter = generation("llama-2-7b", on="a100", prompt=4000, output=97)
    assert found.last_step > shorter.last_step
    with pytest.raises(RooflineError, match="size batch has several values"):
        generation("llama-2-7b", on="a100", prompt=10, output=10, batch=[1, 2])  # type: ignore[arg-type]


def test_answers_and_contexts_beyond_what_the_model_was_trained_on_are_said_in_every_answer() -> None:
    ask = roofline.llm
    says = "sequences of 4,500 tokens are longer than the 4,096 that llama-2-7b was trained on"
    for on in ("h100", "h100,h200"):
        assert says in " ".join(str(ask("llama-2-7b", on=on, prompt=4000, output=500)).split())
        assert "longer than" not in str(ask("llama-2-7b", on=on, prompt=4000, output=96))
    beside = " ".join(str(ask("llama-2-7b", on="h100,h200", context=2000, fit=True)).split())
    assert "of the longest context: the model was trained on 4,096" in beside
    short = str(ask("llama-3-8b", on="a100-40gb", batch=16, fit=True))
    assert short.startswith("llama-3-8b (Meta-Llama-3.1-8B)  in memories of")
    assert "was trained on" not in short


# ---- speculative decoding


@given(length=st.integers(0, 12), acceptance=st.floats(0, 1))
@few(30)
def test_expected_tokens_add_up(length: int, acceptance: float) -> None:
    """The i-th drafted token comes out where it and all before it hold; the model's own token always does."""
    assert expected_tokens(length, acceptance) == pytest.approx(
        sum(acceptance**i for i in range(length + 1)), rel=1e-6, abs=1e-9
    )


def test_expected_tokens_need_a_probability() -> None:
    with pytest.raises(InputError, match="an acceptance of 4 is no probability"):
        expected_tokens(0.8, 4)  # the other way round


def test_expected_tokens_by_drawing() -> None:
    draw, rounds, count = random.Random(7), 40_000, 0
    for _ in range(rounds):
        accepted = 0
        while accepted < 5 and draw.random() < 0.7:
            accepted += 1
        count += accepted + 1
    assert count / rounds == pytest.approx(expected_tokens(5, 0.7), rel=0.01)


def test_a_draft_is_its_steps_and_a_check_of_all_its_tokens() -> None:
    found = speculate(
        "llama-3-70b", on="h200:8", tensor=8, context=2000, acceptance=0.7, draft=3, by="llama-3-8b", batch=4
    )
    where: dict[str, Any] = {"on": "h200:8", "tensor": 8, "batch": 4}
    steps = [serve_bound("llama-3-8b", "decode", context=2000 + i, **where).lower for i in range(3)]
    check = serve_bound("llama-3-70b", "decode", context=2000, tokens=4, **where).lower
    plain = serve_bound("llama-3-70b", "decode", context=2000, **where).lower
    assert found.asked.drafting == pytest.approx(sum(steps), rel=1e-12)
    assert found.asked.checking == check
    assert found.speedup == pytest.approx(plain * expected_tokens(3, 0.7) / (sum(steps) + check), rel=1e-12)


def test_prediction_layers_draft_on_no_stages_of_a_pipeline() -> None:
    layout = {"on": "h200:16", "tensor": 8, "pipeline": 2, "batch": 8, "context": 4096}
    with pytest.raises(InputError, match="stand on the last stage of a pipeline alone, and a draft there is not mod"):
        speculate("deepseek-v3", by="mtp", draft=1, acceptance=0.8, **layout)


def test_a_draft_at_several_batches_is_that_of_each() -> None:
    asked: dict[str, Any] = {"on": "h100:4", "tensor": 4, "context": 8000}
    draft = {"draft": 4, "draft_by": "llama-3-8b", "accept": 0.7}
    found = roofline.llm("llama-3-70b", **asked, **draft, batch=[1, 64])
    several = found.further["speculations"]
    for each in several.each:
        alone = roofline.llm("llama-3-70b", **asked, **draft, batch=each.batch).further["speculation"]
        assert each.to_dict() == alone.to_dict()
    said = " ".join(str(found).split())
    first, last = (each.speedup for each in several.each)
    assert f"with drafts of 4: {first:.2f} times as fast at batch 1, {last:.2f} times as fast at batch 64" in said
    assert several.each[1].fits is False
    assert "WHERE IT DOES NOT FIT" in said
    assert [each["batch"] for each in found.to_dict()["speculations"]["batches"]] == [1, 64]
    with pytest.raises(InputError, match="a cost with draft= is that of one batch"):
        roofline.llm("llama-3-8b", on="h100", context=8000, draft=4, accept=0.7, batch=[1, 64], price=2)


def test_a_model_drafts_in_its_own_formats_or_in_those_asked_for() -> None:
    asked: dict[str, Any] = {"on": "a100", "context": 5, "acceptance": 0.8, "draft": 1, "by": "llama-2-7b"}
    for wanted, stored in ((None, "fp16"), ("int4", "int4")):
        found = speculate("llama-2-70b", **asked, weights="int4", draft_weights=wanted)
        alone = serve_bound("llama-2-7b", "decode", on="a100", context=5, weights=stored)
        assert found.asked.drafting == alone.lower
        assert found.by == ("llama-2-7b in int4" if wanted else "llama-2-7b")


@pytest.mark.parametrize("batch", some([1, 64, 512], 2))
@pytest.mark.parametrize("acceptance", [0.0, 0.5, 0.9, 1.0])
def test_the_best_draft_is_the_best_of_all(batch: int, acceptance: float) -> None:
    found = speculate(
        "llama-3-8b", on="h200", context=500, acceptance=acceptance, draft=2, by=0.05, batch=batch, longest=12
    )
    times = [draft.time_per_token for draft in found.drafts]
    assert found.best.time_per_token == min(times)
    assert found.best_speedup >= 1
    assert len(found.drafts) == 13
    if acceptance == 0:
        assert found.best.length == 0
        assert found.speedup < 1


def test_drafts_end_where_the_context_does() -> None:
    found = speculate("llama-2-7b", on="h200", context=4090, acceptance=0.9, draft=2, by=0.1)
    assert len(found.drafts) == 6
    assert speculate("llama-2-7b", on="h200", context=4090, acceptance=0.9, draft=20, by=0.1).asked.length == 20
    assert len(speculate("llama-2-7b", on="h200", context=5000, acceptance=0.9, draft=2, by=0.1).drafts) > 2


def test_a_memory_bound_check_costs_little_more_than_a_step() -> None:
    found = speculate("llama-3-8b", on="h200", context=100, acceptance=1.0, draft=4, by=0.0)
    assert found.asked.checking == pytest.approx(found.plain, rel=0.01)
    assert found.speedup == pytest.approx(5, rel=0.01)


@pytest.mark.parametrize("name", ["deepseek-v3", "glm-5.1", "mimo-7b", "nemotron-3-super-120b", "minimax-m3"])
def test_prediction_layers_are_the_first_of_those_in_the_file(name: str) -> None:
    names = {"nemotron-3-super-120b": "nvidia-nemotron-3-super-120b-a12b-fp8"}
    model = load(names.get(name, name))
    own = prediction_layer(model)
    modules = len(model.extra_blocks) // 4 or 1
    tables = model.vocabulary * model.width * 2
    assert own.parameters - tables == pytest.approx(model.mtp_parameters / modules, rel=1e-4)
    found = speculate(model, on="b200", context=200, acceptance=0.8, draft=1, by="mtp", longest=2)
    assert found.speedup > 1
    # beside the model lie its layers and their keys, not its tables once more
    checking, held = found.memory.parts.values()  # type: ignore[union-attr]
    assert checking == serve_bound(model, "decode", on="b200", context=200, tokens=2).footprint.total  # type: ignore[union-attr]
    least = sum(layer.parameters for layer in own.layers)
    assert least <= held < least * 2 + model.vocabulary * model.width
    longer = speculate(model, on="b200", context=200, acceptance=0.8, draft=3, by="mtp", longest=0).memory
    assert list(longer.parts.values())[1] == pytest.approx(held * min(3, modules), rel=1e-2)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"acceptance": 1.5}, "an acceptance of 1.5 is no probability"),
        ({"by": -1.0}, "a draft step of -1.0 of the model's own; a fraction"),
        ({"by": "mtp"}, "llama-3-8b has no layers that predict further tokens; name a draft model"),
        ({"by": "lama"}, "no model 'lama'"),
        ({"draft_weights": "int4"}, "a format of a draft's weights is that of a model that drafts"),
        ({"draft": 0}, "size draft is 0"),
    ],
)
def test_messages_of_speculation(arguments: dict[str, Any], message: str) -> None:
    asked = {"on": "h100", "context": 100, "acceptance": 0.8, "draft": 2, "by": 0.1, **arguments}
    with pytest.raises(RooflineError) as caught:
        speculate("llama-3-8b", **asked)
    assert message in str(caught.value)


# ---- servers apart


def test_servers_keep_pace_at_the_ratio() -> None:
    """As many prompts are prefilled as answers end, on two kinds of machine."""
    found = disaggregate(
        "llama-3-70b", prompt=4000, output=40, batch=48, prefill_batch=2,
        prefill={"on": "h100:8", "tensor": 8}, decode={"on": "h200:4", "tensor": 4},
    )  # fmt: skip
    prefill = serve_bound("llama-3-70b", "prefill", on="h100:8", tensor=8, batch=2, prompt=4000).lower
    steps = [
        serve_bound("llama-3-70b", "decode", on="h200:4", tensor=4, batch=48, context=4000 + i).lower for i in range(39)
    ]
    assert found.ratio * 2 / prefill == pytest.approx(48 / sum(steps), rel=1e-9)
    assert found.chips_ratio == pytest.approx(found.ratio * 2, rel=1e-12)
    assert found.cache_bytes == load("llama-3-70b").kv_bytes_per_token() * 4000
    assert found.transfer_time == pytest.approx(found.cache_bytes / (8 * found.link), rel=1e-12)  # type: ignore[operator]
    assert found.transfer_rate == pytest.approx(2 * found.cache_bytes / prefill, rel=1e-12)
    answers = 48 / sum(steps)
    assert found.answers_per_second_per_chip == pytest.approx(answers / (4 + found.ratio * 8), rel=1e-9)
    assert found.time_to_first_token == pytest.approx(prefill + found.transfer_time, rel=1e-12)  # type: ignore[operator]
    assert found.tokens_per_second == pytest.approx(40 * min(answers, 2 / prefill), rel=1e-9)


def test_what_is_kept_follows_the_layers_and_the_copies() -> None:
    """Windows are full and states do not grow; a copy's chips alone hold its prompts; each side has its formats."""
    one: dict[str, Any] = {"prefill": {"on": "h200"}, "decode": {"on": "h200"}}
    for name in ("gpt-oss-20b", "nvidia-nemotron-3-nano-30b-a3b-nvfp4"):
        found = disaggregate(name, prompt=512, output=4096, batch=8, **one)
        ended = load(name).cache_bytes(512 + 4095)
        assert found.bytes_freed_per_second == pytest.approx(found.answers_per_second * ended, rel=1e-12)
    two = {"on": "h100:8", "tensor": 4, "kv": "fp8"}
    found = disaggregate("llama-3-8b", prompt=1000, output=3, prefill_batch=2, prefill=two, decode={"on": "h100"})
    assert (found.copies, found.cache_bytes) == (2, 32 * 2 * 8 * 128 * 1000)
    assert found.transfer_time == pytest.approx(found.cache_bytes / (4 * found.link), rel=1e-12)  # type: ignore[operator]
    asked = {"past": "is about whole prompts", "images": "images on prefill chips", "batch": "what both servers do"}
    for wrong, message in asked.items():
        with pytest.raises(InputError, match=message):
            disaggregate("qwen3-vl-2b-instruct", prompt=512, output=3, prefill={"on": "h100", wrong: 5}, decode=two)


@pytest.mark.long
def test_servers_that_do_not_fit_have_no_rates() -> None:
    decode = {"on": "h200:16", "tensor": 16, "kv_parallel": 16}
    asked: dict[str, Any] = {"prompt": 512, "output": 3, "batch": 16}
    eight: dict[str, Any] = {"on": "h200:8", "tensor": 8}
    fits = disaggregate("deepseek-v3", prefill=eight, decode=decode, **asked)
    assert (fits.misfits, "tokens/s" in str(fits)) == ((), True)
    full = disaggregate("deepseek-v3", prefill=eight, decode={"on": "h200:16"}, **asked)
    assert full.misfits == ("DOES NOT FIT: decode needs 673 GB, hbm has 141 GB",)
    why = "no rates: a server does not fit its memory, and times are those with room enough"
    assert f"decode needs 673 GB, hbm has 141 GB\n    {why}\n" in str(full)
    assert repr(full) == "<Disaggregation: DOES NOT FIT: decode needs 673 GB, hbm has 141 GB>"
    assert not any(said in str(full) for said in ("tokens/s", "first token", "prefill servers", "keeps pace"))
    for chip, enough, tensor in (("b200", "b200:4", 4), ("v5p", "v5p:2x2x2", 8)):  # what is said to fit does
        (said,) = disaggregate("deepseek-v3", prefill={"on": chip}, decode=decode, **asked).misfits
        assert said.endswith(f" · would fit: prefill_on='{enough}' prefill_tensor={tensor}")
        assert not disaggregate("deepseek-v3", prefill={"on": enough, "tensor": tensor}, decode=decode, **asked).misfits
    (said,) = disaggregate("deepseek-v3", prefill={"on": "h200:8"}, decode=decode, **asked).misfits
    assert said.endswith(" · would fit: prefill_on='h200:8' prefill_tensor=8")
    long: dict[str, Any] = {"prompt": 128_000, "output": 3, "prefill_batch": 8}  # which copies of it would hold
    sixteen: dict[str, Any] = {"on": "h100:16", "tensor": 16}
    (said,) = disaggregate("llama-3-70b", prefill=sixteen, decode=sixteen, **long).misfits
    assert said == "DOES NOT FIT: prefill needs 101 GB, hbm has 84.9 GB"
    with pytest.raises(
        InputError, match="needs prompt= and output=; tokens of a prompt and of an answer, as in prompt="
    ):
        roofline.llm("deepseek-v3", on="h200:16", prefill_on="h200:8")


@cache
def _servers() -> Any:
    return disaggregate("gpt-2", prompt=10, output=3, prefill={"on": "h100"}, decode={"on": "h100"})


@given(ratio=st.floats(0.001, 60))
def test_whole_servers_leave_prefill_no_slower(ratio: float) -> None:
    base = _servers()
    found = replace(base, prefill_time=ratio * base.steps * base.step_time)
    first, other = found.rounded
    assert first / other >= found.ratio * (1 - 1e-9)
    assert first / other <= 1.2 * found.ratio or found.ratio < 1 / 8
    assert first >= 1
    assert other >= 1


def test_a_link_given_and_one_too_slow() -> None:
    both: dict[str, Any] = {"prefill": {"on": "h100"}, "decode": {"on": "h100"}}
    fast = disaggregate("llama-3-8b", prompt=4000, output=300, link="100 GB/s", **both)
    slow = disaggregate("llama-3-8b", prompt=4000, output=300, batch=64, link="1 GB/s", **both)
    assert (fast.link, fast.keeps_pace, slow.keeps_pace) == (1e11, True, False)
    assert slow.tokens_per_second == pytest.approx(300 * 1e9 / slow.cache_bytes)
    assert "the hand-over sets the pace" in str(slow)
    with pytest.raises(RooflineError, match="an answer of one token takes no decode step"):
        disaggregate("llama-3-8b", prompt=4000, output=1, **both)


def test_the_ratio_takes_symbols() -> None:
    from roofline.sizes import symbol

    t = symbol("t")
    assert servers_ratio(prefill_time=t, step_time=2, steps=5, batch=20).subs(t, 3) == pytest.approx(6)
    assert answer_rate(step_time=0.02, steps=500, batch=100) == 10


# ---- cost


def test_cost_by_hand() -> None:
    """8 chips at $3 make 4,000 tokens a second: $24 for 14.4 million."""
    found = token_cost(time=0.5, tokens=2000, chips=8, price=3, power=500)
    assert found.dollars == pytest.approx(24 / 14.4)
    assert found.joules == pytest.approx(8 * 500 / 4000)
    assert found.kilowatt_hours == pytest.approx(1e6 / 3.6e6)
    assert token_cost(time=1, tokens=1).dollars is None
    with pytest.raises(RooflineError, match="price is -1"):
        token_cost(time=1, tokens=1, price=-1)


def test_a_cache_in_a_wider_format_than_the_weights_says_what_a_narrower_one_gives() -> None:
    from roofline import llm
    from roofline.quantity import format_amount
    from tests.models.test_answers_in_full import drawn

    asked: dict[str, Any] = {"on": "h200:4", "tensor": 4, "weights": "fp8", "batch": 32, "context": 16000}
    line = "keys and values stay in 16 bits, 70% of the bytes: 8.04 ms with kv='fp8'"
    assert line in drawn(llm("llama-3.1-70b", **asked), 200)
    assert format_amount(llm("llama-3.1-70b", **asked, kv="fp8").time_per_token, "s") == "8.04 ms"
    for other in ({"kv": "fp8"}, {"context": 100}, {"weights": None}):
        assert "keys and values stay" not in drawn(llm("llama-3.1-70b", **{**asked, **other}), 200)


def test_a_decode_step_says_what_it_moves_and_the_share_of_experts_it_touches() -> None:
    """Each of 256 experts is chosen by a token with probability 8/256, and 256 tokens choose."""
    found = roofline.llm("deepseek-v3", on="h200:8", expert=8, batch=256, context=4096)
    assert found.to_dict()["experts_touched"] == pytest.approx(1 - (1 - 8 / 256) ** 256, rel=1e-9)
    moved = found.moved
    assert moved is not None
    assert sum(moved.values()) == pytest.approx(found.decode.total_bytes, rel=1e-12)
    # latents of 512 and rotary keys of 64 in bf16, of 61 layers, 32 sequences on each chip
    assert moved["kv"] == pytest.approx(32 * 4097 * 61 * 576 * 2, rel=1e-3)
    assert moved["weights"] < found.memory.parts["weights"]
    said = " ".join(str(found).split())
    assert "weights 99 GB (99.97% of its experts), keys and values 9.21 GB, rest" in said
    assert "kv 9.21 GB (70.3 kB a token, 73.7 GB of all sequences, before chips split or copy it)" in said
    windows = " ".join(str(roofline.llm("gpt-oss-120b", on="h100", context=4096)).split())
    assert "(73.7 kB a token, until windows are full)" in windows
    dense = roofline.llm("llama-3-8b", on="h100", context=4096)
    assert dense.to_dict()["experts_touched"] is None
    assert roofline.llm("llama-3-8b", on="h100:2", pipeline=2, context=4096).to_dict()["moved"] is None


def test_a_prompt_in_chunks_fits_where_all_prompts_at_once_do_not() -> None:
    found = roofline.llm("llama-3-8b", on="h100", batch=64, prompt=8192, chunk=2048, context=4096)
    chunks = found.further["chunked"]
    assert not found.fits
    assert chunks.memory.fits
    # 64 sequences that decode and the prompt beside them
    assert chunks.memory.parts["kv"] == (64 * 4097 + 8192) * 2 * 32 * 8 * 128 * 2
    shown = " ".join(str(found).split())
    assert shown.index("64 prompts read together DO NOT FIT: they need 134 GB, hbm has 84.9 GB; one in chunks") < 80
    assert "51.7 GB on a chip, which fits" in shown
    assert "DOES NOT FIT" not in shown


def test_both_phases_begin_with_the_first_token_and_each_one_more() -> None:
    asked: dict[str, Any] = {"on": "h100:8", "tensor": 8, "prompt": 4096, "context": 8192}
    found = roofline.llm("llama-3-70b", **asked)
    first, more = (format_quantity(phase.lower, "s") for phase in (found.prefill, found.decode))
    said = f"  first token after {first} at best, then {more} for each one more"
    assert str(found).splitlines()[2] == f"{said} at a context of 8,192"
    assert "for each one more\n" in str(roofline.llm("llama-3-70b", **{**asked, "context": 4096}))
    assert "first tokens of all 4 after" in str(roofline.llm("llama-3-70b", **asked, batch=4))
    assert str(roofline.llm("llama-3-70b", **asked, output=9)).count("first token after") == 1
    assert "first token after" not in str(roofline.llm("llama-3-70b", on="h100", prompt=4096))  # does not fit
