"""Convolutions, pooling and resampling, forward and backward; regions of an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.ops.pricing import Reach, adaptive_windows
from roofline.programs.pytorch.registry import TAPS, UNTOLD, Call, Priced, TensorOperand, pricing, rule
from roofline.sizes import Size, exact_div, floor_div, maximum, minimum, product
from roofline.work import Op, Tensor

#: FLOPs of a place mixed from its four neighbours: a multiply and an add for each.
MIXED = 2 * 4

#: Options of a convolution, and what they are where the operation has none.
_WINDOW = (("stride", 1), ("padding", 0), ("dilation", 1))

CONVOLUTIONS = (
    "convolution", "_convolution", "convolution_overrideable", "cudnn_convolution", "mkldnn_convolution", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
)  # fmt: skip
POOLS = (
    "max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d_with_indices", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "max_pool2d", "max_pool1d", "max_pool3d", "mkldnn_max_pool2d", "mkldnn_max_pool3d",
    "fractional_max_pool2d", "fractional_max_pool3d",
)  # fmt: skip


@rule(*CONVOLUTIONS)
def convolution(call: Call) -> Priced:
    """Convolve [B, C, spatial…] with [O, C/groups, taps…]; transposed: [C, O/groups, taps…]."""
    x, weight = call.operands(0, 1)
    bias = call.operand("bias")
    bias = bias if bias is not None and bias.shape else None
    return _convolution(call, (x, weight, bias), call.writes, x, weight, call.results[0], bias=bias is not None)


@rule("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(call: Call) -> Priced:
    """The gradient of the input and that of the kernel, each as many multiply-adds as the convolution itself."""
    grad, x, weight = call.operands(0, 1, 2)
    wanted = call.stated("output_mask", (True, True, True))
    outs = list(call.writes)
    ops: list[Op] = []
    for place, (name, reads) in enumerate((("input", (grad, weight)), ("weight", (grad, x)))):
        if wanted[place] and outs:
            ops.append(_convolution(call, reads, (outs.pop(0),), x, weight, grad, name=f"conv_backward_{name}"))
    if wanted[2] and outs:
        sizes = {"elements": grad.elements, "results": outs[0].elements}
        ops.append(pricing.reduction("sum", call.read(grad), outs, **sizes, name="bias_backward"))
    return ops


@rule("conv_tbc", "conv_tbc_backward")
def convolution_over_time(call: Call) -> Priced:
    """Convolve [T, B, C] with [taps, C, O] over T; the gradients are of input and kernel, and a sum for the bias."""
    weight = call.args[2 if call.is_backward else 1]
    taps, inner, outer = weight.shape
    steps, batch = (call.args[0] if call.is_backward else call.results[0]).shape[:2]
    sizes = pricing.ConvolutionSizes(batch * (2 if call.is_backward else 1), steps, outer, inner, taps)
    return pricing.convolution(call.name, call.reads, call.writes, sizes, bias=batch * steps * outer)


def _convolution(
    call: Call,
    reads: Sequence[TensorOperand | None],
    writes: Sequence[Tensor],
    x: TensorOperand,
    weight: TensorOperand,
    out: TensorOperand,
    *,
    bias: bool = False,
    name: str = "",
) -> Op:
    places, transposed = convolution_places(call, x, weight, out)
    groups, spatial = int(call.stated("groups", 1)), len(places)
    found, slid_over = call.read(*reads), (out if transposed else x).tensor
    over = next((place for place, tensor in enumerate(found) if tensor is slid_over), len(found))
    batch, positions = (x.shape[0] if x.rank == spatial + 2 else 1), product(at.results for at in places)
    sizes = pricing.ConvolutionSizes.of_kernel(
        weight.shape, batch=batch, positions=positions, groups=groups, transposed=transposed
    )
    return pricing.convolution(
        name or ("conv_transpose" if transposed else "conv"),
        found,
        writes,
        sizes,
        places=places,
        over=over,
        valid_taps=pricing.valid_taps_of(places),
        bias=out.elements if bias else 0,
        note=pricing.padding_note(places),
    )


def convolution_places(
    call: Call, x: TensorOperand, weight: TensorOperand, out: TensorOperand
) -> tuple[list[Reach], bool]:
    """The windows of a convolution in each dimension, and whether it is transposed: they then slide over its result."""
    transposed = call.name.startswith("conv_transpose") or bool(call.stated("transposed", False))
    spatial = weight.rank - 2
    stride, pad, dilation = (_each(call.stated(word, default), spatial) for word, default in _WINDOW)
    inner, outer = x.shape[-spatial:], out.shape[-spatial:]
    slid, seen = (inner, outer) if transposed else (outer, inner)
    taps = weight.shape[2:]
    return [Reach(seen[d], slid[d], taps[d], stride[d], pad[d], dilation[d]) for d in range(spatial)], transposed


def _each(value: Any, spatial: int) -> tuple[int, ...]:
    """A value for each spatial dimension; PyTorch calls a convolution of ``padding="same"`` again with numbers."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * spatial if len(values) == 1 else values


