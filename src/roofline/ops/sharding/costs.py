"""The time of every choice of a sharded program; each part of a choice is priced once.

A choice is an operation on its local sizes and the moves of its operands and of its result. Their times do not depend
on the rest of the plan, so a search over plans adds up prices and builds no plan.

>>> one, other = PlanTime({"mxu": 3e-6}, 3e-6, 3e-6), PlanTime({"ici X": 2e-6}, 2e-6, 2e-6, 512)
>>> one.plus(other).merit
(3e-06, 5e-06, 5e-06, 512.0, 0, 0, 0)
>>> one.never_worse(other), PlanTime({"mxu": 1e-6}, 1e-6, 1e-6).never_worse(one)
(False, True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from roofline.notation.structure import Shape, Step
from roofline.ops.sharding.choices import Choice, MaySplit, Score, choices, empty, moved
from roofline.ops.sharding.layout import Layout, Move
from roofline.ops.sharding.local import MeshPlacement, moves_alone, operations
from roofline.ops.sharding.plans import Plan
from roofline.sizes import Size
from roofline.work import Op

NOTHING = Score()


@dataclass(frozen=True, slots=True, eq=False)
class PlanTime:
    """Seconds on every resource, op by op and one after the other, and bytes sent.

    The order is by lower + ``apart``·(upper − lower) + ``more``: ``apart`` is 0 where everything overlaps, ``more`` are
    seconds that no overlap hides. ``score`` decides between plans that take equally long.
    """

    times: Mapping[str, float] = field(default_factory=dict)
    op_by_op: float = 0
    upper: float = 0
    sent: float = 0
    more: float = 0
    apart: float = 0
    score: Score = NOTHING

    @property
    def merit(self) -> tuple[float, ...]:
        """Time as far as it overlaps, then op by op, then at worst, bytes sent, score; to twelve digits."""
        lower = max(self.times.values(), default=0)
        first = lower + self.apart * (self.upper - lower) + self.more
        return *(float(f"{x:.12g}") for x in (first, self.op_by_op, self.upper, self.sent)), *self.score

    def plus(self, other: PlanTime) -> PlanTime:
        """Add up, resource by resource."""
        times = dict(self.times)
        for name, time in other.times.items():
            times[name] = times.get(name, 0) + time
        return PlanTime(
            times,
            self.op_by_op + other.op_by_op,
            self.upper + other.upper,
            self.sent + other.sent,
            self.more + other.more,
            max(self.apart, other.apart),
            self.score.plus(other.score),
        )

    def never_worse(self, other: PlanTime) -> bool:
        """Say whether nothing here is more."""
        return (
            self.op_by_op <= other.op_by_op
            and self.upper <= other.upper
            and self.sent <= other.sent
            and self.more <= other.more
            and self.score <= other.score
            and all(time <= other.times.get(name, 0) for name, time in self.times.items())
        )

    def least_of(self, other: PlanTime) -> PlanTime:
        """The smaller of each part."""
        times = {name: min(time, other.times[name]) for name, time in self.times.items() if name in other.times}
        op_by_op, upper, sent, more = map(min, self._parts(), other._parts())
        return PlanTime(times, op_by_op, upper, sent, more, self.apart)

    def _parts(self) -> tuple[float, ...]:
        return self.op_by_op, self.upper, self.sent, self.more


@dataclass(frozen=True, slots=True, eq=False)
class TimeCosts:
    """The times of a program's choices; ``price`` gives the time of operations that run one after the other."""

    steps: Sequence[Step]
    sizes: Mapping[str, Size]
    place: MeshPlacement
    axes: Sequence[str]
    may_split: MaySplit
    price: Callable[[Sequence[Op]], PlanTime]
    _known: dict[Any, PlanTime] = field(default_factory=dict)

    def of(self, at: int, choice: Choice | None) -> PlanTime:
        """Price a choice: its operation, and the moves before and after it."""
        step = self.steps[at]
        if choice is None:
            return self._once(at, lambda: operations((step,), Plan((None,), ()), self.sizes, self.place))
        key = (at, choice)
        if key not in self._known:
            self._known[key] = self._whole(at, step, choice)
        return self._known[key]

    def _whole(self, at: int, step: Step, choice: Choice) -> PlanTime:
        total = self._alone(at, choice).plus(PlanTime(score=choice.score))
        for shape, layout, moves in zip(step.inputs, choice.given, choice.before, strict=True):
            total = total.plus(self._moved(shape, layout, moves))
        return total.plus(self._moved(step.output, choice.raw, choice.after))

    def least(self, at: int) -> PlanTime:
        """Add up, from step ``at`` on, the least time of each step on every resource, with nothing sent."""
        key = ("least", at)
        if key not in self._known:
            rest = self.least(at + 1) if at + 1 < len(self.steps) else PlanTime()
            self._known[key] = self._cheapest(at).plus(rest)
        return self._known[key]

    def _cheapest(self, at: int) -> PlanTime:
        step = self.steps[at]
        if step.kind == "collective":
            return self.of(at, None)
        whole = [Layout(x.labels, tuple(() for _ in x.labels)) for x in step.inputs]
        found: PlanTime | None = None
        for choice in choices(step, whole, None, also=self.axes, may_split=self.may_split):
            spent = self._alone(at, choice)
            found = spent if found is None else found.least_of(spent)
        return found or PlanTime()

    def _alone(self, at: int, choice: Choice) -> PlanTime:
        """Price the operation of a choice, without its moves."""
        step = self.steps[at]
        ends = tuple(moved(layout, moves) for layout, moves in zip(choice.given, choice.before, strict=True))
        bare = choice._replace(given=ends, before=((),) * len(ends), raw=empty(step), after=())
        return self._once((at, ends), lambda: operations((step,), Plan((bare,), ()), self.sizes, self.place))

    def _moved(self, x: Shape, layout: Layout, moves: Sequence[Move]) -> PlanTime:
        if not any(move.sends for move in moves):
            return PlanTime()
        return self._once(
            (x.ident, layout, tuple(moves)), lambda: moves_alone(x, layout, moves, self.sizes, self.place)
        )

    def _once(self, key: Any, build: Callable[[], Sequence[Op]]) -> PlanTime:
        if key not in self._known:
            self._known[key] = self.price(build())
        return self._known[key]
