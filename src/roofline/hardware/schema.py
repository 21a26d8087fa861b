"""A chip as it stands in a TOML file → Machine, checked key by key.

The format: a file has ``schema = 1``, ``family``, ``[sources]`` (short name → title or address) and one
``[chip.NAME]`` per chip with ``[chip.NAME.unit.UNIT]``, ``[[chip.NAME.memory]]`` (outermost first) and
``[[chip.NAME.link]]``. A figure is a number in SI base units, text with a unit ("3.35 TB/s"), or a table
``{ value, source, basis, note, date, doubt }``; ``source``, ``basis`` and ``note`` of the enclosing unit, memory or
link hold for its figures that have none of their own. A memory's ``curve`` lists working sets in bytes with the
bandwidth there in B/s. What stands under ``[measurement]`` is :mod:`roofline.measurement`'s own record and is not read
here.

A system is a chip with links of its own, from the inside out::

    [system.my-cluster]
    chip = "h100"                     # a chip of the same file, or of the catalog

    [[system.my-cluster.link]]
    name = "nvlink"                   # what is not said comes from the chip's link of this name

    [[system.my-cluster.link]]
    name = "ib"
    topology = "switch"               # fat-tree: what goes further up crosses this tier's links too
    bandwidth = "25 GB/s"             # one way, per chip
    domain = 512                      # chips it joins

>>> from roofline.hardware import chip
>>> chip("dgx-h100:64").mesh
Mesh(X=64 nvlink switch 8, ib switch 8)

What a chip's cores are made of: how many units, what each does in a cycle, what the register files hold.

>>> from roofline.hardware import chip
>>> h100 = chip("h100")
>>> count_units(h100, "cuda"), round(flops_per_cycle(h100, "tensor", "bf16"))
(16896, 1024)
>>> register_bytes(h100), resident_warps(h100, 256)
(34603008, 8)
>>> count_units(chip("mi300x"), "vector") is None
True
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

from roofline import dtypes, quantity
from roofline.errors import HardwareError, QuantityError, did_you_mean, near_words, quoted, suggest
from roofline.files import MOST_TABLES, toml_key, toml_value
from roofline.frozen import Frozen, NamedTuple, replace
from roofline.hardware.machine import (
    LINK_LEVELS,
    SLICE_RULES,
    UNIT_KINDS,
    WRAP_RULES,
    Alternate,
    Figure,
    Link,
    Machine,
    Memory,
    Reduction,
    Unit,
    figure_unit,
)  # fmt: skip
from roofline.hardware.rate import unit_words
from roofline.signatures import either, spelled
from roofline.statements import assume

Made = TypeVar("Made")


def template() -> str:
    """Where the caller finds how a chip of its own is written."""
    return either("`roofline chips --template` prints a file to edit", "roofline.chip({…}) takes its figures")


BASES = ("spec", "derived", "measured", "table", "given")

FIGURE_KEYS = ("value", "source", "basis", "note", "date", "doubt")

#: What stands in place of a file where a caller describes a chip.
DESCRIBED = "chip({…})"


class FieldPath(NamedTuple):
    """Where in which file: made longer on the way down, shown when something is wrong."""

    file: str
    path: str
    sources: Mapping[str, str]

    def at(self, *keys: object) -> FieldPath:
        """Go down to a key."""
        return self._replace(path=".".join(filter(None, (self.path, *map(str, keys)))))

    def basis(self, source: str) -> str:
        """What a figure is where nobody says it: given by the caller who describes a chip, else of a data sheet."""
        return "given" if self.file == DESCRIBED and not source else "spec"

    def fail(self, message: str, hint: str = "", *, template: str = "") -> NoReturn:
        """Raise with the file and the path in front; ``template`` says where a sound file is shown."""
        said = f"{self.path}: {message}" if self.path else message
        in_file = f"{said}; {hint}" if hint else said
        raise HardwareError(f"{self.file}: {said}", hint=f"{hint}; {template}" if template else hint, in_file=in_file)


def amount(raw: Any, unit: str) -> float:
    """Read a number, or text with a unit; a peak for 2:4 sparse matrices, of which dense ones reach half, as that half.

    >>> amount("1979 TFLOP/s sparse", "FLOP/s"), amount("989.5 TFLOP/s dense", "FLOP/s"), amount("3.35 TB/s", "B/s")
    (989500000000000.0, 989500000000000.0, 3350000000000.0)
    """
    peak, _, last = raw.strip().rpartition(" ") if isinstance(raw, str) else ("", "", "")
    share = {"sparse": 2, "dense": 1}.get(last.lower()) if unit == "FLOP/s" else None
    return quantity.parse(peak, unit) / share if share else quantity.parse(raw, unit)


def figure(raw: Any, unit: str, place: FieldPath, defaults: Mapping[str, str], *, most: float = math.inf) -> Figure:
    """Read one figure: a number, text with a unit, or a table around either.

    >>> place = FieldPath("my.toml", "chip.x", {})
    >>> figure("3.35 TB/s", "B/s", place.at("bandwidth"), {}).value
    3350000000000.0
    >>> figure(-1, "B/s", place.at("bandwidth"), {})
    Traceback (most recent call last):
    roofline.errors.HardwareError: my.toml: chip.x.bandwidth: -1 is negative; expected a bandwidth in bytes per ...
    """
    extra: Mapping[str, Any] = {}
    if isinstance(raw, dict):
        known_keys(raw, FIGURE_KEYS, place)
        if "value" not in raw:
            hint = f"write {{ value = …, source = … }} or just the figure; {quantity.UNITS[unit][1]!r}"
            place.fail("has no value", hint)
        raw, extra = raw["value"], raw
    if isinstance(raw, str) and raw.lstrip().startswith("+"):
        place.fail(f"{raw!r} starts from another figure", "a file has the figure itself; what is set may start from it")
    try:
        value = amount(raw, unit)
    except QuantityError as error:
        place.fail(error.message, error.hint)
    if value > most:
        place.fail(f"is {value:g}", f"a fraction is above 0 and at most {most:g}")
    source = text_of(extra, "source", place)
    basis = text_of(extra, "basis", place) or defaults.get("basis") or place.basis(source or defaults.get("source", ""))
    if basis not in BASES:
        place.at("basis").fail(f"is {basis!r}", suggest(basis, BASES, what="bases"))
    return Figure(
        value=value,
        source=place.sources.get(source, source) if source else defaults.get("source", ""),
        basis=basis,
        note=text_of(extra if "note" in extra else defaults, "note", place),
        date=date_of(extra, place),
        doubt=text_of(extra, "doubt", place),
    )


def figure_of(
    raw: Mapping[str, Any], key: str, unit: str, place: FieldPath, defaults: Mapping[str, str], most: float = math.inf
) -> Figure | None:
    """Read the figure under ``key``, or None where there is none."""
    return figure(raw[key], unit, place.at(key), defaults, most=most) if key in raw else None


def by_dtype(
    raw: Mapping[str, Any], key: str, unit: str, place: FieldPath, defaults: Mapping[str, str], most: float = math.inf
) -> Mapping[str, Figure]:
    """Read a table of figures by dtype, such as ``peak``."""
    found: dict[str, Figure] = {}
    for written, value in table_of(raw, key, place).items():
        here = place.at(key, written)
        name = dtypes.peak_name(written)
        if name is None:
            known = [found for found in dtypes.names() if dtypes.get(found).family != "complex"] + ["fp16_acc16"]
            here.fail(f"unknown dtype {written!r}", suggest(written, known, what="dtypes"))
        read = figure(value, unit, here, defaults, most=most)
        if name in found and found[name].value != read.value:
            here.fail(f"is {name} again, with another figure", f"formats that run alike have one: {key}.{name}")
        found[name] = read
    return Frozen(found)


def known_keys(raw: Mapping[str, Any], known: Iterable[str], place: FieldPath) -> None:
    """Stop at keys the schema does not know."""
    unknown = [key for key in raw if key not in known]
    if unknown:
        many = "keys" if len(unknown) > 1 else "key"
        near = near_words(str(unknown[0]), list(known))
        hint = near or suggest(str(unknown[0]), known, what="keys", limit=20)
        place.fail(f"unknown {many} {', '.join(map(repr, unknown))}", hint, template="" if near else template())


def together(makers: Iterable[Callable[[], Made]], place: FieldPath) -> list[Made]:
    """What each of them makes; what is wrong in several is one error that names it all."""
    made, wrong = [], []
    for make in makers:
        try:
            made.append(make())
        except HardwareError as error:
            wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        said = "\n".join(f"  {error.in_file or error}" for error in wrong)
        raise HardwareError(f"{place.file}: {len(wrong)} things are wrong\n{said}", hint=template())
    return made


def defaults_of(raw: Mapping[str, Any], place: FieldPath) -> Mapping[str, str]:
    """Read the source, basis and note that hold for all figures of a table."""
    source = text_of(raw, "source", place)
    found = {
        "source": place.sources.get(source, source),
        "basis": text_of(raw, "basis", place),
        "note": text_of(raw, "note", place),
    }
    if found["basis"] not in ("", *BASES):
        place.at("basis").fail(f"is {found['basis']!r}", suggest(found["basis"], BASES, what="bases"))
    return found


def source_text(value: Any, place: FieldPath) -> str:
    """Read one entry of ``[sources]``: a text, or a table of title and address."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        place.fail(f"is {value!r}", "expected a title or an address, or a table { title, url }")
    known_keys(value, ("title", "url", "read"), place)
    return ", ".join(str(value[key]) for key in ("title", "url") if key in value)


