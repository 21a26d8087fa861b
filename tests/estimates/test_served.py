"""Served steps: host, kernels and prefills between steps; sequences that wait; what has no constants."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.estimates.served import Run, drafts_tokens, layout, without_graph
from click.testing import CliRunner

from roofline import bound, llm
from roofline.cli.models import llm_command
from roofline.errors import InputError
from roofline.estimates import Estimator, estimated
from roofline.estimates.constants import shipped
from roofline.estimates.served import step_estimate
from roofline.estimates.transfer import OTHER_MODEL, transfer
from roofline.models import load as load_model
from roofline.models.serving.answer import Serving, serve
from roofline.models.serving.bound import serve_bound
from roofline.plans.question import Limits, Load, PlanQuestion
from roofline.plans.replicas import Replica, unloaded
from roofline.quantity import format_quantity
from tests.strategies import some

FP8 = {"weights": "fp8", "activations": "fp8"}


def served(library: str = "vllm", output: int | None = 1024, **asked: object) -> Serving:
    given = {"on": "h100:8", "tensor": 8, "batch": 16, "prompt": 1024, **FP8, **asked}
    return estimated(serve("llama-3.1-70b", **given), library, output=output)


def test_a_token_takes_longer_than_its_bound_and_prefills_come_between() -> None:
    found = served()
    token = found.expectation.time_per_token
    assert found.decode.lower < token.low < token.value < token.high
    assert token.value == pytest.approx(sum(token.parts.values()))
    alone = served(output=None).expectation
    assert alone.time_per_token.value < token.value
    assert any("no prefills between steps" in said for said in alone.assumptions)


@pytest.mark.parametrize(
    ("batch", "output", "tpot", "ttft"),
    [(4, 922, 9.11e-3, 70e-3), (64, 922, 15.45e-3, None), (16, 7373, 11.58e-3, None), (64, 7373, 16.49e-3, None)],
)
def test_published_runs_lie_near(batch: int, output: int, tpot: float, ttft: float | None) -> None:
    """Llama 3.1 70B in fp8 on eight H100s with vLLM, prompts of 820 to 1024 tokens (ai-dynamo/aiconfigurator)."""
    found = served(output=output, batch=batch, prompt=922, kv="bf16").expectation
    assert found.time_per_token.value == pytest.approx(tpot, rel=0.15)
    if ttft is not None:
        assert found.time_to_first_token.value == pytest.approx(ttft, rel=0.21)


@pytest.mark.parametrize(
    "asked",
    [
        {"on": "h100", "batch": 32, "context": 2048},
        {"on": "h100", "batch": 4, "prompt": 8192, "output": 1024},
        {"on": "h200", "batch": 64, "context": 8192, "library": "trtllm"},
    ],
)
def test_the_parts_of_a_time_add_up_to_it(asked: dict[str, object]) -> None:
    found = llm("llama-3-8b", estimate=True, **asked).to_dict()
    first = (found["expectation"]["time_to_first_token"], found["prefill"]) if "prompt" in asked else ()
    steps = [found["expectation"]["time_per_token"], found["decode"]["expectation"]]
    steps += [first[0], first[1]["expectation"]] if first else []
    for one in steps:
        assert sum(one["parts"].values()) == pytest.approx(one["time"], rel=1e-9)


def test_an_explanation_adds_kernels_and_host_up_to_the_time() -> None:
    found = llm("llama-3-8b", on="h100", batch=32, context=2048, estimate=True)
    step, said = found.decode.expectation, found.explain()
    kernels, host, alone = (
        format_quantity(one, "s") for one in (step.parts["kernels"], step.parts["host"], step.kernel_time)
    )
    assert f"kernels {kernels} ({alone} alone) + host {host}, from fp8 steps: bf16 was not measured" in said
    assert sum(one.value for one in step.kernels) == pytest.approx(step.kernel_time)
    same = llm("llama-3-8b", on="h100", batch=32, context=2048, weights="fp8", activations="fp8", estimate=True)
    assert "was not measured" not in same.explain()
    assert f"kernels {kernels} + host {host}, from fp8 steps" in str(found)


def test_the_error_of_a_kernel_in_another_format_is_said_to_be_its() -> None:
    asked = bound("attention(fp8[64, 1, 32, 128], fp8[64, 32768, 8, 128], fp8[64, 32768, 8, 128])", on="h100")
    told = Estimator().expect(asked).in_words()
    assert "of its main kernel in bf16 " in told.replace(" is ", " ")
    assert "none was measured for fp8" in told


@pytest.mark.parametrize(("on", "token"), [("h100", 6.5e-3), ("a100-40gb", 1 / 75)])
def test_a_request_alone_in_half_precision_lies_near_what_others_measured(on: str, token: float) -> None:
    """Llama 3.1 8B in bf16 under vLLM; the page of accuracy has the sources. Steps were measured in fp8, of 70B."""
    found = estimated(serve("llama-3.1-8b", on=on, batch=1, context=768), "vllm").expectation.time_per_token
    assert found.value == pytest.approx(token, rel=0.1)
    assert found.low < token < found.high


def test_a_step_of_another_model_has_the_interval_of_models_that_were_left_out() -> None:
    record = served().expectation.time_per_token.source
    shapes = {"batch": 16.0, "decode": 1e-2, "mixed": 0.0, "kernels": record.valid["kernels"][0]}
    same, other = (step_estimate(record, {**shapes, "kernels": shapes["kernels"] * more}, 0.0) for more in (1, 2))
    assert same.extrapolated == ()
    assert other.extrapolated == ("kernels",)
    left_out = transfer("served_step", OTHER_MODEL)
    assert left_out is not None
    assert (other.low / other.value, other.high / other.value) == pytest.approx(left_out.interval)
    assert other.low / other.value < 0.81 < 0.9 < same.low / same.value
    assert same.high / same.value < 1.15 < 1.24 < other.high / other.value
    held = step_estimate(record, shapes, 1.0)
    assert "up to its floor" in held.parts
    assert sum(held.parts.values()) == held.value == 1.0


def test_what_was_not_measured_takes_constants_drawn_to_all_runs_of_its_framework() -> None:
    """Mixtures take those of all runs; dense models stay half way, in logarithms, to those of the nearest kind."""
    mixture = estimated(serve("mixtral-8x7b", on="h100:8", tensor=8, batch=32, context=2048, **FP8), "vllm").expectation
    dense = estimated(serve("llama-2-7b", on="h100", batch=8, prompt=512, **FP8), "vllm").expectation
    chip_, form = (served(**asked, weights="bf16", activations="bf16").expectation for asked in ({"on": "a100:8"}, {}))
    for found in (mixture, dense, chip_, form):
        token = found.time_per_token
        assert token.source.values == token.source.other_model
        assert any("drawn to all runs that vllm was measured with" in said for said in found.assumptions)
    assert "kernels" in mixture.time_per_token.extrapolated
    steps = [one for one in shipped("served_step") if one.library == "vllm"]
    every = mixture.time_per_token.source.other_model
    assert all(one.other_model == every for one in steps if one.path == "mixture")
    for one in (one for one in steps if one.path == "dense" and not one.version):
        half = {name: (value * every[name]) ** 0.5 for name, value in one.values.items()}
        assert one.other_model == pytest.approx(half, rel=2e-3)
    known = served().expectation.time_per_token.source
    assert known.values != known.other_model


def test_whole_answers_follow_their_prompts_whatever_context_a_step_is_asked_for() -> None:
    """A step after 33,000 tokens is one question, answers to prompts of 1,000 are another; it says which is which."""
    asked = {"on": "h100", "batch": 4, "prompt": 1000, "output": 1024, "estimate": True}
    alone, beside = (llm("llama-3-8b", **asked, **more) for more in ({}, {"context": 33000}))
    whole, same = (each.further["generation"].expectation.value for each in (alone, beside))
    assert whole == pytest.approx(same)
    parts = alone.further["generation"].expectation
    assert whole == parts.prefill.value + 1023 * parts.step.value  # the prefill gives the first of 1024 tokens
    assert (parts.holds, parts.tokens_per_second) == (parts.step.holds, 4 * 1024 / whole)
    assert alone.expectation.time_per_token.value == beside.expectation.time_per_token.value
    assert alone.decode.estimate < beside.decode.estimate
    said = "prefills of new ones between steps, 1,512 tokens before it: expect"
    assert said in " ".join(beside.expectation.lines())
    assert "tokens before it" not in " ".join(alone.expectation.lines())
    after = llm("llama-3-8b", **asked, past=4000)
    assert after.expectation.time_per_token.value > alone.expectation.time_per_token.value


def test_a_request_does_not_wait_for_its_own_prefill() -> None:
    one, four = (served(batch=batch, output=128).expectation.time_per_token.parts for batch in (1, 4))
    each = served(batch=7, output=128).expectation.time_per_token.parts["prefill"]
    assert one["prefill"] == 0.0
    assert each == pytest.approx(2 * four["prefill"])


def test_a_step_of_a_format_that_was_not_measured_has_a_wider_interval() -> None:
    """Steps of one format stand for another: 16 of them, each held against the other's runs, are 10% off."""
    fp8, bf16 = (
        served(batch=64, weights=form, activations=form, kv="bf16").expectation.time_per_token
        for form in ("fp8", "bf16")
    )
    assert bf16.source.stand_in == ("fp8", "bf16")
    assert bf16.extrapolated == fp8.extrapolated == ()
    assert fp8.high / fp8.value < 1.2 < 1.22 < bf16.high / bf16.value
    assert bf16.low / bf16.value < 0.82 < fp8.low / fp8.value


