"""Machine: what a device offers, as frozen values. No rate is ever guessed: what is unknown is absent.

A :class:`Machine` is what a target such as ``h100`` resolves to, with the caller's overrides applied. It turns the
neutral words of Work (``matrix``, ``vector``, ``main``) into its own units and levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from roofline.errors import HardwareError
from roofline.frozen import Frozen
from roofline.sizes import Size, is_array, is_one, is_symbol, maximum, minimum, product
from roofline.statements import Assumption

#: The kind of the units people name; any other name needs ``kind``.
UNIT_KINDS = {
    "tensor": "matrix", "mxu": "matrix", "matrix": "matrix", "mme": "matrix", "cube": "matrix", "xmx": "matrix",
    "amx": "matrix", "cuda": "vector", "vpu": "vector", "vector": "vector", "gpu": "vector", "avx": "vector",
    "cpu": "vector", "tpc": "vector",
}  # fmt: skip

#: The memory levels people name, and whether they are links to memory elsewhere.
LEVEL_NAMES = (
    "hbm", "dram", "sram", "llc", "l3", "l2", "l1", "smem", "vmem", "cmem", "sbuf", "tmem", "pcie", "c2c", "host",
)  # fmt: skip

LINK_LEVELS = frozenset({"pcie", "c2c", "host"})


#: Names of the axes of a target's shape, in order; more than one slice adds an axis of slices.
AXIS_NAMES = ("X", "Y", "Z", "W", "V", "U")
SLICE_AXIS = "S"


def _empty() -> Mapping[str, Any]:
    return Frozen({})


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with where it comes from.

    ``basis`` is spec, derived, measured, table or given (by the caller); ``value`` is in SI base units.
    """

    value: float
    source: str = ""
    basis: str = "spec"
    note: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """A compute unit: ``name`` is the machine's word (mxu, vpu, tensor, cuda, amx), ``kind`` matrix or vector.

    ``peaks`` maps an arithmetic dtype (``bf16``, ``fp8``, ``fp16_acc16``) to FLOP/s, dense. ``tile`` is the size
    the unit pads matrices to (rows, columns), where known. ``achievable`` maps a dtype to the measured fraction.
    ``per_clock`` maps a dtype to FLOP per clock of one core, where a source counts them; ``irregular`` names the
    dtypes whose peak is known not to be twice (or half) that of the neighbouring width. ``per_core`` counts them in
    one core: tensor cores or lanes of an SM, ALUs of a TensorCore.
    """

    name: str
    kind: str
    peaks: Mapping[str, Figure]
    clock: Figure | None = None
    tile: tuple[int, int] | None = None
    achievable: Mapping[str, Figure] = field(default_factory=_empty)
    per_clock: Mapping[str, Figure] = field(default_factory=_empty)
    irregular: tuple[str, ...] = ()
    note: str = ""
    per_core: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory level, or a link data can come over (``pcie``).

    ``bandwidth`` is one-way bytes/s of the whole device, ``capacity`` bytes of the whole device; ``per_core`` is
    the capacity one core sees, where the level is split among cores. Each is None where unknown. ``label`` is the
    vendor's word for the capacity ("80 GB", which is not 80e9 bytes). ``curve`` lists, for a measured machine's main
    memory, the bandwidth at each working set of a warm run, smallest first.
    """

    name: str
    bandwidth: Figure | None = None
    capacity: Figure | None = None
    per_core: Figure | None = None
    achievable: Figure | None = None
    link: bool = False
    label: str = ""
    curve: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A way to other chips.

    ``bandwidth`` is one-way bytes/s of one of the ``links`` (of all together where ``links`` is None), ``latency``
    the time of one hop, ``domain`` the most chips it joins. ``topology`` is switch, fat-tree, mesh, ring, torus2d,
    torus3d, pair or network; ``axes`` is the largest torus, ``wrap`` says when its axes close, ``slices`` which sizes
    they may have and ``host`` which block of chips shares a host. ``reduces`` says that its switches add up what
    passes them; ``switches`` counts those of one unit, each with ``ports`` downwards of ``port_bandwidth``.
    """

    name: str
    bandwidth: Figure | None = None
    links: int | None = None
    latency: Figure | None = None
    domain: int | None = None
    achievable: Figure | None = None
    topology: str = ""
    label: str = ""
    axes: tuple[int, ...] = ()
    wrap: str = ""
    slices: str = ""
    host: tuple[int, ...] = ()
    reduces: bool = False
    switches: int | None = None
    ports: int | None = None
    port_bandwidth: Figure | None = None


