"""Whether a core is its own: what looks tell, on made-up looks and on this machine's own."""

from __future__ import annotations

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import MissingExtraError
from roofline.measurement import threads
from roofline.measurement.levels import OWN
from roofline.measurement.processor import this_processor
from roofline.measurement.threads import BATCH, HALF, CoreShare, clock, core_watch


@given(st.integers(0, 10**6), st.floats(0.0, 0.9))
def test_looks_tell_others_on_the_core_however_often_they_are_there(seed, busy):
    """Alone a look finds the same within 1 %; few are faster, for the clock changed; with others it takes half more."""
    chance = random.Random(seed)

    def look(there):
        odd = 0.8 if chance.random() < 0.0005 else 1.0
        return int(1e6 * odd * chance.uniform(1.0, 1.01) * (chance.uniform(1.4, 2.6) if there else 1.0)) << HALF

    core = CoreShare()
    core.learn(lambda: look(chance.random() < busy))
    assert core.of(look(False), look(False)) >= OWN
    assert core.of(look(False), look(True)) < OWN
    assert core.of(look(True), look(False)) < OWN


def test_nothing_is_judged_before_there_were_enough_looks():
    core = CoreShare()
    assert core.of(1000 << HALF) == core.of(5000 << HALF) == 1.0


def test_a_look_that_could_not_tell_is_no_proof():
    core = CoreShare()
    core.learn(lambda: 1000 << HALF)
    assert core.of(0, 1000 << HALF) == 0.0
    assert clock(0, 0) is None


def test_a_clock_too_coarse_for_most_looks_leaves_windows_alone():
    core = CoreShare()
    for number in range(4 * BATCH):
        core.of(1000 << HALF if number % 3 == 0 else 0)
    assert core.of(0, 0) == core.of(0, 1000 << HALF) == 1.0
    assert core.of(0, 2000 << HALF) == 0.5


def test_a_core_that_was_busy_at_first_is_known_later():
    """The first thousands of looks all met somebody; what they call alone does not last."""
    core = CoreShare()
    alone, shared = 1000 << HALF, 2000 << HALF
    core.learn(lambda: shared)
    assert core.of(shared) == 1.0
    for _ in range(2 * BATCH):
        core.of(alone)
    assert core.of(alone) == 1.0
    assert core.of(shared) == 0.5


def test_looks_on_this_machine_tell_what_part_is_its_own():
    """Whoever else is there: after a batch the core is known, the fastest look calls it its own, slow ones a part."""
    pytest.importorskip("llvmlite")
    found = [look for [look] in (core_watch().look(1) for _ in range(4 * BATCH)) if look]
    if len(found) < 2 * BATCH:
        pytest.skip("few looks can tell: this machine's clock is too coarse, or changed all the while")
    core = CoreShare()
    core.learn(iter(found).__next__)
    shares = [core.of(look) for look in sorted(found)]
    assert shares[0] == 1.0
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] > 0


def test_the_clock_of_a_look_is_that_of_a_chain_of_additions():
    """Each waits for the one before, so none takes less than a cycle, and no processor has ten of them a nanosecond."""
    pytest.importorskip("llvmlite")
    found = [hertz for _ in range(2000) if (hertz := clock(*core_watch().look(1))) is not None]
    if not found:
        pytest.skip("no look can tell: this machine's clock is too coarse, or changed all the while")
    assert min(found) > 0
    assert median(found) < 10e9


def test_every_core_of_a_call_is_watched():
    pytest.importorskip("llvmlite")
    core_watch.cache_clear()
    cores = core_watch()
    looks = [cores.look(2) for _ in range(2)]
    assert {len(one) for one in looks} == {min(2, len(this_processor({}).cores))}
    assert 0 <= cores.share(*looks) <= 1
    assert len(cores.look(1)) == len(cores.look(threads.MOST_WATCHED + 1)) == 1


def test_without_llvmlite_every_core_is_its_own(monkeypatch):
    def missing():
        raise MissingExtraError("llvmlite", "measure")

    monkeypatch.setattr(threads, "Compiler", missing)
    cores = threads.CoreWatch()
    assert cores.look(2) == ()
    assert cores.share((), ()) == 1.0
    assert cores.clock((), ()) is None
