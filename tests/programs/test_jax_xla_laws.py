"""XLA's own cost analysis agrees exactly on every straight-line program: drawn at random, and on whole networks."""

from __future__ import annotations

import re
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax

from roofline.programs import trace
from tests.programs import jax_networks
from tests.programs.jax_networks import weight
from tests.programs.xla import as_xla
from tests.strategies import few, some

SMALL = st.integers(1, 5)
#: Steps on x [B, C, L], each with a size, a stride and a padding to draw from.
STEPS = {
    "matmul": lambda x, n, s, p: x @ jnp.ones((x.shape[-1], n)),
    "batched": lambda x, n, s, p: jnp.einsum("bcl,bdl->bcd", x, x[:, :n]),
    "outer": lambda x, n, s, p: jnp.einsum("bcl,bkl->bck", x, jnp.tanh(x)),
    "conv": lambda x, n, s, p: lax.conv_general_dilated(x, jnp.ones((n, x.shape[1], 2)), (s,), ((p + 1, p),)),
    "depthwise": lambda x, n, s, p: lax.conv_general_dilated(
        x, jnp.ones((n * x.shape[1], 1, 2)), (s,), ((1, p),), feature_group_count=x.shape[1]
    ),
    "transposed": lambda x, n, s, p: lax.conv_general_dilated(
        x, jnp.ones((n, x.shape[1], 2)), (1,), ((1, p + 1),), lhs_dilation=(s,)
    ),
    "turn": lambda x, n, s, p: x.swapaxes(1, 2),
    "tanh": lambda x, n, s, p: jnp.tanh(x),
    "sum": lambda x, n, s, p: x - x.sum(-1, keepdims=True),
    "largest": lambda x, n, s, p: jnp.maximum(x, x.max(1, keepdims=True)),
    "twice": lambda x, n, s, p: jnp.concatenate((x, x), n % 3),
    "square": lambda x, n, s, p: x * x + n,
}


def _agree(function, *inputs):
    theirs = jax.jit(function).lower(*inputs).cost_analysis().get("flops", 0)
    ours = trace(function, *inputs, frontend="jax")
    assert theirs < 2**24 or np.float32(theirs) == theirs  # XLA adds up in single precision
    assert as_xla(ours) == (theirs if theirs < 2**24 else pytest.approx(theirs, rel=2**-23))


@few(15)
@given(
    shape=st.tuples(SMALL, SMALL, SMALL),
    steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), SMALL, st.integers(1, 3), st.integers(0, 2)), max_size=5),
)
def test_xla_agrees_on_straight_line_programs(shape, steps):
    def program(x):
        for name, size, stride, pad in steps:
            x = STEPS[name](x, size, stride, pad)
        return x

    _agree(program, weight(*shape))


@pytest.mark.parametrize(("build", "given"), some([
    (jax_networks.mobilenet_v1, weight(1, 3, 64, 64)), (jax_networks.resnet50, weight(1, 3, 64, 64)),
    (jax_networks.vgg16, weight(1, 3, 224, 224)),
], 3, 1))  # fmt: skip
def test_xla_agrees_on_convolutional_networks(build, given):
    model = build()
    _agree(model.apply, model.shapes, given)


def _dots(text):
    """FLOPs of the matmuls in XLA's text: twice the elements of the result times what is contracted."""
    total = 0
    for line in text.splitlines():
        found = re.search(
            r"contracting_dims = \[([\d, ]*)\] x .*\(tensor<([\dx]*)xf32>, .*-> tensor<([\dx]*)xf32>", line
        )
        if found:
            given, made = ([int(d) for d in part.split("x")] for part in found.groups()[1:])
            total += 2 * prod(made) * prod(given[int(d)] for d in found[1].split(","))
    return total


def test_xla_agrees_on_the_matmuls_of_a_gradient():
    """Of a derivative XLA's text is compared matmul by matmul: all of attention, forward and backward."""
    layer = jax_networks.self_attention(16, 2)

    def step(p, x):
        return jax.value_and_grad(lambda p, x: jnp.sin(layer.apply(p, x)).sum(), (0, 1))(p, x)

    ours = trace(step, layer.shapes, weight(2, 6, 16), frontend="jax")
    theirs = _dots(jax.jit(step).lower(layer.shapes, weight(2, 6, 16)).as_text())
    forward = 2 * 2 * 6 * 16 * (4 * 16 + 2 * 6)
    assert ours.flops() == theirs == 3 * forward
