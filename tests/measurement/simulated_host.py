"""A simulated host for tests: cores whose true rates are known, and others who use them beneath the system.

Others come and go on every core in spells, short ones by the hundred and some long. While one is there a kernel that
stays in registers goes at little more than half its speed; what goes to main memory is slowed by all of them. The
windows see of that what real ones see: whether a core is shared at the moment before them and at the one after.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import accumulate, pairwise

from roofline.measurement.levels import Sample
from roofline.measurement.probes import ROUND, WINDOW, Probe, collect, sample
from roofline.measurement.result import Conditions, Measurement

#: What two threads of a core leave each other, and what the others of a busy host take of the main memory.
BESIDE, TRAFFIC = 0.55, 0.3

#: Time of the two looks around a window, and noise of one window.
LOOKS, NOISE = 1e-5, 0.004

#: Spells of others on a core in seconds and how many of each length there are for one of the longest.
SPELLS = ((2e-4, 50), (2e-3, 20), (2e-2, 4), (2e-1, 1))

CORES, CLOCK = 2, 3e9


class Core:
    """One core: when others use it, told in advance from a seed."""

    def __init__(self, busy: float, seconds: float, seed: str) -> None:
        chance = random.Random(seed)
        lengths, weights = zip(*SPELLS, strict=True)
        self.edges, now = [0.0], 0.0
        while now < seconds:
            used = chance.expovariate(1 / chance.choices(lengths, weights)[0])
            typical = sum(length * weight for length, weight in SPELLS) / sum(weights)
            alone = chance.expovariate(1 / (typical * (1 - busy) / busy)) if busy else seconds
            self.edges += [now + alone, now + alone + used]
            now += alone + used
        spans = [later - sooner for sooner, later in pairwise(self.edges)]
        self.used = [0.0, *accumulate(span if number % 2 else 0.0 for number, span in enumerate(spans))]

    def shared(self, at: float) -> bool:
        """Whether others use it at a moment."""
        return bisect_right(self.edges, at) % 2 == 0

    def share(self, begin: float, end: float) -> float:
        """The share of some time in which others used it."""
        return (self._until(end) - self._until(begin)) / (end - begin)

    def _until(self, at: float) -> float:
        place = min(bisect_right(self.edges, at), len(self.edges)) - 1
        return self.used[place] + (at - self.edges[place] if place % 2 else 0.0)


class Host:
    """Its cores, the clock of this hour, and the time by which a measurement goes."""

    def __init__(self, busy: float, seed: int, *, seconds: float) -> None:
        self.busy, self.seconds, self.now = busy, seconds, 0.0
        self.cores = [Core(busy, 1.5 * seconds, f"{seed} {busy} {core}") for core in range(CORES)]
        self.chance = random.Random(seed)
        self.rates: list[tuple[bool, tuple[float, bool]]] = []

    def time(self) -> float:
        """What the schedule takes for the time."""
        return self.now

    def window(self, rate: float, threads: int, memory: bool, smaller: bool) -> Sample:
        """Work for one window: its rate (or its time), and what the looks around it tell."""
        cores, begin = self.cores[:threads], self.now
        used = max(core.share(begin, begin + WINDOW) for core in cores)
        slow = 1 - (1 - BESIDE) * used
        if memory:
            slow *= 1 - TRAFFIC * sum(core.share(begin, begin + 1e-2) for core in self.cores) / CORES
        slow *= self.chance.gauss(1, NOISE)
        self.now = end = begin + WINDOW / slow + LOOKS
        seen = any(core.shared(at) for core in cores for at in (begin, end))
        value = rate / slow if smaller else rate * slow
        return Sample(value, (1.0,) * threads, BESIDE if seen else 1.0, CLOCK)

    def probes(self) -> list[Probe]:
        """Kernels as a measurement has them: the clock, registers, a curve over working sets, calls."""
        found = [self._probe("clock", "Hz", CLOCK, 1)]
        for threads in range(1, CORES + 1):
            found += [
                self._probe(f"register {dtype}", "FLOP/s", 64e9 * threads, threads, dtype=dtype)
                for dtype in ("fp64", "fp32", "bf16", "int8")
            ]
            found += [
                self._probe("load", "B/s", rate * threads, threads, working_set=float(size * threads), curve=True)
                for size, rate in ((12e3, 400e9), (24e3, 400e9), (200e3, 170e9), (4e5, 170e9), (1e8, 17e9), (2e8, 17e9))
            ]
        found += [self._probe(f"call {name}", "s", 4e-6, 1) for name in ("add", "softmax", "gelu")]
        return found

    def _probe(self, name: str, unit: str, rate: float, threads: int, **more) -> Probe:
        memory, smaller = more.get("working_set", 0.0) > 1e7, unit == "s"
        self.rates.append(("curve" in more, (rate, memory)))

        def take(windows: int) -> list[Sample]:
            return [self.window(rate, threads, memory, smaller) for _ in range(min(windows, int(ROUND / WINDOW)))]

        return Probe(name, unit, "simulated", threads, take, smaller_is_better=smaller, **more)

    def truth(self) -> list[tuple[float, bool]]:
        """What every kernel does on cores of its own and whether it needs memory, as a measurement's summaries go."""
        self.rates.clear()
        self.probes()
        return [found for _, found in sorted(self.rates, key=lambda pair: pair[0])]

    def measure(self, rounds: int, windows: int) -> Measurement:
        """Measure as on a real one; the schedule's clock must be :meth:`time`."""
        probes = self.probes()
        sample(probes, rounds=rounds, windows=windows, seconds=self.seconds)
        return collect(probes, Conditions("simulated", "2026-01-01", CORES, self.seconds))
