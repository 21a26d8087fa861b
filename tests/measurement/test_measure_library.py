"""Probes of the libraries: what they time, what they leave out, where their threads run."""

from __future__ import annotations

import os
import sys
import threading

import pytest
from made import summary

from roofline.measurement import cpu, library, probes, processor
from roofline.measurement.levels import Sample
from roofline.measurement.library import (
    NUMPY_FUNCTIONS,
    TORCH_FUNCTIONS,
    TimeLimit,
    library_probes,
    torch_function_probes,
    torch_product_probes,
)
from roofline.measurement.probes import collect
from roofline.measurement.processor import data_caches, one_thread_a_core, usable_threads
from roofline.measurement.result import Conditions, ShapeTable
from roofline.measurement.threads import LibraryThreads


@pytest.fixture
def workers():
    found = LibraryThreads(one_thread_a_core(usable_threads()))
    yield found
    found.free()


def test_without_torch_numpy_stands_in_and_says_what_is_missing(monkeypatch, workers):
    monkeypatch.setitem(sys.modules, "torch", None)
    found, missing = library_probes((1, 2), workers)
    assert {probe.dtype for probe in found if probe.name == "library"} == {"fp64", "fp32"}
    assert {f"library {name}" for name in NUMPY_FUNCTIONS} <= {probe.name for probe in found}
    assert "NumPy has none; install torch" in missing[0]
    exp = next(probe for probe in found if probe.name == "library exp")
    assert exp.take(1)[0].value > 0


