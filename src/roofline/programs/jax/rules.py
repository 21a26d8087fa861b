"""Cost rules of JAX primitives, a family below the other.

Products, convolutions, cuDNN's attention (which ``jax.nn.dot_product_attention`` calls as one kernel), factorisations
and Fourier transforms; work element by element, reductions, sorting, pooling; primitives that move bytes; collectives
between the devices of a mesh: which one, of how many bytes, over which axes.

Source of the Fourier transforms: Van Loan, Computational Frameworks for the FFT, 1992, 1.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, TypeAlias
from unittest import mock

import numpy as np

from roofline.frozen import replace
from roofline.ops import linear_algebra as counts
from roofline.ops.masks import FULL, TOP_LEFT, BandMask
from roofline.ops.pricing import Reach
from roofline.programs.jax.indices import gathered_part, picking, sliced_part
from roofline.programs.jax.registry import Call, Priced, Value, pricing, rule, size_of
from roofline.programs.positions import Elements, worked_out
from roofline.programs.regions import count_where, once
from roofline.programs.rule_table import NAMED_ALIKE, compared, levels_of
from roofline.programs.tensor_parts import needing, once_each, part_name
from roofline.sizes import Size, exact_div, maximum, minimum, product
from roofline.work import Op, Tensor


@rule("dot_general")
def dot_general(call: Call) -> Priced:
    """Contract some dimensions, batch over others: all that is left of either side is m and n."""
    numbers, split = call.params["dimension_numbers"], call.ins[0].split
    op, ((left, _), _) = _contracted(call, numbers), numbers
    axes = [axis for d in left for axis in (split[d] if split else ())]
    return [op, *reduced_over(call, axes, call.writes[0], call.outs[0])]


@rule("ragged_dot_general", "ragged_dot")
def ragged_dot(call: Call) -> Priced:
    """Every row meets the matrix of one group: the groups' dimension multiplies nothing, and t rows meet at most t."""
    numbers = call.params["ragged_dot_dimension_numbers"]
    op, (a, b) = _contracted(call, numbers.dot_dimension_numbers, numbers.rhs_group_dimensions), call.ins[:2]
    reads = {tensor.ident: tensor for tensor in call.reads}
    if numbers.rhs_group_dimensions:
        groups = product(b.shape[d] for d in numbers.rhs_group_dimensions)
        rows = product(a.shape[d] for d in numbers.lhs_ragged_dimensions)
        reads |= {tensor.ident: tensor for tensor in call.touch(1, exact_div(b.size, groups) * rows)}
        op = replace(op, dims={**op.dims, "groups": groups})
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


def _contracted(call: Call, numbers: Any, groups: Sequence[int] = ()) -> Op:
    """A product of both operands, the second's ``groups`` left out, by what is contracted and what is a batch.

    A constant that the program holds is written out as large as it is.
    """
    (left, right), (left_batch, right_batch) = numbers
    a, b = call.ins[:2]
    held = (
        tensor or Tensor(f"{call.writes[0].ident}.constant{place}", value.shape, value.dtype, touched=0)
        for place, (tensor, value) in enumerate(zip(call.operands[:2], (a, b), strict=True))
    )
    sizes = {
        "m": product(a.shape[d] for d in range(len(a.shape)) if d not in (*left, *left_batch)),
        "n": product(b.shape[d] for d in range(len(b.shape)) if d not in (*right, *groups, *right_batch)),
        "k": product(a.shape[d] for d in left),
        "batch": product(a.shape[d] for d in left_batch),
    }
    return pricing.contraction(call.name, tuple(held), call.writes, **sizes)


