"""Attributes of answers and of errors that people try in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy

import roofline
from roofline.errors import InputError, MissingExtraError, RooflineError, SizeError


def test_a_fact_that_is_not_there_is_an_error_that_lists_them() -> None:
    beside = roofline.llm("llama-3-8b", on="h100,h200", context=8192)
    with pytest.raises(InputError, match=r"no fact 'at best'; did you mean 'a token at best'"):
        beside.best("at best")
    with pytest.raises(InputError, match=r"no fact 'x'; facts are: a token at best, decode bound by"):
        beside.best("x")
    assert beside.best("a token at best") == (beside.fastest,)


def test_an_answer_of_a_model_says_whether_it_fits() -> None:
    assert roofline.llm("llama-3-8b", on="h100", context=8192).fits is True
    assert roofline.llm("llama-3-70b", on="h100", context=8192).fits is False
    assert roofline.train("llama-3-8b", on="h100:8", batch_tokens=65536, fsdp=8).fits is True
    assert roofline.train("llama-3-8b", on="h100:8", batch_tokens=8192, fsdp=8).fits is False  # an eighth of a sequence


def test_every_error_has_a_message_and_a_hint() -> None:
    with pytest.raises(RooflineError) as wrong:
        roofline.chip("h1")
    assert "unknown chip" in wrong.value.message
    assert "h100" in wrong.value.hint
    assert MissingExtraError("onnx", "onnx").hint == "pip install '.[onnx]' in the folder of roofline's source"
    assert MissingExtraError("onnx", "onnx").message == "onnx is not installed"
    assert (RooflineError("x").message, RooflineError("x").hint) == ("x", "")


def test_a_formula_without_sizes_says_its_times_at_no_size() -> None:
    said = str(roofline.formula("bf16[64, 8192] * bf16[8192, 8192]", on="h100"))
    assert "\n  40.7 µs at best, 40.7 µs op by op, 49.3 µs if nothing overlaps; 136 MB of memory\n" in said


def test_the_formula_of_an_answer_is_right_in_latex() -> None:
    answer = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100")
    assert r"W_{\mathrm{hbm}}" in answer.formula().printed("latex")
    assert "boldsymbol" in sympy.latex(answer.lower)  # why there is a way of our own


def test_help_of_the_optimizer_says_so() -> None:
    assert "Optimizer: adam" in (roofline.train.__doc__ or "")


def test_what_methods_do_not_know_is_an_error_that_says_what_they_do(tmp_path: Path) -> None:
    answer = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100")
    with pytest.raises(InputError, match="a formula is not printed in 'go'; one of python, javascript, c, latex"):
        answer.formula().printed("go")
    assert answer.formula().printed("js") == answer.formula().printed("javascript")
    with pytest.raises(SizeError, match=r"formats of one operand are roofline\.solve_dtypes\(line, 1, on=…\)"):
        roofline.solve("bf16[64, 8192] * bf16[8192, 8192]", "dtype:1", on="h100")
    with pytest.raises(InputError, match="has no size 'Q'; sizes are: B, D, F"):
        answer.formula(Q=3)
    beside = roofline.bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100,a100")
    with pytest.raises(InputError, match="there is no answer 9; there are 2, the first is 0"):
        beside.ratio("at best", of=9)
    chart: Any = beside.answers[0].plot()
    with pytest.raises(InputError, match="the width of a chart is 'wide'; a number of pixels, as in width=1200"):
        chart.save(tmp_path / "a.svg", width="wide")


@pytest.mark.parametrize("rows", [1000, 20_000])
def test_what_binds_over_arrays_is_an_array_of_names(rows: int) -> None:
    line, sizes = "bf16[B, D] * bf16[D, F]", {"D": 8192, "F": 8192}
    several = roofline.bound(line, on="h100", B=np.arange(1, rows + 1), **sizes)
    first = int((several.bound_by == "tensor").argmax()) + 1
    assert first == 319
    assert [several.bound_by[first - 2], several.bound_by[first - 1]] == ["hbm", "tensor"]
    alone = [roofline.bound(line, on="h100", B=batch, **sizes) for batch in (1, 318, 319, 1000)]
    assert [several.kind[int(each.sizes["B"]) - 1] for each in alone] == [each.kind for each in alone]
    assert ((several.kind == "compute-bound") == (several.bound_by == "tensor")).all()
    assert (several.bound_by != "tensor").sum() == 318
    assert np.unique(several.bound_by).tolist() == ["hbm", "tensor"]
    assert (
        several.bound_by.tolist() == roofline.sweep(line, on="h100", B=range(1, rows + 1), **sizes)["bound_by"].tolist()
    )
    assert several.to_dict()["kind"] is None


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", {"D": 8192, "F": 8192}),
        ("AllReduce_X(bf16[B, 8192] {U_X})", {}),
    ],
)
def test_what_binds_over_arrays_has_the_kind_and_the_times_of_each_size(line: str, sizes: dict[str, int]) -> None:
    batches = (8, 64, 65536)
    several = roofline.bound(line, on="h100:8", B=np.array(batches), **sizes)
    alone = [roofline.bound(line, on="h100:8", B=batch, **sizes) for batch in batches]
    assert several.kind.tolist() == [each.kind for each in alone]
    assert len(set(several.kind.tolist())) > 1
    for name in ("math", "comms", "moving"):
        assert np.broadcast_to(getattr(several, name), 3).tolist() == pytest.approx([getattr(o, name) for o in alone])


@pytest.mark.parametrize("over", [None, "warm"])
def test_a_question_over_many_rows_keeps_its_sizes_and_draws(over: str | None) -> None:
    line, batches = "bf16[B, D] * bf16[D, F]", np.arange(1, 100_001)
    several = roofline.bound(line, on="h100", B=batches, D=8192, F=8192, over=over)
    assert several.question.sizes["B"].size == batches.size
    drawn = several.plot("throughput")
    assert drawn.title == "Attainable throughput over B"
    assert max(len(each.x) for each in drawn.lines) < 1000


def test_an_answer_over_sizes_draws_time_where_throughput_is_flat_and_says_from_which_size_on_it_flips() -> None:
    sizes = {"B": np.array([1, 4, 16, 64]), "S": 1024, "T": 1024, "N": 32, "H": 128}
    line = "attention(bf16[B, S, N, H], bf16[B, T, N, H], bf16[B, T, N, H], causal)"
    flat = roofline.bound(line, on="a100", sizes=sizes)
    assert flat.plot().kind == "time"
    assert "4 configurations, tensor binds in all; to_pandas() lists each" in str(flat)
    batches = np.array([256, 64, 8, 128])  # in no order
    rising = roofline.bound("bf16[B, D] * bf16[D, F]", on="a100", B=batches, D=8192, F=8192)
    assert rising.plot().kind == "throughput"
    flips = min(int(b) for b, by in zip(batches, rising.bound_by, strict=True) if by == "tensor")
    assert f"4 configurations: hbm binds up to B = 128, tensor from B = {flips}; to" in str(rising)
    grid = roofline.bound("bf16[B, D] * bf16[D, F]", on="a100", B=batches[:, None], D=np.array([64, 8192]), F=8192)
    assert "8 configurations: tensor binds in 1, hbm binds in 7; to_pandas() lists each" in str(grid)
    assert grid._repr_mimebundle_()["text/html"].count(">hbm</td>") == 8  # seven rows, and the resource


def test_words_that_people_use_for_attributes_are_told_in_the_right_ones() -> None:
    layer = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=1, D=1024, F=512)
    for word in ("memory_bound", "is_compute_bound"):
        with pytest.raises(AttributeError, match=f"a Bound has no {word}: there is answer.kind, 'memory-bound', 'comp"):
            getattr(layer, word)
    with pytest.raises(AttributeError, match=r"there is answer\.total_bytes, the sum of bytes, which has them by"):
        layer.bytes_moved
    with pytest.raises(AttributeError, match=r"there is answer\.expectation, its value, low, high and parts, where"):
        getattr(layer, "low")  # noqa: B009
    for of, word in ((layer, "ridge"), (layer, "memory_bound"), (roofline, "gemm")):
        with pytest.raises(AttributeError, match=r"there is answer\.|did you mean") as told:
            getattr(of, word)
        assert (told.value.name, told.value.obj) == (None, None)  # so Python adds no guess of its own
    assert layer.kind == "memory-bound"
    assert layer.total_bytes == sum(layer.bytes.values()) == layer.ops[0].bytes
    step = roofline.train("llama-3-8b", on="h100:8", batch_tokens=2**19)
    serving = roofline.llm("llama-3-8b", on="h100", batch=8, context=1024)
    assert (step.kind, step.bound_by) == (step.bound.kind, step.bound.bound_by)
    assert (serving.kind, serving.bound_by) == ("memory-bound", "hbm")
    assert serving.tokens_per_second_per_user == pytest.approx(serving.tokens_per_second / 8)


def test_a_comparison_says_why_in_words() -> None:
    both = roofline.bound("bf16[64, 8192] * bf16[8192, 8192]", on="a100,h100")
    with pytest.raises(AttributeError, match=r"a SideBySide has no why: there is answer\.verdicts, a method: who is"):
        getattr(both, "why")  # noqa: B009
    assert "all are memory-bound, and it has the most memory bandwidth" in both.verdicts()[0]


def test_a_comparison_has_the_bytes_that_are_moved() -> None:
    answers = [roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=size, D=1024, F=512) for size in (1, 64)]
    rows = answers[0].compare(answers[1]).facts
    assert [fact.value for fact in rows["bytes moved"]] == [each.total_bytes for each in answers]


def test_advice_has_its_times_as_numbers() -> None:
    lines = [
        *roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=1, D=1024, F=512).advise(),
        *roofline.llm("llama-3-8b", on="h100", batch=8, context=1024).advise(),
        *roofline.train("llama-3-8b", on="h100:8", batch_tokens=2**19).advise(),
    ]
    assert {type(line).__name__ for line in lines} == {"Advice", "StepAdvice", "TrainingAdvice"}
    assert all(line.time_before == line.before.lower and line.time_after == line.after.lower for line in lines)
