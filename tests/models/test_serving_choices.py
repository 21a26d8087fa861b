"""Fronts, the fewest chips, what fits nearby, advice, where decode flips: each against a scan of fresh answers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import roofline
from roofline.cli import main
from roofline.errors import InputError, RooflineError, SizeError
from roofline.hardware import chip, chips
from roofline.hardware.mesh import smallest_slice, with_chips
from roofline.models import advise_step, fewest, latency_throughput, load, nearest, outline, pool, serve, serve_bound
from roofline.models.operations import moved_by_part
from roofline.models.parallelism.block_splitting import divides
from roofline.models.parallelism.splitting import local_model
from roofline.models.serving.fit import LongestContext
from roofline.models.serving.layouts import decode_footprint
from roofline.models.serving.limits import network_share
from roofline.models.serving.llm import llm
from roofline.models.serving.speculation import speculate
from roofline.rendering.terminal import as_text
from roofline.signatures import spelled
from roofline.statements import untimed_parts
from tests.strategies import few, some

# ---- latency against throughput


def test_a_front_is_what_no_other_choice_beats() -> None:
    sizes: dict[str, Any] = {"batch": [1, 3, 8, 20, 64, 300, 900], "context": 8000, "tensor": [1, 2, 4, 8]}
    found = latency_throughput("llama-3-70b", on="h200", **sizes)
    assert len(found.choices) == 28
    for one in found.choices:
        beaten = any(
            other.tokens_per_second_per_user >= one.tokens_per_second_per_user
            and other.tokens_per_second_per_chip >= one.tokens_per_second_per_chip
            and (other.tokens_per_second_per_user, other.tokens_per_second_per_chip)
            != (one.tokens_per_second_per_user, one.tokens_per_second_per_chip)
            for other in found.fitting
        )
        assert one.best == (one.fits is True and not beaten)
    assert [c.time_per_token for c in found.best] == sorted(c.time_per_token for c in found.best)


@pytest.mark.parametrize("form", ["lower", "op_by_op", "upper"])
def test_each_choice_is_a_step(form: str) -> None:
    found = latency_throughput("mixtral-8x7b", on="h200", tensor=[2, 4], batch=[1, 50], context=[300, 900], form=form)
    assert [(c.batch, c.context, c.tensor) for c in found.choices] == [
        (1, 300, 2),
        (50, 900, 2),
        (1, 300, 4),
        (50, 900, 4),
    ]
    for each in found.choices:
        sizes = {"batch": each.batch, "context": each.context}
        step = serve_bound("mixtral-8x7b", "decode", on=f"h200:{each.tensor}", tensor=each.tensor, **sizes)
        assert step.footprint is not None
        assert each.time_per_token == pytest.approx(getattr(step, form), rel=1e-12)
        assert each.memory == pytest.approx(step.footprint.total, rel=1e-12)
        assert each.tokens_per_second_per_chip == pytest.approx(each.batch / each.time_per_token / each.tensor)


def test_what_does_not_fit_is_left_out_and_said() -> None:
    found = latency_throughput("llama-3-8b", on="h100", batch=[1, 50, 5000], context=8000)
    assert [choice.fits for choice in found.choices] == [True, True, False]
    (said,) = found.said
    assert said.startswith("1 of 3 does not fit and is left out: the first, batch 5000 on 1 chip, needs")
    assert not found.choices[2].best


def test_where_no_choice_fits_that_and_what_would_stand_in_place_of_a_table() -> None:
    found = llm("llama-3-70b", on="h100", batch=[4, 16], context=8000, front=True)
    one = llm("llama-3-70b", on="h100", batch=4, context=8000)
    shown = " ".join(as_text(found.front.sections(), 200).split())
    assert "DOES NOT FIT: none of them; the first, batch 4 on 1 chip, needs 152 GB of 84.9 GB" in shown
    assert f" · would fit: {one.fitting()}" in shown
    assert found.front.to_dict()["instead"] == one.fitting()
    assert "each user" not in shown


def test_whole_experts_go_with_the_chips() -> None:
    found = latency_throughput("mixtral-8x7b", on="h200", tensor=[2, 4], expert=4, batch=8, context=500)
    for each in found.choices:
        step = serve_bound(
            "mixtral-8x7b",
            "decode",
            on=f"h200:{each.tensor}",
            tensor=each.tensor,
            expert=each.tensor,
            batch=8,
            context=500,
        )
        assert each.time_per_token == pytest.approx(step.lower, rel=1e-12)


def test_the_most_of_a_chip_in_the_time_a_token_may_take() -> None:
    sizes: dict[str, Any] = {"batch": [1, 8, 64, 300] * 2, "context": [1000] * 4 + [8000] * 4, "tensor": [2, 4, 8]}
    found = latency_throughput("llama-3-70b", on="h200", tpot="18 ms", **sizes)
    assert [choice.context for choice in found.within] == [1000, 8000]
    for taken in found.within:
        others = [c for c in found.fitting if c.context == taken.context and c.time_per_token <= 18e-3]
        assert taken.tokens_per_second_per_chip == max(c.tokens_per_second_per_chip for c in others)
    assert latency_throughput("llama-3-70b", on="h200", tpot=1e-4, **sizes).within == ()
    assert latency_throughput("llama-3-70b", on="h200", **sizes).within == ()


def test_beside_a_decode_of_other_sequences_the_prompt_has_to_fit_at_its_own_length() -> None:
    """The context says nothing of the prompt: no layout that is asked already and no other batch is enough."""
    asked: dict[str, Any] = {"on": "h100:8", "tensor": 8, "prompt": 1_000_000}
    found = llm("llama-3-70b", **asked, context=100)
    assert found.memory.fits is False
    near = found.nearest()
    assert near is not None
    assert (near.batch, near.context, near.layouts) == (None, None, ())
    assert dict(near.together) == {"weights": "fp8", "kv": "fp8"}
    assert llm("llama-3-70b", **asked, context=100, **dict(near.together)).memory.fits
    shorter = llm("llama-3-70b", **asked).nearest()  # of the same sequences a shorter context is a shorter prompt
    assert shorter is not None
    assert shorter.context


def test_an_option_that_nothing_takes_is_told() -> None:
    asked: dict[str, Any] = {"on": "h100", "batch": 8}
    for ask in (serve, latency_throughput, fewest):
        with pytest.raises(RooflineError, match=r"there is no argument 'weight'; did you mean 'weights'\?"):
            ask("llama-3-8b", context=9, weight="fp8", **asked)
    with pytest.raises(RooflineError, match=r"there is no argument 'tp'; did you mean 'tensor'\?"):
        serve("llama-3-8b", context=9, tp=8, **asked)
    with pytest.raises(RooflineError, match="there is no argument 'qqq'; arguments are: batch, context"):
        serve("llama-3-8b", context=9, qqq=8, **asked)
    with pytest.raises(RooflineError, match="None is not a model; give a shipped name"):
        serve(None, context=9, **asked)  # type: ignore[arg-type]


def test_a_size_of_another_phase_is_told() -> None:
    with pytest.raises(InputError, match=r"^prompt is no size of a decode step; its sizes are batch, tokens, context$"):
        serve_bound("llama-3-8b", "decode", on="h100", context=64, prompt=64)
    with pytest.raises(InputError, match=r"^context is no size of a prefill step; its sizes are batch, prompt, past$"):
        roofline.solve("llama-3-8b", for_="prompt", time="5ms", on="h100", context=64)


def test_messages_of_fronts() -> None:
    asked: dict[str, Any] = {"batch": 1, "context": 10}
    with pytest.raises(RooflineError, match="a pool of chips is not split by tensor too"):
        latency_throughput("llama-3-8b", on="h100", pool=4, tensor=2, **asked)
    with pytest.raises(RooflineError, match="v5e has no group of 3 chips"):
        latency_throughput("llama-3-8b", on="v5e", tensor=[1, 3], **asked)


# ---- pools and outlines


def test_a_pool_is_the_whole_divided() -> None:
    """The published TP8 floor: everything divided by 8, no links."""
    eight = pool(chip("h100", hbm=3.35e12, bf16=989.4e12), 8)
    found = serve_bound("llama-2-70b", "decode", on=eight, batch=8, context=1024, activations="bf16", policy="streamed")
    assert float(f"{found.lower * 1e3:.6g}") == 5.22811
    alone = chip("h100")
    assert eight.memories[0].capacity.value == 8 * alone.memories[0].capacity.value  # type: ignore[union-attr]
    assert pool(alone, 1) is alone
    with pytest.raises(RooflineError, match="h100 has a shape"):
        pool(chip("h100:8"), 8)


@few(8)
@given(
    parameters=st.integers(10**6, 10**12), kv=st.integers(2, 10**6), queries=st.integers(1, 16),
    batch=st.integers(1, 500), context=st.integers(1, 9000),
)  # fmt: skip
def test_an_outline_costs_its_formula(parameters: int, kv: int, queries: int, batch: int, context: int) -> None:
    model = outline(parameters, kv=kv, queries=queries)
    step = serve_bound(model, "decode", on="h100", batch=batch, context=context, policy="streamed")
    assert not step.incomplete
    assert model.parameters == parameters
    assert sum(step.bytes.values()) == 2 * parameters + 2 * batch * kv * (context + 1)
    assert step.flops == 2 * batch * parameters + 2 * batch * (context + 1) * kv * queries


def test_an_outline_agrees_with_the_model_it_outlines() -> None:
    model = load("llama-2-7b")
    rough = outline(model.parameters - 32000 * 4096 - 65 * 4096, kv=2 * 32 * 32 * 128, queries=1, dtype="bf16")
    sizes: dict[str, Any] = {"on": "a100", "batch": 8, "context": 1024, "policy": "streamed"}
    one, other = (serve_bound(m, "decode", activations="bf16", **sizes) for m in (model, rough))
    assert one.bytes == other.bytes
    assert one.flops == other.flops


# ---- the fewest chips


@example(chips_=8, name="mi355x")
@given(chips_=st.integers(1, 300), name=st.sampled_from(["v5e", "v4", "v5p", "h100", "dgx-h100", "mi355x", "tpu7x"]))
def test_a_slice_is_one_the_chip_has(chips_: int, name: str) -> None:
    found = smallest_slice(chip(name), chips_)
    if found is None:
        assert (name, chips_ > 8) == ("mi355x", True)  # each has a link to 7 others
        return
    assert found.chips >= chips_
    built = chip(found.target)
    assert built.mesh is not None
    assert built.mesh.chips == found.chips


def test_the_least_slices_by_hand() -> None:
    slices = {n: smallest_slice(chip("v5e"), n) for n in (1, 3, 5, 9, 17, 200, 257)}
    assert [found.target for found in slices.values() if found] == [
        "v5e:1x1", "v5e:2x2", "v5e:2x4", "v5e:4x4", "v5e:4x8", "v5e:16x16", "v5e:16x16:2",
    ]  # fmt: skip
    cards = smallest_slice(chip("l4"), 3)  # on the bus of one host
    assert cards is not None
    assert (cards.target, cards.chips, cards.nodes) == ("l4:3", 3, 1)
    assert smallest_slice(chip("m1-ultra"), 3) is None  # nothing joins them
    # axes of 1, 2 or whole cubes of 4
    assert [smallest_slice(chip("tpu7x"), n) for n in (2, 3, 9)] == [
        ("tpu7x:2", 2, 1),
        ("tpu7x:4", 4, 1),
        ("tpu7x:12", 12, 1),
    ]
    assert with_chips(chip("tpu7x"), 3) is None
    assert with_chips(chip("trn2"), 4) is None  # what one link of its torus carries is not known
    sized = with_chips(chip("v5e"), 8)
    assert sized is not None
    assert sized.shape == (2, 4)


@pytest.mark.parametrize(("name", "on"), [("llama-3-70b", "h100"), ("mixtral-8x7b", "v5e"), ("deepseek-v3", "h200")])
def test_one_chip_fewer_does_not_hold_it(name: str, on: str) -> None:
    found = fewest(name, on=on, batch=16, context=4096)
    model = load(name)
    assert (found.chips - 1) * found.capacity < float(found.needed.total) <= found.chips * found.capacity
    assert found.sequences >= 16
    assert found.split is not None
    for ways in range(1, found.split):
        sized = with_chips(chip(on), ways)
        # parts that are padded are passed over
        if sized is None or not divides(model, ways):
            continue
        local, _ = local_model(model, sized, tensor=ways)
        assert float(decode_footprint(local, 16, 4096, {}).total) > found.capacity


@pytest.mark.parametrize(
    ("name", "on", "batch", "laid"),
    some(
        [
            ("llama-3-8b", "h100", 4, {}),
            ("llama-3-8b", "h100", 3, {"tensor": 2, "weights": "fp8"}),
            ("llama-3-70b", "h100:8", 16, {"tensor": 4, "kv": "fp8"}),
            ("llama-3-70b", "v5e:4x4", 1, {}),
            ("deepseek-v3", "h200:16", 32, {"expert": 16}),
            ("deepseek-v3", "h200", 2, {}),
        ],
        2,
    ),
)
def test_the_longest_context_fits_and_the_next_does_not(name: str, on: str, batch: int, laid: dict[str, Any]) -> None:
    longest = fewest(name, on=on, batch=batch, **laid).longest
    assert longest is not None
    assert longest.context
    where = {"on": longest.target.removeprefix(f"{longest.chips} x "), "batch": batch, **laid, **longest.layout}
    steps = [serve(name, context=longest.context + more, **where) for more in (0, 1)]
    assert [step.fits for step in steps] == [True, False]
    assert steps[0].chips == longest.chips
    asked = llm(name, batch=batch, context=1000, fit=True, on=on, **laid).further["fewest"]
    assert asked.longest == longest
    assert (asked.batch, asked.context) == (batch, 1000)


@pytest.mark.parametrize("prompt", [None, 8192])
def test_sequences_fit_with_the_prefill_that_is_asked_for(prompt: int | None) -> None:
    """How many sequences fit and whether a step fits mean one thing: with the prefill of as many prompts."""
    sizes = None if prompt is None else {"prompt": prompt}
    found = fewest("llama-3-8b", on="h100", batch=16, context=8193, prompt=sizes)
    assert found.have == 1
    for batch, fits in ((found.sequences, True), (found.sequences + 1, False)):
        assert serve("llama-3-8b", on="h100", batch=batch, context=8192, prompt=prompt).fits is fits
    given = fewest("llama-3-8b", on="h100:2", batch=16, context=8193, prompt=sizes).given
    assert given is not None
    assert given.sequences == {None: 143, 8192: 83}[prompt]


def test_the_longest_context_is_one_number() -> None:
    """What is near, what given chips hold and the longest context are counted in one way, activations with them."""
    where: dict[str, Any] = {"on": "l40s:2", "tensor": 2, "weights": "int4"}
    found = fewest("llama-3-70b", **where)
    assert found.longest is not None
    assert found.given is not None
    near = serve("llama-3-70b", context=1_000_000, **where).nearest()
    assert near is not None
    assert found.given.tokens == found.longest.context == near.context
    said = as_text(found.sections())
    assert "fits on l40s (weights alone)" in said
    longest = f"longest context of one sequence on l40s:2 with tensor=2: {near.context:,} tokens"
    assert longest in " ".join(said.split())
    assert "Meta-Llama-3.1-70B was trained on 131,072" in " ".join(said.split())


def test_what_fits_says_what_it_takes_for_granted_and_where_the_capacity_is_from() -> None:
    found = llm("llama-3-8b", on="rtx4090", weights="int4", kv="fp8", fit=True)
    said = " ".join(as_text(found.sections()).split())
    assert "assumes weights int4, keys and values fp8, 65.5 kB a token" in said
    assert "all 24 GB of a chip are the model's: nothing is reserved" in said
    assert found.to_dict()["assumptions"] == list(found.assumptions)
    assert "dram 24 GB  [spec, NVIDIA Ada whitepaper" in found.explain()


def test_a_longest_context_that_is_none() -> None:
    longest = LongestContext("h100", 1, {}, 4, None, None)
    assert "the context of 4 sequences has no limit in memory on h100" in longest.sentence()
    none = fewest("llama-3-8b", on="h100", batch=10**6).longest
    assert none is not None
    assert none.sentence() == "no context of 1,000,000 sequences fits on h100"
    with pytest.raises(RooflineError, match="fit= finds how many chips there have to be, and tensor= has several"):
        llm("llama-3-8b", on="h100", tensor=[1, 2], fit=True)
    assert fewest("llama-3-70b", on="h100:2", pipeline=2).longest is None  # not worked out over stages


def test_weights_alone_and_an_unknown_capacity() -> None:
    found = fewest("llama-3-70b", on="h100")
    assert found.needed.parts == {"weights": load("llama-3-70b").weight_bytes(), "kv": 0, "activations": 0}
    assert found.sequences == 0
    with pytest.raises(RooflineError, match="size batch has several values; give one"):
        fewest("llama-3-8b", on="h100", batch=[1, 2], context=10)  # type: ignore[arg-type]
    unknown = next(c.key for c in chips() if all(m.capacity is None for m in c.memories if not m.link) and c.memories)
    with pytest.raises(RooflineError, match=r"the capacity of .* is not known; give it"):
        fewest("llama-3-8b", on=unknown)


# ---- the nearest that fits


@pytest.mark.parametrize(
    ("name", "on", "batch", "context"),
    [("llama-3-70b", "h100", 8, 8000), ("llama-2-7b", "a100", 500, 1000), ("mixtral-8x7b", "l40s", 4, 2000)],
)
def test_each_thing_near_fits_and_the_next_does_not(name: str, on: str, batch: int, context: int) -> None:
    model, machine = load(name), chip(on)
    found = nearest(model, machine, batch=batch, context=context)

    def fits(**changed: Any) -> bool:
        sizes = {"batch": batch, "context": context, **changed}
        step = serve_bound(model, "decode", **{"on": on, **sizes})
        assert step.footprint is not None
        return step.footprint.fits is True

    assert not fits()
    if found.batch:
        assert fits(batch=found.batch)
        assert not fits(batch=found.batch + 1)
    for part, wanted in found.formats:
        assert fits(**{part: wanted})
    if found.split:
        assert fits(on=f"{on}:{found.split}", tensor=found.split)
    if found.chip:
        other = next(c for c in chips() if c.name == found.chip)
        assert fits(on=other.key)


def test_what_is_near_is_said_with_the_memory() -> None:
    found = serve("llama-3-70b", on="h100", batch=8, context=8000)
    assert found.fitting() == (
        "fp8 weights with fp8 keys and values; or int4 weights; or 2 such chips hold it (tensor=2); "
        "or one NVIDIA B200 SXM; or the weights of 46 of 80 layers in the host's memory (host_layers=46)"
    )
    split = serve("llama-3-70b", on="h100:2", tensor=2, batch=64, context=8000)
    assert (split.fitting() or "").startswith(
        "batch 5 at this context; or fp8 keys and values"
    ) or split.memory.fits is False


@pytest.mark.parametrize(
    ("name", "asked"),
    some(
        [
            ("llama-3-70b", {"on": "h200:8", "prompt": 32000}),
            ("llama-3-70b", {"on": "h100:6", "context": 1024}),
            ("deepseek-v3", {"on": "h200:8", "context": 1024}),
            ("llama-2-13b", {"on": "l40s", "batch": 16, "context": 4000}),
            ("llama-3-8b", {"on": "h100", "batch": 64, "prompt": 8000}),
        ],
        2,
    ),
)
def test_what_is_near_fits_with_the_prompt_too(name: str, asked: dict[str, Any]) -> None:
    def fits(**changed: Any) -> Any:
        return serve(name, **{**asked, **changed}).memory.fits

    near = serve(name, **asked).nearest()
    assert near is not None
    assert fits() is False
    for layout in near.layouts:
        assert fits(**layout)
    if near.together:
        assert fits(**dict(near.together))
        assert not any(fits(**{part: wanted}) for part, wanted in near.together)
    for part, wanted in near.formats:
        assert fits(**{part: wanted})
    if near.batch:
        assert fits(batch=near.batch)
        assert not fits(batch=near.batch + 1)


def test_chips_that_are_there_are_the_first_remedy() -> None:
    found = serve("llama-3-70b", on="h200:8", prompt=32000).nearest()
    assert found is not None
    assert found.said[:2] == ("split over the 8 (tensor=8)", "fp8 weights")
    experts = serve("deepseek-v3", on="h200:8", context=1024).nearest()
    assert experts is not None
    assert experts.said[0] == "split over the 8 (tensor=8 kv_parallel=8)"
    six = serve("llama-3-70b", on="h100:6", context=1024).nearest()
    assert six is not None
    assert six.said[0] == "split over the 6 (context_parallel=3 tensor=2)"
    assert not nearest("llama-3-70b", "h100", batch=1, context=1024).layouts
    half = serve("llama-2-13b", on="l40s", batch=16, context=4000).nearest()
    assert half is not None
    assert half.said[1] == "fp8 weights with fp8 keys and values"


@pytest.mark.parametrize("batch", some([8, [8, 16]], 2))
def test_what_does_not_fit_has_no_cost_in_words(batch: Any) -> None:
    found = llm("deepseek-v3", on="h200", batch=batch, context=4000, price=3, power="tdp")
    assert "no cost of tokens, as " in as_text(found.sections())
    assert "$" not in as_text(found.sections())
    cost = found.to_dict()["cost"]["output"]
    assert (cost.pop("reason") or "").startswith(("does not fit: needs ", "none of the configurations fits"))
    assert set(cost.values()) == {None}
    assert found.cost["output"].dollars is None
    grid = roofline.sweep("deepseek-v3", on="h200", batch=batch, context=4000, price=3)
    for each in (found.cost_per_million, grid["cost_per_million"]):
        assert np.isnan(np.asarray(each, dtype=float)).all()
    fitting = llm("deepseek-v3", on="h200:8", tensor=8, batch=batch, context=4000, price=3)
    assert "$" in as_text(fitting.sections())


# ---- advice

STEPS: list[tuple[str, str, dict[str, Any]]] = [
    ("llama-3-70b", "decode", {"on": "h200:8", "tensor": 8, "batch": 8, "context": 8000}),
    ("llama-3-8b", "prefill", {"on": "h100", "batch": 4, "prompt": 2048, "logits": "all", "count": "full"}),
    ("llama-2-13b", "prefill", {"on": "a100", "batch": 8, "prompt": 2000, "policy": "each-op", "unfused": True}),
    ("deepseek-v3", "decode", {"on": "h200:8", "tensor": 8, "expert": 8, "batch": 32, "context": 4000}),
    ("mixtral-8x7b", "prefill", {"on": "v5p", "batch": 1, "prompt": 512}),
    ("qwen3.5-35b-a3b", "decode", {"on": "h200", "batch": 16, "context": 4000}),
    ("gpt-oss-20b", "mixed", {"on": "h100", "batch": 16, "context": 4000, "chunk": 512}),
]


@pytest.mark.parametrize(("name", "phase", "asked"), some(STEPS, 2, 1))
def test_every_line_of_advice_is_a_fresh_answer(name: str, phase: str, asked: dict[str, Any]) -> None:
    before = serve_bound(name, phase, **asked)
    found = advise_step(name, phase, **asked)
    assert found
    others = [each.after.machine.key != before.machine.key for each in found]
    assert others == sorted(others), "another chip stands last"
    trained = [each.trained_anew for each, other in zip(found, others, strict=True) if not other]
    assert trained == sorted(trained), "another model stands behind the one asked about"
    for kind in ((False, False), (False, True), (True, False)):
        gains = [e.gain for e, other in zip(found, others, strict=True) if (other, e.trained_anew) == kind]
        assert gains == sorted(gains, reverse=True)
    for each in found:
        again = serve_bound(each.model, phase, **each.arguments)
        assert again.lower == each.after.lower
        assert again.bound_by == each.after.bound_by
        assert each.gain == pytest.approx(float(before.lower / again.lower) * each.more, rel=1e-12)
        assert each.gain > 1
        assert again.footprint is not None
        assert before.footprint is not None
        assert again.footprint.fits is not False or before.footprint.fits is False


@pytest.mark.parametrize(("prompt", "best"), some([(128, 1), (8192, 16)], 2, 1))
def test_micro_batches_with_which_stages_are_done_first_are_advised(prompt: int, best: int) -> None:
    """The best of all up to eight times as many as stages, by powers of two; each chunk reads its weights again."""
    asked: dict[str, Any] = {"on": "h100:2", "pipeline": 2, "prompt": prompt}
    found = {each.change: each for each in advise_step("llama-3-8b", "prefill", microbatches=4, **asked)}
    times = {n: serve_bound("llama-3-8b", "prefill", microbatches=n, **asked).lower for n in (1, 2, 4, 8, 16)}
    # the floor of any number is no number to set
    assert not any("micro-batch" in each.change for each in advise_step("llama-3-8b", "prefill", **asked))
    line = found["1 micro-batch" if best == 1 else f"{best} micro-batches"]
    assert line.after.lower == times[best] == min(times.values())
    assert dict(line.options or {}) == {"microbatches": best}
    assert "past" not in line.before.sizes
    if best == 1:
        assert found["fp8 weights"].reason.startswith("weights are 100% of the bytes")


@pytest.mark.parametrize(
    ("name", "on", "ways", "shared"),
    [("llama-3-70b", "h100:16", 16, 2), ("deepseek-v3", "h200:8", 8, 8), ("llama-3-70b", "h100:8", 8, 1)],
)
def test_keys_and_values_on_more_chips_than_heads_may_be_dealt_out(name: str, on: str, ways: int, shared: int) -> None:
    """16 chips hold each of 8 heads twice; latents are one head, which 8 chips hold. Dealt out, each reads its part."""
    asked: dict[str, Any] = {"on": on, "tensor": ways, "batch": 64, "context": 8192}
    told = [line for line in advise_step(name, "decode", **asked) if "kv parallel" in line.change]
    assert [line.options for line in told] == ([{"kv_parallel": shared}] if shared > 1 else [])
    for line in told:
        assert line.after.lower == serve_bound(name, "decode", **asked, kv_parallel=shared).lower
        assert f"{shared} chips hold the same keys and values" in line.reason


def test_a_narrower_cache_helps_a_compute_bound_step_by_its_arithmetic() -> None:
    found, same = (
        advise_step("llama-3-70b", "prefill", on=on, tensor=8, batch=16, prompt=8192)
        for on in ("h200:8", chip("h200:8"))
    )
    assert [each.change for each in same] == [each.change for each in found]  # a machine is its name
    (why,) = [each.reason for each in found if each.change == "fp8 keys and values"]
    assert why.startswith("attention multiplies in fp8")


def test_what_fits_on_the_same_chips_stands_in_the_first_line() -> None:
    """Of a prompt alone too: the model shared by all chips, or some layers in the host's memory."""
    prompt = llm("llama-3-70b", on="h100:8", prompt=16_384, phase="prefill")
    near = prompt.nearest()
    assert near is not None
    assert prompt.decode is None
    (layout,) = near.layouts
    assert llm("llama-3-70b", on="h100:8", prompt=16_384, phase="prefill", **layout).memory.fits
    assert f"would fit: {near.lead}" in " ".join(str(prompt).split())
    asked: dict[str, Any] = {"on": "rtx5090:2", "tensor": 2, "batch": 1, "context": 4096}
    few = serve("gpt-oss-120b", **asked).nearest()
    assert few is not None
    assert few.lead == f"{few.said[0]}; or {few.said[-1]}"
    assert few.said[-1].endswith(f"({spelled('host_layers', 1)})")
    assert serve("gpt-oss-120b", **asked, host_layers=1).memory.fits


