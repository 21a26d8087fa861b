"""Whole networks in plain JAX against the same counts by hand as in torch; layers of a transformer are scanned."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from roofline.programs import trace as trace_any
from tests.programs import jax_llama, jax_networks
from tests.programs.jax_networks import weight
from tests.strategies import some

IMAGE = weight(1, 3, 224, 224)
#: 2 per multiply-add; convolutions with padded positions, every score, logits of every token.
COUNTS = [
    ("vgg16", jax_networks.vgg16, IMAGE, 30_940_528_640, 138_357_544),
    ("mobilenet v1", jax_networks.mobilenet_v1, IMAGE, 1_137_480_704, 4_231_976),
    ("mobilenet v2", jax_networks.mobilenet_v2, IMAGE, 601_548_544, 3_504_872),
    ("resnet-50", jax_networks.resnet50, IMAGE, 8_178_368_512, 25_557_032),
    ("vit-b/16", jax_networks.vit, IMAGE, 35_127_656_448, 86_567_656),
    ("bert-base", jax_networks.bert, weight(1, 128, dtype="int32"), 22_348_431_360, 109_482_240),
    ("gpt-2", jax_networks.gpt2, weight(1, 1024, dtype="int32"), 291_648_307_200, 124_439_808),
    ("llama-2-7b", jax_llama.llama, weight(1, 2048, dtype="int32"), 29_261_612_187_648, 6_738_415_616),
    ("mixtral 2 layers", lambda: jax_llama.mixtral(2), weight(1, 1024, dtype="int32"),
     1_917_837_115_392, 3_164_688_384),
    ("mixtral-8x7b", jax_llama.mixtral, weight(1, 1024, dtype="int32"), 26_658_862_006_272, 46_702_792_704),
]  # fmt: skip


def trace(function, *inputs, **options):
    return trace_any(function, *inputs, frontend="jax", **options)


@pytest.mark.parametrize(("build", "given", "flops", "parameters"), [c[1:] for c in some(COUNTS, 3, 1)])
def test_network(build, given, flops, parameters):
    model = build()
    assert sum(shape.size for shape in jax.tree.leaves(model.shapes)) == parameters
    traced = trace(model.apply, model.shapes, given, weights=0)
    assert traced.flops() == flops
    assert traced.parameters() == parameters
    assert traced.complete


@pytest.mark.parametrize("build", some([jax_networks.mobilenet_v2, jax_networks.vit], 2))
def test_counts_are_linear_in_the_batch(build):
    model = build()
    one, three = (trace(model.apply, model.shapes, weight(b, 3, 224, 224)) for b in (1, 3))
    for convention in ("flops", "valid", "all"):
        assert three.flops(convention) == 3 * one.flops(convention)


def test_llama_decode_flops_and_the_bytes_of_the_floor():
    """As torch's step: weights without the table, one row of it, the cache, its new row, the logits, the token."""
    model = jax_llama.llama()
    caches = (weight(32, 1, 2049, 32, 128, dtype="bfloat16"),) * 2
    traced = trace(lambda p, ids, c: model.apply(p, ids, c, 2048), model.shapes, weight(1, 1, dtype="int32"), caches,
                   weights=0)  # fmt: skip
    assert traced.flops() == 14_288_420_864
    streamed = 2 * (6_738_415_616 - 32000 * 4096)
    row, read, written = 2 * 4096, 2 * 2 * 32 * 4096 * 2048, 2 * 2 * 32 * 4096
    logits, token = 2 * 32000, 4
    assert traced.bytes("minimal") == streamed + row + read + written + logits + token


@pytest.mark.parametrize("recompute", some([True, False], 2))
@pytest.mark.long
def test_llama_training_is_three_forwards_and_one_more_where_layers_are_recomputed(recompute):
    model = jax_llama.llama(recompute=recompute)

    def loss(parameters, ids):
        logits = model.apply(parameters, ids).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), ids[..., None], -1).mean()

    step = trace(jax.value_and_grad(loss), model.shapes, weight(1, 2048, dtype="int32"), weights=0)
    layers, down = 28_724_741_275_648, 32 * 2 * 2048 * 11008 * 4096  # what the last matmul gives is not needed again
    assert step.flops() == 87_784_836_562_944 + recompute * (layers - down)
    assert step.complete
