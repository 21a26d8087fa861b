"""The algorithms of collectives: rings, direct exchange, trees, whole sums.

Rings, lines and tori: data passes from neighbour to neighbour.

With V bytes over n chips, d ways round (1 or 2, and never more than n − 1: two chips have one way), and W one way over
one link::

    AllGather, ReduceScatter     V·(n − 1)/(n·d) over each link      n − 1 hops, or ⌊n/2⌋ where the ring has two ways
    AllReduce                    twice that: a ReduceScatter, then an AllGather; n − 1 hops where a ring has two ways
              chain, on a line   V: added up on the way, from both ends                       n − 1 hops
              spanning trees     V·(N − 1)/E, E the links of all axes: n of a ring, n − 1 of a line    2·Σ⌊n/2⌋ hops
    over tiers, a flat ring      V·(n − 1)/(n·B) out of a unit of B chips, once over all n
    AllToAll, one way round      V·(n − 1)/(2n)                      n − 1 hops
              shortest way       V·⌊n²/4⌋/(n²·d)                     the middle link of a line, every link of a ring
    Broadcast                    V/d, in many small pieces           n − 1 hops

A line has no link from its last chip to the first, so the message of the last chip goes back over all links: 2n − 3
hops for one way round. Over several axes of one torus the data splits into parts that take the axes in different
orders. All links are busy then: V·(N − 1)/(N·Σd) over each, N the chips of all axes. An AllToAll and a Broadcast take
one axis after the other. Such a Broadcast sends V/d over each link.

Trees over all chips (``spanning trees``) share out all links. An AllReduce adds a part up along its tree and sends the
sum back, so each of the tree's N − 1 links carries it once each way, and E links hold E/(N − 1) trees: no partition of
a torus or a grid has fewer links between its parts (C. Nash-Williams, W. Tutte, J. London Math. Soc. 36, 1961). No
algorithm without switches that add does better: N partial sums take N − 1 messages to become one, and the sum N − 1 to
reach all. Where all axes are rings and one is even, an AllReduce takes one hop less, 2·Σ⌊n/2⌋ − 1: the middle of each
tree is a link, and its two chips send one another the sums of both sides (of two chips beside odd rings fewer trees
do). A Broadcast takes V/Σd: as many trees lead away from a chip as links lead into a corner (J. Edmonds, "Edge-disjoint
branchings", 1973). Over several axes they are as deep as the farthest chip is far, and one more where an axis closes or
has two chips.
Over tiers, a member of a tier receives through all chips below it at once: by direct exchange, in one hop, where there
are switches or a link for every pair. Through a fat tree of several tiers chips can do so with all units at once
(``rails``): one hop instead of one a tier, and each unit of C chips gets V·(n − C)/(n·B) by each chip, B those below
the innermost of these tiers.

A Broadcast over tiers has three steps: it spreads the message within the first unit, each chip sends its part on, and
the other units gather the parts. So the hops of an inner tier count twice. On switches each other member gets a piece
and sends it on (``two-shot``), V in two hops.

Where the innermost tier is the slowest, a part of the data goes straight between units (``balanced``): over switches
by the second tier alone, else by both tiers in the other order. Tiers further out carry what they must. Either way a
chip receives V·(n − 1)/n in all, V of a Broadcast, V·(n − 1)/n² of an AllToAll. The share of the data at which the
first two tiers are busy as long takes what the slowest cut does, and so the least (D units, W within and U between out
of each chip)::

    AllGather, ReduceScatter    V·max((n − 1)/(n·(W + U)), (n − B)/(n·B·U), on a torus (n − D)/(n·D·W))
    Broadcast                   V·max(1/(W + U), 1/(B·U), on a torus 1/(D·W))
    AllToAll, over switches     V·max((n − 1)/(n²·(W + U)), (n − B)/(n²·U))
              out of a torus    at least that with W of all links of a chip, and what crosses the middle of an axis
    Send                        as a Broadcast
    Permute, over switches      V·max((E + 2)/(E·W + (E + 2)·U), B/((B − 2)·W + (B + 2)·U), 1/(B·U)), E = 2·⌊B/2⌋
             mesh and switches  V·max(2/(W + 2·U), 1/(B·U))
             torus and switches V·max(1/(W + U), (R − 1 + R/B)/((R − 1)·W + R·U), 1/(B·U)), R the chips of a line of
                                the last axis; of a ring at least V·max((1 − 1/R + 1/B)/(W + U), 1/(B·U))
    AllReduce                   twice that of an AllGather
       added up within          V·max((n − 1)/(n·(W·(B − 1)/B + U/2)), 2·(n − B)/(n·B·U))
       added up between         V·max(1/(W/2 + U), 1/(B·U))
       by all switches          V·max(1/(W·(B − 1)/B + U), 1/(B·U))

and of a unit of C chips with a way out of S for each of them further up, (n − C)/(n·C·S), 1/(C·S) and so on.

No AllReduce is faster. Let a byte into a switch or out of it have a price. N partial sums take N − 1 messages, in and
out, to become one, and the sum N − 1 to reach all; by way of a switch that adds up it is N times in or out, twice. A
unit is one of D to the tier between units. At the prices at which a unit costs as much either way, within or straight,
every way to add up all chips costs as much as the one taken, or more; all that the links can carry costs W and U times
the prices. The second term of each is that of a price of U alone. The smallest of units that differ sends V out of it,
and what it sends more so is spared inside.

In a Permute V − U·t of the message that leaves a unit takes two links more, on switches: chips of its unit pass it on,
and those of the next unit. So B·(W + U)·t is at least B·V + 2·(V − U·t). Of an odd unit one chip is left over: what a
chip passes on for its neighbour is what that one passes on less. While W·t is over V, both chips at the ends of a unit
pass on U·t. Linear programs of all flows agree.

The limiting forms of the book (``book``, ``book-levels``) take axes to be large and every torus axis to be a ring. With
W two ways over one link (2·W one way), or W out of a GPU or a node::

    AllGather, ReduceScatter    V/(W·axes)                       ⌊n/2⌋ hops on each axis of a torus
    AllReduce                   2·V/(W·axes)
    AllToAll                    V/(4·W) on a ring; V·max(A, B, C)/(4·A·B·C·W) on a torus; V/(n·W) on a switch
    over tiers                  the largest of V/W over the tiers, W what leaves one of its units

``book-levels`` keeps the exact factor of each tier of a fat tree, V·(D − 1)/(D·W) with D children: the chapter's more
precise form. It leaves out that what goes further up crosses the tiers below it too, so it can fall below what
``hierarchical`` gives: with 128 nodes a node gets 127/128 of V through its own links, not 31/32.

Sources: "How To Scale Your Model", chapters 3 and 12; P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms
for clusters of workstations", JPDC 69, 2009; R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective
communication operations in MPICH", IJHPCA 19, 2005; L. Zhao et al., "ForestColl", arXiv:2402.06787. ⌊n²/4⌋ is the sum
of the distances from one chip of a ring to all others, and the pairs of chips on either side of the middle of a line.

Direct exchange, trees, and switches that reduce.

Direct exchange: every chip sends to every other, on switches and meshes in one hop. With V bytes over n chips, W one
way into a switch, or over one of the n − 1 links of a mesh::

    AllGather, ReduceScatter    V·(n − 1)/n into the switch, V/n over each link of a mesh        1 hop
    AllReduce, direct           V·(n − 1): the whole partial sum to each other chip (one-shot)   1 hop
    AllReduce, two-shot         2·V·(n − 1)/n: ReduceScatter, then AllGather, both direct        2 hops
    AllToAll                    V·(n − 1)/n²                                                     1 hop
    Permute                     V to the next chip; on a line the last one's goes all the way back
    Send                        V to the farthest chip, by all axes of a torus at once
    striped, over tiers         V/B out of a unit of B chips, by all of them: V·(B − 1)/B inside; of a Permute V + V/B
                                on switches, V along a torus, 2·V/B over a mesh
             Send               V/Σd by d ways along all axes, one hop more where a ring is odd; V/(n − 1) over a mesh
             Permute, mesh      2·V/n: so much straight, V/n by way of each other chip                   2 hops
                      ring      V·(n − 1)/n: so much straight, V/n round the other n − 1 links           n − 1 hops
                      torus     as its last axis; V/2 over others, on to the next row before it or after
    Broadcast, direct           V·(n − 1) out of the first chip                                  1 hop
               two-shot         V: each other chip gets V/(n − 1) and sends it to the others     2 hops

Over tiers n − B of the n − 1 messages leave a unit of B chips, each by its sender's own link: n − B takes the place of
n − 1 there. The one hop is over the outermost tier. What one chip sends up a fat tree has the links of all chips of its
unit from the second tier on: V/C out of C chips. So does a Broadcast, whose first chip sends V once (``balanced``).

On a torus the whole partial sums pass from neighbour to neighbour: V·(N − 1)/Σd over each link. A Broadcast's message
goes the shortest way: V over each link, ⌊n/2⌋ hops an axis.

Trees, and switches that reduce, with V bytes over n chips on a switch::

    tree, AllGather, ReduceScatter   V·(n − 1)/n                       ⌈log₂ n⌉ hops
          AllReduce                  2·V·(n − 1)/n                     2·⌈log₂ n⌉ hops
          Broadcast                  V·⌈log₂ n⌉ out of the first chip  ⌈log₂ n⌉ hops
    double binary tree, AllReduce    V/2·min(n, 4), in small pieces    2·⌊log₂ n⌋ hops
                        Broadcast    V, in small pieces                ⌈log₂ n⌉ hops
    in-switch, AllReduce             V                                 2 hops
               Broadcast             V                                 1 hop, 2 on tiers below others

A tree doubles in each step the data that a chip holds (recursive halving and doubling; Bruck's order where n is no
power of two). Two binary trees carry half of the bytes each. An inner chip of one tree is a leaf of the other: it sends
V/2 to each of its three neighbours in the one and to its one neighbour in the other. Fewer than four chips have fewer
neighbours; a symbol is taken to be at least 4. A switch that reduces (NVLink SHARP, SHARP) takes each chip's V once and
returns the sum; switches pass it on to one another. Over tiers each unit sends V on, each of its chips a part. The
switches of a fat tree pass on at once what they add up or multicast: all its tiers take the hops of the outermost.

Sources: "How To Scale Your Model", chapter 12; E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn, "Collective
communication: theory, practice, and experience", CCPE 19, 2007; R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19, 2005;
J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE TPDS 8,
1997; P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
Parallel Computing 35, 2009; R. Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP)", COMHPC 2016.

AllReduce by whole partial sums along some axes or tiers, one after the other: fewer hops than two passes.

With V bytes over n chips of one axis, d ways round a ring::

    along a line     V over each link each way    n − 1 hops     a chain: sums are added up on the way, from both ends
    round a ring     V·(n − 1)/d                  ⌊n/2⌋ hops
    over a switch    V·(n − 1)                    1 hop
    over a mesh      V over each link             1 hop

``whole sums`` does so along every axis and tier, whose hops add up. ``outer one-shot`` scatters and gathers inside, so
that only a part of V, 1/chips of a unit, goes over the outermost tier or the longest axis of a torus; ``two outer
one-shots`` goes over the two outermost. ``by rails``, both take the tiers of a fat tree as one. Between two nodes that
takes the bytes of ``hierarchical`` in half its hops. On a torus whose axes are alike each axis is the outermost for a
share of the data. Of axes that differ the longest is.

>>> from roofline.hardware import chip
>>> from roofline.ops.collectives.cost import cost
>>> for algorithm in ("whole sums", "outer one-shot", "torus"):
...     print(cost("AllReduce", chip("v5e:16x16").mesh.axes, 256, algorithm=algorithm).work)
Work(wire/X: 1920, hops/X: 8, wire/Y: 1920, hops/Y: 8)
Work(wire/X: 180, hops/X: 16, wire/Y: 180, hops/Y: 8)
Work(wire/X: 127.5, hops/X: 15, wire/Y: 127.5, hops/Y: 16)

A line is a tree over each of whose links goes the sum of either side. Sums along one dimension after the other are
those of E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn, "Collective communication: theory, practice, and
experience", CCPE 19, 2007; one-shot exchanges of small arrays are those of TensorRT-LLM and MSCCL++.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from roofline.frozen import replace
from roofline.hardware.machine import AxisSegment
from roofline.hardware.rate import rate
from roofline.lazy import np, sympy
from roofline.ops.collectives.registry import (
    GATHERING,
    CollectiveCall,
    Fits,
    Formula,
    LinkGroup,
    OfSegment,
    doublings,
    half_way,
    halvings,
    links_in_use,
    more_than_one,
    over_links,
    refuse_torus,
    register,
    require_closed_axes,
    require_one_tier,
    require_several_tiers,
    require_switches,
    require_torus,
    ring_distances,
    ring_or_line,
    rounds,
)
from roofline.ops.collectives.routing import TopKRouting, multicast_link_load
from roofline.sizes import Size, chip_counts, exact_div, is_array, is_number, is_symbol, maximum, minimum, product
from roofline.work import Key, Work

_KINDS = (*GATHERING, "AllToAll", "Broadcast")


def _one(segment: AxisSegment) -> Size:
    return 1


def _both(segment: AxisSegment) -> Size:
    """Two links, where a chip can send to two neighbours at once."""
    if segment.topology == "switch":
        return 1
    return 2 if is_symbol(segment.size) else maximum(1, minimum(2, segment.size - 1))


def usable_links(segment: AxisSegment) -> Size:
    """Links a chip sends on at once: both ways round a ring, one way on a line, a link to every chip of a mesh."""
    if segment.topology == "torus":
        return segment.directions
    links = segment.size - 1 if is_symbol(segment.size) else maximum(1, segment.size - 1)
    return links if segment.topology == "mesh" else 1


def _around(segment: AxisSegment) -> Size:
    return segment.size - 1


def _around_and_back(segment: AxisSegment) -> Size:
    """Hops of once round: n − 1 on a ring; a line goes back over all its links, 2n − 3."""
    n = segment.size
    if segment.topology != "torus":
        return n - 1
    return ring_or_line(segment, n - 1, 2 * n - 3 if is_symbol(n) else n - 1 + maximum(0, n - 2))


def _far(segment: AxisSegment) -> Size:
    """Hops to the farthest chip where an axis of a torus is taken to be a ring."""
    return half_way(segment.size) if segment.topology == "torus" else pass_hops(segment)


def pass_hops(segment: AxisSegment) -> Size:
    """Hops of one pass: half round a ring, from end to end of a line, one on a switch or a mesh."""
    if segment.topology != "torus":
        return more_than_one(segment.size)
    return ring_or_line(segment, half_way(segment.size), segment.size - 1)


def pass_between_neighbours(
    call: CollectiveCall, ways: OfSegment, hops: OfSegment, *, one_way: bool = False, back: OfSegment | None = None
) -> Work:
    """Count a collective in which data passes from neighbour to neighbour in ``ways`` at once.

    Sums that are added up in ``hops`` come ``back`` in as many, unless other hops are given.
    """
    if call.kind == "AllToAll":
        return _all_to_all(call, ways, hops, one_way) + direct_all_to_all(call)
    if call.kind == "Broadcast":
        # small pieces are passed on as they arrive; on a mesh the first chip sends to all at once
        passed = spread_hops if ways is usable_links else _around
        return broadcast_over_tiers(call, sent_by_first(call, ways), passed, hops)

    def share(group: LinkGroup) -> Size:
        lanes = links_in_use([ways(segment) * more_than_one(segment.size) for segment in group.segments])
        return group.exchanged(call.nbytes, rounds(call), lanes)

    return over_links(call, share, lambda each: hops(each) + (rounds(call) - 1) * (back or hops)(each))


def _back_from_a_link(call: CollectiveCall, hops: OfSegment, *, rings: bool = False, every: bool = True) -> OfSegment:
    """Hops by which sums come back: one less along an even axis where they meet at a link and not at a chip.

    So they do on a torus whose axes are ``rings``, ``every`` one of an even size; an axis of two chips is one.
    """
    if call.kind != "AllReduce" or len(call.groups) != 1 or not (rings or call.groups[0].topology == "torus"):
        return hops
    segments = sorted(call.groups[0].segments, key=lambda each: each.number)
    closed = [1 if rings else _closes(each) for each in segments]
    even = [ring * (2 * half_way(each.size) - each.size + 1) for ring, each in zip(closed, segments, strict=True)]
    many = [more_than_one(each.size) for each in segments]
    all_do = product(1 - several * (1 - has) for several, has in zip(many, even if every else closed, strict=True))
    first = _first_of(segments, [several * is_even for several, is_even in zip(many, even, strict=True)])
    return lambda segment: hops(segment) - all_do * first[segment.place]


def _first_of(segments: Sequence[AxisSegment], has: Sequence[Size]) -> dict[str, Size]:
    """1 at the place of the first segment whose entry in ``has`` is 1, else 0."""
    found: dict[str, Size] = {}
    left: Size = 1
    for segment, own in zip(segments, has, strict=True):
        found[segment.place] = left * own
        left = left - found[segment.place]
    return found


def _closes(segment: AxisSegment) -> Size:
    """1 for a ring, and for two chips in a line; else 0."""
    n = segment.size
    wrap = segment.wrap * 1
    return wrap if segment.wrap is True or is_symbol(n) else maximum(wrap, 1 - minimum(1, abs(n - 2)))


def sent_by_first(call: CollectiveCall, ways: OfSegment) -> Callable[[LinkGroup, AxisSegment], Size]:
    """Bytes over one link in a Broadcast within a unit, sent ``ways`` at once; on a mesh all of them over each link."""

    def sent(group: LinkGroup, segment: AxisSegment) -> Size:
        at_once = segment.topology == "mesh" and ways is usable_links
        return exact_div(call.nbytes, group.below * (1 if at_once else ways(segment)))

    return sent


def spread_hops(segment: AxisSegment) -> Size:
    """Hops of a Broadcast within a unit: from neighbour to neighbour, two on a switch, one on a mesh."""
    if segment.topology == "torus":
        return segment.size - 1
    return _relays(segment.size) if segment.topology == "switch" else more_than_one(segment.size)


def _relays(n: Size) -> Size:
    """Hops of a message whose pieces go to one other chip each, which sends them on: one where there is one other."""
    return 2 if is_symbol(n) and not chip_counts(n) else minimum(2, n - 1)


def broadcast_over_tiers(
    call: CollectiveCall, sent: Callable[[LinkGroup, AxisSegment], Size], passed: OfSegment, gathered: OfSegment
) -> Work:
    """Broadcast within the first unit of every tier; the other units gather the parts that their chips received.

    ``sent`` gives the bytes over one link of a segment, ``passed`` the hops of the broadcast, ``gathered`` those of the
    gathering. A link that is nested in outer tiers carries their bytes too.
    """
    work = Work()
    beyond: Size = 1
    above: Size = 0
    for group in reversed(call.groups):
        nested = group.segments[0].nested
        further = above if nested else 0
        wires = [(sent(group, segment) + further) * more_than_one(segment.size) for segment in group.segments]
        for segment, wire in zip(group.segments, wires, strict=True):
            times = passed(segment) + gathered(segment) * more_than_one(beyond)
            work += Work.wire(segment.place, wire) + Work.hops(segment.place, times)
        (above,) = wires if nested else [0]  # a nested link joins the members of all axes: one segment
        beyond = beyond * group.size
    return work


def _all_to_all(call: CollectiveCall, ways: OfSegment, hops: OfSegment, one_way: bool) -> Work:
    """AllToAll over the axes of a torus, one after the other: the bytes of a chip move along each of them."""
    work = Work()
    several = isinstance(call.density, TopKRouting)
    rows = _multicast_bytes(call, ways, one_way) if several else {}
    for segment in (segment for group in call.groups if group.topology == "torus" for segment in group.segments):
        n = segment.size
        distance = exact_div(n * (n - 1), 2) if one_way else ring_distances(n)
        wire = rows.get(segment.place) if several else exact_div(sent_by_each(call) * distance, n * ways(segment))
        if wire is not None:
            work += Work.wire(segment.place, wire) + Work.hops(segment.place, hops(segment))
    return work


def _multicast_bytes(call: CollectiveCall, ways: OfSegment, one_way: bool) -> dict[str, Size]:
    """Bytes over the links of a torus for rows that go to several chips each: a link carries a row once."""
    assert isinstance(call.density, TopKRouting)
    segments = [segment for group in reversed(call.groups) for segment in group.segments]
    torus = {i: segment for i, segment in enumerate(segments) if segment.topology == "torus"}
    if not torus:
        return {}
    kinds = {i: "one-way" if one_way else "ring" if ways(segment) == 2 else "line" for i, segment in torus.items()}
    rows = multicast_link_load(call.density, [segment.size for segment in segments], kinds)
    each = exact_div(call.nbytes, call.chips * call.density.chosen)
    return {segment.place: each * rows[i] for i, segment in torus.items() if rows[i]}


def sent_by_each(call: CollectiveCall) -> Size:
    """Bytes that one chip holds before an AllToAll and sends."""
    return exact_div(call.nbytes, call.chips) * call.sent_share


def direct_all_to_all(call: CollectiveCall) -> Work:
    """AllToAll over switches: a chip sends each other chip its share.

    A row that several chips of a unit need goes to that unit once and is passed on inside; its further hops are not
    counted.
    """
    return exchange_directly(call, lambda group: _crossing_bytes(call, group))


def exchange_directly(call: CollectiveCall, crossing: Callable[[LinkGroup], Size | None]) -> Work:
    """Send to all other chips of all tiers at once; one hop, over the outermost tier.

    ``crossing`` gives the bytes of one chip that go to other members of a tier or further out, None where there are
    none.
    """
    work = Work()
    inside: Size = 1
    for group in reversed(call.groups):
        if group.topology == "torus":
            continue
        (segment,) = group.segments
        sent = crossing(group)
        if sent is None:
            continue
        work += Work.wire(segment.place, exact_div(sent, usable_links(segment)))
        work += Work.hops(segment.place, more_than_one(segment.size) * inside)
        inside = inside * (1 - more_than_one(segment.size))
    return work


def _no_ring(call: CollectiveCall) -> str:
    return require_torus(call) if call.kind == "AllToAll" else ""


def _crossing_bytes(call: CollectiveCall, group: LinkGroup) -> Size | None:
    """Bytes of one chip that go to other members of a tier or further out; None where there are none."""
    if not isinstance(call.density, TopKRouting):
        return exact_div(sent_by_each(call) * (group.chips - group.below), call.chips)
    here = call.chips // group.below
    share = call.density.crossing_share(here, call.chips) - call.density.crossing_share(here // group.units, call.chips)
    return exact_div(call.nbytes, call.chips) * share if share > 0 else None


@register("one-way ring", _KINDS, "one way round a ring", _no_ring)
def one_way_ring(call: CollectiveCall) -> Work:
    """Count one way round: one link of every chip is busy."""
    return pass_between_neighbours(call, _one, _around_and_back, one_way=True)


@register("two-way ring", _KINDS, "both ways round a ring, which needs wrap-around", _no_ring, require_closed_axes)
def two_way_ring(call: CollectiveCall) -> Work:
    """Count both ways round at once."""

    def hops(segment: AxisSegment) -> Size:
        return half_way(segment.size)

    return pass_between_neighbours(call, _both, hops, back=_back_from_a_link(call, hops, rings=True))


@register("line", _KINDS, "from neighbour to neighbour, without wrap-around", require_torus)
def line(call: CollectiveCall) -> Work:
    """Count a line: the links at its ends carry all but one shard one way."""
    return pass_between_neighbours(call, _one, _around)


@register(
    "hierarchical", _KINDS, "tier by tier, each chip of a unit with a part over the next tier", require_several_tiers
)
@register("torus", _KINDS, "all links of the torus at once, both ways where an axis wraps around", require_torus)
def all_links(call: CollectiveCall) -> Work:
    """Count all links of all axes and tiers at once."""
    return pass_between_neighbours(call, usable_links, pass_hops, back=_back_from_a_link(call, pass_hops))


@register(
    "flat ring",
    GATHERING,
    "rings over all chips, each through another chip's link out of a unit",
    lambda call: require_several_tiers(call) or require_switches(call),
)
def flat_ring(call: CollectiveCall) -> Work:
    """Count rings that go through the chips of a unit and on to the next unit, as many as a unit has chips."""
    n, work = call.chips, Work()
    for at, group in enumerate(call.groups):
        (segment,) = group.segments
        leaving = exact_div(n, group.below)  # so many of the n steps round a ring leave a member of this tier
        further = exact_div(n, call.groups[at + 1].below) if at + 1 < len(call.groups) else 0
        carried = leaving if segment.nested else leaving - further
        work += Work.wire(segment.place, exact_div(call.nbytes * rounds(call) * (n - 1) * carried, n * n))
        work += Work.hops(segment.place, (leaving - further - int(at == 0)) * rounds(call))
    return work


def _fat_tree(call: CollectiveCall) -> tuple[LinkGroup, ...]:
    """The tiers of a fat tree, where there are several, from the inside out."""
    nested = tuple(group for group in call.groups if group.segments[0].nested)
    return nested if len(nested) > 1 and nested == call.groups[-len(nested) :] else ()


def _joined(call: CollectiveCall) -> CollectiveCall:
    """The tiers of a fat tree as one."""
    first, *outer = _fat_tree(call)
    size = product(group.size for group in (first, *outer))
    one = first._replace(segments=(replace(first.segments[0], size=size, nested=False),), size=size)
    return call._replace(groups=(*call.groups[: -len(outer) - 1], one))


def _no_rails(unfit: Fits) -> Fits:
    def found(call: CollectiveCall) -> str:
        tree = not call.groups or _fat_tree(call)
        return unfit(_joined(call) if call.groups else call) if tree else "no link is a fat tree of several tiers"

    return found


def over_rails(call: CollectiveCall, formula: Formula) -> Work:
    """Count a formula in which each chip exchanges with those at its place in all other units of a fat tree at once.

    Of what leaves a unit (chips − C)/(chips − B) leaves a larger one of C chips too. One hop goes over all its tiers.
    """
    if not call.groups:
        return Work()
    first, *_ = tiers = _fat_tree(call)
    found, place = formula(_joined(call)), first.segments[0].place
    wire, hops = found[Key("wire", place)], found[Key("hops", place)]
    work = Work({key: amount for key, amount in found.items() if key.place != place})
    apart = first.chips - first.below if is_symbol(first.chips) else maximum(1, first.chips - first.below)
    segments = [group.segments[0] for group in reversed(tiers)]
    outermost = _first_of(segments, [more_than_one(each.size) for each in segments])
    for group, segment in zip(reversed(tiers), segments, strict=True):
        work += Work.wire(segment.place, exact_div(wire * (group.chips - group.below), apart))
        work += Work.hops(segment.place, hops * outermost[segment.place])
    return work


@register(
    "rails",
    (*GATHERING, "Broadcast"),
    "as hierarchical, each chip with those of its place in all other units of a fat tree at once",
    _no_rails(require_several_tiers),
)
def rails(call: CollectiveCall) -> Work:
    """Count the tiers of a fat tree as one."""
    return over_rails(call, all_links)


def _no_chain(call: CollectiveCall) -> str:
    plain = [group for group in call.groups if group.topology != "torus" or len(group.segments) > 1]
    return "it goes along one axis of a torus" if plain or len(call.groups) > 1 else ""


@register("chain", ["AllReduce"], "sums of all chips behind, from both ends of a line", _no_chain)
def chain(call: CollectiveCall) -> Work:
    """Count a chain: every link carries all bytes once each way, the sum of the chips on either side."""
    return over_links(call, lambda group: call.nbytes, lambda segment: segment.size - 1)


def _only_switches(call: CollectiveCall) -> str:
    plain = [group for group in call.groups if group.topology != "switch"]
    return "" if plain or not call.groups else f"{call.groups[0].link} has no links between chips"


@register("spanning trees", ["AllReduce", "Broadcast"], "parts by trees over all links at once", _only_switches)
def spanning_trees(call: CollectiveCall) -> Work:
    """Count as many trees over all chips as the links can hold, each with its part of the bytes.

    An AllReduce adds a part up along its tree and sends the sum back: once each way over each of N − 1 links, from root
    to leaf and back. A Broadcast needs trees that lead away from one chip; a corner has the fewest links for them.
    """
    if call.kind == "Broadcast":
        return broadcast_over_tiers(call, _sent_by_trees(call), _spread_by_trees(call), pass_hops)
    back = _back_from_a_link(call, _far, every=False)
    return over_links(call, lambda group: summed_over(group, call.nbytes), lambda each: _far(each) + back(each))


def summed_over(group: LinkGroup, nbytes: Size) -> Size:
    """Bytes over each link of a tier for sums over its members: by trees on a torus, else by direct exchange."""
    if group.topology == "torus":
        # n links in each ring, n − 1 in each line
        rows = [exact_div(group.size, s.size) * (s.size - 1 + s.directions - 1) for s in group.segments]
        return exact_div(nbytes * (group.size - 1), group.below * links_in_use(rows))
    return group.exchanged(nbytes, 2, usable_links(group.segments[0]))


def _sent_by_trees(call: CollectiveCall) -> Callable[[LinkGroup, AxisSegment], Size]:
    def sent(group: LinkGroup, segment: AxisSegment) -> Size:
        lanes = links_in_use([usable_links(each) * more_than_one(each.size) for each in group.segments])
        return exact_div(call.nbytes, group.below * lanes)

    return sent


def _spread_by_trees(call: CollectiveCall) -> OfSegment:
    """Hops of a Broadcast by trees: on a mesh to one other chip first, which passes its part on.

    Over several axes of a torus as far as the farthest chip is, and one more where an axis closes or has two chips: a
    tree that begins the other way round comes back.
    """
    one_more: dict[str, Size] = {}
    several: dict[str, Size] = {}
    for group in call.groups:
        segments = sorted(group.segments, key=lambda each: each.number)
        one_more |= _first_of(segments, [_closes(each) * more_than_one(each.size) for each in segments])
        ways = minimum(1, maximum(0, sum(more_than_one(each.size) for each in segments) - 1))
        several |= dict.fromkeys([each.place for each in segments], ways)

    def hops(segment: AxisSegment) -> Size:
        if segment.topology != "torus":
            again = more_than_one(maximum(1, segment.size - 1)) if segment.topology == "mesh" else 0
            return spread_hops(segment) + again
        ways = several[segment.place]
        return ways * (pass_hops(segment) + one_more[segment.place]) + (1 - ways) * spread_hops(segment)

    return hops


def _limit(call: CollectiveCall) -> str:
    open_ended = require_closed_axes(call)
    return f"a limit of rings, and {open_ended}" if open_ended else "a limit"


@register("book", (*GATHERING, "AllToAll"), "the limiting form V/W of “How To Scale Your Model”", limit=_limit)
def book(call: CollectiveCall) -> Work:
    """Count the limiting form."""
    if call.kind == "AllToAll":
        return sum((_limit_of_all_to_all(call, group) for group in call.groups), Work())

    def share(group: LinkGroup) -> Size:
        return exact_div(call.nbytes * rounds(call), group.below * _ways(group))

    return over_links(call, share, lambda segment: _far(segment) * rounds(call))


def _ways(group: LinkGroup) -> Size:
    if group.topology == "torus":
        return links_in_use([2 * more_than_one(segment.size) for segment in group.segments])
    return group.size if group.topology == "mesh" else 1


def _limit_of_all_to_all(call: CollectiveCall, group: LinkGroup) -> Work:
    work, directly = Work(), direct_all_to_all(call._replace(density=call.sent_share))
    for segment in group.segments:
        if segment.topology == "torus":
            wire = exact_div(sent_by_each(call) * segment.size * more_than_one(segment.size), 8)
            hops = half_way(segment.size)
        else:
            reached = exact_div(sent_by_each(call) * group.below * group.units, call.chips)
            wire = exact_div(reached * more_than_one(segment.size), _ways(group))
            hops = directly[Key("hops", segment.place)]
        work += Work.wire(segment.place, wire) + Work.hops(segment.place, hops)
    return work


@register(
    "book-levels", (*GATHERING, "AllToAll"), "each tier by itself, V·(D − 1)/(D·W)", require_several_tiers, _limit
)
def book_levels(call: CollectiveCall) -> Work:
    """Count each tier by the children of its own units."""
    return all_links(call._replace(groups=tuple(group.alone for group in call.groups)))


def _unfit(call: CollectiveCall) -> str:
    """Refuse links from neighbour to neighbour where data has to be sent apart, or goes over several tiers."""
    if call.kind in ("Permute", "Send"):
        return ""
    apart = call.kind in ("ReduceScatter", "AllToAll") or len(call.groups) > 1
    return refuse_torus(call) if apart else ""


@register("direct", (*GATHERING, "AllToAll", "Permute", "Send", "Broadcast"), "every chip to every other", _unfit)
def direct(call: CollectiveCall) -> Work:
    """Count a direct exchange; a row for several chips is sent to each of them separately."""
    if isinstance(call.density, TopKRouting) and not call.sent_share:
        return Work()
    several = call._replace(density=call.sent_share) if len(call.groups) > 1 else call
    return _COUNTS[call.kind](several)


def _no_stripes(call: CollectiveCall) -> str:
    """Refuse one switch, a fat tree alone and a torus of lines alone."""
    inside = call.groups[:1]
    if [group.topology for group in call.groups] == ["mesh"]:
        return ""
    if [group.topology for group in call.groups] == ["torus"]:
        sent = _rows_last(inside[0])[-1 if call.kind == "Permute" else 0 :]
        two_ways = [np.any(each.directions * more_than_one(each.size) > 1) for each in sent]
        return "" if any(two_ways) else f"no axis of {inside[0].link} has two ways round"
    if inside and inside[0].segments[0].nested:
        return f"{inside[0].link} has no links inside its units"
    return require_several_tiers(call)


def _rows_last(group: LinkGroup) -> list[AxisSegment]:
    """The axes of a torus in the order of the slice's own, however they are named; a chip's next is along the last."""
    return sorted(group.segments, key=lambda segment: segment.number)


@register("striped", ["Permute", "Send"], "messages in parts, by way of other chips too", _no_stripes)
def striped(call: CollectiveCall) -> Work:
    """Count messages that leave a unit of B chips in B parts: there and back inside, V/B over the tiers further out.

    In a Permute, one message of each unit does so. The other chips pass a part of it on, beside their own messages:
    along a torus its parts go against those, n − 1 hops there and back together; over a mesh as the message of the last
    chip to the first would.
    Within one tier, parts leave by all links of a chip of a torus, both ways where an axis closes, or go by way of all
    other chips of a mesh. In a Permute all chips of a ring of n send: V/n goes the long way round, over n − 1 links. On
    a torus that is the last axis; half of what goes on to the next row does so before its way along it.
    """
    if not call.groups:
        return Work()
    first, *outer = call.groups
    if not outer and first.topology == "mesh":
        straight, parts = (2, first.size) if call.kind == "Permute" else (1, links_in_use([first.size - 1]))
        sent = exact_div(call.nbytes * straight, parts)
        return over_links(call, lambda group: sent, lambda each: _relays(each.size))
    if not outer and call.kind == "Permute":
        *others, last = _rows_last(first)
        sent = exact_div(call.nbytes * (last.size - last.directions + 1), last.size) * more_than_one(last.size)
        work = Work.wire(last.place, sent) + Work.hops(last.place, _around(last))
        for each in others:  # half of what goes on to the next row does so before its way along it
            several = more_than_one(each.size)
            work += Work.wire(each.place, exact_div(call.nbytes * several, 2))
            work += Work.hops(each.place, ring_or_line(each, several, each.size - 1))
        return work
    if not outer:
        lanes = links_in_use([each.directions * more_than_one(each.size) for each in first.segments])
        # each part goes the longer way round one ring at most
        odd = [(each.directions - 1) * (each.size - 2 * half_way(each.size)) for each in first.segments]
        longer, sent = _first_of(first.segments, odd), exact_div(call.nbytes, lanes)
        return over_links(call, lambda group: sent, lambda each: pass_hops(each) + longer[each.place])
    work = direct(call._replace(groups=tuple(outer), nbytes=exact_div(call.nbytes, outer[0].below)))
    inside = call._replace(groups=(first,))
    if call.kind == "Permute" and first.topology == "torus":
        return work + over_links(inside, lambda group: call.nbytes, _around)
    spread = all_links(inside._replace(kind="ReduceScatter"))
    if call.kind == "Permute":
        part, others = exact_div(call.nbytes, first.size), more_than_one(maximum(1, first.size - 1))
        wire = 2 * part if first.topology == "mesh" else call.nbytes + part * others
        spread = over_links(inside, lambda group: wire, pass_hops)
    return work + Work({key: amount * (2 if key.quantity == "hops" else 1) for key, amount in spread.items()})


@register("two-shot", ["AllReduce", "Broadcast"], "a direct ReduceScatter, then a direct AllGather", refuse_torus)
def two_shot(call: CollectiveCall) -> Work:
    """Count two direct exchanges of one share each; a Broadcast scatters to the others, which send on what they get."""
    if call.kind == "Broadcast":
        return _relayed(call)
    return _gathered(call._replace(kind="AllGather")) * 2


def _relayed(call: CollectiveCall) -> Work:
    """Each other chip gets a part and sends it on."""
    others = call.chips - 1 if is_symbol(call.chips) else maximum(1, call.chips - 1)
    hops = _relays(call.chips)
    sent = exchange_directly(call, lambda group: exact_div(call.nbytes * (group.chips - group.below), others))
    return Work({key: amount * (hops if key.quantity == "hops" else 1) for key, amount in sent.items()})


def _gathered(call: CollectiveCall) -> Work:
    if refuse_torus(call):
        return pass_between_neighbours(call, usable_links, pass_hops)
    sent = call.nbytes
    return exchange_directly(call, lambda group: exact_div(sent * (group.chips - group.below), call.chips))


def _ways_up(call: CollectiveCall, group: LinkGroup) -> Size:
    """Chips whose links share what one chip sends: those of a unit, from the second tier of a fat tree on."""
    tree = [each for each in call.groups if each.segments[0].nested]
    return exact_div(group.below, call.groups[0].below) if group in tree[1:] else 1


def _permuted(call: CollectiveCall) -> Work:
    """Send to the next chip; on a line the message of the last chip goes back over all links.

    Behind switches a message takes one hop, over the outermost tier.
    """
    work = Work()
    inside: Size = 1
    for group in reversed(call.groups):
        for segment in group.segments:
            wire = exact_div(call.nbytes * more_than_one(segment.size), _ways_up(call, group))
            around = inside if segment.topology != "torus" else ring_or_line(segment, 1, segment.size - 1)
            work += Work.wire(segment.place, wire) + Work.hops(segment.place, around * more_than_one(segment.size))
        inside = inside * (1 - more_than_one(group.size))
    return work


def _sent(call: CollectiveCall) -> Work:
    """Send to the farthest chip: behind switches over the outermost tier, on a torus by all axes at once."""
    work = Work()
    inside: Size = 1
    above = False
    for group in reversed(call.groups):
        nested = group.segments[0].nested
        sent = 1 if nested and above else inside
        ways = links_in_use([more_than_one(segment.size) for segment in group.segments]) * _ways_up(call, group)
        wire = exact_div(call.nbytes * sent, ways)
        for segment in group.segments:
            work += Work.wire(segment.place, wire * more_than_one(segment.size))
            work += Work.hops(segment.place, pass_hops(segment) * inside)
        above = nested
        if group.topology != "torus":
            inside = inside * (1 - more_than_one(group.size))
    return work


def _tree_broadcast(call: CollectiveCall) -> Work:
    """Send all of the message to each chip: on a torus from neighbour to neighbour, the shortest way."""
    if refuse_torus(call):
        return over_links(call, lambda group: call.nbytes, pass_hops)
    sent = call.nbytes
    return exchange_directly(call, lambda group: exact_div(sent * (group.chips - group.below), _ways_up(call, group)))


_COUNTS = {
    "AllGather": _gathered,
    "ReduceScatter": _gathered,
    # the partial sums of all chips, N·V bytes, are gathered and added up on each
    "AllReduce": lambda call: _gathered(call._replace(kind="AllGather", nbytes=call.nbytes * call.chips)),
    "AllToAll": direct_all_to_all,
    "Permute": _permuted,
    "Send": _sent,
    "Broadcast": _tree_broadcast,
}


@register("tree", (*GATHERING, "Broadcast"), "recursive halving and doubling, log₂ n steps", require_switches)
def tree(call: CollectiveCall) -> Work:
    """Count a ring's bytes in as many steps as a tree is deep."""

    def sent(group: LinkGroup, segment: AxisSegment) -> Size:
        return exact_div(call.nbytes * deep(segment), group.below)

    def deep(segment: AxisSegment) -> Size:
        return doublings(segment.size)

    if call.kind == "Broadcast":
        return broadcast_over_tiers(call, sent, deep, deep)
    return pass_between_neighbours(call, lambda segment: 1, deep)


