"""Pooling and resampling, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
import torch.nn.functional as F

from roofline.ops.pricing import adaptive_windows
from roofline.programs.pytorch.price_tables import resampling
from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import Call, Priced, function, pricing, rule
from roofline.work import Op, Tensor


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d_with_indices", "avg_pool1d", "avg_pool2d",
      "avg_pool3d", "max_pool2d", "max_pool1d", "max_pool3d", "mkldnn_max_pool2d", "fractional_max_pool2d",
      "fractional_max_pool3d")  # fmt: skip
def pool(call: Call) -> Priced:
    """The largest or the sum of each window: one operation for every element of a window but the first."""
    size = call.args[1]
    spatial = int(call.name[call.name.index("pool") + 4])
    window = prod(size) if len(size) == spatial else size[0] ** spatial
    results = call.outs[0].numel()
    return _pooled(call, results, window, results * (window - 1))


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_max_pool2d",
      "adaptive_max_pool3d")  # fmt: skip
def adaptive_pool(call: Call) -> Priced:
    """Windows that cover the input, overlapping where the sizes do not divide."""
    results = call.outs[0].numel()
    taken = _taken(call.args[0], call.outs[0])
    return _pooled(call, results, max(1, call.args[0].numel() // max(1, results)), taken - results)


@rule("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "avg_pool2d_backward",
      "avg_pool3d_backward", "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward",
      "fractional_max_pool2d_backward", "fractional_max_pool3d_backward")  # fmt: skip
def pool_backward(call: Call) -> Priced:
    """Every gradient is added to the elements of its window: of what was pooled only the shape is needed."""
    size, reads = call.outs[0].numel(), _without(call, 1)
    return pricing.vector(call.name, "pooling", reads, call.writes, flops=size, elements=size, one_each=size)


@rule("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_pool_backward(call: Call) -> Priced:
    """Every gradient is added to the elements of its window: of what was pooled only the shape is needed."""
    size, reads = call.outs[0].numel(), _without(call, 1)
    flops = _taken(call.outs[0], call.args[0])
    return pricing.vector(call.name, "pooling", reads, call.writes, flops=flops, elements=size, one_each=size)


@function(torch.max_pool1d, torch.max_pool2d, torch.max_pool3d, F.max_pool1d, F.max_pool2d, F.max_pool3d,
          F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)  # fmt: skip
def max_pool_called(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Which element was the largest is written down for a gradient; who asks for it calls another function."""
    x = args[0] if args else kwargs["input"]
    if x.requires_grad and torch.is_grad_enabled():
        return NotImplemented
    before = len(recorder.ops)
    with torch._C.DisableTorchFunction():
        out = func(*args, **kwargs)
    recorder.ops[before:] = [replace(op, writes=op.writes[:1]) for op in recorder.ops[before:]]
    return out


@function(F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
def adaptive_pool_called(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Adaptive pooling to one element is a mean to PyTorch; here it stays what the user called."""
    x = args[0]
    with recorder.silence():
        out = func(*args, **kwargs)
    results = out.numel()
    op = pricing.vector(
        func.__name__,
        "pooling",
        [recorder.read(x)],
        [recorder.wrote(out)],
        flops=_taken(x, out) - results,
        elements=results,
        dims={"results": results, "window": max(1, x.numel() // max(1, results))},
        one_each=x.numel(),
    )
    recorder.emit(op)
    return out


def _without(call: Call, place: int) -> tuple[Tensor, ...]:
    """The tensors that are read, but for one argument."""
    left_out = call.read(call.args[place])
    return tuple(tensor for tensor in call.reads if tensor not in left_out)


def _taken(x: Any, out: Any) -> Any:
    """Elements of all windows of an adaptive pooling, over all channels."""
    sizes = [(n, r) for n, r in zip(x.shape, out.shape, strict=True) if n is not r and n != r]
    same = [n for n, r in zip(x.shape, out.shape, strict=True) if n is r or n == r]
    return prod(same) * prod(adaptive_windows(n, r) for n, r in sizes)


@rule(*(f"{pre}upsample_{kind}{post}" for pre in ("", "_") for post in ("", "_aa", "_backward", "_aa_backward")
        for kind in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d", "bicubic2d",
                     "nearest_exact1d", "nearest_exact2d", "nearest_exact3d")))  # fmt: skip
def resampled(call: Call) -> Priced:
    """Mix neighbours: a multiply and an add for each, nothing for the nearest, whose gradient is added up."""
    forward = "backward" not in call.name
    size = call.outs[0].numel() if forward else call.args[0].numel()
    kind = call.name.split("upsample_")[1].split("_")[0]
    spatial = int(next(letter for letter in call.name if letter.isdigit()))
    flops = resampling(kind.rstrip("123d"), spatial, size, forward=forward)
    return pricing.vector(call.name, "resample", call.reads, call.writes, flops=flops, elements=size, one_each=size)


#: Elements mixed by a grid sample in one dimension, in the order of its modes: linear, nearest, cubic.
_MODES = (2, 1, 4)


@rule("grid_sampler_2d", "grid_sampler_3d", "grid_sampler_2d_backward", "grid_sampler_3d_backward")
def sampled(call: Call) -> Priced:
    """Mix neighbours at stated places; the gradient goes to the neighbours, and by them to the places."""
    size = (call.args[0] if call.name.endswith("backward") else call.outs[0]).numel()
    taps = _MODES[call.get("interpolation_mode", 0)] ** (2 if "2d" in call.name else 3)
    flops = 2 * taps * size if taps > 1 else 0
    flops = max(size, 2 * flops) if call.name.endswith("backward") else flops
    return pricing.vector(call.name, "resample", call.reads, call.writes, flops=flops, elements=size, one_each=size)


@rule("col2im")
def folded(call: Call) -> Priced:
    """Add every element of a window to its place."""
    size = call.args[0].numel()
    return pricing.vector(call.name, "resample", call.reads, call.writes, flops=size, elements=size, one_each=size)


@rule("affine_grid_generator")
def places(call: Call) -> Priced:
    """A matrix for each entry of the batch times (x, y, 1) or (x, y, z, 1) for each place."""
    theta, out = call.args[0], call.outs[0]
    batch, n, k = theta.shape
    reads = (*call.read(theta), *call.read(theta))
    return pricing.matmul(call.name, reads, call.writes, m=out.numel() // (batch * n), n=n, k=k, batch=batch)


def _pooled(call: Call, results: int, window: int, flops: int) -> Op:
    return pricing.vector(
        call.name.removesuffix("_with_indices").strip("_"),
        "pooling",
        call.reads,
        call.writes,
        flops=flops,
        elements=results,
        dims={"results": results, "window": window},
        one_each=call.args[0].numel(),
    )
