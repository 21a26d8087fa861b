"""Probes of a library's functions: how many elements a second each does in a cache, and what calling it costs.

Vector work has two roofs as products have: what the registers can do, and what a library's own kernel does. A function
that is timed by itself needs no model of its passes over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from roofline.measurement.probes import Probe, timed

#: Columns of the tensor that is timed, and rows for each thread, of two at least. Every thread has work for it
#: (PyTorch gives none to a thread of less than 32,768 elements), and what a function makes on its way stays in a cache.
COLUMNS, ROWS, LEAST_ROWS = 768, 64, 128

#: Columns of the tensor whose time is that of the call.
FEW = 8

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
        large, small = (torch.rand(shape).to(getattr(torch, kind)) for shape in _shapes(threads))
        for name, function in TORCH_FUNCTIONS.items():
            if not quick or name in QUICK_FUNCTIONS:
                calls = function(torch, large), function(torch, small)
                yield from _probes(name, f"torch {torch.__version__}", calls, large.shape[0], threads, dtype, before)


def numpy_functions(numpy: Any) -> Iterator[Probe]:
    """Probe NumPy's functions, which run on one thread."""
    large, small = (numpy.ones(shape, numpy.float32) for shape in _shapes(1))
    for name, function in NUMPY_FUNCTIONS.items():
        calls = function(numpy, large), function(numpy, small)
        yield from _probes(name, f"numpy {numpy.__version__}", calls, large.shape[0], 1, "fp32", None)


def _shapes(threads: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (max(LEAST_ROWS, ROWS * threads), COLUMNS), (1, FEW)


def _probes(
    name: str, library: str, calls: tuple[Callable[[], Any], Callable[[], Any]], rows: int, threads: int, dtype: str,
    before: Callable[[], Any] | None,
) -> Iterator[Probe]:  # fmt: skip
    large, small = calls
    yield timed(
        f"library {name}", f"{library} {name} of {rows} x {COLUMNS} in a cache", large,
        threads=threads, amount=float(rows * COLUMNS), unit="element/s", dtype=dtype, before=before,
    )  # fmt: skip
    if threads == 1:
        yield timed(f"call {name}", f"{library} {name} of {FEW} elements", small, dtype=dtype, before=before)