def date_of(raw: Mapping[str, Any], place: FieldPath) -> str:
    """Read a date: text, or one of TOML's own."""
    value = raw.get("date", "")
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return str(expect(value, str, "text or a date", place.at("date")))


def expect(value: Any, kind: type | tuple[type, ...], what: str, place: FieldPath) -> Any:
    """Return a value of the wanted kind, or say what was expected."""
    if not isinstance(value, kind):
        place.fail(f"is {quoted(value)}", f"expected {what}")
    return value


def text_of(raw: Mapping[str, Any], key: str, place: FieldPath, needed: str = "") -> str:
    """Read a text; nothing is the empty text, or refused where ``needed`` says what to write."""
    text = str(expect(raw.get(key, ""), str, "text", place.at(key)))
    if needed and not text:
        place.at(key).fail("is missing", needed)
    return text


def texts_of(raw: Mapping[str, Any], key: str, place: FieldPath) -> tuple[str, ...]:
    """Read a list of texts; nothing is the empty one."""
    value = raw.get(key, [])
    if not is_text_list(value):
        place.at(key).fail(f"is {quoted(value)}", 'expected a list of texts, such as ["one"]')
    return tuple(value)


def is_text_list(value: Any) -> bool:
    """Say whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def flag_of(raw: Mapping[str, Any], key: str, place: FieldPath, default: bool) -> bool:
    """Read true or false."""
    return bool(expect(raw.get(key, default), bool, "true or false", place.at(key)))


def is_count(value: Any) -> bool:
    """Say whether a value is a whole number of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10**12


