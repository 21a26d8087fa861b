"""A reduction over a grid by two workers that are killed, stopped and resumed, against one process: bit for bit.

``python -m benchmarks.grids survive [ROWS] [SEED]`` compares; ``python -m benchmarks.grids rates [ROWS]`` measures the
rates of this process, one worker and two, the time of a task, what it costs beside its rows, and the bytes it sends.
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
from typing import Any

import distributed

from roofline.grids.answer import ReducedGrid
from roofline.grids.blocks import BLOCK_ROWS
from roofline.grids.reducing import Reducing
from roofline.grids.reductions import KeepRequest
from roofline.models.sweeps import StepTable, sweep_steps

KEEP = "front,top=100,histogram=lower,histogram=bound_by"
CHOICES: dict[str, Any] = {"on": ["h100:8", "h200:8"], "tensor": 8, "weights": ["bf16", "fp8"]}


def asked(rows: int) -> dict[str, Any]:
    """A grid of about so many rows: chips × formats × batch × context."""
    context = max(1, rows // (4 * 1024))
    return {**CHOICES, "batch": range(1, 1025), "context": range(1, context + 1), "keep": KEEP}


def tables(found: ReducedGrid) -> bytes:
    """Everything that was kept, as bytes."""
    return pickle.dumps([(name, [(c, table.plain(c)) for c in table]) for name, table in sorted(found.tables.items())])


def survive(rows: int, seed: int) -> None:
    """Two workers of which one is killed twice at random, the run stopped once: equal to one process?"""
    chance = random.Random(seed)
    start = time.perf_counter()
    serial = sweep_steps("llama-3-70b", **asked(rows))
    print(
        f"one process: {serial.rows:,} rows in {serial.blocks} blocks, {time.perf_counter() - start:.0f} s", flush=True
    )
    stop_at = chance.randrange(serial.blocks // 4, 3 * serial.blocks // 4)
    kills = sorted(chance.sample(range(1, serial.blocks - 1), 2))
    killed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "grid")
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as local:
            client = distributed.Client(local)

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
            half = sweep_steps("llama-3-70b", **asked(rows), out=out, client=client, block_progress=progress)
            whole = sweep_steps("llama-3-70b", **asked(rows), out=out, client=client, block_progress=progress)
            seconds = time.perf_counter() - start
            client.close()
        parts = sorted(os.listdir(os.path.join(out, "parts")))
    print(f"two workers: killed {killed}, stopped after {half.done} of {half.blocks} blocks, {seconds:.0f} s in all")
    assert parts == [f"block-{number:06}.npz" for number in range(whole.blocks)]
    assert tables(serial) == tables(whole), "the results differ"
    assert serial.left_out == whole.left_out
    kept = ", ".join(f"{name} {len(table):,}" for name, table in whole.tables.items())
    print(f"equal bit for bit: {kept}; left out {dict(whole.left_out)}")


def rates(rows: int) -> None:
    """Rates with no worker, one and two; what a task costs; bytes through the scheduler."""
    for workers in (0, 1, 2):
        if workers:
            local = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0")
            client = distributed.Client(local)
        more = {"client": client} if workers else {"workers": 0}
        sweep_steps("llama-3-70b", **{**asked(rows // 100), **more})  # everything imported
        start = time.perf_counter()
        found = sweep_steps("llama-3-70b", **asked(rows), **more)
        seconds = time.perf_counter() - start
        rate = found.rows / seconds / 1e6
        print(f"{workers} workers: {rate:.1f} million rows/s, {seconds:.1f} s, {found.blocks} blocks", flush=True)
        if workers:
            start = time.perf_counter()
            small = sweep_steps("llama-3-70b", **asked(4 * 1024 * 100), block_rows=500, **more)
            seconds = time.perf_counter() - start
            print(f"  {small.blocks} blocks of 500 rows: {seconds / small.blocks * 1e3:.1f} ms each")
            client.close()
            local.close()
    given = {name: [value] if not isinstance(value, list) else value for name, value in CHOICES.items()}
    import numpy as np

    from roofline.models.config import load

    axes = {"batch": np.arange(1, 1025), "context": np.arange(1, rows // 4096 + 1)}
    names = ["lower", "upper", "bound_by", "memory", "fits", "throughput"]
    table = StepTable(load("llama-3-70b"), "decode", given, {}, axes, names)
    keep = KeepRequest.read(KEEP, table.names, ("lower", "throughput"))
    from roofline import __version__

    work = Reducing(table, keep, "", __version__)
    block = next(iter(table.blocks(BLOCK_ROWS)))
    prepared = work.prepared(0)
    start = time.process_time()
    result = work.run(prepared, block)
    seconds = time.process_time() - start
    sizes = {"work": work, "prepared": prepared, "block": block, "result": result}
    said = ", ".join(f"{name} {len(pickle.dumps(value)):,}" for name, value in sizes.items())
    print(f"a block of {block.stop - block.start:,} rows: {seconds:.2f} s of CPU; bytes: {said}")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "survive":
        survive(int(float(words[1])) if len(words) > 1 else 10**9, int(words[2]) if len(words) > 2 else 0)
    else:
        rates(int(float(words[1])) if len(words) > 1 else 10**8)