@register(
    "double binary tree",
    ["AllReduce", "Broadcast"],
    "half of the bytes by each of two binary trees",
    lambda call: require_switches(call) or require_one_tier(call),
)
def double_binary_tree(call: CollectiveCall) -> Work:
    """Count two trees: sums go up to the top of each, results come down."""
    if call.kind == "Broadcast":
        return over_links(call, lambda group: call.nbytes, lambda segment: doublings(segment.size))

    def sent(group: LinkGroup) -> Size:
        n = group.segments[0].size
        return exact_div(call.nbytes * (4 if is_symbol(n) and not chip_counts(n) else minimum(4, n)), 2)

    return over_links(call, sent, lambda segment: 2 * halvings(segment.size))


def _without_reduction(call: CollectiveCall) -> str:
    """Say why no switch adds up or multicasts: none on the way does, or not this format."""
    if not call.groups or any(call.in_switch(group) for group in call.groups):
        return ""
    able = next((group for group in call.groups if group.reduces is not None), None)
    if able is None or able.reduces is None:
        return f"{call.groups[0].link} has no switches that reduce"
    return f"the switches of {able.link} add up {', '.join(able.reduces.dtypes)}, and not {call.dtype}"


@register(
    "in-switch", ["AllReduce", "Broadcast"], "the switches reduce and multicast (SHARP, NVLS)", _without_reduction
)
def in_switch(call: CollectiveCall) -> Work:
    """Count the bytes that a chip sends once: its own, or its part of those of its unit.

    A tier whose switches do not add up exchanges the parts that are added up inside its units, as in ``hierarchical``.
    """
    if call.kind == "Broadcast":
        return _multicast(call)
    work = Work()
    above: Size = 0
    exchanged: Size = 0
    stops = _stops(call)
    for group in reversed(call.groups):
        if not group.segments[0].nested:
            above = exchanged = 0
        if call.in_switch(group):
            wire = above = exact_div(call.nbytes, group.below) + exchanged
        else:
            wire = above = exchanged = summed_over(group.alone, call.nbytes) + above
        for segment in group.segments:
            work += Work.wire(segment.place, wire * more_than_one(segment.size))
            work += Work.hops(segment.place, 2 * pass_hops(segment) * stops[group.link])
    return work


