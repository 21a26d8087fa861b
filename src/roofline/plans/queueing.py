"""Queues in closed form: a birth–death chain of requests in flight, and one server with any service time.

The chain. In state n requests arrive at rate λ and leave at rate μ(n), so by the balance of flow between neighbours

    π(n) = π(0) · Π_{k=1..n} λ / μ(k),    and Little's law gives times: E[T] = E[n] / λ.

With μ(n) = μ it is M/M/1, with μ(n) = min(n, c)·μ it is M/M/c:

>>> one = BirthDeathChain.of(0.5, [1.0])
>>> round(one.mean_wait, 6), round(one.waiting_probability, 6)                   # M/M/1: ρ/(μ − λ), ρ
(1.0, 0.5)
>>> two = BirthDeathChain.of(1.0, [1.0, 2.0])
>>> round(two.waiting_probability, 6), round(two.mean_wait, 6)                   # M/M/2: Erlang C = 1/3
(0.333333, 0.333333)

One server, Poisson arrivals at rate λ, service S, and vacations V (work of another kind that it finishes first):

    E[W] = λ·E[S²] / (2·(1 − ρ)) + E[V²] / (2·E[V]),    ρ = λ·E[S]

The wait is a geometric number of residual services (Pollaczek–Khinchine), then a residual vacation (Fuhrmann–Cooper):

>>> queue = SingleServerQueue(0.5, service=Mixture.point(1.0))
>>> queue.mean_wait                                                              # M/D/1: ρ·s / (2·(1 − ρ))
0.5
>>> round(queue.wait().percentile(0.95), 2)
2.05

Sources: L. Kleinrock, "Queueing Systems" vol. 1 (1975), sections 3.2 and 5.7; S. Fuhrmann, R. Cooper, "Stochastic
decompositions in the M/G/1 queue with generalized vacations", Operations Research 33 (1985); M. Ackroyd, "Computing the
waiting time distribution for the G/G/1 queue by signal processing methods", IEEE Transactions on Communications 28
(1980).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roofline.errors import InputError
from roofline.frozen import NamedTuple, dataclass

#: Points of a lattice on which distributions of times are added up.
POINTS = 2048
#: Share of all variation by which that of a lattice may be too large.
COARSE = 0.02

#: Equal shares of the numbers that come in a step, for percentiles.
SHARES = 32

#: Three values of the same probability, with mean 0 and variance 1.
THIRDS = np.array([-1.0, 0.0, 1.0]) * 1.5**0.5

#: Requests that wait for a place whose states are told apart, where prefill stops the chain.
BEYOND = 96
#: The most further ones where they come in groups: those of eight mean groups of up to 250.
WIDEST = 2000


@dataclass(frozen=True, slots=True, eq=False)
class BirthDeathChain:
    """Requests in flight, up to ``capacity`` of them; those beyond it wait.

    ``probability[m]`` is that of m in flight or waiting, as far as states differ; those further on fall by ``decay``
    from one to the next. ``flow[m]`` is the rate at which m + 1 become m. ``running`` is the share of time the chain
    runs in: all of it, but for what stops it.
    """

    rate: float
    capacity: int
    probability: Any
    flow: Any
    decay: float
    running: float = 1.0

    @classmethod
    def of(
        cls, rate: float, service_rate: Any, waiting_service_rate: float | None = None, burst: float = 1.0,
        variation: float = 1.0,
    ) -> BirthDeathChain:  # fmt: skip
        """Solve a chain: ``service_rate[n − 1]`` is μ(n), and ``waiting_service_rate`` that while requests wait.

        In bursts, requests come in groups of geometric size with mean b: ``burst``. Flow down over a level is flow up:
        ``μ(n + 1)·π(n + 1) = λ/b·Σ_{j ≤ n} π(j)·(1 − 1/b)^(n − j)``. Where each is served by itself the number has b
        times the variance of Poisson arrivals:

        >>> chain = BirthDeathChain.of(5.0, np.arange(1, 200), burst=2.5)
        >>> n = np.arange(200)
        >>> mean = chain.in_flight @ n
        >>> round(float(mean), 3), round(float(chain.in_flight @ (n - mean) ** 2 / mean), 3)
        (5.0, 2.5)

        Where the squared coefficient of variation of times between arrivals is below 1, they are sums of phases.
        """
        each = np.asarray(service_rate, dtype=np.float64)
        last = float(each[-1]) if waiting_service_rate is None else waiting_service_rate
        _check_stable(rate, last)
        if variation < 1 and rate > 0:
            weights, decay = _evenly_reached(rate, each, last, variation)
            return cls._made(rate, each, weights, decay, 1.0, last)
        ends, decay = 1 / burst, 1 - (1 - rate / last) / burst
        if burst > 1:
            weights, flow = np.ones(len(each) + 2), 0.0
            for n, leaves in enumerate([*each, last]):
                flow = rate * ends * weights[n] + (1 - ends) * flow
                weights[n + 1] = flow / leaves
                if weights[n + 1] > 1e200:
                    weights, flow = weights / weights[n + 1], flow / weights[n + 1]
            return cls._made(rate, each, weights, decay, 1.0, last)
        logs = np.concatenate([[0.0], np.cumsum(np.log(max(rate, 1e-300)) - np.log([*each, last]))])
        return cls._made(rate, each, np.exp(logs - logs.max()), decay, 1.0, last)

    @classmethod
    def stopped(cls, rate: float, service_rate: Any, stop: float, burst: float = 1.0) -> BirthDeathChain:
        """Solve a chain that stops for ``stop`` seconds for each request it lets in; states are those while it runs.

        Those that come while it stops are let in at once too, as long as there are places: a busy period, and a jump
        up. With all places taken each request that leaves lets one in, and those that come meanwhile wait. Flow down
        over a level is flow up: ``μ(n + 1)·π(n + 1) = Σ_{j ≤ n} (rate of jumps from j)·P(jump > n − j)``.

        >>> found = BirthDeathChain.stopped(0.5, np.arange(1, 40) / 2, 1.0)
        >>> round(float(found.probability @ np.arange(len(found.probability))), 4)     # λ / (1 − λ·stop) / μ
        2.0
        """
        each = np.asarray(service_rate, dtype=np.float64)
        last = 1 / (1 / float(each[-1]) + stop)
        _check_stable(rate, last)
        busy = rate * stop
        if busy < 1e-3:
            return cls.of(rate, each, last, burst)
        # groups that are larger than the places reach further
        beyond, ends = BEYOND + min(int(8 * (burst - 1)), WIDEST), 1 / burst
        reach = len(each) + beyond
        left = _left_in_busy_period(busy, len(each), beyond, burst)
        survival = left.sum(axis=1)
        after = _group_arrivals(busy, beyond + 1, burst)
        more = np.concatenate([1 - np.cumsum(after), [0.0]])
        weights = np.zeros(reach + 1)
        weights[0] = 1.0
        places = len(each)
        for n in range(places):
            first = max(0, n - len(survival) + 1)
            flow = rate * ends * float(weights[first : n + 1] @ survival[: n + 1 - first][::-1])
            weights[n + 1] = flow / each[n]
            if weights[n + 1] > 1e200:
                weights /= weights[n + 1]
        # q left of a busy period that began at j and has filled all places
        reached = np.arange(max(0, places - len(left) + 1), places)
        tails = np.cumsum(left[:, ::-1], axis=1)[:, ::-1]
        jumped = rate * ends * (weights[reached] @ tails[places - reached])
        last_rate, came = each[-1], 0.0
        for q in range(beyond):
            n = places + q
            inside = last_rate * float(weights[places + 1 : n + 1] @ more[1 : q + 1][::-1])
            came = rate * ends * weights[n] + (1 - ends) * came
            weights[n + 1] = (came + inside + float(jumped[q])) / (last_rate * after[0])
        decay = rate / last if burst <= 1 else 1 - ends * (1 - rate / last)
        return cls._made(rate, each, weights, decay, 1 - busy, float(each[-1]))

    @classmethod
    def _made(
        cls, rate: float, each: Any, weights: Any, decay: float, running: float, waiting: float
    ) -> BirthDeathChain:
        """The chain of these weights, whose states beyond all places leave at a rate of ``waiting``."""
        state = weights / (weights.sum() + weights[-1] * decay / (1 - decay))
        services = np.append(each, np.full(len(state) - len(each), waiting))
        return cls(rate, len(each), state, services[: len(state) - 1] * state[1:], decay, running)

    @property
    def in_flight(self) -> Any:
        """Probability of n in flight, n from 0 to the capacity."""
        found = self.probability[: self.capacity + 1].copy()
        found[-1] = 1 - found[:-1].sum()
        return found

    @property
    def waiting_probability(self) -> float:
        """Share of requests that wait for another to leave (Erlang's C where the chain is M/M/c)."""
        if self.rate <= 0:
            return 0.0
        service = float(self.flow[-1] / self.probability[-1]) if self.probability[-1] > 0 else 0.0
        beyond = service * float(self.probability[-1]) * self.decay / (1 - self.decay)
        return self.running * (float(self.flow[self.capacity :].sum()) + beyond) / self.rate

    @property
    def mean_waiting(self) -> float:
        """Mean number that wait."""
        waiting = np.arange(len(self.probability) - self.capacity)
        beyond = float(self.probability[-1]) * self.decay / (1 - self.decay)
        known = float(waiting @ self.probability[self.capacity :])
        return known + beyond * (float(waiting[-1]) + 1 / (1 - self.decay))

    @property
    def mean_wait(self) -> float:
        """Mean seconds until a request is in flight, by Little's law."""
        return self.mean_waiting / self.rate if self.rate else 0.0

    def relaxation_time(self, values: Any) -> float:
        """Seconds over which a function of the number in flight forgets: the integral of its autocorrelation.

        ``Σ_n (Σ_{j ≤ n} (f_j − f̄)·π_j)² / (μ_{n+1}·π_{n+1}) / Var f`` (W. Whitt, "Asymptotic formulas for Markov
        processes with applications to simulation", Operations Research 40 (1992), eq. 24).

        >>> round(BirthDeathChain.of(1.0, np.arange(1, 60) / 10).relaxation_time(np.arange(60)), 3)     # M/M/∞: 1/μ
        10.0
        """
        state = self.in_flight
        off = np.asarray(values, dtype=np.float64) - float(state @ values)
        variance = float(state @ off**2)
        if variance <= 0 or self.rate <= 0:
            return 0.0
        partial = np.cumsum(off * state)[:-1]
        flow = self.flow[: self.capacity]
        kept = flow > 1e-12 * self.rate
        return float((partial[kept] ** 2 / flow[kept]).sum() / variance)


def erlang_b(most: int, load: float) -> Any:
    """Probability that all of n places are taken, n from 0 to ``most``, where requests that find none are lost.

    >>> erlang_b(2, 1.0)
    array([1. , 0.5, 0.2])
    """
    number = np.arange(1, most + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(load / number))])
    return np.exp(logs - np.logaddexp.accumulate(logs))


