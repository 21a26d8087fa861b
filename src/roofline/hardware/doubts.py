"""What is odd about a chip of the user's own: said in every answer, never in the way.

>>> from roofline.hardware import chip, override
>>> sparse = override(chip("h100"), {"bf16": 2 * 989.4e12})
>>> doubts(sparse, chip("h100"))[0]
'tensor.bf16 is exactly twice that of NVIDIA H100 SXM5 80GB: a sparse (or duplex) figure?'
"""

from __future__ import annotations

from collections.abc import Iterator

from roofline.hardware.checks import check
from roofline.hardware.machine import Machine


def doubts(machine: Machine, base: Machine | None) -> tuple[str, ...]:
    """List figures exactly twice those of the chip a machine builds on, or else what its self-checks find."""
    known = set(check(base)) if base is not None else set()
    twice = tuple(_twice(machine, base)) if base is not None else ()
    return twice or tuple(finding for finding in check(machine) if finding not in known)


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
