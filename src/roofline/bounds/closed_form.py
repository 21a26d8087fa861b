"""Formula: the closed form of a bound, with rates as symbols and their values beside them.

Its terms are the times of the resources, each of parts that a reader knows (weights, keys and values, activations,
network) with the operations they come from. It can be compiled, printed in other languages, and differentiated.

>>> from roofline.bounds.api import bound
>>> found = bound("bf16[B, D] * int8[D, F] -> bf16[B, F]", on="v5e").formula(B=64, D=8192, F=8192)
>>> [(term.resource, str(term.time)) for term in found.terms]
[('mxu', '2*B*D*F/P_bf16'), ('hbm', '2*B*(D + F)/W_hbm + D*F/W_hbm')]
>>> found.binding, {name: round(each.at, 3) for name, each in found.elasticities()["lower"].items()}
('hbm', {'B': 0.03, 'D': 0.985, 'F': 0.985, 'P_bf16': 0.0, 'W_hbm': -1.0})
>>> [(flip.size, round(flip.value), flip.before, flip.after) for flip in found.flips()][:1]
[('B', 128, 'hbm', 'mxu')]
>>> found.compile()(B=[1, 512], D=8192, F=8192)["bound_by"].tolist()
['hbm', 'mxu']
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from roofline.answers import Answer, attributes, heading, plain_data, plain_table
from roofline.bounds.bound import BOUNDS, UNITS, Bound, OpBound, ResourceUse, with_whole_numbers
from roofline.bounds.crossing import case_at, first_where, rises, roots_of
from roofline.bounds.memory import moved_tensors
from roofline.errors import InputError, SizeError, check_one_of, suggest
from roofline.formulas.compiled import Compiled, Evaluated, ValidRange
from roofline.formulas.elasticity import Elasticity, elasticities, stepped, values_at
from roofline.formulas.printers import (
    Combined,
    Way,
    c_source_of_ways,
    fastest_source,
    javascript_source,
    language_named,
    parameter,
    python_source,
    text,
)
from roofline.frozen import Frozen, NamedTuple, dataclass, field, kept, once, replace
from roofline.hardware.machine import Machine
from roofline.lazy import np, sympy
from roofline.meanings import SAID_IN_PYTHON
from roofline.ops.rules import noting_conditions
from roofline.quantity import format_amount, format_number, in_a_row
from roofline.sections import (
    BLANK,
    Amount,
    Column,
    Headline,
    Pairs,
    Row,
    Section,
    Sentences,
    Table,
    Words,
    YesNo,
    assumes,
    figures,
    incomplete,
)
from roofline.signatures import either
from roofline.sizes import (
    TIE,
    Definitions,
    check,
    in_plain_symbols,
    is_array,
    is_one,
    is_symbol,
    longest,
    of_largest,
    put_in,
    symbol,
)
from roofline.statements import SizeCondition, kind_of

SCHEMA = "roofline/formula/1"

#: The largest size at which flips are looked for, and how many sizes are looked at before the search closes in.
LARGEST_SIZE, LOOKED_AT = 2**40, 3000

#: Sizes of the others at which it is tried whether a crossing of two resources binds, spread evenly by the roots of
#: primes (H. Weyl, Math. Ann. 77, 1916).
SAMPLES, _PRIMES = 1024, (2, 3, 5, 7, 11, 13, 17, 19)

#: Characters of a form that is shown whole, and of the size at which another resource binds.
LONGEST_FORM, LONGEST_ROOT = 200, 100

#: What tensors of each role are called in a term.
_ROLES = {
    "weight": "weights", "kv": "keys and values", "state": "states", "gradient": "gradients", "raw": "bytes",
    "index": "activations", "activation": "activations", "moment": "optimizer", "master": "optimizer",
}  # fmt: skip

#: What arithmetic of each kind of operation is called.
_KINDS = {"contraction": "matrices", "attention": "attention", "elementwise": "elementwise", "norm": "norms"}


class RateSymbol(NamedTuple):
    """A rate in a formula: its symbol, its value in ``unit``, the resource it is of, where the figure is from.

    ``quantity``, ``place`` and ``dtype`` are those of the work that is divided by it.
    """

    symbol: Any
    value: float
    unit: str
    resource: str
    source: str
    quantity: str = ""
    place: str = ""
    dtype: str = ""


class TermPart(NamedTuple):
    """A part of a term: an amount over a rate, and the operations it comes from."""

    label: str
    amount: Any
    unit: str
    rate: Any
    operations: tuple[str, ...]

    def record(self, language: str) -> dict[str, Any]:
        """It as plain data, its amount in one of the languages of formulas."""
        own = {"amount": text(self.amount, language), "rate": str(self.rate), "operations": list(self.operations)}
        return self._asdict() | own


class FormulaTerm(NamedTuple):
    """The time of one resource as a sum of parts.

    >>> from roofline.bounds.api import bound
    >>> print(*bound("bf16[B, D] * int8[D, F]", on="v5e").formula().terms, sep="\\n")
    mxu = 2·B·D·F/P_bf16 [matrices]
    hbm = 2·B·(D + F)/W_hbm [activations] + D·F/W_hbm [weights]
    """

    resource: str
    time: Any
    parts: tuple[TermPart, ...]

    @property
    def written(self) -> Any:
        """The sum of its parts: its time, or over stages of a pipeline that of the stage which is written out."""
        return sympy.Add(*(part.amount / part.rate for part in self.parts))

    @property
    def column(self) -> str:
        """The name of its time in a program: ``time_hop_latency``."""
        return f"time_{self.resource.replace(' ', '_')}"

    def __str__(self) -> str:
        return f"{self.resource} = " + " + ".join(
            f"{_over(part.amount).replace(' · ', '·')}/{part.rate} [{part.label}]" for part in self.parts
        )


class FormulaFlip(NamedTuple):
    """From which value of a size on, the others as they are, another resource binds; its formula where there is one.

    ``value`` is None where other sizes are open; ``form`` then says from where on, in symbols. ``does_not_run`` is why
    no step runs there, and ``runs_below`` whether steps of smaller sizes do.
    """

    size: str
    value: float | None
    before: str
    after: str
    form: Any = None
    does_not_run: str = ""
    runs_below: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Formula(Answer):
    """The closed form of a bound.

    ``sizes`` and ``rates`` are its symbols, and ``letters`` those of the sizes with which bytes are whole; ``point``
    the sizes at which it is evaluated. ``terms`` are the times of the resources, ``forms`` its other columns:
    ``lower`` (where that is more than the largest term), ``op_by_op``,
    ``upper``, amounts, and memory. ``conditions`` say where it holds. ``definitions`` are long parts of the forms by
    the symbols that stand for them. The fastest of several ``ways`` counts, of those whose ``case`` holds; one of them
    is as many as its ``tried`` has values of a letter that is no size. ``slowest`` are parts of the terms beside the
    time of what they are of: those beside the largest are written out. ``runs`` say where a step can be run: elsewhere
    the formula holds of one that cannot.
    """

    expression: str
    machine: Machine
    letters: Mapping[str, Any]
    point: Mapping[str, float]
    rates: Mapping[str, RateSymbol]
    terms: tuple[FormulaTerm, ...]
    forms: Mapping[str, Any]
    conditions: tuple[ValidRange, ...] = ()
    from_zero: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    ways: tuple[Formula, ...] = ()
    definitions: Mapping[Any, Any] = field(default_factory=dict)
    case: ValidRange | None = None
    runs: tuple[ValidRange, ...] = ()
    tried: Mapping[str, Sequence[int]] = Frozen()
    slowest: tuple[tuple[Any, Mapping[str, tuple[TermPart, ...]]], ...] = ()

    def __call__(self, /, columns: Sequence[str] | None = None, **values: Any) -> Evaluated:
        """Its columns at sizes: numbers, or arrays that broadcast. A size left out is that of the point.

        A column is worked out when it is looked up, so that ``f(B=sizes)["lower"]`` is what to time; ``columns`` names
        those that are worked out at once.

        >>> from roofline import formula
        >>> found = formula("bf16[M, K] * bf16[K, N]", on="h100")
        >>> found(M=512, K=8192, N=[1024, 8192])["lower"].tolist()
        [8.68...e-06, 6.94...e-05]
        """
        return self.compile()(columns, **{**self.point, **values})

    @property
    def sizes(self) -> dict[str, Any]:
        """The symbols of its sizes by name: those of :func:`roofline.sizes.symbol`."""
        return {name: symbol(name) for name in self.letters}

    @property
    def lower(self) -> Any:
        """The bound if everything overlaps, as an expression in the symbols of :attr:`sizes`.

        >>> from roofline import formula
        >>> from roofline.sizes import symbol
        >>> found = formula("bf16[B] * bf16[B]", on="h100")
        >>> found.upper.subs(symbol("B"), 64), found.upper.diff(symbol("B"))
        (258/W_hbm + 128/P_bf16_cuda, 4/W_hbm + 2/P_bf16_cuda)
        """
        return in_plain_symbols(self.bound_form("lower"), self.definitions)

    @property
    def op_by_op(self) -> Any:
        """The bound if each operation overlaps within itself, as an expression."""
        return in_plain_symbols(self.bound_form("op_by_op"), self.definitions)

    @property
    def upper(self) -> Any:
        """The bound if nothing overlaps, as an expression."""
        return in_plain_symbols(self.bound_form("upper"), self.definitions)

    @property
    def times(self) -> Mapping[str, Any]:
        """The time of each resource; over stages of a pipeline that of the stage which is the slowest at the point."""
        return {term.resource: in_plain_symbols(term.written) for term in self.terms}

    def in_letters(self) -> dict[str, Any]:
        """The time of each resource in :attr:`letters`."""
        return {term.resource: term.time for term in self.terms}

    @kept
    def compile(self) -> Compiled:
        """A function of arrays of all its sizes, and of its rates where they are given.

        The formula itself is called in the same way, and takes the sizes that are left out from its point.
        """
        rates = {name: rate.value for name, rate in self.rates.items()}
        conditions = () if any(way.case for way in self.ways) else self.conditions  # each case has its own
        ways = tuple(way.compile() for way in self.ways)
        return Compiled(
            self.expression, dict(self.letters), rates, dict(self.forms), self.in_letters(), conditions, self.from_zero,
            ways, self.definitions, self.incomplete, self.assumptions, self.case, self.of_chips, self.tried,
        )  # fmt: skip

    @property
    def is_numeric(self) -> bool:
        """Whether every size has a value, and the formula holds there."""
        return all(name in self.point for name in self.sizes) and not self.invalid

    @once
    def invalid(self) -> tuple[str, ...]:
        """Why the formula does not hold at the point; nothing where it does, or where sizes have no values."""
        known = all(name in self.point for name in self.sizes)
        return tuple(self.compile().evaluate(self.point).invalid) if known else ()

    @kept
    def values(self) -> dict[str, float]:
        """Every column but what binds, at the point, which has a value for each size.

        By one pass through the forms: at one point that is shorter than to compile them.
        """
        at = self._at_point()
        if self.ways:
            here = [way for way in self.ways if way.is_case_of(self.point)]
            found = _fastest_at_point(here or self.ways).values()
            return found if here else dict.fromkeys(found, math.nan)
        times = {f"time.{name}": time for name, time in self.in_letters().items()}
        found = values_at({**self.forms, **times}, at, self.definitions)
        if times:
            busy = [found[name] for name in times]
            found = {"lower": max(busy), "upper": sum(busy), **found}
        return dict.fromkeys(found, math.nan) if self.invalid else found

    def each_tried(self) -> Iterator[Formula]:
        """It at each of the values that are ``tried``; itself where none are."""
        for name, values in self.tried.items():
            yield from (replace(self, point={**self.point, name: n}, tried={name: (n,)}) for n in values)
        if not self.tried:
            yield self

    def written_out(self) -> Formula:
        """It with the number that is tried put in, and the terms of what takes longest at the point."""
        if not self.tried and not self.slowest:
            return self
        parts: Mapping[str, tuple[TermPart, ...]] = {term.resource: term.parts for term in self.terms}
        if self.slowest and all(name in self.point for name in self.letters):
            each = {str(number): time for number, (time, _) in enumerate(self.slowest)}
            busy = values_at(each, self._at_point(), self.definitions)
            parts = self.slowest[int(max(busy, key=lambda number: busy[number]))][1]
        known = {self.letters[name]: sympy.Integer(self.point[name]) for name in self.tried}
        times, terms = self.in_letters(), []
        for name in {**parts, **times}:
            own = parts.get(name, ())
            if known:
                own = tuple(part._replace(amount=tidy(put_in(part.amount, known))) for part in own)
            terms.append(FormulaTerm(name, put_in(times[name], known), own))
        letters, point = ({n: v for n, v in own.items() if n not in self.tried} for own in (self.letters, self.point))
        forms, definitions = (
            {name: put_in(form, known) for name, form in own.items()} for own in (self.forms, self.definitions)
        )
        return replace(
            self, terms=tuple(terms), letters=letters, point=point, forms=forms, definitions=definitions, tried={}
        )

    def is_case_of(self, point: Mapping[str, Any]) -> bool:
        """Whether sizes are of its case, where it is one of several."""
        known = {symbol: point[name] for name, symbol in self.letters.items() if name in point}
        return self.case is None or self.case.holds.subs(known) in (True, None)

    @property
    def binding(self) -> str | None:
        """The resource that binds at the point."""
        if not self.is_numeric:
            return None
        return longest({name: self.values()[f"time.{name}"] for name in self.in_letters()})

    def bound_form(self, name: str) -> Any:
        """One of the three bounds, or another column, as one expression."""
        if name in self.forms:
            return self.forms[name]
        check_one_of(f"the formula has no {name!r}", name, [*BOUNDS, *self.forms], "forms")
        times = list(self.in_letters().values())
        return sympy.Add(*times) if name == "upper" else sympy.Max(*times, evaluate=False) if times[1:] else times[0]

    @kept
    def elasticities(self) -> dict[str, dict[str, Elasticity]]:
        """∂ln t/∂ln x of the three bounds at the point, by size and rate; over the rates they sum to −1."""
        if not self.is_numeric:
            missing = next((f"size {name} has no value" for name in self.sizes if name not in self.point), "")
            raise SizeError(missing or self.invalid[0], hint="an elasticity is that at a point")
        found = {name: elasticities(self.bound_form(name), self._at_point(), self.definitions) for name in BOUNDS}
        return {name: {str(x): each for x, each in of.items()} for name, of in found.items()}

    def _at_point(self) -> dict[Any, float]:
        """Sizes and rates at the point; one that lacks a size is refused."""
        missing = ", ".join(name for name in self.sizes if name not in self.point)
        if missing:
            raise SizeError(f"the formula has no value of {missing}", hint="give sizes: found(B=64)['lower']")
        return self._known | self._rates

    @property
    def _known(self) -> dict[Any, float]:
        """The sizes that have a value at the point."""
        return {self.letters[name]: value for name, value in self.point.items()}

    @property
    def _rates(self) -> dict[Any, float]:
        return {rate.symbol: rate.value for rate in self.rates.values()}

    def steps(self, *, wide: bool = False) -> tuple[str, ...]:
        """The sizes in which its times have steps, or those alone whose steps are ``wide`` at the point."""
        at = (self._at_point(), self.definitions) if wide else ()
        found = {str(each) for term in self.terms for each in stepped(term.written, *at)}
        return tuple(name for name in self.sizes if name in found)

    @property
    def multiples(self) -> dict[str, Any]:
        """What a size has to be a multiple of, by its name: a number, or a form in other sizes.

        Of an open number of chips it is that of the case whose terms are shown.

        >>> from roofline import formula
        >>> formula("bf16[B, D_X] * bf16[D_X, F]", on="h100:8").multiples
        {'D': 8}
        """
        found: dict[str, Any] = {}
        ranges = (*self.conditions, *self.runs, *([self.case] if self.case else []))
        for holds in (each for valid in ranges for each in sympy.And.make_args(valid.holds)):
            size, of = holds.lhs.args if isinstance(holds, sympy.Eq) and isinstance(holds.lhs, sympy.Mod) else (None, 1)
            if (name := str(size)) in self.letters:
                found[name] = sympy.lcm(found[name], of) if name in found else of
        return found

    def multiple(self, name: str, point: Mapping[str, float]) -> int:
        """The number that a size has to be a multiple of where the others are as at a point; 1 for any."""
        known = {self.letters[each]: value for each, value in point.items() if each in self.letters}
        return int(sympy.sympify(self.multiples.get(name, 1)).subs(known))

    @kept
    def flips(self) -> tuple[FormulaFlip, ...]:
        """Where another resource binds as each size grows from 1, the others as they are at the point.

        Where several sizes are open, every pair of resources that take equally long at a value of the first of them,
        and bind there at some values of the others.

        >>> from roofline import formula
        >>> (flip,) = formula("bf16[B, D] * int8[D, F]", on="v5e").flips()
        >>> flip.before, flip.after, flip.form
        ('hbm', 'mxu', D*F*P_bf16/(2*(D*F*W_hbm - D*P_bf16 - F*P_bf16)))
        """
        known = [name for name in self.sizes if all(size in self.point for size in self.sizes if size != name)]
        return tuple(flip for name in known for flip in self._flips_of(name)) if known else tuple(self._open_flips())

    def _flips_of(self, name: str) -> Iterator[FormulaFlip]:
        f, step = self.compile(), 1
        names = f.resources
        powers = 2.0 ** np.arange(LARGEST_SIZE.bit_length())  # numbers of chips, of which each may be a case by itself
        tried = np.unique([*np.rint(np.geomspace(1, LARGEST_SIZE, LOOKED_AT)), *powers])
        steps = [getattr(way.letters[name], "multiple", 1) for way in self.ways if name in way.letters]
        shared = self.multiple(name, self.point)
        steps += [shared] * (shared > 1)
        tried = np.unique([np.ceil(tried / step) * step for step in {1, *steps}])

        def codes(values: Any) -> Any:
            found = f.evaluate({**self.point, name: values}, ("bound_by",))
            codes = found.whole_column("bound_by").codes
            return codes if found.invalid_rows is None else np.where(found.invalid_rows, -1, codes)

        seen = codes(tried)
        if len(steps) > 1 or shared > 1:  # numbers of chips between whole nodes are none of the formula's
            tried, seen = tried[seen >= 0], seen[seen >= 0]
        for place in np.flatnonzero((np.diff(seen) != 0) & (seen[1:] >= 0) & (seen[:-1] >= 0)).tolist():
            low, high = int(tried[place]), int(tried[place + 1])
            step = max(each for each in (1, *steps) if low % each == high % each == 0)
            while high - low > step:
                middle = low + (high - low) // (2 * step) * step
                code = codes(np.array([float(middle)]))[0]
                if code < 0:  # no number of chips in between
                    break
                low, high = (middle, high) if code == seen[place] else (low, middle)
            before, after = names[seen[place]], names[int(codes(np.array([float(high)]))[0])]
            at = next((way for way in self.ways if not way.tried and way.is_case_of({**self.point, name: high})), self)
            known = before in at.in_letters() and after in at.in_letters()
            pair = name, before, after
            form = (at._crossing_near(*pair, high) or at.crossing(*pair)) if known else None
            form = None if form is not None and not at._is_near(form, high, step) else form
            yield FormulaFlip(name, high, before, after, form, *at._does_not_run(name, high))

    def _is_near(self, form: Any, high: int, step: int) -> bool:
        """Whether a form has the value of a size that was found: a flip may be of another case than is written out."""
        value = form.subs(self._known | self._rates)
        return bool(value.is_number and value.is_real) and abs(float(value) - high) <= step + high * 1e-9

    def _does_not_run(self, size: str, value: int) -> tuple[str, bool]:
        """Why no step runs at a value of a size, the others as at the point, with the range in which that is so.

        Also whether steps of smaller sizes run.
        """
        known = self._known
        for holds, reason in self.runs:

            def runs(x: int, holds: Any = holds) -> bool:
                return bool(holds.subs({**known, self.letters[size]: x}))

            if runs(value):
                continue
            if runs(1):
                return f"from {size} {first_where(lambda x: not runs(x), 1, value):,} on {reason}", True
            below = f"below {size} {first_where(runs, value, LARGEST_SIZE):,} " if runs(LARGEST_SIZE) else ""
            return f"{below}{reason}", False
        return "", False

    def _open_flips(self) -> Iterator[FormulaFlip]:
        """Where two terms take equally long, at the first size that is open: the one that grows with it binds after."""
        for size in [name for name in self.sizes if name not in self.point][:1]:
            times = self.in_letters()
            for one, other in combinations(times, 2):
                exact = self.crossing(size, one, other)
                if exact is not None and self._binds_there(size, exact, one):
                    grows = rises(times[one] / times[other], self.letters[size])
                    before, after = (other, one) if grows else (one, other)
                    yield FormulaFlip(size, None, before, after, exact)

    def _binds_there(self, size: str, exact: Any, one: str) -> bool:
        """Whether a resource binds somewhere at a value of a size at which it takes as long as another.

        At the rates as they are, and many sizes of the others: a crossing is no flip where it is below 1 or a third
        resource takes longer.
        """
        free = [symbol for name, symbol in self.letters.items() if name != size and name not in self.point]
        known = self._known | self._rates
        shares = np.modf(np.outer(np.sqrt(_PRIMES[: len(free)]), np.arange(1, SAMPLES + 1)))[0]
        values = [np.rint(float(LARGEST_SIZE) ** (share / 2)) for share in shares]
        at, forms = self.letters[size], [each.subs(known) for each in self.in_letters().values()]
        if len(free) > len(_PRIMES) or any(each.free_symbols - {at, *free} for each in (exact.subs(known), *forms)):
            return True
        with np.errstate(all="ignore"):
            roots = np.broadcast_to(sympy.lambdify(free, exact.subs(known))(*values), (SAMPLES,))
            times = [np.broadcast_to(sympy.lambdify([at, *free], form)(roots, *values), (SAMPLES,)) for form in forms]
            longest = np.max(times, axis=0)
            here = times[list(self.in_letters()).index(one)] >= longest * (1 - 1e-9)
        return bool((here & np.isfinite(roots) & (roots >= 1)).any())

    def crossing(self, size: str, one: str, other: str) -> Any:
        """The value of a size at which two resources take equally long, in the other symbols; None without a form."""
        of_times = self.in_letters(), "resources"
        for name, (known, what) in ((size, (self.sizes, "sizes")), (one, of_times), (other, of_times)):
            if name not in known:
                hint = suggest(name, known, what=what)
                if name == size and name in of_times[0]:
                    first = next(iter(self.sizes), "B")
                    hint = f"the size stands first: crossing({first!r}, {', '.join(map(repr, list(of_times[0])[:2]))})"
                raise InputError(f"the formula has no {name!r}", hint=hint)
        written = {term.resource: term.written for term in self.terms}
        roots, known = roots_of(written[one], written[other], self.letters[size]), self._known | self._rates
        above = [root for root in roots or () if not (at := root.subs(known)).is_number or at.is_positive]
        return above[0] if above else None

    def _crossing_near(self, size: str, one: str, other: str, value: int) -> Any:
        """The crossing of two times by cases, of which those are taken that hold at a value of the size."""
        x, written = self.letters[size], {term.resource: term.written for term in self.terms}
        at = self._known | self._rates | {x: value}
        if not (written[one] + written[other]).free_symbols <= at.keys():
            return None
        for root in roots_of(case_at(written[one], at), case_at(written[other], at), x) or ():
            here = {**at, x: root.subs(at)}
            times = [float(written[name].subs(here)) for name in (one, other) if here[x].is_positive]
            if times and math.isclose(times[0], times[1], rel_tol=1e-9):
                return root
        return None

    def printed(self, language: str, name: str = "bound") -> str:
        """The whole formula in ``python``, ``javascript``, ``c`` or ``latex``: the terms and the three bounds.

        A program is a function of this ``name``; where a condition fails all that it gives is NaN. Of several ways to
        compute it a program takes the fastest, LaTeX has that of the point.
        """
        language = language_named(language, "a formula")
        if language == "latex":
            return "\n".join(self._latex())
        if language == "c":
            cases = [(each, self._conditions_of(each)) for each in self.ways or (self,)]
            ways = [one._way(valid, each.case) for each, valid in cases for one in each.ways or (each,)]
            return c_source_of_ways(name, list(self.letters.values()), ways, self._docstring())
        return self._printed(language, name, self.conditions)

    def _conditions_of(self, way: Formula) -> tuple[ValidRange, ...]:
        """Those of one of its ways: its own where it is a case, else those of all, as in :meth:`compile`."""
        return way.conditions if way.case else self.conditions

    def _way(self, conditions: Sequence[ValidRange], case: ValidRange | None = None) -> Way:
        """What a program is made of, that holds in a case."""
        holds = None if case is None else case.holds
        return Way(self._rates, self._columns(), self.definitions, holds, conditions, self.tried)

    def _printed_ways(self, language: str, called: str) -> str:
        value = "=" if language == "python" else " = "
        arguments = [parameter(size, language) for size in self.letters.values()]
        arguments += [f"{name}{value}{text(rate.value, language)}" for name, rate in self.rates.items()]
        ways = {
            name: (
                way._printed(language, name, self._conditions_of(way)),
                [*(parameter(size, language) for size in way.letters.values()), *way.rates],
            )
            for name, way in ((f"way_{number}", way) for number, way in enumerate(self.ways, 1))
        }
        cases = [each.case for each in self.ways if each.case is not None]
        tried = {f"way_{number}": way.tried for number, way in enumerate(self.ways, 1)}
        return fastest_source(language, called, arguments, ways, cases, tried)

    def _columns(self) -> dict[str, Any]:
        """The columns of a program: times, the three bounds, memory."""
        columns: dict[str, Any] = {term.column: term.time for term in self.terms}
        whole = {"lower": Combined("largest", tuple(columns)), "upper": Combined("sum", tuple(columns))}
        columns |= {name: self.forms.get(name, whole.get(name)) for name in BOUNDS}
        return columns | {name: form for name, form in self.forms.items() if name.startswith("memory")}

    def _printed(self, language: str, called: str, conditions: Sequence[ValidRange]) -> str:
        if self.ways:
            return self._printed_ways(language, called)
        sizes, way = list(self.letters.values()), self._way(conditions)
        if language == "python":
            return python_source(called, sizes, way, self._docstring())
        return javascript_source(called, sizes, way)

    def _docstring(self) -> list[str]:
        """What a program of it says: of what on what, and in which units."""
        of_one = ": times and memory of one chip" if self.machine.mesh is not None else ""
        return [
            f"{self.expression} on {self.of_chips}{of_one}.",
            f"Takes {', '.join(self.sizes)} as plain numbers.",
            "Gives seconds: lower is the time at best, upper where nothing overlaps, op_by_op where each operation",
            "overlaps within itself, time_… of each resource; and bytes (memory…).",
            f"Rates are in {', '.join(sorted({rate.unit for rate in self.rates.values()}))}.",
            *(f"Assumes {each}." for each in self.assumptions if kind_of(each) == "plan"),
        ]

    def _latex(self) -> Iterator[str]:
        yield r"\begin{aligned}"
        yield self._aligned()
        yield r"\end{aligned}"
        if self.case is not None:
            yield f"% for {self.case.reason}"
        for rate in self.rates.values():
            yield f"% {text(rate.symbol, 'latex')} = {format_amount(rate.value, rate.unit)} ({rate.resource})"
        for flip in self.flips():
            size = text(self.letters[flip.size], "latex")
            form = "" if flip.form is None else f"both take equally long at {size} = {text(flip.form, 'latex')}"
            if flip.value is None:
                yield f"% {flip.after} and {flip.before}: {form}"
                continue
            told = f": {form}" if form else ""
            yield f"% {flip.after} binds from {size} = {format_number(flip.value)} on, {flip.before} before{told}"

    def _repr_latex_(self) -> str:
        """What a notebook sets as a formula."""
        return rf"$$\begin{{aligned}}{self._aligned()}\end{{aligned}}$$"

    def _aligned(self) -> str:
        return " \\\\\n".join(rf"{name} &= {form}" for name, form in self._latex_lines())

    def _latex_lines(self) -> Iterator[tuple[str, str]]:
        """What each line defines, and as what."""
        for term in self.terms:
            sums = _over_lines([text(part.amount / part.rate, "latex") for part in term.parts] or ["0"])
            yield rf"T_{{\mathrm{{{_escaped(term.resource)}}}}}", sums
        times = [rf"T_{{\mathrm{{{_escaped(term.resource)}}}}}" for term in self.terms]
        whole = {"lower": rf"\max\left({', '.join(times)}\right)", "upper": " + ".join(times)}
        kernels = self.forms["op_by_op"].as_ordered_terms() if "op_by_op" in self.forms else []
        # of one kind of kernel it is the lower bound again
        for name in BOUNDS if len(kernels) != 1 or len(self.terms) == 1 else ("lower", "upper"):
            parts = self.forms[name].as_ordered_terms() if name in self.forms else []
            form = _over_lines([text(part, "latex") for part in parts]) if parts else whole[name]
            yield rf"T_{{\mathrm{{{_escaped(name.replace('_', ' '))}}}}}", form
        yield from ((text(name, "latex"), text(form, "latex")) for name, form in self.definitions.items())

    def to_dict(self) -> dict[str, Any]:
        """The formula under stable keys (schema ``roofline/formula/1``): forms as Python, and their values."""
        values = self.values() if self.is_numeric else {}
        worth = self.elasticities() if values else None
        return {
            **heading(SCHEMA, self.machine, self.expression),
            "sizes": {name: _plain(self.point.get(name)) for name in self.sizes},
            "rates": {
                name: attributes(rate, "value", "unit", "resource", "source") for name, rate in self.rates.items()
            },
            "terms": [
                {
                    "resource": term.resource,
                    "formula": text(term.time, "python"),
                    "value": values.get(f"time.{term.resource}"),
                    "parts": [part.record("python") for part in term.parts],
                }
                for term in self.terms
            ],
            "bound_by": self.binding,
            "definitions": {str(name): text(form, "python") for name, form in self.definitions.items()},
            **{name: {"formula": text(self.bound_form(name), "python"), "value": values.get(name)} for name in BOUNDS},
            "columns": {
                name: {"formula": text(form, "python"), "value": _plain(values.get(name))}
                for name, form in self.forms.items()
                if name not in BOUNDS
            },
            "flips": [
                {**flip._asdict(), "form": None if flip.form is None else text(flip.form, "python")}
                for flip in self.flips()
            ],
            "elasticities": worth
            and {name: {x: each._asdict() for x, each in found.items()} for name, found in worth.items()},
            "steps": list(self.steps()),
            "least": {name: 0 if name in self.from_zero else 1 for name in self.sizes},
            "valid": [{"holds": text(each.holds, "python"), "reason": each.reason} for each in self._valid_ranges()],
            "javascript": self.printed("javascript"),
            **attributes(self, "assumptions", "incomplete"),
        }

    def _valid_ranges(self) -> Iterator[ValidRange]:
        """Where it holds: of several cases, in any of them."""
        cases = [(way.case.holds, way.case.reason) for way in self.ways if way.case is not None]
        yield from self.conditions
        if cases:
            named = [holds.xreplace({each: symbol(each.name) for each in holds.free_symbols}) for holds, _ in cases]
            yield ValidRange(sympy.Or(*named), f"none of {'; '.join(reason for _, reason in cases)}")

    @property
    def of_chips(self) -> str:
        """The machine, with the number of chips where there are several."""
        return self.machine.of_chips

    def one_line(self) -> str:
        binds = f", {self.binding} binds" if self.binding else ""
        return f"Formula: {self.expression} on {self.of_chips}, {len(self.terms)} terms{binds}"

    def sections(self) -> Iterator[Section]:
        yield from (Headline(self.expression, f"on {self.of_chips}"), BLANK)
        yield Sentences(self._ends_in_words(), "alert")
        yield Sentences([*self.said, *self._bounds_in_words()])
        yield from (BLANK, self._terms_table(), BLANK)
        flips = self._flips_in_words()
        yield Pairs([("flips", line) if index == 0 else ("", line) for index, line in enumerate(flips)], name="flips")
        if self.is_numeric:
            yield from (BLANK, self._elasticity_table())
        rates = []
        for name, rate in self.rates.items():
            source = f"  [{rate.source}]" if rate.source else ""
            rates.append((name, f"{format_amount(rate.value, rate.unit)}  {rate.resource}{source}"))
        yield from (BLANK, Pairs(rates, name="rates"))
        yield Pairs(self._validity(), name="valid")
        yield from (BLANK, assumes(self.assumptions), incomplete(self.incomplete))

    def _ends_in_words(self) -> list[str]:
        """From which size on no step runs, where that is before another resource would bind."""
        ends: dict[str, list[str]] = {}
        for flip in self.flips():
            if flip.runs_below and flip.value is not None:
                place = f"{flip.after} would bind from {flip.size} {format_number(flip.value)} on"
                ends.setdefault(flip.does_not_run, []).append(place)
        return [f"{why}: no step runs there; {in_a_row(places)}" for why, places in ends.items()]

    def _bounds_in_words(self) -> Iterator[str]:
        names = ", ".join(f"T_{term.resource.replace(' ', '_')}" for term in self.terms)
        plain = "lower" not in self.forms
        whole = "" if plain else str(self.forms["lower"])
        if not plain and (self.definitions or len(whole) > LONGEST_FORM):
            printed = either("--python", "printed('python')")
            yield f"lower = what the stages of the pipeline come to; {printed} prints it"
        else:
            yield f"lower = max({names})" if plain and self.terms[1:] else f"lower = {self.bound_form('lower')}"
        several = self.case is not None or not is_one(self.machine.chips)
        if "memory" in self.forms and len(held := written_amount(self.forms["memory"])) <= LONGEST_FORM:
            yield f"memory = {held} bytes{' a chip' * several}"
        at = ", ".join(f"{name} {format_number(value)}" for name, value in self.point.items())
        if self.invalid:
            yield f"at {at} the formula does not hold: {self.invalid[0]}"
        if self.is_numeric:
            values = self.values()
            times = {name: format_amount(values[name], "s") for name in BOUNDS}
            rest = f"{times['op_by_op']} op by op, {times['upper']} if nothing overlaps"
            where = " a chip" if several else " of memory"
            held = f"; {format_amount(values['memory'], 'B')}{where}" if "memory" in values else ""
            yield f"{f'at {at}: ' if at else ''}{times['lower']} at best, {rest}{held}"

    def _terms_table(self) -> Table:
        """A row a part of a term; the term that binds is marked."""
        parts = [part for term in self.terms for part in term.parts]
        longest = min(max(len(written_amount(part.amount)) for part in parts), 14)
        mixed = len({name for part in parts for name in part.operations}) > 1
        columns = (
            Column("T"), Column(wrap="words", meaning="part"), Column("amount", wrap="words", least=longest),
            Column("over"), *figures("time"), Column(wrap="words", meaning="total", spare=1),
            *[Column("from", wrap="words", least=28, spare=2)] * mixed,
        )  # fmt: skip
        rows = []
        values = self.values() if self.is_numeric else {}
        for term in self.terms:
            several = len(term.parts) > 1
            for index, part in enumerate(term.parts):
                time = self._time_of(part)
                tone: Any = "alert" if term.resource == self.binding else ""
                binds = term.resource == self.binding and index == 0
                name = Words(term.resource, tone) if index == 0 else ""
                form = written_amount(part.amount)
                total = f"{format_amount(values[f'time.{term.resource}'], 's')} binds" if binds else ""
                total = total if several or not binds else "binds"
                cells = (
                    name, part.label, form, str(part.rate), "" if time is None else Amount(time, "s"),
                    Words(total, tone) if total else "", ", ".join(part.operations),
                )  # fmt: skip
                rows.append(Row(cells[: len(columns)]))
        return Table(columns, rows, "terms")

    def plain_table(self, table: str | None = None) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """A row a part of a term: the time of the part and the total of its term in seconds, and whether that binds.

        >>> from roofline import formula
        >>> frame = formula("bf16[64, 8192] * bf16[8192, 8192]", on="h100").to_pandas()
        >>> frame["T"].tolist(), frame["binds"].tolist(), round(float(frame["total"][1]) * 1e6, 1)
        (['tensor', 'hbm', 'hbm'], [False, True, True], 40.7)
        """
        if table not in (None, "terms"):
            return Answer.plain_table(self, table)
        values = self.values() if self.is_numeric else {}
        columns = [*map(Column, ("T", "part", "amount", "over")), *figures("time", "total", "binds"), Column("from")]
        rows = []
        for term in self.terms:
            total = values.get(f"time.{term.resource}")
            binds = YesNo(term.resource == self.binding) if values else ""
            for part in term.parts:
                seconds = ("" if time is None else Amount(time, "s") for time in (self._time_of(part), total))
                said = (term.resource, part.label, written_amount(part.amount), str(part.rate))
                rows.append(Row((*said, *seconds, binds, ", ".join(part.operations))))
        return plain_table(Table(columns, rows, "terms"))

    def _time_of(self, part: TermPart) -> float | None:
        if not self.is_numeric:
            return None
        amount = part.amount.xreplace(self._known) if is_symbol(part.amount) else part.amount
        return float(amount) / self.rates[str(part.rate)].value

    def _flips_in_words(self) -> list[str]:
        lines = []
        for flip in self.flips():
            if flip.value is None:
                lines.append(f"{flip.after} and {flip.before} take equally long at {flip.size} = {flip.form}")
                continue
            form = "" if flip.form is None or len(str(flip.form)) > LONGEST_ROOT else f"  ({flip.size} = {flip.form})"
            place = f"{flip.size} {format_number(flip.value)}"
            binds = "would bind" if flip.does_not_run else "binds"
            why = f"; no step runs there: {flip.does_not_run}" * bool(flip.does_not_run)
            lines.append(f"{flip.after} {binds} from {place} on, {flip.before} before{form}{why}")
        if not self.is_numeric:
            open_sizes = [name for name in self.sizes if name not in self.point]
            if not lines and len(open_sizes) == 1:
                (size,) = open_sizes
                return [f"{self(['bound_by'], **{size: 1})['bound_by']} binds at every {size}"]
            return lines or ["give sizes to see where another term binds"]
        kept = [name for name in self.sizes if not any(flip.size == name for flip in self.flips())]
        return [*lines, *([f"{self.binding} binds at every {in_a_row(kept)}, the rest as it is"] if kept else [])]

    def _elasticity_table(self) -> Table:
        """∂ln t/∂ln x by size and rate for the three bounds; two figures at a tie."""
        found, wide = self.elasticities(), self.steps(wide=True)
        rows = []
        for x in found["lower"]:
            cells = [found[name][x] for name in BOUNDS]
            if any(abs(value) > 5e-4 for each in cells for value in each):
                note = "between its steps" if x in wide else ""
                rows.append(Row((x, *(_both_sides(each) for each in cells), note)))
        columns = (Column("∂ln t/∂ln x"), *figures("lower", "op by op", "upper"), Column(meaning="note"))
        return Table(columns, rows, "elasticities")

    def _validity(self) -> list[tuple[str, str]]:
        cases = [way.case for way in self.ways if way.case is not None]
        of_cases = {str(size) for case in cases for size in case.holds.free_symbols}
        least = {name: 1 for name in self.sizes if name not in of_cases} | dict.fromkeys(self.from_zero, 0)
        others = []
        for each in self.conditions:
            if kind_of(each.reason) == "start":
                least[str(each.holds.lhs)] = int(each.holds.rhs)
            else:
                others.append(f"not where {each.reason}")
        starts = sorted({*least.values()}, key=lambda start: (start == 0, start))
        lines = [f"for {'; '.join(case.reason for case in cases)}"] if cases else []
        lines += [f"for whole {', '.join(n for n in least if least[n] == start)} from {start} on" for start in starts]
        lines += others
        lines += [f"no step runs where {each.reason}" for each in self.runs]
        chosen = any(term.written.has(sympy.Piecewise) for term in self.terms)
        if chosen and any(kind_of(line) == "collective" for line in self.assumptions):
            lines.append("other rates may be put in; a collective changes its algorithm at the sizes named")
        return [("valid" if index == 0 else "", line) for index, line in enumerate(lines)]


def _both_sides(found: Elasticity) -> Amount | str:
    at, below, above = (f"{slope:z.3f}" for slope in found)
    return f"{below} below, {above} above" if found.tied else Amount(float(found.at), "", at)


def _plain(value: Any) -> Any:
    """A figure at the point as JSON has it: whole numbers whole, and none where there is none."""
    known = plain_data(value)
    return int(known) if isinstance(known, float) and known.is_integer() else known


def rate_symbols(uses: Iterable[ResourceUse]) -> dict[str, RateSymbol]:
    """The rates of some uses by the names of their symbols."""
    found: dict[str, RateSymbol] = {}
    for use in uses:
        rate = use.rate
        if not is_symbol(rate.value) or rate.plain is None:
            raise InputError(f"the rate of {use.resource} is a number", hint="this answer has no closed form")
        figure = rate.figure
        source = "" if figure is None else ", ".join(filter(None, (figure.basis, figure.source, figure.date)))
        name = str(rate.value)
        unit, of = UNITS[use.quantity][1], (use.quantity, use.place, use.dtype)
        one = RateSymbol(rate.value, float(rate.plain), unit, use.resource, source, *of)
        if found.setdefault(name, one).value != one.value:
            raise InputError(f"two rates are called {name}", hint="this answer has no closed form")
    return found


def columns_of(bound: Bound) -> dict[str, Any]:
    """The columns of a bound beside its times."""
    whole: dict[str, Any] = {} if type(bound) is Bound else {"lower": bound.lower, "upper": bound.upper}
    whole["op_by_op"] = bound.op_by_op
    figures = ("flops", "intensity", "critical_intensity", "attainable", "utilisation", "estimate")
    whole |= {name: getattr(bound, name) for name in figures}
    whole["bytes"] = sum(bound.bytes.values())
    tables = {"bytes": bound.bytes, "wire": bound.wire, "flops": bound.flops_by}
    whole |= {f"{table}.{name}": amount for table, amounts in tables.items() for name, amount in amounts.items()}
    if bound.footprint is not None:
        parts = bound.footprint.parts
        whole |= {"memory": bound.footprint.total, **{f"memory.{name}": size for name, size in parts.items()}}
    return {name: sympy.sympify(form) for name, form in whole.items() if form is not None}


def terms_of(bound: Bound) -> Iterator[FormulaTerm]:
    """Every resource with its parts: alike amounts over one rate together.

    >>> from roofline.bounds.api import bound
    >>> [[part.label for part in term.parts] for term in terms_of(bound("bf16[B, D] * int8[D, F]", on="v5e"))]
    [['matrices'], ['activations', 'weights']]
    """

    parts: dict[str, dict[tuple[str, Any], list[tuple[Any, str]]]] = {name: {} for name in bound.times}
    units: dict[Any, str] = {}
    tensors = _tensors(bound)
    for index, each in enumerate(bound.ops):
        for use in each.uses:
            units[use.rate.value] = UNITS[use.quantity][0]
            for label, amount in _labelled(each, use, tensors[index]):
                found = parts[use.resource].setdefault((label, use.rate.value), [])
                found.append((amount, (each.op.where or each.op.name).rpartition(".")[2] or each.op.name))
    for resource, gathered in parts.items():
        made = tuple(
            TermPart(
                label, tidy(sum(a for a, _ in listed)), units[rate], rate, tuple(dict.fromkeys(n for _, n in listed))
            )
            for (label, rate), listed in gathered.items()
        )
        term = FormulaTerm(resource, None, made)
        yield term._replace(time=term.written)


def _labelled(part: OpBound, use: ResourceUse, tensors: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The parts of a use: bytes by the role of their tensors, arithmetic and messages by the operation's kind."""
    if use.quantity == "bytes":
        rest = sympy.expand(sum(size for _, size in tensors) - use.amount)
        if tensors and all(abs(each) < 0.5 for each in rest.as_coefficients_dict().values()):  # of a byte: rounding
            yield from tensors
        else:
            yield "operands", use.amount
    elif use.quantity == "flops":
        yield "experts" if "groups" in part.op.dims else _KINDS.get(part.op.kind, part.op.kind), use.amount
    else:
        kind = str(part.op.options.get("collective", "network"))
        yield (kind if use.quantity == "wire" else f"{kind}, in turn"), use.amount