def count_of(raw: Mapping[str, Any], key: str, place: FieldPath) -> int | None:
    """Read a whole number of at least 1, or None where there is none."""
    if key not in raw:
        return None
    if not is_count(raw[key]):
        place.at(key).fail(f"is {quoted(raw[key])}", "expected a whole number of at least 1")
    return int(raw[key])


def curve_of(raw: Mapping[str, Any], key: str, place: FieldPath) -> tuple[tuple[float, float], ...]:
    """Read a list of pairs of figures above 0, the first ones rising; nothing is the empty one."""
    listed = raw.get(key, [])
    hint = 'expected pairs of bytes and B/s with rising bytes, such as [[32768, 4e11], ["1 MiB", "200 GB/s"]]'
    if not isinstance(listed, list) or any(not isinstance(pair, list) or len(pair) != 2 for pair in listed):
        place.at(key).fail(f"is {quoted(listed)}", hint)
    try:
        curve = tuple((quantity.parse(size, "B"), quantity.parse(value, "B/s")) for size, value in listed)
    except QuantityError as error:
        place.at(key).fail(error.message, hint)
    if any(after[0] <= before[0] for before, after in pairwise(curve)):
        place.at(key).fail("does not rise", hint)
    return curve


def table_of(raw: Mapping[str, Any], key: str, place: FieldPath) -> dict[str, Any]:
    """Read a table; nothing is the empty one."""
    value = raw.get(key, {})
    return value if isinstance(value, dict) else expect(value, dict, "a table", place.at(key))


def tables_of(raw: Mapping[str, Any], key: str, place: FieldPath) -> Iterable[tuple[str, dict[str, Any]]]:
    """Read a table of tables, name by name."""
    outer = table_of(raw, key, place)
    _check_count(len(outer), key, place)
    return [(name, table_of(outer, name, place.at(key))) for name in outer]


def list_of_tables(raw: Mapping[str, Any], key: str, place: FieldPath) -> list[tuple[int, dict[str, Any]]]:
    """Read a list of tables with their positions."""
    value = raw.get(key, [])
    if not isinstance(value, list) or any(not isinstance(item, dict) for item in value):
        place.at(key).fail(f"is {quoted(value)}", f"expected a list of tables, [[{place.at(key).path}]]")
    _check_count(len(value), key, place)
    return list(enumerate(value))


def _check_count(count: int, key: str, place: FieldPath) -> None:
    """Refuse more units, levels of memory or links than any chip has."""
    if count > MOST_TABLES:
        place.at(key).fail(f"has {count:,} tables, and one chip has fewer", f"at most {MOST_TABLES}")


SCHEMA = 1

KINDS = ("matrix", "vector")

TOPOLOGIES = ("switch", "fat-tree", "mesh", "ring", "torus2d", "torus3d", "pair", "network")

_FILE_KEYS = ("schema", "family", "sources", "chip", "system", "measurement")

CHIP_KEYS = (
    "name", "announced", "inherits", "vendor", "aliases", "match", "cores", "core", "registers", "tdp", "notes", "unit",
    "memory", "link", "price", "alternates", "source", "basis",
)  # fmt: skip

_REDUCTION_KEYS = ("dtypes", "source", "note")

_ALTERNATE_KEYS = ("of", *FIGURE_KEYS, "rejected")

_SYSTEM_KEYS = ("name", "chip", "aliases", "notes", "link")

_Part = TypeVar("_Part", Unit, Memory, Link)

#: Reads what a key of a table holds; source, basis and note are those that the table has for all of its figures.
Reader = Callable[[Mapping[str, Any], str, FieldPath, Mapping[str, str]], Any]

#: Keys of a table that hold for all of its figures.
_OF_ALL = ("source", "basis", "note")


