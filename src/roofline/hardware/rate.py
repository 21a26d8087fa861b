"""How fast a machine does one kind of work: the only place where an amount meets a rate.

>>> from roofline.hardware import chip
>>> from roofline.work import Key
>>> h100 = chip("h100")
>>> rate(h100, Key("flops", "matrix", "bf16"))
Rate(resource='tensor', value=989400000000000.0, ...)
>>> rate(h100, Key("bytes", "main")).resource
'hbm'
>>> rate(chip("a100"), Key("flops", "matrix", "fp8")).note
'no fp8 peak on NVIDIA A100 SXM4 80GB: matrix products run as bf16 on tensor'
>>> round(ridge(h100, "bf16"), 1)
295.1
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from roofline import dtypes
from roofline.errors import DTypeError, HardwareError, check_one_of, suggest
from roofline.frozen import NamedTuple, replace
from roofline.hardware.machine import Figure, Link, Machine, Memory, Rate, Unit
from roofline.lazy import np
from roofline.quantity import format_quantity
from roofline.signatures import takes
from roofline.sizes import is_array, is_number, is_symbol, maximum
from roofline.work import Key, Op

#: Levels that answer to another name where the machine has none of the name asked for.
LEVEL_SYNONYMS = {"hbm": "dram", "dram": "hbm", "host": "pcie", "lds": "smem", "shared": "smem", "l3": "llc"}

#: The resource all hops over mesh axes take their time on.
HOPS = "hop latency"

#: What ``over`` says for warm data.
WARM = "warm"


class UnitChoice(NamedTuple):
    """The unit and the dtype some arithmetic runs on, and what had to be said about the choice."""

    unit: Unit
    dtype: str
    note: str = ""


def rate(machine: Machine, key: Key, op: Op | None = None) -> Rate | None:
    """Return the rate of one key of Work, or None where this machine has none: the amount is then untimed.

    ``op`` is the operation the amount belongs to: a data-sheet figure does not depend on it, a measured one may.
    """
    return next(iter(rates(machine, key, op)), None)


def rates(machine: Machine, key: Key, op: Op | None = None) -> tuple[Rate, ...]:
    """Return the rates of one key of Work, each with its share: one, or one a memory level for warm data of arrays."""
    if key.quantity == "bytes" and key.place == "main" and machine.over == WARM:
        main = _own_outermost(machine)
        return () if main is None or main.bandwidth is None else tuple(_warm_rates(machine, main, main.bandwidth, op))
    found = _rate_of_any(machine, key)
    return () if found is None else (found,)


@lru_cache(maxsize=1024)
def _rate_of_any(machine: Machine, key: Key) -> Rate | None:
    """The rate that all operations have."""
    if key.quantity == "flops":
        return _arithmetic_rate(machine, key)
    if key.quantity == "bytes":
        return _memory_rate(machine, key.place)
    if key.quantity == "wire":
        return _wire_rate(machine, key.place)
    if key.quantity == "hops":
        return _hop_rate(machine, key.place)
    return None


#: A source's figure that is no higher than this times another is the same one, rounded.
ROUNDED = 1.002


def _arithmetic_rate(machine: Machine, key: Key) -> Rate | None:
    choice = choose_unit(machine, key.place, key.dtype)
    if choice is None:
        return None
    unit, dtype, note = choice
    peak = unit.peaks[dtype]
    fraction = unit.achievable.get(dtype)
    passes = "" if _is_wide_integer(key.dtype) else _in_passes(machine, key.place, unit, dtype)
    note = "; ".join(filter(None, (note, passes, _exceeded(machine, unit, dtype))))
    return _rate(machine, unit.name, peak, fraction, f"{dtype} on {unit.name}", dtype, note)


#: Products of another format whose sum has the accuracy of one in fp32, fp64 or int8, by format. fp32: XLA's highest
#: precision, and example 28 of CUTLASS. fp64: Ozaki's second scheme as GEMMul8 runs it (arXiv:2504.08009, 2603.10634),
#: 14 moduli in int8 for 55 bits, 25 products of 10 moduli in fp8 for 53. int8: bf16 and fp16 hold all of its numbers,
#: and sums in fp32 are exact up to 2^24.
PASSES = {"fp32": {"bf16": 6, "tf32": 3}, "fp64": {"int8": 14, "fp8": 25}, "int8": {"bf16": 1, "fp16": 1}}


def _in_passes(machine: Machine, place: str, unit: Unit, dtype: str) -> str:
    """Say where products may be faster as one or several of another format on a matrix unit.

    >>> from roofline.hardware import chip
    >>> _in_passes(chip("v5e"), "matrix", chip("v5e").units[1], "fp32")
    'code that takes 6 passes of bf16 on mxu reaches 32.8 TFLOP/s'
    >>> _in_passes(chip("l40s"), "matrix", chip("l40s").units[1], "fp32")
    ''
    >>> _in_passes(chip("h100"), "matrix", chip("h100").units[0], "fp64")
    'code that takes 14 passes of int8 on tensor reaches 141 TFLOP/s'
    >>> _in_passes(chip("b300"), "matrix", chip("b300").units[0], "fp64")
    'code that takes 25 passes of fp8 on tensor reaches 180 TFLOP/s'
    >>> _in_passes(chip("v100"), "matrix", chip("v100").units[1], "int8")
    'code that converts int8 to fp16, whose sums in fp32 are exact to 2^24, reaches 125 TFLOP/s on tensor'
    """
    if place != "matrix" or dtype not in PASSES or machine.unit is not None:
        return ""
    able = [(u.peaks[name].value / n, n, name, u.name) for u in machine.units if u.kind == "matrix"
            for name, n in PASSES[dtype].items() if name in u.peaks]  # fmt: skip
    reached, passes, name, where = max(able, default=(0.0, 0, "", ""))
    if reached <= unit.peaks[dtype].value * 1.001:  # the same figure, written with fewer digits
        return ""
    speed = format_quantity(reached, "FLOP/s")
    if passes == 1:
        return f"code that converts {dtype} to {name}, whose sums in fp32 are exact to 2^24, reaches {speed} on {where}"
    return f"code that takes {passes} passes of {name} on {where} reaches {speed}"


def _exceeded(machine: Machine, unit: Unit, dtype: str) -> str:
    """Say where a peak is no limit: cards of some kinds clock higher than their data sheet says, or do more a clock.

    >>> from roofline.hardware import chip
    >>> _exceeded(chip("rtx-5090"), chip("rtx-5090").units[0], "bf16")
    "bf16 on tensor: cards above the data sheet's clock reached 242 TFLOP/s"
    """
    path = f"{unit.name}.{dtype}"
    measured = [a.figure for a in machine.alternates if a.of == path and a.figure.basis == "measured"]
    most = max(measured, key=lambda figure: figure.value, default=unit.peaks[dtype])
    if most.value <= unit.peaks[dtype].value or not {path, f"{unit.name}.clock"}.isdisjoint(machine.given):
        return ""
    by = most.note or "cards above the data sheet's clock"
    return f"{dtype} on {unit.name}: {by} reached {format_quantity(most.value, 'FLOP/s')}"


def _memory_rate(machine: Machine, place: str) -> Rate | None:
    name = place if place != "main" or machine.over is None or machine.over == WARM else machine.over
    memory = find_level(machine, name)
    if memory is None or memory.bandwidth is None:
        return None
    return _rate(machine, memory.name, memory.bandwidth, memory.achievable, memory.name)


def _wire_rate(machine: Machine, place: str) -> Rate | None:
    """Find the rate of a mesh axis (``X``, ``X.ib``) or of a link by its own name, one way."""
    level = machine.segment(place)
    link = find_link(machine, place if level is None else level.link)
    if link is None or link.bandwidth is None:
        return None
    note = _printed_higher(machine, link.name, link.bandwidth)
    resource, lanes = (link.name, 1) if level is None else (level.resource, level.lanes)
    found = _rate(machine, resource, link.bandwidth, link.achievable, link.name, note=note)
    axis = next((axis.name for axis in machine.mesh or () if level in axis.segments), "")
    return found._replace(value=found.value * lanes, link=link.name, axis=axis)


def _printed_higher(machine: Machine, name: str, taken: Figure) -> str:
    """Say that another source gives a link more, where its effective figure is taken.

    >>> from roofline.hardware import chip
    >>> _printed_higher(chip("v5e"), "ici", chip("v5e").links[0].bandwidth)
    'ici at 45 GB/s one way; another source gives 50 GB/s, which ici=spec takes'
    """
    path = f"{name}.bandwidth"
    if path in machine.given:
        return ""
    others = (each.figure for each in machine.alternates if each.of == path and not each.rejected)
    most = max((figure.value for figure in others if figure.basis != "measured"), default=0)
    if most <= taken.value * ROUNDED:
        return ""
    now, more = (format_quantity(value, "B/s") for value in (taken.value, most))
    return f"{name} at {now} one way; another source gives {more}, which {name}=spec takes"


def _hop_rate(machine: Machine, place: str) -> Rate | None:
    """Find the rate of hops; those on mesh axes follow one another, so they share one resource."""
    level = machine.segment(place)
    link = find_link(machine, place if level is None else level.link)
    if link is None or link.latency is None:
        return None
    return Rate(f"{link.name} latency" if level is None else HOPS, 1 / link.latency.value, figure=link.latency)


def _rate(
    machine: Machine, resource: str, figure: Figure, fraction: Figure | None, what: str, dtype: str = "", note: str = ""
) -> Rate:
    """Make the Rate of a figure, multiplied by the measured fraction where that is asked for and known."""
    value, notes = figure.value, [note]
    if machine.use_achievable:
        which = figure.basis if figure.basis in ("given", "measured") else "data-sheet"
        if fraction is None:
            notes.append(f"no measured fraction for {what}: the {which} figure stands")
        else:
            value = value * fraction.value
            how = "given" if fraction.basis == "given" else "measured"
            notes.append(f"{what}: {fraction.value:.3g} of the {which} figure, as {how}")
    doubt = figure.doubt or (fraction.doubt if fraction is not None and machine.use_achievable else "")
    if doubt:
        notes.append(f"the rate of {what} is {doubt}")
    return Rate(resource, value, dtype, figure, "; ".join(filter(None, notes)))


def figure_value(machine: Machine, found: Rate) -> float:
    """The figure of a rate before its achievable fraction, which is what an override sets.

    >>> from roofline.hardware import chip
    >>> h100 = chip("h100", achievable=True)
    >>> tensor = rate(h100, Key("flops", "matrix", "bf16"))
    >>> round(tensor.value / figure_value(h100, tensor), 3)
    0.803
    """
    if found.figure is None or not machine.use_achievable or machine.over == WARM:
        return float(found.value)
    return found.figure.value


def unit_for(machine: Machine, place: str, dtype: str) -> Unit | None:
    """Return the unit arithmetic at ``place`` runs on, as :func:`choose_unit` chooses it, or None.

    >>> from roofline.hardware import chip
    >>> unit_for(chip("v5e"), "matrix", "bf16").tile
    (128, 128)
    """
    choice = choose_unit(machine, place, dtype)
    return None if choice is None else choice.unit


def choose_unit(machine: Machine, place: str, dtype: str) -> UnitChoice | None:
    """Choose the compute unit and dtype for arithmetic at ``place``, or None where nothing can run it.

    ``matrix`` takes the exact dtype on a matrix unit, else on a vector unit, else the next wider dtype on a matrix
    unit, else on a vector unit. ``vector`` takes vector units only. A chosen ``machine.unit`` comes before both,
    except that vector work never goes to a matrix unit. An unknown dtype has no rate. Floats that a chip is faster at
    in a wider format run in that, as libraries run fp16 on cards with few fp16 units. Integers of 32 and 64 bits, which
    few data sheets list, are no faster than fp32 on the vector unit.

    >>> from roofline.hardware import chip
    >>> choose_unit(chip("gtx-1080-ti"), "matrix", "fp32")[1:]
    ('fp32', '')
    >>> choose_unit(chip("mi355x"), "matrix", "fp32").note
    'no fp32 peak on matrix: runs on vector'
    >>> choose_unit(chip("v100"), "matrix", "bf16").note
    'no bf16 peak on NVIDIA V100 SXM2 16/32GB: matrix products run as fp32 on cuda'
    >>> choose_unit(chip("gtx-1080-ti"), "matrix", "fp16").note
    'fp16 on cuda has 177 GFLOP/s: matrix products run as fp32 on cuda'
    >>> choose_unit(chip("l4"), "vector", "int64").note
    'no int64 peak on cuda of NVIDIA L4: elementwise work is timed as fp32 there, which integers are no faster than'
    """
    units = _units_for(machine, place)
    choice = _as_fast_as_fp32(machine, place, _narrowest(machine, place, dtype, units), units, dtype)
    return None if choice is None else _faster_in_wider(machine, place, choice, units, dtype)


def _narrowest(machine: Machine, place: str, dtype: str, units: Sequence[Unit]) -> UnitChoice | None:
    """The exact dtype, or the narrowest wider one, on the first kind of unit that has it."""
    for name in _exact_names(dtype):
        for unit in units:
            if name in unit.peaks:
                return UnitChoice(unit, name, _note(machine, place, units, unit, dtype, name))
    for group in _wider(dtype):
        for kind in dict.fromkeys(unit.kind for unit in units):
            able = [
                (u.peaks[name].value, u, name) for u in units if u.kind == kind for name in group if name in u.peaks
            ]
            if able:
                _, unit, name = max(able, key=lambda item: (item[0], item[2] == "bf16"))
                return UnitChoice(unit, name, _note(machine, place, units, unit, dtype, name))
    return None


def _as_fast_as_fp32(
    machine: Machine, place: str, choice: UnitChoice | None, units: Sequence[Unit], dtype: str
) -> UnitChoice | None:
    """The choice; for integers of 32 bits and more that no unit lists, fp32 on the vector unit where that is faster.

    Chips have lanes for such integers whatever they have for fp64. A product that nothing else can run stays untimed: a
    matrix unit may do it in several passes.
    """
    own = 0.0 if choice is None else choice.unit.peaks[choice.dtype].value
    able = [u for u in units if u.kind == "vector" and "fp32" in u.peaks and is_number(u.peaks["fp32"].value)]
    fastest = max(able, key=lambda u: u.peaks["fp32"].value, default=None)
    if not _is_wide_integer(dtype) or fastest is None or not is_number(own) or fastest.peaks["fp32"].value <= own:
        return choice
    if place == "matrix" if choice is None else choice.dtype != "fp64":
        return choice
    work = "matrix products are" if place == "matrix" else "elementwise work is"
    missing = f"no {dtypes.arithmetic_name(dtype)} peak on {fastest.name} of {machine.name}"
    return UnitChoice(fastest, "fp32", f"{missing}: {work} timed as fp32 there, which integers are no faster than")


def _is_wide_integer(dtype: str) -> bool:
    return dtypes.is_dtype(dtype) and dtypes.get(dtype).family == "int" and dtypes.get(dtype).bits >= 32


def _faster_in_wider(machine: Machine, place: str, choice: UnitChoice, units: Sequence[Unit], dtype: str) -> UnitChoice:
    """The choice, or a wider float with a higher peak, unless the caller gave the narrower one's."""
    own = choice.unit.peaks[choice.dtype].value
    is_float = dtypes.get(choice.dtype.partition("_acc")[0]).family == "float"
    if not (is_float and is_number(own)) or f"{choice.unit.name}.{choice.dtype}" in machine.given:
        return choice
    names = {name for group in _wider(choice.dtype) for name in group}
    able = [(unit.peaks[name].value, unit, name) for unit in units for name in names & unit.peaks.keys()]
    able = [item for item in able if is_number(item[0]) and item[0] > own]
    if not able:
        return choice
    _, unit, name = max(able, key=lambda item: item[0])
    missing = "" if choice.dtype in _exact_names(dtype) else f"no {dtype} peak on {machine.name}, and "
    slow = f"{choice.dtype} on {choice.unit.name} has {format_quantity(own, 'FLOP/s')}"
    return UnitChoice(unit, name, f"{missing}{slow}: {_RUNS.get(place, 'it runs')} as {name} on {unit.name}")


