"""Priority: what is measured goes before what others run on the same cores, where the system allows it.

A process of usual priority beside others is taken off its core every few milliseconds; one that is preferred keeps it
for longer than a window lasts. Others still get their share, and what they used is told with the figures.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
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
    """What everybody else used of some cores since this was made; other machines on the same host count too.

    >>> used = Others(cores=2).used()
    >>> used is None or used >= 0
    True
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._start, self._busy, self._own = monotonic(), _busy(), _own()

    def used(self) -> float | None:
        """Their CPU time as a share of all cores' time, None where the system does not tell."""
        now = _busy()
        if now is None or self._busy is None:
            return None
        whole = (monotonic() - self._start) * self.cores
        theirs = (now - self._busy) - (_own() - self._own)
        return max(theirs / whole, 0.0) if whole > 0 else 0.0


def _busy() -> float | None:
    """Seconds that all cores were busy or taken away since the system started."""
    try:
        with open(_COUNTS, encoding="ascii") as file:
            user, nice, system, _idle, _wait, interrupts, soft, stolen = map(int, file.readline().split()[1:9])
        return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None


def _own() -> float:
    found = os.times()
    return found.user + found.system
