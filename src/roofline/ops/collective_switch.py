"""Trees over switches, and switches that add up what passes them.

With V bytes over n chips on a switch::

    tree, AllGather, ReduceScatter   V·(n − 1)/n                       ⌈log₂ n⌉ hops
          AllReduce                  2·V·(n − 1)/n                     2·⌈log₂ n⌉ hops
          Broadcast                  V·⌈log₂ n⌉ out of the first chip  ⌈log₂ n⌉ hops
    in-switch, AllReduce             V                                 2 hops
               Broadcast             V                                 1 hop

A tree doubles in each step what a chip holds (recursive halving and doubling; Bruck's order where n is no power of
two). A switch that reduces (NVLink SHARP, SHARP) takes each chip's V once and returns the sum; over tiers each unit
sends V on, so each of its chips sends its part.

Sources: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19, 2005; J. Bruck et al., "Efficient algorithms for all-to-all
communications in multiport message-passing systems", IEEE TPDS 8, 1997; R. Graham et al., "Scalable Hierarchical
Aggregation Protocol (SHArP)", COMHPC 2016; "How To Scale Your Model", chapter 12.
"""

from __future__ import annotations

from roofline.ops.collective_algorithms import GATHERING, Call, algorithm, only_switches
from roofline.ops.collective_groups import doublings, present
from roofline.ops.collective_ring import passing
from roofline.sizes import exact_div
from roofline.work import Work


@algorithm("tree", (*GATHERING, "Broadcast"), "recursive halving and doubling, log₂ n steps", only_switches)
def tree(call: Call) -> Work:
    """Count a ring's bytes in as many steps as a tree is deep."""
    if call.kind != "Broadcast":
        return passing(call, lambda level: 1, lambda level: doublings(level.size))
    work = Work()
    for group in call.groups:
        (level,) = group.levels
        steps = doublings(level.size)
        work += Work.wire(level.place, exact_div(call.nbytes * steps, group.below)) + Work.hops(level.place, steps)
    return work


def _adds_nothing(call: Call) -> str:
    plain = next((group for group in call.groups if not group.reduces), None)
    return f"{plain.link} has no switches that reduce" if plain else ""


@algorithm("in-switch", ["AllReduce", "Broadcast"], "the switches reduce and multicast (SHARP, NVLS)", _adds_nothing)
def in_switch(call: Call) -> Work:
    """Count what a chip sends once: its bytes, or its part of its unit's."""
    work = Work()
    up_and_down = 2 if call.kind == "AllReduce" else 1
    for group in call.groups:
        (level,) = group.levels
        wire = exact_div(call.nbytes * present(level.size), group.below)
        work += Work.wire(level.place, wire) + Work.hops(level.place, up_and_down * present(level.size))
    return work
