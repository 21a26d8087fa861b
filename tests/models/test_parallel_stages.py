"""Cutting layers into the stages of a pipeline: nothing is lost, and the largest stage is as small as can be."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import SizeError
from roofline.models import decode, load, names, prefill
from roofline.models.blocks.encoder import encoder_of
from roofline.models.parallelism.splitting import balance_layers, split_into_stages
from roofline.models.serving import serve_bound
from tests.models.tiny import TINY
from tests.strategies import for_each, some

COSTS = st.lists(st.integers(1, 9), min_size=2, max_size=9)


@given(costs=COSTS, count=st.integers(1, 9), first=st.integers(0, 9), last=st.integers(0, 9))
def test_no_other_cut_has_a_smaller_largest_stage(costs: list[int], count: int, first: int, last: int) -> None:
    count = min(count, len(costs))

    def largest(held: tuple[int, ...]) -> float:
        sums, start = [], 0
        for size in held:
            sums.append(sum(costs[start : start + size]))
            start += size
        sums[0] += first
        sums[-1] += last
        return max(sums)

    found = balance_layers(costs, count, first=first, last=last)
    assert len(found) == count
    assert sum(found) == len(costs)
    assert min(found) >= 1
    best = len(costs) * 9 + 18
    for ends in combinations(range(1, len(costs)), count - 1):
        edges = (0, *ends, len(costs))
        best = min(best, largest(tuple(b - a for a, b in pairwise(edges))))
    assert largest(found) == pytest.approx(best)


def matrix(ops: Any) -> Any:
    return sum(op.work.total("flops", "matrix") * op.repeat for op in ops)


def test_a_stage_receives_the_hidden_state_behind_a_narrower_table() -> None:
    """The largest of OPT's small models has words 512 wide and layers 1,024 wide."""
    model = load(TINY["opt narrow"])
    assert (model.width, model.hidden) == (48, 64)
    later = split_into_stages(model, 2)[1]
    received, norm = prefill(later, prompt=10)[:2]
    assert received.writes[0].dims == norm.reads[0].dims == (10, 64)


@for_each("name", some([name for name in names() if encoder_of(load(name)) is None], 5))
def test_stages_hold_the_whole_model(name: str) -> None:
    """Weights, keys and values and FLOPs of the stages add up; a shared table stands in the first and the last."""
    model = load(name)
    parts = split_into_stages(model, 3)
    table = model.vocabulary * model.width if model.tied and model.head else 0
    assert sum(part.parameters for part in parts) == model.parameters + table
    if not table:
        assert sum(part.weight_bytes() for part in parts) == model.weight_bytes()
    assert sum(part.cache_bytes(300) for part in parts) == model.cache_bytes(300)
    assert sum(part.active_parameters for part in parts) == model.active_parameters
    assert sum(part.mtp_parameters for part in parts) == model.mtp_parameters
    sizes: dict[str, Any] = {"batch": 2, "prompt": 32}
    assert sum(matrix(prefill(part, **sizes)) for part in parts) == pytest.approx(matrix(prefill(model, **sizes)))


@pytest.mark.parametrize("name", ["deepseek_v4", "nemotron_h", "gemma3_text", "gpt2"])
def test_every_operation_stands_in_one_stage(name: str) -> None:
    """Operation by operation: FLOPs, bytes read and written, and what is handed on is what is taken up."""
    model = load(TINY[name], name=name)
    parts = split_into_stages(model, 3)
    whole = decode(model, batch=3, context=40)
    cut_up = [decode(part, batch=3, context=40) for part in parts]
    flops = [sum(op.work.total("flops") * op.repeat for op in ops) for ops in (*cut_up, whole)]
    assert sum(flops[:-1]) == pytest.approx(flops[-1])
    first, second = cut_up[0], cut_up[1]
    assert first[-1].writes[0].dims == second[0].writes[0].dims
    assert [op.where for op in first if "embed" in op.where or "wte" in op.where]
    assert not [op.where for op in second if "embed_tokens" in op.where or "lm_head" in op.where]
    numbers = [f"layers.{part.first}" for part in parts]
    for number, ops in zip(numbers, cut_up, strict=True):
        assert any(op.where.startswith(number) for op in ops)


def test_more_stages_than_layers_are_an_error() -> None:
    with pytest.raises(SizeError, match="llama-2-7b has 32 layers, too few for 33 stages; a pipeline of at most 32"):
        split_into_stages(load("llama-2-7b"), 33)
    with pytest.raises(SizeError, match="size pipeline is 0"):
        split_into_stages(load("llama-2-7b"), 0)


def test_stages_cut_by_time_are_those_of_each_entry_of_an_array() -> None:
    """A long batch has a slower head, so that the last stage holds fewer layers; contexts concern some times alone."""
    asked: dict[str, Any] = {"on": "h100:4", "pipeline": 4, "balance": "time", "microbatches": 4}
    batches, contexts = np.array([[1], [8], [64]]), np.array([20000, 40000])
    together = serve_bound("llama-3-8b", "decode", batch=batches, context=contexts, **asked)
    every = [{"batch": batch, "context": size} for batch in batches[:, 0].tolist() for size in contexts.tolist()]
    alone = [serve_bound("llama-3-8b", "decode", **each, **asked) for each in every]
    for name in ("lower", "op_by_op", "upper", "flops"):
        found = np.broadcast_to(getattr(together, name), (3, 2)).ravel()
        assert found == pytest.approx([getattr(each, name) for each in alone], rel=1e-12)
    assert together.footprint.total.ravel() == pytest.approx([each.footprint.total for each in alone], rel=1e-12)
