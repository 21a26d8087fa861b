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

Of a torus it stands here which slices a chip can have, which of their axes close, which mesh axis runs over which:

>>> chip("v5p:2x2x4").mesh
Mesh(X=2 ici line, Y=2 ici line, Z=4 ici line)
>>> chip("v5p:4x4x8").mesh
Mesh(X=4 ici ring, Y=4 ici ring, Z=8 ici ring)
>>> chip("v5e:16x32")
Traceback (most recent call last):
roofline.errors.HardwareError: TPU v5e has no slice of 16x32: its largest is 16x16; ...
>>> chip("v5e:16x16:2").mesh
Mesh(X=16 ici ring, Y=16 ici ring, S=2 dcn switch)

Mesh axes take the axes of a slice in order: whole ones, several, or a part of one. An axis that is cut between several
is a ring for none of them, and they share its links, so it stays one resource. A collective over all of its parts has
the whole axis again:

>>> cut = with_mesh(chip("v5p:16x16x16"), {"fsdp": 512, "tensor": 8}).mesh
>>> cut, [axis.segments[-1].resource for axis in cut]
(Mesh(fsdp=512 ici ring 16, ici ring 16, ici line 2, tensor=8 ici line), ['ici Z', 'ici Z'])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from roofline.errors import HardwareError
from roofline.frozen import NamedTuple, replace
from roofline.hardware.machine import (
    AXIS_NAMES,
    SLICE_AXIS,
    SLICE_RULES,
    TORUS_DIMENSIONS,
    WRAP_RULES,
    AxisSegment,
    Link,
    Machine,
    Mesh,
    MeshAxis,
)
from roofline.hardware.network import domain_of, links_inside_out, segment_over, switch_axes
from roofline.quantity import in_a_row
from roofline.signatures import either, spelled
from roofline.sizes import Size, check, chip_counts, grouped, is_array, is_one, is_symbol, product
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
    if any(map(is_array, sizes.values())):
        return _meshed(machine, tuple(sizes.items()), wrap)
    return _known_mesh(machine, tuple(sizes.items()), wrap)


def _meshed(machine: Machine, sizes: tuple[tuple[str, Any], ...], wrap: bool | None) -> Machine:
    links = links_inside_out(machine)
    if not links:
        hint = f"give the bandwidth of one, as in {spelled('link', '50GB/s')}"
        raise HardwareError(f"no link from {machine.name} to other chips is known", hint=hint)
    build = torus_axes if links[0].topology in TORUS_DIMENSIONS else switch_axes
    made, notes = build(machine, links, dict(sizes), wrap)
    return replace(machine, mesh=Mesh(made, tuple(assume("network", notes))))


#: Meshes that were made: the next question on the same chips finds what was worked out for them.
_known_mesh = lru_cache(maxsize=256)(_meshed)


def shape_axes(machine: Machine) -> dict[str, Size]:
    """Name the axes of a target's shape, whether or not a link between its chips is known.

    >>> from roofline.hardware import chip
    >>> shape_axes(chip("v5e:16x16:2")), shape_axes(chip("l4:4"))
    ({'X': 16, 'Y': 16, 'S': 2}, {'X': 4})
    """
    if not machine.shape:
        named = either("--mesh X=8", "mesh={'X': 8}")
        hint = f"write its shape, as in {machine.key}:8, or name its axes, as in {named}"
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
    if product(sizes.values()) != machine.chips:
        made = ", ".join(f"{name}={size}" for name, size in sizes.items())
        message = f"the axes {made} make {product(sizes.values())} chips, and {machine.target} has {machine.chips}"
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
    found = _smallest(machine, chips)
    return None if found is None else Slice(found[0].target, found[0].chips, found[1])