def _stops(call: CollectiveCall) -> dict[str, Size]:
    """0 for the link of a tier of a fat tree whose switches send on to those of the next at once; else 1."""
    found: dict[str, Size] = {}
    stops: Size = 1
    for group in reversed(call.groups):
        through = call.in_switch(group) and group.segments[0].nested
        found[group.link] = stops if through else 1
        stops = stops * (1 - more_than_one(group.size)) if through else 1
    return found


def _multicast(call: CollectiveCall) -> Work:
    """Broadcast once over each tier, by its switches where they multicast; a switch passes data on to the next."""
    stops = _stops(call)
    # a switch passes data on to the next, so no link of a chip is crossed again
    groups = tuple(
        each._replace(segments=tuple(replace(segment, nested=False) for segment in each.segments))
        if call.in_switch(each) else each for each in call.groups
    )  # fmt: skip

    def gathered(segment: AxisSegment) -> Size:
        return pass_hops(segment) * stops[segment.link]

    def passed(segment: AxisSegment) -> Size:
        return spread_hops(segment) if segment.reduces is None else gathered(segment)

    sent = sent_by_first(call, usable_links)
    return broadcast_over_tiers(call._replace(groups=groups), sent, passed, gathered)


def _not_shared_out(call: CollectiveCall) -> str:
    """Refuse one tier, rows for several chips of a torus each, and what a unit cannot send in parts."""
    unfit = require_several_tiers(call)
    if call.kind == "AllToAll" and isinstance(call.density, TopKRouting):
        unfit = unfit or refuse_torus(call)
    if call.kind in ("Permute", "Send"):
        unfit = unfit or _no_stripes(call)
    if call.kind == "Permute" or (call.kind == "AllToAll" and refuse_torus(call)):
        unfit = unfit or require_switches(call._replace(groups=call.groups[1:2]))
    return unfit


