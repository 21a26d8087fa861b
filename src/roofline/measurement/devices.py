"""Accelerators as libraries drive them: CUDA and ROCm through PyTorch, TPUs and whatever else JAX finds.

PyTorch drives CUDA and ROCm by the same names. Copies within a cache take less time than the host needs to enqueue one,
so that their bandwidth would be the host's: they are captured once as a graph, which the device repeats by itself.

JAX tells no device times: work is enqueued, the last result waited for, and the wall time shared out, so that only a
long run of work says something. On a machine without an accelerator it finds the processor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from math import ceil
from time import perf_counter
from typing import Any

from roofline.errors import InputError, load_extra
from roofline.frozen import replace
from roofline.measurement.accelerator import COLD_BYTES, Device, Enqueue, all_reduce, measure_device
from roofline.measurement.library import TORCH_DTYPES
from roofline.measurement.probes import Progress
from roofline.measurement.result import Measurement
from roofline.quantity import whole_number
from roofline.signatures import spelled

#: The 8-bit format whose product PyTorch scales by factors beside it: its name, and that on AMD's CDNA 3.
SCALED = {"fp8_e4m3": ("float8_e4m3fn", "float8_e4m3fnuz")}

#: What a product raises on a device, or in a PyTorch, that does not have it.
LACKING = (RuntimeError, NotImplementedError, ValueError, TypeError, AttributeError)

#: The least compute capability of NVIDIA's that has TF32.
TF32_FROM = (8, 0)

#: Pieces of work in a graph, at least; fewer are enqueued one by one.
TURNS = 32


class Replayed:
    """Work that a graph repeats, ``turns`` pieces at a time; called, it enqueues one piece."""

    def __init__(self, torch: Any, work: Enqueue, cycle_length: int = 1) -> None:
        self._torch, self._work = torch, work
        self.turns = cycle_length * ceil(TURNS / cycle_length)
        self._graph: Any = None
        self._tried = False

    def __call__(self) -> object:
        return self._work()

    def graph(self) -> Any:
        """Capture the pieces of work as a graph on the current device; None where they cannot be captured."""
        if not self._tried:
            self._tried = True
            cuda = self._torch.cuda
            graph, side = cuda.CUDAGraph(), cuda.Stream()
            side.wait_stream(cuda.current_stream())
            try:
                with cuda.stream(side):
                    graph.capture_begin()
                    try:
                        for _ in range(self.turns):
                            self._work()
                    finally:
                        graph.capture_end()
            except RuntimeError:
                return None
            cuda.current_stream().wait_stream(side)
            self._graph = graph
        return self._graph


class TorchDevice(Device):
    """A device of ``torch.cuda``; fp32 products run in fp32, not in TF32, which is measured as ``tf32``."""

    def __init__(self, index: int = 0) -> None:
        torch = load_extra("torch", "torch")
        if not torch.cuda.is_available():
            hint = f"leave {spelled('device')} out to measure the processor"
            raise InputError("PyTorch sees no accelerator here", hint=hint)
        if index >= torch.cuda.device_count():
            raise InputError(f"there is no device {index}", hint=f"PyTorch sees {torch.cuda.device_count()}")
        self.torch: Any = torch
        self.index = index
        self.place = torch.device("cuda", index)
        self._told = torch.cuda.get_device_properties(index)

    @property
    def name(self) -> str:
        return str(self._told.name)

    @property
    def memory(self) -> float:
        return float(self._told.total_memory)

    def dtypes(self) -> Sequence[str]:
        tf32 = ("tf32",) if self._has_tf32() else ()
        return [dtype for dtype in (*TORCH_DTYPES, *tf32, *SCALED) if self._runs(dtype)]

    def product(self, dtype: str, m: int, n: int, k: int) -> Enqueue:
        torch = self.torch
        if dtype == "int8":
            a, b = (torch.randint(-128, 128, s, dtype=torch.int8, device=self.place) for s in ((m, k), (n, k)))
            return lambda: torch._int_mm(a, b.t())
        if dtype in SCALED:
            narrow = getattr(torch, self._scaled_format(dtype))
            a, b = (torch.randn(s, device=self.place).to(narrow) for s in ((m, k), (n, k)))
            one = torch.ones((), device=self.place)
            return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        kind = getattr(torch, TORCH_DTYPES["fp32" if dtype == "tf32" else dtype])
        a, b = (torch.randn(s, device=self.place).to(kind) for s in ((m, k), (k, n)))
        out = torch.empty(m, n, dtype=kind, device=self.place)

        if kind is not torch.float32:
            return lambda: torch.mm(a, b, out=out)

        def enqueue() -> None:
            self._allow_tf32(dtype == "tf32")
            torch.mm(a, b, out=out)

        return enqueue

    def copy(self, size: int, cold: bool = False) -> Enqueue:
        """A copy within its memory; cold ones take one pair of arrays after the other."""
        pairs = max(1, COLD_BYTES // (2 * size)) if cold else 1
        turns = cycle([(self._bytes(size), self._bytes(size)) for _ in range(pairs)])

        def enqueue() -> None:
            a, b = next(turns)
            a.copy_(b)

        return Replayed(self.torch, enqueue, pairs)

    def triad(self, size: int) -> Enqueue:
        torch = self.torch
        a, b, c = (torch.ones(size // 4, device=self.place) for _ in "abc")
        return Replayed(torch, lambda: torch.add(b, c, alpha=3.0, out=a))

    def nothing(self) -> Enqueue:
        one = self.torch.zeros(1, device=self.place)
        return lambda: one.add_(1.0)

    def links(self) -> dict[str, Callable[[int], Enqueue]]:
        host, own = {"pin_memory": True}, {"device": self.place}
        found = {"from host": partial(self._sent, host, own), "to host": partial(self._sent, own, host)}
        for other in range(self.torch.cuda.device_count()):
            if other != self.index and self.torch.cuda.can_device_access_peer(self.index, other):
                found[f"peer {other}"] = partial(self._sent, own, {"device": self.torch.device("cuda", other)})
        return dict(found)

    def seconds(self, work: Enqueue, times: int) -> float:
        """Time between two events on the device; where a graph repeats the work, scaled to ``times`` pieces."""
        events = [self.torch.cuda.Event(enable_timing=True) for _ in "ab"]
        call, count, scale = work, times, 1.0
        with self.torch.cuda.device(self.index):
            if isinstance(work, Replayed) and times >= TURNS and (graph := work.graph()) is not None:
                call, count = graph.replay, max(1, round(times / work.turns))
                scale = times / (count * work.turns)
            events[0].record()
            for _ in range(count):
                call()
            events[1].record()
            events[1].synchronize()
        return float(events[0].elapsed_time(events[1])) * 1e-3 * scale

    def _bytes(self, size: int, **where: Any) -> Any:
        return self.torch.zeros(size, dtype=self.torch.uint8, **(where or {"device": self.place}))

    def _sent(self, source: Mapping[str, Any], target: Mapping[str, Any], size: int) -> Enqueue:
        """A copy of so many bytes from one place to another."""
        here, there = self._bytes(size, **source), self._bytes(size, **target)
        return lambda: there.copy_(here, non_blocking=True)

    def _allow_tf32(self, allow: bool) -> None:
        """Allow or forbid TF32 in products of fp32, by the one setting this PyTorch has: mixing both is an error."""
        matmul = self.torch.backends.cuda.matmul
        try:
            matmul.fp32_precision = "tf32" if allow else "ieee"
        except AttributeError:
            matmul.allow_tf32 = allow

    def _has_tf32(self) -> bool:
        """Whether the device has TF32. Without it fp32 would be measured twice, once under a wrong name."""
        cuda = self.torch.version.hip is None
        return bool(cuda and self.torch.cuda.get_device_capability(self.index) >= TF32_FROM)

    def _scaled_format(self, dtype: str) -> str:
        """The 8-bit format of this device: AMD's gfx942 has its own."""
        plain, other = SCALED[dtype]
        return other if "gfx94" in str(getattr(self._told, "gcnArchName", "")) else plain

    def _runs(self, dtype: str) -> bool:
        try:
            self.product(dtype, 64, 64, 64)()
            self.torch.cuda.synchronize(self.index)
        except LACKING:
            return False
        return True


