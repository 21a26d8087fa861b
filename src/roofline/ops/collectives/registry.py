"""What a collective goes over, link by link, and the registry of the algorithms that do it.

The segments of its mesh axes are gathered by the link they run over:

>>> from roofline.hardware import chip
>>> [(g.link, g.size, g.below, g.units) for g in link_groups(chip("dgx-h100:1024").mesh.select("X"))]
[('nvlink', 8, 1, 8), ('ib', 32, 8, 128), ('spine', 4, 256, 4)]
>>> [(g.link, g.size) for g in link_groups(chip("v4:4x4x8").mesh.select("XZ"))]
[('ici', 32)]

Parts of one axis of a slice that all take part are that axis again:

>>> from roofline.hardware.mesh import with_mesh
>>> cut = with_mesh(chip("v5e:16"), {"X": 8, "Y": 2}).mesh
>>> [(one.size, one.shape) for names in ("X", "XY") for one in link_groups(cut.select(names))[0].segments]
[(8, 'line'), (16, 'ring')]

An algorithm is a function from a :class:`CollectiveCall` to Work: under each place of the mesh the one-way bytes over
the busiest link, and the link latencies that are paid one after the other. Adding one adds one function, with the
collectives it does and why a network may not fit:

>>> @register("carrier pigeon", ["Send"], "one bird")
... def pigeon(call):
...     return Work.hops("sky", 1)
>>> ALGORITHMS.pop("carrier pigeon").says
'one bird'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

from roofline.frozen import NamedTuple, replace
from roofline.hardware.machine import AxisSegment, Machine, MeshAxis, Reduction
from roofline.ops.collectives.routing import Density, TopKRouting
from roofline.quantity import in_a_row
from roofline.sizes import (
    Size,
    ceil_div,
    chip_counts,
    exact_div,
    floor_div,
    is_array,
    is_one,
    is_symbol,
    log2,
    maximum,
    minimum,
    product,
)
from roofline.work import Work


class LinkGroup(NamedTuple):
    """The segments of mesh axes that run over one link: one for every axis of a torus, else one for all axes together.

    ``size`` is the number of members that the link joins, ``below`` the chips of the collective under each member.
    ``units`` is the number of members on this tier in all. It counts where the link is nested in outer tiers (a fat
    tree): what goes further out crosses this link too. ``chips`` are those under them. Where these do not fill their
    units (20 chips are units of 7, 7 and 6), ``below`` are those of the smallest.
    """

    segments: tuple[AxisSegment, ...]
    size: Size
    below: Size
    units: Size
    chips: Size

    @property
    def link(self) -> str:
        """Name of the link."""
        return self.segments[0].link

    @property
    def topology(self) -> str:
        """``torus``, ``switch`` or ``mesh``."""
        return self.segments[0].topology

    @property
    def reduces(self) -> Reduction | None:
        """What the switches add up on its way, where they do and multicast."""
        return self.segments[0].reduces

    @property
    def alone(self) -> LinkGroup:
        """The tier without what its members send further out."""
        if self.units is self.size:
            return self
        return self._replace(units=self.size, chips=self.size * self.below)

    def exchanged(self, nbytes: Size, rounds: int, lanes: Size = 1) -> Size:
        """Bytes over each of ``lanes`` links of a chip to other members: an array gathered, or in 2 ``rounds`` summed.

        ``rounds``·V·(units − 1)/(units·below). Where members differ, the links of the smallest take the rest of the
        array, V·(chips − below)/(chips·below). Sums can lie where links are free: they cross 2·(units − 1) times in
        all, over all links alike, and V has to leave each member.

        >>> from roofline.hardware import chip
        >>> twenty = link_groups(chip("h100:20").mesh.select("X"))[1]
        >>> twenty.exchanged(120, 1), twenty.exchanged(120, 2)
        (14, 24)
        """
        alike = self.units * self.below
        if is_symbol(alike) or (not is_array(alike) and alike == self.chips):
            return exact_div(nbytes * (self.units - 1) * rounds, alike * lanes)
        if rounds == 1:
            return exact_div(nbytes * (self.chips - self.below), self.chips * self.below * lanes)
        shared = exact_div(2 * nbytes * (self.units - 1), self.chips * lanes)
        return maximum(shared, exact_div(nbytes, self.below * lanes))


def link_groups(axes: Sequence[MeshAxis]) -> tuple[LinkGroup, ...]:
    """Gather the segments of mesh axes by link, from the inside out; axes of one chip run over none."""
    return _grouped(tuple(axes))


@lru_cache(maxsize=1024)
def _grouped(axes: tuple[MeshAxis, ...]) -> tuple[LinkGroup, ...]:
    tiers = sorted({segment.tier for axis in axes for segment in axis.segments})
    found: list[LinkGroup] = []
    outer: Size = 1
    whole = product(axis.size for axis in axes)
    for tier in reversed(tiers):
        segments = tuple(segment for axis in axes for segment in axis.segments if segment.tier == tier)
        size = product(segment.size for segment in segments)
        nested = segments[0].nested
        if segments[0].topology == "torus":
            segments = _rejoined(segments)
        elif len(segments) > 1:
            segments = (replace(segments[0], size=size),)
        below = product(_below(axis, tier) for axis in axes)
        units = size * outer if nested and found else size
        if not found or (nested and found[-1].segments[0].nested and found[-1].chips is whole):
            chips = whole
        else:
            chips = units * below
        found.append(LinkGroup(segments, size, below, units, chips))
        outer = outer * size if nested else 1
    return tuple(reversed(found))


def _rejoined(segments: tuple[AxisSegment, ...]) -> tuple[AxisSegment, ...]:
    """Join the parts of a cut axis of a slice where all of them take part: together they are the whole axis."""
    if all(segment.cut is None for segment in segments):
        return segments
    found: dict[str, AxisSegment] = {}
    for segment in segments:
        parts = [other for other in segments if segment.cut is not None and other.resource == segment.resource]
        if segment.cut is not None and product(part.size for part in parts) == segment.cut[0]:
            found.setdefault(segment.resource, replace(segment, size=segment.cut[0], wrap=segment.cut[1], cut=None))
        else:
            found[segment.place] = segment
    return tuple(found.values())


def _below(axis: MeshAxis, tier: int) -> Size:
    """Chips of one axis under a member of a tier."""
    here = next((segment for segment in axis.segments if segment.tier == tier), None)
    if here is not None and len(axis.segments) > 1 and here.topology != "torus":
        return here.below
    return product(segment.size for segment in axis.segments if segment.tier < tier)


def more_than_one(n: Size) -> Size:
    """Return 1 for more than one member, 0 for one: a link between members is used or not.

    >>> more_than_one(1), more_than_one(8)
    (0, 1)
    """
    return 1 if is_symbol(n) else minimum(1, n - 1)


def half_way(n: Size) -> Size:
    """⌊n/2⌋: hops to the farthest chip of a ring. A symbol is taken to be even: n/2."""
    return n / 2 if is_symbol(n) else floor_div(n, 2)


def ring_distances(n: Size) -> Size:
    """⌊n²/4⌋: sum of the distances from one chip of a ring to all others. A symbol is taken to be even: n²/4.

    >>> [ring_distances(n) for n in (1, 2, 3, 4, 8)] == [0, 1, 1 + 1, 1 + 2 + 1, 1 + 2 + 3 + 4 + 3 + 2 + 1]
    True
    """
    return n * n / 4 if is_symbol(n) else floor_div(n * n, 4)


def doublings(n: Size) -> Size:
    """⌈log₂ n⌉: steps until data that doubles in each step is that of all n chips; log₂ n for a symbol of any chips.

    >>> [doublings(n) for n in (1, 2, 3, 8, 9)]
    [0, 1, 2, 3, 4]
    """
    if is_symbol(n) and not chip_counts(n):
        return log2(n)
    if isinstance(n, int):
        return (n - 1).bit_length()
    return ceil_div(log2(n), 1)


def halvings(n: Size) -> Size:
    """⌊log₂ n⌋: depth of a binary tree of n chips; log₂ n for a symbol of any chips.

    >>> [halvings(n) for n in (1, 2, 3, 8, 9)]
    [0, 1, 1, 3, 3]
    """
    if is_symbol(n) and not chip_counts(n):
        return log2(n)
    if isinstance(n, int):
        return n.bit_length() - 1
    return floor_div(log2(n), 1)


def ring_or_line(segment: AxisSegment, ring: Size, line: Size) -> Size:
    """Choose the figure of a ring or of a line; entry by entry for an array of axis sizes."""
    if is_array(segment.wrap):
        return segment.wrap * ring + (1 - segment.wrap) * line
    return ring if segment.wrap else line


def links_in_use(lanes: Sequence[Size]) -> Size:
    """Add up links; at least 1, so that no links and no bytes divide to 0."""
    total = sum(lanes[1:], lanes[0])
    return total if is_symbol(total) else maximum(1, total)


#: Gives a figure of a segment: the links that a chip sends on at once, or the hops of one pass.
OfSegment: TypeAlias = Callable[[AxisSegment], Size]


def over_links(call: CollectiveCall, sent: Callable[[LinkGroup], Size], hops: OfSegment) -> Work:
    """Work in which each link of a group carries the bytes ``sent``, none where an axis has one chip; and the hops."""
    work = Work()
    for group in call.groups:
        wire = sent(group)
        for segment in group.segments:
            work += Work.wire(segment.place, wire * more_than_one(segment.size))
            work += Work.hops(segment.place, hops(segment))
    return work


#: Every collective, and what it does to an array.
KINDS = {
    "AllGather": "every chip gets the shards of all",
    "ReduceScatter": "partial sums are added up, and every chip keeps one shard",
    "AllReduce": "partial sums are added up, and every chip keeps all",
    "AllToAll": "every chip sends every other its shard: the sharding moves to another dimension",
    "Permute": "every chip sends its message to the next",
    "Broadcast": "one chip's message goes to all",
    "Reduce": "partial sums are added up on one chip",
    "Gather": "one chip gets the shards of all",
    "Scatter": "one chip sends every chip its shard",
    "Send": "one chip's message goes to another, the farthest",
}


#: Collectives with one chip at an end, and those whose messages go over the same links in as many steps. A Reduce is a
#: Broadcast run backwards and added up on its way. What one chip gathers comes over its own links, as where all gather;
#: the other chips of its unit pass on what enters the unit through them.
LIKE = {"Reduce": "Broadcast", "Gather": "AllGather", "Scatter": "ReduceScatter"}

#: Collectives with one chip that has all of it, before or after.
ROOTED = ("Broadcast", "Reduce", "Gather", "Scatter")

#: Algorithms in which switches add up and multicast where they can.
BY_SWITCHES = ("in-switch", "balanced in-switch", "outer one-shot", "two outer one-shots", "one-shot by rails")

#: Collectives that add up.
SUMMING = ("AllReduce", "ReduceScatter", "Reduce")


def least_sent(kind: str, nbytes: Size, chips: Size) -> Size:
    """Bytes that the busiest chip has to send or receive on any network, unless switches reduce; ``nbytes`` is V.

    ::

        AllGather, ReduceScatter    V·(n − 1)/n           Gather, Scatter too
        AllReduce                   2·V·(n − 1)/n
        AllToAll                    V·(n − 1)/n²          a chip holds V/n and keeps 1/n of that
        Permute, Send               V                     Broadcast, Reduce too

    >>> [least_sent(kind, 64, 8) for kind in ("AllGather", "AllReduce", "AllToAll", "Permute")]
    [56, 112, 7, 64]
    """
    if is_one(chips):
        return 0
    kind = LIKE.get(kind, kind)
    if kind in ("Broadcast", "Permute", "Send"):
        return nbytes
    passes = 2 if kind == "AllReduce" else 1
    return exact_div(passes * nbytes * (chips - 1), chips * chips if kind == "AllToAll" else chips)


def bus_share(kind: str, chips: Size) -> Size:
    """Bytes that each chip has to send whatever the network, over those of its buffer, as nccl-tests count them.

    Times the bandwidth of the buffer it is the bus bandwidth, which is at most what a chip sends one way unless
    switches reduce. The buffer is the array; of an AllToAll, the part of it that one chip holds and sends.

    Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md.

    >>> bus_share("AllReduce", 8), bus_share("AllGather", 8), bus_share("AllToAll", 8), bus_share("Broadcast", 8)
    (1.75, 0.875, 0.875, 1)
    """
    if LIKE.get(kind, kind) in ("Broadcast", "Permute", "Send"):
        return 1
    return (2 if kind == "AllReduce" else 1) * (chips - 1) / chips


#: Collectives that gather or reduce.
GATHERING = ("AllGather", "ReduceScatter", "AllReduce")


class CollectiveCall(NamedTuple):
    """One collective of ``chips``: ``nbytes`` is V of the book, ``density`` the share of an AllToAll that is sent.

    ``kind`` is the one whose messages it takes (:data:`LIKE`), ``sums`` says whether it adds up.

    Where rows go to several chips each, ``density`` is their routing, and V has one row for every pair of a row and a
    receiver. ``dtype`` is the format of what is added up; one that is not known is taken to be one that switches add.
    By the rates of its ``machine`` bytes are shared out between tiers.
    """

    kind: str
    groups: tuple[LinkGroup, ...]
    nbytes: Size
    chips: Size
    density: Density = 1
    dtype: str = ""
    sums: bool = False
    machine: Machine | None = None

    @property
    def sent_share(self) -> Size:
        """Share of V/chips that a chip sends, where each other chip gets a row at most once."""
        if not isinstance(self.density, TopKRouting):
            return self.density
        return self.density.crossing_share(self.chips, self.chips) * self.chips / max(self.chips - 1, 1)

    def in_switch(self, group: LinkGroup) -> bool:
        """Whether the switches of a tier do their part of it: they multicast, and add up this format."""
        return group.reduces is not None and (not self.sums or group.reduces.adds(self.dtype))


Formula: TypeAlias = Callable[[CollectiveCall], Work]
Fits: TypeAlias = Callable[[CollectiveCall], str]


class Algorithm(NamedTuple):
    """An algorithm: the collectives it does (``kinds``), what it ``says`` of itself, its ``formula``.

    ``unfit`` returns why a network cannot do it, ``limit`` why its figure is a limit that the network does not reach.
    Both return an empty string where there is no such reason.
    """

    name: str
    kinds: tuple[str, ...]
    says: str
    formula: Formula
    unfit: Fits
    limit: Fits


#: Every algorithm by its name.
ALGORITHMS: dict[str, Algorithm] = {}

#: Other names of the field.
ALIASES = {
    "ring": "one-way-ring", "one-shot": "direct", "nvls": "in-switch", "sharp": "in-switch", "halving-doubling": "tree",
    "flat": "flat-ring",
}  # fmt: skip


def find_algorithm(name: str) -> Algorithm | None:
    """Find an algorithm by its name, written loosely, or by another name of the field.

    >>> find_algorithm("Two_Way ring").name, find_algorithm("one-shot").name, find_algorithm("pigeon")
    ('two-way ring', 'direct', None)
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    plain = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    plain = ALIASES.get(plain, plain)
    return next((each for each in ALGORITHMS.values() if each.name.replace(" ", "-") == plain), None)


