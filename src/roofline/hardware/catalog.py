"""Names → Machines: the shipped catalog of chips and systems, and the user's own files laid over it.

A layer is one file. A name is looked up in the user's layers, the last one first, then in the shipped index; the
chip is then taken from the topmost layer that defines it. ``inherits`` looks one layer further down when a chip
inherits from its own key, so that a user's ``[chip.h100] inherits = "h100"`` changes only what it says.

The index says which file holds a chip and under which names it may be asked for, so that a command parses one TOML
file. ``python -m roofline.hardware.catalog`` makes it from the files, and a test holds it to them.

>>> normalise("NVIDIA H100 SXM"), normalise("tpu-v5e"), normalise("TPU v5e"), normalise("gtx1080ti")
('h100sxm', 'v5e', 'v5e', '1080ti')
>>> read_index().key("1080 Ti"), read_index().file("gtx-1080-ti")
('gtx-1080-ti', 'nvidia-pascal.toml')

Figures are checked: the catalog's against each other, those of a chip of the user's own for doubts.

>>> from roofline.hardware import chip, override
>>> check_figures(chip("h100"))
[]
>>> check_figures(chip("gb200"))[0]
'tensor.tf32: 1250 TFLOP/s, but 152 cores x 4096 FLOP/clk x 1.926 GHz is 1199 TFLOP/s (4.2 % off)'
>>> check_figures(chip("h100", fp8="4 PFLOP/s"))[0]
'tensor.fp8: 4000 TFLOP/s, but 132 cores x 8192 FLOP/clk x 1.83 GHz is 1979 TFLOP/s (102.1 % off)'

Doubts are said in every answer and stop nothing:

>>> sparse = override(chip("h100"), {"bf16": 2 * 989.4e12})
>>> doubtful_figures(sparse, chip("h100"))[0]
'tensor.bf16 is exactly twice that of NVIDIA H100 SXM5 80GB: a sparse (or duplex) figure?'
>>> doubtful_figures(override(chip("h100"), {"bf16": 989}), None)[0]
'tensor.bf16 is 989 FLOP/s: is its unit missing?'
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from roofline import counts, dtypes
from roofline.errors import HardwareError, did_you_mean, quoted
from roofline.files import read_toml
from roofline.frozen import NamedTuple, replace
from roofline.hardware.machine import (
    CACHE_LEVELS,
    COUNTS,
    LEVEL_NAMES,
    LINK_LEVELS,
    MAIN_WORDS,
    NETWORK_LINKS,
    SCALE_UP_LINKS,
    SEVERAL_OF_ONE,
    TDP_WORDS,
    Machine,
    Unit,
    figure_unit,
    figures_by_path,
    near_twice,
)
from roofline.hardware.schema import (
    CHIP_KEYS,
    DESCRIBED,
    FieldPath,
    build_chip,
    build_system,
    check_file,
    names_of,
    template,
)
from roofline.quantity import format_quantity, in_a_row, whole_number
from roofline.signatures import call, either, spelled
from roofline.statements import Assumption, assume

#: How far a peak may lie from what it is held against.
TOLERANCE = 0.02

#: dtype, what it is held against (the first that is listed), the ratio a matrix unit has unless declared irregular.
RATIOS: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("fp8", ("bf16", "fp16"), 2.0),
    ("int8", ("bf16", "fp16"), 2.0),
    ("int4", ("int8",), 2.0),
    ("fp4", ("fp8",), 2.0),
    ("tf32", ("bf16", "fp16"), 0.5),
    ("bf16", ("fp16",), 1.0),
)


def check_figures(machine: Machine) -> list[str]:
    """Return what does not fit together in a machine's figures, one line each; nothing means nothing was found."""
    return [
        *(line for unit in machine.units for line in _against_clock(machine, unit)),
        *(line for unit in machine.units if unit.kind == "matrix" for line in _against_each_other(unit)),
        *_inner_levels(machine),
    ]


def _against_clock(machine: Machine, unit: Unit) -> Iterator[str]:
    """Hold peak against cores x FLOP per clock x clock."""
    if machine.cores is None or unit.clock is None:
        return
    for dtype, per_clock in unit.per_clock.items():
        peak = unit.peaks.get(dtype)
        expected = machine.cores * per_clock.value * unit.clock.value
        if peak is not None and abs(peak.value / expected - 1) > TOLERANCE:
            yield (
                f"{unit.name}.{dtype}: {peak.value / 1e12:.4g} TFLOP/s, but {machine.cores} cores x "
                f"{per_clock.value:g} FLOP/clk x {unit.clock.value / 1e9:.4g} GHz is {expected / 1e12:.4g} TFLOP/s "
                f"({100 * abs(peak.value / expected - 1):.1f} % off)"
            )


