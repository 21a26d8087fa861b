"""Matrix products, in the dispatcher's several forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from roofline.errors import InputError
from roofline.measurement.aten import Seen, broadcast, rule
from roofline.ops import pricing
from roofline.work import Op, Tensor

#: Products whose results have a format of their own.
RESULTS = {"_int_mm": "int32", "_scaled_mm": "bf16"}


def _product(
    a: Tensor, b: Tensor, name: str, batch: Sequence[int], m: int, n: int, k: int, added: Sequence[Tensor] = ()
) -> Op:
    """A product, and what is ``added`` to it: read, and 1 FLOP a result."""
    out = Tensor("out", (*batch, m, n), a.dtype)
    return pricing.matmul(name, (a, b, *added), (out,), m=m, n=n, k=k, batch=prod(batch))


#: Products to which their first argument is added, unless the factor β of it is 0.
ADDED = ("addmm", "addmm_", "_addmm_activation", "addmv", "addmv_", "baddbmm", "baddbmm_", "addbmm", "addbmm_")


def _operands(seen: Seen) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Both factors, and what is added to their product."""
    if seen.plain not in ADDED:
        return seen.tensor(0), seen.tensor(1), ()
    return seen.tensor(1), seen.tensor(2), seen.some(0) if seen.value(3, 1) != 0 else ()


@rule("mm", "addmm", "addmm_", "_addmm_activation", "_int_mm", "_scaled_mm")
def mm(seen: Seen) -> Op:
    """Two matrices; a third is added where the name says so."""
    a, b, added = _operands(seen)
    op = _product(a, b, seen.name, (), a.dims[0], b.dims[1], a.dims[1], added)
    result = RESULTS.get(seen.plain)
    return op if result is None else replace(op, writes=(replace(op.writes[0], dtype=result),))


@rule("mv", "addmv", "addmv_")
def mv(seen: Seen) -> Op:
    """A matrix and a vector."""
    a, x, added = _operands(seen)
    (rows, inner), out = a.dims, Tensor("out", a.dims[:1], a.dtype)
    if x.dims != (inner,):
        raise InputError("a vector is as long as the rows of its matrix")
    return pricing.matmul(seen.name, (a, x, *added), (out,), m=rows, n=1, k=inner)


@rule("dot", "vdot")
def dot(seen: Seen) -> Op:
    """Two vectors."""
    a, b = seen.tensor(0), seen.tensor(1)
    (inner,), out = a.dims, Tensor("out", (), a.dtype)
    return pricing.matmul(seen.name, (a, b), (out,), m=1, n=1, k=inner)


@rule("bmm", "baddbmm", "baddbmm_", "addbmm", "addbmm_")
def bmm(seen: Seen) -> Op:
    """A batch of matrices each; the sum of a batch is one matrix."""
    a, b, added = _operands(seen)
    op = _product(a, b, seen.name, a.dims[:1], a.dims[1], b.dims[2], a.dims[2], added)
    out = op.writes[0]
    return replace(op, writes=(replace(out, dims=out.dims[1:]),)) if seen.plain.startswith("addbmm") else op


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
    return _product(x, weight, seen.name, (), prod(x.dims[:-1]), w.dims[0], w.dims[1], seen.some(2))
