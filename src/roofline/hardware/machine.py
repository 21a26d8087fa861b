"""Machine: what a device offers, as frozen values. No rate is ever guessed: what is unknown is absent.

A :class:`Machine` is what a target such as ``h100`` resolves to, with the caller's overrides applied. It turns the
neutral words of Work (``matrix``, ``vector``, ``main``) into its own units and levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from roofline.frozen import Frozen, dataclass

if TYPE_CHECKING:
    from roofline.hardware.network import Mesh


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
    notes: tuple[str, ...] = ()
    unit: str | None = None
    over: str | None = None
    use_achievable: bool = False
    given: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
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

    def __repr__(self) -> str:
        shape = ":" + "x".join(map(str, self.shape)) if self.shape else ""
        given = f", given: {', '.join(self.given)}" if self.given else ""
        return f"Machine({self.key}{shape}{given})"
