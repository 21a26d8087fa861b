"""Masked scores are counted, and said to be: how much is hidden, against the mask itself, however it is written."""

from __future__ import annotations

import math
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from roofline.programs import trace as trace_any
from roofline.sizes import symbol
from tests.strategies import some

S, HEADS, SIZE = 16, 4, 8
SAID = re.compile(r"masked scores are counted.* would skip ([\d.]+) kFLOP of ([\d.]+) kFLOP \((.*)\)")


def trace(function, *inputs, **options):
    return trace_any(function, *inputs, frontend="jax", **options)


def _attend(mask, q, k, v):
    scores = mask(jnp.einsum("bqhd,bkhd->bhqk", q, k) * SIZE**-0.5)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def _tril(scores):
    return jnp.where(jnp.tril(jnp.ones((S, S), bool)), scores, -jnp.inf)


def _of_ones(scores):
    return jnp.where(jnp.tril(jnp.ones((S, S))) == 0, -jnp.inf, scores)


def _positions(scores):
    i = jnp.arange(S)
    return jnp.where(i[:, None] >= i, scores, -1e9)


def _hidden_first(scores):
    i, j = (jax.lax.broadcasted_iota(jnp.int32, (S, S), axis) for axis in (0, 1))
    return jnp.where((j > i)[None, None], jnp.finfo(scores.dtype).min, scores)


def _added(scores):
    i = jax.lax.iota(jnp.int32, S)
    return scores + jnp.where(i[:, None] < i[None, :], -1e9, 0.0)


def _held(scores):
    return jnp.where(np.tril(np.ones((S, S), bool)), scores, -jnp.inf)


def _held_and_added(scores):
    return scores + np.triu(np.full((S, S), -1e9), 1)


def _window(scores):
    i, j = (jax.lax.broadcasted_iota(jnp.int32, (S, S), axis) for axis in (0, 1))
    return jnp.where((i >= j) & (i - 3 <= j), scores, -jnp.inf)


CAUSAL = np.tri(S, dtype=bool)
WAYS = [
    *((partial(_attend, mask), CAUSAL) for mask in (_tril, _of_ones, _positions, _hidden_first, _added, _held,
                                                   _held_and_added)),
    (partial(_attend, _window), CAUSAL & ~np.tri(S, k=-4, dtype=bool)),
    (lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), CAUSAL),
    (lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=(3, 0)),
     CAUSAL & ~np.tri(S, k=-4, dtype=bool)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "seen", "backward"), some([(*way, backward) for way in WAYS for backward in (False, True)], 3)
)
def test_how_much_a_mask_hides(function, seen, backward):
    """All scores are counted; what is hidden is the mask's share of every matmul that makes or uses them."""
    shape = jax.ShapeDtypeStruct((2, S, HEADS, SIZE), "float32")
    traced = trace(function, shape, shape, shape, backward=backward)
    whole = (3 if backward else 1) * 2 * 2 * 2 * HEADS * S * S * SIZE
    assert traced.flops() == whole
    (said,) = [SAID.match(text) for text in traced.assumptions if "masked scores" in text]
    hidden, total = (float(word) * 1e3 for word in said.groups()[:2])
    assert total == pytest.approx(whole, rel=5e-3)
    assert hidden == pytest.approx(whole * (1 - seen.mean()), rel=5e-3)
    assert said[3].startswith("test_jax_masks.py:")


@pytest.mark.parametrize(
    "function",
    [
        partial(_attend, lambda scores: scores),
        partial(_attend, lambda scores: jnp.where(scores > 0, scores, -jnp.inf)),  # the data decides
        lambda q, k, v: jnp.tril(q[0, :, 0] @ k[0, :, 0].T) @ v[0, :, 0],  # no softmax: no scores
        jax.nn.dot_product_attention,
    ],
)
def test_nothing_is_said_where_no_position_is_hidden(function):
    shape = jax.ShapeDtypeStruct((2, S, HEADS, SIZE), "float32")
    assert not any("masked" in text for text in trace(function, shape, shape, shape).assumptions)


def test_layers_of_a_scan_count_each():
    def network(x, weights):
        def layer(x, w):
            q = (x @ w).reshape(1, S, HEADS, SIZE)
            return x + _attend(_tril, q, q, q).reshape(1, S, -1), None

        return jax.lax.scan(layer, x, weights)[0]

    d = HEADS * SIZE
    traced = trace(network, jax.ShapeDtypeStruct((1, S, d), "float32"), jax.ShapeDtypeStruct((6, d, d), "float32"))
    (said,) = [SAID.match(text) for text in traced.assumptions if "masked scores" in text]
    assert float(said[2]) * 1e3 == pytest.approx(6 * 2 * 2 * S * S * d, rel=5e-3)


def causal(q, k):
    return q >= k


def window(q, k):
    return (q >= k) & (q - k < 4)


def around(q, k):
    return jnp.abs(q - k) < 4


def prefix(q, k):
    return (q >= k) | (k < 3)