@rule("torchvision.deform_conv2d")
def deformed(call: Call) -> Priced:
    """A convolution of places that are mixed from four neighbours each, and weighted by a mask where there is one."""
    x, weight, offset, mask, bias = call.args[:5]
    masked = bool(call.get("use_mask"))
    reads = call.read(x, weight, offset, *([mask] if masked else []), bias)
    out = call.results[0].elements
    added = (MIXED + masked) * _taken(out, x, weight) + out
    return call.beside(_deformed(call, call.results[0]), added, pricing.arithmetic(reads[:2]), reads=reads)


@rule("torchvision._deform_conv2d_backward")
def deformed_backward(call: Call) -> Priced:
    """Two convolutions for input and kernel; the gradient goes to the neighbours, and by them to the places."""
    grad, x, weight = call.args[:3]
    added = (2 * MIXED + bool(call.get("use_mask"))) * _taken(grad.elements, x, weight) + grad.elements
    return call.beside(_deformed(call, grad, times=2), added, pricing.arithmetic(call.read(grad, weight)))


def _taken(out: Size, x: TensorOperand, weight: TensorOperand) -> Size:
    """Places that a deformed convolution mixes."""
    return exact_div(out, weight.shape[0]) * x.shape[1] * product(weight.shape[2:])


def _deformed(call: Call, out: TensorOperand, times: int = 1) -> Op:
    x, weight = call.args[1:3] if call.is_backward else call.args[:2]
    sizes = pricing.ConvolutionSizes.of_kernel(
        weight.shape, batch=x.shape[0] * times, positions=product(out.shape[2:]), groups=int(call.get("groups", 1))
    )
    return pricing.convolution(call.name.strip("_"), call.read(x, weight), call.writes, sizes)


@rule("torchvision.roi_align", "torchvision._roi_align_backward", "torchvision.ps_roi_align",
      "torchvision._ps_roi_align_backward")  # fmt: skip
def aligned(call: Call) -> Priced:
    """The mean of so many places of each part of a region, each mixed from four neighbours; how many has to be stated.

    A gradient goes back to the four.
    """
    each = max(0, call.get("sampling_ratio")) ** 2
    if not each:
        return call.unknown("how many places are looked at depends on the regions")
    size = (call.args[0] if call.is_backward else call.results[0]).elements
    return call.for_each("resample", size, (MIXED + 1) * each)


@rule(*POOLS)
def pool(call: Call) -> Priced:
    """The largest or the sum of each window."""
    size = call.stated("kernel_size")
    spatial = _spatial(call)
    window = product(size) if len(size) == spatial else size[0] ** spatial
    places = pool_places(call, call.args[0], call.results[0])
    return _pooled(call, results=call.results[0].elements, window=window, places=places)


def _spatial(call: Call) -> int:
    return int(call.name[call.name.index("pool") + 4])


def pool_places(call: Call, x: TensorOperand, out: TensorOperand) -> list[Reach]:
    """The windows of a pooling of x in each dimension; none where an argument is not told.

    Those that lie at random reach no more than windows side by side.
    """
    size, spatial = call.get("kernel_size", UNTOLD), _spatial(call)
    told = [call.get("stride", None), *(call.get(word, default) for word, default in _WINDOW[1:])]
    if any(value is UNTOLD for value in (size, *told)) or not x.shape:
        return []
    left_out = [value is None or (isinstance(value, list | tuple) and not value) for value in told]
    stated = (size if out else value for value, out in zip(told, left_out, strict=True))
    stride, pad, dilation = (_each(value, spatial) for value in stated)
    inner, outer, taps = x.shape[-spatial:], out.shape[-spatial:], _each(size, spatial)
    return [Reach(inner[d], outer[d], taps[d], stride[d], pad[d], dilation[d]) for d in range(spatial)]


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
      "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")  # fmt: skip