def check_file(data: Mapping[str, Any], file: str) -> tuple[dict[str, dict[str, Any]], FieldPath]:
    """Check the head of a parsed file; return its chips as they stand and the place to build them from."""
    place = FieldPath(file, "", {})
    misplaced = next((key for key in data if key in CHIP_KEYS and key not in _FILE_KEYS), None)
    if misplaced is not None:
        place.fail(f"{misplaced!r} stands outside a chip", "put it under [chip.NAME]")
    known_keys(data, _FILE_KEYS, place)
    if data.get("schema", SCHEMA) != SCHEMA or isinstance(data.get("schema"), bool):
        place.at("schema").fail(f"is {data['schema']!r}", f"this version reads schema = {SCHEMA}")
    sources = {
        name: source_text(value, place.at("sources", name)) for name, value in table_of(data, "sources", place).items()
    }
    place = FieldPath(file, "", sources)
    text_of(data, "family", place)
    chips, systems = table_of(data, "chip", place), table_of(data, "system", place)
    if not chips and not systems:
        place.fail("holds no chip", "start one with [chip.NAME]; roofline measure writes a whole file")
    for kind, tables in (("chip", chips), ("system", systems)):
        for key in tables:
            table_of(tables, key, place.at(kind))
    return chips, place


def build_chip(
    key: str, raw: Mapping[str, Any], place: FieldPath, *, family: str = "", parent: Machine | None = None
) -> Machine:
    """Make the Machine of one chip; ``parent`` is what it inherits from, and fills in what is not said."""
    kinds = {**UNIT_KINDS, **{u.name: u.kind for u in (parent.units if parent else ())}}

    def units_of() -> tuple[Unit, ...]:
        named = tables_of(raw, "unit", place)
        return tuple(together([partial(_unit, name, raw, place.at("unit", name), kinds) for name, raw in named], place))

    def memories_of() -> tuple[Memory, ...]:
        listed = list_of_tables(raw, "memory", place)
        return tuple(together([partial(_memory, raw, place.at(f"memory[{i}]")) for i, raw in listed], place))

    known = partial(known_keys, raw, CHIP_KEYS, place)
    parts: list[Callable[[], Any]] = [known, units_of, memories_of, partial(links_of, raw, place)]
    _, units, memories, links = together(parts, place)
    _once("memory level", [m.name for m in memories], place)
    machine = Machine(
        key=key,
        name=text_of(raw, "name", place) or key,
        announced=flag_of(raw, "announced", place, False),
        units=units,
        memories=memories,
        links=links,
        cores=count_of(raw, "cores", place),
        core=text_of(raw, "core", place),
        registers=figure_of(raw, "registers", "B", place, defaults_of(raw, place)),
        tdp=figure_of(raw, "tdp", "W", place, defaults_of(raw, place)),
        notes=tuple(assume("machine", texts_of(raw, "notes", place))),
        prices=_prices(raw, place),
        family=family,
        vendor=text_of(raw, "vendor", place),
        aliases=texts_of(raw, "aliases", place),
        match=texts_of(raw, "match", place),
        alternates=_alternates(raw, place),
        file=place.file,
    )
    if parent is not None:
        _check_names("memory", "level", memories, parent.memories, place)
        _check_names("link", "name", links, parent.links, place)
        machine = merge(parent, machine)
    machine = with_derived_figures(machine, parent)
    if not (any(u.peaks or u.per_clock for u in machine.units) or any(m.bandwidth for m in machine.memories)):
        hint = f"add a peak to [chip.{key}.unit.NAME] or a bandwidth to [[chip.{key}.memory]]"
        place.fail("has neither a peak nor a bandwidth", hint)
    return machine


def _fields(
    readers: Mapping[str, Reader], raw: Mapping[str, Any], place: FieldPath, others: tuple[str, ...]
) -> dict[str, Any]:
    """What the keys of a table hold, each as its reader reads it; a key that has none and is no other is an error."""
    known_keys(raw, (*others, *readers, *_OF_ALL), place)
    defaults = defaults_of(raw, place)
    return {key: read(raw, key, place, defaults) for key, read in readers.items()}


def _unit(name: str, raw: Mapping[str, Any], place: FieldPath, kinds: Mapping[str, str]) -> Unit:
    lone = [key for key in raw if key not in (*_UNIT, "kind", *_OF_ALL) and dtypes.peak_name(key)]
    if lone:
        many = "keys" if len(lone) > 1 else "key"
        said = ", ".join(f"peak.{key}" for key in lone)
        place.fail(f"unknown {many} {', '.join(map(repr, lone))}", f"a peak is written {said}")
    name = _as_name(name, place)
    kind = text_of(raw, "kind", place) or kinds.get(name, "")
    found = _fields(_UNIT, raw, place, ("kind",))
    if kind not in KINDS:
        place.at("kind").fail(f"is {kind!r}" if kind else "is missing", "a unit's kind is 'matrix' or 'vector'")
    return Unit(name=name, kind=kind, peaks=found.pop("peak"), note=text_of(raw, "note", place), **found)


