"""A reduction over a grid by two workers that are killed, stopped and resumed, against one process: bit for bit.

``python -m benchmarks.grids survive [ROWS] [SEED]`` compares; ``python -m benchmarks.grids rates [ROWS]`` measures the
rates of this process, one worker and two, the time of a task, what it costs beside its rows, and the bytes it sends.
Seconds of CPU are told beside those of the clock, which others on the machine lengthen.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
from typing import Any, NamedTuple

import numpy as np

from roofline import __version__
from roofline.grids.answer import ReducedGrid
from roofline.grids.blocks import BLOCK_ROWS, Reducing
from roofline.grids.reductions import KeepRequest
from roofline.grids.runs import Cluster
from roofline.models.config import load
from roofline.models.sweeps import StepTable, sweep_steps

KEEP = "front,top=100,histogram=lower,histogram=bound_by"
SIZES: dict[str, Any] = {"batch": range(1, 65), "prompt": range(1, 2001)}
ONE: dict[str, Any] = {"on": "h200:8", "tensor": 8, "weights": "fp8", **SIZES}
CHOICES: dict[str, Any] = {"on": ["h100:8", "h200:8"], "tensor": 8, "weights": ["bf16", "fp8"], **SIZES}


def asked(rows: int) -> dict[str, Any]:
    """A grid of about so many rows, all of which fit the memory: chips × formats × batch × prompt × past."""
    return {**CHOICES, "past": range(max(1, rows // (4 * 64 * 2000))), "keep": KEEP}


def tables(found: ReducedGrid) -> bytes:
    """Everything that was kept, as bytes."""
    return pickle.dumps([(name, [(c, table.plain(c)) for c in table]) for name, table in sorted(found.tables.items())])


def survive(rows: int, seed: int) -> None:
    """Two workers of which one is killed twice at random, the run stopped once: equal to one process?"""
    chance = random.Random(seed)
    start = time.perf_counter()
    serial = sweep_steps("llama-3-70b", "prefill", **asked(rows))
    print(
        f"one process: {serial.rows:,} rows in {serial.blocks} blocks, {time.perf_counter() - start:.0f} s", flush=True
    )
    stop_at = chance.randrange(serial.blocks // 4, 3 * serial.blocks // 4)
    kills = sorted(chance.sample(range(1, serial.blocks - 1), 2))
    killed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "grid")
        with Cluster(workers=2).opened() as client:

            def kill() -> None:
                time.sleep(chance.random())
                victims = client.run(os.getpid)
                address, pid = chance.choice(sorted(victims.items()))
                os.kill(pid, signal.SIGKILL)
                killed.append(address)

            def progress(done_rows: int, every: int, done: int, blocks: int) -> None:
                if len(kills) and done >= kills[0]:
                    kills.pop(0)
                    threading.Thread(target=kill).start()
                if done == stop_at and not stopped:
                    stopped.append(done)
                    raise KeyboardInterrupt

            stopped: list[int] = []
            start = time.perf_counter()
            half = sweep_steps("llama-3-70b", "prefill", **asked(rows), out=out, client=client, block_progress=progress)
            whole = sweep_steps(
                "llama-3-70b", "prefill", **asked(rows), out=out, client=client, block_progress=progress
            )
            seconds = time.perf_counter() - start
        parts = sorted(os.listdir(os.path.join(out, "parts")))
    print(f"two workers: killed {killed}, stopped after {half.done} of {half.blocks} blocks, {seconds:.0f} s in all")
    assert parts == [f"block-{number:06}.npz" for number in range(whole.blocks)]
    assert tables(serial) == tables(whole), "the results differ"
    assert serial.left_out == whole.left_out
    kept = ", ".join(f"{name} {len(table):,}" for name, table in whole.tables.items())
    print(f"equal bit for bit: {kept}; left out {dict(whole.left_out)}")


class Spent(NamedTuple):
    """Rows, tasks, and the seconds of CPU that they took in the client, in the scheduler, and in the workers."""

    rows: int
    blocks: int
    seconds: float
    here: float
    workers: float


def spent(client: Any, **more: Any) -> Spent:
    """Run a grid of one formula and measure it; ``here`` is client and scheduler, which share this process."""

    def cpu() -> float:
        return sum(client.run(time.process_time).values()) if client is not None else 0.0

    start, here, there = time.perf_counter(), time.process_time(), cpu()
    found = sweep_steps("llama-3-70b", "prefill", **{**ONE, **more}, **({"client": client} if client else {}))
    taken = time.perf_counter() - start, time.process_time() - here, cpu() - there
    return Spent(found.rows, found.blocks, *taken)


def imported() -> None:
    """Have a process import what it needs, and make the formula, which it keeps."""
    from benchmarks.grids import KEEP, ONE

    sweep_steps("llama-3-70b", "prefill", **ONE, past=0, keep=KEEP, workers=0)


def rates(rows: int) -> None:
    """Rates of one worker and two against this process, in turn, start apart; what a task costs; what is sent."""
    grid = {"past": range(rows // (64 * 2000)), "keep": KEEP}
    small = {"past": range(1), "prompt": range(1, 501), "keep": KEEP, "block_rows": 80}
    imported()
    for workers in (1, 2):
        start = time.perf_counter()
        with Cluster(workers=workers).opened() as client:
            began = time.perf_counter() - start
            client.run(imported)
            first = time.perf_counter() - start - began
            print(f"{workers} workers: {began:.1f} s to start, {first:.1f} s to import and to make the formula")
            pairs = [(spent(None, **grid), spent(client, **grid)) for _ in range(5)]  # in turn: others come and go
            for name, of in (("clock", lambda each: each.seconds), ("CPU", lambda each: each.workers or each.here)):
                ratios = sorted(of(one) / of(other) for one, other in pairs)
                least = [min(of(each) for each in side) for side in zip(*pairs, strict=True)]
                said = ", ".join(f"{pairs[0][0].rows / seconds / 1e6:.1f}" for seconds in least)
                print(
                    f"  by {name}: {said} million rows/s here and there; ratio {', '.join(f'{r:.2f}' for r in ratios)}"
                )
            tasks = spent(client, **small)
            ms = (tasks.here + tasks.workers) / tasks.blocks * 1e3
            here, clock = (seconds / tasks.blocks * 1e3 for seconds in (tasks.here, tasks.seconds))
            print(f"  {tasks.blocks} blocks of {tasks.rows // tasks.blocks} rows: {ms:.1f} ms of CPU each,", end=" ")
            print(f"{here:.1f} of them here, {clock:.1f} by the clock", flush=True)
    alone = spent(None, **small)
    print(f"{alone.blocks} of them in this process: {alone.here / alone.blocks * 1e3:.1f} ms of CPU each", flush=True)
    sizes = {name: np.asarray(values) for name, values in ONE.items() if name in ("batch", "prompt")}
    names = ["lower", "upper", "bound_by", "memory", "fits", "throughput"]
    choice = {name: [value] for name, value in ONE.items() if name not in sizes}
    table = StepTable(load("llama-3-70b"), "prefill", choice, {}, {**sizes, "past": np.arange(10_000)}, names)
    work = Reducing(table, KeepRequest.read(KEEP, table.names, ("lower", "throughput")), "", __version__)
    block = next(iter(table.blocks(BLOCK_ROWS)))
    start = time.process_time()
    prepared = work.prepared(0)
    made = time.process_time() - start
    start = time.process_time()
    result = work.run(prepared, block)
    seconds = time.process_time() - start
    values = {"work": work, "prepared": prepared, "block": block, "result": result}
    said = ", ".join(f"{name} {len(pickle.dumps(value)):,}" for name, value in values.items())
    print(
        f"a formula: {made:.2f} s of CPU; a block of {block.stop - block.start:,} rows: {seconds:.2f} s; bytes: {said}"
    )


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "survive":
        survive(int(float(words[1])) if len(words) > 1 else 10**9, int(words[2]) if len(words) > 2 else 0)
    else:
        rates(int(float(words[1])) if len(words) > 1 else 5 * 10**7)