@register(
    "balanced",
    (*_KINDS, "Permute", "Send"),
    "as hierarchical, and a part straight between units: all tiers are busy as long",
    _not_shared_out,
)
def balanced(call: CollectiveCall) -> Work:
    """Count as :func:`_shared_out` does, of what goes tier by tier without help of the switches."""
    if call.kind == "Permute":
        return _permuted_in_parts(call)
    if call.kind == "AllToAll" and len(call.groups) > 1 and call.groups[0].topology == "torus":
        return _exchanged_in_parts(call)
    formula = spanning_trees if call.kind == "AllReduce" else all_links
    if call.kind != "Send":
        return _shared_out(call, formula)
    # parts of a message to the farthest chip cross what those to all chips do, without being gathered on the way
    hops, sent = striped(call), _shared_out(call._replace(kind="Broadcast"), formula)
    return Work({key: amount if key.quantity == "wire" else hops[key] for key, amount in sent.items()})


def _permuted_in_parts(call: CollectiveCall) -> Work:
    """Count a Permute of which chips send a part straight over the second tier, those within a unit too.

    What leaves a unit goes over the sender's own link to that tier as long as other links are busy; the rest is passed
    on, as of ``striped``, by chips that send the less of their own so. Without rates all of it goes as of ``striped``.
    """
    work = striped(call)
    if len(call.groups) < 2:
        return work
    first, second, *others = call.groups
    near, far = (Key("wire", group.segments[0].place) for group in (first, second))
    inner, outer = (call.machine and rate(call.machine, key) for key in (near, far))
    if not inner or not outer:
        return work
    b, faster, several = second.below, outer.value / inner.value, more_than_one(second.size)
    even = 2 * half_way(b)
    ways = [(even + 2, even, even + 2), (b, maximum(0, b - 2), b + 2)]
    if first.topology == "mesh":
        ways = [(2, b - 1, 2)]
    if first.topology == "torus":
        row, closes = _rows_last(first)[-1].size, _rows_last(first)[-1].directions - 1
        straight = 1 - closes * (exact_div(1, row) - exact_div(1, b))
        ways = [(straight, 1, 1), ((1 - closes) * (row - 1 + exact_div(row, b)), row - 1, row)]
    share = exact_div(1, b)
    for over, within, between in ways:
        share = maximum(share, over * faster / (within + between * faster))
    sent = {far: call.nbytes * share * several}
    for key in (Key("wire", segment.place) for segment in first.segments):
        sent[key] = work[key] + several * minimum(0, call.nbytes * share / faster - work[key])
    for group in others:
        if group.segments[0].nested:  # one message leaves it, by the links of all its chips
            sent[Key("wire", group.segments[0].place)] = exact_div(call.nbytes * more_than_one(group.size), group.below)
    return Work({key: sent.get(key, amount) for key, amount in work.items()})


