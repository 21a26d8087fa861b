"""Convolutions forward and backward, with groups, transposed, deformed; regions of an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from roofline.ops.pricing import valid_taps
from roofline.programs.pytorch.registry import Call, Operand, Priced, pricing, rule
from roofline.sizes import Size, exact_div, product
from roofline.work import Op, Tensor, Work

#: FLOPs of a place mixed from its four neighbours: a multiply and an add for each.
MIXED = 2 * 4

#: Options of a convolution, and what they are where the operation has none.
_WINDOW = (("stride", 1), ("padding", 0), ("dilation", 1))


@rule("convolution", "_convolution", "convolution_overrideable", "cudnn_convolution", "mkldnn_convolution",
      "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")  # fmt: skip
def convolution(call: Call) -> Priced:
    """Convolve [B, C, spatial…] with [O, C/groups, taps…]; transposed: [C, O/groups, taps…]."""
    x, weight = call.operands(0, 1)
    bias = call.operand("bias")
    bias = bias if bias is not None and bias.shape else None
    reads = call.read(x, weight, bias)
    return _convolution(call, reads, call.writes, x, weight, call.results[0], bias=bias is not None)


@rule("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(call: Call) -> Priced:
    """The gradient of the input and that of the kernel, each as many multiply-adds as the convolution itself."""
    grad, x, weight = call.operands(0, 1, 2)
    wanted = call.stated("output_mask", (True, True, True))
    outs = list(call.writes)
    ops: list[Op] = []
    for place, (name, reads) in enumerate((("input", (grad, weight)), ("weight", (grad, x)))):
        if wanted[place] and outs:
            op = _convolution(call, call.read(*reads), (outs.pop(0),), x, weight, grad, name=f"conv_backward_{name}")
            ops.append(op)
    if wanted[2] and outs:
        elements, results = grad.elements, outs[0].elements
        ops.append(
            pricing.reduction("sum", call.read(grad), outs, elements=elements, results=results, name="bias_backward")
        )
    return ops


@rule("conv_tbc", "conv_tbc_backward")
def convolution_over_time(call: Call) -> Priced:
    """Convolve [T, B, C] with [taps, C, O] over T; the gradients are of input and kernel, and a sum for the bias."""
    backward = call.name.endswith("backward")
    weight = call.args[2 if backward else 1]
    taps, inner, outer = weight.shape
    steps, batch = (call.args[0] if backward else call.results[0]).shape[:2]
    return pricing.convolution(
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


def _convolution(
    call: Call,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    x: Operand,
    weight: Operand,
    out: Operand,
    *,
    bias: bool = False,
    name: str = "",
) -> Op:
    transposed = call.name.startswith("conv_transpose") or bool(call.stated("transposed", False))
    groups = int(call.stated("groups", 1))
    spatial = weight.rank - 2
    stride, pad, dilation = (_each(call.stated(word, default), spatial) for word, default in _WINDOW)
    inner, outer = x.shape[-spatial:], out.shape[-spatial:]
    slid, seen = (inner, outer) if transposed else (outer, inner)
    taps = product(
        valid_taps(seen[d], slid[d], weight.shape[2 + d], stride=stride[d], low=pad[d], dilation=dilation[d])
        for d in range(spatial)
    )
    first, second = weight.shape[:2]
    return pricing.convolution(
        name or ("conv_transpose" if transposed else "conv"),
        reads,
        writes,
        batch=x.shape[0] if x.rank == spatial + 2 else 1,
        positions=product(slid),
        out_per_group=second if transposed else exact_div(first, groups),
        in_per_group=exact_div(first, groups) if transposed else second,
        kernel=product(weight.shape[2:]),
        groups=groups,
        transposed=transposed,
        valid_taps=taps,
        bias=out.elements if bias else 0,
        note="padded positions of a convolution are counted" if any(pad) else "",
    )


def _each(value: Any, spatial: int) -> tuple[int, ...]:
    """A value for each spatial dimension; ``padding="same"`` is a word that says nothing of the FLOPs."""
    values = (value,) if isinstance(value, int) else (0,) if isinstance(value, str) else tuple(value)
    return values * spatial if len(values) == 1 else values


@rule("torchvision.deform_conv2d")
def deformed(call: Call) -> Priced:
    """A convolution of places that are mixed from four neighbours each, and weighted by a mask where there is one."""
    x, weight, offset, mask, bias = call.args[:5]
    masked = bool(call.get("use_mask"))
    reads = call.read(x, weight, offset, *([mask] if masked else []), bias)
    out = call.results[0].elements
    added = (MIXED + masked) * _taken(out, x, weight) + out
    op = _deformed(call, call.results[0])
    return replace(op, reads=reads, work=op.work + Work.flops("vector", pricing.arithmetic(reads[:2]), added))


@rule("torchvision._deform_conv2d_backward")
def deformed_backward(call: Call) -> Priced:
    """Two convolutions for input and kernel; the gradient goes to the neighbours, and by them to the places."""
    grad, x, weight = call.args[:3]
    added = (2 * MIXED + bool(call.get("use_mask"))) * _taken(grad.elements, x, weight) + grad.elements
    op = _deformed(call, grad, times=2)
    work = op.work + Work.flops("vector", pricing.arithmetic(call.read(grad, weight)), added)
    return replace(op, reads=call.reads, work=work)


def _taken(out: Size, x: Operand, weight: Operand) -> Size:
    """Places that a deformed convolution mixes."""
    return exact_div(out, weight.shape[0]) * x.shape[1] * product(weight.shape[2:])


def _deformed(call: Call, out: Operand, times: int = 1) -> Op:
    x, weight = call.args[1:3] if call.name.endswith("backward") else call.args[:2]
    groups = int(call.get("groups", 1))
    return pricing.convolution(
        call.name.strip("_"),
        call.read(x, weight),
        call.writes,
        batch=x.shape[0] * times,
        positions=product(out.shape[2:]),
        out_per_group=exact_div(weight.shape[0], groups),
        in_per_group=weight.shape[1],
        kernel=product(weight.shape[2:]),
        groups=groups,
    )


@rule("torchvision.roi_align", "torchvision._roi_align_backward", "torchvision.ps_roi_align",
      "torchvision._ps_roi_align_backward")  # fmt: skip
def aligned(call: Call) -> Priced:
    """The mean of so many places of each part of a region, each mixed from four neighbours; how many has to be stated.

    A gradient goes back to the four.
    """
    each = max(0, call.get("sampling_ratio")) ** 2
    if not each:
        return pricing.unknown(
            call.full_name, call.reads, call.writes, "how many places are looked at depends on the regions"
        )
    size = (call.args[0] if call.name.endswith("backward") else call.results[0]).elements
    flops = size * (MIXED + 1) * each
    return pricing.vector(call.name, "resample", call.reads, call.writes, flops=flops, elements=size, one_each=size)
