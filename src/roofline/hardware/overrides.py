"""Figures the caller sets in place of the catalog's: ``hbm="8.1e11 B/s"``, ``bf16=1e15``, ``mxu.bf16=…``.

=============================  ========================================================================
``hbm`` ``vmem`` ``pcie``      bandwidth of that level, made if absent; ``hbm.capacity`` its capacity
``bandwidth`` ``capacity``     bandwidth and capacity of the main level; ``memory``: as the value's unit says
``bf16`` ``fp8`` …             peak on the unit that lists it, else on the main unit, which gains it
``peak`` ``peak.bf16``         every dtype of the main unit; one dtype of it
``mxu.bf16`` ``vector.fp32``   one dtype of a unit, by its name or kind; ``mxu.clock`` its clock
``link`` ``nvlink``            bandwidth of a link, or ``spec`` for the data sheet's
``hop`` ``nvlink.latency``     latency of a hop, of the link within a node or of one by its name
``link.duplex`` ``ib.unit``    what a link carries both ways together; what all chips of one unit have
``spine.node``                 what all chips of one node have
``h100.hbm``                   the same, with a name of the machine before it
``tdp`` ``power``              power
=============================  ========================================================================

A value is a number with or without its unit; ``"+20%"``, ``"-10%"``, ``"+100 GB/s"`` or ``"1.2x"``, so much more or
less than it is, or so many times it; ``"22x hbm"``, so many times another figure; ``"1979 TFLOP/s sparse"``, a peak for
2:4 sparse matrices, of which dense ones reach half; or a part of a source's name, ``"scaling-book"``: what that source
says.

>>> from roofline.hardware import chip
>>> fast = override(chip("v5e"), {"hbm": "8.2e11", "peak": {"int8": "394 TOPS"}, "vmem.bandwidth": 2e13})
>>> fast.given
('hbm.bandwidth', 'mxu.int8', 'vmem.bandwidth')
>>> print(override(chip("h100"), {"bf16": "1979 TFLOPS"}).warnings[-1])
given tensor.bf16 is exactly twice the catalog's figure: a sparse (or duplex) figure?
>>> override(chip("v5p"), {"link.duplex": 1.8e11}).links[0].bandwidth.value
90000000000.0
>>> [override(chip("v5e"), {"vmem": text}).figure("vmem").value for text in ("22x hbm", "18.04 TB/s")]
[18018000000000.0, 18040000000000.0]
>>> [override(chip("v5e"), {"hbm": text}).figure("hbm").value for text in ("+20%", "-10%", "1.2x", "-19 GB/s")]
[982800000000.0, 737100000000.0, 982800000000.0, 800000000000.0]
>>> override(chip("h100"), {"bf16": "1979 TFLOP/s sparse"}).figure("bf16").value
989500000000000.0
>>> override(chip("v6e"), {"hbm": "scaling-book"}).figure("hbm").value
1600000000000.0
>>> override(chip("dgx-h100"), {"ib.unit": "320 GB/s"}).links[1].bandwidth.value
40000000000.0
>>> override(chip("h100"), {"hmb": 1e12})
Traceback (most recent call last):
roofline.errors.HardwareError: NVIDIA H100 SXM5 80GB has no figure 'hmb'; did you mean 'hbm'?
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from roofline import dtypes, quantity
from roofline.errors import HardwareError, QuantityError, check_one_of, suggest
from roofline.frozen import Frozen, replace
from roofline.hardware.catalog import has_name, is_chip
from roofline.hardware.machine import (
    COUNTS,
    LEVEL_NAMES,
    LINK_LEVELS,
    MAIN_WORDS,
    NETWORK_LINKS,
    SCALE_UP_LINKS,
    SEVERAL_OF_ONE,
    TDP_WORDS,
    UNIT_KINDS,
    Figure,
    Link,
    Machine,
    Memory,
    Unit,
    figure_unit,
    figures_by_path,
    near_twice,
)
from roofline.hardware.network import domain_of
from roofline.hardware.rate import WARM, find_level, find_link
from roofline.hardware.schema import amount, capacity_of, peak_at, peak_at_other_clock
from roofline.quantity import in_a_row
from roofline.signatures import takes
from roofline.sizes import is_array, is_number, product
from roofline.statements import Assumption

_OUTERMOST = ("hbm", "dram")

_LEVEL_PARTS = {"bandwidth": "B/s", "capacity": "B", "per_core": "B", "achievable": ""}

_LINK_PARTS = {"bandwidth": "B/s", "latency": "s", "achievable": "", "duplex": "B/s", "unit": "B/s", "node": "B/s"}

#: What the time of a hop of a link is called.
_HOP_WORDS = ("latency", "hop")

#: The source of a plain number that a caller set.
GIVEN = "given by the caller"

#: So many times another figure, as in ``22x hbm``, or the figure itself: ``1.2x``.
_TIMES = r"(?i:(?P<times>[0-9.]+(e[+-]?[0-9]+)?)\s*[x×]\s*(?P<of>[A-Za-z][\w.]*)?)"

#: So much more or less than the figure itself, ``+20%``, or a part of it: ``90%``.
_PERCENT = r"(?P<sign>[+-]?)(?P<number>[0-9.]+)\s*%"


@takes()
def override(machine: Machine, overrides: Mapping[str, Any]) -> Machine:
    """Return the machine with the figures of ``overrides``, each listed in ``given``.

    A figure twice the catalog's is kept, with a note: it is likely a sparse peak or a duplex bandwidth. So is
    one below a thousandth of it, which likely lacks its unit.
    """
    for key, value in _flat(overrides):
        if (is_array(value) and value.size > 1) or isinstance(value, list | range):
            hint = "formula(…) at many rates is a table, by their letters: found(B=64, W_hbm=[1e12, 2e12])"
            raise HardwareError(f"{key} has several values, and a machine has one", hint=hint)
        machine = _set(machine, key, value)
    return machine


def _flat(overrides: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Join the keys of nested dictionaries with dots; figures may stand under ``set``, as where a question has them."""
    for key, value in overrides.items():
        name = f"{prefix}.{key}" if prefix else "" if key == "set" and isinstance(value, Mapping) else str(key)
        if isinstance(value, Mapping):
            yield from _flat(value, name)
        else:
            yield name, value