def test_a_link_to_the_host_that_chips_send_over_too_is_named_by_what_takes_longest_on_it() -> None:
    asked: dict[str, Any] = {"on": "rtx5090:2", "tensor": 2, "host_layers": 2, "context": 32_000}
    found = serve_bound("gpt-oss-120b", "decode", batch=1, **asked)
    on_link = {use.quantity: use.time for use in found.uses if use.resource == found.bound_by}
    assert found.bound_by == "pcie"
    assert on_link["bytes"] > on_link["wire"] > 0
    assert found.kind == "memory-bound"
    assert network_share(found) < 1
    several = serve_bound("gpt-oss-120b", "decode", batch=np.array([1, 2]), **asked)
    assert several.kind.as_names().tolist() == ["memory-bound"] * 2


def test_each_peak_of_a_unit_that_binds_is_raised_by_itself() -> None:
    """Half of two formats gain more together than alone, and the one that takes longer gains more."""
    asked: dict[str, Any] = {"on": "h200:16", "tensor": 16, "prompt": 200_000}
    found = {each.change: each for each in advise_step("deepseek-v3", "prefill", **asked)}
    gains = [found[f"twice the {name} peak"].gain for name in ("bf16", "fp8")]
    was = serve_bound("deepseek-v3", "prefill", **asked)
    alone = [was.lower / serve_bound("deepseek-v3", "prefill", set={name: "+100%"}, **asked).lower
             for name in ("tensor.bf16", "tensor.fp8")]  # fmt: skip
    assert gains == pytest.approx(alone)
    assert gains[0] > 1.8 > 1.1 > gains[1]
    assert "fp8 weights, keys and values" not in found, "its weights are in fp8, and what binds is arithmetic"


