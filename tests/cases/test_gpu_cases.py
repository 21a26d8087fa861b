"""The book's questions about GPUs as chips: chapter 12's tables, cores, registers and matmuls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roofline import chip
from roofline.errors import HardwareError
from roofline.hardware.cores import count_units, flops_per_cycle, register_bytes, resident_warps
from roofline.hardware.rate import main_level, ridge
from tests.cases import left_open
from tests.cases.test_one_chip_cases import check

DATA = Path(__file__).parent.parent / "data" / "book_cases_gpus.json"
CASES = {case["id"]: case for case in json.loads(DATA.read_text(encoding="utf-8"))["cases"]}


def row(key: str, capacity: float, **figures: float) -> dict[str, Any]:
    """A row of the book's table, whose figures stand in for the catalog's."""
    machine = chip(key, **{"hbm.capacity": capacity, **figures})
    memory = main_level(machine)
    assert memory.capacity is not None
    assert memory.bandwidth is not None
    peaks = machine.units[0].peaks
    assert peaks["fp8"].value == peaks["int8"].value
    return {
        "mem": memory.capacity.value / 1e9,
        "hbm": memory.bandwidth.value,
        "bf16": peaks["bf16"].value,
        "fp8_int8": peaks["fp8"].value,
        "critical_intensity": ridge(machine, "bf16"),
    }


def capacities() -> dict[str, Any]:
    """The book takes 256 KiB of shared memory for an SM, its L1 included, as much as it has registers."""
    total = register_bytes(chip("h100"))
    assert total is not None
    return {"each": total / 1.024e6, "both": 2 * total / 1.024e6}


H200 = {"hbm": 4.8e12, "bf16": 9.9e14, "fp8": 2e15, "int8": 2e15}
ANSWERS: dict[str, Callable[[], dict[str, Any]]] = {
    "gpus.spec.h100": lambda: row("h100", 80e9, hbm=3.4e12, bf16=9.9e14, fp8=2e15, int8=2e15),
    "gpus.spec.h200": lambda: row("h200", 141e9, **H200),
    "gpus.spec.b200": lambda: row("b200", 192e9, hbm=8e12, bf16=2.3e15, fp8=4.5e15, int8=4.5e15),
    "gpus.q1.5": capacities,
}


def entries() -> Iterator[Any]:
    for case_id, case in CASES.items():
        for entry in left_open(case):
            yield pytest.param(case_id, entry, id=f"{case_id}-{entry['name']}")


@pytest.mark.parametrize(("case_id", "entry"), list(entries()))
def test_case(case_id: str, entry: dict[str, Any]) -> None:
    check(entry, ANSWERS[case_id]()[entry["name"]])


def test_every_case_is_answered() -> None:
    assert set(ANSWERS) >= {key for key, case in CASES.items() if left_open(case)}


def test_what_is_not_known_is_no_number() -> None:
    assert count_units(chip("mi300x"), "vector") is None
    assert register_bytes(chip("v5p")) is None
    assert resident_warps(chip("v5p"), 256) is None
    assert flops_per_cycle(chip("h100"), "tensor", "fp4") is None
    with pytest.raises(HardwareError, match="NVIDIA H100 SXM5 80GB has no unit 'mxu'; its units are: tensor, cuda"):
        count_units(chip("h100"), "mxu")