def _name_of(raw: Mapping[str, Any], field: str, what: str, place: FieldPath) -> str:
    """Read the name of a level or a link."""
    return _as_name(text_of(raw, field, place, f"name {what}"), place.at(field))


def _as_name(name: str, place: FieldPath) -> str:
    """A name in lower case; one that could not be typed on a command line, or reads as a number, is refused."""
    name = name.lower()
    if not name.replace("_", "").replace("-", "").isalnum() or name.isdigit() or name in ("nan", "inf", "infinity"):
        place.fail(f"is {name!r}", "a name is letters, digits, '_' and '-', and does not read as a number")
    return name


def _memory(raw: Mapping[str, Any], place: FieldPath) -> Memory:
    found = _fields(_MEMORY, raw, place, ("level", "link"))
    name = _name_of(raw, "level", "the level: 'hbm', 'dram', 'l2', 'vmem', 'pcie' …", place)
    if found["curve"]:
        beyond = Figure(found["curve"][-1][1], basis="derived", note="the end of its curve")
        found["bandwidth"] = found["bandwidth"] or beyond
    return Memory(name=name, link=flag_of(raw, "link", place, name in LINK_LEVELS), **found)


def links_of(raw: Mapping[str, Any], place: FieldPath) -> tuple[Link, ...]:
    """Read the links of a chip or of a system, each name once."""
    links = tuple(_link(table, place.at(f"link[{i}]")) for i, table in list_of_tables(raw, "link", place))
    _once("link", [link.name for link in links], place)
    return links


def _once(what: str, names: list[str], place: FieldPath) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice:
        place.fail(f"lists the {what} {twice!r} twice", "join the two tables")


def _link(raw: Mapping[str, Any], place: FieldPath) -> Link:
    found = _fields(_LINK, raw, place, ("name",))
    return Link(name=_name_of(raw, "name", "the link: 'nvlink', 'ici', 'nic' …", place), **found)


def _reduction(raw: Mapping[str, Any], key: str, place: FieldPath, defaults: Mapping[str, str]) -> Reduction | None:
    """Read what the switches add up: true for every format, or a table of the formats and their source."""
    given = raw.get(key, False)
    if not isinstance(given, dict):
        return Reduction() if flag_of(raw, key, place, False) else None
    here = place.at(key)
    known_keys(given, _REDUCTION_KEYS, here)
    named = texts_of(given, "dtypes", here)
    if not named:
        hint = 'list what the switches add up, such as ["bf16", "fp32"]; or write reduces = true'
        here.at("dtypes").fail("is missing", hint)
    unknown = next((name for name in named if dtypes.peak_name(name) is None), None)
    if unknown is not None:
        here.at("dtypes").fail(f"unknown dtype {unknown!r}", suggest(unknown, dtypes.names(), what="dtypes"))
    source = text_of(given, "source", here)
    return Reduction(
        tuple(str(dtypes.peak_name(name)) for name in named),
        here.sources.get(source, source) if source else defaults.get("source", ""),
        text_of(given, "note", here),
    )


def _sizes(raw: Mapping[str, Any], key: str, place: FieldPath) -> tuple[int, ...]:
    sizes = raw.get(key, [])
    if not isinstance(sizes, list) or any(not is_count(a) for a in sizes):
        place.at(key).fail(f"is {sizes!r}", "expected whole numbers of at least 1, such as [16, 16]")
    return tuple(sizes)


def _prices(raw: Mapping[str, Any], place: FieldPath) -> Mapping[str, Figure]:
    table = table_of(raw, "price", place)
    return Frozen({name: figure(each, "USD/h", place.at("price", name), {}) for name, each in table.items()})


def _alternates(raw: Mapping[str, Any], place: FieldPath) -> tuple[Alternate, ...]:
    found = []
    for i, table in list_of_tables(raw, "alternates", place):
        here = place.at(f"alternates[{i}]")
        known_keys(table, _ALTERNATE_KEYS, here)
        of = text_of(table, "of", here, "say which figure it is, such as 'hbm.bandwidth'")
        plain = {k: v for k, v in table.items() if k in FIGURE_KEYS}
        value = figure(plain, figure_unit(of), here, {})
        found.append(Alternate(of, value, flag_of(table, "rejected", here, False)))
    return tuple(found)


def _tile(raw: Mapping[str, Any], key: str, place: FieldPath) -> tuple[int, int] | None:
    if key not in raw:
        return None
    tile = raw[key]
    if not isinstance(tile, list) or len(tile) != 2 or any(not is_count(side) for side in tile):
        place.at(key).fail(f"is {tile!r}", "expected rows and columns, such as [128, 128]")
    return tile[0], tile[1]


def _figure(unit: str, most: float = math.inf) -> Reader:
    return lambda raw, key, place, defaults: figure_of(raw, key, unit, place, defaults, most=most)


def _figures(unit: str, most: float = math.inf) -> Reader:
    return lambda raw, key, place, defaults: by_dtype(raw, key, unit, place, defaults, most=most)


def _plain(read: Callable[[Mapping[str, Any], str, FieldPath], Any]) -> Reader:
    return lambda raw, key, place, defaults: read(raw, key, place)


