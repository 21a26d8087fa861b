"""Recurrent layers: LSTM, GRU and the plain cell; state-space layers and linear attention.

A recurrent layer is one operation over all steps of all sequences:

>>> x, h = Tensor("x", (32, 256), "bf16"), Tensor("h", (32, 512), "bf16")
>>> op = recurrent("lstm", "lstm", [x, h], [h], steps=32, hidden=512, macs=4 * 512 * (256 + 512))
>>> op.work.total("flops", "matrix") == 2 * 32 * 4 * 512 * 768, op.work.total("flops", "vector") == 22 * 32 * 512
(True, True)

State-space layers and linear attention have a short causal convolution and a recurrence over a state. Its products are
the least there are: chunked forms do more of them, and fewer multiplications by decays.

>>> y, state = Tensor("y", (64, 256), "bf16"), Tensor("s", (4, 64, 64), "fp32", "state")
>>> causal_convolution("conv", [y], [y], elements=64 * 256, kernel=4).work.total("flops") == 12 * 64 * 256
True
>>> op = linear_recurrence("delta", [y, state], [y, state], tokens=64, heads=4, key=64, value=64, products=3)
>>> op.work.total("flops", "matrix") == 6 * 64 * 4 * 64 * 64
True
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.frozen import NamedTuple
from roofline.ops.basic import arithmetic
from roofline.sizes import Size, exact_div, maximum, minimum
from roofline.work import Op, Tensor, Work


class Cell(NamedTuple):
    """A recurrent cell: matrices (gates) that input and state are multiplied by, FLOPs of a hidden element beside."""

    gates: int
    element: int
    formula: str


#: A sigmoid is 4 FLOPs. What input and state give is added for each gate; biases are folded into that sum.
CELLS: dict[str, Cell] = {
    "lstm": Cell(4, 22, "c = σ(f)·c + σ(i)·tanh(g), h = σ(o)·tanh(c)"),
    "gru": Cell(3, 17, "n = tanh(a + σ(r)·b), h = (1 − σ(z))·n + σ(z)·h"),
    "rnn_tanh": Cell(1, 2, "h = tanh(a + b)"),
    "rnn_relu": Cell(1, 2, "h = max(a + b, 0)"),
}


def recurrent(
    cell: str,
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    steps: Size,
    hidden: Size,
    macs: Size,
    inner: Size = 0,
    passes: int = 1,
    compute: str | None = None,
) -> Op:
    """Run ``steps``, of all sequences together, through cells of :data:`CELLS` with ``hidden`` elements.

    ::

        matrix FLOPs = 2·steps·macs                      macs: elements of the weights a step is multiplied by
        vector FLOPs = passes·element·steps·hidden       element: the formula of the cell, counted

    ``hidden`` adds up over layers and directions that one operation has. A backward pass has 2 ``passes``, and in
    ``macs`` each weight once for every gradient that is wanted of it. ``inner`` is the size that is contracted.

    Sources: Hochreiter and Schmidhuber, Neural Computation 9(8), 1997; Cho et al., arXiv:1406.1078; the formulas are
    those of PyTorch's documentation of LSTM and GRU.
    """
    kind = CELLS[cell]
    dtype = compute or arithmetic(reads[:1])
    work = Work.flops("matrix", dtype, 2 * steps * macs)
    work += Work.flops("vector", dtype, passes * kind.element * steps * hidden)
    dims = {"m": steps, "n": kind.gates * hidden, "k": inner, "batch": 1}
    options = {"macs": steps * macs, "is_recurrent": True}
    return Op(name, "contraction", work, tuple(reads), tuple(writes), dims, options=options)


def causal_convolution(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    elements: Size,
    kernel: Size,
    activated: bool = True,
    compute: str | None = None,
) -> Op:
    """Convolve each channel with the last ``kernel`` tokens, and apply SiLU where it is ``activated``.

    ::

        vector FLOPs = elements·(2·kernel + 4)        elements: tokens times channels; SiLU is 4 FLOPs
    """
    each = 2 * kernel + (4 if activated else 0)
    work = Work.flops("vector", compute or arithmetic(reads[:1]), elements * each)
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
        vector FLOPs = begun + tokens·heads·min(key, value) − left/max(key, value)          the decay, in fp32

    ``begun`` and ``left`` are the elements of the states that are read and written. A chunk of tokens lets a state
    decay once, and of each of its tokens but the last the key or the value, whichever is shorter; the fewest are those
    of one chunk. Source: Yang et al., arXiv:2312.06635, its chunkwise form.

    >>> x, kept = Tensor("x", (64, 256), "bf16"), Tensor("s", (2, 4, 64, 64), "fp32", "state")
    >>> sizes = {"tokens": 64, "heads": 4, "key": 64, "value": 64, "products": 2}
    >>> [linear_recurrence("", read, [x, kept], **sizes).work.total("flops", "vector") for read in ([x], [x, kept])]
    [15872, 48640]
    """
    work = Work.flops("matrix", compute or arithmetic(reads[:1]), 2 * products * tokens * heads * key * value)
    begun, left = (sum(t.traffic_elements for t in moved if t.role == "state") for moved in (reads, writes))
    decayed = tokens * heads * minimum(key, value) - exact_div(left, maximum(key, value))
    work += Work.flops("vector", "fp32", begun + decayed)
    dims = {"heads": heads, "head_size": key, "v_head_size": value, "tokens": tokens}
    return Op(name, "recurrence", work, tuple(reads), tuple(writes), dims)


def selective_scan(
    name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, tokens: Size, channels: Size, state_size: Size
) -> Op:
    """Update a state of ``state_size`` for each channel and token, with a step width of its own: Mamba.

    ::

        state ← exp(Δ·A)·state + Δ·x·B;  out = state·C + D·x
        vector FLOPs = tokens·channels·(7·state_size + 2)       in fp32; Δ·x, D·x and the adds of out make 2 with them

    Source: Gu and Dao, arXiv:2312.00752, section 3 and algorithm 2; the scan runs on the vector unit.
    """
    sizes = {"tokens": tokens, "channels": channels, "state_size": state_size}
    return gated_scan(name, reads, writes, **sizes, each=7 * state_size + 2)


def gated_scan(
    name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, tokens: Size, channels: Size, each: Size = 9,
    state_size: Size = 1,
) -> Op:  # fmt: skip
    """Update one number for each channel and token, by gates of the decay (r) and of the input (i): RG-LRU.

    Other recurrences of each channel by itself say how many FLOPs they take and how many numbers they keep.

    ::

        a = exp(c·r);  state ← a·state + √(1 − a²)·(i·x)
        vector FLOPs = tokens·channels·9              in fp32

    Source: De et al., Griffin, arXiv:2402.19427, section 2.4.
    """
    work = Work.flops("vector", "fp32", each * tokens * channels)
    dims = {"tokens": tokens, "channels": channels, "state_size": state_size}
    return Op(name, "recurrence", work, tuple(reads), tuple(writes), dims)
