"""Factorisations and solves; what iterates until it converges is listed as not counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from roofline.ops import factorizations as counts
from roofline.programs.pytorch.open_sizes import least, most
from roofline.programs.pytorch.registry import Call, Priced, pricing, rule, shape
from roofline.sizes import Size

#: FLOPs by operation, from the rows and columns of its first operand.
_OF_ONE: dict[str, Callable[[Size, Size], Size]] = {
    "linalg_cholesky_ex": lambda m, n: counts.cholesky(n),
    "cholesky": lambda m, n: counts.cholesky(n),
    "linalg_ldl_factor_ex": lambda m, n: counts.cholesky(n),
    "linalg_lu_factor_ex": lambda m, n: counts.lu(most(m, n), least(m, n)),
    "linalg_lu": lambda m, n: counts.lu(most(m, n), least(m, n)),
    "_linalg_det": lambda m, n: counts.lu(n, n) + n,
    "_linalg_slogdet": lambda m, n: counts.lu(n, n) + 2 * n,
    "linalg_inv_ex": lambda m, n: counts.inverse(n),
    "cholesky_inverse": lambda m, n: counts.inverse(n) - 2 * counts.lu(n, n),
    "geqrf": lambda m, n: counts.qr(most(m, n), least(m, n)),
}


@rule(*_OF_ONE)
def factorised(call: Call) -> Priced:
    """One matrix, or a batch of them."""
    *batch, m, n = call.args[0].shape
    return _counted(call, prod(batch) * _OF_ONE[call.name](m, n))


@rule("linalg_qr")
def qr(call: Call) -> Priced:
    """The triangle, then the orthogonal columns that are wanted."""
    *batch, m, n = call.args[0].shape
    columns = {"r": 0, "complete": counts.square_q(m, n) if m > n else counts.qr(m, m)}
    tall, short = most(m, n), least(m, n)
    wanted = columns.get(call.get("mode", "reduced"), counts.qr(m, short))
    return _counted(call, prod(batch) * (counts.qr(tall, short) + wanted))


@rule("linalg_householder_product", "ormqr")
def reflected(call: Call) -> Priced:
    """As many columns as there are reflections."""
    *batch, m, n = call.args[0].shape
    return _counted(call, prod(batch) * counts.qr(m, n))


@rule("_linalg_solve_ex", "linalg_lu_solve", "cholesky_solve", "linalg_solve_triangular", "triangular_solve",
      "linalg_ldl_solve")  # fmt: skip
def solved(call: Call) -> Priced:
    """A triangular solve takes n for every element of the result, one after a factorisation two of them."""
    n, size = _order(call), call.outs[0].numel()
    each = counts.triangular_solve(n, 1) // n * size
    if "triangular" in call.name:
        return _counted(call, each)
    matrix = call.args[0].shape
    factorised = prod(matrix[:-2]) * counts.solve(n, 0) if call.name == "_linalg_solve_ex" else 0
    return _counted(call, factorised + 2 * each)


@rule("_linalg_svd", "_linalg_eigh", "linalg_eig", "_linalg_eigvals", "linalg_eigvals", "linalg_lstsq", "linalg_pinv",
      "linalg_matrix_exp")  # fmt: skip
def iterated(call: Call) -> Priced:
    """Worked out until it converges."""
    return pricing.unknown(f"aten.{call.name}", call.reads, call.writes, counts.ITERATES)


@shape("geqrf")
def reflections(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The triangle over the reflections, and a factor for each."""
    (a,) = args
    return torch.empty_like(a), a.new_empty((*a.shape[:-2], min(a.shape[-2:])))


@shape("linalg_lstsq")
def least_squares(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The solution and the singular values; what depends on the rank is left empty."""
    a, b = args[:2]
    m, n = a.shape[-2:]
    solution = b.new_empty((*b.shape[:-2], n, b.shape[-1]) if b.dim() == a.dim() else (*b.shape[:-1], n))
    return (
        solution,
        b.new_empty(0),
        a.new_empty(a.shape[:-2], dtype=torch.int64),
        a.new_empty((*a.shape[:-2], min(m, n))),
    )


def _order(call: Call) -> Any:
    """Rows of the matrix that is solved with: the operand that is square."""
    return call.args[1 if call.name in ("cholesky_solve", "triangular_solve") else 0].shape[-1]


def _counted(call: Call, flops: Size) -> Priced:
    return pricing.vector(call.name, "linalg", call.reads, call.writes, flops=flops, elements=call.outs[0].numel())
