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

from roofline.ops.collectives.algorithms import (
    GATHERING,
    CollectiveCall,
    LinkGroup,
    half_way,
    links_in_use,
    more_than_one,
    register,
    require_closed_axes,
    require_several_tiers,
    rounds,
)
from roofline.ops.collectives.rings import direct_all_to_all, hierarchical, pass_hops, sent_by_each
from roofline.sizes import Size, exact_div
from roofline.work import Key, Work


def _limit(call: CollectiveCall) -> str:
    open_ended = require_closed_axes(call)
    return f"a limit of rings, and {open_ended}" if open_ended else "a limit"


@register("book", (*GATHERING, "AllToAll"), "the book's limiting form V/W", limit=_limit)
def book(call: CollectiveCall) -> Work:
    """Count the limiting form."""
    count = _all_to_all if call.kind == "AllToAll" else _gathered
    work = Work()
    for group in call.groups:
        work += count(call, group)
    return work


def _gathered(call: CollectiveCall, group: LinkGroup) -> Work:
    work = Work()
    wire = exact_div(call.nbytes * rounds(call), group.below * _ways(group))
    for segment in group.segments:
        hops = half_way(segment.size) if segment.topology == "torus" else pass_hops(segment)
        work += Work.wire(segment.place, wire * more_than_one(segment.size)) + Work.hops(
            segment.place, hops * rounds(call)
        )
    return work


def _ways(group: LinkGroup) -> Size:
    if group.topology == "torus":
        return links_in_use([2 * more_than_one(segment.size) for segment in group.segments])
    return group.size if group.topology == "mesh" else 1


def _all_to_all(call: CollectiveCall, group: LinkGroup) -> Work:
    work, directly = Work(), direct_all_to_all(call._replace(density=call.sent_share))
    for segment in group.segments:
        if segment.topology == "torus":
            wire, hops = (
                exact_div(sent_by_each(call) * segment.size * more_than_one(segment.size), 8),
                half_way(segment.size),
            )
        else:
            reached = exact_div(sent_by_each(call) * group.below * group.units, call.chips)
            wire, hops = (
                exact_div(reached * more_than_one(segment.size), _ways(group)),
                directly[Key("hops", segment.place)],
            )
        work += Work.wire(segment.place, wire) + Work.hops(segment.place, hops)
    return work


@register(
    "book-levels", (*GATHERING, "AllToAll"), "each tier by itself, V·(D − 1)/(D·W)", require_several_tiers, _limit
)
def book_levels(call: CollectiveCall) -> Work:
    """Count each tier by the children of its own units."""
    return hierarchical(call._replace(groups=tuple(group._replace(units=group.size) for group in call.groups)))
