"""A plan with its price: what one chip computes, sends and holds, and how long that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from roofline.answers import open_as_null
from roofline.bounds.bound import Bound, decoded
from roofline.quantity import format_amount
from roofline.sizes import Size

if TYPE_CHECKING:
    from roofline.ops.sharding.plans import Plan


@dataclass(frozen=True, slots=True, eq=False)
class RankedPlan:
    """A plan with its price on one chip; ``price`` makes it, and is None for plans far down a list whose sizes are
    open or arrays."""

    rank: int
    plan: Plan
    price: Callable[[], Bound] | None = field(default=None, repr=False)
    _made: list[Bound] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        """Its collectives and slices, in order."""
        return self.plan.name

    @property
    def bound(self) -> Bound | None:
        """All of the price, made when it is first asked for; None where sizes are open."""
        if not self._made and self.price is not None:
            self._made.append(self.price())
        return self._made[0] if self._made else None

    @property
    def link_bytes(self) -> Size:
        """Bytes one chip sends one way, over all links."""
        return 0 if self.bound is None else sum(self.bound.wire.values())

    @property
    def memory(self) -> Size | None:
        """Bytes one chip needs at once."""
        return None if self.bound is None or self.bound.footprint is None else self.bound.footprint.total

    @property
    def math(self) -> Size:
        """T_math: the time of the arithmetic."""
        return 0 if self.bound is None else self.bound.math

    @property
    def comms(self) -> Size:
        """T_comms: the time of the busiest link, or of the hops where that is longer."""
        return 0 if self.bound is None else self.bound.comms

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data in SI units."""
        body: dict[str, Any] = {"rank": self.rank, "name": self.name}
        if self.bound is not None:
            formulas: dict[str, str] = {}
            for name in ("lower", "op_by_op", "upper", "estimate"):
                body[name] = open_as_null(name, getattr(self.bound, name), formulas)
            for name in ("math", "comms", "link_bytes", "memory"):
                body[name] = open_as_null(name, getattr(self, name), formulas)
            body["bound_by"] = decoded(self.bound.bound_by)
            body |= {"formulas": formulas} if formulas else {}
        return body

    def __repr__(self) -> str:
        if self.bound is None:
            return f"<Plan {self.rank}: {self.name}>"
        best, worst = format_amount(self.bound.lower, "s"), format_amount(self.bound.upper, "s")
        return f"<Plan {self.rank}: {self.name}: {best} at best, {worst} at worst>"


class PlanList(Sequence[RankedPlan]):
    """Plans, best first, each found when it is first asked for."""

    def __init__(self, plans: Iterator[RankedPlan]) -> None:
        self._plans, self._found = plans, list[RankedPlan]()

    @overload
    def __getitem__(self, index: int) -> RankedPlan: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RankedPlan]: ...
    def __getitem__(self, index: int | slice) -> RankedPlan | Sequence[RankedPlan]:
        if isinstance(index, slice):
            end = index.stop
            self._find(end if end is not None and end >= 0 else None)
            return tuple(self._found[index])
        self._find(index + 1 if index >= 0 else None)
        return self._found[index]

    def __len__(self) -> int:
        self._find(None)
        return len(self._found)

    def _find(self, count: int | None) -> None:
        while count is None or len(self._found) < count:
            plan = next(self._plans, None)
            if plan is None:
                return
            self._found.append(plan)

    def __reduce__(self) -> tuple[type[PlanList], tuple[Iterator[RankedPlan]]]:
        """A copy has every plan found: a search that is under way cannot be copied."""
        self._find(None)
        return type(self), (iter(self._found),)

    def __repr__(self) -> str:
        return f"<{len(self)} plans>"
