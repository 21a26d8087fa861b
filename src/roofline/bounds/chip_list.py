"""The list of chips: which are meant by a name, a maker or a text, in which order, and a line for each.

>>> [machine.key for machine in chips("nvidia", sort="memory")][:2]
['grace', 'gb300']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from roofline import dtypes
from roofline.answers import capability
from roofline.errors import InputError, did_you_mean, suggest
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.hardware.rate import main_level, rate, ridge
from roofline.hardware.targets import chips as all_chips
from roofline.quantity import format_number, format_quantity
from roofline.sections import BLANK, Column, Row, Section, Sentences, Table, figures
from roofline.work import Key


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

_UNITS = {"power": "W", "price": "USD/h"}


def chips(
    names: str | Iterable[Any] = (),
    *,
    filter: str | None = None,
    sort: str | None = None,
    dtype: str = "bf16",
    files: Sequence[Any] = (),
) -> list[Machine]:
    """List chips: all, those of ``names``, those of makers or families (``"nvidia"``), those with ``filter`` in a name.

    ``sort`` is a figure, the largest first: ``peak`` (of ``dtype``), ``bandwidth``, ``capacity``, ``ridge``, ``power``;
    or ``price`` or ``name``, the least first. ``files`` overlay the catalog; files that stand in place of names do too.

    >>> [machine.key for machine in chips(filter="tpu", sort="bandwidth")][:2]
    ['tpu8i', 'tpu7x']
    """
    listed = [names] if isinstance(names, str) else list(names)
    is_file = [not isinstance(name, str) or name.endswith(".toml") or "/" in name for name in listed]
    layers = [*files, *(name for name, file in zip(listed, is_file, strict=True) if file)]
    named = [name for name, file in zip(listed, is_file, strict=True) if not file]
    order = None if sort is None else order_meant(sort)
    found = of_makers(named, layers)
    if named and not found:
        found = [chip(name, files=layers) for name in named]
    found = filtered(found or all_chips(layers), filter)
    return found if order is None else ordered(found, order, dtypes.arithmetic_name(dtype))


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
        near = did_you_mean(text, meant)
        hint = f"did you mean {near!r}?" if near else suggest(text, ORDERS, what="orders")
        raise InputError(f"no order {text!r} of chips", hint=hint)
    return found


def of_makers(names: Sequence[str], files: Sequence[Any] = ()) -> list[Machine]:
    """The chips of makers or families, where nothing else is named: ``nvidia``, ``tpu``."""
    if not names:
        return []
    machines = all_chips(files)
    wanted = {name.lower() for name in names}
    groups = {m.key: {m.vendor.lower(), m.family.lower(), *m.family.lower().split("-")} for m in machines}
    if not wanted <= set().union(*groups.values()) - set(groups):
        return []
    return [m for m in machines if wanted & groups[m.key]]


def filtered(machines: list[Machine], text: str | None) -> list[Machine]:
    """Those of some chips with a text in a name, maker or family."""
    if text is None:
        return machines
    words = {m.key: " ".join((m.key, m.name, m.vendor, m.family, *m.aliases, *m.match)) for m in machines}
    kept = [m for m in machines if text.lower() in words[m.key].lower()]
    if not kept:
        makers = sorted({m.vendor for m in machines if m.vendor})
        near = did_you_mean(text, [*makers, *(m.key for m in machines)])
        hint = f"did you mean {near!r}?" if near else f"makers are: {', '.join(makers)}"
        raise InputError(f"no chip holds {text!r}", hint=hint)
    return kept


def ordered(machines: Iterable[Machine], order: str, dtype: str) -> list[Machine]:
    """Chips by a figure; those without it stand last."""
    if order == "name":
        return sorted(machines, key=lambda machine: machine.name.lower())
    sign = 1 if ORDERS[order].least_first else -1

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
        listed = capability("listed_prices")().get(machine.key)
        found["price"] = None if listed is None else float(listed["value"])
    return found


def listing(machines: Sequence[Machine], dtype: str, order: str | None = None) -> Iterator[Section]:
    """A line for each chip, with the figure that they are ordered by; one without a source is left blank."""
    more = [order] if order in _UNITS else []
    names = (f"{dtype} peak", "bandwidth", "capacity", f"{dtype} ridge", *more)
    rows = []
    for machine in machines:
        row = row_figures(machine, dtype, order)
        used = rate(machine, Key("flops", "matrix", dtype))
        stand_in = f" {used.dtype}" if used is not None and used.dtype != dtype else ""
        cells = [_show(row["peak"], "FLOP/s") + stand_in, _show(row["bandwidth"], "B/s")]
        cells += [_show(row["capacity"], "B"), _show(row["ridge"], "FLOP/B")]
        cells += [_dollars(row[each]) if each == "price" else _show(row[each], _UNITS[each]) for each in more]
        rows.append(Row((machine.key, machine.name, *cells)))
    named = (Column("chip", wrap="anywhere"), Column("name", wrap="anywhere"))
    yield Table((*named, *figures(*names, wrap="anywhere")), rows, indent=0)
    yield BLANK
    many = f"{len(machines)} chip" + ("s" if len(machines) != 1 else "")
    priced = ""
    if "price" in more:
        known = ", ".join(capability("listed_prices")())
        priced = f"; prices of an hour on demand; listed are those of {known}"
    note = f"{many}; dense peaks, one-way bandwidths; blank: no source; another dtype: what it runs as{priced}."
    yield Sentences((note,), indent=0)


def _dollars(value: float | None) -> str:
    return "" if value is None else f"${format_number(value)}/h"


def _show(value: float | None, unit: str) -> str:
    return "" if value is None else format_quantity(value, unit)
