"""Chips behind switches: how mesh axes fill nodes, racks and the switches above them.

The axis named last is the innermost: its chips share a node first. An axis that a node does not hold goes on over
the next tier:

>>> from roofline.hardware import chip
>>> from roofline.hardware.network import with_mesh
>>> with_mesh(chip("dgx-h100:1024"), {"X": 64, "Y": 16}).mesh
Mesh(X=64 ib switch 16, spine switch 4, Y=16 nvlink switch 8, ib switch 2)
>>> chip("dgx-h100:2048")
Traceback (most recent call last):
roofline.errors.HardwareError: a mesh of 2048 chips is larger than dgx-h100, which joins 1024; take at most 1024 ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from roofline.errors import HardwareError
from roofline.hardware.machine import Link, Machine
from roofline.hardware.network import Level, MeshAxis, level_of
from roofline.hardware.network_tiers import domain_of
from roofline.sizes import Size, ceil_div, floor_div, is_array, is_one, is_symbol, maximum, product

_NESTED = ("fat-tree",)


def switch_axes(
    machine: Machine, links: Sequence[Link], sizes: Mapping[str, Size], wrap: bool | None
) -> tuple[tuple[MeshAxis, ...], tuple[str, ...]]:
    """Lay mesh axes over tiers of switches, the last one innermost; ``wrap`` says nothing here."""
    _large_enough(machine, links, sizes)
    made: dict[str, MeshAxis] = {}
    notes: list[str] = []
    before: Size = 1
    outermost = next(iter(sizes), None)
    for name in reversed(list(sizes)):
        size = sizes[name]
        if name != outermost:
            _fills_units(links, name, size, before)
        levels = _levels(links, name, size, before)
        if is_symbol(size) and not levels:
            hint = "give the axes inside it numbers, or name a system with a network between its nodes"
            raise HardwareError(
                f"axis {name} of {size} chips has no link on {machine.key} beside those inside it", hint=hint
            )
        if is_symbol(size):
            notes.append(f"axis {name}: taken to stay within {levels[0].link}")
        made[name] = MeshAxis(name, size, levels)
        before = before * size
    used = {level.link for axis in made.values() for level in axis.levels}
    notes += [note for link in links if link.name in used for note in _about(link)]
    return tuple(made[name] for name in sizes), tuple(notes)


def _levels(links: Sequence[Link], name: str, size: Size, before: Size) -> tuple[Level, ...]:
    """Split one axis over the tiers; chips that do not fill whole units are spread evenly over as many as it takes."""
    levels = []
    left, below = size, 1
    for tier, link in enumerate(links):
        room = _room(link, before * below, tier)
        outer = 1 if room is None or is_symbol(left) else ceil_div(left, room)
        here = ceil_div(left, outer)
        if is_symbol(left) and is_one(room):
            outer, here = left, 1
        if not is_one(here):
            levels.append(
                level_of(
                    link,
                    tier,
                    f"{name}.{link.name}",
                    here,
                    topology="mesh" if link.topology == "mesh" and link.links is not None else "switch",
                    below=below,
                    nested=link.topology in _NESTED,
                    lanes=1 if link.topology == "mesh" or link.links is None else link.links,
                )
            )
        below = below * (here if is_symbol(left) else floor_div(left, outer))
        left = outer
    return (replace(levels[0], place=name),) if len(levels) == 1 else tuple(levels)


def _room(link: Link, spanned: Size, tier: int) -> Size | None:
    """How many members, each of ``spanned`` chips, one unit of the tier has room for; None for any number.

    A symbolic number of chips is taken to fill the innermost tier, and to leave room in the next.
    """
    domain = domain_of(link)
    if domain is None or (is_symbol(spanned) and tier > 0):
        return None
    return 1 if is_symbol(spanned) else maximum(1, floor_div(domain, spanned))


def _fills_units(links: Sequence[Link], name: str, size: Size, before: Size) -> None:
    """An inner axis must divide a unit or fill whole ones; only the outermost may leave some of it empty."""
    for link in links:
        span, domain = before * size, domain_of(link)
        if domain is None or is_symbol(span):
            continue
        uneven = (domain % span != 0) & (span % domain != 0)
        if bool(uneven.any()) if is_array(uneven) else uneven:
            hint = f"let the axes inside divide {domain} chips or multiply to a multiple of it"
            raise HardwareError(f"axis {name} does not fill whole units of {domain} chips on {link.name}", hint=hint)


def _large_enough(machine: Machine, links: Sequence[Link], sizes: Mapping[str, Size]) -> None:
    domain = domain_of(links[-1])
    numbers = [size for size in sizes.values() if not is_symbol(size)]
    chips = product(numbers)
    most = int(chips.max()) if is_array(chips) else chips
    if domain is not None and most > domain:
        message = f"a mesh of {most} chips is larger than {machine.key}, which joins {domain}"
        more = "name a system of your own that joins more ([system.…] in a TOML file)"
        raise HardwareError(message, hint=f"take at most {domain} chips, or {more}")


def _about(link: Link) -> list[str]:
    said = []
    if domain_of(link) is None and link.topology != "network":
        said.append(f"how many chips {link.name} joins is not in the catalog: taken to be enough")
    if link.topology == "mesh" and link.links is None:
        said.append(f"{link.name}: only the bandwidth of all links together is known, which is what is counted")
    return said
