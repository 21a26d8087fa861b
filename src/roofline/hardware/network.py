"""The links between chips as tiers, and how mesh axes fill tiers of switches.

>>> from roofline.hardware import chip
>>> [(tier.name, tier.chips, tier.degree) for tier in network(chip("dgx-h100")).tiers]
[('nvlink', 8, 8), ('ib', 256, 32), ('spine', 1024, 4)]
>>> network(chip("dgx-h100")).switches(1024)
560
>>> [tier.unit_bandwidth for tier in network(chip("dgx-h100")).tiers]
[450000000000.0, 400000000000.0, 12800000000000.0]
>>> network(chip("v5e")).hosts(256)
32

The mesh axis named last is the innermost: its chips share a node first. An axis that a node does not hold goes on over
the next tier:

>>> from roofline.hardware.mesh import with_mesh
>>> with_mesh(chip("dgx-h100:1024"), {"X": 64, "Y": 16}).mesh
Mesh(X=64 ib switch 16, spine switch 4, Y=16 nvlink switch 8, ib switch 2)
>>> chip("dgx-h100:2048")
Traceback (most recent call last):
roofline.errors.HardwareError: a mesh of 2048 chips is larger than dgx-h100, which joins 1024; take at most 1024 ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.errors import HardwareError, check_one_of
from roofline.frozen import dataclass, replace
from roofline.hardware.machine import AxisSegment, Link, Machine, MeshAxis
from roofline.sizes import (
    Size,
    ceil_div,
    chip_counts,
    floor_div,
    is_array,
    is_one,
    is_symbol,
    maximum,
    multiple_of,
    product,
)


@dataclass(frozen=True, slots=True)
class Tier:
    """One tier: its link, the chips one of its units joins, and the chips of each child of such a unit.

    ``chips`` is None where any number may join.
    """

    link: Link
    chips: int | None
    below: int = 1

    @property
    def name(self) -> str:
        """Name of the link."""
        return self.link.name

    @property
    def degree(self) -> int | None:
        """Children of one unit: chips of a node, nodes under the same leaf switches."""
        return None if self.chips is None else self.chips // self.below

    @property
    def chip_bandwidth(self) -> float | None:
        """One-way bytes/s that one chip has into this tier, over all its links."""
        return None if self.link.bandwidth is None else self.link.bandwidth.value * (self.link.links or 1)

    @property
    def unit_bandwidth(self) -> float | None:
        """One-way bytes/s that one child has into this tier: a chip's, or what leaves a node."""
        return None if self.chip_bandwidth is None else self.chip_bandwidth * self.below

    @property
    def bandwidth(self) -> float | None:
        """One-way bytes/s of all children of one unit together."""
        return None if self.unit_bandwidth is None or self.degree is None else self.unit_bandwidth * self.degree

    @property
    def switch_bandwidth(self) -> float | None:
        """One-way bytes/s of the switches of one unit over the ports that face its children."""
        link = self.link
        if link.switches is None or link.ports is None or link.port_bandwidth is None:
            return None
        return link.switches * link.ports * link.port_bandwidth.value


