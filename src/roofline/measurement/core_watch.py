"""Watch: whether the cores of a call from Python are its own, that of the calling thread and those of a library's.

The calling thread looks at its own core. A library's threads cannot be made to look, so a thread of ours on each of
their cores does, between calls: it takes a few microseconds of a core whose thread waits for work.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from time import sleep

from roofline.errors import RooflineError
from roofline.measurement.core_share import CoreShare, clock
from roofline.measurement.machine_code import Compiler
from roofline.measurement.team import Team

#: With more threads than this only the calling one's core is looked at: having all look would take as long as a window.
MOST_WATCHED = 8

#: Seconds in which the threads that looked lie down again; else they would do so while the next call runs.
YIELD = 1e-5


class Watch:
    """Looks at the first cores this process may use; without llvmlite it sees nothing, and every core is its own."""

    def __init__(self) -> None:
        try:
            self._compiler: Compiler | None = Compiler()
            self._look: Callable[[], int] = self._compiler.front_end()
        except (RooflineError, OSError, RuntimeError):
            self._compiler = None
            return
        cores = self._compiler.processor.cores[1:MOST_WATCHED]
        self._own, self._team = CoreShare(), Team(cores) if cores else None
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
        """The least share of a core that looks before and after a call tell of."""
        if self._compiler is None:
            return 1.0
        (own, *others), (own_after, *others_after) = before, after
        share = self._own.of(own, own_after)
        return min(share, self._team.least_share(others, others_after)) if self._team and others else share

    def clock(self, before: tuple[int, ...], after: tuple[int, ...]) -> float | None:
        """The Hz of the calling thread's core, None where it is not known."""
        return clock(*before[:1], *after[:1])


@cache
def watch() -> Watch:
    """The watch of this process, which gets to know its cores.

    It is to be made before any thread is held on one core, and before a library's own threads are told from others:
    the cores are those the caller may use at the first call.
    """
    return Watch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=watch.cache_clear)
