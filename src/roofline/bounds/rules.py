"""A chip's rules of thumb: ridges, critical batches, the width from which several chips stop waiting.

>>> found = rules_of_thumb("v5e", set={"hbm": 8.2e11})
>>> [(r.name, round(r.value, 1)) for r in found if r.name.startswith(("ridge", "critical batch bf16 x int8"))][:2]
[('ridge bf16 over hbm', 240.2), ('ridge int8 over hbm', 479.3)]

Each rule is a question of the ordinary kind, asked and solved like any other, so that it can be checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from roofline.bounds.api import target
from roofline.bounds.question import Question
from roofline.errors import DTypeError
from roofline.hardware.machine import Machine
from roofline.hardware.rate import main_level

#: Activation and weight formats of the critical batches.
MIXES = (("bf16", "bf16"), ("bf16", "int8"), ("bf16", "int4"), ("fp8", "fp8"), ("int8", "int8"), ("fp32", "fp32"))

_LARGE = 2**40


@dataclass(frozen=True, slots=True)
class Rule:
    """One figure: ``value`` in ``unit``, ``meaning`` in words."""

    name: str
    value: float
    unit: str
    meaning: str


def rules_of_thumb(on: str | Machine, **choices: Any) -> tuple[Rule, ...]:
    """List the rules of thumb of one chip; ``choices`` are those of a target (``set``, ``over``, ``unit`` …)."""
    machine = target(on, **choices)
    return (*_ridges(machine), *_critical_batches(machine), *_widths(machine))


def _ridges(machine: Machine) -> Iterator[Rule]:
    for unit in machine.units:
        for memory in machine.memories:
            if memory.bandwidth is None:
                continue
            for dtype, peak in unit.peaks.items():
                yield Rule(
                    f"ridge {dtype} over {memory.name}" + ("" if unit is machine.units[0] else f" on {unit.name}"),
                    peak.value / memory.bandwidth.value,
                    "FLOP/B",
                    f"{dtype} on {unit.name} is compute-bound from this intensity when data comes from {memory.name}",
                )


def _critical_batches(machine: Machine) -> Iterator[Rule]:
    if all(m.bandwidth is None for m in machine.memories if m.name == main_level(machine).name):
        return
    for left, right in MIXES:
        text = f"{left}[B, D] * {right}[D, F] -> {left}[B, F]"
        try:
            answer = Question(machine=machine, text=text, sizes={"B": 1, "D": _LARGE, "F": _LARGE}).answer()
        except DTypeError:
            continue
        runs_as = next((u.dtype for u in answer.uses if u.quantity == "flops"), None)
        if runs_as != left or answer.critical_intensity is None:
            continue
        per_token = answer.intensity
        yield Rule(
            f"critical batch {left} x {right}",
            answer.critical_intensity / per_token,
            "tokens",
            f"a wide matmul of {left} activations with {right} weights is compute-bound from this many tokens",
        )


def _widths(machine: Machine) -> Iterator[Rule]:
    """Two chips that split a contraction send 2BF bytes each: AllReduce 2(n−1)/n·2BF bytes in one direction.

    T_math = 2BDF/(n·P), T_comms = 2·(n−1)/n·2BF/W, so D > 2·(n−1)·P/W in bf16 (one-way ring); at n = 2 this is the
    exchange of the book's chapter 1, D > 2·P/W.
    """
    link = next((item for item in machine.links if item.bandwidth is not None), None)
    peak = next((u.peaks["bf16"] for u in machine.units if "bf16" in u.peaks), None)
    if link is None or link.bandwidth is None or peak is None:
        return
    for chips in (2, 4, 8):
        if link.domain is not None and chips > link.domain:
            continue
        yield Rule(
            f"width for {chips} chips",
            2 * (chips - 1) * peak.value / link.bandwidth.value,
            "elements",
            f"{chips} chips splitting a bf16 contraction stop waiting for {link.name} from this contracted size "
            "(one-way ring AllReduce of the partial sums)",
        )
