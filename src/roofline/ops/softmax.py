"""Softmax and log-softmax along one or more dimensions.

>>> x = Tensor("x", (8, 32, 2048, 2048), "fp32")
>>> op = softmax(x)
>>> op.work.total("flops") == 5 * 8 * 32 * 2048 * 2048
True
>>> softmax(Tensor("x", (4, 10), "fp32"), exact=True).work
Work(flops/vector/fp32: 192)
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline import dtypes
from roofline.notation.structure import Step
from roofline.ops.context import Context, like, positions
from roofline.ops.registry import register
from roofline.sizes import Size, product
from roofline.work import Op, Tensor, Work

#: Softmax FLOPs for each element: max, subtract, exp, sum, divide.
PER_ELEMENT = 5


def softmax(
    x: Tensor,
    out: Tensor | None = None,
    *,
    axes: Sequence[int] = (-1,),
    log: bool = False,
    compute: str | None = None,
    exact: bool = False,
    name: str | None = None,
) -> Op:
    """exp(x − max x) / Σ exp(x − max x) over rows of n elements, on the vector unit; x is read and written once.

    ::

        FLOPs = 5·elements                    max, subtract, exp, sum, divide
              = 5·elements − 2·rows           exact: max and sum of n elements take n − 1
        log   : x − max x − log Σ exp(x − max x), that is 5·elements + rows; exact 5·elements − rows

    Source: the stable three-pass form, as in Milakov and Gimelshein, "Online normalizer calculation for softmax",
    2018, section 2.
    """
    n = product(x.dims[axis] for axis in axes)
    rows = _rows(x, axes)
    logs = rows if log else 0
    function = "log_softmax" if log else "softmax"
    return Op(
        name=name or function,
        kind="softmax",
        work=Work.flops(
            "vector",
            compute or dtypes.arithmetic([x.dtype]),
            PER_ELEMENT * rows * n + logs - (2 * rows if exact else 0),
        ),
        reads=(x,),
        writes=(out or like(x, function),),
        dims={"elements": rows * n, "rows": rows, "transcendentals": rows * n + logs},
    )


@register("softmax")
def rule(step: Step, context: Context) -> Op:
    """Price a softmax step along the labels in ``over``."""
    return softmax(
        context.tensor(step.inputs[0]),
        context.tensor(step.output),
        axes=positions(step),
        log=step.function == "log_softmax",
        compute=context.arithmetic(step),
        exact=context.exact,
        name=step.text,
    )


def _rows(x: Tensor, axes: Sequence[int]) -> Size:
    along = {axis % len(x.dims) for axis in axes}
    return product(size for axis, size in enumerate(x.dims) if axis not in along)
