"""The value of one unknown at which the floor takes a stated time: the largest size, or the least rate, within it.

>>> from roofline.bounds.solve import solve
>>> found = solve("bf16[X, D] * bf16[D, F]", "X", on="h100", D=8192, F=28672, time="1ms")
>>> found.pick, found.form
(2106, P_bf16*t/(2*D*F))
>>> found = solve("bf16[B, D] * bf16[D, F]", "hbm", on="h100", B=64, D=8192, F=28672, time="0.3ms")
>>> f"{found.value / 1e12:.2f} TB/s", found.bound_by
('1.58 TB/s', 'hbm')

Of a maximum of times that all grow with a size (or fall with a rate), the inverse is the least (or greatest) of their
inverses: each resource allows some value, and the one that allows the least binds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from roofline.answers import Fact, NoTime, attributes, heading
from roofline.bounds.bound import Bound
from roofline.bounds.crossing import collectives_in_words, free_symbols, positive_number, put_numbers, roots_of
from roofline.bounds.question import AboutQuestion, Question
from roofline.errors import HardwareError, InputError
from roofline.formulas.printers import language_named, number_source, text
from roofline.frozen import dataclass, field, replace
from roofline.hardware import override
from roofline.quantity import format_amount, format_number, format_percent, format_quantity
from roofline.sections import Section, named, word_pairs
from roofline.sizes import symbol
from roofline.statements import kind_of, without

#: The largest whole number that is tried where there is no closed form.
FARTHEST = 2**50

#: The highest rate that is tried: a hundred thousand times what the fastest chips have.
FASTEST = 1e25


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """One unknown in one question: ``symbolic`` its times in symbols, ``numbers`` the rates, ``sizes`` those given.

    ``pieces`` are the times with another piece for small collectives, ``symbolic`` has those for large ones. ``x`` is
    the unknown as a symbol, ``unit`` that of a rate. ``asked`` goes by the plan of ``symbolic``, ``any_plan`` by the
    best of each size. ``figure`` is what an override calls an unknown rate, ``now`` what that is on the machine.
    """

    asked: Question
    name: str
    x: Any
    unit: str
    symbolic: Bound
    numbers: Mapping[Any, Any]
    sizes: Mapping[Any, Any]
    pieces: Mapping[str, Any]
    any_plan: Question
    figure: str = ""
    now: float | None = None

    @property
    def known(self) -> Mapping[Any, Any]:
        """Rates and sizes that have a number."""
        return {**self.numbers, **self.sizes}

    @property
    def multiple(self) -> int:
        """The multiple that a size must be for the plan that is taken."""
        return self.asked.multiple_of(self.name) if self.symbolic.plan is not None else 1

    def at(self, value: float) -> Bound | None:
        """The answer with the unknown at a number; None where that cannot be asked."""
        try:
            if not self.unit:
                return self.any_plan.with_sizes(**{self.name: value}).answer()
            machine = override(self.any_plan.machine, {self.figure: f"{value / (self.now or 1):.17g}x"})
            return self.any_plan.vary(machine=machine).answer()
        except (InputError, HardwareError):
            return None

    def floor(self, value: float) -> float:
        """Seconds at best with the unknown at a number; without end where that cannot be asked."""
        found = self.at(value)
        return math.inf if found is None else float(found.lower)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimeSolution(AboutQuestion, NoTime):
    """What one unknown may be for the floor to take ``time`` seconds.

    Attributes
        ``value``     at which the floor takes exactly that; None where no value does
        ``pick``      of a size the largest whole number within it
        ``bound_by``  what binds there; where no value does, what takes longer by itself
        ``form``      the closed form of ``value`` in symbols, ``t`` the time; None where there is none
        ``valid``     where that is the answer: nothing else takes longer than ``t`` there
        ``least``     where no value does: the floor that is left, in seconds
        ``unit``      of ``value``: empty for a size, else B/s or FLOP/s
        ``rates``     that stand in the closed form, with their values
        ``answer``    the bound there, at ``pick`` of a size; None where that cannot be asked
    """

    unknown: str
    question: Question
    time: float
    value: float | None
    pick: int | None = None
    bound_by: str | None = None
    form: Any = None
    valid: Any = True
    least: float | None = None
    unit: str = ""
    assumptions: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    answer: Bound | None = None
    rates: Mapping[str, float] = field(default_factory=dict)

    @property
    def plan(self) -> str | None:
        """The plan of a sharded line that is the fastest there."""
        return None if self.answer is None or self.answer.plan is None else str(self.answer.plan)

    @property
    def collectives(self) -> tuple[str, ...]:
        """By which algorithm each collective goes there."""
        return () if self.answer is None else collectives_in_words(self.answer)

    @property
    def verdict(self) -> str:
        """The answer in words."""
        took = format_amount(self.time, "s")
        if self.value is None:
            alone = f"{self.bound_by} alone" if self.bound_by else f"the least {self.unknown}"
            left = "" if self.least is None else f": {alone} takes {format_amount(self.least, 's')}"
            return f"no {self.unknown} takes {took}{left}"
        if self.unit:
            return f"at best {took} from {self.unknown} = {format_quantity(self.value, self.unit)} on"
        return f"at best {took} up to {self.unknown} = {format_number(self.value, 6)}, {self.bound_by} binds"

    def printed(self, language: str) -> str:
        """The closed form in LaTeX, or as a function in Python, JavaScript or C, with ``t`` for the time.

        The function gives NaN where something else binds.
        """
        language = language_named(language, "a solution")
        if self.form is None:
            raise InputError(
                f"there is no closed form of {self.unknown}: {self.verdict}", hint="leave the language out"
            )
        if language != "latex":
            says = f"With which the floor takes t seconds: {self.question.expression} on {self.question.machine.name}."
            return number_source(language, self.unknown, self.form, {**self.rates, "t": self.time}, says, self.valid)
        return " = ".join(text(each, language) for each in (symbol(self.unknown), self.form))

    def facts(self) -> Iterator[Fact]:
        """The answer, for a comparison; neither a low nor a high value is the better one."""
        yield Fact("answer", self.verdict)
        known = (
            Fact(f"{self.unknown} exactly", self.value, self.unit),
            Fact(f"{self.unknown} to take", self.pick),
            Fact("bound by", self.bound_by),
            Fact("closed form", None if self.form is None else str(self.form)),
            Fact("incomplete", "; ".join(self.incomplete) or None),
        )
        yield from (fact._replace(is_shown=fact.value is not None) for fact in known)

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/solution-time/1``)."""
        return {
            **heading("roofline/solution-time/1", self.question.machine, self.question.expression),
            **attributes(self, "unknown", "unit", "time", "value", "pick", "bound_by", "least", "verdict"),
            "form": None if self.form is None else str(self.form),
            **attributes(self, "plan", "collectives"),
            **attributes(self, "assumptions", "incomplete"),
        }

    def sections(self) -> tuple[Section, ...]:
        """The value, the number to take, the closed form, and what was assumed."""
        return word_pairs(self.question.expression, self.question.machine.name, tuple(self._pairs()))

    def _pairs(self) -> Iterator[tuple[str, str]]:
        yield "answer", self.verdict
        if self.value is not None:
            value = format_quantity(self.value, self.unit, 8) if self.unit else format_number(self.value, 8)
            yield "exactly", f"{self.unknown} = {value}"
        if self.answer is not None and self.pick is not None:
            took = f"{format_amount(self.answer.lower, 's')}, {format_percent(self.answer.utilisation or 0)} of peak"
            yield "take", f"{self.unknown} = {self.pick}: {took}"
        if self.form is not None:
            yield "closed form", f"{self.unknown} = {self.form}"
        if self.plan is not None:
            yield "plan", self.plan
        if self.collectives:
            yield "algorithm", "; ".join(self.collectives)
        yield from named("assumes", self.question.particular(self.assumptions))
        yield from named("incomplete", self.incomplete)

    def one_line(self) -> str:
        """The answer in words."""
        return f"TimeSolution: {self.verdict} on {self.question.machine.name}"


