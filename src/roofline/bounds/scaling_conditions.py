"""The conditions of scaling by name, and a condition worked out.

A condition is a sharded line, its unknown, and what the answer is per:

>>> condition_named("tp").what
'F'

Sources: "How To Scale Your Model", chapters 5 (data, fully sharded, tensor and mixed parallelism, DCN), 7 (decoding)
and 12 (GPUs, experts).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from roofline.answers import Fact, NoTime, attributes, plain_data
from roofline.bounds.bound import UNITS, Bound
from roofline.bounds.crossing import free_symbols, positive_number, put_numbers
from roofline.bounds.question import Question
from roofline.errors import InputError, SizeError, suggest
from roofline.frozen import dataclass, field
from roofline.hardware.machine import TORUS_DIMENSIONS, Machine
from roofline.hardware.network import domain_of, links_inside_out
from roofline.quantity import format_number, format_quantity
from roofline.sections import Section, named, word_pairs
from roofline.sizes import Size, check, is_array, symbol


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: a sharded line, its unknown, and what the answer is per.

    Communication has to take no longer than the time of ``against``: ``flops``, or ``bytes`` where decoding is bound
    by loading weights. ``per`` lists the mesh axes whose chips share the unknown. ``link`` names the one axis whose
    links count; empty: all. ``routed`` says that k of E experts get each token: given k, the answer is for all tokens.
    ``experts`` says that tokens go to k experts of other chips.
    ``hides`` is what the time of ``against`` has to cover: ``wire``, or ``weights`` that are loaded.
    """

    says: str
    text: str
    unknown: str
    what: str
    per: tuple[str, ...] = ()
    mesh: tuple[str, ...] = ("X",)
    link: str = ""
    against: str = "flops"
    routed: bool = False
    hides: str = "wire"
    experts: bool = False


#: The conditions by name; ``{0}`` in a line is the dtype of activations and gradients, ``{1}`` of weights.
CONDITIONS: dict[str, Condition] = {
    "dp": Condition(
        "data parallelism: gradients of a layer are summed behind its backward pass",
        "dWo = h:{0}[B_X, F] * dOut:{0}[B_X, D] -> {0}[F, D]; dh = dOut * Wo:{1}[F, D] -> {0}[B_X, F]; "
        "dWi = x:{0}[B_X, D] * dh -> {0}[D, F]; dh * Wi:{1}[D, F] -> {0}[B_X, D]",
        "B",
        "tokens per chip",
        per=("X",),
    ),
    "fsdp": Condition(
        "fully sharded data parallelism: weights are gathered behind the forward pass",
        "In:{0}[B_X, D] * Wi:{1}[D_X, F] * Wo:{1}[F, D_X] -> Out:{0}[B_X, D]",
        "B",
        "tokens per chip",
        per=("X",),
    ),
    "tp": Condition(
        "tensor parallelism: activations are gathered and scattered around the layer",
        "In:{0}[B, D_Y] * Wi:{1}[D, F_Y] * Wo:{1}[F_Y, D] -> Out:{0}[B, D_Y]",
        "F",
        "F",
        mesh=("Y",),
    ),
    "dcn": Condition(
        "data parallelism between slices: gradients cross the data-centre network",
        "dWo = h:{0}[B_SX, F] * dOut:{0}[B_SX, D] -> {0}[F, D_X]; dh = dOut * Wo:{1}[F, D] -> {0}[B_SX, F]; "
        "dWi = x:{0}[B_SX, D] * dh -> {0}[D_X, F]; dh * Wi:{1}[D, F] -> {0}[B_SX, D]",
        "B",
        "tokens per slice",
        per=("S",),
        mesh=("X", "S"),
        link="S",
    ),
    "moe-dp": Condition(
        "data parallelism of E experts, k of them for each token: T tokens reach each expert",
        "dWo = h:{0}[E, T_X, F] * dOut:{0}[E, T_X, D] -> {0}[E, F, D]; dh = dOut * Wo:{1}[E, F, D] -> {0}[E, T_X, F]; "
        "dWi = x:{0}[E, T_X, D] * dh -> {0}[E, D, F]; dh * Wi:{1}[E, D, F] -> {0}[E, T_X, D]",
        "T",
        "tokens per expert and chip",
        per=("X",),
        routed=True,
    ),
    "ep": Condition(
        "expert parallelism: tokens go to the chips of their experts and back",
        "In:{0}[E, T_X, D] *_D Wi:{1}[E_X, D, F] *_F Wo:{1}[E_X, F, D] -> Out:{0}[E, T_X, D]",
        "F",
        "F",
        experts=True,
    ),
    "decode-tp": Condition(
        "tensor parallelism of decoding: activations move while weights are loaded",
        "In:{0}[B, D_Y] * Wi:{1}[D, F_Y] * Wo:{1}[F_Y, D] -> Out:{0}[B, D_Y]",
        "Y",
        "ways",
        mesh=("Y",),
        against="bytes",
    ),
    "batch": Condition(
        "one chip: loading weights is behind the arithmetic, of a layer as wide as wanted",
        "In:{0}[B, D] * W:{1}[D, F] -> Out:{0}[B, F]",
        "B",
        "tokens",
        mesh=(),
        hides="weights",
    ),
    "moe-batch": Condition(
        "one chip: loading the weights of E experts is behind the arithmetic, k of them for each token",
        "In:{0}[E, T, D] * W:{1}[E, D, F] -> Out:{0}[E, T, F]",
        "T",
        "tokens per expert",
        mesh=(),
        routed=True,
        hides="weights",
    ),
}