def _against_each_other(unit: Unit) -> Iterator[str]:
    """Hold fp8 against 2 x bf16, and so on."""
    for dtype, others, ratio in RATIOS:
        other = next((name for name in others if name in unit.peaks), None)
        if dtype not in unit.peaks or other is None or dtype in unit.irregular:
            continue
        found = unit.peaks[dtype].value / unit.peaks[other].value
        if abs(found / ratio - 1) > TOLERANCE:
            usual = f"{unit.name}.{dtype} is {found:.3g} x {other}, where most chips have {ratio:g} x"
            yield f'{usual}: check it, or write irregular = ["{dtype}"] in the unit where it is so'


def _inner_levels(machine: Machine) -> Iterator[str]:
    """Hold each inner level against the main one: it should not be slower."""
    own = [memory for memory in machine.memories if not memory.link and memory.bandwidth is not None]
    for inner in own[1:]:
        outer, slower = own[0].bandwidth, inner.bandwidth
        if outer is not None and slower is not None and slower.value < outer.value:
            yield f"{inner.name} is slower than {own[0].name}: {slower.value:.3g} against {outer.value:.3g} B/s"


#: Below these nothing is of a machine: a figure so small was meant in another unit.
_LEAST = {"FLOP/s": 1e6, "B/s": 1e6, "B": 512.0, "Hz": 1e6}


def doubtful_figures(machine: Machine, base: Machine | None) -> tuple[Assumption, ...]:
    """List figures without their unit, and those twice the base chip's, or else what self-checks find."""
    known = set(check_figures(base)) if base is not None else set()
    twice = tuple(_twice(machine, base)) if base is not None else ()
    found = () if twice else tuple(finding for finding in check_figures(machine) if finding not in known)
    slips = assume("doubt", (*_too_small(machine), *twice))
    return (*slips, *assume("machine", (*_without_peak(machine), *found)))


def _too_small(machine: Machine) -> Iterator[str]:
    for path, figure in figures_by_path(machine).items():
        unit = figure_unit(path)
        if figure.value < _LEAST.get(unit, 0.0):
            yield f"{path} is {format_quantity(figure.value, unit)}: is its unit missing?"


def _without_peak(machine: Machine) -> Iterator[str]:
    """Say which FLOPs per clock make no peak, for want of a clock or of the number of cores."""
    for unit in machine.units:
        lacks = "clock" if unit.clock is None else "number of cores"
        names = [dtype for dtype in unit.per_clock if dtype not in unit.peaks]
        if names:
            yield f"{unit.name} has FLOP per clock in {', '.join(names)} and no {lacks}, so no peak"


def _twice(machine: Machine, base: Machine) -> Iterator[str]:
    before = figures_by_path(base)
    for path, figure in figures_by_path(machine).items():
        is_rate = path in before and figure_unit(path) in ("FLOP/s", "B/s")
        if is_rate and (near := near_twice(figure.value, before[path].value)):
            yield f"{path} is {near} that of {base.name}: a sparse (or duplex) figure?"


CATALOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "catalog")

INDEX = "index.json"

#: Words in front of a chip's name that say who makes it or what it is, not which one it is.
_MAKERS = (
    "gpu", "nvidia", "amd", "google", "intel", "aws", "apple", "huawei", "cerebras", "geforce", "gtx", "rtx", "tesla",
    "instinct", "radeon", "cloud", "tpu", "ascend", "xeon", "epyc",
)  # fmt: skip

#: Several chips as people and other tools write them: ``8xH100``, ``8 H100s``, ``h100 x 8``, ``v5e-16``, ``v5e 4x4``.
_MANY = (
    r"(?P<count>\d+)(?:\s*(?P<times>[x×*])\s*|\s+)(?P<chip>\S.*)"
    r"|(?P<first>.+?)\s*(?P<sign>[x×*]|-|\s)\s*(?P<shape>\d+(?:[x×]\d+)*)"
)

#: Chips whose slices Google names after their TensorCores: a v4-8 is four chips.
_COUNTED_BY_CORE = ("v2", "v3", "v4", "v5p")

#: The most chips of a family that are listed where its name is taken for one of them.
MOST_LISTED = 16

#: The most chips one may inherit through.
LONGEST_CHAIN = 50


