"""Loops and branches: how often a loop runs where the user states it, and which branch is the larger.

>>> stated(10, "step.py:12", "how often this loop runs depends on its data")
10
>>> stated({"step.py:3": 10}, "step.py:12", "how often this loop runs depends on its data")
Traceback (most recent call last):
roofline.errors.InputError: step.py:12: how often this loop runs depends on its data; ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from roofline.errors import InputError
from roofline.ops.counting import count
from roofline.sizes import Size, is_symbol
from roofline.work import Op

#: What an open size is taken for where branches are compared.
TYPICAL_SIZE = 1024


def stated(trips: Any, place: str, why: str) -> Size:
    """The stated number of trips of the loop at ``place``; an error that says ``why`` it is needed if there is none."""
    chosen = trips.get(place) if isinstance(trips, Mapping) else trips
    if chosen is None:
        hint = f'say trips=10 (--trips 10), or trips={{"{place}": 10}} (--trips {place}=10) where there are several'
        raise InputError(f"{place}: {why}", hint=hint)
    if not is_symbol(chosen) and (isinstance(chosen, bool) or not isinstance(chosen, Integral) or chosen < 0):
        raise InputError(f"{place}: a loop cannot run {chosen!r} times", hint="trips are a whole number from 0 on")
    return chosen


def branch_cost(ops: Sequence[Op]) -> float:
    """How much a branch costs, to compare it with others: FLOPs, and bytes where those are the same."""
    moved = [tensor.traffic_bytes * op.repeat for op in ops for tensor in (*op.reads, *op.writes)]
    cost = count(ops, "all") + (sum(moved[1:], moved[0]) * 1e-9 if moved else 0)
    return float(cost.subs(dict.fromkeys(cost.free_symbols, TYPICAL_SIZE)) if is_symbol(cost) else cost)
