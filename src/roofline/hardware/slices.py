"""The least group of chips one can have that holds so many: a slice of a torus, or whole nodes.

>>> from roofline.hardware import chip
>>> smallest(chip("v5e"), 9), smallest(chip("v5p"), 9), smallest(chip("h100"), 9)
(Slice(target='v5e:4x4', chips=16, nodes=1), Slice(target='v5p:2x2x4', chips=16, nodes=1), \
Slice(target='h100:16', chips=16, nodes=2))
>>> smallest(chip("h100"), 3)
Slice(target='h100:3', chips=3, nodes=1)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from roofline.hardware.machine import Machine
from roofline.hardware.network import with_mesh
from roofline.hardware.network_tiers import links_inside_out
from roofline.hardware.network_torus import SLICES, TORUS_DIMENSIONS


class Slice(NamedTuple):
    """A target, how many chips it has, and over how many nodes (or slices) they are spread."""

    target: str
    chips: int
    nodes: int


def smallest(machine: Machine, chips: int) -> Slice | None:
    """The fewest chips, at least ``chips``, that a slice or whole nodes have; None where links join no so many.

    Of slices of equally many chips the one nearest to a square or cube is taken; a slice has whole hosts, but for those
    that are part of one. Chips of one node may be any number.
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
    shapes = [shape for shape in _shapes(machine) if math.prod(shape) >= chips]
    if not shapes:
        whole = max(_shapes(machine), key=math.prod)
        count = -(-chips // math.prod(whole))
        return Slice(f"{machine.key}:{_text(whole)}:{count}", count * math.prod(whole), count)
    best = min(shapes, key=lambda shape: (math.prod(shape), max(shape), -min(shape)))
    return Slice(f"{machine.key}:{_text(best)}", math.prod(best), 1)


def _shapes(machine: Machine) -> Iterator[tuple[int, ...]]:
    """Every slice, its axes in increasing order."""
    tori = [link for link in links_inside_out(machine) if link.topology in TORUS_DIMENSIONS]
    axes = sorted((n for link in tori for n in link.axes), reverse=True)
    allowed, _ = SLICES[tori[0].slices]
    domain = tori[-1].domain or math.prod(axes)

    def grow(left: list[int], least: int) -> Iterator[tuple[int, ...]]:
        if not left:
            yield ()
            return
        for size in range(least, left[0] + 1):
            if allowed(size):
                yield from ((size, *rest) for rest in grow(left[1:], size))

    host = sorted((1,) * (len(axes) - len(tori[0].host)) + tori[0].host)
    for shape in grow(sorted(axes), 1):
        whole = all(n >= least for n, least in zip(shape, host, strict=True))
        if math.prod(shape) <= domain and (whole or math.prod(shape) < math.prod(host)):
            yield shape


def of_size(machine: Machine, chips: int) -> Machine | None:
    """The machine as ``chips`` of its kind: the slice nearest to a square, or chips on switches; None where none is so.

    >>> from roofline.hardware import chip
    >>> of_size(chip("v5e"), 64).shape, of_size(chip("h200"), 3).shape, of_size(chip("v5e"), 3)
    ((8, 8), (3,), None)
    """
    if chips == 1:
        return machine
    found = smallest(machine, chips)
    if found is None or found.chips != chips:
        return None
    shape, _, slices = found.target.partition(":")[2].partition(":")
    sized = replace(machine, shape=tuple(int(n) for n in shape.split("x")), slices=int(slices or 1))
    return with_mesh(sized)


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