def documents(q, k):
    return q // 5 == k // 5


def chunked(q, k):
    return (q >= k) & (q // 5 == k // 5)


MASKS = [causal, window, around, prefix, documents, chunked]
MASKING = [
    lambda mask, scores: jnp.where(mask, scores, -jnp.inf),
    lambda mask, scores: scores + jnp.where(mask, 0, -1e9),
    lambda mask, scores: scores - (1 - mask.astype(scores.dtype)) * 1e10,
]


@pytest.mark.parametrize(("mask", "masking"), some([(mask, masking) for mask in MASKS for masking in MASKING], 7))
def test_a_symbolic_length_gives_a_formula(mask, masking):
    def network(q, k, v):
        S, T = q.shape[1], k.shape[1]
        return _attend(partial(masking, mask(jnp.arange(S)[:, None] + T - S, jnp.arange(T))), q, k, v)

    traced = trace(network, "fp32[2, S, 4, 8]", *["fp32[2, T, 4, 8]"] * 2)
    (said,) = [text for text in traced.assumptions if "masked" in text]
    hidden, whole = re.search(r"skip (.*) FLOP of (.*) FLOP \(", said).groups()
    names = {"Min": min, "Max": max, "floor": math.floor}
    for s, t in ((13, 13), (6, 17)):
        seen = np.asarray(mask(np.arange(s)[:, None] + t - s, np.arange(t)))
        assert eval(whole, names | {"S": s, "T": t}) == 2 * 2 * 2 * 4 * s * t * 8
        assert eval(hidden, names | {"S": s, "T": t}) == 2 * 2 * 2 * 4 * (~seen).sum() * 8


def test_zeros_in_scores_hide_nothing():
    """A zero is a score like any other before the softmax, and none behind it."""
    shape = jax.ShapeDtypeStruct((2, S, HEADS, SIZE), "float32")
    before = trace(partial(_attend, lambda scores: jnp.tril(scores)), shape, shape, shape)
    assert not any("masked" in text for text in before.assumptions)
    for factor in (np.full((S, S), -1.0), np.tri(S)):
        turned = trace(partial(_attend, lambda scores, factor=factor: scores * factor), shape, shape, shape)
        assert not any("masked" in text for text in turned.assumptions)


def _in_chunks(x):
    own = jnp.arange(x.shape[0]) // 4
    return jnp.where(own[:, None] == own, x, 0)


@pytest.mark.parametrize(
    "function",
    [
        jnp.trace,
        jnp.tril,
        _in_chunks,
        lambda x: x * jnp.tri(x.shape[0]),
        lambda x: jnp.where(jnp.arange(x.shape[0]) < 4, x, 0),
        lambda x: jnp.tril(jnp.exp(x))[1:],
        lambda x: ((x @ x.T) * jnp.tri(x.shape[0]) @ x)[:2],
        lambda x: (jnp.triu(x @ x.T) @ x)[-2:],
        lambda x: (jax.nn.softmax(jnp.where(jnp.tri(x.shape[0], dtype=bool), x @ x.T, -1e30)) @ x)[:3],
        lambda x: jnp.tril(jnp.roll(x[::-1], 1, 0))[1::2],
        lambda x: jnp.tril(jnp.stack([x, x])),
        lambda x: jnp.tril(x)[::2, 1::3],
        lambda x: x[jnp.zeros(x.shape[0], int)],
        lambda x: jnp.where(np.array([1, 0, 0, 1, 1], bool), x[:, :1], 0),
        lambda x: jax.lax.select_n(
            jnp.broadcast_to(jnp.minimum(jnp.arange(x.shape[0]), 1), x.shape), x, jnp.zeros_like(x)
        ),
    ],
)
def test_what_a_mask_of_positions_leaves_unread_is_no_part_of_an_open_floor(function):
    opened = trace(function, "fp32[S, S]").bytes("minimal")
    for size in (3, 5, 60):
        counted = opened.subs(dict.fromkeys(opened.free_symbols, size))
        assert counted == trace(function, f"fp32[{size}, {size}]").bytes("minimal")


def test_positions_of_an_open_size_cost_no_more_than_those_of_a_fixed_one():
    def shifted(x):
        return x + jnp.arange(x.shape[0], dtype=x.dtype)

    opened, closed = (trace(shifted, f"fp32[{size}]").flops("all") for size in ("S", 8))
    assert (opened.subs(dict.fromkeys(opened.free_symbols, 8)), closed) == (8, 8)


@pytest.mark.parametrize("number", [0.0, float("-inf"), float("nan"), 1e300])
def test_numbers_among_scores_of_an_open_size_are_counted(number):
    """What is no mask hides nothing: all of S² scores count, as of a fixed size."""

    def program(x):
        places = jnp.arange(x.shape[0])
        hides = (places[:, None] - places[None]) * number < 1
        return jax.nn.softmax(jnp.where(hides, x @ x.T, -jnp.inf), -1)

    assert trace(program, "fp32[S, 64]").flops() == 128 * symbol("S") ** 2
