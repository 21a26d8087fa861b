"""Whether a core is its own: what looks tell, on made-up looks and on this machine's own."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.measurement.core_share import BATCH, OWN, CoreShare
from roofline.measurement.machine_code import looks_here


@given(st.integers(0, 10**6), st.floats(0.0, 0.9))
def test_looks_tell_others_on_the_core_however_often_they_are_there(seed, busy):
    """Alone a look finds the same within 1 %; few are faster, for the clock changed; with others it takes half more."""
    chance = random.Random(seed)

    def look(there):
        odd = 0.8 if chance.random() < 0.0005 else 1.0
        return int(1e6 * odd * chance.uniform(1.0, 1.01) * (chance.uniform(1.4, 2.6) if there else 1.0))

    core = CoreShare()
    core.learn(lambda: look(chance.random() < busy))
    assert core.of(look(False), look(False)) >= OWN
    assert core.of(look(False), look(True)) < OWN
    assert core.of(look(True), look(False)) < OWN


def test_nothing_is_judged_before_there_were_enough_looks():
    core = CoreShare()
    assert core.of(1000) == core.of(5000) == 1.0


def test_a_look_that_could_not_tell_is_no_proof():
    core = CoreShare()
    core.learn(lambda: 1000)
    assert core.of(0, 1000) == 0.0


def test_a_core_that_was_busy_at_first_is_known_later():
    """The first thousands of looks all met somebody; what they call alone does not last."""
    core = CoreShare()
    core.learn(lambda: 2000)
    assert core.of(2000) == 1.0
    for _ in range(2 * BATCH):
        core.of(1000)
    assert core.of(1000) == 1.0
    assert core.of(2000) == 0.5


def test_looks_on_this_machine_agree_with_themselves():
    """However busy its cores are, the fastest looks are alike: the rest is somebody else's."""
    look, _ = looks_here()
    found = sorted(value for value in (look() for _ in range(20_000)) if value)
    if not found:
        pytest.skip("this machine's clock is too coarse for a look")
    fast = found[: max(len(found) // 500, 1)]
    assert fast[-1] < 1.2 * fast[len(fast) // 2]