@dataclass(frozen=True, slots=True)
class Network:
    """The tiers a machine's chips are joined by, from the inside out."""

    machine: Machine
    tiers: tuple[Tier, ...]

    def __getitem__(self, name: str) -> Tier:
        names = [tier.name for tier in self.tiers]
        check_one_of(f"{self.machine.name} has no tier {name!r}", name, names, "its tiers", error=HardwareError)
        return self.tiers[names.index(name)]

    @property
    def chips(self) -> int | None:
        """The most chips it joins; None where there is no limit."""
        return self.tiers[-1].chips if self.tiers else 1

    def switches(self, chips: int) -> int:
        """Count the switches that join ``chips`` chips, over the tiers whose switches are known."""
        return sum(-(-chips // t.chips) * t.link.switches for t in self.tiers if t.chips and t.link.switches)

    def hosts(self, chips: int) -> int | None:
        """Count the hosts of ``chips`` chips, or None where it is not known how many share one."""
        block = next((tier.link.host for tier in self.tiers if tier.link.host), ())
        return -(-chips // int(product(block))) if block else None


def network(machine: Machine) -> Network:
    """List the tiers of a machine's network: those of its system, or its chip's own links."""
    tiers: list[Tier] = []
    below = 1
    for link in links_inside_out(machine):
        tiers.append(Tier(link, domain_of(link), below))
        below = domain_of(link) or below
    return Network(machine, tuple(tiers))


def links_inside_out(machine: Machine) -> tuple[Link, ...]:
    """List the links that each join more chips than the one before: scale-up first, then one network."""
    chosen: list[Link] = []
    for link in sorted(machine.links, key=lambda link: link.topology == "network"):
        widest = domain_of(chosen[-1]) if chosen else 0
        if link.topology == "network":
            wider = not chosen or chosen[-1].topology != "network"
        else:
            wider = widest is not None and (domain_of(link) or widest + 1) > widest
        if wider:
            chosen.append(link)
    return tuple(chosen)


def domain_of(link: Link) -> int | None:
    """Return the most chips a link joins; None where it is not known or there is no limit.

    A chip with a link to each of the others has no more neighbours than links.

    >>> from roofline.hardware import chip
    >>> domain_of(chip("mi355x").links[0])
    8
    """
    if link.domain is not None:
        return link.domain
    if link.topology == "mesh" and link.links is not None:
        return link.links + 1
    return 2 if link.topology == "pair" else None


def bisection_bandwidth(machine: Machine) -> float | None:
    """One-way bytes/s between the halves of a target's chips, over the cut with the fewest links; None where unknown.

    On a torus the cut crosses one axis: once where it ends, twice where it closes, for every chip of the others. Where
    every two chips have a link it crosses those from one half to the other. Behind switches half of the chips send over
    the outermost tier that all of them take, or over a narrower one inside.

    >>> from roofline.hardware import chip
    >>> [bisection_bandwidth(chip(on)) for on in ("v5e:16x16", "v5e:4x4", "h100:8", "h100:64", "mi355x:8")]
    [1440000000000.0, 180000000000.0, 1800000000000.0, 1600000000000.0, 1228800000000.0]
    """
    if machine.mesh is None or not isinstance(machine.mesh.chips, int) or machine.mesh.chips == 1:
        return None
    chips, cuts = machine.mesh.chips, []
    segments = [segment for axis in machine.mesh for segment in axis.segments]
    for segment in segments:
        link = next(link for link in machine.links if link.name == segment.link)
        if link.bandwidth is None:
            return None
        if segment.topology == "torus":
            size, closed = segment.cut or (segment.size, segment.wrap)
            whole = replace(segment, size=size, wrap=closed)
            cuts.append(chips // size * whole.directions * link.bandwidth.value)
        elif segment.topology == "mesh":
            unit = product(part.size for part in segments if part.link == link.name)
            cuts.append(chips // unit * (unit // 2) * -(-unit // 2) * link.bandwidth.value)
        else:
            cuts.append(chips / 2 * link.bandwidth.value * (link.links or 1))
    return min(cuts, default=None)


def switch_axes(
    machine: Machine, links: Sequence[Link], sizes: Mapping[str, Size], wrap: bool | None
) -> tuple[tuple[MeshAxis, ...], tuple[str, ...]]:
    """Lay mesh axes over tiers of switches, the last axis innermost. ``wrap`` has no effect on switches."""
    _large_enough(machine, links, sizes)
    made: dict[str, MeshAxis] = {}
    notes: list[str] = []
    before: Size = 1
    outermost = next(iter(sizes), None)
    for name in reversed(list(sizes)):
        size = sizes[name]
        if name != outermost:
            _fills_units(links, name, size, before)
        segments = _segments(links, name, size, before)
        if is_symbol(size) and not segments:
            hint = "give the axes inside it numbers, or name a system with a network between its nodes"
            wrong = f"axis {name} of {size} chips has no link on {machine.key} beside those inside it"
            raise HardwareError(wrong, hint=hint)
        if is_symbol(size) and not chip_counts(size):
            notes.append(_said(name, size, segments))
        made[name] = MeshAxis(name, size, segments)
        before = before * size
    used = {part.link for axis in made.values() for part in axis.segments}
    notes += [note for link in links if link.name in used for note in _about(link)]
    return tuple(made[name] for name in sizes), tuple(notes)


def _segments(links: Sequence[Link], name: str, size: Size, before: Size) -> tuple[AxisSegment, ...]:
    """Split one axis over the tiers. Chips that do not fill whole units are spread evenly over the units they need."""
    segments = []
    left, below, whole = size, 1, before
    for tier, link in enumerate(links):
        room = _room(link, whole, tier)
        outer = 1 if room is None or is_symbol(left) else ceil_div(left, room)
        here = left if is_one(outer) else ceil_div(left, outer)
        if is_symbol(left) and is_one(room):
            outer, here = left, 1
        elif is_symbol(left) and len(links) > tier + 1 and room is not None:
            if (multiple_of(left) / room).is_Integer:
                outer, here = left / room, room  # whole units: 8·n chips where one has room for 8
            elif len(units := _units(left, room)) == 1:
                (outer,) = units
                here = left / outer
        if not is_one(here):
            facts: dict[str, Any] = {"below": below, "nested": link.topology == "fat-tree"}
            facts["topology"] = "mesh" if link.topology == "mesh" and link.links is not None else "switch"
            facts["lanes"] = 1 if link.topology == "mesh" or link.links is None else link.links
            segments.append(segment_over(link, tier, f"{name}.{link.name}", here, **facts))
        below = below * here if is_symbol(left) else floor_div(size, outer)
        whole = whole * (here if room is None or is_symbol(left) else room)  # chips of a unit that is full
        left = outer
    return (replace(segments[0], place=name),) if len(segments) == 1 else tuple(segments)


def _units(members: Size, room: Size) -> set[int]:
    """The units that have room for an open number of members, at each number of chips that there can be."""
    return {-(-int(members.subs(count, n)) // room) for count in chip_counts(members) for n in count.values}


def _said(name: str, size: Size, segments: Sequence[AxisSegment]) -> str:
    inner, *outer = segments
    if not outer:
        return f"axis {name}: taken to stay within {inner.link}"
    return f"axis {name}: {size} chips, whole units of {inner.size} on {inner.link}; {outer[0].link} joins the units"


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


def segment_over(link: Link, tier: int, place: str, size: Size, **facts: Any) -> AxisSegment:
    """Make the part of an axis that runs over ``link``; what the link says of itself comes along."""
    resource = facts.pop("resource", link.name)
    return AxisSegment(place, resource, link.name, tier, size=size, reduces=link.reduces, **facts)