def _units_for(machine: Machine, place: str) -> Sequence[Unit]:
    """List the units that may run arithmetic at ``place``, the preferred ones first; ``place`` is a kind or a name."""
    named = [u for u in machine.units if u.name == place]
    if named and place not in ("matrix", "vector"):
        return named
    if machine.unit is not None:
        chosen = [u for u in machine.units if machine.unit in (u.name, u.kind)]
        if place != "vector" or all(u.kind == "vector" for u in chosen):
            return chosen
    vector = [u for u in machine.units if u.kind == "vector"]
    if place == "vector":
        return vector
    return [*(u for u in machine.units if u.kind == "matrix"), *vector]


def _exact_names(dtype: str) -> Iterator[str]:
    """Name the entries that are this dtype: its own name, its arithmetic family, the plain one of ``fp16_acc16``."""
    yield dtype
    base = dtype.partition("_acc")[0]
    if dtypes.is_dtype(base):
        family = dtypes.arithmetic_name(dtype)
        yield family
        yield family.partition("_acc")[0]


def _wider(dtype: str) -> tuple[tuple[str, ...], ...]:
    try:
        return dtypes.wider(dtype)
    except DTypeError:
        return ()


#: What runs at a place, in a sentence.
_RUNS = {"matrix": "matrix products run", "vector": "elementwise work runs"}


