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

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.bounds.bound import Bound
from roofline.bounds.crossing import free_symbols, positive_number, put_numbers, roots_of
from roofline.bounds.question import Question
from roofline.errors import InputError
from roofline.frozen import dataclass
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
    from roofline.bounds.sharding_plans import lay_out
    from roofline.ops.collectives.cost import algorithms

    laid = lay_out(asked)
    mesh = laid.machine.mesh
    sent: list[Op] = [op for op in laid.ops if op.kind == "collective"]
    if mesh is None:
        return []
    names = (
        name
        for op in sent
        for name in algorithms(op.options["collective"], mesh.select(op.options["axes"]), op.writes[0].dtype)
    )
    return list(dict.fromkeys(names))


def _rates(answer: Bound) -> dict[Any, float]:
    return {use.rate.value: use.rate.plain for use in answer.uses if use.rate.plain is not None}


def _crossing(answer: Bound, name: str, unknown: str, x: Any, known: Mapping[Any, Any]) -> Crossing | None:
    form = busiest_crossing(answer, x, known)
    return None if form is None else Crossing(name, unknown, form, positive_number(put_numbers(form, known)))


def busiest_crossing(answer: Bound, x: Any, known: Mapping[Any, Any]) -> Any:
    """Where the arithmetic of an answer takes as long as the busiest of its links; None where none ever does."""
    math = [answer.times[resource] for resource in dict.fromkeys(a for a, _ in network_pairs(answer))]
    links = [answer.times[resource] for resource in dict.fromkeys(b for _, b in network_pairs(answer))]
    return hidden_from(math[0], links, x, known) if math else None


def hidden_from(math: Any, links: Sequence[Any], x: Any, known: Mapping[Any, Any]) -> Any:
    """Where the busiest of several links takes as long as the arithmetic; None where none ever does.

    Of the crossings with each link that is the one at which no other link takes longer.
    """
    forms = [root for link in links for root in roots_of(math, link, x) or ()]
    valued = [(form, value) for form in forms if (value := positive_number(put_numbers(form, known))) is not None]
    for form, value in valued:
        here = {**known, x: value}
        if all(_ratio(link / math, here) <= 1 + 1e-9 for link in links):
            return form
    return valued[0][0] if valued else forms[0] if forms else None


def _ratio(ratio: Any, known: Mapping[Any, Any]) -> float:
    """Put numbers into a ratio of times; sizes that are open mostly cancel, and any number does for those."""
    number = put_numbers(ratio, known)
    return float(put_numbers(number, dict.fromkeys(free_symbols(number), 1000)))
