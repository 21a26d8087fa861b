"""Layer, RMS, batch and group norm, on the vector unit.

>>> x = Tensor("x", (32, 4096), "bf16")
>>> scale, shift = Tensor("g", (4096,), "bf16", "weight"), Tensor("b", (4096,), "bf16", "weight")
>>> norm("rms_norm", x, scale).work.total("flops") == 4 * 32 * 4096 + 2 * 32
True
>>> norm("layer_norm", x, scale, shift).work.total("flops") == 7 * 32 * 4096 + 2 * 32
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from roofline import dtypes
from roofline.errors import InputError, suggest
from roofline.notation.structure import Step
from roofline.ops.checks import require_multiple, show
from roofline.ops.context import Context, like, positions, weight_or_activation
from roofline.ops.registry import register
from roofline.sizes import Size, product
from roofline.work import Op, Tensor, Work


class Cost(NamedTuple):
    """FLOPs without scale and shift: for each element, and for each group of n elements normalised together."""

    element: int
    group: int
    roots: int


COSTS: dict[str, Cost] = {
    "layer_norm": Cost(5, 2, 1),
    "group_norm": Cost(5, 2, 1),
    "rms_norm": Cost(3, 2, 1),
    "batch_norm": Cost(2, 0, 0),
}


def norm(
    function: str,
    x: Tensor,
    *affine: Tensor,
    out: Tensor | None = None,
    axes: Sequence[int] = (-1,),
    groups: Size = 1,
    compute: str | None = None,
    name: str | None = None,
) -> Op:
    """Normalise ``x`` over ``axes``; ``affine`` is the scale, then the shift, each adding 1 FLOP an element.

    ::

        layer_norm, group_norm   5·elements + 2·rows    mean: n − 1 adds, 1 divide; variance: n subtracts, n squares,
                                                        n − 1 adds, 1 divide; + ε, 1/√; n multiplies
        rms_norm                 3·elements + 2·rows    n squares, n − 1 adds, 1 divide; + ε, 1/√; n multiplies
        batch_norm               2·elements             inference: statistics, scale and shift fold into one multiply
                                                        and one add

    rows is elements/n, where n elements are normalised together: the product of ``axes``, split into ``groups``.
    Sources: Ba et al., arXiv:1607.06450; Zhang and Sennrich, arXiv:1910.07467; Ioffe and Szegedy, arXiv:1502.03167;
    Wu and He, arXiv:1803.08494.
    """
    if function not in COSTS:
        raise InputError(f"unknown norm {function!r}", hint=suggest(function, COSTS, what="norms"))
    cost = COSTS[function]
    require_multiple(x.dims[-1], groups, f"{show(x.dims[-1])} channels do not fall into {show(groups)} groups")
    along = {axis % len(x.dims) for axis in axes}
    rows = product(size for axis, size in enumerate(x.dims) if axis not in along) * groups
    each = cost.element + (0 if function == "batch_norm" else len(affine))
    dtype = compute or dtypes.arithmetic([tensor.dtype for tensor in (x, *affine)])
    elements = x.elements
    return Op(
        name=name or function,
        kind="norm",
        work=Work.flops("vector", dtype, elements * each + cost.group * rows),
        reads=(x, *affine),
        writes=(out or like(x, function),),
        dims={"elements": elements, "rows": rows, "transcendentals": cost.roots * rows},
    )


@register("norm")
def rule(step: Step, context: Context) -> Op:
    """Price a norm over the labels in ``over``; a scale and a shift from outside are weights."""
    x, *affine = step.inputs
    return norm(
        step.function,
        context.tensor(x),
        *(context.tensor(shape, weight_or_activation(shape)) for shape in affine),
        out=context.tensor(step.output),
        axes=positions(step),
        groups=step.options.get("groups", 1),
        compute=context.arithmetic(step),
        name=step.text,
    )