def _note(machine: Machine, place: str, units: Sequence[Unit], unit: Unit, dtype: str, used: str) -> str:
    """Say what a reader would not expect: another dtype, or the vector unit of a chip that has a matrix unit."""
    wanted = dtypes.arithmetic_name(dtype) if dtypes.is_dtype(dtype.partition("_acc")[0]) else dtype
    said = []
    if machine.unit is not None and machine.unit not in (unit.name, unit.kind):
        said.append(f"elementwise work and dot products stay on {unit.name}")
    if used not in (dtype, wanted):
        on, there = (f"{unit.name} of ", "there") if place == "vector" else ("", f"on {unit.name}")
        said.append(f"no {wanted} peak on {on}{machine.name}: {_RUNS.get(place, 'it runs')} as {used} {there}")
    elif unit is not units[0] and unit.kind != units[0].kind:
        said.append(f"no {wanted} peak on {units[0].name}: runs on {unit.name}")
        if place == "matrix" and wanted == "fp32" and "tf32" in units[0].peaks:
            figure = format_quantity(units[0].peaks["tf32"].value, "FLOP/s")
            set_to = f"set {units[0].name}.fp32={figure.replace(' ', '')}"
            said.append(f"rounded to tf32 products run on {units[0].name} at {figure} ({set_to})")
    narrow = f"{used}_acc16"
    if narrow in unit.peaks:
        faster = format_quantity(unit.peaks[narrow].value, "FLOP/s")
        said.append(f"{used} on {unit.name} accumulates in fp32; {narrow} has {faster}")
    return "; ".join(said)


