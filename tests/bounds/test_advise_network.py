"""Advice for what waits for the network: each line equals a fresh answer, and what would help is there."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from roofline import advise, bound
from tests.strategies import LONG, some

SPLIT = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "line": (SPLIT, {"on": "v5e:4", "B": 64, "D": 1024, "F": 8192}),
    "node": (SPLIT, {"on": "h100:8", "link": 2e11, "B": 4096, "D": 512, "F": 8192}),
    "hops": (SPLIT, {"on": "h100:8", "algorithm": "one-way ring", "B": 64, "D": 1024, "F": 8192}),
    "mesh": (
        SPLIT,
        {"on": "h100", "mesh": {"X": 8}, "link": 2e11, "plan": "AllReduce", "B": 4096, "D": 512, "F": 8192},
    ),
    "mlp": (
        "In[B_X, D_Y] * Wi[D_X, F_Y] * Wo[F_Y, D_X] -> Out[B_X, D_Y]",
        {"on": "v5p:4x4x4", "mesh": {"X": 16, "Y": 4}, "B": 4096, "D": 8192, "F": 32768},
    ),
    "asked": (SPLIT, {"on": "v5e:4", "plan": "AllGather_X(bf16[D_X, F])", "B": 64, "D": 1024, "F": 8192}),
}


@cache
def advised(name: str) -> tuple[Any, Any]:
    """Answer a case and advise on it, once for all tests."""
    text, options = CASES[name]
    answer = bound(text, **options)
    return answer, advise(answer)


@pytest.mark.parametrize("name", some(CASES, 2))
def test_every_line_is_a_fresh_answer_and_a_gain(name: str) -> None:
    answer, found = advised(name)
    assert answer.kind in ("network-bound", "latency-bound")
    assert found
    for item in found if LONG else found[:2]:
        again = item.after.question
        fresh = bound(
            again.text, on=again.machine, mesh=dict(again.conventions.mesh), plan=again.conventions.plan,
            algorithm=again.conventions.algorithm,
            sizes=dict(again.sizes),
        )  # fmt: skip
        assert fresh.lower == item.after.lower
        assert item.gain == pytest.approx(answer.lower / fresh.lower * item.more)
        assert item.gain > 1


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("line", {"F over X", "B over X", "fp8 result", "ici at twice the bandwidth"}),
        ("node", {"F over X", "B over X", "int8 weights", "nvlink at twice the bandwidth", "X = 4"}),
        ("hops", {"algorithm tree", "X = 4", "nvlink at half the latency"}),
        ("mesh", {"fp8 result", "nvlink at twice the bandwidth"}),
        ("mlp", {"int8 weights", "ici at twice the bandwidth"}),
        ("asked", {"the best plan", "ici at twice the bandwidth"}),
    ],
)
def test_what_would_help_is_there(name: str, wanted: set[str]) -> None:
    changes = {item.change for item in advised(name)[1]}
    assert wanted <= changes
    assert not any("book" in change for change in changes)


def test_the_latency_that_counts_most_is_the_one_to_halve() -> None:
    found = advise("AllReduce_X(bf16[B, D] {U_X})", on="dgx-h100:1024", B=64, D=8192)
    (line,) = (item for item in found if item.change.endswith("half the latency"))
    assert line.change in ("ib at half the latency", "spine at half the latency")


def test_another_layout_is_the_line_that_a_reader_would_write() -> None:
    (line,) = (item for item in advised("line")[1] if item.change == "F over X")
    assert line.after.question.text == "bf16[B, D] * bf16[D, F_X] -> bf16[B, F_X]"
    assert line.after.plan == "no communication"


def test_a_larger_batch_divides_over_its_axes() -> None:
    """The smallest batch that changes what binds is looked for among those that four chips divide."""
    (line,) = (
        item
        for item in advise("bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]", on="v5e:4", B=64, D=8192, F=8192)
        if item.change.startswith("B = ")
    )
    size = line.after.sizes["B"]
    assert size % 4 == 0
    text = "bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]"
    assert bound(text, on="v5e:4", B=size - 4, D=8192, F=8192).kind == line.before.kind != line.after.kind


def test_a_larger_written_batch_divides_over_its_axes() -> None:
    (line,) = (i for i in advise("bf16[64_XY, 4096] * bf16[4096, 4096]", on="v5e:4x4") if "size of" in i.change)
    assert (line.change, line.after.kind) == ("a size of 208 for 64", "network-bound")
    assert bound("bf16[192_XY, 4096] * bf16[4096, 4096]", on="v5e:4x4").kind == line.before.kind == "latency-bound"


def test_variants_leave_a_result_open_that_is_not_written() -> None:
    answer = bound("pool(fp32[B, V_X, 64], window=2)", on="v5e:8", B=1024, V=12800)
    found = {item.change: item for item in advise(answer)}
    assert found["bf16 activations"].gain == pytest.approx(1.5)  # what is read in half the bytes, not what is written
    assert found["bf16 activations"].after.expression == "pool(bf16[1024, 12800_X, 64], window=2) -> fp32"