def window_places(
    params: Mapping[str, Any],
    seen: Sequence[Size],
    made: Sequence[Size],
    taps: Sequence[Size],
    plain: Callable[[Any], Size] = size_of,
) -> list[Reach]:
    """The windows in each dimension of what they slide over, by the parameters of a convolution or of a pooling."""
    apart = ("rhs_dilation", "lhs_dilation") if "rhs_dilation" in params else ("window_dilation", "base_dilation")
    facts = (params[name] for name in ("window_strides", "padding", *apart))
    windows = zip(seen, made, taps, *facts, strict=True)
    return [Reach(n, r, k, plain(stride), plain(pad[0]), *gaps) for n, r, k, stride, pad, *gaps in windows]


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
    places = window_places(params, seen, made, taps)
    groups = params["feature_group_count"] * params["batch_group_count"]
    sizes = pricing.ConvolutionSizes(
        batch=x[numbers.lhs_spec[0]] // params["batch_group_count"],
        positions=product(s if inner > 1 else o for s, o, inner in zip(seen, made, base, strict=True)),
        out_per_group=kernel[numbers.rhs_spec[0]] // groups,
        in_per_group=kernel[numbers.rhs_spec[1]],
        kernel=product(taps),
        groups=groups,
    )
    return pricing.convolution(
        "conv" if all(inner == 1 for inner in base) else "conv_transpose",
        call.reads,
        call.writes,
        sizes,
        places=places,
        valid_taps=pricing.valid_taps_of(places),
        note=pricing.padding_note(places),
    )


_NOTES = {
    "CAUSAL": "causal attention",
    "PADDING": "padded queries and keys are counted",
    "PADDING_CAUSAL": "causal attention; padded queries and keys are counted",
}

_BIASED = "a bias, as a mask given as an array is to cuDNN, hides no scores: all are counted"

#: Kernels of cuDNN by direction: products, and what is said of them. Backward the scores are worked out again.
_KERNELS = {"fwd": (2, ""), "bwd": (5, "the backward pass of cuDNN's attention works its scores out again")}


@rule(*(f"dot_product_attention_{kind}{way}{post}" for way in _KERNELS for kind in ("", "fp8_")
        for post in ("", "_wrapper")))  # fmt: skip
def attention(call: Call) -> Priced:
    """q is [B, T, heads, H], or [B, heads, T, H] in the layout of number 1."""
    matmuls, more = _KERNELS["bwd" if "_bwd" in call.name else "fwd"]
    long, heads = (2, 1) if call.params.get("layout") == 1 else (1, 2)
    q, k, v = (value.shape for value in call.ins[:3])
    S, T, N = q[long], k[long], q[heads]
    kind, unnamed = call.params.get("mask_type"), "CAUSAL" if call.params.get("use_causal_mask") else ""
    word = unnamed if kind is None else str(getattr(kind, "name", kind))
    biased = _BIASED if any(call.params.get("variadic_args") or ()) else ""
    note = "; ".join(filter(None, (_NOTES.get(word, ""), biased, more)))
    mask = _mask("CAUSAL" in word, call.params.get("sliding_window_length"))
    pairs, keys = q[0] * N * mask.pairs(S, T), mask.keys(S, T)
    sizes = pricing.AttentionSizes(q[0], S, T, N, k[heads], q[3], v[3], pairs, keys, note)
    return pricing.attention(call.name, call.reads, call.writes, sizes, matmuls=matmuls)


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
    "lu": counts.lu,
    **dict.fromkeys(("geqrf", "geqp3"), counts.qr),
    "hessenberg": lambda m, n: exact_div(10 * n * n * n, 3),
    "tridiagonal": lambda m, n: exact_div(4 * n * n * n, 3),
}


@rule(*_OF_ONE)
def factorised(call: Call) -> Priced:
    """One matrix, or a batch of them; of a symmetric one a triangle is read."""
    op = _counted(call, _OF_ONE[call.name](*call.ins[0].shape[-2:]))
    return replace(op, reads=_triangular(call)) if call.name in ("cholesky", "tridiagonal") else op


def _triangular(call: Call, *, diagonal: bool = True) -> tuple[Tensor, ...]:
    """What a call reads that looks at one triangle of its first operand, or of each of a batch."""
    *batch, n, _ = call.ins[0].shape
    halves = call.touch(0, product(batch) * counts.triangle(n, n, 0 if diagonal else -1))
    return (*halves, *(t for t in call.reads if t.ident not in {half.ident for half in halves}))


