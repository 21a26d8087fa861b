"""Sampling many probes in interleaved rounds, within a budget of time, on a machine that others use too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from roofline.measurement.probes import Probe
from roofline.measurement.samples import confirmed

#: Called with how much of the work is done (0 to 1) and what is being sampled.
Progress = Callable[[float, str], None]

#: How many times its budget the first round may take.
LATEST = 1.1

#: More batches of one probe in one round, where the windows before were not clean; more rounds of one until confirmed.
ATTEMPTS = 12

#: Share of a progress bar that the rounds of all probes fill; the rest is for those that need more.
ROUNDS_SHARE = 0.6


def sample(
    probes: Sequence[Probe], *, rounds: int, windows: int, seconds: float, progress: Progress | None = None
) -> bool:
    """Take ``rounds`` rounds of ``windows`` windows from every probe; return False where it was stopped by Ctrl-C.

    What time a round has left goes to the probes whose windows were not clean, again and again: those who disturbed
    them may have gone. Behind the clock, one window has to do. When ``seconds`` are over no further round goes on; the
    first one may take a tenth longer, so that as much as possible has a figure. What time all rounds have left goes to
    the probes whose best round no other confirms (:func:`roofline.measurement.samples.confirmed`).
    """
    start = monotonic()
    total = rounds * len(probes)
    try:
        for number in range(rounds):
            for probe in probes:
                probe.rounds.append([])
            for position, probe in enumerate(probes):
                done = number * len(probes) + position
                if progress is not None:
                    progress(ROUNDS_SHARE * done / total, probe.name)
                spent = monotonic() - start
                if spent > (seconds if number else LATEST * seconds):
                    return True
                due = start + seconds * (done + 1) / total
                probe.rounds[-1] += probe.take(windows if monotonic() < due else 1)
            _again(probes, windows, start + seconds * (number + 1) / rounds)
        if rounds > 1:
            _confirm(probes, windows, start + seconds, progress)
    except KeyboardInterrupt:
        return False
    return True


def _again(probes: Sequence[Probe], windows: int, end: float) -> None:
    """Take more windows of the probes that have fewer than half of them clean, until a time or so many attempts."""
    for _ in range(ATTEMPTS):
        for probe in probes:
            if sum(one.clean for one in probe.rounds[-1]) * 2 < windows:
                if monotonic() > end:
                    return
                probe.rounds[-1] += probe.take(windows)


def _confirm(probes: Sequence[Probe], windows: int, end: float, progress: Progress | None) -> None:
    """Take more rounds of the probes whose best round stands alone, until a time or so many attempts."""
    start = monotonic()
    for _ in range(ATTEMPTS):
        for probe in probes:
            if not confirmed(probe.rounds, smaller_is_better=probe.smaller_is_better):
                now = monotonic()
                if now > end:
                    return
                if progress is not None:
                    share = (now - start) / (end - start)
                    progress(ROUNDS_SHARE + (1 - ROUNDS_SHARE) * share, f"{probe.name}, again")
                probe.rounds.append(probe.take(windows))
