"""Convolutions in one to three dimensions, grouped, depthwise and transposed.

>>> x = Tensor("x", (1, 224, 224, 3), "fp32")
>>> stem = convolve(x, Tensor("w", (7, 7, 3, 64), "fp32", "weight"), stride=2, pad=3)
>>> stem.writes[0].dims, stem.work.total("flops")
((1, 112, 112, 64), 236027904)
>>> convolve(x, Tensor("w", (7, 7, 3, 64), "fp32"), stride=2, pad=3, count_padding=False).work.total("flops")
232429056
>>> up = convolve_transposed(Tensor("x", (1, 8, 8, 16), "bf16"), Tensor("w", (4, 4, 16, 32), "bf16"), stride=2, pad=1)
>>> up.writes[0].dims, up.work.total("flops") == 2 * 8 * 8 * 16 * 4 * 4 * 32
((1, 16, 16, 32), True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.notation.structure import Step
from roofline.ops.basic import arithmetic
from roofline.ops.rules import Context, register, require_equal, require_multiple, show
from roofline.ops.windows import Padding, Window, each, windows
from roofline.sizes import Size, exact_div, is_zero, product
from roofline.work import Op, Tensor, Work


def convolution(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    batch: Size,
    positions: Size,
    out_per_group: Size,
    in_per_group: Size,
    kernel: Size,
    groups: Size = 1,
    transposed: bool = False,
    valid_taps: Size | None = None,
    only_valid: bool = False,
    fewer_adds: Size = 0,
    bias: Size = 0,
    compute: str | None = None,
    note: str = "",
) -> Op:
    """Convolve: every one of ``positions`` results sees ``kernel`` taps; of a transposed one, every input does.

    ::

        channels      = groups·out_per_group·in_per_group
        multiply-adds = batch·positions·kernel·channels
        valid         = batch·valid_taps·channels            taps that meet an element, padding left out
        FLOPs         = 2·multiply-adds − fewer_adds         2·valid − fewer_adds with only_valid
        m, n, k       = batch·positions, out_per_group, in_per_group·kernel
                        batch·positions, out_per_group·kernel, in_per_group            transposed
        bytes         = each operand read once, the result written once

    ``bias`` adds that many FLOPs on the vector unit. A depthwise convolution is counted on the matrix unit like the
    rest, where n is then 1 or little more.

    Source: Dumoulin and Visin, arXiv:1603.07285.
    """
    channels = groups * out_per_group * in_per_group
    macs = batch * positions * kernel * channels
    options = {"macs": macs}
    if valid_taps is not None:
        options["valid_macs"] = batch * valid_taps * channels
    dtype = compute or arithmetic(reads[:2])
    counted = options["valid_macs"] if only_valid else macs
    work = Work.flops("matrix", dtype, 2 * counted - fewer_adds)
    if not is_zero(bias):
        work += Work.flops("vector", dtype, bias)
    n, k = (out_per_group * kernel, in_per_group) if transposed else (out_per_group, in_per_group * kernel)
    dims = {"m": batch * positions, "n": n, "k": k, "batch": groups}
    return Op(name, "convolution", work, tuple(reads), tuple(writes), dims, note=note, options=options)


def convolve(
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None = None,
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

    Positions in the padding count, as is usual; with ``count_padding=False`` only taps that meet an element do, and
    results that meet none. ``exact`` counts one add fewer for each result. A bias adds 1 FLOP for each result.

    Source: shapes as in the PyTorch documentation of ConvNd.
    """
    own = windows(kernel.dims[:-2], stride, pad, dilation)
    B, *spatial, C = x.dims
    per_group, O = kernel.dims[-2:]  # noqa: E741
    _check_channels(C, per_group * groups, O, groups)
    results = [window.results(L) for window, L in zip(own, spatial, strict=True)]
    places = list(zip(own, spatial, results, strict=True))
    out = Tensor(f"conv({x.ident})", (B, *results, O), x.dtype)
    fewer: Size = 0
    if exact:
        fewer = B * O * product(r if count_padding else w.reached(L, r) for w, L, r in places)
    return convolution(
        name,
        (x, kernel) if bias is None else (x, kernel, bias),
        (out,),
        batch=B,
        positions=product(results),
        out_per_group=exact_div(O, groups),
        in_per_group=per_group,
        kernel=product(kernel.dims[:-2]),
        groups=groups,
        valid_taps=None if count_padding else product(w.taps(L, r) for w, L, r in places),
        only_valid=not count_padding,
        fewer_adds=fewer,
        bias=0 if bias is None else out.elements,
        compute=compute or arithmetic([tensor for tensor in (x, kernel, bias) if tensor is not None]),
        note=_note(own, count_padding),
    )


