"""Convolutions: groups of features or of the batch, strides, dilation of the kernel and of the input."""

from __future__ import annotations

from math import prod

from roofline.ops.pricing import valid_taps
from roofline.programs.jax.registry import Call, Priced, pricing, rule
from roofline.sizes import product


@rule("conv_general_dilated")
def convolution(call: Call) -> Priced:
    """Convolve; where the input is dilated (a transposed convolution) every element of the input sees every tap."""
    params = call.params
    numbers = params["dimension_numbers"]
    x, kernel, out = call.ins[0].shape, call.ins[1].shape, call.outs[0].shape
    seen = [x[d] for d in numbers.lhs_spec[2:]]
    taps = [kernel[d] for d in numbers.rhs_spec[2:]]
    made = [out[d] for d in numbers.out_spec[2:]]
    base = params["lhs_dilation"]
    places = zip(
        seen, made, taps, params["window_strides"], params["padding"], params["rhs_dilation"], base, strict=True
    )
    valid = None
    if all(isinstance(size, int) for size in (*seen, *made, *taps)):
        valid = prod(
            valid_taps(length, results, many, stride=stride, low=pad[0], dilation=dilation, base=inner)
            for length, results, many, stride, pad, dilation, inner in places
        )
    groups = params["feature_group_count"] * params["batch_group_count"]
    padded = any(edge > 0 for pad in params["padding"] for edge in pad) and all(inner == 1 for inner in base)
    return pricing.convolution(
        "conv" if all(inner == 1 for inner in base) else "conv_transpose",
        call.reads if len(call.reads) > 1 else call.reads * 2,
        call.writes,
        batch=x[numbers.lhs_spec[0]] // params["batch_group_count"],
        positions=product(s if inner > 1 else o for s, o, inner in zip(seen, made, base, strict=True)),
        out_per_group=kernel[numbers.rhs_spec[0]] // groups,
        in_per_group=kernel[numbers.rhs_spec[1]],
        kernel=product(taps),
        groups=groups,
        valid_taps=valid,
        note="padded positions of a convolution are counted" if padded else "",
    )
