"""Primitives of JAX beside matmuls and convolutions of laws: each has its count or is listed, none is nothing."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental import sparse

from roofline.errors import InputError
from roofline.ops.counting import one_each
from roofline.programs import trace as trace_any
from roofline.programs.jax.registry import Call, Value, find
from roofline.sizes import symbol
from roofline.work import Tensor
from tests.strategies import some


def trace(function, *inputs, **options):
    return trace_any(function, *inputs, frontend="jax", **options)


def _shape(*dims, dtype="float32"):
    return jax.ShapeDtypeStruct(dims, dtype)


X = _shape(6, 8)
INDEX = _shape(3, dtype="int32")
#: A function, its inputs, all its FLOPs by hand, and the bytes that it moves (each array once).
COUNTS = [
    ("cumsum", lambda x: jnp.cumsum(x, 1), (X,), 6 * 7, 2 * 48 * 4),
    ("cumprod", lambda x: lax.cumprod(x, 0), (X,), 8 * 5, 2 * 48 * 4),
    ("sort", lambda x: lax.sort(x), (X,), 48 * 3, 2 * 48 * 4),  # ⌈log₂ 8⌉ comparisons an element
    ("top_k", lambda x: lax.top_k(x, 2), (X,), 48, (48 + 12 + 12) * 4),
    ("argmax", lambda x: lax.argmax(x, 1, jnp.int32), (X,), 6 * 7, (48 + 6) * 4),
    ("gather", lambda x, i: x.at[i].get(mode="promise_in_bounds"), (X, INDEX), 9, None),
    ("scatter-add", lambda x, i, u: x.at[i].add(u, mode="promise_in_bounds"), (X, INDEX, _shape(3, 8)), 9 + 24, None),
    ("ragged_dot", lax.ragged_dot, (X, _shape(3, 8, 5), INDEX), 2 * 6 * 8 * 5, (48 + 120 + 3 + 30) * 4),
    ("fft", jnp.fft.fft, (_shape(4, 8, dtype="complex64"),), 4 * 5 * 8 * 3, 2 * 32 * 8),
    ("rfft", lambda x: lax.fft(x, "RFFT", (8,)), (_shape(4, 8),), 4 * 5 * 8 * 3 // 2, 4 * 8 * 4 + 4 * 5 * 8),
    ("irfft", lambda x: lax.fft(x, "IRFFT", (8,)), (_shape(4, 5, dtype="complex64"),), 4 * 5 * 8 * 3 // 2,
     4 * 5 * 8 + 4 * 8 * 4),
    ("pad", lambda x: lax.pad(x, 0.0, [(-2, 3, 1), (1, -1, 0)]), (X,), 0, (5 * 7 + 12 * 8) * 4),
    ("cholesky", lambda x: lax.linalg.cholesky(x, symmetrize_input=False), (_shape(2, 6, 6),),
     2 * 72 + 36 + 72, None),  # and the upper half set to zero: positions are compared, a choice
    ("triangular_solve", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), (_shape(6, 6), X),
     6 * 6 * 8, (21 + 48 + 48) * 4),
    ("hessenberg", lax.linalg.hessenberg, (_shape(6, 6),), 10 * 6**3 // 3, None),
    ("tridiagonal", lambda x: lax.linalg.tridiagonal(x), (_shape(6, 6),), 4 * 6**3 // 3, None),
    ("tridiagonal_solve", lax.linalg.tridiagonal_solve, (*[_shape(6)] * 3, _shape(6, 2)), 3 * 6 + 5 * 12, None),
    ("householder_product", lax.linalg.householder_product, (_shape(6, 6), _shape(6)), 4 * 6**3 // 3, None),
    ("householder_product, tall", lax.linalg.householder_product, (_shape(8, 6), _shape(6)), 2 * 36 * (8 - 2), None),
    ("bcoo_dot_general", lambda v, i, x: sparse.BCOO((v, i), shape=(6, 8)) @ x,
     (_shape(10), _shape(10, 2, dtype="int32"), _shape(8, 5)), 2 * 10 * 5, None),
    ("scaled_matmul", jax.nn.scaled_matmul,
     (*(_shape(1, n, 64, dtype="float8_e4m3fn") for n in (32, 16)),
      *(_shape(1, n, 2, dtype="float8_e8m0fnu") for n in (32, 16))), 2 * 32 * 16 * 64, None),
    ("max pooling", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"), (X,), 12 * 3, None),
]  # fmt: skip


@pytest.mark.parametrize(("function", "inputs", "flops", "moved"), [c[1:] for c in COUNTS], ids=[c[0] for c in COUNTS])
def test_counts_by_hand(function, inputs, flops, moved):
    traced = trace(function, *inputs)
    assert traced.flops("all") == flops
    assert traced.complete
    if moved is not None:
        assert traced.bytes() == moved


@pytest.mark.parametrize(
    ("name", "operands", "flops"),
    [
        ("one_minus_square", 1, 3),
        ("polynomial", 6, 2 * 4),
        ("log2", 1, 1),
    ],  # the highest of five coefficients is no step
)
def test_primitives_of_newer_jax_have_their_count(name, operands, flops):
    values, tensors = [Value((6, 8), "fp32")] * operands, [Tensor(f"x{n}", (6, 8), "fp32") for n in range(operands)]
    op = find(name)(Call(name, {}, values, values[:1], tensors, [Tensor("y", (6, 8), "fp32")], {}, None))
    assert (one_each(op), op.work.total("flops")) == (48, 48 * flops)


@pytest.mark.parametrize("function", [jnp.linalg.eigh, jnp.linalg.svd, jnp.linalg.eigvals, jnp.linalg.pinv])
def test_what_iterates_is_listed(function):
    (gap, *_) = trace(function, _shape(6, 6)).listed_gaps()
    assert gap.reason == "iterates until it converges"
    assert gap.bytes


@pytest.mark.parametrize("function", [jnp.linalg.qr, jnp.linalg.inv, jnp.linalg.det, lambda x: jnp.linalg.solve(x, x)])
def test_what_does_not_iterate_is_counted(function):
    traced = trace(function, _shape(6, 6))
    assert traced.complete
    assert traced.flops("all") > 6**3 / 3


@pytest.mark.parametrize(("ours", "theirs", "inputs"), [
    (jnp.linalg.qr, torch.linalg.qr, ("fp32[2, 30, 20]",)),
    (jnp.linalg.qr, torch.linalg.qr, ("fp32[20, 30]",)),
    (lambda x: jnp.linalg.qr(x, mode="complete"), lambda x: torch.linalg.qr(x, "complete"), ("fp32[30, 20]",)),
    (lax.linalg.lu, torch.linalg.lu_factor, ("fp32[3, 20, 30]",)),
    (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), torch.linalg.cholesky, ("fp32[3, 30, 30]",)),
    (jnp.linalg.solve, torch.linalg.solve, ("fp32[30, 30]", "fp32[30, 5]")),
    (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True),
     lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), ("fp32[2, 30, 30]", "fp32[2, 30, 5]")),
])  # fmt: skip
def test_factorisations_count_as_in_pytorch(ours, theirs, inputs):
    counted = trace(ours, *inputs).totals("all")["linalg"]
    assert counted == pytest.approx(trace_any(theirs, *inputs).totals("all")["linalg"], rel=1e-12)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_transposed_and_dilated_convolutions(groups, stride, dilation):
    """Brute force: every tap of every result that meets an element (a transposed one: between which none is put)."""

    def network(x, w):
        return lax.conv_general_dilated(x, w, (1,), ((2, 2),), (stride,), (dilation,), feature_group_count=groups)

    length, taps, cin, cout = 9, 3, 8, 12
    traced = trace(network, _shape(2, cin, length), _shape(cout, cin // groups, taps))
    held = np.zeros((length - 1) * stride + 1 + 4)
    held[2 : len(held) - 2 : stride] = 1
    results = len(held) - (taps - 1) * dilation
    met = sum(held[o + t * dilation] for o in range(results) for t in range(taps))
    assert traced.flops("valid") == 2 * 2 * met * cout * cin // groups


def test_kernels_by_their_estimate_or_as_gaps():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def run(estimate):
        return lambda x: pl.pallas_call(kernel, out_shape=_shape(8, 8), cost_estimate=estimate)(x)

    stated = trace(run(pl.CostEstimate(flops=640, transcendentals=3, bytes_accessed=512)), _shape(8, 8))
    assert (stated.flops(), stated.flops("all"), stated.complete) == (640, 643, True)
    unstated = trace(run(None), _shape(8, 8))
    (gap,) = unstated.listed_gaps()
    assert (gap.reason, gap.bytes) == ("a Pallas kernel without a cost_estimate", 512)
    assert unstated.bound("h100").incomplete


def test_a_kernel_in_a_loop_counts_each_time():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    estimate = pl.CostEstimate(flops=640, transcendentals=0, bytes_accessed=512)
    call = pl.pallas_call(kernel, out_shape=_shape(8, 8), cost_estimate=estimate)
    traced = trace(lambda x: lax.scan(lambda c, _: (call(c), None), x, None, length=5)[0], _shape(8, 8))
    assert traced.flops() == 5 * 640
    assert any("from its cost_estimate" in text for text in traced.assumptions)


def test_a_custom_call_is_listed_by_its_target():
    def network(x):
        return jax.ffi.ffi_call("their_kernel", jax.ShapeDtypeStruct(x.shape, x.dtype))(x) @ x

    traced = trace(network, _shape(8, 8))
    (gap,) = traced.listed_gaps()
    assert (gap.name, gap.reason, gap.bytes) == ("their_kernel", "runs outside JAX", 2 * 256)
    assert traced.flops() == 2 * 8**3


def test_a_while_loop_names_its_line_and_takes_its_trips_by_line():
    def network(x):
        x = lax.while_loop(lambda c: c.sum() > 0, lambda c: c @ c, x)
        return lax.while_loop(lambda c: c.sum() > 1, lambda c: c @ c @ c, x)

    with pytest.raises(InputError, match=r"test_jax_primitives\.py:(\d+): how often this while loop") as found:
        trace(network, _shape(8, 8))
    first = str(found.value).partition(": ")[0]
    name, _, line = first.partition(":")
    traced = trace(network, _shape(8, 8), trips={first: 3, f"{name}:{int(line) + 1}": 5})
    assert traced.flops() == (3 + 5 * 2) * 2 * 8**3
    with pytest.raises(InputError, match=f"{name}:{int(line) + 1}: how often"):
        trace(network, _shape(8, 8), trips={first: 3})


@pytest.mark.parametrize(
    ("start", "goes_on", "step", "trips"),
    [
        (0, lambda i: i < 5, lambda i: i + 1, 5),
        (1, lambda i: i <= 5, lambda i: 2 + i, 3),
        (10, lambda i: i > 0, lambda i: i - 3, 4),
        (9, lambda i: i >= 0, lambda i: i - 3, 4),
        (0, lambda i: i != 6, lambda i: i + 2, 3),
        (0, lambda i: 5 > i, lambda i: i + 1, 5),  # noqa: SIM300
        (np.int32(0), lambda i: i < jnp.int32(7), lambda i: i + jnp.int32(2), 4),
        (0, lambda i: i < 0, lambda i: i + 1, 0),
        (0, lambda i: i < 5, lambda i: i - 1, None),
        (0, lambda i: i != 5, lambda i: i + 2, None),
        (0, lambda i: i != -4, lambda i: i + 2, None),
        (0, lambda i: i < 5, lambda i: 7 - i, None),
    ],
)
def test_a_while_loop_with_a_counter_needs_no_stated_trips(start, goes_on, step, trips):
    def network(x):
        return lax.while_loop(lambda c: goes_on(c[0]), lambda c: (step(c[0]), c[1] @ x), (start, x))[1]

    if trips is None:
        with pytest.raises(InputError, match="how often this while loop runs"):
            trace(network, _shape(8, 8))
        return
    counted, now = 0, start
    while goes_on(now):
        counted, now = counted + 1, step(now)
    assert counted == trips
    assert trace(network, _shape(8, 8)).flops() == trips * 2 * 8**3


def test_a_bound_that_a_loop_carries_is_its_number_where_it_stays():
    def loop(x, grows):
        body = lambda c: (c[0] + 1, c[1] @ x, c[2] + grows if grows else c[2])  # noqa: E731
        return lax.while_loop(lambda c: c[0] < c[2], body, (0, x, 6))[1]

    assert trace(lambda x: loop(x, 0), _shape(8, 8)).flops() == 6 * 2 * 8**3
    for bound in (lambda: jnp.array(6), lambda: jnp.array(5) + 1):
        found = trace(lambda x, bound=bound: lax.fori_loop(0, bound(), lambda i, c: c @ x, x), _shape(8, 8))
        assert found.flops() == 6 * 2 * 8**3
    opened = trace(lambda x, y: lax.fori_loop(1, y.shape[0], lambda i, c: c @ x, x), "fp32[8, 8]", "fp32[S]")
    assert [opened.flops().subs(symbol("S"), size) for size in (1, 9)] == [0, 8 * 2 * 8**3]
    with pytest.raises(InputError, match="how often this while loop runs"):
        trace(lambda x: loop(x, 1), _shape(8, 8))


def test_the_largest_branch_is_counted_and_said():
    def network(x):
        return lax.switch(x[0, 0].astype(int), [lambda x: x, lambda x: x @ x, lambda x: x @ x @ x], x)

    traced = trace(network, _shape(8, 8))
    assert traced.flops() == 2 * 2 * 8**3
    assert any("of a cond's 3 branches the largest is counted" in text for text in traced.assumptions)


def test_a_reference_that_is_updated_is_listed():
    def network(x):
        ref = jax.new_ref(jnp.zeros((8, 8)))
        ref[...] += x
        return ref[...]

    assert {gap.name for gap in trace(network, _shape(8, 8)).listed_gaps()} & {"get", "swap", "addupdate", "new_ref"}


def test_a_branch_inside_a_library_is_told_without_a_line():
    found = trace(jax.scipy.linalg.expm, "fp32[8, 8]").assumptions
    assert [line for line in found if "cond" in line]
    assert not [line for line in found if line.startswith(":")]


_FULL, _CAUSAL = 128 * 128, 128 * 129 // 2


@pytest.mark.parametrize(("options", "pairs"), [
    ({}, _FULL), ({"is_causal": True}, _CAUSAL),
    ({"is_causal": True, "local_window_size": (31, 0)}, 32 * 33 // 2 + 96 * 32),
])  # fmt: skip
def test_attention_of_cudnn_is_one_kernel_without_a_device_too(options, pairs):
    """Grouped queries; what a mask hides is not computed, and the scores are worked out again for the gradients."""

    def attend(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, implementation="cudnn", **options)

    def gradients(q, k, v):
        return jax.grad(lambda *given: attend(*given).astype(jnp.float32).sum(), (0, 1, 2))(q, k, v)

    inputs = ("bf16[2, 128, 8, 64]", "bf16[2, 128, 2, 64]", "bf16[2, 128, 2, 64]")
    found = trace(attend, *inputs)
    assert (found.flops(), found.complete) == (4 * 2 * 8 * pairs * 64, True)
    assert found.bytes() == 2 * 2 * 128 * 64 * (8 + 2 + 2 + 8)
    assert trace(gradients, *inputs).flops() == (4 + 10) * 2 * 8 * pairs * 64


def test_a_mask_given_to_cudnn_as_an_array_hides_no_scores_and_says_so():
    def attend(q, k, v):
        mask = jnp.tril(jnp.ones((1, 1, 128, 128), bool))
        return jax.nn.dot_product_attention(q, k, v, mask=mask, implementation="cudnn")

    found = trace(attend, *["bf16[2, 128, 8, 64]"] * 3)
    assert found.flops() == 4 * 2 * 8 * _FULL * 64
    assert any("a mask given as an array" in line for line in found.assumptions)


@pytest.mark.parametrize(("queries", "keys"), some([(5, 9), (9, 5), (6, 6)], 2))
@pytest.mark.parametrize("window", [None, 3])
def test_causal_attention_of_cudnn_is_a_formula_in_open_lengths(queries, keys, window):
    def attend(q, k, v):
        sides = {} if window is None else {"local_window_size": (window - 1, 0)}
        return jax.nn.dot_product_attention(q, k, v, implementation="cudnn", is_causal=True, **sides)

    formula = trace(attend, "bf16[2, S, 8, 64]", *("bf16[2, T, 8, 64]",) * 2).flops()
    seen = [[i - j >= 0 and (window is None or i - j < window) for j in range(keys)] for i in range(queries)]
    numbers = {name: {"S": queries, "T": keys}[str(name)] for name in formula.free_symbols}
    assert formula.subs(numbers) == 4 * 2 * 8 * 64 * sum(map(sum, seen))


def test_inputs_take_values_where_a_function_looks_at_them():
    """The first n rows, n being given; rows by an index; a mask that chooses while it is traced."""

    def rows(x, n, index, mask):
        chosen = x[: int(n)] @ x[: int(n)].T if bool(mask.all()) else x
        return chosen, x[index] * 2

    given = ("bf16[1000, 64]", "int32[] = 8", "int32[4] = 1, 5, 5, 7", "bool[2, 2] = true")
    traced = trace(rows, *given)
    assert traced.flops() == 2 * 8 * 8 * 64
    assert traced.inputs == ("bf16[1000, 64]", "int32[]", "int32[4]", "bool[2, 2]")
    with pytest.raises(InputError, match="holds 4 values, and 3 are given; give each, or one"):
        trace(rows, *given[:2], "int32[4] = 1, 5, 5", given[3])
    with pytest.raises(InputError, match="holds 1,000,000,000,000 values; at most 268,435,456 can be looked at"):
        trace(rows, *given[:3], "bool[1000000, 1000000] = 1")


def test_a_triangle_alone_needs_no_orthogonal_columns() -> None:
    tall = "fp32[30, 20]"
    whole, triangle = (trace_any(partial(jnp.linalg.qr, mode=mode), tall, frontend="jax") for mode in ("reduced", "r"))
    assert whole.flops("all") == 2 * triangle.flops("all") == pytest.approx(4 * 20**2 * (30 - 20 / 3))


@pytest.mark.parametrize("given", [{"inputs": ["bf16[4]", np.float16(2)]}, {"kwargs": {"c": np.float16(2)}}])
def test_a_number_of_numpy_has_its_format(given):
    inputs = () if "inputs" in given else ("bf16[4]",)
    found = trace_any(lambda x, c: x * c, *inputs, frontend="jax", **given)
    assert found.inputs[-1] == "fp16[]"
    assert {t.dtype for t in found.ops[-1].writes} == {"fp32"}  # as JAX has a product of bf16 and fp16