def _tensors(bound: Bound) -> list[list[tuple[str, Any]]]:
    """For each operation the bytes of its tensors by role, repeats counted; nothing where they are not known."""
    ops, asked = [part.op for part in bound.ops], bound.request
    found = zip(ops, moved_tensors(ops, asked.get("policy", "each-op"), asked.get("tile")), strict=True)
    return [[(_ROLES.get(role, role), size * op.repeat) for role, size in each] for op, each in found]


def tidy(amount: Any) -> Any:
    """An amount as a person would write it: multiplied out, alike terms together, common factors before a bracket.

    >>> from roofline.sizes import symbol
    >>> tidy(2 * symbol("B") * (symbol("C") + 1) + 4 * symbol("B") * symbol("C"))
    2*B*(3*C + 1)
    """
    whole = isinstance(amount, int)
    flat = sympy.nsimplify(amount) if whole else sympy.expand(amount, power_base=False, power_exp=False)
    return sympy.factor_terms(with_whole_numbers(flat))


def written_amount(amount: Any) -> str:
    """An amount as a person would write it, with breaks between its factors."""
    return text(amount, "words").replace("**", "^").replace("*", " · ")


def _over(amount: Any) -> str:
    """An amount that something is divided by: a sum in brackets."""
    return f"({written_amount(amount)})" if getattr(amount, "is_Add", False) else written_amount(amount)


