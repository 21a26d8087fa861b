"""Solution: where the bottleneck flips, as a value that can be shown, saved and asked again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.bounds.bound import Bound
from roofline.bounds.question import Question
from roofline.hardware.rate import WARM

if TYPE_CHECKING:
    from roofline.bounds.solve_network import Crossing


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Where the binding resource changes as ``unknown`` grows.

    Attributes
        ``value``    the exact crossing at the given sizes; None where nothing flips
        ``pick``     the whole number a user would take: the smallest past the crossing
        ``before``, ``after``   the resource that binds below and above
        ``verdict``  in words, also where nothing flips (``always memory-bound``)
        ``form``     the closed form in symbols, None where there is none
        ``valid``    what must hold for the closed form, as a symbolic inequality or True
        ``limit``    the crossing as all other sizes grow without bound, None where it has no finite limit
        ``limit_form``   that limit in symbols
        ``flips``    every change of the binding resource: (value, before, after)
        ``intensity_limit``   FLOP/B as the unknown and open sizes grow, where that is finite (2 for batched weights)
        ``critical_intensity``   FLOP/B at which computing takes as long as moving, where the sizes do not change it
        ``method``   ``closed form`` or ``bisection``
        ``collectives``   on several chips: by which algorithm each collective goes in this answer
        ``by_algorithm``   on several chips: where T_math = T_comms for every algorithm of the collectives
        ``assumptions``, ``incomplete``   what was assumed, and what could not be timed
        ``unit``     of ``value``: empty for a size, else B/s or FLOP/s
        ``fraction`` of a data-sheet rate that ``value`` is, where measured fractions are taken
    """

    unknown: str
    question: Question
    value: float | None
    pick: int | None
    before: str | None
    after: str | None
    verdict: str
    form: Any = None
    valid: Any = True
    limit: float | None = None
    limit_form: Any = None
    flips: tuple[tuple[float, str, str], ...] = ()
    intensity_limit: float | None = None
    critical_intensity: float | None = None
    by_algorithm: tuple[Crossing, ...] = ()
    collectives: tuple[str, ...] = ()
    method: str = "closed form"
    unit: str = ""
    assumptions: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    fraction: float | None = None

    def at_pick(self) -> Bound | None:
        """The bound at the whole number to take, where the unknown is a size."""
        if self.pick is None:
            return None
        return self.question.with_sizes(**{self.unknown: self.pick}).answer()

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/solution/1``)."""
        return {
            "schema": "roofline/solution/1",
            "expression": self.question.expression,
            "target": self.question.machine.name,
            "machine": self.question.machine.key,
            "unknown": self.unknown,
            "unit": self.unit,
            "value": self.value,
            "pick": self.pick,
            "before": self.before,
            "after": self.after,
            "verdict": self.verdict,
            "form": None if self.form is None else str(self.form),
            "valid": None if self.valid is True else str(self.valid),
            "limit": self.limit,
            "limit_form": None if self.limit_form is None else str(self.limit_form),
            "intensity_limit": self.intensity_limit,
            "critical_intensity": self.critical_intensity,
            "flips": [{"value": v, "before": a, "after": b} for v, a, b in self.flips],
            "method": self.method,
            "assumptions": list(self.assumptions),
            "incomplete": list(self.incomplete),
            **({"fraction": self.fraction} if self.fraction is not None else {}),
            **({"collectives": list(self.collectives)} if self.collectives else {}),
            **({"by_algorithm": [found.to_dict() for found in self.by_algorithm]} if self.by_algorithm else {}),
        }

    def __rich__(self) -> Any:
        from roofline.bounds.show import pairs_table, solution_lines

        return pairs_table(self.question.expression, self.question.machine.name, solution_lines(self))

    def _repr_html_(self) -> str:
        from roofline.bounds.show import pairs_html, solution_lines

        return pairs_html(self.question.expression, self.question.machine.name, solution_lines(self))

    def __repr__(self) -> str:
        where = "" if self.value is None else f" ({self.unknown} = {self.value:.6g})"
        return f"<Solution: {self.verdict}{where} on {self.question.machine.name}>"


def fraction_of(rate: Any, answer: Bound) -> float | None:
    """The measured fraction of a data-sheet figure that a rate is; None for the figure itself, and for a size."""
    if not answer.machine.use_achievable or answer.machine.over == WARM:
        return None
    for found in (use.rate for use in answer.uses if use.rate.value == rate):
        if found.plain is not None and found.figure is not None and found.plain < found.figure.value:
            return found.plain / found.figure.value
    return None
