"""Pooling and resampling, forward and backward."""

from __future__ import annotations

from roofline.ops.pricing import adaptive_windows
from roofline.programs.pytorch.price_tables import TAPS
from roofline.programs.pytorch.registry import Call, Operand, Priced, pricing, rule
from roofline.sizes import Size, exact_div, floor_div, maximum, product
from roofline.work import Op


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d_with_indices", "avg_pool1d", "avg_pool2d",
      "avg_pool3d", "max_pool2d", "max_pool1d", "max_pool3d", "mkldnn_max_pool2d", "mkldnn_max_pool3d",
      "fractional_max_pool2d", "fractional_max_pool3d")  # fmt: skip
def pool(call: Call) -> Priced:
    """The largest or the sum of each window: one operation for every element of a window but the first."""
    size = call.stated("kernel_size")
    spatial = int(call.name[call.name.index("pool") + 4])
    window = product(size) if len(size) == spatial else size[0] ** spatial
    results = call.results[0].elements
    return _pooled(call, results, window)


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
      "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")  # fmt: skip
def adaptive_pool(call: Call) -> Priced:
    """Windows that cover the input, overlapping where the sizes do not divide."""
    (x,), out = call.operands(0), call.results[0]
    results = out.elements
    window = maximum(1, floor_div(x.elements, maximum(1, results)))
    return _pooled(call, results, window, window_elements(x, out))


@rule("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "avg_pool2d_backward",
      "avg_pool3d_backward", "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward",
      "fractional_max_pool2d_backward", "fractional_max_pool3d_backward",
      "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")  # fmt: skip
def pool_backward(call: Call) -> Priced:
    """Every gradient is added to the elements of its window: of what was pooled only the shape is needed."""
    grad, pooled = call.operands(0, 1)
    size = call.results[0].elements
    taps = window_elements(call.results[0], grad) if call.name.startswith("_adaptive") else None
    return pricing.pool_backward(call.name, call.read_without(pooled), call.writes, elements=size, taps=taps)


def window_elements(x: Operand, out: Operand) -> Size:
    """Elements of all windows of an adaptive pooling, over all channels."""
    pairs = list(zip(x.shape, out.shape, strict=True))
    return product(n if n == r else adaptive_windows(n, r) for n, r in pairs)


@rule(*(f"{pre}upsample_{kind}{post}" for pre in ("", "_") for post in ("", "_aa", "_backward", "_aa_backward")
        for kind in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d", "bicubic2d",
                     "nearest_exact1d", "nearest_exact2d", "nearest_exact3d")))  # fmt: skip
def resampled(call: Call) -> Priced:
    """Mix neighbours: a multiply and an add for each, nothing for the nearest, whose gradient is added up."""
    forward = "backward" not in call.name
    size = (call.results[0] if forward else call.operands(0)[0]).elements
    kind = call.name.split("upsample_")[1].split("_")[0]
    spatial = int(next(letter for letter in call.name if letter.isdigit()))
    taps = TAPS[kind.rstrip("123d")] ** spatial
    return pricing.resample(call.name, call.reads, call.writes, taps=taps, elements=size, backward=not forward)


#: Elements mixed by a grid sample in one dimension, in the order of its modes: linear, nearest, cubic.
_MODES = (2, 1, 4)


@rule("grid_sampler_2d", "grid_sampler_3d", "grid_sampler_2d_backward", "grid_sampler_3d_backward")
def sampled(call: Call) -> Priced:
    """Mix neighbours at stated places; the gradient goes to the neighbours, and by them to the places."""
    backward = call.name.endswith("backward")
    size = (call.operands(0)[0] if backward else call.results[0]).elements
    taps = _MODES[call.stated("interpolation_mode", 0)] ** (2 if "2d" in call.name else 3)
    flops = 2 * taps * size if taps > 1 else 0
    flops = maximum(size, 2 * flops) if backward else flops
    return pricing.vector(call.name, "resample", call.reads, call.writes, flops=flops, elements=size, one_each=size)


@rule("col2im")
def folded(call: Call) -> Priced:
    """Add every element of a window to its place."""
    size = call.operands(0)[0].elements
    return pricing.vector(call.name, "resample", call.reads, call.writes, flops=size, elements=size, one_each=size)


@rule("affine_grid_generator")
def affine_grid(call: Call) -> Priced:
    """A matrix for each entry of the batch times (x, y, 1) or (x, y, z, 1) for each place."""
    (theta,), out = call.operands(0), call.results[0]
    batch, n, k = theta.shape
    m = exact_div(out.elements, batch * n)
    return pricing.matmul(call.name, 2 * call.read(theta), call.writes, m=m, n=n, k=k, batch=batch)


def _pooled(call: Call, results: Size, window: Size, taps: Size | None = None) -> Op:
    name = call.name.removesuffix("_with_indices").strip("_")
    return pricing.pool(name, call.reads, call.writes, results=results, window=window, taps=taps)