#: The longest sum that stands in one line of LaTeX.
_LONGEST_SUM = 400


def _over_lines(parts: Sequence[str]) -> str:
    """A sum in LaTeX: a line for each part where it is long.

    >>> _over_lines(["a", "- b", "c"])
    'a - b + c'
    """
    signed = [parts[0], *(part if part.startswith("-") else f"+ {part}" for part in parts[1:])]
    return (" " if sum(map(len, parts)) <= _LONGEST_SUM else " \\\\\n& \\quad ").join(signed)


def _escaped(name: str) -> str:
    return name.replace("_", r"\_").replace(" ", r"\ ")


def formula_of(
    bound: Bound,
    point: Mapping[str, float] | None = None,
    *,
    forms: Mapping[str, Any] | None = None,
    conditions: Sequence[ValidRange] = (),
    runs: Sequence[ValidRange] = (),
    from_zero: Sequence[str] = (),
    said: Sequence[str] = (),
    stages: Sequence[Bound] = (),
    slowest: Sequence[tuple[Any, Bound]] = (),
    definitions: Definitions | None = None,
) -> Formula:
    """Take the closed form out of a bound whose sizes and rates are symbols; ``forms`` replace its own columns.

    ``stages`` are other bounds whose rates stand in ``forms``; ``runs`` is where it can be run. Of ``slowest`` the
    bound beside the largest time counts, at each size; the terms are written out of the one at the point.
    """
    rates = rate_symbols(use for each in (bound, *stages) for use in each.uses)
    short = Definitions() if definitions is None else definitions
    times, columns, terms, keys = dict(bound.times), columns_of(bound), [*terms_of(bound)], []
    if len(slowest) > 1:
        keys = [short("stage", time) for time, _ in slowest]
        times, columns = _of_slowest(keys, [each for _, each in slowest])
        parts = {term.resource: term.parts for term in terms}
        terms = [FormulaTerm(name, time, parts.get(name, ())) for name, time in times.items()]
    everything = {**columns, **{name: sympy.sympify(form) for name, form in (forms or {}).items()}}
    inside = [*times.values(), *everything.values(), *short.values()]
    symbols = {s for form in inside if is_symbol(form) for s in form.free_symbols} - set(short)
    if called := sorted(str(s) for s in symbols if str(s) in rates and s.is_integer):
        raise SizeError(f"size {called[0]!r} has the name of a rate of the formula", hint="give it another")
    open_sizes = {str(s): s for s in sorted(symbols, key=str) if str(s) not in rates}
    named = {name: size for name, size in bound.sizes.items() if is_symbol(size)}
    order = [name for size in named.values() for name in map(str, sorted(size.free_symbols, key=str))]
    sizes = {name: open_sizes.pop(name) for name in dict.fromkeys(order) if name in open_sizes} | open_sizes
    for name, value in (point or {}).items():
        if name in sizes and not (name in from_zero and value == 0):
            check(name, value)
    # a traced program takes the branch that it took
    branches = [each for said in bound.assumptions if isinstance(said, SizeCondition) for each in said.holds]
    found = Formula(
        expression=bound.expression, machine=bound.machine, letters=sizes, rates=rates, terms=tuple(terms),
        point={name: value for name, value in (point or {}).items() if name in sizes},
        forms=everything, conditions=(*conditions, *(ValidRange(*each) for each in branches)), runs=tuple(runs),
        from_zero=tuple(name for name in from_zero if name in sizes), said=tuple(said),
        assumptions=bound.assumptions, incomplete=bound.incomplete, definitions=short,
        slowest=tuple(
            (key, {term.resource: term.parts for term in terms_of(each)})
            for key, (_, each) in zip(keys, slowest, strict=False)
        ),
    )  # fmt: skip
    return found.written_out()


