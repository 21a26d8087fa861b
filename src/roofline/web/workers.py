"""Worker processes that answer questions within a time: one that takes longer is ended, and others go on meanwhile."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

#: What a worker may hold at most, in bytes, where the system can limit it.
MOST_MEMORY = 12 * 2**30

Answered = tuple[int, Any]


class TookTooLong(Exception):
    """A question ran into its limit."""


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes that start meanwhile hear no Ctrl-C; this one hears it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its own start would let them through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Busy(Exception):
    """Every worker was busy for as long as a question may take."""


def serve_questions(target: str, connection: Connection) -> None:
    """Answer questions from a connection until it closes; ``target`` is the ``module:function`` that answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    except (ImportError, ValueError, OSError):
        pass
    module, _, name = target.partition(":")
    answer: Callable[..., Any] = getattr(import_module(module), name)
    while True:
        try:
            asked = connection.recv()
        except (EOFError, OSError):  # the server has ended
            return
        try:
            found: Answered = (200, answer(*asked))
        except MemoryError:
            found = (422, {"error": "this takes more memory than a question may: ask for less, or the command line"})
        except Exception as wrong:
            found = (500, {"error": f"this went wrong inside: {type(wrong).__name__}: {wrong}"})
        try:
            connection.send(found)
        except OSError:  # whoever asked is gone
            return


class Workers:
    """Some processes that answer questions one at a time, each within ``limit`` seconds.

    >>> import asyncio
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> async def once():
    ...     workers = Workers("roofline.quantity:count", 1, limit=60.0)
    ...     try:
    ...         return await workers.ask("8k")
    ...     finally:
    ...         workers.close()
    >>> with ThreadPoolExecutor(1) as beside:                       # in a notebook a loop runs already
    ...     beside.submit(asyncio.run, once()).result()
    8000
    """

    def __init__(self, target: str, many: int, *, limit: float, preload: Sequence[str] = ()) -> None:
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        if "forkserver" in methods:
            self._context.set_forkserver_preload(list(preload))
        self._target, self.limit = target, limit
        self._free: asyncio.Queue[tuple[Any, Connection]] = asyncio.Queue()
        self._all: set[Any] = set()
        for _ in range(many):
            self._free.put_nowait(self._start())

    def _start(self) -> tuple[Any, Connection]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=serve_questions, args=(self._target, theirs), daemon=True)
        with _interrupts_held():  # a terminal sends Ctrl-C to every process, and one that still loads would show where
            process.start()
        theirs.close()
        self._all.add(process)
        return process, ours

    async def ask(self, *question: Any) -> Any:
        """The answer to a question; raises where it takes too long or nobody is free that long."""
        limit = self.limit
        try:
            worker = await asyncio.wait_for(self._free.get(), limit)
        except TimeoutError:
            raise Busy from None
        process, connection = worker
        try:
            connection.send(question)
            loop = asyncio.get_running_loop()
            if not await loop.run_in_executor(None, connection.poll, limit):
                raise TookTooLong
            _, found = connection.recv()
        except (TookTooLong, EOFError, OSError, asyncio.CancelledError) as wrong:
            process.kill()
            self._all.discard(process)
            worker = self._start()
            if isinstance(wrong, EOFError | OSError):
                return {"error": "the process that worked on it ended: it may have run out of memory"}
            raise
        finally:
            self._free.put_nowait(worker)
        return found

    def close(self) -> None:
        """End every worker."""
        for process in self._all:
            process.kill()