def main_level(machine: Machine) -> Memory:
    """Return the chip's own outermost memory: HBM or DRAM, or what stands for it.

    >>> from roofline.hardware import chip
    >>> main_level(chip("v5e")).name
    'hbm'
    """
    found = _own_outermost(machine)
    if found is None:
        raise HardwareError(f"{machine.name} lists no memory of its own", hint="give one: hbm='… B/s'")
    return found


def _own_outermost(machine: Machine) -> Memory | None:
    return next((memory for memory in machine.memories if not memory.link), None)


def data_level(machine: Machine) -> Memory:
    """Return the level that data comes from: the chosen one, else the main memory, which also has to hold warm data.

    >>> from roofline.hardware import chip
    >>> data_level(chip("v5e", over="vmem")).name, data_level(chip("h100", over="warm")).name
    ('vmem', 'hbm')
    """
    return main_level(machine) if machine.over is None or machine.over == WARM else level(machine, machine.over)


def find_level(machine: Machine, name: str) -> Memory | None:
    """Return the memory level of this name in any case, or the one it is a synonym of, or None.

    The host's memory is reached over the level or the link ``pcie``, or over ``c2c``.

    >>> from roofline.hardware import chip
    >>> find_level(chip("gtx-1080-ti"), "hbm").name
    'dram'
    >>> [find_level(chip(name), "host").name for name in ("h100", "rtx-4090", "gb200")]
    ['pcie', 'pcie', 'c2c']
    """
    by_name = {memory.name: memory for memory in machine.memories}
    for each in (name, name.lower()):
        if each in ("main", "memory"):
            return _own_outermost(machine)
        found = by_name.get(each) or by_name.get(LEVEL_SYNONYMS.get(each, each))
        if found is None and each in ("host", "pcie"):
            found = by_name.get("c2c") if each == "host" else None
            found = found or _bus(machine)
        if found is not None:
            return found
    return None


