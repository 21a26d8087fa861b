"""Expectations of bounds: never below the bound, kernels as libraries run them, what has no constants is said."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline import bound, llm, train
from roofline.cli import main
from roofline.errors import InputError
from roofline.estimates import estimated, vector_and_collectives
from roofline.estimates.accuracy import FURTHEST, accuracy
from roofline.estimates.constants import KERNELS, shipped
from roofline.estimates.estimator import Estimator, KernelRun, chip_figures, kernels_of
from roofline.estimates.kernel_model import ChipFigures
from roofline.hardware import chip
from roofline.models import serve, serve_bound
from roofline.rendering.terminal import as_text
from roofline.sections import Table
from tests.models.small import small
from tests.strategies import some


@pytest.mark.parametrize("library", ["vllm", "trtllm", "sglang"])
@pytest.mark.parametrize("chip", ["a100", "h100", "l40s", "rtx-pro-6000"])
def test_a_decode_step_is_expected_above_its_bound(chip: str, library: str) -> None:
    answer = serve_bound("llama-3-8b", "decode", on=chip, batch=16, context=2048)
    found = Estimator(library).expect(answer)
    assert answer.op_by_op <= found.value
    assert found.low <= found.value <= found.high
    assert 1.0 < found.value / answer.lower < 4
    assert all(one.value >= one.run.floor for one in found.kernels)


def test_an_interval_at_the_bound_has_a_width() -> None:
    """Warm rows of others are faster than the bound of cold data: the expectation is the bound, its interval is not."""
    answer = bound("attention(bf16[1, 1, 32, 128], bf16[1, 8192, 8, 128], bf16[1, 8192, 8, 128], causal)", on="l4")
    found = Estimator().expect(answer)
    assert found.low == found.value == answer.lower
    assert found.high > 1.1 * found.value


def test_a_step_finds_no_weights_and_no_keys_in_cache() -> None:
    """Eight megabytes stay in an L40S's cache when one kernel runs alone; in a step other kernels put them out."""
    step = serve_bound("llama-3-8b", "decode", on="l40s", batch=1, context=2048)
    estimator = Estimator()
    for run in kernels_of(step):
        if run.kernel in ("contraction", "decode_attention"):
            assert run.shapes["beside"] > 1e10
            alone = replace(run, parts=(), shapes={**run.shapes, "beside": 0.0})
            assert estimator.kernel(run, step.machine).value >= estimator.kernel(alone, step.machine).value * run.repeat
    (attention,) = (run for run in kernels_of(step) if run.kernel == "decode_attention")
    assert estimator.kernel(attention, step.machine).value > 1.1 * attention.floor
    assert "beside" not in kernels_of(bound("bf16[64, 64] @ bf16[64, 64]", on="l40s"))[0].shapes


def attention(queries: int, keys: int, options: str, on: str = "h100") -> float:
    heads = f"bf16[4, {queries}, 16, 128], bf16[4, {keys}, 16, 128], bf16[4, {keys}, 16, 128]"
    return float(Estimator().expect(bound(f"attention({heads}{options})", on=on)).value)


def test_attention_without_a_mask_takes_constants_of_encoders_and_elsewhere_those_of_prefill() -> None:
    image = ", ".join(["fp16[8, 576, 16, 72]"] * 3)
    on = {key: Estimator().expect(bound(f"attention({image})", on=key)) for key in ("h100", "b60")}
    seen, other = (each.kernels[0] for each in on.values())
    assert seen.run.kernel == other.run.kernel == "unmasked_attention"
    assert (seen.basis, seen.stand_in, seen.extrapolated) == ("h100 vllm", (), ())
    assert (other.basis, other.stand_in) == ("b60 vllm", ("prefill_attention", "unmasked_attention"))
    assert on["b60"].holds == "extrapolated"
    narrow = Estimator().expect(bound(f"attention({image.replace('fp16', 'fp8')})", on="h100")).kernels[0]
    assert narrow.run.kernel == "prefill_attention"  # no encoder was measured in fewer bits


@pytest.mark.parametrize("on", some(["a100", "h100", "l40s", "b200", "rtx-pro-6000"], 2))
def test_more_tokens_after_many_take_no_less_and_no_kernel_much_longer_than_another(on: str) -> None:
    line = "attention(bf16[1, Q, 32, 128], bf16[1, K, 8, 128], bf16[1, K, 8, 128], causal)"
    for past, library in itertools.product((512, 131072), ("vllm", "trtllm", "sglang")):
        tokens = (1, 16, 17, 32, 64, 256)
        found = [Estimator(library).expect(bound(line, on=on, Q=each, K=past + each)).value for each in tokens]
        assert sorted(found) == found
        assert found[2] < 2.8 * found[1]
    for tokens, library in itertools.product((40, 2747), ("vllm", "trtllm", "sglang")):
        keys = (tokens + past for past in (0, 69, 106, 138, 212, 4096))
        found = [Estimator(library).expect(bound(line, on=on, Q=tokens, K=each)).value for each in keys]
        assert all(more > 0.99 * less for less, more in itertools.pairwise(found))


