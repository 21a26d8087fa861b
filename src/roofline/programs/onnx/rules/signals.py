"""Fourier transforms, of one signal or of windows of it."""

from __future__ import annotations

from typing import Any

from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.sizes import exact_div, log2, product


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
