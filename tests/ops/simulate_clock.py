"""How long the steps of a simulated collective take, on links of given speeds and latencies."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

from simulate import Trace

Rates = Mapping[str, Fraction]


def step_by_step(trace: Trace, speed: Rates, latency: Rates) -> Fraction:
    """Every step waits for the slowest link of the one before."""
    zero = Fraction(0)
    return sum((_latest(step, latency) + max(s / speed[k[0]] for k, s in step.items()) for step in trace.steps), zero)


def _latest(step: Mapping[tuple[str, object, object], Fraction], latency: Rates) -> Fraction:
    return max(latency[link[0]] for link in step)


def pipelined(trace: Trace, speed: Rates, latency: Rates, pieces: int) -> Fraction:
    """Cut the data into pieces, each of which takes all steps; step s of one goes with step s + 1 of the one before.

    A piece sends for as long as its busiest link needs for all its steps; what it sends has arrived a latency later,
    and only then does its next step begin. Checks that no link ever carries more than its speed.
    """
    if not trace.steps:
        return Fraction(0)
    totals: dict[tuple[str, object, object], Fraction] = {}
    for step in trace.steps:
        for link, size in step.items():
            totals[link] = totals.get(link, Fraction(0)) + size / pieces
    window = max(size / speed[link[0]] for link, size in totals.items())
    begins = [Fraction(0)]
    for step in trace.steps:
        begins.append(begins[-1] + window + _latest(step, latency))
    spans = [(piece * window + begins[s], s) for piece in range(pieces) for s in range(len(trace.steps))]
    _never_too_fast(trace, speed, pieces, window, spans)
    return (pieces - 1) * window + begins[-1]


def _never_too_fast(
    trace: Trace, speed: Rates, pieces: int, window: Fraction, spans: list[tuple[Fraction, int]]
) -> None:
    """At every moment the steps under way send over a link at no more than its speed; links used alike count once."""
    sent_by: dict[tuple[str, object, object], dict[int, Fraction]] = {}
    for s, step in enumerate(trace.steps):
        for link, size in step.items():
            sent_by.setdefault(link, {})[s] = size
    profiles = {(link[0], tuple(sizes.items())): sizes for link, sizes in sent_by.items()}
    moments = sorted({t for begin, _ in spans for t in (begin, begin + window)})
    for a, b in pairwise(moments):
        under_way = [s for begin, s in spans if begin <= a and b <= begin + window]
        for (place, _), sizes in profiles.items():
            sent = sum((sizes.get(s, Fraction(0)) for s in under_way), Fraction(0)) / pieces * (b - a) / window
            assert sent <= speed[place] * (b - a), "a link carries more than it can"
