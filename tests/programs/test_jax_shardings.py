"""Many devices in JAX: what each sends in shard_map, the share of each where shardings are explicit, what is listed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from roofline.programs import trace as trace_any


def trace(function, *inputs, **options):
    return trace_any(function, *inputs, frontend="jax", **options)


def automatic(sizes, names):
    """A mesh whose shardings are the compiler's; newer JAX makes explicit ones where nothing is said."""
    return AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes))


def _shape(*dims, dtype="float32"):
    return jax.ShapeDtypeStruct(dims, dtype)


@pytest.mark.parametrize(
    ("collective", "sent"),
    [
        (lambda x: lax.psum(x, "x"), 2 * 3 / 4 * 1024),
        (lambda x: lax.all_gather(x, "x"), 3 * 1024),
        (lambda x: lax.psum_scatter(x, "x", tiled=True), 3 / 4 * 1024),
        (lambda x: lax.all_to_all(x, "x", 0, 1, tiled=True), 3 / 4 * 1024),
        (lambda x: lax.ppermute(x, "x", [(0, 1)]), 1024),
    ],
)
def test_collectives_of_shard_map(collective, sent):
    mesh = automatic((4,), ("x",))
    mapped = jax.shard_map(collective, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    (op,) = trace(mapped, _shape(64, 16)).collectives()
    assert (op.work.total("wire"), op.dims["devices"]) == (sent, 4)


def test_explicit_shardings_give_the_work_of_one_device():
    mesh = AbstractMesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)

    def struct(dims, *spec):
        return jax.ShapeDtypeStruct(dims, jnp.bfloat16, sharding=NamedSharding(mesh, P(*spec)))

    def product(a, b):
        return jnp.einsum("ij,jk->ik", a, b, out_sharding=P("x", None))

    with jax.sharding.use_abstract_mesh(mesh):
        traced = trace(product, struct((16, 32), "x", "y"), struct((32, 64), "y", None))
        gathered = trace(lambda a: jax.sharding.reshard(a, P("x", None)), struct((16, 32), "x", "y"))
    assert traced.flops() == 2 * 16 * 32 * 64 // 8
    (reduced,) = traced.collectives()
    assert reduced.work.total("wire") == 2 * 3 / 4 * (8 * 64 * 2)
    assert [op.work.total("wire") for op in gathered.collectives()] == [3 / 4 * 8 * 32 * 2]


EXPLICIT = AbstractMesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)


def _explicit(dims, *spec):
    return jax.ShapeDtypeStruct(dims, jnp.bfloat16, sharding=NamedSharding(EXPLICIT, P(*spec)))


@pytest.mark.parametrize(
    ("specs", "out", "flops", "listed"),
    [
        ((P("x", None), P()), None, 1 / 2, ()),
        ((P("x", None), P(None, "y")), None, 1 / 8, ()),
        ((P(), P()), None, 1, ()),
        ((P(None, "x"), P("x", None)), None, 1, ("jit's in_shardings over 2 devices",)),  # XLA adds an all-reduce
        ((P("x", None), P()), P(), 1 / 2, ("jit's out_shardings over 2 devices",)),
    ],
)
def test_in_shardings_of_a_jit_are_the_shardings_of_its_arguments_or_are_listed(specs, out, flops, listed):
    shardings = [NamedSharding(EXPLICIT, spec) for spec in specs]
    given = {} if out is None else {"out_shardings": NamedSharding(EXPLICIT, out)}
    product = jax.jit(lambda a, b: a @ b, in_shardings=tuple(shardings), **given)
    traced = trace(product, _shape(16, 32, dtype="bfloat16"), _shape(32, 64, dtype="bfloat16"))
    assert traced.flops() == flops * 2 * 16 * 32 * 64
    assert len(traced.gaps) == len(listed)
    for gap, words in zip(traced.gaps, listed, strict=True):
        assert words in gap.reason
        assert any(words in line for line in traced.assumptions)
    if not listed and specs[0] != P():
        typed = [_explicit(dims, *spec) for dims, spec in zip(((16, 32), (32, 64)), specs, strict=True)]
        assert trace(lambda a, b: a @ b, *typed).flops() == traced.flops()
        nested = trace(lambda a, b: product(a, b) * 2, *(_shape(*one.shape, dtype="bfloat16") for one in typed))
        assert nested.flops() == traced.flops()


def _sent(traced):
    return [(op.name, op.work.total("wire")) for op in traced.collectives()]