@rule("qr")
def qr(call: Call) -> Priced:
    """The triangle, then the orthogonal columns that are wanted: with ``mode="r"`` none."""
    m, n = call.ins[0].shape[-2:]
    short = minimum(m, n)
    if call.used and not call.used[0]:
        return _counted(call, counts.qr(m, n))
    wanted = counts.square_q(m, short) if call.params.get("full_matrices") else counts.qr(m, short)
    return _counted(call, counts.qr(m, n) + wanted)


@rule("householder_product")
def householder(call: Call) -> Priced:
    """All orthogonal columns, or as many as there are reflections."""
    m, n = call.ins[0].shape[-2:]
    return _counted(call, counts.square_q(m, call.ins[1].shape[-1]) if m == n else counts.qr(m, n))


@rule("triangular_solve")
def triangular_solve(call: Call) -> Priced:
    """Each right-hand side of each matrix."""
    n = call.ins[0].shape[-1]
    each = counts.triangular_solve(n, exact_div(call.ins[1].size, n))
    reads = _triangular(call, diagonal=not call.params.get("unit_diagonal"))
    return call.vector("linalg", each, call.outs[0].size, reads=reads)


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
    n = product(map(size_of, call.params["fft_lengths"]))
    whole = call.ins[0] if call.outs[0].dtype.startswith("complex") else call.outs[0]
    return pricing.fourier(call.name, call.reads, call.writes, rows=exact_div(whole.size, n), n=n, real=real)


def _counted(call: Call, each: Size) -> Op:
    """A count for each matrix of a batch."""
    return call.vector("linalg", product(call.ins[0].shape[:-2]) * each, call.outs[0].size)


#: Functions of :data:`~roofline.ops.elementwise.PER_ELEMENT` by JAX's name.
NAMES = {
    **NAMED_ALIKE,
    "add_any": "add", "rem": "divide", "max": "maximum", "min": "minimum", "exp2": "exp", "expm1": "exp",
    "log1p": "log", "log2": "log", "rsqrt": "rsqrt", "cbrt": "sqrt", "atan2": "sin", "logistic": "sigmoid",
    "erfc": "erf", "erf_inv": "erf", "lgamma": "log", "digamma": "log", "bessel_i0e": "exp", "bessel_i1e": "exp",
    "square": "square", "clamp": "clip", "select_n": "where", "eq": "compare", "ne": "compare", "lt": "compare",
    "le": "compare", "gt": "compare", "ge": "compare", "eq_to": "compare", "lt_to": "compare", "le_to": "compare",
    "is_finite": "compare", "and": "add", "or": "add", "xor": "add", "not": "neg", "shift_left": "add",
    "shift_right_logical": "add", "shift_right_arithmetic": "add", "population_count": "add", "clz": "add",
    "nextafter": "add", "mulhi": "multiply", "reduce_precision": "round",
}  # fmt: skip


rule(*NAMES)(lambda call: call.elementwise(NAMES[call.name]))


@rule("add", "mul")
def combined(call: Call) -> Priced:
    """A sum or a product; of known numbers and 0, or 1, nothing: ``jnp.arange`` of an open size has both.

    Of each factor no more is needed than the other, where it is known, has that is not 0.
    """
    counts: dict[str, Size] = {}
    for place, number in enumerate(call.numbers):
        other, tensor = call.numbers[1 - place], call.operands[1 - place]
        if other is not None and isinstance(number, np.ndarray) and not number.shape and number == (call.name == "mul"):
            return call.alias(0, 1 - place)
        taken = None if number is None or tensor is None or call.name == "add" else _nonzero(number, call.outs[0].size)
        counts |= {} if tensor is None or taken in (None, call.outs[0].size) else {tensor.ident: taken}
    return needing(call.elementwise(NAMES[call.name]), counts)


