"""An accelerator through JAX: TPUs, and whatever else JAX finds; on a machine without one, its processor.

JAX tells no device times: work is enqueued, the last result waited for, and the wall time shared out, so that only a
long run of work says something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from time import perf_counter
from typing import Any

from roofline.errors import InputError, MissingExtraError
from roofline.measurement.accelerator import COLD_BYTES, Enqueue

#: Formats tried, by NumPy's names; one the device cannot multiply is left out.
FORMATS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8"}

#: Bytes of memory assumed where the device does not tell: enough for sizes beyond any cache.
MEMORY = 8.0 * 2**30


class JaxDevice:
    """A device of this process, of ``jax.local_devices()``: those of other hosts it cannot reach.

    fp32 products run in fp32, not in the TF32 or bfloat16 that JAX takes for them by itself.
    """

    def __init__(self, index: int = 0) -> None:
        try:
            import jax
            import jax.numpy as jnp
        except ImportError:
            raise MissingExtraError("jax", "jax") from None
        found = jax.local_devices()
        if index >= len(found):
            raise InputError(f"there is no device {index}", hint=f"JAX sees {len(found)}")
        self.jax: Any = jax
        self.jnp: Any = jnp
        self.device = found[index]
        self._last: Any = None

    @property
    def name(self) -> str:
        """The name JAX reports."""
        return str(self.device.device_kind)

    @property
    def memory(self) -> float:
        """Bytes of its memory, where it tells."""
        told = self.device.memory_stats() or {}
        return float(told.get("bytes_limit", MEMORY))

    def dtypes(self) -> Sequence[str]:
        """Formats whose product runs."""
        return [dtype for dtype in FORMATS if self._runs(dtype)]

    def product(self, dtype: str, m: int, n: int, k: int) -> Enqueue:
        """A product whose result is accumulated as the format's hardware does."""
        wide = self.jnp.int32 if dtype == "int8" else None
        precision = self.jax.lax.Precision.HIGHEST if dtype == "fp32" else None
        a, b = self._any((m, k), FORMATS[dtype]), self._any((k, n), FORMATS[dtype])
        call = self.jax.jit(lambda x, y: self.jnp.matmul(x, y, precision=precision, preferred_element_type=wide))
        return self._enqueue(call, a, b)

    def copy(self, size: int, cold: bool = False) -> Enqueue:
        """A copy within its memory; adding one keeps the compiler from leaving it out. Cold ones write anew too."""
        call = self.jax.jit(lambda x: x + self.jnp.uint8(1))
        arrays = max(1, COLD_BYTES // (2 * size)) if cold else 1
        turns = cycle([self._ones((size,), "uint8") for _ in range(arrays)])
        written: deque[Any] = deque(maxlen=arrays)

        def enqueue() -> None:
            self._last = call(next(turns))
            written.append(self._last)

        return enqueue

    def triad(self, size: int) -> Enqueue:
        """b + s·c."""
        b, c = self._ones((size // 4,), "float32"), self._ones((size // 4,), "float32")
        return self._enqueue(self.jax.jit(lambda x, y: x + 3.0 * y), b, c)

    def nothing(self) -> Enqueue:
        """One addition."""
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
        """Numbers made up: all alike, they would take less power than any real ones."""
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

        here = np.ones(size, np.uint8)

        def enqueue() -> None:
            self._last = self.jax.device_put(here, self.device)

        return enqueue
