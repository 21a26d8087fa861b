"""Convolutions in one to three dimensions, grouped, depthwise and transposed.

>>> x = Tensor("x", (1, 224, 224, 3), "fp32")
>>> stem = convolution(x, Tensor("w", (7, 7, 3, 64), "fp32", "weight"), stride=2, pad=3)
>>> stem.writes[0].dims, stem.work.total("flops")
((1, 112, 112, 64), 236027904)
>>> convolution(x, Tensor("w", (7, 7, 3, 64), "fp32"), stride=2, pad=3, count_padding=False).work.total("flops")
232429056
>>> up = conv_transpose(Tensor("x", (1, 8, 8, 16), "bf16"), Tensor("w", (4, 4, 16, 32), "bf16"), stride=2, pad=1)
>>> up.writes[0].dims, up.work.total("flops") == 2 * 8 * 8 * 16 * 4 * 4 * 32
((1, 16, 16, 32), True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline import dtypes
from roofline.notation.structure import Step
from roofline.ops.checks import require_equal, require_multiple, show
from roofline.ops.context import Context, like, weight_or_activation
from roofline.ops.registry import register
from roofline.ops.windows import Padding, Window, each, windows
from roofline.sizes import Size, exact_div, product
from roofline.work import Op, Tensor, Work


def convolution(
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None = None,
    out: Tensor | None = None,
    *,
    stride: int | Sequence[int] = 1,
    pad: Padding | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: Size = 1,
    compute: str | None = None,
    exact: bool = False,
    count_padding: bool = True,
    name: str = "conv",
) -> Op:
    """Convolve x [B, spatial…, C] with kernel [taps…, C/groups, O] into [B, results…, O].

    ::

        multiply-adds = B·O·C/groups·Π taps             over spatial dimensions; taps = results·k
        FLOPs         = 2·multiply-adds
                      = 2·multiply-adds − B·O·Π results     exact: one add fewer for each result
        m, n, k, batch = B·Π results, O/groups, C/groups·Π k, groups
        bytes         = x, kernel and bias read once, the result written once

    Positions in the padding count, as is usual; with ``count_padding=False`` only taps that meet an element do, and
    results that meet none. A bias adds 1 FLOP for each result on the vector unit. A depthwise convolution (groups =
    C) is counted on the matrix unit like the rest, where n = O/groups is then 1 or little more.

    Source: shapes as in the PyTorch documentation of ConvNd; counts as in Dumoulin and Visin, arXiv:1603.07285.
    """
    own = windows(kernel.dims[:-2], stride, pad, dilation)
    B, *spatial, C = x.dims
    per_group, O = kernel.dims[-2:]  # noqa: E741
    _channels(C, per_group * groups, O, groups)
    results = [window.results(L) for window, L in zip(own, spatial, strict=True)]
    places = list(zip(own, spatial, results, strict=True))
    products = product(w.taps(L, r) if not count_padding else r * w.k for w, L, r in places)
    flops = 2 * B * O * per_group * products
    if exact:
        flops = flops - B * O * product(r if count_padding else w.reached(L, r) for w, L, r in places)
    result = out or like(x, "conv", (B, *results, O))
    dims = {
        "m": B * product(results),
        "n": exact_div(O, groups),
        "k": per_group * product(kernel.dims[:-2]),
        "batch": groups,
    }
    return _op(name, x, kernel, bias, result, flops, dims, compute, _note(own, count_padding))


def conv_transpose(
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None = None,
    out: Tensor | None = None,
    *,
    stride: int | Sequence[int] = 1,
    pad: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: Size = 1,
    output_pad: int | Sequence[int] = 0,
    compute: str | None = None,
    exact: bool = False,
    count_padding: bool = True,
    name: str = "conv_transpose",
) -> Op:
    """Spread x [B, spatial…, C] through kernel [taps…, C, O/groups] into [B, results…, O].

    ::

        multiply-adds = B·C·O/groups·Π taps             over spatial dimensions; taps = L·k
        FLOPs         = 2·multiply-adds
                      = 2·multiply-adds − B·O·Π results     exact, over results that get a product at all
        m, n, k, batch = B·Π L, O/groups·Π k, C/groups, groups

    Products that ``pad`` crops away count, as is usual; with ``count_padding=False`` they do not. The rest is as in
    :func:`convolution`.

    Source: shapes as in the PyTorch documentation of ConvTransposeNd; Dumoulin and Visin, arXiv:1603.07285.
    """
    own = windows(kernel.dims[:-2], stride, pad, dilation)
    B, *spatial, C = x.dims
    per_group = kernel.dims[-1]
    O = per_group * groups  # noqa: E741
    _channels(C, kernel.dims[-2], O, groups)
    extra = each("output_pad", output_pad, len(own), least=0)
    results = [window.spread(L, more) for window, L, more in zip(own, spatial, extra, strict=True)]
    if count_padding:
        uncropped = [window._replace(pad=0) for window in own]
        places = [(window, window.spread(L), L) for window, L in zip(uncropped, spatial, strict=True)]
    else:
        places = list(zip(own, results, spatial, strict=True))
    flops = 2 * B * C * per_group * product(window.taps(r, L) for window, r, L in places)
    if exact:
        flops = flops - B * O * product(window.covered(r, L) for window, r, L in places)
    result = out or like(x, "conv_transpose", (B, *results, O))
    dims = {
        "m": B * product(spatial),
        "n": per_group * product(kernel.dims[:-2]),
        "k": exact_div(C, groups),
        "batch": groups,
    }
    return _op(name, x, kernel, bias, result, flops, dims, compute, _note(own, count_padding, "cropped"))


@register("convolution")
def rule(step: Step, context: Context) -> Op:
    """Price a convolution; its kernel and bias are weights, the sizes of its result are worked out here."""
    x, kernel, *rest = step.inputs
    options: dict[str, Any] = {key: value for key, value in step.options.items() if key in _OPTIONS}
    groups = options.get("groups", 1)
    options["groups"] = context.sizes[groups] if isinstance(groups, str) else groups
    function = conv_transpose if step.function == "conv_transpose" else convolution
    op = function(
        context.tensor(x),
        context.tensor(kernel, weight_or_activation(kernel)),
        context.tensor(rest[0], weight_or_activation(rest[0])) if rest else None,
        compute=context.arithmetic(step),
        exact=context.exact,
        count_padding=context.count_padding,
        name=step.text or step.function,
        **options,
    )
    return context.written_to(op, step.output)


_OPTIONS = ("stride", "pad", "dilation", "groups", "output_pad")


def _channels(C: Size, expected: Size, O: Size, groups: Size) -> None:  # noqa: E741
    require_multiple(C, groups, f"{show(C)} channels do not fall into {show(groups)} groups")
    require_multiple(O, groups, f"{show(O)} output channels do not fall into {show(groups)} groups")
    require_equal(C, expected, f"x has {show(C)} channels, the kernel is for {show(expected)}")


def _op(
    name: str,
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None,
    result: Tensor,
    flops: Size,
    dims: dict[str, Size],
    compute: str | None,
    note: str,
) -> Op:
    reads = (x, kernel) if bias is None else (x, kernel, bias)
    dtype = compute or dtypes.arithmetic([tensor.dtype for tensor in reads])
    work = Work.flops("matrix", dtype, flops)
    if bias is not None:
        work += Work.flops("vector", dtype, result.elements)
    return Op(name, "convolution", work, reads, (result,), dims, note=note)


def _note(own: Sequence[Window], count_padding: bool, what: str = "padded") -> str:
    if all(window.pad == 0 for window in own):
        return ""
    return f"{what} positions of a convolution are {'counted' if count_padding else 'not counted'}"
