"""Grids on Dask: equal to one process, with workers that die; an open cluster stays open; errors name a block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roofline.errors import BlockError
from roofline.grids.answer import GridRun, ReducedGrid, reduce_grid
from roofline.grids.runs import Cluster
from roofline.models.sweeps import sweep_steps
from tests.grids.cluster_tables import KillingTable
from tests.grids.test_blocks import CHOICES, KEEP, SIZES, same_tables

distributed = pytest.importorskip("distributed")

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
        assert client.status == "running"
        assert client.submit(sum, [1, 2]).result() == 3
        assert not [key for key in client.futures if "roofline" in str(key)]
    serial = sweep_steps("llama-3-70b", **asked)
    same_tables(found, serial)
    same_tables(by_address, serial)


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
    import dask

    from roofline.cli import main

    words = ["sweep", "llama-2-7b", "--on", "h100", "--batch", "1:9", "--context", "64", "--keep", "top=1"]
    with dask.config.set({"distributed.comm.timeouts.connect": "0.1s"}):
        assert main([*words, "--scheduler", "tcp://127.0.0.1:1"]) == 2
