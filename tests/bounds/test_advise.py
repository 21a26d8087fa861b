"""Advice: each line equals a fresh bound, gains are real, both lists of the seeds are covered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given

from roofline import advise, bound, chip
from roofline.answers import capability
from roofline.errors import InputError, UntimedError
from roofline.hardware import Machine
from roofline.models import advise_step
from roofline.notation import canonical, program
from roofline.sections import Sentences
from tests.strategies import expressions, few, machines

PROGRAM = "h = bf16[B, D] * bf16[D, F]; g = gelu(h); g * bf16[F, D]"


@given(expressions(), machines)
@example(("pool(bf16[B, X, Y, C], window=2, stride=2, pad=1)", {"B": 173, "X": 226, "Y": 263, "C": 621}), chip("a16"))
@few(8)
def test_every_line_is_a_fresh_answer_and_a_gain(asked: tuple[str, dict[str, int]], machine: Machine) -> None:
    try:
        answer = bound(asked[0], on=machine, sizes=asked[1])
    except UntimedError:
        return
    found = advise(answer, chips=())
    does_not_fit = answer.footprint.fits is False  # then what makes it fit comes first
    order = [(does_not_fit and not item.after.footprint.fits, -item.gain) for item in found]
    assert order == sorted(order)
    for item in found:
        again = item.after.question
        arguments = {
            **again.changes().pop("raw", {}),
            "policy": again.conventions.policy,
            "tile": again.conventions.tile,
            "compute": again.conventions.compute,
            "exact": again.conventions.exact,
        }
        arguments.pop("unit", None)
        if not again.raw and again.flops_share == 1:
            fresh = bound(again.text, on=again.machine, sizes=dict(again.sizes), **arguments)
            assert fresh.lower == item.after.lower
        assert item.gain == pytest.approx(answer.lower / item.after.lower * item.more)
        assert item.gain > 1


def changes(line: str, on: str, **options: object) -> set[str]:
    return {item.change for item in advise(bound(line, on=on, **options))}


def test_the_seeds_memory_bound_list_is_covered() -> None:
    found = changes(PROGRAM, "a100", B=8, D=4096, F=16384)
    assert "memory at twice the bandwidth" in found  # a platform with more bandwidth
    assert {"int8 weights", "int4 weights"} <= found  # a higher intensity
    assert any(change.startswith("B = ") for change in found)  # reuse of weights
    assert any("H200" in change for change in found)
    assert not any("fp8" in change for change in found)  # an A100 does not compute in it
    assert {"fp8 weights", "int8 weights", "int4 weights"} <= changes(PROGRAM, "h100", B=8, D=4096, F=16384)
    small = changes("bf16[B, D] * bf16[D, F]", "v5e", B=64, D=1024, F=1024)
    assert "operands in vmem" in small  # on-chip memory
    fused = changes("h = bf16[B, D] + bf16[B, D]; relu(h)", "h100", B=4096, D=4096)
    assert "fuse elementwise operations" in fused


def test_the_seeds_compute_bound_list_is_covered() -> None:
    found = changes("bf16[B, D] * bf16[D, F]", "h100", B=8192, D=8192, F=8192)
    assert "twice the bf16 peak" in found  # a platform with more compute
    assert "half the FLOPs" in found  # a lighter model
    assert "fp8 arithmetic" in found
    assert "causal attention" in changes(
        "attention(bf16[1, S, 32, 128], bf16[1, S, 32, 128], bf16[1, S, 32, 128], full)", "h100", S=8192
    )
    assert "the matrix unit" in changes("bf16[B, D] * bf16[D, F]", "h100", unit="vector", B=512, D=4096, F=4096)


def test_sparse_weights_are_no_advice_where_the_peak_is_the_callers_own() -> None:
    line = "bf16[8192, 8192] * bf16[8192, 8192]"
    roof = "a higher roof"
    for own, says in ({}, f"{roof}, as with 2:4 sparse weights"), ({"bf16": "2x"}, roof):
        change = next(each for each in advise(bound(line, on="h100", set=own)) if "twice the bf16" in each.change)
        assert change.reason == says


@pytest.mark.parametrize("achievable", [False, True])
def test_twice_the_peak_is_twice_as_fast_where_a_measured_fraction_of_it_is_taken(achievable: bool) -> None:
    answer = bound(flops=1e12, on="h100", achievable=achievable)
    found = next(item for item in advise(answer) if item.change == "twice the bf16 peak")
    assert found.gain == pytest.approx(2)


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("bf16[256, 2048] @ bf16[2048, 2048]", {"on": "a100"}),
        ("bf16[256, 2048] @ bf16[2048, 2048]", {"on": "a100", "over": "warm"}),
        ("bf16[256, 2048] @ bf16[2048, 2048]", {"on": "a100", "over": "l2"}),
        ("bf16[4096, 4096] @ bf16[4096, 4096]", {"on": "h100", "achievable": True}),
        ("bf16[4000, 2000] @ bf16[2000, 2000]", {"on": "v5e", "pad": True}),
        ("bf16[4096, 2048] @ bf16[2048, 2048_X] -> bf16[4096, 2048]", {"on": "v5e:4"}),
    ],
)
def test_half_the_flops_keep_the_rest_of_the_question(line: str, options: dict[str, Any]) -> None:
    found = {item.change: item for item in advise(bound(line, **options))}
    half, twice = found["half the FLOPs"], found["twice the bf16 peak"]
    assert half.time_after == pytest.approx(twice.time_after)  # as long as the same work at twice the rate
    assert half.after.flops == half.before.flops / 2
    assert (half.after.bytes, half.after.wire) == (half.before.bytes, half.before.wire)
    assert half.to_dict()["question"] is None  # no words ask it
    assert any("50% of the FLOPs" in said for said in half.after.assumptions)


def test_other_chips_stand_after_what_changes_this_one() -> None:
    found = advise(bound("bf16[64, 8192] @ bf16[8192, 8192]", on="a100"))
    others = ["another chip" in item.reason for item in found]
    assert others == sorted(others)
    assert set(others) == {True, False}
    for kind in (True, False):
        gains = [item.gain for item, other in zip(found, others, strict=True) if other is kind]
        assert gains == sorted(gains, reverse=True)
    assert any(item.change.startswith("a size of ") for item in found)  # 64 has no name
    named = advise(bound("bf16[64, 8192] @ bf16[8192, 8192]", on="l4"), chips="4090, h200")  # a name of digits alone
    assert [item.after.machine.key for item in named][-2:] == ["h200", "rtx-4090"]


def test_tiles_get_larger() -> None:
    found = changes("bf16[m, k] * bf16[k, n]", "h100", tile=(128, 128, 64), m=4096, k=4096, n=4096)
    assert "tiles of 256 x 256" in found


def test_a_batch_to_the_ridge_is_the_smallest() -> None:
    answer = bound("bf16[B, D] * int8[D, F]", on="v5e", B=64, D=8192, F=8192)
    line = next(item for item in advise(answer) if item.change == "B = 128")
    assert line.after.kind == "compute-bound"
    assert bound("bf16[B, D] * int8[D, F]", on="v5e", B=127, D=8192, F=8192).kind == "memory-bound"
    assert line.more == 2


def test_formats_without_a_peak_are_not_advised() -> None:
    found = changes("bf16[B, D] * bf16[D, F]", "a100", B=8192, D=8192, F=8192)
    assert "int8 arithmetic" in found
    assert "fp8 arithmetic" not in found


def test_complex_numbers_and_wide_integers_are_not_narrowed() -> None:
    for line in ("complex64[B, D] * complex64[D, F]", "int64[B, D] * int64[D, F]"):
        found = changes(line, "h100", B=8, D=1024, F=1024)
        assert not any(change.startswith(("bf16 ", "fp", "int", "tf32 ")) for change in found)


def test_a_narrower_program_is_narrower_throughout() -> None:
    answer = bound(PROGRAM, on="h100", B=512, D=4096, F=16384)
    line = next(item for item in advise(answer) if item.change == "fp8 arithmetic")
    assert line.gain == pytest.approx(2, rel=1e-3)


def test_fp32_is_offered_tf32() -> None:
    assert "tf32 arithmetic" in changes("fp32[B, D] * fp32[D, F]", "a100", B=8192, D=4096, F=4096)


@pytest.mark.parametrize(
    ("dtype", "chip", "offered"),
    [
        ("fp16", "rtx-4080", {"fp16_acc16 arithmetic"}),
        ("fp8_e4m3", "rtx-4080", {"fp8_acc16 arithmetic"}),
        ("bf16", "rtx-4080", set()),
        ("fp16", "a100", set()),
    ],
)
def test_sums_in_fp16_are_offered_where_they_are_faster(dtype: str, chip: str, offered: set[str]) -> None:
    found = changes(f"{dtype}[B, D] * {dtype}[D, F]", chip, B=8192, D=4096, F=4096)
    assert {change for change in found if "acc16" in change} == offered


def test_an_incomplete_answer_has_no_advice_and_no_rate() -> None:
    answer = bound("bf16[B, D] * bf16[D, F]", on="wse-3", B=512, D=1024, F=1024)
    assert answer.incomplete
    assert answer.attainable is None
    assert advise(answer) == ()


def test_advice_takes_an_expression() -> None:
    found = advise("bf16[B, D] * bf16[D, F]", on="h100", B=8, D=4096, F=4096)
    assert found[0].after.lower == found[0].after.question.answer().lower
    assert "<td" in found._repr_html_()


def test_advice_needs_numbers() -> None:
    with pytest.raises(InputError, match="advice needs plain numbers; give every size one value"):
        advise(bound("bf16[B, D] * bf16[D, F]", on="h100"))


@pytest.mark.parametrize("on", ["h100", "a100", "mi300x"])
def test_a_peak_of_which_a_share_is_reached_is_doubled_whole(on: str) -> None:
    answer = bound("bf16[8192, 8192] @ bf16[8192, 8192]", on=on, achievable=True)
    lines = {line.change: line for line in advise(answer)}
    assert lines["twice the bf16 peak"].gain == pytest.approx(2)
    assert "its reachable share unknown" in lines["int8 arithmetic"].reason
    assert "twice the bf16 peak" in {line.change: line for line in advise(bound(answer.expression, on=on))}
    (step,) = [
        s for s in advise_step("llama-3-8b", "prefill", on=on, prompt=4096, achievable=True) if "twice" in s.change
    ]
    assert step.gain == pytest.approx(2, rel=0.02)


def test_another_chip_is_asked_as_this_one_is() -> None:
    line, others = "bf16[8192, 8192] @ bf16[8192, 8192]", ("h200", "v5p")
    found = {a.after.machine.key: a for a in advise(bound(line, on="a100", achievable=True), chips=others)}
    for name in others:
        assert found[name].after.lower == bound(line, on=name, achievable=True).lower
    assert "share" not in found["h200"].reason
    assert "its reachable share unknown" in found["v5p"].reason
    near = {a.after.machine.key for a in advise(bound(line, on="v5e", over="vmem"), chips=others)}
    assert "h200" not in near  # it has no such level
    usual = {a.after.machine.key for a in advise(bound(line, on="v5e", over="hbm"), chips=others)}
    assert usual >= set(others)


def test_fp16_is_advised_where_a_chip_has_no_bf16() -> None:
    for name, on, gain in (("fp32", "v100", 8), ("bf16", "v100", 8), ("bf16", "t4", 8), ("fp32", "t4", 8)):
        gains = {item.change: item.gain for item in advise(f"{name}[4096, 4096] * {name}[4096, 4096]", on=on)}
        assert gains["fp16 arithmetic"] == pytest.approx(gain, rel=0.01)
    for name, on in (("fp32", "h100"), ("fp16", "t4"), ("bf16", "1080ti")):
        found = {item.change for item in advise(f"{name}[4096, 4096] * {name}[4096, 4096]", on=on)}
        assert "fp16 arithmetic" not in found


def test_how_much_more_work_is_written_in_full() -> None:
    found = advise("int8[1, 4096] * int8[4096, 4096]", on="v1")
    assert any(item.reason.startswith("3,987 times the work") for item in found)


def test_bytes_from_the_host_are_no_share_of_those_of_the_memory() -> None:
    best = advise("from_host(bf16[8192, 28672])", on="h100")[0]
    assert best.reason.startswith("fewer bytes to load")


QKV = "bf16[8,4096,32,128], bf16[8,4096,32,128], bf16[8,4096,32,128]"


@pytest.mark.parametrize(
    "ending", ["{}, unfused)", "{},unfused)", "{} ,  unfused ) on h100", "{}, unfused, full) on h100"]
)
def test_attention_is_fused_however_the_line_is_written(ending: str) -> None:
    answer = bound("attention(" + ending.format(QKV), on="h100")
    best = next(item for item in advise(answer) if item.change == "fused attention")
    full = ", full" if "full" in ending else ""
    assert best.after.lower == bound(f"attention({QKV}{full})", on="h100").lower


@pytest.mark.parametrize("ending", [")", ") on h100", ", full) on h100", ",full)"])
def test_attention_is_made_causal_however_the_line_is_written(ending: str) -> None:
    answer = bound(f"attention({QKV}{ending}", on="h100")
    best = next(item for item in advise(answer) if item.change == "causal attention")
    assert best.after.lower == bound(f"attention({QKV}, causal)", on="h100").lower


def test_a_step_that_fits_no_more_is_no_advice() -> None:
    """The l2 of an H100 holds the operands; twice the batch would not fit it."""
    for item in advise("bf16[B, D] * bf16[D, F]", on="h100", over="l2", B=64, D=4096, F=5500):
        assert item.after.footprint is None or item.after.footprint.fits is not False


@pytest.mark.parametrize(
    ("line", "asked", "change"),
    [
        (PROGRAM, {"on": "h100", "B": 64, "D": 8192, "F": 8192}, "memory at twice the bandwidth"),
        (PROGRAM, {"on": "h100", "B": 64, "D": 8192, "F": 8192, "set": {"hbm": 4e12}}, "memory at twice the bandwidth"),
        (PROGRAM, {"on": "h100", "B": 4096, "D": 8192, "F": 8192}, "twice the bf16 peak"),
        (PROGRAM, {"on": "h100", "B": 4096, "D": 8192, "F": 8192, "unit": "vector"}, "the matrix unit"),
        ("softmax(bf16[B, D])", {"on": "a100", "B": 64, "D": 8192}, "operands in l2"),
        ("A[I, J_X] * B[J_X, K] -> C[I, K]", {"on": "v5e:4", "I": 64, "J": 64, "K": 64}, "ici at half the latency"),
    ],
)
def test_a_line_says_itself_in_words_that_ask_it_again(line: str, asked: dict[str, object], change: str) -> None:
    found = {item.change: item for item in advise(bound(line, **asked))}
    assert change in found
    for item in found.values():
        words = item.to_dict()["question"]
        if words is None:  # a question of raw amounts, a mesh
            continue
        told = {"on": words["on"], **{name: asked[name] for name in ("unit",) if name in asked}, **words["options"]}
        told["set"] = {**asked.get("set", {}), **words["options"].get("set", {})}
        assert bound(words["expression"], **told, **words["sizes"]).lower == item.after.lower, item.change
    assert found[change].to_dict()["question"] is not None


@pytest.mark.parametrize(
    ("batch", "chip", "said"),
    [
        (
            512,
            "a100",
            "no gain from twice the memory's bandwidth, twice B; NVIDIA A100 SXM4 80GB has no fp8 arithmetic",
        ),
        (8, "h100", "no gain from twice the bf16 peak"),
    ],
)
def test_what_does_not_help_is_said_last(batch: int, chip: str, said: str) -> None:
    sections = advise("bf16[B, D] * bf16[D, F]", on=chip, B=batch, D=8192, F=28672).sections()
    lines = [line for section in sections if isinstance(section, Sentences) for line in section.lines]
    assert lines[1:] == [said]


def test_attention_that_is_written_out_is_advised_to_run_in_one_kernel() -> None:
    """The gain is that of the fused operator: nothing but queries, keys, values and the result moves."""
    line, sizes = "s = bf16[S, D] * bf16[T, D]; p = softmax_T(s); p * bf16[T, E]", {"S": 8192, "T": 8192, "D": 128}
    found = {item.change: item for item in advise(bound(line, on="h100", E=128, **sizes))}["fused attention"]
    whole = bound("attention(bf16[1, S, 1, D], bf16[1, T, 1, D], bf16[1, T, 1, D])", on="h100", **sizes)
    assert found.after.bytes == whole.bytes
    assert found.time_after == pytest.approx(whole.lower)
    assert "scores and probabilities of attention stay on the chip" in found.after.assumptions
    assert found.to_dict()["question"] is None  # no words ask it
    assert capability("Bound.scores_on_chip")(bound(line, on="h100", E=128, **sizes)).lower == found.time_after
    apart = "h = bf16[B, D] * bf16[D, F]; g = gelu(h); n = rmsnorm_F(g); n * bf16[F, D]"
    assert "fused attention" not in changes(apart, "h100", B=64, D=4096, F=4096)


def test_advice_about_an_intensity_says_a_rate() -> None:
    one, other = (advise(bound(intensity=50, on=name)) for name in ("h100", "a100"))
    assert "168 TFLOP/s attainable, memory-bound" in str(one)
    assert [round(fact.value / 1e12) for fact in one.compare(other).facts["attainable"]] == [168, 102]


@pytest.mark.parametrize(
    ("line", "sizes", "size", "work"),
    [
        ("bf16[B, D] * bf16[D, F]", {"B": 1000, "D": "B", "F": "B/2"}, 1182, 1.182**3),
        ("bf16[B, D] * bf16[D, F]; bf16[E, D] * bf16[D, F]", {"B": 11, "E": 99, "D": 4096, "F": 4096}, 591, 690 / 110),
    ],
)
def test_a_larger_size_counts_all_its_work(line: str, sizes: dict[str, Any], size: int, work: float) -> None:
    """Formulas of it follow and stay whole; a product that it is not in does the same work as before."""
    found = [each for each in advise(line, on="h100", sizes=sizes) if each.change.startswith("B = ")]
    assert [(each.change, round(each.more, 6)) for each in found] == [(f"B = {size}", round(work, 6))]


def test_a_larger_image_is_asked_without_the_sizes_that_follow_from_it() -> None:
    """Rows of the image are rows of the convolution; those of the pool are half of them."""
    line = "c = conv(bf16[1, 8, 8, 4], bf16[3, 3, 4, 8], pad=1); max_pool(c, window=2)"
    assert "-> bf16[1, 16, 8, 8]; pool(c, window=2) -> bf16" in canonical(program(line), {"#2": 16})
    assert any(change.startswith("operands in") for change in changes(line, "h100"))