def _set(machine: Machine, key: str, value: Any) -> Machine:
    head, _, part = key.strip().partition(".")
    head = head.strip()
    if not dtypes.is_dtype(head):
        head = head.lower()
    for finder in _FINDERS:
        changed = finder(machine, head, part.strip(), key, value)
        if changed is not None:
            return changed
    if part and has_name(machine, head):  # h100.hbm of an H100
        return _set(machine, part, value)
    raise _unknown(machine, key)


def _set_main(machine: Machine, head: str, part: str, key: str, value: Any) -> Machine | None:
    if head not in MAIN_WORDS:
        return None
    main = find_level(machine, "main")
    part = part or (_meant_by_memory(main, value) if head == "memory" and main else MAIN_WORDS[head])
    return _set_level(machine, main.name if main else "hbm", part, key, value)


def _meant_by_memory(main: Memory, value: Any) -> str:
    """Bytes are a capacity, bytes a second a bandwidth; a number like the capacity could be either."""
    with suppress(QuantityError):
        size = quantity.parse(value, "B")
        if _is_capacity(value):
            return "capacity"
        if main.capacity is not None and 0.1 < size / main.capacity.value < 10:
            wrong = f"memory={value} may be its capacity or its bandwidth"
            raise HardwareError(wrong, hint="say which: capacity=192e9 (bytes) or bandwidth=6e12 (bytes a second)")
    return "bandwidth"