def _bus(machine: Machine) -> Memory | None:
    """The bus over which cards of one host send each other data: the way to that host's memory too."""
    link = find_link(machine, "pcie")
    return None if link is None else Memory("pcie", link.bandwidth, achievable=link.achievable, link=True)


def level(machine: Machine, name: str) -> Memory:
    """Return the memory level of this name, or say which ones there are.

    >>> from roofline.hardware import chip
    >>> level(chip("h100"), "hmb")
    Traceback (most recent call last):
    roofline.errors.HardwareError: NVIDIA H100 SXM5 80GB has no memory level 'hmb'; did you mean 'hbm'?
    """
    found = find_level(machine, name)
    if found is None:
        hint = suggest(name, [memory.name for memory in machine.memories], what="its levels")
        raise HardwareError(f"{machine.name} has no memory level {name!r}", hint=hint)
    return found


def find_link(machine: Machine, name: str) -> Link | None:
    """Return the link of this name, the first that is no network for ``link``, or None."""
    if name == "link":
        inside = [link for link in machine.links if link.topology != "network"]
        return next(iter(inside or machine.links), None)
    return next((link for link in machine.links if link.name == name), None)


def ridge(machine: Machine, dtype: str, level: str = "main", unit: str | None = None) -> float | None:
    """Return the intensity at which arithmetic in ``dtype`` and ``level`` take equally long, in FLOP/B.

    ridge = peak / bandwidth; None where either is unknown. ``level`` may be a mesh axis: its bandwidth is that of its
    slowest links, both ways where a torus closes.

    >>> from roofline.hardware import chip
    >>> ridge(chip("v5e", hbm="8.2e11"), "bf16")
    240.2439...
    >>> [round(ridge(chip(slice), "int8", "X")) for slice in ("v5e:16x16", "v5e:4x4")]
    [4367, 8733]
    """
    chosen = machine if unit is None else with_choices(machine, unit=unit)
    peak = rate(chosen, Key("flops", "matrix", dtype))
    bandwidth = _bandwidth(chosen, level)
    return None if peak is None or bandwidth is None else float(peak.value / bandwidth)


