"""What a collective goes over, link by link: the levels of its mesh axes, gathered by the link they run over.

>>> from roofline.hardware import chip
>>> [(g.link, g.size, g.below, g.units) for g in groups(chip("dgx-h100:1024").mesh.select("X"))]
[('nvlink', 8, 1, 8), ('ib', 32, 8, 128), ('spine', 4, 256, 4)]
>>> [(g.link, g.size) for g in groups(chip("v4:4x4x8").mesh.select("XZ"))]
[('ici', 32)]

Parts of one axis of a slice, where all of them take part, are that axis again:

>>> from roofline.hardware.mesh import with_mesh
>>> cut = with_mesh(chip("v5e:16"), {"X": 8, "Y": 2}).mesh
>>> [(level.size, level.shape) for names in ("X", "XY") for level in groups(cut.select(names))[0].levels]
[(8, 'line'), (16, 'ring')]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from roofline.hardware.axes import AxisSegment, MeshAxis
from roofline.sizes import Size, ceil_div, floor_div, is_array, is_symbol, log2, maximum, minimum, product


class Group(NamedTuple):
    """The levels that run over one link: one for every axis of a torus, else one for all axes together.

    ``size`` counts the members joined, ``below`` the chips of the collective under each member, ``units`` the members
    of this kind in all: where the link is nested in the tiers outside it (a fat tree), what goes further out crosses
    it too, so members of other units count.
    """

    levels: tuple[AxisSegment, ...]
    size: Size
    below: Size
    units: Size

    @property
    def link(self) -> str:
        """Name of the link."""
        return self.levels[0].link

    @property
    def topology(self) -> str:
        """``torus``, ``switch`` or ``mesh``."""
        return self.levels[0].topology

    @property
    def reduces(self) -> bool:
        """Whether the switches add up what passes them."""
        return self.levels[0].reduces


def groups(axes: Sequence[MeshAxis]) -> tuple[Group, ...]:
    """Gather the levels of mesh axes by link, from the inside out; axes of one chip run over none."""
    tiers = sorted({level.tier for axis in axes for level in axis.segments})
    found: list[Group] = []
    outer: Size = 1
    for tier in reversed(tiers):
        levels = tuple(level for axis in axes for level in axis.segments if level.tier == tier)
        size = product(level.size for level in levels)
        nested = levels[0].nested
        levels = (replace(levels[0], size=size),) if levels[0].topology != "torus" else _rejoined(levels)
        found.append(
            Group(levels, size, product(_below(axis, tier) for axis in axes), size * outer if nested else size)
        )
        outer = outer * size if nested else 1
    return tuple(reversed(found))


def _rejoined(levels: tuple[AxisSegment, ...]) -> tuple[AxisSegment, ...]:
    """Put the parts of a cut axis of a slice together again where all of them take part: they are the whole axis."""
    found: dict[str, AxisSegment] = {}
    for level in levels:
        parts = [other for other in levels if level.cut is not None and other.resource == level.resource]
        if level.cut is not None and product(part.size for part in parts) == level.cut[0]:
            found.setdefault(level.resource, replace(level, size=level.cut[0], wrap=level.cut[1], cut=None))
        else:
            found[level.place] = level
    return tuple(found.values())


def _below(axis: MeshAxis, tier: int) -> Size:
    """Chips of one axis under a member of a tier."""
    here = next((level for level in axis.segments if level.tier == tier), None)
    if here is not None and len(axis.segments) > 1 and here.topology != "torus":
        return here.below
    return product(level.size for level in axis.segments if level.tier < tier)


def present(n: Size) -> Size:
    """1 where there is more than one member, 0 where there is one.

    >>> present(1), present(8)
    (0, 1)
    """
    return 1 if is_symbol(n) else minimum(1, n - 1)


def half(n: Size) -> Size:
    """⌊n/2⌋: the farthest chip of a ring; exactly n/2 for a symbol, which is taken to be even."""
    return n / 2 if is_symbol(n) else floor_div(n, 2)


def ring_distances(n: Size) -> Size:
    """⌊n²/4⌋: the distances from one chip of a ring to all others; n²/4 for a symbol, which is taken to be even.

    >>> [ring_distances(n) for n in (1, 2, 3, 4, 8)] == [0, 1, 1 + 1, 1 + 2 + 1, 1 + 2 + 3 + 4 + 3 + 2 + 1]
    True
    """
    return n * n / 4 if is_symbol(n) else floor_div(n * n, 4)


def doublings(n: Size) -> Size:
    """⌈log₂ n⌉: steps in which what a chip has can double until it has come from all n; log₂ n for a symbol.

    >>> [doublings(n) for n in (1, 2, 3, 8, 9)]
    [0, 1, 2, 3, 4]
    """
    if is_symbol(n):
        return log2(n)
    if isinstance(n, int):
        return (n - 1).bit_length()
    return ceil_div(log2(n), 1)


def halvings(n: Size) -> Size:
    """⌊log₂ n⌋: how deep a binary tree of n chips is; log₂ n for a symbol.

    >>> [halvings(n) for n in (1, 2, 3, 8, 9)]
    [0, 1, 1, 3, 3]
    """
    if is_symbol(n):
        return log2(n)
    if isinstance(n, int):
        return n.bit_length() - 1
    return floor_div(log2(n), 1)


def closed_or_open(level: AxisSegment, ring: Size, line: Size) -> Size:
    """Choose between what holds on a ring and on a line, entry by entry where the axis is an array of sizes."""
    if is_array(level.wrap):
        return level.wrap * ring + (1 - level.wrap) * line
    return ring if level.wrap else line


def used(lanes: Sequence[Size]) -> Size:
    """Add up the links in use, and take one for none: nothing goes over them then."""
    total = sum(lanes[1:], lanes[0])
    return total if is_symbol(total) else maximum(1, total)
