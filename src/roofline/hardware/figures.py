"""Read a machine's figure by the name that sets it: ``hbm``, ``hbm.capacity``, ``bf16``, ``vpu.fp32``, ``link.duplex``.

>>> from roofline.hardware import chip
>>> v5p = chip("v5p")
>>> [named_figure(v5p, name).value for name in ("hbm", "hbm.capacity", "bf16", "link", "link.duplex")]
[2765000000000.0, 102005473280.0, 459000000000000.0, 90000000000.0, 180000000000.0]

``ratio`` divides one figure by another, of the same machine or of two:

>>> round(ratio(v5p, "hbm", "link"), 1), ratio(v5p, "bf16", "vpu.fp32"), ratio(v5p, "bf16", "bf16", chip("v5e"))
(30.7, 32.78..., 2.32...)
>>> named_figure(v5p, "hmb")
Traceback (most recent call last):
roofline.errors.HardwareError: TPU v5p has no figure 'hmb'; did you mean 'hbm'?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from roofline import dtypes
from roofline.errors import HardwareError, InputError, quoted, suggest
from roofline.hardware.machine import (
    MAIN_WORDS,
    TDP_WORDS,
    Figure,
    Link,
    Machine,
    Memory,
    Unit,
    figure_unit,
    figures_by_path,
)
from roofline.hardware.network import network
from roofline.hardware.rate import find_level, find_link
from roofline.quantity import figure, format_amount, given_amount
from roofline.signatures import setting, spelled
from roofline.sizes import LARGEST, is_array, is_symbol


def named_figure(machine: Machine, name: str) -> Figure:
    """Find the figure that ``name`` sets, or its listed ``price``; an error where the machine has none."""
    head, _, part = name.strip().partition(".")
    head = head if dtypes.is_dtype(head) else head.lower()
    if (head, part) == ("price", ""):
        if LISTED_PRICE not in machine.prices:
            hint = f"listed are those of {', '.join(listed_prices())}"
            raise HardwareError(f"no price of {machine.key} is listed", hint=hint)
        return machine.prices[LISTED_PRICE]
    figure = next((each for finder in _FINDERS if (each := finder(machine, head, part)) is not None), None)
    if figure is None:
        known = [*readable(machine), *["price"] * (LISTED_PRICE in machine.prices), *["power"] * bool(machine.tdp)]
        hint = suggest(name, known, what="its figures", limit=40)
        if head in TDP_WORDS and not part:
            hint = f"none is listed; give one with {setting('power', '400')}"
        raise HardwareError(f"{machine.name} has no figure {name!r}", hint=hint)
    return figure


#: The kind of price that is meant where none is named: of one chip for an hour, published on a date, no quote.
LISTED_PRICE = "on_demand"

#: The word for the price that the catalog lists.
TABLE = "table"


def listed_prices() -> dict[str, Figure]:
    """The chips that have a listed price, with it.

    >>> listed_prices()["h100"].value, listed_prices()["h100"].date
    (2.69, '2026')
    """
    from roofline.hardware.catalog import all_chips

    return {chip.key: chip.prices[LISTED_PRICE] for chip in all_chips() if LISTED_PRICE in chip.prices}


def hourly_price(machine: Machine, price: Any) -> Any:
    """Dollars of one chip for an hour, as given, or ``"table"``: as the catalog lists it, None where it does not.

    >>> from roofline.hardware import chip
    >>> hourly_price(chip("h100"), "table"), hourly_price(chip("h100"), "$3/h"), hourly_price(chip("h100"), None)
    (2.69, 3.0, None)
    >>> hourly_price(chip("l40s"), "table")
    """
    if isinstance(price, str) and price == TABLE:
        listed = machine.prices.get(LISTED_PRICE)
        return None if listed is None else float(listed.value)
    dollars = figure(price, "USD/h")
    is_one = isinstance(dollars, int | float)
    known = 0 <= dollars <= LARGEST if is_one else dollars is None or is_array(dollars) or is_symbol(dollars)
    if not known:
        said = dollars if is_one else quoted(dollars)
        raise InputError(f"price is {said}", hint="dollars for a chip-hour, as in 2.5")
    return float(dollars) if isinstance(dollars, int) else dollars


def is_tdp(power: Any) -> bool:
    """Whether a power is said to be that of the data sheet."""
    return isinstance(power, str) and power.lower() == "tdp"


def chip_power(machine: Machine, power: Any = None) -> float | None:
    """Watts of one chip, as given, or by the catalog: its TDP, an upper bound; None where none is known.

    >>> from roofline.hardware import chip
    >>> chip_power(chip("h100")), chip_power(chip("h100"), "tdp"), chip_power(chip("h100"), "0.5 kW")
    (700.0, 700.0, 500.0)
    """
    if power is not None and not is_tdp(power):
        given: float | None = (
            given_amount("power", power, "W", zero=True) if isinstance(power, str) else figure(power, "W")
        )
        return given
    return None if machine.tdp is None else machine.tdp.value / machine.pooled


def price_source(machine: Machine, price: float | None, asked: Any = None) -> list[str]:
    """Where a price is from, where it is that of the catalog; or that it has none, where the listed one was ``asked``.

    >>> from roofline.hardware import chip
    >>> price_source(chip("l40s"), None, "table")
    ["no price of l40s is listed: price='l40s=…' gives yours"]
    """
    listed = machine.prices.get(LISTED_PRICE)
    if listed is None and price is None and asked == TABLE:
        return [f"no price of {machine.key} is listed: {spelled('price', price_words([machine]))} gives yours"]
    if listed is None or price != listed.value:
        return []
    return [f"price of {machine.key}: {listed.note}, {listed.date} ({listed.source})"]


def price_words(machines: Sequence[Machine], names: Sequence[str] = ()) -> str:
    """What gives a price to each of some machines: the table, and a place for a price of those that it does not list.

    >>> from roofline.hardware import chip
    >>> price_words([chip("h100"), chip("l40s")]), price_words([chip("h100")]), price_words([chip("l40s")])
    ('table,l40s=…', 'table', 'l40s=…')
    """
    lacking = [name for name, each in zip(names or [each.key for each in machines], machines, strict=True)
               if LISTED_PRICE not in each.prices]  # fmt: skip
    return ",".join([TABLE] * (len(lacking) < len(machines)) + [f"{name}=…" for name in lacking])


def ratio(machine: Machine, name: str, other: str, of: Machine | None = None) -> float:
    """Divide a figure by another one, of the same machine or ``of`` another."""
    return named_figure(machine, name).value / named_figure(of or machine, other).value


def named_figure_unit(machine: Machine, name: str) -> str:
    """The unit of a figure by the name that sets it.

    >>> from roofline.hardware import chip
    >>> [named_figure_unit(chip("h100"), name) for name in ("bf16", "hbm", "hbm.capacity", "price", "power")]
    ['FLOP/s', 'B/s', 'B', 'USD/h', 'W']
    """
    head, _, part = name.strip().lower().partition(".")
    if head == "price" or head in TDP_WORDS:
        return "USD/h" if head == "price" else "W"
    is_level = head in MAIN_WORDS or find_level(machine, head) is not None or find_link(machine, head) is not None
    part = part or MAIN_WORDS.get(head, "bandwidth") if is_level else part
    return figure_unit("bandwidth" if is_level and part in ("duplex", "unit", "node") else part)


def ratio_unit(machine: Machine, name: str, other: str) -> str:
    """The unit of a figure over another one; nothing where both have the same.

    >>> from roofline.hardware import chip
    >>> [ratio_unit(chip("h100"), "bf16", other) for other in ("hbm", "fp8", "price", "tdp")]
    ['FLOP/B', '', 'FLOP/s per $/h', 'FLOP/s per W']
    """
    over, under = named_figure_unit(machine, name), named_figure_unit(machine, other)
    if over == under:
        return ""
    if over.endswith("/s") and under.endswith("/s"):
        return f"{over[:-2]}/{under[:-2]}"
    return f"{over} per {under.replace('USD', '$')}"


def chips_together(machine: Machine, link: Link, part: str) -> int:
    """Count the chips whose links carry ``part`` together: ``unit`` all below one port of a tier, ``node`` a node's."""
    tiers = network(machine).tiers
    if part == "node":
        return (tiers[0].chips or 1) if tiers else 1
    return next((tier.below for tier in tiers if tier.link.name == link.name), 1)