def test_a_small_table_of_real_products(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(library, "QUICK_SHAPE_ROWS", (1, 8))
    monkeypatch.setattr(library, "QUICK_SHAPE_SIDES", (16, 64))
    monkeypatch.setattr(library, "QUICK_IMAGES", (6,))
    monkeypatch.setattr(library, "QUICK_CHANNELS", (16, 32))
    monkeypatch.setattr(library, "SHAPE_PATIENCE", float("inf"))
    probes = list(torch_product_probes(torch, 1, lambda: torch.set_num_threads(1), quick=True))
    assert {(p.name, p.dtype) for p in probes} == {
        (name, dtype) for name in ("library", "library convolution") for dtype in ("fp32", "bf16")
    }
    for probe in probes:
        probe.rounds.append(probe.take(1))
    found = collect(probes, Conditions("x", "2026-01-01", 1, 1.0))
    table = found.shape_table("library", "fp32", 1)
    assert [point[:2] for point in table.points] == [(1.0, 16.0), (8.0, 16.0), (1.0, 64.0), (8.0, 64.0)]
    assert table.call == pytest.approx(table.seconds(8, 16))
    best = max(point[2].value for point in table.points)
    assert found.value("library", 1, "fp32") == best
    assert found.shape_table("library", "fp32", 2) is None


def test_every_function_of_torch_is_one_that_runs():
    torch = pytest.importorskip("torch")
    probes = list(torch_function_probes(torch, 1, lambda: None, quick=False))
    rates = [probe for probe in probes if probe.name.startswith("library ")]
    assert {probe.name for probe in rates} == {f"library {name}" for name in TORCH_FUNCTIONS}
    assert len(rates) == len(probes) - len(rates) == 2 * len(TORCH_FUNCTIONS)
    assert all(probe.take(1)[0].value > 0 for probe in probes)
    several = list(torch_function_probes(torch, 2, lambda: None, quick=True))
    assert not any(probe.name.startswith("call ") for probe in several)


def test_shapes_that_take_too_long_are_left_out(monkeypatch):
    """By a clock that only the calls move on."""
    now = [0.0]
    monkeypatch.setattr(probes, "perf_counter", lambda: now[0])

    def taking(seconds):
        return lambda: now.__setitem__(0, now[0] + seconds)

    limit = TimeLimit()
    assert limit.allows(1e6, taking(1e-3))
    assert limit.best == pytest.approx(1e9)
    assert not limit.allows(1e12, lambda: pytest.fail("it would take a quarter of an hour"))
    assert not TimeLimit().allows(1.0, taking(0.05))


def test_a_missing_large_shape_is_stood_for_by_the_largest_of_its_rows():
    points = ((1.0, 64.0, summary(1e9)), (1.0, 1024.0, summary(4e9)), (64.0, 64.0, summary(8e9)))
    table = ShapeTable("library", "fp32", "x", 1, points)
    assert table.rate(64, 4096) == 8e9
    assert table.rate(1, 4096) == 4e9
    assert 4e9 < table.rate(8, 4096) < 8e9
    assert table.seconds(128, 64) == pytest.approx(2 * table.seconds(64, 64))


def test_workers_are_held_on_cores_of_their_own_and_freed(workers):
    if not hasattr(os, "sched_getaffinity"):
        workers.hold()
        return
    before, done, started = os.sched_getaffinity(0), threading.Event(), threading.Event()

    def wait():
        started.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    workers.hold()
    assert os.sched_getaffinity(0) == {workers.cores[0]}
    assert os.sched_getaffinity(thread.native_id) == {(workers.cores[1:] or workers.cores)[0]}
    workers.free()
    assert os.sched_getaffinity(0) == os.sched_getaffinity(thread.native_id) == before
    done.set()
    thread.join()


def test_a_tile_kernel_far_below_its_clock_tells_of_a_shared_core():
    from roofline.measurement.probes import Probe

    def probe(name, value, per_cycle):
        made = Probe(name, "FLOP/s" if per_cycle else "Hz", "", 1, lambda windows: [], per_cycle=per_cycle)
        made.rounds = [[Sample(value, (1.0,))] * 5]
        return made

    clock = probe("clock", 2e9, None)
    clock.unit = "Hz"
    whole, part = probe("tile bf16", 2040e9, 1024.0), probe("tile int8", 3000e9, 2048.0)
    found = collect([clock, whole, part], Conditions("x", "2026-01-01", 1, 1.0))
    assert found.ceiling("tile bf16").summary.doubts == ()
    assert found.ceiling("tile int8").summary.doubts == ("shared core: 0.73 of clock x width",)
    assert found.contended


@pytest.mark.parametrize(
    ("groups", "files", "given"),
    [
        ("0::/", {"cpu.max": "250000 100000"}, 2.5),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/a/b", {"a/cpu.max": "50000 100000", "a/b/cpu.max": "max 100000"}, 0.5),
        ("0::/not/here", {"cpu.max": "400000 100000"}, 4.0),
        ("3:memory:/x\n1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("5:cpu,cpuacct:/x", {"cpu,cpuacct/x/cpu.cfs_quota_us": "3", "cpu,cpuacct/x/cpu.cfs_period_us": "2"}, 1.5),
        ("", {}, None),
    ],
)
def test_a_container_is_given_the_time_of_some_cores(tmp_path, monkeypatch, groups, files, given):
    """Threads on all cores of a host took turns within the quota of a container of two of them."""
    (tmp_path / "own").write_text(groups)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    assert processor.core_quota(str(tmp_path), str(tmp_path / "own")) == given
    monkeypatch.setattr(processor, "core_quota", lambda: given)
    monkeypatch.setattr(processor, "usable_threads", lambda: (10, 11, 12, 13))
    monkeypatch.setattr(processor, "one_thread_a_core", lambda threads: threads)
    assert len(processor.available_cores()) == (4 if given is None else max(1, int(given)))


@pytest.mark.parametrize(
    ("groups", "files", "given"),
    [
        ("0::/", {"memory.max": "536870912"}, 2.0**29),
        ("0::/a/b", {"a/memory.max": "536870912", "a/b/memory.max": "max"}, 2.0**29),
        ("4:memory:/x", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("4:memory:/x\n0::/", {"memory/x/memory.limit_in_bytes": "1073741824"}, 2.0**30),
    ],
)
def test_a_container_is_given_some_memory(tmp_path, groups, files, given):
    (tmp_path / "own").write_text(groups)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    assert processor.memory_limit(str(tmp_path), str(tmp_path / "own")) == given


def test_caches_for_data_are_counted(tmp_path):
    for number, (kind, level) in enumerate([("Data", 1), ("Instruction", 1), ("Unified", 2), ("Unified", 3)]):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "type").write_text(f"{kind}\n", encoding="ascii")
        (tmp_path / f"index{number}" / "level").write_text(f"{level}\n", encoding="ascii")
        if level > 1:
            (tmp_path / f"index{number}" / "size").write_text(f"{level * 512}K\n", encoding="ascii")
    assert data_caches(str(tmp_path)) == {"1": 0.0, "2": 2.0**20, "3": 1.5 * 2**20}


def test_what_a_library_cannot_do_here_is_left_out_and_told():
    """A product that the library lacks, or has no memory for, ended the whole measurement in a traceback."""
    from roofline.measurement.probes import sample, timed

    def lacking():
        raise RuntimeError("could not create a primitive\nat gemm.cpp")

    assert TimeLimit().allows(1e6, lacking)
    probes = [timed("library", "x", lacking, dtype="bf16"), timed("dispatch", "y", lambda: None)]
    assert sample(probes, rounds=1, windows=2, seconds=1e3)
    found = collect(probes, Conditions("x", "2026-01-01", 1, 1.0))
    assert [ceiling.name for ceiling in found.ceilings] == ["dispatch"]
    assert found.conditions.missing == ("library bf16 (1 of its kernels and sizes): could not create a primitive",)


def test_memory_that_is_not_given_is_one_line(monkeypatch):
    from roofline.errors import InputError
    from roofline.measurement import probes
    from roofline.measurement.threads import ThreadTeam

    def full(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    for name, instead in (("Buffer", full), ("memory_limit", lambda: 2.0**28)):
        with monkeypatch.context() as patch, ThreadTeam(usable_threads()[:1]) as team:
            patch.setattr(probes, name, instead)
            with pytest.raises(InputError, match="measuring takes 384 MiB of memory, more than this process is given"):
                probes.Bench(team, None, cpu.QUICK_MEMORY)
