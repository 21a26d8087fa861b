"""How much memory a traced program needs at once, against a count by brute force, and for large programs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from roofline.bounds.footprint import footprint
from roofline.programs import trace
from roofline.sizes import symbol
from roofline.work import Op, Tensor
from tests.programs import networks


def by_brute_force(ops):
    """At every step the sum over every intermediate from its first write to its last use; outside tensors beside."""
    written = {}
    for index, op in enumerate(ops):
        for t in op.writes:
            written.setdefault(t.ident, index)
    uses = {t.ident: index for index, op in enumerate(ops) for t in (*op.reads, *op.writes)}
    read = {t.ident for op in ops for t in op.reads}
    sizes = {t.ident: t.capacity_bytes for op in ops for t in (*op.reads, *op.writes)}
    inside = [name for name in written if name in read]
    beside = sum(size for name, size in sizes.items() if name not in inside)
    together = [sum(sizes[n] for n in inside if written[n] <= step <= uses[n]) for step in range(len(ops))]
    return beside + max(together, default=0)


@st.composite
def chains(draw):
    """Programs in which every operation reads some of what exists and writes one tensor more."""
    names, ops = ["x"], []
    for index in range(draw(st.integers(1, 12))):
        chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
        reads = tuple(Tensor(name, (1 + 7 * names.index(name),), "fp32") for name in chosen)
        names.append(f"h{index}")
        ops.append(
            Op("f", "elementwise", reads=reads, writes=(Tensor(names[-1], (1 + 7 * (len(names) - 1),), "fp32"),))
        )
    return ops


@settings(max_examples=200, deadline=None)
@given(ops=chains())
def test_one_pass_is_the_brute_force(ops):
    assert footprint(ops).total == by_brute_force(ops)


def test_a_network_against_brute_force():
    ops = trace(networks.on_shapes(networks.resnet50).eval(), "fp32[2, 3, 224, 224]").ops
    assert footprint(ops).total == by_brute_force(ops)


def test_an_update_in_place_needs_no_second_copy():
    model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(3)))
    parts = trace(model, "fp32[4, 64]", optimizer="sgd").bound("h100").footprint.parts
    weights = 3 * 4 * 64 * 64
    assert parts["weight"] == weights
    assert weights <= parts["activation"] < weights + 20 * 4 * 4 * 64  # gradients of all weights, and what passes


def test_llama_training_by_hand():
    """Weights, gradients and two moments in bf16, and what the first step of the optimizer holds beside them."""
    model = networks.on_shapes(networks.Llama, layers=4).to(torch.bfloat16)
    count = sum(p.numel() for p in model.parameters())
    found = trace(model, "int32[1, 128]", optimizer="adamw").bound("h100").footprint
    assert found.parts["weight"] == 2 * count
    assert found.total == pytest.approx(4 * 2 * count, rel=0.15)
    assert found.total > 4 * 2 * count


def test_a_decode_step_holds_weights_and_cache():
    model = networks.on_shapes(networks.Llama).to(torch.bfloat16)
    cache = [("bf16[1, 32, 2049, 128]",) * 2 for _ in range(32)]
    found = trace(model, "int32[1, 1]", cache, 2048).bound("h100").footprint
    assert found.parts["weight"] == 2 * 6_738_415_616
    assert found.parts["kv"] == 2 * 2 * 32 * 4096 * 2049
    assert found.parts["activation"] < 2**20


def test_with_an_open_batch():
    model, B = networks.on_shapes(networks.vgg16), symbol("B")
    found = footprint(trace(model, "fp32[B, 3, 224, 224]").ops).total
    for size in (2, 16, 100):
        assert found.subs(B, size) == footprint(trace(model, f"fp32[{size}, 3, 224, 224]").ops).total


@pytest.mark.parametrize("many", [1000, 20000])
def test_time_grows_with_the_program_not_its_square(many):
    """Twenty thousand operations: pairs of them would take minutes."""
    step = [Tensor(f"h{i}", (8,), "fp32") for i in range(many + 1)]
    ops = [Op("f", "elementwise", reads=(step[i],), writes=(step[i + 1],)) for i in range(many)]
    assert footprint(ops).total == 3 * 32 + 32
