"""Whole networks against their counts by hand (each equal to what several tools and a hand count give)."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from roofline.programs import trace
from tests.programs import networks
from tests.programs.networks import on_shapes
from tests.strategies import LONG, some

IMAGE = "fp32[1, 3, 224, 224]"

#: 2 per multiply-add; convolutions with padded positions, linears, full attention, logits of every token.
COUNTS = [
    ("vgg16", networks.vgg16, IMAGE, 30_940_528_640, 138_357_544),
    ("mobilenet v1", networks.mobilenet_v1, IMAGE, 1_137_480_704, 4_231_976),
    ("mobilenet v2", networks.mobilenet_v2, IMAGE, 601_548_544, 3_504_872),
    ("resnet-50", networks.resnet50, IMAGE, 8_178_368_512, 25_557_032),
    ("vit-b/16", networks.ViT, IMAGE, 35_127_656_448, 86_567_656),
    ("bert-base", networks.Bert, "int64[1, 128]", 22_348_431_360, 109_482_240),
    ("gpt-2", networks.GPT2, "int64[1, 1024]", 291_648_307_200, 124_439_808),
]


@cache
def traced_once(build, given):
    return trace(on_shapes(build).eval(), given)


@pytest.mark.parametrize(("build", "given", "flops", "parameters"), [c[1:] for c in some(COUNTS, 3)])
def test_network(build, given, flops, parameters):
    assert sum(p.numel() for p in on_shapes(build).parameters()) == parameters
    traced = traced_once(build, given)
    assert traced.flops("unmasked") == flops
    assert traced.flops("macs") * 2 == traced.flops()
    assert traced.complete


def llama(layers=32):
    return on_shapes(networks.Llama, layers=layers).to(torch.bfloat16)


#: Layers of Llama 2 of which what all 32 take is counted.
LAYERS = 32 if LONG else 4
SCANNED, WEIGHTS = 28_724_741_275_648 // 32 * LAYERS, (6_738_415_616 - 64001 * 4096) // 32 * LAYERS


@cache
def prompt():
    return trace(llama(LAYERS), "int32[1, 2048]")


def test_llama_prefill_counts_every_score_or_only_those_seen():
    traced = prompt()
    whole = SCANNED + 29_261_612_187_648 - 28_724_741_275_648
    assert traced.flops("unmasked") == whole
    hidden = LAYERS * 32 * 4 * 128 * (2048 * 2048 - 2048 * 2049 // 2)
    assert traced.flops() == whole - hidden
    assert traced.parameters() == WEIGHTS + 64001 * 4096


def test_llama_layers_alone_are_the_scanned_stack():
    assert prompt().under("layers").flops("unmasked") == SCANNED


def test_llama_decode_flops_and_the_bytes_of_the_floor():
    traced = networks.llama_decode(32, 2048)
    assert traced.flops() == 14_288_420_864
    assert traced.complete
    streamed = 2 * (6_738_415_616 - 32000 * 4096)
    row, read, written = 2 * 4096, 2 * 2 * 32 * 4096 * 2048, 2 * 2 * 32 * 4096  # the new row is not read back
    logits, token = 2 * 32000, 4
    assert traced.bytes("minimal") == streamed + row + read + written + logits + token


@pytest.mark.parametrize("layers", [4, 32] if LONG else [4])
def test_llama_training_is_three_forwards(layers):
    forward = 28_724_741_275_648 // 32 * layers + 2 * 2048 * 32000 * 4096
    step = trace(llama(layers), "int32[1, 2048]", optimizer="adamw", recompute_attention=False)
    assert step.flops("unmasked") == 3 * forward
    assert {op.phase for op in step.ops} == {"forward", "backward", "optimizer"}
    again = trace(llama(layers), "int32[1, 2048]", backward=True)
    scores = layers * 32 * 2 * 128 * 2048 * 2048
    assert again.flops("unmasked") == 3 * forward + scores


@pytest.mark.parametrize(
    ("layers", "flops", "parameters"),
    some([(2, 1_917_837_115_392, 3_164_688_384), (32, 26_658_862_006_272, 46_702_792_704)], 2),
)
def test_mixtral(layers, flops, parameters):
    model = on_shapes(networks.mixtral, layers).to(torch.bfloat16)
    assert sum(p.numel() for p in model.parameters()) == parameters
    traced = trace(model, "int32[1, 1024]")
    assert traced.flops("unmasked") == flops
    assert traced.complete


#: What fvcore 0.1.5.post20221221 counts of the same networks (FlopCountAnalysis(model, x).total(), torch 2.13).
FVCORE = [
    ("vgg16", networks.vgg16, IMAGE, 15_470_264_320),
    ("mobilenet v1", networks.mobilenet_v1, IMAGE, 578_875_904),
    ("mobilenet v2", networks.mobilenet_v2, IMAGE, 314_193_216),
    ("resnet-50", networks.resnet50, IMAGE, 4_111_512_576),
    ("resnet-18's first layers", networks.resnet18_start, IMAGE, 583_647_232),
    ("vit-b/16", networks.ViT, IMAGE, 16_867_412_736),
    ("bert-base", networks.Bert, "int64[1, 128]", 10_884_513_792),
    ("gpt-2", networks.GPT2, "int64[1, 128]", 15_824_388_096),
]


@pytest.mark.parametrize(
    ("build", "given", "counted"), [c[1:] for c in some(FVCORE, 2)], ids=[c[0] for c in some(FVCORE, 2)]
)
def test_the_convention_of_fvcore_counts_what_fvcore_does(build, given, counted):
    assert traced_once(build, given).flops("fvcore") == counted
