"""Blocks of work in turn in this process, or on a Dask cluster with a sliding window of futures.

A work is a value that travels: ``prepared(choice)`` is made once a choice, ``run(prepared, block)`` does a block.

>>> class Squares:
...     def prepared(self, choice): return choice + 2
...     def run(self, prepared, block): return prepared ** block.number
>>> from roofline.grids.blocks import RowBlock
>>> blocks = [RowBlock(number, 0, 1, choice, ()) for number, choice in ((1, 0), (2, 0), (1, 1))]
>>> [result for _, result in in_turn(Squares(), blocks)]
[2, 4, 3]
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import methodcaller
from typing import Any, Protocol

from roofline.errors import BlockError, InputError, RooflineError, load_extra
from roofline.files import read_json
from roofline.frozen import dataclass, field
from roofline.grids.blocks import RowBlock
from roofline.quantity import in_a_row
from roofline.signatures import either, spelled

#: Futures in flight for each thread of a cluster: one runs, one waits.
IN_FLIGHT = 2

#: Seconds after which the threads of a cluster are counted again.
COUNT_AGAIN = 2.0

#: Seconds without a block that is done after which it is looked whether workers wait for memory.
LOOK_AGAIN = 10.0

#: Seconds between two looks at what is done.
_POLL = 0.005


def _more_memory() -> str:
    fewer = f"workers with more memory, or fewer rows a block ({spelled('block_rows')})"
    return f"{fewer}; what is done is kept: the same {either('command', 'call')} goes on"


#: What Dask sets in the environment of the workers that it starts.
_ENVIRONMENT = "distributed.nanny.pre-spawn-environ"

#: What workers run when they start.
_PRELOAD = "distributed.worker.preload"


class BlockTask(Protocol):
    """What is done with each block."""

    def prepared(self, choice: int) -> Any:
        """What the blocks of a choice need; it is made once."""

    def run(self, prepared: Any, block: RowBlock) -> Any:
        """Do a block."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where blocks run: ``workers`` processes of this machine, a scheduler's workers, or an open ``client``'s.

    With none of them Dask's own configuration decides (``scheduler-address``); without one this process works alone.
    ``announce`` is told the dashboard's address.
    """

    workers: int | None = None
    scheduler: str | None = None
    scheduler_file: str | None = None
    client: Any = None
    announce: Callable[[str], None] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        given = [
            name for name in ("workers", "scheduler", "scheduler_file", "client") if getattr(self, name) is not None
        ]
        if len(given) > 1:
            words = in_a_row(name.replace("_", "-") for name in given)
            raise InputError(f"{words} are two clusters", hint="give one of them")
        if self.workers is not None and self.workers < 0:
            raise InputError(f"{self.workers} workers", hint="0 for this process, or a number of them")

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A client of the cluster, None where this process works alone. Only a cluster that was made here is closed."""
        if self.client is not None:
            yield self.client
        elif self.scheduler or self.scheduler_file or (self.workers is None and _configured()):
            with _connected(self.scheduler, self.scheduler_file) as client:
                _tell(self.announce, client)
                yield client
        elif self.workers:
            with _local(self.workers) as client:
                _tell(self.announce, client)
                yield client
        else:
            yield None


def _configured() -> bool:
    """Whether Dask's own configuration names a scheduler: a file of it, or DASK_SCHEDULER_ADDRESS."""
    try:
        from dask import config
    except ImportError:
        return False
    return bool(config.get("scheduler-address", None))


@contextmanager
def _connected(address: str | None, file: str | None) -> Iterator[Any]:
    distributed = load_extra("distributed", "dask")
    if file is not None:
        hint = "dask scheduler --scheduler-file FILE writes one"
        path = os.path.expanduser(file)
        if not os.path.exists(path):
            raise InputError(f"there is no scheduler file {file!r}", hint=hint)
        found = read_json(path, "configuration")
        if not isinstance(found, dict) or not isinstance(found.get("address"), str):
            raise InputError(f"{file} holds no address of a scheduler", hint=hint)
        address = found["address"]
    try:
        client = distributed.Client(address)
    except (OSError, TimeoutError, ValueError) as error:
        where = address or "the scheduler of Dask's configuration"
        hint = "dask scheduler starts one and prints its address, as in tcp://host:8786"
        raise InputError(f"no scheduler answers at {where}: {str(error) or type(error).__name__}", hint=hint) from None
    with client:
        yield client


#: What a script lacks whose workers do not start.
_GUARD = "in a script, what asks goes under if __name__ == '__main__':"


@contextmanager
def _local(workers: int) -> Iterator[Any]:
    distributed = load_extra("distributed", "dask")
    import logging
    from multiprocessing import current_process

    from dask import config

    if getattr(current_process(), "_inheriting", False):  # a worker that imports the script which asks for workers
        raise InputError("a worker imports this script, which asks for workers again", hint=_GUARD)

    # Dask has freed memory go back to the system at once: columns of a megabyte then take twice as long
    environment = dict(config.get(_ENVIRONMENT))
    environment.pop("MALLOC_TRIM_THRESHOLD_", None)
    # Ctrl-C on a terminal reaches the workers too; it is for this process to stop them
    preloads = [*config.get(_PRELOAD), "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"]
    with config.set({_ENVIRONMENT: environment, _PRELOAD: preloads}):
        try:
            local = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
            )
        except RuntimeError as error:
            raise InputError(f"no worker starts: {str(error).rstrip('.')}", hint=_GUARD) from None
    with local, distributed.Client(local) as client:
        yield client


