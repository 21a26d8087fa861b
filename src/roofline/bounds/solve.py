"""Where does it flip? The value of one unknown at which another resource starts to bind.

>>> found = solve("bf16[B, D] * int8[D, F] -> bf16[B, F]", "B", on="v5e", set={"hbm": 8.2e11}, D=4096, F=4096)
>>> round(found.value, 1), found.pick, found.before, found.after
(136.1, 137, 'hbm', 'mxu')
>>> found.form
D*F*P_bf16/(2*(D*F*W_hbm - D*P_bf16 - F*P_bf16))
>>> round(found.limit, 2)                    # D and F large
120.12
>>> solve("int8[B, D] * int8[B, D, F] -> int8[B, F]", "B", on="v5e", D=4096, F=4096).verdict
'always memory-bound'
>>> round(solve("bf16[B, D] * bf16[D, F]", "hbm", on="v5e", B=64, D=8192, F=8192).value / 1e12, 2)
3.13

At which value the floor takes a stated time: the largest size, the least rate, or the fewest chips, within it.

>>> found = solve("bf16[X, D] * bf16[D, F]", "X", on="h100", D=8192, F=28672, time="1ms")
>>> found.pick, found.form
(2106, P_bf16*t/(2*D*F))
>>> found = solve("bf16[B, D] * bf16[D, F]", "hbm", on="h100", B=64, D=8192, F=28672, time="0.3ms")
>>> f"{found.value / 1e12:.2f} TB/s", found.bound_by
('1.58 TB/s', 'hbm')

Which storage formats make it compute-bound, one operand at a time, at the given sizes:

>>> found = solve_dtypes("bf16[B, D] * bf16[D, F]", 1, on="v5e", B=200, D=8192, F=8192)
>>> [(row.dtype, row.bound.kind) for row in found.rows if row.dtype in ("fp32", "bf16", "int8")]
[('fp32', 'memory-bound'), ('bf16', 'memory-bound'), ('int8', 'compute-bound')]
>>> found.flips_at
'fp8'

The size at which two expressions cost the same: FLOPs, bytes, bytes sent, or time.

>>> scores = "attention(bf16[B, T, N, H], bf16[B, T, N, H], bf16[B, T, N, H], full)"
>>> layer = "x:bf16[B, T, D] * bf16[D, F]; bf16[B, T, F] * bf16[F, D]"
>>> found = solve_equal(scores, layer, "T", sizes={"F": "4*D", "D": 8192, "N": 64, "H": 128})
>>> found.value, found.quantity
(32768.0, 'flops')
>>> solve_equal("bf16[B, D] * bf16[D, F]", "bf16[B, D] * bf16[D, M]; bf16[B, M] * bf16[M, F]", "M").form
D*F/(D + F)

Two ways of a sharded matmul: gather the weights before it, or add up partial sums after it. The first sends as much
where D is 2·B, and takes as long for large batches where D is 2·P/W:

>>> ways = ("bf16[B, D] * AllGather_X(W:bf16[D_X, F])", "AllReduce_X(bf16[B, F] {U_X})")
>>> book = {"on": "v5p", "mesh": {"X": 4}, "algorithm": "book", "set": {"bf16": 4.59e14}}
>>> solve_equal(*ways, "D", quantity="sent", **book).form
2*B
>>> round(solve_equal(*ways, "D", quantity="time", **book, B=65536, F=32768).value)
5100
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, overload

from roofline import dtypes
from roofline.answers import Fact, NoTime, attributes, capability, heading, machine_asked, on_several, plain_data
from roofline.bounds.advice_engine import operands, retype
from roofline.bounds.api import is_model_named, question
from roofline.bounds.arrays import bound_arrays
from roofline.bounds.bound import BOUND_KINDS, Bound, ResourceUse
from roofline.bounds.crossing import (
    EACH,
    Crossing,
    Flip,
    busiest_crossing,
    by_algorithm,
    collectives_in_words,
    every_change,
    first_where,
    flips_among,
    free_symbols,
    halved,
    largest_at,
    last_piece,
    limit_of,
    network_pairs,
    positive_number,
    put_numbers,
    rises,
    roots_of,
    validity_of,
)
from roofline.bounds.evaluate import values_of
from roofline.bounds.question import (
    NOT_REPEATED,
    USES,
    AboutQuestion,
    Question,
    has_arrays,
    refuse_idle,
    refuse_idle_on_plan,
    refuse_known,
)
from roofline.errors import InputError, SizeError, UntimedError, check_one_of, quoted, suggest
from roofline.formulas.printers import language_named, latex_solution, number_source
from roofline.frozen import NamedTuple, dataclass, field, replace
from roofline.hardware import override
from roofline.hardware.machine import Machine
from roofline.hardware.rate import LEVEL_SYNONYMS, WARM, find_link
from roofline.lazy import sympy
from roofline.meanings import SAID_IN_PYTHON
from roofline.notation import program
from roofline.quantity import format_amount, format_number, format_percent, format_quantity, given_amount, in_a_row
from roofline.sections import Amount, Column, Row, Section, Table, figures, named, word_pairs
from roofline.signatures import call, either, spelled, takes
from roofline.sizes import is_array, is_symbol, longest, product, symbol
from roofline.statements import kind_of, without

if TYPE_CHECKING:
    from roofline.bounds.comparison import SideBySide


#: Flips listed of one solution.
MOST_FLIPS = 6

#: The largest whole number that is tried where there is no closed form.
FARTHEST = 2**50

#: The highest rate that is tried: a hundred thousand times what the fastest chips have.
FASTEST = 1e25


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Solution(AboutQuestion, NoTime):
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
        ``rates``    that stand in the closed form, with their values
        ``fraction`` of a data-sheet rate that ``value`` is, where measured fractions are taken
        ``faster_plan``   on several chips: where the answer is by one plan (of a size the fastest for all sizes, of a
                     rate that at the rates now), another that is faster at ``pick``, or at the rate
    """

    unknown: str
    question: Question
    verdict: str
    value: float | None = None
    pick: int | None = None
    before: str | None = None
    after: str | None = None
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
    faster_plan: str | None = None
    rates: Mapping[str, float] = field(default_factory=dict)

    def facts(self) -> Iterator[Fact]:
        yield Fact("answer", self.verdict)
        known = (
            Fact(f"{self.unknown} exactly", self.value, self.unit),
            Fact("on each chip", self.local),
            Fact(f"{self.unknown} to take", self.pick),
            Fact("binds below", self.before),
            Fact("binds above", self.after),
            Fact("closed form", None if self.form is None else str(self.form)),
            Fact("for large sizes", self.limit, self.unit),
            Fact("intensity there", self.intensity_limit, "FLOP/B"),
            Fact("ridge", self.critical_intensity, "FLOP/B"),
            Fact("changes", len(self.flips) if len(self.flips) > 1 else None),
            Fact("incomplete", "; ".join(self.incomplete) or None),
        )
        yield from (fact._replace(is_shown=fact.value is not None) for fact in known)

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

    def printed(self, language: str) -> str:
        """The closed form in LaTeX, with where it holds and its limit, or as a function in Python, JavaScript or C.

        >>> from roofline import solve
        >>> found = solve("bf16[B, D] * int8[D, F]", "B", on="v5e")
        >>> print(found.printed("latex"))
        \\begin{aligned}
        B &= \\frac{D \\, F \\, P_{\\mathrm{bf16}}}{2 \\, \\left(D \\, F \\, W_{\\mathrm{hbm}} - ... \\\\
        & \\quad \\text{while } 2 \\, D \\, F \\, W_{\\mathrm{hbm}} - ... > 0 \\\\
        & \\to \\frac{P_{\\mathrm{bf16}}}{2 \\, W_{\\mathrm{hbm}}} \\quad \\text{for large sizes}
        \\end{aligned}
        >>> print(found.printed("javascript"))
        // Where it flips: bf16[B, D] * int8[D, F] -> bf16[B, F] on TPU v5e.
        function B({D, F, P_bf16 = 197000000000000, W_hbm = 819000000000}) {
          return ...
        }
        """
        hint = "open the other sizes" if self.value is not None else "nothing flips"
        # where no other size is open the limit is the form itself
        limit = None if self.limit_form == self.form else self.limit_form
        return _printed(self, language, "Where it flips", self.rates, hint, limit)

    def _repr_latex_(self) -> str | None:
        """What a notebook sets as a formula; nothing without a closed form."""
        return None if self.form is None else f"$${self.printed('latex')}$$"

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/solution/1``)."""
        form, limit_form = (None if form is None else str(form) for form in (self.form, self.limit_form))
        return {
            **heading("roofline/solution/1", self.question.machine, self.question.expression),
            **attributes(self, "unknown", "unit", "value", "pick", "local", "before", "after", "verdict"),
            "form": form,
            "valid": None if self.valid is True else str(self.valid),
            "limit": self.limit,
            "limit_form": limit_form,
            **attributes(self, "intensity_limit", "critical_intensity"),
            "flips": [{"value": v, "before": a, "after": b} for v, a, b in self.flips],
            **attributes(self, "method", "assumptions", "incomplete"),
            **{name: found for name in ("fraction", "faster_plan") if (found := getattr(self, name)) is not None},
            **{name: plain_data(found) for name in ("collectives", "by_algorithm") if (found := getattr(self, name))},
        }

    def sections(self) -> tuple[Section, ...]:
        return word_pairs(self.question.expression, self.question.machine.name, tuple(self.pairs()))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The answer to "where does it flip?" as pairs of a word and a sentence."""
        yield "answer", self.verdict
        if self.value is not None:
            value = format_quantity(self.value, self.unit, 8) if self.unit else format_number(self.value, 8)
            yield "exactly", f"{self.unknown} = {value}"
            if self.fraction is not None:
                sheet = format_quantity(self.value / self.fraction, self.unit)
                yield "data sheet", f"{sheet}, of which {self.fraction:.3g} is reached as measured"
        if self.local is not None and self.value is not None:
            yield "on each chip", f"{self.unknown} / {self.value / self.local:g} = {format_number(self.local, 8)}"
        if self.pick is not None:
            yield "take", f"{self.unknown} = {self.pick}{_reached(self.at_pick())}"
        yield from _closed_form(self)
        if self.limit is not None and (self.form is None or self.limit_form != self.form):
            form = "" if self.limit_form is None else f" = {self.limit_form}"
            yield "for large sizes", f"{self.unknown} → {format_number(self.limit)}{form}"
        if self.intensity_limit is not None:
            ridge = self.critical_intensity
            against = f" against a ridge of {format_number(ridge)}" if ridge is not None else ""
            yield "intensity", f"→ {format_number(self.intensity_limit)} FLOP/B as {self.unknown} grows{against}"
        if len(self.flips) > 1:
            steps = "; ".join(f"{a} → {b} at {format_number(v)}" for v, a, b in self.flips[:MOST_FLIPS])
            yield "changes", steps + (f"; … ({len(self.flips)} in all)" if len(self.flips) > MOST_FLIPS else "")
        if self.method != "closed form":
            yield "found by", self.method
        if self.question.conventions.plan is not None:
            yield "plan", str(self.question.conventions.plan)
        elif self.question.is_sharded and self.method != "closed form":
            yield "plan", "the fastest at each size"
        if self.faster_plan is not None:
            at = f"{self.unknown} = {self.pick}" if self.pick is not None else "that rate"
            yield "faster plan", f"{self.faster_plan} at {at}: roofline shard compares them"
        if self.collectives:
            yield "algorithm", "; ".join(self.collectives)
        yield from named("assumes", self.question.particular(self.assumptions))
        yield from named("incomplete", self.incomplete)
        yield from named("math = comms", tuple(map(str, self.by_algorithm)))

    def one_line(self) -> str:
        where = "" if self.value is None else f" ({self.unknown} = {self.value:.6g})"
        return f"Solution: {self.verdict}{where} on {self.question.machine.name}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimeSolution(AboutQuestion, NoTime):
    """What one unknown may be for the floor to take ``time`` seconds.

    Attributes
        ``value``     at which the floor takes exactly that; None where no value does, or where all take less
        ``pick``      of a size the largest whole number within it; of chips the fewest, or the fastest of those tried
        ``bound_by``  what binds there; where no value does, what takes longer by itself
        ``form``      the closed form of ``value`` in symbols, ``t`` the time; None where there is none
        ``valid``     where that is the answer: nothing else takes longer than ``t`` there
        ``least``     where no value does: the floor that is left, in seconds; that of the largest where all take less
        ``unit``      of ``value``: empty for a size, else B/s or FLOP/s
        ``rates``     that stand in the closed form, with their values
        ``answer``    the bound there, at ``pick`` of a size; None where that cannot be asked
        ``is_of_chips`` whether it is a number of chips along a mesh axis
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
    is_of_chips: bool = False

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
        if self.is_of_chips and self.value is not None:
            power = "power of two " * (self.value > MOST_TRIED)
            return f"{self.unknown} = {self.pick} is the least {power}within {took}, {self.bound_by} binds"
        if self.is_of_chips and self.least is not None:
            fastest = f"the fastest, {self.pick}, takes {format_amount(self.least, 's')}"
            return f"no {self.unknown} tried up to {MOST_CHIPS:,} is within {took}: {fastest}"
        if self.value is None and self.least is not None and self.least <= self.time:
            return f"every {self.unknown} is within {took}: the largest take {format_amount(self.least, 's')}"
        if self.value is None:
            alone = f"{self.bound_by} alone" if self.bound_by else f"the least {self.unknown}"
            left = "" if self.least is None else f": {alone} takes {format_amount(self.least, 's')}"
            return f"no {self.unknown} takes {took}{left}"
        if self.unit:
            return f"at best {took} with {self.unknown} = {format_quantity(self.value, self.unit)} or more"
        return f"at best {took} up to {self.unknown} = {format_number(self.value, 6)}, {self.bound_by} binds"

    def printed(self, language: str) -> str:
        """The closed form in LaTeX, or as a function in Python, JavaScript or C, with ``t`` for the time.

        The function gives NaN where something else binds.
        """
        rates = {**self.rates, "t": self.time}
        return _printed(self, language, "With which the floor takes t seconds", rates, "leave the language out")

    def facts(self) -> Iterator[Fact]:
        yield Fact("answer", self.verdict)
        known = (
            Fact(f"{self.unknown} exactly", None if self.is_of_chips else self.value, self.unit),
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
            "valid": None if self.valid is True else str(self.valid),
            **attributes(self, "plan", "collectives", "assumptions", "incomplete"),
        }

    def sections(self) -> tuple[Section, ...]:
        return word_pairs(self.question.expression, self.question.machine.name, tuple(self._pairs()))

    def _pairs(self) -> Iterator[tuple[str, str]]:
        yield "answer", self.verdict
        if self.value is not None and not self.is_of_chips:
            value = format_quantity(self.value, self.unit, 8) if self.unit else format_number(self.value, 8)
            yield "exactly", f"{self.unknown} = {value}"
        if self.answer is not None and self.pick is not None:
            yield "take", f"{self.unknown} = {self.pick}{_reached(self.answer)}"
        yield from _closed_form(self)
        if self.plan is not None:
            yield "plan", self.plan
        if self.collectives:
            yield "algorithm", "; ".join(self.collectives)
        yield from named("assumes", self.question.particular(self.assumptions))
        yield from named("incomplete", self.incomplete)

    def one_line(self) -> str:
        return f"TimeSolution: {self.verdict} on {self.question.machine.name}"


def _printed(
    found: Solution | TimeSolution, language: str, says: str, rates: Mapping[str, float], hint: str, limit: Any = None
) -> str:
    """A closed form in LaTeX, or as a function of ``rates`` in another language; ``hint`` where there is none."""
    language = language_named(language, "a solution")
    if found.form is None:
        raise InputError(f"there is no closed form of {found.unknown}: {found.verdict}", hint=hint)
    if language == "latex":
        return latex_solution(symbol(found.unknown), found.form, found.valid, limit)
    says = f"{says}: {found.question.expression} on {found.question.machine.name}."
    return number_source(language, found.unknown, found.form, rates, says, found.valid)


def _closed_form(found: Solution | TimeSolution) -> Iterator[tuple[str, str]]:
    """The closed form where there is one, and where it holds."""
    if found.form is not None:
        yield "closed form", f"{found.unknown} = {found.form}"
        if found.valid is not True:
            yield "valid while", str(found.valid)


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


#: What stands for a size that is open, where a closed form is to hold for large sizes.
LARGE = 10**9

#: How many numbers of chips are tried for one that a slice can have and that divides the sizes.
MOST_TRIED = 256

#: The most chips that are tried for a stated time: beyond the number above, powers of two.
MOST_CHIPS = 2**15

#: What else a bandwidth and a peak are called.
_MEANT = {"memory": "bandwidth", "bw": "bandwidth", "flops": "peak", "flop/s": "peak", "compute": "peak"}


@overload
def solve(
    expression: str | None = None, for_: str = "", *, on: list[Any] | tuple[Any, ...], **arguments: Any
) -> SideBySide: ...
@overload
def solve(expression: str | None = None, for_: str = "", *, time: float | str, **arguments: Any) -> TimeSolution: ...
@overload
def solve(expression: str | None = None, for_: str = "", **arguments: Any) -> Solution: ...
@on_several
@takes(question)
def solve(
    expression: Any = None, for_: str = "", *, time: float | str | None = None, **arguments: Any
) -> Solution | TimeSolution | SideBySide:
    """Find the value of one unknown at which the bottleneck changes.

    ``for_`` names a size of the expression (or of a raw-work formula), a bandwidth (a memory level such as ``hbm``,
    or ``bandwidth``), or a peak (a dtype such as ``bf16``, or ``peak``). The rest is as in :func:`roofline.bound`;
    sizes left out stay symbolic, and the limit for large sizes is given. For a dtype see
    :func:`roofline.solve_dtypes`. On several chips a mesh axis or a size of one may be the unknown too, and what the
    collectives take is given for every algorithm.

    With ``time`` the answer is where the floor takes that: the largest size, the least rate, or the fewest chips along
    a mesh axis, within it. A step of a model, by its name or itself, is asked so too: ``solve("llama-3-8b", "hbm",
    on="h100", batch=8, time="5ms")``.

    Two times cross at a root of a polynomial: degrees one and two give a closed form. Ceilings, minima and tiles go
    to bisection over whole numbers. *Always* and *never* are answers. Several machines stand side by side:

    >>> found = solve("bf16[B, D] * bf16[D, F]", "B", on=["v5e", "v5p", "v6e"], D=8192, F=8192)
    >>> [fact.value for fact in found.facts["B to take"]]
    [256, 174, 650]
    """
    if not (isinstance(for_, str) and for_):
        needs = "solve needs for_, the name of what is solved for"
        wrong = f"{quoted(for_)} is nothing to solve for" if for_ else needs
        raise InputError(wrong, hint="name one unknown, as in for_='B' of a line, for_='hbm' or 'batch' of a model")
    if is_model_named(expression):
        found: TimeSolution = capability("solve_step")(expression, for_, time=time, **arguments)
        return found
    search = _search(expression, for_, arguments)
    return search.solution() if time is None else solve_time(search, given_amount("time", time))


def _search(expression: str | None, for_: str, arguments: dict[str, Any]) -> _Search:
    """Find what is solved for in a question, and its times in symbols."""
    if isinstance(expression, list | tuple) and len(expression) == 2:
        raise InputError("solve takes one line, not two", hint=SAID_IN_PYTHON["equal"])
    asked = question(expression, **arguments)
    refuse_idle(asked)
    names, rates = asked.size_names, named_rates(asked.machine)
    if for_ not in names:
        for_ = next((name for name in (for_, for_.lower(), LEVEL_SYNONYMS.get(for_.lower())) if name in rates), for_)
    if for_ not in names and for_ not in rates and asked.text and for_ in asked.parsed.axes:
        named = either(f"--mesh {for_}={for_}", f"mesh={{{for_!r}: {for_!r}}}")
        hint = f"open it on a target without a shape, as in {named}"
        raise SizeError(f"the size of mesh axis {for_} is fixed here, or not said", hint=hint)
    if for_ not in names and for_ not in rates:
        meant = _MEANT.get(str(for_).lower())
        hint = f"did you mean {meant!r}?" if meant else suggest(for_, [*names, *rates], what="unknowns")
        first = str(for_).partition(",")[0].strip()
        if first in (*names, *rates):
            hint = f"one unknown at a time: {either(f'--for {first}', f'for_={first!r}')}"
        if for_ == "intensity":
            zones = either("roofline solve --for intensity without a line", "roofline.zones(on=…)")
            hint = f"an intensity is compute-bound from the ridge on: {call('bound')} says both; all ridges are {zones}"
        if (operand := re.fullmatch(r"dtype(?::(\d+))?", str(for_))) is not None:
            hint = f"formats of one operand are roofline.solve_dtypes(line, {operand[1] or 0}, on=…)"
        raise SizeError(f"nothing here is called {for_!r}", hint=hint)
    refuse_known(for_, asked.sizes)
    asked = asked.with_sizes(**{for_: None}) if for_ in names else asked
    given = (*asked.raw.items(), *asked.sizes.items())
    several = next((name for name, value in given if has_arrays({name: value})), None)
    if several is not None:
        hint = "ask at one value after another, or draw a curve for each with roofline plot"
        raise InputError(f"{several} has several values, and an answer is for one set of sizes", hint=hint)
    any_plan = asked
    if for_ not in names and asked.is_sharded and not any(map(is_symbol, asked.sizes.values())):
        asked = _at_its_plan(asked)
    symbolic = asked.vary(sizes=_beside(asked)).answer(symbolic=True)
    refuse_idle_on_plan(asked, symbolic)
    pieces = symbolic.times
    symbolic = replace(symbolic, times={name: last_piece(time) for name, time in pieces.items()})
    asked = asked if symbolic.plan is None else asked.vary(plan=symbolic.plan)
    numbers = values_of(use.rate for use in symbolic.uses)
    if for_ in names:
        x, unit, figure, now = symbol(for_), "", "", None
    else:
        use = use_of(symbolic, for_, asked.machine)
        figure = figure_of(use, asked)
        x, unit = use.rate.value, "FLOP/s" if use.quantity == "flops" else "B/s"
        now = numbers.pop(x, None)
    known = {symbol(name): value for name, value in asked.sizes.items() if not is_symbol(value)}
    return _Search(any_plan, for_, symbolic, numbers, unit, figure, now, asked, x, known, pieces)


def _at_its_plan(asked: Question) -> Question:
    """A question whose sizes all have a number, by the plan that is the fastest there; one with open sizes as it is."""
    try:
        plan = asked.answer().plan
    except InputError:
        return asked
    return asked if plan is None else asked.vary(plan=plan)


def _beside(asked: Question) -> dict[str, Any]:
    """Sizes that stand in a closed form as they are given: those of mesh axes, and formulas of open ones."""
    names = asked.mesh_names
    return {name: value for name, value in asked.sizes.items() if name in names or is_symbol(value)}


def named_rates(machine: Machine) -> list[str]:
    """What a rate of a machine may be called where it is the unknown."""
    dtypes = {d for u in machine.units for d in u.peaks}
    units = (u.name for u in machine.units)
    links = ["link", *(x.name for x in machine.links)] if machine.links else []
    return ["bandwidth", "peak", *(m.name for m in machine.memories), *units, *sorted(dtypes), *links]


def use_of(symbolic: Bound, name: str, machine: Machine) -> ResourceUse:
    """Find the amount whose rate is the unknown."""
    wanted = {"peak": "flops", "bandwidth": "bytes"}.get(name)
    called = find_link(machine, name)
    name = name if called is None else called.name
    found = [u for u in symbolic.uses if name in (u.resource, u.network, u.dtype) or u.quantity == wanted]
    if not found:
        used = ", ".join(dict.fromkeys(w for u in symbolic.uses for w in (u.resource, u.dtype) if w))
        raise InputError(f"{name!r} plays no part in this on {machine.name}", hint=f"what plays a part: {used}")
    return min(found, key=lambda use: use.place != "matrix")


def figure_of(use: ResourceUse, asked: Question | None = None) -> str:
    """What an override calls the figure of this rate."""
    if use.quantity == "flops":
        return f"{use.resource}.{use.dtype}"
    level = asked.on_mesh().segment(use.place) if asked is not None and use.quantity == "wire" else None
    return use.resource if level is None else level.link


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """One unknown of a question, a line or a step of a model: a size (``unit`` is empty), or a rate.

    ``here`` is the answer to that question, ``numbers`` the rates that stand in it as symbols. ``figure`` is what an
    override calls an unknown rate, ``now`` what that is on the machine. A size may have to be a ``multiple``.
    """

    question: Any
    name: str
    here: Bound
    numbers: Mapping[Any, Any]
    unit: str
    figure: str
    now: float | None

    multiple = ways = 1

    def at(self, value: float) -> Bound | None:
        """The answer with the unknown at a number; None where that cannot be asked."""
        try:
            if not self.unit:
                changed = self.question.with_sizes(**{self.name: value})
            else:
                machine = override(self.question.machine, {self.figure: f"{value / (self.now or 1):.17g}x"})
                changed = self.question.vary(machine=machine)
            found: Bound = changed.answer()
        except (InputError, UntimedError):
            return None
        return found

    def floor(self, value: float) -> float:
        """Seconds at best with the unknown at a number; without end where that cannot be asked."""
        found = self.at(value)
        return math.inf if found is None else float(found.lower)

    def within(self, time: float, value: float | None, **found: Any) -> TimeSolution:
        """What was found for a stated time."""
        return TimeSolution(
            self.name, self.question, time, value, unit=self.unit, assumptions=self.here.assumptions,
            incomplete=self.here.incomplete, rates={str(rate): float(each) for rate, each in self.numbers.items()},
            **found,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Search(Unknown):
    """One unknown in a line: ``here`` has its times in symbols, ``sizes`` are those given.

    ``pieces`` are the times with another piece for small collectives, ``here`` has those for large ones. ``x`` is
    the unknown as a symbol. ``asked`` goes by the plan of ``here``, ``question`` by the best of each size.
    ``quantities`` says what each resource that was met does.
    """

    asked: Question
    x: Any
    sizes: Mapping[Any, Any]
    pieces: Mapping[str, Any]
    quantities: dict[str, str] = field(default_factory=dict)

    @property
    def known(self) -> Mapping[Any, Any]:
        """Rates and sizes that have a number."""
        return {**self.numbers, **self.sizes}

    @property
    def multiple(self) -> int:  # type: ignore[override]
        """The multiple that a size must be for the plan that is taken."""
        return self.asked.multiple_of(self.name) if self.here.plan is not None else 1

    def solution(self) -> Solution:
        times = self.here.times
        exact = {name: put_numbers(time, self.known) for name, time in times.items()}
        pairs = {(a, b): roots_of(times[a], times[b], self.x) for a, b in combinations(times, 2)}
        if self.asked.machine.over == WARM and self.asked.text:
            if self.unit or self._open():
                others = ", ".join(sorted(map(str, self._open()))) or "the others"
                hint = f"solve for a size, and give {others} a number"
                raise InputError("the bandwidth of warm data follows the sizes, so there is no closed form", hint=hint)
            return self._by_bisection()
        if self._open():
            return self._in_symbols(pairs)
        if not self.unit and any(forms is None for forms in pairs.values()):
            return self._by_bisection()
        return self._at_sizes(pairs, exact)

    def _at_sizes(self, pairs: Mapping[Any, Any], exact: Mapping[str, Any]) -> Solution:
        """All other sizes are known: the crossings in numbers, and the closed form of the one that matters."""
        crossings = [
            (value, form)
            for forms in pairs.values()
            for form in forms or ()
            if (value := positive_number(put_numbers(form, self.known))) is not None
        ]
        flips = flips_among(exact, self.x, [value for value, _ in crossings])
        if not self.unit and any(not self._is_large(value) for value, _, _ in flips):
            return self._by_bisection()
        if self.name in self.asked.mesh_names and not self._borne_out(flips, largest_at(exact, self.x, 1.0)):
            return self._by_bisection()
        if not flips:
            binding = largest_at(exact, self.x, 1.0)
            if (by_any := self._by_any_plan(binding, is_flipping=False)) is not None:
                return by_any
            timed = ", for what could be timed" if self.here.incomplete else ""
            return self._solution(before=binding, after=binding, verdict=f"always {self._kind(binding)}{timed}")
        value, before, after = self._main(flips)
        if (by_any := self._by_any_plan(flips[-1][2])) is not None:
            return by_any
        form = min(crossings, key=lambda crossing: abs(crossing[0] - value))[1]
        limit_form, limit = limit_of(form, self.numbers, self.sizes) if not self.unit else (None, None)
        pick = None if self.unit else self._whole(value)
        there = None if self.asked is self.question else self.at(value if pick is None else pick)
        return self._solution(
            value=value, pick=pick, before=before, after=after, verdict=self._words(value, before, after), form=form,
            valid=validity_of(form), limit=limit, limit_form=limit_form, flips=tuple(flips),
            faster_plan=None if there is None or there.plan == self.here.plan else there.plan,
        )  # fmt: skip

    def _by_any_plan(self, last: str, *, is_flipping: bool = True) -> Solution | None:
        """The changes where each size goes by its fastest plan; None where what one plan says at last holds then too.

        ``last`` is what binds by that plan at large sizes; where nothing flips by it, every power of two is looked at.
        """
        if self.asked is self.question or self.unit or self.name in self.asked.mesh_names:
            return None
        freely = replace(self, asked=self.question)
        large = LARGE // max(self.ways, self.multiple) * max(self.ways, self.multiple)
        far = freely._numeric()(large) if is_flipping else None
        if is_flipping and (far is None or freely._kind(far) == self._kind(last)):
            return None
        found = freely._by_bisection()
        assumed = tuple(without(found.assumptions, _OF_PLANS))
        there = self.at(large)
        limit = found.intensity_limit if there is not None and there.plan == self.here.plan else None
        freed = replace(found, intensity_limit=limit, collectives=(), by_algorithm=(), assumptions=assumed)
        return freed if found.flips else None

    def _is_large(self, value: float) -> bool:
        """Say whether collectives are large at this size of the unknown, as the closed forms take them to be."""
        at = {**self.known, self.x: value}
        large = self.here.times
        return all(
            form is large[name] or put_numbers(form - large[name], at) == 0 for name, form in self.pieces.items()
        )

    def _borne_out(self, flips: Sequence[Flip], first: str) -> bool:
        """Say whether the numbers of chips that there can be agree with a closed form, whose links are all alike.

        A torus closes at some sizes only, and more chips than a node has go over other links.
        """
        at = self._numeric()
        for chips in (2**k for k in range(FARTHEST.bit_length())):
            found = at(chips)
            expected = next((after for value, _, after in reversed(flips) if value <= chips), first)
            if chips > 1 and found is not None and self._kind(found) != self._kind(expected):
                return False
        return True

    def _whole(self, value: float) -> int | None:
        """The smallest whole number past a value, one that mesh axes divide, or a number of chips there can be."""
        if self.name in self.asked.mesh_names:
            at, first = self._numeric(), max(1, math.ceil(value * (1 - 1e-12)))
            return next((n for n in range(first, min(4 * first, first + MOST_TRIED)) if at(n) is not None), None)
        multiple = self.multiple
        first = max(1, math.ceil(value * (1 - 1e-12) / multiple)) * multiple
        at, tried = self._numeric(), range(first, first + MOST_TRIED * multiple, multiple)
        return next((n for n in tried if at(n) is not None), None)

    def _in_symbols(self, pairs: Mapping[Any, Any]) -> Solution:
        """Other sizes are open: the closed form of the crossing, and its limit for large sizes."""
        candidates = [(pair, form) for pair, forms in pairs.items() for form in forms or ()]
        links = {frozenset(pair) for pair in network_pairs(self.here)}
        scales = busiest_crossing(self.here, self.x, self.known)
        candidates.sort(
            key=lambda each: (frozenset(each[0]) not in links, each[1] != scales, self._matters_less(*each))
        )
        if not candidates:
            kind, left = self._kind(self._largest_when_large()), ", ".join(sorted(map(str, self._open())))
            if None not in pairs.values():
                return self._solution(verdict=f"always {kind}, for large sizes")
            return self._solution(verdict=f"{kind} for large sizes; no closed form: give {left} for a number")
        (before, after), form = self._sides(candidates[0][0]), candidates[0][1]
        on_mesh = bool({symbol(name) for name in self.asked.mesh_names} & free_symbols(form))
        fixed = bool(self.unit) or on_mesh
        limit_form, limit = (None, None) if fixed else limit_of(form, self.numbers, self.sizes)
        largest = self._largest_when_large()
        if limit is None and not fixed and largest == before:
            verdict = f"always {self._kind(before)}, for large other sizes"
            return self._solution(before=before, after=before, verdict=verdict, form=form, valid=validity_of(form))
        where = f"{limit:.6g} for large other sizes" if limit is not None else str(form)
        value = positive_number(put_numbers(form, self.known))
        if value is not None:
            where = format_quantity(value, self.unit) if self.unit else f"{value:.6g}"
        verdict = f"{self._kind(before)} below, {self._kind(after)} above {self.name} = {where}"
        return self._solution(
            value=value, before=before, after=after, verdict=verdict, form=form, valid=validity_of(form), limit=limit,
            limit_form=limit_form,
        )  # fmt: skip

    def _matters_less(self, pair: tuple[str, str], form: Any) -> tuple[bool, bool]:
        """Order crossings, the one to answer with first: of times that no third exceeds, between kinds of bound."""
        times = self.here.times
        large = {**dict.fromkeys(self._open(), LARGE), **self.known}
        value = positive_number(put_numbers(form, large))
        if value is None:
            return True, True
        at = {name: float(put_numbers(time, {**large, self.x: value})) for name, time in times.items()}
        longest = max(at[name] for name in pair) >= max(at.values()) * (1 - 1e-9)
        return not longest, self._kind(pair[0]) == self._kind(pair[1])

    def _open(self) -> set[Any]:
        """Sizes that are not given, the unknown aside."""
        every = (free_symbols(put_numbers(time, self.known)) for time in self.here.times.values())
        return set().union(*every) - {self.x}

    def _by_bisection(self) -> Solution:
        """Look at each size up to some thousands; beyond, at powers of two, and halve stretches with a change.

        Where each size goes by its fastest plan, sizes from the number of chips on are those that any plan can split.
        """
        at = self._numeric()
        asked, name = self.asked, self.name
        by_plan = asked.is_sharded and asked.conventions.plan is None
        step = self.ways if by_plan else 1
        marks = [2**k for k in range(step.bit_length()) if 2**k < step]
        marks += [step * 2**k for k in range((FARTHEST // step).bit_length())]
        marks = [mark for mark in marks if at(mark) is not None]
        if not marks:
            raise SizeError(f"no value of {self.name} fits the other sizes", hint="check the sizes that are given")
        by_size = asked.machine.over == WARM or by_plan
        each = None if by_size else every_change(lambda sizes: bound_arrays(asked.with_sizes(**{name: sizes})).bound_by)
        flips: list[Flip] = each or []
        for low, high in pairwise(marks):
            if low < step:
                flips += halved(at, low, high)
            elif each is None or low >= EACH:
                found = halved(lambda times: at(times * step), low // step, high // step)
                flips += [(value * step, before, after) for value, before, after in found]
        binding = str(at(marks[0]))
        if not flips:
            verdict = f"always {self._kind(binding)}"
            return self._solution(before=binding, after=binding, verdict=verdict, method="bisection")
        value, before, after = self._main(flips)
        return self._solution(
            value=value, pick=int(value), before=before, after=after, verdict=self._words(value, before, after, flips),
            flips=tuple(flips), method="bisection",
        )  # fmt: skip

    @property
    def ways(self) -> int:  # type: ignore[override]
        """By what plans may split the unknown size: the chips of all axes that they may use; 1 where these are open."""
        asked = self.question
        mesh = asked.on_mesh().mesh if asked.is_sharded and asked.conventions.plan is None else None
        if mesh is None or self.name in asked.mesh_names:
            return 1
        axes = dict.fromkeys((*asked.parsed.axes, *asked.conventions.use))
        ways = product(mesh[axis].size for axis in axes)
        return ways if isinstance(ways, int) else 1

    def _numeric(self) -> Any:
        """Return a function from a whole number to the resource that binds there, None where it cannot be asked."""
        found: dict[int, str | None] = {}

        def at(size: int) -> str | None:
            if size not in found:
                asked = self.asked.with_sizes(**{self.name: size})
                if size == 1 and self.name in asked.mesh_names:
                    asked = asked.vary(plan=None)  # one chip sends nothing, whatever the plan of several is
                try:
                    answer = asked.answer()
                except (InputError, UntimedError):
                    found[size] = None
                else:
                    self.quantities.update((use.resource, use.quantity) for use in answer.uses)
                    found[size] = str(answer.bound_by)
            return found[size]

        return at

    def _solution(self, **fields: Any) -> Solution:
        return Solution(
            unknown=self.name, question=self.asked, unit=self.unit, fraction=fraction_of(self.x, self.here),
            intensity_limit=self._intensity_limit(), critical_intensity=self._ridge(),
            by_algorithm=self._by_algorithm(), collectives=collectives_in_words(self.here),
            assumptions=self.here.assumptions, incomplete=self.here.incomplete,
            rates={str(rate): float(value) for rate, value in self.numbers.items()}, **fields,
        )  # fmt: skip

    def _by_algorithm(self) -> tuple[Crossing, ...]:
        """Where it starts to scale, for every algorithm of the collectives."""
        if self.unit or not network_pairs(self.here):
            return ()
        return by_algorithm(self.asked.vary(sizes=_beside(self.asked)), self.name, self.x, self.sizes)

    def _intensity_limit(self) -> float | None:
        """FLOP/B as the unknown and the open sizes grow without bound, where that is finite."""
        form = self.here.intensity
        if self.unit or not is_symbol(form):
            return None
        return limit_of(put_numbers(form, self.sizes), {})[1]

    def _ridge(self) -> float | None:
        """The intensity at which computing takes as long as moving, where the sizes do not change it."""
        ridge = self.here.critical_intensity
        return None if ridge is None else positive_number(put_numbers(ridge, self.known))

    def _main(self, flips: list[Flip]) -> Flip:
        """The first flip to or from compute-bound, else the first between kinds of bound, else the first of any.

        Where tiles make it flip to and fro, that from which on it is compute-bound for good.
        """
        kinds = [(flip, {self._kind(flip[1]), self._kind(flip[2])}) for flip in flips]
        computing = [flip for flip, both in kinds if len(both) == 2 and BOUND_KINDS["flops"] in both]
        if len(computing) > 2 and self._kind(computing[-1][2]) == BOUND_KINDS["flops"]:
            return computing[-1]  # now and then before, for good from there
        return next(iter(computing or [flip for flip, both in kinds if len(both) == 2] or flips))

    def _sides(self, pair: tuple[str, str]) -> tuple[str, str]:
        """Order two resources: the first binds below the crossing, the second above."""
        ratio = sympy.cancel(self.here.times[pair[0]] / self.here.times[pair[1]])
        return (pair[1], pair[0]) if rises(ratio, self.x) else pair

    def _largest_when_large(self) -> str:
        times = self.here.times
        large = {s: LARGE for time in times.values() for s in free_symbols(time)}
        return longest({name: float(put_numbers(time, {**large, **self.known})) for name, time in times.items()})

    def _kind(self, resource: str) -> str:
        known = {use.resource: use.quantity for use in self.here.uses}
        return BOUND_KINDS[known.get(resource) or self.quantities[resource]]

    def _words(self, value: float, before: str, after: str, flips: Sequence[Flip] = ()) -> str:
        """The kinds below and above an answer, with the changes past it, each a number and the kind from there on."""
        below, above = self._kind(before), self._kind(after)
        kinds = [(flip, self._kind(old), self._kind(then)) for flip, old, then in flips]
        later = [(flip, then) for flip, old, then in kinds if flip > value and old != then]
        at = format_quantity(value, self.unit) if self.unit else f"{value:.6g}"
        earlier = next((flip for flip, _, then in kinds if then == above), value)
        between = f" {earlier:.6g}, one or the other to {at}" if earlier < value else ""
        said = f"{below} below{between}, {above} from {self.name} = {at}"
        if not self.unit and value <= 1:
            said = f"{above} below" if later else f"always {above}"
        if len(later) > MOST_LATER:
            return f"{said}, one or another from {later[0][0]:.6g}, {later[-1][1]} from {later[-1][0]:.6g}"
        never = not self.unit and BOUND_KINDS["flops"] not in (below, above)  # else a flip to or from it answers
        more = [f"compute-bound at no {self.name}"] * never
        return ", ".join((said, *(f"{kind} from {flip:.6g}" for flip, kind in later), *more))


#: The most changes past the one that answers which a sentence names each.
MOST_LATER = 2

#: Kinds of what is assumed that the plan decides.
_OF_PLANS = ("plan", "collective")


def solve_time(unknown: _Search, time: float) -> TimeSolution:
    """Find the largest size, the least rate or the fewest chips with which the floor takes at most ``time`` seconds.

    Of a maximum of times that all grow with a size (or fall with a rate), the inverse is the least (or greatest) of
    their inverses: each resource allows some value, and the one that allows the least binds.

    What is assumed of plans and collectives is that of the answer there: at the limit another plan may be the fastest.
    Other chips go over other links too: all that is assumed is that of their answer.
    """
    found = _solved(unknown, time)
    if found.answer is None:
        return found
    if found.is_of_chips:
        return replace(found, assumptions=found.answer.assumptions, incomplete=found.answer.incomplete)
    own = [line for line in found.answer.assumptions if kind_of(line) in _OF_PLANS]
    return replace(found, assumptions=(*without(found.assumptions, _OF_PLANS), *own))


def _solved(unknown: _Search, time: float) -> TimeSolution:
    times, t, known = dict(unknown.pieces), symbol("t"), unknown.known
    left_open = set().union(*(free_symbols(put_numbers(each, known)) for each in times.values())) - {unknown.x}
    if left_open:
        hint = f"give {', '.join(sorted(map(str, left_open)))} a number"
        raise InputError(f"a time needs every size but {unknown.name}", hint=hint)
    if unknown.name in unknown.asked.mesh_names:
        return by_chips(unknown, time)
    networked = any(use.quantity in ("wire", "hops") for use in unknown.here.uses)
    if unknown.unit and networked:  # with the rate, the fastest plan and algorithm change
        return by_rates(unknown, time)
    fixed = {name: each for name, each in times.items() if unknown.x not in free_symbols(each)}
    alone = {name: float(put_numbers(each, known)) for name, each in fixed.items()}
    longest = max(alone, key=lambda name: alone[name], default=None)
    if longest is not None and alone[longest] > time and not networked:
        return unknown.within(time, None, bound_by=longest, least=alone[longest])
    allowed = _allowed_by_each({n: each for n, each in times.items() if n not in fixed}, unknown, t, {**known, t: time})
    if not allowed:
        if unknown.unit:
            return by_rates(unknown, time)
        return by_whole_numbers(unknown, time)
    last = (max if unknown.unit else min)(allowed, key=lambda name: allowed[name][0])
    value, form = allowed[last]
    valid = _valid((each for name, each in times.items() if name != last), unknown.x, form, t)
    if unknown.unit:
        if unknown.floor(value) > time * (1 + 1e-9):  # bytes are rounded up, which the form leaves out
            return by_rates(unknown, time)
        return unknown.within(time, value, bound_by=last, form=form, valid=valid, answer=unknown.at(value))
    multiple, ways = unknown.multiple, unknown.ways
    pick = int(value * (1 + 1e-12) // multiple) * multiple
    # a size that plans can split may take less than the next
    longer = all(time < unknown.floor(size) < math.inf for size in (pick + multiple, (pick // ways + 1) * ways))
    if pick < 1 or unknown.floor(pick) > time * (1 + 1e-9) or not longer:
        return by_whole_numbers(unknown, time)
    return unknown.within(time, value, pick=pick, bound_by=last, form=form, valid=valid, answer=unknown.at(pick))


def _valid(others: Iterable[Any], x: Any, form: Any, t: Any) -> Any:
    """Where a form of the unknown is above 0, and no other time is longer than ``t`` there."""
    above = [] if form.is_positive else [sympy.Gt(form, 0, evaluate=False)]
    within = [sympy.Le(sympy.sympify(each).xreplace({x: form}), t, evaluate=False) for each in others]
    return sympy.And(*above, *within, evaluate=False) if above or within else True


def _allowed_by_each(
    times: Mapping[str, Any], unknown: _Search, t: Any, known: Mapping[Any, Any]
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


def by_whole_numbers(unknown: Unknown, time: float) -> TimeSolution:
    """The largest whole number within the time, by halving; ceilings make the floor rise in steps.

    Also looked at are the numbers that plans can split ``ways``: they may take less than those in between. The first
    number is the least that can be asked: a window does not fit less.
    """

    def least(step: int) -> int:
        return next((n for n in range(1, MOST_TRIED) if unknown.floor(n * step) < math.inf), 0)

    def largest(step: int) -> int:
        first = least(step)
        if not first or unknown.floor(first * step) > time:
            return 0
        if unknown.floor((first + 1) * step) == math.inf:  # as heads of queries are multiples of those of keys
            first, step = 1, first * step
        low = high = first
        while high * step <= FARTHEST and unknown.floor(high * step) <= time:
            low, high = high, 2 * high
        if high * step > FARTHEST:
            return low * step
        return (first_where(lambda count: unknown.floor(count * step) > time, low, high) - 1) * step

    pick = max(map(largest, {unknown.multiple, max(unknown.ways, unknown.multiple)}))
    if pick == 0:
        shortest = unknown.at(least(unknown.multiple) * unknown.multiple)
        return unknown.within(time, None, least=None if shortest is None else float(shortest.lower))
    found = unknown.at(pick)
    if 2 * pick > FARTHEST and (most := unknown.floor(2 * pick)) <= time:
        return unknown.within(time, None, bound_by=_binding(found), least=most)
    return unknown.within(time, float(pick), pick=pick, bound_by=_binding(found), answer=found)


def by_chips(unknown: Unknown, time: float) -> TimeSolution:
    """The fewest chips within the time, one number after the other: more make some times longer and others shorter.

    Of many chips the powers of two are tried. Where no number is within it, the fastest is told.
    """
    fastest: TimeSolution | None = None
    powers = (2**k for k in range(MOST_TRIED.bit_length() - 1, MOST_CHIPS.bit_length()))
    for chips in (*range(1, MOST_TRIED), *powers):
        found = unknown.at(chips)
        took = math.inf if found is None else float(found.lower)
        if took <= time:
            fastest = unknown.within(time, float(chips), pick=chips, bound_by=_binding(found), answer=found)
            break
        if took < (math.inf if fastest is None or fastest.least is None else fastest.least):
            fastest = unknown.within(time, None, pick=chips, least=took, bound_by=_binding(found), answer=found)
    return replace(fastest or unknown.within(time, None), is_of_chips=True)


def by_rates(unknown: Unknown, time: float) -> TimeSolution:
    """The least rate within the time, by halving over answers: with the rate, plans and algorithms change."""
    low, high = 1.0, FASTEST
    if unknown.floor(high) > time:
        left = unknown.at(high)
        least, binding = (None, None) if left is None else (float(left.lower), str(left.bound_by))
        return unknown.within(time, None, bound_by=binding, least=least)
    while high > low * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if unknown.floor(middle) <= time else (middle, high)
    found = unknown.at(high)
    return unknown.within(time, high, bound_by=_binding(found), answer=found)


def _binding(found: Bound | None) -> str | None:
    return None if found is None else str(found.bound_by)


#: Formats tried, widest first.
FORMATS = ("fp64", "fp32", "bf16", "fp8", "int8", "mxfp4", "nvfp4", "int4")


class FormatBound(NamedTuple):
    """One format and the bound with it."""

    dtype: str
    bound: Bound


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DTypeSolution(AboutQuestion):
    """The bound for every storage format of one operand, widest first; ``flips_at`` is the first that changes kind."""

    question: Question
    operand: str
    rows: tuple[FormatBound, ...]

    @property
    def flips_at(self) -> str | None:
        """The widest format at which another kind of resource binds than at the widest of all; None if none."""
        first = self.rows[0].bound.kind
        return next((row.dtype for row in self.rows if row.bound.kind != first), None)

    @property
    def verdict(self) -> str:
        """Where it flips, in words."""
        return f"flips at {self.flips_at}" if self.flips_at else f"{self.rows[0].bound.kind} in every format"

    def facts(self) -> Iterator[Fact]:
        yield Fact("answer", self.verdict)
        for name, found in self.rows:
            yield Fact(name, found.lower, "s", "less", timed=True)
            yield Fact(f"{name} bound by", str(found.bound_by))
        if self.incomplete:
            yield Fact("incomplete", "; ".join(self.incomplete))

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What could not be timed in some format."""
        return tuple(dict.fromkeys(line for row in self.rows for line in row.bound.incomplete))

    def sections(self) -> tuple[Section, ...]:
        said = [(name, f"{format_amount(b.lower, 's')}, {b.kind} ({b.bound_by})") for name, b in self.rows]
        pairs = [("answer", self.verdict), *said, *named("incomplete", self.incomplete)]
        subject = f"{self.question.expression}, {self.operand} stored in other formats"
        return word_pairs(subject, self.question.machine.name, pairs)

    def tables_as_data(self) -> Mapping[str, Table]:
        """``formats`` has a row a format: the time in it at best, and what binds.

        >>> solve_dtypes("bf16[64, 8192] * bf16[8192, 8192]", 1, on="h100").to_pandas()["dtype"].tolist()[:3]
        ['fp64', 'fp32', 'bf16']
        """
        columns = [Column("dtype"), *figures("at best"), *map(Column, ("bound by", "kind"))]
        rows = [Row((name, Amount(b.lower, "s"), str(b.bound_by), str(b.kind))) for name, b in self.rows]
        return {"formats": Table(columns, rows, "formats"), **AboutQuestion.tables_as_data(self)}

    def one_line(self) -> str:
        return f"DTypeSolution: {self.operand} {self.verdict} on {self.question.machine.name}"

    def to_dict(self) -> dict[str, Any]:
        """The rows under stable keys (schema ``roofline/dtypes/1``)."""
        return {
            "schema": "roofline/dtypes/1",
            "expression": self.question.expression,
            **machine_asked(self.question.machine),
            **attributes(self, "operand", "flips_at"),
            "rows": [{"dtype": name, **attributes(b, "lower", "bound_by", "kind")} for name, b in self.rows],
            "incomplete": list(self.incomplete),
        }


