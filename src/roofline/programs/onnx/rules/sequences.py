"""Recurrent layers and linear attention whole, Fourier transforms of a signal or of windows of it."""

from __future__ import annotations

from typing import Any

from roofline.ops.recurrent import CELLS
from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.sizes import exact_div, log2, product
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


@rule("DFT")
def transform(call: Call) -> Priced:
    """Over one dimension; the last holds real and imaginary parts, or real ones alone."""
    shape, out = call.shape(0), call.writes[0].dims
    axis = _number(call, 2, call.get("axis", 1 if len(call.ins) < 3 else -2))
    n = out[axis] if not call.get("onesided", 0) or out[-1] == 1 else _number(call, 1, shape[axis])
    rows = exact_div(product(out[:-1]), out[axis])
    real = shape[-1] == 1 or out[-1] == 1
    return pricing.fourier(call.name, call.read(0), call.writes, rows=rows, n=n, levels=log2(n), real=real)


@rule("STFT")
def windows(call: Call) -> Priced:
    """Cut into windows, each weighted and transformed."""
    out = call.writes[0].dims
    n = call.shape(2)[0] if call.has(2) else _number(call, 3, 2 * (out[2] - 1))
    rows, real = out[0] * out[1], call.shape(0)[-1] == 1
    op = pricing.fourier(call.name, call.read(0, 2), call.writes, rows=rows, n=n, levels=log2(n), real=real)
    weighted = rows * n * (1 if real else 2) if call.has(2) else 0
    return pricing.vector(
        call.name,
        op.kind,
        op.reads,
        op.writes,
        flops=op.work.total("flops") + weighted,
        elements=op.dims["elements"],
        dims={"n": n},
    )


#: FLOPs an element: the place in the window 2, a cosine and its share 3, two of them for a Blackman window.
_WINDOWS = {"HannWindow": 5, "HammingWindow": 5, "BlackmanWindow": 8}


@rule(*_WINDOWS)
def window(call: Call) -> Priced:
    """Cosines over a window."""
    size = call.writes[0].elements
    each = _WINDOWS[call.name]
    return pricing.vector(call.name, "elementwise", (), call.writes, flops=each * size, elements=size, one_each=size)


def _number(call: Call, place: int, default: Any) -> Any:
    """A number that is given as a constant."""
    held = call.constants[place] if place < len(call.constants) else None
    found = held[0] if isinstance(held, list) else held
    return default if found is None else found
