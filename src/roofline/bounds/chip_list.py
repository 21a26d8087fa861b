"""The list of chips: which are meant by a name, a maker or a text, in which order, and a line for each.

>>> chips("nvidia", sort="memory", top=2)
<ChipList: 2 chips: grace, gb300>

A chip alone has a card: its figures with their basis, its rules of thumb, what is odd about it; and all as data.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from typing import Any, Literal, SupportsIndex, overload

from roofline import dtypes
from roofline.answers import Answer, Fact
from roofline.bounds.comparison import MARK, aligned, best_of, fact_cells
from roofline.bounds.ridges import MIXES, rules_of_thumb, run_wider
from roofline.errors import HardwareError, InputError, near_words, quoted, suggest
from roofline.frozen import NamedTuple, dataclass, field, replace
from roofline.hardware import chip
from roofline.hardware.catalog import chips_called, is_chip, read_index
from roofline.hardware.figures import (
    LISTED_PRICE,
    labels,
    listed_prices,
    named_figure,
    named_figure_unit,
    ratio_unit,
    verdicts,
)
from roofline.hardware.machine import Figure, Machine, figure_unit, figures_by_path
from roofline.hardware.network import bisection_bandwidth, network
from roofline.hardware.rate import main_level, rate, ridge
from roofline.hardware.schema import machine_toml
from roofline.hardware.targets import chips as all_chips
from roofline.hardware.targets import chips_in
from roofline.quantity import agree, format_number, format_percent, format_quantity, in_a_row, kind_of, parse
from roofline.sections import (
    BLANK,
    Amount,
    Cell,
    Column,
    CrossTable,
    Headline,
    Row,
    Section,
    Sentences,
    Table,
    YesNo,
    figures,
)
from roofline.signatures import check_top, either, spelled, takes
from roofline.work import Key


def detail(machine: Machine, *, sources: bool = False) -> Iterator[Section]:
    """One chip: its figures with their basis, its rules of thumb, and what is odd about it."""
    yield Headline(machine.name, f"{machine.key}{_cores(machine)}")
    yield BLANK
    columns = (
        Column(meaning="part"),
        Column(meaning="figure"),
        Column(align="right", meaning="value"),
        Column(wrap="anywhere", tone="quiet", meaning="basis"),
    )
    of_chip = list(_figures(machine))
    figures_of_chip = [*(each.figure for each in of_chip), *(item.figure for item in machine.alternates)]
    cited = list(dict.fromkeys(figure.source for figure in figures_of_chip if figure.source)) if sources else []
    origins = [
        _origin(figure, cited) if sources else "" if figure.basis == "spec" else figure.basis for *_, figure in of_chip
    ]
    said = [
        "as above" if sources and one == other else one for one, other in zip(origins, ["", *origins], strict=False)
    ]
    rows = [Row((each.part, each.what, each.amount, origin)) for each, origin in zip(of_chip, said, strict=True)]
    yield Table(columns, rows, "figures", headed=False)
    if sources and machine.alternates:
        yield from (BLANK, Sentences(("other sources say",)))
        yield _alternates(machine, cited)
    if sources:
        yield from (BLANK, Sentences(tuple(_verdicts(machine))))
    if cited:
        yield from (BLANK, Sentences(("sources",)))
        listed = [f"[{at}] {source}" for at, source in enumerate(cited, 1)]
        yield Sentences(listed, indent=4, name="sources", whole=True)
    if (sums := slice_sums(machine)) is not None:
        shown = ", ".join(f"{name} {_show(value, unit)}" for name, value, unit in sums if value is not None)
        yield from (BLANK, Sentences((f"{machine.target} together: {shown}",)))
    rules = rules_of_thumb(machine)
    if rules:
        yield from (BLANK, Sentences(("rules of thumb",), "quiet"))
    for group in dict.fromkeys(rule.group for rule in rules):
        chosen = [rule for rule in rules if rule.group == group]
        yield from (BLANK, Sentences((chosen[0].meaning,), "quiet"))
        yield CrossTable(group, [(rule.row, rule.column, format_number(rule.value)) for rule in chosen])
        if group == "critical batch" and (wider := _left_out(machine)):
            yield Sentences((wider,), "quiet", indent=4)
    if machine.warnings:
        yield from (BLANK, Sentences(machine.warnings, "warning"))
    twice = [name.removesuffix("_acc16") for unit in machine.units for name in unit.peaks if name.endswith("_acc16")]
    notes = [*machine.notes, *(f"{name} accumulates in fp32, {name}_acc16 in fp16" for name in twice)]
    if notes:
        yield from (BLANK, Sentences(notes, "quiet"))


def _left_out(machine: Machine) -> str:
    """Say which formats have no critical batch, as their products run in a wider one."""
    wider = run_wider(machine)
    by_format = {runs_as: [left for left in wider if wider[left] == runs_as] for runs_as in wider.values()}
    said = [f"{in_a_row(of)} in {to}" for to, of in by_format.items()]
    return f"run here in a wider format, so without a batch of their own: {', '.join(said)}" if said else ""


def slice_sums(machine: Machine) -> list[tuple[str, float | None, str]] | None:
    """What the chips of a target have together, as (name, value, unit); None of one chip.

    >>> from roofline.hardware import chip
    >>> [(name, value) for name, value, _ in slice_sums(chip("v5e:16x16"))][:3]
    [('chips', 256), ('hosts', 32), ('cores', 256)]
    """
    if machine.mesh is None or not isinstance(machine.mesh.chips, int) or machine.mesh.chips == 1:
        return None
    many, main = machine.mesh.chips, main_level(machine)
    return [
        ("chips", many, ""),
        ("hosts", network(machine).hosts(many), ""),
        ("cores", machine.cores * many if machine.cores else None, ""),
        *((f"{dtype} peak", peak.value * many, "FLOP/s") for dtype, peak in machine.matrix_first[0].peaks.items()),
        ("memory", main.capacity.value * many if main.capacity else None, "B"),
        ("memory bandwidth", main.bandwidth.value * many if main.bandwidth else None, "B/s"),
        ("bisection bandwidth one way", bisection_bandwidth(machine), "B/s"),
    ]


def comparison(machines: Sequence[Machine]) -> Iterator[Section]:
    """Several chips side by side, a row a meaning, the best marked: blank where a chip has no figure."""
    names = [machine.key for machine in machines]
    placed = [sorted(_facts(machine), key=operator.itemgetter(0)) for machine in machines]
    places = {fact.name: place for of_chip in placed for place, fact in of_chip}
    said = aligned([[fact for _, fact in of_chip] for of_chip in placed])
    for at, wider in enumerate(map(run_wider, machines)):
        for left, right in MIXES:
            if left in wider and (name := f"critical batch {left} x {right}") in said:
                cells = list(said[name])
                cells[at] = Fact(name, f"runs in {wider[left]}")
                said[name] = tuple(cells)
    ordered = sorted(said, key=places.__getitem__)
    rows = [Row((name, *fact_cells(names, said[name], best_of(names, said[name])))) for name in ordered]
    yield Table((Column(wrap="words"), *figures(*names)), rows, "chips", gap=4, head_tone="strong")
    yield Sentences((f"{MARK} best of its row; dense peaks, one-way bandwidths; blank: no source",), "quiet")


#: The groups of figures in which chips stand side by side, and a place in one: memory levels by name, the main one
#: first, and wide formats first.
_ORDER = ("matrix", "vector", "main memory", "link", "power", "level", "ridge", "critical batch", "width")
Place = tuple[int, str, int]


def _place(group: str, level: str = "", dtype: str = "") -> Place:
    return _ORDER.index(group), level, -dtypes.get(dtype).bits if dtypes.is_dtype(dtype) else 0


def _facts(machine: Machine) -> Iterator[tuple[Place, Fact]]:
    """The figures of a machine under what they mean on any: ``matrix bf16``, ``main memory``, ``link one way``."""
    for each in _figures(machine):
        one_way = each.what == "one way"
        value, unit = (str(each.amount), "") if one_way else (each.figure.value, each.amount.unit or "share")
        yield each.place, Fact(each.meaning, value, unit, each.better, each.figure.source)
    main = main_level(machine).name
    for rule in rules_of_thumb(machine):
        place = _place(rule.group, "" if rule.row == main else rule.row, rule.dtype)
        name = replace(rule, row="main memory").name if rule.row == main else rule.name
        yield place, Fact(name, _show(rule.value, rule.unit))


def _alternates(machine: Machine, cited: Sequence[str]) -> Table:
    """A row for each figure that another source gives; sources that give the same share it."""
    said: dict[tuple[str, str, str, str], list[str]] = {}
    for item in machine.alternates:
        notes = ", ".join(filter(None, (item.figure.date, item.figure.remarks)))
        key = (item.of, _show(item.figure.value, figure_unit(item.of)), "rejected " if item.rejected else "", notes)
        said.setdefault(key, []).append(f"[{cited.index(item.figure.source) + 1}]" if item.figure.source else "")
    rows = [
        Row((of, value, rejected + ", ".join(filter(None, (*numbers, notes)))))
        for (of, value, rejected, notes), numbers in sorted(said.items(), key=lambda item: _order(machine, item[0][0]))
    ]
    columns = [Column(wrap="words", meaning=name) for name in ("figure", "value", "source")]
    return Table(columns, rows, "other sources", indent=4, headed=False)


def _verdicts(machine: Machine) -> Iterator[str]:
    """Say which figures other sources confirm, which they give otherwise, and which have no other source."""
    said, rounded = verdicts(machine), labels(machine)
    for verdict, words in (
        ("confirmed", "confirmed by another source or by the clock"),
        ("conflict", "other sources differ"),
        ("one source", "from one source alone"),
        ("no source", "without a source"),
    ):
        paths = [path for path, each in said.items() if each == verdict and path not in rounded]
        if paths:
            yield f"{words}: {', '.join(paths)}"
    if rounded:
        each = (f"{path} ({_show(value, figure_unit(path))})" for path, value in rounded.items())
        yield f"confirmed up to the rounding of a label, which other sources give: {', '.join(each)}"


def _order(machine: Machine, path: str) -> tuple[int, str]:
    """Where a figure stands by its path: as its unit or level does among those of the chip."""
    name = path.partition(".")[0]
    parts = [unit.name for unit in machine.units] + [memory.name for memory in machine.memories]
    parts += [link.name for link in machine.links]
    return (parts.index(name) if name in parts else len(parts), path)


def chip_data(machine: Machine) -> dict[str, Any]:
    """One chip as plain data in SI units, every figure with its source and basis."""
    links = [
        {**_plain_part(link, "name", "bandwidth", "links", "latency", "domain"), "topology": link.topology or None}
        for link in machine.links
    ]
    units = ("name", "kind", "clock", "tile", "peaks", "achievable", "per_clock")
    levels = ("name", "bandwidth", "capacity", "per_core", "achievable", "link")
    return {
        "key": machine.key,
        "name": machine.name,
        "vendor": machine.vendor or None,
        "cores": machine.cores,
        "units": [_plain_part(unit, *units) for unit in machine.units],
        "memories": [_plain_part(memory, *levels) for memory in machine.memories],
        "links": links,
        "slice": None if (sums := slice_sums(machine)) is None else {n.replace(" ", "_"): v for n, v, _ in sums},
        **_plain_part(machine, "tdp", "prices"),
        "rules": [{"name": r.name, "value": r.value, "unit": r.unit} for r in rules_of_thumb(machine)],
        "runs_in": run_wider(machine),
        "notes": list(machine.notes),
        "warnings": list(machine.warnings),
        "alternates": [
            {"of": item.of, "rejected": item.rejected, **_plain_figure(item.figure)} for item in machine.alternates
        ],
    }


class ListedFigure(NamedTuple):
    """A figure of a machine: of which part it is and what of it, what it means on any machine, and its place there."""

    place: Place
    part: str
    what: str
    meaning: str
    amount: Amount
    better: Literal["", "less", "more"]
    figure: Figure


def _figures(machine: Machine) -> Iterator[ListedFigure]:
    """Every figure of a machine."""
    for unit in machine.units:
        for dtype, peak in unit.peaks.items():
            amount = Amount(peak.value, "FLOP/s")
            place = _place(unit.kind, dtype=dtype)
            yield ListedFigure(place, unit.name, dtype, f"{unit.kind} {dtype}", amount, "more", peak)
        for dtype, share in unit.achievable.items():
            what, amount = f"{dtype} best matmul", Amount(share.value, "", format_percent(share.value))
            place = _place(unit.kind, dtype=dtype)
            yield ListedFigure(place, unit.name, what, f"{unit.kind} {what}", amount, "more", share)
    main = main_level(machine)
    for memory in machine.memories:
        name = "main memory" if memory is main else memory.name
        place = _place("main memory") if memory is main else _place("level", name)
        for what, figure, of in (("bandwidth", memory.bandwidth, "B/s"), ("capacity", memory.capacity, "B")):
            if figure:
                amount = Amount(figure.value, of)
                yield ListedFigure(place, memory.name, what, f"{name} {what}", amount, "more", figure)
    for name, link in zip(("link", "network", *(each.name for each in machine.links[2:])), machine.links, strict=False):
        if link.bandwidth:
            many, one = link.links or 1, link.bandwidth.value
            amount = Amount(many * one, "B/s", f"{many} x {_show(one, 'B/s')}" if link.links else "")
            yield ListedFigure(_place("link"), link.name, "one way", f"{name} one way", amount, "", link.bandwidth)
        if link.latency:
            amount = Amount(link.latency.value, "s")
            yield ListedFigure(_place("link"), link.name, "hop", f"{name} hop", amount, "less", link.latency)
    if machine.tdp:
        amount = Amount(machine.tdp.value, "W")
        yield ListedFigure(_place("power"), "power", "TDP", "power TDP", amount, "", machine.tdp)


def figure_tables(machine: Machine) -> dict[str, Table]:
    """The figures of a machine with basis, source and what other sources make of them; and those of other sources."""
    paths, said = {id(figure): path for path, figure in figures_by_path(machine).items()}, verdicts(machine)
    names = ("part", "figure", "value", "basis", "source", "date", "note", "verdict")
    of = ("figure", "value", "basis", "source", "date", "note", "rejected")

    def row(figure: Figure, first: Sequence[Cell], last: Cell) -> Row:
        return Row((*first, figure.basis, figure.source, figure.date, figure.remarks, last))

    rows = [
        row(each.figure, (each.part, each.what, each.amount), said.get(paths.get(id(each.figure), ""), ""))
        for each in _figures(machine)
    ]
    others = [
        row(item.figure, (item.of, Amount(item.figure.value, figure_unit(item.of))), YesNo(item.rejected))
        for item in machine.alternates
    ]
    return {
        "figures": Table([Column(name) for name in names], rows, "figures"),
        "other sources": Table([Column(name) for name in of], others, "other sources"),
    }


def _origin(figure: Figure, cited: Sequence[str]) -> str:
    """Its basis, the number of its source in the list below, its date and note: ``spec [2], 2025-08-18, rounded``."""
    number = f"[{cited.index(figure.source) + 1}]" if figure.source else ""
    return f"{figure.basis} {', '.join(filter(None, (number, figure.date, figure.remarks)))}".strip()


def _plain_figure(figure: Figure) -> dict[str, Any]:
    named = {"source": figure.source, "basis": figure.basis, "note": figure.remarks, "date": figure.date}
    return {"value": figure.value, **{name: text for name, text in named.items() if text}}


def _plain_part(part: Any, *names: str) -> dict[str, Any]:
    """Some fields of a part of a machine as plain data, figures with their source and basis."""

    def plain(value: Any) -> Any:
        if isinstance(value, Figure):
            return _plain_figure(value)
        if isinstance(value, Mapping):
            return {name: plain(each) for name, each in value.items()}
        return list(value) if isinstance(value, tuple) else value

    return {name: plain(getattr(part, name)) for name in names}


def _cores(machine: Machine) -> str:
    if not machine.cores:
        return ""
    return f"  {machine.cores} {'core' if machine.cores == 1 else 'cores'}"


def _show(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "USD/h":
        return f"${format_number(value)}/h"
    return format_quantity(value, unit) if unit not in ("tokens", "elements", "") else format_number(value)


class ChipList(Answer, list[Machine]):
    """Chips as a list that says a line for each, or stands them side by side where they were named one by one.

    ``beside`` says which. ``dtype`` is the format of the peaks shown, ``order`` the figure that they are ordered by;
    ``said`` are the chips that a filter could not judge.

    >>> large = chips("amd", sort="memory")[:2]
    >>> large, [machine.key for machine in large]
    (<ChipList: 2 chips: mi455x, mi350x>, ['mi455x', 'mi350x'])
    >>> large.to_pandas()["capacity"].tolist()
    [432000000000.0, 288000000000.0]
    """

    __slots__ = ("beside", "dtype", "order", "said")
    dtype: str
    order: str | None
    beside: bool
    said: tuple[str, ...]

    def __init__(
        self, machines: Iterable[Machine] = (), dtype: str = "bf16", order: str | None = None, *, beside: bool = False,
        said: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(machines)
        self.dtype, self.order, self.beside, self.said = dtype, order, beside, tuple(said)

    @overload
    def __getitem__(self, place: SupportsIndex, /) -> Machine: ...
    @overload
    def __getitem__(self, place: slice, /) -> ChipList: ...
    def __getitem__(self, place: SupportsIndex | slice, /) -> Machine | ChipList:
        found = super().__getitem__(place)
        return found if isinstance(found, Machine) else ChipList(found, self.dtype, self.order, beside=self.beside)

    def ratio(self, name: str, other: str, top: int | None = None) -> RatioList:
        """A figure over another one of each chip, the largest first: ``"bf16"`` over ``"price"``.

        A chip without one of them stands last; where none has both, that is an error. Chips that were named one by
        one keep their order. ``top`` keeps so many of the first.

        >>> chips("nvidia").ratio("bf16", "price").ratios["h200"]
        275487465181058.5
        >>> list(chips("nvidia").ratio("bf16", "power", top=2).ratios)
        ['b200', 'h100-pcie']
        """
        check_top(top, "chips")
        if top is not None and self.beside and len(self) == 1:
            raise InputError(f"{spelled('top')} says nothing of one chip", hint="leave it out")
        found: dict[str, float | None] = {}
        missing = None
        for machine in self:
            try:
                found[machine.key] = machine.ratio(name, other)
            except HardwareError as error:
                missing, found[machine.key] = missing or error, None
        known = [machine for machine in self if found[machine.key] is not None]
        if missing is not None and self[1:] and not known:
            raise missing.worded(f"none of the {len(self)} chips: ") from None
        if missing is not None and not known:
            raise missing
        unit = ratio_unit(known[0], name, other) if known else ""
        order = list(found) if self.beside else sorted(found, key=lambda key: -(found[key] or 0.0))
        ratios = {key: found[key] for key in order[:top]}
        units = tuple(named_figure_unit(known[0], each) for each in (name, other)) if known else ("", "")
        parts = {each.key: tuple(named_figure(each, one).value for one in (name, other)) for each in known}
        names = {machine.key: machine.name for machine in self}
        return RatioList(name, other, ratios, unit, parts, (units[0], units[-1]), names)

    def one_line(self) -> str:
        first = ", ".join(machine.key for machine in self[:6]) + (" …" if len(self) > 6 else "")
        return f"ChipList: {_many(self)}: {first}"

    def sections(self) -> Iterator[Section]:
        if not self.beside:
            return listing(self, self.dtype, self.order, self.said)
        return iter(detail(self[0]) if len(self) == 1 else comparison(self))

    def sections_in_full(self) -> Iterator[Section]:
        """Every figure of the line of each chip."""
        rows = []
        for machine in self:
            row = row_figures(machine, self.dtype, "price")
            used = rate(machine, Key("flops", "matrix", self.dtype))
            cells = ("" if row[name] is None else Amount(row[name], unit) for name, unit in _UNITS.items())
            rows.append(Row((machine.key, machine.name, machine.vendor, *cells, used.dtype if used else "")))
        columns = (*map(Column, ("chip", "name", "maker")), *figures(*_UNITS), Column("peak of", meaning="peak_of"))
        yield Table(columns, rows, "chips")

    def to_dict(self) -> dict[str, Any]:
        """Every figure of each chip with its source (schema ``roofline/chips/1``)."""
        return {"schema": "roofline/chips/1", "chips": [machine.to_dict() for machine in self]}

    def to_toml(self) -> str:
        """Its chips as a machine file, with what was set on them."""
        return machine_toml(*self)


@dataclass(frozen=True, slots=True, repr=False)
class RatioList(Answer):
    """One figure over another, by chip: None where a chip has not both.

    ``parts`` are the two figures of each chip that has both, in ``units``; ``names`` are the chips' full names.
    """

    figure: str
    over: str
    ratios: Mapping[str, float | None]
    unit: str = ""
    parts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    units: tuple[str, str] = ("", "")
    names: Mapping[str, str] = field(default_factory=dict)

    def one_line(self) -> str:
        first = next(iter(self.ratios), "")
        most = f": {first} {Amount(self.ratios[first], self.unit)}" if first else ""
        return f"RatioList: {self.figure} over {self.over} of {_many(self.ratios)}{most}"

    def sections(self) -> Iterator[Section]:
        rows = []
        for key, value in self.ratios.items():
            if value is not None:
                parts = map(Amount, self.parts.get(key, ()), self.units)
                rows.append(Row((key, self.names.get(key, ""), *parts, Amount(value, self.unit))))
        numbers = figures(self.figure, self.over, f"{self.figure} over {self.over}")
        yield Table((Column("chip"), Column("name", wrap="words", spare=1), *numbers), rows, "ratios", indent=0)
        left = [key for key in self.ratios if self.ratios[key] is None]
        few = len(left) <= 4
        notes = [f"{', '.join(left) if few else _many(left)} left out: without a figure of one of the two"] * bool(left)
        notes += ["prices of an hour on demand, as listed"] if "price" in (self.figure, self.over) else []
        if notes:
            yield from (BLANK, Sentences(("; ".join(notes) + ".",), indent=0))

    def to_dict(self) -> dict[str, Any]:
        """The ratios by chip (schema ``roofline/ratios/1``)."""
        body = {"figure": self.figure, "over": self.over, "unit": self.unit, "ratios": dict(self.ratios)}
        body["values"] = {key: list(each) for key, each in self.parts.items()}
        return {"schema": "roofline/ratios/1", **body}


def _many(found: Sized) -> str:
    return f"{len(found)} chip" + ("s" if len(found) != 1 else "")


class ListOrder(NamedTuple):
    """A figure that a list is ordered by: the words for it, and whether the least stands first."""

    words: tuple[str, ...]
    least_first: bool = False


#: What a list is ordered by, with the words that people use.
ORDERS = {
    "name": ListOrder(("alphabet", "chip"), least_first=True),
    "peak": ListOrder(("flops", "flop/s", "tflops", "compute", "speed")),
    "bandwidth": ListOrder(("bw", "memory bandwidth", "hbm bandwidth", "b/s")),
    "capacity": ListOrder(("memory", "mem", "hbm", "vram", "size", "gb")),
    "ridge": ListOrder(("intensity", "critical intensity")),
    "power": ListOrder(("tdp", "watts", "w")),
    "price": ListOrder(("cost", "dollars", "$"), least_first=True),
}

#: The figures of a line with their units; a list shows the last two where they order it.
_UNITS = {
    "peak": "FLOP/s", "bandwidth": "B/s", "capacity": "B", "ridge": "FLOP/B", "power": "W", "price": "USD/h",
}  # fmt: skip
_SHOWN_IN_ORDER = ("power", "price")
#: No chip has so few bytes, bytes a second or FLOP/s.
_LEAST_AMOUNT = 1e5


@takes()
def chips(
    names: str | Iterable[str | os.PathLike[str]] = (),
    *more: str,
    filter: str | None = None,
    sort: str | None = None,
    dtype: str | None = None,
    top: int | None = None,
    files: Sequence[str | os.PathLike[str]] = (),
) -> ChipList:
    """List chips: all, those of ``names``, those of makers or families (``"nvidia"``), those with ``filter`` in a name.

    ``filter`` may list a kind (``gpu``, ``tpu``, ``cpu``, ``accelerator``), a format and figures, also by the names
    that set them: ``"gpu, fp8, memory>=80GB, link>400GB/s"``. ``sort`` is a figure, the largest first: ``peak`` (of
    ``dtype``: bf16), ``bandwidth``, ``capacity``, ``ridge``, ``power``; or ``price`` or ``name``, the least first;
    ``-ridge`` is the other way round. ``top`` are so many of them. ``files`` overlay the catalog; a file among the
    names stands for its chips.

    >>> [machine.key for machine in chips(filter="tpu", sort="bandwidth")][:2]
    ['tpu8i', 'tpu7x']
    >>> chips("h100", "a100")
    <ChipList: 2 chips: h100, a100>
    """
    listed = [*([names] if isinstance(names, str) else names), *more]
    named = [str(name) for name in listed if not _is_file(name)]
    layers = [*files, *(name for name in listed if _is_file(name))]
    order = None if sort is None else order_meant(sort.strip().removeprefix("-"))
    makers = of_makers(named, layers)
    found = makers
    if not makers:
        found = [m for each in listed for m in (chips_in(each) if _is_file(each) else [chip(str(each), files=layers)])]
    if listed and not found:
        raise HardwareError(f"{quoted(listed)} hold no chip", hint="roofline chips --template shows what a file holds")
    found, said = filtered(found or all_chips(layers), filter)
    meant = dtypes.arithmetic_name("bf16" if dtype is None else dtype)
    check_top(top, "chips")
    beside = bool(listed) and not makers and filter is None
    if beside and len(found) == 1 and (idle := "sort" if sort is not None else "top" if top is not None else ""):
        raise InputError(f"{spelled(idle)} says nothing of one chip", hint="leave it out")
    if beside and dtype is not None and order != "peak":
        idle = f"{spelled('dtype')} is the peak that a list shows, and a chip that is named has all of its own"
        raise InputError(idle, hint="leave it out")
    turned = sort is not None and sort.strip().startswith("-")
    listed_first = (found if order is None else ordered(found, order, meant, turned=turned))[:top]
    return ChipList(listed_first, meant, order, beside=beside, said=said)


def _is_file(name: str | os.PathLike[str]) -> bool:
    return not isinstance(name, str) or name.endswith(".toml") or ("/" in name and "#" not in name)


def order_meant(text: str) -> str:
    """The order that a word means.

    >>> order_meant("Memory"), order_meant("flops")
    ('capacity', 'peak')
    >>> order_meant("speedd")
    Traceback (most recent call last):
    roofline.errors.InputError: no order 'speedd' of chips; did you mean 'speed'?
    """
    meant = {word: name for name, order in ORDERS.items() for word in (name, *order.words)}
    found = meant.get(text.strip().lower().replace("_", " ").replace("-", " "))
    if found is None:
        hint = near_words(text, meant) or suggest(text, ORDERS, what="orders")
        if dtypes.is_dtype(text):
            hint = f"the peak of a format is {spelled('sort', 'peak')} with {spelled('dtype', text)}"
        raise InputError(f"no order {text!r} of chips", hint=hint)
    return found


def of_makers(names: Sequence[str], files: Sequence[Any] = ()) -> list[Machine]:
    """The chips of makers, families or words of full names, where nothing else is named: ``nvidia``, ``jetson``."""
    wanted = {name.lower() for name in names}
    if not names or wanted & set(read_index().summaries):  # a chip is named: no other has to be built
        return []
    machines = all_chips(files)
    groups = {m.key: {m.vendor.lower(), m.family.lower(), *m.family.lower().split("-")} for m in machines}
    if wanted <= set().union(*groups.values()) - set(groups):
        return [m for m in machines if wanted & groups[m.key]]
    called = chips_called(names[0]) if len(names) == 1 and not is_chip(names[0], files) else ()
    return [m for m in machines if m.key in called]


#: How a figure is compared with a limit.
_COMPARED = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}

#: Kinds of chips, by the beginning of their families.
_KINDS = {
    "gpu": ("nvidia-", "amd-", "intel-gpu", "apple-"), "tpu": ("google-tpu",), "cpu": ("cpu",),
    "accelerator": ("aws-", "huawei-", "intel-gaudi", "cerebras", "groq"),
}  # fmt: skip


def filtered(machines: list[Machine], text: str | None) -> tuple[list[Machine], list[str]]:
    """Those of some chips that hold all that is listed: a kind, a text in a name, maker or family, a format, a figure.

    Beside them, how many chips were left out as they have no such figure.

    >>> [machine.key for machine in chips(filter="fp8, memory>=180GB, amd", sort="memory")][:2]
    ['mi455x', 'mi350x']
    """
    said: list[str] = []
    for part in () if text is None else text.split(","):
        machines, unknown = _holding(machines, part.strip())
        said += [unknown] if unknown else []
    return machines, said


def _holding(machines: list[Machine], text: str) -> tuple[list[Machine], str]:
    compared = re.fullmatch(r"([a-z/ ][\w./ ]*?)\s*(>=|<=|>|<)\s*(.+)", text, re.IGNORECASE)
    if compared is not None:
        compare = _COMPARED[compared[2]]
        name, limit, figures_of = _limited(machines, compared[1], compared[3])
        kept = [machine for machine, value in figures_of if value is not None and compare(value, limit)]
        if not kept:
            raise InputError(f"no chip has {text}", hint="another limit, or fewer conditions")
        unknown = [machine for machine, value in figures_of if value is None]
        are = agree(len(unknown), "are")
        return kept, f"{_many(unknown)} without a figure of {name} {are} left out by {text}" if unknown else ""
    if families := _KINDS.get(text.lower().removesuffix("s")):
        kept = [machine for machine in machines if machine.family.startswith(families)]
        if not kept:
            raise InputError(f"none of these chips is a {text}", hint=f"kinds are: {', '.join(_KINDS)}")
        return kept, ""
    if dtypes.is_dtype(text) and (known := [m for m in machines if any(text.lower() in u.peaks for u in m.units)]):
        return known, ""
    words = {m.key: " ".join((m.key, m.name, m.vendor, m.family, *m.aliases, *m.match)) for m in machines}
    kept = [m for m in machines if text.lower() in words[m.key].lower()]
    if not kept:
        makers = sorted({m.vendor for m in machines if m.vendor})
        hint = near_words(text, [*makers, *(m.key for m in machines)]) or f"makers are: {', '.join(makers)}"
        raise InputError(f"no chip holds {text!r}", hint=hint)
    return kept, ""


def _limited(
    machines: Sequence[Machine], name: str, limit: str
) -> tuple[str, float, list[tuple[Machine, float | None]]]:
    """The figure that a limit is of, by its column or by the name that sets it, the limit, and each chip's value."""
    meant = None
    with suppress(InputError):
        meant = order_meant(name)
    if meant is None or (meant == "capacity" and kind_of(limit) == "B/s"):  # hbm, of a bandwidth
        own = {machine: figure.value for machine in machines if (figure := _own_figure(machine, name)) is not None}
        if own:
            unit = named_figure_unit(next(iter(own)), name)
            return name, _limit(limit, unit), [(machine, own.get(machine)) for machine in machines]
        meant = order_meant(name)
    if meant not in _UNITS:
        raise InputError(f"{name!r} is no figure", hint=suggest(name, _UNITS, what="figures"))
    found = [(machine, row_figures(machine, "bf16", meant)[meant]) for machine in machines]
    return meant, _limit(limit, _UNITS[meant]), found


