"""Laws of tracing JAX: XLA agrees on straight-line programs, unrolled = scanned, train = 3 forward; clear errors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax

from roofline.errors import InputError
from roofline.programs import trace as trace_any
from tests.strategies import few, some

SIZES = st.integers(1, 24)


def trace(function, *inputs, **options):
    return trace_any(function, *inputs, frontend="jax", **options)


def _shape(*dims, dtype="float32"):
    return jax.ShapeDtypeStruct(dims, dtype)


def _xla(function, *inputs):
    return jax.jit(function).lower(*inputs).cost_analysis().get("flops", 0)


@few(8)
@given(b=SIZES, m=SIZES, k=SIZES, n=SIZES)
def test_xla_agrees_on_matmuls(b, m, k, n):
    def network(x, y, z):
        return jnp.einsum("bmk,bkn->bnm", x, y) @ z

    inputs = _shape(b, m, k), _shape(b, k, n), _shape(m, 3)
    assert trace(network, *inputs).flops("valid") == _xla(network, *inputs)


@few(15)
@given(
    sizes=st.tuples(*(st.integers(1, 3),) * 3, st.integers(1, 3), st.integers(1, 3)),
    length=st.integers(5, 9),
    stride=st.integers(1, 3),
    pad=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    kernel_dilation=st.integers(1, 2),
    input_dilation=st.integers(1, 3),
    of_batch=st.booleans(),
)
def test_xla_agrees_on_convolutions(sizes, length, stride, pad, kernel_dilation, input_dilation, of_batch):
    b, c, o, g, k = sizes

    def network(x, w):
        return lax.conv_general_dilated(
            x, w, (stride,), (pad,), (input_dilation,), (kernel_dilation,),
            feature_group_count=1 if of_batch else g, batch_group_count=g if of_batch else 1,
        )  # fmt: skip

    x = _shape(b * g, c, length) if of_batch else _shape(b, c * g, length)
    traced = trace(network, x, _shape(o * g, c, k))
    assert traced.flops("valid") == _xla(network, x, _shape(o * g, c, k))


def _stacked(x, weights, unroll):
    if not unroll:
        return lax.scan(lambda carry, w: (jnp.tanh(carry @ w), None), x, weights)[0]
    for i in range(weights.shape[0]):
        x = jnp.tanh(x @ weights[i])
    return x


def _shared(x, w, unroll):
    if not unroll:
        return lax.scan(lambda carry, _: (jnp.tanh(carry @ w), None), x, None, length=5)[0]
    for _ in range(5):
        x = jnp.tanh(x @ w)
    return x


@pytest.mark.parametrize("network", [_stacked, _shared])
def test_unrolled_is_scanned(network):
    weights = _shape(5, 64, 64) if network is _stacked else _shape(64, 64)
    loop, flat = (trace(network, _shape(8, 64), weights, unroll) for unroll in (False, True))
    assert loop.flops("all") == flat.flops("all")
    assert loop.flops() == 5 * 2 * 8 * 64 * 64
    assert loop.bytes("minimal") == flat.bytes("minimal") == (2 * 8 * 64 + weights.size) * 4
    assert loop.bytes() == flat.bytes() - flat.only(kind="copy").bytes()
    both = [trace(network, _shape(8, 64), weights, unroll, backward=True).flops() for unroll in (False, True)]
    assert both == [3 * loop.flops()] * 2


def test_loops_inside_loops_multiply():
    def inner(carry, _):
        return lax.fori_loop(0, 3, lambda i, c: c @ c, carry), None

    traced = trace(lambda x: lax.scan(inner, x, None, length=4)[0], _shape(8, 8))
    assert traced.flops() == 12 * 2 * 8**3


@few(15)
@given(m=SIZES, k=SIZES, n=SIZES)
def test_training_is_three_forwards(m, k, n):
    def layer(x, w):
        return jnp.tanh(x @ w)

    traced = trace(layer, _shape(m, k), _shape(k, n), backward=True)
    assert traced.flops() == 6 * m * k * n
    assert traced.only(phase="forward").flops() == 2 * m * k * n


def test_gradients_of_the_weights_alone_are_those_of_grad():
    def loss(p, x, y):
        return jnp.mean((jnp.tanh(x @ p["w"]) @ p["v"] - y) ** 2)

    inputs = ({"w": _shape(16, 32), "v": _shape(32, 16)}, _shape(8, 16), _shape(8, 16))
    step, every = (trace(loss, *inputs, backward=True, **options) for options in ({"weights": 0}, {}))
    assert step.flops() == trace(jax.value_and_grad(loss), *inputs).flops() == every.flops() - 2 * 8 * 16 * 32
    assert "the backward pass gives gradients of the weights alone, input 0" in step.assumptions
    assert "the backward pass gives gradients of every floating input: weights=0" in " ".join(every.assumptions)
    with pytest.raises(InputError, match="weights: no input stands at 3; inputs are at 0 to 2"):
        trace(loss, *inputs, backward=True, weights=3)


def test_recomputing_adds_a_forward():
    def loss(x, w):
        return jnp.sum(jnp.sin(jnp.tanh(x @ w) @ w))

    both = (jax.value_and_grad(f, (0, 1)) for f in (loss, jax.checkpoint(loss)))
    plain, again = (trace(step, _shape(8, 16), _shape(16, 16)) for step in both)
    assert plain.flops() == 6 * 2 * 8 * 16 * 16
    assert again.flops() == plain.flops() + 2 * 2 * 8 * 16 * 16


def test_a_result_that_is_read_too_is_written_for_good():
    """A step of Adam: the parameters, both moments and the gradient are read, three of them written."""

    def step(parameters, first, second, gradient):
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        return parameters - 1e-3 * first / (jnp.sqrt(second) + 1e-8), first, second

    traced = trace(step, *(_shape(64, 32),) * 4)
    assert traced.bytes("minimal") == 7 * 64 * 32 * 4


def test_a_symbol_gives_a_formula():
    def network(x, w):
        return jax.nn.gelu(x @ w)

    traced = trace(network, "bf16[B, 512]", "bf16[512, 2048]")
    (symbol,) = traced.flops().free_symbols
    numbers = trace(network, "bf16[B, 512]", "bf16[512, 2048]", sizes={"B": 24})
    assert traced.flops().subs(symbol, 24) == numbers.flops()
    assert traced.bytes().subs(symbol, 24) == numbers.bytes()
    last = trace(lambda x, w: (x @ w)[:, -1], "fp32[B, S, 16]", "fp32[16, 8]")
    assert str(last.bytes("minimal")) == "96*B + 512"  # of an open length too the last row alone is read


def test_a_size_that_is_a_value_is_no_input():
    """What is worked out of sizes alone is a number that whoever starts the program gives it."""
    for program in (lambda x: x * x.shape[0], lambda x: x.mean(0), lambda x: x / (x.shape[0] // 2 + 1)):
        opened, fixed = trace(program, "fp32[N, 8]"), trace(program, "fp32[6, 8]")
        for policy in ("each-op", "minimal"):
            formula = opened.bytes(policy)
            assert formula.subs(dict.fromkeys(formula.free_symbols, 6)) == fixed.bytes(policy)


@pytest.mark.parametrize("height", some([5, 6, 7], 2))
def test_a_convolution_with_padding_same_takes_an_open_image(height):
    def step(x, w):
        return lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    opened, fixed = (trace(step, f"fp32[2, {n}, 9, 4]", "fp32[3, 3, 4, 8]") for n in ("N", height))
    for formula, number in (
        (opened.flops("all"), fixed.flops("all")),
        (opened.bytes("minimal"), fixed.bytes("minimal")),
    ):
        assert formula.subs(dict.fromkeys(formula.free_symbols, height)) == number


@pytest.mark.parametrize(
    "program",
    [
        lambda x: jnp.fft.fft(x, axis=0).real,
        lambda x: jnp.fft.rfft(x, axis=0),
        lambda x: lax.reduce_window(x, 0.0, lax.add, (x.shape[0], 1), (1, 1), "VALID"),
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (x.shape[0], 2), (x.shape[0], 2), "VALID"),
    ],
)
def test_a_transform_or_windows_over_an_open_size_are_a_formula_in_it(program):
    opened, fixed = trace(program, "fp32[N, 6]"), trace(program, "fp32[8, 6]")
    (size,) = opened.bytes().free_symbols
    for policy in ("each-op", "minimal"):
        assert opened.bytes(policy).subs(size, 8) == fixed.bytes(policy)
    assert float(opened.flops("all").subs(size, 8)) == pytest.approx(fixed.flops("all"))


def test_a_loop_reads_a_number_that_it_starts_from_once():
    traced = trace(lambda x, v: lax.scan(lambda c, row: (c + row, c), v, x)[0], "fp32[100]", "fp32[]")
    assert traced.bytes("minimal") == 4 * (100 + 1 + 1)


def test_ragged_dot_counts_every_row_once():
    inputs = _shape(8, 4), _shape(3, 4, 5), _shape(3, dtype="int32")
    assert trace(lax.ragged_dot, *inputs).flops() == 2 * 8 * 4 * 5
    assert trace(lax.ragged_dot, *inputs, backward=True).flops() == 3 * 2 * 8 * 4 * 5


def test_nothing_is_done_to_empty_arrays():
    traced = trace(lambda x: (x.sum(), jnp.cumsum(x, 0), x @ x.T), _shape(0, 4))
    assert traced.flops("all") == 0


def test_what_is_worked_out_again_keeps_its_place():
    def layer(x, w):
        with jax.named_scope("mlp"):
            return jnp.tanh(jnp.einsum("...i,ij->...j", x, w)) @ w

    traced = trace(jax.grad(lambda w, x: jax.checkpoint(layer)(x, w).sum()), _shape(8, 8), _shape(2, 8))
    assert {op.where.partition(".")[0] for op in traced.ops if op.kind == "contraction"} == {"mlp"}
    assert all(op.where in traced.modules for op in traced.ops if op.where)


def test_places_and_lines():
    def network(x, w):
        with jax.named_scope("layers/0"):
            return jnp.tanh(x @ w)

    traced = trace(network, _shape(8, 8), _shape(8, 8), weights=1, backward=True)
    assert {op.where for op in traced.ops} == {"layers.0"}
    assert all(op.options["source"].startswith("test_jax_laws.py:") for op in traced.ops)
    assert traced.parameters() == 64
    assert traced.under("layers.0").flops() == traced.flops()


def _branches_on_data(x):
    return x if x[0, 0] > 0 else x + 1


@pytest.mark.parametrize(
    ("function", "inputs", "options", "said"),
    [
        (_branches_on_data, ["fp32[8, 8]"], {}, "depends on the values of an array"),
        (jnp.matmul, ["fp32[8, 8]", "fp32[3, 3]"], {}, "the program fails on shapes alone: TypeError: dot_general"),
        (lambda x: x.reshape(3, -1), ["fp32[B, 4]"], {}, "a size without a number is not enough here"),
        (
            lambda p, x: x + p[: x.shape[0]],
            ["fp32[16, 8]", "fp32[S, 8]"],
            {},
            r"a size without a number is not enough here: .*ncompatible .*min\(16, S\).*; give it a number: S=…",
        ),
        (
            lambda x, y: jnp.pad(x, ((0, y.shape[0] - x.shape[0]), (0, 0))) + y,
            ["fp32[S, 8]", "fp32[T, 8]"],
            {},
            r"'T - S' < '0' is inconclusive.*; give them numbers: S=…, T=…",
        ),
        (lambda x: x, ["nvfp4[16]"], {}, "JAX has no dtype for nvfp4"),
        (lambda x: x, ["int32[4]"], {"backward": True}, "no input has a gradient"),
        (lambda x: x, ["fp32[4]"], {"optimizer": "sgd"}, "trace the training step"),
        (lambda x: lax.while_loop(lambda c: c[0] > 0, lambda c: c @ c, x), ["fp32[4]"], {}, "fails on shapes alone"),
        (
            lambda x: lax.while_loop(lambda c: c.sum() > 0, lambda c: c * 2, x),
            ["fp32[4]"],
            {},
            r"test_jax_laws.py:\d+: how often this while loop runs depends on its data; say trips=10",
        ),
    ],
)
def test_messages(function, inputs, options, said):
    with pytest.raises(InputError, match=said):
        trace(function, *inputs, **options)
