"""The price of every operation, for the front ends: one function each, from the file of its family.

A price takes the tensors that are read, those that are written, and the shape facts of its formula. A line of notation,
a traced program, a profile and a model translate their operations into these and count nothing themselves.

>>> from roofline.work import Tensor
>>> x, y = Tensor("x", (64, 8192), "bf16"), Tensor("y", (64, 8192), "bf16")
>>> w = Tensor("w", (8192, 8192), "int8", "weight")
>>> matmul("linear", (x, w), (y,), m=64, n=8192, k=8192).work
Work(flops/matrix/bf16: 8589934592)
>>> elementwise("silu", (x,), (y,)).work
Work(flops/vector/bf16: 2097152)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from roofline.ops.attention import attention
from roofline.ops.basic import UNKNOWN, arithmetic, move, unknown, vector
from roofline.ops.contraction import contraction as matmul
from roofline.ops.convolution import convolution
from roofline.ops.elementwise import elementwise, scaled_sum
from roofline.ops.linear_algebra import fourier
from roofline.ops.movement import embedding
from roofline.ops.norm import norm, norm_backward
from roofline.ops.pooling import pool, pool_backward, resample
from roofline.ops.recurrent import recurrent
from roofline.ops.reduction import distances, reduction, scan, softmax, softmax_backward
from roofline.ops.windows import adaptive_windows, valid_taps
from roofline.sizes import Size, exact_div, is_zero
from roofline.work import Op, Tensor, Work

__all__ = [
    "RING",
    "RING_NOTE",
    "UNKNOWN",
    "Group",
    "adaptive_windows",
    "arithmetic",
    "attention",
    "collective",
    "convolution",
    "distances",
    "elementwise",
    "embedding",
    "fourier",
    "matmul",
    "move",
    "norm",
    "norm_backward",
    "pool",
    "pool_backward",
    "recurrent",
    "reduction",
    "resample",
    "ring",
    "scaled_sum",
    "scan",
    "softmax",
    "softmax_backward",
    "unknown",
    "valid_taps",
    "vector",
]

#: Name (where it has one), size and stride of a group of devices that are numbered.
Group: TypeAlias = "tuple[str, int, int]"

#: What each device sends of ``nbytes`` over a ring: a part above, a part below.
RING: dict[str, Callable[[int], tuple[int, int]]] = {
    "AllReduce": lambda n: (2 * (n - 1), n),
    "AllGather": lambda n: (n - 1, n),
    "ReduceScatter": lambda n: (n - 1, n),
    "AllToAll": lambda n: (n - 1, n * n),
    "Permute": lambda n: (1, 1),
    "Broadcast": lambda n: (1, 1),
}

#: Said of a collective that is priced without a network.
RING_NOTE = (
    "collectives send what a ring sends, the least for each device, one way over one link; several links or a tree "
    "may be faster: a target with a shape, as in v5e:4x4, prices them on its network"
)


def ring(does: str, nbytes: Size, devices: int) -> Size:
    """Bytes that each of ``devices`` sends over its one link."""
    if devices <= 1:
        return 0
    above, below = RING[does](devices)
    return exact_div(nbytes * above, below)


def collective(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    does: str,
    nbytes: Size,
    devices: int,
    groups: Sequence[Group] = (),
) -> Op:
    """A collective over ``devices``, in which each sends over one link what a ring of them sends.

    ``does`` and ``nbytes`` are the kind and the bytes of :func:`roofline.ops.collective.cost`; ``groups`` say which
    devices take part, where that is known (:mod:`roofline.programs.network`).
    """
    sent = ring(does, nbytes, devices)
    if is_zero(sent):
        return Op(name, "collective", Work(), tuple(reads), tuple(writes), {"devices": devices})
    dims = {"devices": devices, "bytes": nbytes}
    options = {"collective": does, "groups": tuple(groups)}
    return Op(
        name, "collective", Work.wire("link", sent), tuple(reads), tuple(writes), dims, note=RING_NOTE, options=options
    )