def test_attention_takes_the_time_of_the_keys_that_its_mask_shows() -> None:
    causal = attention(4096, 4096, ", causal")
    assert 1.25 * causal < attention(4096, 4096, "") < 2 * causal  # the causal one writes its keys into a cache too
    assert attention(4096, 4096, ", causal, window=512") < 0.7 * causal
    assert attention(4096, 4096, ", causal, window=4096") == pytest.approx(causal, rel=0.2)  # the window's kernel
    assert attention(1, 65536, ", causal, window=512") < 0.1 * attention(1, 65536, ", causal")
    assert attention(4096, 64, "") < 0.5 * causal


@pytest.mark.parametrize("on", ["h100", "a100", "rtx-pro-6000"])
@pytest.mark.parametrize("keys", [8192, 65536])
def test_a_few_tokens_after_many_read_the_keys_as_one_does(on: str, keys: int) -> None:
    """As a draft is checked. A kernel of prefill, which cuts no keys, would take twice to five times as long."""
    one = attention(1, keys, ", causal", on=on)
    assert one <= attention(4, keys, ", causal", on=on) < 1.1 * one
    latents = [
        bound(f"attention(bf16[64, {tokens}, 16, 576], bf16[64, {keys}, 1, 576], bf16[64, {keys}, 1, 512])", on=on)
        for tokens in (1, 4)
    ]
    alone, four = (Estimator("sglang").expect(one).value for one in latents)
    assert alone <= four < 4 * alone


@pytest.mark.parametrize("library", some(["vllm", "trtllm", "sglang"], 3, 1))
def test_more_keys_before_a_few_tokens_never_take_less(library: str) -> None:
    """The first key makes a draft of a prompt, which another kernel runs: it took down to a third of the time."""
    line = "attention(bf16[B, S, 32, 128], bf16[B, L, H, 128], bf16[B, L, H, 128], causal)"
    for on, batch, tokens, heads in itertools.product(("h100", "rtx-pro-6000"), (1, 64), (2, 16), (8, 32)):
        keys = tokens + np.array([0, 1, 2, 16, 64, 512])
        sizes = {"B": batch, "S": tokens, "H": heads, "L": keys}
        found = estimated(bound(line, on=on, sizes=sizes), library).estimate
        assert (np.diff(found) >= -1e-12 * found[1:]).all(), (on, sizes, found)


@pytest.mark.parametrize("library", ["vllm", "trtllm", "sglang"])
def test_a_prompt_of_one_token_takes_no_more_than_one_of_two_nor_than_one_after_another(library: str) -> None:
    line = "attention(bf16[1, S, 32, 128], bf16[1, L, 8, 128], bf16[1, L, 8, 128], causal)"
    for on in ("h100", "a100", "l40s", "rtx-pro-6000"):
        one, prompt, later = estimated(bound(line, on=on, S=[1, 2, 1], L=[1, 2, 2]), library).estimate
        assert one <= min(prompt, later), on


@pytest.mark.parametrize("start", ["FlashAttention-3 forward", "dense attention forward on Blackwell"])
def test_attention_without_a_mask_lies_in_its_interval(start: str) -> None:
    """Figures of the kernels' authors: the other half of the pairs was left out of what was expected."""
    path = Path(__file__).parents[1] / "data" / "published_measurements.json"
    case = next(one for one in json.loads(path.read_text(encoding="utf-8"))["cases"] if one["id"] == start)
    found = Estimator().expect(bound(case["text"], on=case["on"], sizes=case.get("sizes"), **case.get("options", {})))
    assert found.low < case["seconds"] < found.high


def test_a_step_in_a_graph_does_not_wait_for_the_host_that_started_a_measured_kernel() -> None:
    step = serve_bound("deepseek-v3", "decode", on="h100:8", tensor=8, batch=8, context=1024, weights="fp8")
    (run,) = (run for run in kernels_of(step) if run.kernel == "latent_decode" and run.repeat > 3)
    graph, eager = Estimator().kernel(run, step.machine), Estimator(eager=True).kernel(run, step.machine)
    host = graph.source.values["launch_time"] * run.repeat
    assert graph.value < 0.5 * host < eager.value
    alone = replace(run, shapes={name: size for name, size in run.shapes.items() if name != "beside"})
    assert Estimator().kernel(alone, step.machine).value > 0.99 * host


def test_kernels_run_as_libraries_run_them() -> None:
    answer = serve_bound("llama-3-8b", "decode", on="h100", batch=16, context=2048)
    names = [run.name for run in kernels_of(answer)]
    assert "q_proj + k_proj + v_proj" in names
    assert "up_proj + gate_proj" in names
    assert "add_attention + post_attention_layernorm" in names
    experts = [
        run
        for run in kernels_of(serve_bound("mixtral-8x7b", "decode", on="h100", batch=16, context=100))
        if run.kernel == "experts"
    ]
    assert len(experts) == 1
    shapes = experts[0].shapes
    assert (shapes["picks"], shapes["hidden"], shapes["inter"], shapes["products"]) == (32, 4096, 14336, 3)