def _tell(announce: Callable[[str], None] | None, client: Any) -> None:
    if announce is not None:
        announce(f"dashboard: {client.dashboard_link}")
        if not client.nthreads():
            announce("the scheduler has no workers yet: waiting for some (dask worker ADDRESS starts one)")


def in_turn(work: BlockTask, blocks: Sequence[RowBlock]) -> Iterator[tuple[RowBlock, Any]]:
    """Do blocks one after the other."""
    choice, prepared = -1, None
    for block in blocks:
        try:
            if block.choice != choice:
                prepared, choice = work.prepared(block.choice), block.choice
            yield block, work.run(prepared, block)
        except MemoryError:
            raise _out_of_memory(block) from None


def on_cluster(work: BlockTask, blocks: Sequence[RowBlock], client: Any) -> Iterator[tuple[RowBlock, Any]]:
    """Do blocks on a cluster, as many at once as keep its threads busy, and give each as it is done.

    What is prepared for a choice is a future that its blocks depend on: it is made once, goes from worker to worker,
    and is made again where the one that held it is lost. A block whose worker is lost is done again by another.
    """
    from time import monotonic
    from uuid import uuid4

    distributed = load_extra("distributed", "dask")
    own = uuid4().hex  # results of another run are not taken for ours: workers write files
    given = client.submit(lambda value: value, work, key=f"roofline-work-{own}")
    waiting = iter(blocks)
    left = Counter(block.choice for block in blocks)
    prepared: dict[int, Any] = {}
    running: dict[str, RowBlock] = {}
    futures: dict[str, Any] = {}
    done = distributed.as_completed()
    window, counted = 0, -COUNT_AGAIN

    def fill() -> None:
        nonlocal window, counted
        if monotonic() - counted > COUNT_AGAIN:  # asks the scheduler
            window, counted = max(1, IN_FLIGHT * sum(client.nthreads().values())), monotonic()
        for _ in range(window - len(running)):
            submit()

    def submit() -> None:
        block = next(waiting, None)
        if block is None:
            return
        if block.choice not in prepared:
            key = f"roofline-choice-{own}-{block.choice}"
            prepared[block.choice] = client.submit(methodcaller("prepared", block.choice), given, key=key)
        key = f"roofline-block-{own}-{block.number}"
        future = client.submit(_run, given, prepared[block.choice], block, own, key=key)
        running[key], futures[key] = block, future
        done.add(future)

    try:
        fill()
        while running:
            future = _next(done, client, running)
            block = running[future.key]
            yield block, _result(future, _suspect(client, own, running, block) if _is_killed(future) else block)
            del running[future.key]
            del futures[future.key]
            left[block.choice] -= 1
            if not left[block.choice]:
                del prepared[block.choice]
            fill()
    finally:
        if running:
            client.cancel(list(futures.values()), force=True)


def _next(done: Any, client: Any, running: Mapping[str, RowBlock]) -> Any:
    """The next future that is done; an error where no worker goes on."""
    from time import monotonic, sleep

    looked, stuck = monotonic(), False
    while not done.has_ready():
        sleep(_POLL)
        if monotonic() - looked > LOOK_AGAIN:
            looked, before, stuck = monotonic(), stuck, _is_stuck(client)
            if before and stuck:
                first = min(running.values())
                raise BlockError(
                    f"{first} is not begun: the workers wait for memory, of which they hold most", hint=_more_memory()
                )
    return next(done)


def _is_stuck(client: Any) -> bool:
    """Whether all workers are paused, as where memory is nearly full, and none of them works."""
    workers = client.scheduler_info()["workers"].values()
    counts = [each.get("metrics", {}).get("task_counts", {}) for each in workers]
    return bool(workers) and all(
        each.get("status") == "paused" and not count.get("executing")
        for each, count in zip(workers, counts, strict=True)
    )


def _result(future: Any, block: RowBlock) -> Any:
    """The result of a block, or an error that names it."""
    from distributed import CancelledError, KilledWorker

    again = "what is done is kept: the same command goes on"
    try:
        return future.result()
    except KilledWorker:
        raise BlockError(f"{block} ended worker after worker, as where memory runs out", hint=_more_memory()) from None
    except MemoryError:
        raise _out_of_memory(block) from None
    except (CancelledError, OSError) as error:
        said = str(error) or type(error).__name__
        raise BlockError(f"{block} was not done: {said:.300}", hint=again) from None
    except RooflineError:
        raise
    except Exception as error:
        raise BlockError(f"{block} failed: {type(error).__name__}: {error!s:.300}", hint=again) from error


def _out_of_memory(block: RowBlock) -> BlockError:
    return BlockError(f"{block} takes more memory than there is", hint=_more_memory())


def _run(work: BlockTask, prepared: Any, block: RowBlock, own: str) -> Any:
    from distributed import get_worker

    get_worker().log_event(f"roofline-{own}", block.number)  # says who was at work where a worker dies
    return work.run(prepared, block)


def _is_killed(future: Any) -> bool:
    from distributed import KilledWorker

    return bool(future.status == "error" and isinstance(future.exception(), KilledWorker))


def _suspect(client: Any, own: str, running: Mapping[str, RowBlock], block: RowBlock) -> RowBlock:
    """Of the blocks that worker after worker was lost with, the one that was begun most often; others waited."""
    begun = Counter(number for _, number in client.get_events(f"roofline-{own}"))
    return max((block, *running.values()), key=lambda each: begun[each.number])


def done_blocks(work: BlockTask, blocks: Sequence[RowBlock], client: Any) -> Iterator[tuple[RowBlock, Any]]:
    """Do blocks on a client's cluster, or in turn where there is none."""
    return in_turn(work, blocks) if client is None else on_cluster(work, blocks, client)
