"""Direct exchange, trees, and switches that reduce.

Direct exchange: every chip sends to every other, on switches and meshes in one hop. With V bytes over n chips, W one
way into a switch, or over one of the n − 1 links of a mesh::

    AllGather, ReduceScatter    V·(n − 1)/n into the switch, V/n over each link of a mesh        1 hop
    AllReduce, direct           V·(n − 1): the whole partial sum to each other chip (one-shot)   1 hop
    AllReduce, two-shot         2·V·(n − 1)/n: ReduceScatter, then AllGather, both direct        2 hops
    AllToAll                    V·(n − 1)/n²                                                     1 hop
    Permute                     V to the next chip; on a line the last one's goes all the way back
    Send                        V to the farthest chip, by all axes of a torus at once
    Broadcast                   V·(n − 1) out of the first chip                                  1 hop

Over tiers n − B of the n − 1 messages leave a unit of B chips, each by its sender's own link: n − B takes the place of
n − 1 there. The one hop is over the outermost tier.

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
returns the sum; switches pass it on to one another. Over tiers each unit sends V on, each of its chips a part.

Sources: "How To Scale Your Model", chapter 12; E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn, "Collective
communication: theory, practice, and experience", CCPE 19, 2007; R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19, 2005;
J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE TPDS 8,
1997; P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
Parallel Computing 35, 2009; R. Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP)", COMHPC 2016.
"""

from __future__ import annotations

from roofline.frozen import replace
from roofline.hardware.axes import AxisSegment
from roofline.ops.collectives import rings
from roofline.ops.collectives.registry import (
    GATHERING,
    CollectiveCall,
    LinkGroup,
    doublings,
    halvings,
    links_in_use,
    more_than_one,
    over_links,
    refuse_torus,
    register,
    require_one_tier,
    require_switches,
    ring_or_line,
)
from roofline.ops.collectives.routing import TopKRouting
from roofline.sizes import Size, chip_counts, exact_div, is_symbol, minimum
from roofline.work import Work


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


@register("two-shot", ["AllReduce"], "a direct ReduceScatter, then a direct AllGather", refuse_torus)
def two_shot(call: CollectiveCall) -> Work:
    """Count two direct exchanges of one share each."""
    return _gathered(call._replace(kind="AllGather")) * 2


def _gathered(call: CollectiveCall) -> Work:
    if refuse_torus(call):
        return rings.pass_between_neighbours(call, rings.usable_links, rings.pass_hops)
    sent = call.nbytes
    return rings.exchange_directly(call, lambda group: exact_div(sent * (group.chips - group.below), call.chips))


def _whole_partials(call: CollectiveCall) -> Work:
    """Gather the partial sums of all chips, N·V bytes, and add them up on each."""
    return _gathered(call._replace(kind="AllGather", nbytes=call.nbytes * call.chips))


def _permuted(call: CollectiveCall) -> Work:
    """Send to the next chip; on a line the message of the last chip goes back over all links.

    Behind switches a message takes one hop, over the outermost tier.
    """
    work = Work()
    inside: Size = 1
    for group in reversed(call.groups):
        for segment in group.segments:
            wire = call.nbytes * more_than_one(segment.size)
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
        wire = exact_div(call.nbytes * sent, links_in_use([more_than_one(segment.size) for segment in group.segments]))
        for segment in group.segments:
            work += Work.wire(segment.place, wire * more_than_one(segment.size))
            work += Work.hops(segment.place, rings.pass_hops(segment) * inside)
        above = nested
        if group.topology != "torus":
            inside = inside * (1 - more_than_one(group.size))
    return work


def _broadcast(call: CollectiveCall) -> Work:
    """Send all of the message to each chip: on a torus from neighbour to neighbour, the shortest way."""
    if refuse_torus(call):
        return over_links(call, lambda group: call.nbytes, rings.pass_hops)
    return rings.exchange_directly(call, lambda group: call.nbytes * (group.chips - group.below))


_COUNTS = {
    "AllGather": _gathered,
    "ReduceScatter": _gathered,
    "AllReduce": _whole_partials,
    "AllToAll": rings.direct_all_to_all,
    "Permute": _permuted,
    "Send": _sent,
    "Broadcast": _broadcast,
}


@register("tree", (*GATHERING, "Broadcast"), "recursive halving and doubling, log₂ n steps", require_switches)
def tree(call: CollectiveCall) -> Work:
    """Count a ring's bytes in as many steps as a tree is deep."""

    def sent(group: LinkGroup, segment: AxisSegment) -> Size:
        return exact_div(call.nbytes * deep(segment), group.below)

    def deep(segment: AxisSegment) -> Size:
        return doublings(segment.size)

    if call.kind == "Broadcast":
        return rings.broadcast_over_tiers(call, sent, deep, deep)
    return rings.pass_between_neighbours(call, lambda segment: 1, deep)


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
    for group in reversed(call.groups):
        if not group.segments[0].nested:
            above = exchanged = 0
        if call.in_switch(group):
            wire = above = exact_div(call.nbytes, group.below) + exchanged
        else:
            wire = above = exchanged = rings.summed_over(group.alone, call.nbytes) + above
        for segment in group.segments:
            work += Work.wire(segment.place, wire * more_than_one(segment.size))
            work += Work.hops(segment.place, 2 * rings.pass_hops(segment))
    return work


def _multicast(call: CollectiveCall) -> Work:
    """Broadcast once over each tier, by its switches where they multicast; a switch passes data on to the next."""
    groups = tuple(
        group._replace(segments=_passed_on(group)) if call.in_switch(group) else group for group in call.groups
    )

    def passed(segment: AxisSegment) -> Size:
        return rings.spread_hops(segment) if segment.reduces is None else rings.pass_hops(segment)

    sent = rings.sent_by_first(call, rings.usable_links)
    return rings.broadcast_over_tiers(call._replace(groups=groups), sent, passed, rings.pass_hops)


def _passed_on(group: LinkGroup) -> tuple[AxisSegment, ...]:
    """Segments as not nested: a switch passes data on to the next, so no link of a chip is crossed again."""
    return tuple(replace(segment, nested=False) for segment in group.segments)
