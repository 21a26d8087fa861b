"""Matrix products, convolutions, and cuDNN's attention, which ``jax.nn.dot_product_attention`` calls as one kernel.

Factorisations by their counts, and Fourier transforms. Source: Van Loan, Computational Frameworks for the FFT, 1992,
1.4."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from roofline.ops import linear_algebra as counts
from roofline.ops.masks import FULL, TOP_LEFT, BandMask
from roofline.ops.pricing import Reach, valid_taps_of
from roofline.programs.jax.registry import Call, Priced, Value, pricing, rule
from roofline.programs.jax.rules.collectives import reduced_over
from roofline.sizes import Size, exact_div, log2, maximum, minimum, product
from roofline.work import Tensor


@rule("dot_general")
def dot_general(call: Call) -> Priced:
    """Contract some dimensions, batch over others: all that is left of either side is m and n."""
    (left, right), (left_batch, right_batch) = call.params["dimension_numbers"]
    a, b = call.ins[:2]
    op = pricing.contraction(
        call.name,
        _operands(call),
        call.writes,
        m=_rest(a, left, left_batch),
        n=_rest(b, right, right_batch),
        k=product(a.shape[d] for d in left),
        batch=product(a.shape[d] for d in left_batch),
    )
    axes = [axis for d in left for axis in (a.split[d] if a.split else ())]
    return [op, *reduced_over(call, axes, call.writes[0], call.outs[0])]


@rule("ragged_dot_general", "ragged_dot")
def ragged_dot(call: Call) -> Priced:
    """Every row meets the matrix of one group: the groups' dimension multiplies nothing, and t rows meet at most t."""
    numbers = call.params["ragged_dot_dimension_numbers"]
    (left, right), (left_batch, right_batch) = numbers.dot_dimension_numbers
    a, b = call.ins[:2]
    m, k = _rest(a, left, left_batch), product(a.shape[d] for d in left)
    n = _rest(b, (*right, *numbers.rhs_group_dimensions), right_batch)
    batch = product(a.shape[d] for d in left_batch)
    op = pricing.contraction(call.name, _operands(call), call.writes, m=m, n=n, k=k, batch=batch)
    reads = {tensor.ident: tensor for tensor in call.reads}
    if numbers.rhs_group_dimensions:
        groups = product(b.shape[d] for d in numbers.rhs_group_dimensions)
        rows = product(a.shape[d] for d in numbers.lhs_ragged_dimensions)
        reads |= {tensor.ident: tensor for tensor in call.touch(1, exact_div(b.size, groups) * rows)}
    return replace(op, reads=tuple(reads.values()))


@rule("scaled_dot", "scaled_matmul", "scaled_matmul_wrapper")
def scaled(call: Call) -> Priced:
    """Multiply [b, m, k] by [b, n, k], each in blocks with a scale of its own."""
    if "dimension_numbers" in call.params:
        return dot_general(call)
    a, b = call.ins[:2]
    sizes = {"batch": a.shape[0], "m": a.shape[1], "k": a.shape[2], "n": b.shape[1]}
    op = pricing.contraction(call.name, call.read(0, 1), call.writes, **sizes)
    return replace(op, reads=call.reads)


def _operands(call: Call) -> tuple[Tensor, ...]:
    """Both operands; a constant that the program holds is written out as large as it is."""
    return tuple(
        tensor or Tensor(f"{call.writes[0].ident}.constant{place}", value.shape, value.dtype, touched=0)
        for place, (tensor, value) in enumerate(zip(call.operands[:2], call.ins[:2], strict=True))
    )


def _rest(value: Value, contracted: Sequence[int], batch: Sequence[int]) -> Size:
    return product(size for d, size in enumerate(value.shape) if d not in contracted and d not in batch)