#: Conditions on how chips are split, which are worked out from more than one line.
SPLITS = {
    "mixed": ("FSDP over X and tensor parallelism over Y, both behind the forward pass", "tokens per chip"),
    "2d": ("weights in two dimensions send less than in one from so many chips on", "chips"),
}


def list_conditions() -> list[tuple[str, str, str]]:
    """Every condition: its name, its meaning, and the quantity it is solved for."""
    lines = [(name, condition.says, condition.what) for name, condition in CONDITIONS.items()]
    return lines + [(name, *said) for name, said in SPLITS.items()]


def check_experts_per_token(picks: Any, experts: Any) -> Any:
    """Check how many experts each token goes to: no more than there are.

    >>> check_experts_per_token(2, 8), check_experts_per_token(2, None)
    (2, 2)
    """
    each = check("k", picks)
    if isinstance(each, int) and isinstance(experts, int) and each > experts:
        raise SizeError(f"k={each}, and there are E={experts} experts", hint=f"k of 1 to {experts}")
    return each


def condition_named(name: str) -> Condition:
    """Find a condition by its name in any case, or say which there are."""
    name = name if name in CONDITIONS else name.lower()
    if name not in CONDITIONS:
        raise InputError(f"unknown condition {name!r}", hint=suggest(name, [*CONDITIONS, *SPLITS], what="conditions"))
    return CONDITIONS[name]


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens of all chips beside a condition on those of one (or of one slice).

    Attributes
        ``chips``      chips that share the batch, where their number is known; ``least`` tokens they need together
        ``tokens``     the batch that was given; ``per`` the part of one chip, ``holds`` whether that is enough
        ``margin``     the part over what is needed
        ``most``       chips (or slices) on which the given batch scales; ``pods`` as many of the largest torus
        ``ratio``      the time of arithmetic over that of communication at the given batch
    """

    chips: int | None = None
    least: float | None = None
    tokens: Size | None = None
    per: float | None = None
    holds: bool | None = None
    margin: float | None = None
    most: float | None = None
    pods: float | None = None
    ratio: float | None = None

    @classmethod
    def of(
        cls, needed: Any, chips: Any, tokens: Any, machine: Machine, power: float = 1, alone: bool = False
    ) -> Batch | None:
        """What follows from tokens that are needed on each of ``chips`` chips; ``power`` of the ratio of times in it.

        ``alone`` says that the condition is one of a single chip.

        >>> from roofline.hardware import chip
        >>> found = Batch.of(850.0, 8960, 4_194_304, chip("v5p"))
        >>> round(found.per, 1), found.holds, found.least, round(found.most), round(found.pods, 2)
        (468.1, False, 7616000.0, 4934, 0.55)
        """
        if needed is None or is_array(needed) or is_array(tokens) or (chips is None and tokens is None):
            return None
        chips = 1 if alone else chips
        per = None if chips is None or tokens is None else tokens / chips
        most = None if tokens is None or alone else tokens / needed
        largest = next((link.domain for link in machine.links if link.topology in TORUS_DIMENSIONS), None)
        return cls(
            chips=chips, least=None if chips is None else needed * chips, tokens=tokens, per=per,
            holds=None if per is None else per >= needed * (1 - 1e-12), margin=None if per is None else per / needed,
            most=most, pods=None if most is None or largest is None else most / largest,
            ratio=None if per is None else (per / needed) ** power,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Every fact under its name, in tokens and chips."""
        names = ("chips", "least", "tokens", "per", "holds", "margin", "most", "pods", "ratio")
        return attributes(self, *names)

    def pairs(self, what: str) -> list[tuple[str, str]]:
        """What a reader sees: all chips together, the batch that is given, the most chips for it."""
        each, lines = what.rpartition(" ")[2], []
        if self.least is not None and self.chips is not None and self.chips > 1:
            tokens = math.ceil(self.least * (1 - 1e-12)) if math.isfinite(self.least) else self.least
            lines.append(("the batch", f"{_number(tokens)} tokens on {self.chips:,} {each}s"))
        if self.tokens is not None and self.per is not None:
            holds = "scales" if self.holds else "does not scale"
            said = f"{_number(self.per)} {what}, {holds}: arithmetic takes {_number(self.ratio)} times as long"
            lines.append((f"of {self.tokens:,}", f"{said} as what it has to cover"))
        if self.most is not None:
            pods = "" if self.pods is None else f", {_number(self.pods)} pods"
            lines.append(("the most", f"{_number(self.most)} {each}s{pods} for {self.tokens:,} tokens"))
        return lines


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scaling(NoTime):
    """A condition worked out: scaling holds while ``what`` is at least (for numbers of chips: at most) ``form``.

    Attributes
        ``form``        the closed form in rates and open sizes; ``value`` its number where nothing is open
        ``at_most``     whether it is the most (ways of tensor parallelism) rather than the least (a batch)
        ``limit_form``  the form for large sizes, which is how the book gives it; ``limit`` its number
        ``at``          what else follows (the best X of mixed parallelism) in symbols; ``best`` the numbers of it
        ``take``        the whole X and Y that divide the chips and send in the least time; ``shares`` what each has
        ``whole``       the whole X and Y that scale from the fewest tokens B of all chips, and these
        ``batch``       of tokens: those of all chips, and whether the batch that is given is enough
        ``rates``       the rates that stand in the form, in SI units
        ``question``    what was asked, with the plan taken; ``algorithm`` that of the collectives
    """

    name: str
    says: str
    what: str
    form: Any
    value: Any
    question: Question
    algorithm: str
    at: Mapping[str, Any]
    limit_form: Any = None
    limit: Any = None
    at_most: bool = False
    best: Mapping[str, Any] = field(default_factory=dict)
    rates: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    batch: Batch | None = None
    take: Mapping[str, int] = field(default_factory=dict)
    whole: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The condition, which is what answers differ in, and the machine."""
        return f"{self.name} on {self.question.machine.name}"

    def facts(self) -> Iterator[Fact]:
        """The number and its form, for a comparison.

        >>> from roofline import compare, scaling
        >>> both = [scaling(name, on="v5p", set={"bf16": 4.59e14}, F=32768) for name in ("fsdp", "mixed")]
        >>> round(compare(*both).ratio("tokens per chip"), 2)
        12.85
        """
        yield Fact(self.what, self.value, "", "more" if self.at_most else "less")
        yield Fact("for large sizes", self.limit, "", "more" if self.at_most else "less")
        yield Fact("closed form", str(self.form))

    @property
    def shares(self) -> dict[str, float]:
        """What each part of the split that is taken has: tokens of a group along X, columns of F along Y."""
        parts = {"tokens": ("B", "X"), "columns": ("F", "Y")}
        given = {name: (self.sizes.get(size), self.take.get(axis)) for name, (size, axis) in parts.items()}
        return {name: size / ways for name, (size, ways) in given.items() if size is not None and ways is not None}

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/scaling/1``)."""
        return {
            "schema": "roofline/scaling/1", "name": self.name, "says": self.says, "what": self.what,
            "at_most": self.at_most, "form": str(self.form), "value": plain_data(self.value),
            "limit_form": None if self.limit_form is None else str(self.limit_form), "limit": plain_data(self.limit),
            "at": {name: str(form) for name, form in self.at.items()},
            "best": plain_data(self.best),
            "batch": None if self.batch is None else self.batch.to_dict(),
            "take": dict(self.take), "whole": dict(self.whole), "shares": plain_data(self.shares),
            "rates": {name: rate for name, (rate, _) in self.rates.items()},
            "algorithm": self.algorithm, "expression": self.question.text, "plan": self.question.conventions.plan,
            "target": self.question.machine.name, "machine": self.question.machine.key,
            "assumptions": list(self.assumptions),
        }  # fmt: skip

    def sections(self) -> tuple[Section, ...]:
        """The condition in numbers and symbols, the line and plan it follows from, the rates in it."""
        return word_pairs(f"{self.name}: {self.says}", self.question.machine.name, self._pairs())

    def _pairs(self) -> list[tuple[str, str]]:
        sign = "≤" if self.at_most else "≥"
        lines = [("closed form", f"{self.what} {sign} {self.form}")]
        if self.value is not None:
            lines.insert(0, ("scales while", f"{self.what} {sign} {_number(self.value)}"))
        if self.batch is not None:
            lines += self.batch.pairs(self.what)
        if self.limit_form != self.form:
            value = "" if self.limit is None else f" = {_number(self.limit)}"
            lines.append(("for large sizes", f"{self.what} → {self.limit_form}{value}"))
        for name, form in self.at.items():
            number = self.best.get(name)
            lines.append((f"best {name}", str(form) if number is None else f"{form} = {_number(number)}"))
        if self.take:
            shares = {"tokens": "tokens along X", "columns": "columns of F along Y"}
            parts = [f"{_number(share)} {shares[name]}" for name, share in self.shares.items()]
            taken = ", ".join(f"{name} = {ways:,}" for name, ways in self.take.items())
            lines.append(("take", ": ".join(filter(None, (taken, ", ".join(parts))))))
        if self.whole:
            tokens = _number(math.ceil(self.whole["B"] * (1 - 1e-12)))
            lines.append(
                ("whole ways", f"X = {self.whole['X']:,}, Y = {self.whole['Y']:,} scales from {tokens} tokens")
            )
        lines.append(("line", self.question.text))
        if self.question.conventions.plan is not None:
            lines.append(("plan", str(self.question.conventions.plan)))
        shown = ", ".join(f"{name} = {format_quantity(rate, unit)}" for name, (rate, unit) in self.rates.items())
        if shown:
            sent = self.question.conventions.plan is not None
            lines.append(("rates", f"{shown}; W is one way over one link" if sent else shown))
        return [*lines, *named("assumes", self.assumptions)]

    def __str__(self) -> str:
        number = "" if self.value is None else f" = {_number(self.value)}"
        return f"{self.name}: {self.what} = {self.form}{number}"

    def one_line(self) -> str:
        """The condition in symbols, and its number."""
        return f"Scaling {self}"


