"""Top-k routing: rows that go to several receivers each, and how many units of chips they have to reach.

A token of a mixture of experts goes to the chips of its experts. A chip that has several of them gets it once; a node
can get it once and pass it on inside:

>>> routing = TopKRouting(256, 8)
>>> [round(routing.expected_units(units), 3) for units in (256, 64, 8, 1)]           # experts, chips, nodes, all
[8.0, 7.676, 5.295, 1.0]

Routing may be limited to the experts of some groups, which lie together (DeepSeek-V3: 4 of 8):

>>> limited = TopKRouting(256, 8, taken=4, groups=8)
>>> [round(limited.expected_units(units), 3) for units in (256, 64, 8)]
[8.0, 7.359, 3.629]

On a torus, a link that leads to several receivers of a row carries the row once (:func:`multicast_link_load`).

Sources: "How To Scale Your Model", chapter 12 (the share of chips that are hit at least once); DeepSeek-V3,
arXiv:2412.19437, sections 2.1.2 and 3.2.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import comb, inf, isfinite, log
from typing import Any, TypeAlias

from roofline.errors import SizeError
from roofline.frozen import dataclass, replace
from roofline.lazy import np
from roofline.sizes import Size


@dataclass(frozen=True, slots=True)
class TopKRouting:
    """Each row goes to ``chosen`` of ``count`` receivers, all equally likely; receivers lie on the chips in order.

    Receivers are in ``groups`` that lie together, and those of one row are in ``taken`` of them. ``skew`` gives each
    receiver's share of the rows: a row never goes twice to the same one, and the busiest unit sets the time. ``copies``
    neighbouring chips have each row before it is sent. A unit is one of equal parts of the chips: a chip, a node, all.
    ``even`` says that chips may hold copies of receivers, which share rows so that units get as many without a skew.

    >>> skewed = TopKRouting(8, 2, skew=(3, 3, 1, 1, 1, 1, 1, 1))
    >>> round(skewed.expected_units(4), 2), round(skewed.expected_units(4, busiest=True), 2)    # 4 times the first's
    (1.79, 3.33)
    >>> TopKRouting(8, 9)
    Traceback (most recent call last):
    roofline.errors.SizeError: a row goes to 9 of 8 receivers; from 1 to 8
    """

    count: int
    chosen: int
    taken: int = 1
    groups: int = 1
    skew: tuple[float, ...] = ()
    copies: int = 1
    even: bool = False

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

    def to_dict(self) -> dict[str, int]:
        """How many receivers there are, and to how many each row goes."""
        return {"count": self.count, "chosen": self.chosen}

    @lru_cache(maxsize=2**12)  # noqa: B019 - a routing is a few numbers
    def expected_units(self, units: int, *, busiest: bool = False) -> float:
        """Expected number of units that a row goes to; ``busiest``: as if every unit were hit as the busiest is."""
        parts = [range(self.count * unit // units, self.count * (unit + 1) // units) for unit in range(units)]
        if self.skew:
            hits = [self.hit_probability(part) for part in parts]
            return units * max(hits) if busiest else sum(hits)
        alike = Counter(map(self._by_group, parts))
        if busiest and self.count < units and not self.even:  # some units have a receiver and the others none
            return units * max(map(self.uniform_hit_probability, alike))
        return sum(times * self.uniform_hit_probability(own) for own, times in alike.items())

    def sent_share(self, units: int) -> float:
        """Share of all (row, receiver) pairs that is sent where each unit gets a row once."""
        return self.expected_units(units, busiest=True) / self.chosen

    def crossing_share(self, units: int, chips: int) -> float:
        """Share of all (row, receiver) pairs that is sent to units without a copy of the row."""
        having = max(-(-self.copies * units // chips), 1)
        return self.sent_share(units) * (units - having) / units

    def hit_probability(self, receivers: Sequence[int]) -> float:
        """Probability that a row goes to at least one of these receivers."""
        uniform = self.uniform_hit_probability(self._by_group(receivers))
        if not self.skew:
            return uniform
        missed, left = 1.0, 1.0
        for share in sorted((self.skew[one] / sum(self.skew) for one in receivers), reverse=True):
            missed *= 1 - self.chosen * share / left if self.chosen * share < left else 0.0
            left -= share
        ungrouped = _miss_probability(self.count, self.chosen, 1, 1, (len(receivers),))
        # limiting a row to some groups changes a skewed set as it changes one without skew
        if 0 < uniform < 1 and 0 < ungrouped < 1:
            return skewed_hit_probability(uniform, log_probability(missed), log(ungrouped))
        return 1 - missed

    def uniform_hit_probability(self, own: Sequence[int]) -> float:
        """Probability, without skew, that a row goes to a set that has so many receivers of each group."""
        sizes = tuple(sorted(filter(None, own)))
        return 1 - _miss_probability(self.count, self.chosen, self.taken, self.groups, sizes)

    def _by_group(self, receivers: Sequence[int]) -> tuple[int, ...]:
        """Number of these receivers in each group."""
        size = self.count // self.groups
        return tuple(sorted(Counter(receiver // size for receiver in receivers).values()))


#: The share of an AllToAll that is sent: one number, or the routing of rows that go to several chips each.
Density: TypeAlias = Size | TopKRouting


def skewed_hit_probability(uniform: float, log_miss_skewed: float, log_miss_uniform: float) -> float:
    """Probability that a row reaches a set, with routing skew.

    Scales the log-probability of missing it: ``log miss = log(1 − uniform) · (log_miss_skewed / log_miss_uniform)``.
    The two on the right are those of the same set without groups, with and without skew.

    >>> skewed_hit_probability(0.75, log(0.5), log(0.25)), skewed_hit_probability(0.75, -inf, log(0.25))
    (0.5, 1.0)
    """
    return 1.0 - float((1 - uniform) ** (log_miss_skewed / log_miss_uniform))


def log_probability(chance: float) -> float:
    """Logarithm of a probability; −∞ for 0."""
    return log(chance) if chance > 0 else -inf


@lru_cache(maxsize=2**16)
def _miss_probability(count: int, chosen: int, taken: int, groups: int, own: tuple[int, ...]) -> float:
    """Probability that a row misses a set that has ``own`` receivers of its groups: the ways to choose, counted."""
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


def multicast_link_load(routing: TopKRouting, shape: Sequence[int], ways: Mapping[int, str]) -> dict[int, float]:
    """Rows over the busiest link of each axis of a torus, one way, for each row that a chip sends.

    ``shape`` are the axes from the outside in; ``ways`` has those of a torus: ``ring``, ``line`` or ``one-way``. Rows
    go along one axis after the other, each way as far as the farthest receiver that is nearer that way. Parts of the
    data take the axes in different orders. Sums come back the same way. Chips that have a copy of the row all along
    the innermost axes send it on from there, unless that loads the links more than sending it from one of them.

    With every chip among a row's receivers it is an AllGather:

    >>> multicast_link_load(TopKRouting(16, 16), [16], {0: "ring"})
    {0: 7.5}
    >>> multicast_link_load(TopKRouting(16, 16), [4, 4], {0: "ring", 1: "ring"})
    {0: 3.75, 1: 3.75}
    >>> {axis: round(rows, 2) for axis, rows in multicast_link_load(TopKRouting(256, 8), [16], {0: "ring"}).items()}
    {0: 6.21}
    """
    asked = tuple(shape), tuple(sorted(ways.items()))
    plain = _link_load(replace(routing, copies=1), *asked)
    copied = _link_load(routing, *asked) if routing.copies > 1 else plain
    return min(plain, copied, key=lambda rows: max(rows.values(), default=0.0))


@lru_cache(maxsize=256)
def _link_load(routing: TopKRouting, shape: tuple[int, ...], ways: tuple[tuple[int, str], ...]) -> dict[int, float]:
    copied = _axes_with_copies(shape, routing.copies)
    moving = [axis for axis, _ in ways if axis not in copied and shape[axis] > 1]
    first = [axis for axis in range(len(shape)) if axis not in moving]
    orders = [moving[start:] + moving[:start] for start in range(len(moving))]
    receivers, found = _receivers_by_chip(routing, shape), dict.fromkeys((axis for axis, _ in ways), 0.0)
    for axis in moving:
        before = [[*first, *order[: order.index(axis)]] for order in orders]
        rows = [_rows_over_links(routing, receivers, done, axis, dict(ways)[axis]) for done in before]
        found[axis] = float(sum(rows[1:], rows[0]).max()) / len(orders)
    return found


def _axes_with_copies(shape: Sequence[int], copies: int) -> set[int]:
    """The innermost axes along which every chip has the row."""
    found, left = set[int](), copies
    for axis in reversed(range(len(shape))):
        if left == 1 or left % shape[axis]:
            break
        left //= shape[axis]
        found.add(axis)
    return found


def _receivers_by_chip(routing: TopKRouting, shape: Sequence[int]) -> Any:
    """For each chip the number of its receivers in each group.

    With skew, also the log-probability that a row misses the chip, then that without skew.
    """
    chips, size = int(np.prod(shape)), routing.count // routing.groups
    found = np.zeros((chips, routing.groups + 2 * bool(routing.skew)))
    for chip in range(chips):
        own = range(routing.count * chip // chips, routing.count * (chip + 1) // chips)
        for receiver in own:
            found[chip, receiver // size] += 1
        if routing.skew:
            uniform = routing.uniform_hit_probability([int(many) for many in found[chip, : routing.groups]])
            missed = log_probability(1 - routing.hit_probability(own)), log_probability(1 - uniform)
            found[chip, routing.groups :] = missed
    return found.reshape(*shape, -1)


def _rows_over_links(routing: TopKRouting, receivers: Any, done: Sequence[int], axis: int, way: str) -> Any:
    """Rows over every link of one axis, each way.

    Along the axes that are ``done`` a row is at the place of its receivers, along the others at that of its sender.
    """
    rest = tuple(other for other in range(receivers.ndim - 1) if other not in done and other != axis)
    along = np.moveaxis(receivers.sum(axis=rest, keepdims=True), axis, -2)
    n, senders = receivers.shape[axis], float(np.prod([receivers.shape[other] for other in done]))
    if way == "line":
        # all places up to a link send over it to all places behind it, and the other way round
        left, right = np.cumsum(along, axis=-2), np.cumsum(along[..., ::-1, :], axis=-2)
        share = np.arange(n - 1, 0, -1)
        links = np.stack([share * _hit_probabilities(routing, part[..., :-1, :]) for part in (left, right)])
    else:
        # the chip opposite gets half of its rows either way
        reach = [n - 1] if way == "one-way" else [(n - 1) // 2, n // 2]
        ahead = sum(_rows_round_a_ring(routing, along, length) for length in reach) / len(reach)
        behind = sum(_rows_round_a_ring(routing, along[..., ::-1, :], length) for length in reach) / len(reach)
        links = np.stack([ahead] if way == "one-way" else [ahead, behind])
    return np.moveaxis(links, -1, axis + 1) * senders


def _rows_round_a_ring(routing: TopKRouting, along: Any, reach: int) -> Any:
    """Rows over the link before each place of a ring, of rows that go at most ``reach`` places from their sender."""
    total, arc = np.zeros(along.shape[:-1]), np.zeros(along.shape)
    for distance in range(reach):
        arc = arc + np.roll(along, -distance, axis=-2)
        total = total + _hit_probabilities(routing, arc)
    return total


def _hit_probabilities(routing: TopKRouting, sets: Any) -> Any:
    """Probability that a row goes to at least one receiver of each set of chips."""
    each, where = np.unique(sets.reshape(-1, sets.shape[-1]), axis=0, return_inverse=True)
    found = [routing.uniform_hit_probability([int(many) for many in one[: routing.groups]]) for one in each]
    if routing.skew:
        logarithms = each[:, routing.groups :].tolist()
        pairs = zip(found, logarithms, strict=True)
        found = [skewed_hit_probability(hit, *two) if 0 < hit < 1 else hit for hit, two in pairs]
    return np.array(found)[where].reshape(sets.shape[:-1])