def user_file(name: str) -> str:
    """Name a file or folder of the user's own, such as the one of this machine's measured figures, ``this.toml``."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "roofline", name)


class ChipSummary(NamedTuple):
    """What the index says of a chip: enough to choose among all of them without reading their files."""

    key: str
    name: str
    vendor: str
    capacities: Mapping[str, float]
    announced: bool = False


class Index(NamedTuple):
    """``chips`` maps a key to its file, ``aliases`` a normalised name to a key, ``match`` a device name to a key.

    ``systems`` maps the key of a system to its file, ``system_aliases`` a normalised name to such a key.
    """

    chips: Mapping[str, str]
    aliases: Mapping[str, str]
    match: Mapping[str, str]
    systems: Mapping[str, str]
    system_aliases: Mapping[str, str]
    summaries: Mapping[str, tuple[Any, ...]]

    def key(self, name: str) -> str | None:
        """Return the key of the chip called ``name``, or None."""
        return self.aliases.get(normalise(name))

    def file(self, key: str) -> str:
        """Return the name of the file that holds a chip."""
        return self.chips[key]


def normalise(name: str) -> str:
    """Reduce a name to what is compared: lower case, letters and digits, no maker in front."""
    plain = "".join(filter(str.isalnum, counts.plain(name).lower()))
    while plain.startswith(_MAKERS) and plain not in _MAKERS:
        plain = plain.removeprefix(next(filter(plain.startswith, _MAKERS)))
    return plain


@cache
def read_index() -> Index:
    """Read the shipped index, once."""
    with open(os.path.join(CATALOG, INDEX), encoding="utf-8") as handle:
        data: dict[str, Any] = json.load(handle)
    return Index(*(data[field] for field in Index._fields))


def machine_template() -> str:
    """A machine file to edit, for a chip that is not in the catalog."""
    with open(os.path.join(os.path.dirname(CATALOG), "template.toml"), encoding="utf-8") as handle:
        return handle.read()


def is_chip(name: str, files: Iterable[Any] = ()) -> bool:
    """Whether a chip or a system is called so."""
    try:
        find_machine(name, read_layers(files))
    except HardwareError:
        return False
    return True


def has_name(machine: Machine, name: str) -> bool:
    """Whether a machine is called so: by its key, its full name or another of its names."""
    return normalise(name) in map(normalise, (machine.key, machine.name, *machine.aliases))


def summaries() -> list[ChipSummary]:
    """List the shipped chips with their capacities, from the index alone.

    >>> next(chip for chip in summaries() if chip.key == "h100").capacities["hbm"]
    84942979072.0
    """
    return [ChipSummary(key, *rest) for key, rest in read_index().summaries.items()]


def chip_of_device(name: str) -> str | None:
    """Return the key of the chip a driver reports under this name, the most specific pattern winning, or None.

    A pattern stands at the end of the name: what follows a name makes another chip ("RTX 4090 D", "RX 7900 XTX").

    >>> [chip_of_device(name) for name in ("NVIDIA A100-SXM4-40GB", "TPU v5 lite", "NVIDIA GeForce RTX 4090 D")]
    ['a100-40gb', 'v5e', None]
    """
    device = " ".join(name.split()).lower()
    ends = (pattern for pattern in read_index().match if device.endswith(pattern.lower()))
    found = [pattern for pattern in ends if not re.search(r"\w$", device[: -len(pattern)])]
    return read_index().match[max(found, key=len)] if found else None


def _chip_of_short_name(squashed: str) -> str | None:
    """Return the key of the chip whose driver's name this is without its maker, or None.

    >>> _chip_of_short_name(normalise("V100-SXM2-32GB")), _chip_of_short_name(normalise("v100"))
    ('v100', None)
    """
    return next((key for pattern, key in read_index().match.items() if normalise(pattern) == squashed), None)


def chips_of_family(word: str) -> list[str]:
    """List the chips of a maker or an architecture, as the files of the catalog are called.

    >>> chips_of_family("hopper")[:3], chips_of_family("gpu")
    (['h100', 'h100-pcie', 'h100-nvl'], [])
    """
    words = {key: file.removesuffix(".toml").split("-") for key, file in read_index().chips.items()}
    return [] if word == "gpu" else [key for key, found in words.items() if word in found]


def chips_called(text: str) -> list[str]:
    """List the chips whose full names hold every word of a text.

    >>> chips_called("jetson-orin-nano"), chips_called("rtx pro 6000"), chips_called("orin xavier")
    (['orin-nano'], ['rtx-pro-6000'], [])
    """
    wanted = re.findall(r"[a-z]+|\d+", text.lower())
    said = {each.key: set(re.findall(r"[a-z]+|\d+", each.name.lower())) for each in summaries()}
    return [key for key, words in said.items() if wanted and words.issuperset(wanted)]


def make_index(machines: Iterable[Machine], systems: Iterable[Machine] = ()) -> dict[str, Any]:
    """Make the content of an index; two chips, or a chip and a system, under one name are an error."""
    chips: dict[str, str] = {}
    aliases: dict[str, str] = {}
    match: dict[str, str] = {}
    summaries: dict[str, Any] = {}
    for machine in machines:
        chips[machine.key] = os.path.basename(machine.file)
        capacities = {memory.name: memory.capacity.value for memory in machine.memories if memory.capacity}
        summaries[machine.key] = [machine.name, machine.vendor, capacities, *[True] * machine.announced]
        for name in (machine.key, machine.name, *machine.aliases):
            _claim(aliases, normalise(name), machine.key, "name")
        for pattern in machine.match:
            _claim(match, pattern, machine.key, "device name")
    system_files: dict[str, str] = {}
    system_aliases: dict[str, str] = {}
    for system in systems:
        system_files[system.key] = os.path.basename(system.file)
        for name in (system.key, *system.aliases):
            _claim(dict(aliases), normalise(name), system.key, "name")
            _claim(system_aliases, normalise(name), system.key, "name")
    return {
        "schema": 1,
        "chips": chips,
        "aliases": dict(sorted(aliases.items())),
        "match": match,
        "summaries": summaries,
        "systems": system_files,
        "system_aliases": dict(sorted(system_aliases.items())),
    }


def _claim(taken: dict[str, str], name: str, key: str, what: str) -> None:
    other = taken.setdefault(name, key)
    if other != key:
        raise HardwareError(f"the {what} {name!r} belongs to both {other} and {key}", hint="keep it in one of them")


def write_index(folder: str = CATALOG) -> None:
    """Make the index anew from the catalog files in ``folder``."""
    content = make_index(read_chips(folder), read_systems(folder))
    with open(os.path.join(folder, INDEX), "w", encoding="utf-8") as handle:
        json.dump(content, handle, indent=1, ensure_ascii=False)
        handle.write("\n")


class CatalogLayer(NamedTuple):
    """One parsed file: its chips and systems as they stand, and where it is."""

    chips: Mapping[str, dict[str, Any]]
    place: FieldPath
    family: str
    systems: Mapping[str, dict[str, Any]]

    def names(self, systems: bool = False) -> Iterator[tuple[str, str]]:
        """Every name of every chip, or system, as names are compared, with its key."""
        tables = self.systems if systems else self.chips
        return ((normalise(name), key) for key, raw in tables.items() for name in names_of(key, raw))

    def key(self, squashed: str, systems: bool = False) -> str | None:
        """Return the key of the chip, or the system, with this name, or None."""
        return next((key for name, key in self.names(systems) if name == squashed), None)


def _own_key(squashed: str, layers: Sequence[CatalogLayer]) -> str | None:
    """The key of the chip with this name in the last layer that has one."""
    return next((key for layer in reversed(layers) if (key := layer.key(squashed))), None)


def read_layer(path: str, part: Callable[[str], str] = str) -> CatalogLayer:
    """Parse one file and check its head; a file that does not parse is an error naming the line.

    ``part`` takes the text that is wanted out of the whole: the rest is not parsed.
    """
    path = os.path.expanduser(path)
    data = read_toml(path, "machine file", error=HardwareError, part=part)
    chips, place = check_file(data, path)
    layer = CatalogLayer(chips, place, data.get("family", ""), data.get("system", {}))
    taken: dict[str, str] = {}
    for name, key in layer.names():
        if not name or set(key) & set(",:="):
            place.fail(f"{quoted(key)} is no name of a chip", "letters, digits and dashes, as in my-chip")
        if (other := taken.setdefault(name, key)) != key:
            place.fail(f"{other} and {key} have one name", "case and dashes make no other name; keep one")
    for name, key in layer.names(systems=True):
        if (other := taken.setdefault(name, key)) != key or key in layer.chips:
            kind = "chip" if other in layer.chips else "system"
            place.fail(f"the {kind} {other} and the system {key} have one name", "give the system another")
    return layer


def _from_home(path: str) -> str:
    """A path as one types it: from ``~`` on where it is in there."""
    home = os.path.join(os.path.expanduser("~"), "")
    return path.replace(home, os.path.join("~", ""), 1) if path.startswith(home) and home != os.sep else path


def read_layers(files: Iterable[str | os.PathLike[str]]) -> list[CatalogLayer]:
    """Read the user's files and the ``*.toml`` files of the user's folders, in order.

    Two files of one folder that describe a chip of one name are an error.
    """
    layers = []
    for item in [files] if isinstance(files, (str, os.PathLike)) else files:
        if not isinstance(item, str | os.PathLike):
            raise HardwareError(f"{quoted(item)} is no file", hint="files are paths, as in files=['my.toml']")
        path = os.path.expanduser(os.fspath(item))
        read = [read_layer(file) for file in (_inside(path) if os.path.isdir(path) else [path])]
        taken: dict[str, str] = {}
        for layer in read:
            for name, _ in layer.names():
                _claim(taken, name, layer.place.file, "name")
        layers += read
    return layers


def _inside(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise HardwareError(f"cannot read {folder!r}: {error.strerror}", hint="check the path") from None
    return [os.path.join(folder, name) for name in sorted(names) if name.endswith(".toml")]


@cache
def _shipped_layer(file: str) -> CatalogLayer:
    return read_layer(os.path.join(CATALOG, file))


def tables_of_chip(text: str, key: str) -> str:
    """The head of a catalog file with the tables of one chip: a fifth of the file, and of the time to parse it.

    >>> text = "schema = 1\\n[chip.a]\\ncores = 1\\n[chip.a2]\\ncores = 2\\n[[chip.a.memory]]\\nlevel = 'hbm'\\n"
    >>> print(tables_of_chip(text, "a"))
    schema = 1
    [chip.a]
    cores = 1
    [[chip.a.memory]]
    level = 'hbm'
    <BLANKLINE>
    """
    head, *tables = text.split("\n[")
    others, own = ("chip.", "system."), (f"chip.{key}]", f"chip.{key}.")
    kept = (each for each in tables if each.lstrip("[").startswith(own) or not each.lstrip("[").startswith(others))
    return "\n[".join((head, *kept))


@cache
def shipped_chip(key: str) -> Machine:
    """Build a chip of the shipped catalog from its tables in its one file."""
    layer = read_layer(os.path.join(CATALOG, read_index().file(key)), lambda text: tables_of_chip(text, key))
    return _build(key, layer, [layer], ())


def find_machine(name: str, layers: Sequence[CatalogLayer] = ()) -> Machine:
    """Build the chip called ``name`` from the user's layers or the shipped catalog.

    >>> find_machine("NVIDIA H100 SXM").name
    'NVIDIA H100 SXM5 80GB'
    >>> find_machine("Tesla V100-SXM2-32GB").key
    'v100'
    >>> find_machine("h10")
    Traceback (most recent call last):
    roofline.errors.HardwareError: unknown chip 'h10'; did you mean 'h100'? (roofline.chips() lists all)
    """
    squashed = normalise(name)
    for position in range(len(layers) - 1, -1, -1):
        key, system = (layers[position].key(squashed, systems) for systems in (False, True))
        if key is not None:
            machine = _from_layers(key, layers, ())
            whose = f"{key} is as {_from_home(layers[position].place.file)} describes it, "
            if squashed in read_index().aliases:
                whose += "in place of the catalog"
            elif normalise(machine.name) in read_index().aliases:
                whose += f"built on {machine.name}"
            else:  # a name of its own says so
                whose = ""
            said = assume("machine", [whose] if whose else ())
            return replace(machine, warnings=(*said, *doubtful_figures(machine, _base(key, layers))))
        if system is not None:
            return _build_system(system, layers[position], layers[: position + 1])
    shipped_key, shipped_system = read_index().aliases.get(squashed), read_index().system_aliases.get(squashed)
    if shipped_key is None and shipped_system is None:
        shipped_key = chip_of_device(name) or _chip_of_short_name(squashed)
    if shipped_key is not None:
        return _from_layers(shipped_key, layers, ())
    if shipped_system is not None:
        return _build_system(shipped_system, _shipped_layer(read_index().systems[shipped_system]), layers)
    raise unknown_chip(name, layers)


#: Words for kinds of machines, and how to list those of the kind.
_KINDS = {"gpu": (), "cuda": ("nvidia",), "rocm": ("amd",)}

#: Words for the machine one sits at.
_HERE = ("cpu", "local", "localhost", "here", "host")


def unknown_chip(name: str, layers: Sequence[CatalogLayer] = ()) -> HardwareError:
    """Make the error for an unknown name. Its hint is the nearest name, or how several chips are written."""
    if os.path.isdir(os.path.expanduser(name)):
        hint = f"lay its files over the catalog with {either('--chips', 'files=')}"
        return HardwareError(f"{name!r} is a folder", hint=hint)
    if name.lower().endswith((".json", ".yaml", ".yml", ".txt", ".csv", ".py")):
        return HardwareError(f"{name!r} is no machine file", hint="one is TOML, and its name ends in .toml")
    count, named = re.fullmatch(r"(?:(\d+) x )?(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    if os.path.isfile(f"{named}.toml"):
        asked = spelled("on", f"{named}.toml" + (f":{count}" if count else ""))
        hint = f"{asked} asks about that file; one in ~/.config/roofline/chips/ is always there"
        return HardwareError(f"unknown chip {name!r}", hint=hint)
    larger = read_index().aliases.get(normalise(name) + "gb")
    if larger is not None:
        return HardwareError(f"unknown chip {name!r}", hint=f"did you mean {larger!r}? ({call('chips')} lists all)")
    several = _several(name, layers)
    if several:
        return HardwareError(f"unknown chip {name!r}", hint=several)
    own = {normalise(key): key for layer in layers for key in (*layer.chips, *layer.systems)}
    own |= {squashed: key for squashed, key in read_index().system_aliases.items() if squashed not in own}
    squashed, every = normalise(name), [*own, *read_index().aliases]
    begin = re.match(r"[a-z]*", squashed)
    alike = [alias for alias in every if (alias.startswith(begin[0]) if begin and begin[0] else alias[0].isdigit())]
    least = 0.6 if re.search(r"\d", squashed) else 0.7
    near = did_you_mean(squashed, alike) or did_you_mean(squashed, every, least=least)
    if near is None or not near.startswith(squashed):  # a chip of which something more is said comes first
        near = max((a for a in alike if len(a) > 3 and squashed.startswith(a)), key=len, default=near)
    family, called = chips_of_family(squashed), chips_called(name)
    if squashed in _HERE:
        measured = either("`roofline measure`", "`roofline measure` in a terminal")
        hint = f"measure this machine with {measured}, then {spelled('on', 'this')}; {call('chips')} lists data sheets"
    elif len(family) > MOST_LISTED:
        hint = f"{call('chips', filter=squashed)} lists its {len(family)} chips"
    elif family:
        hint = f"chips of that family are: {', '.join(family)}"
    elif called:
        names = [f"{key} ({read_index().summaries[key][0]})" for key in called[:MOST_LISTED]]
        hint = f"of that name the catalog has {', '.join(names)} alone; for another chip {template()}"
    elif squashed in _KINDS:
        hint = f"name one: {call('chips', *_KINDS[squashed])} lists them"
    elif near:
        key = own.get(near) or read_index().aliases[near]
        meant = key if near in own or near == key.replace("-", "") else min(key, near, key=len)
        hint = f"did you mean {meant!r}? ({call('chips')} lists all)"
    elif "/" in name or "\\" in name or re.search(r"\.\w+$", name):
        hint = "the name of a machine file ends in .toml"
    else:
        hint = f"{call('chips')} lists all; for a chip of your own {template()}"
    return HardwareError(f"unknown chip {name!r}", hint=hint)


def behind_colon(name: str, layers: Sequence[CatalogLayer] = ()) -> str:
    """Write a number of chips behind a colon; what is no number of known chips stays as it is.

    >>> behind_colon("8 H200s"), behind_colon("h200x8"), behind_colon("v5e × 4x4"), behind_colon("mi300x")
    ('h200:8', 'h200:8', 'v5e:4x4', 'mi300x')
    """
    found = None if ":" in name else _counted(name, layers)
    return f"{found[0]}:{found[1]}" if found and found[2] in "xX×*" else name


def _counted(name: str, layers: Sequence[CatalogLayer]) -> tuple[str, str, str] | None:
    """The chip, its number and the sign between them in ``8xH100``, ``h100 x 8``, ``v5e-16``; None for other names."""
    found = re.fullmatch(_MANY, name.strip(), re.IGNORECASE) if any(sign in name for sign in " xX×*-") else None
    if found is None:
        return None
    chip = found["chip"] or found["first"]
    squashed = normalise(chip)
    own, known = _own_key(squashed, layers), read_index().aliases
    key = own or known.get(squashed) or chip_of_device(chip) or (known.get(squashed.removesuffix("s")))
    number = (found["count"] or found["shape"]).lower().replace("×", "x")
    return None if key is None else (key, number, found["sign"] or "x")


def _several(name: str, layers: Sequence[CatalogLayer]) -> str:
    """Say how ``v5e-16`` or ``h100,a100`` is written, where several chips are meant."""
    parts = [part for part in re.split(r"[,\s]+", name) if part]
    if len(parts) > 1 and all(normalise(part) in read_index().aliases for part in parts):
        return f"chips are named one by one: {in_a_row(map(repr, parts))}"
    found = _counted(name, layers)
    if found is None:
        return ""
    key, count, sign = found
    if sign == "-" and key in _COUNTED_BY_CORE and (whole_number(count) or 0) > 1:
        return f"Google counts its TensorCores, two a chip: write '{key}:{int(count) // 2}' for {int(count) // 2} chips"
    return f"several chips stand behind a colon: '{key}:{count}'"


def _from_layers(key: str, layers: Sequence[CatalogLayer], chain: tuple[str, ...]) -> Machine:
    """Build ``key`` from the topmost of ``layers`` that defines it, else from the shipped catalog."""
    for position in range(len(layers) - 1, -1, -1):
        if key in layers[position].chips:
            return _build(key, layers[position], layers[: position + 1], chain)
    if key in read_index().chips:
        return shipped_chip(key)
    raise unknown_chip(key, layers)


def _base(key: str, layers: Sequence[CatalogLayer]) -> Machine | None:
    """The chip that a user's chip inherits from or replaces, if any."""
    parent = next((layer.chips[key].get("inherits") for layer in reversed(layers) if key in layer.chips), None)
    if parent is not None and normalise(parent) != normalise(key):
        known = read_index().aliases.get(normalise(parent), parent)
        return _from_layers(known, layers, ())
    return shipped_chip(key) if key in read_index().chips else None


