"""AllReduce by whole partial sums along some axes or tiers, one after the other: fewer hops than two passes.

With V bytes over n chips of one axis, d ways round a ring::

    along a line     V over each link each way    n − 1 hops     a chain: sums are added up on the way, from both ends
    round a ring     V·(n − 1)/d                  ⌊n/2⌋ hops
    over a switch    V·(n − 1)                    1 hop
    over a mesh      V over each link             1 hop

``whole sums`` does so along every axis and tier, whose hops add up. ``outer one-shot`` scatters and gathers inside,
so that only a part of V, 1/chips of a unit, goes over the outermost tier or the longest axis of a torus; ``two outer
one-shots`` goes over the two outermost. Between two nodes that takes the bytes of ``hierarchical`` in half its hops.
On a torus whose axes are alike each axis is the outermost for a share of the data. Of axes that differ the longest is.

>>> from roofline.hardware import chip
>>> from roofline.ops.collectives.cost import cost
>>> for algorithm in ("whole sums", "outer one-shot", "torus"):
...     print(cost("AllReduce", chip("v5e:16x16").mesh.axes, 256, algorithm=algorithm).work)
Work(wire/X: 1920, wire/Y: 1920, hops/Y: 8, hops/X: 8)
Work(wire/X: 180, wire/Y: 180, hops/Y: 8, hops/X: 16)
Work(wire/X: 127.5, hops/X: 16, wire/Y: 127.5, hops/Y: 16)

A line is a tree over each of whose links goes the sum of either side. Sums along one dimension after the other are
those of E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn, "Collective communication: theory, practice, and
experience", CCPE 19, 2007; one-shot exchanges of small arrays are those of TensorRT-LLM and MSCCL++.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from roofline.frozen import replace
from roofline.hardware.machine import AxisSegment
from roofline.lazy import np, sympy
from roofline.ops.collectives.registry import CollectiveCall, Fits, LinkGroup, more_than_one, register, ring_or_line
from roofline.ops.collectives.rings_and_trees import in_switch, pass_hops, usable_links
from roofline.sizes import Size, chip_counts, exact_div, is_array, is_number, product
from roofline.work import Key, Work


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


@register("whole sums", ["AllReduce"], "whole partial sums along one axis or tier after the other", _fewer_axes(0))
def whole_sums(call: CollectiveCall) -> Work:
    """Count whole partial sums along every axis and tier."""
    return _counted(call, 0)


@register(
    "outer one-shot", ["AllReduce"], "parts inside, whole partial sums over the outermost axis or tier", _fewer_axes(1)
)
def outer_one_shot(call: CollectiveCall) -> Work:
    """Count a ReduceScatter, whole partial sums of each part along the outermost axis or tier, and an AllGather."""
    return _counted(call, 1)


@register("two outer one-shots", ["AllReduce"], "the same over the two outermost axes or tiers in turn", _fewer_axes(2))
def two_outer_one_shots(call: CollectiveCall) -> Work:
    """Count the same with whole partial sums along the two outermost axes or tiers, one after the other."""
    return _counted(call, 2)