def test_the_bytes_that_a_narrower_format_saves_are_those_in_wider_ones() -> None:
    asked: dict[str, Any] = {"on": "h200:16", "tensor": 16, "batch": 16, "context": 8000}
    found = {each.change: each for each in advise_step("deepseek-v3", "decode", **asked)}
    both = found.get("fp8 weights, keys and values")
    assert both is None or "100%" not in both.reason
    (whole,) = [each.reason for each in advise_step("llama-3-8b", "decode", on="a100", batch=16, context=8000)
                if each.change == "fp8 weights, keys and values"]  # fmt: skip
    assert whole == "together they are 100% of the bytes"


def test_advice_names_what_a_step_is_about() -> None:
    decode = [each.change for each in advise_step(*STEPS[0][:2], **STEPS[0][2])]
    assert {
        "fp8 weights",
        "int4 weights",
        "fp8 keys and values",
        "fp8 weights, keys and values",
        "batch 16",
        "tensor 16, 16 chips",
        "a context of 4000",
    } <= {*decode}
    asked = {"tensor": 8, "batch": 8, "context": 4000}
    targets = ("8 x h200", chip("h200:8"), "h200:8")
    spelled, as_value, usual = (advise_step("llama-3-70b", "decode", on=on, **asked) for on in targets)
    assert [each.to_dict() for each in spelled] == [each.to_dict() for each in usual]
    assert [each.to_dict() for each in as_value] == [each.to_dict() for each in usual]
    for on in ("v5e:2x4", chip("v5e:2x4"), chip("v5e:2x4", hbm="900 GB/s")):
        lines = advise_step("llama-3-8b", "decode", on=on, tensor=2, batch=8, context=8192)
        more = next(each for each in lines if each.change == "tensor 4, 16 chips")
        assert (more.after.machine.shape, more.after.machine.given) == ((4, 4), more.before.machine.given)
    in_text = advise_step("llama-3-70b", "decode", on="h200:8", **{name: str(size) for name, size in asked.items()})
    assert [each.to_dict() for each in in_text] == [each.to_dict() for each in usual]
    words = {each.change: each.options for each in usual}
    assert words["twice the hbm bandwidth"] == {"set": {"hbm": 2 * 4.8e12}}
    assert words["fp8 weights, keys and values"] == {"weights": "fp8", "kv": "fp8"}
    prefill = [each.change for each in advise_step(*STEPS[1][:2], **STEPS[1][2])]
    assert {"fp8 arithmetic", "half of the prompt cached", "skip masked pairs", "logits of the last token alone"} <= {
        *prefill
    }
    assert "fp8 weights" not in prefill
    unfused = [each.change for each in advise_step(*STEPS[2][:2], **STEPS[2][2])]
    assert {"fused attention", "half the heads of keys and values", "half of the prompt cached"} <= {*unfused}
    with pytest.raises(RooflineError, match="advice needs plain numbers"):
        advise_step("llama-3-8b", "decode", on="h100", batch=[1, 2], context=10)