def _build(key: str, layer: CatalogLayer, layers: Sequence[CatalogLayer], chain: tuple[str, ...]) -> Machine:
    raw = layer.chips[key]
    place = layer.place.at("chip", key)
    parent = raw.get("inherits")
    if parent is None:
        return build_chip(key, raw, place, family=layer.family)
    if not isinstance(parent, str):
        place.at("inherits").fail(f"is {quoted(parent)}", "expected the name of one chip, such as 'h100'")
    return build_chip(key, raw, place, family=layer.family, parent=_parent(parent, key, place, layers, chain))


#: How links join chips where nobody says it.
_JOINED: Mapping[str, Mapping[str, Any]] = {
    **{key: {"topology": "switch"} for key in SCALE_UP_LINKS},
    "ici": {"topology": "torus2d", "links": 4},
    **{key: {"topology": "network"} for key in NETWORK_LINKS},
}


def described_machine(
    described: Mapping[str, Any], layers: Sequence[CatalogLayer] = ()
) -> tuple[Machine, dict[str, Any]]:
    """A chip from a dictionary: keys of its table in a machine file, formats with their peaks, levels of memory.

    A format alone is a peak of the matrix unit, one behind ``vector.`` of the vector unit; ``link``, or the
    name of one (:data:`~roofline.hardware.machine.SCALE_UP_LINKS`), is its bandwidth to other chips, one way (of
    ``ici`` that of one link of a torus of two axes), or its dictionary; ``nic`` and ``dcn`` go to other
    nodes. ``capacity`` and ``bandwidth`` are those of the main memory: the first level that is neither a cache nor a
    link, ``hbm`` where none is described. A level of a name that :data:`~roofline.hardware.machine.LEVEL_NAMES` lacks
    is a dictionary. What sets figures of a chip that it inherits from is left, for who calls.

    >>> machine, _ = described_machine({"bf16": 3e14, "hbm": {"bandwidth": 2e12, "capacity": 80e9}, "l2": 8e12})
    >>> [unit.peaks["bf16"].value for unit in machine.units], [memory.name for memory in machine.memories]
    ([300000000000000.0], ['hbm', 'l2'])
    >>> machine, _ = described_machine({"bf16": 3e14, "hbm": 2e12, "capacity": 80e9})
    >>> machine.memories[0].capacity.value
    80000000000.0
    >>> figures = {"bf16": 3e14, "vector.fp32": 3e13, "hbm": 2e12, "link": 2e11, "link.latency": 1e-6}
    >>> machine, _ = described_machine(figures)
    >>> [unit.name for unit in machine.units], machine.links[0].bandwidth.value, machine.links[0].latency.value
    (['matrix', 'vector'], 200000000000.0, 1e-06)
    >>> described_machine({"bf16": 3e14, "hbm": 2e12, "nvlink": 4.5e11})[0].links[0].name
    'nvlink'
    """
    # a link may be said by its bandwidth, or by one dictionary, in place of a list of tables
    short = [] if isinstance(described.get("link"), list | tuple) else ["link"]
    own = {name: value for name, value in described.items() if name in CHIP_KEYS and name not in short}
    if "inherits" in own and isinstance(own.get("tdp"), str):  # it may start from the one that is inherited
        del own["tdp"]
    words = {} if {"inherits", "memory"} & own.keys() else MAIN_WORDS
    rest = {name: value for name, value in described.items() if name not in own}
    figures = _nested({name: value for name, value in rest.items() if name not in words})
    figures = _with_main(figures, {name: value for name, value in rest.items() if name in words})
    if "inherits" not in own:
        links = {name: figures.pop(name) for name in _JOINED if name in figures}
        if links:
            named = [{"name": name, **_JOINED[name], **_table_of(each)} for name, each in links.items()]
            own["link"] = [*own.get("link", ()), *named]
        if "unit" not in own:
            peaks = {name: figures.pop(name) for name in [*figures] if dtypes.is_dtype(name)}
            peaks |= _peaks_of(figures, "peak", "{}") | _peaks_of(figures, "matrix", "{}")
            units = {"matrix": peaks, "vector": _peaks_of(figures, "vector", "vector.{}")}
            own["unit"] = {name: {"peak": held} for name, held in units.items() if held}
        if "memory" not in own:
            tables = {n: figures.pop(n) for n in [*figures] if n not in TDP_WORDS and not dtypes.is_dtype(n)}
            _check_levels(tables)
            own["memory"] = [{"level": name, **_table_of(each)} for name, each in tables.items()]
    key = normalise(str(own.get("name", ""))) or "chip"
    layer = CatalogLayer({key: own}, FieldPath(DESCRIBED, "", {}), "", {})
    machine = _build(key, layer, [*layers, layer], ())
    return replace(machine, warnings=(*machine.warnings, *assume("doubt", tuple(_too_small(machine))))), figures


