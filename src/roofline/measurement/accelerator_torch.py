"""An accelerator through PyTorch: CUDA and ROCm, which PyTorch drives by the same names.

Copies within a cache take less time than the host needs to enqueue one, so that their bandwidth would be the host's:
they are captured once as a graph, which the device repeats by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from math import ceil
from typing import Any

from roofline.errors import InputError, MissingExtraError
from roofline.measurement.accelerator import COLD_BYTES, Enqueue

#: Formats tried, by PyTorch's names; one the device cannot multiply is left out.
FORMATS = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8"}

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
        """Capture the pieces of work on the current device; None where it does not let them be."""
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


class TorchDevice:
    """A device of ``torch.cuda``; fp32 products run in fp32, not in TF32, which is measured as ``tf32``."""

    def __init__(self, index: int = 0) -> None:
        try:
            import torch
        except ImportError:
            raise MissingExtraError("torch", "torch") from None
        if not torch.cuda.is_available():
            raise InputError("PyTorch sees no accelerator here", hint="leave --device out to measure the processor")
        if index >= torch.cuda.device_count():
            raise InputError(f"there is no device {index}", hint=f"PyTorch sees {torch.cuda.device_count()}")
        self.torch: Any = torch
        self.index = index
        self.place = torch.device("cuda", index)
        self._told = torch.cuda.get_device_properties(index)

    @property
    def name(self) -> str:
        """The name the driver reports."""
        return str(self._told.name)

    @property
    def memory(self) -> float:
        """Bytes of its memory."""
        return float(self._told.total_memory)

    def dtypes(self) -> Sequence[str]:
        """Formats whose product runs."""
        tf32 = ("tf32",) if self._has_tf32() else ()
        return [dtype for dtype in (*FORMATS, *tf32, *SCALED) if self._runs(dtype)]

    def product(self, dtype: str, m: int, n: int, k: int) -> Enqueue:
        """A product into memory that is there already."""
        torch = self.torch
        if dtype == "int8":
            a, b = (torch.randint(-128, 128, s, dtype=torch.int8, device=self.place) for s in ((m, k), (n, k)))
            return lambda: torch._int_mm(a, b.t())
        if dtype in SCALED:
            narrow = getattr(torch, self._scaled_format(dtype))
            a, b = (torch.randn(s, device=self.place).to(narrow) for s in ((m, k), (n, k)))
            one = torch.ones((), device=self.place)
            return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        kind = getattr(torch, FORMATS["fp32" if dtype == "tf32" else dtype])
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
        """a = b + s·c."""
        torch = self.torch
        a, b, c = (torch.ones(size // 4, device=self.place) for _ in "abc")
        return Replayed(torch, lambda: torch.add(b, c, alpha=3.0, out=a))

    def nothing(self) -> Enqueue:
        """One addition."""
        one = self.torch.zeros(1, device=self.place)
        return lambda: one.add_(1.0)

    def links(self) -> dict[str, Callable[[int], Enqueue]]:
        """The host, and every other device."""
        found: dict[str, Callable[[int], Enqueue]] = {"from host": self._from_host, "to host": self._to_host}
        for other in range(self.torch.cuda.device_count()):
            if other != self.index and self.torch.cuda.can_device_access_peer(self.index, other):
                found[f"peer {other}"] = partial(self._to_peer, other)
        return found

    def seconds(self, work: Enqueue, times: int) -> float:
        """Time between two events on the device; where a graph repeats the work, that of as many pieces."""
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

    def _from_host(self, size: int) -> Enqueue:
        here, there = self._bytes(size, pin_memory=True), self._bytes(size)
        return lambda: there.copy_(here, non_blocking=True)

    def _to_host(self, size: int) -> Enqueue:
        here, there = self._bytes(size, pin_memory=True), self._bytes(size)
        return lambda: here.copy_(there, non_blocking=True)

    def _to_peer(self, other: int, size: int) -> Enqueue:
        here, there = self._bytes(size), self._bytes(size, device=self.torch.device("cuda", other))
        return lambda: there.copy_(here, non_blocking=True)

    def _allow_tf32(self, allow: bool) -> None:
        """Let products of fp32 use TF32, or not, by whichever setting this PyTorch has: it takes no mix of them."""
        matmul = self.torch.backends.cuda.matmul
        try:
            matmul.fp32_precision = "tf32" if allow else "ieee"
        except AttributeError:
            matmul.allow_tf32 = allow

    def _has_tf32(self) -> bool:
        """Whether the setting does anything: elsewhere fp32 would be measured a second time, under a wrong name."""
        cuda = self.torch.version.hip is None
        return bool(cuda and self.torch.cuda.get_device_capability(self.index) >= TF32_FROM)

    def _scaled_format(self, dtype: str) -> str:
        """Name the 8-bit format of this device: AMD's gfx942 multiplies one of its own."""
        plain, other = SCALED[dtype]
        return other if "gfx94" in str(getattr(self._told, "gcnArchName", "")) else plain

    def _runs(self, dtype: str) -> bool:
        try:
            self.product(dtype, 64, 64, 64)()
            self.torch.cuda.synchronize(self.index)
        except LACKING:
            return False
        return True