def evaluate_form(
    form: Any, known: Mapping[Any, Any], symbolic: Bound, at: Mapping[str, Any], **fields: Any
) -> Scaling:
    """Put numbers into a form and what follows from it; ``symbolic`` has the rates and what was assumed."""
    import sympy

    form = sympy.factor(sympy.cancel(form))
    leading = _for_large_sizes(form)
    units = {
        use.rate.value: (use.rate.plain, UNITS[use.quantity][1]) for use in symbolic.uses if use.rate.plain is not None
    }
    rates = {str(each): units[each] for each in sorted(form.free_symbols, key=str) if each in units}
    return Scaling(
        form=form,
        value=value_of(form, known),
        at=at,
        limit_form=leading,
        limit=value_of(leading, known),
        best={name: value_of(found, known) for name, found in at.items()},
        rates=rates,
        **fields,
    )


def best_split_limit(best: Any, known: Mapping[Any, Any], machine: Machine) -> tuple[str, ...]:
    """Say that the best X of N chips is below 1 or above N, or that their Y is more chips than the inner link joins.

    >>> from roofline.hardware import chip
    >>> from roofline.sizes import symbol
    >>> B, N = symbol("B"), symbol("N")
    >>> for batch in (1, 400, 4000):
    ...     print(best_split_limit(N * B / 4000, {B: batch, N: 256}, chip("h100")))
    ('the best X is below 1: X = 1, all 256 chips along Y',)
    ('the best Y is 10, and nvlink joins 8 chips: take Y = 8 at the most',)
    ()
    """
    import sympy

    n = symbol("N")
    chips, x, y = known.get(n), value_of(best, known), value_of(sympy.simplify(n / best), known)
    if isinstance(chips, int) and x is not None and not is_array(x):
        if x < 1:
            return (f"the best X is below 1: X = 1, all {chips:,} chips along Y",)
        if x > chips:
            return (f"the best X is more than {chips:,} chips: X = {chips:,}, all of them along X",)
    found = inner_link_limit("Y", y, machine)
    return tuple(f"the best Y is {_number(y)}, and {said}" for said in found)


