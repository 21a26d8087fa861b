"""Machine: what a device offers, as frozen values. No rate is ever guessed: what is unknown is absent.

A :class:`Machine` is what a target such as ``h100`` resolves to, with the caller's overrides applied. It turns the
neutral words of Work (``matrix``, ``vector``, ``main``) into its own units and levels.

Mesh axes: the chips of a target by named axes, and the links that each axis runs over.

>>> from roofline.hardware import chip
>>> mesh = chip("v5e:16x4").mesh
>>> mesh, mesh.chips, mesh["Y"].segments[0].shape
(Mesh(X=16 ici ring, Y=4 ici line), 64, 'line')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from roofline import dtypes
from roofline.answers import Answer, Part, capability
from roofline.errors import HardwareError
from roofline.frozen import Frozen, NamedTuple, dataclass, fields, once, replace
from roofline.quantity import format_amount, in_a_row
from roofline.sections import Section, Table
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

#: The levels of those that are in a chip, before its memory.
CACHE_LEVELS = frozenset({"llc", "l3", "l2", "l1", "smem", "lds", "shared", "vmem", "cmem", "sbuf", "tmem"})

#: The links between chips of a node that people name.
SCALE_UP_LINKS = ("link", "nvlink", "ici", "xgmi", "neuronlink", "ethernet", "hccs", "ualink")

#: The links to other nodes that people name.
NETWORK_LINKS = ("nic", "dcn")

#: Words for the main level, and which of its figures each means.
MAIN_WORDS = {"memory": "bandwidth", "bandwidth": "bandwidth", "main": "bandwidth", "capacity": "capacity"}

#: Words for a number of chips, which no figure of one is; and how it is said.
COUNTS = ("count", "chips", "devices", "gpus", "number", "num_chips", "num_devices")
SEVERAL_OF_ONE = "four of a chip are tensor=4 of a model, or mesh={'X': 4} of a line"

#: What the power of a chip is called.
#:
#: :meta hide-value:
TDP_WORDS = ("tdp", "power")


#: Axes of each kind of torus.
TORUS_DIMENSIONS = {"ring": 1, "torus2d": 2, "torus3d": 3}

_EMPTY: Mapping[str, Any] = Frozen({})


class Figure(NamedTuple):
    """One number with where it comes from.

    ``basis`` is spec, derived, measured, table or given (by the caller); ``value`` is in SI base units. ``doubt`` says
    that it is in doubt and why; it is empty where it is not.
    """

    value: float
    source: str = ""
    basis: str = "spec"
    note: str = ""
    date: str = ""
    doubt: str = ""

    @property
    def is_set(self) -> bool:
        """Whether a caller set it in place of a machine's own figure, which says so in its source."""
        return self.basis == "given" and bool(self.source)

    @property
    def remarks(self) -> str:
        """Its doubt and its note.

        >>> Figure(3e10, "triad", "measured", "quartiles 2 to 3", doubt="in doubt").remarks
        'in doubt; quartiles 2 to 3'
        """
        return "; ".join(filter(None, (self.doubt, self.note)))


_FIGURE_UNITS = {"bandwidth": "B/s", "capacity": "B", "per_core": "B", "latency": "s", "clock": "Hz", "tdp": "W"}


def figure_unit(path: str) -> str:
    """The unit of a figure by its path.

    >>> figure_unit("hbm.bandwidth"), figure_unit("tensor.bf16"), figure_unit("tensor.achievable.bf16")
    ('B/s', 'FLOP/s', '')
    """
    return _FIGURE_UNITS.get(path.rpartition(".")[2], "" if "achievable" in path.split(".") else "FLOP/s")


def near_twice(value: float, of: float) -> str:
    """Say that a figure is twice another, as a sparse or a duplex one is; nothing where it is not.

    >>> near_twice(1979e12, 989.4e12), near_twice(2e12, 1.008e12), near_twice(2e12, 0.9e12)
    ('exactly twice', 'about twice', '')
    """
    off = abs(value / (2 * of) - 1)
    return "exactly twice" if off <= 0.001 else "about twice" if off <= 0.01 else ""


class Unit(NamedTuple):
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
    achievable: Mapping[str, Figure] = _EMPTY
    per_clock: Mapping[str, Figure] = _EMPTY
    irregular: tuple[str, ...] = ()
    note: str = ""
    per_core: int | None = None