#: Formats tried; one the device cannot multiply is left out.
JAX_FORMATS = ("fp32", "fp16", "bf16", "int8")

#: Bytes of memory assumed where the device does not tell: enough for sizes beyond any cache.
ASSUMED_MEMORY = 8.0 * 2**30


class JaxDevice(Device):
    """A device of this process, of ``jax.local_devices()``: those of other hosts it cannot reach.

    fp32 products run in fp32, not in the TF32 or bfloat16 that JAX takes for them by itself.
    """

    def __init__(self, index: int = 0) -> None:
        jax, jnp = load_extra("jax", "jax"), load_extra("jax.numpy", "jax")
        found = jax.local_devices()
        if index >= len(found):
            raise InputError(f"there is no device {index}", hint=f"JAX sees {len(found)}")
        self.jax: Any = jax
        self.jnp: Any = jnp
        self.device = found[index]
        self._last: Any = None

    @property
    def name(self) -> str:
        return str(self.device.device_kind)

    @property
    def memory(self) -> float:
        """Bytes of its memory, where it tells."""
        told = self.device.memory_stats() or {}
        return float(told.get("bytes_limit", ASSUMED_MEMORY))

    def dtypes(self) -> Sequence[str]:
        return [dtype for dtype in JAX_FORMATS if self._runs(dtype)]

    def product(self, dtype: str, m: int, n: int, k: int) -> Enqueue:
        """A product whose result is accumulated as the format's hardware does."""
        wide = self.jnp.int32 if dtype == "int8" else None
        precision = self.jax.lax.Precision.HIGHEST if dtype == "fp32" else None
        a, b = (self._any(dims, TORCH_DTYPES[dtype]) for dims in ((m, k), (k, n)))
        call = self.jax.jit(lambda x, y: self.jnp.matmul(x, y, precision=precision, preferred_element_type=wide))
        return self._enqueue(call, a, b)

    def copy(self, size: int, cold: bool = False) -> Enqueue:
        """A copy within its memory, plus one, so that the compiler keeps it. Cold copies write new arrays."""
        call = self.jax.jit(lambda x: x + self.jnp.uint8(1))
        arrays = max(1, COLD_BYTES // (2 * size)) if cold else 1
        turns = cycle([self._ones((size,), "uint8") for _ in range(arrays)])
        written: deque[Any] = deque(maxlen=arrays)

        def enqueue() -> None:
            self._last = call(next(turns))
            written.append(self._last)

        return enqueue

    def triad(self, size: int) -> Enqueue:
        b, c = self._ones((size // 4,), "float32"), self._ones((size // 4,), "float32")
        return self._enqueue(self.jax.jit(lambda x, y: x + 3.0 * y), b, c)

    def nothing(self) -> Enqueue:
        return self._enqueue(self.jax.jit(lambda x: x + 1.0), self._ones((), "float32"))

    def links(self) -> dict[str, Callable[[int], Enqueue]]:
        """The host, every other device, and an all-reduce among all of them."""
        found: dict[str, Callable[[int], Enqueue]] = {"from host": self._from_host}
        devices = self.jax.local_devices()
        others = [(number, other) for number, other in enumerate(devices) if other != self.device]
        found |= {f"peer {number}": partial(self._to_peer, other) for number, other in others}
        return found | ({"all-reduce": self._all_reduce} if others else {})

    def seconds(self, work: Enqueue, times: int) -> float:
        """Wall time from the first piece of work to the last result."""
        start = perf_counter()
        for _ in range(times):
            work()
        self.jax.block_until_ready(self._last)
        return perf_counter() - start

    def _enqueue(self, call: Callable[..., Any], *operands: Any) -> Enqueue:
        def enqueue() -> None:
            self._last = call(*operands)

        return enqueue

    def _ones(self, dims: tuple[int, ...], kind: str) -> Any:
        return self.jax.device_put(self.jnp.ones(dims, kind), self.device)

    def _any(self, dims: tuple[int, ...], kind: str) -> Any:
        """Random numbers. Equal numbers would take less power than real ones."""
        random = self.jax.random
        if kind == "int8":
            made = random.randint(random.key(0), dims, -128, 128, self.jnp.int8)
        else:
            made = random.normal(random.key(0), dims, self.jnp.float32).astype(kind)
        return self.jax.device_put(made, self.device)

    def _runs(self, dtype: str) -> bool:
        try:
            self.seconds(self.product(dtype, 64, 64, 64), 1)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return False
        return True

    def _to_peer(self, other: Any, size: int) -> Enqueue:
        return self._enqueue(lambda x: self.jax.device_put(x, other), self._ones((size,), "uint8"))

    def _all_reduce(self, size: int) -> Enqueue:
        """One array on every device, summed over all of them."""
        count = len(self.jax.local_devices())
        call = self.jax.pmap(lambda x: self.jax.lax.psum(x, "all"), axis_name="all")
        return self._enqueue(call, call(self.jnp.zeros((count, max(1, size // 4)), "float32")))

    def _from_host(self, size: int) -> Enqueue:
        import numpy as np

        return self._enqueue(self.jax.device_put, np.ones(size, np.uint8), self.device)


def measured_device(name: str, *, quick: bool = False, progress: Progress | None = None) -> Measurement:
    """Measure the accelerator called ``cuda``, ``cuda:1`` or ``jax:0``; with several GPUs their all-reduce too."""
    found = measure_device(_named(name), quick=quick, progress=progress)
    if not name.startswith("cuda") or found.conditions.interrupted:
        return found
    import torch

    try:
        return replace(found, ceilings=(*found.ceilings, *all_reduce(torch.cuda.device_count())))
    except KeyboardInterrupt:
        return replace(found, conditions=replace(found.conditions, interrupted=True))
    except InputError as error:
        missing = (*found.conditions.missing, f"all-reduce: {error.message}")
        return replace(found, conditions=replace(found.conditions, missing=missing))


def _named(text: str) -> Device:
    """Find a device by its name."""
    kinds: dict[str, Callable[[int], Device]] = {"cuda": TorchDevice, "jax": JaxDevice}
    name, _, index = text.partition(":")
    number = whole_number(index or "0")
    if name not in kinds or number is None:
        hint = "cuda (of ROCm's PyTorch too), jax, or one of several: cuda:1"
        raise InputError(f"{spelled('device', text)} is not one", hint=hint)
    return kinds[name](number)
