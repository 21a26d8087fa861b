"""The list of all counting cases: how many, how many pass, which are excepted and why, which are suspect."""

from __future__ import annotations

import pytest

import roofline
from roofline.errors import QuantityError
from tests.programs.counter_cases import CASES, CONTROL_FLOW, EXCEPTED, JAX, SUSPECT, TORCH, XLA


def test_every_case_has_one_home():
    homes = {"torch": TORCH, "jax": JAX, "xla": XLA, "control flow": CONTROL_FLOW, "suspect": SUSPECT}
    assert {name: len(home) for name, home in homes.items()} == {
        "torch": 74, "jax": 91, "xla": 16, "control flow": 2, "suspect": 11,
    }  # fmt: skip
    numbers = [case["number"] for home in homes.values() for case in home]
    assert sorted(numbers) == list(range(194))
    assert len(CASES) == 194


def test_at_most_ten_are_excepted_each_with_its_reason():
    excepted = [case for case in CASES if case["number"] in EXCEPTED]
    assert len(excepted) == len(EXCEPTED) == 6
    assert not any(case.get("suspect") for case in excepted)
    assert len(CASES) - len(excepted) - len(SUSPECT) == 177


def test_a_memory_without_bandwidth_has_no_ridge():
    """The last suspect case: a tool answers 0; nothing can be read, so there is no ridge to speak of."""
    (case,) = [c for c in SUSPECT if c["source"].startswith("openxla")]
    assert case["expected_ridge"] == 0
    with pytest.raises(QuantityError, match="hbm: '0 B/s' is zero; expected a bandwidth"):
        roofline.bound(flops=1e12, bytes=1e9, dtype="fp32", unit="vector", on="h100", set={"hbm": "0 B/s"})