@pytest.mark.parametrize(
    ("ways", "told"),
    [
        ({"tensor": 8}, {"picks": 512, "experts": 256, "tokens": 64, "choices": 512}),
        # a chip has an eighth of the experts, gets each token that chose one of them once, and reads all its choices
        ({"data": 8, "expert": 8}, {"picks": 64, "experts": 32, "tokens": 29.04, "choices": 232.3}),
    ],
)
def test_experts_of_a_chip_are_told_as_those_that_were_measured(ways: dict[str, int], told: dict[str, float]) -> None:
    step = serve_bound("deepseek-v3", "decode", on="h200:8", batch=64, context=1024, weights="fp8", **ways)
    (run,) = (run for run in kernels_of(step) if run.kernel == "experts")
    assert {name: run.shapes[name] for name in told} == pytest.approx(told, rel=1e-3)


@pytest.mark.parametrize("phase", ["decode", "prefill"])
@pytest.mark.parametrize("model", ["llama-3-8b", "deepseek-v3", "gpt-oss-120b"])
def test_kernels_have_all_shapes_that_their_constants_were_fitted_with(model: str, phase: str) -> None:
    step = serve_bound(
        model, phase, on="h200:8", tensor=8, batch=8, **{"context" if phase == "decode" else "prompt": 512}
    )
    for run in kernels_of(step):
        assert set(KERNELS[run.kernel].shapes) <= {*run.shapes, "window"}, run.name


def test_every_operation_is_in_one_kernel() -> None:
    for model in ("llama-3-8b", "mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b"):
        answer = serve_bound(model, "decode", on="h100", batch=4, context=512)
        inside = [id(part) for run in kernels_of(answer) for part in run.parts]
        assert sorted(inside) == sorted(id(part) for part in answer.ops if part.times)


def test_what_comes_from_another_chip_or_has_no_constants_is_said() -> None:
    answer = bound("bf16[64, 8192] @ bf16[8192, 8192]", on="h200")
    found = Estimator().expect(answer)
    assert found.kernels[0].source is not None
    assert found.kernels[0].source.transferred_from == "its generation"
    assert "only" not in found.in_words()
    told = "the error of matmul (contraction) is of 78 runs that such constants were not fitted to, baidu-research/"
    assert told in str(found.assumptions)
    own = Estimator().expect(bound("bf16[64, 8192] @ bf16[8192, 8192]", on="h100")).assumptions
    assert "is of 350 runs that such constants were not fitted to, ai-dynamo/aiconfigurator" in str(own)
    eight = Estimator().expect(bound("fp8[64, 8192] @ fp8[8192, 8192]", on="h200"))
    assert "median error of its main kernel 7.7%, measured of matmul (contraction) only" in eight.in_words()
    elsewhere = Estimator().expect(bound("bf16[64, 8192] @ bf16[8192, 8192]", on="b200"))
    assert elsewhere.high / elsewhere.low > found.high / found.low


def test_unknown_library_lists_those_there_are() -> None:
    with pytest.raises(InputError, match="no constants of a library 'llamacpp'"):
        Estimator("llamacpp")


def test_accuracy_is_filtered_and_told() -> None:
    found = accuracy("h100", kernel="gemm")
    assert {row.chip for row in found.records} == {"h100"}
    assert "contraction" in found.records[0].kernel
    assert found.to_dict()["schema"] == "roofline/accuracy/1"
    assert "h100 · matmul (contraction)" in as_text(found.sections(), 200)
    assert "quantised matmul, block scales" in as_text(found.sections(), 200)
    with pytest.raises(InputError, match=r"no constants of matmul .* stand for v5e, so only bounds hold.*calibrate"):
        accuracy("v5e", kernel="gemm")
    with pytest.raises(InputError, match=r"no constants of vllm fp32; accuracy\(\) lists what there is"):
        accuracy(dtype="fp32", library="vllm")
    said = as_text(accuracy("v5e").sections(), 400)
    assert "training step" in said  # published steps tell of every chip
    assert "bounds only" in said
    assert "makes constants from ten runs" in said


def test_of_many_groups_the_furthest_off_are_shown_and_all_are_written(tmp_path: Path) -> None:
    found = accuracy("l40s")
    told = as_text(found.sections(), 200)
    shown = [line for line in told.splitlines() if line.startswith("  l40s ")]
    assert len(shown) == FURTHEST
    assert f"the {FURTHEST} of {len(found.records)} groups of kernels that are furthest off" in told
    assert "of the middle group of each kind" in told
    path = tmp_path / "groups.csv"
    assert main(["accuracy", "l40s", "-o", str(path)]) == 0
    assert len(path.read_text().splitlines()) == len(found.records) + 1
    assert len(found.plain_table()[1]) == len(found.records)


