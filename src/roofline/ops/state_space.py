"""State-space layers and linear attention: a short causal convolution, and recurrences over a state.

A recurrence is priced as such, the least arithmetic there is; chunked forms do more of it on the matrix unit.

>>> x, y = Tensor("x", (64, 256), "bf16"), Tensor("y", (64, 256), "bf16")
>>> state = Tensor("s", (4, 64, 64), "fp32", "state")
>>> causal_convolution("conv", [x], [y], elements=64 * 256, kernel=4).work.total("flops") == 12 * 64 * 256
True
>>> op = linear_recurrence("delta", [x, state], [y, state], tokens=64, heads=4, key=64, value=64, products=3)
>>> op.work.total("flops", "matrix") == 6 * 64 * 4 * 64 * 64
True
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.ops.basic import arithmetic
from roofline.sizes import Size
from roofline.work import Op, Tensor, Work


def causal_convolution(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    elements: Size,
    kernel: Size,
    compute: str | None = None,
) -> Op:
    """Convolve each channel with the last ``kernel`` tokens, and apply SiLU.

    ::

        vector FLOPs = elements·(2·kernel + 4)        elements: tokens times channels; SiLU is 4 FLOPs
    """
    work = Work.flops("vector", compute or arithmetic(reads[:1]), elements * (2 * kernel + 4))
    return Op(name, "convolution", work, tuple(reads), tuple(writes), {"elements": elements})


def linear_recurrence(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    tokens: Size,
    heads: Size,
    key: Size,
    value: Size,
    products: int,
    compute: str | None = None,
) -> Op:
    """Update a state of key x value for each head and token, and read it: linear attention, delta nets, Mamba-2.

    ::

        matrix FLOPs = 2·products·tokens·heads·key·value        2 products: write and read the state; a delta net
                                                                reads it once more to correct it
        vector FLOPs = tokens·heads·key·value                   the decay, in fp32
    """
    count = tokens * heads * key * value
    work = Work.flops("matrix", compute or arithmetic(reads[:1]), 2 * products * count)
    work += Work.flops("vector", "fp32", count)
    dims = {"heads": heads, "head_size": key, "v_head_size": value, "tokens": tokens}
    return Op(name, "recurrence", work, tuple(reads), tuple(writes), dims)


def selective_scan(
    name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, tokens: Size, channels: Size, state_size: Size
) -> Op:
    """Update a state of ``state_size`` for each channel and token, with a step width of its own: Mamba.

    ::

        state ← exp(Δ·A)·state + Δ·x·B;  out = state·C + D·x
        vector FLOPs = tokens·channels·(9·state_size + 2)       in fp32

    Source: Gu and Dao, arXiv:2312.00752, section 3 and algorithm 2; the scan runs on the vector unit.
    """
    work = Work.flops("vector", "fp32", tokens * channels * (9 * state_size + 2))
    dims = {"tokens": tokens, "channels": channels, "state_size": state_size}
    return Op(name, "recurrence", work, tuple(reads), tuple(writes), dims)
