"""Values that an argument may be given by mistake or in bad faith, alone and inside a right list or dict."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import io
import itertools
import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import sympy

import roofline
from roofline import models

LINE, SIZES = "bf16[B, D] * bf16[D, F]", {"B": 8, "D": 8, "F": 8}


def _raising(*names: str) -> Any:
    """A value whose own methods raise."""

    def wrong(*_: Any) -> Any:
        raise RuntimeError("of the value itself")

    return type("Raising", (), dict.fromkeys(names, wrong) | {"__hash__": object.__hash__})()


def _made(library: str, name: str, *given: Any) -> Any:
    """What another library makes, None where it is not installed."""
    try:
        found = getattr(import_module(library), name)
    except ImportError:
        return None
    return found(*given) if given else found


def _deep(levels: int = 5000) -> list[Any]:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


def _itself() -> list[Any]:
    nested: list[Any] = []
    nested.append(nested)
    return nested


def _with(kind: type, *given: Any, **methods: Any) -> Any:
    """A value of a class of its own below ``kind``, with some methods of its own."""
    return type("Own", (kind,), methods)(*given)


def _wrong(*_: Any, **__: Any) -> Any:
    raise RuntimeError("of the value itself")


class _Colour(enum.Enum):
    RED = "red"


class _Level(enum.IntEnum):
    EIGHT = 8


@dataclasses.dataclass
class _Record:
    B: int = 8


_X = sympy.Symbol("x")
#: Values that an argument may be given by mistake.
HOSTILE: dict[str, Callable[[], Any]] = {
    **{repr(value): lambda value=value: value for value in (
        None, True, False, float("nan"), float("inf"), -float("inf"), -1, 0, 1, 2, -0.0, 0.5, 5e-324, 1e308, 10**30, "",
        "x", "1", "nan", "1e999", "\0", "\ud800", b"", b"x", [], {}, (), ["x"], [1, 2], [[1]], [None], [float("nan")],
        [0], [True], {"x": None}, {1: 2}, {"B": 1j}, {"B": []}, {1, 2}, 1j, int, sys, ("x", 1), ..., NotImplemented,
        slice(1), range(0), range(3), range(10**9), range(-2, 1), sympy.oo, sympy.nan, sympy.I, sympy.zoo, sympy.pi,
        sympy.Integer(2), sympy.Rational(1, 3), sympy.true, sympy.Eq(_X, 1), sympy.Matrix([1]), _X, -_X,
        np.int8(-1), np.float16("nan"), np.float32(2), np.longdouble("1e400"), np.bool_(True), np.str_("x"),
        np.datetime64("2020-01-01"), np.timedelta64(1), np.complex64(1j), np.void(b"x"), fractions.Fraction(1, 3),
        decimal.Decimal("NaN"), decimal.Decimal("8"), decimal.Decimal("sNaN"), fractions.Fraction(10**400),
        datetime.date(2020, 1, 1), datetime.timedelta(1), sympy.Interval(0, 1), sympy.Function("f")(_X), sympy.Lambda(_X, 1),
        sympy.Lambda(_X, _X), "llama-3-8b", "h100", "h100,h200", "bf16", "lower", "B=8",
    )},
    "10**400": lambda: 10**400, "-10**400": lambda: -10**400, "[10**400]": lambda: [10**400], "9…9": lambda: "9" * 400,
    "object": object, "function": lambda: lambda: 1, "raising function": lambda: lambda *_, **__: 1 // 0,
    "generator": lambda: (each for each in (1, 2)), "[symbol]": lambda: [_X], "error": lambda: ValueError("x"),
    "array": lambda: np.array([1, 2]), "array 0-d": lambda: np.array(3), "array 0-d text": lambda: np.array("x"),
    "array complex": lambda: np.array([1j]), "array empty": lambda: np.zeros(0), "cube": lambda: np.zeros((2, 2, 2)),
    "array objects": lambda: np.array([object()], dtype=object), "array of ints": lambda: np.array([1, 2], dtype=object),
    "array nan": lambda: np.array([np.nan]), "array bool": lambda: np.array([True]),
    "records": lambda: np.zeros(2, dtype=[("a", int)]), "masked": lambda: np.ma.array([1, 2], mask=[0, 1]),
    "dates": lambda: np.array(["2020"], dtype="M8"), "matrix": lambda: np.asmatrix([[1, 2]]),
    "array negative": lambda: np.array([-1, 2]), "array uint8": lambda: np.array([200, 200], dtype=np.uint8),
    "own text": lambda: type("Text", (str,), {})("h100"), "own number": lambda: type("Whole", (int,), {})(8),
    "counter": lambda: Counter("ab"), "views": lambda: {"h100": 1}.keys(), "map": lambda: map(str, [1, 2]),
    "str raises": lambda: _raising("__str__"), "iter raises": lambda: _raising("__iter__"),
    "tensor": lambda: _made("torch", "tensor", 8), "tensors": lambda: _made("torch", "tensor", [8, 16]),
    "jax array": lambda: _made("jax.numpy", "array", [8, 16]), "jax number": lambda: _made("jax.numpy", "array", 8),
    "torch dtype": lambda: _made("torch", "bfloat16"), "series": lambda: _made("pandas", "Series", [8, 16]),
    "frame": lambda: _made("pandas", "DataFrame", {"B": [8]}), "NaT": lambda: _made("pandas", "NaT"),
    "NA": lambda: _made("pandas", "NA"), "== raises": lambda: _raising("__eq__"), "repr raises": lambda: _raising("__repr__"),
    "bool raises": lambda: _raising("__bool__"), "float raises": lambda: _raising("__float__"),
    "equals all": lambda: type("Equal", (), {"__eq__": lambda self, other: True, "__hash__": None})(),
    "deep": _deep, "deep dict": lambda: {"B": _deep()}, "itself": _itself, "bytearray": lambda: bytearray(b"1"),
    "long": lambda: "x" * 10**6, "brackets": lambda: "(" * 10**4, "path": lambda: Path("/nope"), "folder": lambda: "/",
    "null device": lambda: os.devnull, "chip": lambda: roofline.chip("h100"), "namespace": SimpleNamespace,
    "bound": lambda: roofline.bound(LINE, on="h100", **SIZES), "model": lambda: models.load("llama-2-7b"),
    "endless": itertools.count, "endless text": lambda: itertools.repeat("h100"), "endless map": lambda: map(str, itertools.count()),
    "endless by number": lambda: _with(object, __getitem__=lambda self, at: "h100"),
    "lying length": lambda: _with(object, __len__=lambda self: 10**12, __getitem__=lambda self, at: 8),
    "lying class": lambda: _with(object, __class__=str), "class raises": lambda: _with(object, __class__=property(_wrong)),
    "lying int": lambda: _with(object, __class__=int), "lying dict": lambda: _with(object, __class__=dict),
    "proxy": lambda: weakref.proxy(roofline), "mock": MagicMock, "mock of text": lambda: MagicMock(spec=str),
    "only float": lambda: _with(object, __float__=lambda self: 8.0), "only index": lambda: _with(object, __index__=lambda self: 8),
    "float of text": lambda: _with(object, __float__=lambda self: "x"), "only int": lambda: _with(object, __int__=lambda self: 8),
    "any attribute": lambda: _with(object, __getattr__=lambda self, name: 8),
    "attribute raises": lambda: _with(object, __getattr__=_wrong), "hash raises": lambda: _with(object, __hash__=_wrong),
    "text raises": lambda: _with(str, "h100", **dict.fromkeys(("split", "strip", "lower", "partition"), _wrong)),
    "text without hash": lambda: _with(str, "h100", __hash__=None), "text equals none": lambda: _with(str, "h100", __eq__=lambda self, other: False, __hash__=str.__hash__),
    "dict raises": lambda: _with(dict, {"B": 8}, items=_wrong, keys=_wrong, __iter__=_wrong, __getitem__=_wrong),
    "list raises": lambda: _with(list, [8], __iter__=_wrong, __len__=_wrong, __getitem__=_wrong),
    "int raises": lambda: _with(int, 8, **dict.fromkeys(("__mul__", "__rmul__", "__lt__", "__float__", "__add__"), _wrong)),
    "float nan of its own": lambda: _with(float, "nan"), "float of its own": lambda: _with(float, 8.0),
    "own dict": lambda: collections.UserDict({"B": 8}), "ordered": lambda: collections.OrderedDict(B=8), "own list": lambda: collections.UserList([8]),
    "deque": lambda: collections.deque(["h100"]), "default dict": lambda: collections.defaultdict(list), "chain": lambda: collections.ChainMap({"B": 8}),
    "named": lambda: collections.namedtuple("Named", "B D")(8, 8), "colour": lambda: _Colour.RED, "level": lambda: _Level.EIGHT,
    "record": _Record, "own class": lambda: _Record, "view of memory": lambda: memoryview(b"h100"),
    "packed": lambda: array.array("d", [8.0, float("nan")]), "path of bytes": lambda: _with(object, __fspath__=lambda self: b"h100"),
    "path raises": lambda: _with(object, __fspath__=_wrong), "many names": lambda: {f"x{at}" for at in range(10**5)},
    "many chips": lambda: [f"x{at}" for at in range(10**5)], "long key": lambda: {"x" * 10**6: 8}, "many keys": lambda: {f"x{at}": 8 for at in range(10**5)},
    "index": lambda: _made("pandas", "Index", [8, 16]), "category": lambda: _made("pandas", "Categorical", ["h100"]),
    "timestamp": lambda: _made("pandas", "Timestamp", "2020"), "texts": lambda: np.array(["h100", "a100"]), "row and column": lambda: np.array([[8], [16]]),
    "array of texts": lambda: np.array(["8", "x"], dtype=object), "array of bytes": lambda: np.array([b"8"]), "large array": lambda: np.full(2 * 10**4, 8),
    "array read backwards": lambda: np.arange(1, 9)[::-2], "array big": lambda: np.array([2**63 - 1, 2**62]), "array infinite": lambda: np.array([np.inf, -np.inf]),
    "half tensor": lambda: _made("torch", "tensor", [[8.0]]), "numbers as text": lambda: ["8", "16"], "range as text": lambda: "1:8",
    "formula": lambda: "2*B", "line": lambda: LINE, "escape": lambda: "\x1b[31mred", "right to left": lambda: "\u202eh100",
    "null in it": lambda: "h100\0", "lines": lambda: "h100\nh200", "digits": lambda: "\u0668", "wide": lambda: "\uff48\uff11\uff10\uff10",
    "sizes of its own": lambda: {"B": {"B": {"B": 8}}}, "sizes as text": lambda: "B=8,D=8", "key of text": lambda: {b"B": 8}, "key none": lambda: {None: None},
    "own error": lambda: roofline.errors.InputError("x"), "stop": StopIteration, "file": lambda: io.StringIO("B=8"),
}  # fmt: skip

#: Ways in which a value stands inside what is right.
INSIDE: dict[str, Callable[[Any, Any], Any]] = {
    "[it]": lambda right, it: [it],
    "(right, it)": lambda right, it: (right, it),
    "[*right, it]": lambda right, it: [*right, it] if isinstance(right, list | tuple) else [right, it],
    "[[it]]": lambda right, it: [[it]],
    "{x: it}": lambda right, it: {"x": it},
    "{B: it}": lambda right, it: {"B": it},
    "{hbm: it}": lambda right, it: {"hbm": it},
    "{**right, its: it}": lambda right, it: (
        {**right, next(iter(right), "x"): it} if isinstance(right, dict) else {"B": 8, "D": it}
    ),
    "{it: right}": lambda right, it: {it: right} if type(it).__hash__ is not None else {"h100": {"hbm": it}},
    "{B: [right, it]}": lambda right, it: {"B": [8, it]},
    "iter([right, it])": lambda right, it: iter([right, it]),
    "array of it": lambda right, it: np.array([it, None], dtype=object)[:1],
}