def _exchanged_in_parts(call: CollectiveCall) -> Work:
    """Count an AllToAll over slices: between two of them straight, and inside one too where its links are slow.

    A chip sends f out of its slice of B chips, and inside it p_a over the middle of axis a or straight, P in all over a
    link or straight. So in time t, with W over each of L links of a chip and U straight, t_a where none goes straight::

        U·t ≥ max(f, t_a·U·(f + p_a)/(t_a·U + p_a), (f + P)/(1 + L·W/U))
    """
    work = all_links(call)
    first, second, *_ = call.groups
    near, far = ([Key("wire", each.place) for each in group.segments] for group in (first, second))
    inside = {key: exact_div(work[key] * second.below, call.chips) for key in near}
    inner, outer = (call.machine and rate(call.machine, keys[0]) for keys in (near, far))
    if not inner or not outer:
        return Work({key: inside.get(key, amount) for key, amount in work.items()})
    apart, faster, several = call.chips - second.below, outer.value / inner.value, more_than_one(second.size)
    out = work[far[0]]
    each_pair = exact_div(out, apart + 1 * (apart == 0))
    lanes = [ring_or_line(each, each.directions, exact_div(2 * (each.size - 1), each.size)) for each in first.segments]
    straight = maximum(out, (out + each_pair * (second.below - 1)) / (1 + links_in_use(lanes) / faster))
    for axis, key in zip(first.segments, near, strict=True):
        over = exact_div(each_pair * 2 * second.below * ring_distances(axis.size), axis.size * axis.size)
        slow = inside[key] * faster
        straight = maximum(straight, slow * (out + over) / (slow + over + 1 * (slow + over == 0)))
    sent = {key: amount + several * minimum(0, straight / faster - amount) for key, amount in inside.items()}
    sent[far[0]] = straight * several
    return Work({key: sent.get(key, amount) for key, amount in work.items()})


