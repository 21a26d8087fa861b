"""Priority: what is measured goes before what others run on the same cores, where the system allows it.

A process of usual priority beside others is taken off its core every few milliseconds; one that is preferred keeps it
for longer than a window lasts. Others still get their share, and what they used is told with the figures.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from time import monotonic

from roofline.measurement.workers import tasks

#: Niceness while measuring. Only a privileged process may take one below its own.
NICENESS = -15

#: Where the system counts what its cores did.
_COUNTS = "/proc/stat"


@contextlib.contextmanager
def ahead() -> Iterator[bool]:
    """Prefer all threads of this process, those begun meanwhile too, and say whether the system agreed."""
    if not hasattr(os, "setpriority"):
        yield False
        return
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    preferred = usual > NICENESS and _set(0, NICENESS)
    if preferred:
        for task in tasks():
            _set(task, NICENESS)
    try:
        yield preferred
    finally:
        if preferred:
            for task in (0, *tasks()):
                _set(task, usual)


def _set(task: int, niceness: int) -> bool:
    try:
        os.setpriority(os.PRIO_PROCESS, task, niceness)
    except OSError:
        return False
    return True


class Others:
    """What everybody else used of some hardware threads since this was made; other machines on the same host count too.

    >>> used = Others((0, 1)).used()
    >>> used is None or used >= 0
    True
    """

    def __init__(self, threads: Sequence[int]) -> None:
        self.threads = tuple(threads)
        self._start, self._busy, self._own = monotonic(), _busy(self.threads), _own()

    def used(self) -> float | None:
        """Their CPU time as a share of all these threads' time, None where the system does not tell."""
        now = _busy(self.threads)
        if now is None or self._busy is None:
            return None
        whole = (monotonic() - self._start) * len(self.threads)
        theirs = (now - self._busy) - (_own() - self._own)
        return max(theirs / whole, 0.0) if whole > 0 else 0.0


def _busy(threads: Sequence[int]) -> float | None:
    """Seconds that some hardware threads were busy or taken away since the system started."""
    names = {f"cpu{thread}" for thread in threads}
    try:
        with open(_COUNTS, encoding="ascii") as file:
            found = [columns for name, *columns in map(str.split, file) if name in names]
        times = [map(int, columns[:8]) for columns in found]
        ticks = sum(user + nice + system + irq + soft + stolen for user, nice, system, _, _, irq, soft, stolen in times)
        return ticks / os.sysconf("SC_CLK_TCK") if len(found) == len(names) else None
    except (OSError, ValueError):
        return None


def _own() -> float:
    found = os.times()
    return found.user + found.system
