"""Small networks of every shape: as mesh axes for the formulas, and as dimensions for the simulation.

A network has tiers from the inside out. A tier is one or several axes of a torus, a switch, or a mesh of links.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as every
from math import prod
from typing import NamedTuple

from simulate import Dimension

from roofline.hardware.machine import AxisSegment, MeshAxis, Reduction


class Network(NamedTuple):
    """``tiers`` for the simulation, ``axes`` for the formulas; chips have their outermost coordinate first."""

    name: str
    tiers: tuple[tuple[Dimension, ...], ...]
    axes: tuple[MeshAxis, ...]

    @property
    def dimensions(self) -> list[Dimension]:
        return [dimension for tier in reversed(self.tiers) for dimension in tier]

    @property
    def chips(self) -> int:
        return prod(dimension.size for dimension in self.dimensions)

    def by(self, kinds: dict[str, str]) -> Network:
        """The same chips whose data goes another way: other kinds of dimensions."""
        return self._replace(
            tiers=tuple(tuple(d._replace(kind=kinds.get(d.kind, d.kind)) for d in tier) for tier in self.tiers)
        )

    @property
    def joined(self) -> Network:
        """The tiers of a fat tree as one, in which a message crosses the further ones where it has to."""
        nested = {s.place for axis in self.axes for s in axis.segments if s.nested}
        if not nested:
            return self
        inner = [tier for tier in self.tiers if tier[0].place not in nested]
        first, *outer = (tier[0] for tier in self.tiers if tier[0].place in nested)
        beyond, size = [], first.size
        for each in outer:
            beyond.append((each.place, size))
            size *= each.size
        return self._replace(tiers=(*inner, (first._replace(size=size, beyond=tuple(beyond)),)))

    def is_torus(self, tier: int) -> bool:
        return self.tiers[tier][0].kind not in ("switch", "mesh")


def level(dimension: Dimension, tier: int = 0, below: int = 1, *, nested: bool = False) -> AxisSegment:
    place, size, kind = dimension[:3]
    topology = kind if kind in ("switch", "mesh") else "torus"
    link = place.rpartition(".")[2] if topology != "torus" else f"ici {tier}"
    return AxisSegment(
        place,
        place,
        link,
        tier,
        topology,
        size,
        kind == "ring",
        below,
        nested=nested,
        reduces=Reduction() if dimension.reduces else None,
    )


def one(kind: str, size: int) -> Network:
    """One axis over one link."""
    dimension = Dimension("X", size, kind, (), kind == "switch")
    levels = (level(dimension),) if size > 1 else ()
    return Network(f"{kind} {size}", ((dimension,),), (MeshAxis("X", size, levels),))


def torus(*sides: tuple[int, str], tier: int = 0, names: str = "XYZ") -> Network:
    """A torus of several axes, each a ring or a line."""
    dimensions = tuple(Dimension(place, size, kind) for place, (size, kind) in zip(names, sides, strict=False))
    axes = tuple(MeshAxis(d.place, d.size, (level(d, tier),) if d.size > 1 else ()) for d in dimensions)
    name = " x ".join(f"{kind} {size}" for size, kind in sides)
    return Network(name, (dimensions,), axes)


def inside(inner: Network, outer: Network) -> Network:
    """One network within each member of another: slices over a network between them, two kinds of links."""
    return Network(f"({inner.name}) in {outer.name}", (*inner.tiers, *outer.tiers), (*inner.axes, *outer.axes))


def tiered(sizes: Sequence[int], *, nested: bool = False, inner: str = "switch", plain: Sequence[int] = ()) -> Network:
    """One mesh axis over tiers of switches; where they are nested, what goes further out crosses the inner port too.

    The switches of ``plain`` tiers do not reduce.
    """
    names = ["node", "leaf", "spine"][: len(sizes)]
    tiers, levels, below = [], [], 1
    for tier, (name, n) in enumerate(zip(names, sizes, strict=True)):
        crossed = tuple(f"X.{other}" for t, other in enumerate(names[:tier]) if nested and sizes[t] > 1 and t)
        kind = inner if tier == 0 else "switch"
        dimension = Dimension(f"X.{name}", n, kind, crossed, kind == "switch" and tier not in plain)
        tiers.append((dimension,))
        levels.append(level(dimension, tier, below, nested=nested and tier > 0))
        below *= n
    kept = tuple(x for x in levels if x.size > 1)
    title = f"{inner if inner != 'switch' else 'tiers'} {'x'.join(map(str, sizes))}{' nested' if nested else ''}"
    title += "".join(f", tier {tier} plain" for tier in plain)
    return Network(title, tuple(tiers), (MeshAxis("X", below, kept),))


def shared(outer: Sequence[int], inner: Sequence[int]) -> Network:
    """Two mesh axes over the same tiers: their levels of one tier are one switch."""
    whole = tiered([a * b for a, b in zip(outer, inner, strict=True)])
    axes = []
    for name, sizes in (("D", outer), ("M", inner)):
        levels, below = [], 1
        for tier, (n, dimension) in enumerate(zip(sizes, (d for t in whole.tiers for d in t), strict=True)):
            if n > 1:
                levels.append(level(dimension._replace(size=n), tier, below))
            below *= n
        axes.append(MeshAxis(name, below, tuple(levels)))
    title = f"D {'x'.join(map(str, outer))}, M {'x'.join(map(str, inner))} on {whole.name}"
    return Network(title, whole.tiers, tuple(axes))


def dcn(slices: int) -> Network:
    dimension = Dimension("S", slices, "switch", (), reduces=True)
    return Network(f"dcn {slices}", ((dimension,),), (MeshAxis("S", slices, (level(dimension, 1),)),))


R, L = "ring", "line"
SMALL: list[Network] = [one(kind, n) for kind in (R, L, "switch", "mesh") for n in range(1, 10)]
TORI: list[Network] = [
    *(torus((2, a), (4, b)) for a, b in every((R, L), repeat=2)),
    *(torus((3, a), (5, b)) for a, b in every((R, L), repeat=2)),
    *(torus((8, a), (3, b)) for a, b in ((R, L), (L, R))),
    *(torus((4, a), (4, b)) for a, b in ((R, R), (R, L), (L, L))),
    *(torus((4, a), (1, R)) for a in (R, L)),
    *(torus((4, a), (2, b), (2, c)) for a, b, c in ((R, R, R), (L, R, L), (L, L, L))),
    *(torus((2, a), (3, b), (4, c)) for a, b, c in ((R, R, R), (R, L, R), (L, L, R))),
    torus((3, R), (3, R), (3, R)),
    torus((3, L), (3, L), (3, L)),
    torus((4, R), (8, R), (2, R)),
]
TIERED: list[Network] = [
    *(tiered(sizes) for sizes in ((2, 2), (4, 2), (2, 4), (8, 3), (3, 1), (1, 3), (2, 2, 2), (2, 4, 3), (8, 4))),
    *(tiered(sizes, nested=True) for sizes in ((4, 2), (2, 2, 2), (4, 2, 3), (2, 4, 2), (1, 3, 2), (8, 2, 2))),
    *(tiered(sizes, inner="mesh") for sizes in ((2, 2), (4, 3))),
    *(
        tiered(sizes, plain=plain)
        for sizes, plain in (((4, 2), (1,)), ((2, 4), (0,)), ((2, 4, 3), (1,)), ((8, 4), (1,)))
    ),
    *(tiered((4, 2, 3), nested=True, plain=plain) for plain in ((1,), (2,), (0, 1), (1, 2))),
    shared((2, 1), (4, 1)),
    shared((2, 3), (2, 1)),
    shared((1, 2), (4, 2)),
]
MIXED: list[Network] = [
    inside(torus((2, R), (2, R)), dcn(2)),
    inside(torus((4, R), (4, R)), dcn(2)),
    inside(torus((4, L)), dcn(3)),
    inside(torus((4, R), (2, L)), dcn(3)),
    inside(torus((4, R), (4, R)), torus((4, R), names="Z", tier=1)),
    inside(torus((2, L), (3, R)), torus((3, L), names="Z", tier=1)),
]
NETWORKS: list[Network] = [*SMALL, *TORI, *TIERED, *MIXED]
