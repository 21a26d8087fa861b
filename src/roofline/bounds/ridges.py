"""Ridges of a chip: its rules of thumb, and the zones of intensity between the ridges of several bandwidths.

>>> found = rules_of_thumb("v5e", set={"hbm": 8.2e11})
>>> [(r.name, round(r.value, 1)) for r in found if r.row == "hbm"][:2]
[('ridge bf16 over hbm', 240.2), ('ridge int8 over hbm', 479.3)]
>>> [(r.name, round(r.value, 1)) for r in found if r.group == "critical batch"][:2]
[('critical batch bf16 x bf16', 240.2), ('critical batch bf16 x int8', 120.1)]

Each rule is a question of the ordinary kind, so that it can be checked: ``solve`` gives the same widths.

The red, yellow and green zones of the book, for several bandwidths:

>>> found = zones("v5e", [4.1e11, 8.2e11], dtype="bf16")
>>> round(found.red_below, 1), round(found.green_from, 1)
(240.2, 480.5)
>>> found.zone(100), found.zone(300), found.zone(1000)
('red', 'yellow', 'green')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from roofline.answers import Fact, NoTime, attributes, heading, on_several
from roofline.bounds.api import question, target
from roofline.bounds.question import Question
from roofline.errors import HardwareError, InputError
from roofline.frozen import dataclass, replace
from roofline.hardware import override
from roofline.hardware.machine import Machine
from roofline.hardware.rate import data_level, find_link, main_level, ridge
from roofline.quantity import format_number, format_quantity, parse
from roofline.sections import Section, word_pairs
from roofline.signatures import either, setting, takes

#: Activation and weight formats of the critical batches.
MIXES = (
    ("bf16", "bf16"), ("fp16", "fp16"), ("bf16", "int8"), ("bf16", "int4"), ("fp8", "fp8"), ("int8", "int8"),
    ("fp32", "fp32"),
)  # fmt: skip

_LARGE = 2**40


@dataclass(frozen=True, slots=True)
class Rule:
    """One figure: ``value`` in ``unit``; ``group`` says what it is, ``row`` and ``column`` for which case.

    ``meaning`` is the sentence that all rules of the group share; ``dtype`` is what is computed in, where a rule is of
    one format.
    """

    group: str
    row: str
    column: str
    value: float
    unit: str
    meaning: str
    dtype: str = ""

    @property
    def name(self) -> str:
        """The rule in a few words: ``ridge bf16 over hbm``."""
        return f"{self.group} {self.column}" + (f" over {self.row}" if self.row else "")


RIDGE = "from this many FLOP/B arithmetic takes longer than loading"
BATCH = "tokens from which a wide matmul (activations x weights) is compute-bound"
WIDTH = "contracted bf16 size from which chips that split it stop waiting for {} (AllReduce by {})"

#: A matmul whose contracted size is split over chips, which add up the partial results.
SPLIT = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"


@takes(target)
def rules_of_thumb(on: str | Machine, **choices: Any) -> tuple[Rule, ...]:
    """List the rules of thumb of one chip; ``choices`` are those of a target (``set``, ``over``, ``unit`` …)."""
    return _rules(target(on, **choices))


@lru_cache(maxsize=256)
def _rules(machine: Machine) -> tuple[Rule, ...]:
    return (*_ridges(machine), *_critical_batches(machine), *_widths(machine))


def _ridges(machine: Machine) -> Iterator[Rule]:
    """peak ÷ bandwidth for every level and every dtype; the matrix unit's where both units have the dtype."""
    for memory in (m for m in machine.memories if m.bandwidth is not None):
        seen: set[str] = set()
        for unit in machine.matrix_first:
            for dtype in (d for d in unit.peaks if d not in seen):
                seen.add(dtype)
                found = ridge(machine, dtype, memory.name, unit.name)
                if found is not None:
                    yield Rule("ridge", memory.name, dtype, found, "FLOP/B", RIDGE, dtype)


def _critical_batches(machine: Machine) -> Iterator[Rule]:
    """The batch at which a wide matmul's intensity reaches the ridge, of formats that the machine computes in."""
    for (left, right), batch, runs_as in _wide_matmuls(machine):
        if runs_as == left and batch is not None:
            yield Rule("critical batch", "", f"{left} x {right}", batch, "tokens", BATCH, left)


def run_wider(machine: Machine) -> dict[str, str]:
    """The formats of activations that a machine has no arithmetic in, with the wider ones that their products run in.

    They have no critical batch among the rules of thumb.

    >>> from roofline.hardware import chip
    >>> run_wider(chip("a100")), run_wider(chip("t4"))
    ({'fp8': 'bf16'}, {'bf16': 'fp32', 'fp8': 'fp16'})
    """
    return {left: runs_as for (left, _), _, runs_as in _wide_matmuls(machine) if runs_as not in (None, left)}


