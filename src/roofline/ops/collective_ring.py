"""Rings, lines and tori: data passes from neighbour to neighbour.

With V bytes over n chips, d ways round (1 or 2, and never more than n − 1: two chips have one way), and W one way over
one link::

    AllGather, ReduceScatter     V·(n − 1)/(n·d) over each link      n − 1 hops, or ⌊n/2⌋ where the ring has two ways
    AllReduce                    twice that: a ReduceScatter, then an AllGather
              chain, on a line   V, in small pieces: added up towards one end and sent back    2·(n − 1) hops
    AllToAll, one way round      V·(n − 1)/(2n)                      n − 1 hops
              shortest way       V·⌊n²/4⌋/(n²·d)                     the middle link of a line, every link of a ring
    Broadcast                    V/d, in many small pieces           n − 1 hops

One way round on a line, the message of its last chip goes back over all links: the first chip hears of the second by
way of all others, after 2n − 3 hops. Over several axes of one torus the data splits into parts that go by the axes in
different orders, so that all links are busy: V·(N − 1)/(N·Σd) over each, N the chips of all axes. An AllToAll and a
Broadcast go by one axis after the other; a Broadcast then sends V/d over each, where trees that share no link could do
with V/Σd. Over tiers, each tier moves what a member of it has to get from the others, through all chips
below it at once: direct exchange in one hop where there are switches or a link for every pair.

A Broadcast over tiers spreads the message within the first unit, sends each chip's part on, and gathers the parts in
the other units: the hops of an inner tier count twice. On switches its pieces go down two trees (``double binary
tree``), V in ⌈log₂ n⌉ hops.

Sources: "How To Scale Your Model", chapters 3 and 12; P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms
for clusters of workstations", JPDC 69, 2009; R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective
communication operations in MPICH", IJHPCA 19, 2005. ⌊n²/4⌋ is the sum of the distances from one chip of a ring to all
others, and the pairs of chips on either side of the middle of a line.
"""

from __future__ import annotations

from collections.abc import Callable

from roofline.hardware.axes import AxisSegment
from roofline.ops.collective_algorithms import GATHERING, Call, algorithm, all_close, passes, several_links, some_torus
from roofline.ops.collective_groups import Group, closed_or_open, doublings, half, present, ring_distances, used
from roofline.ops.collective_multicast import carried
from roofline.ops.collective_picks import Picks
from roofline.sizes import Size, exact_div, is_symbol, maximum, minimum
from roofline.work import Work

#: How many links of one level a chip sends on at once, and how many hops one pass takes.
Ways = Callable[[AxisSegment], Size]

_KINDS = (*GATHERING, "AllToAll", "Broadcast")


def _one(level: AxisSegment) -> Size:
    return 1


def _both(level: AxisSegment) -> Size:
    """Both ways round, wherever the network lets a chip send to two neighbours at once."""
    if level.topology == "switch":
        return 1
    return 2 if is_symbol(level.size) else maximum(1, minimum(2, level.size - 1))


def natural_ways(level: AxisSegment) -> Size:
    """All links that the network has: both ways round a ring, one way on a line, a link to every chip of a mesh."""
    if level.topology == "torus":
        return level.directions
    return maximum(1, level.size - 1) if level.topology == "mesh" else 1


def _around(level: AxisSegment) -> Size:
    return level.size - 1


def _around_and_back(level: AxisSegment) -> Size:
    """Once round; where a line has no way back from its last chip to the first, that is all links the other way."""
    n = level.size
    if level.topology != "torus":
        return n - 1
    return closed_or_open(level, n - 1, 2 * n - 3 if is_symbol(n) else n - 1 + maximum(0, n - 2))


def _halfway(level: AxisSegment) -> Size:
    return half(level.size)


def natural_hops(level: AxisSegment) -> Size:
    """Hops of one pass: half round a ring, from end to end of a line, one on a switch or a mesh."""
    if level.topology != "torus":
        return present(level.size)
    return closed_or_open(level, half(level.size), level.size - 1)


def passing(call: Call, ways: Ways, hops: Ways, *, one_way: bool = False) -> Work:
    """Count a collective in which data passes from neighbour to neighbour in ``ways`` at once."""
    if call.kind == "AllToAll":
        return _shuffled(call, ways, hops, one_way) + exchange(call)
    if call.kind == "Broadcast":
        return _broadcast(call, ways, hops)
    work = Work()
    for group in call.groups:
        lanes = used([ways(level) * present(level.size) for level in group.levels])
        share = exact_div(call.nbytes * (group.units - 1) * passes(call), group.units * group.below * lanes)
        for level in group.levels:
            work += Work.wire(level.place, share * present(level.size))
            work += Work.hops(level.place, hops(level) * passes(call))
    return work


def _broadcast(call: Call, ways: Ways, hops: Ways) -> Work:
    """Pass small pieces on as they come; on a mesh the first chip sends to all at once."""

    def sent(group: Group, level: AxisSegment) -> Size:
        at_once = level.topology == "mesh" and ways is natural_ways
        return exact_div(call.nbytes, group.below * (1 if at_once else ways(level)))

    def passed(level: AxisSegment) -> Size:
        if level.topology == "torus" or ways is not natural_ways:
            return level.size - 1
        return doublings(level.size) if level.topology == "switch" else present(level.size)

    return spread(call, sent, passed, hops)