def _set_level(machine: Machine, head: str, part: str, key: str, value: Any) -> Machine | None:
    found = find_level(machine, head)
    of_link = part in {*_LINK_PARTS, *_HOP_WORDS} - {*_LEVEL_PARTS} and find_link(machine, head) is not None
    if of_link or (found is None and head not in LEVEL_NAMES):
        return None
    if found is None and not part and isinstance(value, str) and (_is_capacity(value) or _factor(value.strip())):
        raise _unknown(machine, key)
    part = _known_part(head, part or "bandwidth", _LEVEL_PARTS)
    level = found or Memory(head, link=head in LINK_LEVELS)
    figure = _given(machine, f"{level.name}.{part}", key, value, _LEVEL_PARTS[part])
    changed = level._replace(**{part: figure})  # type: ignore[arg-type]
    if part == "per_core" and machine.cores is not None:
        changed = changed._replace(capacity=capacity_of(machine.cores, figure))
    is_first = found is None and head in _OUTERMOST
    memories = (changed, *machine.memories) if is_first else _put(machine.memories, level, changed)
    links = machine.links
    if part == "bandwidth":  # cards of one host send each other data over the same bus
        links = tuple(link._replace(bandwidth=figure) if link.name == level.name else link for link in links)
    machine = replace(machine, memories=memories, links=links)
    return _noted(machine, f"{level.name}.{part}", getattr(level, part), figure)


def _is_capacity(value: Any) -> bool:
    """Whether it is a text of bytes with their unit."""
    with suppress(QuantityError):
        return isinstance(value, str) and value.strip()[-1:].isalpha() and quantity.parse(value, "B") > 0
    return False


def _known_part(head: str, part: str, parts: Mapping[str, str]) -> str:
    check_one_of(f"{head} has no figure {part!r}", part, parts, f"figures of {head}", error=HardwareError)
    return part


def _set_link(machine: Machine, head: str, part: str, key: str, value: Any) -> Machine | None:
    head, part = ("link", "latency") if head in _HOP_WORDS and not part else (head, part)
    found = find_link(machine, head)
    has_inner = any(link.topology != "network" for link in machine.links)
    if found is None and head not in (NETWORK_LINKS if has_inner else NETWORK_LINKS + SCALE_UP_LINKS):
        return None
    part = _known_part(head, "latency" if part in _HOP_WORDS else part or "bandwidth", _LINK_PARTS)
    link = found or Link(head, topology="network" if head in NETWORK_LINKS else "")
    figure = _given(machine, f"{link.name}.{part}", key, value, _LINK_PARTS[part])
    if part in ("duplex", "unit", "node"):
        from roofline.hardware.figures import chips_together

        shared = 2 if part == "duplex" else chips_together(machine, link, part) * (link.links or 1)
        figure = figure._replace(value=figure.value / shared)
        part = "bandwidth"
    links = _put(machine.links, link, link._replace(**{part: figure}))  # type: ignore[arg-type]
    return _noted(replace(machine, links=links), f"{link.name}.{part}", getattr(link, part), figure)


def _set_tdp(machine: Machine, head: str, part: str, key: str, value: Any) -> Machine | None:
    if head not in TDP_WORDS or part:
        return None
    figure = _given(machine, "tdp", key, value, "W")
    return _noted(replace(machine, tdp=figure), "tdp", None, figure)


def _set_dtype(machine: Machine, head: str, part: str, key: str, value: Any) -> Machine | None:
    """``bf16=…``: on the unit that lists it, else on the main unit, which gains it."""
    if part or not dtypes.is_dtype(head.partition("_acc")[0]):
        return None
    family = dtypes.peak_name(head)
    listing = (u for u in machine.matrix_first if head in u.peaks or family in u.peaks)
    unit = next(listing, _main_unit(machine))
    return _set_peak(machine, unit, head, key, value)


def _set_peaks(machine: Machine, head: str, part: str, key: str, value: Any) -> Machine | None:
    if head != "peak":
        return None
    return _set_unit(machine, _main_unit(machine).name, part, key, value)


def _set_unit(machine: Machine, head: str, part: str, key: str, value: Any) -> Machine | None:
    found = next((u for u in machine.units if u.name == head), None)
    found = found or next((u for u in machine.units if u.kind == head), None)
    if found is None and head not in UNIT_KINDS:
        return None
    found = found or next((u for u in machine.units if u.kind == UNIT_KINDS[head]), None)
    unit = found or Unit(head, UNIT_KINDS[head], Frozen({}))
    if part == "clock":
        return _set_clock(machine, unit, key, value)
    if part.partition(".")[0] == "achievable":
        return _set_fraction(machine, unit, part.partition(".")[2], key, value)
    if part:
        return _set_peak(machine, unit, part, key, value)
    if not unit.peaks:
        raise HardwareError(f"{unit.name} of {machine.name} lists no dtype", hint=f"say which: {key}.bf16")
    for dtype in unit.peaks:
        now = next((each for each in machine.units if each.name == unit.name), unit)
        machine = _set_peak(machine, now, dtype, key, value)
    return machine


