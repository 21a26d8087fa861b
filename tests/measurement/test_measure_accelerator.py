"""The accelerator's plan on a fake device whose answers are known, and the fit of links."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import LONG

from roofline.errors import InputError
from roofline.measurement import accelerator
from roofline.measurement.accelerator import (
    ROUNDS,
    WINDOWS,
    TorchDevice,
    all_reduce,
    all_reduce_times,
    fit_line,
    measure_device,
)


class FakeDevice:
    """time = launch + max(FLOPs ÷ peak, bytes ÷ bandwidth), with a cache and 2 % of noise; slow until it is warm."""

    name = "Fake Accelerator"
    memory = 16.0 * 2**30
    PEAKS = MappingProxyType({"fp32": 50e12, "bf16": 800e12})
    CACHE, INSIDE, OUTSIDE, LAUNCH = 40e6, 9e12, 3e12, 3e-6

    def __init__(self):
        self.spent = 0.0
        self.chance = random.Random(1)
        self.interrupt_after = None
        self.runs = 0

    def dtypes(self):
        return list(self.PEAKS)

    def product(self, dtype, m, n, k):
        # Small shapes do not fill the device.
        filled = 0.5 if m * n < 4096 * 4096 else 0.9
        return lambda: 2.0 * m * n * k / (self.PEAKS[dtype] * filled)

    def copy(self, size, cold=False):
        return lambda: 2 * size / self.OUTSIDE if cold else self._moved(2 * size)

    def triad(self, size):
        return lambda: self._moved(3 * size) * 1.05

    def nothing(self):
        return lambda: 0.0

    def links(self):
        return {
            "from host": lambda size: lambda: 10e-6 - self.LAUNCH + size / 50e9,
            "peer 1": lambda size: lambda: 4e-6 - self.LAUNCH + size / 400e9,
        }

    def seconds(self, work, times):
        self.runs += 1
        if self.interrupt_after is not None and self.runs > self.interrupt_after:
            raise KeyboardInterrupt
        slow = 3.0 if self.spent < 0.05 else 1.0
        took = times * (self.LAUNCH + work()) * slow * self.chance.uniform(0.99, 1.01)
        self.spent += took
        return took

    def _moved(self, size):
        return size / (self.INSIDE if size <= self.CACHE else self.OUTSIDE)


@pytest.fixture(scope="module")
def measured():
    return measure_device(FakeDevice())


@pytest.mark.parametrize(("dtype", "peak"), [("bf16", 800e12), ("fp32", 50e12)])
def test_the_best_shape_counts_after_the_warm_up(measured, dtype, peak):
    assert measured.value("library", dtype=dtype) == pytest.approx(0.9 * peak, rel=0.03)


def test_the_cache_and_the_memory_are_found(measured):
    inner, outer = measured.levels(1)
    assert inner.capacity == pytest.approx(40e6, rel=0.45)
    assert outer.bandwidth == pytest.approx(3e12, rel=0.03)
    assert inner.bandwidth == pytest.approx(9e12, rel=0.45)


def test_a_launch_costs_what_it_costs(measured):
    assert measured.value("launch") == pytest.approx(3e-6, rel=0.02)


@pytest.mark.parametrize(("link", "latency", "bandwidth"), [("from host", 10e-6, 50e9), ("peer 1", 4e-6, 400e9)])
def test_a_link_is_a_latency_and_a_bandwidth(measured, link, latency, bandwidth):
    assert measured.value(f"{link} latency") == pytest.approx(latency, rel=0.05)
    assert measured.value(link) == pytest.approx(bandwidth, rel=0.05)


def test_a_cold_copy_shows_no_cache(measured):
    """Warm copies of 16 MB run at the cache's speed, cold ones at the memory's; levels are those of the warm."""
    curves = {curve.name: dict(curve.values()) for curve in measured.curves}
    at = min(curves["cold copy"], key=lambda size: abs(size - 16e6))
    assert curves["copy"][at] / curves["cold copy"][at] == pytest.approx(2.0, rel=0.2)
    assert all(value < 3.1e12 for value in curves["cold copy"].values())
    assert [level.name for level in measured.levels(1)] == ["l2", "hbm"]
    assert max(value for _, value in measured.best_curve(1)) > 4e12


def test_a_link_that_cannot_be_read_off_is_said_and_the_rest_stands():
    device = FakeDevice()
    device.links = lambda: {"peer 1": lambda size: lambda: 1e-4 / size}
    found = measure_device(device, quick=True)
    assert found.value("peer 1") is None
    assert "peer 1: larger messages take no longer: no bandwidth can be read off" in found.conditions.missing
    assert found.value("launch") > 0


def test_arrays_are_given_back_after_each_round():
    """No more than one piece of work is alive at a time, or a small device runs out of memory."""
    device, alive, most = FakeDevice(), [0], [0]

    class Work:
        def __init__(self):
            alive[0] += 1
            most[0] = max(most[0], alive[0])

        def __del__(self):
            alive[0] -= 1

        def __call__(self):
            return 1e-4

    device.copy = lambda size, cold=False: Work()
    device.triad = lambda size: Work()
    measure_device(device, quick=True)
    assert (alive[0], most[0]) == (0, 1)


def test_it_is_a_device_and_nothing_is_doubted(measured):
    assert measured.conditions.device
    assert not measured.contended
    assert measured.conditions.missing == ()


def test_ctrl_c_keeps_what_was_measured():
    device = FakeDevice()
    device.interrupt_after = 60
    found = measure_device(device, quick=True)
    assert found.conditions.interrupted
    assert found.value("library", dtype="fp32") is not None
    assert found.warnings()[0].startswith("stopped early")


@given(st.floats(1e-7, 1e-3), st.floats(1e8, 1e12))
def test_a_line_is_found_again(latency, bandwidth):
    points = [(size, latency + size / bandwidth) for size in (1e2, 1e4, 1e6, 1e8, 1e10)]
    found = fit_line(points)
    assert found[0] == pytest.approx(latency, rel=1e-3)
    assert found[1] == pytest.approx(bandwidth, rel=1e-3)


def test_a_latency_is_never_below_zero():
    assert fit_line([(1e6, 0.9e-5), (1e7, 1e-4), (1e8, 1.1e-3)])[0] >= 0


@pytest.mark.parametrize("points", [[(1e6, 1e-3)], [(1e6, 1e-3), (1e6, 2e-3)], [(1e3, 2e-3), (1e9, 1e-3)]])
def test_no_line_is_a_clear_error(points):
    with pytest.raises(InputError, match=r"at least two sizes|no bandwidth"):
        fit_line(points)


@pytest.mark.long
def test_several_devices_reduce_over_gloo():
    """Processes of this machine: the real code, with the backend for processors; how fast they are is theirs."""
    pytest.importorskip("torch")
    taken = all_reduce_times(2 if LONG else 1, "gloo", (2**10, 2**16))
    assert [[len(one) for one in rounds] for rounds in taken] == [[WINDOWS] * ROUNDS] * 2
    assert min(seconds for rounds in taken for one in rounds for seconds in one) > 0


def test_times_over_sizes_are_a_latency_and_a_bandwidth(monkeypatch):
    def times(devices, backend, sizes):
        return [[[2e-5 + size / 40e9] * 5, [9e-5 + size / 30e9] * 5] for size in sizes]

    monkeypatch.setattr(accelerator, "all_reduce_times", times)
    bandwidth, latency = all_reduce(2, "gloo")
    assert (bandwidth.name, bandwidth.unit, latency.name, latency.unit) == (
        "all-reduce", "B/s", "all-reduce latency", "s",
    )  # fmt: skip
    assert (bandwidth.value, latency.value) == (pytest.approx(40e9), pytest.approx(2e-5))
    assert "gloo all-reduce of 1024 to 268435456 bytes, n = 2" in bandwidth.kernel


def test_an_all_reduce_that_cannot_be_is_a_clear_error():
    pytest.importorskip("torch")
    with pytest.raises(InputError, match="needs two devices; there is 1 here"):
        all_reduce(1)
    if LONG:  # two processes that load PyTorch
        with pytest.raises(InputError, match="all-reduce among 2 processes of nothing failed"):
            all_reduce(2, "nothing")


def test_the_torch_device_enqueues_what_it_says():
    """What is enqueued, run on the processor in place of a GPU; its times are not looked at."""
    torch = pytest.importorskip("torch")

    class OnProcessor(TorchDevice):
        def __init__(self):
            self.torch, self.index, self.place, self._told = torch, 0, torch.device("cpu"), None

        def _bytes(self, size, **where):
            return super()._bytes(size)

    device = OnProcessor()
    for dtype in ("fp64", "fp32", "fp16", "bf16", "int8", "tf32", "fp8_e4m3"):
        device.product(dtype, 32, 48, 64)()
    for work in (device.copy(2**12), device.copy(2**24, cold=True), device.triad(2**12), device.nothing()):
        work()
        work()
    device._sent({}, {}, 2**12)()


@pytest.mark.skipif(not LONG, reason="JAX compiles for half a minute; make test-long runs it")
def test_jax_devices_reach_each_other():
    """Two devices that JAX makes of one processor: links, and the whole plan in little."""
    pytest.importorskip("jax")
    code = """
from roofline.measurement import accelerator
from roofline.measurement.accelerator import JaxDevice
accelerator.LARGEST, accelerator.COLD_BYTES, accelerator.QUICK_SHAPES = 2**20, 2**22, ((64, 64, 64),)
accelerator.MESSAGES, accelerator.WARM_UP, accelerator.WINDOW = (2**10, 2**16, 2**22), 1e-3, 1e-4
device = JaxDevice()
found = accelerator.measure_device(device, quick=True)
told = {name.split(":")[0] for name in found.conditions.missing} | {c.name for c in found.ceilings}
print(sorted(device.links()), set(device.links()) <= told, found.value("library", dtype="bf16") > 0)
"""
    settings = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "['all-reduce', 'from host', 'peer 1'] True True", done.stderr


def test_a_machine_without_an_accelerator_says_so():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        assert TorchDevice().memory > 0
        return
    with pytest.raises(InputError, match="PyTorch sees no accelerator here; leave device= out"):
        TorchDevice()
