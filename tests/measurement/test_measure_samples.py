"""Statistics on samples whose answer is known: what counts, what is doubted, and that the answer is robust."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.measurement import probes
from roofline.measurement.levels import ALONE, CLEAN, SHARED, Sample, quantile, round_agreement, summarise, two_modes
from roofline.measurement.probes import Probe, sample


def samples(values, share=1.0, threads=2):
    return [Sample(value, (1.0,) * (threads - 1) + (share,)) for value in values]


def test_only_windows_in_which_every_thread_ran_count():
    found = summarise([samples([100, 101, 102]) + samples([400, 10, 10], share=0.9)])
    assert (found.value, found.samples, found.clean) == (101, 3, 0.5)


def test_one_slow_thread_is_enough_to_drop_a_window():
    assert not Sample(1.0, (1.0, CLEAN - 0.001)).clean
    assert Sample(1.0, (1.0, CLEAN)).clean


def test_the_best_round_counts_and_its_quartiles():
    found = summarise([samples([50, 51, 52]), samples([98, 100, 102, 104, 106]), samples([70, 70, 70])])
    assert (found.value, found.low, found.high) == (102, 100, 104)


def test_a_round_with_one_lucky_sample_is_not_the_best():
    lucky = samples([500]) + samples([100] * 9, share=0.5)
    found = summarise([samples([100, 101, 102, 100, 101]), lucky])
    assert found.value == 101


def test_the_least_time_is_the_best_round():
    found = summarise([samples([5.0, 5.1, 5.2]), samples([3.0, 3.1, 3.2])], smaller_is_better=True)
    assert found.value == 3.1


def test_without_a_clean_window_the_nearest_stand_in_and_it_is_said():
    found = summarise([samples([10, 20, 30, 40], share=0.5) + samples([90], share=0.9)])
    assert found.value == 90
    assert not found.confirmed
    assert found.doubts[0] == "no window in which every thread ran: a lower limit"


def test_two_states_are_said():
    found = summarise([samples([100e9, 101e9, 100e9, 101e9, 60e9, 61e9, 60e9, 61e9])], unit="B/s")
    assert found.doubts == ("two states: around 60.5 GB/s and 100 GB/s",)
    rounds = [samples([0.00334] * 5), samples([0.0042] * 5), samples([0.0042] * 5)]
    apart = summarise(rounds, smaller_is_better=True, unit="s").doubts[-1]
    assert apart == "rounds apart: from 3.34 ms, a quarter of them beyond 4.2 ms"


def test_a_value_above_theory_is_said():
    assert summarise([samples([120] * 5)], per_cycle=50, clock=2).doubts == ("1.20 of what theory allows",)
    assert summarise([samples([102] * 5)], per_cycle=50, clock=2).doubts == ()


def test_theory_goes_by_the_clock_of_the_windows_themselves():
    """Tiles take the clock down: what is 95 % of the clock measured before is all of the one there was."""
    found = summarise([[Sample(95.0, (1.0,), 1.0, 1.9)] * 5], per_cycle=50, clock=2.0)
    assert (found.clock, found.doubts) == (1.9, ())
    beyond = summarise([[Sample(95.0, (1.0,), 1.0, 1.7)] * 5], per_cycle=50, clock=2.0)
    assert beyond.doubts == ("1.12 of what theory allows",)


def test_an_idle_thread_is_named():
    idle = [Sample(50.0, (1.0, 0.02)) for _ in range(8)]
    assert "thread 1 was idle or taken away most of the time" in summarise([idle]).doubts


def test_no_samples_is_no_summary():
    assert summarise([]) is None
    assert summarise([[], []]) is None


@given(st.integers(0, 10**6), st.floats(0.2, 0.8))
def test_interference_in_some_windows_does_not_move_the_answer(seed, busy):
    """Windows that others disturbed are slower and not clean; those left say the quiet rate within 2 %."""
    chance = random.Random(seed)
    rounds = []
    for _ in range(3):
        one = [Sample(100 * chance.uniform(0.99, 1.01), (1.0, 1.0)) for _ in range(3)]
        for _ in range(12):
            if chance.random() < busy:
                one.append(Sample(100 * chance.uniform(0.2, 0.9), (1.0, chance.uniform(0.2, 0.96))))
            else:
                one.append(Sample(100 * chance.uniform(0.99, 1.01), (1.0, chance.uniform(CLEAN, 1.0))))
        rounds.append(one)
    assert summarise(rounds).value == pytest.approx(100, rel=0.02)


@given(st.lists(st.floats(1, 1e12), min_size=1, max_size=30))
def test_quartiles_lie_in_order_and_within_the_values(values):
    low, middle, high = (quantile(values, at) for at in (0.25, 0.5, 0.75))
    assert min(values) <= low <= middle <= high <= max(values)


@given(st.floats(1e3, 1e12), st.integers(6, 40), st.integers(0, 10**6))
def test_one_state_with_noise_is_not_two(value, count, seed):
    chance = random.Random(seed)
    assert two_modes([value * chance.uniform(0.97, 1.03) for _ in range(count)]) is None


def probe_of(values, share=1.0):
    taken = iter(values)
    return Probe("x", "B/s", "", 1, lambda windows: [Sample(next(taken), (share,)) for _ in range(windows)])


def test_rounds_are_interleaved_over_probes():
    order = []

    def taker(name):
        def take(windows):
            order.append(name)
            return [Sample(1.0, (1.0,))] * windows

        return take

    probes = [Probe(name, "B/s", "", 1, taker(name)) for name in "ab"]
    assert sample(probes, rounds=5, windows=2, seconds=60)
    assert "".join(order) == "ababababab"
    assert [len(probe.rounds) for probe in probes] == [5, 5]


def test_a_probe_whose_windows_are_not_clean_is_tried_again_but_not_for_ever():
    probe = probe_of([1.0] * 1000, share=0.5)
    sample([probe], rounds=3, windows=3, seconds=probes.USUAL)
    assert len(probe.rounds) == probes.MOST_ROUNDS


def on_shared_cores(values, core=0.6):
    return [Sample(value, (1.0, 1.0), core) for value in values]


def test_windows_on_cores_that_others_used_do_not_count():
    """Two windows in three are slowed by another thread of the same core, which no account of this system shows."""
    found = summarise([samples([100, 101, 102]) + on_shared_cores([60] * 6)] * 3)
    assert (found.value, found.samples, found.doubts) == (101, 3, ())
    assert found.clean == pytest.approx(1 / 3)


def test_a_figure_never_taken_on_its_own_cores_says_so():
    found = summarise([on_shared_cores([60, 61, 62])] * 3)
    assert found.value == 61
    assert found.doubts == (f"{SHARED}: others were busy on them in the best round",)


def test_rounds_on_shared_cores_that_were_no_slower_do_no_harm():
    """What comes from main memory is not slowed by the other thread of its core."""
    own, shared = samples([100, 100, 100]), on_shared_cores([100.1, 100.2, 100.1])
    found = summarise([own] * 6 + [shared])
    assert (found.value, found.doubts) == (100, ())
    assert round_agreement([own] * 6 + [shared]).settled


@given(st.lists(st.tuples(st.floats(90, 110), st.booleans()), min_size=3, max_size=20))
def test_what_has_settled_is_in_no_doubt(rounds):
    taken = [[Sample(value, (1.0,), 1.0 if own else 0.5)] * 5 for value, own in rounds]
    if round_agreement(taken).settled:
        assert not summarise(taken).doubted((SHARED, ALONE))


def test_what_looks_disturbed_but_did_better_counts():
    """A look before a window and one after it do not tell what came between: the better figure was reached."""
    disturbed = summarise([samples([70, 71, 72]) + on_shared_cores([100] * 9)] * 3)
    assert disturbed.value == 100


def test_few_windows_of_long_calls_count_all_the_same():
    found = summarise([on_shared_cores([60]), samples([100]), on_shared_cores([61]), samples([98])])
    assert (found.value, found.doubts) == (100, ())


def test_rounds_on_shared_cores_settle_nothing():
    shared, own = on_shared_cores([60] * 5), samples([100] * 5)
    assert not round_agreement([shared] * 10).settled
    assert not round_agreement([*[shared] * 10, *[own] * 4]).settled
    assert round_agreement([*[shared] * 10, *[own] * 5]).settled


@given(st.integers(0, 10**6), st.floats(0.3, 0.9))
def test_others_on_the_same_cores_do_not_move_the_answer(seed, busy):
    """They come and go within milliseconds and take up to half of a core; many short rounds meet it alone."""
    chance = random.Random(seed)
    rounds = []
    for _ in range(30):
        there = chance.random() < busy
        one = []
        for _ in range(15):
            there = there if chance.random() < 0.8 else chance.random() < busy
            slowed, core = (chance.uniform(0.5, 0.8), 0.55) if there else (1.0, 1.0)
            one.append(Sample(100 * slowed * chance.uniform(0.99, 1.01), (1.0,), core))
        rounds.append(one)
    assert summarise(rounds).value == pytest.approx(100, rel=0.02)


@pytest.fixture
def clock(monkeypatch):
    """The time that sampling goes by, which only the test moves on."""
    now = [0.0]
    monkeypatch.setattr(probes, "monotonic", lambda: now[0])
    return now


def test_when_time_is_up_the_first_round_is_still_finished(clock):
    def take(windows):
        clock[0] += 0.15
        return [Sample(1.0, (1.0,))] * windows

    probes = [Probe(name, "B/s", "", 1, take) for name in "ab"]
    assert sample(probes, rounds=3, windows=9, seconds=0.2)
    assert all(len(probe.rounds[0]) >= 1 for probe in probes)
    assert not any(any(probe.rounds[1:]) for probe in probes)


def test_far_beyond_its_time_even_the_first_round_ends():
    probes = [probe_of([1.0] * 100) for _ in range(5)]
    assert sample(probes, rounds=3, windows=2, seconds=-1.0)
    assert not any(any(probe.rounds) for probe in probes)


def test_a_best_round_that_stands_alone_is_tried_again_until_others_confirm_it():
    lonely, steady = probe_of([1.0] * 4 + [2.0] * 2 + [1.0] * 6 + [1.98] * 100), probe_of([1.0] * 100)
    assert sample([lonely, steady], rounds=3, windows=2, seconds=60)
    assert [len(one) for one in lonely.rounds] == [2] * 10
    assert len(steady.rounds) == 5
    found = summarise(lonely.rounds)
    assert found.value == 2.0
    assert not any(doubt.startswith(ALONE) for doubt in found.doubts)


def test_what_nothing_confirms_is_given_up_in_time_and_doubted(clock):
    def take(windows):
        clock[0] += 1.0
        return [Sample(1.1 ** clock[0], (1.0,))] * windows

    probe = Probe("x", "B/s", "", 1, take)
    assert sample([probe], rounds=3, windows=2, seconds=6.5)
    assert len(probe.rounds) == 7
    assert f"{ALONE}: no other came within 5% of the best" in summarise(probe.rounds).doubts


def test_what_had_least_time_goes_first(clock):
    def taker(seconds):
        def take(windows):
            clock[0] += seconds
            return [Sample(1.5 ** clock[0], (1.0,))] * windows

        return take

    long, short = (Probe("x", "B/s", "", 1, taker(seconds)) for seconds in (1.0, 0.1))
    assert sample([long, short], rounds=2, windows=2, seconds=6.0)
    assert len(long.rounds) <= 4
    assert len(short.rounds) > 10


def test_times_are_confirmed_by_times_nearly_as_short():
    slow, fast, faster = ([Sample(value, (1.0,))] * 3 for value in (2.0, 1.02, 1.0))
    assert round_agreement([slow, *[fast] * 4, faster], smaller_is_better=True).settled
    assert not round_agreement([*[slow] * 5, faster], smaller_is_better=True).settled
    assert not round_agreement([]).settled
    assert not round_agreement([faster]).settled


def test_ctrl_c_keeps_what_was_sampled():
    calls = []

    def take(windows):
        calls.append(windows)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return [Sample(7.0, (1.0,))] * windows

    probes = [Probe(name, "B/s", "", 1, take) for name in "ab"]
    assert not sample(probes, rounds=3, windows=2, seconds=60)
    assert [summarise(probe.rounds).value for probe in probes] == [7.0, 7.0]