def test_more_of_a_batch_is_a_gain_for_each_token_alone() -> None:
    (twice,) = [each for each in advise_step(*STEPS[0][:2], **STEPS[0][2]) if each.change == "batch 16"]
    assert twice.more == 2
    assert twice.after.lower > twice.before.lower
    assert twice.gain < 2


# ---- where decode flips, over several chips

SPLIT: list[tuple[str, dict[str, Any]]] = [
    ("llama-3-70b", {"on": "h200:8", "tensor": 8, "context": 64}),
    ("llama-3-70b", {"on": "h200:8", "tensor": 8, "context": 64, "weights": "fp8", "algorithm": "two-shot"}),
    ("mixtral-8x7b", {"on": "h100:4", "tensor": 4, "expert": 4, "context": 100}),
    ("llama-3-8b", {"on": "v5e:2x2", "tensor": 4, "context": 16, "policy": "fused"}),
    ("llama-3-8b", {"on": "h100:16", "tensor": 16, "context": 4000}),
]


@pytest.mark.parametrize(("name", "asked"), SPLIT)
def test_the_flip_of_a_split_model_is_the_first_of_a_scan(name: str, asked: dict[str, Any]) -> None:
    flips = serve(name, **asked).compute_bound_from()
    assert flips is not None

    def computing(batch: int) -> bool:
        return serve_bound(name, "decode", batch=batch, **asked).kind == "compute-bound"

    first = flips["whole"]
    if first is None:
        assert not any(computing(batch) for batch in (1, 100, 10_000, 1_000_000))
        return
    assert computing(first)
    assert not any(
        computing(batch) for batch in {1, first // 3 or 1, first // 2 or 1, first - 5, first - 1} if batch > 0
    )
    assert all(computing(first * times) for times in (2, 10))


def test_twice_a_peak_is_twice_as_fast_where_measured_fractions_are_taken() -> None:
    step: dict[str, Any] = {
        "on": "h100",
        "batch": 8,
        "prompt": 2048,
        "weights": "bf16",
        "activations": "bf16",
        "achievable": True,
    }
    (twice,) = [each for each in advise_step("llama-2-7b", "prefill", **step) if each.change == "twice the bf16 peak"]
    assert twice.gain == pytest.approx(2, rel=1e-3)


def test_what_would_fit_is_data_too() -> None:
    found = serve("llama-2-70b", on="h100:8", context=4096).to_dict()["memory"]["nearest"]
    assert (found["layouts"], found["formats"], found["chips"]) == ([{"tensor": 8}], {"weights": "fp8"}, 2)
    assert serve("llama-2-70b", on="h100:8", tensor=8, context=4096).to_dict()["memory"]["nearest"] is None


def test_a_draft_model_takes_memory_beside_the_model() -> None:
    asked: dict[str, Any] = {"on": "h100:8", "tensor": 8, "batch": 1, "context": 4096, "draft": 4}
    found = speculate("llama-3-70b", acceptance=0.7, by="llama-3-8b", **asked)
    assert found.memory is not None
    del asked["draft"]
    alone = serve_bound("llama-3-8b", "decode", **{**asked, "context": 4099}).footprint  # of the last of four steps
    assert alone is not None
    assert found.memory.parts["llama-3-8b"] == pytest.approx(alone.total)
    assert found.memory.total == sum(found.memory.parts.values())
    assert speculate("llama-3-70b", acceptance=0.7, by=0.1, draft=4, **asked).memory is None


def test_lists_of_choices_have_a_cost_each_and_name_the_cheapest_that_fits() -> None:
    asked: dict[str, Any] = {"on": "h100", "context": 2048, "price": 2.5}
    found = roofline.llm("qwen3-32b", batch=[16, 128], tensor=[1, 2], **asked)
    frame = found.to_pandas()
    for row in frame.to_dict("records"):
        one = roofline.llm("qwen3-32b", batch=row["batch"], tensor=row["tensor"], **asked)
        if one.memory.fits:
            assert row["cost_per_million"] == pytest.approx(one.cost["output"].dollars)
    assert found.cost["output"].dollars == frame[frame["fits"]]["cost_per_million"].min()
    assert "at least $0.2149 a million output tokens (batch 128, tensor 2): if all overlaps" in str(found)
    both = roofline.llm("llama-3-8b", on="h100", batch=[1, 8], prompt=512, price=2.5).to_pandas()
    assert {"input_cost_per_million", "output_cost_per_million"} <= set(both)


def test_the_front_of_the_command_has_a_cost_of_each_choice(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["llm", "qwen3-32b", "--on", "h100", "--batch", "16,128", "--context", "2048,4096", "--tensor", "2,4"]
    assert main([*words, "--price", "2.5"]) == 0
    text = capsys.readouterr().out
    assert "at least $0.2149 a million output tokens (batch 128, context 2,048, tensor 2)" in text
    assert "$ a million" in text
    assert main([*words, "--price", "2.5", "--json"]) == 0
    front = json.loads(capsys.readouterr().out)["front"]
    costs = [cost for cost in front["cost_per_million"] if cost is not None]
    assert min(costs) == pytest.approx(0.2149, rel=1e-3)
    assert [cost is not None for cost in front["cost_per_million"]] == [each["fits"] for each in front["choices"]]


def test_choices_have_the_energy_of_a_token_each(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["llm", "llama-3-8b", "--on", "h100", "--batch", "1,128,4096", "--context", "4096", "--power", "tdp"]
    assert main(words) == 0
    assert "energy a token\n" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    front = json.loads(capsys.readouterr().out)["front"]
    for joules, choice in zip(front["joules_per_token"], front["choices"], strict=True):
        assert joules == (pytest.approx(700 / choice["tokens_per_second_per_chip"]) if choice["fits"] else None)
    found = roofline.llm("llama-3-8b", on="h100", batch=[1, 8], prompt=512, power=500)
    frame = found.to_pandas()
    for row in frame.to_dict("records"):
        one = roofline.llm("llama-3-8b", on="h100", batch=row["batch"], prompt=512, power=500)
        for name in ("input", "output"):
            assert row[f"{name}_joules_per_token"] == pytest.approx(one.cost[name].joules)


def test_lists_of_two_lengths_name_what_combines_them() -> None:
    with pytest.raises(SizeError, match=r"do not broadcast: .*; make them of one length; sweep\(\) takes all"):
        roofline.llm("llama-3-8b", on="h100", batch=[1, 8], context=[1024, 2048, 4096])


def test_several_batches_say_the_largest_that_fits() -> None:
    """As a step of that batch says that it fits, and one of the next that it does not."""
    asked = {"on": "h200:2", "context": 8000}
    found = llm("llama-3-8b", batch=[1, 64, 512], front=True, **asked).front
    (most,) = found.largest
    assert (most.context, most.tensor, most.chips) == (8000, 1, 2)
    assert llm("llama-3-8b", batch=most.batch, **asked).fits
    assert not llm("llama-3-8b", batch=most.batch + 1, **asked).fits
    assert f"memory holds batches up to {most.batch}" in str(found)
    several = llm("llama-3-70b", on="h100", tensor=[1, 2, 4], batch=[1, 8], context=8000, front=True).front
    assert [each.batch for each in several.largest] == [0, *(each.batch for each in several.largest[1:])]
    held = ", ".join(f"{each.batch} on {each.chips} chips" for each in several.largest[1:])
    assert f"memory holds batches up to none on 1 chip, {held}" in str(several)


def test_the_largest_batch_of_very_many_chips_is_what_each_holds() -> None:
    """Each of 256 copies holds as many sequences as one alone; it was 0 beyond a million in all."""
    asked = {"tensor": 1, "batch": 1, "context": 64}
    one, many = (latency_throughput("llama-3-8b", on=on, **asked).largest[0].batch for on in ("h200", "h200:256"))
    assert many == 256 * one > 0


def test_several_batches_draw_latency_and_throughput() -> None:
    answer = llm("llama-3-8b", on="h100", batch=[1, 8, 64], context=8000)
    chart = answer.plot()
    assert chart.kind == "front"
    assert [point.x for point in chart.points] == [1 / float(time) for time in answer.decode.lower]


@pytest.mark.parametrize(("context", "block", "held"), [(100, 16, 112), (4095, 16, 4096), (4096, 16, 4112), (9, 1, 10)])
def test_a_paged_cache_takes_whole_blocks_of_memory(context: int, block: int, held: int) -> None:
    """131,072 bytes a token of Llama 3 8B; what attention reads stays."""
    plain, paged = (
        llm("llama-3-8b", on="h100", batch=64, context=context, **more) for more in ({}, {"kv_block": block})
    )
    assert paged.memory.parts["kv"] == 64 * 131072 * held
    assert paged.decode.lower == plain.decode.lower
    assert any("whole blocks of" in line for line in paged.decode.assumptions) == (block > 1)


def test_the_longest_context_ends_a_block() -> None:
    longest = [
        llm("llama-3-8b", on="h100", batch=64, fit=True, kv_block=block).longest.context for block in (1, 16, 256)
    ]
    assert [(tokens + 1) % block for tokens, block in zip(longest, (1, 16, 256), strict=True)] == [0, 0, 0]
    assert longest[0] - longest[1] < 16
    # 12 layers see all, 12 a window of 128 tokens; 8 heads of 64
    windowed = llm("gpt-oss-20b", on="h100", batch=8, context=1000, kv_block=64).memory.parts["kv"]
    assert windowed == 8 * (12 * 1024 + 12 * 128) * 2 * 8 * 64 * 2


#: Matrices of a layer of Llama 3 70B, and of its head.
LAYER, HEAD = 8192 * 8192 * 2 + 8192 * 1024 * 2 + 3 * 8192 * 28672, 128256 * 8192


@pytest.mark.parametrize("layers", [0, 1, 20, 80])
def test_weights_in_the_hosts_memory_are_read_over_its_link(layers: int) -> None:
    """The longest of both reads where all overlaps, each by its own rate; on the chip are the weights of the rest."""
    asked: dict[str, Any] = {"on": "h100", "batch": 8, "context": 4095, "weights": "fp8", "policy": "streamed"}
    found, whole = (llm("llama-3-70b", **asked, host_layers=n) for n in (layers, 0))
    host, chips_own = layers * LAYER, (80 - layers) * LAYER + 2 * HEAD + 8 * 4096 * 327680
    assert found.decode.bytes == {"hbm": chips_own, **({"pcie": host} if host else {})}
    assert found.decode.lower == pytest.approx(max(host / 64e9, chips_own / 3.35232e12))
    assert found.decode.flops == whole.decode.flops
    norms = 2 * 2 * 8192 * layers
    assert whole.memory.parts["weights"] - found.memory.parts["weights"] == host + norms
    assert found.to_dict()["host_layers"] == layers


def test_chips_read_their_parts_of_what_the_host_holds() -> None:
    one = llm("llama-3-70b", on="h100:4", tensor=4, batch=[1, 8], context=4095, host_layers=40, policy="streamed")
    assert one.decode.lower.tolist() == pytest.approx([40 * LAYER * 2 / 4 / 64e9] * 2)
    experts = llm("mixtral-8x7b", on="h100", batch=1, context=100, host_layers=32, policy="streamed").decode
    # two of eight experts, the router, attention: what a token uses
    assert experts.bytes["pcie"] == 2 * 32 * (2 * 3 * 4096 * 14336 + 8 * 4096 + 2 * 4096 * 5120)
    assert llm("llama-3-8b", on="gh200", context=100, host_layers=32).decode.bound_by == "c2c"


def test_a_cache_in_the_hosts_memory_is_read_over_its_link() -> None:
    asked: dict[str, Any] = {"on": "h100", "batch": 32, "context": 4095, "policy": "streamed", "host_kv": True}
    found = llm("llama-3-8b", **asked)
    weights = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 128256 * 4096
    assert found.decode.bytes == {"hbm": 2 * weights, "pcie": 32 * 4096 * 131072}
    assert (found.memory.parts["kv"], found.decode.bound_by) == (0, "pcie")
    # a prompt writes its own, and latents and states of other models lie there too
    assert llm("llama-3-8b", on="h100", prompt=512, batch=2, host_kv=True).prefill.bytes["pcie"] == 2 * 512 * 131072
    latent = llm("deepseek-v3", expert=8, **{**asked, "on": "h200:8", "context": 99}).decode
    assert latent.bytes["pcie"] == 32 / 8 * 100 * 61 * 576 * 2
    hybrid = load("qwen3.5-35b-a3b")
    decode = llm(hybrid, **{**asked, "batch": 1}).decode
    states = hybrid.cache_bytes(4096) - 4096 * hybrid.kv_bytes_per_token()
    assert decode.bytes["pcie"] == 4096 * hybrid.kv_bytes_per_token() + 2 * states


@pytest.mark.parametrize(
    ("more", "change", "share"),
    [
        ({"host_kv": True}, "keys and values in the chip's memory", "they are 100% of the bytes from the host"),
        ({"host_layers": 4}, "all weights in the chip's memory", "weights are 100% of the bytes from the host"),
    ],
)
def test_advice_takes_what_the_host_holds_into_the_chips_memory(more: dict[str, Any], change: str, share: str) -> None:
    asked: dict[str, Any] = {"on": "h100", "batch": 8, "context": 4096}
    lines = {line.change: line for line in llm("llama-3-8b", **asked, **more, advise=True).further["advice"]}
    assert lines[change].after.lower == llm("llama-3-8b", **asked).decode.lower
    assert any(line.reason.startswith(share) for line in lines.values())
    # what does not fit there is not proposed
    large = llm("llama-3-70b", on="h100", context=4096, host_layers=60, advise=True).further["advice"]
    assert "all weights in the chip's memory" not in [line.change for line in large]


def test_advice_of_fewer_bits_says_whose_bytes_it_saves() -> None:
    """The matrices of DeepSeek-V3 are in fp8 but for a few: fp8 weights change those, int4 weights change all."""
    asked: dict[str, Any] = {"on": "h200:8", "tensor": 8, "batch": 8, "prompt": 4096, "phase": "prefill"}
    lines = {line.change: line.reason for line in llm("deepseek-v3", **asked, advise=True).further["advice"]}
    assert lines["fp8 weights"].startswith("those in more bits are 0.6% of the bytes")
    assert lines["int4 weights"].startswith("weights are 97% of the bytes")


def test_advice_of_fewer_bits_says_what_it_makes_fit_and_leaves_attention_its_arithmetic() -> None:
    """Keys in fp8 are multiplied in fp8 whatever the weights are stored in: the same time in half the memory."""
    lines = advise_step("qwen3-32b", "prefill", on="l40s", batch=1, prompt=4096, kv="fp8")
    (fewer,) = [line for line in lines if line.change == "fp8 weights"]
    assert (fewer.gain, fewer.options) == (pytest.approx(1), {"weights": "fp8"})
    assert fewer.reason.endswith("of the bytes: then it fits")


def test_more_chips_than_are_known_to_be_joined_are_counted_by_memory() -> None:
    """What one link of a Trainium2 carries is not known, and eight MI355X have a link to each of the others."""
    told = [
        str(llm("llama-3.1-405b", on=on, tensor=ways, batch=900, context=30000, fit=True))
        for on, ways in (("trn2", 1), ("mi355x:8", 8))
    ]
    assert [many in text for many, text in zip(("144 hold it by", "52 hold it by"), told, strict=True)] == [True, True]
    assert all("it fits no number of them that are known to be joined" in " ".join(text.split()) for text in told)


def test_no_batch_is_said_to_fill_a_memory_that_is_not_counted() -> None:
    found = llm("llama-3-8b", on="h100", batch=8, context=4096, host_kv=True)
    assert found.full_from() is None
    assert "memory holds batches" not in str(found)
    assert "memory holds batches" not in str(llm("llama-3-8b", on="h100", batch=[1, 8], context=4096, host_kv=True))
    assert found.to_dict()["kv_block"] == 1


def test_tiles_are_parts_of_what_a_chip_moves_and_of_what_the_host_holds() -> None:
    """Decode of 8 sequences: a tile of 128 rows holds all; of 4 rows each weight is loaded twice, each input again."""
    asked: dict[str, Any] = {"on": "h100", "batch": 8, "context": 4095, "policy": "tiled"}
    once, twice = (llm("llama-3-8b", **asked, tile=(rows, 128, 64)).decode for rows in (128, 4))
    weights = 2 * (32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 128256 * 4096)
    parts = [moved_by_part(step) for step in (once, twice)]
    assert [part["weights"] for part in parts] == pytest.approx([weights, 2 * weights], rel=1e-4)
    # read, and the last token's written
    assert [part["kv"] for part in parts] == [8 * 4096 * 131072 + 8 * 131072] * 2
    assert sum(parts[1].values()) == twice.total_bytes
    held = llm("llama-3-70b", **asked, weights="fp8", tile=(4, 128, 64), host_layers=10).decode
    assert held.bytes["pcie"] >= 2 * 10 * LAYER


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"host_kv": True, "fit": True}, "fit= counts the chip's memory, and keys and values are with the host"),
        ({"host_kv": True, "on": "m4-max"}, "Apple M4 Max has no figure for the link to a host's memory"),
        ({"host_layers": 2, "on": "mi300a"}, "AMD MI300A has no figure for the link to a host's memory"),
        ({"host_layers": 81}, "llama-3-70b has 80 layers, and 81 are to stay with the host; 80 at most"),
        ({"host_layers": [1, 2]}, "host_layers= is one number"),
        ({"host_layers": [0, 8]}, "host_layers= is one number"),
        ({"host_layers": -1}, "host_layers= is -1; a whole number of at least 0"),
        ({"lora": 16, "estimate": True}, "what adapters take was not measured"),
        ({"host_layers": 1, "estimate": True}, "what steps take that read the host's memory was not measured"),
    ],
)
def test_layers_that_no_host_holds(more: dict[str, Any], message: str) -> None:
    with pytest.raises(RooflineError, match=message):
        llm("llama-3-70b", **{"on": "h100", "context": 100, **more})


