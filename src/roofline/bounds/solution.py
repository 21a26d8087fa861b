"""Solution: where the bottleneck flips, as a value that can be shown, saved and asked again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.answers import Answer, attributes, heading, plain_data
from roofline.bounds.bound import Bound
from roofline.bounds.question import Question
from roofline.hardware.rate import WARM
from roofline.quantity import format_amount, format_number, format_percent, format_quantity
from roofline.sections import Section, named, word_pairs

if TYPE_CHECKING:
    from roofline.bounds.solve_network import Crossing

#: Flips listed of one solution.
MOST_FLIPS = 6


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Solution(Answer):
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

    @property
    def local(self) -> float | None:
        """The part of ``value`` that one chip has, where the line shards that size; else None.

        >>> from roofline import solve
        >>> solve("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "D", on="v5e:2", link=4.5e10).local
        4377.7...
        """
        if self.value is None or self.unit or not self.question.is_sharded:
            return None
        ways = self.question.multiple_of(self.unknown)
        return self.value / ways if ways > 1 else None

    def at_pick(self) -> Bound | None:
        """The bound at the whole number to take, where the unknown is a size."""
        if self.pick is None:
            return None
        return self.question.with_sizes(**{self.unknown: self.pick}).answer()

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/solution/1``)."""
        forms = {name: getattr(self, name) for name in ("form", "limit_form")}
        texts = {name: None if form is None else str(form) for name, form in forms.items()}
        return {
            **heading("roofline/solution/1", self.question.machine, self.question.expression),
            **attributes(self, "unknown", "unit", "value", "pick", "local", "before", "after", "verdict"),
            "form": texts["form"],
            "valid": None if self.valid is True else str(self.valid),
            "limit": self.limit,
            "limit_form": texts["limit_form"],
            **attributes(self, "intensity_limit", "critical_intensity"),
            "flips": [{"value": v, "before": a, "after": b} for v, a, b in self.flips],
            **attributes(self, "method", "assumptions", "incomplete"),
            **({"fraction": self.fraction} if self.fraction is not None else {}),
            **{name: plain_data(found) for name in ("collectives", "by_algorithm") if (found := getattr(self, name))},
        }

    def sections(self) -> tuple[Section, ...]:
        """Where it flips, the number to take, the closed form, and what was assumed."""
        return word_pairs(self.question.expression, self.question.machine.name, tuple(solution_pairs(self)))

    def one_line(self) -> str:
        """Where it flips."""
        where = "" if self.value is None else f" ({self.unknown} = {self.value:.6g})"
        return f"Solution: {self.verdict}{where} on {self.question.machine.name}"


def solution_pairs(found: Solution) -> Iterator[tuple[str, str]]:
    """The answer to "where does it flip?" as pairs of a word and a sentence."""
    yield "answer", found.verdict
    if found.value is not None:
        exact = 8  # significant digits
        value = format_quantity(found.value, found.unit, exact) if found.unit else format_number(found.value, exact)
        yield "exactly", f"{found.unknown} = {value}"
        if found.fraction is not None:
            sheet = format_quantity(found.value / found.fraction, found.unit)
            yield "data sheet", f"{sheet}, of which {found.fraction:.3g} is reached as measured"
    if found.local is not None and found.value is not None:
        yield "on each chip", f"{found.unknown} / {found.value / found.local:g} = {format_number(found.local, 8)}"
    if found.pick is not None:
        yield "take", f"{found.unknown} = {found.pick}{_reached(found.at_pick())}"
    if found.form is not None:
        yield "closed form", f"{found.unknown} = {found.form}"
        if found.valid is not True:
            yield "valid while", str(found.valid)
    if found.limit is not None:
        form = "" if found.limit_form is None else f" = {found.limit_form}"
        yield "for large sizes", f"{found.unknown} → {format_number(found.limit)}{form}"
    if found.intensity_limit is not None:
        ridge = found.critical_intensity
        against = f" against a ridge of {format_number(ridge)}" if ridge is not None else ""
        yield "intensity", f"→ {format_number(found.intensity_limit)} FLOP/B as {found.unknown} grows{against}"
    if len(found.flips) > 1:
        steps = "; ".join(f"{a} → {b} at {format_number(v)}" for v, a, b in found.flips[:MOST_FLIPS])
        yield "changes", steps + (f"; … ({len(found.flips)} in all)" if len(found.flips) > MOST_FLIPS else "")
    if found.method != "closed form":
        yield "found by", found.method
    if found.question.conventions.plan is not None:
        yield "plan", str(found.question.conventions.plan)
    if found.collectives:
        yield "algorithm", "; ".join(found.collectives)
    yield from named("assumes", found.question.particular(found.assumptions))
    yield from named("incomplete", found.incomplete)
    yield from named("math = comms", tuple(map(str, found.by_algorithm)))


def _reached(at: Bound | None) -> str:
    """The time and the share of the peak at the number to take."""
    if at is None:
        return ""
    time = "" if at.is_rate_only else f"{format_amount(at.lower, 's')}, "
    return f": {time}{format_percent(at.utilisation or 0)} of peak"


def fraction_of(rate: Any, answer: Bound) -> float | None:
    """The measured fraction of a data-sheet figure that a rate is; None for the figure itself, and for a size."""
    if not answer.machine.use_achievable or answer.machine.over == WARM:
        return None
    for found in (use.rate for use in answer.uses if use.rate.value == rate):
        if found.plain is not None and found.figure is not None and found.plain < found.figure.value:
            return found.plain / found.figure.value
    return None