def _bandwidth(machine: Machine, level: str) -> float | None:
    if machine.mesh is None or level not in machine.mesh.sizes:
        found = rate(machine, Key("bytes", level))
        return None if found is None else found.value
    ways = [(rate(machine, Key("wire", part.place)), part.directions) for part in machine.mesh[level].segments]
    values = [found.value * int(count) for found, count in ways if found is not None]
    return min(values) if values and len(values) == len(ways) else None


@takes()
def with_choices(
    machine: Machine, *, unit: str | None = None, over: str | None = None, achievable: bool | None = None
) -> Machine:
    """Return the machine with the caller's choices: which unit, which memory level, measured fractions or not.

    ``unit="auto"`` and ``over="main"`` take a choice back; ``over="warm"`` takes data from wherever it fits.

    >>> from roofline.hardware import chip
    >>> with_choices(chip("v5e"), unit="tensr")
    Traceback (most recent call last):
    roofline.errors.HardwareError: TPU v5e has no unit 'tensr'; its units are: mxu, vpu, matrix, vector
    """
    changes: dict[str, object] = {}
    if unit is not None:
        changes["unit"] = None if unit == "auto" else _known_unit(machine, unit)
    if over == "main":
        changes["over"] = None
    elif over == WARM:
        changes["over"] = WARM
    elif over is not None:
        chosen = level(machine, over)
        if chosen.bandwidth is None:
            hint = f"give one: {chosen.name}='… B/s'"
            raise HardwareError(f"no bandwidth is known for {chosen.name} of {machine.name}", hint=hint)
        changes["over"] = chosen.name
    if achievable is not None:
        changes["use_achievable"] = achievable
    return replace(machine, **changes) if changes else machine  # type: ignore[arg-type]


def _known_unit(machine: Machine, name: str) -> str:
    wanted = name.lower()
    names = unit_words(machine.units)
    check_one_of(f"{machine.name} has no unit {name!r}", wanted, names, "its units", error=HardwareError)
    return wanted


def unit_words(units: Iterable[Unit]) -> list[str]:
    """List the words a unit may be chosen by: the names, then the kinds."""
    listed = list(units)
    return list(dict.fromkeys([*(u.name for u in listed), *(u.kind for u in listed)]))


