"""Probes: one kernel on some threads over some working set, or one call, sampled again and again.

:func:`sample` takes the samples of many probes in interleaved rounds, within a budget of time, on a machine that others
use too. :func:`collect` makes a measurement of them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from resource import RUSAGE_SELF, getrusage
from statistics import fmean
from time import monotonic, perf_counter, sleep, thread_time
from typing import Any

from roofline.errors import InputError
from roofline.frozen import replace
from roofline.measurement.kernels import LINE, Kernel, flops_per_cycle
from roofline.measurement.levels import (
    BEYOND,
    SHARED_UNIT,
    RoundAgreement,
    Sample,
    SampleSummary,
    round_agreement,
    summarise,
)
from roofline.measurement.machine_code import Compiler
from roofline.measurement.processor import memory_limit
from roofline.measurement.result import Ceiling, Conditions, Curve, Measurement, ShapeTable
from roofline.measurement.threads import LARGE_PAGE, STAGGER, Buffer, Job, ThreadTeam, core_watch, samples_of
from roofline.progress import stopped
from roofline.signatures import spelled
from roofline.sizes import grouped

#: Length of a window in seconds: long against reading a clock, short against a turn of the scheduler.
WINDOW = 2e-4

#: Length of a window of calls from Python, which must fit into a turn of the scheduler with all threads of a library.
CALL_WINDOW = 2e-4

#: Large working sets are walked in pieces of this many bytes, so that a window ends in time; each window goes on where
#: the one before ended, so that what it meets has been out of the caches for the whole walk.
PIECE = 4 * 2**20

#: An undisturbed window has at least this fraction of the calling thread's best share of CPU time.
OWN_WAITING = 0.9

#: Seconds of rest after a window that was not clean: the scheduler prefers a thread that has rested.
REST = 2e-3

#: The share of a container's memory that measuring takes at most: with more the system would kill this process.
MOST_MEMORY = 0.75

#: Errors of a library that lacks an operation on this processor, and of a system without more memory.
FAILURES = (RuntimeError, MemoryError, OSError)

#: The largest share of a window in which the system took a core away.
TAKEN_AWAY = 0.9

#: Seconds that the windows of one round take together, and the fewest windows of a kernel and of calls: the first ones
#: find caches that other work filled.
ROUND, LEAST_WINDOWS, LEAST_CALLS = 4e-3, 5, 3

#: A call this long in seconds is a window and a round by itself.
LONG_CALL = 0.1

#: A call on several threads shorter than this goes once before its window: threads that have waited for a tenth of a
#: millisecond lie down, and waking them takes a fiftieth of one.
WAKING = 2e-3

#: Windows of new pages in a round: making them takes longer than writing to them.
FEW_WINDOWS = 3

#: How names of tile kernels begin, and the share of clock times width below which others use the same unit.
TILE, SHARED_TILES = "tile ", 0.9

#: Calls of which the shortest tells how long one takes.
TRIALS = 3

#: A turn of a kernel must take this long before its time is believed.
TRUSTED = 1e-4


@dataclass(slots=True)
class Probe:
    """What to sample: ``take`` returns samples of so many windows; ``rounds`` keeps them, round by round.

    ``curve`` says that it is a point of a curve over the working set, ``per_cycle`` the most it can do in a cycle,
    ``shape`` the rows and the side of a product that is an entry of a table, ``failed`` why it cannot be sampled here.
    """

    name: str
    unit: str
    what: str
    threads: int
    take: Callable[[int], list[Sample]]
    dtype: str = ""
    working_set: float | None = None
    curve: bool = False
    per_cycle: float | None = None
    smaller_is_better: bool = False
    shape: tuple[float, float] | None = None
    rounds: list[list[Sample]] = field(default_factory=list)
    failed: str = ""

    def take_windows(self, windows: int) -> list[Sample]:
        """Take windows; none where the work fails, whose reason is kept."""
        try:
            return [] if self.failed else self.take(windows)
        except FAILURES as error:
            self.failed = reason(error)
            return []

    @property
    def round_agreement(self) -> RoundAgreement:
        """How many rounds agree with the best one."""
        return round_agreement(self.rounds, smaller_is_better=self.smaller_is_better)


class Bench:
    """Compiler, threads and ``memory`` together; makes probes of kernels.

    The first thread has room for more than the largest ``cache``, even where many share the memory.
    """

    def __init__(self, team: ThreadTeam, compiler: Compiler, memory: int, cache: float = 0.0) -> None:
        self.team, self.compiler = team, compiler
        share, others = memory // len(team.cores), len(team.cores) - 1
        first = max(share, min(memory, int(BEYOND * cache)))
        memory = max(memory, first + share * others)
        limit = memory_limit()
        try:
            if limit is not None and memory > MOST_MEMORY * limit:
                raise MemoryError
            self.buffers = [Buffer(n // LARGE_PAGE * LARGE_PAGE + LARGE_PAGE) for n in (first, *[share] * others)]
        except (OSError, MemoryError):
            wrong = f"measuring takes {memory >> 20} MiB of memory, more than this process is given"
            hint = f"raise its limit (ulimit -v, a container's); {spelled('quick', True)} takes half"
            raise InputError(wrong, hint=hint) from None
        team.each([buffer.touch for buffer in self.buffers])
        team.learn(compiler.front_end())

    def close(self) -> None:
        """Hand the memory back."""
        for buffer in self.buffers:
            buffer.close()

    def room(self, threads: int) -> int:
        """Bytes that each of so many threads has."""
        return min(buffer.size for buffer in self.buffers[:threads])

    def registers(self, kernel: Kernel, threads: int) -> Probe:
        """Probe a kernel that stays in registers."""
        function = self.compiler.function(kernel)

        def jobs(repeats: int, _place: int) -> list[Job]:
            return [Job(function, (b.address, b.address + 4096, b.address), repeats, 1) for b in self.buffers[:threads]]

        take = self._taker(jobs, lambda repeats: kernel.amount * repeats * threads)
        per_cycle = flops_per_cycle(kernel)
        return Probe(
            kernel.name, kernel.unit, kernel.what, threads, take, kernel.dtype,
            per_cycle=None if per_cycle is None else per_cycle * threads,
        )  # fmt: skip

    def memory(self, kernel: Kernel, threads: int, total: float, *, curve: bool = True) -> Probe | None:
        """Probe a kernel over a working set of ``total`` bytes on all threads; None where it is too small or large."""
        each = int(total / threads / kernel.arrays) // kernel.step * kernel.step
        room = self.room(threads)
        if each < kernel.step or kernel.arrays * (each + STAGGER) > room:
            return None
        function = self.compiler.function(kernel)
        piece = min(each, PIECE // kernel.step * kernel.step)
        gap = -(-each // LINE) * LINE + STAGGER

        def jobs(repeats: int, place: int) -> list[Job]:
            return [
                Job(
                    function, [b.address + gap * min(n, kernel.arrays - 1) for n in range(3)], piece, repeats,
                    stride=piece if piece < each else 0, span=each, first=place * piece,
                )
                for b in self.buffers[:threads]
            ]  # fmt: skip

        take = self._taker(jobs, lambda repeats: kernel.amount * piece * repeats * threads, each // piece)
        working_set = float(each * kernel.arrays * threads)
        return Probe(kernel.name, kernel.unit, kernel.what, threads, take, kernel.dtype, working_set, curve)

    def fresh(self, kernel: Kernel, threads: int, size: int) -> Probe:
        """Probe the first write to new pages: every window gets pages of its own."""
        function = self.compiler.function(kernel)

        def take(windows: int) -> list[Sample]:
            found = []
            for _ in range(min(windows, FEW_WINDOWS)):
                new = [Buffer(size, large=False) for _ in range(threads)]
                jobs = [Job(function, (b.address,) * 3, size, 1) for b in new]
                found += samples_of(self.team.windows(jobs, 1), float(size * threads))
                for buffer in new:
                    buffer.close()
            return found

        return Probe(kernel.name, kernel.unit, kernel.what, threads, take, working_set=float(size * threads))

    def _taker(
        self, jobs: Callable[[int, int], list[Job]], amount: Callable[[int], float], places: int = 1
    ) -> Callable[[int], list[Sample]]:
        """Find, at the first call, how often the kernel must run to fill a window; walk on through all places."""
        known: list[tuple[int, int]] = []
        place = 0

        def take(windows: int) -> list[Sample]:
            nonlocal place
            if not known:
                known.append(self._calibrated(jobs))
            repeats, enough = known[0]
            windows = min(windows, enough)
            found = samples_of(self.team.windows(jobs(repeats, place), windows), amount(repeats))
            place = (place + windows * repeats) % places
            return found

        return take

    def _calibrated(self, jobs: Callable[[int, int], list[Job]]) -> tuple[int, int]:
        """How often the kernel runs in a window, and how many windows make a round."""
        count = 1
        while True:
            readings = self.team.windows(jobs(count, 0), 5)  # all do the same work, and others may be taken away
            seconds = min(end - start for thread in readings for _, start, end, *_ in thread) * 1e-9
            if seconds >= TRUSTED or count >= 2**40:
                repeats = max(1, math.ceil(count * WINDOW / seconds))
                return repeats, max(LEAST_WINDOWS, int(ROUND * count / (repeats * seconds)))
            count *= max(2, min(64, math.ceil(TRUSTED / max(seconds, 1e-7))))


def reason(error: BaseException) -> str:
    """Why something failed, in one line.

    >>> reason(MemoryError()), reason(RuntimeError("no kernel here\\nat gemm.cpp"))
    ('no memory is left', 'no kernel here')
    """
    return str(error).strip().partition("\n")[0] or "no memory is left"


def failures(probes: Iterable[Probe]) -> list[str]:
    """Say what could not be run and why: the reason of the first of each name."""
    found = grouped((f"{probe.name} {probe.dtype}".strip(), probe.failed) for probe in probes if probe.failed)
    return [f"{name} ({len(why)} of its kernels and sizes): {why[0]}" for name, why in found.items()]


def shortest_call(call: Callable[[], Any]) -> float:
    """Return the shortest time of a few calls after a first one, so that one disturbed call decides nothing.

    A call that fails takes no time: it fails again where it is sampled, which tells why.
    """
    try:
        call()
    except FAILURES:
        return 0.0
    found = []
    for _ in range(TRIALS):
        start = perf_counter()
        call()
        found.append(perf_counter() - start)
    return min(found)


def timed(
    name: str,
    what: str,
    call: Callable[[], Any],
    *,
    threads: int = 1,
    amount: float | None = None,
    unit: str = "s",
    dtype: str = "",
    before: Callable[[], Any] | None = None,
    renew: Callable[[], Callable[[], Any]] | None = None,
    shape: tuple[float, float] | None = None,
) -> Probe:
    """Probe a call from Python: its time, or with ``amount`` its rate, over as many calls as fill a window.

    A window is clean when the system took no thread of the process off a core (an involuntary switch) and the calling
    thread ran: a library's threads may wait for one another by their own design, so its CPU time is held against a part
    of the best share seen; and when its cores were its own (:class:`~roofline.measurement.threads.CoreWatch`). The CPU
    time of other threads is no help: the system brings it up to date too rarely for so short a window. ``before`` runs
    ahead of every batch of windows, and ``renew`` makes the call anew for it: where small operands happen to lie in
    memory is worth a tenth of a short call. A call so long that the windows would take longer than :data:`ROUND` gets
    fewer, three at least or one where it is very long.
    """
    repeats: list[int] = []
    longest: list[float] = []
    best_share = [0.0]
    cores = core_watch()
    looked: tuple[int, ...] = ()

    def window(count: int) -> Sample:
        """Take a window of so many calls; its value is the time of one."""
        nonlocal looked
        before_it = looked or cores.look(threads)
        if threads > 1 and longest and longest[0] < WAKING:
            call()
        switches, cpu, start = getrusage(RUSAGE_SELF).ru_nivcsw, thread_time(), perf_counter()
        for _ in range(count):
            call()
        wall = perf_counter() - start
        share = min(1.0, (thread_time() - cpu) / wall)
        taken = getrusage(RUSAGE_SELF).ru_nivcsw > switches
        best_share[0] = max(best_share[0], share)
        relative = min(1.0, share / (OWN_WAITING * best_share[0])) if best_share[0] else 0.0
        looked = cores.look(threads)
        relative = min(relative, TAKEN_AWAY) if taken else relative
        return Sample(wall / count, (relative,), cores.share(before_it, looked), cores.clock(before_it, looked))

    def take(windows: int) -> list[Sample]:
        nonlocal call, looked
        if before is not None:
            before()
        if renew is not None:
            call = renew()
        if not repeats:
            call()
            fastest = min(window(1).value for _ in range(2))
            if fastest < TRUSTED:
                fastest = min(window(max(1, int(TRUSTED / fastest))).value for _ in range(2))
            repeats.append(max(1, math.ceil(CALL_WINDOW / fastest)))
            longest.append(fastest)
        found: list[Sample] = []
        looked = ()
        least = LEAST_CALLS if longest[0] < LONG_CALL else 1
        for _ in range(min(windows, max(least, int(ROUND / longest[0])))):
            if found and not found[-1].ran:
                sleep(REST)
                looked = ()
            one = window(repeats[0])
            found.append(one if amount is None else one._replace(value=amount / one.value))
        return found

    return Probe(name, unit, what, threads, take, dtype, smaller_is_better=amount is None, shape=shape)


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

    Behind schedule a probe gets one window. When ``seconds`` are over no further round goes on; the first one may take
    a tenth longer, so that as much as possible has a figure. The time that all rounds leave goes to the probes that
    have not settled (:class:`~roofline.measurement.levels.RoundAgreement`). On a quiet machine there are none; on one
    that others disturb for milliseconds at a time, some of many short rounds are undisturbed. A probe that fails is
    passed over.
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
                probe.rounds[-1] += probe.take_windows(windows if began < due else 1)
                spent[position] += monotonic() - began
        if rounds > 1:
            _settle(probes, spent, windows, start + seconds, progress)
    except KeyboardInterrupt:
        stopped(sum(bool(any(probe.rounds)) for probe in probes), len(probes), "measurements")
        return False
    return True


def _settle(probes: Sequence[Probe], spent: list[float], windows: int, end: float, progress: Progress | None) -> None:
    """Take more rounds of the probes that have not settled, always of the one that had least time so far.

    Time counts the more, the more rounds came near the best: what nothing confirms yet goes before the rest.
    """
    start = monotonic()
    most = MOST_ROUNDS * max(1.0, (end - start) / USUAL)
    stand = [probe.round_agreement for probe in probes]

    def turn(place: int) -> tuple[float, int]:
        return spent[place] * (1 + stand[place].near), place

    waiting = [turn(place) for place in range(len(probes))]
    heapq.heapify(waiting)
    while waiting and (now := monotonic()) < end:
        _, place = heapq.heappop(waiting)
        probe, taken = probes[place], len(probes[place].rounds)
        if taken < OFTEN or taken % SELDOM == 0:
            stand[place] = probe.round_agreement
        if probe.failed or stand[place].settled or taken >= most:
            continue
        if progress is not None:
            progress(ROUNDS_SHARE + (1 - ROUNDS_SHARE) * (now - start) / (end - start), f"{probe.name}, again")
        probe.rounds.append(probe.take_windows(windows))
        spent[place] += monotonic() - now
        heapq.heappush(waiting, turn(place))


def collect(probes: Sequence[Probe], conditions: Conditions) -> Measurement:
    """Summarise what the probes sampled, as ceilings, curves and tables of shapes."""
    clock = next((s.value for p in probes if p.unit == "Hz" and (s := summarise(p.rounds))), None)
    skipped = 0
    ceilings: dict[tuple[str, str, int], Ceiling] = {}
    curves: dict[tuple[str, int], list[tuple[Probe, Ceiling]]] = {}
    tables: dict[tuple[str, str, int], list[tuple[float, float, SampleSummary]]] = {}
    for probe in probes:
        summary = summarise(
            probe.rounds,
            per_cycle=probe.per_cycle,
            clock=clock,
            smaller_is_better=probe.smaller_is_better,
            unit=probe.unit,
        )
        if summary is None:
            skipped += not probe.failed
            continue
        went = summary.clock or clock
        if went and probe.per_cycle and probe.name.startswith(TILE):
            of_theory = summary.value / (probe.per_cycle * went)
            if of_theory < SHARED_TILES:
                said = f"{SHARED_UNIT}: {of_theory:.2f} of clock x width"
                summary = replace(summary, doubts=(*summary.doubts, said))
        name = probe.name
        one = Ceiling(name, probe.unit, probe.what, probe.threads, summary, probe.dtype, probe.working_set)
        if probe.curve:
            curves.setdefault((name, probe.threads), []).append((probe, one))
            continue
        if probe.shape:
            tables.setdefault((name, probe.dtype, probe.threads), []).append((*probe.shape, summary))
        known = ceilings.get((name, probe.dtype, probe.threads))
        if known is None or (one.value > known.value) != probe.smaller_is_better:
            ceilings[name, probe.dtype, probe.threads] = one
    drawn = tuple(
        Curve(name, points[0][1].kernel, threads, tuple((c.working_set or 0.0, c.summary) for _, c in points))
        for (name, threads), points in curves.items()
    )
    shapes = tuple(
        ShapeTable(name, dtype, ceilings[name, dtype, threads].kernel.partition(",")[0], threads, tuple(points))
        for (name, dtype, threads), points in tables.items()
    )
    ran = [fmean(sample.ran for one in probe.rounds for sample in one) for probe in probes if any(probe.rounds)]
    if ran and not conditions.device:
        conditions = replace(conditions, ran=fmean(ran))
    lacking = failures(probes)
    if skipped and not conditions.interrupted:
        busy = "the machine was too busy to reach them in time"
        lacking.append(f"{skipped} of {len(probes)} kernels and working sets: {busy}")
    conditions = replace(conditions, missing=(*conditions.missing, *lacking))
    return Measurement(conditions, tuple(ceilings.values()), drawn, shapes)