def test_sequences_without_room_wait() -> None:
    found = served(on="h100:2", tensor=2, batch=64, prompt=8192).expectation
    assert found.batch < found.asked == 64
    assert any("the others wait" in said for said in found.assumptions)
    more = served(on="h100:2", tensor=2, batch=128, prompt=8192).expectation
    assert more.time_per_token.value == pytest.approx(found.time_per_token.value)


def test_a_token_of_a_model_that_does_not_fit_is_no_quicker_than_its_step() -> None:
    found = served(on="h100", tensor=1, batch=64, weights="bf16", activations="bf16", output=None)
    assert found.expectation.batch == found.expectation.asked == 64
    assert found.expectation.time_per_token.value == found.decode.estimate >= found.decode.lower


def test_steps_of_another_chip_are_said() -> None:
    found = served(on="a100:8", weights="bf16", activations="bf16").expectation
    assert any("steps by constants of" in said for said in found.assumptions)


def test_versions_are_asked_for_by_name() -> None:
    mine = served("sglang-0.5.1.post1", weights="bf16", activations="bf16").expectation
    assert mine.time_per_token.source.version == "0.5.1.post1"
    assert served("sglang", weights="bf16", activations="bf16").expectation.time_per_token.source.version == ""


def test_the_command_says_it() -> None:
    line = "llama-3.1-70b --on h100:8 --tensor 8 --batch 16 --prompt 1024 --output 1024 --estimate"
    line += " --weights fp8 --compute fp8"
    text = CliRunner().invoke(llm_command, line.split()).output
    assert "served by vllm" in text
    assert "the first token of a request alone: expect" in text
    data = json.loads(CliRunner().invoke(llm_command, [*line.split(), "--json"]).output)
    assert data["expectation"]["schema"] == "roofline/served/1"
    assert set(data["expectation"]["time_per_token"]["parts"]) == {"host", "kernels", "prefill"}


