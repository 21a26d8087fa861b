"""Warm data: what an operation reads and writes lies in whichever memory level holds all of it.

Cold data starts in the main memory. Warm data is left over from the step before, so a measured machine's curve of
bandwidth over the working set says how fast it moves; of a data-sheet machine it is the innermost level that holds it.

>>> from roofline.hardware.machine import Figure
>>> dram = Memory("dram", Figure(20e9), curve=((1e4, 400e9), (1e6, 100e9), (1e8, 20e9)))
>>> on_curve(dram.curve, 1e5), on_curve(dram.curve, 10), on_curve(dram.curve, 1e9)
(200000000000.0, 400000000000.0, 20000000000.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline.hardware.machine import Machine, Memory
from roofline.sizes import is_array, is_symbol

if TYPE_CHECKING:
    from roofline.work import Op

#: What ``over`` says for warm data.
WARM = "warm"


def working_set(op: Op) -> Any:
    """Bytes an operation touches: every tensor once, all its repeats together; None where it names no tensors."""
    tensors = {tensor.ident: tensor for tensor in (*op.reads, *op.writes)}
    if not tensors:
        return None
    sizes = [tensor.capacity_bytes for tensor in tensors.values()]
    return sum(sizes[1:], sizes[0]) * op.repeat


def resting_level(machine: Machine, main: Memory, touched: float) -> Memory:
    """The innermost level that holds a working set and has a bandwidth, else the main memory."""
    inner = [m for m in machine.memories if not m.link and m is not main and m.capacity and m.bandwidth]
    holding = [m for m in inner if m.capacity is not None and m.capacity.value >= touched]
    return min(holding, key=lambda m: m.capacity.value if m.capacity else math.inf, default=main)


def warm_bandwidth(machine: Machine, main: Memory, op: Op | None) -> tuple[str, Any, str] | None:
    """Return the level an operation's data lies in, how fast it moves from there, and what had to be said.

    For arrays the bandwidth is an array under the main memory's name; for symbols, and for raw work, which names no
    tensors, it is the main memory's. None where the main memory has no bandwidth.
    """
    if main.bandwidth is None:
        return None
    touched = None if op is None else working_set(op)
    if touched is None or is_symbol(touched):
        return main.name, main.bandwidth.value, "not known to be warm, without the sizes of tensors"
    if is_array(touched):
        said = f"{main.name} stands for the level that holds the data, at the rate of that level"
        return main.name, _for_arrays(machine, main, touched), said
    at = resting_level(machine, main, touched)
    if main.curve:
        return at.name, max(on_curve(main.curve, float(touched)), main.bandwidth.value), ""
    found = at.bandwidth or main.bandwidth
    said = _unknown_level(machine, at, touched)
    if found.basis == "measured" and main.bandwidth.basis != "measured":
        said = f"the bandwidth of {at.name} is a measured one"
    return at.name, max(found.value, main.bandwidth.value), said


def _unknown_level(machine: Machine, at: Memory, touched: float) -> str:
    """Say which nearer level holds a working set that is timed elsewhere because its bandwidth is not known.

    >>> from roofline.hardware import chip
    >>> t4 = chip("t4")
    >>> _unknown_level(t4, t4.memories[0], 1e6)
    "l2 holds it all, but no bandwidth of it is known: dram's is taken; give one: l2='… B/s'"
    """
    nearer = [m for m in machine.memories if not m.link and m is not at and m.capacity and not m.bandwidth]
    holding = [m.name for m in nearer if m.capacity is not None and touched <= m.capacity.value < _size(at)]
    if not holding:
        return ""
    name = holding[0]
    return f"{name} holds it all, but no bandwidth of it is known: {at.name}'s is taken; give one: {name}='… B/s'"


def _size(level: Memory) -> float:
    return level.capacity.value if level.capacity else math.inf


def on_curve(curve: Sequence[tuple[float, float]], touched: float) -> float:
    """Read a curve of bandwidth at a working set: straight lines between its points in logarithms, level beyond."""
    sizes = [size for size, _ in curve]
    above = next((index for index, size in enumerate(sizes) if size >= touched), len(sizes))
    if above == 0 or above == len(sizes):
        return curve[0 if above == 0 else -1][1]
    (x0, y0), (x1, y1) = curve[above - 1], curve[above]
    share = math.log(touched / x0) / math.log(x1 / x0)
    return float(y0 * (y1 / y0) ** share) if 0 < share < 1 else float(y1)


def _for_arrays(machine: Machine, main: Memory, touched: Any) -> Any:
    import numpy as np

    floor = main.bandwidth.value if main.bandwidth else 0.0
    if main.curve:
        x, y = np.log(np.array(main.curve)).T
        return np.maximum(np.exp(np.interp(np.log(touched), x, y)), floor)
    speeds = np.full(np.shape(touched), floor)
    inner = [m for m in machine.memories if not m.link and m is not main and m.capacity and m.bandwidth]
    for memory in sorted(inner, key=lambda m: -(m.capacity.value if m.capacity else 0)):
        if memory.capacity is not None and memory.bandwidth is not None:
            speeds = np.where(touched <= memory.capacity.value, max(memory.bandwidth.value, floor), speeds)
    return speeds