@rule("select_n")
def chosen(call: Call) -> Priced:
    """A choice between arrays: where it is known, no more of each is needed than it takes."""
    op, which, sides = call.elementwise("where"), call.numbers[0], call.operands[1:]
    idents = [side.ident for side in sides if side is not None]
    if which is None or which.shape != call.outs[0].shape or len({*idents}) < len(idents):
        return op
    every, taken = call.outs[0].size, list[Size]()
    if isinstance(which, np.ndarray):
        taken = [_held(which, n) for n in range(len(sides))]
    elif len(sides) == 2 and (seen := _nonzero(which, every)) is not None:
        taken = [every - seen, seen]
    return needing(op, {t.ident: n for n, t in zip(taken, sides, strict=False) if t is not None})


def _nonzero(numbers: Any, every: Size) -> Size | None:
    """How many of so many numbers are not 0; None where that is not told of an open size."""
    if isinstance(numbers, Elements):
        held = worked_out("not_equal", numbers, 0)
        shown = held and held.visible()
        return shown and shown.elements(every)
    return exact_div(every * (numbers.size - _held(numbers, 0)), maximum(1, numbers.size))


def _held(numbers: Any, number: int) -> int:
    """How often an array holds a number; what is repeated is looked at once."""
    return count_where(np.broadcast_to(once(numbers) == number, numbers.shape))


#: FLOPs an element: (1 + x)·(1 − x); nothing where complex numbers are put together or taken apart.
OTHERS = {"one_minus_square": 3, **dict.fromkeys(("real", "imag", "conj", "complex"), 0)}

rule(*OTHERS)(lambda call: call.for_each("elementwise", call.outs[0].size, OTHERS[call.name]))

rule(
    "igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "regularized_incomplete_beta", "polygamma", "zeta",
)(lambda call: call.unknown("iterates until it converges"))  # fmt: skip


rule("integer_pow")(lambda call: pricing.power(call.name, call.reads, call.writes, call.params["y"]))


# Horner's rule: a product and a sum for every coefficient but the last.
rule("polynomial")(lambda call: call.for_each("elementwise", call.outs[0].size, 2 * (len(call.ins) - 2)))


@rule("convert_element_type")
def converted(call: Call) -> Priced:
    """Convert to another dtype."""
    if call.ins[0].dtype == call.outs[0].dtype:
        return call.alias()
    return pricing.elementwise("cast", call.reads, call.writes, name="cast")


#: Functions of :data:`~roofline.ops.reduction.PER_RESULT` by JAX's name.
REDUCTIONS = {
    "reduce_sum": "sum", "reduce_prod": "prod", "reduce_max": "max", "reduce_min": "min", "reduce_and": "sum",
    "reduce_or": "sum", "reduce_xor": "sum", "argmax": "argmax", "argmin": "argmin",
}  # fmt: skip


@rule(*REDUCTIONS)
def reduced(call: Call) -> Priced:
    """Reduce over some dimensions; over those that are sharded, between devices too."""
    kind, source, out = REDUCTIONS[call.name], call.ins[0], call.outs[0]
    sizes = {"elements": source.size, "results": out.size}
    op = pricing.reduction(kind, call.reads, call.writes, **sizes, name=call.name)
    axes = [axis for d in call.params["axes"] for axis in (source.split[int(d)] if source.split else ())]
    return [op, *reduced_over(call, axes, call.writes[0], out)]


@rule("reduce")
def reduced_by_program(call: Call) -> Priced:
    """Reduce with a program of its own, for every element but the first."""
    elements, results = call.ins[0].size, call.outs[0].size
    flops = (elements - results) * call.inner(call.params["jaxpr"])
    return call.vector("reduction", flops, elements, dims={"results": results}, one_each=flops)


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def scanned(call: Call) -> Priced:
    """A running value: n − 1 operations for each row of n."""
    source, each = call.ins[0], 4 if call.name == "cumlogsumexp" else 1
    rows = exact_div(source.size, source.shape[call.params["axis"]])
    return pricing.scan(call.name, call.reads, call.writes, elements=source.size, rows=rows, each=each)


@rule("sort")
def sorted_(call: Call) -> Priced:
    """Compare: n·⌈log₂ n⌉ for rows of n."""
    source = call.ins[0]
    flops = source.size * levels_of(source.shape[call.params["dimension"]]) * call.params.get("num_keys", 1)
    return call.vector("sort", flops, source.size, one_each=source.size)