@pytest.mark.parametrize("library", some(["vllm", "trtllm", "sglang"], 4))
@pytest.mark.parametrize(("on", "batch"), some([("h100:8", 1), ("h200:8", 64), ("h100:2", 512), ("b200:8", 8)], 2))
def test_a_token_is_never_expected_below_its_decode_step(library: str, on: str, batch: int) -> None:
    """The step is told as the framework runs it, also where only some sequences have room."""
    found = served(library, on=on, tensor=int(on.partition(":")[2]), batch=batch, output=None)
    token, step = found.expectation.time_per_token, found.decode.expectation
    assert step.framework == token.basis
    if found.expectation.batch == found.expectation.asked:
        assert token.value == pytest.approx(step.value)
    assert found.expectation.time_per_token.value > 0
    more = served(library, on=on, tensor=int(on.partition(":")[2]), batch=batch, output=256)
    assert more.expectation.time_per_token.value >= token.value


def test_without_a_graph_the_host_starts_each_kernel() -> None:
    """A step of few sequences takes what the host needs for its kernels; a long prefill hides the host."""
    asked = serve("llama-3.1-8b", on="h100", batch=1, prompt=8192)
    graph, eager = estimated(asked, "vllm"), estimated(asked, "vllm", eager=True)
    host = Estimator("vllm", eager=True).host_time(asked.decode.machine)
    assert 5e-6 < host < 3e-5
    runs = Estimator("vllm").expect(asked.decode).runs
    token = eager.expectation.time_per_token
    assert token.value == pytest.approx(max(runs * host, graph.expectation.time_per_token.value))
    assert eager.decode.estimate >= graph.decode.estimate
    assert eager.prefill.estimate == pytest.approx(graph.prefill.estimate)
    assert any("no CUDA graph" in str(said) for said in eager.decode.assumptions)
    shared = Estimator("vllm", eager=True).expect(
        serve_bound("llama-3.1-8b", "decode", on="h100:8", tensor=8, context=256)
    )
    assert shared.value == pytest.approx(shared.runs * shared.host)
    assert shared.low == shared.value < 0.95 * shared.high
    with pytest.raises(InputError, match="without a CUDA graph is not known on mi300x"):
        estimated(serve("llama-3.1-8b", on="mi300x", batch=1, context=100), "vllm", eager=True)