def test_accuracy_is_of_a_format() -> None:
    found = accuracy("h100", op="gemm", dtype="e4m3")
    assert {one.dtype for one in found.records} == {"fp8"}
    assert found.records == tuple(one for one in accuracy("h100", op="gemm").records if one.dtype == "fp8")
    assert {formats for one in accuracy("h200", dtype="fp8").borrowed for formats in one.formats} == {"fp8"}
    with pytest.raises(InputError, match="dtype= picks shipped errors"):
        accuracy("h100", dtype="fp8", runs=[{"m": 64, "n": 64, "k": 64, "us": 9}])
    runs = [{"gpu": "H100", "m": m, "n": 4096, "k": 4096, "us": 20 + m / 9} for m in (64, 128)]
    assert accuracy(runs=runs).to_dict() == accuracy("h100", runs=runs).to_dict()


@pytest.mark.parametrize(
    ("chip", "op", "words"),
    some(
        [
            ("h20", "moe", "those of others were not tried: median error 7.7% is of matmul (contraction) elsewhere"),
            ("gaudi3", None, "of a training step on other chips, median error 8.8%"),
            ("h200", "matmul", "by those of other chips, median error 7.7% elsewhere"),
        ],
        2,
    ),
)
def test_the_headline_of_accuracy_says_first_that_nothing_was_measured_on_the_chip(
    chip: str, op: str | None, words: str
) -> None:
    lead = as_text(accuracy(chip, op=op).sections(), 300).splitlines()[2]
    assert lead.strip().startswith("no measurements of this kind on this chip; ")
    assert words in lead
    assert "no measurements" not in as_text(accuracy("h100", op="attention").sections(), 300)
    borrowed = accuracy("b200", op="attention").borrowed
    assert len({(one.kernel, one.seen.to) for one in borrowed}) == len(borrowed)  # the same errors once


def test_accuracy_tells_whose_constants_a_chip_without_its_own_takes() -> None:
    """Each answer of ``--estimate`` has its error here: whose constants, by which kind of transfer, tried on what."""
    found = accuracy("h200", op="matmul")
    said = as_text(found.sections(), 200)
    for words in ("no constants of its own", "h100 (its generation)", "7.7%", "0.88 to 1.28", "M40, TitanX", "78"):
        assert words in said
    held = found.to_dict()["borrowed"]
    assert {(one["kernel"], *one["chips"]) for one in held} == {
        ("contraction", "h100"),
        ("quantised_contraction", "h100"),
        ("batched_contraction", "h100"),
        ("quantised_batched_contraction", "h100"),
    }
    assert "decode attention: not tried with constants of its generation" in as_text(
        accuracy("h200", op="decode").sections(), 200
    )
    assert "a100 and a40 (another generation)" in as_text(accuracy("h100", op="norm").sections(), 200)


@pytest.mark.parametrize(
    "on", some(["h200", "b200", "l4", "a10", "gb200", "h20", "t4", "h100", "mi300x", "v5e", "b60"], 2, 1)
)
def test_what_is_expected_has_an_accuracy(on: str) -> None:
    """Where an expected time is given, accuracy has the error that it says; where none is, accuracy promises none."""
    half = "fp16" if on == "t4" else "bf16"
    lines = {
        "contraction": f"{half}[64, 8192] @ {half}[8192, 8192]",
        "quantised_contraction": "fp8[64, 8192] @ fp8[8192, 8192]",
        "decode_attention": f"attention({half}[8, 1, 32, 128], {half}[8, 4096, 8, 128], {half}[8, 4096, 8, 128])",
        "norm": "rmsnorm(bf16[4096, 8192])",
    }
    for kernel, line in lines.items():
        expected = estimated(bound(line, on=on)).expectation
        try:
            told = accuracy(on, op=kernel, library=expected.kernels[0].source and expected.kernels[0].source.library)
        except InputError:
            assert not expected.is_known
            continue
        assert expected.is_known, (on, kernel)
        errors = [one.error["mdape"] for one in told.records if one.kernel == kernel]
        errors += [one.seen.error["mdape"] for one in told.borrowed if one.kernel == kernel]
        assert expected.kernels[0].source.error["mdape"] in errors


def test_a_product_in_fp8_says_that_its_quantiser_is_in_the_time() -> None:
    fp8, bf16 = (estimated(bound(f"{x}[64, 8192] @ {x}[8192, 8192]", on="h100")) for x in ("fp8", "bf16"))
    (said,) = [line for line in fp8.assumptions if "quantises its activations" in line]
    parts = fp8.expectation.kernels[0].parts
    assert said.endswith(f"{parts['quantise'] * 1e6:.3g} µs of the time")
    assert not [line for line in bf16.assumptions if "quantises" in line]


def test_an_error_is_not_said_of_what_lies_outside_the_measured() -> None:
    sizes = {"tensor": 4, "context": 4096, "estimate": True}
    inside, outside = (llm("llama-3-70b", on="h200:4", batch=batch, **sizes).expectation for batch in (32, 1))
    assert "; median error " in inside.time_per_token.in_words("a token")
    said = "; outside the measured batch; inside, median error of fp8 steps "
    assert said in outside.time_per_token.in_words("a token")


