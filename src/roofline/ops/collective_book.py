"""The limiting forms of "How To Scale Your Model": axes large, every torus axis a ring.

With V bytes and W two ways over one link (2·W one way), or W out of a GPU or a node::

    AllGather, ReduceScatter    V/(W·axes)                       ⌊n/2⌋ hops on each axis of a torus
    AllReduce                   2·V/(W·axes)
    AllToAll                    V/(4·W) on a ring; V·max(A, B, C)/(4·A·B·C·W) on a torus; V/(n·W) on a switch
    over tiers                  the largest of V/W over the tiers, W what leaves one of its units

``book-levels`` keeps the exact factor of each tier of a fat tree, V·(D − 1)/(D·W) with D children: the chapter's more
precise form. It leaves out that what goes further up crosses the tiers below it too, so it can fall below what
``hierarchical`` gives: with 128 nodes a node gets 127/128 of V through its own links, not 31/32.

Source: "How To Scale Your Model", chapters 3 and 12.
"""

from __future__ import annotations

from roofline.ops.collective_algorithms import GATHERING, Call, algorithm, all_close, passes, several_links
from roofline.ops.collective_groups import Group, half, present, used
from roofline.ops.collective_ring import exchange, held, hierarchical, natural_hops
from roofline.sizes import Size, exact_div
from roofline.work import Key, Work


def _limit(call: Call) -> str:
    open_ended = all_close(call)
    return f"a limit of rings, and {open_ended}" if open_ended else "a limit"


@algorithm("book", (*GATHERING, "AllToAll"), "the book's limiting form V/W", limit=_limit)
def book(call: Call) -> Work:
    """Count the limiting form."""
    count = _shuffled if call.kind == "AllToAll" else _gathered
    work = Work()
    for group in call.groups:
        work += count(call, group)
    return work


def _gathered(call: Call, group: Group) -> Work:
    work = Work()
    wire = exact_div(call.nbytes * passes(call), group.below * _ways(group))
    for level in group.levels:
        hops = half(level.size) if level.topology == "torus" else natural_hops(level)
        work += Work.wire(level.place, wire * present(level.size)) + Work.hops(level.place, hops * passes(call))
    return work


def _ways(group: Group) -> Size:
    if group.topology == "torus":
        return used([2 * present(level.size) for level in group.levels])
    return group.size if group.topology == "mesh" else 1


def _shuffled(call: Call, group: Group) -> Work:
    work, directly = Work(), exchange(call._replace(density=call.sent))
    for level in group.levels:
        if level.topology == "torus":
            wire, hops = exact_div(held(call) * level.size * present(level.size), 8), half(level.size)
        else:
            reached = exact_div(held(call) * group.below * group.units, call.chips)
            wire, hops = exact_div(reached * present(level.size), _ways(group)), directly[Key("hops", level.place)]
        work += Work.wire(level.place, wire) + Work.hops(level.place, hops)
    return work


@algorithm("book-levels", (*GATHERING, "AllToAll"), "each tier by itself, V·(D − 1)/(D·W)", several_links, _limit)
def book_levels(call: Call) -> Work:
    """Count each tier by the children of its own units."""
    return hierarchical(call._replace(groups=tuple(group._replace(units=group.size) for group in call.groups)))