def _with_main(figures: dict[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Levels, the main one first, with what is ``said`` of it by words; a figure that it has already is refused."""
    if not said:
        return figures
    own = {name: name.lower() for name, held in figures.items() if _is_own_level(name, held)}
    cached = next((name for name, known in own.items() if known == "sram"), "hbm")
    main = next((name for name, known in own.items() if known != "sram"), cached)
    table = _table_of(figures.get(main, {}))
    for word, value in said.items():
        part = MAIN_WORDS[word]
        if part in table:
            hint = f"give one {part} of it; that of another level goes into the dictionary of that level"
            stated = f"chip({{…}}): {word} is {quoted(value)}, and the main level {main!r} has {quoted(table[part])}"
            raise HardwareError(stated, hint=hint)
        table[part] = value
    return {main: table, **{name: held for name, held in figures.items() if name != main}}


def _is_own_level(name: str, held: Any) -> bool:
    """Whether a figure of a described chip is a level of memory, neither a cache nor a link; a name may be new."""
    if name.lower() in LINK_LEVELS | CACHE_LEVELS:
        return False
    is_table = isinstance(held, Mapping) and not held.get("link") and {"bandwidth", "capacity", "curve"} & held.keys()
    return name in LEVEL_NAMES or (bool(is_table) and name not in _JOINED)


def _check_levels(tables: Mapping[str, Any]) -> None:
    """Refuse a level of memory that is a chip's key, a format or a chip, and one that is no level by its number."""
    for name, held in tables.items():
        is_chip = isinstance(held, str) and normalise(held) in read_index().aliases
        if name in LEVEL_NAMES and not is_chip:
            continue
        near = "inherits" if is_chip else did_you_mean(name, (*CHIP_KEYS, *dtypes.names()), least=0.75)
        levels = (*LEVEL_NAMES, *SCALE_UP_LINKS, *NETWORK_LINKS)
        if near is None and not isinstance(held, Mapping):
            near = did_you_mean(name, levels, least=0.65) or ""
        if near is None:
            continue
        hint = f"did you mean {near!r}?" if near else f"levels and links are {', '.join(levels)};"
        hint += f" a level of memory of that name is a dictionary, as in {{{name!r}: {{'bandwidth': {quoted(held)}}}}}"
        if isinstance(held, Mapping) or near in CHIP_KEYS or dtypes.is_dtype(near):
            hint = f"did you mean {near!r}? a level of memory of that name goes into the list 'memory'"
        elif name in COUNTS:
            hint = SEVERAL_OF_ONE
        raise HardwareError(f"chip({{…}}): unknown key {name!r}", hint=hint)


def _table_of(said: Any) -> dict[str, Any]:
    """A level or a link as a table; a figure alone is its bandwidth."""
    return dict(said) if isinstance(said, Mapping) else {"bandwidth": said}


def _peaks_of(figures: dict[str, Any], name: str, spelt: str) -> dict[str, Any]:
    """Peaks by format under one name, which ``figures`` lose; a peak without a format is an error."""
    peaks = figures.pop(name, {})
    if isinstance(peaks, Mapping):
        return dict(peaks)
    hint = f"name the format, as in {{{spelt.format('bf16' if name != 'vector' else 'fp32')!r}: {peaks!r}}}"
    raise HardwareError("chip({…}): a peak is that of a format", hint=hint)


def _nested(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of a level under one name, as a table of it has them: those behind a dot go into its dictionary."""
    found: dict[str, Any] = {}
    for name, value in figures.items():
        level, dot, part = name.partition(".")
        if not dot and name not in found:
            found[name] = value
            continue
        found[level] = _table_of(found.get(level, {})) | ({part: value} if dot else _table_of(value))
    return found


def _build_system(key: str, layer: CatalogLayer, layers: Sequence[CatalogLayer]) -> Machine:
    """Build a system from its layer; the chip it is made of is looked up like any other name."""

    def chip_named(name: str) -> Machine:
        squashed = normalise(name)
        known = _own_key(squashed, layers) or read_index().aliases.get(squashed)
        if known is None:
            place.at("chip").fail(f"names {name!r}, which is not known", unknown_chip(name, layers).hint)
        return _from_layers(known, layers, ())

    place = layer.place.at("system", key)
    return build_system(key, layer.systems[key], place, chip_named)


def _parent(name: str, key: str, place: FieldPath, layers: Sequence[CatalogLayer], chain: tuple[str, ...]) -> Machine:
    """Find what a chip inherits from: in its own layer and those below, or below only where it names itself."""
    squashed = normalise(name)
    below = layers[:-1] if squashed == normalise(key) else layers
    found = _own_key(squashed, below)
    if found is not None and any(found in layer.chips for layer in below):
        step = f"{len(below)}:{found}"
        if step in chain:
            place.at("inherits").fail(f"goes round in a circle through {name!r}", "let one of them stand alone")
        if len(chain) >= LONGEST_CHAIN:
            place.at("inherits").fail(f"goes through more than {LONGEST_CHAIN} chips", "inherit from nearer the root")
        return _from_layers(found, below, (*chain, step))
    shipped_key = read_index().aliases.get(squashed)
    if shipped_key is None or shipped_key in chain:
        place.at("inherits").fail(f"names {name!r}, which is not known", unknown_chip(name, layers).hint)
    return shipped_chip(shipped_key)


def read_chips(folder: str) -> list[Machine]:
    """Build every chip of the catalog files in a folder, file by file, in order."""
    layers = map(read_layer, _inside(folder))
    return [_build(key, layer, [layer], ()) for layer in layers for key in layer.chips]


def read_systems(folder: str) -> list[Machine]:
    """Build every system of the catalog files in a folder, file by file, in order."""
    layers = list(map(read_layer, _inside(folder)))
    return [_build_system(key, layer, layers) for layer in layers for key in layer.systems]


def system_names() -> list[str]:
    """List the keys of the shipped systems.

    >>> system_names()
    ['trn2-ultraserver', 'dgx-a100', 'dgx-b200', 'gb200-superpod', 'dgx-h100', 'dgx-h200']
    """
    return list(read_index().systems)


def all_chips(files: Iterable[str | os.PathLike[str]] = ()) -> list[Machine]:
    """Build all chips: the shipped ones, the user's own in place of those of the same key, then the user's others."""
    layers = read_layers(files)
    keys = dict.fromkeys([*read_index().chips, *(key for layer in layers for key in layer.chips)])
    return [_from_layers(key, layers, ()) for key in keys]


if __name__ == "__main__":
    write_index()