@pytest.mark.parametrize(
    ("name", "lists"),
    some(
        [
            ("llama-3-8b", {"lora": [8, 16], "adapters": [1, 32]}),
            ("llama-3-70b", {"host_layers": [0, 10, 40]}),
            ("deepseek-v3", {"host_kv": True, "kv_block": 16}),
            ("gpt-oss-20b", {"kv_block": [1, 64]}),
            ("whisper", {"source": 100}),
        ],
        2,
    ),
)
def test_ways_of_serving_in_a_table_are_those_of_one_answer(name: str, lists: dict[str, Any]) -> None:
    sizes: dict[str, Any] = {"batch": [1, 9], "context": some([401, 100], 2)}
    table = roofline.sweep(name, on="h100", columns=["lower", "upper", "memory"], **sizes, **lists)
    single = {option: value for option, value in lists.items() if not isinstance(value, list)}
    for row in range(len(table)):
        given = {option: table.plain(option)[row] for option in (*lists, "batch", "context") if option in table.columns}
        one = llm(name, on="h100", **single, **given)
        assert table["lower"][row] == pytest.approx(one.decode.lower, rel=1e-12)
        assert table["upper"][row] == pytest.approx(one.decode.upper, rel=1e-12)
        assert table["memory"][row] == pytest.approx(one.memory.total, rel=1e-12)
        assert table.row(row).lower == one.decode.lower
        assert serve_bound(name, "decode", on="h100", **single, **given).lower == one.decode.lower
    formula = roofline.formula(name, on="h100", **single, **given)
    assert formula(**sizes | {"batch": 9, "context": 401})["lower"] == pytest.approx(one.decode.lower, rel=1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sweep", "llama-3-8b", "--adapters", "8"], "--adapters says nothing without --lora"),
        (["sweep", "llama-3-8b", "--batch-tokens", "1M", "--host-kv"], "--host-kv is of serving, and this is training"),
        (["sweep", "bf16[B, D] * bf16[D, F]", "--kv-block", "8"], "--kv-block is about a model"),
        (["sweep", "llama-3-8b", "--lora", "8", "--estimate"], "what adapters take was not measured"),
        (["formula", "llama-3-8b", "--lora", "8,16"], "--lora has several values; a formula is of one"),
        (["llm", "llama-3-8b", "--lora", "8,16"], "--lora is one number; a whole one, as in --lora 16"),
        (["llm", "llama-3-8b", "--kv-block", "x"], "--kv-block 'x' is not a size"),
        (["plan", "llama-3-8b", "--rate", "1/s", "--prompt", "9", "--output", "9", "--lora", "8", "--estimate"],
         "what adapters take was not measured"),
    ],
)  # fmt: skip
def test_ways_of_serving_that_do_not_go_together(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--on", "h100"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "on", "batch"), some([("llama-3-70b", "h100", 8), ("qwen3-32b", "l4", 1), ("mixtral-8x7b", "a100", 4)], 3)
)
def test_the_fewest_layers_with_the_host_are_named_where_a_model_does_not_fit(name: str, on: str, batch: int) -> None:
    asked: dict[str, Any] = {"on": on, "batch": batch, "context": 4096}
    near = llm(name, **asked).nearest()
    assert near is not None
    few = near.host_layers
    assert few is not None
    assert [llm(name, **asked, host_layers=layers).memory.fits for layers in (few - 1, few)] == [False, True]
    whose = f"{few} of {len(load(name).layers)} layers"
    assert near.said[-1] == f"the weights of {whose} in the host's memory (host_layers={few})"
    # once some are there, no more are named, nor without a link to a host, nor where keys and values alone do not fit
    assert llm(name, **asked, host_layers=1).nearest().host_layers is None
    assert nearest(load("llama-3-70b"), chip("m4-max"), batch=8, context=8191).host_layers is None
    assert nearest(load("llama-3-8b"), chip("h100"), batch=100, context=8191).host_layers is None