#: Kinds of what is assumed that the plan decides.
_OF_PLANS = ("plan", "collective")


def solve_time(unknown: Unknown, time: float) -> TimeSolution:
    """Find the largest size, or the least rate, with which the floor takes at most ``time`` seconds.

    What is assumed of plans and collectives is that of the answer there: at the limit another plan may be the fastest.
    """
    found = _solved(unknown, time)
    if found.answer is None:
        return found
    own = [line for line in found.answer.assumptions if kind_of(line) in _OF_PLANS]
    return replace(found, assumptions=(*without(found.assumptions, _OF_PLANS), *own))


def _solved(unknown: Unknown, time: float) -> TimeSolution:
    if unknown.name in unknown.asked.mesh_names:
        hint = f"a table over {unknown.name} is a sweep, as in {unknown.name}=1,2,4,8"
        raise InputError(f"more chips along {unknown.name} make some times longer and others shorter", hint=hint)
    times, t, known = dict(unknown.pieces), symbol("t"), unknown.known
    left_open = set().union(*(free_symbols(put_numbers(each, known)) for each in times.values())) - {unknown.x}
    if left_open:
        hint = f"give {', '.join(sorted(map(str, left_open)))} a number"
        raise InputError(f"a time needs every size but {unknown.name}", hint=hint)
    said: dict[str, Any] = {
        "unknown": unknown.name, "question": unknown.any_plan, "time": time, "unit": unknown.unit,
        "assumptions": unknown.symbolic.assumptions, "incomplete": unknown.symbolic.incomplete,
        "rates": {str(rate): float(value) for rate, value in unknown.numbers.items()},
    }  # fmt: skip
    networked = any(use.quantity in ("wire", "hops") for use in unknown.symbolic.uses)
    if unknown.unit and networked:  # with the rate, the fastest plan and algorithm change
        return _by_rates(unknown, time, said)
    fixed = {name: each for name, each in times.items() if unknown.x not in free_symbols(each)}
    alone = {name: float(put_numbers(each, known)) for name, each in fixed.items()}
    longest = max(alone, key=lambda name: alone[name], default=None)
    if longest is not None and alone[longest] > time and not networked:
        return TimeSolution(**said, value=None, bound_by=longest, least=alone[longest])
    allowed = _allowed_by_each({n: each for n, each in times.items() if n not in fixed}, unknown, t, {**known, t: time})
    if not allowed:
        return (_by_rates if unknown.unit else _by_whole_numbers)(unknown, time, said)
    last = (max if unknown.unit else min)(allowed, key=lambda name: allowed[name][0])
    value, form = allowed[last]
    valid = _valid((each for name, each in times.items() if name != last), unknown.x, form, t)
    if unknown.unit:
        return TimeSolution(**said, value=value, bound_by=last, form=form, valid=valid, answer=unknown.at(value))
    multiple = unknown.multiple
    pick = int(value * (1 + 1e-12) // multiple) * multiple
    if pick < 1 or not unknown.floor(pick) <= time * (1 + 1e-9) or not time < unknown.floor(pick + multiple) < math.inf:
        return _by_whole_numbers(unknown, time, said)
    return TimeSolution(**said, value=value, pick=pick, bound_by=last, form=form, valid=valid, answer=unknown.at(pick))


def _valid(others: Iterable[Any], x: Any, form: Any, t: Any) -> Any:
    """Where a form of the unknown is above 0, and no other time is longer than ``t`` there."""
    import sympy

    above = [] if form.is_positive else [sympy.Gt(form, 0, evaluate=False)]
    within = [sympy.Le(sympy.sympify(each).xreplace({x: form}), t, evaluate=False) for each in others]
    return sympy.And(*above, *within, evaluate=False) if above or within else True


def _allowed_by_each(
    times: Mapping[str, Any], unknown: Unknown, t: Any, known: Mapping[Any, Any]
) -> dict[str, tuple[float, Any]] | None:
    """The value of the unknown at which each resource takes the time, with its closed form; None without one."""
    found: dict[str, tuple[float, Any]] = {}
    for name, each in times.items():
        forms = roots_of(each, t, unknown.x)
        if forms is None:
            return None
        values = [(value, form) for form in forms if (value := positive_number(put_numbers(form, known))) is not None]
        if len(values) > 1:
            return None
        found |= {name: values[0]} if values else {}
    return found if len(found) == len(times) else None


def _by_whole_numbers(unknown: Unknown, time: float, said: Mapping[str, Any]) -> TimeSolution:
    """The largest whole number within the time, by halving; ceilings make the floor rise in steps."""
    step, low, high = unknown.multiple, 0, 1
    while high * step <= FARTHEST and unknown.floor(high * step) <= time:
        low, high = high, 2 * high
    if low == 0:
        least = unknown.at(step)
        return TimeSolution(**said, value=None, least=None if least is None else float(least.lower))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if unknown.floor(middle * step) <= time else (low, middle)
    pick = low * step
    found = unknown.at(pick)
    return TimeSolution(**said, value=float(pick), pick=pick, bound_by=_binding(found), answer=found)


def _by_rates(unknown: Unknown, time: float, said: Mapping[str, Any]) -> TimeSolution:
    """The least rate within the time, by halving over answers: with the rate, plans and algorithms change."""
    low, high = 1.0, FASTEST
    if unknown.floor(high) > time:
        left = unknown.at(high)
        least, binding = (None, None) if left is None else (float(left.lower), str(left.bound_by))
        return TimeSolution(**said, value=None, bound_by=binding, least=least)
    while high > low * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if unknown.floor(middle) <= time else (middle, high)
    found = unknown.at(high)
    return TimeSolution(**said, value=high, bound_by=_binding(found), answer=found)


def _binding(found: Bound | None) -> str | None:
    return None if found is None else str(found.bound_by)
