"""Queues in closed form against the textbook's formulas, and a chain that stops against a simulation of it."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.plans.load import busy_period_points
from roofline.plans.queueing import (
    BirthDeathChain,
    FilledSteps,
    Mixture,
    SingleServerQueue,
    TimeDistribution,
    weighted_percentile,
)
from tests.strategies import LONG, some


def mean_in_flight(chain: BirthDeathChain) -> float:
    return float(chain.in_flight @ np.arange(chain.capacity + 1))


@pytest.mark.parametrize("variation", [0.25, 4.0, 9.0])
@pytest.mark.parametrize("load", [0.98, 0.99, 0.995, 0.999])
def test_waits_near_the_largest_rate_are_just_below_kingmans_bound(variation: float, load: float) -> None:
    queue = SingleServerQueue(load, Mixture.point(1.0), arrival_variation=variation)
    bound = variation / (2 * load * (1 - load))
    assert 0.9 * bound < queue.mean_wait <= bound
    assert queue.wait().percentile(0.95) == pytest.approx(3 * queue.mean_wait, rel=0.03)


@pytest.mark.parametrize("variation", [0.25, 4.0])
@pytest.mark.parametrize("rate", some([0.1, 0.5, 0.8], 2))
def test_waits_between_arrivals_of_gamma_gaps_are_those_counted_one_by_one(variation: float, rate: float) -> None:
    """Lindley: a wait is that before it, with a service more and a gap less, and never below 0."""
    gaps = np.random.default_rng(1).gamma(1 / variation, variation, 400_000) / rate
    moved = np.cumsum(1 - gaps)
    waits = (moved - np.minimum.accumulate(np.minimum(moved, 0.0)))[20_000:]
    queue = SingleServerQueue(rate, Mixture.point(1.0), arrival_variation=variation)
    assert queue.mean_wait == pytest.approx(waits.mean(), rel=0.04, abs=0.01)
    for share in (0.5, 0.95, 0.99):
        assert queue.wait().percentile(share) == pytest.approx(np.quantile(waits, share), rel=0.08, abs=0.05)


def test_a_percentile_of_shared_steps_is_over_all_of_a_group() -> None:
    # alone, the place of one of a group is geometric too: one in twenty is the sixth or later, two steps of 1.5 behind
    times = np.array([0.0, 1.0, 1.5])
    assert FilledSteps(1e-6, times, 2.5).solved(0.95)[1] == 4.5
    # counted group by group
    random, rate, burst = np.random.default_rng(1), 0.3, 2.5
    sizes = random.geometric(1 / burst, 20_000)
    arrivals = np.repeat(np.cumsum(random.exponential(burst / rate, len(sizes))), sizes)
    stayed, now, done = np.empty(len(arrivals)), 0.0, 0
    while done < len(arrivals):
        now = max(now, arrivals[done])
        taken = min(2, int(np.searchsorted(arrivals, now, "right")) - done)
        now += times[taken]
        stayed[done : done + taken] = now - arrivals[done : done + taken]
        done += taken
    mean, percentile = FilledSteps(rate, times, burst).solved(0.95)
    assert mean == pytest.approx(stayed.mean(), rel=0.03)
    assert percentile == pytest.approx(np.quantile(stayed, 0.95), rel=0.06)


def test_one_server_is_m_m_1() -> None:
    for load in (0.1, 0.5, 0.9, 0.99):
        chain = BirthDeathChain.of(load, [1.0])
        assert mean_in_flight(chain) + chain.mean_waiting == pytest.approx(load / (1 - load), rel=1e-12)
        assert chain.waiting_probability == pytest.approx(load, rel=1e-12)
        assert chain.mean_wait == pytest.approx(load / (1 - load), rel=1e-12)


def erlang_c(servers: int, offered: float) -> float:
    below = sum(offered**k / math.factorial(k) for k in range(servers))
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (below + last)


@pytest.mark.parametrize(("servers", "offered"), [(2, 1.0), (8, 6.0), (40, 37.5)])
def test_several_servers_are_m_m_c(servers: int, offered: float) -> None:
    chain = BirthDeathChain.of(offered, np.arange(1, servers + 1, dtype=float))
    waits = erlang_c(servers, offered)
    assert chain.waiting_probability == pytest.approx(waits, rel=1e-10)
    assert chain.mean_wait == pytest.approx(waits / (servers - offered), rel=1e-10)
    assert mean_in_flight(chain) == pytest.approx(offered, rel=1e-10)


@pytest.mark.parametrize("short", [1e-7, 1e-9, 1e-12])
def test_arrivals_that_are_almost_poisson_wait_as_long(short: float) -> None:
    service = np.arange(1, 5)
    poisson, even = (BirthDeathChain.of(3.0, service, variation=each) for each in (1.0, 1 - short))
    assert even.mean_wait == pytest.approx(poisson.mean_wait, rel=1e-5)
    assert even.waiting_probability == pytest.approx(poisson.waiting_probability, rel=1e-5)


@pytest.mark.parametrize("variation", [0.08, 0.3, 0.7])
def test_even_arrivals_wait_as_simulated(variation: float) -> None:
    """Four servers of exponential times, one after the other as they are free; gaps are gamma distributed."""
    random, count, rate = np.random.default_rng(5), 60_000, 3.4
    free, times, waits = [0.0] * 4, np.cumsum(random.gamma(1 / variation, variation / rate, count)), []
    for time, service in zip(times.tolist(), random.exponential(1.0, count).tolist(), strict=True):
        first = heapq.heappop(free)
        waits.append(max(first - time, 0.0))
        heapq.heappush(free, max(first, time) + service)
    chain = BirthDeathChain.of(rate, np.arange(1, 5), variation=variation)
    assert chain.mean_wait == pytest.approx(np.mean(waits), rel=0.1)
    assert chain.waiting_probability == pytest.approx(np.mean(np.array(waits) > 0), rel=0.04)
    assert mean_in_flight(chain) == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize("more", [{}, {"burst": 40.0}, {"variation": 0.2}])
def test_where_waiting_requests_slow_a_server_those_that_wait_are_a_share(more: dict[str, float]) -> None:
    """A flow up meets the flow down over each level: in and out of the places, and of the queue."""
    chain = BirthDeathChain.of(3.0, np.arange(1.0, 11.0), 3.2, **more)
    assert 0 < chain.waiting_probability < 1
    waiting = 1 - float(chain.probability[: chain.capacity + 1].sum())
    assert chain.waiting_probability == pytest.approx(3.2 * waiting / 3.0, rel=1e-9)


def test_a_chain_that_hardly_stops_is_one_that_does_not_in_large_groups_too() -> None:
    stopped, plain = (make(3.0, np.arange(1.0, 17.0) / 4, *stop, burst=50.0) for make, *stop in (
        (BirthDeathChain.stopped, 0.001), (BirthDeathChain.of,),
    ))  # fmt: skip
    assert stopped.mean_wait == pytest.approx(plain.mean_wait, rel=0.02)


def test_a_chain_that_does_not_keep_up_is_an_error() -> None:
    with pytest.raises(InputError, match="not below"):
        BirthDeathChain.of(2.0, [1.0])


def crommelin(time: float, load: float) -> float:
    """P(W ≤ t) of M/D/1 with a service of one second."""
    terms = ((-load * (time - k)) ** k / math.factorial(k) * math.exp(load * (time - k)) for k in range(int(time) + 1))
    return (1 - load) * sum(terms)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.8])
def test_a_fixed_service_is_m_d_1(load: float) -> None:
    queue = SingleServerQueue(load, Mixture.point(1.0))
    assert queue.mean_wait == pytest.approx(load / (2 * (1 - load)), rel=1e-12)
    found = queue.wait()
    assert found.mean == pytest.approx(queue.mean_wait, rel=1e-3)
    for share in (0.8, 0.95, 0.99):
        assert crommelin(found.percentile(share), load) == pytest.approx(share, abs=5e-4)


def test_an_exponential_service_is_m_m_1_and_any_other_m_g_1() -> None:
    middles = (np.arange(20_000) + 0.5) / 20_000
    exponential = Mixture(-np.log1p(-middles), np.full(20_000, 1 / 20_000))
    found = SingleServerQueue(0.7, exponential).wait()
    assert found.percentile(0.95) == pytest.approx(-math.log(0.05 / 0.7) / 0.3, rel=5e-3)
    two = SingleServerQueue(0.4, Mixture(np.array([0.5, 3.0]), np.array([0.6, 0.4])))
    mean, square = 0.6 * 0.5 + 0.4 * 3, 0.6 * 0.25 + 0.4 * 9
    assert two.mean_wait == pytest.approx(0.4 * square / (2 * (1 - 0.4 * mean)), rel=1e-12)
    assert two.wait().mean == pytest.approx(two.mean_wait, rel=1e-3)


def test_what_is_left_of_other_work_adds_to_the_wait() -> None:
    other = Mixture(np.array([0.5, 1.0]), np.array([0.5, 0.5]))
    queue = SingleServerQueue(0.5, Mixture.point(1.0), other.residual)
    assert queue.mean_wait == pytest.approx(0.5 + other.second_moment / (2 * other.mean), rel=1e-12)
    assert queue.wait().mean == pytest.approx(queue.mean_wait, rel=1e-3)
    third = 0.5 * 0.5**3 + 0.5 * 1.0**3
    assert other.residual.second_moment == pytest.approx(third / (3 * other.mean), rel=1e-12)


def test_a_uniform_time_on_a_lattice_keeps_its_mean_and_its_part_at_0() -> None:
    time = Mixture(np.array([0.0, 2.0, 3.0]), np.array([0.2, 0.4, 0.4]), uniform=True)
    found = TimeDistribution(0.01, time.lattice(0.01, 400))
    assert float(found.probability.sum()) == pytest.approx(1.0, abs=1e-12)
    assert found.mean == pytest.approx(1.0, abs=1e-9)
    assert float(found.probability[0]) > 0.2


def stopping_chain(
    rate: float, leaving: np.ndarray, stop: float, seconds: float, seed: int, burst: float = 1.0
) -> np.ndarray:
    """Time in each state of a chain that stops for each request it lets in; of the time in which it runs."""
    random, rate = np.random.default_rng(seed), rate / burst
    flight = waiting = 0
    spent = np.zeros(400 if burst == 1 else 20_000)
    clock = 0.0
    while clock < seconds:
        if waiting and flight < len(leaving):
            waiting += int(random.geometric(1 / burst, random.poisson(rate * stop)).sum()) - 1
            flight += 1
            continue
        leaves = leaving[flight - 1] if flight else 0.0
        time = random.exponential(1 / (rate + leaves))
        spent[flight + waiting] += time
        clock += time
        if random.random() < rate / (rate + leaves):
            waiting += random.geometric(1 / burst)
        else:
            flight -= 1
    return spent / clock


def test_a_chain_that_stops_is_as_simulated() -> None:
    leaving = np.minimum(np.arange(1, 13), 9) / 6.0
    chain = BirthDeathChain.stopped(0.7, leaving, 0.5)
    found = stopping_chain(0.7, leaving, 0.5, 60_000.0, 1)
    assert chain.probability[:30] == pytest.approx(found[:30], abs=6e-3)
    assert mean_in_flight(chain) + chain.mean_waiting == pytest.approx(float(found @ np.arange(400)), rel=0.05)


@pytest.mark.long
def test_a_chain_of_groups_of_two_hundred_waits_for_all_of_them() -> None:
    leaving = np.minimum(np.arange(1, 13), 9) / 6.0
    chain = BirthDeathChain.stopped(0.4, leaving, 0.5, burst=200.0)
    found = stopping_chain(0.4, leaving, 0.5, 500_000.0 if LONG else 200_000.0, 3, burst=200.0)
    assert mean_in_flight(chain) + chain.mean_waiting == pytest.approx(float(found @ np.arange(len(found))), rel=0.1)


def test_busy_periods_are_those_of_a_branching_count() -> None:
    random = np.random.default_rng(0)
    for mean, busy in ((0.7, 0.4), (3.0, 0.75), (40.0, 0.5)):
        served = waiting = random.poisson(mean, 100_000)
        while waiting.any():
            waiting = random.poisson(waiting * busy)
            served = served + waiting
        expected = [part.mean() for part in np.array_split(np.sort(served), 24)]
        found = busy_period_points(mean, busy)
        assert found.mean() == pytest.approx(mean / (1 - busy))
        assert found == pytest.approx(np.array(expected), rel=0.05, abs=0.3)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95, 1.0])
def test_a_percentile_of_many_values_is_the_one_that_sorting_finds(share: float) -> None:
    random = np.random.default_rng(0)
    for values in (random.exponential(size=5000) ** 4, random.integers(0, 3, 5000) / 7, np.ones(5000)):
        weights = random.random(5000)
        order = np.argsort(values)
        reached = np.cumsum(weights[order]) >= share * weights.sum() * (1 - 1e-12)
        assert weighted_percentile(values, weights, share) == values[order[np.argmax(reached)]]
