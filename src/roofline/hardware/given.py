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
    head, _, part = path.rpartition(".")
    if "achievable" in (head.rpartition(".")[2], part):
        counts = "" if machine.use_achievable else ", which only counts with achievable"
        return f"{path} at {_fraction(machine, path):g}{counts}"
    unit = next((unit for unit in machine.units if unit.name == head), None)
    if unit is not None and part in unit.peaks:
        return f"{part} on {head} at {format_quantity(unit.peaks[part].value, 'FLOP/s')}"
    figure = machine.tdp if path == "tdp" else getattr(unit or _level(machine, head), part, None)
    if figure is None:
        return path
    name = head if part == "bandwidth" else path
    return f"{name} at {format_quantity(figure.value, _PARTS.get(part, 'W'))}"


def _fraction(machine: Machine, path: str) -> float:
    """The fraction of a level's bandwidth, of one peak of a unit, or of all of them."""
    head, _, dtype = path.partition(".achievable")
    unit = next((unit for unit in machine.units if unit.name == head), None)
    if unit is None:
        level = _level(machine, head)
        return 1.0 if level is None or level.achievable is None else level.achievable.value
    return unit.achievable[dtype[1:] or next(iter(unit.peaks))].value


def _level(machine: Machine, name: str) -> Memory | Link | None:
    levels: list[Memory | Link] = [*machine.memories, *machine.links]
    return next((level for level in levels if level.name == name), None)
