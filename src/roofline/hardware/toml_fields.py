"""Reading one key of a parsed TOML table, with errors that name the file, the place in it and the fix.

>>> place = FieldPath("my.toml", "chip.x", {})
>>> figure("3.35 TB/s", "B/s", place.at("bandwidth"), {}).value
3350000000000.0
>>> figure(-1, "B/s", place.at("bandwidth"), {})
Traceback (most recent call last):
roofline.errors.HardwareError: my.toml: chip.x.bandwidth: -1 is negative; expected a bandwidth in bytes per second ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

from roofline import dtypes, quantity
from roofline.errors import HardwareError, QuantityError, quoted, suggest
from roofline.files import MOST_TABLES
from roofline.frozen import Frozen
from roofline.hardware.machine import Figure
from roofline.signatures import either

Made = TypeVar("Made")


def template() -> str:
    """Where the caller finds how a chip of its own is written."""
    return either("`roofline chips --template` prints a file to edit", "roofline.chip({…}) takes its figures")


BASES = ("spec", "derived", "measured", "table", "given")

FIGURE_KEYS = ("value", "source", "basis", "note", "date")


class FieldPath:
    """Where in which file: made longer on the way down, shown when something is wrong."""

    __slots__ = ("file", "path", "sources")

    def __init__(self, file: str, path: str, sources: Mapping[str, str]) -> None:
        self.file = file
        self.path = path
        self.sources = sources

    def at(self, *keys: object) -> FieldPath:
        """Go down to a key."""
        return FieldPath(self.file, ".".join(filter(None, (self.path, *map(str, keys)))), self.sources)

    def fail(self, message: str, hint: str = "") -> NoReturn:
        """Raise with the file and the path in front."""
        raise HardwareError(
            f"{self.file}: {self.path}: {message}" if self.path else f"{self.file}: {message}", hint=hint
        )


def figure(raw: Any, unit: str, place: FieldPath, defaults: Mapping[str, str], *, most: float | None = None) -> Figure:
    """Read one figure: a number, text with a unit, or a table around either."""
    extra: Mapping[str, Any] = {}
    if isinstance(raw, dict):
        known_keys(raw, FIGURE_KEYS, place)
        if "value" not in raw:
            place.fail(
                "has no value", f"write {{ value = …, source = … }} or just the figure; {quantity.UNITS[unit][1]!r}"
            )
        raw, extra = raw["value"], raw
    try:
        value = quantity.parse(raw, unit)
    except QuantityError as error:
        place.fail(error.message, error.hint)
    if most is not None and value > most:
        place.fail(f"is {value:g}", f"a fraction is above 0 and at most {most:g}")
    basis = text_of(extra, "basis", place) or defaults.get("basis", "spec")
    if basis not in BASES:
        place.at("basis").fail(f"is {basis!r}", suggest(basis, BASES, what="bases"))
    source = text_of(extra, "source", place)
    return Figure(
        value=value,
        source=place.sources.get(source, source) if source else defaults.get("source", ""),
        basis=basis,
        note=text_of(extra, "note", place) or defaults.get("note", ""),
        date=date_of(extra, place),
    )


def figure_of(
    raw: Mapping[str, Any],
    key: str,
    unit: str,
    place: FieldPath,
    defaults: Mapping[str, str],
    *,
    most: float | None = None,
) -> Figure | None:
    """Read the figure under ``key``, or None where there is none."""
    return figure(raw[key], unit, place.at(key), defaults, most=most) if key in raw else None


def by_dtype(
    raw: Mapping[str, Any],
    key: str,
    unit: str,
    place: FieldPath,
    defaults: Mapping[str, str],
    *,
    most: float | None = None,
) -> Mapping[str, Figure]:
    """Read a table of figures by dtype, such as ``peak``."""
    table = table_of(raw, key, place)
    found: dict[str, Figure] = {}
    for written, value in table.items():
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
        hint = suggest(str(unknown[0]), known, what="keys", limit=20)
        hint += "" if hint.endswith("?") else f"; {template()}"
        place.fail(f"unknown {many} {', '.join(map(repr, unknown))}", hint)


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
        said = [
            f"  {e.message.removeprefix(f'{place.file}: ')}; {e.hint.removesuffix(f'; {template()}')}" for e in wrong
        ]
        raise HardwareError("\n".join([f"{place.file}: {len(wrong)} things are wrong", *said]), hint=template())
    return made


def defaults_of(raw: Mapping[str, Any], place: FieldPath) -> Mapping[str, str]:
    """Read the source, basis and note that hold for all figures of a table."""
    source = text_of(raw, "source", place)
    found = {
        "source": place.sources.get(source, source),
        "basis": text_of(raw, "basis", place) or "spec",
        "note": text_of(raw, "note", place),
    }
    if found["basis"] not in BASES:
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


def plain_name(name: str, place: FieldPath) -> None:
    """Stop at a name that could not be typed on a command line."""
    if not name.replace("_", "").replace("-", "").isalnum():
        place.fail(f"is {name!r}", "a name is letters, digits, '_' and '-'")


def expect(value: Any, kind: type | tuple[type, ...], what: str, place: FieldPath) -> Any:
    """Return a value of the wanted kind, or say what was expected."""
    if not isinstance(value, kind):
        place.fail(f"is {quoted(value)}", f"expected {what}")
    return value


def text_of(raw: Mapping[str, Any], key: str, place: FieldPath) -> str:
    """Read a text; nothing is the empty text."""
    value = raw.get(key, "")
    return str(expect(value, str, "text", place.at(key)))


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
