"""What fits: the largest batch, the longest context.

>>> from roofline.models import load
>>> model = load("llama-2-7b")
>>> largest_batch(model, 80e9, context=4095), longest_context(model, 80e9, batch=16)
(30, 4095)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.errors import InputError
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.operations import decode
from roofline.models.serving import needs

#: The search stops here; no chip holds as much.
_MOST = 1 << 40


def largest_batch(model: Model | str, capacity: float, *, context: int, **options: Any) -> int:
    """The most sequences of ``context`` tokens that ``capacity`` bytes have room for in a decode step; 0 if none."""
    described = load(model)
    return _largest(lambda batch: _bytes(described, batch, context, options) <= capacity)


def longest_context(model: Model | str, capacity: float, *, batch: int, **options: Any) -> int:
    """The most cached tokens that ``batch`` sequences have room for, no more than the model takes; 0 if none."""
    described = load(model)
    longest = None if described.context is None else described.context - 1

    def fits(context: int) -> bool:
        return (longest is None or context <= longest) and _bytes(described, batch, context, options) <= capacity

    return _largest(fits)


def _bytes(model: Model, batch: int, context: int, options: dict[str, Any]) -> float:
    ops = decode(model, batch=batch, context=context, **options)
    return float(needs(model, ops, context + 1, batch, options).total)


def _largest(fits: Callable[[int], bool]) -> int:
    """The largest whole number that fits, given that all smaller ones do."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, high * 2
        if high > _MOST:
            raise InputError("there is no largest one: nothing grows with it")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