def _set_peak(machine: Machine, unit: Unit, dtype: str, key: str, value: Any) -> Machine:
    name = _peak_name(unit, dtype)
    figure = _given(machine, f"{unit.name}.{name}", key, value, "FLOP/s")
    changed = unit._replace(peaks=Frozen({**unit.peaks, name: figure}))
    units = _put(machine.units, unit, changed)
    return _noted(replace(machine, units=units), f"{unit.name}.{name}", unit.peaks.get(name), figure)


def _set_fraction(machine: Machine, unit: Unit, dtype: str, key: str, value: Any) -> Machine:
    """Set the fraction of a peak that is reached, or of all peaks of a unit where no dtype is said."""
    names = [_peak_name(unit, dtype)] if dtype else list(unit.peaks)
    path = f"{unit.name}.achievable.{dtype}".rstrip(".")
    figure = _given(machine, path, key, value, "")
    changed = unit._replace(achievable=Frozen({**unit.achievable, **dict.fromkeys(names, figure)}))
    return _noted(replace(machine, units=_put(machine.units, unit, changed)), path, None, figure)


def _set_clock(machine: Machine, unit: Unit, key: str, value: Any) -> Machine:
    """Set a clock; peaks that were not given follow it: cores x FLOP per clock x clock, else by how it changes."""
    clock = _given(machine, f"{unit.name}.clock", key, value, "Hz")
    counted = unit.per_clock if machine.cores is not None else {}
    peaks = {}
    for name in dict.fromkeys((*unit.peaks, *counted)):
        peak = unit.peaks.get(name)
        if peak is not None and peak.is_set:
            peaks[name] = peak
        elif name in counted and machine.cores is not None:
            peaks[name] = peak_at(machine.cores, counted[name], clock)
        elif peak is not None and unit.clock is not None:
            peaks[name] = peak_at_other_clock(peak, unit.clock, clock)
        else:
            message = f"the peak {unit.name}.{name} of {machine.name} goes with no known clock"
            raise HardwareError(message, hint=f"give the peak: {unit.name}.{name}='… TFLOP/s'")
    changed = unit._replace(clock=clock, peaks=Frozen(peaks))
    return _noted(replace(machine, units=_put(machine.units, unit, changed)), f"{unit.name}.clock", None, clock)


_FINDERS: tuple[Callable[[Machine, str, str, str, Any], Machine | None], ...] = (
    _set_main, _set_peaks, _set_dtype, _set_level, _set_unit, _set_link, _set_tdp,
)  # fmt: skip


def _main_unit(machine: Machine) -> Unit:
    return next(iter(machine.matrix_first), Unit("vector", "vector", Frozen({})))


def _peak_name(unit: Unit, dtype: str) -> str:
    """Name the entry of a dtype: as it stands in the unit, else by its arithmetic family."""
    if dtype in unit.peaks:
        return dtype
    name = dtypes.peak_name(dtype)
    if name is None:
        hint = suggest(dtype, [*unit.peaks, *dtypes.names(), "clock"], what="dtypes")
        raise HardwareError(f"{unit.name} has no figure {dtype!r}", hint=hint)
    return name


