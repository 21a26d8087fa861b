"""LSTM, GRU and plain recurrent layers, whole: two matmuls a step and direction."""

from __future__ import annotations

from roofline.programs.onnx_registry import Call, Priced, costs, rule
from roofline.work import Op, Work

#: Gates, and FLOPs a hidden element beside the matmuls. LSTM: 3 sigmoids of 4, 2 tanh, 3 products, 1 sum, 4 added
#: pre-activations. GRU: 2 sigmoids, 1 tanh, 3 products, 2 sums, 3 added. Plain: 1 function, 1 added.
CELLS = {"LSTM": (4, 22), "GRU": (3, 17), "RNN": (1, 2)}


@rule(*CELLS)
def recurrent(call: Call) -> Priced:
    """x [T, B, I], weights [directions, gates·H, I] and [directions, gates·H, H]."""
    gates, each = CELLS[call.name]
    steps, batch, width = call.shape(0)
    if call.get("layout", 0):
        steps, batch = batch, steps
    directions, _, hidden = call.shape(2)
    rows = steps * batch
    dtype = costs.arithmetic(call.read(0, 1))
    macs = rows * directions * gates * hidden * (width + hidden)
    work = Work.flops("matrix", dtype, 2 * macs) + Work.flops("vector", dtype, rows * directions * hidden * each)
    dims = {"m": rows, "n": directions * gates * hidden, "k": width + hidden, "batch": 1}
    return Op(call.name, "contraction", work, call.reads, call.writes, dims, options={"macs": macs})