@rule("top_k", "approx_top_k")
def top(call: Call) -> Priced:
    """Compare every element once; where all are wanted, rows are sorted."""
    axis = call.params.get("axis", call.params.get("reduction_dimension", -1))
    return call.for_each("sort", call.ins[0].size, compared(call.ins[0].shape[axis], call.outs[0].shape[axis]))


@rule("reduce_window_sum", "reduce_window_max", "reduce_window_min", "reduce_window")
def pooled(call: Call) -> Priced:
    """The largest or the sum of each window."""
    results, window = call.outs[0].size, tuple(map(size_of, call.params["window_dimensions"]))
    each = call.inner(call.params["jaxpr"]) if "jaxpr" in call.params else 1
    places = window_places(call.params, call.ins[0].shape, call.outs[0].shape, window)
    op = pricing.pool(call.name, call.reads, call.writes, results=results, window=product(window), places=places)
    return op if each == 1 else replace(op, work=op.work * each)


@rule("select_and_scatter_add", "select_and_gather_add", "select_and_scatter")
def pooled_backward(call: Call) -> Priced:
    """Find the largest of each window again; add its gradient there, or take one from there."""
    params, window = call.params, tuple(map(size_of, call.params["window_dimensions"]))
    (x, made), gaps = call.ins[:2], dict.fromkeys(("window_dilation", "base_dilation"), (1,) * len(window))
    if call.name == "select_and_scatter_add":
        x, made = made, x
    if call.name == "select_and_gather_add":
        made = call.outs[0]
    places = window_places({**gaps, **params}, x.shape, made.shape, window)
    facts = {"results": made.size, "window": product(window), "places": places}
    if call.name == "select_and_gather_add":
        return pricing.pool(call.name, call.reads, call.writes, **facts)
    return pricing.pool_backward(call.name, call.reads, call.writes, elements=x.size, **facts, is_search=True)


# The same tensor in another form, or under another name.
rule(
    "reshape", "transpose", "squeeze", "expand_dims", "broadcast_in_dim", "broadcast_to", "stop_gradient", "name",
    "copy_p", "pvary", "pbroadcast", "device_put", "bitcast_convert_type", "random_wrap", "random_unwrap",
    "layout_constraint", "random_clone", "preduced", "reduced_vary_cast_p",
    "vary_unreduced_cast_p", "with_memory_space_constraint", "mesh_cast", "to_edtype", "from_edtype",
)(lambda call: call.alias())  # fmt: skip

# A number that the program knows, or nothing.
rule(
    "axis_index", "create_token", "after_all", "platform_index", "dimension_size", "dim_as_value", "shape_assertion",
    "inspect_sharding", "empty", "empty2", "check",
)(lambda call: None)  # fmt: skip

# What goes in is read, what comes out is written, be it several parts or something for the host.
rule(
    "copy", "concatenate", "rev", "tile", "stack", "split", "unstack", "debug_callback", "debug_print",
)(lambda call: call.move())  # fmt: skip


