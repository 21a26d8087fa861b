"""A short run of every law; ``make laws`` runs them for long."""

from __future__ import annotations

import random

import pytest

from tests.laws.registry import LAWS
from tests.strategies import LONG


@pytest.mark.parametrize("says", LAWS)
def test_a_law_holds(says: str) -> None:
    made = sum(LAWS[says](random.Random(seed)) for seed in range(200 if LONG else 6))
    assert made > 0
