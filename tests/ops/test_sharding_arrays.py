"""Plans done on arrays: chips hold parts, send them as the plan says, and end up with the right part of the result.

Nothing here knows a cost or a rule of legality: a chip's part is the set of indices it holds along each dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import few, some

from roofline import shard
from roofline.errors import NotationError
from roofline.notation import program
from roofline.ops.sharding.layout import Layout, Move, layout_of
from roofline.ops.sharding.plans import assumes_any_axis_order

SIZE = 8
MESH = {"X": 2, "Y": 2, "Z": 2}
CHIPS = tuple(dict(zip(MESH, at, strict=True)) for at in product(*map(range, MESH.values())))
ELEMENT = 2


@dataclass
class Parts:
    """What every chip holds of a tensor: indices along each label, and the values at them."""

    labels: tuple[str, ...]
    indices: list[dict[str, np.ndarray[Any, Any]]]
    values: list[np.ndarray[Any, Any]]

    def take(self, chip: int, label: str, kept: np.ndarray[Any, Any]) -> None:
        """Keep some of a chip's indices along a label."""
        at = np.searchsorted(self.indices[chip][label], kept)
        self.values[chip] = np.take(self.values[chip], at, self.labels.index(label))
        self.indices[chip] = {**self.indices[chip], label: kept}


def held(layout: Layout, whole: np.ndarray[Any, Any]) -> Parts:
    """The parts that a layout gives the chips, the first axis of a label counting its largest parts."""
    indices = []
    for at in CHIPS:
        mine = {}
        for label, axes in zip(layout.labels, layout.shards, strict=True):
            part = 0
            for axis in axes:
                part = part * MESH[axis] + at[axis]
            count = SIZE // prod(MESH[axis] for axis in axes)
            mine[label] = np.arange(part * count, (part + 1) * count)
        indices.append(mine)
    values = [whole[np.ix_(*(mine[label] for label in layout.labels))] for mine in indices]
    return Parts(layout.labels, indices, values)


def partners(chip: int, axes: tuple[str, ...]) -> list[int]:
    """The chips that differ from one along these axes only, itself among them, in order."""
    rest = [axis for axis in MESH if axis not in axes]
    return [other for other, at in enumerate(CHIPS) if all(at[axis] == CHIPS[chip][axis] for axis in rest)]


def gathered(x: Parts, chip: int, axes: tuple[str, ...], label: str) -> tuple[np.ndarray[Any, Any], Any]:
    """Put together what the partners hold along a label."""
    some = {tuple(x.indices[other][label]): other for other in partners(chip, axes)}
    joined = np.concatenate([x.indices[other][label] for other in some.values()])
    values = np.concatenate([x.values[other] for other in some.values()], x.labels.index(label))
    order = np.argsort(joined)
    assert len(set(joined)) == len(joined)
    return joined[order], np.take(values, order, x.labels.index(label))


def done(x: Parts, layout: Layout, move: Move) -> tuple[Parts, float]:
    """Make one move; return the new parts, and the elements that the first chip got from others."""
    now = Parts(x.labels, list(x.indices), list(x.values))
    size, got = prod(x.values[0].shape), 0.0
    ways = prod(MESH[axis] for axis in move.axes)
    if move.kind in ("AllReduce", "ReduceScatter"):
        now.values = [sum(x.values[other] for other in partners(chip, move.axes)) for chip in range(len(CHIPS))]  # type: ignore[misc]
        got = size * (ways - 1) / ways * (2 if move.kind == "AllReduce" else 1)
    if move.kind in ("AllGather", "AllToAll"):
        got = size * (ways - 1) if move.kind == "AllGather" else size * (ways - 1) / ways
        for axis in move.axes:
            label, before = layout.state(axis), Parts(now.labels, list(now.indices), list(now.values))
            for chip in range(len(CHIPS)):
                found, values = gathered(before, chip, (axis,), str(label))
                now.indices[chip], now.values[chip] = {**now.indices[chip], str(label): found}, values
    for axis, label in zip(move.axes, move.to, strict=True):
        for chip, at in enumerate(CHIPS):
            if label is not None:
                now.take(chip, label, np.split(now.indices[chip][label], MESH[axis])[at[axis]])
    return now, got


def moved(x: Parts, layout: Layout, moves: tuple[Move, ...]) -> tuple[Parts, Layout, float]:
    total = 0.0
    for move in moves:
        x, got = done(x, layout, move)
        layout, total = move.after(layout), total + got
    return x, layout, total


def same(a: Parts, b: Parts) -> bool:
    return all(
        all(np.array_equal(one[label], other[label]) for label in a.labels) and np.allclose(x, y)
        for one, other, x, y in zip(a.indices, b.indices, a.values, b.values, strict=True)
    )