@on_several
@takes(question)
def solve_dtypes(expression: str, operand: int = 0, **arguments: Any) -> DTypeSolution:
    """Store one operand (0 is the first) in each format in turn; the arithmetic dtype stays what it was.

    Sizes must be plain numbers.
    """
    asked = question(expression, **arguments)
    refuse_idle(asked)
    compute = asked.conventions.compute
    kinds = {compute} if compute else {step.compute for step in program(expression).steps}
    asked = asked.vary(compute=kinds.pop()) if len(kinds) == 1 else asked
    if asked.conventions.compute is None and asked.is_sharded:
        hint = f"say {spelled('compute')}, or ask step by step"
        raise InputError(f"its steps compute in {in_a_row(sorted(kinds))}", hint=hint)
    inputs = operands(asked)
    if not 0 <= operand < len(inputs):
        names = ", ".join(f"{o.position} ({o.written})" for o in inputs)
        raise InputError(f"there is no operand {operand}", hint=f"operands are: {names}")
    rows = []
    for name in sorted(FORMATS, key=lambda n: -dtypes.get(n).bits_per_element):
        has_one = asked.conventions.compute
        answer = retype(asked, {operand: name}).answer() if has_one else _kept(asked, inputs[operand].ident, name)
        if not isinstance(answer.kind, str):
            raise InputError("a choice of dtypes needs plain numbers", hint="give every size one value")
        rows.append(FormatBound(name, answer))
    return DTypeSolution(asked, inputs[operand].written, tuple(rows))


