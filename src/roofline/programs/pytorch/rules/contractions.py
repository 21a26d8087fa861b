"""Matrix products: dense, grouped, sparse and quantised, as a user calls them and as the dispatcher runs them.

Factorisations, solves and Fourier transforms stand here too; an operation that iterates until it converges is listed as
not counted. Operations on quantised tensors are products of packed weights, and functions that leave the integers and
come back. A quantised tensor is its integers; each operand is dequantised and each result quantised, by the prices of
:data:`~roofline.ops.elementwise.PER_ELEMENT`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.errors import InputError
from roofline.frozen import replace
from roofline.ops import linear_algebra
from roofline.ops.elementwise import DEQUANTISE, PER_ELEMENT, QUANTISE
from roofline.programs.pytorch import registry
from roofline.programs.pytorch.registry import Call, Priced, TensorOperand, pricing, rule
from roofline.programs.pytorch.rules.windows import convolution, pool
from roofline.programs.rule_table import touching
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


@rule("bmm", "mv", "dot", "vdot", "addmm", "baddbmm", "addmv", "addbmm", "_addmm_activation")
def product_of_two(call: Call) -> Priced:
    """Multiply [.., m, k] by [.., k, n], either of them perhaps a vector; what stands before them is added."""
    *bias, a, b = call.operands(*range(3 if "add" in call.name else 2))
    if is_sparse(a, b):
        return sparse_product(call, a, b, *bias)
    reads = (*call.read(a, b), *(call.read(*bias) if call.get("beta", 1) != 0 else ()))
    batch = a.shape[0] if a.rank == 3 else 1
    m, n = (a.shape[-2] if a.rank > 1 else 1), (b.shape[-1] if b.rank > 1 else 1)
    return pricing.contraction(call.name, reads, call.writes, m=m, n=n, k=a.shape[-1], batch=batch)


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
    sizes = pricing.product_sizes(a.shape, b.shape, call.results[0].elements)
    return pricing.contraction(call.name, call.read(a, b), call.writes, **sizes)


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
            (second,) = touching(sizes["m"] * (sizes["k"] * sizes["n"]), second)  # of one matrix for each row
        elif a.rank == 3:
            (first,) = touching(sizes["n"] * (sizes["m"] * sizes["k"]), first)
    op = pricing.contraction(call.name, (first, second), call.writes, **sizes)
    dims = {**op.dims, "groups": max((a, b), key=lambda each: each.rank).shape[0]} if a.rank != b.rank else op.dims
    return replace(op, reads=(*op.reads, *call.read_without(a, b)), dims=dims)


@rule("_sparse_mm", "_sparse_addmm", "sparse_sampled_addmm", "_sparse_semi_structured_mm",
      "_sparse_semi_structured_linear", "_sparse_semi_structured_addmm", "hspmm", "sspaddmm",
      "_sparse_mm_reduce_impl")  # fmt: skip
def product_with_sparse(call: Call) -> Priced:
    """A product with a sparse operand, of which only stored elements count, whatever becomes of its terms."""
    *bias, left, right = [item for item in call.args if registry.is_operand(item)]
    if call.name != "sparse_sampled_addmm":
        return sparse_product(call, left, right, *bias)
    sampled = stored_elements(bias[0])
    op = pricing.contraction(call.name, call.read(left, right), call.writes, m=sampled, n=1, k=left.shape[-1])
    return replace(op, reads=(*op.reads, *call.read(*bias)))


def is_sparse(*operands: TensorOperand | None) -> bool:
    """Whether any of them stores only some of its elements."""
    return any(item is not None and item.is_sparse for item in operands)


def sparse_product(call: Call, left: TensorOperand, right: TensorOperand, *added: TensorOperand | None) -> Op:
    """A product of two matrices of which at least one is sparse; what is added is read unless β is 0."""
    bias = call.read(*added) if call.get("beta", 1) != 0 else ()
    rows, columns = _meetings(left, right)
    reads = (*call.read(left, right), *bias)
    if not right.is_sparse and right.tensor is not None:
        reads = (reads[0], *touching(_places(left, 1) * columns, reads[1]), *reads[2:])
    elif not left.is_sparse and left.tensor is not None:
        reads = (*touching(_places(right, 0) * rows, reads[0]), *reads[1:])
    op = pricing.contraction(call.name.strip("_"), reads[:2], call.writes, m=rows, n=columns, k=1)
    return call.beside(op, call.results[0].elements, pricing.arithmetic(call.writes), reads=reads) if bias else op


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


def _places(operand: TensorOperand, dim: int) -> int:
    """Rows (0) or columns (1) of a sparse matrix that store an element: what meets the others is not read."""
    stored_elements(operand)
    return int(operand.values.to_sparse_coo()._indices()[dim].unique().numel())


def stored_elements(operand: TensorOperand) -> int:
    """Elements that a sparse matrix stores, whole blocks where it has blocks."""
    values: Any = operand.values
    if values is None:
        message = f"how many elements a sparse tensor of {list(operand.shape)} stores is not known on shapes alone"
        raise InputError(message, hint="give it as an input, or hold it, with values on the CPU")
    return int((values._values() if str(values.layout) == "torch.sparse_coo" else values.values()).numel())


#: FLOPs by operation, from the rows and columns of its first operand.
_OF_ONE: dict[str, Callable[[Size, Size], Size]] = {
    **dict.fromkeys(
        ("linalg_cholesky_ex", "cholesky", "linalg_ldl_factor_ex"), lambda m, n: linear_algebra.cholesky(n)
    ),
    **dict.fromkeys(("linalg_lu_factor_ex", "linalg_lu"), linear_algebra.lu),
    "_linalg_det": lambda m, n: linear_algebra.lu(n, n) + n,
    "_linalg_slogdet": lambda m, n: linear_algebra.lu(n, n) + 2 * n,
    "linalg_inv_ex": lambda m, n: linear_algebra.inverse(n),
    "cholesky_inverse": lambda m, n: linear_algebra.inverse(n) - 2 * linear_algebra.lu(n, n),
    **dict.fromkeys(("geqrf", "linalg_householder_product", "ormqr"), linear_algebra.qr),  # or a column each reflection
}

#: Those that read one triangle of their matrix, which is symmetric or its factor.
ONE_TRIANGLE = ("linalg_cholesky_ex", "cholesky", "linalg_ldl_factor_ex", "cholesky_inverse")
#: Those that read what lies below the diagonal, where reflections are kept.
_REFLECTIONS = ("linalg_householder_product", "ormqr")


@rule(*_OF_ONE)
def factorised(call: Call) -> Priced:
    """One matrix, or a batch of them."""
    *batch, m, n = call.args[0].shape
    reads = call.reads
    if call.name in (*ONE_TRIANGLE, *_REFLECTIONS):
        reads = _triangular(call, call.args[0], diagonal=call.name in ONE_TRIANGLE)
    return _counted(call, product(batch) * _OF_ONE[call.name](m, n), reads)


@rule("linalg_qr")
def qr(call: Call) -> Priced:
    """The triangle, then the orthogonal columns that are wanted."""
    *batch, m, n = call.args[0].shape
    short = minimum(m, n)
    columns = {"r": 0, "complete": linear_algebra.square_q(m, short)}
    wanted = columns.get(call.get("mode", "reduced"), linear_algebra.qr(m, short))
    return _counted(call, product(batch) * (linear_algebra.qr(m, n) + wanted))


@rule("_linalg_solve_ex", "linalg_lu_solve", "cholesky_solve", "linalg_solve_triangular", "triangular_solve",
      "linalg_ldl_solve")  # fmt: skip
def solved(call: Call) -> Priced:
    """A triangular solve takes n for every element of the result, one after a factorisation two of them."""
    square = call.args[1 if call.name in ("cholesky_solve", "triangular_solve") else 0]
    each = square.shape[-1] * call.results[0].elements
    if "triangular" in call.name:
        return _counted(call, each, _triangular(call, square, diagonal=not call.get("unitriangular", False)))
    if call.name in ("cholesky_solve", "linalg_ldl_solve"):
        return _counted(call, 2 * each, _triangular(call, square))
    matrix = call.args[0].shape
    first = product(matrix[:-2]) * linear_algebra.solve(matrix[-1], 0) if call.name == "_linalg_solve_ex" else 0
    return _counted(call, first + 2 * each)


rule(
    "_linalg_svd", "linalg_eig", "_linalg_eigvals", "linalg_eigvals", "linalg_pinv",
    "linalg_matrix_exp",
)(lambda call: call.unknown(linear_algebra.ITERATES))  # fmt: skip


@rule("_linalg_eigh")
def symmetric(call: Call) -> Priced:
    """It iterates, over one triangle."""
    return pricing.unknown(call.full_name, _triangular(call, call.args[0]), call.writes, linear_algebra.ITERATES)


@rule("linalg_lstsq")
def least_squares(call: Call) -> Priced:
    """By reflections, as its drivers do but for two, which take singular values."""
    if call.get("driver") in ("gelsd", "gelss"):
        return call.unknown(linear_algebra.ITERATES)
    (*batch, m, n), right = call.args[0].shape, call.args[1].shape
    columns = right[-1] if len(right) > len(batch) + 1 else 1
    return _counted(call, product(batch) * linear_algebra.least_squares(m, n, columns))


def _triangular(call: Call, matrix: TensorOperand, *, diagonal: bool = True) -> tuple[Tensor, ...]:
    """What a call reads that looks at one triangle of a matrix, or of each of a batch."""
    *batch, m, n = matrix.shape
    kept = product(batch) * linear_algebra.triangle(m, n, 0 if diagonal else -1)
    return (*touching(kept, *call.read(matrix)), *call.read_without(matrix))


def _counted(call: Call, flops: Size, reads: tuple[Tensor, ...] | None = None) -> Priced:
    return call.vector("linalg", flops, call.results[0].elements, reads=call.reads if reads is None else reads)


@rule("_fft_c2c", "_fft_r2c", "_fft_c2r")
def fourier(call: Call) -> Priced:
    """Transform over some dimensions: 5·n·log₂ n real FLOPs for n complex points, half where one side is real."""
    x, dims = call.args[0], call.args[1]
    whole = x if call.name != "_fft_c2r" else call.results[0]
    n = product(whole.shape[d] for d in dims)
    rows = exact_div(whole.elements, maximum(1, n))
    return pricing.fourier(call.name.strip("_"), call.reads, call.writes, rows=rows, n=n, real=call.name != "_fft_c2c")


def _around(call: Call, pack: registry.PackedWeights) -> Size:
    """FLOPs before and after a product: x into integers where that happens here, results rescaled, bias and ReLU.

    Weights in fp16 leave bias and ReLU.
    """
    results, relu, bias = call.results[0].elements, "relu" in call.name, pack.bias is not None
    if pack.weight.dtype.startswith("fp"):
        return (bias + relu) * results
    if "dynamic" not in call.name:
        return (QUANTISE + bias + relu) * results
    return QUANTISE * call.args[0].elements + (2 + relu) * results


@rule("quantized.linear", "quantized.linear_relu", "quantized.linear_leaky_relu", "quantized.linear_tanh",
      "quantized.linear_dynamic", "quantized.linear_relu_dynamic", "quantized.linear_dynamic_fp16",
      "quantized.linear_relu_dynamic_fp16")  # fmt: skip
def packed_linear(call: Call) -> Priced:
    """Bring x to the format of the weight where it is not in it, multiply, rescale and add.

    PyTorch has packed the weights, as integers or in fp16.
    """
    x, pack = call.args[:2]
    n, k = pack.weight.shape
    op = pricing.contraction(call.name, 2 * call.read(pack.weight), call.writes, m=product(x.shape[:-1]), n=n, k=k)
    return call.beside(op, _around(call, pack))


@rule(*(f"quantized.conv{turned}{n}d{post}" for n in (1, 2, 3) for turned in ("", "_transpose")
        for post in ("", "_relu", "_dynamic")), "quantized.conv2d_add", "quantized.conv2d_add_relu")  # fmt: skip
def packed_convolution(call: Call) -> Priced:
    """Convolve integers and rescale."""
    x, pack = call.args[0], call.args[1] if hasattr(call.args[1], "weight") else call.args[2]
    names = ("input", "weight", *pack.window)
    plain = Call("aten.convolution", "convolution", (x, pack.weight, *pack.window.values()), names, call.results)
    op = convolution(plain)
    assert isinstance(op, Op)
    return call.beside(op, _around(call, pack), name=call.name)


_PAIRS = ("add", "mul", "add_relu", "mul_relu", "add_scalar", "mul_scalar", "add_scalar_relu", "mul_scalar_relu")


@rule(*(f"quantized.{name}" for name in (*_PAIRS, "cat", "cat_relu")))
def pair(call: Call) -> Priced:
    """Out of the integers, a sum or a product (or parts put together at one scale), and back."""
    each = DEQUANTISE if "cat" in call.name else DEQUANTISE * len(call.reads) + 1
    return call.for_each("elementwise", call.results[0].elements, each + ("relu" in call.name) + QUANTISE)


_FUNCTIONS = ("sigmoid", "hardswish", "leaky_relu", "elu", "celu", "relu6", "prelu", "clamp", "threshold")


@rule(*(f"quantized.{name}" for name in _FUNCTIONS))
def function(call: Call) -> Priced:
    """Out of the integers, the function, and back."""
    cost = PER_ELEMENT[registry.FUNCTIONS.get(call.name, {"celu": "elu"}.get(call.name, "leaky_relu"))]
    each = DEQUANTISE + cost.flops + QUANTISE
    return call.for_each("elementwise", call.results[0].elements, each, cost.transcendentals)


@rule("quantized.matmul")
def quantised_matmul(call: Call) -> Priced:
    """Multiply two tensors of integers and rescale."""
    a, b = call.operands(0, 1)
    results = call.results[0].elements
    sizes = pricing.product_sizes(a.shape, b.shape, results)
    return call.beside(pricing.contraction(call.name, call.read(a, b), call.writes, **sizes), QUANTISE * results)


@rule("quantized.softmax")
def softmax(call: Call) -> Priced:
    """Out of the integers, a softmax, and back."""
    (x,) = call.operands(0)
    rows = exact_div(x.elements, x.shape[call.get("dim", -1)])
    op = pricing.softmax(call.name, call.reads, call.writes, elements=x.elements, rows=rows)
    return call.beside(op, (DEQUANTISE + QUANTISE) * x.elements)


_BATCH_NORMS = [f"batch_norm{n}{post}" for n in ("", "1d", "2d", "3d") for post in ("", "_relu")]


@rule(*(f"quantized.{name}" for name in (*_BATCH_NORMS, "layer_norm", "group_norm", "instance_norm")))
def norm(call: Call) -> Priced:
    """Out of the integers, a norm (of stored statistics for a batch norm), and back."""
    (x,) = call.operands(0)
    stored = call.name.startswith("batch")
    rows = x.shape[0] * (call.get("num_groups") or x.shape[1])
    if call.name == "layer_norm":
        rows = product(x.shape[: x.rank - len(call.stated("normalized_shape"))])
    function = "batch_norm" if stored else "layer_norm"
    affine = 2 if call.operand("weight") is not None else 0
    op = pricing.norm(function, call.reads, call.writes, elements=x.elements, rows=rows, affine=affine, name=call.name)
    return call.beside(op, (DEQUANTISE + QUANTISE + ("relu" in call.name)) * x.elements)


rule("quantized.max_pool1d", "quantized.max_pool2d")(pool)

# Nothing outside training.
rule("quantized.dropout")(lambda call: None)