def _one_of(known: Iterable[str], what: str = "rules") -> Reader:
    def read(raw: Mapping[str, Any], key: str, place: FieldPath, defaults: Mapping[str, str]) -> str:
        rule = text_of(raw, key, place)
        if rule and rule not in known:
            place.at(key).fail(f"is {rule!r}", suggest(rule, known, what=what))
        return rule

    return read


#: What the keys of each table hold. Each is a field of the part, ``peak`` that of its peaks.
_UNIT: Mapping[str, Reader] = {
    "peak": _figures("FLOP/s"), "clock": _figure("Hz"), "tile": _plain(_tile), "achievable": _figures("", 1.0),
    "per_clock": _figures(""), "irregular": _plain(texts_of), "per_core": _plain(count_of),
}  # fmt: skip
_MEMORY: Mapping[str, Reader] = {
    "bandwidth": _figure("B/s"), "capacity": _figure("B"), "per_core": _figure("B"), "achievable": _figure("", 1.0),
    "label": _plain(text_of), "curve": _plain(curve_of),
}  # fmt: skip
_LINK: Mapping[str, Reader] = {
    "topology": _one_of(TOPOLOGIES, "topologies"), "bandwidth": _figure("B/s"), "links": _plain(count_of),
    "latency": _figure("s"), "domain": _plain(count_of), "achievable": _figure("", 1.0), "label": _plain(text_of),
    "axes": _plain(_sizes), "wrap": _one_of(WRAP_RULES), "slices": _one_of(list(filter(None, SLICE_RULES))),
    "host": _plain(_sizes), "reduces": _reduction, "switches": _plain(count_of), "ports": _plain(count_of),
    "port_bandwidth": _figure("B/s"),
}  # fmt: skip


def build_system(key: str, raw: Mapping[str, Any], place: FieldPath, chip_named: Callable[[str], Machine]) -> Machine:
    """Make the Machine of a system's chip, joined by the system's links."""
    known_keys(raw, _SYSTEM_KEYS, place)
    chip = chip_named(text_of(raw, "chip", place, "name the chip it is made of, such as 'h100'"))
    own, links = {link.name: link for link in chip.links}, links_of(raw, place)
    _check_names("link", "name", links, chip.links, place)
    links = tuple(fill_missing(own[link.name], link) if link.name in own else link for link in links)
    if not links:
        place.fail("has no link", f"add [[system.{key}.link]] tables, the innermost first")
    widest = 0
    for link in links:
        if link.domain is not None and link.domain <= widest:
            hint = "list the links from the inside out, each joining more chips than the one before"
            place.at("link").fail(f"{link.name!r} joins {link.domain} chips and the one before it {widest}", hint)
        if link.domain is not None and widest and link.domain % widest:
            place.at("link").fail(f"{link.name!r} joins {link.domain} chips", f"expected a multiple of {widest}")
        widest = link.domain or widest
    title = text_of(raw, "name", place) or key
    return replace(
        chip,
        key=key,
        name=f"{chip.name} in {title}",
        links=links,
        notes=(*chip.notes, *assume("machine", texts_of(raw, "notes", place))),
        aliases=texts_of(raw, "aliases", place),
        file=place.file,
    )


