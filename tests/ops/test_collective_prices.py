"""Collectives by their price alone, against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.bounds.evaluate import evaluate
from roofline.hardware import chip
from roofline.hardware.mesh import with_mesh
from roofline.ops.collectives.cost import collective, cost
from roofline.work import Op, Work


def on(target: str, axes: dict[str, Any] | None = None, wrap: bool | None = None, **figures: Any) -> Any:
    machine = chip(target, **figures)
    return with_mesh(machine, axes, wrap=wrap) if axes or wrap is not None else machine


def bound(kind: str, machine: Any, nbytes: Any, axes: str = "X", algorithm: str | None = None, density: Any = 1) -> Any:
    found = cost(kind, machine.mesh.select(axes), nbytes, algorithm=algorithm, density=density)
    return evaluate([Op(kind, "collective", found.work)], [Work()], machine)


def moving(*arguments: Any, **options: Any) -> float:
    """Seconds the bytes take, without the hops."""
    return max(time for name, time in bound(*arguments, **options).times.items() if name != "hop latency")


def test_what_reaches_a_node_of_a_fat_tree() -> None:
    """128 nodes: a node lacks 127/128 of the array, and all of it comes through its own 400 GB/s."""
    machine = on("dgx-h100:1024")
    floor = 1e9 * 127 / 128 / 400e9
    assert bound("AllGather", machine, 1e9).times["ib"] == pytest.approx(floor)
    assert bound("AllGather", machine, 1e9, algorithm="book-levels").times["ib"] < floor


def test_two_v5e_at_D_1024() -> None:
    """Communication takes 8.55 times as long as arithmetic (the seeds' exercise)."""
    machine = on("v5e:2", link=4.5e10)
    B, D, F = 64, 1024, 4096
    math_time = 2 * B * D * F / 2 / 1.97e14
    assert moving("AllReduce", machine, 2 * B * F) / math_time == pytest.approx(8.5503472222222)


def test_an_operation_carries_its_algorithm() -> None:
    from roofline.work import Tensor

    op = collective("AllReduce", Tensor("x", (64, 64), "bf16"), on("v5e:4").mesh.select("X"))
    assert op.note.startswith("AllReduce over X (4 chips): chain")
    assert op.options["algorithms"] == ("chain",)
    assert [t.dims for t in (*op.reads, *op.writes)] == [(64, 64), (64, 64)]