def working_set(op: Op) -> Any:
    """Bytes an operation touches: every tensor once, all its repeats together; None where it names no tensors."""
    tensors = {tensor.ident: tensor for tensor in (*op.reads, *op.writes)}
    return sum(tensor.capacity_bytes for tensor in tensors.values()) * op.repeat if tensors else None


def resting_level(machine: Machine, main: Memory, touched: float) -> Memory:
    """The innermost level that holds a working set and has a bandwidth, else the main memory."""
    return min((m for m in _inner_levels(machine, main) if _size(m) >= touched), key=_size, default=main)


def _warm_rates(machine: Machine, main: Memory, bandwidth: Figure, op: Op | None) -> Iterator[Rate]:
    """Yield how fast an operation's data moves from the level that it lies in, and what had to be said.

    Each row of an array lies in one of the levels, all of whose rates are listed. For symbols, and for raw work, which
    names no tensors, it is the main memory's.
    """
    touched = None if op is None else working_set(op)
    if touched is None or is_symbol(touched):
        said = "not known to be warm, without the sizes of tensors"
        yield Rate(main.name, bandwidth.value, figure=bandwidth, note=said)
        return
    if is_array(touched):
        left = touched >= 0
        for at in sorted(_inner_levels(machine, main), key=_size):  # the smallest level first
            here = left & (touched <= _size(at))
            left = left & ~here
            yield _warm_rate(main, at, touched, share=here)
        yield _warm_rate(main, main, touched, share=left)
        return
    at = resting_level(machine, main, touched)
    said = _unknown_level(machine, at, touched)
    if (at.bandwidth or bandwidth).basis == "measured" and bandwidth.basis != "measured":
        said = f"the bandwidth of {at.name} is a measured one"
    yield _warm_rate(main, at, touched, said)


def _warm_rate(main: Memory, at: Memory, touched: Any, said: str = "", share: Any = 1) -> Rate:
    """The rate of data that lies in a level: its own or, where one was measured, that of the curve at this size."""
    floor, own = (each.bandwidth.value if each.bandwidth else 0.0 for each in (main, at))
    value = value_on_curve(main.curve, touched) if main.curve else own
    return Rate(at.name, maximum(value, floor), figure=main.bandwidth, note="" if main.curve else said, share=share)


def _inner_levels(machine: Machine, main: Memory) -> list[Memory]:
    """Levels that hold data nearer than the main memory does, at a known bandwidth."""
    return [m for m in machine.memories if not m.link and m is not main and m.capacity and m.bandwidth]


def _unknown_level(machine: Machine, at: Memory, touched: float) -> str:
    """Say which nearer level holds a working set that is timed elsewhere because its bandwidth is not known.

    >>> from roofline.hardware import chip
    >>> t4 = chip("t4")
    >>> _unknown_level(t4, t4.memories[0], 1e6)
    "l2 holds it all, but no bandwidth of it is known: dram's is taken; give one: l2='… B/s'"
    """
    nearer = [m for m in machine.memories if not m.link and m is not at and m.capacity and not m.bandwidth]
    holding = [m.name for m in nearer if m.capacity is not None and touched <= m.capacity.value < _size(at)]
    if not holding:
        return ""
    name = holding[0]
    return f"{name} holds it all, but no bandwidth of it is known: {at.name}'s is taken; give one: {name}='… B/s'"


def _size(level: Memory) -> float:
    return level.capacity.value if level.capacity else math.inf


def value_on_curve(curve: Sequence[tuple[float, float]], at: Any) -> Any:
    """Read a curve at a size, as bandwidth at a working set: straight lines between points in logarithms, level beyond.

    >>> value_on_curve([(1e4, 4e11), (1e6, 1e11)], 1e5), value_on_curve([(1e4, 4e11), (1e6, 1e11)], 1e9)
    (200000000000.0, 100000000000.0)
    """
    if is_array(at):
        x, y = np.log(np.array(curve)).T
        return np.exp(np.interp(np.log(at), x, y))
    sizes = [size for size, _ in curve]
    above = next((index for index, size in enumerate(sizes) if size >= at), len(sizes))
    if above == 0 or above == len(sizes):
        return curve[0 if above == 0 else -1][1]
    (x0, y0), (x1, y1) = curve[above - 1], curve[above]
    share = math.log(at / x0) / math.log(x1 / x0)
    return float(y0 * (y1 / y0) ** share) if 0 < share < 1 else float(y1)