#: The most phases that a time between arrivals is the sum of.
PHASES = 16


def _evenly_reached(rate: float, service_rate: Any, last: float, variation: float) -> tuple[Any, float]:
    """Weights of the states of a chain with arrivals more even than Poisson, of one that waits, and their further fall.

    A time between arrivals is k phases of rate ν, or k − 1 with probability p: 1/k ≤ c² ≤ 1/(k − 1), and

        p = (k·c² − √(k·(1 + c²) − k²·c²)) / (1 + c²),    ν = (k − p)·λ

    (H. Tijms, "A First Course in Stochastic Models" (2003), appendix B). An arrival enters the first phase, so each
    level follows from the flow up into it. Beyond the last they fall by σ = E[e^(−μ·(1 − σ)·A)].

    >>> weights, decay = _evenly_reached(0.8, np.ones(8), 1.0, 0.5)                              # E₂/M/1: P(0) = 1 − ρ
    >>> round(float(weights[0] / (weights.sum() + weights[-1] * decay / (1 - decay))), 9), round(decay, 6)
    (0.2, 0.739853)
    """
    count = min(max(int(np.ceil(1 / variation - 1e-9)), 2), PHASES)
    varies = max(variation, 1 / count)
    root = max(count * (1 + varies) - count**2 * varies, 0.0) ** 0.5
    early = (count * varies - root) / (1 + varies)
    speed = (count - early) * rate
    arrives, moves = np.zeros(count), np.full(count - 1, speed)
    arrives[-1], arrives[-2], moves[-1] = speed, speed * early, speed * (1 - early)
    low, decay = 0.0, 1 - 1e-12
    while decay - low > 1e-13:
        middle = (low + decay) / 2
        phase = speed / (speed + last * (1 - middle))
        below = early * phase ** (count - 1) + (1 - early) * phase**count > middle
        low, decay = (middle, decay) if below else (low, middle)
    enters, unit = np.eye(count)[0], np.eye(count)
    stays = np.diag(np.full(count, speed)) - np.diag(moves, -1)
    # by phase, what a flow of 1 up into a level leaves in it, 1 / μ together: first of the first that waits
    left = np.linalg.solve(stays + last * (1 - decay) * unit, enters)
    left, below, passed = left / (left.sum() * last), last, []
    for leaves in service_rate[::-1]:
        new, back = np.linalg.solve(stays + leaves * unit, np.stack([enters, below * left], axis=1)).T
        left = new + back * max(1 / leaves - new.sum(), 0.0) / back.sum()
        passed.append(left @ arrives)
        below = leaves
    first = float(np.linalg.solve(stays, below * left).sum())
    logs = np.log([first, *(1 / service_rate), 1 / last])
    logs[1:] += np.concatenate([[0.0], np.cumsum(np.log(passed[::-1]))])
    return np.exp(logs - logs.max()), decay


