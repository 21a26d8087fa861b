"""Threads: pinned ones of ours that run compiled windows together, a library's own, and whether their cores are theirs.

The compiled functions release Python's lock, so the threads of a team run at once; they start together at the harness's
barrier.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from queue import Empty, SimpleQueue
from statistics import fmean
from time import sleep
from typing import Any

from roofline.errors import RooflineError
from roofline.frozen import dataclass
from roofline.measurement.kernels import LINE
from roofline.measurement.levels import Sample
from roofline.measurement.machine_code import BARRIER, CHAIN_STEPS, CHAIN_TURNS, FIELDS, HALF, LOWER, Compiler
from roofline.measurement.processor import thread_ids

#: Looks that are judged together, and the share of them that may be too fast because the clock changed.
BATCH, ODD = 2000, 0.003


def clock(*looks: int) -> float | None:
    """The clock in Hz during some looks, None where none could tell.

    >>> clock(1 << 32 | 2000, 0)
    2688000000.0
    """
    found = [look & LOWER for look in looks if look]
    return CHAIN_STEPS * CHAIN_TURNS * 1e9 * len(found) / sum(found) if found else None


class CoreShare:
    """Turns what looks at a core found into shares: the fastest of many looks is a core that is its own.

    >>> alone, shared = 1000 << HALF, 2000 << HALF
    >>> core = CoreShare()
    >>> core.learn(lambda: alone)
    >>> core.of(alone), core.of(alone, shared), core.of(0)
    (1.0, 0.5, 0.0)
    """

    def __init__(self) -> None:
        self._looks: list[int] = []
        self._fastest = 0
        self._told, self._silent = 0, 0

    def of(self, *looks: int) -> float:
        """The least share of its core that some looks show: 0 where one could not tell, 1 before there are enough.

        Where a machine's clock is so coarse that most looks tell nothing, those that do not are no sign.
        """
        ratios = [look >> HALF for look in looks]
        silent = ratios.count(0)
        self._silent += silent
        self._told += len(ratios) - silent
        self._looks += [ratio for ratio in ratios if ratio]
        if len(self._looks) >= BATCH:
            fast = sorted(self._looks)[int(ODD * len(self._looks))]
            self._fastest = min(self._fastest or fast, fast)
            self._looks.clear()
        if not self._fastest:
            return 1.0
        if silent and self._silent < self._told:
            return 0.0
        return min(1.0, self._fastest / max(ratios)) if any(ratios) else 1.0

    def learn(self, look: Callable[[], int]) -> None:
        """Look often enough to know how fast the core is alone."""
        for _ in range(BATCH):
            self.of(look())


#: Arrays of one buffer start at different places within a page: at the same place stores hold up loads.
STAGGER = 17 * LINE

#: Seconds after which waiting checks again, for Ctrl-C may have swallowed the signal.
LOST = 0.05

#: What a window reads: CPU time and clock at its start, clock and CPU time at its end, in nanoseconds; what share of
#: its core the thread had; and at how many Hz it went, None where that is not known.
Reading = tuple[int, int, int, int, float, float | None]

#: Size of a large page; buffers start on one.
LARGE_PAGE = 2**21


class Buffer:
    """Memory of one thread, on large pages where the system gives them; ``close`` hands it back."""

    def __init__(self, size: int, *, large: bool = True) -> None:
        self.size = size
        named = hasattr(mmap, "MAP_PRIVATE")
        private: dict[str, Any] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if named else {}
        self._map = mmap.mmap(-1, size + LARGE_PAGE, **private)
        if large and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):
                self._map.madvise(mmap.MADV_HUGEPAGE)
        self._view: Any = ctypes.c_char.from_buffer(self._map)
        self.address = -(-ctypes.addressof(self._view) // LARGE_PAGE) * LARGE_PAGE

    def touch(self) -> None:
        """Write to all of it, so that every page is there."""
        ctypes.memset(self.address, 0, self.size)

    def close(self) -> None:
        """Hand the memory back to the system."""
        del self._view
        self._map.close()


@dataclass(frozen=True, slots=True)
class Job:
    """What one thread runs: a compiled function over three arrays, ``count`` at a time, ``repeats`` a window.

    With a ``stride`` it walks over ``span`` bytes, from ``first`` on and round again.
    """

    function: Any
    arrays: Sequence[int]
    count: int
    repeats: int
    stride: int = 0
    span: int = 0
    first: int = 0


class _Batch:
    """Tasks that threads run at once; a task that was given twice, since Ctrl-C came between, is run once."""

    def __init__(self, tasks: Sequence[Callable[[], Any]]) -> None:
        self.tasks = tasks
        self.ended: dict[int, tuple[Any, BaseException | None]] = {}
        self.bell: SimpleQueue[None] = SimpleQueue()

    @property
    def done(self) -> bool:
        """Whether all have ended."""
        return len(self.ended) == len(self.tasks)

    def run(self, number: int) -> None:
        """Run one task in the thread that has its number, and keep what it returned or raised."""
        if number in self.ended:
            return
        try:
            self.ended[number] = self.tasks[number](), None
        except BaseException as error:
            self.ended[number] = None, error
        if self.done:
            self.bell.put(None)


class ThreadTeam:
    """Threads that wait for jobs; as a context manager it ends them."""

    def __init__(self, cores: Sequence[int]) -> None:
        self.cores = tuple(cores)
        self.pinned = hasattr(os, "sched_setaffinity")
        self._core_shares = [CoreShare() for _ in self.cores]
        self._jobs: list[SimpleQueue[tuple[int, _Batch] | None]] = [SimpleQueue() for _ in self.cores]
        self._threads = [
            threading.Thread(target=self._work, args=(core, jobs), daemon=True, name=f"core {core}")
            for core, jobs in zip(self.cores, self._jobs, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> ThreadTeam:
        return self

    def __exit__(self, *_: object) -> None:
        for jobs in self._jobs:
            jobs.put(None)
        for thread in self._threads:
            thread.join(timeout=5)

    def learn(self, look: Callable[[], int]) -> None:
        """Have every thread find out how fast its core is alone."""
        self.each([partial(core.learn, look) for core in self._core_shares])

    def look(self, look: Callable[[], int], threads: int) -> list[int]:
        """Have the first threads look once at their cores."""
        return self.each([look] * min(threads, len(self.cores)))

    def least_share(self, *looks: Sequence[int]) -> float:
        """The least share of its core that any of the first threads had, from some looks at each."""
        return min(core.of(*found) for core, found in zip(self._core_shares, zip(*looks, strict=True), strict=False))

    def each(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run one task on each of the first threads, at once; return what they did, or raise what one of them raised.

        Ctrl-C is kept until all are done, for they write to memory that must still be there.
        """
        batch = _Batch(tasks)
        given: set[int] = set()
        pressed: KeyboardInterrupt | None = None
        while not batch.done:
            try:
                for number, jobs in enumerate(self._jobs[: len(tasks)]):
                    if number not in given:
                        jobs.put((number, batch))
                        given.add(number)
                batch.bell.get(timeout=LOST)
            except Empty:
                continue
            except KeyboardInterrupt as error:
                pressed = error
        failed = [error for error in (*(raised for _, raised in batch.ended.values()), pressed) if error is not None]
        if failed:
            raise failed[0]
        return [batch.ended[number][0] for number in range(len(tasks))]

    def windows(self, jobs: Sequence[Job], windows: int) -> list[list[Reading]]:
        """Run ``windows`` windows of a job on each of the first threads; return the readings of each.

        They come thread by thread.
        """
        barrier = (ctypes.c_int64 * BARRIER)()
        outs = [(ctypes.c_int64 * (FIELDS * windows))() for _ in jobs]

        def task(job: Job, out: Any) -> Callable[[], None]:
            return lambda: job.function(
                ctypes.addressof(barrier), len(jobs), windows, job.repeats, *job.arrays, job.count,
                job.stride, job.span or job.count, job.first, ctypes.addressof(out),
            )  # fmt: skip

        self.each([task(job, out) for job, out in zip(jobs, outs, strict=True)])
        return [
            [_reading(out[FIELDS * w : FIELDS * (w + 1)], core) for w in range(windows)]
            for out, core in zip(outs, self._core_shares, strict=False)
        ]

    def _work(self, core: int, jobs: SimpleQueue[tuple[int, _Batch] | None]) -> None:
        if self.pinned:
            try:
                os.sched_setaffinity(0, {core})
            except OSError:  # a container may forbid it
                self.pinned = False
        while (job := jobs.get()) is not None:
            number, batch = job
            batch.run(number)