@pytest.mark.parametrize(
    ("before", "after", "sent"),
    [
        (("x", "y"), ("x", "y"), []),  # nothing changes
        ((None, None), ("x", "y"), []),  # each takes its part of what it has
        (("x", None), (None, "x"), [("all_to_all", 1 / 2 * 16 * 32 * 2 / 2)]),
        (("x", "y"), (None, "y"), [("all_gather", 1 / 2 * 16 * 32 * 2 / 4)]),
        (("x", "y"), (None, None), [("all_gather", 7 / 8 * 16 * 32 * 2)]),
    ],
)
def test_resharding_is_priced_or_free(before, after, sent):
    with jax.sharding.use_abstract_mesh(EXPLICIT):
        traced = trace(lambda a: jax.sharding.reshard(a, P(*after)), _explicit((16, 32), *before))
    assert _sent(traced) == sent
    assert traced.complete


def test_the_gradient_of_a_sharded_product_is_summed_over_the_batch():
    """Data-parallel: x [B, D] sharded by batch; the gradient of w is an all-reduce of all of w."""

    def loss(x, w):
        return jnp.einsum("bd,df->bf", x, w, out_sharding=P("x", None)).astype(jnp.float32).sum()

    with jax.sharding.use_abstract_mesh(EXPLICIT):
        traced = trace(jax.grad(loss, 1), _explicit((16, 32), "x", None), _explicit((32, 64), None, None))
    assert traced.flops() == 2 * 8 * 32 * 64
    assert ("all_reduce", 2 * 1 / 2 * 32 * 64 * 2) in _sent(traced)


def test_a_step_in_shard_map_with_its_matmuls_and_collectives():
    """Tensor-parallel feed-forward: columns of one matrix, rows of the other, one all-reduce."""
    mesh = automatic((4,), ("model",))

    def layer(x, up, down):
        return lax.psum(jax.nn.relu(x @ up) @ down, "model")

    specs = P(), P(None, "model"), P("model", None)
    mapped = jax.shard_map(layer, mesh=mesh, in_specs=specs, out_specs=P())
    traced = trace(mapped, _shape(8, 64), _shape(64, 256), _shape(256, 64), weights=(1, 2))
    assert traced.flops() == 2 * 2 * 8 * 64 * 256 // 4
    assert [sent for _, sent in _sent(traced)] == [2 * 3 / 4 * 8 * 64 * 4]
    assert any("what one device does" in text for text in traced.assumptions)
    looped = trace(lambda x, *w: lax.scan(lambda c, _: (mapped(c, *w), None), x, None, length=3)[0], _shape(8, 64),
                   _shape(64, 256), _shape(256, 64))  # fmt: skip
    assert sum(op.repeat * op.work.total("wire") for op in looped.collectives()) == 3 * 2 * 3 / 4 * 8 * 64 * 4


AUTO = automatic((2, 4), ("x", "y"))


def _constrained(x, w):
    return jnp.tanh(lax.with_sharding_constraint(x @ w, NamedSharding(AUTO, P("x", "y"))))


def _compiled(x, w):
    names = [NamedSharding(AUTO, P(*spec)) for spec in (("x", None), (None, "y"))]
    return jax.jit(jnp.matmul, in_shardings=names, out_shardings=NamedSharding(AUTO, P("x", "y")))(x, w)


@pytest.mark.parametrize(("function", "count", "moved"), [
    (_constrained, 1, 16 * 64 * 4), (_compiled, 3, 4 * (16 * 32 + 32 * 64 + 16 * 64)),
])  # fmt: skip
def test_what_the_compiler_shards_is_listed(function, count, moved):
    traced = trace(function, _shape(16, 32), _shape(32, 64))
    assert traced.flops() == 2 * 16 * 32 * 64
    (gap,) = traced.listed_gaps()
    assert (gap.name, gap.count, gap.bytes) == ("sharding", count, moved)
    assert gap.reason == "automatic over 8 devices: the compiler chooses what is sent between them"
    assert any("counted whole, as one device would do it" in text for text in traced.assumptions)
    assert traced.bound("h100").incomplete


def test_one_device_needs_nothing_sent():
    alone = NamedSharding(automatic((1,), ("x",)), P("x"))
    traced = trace(lambda x: lax.with_sharding_constraint(x * 2, alone), _shape(16, 32))
    assert traced.complete
    assert not traced.assumptions
