"""Amounts of raw work as they are given: numbers, lists, text with a unit, formulas of named sizes.

>>> amount("1 TFLOP", "FLOP", {}), amount("2*N - 1", "FLOP", {"N": 1024})
(1000000000000.0, 2047)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.errors import QuantityError
from roofline.ops import formula
from roofline.quantity import kind_of, parse, typed
from roofline.sizes import is_array, is_symbol

AMOUNT_UNITS = {"flops": "FLOP", "bytes": "B", "intensity": "FLOP/B"}


def written(amount: Any) -> str:
    """An amount of raw work in words: several as a list, of which the first and the last where there are many."""
    if not is_array(amount):
        return typed(amount)
    shown = [f"{value:g}" for value in amount.ravel().tolist()]
    return "[" + ", ".join(shown if len(shown) <= 4 else [*shown[:2], "…", shown[-1]]) + "]"


def amount(value: Any, unit: str, sizes: Mapping[str, Any]) -> Any:
    """Read an amount of raw work: a number, an array, "1 TFLOP", or a formula of named sizes."""
    if is_array(value):
        return _amounts(value, unit)
    if not isinstance(value, str):
        return value if is_symbol(value) else parse(value, unit)
    try:
        return parse(value, unit)
    except QuantityError:
        if kind_of(value) is not None or _is_float(value):
            raise
        return formula(value, sizes)


def _amounts(values: Any, unit: str) -> Any:
    """Take an array of amounts as it is; the first that is none is the error of that number alone."""
    import numpy as np

    for value in values[~(np.isfinite(values) & (values > 0))].ravel()[:1].tolist():
        parse(value, unit)
    return values


def several_amounts(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Amounts of raw work that are lists as arrays, each of their figures read for itself; the rest as they are."""
    import numpy as np

    return {
        name: np.array([parse(each, AMOUNT_UNITS[name]) for each in value])
        if isinstance(value, list | tuple | range) and len(value)
        else value
        for name, value in raw.items()
    }


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
