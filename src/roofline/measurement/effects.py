"""What explains a run's time beyond its roof: named effects whose sizes were measured, none fitted to the run.

The roof's own parts come first (arithmetic at the library's rate, data from the level it lies in; the longer one
counts), then what no roof has: exponentials, the cost of calling, first touches of new pages, weights put into another
order. Threads that a library leaves idle change the roof itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from roofline.hardware.machine import Machine
from roofline.hardware.rate import rate
from roofline.hardware.warm import on_curve
from roofline.measurement.points import Effect
from roofline.measurement.result import Measurement
from roofline.work import Key, Op, Work

#: Elementwise work below this many elements stays on one thread (at::internal::GRAIN_SIZE of PyTorch).
GRAIN = 32768

#: Kinds of operations whose arithmetic runs as a library's matrix product; convolutions have kernels of their own.
PRODUCTS = ("contraction", "attention")


@dataclass(frozen=True, slots=True)
class Setting:
    """How an operation was run: threads, caches, output allocated anew or reused, weights reordered at each call.

    ``new_bytes`` counts what one call touched of pages the system had to make, by the system's own count of faults.
    """

    threads: int = 1
    warm: bool = True
    new_output: bool = True
    reordered: bool = False
    new_bytes: float = 0.0

    def __str__(self) -> str:
        words = [
            "warm caches" if self.warm else "cold caches",
            f"{self.threads} thread{'s' * (self.threads > 1)}",
            "output allocated" if self.new_output else "output reused",
        ]
        return ", ".join([*words, "weights packed at each call of a product"] if self.reordered else words)


def effects(op: Op, moved: Work, machine: Machine, measured: Measurement, setting: Setting) -> tuple[Effect, ...]:
    """Explain the time of an operation; ``machine`` is the measured one with the threads that can take part.

    ::

        time ≈ max(arithmetic at the library's rate + exponentials, bytes at their level) + calls + pages + order
    """
    threads = threads_used(op, setting.threads)
    arithmetic, note = _arithmetic(op, machine, measured, threads)
    exponentials = _exponentials(op, measured, threads)
    data = _data(op, moved, machine)
    found = []
    if arithmetic + exponentials >= data:
        found.append(Effect("arithmetic", arithmetic, note))
        if exponentials:
            found.append(Effect("exponentials", exponentials, "at the library's rate of exp"))
    else:
        found.append(Effect("data", data, "at the best bandwidth of its level"))
    return (*(e for e in found if e.seconds), *_outside(op, measured, threads, setting))


def threads_used(op: Op, threads: int) -> int:
    """How many threads a library gives an operation: elementwise work on few elements stays on one.

    >>> threads_used(Op("add", "elementwise", dims={"elements": 1000}), 8)
    1
    """
    elements = op.dims.get("elements")
    return 1 if isinstance(elements, int | float) and elements < GRAIN else threads


def _arithmetic(op: Op, machine: Machine, measured: Measurement, threads: int) -> tuple[float, str]:
    seconds, note = 0.0, ""
    for key, amount in op.work.items():
        if key.quantity != "flops":
            continue
        product = op.kind in PRODUCTS and key.place == "matrix"
        library = measured.reached("library", threads, key.dtype) if product else None
        if library is not None:
            seconds += float(amount) / library.value
            note = f"at the library's own best product in {key.dtype}"
            continue
        found = rate(machine, key, op)
        if found is not None:
            seconds += float(amount) / float(found.value)
            note = note or f"at the register peak in {found.dtype}"
    return seconds, note


def _exponentials(op: Op, measured: Measurement, threads: int) -> float:
    fastest = measured.reached("library exp", threads) or measured.reached("exp fp32", threads)
    amount: Any = op.dims.get("transcendentals", 0)
    return float(amount) / fastest.value if fastest else 0.0


def _data(op: Op, moved: Work, machine: Machine) -> float:
    seconds = 0.0
    for key, amount in moved.items():
        found = rate(machine, Key("bytes", key.place), op)
        seconds += float(amount) / float(found.value) if found is not None else 0.0
    return seconds


def _outside(op: Op, measured: Measurement, threads: int, setting: Setting) -> Iterator[Effect]:
    dispatch = measured.value("dispatch")
    if dispatch is not None:
        yield Effect("dispatch", dispatch, "one call of the library")
    fresh = measured.value("fresh pages", threads) or measured.value("fresh pages")
    if setting.new_bytes and fresh is not None:
        yield Effect("new pages", setting.new_bytes / fresh, "first touch of pages the system makes")
    weights = sum(float(tensor.capacity_bytes) for tensor in op.reads if tensor.role == "weight")
    copied = _copy_speed(measured, threads, 2 * weights) if weights else None
    rows = op.dims.get("m", 1)
    if setting.reordered and copied and weights and op.kind == "contraction" and isinstance(rows, int) and rows > 1:
        yield Effect("order", 2 * weights / copied, "weights read and written in the library's own order")


def _copy_speed(measured: Measurement, threads: int, size: float) -> float | None:
    """Bandwidth of the plainest copy that was measured, where ``size`` bytes lie."""
    curves = [curve for curve in measured.curves if curve.threads == threads and curve.name in ("copy", "load")]
    return min((on_curve(curve.values(), size) for curve in curves), default=None)
