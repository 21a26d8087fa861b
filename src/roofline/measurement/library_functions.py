"""Probes of a library's functions: how many elements a second each does in a cache, and what calling it costs.

Vector work has two roofs as products have: what the registers can do, and what a library's own kernel does. A function
that is timed by itself needs no model of its passes over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from roofline.measurement.probes import Probe, timed

#: Columns of the tensor that is timed, and rows for each thread, of two at least. Every thread has work for it
#: (PyTorch gives none to a thread of less than 32,768 elements), and what a function makes on its way stays in a cache.
COLUMNS, ROWS, LEAST_ROWS = 768, 64, 128

#: Columns of the tensor whose time is that of the call.
FEW = 8

#: How many blocks of memory lie between small operands that are made anew, and how large they may be in bytes.
BETWEEN, LARGEST_BETWEEN = 8, 4096

#: Formats in which models compute.
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}

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


def torch_functions(torch: Any, threads: int, before: Callable[[], Any], quick: bool) -> Iterator[Probe]:
    """Probe PyTorch's functions in the formats of models."""
    for dtype, kind in DTYPES.items():

        def make(shape: tuple[int, int], kind: str = kind) -> Any:
            return torch.rand(shape).to(getattr(torch, kind))

        large = make(_shape(threads))
        for name, function in TORCH_FUNCTIONS.items():
            if not quick or name in QUICK_FUNCTIONS:
                yield from _probes(torch, name, function, large, make, threads, dtype, before)


def numpy_functions(numpy: Any) -> Iterator[Probe]:
    """Probe NumPy's functions, which run on one thread."""

    def make(shape: tuple[int, int]) -> Any:
        return numpy.ones(shape, numpy.float32)

    large = make(_shape(1))
    for name, function in NUMPY_FUNCTIONS.items():
        yield from _probes(numpy, name, function, large, make, 1, "fp32", None)


def elsewhere(make: Callable[[], Callable[[], Any]]) -> Callable[[], Callable[[], Any]]:
    """Have what a call works on made anew each time, and somewhere else: between blocks of memory of any size.

    >>> made = elsewhere(lambda: lambda: 7)
    >>> made()(), made()()
    (7, 7)
    """
    sizes = Random(7)
    between: list[bytearray] = []

    def renew() -> Callable[[], Any]:
        between[:] = [bytearray(sizes.randrange(LARGEST_BETWEEN)) for _ in range(BETWEEN)]
        return make()

    return renew


def _shape(threads: int) -> tuple[int, int]:
    return max(LEAST_ROWS, ROWS * threads), COLUMNS


def _probes(
    library: Any, name: str, function: Function, large: Any, make: Callable[[tuple[int, int]], Any], threads: int,
    dtype: str, before: Callable[[], Any] | None,
) -> Iterator[Probe]:  # fmt: skip
    rows, said = large.shape[0], f"{library.__name__} {library.__version__} {name}"
    yield timed(
        f"library {name}", f"{said} of {rows} x {COLUMNS} in a cache", function(library, large),
        threads=threads, amount=float(rows * COLUMNS), unit="element/s", dtype=dtype, before=before,
    )  # fmt: skip
    if threads == 1:
        renew = elsewhere(lambda: function(library, make((1, FEW))))
        yield timed(f"call {name}", f"{said} of {FEW} elements", renew(), dtype=dtype, before=before, renew=renew)