@lru_cache(maxsize=8)
def _wide_matmuls(machine: Machine) -> tuple[tuple[tuple[str, str], float | None, str | None], ...]:
    """By pair of formats, the rows from which a wide matmul is compute-bound, and the format its products run in."""
    found = []
    for left, right in MIXES if main_level(machine).bandwidth is not None else ():
        text = f"{left}[B, D] * {right}[D, F] -> {left}[B, F]"
        answer = Question(machine=machine, text=text, sizes={"B": 1, "D": _LARGE, "F": _LARGE}).answer()
        batch = None if answer.critical_intensity is None else answer.critical_intensity / answer.intensity
        found.append(((left, right), batch, next((u.dtype for u in answer.uses if u.quantity == "flops"), None)))
    return tuple(found)


def _widths(machine: Machine) -> Iterator[Rule]:
    """The contracted size at which arithmetic takes as long as the AllReduce, for several numbers of chips.

    T_math grows in proportion to D, and T_comms does not depend on it: they are equal at D = D₀ · T_comms/T_math.
    At two chips this is the exchange of the book's chapter 1.
    """
    link = find_link(machine, "link")
    if link is None or link.bandwidth is None or not any("bf16" in unit.peaks for unit in machine.units):
        return
    bare = replace(machine, shape=(), slices=1, mesh=None)
    widths: dict[int, float] = {}
    algorithms: dict[str, None] = {}
    for chips in (n for n in (2, 4, 8) if link.domain is None or n <= link.domain):
        sizes = dict.fromkeys(("B", "D", "F"), _LARGE)
        try:
            answer = question(SPLIT, on=bare, mesh={"X": chips}, sizes=sizes).answer()
        except HardwareError:
            continue  # how so many of them are joined is not known
        collective = next(part.op for part in answer.ops if part.op.kind == "collective")
        algorithms |= dict.fromkeys(collective.options["algorithms"])
        if answer.comms_over_math is not None:
            widths[chips] = float(answer.comms_over_math * _LARGE)
    meaning = WIDTH.format(link.name, " or ".join(algorithms))
    yield from (Rule("width", "", f"{chips} chips", width, "elements", meaning) for chips, width in widths.items())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Zones(NoTime):
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

    @property
    def target(self) -> str:
        """The machine, as a person reads it."""
        return self.machine.name

    def facts(self) -> Iterator[Fact]:
        yield Fact("red below, FLOP/B", self.red_below)
        yield Fact("green from, FLOP/B", self.green_from)
        yield Fact(f"{self.dtype} peak", self.peak, "FLOP/s", "more")
        yield Fact("highest bandwidth", self.bandwidths[0], "B/s", "more")
        yield Fact("lowest bandwidth", self.bandwidths[-1], "B/s", "more")

    @property
    def subject(self) -> str:
        return f"ridge of {self.dtype}"

    def to_dict(self) -> dict[str, Any]:
        """The zones under stable keys (schema ``roofline/zones/1``)."""
        figures = attributes(self, "dtype", "peak", "bandwidths", "ridges", "red_below", "green_from")
        return {**heading("roofline/zones/1", self.machine), **figures}

    def sections(self) -> tuple[Section, ...]:
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
        return f"Zones on {self.machine.name}: red below {self.red_below:.4g}, green from {self.green_from:.4g} FLOP/B"


@on_several
@takes(target)
def zones(on: str | Machine, bandwidths: Sequence[float | str] = (), *, dtype: str = "bf16", **choices: Any) -> Zones:
    """Find the ridge of each bandwidth (the machine's own where none is given); ``choices`` are those of a target."""
    machine = target(on, **choices)
    level = data_level(machine).name
    own = [m.bandwidth.value for m in machine.memories if m.name == level and m.bandwidth]
    wanted = sorted({parse(b, "B/s") for b in bandwidths} or set(own), reverse=True)
    if not wanted:
        hint = f"give one, as in {either('--bandwidth 8.2e11', 'bandwidths=[8.2e11]')}"
        raise InputError(f"{machine.name} has no bandwidth at {level}", hint=hint)
    asked = Question(machine=machine, raw={"intensity": 1.0, "dtype": dtype})
    answers = [asked.vary(machine=override(machine, {level: b})).answer() for b in wanted]
    ridges = [a.critical_intensity for a in answers]
    if any(r is None for r in ridges):
        hint = f"give one, as in {setting(dtype, '1e14')}"
        raise InputError(f"{machine.name} has no peak for {dtype}", hint=hint)
    peak = next(u.rate.value for u in answers[0].uses if u.quantity == "flops")
    return Zones(machine, dtype, peak, tuple(wanted), tuple(float(r) for r in ridges if r is not None))
