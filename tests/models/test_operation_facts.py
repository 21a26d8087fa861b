"""What an operation says of itself: its phase, its part, whether it depends on how tokens are divided."""

from __future__ import annotations

from math import isclose
from typing import Any

import pytest

from roofline.models import load
from roofline.models.operations import stepped
from roofline.models.training import train
from roofline.work import Op

MODELS = ("llama-3-8b", "gpt-3", "deepseek-v3", "deepseek-v4-flash", "glm-5.1", "qwen3-30b-a3b")
#: Two ways to divide as many tokens into sequences, long enough for every window to have something in it.
DIVIDED: tuple[dict[str, int], ...] = ({"batch": 2, "new": 6001}, {"batch": 6001, "new": 2})


def amounts(op: Op) -> list[float]:
    """What an operation does and moves."""
    return [float(v) for _, v in op.work.items()] + [float(t.traffic_bytes) for t in (*op.reads, *op.writes)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("options", [{}, {"count": "full"}, {"absorbed": True}])
def test_what_does_not_depend_on_sequences_costs_the_same_however_tokens_are_divided(
    name: str, options: dict[str, Any]
) -> None:
    one, other = (stepped(load(name), past=10_007, wanted=each["new"], **each, **options) for each in DIVIDED)
    assert [op.where for op in one] == [op.where for op in other]
    for a, b in zip(one, other, strict=True):
        alike = all(isclose(x, y, rel_tol=1e-9) for x, y in zip(amounts(a), amounts(b), strict=True))
        assert alike is not a.by_sequence, a.where


def test_the_passes_of_a_training_step() -> None:
    found = train("llama-3-8b", on="h100:16", batch_tokens=2**17, pipeline=2, tensor=2, checkpoint="full")
    parts = [part.op for part in found.bound.ops]
    assert {op.phase for op in parts} == {"forward", "recompute", "backward", "optimizer"} | {
        op.phase for op in parts if op.where.startswith("pipeline")
    }
    products = [op for op in parts if op.phase == "backward" and op.kind == "contraction"]
    assert {op.role for op in products} == {"input gradient", "weight gradient"}
    for op in products:  # each operand is as large as the sizes of its product say, which tiles load again
        m, n, k = (op.dims[name] for name in "mnk")
        assert [t.elements for t in (*op.reads[:2], op.writes[0])] == [m * k, n * k, m * n], op.where
    linear = [op for op in parts if op.role == "linear" and op.phase in ("forward", "backward")]
    each = [sum(op.work.total("flops") * op.repeat for op in linear if op.phase == phase) for phase in
            ("forward", "backward")]  # fmt: skip
    assert each[0] == each[1] > 0  # a rotation backwards is a rotation, and two gradients are added where one was split
    assert {len(op.reads) for op in linear if op.phase == "backward"} == {1}
    work = {role: sum(op.work.total("flops", "matrix") for op in products if op.role == role) for role in
            ("input gradient", "weight gradient")}  # fmt: skip
    assert work["input gradient"] == work["weight gradient"]
    assert [op.name for op in parts if op.phase == "optimizer"] == ["optimizer"]


def test_the_gradient_of_a_norm_has_the_price_of_traced_ones() -> None:
    found = train("gpt2", on="h100", batch_tokens=1024)
    norms = [part.op for part in found.bound.ops if part.op.kind == "norm" and part.op.phase == "backward"]
    assert {op.work.total("flops") for op in norms} == {9 * 1024 * 768}  # 7, and 1 for each of scale and shift
