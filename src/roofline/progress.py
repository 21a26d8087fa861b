"""How far long work is: loops tell it, and whoever watches shows it.

A loop runs over :func:`counted` items and knows nobody who watches. The command line watches with a bar and the time
left; without a watcher nothing happens. A loop inside a loop tells the part of its step that is done.

>>> seen = []
>>> with watched(lambda done, total, part: seen.append(done)):
...     for each in counted([1, 2]):
...         for _ in counted(range(each)):
...             pass
>>> seen
[0.0, 0.0, 0.5, 0.5, 0.5, 0.75, 1.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Each = TypeVar("Each")

#: Takes what is done, all there is to do, and which part is done now.
Watcher = Callable[[float, float, str], None]


class _Watched:
    """A watcher, with how much each open loop has done: the outermost first."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.loops: list[tuple[float, float]] = []

    def tell(self, part: str) -> None:
        done, share = 0.0, 1.0
        for steps, every in self.loops:
            done += share * steps / every
            share /= every
        self.watcher(done, 1.0, part)


_WATCHED: ContextVar[_Watched | None] = ContextVar("watched", default=None)

_STOPS: ContextVar[list[str] | None] = ContextVar("stops", default=None)


def stopped(done: int, every: int | None, what: str) -> str:
    """Say that Ctrl-C ended work when so much of it was done; whoever asked for it (:func:`stops`) is told too.

    >>> stopped(1200, 4000, "rows"), stopped(7, None, "operations")
    ('stopped after 1,200 of 4,000 rows', 'stopped after 7 operations')
    """
    of = "" if every is None else f" of {every:,}"
    text = f"stopped after {done:,}{of} {what}"
    told = _STOPS.get()
    if told is not None and text not in told:
        told.append(text)
    return text


@contextmanager
def stops() -> Iterator[list[str]]:
    """Gather what is said of work within the block that was stopped and kept what it had done."""
    found: list[str] = []
    token = _STOPS.set(found)
    try:
        yield found
    finally:
        _STOPS.reset(token)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Tell a watcher how far work within the block is."""
    token = _WATCHED.set(_Watched(watcher))
    try:
        yield
    finally:
        _WATCHED.reset(token)


def tell(done: float, total: float, part: str = "") -> None:
    """Say how much of all is done, where work has no loop of its own."""
    watch = _WATCHED.get()
    if watch is not None:
        watch.loops[:] = [(done, total)]
        watch.tell(part)


def counted(items: Collection[Each], part: str = "") -> Iterator[Each]:
    """The items in turn, told as they are done."""
    watch, every = _WATCHED.get(), len(items)
    if watch is None or not every:
        yield from items
        return
    depth = len(watch.loops)
    try:
        for done, each in enumerate(items):
            watch.loops[depth:] = [(done, every)]
            watch.tell(part)
            yield each
        watch.loops[depth:] = [(every, every)]
        watch.tell(part)
    finally:
        del watch.loops[depth:]
