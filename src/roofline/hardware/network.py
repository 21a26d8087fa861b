"""The chips of a target as a mesh of named axes, and which links each axis runs over.

A mesh axis runs over one link (an axis of a TPU slice, GPUs on one switch) or over several, inner ones first (the
GPUs of a node on NVLink, then the nodes on InfiniBand):

>>> from roofline.hardware import chip
>>> chip("v5e:16x4").mesh
Mesh(X=16 ici ring, Y=4 ici line)
>>> chip("h100:64").mesh
Mesh(X=64 nvlink switch 8, nic switch 8)
>>> with_mesh(chip("h100:64"), {"data": 16, "model": 4}).mesh
Mesh(data=16 nvlink switch 2, nic switch 8, model=4 nvlink switch)

Axes of a slice go by the slice's own axes in order, and may join several of them or share one. On switches the axis
named last is the innermost: its chips share a node first. Sizes may be numbers, arrays or symbols:

>>> from roofline.sizes import symbol
>>> with_mesh(chip("v5p"), {"X": symbol("n")}).mesh
Mesh(X=n ici ring)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from roofline.errors import HardwareError
from roofline.frozen import dataclass
from roofline.hardware.machine import Link, Machine
from roofline.sizes import Size, check, is_array, is_symbol, maximum, minimum, product

#: Names of the axes of a target's shape, in order; more than one slice adds an axis of slices.
AXIS_NAMES = ("X", "Y", "Z", "W", "V", "U")
SLICE_AXIS = "S"


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The part of an axis that runs over one link.

    ``place`` is the key of Work its bytes and hops stand under, ``resource`` the name of what is busy; ``link`` names
    the link in ``Machine.links`` and ``tier`` counts it from the inside. ``topology`` is torus (a ring where ``wrap``
    holds, else a line), switch, or mesh (a link between every two). ``size`` counts the members, ``below`` the chips
    of the axis under each. ``nested`` says that what leaves an outer unit has crossed this link too (a fat tree),
    ``reduces`` that the switches add up what passes them; a chip has ``lanes`` links at once. ``cut`` holds the size of
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
    reduces: bool = False
    lanes: int = 1
    cut: tuple[int, bool] | None = None

    @property
    def directions(self) -> Size:
        """Ways round a ring: two with wrap-around, one on a line, and one for two chips, whose ways are one link.

        A symbolic ring has two: it is taken to have more than two chips.
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
    """A named axis of the mesh: its size, and the levels it runs over from the inside; size 1 runs over none."""

    name: str
    size: Size
    levels: tuple[Level, ...] = ()

    def __str__(self) -> str:
        several = len(self.levels) > 1 or is_array(self.size)
        parts = [f"{x.link} {x.shape}" + (f" {_show(x.size)}" if several else "") for x in self.levels]
        return f"{self.name}={_show(self.size)}" + (f" {', '.join(parts)}" if parts else "")


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """The axes of a target's chips, and what had to be assumed about them."""

    axes: tuple[MeshAxis, ...]
    notes: tuple[str, ...] = ()

    @property
    def chips(self) -> Size:
        """Chips in the mesh."""
        return product(axis.size for axis in self.axes)

    @property
    def sizes(self) -> Mapping[str, Size]:
        """Sizes of the axes by name."""
        return {axis.name: axis.size for axis in self.axes}

    @property
    def single(self) -> frozenset[str]:
        """Names of the axes of one chip, over which nothing is sent; an array of sizes is never one."""
        return frozenset(axis.name for axis in self.axes if isinstance(axis.size, int) and axis.size == 1)

    def __iter__(self) -> Iterator[MeshAxis]:
        return iter(self.axes)

    def __getitem__(self, name: str) -> MeshAxis:
        found = next((axis for axis in self.axes if axis.name == name), None)
        if found is None:
            names = ", ".join(axis.name for axis in self.axes) or "none"
            raise HardwareError(f"mesh axis {name!r} is not declared; the axes are: {names}", hint=_declare(name))
        return found

    def select(self, names: Iterable[str]) -> tuple[MeshAxis, ...]:
        """Return the axes of these names; one named twice is an error.

        >>> from roofline.hardware import chip
        >>> [str(axis) for axis in chip("v4:4x4x4").mesh.select(["X", "Z"])]
        ['X=4 ici ring', 'Z=4 ici ring']
        """
        listed = list(names)
        twice = next((name for name in listed if listed.count(name) > 1), None)
        if twice is not None:
            raise HardwareError(f"mesh axis {twice!r} is named twice", hint="name each axis once")
        return tuple(self[name] for name in listed)

    def level(self, place: str) -> Level | None:
        """Return the level whose bytes stand under ``place`` in Work, or None."""
        return next((level for axis in self.axes for level in axis.levels if level.place == place), None)

    def __repr__(self) -> str:
        return f"Mesh({', '.join(map(str, self.axes))})"


