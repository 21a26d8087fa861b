"""Trees over switches, and switches that add up what passes them.

With V bytes over n chips on a switch::

    tree, AllGather, ReduceScatter   V·(n − 1)/n                       ⌈log₂ n⌉ hops
          AllReduce                  2·V·(n − 1)/n                     2·⌈log₂ n⌉ hops
          Broadcast                  V·⌈log₂ n⌉ out of the first chip  ⌈log₂ n⌉ hops
    double binary tree, AllReduce    V/2·min(n, 4), in small pieces    2·⌊log₂ n⌋ hops
                        Broadcast    V, in small pieces                ⌈log₂ n⌉ hops
    in-switch, AllReduce             V                                 2 hops
               Broadcast             V                                 1 hop, 2 on tiers below others

A tree doubles in each step what a chip holds (recursive halving and doubling; Bruck's order where n is no power of
two). Two binary trees carry half of the bytes each; a chip between others in one is a leaf of the other, so it sends
to its three neighbours in the one and its one in the other, V/2 each (fewer than four chips have fewer neighbours; a
symbol is taken to be at least 4). A switch that reduces (NVLink SHARP, SHARP) takes each chip's V once and returns the
sum, and switches pass it on to one another; over tiers each unit sends V on, so each of its chips sends its part.

Sources: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19, 2005; J. Bruck et al., "Efficient algorithms for all-to-all
communications in multiport message-passing systems", IEEE TPDS 8, 1997; P. Sanders, J. Speck, J. L. Träff, "Two-tree
algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35, 2009; R. Graham et al., "Scalable
Hierarchical Aggregation Protocol (SHArP)", COMHPC 2016; "How To Scale Your Model", chapter 12.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.hardware.axes import AxisSegment
from roofline.ops.collective_algorithms import GATHERING, Call, algorithm, one_link, only_switches
from roofline.ops.collective_groups import Group, doublings, halvings, present
from roofline.ops.collective_ring import natural_hops, passing, spread
from roofline.sizes import Size, exact_div, is_symbol, minimum
from roofline.work import Work


@algorithm("tree", (*GATHERING, "Broadcast"), "recursive halving and doubling, log₂ n steps", only_switches)
def tree(call: Call) -> Work:
    """Count a ring's bytes in as many steps as a tree is deep."""
    if call.kind != "Broadcast":
        return passing(call, lambda level: 1, lambda level: doublings(level.size))

    def sent(group: Group, level: AxisSegment) -> Size:
        return exact_div(call.nbytes * doublings(level.size), group.below)

    return spread(call, sent, lambda level: doublings(level.size), lambda level: doublings(level.size))


@algorithm(
    "double binary tree",
    ["AllReduce", "Broadcast"],
    "half of the bytes by each of two binary trees",
    lambda call: only_switches(call) or one_link(call),
)
def double_binary_tree(call: Call) -> Work:
    """Count two trees: what is added up goes up to the top of each, and every result comes down."""
    work = Work()
    for group in call.groups:
        (level,) = group.levels
        n = level.size
        if call.kind == "Broadcast":
            wire, hops = call.nbytes, doublings(n)
        else:
            neighbours = 4 if is_symbol(n) else minimum(4, n)
            wire, hops = exact_div(call.nbytes * neighbours, 2), 2 * halvings(n)
        work += Work.wire(level.place, wire * present(n)) + Work.hops(level.place, hops)
    return work


def _adds_nothing(call: Call) -> str:
    plain = next((group for group in call.groups if not group.reduces), None)
    return f"{plain.link} has no switches that reduce" if plain else ""


@algorithm("in-switch", ["AllReduce", "Broadcast"], "the switches reduce and multicast (SHARP, NVLS)", _adds_nothing)
def in_switch(call: Call) -> Work:
    """Count what a chip sends once: its bytes, or its part of its unit's."""
    if call.kind == "Broadcast":
        whole = call._replace(groups=tuple(group._replace(levels=_passed_on(group)) for group in call.groups))
        return spread(whole, lambda group, level: exact_div(call.nbytes, group.below), natural_hops, natural_hops)
    work = Work()
    for group in call.groups:
        (level,) = group.levels
        wire = exact_div(call.nbytes * present(level.size), group.below)
        work += Work.wire(level.place, wire) + Work.hops(level.place, 2 * present(level.size))
    return work


def _passed_on(group: Group) -> tuple[AxisSegment, ...]:
    """A switch sends on to the next what it has got, so no chip's own link is crossed again."""
    return tuple(replace(level, nested=False) for level in group.levels)