def fits_anywhere(call: CollectiveCall) -> str:
    """Fit every network: no reason against it."""
    return ""


def register(
    name: str, kinds: Sequence[str], says: str, unfit: Fits = fits_anywhere, limit: Fits = fits_anywhere
) -> Callable[[Formula], Formula]:
    """Register a formula; ``unfit`` returns why it does not fit a call, ``limit`` why it is never reached there."""

    def keep(formula: Formula) -> Formula:
        alike = (kind for kind, other in LIKE.items() if other in kinds)
        ALGORITHMS[name] = Algorithm(name, (*kinds, *alike), says, formula, unfit, limit)
        return formula

    return keep


def rounds(call: CollectiveCall) -> int:
    """Number of times the data goes round: an AllReduce is a ReduceScatter, then an AllGather."""
    return 2 if call.kind == "AllReduce" else 1


def refuse_torus(call: CollectiveCall) -> str:
    """Refuse links from neighbour to neighbour."""
    slow = next((g for g in call.groups if g.topology == "torus"), None)
    return f"{slow.link} joins neighbours only" if slow else ""


def require_torus(call: CollectiveCall) -> str:
    """Refuse networks without links from neighbour to neighbour."""
    known = not call.groups or any(g.topology == "torus" for g in call.groups)
    return "" if known else f"{call.groups[0].link} is no torus"


def require_switches(call: CollectiveCall) -> str:
    """Refuse all but switches."""
    other = next((g for g in call.groups if g.topology != "switch"), None)
    return f"{other.link} has no switch" if other else ""


def require_closed_axes(call: CollectiveCall) -> str:
    """Refuse axes of a torus that end: only two chips in a line are a ring too."""
    for segment in (segment for group in call.groups if group.topology == "torus" for segment in group.segments):
        open_ended = (1 - segment.wrap) * (1 if is_symbol(segment.size) else segment.size > 2)
        if bool(open_ended.any()) if is_array(open_ended) else open_ended:
            return f"axis {segment.place} does not close"
    return ""


def require_one_tier(call: CollectiveCall) -> str:
    """Refuse networks of several tiers."""
    return f"{in_a_row(g.link for g in call.groups)} are {len(call.groups)} tiers" if len(call.groups) > 1 else ""


def require_several_tiers(call: CollectiveCall) -> str:
    """Refuse networks of one tier."""
    return f"{call.groups[0].link} is one tier" if len(call.groups) == 1 else ""