def convolve_transposed(
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None = None,
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

    Products that ``pad`` crops away count, as is usual; with ``count_padding=False`` they do not. ``exact`` counts one
    add fewer for each result that gets a product at all. The rest is as in :func:`convolve`.

    Source: shapes as in the PyTorch documentation of ConvTransposeNd.
    """
    own = windows(kernel.dims[:-2], stride, pad, dilation)
    B, *spatial, C = x.dims
    per_group = kernel.dims[-1]
    O = per_group * groups  # noqa: E741
    _check_channels(C, kernel.dims[-2], O, groups)
    extra = each("output_pad", output_pad, len(own), least=0)
    results = [window.spread(L, more) for window, L, more in zip(own, spatial, extra, strict=True)]
    places = list(zip(own, results, spatial, strict=True))
    if count_padding:
        uncropped = [window._replace(pad=0) for window in own]
        places = [(window, window.spread(L), L) for window, L in zip(uncropped, spatial, strict=True)]
    out = Tensor(f"conv_transpose({x.ident})", (B, *results, O), x.dtype)
    return convolution(
        name,
        (x, kernel) if bias is None else (x, kernel, bias),
        (out,),
        batch=B,
        positions=product(spatial),
        out_per_group=per_group,
        in_per_group=exact_div(C, groups),
        kernel=product(kernel.dims[:-2]),
        groups=groups,
        transposed=True,
        valid_taps=None if count_padding else product(window.taps(r, L) for window, r, L in places),
        only_valid=not count_padding,
        fewer_adds=B * O * product(window.covered(r, L) for window, r, L in places) if exact else 0,
        bias=0 if bias is None else out.elements,
        compute=compute or arithmetic([tensor for tensor in (x, kernel, bias) if tensor is not None]),
        note=_note(own, count_padding, "cropped"),
    )


@register("convolution")
def rule(step: Step, context: Context) -> Op:
    """Price a convolution; its kernel and bias are weights, the sizes of its result are worked out here."""
    x, kernel, *rest = step.inputs
    options: dict[str, Any] = {key: value for key, value in step.options.items() if key in _OPTIONS}
    groups = options.get("groups", 1)
    options["groups"] = context.sizes[groups] if isinstance(groups, str) else groups
    function = convolve_transposed if step.function == "conv_transpose" else convolve
    op = function(
        context.tensor(x),
        context.operand(kernel),
        context.operand(rest[0]) if rest else None,
        compute=context.arithmetic(step),
        exact=context.exact,
        count_padding=context.count_padding,
        name=step.text or step.function,
        **options,
    )
    return context.written_to(op, step.output)


_OPTIONS = ("stride", "pad", "dilation", "groups", "output_pad")


def _check_channels(C: Size, expected: Size, O: Size, groups: Size) -> None:  # noqa: E741
    require_multiple(C, groups, f"{show(C)} channels do not fall into {show(groups)} groups")
    require_multiple(O, groups, f"{show(O)} output channels do not fall into {show(groups)} groups")
    require_equal(C, expected, f"x has {show(C)} channels, the kernel is for {show(expected)}")


def _note(own: Sequence[Window], count_padding: bool, what: str = "padded") -> str:
    if all(window.pad == 0 for window in own):
        return ""
    return f"{what} positions of a convolution are {'counted' if count_padding else 'not counted'}"