#: A size at which every term that grows with it is larger than those that do not.
_LARGE = 1e30


def best_whole_split(time: Any, known: Mapping[Any, Any]) -> dict[str, int]:
    """The X and Y whose product is N at which a time is the least; empty where open sizes decide that.

    >>> import sympy
    >>> from roofline.sizes import symbol
    >>> B, D, X, N = symbol("B"), symbol("D"), symbol("X"), symbol("N")
    >>> best_whole_split(B * (X + 100 / X), {N: 64}), best_whole_split(B * X + D / X, {N: 64})
    ({'X': 8, 'Y': 8}, {})
    >>> best_whole_split(sympy.Max(B / X, 1e6 * X), {N: 64})  # small at any X beside the other, until it is large
    {}
    """
    x, choices = symbol("X"), _whole_ways(known)
    if not choices:
        return {}
    plain = put_numbers(time, known)
    openly = free_symbols(plain) - {x}
    ends = [plain.subs(x, at) for at in (choices[0], choices[-1])]
    for size in openly:
        others = dict.fromkeys(openly - {size}, 1)
        low, high = (float(end.subs({**others, size: _LARGE}) / end.subs({**others, size: 1})) for end in ends)
        if abs(low / high - 1) > 1e-9:
            return {}
    plain = plain.subs(dict.fromkeys(openly, 1))
    best = min(choices, key=lambda ways: float(plain.subs(x, ways)))
    return {"X": best, "Y": choices[-1] // best}


def least_whole_split(waits: Iterable[Any], known: Mapping[Any, Any]) -> dict[str, float]:
    """The whole X and Y of N chips that scale from the fewest tokens B, and these; empty where none does, or is known.

    ``waits`` are the times of communication less that of arithmetic, each linear in B.

    >>> from roofline.sizes import symbol
    >>> B, X, N = symbol("B"), symbol("X"), symbol("N")
    >>> least_whole_split([3 * X - B, B * 8 / X - B], {N: 16})  # X of 8 or more for Y, and B of 3 X for X
    {'X': 8, 'Y': 2, 'B': 24.0}
    >>> least_whole_split([B + X], {N: 16})
    {}
    """
    x, tokens, choices = symbol("X"), symbol("B"), _whole_ways(known)
    if not choices:
        return {}
    rates = {name: value for name, value in known.items() if name != tokens}
    plain = [put_numbers(wait, rates) for wait in waits]
    for size in set().union(*map(free_symbols, plain)) - {x, tokens}:
        if len({_growth(wait, size, at) for wait in plain for at in ({x: 1, tokens: 1}, {x: 2, tokens: _LARGE})}) > 1:
            return {}
    plain = [wait.subs(dict.fromkeys(free_symbols(wait) - {x, tokens}, 1)) for wait in plain]

    def needed(ways: int) -> float:
        fixed, grows = ([float(wait.subs({x: ways, tokens: count})) for wait in plain] for count in (0, 1))
        pairs = [(start, start - one) for start, one in zip(fixed, grows, strict=True)]  # beyond B = start / falls
        return max(start / falls if falls > 0 else math.inf if start > 0 or falls < 0 else 0 for start, falls in pairs)

    best = min(choices, key=needed)
    least = needed(best)
    return {"X": best, "Y": choices[-1] // best, "B": max(0.0, least)} if math.isfinite(least) else {}


def _whole_ways(known: Mapping[Any, Any]) -> list[int]:
    """The divisors of N chips, 1 first and N last; none where their number is open, or a size is an array."""
    chips = known.get(symbol("N"))
    if not isinstance(chips, int) or any(is_array(size) for size in known.values()):
        return []
    return [ways for ways in range(1, chips + 1) if chips % ways == 0]


def _growth(amount: Any, size: Any, at: Mapping[Any, Any]) -> float:
    """How many times as much there is of twice a size, to nine digits; every other size is 1 where ``at`` has none."""
    others = {**dict.fromkeys(free_symbols(amount) - {size}, 1), **at}
    return round(float(amount.subs({**others, size: 2}) / amount.subs({**others, size: 1})), 9)


def chips_inside(machine: Machine, network: str | None) -> int:
    """Chips of one unit that ``network`` joins: those of a node where it is the link between nodes, else 1.

    >>> from roofline.hardware import chip
    >>> [chips_inside(chip("dgx-h100"), name) for name in ("ib", "nvlink", None)]
    [8, 1, 1]
    """
    links = links_inside_out(machine)
    inside = next((inner for inner, link in pairwise(links) if link.name == network), None)
    return (domain_of(inside) or 1) if inside is not None else 1


def inner_link_limit(axis: str, chips: Any, machine: Machine, unit: int = 1) -> tuple[str, ...]:
    """Say how many chips an axis can have of those that scale: those that the inner link joins, or whole units.

    Says nothing of a torus and of arrays.

    >>> from roofline.hardware import chip
    >>> inner_link_limit("Y", 13.04, chip("h100"))
    ('nvlink joins 8 chips: take Y = 8 at the most',)
    >>> inner_link_limit("Y", 13.04, chip("gb200")), inner_link_limit("Y", 99, chip("v5e"))
    ((), ())
    >>> inner_link_limit("Y", 19.3, chip("dgx-h100"), 8)
    ('whole units of 8 chips: take Y = 16 at the most',)
    """
    inner = links_inside_out(machine)[0]
    most = domain_of(inner)
    if chips is None or is_array(chips) or inner.topology in TORUS_DIMENSIONS or most is None or chips <= most:
        return ()
    if unit > 1:
        return (f"whole units of {unit} chips: take {axis} = {int(chips // unit * unit)} at the most",)
    return (f"{inner.name} joins {most} chips: take {axis} = {most} at the most",)


def value_of(form: Any, known: Mapping[Any, Any]) -> Size | None:
    """Put numbers into a form; sizes may be arrays. None where something is open, or where it is not positive.

    >>> import numpy as np
    >>> from roofline.sizes import symbol
    >>> F, Y = symbol("F"), symbol("Y")
    >>> value_of(F / Y, {F: 12, Y: 4}), value_of(F / Y, {F: 12}), value_of(F / Y, {F: np.array([12, 8]), Y: 4}).tolist()
    (3.0, None, [3.0, 2.0])
    """
    known = {each: size for each, size in known.items() if each in free_symbols(form)}
    arrays = sorted((each for each, size in known.items() if is_array(size)), key=str)
    if not arrays:
        return positive_number(put_numbers(form, known))
    import sympy

    rest = put_numbers(form, {each: size for each, size in known.items() if not is_array(size)})
    if free_symbols(rest) - set(arrays):
        return None
    return sympy.lambdify(arrays, rest, "numpy")(*(known[each] for each in arrays))


def _for_large_sizes(form: Any) -> Any:
    """The leading term of a form as all its sizes grow together: (n − 1)/n becomes 1.

    >>> from sympy import Symbol
    >>> from roofline.sizes import symbol
    >>> F, W, P = symbol("F"), Symbol("W"), Symbol("P")
    >>> _for_large_sizes((4 * F * W + P) / P)
    4*F*W/P
    """
    import sympy

    t = sympy.Symbol("t", positive=True)
    sizes = [s for s in form.free_symbols if s.is_integer]
    if not sizes:
        return form
    grown = sympy.cancel(form.subs({size: size * t for size in sizes}))
    degree = sympy.degree(sympy.numer(grown), t) - sympy.degree(sympy.denom(grown), t)
    return sympy.factor(sympy.limit(sympy.cancel(grown / t**degree), t, sympy.oo))


def _number(value: Any) -> str:
    if is_array(value):
        return f"{format_number(float(value.min()), 4)} … {format_number(float(value.max()), 4)}"
    return format_number(value, 4)
