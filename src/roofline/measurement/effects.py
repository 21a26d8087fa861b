"""What explains a run's time beyond its roof: named effects whose sizes were measured, none fitted to the run.

The roof's own parts come first (arithmetic at the library's rate, data from the level it lies in; the longer one
counts), then what no roof has: the cost of calling, what a library loses at a shape, first touches of new pages.
Threads that a library leaves idle change the roof itself. Vector work has the library's own rate of that function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from roofline.hardware.machine import Machine
from roofline.hardware.rate import bandwidth_on_curve, rate
from roofline.measurement.library import GRAIN
from roofline.measurement.points import Effect
from roofline.measurement.result import Measurement, ShapeTable
from roofline.work import Key, Op, Work

#: Kinds of operations that a library runs as matrix products, and the name of their table of rates over shapes.
SHAPED = {"contraction": "library", "convolution": "library convolution"}

#: Block sizes of PyTorch's attention on a CPU: of queries, by the least number of queries for each size, and of keys
#: (q_split_size and kv_split_size of cpu_flash_attention).
QUERY_BLOCKS, KEY_BLOCK = ((768, 256), (192, 64), (0, 32)), 512


@dataclass(frozen=True, slots=True)
class RunSetting:
    """How an operation was run: threads, caches, output allocated anew or reused, weights reordered at each call.

    ``function`` is its name in the notation, ``result`` the format of what the library gave where the line has another.
    ``new_bytes`` counts what one call touched of pages the system had to make, by the system's own count of faults.
    """

    threads: int = 1
    warm: bool = True
    new_output: bool = True
    reordered: bool = False
    new_bytes: float = 0.0
    function: str = ""
    result: str = ""

    def __str__(self) -> str:
        words = [
            "warm caches" if self.warm else "cold caches",
            f"{self.threads} thread{'s' * (self.threads > 1)}",
            "output allocated" if self.new_output else "output reused",
        ]
        if self.result:
            words.append(f"result in {self.result}")
        return ", ".join([*words, "weights packed at each call of a product"] if self.reordered else words)


def effects(op: Op, moved: Work, machine: Machine, measured: Measurement, setting: RunSetting) -> tuple[Effect, ...]:
    """Explain the time of an operation; ``machine`` is the measured one with the threads that can take part.

    ::

        time ≈ max(arithmetic at the library's rate, bytes at their level) + call + what the shape loses + new pages

    Of a number of threads on which nothing was measured nothing is explained.
    """
    threads = threads_used(op, setting.threads)
    if not has_roof(measured, threads):
        return ()
    data = _data(op, moved, machine)
    table = _table(op, measured, threads)
    if table is not None:
        found = _shaped(op, table, data, _order(op, measured, threads, setting))
    elif op.kind == "attention":
        found = _attention(op, machine, measured, threads, data)
    else:
        found = _plain(op, machine, measured, threads, data, setting.function)
    return (*(effect for effect in found if effect.seconds > 0), *_new_pages(measured, threads, setting))


def threads_used(op: Op, threads: int) -> int:
    """How many threads a library gives an operation: elementwise work on few elements stays on one.

    >>> threads_used(Op("add", "elementwise", dims={"elements": 1000}), 8)
    1
    """
    elements = op.dims.get("elements")
    return 1 if isinstance(elements, int | float) and elements < GRAIN else threads


def has_roof(measured: Measurement, threads: int) -> bool:
    """Whether figures were taken on so many threads. They are taken on one and on all."""
    counts = measured.thread_counts()
    return not counts or threads in counts


def _shaped(op: Op, table: ShapeTable, data: float, order: float) -> Iterator[Effect]:
    """Products and convolutions: the roof, then what the library needs beyond it at such a shape, the call included."""
    rows, side, batch = _shape(op)
    best = max(summary.value for *_, summary in table.points)
    arithmetic = batch * 2 * rows * side**2 / best
    took = batch * table.seconds(rows, side)
    if arithmetic >= data:
        yield Effect("arithmetic", min(arithmetic, took), f"at the library's own best product in {table.dtype}")
    else:
        yield Effect("data", min(data, took), "at the best bandwidth of its level")
    rest = max(0.0, took - max(arithmetic, data))
    yield Effect("order", min(order, rest), "weights read and written in the library's own order")
    yield Effect("shape", max(0.0, rest - order), "what small and flat products lose, as measured at such shapes")


def _order(op: Op, measured: Measurement, threads: int, setting: RunSetting) -> float:
    """Time to read and write the weights once, where a call puts them in order."""
    weights = sum(float(tensor.capacity_bytes) for tensor in op.reads if tensor.role == "weight")
    copied = _copy_speed(measured, threads, 2 * weights) if weights and setting.reordered else None
    return 2 * weights / copied if copied and op.dims.get("m") != 1 else 0.0


def _copy_speed(measured: Measurement, threads: int, size: float) -> float | None:
    """Bandwidth of the slowest plain copy at a working set of ``size`` bytes."""
    curves = [curve for curve in measured.curves if curve.threads == threads and curve.name in ("copy", "load")]
    return min((bandwidth_on_curve(curve.values(), size) for curve in curves), default=None)


def _table(op: Op, measured: Measurement, threads: int) -> ShapeTable | None:
    dtype = next((key.dtype for key in op.work if key.quantity == "flops"), "")
    table = measured.shape_table(SHAPED.get(op.kind, ""), dtype, threads)
    return table if table is not None and all(isinstance(op.dims.get(size), int) for size in "mnk") else None


def _shape(op: Op) -> tuple[float, float, float]:
    """Rows, the side of the matrix they meet, and how many such products there are."""
    m, n, k, batch = (float(op.dims.get(size, 1)) for size in ("m", "n", "k", "batch"))
    return m, math.sqrt(n * k), batch


def _attention(op: Op, machine: Machine, measured: Measurement, threads: int, data: float) -> Iterator[Effect]:
    """Attention in blocks: both products of each block, called within the kernel, and the softmax of its scores."""
    matrix = float(op.work.total("flops", "matrix"))
    dtype = next((key.dtype for key in op.work if key.quantity == "flops"), "")
    table = measured.shape_table("library", dtype, 1)
    softmax = measured.best_ceiling("library softmax", threads, "fp32")
    if table is None or softmax is None:
        yield from _plain(op, machine, measured, threads, data, "")
        return
    rows, side = _block(op)
    best = max(summary.value for *_, summary in table.points)
    within = max(table.seconds(rows, side) - table.call, 2 * rows * side**2 / best)
    products = matrix * within / (2 * rows * side**2) / threads
    arithmetic = matrix / best / threads
    scores = float(op.dims["transcendentals"]) / softmax.value
    if max(arithmetic, products) + scores >= data:
        yield Effect("arithmetic", arithmetic, f"at the library's own best product in {dtype}")
        yield Effect("shape", max(0.0, products - arithmetic), f"products of {rows:.0f} rows in blocks")
        yield Effect("softmax", scores, "at the library's own rate in a cache, in fp32")
        cast = None if dtype == "fp32" else measured.best_ceiling("library cast", threads, "fp32")
        if cast is not None:
            yield Effect("cast", float(op.dims["transcendentals"]) / cast.value, f"probabilities written in {dtype}")
    else:
        yield Effect("data", data, "at the best bandwidth of its level")
    yield from _call(measured, "softmax", dtype)


def _block(op: Op) -> tuple[float, float]:
    """Rows of queries in a block, and the side of the matrix of keys they meet."""
    queries, keys, size = (float(op.dims[name]) for name in ("q_length", "kv_length", "head_size"))
    rows = next(block for least, block in QUERY_BLOCKS if queries >= least)
    return min(rows, queries), math.sqrt(min(KEY_BLOCK, keys) * size)


def _plain(
    op: Op, machine: Machine, measured: Measurement, threads: int, data: float, function: str
) -> Iterator[Effect]:
    """Vector work: the library's own rate of the function where it was measured, else arithmetic and exponentials."""
    dtype = op.writes[0].dtype if op.writes else ""
    own = measured.best_ceiling(f"library {function}", threads, dtype) if function else None
    if own is not None:
        parts = [Effect(function, float(op.dims["elements"]) / own.value, f"the library's own rate in {dtype}")]
    else:
        arithmetic, note = _arithmetic(op, machine, measured, threads)
        exponentials = _exponentials(op, measured, threads)
        parts = [
            Effect("arithmetic", arithmetic, note),
            Effect("exponentials", exponentials, "at the library's rate of exp"),
        ]
    if sum(part.seconds for part in parts) >= data:
        yield from parts
    else:
        yield Effect("data", data, "at the best bandwidth of its level")
    yield from _call(measured, function, dtype)


def _call(measured: Measurement, function: str, dtype: str) -> Iterator[Effect]:
    own = measured.value(f"call {function}", dtype=dtype)
    dispatch = own if own is not None else measured.value("dispatch")
    if dispatch is not None:
        yield Effect("dispatch", dispatch, f"one call of the library's {function}" if own is not None else "one call")


def _arithmetic(op: Op, machine: Machine, measured: Measurement, threads: int) -> tuple[float, str]:
    seconds, note = 0.0, ""
    for key, amount in op.work.items():
        if key.quantity != "flops":
            continue
        product = op.kind in (*SHAPED, "attention") and key.place == "matrix"
        library = measured.best_ceiling("library", threads, key.dtype) if product else None
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
    fastest = measured.best_ceiling("library exp", threads, "fp32") or measured.best_ceiling("exp fp32", threads)
    amount: Any = op.dims.get("transcendentals", 0)
    return float(amount) / fastest.value if fastest else 0.0


def _data(op: Op, moved: Work, machine: Machine) -> float:
    seconds = 0.0
    for key, amount in moved.items():
        found = rate(machine, Key("bytes", key.place), op)
        seconds += float(amount) / float(found.value) if found is not None else 0.0
    return seconds


def _new_pages(measured: Measurement, threads: int, setting: RunSetting) -> Iterator[Effect]:
    fresh = measured.value("fresh pages", threads) or measured.value("fresh pages")
    if setting.new_bytes and fresh is not None:
        yield Effect("new pages", setting.new_bytes / fresh, "first touch of pages the system makes")
