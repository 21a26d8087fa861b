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

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from roofline.errors import HardwareError
from roofline.hardware.axes import AXIS_NAMES, SLICE_AXIS, Mesh
from roofline.hardware.machine import TORUS_DIMENSIONS, Machine
from roofline.hardware.network import links_inside_out, switch_axes
from roofline.hardware.torus import slice_shapes, torus_axes
from roofline.sizes import Size, check, product
from roofline.statements import assume


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
    given = shape_axes(machine) if axes is None else dict(axes)
    sizes = {name: check(_axis_name(name), size) for name, size in given.items()}
    _same_chips(machine, sizes)
    links = links_inside_out(machine)
    if not links:
        hint = "give the bandwidth of one, as in link='50 GB/s' (--link 50GB/s)"
        raise HardwareError(f"no link from {machine.name} to other chips is known", hint=hint)
    build = torus_axes if links[0].topology in TORUS_DIMENSIONS else switch_axes
    made, notes = build(machine, links, sizes, wrap)
    return replace(machine, mesh=Mesh(made, tuple(assume("network", notes))))


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
        raise HardwareError(f"{machine.target} has {len(machine.shape)} axes", hint=hint)
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
        message = f"the axes {made} make {product(sizes.values())} chips, and {machine.target} has {chips}"
        raise HardwareError(message, hint="their sizes multiply to the number of chips")


class Slice(NamedTuple):
    """A target, its number of chips, and the number of nodes (or slices) that they stand in."""

    target: str
    chips: int
    nodes: int


def smallest_slice(machine: Machine, chips: int) -> Slice | None:
    """Find the smallest slice, or number of whole nodes, with at least ``chips`` chips; None where links join fewer.

    Among slices of one size the nearest to a square or cube is taken. A slice has whole hosts or is part of one host. A
    part of a node may have any number of chips.
    """
    links = links_inside_out(machine)
    if not links:
        return None
    first = links[0]
    if first.topology not in TORUS_DIMENSIONS:
        domain = first.domain or chips
        if chips > domain and len(links) == 1:
            return None
        nodes = -(-chips // domain)
        count = chips if nodes == 1 else nodes * domain
        return Slice(f"{machine.key}:{count}", count, nodes)
    shapes = [shape for shape in slice_shapes(machine) if math.prod(shape) >= chips]
    if not shapes:
        whole = max(slice_shapes(machine), key=math.prod)
        count = -(-chips // math.prod(whole))
        return Slice(f"{machine.key}:{_text(whole)}:{count}", count * math.prod(whole), count)
    best = min(shapes, key=lambda shape: (math.prod(shape), max(shape), -min(shape)))
    return Slice(f"{machine.key}:{_text(best)}", math.prod(best), 1)


def with_chips(machine: Machine, chips: int) -> Machine | None:
    """Make a machine of ``chips`` chips: the slice nearest to a square, or chips on switches; None where there is none.

    >>> from roofline.hardware import chip
    >>> with_chips(chip("v5e"), 64).shape, with_chips(chip("h200"), 3).shape, with_chips(chip("v5e"), 3)
    ((8, 8), (3,), None)
    """
    if chips == 1:
        return machine
    found = smallest_slice(machine, chips)
    if found is None or found.chips != chips:
        return None
    shape, _, slices = found.target.partition(":")[2].partition(":")
    sized = replace(machine, shape=tuple(int(n) for n in shape.split("x")), slices=int(slices or 1))
    return with_mesh(sized)


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
