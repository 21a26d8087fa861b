"""What a chip's cores are made of: how many units, what each does in a cycle, what the register files hold.

>>> from roofline.hardware import chip
>>> h100 = chip("h100")
>>> units(h100, "cuda"), round(per_cycle(h100, "tensor", "bf16")), registers(h100), warps(h100, 256)
(16896, 1024, 34603008, 8)
>>> units(chip("mi300x"), "vector") is None
True
"""

from __future__ import annotations

from roofline.errors import HardwareError
from roofline.hardware.machine import Machine, Unit
from roofline.hardware.rate import unit_words

#: Threads that an NVIDIA SM runs in step, and bytes of one of their registers.
WARP, REGISTER = 32, 4


def units(machine: Machine, unit: str) -> int | None:
    """Count the units of a kind on the chip, all cores together; None where the catalog does not say."""
    found = _unit(machine, unit)
    return None if machine.cores is None or found.per_core is None else machine.cores * found.per_core


def per_cycle(machine: Machine, unit: str, dtype: str) -> float | None:
    """Return the FLOPs that one unit does in a cycle: peak / (units · clock); None where one of them is not known."""
    found, count = _unit(machine, unit), units(machine, unit)
    peak = found.peaks.get(dtype)
    return None if count is None or peak is None or found.clock is None else peak.value / (count * found.clock.value)


def registers(machine: Machine) -> float | None:
    """Return the bytes of all register files; None where they are not known."""
    return None if machine.registers is None or machine.cores is None else int(machine.registers.value) * machine.cores


def warps(machine: Machine, registers_per_thread: int) -> int | None:
    """Count the warps of 32 threads whose registers one core holds; None where its registers are not known."""
    if machine.registers is None:
        return None
    return int(machine.registers.value) // (WARP * REGISTER * registers_per_thread)


def _unit(machine: Machine, name: str) -> Unit:
    found = next((u for u in machine.units if name in (u.name, u.kind)), None)
    if found is None:
        hint = f"its units are: {', '.join(unit_words(machine.units))}"
        raise HardwareError(f"{machine.name} has no unit {name!r}", hint=hint)
    return found
