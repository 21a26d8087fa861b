"""Attributes of answers and of errors that people try in Python."""

from __future__ import annotations

import pytest
import sympy

import roofline
from roofline.errors import InputError, MissingExtraError, RooflineError


def test_a_fact_that_is_not_there_is_an_error_that_lists_them() -> None:
    beside = roofline.llm("llama-3-8b", on="h100,h200", context=8192)
    with pytest.raises(InputError, match=r"no fact 'at best'; facts are: a token at best, decode bound by"):
        beside.best("at best")
    assert beside.best("a token at best") == (beside.fastest,)


def test_an_answer_of_a_model_says_whether_it_fits() -> None:
    assert roofline.llm("llama-3-8b", on="h100", context=8192).fits is True
    assert roofline.llm("llama-3-70b", on="h100", context=8192).fits is False
    assert roofline.train("llama-3-8b", on="h100:8", batch_tokens=8192, fsdp=8).fits is True


def test_every_error_has_a_message_and_a_hint() -> None:
    with pytest.raises(RooflineError) as wrong:
        roofline.chip("h1")
    assert "unknown chip" in wrong.value.message
    assert "h100" in wrong.value.hint
    assert MissingExtraError("onnx", "onnx").hint == "pip install 'roofline[onnx]'"
    assert MissingExtraError("onnx", "onnx").message == "onnx is not installed"
    assert (RooflineError("x").message, RooflineError("x").hint) == ("x", "")


def test_the_formula_of_an_answer_is_right_in_latex() -> None:
    answer = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100")
    assert r"W_{\mathrm{hbm}}" in answer.formula().printed("latex")
    assert "boldsymbol" in sympy.latex(answer.lower)  # why there is a way of our own


def test_help_of_the_optimizer_says_so() -> None:
    assert "Optimizer: adam" in (roofline.train.__doc__ or "")