@rule("conv_general_dilated")
def convolution(call: Call) -> Priced:
    """Convolve; where the input is dilated (a transposed convolution) every element of the input sees every tap."""
    params = call.params
    numbers = params["dimension_numbers"]
    x, kernel, out = call.ins[0].shape, call.ins[1].shape, call.outs[0].shape
    seen = [x[d] for d in numbers.lhs_spec[2:]]
    taps = [kernel[d] for d in numbers.rhs_spec[2:]]
    made = [out[d] for d in numbers.out_spec[2:]]
    base = params["lhs_dilation"]
    places = [
        Reach(length, results, many, stride, pad[0], dilation, inner)
        for length, results, many, stride, pad, dilation, inner in zip(
            seen, made, taps, params["window_strides"], params["padding"], params["rhs_dilation"], base, strict=True
        )
    ]
    groups = params["feature_group_count"] * params["batch_group_count"]
    padded = any(edge > 0 for pad in params["padding"] for edge in pad) and all(inner == 1 for inner in base)
    return pricing.convolution(
        "conv" if all(inner == 1 for inner in base) else "conv_transpose",
        call.reads,
        call.writes,
        batch=x[numbers.lhs_spec[0]] // params["batch_group_count"],
        positions=product(s if inner > 1 else o for s, o, inner in zip(seen, made, base, strict=True)),
        out_per_group=kernel[numbers.rhs_spec[0]] // groups,
        in_per_group=kernel[numbers.rhs_spec[1]],
        kernel=product(taps),
        groups=groups,
        places=places,
        valid_taps=valid_taps_of(places),
        note="padded positions of a convolution are counted" if padded else "",
    )


_NOTES = {
    "CAUSAL": "causal attention",
    "PADDING": "padded queries and keys are counted",
    "PADDING_CAUSAL": "causal attention; padded queries and keys are counted",
}


#: Kernels of cuDNN by direction: products, and what is said of them. Backward the scores are worked out again.
_KERNELS = {"fwd": (2, ""), "bwd": (5, "the backward pass of cuDNN's attention works its scores out again")}


@rule(*(f"dot_product_attention_{kind}{way}{post}" for way in _KERNELS for kind in ("", "fp8_")
        for post in ("", "_wrapper")))  # fmt: skip
def attention(call: Call) -> Priced:
    """q is [B, T, heads, H], or [B, heads, T, H] in the layout of number 1."""
    matmuls, more = _KERNELS["bwd" if "_bwd" in call.name else "fwd"]
    long, heads = (2, 1) if call.params.get("layout") == 1 else (1, 2)
    q, k, v = (value.shape for value in call.ins[:3])
    kind = call.params.get("mask_type")
    word = (
        str(getattr(kind, "name", kind)) if kind is not None else "CAUSAL" if call.params.get("use_causal_mask") else ""
    )
    note = "; ".join(filter(None, (_NOTES.get(word, ""), more)))
    mask = _mask("CAUSAL" in word, call.params.get("sliding_window_length"))
    return pricing.attention(
        call.name,
        call.reads,
        call.writes,
        batch=q[0],
        heads=q[heads],
        kv_heads=k[heads],
        q_length=q[long],
        kv_length=k[long],
        head_size=q[3],
        v_head_size=v[3],
        pairs=q[0] * q[heads] * mask.pairs(q[long], k[long]),
        keys=mask.keys(q[long], k[long]),
        matmuls=matmuls,
        note=note,
    )


def _mask(causal: bool, window: int | None) -> BandMask:
    """Query i sees keys up to the one of its number, of which the last ``window``.

    >>> _mask(True, None).pairs(4, 2), _mask(False, None).pairs(3, 5), _mask(True, 2).pairs(5, 3)
    (7, 15, 6)
    """
    return TOP_LEFT._replace(before=window - 1) if window else TOP_LEFT if causal else FULL


@contextmanager
def without_a_device() -> Iterator[None]:
    """Let a program ask for cuDNN where there is none: its shapes do not depend on it."""
    try:
        from jax._src.cudnn import fused_attention_stablehlo as fused
    except ImportError:
        fused = None
    if fused is None or getattr(fused, "cuda_versions", None) is not None:
        yield
        return
    names = {"check_cudnn_version": 91_100, "check_compute_capability": True, "is_cuda_compute_capability_equal": False}
    stand = {name: mock.Mock(return_value=value) for name, value in names.items() if hasattr(fused, name)}
    with mock.patch.multiple(fused, **stand):
        yield


