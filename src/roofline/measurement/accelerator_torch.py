"""An accelerator through PyTorch: CUDA and ROCm, which PyTorch drives by the same names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any

from roofline.errors import InputError, MissingExtraError
from roofline.measurement.accelerator import COLD_BYTES, Enqueue

#: Formats tried, by PyTorch's names; one the device cannot multiply is left out.
FORMATS = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8"}

#: The 8-bit format whose product PyTorch scales by factors beside it.
SCALED = {"fp8_e4m3": "float8_e4m3fn"}


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
        return [dtype for dtype in (*FORMATS, "tf32", *SCALED) if self._runs(dtype)]

    def product(self, dtype: str, m: int, n: int, k: int) -> Enqueue:
        """A product into memory that is there already."""
        torch = self.torch
        if dtype == "int8":
            a, b = (torch.ones(s, dtype=torch.int8, device=self.place) for s in ((m, k), (n, k)))
            return lambda: torch._int_mm(a, b.t())
        if dtype in SCALED:
            narrow = getattr(torch, SCALED[dtype])
            a, b = (torch.randn(s, device=self.place).to(narrow) for s in ((m, k), (n, k)))
            one = torch.ones((), device=self.place)
            return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        kind = getattr(torch, FORMATS["fp32" if dtype == "tf32" else dtype])
        a, b = (torch.randn(s, device=self.place).to(kind) for s in ((m, k), (k, n)))
        out = torch.empty(m, n, dtype=kind, device=self.place)

        def enqueue() -> None:
            torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
            torch.mm(a, b, out=out)

        return enqueue

    def copy(self, size: int, cold: bool = False) -> Enqueue:
        """A copy within its memory; cold ones take one pair of arrays after the other."""
        pairs = max(1, COLD_BYTES // (2 * size)) if cold else 1
        turns = cycle([(self._bytes(size), self._bytes(size)) for _ in range(pairs)])

        def enqueue() -> None:
            a, b = next(turns)
            a.copy_(b)

        return enqueue

    def triad(self, size: int) -> Enqueue:
        """a = b + s·c."""
        torch = self.torch
        a, b, c = (torch.ones(size // 4, device=self.place) for _ in "abc")
        return lambda: torch.add(b, c, alpha=3.0, out=a)

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
        """Time between two events on the device."""
        events = [self.torch.cuda.Event(enable_timing=True) for _ in "ab"]
        with self.torch.cuda.device(self.index):
            events[0].record()
            for _ in range(times):
                work()
            events[1].record()
            events[1].synchronize()
        return float(events[0].elapsed_time(events[1])) * 1e-3

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

    def _runs(self, dtype: str) -> bool:
        try:
            self.product(dtype, 64, 64, 64)()
            self.torch.cuda.synchronize(self.index)
        except (RuntimeError, NotImplementedError, ValueError):
            return False
        return True
