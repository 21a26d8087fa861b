"""Probes of the libraries people call: products, convolutions and functions, and what it costs to call at all.

PyTorch where it is installed, else NumPy, which has no bf16, fp16 or int8 product worth the name and whose threads
cannot be set from here: what it cannot measure is said.

Products and convolutions run over shapes, from those that are all call to those that are steady. Operands stand in the
order they were made in: a library that wants another order makes it at each call, and its time is in the figures.
Shapes that take too long are left out; the largest kept one stands for them.

A function of a vector has two roofs as products have: what the registers can do, and what a library's own kernel does.
It is timed by itself, which needs no model of its passes over the data: how many elements a second it does in a cache,
and what calling it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

from roofline.lazy import np
from roofline.measurement.probes import FAILURES, Probe, reason, shortest_call, timed
from roofline.measurement.threads import LibraryThreads

#: Rows and columns of the products that are timed: a small one is done before others take a core, a large one steady.
SIDES = (320, 640, 1152)

#: The side of the trial product, and the longest product in seconds: few longer ones are undisturbed.
TRIAL, PATIENCE = 128, 0.05

#: Elements an operation of PyTorch has for each thread it uses (at::internal::GRAIN_SIZE).
GRAIN = 32768

#: Bytes of nearly the largest block that the C library's allocator keeps (its DEFAULT_MMAP_THRESHOLD_MAX).
SETTLED = 32 * 2**20 - 2**16

TORCH_DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8"}
NUMPY_DTYPES = {"fp64": "float64", "fp32": "float32"}


def library_probes(
    threads: tuple[int, ...], held: LibraryThreads, quick: bool = False
) -> tuple[list[Probe], tuple[str, ...]]:
    """Make the probes of the library at hand, and list what it cannot measure; ``held`` are its threads."""
    try:
        import torch
    except ImportError:
        return list(_numpy(max(threads))), (
            "library products in bf16, fp16 and int8, over shapes, and on one thread: NumPy has none; install torch",
        )
    found: list[Probe] = []
    try:
        found.extend(_torch(torch, threads, held, quick))
    except FAILURES as error:
        return found, (f"the rest of the library: {reason(error)}",)
    return found, ()


def _torch(torch: Any, threads: tuple[int, ...], held: LibraryThreads, quick: bool) -> Iterator[Probe]:
    settle_allocator(lambda: torch.empty(SETTLED, dtype=torch.uint8))
    for count in threads:
        before = thread_setter(torch, count, held)
        for dtype in (one for one in TORCH_DTYPES if one not in MODEL_DTYPES):
            kind = getattr(torch, TORCH_DTYPES[dtype])
            trial = _torch_product(torch, kind, TRIAL)
            for side in dict.fromkeys(_side(trial, side) for side in SIDES):
                what = f"torch {torch.__version__} matmul, {side} x {side} x {side}"
                yield timed(
                    "library", what, _torch_product(torch, kind, side), threads=count, amount=2.0 * side**3,
                    unit="FLOP/s", dtype=dtype, before=before,
                )  # fmt: skip
        yield from torch_product_probes(torch, count, before, quick)
        yield from torch_function_probes(torch, count, before, quick)
    renew, before = in_new_memory(lambda: _added(torch, torch.zeros(1), torch.zeros(1))), thread_setter(torch, 1, held)
    yield timed("dispatch", f"torch {torch.__version__} add of one element", renew(), before=before, renew=renew)


def settle_allocator(allocate: Callable[[], Any]) -> None:
    """Allocate a large block once and free it, as any program does that works with large tensors.

    The C library's allocator then keeps freed blocks of up to that size for the next call. Before, it may hand each
    one back to the system, depending on what else happened, and every call pays for new pages; what those cost is
    measured by itself.
    """
    allocate()


def _side(trial: Callable[[], Any], side: int) -> int:
    """Take the wanted side, unless a small product shows that it would take too long (a format that is emulated)."""
    return side if shortest_call(trial) * (side / TRIAL) ** 3 < PATIENCE else TRIAL


def thread_setter(torch: Any, count: int, held: LibraryThreads) -> Callable[[], None]:
    """Make the function that sets PyTorch's number of threads, starts them, and pins each to its core."""
    some = torch.zeros(GRAIN * count)

    def set_threads() -> None:
        torch.set_num_threads(count)
        torch.neg(some, out=some)
        held.hold()

    return set_threads