def _limit(text: str, unit: str) -> float:
    """A limit in a unit; 80 of bytes is one whose unit is missing."""
    limit = parse(text, unit)
    if unit in ("B", "B/s", "FLOP/s") and limit < _LEAST_AMOUNT:
        hint = f"as in {format_quantity(limit * (1e9 if unit == 'B' else 1e12), unit)}"
        raise InputError(f"{text} has no unit, and is {format_quantity(limit, unit)}", hint=hint)
    return limit


def _own_figure(machine: Machine, name: str) -> Figure | None:
    with suppress(InputError):
        return named_figure(machine, name)
    return None


def ordered(machines: Iterable[Machine], order: str, dtype: str, *, turned: bool = False) -> list[Machine]:
    """Chips by a figure, or ``turned`` the other way round; those without it stand last."""
    if order == "name":
        return sorted(machines, key=lambda machine: machine.name.lower(), reverse=turned)
    sign = 1 if ORDERS[order].least_first != turned else -1

    def place(machine: Machine) -> tuple[bool, float]:
        figure = row_figures(machine, dtype, order)[order]
        return figure is None, sign * (figure or 0.0)

    return sorted(machines, key=place)


def row_figures(machine: Machine, dtype: str, order: str | None = None) -> dict[str, float | None]:
    """The figures of a line: peak for matmuls in ``dtype``, main memory, ridge, watts; dollars where they order it."""
    main = main_level(machine)
    peak = rate(machine, Key("flops", "matrix", dtype))
    found = {
        "peak": peak.value if peak else None,
        "bandwidth": main.bandwidth.value if main.bandwidth else None,
        "capacity": main.capacity.value if main.capacity else None,
        "ridge": ridge(machine, dtype),
        "power": machine.tdp.value if machine.tdp else None,
    }
    if order == "price":
        listed = machine.prices.get(LISTED_PRICE)
        found["price"] = None if listed is None else listed.value
    return found


