"""What a chip's cores are made of: how many units, what each does in a cycle, what the register files hold.

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

from roofline.errors import HardwareError
from roofline.frozen import Frozen, replace
from roofline.hardware.machine import Figure, Machine, Memory, Unit
from roofline.hardware.rate import unit_words

#: Threads that an NVIDIA SM runs in step, and bytes of one of their registers.
WARP, REGISTER = 32, 4


def count_units(machine: Machine, unit: str) -> int | None:
    """Count the units of a kind on the chip, all cores together; None where the catalog does not say."""
    found = _unit(machine, unit)
    return None if machine.cores is None or found.per_core is None else machine.cores * found.per_core


def flops_per_cycle(machine: Machine, unit: str, dtype: str) -> float | None:
    """Return the FLOPs that one unit does in a cycle: peak / (units · clock); None where one of them is not known."""
    found, count = _unit(machine, unit), count_units(machine, unit)
    peak = found.peaks.get(dtype)
    return None if count is None or peak is None or found.clock is None else peak.value / (count * found.clock.value)


def peak_of_one(machine: Machine, unit: str, dtype: str) -> float | None:
    """Return the FLOP/s of one unit: a tensor core, an MXU, an ALU; None where their number is not known.

    >>> from roofline.hardware import chip
    >>> peak_of_one(chip("v5e", mxu={"clock": 1.5e9}), "mxu", "bf16")
    49152000000000.0
    """
    count, peak = count_units(machine, unit), _unit(machine, unit).peaks.get(dtype)
    return None if not count or peak is None else peak.value / count


def peak_of_a_core(machine: Machine, unit: str, dtype: str) -> float | None:
    """Return the FLOP/s of the units of one core: an SM, a TensorCore; None where the cores are not known.

    >>> from roofline.hardware import chip
    >>> peak_of_a_core(chip("v5p", vpu={"fp32": "8192x vpu.clock"}), "vpu", "fp32")
    7168000000000.0
    """
    peak = _unit(machine, unit).peaks.get(dtype)
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


def _unit(machine: Machine, name: str) -> Unit:
    found = next((u for u in machine.units if name in (u.name, u.kind)), None)
    if found is None:
        hint = f"its units are: {', '.join(unit_words(machine.units))}"
        raise HardwareError(f"{machine.name} has no unit {name!r}", hint=hint)
    return found
