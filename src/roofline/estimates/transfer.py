"""Constants for a chip that has none of its own: from which chips, by which rule, and how far off that was.

Chips of one generation and one kind of main memory run the same kernels on the same cores, so constants hold as they
are: rates inside a core are absolute, memory is that of the data sheet. Another generation has other kernels. There::

    time     = exp(Σ weight · log time of each chip's constants),     weight ∝ 2^(−distance)
    distance = generations between the chips + (1 where one has stacked memory and the other has not)
    a rate that feeds a core's arithmetic grows with the core's peak (``ModelConstant.with_peak``)

``transfers.toml`` holds the residuals of this rule on chips whose rows were left out, by kind of kernel; an interval
comes from it. A kind of kernel that was measured on one chip alone says nothing of another generation: no promise.

>>> from roofline.hardware import chip
>>> distance(chip("h200"), chip("h100")), distance(chip("b200"), chip("h100")), distance(chip("b200"), chip("a100"))
(0, 1, 2)
>>> distance(chip("b200"), chip("rtx-pro-6000")), distance(chip("a10"), chip("l40s"))
(1, 1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from roofline.estimates.constants import four_digits
from roofline.estimates.kernels import ChipFigures, KernelModel, Values
from roofline.files import read_toml, toml_value, write_text
from roofline.hardware import chip
from roofline.hardware.machine import Machine

#: Families of chips in the order of their generations; those of one row are of one.
GENERATIONS: tuple[tuple[str, ...], ...] = (
    ("nvidia-pascal",),
    ("nvidia-volta",),
    ("nvidia-turing",),
    ("nvidia-ampere",),
    ("nvidia-ada", "nvidia-hopper"),
    ("nvidia-blackwell",),
    ("nvidia-rubin",),
)
#: Distance of a family of the same vendor that stands in no order.
UNORDERED = 3
FILE = Path(__file__).with_name("transfers.toml")
#: Where constants come from, in words.
SAME, OTHER = "its generation", "another generation"


@dataclass(frozen=True, slots=True)
class Transfer:
    """How far estimates were off on chips whose rows were left out: interval of measured ÷ estimate, errors, rows."""

    kernel: str
    to: str
    interval: tuple[float, float]
    error: Mapping[str, float]
    source: str


@cache
def transfers() -> tuple[Transfer, ...]:
    """What was measured of constants on chips that they were not fitted to."""
    return tuple(
        Transfer(one["kernel"], one["to"], (one["interval"][0], one["interval"][1]), one["error"], one["source"])
        for one in read_toml(FILE, "file of constants")["transfer"]
    )


def write_transfers(found: Sequence[Transfer]) -> None:
    """Write residuals to the file of the package; those of other kinds that it holds stay."""
    new = {(one.kernel, one.to): one for one in found}
    kept = [new.pop((one.kernel, one.to), one) for one in transfers()]
    lines = ["# Made by python -m benchmarks.estimates; see docs/accuracy.md."]
    for one in (*kept, *new.values()):
        errors = {name: four_digits(value) for name, value in one.error.items()}
        held = {
            "kernel": one.kernel,
            "to": one.to,
            "interval": [four_digits(end) for end in one.interval],
            "error": errors,
            "source": one.source,
        }
        lines += ["", "[[transfer]]", *(f"{name} = {toml_value(value)}" for name, value in held.items())]
    write_text(FILE, "\n".join(lines) + "\n")


def transfer(kernel: str, to: str) -> Transfer | None:
    """The residuals of a kind of kernel; within a generation those of products stand for kinds without their own."""
    found = {one.kernel: one for one in transfers() if one.to == to}
    return found.get(kernel, found.get("contraction") if to == SAME else None)


def distance(one: Machine, other: Machine) -> int:
    """How far two chips of a vendor are apart: generations between them, and one more for another kind of memory."""
    return _generations(one.family, other.family) + (one.memories[0].name != other.memories[0].name)


def _generations(one: str, other: str) -> int:
    if one == other:
        return 0
    places = {family: place for place, row in enumerate(GENERATIONS) for family in row}
    if one not in places or other not in places:
        return UNORDERED
    return abs(places[one] - places[other])


def weights(machine: Machine, chips: Iterable[str]) -> dict[str, float]:
    """Weight of each measured chip's constants for a machine, the nearest first; those of its generation stand alone.

    >>> from roofline.hardware import chip
    >>> weights(chip("h200"), ["a100", "h100"])
    {'h100': 1.0}
    >>> {name: round(weight, 2) for name, weight in weights(chip("b200"), ["a100", "h100", "l40s"]).items()}
    {'h100': 0.5, 'a100': 0.25, 'l40s': 0.25}
    """
    far = {key: distance(machine, chip(key)) for key in dict.fromkeys(chips)}
    near = [key for key, steps in far.items() if steps == 0]
    ranked = near[:1] or sorted(far, key=lambda key: (far[key], chip(key).memories[0].name != machine.memories[0].name))
    total = sum(2.0 ** -far[key] for key in ranked)
    return {key: 2.0 ** -far[key] / total for key in ranked}


def on_another_chip(model: KernelModel, values: Values, source: ChipFigures, target: ChipFigures) -> dict[str, float]:
    """Constants of one chip for one of another generation: rates that feed the arithmetic grow with a core's peak."""
    if not source.matrix_peak or not target.matrix_peak:
        return dict(values)
    grown = (target.matrix_peak / target.cores) / (source.matrix_peak / source.cores)
    return {one.name: values[one.name] * (grown if one.with_peak else 1.0) for one in model.constants}


def mixed(times: Sequence[Any], shares: Sequence[float]) -> Any:
    """The weighted geometric mean of times.

    >>> float(mixed([1.0, 4.0], [0.5, 0.5]))
    2.0
    """
    import numpy as np

    return np.exp(sum(share * np.log(time) for time, share in zip(times, shares, strict=True)))
