"""Contractions: matrix products, batched products, dot products.

>>> op = matmul(m=64, n=8192, k=8192, b="int8")
>>> op.work
Work(flops/matrix/bf16: 8589934592)
>>> [t.traffic_bytes for t in (*op.reads, *op.writes)]
[1048576, 67108864, 1048576]
>>> matmul(m=64, n=8192, k=8192, exact=True).work.total("flops") == 64 * 8192 * (2 * 8192 - 1)
True
>>> dot(k=1024, exact=True).work
Work(flops/vector/bf16: 2047)
>>> from roofline.sizes import symbol
>>> matmul(symbol("B"), symbol("F"), symbol("D")).work.total("flops")
2*B*D*F
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline import dtypes
from roofline.notation.structure import Step
from roofline.ops.basic import arithmetic
from roofline.ops.rules import Context, register
from roofline.sizes import Size, is_one, product
from roofline.work import Op, Tensor, Work


def contraction(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    m: Size,
    n: Size,
    k: Size,
    batch: Size = 1,
    unit: str | None = None,
    compute: str | None = None,
    exact: bool = False,
    note: str = "",
) -> Op:
    """Contract the first two of ``reads``, [batch, m, k] and [batch, k, n], into [batch, m, n].

    ::

        FLOPs = 2·batch·m·n·k             a multiply and an add for every product
              = batch·m·n·(2k − 1)        exact: k products need k − 1 adds
        bytes = each operand read once, the result written once

    ``m``, ``n``, ``k`` and ``batch`` are products of sizes, whatever the order of the tensors' dimensions. Further
    ``reads`` (a bias) are added, 1 FLOP a result. A complex product is 6 real FLOPs and a complex add 2 (2 and 2 where
    one operand is real). Dot products (m = n = 1) run on the vector unit, as they leave a matrix unit nothing to reuse.

    Source: "How To Scale Your Model", chapter 1; Golub and Van Loan, Matrix Computations, section 1.1.

    >>> x, y = Tensor("x", (64, 8192), "bf16"), Tensor("y", (64, 8192), "bf16")
    >>> w = Tensor("w", (8192, 8192), "int8", "weight")
    >>> contraction("linear", (x, w), (y,), m=64, n=8192, k=8192).work
    Work(flops/matrix/bf16: 8589934592)
    """
    multiply, add = real_flops(reads[0].dtype, reads[1].dtype)
    each = (multiply + add) * k
    flops = product((m, n, each - add if exact else each, batch))
    unit = unit or ("vector" if is_one(m) and is_one(n) else "matrix")
    work = Work.flops(unit, compute or arithmetic(reads[:2]), flops)
    if len(reads) > 2:
        work += Work.flops("vector", arithmetic(writes), product((m, n, batch)))
    dims = {"m": m, "n": n, "k": k, "batch": batch}
    return Op(name, "contraction", work, tuple(reads), tuple(writes), dims, note=note)


def matmul(
    m: Size,
    n: Size,
    k: Size,
    batch: Size = 1,
    *,
    a: str = "bf16",
    b: str = "bf16",
    out: str | None = None,
    compute: str | None = None,
    exact: bool = False,
    name: str = "matmul",
) -> Op:
    """Multiply activations [batch, m, k] in dtype ``a`` by weights [batch, k, n] in dtype ``b``.

    The result is in the wider operand's format unless ``out`` names another. See :func:`contraction`.

    >>> matmul(8, 16, 32, batch=2).dims
    {'m': 8, 'n': 16, 'k': 32, 'batch': 2}
    """
    return contraction(
        name,
        (Tensor("a", (batch, m, k), a), Tensor("b", (batch, k, n), b, "weight")),
        (Tensor("out", (batch, m, n), out or dtypes.storage([a, b])),),
        m=m,
        n=n,
        k=k,
        batch=batch,
        unit="matrix",
        compute=compute,
        exact=exact,
    )


def dot(
    k: Size,
    batch: Size = 1,
    *,
    a: str = "bf16",
    b: str = "bf16",
    out: str | None = None,
    compute: str | None = None,
    exact: bool = False,
    name: str = "dot",
) -> Op:
    """Multiply ``batch`` pairs of vectors of ``k`` elements, on the vector unit.

    >>> op = dot(1024)
    >>> op.work.total("flops"), sum(t.traffic_bytes for t in (*op.reads, *op.writes))
    (2048, 4098)
    """
    return contraction(
        name,
        (Tensor("a", (batch, k), a), Tensor("b", (batch, k), b)),
        (Tensor("out", (batch,), out or dtypes.storage([a, b])),),
        m=1,
        n=1,
        k=k,
        batch=batch,
        unit="vector",
        compute=compute,
        exact=exact,
    )


@register("contraction")
def rule(step: Step, context: Context) -> Op:
    """Price a contraction: labels kept from the left are m, from the right n, contracted ones k."""
    left, right = step.inputs
    kept = [set(shape.labels) - {*step.contracted, *step.batch} for shape in step.inputs]
    is_dot = not any(kept)
    is_weight = not is_dot and not step.batch and left.ident != right.ident
    return contraction(
        step.text or "matmul",
        (context.tensor(left), context.operand(right) if is_weight else context.tensor(right)),
        (context.tensor(step.output),),
        m=context.size(label for label in left.labels if label in kept[0]),
        n=context.size(label for label in right.labels if label in kept[1]),
        k=context.size(step.contracted),
        batch=context.size(step.batch),
        compute=context.arithmetic(step),
        exact=context.exact,
        unit="vector" if is_dot else "matrix",
    )


def real_flops(a: str, b: str) -> tuple[int, int]:
    """Real FLOPs of one product of two formats and of one add of such products.

    >>> real_flops("bf16", "int8"), real_flops("complex64", "complex64")
    ((1, 1), (6, 2))
    """
    how_many = [dtypes.get(name).family for name in (a, b)].count("complex")
    return ((1, 1), (2, 2), (6, 2))[how_many]