def _reading(fields: Sequence[int], core: CoreShare) -> Reading:
    cpu0, start, end, cpu1, *looks = fields
    return cpu0, start, end, cpu1, core.of(*looks), clock(*looks)


def samples_of(readings: Sequence[Sequence[Reading]], amount: float) -> list[Sample]:
    """Turn clock readings into samples: ``amount`` done by all threads, from the first start to the last end.

    A thread's wall time runs from the first start, not from its own: one that was taken away at the barrier did not
    run. It ends with the thread's own end, for memory is not always shared evenly.

    >>> samples_of([[(0, 0, 1000, 990, 1.0, 2e9)], [(0, 100, 900, 800, 0.6, 3e9)]], 1.0)[0][1:]
    ((0.99, 0.8888888888888888), 0.6, 2500000000.0)
    """
    found = []
    for window in zip(*readings, strict=True):
        first = min(start for _, start, *_ in window)
        wall = max(end for _, _, end, *_ in window) - first
        shares = tuple((cpu1 - cpu0) / max(end - first, 1) for cpu0, _, end, cpu1, *_ in window)
        *_, cores, clocks = zip(*window, strict=True)
        known = [hertz for hertz in clocks if hertz is not None]
        found.append(Sample(amount / (max(wall, 1) * 1e-9), shares, min(cores), fmean(known) if known else None))
    return found


