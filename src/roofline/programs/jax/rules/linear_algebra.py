"""Factorisations by their counts, and Fourier transforms: Van Loan, Computational Frameworks for the FFT, 1992, 1.4."""

from __future__ import annotations

from dataclasses import replace

from roofline.ops import linear_algebra as counts
from roofline.programs.jax.registry import Call, Priced, pricing, rule
from roofline.sizes import Size, exact_div, log2, maximum, minimum, product


@rule("cholesky")
def cholesky(call: Call) -> Priced:
    """Each matrix of a batch."""
    return _counted(call, counts.cholesky(call.ins[0].shape[-1]))


@rule("lu")
def lu(call: Call) -> Priced:
    """Each matrix of a batch, wide or tall."""
    return _counted(call, counts.lu(*_tall(call)))


@rule("geqrf", "geqp3")
def triangle(call: Call) -> Priced:
    """The triangle and the reflections."""
    return _counted(call, counts.qr(*_tall(call)))


@rule("qr")
def qr(call: Call) -> Priced:
    """The triangle, then the orthogonal columns that are wanted."""
    m, n = call.ins[0].shape[-2:]
    wanted = counts.square_q(m, minimum(m, n)) if call.params.get("full_matrices") else counts.qr(m, minimum(m, n))
    return _counted(call, counts.qr(*_tall(call)) + wanted)


@rule("householder_product")
def householder(call: Call) -> Priced:
    """All orthogonal columns, or as many as there are reflections."""
    m, n = call.ins[0].shape[-2:]
    return _counted(call, counts.square_q(m, call.ins[1].shape[-1]) if m == n else counts.qr(m, n))


@rule("triangular_solve")
def triangular_solve(call: Call) -> Priced:
    """Each right-hand side of each matrix."""
    n = call.ins[0].shape[-1]
    flops = counts.triangular_solve(n, exact_div(call.ins[1].size, n))
    return pricing.vector(call.name, "linalg", call.reads, call.writes, flops=flops, elements=call.outs[0].size)


@rule("hessenberg", "tridiagonal")
def reduced(call: Call) -> Priced:
    """Reflections from both sides: 10n³/3, and 4n³/3 for a symmetric matrix, which stays so (sections 7.4.3, 8.3.1)."""
    n = call.ins[0].shape[-1]
    return _counted(call, exact_div((10 if call.name == "hessenberg" else 4) * n * n * n, 3))


@rule("tridiagonal_solve")
def band_solve(call: Call) -> Priced:
    """Elimination down and substitution up: 3 FLOPs a row of the matrix, and 5 for each right-hand side of it."""
    rows, size = call.ins[0].size, call.outs[0].size
    flops = 3 * rows + 5 * size
    return pricing.vector(call.name, "linalg", call.reads, call.writes, flops=flops, elements=size)


@rule("bcoo_dot_general", "bcsr_dot_general")
def sparse_product(call: Call) -> Priced:
    """Every stored element of a sparse matrix meets the columns, or the rows, of a dense one."""
    (_, right), (batch, _) = call.params["dimension_numbers"]
    dense = call.ins[-1]
    if len(call.ins) != (3 if call.name.startswith("bcoo") else 4) or batch or len(call.ins[0].shape) != 1:
        return pricing.unknown(call.name, call.reads, call.writes, "a sparse product in batches")
    n = exact_div(dense.size, product(dense.shape[d] for d in right))
    op = pricing.contraction(call.name, call.read(0, len(call.ins) - 1), call.writes, m=call.ins[0].size, n=n, k=1)
    return replace(op, reads=call.reads)


@rule("eigh", "eig", "svd", "schur")
def iterated(call: Call) -> Priced:
    """Worked out until it converges."""
    return pricing.unknown(call.name, call.reads, call.writes, counts.ITERATES)


@rule("lu_pivots_to_permutation")
def permuted(call: Call) -> Priced:
    """Turn swaps into a permutation."""
    return pricing.move(call.name, call.reads, call.writes)


@rule("fft")
def transform(call: Call) -> Priced:
    """5·n·log₂ n real FLOPs for n complex points, half of it where one side is real."""
    real = not all(value.dtype.startswith("complex") for value in (call.ins[0], call.outs[0]))
    n = product(call.params["fft_lengths"])
    whole = call.ins[0] if call.outs[0].dtype.startswith("complex") else call.outs[0]
    rows = exact_div(whole.size, n)
    return pricing.fourier(call.name, call.reads, call.writes, rows=rows, n=n, levels=log2(n), real=real)


def _tall(call: Call) -> tuple[Size, Size]:
    """The longer and the shorter side of each matrix."""
    m, n = call.ins[0].shape[-2:]
    return maximum(m, n), minimum(m, n)


def _counted(call: Call, each: Size) -> Priced:
    """A count for each matrix of a batch."""
    flops = product(call.ins[0].shape[:-2]) * each
    return pricing.vector(call.name, "linalg", call.reads, call.writes, flops=flops, elements=call.outs[0].size)