class Memory(NamedTuple):
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


class Link(NamedTuple):
    """A way to other chips.

    ``bandwidth`` is one-way bytes/s of one of the ``links`` (of all together where ``links`` is None), ``latency``
    the time of one hop, ``domain`` the most chips it joins. ``topology`` is switch, fat-tree, mesh, ring, torus2d,
    torus3d, pair or network; ``axes`` is the largest torus, ``wrap`` says when its axes close, ``slices`` which sizes
    they may have and ``host`` which block of chips shares a host. ``reduces`` says what its switches add up on its
    way, where they do and multicast; ``switches`` counts those of one unit, each with ``ports`` downwards of
    ``port_bandwidth``.
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
    reduces: Reduction | None = None
    switches: int | None = None
    ports: int | None = None
    port_bandwidth: Figure | None = None


def _full_axis(link: Link, sizes: Sequence[Size]) -> list[Any]:
    """The largest axis closes; where it is not known, that of all the chips there are, or of any number."""
    if link.axes:
        return [True if is_symbol(n) else n == max(link.axes) for n in sizes]
    chips = product(sizes)
    return [True if link.domain is None or is_symbol(chips) else chips == link.domain for _ in sizes]


def _cubes(link: Link, sizes: Sequence[Size]) -> list[Any]:
    """Optical switches close the axes of whole cubes: all of them, or none."""
    if any(is_symbol(n) for n in sizes):
        return [True for _ in sizes]
    closed: Any = len(sizes) == TORUS_DIMENSIONS[link.topology]
    for n in sizes:
        closed = closed & (n % _CUBE == 0)
    return [closed for _ in sizes]


_CUBE = 4

#: When the axes of a slice close, by the ``wrap`` of its link; axes of a symbolic size are taken to close. A link that
#: does not say it has the first rule.
#:
#: :meta hide-value:
WRAP_RULES: Mapping[str, Callable[[Link, Sequence[Size]], list[Any]]] = {
    "full axis": _full_axis,
    "cubes of 4": _cubes,
    "always": lambda link, sizes: [True for _ in sizes],
    "never": lambda link, sizes: [False for _ in sizes],
}

#: Which sizes the axes of a slice may have, by the ``slices`` of its link: the rule, and how it reads.
#:
#: :meta hide-value:
SLICE_RULES: Mapping[str, tuple[Callable[[int], bool], str]] = {
    "powers of 2": (lambda n: n & (n - 1) == 0, "its axes are powers of 2"),
    "cubes of 4": (lambda n: n <= 2 or n % _CUBE == 0, "its axes are 1, 2 or a multiple of 4"),
    "": (lambda n: True, ""),
}


class Alternate(NamedTuple):
    """A figure another source gives for the same thing: ``of`` is its path (``hbm.bandwidth``, ``tensor.bf16``).

    ``rejected`` marks one that is known to be wrong or to mean something else (a sparse peak, a rounding).
    """

    of: str
    figure: Figure
    rejected: bool = False


class Rate(NamedTuple):
    """The answer to "how fast": the resource's name, amount per second, and what had to be said about it.

    ``value`` may be a symbol in a closed form; ``plain`` is then the number it stands for. ``share`` is the part of
    the amount that has this rate: rows of an array whose data lies in this level. Bytes that are sent go over a
    ``link``, and along an ``axis`` of the mesh where there is one.
    """

    resource: str
    value: Any
    dtype: str = ""
    figure: Figure | None = None
    note: str = ""
    plain: float | None = None
    share: Any = 1
    link: str = ""
    axis: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Machine(Answer):
    """One device: its compute units, its memory levels from ``main`` inwards, its links.

    ``unit`` and ``over`` are the caller's choices (``--unit vector``, ``--over vmem``): they change how ``matrix``
    and ``main`` resolve, never the Work; ``over="warm"`` says that data lies wherever it fits. ``use_achievable``
    multiplies rates by the measured fractions where known.
    ``given`` lists the figures the caller set (``hbm.bandwidth``), ``warnings`` what is odd about them,
    ``alternates`` what other sources say, ``match`` the names a driver reports the device under. ``registers`` are the
    bytes of the register file of one core. ``pooled`` is of how many chips together the figures are, ``alone`` one of
    them. ``announced`` ones are not sold yet. Machines that say the same are equal, whichever files they are from.
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
    prices: Mapping[str, Figure] = _EMPTY
    family: str = ""
    vendor: str = ""
    core: str = ""
    aliases: tuple[str, ...] = ()
    match: tuple[str, ...] = ()
    alternates: tuple[Alternate, ...] = ()
    announced: bool = False
    file: str = ""
    registers: Figure | None = None
    slices: int = 1
    mesh: Mesh | None = None
    pooled: int = 1
    alone: Machine | None = None

    #: What is said of an attribute that bounds have and a machine has not.
    INSTEAD = MappingProxyType(
        {
            "critical_intensity": "the ridge of a format over a memory is chip.ratio('bf16', 'hbm'), in FLOP/B",
            **dict.fromkeys(
                (*dtypes.names(), *MAIN_WORDS, "hbm", "peak", "peaks", "flops", "attainable", "algorithm_bandwidth"),
                "a figure with its source is chip.figure('bf16'), chip.figure('hbm') or chip.figure('hbm.capacity')",
            ),
        }
    )

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Machine) and self._parts == other._parts)

    def __hash__(self) -> int:
        return self._parts[0]

    @once
    def _parts(self) -> tuple[int, Any]:
        """A hash and all that it says, without the file that it was read from; itself where figures are arrays."""
        parts = tuple(getattr(self, each.name) for each in fields(self) if each.name != "file")
        try:
            return hash(parts), parts
        except TypeError:
            return id(self), None

    @property
    def matrix_first(self) -> list[Unit]:
        """Its units, those that multiply matrices first."""
        return sorted(self.units, key=lambda unit: unit.kind != "matrix")

    def segment(self, place: str) -> AxisSegment | None:
        """The segment of its mesh whose bytes stand under ``place`` in Work, or None."""
        return None if self.mesh is None else self.mesh.segment(place)

    @property
    def target(self) -> str:
        """The target as it is typed: ``v5e:4x4``, ``v5e:16x16:2``."""
        shape = ":" + "x".join(map(str, self.shape)) if self.shape else ""
        return f"{self.key}{shape}" + (f":{self.slices}" if self.slices > 1 else "")

    @property
    def chips(self) -> Size:
        """The chips of its shape, in all slices: 1 where it has none."""
        return product(self.shape) * self.slices

    @property
    def of_chips(self) -> str:
        """The name, with the number of chips where there are several: ``256 x TPU v5e``."""
        return self.with_number(self.chips)

    def with_number(self, chips: Size) -> str:
        """The name behind a number of chips, where there are several; that of a pool has the number already.

        >>> from roofline import chip
        >>> chip("h100").with_number(1), chip("h100").with_number(8)
        ('NVIDIA H100 SXM5 80GB', '8 x NVIDIA H100 SXM5 80GB')
        """
        return self.name if is_one(chips) or chips == self.pooled else f"{chips} x {self.name}"

    @property
    def figures_set(self) -> dict[str, float]:
        """The figures that the caller set, in SI units, as the option ``set`` takes them.

        >>> from roofline import chip
        >>> chip("h100", hbm="4 TB/s").figures_set
        {'hbm.bandwidth': 4000000000000.0}
        """
        every = figures_by_path(self).items()
        # a fraction of all formats of a unit is that of each of them
        named = ((path, figure) for path in self.given for each, figure in every if f"{each}.".startswith(f"{path}."))
        return {path: figure.value for path, figure in named}

    def sections(self) -> Iterator[Section]:
        """Its figures with their basis, its rules of thumb, and what is odd about it."""
        yield from capability("Machine.sections")(self)

    def tables_as_data(self) -> Mapping[str, Table]:
        """``figures`` have their basis, source and what other sources make of them; ``other sources`` what these say.

        >>> from roofline import chip
        >>> frame = chip("h100").to_pandas().set_index(["part", "figure"])
        >>> frame.loc[("pcie", "bandwidth"), ["basis", "verdict"]].tolist()
        ['spec', 'one source']
        """
        return dict(capability("Machine.tables_as_data")(self))

    def plain_table(self, table: str | None = None) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """Its figures with their sources, or the table that is named."""
        return Answer.plain_table(self, table or "figures")

    def to_dict(self) -> dict[str, Any]:
        """It as plain data in SI units, every figure with its source and basis."""
        return dict(capability("Machine.to_dict")(self))

    def to_toml(self) -> str:
        """It as a machine file, with what was set on it: ``save("mine.toml")`` writes what ``on="mine.toml"`` reads."""
        return str(capability("Machine.to_toml")(self))

    def figure(self, name: str) -> Figure:
        """The figure that ``name`` sets: ``hbm``, ``hbm.capacity``, ``bf16``, ``link.duplex``, ``mxu.clock``.

        >>> from roofline import chip
        >>> chip("v5e").figure("hbm").value
        819000000000.0
        """
        found: Figure = capability("Machine.figure")(self, name)
        return found

    def ratio(self, name: str, other: str, of: Machine | None = None) -> float:
        """A figure over another one, of this machine or ``of`` another.

        >>> from roofline import chip
        >>> chip("v4", hbm=1.2e12).ratio("hbm", "pcie")
        75.0
        >>> chip("gb200-superpod").ratio("ib.unit", "ib.unit", chip("dgx-h100"))
        9.0
        """
        found: float = capability("Machine.ratio")(self, name, other, of)
        return found

    def explain(self) -> Part:
        """Each figure with its source, and what other sources say.

        >>> from roofline import chip
        >>> unit, dtype, peak, source = chip("v5e").explain().tables()[0].rows[0].cells
        >>> unit, dtype, peak.value, source.partition(" ")[0]
        ('mxu', 'bf16', 197000000000000.0, 'spec')
        """
        return Part(capability("Machine.sections")(self, sources=True))

    def __repr__(self) -> str:
        figures = [] if self.family else [*self._own_figures()]
        given = f", given: {', '.join(self.given)}" if self.given else ""
        return f"Machine({self.target}{': ' * bool(figures)}{', '.join(figures)}{given})"

    def _own_figures(self) -> Iterator[str]:
        """The first peak and the main memory of a chip that no catalog has."""
        for unit in self.units[:1]:
            yield from (f"{name} {format_amount(peak.value, 'FLOP/s')}" for name, peak in [*unit.peaks.items()][:1])
        for memory in self.memories[:1]:
            said = [(memory.bandwidth, "B/s"), (memory.capacity, "B")]
            sizes = [format_amount(figure.value, of) for figure, of in said if figure is not None]
            yield " ".join([memory.name, ", ".join(sizes)])


