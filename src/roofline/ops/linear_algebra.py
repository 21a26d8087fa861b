"""Dense factorisations and solves by the leading terms of their textbook counts, and Fourier transforms.

Source of the factorisations: Golub & Van Loan, Matrix Computations, 4th edition, sections 3.1, 3.2, 4.2, 5.2.

>>> cholesky(30), lu(30, 30), inverse(30), qr(30, 30), solve(30, 1)
(9000, 18000, 54000, 36000, 19800)
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline import dtypes
from roofline.notation.structure import Step
from roofline.ops.basic import vector
from roofline.ops.masks import BandMask
from roofline.ops.rules import Context, register
from roofline.sizes import Size, exact_div, is_one, is_zero, log2, maximum, minimum
from roofline.work import Op, Tensor

#: The reason that an eigenvalue or singular value problem has no count.
ITERATES = "iterates until it converges"


def cholesky(n: Size) -> Size:
    """n³/3."""
    return exact_div(n * n * n, 3)


def lu(m: Size, n: Size) -> Size:
    """m·n² − n³/3 for m ≥ n, as for its transpose; 2n³/3 for a square matrix."""
    m, n = maximum(m, n), minimum(m, n)
    return exact_div(3 * m * n * n - n * n * n, 3)


def qr(m: Size, n: Size) -> Size:
    """2·n²·(m − n/3) for the triangle, m ≥ n, by Householder reflections; as much again for n orthogonal columns.

    Of a matrix with more columns than rows the larger is m too.
    """
    m, n = maximum(m, n), minimum(m, n)
    return exact_div(6 * m * n * n - 2 * n * n * n, 3)


def square_q(m: Size, n: Size) -> Size:
    """4·(m²·n − m·n² + n³/3) for all m orthogonal columns."""
    return exact_div(12 * (m * m * n - m * n * n) + 4 * n * n * n, 3)


def least_squares(m: Size, n: Size, k: Size) -> Size:
    """2·n²·(m − n/3) for the triangle, m ≥ n; n reflections of k right-hand sides and a solve, k·(4·m·n − n²).

    >>> least_squares(30, 30, 0) == qr(30, 30), least_squares(4, 3, 1) == least_squares(3, 4, 1)
    (True, True)
    """
    m, n = maximum(m, n), minimum(m, n)
    return qr(m, n) + k * (4 * m * n - n * n)


def triangle(m: Size, n: Size, diagonal: Size = 0, *, upper: bool = False) -> Size:
    """Elements of a matrix of m rows and n columns on a diagonal and below it, or above it: what a triangle holds.

    >>> triangle(3, 3), triangle(3, 3, -1), triangle(2, 4, upper=True), triangle(2, 4, 3, upper=True)
    (6, 3, 7, 1)
    """
    band = BandMask(offset=0, before=-diagonal, after=None) if upper else BandMask(offset=0, after=diagonal)
    return band.pairs(m, n)


def triangular_solve(n: Size, k: Size) -> Size:
    """n² for each of k right-hand sides."""
    return n * n * k


def solve(n: Size, k: Size) -> Size:
    """2n³/3 + 2·n²·k: a factorisation and two triangular solves for each right-hand side."""
    return exact_div(2 * n * n * n + 6 * n * n * k, 3)


def inverse(n: Size) -> Size:
    """2n³."""
    return 2 * n * n * n


def fourier(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, rows: Size, n: Size, real: bool) -> Op:
    """Transform ``rows`` of ``n`` complex points: 5·n·log₂ n FLOPs.

    Half of it where one side is ``real``. The count is the customary one of the radix-2 algorithm (Van Loan,
    Computational Frameworks for the FFT, 1992, section 1.4; as FFTW's benchmarks use it), for any n. It is no floor:
    split-radix needs 4·n·log₂ n − 6·n + 8, which an answer says.

    >>> x = Tensor("x", (4, 1024), "complex64")
    >>> fourier("fft", [x], [x], rows=4, n=1024, real=False).work.total("flops")
    204800
    """
    flops = 0 if is_zero(n) or is_one(n) else rows * 5 * n * log2(n)
    flops = exact_div(flops, 2) if real else flops
    amount = int(flops) if isinstance(flops, float) and flops.is_integer() else flops
    return vector(name, "fft", reads, writes, flops=amount, elements=rows * n, dims={"n": n})


@register("fft")
def rule(step: Step, context: Context) -> Op:
    """Price a Fourier transform over the labels in ``over``; of real numbers it takes half."""
    x, n = context.tensor(step.inputs[0]), context.size(step.over)
    name, out, real = step.text or step.function, context.tensor(step.output), dtypes.get(x.dtype).family != "complex"
    return fourier(name, [x], [out], rows=context.rows(step), n=n, real=real)