def _check_stable(rate: float, most: float) -> None:
    if not 0 <= rate < most:
        raise InputError(f"a rate of {rate:g}/s is not below the {most:g}/s that is served", hint="a lower rate")


def _group_arrivals(mean: float, count: int, burst: float) -> Any:
    """Probabilities of 0 to ``count`` − 1 requests in a time: Poisson, or Poisson groups of geometric size.

    ``n·p(n) = (λ/b)·Σ_k k·P(X = k)·p(n − k)`` (H. Panjer, ASTIN Bulletin 12 (1981)).
    """
    sizes = np.arange(1, count)
    if burst <= 1:
        factorials = np.concatenate([[0.0], np.cumsum(np.log(sizes))])
        return np.exp(np.arange(count) * np.log(mean) - mean - factorials)
    each = mean / burst * sizes * (1 - 1 / burst) ** (sizes - 1) / burst
    found = np.zeros(count)
    found[0] = np.exp(-mean / burst)
    for n in range(1, count):
        found[n] = float(each[:n] @ found[:n][::-1]) / n
    return found


def _left_in_busy_period(busy: float, most: int, width: int, burst: float = 1.0) -> Any:
    """Probability that k services do not end a busy period and leave q = 1 … ``width``: a row for each k from 0.

    Row sums are Borel's P(X > k), where each service takes a fixed time:

    >>> round(float(_left_in_busy_period(0.5, 80, 80).sum()), 3)                 # E[X] = 1 / (1 − ρ)
    2.0
    """
    # each service takes one from q, and as many as come in it are added
    added = np.fft.rfft(_group_arrivals(busy, width + 1, burst), 2 * width + 2)
    row = (1 - 1 / burst) ** np.arange(width) / burst
    rows = [row]
    for _ in range(most):
        row = np.maximum(np.fft.irfft(np.fft.rfft(row, 2 * width + 2) * added)[1 : width + 1], 0.0)
        rows.append(row)
        if row.sum() < 1e-9:
            break
    return np.array(rows)


