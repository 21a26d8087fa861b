"""The accelerator's plan on a fake device whose answers are known, and the fit of links."""

from __future__ import annotations

import random
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.measurement.accelerator import measure_device
from roofline.measurement.lines import fit_line


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

    def copy(self, size):
        return lambda: self._moved(2 * size)

    def triad(self, size):
        return lambda: self._moved(3 * size) * 1.05

    def nothing(self):
        return lambda: 0.0

    def links(self):
        return {"from host": lambda size: lambda: 10e-6 - self.LAUNCH + size / 50e9}

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


def test_a_link_is_a_latency_and_a_bandwidth(measured):
    assert measured.value("from host latency") == pytest.approx(10e-6, rel=0.05)
    assert measured.value("from host") == pytest.approx(50e9, rel=0.05)


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


def test_a_machine_without_an_accelerator_says_so():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    from roofline.measurement.accelerator_torch import TorchDevice

    with pytest.raises(InputError, match="PyTorch sees no accelerator here; leave --device out"):
        TorchDevice()
