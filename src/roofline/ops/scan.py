"""Running sums, products and maxima along one dimension, on the vector unit.

>>> scan("cumsum", Tensor("x", (4, 1024), "fp32")).work
Work(flops/vector/fp32: 4092)
"""

from __future__ import annotations

from roofline import dtypes
from roofline.notation.structure import Step
from roofline.ops.context import Context, like, positions
from roofline.ops.registry import register
from roofline.sizes import exact_div
from roofline.work import Op, Tensor, Work


def scan(
    function: str,
    x: Tensor,
    out: Tensor | None = None,
    *,
    axis: int = -1,
    compute: str | None = None,
    name: str | None = None,
) -> Op:
    """A running value along ``axis`` of n elements: n − 1 operations for each of elements/n rows.

    That is the work of the sequential scan, the least there is; parallel scans do up to twice as much (G. Blelloch,
    "Prefix sums and their applications", 1990).
    """
    elements = x.elements
    rows = exact_div(elements, x.dims[axis])
    dtype = compute or dtypes.arithmetic([x.dtype])
    return Op(
        name=name or function,
        kind="scan",
        work=Work.flops("vector", dtype, elements - rows),
        reads=(x,),
        writes=(out or like(x, function),),
        dims={"elements": elements, "rows": rows},
    )


@register("scan")
def rule(step: Step, context: Context) -> Op:
    """Price a scan along the label in ``over``."""
    return scan(
        step.function,
        context.tensor(step.inputs[0]),
        context.tensor(step.output),
        axis=positions(step)[0],
        compute=context.arithmetic(step),
        name=step.text,
    )
