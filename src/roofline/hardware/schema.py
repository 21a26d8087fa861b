"""A chip as it stands in a TOML file → Machine, checked key by key.

The format: a file has ``schema = 1``, ``family``, ``[sources]`` (short name → title or address) and one
``[chip.NAME]`` per chip with ``[chip.NAME.unit.UNIT]``, ``[[chip.NAME.memory]]`` (outermost first) and
``[[chip.NAME.link]]``. A figure is a number in SI base units, text with a unit ("3.35 TB/s"), or a table
``{ value, source, basis, note, date }``; ``source``, ``basis`` and ``note`` of the enclosing unit, memory or link
hold for its figures that have none of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, NoReturn

from roofline import dtypes, quantity
from roofline.errors import HardwareError, QuantityError, suggest
from roofline.hardware.machine import Alternate, Figure, Link, Machine, Memory, Unit

SCHEMA = 1
BASES = ("spec", "derived", "measured", "table", "given")
KINDS = ("matrix", "vector")

#: The kind of the units people name; any other name needs ``kind``.
UNIT_KINDS = {
    "tensor": "matrix", "mxu": "matrix", "matrix": "matrix", "mme": "matrix", "cube": "matrix", "xmx": "matrix",
    "amx": "matrix", "cuda": "vector", "vpu": "vector", "vector": "vector", "gpu": "vector", "avx": "vector",
    "cpu": "vector", "tpc": "vector",
}  # fmt: skip

#: The memory levels people name, and whether they are links to memory elsewhere.
LEVEL_NAMES = ("hbm", "dram", "sram", "llc", "l3", "l2", "l1", "smem", "vmem", "cmem", "sbuf", "tmem", "pcie", "c2c", "host")
LINK_LEVELS = frozenset({"pcie", "c2c", "host"})

TOPOLOGIES = ("switch", "mesh", "torus2d", "torus3d", "pair", "network")

_FILE_KEYS = ("schema", "family", "sources", "chip")
_CHIP_KEYS = (
    "name", "inherits", "vendor", "aliases", "match", "cores", "core", "tdp", "notes", "unit", "memory", "link",
    "price", "alternates", "source", "basis",
)  # fmt: skip
_UNIT_KEYS = ("kind", "clock", "tile", "peak", "achievable", "per_clock", "irregular", "source", "basis", "note")
_MEMORY_KEYS = ("level", "bandwidth", "capacity", "per_core", "achievable", "link", "label", "source", "basis", "note")
_LINK_KEYS = (
    "name", "bandwidth", "links", "latency", "domain", "achievable", "topology", "label", "axes", "wrap", "source",
    "basis", "note",
)  # fmt: skip
_FIGURE_KEYS = ("value", "source", "basis", "note", "date")
_ALTERNATE_KEYS = ("of", *_FIGURE_KEYS, "rejected")


class Place:
    """Where in which file: made longer on the way down, shown when something is wrong."""

    __slots__ = ("file", "path", "sources")

    def __init__(self, file: str, path: str, sources: Mapping[str, str]) -> None:
        self.file = file
        self.path = path
        self.sources = sources

    def at(self, *keys: object) -> Place:
        """Go down to a key."""
        return Place(self.file, ".".join(filter(None, (self.path, *map(str, keys)))), self.sources)

    def fail(self, message: str, hint: str = "") -> NoReturn:
        """Raise with the file and the path in front."""
        raise HardwareError(f"{self.file}: {self.path}: {message}" if self.path else f"{self.file}: {message}", hint=hint)


def check_file(data: Mapping[str, Any], file: str) -> tuple[dict[str, dict[str, Any]], Place]:
    """Check the head of a parsed file; return its chips as they stand and the place to build them from."""
    place = Place(file, "", {})
    known_keys(data, _FILE_KEYS, place)
    if data.get("schema", SCHEMA) != SCHEMA or isinstance(data.get("schema"), bool):
        place.at("schema").fail(f"is {data['schema']!r}", f"this version reads schema = {SCHEMA}")
    sources = {name: _source_text(value, place.at("sources", name)) for name, value in _table(data, "sources", place).items()}
    place = Place(file, "", sources)
    _text(data, "family", place)
    chips = _table(data, "chip", place)
    if not chips:
        place.fail("holds no chip", "start one with [chip.NAME]")
    for key in chips:
        _table(chips, key, place.at("chip"))
    return chips, place


def build(key: str, raw: Mapping[str, Any], place: Place, *, family: str = "", parent: Machine | None = None) -> Machine:
    """Make the Machine of one chip; ``parent`` is what it inherits from, and fills in what is not said."""
    known_keys(raw, _CHIP_KEYS, place)
    kinds = {**UNIT_KINDS, **{u.name: u.kind for u in (parent.units if parent else ())}}
    units = tuple(_unit(name, table, place.at("unit", name), kinds) for name, table in _tables(raw, "unit", place))
    memories = tuple(_memory(table, place.at(f"memory[{i}]")) for i, table in _list_of_tables(raw, "memory", place))
    links = tuple(_link(table, place.at(f"link[{i}]")) for i, table in _list_of_tables(raw, "link", place))
    for what, names in (("memory level", [m.name for m in memories]), ("link", [link.name for link in links])):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            place.fail(f"lists the {what} {twice!r} twice", "join the two tables")
    machine = Machine(
        key=key,
        name=_text(raw, "name", place) or key,
        units=units,
        memories=memories,
        links=links,
        cores=_count(raw, "cores", place),
        core=_text(raw, "core", place),
        tdp=_figure_of(raw, "tdp", "W", place, _defaults(raw, place)),
        notes=_texts(raw, "notes", place),
        prices=_prices(raw, place),
        family=family,
        vendor=_text(raw, "vendor", place),
        aliases=_texts(raw, "aliases", place),
        match=_texts(raw, "match", place),
        alternates=_alternates(raw, place),
        file=place.file,
    )
    if parent is not None:
        machine = merge(parent, machine)
    timed = any(u.peaks or u.per_clock for u in machine.units) or any(m.bandwidth for m in machine.memories)
    if not timed:
        hint = f"add a peak to [chip.{key}.unit.NAME] or a bandwidth to [[chip.{key}.memory]]"
        place.fail("has neither a peak nor a bandwidth", hint)
    return machine


def merge(parent: Machine, child: Machine) -> Machine:
    """Fill what ``child`` leaves unsaid from ``parent``: part by part, level by level, dtype by dtype.

    Names, prices, notes and what other sources say stay the child's own.
    """
    return replace(
        child,
        name=child.name if child.name != child.key else parent.name,
        units=_merge_named(parent.units, child.units, _merge_units),
        memories=_merge_named(parent.memories, child.memories, _fill),
        links=_merge_named(parent.links, child.links, _fill),
        cores=child.cores or parent.cores,
        core=child.core or parent.core,
        tdp=child.tdp or parent.tdp,
        vendor=child.vendor or parent.vendor,
        notes=child.notes or parent.notes,
    )


def _merge_named(below: tuple[Any, ...], above: tuple[Any, ...], join: Any) -> tuple[Any, ...]:
    merged = {part.name: part for part in below}
    for part in above:
        merged[part.name] = join(merged[part.name], part) if part.name in merged else part
    return tuple(merged.values())


def _merge_units(below: Unit, above: Unit) -> Unit:
    tables = {
        name: MappingProxyType({**getattr(below, name), **getattr(above, name)})
        for name in ("peaks", "achievable", "per_clock")
    }
    return replace(_fill(below, above), **tables)


def _fill(below: Any, above: Any) -> Any:
    missing = {f.name: getattr(below, f.name) for f in fields(above) if not getattr(above, f.name)}
    return replace(above, **missing)


def _unit(name: str, raw: Mapping[str, Any], place: Place, kinds: Mapping[str, str]) -> Unit:
    known_keys(raw, _UNIT_KEYS, place)
    kind = _text(raw, "kind", place) or kinds.get(name, "")
    if kind not in KINDS:
        place.at("kind").fail(f"is {kind!r}" if kind else "is missing", "a unit's kind is 'matrix' or 'vector'")
    defaults = _defaults(raw, place)
    return Unit(
        name=name,
        kind=kind,
        peaks=_by_dtype(raw, "peak", "FLOP/s", place, defaults),
        clock=_figure_of(raw, "clock", "Hz", place, defaults),
        tile=_tile(raw, place),
        achievable=_by_dtype(raw, "achievable", "", place, defaults, most=1.0),
        per_clock=_by_dtype(raw, "per_clock", "", place, defaults),
        irregular=_texts(raw, "irregular", place),
        note=_text(raw, "note", place),
    )


def _memory(raw: Mapping[str, Any], place: Place) -> Memory:
    known_keys(raw, _MEMORY_KEYS, place)
    name = _text(raw, "level", place)
    if not name:
        place.at("level").fail("is missing", "name the level: 'hbm', 'dram', 'l2', 'vmem', 'pcie' …")
    _plain_name(name, place.at("level"))
    defaults = _defaults(raw, place)
    return Memory(
        name=name,
        bandwidth=_figure_of(raw, "bandwidth", "B/s", place, defaults),
        capacity=_figure_of(raw, "capacity", "B", place, defaults),
        per_core=_figure_of(raw, "per_core", "B", place, defaults),
        achievable=_figure_of(raw, "achievable", "", place, defaults, most=1.0),
        link=_flag(raw, "link", place, name in LINK_LEVELS),
        label=_text(raw, "label", place),
    )


def _link(raw: Mapping[str, Any], place: Place) -> Link:
    known_keys(raw, _LINK_KEYS, place)
    name = _text(raw, "name", place)
    if not name:
        place.at("name").fail("is missing", "name the link: 'nvlink', 'ici', 'nic' …")
    _plain_name(name, place.at("name"))
    defaults = _defaults(raw, place)
    topology = _text(raw, "topology", place)
    if topology and topology not in TOPOLOGIES:
        place.at("topology").fail(f"is {topology!r}", suggest(topology, TOPOLOGIES, what="topologies"))
    axes = raw.get("axes", [])
    if not isinstance(axes, list) or any(not _is_count(a) for a in axes):
        place.at("axes").fail(f"is {axes!r}", "expected whole numbers of at least 1, such as [16, 16]")
    return Link(
        name=name,
        bandwidth=_figure_of(raw, "bandwidth", "B/s", place, defaults),
        links=_count(raw, "links", place),
        latency=_figure_of(raw, "latency", "s", place, defaults),
        domain=_count(raw, "domain", place),
        achievable=_figure_of(raw, "achievable", "", place, defaults, most=1.0),
        topology=topology,
        label=_text(raw, "label", place),
        axes=tuple(axes),
        wrap=_text(raw, "wrap", place),
    )


def _prices(raw: Mapping[str, Any], place: Place) -> Mapping[str, Figure]:
    prices = {}
    for name in _table(raw, "price", place):
        figure = _figure_of(_table(raw, "price", place), name, "USD/h", place.at("price"), {})
        if figure is not None:
            prices[name] = figure
    return MappingProxyType(prices)


def _alternates(raw: Mapping[str, Any], place: Place) -> tuple[Alternate, ...]:
    found = []
    for i, table in _list_of_tables(raw, "alternates", place):
        here = place.at(f"alternates[{i}]")
        known_keys(table, _ALTERNATE_KEYS, here)
        of = _text(table, "of", here)
        if not of:
            here.at("of").fail("is missing", "say which figure it is, such as 'hbm.bandwidth'")
        plain = {k: v for k, v in table.items() if k in _FIGURE_KEYS}
        value = figure(plain, _unit_of(of), here, {})
        found.append(Alternate(of, value, _flag(table, "rejected", here, False)))
    return tuple(found)


def _unit_of(of: str) -> str:
    """Say which unit the figure at a path is in, for figures written with a unit."""
    last = of.rpartition(".")[2]
    known = {"bandwidth": "B/s", "capacity": "B", "per_core": "B", "latency": "s", "clock": "Hz", "tdp": "W"}
    return known.get(last, "" if ".achievable" in of else "FLOP/s")


def figure(raw: Any, unit: str, place: Place, defaults: Mapping[str, str], *, most: float | None = None) -> Figure:
    """Read one figure: a number, text with a unit, or a table around either."""
    extra: Mapping[str, Any] = {}
    if isinstance(raw, dict):
        known_keys(raw, _FIGURE_KEYS, place)
        if "value" not in raw:
            place.fail("has no value", f"write {{ value = …, source = … }} or just the figure; {quantity.UNITS[unit][1]!r}")
        raw, extra = raw["value"], raw
    try:
        value = quantity.parse(raw, unit)
    except QuantityError as error:
        place.fail(error.message, error.hint)
    if most is not None and value > most:
        place.fail(f"is {value:g}", f"a fraction is above 0 and at most {most:g}")
    basis = _text(extra, "basis", place) or defaults.get("basis", "spec")
    if basis not in BASES:
        place.at("basis").fail(f"is {basis!r}", suggest(basis, BASES, what="bases"))
    source = _text(extra, "source", place)
    return Figure(
        value=value,
        source=place.sources.get(source, source) if source else defaults.get("source", ""),
        basis=basis,
        note=_text(extra, "note", place) or defaults.get("note", ""),
        date=_date(extra, place),
    )


def _figure_of(
    raw: Mapping[str, Any], key: str, unit: str, place: Place, defaults: Mapping[str, str], *, most: float | None = None
) -> Figure | None:
    return figure(raw[key], unit, place.at(key), defaults, most=most) if key in raw else None


def _by_dtype(
    raw: Mapping[str, Any], key: str, unit: str, place: Place, defaults: Mapping[str, str], *, most: float | None = None
) -> Mapping[str, Figure]:
    table = _table(raw, key, place)
    found = {}
    for name, value in table.items():
        here = place.at(key, name)
        if not is_peak_name(name):
            known = [*dtypes.names(), "fp16_acc16"]
            here.fail(f"unknown dtype {name!r}", suggest(name, known, what="dtypes"))
        found[name] = figure(value, unit, here, defaults, most=most)
    return MappingProxyType(found)


def is_peak_name(name: str) -> bool:
    """Say whether a peak may stand under this name: a canonical dtype, or one with its accumulate width.

    >>> is_peak_name("bf16"), is_peak_name("fp16_acc16"), is_peak_name("bfloat16")
    (True, True, False)
    """
    base, marked, width = name.partition("_acc")
    return base in dtypes.DTYPES and (not marked or width.isdigit())


def _tile(raw: Mapping[str, Any], place: Place) -> tuple[int, int] | None:
    if "tile" not in raw:
        return None
    tile = raw["tile"]
    if not isinstance(tile, list) or len(tile) != 2 or any(not _is_count(side) for side in tile):
        place.at("tile").fail(f"is {tile!r}", "expected rows and columns, such as [128, 128]")
    return tile[0], tile[1]


def known_keys(raw: Mapping[str, Any], known: Iterable[str], place: Place) -> None:
    """Stop at the first key the schema does not know."""
    for key in raw:
        if key not in known:
            place.fail(f"unknown key {key!r}", suggest(key, known, what="keys", limit=20))


def _defaults(raw: Mapping[str, Any], place: Place) -> Mapping[str, str]:
    source = _text(raw, "source", place)
    found = {
        "source": place.sources.get(source, source),
        "basis": _text(raw, "basis", place) or "spec",
        "note": _text(raw, "note", place),
    }
    if found["basis"] not in BASES:
        place.at("basis").fail(f"is {found['basis']!r}", suggest(found["basis"], BASES, what="bases"))
    return found


def _source_text(value: Any, place: Place) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        place.fail(f"is {value!r}", "expected a title or an address, or a table { title, url }")
    known_keys(value, ("title", "url", "read"), place)
    return ", ".join(str(value[key]) for key in ("title", "url") if key in value)


def _date(raw: Mapping[str, Any], place: Place) -> str:
    value = raw.get("date", "")
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return _expect(value, str, "text or a date", place.at("date"))


def _plain_name(name: str, place: Place) -> None:
    if not name.replace("_", "").replace("-", "").isalnum():
        place.fail(f"is {name!r}", "a name is letters, digits, '_' and '-'")


def _expect(value: Any, kind: type | tuple[type, ...], what: str, place: Place) -> Any:
    if not isinstance(value, kind):
        place.fail(f"is {value!r:.60}", f"expected {what}")
    return value


def _text(raw: Mapping[str, Any], key: str, place: Place) -> str:
    value = raw.get(key, "")
    return value if isinstance(value, str) else _expect(value, str, "text", place.at(key))


def _texts(raw: Mapping[str, Any], key: str, place: Place) -> tuple[str, ...]:
    value = raw.get(key, [])
    if not is_text_list(value):
        place.at(key).fail(f"is {value!r:.60}", 'expected a list of texts, such as ["one"]')
    return tuple(value)


def is_text_list(value: Any) -> bool:
    """Say whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _flag(raw: Mapping[str, Any], key: str, place: Place, default: bool) -> bool:
    return bool(_expect(raw.get(key, default), bool, "true or false", place.at(key)))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10**12


def _count(raw: Mapping[str, Any], key: str, place: Place) -> int | None:
    if key not in raw:
        return None
    if not _is_count(raw[key]):
        place.at(key).fail(f"is {raw[key]!r:.60}", "expected a whole number of at least 1")
    return int(raw[key])


def _table(raw: Mapping[str, Any], key: str, place: Place) -> dict[str, Any]:
    value = raw.get(key, {})
    return value if isinstance(value, dict) else _expect(value, dict, "a table", place.at(key))


def _tables(raw: Mapping[str, Any], key: str, place: Place) -> Iterable[tuple[str, dict[str, Any]]]:
    outer = _table(raw, key, place)
    return [(name, _table(outer, name, place.at(key))) for name in outer]


def _list_of_tables(raw: Mapping[str, Any], key: str, place: Place) -> list[tuple[int, dict[str, Any]]]:
    value = raw.get(key, [])
    if not isinstance(value, list) or any(not isinstance(item, dict) for item in value):
        place.at(key).fail(f"is {value!r:.60}", f"expected a list of tables, [[…{key}]]")
    return list(enumerate(value))