def readable(machine: Machine) -> list[str]:
    """List the names of the figures that a machine has.

    >>> from roofline.hardware import chip
    >>> readable(chip("v5e"))[:5]
    ['hbm', 'hbm.capacity', 'vmem', 'vmem.capacity', 'pcie']
    """
    parts = {"bandwidth": "", "capacity": ".capacity", "latency": ".latency", "clock": ".clock"}
    levels: list[Memory | Link | Unit] = [*machine.memories, *machine.links, *machine.units]
    found = [level.name + end for level in levels for part, end in parts.items() if getattr(level, part, None)]
    return [*found, *(f"{unit.name}.{dtype}" for unit in machine.units for dtype in unit.peaks)]


def told_apart(machines: Sequence[Any]) -> list[str]:
    """Name each machine as it is typed; of those of one name say what a caller set on each.

    >>> from roofline.hardware import chip
    >>> told_apart(["h100", chip("h100", hbm="4 TB/s"), chip("h100:8"), chip("h100", unit="vector")])
    ['h100', 'h100 hbm 4 TB/s', 'h100:8', 'h100 on vector']
    """
    said = [str(getattr(each, "target", each)) for each in machines]
    many = Counter(said)
    return [name + _set_on(each) if many[name] > 1 else name for name, each in zip(said, machines, strict=True)]