def test_steps_are_of_the_format_that_most_weights_are_held_in() -> None:
    """One token reads four of 128 experts, fewer bytes than of attention: its steps are those of the others still."""
    asked = {"on": "h200:8", "tensor": 8, "prompt": 64, "context": 128, "estimate": True}
    one, many = (llm("gpt-oss-120b", batch=batch, **asked).expectation for batch in (1, 64))
    assert {each.time_per_token.source.dtype for each in (one, many)} == {"mxfp4"}
    assert one.time_per_token.value < many.time_per_token.value


@pytest.mark.parametrize("name", some(["gpt-oss-120b", "deepseek-v3"], 2))
def test_a_plan_takes_the_steps_that_serving_takes(name: str) -> None:
    load = Load(1.0, 64, 128)
    asked = PlanQuestion(load_model(name), load, Limits(), ("h200",), (8,), objective="chips", library="vllm")
    planned = unloaded(asked, Replica("h200", "stored", tensor=8))
    served = llm(name, on="h200:8", tensor=8, batch=planned.most, context=load.mean_context, estimate=True)
    assert planned.step[-1] == pytest.approx(served.decode.expectation.value, rel=0.01)
    assert "(80%)" in planned.assumptions[-1]


@pytest.mark.parametrize(
    ("name", "asked"),
    some([("llama-3.1-70b", {"on": "h100:16", "tensor": 16}), ("deepseek-v3", {"on": "h200:8", "expert": 8})], 2),
)
def test_one_serving_has_one_expectation_however_it_is_said(name: str, asked: dict[str, object]) -> None:
    """Engines pass half precision from kernel to kernel, so activations in 8 bits are products and a cache in them."""
    found = []
    for formats in ({"activations": "fp8"}, {"compute": "fp8"}, {"compute": "fp8", "activations": "fp8"}):
        given = {"batch": 64, "prompt": 512, "context": 2048, "weights": "fp8", "kv": "fp8", **asked, **formats}
        answer = estimated(serve(name, **given), "vllm", output=512)
        times = answer.expectation.time_per_token, answer.expectation.time_to_first_token
        phases = answer.prefill.expectation, answer.decode.expectation
        said = any("between kernels in half precision" in str(line) for line in answer.decode.assumptions)
        assert said == ("activations" in formats)
        found.append([(each.low, each.value, each.high) for each in (*times, *phases)])
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("on", "formats"),
    [("h100", {"weights": "int8", "compute": "int8"}), ("a100", {"weights": "fp8", "compute": "fp8"})],
)
def test_nothing_is_expected_where_nothing_was_measured(on: str, formats: dict[str, str]) -> None:
    """The first token in int8, of which no kernels and no steps are known; any step in a format without units."""
    assert estimated(serve("llama-3.1-8b", on=on, batch=4, prompt=512, **formats), "vllm").expectation is None


def test_steps_are_of_the_engine_that_was_asked_for() -> None:
    """Where an engine's were not measured on a chip, its own on another one stand in, and no other engine's."""
    for library, name, on in (("trtllm", "llama-3.1-8b", "h100"), ("sglang", "gpt-oss-120b", "h100:4")):
        asked = serve(name, on=on, batch=4, prompt=512, **({"tensor": 4} if ":" in on else {}))
        found = estimated(asked, library).expectation
        steps = filter(None, (found.time_per_token, found.time_to_first_token))
        assert {step.source.library for step in steps} == {library}


