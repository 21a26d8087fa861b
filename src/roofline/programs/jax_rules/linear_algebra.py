"""Factorisations and Fourier transforms by the leading terms of their textbook counts.

Source of the factorisations: Golub & Van Loan, Matrix Computations, 4th edition, sections 3.2, 4.2, 5.2; of the
transform: Van Loan, Computational Frameworks for the FFT, 1992, section 1.4.
"""

from __future__ import annotations

from roofline.programs.jax_registry import Call, Priced, costs, rule
from roofline.sizes import Size, exact_div, log2, product


@rule("cholesky")
def cholesky(call: Call) -> Priced:
    """n³/3 for each matrix."""
    n = call.ins[0].shape[-1]
    return _counted(call, exact_div(n * n * n, 3))


@rule("lu")
def lu(call: Call) -> Priced:
    """2n³/3 for each matrix; m·n² − n³/3 of the tall half, twice."""
    m, n = call.ins[0].shape[-2:]
    return _counted(call, exact_div(3 * m * n * n - n * n * n, 3))


@rule("qr", "geqrf")
def qr(call: Call) -> Priced:
    """2·n²·(m − n/3) for each matrix."""
    m, n = call.ins[0].shape[-2:]
    return _counted(call, exact_div(6 * m * n * n - 2 * n * n * n, 3))


@rule("householder_product")
def householder(call: Call) -> Priced:
    """4·(m²·n − m·n² + n³/3) for m by n reflectors that give m by m; 2·n²·(m − n/3) for m by n."""
    m, n = call.ins[0].shape[-2:]
    return _counted(call, exact_div(6 * m * n * n - 2 * n * n * n, 3))


@rule("triangular_solve")
def triangular_solve(call: Call) -> Priced:
    """n² for each right-hand side."""
    n = call.ins[0].shape[-1]
    return costs.vector(
        call.name, "linalg", call.reads, call.writes, flops=n * call.ins[1].size, elements=call.outs[0].size
    )


@rule("eigh", "eig", "svd", "schur", "hessenberg", "tridiagonal", "tridiagonal_solve")
def iterated(call: Call) -> Priced:
    """Worked out until it converges."""
    return costs.unknown(call.name, call.reads, call.writes, "iterates until it converges")


@rule("lu_pivots_to_permutation")
def permuted(call: Call) -> Priced:
    """Turn swaps into a permutation."""
    return costs.move(call.name, call.reads, call.writes)


@rule("fft")
def transform(call: Call) -> Priced:
    """5·n·log₂ n real FLOPs for n complex points, half of it where one side is real."""
    real = not all(value.dtype.startswith("complex") for value in (call.ins[0], call.outs[0]))
    n = product(call.params["fft_lengths"])
    whole = call.ins[0] if call.outs[0].dtype.startswith("complex") else call.outs[0]
    rows = exact_div(whole.size, n)
    amount = rows * 5 * n * log2(n) if n != 1 else 0
    flops = exact_div(amount, 2) if real else amount
    exact = int(flops) if isinstance(flops, float) and flops.is_integer() else flops
    return costs.vector(call.name, "fft", call.reads, call.writes, flops=exact, elements=whole.size, dims={"n": n})


def _counted(call: Call, each: Size) -> Priced:
    """A count for each matrix of a batch."""
    flops = product(call.ins[0].shape[:-2]) * each
    return costs.vector(call.name, "linalg", call.reads, call.writes, flops=flops, elements=call.outs[0].size)
