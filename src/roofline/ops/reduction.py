"""Reductions: sum, mean, max and the like over some dimensions, on the vector unit.

>>> x = Tensor("x", (4, 1024), "fp32")
>>> reduction("sum", x, axes=(1,)).work
Work(flops/vector/fp32: 4092)
>>> reduction("mean", x, axes=(0, 1)).work
Work(flops/vector/fp32: 4096)
>>> reduction("max", x, axes=(1,)).writes[0].dims
(4,)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roofline import dtypes
from roofline.errors import InputError, suggest
from roofline.notation.structure import Step
from roofline.ops.context import Context, like, positions
from roofline.ops.registry import register
from roofline.sizes import Size, product
from roofline.work import Op, Tensor, Work

#: FLOPs of one result over n elements.
PER_RESULT: dict[str, Callable[[Size], Size]] = {
    "sum": lambda n: n - 1,
    "prod": lambda n: n - 1,
    "max": lambda n: n - 1,
    "min": lambda n: n - 1,
    "argmax": lambda n: n - 1,
    "argmin": lambda n: n - 1,
    "mean": lambda n: n,
    "norm": lambda n: 2 * n,
    "variance": lambda n: 4 * n,
    "logsumexp": lambda n: 4 * n,
}

#: Transcendentals among them.
TRANSCENDENTALS: dict[str, Callable[[Size], Size]] = {"norm": lambda n: 1, "logsumexp": lambda n: n + 1}

_INDEX_DTYPES = {"argmax": "int32", "argmin": "int32"}


def reduction(
    function: str,
    x: Tensor,
    out: Tensor | None = None,
    *,
    axes: Sequence[int],
    compute: str | None = None,
    name: str | None = None,
) -> Op:
    """Reduce ``x`` over ``axes``; each result comes from n elements.

    ::

        sum, prod, max, min, argmax, argmin   n − 1
        mean                                  n          n − 1 adds, 1 divide
        norm        √Σx²                      2n         n squares, n − 1 adds, 1 root
        variance    Σ(x − mean)²/n            4n         mean n, n subtracts, n squares, n − 1 adds, 1 divide
        logsumexp   max + log Σ exp(x − max)  4n         2·(n − 1) for max and sum, n subtracts, n exps, 1 log, 1 add

    These are exact counts; there is no rounder form.

    >>> reduction("median", Tensor("x", (8,), "bf16"), axes=(0,))
    Traceback (most recent call last):
    roofline.errors.InputError: unknown reduction 'median'; did you mean 'mean'?
    """
    if function not in PER_RESULT:
        raise InputError(f"unknown reduction {function!r}", hint=suggest(function, PER_RESULT, what="reductions"))
    along = {axis % len(x.dims) for axis in axes}
    n = product(x.dims[axis] for axis in along)
    kept = [size for axis, size in enumerate(x.dims) if axis not in along]
    results = product(kept)
    special = TRANSCENDENTALS.get(function, _none)
    dtype = compute or dtypes.arithmetic([x.dtype])
    return Op(
        name=name or function,
        kind="reduction",
        work=Work.flops("vector", dtype, results * PER_RESULT[function](n)),
        reads=(x,),
        writes=(out or like(x, function, kept, _INDEX_DTYPES.get(function)),),
        dims={"elements": results * n, "results": results, "transcendentals": results * special(n)},
    )


def _none(n: Size) -> Size:
    return 0


@register("reduction")
def rule(step: Step, context: Context) -> Op:
    """Price a reduction over the labels in ``over``."""
    return reduction(
        step.function,
        context.tensor(step.inputs[0]),
        context.tensor(step.output),
        axes=positions(step),
        compute=context.arithmetic(step),
        name=step.text,
    )