def test_the_host_starts_each_kernel_of_a_first_token_and_takes_longer_for_experts() -> None:
    """Of a prompt by its tokens, of kernels by their number, and of each layer of experts by a time of its own."""
    asked = serve("gpt-oss-120b", on="h200:8", tensor=8, batch=1, prompt=2048, past=1024)
    prefill = Estimator().expect(asked.prefill)
    first = estimated(asked, "vllm").expectation.time_to_first_token
    values = first.source.values
    assert prefill.layers_of_experts == 36
    host = values["token_time"] * 3072 + values["gap"] * prefill.runs + values["expert_time"] * 36
    assert first.parts["host"] == pytest.approx(host)


def test_experts_that_no_unit_need_convert_take_no_constants_of_kernels_that_convert() -> None:
    """In mxfp4 on B200, whose steps vLLM was measured with; GB200 is of its generation, RTX PRO 6000 converts."""
    for on, is_known in (("b200", False), ("gb200", False), ("h200", True), ("rtx-pro-6000", True)):
        asked = estimated(serve("gpt-oss-120b", on=on, batch=8, prompt=1024, context=2048), "vllm")
        experts = next(one for one in Estimator().expect(asked.prefill).kernels if one.run.kernel == "experts")
        assert (experts.source is not None) == is_known, on
        assert asked.expectation.time_per_token.value > asked.decode.lower
    # TensorRT-LLM's steps in mxfp4 were not measured there: those in nvfp4 stand for them
    other = estimated(serve("gpt-oss-120b", on="b200:2", data=2, expert=2, batch=256, prompt=922, kv="fp8"), "trtllm")
    token = other.expectation.time_per_token
    assert token.source.stand_in == ("nvfp4", "mxfp4")
    assert token.low < 11.05e-3 < token.high  # as published with the prefills of others


def a_row(**told: str) -> dict[str, str]:
    """A row of published runs, as far as its reader looks."""
    ways = {"tp_size": "8", "attention_dp_size": "1", "moe_tp_size": "8", "moe_ep_size": "1"}
    names = {"backend": "trtllm", "model_path": "deepseek-ai/DeepSeek-R1", "backend_version": "1.2.0rc6.post2"}
    rest = {"silicon_data_source": "measured=2026-02-03", "batch_size": "16", "concurrency": "16"}
    return {**ways, **names, **rest, **told}


def test_runs_that_draft_tokens_are_told_by_their_release_or_day() -> None:
    """TensorRT-LLM's of DeepSeek alone: other engines and models have such releases and days without drafts."""
    assert not drafts_tokens(a_row())
    assert drafts_tokens(a_row(backend_version="1.2.0rc6.post3"))
    assert drafts_tokens(a_row(silicon_data_source="config=1; measured=2026-01-14T00:00"))
    assert not drafts_tokens(a_row(backend_version="1.2.0rc6.post3", model_path="openai/gpt-oss-120b"))


def test_a_batch_of_each_chip_says_that_attention_is_split_by_sequences() -> None:
    """A row that states no ways of attention, and eight times its batch at once, has eight copies of attention."""
    assert layout(a_row()) == (8, 1, 1)
    assert layout(a_row(attention_dp_size="", moe_tp_size="1", moe_ep_size="8", concurrency="128")) == (1, 8, 8)
    assert layout(a_row(attention_dp_size="", moe_tp_size="1", moe_ep_size="8")) == (8, 1, 8)


@pytest.mark.parametrize(("growth", "left_out"), [(1.0, 0), (0.5, 0), (0.05, 5)])
def test_steps_whose_time_does_not_follow_their_kernels_are_of_no_graph(growth: float, left_out: int) -> None:
    """Four runs of one layout, and one of another, which goes with them; four of like kernels tell nothing."""
    key = {"library": "vllm", "path": "mixture", "chip": "h200", "dtype": "fp8", "version": "0.12.0"}
    model = ("Qwen/Qwen3-235B-A22B-FP8", "h200_sxm", "vllm", "0.12.0", "fp8")

    def runs(tensor: str, times: list[float]) -> list[Run]:
        shapes = [{"bf16": {"decode": each, "mixed": 0.0}} for each in times]
        told = (*model, tensor, "", "1", "1000", "1000")
        return [Run(key, told, one, {}, 8, one["bf16"]["decode"] ** growth, 0.0, 0.0) for one in shapes]

    few = runs("4", [0.02, 0.021, 0.022, 0.0205])
    assert not without_graph(few)
    assert len(without_graph([*few[:1], *runs("2", [0.01, 0.012, 0.015, 0.02])])) == left_out
