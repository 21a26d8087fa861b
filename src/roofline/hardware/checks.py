"""What is odd about a machine's figures: self-checks of the catalog, and doubts about a chip of the user's own.

>>> from roofline.hardware import chip, override
>>> check_figures(chip("h100"))
[]
>>> check_figures(chip("gb200"))[0]
'tensor.tf32: 1250 TFLOP/s, but 152 cores x 4096 FLOP/clk x 1.926 GHz is 1199 TFLOP/s (4.2 % off)'
>>> check_figures(chip("h100", fp8="4 PFLOP/s"))[0]
'tensor.fp8: 4000 TFLOP/s, but 132 cores x 8192 FLOP/clk x 1.83 GHz is 1979 TFLOP/s (102.1 % off)'

Doubts are said in every answer and stop nothing:

>>> sparse = override(chip("h100"), {"bf16": 2 * 989.4e12})
>>> doubtful_figures(sparse, chip("h100"))[0]
'tensor.bf16 is exactly twice that of NVIDIA H100 SXM5 80GB: a sparse (or duplex) figure?'
>>> doubtful_figures(override(chip("h100"), {"bf16": 989}), None)[0]
'tensor.bf16 is 989 FLOP/s: is its unit missing?'
"""

from __future__ import annotations

from collections.abc import Iterator

from roofline.hardware.machine import Machine, Unit
from roofline.quantity import format_quantity
from roofline.statements import Assumption, assume

#: How far a peak may lie from what it is held against.
TOLERANCE = 0.02

#: dtype, what it is held against (the first that is listed), the ratio a matrix unit has unless declared irregular.
RATIOS: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("fp8", ("bf16", "fp16"), 2.0),
    ("int8", ("bf16", "fp16"), 2.0),
    ("int4", ("int8",), 2.0),
    ("fp4", ("fp8",), 2.0),
    ("tf32", ("bf16", "fp16"), 0.5),
    ("bf16", ("fp16",), 1.0),
)


def check_figures(machine: Machine) -> list[str]:
    """Return what does not fit together in a machine's figures, one line each; nothing means nothing was found."""
    return [
        *(line for unit in machine.units for line in _against_clock(machine, unit)),
        *(line for unit in machine.units if unit.kind == "matrix" for line in _against_each_other(unit)),
        *_inner_levels(machine),
    ]


def _against_clock(machine: Machine, unit: Unit) -> Iterator[str]:
    """Hold peak against cores x FLOP per clock x clock."""
    if machine.cores is None or unit.clock is None:
        return
    for dtype, per_clock in unit.per_clock.items():
        peak = unit.peaks.get(dtype)
        expected = machine.cores * per_clock.value * unit.clock.value
        if peak is not None and abs(peak.value / expected - 1) > TOLERANCE:
            yield (
                f"{unit.name}.{dtype}: {peak.value / 1e12:.4g} TFLOP/s, but {machine.cores} cores x "
                f"{per_clock.value:g} FLOP/clk x {unit.clock.value / 1e9:.4g} GHz is {expected / 1e12:.4g} TFLOP/s "
                f"({100 * abs(peak.value / expected - 1):.1f} % off)"
            )


def _against_each_other(unit: Unit) -> Iterator[str]:
    """Hold fp8 against 2 x bf16, and so on."""
    for dtype, others, ratio in RATIOS:
        other = next((name for name in others if name in unit.peaks), None)
        if dtype not in unit.peaks or other is None or dtype in unit.irregular:
            continue
        found = unit.peaks[dtype].value / unit.peaks[other].value
        if abs(found / ratio - 1) > TOLERANCE:
            yield f"{unit.name}.{dtype} is {found:.3g} x {other}, not {ratio:g} x, and not declared irregular"


def _inner_levels(machine: Machine) -> Iterator[str]:
    """Hold each inner level against the main one: it should not be slower."""
    own = [memory for memory in machine.memories if not memory.link and memory.bandwidth is not None]
    for inner in own[1:]:
        outer, slower = own[0].bandwidth, inner.bandwidth
        if outer is not None and slower is not None and slower.value < outer.value:
            yield f"{inner.name} is slower than {own[0].name}: {slower.value:.3g} against {outer.value:.3g} B/s"


#: Below these nothing is of a machine: a figure so small was meant in another unit.
_LEAST = {"FLOP/s": 1e6, "B/s": 1e6, "B": 512.0, "Hz": 1e6}


def doubtful_figures(machine: Machine, base: Machine | None) -> tuple[Assumption, ...]:
    """List figures without their unit, and those exactly twice the base chip's, or else what self-checks find."""
    known = set(check_figures(base)) if base is not None else set()
    twice = tuple(_twice(machine, base)) if base is not None else ()
    found = twice or tuple(finding for finding in check_figures(machine) if finding not in known)
    return tuple(assume("machine", (*_too_small(machine), *_without_peak(machine), *found)))


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