def figures_by_path(machine: Machine) -> dict[str, Figure]:
    """Every figure of a machine by its path; a bus that is a level and a link stands as the level.

    >>> from roofline import chip
    >>> list(figures_by_path(chip("v5e")))[:3], figures_by_path(chip("v5e"))["ici.bandwidth"].value
    (['mxu.bf16', 'mxu.int8', 'mxu.int4'], 45000000000.0)
    """
    found: dict[str, Figure | None] = {}
    for unit in machine.units:
        found |= {f"{unit.name}.{dtype}": peak for dtype, peak in unit.peaks.items()}
        found |= {f"{unit.name}.achievable.{dtype}": share for dtype, share in unit.achievable.items()}
        found[f"{unit.name}.clock"] = unit.clock
    levels: list[Memory | Link] = [*machine.memories, *machine.links]
    for level in levels:
        for part in ("bandwidth", "capacity", "per_core", "latency", "achievable"):
            found.setdefault(f"{level.name}.{part}", getattr(level, part, None))
    found["tdp"] = machine.tdp
    return {path: figure for path, figure in found.items() if figure is not None}


#: Names of the axes of a target's shape, in order; more than one slice adds an axis of slices.
AXIS_NAMES = ("X", "Y", "Z", "W", "V", "U")
SLICE_AXIS = "S"


