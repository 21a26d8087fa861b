"""When does it scale? Where computing takes as long as sending, for every algorithm the collectives may go by.

>>> from roofline.bounds.solve import solve
>>> found = solve("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "D", on="v5e:8")
>>> for crossing in found.by_algorithm:
...     if crossing.algorithm in ("direct", "one-way ring", "two-way ring", "book"):
...         print(crossing)
one-way ring: D = 61,288.9
two-way ring: D = 30,644.4
book: D = 35,022.2
direct: D = 245,156
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roofline.bounds.bound import Bound
from roofline.bounds.crossing import positive_number, put_numbers, roots_of
from roofline.bounds.question import Question
from roofline.errors import InputError
from roofline.quantity import format_number
from roofline.work import Op


@dataclass(frozen=True, slots=True, eq=False)
class Crossing:
    """Where T_math = T_comms by one algorithm: the closed form, and its value where it is a number."""

    algorithm: str
    unknown: str
    form: Any
    value: float | None

    def to_dict(self) -> dict[str, Any]:
        """The crossing as plain data."""
        return {"algorithm": self.algorithm, "form": str(self.form), "value": self.value}

    def __str__(self) -> str:
        shown = self.form if self.value is None else format_number(self.value, 6)
        return f"{self.algorithm}: {self.unknown} = {shown}"


def by_algorithm(asked: Question, unknown: str, x: Any, known: Mapping[Any, Any]) -> tuple[Crossing, ...]:
    """Find where the arithmetic takes as long as the busiest link, for every algorithm that fits the plan."""
    found = []
    for name in _algorithms(asked):
        try:
            answer = asked.vary(algorithm=name).answer(symbolic=True)
        except InputError:
            continue
        crossing = _crossing(answer, name, unknown, x, {**_rates(answer), **known})
        if crossing is not None:
            found.append(crossing)
    return tuple(found)


def network_pairs(symbolic: Bound) -> list[tuple[str, str]]:
    """Pairs of an arithmetic resource and a link."""
    math = [u.resource for u in symbolic.uses if u.quantity == "flops"]
    links = [u.resource for u in symbolic.uses if u.quantity == "wire"]
    return [(a, b) for a in dict.fromkeys(math) for b in dict.fromkeys(links)]


def _algorithms(asked: Question) -> list[str]:
    """Algorithms that do at least one of the plan's collectives."""
    from roofline.bounds.plans import lay_out
    from roofline.ops.collective import algorithms

    laid = lay_out(asked)
    mesh = laid.machine.mesh
    sent: list[Op] = [op for op in laid.ops if op.kind == "collective"]
    if mesh is None:
        return []
    names = (name for op in sent for name in algorithms(op.options["collective"], mesh.select(op.options["axes"])))
    return list(dict.fromkeys(names))


def _rates(answer: Bound) -> dict[Any, float]:
    return {use.rate.value: use.rate.plain for use in answer.uses if use.rate.plain is not None}


def _crossing(answer: Bound, name: str, unknown: str, x: Any, known: Mapping[Any, Any]) -> Crossing | None:
    """The last crossing of a link with the arithmetic: from there on every link is hidden."""
    forms = [
        form
        for math, link in network_pairs(answer)
        for form in roots_of(answer.times[math], answer.times[link], x) or ()
    ]
    if not forms:
        return None
    numbers = [(positive_number(put_numbers(form, known)), form) for form in forms]
    valued = [(value, form) for value, form in numbers if value is not None]
    value, form = max(valued, key=lambda pair: pair[0]) if valued else (None, forms[0])
    return Crossing(name, unknown, form, value)