def test_each_row_of_the_accuracy_of_served_steps_says_what_it_is_of() -> None:
    found = accuracy("h100", kernel="served_step")
    table = next(each for each in found.sections() if isinstance(each, Table))
    assert len({row.cells[:4] for row in table.rows}) == len(table.rows)
    assert "trtllm 1.0.0rc3" in as_text(found.sections(), 200)
    assert "all its versions together" in as_text(found.sections(), 200)


def test_attention_in_fp8_finds_the_constants_of_its_format() -> None:
    """Fits and estimates name the kernels of attention by one rule."""
    line = "attention(fp8[4, 32, 1024, 128], fp8[4, 8, 1024, 128], fp8[4, 8, 1024, 128], causal)"
    found = Estimator("trtllm").expect(bound(line, on="h100"))
    assert [one.basis for one in found.kernels] == ["h100 trtllm"]


@pytest.mark.parametrize("chip", ["v5e", "mi300x"])
def test_nothing_is_promised_of_a_chip_of_another_vendor(chip: str) -> None:
    answer = estimated(bound("bf16[4096, 8192] * bf16[8192, 8192]", on=chip))
    assert answer.estimate is None
    assert estimated(bound("relu(bf16[4096])", on="grace")).estimate is None  # a CPU of a vendor of GPUs
    assert "no expectation: no constants of vllm are known for contraction in bf16" in answer.expectation.in_words()
    assert answer.to_dict()["expectation"]["time"] is None


@pytest.mark.parametrize(("on", "dtype"), [("a10", "fp8"), ("t4", "bf16"), ("v100", "bf16"), ("b580", "fp8")])
def test_nothing_is_promised_without_units_of_the_format(on: str, dtype: str) -> None:
    """The product runs in another format there, and so another kernel does."""
    answer = estimated(bound(f"{dtype}[4096, 8192] * {dtype}[8192, 8192]", on=on))
    assert not answer.expectation.is_known


def test_units_of_half_precision_are_those_of_the_format_asked() -> None:
    """A T4 has them for fp16, and no bf16."""
    answer = estimated(bound("fp16[4096, 8192] * fp16[8192, 8192]", on="t4"))
    assert 1 < answer.estimate / answer.lower < 1.6


def test_constants_of_a_chip_go_with_the_figures_they_were_fitted_with() -> None:
    """The measured RTX PRO 6000 is the server's, with slower memory than the data sheet of the workstation's."""
    for record in shipped():
        if all(name in record.figures for name in ChipFigures._fields) and "link" not in record.figures:
            run = KernelRun(record.kernel, record.dtype, record.path, {}, ())
            found = chip_figures(chip(record.chip), record, run)
            assert found._asdict() == pytest.approx({name: record.figures[name] for name in found._fields})


def test_nothing_is_expected_where_most_of_the_time_has_no_constants() -> None:
    """Of nvfp4 on another generation nothing is known: bounds of its products do not pass for what to expect."""
    asked = {"on": "b200", "batch": 4, "prompt": 512, "context": 512}
    known, unknown = (
        estimated(serve("llama-3-8b", weights=dtype, activations=dtype, **asked)) for dtype in ("fp8", "nvfp4")
    )
    assert known.prefill.expectation.is_known
    assert known.prefill.estimate > known.prefill.lower
    found = unknown.prefill.expectation
    assert not found.is_known
    assert unknown.prefill.estimate is None
    assert "are known for quantised contraction in nvfp4" in found.in_words()
    assert not any("its bound is taken" in line for line in found.assumptions)
    assert unknown.prefill.to_dict()["expectation"]["known"] is False
    # a framework's steps were measured in this format, and tell of it
    assert unknown.decode.expectation.is_known
    assert unknown.decode.estimate == unknown.expectation.time_per_token.value


COLD = [
    "bf16[{m}, {k}] @ bf16[{k}, {n}]",
    "fp8[{m}, {k}] @ fp8[{k}, {n}]",
    "attention(bf16[{b}, 32, {s}, 128], bf16[{b}, 8, {s}, 128], bf16[{b}, 8, {s}, 128], causal)",
    "softmax(bf16[{m}, {n}])",
    "conv(bf16[{b}, 64, 64, {c}], bf16[3, 3, {c}, 128])",
]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.data())
def test_nothing_is_expected_below_its_bound(data: st.DataObject) -> None:
    """Data is cold: each kernel takes at least its bound, and a step at least its operations one after the other."""
    draw = {name: data.draw(st.integers(1, most)) for name, most in (("b", 64), ("s", 8192), ("c", 512))}
    draw |= {name: 16 * data.draw(st.integers(1, 1024)) for name in ("m", "n", "k")}
    line = data.draw(st.sampled_from(COLD)).format(**draw)
    on = data.draw(st.sampled_from(["a100", "h100", "h200", "b200", "l40s", "l4", "rtx-5090", "a10", "v100", "mi300x"]))
    answer = bound(line, on=on)
    found = Estimator(data.draw(st.sampled_from(["vllm", "trtllm", "sglang"]))).expect(answer)
    assert answer.op_by_op <= found.value * (1 + 1e-12), line
    assert found.low <= found.value <= found.high
    assert all(one.low >= one.run.floor * (1 - 1e-12) for one in found.kernels)
    for one in found.kernels:
        if one.source is not None:
            assert sum(one.parts.values()) == pytest.approx(one.value / one.run.repeat)


