"""Targets whose number of chips is open, ``h100:n`` or ``v5e:nxn``: the ranges of n with one kind of network each.

A closed form holds in one of them: on one chip, on those that share a node, on whole nodes.

>>> for each in open_counts("h100:n"):
...     print(each.says, each.machine.mesh)
n = 1 Mesh(X=1)
n = 2 to 8 Mesh(X=n nvlink switch)
n = 16, 24 … Mesh(X=n nvlink switch 8, nic switch n/8)
>>> [str(each.machine.mesh) for each in open_counts("v5e:nxn")][-2:]
['Mesh(X=n ici line, Y=n ici line)', 'Mesh(X=16 ici ring, Y=16 ici ring)']

``inside`` is how many chips stand together inside the open axis, as those of tensor parallelism do, ``outside`` how
many such parts there are, as stages of a pipeline:

>>> [each.says for each in open_counts("h100:n", inside=4)]
['n = 4', 'n = 8', 'n = 16, 24 …']
>>> [each.says for each in open_counts("h100:n", outside=4)]
['n = 4', 'n = 8', 'n = 16', 'n = 32', 'n = 64, 96 …']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

from roofline.errors import HardwareError, InputError, LayoutError
from roofline.frozen import NamedTuple, replace
from roofline.hardware.machine import TORUS_DIMENSIONS, Machine
from roofline.hardware.mesh import with_mesh
from roofline.hardware.network import domain_of, links_inside_out
from roofline.hardware.targets import chip
from roofline.sizes import chip_count, symbol

_OPEN = r"(?P<chip>[^:]+(?:#[^:]*)?):(?P<shape>[^:/\\]*[A-Za-z_][^:/\\]*)"

#: The longest axis of a slice that is looked at.
_LONGEST = 64


class OpenCount(NamedTuple):
    """A range of numbers of chips: the machine of so many, the symbol of the number, and what it may be.

    ``most`` is None where any number may join, ``step`` what the number is a multiple of.
    """

    machine: Machine
    size: Any
    least: int
    most: int | None
    step: int

    @property
    def holds(self) -> Any:
        """The relation that holds of the number here."""
        from sympy import And, Eq, Mod

        if self.least == self.most:
            return Eq(self.size, self.least)
        upper = [] if self.most is None else [self.size <= self.most]
        return And(self.size >= self.least, *upper, *([Eq(Mod(self.size, self.step), 0)] if self.step > 1 else []))

    @property
    def says(self) -> str:
        """It in words: ``n = 16, 24 …``."""
        if self.least == self.most:
            return f"{self.size} = {self.least:,}"
        if self.step == 1 and self.most is not None:
            return f"{self.size} = {self.least:,} to {self.most:,}"
        end = "" if self.most is None else f" {self.most:,}"
        second = self.least + self.step
        return f"{self.size} = {self.least:,}, {second:,}" + (" …" + end if second != self.most else "")

    def __contains__(self, value: Any) -> bool:
        return bool(value >= self.least and (self.most is None or value <= self.most) and value % self.step == 0)


def open_shape(on: Any) -> tuple[str, tuple[str, ...], str] | None:
    """The chip of a target whose number of chips is open, its shape, and the name of the number; None of others.

    >>> open_shape("v5p:16x16xn"), open_shape("h100:8")
    (('v5p', ('16', '16', 'n'), 'n'), None)
    """
    found = re.fullmatch(_OPEN, on.strip()) if isinstance(on, str) else None
    if found is None:
        return None
    sizes = tuple(part.strip() for part in re.split("[xX×]", found["shape"]))
    names = {part for part in sizes if part.isidentifier()}
    if len(names) != 1 or any(not part.isdecimal() for part in sizes if part not in names):
        return None
    return found["chip"].strip(), sizes, names.pop()


def open_counts(on: str, *, inside: int = 1, outside: int = 1, **options: Any) -> tuple[OpenCount, ...]:
    """The ranges of an open number of chips; ``options`` are those of :func:`roofline.chip`."""
    machine, shape, name = _read(on, options)
    links = links_inside_out(machine)
    if not links:
        with_mesh(replace(machine, shape=(2,)))  # says that no link is known
    if links[0].topology in TORUS_DIMENSIONS:
        found = tuple(_of_slices(machine, shape, name, inside * outside))
    elif len(shape) > 1:
        raise HardwareError(f"{on}: chips of {machine.name} stand in a row", hint=f"as in {machine.key}:{name}")
    else:
        tiers = _of_tiers(machine, name, inside) if outside == 1 else _of_parts(machine, name, inside, outside)
        found = tuple(tiers)
    if not found:
        _numbered(machine, shape, name, 2)  # says why there is none, where there is no slice at all
        raise LayoutError(f"no {on} has a multiple of {inside} chips", hint="fewer that split the model, or more axes")
    return found


def numbered_counts(on: str, numbers: Sequence[int], **options: Any) -> tuple[OpenCount, ...]:
    """Some numbers of chips by themselves, those of them that there can be.

    >>> [each.says for each in numbered_counts("v5e:n", [1, 2, 3, 4])]
    ['n = 1', 'n = 2', 'n = 4']
    """
    return tuple(_possible(*_read(on, options), numbers))


def _read(on: str, options: Mapping[str, Any]) -> tuple[Machine, tuple[str, ...], str]:
    """The machine of a target whose number of chips is open, its shape, and the name of the number."""
    read = open_shape(on)
    assert read is not None
    key, shape, name = read
    return chip(key, **options), shape, name


def _possible(machine: Machine, shape: Sequence[str], name: str, numbers: Iterable[int]) -> Iterator[OpenCount]:
    for number in numbers:
        with suppress(HardwareError, InputError):  # no such slice
            yield _numbered(machine, shape, name, number)


def _of_tiers(machine: Machine, name: str, inside: int) -> Iterator[OpenCount]:
    """One unit of chips that stand together, then each tier of switches: units that the tier below it does not hold."""
    yield _numbered(machine, (str(inside),), name, inside)
    below = 1
    for domain in map(domain_of, links_inside_out(machine)):
        unit = max(inside, below)
        if domain is None or domain >= 2 * unit:
            yield _ranged(machine, (name,), name, range(2 * unit, (domain or 2 * unit) + 1, unit), domain is None)
        if domain is None:
            return
        below = domain


def _of_parts(machine: Machine, name: str, inside: int, outside: int) -> Iterator[OpenCount]:
    """Several parts of an open number of chips each: parts of units each by itself, and parts of whole ones."""
    *within, last = map(domain_of, links_inside_out(machine))
    unit = within[-1] if within and within[-1] is not None else last or 1
    most = last or 2 * outside * unit
    for part in range(inside, unit + 1, inside):
        if (unit % part == 0 or (part % (within[0] or 1) == 0 if within else False)) and outside * part <= most:
            yield _numbered(machine, (name,), name, outside * part)
    if last is None and unit % inside == 0:
        yield _ranged(machine, (name,), name, range(2 * outside * unit, 2 * outside * unit + 1, outside * unit), True)


def _of_slices(machine: Machine, shape: Sequence[str], name: str, inside: int) -> Iterator[OpenCount]:
    """Slices a chip can have, those together whose axes close alike; with chips inside, each by itself."""
    made: list[tuple[int, Any]] = []
    for found in _possible(machine, shape, name, range(1, _LONGEST + 1)):
        one, size = found.machine, found.least
        chips = one.mesh.chips if one.mesh is not None else 1
        if chips % inside == 0:
            alone = size <= 2 or inside > 1
            closes = [part.shape for axis in one.mesh or () for part in axis.segments]
            made.append((size, size if alone else str(closes)))
    for _, group in groupby(made, key=lambda each: each[1]):
        sizes = [size for size, _ in group]
        step = sizes[1] - sizes[0] if len(sizes) > 1 else 0
        if step and sizes == list(range(sizes[0], sizes[-1] + 1, step)) and sizes[0] % step == 0:
            yield _ranged(machine, shape, name, range(sizes[0], sizes[-1] + 1, step), False)
        else:
            yield from (_numbered(machine, shape, name, size) for size in sizes)


def _numbered(machine: Machine, shape: Sequence[str], name: str, size: int) -> OpenCount:
    return OpenCount(_shaped(machine, shape, {name: size}), symbol(name, exact=True), size, size, size)


def _ranged(machine: Machine, shape: Sequence[str], name: str, sizes: range, is_open: bool) -> OpenCount:
    if len(sizes) == 1 and not is_open:
        return _numbered(machine, shape, name, sizes[0])
    least, most = sizes[0], None if is_open else sizes[-1]
    count = chip_count(name, least, most, sizes.step)
    return OpenCount(_shaped(machine, shape, {name: count}), count, least, most, sizes.step)


def _shaped(machine: Machine, shape: Sequence[str], sizes: Mapping[str, Any]) -> Machine:
    return with_mesh(replace(machine, shape=tuple(sizes[part] if part in sizes else int(part) for part in shape)))
