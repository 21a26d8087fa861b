"""Statistics for a machine that others use too: which samples count, what they say, what makes them doubtful.

A sample is one short window of work. It counts when every thread really ran: CPU time at least 97 % of the wall time.
Several rounds are interleaved over all kernels, so that a busy second spoils one round and not one kernel; the answer
is the median of the best round, with that round's quartiles.

>>> quiet = [Sample(100.0 + i % 3, (1.0, 0.99)) for i in range(9)]
>>> busy = [Sample(60.0, (1.0, 0.55)) for _ in range(9)]
>>> found = summarise([busy, quiet, busy])
>>> found.value, found.low, found.high, found.samples, round(found.clean, 2)
(101.0, 100.0, 102.0, 9, 0.33)
>>> summarise([busy]).doubts
('no window in which every thread ran: a lower limit',)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

#: The least share of the wall time that every thread must have run for a window to count.
CLEAN = 0.97

#: Below this share of clean windows a measurement was contended.
CONTENDED = 0.5

#: Two clusters of samples this far apart, each with at least this share of them, are two states of the machine.
MODES_APART, MODE_SHARE = 0.15, 0.2

#: Rounds whose medians differ by more than this factor met a machine that had changed.
ROUNDS_APART = 1.1

#: How near the best round another must come to confirm it.
CONFIRMED = 0.03

#: How the doubt begins of a figure whose best round no other confirms.
ALONE = "one round alone"

#: A value may stand this far above what theory allows before it is doubted: clocks drift between two windows.
ABOVE_THEORY = 1.05

#: A thread that ran less than this share of a typical window idled or was taken away.
IDLE = 0.5


class Sample(NamedTuple):
    """One window: the rate it reached, and for every thread its CPU time as a share of the wall time."""

    value: float
    shares: tuple[float, ...]

    @property
    def clean(self) -> bool:
        """Whether every thread ran throughout."""
        return min(self.shares) >= CLEAN


@dataclass(frozen=True, slots=True)
class Summary:
    """What the samples of one kernel say.

    ``value`` is the median of the best round, ``low`` and ``high`` its quartiles, ``samples`` how many windows it
    rests on, ``clean`` the share of all windows that were clean, ``doubts`` what a reader should know.
    """

    value: float
    low: float
    high: float
    samples: int
    clean: float
    doubts: tuple[str, ...] = ()

    @property
    def spread(self) -> float:
        """Distance between the quartiles as a share of the value."""
        return (self.high - self.low) / self.value if self.value else 0.0

    @property
    def contended(self) -> bool:
        """Whether others used the machine for most of the time."""
        return self.clean < CONTENDED

    def doubted(self, beginnings: str | tuple[str, ...]) -> bool:
        """Whether a doubt begins with one of these words."""
        return any(doubt.startswith(beginnings) for doubt in self.doubts)


def summarise(
    rounds: Sequence[Sequence[Sample]], *, theory: float | None = None, smaller_is_better: bool = False
) -> Summary | None:
    """Summarise the rounds of one kernel; None where nothing was sampled.

    ``theory`` is the most that is possible. ``smaller_is_better`` is for times. Without a clean window the fastest
    quarter stands in, and it is said.

    >>> summarise([[Sample(2.0, (1.0,)), Sample(3.0, (1.0,))], [Sample(5.0, (1.0,))]], smaller_is_better=True).value
    2.5
    >>> summarise([]) is None
    True
    """
    everything = [sample for one in rounds for sample in one]
    if not everything:
        return None
    kept = _clean(rounds)
    doubts = []
    if not kept:
        ranked = sorted((sample.value for sample in everything), reverse=not smaller_is_better)
        kept = [ranked[: max(1, len(ranked) // 4)]]
        doubts.append(f"no window in which every thread ran: {'an upper' if smaller_is_better else 'a lower'} limit")
    ordered = _ranked(kept, smaller_is_better)
    best = ordered[0]
    value, low, high = median(best), quantile(best, 0.25), quantile(best, 0.75)
    doubts += _doubts(everything, [v for one in kept for v in one], value, theory)
    medians = [median(one) for one in ordered]
    if len(rounds) > 1 and not _near(medians):
        doubts.append(f"{ALONE}: no other came within {CONFIRMED:.0%} of the best")
    if max(medians) > ROUNDS_APART * min(medians):
        doubts.append(f"rounds apart: from {min(medians):.3g} to {max(medians):.3g}")
    clean = sum(sample.clean for sample in everything) / len(everything)
    return Summary(value, low, high, len(best), clean, tuple(doubts))


def confirmed(rounds: Sequence[Sequence[Sample]], *, smaller_is_better: bool = False) -> bool:
    """Whether a second round came near the best one, so that it was no accident and the machine was left alone twice.

    >>> slow, fast = ([Sample(value, (1.0,))] * 5 for value in (60.0, 100.0))
    >>> confirmed([slow, fast]), confirmed([slow, fast, slow, fast])
    (False, True)
    """
    return _near([median(one) for one in _ranked(_clean(rounds), smaller_is_better)])


def _near(medians: Sequence[float]) -> bool:
    """Whether the second of the medians, the best first, comes near the first."""
    return len(medians) > 1 and abs(medians[1] - medians[0]) <= CONFIRMED * medians[0]


def _clean(rounds: Sequence[Sequence[Sample]]) -> list[list[float]]:
    """Keep the values of clean samples, round by round, and no round without any."""
    kept = [[sample.value for sample in one if sample.clean] for one in rounds]
    return [one for one in kept if one]


def _ranked(rounds: Sequence[list[float]], smaller_is_better: bool) -> list[list[float]]:
    """Sort rounds by their medians, the best first; those with less than half of the most values do not count."""
    enough = max(map(len, rounds), default=0) / 2
    return sorted((one for one in rounds if len(one) >= enough), key=median, reverse=not smaller_is_better)


def _doubts(everything: Sequence[Sample], kept: Sequence[float], value: float, theory: float | None) -> list[str]:
    said = []
    modes = two_modes(kept)
    if modes is not None:
        said.append(f"two states: around {modes[0]:.3g} and {modes[1]:.3g}")
    if theory is not None and value > ABOVE_THEORY * theory:
        said.append(f"{value / theory:.2f} of what theory allows")
    for thread in range(len(everything[0].shares)):
        if median(sample.shares[thread] for sample in everything) < IDLE:
            said.append(f"thread {thread} was idle or taken away most of the time")
    return said


def quantile(values: Sequence[float], at: float) -> float:
    """Value below which a share ``at`` of the values lies, interpolated.

    >>> quantile([1, 2, 3, 4, 5], 0.25), quantile([7.0], 0.75)
    (2.0, 7.0)
    """
    ordered = sorted(values)
    place = at * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (ordered[above] - ordered[below]) * (place - below))


def two_modes(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the medians of two clusters where the values fall into two, else None.

    The values are cut at their widest gap; both sides need a fifth of them, medians 15 % apart, and a gap wider than
    either side's own spread.

    >>> two_modes([10, 10.1, 10.2, 10.1, 20, 20.1, 20.2, 20.1])
    (10.1, 20.1)
    >>> two_modes([10, 10.5, 11, 11.5, 12, 12.5, 13]) is None
    True
    """
    ordered = sorted(values)
    if len(ordered) < 6:
        return None
    gaps = [(after - before, index) for index, (before, after) in enumerate(pairwise(ordered), 1)]
    gap, cut = max(gaps)
    below, above = ordered[:cut], ordered[cut:]
    if min(len(below), len(above)) < MODE_SHARE * len(ordered):
        return None
    low, high = median(below), median(above)
    own = max(below[-1] - below[0], above[-1] - above[0])
    return (low, high) if high - low > MODES_APART * high and gap > own else None