def spread(call: Call, sent: Callable[[Group, AxisSegment], Size], passed: Ways, gathered: Ways) -> Work:
    """Broadcast within the first unit of every tier, and gather in the others what the next tier brought to each chip.

    ``sent`` are the bytes over one link of a level, ``passed`` the hops of the broadcast, ``gathered`` those of the
    gathering. Links that outer tiers are nested in carry their bytes too.
    """
    work = Work()
    beyond: Size = 1
    above: Size = 0
    for group in reversed(call.groups):
        nested = group.levels[0].nested
        for level in group.levels:
            wire = (sent(group, level) + (above if nested else 0)) * present(level.size)
            times = passed(level) + gathered(level) * present(beyond)
            work += Work.wire(level.place, wire) + Work.hops(level.place, times)
        above = wire if nested else 0
        beyond = beyond * group.size
    return work


def _shuffled(call: Call, ways: Ways, hops: Ways, one_way: bool) -> Work:
    """AllToAll over the axes of a torus, one after the other: what a chip holds moves along each of them."""
    work = Work()
    several = isinstance(call.density, Picks)
    rows = _carried(call, ways, one_way) if several else {}
    for level in (level for group in call.groups if group.topology == "torus" for level in group.levels):
        n = level.size
        distance = exact_div(n * (n - 1), 2) if one_way else ring_distances(n)
        wire = rows.get(level.place) if several else exact_div(held(call) * distance, n * ways(level))
        if wire is not None:
            work += Work.wire(level.place, wire) + Work.hops(level.place, hops(level))
    return work


def _carried(call: Call, ways: Ways, one_way: bool) -> dict[str, Size]:
    """Bytes over the links of a torus whose rows go to several chips each: such a link carries a row once."""
    assert isinstance(call.density, Picks)
    levels = [level for group in reversed(call.groups) for level in group.levels]
    torus = {i: level for i, level in enumerate(levels) if level.topology == "torus"}
    if not torus:
        return {}
    kinds = {i: "one-way" if one_way else "ring" if ways(level) == 2 else "line" for i, level in torus.items()}
    rows = carried(call.density, [level.size for level in levels], kinds)
    each = exact_div(call.nbytes, call.chips * call.density.chosen)
    return {level.place: each * rows[i] for i, level in torus.items() if rows[i]}


def held(call: Call) -> Size:
    """Bytes one chip holds before an AllToAll, as far as they are sent."""
    return exact_div(call.nbytes, call.chips) * call.sent


def exchange(call: Call) -> Work:
    """AllToAll over switches: a chip sends each of the other members of every tier its share, directly.

    All of them at once, so the one hop is over the outermost tier. A row that several chips of a unit need goes to
    that unit once and is passed on inside; the hops are those of a row that is not.
    """
    work = Work()
    inside: Size = 1
    for group in reversed(call.groups):
        if group.topology == "torus":
            continue
        (level,) = group.levels
        crossing = _crossing(call, group)
        if crossing is None:
            continue
        work += Work.wire(level.place, exact_div(crossing, natural_ways(level)))
        work += Work.hops(level.place, present(level.size) * inside)
        inside = inside * (1 - present(level.size))
    return work


def _no_ring(call: Call) -> str:
    return some_torus(call) if call.kind == "AllToAll" else ""


def _crossing(call: Call, group: Group) -> Size | None:
    """Bytes of one chip that go to other members of a tier, or through their links further out; None if none do."""
    if not isinstance(call.density, Picks):
        return exact_div(held(call) * group.below * (group.units - 1), call.chips)
    here = call.chips // group.below
    share = call.density.crossing(here, call.chips) - call.density.crossing(here // group.units, call.chips)
    return exact_div(call.nbytes, call.chips) * share if share > 0 else None


@algorithm("one-way ring", _KINDS, "one way round a ring", _no_ring)
def one_way_ring(call: Call) -> Work:
    """Count one way round: one link of every chip is busy."""
    return passing(call, _one, _around_and_back, one_way=True)


@algorithm("two-way ring", _KINDS, "both ways round a ring, which needs wrap-around", _no_ring, all_close)
def two_way_ring(call: Call) -> Work:
    """Count both ways round at once."""
    return passing(call, _both, _halfway)


@algorithm("line", _KINDS, "from neighbour to neighbour, without wrap-around", some_torus)
def line(call: Call) -> Work:
    """Count a line: the links at its ends carry all but one shard one way."""
    return passing(call, _one, _around)


@algorithm("torus", _KINDS, "all links of the torus at once, both ways where an axis wraps around", some_torus)
def torus(call: Call) -> Work:
    """Count all links of all axes at once."""
    return passing(call, natural_ways, natural_hops)


@algorithm("hierarchical", _KINDS, "tier by tier, each chip of a unit with a part over the next tier", several_links)
def hierarchical(call: Call) -> Work:
    """Count all links of every tier, the tiers overlapping."""
    return passing(call, natural_ways, natural_hops)


def _no_chain(call: Call) -> str:
    plain = [group for group in call.groups if group.topology != "torus" or len(group.levels) > 1]
    return "it goes along one axis of a torus" if plain or len(call.groups) > 1 else ""


@algorithm(
    "chain", ["AllReduce"], "small pieces added up to one end of a line and sent back as they are done", _no_chain
)
def chain(call: Call) -> Work:
    """Count a chain: every link carries all bytes once each way, which on a long line is half of two passes."""
    work = Work()
    for group in call.groups:
        (level,) = group.levels
        wire = call.nbytes * present(level.size)
        work += Work.wire(level.place, wire) + Work.hops(level.place, 2 * (level.size - 1))
    return work
