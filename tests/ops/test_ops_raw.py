"""Raw work and formulas."""

from __future__ import annotations

import contextlib
import math
import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import few

from roofline import bound
from roofline.errors import DTypeError, InputError, NotationError, QuantityError, RooflineError, SizeError
from roofline.ops import formula, formula_names, raw
from roofline.ops.formula import LONGEST
from roofline.sizes import is_symbol, symbol
from roofline.work import Key

# ---- raw work


def test_raw_work_holds_what_was_given() -> None:
    op = raw(flops=1e12, bytes=2e9, dtype="fp8_e4m3", unit="vector", name="mine")
    assert dict(op.work.items()) == {Key("flops", "vector", "fp8"): 1e12, Key("bytes", "main"): 2e9}
    assert (op.name, op.kind, op.reads, op.writes) == ("mine", "raw", (), ())
    assert list(raw(bytes=0.5).work) == [Key("bytes", "main")]
    assert raw(intensity=25.5).work.total("flops") / raw(intensity=25.5).work.total("bytes") == 25.5


def test_raw_amounts_may_be_arrays_or_symbols() -> None:
    assert raw(flops=np.array([1, 2]), bytes=1).work.total("flops").tolist() == [1.0, 2.0]
    assert raw(flops=2 * symbol("B")).work.total("flops") == 2 * symbol("B")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, InputError, "raw work needs an amount; give flops=, bytes= or both, or intensity="),
        ({"flops": 1, "intensity": 2}, InputError, "an intensity stands alone; give intensity=, or flops= and bytes="),
        ({"flops": 0}, SizeError, "flops is 0; an amount of work is a finite number above 0"),
        ({"bytes": -2.5}, SizeError, "bytes is -2.5; an amount of work is a finite number above 0"),
        ({"bytes": math.nan}, SizeError, "bytes is nan; an amount of work is a finite number above 0"),
        ({"flops": math.inf}, SizeError, "flops is inf; an amount of work is a finite number above 0"),
        ({"flops": True}, SizeError, "flops is True; an amount of work is a finite number above 0"),
        ({"flops": "1e12"}, SizeError, "flops is '1e12'; an amount of work is a finite number above 0"),
        ({"flops": np.array([1.0, -1.0])}, SizeError, "flops is -1…1; an amount of work is a finite number above 0"),
        ({"flops": np.array(["a"])}, SizeError, "flops is not an array of numbers"),
        ({"flops": 1, "unit": "matrx"}, InputError, "unknown unit 'matrx'; did you mean 'matrix'?"),
        ({"flops": 1, "dtype": "bf61"}, DTypeError, "unknown dtype 'bf61'; did you mean 'bf16'?"),
    ],
)
def test_wrong_raw_work(given: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        raw(**given)
    assert str(raised.value).startswith(message)


# ---- formulas


def test_formulas_of_the_llama_13b_note() -> None:
    """As printed: FLOPs of a prefill, and bytes that leave out the 2 of fp16 weights."""
    sizes = {"h": 5120, "b": 8, "s": 1024, "o": 1024, "n": 40, "V": 32000}
    flops = formula("n*(24*b*s*h**2 + 4*b*s**2*h) + 2*b*s*h*V", sizes)
    moved = formula("1.2*12*n*h*h + 4*n*b*h*(s+o)", sizes)
    assert flops / 1e12 == pytest.approx(215.7147324416, rel=1e-12)
    assert moved / 1e9 == pytest.approx(28.5212672, rel=1e-12)
    assert flops / moved == pytest.approx(7563.2941176471, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2*3", 7), ("(1 + 2)*3", 9), ("2^3^2", 512), ("-2^2", -4), ("2^-1", 0.5), ("2 - 3 - 4", -5),
        ("24/4/3", 2), ("7/2", 3.5), ("7//2", 3), ("-7//2", -4), ("1e3", 1000), ("1e30 + 1", 10**30 + 1),
        (".5*4", 2.0), ("2 · 3 × 4 − 1", 23), ("max(1, 2, 3) + min(4, 5)", 7), ("ceil(7/2)", 4), ("floor(7/2)", 3),
        ("ceil(B/128)*128", 256), ("sqrt(B + 56)", 16.0), ("log2(1024)", 10.0), ("--2", 2), ("+2", 2), ("2*-3", -6),
        ("B**2", 40000), ("max", 5),
    ],
)  # fmt: skip
def test_values(text: str, value: float) -> None:
    found = formula(text, {"B": 200, "max": 5})
    assert found == value
    assert type(found) is type(value)


def test_whole_numbers_stay_exact() -> None:
    assert formula("a*b + 1", {"a": 10**30, "b": 10**30}) == 10**60 + 1
    assert formula("a/2", {"a": 10**30}) == 5 * 10**29


TEXTS = ("2*B*D^2 + B/3", "max(B, D)/min(B, D)", "ceil(B/128)*128*D", "sqrt(B*D) + log2(B)", "floor(B/7) - D//2")


@pytest.mark.parametrize("text", TEXTS)
@given(B=st.integers(1, 10**6), D=st.integers(1, 10**6))
@few(10)
def test_number_equals_array_equals_symbol(text: str, B: int, D: int) -> None:
    number = formula(text, {"B": B, "D": D})
    array = formula(text, {"B": np.array([B, 1.0]), "D": D})
    symbolic = formula(text, {}).subs({symbol("B"): B, symbol("D"): D})
    assert array[0] == pytest.approx(number, rel=1e-12)
    assert float(symbolic) == pytest.approx(number, rel=1e-12)


