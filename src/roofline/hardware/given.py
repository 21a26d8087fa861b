"""What the caller set, in words: every answer says which figures are not the catalog's.

>>> from roofline.hardware import chip
>>> given_lines(chip("v5e", hbm={"bandwidth": "8.1e11", "capacity": "32 GiB"}, bf16=2e14, tdp=200))[:2]
['given by the caller: hbm at 810 GB/s', 'given by the caller: hbm.capacity at 34.4 GB']
"""

from __future__ import annotations

from roofline.hardware.machine import Link, Machine, Memory
from roofline.quantity import format_quantity

#: Parts of a unit, a memory level or a link that may be set, and what each is in.
_PARTS = {"bandwidth": "B/s", "capacity": "B", "per_core": "B", "latency": "s", "clock": "Hz"}


def given_lines(machine: Machine) -> list[str]:
    """Say each figure the caller set, with its value."""
    return [f"given by the caller: {_said(machine, path)}" for path in machine.given]


def _said(machine: Machine, path: str) -> str:
    if "achievable" in path.split("."):
        return path if machine.use_achievable else f"{path}, which only counts with achievable"
    head, _, part = path.rpartition(".")
    unit = next((unit for unit in machine.units if unit.name == head), None)
    if unit is not None and part in unit.peaks:
        return f"{part} on {head} at {format_quantity(unit.peaks[part].value, 'FLOP/s')}"
    others: list[Memory | Link] = [*machine.memories, *machine.links]
    owner = unit or next((other for other in others if other.name == head), None)
    figure = machine.tdp if path == "tdp" else getattr(owner, part, None)
    if figure is None:
        return path
    name = head if part == "bandwidth" else path
    return f"{name} at {format_quantity(figure.value, _PARTS.get(part, 'W'))}"
