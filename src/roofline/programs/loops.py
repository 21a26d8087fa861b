"""How often loops run whose number of trips is not in the program: what the user states, for JAX and ONNX.

>>> stated(10, "step.py:12", "how often this loop runs depends on its data")
10
>>> stated({"step.py:3": 10}, "step.py:12", "how often this loop runs depends on its data")
Traceback (most recent call last):
roofline.errors.InputError: step.py:12: how often this loop runs depends on its data; ...
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from roofline.errors import InputError
from roofline.sizes import Size, is_symbol


def stated(trips: Any, place: str, why: str) -> Size:
    """The trips stated for the loop at ``place``; without any, an error that says ``why`` they are needed."""
    chosen = trips.get(place) if isinstance(trips, Mapping) else trips
    if chosen is None:
        hint = f'say trips=10 (--trips 10), or trips={{"{place}": 10}} (--trips {place}=10) where there are several'
        raise InputError(f"{place}: {why}", hint=hint)
    if not is_symbol(chosen) and (isinstance(chosen, bool) or not isinstance(chosen, Integral) or chosen < 0):
        raise InputError(f"{place}: a loop cannot run {chosen!r} times", hint="trips are a whole number from 0 on")
    return chosen
