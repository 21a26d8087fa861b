"""Factorisations, solves and Fourier transforms; what iterates until it converges is listed as not counted."""

from __future__ import annotations

from collections.abc import Callable

from roofline.ops import linear_algebra
from roofline.programs.pytorch.registry import Call, Priced, pricing, rule
from roofline.sizes import Size, exact_div, is_symbol, log2, maximum, minimum, product

#: FLOPs by operation, from the rows and columns of its first operand.
_OF_ONE: dict[str, Callable[[Size, Size], Size]] = {
    "linalg_cholesky_ex": lambda m, n: linear_algebra.cholesky(n),
    "cholesky": lambda m, n: linear_algebra.cholesky(n),
    "linalg_ldl_factor_ex": lambda m, n: linear_algebra.cholesky(n),
    "linalg_lu_factor_ex": lambda m, n: linear_algebra.lu(maximum(m, n), minimum(m, n)),
    "linalg_lu": lambda m, n: linear_algebra.lu(maximum(m, n), minimum(m, n)),
    "_linalg_det": lambda m, n: linear_algebra.lu(n, n) + n,
    "_linalg_slogdet": lambda m, n: linear_algebra.lu(n, n) + 2 * n,
    "linalg_inv_ex": lambda m, n: linear_algebra.inverse(n),
    "cholesky_inverse": lambda m, n: linear_algebra.inverse(n) - 2 * linear_algebra.lu(n, n),
    "geqrf": lambda m, n: linear_algebra.qr(maximum(m, n), minimum(m, n)),
}


@rule(*_OF_ONE)
def factorised(call: Call) -> Priced:
    """One matrix, or a batch of them."""
    *batch, m, n = call.args[0].shape
    return _counted(call, product(batch) * _OF_ONE[call.name](m, n))


@rule("linalg_qr")
def qr(call: Call) -> Priced:
    """The triangle, then the orthogonal columns that are wanted."""
    *batch, m, n = call.args[0].shape
    tall, short = maximum(m, n), minimum(m, n)
    columns = {"r": 0, "complete": linear_algebra.square_q(m, short)}
    wanted = columns.get(call.get("mode", "reduced"), linear_algebra.qr(m, short))
    return _counted(call, product(batch) * (linear_algebra.qr(tall, short) + wanted))


@rule("linalg_householder_product", "ormqr")
def reflected(call: Call) -> Priced:
    """As many columns as there are reflections."""
    *batch, m, n = call.args[0].shape
    return _counted(call, product(batch) * linear_algebra.qr(m, n))


@rule("_linalg_solve_ex", "linalg_lu_solve", "cholesky_solve", "linalg_solve_triangular", "triangular_solve",
      "linalg_ldl_solve")  # fmt: skip
def solved(call: Call) -> Priced:
    """A triangular solve takes n for every element of the result, one after a factorisation two of them."""
    square = call.args[1 if call.name in ("cholesky_solve", "triangular_solve") else 0]
    each = square.shape[-1] * call.results[0].elements
    if "triangular" in call.name:
        return _counted(call, each)
    matrix = call.args[0].shape
    first = product(matrix[:-2]) * linear_algebra.solve(matrix[-1], 0) if call.name == "_linalg_solve_ex" else 0
    return _counted(call, first + 2 * each)


@rule("_linalg_svd", "_linalg_eigh", "linalg_eig", "_linalg_eigvals", "linalg_eigvals", "linalg_lstsq", "linalg_pinv",
      "linalg_matrix_exp")  # fmt: skip
def iterated(call: Call) -> Priced:
    """Worked out until it converges."""
    return pricing.unknown(call.full_name, call.reads, call.writes, linear_algebra.ITERATES)


def _counted(call: Call, flops: Size) -> Priced:
    return pricing.vector(call.name, "linalg", call.reads, call.writes, flops=flops, elements=call.results[0].elements)


@rule("_fft_c2c", "_fft_r2c", "_fft_c2r")
def fourier(call: Call) -> Priced:
    """Transform over some dimensions: 5·n·log₂ n real FLOPs for n complex points, half where one side is real."""
    x, dims = call.args[0], call.args[1]
    whole = x if call.name != "_fft_c2r" else call.results[0]
    n = product(whole.shape[d] for d in dims)
    rows = exact_div(whole.elements, maximum(1, n))
    levels = log2(n) if is_symbol(n) or n > 1 else 0
    real = call.name != "_fft_c2c"
    return pricing.fourier(call.name.strip("_"), call.reads, call.writes, rows=rows, n=n, levels=levels, real=real)
