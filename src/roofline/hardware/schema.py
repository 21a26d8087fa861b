"""A chip as it stands in a TOML file → Machine, checked key by key.

The format: a file has ``schema = 1``, ``family``, ``[sources]`` (short name → title or address) and one
``[chip.NAME]`` per chip with ``[chip.NAME.unit.UNIT]``, ``[[chip.NAME.memory]]`` (outermost first) and
``[[chip.NAME.link]]``. A figure is a number in SI base units, text with a unit ("3.35 TB/s"), or a table
``{ value, source, basis, note, date }``; ``source``, ``basis`` and ``note`` of the enclosing unit, memory or link
hold for its figures that have none of their own. A memory's ``curve`` lists working sets in bytes with the bandwidth
there in B/s. What stands under ``[measurement]`` is :mod:`roofline.measurement`'s own record and is not read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.errors import suggest
from roofline.frozen import Frozen
from roofline.hardware.cores import with_products
from roofline.hardware.inherit import merge
from roofline.hardware.machine import Alternate, Figure, Link, Machine, Memory, Unit
from roofline.hardware.reading import (
    FIGURE_KEYS,
    Place,
    by_dtype,
    count_of,
    curve_of,
    defaults_of,
    figure,
    figure_of,
    flag_of,
    is_count,
    known_keys,
    list_of_tables,
    peak_name,
    plain_name,
    source_text,
    table_of,
    tables_of,
    text_of,
    texts_of,
)

SCHEMA = 1
KINDS = ("matrix", "vector")

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

TOPOLOGIES = ("switch", "fat-tree", "mesh", "ring", "torus2d", "torus3d", "pair", "network")

#: When the axes of a torus close, and which sizes they may have (:mod:`roofline.hardware.network_torus`).
WRAPS = ("full axis", "cubes of 4", "always", "never")
SLICES = ("powers of 2", "cubes of 4")

_FILE_KEYS = ("schema", "family", "sources", "chip", "system", "measurement")
_CHIP_KEYS = (
    "name", "inherits", "vendor", "aliases", "match", "cores", "core", "registers", "tdp", "notes", "unit", "memory",
    "link", "price", "alternates", "source", "basis",
)  # fmt: skip
_UNIT_KEYS = (
    "kind",
    "clock",
    "tile",
    "peak",
    "achievable",
    "per_clock",
    "per_core",
    "irregular",
    "source",
    "basis",
    "note",
)
_MEMORY_KEYS = (
    "level", "bandwidth", "capacity", "per_core", "achievable", "link", "label", "curve", "source", "basis", "note",
)  # fmt: skip
_LINK_KEYS = (
    "name", "bandwidth", "links", "latency", "domain", "achievable", "topology", "label", "axes", "wrap", "slices",
    "host", "reduces", "switches", "ports", "port_bandwidth", "source", "basis", "note",
)  # fmt: skip
_ALTERNATE_KEYS = ("of", *FIGURE_KEYS, "rejected")


def check_file(data: Mapping[str, Any], file: str) -> tuple[dict[str, dict[str, Any]], Place]:
    """Check the head of a parsed file; return its chips as they stand and the place to build them from."""
    place = Place(file, "", {})
    known_keys(data, _FILE_KEYS, place)
    if data.get("schema", SCHEMA) != SCHEMA or isinstance(data.get("schema"), bool):
        place.at("schema").fail(f"is {data['schema']!r}", f"this version reads schema = {SCHEMA}")
    sources = {
        name: source_text(value, place.at("sources", name)) for name, value in table_of(data, "sources", place).items()
    }
    place = Place(file, "", sources)
    text_of(data, "family", place)
    chips, systems = table_of(data, "chip", place), table_of(data, "system", place)
    if not chips and not systems:
        place.fail("holds no chip", "start one with [chip.NAME]")
    for kind, tables in (("chip", chips), ("system", systems)):
        for key in tables:
            table_of(tables, key, place.at(kind))
    return chips, place


def build(
    key: str, raw: Mapping[str, Any], place: Place, *, family: str = "", parent: Machine | None = None
) -> Machine:
    """Make the Machine of one chip; ``parent`` is what it inherits from, and fills in what is not said."""
    known_keys(raw, _CHIP_KEYS, place)
    kinds = {**UNIT_KINDS, **{u.name: u.kind for u in (parent.units if parent else ())}}
    units = tuple(_unit(name, table, place.at("unit", name), kinds) for name, table in tables_of(raw, "unit", place))
    memories = tuple(_memory(table, place.at(f"memory[{i}]")) for i, table in list_of_tables(raw, "memory", place))
    links = links_of(raw, place)
    _once("memory level", [m.name for m in memories], place)
    machine = Machine(
        key=key,
        name=text_of(raw, "name", place) or key,
        units=units,
        memories=memories,
        links=links,
        cores=count_of(raw, "cores", place),
        core=text_of(raw, "core", place),
        registers=figure_of(raw, "registers", "B", place, defaults_of(raw, place)),
        tdp=figure_of(raw, "tdp", "W", place, defaults_of(raw, place)),
        notes=texts_of(raw, "notes", place),
        prices=_prices(raw, place),
        family=family,
        vendor=text_of(raw, "vendor", place),
        aliases=texts_of(raw, "aliases", place),
        match=texts_of(raw, "match", place),
        alternates=_alternates(raw, place),
        file=place.file,
    )
    if parent is not None:
        machine = merge(parent, machine)
    machine = with_products(machine, parent)
    timed = any(u.peaks or u.per_clock for u in machine.units) or any(m.bandwidth for m in machine.memories)
    if not timed:
        hint = f"add a peak to [chip.{key}.unit.NAME] or a bandwidth to [[chip.{key}.memory]]"
        place.fail("has neither a peak nor a bandwidth", hint)
    return machine


def _unit(name: str, raw: Mapping[str, Any], place: Place, kinds: Mapping[str, str]) -> Unit:
    lone = next((key for key in raw if key not in _UNIT_KEYS and peak_name(key)), "")
    if lone:
        place.fail(f"unknown key {lone!r}", f"a peak is written peak.{lone}")
    known_keys(raw, _UNIT_KEYS, place)
    name = name.lower()
    kind = text_of(raw, "kind", place) or kinds.get(name, "")
    if kind not in KINDS:
        place.at("kind").fail(f"is {kind!r}" if kind else "is missing", "a unit's kind is 'matrix' or 'vector'")
    defaults = defaults_of(raw, place)
    return Unit(
        name=name,
        kind=kind,
        peaks=by_dtype(raw, "peak", "FLOP/s", place, defaults),
        clock=figure_of(raw, "clock", "Hz", place, defaults),
        tile=_tile(raw, place),
        achievable=by_dtype(raw, "achievable", "", place, defaults, most=1.0),
        per_clock=by_dtype(raw, "per_clock", "", place, defaults),
        irregular=texts_of(raw, "irregular", place),
        per_core=count_of(raw, "per_core", place),
        note=text_of(raw, "note", place),
    )


def _memory(raw: Mapping[str, Any], place: Place) -> Memory:
    known_keys(raw, _MEMORY_KEYS, place)
    name = text_of(raw, "level", place).lower()
    if not name:
        place.at("level").fail("is missing", "name the level: 'hbm', 'dram', 'l2', 'vmem', 'pcie' …")
    plain_name(name, place.at("level"))
    defaults = defaults_of(raw, place)
    curve = curve_of(raw, "curve", place)
    beyond = Figure(curve[-1][1], basis="derived", note="the end of its curve") if curve else None
    return Memory(
        name=name,
        bandwidth=figure_of(raw, "bandwidth", "B/s", place, defaults) or beyond,
        capacity=figure_of(raw, "capacity", "B", place, defaults),
        per_core=figure_of(raw, "per_core", "B", place, defaults),
        achievable=figure_of(raw, "achievable", "", place, defaults, most=1.0),
        link=flag_of(raw, "link", place, name in LINK_LEVELS),
        label=text_of(raw, "label", place),
        curve=curve,
    )


def links_of(raw: Mapping[str, Any], place: Place) -> tuple[Link, ...]:
    """Read the links of a chip or of a system, each name once."""
    links = tuple(_link(table, place.at(f"link[{i}]")) for i, table in list_of_tables(raw, "link", place))
    _once("link", [link.name for link in links], place)
    return links


def _once(what: str, names: list[str], place: Place) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        place.fail(f"lists the {what} {twice!r} twice", "join the two tables")


def _link(raw: Mapping[str, Any], place: Place) -> Link:
    known_keys(raw, _LINK_KEYS, place)
    name = text_of(raw, "name", place).lower()
    if not name:
        place.at("name").fail("is missing", "name the link: 'nvlink', 'ici', 'nic' …")
    plain_name(name, place.at("name"))
    defaults = defaults_of(raw, place)
    topology = text_of(raw, "topology", place)
    if topology and topology not in TOPOLOGIES:
        place.at("topology").fail(f"is {topology!r}", suggest(topology, TOPOLOGIES, what="topologies"))
    return Link(
        name=name,
        bandwidth=figure_of(raw, "bandwidth", "B/s", place, defaults),
        links=count_of(raw, "links", place),
        latency=figure_of(raw, "latency", "s", place, defaults),
        domain=count_of(raw, "domain", place),
        achievable=figure_of(raw, "achievable", "", place, defaults, most=1.0),
        topology=topology,
        label=text_of(raw, "label", place),
        axes=_sizes(raw, "axes", place),
        wrap=_rule(raw, "wrap", WRAPS, place),
        slices=_rule(raw, "slices", SLICES, place),
        host=_sizes(raw, "host", place),
        reduces=flag_of(raw, "reduces", place, False),
        switches=count_of(raw, "switches", place),
        ports=count_of(raw, "ports", place),
        port_bandwidth=figure_of(raw, "port_bandwidth", "B/s", place, defaults),
    )


def _sizes(raw: Mapping[str, Any], key: str, place: Place) -> tuple[int, ...]:
    sizes = raw.get(key, [])
    if not isinstance(sizes, list) or any(not is_count(a) for a in sizes):
        place.at(key).fail(f"is {sizes!r}", "expected whole numbers of at least 1, such as [16, 16]")
    return tuple(sizes)


def _rule(raw: Mapping[str, Any], key: str, known: tuple[str, ...], place: Place) -> str:
    rule = text_of(raw, key, place)
    if rule and rule not in known:
        place.at(key).fail(f"is {rule!r}", suggest(rule, known, what="rules"))
    return rule


def _prices(raw: Mapping[str, Any], place: Place) -> Mapping[str, Figure]:
    prices = {}
    for name in table_of(raw, "price", place):
        figure = figure_of(table_of(raw, "price", place), name, "USD/h", place.at("price"), {})
        if figure is not None:
            prices[name] = figure
    return Frozen(prices)


def _alternates(raw: Mapping[str, Any], place: Place) -> tuple[Alternate, ...]:
    found = []
    for i, table in list_of_tables(raw, "alternates", place):
        here = place.at(f"alternates[{i}]")
        known_keys(table, _ALTERNATE_KEYS, here)
        of = text_of(table, "of", here)
        if not of:
            here.at("of").fail("is missing", "say which figure it is, such as 'hbm.bandwidth'")
        plain = {k: v for k, v in table.items() if k in FIGURE_KEYS}
        value = figure(plain, _unit_of(of), here, {})
        found.append(Alternate(of, value, flag_of(table, "rejected", here, False)))
    return tuple(found)


def _unit_of(of: str) -> str:
    """Say which unit the figure at a path is in, for figures written with a unit."""
    last = of.rpartition(".")[2]
    known = {"bandwidth": "B/s", "capacity": "B", "per_core": "B", "latency": "s", "clock": "Hz", "tdp": "W"}
    return known.get(last, "" if ".achievable" in of else "FLOP/s")


def _tile(raw: Mapping[str, Any], place: Place) -> tuple[int, int] | None:
    if "tile" not in raw:
        return None
    tile = raw["tile"]
    if not isinstance(tile, list) or len(tile) != 2 or any(not is_count(side) for side in tile):
        place.at("tile").fail(f"is {tile!r}", "expected rows and columns, such as [128, 128]")
    return tile[0], tile[1]
