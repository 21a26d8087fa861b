"""Formulas of named sizes, as text: raw work and sizes may be written as one.

>>> formula("2*B*D*F", {"B": 64, "D": 8192, "F": 8192})
8589934592
>>> formula("n*(24*b*s*h^2 + 4*b*s^2*h) + 2*b*s*h*V", {"n": 40, "b": 8, "s": 1024, "h": 5120, "V": 32000})
215714732441600
>>> formula("ceil(B/128)*128", {"B": 200}), formula("sqrt(4*n)", {"n": 16})
(256, 8.0)
>>> formula("9.89×10¹⁴", {}), formula("24*s*h²", {"s": 2, "h": 5120})
(989000000000000.0, 1258291200)
>>> formula("$n \\\\times 2 \\\\cdot h^{2}$", {"n": 3, "h": 5})
150
>>> formula("2*B*D", {"D": 4096})                          # a name without a size is a symbol
8192*B
>>> formula_names("1.2*12*n*h*h + 4*n*b*h*(s + o)")
('n', 'h', 'b', 's', 'o')
>>> formula("2B*D", {"B": 1, "D": 1})
Traceback (most recent call last):
roofline.errors.NotationError: expected an operator before 'B'; write 2*B
  2B*D
   ^
>>> formula("2BDF", {})
Traceback (most recent call last):
roofline.errors.NotationError: expected an operator before 'BDF'; write 2*BDF, or 2*B*D*F if each letter is a size
  2BDF
   ^
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from roofline.counts import plain, powers
from roofline.errors import NotationError, near_words, quoted, suggest
from roofline.frozen import NamedTuple
from roofline.lazy import np
from roofline.signatures import takes
from roofline.sizes import (
    Size,
    ceil_div,
    check,
    exact_div,
    floor_div,
    is_array,
    is_symbol,
    log2,
    maximum,
    minimum,
    none_open,
    sqrt,
    symbol,
)

#: How long a formula may be, how deep its parentheses may go, how many bits a whole number in it may have.
LONGEST = 2000
DEEPEST = 50
MOST_BITS = 4096
#: The largest exponent of something that is not a plain number.
LARGEST_EXPONENT = 64

FUNCTIONS: Mapping[str, Callable[..., Size]] = {
    "max": maximum,
    "min": minimum,
    "ceil": lambda a: _whole(ceil_div(a, 1)),
    "floor": lambda a: _whole(floor_div(a, 1)),
    "sqrt": sqrt,
    "log2": log2,
}
_MANY = ("max", "min")

#: What stands for the letters that a plain number may have behind it; in a formula letters are sizes.
_POWERS = {
    "k": "e3", "K": "e3", "M": "e6", "G": "e9", "B": "e9", "T": "e12",
    "Ki": "*2^10", "Mi": "*2^20", "Gi": "*2^30", "Ti": "*2^40",
}  # fmt: skip

_TOKEN = (
    r"[\s$]*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(?P<name>[^\W\d]\w*)"
    r"|(?P<sign>\*\*|//|\\times|\\cdot|[-+*/^(){},·×−])|(?P<end>\Z)|(?P<other>.))"
)
_SPELLED = {"^": "**", "·": "*", "×": "*", "−": "-", "\\times": "*", "\\cdot": "*", "{": "(", "}": ")"}


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


class _Item(NamedTuple):
    """One item of a formula in postfix order.

    ``kind`` is number, name, or what takes ``arity`` values from before it: call, or an operator's sign.
    """

    kind: str
    value: Any
    arity: int
    position: int


@takes()
def formula(text: str, sizes: Mapping[str, Size | None]) -> Size:
    """Evaluate a formula of named sizes: ``+ - * / // ^``, parentheses, max, min, ceil, floor, sqrt, log2.

    ``^`` and ``**`` are powers. Whole numbers stay exact. Sizes may be ints, arrays or missing: a missing one becomes
    a symbol, unless another is an array, which is an error. What does not read, an operation that has no value
    and a number out of range raise :class:`~roofline.errors.NotationError` with a caret.
    """
    reader = _Reader(text)
    items = reader.read()
    names = _names(items)
    known = {name: check(name, sizes[name]) for name in names if _has(sizes, name)}
    missing = [name for name in names if name not in known]
    arrays = [name for name, value in known.items() if is_array(value)]
    if not arrays:
        known |= {name: symbol(name) for name in missing}
        return _evaluate(reader.text, items, known)
    none_open(arrays, [*missing, *(name for name, value in known.items() if is_symbol(value))])
    with np.errstate(all="ignore"):
        floats = {name: value if is_array(value) else float(value) for name, value in known.items()}
        return _evaluate(reader.text, items, floats)


@takes()
def formula_names(text: str) -> tuple[str, ...]:
    """List the names in a formula in order of appearance; text that is no formula names nothing.

    >>> formula_names("2*B*D + B"), formula_names("3 TFLOP")
    (('B', 'D'), ())
    """
    try:
        return read_names(text)
    except NotationError:
        return ()


@takes()
def read_names(text: str) -> tuple[str, ...]:
    """List the names in a formula; text that is no formula is the error that says why."""
    return _names(_Reader(text).read())


def _has(sizes: Mapping[str, Size], name: str) -> bool:
    try:
        return sizes[name] is not None
    except KeyError:
        return False


def _names(items: Iterable[_Item]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.value for item in items if item.kind == "name"))


class _Reader:
    """Reads one formula into postfix order, from the loosest operators to the tightest."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text.strip():
            raise NotationError("an empty formula", hint="as in 2*B*D*F")
        if len(text) > LONGEST:
            raise NotationError(f"a formula of {len(text)} characters", hint=f"at most {LONGEST} are read")
        self.text = powers(plain(text))
        if self.text.count("{") != self.text.count("}"):
            raise NotationError(f"a brace of {quoted(text)} has no other half", hint="as in 10^{12}, or with ( and )")
        self.tokens = [_token(found) for found in re.finditer(_TOKEN, self.text, re.DOTALL)]
        self.items: list[_Item] = []
        self.at = 0
        self.depth = 0

    def read(self) -> tuple[_Item, ...]:
        self.sum()
        token = self.token
        if token.kind == "end":
            return tuple(self.items)
        raise self.fail(f"expected an operator before {token.text!r}", hint=self.product() or _ALLOWED)

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def sign(self, *signs: str) -> _Token | None:
        """Take the next token if it is one of these."""
        token = self.token
        if token.kind != "sign" or token.text not in signs:
            return None
        self.at += 1
        return token

    def emit(self, kind: str, value: Any, count: int, token: _Token) -> None:
        self.items.append(_Item(kind, value, count, token.position))

    def sum(self) -> None:
        self.term()
        while operator := self.sign("+", "-"):
            self.term()
            self.emit(operator.text, None, 2, operator)

    def term(self) -> None:
        self.signed()
        while operator := self.sign("*", "/", "//"):
            self.signed()
            self.emit(operator.text, None, 2, operator)

    def signed(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.fail("the formula is nested too deeply", hint=f"{DEEPEST} levels are read")
        operator = self.sign("+", "-")
        if operator is None:
            self.power()
        else:
            self.signed()
            self.emit("negative" if operator.text == "-" else "positive", None, 1, operator)
        self.depth -= 1

    def power(self) -> None:
        self.atom()
        if operator := self.sign("**"):
            self.signed()
            self.emit("**", None, 2, operator)

    def atom(self) -> None:
        token = self.token
        if token.kind == "number":
            self.at += 1
            self.emit("number", self.number(token), 0, token)
        elif token.kind == "name":
            self.at += 1
            if self.sign("("):
                self.call(token)
            else:
                self.emit("name", token.text, 0, token)
        elif self.sign("("):
            self.sum()
            self.close()
        else:
            known = token.kind in ("end", "sign")
            raise self.fail("expected a number, a name or '('", hint="" if known else _ALLOWED)

    def call(self, name: _Token) -> None:
        if name.text not in FUNCTIONS:
            listed = f"a product is written {name.text}*(…); {suggest(name.text, FUNCTIONS, what='functions')}"
            hint = near_words(name.text, FUNCTIONS) or listed
            raise self.fail(f"unknown function '{name.text}'", name.position, hint)
        count = 1
        self.sum()
        while self.sign(","):
            self.sum()
            count += 1
        self.close()
        if count > 1 and name.text not in _MANY:
            raise self.fail(f"{name.text} takes one argument, not {count}", name.position)
        self.emit("call", name.text, count, name)

    def close(self) -> None:
        if not self.sign(")"):
            raise self.fail("expected ')'", hint=self.product())

    def product(self) -> str:
        """Suggest the multiplication sign where two values stand side by side."""
        before, token = self.tokens[self.at - 1], self.token
        if token.kind not in ("name", "number") and token.text != "(":
            return ""
        is_whole = len(self.tokens) == 3  # with the end: beside others B is a size
        power = _POWERS.get(token.text) if before.kind == "number" and (token.text != "B" or is_whole) else None
        if power is not None:
            return f"write {before.text}*{token.text} for a product, or the number itself, as in {before.text}{power}"
        sides = ["(…)" if text in "()" else text for text in (before.text, token.text)]
        letters = ["*".join(side) if re.fullmatch("[A-Za-z]{2,4}", side) else side for side in sides]
        alone = f", or {'*'.join(letters)} if each letter is a size" if letters != sides else ""
        return f"write {'*'.join(sides)}{alone}"

    def number(self, token: _Token) -> int | float:
        mantissa, _, exponent = token.text.lower().partition("e")
        if len(exponent) > 4 or len(mantissa) > 300 or abs(int(exponent or 0)) > 300:
            raise self.fail("a number out of range", token.position, "numbers go up to 1e300")
        if "." in mantissa or exponent.startswith("-"):
            return float(token.text)
        return int(mantissa) * int(10 ** int(exponent or 0))

    def fail(self, message: str, position: int | None = None, hint: str = "") -> NotationError:
        where = self.token.position if position is None else position
        return NotationError(message, text=self.text, position=where, hint=hint)


def _token(found: re.Match[str]) -> _Token:
    kind = found.lastgroup or "other"
    text = found[kind]
    return _Token(kind, _SPELLED.get(text, text), found.start(kind))


_ALLOWED = "formulas are made of numbers, names, + - * / // ^, parentheses and " + ", ".join(FUNCTIONS)


def _evaluate(text: str, items: Iterable[_Item], sizes: Mapping[str, Size]) -> Size:
    stack: list[Size] = []
    for item in items:
        if item.arity == 0:
            stack.append(item.value if item.kind == "number" else sizes[item.value])
            continue
        parts = stack[-item.arity :]
        del stack[-item.arity :]
        function = FUNCTIONS[item.value] if item.kind == "call" else _OPERATORS[item.kind]
        try:
            stack.append(_plain(function(*parts)))
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            what = f"{item.value}(…)" if item.kind == "call" else f"this '{_written(text, item.position)}'"
            reason = next((said for kind, said in _REASONS.items() if isinstance(error, kind)), "not a real number")
            raise NotationError(f"{what} is {reason}", text=text, position=item.position) from None
    return _finite(stack.pop(), text)


def _written(text: str, position: int) -> str:
    """The operator as it stands in the text: ``^`` or ``**``."""
    return text[position : position + 2] if text.startswith(("**", "//"), position) else text[position]


_REASONS: Mapping[type[Exception], str] = {OverflowError: "too large", ZeroDivisionError: "a division by zero"}


def _divide(a: Size, b: Size, divide: Callable[[Size, Size], Size]) -> Size:
    zero = (b == 0).any() if is_array(b) else b == 0
    if zero:
        raise ZeroDivisionError
    return divide(a, b)


def _power(base: Size, exponent: Size) -> Size:
    """Raise to a power, unless the result would take for ever."""
    numbers = not any(is_array(v) or is_symbol(v) for v in (base, exponent))
    if not numbers:
        if isinstance(exponent, int | float) and abs(exponent) > LARGEST_EXPONENT:
            raise OverflowError
        return base**exponent
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if abs(base) > 1 and base.bit_length() * exponent > MOST_BITS:
            raise OverflowError
        return base**exponent
    result = float(base) ** float(exponent)
    if isinstance(result, complex):
        raise ValueError
    return result


_OPERATORS: Mapping[str, Callable[..., Size]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: _divide(a, b, exact_div),
    "//": lambda a, b: _divide(a, b, floor_div),
    "**": _power,
    "negative": lambda a: -a,
    "positive": lambda a: a,
}


def _plain(value: Size) -> Size:
    """A symbolic result without symbols left (n − n) is a plain number again."""
    if not is_symbol(value) or not value.is_number:
        return value
    if value.is_real is False or not value.is_finite:
        raise ValueError
    return int(value) if value.is_Integer else float(value)


def _whole(value: Size) -> Size:
    return int(value) if isinstance(value, float) and math.isfinite(value) else value


def _finite(value: Size, text: str) -> Size:
    if is_symbol(value):
        return value
    try:
        held = bool((abs(value) < float("inf")).all()) if is_array(value) else math.isfinite(value)
    except OverflowError:
        held = False
    if not held:
        raise NotationError("the formula gives no finite number", text=text)
    return value