def listing(
    machines: Sequence[Machine], dtype: str, order: str | None = None, said: Sequence[str] = ()
) -> Iterator[Section]:
    """A line for each chip, with the figure that they are ordered by; one without a source is left blank.

    ``said`` are the chips that a filter could not judge.
    """
    more = [order] if order in _SHOWN_IN_ORDER else []
    names = (f"{dtype} peak", "bandwidth", "capacity", f"{dtype} ridge", *more)
    rows = []
    for machine in machines:
        row = row_figures(machine, dtype, order)
        used = rate(machine, Key("flops", "matrix", dtype))
        texts = {name: _show(row[name], _UNITS[name]) for name in row}
        texts["peak"] += f" {used.dtype}" if used is not None and used.dtype != dtype else ""
        shown = ("peak", "bandwidth", "capacity", "ridge", *more)
        cells = ["" if row[name] is None else Amount(row[name], _UNITS[name], texts[name]) for name in shown]
        rows.append(Row((machine.key, machine.name, *cells)))
    named = (Column("chip", wrap="anywhere"), Column("name", wrap="anywhere"))
    figured = figures(*names, wrap="words")
    yield Table((*named, *figured[:3], figured[3]._replace(spare=1), *figured[4:]), rows, "chips", indent=0)
    yield BLANK
    known = ", ".join(listed_prices())
    priced = f"; prices of an hour on demand; listed are those of {known}" if "price" in more else ""
    note = (
        f"{_many(machines)}; dense peaks, one-way bandwidths; blank: no source; another dtype: what it runs as{priced}"
        f"; a chip that is not here: {either('`roofline chips --template`', 'roofline.chip({…})')}."
    )
    yield Sentences((*said, note), indent=0)
