"""Recurrent layers, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from roofline.measurement.aten import Seen, like, rule
from roofline.ops import pricing
from roofline.ops.recurrent import CELLS
from roofline.work import Op, Tensor

#: Kinds of layers by the number that libraries give them.
MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")


@rule("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward")
def layer(seen: Seen) -> Op:
    """One layer in one direction; its gradient is twice the work."""
    back = seen.plain.endswith("backward")
    x, weights, states = seen.tensor(0), seen.some(1, 2, 3, 4), seen.some(5, 6)
    mode, hidden = seen.stated(14 if back else 9), seen.stated(15 if back else 10)
    out = like(x, (*x.dims[:-1], hidden))
    if not back:
        return _layers(seen, mode, x, weights, states, (out, *(like(s, ident=f"new {s.ident}") for s in states)))
    grads = [like(tensor, ident=f"grad {tensor.ident}") for tensor in (x, *weights, *states)]
    return _layers(seen, mode, x, weights, (*states, *seen.some(7, 10)), grads, passes=2)


@rule("_cudnn_rnn")
def cudnn(seen: Seen) -> Op:
    """All layers and directions at once."""
    x, weights, states = seen.tensor(0), seen.listed(1), seen.some(4, 5)
    width = seen.stated(7) * (2 if seen.stated(13) else 1)
    writes = (like(x, (*x.dims[:-1], width)), *(like(s, ident=f"new {s.ident}") for s in states))
    return _layers(seen, seen.stated(6), x, weights, states, writes)


def _layers(
    seen: Seen,
    mode: int,
    x: Tensor,
    weights: Sequence[Tensor],
    states: Sequence[Tensor],
    writes: Sequence[Tensor],
    passes: int = 1,
) -> Op:
    """A product of every step with every matrix, and the gates of every hidden element."""
    cell = MODES[mode]
    matrices = [w.dims for w in weights if len(w.dims) == 2]
    return pricing.recurrent(
        cell,
        seen.name,
        (x, *weights, *states),
        writes,
        steps=prod(x.dims[:-1]),
        hidden=sum(rows for rows, _ in matrices[::2]) // CELLS[cell].gates,
        macs=passes * sum(map(prod, matrices)),
        inner=sum(columns for _, columns in matrices[:2]),
        passes=passes,
    )