@register(
    "balanced in-switch",
    ["AllReduce"],
    "as in-switch, and a part straight between units: all tiers are busy as long",
    lambda call: require_several_tiers(call) or _without_reduction(call),
)
def balanced_in_switch(call: CollectiveCall) -> Work:
    """Count as :func:`_shared_out` does, of what goes tier by tier through switches that add up."""
    return _shared_out(call, in_switch)


def _shared_out(call: CollectiveCall, formula: Formula) -> Work:
    """Count parts of the data tier by tier, as few bytes as can be further out, and the rest straight between units.

    The rest leaves the innermost tier out where the second has switches, which join all chips; else it takes these two
    in the other order. Tiers further out carry what they must. The rates of the machine share the data out so that the
    first two are busy as long, or as near to that as they go; without rates all of it goes tier by tier.
    """
    spread = call.kind == "Broadcast"
    tier_by_tier = formula(call)
    if len(call.groups) < 2:
        return tier_by_tier
    first, second, *others = call.groups
    keys = [Key("wire", group.segments[0].place) for group in call.groups]
    near, far = keys[:2]
    if first.segments[0].nested:
        # all that goes up a fat tree crosses its first links; the first chip's own part comes back from other units
        pairs = zip(keys, call.groups, strict=True) if spread else ()
        once = {key: exact_div(call.nbytes * more_than_one(group.size), group.below) for key, group in pairs}
        return Work({key: once.get(key, amount) for key, amount in tier_by_tier.items()})
    inner, outer = (call.machine and rate(call.machine, key) for key in (near, far))
    if not inner or not outer:
        return tier_by_tier

    def wires(*groups: LinkGroup) -> Work:
        work = formula(call._replace(kind="AllGather" if spread else call.kind, groups=groups))
        nested = groups[-1].segments[0].nested
        for group in groups if spread else ():
            # one chip has all of it: the tier that carries it first carries a share of one chip more
            if group is groups[-1] or (nested and group.segments[0].nested):
                links = links_in_use([usable_links(each) * more_than_one(each.size) for each in group.segments])
                one = exact_div(call.nbytes, call.chips * links)
                work += sum((Work.wire(segment.place, one) for segment in group.segments), Work())
        return work

    if second.topology == "switch":
        size = second.chips if second.units is second.size else first.size * second.size
        straight = wires(_of_size(second, size, second.chips), *others)
    else:
        size = first.size * second.size
        changed = second._replace(below=1, chips=second.size), first._replace(below=second.size, chips=size)
        straight = wires(*changed, *others)
    # a chip of the smallest unit gets the most from outside, and the least inside; sums can lie where links are free
    adds = [formula is in_switch and call.in_switch(group) for group in (first, second)]
    free = call.kind == "AllReduce" and not adds[1] and first.topology != "torus"
    alike = exact_div(second.chips, second.units) if free else second.below
    inside = first if first.topology == "torus" else _of_size(first, alike, alike)
    least = wires(inside, second, *others)
    if free:  # what the smallest unit sends more out of it is spared inside
        even = wires(inside, second._replace(below=alike), *others)[far]
        apart = (straight[far] - even) * more_than_one(alike)
        spared = (straight[far] - least[far]) / (apart + 1 * (apart == 0))
        spared = spared if adds[0] else spared * _share_of_links(first, second)
        least = Work({key: least[key] * (spared if key == near else 1) for key in keys})
    more = (least[near] - straight[near]) * outer.value + (straight[far] - least[far]) * inner.value
    over = least[near] * outer.value - least[far] * inner.value
    share = minimum(1, maximum(0, over / (more + 1 * (more == 0)))) * more_than_one(second.size)
    sent = {key: least[key] + share * (straight[key] - least[key]) for key in keys}
    # of other units a chip gets as much inside as it can in that time
    sent[near] = maximum(sent[near], minimum(wires(*call.groups)[near], sent[far] * inner.value / outer.value))
    found = Work()
    for group, key in zip(call.groups, keys, strict=True):
        for segment in group.segments:
            hops = tier_by_tier[Key("hops", segment.place)]
            found += Work.wire(segment.place, sent[key] * more_than_one(segment.size))
            found += Work.hops(segment.place, hops * (2 if spread else 1))
    return found


