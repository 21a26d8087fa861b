"""Rates as symbols, for closed forms: ``P_bf16`` for a peak, ``W_hbm`` for a bandwidth; numbers go in last.

>>> from roofline.hardware import chip
>>> from roofline.work import Key
>>> found = symbolic_rate(chip("v5e"), Key("flops", "matrix", "bf16"), None)
>>> found.value, values_of([found.value], [found])
(P_bf16, {P_bf16: 197000000000000.0})
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from roofline.hardware.machine import Machine, Rate
from roofline.hardware.rate import rate
from roofline.work import Key, Op

_LETTER = {"flops": "P", "bytes": "W", "wire": "W", "hops": "L"}


def symbolic_rate(machine: Machine, key: Key, op: Op | None) -> Rate | None:
    """Do what :func:`roofline.hardware.rate.rate` does, with a symbol for the value; the figure keeps the number."""
    found = rate(machine, key, op)
    if found is None:
        return None
    name = f"{_LETTER[key.quantity]}_{found.dtype or key.dtype or _resource(machine, key, found)}"
    name = re.sub(r"\W", "_", name)
    units = {unit.name: unit.kind for unit in machine.units}
    if key.quantity == "flops" and units.get(found.resource) != "matrix":
        name += f"_{found.resource}"
    return found._replace(value=rate_symbol(name), plain=found.value)


def _resource(machine: Machine, key: Key, found: Rate) -> str:
    """What a rate is named after: hops share one resource, and those of each link have a latency of their own."""
    level = machine.mesh.segment(key.place) if key.quantity == "hops" and machine.mesh is not None else None
    return found.resource if level is None else level.link


@cache
def rate_symbol(name: str) -> Any:
    """Make the symbol of a rate: a positive real number."""
    import sympy

    return sympy.Symbol(name, positive=True)


def values_of(symbols: Iterable[Any], rates: Sequence[Rate]) -> dict[Any, float]:
    """Map rate symbols to the numbers they stand for."""
    wanted = set(symbols)
    return {r.value: r.plain for r in rates if r.value in wanted and r.plain is not None}
