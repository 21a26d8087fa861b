"""Recurrent layers: LSTM, GRU and the plain cell, a whole layer over all steps of all sequences.

>>> x, h = Tensor("x", (32, 256), "bf16"), Tensor("h", (32, 512), "bf16")
>>> op = recurrent("lstm", "lstm", [x, h], [h], steps=32, hidden=512, macs=4 * 512 * (256 + 512))
>>> op.work.total("flops", "matrix") == 2 * 32 * 4 * 512 * 768, op.work.total("flops", "vector") == 22 * 32 * 512
(True, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from roofline.ops.basic import arithmetic
from roofline.sizes import Size
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
    return Op(name, "contraction", work, tuple(reads), tuple(writes), dims, options={"macs": steps * macs})