@dataclass(frozen=True, slots=True)
class Alternate:
    """A figure another source gives for the same thing: ``of`` is its path (``hbm.bandwidth``, ``tensor.bf16``).

    ``rejected`` marks one that is known to be wrong or to mean something else (a sparse peak, a rounding).
    """

    of: str
    figure: Figure
    rejected: bool = False


@dataclass(frozen=True, slots=True)
class Rate:
    """The answer to "how fast": the resource's name, amount per second, and what had to be said about it.

    ``value`` may be a symbol in a closed form; ``plain`` is then the number it stands for.
    """

    resource: str
    value: Any
    dtype: str = ""
    figure: Figure | None = None
    note: str = ""
    plain: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AxisSegment:
    """The part of a mesh axis that runs over one link.

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

    @classmethod
    def over(cls, link: Link, tier: int, place: str, size: Size, **facts: Any) -> AxisSegment:
        """Make the part of an axis that runs over ``link``; what the link says of itself comes along."""
        return cls(place, facts.pop("resource", link.name), link.name, tier, size=size, reduces=link.reduces, **facts)

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
    """A named axis of the mesh: its size, and the links it runs over, the innermost first; size 1 runs over none."""

    name: str
    size: Size
    segments: tuple[AxisSegment, ...] = ()

    def __str__(self) -> str:
        several = len(self.segments) > 1 or is_array(self.size)
        parts = [f"{x.link} {x.shape}" + (f" {_show(x.size)}" if several else "") for x in self.segments]
        return f"{self.name}={_show(self.size)}" + (f" {', '.join(parts)}" if parts else "")


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
    def sizes(self) -> Mapping[str, Size]:
        """Sizes of the axes by name."""
        return {axis.name: axis.size for axis in self.axes}

    @property
    def single(self) -> frozenset[str]:
        """Names of the axes of one chip, over which nothing is sent; an array of sizes is never one."""
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
        twice = next((name for name in listed if listed.count(name) > 1), None)
        if twice is not None:
            raise HardwareError(f"mesh axis {twice!r} is named twice", hint="name each axis once")
        return tuple(self[name] for name in listed)

    def segment(self, place: str) -> AxisSegment | None:
        """Return the segment whose bytes stand under ``place`` in Work, or None."""
        return next((part for axis in self.axes for part in axis.segments if part.place == place), None)

    def __repr__(self) -> str:
        return f"Mesh({', '.join(map(str, self.axes))})"


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """One device: its compute units, its memory levels from ``main`` inwards, its links.

    ``unit`` and ``over`` are the caller's choices (``--unit vector``, ``--over vmem``): they change how ``matrix``
    and ``main`` resolve, never the Work; ``over="warm"`` says that data lies wherever it fits. ``use_achievable``
    multiplies rates by the measured fractions where known.
    ``given`` lists the figures the caller set (``hbm.bandwidth``), ``warnings`` what is odd about them,
    ``alternates`` what other sources say, ``match`` the names a driver reports the device under. ``registers`` are the
    bytes of the register file of one core. ``pooled`` is of how many chips together the figures
    are, ``alone`` one of them.
    """

    key: str
    name: str
    units: tuple[Unit, ...]
    memories: tuple[Memory, ...]
    links: tuple[Link, ...] = ()
    cores: int | None = None
    tdp: Figure | None = None
    notes: tuple[Assumption, ...] = ()
    unit: str | None = None
    over: str | None = None
    use_achievable: bool = False
    given: tuple[str, ...] = ()
    warnings: tuple[Assumption, ...] = ()
    shape: tuple[int, ...] = ()
    prices: Mapping[str, Figure] = field(default_factory=_empty)
    family: str = ""
    vendor: str = ""
    core: str = ""
    aliases: tuple[str, ...] = ()
    match: tuple[str, ...] = ()
    alternates: tuple[Alternate, ...] = ()
    file: str = ""
    registers: Figure | None = None
    slices: int = 1
    mesh: Mesh | None = None
    pooled: int = 1
    alone: Machine | None = None

    @property
    def target(self) -> str:
        """The target as it is typed: ``v5e:4x4``, ``v5e:16x16:2``."""
        shape = ":" + "x".join(map(str, self.shape)) if self.shape else ""
        return f"{self.key}{shape}" + (f":{self.slices}" if self.slices > 1 else "")

    def __repr__(self) -> str:
        given = f", given: {', '.join(self.given)}" if self.given else ""
        return f"Machine({self.target}{given})"


def _show(size: Size) -> str:
    return "[…]" if is_array(size) else str(size)
