"""What a catalog can check about itself: peaks against clocks, one dtype against another, fractions, levels.

>>> from roofline.hardware import chip
>>> check(chip("h100"))
[]
>>> check(chip("gb200"))[0]
'tensor.tf32: 1250 TFLOP/s, but 152 cores x 4096 FLOP/clk x 1.926 GHz is 1199 TFLOP/s (4.2 % off)'
>>> check(chip("h100", fp8="4 PFLOP/s"))[0]
'tensor.fp8: 4000 TFLOP/s, but 132 cores x 8192 FLOP/clk x 1.83 GHz is 1979 TFLOP/s (102.1 % off)'
"""

from __future__ import annotations

from collections.abc import Iterator

from roofline.hardware.machine import Machine, Unit

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


def check(machine: Machine) -> list[str]:
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
