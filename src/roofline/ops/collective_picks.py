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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, inf, isfinite, log
from typing import TypeAlias

from roofline.errors import SizeError
from roofline.sizes import Size


@dataclass(frozen=True, slots=True)
class Picks:
    """Each row goes to ``chosen`` of ``count`` receivers, which lie on the chips in order, as likely to any.

    A row's receivers are of ``taken`` of ``groups``, whose receivers lie together. ``skew`` are shares of the picks
    that each receiver gets: none gets a row twice, and the busiest unit sets the time. ``copies`` chips that lie
    together have each row before it is sent. Units are equal parts of the chips, from all of them to one.

    >>> skewed = Picks(8, 2, skew=(3, 3, 1, 1, 1, 1, 1, 1))
    >>> round(skewed.reached(4), 2), round(skewed.reached(4, busiest=True), 2)      # the latter: 4 times the first's
    (1.79, 3.33)
    >>> Picks(8, 9)
    Traceback (most recent call last):
    roofline.errors.SizeError: a row goes to 9 of 8 receivers; from 1 to 8
    """

    count: int
    chosen: int
    taken: int = 1
    groups: int = 1
    skew: tuple[float, ...] = ()
    copies: int = 1

    def __post_init__(self) -> None:
        row, pool = f"a row goes to {self.chosen} of {self.count} receivers", self.count * self.taken // self.groups
        if not 1 <= self.chosen <= self.count:
            raise SizeError(row, hint=f"from 1 to {self.count}")
        if self.count % self.groups or not 1 <= self.taken <= self.groups or pool < self.chosen:
            hint = f"groups divide {self.count}, and those taken have {self.chosen} receivers at least"
            raise SizeError(f"{row} in {self.taken} of {self.groups} groups", hint=hint)
        if self.skew and len(self.skew) != self.count:
            said = f"the skew has {len(self.skew)} shares, and there are {self.count} receivers"
            raise SizeError(said, hint="one for each")
        if self.skew and not (min(self.skew) >= 0 and sum(self.skew) > 0 and isfinite(sum(self.skew))):
            raise SizeError("the shares of a skew are not negative, and some are more than 0", hint="as in 3, 1, 1, 1")

    def reached(self, units: int, *, busiest: bool = False) -> float:
        """Count the units that have some of a row's receivers; as if each had as often as the busiest, if asked."""
        parts = [range(self.count * unit // units, self.count * (unit + 1) // units) for unit in range(units)]
        if self.skew:
            hits = [self.hit(part) for part in parts]
            return units * max(hits) if busiest else sum(hits)
        alike = Counter(map(self._overlaps, parts))
        return sum(times * self.hit_evenly(own) for own, times in alike.items())

    def density(self, units: int) -> float:
        """Say which part of all picks is sent, where each unit gets a row once."""
        return self.reached(units, busiest=True) / self.chosen

    def crossing(self, units: int, chips: int) -> float:
        """Say which part of all picks is sent to units of all the chips that have no copy of the row."""
        having = max(-(-self.copies * units // chips), 1)
        return self.density(units) * (units - having) / units

    def hit(self, receivers: Sequence[int]) -> float:
        """Say how likely some of a row's receivers are among these."""
        found = self.hit_evenly(self._overlaps(receivers))
        if not self.skew:
            return found
        missed, left = 1.0, 1.0
        for share in sorted((self.skew[one] / sum(self.skew) for one in receivers), reverse=True):
            missed *= 1 - self.chosen * share / left if self.chosen * share < left else 0.0
            left -= share
        unlimited = _missed(self.count, self.chosen, 1, 1, (len(receivers),))
        # groups make as much of a difference as they do where none is likelier than another
        return skewed(found, logarithm(missed), log(unlimited)) if 0 < found < 1 and 0 < unlimited < 1 else 1 - missed

    def hit_evenly(self, own: Sequence[int]) -> float:
        """Say how likely some of a row's receivers are among so many of each group, whatever the skew."""
        return 1 - _missed(self.count, self.chosen, self.taken, self.groups, tuple(sorted(filter(None, own))))

    def _overlaps(self, receivers: Sequence[int]) -> tuple[int, ...]:
        """How many receivers of each group are among these."""
        size = self.count // self.groups
        return tuple(sorted(Counter(receiver // size for receiver in receivers).values()))


#: The share of an AllToAll that is sent: one number, or that of rows that go to several chips each.
Density: TypeAlias = Size | Picks


def skewed(hit: float, missed: float, evenly: float) -> float:
    """How likely a set is hit that is so likely where all are alike, by logarithms: it is missed as often as
    ``missed`` says where one whose receivers are alike is missed as often as ``evenly`` says.

    >>> skewed(0.75, log(0.5), log(0.25)), skewed(0.75, -inf, log(0.25))
    (0.5, 1.0)
    """
    return 1.0 - float((1 - hit) ** (missed / evenly))


def logarithm(chance: float) -> float:
    """The logarithm of a probability, which may be 0."""
    return log(chance) if chance > 0 else -inf


@lru_cache(maxsize=2**16)
def _missed(count: int, chosen: int, taken: int, groups: int, own: tuple[int, ...]) -> float:
    """How likely a row has none of the receivers of which ``own`` are of each group: every way to pick is counted."""
    pool = count * taken // groups
    ways = Counter({(0, 0): 1})
    for inside in own:
        for (met, receivers), many in tuple(ways.items()):
            ways[met + 1, receivers + inside] += many
    missing = sum(
        many * comb(groups - len(own), taken - met) * comb(pool - receivers, chosen)
        for (met, receivers), many in ways.items()
        if met <= taken
    )
    return missing / (comb(groups, taken) * comb(pool, chosen))


__all__ = ["Density", "Picks", "logarithm", "skewed"]