class Mixture(NamedTuple):
    """A random time that takes one of several values, or is uniform from 0 to one of them."""

    values: Any
    weights: Any
    uniform: bool = False

    @classmethod
    def point(cls, value: float) -> Mixture:
        """A fixed time."""
        return cls(np.array([value]), np.array([1.0]))

    @property
    def mean(self) -> float:
        """Its mean."""
        return float(self.values @ self.weights) * (0.5 if self.uniform else 1.0)

    @property
    def second_moment(self) -> float:
        """Mean of its square."""
        return float(self.values**2 @ self.weights) / (3.0 if self.uniform else 1.0)

    @property
    def residual(self) -> Mixture:
        """What is left of it when it is met at a random moment; of a time that is 0, 0."""
        total = float(self.values @ self.weights)
        weights = self.values * self.weights / total if total > 0 else self.weights
        return Mixture(self.values, weights, uniform=True)

    def lattice(self, step: float, points: int) -> Any:
        """Probability by multiples of ``step``, means kept; what lies beyond the lattice is at its end."""
        if self.uniform:
            return self._lattice_of_uniform(step, points)
        place = np.minimum(self.values / step, points - 1.001)
        low = place.astype(np.int64)
        share = place - low
        found = np.bincount(low, self.weights * (1 - share), minlength=points)
        return found + np.bincount(low + 1, self.weights * share, minlength=points)[:points]

    def _lattice_of_uniform(self, step: float, points: int) -> Any:
        order = np.argsort(self.values)
        ends, weights = self.values[order], self.weights[order]
        grid = np.arange(points + 1) * step
        # what has ended, half of that times its end, the slope of what has not: before the first end and after each
        whole, half = np.zeros((2, len(ends) + 1))
        whole[1:], half[1:] = np.cumsum(weights), np.cumsum(weights * ends / 2)
        slopes = np.append(np.cumsum((weights / np.maximum(ends, 1e-300))[::-1])[::-1], 0.0)
        at = np.searchsorted(ends, grid, side="right")
        # mass of what has ended, and of what is still spread evenly; the ends of a cell share it by its mean
        slope = slopes[at]
        cumulative = np.minimum(whole[at] + slope * grid, 1.0)
        sums = half[at] + slope * grid**2 / 2
        cells = cumulative[1:] - cumulative[:-1]
        above = (sums[1:] - sums[:-1]) / step - np.arange(points) * cells
        above = np.minimum(np.maximum(above, 0.0), cells)
        found = cells - above
        found[1:] += above[:-1]
        found[-1] += above[-1] + max(0.0, 1 - float(cumulative[-1]))
        found[0] += float(weights[ends <= 0].sum())
        return found