class Reduction(NamedTuple):
    """What the switches of a link add up on its way: the ``dtypes``, or every one where none is named; its source.

    Blocks that share a scale are never added up.

    >>> Reduction(("bf16", "fp32")).adds("bf16"), Reduction(("bf16", "fp32")).adds("int8"), Reduction().adds("int8")
    (True, False, True)
    >>> Reduction(("fp8",)).adds("fp8_e4m3"), Reduction(("fp8",)).adds("mxfp8")
    (True, False)
    """

    dtypes: tuple[str, ...] = ()
    source: str = ""
    note: str = ""

    def adds(self, dtype: str) -> bool:
        """Whether it adds up numbers of this format; a format that is not known is taken to be one of them."""
        if not dtype:
            return True
        found = dtypes.get(dtype)
        stored = "fp32" if found.arithmetic == "tf32" else found.arithmetic
        return not found.block and (not self.dtypes or stored in self.dtypes)


@dataclass(frozen=True, slots=True, eq=False)
class AxisSegment:
    """The part of a mesh axis that runs over one link.

    ``place`` is the key of Work its bytes and hops stand under, ``resource`` the name of what is busy; ``link`` names
    the link in ``Machine.links`` and ``tier`` counts it from the inside. ``topology`` is torus (a ring where ``wrap``
    holds, else a line), switch, or mesh (a link between every two). ``size`` counts the members, ``below`` the chips
    of the axis under each. ``nested`` says that what leaves an outer unit has crossed this link too (a fat tree),
    ``reduces`` what the switches add up on its way; a chip has ``lanes`` links at once. ``cut`` holds the size of
    the axis of a slice that this is a part of, and whether that axis closes; ``number`` is its place along the slice.
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
    reduces: Reduction | None = None
    lanes: int = 1
    cut: tuple[int, bool] | None = None
    number: int = 0

    @property
    def directions(self) -> Size:
        """Directions that data can take: two round a ring, one on a line. Two chips have one link, so one direction.

        A ring of symbolic size has two: it is taken to have more than two chips.
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

    def innermost(self, size: int) -> MeshAxis:
        """The part of the axis whose ``size`` chips lie side by side."""
        parts, left = [], size
        for segment in self.segments:
            taken = min(int(segment.size), left)
            parts += [replace(segment, size=taken, wrap=segment.wrap and taken == segment.size)] if taken > 1 else []
            left //= taken
        return replace(self, size=size // left, segments=tuple(parts))

    def __str__(self) -> str:
        parts = [" ".join(filter(None, tier)) for tier in self._tiers()]
        return f"{self.name}={_show(self.size)}" + (f" {', '.join(parts)}" if parts else "")

    @property
    def in_words(self) -> str:
        """``X=64 over nvlink (switch of 8) and nic (switch of 8)``."""
        parts = [f"{link} ({shape}{size and f' of {size}'})" for link, shape, size in self._tiers()]
        return f"{self.name}={_show(self.size)}" + (f" over {in_a_row(parts)}" if parts else "")

    def _tiers(self) -> list[tuple[str, str, str]]:
        """The link, the shape and the size of each tier it runs over; no size where it is that of the axis."""
        several = len(self.segments) > 1 or is_array(self.size)
        return [(x.link, x.shape, _show(x.size) if several else "") for x in self.segments]


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
    def of_one_chip(self) -> str:
        """Whose figures a chip's are, in words: ``one chip's, of 8: X=8 over nvlink (switch)``."""
        count = "" if is_array(self.chips) else f", of {_show(self.chips)}"
        return f"one chip's{count}: {', '.join(axis.in_words for axis in self)}"

    @property
    def sizes(self) -> Mapping[str, Size]:
        """Sizes of the axes by name."""
        return {axis.name: axis.size for axis in self.axes}

    @property
    def single(self) -> frozenset[str]:
        """Names of the axes of size 1, over which nothing is sent. An axis with an array of sizes is not among them."""
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
        twice = next((name for name, count in Counter(listed).items() if count > 1), None)
        if twice is not None:
            raise HardwareError(f"mesh axis {twice!r} is named twice", hint="name each axis once")
        return tuple(self[name] for name in listed)

    def segment(self, place: str) -> AxisSegment | None:
        """Return the segment whose bytes stand under ``place`` in Work, or None."""
        return next((part for axis in self.axes for part in axis.segments if part.place == place), None)

    def __repr__(self) -> str:
        return f"Mesh({', '.join(map(str, self.axes))})"


def _show(size: Size) -> str:
    return "[…]" if is_array(size) else str(size)
