"""Convolutions forward and backward, with groups, transposed; pooling; resampling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch.nn.functional as F

from roofline.programs.costs import valid_taps
from roofline.programs.torch_recorder import Recorder
from roofline.programs.torch_registry import Call, Priced, costs, function, rule
from roofline.programs.torch_symbols import bare
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
            costs.reduction("sum", call.read(grad), outs, elements=grad.numel(), results=results, name="bias_backward")
        )
    return ops


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d_with_indices", "avg_pool1d", "avg_pool2d",
      "avg_pool3d", "max_pool2d", "max_pool1d", "max_pool3d", "mkldnn_max_pool2d")  # fmt: skip
def pool(call: Call) -> Priced:
    """The largest or the sum of each window: one operation for every element of a window but the first."""
    size = call.args[1]
    spatial = int(call.name[call.name.index("pool") + 4])
    window = prod(size) if len(size) == spatial else size[0] ** spatial
    results = call.outs[0].numel()
    return _pooled(call, results, window)


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_max_pool2d",
      "adaptive_max_pool3d")  # fmt: skip
def adaptive_pool(call: Call) -> Priced:
    """Every element goes into one window."""
    results = call.outs[0].numel()
    return _pooled(call, results, max(1, call.args[0].numel() // max(1, results)))


@rule("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "avg_pool2d_backward",
      "avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward",
      "adaptive_max_pool2d_backward")  # fmt: skip
def pool_backward(call: Call) -> Priced:
    """Every gradient is added to the elements of its window."""
    size = call.outs[0].numel()
    return costs.vector(call.name, "pooling", call.reads, call.writes, flops=size, elements=size, one_each=size)


@function(F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
def adaptive_pool_called(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Adaptive pooling to one element is a mean to PyTorch; here it stays what the user called."""
    x = args[0]
    with recorder.silence():
        out = func(*args, **kwargs)
    results = out.numel()
    op = costs.vector(
        func.__name__,
        "pooling",
        [recorder.read(x)],
        [recorder.wrote(out)],
        flops=x.numel() - results,
        elements=results,
        dims={"results": results, "window": max(1, x.numel() // max(1, results))},
        one_each=x.numel(),
    )
    recorder.emit(op)
    return out


#: Elements of the input that one element of the result is mixed from, by dimension.
_TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "trilinear": 2, "bicubic": 4}


@rule(*(f"{pre}upsample_{kind}{post}" for pre in ("", "_") for post in ("", "_aa", "_backward", "_aa_backward")
        for kind in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d", "bicubic2d",
                     "nearest_exact1d", "nearest_exact2d", "nearest_exact3d")))  # fmt: skip
def resampled(call: Call) -> Priced:
    """Mix neighbours: a multiply and an add for each, nothing for the nearest."""
    forward = "backward" not in call.name
    size = call.outs[0].numel() if forward else call.args[0].numel()
    kind = call.name.split("upsample_")[1].split("_")[0]
    spatial = int(next(letter for letter in call.name if letter.isdigit()))
    taps = _TAPS[kind.rstrip("123d")] ** spatial
    flops = 0 if taps == 1 else 2 * taps * size
    return costs.vector(call.name, "resample", call.reads, call.writes, flops=flops, elements=size, one_each=size)


@rule("grid_sampler_2d", "grid_sampler_3d", "grid_sampler_2d_backward", "col2im")
def sampled(call: Call) -> Priced:
    """Mix four (eight) neighbours at stated places."""
    size = call.outs[0].numel()
    flops = 16 * size if "sampler" in call.name else size
    return costs.vector(call.name, "resample", call.reads, call.writes, flops=flops, elements=size, one_each=size)


def _pooled(call: Call, results: int, window: int) -> Op:
    return costs.vector(
        call.name.removesuffix("_with_indices").strip("_"),
        "pooling",
        call.reads,
        call.writes,
        flops=results * (window - 1),
        elements=results,
        dims={"results": results, "window": window},
        one_each=call.args[0].numel(),
    )


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
    return costs.convolution(
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