def _of_slowest(keys: Sequence[Any], bounds: Sequence[Bound]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The times of the resources and the columns of the bound beside the largest of some times, by cases."""

    def chosen(tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        names = dict.fromkeys(name for table in tables for name in table)
        every = {name: [table.get(name, 0) for table in tables] for name in names}
        return {name: forms[0] if len({*forms}) == 1 else of_largest(keys, forms) for name, forms in every.items()}

    return chosen([bound.times for bound in bounds]), chosen([columns_of(bound) for bound in bounds])


def fastest(ways: Sequence[Formula]) -> Formula:
    """The formula of several ways to do the same, of which the one with the least lower bound is taken at each size.

    Its terms are those of the way that is the fastest at the point.
    """
    if len(ways) == 1 and not ways[0].tried:
        return ways[0]
    note = "of the ways to compute it, this is the fastest at these sizes; compile() takes the fastest at each"
    return _of_ways(_fastest_at_point(ways).written_out(), ways, note)


def _fastest_at_point(ways: Sequence[Formula]) -> Formula:
    """The way with the least lower bound at the point."""
    each = [one for way in ways for one in way.each_tried()]
    times = [one.values()["lower"] if one.is_numeric else 0 for one in each]
    return next((one for one, time in zip(each, times, strict=True) if time <= min(times) * (1 + TIE)), each[0])


def _of_ways(shown: Formula, ways: Sequence[Formula], note: str) -> Formula:
    rates = {name: rate for way in ways for name, rate in way.rates.items()}
    return replace(shown, rates=rates, ways=tuple(ways), said=(*shown.said, note))


def of_cases(name: str, value: float | None, forms: Sequence[tuple[Formula, ValidRange]]) -> Formula:
    """One formula of several, each of which holds where its case says of the size ``name``.

    Its terms are those of the case of this ``value``, or of the last one.
    """
    usual = symbol(name, exact=True)
    point = {} if value is None else {name: check(name, value)}
    ways = []
    for each, case in forms:
        own = next((size for size in case.holds.free_symbols if size.name == name), usual)
        sizes = {name: own, **{n: size for n, size in each.letters.items() if n != name}}
        inside = tuple(replace(one, point={**one.point, **point}) if name in one.letters else one for one in each.ways)
        ways.append(replace(each, letters=sizes, point={**each.point, **point}, case=case, ways=inside))
    shown = next((way for way in ways if point and way.is_case_of(point)), ways[-1])
    best = (_fastest_at_point(shown.ways) if shown.ways else shown).written_out()
    shown = replace(shown, terms=best.terms, forms=best.forms, definitions=best.definitions)
    return _of_ways(shown, ways, f"the terms are those of {shown.case.reason if shown.case else name}")


def closed_form(bound: Bound, **point: float) -> Formula:
    """What :meth:`Bound.formula` gives: the closed form of an answer with open sizes, its values at a point.

    Of a question whose sizes all have values it is the form in all of them, at those values.
    """
    words = {name for name, value in point.items() if isinstance(value, bool | str)}
    word = next((name for name in point if name in words and name in SAID_IN_PYTHON), None)
    if word is not None:
        raise InputError(f"a formula takes sizes, and {word!r} is none", hint=SAID_IN_PYTHON[word])
    if bound.question is not None:
        found = question_formula(bound.question, point)
        known = dict.fromkeys((*found.sizes, *bound.question.size_names))
        for name in point:
            check_one_of(f"{bound.expression} has no size {name!r}", name, known, "sizes", error=SizeError)
        return found
    if not is_symbol(bound.lower):
        opened = either("--input 'bf16[B, 512]'", "trace(program, 'bf16[B, 512]')")
        raise SizeError("every size has a value", hint=f"name a size in place of its number, as in {opened}")
    return formula_of(bound, point)


def question_formula(asked: Any, point: Mapping[str, float] | None = None, *, every: bool = False) -> Formula:
    """The closed form of a question in its open sizes and arrays; in ``every`` size, or where none is open, at them."""
    if any(map(is_array, asked.raw.values())):
        asked = asked.vary(raw={name: symbol(name) if is_array(each) else each for name, each in asked.raw.items()})
    given = {name: value for name, value in asked.sizes.items() if isinstance(value, int | float)}
    tied = {name: value for name, value in asked.sizes.items() if is_symbol(value)}
    free = [name for name in asked.size_names if name not in asked.sizes or is_array(asked.sizes[name])]
    closed = () if free or tied else given
    letters = {name: symbol(name, exact=True) for name in (*free, *(given if every else closed))}
    inside = {each for form in tied.values() for each in form.free_symbols}
    exact = {each: symbol(each.name, exact=True) for each in inside}
    sizes = {**asked.sizes, **{name: form.xreplace(exact) for name, form in tied.items()}, **letters}
    there = {name: size for name, size in (point or {}).items() if name in asked.size_names}
    opened = asked.vary(sizes={**asked.sizes, **there}).one_plan().vary(sizes=sizes)
    with noting_conditions() as of_plan:
        laid = opened.laid_out()
    splits = () if laid is None else ((sympy.Eq(sympy.Mod(size, of), 0), why) for size, of, why in laid.splits)
    conditions = [ValidRange(holds, why) for holds, why in splits if holds is not sympy.true]
    ways = []
    for way in opened.ways(laid):
        with noting_conditions() as noted:
            answer = replace(opened, way=way).answer(symbolic=True, laid=laid)
        valid = [*conditions, *(ValidRange(holds, reason) for holds, reason in {**of_plan, **noted}.items())]
        ways.append(formula_of(answer, {**given, **(point or {})}, conditions=valid))
    return fastest(ways)
