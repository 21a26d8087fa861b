"""What is odd about a chip of the user's own: said in every answer, never in the way.

>>> from roofline.hardware import chip, override
>>> sparse = override(chip("h100"), {"bf16": 2 * 989.4e12})
>>> doubts(sparse, chip("h100"))[0]
'tensor.bf16 is exactly twice that of NVIDIA H100 SXM5 80GB: a sparse (or duplex) figure?'
>>> doubts(override(chip("h100"), {"bf16": 989}), None)[0]
'tensor.bf16 is 989 FLOP/s: is its unit missing?'
"""

from __future__ import annotations

from collections.abc import Iterator

from roofline.hardware.checks import check
from roofline.hardware.machine import Machine
from roofline.quantity import format_quantity

#: Below these nothing is of a machine: a figure so small was meant in another unit.
_LEAST = {"FLOP/s": 1e6, "B/s": 1e6, "B": 512.0, "Hz": 1e6}


def doubts(machine: Machine, base: Machine | None) -> tuple[str, ...]:
    """List figures without their unit, and those exactly twice the base chip's, or else what self-checks find."""
    known = set(check(base)) if base is not None else set()
    twice = tuple(_twice(machine, base)) if base is not None else ()
    found = twice or tuple(finding for finding in check(machine) if finding not in known)
    return (*_too_small(machine), *_without_peak(machine), *found)


def _too_small(machine: Machine) -> Iterator[str]:
    figures = [
        (path, value, "FLOP/s" if path.partition(".")[2] != "bandwidth" else "B/s") for path, value in _figures(machine)
    ]
    figures += [(f"{m.name}.capacity", m.capacity.value, "B") for m in machine.memories if m.capacity]
    figures += [(f"{u.name}.clock", u.clock.value, "Hz") for u in machine.units if u.clock]
    for path, value, unit in figures:
        if value < _LEAST[unit]:
            yield f"{path} is {format_quantity(value, unit)}: is its unit missing?"


def _without_peak(machine: Machine) -> Iterator[str]:
    """Say which FLOPs per clock make no peak, for want of a clock or of the number of cores."""
    for unit in machine.units:
        lacks = "clock" if unit.clock is None else "number of cores"
        names = [dtype for dtype in unit.per_clock if dtype not in unit.peaks]
        if names:
            yield f"{unit.name} has FLOP per clock in {', '.join(names)} and no {lacks}, so no peak"


def _twice(machine: Machine, base: Machine) -> Iterator[str]:
    before = dict(_figures(base))
    for path, value in _figures(machine):
        if path in before and abs(value / (2 * before[path]) - 1) <= 0.01:
            yield f"{path} is exactly twice that of {base.name}: a sparse (or duplex) figure?"


def _figures(machine: Machine) -> Iterator[tuple[str, float]]:
    for unit in machine.units:
        yield from ((f"{unit.name}.{dtype}", peak.value) for dtype, peak in unit.peaks.items())
    bandwidths = {m.name: m.bandwidth for m in machine.memories} | {x.name: x.bandwidth for x in machine.links}
    yield from ((f"{name}.bandwidth", figure.value) for name, figure in bandwidths.items() if figure is not None)
