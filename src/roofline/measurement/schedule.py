"""Sampling many probes in interleaved rounds, within a budget of time, on a machine that others use too."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from time import monotonic

from roofline.measurement.probes import Probe

#: Called with how much of the work is done (0 to 1) and what is being sampled.
Progress = Callable[[float, str], None]

#: How many times its budget the first round may take.
LATEST = 1.1

#: The most rounds of a probe that does not settle, in :data:`USUAL` seconds; in more time as many more.
MOST_ROUNDS, USUAL = 60, 48.0

#: Up to so many rounds a probe is looked at after each whether it has settled, later after every so many.
OFTEN, SELDOM = 12, 4

#: Share of a progress bar that the rounds of all probes fill; the rest is for those that need more.
ROUNDS_SHARE = 0.5


def sample(
    probes: Sequence[Probe], *, rounds: int, windows: int, seconds: float, progress: Progress | None = None
) -> bool:
    """Take ``rounds`` rounds of ``windows`` windows from every probe; return False where it was stopped by Ctrl-C.

    Behind the clock, one window has to do. When ``seconds`` are over no further round goes on; the first one may take a
    tenth longer, so that as much as possible has a figure. What time all rounds have left goes to the probes that have
    not settled (:class:`~roofline.measurement.samples.Standing`): on a machine left alone none is, on one that others
    disturb for milliseconds at a time some of many short rounds meet none of them. A probe that fails is passed.
    """
    start = monotonic()
    total = rounds * len(probes)
    spent = [0.0] * len(probes)
    try:
        for number in range(rounds):
            for probe in probes:
                probe.rounds.append([])
            for position, probe in enumerate(probes):
                done = number * len(probes) + position
                if progress is not None:
                    progress(ROUNDS_SHARE * done / total, probe.name)
                began = monotonic()
                if began - start > (seconds if number else LATEST * seconds):
                    return True
                due = start + seconds * (done + 1) / total
                probe.rounds[-1] += probe.taken(windows if began < due else 1)
                spent[position] += monotonic() - began
        if rounds > 1:
            _settle(probes, spent, windows, start + seconds, progress)
    except KeyboardInterrupt:
        return False
    return True


def _settle(probes: Sequence[Probe], spent: list[float], windows: int, end: float, progress: Progress | None) -> None:
    """Take more rounds of the probes that have not settled, always of the one that had least time so far.

    Time counts the more, the more rounds came near the best: what nothing confirms yet goes before the rest.
    """
    start = monotonic()
    most = MOST_ROUNDS * max(1.0, (end - start) / USUAL)
    stand = [probe.standing for probe in probes]

    def turn(place: int) -> tuple[float, int]:
        return spent[place] * (1 + stand[place].near), place

    waiting = [turn(place) for place in range(len(probes))]
    heapq.heapify(waiting)
    while waiting and (now := monotonic()) < end:
        _, place = heapq.heappop(waiting)
        probe, taken = probes[place], len(probes[place].rounds)
        if taken < OFTEN or taken % SELDOM == 0:
            stand[place] = probe.standing
        if probe.failed or stand[place].settled or taken >= most:
            continue
        if progress is not None:
            progress(ROUNDS_SHARE + (1 - ROUNDS_SHARE) * (now - start) / (end - start), f"{probe.name}, again")
        probe.rounds.append(probe.taken(windows))
        spent[place] += monotonic() - now
        heapq.heappush(waiting, turn(place))
