"""VGG16 and MobileNet v1 on a GTX 1080 Ti: the article's 25 and 7 FLOP/B, under its rule and under others.

The article, a summary of the roofline model in Chinese, sets VGG16 at 25 FLOP/B and MobileNet at 7. Its figures come
out of a rule that counts multiply-adds, not FLOPs, and divides by the weights and one write of each layer's output,
fp32; for MobileNet every convolution, norm and activation is such a layer.
"""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path

import pytest
from torch import nn

from roofline.ops.counting import MATMUL_KINDS
from roofline.programs import trace
from tests.programs import networks

IMAGE = "fp32[1, 3, 224, 224]"


def _folded(model: nn.Module) -> nn.Module:
    """As deployed: the norm is in the convolution's kernel and bias."""
    layers: list[nn.Module] = []
    for layer in model:
        if isinstance(layer, nn.BatchNorm2d):
            before = layers[-1]
            before.bias = nn.Parameter(layer.weight.detach())
        else:
            layers.append(layer)
    return nn.Sequential(*layers)


@pytest.fixture
def vgg():
    return trace(networks.on_shapes(networks.vgg16), IMAGE)


@pytest.fixture
def mobilenet():
    return trace(networks.on_shapes(lambda: _folded(networks.mobilenet_v1())), IMAGE)


def _outputs(traced, kinds=MATMUL_KINDS):
    return sum(t.traffic_bytes for op in traced.ops if op.kind in kinds for t in op.writes)


def test_vgg16_by_the_articles_rule(vgg):
    assert vgg.macs() / (4 * vgg.parameters() + _outputs(vgg)) == pytest.approx(25.46, abs=0.005)


def test_mobilenet_by_the_articles_rule_needs_every_layer_written_thrice(mobilenet):
    unfolded = trace(networks.on_shapes(networks.mobilenet_v1).eval(), IMAGE)
    weights = 4 * mobilenet.parameters()
    once = _outputs(mobilenet)
    assert mobilenet.macs() / (weights + once) == pytest.approx(15.33, abs=0.02)
    thrice = _outputs(unfolded, ("convolution", "norm", "elementwise", "contraction"))
    assert mobilenet.macs() / (4 * 4_231_976 + thrice) == pytest.approx(7.34, abs=0.02)


def test_mobilenet_under_three_rules_of_ours(mobilenet):
    flops = mobilenet.flops()
    assert flops == 1_137_480_704
    assert flops / (4 * mobilenet.parameters() + _outputs(mobilenet)) == pytest.approx(30.7, abs=0.05)
    assert mobilenet.intensity("fused") == pytest.approx(19.7, abs=0.1)
    assert mobilenet.intensity("minimal") == pytest.approx(65.0, abs=0.05)
    unfolded = mobilenet.bytes("minimal") + 4 * (4_231_976 - mobilenet.parameters())
    assert flops / unfolded == pytest.approx(64.9, abs=0.05)


def test_the_rules_of_the_docs():
    rules = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "examples" / "cnns.py"))
    found = {}
    for name in ("vgg16", "mobilenet"):
        model = networks.on_shapes(rules[name])
        found[name] = list(rules["intensities"](model, trace(model, IMAGE)).values())
    assert found["vgg16"] == pytest.approx([25.458875, 23.373, 50.917750, 45.8565, 55.84], rel=1e-3)
    assert found["mobilenet"] == pytest.approx([15.325, 7.341953, 30.65, 19.62, 64.87], rel=1e-3)


EDGE = """schema = 1
family = "edge"
[chip.edge]
name = "an edge chip"
[chip.edge.unit.vector]
peak = {{ fp32 = "{peak} GFLOP/s" }}
[[chip.edge.memory]]
level = "dram"
bandwidth = "10 GB/s"
"""


@cache
def counted_whole():
    return trace(networks.on_shapes(networks.mobilenet_v1).eval(), IMAGE)


@pytest.mark.parametrize("ridge", [1, 5, 6.9])
@pytest.mark.parametrize("policy", ["each-op", "fused", "minimal"])
def test_on_an_edge_chip_whose_ridge_is_below_seven_mobilenet_is_compute_bound(tmp_path, ridge, policy):
    chip = tmp_path / "edge.toml"
    chip.write_text(EDGE.format(peak=10 * ridge))
    program = counted_whole()
    found = program.bound(str(chip), policy=policy)
    assert found.critical_intensity == pytest.approx(ridge)
    assert found.kind == "compute-bound"
    chip.write_text(EDGE.format(peak=10 * 70))
    assert program.bound(str(chip)).kind == "memory-bound"


def test_on_the_chip_of_the_article(vgg, mobilenet):
    assert vgg.bound("1080ti", policy="fused").kind == "compute-bound"
    assert vgg.bound("1080ti").critical_intensity == pytest.approx(23.3, abs=0.1)
    assert mobilenet.bound("1080ti", policy="fused").kind == "memory-bound"
    assert mobilenet.bound("1080ti", policy="minimal").kind == "compute-bound"
