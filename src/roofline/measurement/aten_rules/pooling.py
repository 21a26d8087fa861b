"""Pooling and resampling, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from roofline.errors import InputError
from roofline.measurement.aten import Seen, like, rule
from roofline.ops import pricing
from roofline.ops.windows import Window
from roofline.programs.pytorch.price_tables import TAPS
from roofline.sizes import ceil_div
from roofline.work import Op

#: Where poolings say that the last window may reach beyond the padding, and whether they dilate at the place before.
_MAX, _MEAN = (5, True), (4, False)
POOLS = {
    **dict.fromkeys(("max_pool1d", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices",
                     "mkldnn_max_pool2d", "mkldnn_max_pool3d"), _MAX),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _MEAN),
}  # fmt: skip


@rule(*POOLS)
def pool(seen: Seen) -> Op:
    """The largest or the sum of each window: one operation for every element of a window but the first."""
    x, spatial = seen.tensor(0), int(seen.plain[seen.plain.index("pool") + 4])
    beyond, dilated = POOLS[seen.plain]
    size = _each(seen.stated(1), spatial)
    stride = _each(seen.value(2, []) or size, spatial)
    pad, dilation = _each(seen.value(3, 0), spatial), _each(seen.value(4, 1) if dilated else 1, spatial)
    more = seen.stated(beyond) is True
    each = zip(size, stride, pad, dilation, x.dims[-spatial:], strict=True)
    results = [_results(*parts, more=more) for parts in each]
    out = like(x, (*x.dims[:-spatial], *results))
    places = [like(out, dtype="int64", ident="indices")] if seen.plain.endswith("indices") else []
    return pricing.pool(seen.name, (x,), (out, *places), results=out.elements, window=prod(size))


def _results(k: int, stride: int, pad: int, dilation: int, length: int, *, more: bool) -> int:
    """Results along a dimension; of a last window beyond the padding where it begins on an element or before it.

    >>> _results(3, 2, 0, 1, 16, more=False), _results(3, 2, 0, 1, 16, more=True), _results(1, 2, 0, 1, 3, more=True)
    (7, 8, 2)
    """
    if not more:
        return int(Window(k, stride, pad, dilation).results(length))
    found = ceil_div(length + 2 * pad - dilation * (k - 1) - 1, stride) + 1
    return int(found - 1 if (found - 1) * stride >= length + pad else found)


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_max_pool2d",
      "adaptive_max_pool3d")  # fmt: skip
def adaptive_pool(seen: Seen) -> Op:
    """Windows that cover the input, overlapping where the sizes do not divide."""
    x, sizes = seen.tensor(0), seen.stated(1)
    out = like(x, (*x.dims[: -len(sizes)], *sizes))
    places = [like(out, dtype="int64", ident="indices")] if "max" in seen.plain else []
    window = max(1, x.elements // max(1, out.elements))
    taps = _taken(x.dims, out.dims)
    return pricing.pool(seen.name, (x,), (out, *places), results=out.elements, window=window, taps=taps)


@rule("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "avg_pool2d_backward",
      "avg_pool3d_backward", "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward",
      "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")  # fmt: skip
def pool_backward(seen: Seen) -> Op:
    """Every gradient is added to the elements of its window: what was pooled is not read, only its shape."""
    grad, x = seen.tensor(0), seen.tensor(1)
    taps = _taken(x.dims, grad.dims) if seen.plain.startswith("_adaptive") else None
    return pricing.pool_backward(seen.name, (grad, *seen.every(2)), (like(x),), elements=x.elements, taps=taps)


def _taken(dims: Sequence[int], results: Sequence[int]) -> int:
    """Elements of all windows of an adaptive pooling."""
    return prod(int(pricing.adaptive_windows(n, r)) for n, r in zip(dims, results, strict=True))


_KINDS = ("nearest1d", "nearest2d", "nearest3d", "_nearest_exact1d", "_nearest_exact2d", "_nearest_exact3d",
          "linear1d", "bilinear2d", "trilinear3d", "bicubic2d")  # fmt: skip
RESAMPLED = {f"{'_' * kind.startswith('_')}upsample_{kind.lstrip('_')}": kind for kind in _KINDS}


@rule(*RESAMPLED, *(f"{name}_backward" for name in RESAMPLED))
def resampled(seen: Seen) -> Op:
    """Mix neighbours; sizes stand after the tensor, of a gradient those of what it is of one place on."""
    back = seen.plain.endswith("_backward")
    kind = RESAMPLED[seen.plain.removesuffix("_backward")].lstrip("_")
    x, sizes = seen.tensor(0), seen.stated(2 if back else 1)
    out = like(x, sizes if back else (*x.dims[:2], *sizes))
    size = x.elements if back else out.elements
    taps = TAPS[kind[:-2].removesuffix("_exact")] ** int(kind[-2])
    return pricing.resample(seen.name, (x,), (out,), taps=taps, elements=size, backward=back)


def _each(value: Any, spatial: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not all(isinstance(item, int) and item >= 0 for item in values):
        raise InputError(f"{value!r} is not a size of a window")
    return values * spatial if len(values) == 1 else values