def _given(machine: Machine, path: str, key: str, value: Any, unit: str) -> Figure:
    """Read a value: a number, so much more or so many times a figure, a sparse peak, or what a source says."""
    text = value.strip() if isinstance(value, str) else ""
    if text[:1].isalpha():
        from roofline.hardware.figures import said_by

        said = said_by(machine, path, text.lower())
        if said is not None:
            return said
        if text.lower() == "spec":
            raise HardwareError(f"the catalog has one figure for {path} of {machine.name}", hint="give a number")
    try:
        changed = _changed(machine, path, text, unit)
        number = amount(value, unit) if changed is None else changed
    except QuantityError as error:
        more = "" if text[:1].isdigit() or not text else "; 2x is twice what it is, +20% a fifth more"
        level, _, part = path.partition(".")
        if part == "bandwidth" and _is_capacity(value) and find_level(machine, level):
            more = f"; a capacity is set as {level}.capacity"
        raise error.worded(f"{key}: ", more) from None
    if "achievable" in key.split(".") and number > 1:
        raise QuantityError(f"{key}: {number:g} is above 1", hint="a fraction is above 0 and at most 1")
    return Figure(number, GIVEN if changed is None else f"{GIVEN} as {text}", "given")


def _changed(machine: Machine, path: str, text: str, unit: str) -> float | None:
    """The value of a text that starts from a figure (``+20%``, ``+100 GB/s``, ``1.2x``); None of any other text."""
    factor = None if unit == "" and text[:1] not in "+-" else _factor(text)  # 80% of a rate is itself a fraction
    adds = text[:1] == "+" or (text[:1] == "-" and text[-1:].isalpha())
    if factor is None and not adds:
        return None
    from roofline.hardware.figures import named_figure

    times, of = factor or (1.0, "")
    step = 0.0 if factor else quantity.parse(text[1:], unit) * (1 if text[0] == "+" else -1)
    number = times * named_figure(machine, of or path).value + step
    if not 0 < number < math.inf:
        raise QuantityError(f"{text!r} leaves nothing of it", hint="'+20%', '-10%', '+100 GB/s', '1.2x'")
    return number


def _factor(text: str) -> tuple[float, str] | None:
    """How many times which figure a text says, the figure itself where it names none."""
    with suppress(ValueError):  # 1.2.3 is no number
        if (times := re.fullmatch(_TIMES, text)) is not None:
            return float(times["times"]), times["of"] or ""
        if (percent := re.fullmatch(_PERCENT, text)) is not None:
            share = float(percent["number"]) / 100
            return {"+": 1 + share, "-": 1 - share, "": share}[percent["sign"]], ""
    return None


def _put(parts: tuple[Any, ...], old: Any, new: Any) -> tuple[Any, ...]:
    """Replace ``old`` where it stands, else add ``new`` at the end."""
    if old in parts:
        return tuple(new if part is old else part for part in parts)
    return (*parts, new)


def _noted(machine: Machine, path: str, old: Figure | None, new: Figure) -> Machine:
    given = tuple(dict.fromkeys([*machine.given, path]))
    warnings = machine.warnings
    if old is not None and not old.is_set and new.source == GIVEN:
        odd, whose = "", "the catalog's" if is_chip(machine.key) else "its own"
        if figure_unit(path) in ("FLOP/s", "B/s") and (near := near_twice(new.value, old.value)):
            odd = f"{near} {whose} figure: a sparse (or duplex) figure?"
        elif new.value * 1000 <= old.value:
            odd = f"below a thousandth of {whose} figure: is its unit missing?"
        if odd:
            warnings = (*warnings, Assumption("doubt", f"given {path} is {odd}"))
    return replace(machine, given=given, warnings=warnings)


def settable_figures(machine: Machine) -> list[str]:
    """List what can be set on this machine.

    >>> from roofline.hardware import chip
    >>> settable_figures(chip("v5e"))[:6]
    ['hbm', 'vmem', 'pcie', 'hbm.capacity', 'vmem.capacity', 'pcie.capacity']
    """
    levels = [memory.name for memory in machine.memories]
    peaks = [f"{unit.name}.{dtype}" for unit in machine.units for dtype in unit.peaks]
    every = [
        *levels,
        *(f"{name}.capacity" for name in levels),
        *peaks,
        *(path.partition(".")[2] for path in peaks),
        *(unit.name for unit in machine.units),
        *(name for link in machine.links for name in (link.name, f"{link.name}.latency")),
        *("peak", "memory", "bandwidth", "capacity", "link", "matrix", "vector", "power"),
    ]
    return list(dict.fromkeys(every))


