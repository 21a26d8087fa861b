"""Where two times cross: the roots in symbols, which of them are real flips, and their limits for large sizes.

It scales where computing takes as long as sending, for every algorithm the collectives may go by:

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

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from roofline.bounds.bound import Bound
from roofline.bounds.question import Question
from roofline.errors import HardwareError, InputError
from roofline.frozen import dataclass
from roofline.lazy import np, sympy
from roofline.quantity import format_number
from roofline.sizes import is_symbol, longest
from roofline.work import Op

Flip = tuple[float, str, str]

#: Whole numbers that are looked at one by one: with tiles a resource may bind now and then before it binds for good.
EACH = 2**14

#: A size past every other, where a minimum or maximum has settled.
VERY_LARGE = 10**40


def roots_of(a: Any, b: Any, x: Any) -> list[Any] | None:
    """Solve a = b for x in symbols; None where the equation is no polynomial of degree one or two.

    >>> from roofline.sizes import symbol
    >>> x, n = symbol("x"), symbol("n")
    >>> roots_of(3 * x * n, n + x, x)
    [n/(3*n - 1)]
    """
    found = _roots(a, b, x)
    return None if found is None else list(found)


@lru_cache(512, typed=True)
def _roots(a: Any, b: Any, x: Any) -> tuple[Any, ...] | None:
    """The roots, once for all algorithms and plans of a question that have these times."""
    top = sympy.expand(sympy.fraction(sympy.together(a - b))[0])
    if top == 0 or x not in top.free_symbols:
        return ()
    if not top.is_polynomial(x):
        return None
    coefficients = sympy.Poly(top, x).all_coeffs()
    while coefficients and coefficients[-1] == 0:
        coefficients.pop()
    if len(coefficients) == 1:
        return ()
    if len(coefficients) == 2:
        high, low = coefficients
        return (_upright(sympy.factor(sympy.cancel(-low / high))),)
    if len(coefficients) == 3:
        high, middle, low = coefficients
        root = sympy.sqrt(middle**2 - 4 * high * low)
        return tuple((-middle + sign * root) / (2 * high) for sign in (1, -1))
    return None


def case_at(form: Any, values: Mapping[Any, float]) -> Any:
    """The case of a form that holds at values of its symbols; of a minimum or a maximum the one that it takes there.

    >>> from roofline.sizes import symbol
    >>> x, n = symbol("x"), symbol("n")
    >>> case_at(sympy.Piecewise((sympy.Max(x, 2 * n), n < 5), (n, True)), {n: 3, x: 7})
    x
    """

    def chosen(case: Any) -> Any:
        if isinstance(case, sympy.Piecewise):
            return next(value for value, holds in case.args if holds.subs(values) == True)  # noqa: E712
        pick = max if isinstance(case, sympy.Max) else min
        return pick(case.args, key=lambda each: float(each.subs(values)))

    return form.replace(lambda each: isinstance(each, sympy.Piecewise | sympy.Max | sympy.Min), chosen)


def rises(ratio: Any, x: Any) -> bool:
    """Whether a ratio of times grows with ``x``; where it does so only past some size, whether it does for large ones.

    Every symbol stands for a positive number, so a sum of terms of one sign has that sign.

    >>> from roofline.sizes import symbol
    >>> x, n = symbol("x"), symbol("n")
    >>> rises(x * n / (x + n), x), rises((x + n) / (3 * x), x), rises(x + n / x, x)
    (True, False, True)
    """
    top, bottom = sympy.fraction(sympy.together(sympy.diff(sympy.cancel(ratio), x)))
    sign = _sign_for_large(sympy.expand(top), x) * _sign_for_large(sympy.expand(bottom), x)
    return bool(sign > 0)


def _sign_for_large(form: Any, x: Any) -> int:
    """The sign of a sum: that of all its terms, else of those with the highest power of ``x``."""
    while True:
        terms = sympy.Add.make_args(form)
        signs = {1 if term.is_nonnegative else -1 if term.is_nonpositive else 0 for term in terms}
        if len(signs) == 1 or len(terms) == 1:
            return int(signs.pop())
        powers = {term: term.as_coeff_exponent(x)[1] for term in terms}
        highest = max(powers.values())
        leading = [term for term in terms if powers[term] == highest]
        if len(leading) == len(terms):
            return 0
        form = sympy.Add(*leading)


def _upright(form: Any) -> Any:
    """Write −a/(b − c) as a/(c − b), whatever order the names have.

    >>> from roofline.sizes import symbol
    >>> x, y, z = symbol("x"), symbol("y"), symbol("z")
    >>> _upright(-x * y / (z * (x - y)))
    x*y/(z*(-x + y))
    """
    top, bottom = sympy.fraction(form)
    factors = sympy.Mul.make_args(bottom)
    turned = next((factor for factor in factors if factor.is_Add), None)
    if not top.is_negative or turned is None:
        return form
    return -top / sympy.Mul(*(-factor if factor is turned else factor for factor in factors))


def flips_among(times: Mapping[str, Any], x: Any, crossings: Sequence[float]) -> list[Flip]:
    """Keep the crossings at which the largest time really changes: (value, before, after) in order."""
    ordered = sorted(set(crossings))
    edges = [0.0, *ordered, ordered[-1] * 4 + 1] if ordered else [0.0, 2.0]
    binding = [largest_at(times, x, (a + b) / 2) for a, b in pairwise(edges)]
    return [(v, a, b) for v, (a, b) in zip(ordered, pairwise(binding), strict=True) if a != b]


def largest_at(times: Mapping[str, Any], x: Any, at: float) -> str:
    """Name the largest of the times where ``x`` has this value."""
    return longest({name: float(put_numbers(time, {x: at})) for name, time in times.items()})


def every_change(bound_at: Any) -> list[Flip] | None:
    """List every change of the binding resource over the whole numbers to :data:`EACH`.

    ``bound_at`` takes an array of sizes and returns what binds there; None where it takes no array.
    """
    try:
        found = bound_at(np.arange(1, EACH + 1))
    except (InputError, HardwareError):
        return None
    if isinstance(found, str):
        return []
    places = np.flatnonzero(np.diff(found.codes)) + 1
    return [(float(i + 1), found.names[found.codes[i - 1]], found.names[found.codes[i]]) for i in places.tolist()]


def halved(at: Any, low: int, high: int) -> list[Flip]:
    """Find where the binding resource changes between two sizes at which it differs."""
    before = at(low)
    if before == at(high):
        return []
    flip = first_where(lambda size: at(size) not in (before, None), low, high)
    return [(float(flip), str(before), str(at(flip)))]


def first_where(holds: Callable[[int], bool], low: int, high: int, near: int | None = None) -> int:
    """Halve the stretch between a whole number where something does not hold and one where it does.

    ``near`` is a guess at the first where it does: it and the number before it are tried first.

    >>> first_where(lambda n: n * n >= 10**60, 0, 10**40) == 10**30
    True
    """
    tries = [] if near is None else [near, near - 1]
    while high - low > 1:
        middle = tries.pop() if tries else (low + high) // 2
        if not low < middle < high:
            continue
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def limit_of(form: Any, numbers: Mapping[Any, Any], sizes: Mapping[Any, Any] | None = None) -> tuple[Any, float | None]:
    """Let the sizes in a closed form that are open grow without bound; its limit in symbols and in numbers.

    ``sizes`` are those that are known: they stay, unless all are, and then they grow together and keep their ratios.
    None where the limit is not a positive number.

    >>> from roofline.sizes import symbol
    >>> D, F = symbol("D"), symbol("F")
    >>> limit_of(D * F / (D + F), {})[1], limit_of(D * F / (D + F), {}, {D: 128})[1]
    (None, 128.0)
    >>> limit_of(D / F, {}, {D: 32, F: 8})[1]
    4.0
    """
    known = {s: v for s, v in (sizes or {}).items() if s in free_symbols(form)}
    still_open = [s for s in free_symbols(form) if s.is_integer and s not in known]
    limit = form
    if still_open or known:
        t = sympy.Symbol("t", positive=True)
        grown = dict.fromkeys(still_open, t) | (known if still_open else {s: v * t for s, v in known.items()})
        try:
            limit = sympy.limit(sympy.cancel(_for_large(form.subs(grown), t)), t, sympy.oo)
        except (NotImplementedError, ValueError):
            return None, None
    value = positive_number(put_numbers(limit, numbers))
    return (limit, value) if value is not None else (None, None)


def _for_large(form: Any, t: Any) -> Any:
    """Put in the place of each minimum and maximum the part it is for large ``t``: limits of those are slow.

    >>> import sympy
    >>> t = sympy.Symbol("t", positive=True)
    >>> _for_large(sympy.Min(t, 512) + sympy.Max(0, t - 3), t)
    t + 509
    """

    def chosen(found: Any) -> Any:
        at = {part: part.subs(t, VERY_LARGE) for part in found.args}
        if any(value.free_symbols for value in at.values()):
            return found
        return (min if isinstance(found, sympy.Min) else max)(at, key=lambda part: at[part])

    return last_piece(form).replace(lambda part: isinstance(part, sympy.Min | sympy.Max), chosen)


def last_piece(form: Any) -> Any:
    """Take each piece for large sizes: a collective goes by one algorithm below a number of bytes, by another above.

    >>> import sympy
    >>> x = sympy.Symbol("x", positive=True)
    >>> last_piece(3 + sympy.Piecewise((2 * x, x < 8), (x, True)))
    x + 3
    """
    if not is_symbol(form) or not form.has(sympy.Piecewise):
        return form
    return form.replace(lambda part: isinstance(part, sympy.Piecewise), lambda part: part.args[-1].expr)


def validity_of(form: Any) -> Any:
    """What must hold for a closed form to be a positive size, as an inequality (or True)."""
    top, bottom = sympy.fraction(sympy.together(form))
    condition = bottom > 0 if top.is_positive else form > 0
    return True if condition == sympy.true else condition


def put_numbers(expression: Any, numbers: Mapping[Any, Any]) -> Any:
    """Substitute numbers for symbols, where there are any."""
    return expression.subs(numbers) if is_symbol(expression) else expression


def free_symbols(expression: Any) -> set[Any]:
    """Symbols that are still open."""
    return set(expression.free_symbols) if is_symbol(expression) else set()


def positive_number(value: Any) -> float | None:
    """Return a positive finite float, or None."""
    if is_symbol(value) and (value.free_symbols or not value.is_real):
        return None
    number = float(value)
    return number if 0 < number < math.inf else None


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
        numbers = {use.rate.value: use.rate.plain for use in answer.uses if use.rate.plain is not None} | {**known}
        form = busiest_crossing(answer, x, numbers)
        if form is not None:
            found.append(Crossing(name, unknown, form, positive_number(put_numbers(form, numbers))))
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
    each = ((op.options["collective"], mesh.select(op.options["axes"]), op.writes[0].dtype) for op in sent)
    return list(dict.fromkeys(name for one in each for name in algorithms(*one)))


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


def collectives_in_words(answer: Bound) -> tuple[str, ...]:
    """By which algorithm each collective goes in an answer."""
    sent = [part.op.options for part in answer.ops if part.op.kind == "collective"]
    said = (f"{op['collective']} over {', '.join(op['axes'])} by {' or '.join(op['algorithms'])}" for op in sent)
    return tuple(dict.fromkeys(said))
