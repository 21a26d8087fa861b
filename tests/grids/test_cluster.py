"""Grids on Dask: equal to one process, with workers that die; an open cluster stays open; errors name a block."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import BlockError
from roofline.grids import runs
from roofline.grids.answer import GridRun, ReducedGrid, reduce_grid
from roofline.grids.runs import Cluster
from roofline.models.sweeps import sweep_steps
from tests.grids.cluster_tables import KillingTable
from tests.grids.test_blocks import CHOICES, KEEP, SIZES, same_tables

distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")

pytestmark = pytest.mark.filterwarnings("default")


def reduced(table: KillingTable, **more: Any) -> ReducedGrid:
    """Reduce a table of the module."""
    keep = "front=lower:memory,top=20:lower,histogram=lower"
    run = GridRun(keep=keep, block_rows=500, **more)
    return reduce_grid(table, "a table", {"of": "the test"}, run)


def test_threads_of_an_open_cluster_give_what_one_process_gives_and_it_stays_open(tmp_path: Path) -> None:
    asked = {**CHOICES, **SIZES, "keep": KEEP, "block_rows": 5000}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = sweep_steps("llama-3-70b", **asked, client=client, out=str(tmp_path / "grid"))
        by_address = sweep_steps("llama-3-70b", **asked, scheduler=cluster.scheduler_address)
        before = cluster.scheduler.transition_counter
        with dask.config.set({"scheduler-address": cluster.scheduler_address}):
            by_configuration = sweep_steps("llama-3-70b", **asked)
        between = cluster.scheduler.transition_counter
        (tmp_path / "scheduler.json").write_text(json.dumps({"address": cluster.scheduler_address}))
        by_file = sweep_steps("llama-3-70b", **asked, scheduler_file=str(tmp_path / "scheduler.json"))
        assert before < between < cluster.scheduler.transition_counter
        assert client.status == "running"
        assert client.submit(sum, [1, 2]).result() == 3
        assert not [key for key in client.futures if "roofline" in str(key)]
    serial = sweep_steps("llama-3-70b", **asked)
    same_tables(found, serial)
    for other in (by_address, by_configuration, by_file):
        same_tables(other, serial)


def test_two_workers_of_which_two_are_killed_and_a_run_that_is_stopped_equal_one_process(tmp_path: Path) -> None:
    serial = reduced(KillingTable(str(tmp_path)))
    deadly = KillingTable(str(tmp_path), deadly=(700, 3100))
    endless = KillingTable(str(tmp_path), deadly=(1200,), always=True)

    def stop(rows: int, every: int, done: int, blocks: int) -> None:
        if done == 6:
            raise KeyboardInterrupt

    out = str(tmp_path / "grid")
    local = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    with local, distributed.Client(local) as client:
        cluster = Cluster(client=client)
        half = reduced(deadly, out=out, cluster=cluster, progress=stop)
        assert (half.done, half.blocks) == (6, 16)
        whole = reduced(deadly, out=out, cluster=cluster)
        local.scheduler.allowed_failures = 0
        with pytest.raises(BlockError, match=r"block 2 \(rows 1,000 to 1,499\) ended worker after worker, as where"):
            reduced(endless, cluster=cluster)
    assert {each.name for each in tmp_path.iterdir()} == {"700", "3100", "1200", "grid"}
    assert whole.done == 16
    same_tables(whole, serial)
    assert len(list((tmp_path / "grid" / "parts").iterdir())) == 16


def test_no_scheduler_at_an_address_is_said() -> None:
    from roofline.cli import main

    words = ["sweep", "llama-2-7b", "--on", "h100", "--batch", "1:9", "--context", "64", "--keep", "top=1"]
    with dask.config.set({"distributed.comm.timeouts.connect": "0.1s"}):
        assert main([*words, "--scheduler", "tcp://127.0.0.1:1"]) == 2


long = pytest.mark.skipif(
    not os.environ.get("ROOFLINE_LONG"), reason="ROOFLINE_LONG=1 runs it: real workers and signals"
)


@long
def test_a_worker_that_runs_out_of_memory_is_told_with_its_block(tmp_path: Path) -> None:
    table = KillingTable(str(tmp_path), hungry={1200: 2_000_000_000})
    local = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit="400MB"
    )
    said = r"block 2 \(rows 1,000 to 1,499\) ended worker after worker, as where memory runs out; workers with more"
    with local, distributed.Client(local) as client, pytest.raises(BlockError, match=said):
        reduced(table, cluster=Cluster(client=client))


@long
def test_workers_that_wait_for_memory_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LOOK_AGAIN", 1.0)
    table = KillingTable(str(tmp_path), hungry={1200: 1_000_000})
    little = {"distributed.worker.memory.pause": 0.01, "distributed.worker.memory.terminate": False}
    with dask.config.set(little):
        local = distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit="2GB"
        )
    said = r"block \d \(rows [\d,]+ to [\d,]+\) is not begun: the workers wait for memory"
    with local, distributed.Client(local) as client, pytest.raises(BlockError, match=said):
        reduced(table, cluster=Cluster(client=client))


@long
@pytest.mark.parametrize("more", [["--workers", "2"], []])
def test_a_command_that_is_interrupted_goes_on(tmp_path: Path, more: list[str]) -> None:
    words = (
        "sweep llama-3-70b --on h200:8 --tensor 8 --batch 1:256 --context 1:4000 --keep front,top=50 --block-rows 20000"
    )
    out = tmp_path / "grid"
    command = [sys.executable, "-m", "roofline", *words.split(), *more, "-o", f"{out}/"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while len(list(out.glob("parts/block-??????.npz"))) < 3:
        assert run.poll() is None
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGINT)  # as Ctrl-C on a terminal: the workers get it too
    said, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert "the same command goes on" in said
    assert "Traceback" not in errors
    assert 3 <= len(list(out.glob("parts/block-??????.npz"))) < 52
    done = {part.name: part.stat().st_mtime_ns for part in out.glob("parts/block-??????.npz")}
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "stopped" not in again.stdout
    assert {name: (out / "parts" / name).stat().st_mtime_ns for name in done} == done
    sizes = {"batch": range(1, 257), "context": range(1, 4001)}
    serial = sweep_steps("llama-3-70b", on="h200:8", tensor=8, **sizes, keep="front,top=50", out=str(tmp_path / "one"))
    for name in serial.tables:
        one, other = (tmp_path / folder / f"{name}.parquet" for folder in ("one", "grid"))
        assert one.read_bytes() == other.read_bytes()
