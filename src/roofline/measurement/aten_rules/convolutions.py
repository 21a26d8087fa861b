"""Convolutions, forward and backward."""

from __future__ import annotations

from typing import Any

from roofline.measurement.aten import Seen, like, rule, together
from roofline.ops import pricing
from roofline.ops.convolution import convolve, convolve_transposed
from roofline.work import Op, Tensor

#: Where convolutions have their options: stride, pad, dilation, groups, padding of the output, and whether transposed.
_PLAIN_CONV, _WIDE_CONV = (3, 4, 5, 6, None, None), (3, 4, 5, 8, 7, 6)
CONVOLUTIONS: dict[str, tuple[int | None, ...]] = {
    "conv1d": _PLAIN_CONV, "conv2d": _PLAIN_CONV, "conv3d": _PLAIN_CONV, "mkldnn_convolution": (4, 3, 5, 6, None, None),
    "convolution": _WIDE_CONV, "_convolution": _WIDE_CONV, "convolution_overrideable": _WIDE_CONV,
    "cudnn_convolution": (3, 2, 4, 5, None, None),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), (3, 4, 7, 6, 5, None)),
}  # fmt: skip

#: Where a gradient has the same options, and which gradients it was asked for.
BACKWARD, ASKED = (4, 5, 6, 9, 8, 7), 10


@rule(*CONVOLUTIONS)
def convolution(seen: Seen) -> Op:
    """Channels stand second there, last here; the kernel of a transposed one begins with the channels it takes."""
    turned, bias = seen.plain.startswith("conv_transpose"), next((t for t in seen.some(2) if t.dims), None)
    return _convolution(seen, seen.tensor(0), seen.tensor(1), CONVOLUTIONS[seen.plain], bias, turned)


@rule("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(seen: Seen) -> Op:
    """The gradients of input and kernel, each as many FLOPs as the convolution itself; a sum for that of the bias."""
    grad, x, w = (seen.tensor(place) for place in range(3))
    work = _convolution(seen, x, w, BACKWARD).work
    wanted = seen.stated(ASKED)
    ops = [
        Op(seen.name, "convolution", work, reads, (like(result, ident="grad"),))
        for asked, reads, result in ((wanted[0], (grad, w), x), (wanted[1], (grad, x), w))
        if asked
    ]
    if wanted[2]:
        channels = grad.dims[1]
        out = like(grad, (channels,))
        ops.append(pricing.reduction("sum", (grad,), (out,), elements=grad.elements, results=channels))
    return together(seen.name, ops)


def _convolution(
    seen: Seen, x: Tensor, w: Tensor, places: tuple[int | None, ...], bias: Tensor | None = None, turned: bool = False
) -> Op:
    given = [None if place is None else seen.stated(place) for place in places]
    stride, pad, dilation, groups, more, transposed = (tuple(one) if isinstance(one, list) else one for one in given)
    last = Tensor(x.ident, (x.dims[0], *x.dims[2:], x.dims[1]), x.dtype)
    options: dict[str, Any] = {"stride": stride, "pad": pad, "dilation": dilation, "groups": groups, "name": seen.name}
    if transposed is True or turned:
        kernel = Tensor(w.ident, (*w.dims[2:], *w.dims[:2]), w.dtype, "weight")
        return convolve_transposed(last, kernel, bias, output_pad=more or 0, **options)
    kernel = Tensor(w.ident, (*w.dims[2:], w.dims[1], w.dims[0]), w.dtype, "weight")
    return convolve(last, kernel, bias, **options)