def test_names_come_in_order_without_functions() -> None:
    assert formula_names("max(F, 2*B) + F^B - D") == ("F", "B", "D")
    assert formula_names("d_ff*heads") == ("d_ff", "heads")
    assert formula_names("24*b*s*h² + x₁") == ("b", "s", "h", "x₁")
    assert formula_names("2 TFLOP") == formula_names("") == formula_names("(") == ()


def test_a_missing_size_is_a_symbol_unless_another_is_an_array() -> None:
    assert formula("B*D", {"B": 2, "D": None}) == 2 * symbol("D")
    with pytest.raises(SizeError, match="size D has no value while B is an array; give D too"):
        formula("B*D", {"B": [1, 2]})
    with pytest.raises(SizeError, match="size B is 0"):
        formula("B*D", {"B": 0})


@pytest.mark.parametrize(("given", "right"), [({"flops": "3.2G"}, "3.2GFLOP"), ({"bytes": "41M"}, "41MB")])
def test_an_amount_with_a_prefix_alone_is_told_its_unit(given, right):
    with pytest.raises(QuantityError, match=f"has a prefix but no unit; write {right}, or "):
        bound(**given, on="h100")


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "an empty formula", 0),
        ("2B*D", "expected an operator before 'B'; write 2*B", 1),
        ("2k*4", "expected an operator before 'k'; write 2*k for a product, or the number itself, as in 2e3", 1),
        ("4*2Ki", "expected an operator before 'Ki'; write 2*Ki for a product, or the number itself, as in 2*2^10", 3),
        ("2*B (D + 1)", "unknown function 'B'; a product is written B*(…); functions are: max, min, ceil", 2),
        ("(B + 1) D", "expected an operator before 'D'; write (…)*D", 8),
        ("(2 B)", "expected ')'; write 2*B", 3),
        ("2*", "expected a number, a name or '('", 2),
        ("2**^3", "expected a number, a name or '('", 3),
        ("(2*B", "expected ')'", 4),
        ("2*B)", "expected an operator before ')'", 3),
        ("B; D", "expected an operator before ';'", 1),
        ("B.__class__", "expected an operator before '.'", 1),
        ("import os", "expected an operator before 'os'", 7),
        ("'a'", "expected a number, a name or '('", 0),
        ("cell(B)", "unknown function 'cell'; did you mean 'ceil'?", 0),
        ("2 (D + 1)", "expected an operator before '('; write 2*(…)", 2),
        ("sqrt(B, 2)", "sqrt takes one argument, not 2", 0),
        ("max()", "expected a number, a name or '('", 4),
        ("1/(B - B)", "this '/' is a division by zero", 1),
        ("1//0", "this '//' is a division by zero", 1),
        ("0^-1", "this '^' is a division by zero", 1),
        ("9**9**9", "this '**' is too large", 1),
        ("B^B^B", "this '^' is too large", 3),
        ("9.5^9999", "this '^' is too large", 3),
        ("(-8)^0.5", "this '^' is not a real number", 4),
        ("sqrt(0 - B)", "sqrt(…) is not a real number", 0),
        ("log2(0)", "log2(…) is not a real number", 0),
        ("1e999", "a number out of range", 0),
        ("1e300*1e300", "the formula gives no finite number", 0),
        ("1" * 301, "a number out of range", 0),
        ("(" * 60 + "1" + ")" * 60, "the formula is nested too deeply", 50),
        ("-" * 60 + "1", "the formula is nested too deeply", 50),
    ],
)
def test_wrong_formulas_point_at_the_place(text: str, message: str, position: int) -> None:
    with pytest.raises(NotationError) as raised:
        formula(text, {"B": 10**6})
    assert str(raised.value).startswith(message)
    assert raised.value.position == position


@pytest.mark.parametrize("text", ["(2*3}", "10^{2", "2}"])
def test_a_brace_has_another_half(text: str) -> None:
    with pytest.raises(NotationError, match="has no other half"):
        formula(text, {})


def test_a_formula_has_a_longest_length_and_needs_no_stack_for_it() -> None:
    text = "+".join(["1"] * (LONGEST // 2))
    assert formula(text, {}) == LONGEST // 2
    with pytest.raises(NotationError, match="a formula of 2001 characters"):
        formula("10" + text, {})


@pytest.mark.parametrize("text", ["9**9**9", "n^9^9", "(2*n)^(9^9)", "(n-n+9)^9^9^9", "2^(n*9999999999)", "9^9^9*n"])
def test_no_power_takes_for_ever(text: str) -> None:
    start = time.thread_time()
    with contextlib.suppress(NotationError):
        formula(text, {})
    assert time.thread_time() - start < 5


@pytest.mark.parametrize("text", ["1/(B - 1)", "B^64*B^64*B^64", "sqrt(1 - B)"])
def test_an_array_that_leaves_the_numbers_is_an_error_not_a_warning(text: str) -> None:
    with pytest.raises(NotationError):
        formula(text, {"B": [1, 10**30]})


def test_any_text_gives_a_number_or_an_error_of_ours() -> None:
    generator = random.Random(7)
    pieces = ["B", "D", "2", "1.5", "1e3", "+", "-", "*", "/", "//", "^", "**", "(", ")", ",", "max", "ceil", "sqrt"]
    pieces += [" ", ".", "é", "²", "0", "log2", "_", "%", "\n", "B-B"]
    for _ in range(3000):
        text = "".join(generator.choice(pieces) for _ in range(generator.randint(1, 12)))
        try:
            value = formula(text, {"B": 3, "D": 10**20})
        except RooflineError:
            continue
        assert is_symbol(value) or math.isfinite(value)