class TimeDistribution(NamedTuple):
    """Probability of a time by multiples of ``step``."""

    step: float
    probability: Any

    @property
    def mean(self) -> float:
        """Mean seconds."""
        return float(self.probability @ np.arange(len(self.probability))) * self.step

    def percentile(self, share: float) -> float:
        """The time that a ``share`` of all stay within. A point stands for half a step on either side."""
        cumulative = np.cumsum(self.probability)
        at = int(np.searchsorted(cumulative, share * cumulative[-1]))
        at = min(at, len(cumulative) - 1)
        before = float(cumulative[at - 1]) if at else 0.0
        mass = float(cumulative[at]) - before
        part = (share * float(cumulative[-1]) - before) / mass if mass > 0 else 0.0
        return max(0.0, (at - 0.5 + part) * self.step) if at else 0.0

    def quantiles(self, points: int) -> Any:
        """The time at the middles of equal shares."""
        return equal_shares(self.probability, points) * self.step

    def and_then(self, other: TimeDistribution) -> TimeDistribution:
        """The sum of two independent times; both lattices are one."""
        size = 2 * len(self.probability)
        product = np.fft.rfft(self.probability, size) * np.fft.rfft(other.probability, size)
        return self._folded(np.fft.irfft(product, size))

    def joined(self, other: TimeDistribution) -> TimeDistribution:
        """The sum of two independent times, on a lattice that spans both.

        >>> one, two = (TimeDistribution(step, np.eye(1, 8, 4)[0]) for step in (0.5, 2.0))
        >>> one.joined(two).mean
        10.0
        """
        step = self.step + other.step
        points = len(self.probability)
        first, then = (
            Mixture(np.arange(points) * each.step, each.probability).lattice(step, points) for each in (self, other)
        )
        return TimeDistribution(step, first).and_then(TimeDistribution(step, then))

    def _folded(self, values: Any) -> TimeDistribution:
        kept = np.maximum(values[: len(self.probability)], 0.0)
        kept[-1] += max(0.0, 1.0 - float(kept.sum()))
        return TimeDistribution(self.step, kept)