def test_fewer_chips_are_named_that_hold_it_in_unequal_parts() -> None:
    near = nearest(load("qwen3-32b"), chip("l4"), batch=1, context=100)
    assert (near.chips, near.split, near.unequal) == (3, 4, ({"tensor": 3}, {"pipeline": 3}))
    said = "3 such chips hold it in unequal parts: tensor=3 (padded) or pipeline=3 (stages of layers), 4 in equal parts"
    assert f"{said} (tensor=4)" in near.said
    for ways in near.unequal:
        assert llm("qwen3-32b", on="l4:3", batch=1, context=100, **ways).memory.fits


def test_what_several_layouts_assume_stands_with_each_and_the_fastest_is_named(capsys: pytest.CaptureFixture[str]):
    asked = ["llm", "llama-3-70b", "--on", "h100:8", "--tensor", "8,1", "--pipeline", "1,8", "--context", "4k"]
    assert main(asked) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("llama-3-70b (Meta-Llama-3.1-70B) on 8 x NVIDIA H100")
    assert "fastest of those that fit: tensor 8, pipeline 1" in said
    assert "tensor 8, pipeline 1: operations and memory are one chip's, of 8: tensor=8 over nvlink" in said
    assert "tensor 1, pipeline 8: operations and memory are one chip's, of 8: pipeline=8 over nvlink" in said
    assert main([*asked, "--batch", "1,4", "--view", "front", "-o", "x.png"]) == 2
    assert "--pipeline has several values; give --pipeline one value" in capsys.readouterr().err


