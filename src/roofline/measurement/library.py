"""Probes of the libraries people call: matrix products, exponentials, and what it costs to call at all.

PyTorch where it is installed, else NumPy, which has no bf16, fp16 or int8 product worth the name and whose threads
cannot be set from here: what it cannot measure is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from roofline.measurement.library_functions import elsewhere, numpy_functions, torch_functions
from roofline.measurement.library_shapes import DTYPES as SHAPED
from roofline.measurement.library_shapes import torch_shapes
from roofline.measurement.probes import FAILURES, Probe, reason, shortest, timed
from roofline.measurement.workers import Workers

#: Rows and columns of the products that are timed: a small one is done before others take a core, a large one steady.
SIDES = (320, 640, 1152)

#: The product that tells which side to take, and the longest to wait for in seconds: few longer ones are undisturbed.
TRIAL, PATIENCE = 128, 0.05

#: Elements an operation of PyTorch has for each thread it uses (at::internal::GRAIN_SIZE).
GRAIN = 32768

#: Bytes of nearly the largest block that the C library's allocator agrees to keep (its DEFAULT_MMAP_THRESHOLD_MAX).
SETTLED = 32 * 2**20 - 2**16

TORCH_DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8"}
NUMPY_DTYPES = {"fp64": "float64", "fp32": "float32"}


def library_probes(
    threads: tuple[int, ...], workers: Workers, quick: bool = False
) -> tuple[list[Probe], tuple[str, ...]]:
    """Make the probes of the library at hand, and list what it cannot measure; ``workers`` holds its threads."""
    try:
        import torch
    except ImportError:
        return list(_numpy(max(threads))), (
            "library products in bf16, fp16 and int8, over shapes, and on one thread: NumPy has none; install torch",
        )
    found: list[Probe] = []
    try:
        found.extend(_torch(torch, threads, workers, quick))
    except FAILURES as error:
        return found, (f"the rest of the library: {reason(error)}",)
    return found, ()


def _torch(torch: Any, threads: tuple[int, ...], workers: Workers, quick: bool) -> Iterator[Probe]:
    settle_allocator(lambda: torch.empty(SETTLED, dtype=torch.uint8))
    for count in threads:
        before = setter(torch, count, workers)
        for dtype in (one for one in TORCH_DTYPES if one not in SHAPED):
            kind = getattr(torch, TORCH_DTYPES[dtype])
            trial = _torch_product(torch, kind, TRIAL)
            for side in dict.fromkeys(_side(trial, side) for side in SIDES):
                yield timed(
                    "library", f"torch {torch.__version__} matmul, {side} x {side} x {side}",
                    _torch_product(torch, kind, side),
                    threads=count, amount=2.0 * side**3, unit="FLOP/s", dtype=dtype, before=before,
                )  # fmt: skip
        yield from torch_shapes(torch, count, before, quick)
        yield from torch_functions(torch, count, before, quick)
    renew = elsewhere(lambda: _added(torch, torch.zeros(1), torch.zeros(1)))
    yield timed(
        "dispatch", f"torch {torch.__version__} add of one element", renew(), before=setter(torch, 1, workers),
        renew=renew,
    )  # fmt: skip


def settle_allocator(allocate: Callable[[], Any]) -> None:
    """Allocate a large block once and let it go, as any program has that worked with large tensors.

    The C library's allocator then keeps freed blocks of up to that size for the next call. Before, it may hand each
    one back to the system, depending on what else happened, and every call pays for new pages; what those cost is
    measured by itself.
    """
    allocate()


def _side(trial: Callable[[], Any], side: int) -> int:
    """Take the wanted side, unless a small product shows that it would take too long (a format that is emulated)."""
    return side if shortest(trial) * (side / TRIAL) ** 3 < PATIENCE else TRIAL


def setter(torch: Any, count: int, workers: Workers) -> Callable[[], None]:
    """Make the call that gives PyTorch a number of threads, has it start them, and holds each on its core."""
    some = torch.zeros(GRAIN * count)

    def set_threads() -> None:
        torch.set_num_threads(count)
        torch.neg(some, out=some)
        workers.hold()

    return set_threads


def _torch_product(torch: Any, dtype: Any, side: int) -> Callable[[], Any]:
    if dtype is torch.int8:
        a, b = (torch.ones(side, side, dtype=dtype) for _ in "ab")
        whole = torch.empty(side, side, dtype=torch.int32)
        return lambda: torch._int_mm(a, b, out=whole)
    a, b, out = (torch.rand(side, side).to(dtype) for _ in "abc")
    return lambda: torch.mm(a, b, out=out)


def _numpy_product(np: Any, name: str, side: int) -> Callable[[], Any]:
    a, b, out = (np.ones((side, side), name) for _ in "abc")
    return lambda: np.matmul(a, b, out=out)


def _added(library: Any, one: Any, two: Any) -> Callable[[], Any]:
    return lambda: library.add(one, one, out=two)


def _numpy(threads: int) -> Iterator[Probe]:
    import numpy as np

    settle_allocator(lambda: np.empty(SETTLED, np.uint8))
    for dtype, name in NUMPY_DTYPES.items():
        for side in SIDES:
            yield timed(
                "library", f"numpy {np.__version__} matmul, {side} x {side} x {side}", _numpy_product(np, name, side),
                threads=threads, amount=2.0 * side**3, unit="FLOP/s", dtype=dtype,
            )  # fmt: skip
    yield from numpy_functions(np)
    renew = elsewhere(lambda: _added(np, np.zeros(1, np.float32), np.zeros(1, np.float32)))
    yield timed("dispatch", f"numpy {np.__version__} add of one element", renew(), renew=renew)
