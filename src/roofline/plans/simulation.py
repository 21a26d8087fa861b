"""A server simulated request by request with simpy: the check of :mod:`roofline.plans.load`.

Requests arrive, wait for one of N places, are prefilled in the order they came, whole or in chunks beside those that
decode, and then get a token at each step, or with a draft what its check gives. It is the same engine as that of the
chain, without its approximations.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator
from typing import Any

import numpy as np

from roofline.errors import InputError, from_the_source, quoted
from roofline.frozen import dataclass
from roofline.plans.load import LENGTHS, LatencyUnderLoad, ServerTimes
from roofline.plans.queueing import weighted_percentile
from roofline.quantity import format_percent
from roofline.sections import BLANK, Amount, Column, Headline, Row, Section, Table, figures

#: Groups of consecutive requests, whose means say how sure the mean of all is.
GROUPS = 20

#: The fewest and the most requests: each group has two, and a process holds all.
REQUESTS = (2 * GROUPS, 200_000)

#: The part of the requests that only warms up.
WARMING = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedServer:
    """Times of each request of a simulation, in seconds, in the order of arrival; the first tenth is left out."""

    first_token: Any
    per_token: Any
    last_token: Any
    share: float
    gaps: Any

    @property
    def time_to_first_token(self) -> LatencyUnderLoad:
        """The time until a request has its first token."""
        return LatencyUnderLoad(float(self.first_token.mean()), float(np.quantile(self.first_token, self.share)))

    @property
    def time_per_token(self) -> LatencyUnderLoad:
        """The mean gap of each request that has any: over requests."""
        gaps = self.per_token[~np.isnan(self.per_token)]
        return LatencyUnderLoad(float(gaps.mean()), float(np.quantile(gaps, self.share)))

    @property
    def end_to_end(self) -> LatencyUnderLoad:
        """The time until a request has its last token."""
        return LatencyUnderLoad(float(self.last_token.mean()), float(np.quantile(self.last_token, self.share)))

    @property
    def token_gap(self) -> LatencyUnderLoad:
        """The gap between steps that give a token, over all tokens: ``gaps`` are lengths and how many have each."""
        lengths, numbers = self.gaps
        mean = float(np.average(lengths, weights=numbers))
        return LatencyUnderLoad(mean, weighted_percentile(lengths, numbers, self.share))

    def standard_error(self, name: str) -> LatencyUnderLoad:
        """Standard errors of the mean and percentile of one of these times, by groups of requests."""
        values = getattr(self, name)
        groups = [group[~np.isnan(group)] for group in np.array_split(values, GROUPS)]
        found = np.array([[group.mean(), np.quantile(group, self.share)] for group in groups if len(group)])
        mean, percentile = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        return LatencyUnderLoad(float(mean), float(percentile))


def simulate(
    server: ServerTimes, rate: float, *, requests: int = 4000, percentile: float = 0.95, seed: int = 0
) -> SimulatedServer:
    """Run so many requests through a server at a rate of requests a second."""
    fewest, most = REQUESTS
    if not fewest <= requests <= most:
        raise InputError(f"requests is {quoted(requests)}", hint=f"from {fewest:,} to {most:,} are simulated")
    if seed < 0:
        raise InputError(f"seed is {quoted(seed)}", hint="a whole number from 0 on")
    try:
        import simpy
    except ImportError:
        raise InputError("a simulation needs simpy", hint=from_the_source("simulate")) from None
    random = np.random.default_rng(seed)
    variation = server.arrival_variation
    gaps = random.gamma(1 / variation, variation, requests) if variation > 0 else np.ones(requests)  # of mean 1
    arrivals = np.cumsum(gaps / rate)
    shares = [share for share, _ in server.spread]
    work = random.choice([each for _, each in server.spread], p=shares, size=requests)
    tokens = _decode_tokens(random, server, requests)
    steps = tokens if server.draft is None else server.draft.draw(random, tokens)
    environment = simpy.Environment()
    # numbers of Python add up and compare several times as fast as those of an array, one by one
    engine = _Engine(environment, server, *(each.tolist() for each in (arrivals, work, steps)))
    environment.process(engine.arrive())
    environment.run(until=environment.process(engine.run()))
    kept = slice(int(WARMING * requests), None)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_token = np.where(tokens > 0, (engine.last - engine.first) / tokens, np.nan)
    token_gaps = np.array(engine.gaps).reshape(-1, 2).T
    first, last = (times - arrivals for times in (engine.first, engine.last))
    return SimulatedServer(first[kept], per_token[kept], last[kept], percentile, token_gaps)


def _decode_tokens(random: Any, server: ServerTimes, count: int) -> Any:
    mean = server.output - 1
    if LENGTHS[server.lengths] and mean > 1:
        return random.geometric(1 / mean, count)
    return np.full(count, round(mean))


class _Engine:
    """One server: a step after another, each a wait in simulated time."""

    def __init__(
        self, environment: Any, server: ServerTimes, arrivals: list[float], work: list[float], steps: list[int]
    ) -> None:
        self.environment, self.server = environment, server
        times: list[list[float]] = [each.tolist() for each in (server.service, server.step, server.stall)]
        self.service, self.step, self.stall = times
        self.arrivals, self.work, self.steps = arrivals, work, steps
        self.first, self.last = np.zeros(len(arrivals)), np.zeros(len(arrivals))
        self.waiting: deque[int] = deque()
        self.ends: list[tuple[int, int]] = []
        self.count = 0
        self.left = len(arrivals)
        self.wake = environment.event()
        self.before = 0.0
        self.begun: list[float] = []
        self.gaps: list[tuple[float, int]] = []

    def arrive(self) -> Generator[Any, Any, None]:
        """Let requests in, each at its time."""
        for number, time in enumerate(self.arrivals):
            yield self.environment.timeout(time - self.environment.now)
            self.waiting.append(number)
            if not self.wake.triggered:
                self.wake.succeed()

    def run(self) -> Generator[Any, Any, None]:
        """Step until all requests have their tokens."""
        prompts: list[int] = []
        chunks, server = 0, self.server
        while self.left:
            decoding = len(self.ends)
            if not prompts and self.waiting and decoding < server.most:
                come = min(server.together, len(self.waiting), server.most - decoding)
                prompts = [self.waiting.popleft() for _ in range(come)]
                chunks = max(1, round(server.chunks * self.work[prompts[0]])) if server.chunks else 1
            if not prompts and not decoding:
                self.wake = self.environment.event()
                yield self.wake
                continue
            whole = bool(prompts) and not server.chunks
            yield self.environment.timeout(self._time(decoding, prompts, whole))
            if not whole and decoding:
                self._token()
            if prompts:
                chunks -= 1
                if chunks == 0:
                    for prompt in prompts:
                        self._begin(prompt)
                    prompts = []

    def _time(self, decoding: int, prompts: list[int], whole: bool) -> float:
        server = self.server
        if whole:
            return self.service[decoding] * self.work[prompts[0]]
        if prompts and server.together == 1:
            return self.service[decoding] / server.chunks
        work = sum(self.work[each] for each in prompts)
        if server.filled is not None:
            return float(np.interp(work, np.arange(len(server.filled)), server.filled))
        # prompts that share a step prolong it each by its stall
        return self.step[decoding] + self.stall[decoding] * work

    def _token(self) -> None:
        """One token for each that decodes; those that have all leave."""
        self.count += 1
        now = self.environment.now
        self.gaps.append((now - self.before, len(self.ends) - len(self.begun)))
        self.gaps += [(now - first, 1) for first in self.begun]
        self.before, self.begun = now, []
        while self.ends and self.ends[0][0] <= self.count:
            _, number = heapq.heappop(self.ends)
            self.last[number] = self.environment.now
            self.left -= 1

    def _begin(self, prompt: int) -> None:
        """The first token of a request; it decodes from the next step on."""
        self.first[prompt] = self.environment.now
        if self.steps[prompt] > 0:
            heapq.heappush(self.ends, (self.count + self.steps[prompt], prompt))
            self.begun.append(self.environment.now)
        else:
            self.last[prompt] = self.environment.now
            self.left -= 1


def simulation_sections(
    server: ServerTimes, rate: float, share: float, requests: int, seed: int = 0
) -> tuple[Section, ...]:
    """One replica simulated, beside what the chain and the queue say: means, percentiles and their standard errors."""
    found, seen = server.under(rate, share), simulate(server, rate, requests=requests, percentile=share, seed=seed)
    rows = []
    times = [("first_token", "time to first token", found.time_to_first_token, seen.time_to_first_token)]
    if server.decode_steps > 0:
        times += [
            ("per_token", "time per token", found.time_per_token, seen.time_per_token),
            ("last_token", "end to end", found.end_to_end(), seen.end_to_end),
        ]
    for name, label, expected, measured in times:
        error = seen.standard_error(name)
        for which, word in (("mean", "mean"), ("percentile", f"p{100 * share:g}")):
            cells = (Amount(getattr(each, which), "s") for each in (expected, measured, error))
            rows.append(Row((f"{label}, {word}", *cells)))
    columns = (Column(), *figures("closed form", "simulated", "standard error"))
    head = Headline(
        "simulated", f"one replica, {requests:,} requests at {format_percent(found.utilisation)} of its rate", level=2
    )
    return BLANK, head, Table(columns, rows, "simulated", indent=4)