def test_a_step_over_stages_is_on_a_network_and_says_of_which_stage_its_operations_are() -> None:
    said = " ".join(str(llm("llama-3-70b", on="h100:8", pipeline=8, context=4000)).split())
    assert "1 micro-batch over 8 stages" in said
    assert "number 8: shares and operations below are of this stage" in said
    assert "one chip's, of 8: pipeline=8 over nvlink" in said
    assert "no network" not in said


def test_a_limit_of_the_network_is_said_of_the_layout_that_it_is_worked_out_for() -> None:
    """Chips that share keys and values by sequence send more than the split by heads alone."""
    shared = llm("deepseek-v3", on="h200:8", tensor=8, kv_parallel=8, batch=1024, context=1000)
    assert (shared.decode.kind, shared.network_limit("decode")) == ("network-bound", None)
    alone = llm("deepseek-v3", on="h200:8", tensor=8, batch=1024, context=1000)
    assert "the network does not bind up to tensor 128" in " ".join(str(alone).split())
    copies = " ".join(str(llm("llama-3-70b", on="h100:8")).split())
    assert "matrices alone from batch 2,361 in all, 296 on each copy" in copies


def test_a_limit_of_decoding_is_one_on_what_is_priced(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"batch": np.arange(1, 129), "context": 4000, "price": 1.8, "tpot": "30ms"}
    found = llm("llama-3-8b", on="a100", **asked)
    (within,) = found.front.within
    cost = found.cost["output"].dollars
    assert cost == pytest.approx(1e6 / (within.batch / within.time_per_token) / 3600 * 1.8)
    assert f"${cost:.4g} a million output tokens in 30 ms a token (batch {within.batch})" in " ".join(
        str(found).split()
    )
    none = llm("llama-3-8b", on="l4", **{**asked, "batch": np.array([1, 2])})
    assert none.cost["output"].dollars is None
    assert "no cost of output tokens: none of the choices is in 30 ms a token" in str(none)
    assert none.cost["output"].reason == "none that fits takes 30 ms a token or less"
    assert main(["llm", "llama-3-8b", "--on", "a100,h100", "--batch", "1,8", "--tpot", "30ms", "--price", "1,2"]) == 2
    assert "roofline sweep takes it over several machines and batches" in " ".join(capsys.readouterr().err.split())