def _smallest(machine: Machine, chips: int) -> tuple[Machine, int] | None:
    """The machine of that slice, and the number of nodes (or slices) that it stands in."""
    links = links_inside_out(machine)
    if not links:
        return None
    first, most = links[0], domain_of(links[-1])
    if first.topology not in TORUS_DIMENSIONS or not first.axes:
        domain = domain_of(first) or chips
        nodes = -(-chips // domain)
        # the next number that the rule of a torus without known axes allows
        near = (chips, -(-chips // 4) * 4, 1 << (chips - 1).bit_length())
        count = next(filter(SLICE_RULES[first.slices][0], near)) if nodes == 1 else nodes * domain
        is_joined = most is None or count <= most
        return (replace(machine, shape=(count,), slices=1, mesh=None), nodes) if is_joined else None
    shapes = slice_shapes(machine)
    best = next((shape for shape in shapes if math.prod(shape) >= chips), None) or max(shapes, key=math.prod)
    slices = -(-chips // math.prod(best))
    return replace(machine, shape=best, slices=slices, mesh=None), slices


def with_chips(machine: Machine, chips: int) -> Machine | None:
    """Make a machine of ``chips`` chips: the slice nearest to a square, or chips on switches; None where there is none.

    None too where not enough is known of what joins them.

    >>> from roofline.hardware import chip
    >>> with_chips(chip("v5e"), 64).shape, with_chips(chip("h200"), 3).shape, with_chips(chip("v5e"), 3)
    ((8, 8), (3,), None)
    """
    if chips == 1:
        return machine
    found, _ = _smallest(machine, chips) or (machine, 1)
    if found.chips == chips:
        with suppress(HardwareError):
            return with_mesh(found)
    return None


def with_count(machine: Machine, count: int) -> Machine:
    """Make a machine of so many chips in a row, as ``chip("v5e:8")`` is.

    >>> from roofline.hardware import chip
    >>> with_count(chip("h100", hbm="4 TB/s"), 8).target, with_count(chip("v5e"), 8).shape == chip("v5e:8").shape
    ('h100:8', True)
    """
    sized = replace(machine, shape=(count,), slices=1)
    return with_mesh(sized) if sized.links else sized


class SliceAxis(NamedTuple):
    """One axis of the slice, or a part of it: the link it is made of, its tier, its size.

    ``closed`` says whether its chips close a ring; ``number`` and ``whole`` are the place among the axes of the slice
    and the size of the one it is part of, ``ring`` whether that one closes.
    """

    link: Link
    tier: int
    size: Size
    number: int
    closed: Any
    whole: Size
    ring: Any


def torus_axes(
    machine: Machine, links: Sequence[Link], sizes: Mapping[str, Size], wrap: bool | None
) -> tuple[tuple[MeshAxis, ...], tuple[str, ...]]:
    """Lay mesh axes over the axes of a slice, in order; the last may run over several slices."""
    own = [(link, tier) for tier, link in enumerate(links) if link.topology in TORUS_DIMENSIONS]
    whole = {name: size for name, size in sizes.items() if not is_one(size)}
    across = _across(machine, whole)
    inside = {name: size for name, size in whole.items() if name != across}
    if across is not None and isinstance(whole[across], int) and whole[across] > machine.slices:
        # the axis goes on inside each slice
        inside = {n: size // machine.slices if n == across else size for n, size in whole.items()}
    numbers = machine.shape and all(isinstance(size, int) for size in sizes.values())
    whole_slice = not numbers and len(inside) == 1 and any(map(chip_counts, machine.shape))
    shape: Sequence[Size] = machine.shape if numbers or whole_slice else tuple(inside.values())
    _check_shape(machine, [link for link, _ in own], shape)
    physical = _physical(own, shape, wrap)
    if whole_slice:
        taken = dict.fromkeys(inside, physical)
    else:
        each = {n: [a] for n, a in zip(inside, physical, strict=False)}
        taken = _taken(machine, inside, physical) if numbers else each
    axes = _named(inside, taken)
    if across is not None:
        between = _between(machine, links, across, machine.slices)
        within = axes[across].segments if across in axes else ()
        axes[across] = MeshAxis(across, sizes[across], (*within, between))
    made = tuple(axes.get(name) or MeshAxis(name, 1) for name in sizes)
    return made, (*_notes(made, wrap), *_squarer(machine, physical), *(_cuts(taken, axes) if numbers else ()))


def _squarer(machine: Machine, physical: Sequence[SliceAxis]) -> Iterator[str]:
    """Of chips asked for in a row that does not close, name the slice of as many on more axes: it has more links."""
    row = [axis for axis in physical if not is_one(axis.size)]
    if len(machine.shape) == 1 == len(row) and machine.slices == 1 and isinstance(row[0].size, int) and not row[0].ring:
        best, _ = _smallest(machine, row[0].size) or (machine, 1)
        if best.chips == row[0].size > 2 and len(best.shape) > 1:
            yield f"the slice of {best.chips} chips nearest to a square is {best.target}, which has more links"


def _physical(own: Sequence[tuple[Link, int]], shape: Sequence[Size], wrap: bool | None) -> list[SliceAxis]:
    """List the axes of a slice, and say of each whether it closes."""
    found: list[SliceAxis] = []
    left = list(shape)
    for link, tier in own:
        sizes, left = left[: TORUS_DIMENSIONS[link.topology]], left[TORUS_DIMENSIONS[link.topology] :]
        known = [getattr(size, "values", (size,))[0] for size in sizes]  # all of an open number close, or none
        closes = WRAP_RULES[link.wrap or "full axis"](link, known) if wrap is None else [wrap for _ in sizes]
        for size, closed in zip(sizes, closes, strict=True):
            found.append(SliceAxis(link, tier, size, len(found), closed, size, closed))
    return found


def _named(inside: Mapping[str, Size], taken: Mapping[str, Sequence[SliceAxis]]) -> dict[str, MeshAxis]:
    """Make the mesh axes, and name what is busy on each: parts of one axis of the slice are one resource.

    It goes by the slice's own axes, ``ici X``, or, where mesh axes bear such names, by the first of them along it.
    """
    names = {} if any(name in AXIS_NAMES for name in inside) else dict(enumerate(AXIS_NAMES))
    made: dict[str, MeshAxis] = {}
    numbers = itertools.count()
    for name, size in inside.items():
        parts = [axis for axis in taken[name] if not is_one(axis.size)]
        places = [name] if len(parts) == 1 else [f"{name}.{count}" for count in range(1, len(parts) + 1)]
        segments = tuple(
            segment_over(
                axis.link, axis.tier, place, axis.size, topology="torus", wrap=axis.closed, number=next(numbers),
                resource=f"{axis.link.name} {names.setdefault(axis.number, place)}",
                # an axis of symbolic or array size is never cut
                cut=(axis.whole, bool(axis.ring)) if isinstance(axis.size, int) and axis.size != axis.whole else None,
            )
            for axis, place in zip(parts, places, strict=True)
        )  # fmt: skip
        made[name] = MeshAxis(name, size, segments)
    return made


def _taken(machine: Machine, inside: Mapping[str, Size], physical: Sequence[SliceAxis]) -> dict[str, list[SliceAxis]]:
    """Give each mesh axis the next axes of the slice that multiply to its size, the last of them perhaps in part.

    What is left of an axis goes to the next. No part of a cut axis closes: its ends are not neighbours.
    """
    left = [axis for axis in physical if not is_one(axis.size)]
    taken: dict[str, list[SliceAxis]] = {}
    for name, size in inside.items():
        need, taken[name] = int(size), []
        while need > 1:
            axis = left.pop(0)
            here = math.gcd(need, axis.size)
            if here not in (need, axis.size):
                hint = "an axis takes axes of the slice in order: whole ones, and a part that divides the next"
                raise HardwareError(f"axis {name} of {size} does not fit the axes of {machine.target}", hint=hint)
            part = axis._replace(closed=axis.closed and here == axis.whole)
            taken[name].append(part._replace(size=here))
            need //= here
            if here < axis.size:
                left.insert(0, part._replace(size=axis.size // here))
    return taken


def _cuts(taken: Mapping[str, Sequence[SliceAxis]], axes: Mapping[str, MeshAxis]) -> list[str]:
    """Say which axes of the slice are cut between mesh axes."""
    parts = grouped(
        (level.resource, f"{name} {axis.size}")
        for name, pieces in taken.items()
        # an axis over slices has one segment more
        for axis, level in zip(pieces, axes[name].segments, strict=False)
        if axis.size != axis.whole
    )
    return [
        f"{resource} is cut into {in_a_row(cut)}: none wraps around, and ways over other chips are not counted"
        for resource, cut in parts.items()
    ]


def _across(machine: Machine, whole: Mapping[str, Size]) -> str | None:
    """Which mesh axis runs over slices: the last one, where there is more than one slice."""
    if machine.slices == 1:
        return None
    name = next(reversed(list(whole)), None)
    if name is None or not isinstance(whole[name], int) or whole[name] % machine.slices:
        made = ", ".join(f"{n}={size}" for n, size in whole.items())
        hint = f"the last axis runs over the slices, as in {SLICE_AXIS}={machine.slices}"
        raise HardwareError(f"the axes {made} do not fit {machine.slices} slices of {machine.target}", hint=hint)
    return name


def _between(machine: Machine, links: Sequence[Link], name: str, size: Size) -> AxisSegment:
    tier = next((i for i, link in enumerate(links) if link.topology == "network"), None)
    if tier is None:
        wrong = f"no network between slices of {machine.name} is known"
        raise HardwareError(wrong, hint="give one, as in dcn='6 GB/s'")
    return segment_over(links[tier], tier, name, size, topology="switch")


def uncounted(links: Sequence[Link]) -> Link | None:
    """The link of which it is not known how many a chip has, and so what goes along one axis of its torus."""
    several = (link for link in links if TORUS_DIMENSIONS.get(link.topology, 0) > 1)
    return next((link for link in several if link.links is None and link.bandwidth is not None), None)


def _check_shape(machine: Machine, links: Sequence[Link], shape: Sequence[Size]) -> None:
    """Refuse a slice the chip cannot have; sizes that are no numbers are checked against the largest axis only."""
    dimensions = sum(TORUS_DIMENSIONS[link.topology] for link in links)
    text = "x".join("?" if is_array(n) or is_symbol(n) else str(n) for n in shape)
    what = f"{machine.name} has no slice of {text if text.strip('?x') else 'that shape'}"
    if (link := uncounted(links)) is not None:
        said = f"how many {link.name} links {machine.name} has, and what one carries, is not known"
        hint = "a machine file says both, as in links = 4 and the bandwidth of one; or name a system with its tiers"
        raise HardwareError(said, hint=hint)
    if len(shape) > dimensions:
        hint = f"it is a torus of {dimensions}, as in {machine.key}:4x4"
        raise HardwareError(f"{what}: it has {len(shape)} axes", hint=hint)
    longest = sorted((n for link in links for n in link.axes), reverse=True)
    largest = "x".join(str(n) for link in links for n in link.axes)
    numbers = sorted((n for n in shape if isinstance(n, int)), reverse=True)
    if longest and any(n > most for n, most in zip(numbers, longest, strict=False)):
        whole: tuple[int, ...] = ()
        if len(numbers) == len(shape) < dimensions:
            whole = _even_slice(product(numbers), longest, SLICE_RULES[links[0].slices][0])
        shaped = f"write all its axes, as in {machine.key}:{'x'.join(map(str, whole))}"
        hint = shaped if whole else f"take several slices, as in {machine.key}:{largest}:2"
        raise HardwareError(f"{what}: its largest is {largest}", hint=hint)
    for n in shape:
        if is_array(n) and longest and bool((n > longest[0]).any()):
            wrong = f"an axis of {int(n.max())} is longer than {longest[0]}"
            raise HardwareError(f"{what}: {wrong}", hint=f"its largest is {largest}")
    domain = links[-1].domain
    if domain is not None and product(numbers) > domain:
        raise HardwareError(f"{what}: it joins at most {domain} chips", hint="take a smaller slice")
    for n in numbers:
        allowed, says = SLICE_RULES[links[0].slices]
        if not allowed(n):
            raise HardwareError(f"{what}: {says}", hint="see the vendor's list of slices")


def _even_slice(chips: int, longest: Sequence[int], allowed: Callable[[int], bool]) -> tuple[int, ...]:
    """The slice of this many chips whose axes differ least, the largest last; empty where there is no such slice.

    >>> v5p, whole = (28, 20, 16), lambda n: n % 4 == 0
    >>> _even_slice(4096, v5p, whole), _even_slice(8192, v5p, whole), _even_slice(128, (16, 16), whole)
    ((16, 16, 16), (), (8, 16))
    """
    ranges = [[n for n in range(1, most + 1) if chips % n == 0 and allowed(n)] for most in longest]
    found = [sorted(axes) for axes in itertools.product(*ranges) if product(axes) == chips]
    return tuple(min(found, key=sum, default=()))


def _notes(axes: Sequence[MeshAxis], wrap: bool | None) -> tuple[str, ...]:
    said = []
    for level in (part for axis in axes for part in axis.segments if part.topology == "torus"):
        if wrap is not None:
            said.append(f"axis {level.place}: {'with' if wrap else 'without'} wrap-around, as asked")
        elif is_symbol(level.size) and not chip_counts(level.size):
            said.append(f"axis {level.place}: taken to have wrap-around and an even size above 2")
        elif is_array(level.wrap):
            said.append(f"axis {level.place}: a ring where a slice of its size closes, else a line without wrap-around")
        elif level.shape == "line":
            said.append(f"axis {level.place}: {level.size} chips in a line, without wrap-around")
    return tuple(said)


def slice_shapes(machine: Machine) -> tuple[tuple[int, ...], ...]:
    """Every slice, its axes in increasing order: the smallest first, of one size the nearest to a square or cube."""
    tori = [link for link in links_inside_out(machine) if link.topology in TORUS_DIMENSIONS]
    axes = tuple(sorted(n for link in tori for n in link.axes))
    host = sorted((1,) * (len(axes) - len(tori[0].host)) + tori[0].host)
    return _slice_shapes(axes, tori[0].slices, tori[-1].domain or math.prod(axes), tuple(host))


@lru_cache(maxsize=64)
def _slice_shapes(axes: tuple[int, ...], rule: str, domain: int, host: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    allowed, _ = SLICE_RULES[rule]

    def grow(left: tuple[int, ...], least: int) -> Iterator[tuple[int, ...]]:
        if not left:
            yield ()
            return
        for size in range(least, left[0] + 1):
            if allowed(size):
                yield from ((size, *rest) for rest in grow(left[1:], size))

    def exists(shape: tuple[int, ...]) -> bool:
        whole = all(n >= least for n, least in zip(shape, host, strict=True))
        return math.prod(shape) <= domain and (whole or math.prod(shape) < math.prod(host))

    found = filter(exists, grow(axes, 1))
    return tuple(sorted(found, key=lambda shape: (math.prod(shape), max(shape), -min(shape))))
