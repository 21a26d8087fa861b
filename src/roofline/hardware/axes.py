"""Mesh axes: the chips of a target by named axes, and the links that each axis runs over.

>>> from roofline.hardware import chip
>>> mesh = chip("v5e:16x4").mesh
>>> mesh, mesh.chips, mesh["Y"].segments[0].shape
(Mesh(X=16 ici ring, Y=4 ici line), 64, 'line')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from roofline import dtypes
from roofline.errors import HardwareError
from roofline.frozen import NamedTuple, dataclass
from roofline.sizes import Size, is_array, is_one, is_symbol, maximum, minimum, product
from roofline.statements import Assumption

#: Names of the axes of a target's shape, in order; more than one slice adds an axis of slices.
AXIS_NAMES = ("X", "Y", "Z", "W", "V", "U")
SLICE_AXIS = "S"


class Reduction(NamedTuple):
    """What the switches of a link add up on its way: the ``dtypes``, or every one where none is named; its source.

    Blocks that share a scale are never added up.

    >>> Reduction(("bf16", "fp32")).adds("bf16"), Reduction(("bf16", "fp32")).adds("int8"), Reduction().adds("int8")
    (True, False, True)
    >>> Reduction(("fp8",)).adds("fp8_e4m3"), Reduction(("fp8",)).adds("mxfp8")
    (True, False)
    """

    dtypes: tuple[str, ...] = ()
    source: str = ""
    note: str = ""

    def adds(self, dtype: str) -> bool:
        """Whether it adds up numbers of this format; a format that is not known is taken to be one of them."""
        if not dtype:
            return True
        found = dtypes.get(dtype)
        stored = "fp32" if found.arithmetic == "tf32" else found.arithmetic
        return not found.block and (not self.dtypes or stored in self.dtypes)


@dataclass(frozen=True, slots=True, eq=False)
class AxisSegment:
    """The part of a mesh axis that runs over one link.

    ``place`` is the key of Work its bytes and hops stand under, ``resource`` the name of what is busy; ``link`` names
    the link in ``Machine.links`` and ``tier`` counts it from the inside. ``topology`` is torus (a ring where ``wrap``
    holds, else a line), switch, or mesh (a link between every two). ``size`` counts the members, ``below`` the chips
    of the axis under each. ``nested`` says that what leaves an outer unit has crossed this link too (a fat tree),
    ``reduces`` what the switches add up on its way; a chip has ``lanes`` links at once. ``cut`` holds the size of
    the axis of a slice that this is a part of, and whether that axis closes.
    """

    place: str
    resource: str
    link: str
    tier: int
    topology: str
    size: Size
    wrap: Any = False
    below: Size = 1
    nested: bool = False
    reduces: Reduction | None = None
    lanes: int = 1
    cut: tuple[int, bool] | None = None

    @property
    def directions(self) -> Size:
        """Directions that data can take: two round a ring, one on a line. Two chips have one link, so one direction.

        A ring of symbolic size has two: it is taken to have more than two chips.
        """
        if is_symbol(self.size):
            return 2 if self.wrap else 1
        return maximum(1, minimum(1 + self.wrap, self.size - 1))

    @property
    def shape(self) -> str:
        """``ring``, ``line``, ``torus`` (rings and lines, for arrays), ``switch`` or ``mesh``."""
        if self.topology != "torus":
            return self.topology
        if is_array(self.wrap):
            return "torus"
        return "ring" if self.wrap else "line"


@dataclass(frozen=True, slots=True, eq=False)
class MeshAxis:
    """A named axis of the mesh: its size, and the links it runs over, the innermost first; size 1 runs over none."""

    name: str
    size: Size
    segments: tuple[AxisSegment, ...] = ()

    def __str__(self) -> str:
        parts = [" ".join(filter(None, tier)) for tier in self._tiers()]
        return f"{self.name}={_show(self.size)}" + (f" {', '.join(parts)}" if parts else "")

    @property
    def in_words(self) -> str:
        """``X=64 over nvlink (switch of 8) and nic (switch of 8)``."""
        parts = [f"{link} ({shape}{size and f' of {size}'})" for link, shape, size in self._tiers()]
        return f"{self.name}={_show(self.size)}" + (f" over {' and '.join(parts)}" if parts else "")

    def _tiers(self) -> list[tuple[str, str, str]]:
        """The link, the shape and the size of each tier it runs over; no size where it is that of the axis."""
        several = len(self.segments) > 1 or is_array(self.size)
        return [(x.link, x.shape, _show(x.size) if several else "") for x in self.segments]


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """The axes of a target's chips, and what had to be assumed about them."""

    axes: tuple[MeshAxis, ...]
    notes: tuple[Assumption, ...] = ()

    @property
    def chips(self) -> Size:
        """Chips in the mesh."""
        return product(axis.size for axis in self.axes)

    @property
    def of_one_chip(self) -> str:
        """Whose figures a chip's are, in words: ``one chip's, of 8: X=8 over nvlink (switch)``."""
        count = "" if is_array(self.chips) else f", of {_show(self.chips)}"
        return f"one chip's{count}: {', '.join(axis.in_words for axis in self)}"

    @property
    def sizes(self) -> Mapping[str, Size]:
        """Sizes of the axes by name."""
        return {axis.name: axis.size for axis in self.axes}

    @property
    def single(self) -> frozenset[str]:
        """Names of the axes of size 1, over which nothing is sent. An axis with an array of sizes is not among them."""
        return frozenset(axis.name for axis in self.axes if not is_array(axis.size) and is_one(axis.size))

    def __iter__(self) -> Iterator[MeshAxis]:
        return iter(self.axes)

    def __getitem__(self, name: str) -> MeshAxis:
        found = next((axis for axis in self.axes if axis.name == name), None)
        if found is None:
            names = ", ".join(axis.name for axis in self.axes) or "none"
            hint = f"declare it, as in mesh {name}=4, or write a target with a shape, as in v5e:4x4"
            raise HardwareError(f"mesh axis {name!r} is not declared; the axes are: {names}", hint=hint)
        return found

    def select(self, names: Iterable[str]) -> tuple[MeshAxis, ...]:
        """Return the axes of these names; one named twice is an error.

        >>> from roofline.hardware import chip
        >>> [str(axis) for axis in chip("v4:4x4x4").mesh.select(["X", "Z"])]
        ['X=4 ici ring', 'Z=4 ici ring']
        """
        listed = list(names)
        twice = next((name for name, count in Counter(listed).items() if count > 1), None)
        if twice is not None:
            raise HardwareError(f"mesh axis {twice!r} is named twice", hint="name each axis once")
        return tuple(self[name] for name in listed)

    def segment(self, place: str) -> AxisSegment | None:
        """Return the segment whose bytes stand under ``place`` in Work, or None."""
        return next((part for axis in self.axes for part in axis.segments if part.place == place), None)

    def __repr__(self) -> str:
        return f"Mesh({', '.join(map(str, self.axes))})"


def _show(size: Size) -> str:
    return "[…]" if is_array(size) else str(size)
