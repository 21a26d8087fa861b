"""Rows that go to several receivers each, and how many units of chips they have to reach.

A token of a mixture of experts goes to the chips of its experts. Where some of them lie on one chip, it is sent there
once; where some lie in one node, it can go there once and be passed on inside:

>>> picks = Picks(256, 8)
>>> [round(picks.reached(units), 3) for units in (256, 64, 8, 1)]           # experts, chips, nodes, all
[8.0, 7.676, 5.295, 1.0]

Routing may be limited to the experts of some groups, which lie together (DeepSeek-V3: 4 of 8):

>>> limited = Picks(256, 8, taken=4, groups=8)
>>> [round(limited.reached(units), 3) for units in (256, 64, 8)]
[8.0, 7.359, 3.629]

Sources: "How To Scale Your Model", chapter 12 (the share of chips that are hit at least once); DeepSeek-V3,
arXiv:2412.19437, sections 2.1.2 and 3.2.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import TypeAlias

from roofline.sizes import Size


@dataclass(frozen=True, slots=True)
class Picks:
    """Each row goes to ``chosen`` of ``count`` receivers, which lie on the chips in order, as likely to any.

    A row's receivers are of ``taken`` of ``groups``, whose receivers lie together. A unit that has several of a row's
    receivers gets it ``once``, or else for each. ``skew`` are shares of the picks that each receiver gets; figures are
    then those of the busiest unit. Units are equal parts of the chips, from all of them to one.
    """

    count: int
    chosen: int
    taken: int = 1
    groups: int = 1
    once: bool = True
    skew: tuple[float, ...] = ()

    def reached(self, units: int) -> float:
        """Count the units that a row has to reach, or the rows that it makes where it is not sent once."""
        busiest = self._busiest(units)
        if not self.once:
            return self.chosen * busiest
        found = _reached(self.count, self.chosen, self.taken, self.groups, units)
        # as (1 - p) to the power of n picks is what n independent ones miss
        return float(found) if busiest == 1 else units * (1 - (1 - float(found) / units) ** busiest)

    def density(self, units: int) -> float:
        """Say which part of all picks is sent, where each unit gets a row once."""
        return self.reached(units) / self.chosen

    def crossing(self, units: int) -> float:
        """Say which part of all picks is sent to other units than the row's own."""
        return self.density(units) * (units - 1) / units

    def _busiest(self, units: int) -> float:
        """How many times as many picks as others have those of the busiest unit."""
        if not self.skew:
            return 1
        return (
            units * max(sum(self.skew[part.start : part.stop]) for part in _parts(self.count, units)) / sum(self.skew)
        )


#: The share of an AllToAll that is sent: one number, or that of rows that go to several chips each.
Density: TypeAlias = Size | Picks


def _parts(count: int, units: int) -> Sequence[range]:
    return [range(count * unit // units, count * (unit + 1) // units) for unit in range(units)]


@lru_cache(maxsize=4096)
def _reached(count: int, chosen: int, taken: int, groups: int, units: int) -> Fraction:
    """Count every way to take groups and receivers of them: a unit is missed by those that have none of its own."""
    size, pool = count // groups, count * taken // groups
    every = comb(groups, taken) * comb(pool, chosen)
    alike = Counter(tuple(sorted(_overlaps(part, size))) for part in _parts(count, units))
    missed = sum(times * _missing(own, chosen, taken, groups, pool) for own, times in alike.items())
    return units - Fraction(missed, every)


def _overlaps(part: range, size: int) -> Iterable[int]:
    """How many receivers of each group it meets lie in a unit."""
    return Counter(receiver // size for receiver in part).values()


def _missing(own: Sequence[int], chosen: int, taken: int, groups: int, pool: int) -> int:
    """Count the ways that miss a unit which has ``own`` receivers of some groups."""
    ways = Counter({(0, 0): 1})
    for inside in own:
        for (met, receivers), many in tuple(ways.items()):
            ways[met + 1, receivers + inside] += many
    return sum(
        many * comb(groups - len(own), taken - met) * comb(pool - receivers, chosen)
        for (met, receivers), many in ways.items()
        if met <= taken
    )


__all__ = ["Density", "Picks"]