def _share_of_links(first: LinkGroup, second: LinkGroup) -> Size:
    """Links of a chip inside a unit of mean size over those of all chips on average: units are large or small."""
    large, small, mean = first.size, second.below, exact_div(second.chips, second.units)
    if is_symbol(mean):
        return 1
    more = exact_div(second.chips - small * second.units, maximum(1, large - small))

    def links(size: Size) -> Size:
        return usable_links(replace(first.segments[0], size=size))

    all_small = small * links(small) * more_than_one(small)
    every = links_in_use([all_small * second.units, more * (large * links(large) - all_small)])
    return exact_div(links(mean) * second.chips, every)


def _of_size(group: LinkGroup, size: Size, chips: Size) -> LinkGroup:
    """The switches or meshes of a tier that join so many chips, of ``chips`` in all."""
    return LinkGroup((replace(group.segments[0], size=size),), size, 1, chips, chips)


def _fewer_axes(outside: int) -> Fits:
    def unfit(call: CollectiveCall) -> str:
        steps = _one_by_one(call, None)
        if len(steps) > max(outside, 1):
            return ""
        return f"{steps[0].link} is one axis or tier" if len(steps) == 1 else f"{len(steps)} axes or tiers are all"

    return unfit


def _one_by_one(call: CollectiveCall, chips: float | None) -> list[LinkGroup]:
    """The axes and tiers by themselves, from the inside out; of a torus the longest axes last.

    An open number of chips is compared as the number ``chips``.
    """
    found: list[LinkGroup] = []
    for group in call.groups:
        segments, below, sides = list(group.segments), group.below, _sides(group, chips)
        if all(map(is_number, sides.values())):
            segments.sort(key=lambda segment: sides[segment.place])
        for segment in segments:
            found.append(LinkGroup((segment,), segment.size, below, segment.size, below * segment.size))
            below = below * segment.size
    return found


