"""Elasticities ∂ln t/∂ln x of a closed form at a point, term by term: the terms are differentiated, not the maximum.

A maximum has the derivative of its largest term. Where several are equally large, it has another one on each side: the
larger of theirs above, the smaller below. Between its steps a ceiling does not change; where these are less than a
thousandth of it, as those of whole bytes are, it changes as what stands under it.

>>> import sympy
>>> from roofline.sizes import symbol
>>> B, W, P = symbol("B"), sympy.Symbol("W", positive=True), sympy.Symbol("P", positive=True)
>>> found = elasticities(sympy.Max((B + 1) / W, B**2 / P), {B: 3, W: 4.0, P: 9.0})
>>> {str(x): (each.at, each.below, each.above) for x, each in found.items()}
{'B': (0.75, 0.75, 2.0), 'W': (-1.0, -1.0, 0.0), 'P': (0.0, -1.0, 0.0)}
>>> [round(elasticities(sympy.ceiling(B / 2) * B, {B: n})[B].at, 2) for n in (3, 4001)]
[1.0, 2.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from roofline.frozen import NamedTuple
from roofline.lazy import np, sympy

#: Times that differ by less than this share are equally long.
EQUAL = 1e-12

#: A ceiling of at least so many is no stair: one step less or more is a thousandth of it.
MANY_STEPS = 1000


class Elasticity(NamedTuple):
    """∂ln t/∂ln x: of the terms that are taken, and on each side of the point, where they differ at a tie."""

    at: float
    below: float
    above: float

    @property
    def tied(self) -> bool:
        """Whether it is another one on each side."""
        return abs(self.above - self.below) > 1e-9


def elasticities(
    form: Any, point: Mapping[Any, float], definitions: Mapping[Any, Any] | None = None
) -> dict[Any, Elasticity]:
    """Differentiate a closed form by the logarithm of each of its symbols at a point.

    Directions are three for each symbol: by the terms taken, upwards, and downwards. A value and its derivatives in
    all directions go through the form together. ``definitions`` say what other symbols in it stand for.
    """
    names = list(point)
    starts: dict[Any, tuple[float, Any]] = {}
    for index, name in enumerate(names):
        slope = np.zeros(3 * len(names))
        slope[index :: len(names)] = np.array([1.0, 1.0, -1.0]) * float(point[name])
        starts[name] = (float(point[name]), slope)
    value, slopes = _Walk(starts, len(names), definitions or {}).of(form)
    if value == 0:
        return {name: Elasticity(0.0, 0.0, 0.0) for name in names}
    at, above, below = (slopes / value).reshape(3, -1).tolist()
    return {name: Elasticity(at[i] + 0.0, 0.0 - below[i], above[i] + 0.0) for i, name in enumerate(names)}


def values_at(
    forms: Mapping[str, Any], point: Mapping[Any, float], definitions: Mapping[Any, Any] | None = None
) -> dict[str, float]:
    """The values of several closed forms at a point, each part of them worked out once.

    >>> from roofline.sizes import symbol
    >>> B = symbol("B")
    >>> values_at({"twice": 2 * B, "square": B**2 + 1}, {B: 3})
    {'twice': 6.0, 'square': 10.0}
    """
    nothing = np.zeros(0)
    walk = _Walk({name: (float(value), nothing) for name, value in point.items()}, 0, definitions or {})

    def value(form: Any) -> float:
        try:
            return walk.of(form)[0]
        except ZeroDivisionError:
            return math.nan

    return {name: value(form) for name, form in forms.items()}


def stepped(
    form: Any, point: Mapping[Any, float] | None = None, definitions: Mapping[Any, Any] | None = None
) -> set[Any]:
    """The symbols in which a closed form has steps; at a point those whose steps are wide.

    >>> import sympy
    >>> from roofline.sizes import symbol
    >>> form = sympy.ceiling(symbol("B") / 2)
    >>> stepped(form), stepped(form, {symbol("B"): 3}), stepped(form, {symbol("B"): 4001})
    ({B}, {B}, set())
    """
    conditions = {case.cond for part in form.atoms(sympy.Piecewise) for case in part.args}
    stairs = form.atoms(sympy.ceiling, sympy.floor)
    if point is not None:
        counts = values_at({str(part): part for part in stairs}, point, definitions)
        stairs = {part for part in stairs if not counts[str(part)] >= MANY_STEPS}
    return {symbol for part in stairs | conditions for symbol in part.free_symbols}


class _Walk:
    """One pass through a form: each part once."""

    def __init__(self, starts: Mapping[Any, tuple[float, Any]], count: int, definitions: Mapping[Any, Any]) -> None:
        self.known: dict[Any, tuple[float, Any]] = dict(starts)
        self.count, self.zero, self.definitions = count, np.zeros(3 * count), definitions

    def of(self, form: Any) -> tuple[float, Any]:
        """The value of a form, and its derivatives."""
        if form not in self.known:
            kind = type(form).__name__
            if form.is_number:
                self.known[form] = (float(form), self.zero)
            elif form in self.definitions:
                self.known[form] = self.of(self.definitions[form])
            else:
                self.known[form] = _RULES[kind](self, form)
        return self.known[form]

    def sum(self, form: Any) -> tuple[float, Any]:
        """Σ aᵢ."""
        parts = [self.of(part) for part in form.args]
        return math.fsum(value for value, _ in parts), sum((slope for _, slope in parts), self.zero)

    def product(self, form: Any) -> tuple[float, Any]:
        """Π aᵢ, whose derivative is Σ aᵢ′ · Π of the others."""
        value, slope = 1.0, self.zero
        for part in form.args:
            other, by = self.of(part)
            value, slope = value * other, slope * other + by * value
        return value, slope

    def power(self, form: Any) -> tuple[float, Any]:
        """aᵇ, whose derivative is aᵇ · (b′ ln a + b a′/a)."""
        (base, base_slope), (exponent, exponent_slope) = map(self.of, form.as_base_exp())
        value = base**exponent
        logarithm = math.log(base) if base > 0 else 0.0
        inner = exponent * base_slope / base if base else self.zero
        return value, value * (exponent_slope * logarithm + inner)

    def logarithm(self, form: Any) -> tuple[float, Any]:
        """ln a, whose derivative is a′/a."""
        value, slope = self.of(form.args[0])
        return math.log(value), slope / value

    def extreme(self, form: Any) -> tuple[float, Any]:
        """The largest or smallest: of several the first, and on each side the one that grows most, or least."""
        sign = 1.0 if isinstance(form, sympy.Max) else -1.0
        # sympy keeps them in no order, which matters to slopes alone
        parts = [self.of(part) for part in (sorted(form.args, key=str) if self.count else form.args)]
        value = sign * max(sign * value for value, _ in parts)
        tied = [slope for each, slope in parts if abs(each - value) <= EQUAL * abs(value)]
        slope = sign * np.max([sign * each for each in tied], axis=0)
        slope[: self.count] = tied[0][: self.count]
        return value, slope

    def step(self, form: Any) -> tuple[float, Any]:
        """A ceiling or floor, which does not change between its steps unless there are :data:`MANY_STEPS`."""
        value, slope = self.of(form.args[0])
        nearest = round(value)
        exact = abs(value - nearest) <= EQUAL * max(abs(value), 1.0)
        up = type(form).__name__ == "ceiling"
        return float(nearest if exact else math.ceil(value) if up else math.floor(value)), (
            slope if value >= MANY_STEPS else self.zero
        )

    def cases(self, form: Any) -> tuple[float, Any]:
        """The case that holds."""
        inside = {symbol for case in form.args for symbol in case.cond.free_symbols}
        values = {symbol: self.of(symbol)[0] for symbol in inside}
        chosen = next(case.expr for case in form.args if bool(case.cond.subs(values)))
        return self.of(chosen)

    def remainder(self, form: Any) -> tuple[float, Any]:
        """a mod b for a whole b, which grows with a between its steps."""
        (value, slope), (by, _) = self.of(form.args[0]), self.of(form.args[1])
        return value % by, slope


_RULES: dict[str, Callable[[_Walk, Any], tuple[float, Any]]] = {
    "Add": _Walk.sum, "Mul": _Walk.product, "Pow": _Walk.power, "log": _Walk.logarithm, "Max": _Walk.extreme,
    "Min": _Walk.extreme, "ceiling": _Walk.step, "floor": _Walk.step, "Piecewise": _Walk.cases, "Mod": _Walk.remainder,
}  # fmt: skip
