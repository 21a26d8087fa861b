"""A device through PyTorch, on a stand-in for ``torch.cuda`` whose clock is known; devices that lack something."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from roofline.errors import InputError
from roofline.measurement import accelerator
from roofline.measurement.accelerator import (
    SHAPES,
    SMALL_SHAPE,
    TURNS,
    Replayed,
    TorchDevice,
    all_reduce,
    measure_device,
)

#: Microseconds the host needs to enqueue a piece of work, and the device for one: the longer of them counts.
HOST, PIECE = 5.0, 2.0


class Clock:
    """A stand-in for torch: eager work takes the host's time, that of a graph the device's."""

    def __init__(self, refuses=False):
        self.now, self.capturing, self.captures, self.refuses = 0.0, None, 0, refuses
        clock = self

        class Event:
            def __init__(self, enable_timing):
                self.at = None

            def record(self):
                self.at = clock.now

            def synchronize(self):
                pass

            def elapsed_time(self, other):
                return (other.at - self.at) * 1e-3

        class CUDAGraph:
            def capture_begin(self):
                clock.capturing, self.pieces = self, 0
                clock.captures += 1

            def capture_end(self):
                clock.capturing = None

            def replay(self):
                clock.now += HOST + PIECE * self.pieces

        stream = SimpleNamespace(wait_stream=lambda other: None)
        self.version = SimpleNamespace(hip=None)
        self.capability = (9, 0)
        self.cuda = SimpleNamespace(
            Event=Event, CUDAGraph=CUDAGraph, Stream=lambda: stream, current_stream=lambda: stream,
            stream=lambda chosen: nullcontext(), device=lambda index: nullcontext(),
            get_device_capability=lambda index: self.capability,
        )  # fmt: skip

    def work(self):
        if self.capturing is None:
            self.now += HOST
        elif self.refuses:
            raise RuntimeError("operation not permitted when stream is capturing")
        else:
            self.capturing.pieces += 1


class Device(TorchDevice):
    def __init__(self, clock, arch=""):
        self.torch, self.index, self._told = clock, 0, SimpleNamespace(gcnArchName=arch)


def test_small_work_takes_the_time_of_the_device_not_of_the_host():
    clock = Clock()
    work = Replayed(clock, clock.work)
    assert Device(clock).seconds(work, 4) == pytest.approx(4 * HOST * 1e-6)
    assert clock.captures == 0
    found = Device(clock).seconds(work, 1000) / 1000
    assert found == pytest.approx((PIECE + HOST / TURNS) * 1e-6)
    Device(clock).seconds(work, 1000)
    assert clock.captures == 1


def test_a_graph_goes_round_all_cold_arrays():
    """A graph of some of them would find its arrays in the cache."""
    assert [Replayed(None, None, length).turns for length in (1, 20, 32, 2048)] == [32, 40, 32, 2048]
    clock = Clock()
    work = Replayed(clock, clock.work, 2048)
    assert Device(clock).seconds(work, 100) == pytest.approx(100 * PIECE * 1e-6, rel=0.01)


def test_what_cannot_be_captured_is_enqueued():
    clock = Clock(refuses=True)
    work = Replayed(clock, clock.work)
    for _ in "ab":
        assert Device(clock).seconds(work, 100) == pytest.approx(100 * HOST * 1e-6)
    assert (clock.captures, clock.capturing) == (1, None)


@pytest.mark.parametrize(
    ("hip", "capability", "has"), [(None, (7, 0), False), (None, (8, 6), True), ("6.3", (9, 4), False)]
)
def test_tf32_is_measured_only_where_there_is_any(monkeypatch, hip, capability, has):
    monkeypatch.setattr(accelerator, "_runs", lambda device, dtype: dtype in ("fp32", "tf32"))
    clock = Clock()
    clock.version.hip, clock.capability = hip, capability
    assert Device(clock).dtypes() == (["fp32", "tf32"] if has else ["fp32"])


@pytest.mark.parametrize(
    ("arch", "name"), [("gfx942:sramecc+:xnack-", "fnuz"), ("gfx950", "fn"), ("NVIDIA H100", "fn"), ("", "fn")]
)
def test_eight_bits_are_those_of_the_device(arch, name):
    assert Device(Clock(), arch)._scaled_format("fp8_e4m3") == f"float8_e4m3{name}"


def test_the_setting_of_either_age_is_made():
    class Old:
        def __setattr__(self, name, value):
            if name != "allow_tf32":
                raise AttributeError(name)
            super().__setattr__(name, value)

    clock = Clock()
    for matmul in (Old(), SimpleNamespace()):
        clock.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=matmul))
        Device(clock)._allow_tf32(True)
        assert vars(matmul) in ({"allow_tf32": True}, {"fp32_precision": "tf32"})
        Device(clock)._allow_tf32(False)
        assert vars(matmul) in ({"allow_tf32": False}, {"fp32_precision": "ieee"})


class Plain:
    """A device that does FLOPs at a rate, and whatever else in a microsecond."""

    name, memory = "Plain", 2.0**23

    def __init__(self, rate):
        self.rate, self.longest = rate, 0.0

    def dtypes(self):
        return ["fp64"]

    def product(self, dtype, m, n, k):
        return lambda: 2.0 * m * n * k / self.rate

    def copy(self, size, cold=False):
        return lambda: 1e-6

    def triad(self, size):
        if size > 2**18:
            raise RuntimeError("out of memory. Tried to allocate\nmore")
        return lambda: 1e-6

    def nothing(self):
        return lambda: 1e-6

    def links(self):
        return {}

    def seconds(self, work, times):
        self.longest = max(self.longest, work())
        return times * work()


@pytest.mark.parametrize(
    ("rate", "shapes"), [(1e15, SHAPES), (3e12, [s for s in SHAPES if s[0] < 8192]), (1e8, [SMALL_SHAPE])]
)
def test_shapes_that_take_too_long_are_left_out(rate, shapes):
    """An old card does fp64 at a quarter of a TFLOP/s: the largest shape would take four seconds a product."""
    device = Plain(rate)
    found = measure_device(device)
    assert found.value("library") == pytest.approx(rate)
    sizes = {f"{m} x {k} by {k} x {n}" for m, n, k in shapes}
    assert any(size in found.ceiling("library").kernel for size in sizes)
    if len(shapes) > 1:
        assert device.longest <= 0.25


def test_what_does_not_fit_is_said_and_the_rest_stands():
    """Somebody else fills the memory: sizes that cannot be made are passed, and told."""
    found = measure_device(Plain(1e12))
    curves = {curve.name: [size for size, _ in curve.values()] for curve in found.curves}
    assert max(curves["triad"]) < max(curves["copy"])
    told = [text for text in found.conditions.missing if text.startswith("triad")]
    assert told == ["triad (3 of its kernels and sizes): out of memory. Tried to allocate"]
    assert found.value("launch") == pytest.approx(1e-6)


def test_a_pytorch_without_nccl_says_so(monkeypatch):
    distributed = pytest.importorskip("torch.distributed")
    monkeypatch.setattr(distributed, "is_nccl_available", lambda: False)
    with pytest.raises(InputError, match="this PyTorch is built without nccl"):
        all_reduce(2)