@dataclass(frozen=True, slots=True, eq=False)
class SingleServerQueue:
    """Poisson arrivals at ``rate``, one server of time ``service``; ``rest`` is what is left of other work it is at.

    Where the other work goes on as long as no request waits, the rest is the residual of one piece of it (a vacation).

    ``arrival_variation`` is the squared coefficient of variation of the times between arrivals: 1 for Poisson; others
    have a gamma distribution, for which the wait is that of :func:`wait_between_gamma`. Of ``places`` in the queue and
    at the server one finds all but one taken at most: of the geometric number of residual services so many are left.
    """

    rate: float
    service: Mixture
    rest: Mixture | None = None
    arrival_variation: float = 1.0
    places: float = np.inf

    @property
    def utilisation(self) -> float:
        """Share of time that the server works on the queue."""
        return self.rate * self.service.mean

    @property
    def burstiness(self) -> float:
        """About how many times that of Poisson arrivals long waits are: (c_a² + c_s²)/(1 + c_s²), Kingman's bound."""
        varies = self._service_variation
        return (self.arrival_variation + varies) / (1 + varies)

    @property
    def _service_variation(self) -> float:
        """The squared coefficient of variation of services."""
        mean = self.service.mean
        return self.service.second_moment / mean**2 - 1 if mean > 0 else 0.0

    def _coarsely_served(self, step: float, served_in: Any) -> float:
        """By how many steps² services vary more on a lattice than by themselves."""
        steps = np.arange(len(served_in))
        variance = float(served_in @ steps**2) - float(served_in @ steps) ** 2
        return max(0.0, variance - (self.service.second_moment - self.service.mean**2) / step**2)

    @property
    def mean_wait(self) -> float:
        """Mean seconds before service starts."""
        busy = self.utilisation
        if busy >= 1:
            return float("inf")
        if self.arrival_variation != 1 or busy**self.places > 1e-12:
            return self.wait().mean
        wait = self.rate * self.service.second_moment / (2 * (1 - busy))
        return wait if self.rest is None else wait + self.rest.mean

    def horizon(self) -> float:
        """A time that nearly no wait exceeds: what the lattice spans."""
        after = self.service.residual
        spread = after.mean + 3 * after.second_moment / max(after.mean, 1e-30)
        tail = spread / max(1 - self.utilisation, 1e-3) * max(self.burstiness, 1.0)
        longest = float(self.service.values.max())
        rest = 0.0 if self.rest is None else float(self.rest.values.max())
        # bursts wait for each other at any load
        often = self.utilisation if self.arrival_variation <= 1 else self.utilisation**0.5
        return 4 * tail * often + 2 * longest + rest

    def wait(self, span: float | None = None, points: int = POINTS, *, served: bool = False) -> TimeDistribution:
        """The distribution of the wait on a lattice up to ``span`` seconds; ``served`` adds the service itself.

        The transform of the queue's part is (1 − ρ) / (1 − ρ·R(z)), R of a residual service.
        """
        most = 1 - 1e-9
        busy = min(self.utilisation, most)
        step = (self.horizon() if span is None else span) / points
        size = 2 * points

        def transform(time: Mixture, unit: float = step) -> Any:
            return np.fft.rfft(time.lattice(unit, points), size)

        full, is_poisson = busy**self.places, self.arrival_variation == 1 or busy == most
        after: Any = transform(self.service.residual) if is_poisson or full > 1e-12 else None
        if is_poisson:
            found = (1 - busy) / (1 - busy * after)
        else:
            served_in, often = self.service.lattice(step, points), self.rate * step
            left = self.arrival_variation - self._coarsely_served(step, served_in) * often**2
            if often - left <= COARSE * (self.arrival_variation + self._service_variation):
                found = np.fft.rfft(wait_between_gamma(often, left, served_in), size)
            else:  # near the largest rate the lattice itself varies by more: waits are as Kingman's bound has them
                stretched = step / max(self.burstiness, 1e-3)
                found = (1 - busy) / (1 - busy * transform(self.service.residual, stretched))
        if full > 1e-12:
            found = found * (1 - (busy * after) ** self.places) / (1 - full)
        if self.rest is not None:
            found = found * transform(self.rest)
        if served:
            found = found * transform(self.service)
        return TimeDistribution(step, np.zeros(points))._folded(np.fft.irfft(found, size))


