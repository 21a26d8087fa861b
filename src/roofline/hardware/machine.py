"""Machine: what a device offers, as frozen values. No rate is ever guessed: what is unknown is absent.

A :class:`Machine` is what a target such as ``h100`` resolves to, with the caller's overrides applied. It turns the
neutral words of Work (``matrix``, ``vector``, ``main``) into its own units and levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from roofline import dtypes
from roofline.errors import HardwareError, suggest


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


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
    """

    name: str
    kind: str
    peaks: Mapping[str, Figure]
    clock: Figure | None = None
    tile: tuple[int, int] | None = None
    achievable: Mapping[str, Figure] = field(default_factory=_empty)


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory level, or a link data can come over (``pcie``).

    ``bandwidth`` is one-way bytes/s of the whole device, ``capacity`` bytes of the whole device; ``per_core`` is
    the part one core sees, where the level is split among cores. Each is None where unknown.
    """

    name: str
    bandwidth: Figure | None = None
    capacity: Figure | None = None
    per_core: Figure | None = None
    achievable: Figure | None = None
    link: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A way to other chips: one-way bytes/s per link, how many links, the latency of one hop, the largest domain."""

    name: str
    bandwidth: Figure | None = None
    links: int | None = None
    latency: Figure | None = None
    domain: int | None = None
    achievable: Figure | None = None
    topology: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Rate:
    """The answer to "how fast": the resource's name, amount per second, and what had to be said about it."""

    resource: str
    value: Any
    dtype: str = ""
    figure: Figure | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """One device: its compute units, its memory levels from ``main`` inwards, its links.

    ``unit`` and ``over`` are the caller's choices (``--unit vector``, ``--over vmem``): they change how ``matrix``
    and ``main`` resolve, never the Work. ``use_achievable`` multiplies rates by the measured fractions where known.
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
    shape: tuple[int, ...] = ()
    prices: Mapping[str, Figure] = field(default_factory=_empty)
