"""Chips that share work evenly over links that cost nothing, as one machine: the floor of any way to split.

>>> from roofline.hardware import chip
>>> sixteen = pool(chip("v5e"), 16)
>>> sixteen.name, sixteen.memories[0].bandwidth.value / chip("v5e").memories[0].bandwidth.value
('16 x TPU v5e sharing evenly', 16.0)
"""

from __future__ import annotations

from dataclasses import replace

from roofline.errors import InputError
from roofline.hardware.machine import Figure, Machine
from roofline.sizes import check
from roofline.statements import Assumption


def pool(machine: Machine, chips: int) -> Machine:
    """One machine with the peaks, bandwidths and capacities of ``chips`` together; what joins them is left out."""
    check("pool", chips)
    if chips == 1:
        return machine
    if machine.shape:
        raise InputError(
            f"{machine.key} has a shape, and the {chips} chips of a pool have none", hint=f"say on {machine.key}"
        )
    if machine.over == "warm":
        raise InputError("a pool of chips has no warm data", hint="leave warm out")

    def all_of(figure: Figure | None) -> Figure | None:
        if figure is None:
            return None
        return replace(figure, value=figure.value * chips, note=f"{chips} times one chip's")

    units = tuple(
        replace(unit, peaks={name: replace(f, value=f.value * chips) for name, f in unit.peaks.items()})
        for unit in machine.units
    )
    memories = tuple(
        replace(m, bandwidth=all_of(m.bandwidth), capacity=all_of(m.capacity), curve=()) for m in machine.memories
    )
    tdp = all_of(machine.tdp)
    note = Assumption("machine", f"{chips} chips share everything evenly, and what joins them costs nothing")
    name = f"{chips} x {machine.name} sharing evenly"
    notes = (*machine.notes, note)
    return replace(
        machine, name=name, units=units, memories=memories, tdp=tdp, links=(), mesh=None, notes=notes,
        pooled=machine.pooled * chips, alone=machine.alone or machine,
    )  # fmt: skip
