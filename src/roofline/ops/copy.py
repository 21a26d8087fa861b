"""Copies: bytes move, nothing is computed.

>>> op = copy(Tensor("x", (64, 4096), "bf16"), (1, 0))
>>> op.work, op.writes[0].dims, op.writes[0].traffic_bytes
(Work(), (4096, 64), 524288)
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.notation.structure import Step
from roofline.ops.context import Context, like
from roofline.ops.registry import register
from roofline.work import Op, Tensor


def copy(x: Tensor, order: Sequence[int] | None = None, out: Tensor | None = None, *, name: str = "transpose") -> Op:
    """Write ``x`` with its dimensions in another order: read once, written once, 0 FLOPs."""
    dims = x.dims if order is None else tuple(x.dims[axis] for axis in order)
    result = out or like(x, "transpose", dims)
    return Op(name, "copy", reads=(x,), writes=(result,), dims={"elements": x.elements})


@register("copy")
def rule(step: Step, context: Context) -> Op:
    """Price a transposition."""
    x, out = context.tensor(step.inputs[0]), context.tensor(step.output)
    return copy(x, out=out, name=step.text or step.function)