def names_of(key: str, raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Names a chip or a system may be asked for by."""
    aliases = raw.get("aliases", [])
    return (key, *(aliases if is_text_list(aliases) else ()))


def _check_names(
    table: str, key: str, said: Sequence[Memory | Link], below: Sequence[Memory | Link], place: FieldPath
) -> None:
    """A level or link whose name is nearly one of the chip below is a slip, unless that one is said beside it."""
    names, own = [part.name for part in below], {part.name for part in said}
    for at, name in enumerate(part.name for part in said):
        near = None if name in names else did_you_mean(name, names)
        if near is not None and near not in own:
            hint = f"did you mean {near!r}? there are {', '.join(names)}; a new one stands beside a table of {near!r}"
            place.at(f"{table}[{at}]").at(key).fail(f"{name!r} is new here", hint)


def merge(parent: Machine, child: Machine) -> Machine:
    """Fill what ``child`` leaves unsaid from ``parent``: part by part, level by level, dtype by dtype.

    Names, prices, notes and what other sources say stay the child's own.
    """
    said = ("cores", "core", "registers", "tdp", "vendor", "family", "notes")
    return replace(
        child,
        name=child.name if child.name != child.key else parent.name,
        units=_merge_named(parent.units, child.units, _merge_units),
        memories=_merge_named(parent.memories, child.memories, fill_missing),
        links=_merge_named(parent.links, child.links, fill_missing),
        **{part: getattr(child, part) or getattr(parent, part) for part in said},
    )


def _merge_named(below: tuple[Any, ...], above: tuple[Any, ...], join: Any) -> tuple[Any, ...]:
    merged = {part.name: part for part in below}
    for part in above:
        merged[part.name] = join(merged[part.name], part) if part.name in merged else part
    return tuple(merged.values())


def _merge_units(below: Unit, above: Unit) -> Unit:
    tables = ("peaks", "achievable", "per_clock")
    joined: dict[str, Any] = {name: Frozen({**getattr(below, name), **getattr(above, name)}) for name in tables}
    return fill_missing(below, above)._replace(**joined)


def fill_missing(below: _Part, above: _Part) -> _Part:
    """Take what ``above`` leaves unsaid from ``below``."""
    missing = {name: getattr(below, name) for name in above._fields if not getattr(above, name)}
    return above._replace(**missing)


def machine_toml(*machines: Machine) -> str:
    """Write chips as the machine file that reads back to them, every figure with its source.

    >>> from roofline.hardware import chip
    >>> print(machine_toml(chip({"name": "Mine", "bf16": 3e14, "hbm": 2e12})))
    schema = 1
    <BLANKLINE>
    [chip.mine]
    name = "Mine"
    <BLANKLINE>
    [chip.mine.unit.matrix]
    kind = "matrix"
    peak.bf16 = { value = 300000000000000.0, basis = "given" }
    <BLANKLINE>
    [[chip.mine.memory]]
    level = "hbm"
    bandwidth = { value = 2000000000000.0, basis = "given" }
    link = false
    <BLANKLINE>
    """
    families = {machine.family for machine in machines}
    family = _written("family", families.pop()) if len(families) == 1 else []
    return "\n".join([f"schema = {SCHEMA}", *family, *(line for each in machines for line in _chip_lines(each)), ""])


def _chip_lines(machine: Machine) -> Iterator[str]:
    """Write the tables of one chip."""
    if machine.shape or machine.pooled > 1 or machine.unit or machine.over or machine.use_achievable:
        rest = f"{spelled('on', 'mine.toml:8')}, {spelled('unit', 'vector')}"
        hint = f"save the chip alone, and ask with the rest: {rest}"
        raise HardwareError(f"a machine file holds one chip, and {machine.target} is more than its figures", hint=hint)
    head = f"chip.{toml_key(machine.key)}"
    own = ("name", "vendor", "aliases", "match", "cores", "core", "registers", "tdp", "notes")
    tables: list[tuple[str, Mapping[str, Any]]] = [
        (f"[{head}]", {**{name: getattr(machine, name) for name in own}, "price": machine.prices}),
        *((f"[{head}.unit.{toml_key(each.name)}]", {**each._asdict(), "name": "", "peak": each.peaks})
          for each in machine.units),
        *((f"[[{head}.memory]]", {"level": each.name, **each._asdict(), "name": ""}) for each in machine.memories),
        *((f"[[{head}.link]]", link._asdict()) for link in machine.links),
        *((f"[[{head}.alternates]]", {"of": each.of, **each.figure._asdict(), "rejected": each.rejected})
          for each in machine.alternates),
    ]  # fmt: skip
    for title, fields in tables:
        yield from ("", title)
        for name, value in fields.items():
            yield from () if name == "peaks" else _written(name, value)


def _written(name: str, value: Any) -> list[str]:
    """Write a field of a part of a chip, of figures by format one line each; nothing of what is not known."""
    if isinstance(value, Frozen):
        return [line for key, figure in value.items() for line in _written(f"{name}.{toml_key(key)}", figure)]
    if isinstance(value, Reduction):
        value = value._asdict() if value.dtypes else True
    alone = isinstance(value, Figure) and value.is_set  # its unit's note is not its own
    if isinstance(value, Figure):
        value = value._asdict()
    if isinstance(value, Mapping):
        value = {key: part for key, part in value.items() if part != "" or (alone and key == "note")}
    return [] if value in (None, "", (), {}) else [f"{name} = {toml_value(value)}"]


#: Threads that an NVIDIA SM runs in step, and bytes of one of their registers.
WARP, REGISTER = 32, 4


def count_units(machine: Machine, unit: str) -> int | None:
    """Count the units of a kind on the chip, all cores together; None where the catalog does not say."""
    found = _unit_of_cores(machine, unit)
    return None if machine.cores is None or found.per_core is None else machine.cores * found.per_core


def flops_per_cycle(machine: Machine, unit: str, dtype: str) -> float | None:
    """Return the FLOPs that one unit does in a cycle: peak / (units · clock); None where one of them is not known."""
    found, count = _unit_of_cores(machine, unit), count_units(machine, unit)
    peak = found.peaks.get(dtype)
    return None if count is None or peak is None or found.clock is None else peak.value / (count * found.clock.value)


def peak_of_one(machine: Machine, unit: str, dtype: str) -> float | None:
    """Return the FLOP/s of one unit: a tensor core, an MXU, an ALU; None where their number is not known.

    >>> from roofline.hardware import chip
    >>> peak_of_one(chip("v5e", mxu={"clock": 1.5e9}), "mxu", "bf16")
    49152000000000.0
    """
    count, peak = count_units(machine, unit), _unit_of_cores(machine, unit).peaks.get(dtype)
    return None if not count or peak is None else peak.value / count


def peak_of_a_core(machine: Machine, unit: str, dtype: str) -> float | None:
    """Return the FLOP/s of the units of one core: an SM, a TensorCore; None where the cores are not known.

    >>> from roofline.hardware import chip
    >>> peak_of_a_core(chip("v5p", vpu={"fp32": "8192x vpu.clock"}), "vpu", "fp32")
    7168000000000.0
    """
    peak = _unit_of_cores(machine, unit).peaks.get(dtype)
    return None if not machine.cores or peak is None else peak.value / machine.cores


def on_chip_bytes(machine: Machine, *levels: str) -> float | None:
    """Return the bytes of all register files and of ``levels`` together; None where one of them is not known.

    >>> from roofline.hardware import chip
    >>> on_chip_bytes(chip("h100", smem={"per_core": 262144}), "smem")
    69206016.0
    """
    found = {memory.name: memory.capacity for memory in machine.memories}
    sizes = [register_bytes(machine), *(None if (c := found.get(name)) is None else c.value for name in levels)]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def register_bytes(machine: Machine) -> float | None:
    """Return the bytes of all register files; None where they are not known."""
    return None if machine.registers is None or machine.cores is None else int(machine.registers.value) * machine.cores


def resident_warps(machine: Machine, registers_per_thread: int) -> int | None:
    """Count the warps of 32 threads whose registers one core holds; None where its registers are not known."""
    if machine.registers is None:
        return None
    return int(machine.registers.value) // (WARP * REGISTER * registers_per_thread)


def peak_at(cores: int, per_clock: Figure, clock: Figure) -> Figure:
    """Make the peak of all cores: cores x FLOP per clock of one x clock.

    >>> peak_at(132, Figure(4096), Figure(1.83e9)).value
    989429760000000.0
    """
    note = f"{cores} cores x {per_clock.value:g} FLOP/clk x {clock.value / 1e9:g} GHz"
    return Figure(cores * per_clock.value * clock.value, per_clock.source, "derived", note)


def peak_at_other_clock(peak: Figure, old: Figure, new: Figure) -> Figure:
    """Make the peak at another clock.

    >>> peak_at_other_clock(Figure(989e12), Figure(1.83e9), Figure(0.915e9)).value
    494500000000000.0
    """
    note = f"at {new.value / 1e9:g} in place of {old.value / 1e9:g} GHz"
    return Figure(peak.value * new.value / old.value, peak.source, "derived", note)


def capacity_of(cores: int, each: Figure) -> Figure:
    """Make the capacity of all cores from that of one."""
    return Figure(cores * each.value, each.source, "derived", f"{cores} cores x {each.value:g} B")


def with_derived_figures(machine: Machine, parent: Machine | None = None) -> Machine:
    """Fill in what follows from the number of cores: peaks from the clock, capacities from that of one core.

    A figure that is given stays. One that comes from ``parent`` follows where the clock or the cores are not its own.
    """
    if machine.cores is None:
        return machine
    units = {unit.name: unit for unit in parent.units} if parent else {}
    levels = {memory.name: memory for memory in parent.memories} if parent else {}
    was = parent.cores if parent is not None and parent.cores else machine.cores
    return replace(
        machine,
        units=tuple(_with_peaks(unit, units.get(unit.name), machine.cores, was) for unit in machine.units),
        memories=tuple(_with_capacity(m, levels.get(m.name), machine.cores, was) for m in machine.memories),
    )


def _with_peaks(unit: Unit, before: Unit | None, cores: int, was: int) -> Unit:
    old = before.peaks if before else {}
    old_clock, clock = before.clock if before else None, unit.clock
    times = cores / was * (clock.value / old_clock.value if clock and old_clock else 1.0)
    follows = cores != was or times != 1
    made = {} if clock is None else {name: peak_at(cores, each, clock) for name, each in unit.per_clock.items()}
    made = {name: peak for name, peak in made.items() if unit.peaks.get(name) == (old.get(name) if follows else None)}
    if follows and before is not None:  # what is not counted per clock grows with both
        note = f"{times:g} times that of {was} cores" if cores != was else f"at {times:g} times the clock"
        rest = {name: peak for name, peak in unit.peaks.items() if name not in unit.per_clock and peak == old.get(name)}
        made |= {name: Figure(times * peak.value, peak.source, "derived", note) for name, peak in rest.items()}
    return unit._replace(peaks=Frozen({**unit.peaks, **made})) if made else unit


def _with_capacity(memory: Memory, before: Memory | None, cores: int, was: int) -> Memory:
    each = memory.per_core
    if each is None or memory.capacity != (before.capacity if before and cores != was else None):
        return memory
    return memory._replace(capacity=capacity_of(cores, each))


def _unit_of_cores(machine: Machine, name: str) -> Unit:
    found = next((u for u in machine.units if name in (u.name, u.kind)), None)
    if found is None:
        hint = f"its units are: {', '.join(unit_words(machine.units))}"
        raise HardwareError(f"{machine.name} has no unit {name!r}", hint=hint)
    return found
