"""Workers: the threads a library starts of its own, each held on a core of its own while it is measured.

Left alone, a scheduler may put two of them on one core beside an idle one, or move them as soon as others want to run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

_TASKS = "/proc/self/task"


class Workers:
    """Holds the calling thread on the first core and threads begun later on the others, where the system can.

    Threads that were there at the start are left alone. ``free`` lets all of them run anywhere again.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        self.cores = tuple(cores)
        self._known = tasks()
        self._anywhere = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()

    def hold(self) -> None:
        """Place the calling thread and the workers begun until now."""
        if self._anywhere:
            _place(0, {self.cores[0]})
            others = self.cores[1:] or self.cores
            for number, task in enumerate(sorted(tasks() - self._known)):
                _place(task, {others[number % len(others)]})

    def free(self) -> None:
        """Let the calling thread and the workers run on every core again."""
        if self._anywhere:
            for task in (0, *(tasks() - self._known)):
                _place(task, self._anywhere)


def tasks() -> set[int]:
    """The threads of this process by the system's numbers, none where it does not list them."""
    with contextlib.suppress(OSError):
        return {int(name) for name in os.listdir(_TASKS)}
    return set()


def _place(task: int, cores: set[int]) -> None:
    with contextlib.suppress(OSError):
        os.sched_setaffinity(task, cores)