#: With more threads only the calling one's core is looked at: looking at all would take as long as a window.
MOST_WATCHED = 8

#: Seconds in which the threads that looked go to sleep again, so that they do not do so during the next call.
YIELD = 1e-5


class CoreWatch:
    """Tells whether the cores of a call from Python are its own: that of the calling thread and those of a library's.

    The calling thread looks at its own core. A library's threads cannot be made to look, so a thread of ours on each of
    their cores does, between calls: it takes a few microseconds of a core whose thread waits for work. Without llvmlite
    nothing is seen, and every core counts as its own.
    """

    def __init__(self) -> None:
        try:
            self._compiler: Compiler | None = Compiler()
            self._look: Callable[[], int] = self._compiler.front_end()
        except (RooflineError, OSError, RuntimeError):
            self._compiler = None
            return
        cores = self._compiler.processor.cores[1:MOST_WATCHED]
        self._own, self._team = CoreShare(), ThreadTeam(cores) if cores else None
        self._own.learn(self._look)
        if self._team is not None:
            self._team.learn(self._look)

    def look(self, threads: int) -> tuple[int, ...]:
        """Look once at the cores of so many threads, the calling one's first."""
        if self._compiler is None:
            return ()
        if self._team is None or not 1 < threads <= MOST_WATCHED:
            return (self._look(),)
        found = (self._look(), *self._team.look(self._look, threads - 1))
        sleep(YIELD)
        return found

    def share(self, before: tuple[int, ...], after: tuple[int, ...]) -> float:
        """The least share of a core, from looks before and after a call."""
        if self._compiler is None:
            return 1.0
        (own, *others), (own_after, *others_after) = before, after
        share = self._own.of(own, own_after)
        return min(share, self._team.least_share(others, others_after)) if self._team and others else share

    def clock(self, before: tuple[int, ...], after: tuple[int, ...]) -> float | None:
        """The Hz of the calling thread's core, None where it is not known."""
        return clock(*before[:1], *after[:1])


@cache
def core_watch() -> CoreWatch:
    """The watch of this process, calibrated on its cores.

    Call it before any thread is pinned to one core, and before a library's own threads are told from others: its cores
    are those the caller may use at the first call.
    """
    return CoreWatch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=core_watch.cache_clear)


class LibraryThreads:
    """Holds the calling thread on the first core and a library's own threads on the others, where the system can.

    Left alone, a scheduler may put two of them on one core beside an idle one, or move them as soon as others want to
    run. A library's threads are those begun after this was made.
    ``free`` lets all of them run anywhere again.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        self.cores = tuple(cores)
        self._known = thread_ids()
        self._anywhere = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()

    def hold(self) -> None:
        """Pin the calling thread and the library's threads begun until now."""
        if self._anywhere:
            _pin(0, {self.cores[0]})
            others = self.cores[1:] or self.cores
            for number, task in enumerate(sorted(thread_ids() - self._known)):
                _pin(task, {others[number % len(others)]})

    def free(self) -> None:
        """Let the calling thread and the library's threads run on every core again."""
        if self._anywhere:
            for task in (0, *(thread_ids() - self._known)):
                _pin(task, self._anywhere)


def _pin(task: int, cores: set[int]) -> None:
    with contextlib.suppress(OSError):
        os.sched_setaffinity(task, cores)