def adaptive_pool(call: Call) -> Priced:
    """Windows that cover the input, overlapping where the sizes do not divide."""
    (x,), out = call.operands(0), call.results[0]
    results = out.elements
    window = maximum(1, floor_div(x.elements, maximum(1, results)))
    return _pooled(call, results=results, window=window, apart=_apart(x, out), is_adaptive_mean="avg" in call.name)


def _apart(x: TensorOperand, out: TensorOperand) -> Size:
    """Windows of an adaptive pooling that share no element with one before; two share an element at most."""
    return product(n + r - adaptive_windows(n, r) for n, r in zip(x.shape, out.shape, strict=True))


@rule("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "avg_pool2d_backward",
      "avg_pool3d_backward", "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward",
      "fractional_max_pool2d_backward", "fractional_max_pool3d_backward",
      "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")  # fmt: skip
def pool_backward(call: Call) -> Priced:
    """Every gradient is added to the elements of its window: of what was pooled only the shape is needed."""
    (grad, pooled), x = call.operands(0, 1), call.results[0]
    is_adaptive = "adaptive" in call.name
    facts = {"apart": _apart(x, grad)} if is_adaptive else {"places": pool_places(call, x, grad)}
    reads, sizes = call.read_without(pooled), {"elements": x.elements, "results": grad.elements}
    return pricing.pool_backward(call.name, reads, call.writes, **sizes, **facts)


@rule(*(f"{pre}upsample_{kind}{post}" for pre in ("", "_") for post in ("", "_aa", "_backward", "_aa_backward")
        for kind in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d", "bicubic2d",
                     "nearest_exact1d", "nearest_exact2d", "nearest_exact3d")))  # fmt: skip
def resampled(call: Call) -> Priced:
    """Mix neighbours: a multiply and an add for each, nothing for the nearest, whose gradient is added up."""
    kind = call.name.split("upsample_")[1].split("_")[0].rstrip("123d")
    image, made = call.operands(0)[0].shape, call.results[0].shape
    shape, results = (made, image) if call.is_backward else (image, made)
    facts = {"smooths": "_aa" in call.name, "backward": call.is_backward}
    return pricing.resized(call.name, call.reads, call.writes, shape=shape, results=results, taps=TAPS[kind], **facts)


#: Elements mixed by a grid sample in one dimension, in the order of its modes: linear, nearest, cubic.
_MODES = (2, 1, 4)


@rule("grid_sampler_2d", "grid_sampler_3d", "grid_sampler_2d_backward", "grid_sampler_3d_backward")
def sampled(call: Call) -> Priced:
    """Mix neighbours at stated places; the gradient goes to the neighbours, and by them to the places."""
    taps = _MODES[call.stated("interpolation_mode", 0)] ** (2 if "2d" in call.name else 3)
    if not call.is_backward:
        size, reached = call.results[0].elements, minimum(call.operands(0)[0].elements, taps * call.results[0].elements)
        return pricing.resample(call.name, call.reads, call.writes, taps=taps, elements=size, reached=reached)
    return call.for_each("resample", call.operands(0)[0].elements, 4 * taps if taps > 1 else 1)


# Every element of a window is added to its place.
rule("col2im", "unfold_backward")(lambda call: call.for_each("resample", call.operands(0)[0].elements))


@rule("affine_grid_generator")
def affine_grid(call: Call) -> Priced:
    """A matrix for each entry of the batch times (x, y, 1) or (x, y, z, 1) for each place."""
    (theta,), out = call.operands(0), call.results[0]
    batch, n, k = theta.shape
    m = exact_div(out.elements, batch * n)
    return pricing.contraction(call.name, 2 * call.read(theta), call.writes, m=m, n=n, k=k, batch=batch)


def _pooled(call: Call, **facts: Any) -> Op:
    return pricing.pool(call.name.removesuffix("_with_indices").strip("_"), call.reads, call.writes, **facts)