def _kept(asked: Question, ident: str, name: str) -> Bound:
    """Answer with one operand stored in another format, where each step keeps an arithmetic dtype of its own."""
    reads = ((op, (replace(t, dtype=name) if t.ident == ident else t for t in op.reads)) for op in asked.ops())
    return asked.price(tuple(replace(op, reads=tuple(each)) for op, each in reads), asked.machine)


#: What may be equal, with its name in words.
QUANTITIES = {"flops": "FLOPs", "bytes": "bytes", "sent": "bytes sent", "time": "time"}

#: Times are compared up to 2 to this power.
_MOST = 40


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EqualCost(NoTime):
    """Where two expressions cost the same.

    Attributes
        ``value``            the size at which they do; None where it never is, or sizes are open
        ``form``             the same in symbols, None where there is no closed form
        ``first``, ``second``   what each costs, in symbols
        ``less_below``       which of the two costs less below that size: 1 or 2, None where open sizes decide
    """

    unknown: str
    quantity: str
    texts: tuple[str, str]
    form: Any
    value: float | None
    first: Any
    second: Any
    less_below: int | None
    target: str

    @property
    def _found(self) -> str:
        """The size, its form where others are open; ``no D`` where there is none."""
        if self.form is None and self.value is None:
            return f"no {self.unknown}"
        return f"{self.unknown} = {self.form if self.value is None else format_number(self.value, 6)}"

    def facts(self) -> Iterator[Fact]:
        yield Fact("answer", self._found)
        if self.form is not None:
            yield Fact("closed form", str(self.form))
        if self.less_below is not None:
            yield Fact("less below", ("the first", "the second")[self.less_below - 1])
        yield from (Fact("first", str(self.first)), Fact("second", str(self.second)))

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/equal/1``)."""
        return {
            "schema": "roofline/equal/1",
            "expressions": list(self.texts),
            **attributes(self, "unknown", "quantity", "value", "less_below"),
            "form": None if self.form is None else str(self.form),
            "costs": [str(self.first), str(self.second)],
            "numbers": plain_data([self.first, self.second]),
        }

    def sections(self) -> tuple[Section, ...]:
        word, answer = QUANTITIES[self.quantity], self._found
        if self.form is None and self.value is None:
            answer += f" gives both the same {word}"
        elif self.less_below is not None:
            order = ("first", "second") if self.less_below == 1 else ("second", "first")
            less = "takes less" if self.quantity == "time" else "has fewer"
            answer += f": below it the {order[0]} {less} {word}, above it the {order[1]}"
        lines = [("answer", answer)]
        if self.form is not None and self.value is not None:
            lines.append(("closed form", f"{self.unknown} = {self.form}"))
        lines += [(f"{name} {word}", str(cost)) for name, cost in (("first", self.first), ("second", self.second))]
        lines += [("first", self.texts[0]), ("second", self.texts[1])]
        return word_pairs(f"the same {word}", self.target, lines)

    def one_line(self) -> str:
        return f"EqualCost: the same {QUANTITIES[self.quantity]} at {self._found}"


@on_several
@takes(question)
def solve_equal(
    first: str,
    second: str,
    for_: str,
    *,
    quantity: str = "flops",
    on: Any = "h100",
    sizes: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> EqualCost:
    """Find the size at which two expressions cost the same.

    ``quantity`` is ``flops``, ``bytes``, ``sent`` (over the busiest links) or ``time``, which needs every other size as
    a number. A size that stands in one expression alone may be the unknown, or one of both. ``arguments`` are those of
    :func:`roofline.bound`; sizes left out stay symbols. The chip decides neither FLOPs nor bytes.
    """
    check_one_of(f"{quantity!r} is not compared", quantity, QUANTITIES, "quantities")
    labels = [label for text in (first, second) for label in program(text).labels]
    given = {**(sizes or {}), **{name: arguments.pop(name) for name in list(arguments) if name in labels}}
    check_one_of(f"nothing here is called {for_!r}", for_, dict.fromkeys(labels), "sizes", error=SizeError)
    refuse_known(for_, given)
    _refuse_figures(quantity, arguments)
    asked = [_without(question(text, on=on, sizes=given, **arguments), for_) for text in (first, second)]
    refuse_idle(*asked, uses=(*USES, *NOT_REPEATED))
    for each in asked:
        several = next((name for name, size in each.sizes.items() if is_array(size)), None)
        if several is not None:
            raise InputError(f"{several} has several values, and an answer is for one set of sizes")
    known = {symbol(name): size for each in asked for name, size in each.sizes.items()}
    costs = [_cost(each, quantity) for each in asked]
    if quantity == "time":
        form, value = None, _same_time([put_numbers(cost, known) for cost in costs], symbol(for_))
    else:
        form, value = _same_cost(costs, known, symbol(for_))
    return EqualCost(
        unknown=for_, quantity=quantity, texts=(asked[0].text, asked[1].text), form=form, value=value,
        first=costs[0], second=costs[1], less_below=None if value is None else _less(costs, known, for_, value),
        target=asked[0].machine.name,
    )  # fmt: skip


#: Arguments that say nothing of FLOPs, bytes or bytes sent, by what is compared.
_FIGURES = ("set", "link", "unit", "over", "achievable", "overlap", "overhead")
_SAY_NOTHING_OF: dict[str, tuple[str, ...]] = {
    "flops": (*_FIGURES, "policy", "tile", "compute"),
    "bytes": (*_FIGURES, "exact", "count_padding", "compute"),
    "sent": (*(name for name in _FIGURES if name not in ("set", "link")), "policy", "tile", "exact", "count_padding"),
    "time": ("overlap", "overhead"),
}


def _refuse_figures(quantity: str, arguments: Mapping[str, Any]) -> None:
    """Refuse an argument that says nothing of what is compared."""
    given = {name: arguments.get(name) for name in _SAY_NOTHING_OF[quantity]}
    idle = next((name for name, value in given.items() if is_array(value) or value not in (None, False, {})), None)
    if idle is not None:
        hint = either("--equal time compares times", "quantity='time' compares times")
        hint = "leave it out" if quantity == "time" else f"{hint}, or leave it out"
        raise InputError(f"{spelled(idle)} says nothing of {QUANTITIES[quantity]}", hint=hint)


def _without(asked: Question, name: str) -> Question:
    """Leave the unknown open, and sizes of the other expression out."""
    labels = asked.parsed.labels
    return asked.vary(sizes={label: size for label, size in asked.sizes.items() if label in labels and label != name})


def _cost(asked: Question, quantity: str) -> Any:
    """What an expression costs in symbols."""
    found = asked.vary(sizes={}).answer(symbolic=True)
    if quantity == "time":
        return put_numbers(found.lower, {use.rate.value: use.rate.plain for use in found.uses})
    if quantity == "sent":
        return found.sent
    if quantity == "flops":
        return found.flops
    return sum(use.amount for use in found.uses if use.quantity == "bytes")


def _same_cost(costs: list[Any], known: Mapping[Any, Any], unknown: Any) -> tuple[Any, float | None]:
    """The closed form of the size at which two costs are equal, and its value; neither where none is positive.

    Bytes that are sent are known by cases where a collective goes by one algorithm or another: the least size counts
    at which a case that holds there makes them equal. Such an answer has no form of its own.
    """
    roots = roots_of(costs[0], costs[1], unknown)
    if roots is None:
        apart = sympy.piecewise_fold(put_numbers(costs[0] - costs[1], known))
        cases = [case for case, _ in apart.args] if isinstance(apart, sympy.Piecewise) else [apart]
        found = [roots_of(case, 0, unknown) if free_symbols(case) <= {unknown} else None for case in cases]
        if None in found:
            hint = "solve for another size, or give the others numbers"
            raise InputError(f"there is no closed form in {unknown}", hint=hint)
        sizes = sorted(filter(None, (positive_number(root) for case in found for root in case or ())))
        pairs = [(size, [float(put_numbers(cost, {**known, unknown: size})) for cost in costs]) for size in sizes]
        return None, next((size for size, both in pairs if math.isclose(*both)), None)
    numbers = [put_numbers(root, known) for root in roots]
    for root, number in zip(roots, numbers, strict=True):
        if (value := positive_number(number)) is not None:
            return root, value
    return (roots[0], None) if roots and free_symbols(numbers[0]) else (None, None)


def _same_time(costs: list[Any], unknown: Any) -> float | None:
    """The first size from 1 on at which two times are equal, within a part in 10^12; None where none is."""
    openly = sorted(str(name) for cost in costs for name in free_symbols(cost) - {unknown})
    if openly:
        hint = "as in B=65536, F=32768"
        raise InputError(f"times are compared where every other size is a number, and {openly[0]} is open", hint=hint)

    def later(size: float) -> bool:
        first, second = (float(cost.subs(unknown, size)) if is_symbol(cost) else float(cost) for cost in costs)
        return first > second

    low = next((2.0**power for power in range(_MOST) if later(2.0**power) != later(2.0 ** (power + 1))), None)
    if low is None:
        return None
    high = 2 * low
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if later(middle) == later(low) else (low, middle)
    return high


def _less(costs: list[Any], known: Mapping[Any, Any], unknown: str, value: float) -> int | None:
    below = [put_numbers(cost, {**known, symbol(unknown): value / 2}) for cost in costs]
    if any(free_symbols(cost) for cost in below):
        ratio = put_numbers(below[0] / below[1], {})
        if free_symbols(ratio):
            return None
        return 1 if float(ratio) < 1 else 2
    return 1 if float(below[0]) < float(below[1]) else 2
