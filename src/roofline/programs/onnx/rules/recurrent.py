"""LSTM, GRU and plain recurrent layers, whole: two matmuls a step and direction; linear attention."""

from __future__ import annotations

from roofline.ops.recurrent import CELLS
from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.sizes import exact_div, product
from roofline.work import Op, Work

#: Cells by ONNX's name.
CELL_NAMES = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}


@rule(*CELL_NAMES)
def recurrent(call: Call) -> Priced:
    """x [T, B, I], weights [directions, gates·H, I] and [directions, gates·H, H]."""
    cell = CELL_NAMES[call.name]
    steps, batch, width = call.shape(0)
    directions, _, hidden = call.shape(2)
    return pricing.recurrent(
        cell,
        call.name,
        call.reads,
        call.writes,
        steps=steps * batch,
        hidden=directions * hidden,
        macs=directions * CELLS[cell].gates * hidden * (width + hidden),
        inner=width + hidden,
        compute=pricing.arithmetic(call.read(0, 1)),
    )


@rule("CausalConvWithState")
def causal_convolution(call: Call) -> Priced:
    """x [B, C, L] and weights [C, 1, taps]; the last taps are kept for what comes next."""
    batch, channels, length = call.shape(0)
    taps = call.shape(1)[2]
    size = batch * channels * length
    activated = call.get("activation", b"none") not in (b"none", "none")
    return pricing.convolution(
        call.name,
        call.reads,
        call.writes,
        batch=batch,
        positions=length,
        out_per_group=1,
        in_per_group=1,
        kernel=taps,
        groups=channels,
        bias=size * (int(call.has(2)) + 4 * int(activated)),
        note="" if call.has(3) else "padded positions of a convolution are counted",
    )


#: Whether the state decays, and whether what it holds of a key is taken out before a value is put in.
_UPDATES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}


@rule("LinearAttention")
def linear_attention(call: Call) -> Priced:
    """For every token and head of keys a state of K·V: k ⊗ v put in (for a delta what it holds taken out), and decayed.

    Every head of queries reads it. Counted token by token: 2 FLOPs for each product of K·V, 1 for a decay.
    """
    word = call.get("update_rule", b"gated_delta")
    decays, corrects = _UPDATES[word.decode() if isinstance(word, bytes) else word]
    heads, kv_heads = call.get("q_num_heads"), call.get("kv_num_heads")
    batch, length, packed = call.shape(0)
    k, v = exact_div(packed, heads), exact_div(call.shape(2)[2], kv_heads)
    tokens = batch * length
    macs = tokens * k * v * (heads + kv_heads * (2 if corrects else 1))
    dtype = pricing.arithmetic(call.read(0, 1, 2))
    work = Work.flops("matrix", dtype, 2 * macs)
    beside = tokens * kv_heads * ((k * v if decays else 0) + (2 * v if corrects else 0))
    if decays:
        beside += product(call.shape(4))
    if decays or corrects:
        work += Work.flops("vector", dtype, beside)
    dims = {"m": tokens, "n": v, "k": k, "batch": heads}
    return Op(call.name, "contraction", work, call.reads, call.writes, dims, options={"macs": macs})