def _torch_product(torch: Any, dtype: Any, side: int) -> Callable[[], Any]:
    if dtype is torch.int8:
        a, b = (torch.ones(side, side, dtype=dtype) for _ in "ab")
        return partial(torch._int_mm, a, b, out=torch.empty(side, side, dtype=torch.int32))
    a, b, out = (torch.rand(side, side).to(dtype) for _ in "abc")
    return partial(torch.mm, a, b, out=out)


def _added(library: Any, one: Any, two: Any) -> Callable[[], Any]:
    return lambda: library.add(one, one, out=two)


def _numpy(threads: int) -> Iterator[Probe]:
    settle_allocator(lambda: np.empty(SETTLED, np.uint8))
    for dtype, name in NUMPY_DTYPES.items():
        for side in SIDES:
            a, b, out = (np.ones((side, side), name) for _ in "abc")
            what, call = f"numpy {np.__version__} matmul, {side} x {side} x {side}", partial(np.matmul, a, b, out=out)
            yield timed("library", what, call, threads=threads, amount=2.0 * side**3, unit="FLOP/s", dtype=dtype)
    yield from _function_probes(np, NUMPY_FUNCTIONS, lambda shape: np.ones(shape, np.float32))
    renew = in_new_memory(lambda: _added(np, np.zeros(1, np.float32), np.zeros(1, np.float32)))
    yield timed("dispatch", f"numpy {np.__version__} add of one element", renew(), renew=renew)


#: Rows of products, and sides of the square matrix they meet.
SHAPE_ROWS, SHAPE_SIDES = (1, 3, 12, 48, 192, 768), (48, 96, 192, 384, 768, 1536, 3072)
QUICK_SHAPE_ROWS, QUICK_SHAPE_SIDES = (1, 12, 192), (48, 192, 768, 1536)

#: Convolutions of 3 x 3: sides of the image, and channels in and out.
IMAGES, CHANNELS = (6, 20, 40), (32, 96, 192, 384)
QUICK_IMAGES, QUICK_CHANNELS = (6, 20), (32, 192)

#: The longest shape in seconds (few longer ones are undisturbed), and the rate in FLOP/s supposed before any is known.
SHAPE_PATIENCE, LEAST_RATE = 0.01, 2e10

#: Formats in which models compute.
MODEL_DTYPES = {"fp32": "float32", "bf16": "bfloat16"}


def torch_product_probes(torch: Any, threads: int, before: Callable[[], Any], quick: bool) -> Iterator[Probe]:
    """Probe products and convolutions of PyTorch."""
    before()
    for dtype, kind in MODEL_DTYPES.items():
        for name, made in (("library", _products), ("library convolution", _convolutions)):
            limit = TimeLimit()
            for rows, side, call, what in made(torch, getattr(torch, kind), quick):
                flops = 2.0 * rows * side**2
                if limit.allows(flops, call):
                    yield timed(
                        name, f"torch {torch.__version__} {what}", call, threads=threads, amount=flops,
                        unit="FLOP/s", dtype=dtype, before=before, shape=(float(rows), side),
                    )  # fmt: skip


class TimeLimit:
    """Allows shapes that do not take too long, judged by the best rate of the shapes before."""

    def __init__(self) -> None:
        self.best = 0.0

    def allows(self, flops: float, call: Callable[[], Any]) -> bool:
        """Run a call that should be short, and tell whether it was."""
        if flops / max(self.best, LEAST_RATE) > SHAPE_PATIENCE:
            return False
        took = shortest_call(call)
        if took:
            self.best = max(self.best, flops / took)
        return took <= SHAPE_PATIENCE


Shaped = Iterator[tuple[int, float, Callable[[], Any], str]]


def _products(torch: Any, kind: Any, quick: bool) -> Shaped:
    rows = QUICK_SHAPE_ROWS if quick else SHAPE_ROWS
    for side in QUICK_SHAPE_SIDES if quick else SHAPE_SIDES:
        tall, matrix = torch.rand(rows[-1], side).to(kind), torch.rand(side, side).to(kind)
        out = torch.empty(rows[-1], side, dtype=kind)
        for count in rows:
            what = f"matmul, {count} x {side} by {side} x {side}"
            yield count, float(side), partial(torch.mm, tall[:count], matrix, out=out[:count]), what


def _convolutions(torch: Any, kind: Any, quick: bool) -> Shaped:
    for channels in QUICK_CHANNELS if quick else CHANNELS:
        kernel = torch.rand(channels, channels, 3, 3).to(kind)
        for image in QUICK_IMAGES if quick else IMAGES:
            x = torch.rand(1, channels, image, image).to(kind)
            what = f"conv2d 3 x 3, {image} x {image} of {channels} channels"
            yield image**2, 3.0 * channels, partial(torch.nn.functional.conv2d, x, kernel, padding=1), what