def _sides(group: LinkGroup, chips: float | None) -> dict[str, Any]:
    def side(size: Size) -> Any:
        return float(size.subs(dict.fromkeys(chip_counts(size), chips))) if chips and chip_counts(size) else size

    return {segment.place: side(segment.size) for segment in group.segments}


def _counted(call: CollectiveCall, outside: int) -> Work:
    """Whole partial sums of parts along the ``outside`` outermost axes, of all along each where it is 0."""
    several = [segment.size for group in call.groups if len(group.segments) > 1 for segment in group.segments]
    if any(map(is_array, several)):
        return _of_each_shape(call, outside)
    counts = {count for size in several for count in chip_counts(size)}
    return _of_each_count(call, outside, *counts) if counts else _one_after_the_other(call, outside)


def _one_after_the_other(call: CollectiveCall, outside: int, chips: float | None = None) -> Work:
    steps = _one_by_one(call, chips)
    inside = len(steps) - outside if outside else 0
    parts = steps[inside].below if inside else 1
    work = Work()
    further: Size = 0
    for at, group in reversed(list(enumerate(steps))):
        (segment,) = group.segments
        own = _partial_sums(call.nbytes, segment, parts) if at >= inside else 0
        further = (own + (further if segment.nested else 0)) * more_than_one(segment.size)
        work += Work.wire(segment.place, further)
        work += Work.hops(segment.place, pass_hops(segment) if at >= inside else 0)
    return _alike_on_each_axis(call, work + _within(call, steps[:inside]) if inside else work, chips)


def _partial_sums(nbytes: Size, segment: AxisSegment, parts: Size) -> Size:
    """Bytes over one link: those of all others, or along a line of what is added up on the way."""
    apart = exact_div(nbytes * (segment.size - 1), parts * usable_links(segment))
    return ring_or_line(segment, apart, exact_div(nbytes, parts)) if segment.topology == "torus" else apart


def _within(call: CollectiveCall, steps: Sequence[LinkGroup]) -> Work:
    """Sums over some axes and tiers, of which each chip has its part in between."""
    places = {segment.place for group in steps for segment in group.segments}
    groups = []
    for group in call.groups:
        segments = tuple(segment for segment in group.segments if segment.place in places)
        size = product(segment.size for segment in segments)
        groups += [LinkGroup(segments, size, group.below, size, size * group.below)] if segments else []
    return in_switch(call._replace(groups=tuple(groups), chips=product(group.size for group in groups)))


def _alike_on_each_axis(call: CollectiveCall, work: Work, chips: float | None) -> Work:
    """On a torus whose axes are alike each is the outermost one for its share of the data."""
    segments, sides = call.groups[0].segments, _sides(call.groups[0], chips)
    if len(segments) < 2 or len(call.groups) > 1 or len({(each.shape, sides[each.place]) for each in segments}) > 1:
        return work
    share = exact_div(sum(work[Key("wire", each.place)] for each in segments), len(segments))
    hops = Work({key: amount for key, amount in work.items() if key.quantity == "hops"})
    return sum((Work.wire(segment.place, share) for segment in segments), Work()) + hops


def _of_each_shape(call: CollectiveCall, outside: int) -> Work:
    """The same for arrays of axis sizes, in whose entries other axes are the longest."""
    sides = [side for group in call.groups for each in group.segments for side in (each.size, each.wrap)]
    shape = np.broadcast_shapes(np.shape(call.nbytes), *map(np.shape, sides))
    rows = np.stack([np.broadcast_to(np.asarray(side, dtype=int), shape).ravel() for side in sides], axis=1)
    found: dict[Key, Any] = {}
    for row in np.unique(rows, axis=0):
        own = (rows == row).all(axis=1).reshape(shape)
        left = iter(row.tolist())

        def entry(value: Any, own: Any = own) -> Any:
            return np.broadcast_to(value, shape)[own][0].item() if is_array(value) else value

        groups = []
        for group in call.groups:
            segments = tuple(replace(each, size=next(left), wrap=bool(next(left))) for each in group.segments)
            groups.append(LinkGroup(segments, *map(entry, group[1:])))
        nbytes = np.broadcast_to(call.nbytes, shape)[own] if is_array(call.nbytes) else call.nbytes
        one = call._replace(groups=tuple(groups), nbytes=nbytes, chips=entry(call.chips))
        for key, amount in _one_after_the_other(one, outside).items():
            found.setdefault(key, np.zeros(shape))[own] = amount
    return Work(found)


def _of_each_count(call: CollectiveCall, outside: int, n: Any) -> Work:
    """The same for a number of chips that is open: which axis is the longest changes where two are as long."""
    sizes = [segment.size for group in call.groups for segment in group.segments]
    cases: list[tuple[float, Any]] = []
    last = 0.0
    for edge in sorted({float(edge) for a, b in combinations(sizes, 2) for edge in sympy.solve(a - b, n) if edge > 0}):
        cases += [((last + edge) / 2, n < edge), (edge, n <= edge)]
        last = edge
    pieces = [(_one_after_the_other(call, outside, chips), holds) for chips, holds in [*cases, (last + 1, True)]]
    keys = dict.fromkeys(key for work, _ in pieces for key in work)
    return Work({key: sympy.Piecewise(*((work[key], holds) for work, holds in pieces)) for key in keys})


#: AllReduces by whole sums: along how many of the outermost axes or tiers (0: all), and whether a fat tree is one tier.
_WHOLE_SUMS = (
    ("whole sums", "whole partial sums along one axis or tier after the other", 0, False),
    ("outer one-shot", "parts inside, whole partial sums over the outermost axis or tier", 1, False),
    ("whole sums by rails", "whole sums, the tiers of a fat tree as one", 0, True),
    ("one-shot by rails", "outer one-shot, the tiers of a fat tree as one", 1, True),
    ("two outer one-shots", "the same over the two outermost axes or tiers in turn", 2, False),
)
for _name, _says, _outside, _by_rails in _WHOLE_SUMS:
    _sums, _unfit_sums = partial(_counted, outside=_outside), _fewer_axes(_outside)
    if _by_rails:
        _sums, _unfit_sums = partial(over_rails, formula=_sums), _no_rails(_unfit_sums)
    register(_name, ["AllReduce"], _says, _unfit_sums)(_sums)
