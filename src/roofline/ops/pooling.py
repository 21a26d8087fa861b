"""Pooling: the largest element or the sum of each window, on the vector unit.

>>> op = pool(Tensor("x", (1, 112, 112, 64), "bf16"), window=3, stride=2, pad=1)
>>> op.writes[0].dims, op.work
((1, 56, 56, 64), Work(flops/vector/bf16: 1605632))
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline import dtypes
from roofline.notation.structure import Step
from roofline.ops.context import Context, like
from roofline.ops.registry import register
from roofline.ops.windows import Padding, each, windows
from roofline.sizes import product
from roofline.work import Op, Tensor, Work


def pool(
    x: Tensor,
    out: Tensor | None = None,
    *,
    window: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    pad: Padding | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    compute: str | None = None,
    count_padding: bool = True,
    name: str = "pool",
) -> Op:
    """Pool x [B, spatial…, C]; the stride is the window unless given.

    ::

        FLOPs = B·C·Π results·(Π window − 1)            comparisons, or adds
              = B·C·(Π taps − Π results)                padding not counted: taps and results that meet an element

    Averaging divides once more for each result, which is not counted: one operation for each window element but the
    first serves both.
    """
    B, *spatial, C = x.dims
    size = each("window", window, len(spatial))
    own = windows(size, size if stride is None else stride, pad, dilation)
    results = [w.results(L) for w, L in zip(own, spatial, strict=True)]
    places = list(zip(own, spatial, results, strict=True))
    outcomes = product(r if count_padding else w.reached(L, r) for w, L, r in places)
    taps = product(r * w.k if count_padding else w.taps(L, r) for w, L, r in places)
    dtype = compute or dtypes.arithmetic([x.dtype])
    return Op(
        name=name,
        kind="pooling",
        work=Work.flops("vector", dtype, B * C * (taps - outcomes)),
        reads=(x,),
        writes=(out or like(x, "pool", (B, *results, C)),),
        dims={"results": B * C * product(results), "window": product(size)},
    )


@register("pooling")
def rule(step: Step, context: Context) -> Op:
    """Price a pooling step; the sizes of its result are worked out here."""
    options = {key: step.options[key] for key in ("window", "stride", "pad", "dilation") if key in step.options}
    op = pool(
        context.tensor(step.inputs[0]),
        compute=context.arithmetic(step),
        count_padding=context.count_padding,
        name=step.text or step.function,
        **options,
    )
    return context.written_to(op, step.output)
