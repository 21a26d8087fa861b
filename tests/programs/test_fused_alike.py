"""A program that is written in PyTorch and in JAX has the same floor where kernels fuse, and says where they do not."""

from __future__ import annotations

import pytest

import roofline

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


def test_the_same_layers_in_torch_and_jax_take_the_same_where_elementwise_work_is_fused() -> None:
    layers = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.GELU(approximate="tanh"), torch.nn.Linear(4096, 1024)
    ).bfloat16()

    def function(x, w, b, v, c):  # type: ignore[no-untyped-def]
        return jax.nn.gelu(x @ w + b) @ v + c

    shapes = ((8192, 1024), (1024, 4096), (4096,), (4096, 1024), (1024,))
    inputs = [jax.ShapeDtypeStruct(shape, jax.numpy.bfloat16) for shape in shapes]
    times = []
    for policy in ("each-op", "fused"):
        ours = roofline.trace(layers, "bf16[8192, 1024]", on="v5e", policy=policy)
        theirs = roofline.trace(function, *inputs, on="v5e", frontend="jax", policy=policy)
        times.append((ours.lower, theirs.lower))
        said = "is elementwise work in kernels of its own; policy='fused' joins it" in " ".join(str(theirs).split())
        assert said == (policy == "each-op")
    assert times[0][1] > 2 * times[0][0]
    assert times[1][0] == pytest.approx(times[1][1], rel=1e-3)
