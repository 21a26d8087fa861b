"""The tiers of a network from the inside out: what each joins, through which switches, at which bandwidth.

>>> from roofline.hardware import chip
>>> [(tier.name, tier.chips, tier.degree) for tier in network(chip("dgx-h100")).tiers]
[('nvlink', 8, 8), ('ib', 256, 32), ('spine', 1024, 4)]
>>> network(chip("dgx-h100")).switches(1024)
560
>>> [tier.unit_bandwidth for tier in network(chip("dgx-h100")).tiers]
[450000000000.0, 400000000000.0, 12800000000000.0]
>>> network(chip("v5e")).hosts(256)
32
"""

from __future__ import annotations

from roofline.errors import HardwareError
from roofline.frozen import dataclass
from roofline.hardware.machine import Link, Machine
from roofline.sizes import product


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
        found = next((tier for tier in self.tiers if tier.name == name), None)
        if found is None:
            names = ", ".join(tier.name for tier in self.tiers) or "none"
            raise HardwareError(f"{self.machine.name} has no tier {name!r}", hint=f"its tiers are: {names}")
        return found

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
