"""Every legal plan of a sharded expression, ranked: what is sent, before or after, and what that costs.

>>> for plan in shard("A[I_X, J] * B[J, K_Y] -> C[I, K_Y]", on="v5e:4x4", I=8192, J=8192, K=8192).plans[:2]:
...     print(plan)
<Plan 1: AllGather_X(C[I_X, K_Y]): 559 µs at best, 1.05 ms at worst>
<Plan 2: slice_{Y,I}(A[I_X, J]); AllGather_X(A[I_XY, J]); ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.bounds.api import question
from roofline.bounds.plans import ranked
from roofline.bounds.question import Question
from roofline.bounds.question_mesh import is_sharded, mesh_of
from roofline.bounds.ranked_plan import RankedPlan
from roofline.bounds.record import plain
from roofline.bounds.shown import Shown
from roofline.errors import InputError
from roofline.sizes import Size


@dataclass(frozen=True, slots=True, eq=False)
class ShardPlans(Shown):
    """Every legal plan of a sharded program, best first: the answer of :func:`shard`."""

    question: Question
    plans: Sequence[RankedPlan]

    @property
    def best(self) -> RankedPlan:
        """The first plan."""
        return self.plans[0]

    def __len__(self) -> int:
        return len(self.plans)

    def __iter__(self) -> Iterator[RankedPlan]:
        return iter(self.plans)

    def __getitem__(self, index: int) -> RankedPlan:
        return self.plans[index]

    def to_dict(self) -> dict[str, Any]:
        """The plans under stable keys (schema ``roofline/plans/1``)."""
        return {
            "schema": "roofline/plans/1",
            "expression": self.question.expression,
            "target": self.question.machine.name,
            "machine": self.question.machine.key,
            "mesh": {name: plain(size) for name, size in self._mesh().items()},
            "plans": [plan.to_dict() for plan in self.plans],
        }

    def _mesh(self) -> Mapping[str, Size]:
        mesh = mesh_of(self.question).mesh
        return {} if mesh is None else mesh.sizes

    def __rich__(self) -> Any:
        from roofline.bounds.show_plans import plans_table

        return plans_table(self)

    def __repr__(self) -> str:
        return f"<{len(self)} plans; best: {self.best!r}>"


def shard(expression: str, **arguments: Any) -> ShardPlans:
    """List every legal plan of a sharded expression with its time, memory and link bytes, best first.

    >>> found = shard("A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]", on="v5p:4x4x4", I=8192, J=8192, K=32768)
    >>> found.best.name, round(found.best.comms * 1e6, 1), round(found.best.math * 1e6, 1)
    ('AllGather_X(B[J_X, K_Y])', 559.2, 598.9)

    A plan says what is sent before the operation, over which operand, and what after it. Arguments are those of
    :func:`roofline.bound` but for ``plan``. Sizes may be left out or arrays: plans are then listed with the least to
    send first, and the first of them cost formulas or arrays.

    >>> shard("A[I, J_X] * B[J, K] -> C[I, K]", on="v5e:4").best.link_bytes
    3*I*J/2

    ``use`` names mesh axes that plans may use though no tensor is sharded over them; where nothing is sharded at
    all, plans may use the whole mesh:

    >>> free = shard("A[I, J] * B[J, K] -> C[I, K]", on="v4:4x4x4", I=4096, J=4096, K=4096)
    >>> free.best.name
    'slice_{X,Y,I}(A[I, J]); slice_{Z,K}(B[J, K]); AllGather_{X,Y,Z}(C[I_XY, K_Z])'
    """
    asked = question(expression, **arguments)
    if asked.plan is not None:
        raise InputError("shard lists every plan, and one is asked for", hint="ask bound for the answer by one plan")
    if not is_sharded(asked):
        mesh = mesh_of(asked).mesh
        asked = asked.vary(use=tuple(mesh.sizes) if mesh is not None else ())
    return ShardPlans(asked, ranked(asked))
