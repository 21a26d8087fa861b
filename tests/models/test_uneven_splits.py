"""Sizes that chips do not divide: experts with redundant copies, padded heads and columns, all of them said."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from roofline.hardware import chip
from roofline.models import load, serve_bound
from roofline.models.blocks.feed_forward import touched_experts, touched_on_a_chip
from roofline.models.parallelism.block_splitting import divides
from roofline.models.parallelism.splitting import local_model
from roofline.models.serving.fit import fewest
from roofline.ops.collectives.routing import TopKRouting


@pytest.mark.parametrize(
    ("name", "held", "copies"), [("deepseek-v3", 4, 32), ("kimi-k2", 6, 48), ("mixtral-8x7b", 1, 64)]
)
def test_experts_over_all_chips_of_a_rack(name: str, held: int, copies: int) -> None:
    model = load(name)
    local, _ = local_model(model, chip("gb200:72"), expert=72)
    experts = [w for block in local.layers[-1].blocks for w in block.weights() if w.kind == "expert"]
    assert {weight.shape[0] for weight in experts} == {held}
    found = serve_bound(name, "decode", on="gb200:72", expert=72, batch=720, context=1024)
    slots = held * 72
    said = f"on 72 chips: {held} on each, {copies} of the {slots} are redundant copies"
    assert len([line for line in found.assumptions if line.endswith(said)]) == 1
    assert found.footprint is not None
    assert found.footprint.parts["weights"] >= model.weight_bytes() / 72


@pytest.mark.parametrize(("chips", "read"), [(144, 2), (128, 2), (320, 1), (192, 2)])
def test_copies_make_the_rows_of_experts_even_and_each_expert_is_read_somewhere(chips: int, read: int) -> None:
    found = serve_bound("deepseek-v3", "decode", on=f"h800:{chips}", expert=chips, batch=128 * chips, context=64)
    up = next(op.op for op in found.ops if op.op.name == "experts.up_proj")
    assert up.work.total("flops") == pytest.approx(2 * 128 * 8 * 2048 * 7168)
    weights = next(tensor for tensor in up.reads if tensor.role == "weight")
    assert weights.traffic_elements == pytest.approx(read * 2048 * 7168, rel=1e-3)
    sent = [op.op.reads[0].dims[0] for op in found.ops if op.op.name.endswith("all_to_all")]
    assert max(sent) == pytest.approx(128 * TopKRouting(256, 8, 4, 8).expected_units(chips))


@pytest.mark.parametrize(("count", "chips"), [(4, 3), (3, 4), (3, 2), (5, 2)])
def test_some_chip_reads_as_many_experts_as_touched_ones_over_chips(count: int, chips: int) -> None:
    """Every choice of one expert by five tokens: the mean of ⌈touched ÷ chips⌉ is no less."""
    touched = [len({*chosen}) for chosen in product(range(count), repeat=5)]
    mean, most = (sum(numbers) / len(touched) for numbers in (touched, [-(-many // chips) for many in touched]))
    assert mean == pytest.approx(touched_experts(count, 1, 5))
    assert mean / chips - 1e-9 <= touched_on_a_chip(count, chips, mean) <= most + 1e-9
    assert touched_on_a_chip(count, chips, count) == -(-count // chips)


@pytest.mark.parametrize(
    ("name", "on", "tensor", "heads", "kv"),
    [("gpt-2", "h100:8", 8, 2, 2), ("llama-2-7b", "h200:3", 3, 11, 11), ("llama-3-70b", "h100:6", 6, 11, 2),
     ("llama-3-70b", "gb200:12", 12, 6, 1)],
)  # fmt: skip
def test_heads_that_do_not_divide_are_padded(name: str, on: str, tensor: int, heads: int, kv: int) -> None:
    model: Any = load(name)
    local, _ = local_model(model, chip(on), tensor=tensor)
    block: Any = next(block for block in local.layers[0].blocks if hasattr(block, "kv_heads"))
    assert (block.heads, block.kv_heads) == (heads, kv)
    whole: Any = next(block for block in model.layers[0].blocks if hasattr(block, "kv_heads"))
    assert f"{whole.heads} heads on {tensor} chips: padded to {heads * tensor}, {heads} on each" in local.notes
    assert not divides(model, tensor)
    assert local.parameters * tensor >= model.parameters
    step = {"batch": 8, "context": 512}
    uneven = serve_bound(name, "decode", on=on, tensor=tensor, **step)
    assert uneven.lower > serve_bound(name, "decode", on=on.split(":")[0], **step).lower / tensor


def test_the_fewest_chips_divide_the_model() -> None:
    """A search prefers chips with equal parts; who asks for others gets them padded."""
    found = fewest("llama-3-70b", on="h100", batch=32, context=8192)
    assert (found.chips, found.split) == (3, 4)
