"""What the parts of a plan take on a machine, in the conventions of a question: what the search over plans goes by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from roofline.bounds.case import Case
from roofline.hardware.machine import Machine
from roofline.notation.structure import Step
from roofline.ops.sharding.choices import MaySplit
from roofline.ops.sharding.costs import PlanTime, TimeCosts
from roofline.ops.sharding.local import MeshPlacement, sizes_of_all
from roofline.ops.sharding.plans import Plan
from roofline.sizes import Size
from roofline.work import Op, Work

if TYPE_CHECKING:
    from roofline.bounds.question import Question

#: Byte policies under which what an operation moves does not depend on the others, so that parts of a plan add up.
BY_PART = ("each-op", "tiled")


def time_costs(
    asked: Question,
    machine: Machine,
    steps: Sequence[Step],
    first: Plan,
    sizes: Mapping[str, Size],
    place: MeshPlacement,
    axes: Sequence[str],
    may_split: MaySplit,
) -> TimeCosts:
    """Make the costs of a program's choices; ``first`` is any plan, ``axes`` the mesh axes that may be used.

    Under a policy in which bytes depend on all operations together they are left out: what is searched by is then
    less than what a plan takes.
    """
    quiet = place._replace(algorithm=replace(place.algorithm, compares=False))
    apart = 0.0 if asked.conventions.overlap is None else 1 - asked.conventions.overlap

    def price(ops: Sequence[Op]) -> PlanTime:
        ops = asked.finished(tuple(ops))
        moved = None if asked.conventions.policy in BY_PART else [Work()] * len(ops)
        times: dict[str, float] = {}
        op_by_op = upper = sent = 0.0
        for part in Case(ops, machine, asked.conventions, moved=moved).prices():
            for name, time in part.times.items():
                times[name] = times.get(name, 0) + time
            op_by_op, upper = op_by_op + part.lower, upper + part.upper
            sent += sum(use.amount for use in part.uses if use.quantity == "wire")
        more = (asked.conventions.overhead or 0) * sum(op.repeat for op in ops)
        return PlanTime(times, op_by_op, upper, sent, more, apart)

    return TimeCosts(steps, sizes_of_all(steps, first, sizes, quiet), quiet, axes, may_split, price)
