"""Which intensities are compute-bound at one bandwidth and not at another: the red, yellow and green of the book.

>>> found = zones("v5e", [4.1e11, 8.2e11], dtype="bf16")
>>> round(found.red_below, 1), round(found.green_from, 1)
(240.2, 480.5)
>>> found.zone(100), found.zone(300), found.zone(1000)
('red', 'yellow', 'green')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roofline.answers import Answer
from roofline.bounds.api import target
from roofline.bounds.question import Question
from roofline.errors import InputError
from roofline.hardware import override
from roofline.hardware.machine import Machine
from roofline.hardware.rate import data_level
from roofline.quantity import format_number, format_quantity, parse
from roofline.sections import Section, word_pairs


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Zones(Answer):
    """Ridges of one peak over several bandwidths, largest bandwidth first.

    Below ``red_below`` an intensity is memory-bound at every bandwidth; from ``green_from`` it is compute-bound at
    every one; between, it depends (yellow).
    """

    machine: Machine
    dtype: str
    peak: float
    bandwidths: tuple[float, ...]
    ridges: tuple[float, ...]

    @property
    def red_below(self) -> float:
        """The ridge at the largest bandwidth, FLOP/B."""
        return self.ridges[0]

    @property
    def green_from(self) -> float:
        """The ridge at the smallest bandwidth, FLOP/B."""
        return self.ridges[-1]

    def zone(self, intensity: float) -> str:
        """Name the zone of an intensity in FLOP/B."""
        return "red" if intensity < self.red_below else "green" if intensity >= self.green_from else "yellow"

    def to_dict(self) -> dict[str, Any]:
        """The zones under stable keys (schema ``roofline/zones/1``)."""
        return {
            "schema": "roofline/zones/1",
            "target": self.machine.name,
            "machine": self.machine.key,
            "dtype": self.dtype,
            "peak": self.peak,
            "bandwidths": list(self.bandwidths),
            "ridges": list(self.ridges),
            "red_below": self.red_below,
            "green_from": self.green_from,
        }

    def sections(self) -> tuple[Section, ...]:
        """The intensities of each zone."""
        return word_pairs(f"{self.dtype} at {format_quantity(self.peak, 'FLOP/s')}", self.machine.name, self._pairs())

    def _pairs(self) -> list[tuple[str, str]]:
        low, high = format_quantity(self.bandwidths[-1], "B/s"), format_quantity(self.bandwidths[0], "B/s")
        red, green = format_number(self.red_below), format_number(self.green_from)
        if self.green_from == self.red_below:
            return [("red", f"below {red} FLOP/B: memory-bound"), ("green", f"from {green} FLOP/B: compute-bound")]
        return [
            ("red", f"below {red} FLOP/B: memory-bound at every bandwidth"),
            ("yellow", f"{red} to {green} FLOP/B: compute-bound at {high}, memory-bound at {low}"),
            ("green", f"from {green} FLOP/B: compute-bound at every bandwidth"),
        ]

    def one_line(self) -> str:
        """Where red ends and green begins."""
        return f"Zones on {self.machine.name}: red below {self.red_below:.4g}, green from {self.green_from:.4g} FLOP/B"


def zones(on: str | Machine, bandwidths: Sequence[float | str] = (), *, dtype: str = "bf16", **choices: Any) -> Zones:
    """Find the ridge of each bandwidth (the machine's own where none is given); ``choices`` are those of a target."""
    machine = target(on, **choices)
    level = data_level(machine).name
    own = [m.bandwidth.value for m in machine.memories if m.name == level and m.bandwidth]
    wanted = sorted({parse(b, "B/s") for b in bandwidths} or set(own), reverse=True)
    if not wanted:
        raise InputError(f"{machine.name} has no bandwidth at {level}", hint="give one, as in bandwidths=[8.2e11]")
    asked = Question(machine=machine, raw={"intensity": 1.0, "dtype": dtype})
    answers = [asked.vary(machine=override(machine, {level: b})).answer() for b in wanted]
    ridges = [a.critical_intensity for a in answers]
    if any(r is None for r in ridges):
        raise InputError(f"{machine.name} has no peak for {dtype}", hint=f"give one, as in set={{{dtype!r}: 1e14}}")
    peak = next(u.rate.value for u in answers[0].uses if u.quantity == "flops")
    return Zones(machine, dtype, peak, tuple(wanted), tuple(float(r) for r in ridges if r is not None))