#: Columns of the tensor that is timed, and rows for each thread, of two at least. Every thread has work for it
#: (PyTorch gives none to a thread of less than 32,768 elements), and what a function makes on its way stays in a cache.
COLUMNS, ROWS, LEAST_ROWS = 768, 64, 128

#: Columns of the tensor whose time is that of the call.
FEW = 8

#: How many blocks of memory lie between small operands that are made anew, and how large they may be in bytes.
BETWEEN, LARGEST_BETWEEN = 8, 4096

Function = Callable[[Any, Any], Callable[[], Any]]

#: Functions by the names that notation gives them; each is made from the library and a tensor.
TORCH_FUNCTIONS: dict[str, Function] = {
    "exp": lambda torch, x: lambda: torch.exp(x),
    "tanh": lambda torch, x: lambda: torch.tanh(x),
    "sigmoid": lambda torch, x: lambda: torch.sigmoid(x),
    "gelu": lambda torch, x: lambda: torch.nn.functional.gelu(x),
    "silu": lambda torch, x: lambda: torch.nn.functional.silu(x),
    "relu": lambda torch, x: lambda: torch.relu(x),
    "add": lambda torch, x: lambda: torch.add(x, x),
    "cast": lambda torch, x: lambda: x.to(torch.bfloat16 if x.dtype == torch.float32 else torch.float32),
    "sum": lambda torch, x: lambda: torch.sum(x, -1),
    "softmax": lambda torch, x: lambda: torch.softmax(x, -1),
    "layer_norm": lambda torch, x: lambda: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda torch, x: lambda: torch.nn.functional.rms_norm(x, x.shape[-1:]),
}
NUMPY_FUNCTIONS: dict[str, Function] = {
    "exp": lambda numpy, x: lambda: numpy.exp(x),
    "tanh": lambda numpy, x: lambda: numpy.tanh(x),
    "add": lambda numpy, x: lambda: numpy.add(x, x),
    "sum": lambda numpy, x: lambda: numpy.sum(x, -1),
}

#: What a quick measurement times.
QUICK_FUNCTIONS = ("exp", "add", "gelu", "softmax", "layer_norm")


def torch_function_probes(torch: Any, threads: int, before: Callable[[], Any], quick: bool) -> Iterator[Probe]:
    """Probe PyTorch's functions in the formats of models."""
    functions = {name: made for name, made in TORCH_FUNCTIONS.items() if not quick or name in QUICK_FUNCTIONS}
    for dtype, kind in MODEL_DTYPES.items():

        def make(shape: tuple[int, int], kind: str = kind) -> Any:
            return torch.rand(shape).to(getattr(torch, kind))

        yield from _function_probes(torch, functions, make, threads, dtype, before)


def in_new_memory(make: Callable[[], Callable[[], Any]]) -> Callable[[], Callable[[], Any]]:
    """Make a call's operands anew each time, elsewhere in memory: between blocks of random sizes.

    >>> made = in_new_memory(lambda: lambda: 7)
    >>> made()(), made()()
    (7, 7)
    """
    sizes = Random(7)
    between: list[bytearray] = []

    def renew() -> Callable[[], Any]:
        between[:] = [bytearray(sizes.randrange(LARGEST_BETWEEN)) for _ in range(BETWEEN)]
        return make()

    return renew


def _function_probes(
    library: Any, functions: Mapping[str, Function], make: Callable[[tuple[int, int]], Any], threads: int = 1,
    dtype: str = "fp32", before: Callable[[], Any] | None = None,
) -> Iterator[Probe]:  # fmt: skip
    """The rate of each function in a cache, and on one thread what a call of it costs."""
    rows = max(LEAST_ROWS, ROWS * threads)
    large = make((rows, COLUMNS))
    for name, function in functions.items():
        said = f"{library.__name__} {library.__version__} {name}"
        yield timed(
            f"library {name}", f"{said} of {rows} x {COLUMNS} in a cache", function(library, large),
            threads=threads, amount=float(rows * COLUMNS), unit="element/s", dtype=dtype, before=before,
        )  # fmt: skip
        if threads == 1:
            renew = in_new_memory(lambda function=function: function(library, make((1, FEW))))  # type: ignore[misc]
            yield timed(f"call {name}", f"{said} of {FEW} elements", renew(), dtype=dtype, before=before, renew=renew)
