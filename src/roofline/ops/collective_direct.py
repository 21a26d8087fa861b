"""Direct exchange: every chip sends to every other, on switches and meshes in one hop.

With V bytes over n chips, W one way into a switch, or over one of the n − 1 links of a mesh::

    AllGather, ReduceScatter    V·(n − 1)/n into the switch, V/n over each link of a mesh        1 hop
    AllReduce, direct           V·(n − 1): the whole partial sum to each other chip (one-shot)   1 hop
    AllReduce, two-shot         2·V·(n − 1)/n: ReduceScatter, then AllGather, both direct        2 hops a tier
    AllToAll                    V·(n − 1)/n²; over tiers, the share that crosses each            1 hop
    Permute                     V to the next chip; on a line the last one's goes all the way back
    Send                        V to the farthest chip, by all axes of a torus at once
    Broadcast                   V·(n − 1) out of the first chip                                  1 hop

On a torus the whole partial sums pass from neighbour to neighbour: V·(N − 1)/Σd over each link.

Sources: "How To Scale Your Model", chapter 12; E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn, "Collective
communication: theory, practice, and experience", CCPE 19, 2007.
"""

from __future__ import annotations

from roofline.ops.collective_algorithms import GATHERING, Call, algorithm, no_torus, one_link
from roofline.ops.collective_groups import closed_or_open, present, used
from roofline.ops.collective_picks import Picks
from roofline.ops.collective_ring import exchange, natural_hops, natural_ways, passing
from roofline.sizes import Size, exact_div
from roofline.work import Work


def _unfit(call: Call) -> str:
    if call.kind in ("ReduceScatter", "AllToAll", "Broadcast"):
        return no_torus(call) or ("" if call.kind == "AllToAll" else one_link(call))
    return one_link(call) if call.kind in GATHERING else ""


@algorithm("direct", (*GATHERING, "AllToAll", "Permute", "Send", "Broadcast"), "every chip to every other", _unfit)
def direct(call: Call) -> Work:
    """Count a direct exchange; a row for several chips is sent to each of them, wherever they are."""
    if isinstance(call.density, Picks) and not call.sent:
        return Work()
    several = call._replace(density=call.sent) if len(call.groups) > 1 else call
    return _COUNTS[call.kind](several)


@algorithm("two-shot", ["AllReduce"], "a direct ReduceScatter, then a direct AllGather", no_torus)
def two_shot(call: Call) -> Work:
    """Count two direct exchanges of one share each."""
    return _gathered(call._replace(kind="AllGather")) * 2


def _gathered(call: Call) -> Work:
    if any(group.topology == "torus" for group in call.groups):
        return passing(call, natural_ways, natural_hops)
    work = Work()
    for group in call.groups:
        (level,) = group.levels
        wire = exact_div(call.nbytes * (group.units - 1), group.units * group.below * natural_ways(level))
        work += Work.wire(level.place, wire) + Work.hops(level.place, present(level.size))
    return work


def _whole_partials(call: Call) -> Work:
    """Gather the partial sums of all chips, N·V bytes, and add them up on each."""
    return _gathered(call._replace(kind="AllGather", nbytes=call.nbytes * call.chips))


def _permuted(call: Call) -> Work:
    """Send to the next chip; where a line has no way back, the last chip's message crosses it whole.

    Behind switches a message takes one hop, over the outermost tier that there is.
    """
    work = Work()
    inside: Size = 1
    for group in reversed(call.groups):
        for level in group.levels:
            wire = call.nbytes * present(level.size)
            around = inside if level.topology != "torus" else closed_or_open(level, 1, level.size - 1)
            work += Work.wire(level.place, wire) + Work.hops(level.place, around * present(level.size))
        inside = inside * (1 - present(group.size))
    return work


def _sent(call: Call) -> Work:
    """Send to the farthest chip: behind switches over the outermost tier, on a torus by all axes at once."""
    work = Work()
    inside: Size = 1
    above = False
    for group in reversed(call.groups):
        nested = group.levels[0].nested
        sent = 1 if nested and above else inside
        wire = exact_div(call.nbytes * sent, used([present(level.size) for level in group.levels]))
        for level in group.levels:
            work += Work.wire(level.place, wire * present(level.size))
            work += Work.hops(level.place, natural_hops(level) * inside)
        above = nested
        if group.topology != "torus":
            inside = inside * (1 - present(group.size))
    return work


def _broadcast(call: Call) -> Work:
    work = Work()
    for group in call.groups:
        (level,) = group.levels
        wire = exact_div(call.nbytes * (level.size - 1), natural_ways(level))
        work += Work.wire(level.place, wire) + Work.hops(level.place, present(level.size))
    return work


_COUNTS = {
    "AllGather": _gathered,
    "ReduceScatter": _gathered,
    "AllReduce": _whole_partials,
    "AllToAll": exchange,
    "Permute": _permuted,
    "Send": _sent,
    "Broadcast": _broadcast,
}
