"""Long work says how far it is: on standard error, only on a terminal, and only when it takes longer than a moment."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from roofline.progress import watched
from roofline.quantity import format_quantity

#: Seconds that work may take before anything is shown.
MOMENT = 0.5

#: Seconds between two changes of the bar.
BLINK = 0.05

Report = Callable[..., None]


@contextmanager
def working(what: str, unit: str = "") -> Iterator[Report]:
    """Show that ``what`` goes on, until the block ends; the block may report ``(done, of all, which part)``.

    What loops inside tell (:mod:`roofline.progress`) is shown too. Work that reports has a bar with the time left, and
    its speed where it has a ``unit``; other work has the time that it has taken. Ctrl-C ends the command.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda done, total=1.0, part="": None
        return
    bar = _Bar(what, unit)
    try:
        with watched(bar.report):
            yield bar.report
    finally:
        bar.stop()


class _Bar:
    """A bar that a timer starts; what is reported before is kept for it."""

    def __init__(self, what: str, unit: str) -> None:
        self.what, self.unit = what, unit
        self.state: dict[str, Any] = {}
        self.shown: Any = None
        self.told = 0.0
        self.lock = threading.Lock()
        self.timer = threading.Timer(MOMENT, self._start)
        self.timer.daemon = True
        self.timer.start()

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.table import Column

        with self.lock:
            if self.state.get("stopped"):
                return
            words = [Column(no_wrap=True) for _ in range(4)]  # the bar gives way
            said = TextColumn("{task.description}", table_column=words[0])
            left = (
                TimeElapsedColumn(table_column=words[1]), TextColumn("left", table_column=words[2]),
                TimeRemainingColumn(table_column=words[3]),
            )  # fmt: skip
            speed = (_speed(self.unit),) if self.unit else ()
            self.shown = Progress(said, BarColumn(), *speed, *left, console=Console(stderr=True), transient=True)
            self.task = self.shown.add_task(self.what, total=self.state.get("total"))
            self.shown.update(self.task, completed=self.state.get("completed", 0))
            self.shown.start()

    def report(self, done: float, total: float = 1.0, part: str = "") -> None:
        """Say how much of all is done."""
        self.state |= {"completed": done, "total": total}
        now = monotonic()
        if self.shown is not None and now - self.told >= BLINK:
            self.told = now
            said = f"{self.what} {part}".rstrip()
            self.shown.update(self.task, completed=done, total=total, description=said)

    def stop(self) -> None:
        """Take the bar away."""
        self.timer.cancel()
        with self.lock:
            self.state["stopped"] = True
            if self.shown is not None:
                self.shown.stop()


def _speed(unit: str) -> Any:
    """A column of how much is done in a second."""
    from rich.progress import ProgressColumn
    from rich.table import Column
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(format_quantity(task.speed or 0, f"{unit}/s"))

    return Speed(table_column=Column(no_wrap=True))
