"""Llama-2-7B's decode step as torch runs it beside the model room's: every byte of difference has a name."""

from __future__ import annotations

import pytest

from roofline.bounds.memory import traffic
from roofline.models import decode, load
from tests.programs import networks

LAYERS, WIDTH, HIDDEN, CONTEXT = 32, 4096, 11008, 2048
ROW = 2 * WIDTH


@pytest.fixture(scope="module")
def ours():
    return decode(load("llama-2-7b"), batch=1, context=CONTEXT)


@pytest.fixture(scope="module")
def traced():
    return networks.llama_decode(LAYERS, CONTEXT)


def _bytes(ops, policy, wanted=lambda op: True):
    moved = zip(ops, traffic(ops, policy), strict=True)
    return sum(load.total("bytes") * op.repeat for op, load in moved if wanted(op))


def test_the_floor_of_a_step_is_the_same_by_name_and_traced(ours, traced):
    """The program writes the new row into the cache and reads it from there; the floor keeps it on the chip."""
    assert _bytes(traced.ops, "minimal") == _bytes(ours, "minimal")


def test_operation_by_operation_every_difference_has_a_name(ours, traced):
    turned = 2 * ROW + 256, ROW, 2 * ROW, 2 * ROW + 256, 3 * ROW  # x·cos, −half, joined, ·sin, their sum
    named = {
        "rotary embedding as five operations, not one": LAYERS * 2 * (sum(turned) - 2 * ROW),
        "silu and its product as two operations, not one": LAYERS * 2 * 2 * HIDDEN,
        "the new row of keys and of values copied into the cache": LAYERS * 2 * 2 * ROW,
        # positions 8, as floats 12; exponents 512, negated 1024, divided 768, raised 512; angles 516, twice 768;
        # cosines 1024 and sines 1024, as bf16 768 each
        "tables of the rotary embedding, made once": 8 + 12 + 512 + 1024 + 768 + 512 + 516 + 768 + 2 * (1024 + 768),
    }
    assert _bytes(traced.ops, "each-op") - _bytes(ours, "each-op") == sum(named.values()) == 6_692_376
    found = {
        "rotary embedding as five operations, not one": _bytes(
            traced.ops,
            "each-op",
            lambda op: op.where.endswith(".attention") and op.name in ("mul", "neg", "cat", "add"),
        )
        - _bytes(ours, "each-op", lambda op: op.name.endswith("_rope")),
        "silu and its product as two operations, not one": _bytes(
            traced.ops, "each-op", lambda op: op.where.endswith(".mlp") and op.name in ("silu", "mul")
        )
        - _bytes(ours, "each-op", lambda op: op.name == "act"),
        "the new row of keys and of values copied into the cache": _bytes(
            traced.ops, "each-op", lambda op: op.name == "copy"
        ),
        "tables of the rotary embedding, made once": _bytes(
            traced.ops, "each-op", lambda op: not op.where and op.kind not in ("embedding", "contraction")
        ),
    }
    assert found == named


@pytest.mark.parametrize("kind", ["contraction", "attention", "norm", "embedding"])
def test_everything_else_moves_the_same(ours, traced, kind):
    same = _bytes(ours, "each-op", lambda op: op.kind == kind)
    assert _bytes(traced.ops, "each-op", lambda op: op.kind == kind) == same > 0


def test_matrix_flops_are_the_same(ours, traced):
    assert sum(op.work.total("flops", "matrix") * op.repeat for op in ours) == traced.flops() == 14_288_420_864