def _set_on(machine: Any) -> str:
    """What a caller set on a machine."""
    if not isinstance(machine, Machine):
        return ""
    figures = []
    for path in (path for path in machine.given if ".achievable" not in path):
        unit = named_figure_unit(machine, path)
        name = path.rpartition(".")[2] if unit == "FLOP/s" else path.removesuffix(".bandwidth")
        figures.append(f"{name} {format_amount(named_figure(machine, path).value, unit)}")
    choices = [f"on {machine.unit}"] * bool(machine.unit) + [f"from {machine.over}"] * bool(machine.over)
    return "".join(f" {each}" for each in [*figures, *choices, *["achievable"] * machine.use_achievable])


def _of_level(machine: Machine, head: str, part: str) -> Figure | None:
    level = find_level(machine, "main") if head in MAIN_WORDS else find_level(machine, head)
    part = part or MAIN_WORDS.get(head, "bandwidth")
    return _part(level, part, ("bandwidth", "capacity", "per_core", "achievable"))


def _of_link(machine: Machine, head: str, part: str) -> Figure | None:
    link = find_link(machine, head)
    if link is None or part not in ("duplex", "unit", "node"):
        return _part(link, part or "bandwidth", ("bandwidth", "latency", "achievable"))
    if link.bandwidth is None:
        return None
    times = 2 if part == "duplex" else chips_together(machine, link, part) * (link.links or 1)
    return link.bandwidth._replace(value=link.bandwidth.value * times)


def _of_unit(machine: Machine, head: str, part: str) -> Figure | None:
    """One peak of a unit, or its clock; a dtype alone is that of the unit which does matrix products."""
    if not part and dtypes.is_dtype(head.partition("_acc")[0]):
        return next((unit.peaks[head] for unit in machine.matrix_first if head in unit.peaks), None)
    named = (each for each in machine.units if head in (each.name, each.kind))
    unit = next(iter(machine.matrix_first) if head == "peak" else named, None)
    return None if unit is None else unit.clock if part == "clock" else unit.peaks.get(part)


def _part(level: Memory | Link | None, part: str, parts: tuple[str, ...]) -> Figure | None:
    found: Figure | None = getattr(level, part) if level is not None and part in parts else None
    return found


_FINDERS: tuple[Callable[[Machine, str, str], Figure | None], ...] = (
    _of_level, _of_link, _of_unit, lambda machine, head, part: machine.tdp if head in TDP_WORDS and not part else None,
)  # fmt: skip


def said_by(machine: Machine, path: str, source: str) -> Figure | None:
    """Find what a source says of a figure by its path (``hbm.bandwidth``); None where the catalog has none of it.

    ``source`` is a part of the source's name, the figure's own included; a figure that is marked as wrong comes last.
    ``spec`` is any source that gives another figure.

    >>> from roofline.hardware import chip
    >>> said_by(chip("v6e"), "hbm.bandwidth", "scaling-book").value
    1600000000000.0
    >>> [said_by(chip("v5e"), "ici.bandwidth", source).value for source in ("scaling-book", "google", "spec")]
    [45000000000.0, 50000000000.0, 50000000000.0]
    """
    said = sorted((each for each in machine.alternates if each.of == path), key=lambda each: each.rejected)
    head, _, part = path.partition(".")
    own = next((found for finder in _FINDERS if (found := finder(machine, head, part)) is not None), None)
    if source == "spec":
        others = (each.figure for each in said if not each.rejected)
        return next((figure for figure in others if own is None or figure.value != own.value), None)
    figures = [*([] if own is None else [own]), *(each.figure for each in said)]
    return next((figure for figure in figures if source.lower() in figure.source.lower()), None)