def test_a_convolution_is_its_implicit_product_and_says_so() -> None:
    answer = estimated(bound("conv(bf16[32, 58, 58, 64], bf16[3, 3, 64, 64])", on="h100"))
    (one,) = answer.expectation.kernels
    assert one.run.kernel == "contraction"
    assert (one.run.shapes["m"], one.run.shapes["n"], one.run.shapes["k"]) == (32 * 56 * 56, 64, 9 * 64)
    read = one.run.shapes["a_bytes"] * one.run.shapes["m"] * one.run.shapes["k"]
    assert read == pytest.approx(2 * 32 * 58 * 58 * 64)
    assert any("implicit products" in line for line in answer.assumptions)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("fft(fp32[4096])", "fft"),
        ("cumsum(bf16[M, 4096])", "scan"),
        ("topk(bf16[M, 4096], k=8)", "sort"),
        ("attention(fp32[1, 64, 32, 128], fp32[1, 64, 8, 128], fp32[1, 64, 8, 128])", "prefill attention in fp32"),
    ],
)
def test_nothing_is_promised_of_a_kind_of_kernel_that_was_not_measured(line: str, kind: str) -> None:
    found = bound(line, on="h100", estimate=True, **{"M": 4096} if "M" in line else {}).expectation
    assert found.in_words().startswith(f"no expectation: no constants of vllm are known for {kind}, so only the bound")
    assert (found.to_dict()["time"], found.to_dict()["coverage"]) == (None, None)


@pytest.mark.parametrize("line", ["softmax(bf16[B, 4096])", "conv(bf16[B, 58, 58, 64], bf16[3, 3, 64, 64])"])
def test_no_share_is_promised_where_another_kind_of_kernel_stands_in(line: str) -> None:
    """Rows of norms and products were measured, none of softmax or convolution."""
    for found in (bound(line, on="h100", estimate=True, B=sizes).expectation for sizes in (32, [32, 64])):
        assert "extrapolated" in found.in_words()
        assert "80%" not in found.in_words()
        assert found.to_dict()["coverage"] is None
    product = bound("bf16[16, 8192] @ bf16[8192, 8192]; softmax(bf16[16, 64])", on="h100")
    assert "80%" in estimated(product).expectation.in_words(), "a tenth of the time may stand so"
    unknown = bound("bf16[B, 64] @ bf16[64, 64]", on="mi300x", estimate=True, B=[32, 64]).expectation
    assert unknown.to_dict()["coverage"] is None, "nothing is expected"


