"""A short run of ``make agreement``: number = array = symbol = compiled = Python = JavaScript, some of each kind."""

from __future__ import annotations

import random

import pytest

from tests.formulas.agreement import GROUPS, agree
from tests.strategies import LONG

#: Formulas that are made in a short run, and sizes at which each is tried.
SHORT = {"lines": 16, "collectives": 5, "split lines": 4, "serving": 1, "training": 1, "programs": 1}


@pytest.mark.parametrize("group", GROUPS)
def test_number_equals_every_evaluator(group: str) -> None:
    found = agree(group, random.Random(16), 12 if LONG else 1, None if LONG else SHORT[group])
    assert not found.wrong, "\n".join([f"{len(found.wrong)} differ", *found.wrong[:12]])
    assert found.questions > 0
    assert len(found.without) <= 0.05 * found.questions, found.without