#: FLOPs of each matrix of a batch, of its rows and columns. To reduce takes reflections from both sides: 10n³/3, and
#: 4n³/3 for a symmetric matrix, which stays so (sections 7.4.3, 8.3.1).
_OF_ONE: dict[str, Callable[[Size, Size], Size]] = {
    "cholesky": lambda m, n: counts.cholesky(n),
    "lu": lambda m, n: counts.lu(maximum(m, n), minimum(m, n)),
    **dict.fromkeys(("geqrf", "geqp3"), lambda m, n: counts.qr(maximum(m, n), minimum(m, n))),
    "hessenberg": lambda m, n: exact_div(10 * n * n * n, 3),
    "tridiagonal": lambda m, n: exact_div(4 * n * n * n, 3),
}

rule(*_OF_ONE)(lambda call: _counted(call, _OF_ONE[call.name](*call.ins[0].shape[-2:])))


@rule("qr")
def qr(call: Call) -> Priced:
    """The triangle, then the orthogonal columns that are wanted: with ``mode="r"`` none."""
    m, n = call.ins[0].shape[-2:]
    tall, short = maximum(m, n), minimum(m, n)
    if call.used and not call.used[0]:
        return _counted(call, counts.qr(tall, short))
    wanted = counts.square_q(m, short) if call.params.get("full_matrices") else counts.qr(m, short)
    return _counted(call, counts.qr(tall, short) + wanted)


@rule("householder_product")
def householder(call: Call) -> Priced:
    """All orthogonal columns, or as many as there are reflections."""
    m, n = call.ins[0].shape[-2:]
    return _counted(call, counts.square_q(m, call.ins[1].shape[-1]) if m == n else counts.qr(m, n))


@rule("triangular_solve")
def triangular_solve(call: Call) -> Priced:
    """Each right-hand side of each matrix."""
    n = call.ins[0].shape[-1]
    return call.vector("linalg", counts.triangular_solve(n, exact_div(call.ins[1].size, n)), call.outs[0].size)


@rule("tridiagonal_solve")
def band_solve(call: Call) -> Priced:
    """Elimination down and substitution up: 3 FLOPs a row of the matrix, and 5 for each right-hand side of it."""
    rows, size = call.ins[0].size, call.outs[0].size
    return call.vector("linalg", 3 * rows + 5 * size, size)


@rule("bcoo_dot_general", "bcsr_dot_general")
def sparse_product(call: Call) -> Priced:
    """Every stored element of a sparse matrix meets the columns, or the rows, of a dense one."""
    (_, right), (batch, _) = call.params["dimension_numbers"]
    dense = call.ins[-1]
    if len(call.ins) != (3 if call.name.startswith("bcoo") else 4) or batch or len(call.ins[0].shape) != 1:
        return call.unknown("a sparse product in batches")
    n = exact_div(dense.size, product(dense.shape[d] for d in right))
    op = pricing.contraction(call.name, call.read(0, len(call.ins) - 1), call.writes, m=call.ins[0].size, n=n, k=1)
    return replace(op, reads=call.reads)


rule("eigh", "eig", "svd", "schur")(lambda call: call.unknown(counts.ITERATES))

# Swaps are turned into a permutation.
rule("lu_pivots_to_permutation")(lambda call: call.move())


@rule("fft")
def transform(call: Call) -> Priced:
    """5·n·log₂ n real FLOPs for n complex points, half of it where one side is real."""
    real = not all(value.dtype.startswith("complex") for value in (call.ins[0], call.outs[0]))
    n = product(call.params["fft_lengths"])
    whole = call.ins[0] if call.outs[0].dtype.startswith("complex") else call.outs[0]
    rows = exact_div(whole.size, n)
    return pricing.fourier(call.name, call.reads, call.writes, rows=rows, n=n, levels=log2(n), real=real)


def _counted(call: Call, each: Size) -> Priced:
    """A count for each matrix of a batch."""
    return call.vector("linalg", product(call.ins[0].shape[:-2]) * each, call.outs[0].size)