def carried_out(text: str, plan: Any) -> tuple[bool, float]:
    """Do a plan on arrays; say whether every chip ends up with its part, and the bytes that one got from others."""
    steps = program(text).steps
    random = np.random.default_rng(0)
    wholes: dict[str, Any] = {}
    copies: dict[tuple[str, Layout], Parts] = {}
    total = 0.0
    for step, choice in zip(steps, plan.choices, strict=True):
        operands = []
        for shape, layout, moves in zip(step.inputs, choice.given, choice.before, strict=True):
            if shape.ident not in wholes:
                wholes[shape.ident] = random.integers(-4, 5, [SIZE] * len(shape.labels)).astype(float)
            x = copies.setdefault((shape.ident, layout), held(layout, wholes[shape.ident]))
            x, end, got = moved(x, layout, moves)
            copies[shape.ident, end] = x
            operands.append(x)
            total += got * ELEMENT
        a, b = operands
        shared = [label for label in a.labels if label in b.labels]
        if any(not np.array_equal(p[x], q[x]) for p, q in zip(a.indices, b.indices, strict=True) for x in shared):
            return False, total
        names = {label: chr(97 + i) for i, label in enumerate(dict.fromkeys((*a.labels, *b.labels)))}
        words = ["".join(names[label] for label in x) for x in (a.labels, b.labels, step.output.labels)]
        rule = f"{words[0]},{words[1]}->{words[2]}"
        wholes[step.output.ident] = np.einsum(rule, *(wholes[shape.ident] for shape in step.inputs))
        result = Parts(
            step.output.labels,
            [{k: v for k, v in {**p, **q}.items() if k in step.output.labels}
             for p, q in zip(a.indices, b.indices, strict=True)],
            [np.einsum(rule, x, y) for x, y in zip(a.values, b.values, strict=True)],
        )  # fmt: skip
        result, end, got = moved(result, choice.raw, choice.after)
        copies[step.output.ident, end] = result
        total += got * ELEMENT
    output = layout_of(steps[-1].output) if steps[-1].laid_out else end
    whole = wholes[steps[-1].output.ident]
    if output.unreduced:
        first = [partners(chip, output.unreduced) for chip in range(len(CHIPS))]
        result.values = [sum(result.values[other] for other in group) for group in first]  # type: ignore[misc]
    return same(result, held(output, whole)), total


@st.composite
def sharded(draw: st.DrawFn, labels: str) -> str:
    """A tensor with any axes over any of its dimensions."""
    axes = draw(st.permutations(list(MESH)))[: draw(st.integers(0, 3))]
    at: dict[str, str] = {}
    for axis in axes:
        label = draw(st.sampled_from(labels))
        at[label] = at.get(label, "") + axis
    return "[" + ", ".join(label + (f"_{at[label]}" if label in at else "") for label in labels) + "]"


@st.composite
def lines(draw: st.DrawFn) -> str:
    left, right, result = draw(st.sampled_from([("IJ", "JK", "IK"), ("BIJ", "BJK", "BIK"), ("BI", "BIJ", "BJ")]))
    one, other, end = (draw(sharded(labels)) for labels in (left, right, result))
    return f"P{one} * Q{other} -> R{end}"


def check(text: str, most: int = 60) -> None:
    sizes = dict.fromkeys(program(text).labels, SIZE)
    try:
        found = shard(text, on="h100:8", mesh=MESH, algorithm={"AllReduce": "two-shot"}, **sizes)
    except NotationError:
        return
    for ranked in found.plans[:most]:
        right, got = carried_out(text, ranked.plan)
        assert right or assumes_any_axis_order(program(text).steps, ranked.plan), (text, ranked.name)
        assert not right or ranked.link_bytes == pytest.approx(got), (text, ranked.name)


@given(lines())
@few(3)
def test_every_plan_gives_the_right_parts_and_sends_what_is_said(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    "text",
    some(
        [
            "P[I, J_XY] * Q[J_X, K] * S[K_Y, L_X] -> R[I_X, L]",
            "P[I_X, J_Y] * Q[J_X, K_Y] * S[K_Y, L_X] -> R[I_X, L_Y]",
            "P[I_Y, J] * Q[J, K_Y] * S[K_Y, J] -> R[I_Y, J]",
        ],
        2,
    ),
)
def test_plans_of_chains_give_the_right_parts(text: str) -> None:
    check(text)


def test_an_order_that_a_plan_leans_on_is_noticed() -> None:
    """J_XY and J_YX give a chip other parts: on arrays the plan is wrong, and it says what it takes for granted."""
    text = "P[I, J_XY] * Q[J_YX, K] -> R[I, K]"
    best = shard(text, on="h100:8", mesh=MESH, I=SIZE, J=SIZE, K=SIZE).best
    assert carried_out(text, best.plan)[0] is False
    assert best.bound is not None
    assert assumes_any_axis_order(program(text).steps, best.plan)
