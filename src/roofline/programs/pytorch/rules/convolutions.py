"""Convolutions forward and backward, with groups, transposed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from roofline.ops.pricing import valid_taps
from roofline.programs.pytorch.open_sizes import bare
from roofline.programs.pytorch.registry import Call, Priced, pricing, rule
from roofline.work import Op, Tensor


@rule("convolution", "_convolution", "convolution_overrideable", "cudnn_convolution", "mkldnn_convolution")
def convolution(call: Call) -> Priced:
    """Convolve [B, C, spatial…] with [O, C/groups, taps…]; transposed: [C, O/groups, taps…]."""
    x, weight = call.args[:2]
    bias = call.get("bias")
    reads = call.read(x, weight, bias)
    return _convolution(call, reads, call.writes, x, weight, call.outs[0], bias=bias is not None)


@rule("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(call: Call) -> Priced:
    """The gradient of the input and that of the kernel, each as many multiply-adds as the convolution itself."""
    grad, x, weight = call.args[:3]
    wanted = call.get("output_mask", [True, True, True])
    outs = list(call.writes)
    ops: list[Op] = []
    for place, (name, reads) in enumerate((("input", (grad, weight)), ("weight", (grad, x)))):
        if wanted[place] and outs:
            op = _convolution(call, call.read(*reads), (outs.pop(0),), x, weight, grad, name=f"conv_backward_{name}")
            ops.append(op)
    if wanted[2] and outs:
        results = outs[0].elements
        ops.append(
            pricing.reduction(
                "sum", call.read(grad), outs, elements=grad.numel(), results=results, name="bias_backward"
            )
        )
    return ops


@rule("conv_tbc", "conv_tbc_backward")
def of_steps(call: Call) -> Priced:
    """Convolve [T, B, C] with [taps, C, O] over T; the gradients are of input and kernel, and a sum for the bias."""
    backward = call.name.endswith("backward")
    weight = call.args[2 if backward else 1]
    taps, inner, outer = weight.shape
    steps, batch = (call.args[0] if backward else call.outs[0]).shape[:2]
    op = pricing.convolution(
        call.name,
        call.reads,
        call.writes,
        batch=batch * (2 if backward else 1),
        positions=steps,
        out_per_group=outer,
        in_per_group=inner,
        kernel=taps,
        bias=batch * steps * outer,
    )
    return op


def _convolution(
    call: Call,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    x: Any,
    weight: Any,
    out: Any,
    *,
    bias: bool = False,
    name: str = "",
) -> Op:
    transposed, groups = bool(call.get("transposed")), int(call.get("groups", 1))
    spatial = weight.dim() - 2
    stride, pad, dilation = (_each(call.get(word), spatial, default) for word, default in _WINDOW)
    batched = x.dim() == spatial + 2
    inner, outer = ([bare(size) for size in item.shape[-spatial:]] for item in (x, out))
    slid, seen = (inner, outer) if transposed else (outer, inner)
    taps = prod(
        valid_taps(seen[d], slid[d], weight.shape[2 + d], stride=stride[d], low=pad[d], dilation=dilation[d])
        for d in range(spatial)
    )
    first, second = weight.shape[:2]
    return pricing.convolution(
        name or ("conv_transpose" if transposed else "conv"),
        reads,
        writes,
        batch=bare(x.shape[0]) if batched else 1,
        positions=prod(slid),
        out_per_group=second if transposed else first // groups,
        in_per_group=first // groups if transposed else second,
        kernel=prod(weight.shape[2:]),
        groups=groups,
        valid_taps=taps,
        bias=bare(out.numel()) if bias else 0,
        note="padded positions of a convolution are counted" if any(pad) else "",
    )


_WINDOW = (("stride", 1), ("padding", 0), ("dilation", 1))


def _each(value: Any, spatial: int, default: int) -> tuple[int, ...]:
    values = (default,) if value is None else (value,) if isinstance(value, int) else tuple(value)
    return values * spatial if len(values) == 1 else values