def test_keys_and_values_of_all_sequences_are_those_of_one_chip_that_has_them_all() -> None:
    asked = {"batch": 8, "context": 4096}
    alone = llm("llama-3-8b", on="h100", **asked)
    split = llm("llama-3-8b", on="h100:8", tensor=8, **asked)
    assert alone.cache_of_all == split.cache_of_all == alone.memory.parts["kv"] == 8 * split.memory.parts["kv"]
    assert "4.3 GB of all sequences, before chips split" in " ".join(str(split).split())


def test_several_lengths_of_a_cached_prefix_have_no_cache_of_one_number() -> None:
    found = llm("llama-3-8b", on="h100", phase="prefill", prompt=64, past=[128, 4096])
    assert found.cache_of_all is None
    assert found.to_dict()["prefill"]["sizes"]["past"] == [128, 4096]


def test_the_fastest_of_several_layouts_is_so_by_what_is_timed():
    own = {"bf16": 3e14, "hbm": 2e12, "capacity": 8e10, "link": 1e11}
    asked: dict[str, Any] = {"tensor": [1, 2, 4], "context": 1000}
    found = llm("llama-3-8b", on=own, batch=4, **asked)
    assert "fastest of those that fit: by what is timed, tensor 4" in as_text(found.sections(), 200)
    hops = [line for line in found.incomplete if "hops" in line]
    assert [line.partition(" (")[0] for line in hops] == [
        "tensor 2: not timed: hops at tensor", "tensor 4: not timed: hops at tensor"
    ]  # fmt: skip
    assert untimed_parts(hops) == hops
    expected = llm("llama-3-8b", on="h100:4", batch=4, estimate=True, **asked)
    assert "fastest of those that fit: as expected, data 1, tensor 4" in as_text(expected.sections(), 200)


def test_a_front_over_layouts_says_what_each_assumes_and_holds():
    own = {"bf16": 3e14, "hbm": 2e12, "capacity": 8e10, "link": 1e11}
    found = llm("llama-3-8b", on=own, batch=[4], tensor=[1, 2, 4], context=1000, front=True).front
    assert [sum(f"{ways} chips split heads" in line for line in found.assumptions) for ways in (2, 4)] == [1, 1]
    assert any(line.startswith("tensor 2: AllReduce") for line in found.assumptions)
    assert not any("the fastest" in line for line in found.assumptions)
    assert sum("no hop latency is known" in line for line in found.assumptions) == 2
    copies = llm("llama-3-70b", on="h100:8", tensor=[1, 8], batch=[16], context=8192, front=True)
    assert "memory holds batches up to none with tensor 1, 200 with tensor 8" in str(copies.front)


@pytest.mark.parametrize(
    ("limit", "options"), some([("20 ms", {}), ("8 ms", {"tensor": 2}), ("30 ms", {"form": "upper"})], 3, 1)
)
def test_without_a_batch_the_largest_in_a_time_is_sought_after_each_context(limit, options):
    asked = {"on": "a100:4" if "tensor" in options else "a100", **options}
    found = llm("llama-3-8b", context=[2048, 8192], tpot=limit, **asked).front.within
    for choice in found:
        every = latency_throughput(
            "llama-3-8b", batch=np.arange(1, 600), context=choice.context, tpot=limit, **asked
        ).fitting
        assert choice.batch == max(each.batch for each in every if each.time_per_token <= float(limit[:-3]) / 1e3)
    assert [choice.context for choice in found] == [2048, 8192]


def test_a_batch_that_is_given_and_one_that_no_time_allows_are_not_sought(capsys):
    asked = {"on": "a100", "context": 2048}
    assert llm("llama-3-8b", **asked).decode.sizes["batch"] == 1
    assert "no choice takes 2 ms a token or less" in str(llm("llama-3-8b", tpot="2 ms", **asked).front)
    assert main(["llm", "llama-3-8b", "--on", "a100", "--context", "2048", "--tpot", "20ms"]) == 0
    assert "batch 95" in capsys.readouterr().out


def test_a_number_of_parameters_has_nothing_to_split_and_its_memory_is_counted() -> None:
    for number, ways in ((2, {"tensor": 2}), (2, {"pipeline": 2}), (2, {"context_parallel": 2}), (4, {"tensor": 4})):
        with pytest.raises(InputError) as wrong:
            llm("72.7e9", on=f"a100:{number}", prompt=128, **ways)
        assert str(wrong.value) == (
            "72.7e9 parameters: a number of parameters has no layers, heads and columns to split over chips; "
            f"pool={number} on a100 shares it evenly, links left out; fit=True counts memory; "
            "a config.json says what there is to split"
        )
    assert llm("72.7e9", on="a100", pool=4, prompt=128).prefill is not None
    found = fewest("72.7e9", on="a100")
    assert (found.chips, found.longest) == (2, None)
    said = " ".join(str(found).split())
    assert "fits on a100:2 by memory (weights alone)" in said
    assert "a number of parameters does not say what there is to split" in said
    assert "keys and values not known" in said
    assert "up to 1,024" not in said
    # copies of it run whole; a step on the fewest chips is on a pool of them
    assert llm("8e9", on="a100:2", batch=2).decode.lower == llm("8e9", on="a100").decode.lower
    pooled = llm(72.7e9, on="a100", fit=True, context=4096)
    assert pooled.target == "2 x NVIDIA A100 SXM4 80GB sharing evenly"
    assert pooled.decode.lower == pytest.approx(72.7e9 * 2 / (2 * 2.039e12), rel=1e-3)
    assert llm("72.7e9", on="a100", context=4096).nearest().said[1] == "2 such chips have the memory (pool=2)"
    assert (
        llm("7.27e15", on="a100", context=4096).nearest().said[0] == "170,858 such chips have the memory (pool=170858)"
    )
