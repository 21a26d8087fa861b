"""The prices that traced programs and profiles take, gathered from the files of their families.

A price takes the tensors that are read, those that are written, and the shape facts of its formula. The front ends
translate their operations into prices and count nothing themselves. Lines of notation and models take theirs from the
families' own files; collectives over a known network are priced in :mod:`roofline.ops.collectives.cost`.

>>> from roofline.work import Tensor
>>> x, y = Tensor("x", (64, 8192), "bf16"), Tensor("y", (64, 8192), "bf16")
>>> w = Tensor("w", (8192, 8192), "int8", "weight")
>>> contraction("linear", (x, w), (y,), m=64, n=8192, k=8192).work
Work(flops/matrix/bf16: 8589934592)
>>> elementwise("silu", (x,), (y,)).work
Work(flops/vector/bf16: 2097152)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from roofline.ops.attention import AttentionSizes, attention, index_scores
from roofline.ops.basic import UNKNOWN, arithmetic, embedding, move, unknown, vector
from roofline.ops.collectives.registry import least_sent
from roofline.ops.contraction import contraction, product_sizes
from roofline.ops.convolution import ConvolutionSizes, Reach, adaptive_windows, convolution, padding_note, valid_taps_of
from roofline.ops.elementwise import elementwise, power, scaled_sum
from roofline.ops.linear_algebra import fourier
from roofline.ops.pooling import pool, pool_backward, resample, resized
from roofline.ops.recurrent import causal_convolution, linear_recurrence, recurrent, selective_scan
from roofline.ops.reduction import distances, norm, norm_backward, reduction, scan, softmax, softmax_backward
from roofline.sizes import Size, is_zero
from roofline.work import Op, Tensor, Work

__all__ = [
    "LEAST_SENT_NOTE", "UNKNOWN", "AttentionSizes", "ConvolutionSizes", "DeviceGroup", "Reach", "adaptive_windows",
    "arithmetic", "attention", "causal_convolution", "contraction", "convolution", "distances", "elementwise",
    "embedding", "fourier", "index_scores", "least_collective", "linear_recurrence", "move", "norm", "norm_backward",
    "padding_note", "pool", "pool_backward", "power", "product_sizes", "recurrent", "reduction", "resample", "resized",
    "scaled_sum", "scan", "selective_scan", "softmax", "softmax_backward", "unknown", "valid_taps_of", "vector",
]  # fmt: skip

#: Name (where it has one), size and stride of a group of devices that are numbered.
DeviceGroup: TypeAlias = "tuple[str, int, int]"

#: Said of a collective that is priced without a network.
LEAST_SENT_NOTE = (
    "collectives send the least that each device has to, one way over one link; several links or switches that reduce "
    "may be faster: a target with a shape, as in v5e:4x4, prices them on its network"
)


def least_collective(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    does: str,
    nbytes: Size,
    devices: int,
    groups: Sequence[DeviceGroup] = (),
) -> Op:
    """A collective over ``devices`` whose network is not known: each sends the least that it has to, over one link.

    ``does`` and ``nbytes`` are the kind and V of :func:`roofline.ops.collectives.registry.least_sent`; ``groups`` say
    which devices take part, where that is known (:mod:`roofline.programs.traced`).

    >>> from roofline.work import Tensor
    >>> x = (Tensor("x", (1024, 1024), "bf16"),)
    >>> least_collective("psum", x, x, does="AllReduce", nbytes=2**21, devices=4).work
    Work(wire/link: 3145728)
    """
    sent = least_sent(does, nbytes, devices)
    if is_zero(sent):
        return Op(name, "collective", Work(), tuple(reads), tuple(writes), {"devices": devices})
    work, dims = Work.wire("link", sent), {"devices": devices, "bytes": nbytes}
    options = {"collective": does, "groups": tuple(groups)}
    return Op(name, "collective", work, tuple(reads), tuple(writes), dims, note=LEAST_SENT_NOTE, options=options)