@pytest.mark.parametrize("kind", ["mamba", "lfm2", "recurrent_gemma"])
def test_a_convolution_of_each_channel_is_no_product(kind: str) -> None:
    """Layers with a state have one before their recurrence."""
    own = {
        "lfm2": {"layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 3},
        "mamba": {"num_key_value_heads": ..., "head_dim": ...},
    }
    more = own.get(kind, {})
    answer = estimated(serve(small(kind, **more), on="h100", batch=2, prompt=64, context=64))
    kernels = [one.run for one in answer.decode.expectation.kernels]
    mixed = [run for run in kernels if any(part.op.kind == "convolution" for part in run.parts)]
    assert mixed
    assert {run.kernel for run in mixed} == {"elementwise"}
    assert not any("implicit products" in line for line in answer.decode.assumptions)


def test_the_choice_of_keys_is_no_attention() -> None:
    step = serve_bound("deepseek-v4-flash", "prefill", on="h200:8", tensor=8, prompt=64)
    assert {run.kernel for run in kernels_of(step)} >= {"prefill_attention", "elementwise"}


def test_a_format_in_blocks_is_read_with_its_scales_as_in_the_rows_that_constants_were_fitted_to() -> None:
    (run,) = kernels_of(bound("nvfp4[64, 4096] * nvfp4[4096, 4096] -> bf16[64, 4096]", on="b200"))
    assert (run.shapes["a_bytes"], run.shapes["b_bytes"], run.shapes["out_bytes"]) == (0.5625, 0.5625, 2)


def test_elements_that_read_and_write_memory_are_kernels_of_their_own() -> None:
    """What moves through memory between two operations is no work of one kernel; fused, they are one."""
    line = "bf16[512, 4096] + bf16[512, 4096] -> x[512, 4096]; gelu(x[512, 4096]) -> y[512, 4096]; relu(y[512, 4096])"
    apart, fused = (bound(line, on="h100", policy=policy, estimate=True) for policy in ("each-op", "fused"))
    assert [len(run.parts) for run in kernels_of(apart)] == [1, 1, 1]
    assert [len(run.parts) for run in kernels_of(fused)] == [3]
    assert apart.expectation is not None
    assert fused.expectation is not None
    assert apart.expectation.low < apart.expectation.high
    assert fused.expectation.value < apart.expectation.value


#: Softmax of PyTorch along 4,096 rows that others measured, GB/s at two passes: fp32 on H100 (triton-lang/triton, pull
#: request 3766) and A100 (pytorch/pytorch, pull request 122970), fp16 on A10G (resume-site-4js). None was fitted.
SOFTMAX = {
    ("h100", "fp32", 512): 1225, ("h100", "fp32", 768): 1462, ("h100", "fp32", 12160): 1668,
    ("a100", "fp32", 256): 596, ("a10g", "fp16", 1024): 334,
}  # fmt: skip


@pytest.mark.parametrize(("on", "dtype", "columns"), SOFTMAX)
def test_a_softmax_takes_the_time_of_rows_that_are_reduced(
    on: str, dtype: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Theirs starts from memory: the benchmark clears the cache before each run."""
    monkeypatch.setattr(vector_and_collectives, "warm_share", lambda moved, *_: 0 * moved)
    answer = estimated(bound(f"softmax({dtype}[4096, {columns}])", on=on))
    (one,) = answer.expectation.kernels
    measured = one.run.bytes / (1e9 * SOFTMAX[on, dtype, columns])
    assert one.value == pytest.approx(measured, rel=0.13)
    assert one.low < measured < one.high
    assert one.high > 2 * one.low, "constants of norms are no surer than activations are by them"
    assert one.source is not None
    assert "norms" in one.source.transferred_from
    assert any("softmax by constants of" in line for line in answer.assumptions)


def test_a_norm_is_within_what_was_measured_by_its_bytes() -> None:
    (inside,) = estimated(bound("rms_norm(bf16[512, 4096])", on="a100")).expectation.kernels
    (outside,) = estimated(bound("rms_norm(bf16[262144, 8192])", on="a100")).expectation.kernels
    assert inside.extrapolated == ()
    assert outside.extrapolated == ("bytes",)
    assert outside.high / outside.value > inside.high / inside.value


def test_the_error_that_is_said_is_a_number_of_the_expectation_with_the_runs_it_is_of() -> None:
    line = "attention(bf16[8, 4096, 32, 128], bf16[8, 4096, 8, 128], bf16[8, 4096, 8, 128], causal)"
    found = bound(line, on="h100", estimate=True).expectation
    assert f"median error of its main kernel {round(100 * found.error, 1):g}%" in repr(found)
    assert f"is of {found.error_runs} runs" in found.measured_on()
    assert (found.to_dict()["error"], found.to_dict()["error_runs"]) == (found.error, found.error_runs)
    served = llm("llama-3-8b", on="h100", batch=8, context=8192, estimate=True)
    assert served.decode.expectation.error == served.expectation.time_per_token.error
    assert f"{round(100 * served.decode.expectation.error, 1):g}%" in repr(served.expectation)
    step = train("llama-3-8b", on="h100:512", batch_tokens=4e6, estimate=True).expectation
    assert f"median error {round(100 * step.error, 1):g}%" in repr(step)
    unknown = bound("bf16[64, 64] * bf16[64, 64]", on="v5e", estimate=True).expectation
    assert (unknown.error, unknown.error_runs) == (None, None)


def test_groups_of_attention_are_told_in_the_words_of_the_field_with_what_their_intervals_hold() -> None:
    found = accuracy("h100", op="decode")
    said = " ".join(str(found).split())
    assert "shared key heads: grouped-query and multi-query attention (GQA, MQA)" in said
    assert "heads of over 128 numbers, or over 16 heads to a key head" in said
    assert found.to_pandas()["80% covers"].tolist() == [one.error["coverage"] for one in found.records]
    assert "GQA" not in str(accuracy("h100", op="gemm"))


def test_training_steps_at_several_sizes_are_expected_as_each_is_alone() -> None:
    asked = {"on": "h100:512", "batch_tokens": 4e6, "estimate": True}
    many = train("llama-3-8b", **asked, sequence=[2048, 8192])
    alone = [train("llama-3-8b", **asked, sequence=sequence) for sequence in (2048, 8192)]
    assert many.estimate.tolist() == [step.estimate for step in alone]
    assert many.expectation.low.tolist() == [step.expectation.low for step in alone]
    assert many.to_pandas()["expected"].tolist() == many.estimate.tolist()
    assert f"a step: {many.expectation.in_words()}" in " ".join(str(many).split())
    assert many.time is many.lower


def test_what_a_bound_and_an_expectation_hold_says_itself_in_a_line() -> None:
    found = bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100", estimate=True)
    assert list(map(repr, found.uses)) == [
        "<ResourceUse tensor bf16: 8.59 GFLOP in 8.68 µs>",
        "<ResourceUse hbm: 136 MB in 40.7 µs>",
    ]
    (kernel,) = found.expectation.kernels
    assert repr(kernel).endswith("µs), constants of h100 vllm>")
    assert repr(kernel.source) == "<KernelConstants h100 vllm matmul (contraction) bf16; median error 4.5%>"


def test_products_run_in_the_format_of_their_arithmetic() -> None:
    """Activations stay in bf16 between products: the kernel before each puts them into that of the weights."""
    step = {"on": "h100:2", "tensor": 2, "prompt": 2048, "weights": "fp8", "estimate": True}
    each = {"activations": "fp8"}, {"compute": "fp8", "activations": "bf16"}, {}
    eight, quantised, half = (llm("llama-3-8b", **step, **formats).prefill.expectation for formats in each)
    kind = "quantised_contraction"
    times = [sum(one.value for one in found.kernels if one.run.kernel == kind) for found in (eight, quantised)]
    assert times[1] == pytest.approx(times[0], rel=0.05)
    assert times[1] > quantised.value / 3
    assert not half.is_known
    assert "contraction in fp8, weights only" in half.in_words()


def test_experts_run_in_the_format_of_their_arithmetic() -> None:
    asked = {"on": "h200:8", "tensor": 8, "batch": 64, "context": 128, "weights": "fp8", "estimate": True}
    each = {"activations": "fp8"}, {"compute": "fp8", "activations": "bf16"}, {}
    steps = [llm("qwen3-235b-a22b", **asked, **formats).decode.expectation for formats in each]
    eight, quantised, half = (next(one for one in step.kernels if one.run.kernel == "experts") for step in steps)
    assert quantised.value == pytest.approx(eight.value, rel=1e-6)
    assert half.source is None
    stored = llm("deepseek-v3", **asked, activations="fp8").decode.expectation  # in fp8_e4m3, beside fp8
    assert {one.run.path for one in stored.kernels if one.run.kernel == "experts"} == {"block scales"}


@pytest.mark.parametrize("line", ["bf16[16, 512] @ fp8[512, 512]", "fp8[16, 512] @ int4[512, 512]"])
@pytest.mark.parametrize("on", ["h100", "b200"])
def test_nothing_is_promised_of_weights_in_a_format_that_was_not_measured(line: str, on: str) -> None:
    assert not bound(line, on=on, estimate=True).expectation.is_known


def test_expected_times_follow_what_is_set_of_a_chip() -> None:
    """Constants of a chip go with the figures they were fitted with: those that are set scale these."""
    line = "bf16[16, 8192] @ bf16[8192, 28672]"
    listed = chip("h100").memories[0].bandwidth.value
    rates = ({"hbm": share * listed} for share in (0.5, 1.0, 1.5))
    half, same, more = (bound(line, on="h100", set=each, estimate=True).expectation.value for each in rates)
    assert same == bound(line, on="h100", estimate=True).expectation.value
    assert half / same == pytest.approx(2.0, rel=0.05)
    assert same / more == pytest.approx(1.5, rel=0.05)


def test_kernels_with_data_elsewhere_were_not_measured() -> None:
    with pytest.raises(InputError, match="what kernels take with data in l2 was not measured; leave estimate= out"):
        bound("bf16[16, 512] @ bf16[512, 512]", on="h100", over="l2", estimate=True)
    assert bound("bf16[16, 512] @ bf16[512, 512]", on="h100", over="hbm", estimate=True).expectation.is_known


@pytest.mark.parametrize("held", ["int8", "int4", "nvfp4", "fp32"])
def test_nothing_is_promised_of_attention_over_a_cache_in_a_format_that_was_not_measured(held: str) -> None:
    for queries in (1, 512):
        line = f"attention(bf16[8, {queries}, 32, 128], {held}[8, 512, 8, 128], {held}[8, 512, 8, 128], causal)"
        found = bound(line, on="h100", estimate=True).expectation
        assert not found.is_known
        assert f"attention in bf16, {held} cache" in found.in_words()


def test_a_step_that_sees_more_keys_than_tokens_is_expected() -> None:
    """After few tokens, compressed keys and those of a window are more than tokens."""
    found = llm("deepseek-v4-flash", on="h200:8", tensor=8, batch=2, context=140, estimate=True).decode
    sizes = [part.op.dims for part in found.ops if "kv_length" in part.op.dims]
    assert any(each["pairs"] > each["kv_length"] for each in sizes)
    assert found.lower < found.expectation.value


@pytest.mark.parametrize("on", ["h100:8", "l40s:8", "rtx-pro-6000:8", "b200:8"])
@pytest.mark.parametrize("library", some(["vllm", "trtllm", "sglang"], 2))
def test_products_of_a_deepseek_step_take_constants_of_their_scales_and_of_their_heads(on: str, library: str) -> None:
    """A dense weight has a scale for each block; vLLM multiplies heads by absorbed weights in half precision."""
    answer = llm("deepseek-v3", on=on, tensor=8, batch=64, context=4096).decode
    found = {one.run.name: one for one in Estimator(library).expect(answer).kernels}
    dense, heads = found["q_a_proj"], found["absorb_key"]
    assert (dense.run.kernel, dense.run.path) == ("quantised_contraction", "block scales")
    assert heads.run.kernel == ("" if library == "vllm" else "quantised_") + "batched_contraction"
    assert dense.source is not None
    assert heads.source is not None
    assert heads.source.kernel == heads.run.kernel
    own = {"h100:8": ("sglang", "trtllm"), "b200:8": ("trtllm",)}.get(on, ("trtllm",))
    assert library not in own or dense.source.path == "block scales"
