"""Elementwise, softmax, reductions, scans and norms: the formulas against numbers that count their operations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from counting import Counted, Tally, largest, total
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import few, for_each

from roofline import bound
from roofline.errors import InputError, SizeError
from roofline.notation import program
from roofline.ops.elementwise import COMPLEX, PER_ELEMENT, elementwise, known_function, scaled_sum
from roofline.ops.recurrent import CELLS, linear_recurrence, recurrent, selective_scan
from roofline.ops.reduction import (
    COSTS,
    PER_RESULT,
    TRANSCENDENTALS,
    distances,
    norm,
    reduction,
    scan,
    softmax,
    softmax_backward,
)
from roofline.ops.rules import build
from roofline.work import Op, Tensor

N = Counted
FORMULAS: dict[str, Callable[[N, N], N]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": lambda x, y: x.largest(y),
    "minimum": lambda x, y: x.smallest(y),
    "compare": lambda x, y: x.select(y, True),
    "where": lambda x, y: x.select(y, False),
    "power": lambda x, y: x.special(lambda v: v**y.value),
    "relu": lambda x, y: x.largest(0),
    "relu2": lambda x, y: _square(x.largest(0)),
    "leaky_relu": lambda x, y: x.largest(x * 0.01),
    "relu6": lambda x, y: x.largest(0).smallest(6),
    "gelu": lambda x, y: x * 0.5 * ((x * math.sqrt(0.5)).erf() + 1),
    "gelu_tanh": lambda x, y: x * 0.5 * (((x * x * x * 0.044715 + x) * math.sqrt(2 / math.pi)).tanh() + 1),
    "sigmoid": lambda x, y: ((-x).exp() + 1).reciprocal(),
    "silu": lambda x, y: x / ((-x).exp() + 1),
    "tanh": lambda x, y: x.tanh(),
    "exp": lambda x, y: x.exp(),
    "log": lambda x, y: x.log(),
    "sqrt": lambda x, y: x.sqrt(),
    "rsqrt": lambda x, y: x.special(lambda v: v**-0.5),
    "sin": lambda x, y: x.special(math.sin),
    "cos": lambda x, y: x.special(math.cos),
    "erf": lambda x, y: x.erf(),
    "square": lambda x, y: _square(x),
    "abs": lambda x, y: x.largest(-x.value),
    "neg": lambda x, y: -x,
    "reciprocal": lambda x, y: x.reciprocal(),
    "sign": lambda x, y: x.select(0, True),
    "floor": lambda x, y: x.smallest(0),
    "round": lambda x, y: x.smallest(0),
    "clip": lambda x, y: x.largest(-1).smallest(1),
    "softplus": lambda x, y: (x.exp() + 1).log(),
    "mish": lambda x, y: x * (x.exp() + 1).log().tanh(),
    "hardswish": lambda x, y: x * (x + 3).largest(0).smallest(6) * (1 / 6),
    "elu": lambda x, y: x.select((x.exp() - 1) * 0.5, True),
    "xielu": lambda x, y: (x * x * 0.8 + (line := x * 0.5)).select((x.smallest(0).exp() - 1 - x) * 0.8 + line, True),
    "swiglu": lambda x, y: x / ((-x).exp() + 1) * y,
    "geglu": lambda x, y: x * 0.5 * ((x * math.sqrt(0.5)).erf() + 1) * y,
    "dropout": lambda x, y: (x * 1.25).select(0, True),
    "cast": lambda x, y: x,
    "copy": lambda x, y: x,
    "from_host": lambda x, y: x,
    "quantise": lambda x, y: (x * 0.5 + 3).smallest(0),
    "dequantise": lambda x, y: (x - 3) * 0.5,
}


def _square(x: N) -> N:
    return x * x


@for_each("function", sorted(PER_ELEMENT.keys() - {"rope"}))
def test_a_composite_counts_its_primitive_operations(function: str) -> None:
    tally = Tally()
    FORMULAS[function](tally.number(0.7), tally.number(1.3))
    cost = PER_ELEMENT[function]
    assert (cost.arithmetic, cost.transcendentals) == (tally.arithmetic, tally.transcendentals)


def test_rope_rotates_pairs() -> None:
    tally = Tally()
    first, second, sin, cos = (tally.number(v) for v in (1.0, 2.0, 0.6, 0.8))
    first * cos - second * sin, first * sin + second * cos
    assert 2 * PER_ELEMENT["rope"].arithmetic == tally.flops


def test_complex_numbers_count_real_operations() -> None:
    tally = Tally()
    a, b, c, d = (tally.number(v) for v in (1.0, 2.0, 3.0, 4.0))
    real, imaginary = a * c - b * d, a * d + b * c
    assert COMPLEX["multiply"].arithmetic == tally.flops == 6
    size = c * c + d * d
    real / size, imaginary / size
    assert COMPLEX["divide"].arithmetic == tally.flops
    x = Tensor("x", (5,), "complex64")
    assert elementwise("multiply", [x, x], [x]).work.total("flops") == 30
    assert elementwise("add", [x, x], [x]).work.total("flops", "vector") == 10
    assert elementwise("multiply", [x, Tensor("y", (5,), "fp32")], [x]).work.total("flops") == 10
    with pytest.raises(InputError, match="gelu of complex numbers has no cost rule"):
        known_function("gelu", [x])


@pytest.mark.parametrize(("dtype", "each"), [("bf16", 2), ("complex64", 4)])
def test_a_scaled_sum_is_a_product_and_a_sum(dtype: str, each: int) -> None:
    x = Tensor("x", (4, 8), dtype)
    assert scaled_sum("add", [x, x], [x]).work.total("flops") == 32 * each


def test_elementwise_broadcasts_and_reads_each_operand_at_its_own_size() -> None:
    (op,) = build(program("bf16[D] + bf16[B, D]"), {"B": 4, "D": 8})
    assert op.work.total("flops") == 32
    assert [t.traffic_bytes for t in op.reads] == [16, 64]
    assert op.writes[0].dims == (4, 8)


def test_elementwise_counts_the_elements_of_the_result() -> None:
    x, y = Tensor("x", (4, 1), "bf16"), Tensor("y", (1, 8), "bf16")
    op = elementwise("multiply", [x, y], [Tensor("o", (4, 8), "bf16")])
    assert op.dims == {"elements": 32, "transcendentals": 0}


small = st.integers(1, 6)


def _numbers(tally: Tally, count: int) -> list[N]:
    return [tally.number(0.1 * (i + 1)) for i in range(count)]


def _flops(op: Op) -> int:
    assert {key.place for key in op.work} <= {"vector"}
    return int(op.work.total("flops"))


@given(rows=small, n=small, log=st.booleans())
def test_softmax(rows: int, n: int, log: bool) -> None:
    tally = Tally()
    for _ in range(rows):
        x = _numbers(tally, n)
        top = largest(x)
        shifted = [value - top for value in x]
        exps = [value.exp() for value in shifted]
        denominator = total(exps)
        if log:
            logarithm = denominator.log()
            [value - logarithm for value in shifted]
        else:
            [value / denominator for value in exps]
    tensors = [Tensor("x", (n, rows), "fp32")]
    sizes = {"elements": n * rows, "rows": rows, "log": log}
    exact = softmax("softmax", tensors, tensors, **sizes, exact=True)
    assert _flops(exact) == tally.flops
    assert exact.dims["transcendentals"] == tally.transcendentals
    assert _flops(softmax("softmax", tensors, tensors, **sizes)) == tally.flops + 2 * rows
    assert exact.reads[0].traffic_bytes == exact.writes[0].traffic_bytes == 4 * n * rows


@given(rows=small, n=small, log=st.booleans())
def test_the_gradient_of_a_softmax(rows: int, n: int, log: bool) -> None:
    tally = Tally()
    for _ in range(rows):
        g, y = _numbers(tally, n), _numbers(tally, n)
        if log:
            sum_of_gradients = total(g)
            [gradient - value.exp() * sum_of_gradients for gradient, value in zip(g, y, strict=True)]
        else:
            products = total([gradient * value for gradient, value in zip(g, y, strict=True)])
            [value * (gradient - products) for gradient, value in zip(g, y, strict=True)]
    tensor = Tensor("y", (rows, n), "fp32")
    op = softmax_backward("softmax_backward", [tensor, tensor], [tensor], elements=rows * n, log=log)
    assert _flops(op) == tally.flops + rows  # the sum of n takes n - 1
    assert op.dims["transcendentals"] == tally.transcendentals


@given(pairs=small, columns=small)
@few(20)
def test_distances(pairs: int, columns: int) -> None:
    tally = Tally()
    for _ in range(pairs):
        total([_square(a - b) for a, b in zip(_numbers(tally, columns), _numbers(tally, columns), strict=True)])
    x, d = Tensor("x", (2, columns), "fp32"), Tensor("d", (pairs,), "fp32")
    op = distances("cdist", [x], [d], pairs=pairs, columns=columns)
    assert _flops(op) == tally.flops + pairs


def _sigmoid(x: N) -> N:
    return ((-x).exp() + 1).reciprocal()


def _step(cell: str, given: list[N], before: list[N], h: N, c: N) -> None:
    """One hidden element: what input and state give to each gate is there."""
    if cell == "lstm":
        i, f, g, o = (a + b for a, b in zip(given, before, strict=True))
        c = _sigmoid(f) * c + _sigmoid(i) * g.tanh()
        _sigmoid(o) * c.tanh()
    elif cell == "gru":
        r, z = (_sigmoid(a + b) for a, b in zip(given[:2], before[:2], strict=True))
        new = (given[2] + r * before[2]).tanh()
        (-z + 1) * new + z * h
    else:
        (given[0] + before[0]).tanh() if cell == "rnn_tanh" else (given[0] + before[0]).largest(0)


@pytest.mark.parametrize("cell", CELLS)
def test_a_recurrent_cell_counts_its_formula(cell: str) -> None:
    tally = Tally()
    gates = CELLS[cell].gates
    _step(cell, _numbers(tally, gates), _numbers(tally, gates), tally.number(0.3), tally.number(0.4))
    one_less = 1 if cell == "gru" else 0  # 1 - z is one subtraction
    assert CELLS[cell].element == tally.flops - one_less
    x = Tensor("x", (6, 8), "fp32")
    op = recurrent(cell, cell, [x], [x], steps=6, hidden=5, macs=gates * 5 * (8 + 5), inner=13, passes=2)
    assert op.work.total("flops", "matrix") == 2 * 6 * gates * 5 * 13
    assert op.work.total("flops", "vector") == 2 * 6 * 5 * CELLS[cell].element
    assert op.dims == {"m": 6, "n": gates * 5, "k": 13, "batch": 1}


@pytest.mark.parametrize("states", [1, 4])
def test_a_selective_scan_counts_its_formula(states: int) -> None:
    tally = Tally()
    x, step, skip = _numbers(tally, 3)
    taken, terms = step * x, []
    for a, b, c, state in zip(*(_numbers(tally, states) for _ in range(4)), strict=True):
        terms.append(((step * a).exp() * state + taken * b) * c)
    total(terms) + skip * x
    moved = [Tensor("x", (6, 5), "fp32")]
    op = selective_scan("scan", moved, moved, tokens=6, channels=5, state_size=states)
    assert op.work.total("flops") == 6 * 5 * tally.flops


@pytest.mark.parametrize("begun", [True, False])
def test_a_chunk_lets_its_state_decay_once_and_each_token_but_the_last_by_itself(begun: bool) -> None:
    """The state after a chunk is that of the recurrence, with as many products by decays as are counted."""
    tokens, key, value, decayed = 5, 4, 2, 0
    rng = np.random.default_rng(1)
    k, v, decay, first = (rng.random(size) for size in ((tokens, key), (tokens, value), tokens, (key, value)))
    found = expected = first if begun else np.zeros((key, value))
    for t in range(tokens):
        expected = decay[t] * expected + np.outer(k[t], v[t])
    if begun:
        found, decayed = found * decay.prod(), decayed + found.size
    for t in range(tokens):
        is_last = t == tokens - 1
        scaled, decayed = (v[t], decayed) if is_last else (v[t] * decay[t + 1 :].prod(), decayed + value)
        found = found + np.outer(k[t], scaled)
    assert np.allclose(found, expected)
    x, state = Tensor("x", (tokens, 8), "fp32"), Tensor("s", (key, value), "fp32", "state")
    sizes = {"tokens": tokens, "heads": 1, "key": key, "value": value, "products": 2}
    op = linear_recurrence("", [x, state] if begun else [x], [x, state], **sizes)
    assert op.work.total("flops", "vector") == decayed


def _reduced(function: str, x: list[N]) -> None:
    n = len(x)
    if function in ("sum", "mean"):
        result = total(x)
        if function == "mean":
            result / n
    elif function in ("max", "min", "argmax", "argmin"):
        largest(x)
    elif function == "prod":
        result = x[0]
        for value in x[1:]:
            result = result * value
    elif function in ("norm", "squares"):
        squares = total([value * value for value in x])
        if function == "norm":
            squares.sqrt()
    elif function == "variance":
        mean = total(x) / n
        total([_square(value - mean) for value in x]) / n
    else:
        top = largest(x)
        total([(value - top).exp() for value in x]).log() + top


@pytest.mark.parametrize("function", sorted(PER_RESULT))
@given(a=small, b=small, c=small)
@few(20)
def test_reductions(function: str, a: int, b: int, c: int) -> None:
    tally = Tally()
    for _ in range(b):
        _reduced(function, _numbers(tally, a * c))
    tensors = [Tensor("x", (a, b, c), "fp32")], [Tensor("y", (b,), "fp32")]
    op = reduction(function, *tensors, elements=a * b * c, results=b)
    assert _flops(op) == tally.flops
    assert op.dims["transcendentals"] == tally.transcendentals


def test_a_reduction_in_a_line_works_along_its_labels() -> None:
    (op,) = build(program("sum(fp32[A, B, C]) -> fp32[B]"), {"A": 2, "B": 3, "C": 5})
    assert _flops(op) == 3 * (2 * 5 - 1)
    assert (op.writes[0].dims, op.writes[0].traffic_bytes) == ((3,), 12)


def test_reductions_with_transcendentals_are_reductions() -> None:
    assert TRANSCENDENTALS.keys() <= PER_RESULT.keys()


@given(rows=small, n=small)
@few(20)
def test_a_scan(rows: int, n: int) -> None:
    tally = Tally()
    for _ in range(rows):
        total(_numbers(tally, n))
    x = [Tensor("x", (rows, n), "bf16")]
    assert _flops(scan("cumsum", x, x, elements=rows * n, rows=rows)) == tally.flops


def _normalised(function: str, x: list[N], affine: int) -> None:
    n = len(x)
    if function == "batch_norm":
        [value * 2.0 + 1.0 for value in x]
        return
    if function == "rms_norm":
        centred = x
        variance = total([_square(value) for value in x]) / n
    else:
        mean = total(x) / n
        centred = [value - mean for value in x]
        variance = total([_square(value) for value in centred]) / n
    root = (variance + 1e-6).special(lambda v: v**-0.5)
    values = [value * root for value in centred]
    for i in range(affine):
        values = [value * 2.0 if i == 0 else value + 1.0 for value in values]


@pytest.mark.parametrize("function", sorted(COSTS))
@given(rows=small, n=small, groups=st.integers(1, 3), affine=st.integers(0, 2))
@few(25)
def test_norms(function: str, rows: int, n: int, groups: int, affine: int) -> None:
    groups = groups if function == "group_norm" else 1
    affine = min(affine, 1) if function == "rms_norm" else affine
    tally = Tally()
    for _ in range(rows * groups):
        _normalised(function, _numbers(tally, n), affine)
    x = Tensor("x", (rows, n * groups), "fp32")
    scales = [Tensor(name, (n * groups,), "fp32", "weight") for name in ("g", "b")[:affine]]
    sizes = {"elements": rows * n * groups, "rows": rows * groups, "affine": affine}
    op = norm(function, (x, *scales), (x,), **sizes)
    assert _flops(op) == tally.flops
    assert op.dims["transcendentals"] == tally.transcendentals
    moved = sum(t.traffic_bytes for t in (*op.reads, *op.writes))
    assert moved == 4 * n * groups * (2 * rows + affine)


def test_groups_divide_the_channels() -> None:
    with pytest.raises(SizeError, match="10 channels do not fall into 4 groups"):
        build(program("groupnorm(bf16[B, C], groups=4)"), {"B": 2, "C": 10})


def test_a_transposition_only_moves() -> None:
    (op,) = build(program("transpose(int4[A, B, C]) -> int4[C, A, B]"), {"A": 2, "B": 3, "C": 5})
    assert len(op.work) == 0
    assert op.writes[0].dims == (5, 2, 3)
    assert op.reads[0].traffic_bytes == op.writes[0].traffic_bytes == 15


def test_unknown_functions_name_the_nearest() -> None:
    with pytest.raises(InputError, match=r"unknown norm 'rmsnorm'; did you mean 'rms_norm'\?"):
        norm("rmsnorm", [], [], elements=8, rows=1, affine=0)
    with pytest.raises(InputError, match=r"unknown elementwise function 'relu_6'; did you mean 'relu6'\?"):
        known_function("relu_6", [Tensor("x", (8,), "bf16")])


def test_the_largest_of_a_row_and_a_fourier_transform_count_as_in_traced_programs() -> None:
    """Each element compared once, k entries of 2 bytes and their places of 4; 5·n·log₂ n, of real numbers half."""
    found = bound("topk_V(bf16[B, V], k=8)", on="h100", B=16, V=128256)
    assert (found.flops, found.total_bytes) == (16 * 128256, 2 * 16 * 128256 + 16 * 8 * (2 + 4))
    found = bound("fft(complex64[B, N])", on="h100", B=16, N=1024)
    assert any("split-radix" in line for line in found.assumptions)
    assert (found.flops, found.total_bytes) == (5 * 16 * 1024 * 10, 2 * 8 * 16 * 1024)
    found = bound("fft_{H,W}(fp32[B, H, W])", on="h100", B=16, H=64, W=64)
    assert (found.flops, found.total_bytes) == (5 * 16 * 4096 * 12 // 2, (4 + 8) * 16 * 4096)
    with pytest.raises(SizeError, match="topk cannot take 8 of 4; k is at most the size"):
        bound("topk(bf16[B, V], k=8)", on="h100", B=1, V=4)
