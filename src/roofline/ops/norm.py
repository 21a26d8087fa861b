"""Layer, RMS, batch and group norm, on the vector unit.

>>> x = Tensor("x", (32, 4096), "bf16")
>>> scale, shift = Tensor("g", (4096,), "bf16", "weight"), Tensor("b", (4096,), "bf16", "weight")
>>> sizes = {"elements": 32 * 4096, "rows": 32}
>>> norm("rms_norm", [x, scale], [x], **sizes, affine=1).work.total("flops") == 4 * 32 * 4096 + 2 * 32
True
>>> norm("layer_norm", [x, scale, shift], [x], **sizes, affine=2).work.total("flops") == 7 * 32 * 4096 + 2 * 32
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from roofline.errors import InputError, suggest
from roofline.notation.structure import Step
from roofline.ops.basic import vector
from roofline.ops.rules import Context, register, require_multiple, show_size
from roofline.sizes import Size
from roofline.work import Op, Tensor


class Cost(NamedTuple):
    """FLOPs without scale and shift: for each element, and for each group of n elements normalised together."""

    element: int
    group: int
    roots: int


#: FLOPs for each element of the gradient of a norm: Σ g·x̂, Σ g, the gradient of x (5), of scale and shift (2).
BACKWARD_PER_ELEMENT = 9

COSTS: dict[str, Cost] = {
    "layer_norm": Cost(5, 2, 1),
    "group_norm": Cost(5, 2, 1),
    "rms_norm": Cost(3, 2, 1),
    "batch_norm": Cost(2, 0, 0),
}


def norm(
    function: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    elements: Size,
    rows: Size,
    affine: int,
    added: int = 0,
    name: str | None = None,
    compute: str | None = None,
) -> Op:
    """Normalise ``elements`` in ``rows``; ``affine`` counts scale and shift, each adding 1 FLOP an element.

    ::

        layer_norm, group_norm   5·elements + 2·rows    mean: n − 1 adds, 1 divide; variance: n subtracts, n squares,
                                                        n − 1 adds, 1 divide; + ε, 1/√; n multiplies
        rms_norm                 3·elements + 2·rows    n squares, n − 1 adds, 1 divide; + ε, 1/√; n multiplies
        batch_norm               2·elements             inference: statistics, scale and shift fold into one multiply
                                                        and one add

    A row is the n = elements/rows elements that are normalised together; ``added`` FLOPs more are done to each element.
    A batch norm that takes the statistics of the batch costs what a layer norm does.

    Sources: Ba et al., arXiv:1607.06450; Zhang and Sennrich, arXiv:1910.07467; Ioffe and Szegedy, arXiv:1502.03167;
    Wu and He, arXiv:1803.08494.

    >>> norm("rmsnorm", [], [], elements=8, rows=1, affine=0)
    Traceback (most recent call last):
    roofline.errors.InputError: unknown norm 'rmsnorm'; did you mean 'rms_norm'?
    """
    if function not in COSTS:
        raise InputError(f"unknown norm {function!r}", hint=suggest(function, COSTS, what="norms"))
    cost = COSTS[function]
    stored = function == "batch_norm"
    op = vector(
        name or function,
        "norm",
        reads,
        writes,
        flops=elements * (cost.element + added + (0 if stored else affine)) + cost.group * rows,
        elements=elements,
        transcendentals=cost.roots * rows,
        one_each=elements,
        dims={"rows": rows, "affine": affine, "statistics": int(not stored)},
        compute=compute,
    )
    return replace(op, options={**op.options, "function": function})


def norm_backward(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, elements: Size) -> Op:
    """The gradient of a norm, of its scale and of its shift: :data:`BACKWARD_PER_ELEMENT` FLOPs an element."""
    flops = BACKWARD_PER_ELEMENT * elements
    return vector(name, "norm", reads, writes, flops=flops, elements=elements, one_each=elements)


@register("norm")
def rule(step: Step, context: Context) -> Op:
    """Price a norm over the labels in ``over``; a scale and a shift from outside are weights."""
    x, *affine = step.inputs
    groups, channels = step.options.get("groups", 1), context.sizes[x.labels[-1]]
    require_multiple(channels, groups, f"{show_size(channels)} channels do not fall into {show_size(groups)} groups")
    read = context.tensor(x)
    return norm(
        step.function,
        (read, *(context.operand(shape) for shape in affine)),
        [context.tensor(step.output)],
        elements=read.elements,
        rows=context.rows(step) * groups,
        affine=len(affine),
        compute=context.arithmetic(step),
        name=step.text,
    )
