"""Matrix products: dense, grouped, sparse and quantised, as a user calls them and as the dispatcher runs them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.errors import InputError
from roofline.programs.pytorch.registry import Call, Priced, TensorOperand, is_operand, pricing, rule
from roofline.sizes import Size, exact_div, maximum, minimum, product
from roofline.work import Op, Tensor, Work


@rule("mm", "_int_mm", "_scaled_mm", "_scaled_mm_v2", "_weight_int8pack_mm", "_weight_int4pack_mm",
      "_dyn_quant_matmul_4bit", "_weight_int4pack_mm_for_cpu", "_weight_int4pack_mm_with_scales_and_zeros")  # fmt: skip
def mm(call: Call) -> Priced:
    """Multiply [m, k] by [k, n]; scales and biases are read too, and cost a FLOP a result each."""
    a, b = call.operands(0, 1)
    m, n = call.results[0].shape[-2:]
    if is_sparse(a, b):
        return sparse_product(call, a, b)
    reads = (*call.read(a, b), *call.read_without(a, b))
    return pricing.contraction(call.name, reads, call.writes, m=m, n=n, k=a.shape[-1])


@rule("bmm")
def bmm(call: Call) -> Priced:
    """Multiply [b, m, k] by [b, k, n]."""
    a, b = call.operands(0, 1)
    batch, m, k = a.shape
    return pricing.contraction(call.name, call.read(a, b), call.writes, m=m, n=b.shape[-1], k=k, batch=batch)


@rule("addmm", "baddbmm", "addmv", "addbmm", "_addmm_activation")
def addmm(call: Call) -> Priced:
    """Multiply the second and third arguments, add the first."""
    bias, a, b = call.operands(0, 1, 2)
    if is_sparse(a, b):
        return sparse_product(call, a, b, bias)
    reads = (*call.read(a, b), *(call.read(bias) if call.get("beta", 1) != 0 else ()))
    batch = a.shape[0] if a.rank == 3 else 1
    m, n = a.shape[-2], (b.shape[-1] if b.rank > 1 else 1)
    return pricing.contraction(call.name, reads, call.writes, m=m, n=n, k=a.shape[-1], batch=batch)


@rule("mv")
def mv(call: Call) -> Priced:
    """Multiply [m, k] by [k]."""
    a, b = call.operands(0, 1)
    if is_sparse(a):
        return sparse_product(call, a, b)
    return pricing.contraction(call.name, call.read(a, b), call.writes, m=a.shape[0], n=1, k=a.shape[1])


@rule("dot", "vdot")
def dot(call: Call) -> Priced:
    """Multiply [k] by [k]."""
    a, b = call.operands(0, 1)
    return pricing.contraction(call.name, call.read(a, b), call.writes, m=1, n=1, k=a.shape[0])


@rule("linear")
def linear(call: Call) -> Priced:
    """Multiply [.., k] by [n, k] transposed, add a bias."""
    x, weight = call.operands(0, 1)
    bias = call.operand("bias")
    if is_sparse(x, weight):
        turned = replace(weight, shape=weight.shape[::-1], values=None if weight.values is None else weight.values.t())
        return sparse_product(call, x, turned, bias)
    n = weight.shape[0] if weight.rank > 1 else 1
    reads = call.read(x, weight, bias)
    return pricing.contraction(call.name, reads, call.writes, m=product(x.shape[:-1]), n=n, k=x.shape[-1])


@rule("matmul")
def matmul(call: Call) -> Priced:
    """Multiply as numpy.matmul does: broadcasting copies nothing."""
    a, b = call.operands(0, 1)
    m = a.shape[-2] if a.rank > 1 else 1
    n = b.shape[-1] if b.rank > 1 else 1
    if b.rank <= 2:
        m, batch = m * product(a.shape[:-2]), 1
    else:
        batch = exact_div(call.results[0].elements, maximum(1, m * n))
    return pricing.contraction(call.name, call.read(a, b), call.writes, m=m, n=n, k=a.shape[-1], batch=batch)


@rule("_trilinear")
def trilinear(call: Call) -> Priced:
    """Two products one after the other: the first two operands over what the third does not have, then the third."""
    first, second, third = call.operands(0, 1, 2)
    lacking, summed = [set(dims) for dims in call.args[3:6]], set(call.args[6])
    rank = first.rank + len(lacking[0])
    size: dict[int, Size] = {}
    for tensor, missing in zip((first, second, third), lacking, strict=True):
        size |= dict(zip(sorted(set(range(rank)) - missing), tensor.shape, strict=True))
    kept = set(range(rank)) - summed
    k = product(size[d] for d in summed & lacking[2])
    n = product(size[d] for d in summed - lacking[2])
    m = product(size[d] for d in kept)
    reads = call.read(first, second, third)
    op = pricing.contraction("bilinear", reads[:2], call.writes, m=m, n=n, k=k)
    macs = m * n * (k + 1)
    work = Work.flops("matrix", pricing.arithmetic(reads), 2 * macs)
    return replace(op, reads=reads, work=work, options={"macs": macs})


@rule("_grouped_mm", "_scaled_grouped_mm")
def grouped_mm(call: Call) -> Priced:
    """Every row meets the matrix of one group: [t, k] by [g, k, n] is t·k·n multiply-adds, whatever the groups.

    Of g matrices t rows meet at most t. With both operands two-dimensional the contracted size is what is split: m·n·t.
    Three by three is batched.
    """
    a, b = call.operands(0, 1)
    (first,), (second,) = call.read(a), call.read(b)
    if a.rank == 3 and b.rank == 3:
        sizes = {"batch": a.shape[0], "m": a.shape[1], "k": a.shape[2], "n": b.shape[2]}
    else:
        sizes = {"m": a.shape[-2], "k": a.shape[-1], "n": b.shape[-1]}
        if b.rank == 3:
            second = _met(second, sizes["m"], sizes["k"] * sizes["n"])
        elif a.rank == 3:
            first = _met(first, sizes["n"], sizes["m"] * sizes["k"])
    op = pricing.contraction(call.name, (first, second), call.writes, **sizes)
    return replace(op, reads=(*op.reads, *call.read_without(a, b)))


def _met(matrices: Tensor, rows: Size, each: Size) -> Tensor:
    """Matrices of ``each`` elements, at most one for every row of the other operand."""
    return replace(matrices, touched=minimum(rows * each, matrices.elements))


@rule("_sparse_mm", "_sparse_addmm", "sparse_sampled_addmm", "_sparse_semi_structured_mm",
      "_sparse_semi_structured_linear", "_sparse_semi_structured_addmm", "hspmm", "sspaddmm")  # fmt: skip
def product_with_sparse(call: Call) -> Priced:
    """A product with a sparse operand, of which only stored elements count."""
    *bias, left, right = [item for item in call.args if is_operand(item)]
    if call.name != "sparse_sampled_addmm":
        return sparse_product(call, left, right, *bias)
    sampled = stored_elements(bias[0])
    op = pricing.contraction(call.name, call.read(left, right), call.writes, m=sampled, n=1, k=left.shape[-1])
    return replace(op, reads=(*op.reads, *call.read(*bias)))


@rule("_sparse_mm_reduce_impl")
def reduced_product(call: Call) -> Priced:
    """A product with a sparse matrix whose terms are compared or averaged rather than added."""
    left, right = call.operands(0, 1)
    return sparse_product(call, left, right)


def is_sparse(*operands: TensorOperand | None) -> bool:
    """Whether any of them stores only some of its elements."""
    return any(item is not None and item.is_sparse for item in operands)


def sparse_product(call: Call, left: TensorOperand, right: TensorOperand, *added: TensorOperand | None) -> Op:
    """A product of two matrices of which at least one is sparse; what is added is read unless β is 0."""
    bias = call.read(*added) if call.get("beta", 1) != 0 else ()
    rows, columns = _meetings(left, right)
    reads = (*call.read(left, right), *bias)
    op = pricing.contraction(call.name.strip("_"), reads[:2], call.writes, m=rows, n=columns, k=1)
    if not bias:
        return op
    sums = Work.flops("vector", pricing.arithmetic(call.writes), call.results[0].elements)
    return replace(op, reads=reads, work=op.work + sums)


def _meetings(left: TensorOperand, right: TensorOperand) -> tuple[Size, Size]:
    """Multiply-adds, as stored elements of one side and how many of the other each of them meets."""
    if not left.is_sparse:
        return product(left.shape[:-1]), stored_elements(right)
    if not right.is_sparse:
        return stored_elements(left), right.shape[-1] if right.rank > 1 else 1
    stored_elements(left), stored_elements(right)
    columns = left.values.to_sparse_coo()._indices()[1].bincount(minlength=left.shape[1])
    rows = right.values.to_sparse_coo()._indices()[0].bincount(minlength=right.shape[0])
    return int((columns * rows).sum()), 1


def stored_elements(operand: TensorOperand) -> int:
    """Elements that a sparse matrix stores, whole blocks where it has blocks."""
    values: Any = operand.values
    if values is None:
        message = f"how many elements a sparse tensor of {list(operand.shape)} stores is not known on shapes alone"
        raise InputError(message, hint="give it as an input, or hold it, with values on the CPU")
    return int((values._values() if str(values.layout) == "torch.sparse_coo" else values.values()).numel())
