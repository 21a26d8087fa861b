"""The order in which the mesh axes of one dimension count its parts: ``J_XY`` and ``J_YX`` give a chip different ones.

Plans tell layouts by which axes shard what, as the book does; where one leans on another order, that is said:

>>> from roofline.notation import program
>>> from roofline.ops.sharding.plans import plans
>>> def first(text):
...     steps = program(text).steps
...     return any_order(steps, next(plans(steps)))
>>> first("A[I, J_XY] * B[J_XY, K] -> C[I, K]"), first("A[I, J_XY] * B[J_YX, K] -> C[I, K]")
(False, True)
>>> first("A[I_XY, J] * B[J, K] -> C[I_X, K]"), first("A[I_XY, J] * B[J, K] -> C[I_Y, K]")    # the inner one, the outer
(False, True)
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.notation.structure import Step
from roofline.ops.sharding.choices import Choice, moved
from roofline.ops.sharding.layout import Layout, layout_of
from roofline.ops.sharding.moves import Move
from roofline.ops.sharding.plans import Plan


def any_order(steps: Sequence[Step], plan: Plan) -> bool:
    """Say whether a plan is right only if the parts of a dimension may lie in any order over several axes."""
    return any(choice is not None and _leans(step, choice) for step, choice in zip(steps, plan.choices, strict=True))


def _leans(step: Step, choice: Choice) -> bool:
    ends = [moved(layout, made) for layout, made in zip(choice.given, choice.before, strict=True)]
    written = [layout_of(step.output)] if step.laid_out else []
    return (
        any(_shuffles(layout, made) for layout, made in zip(choice.given, choice.before, strict=True))
        or _shuffles(choice.raw, choice.after)
        or not _alike([*ends, choice.raw])
        or not _alike([choice.result, *written])
    )


def _shuffles(layout: Layout, made: Sequence[Move]) -> bool:
    """Whether an axis leaves a dimension that others behind it go on sharding: its parts then lie apart."""
    for move in made:
        following = move.after(layout)
        for before, after in zip(layout.shards, following.shards, strict=True):
            kept = tuple(axis for axis in before if axis in after)
            if kept != before[: len(kept)]:
                return True
        layout = following
    return False


def _alike(layouts: Sequence[Layout]) -> bool:
    """Whether all that shard a label over the same axes count its parts in the same order."""
    orders: dict[tuple[str, frozenset[str]], tuple[str, ...]] = {}
    for layout in layouts:
        for label, shard in zip(layout.labels, layout.shards, strict=True):
            if orders.setdefault((label, frozenset(shard)), shard) != shard:
                return False
    return True