def _unknown(machine: Machine, key: str) -> HardwareError:
    named, _, figure = key.partition(".")
    if figure and is_chip(named):
        hint = f"{figure} alone sets it; {key} is of a machine that is given as {named}"
    elif key in COUNTS:
        hint = SEVERAL_OF_ONE
    elif named.lower() in _ON_CHIP and (own := _memories_on_chip(machine)):
        hint = own
    else:
        hint = suggest(key, settable_figures(machine), what="what can be set", limit=40)
    return HardwareError(f"{machine.name} has no figure {key!r}", hint=hint)


def describe_given(machine: Machine) -> list[Assumption]:
    """List the figures that the caller set, with their values.

    >>> from roofline.hardware import chip
    >>> describe_given(chip("v5e", hbm={"bandwidth": "8.1e11", "capacity": "32 GiB"}, bf16=2e14, tdp=200))[:2]
    ['given by the caller: hbm at 810 GB/s', 'given by the caller: hbm.capacity at 34.4 GB']
    """
    return [Assumption("given", f"given by the caller: {_describe(machine, path)}") for path in machine.given]


def _describe(machine: Machine, path: str) -> str:
    head, _, part = path.rpartition(".")
    every = figures_by_path(machine)
    if "achievable" in (head.rpartition(".")[2], part):
        counts = "" if machine.use_achievable else ", which only counts with achievable"
        return f"{path} at {machine.figures_set.get(path, 1.0):g}{counts}"
    figure = every.get(path)
    if figure is None:
        return path
    if any(unit.name == head and part in unit.peaks for unit in machine.units):
        return f"{part} on {head} at {quantity.format_quantity(figure.value, 'FLOP/s')}"
    name = head if part == "bandwidth" else path
    others = _other_links(machine) if name in {link.name for link in machine.links} else []
    kept = f", while {in_a_row(others)} {'stays' if len(others) == 1 else 'stay'} as listed" if others else ""
    value = quantity.format_quantity(figure.value, figure_unit(path))
    if part not in ("bandwidth", "capacity", "per_core") or _holds_data(machine, head):
        return f"{name} at {value}{kept}"
    idle = f"{path} at {value}, which enters no floor here"
    capacity = every.get(f"{head}.capacity")
    if part != "bandwidth" or capacity is None or capacity.is_set:
        return idle
    stays = quantity.format_quantity(capacity.value, "B")
    return f"{idle}; its capacity stays {stays}, which {head}.capacity sets"


#: What people call memories on a chip, whatever they are called there.
_ON_CHIP = ("sram", "cache", "l1", "l2", "l3", "llc", "smem", "shared", "shared_memory", "vmem", "scratchpad", "onchip")


def _memories_on_chip(machine: Machine) -> str:
    """How the capacities of memories on a chip are called there; nothing where it has none that is known."""
    main = find_level(machine, "main")
    inner = [level.name for level in machine.memories if not level.link and level is not main]
    return f"its memories on the chip are: {', '.join(f'{name}.capacity' for name in inner)}" if inner else ""


def _holds_data(machine: Machine, name: str) -> bool:
    """Whether data may start in a level, or lie there between runs: what it holds then decides whether they fit."""
    level, start = find_level(machine, name), find_level(machine, machine.over or "main")
    return machine.over == WARM or level is None or level.link or level in (start, find_level(machine, "main"))


def _other_links(machine: Machine) -> list[str]:
    """The links whose bandwidth nobody set, where chips of several nodes or slices send over more than one."""
    chips, joined = product(machine.shape), [domain_of(link) for link in machine.links]
    is_one = machine.slices == 1 and is_number(chips) and all(each is None or chips <= each for each in joined)
    return [] if is_one else [link.name for link in machine.links if f"{link.name}.bandwidth" not in machine.given]


def changed_figures(machine: Machine, before: Machine) -> dict[str, float]:
    """Figures given of ``machine`` that are not given so of ``before``, as :func:`override` takes them.

    >>> from roofline.hardware import chip
    >>> changed_figures(chip("v5e", hbm=1.6e12, bf16=2e14), chip("v5e", bf16=2e14))
    {'hbm.bandwidth': 1600000000000.0}
    """
    was = before.figures_set
    return {path: value for path, value in machine.figures_set.items() if was.get(path) != value}
