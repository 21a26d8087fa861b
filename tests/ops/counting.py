"""A number that counts the arithmetic done with it: brute force for the cost formulas."""

from __future__ import annotations

import math
from collections.abc import Callable


class Tally:
    """How many plain operations and transcendentals were done."""

    def __init__(self) -> None:
        self.arithmetic = 0
        self.transcendentals = 0

    @property
    def flops(self) -> int:
        return self.arithmetic + self.transcendentals

    def number(self, value: float) -> Counted:
        return Counted(value, self)


class Counted:
    """A float whose every operation goes into a tally."""

    def __init__(self, value: float, tally: Tally) -> None:
        self.value, self.tally = value, tally

    def _plain(self, value: float) -> Counted:
        self.tally.arithmetic += 1
        return Counted(value, self.tally)

    def special(self, function: Callable[[float], float]) -> Counted:
        self.tally.transcendentals += 1
        return Counted(function(self.value), self.tally)

    def __add__(self, other: Counted | float) -> Counted:
        return self._plain(self.value + _value(other))

    def __sub__(self, other: Counted | float) -> Counted:
        return self._plain(self.value - _value(other))

    def __mul__(self, other: Counted | float) -> Counted:
        return self._plain(self.value * _value(other))

    def __truediv__(self, other: Counted | float) -> Counted:
        return self._plain(self.value / _value(other))

    def __neg__(self) -> Counted:
        return self._plain(-self.value)

    def reciprocal(self) -> Counted:
        return self._plain(1 / self.value)

    def largest(self, other: Counted | float) -> Counted:
        return self._plain(max(self.value, _value(other)))

    def smallest(self, other: Counted | float) -> Counted:
        return self._plain(min(self.value, _value(other)))

    def select(self, other: Counted | float, take: bool) -> Counted:
        return self._plain(self.value if take else _value(other))

    def exp(self) -> Counted:
        return self.special(math.exp)

    def log(self) -> Counted:
        return self.special(math.log)

    def tanh(self) -> Counted:
        return self.special(math.tanh)

    def erf(self) -> Counted:
        return self.special(math.erf)

    def sqrt(self) -> Counted:
        return self.special(math.sqrt)


def _value(x: Counted | float) -> float:
    return x.value if isinstance(x, Counted) else x


def total(values: list[Counted]) -> Counted:
    """Add up from the first element: n − 1 adds."""
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


def largest(values: list[Counted]) -> Counted:
    """The largest by n − 1 comparisons."""
    result = values[0]
    for value in values[1:]:
        result = result.largest(value)
    return result
