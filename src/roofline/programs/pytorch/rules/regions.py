"""Operations of torchvision at places that stand in tensors: deformed convolutions, regions of an image."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from roofline.programs.pytorch.registry import Call, Priced, pricing, rule
from roofline.work import Op, Work

#: FLOPs of a place mixed from its four neighbours: a multiply and an add for each.
_MIXED = 2 * 4


@rule("torchvision.deform_conv2d")
def deformed(call: Call) -> Priced:
    """A convolution of places that are mixed from four neighbours each, and weighted by a mask where there is one."""
    x, weight, offset, mask, bias = call.args[:5]
    masked = bool(call.get("use_mask"))
    reads = call.read(x, weight, offset, *([mask] if masked else []), bias)
    op = _convolved(call, call.outs[0])
    taken = call.outs[0].numel() // weight.shape[0] * x.shape[1] * prod(weight.shape[2:])
    added = (_MIXED + masked) * taken + call.outs[0].numel()
    return replace(op, reads=reads, work=op.work + Work.flops("vector", pricing.arithmetic(reads[:2]), added))


@rule("torchvision._deform_conv2d_backward")
def deformed_backward(call: Call) -> Priced:
    """Two convolutions for input and kernel; the gradient goes to the neighbours, and by them to the places."""
    grad, x, weight = call.args[:3]
    op = _convolved(call, grad, times=2)
    taken = grad.numel() // weight.shape[0] * x.shape[1] * prod(weight.shape[2:])
    added = (2 * _MIXED + bool(call.get("use_mask"))) * taken + grad.numel()
    work = op.work + Work.flops("vector", pricing.arithmetic(call.read(grad, weight)), added)
    return replace(op, reads=call.reads, work=work)


@rule("torchvision.roi_align", "torchvision._roi_align_backward", "torchvision.ps_roi_align",
      "torchvision._ps_roi_align_backward")  # fmt: skip
def aligned(call: Call) -> Priced:
    """The mean of so many places of each part of a region, each mixed from four neighbours; how many has to be stated.

    A gradient goes back to the four.
    """
    each = max(0, call.get("sampling_ratio")) ** 2
    if not each:
        reason = "how many places are looked at depends on the regions"
        return pricing.unknown(f"torchvision.{call.name}", call.reads, call.writes, reason)
    size = (call.args[0] if call.name.endswith("backward") else call.outs[0]).numel()
    flops = size * (_MIXED + 1) * each
    return pricing.vector(call.name, "resample", call.reads, call.writes, flops=flops, elements=size, one_each=size)


def _convolved(call: Call, out: Any, times: int = 1) -> Op:
    x, weight = call.args[1:3] if call.name.endswith("backward") else call.args[:2]
    groups = int(call.get("groups", 1))
    return pricing.convolution(
        call.name.strip("_"),
        call.read(x, weight),
        call.writes,
        batch=x.shape[0] * times,
        positions=prod(out.shape[2:]),
        out_per_group=weight.shape[0] // groups,
        in_per_group=weight.shape[1],
        kernel=prod(weight.shape[2:]),
        groups=groups,
    )