@rule("pad")
def padded(call: Call) -> Priced:
    """Write an array among a constant. What a negative padding cuts off is not read."""
    sizes = zip(call.ins[0].shape, call.params["padding_config"], strict=True)
    kept = product(
        maximum(0, size + minimum(0, low) // (between + 1) + minimum(0, high) // (between + 1))
        for size, (low, high, between) in sizes
    )
    return call.move(reads=(*call.touch(0, kept), *call.read(1)))


# A constant is written.
rule("iota")(lambda call: call.move(reads=()))

rule(
    "random_bits", "random_seed", "random_split", "random_fold_in", "threefry2x32", "threefry4x32", "philox2x32",
    "philox4x32", "rng_bit_generator", "rng_uniform", "random_gamma", "iota_2x32_shape",
)(lambda call: call.move(note="the arithmetic of random numbers is not counted"))  # fmt: skip


@rule("optimization_barrier", "tie", "pin", "unpin")
def passed(call: Call) -> Priced:
    """Results that are the operands."""
    for place in range(len(call.outs)):
        call.alias(place, place + len(call.ins) - len(call.outs))
    return None


@rule("slice", "dynamic_slice")
def sliced(call: Call) -> Priced:
    """Read and write the part that is taken."""
    if call.operands[0] is None:
        return call.alias()
    if "limit_indices" in call.params:
        first, last = ([*map(size_of, call.params[name])] for name in ("start_indices", "limit_indices"))
        part = part_name(list(zip(first, last, call.params.get("strides") or (1,) * len(first), strict=True)))
    else:
        part = sliced_part(call.ins[0].shape, call.outs[0].shape, call.numbers[1:])
    return call.move(reads=call.touch(0, call.outs[0].size, part))


@rule("dynamic_update_slice")
def updated(call: Call) -> Priced:
    """Write a part in place."""
    if call.operands[0] is None:
        return call.move()
    writes = call.into(0, call.ins[1].size)
    return call.move(reads=call.read(1), writes=writes, note="a buffer that is updated is updated in place")


@rule("gather")
def gathered(call: Call) -> Priced:
    """Read the elements that indices name; where one out of bounds is filled, four checks an index and a choice.

    The checks: not below, not above, both, for every index of a window; then a select for every element.
    """
    size = call.outs[0].size
    checked = str(call.params.get("mode")).endswith("FILL_OR_DROP") or call.params.get("mode") == 1
    flops = 4 * call.ins[1].size + size if checked else 0
    where = picking(call.numbers[1])
    part = gathered_part(call.ins[0].shape, call.params, where)
    if where is not None:  # of each batch apart
        batches = getattr(call.params["dimension_numbers"], "start_indices_batching_dims", ())
        own = np.moveaxis(np.indices(where.shape[:-1])[list(map(int, batches))], 0, -1)
        where = np.concatenate([where, own], -1)
    read = size if where is None else once_each(size, where.reshape(-1, where.shape[-1]))
    return call.vector("gather", flops, size, one_each=flops, reads=(*call.touch(0, read, part), *call.read(1)))


#: Primitives that write values where indices name.
SCATTERS = (
    "scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max", "scatter_add", "scatter_sub",
    "scatter_mul", "scatter_min", "scatter_max",
)  # fmt: skip


@rule(*SCATTERS)
def scattered(call: Call) -> Priced:
    """Write values where indices name, in place; combining reads what was there."""
    size = call.ins[2].size
    program = call.params.get("update_jaxpr")
    combines = program is not None and bool(program.eqns)
    flops = size * call.inner(program) if combines else 0
    reads = (*(call.touch(0, size) if combines else ()), *call.read(1, 2))
    writes = call.writes if call.operands[0] is None else call.into(0, size)
    return call.vector("scatter", flops, size, one_each=flops, reads=reads, writes=writes)


@rule("pure_callback", "io_callback", "ffi_call", "outside_call")
def host(call: Call) -> Priced:
    """A function that JAX cannot see into."""
    name = call.params.get("target_name") or call.name
    return pricing.unknown(str(name), call.reads, call.writes, "runs outside JAX")


@rule("psum", "psum_invariant", "psum2", "unreduced_psum", "pmax", "pmin")
def all_reduce(call: Call) -> Priced:
    """Everyone gets the sum."""
    over = _over(call)
    return [
        _collective(call, "AllReduce", over, (read,), (write,), write.traffic_bytes, call.name)
        for read, write in zip(call.operands, call.writes, strict=True)
        if read is not None
    ]


#: Primitives by what they do: everyone gets every part, or a part of the sum; everyone sends every other device its
#: part, or what it has to one other.
_DOES = {
    **dict.fromkeys(("all_gather", "all_gather_invariant", "all_gather_reduced"), "AllGather"),
    **dict.fromkeys(("reduce_scatter", "unreduced_reduce_scatter", "psum_scatter"), "ReduceScatter"),
    **dict.fromkeys(("all_to_all", "ragged_all_to_all"), "AllToAll"),
    **dict.fromkeys(("ppermute", "psend", "precv"), "Permute"),
}


@rule(*_DOES)
def collective(call: Call) -> Priced:
    """One collective, of the bytes that a device holds before it, or after a gathering."""
    does, over = _DOES[call.name], _over(call)
    reads = call.read(0) if does == "AllToAll" else call.reads
    nbytes = _bytes(call.writes if does == "AllGather" else reads)
    whole = nbytes * _count(call, over) if does == "AllToAll" else nbytes
    return _collective(call, does, over, reads, call.writes, whole, call.name)


@rule("reshard")
def reshard(call: Call) -> Priced:
    """Gather what is no longer sharded; axes that change their dimension are exchanged; taking a part sends nothing."""
    before, after = _axes(call.ins[0].split), _axes(call.outs[0].split)
    gathered = [axis for axis in before if axis not in after]
    moved = [axis for axis in before if axis in after and before[axis] != after[axis]]
    if not gathered and not moved:
        if call.ins[0].shape == call.outs[0].shape:
            return call.alias()
        return pricing.move(call.name, call.touch(0, call.outs[0].size), call.writes)
    ops = []
    if moved:
        whole = _bytes(call.reads) * _count(call, moved)
        ops.append(_collective(call, "AllToAll", moved, call.reads, call.writes, whole, "all_to_all"))
    if gathered:
        ops.append(_collective(call, "AllGather", gathered, call.reads, call.writes, _bytes(call.writes), "all_gather"))
    return ops


def reduced_over(call: Call, axes: Iterable[str], tensor: Tensor, value: Value) -> list[Op]:
    """The collective after a sum over sharded dimensions: everyone gets it, or its part where the result is sharded."""
    summed = list(dict.fromkeys(axes))
    if not summed:
        return []
    kept = _axes(value.split)
    scattered = [axis for axis in summed if axis in kept]
    everyone = [axis for axis in summed if axis not in kept]
    ops = []
    if scattered:
        whole = tensor.traffic_bytes * _count(call, scattered)
        ops.append(_collective(call, "ReduceScatter", scattered, (tensor,), (tensor,), whole, "reduce_scatter"))
    if everyone:
        whole = tensor.traffic_bytes
        ops.append(_collective(call, "AllReduce", everyone, (tensor,), (tensor,), whole, "all_reduce"))
    return ops


#: Mesh axes, or how many devices a group has.
Over: TypeAlias = Sequence[str] | int


def _collective(
    call: Call, does: str, over: Over, reads: Sequence[Tensor], writes: Sequence[Tensor], nbytes: Size, name: str
) -> Op:
    """One collective over mesh axes, or over groups of so many devices."""
    groups = [] if isinstance(over, int) else [(axis, call.axes[axis], _stride(call, axis)) for axis in over]
    devices = _count(call, over)
    return pricing.least_collective(name, reads, writes, does=does, nbytes=nbytes, devices=devices, groups=groups)


def _over(call: Call) -> Over:
    """Mesh axes that take part, or how many devices where the program groups them by number."""
    groups = call.params.get("axis_index_groups")
    if groups:
        return len(groups[0])
    names: Any = call.params.get("axis_name") or call.params.get("axes") or ()
    chosen = names if isinstance(names, tuple | list) else (names,)
    listed = [axis for axis in chosen if isinstance(axis, str)]
    return listed if all(axis in call.axes for axis in listed) else int(call.params.get("axis_size", 1))


def _count(call: Call, over: Over) -> int:
    """Devices that take part."""
    return over if isinstance(over, int) else prod(call.axes[axis] for axis in over)


def _stride(call: Call, axis: str) -> int:
    """How far apart the devices of an axis are: those of the mesh's last axis are next to each other."""
    names = list(call.axes)
    return prod(call.axes[name] for name in names[names.index(axis) + 1 :])


def _axes(split: Sequence[tuple[str, ...]]) -> dict[str, int]:
    return {axis: place for place, over in enumerate(split) for axis in over}


def _bytes(tensors: Sequence[Tensor]) -> Size:
    return sum(tensor.traffic_bytes for tensor in tensors)