def with_mesh(machine: Machine, axes: Mapping[str, Any] | None = None, *, wrap: bool | None = None) -> Machine:
    """Return the machine with its chips named by mesh axes; without ``axes``, by those of the target's shape.

    ``wrap`` decides for every axis of a torus whether it closes, in place of the rule of the catalog.

    >>> from roofline.hardware import chip
    >>> with_mesh(chip("v5e:4x4"), {"X": 4, "Y": 4}, wrap=True).mesh
    Mesh(X=4 ici ring, Y=4 ici ring)
    >>> with_mesh(chip("v5e:4x4"), {"X": 16}).mesh
    Mesh(X=16 ici line 4, ici line 4)
    >>> with_mesh(chip("v5e:4x4"), {"X": 4, "Y": 8})
    Traceback (most recent call last):
    roofline.errors.HardwareError: the axes X=4, Y=8 make 32 chips, and v5e:4x4 has 16; ...
    """
    from roofline.hardware.network_switch import switch_axes
    from roofline.hardware.network_tiers import links_inside_out
    from roofline.hardware.network_torus import TORUS_DIMENSIONS, torus_axes

    given = shape_axes(machine) if axes is None else dict(axes)
    sizes = {name: check(_axis_name(name), size) for name, size in given.items()}
    _same_chips(machine, sizes)
    links = links_inside_out(machine)
    if not links:
        hint = "give the bandwidth of one, as in link='50 GB/s' (--link 50GB/s)"
        raise HardwareError(f"no link from {machine.name} to other chips is known", hint=hint)
    build = torus_axes if links[0].topology in TORUS_DIMENSIONS else switch_axes
    made, notes = build(machine, links, sizes, wrap)
    return replace(machine, mesh=Mesh(made, notes))


def shape_axes(machine: Machine) -> dict[str, Size]:
    """Name the axes of a target's shape, whether or not a link between its chips is known.

    >>> from roofline.hardware import chip
    >>> shape_axes(chip("v5e:16x16:2")), shape_axes(chip("l4:4"))
    ({'X': 16, 'Y': 16, 'S': 2}, {'X': 4})
    """
    if not machine.shape:
        hint = f"write its shape, as in {machine.key}:8, or name its axes, as in mesh X=8"
        raise HardwareError(f"{machine.name} is one chip", hint=hint)
    if len(machine.shape) > len(AXIS_NAMES):
        hint = f"write at most {len(AXIS_NAMES)}; several mesh axes may be named on a shape of one"
        raise HardwareError(f"{target_text(machine)} has {len(machine.shape)} axes", hint=hint)
    sizes: dict[str, Size] = dict(zip(AXIS_NAMES, machine.shape, strict=False))
    return {**sizes, SLICE_AXIS: machine.slices} if machine.slices > 1 else sizes


def _axis_name(name: str) -> str:
    if not isinstance(name, str) or not name.isidentifier() or "_" in name:
        raise HardwareError(f"{name!r} is no name of a mesh axis", hint="a name is letters and digits, as in X or data")
    return name


def _same_chips(machine: Machine, sizes: Mapping[str, Size]) -> None:
    """A shape and axes that are all numbers must make the same number of chips."""
    if not machine.shape or not all(isinstance(size, int) for size in sizes.values()):
        return
    chips = product(machine.shape) * machine.slices
    if product(sizes.values()) != chips:
        made = ", ".join(f"{name}={size}" for name, size in sizes.items())
        message = f"the axes {made} make {product(sizes.values())} chips, and {target_text(machine)} has {chips}"
        raise HardwareError(message, hint="their sizes multiply to the number of chips")


def target_text(machine: Machine) -> str:
    """Write the target a machine was made from: ``v5e:4x4``, ``v5e:16x16:2``."""
    shape = ":" + "x".join(map(str, machine.shape)) if machine.shape else ""
    return f"{machine.key}{shape}" + (f":{machine.slices}" if machine.slices > 1 else "")


def level_of(link: Link, tier: int, place: str, size: Size, **facts: Any) -> Level:
    """Make the level of an axis that runs over ``link``, with what the link says of itself."""
    return Level(place, facts.pop("resource", link.name), link.name, tier, size=size, reduces=link.reduces, **facts)


def _declare(name: str) -> str:
    return f"declare it, as in mesh {name}=4, or write a target with a shape, as in v5e:4x4"


def _show(size: Size) -> str:
    return "[…]" if is_array(size) else str(size)