def wait_between_gamma(rate: float, variation: float, service: Any) -> Any:
    """Probability of waits of whole steps before one server, where times between arrivals have a gamma distribution.

    ``rate`` is of arrivals a step, ``variation`` the squared coefficient of variation, ``service`` the probability of
    services of 0, 1 … steps. A wait W is followed by max(0, W + S − A). So with U = S − A

        1 − E[z^U] = F₊(z) · F₋(z),    E[z^W] = F₊(1) / F₊(z),

    and the logarithm of F₊ has the positive powers of that of both. F₋ has the zero next to 1, which is divided out
    first. On a lattice the gamma distribution is the negative binomial one. A gap longer than all W + S ends a wait.

    >>> service = np.eye(1, 2048, 20)[0]                                     # M/D/1 at 0.6: ρ / (2·(1 − ρ)) = 0.75
    >>> waits = [wait_between_gamma(0.6 / 20, each, service) for each in (0.25, 1.0, 4.0)]
    >>> [round(float(each @ np.arange(2048)) / 20, 2) for each in waits]
    [0.1, 0.76, 3.82]
    """
    points, between = len(service), 1 / rate
    shape = 1 / max(variation - rate, 1e-6)  # the lattice itself varies by the rest
    number, gone = np.arange(1, points), between / (between + shape)
    growth = np.concatenate([[0.0], np.cumsum(np.log((number - 1 + shape) / number * gone))])
    gaps = np.exp(shape * np.log1p(-gone) + growth)
    steps, left = np.arange(points), float(gaps.sum())
    spare = float(gaps @ steps) - left * float(service @ steps)
    size, near = 8 * points, _decay(gaps, service)
    # half of the circle, z = e^−iθ, as all powers are real
    both = 1 - np.fft.rfft(service, size) * np.fft.rfft(gaps, size).conj()
    both[1:] /= 1 - np.exp(-near + 2j * np.pi * np.arange(1, len(both)) / size)
    both[0] = max((1 - left) / -np.expm1(-near) if near * points > 1e-6 else spare, 1e-12)
    powers = np.fft.irfft(np.log(np.abs(both)) + 1j * np.unwrap(np.angle(both)), size)
    powers[0], powers[size // 2 :] = 0.0, 0.0
    found = np.maximum(np.fft.irfft(np.exp(-np.fft.rfft(powers)), size)[:points], 0.0)
    return found / found.sum()


def _decay(gaps: Any, service: Any) -> float:
    """The t at which E[e^(t·A)]·E[e^(−t·S)] is 1: the zero of F₋ next to 1 is e^−t. 0 where all gaps are known."""
    steps = np.arange(len(gaps))
    found = most = 600 / len(gaps)
    for _ in range(40):  # by Newton's method from above, as its logarithm is convex
        grown, shrunk = gaps * np.exp(found * steps), service * np.exp(-found * steps)
        total, kept = max(float(grown.sum()), 1e-300), float(shrunk.sum())
        slope = float(grown @ steps) / total - float(shrunk @ steps) / kept
        lower = found - (np.log(total) + np.log(kept)) / slope if slope > 0 else most
        before, found = found, min(max(lower, 0.0), most)
        if abs(before - found) <= 1e-12 * before:
            break
    return float(found)


class FilledSteps(NamedTuple):
    """A server whose steps take all that wait, up to m: ``times[k]`` seconds with k of them, ``times[0]`` unused.

    A state is the number n that wait as a step begins. It takes k = min(n, m) of them, so that the next begins with

        n' = n − k + arrivals in times[k],    or where that is 0 with the next that come

    and by Little's law the mean time to the end of one's step is ``E[n·T + λ·T²/2] / (λ·E[T + idle])``. Requests come
    in groups of geometric size with mean ``burst``; those that come in a step wait for the rest of it.

    >>> one = FilledSteps(0.5, np.array([0.0, 1.0])).solved(0.95)                      # M/D/1: s + ρ·s / (2·(1 − ρ))
    >>> round(one[0], 3), round(one[1], 1)
    (1.5, 3.0)
    """

    rate: float
    times: Any
    burst: float = 1.0

    def solved(self, share: float) -> tuple[float, float]:
        """Mean seconds until the step that takes a request ends, and the time that a ``share`` of all stay within."""
        most, rate = len(self.times) - 1, self.rate
        free = max(1 - rate * float(self.times[-1]) / most, 1e-3)
        n = np.arange(1, most + 1 + min(int(6 * self.burst / free) + 16, BEYOND * 4))
        taken = np.minimum(n, most)
        came = np.array([_group_arrivals(rate * time, len(n) + 1, self.burst) for time in self.times[1:]])[taken - 1]
        time, left = self.times[taken], n - taken
        chain = np.zeros((len(n), len(n) + 1))
        for row, behind in enumerate(left):
            chain[row, behind:] = came[row, : len(n) + 1 - behind]
        idle = chain[:, 0].copy()
        chain[:, -1] += 1 - chain.sum(axis=1)
        begin = (1 - 1 / self.burst) ** (n - 1) / self.burst
        begin /= begin.sum()
        chain = chain[:, 1:] + idle[:, None] * begin
        # the balance of flows, one of which is replaced by the sum of all states
        balance = chain.T - np.eye(len(n))
        balance[-1] = 1.0
        state = np.maximum(np.linalg.solve(balance, np.eye(len(n))[-1]), 0.0)
        cycle = float(state @ time + state @ idle * self.burst / rate)
        mean = float(state @ (n * time + rate * time**2 / 2)) / (rate * cycle)
        return mean, self._percentile(share, state, came, float(state @ idle) * begin, left)

    def _percentile(self, share: float, state: Any, came: Any, begin: Any, left: Any, parts: int = 12) -> float:
        """The time within which a ``share`` stay: by state, by who comes in the step, when, and behind how many.

        Of those that come while nothing is at work, in groups whose sizes ``begin`` weighs, by their places in these.
        """
        most = len(self.times) - 1
        row, passed, number, off = np.ix_(
            np.arange(len(state)), (np.arange(parts) + 0.5) / parts, np.arange(SHARES), THIRDS
        )
        time, behind = self.times[np.minimum(row + 1, most)], left[row]
        # one that comes is more likely among many; of Poisson arrivals the others are as many as come anyway
        beside = came[:, 1:] * np.arange(1, came.shape[1])
        others = np.array([equal_shares(each, SHARES) for each in beside])[row, number]
        earlier = np.clip(np.rint(passed * others + off * np.sqrt(others * passed * (1 - passed))), 0, others)
        steps = np.floor((behind + earlier) / most)
        last = np.minimum(behind + 1 + others - steps * most, most).astype(np.int64)
        values = (1 - passed) * time + steps * self.times[-1] + self.times[last]
        weights = np.broadcast_to(state[row] * time * self.rate, values.shape) / (parts * SHARES * len(THIRDS))
        size, before = np.arange(1, len(begin) + 1)[:, None], np.arange(len(begin))
        steps = before // most
        first = steps * self.times[-1] + self.times[np.clip(size - steps * most, 1, most)]
        alone = np.where(before < size, begin[:, None], 0.0)
        values, weights = (np.append(*each) for each in ((values, first), (weights, alone)))
        return weighted_percentile(values, weights, share)


def exponential_beyond(chance: float, mean: float, step: float) -> TimeDistribution:
    """A time that is 0 but for ``chance``, and then exponential with a ``mean``: the wait for a place of M/M/c."""
    beyond = chance * np.exp(-np.arange(POINTS + 1) * step / (mean or 1.0))
    cells = -np.diff(beyond)
    found = cells / 2
    found[1:] += cells[:-1] / 2
    found[-1] += cells[-1] / 2 + beyond[-1]
    found[0] += 1 - chance
    return TimeDistribution(step, found)


#: Parts of a range of values of which one is looked at closely.
BINS = 1024


def weighted_percentile(values: Any, weights: Any, share: float) -> float:
    """The least value that a ``share`` of the weight stays within.

    >>> weighted_percentile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]), 0.5)
    2.0
    """
    flat, mass = np.ravel(values), np.ravel(weights)
    wanted = share * float(mass.sum()) * (1 - 1e-12)
    low, high = float(flat.min()), float(flat.max())
    if len(flat) > BINS and low < high < np.inf:
        # only values of the bin that the share ends in are sorted
        bins = ((flat - low) * ((BINS - 1) / (high - low))).astype(np.int64)
        cumulative = np.cumsum(np.bincount(bins, mass, BINS))
        at = min(int(np.searchsorted(cumulative, wanted)), BINS - 1)
        inside = bins == at
        flat, mass, wanted = flat[inside], mass[inside], wanted - (float(cumulative[at - 1]) if at else 0.0)
    order = np.argsort(flat)
    at = int(np.searchsorted(np.cumsum(mass[order]), wanted))
    return float(flat[order[min(at, len(order) - 1)]])


def equal_shares(weights: Sequence[float] | Any, points: int) -> Any:
    """Indices of a distribution over whole numbers at the middles of ``points`` equal shares."""
    cumulative = np.cumsum(weights)
    middles = (np.arange(points) + 0.5) / points * cumulative[-1]
    return np.minimum(np.searchsorted(cumulative, middles), len(cumulative) - 1)


def share_means(weights: Any, values: Any, points: int) -> Any:
    """Means of a value over ``points`` equal shares of a distribution, in the order of its states.

    >>> share_means(np.array([0.5, 0.25, 0.25]), np.array([1.0, 2.0, 4.0]), 2)
    array([1., 3.])
    """
    below = np.concatenate([[0.0], np.cumsum(weights)])
    sums = np.concatenate([[0.0], np.cumsum(weights * values)])
    edges = np.linspace(0.0, below[-1], points + 1)
    return np.diff(np.interp(edges, below, sums)) * (points / below[-1])
