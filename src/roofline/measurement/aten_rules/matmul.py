"""Matrix products, in the dispatcher's several forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from roofline.errors import InputError
from roofline.measurement.aten import Seen, broadcast, rule
from roofline.ops.contraction import contraction
from roofline.work import Op, Tensor

#: Products whose results have a format of their own.
RESULTS = {"_int_mm": "int32", "_scaled_mm": "bf16"}


def _product(a: Tensor, b: Tensor, name: str, batch: Sequence[int], m: int, n: int, k: int) -> Op:
    out = Tensor("out", (*batch, m, n), a.dtype)
    return contraction(a, b, out, m=m, n=n, k=k, batch=prod(batch), name=name)


@rule("mm", "addmm", "_addmm_activation", "_int_mm", "_scaled_mm")
def mm(seen: Seen) -> Op:
    """Two matrices; a third is added where the name says so."""
    a, b = (seen.tensor(1), seen.tensor(2)) if "addmm" in seen.plain else (seen.tensor(0), seen.tensor(1))
    op = _product(a, b, seen.name, (), a.dims[0], b.dims[1], a.dims[1])
    result = RESULTS.get(seen.plain)
    return op if result is None else replace(op, writes=(replace(op.writes[0], dtype=result),))


@rule("mv", "addmv", "addmv_")
def mv(seen: Seen) -> Op:
    """A matrix and a vector."""
    a, x = (seen.tensor(1), seen.tensor(2)) if "addmv" in seen.name else (seen.tensor(0), seen.tensor(1))
    (rows, inner), out = a.dims, Tensor("out", a.dims[:1], a.dtype)
    if x.dims != (inner,):
        raise InputError("a vector is as long as the rows of its matrix")
    return contraction(a, x, out, m=rows, n=1, k=inner, name=seen.name)


@rule("dot", "vdot")
def dot(seen: Seen) -> Op:
    """Two vectors."""
    a, b = seen.tensor(0), seen.tensor(1)
    (inner,), out = a.dims, Tensor("out", (), a.dtype)
    return contraction(a, b, out, m=1, n=1, k=inner, unit="vector", name=seen.name)


@rule("bmm", "baddbmm")
def bmm(seen: Seen) -> Op:
    """A batch of matrices each."""
    a, b = (seen.tensor(1), seen.tensor(2)) if seen.plain == "baddbmm" else (seen.tensor(0), seen.tensor(1))
    return _product(a, b, seen.name, a.dims[:1], a.dims[1], b.dims[2], a.dims[2])


@rule("matmul")
def matmul(seen: Seen) -> Op:
    """Operands of any number of dimensions."""
    a, b = seen.tensor(0), seen.tensor(1)
    if len(b.dims) == 2:
        return _product(a, b, seen.name, (), prod(a.dims[:-1]), b.dims[1], a.dims[-1])
    if len(a.dims) < 2 or len(b.dims) < 2:
        raise InputError("a product of these shapes has no rule")
    batch = broadcast([a.dims[:-2], b.dims[:-2]])
    return _product(a, b, seen.name, batch, a.dims[-2], b.dims[-1], a.dims[-1])


@rule("linear")
def linear(seen: Seen) -> Op:
    """A layer: the matrix stands turned round."""
    x, w = seen.tensor(0), seen.tensor(1)
    weight = Tensor(w.ident, w.dims, w.dtype, "weight")
    return _product(x, weight, seen.name, (), prod(x.dims[:-1]), w.dims[0], w.dims[1])