#: How far a source's figure may lie from one that it confirms, by part: a capacity is a label or a driver's bytes.
_AGREES = {"capacity": 0.08, "": 0.01}

#: Units of figures that sources are held against each other for.
_TOLD = ("FLOP/s", "B/s", "B")

#: What may be said of a figure; a conflict is one whose other sources all give something else.
VERDICTS = ("confirmed", "conflict", "derived", "one source", "no source")


def verdicts(machine: Machine) -> dict[str, str]:
    """Say of each peak, bandwidth and capacity what its other sources make of it: one of ``VERDICTS``, by its path.

    A source that is marked as wrong says nothing, nor does a measurement. Cores · FLOPs per clock · clock confirm a
    peak that another source prints.

    >>> from roofline.hardware import chip
    >>> said = verdicts(chip("b200"))
    >>> [said[path] for path in ("tensor.bf16", "hbm.capacity", "tensor.fp64", "nic.bandwidth")]
    ['confirmed', 'confirmed', 'conflict', 'one source']
    """
    return {path: _verdict(machine, path, figure) for path, figure in _taken(machine).items()}


def labels(machine: Machine) -> dict[str, float]:
    """The capacities, by their paths, that other sources confirm up to the rounding of a label, and what these say.

    >>> from roofline.hardware import chip
    >>> labels(chip("h100")), labels(chip("l4"))
    ({'hbm.capacity': 80000000000.0}, {})
    """
    found = {}
    for path, taken in _taken(machine).items():
        values = [each.value for each in _credible(machine, path, taken.source)]
        nearest = min(values, key=lambda value: abs(value / taken.value - 1), default=taken.value)
        is_rounded = _AGREES[""] < abs(nearest / taken.value - 1) <= _near(path)
        if is_rounded and _verdict(machine, path, taken) == "confirmed":
            found[path] = nearest
    return found


def said_elsewhere(machine: Machine, taken: Figure) -> tuple[float, ...]:
    """The values that other credible sources give for a peak, a bandwidth or a capacity of a machine, highest first.

    None for one that was given by hand. What differs by rounding alone is left out, as are measurements.

    >>> from roofline.hardware import chip
    >>> said_elsewhere(chip("gaudi3"), chip("gaudi3").units[0].peaks["bf16"])
    (1677000000000000.0,)
    """
    known = _taken(machine)
    path = next((path for path, figure in known.items() if figure is taken), None)
    path = path or next((path for path, figure in known.items() if figure == taken), None)
    if path is None or path in machine.given:
        return ()
    values = {figure.value for figure in _credible(machine, path)}
    return tuple(sorted((value for value in values if abs(value / taken.value - 1) > _AGREES[""]), reverse=True))


def _taken(machine: Machine) -> dict[str, Figure]:
    """The peaks, bandwidths and capacities of a machine by their paths."""
    told = {path: figure for path, figure in figures_by_path(machine).items() if figure_unit(path) in _TOLD}
    return {path: figure for path, figure in told.items() if not path.endswith(".per_core")}


def _near(path: str) -> float:
    return _AGREES.get(path.rpartition(".")[2], _AGREES[""])


def _credible(machine: Machine, path: str, but: str | None = None) -> list[Figure]:
    """What sources, ``but`` one, say of a figure, measurements and what is marked as wrong left out."""
    others = [each.figure for each in machine.alternates if each.of == path and not each.rejected]
    return [figure for figure in others if figure.basis != "measured" and figure.source != but]


def _verdict(machine: Machine, path: str, taken: Figure) -> str:
    said = _credible(machine, path, taken.source)
    if _clock_makes(machine, path) or any(abs(figure.value / taken.value - 1) <= _near(path) for figure in said):
        return "confirmed"
    if said:
        return "conflict"
    return "derived" if taken.basis == "derived" else "one source" if taken.source else "no source"


def _clock_makes(machine: Machine, path: str) -> bool:
    """Whether cores · FLOPs per clock · clock make a peak that another source than theirs prints."""
    name, _, dtype = path.partition(".")
    unit = next((each for each in machine.units if each.name == name), None)
    if unit is None or unit.clock is None or machine.cores is None or dtype not in unit.per_clock:
        return False
    peak, flops = unit.peaks[dtype], unit.per_clock[dtype]
    printed = peak.basis != "derived" and peak.source != flops.source
    return printed and abs(machine.cores * flops.value * unit.clock.value / peak.value - 1) <= _AGREES[""]
