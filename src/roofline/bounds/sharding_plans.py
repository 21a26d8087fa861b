"""Which plan does a sharded program go by: every legal one, priced on the machine, best first.

>>> from roofline.bounds.api import question
>>> asked = question("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", on="v5e:2", B=64, D=8192, F=32768)
>>> for plan in ranked(asked)[:3]:
...     print(plan)
<Plan 1: AllReduce_X(bf16[B, F] {U_X}): 344 µs at best, 525 µs at worst>
<Plan 2: AllGather_X(bf16[B, D_X]); AllToAll_{X,F}(bf16[D_X, F]); AllGather_X(bf16[B, F_X]): 3.04 ms at best, ...
<Plan 3: AllGather_X(bf16[B, D_X]); AllGather_X(bf16[D_X, F]): 5.98 ms at best, ...

With plain numbers the best plan is taken: the one of the least time at best, then op by op, then at worst. The search
goes by these times, so that the plan taken is the best of all there are, however many. With arrays one plan stands for
all rows: of those that are the best at some of them the one that takes the least over these together. With open sizes
it is the one that sends over the fewest mesh axes, which is the rule of the book's four cases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice
from math import log
from sys import float_info
from typing import Any, overload

from roofline.answers import open_as_null
from roofline.bounds.bound import Bound, decoded
from roofline.bounds.case import Case
from roofline.bounds.question import FEWEST, LaidOut, Question
from roofline.errors import HardwareError, InputError, NotationError, SizeError
from roofline.frozen import dataclass, field, replace
from roofline.hardware.machine import Machine, Mesh
from roofline.hardware.mesh import with_mesh
from roofline.lazy import np
from roofline.notation import program
from roofline.notation.scope import is_unnamed, show_axes, show_sums
from roofline.notation.structure import Program, TensorDim
from roofline.ops.collectives.choice import Chooser
from roofline.ops.rules import arithmetic_dtype, label_sizes, sizes_of_results
from roofline.ops.sharding.layout import Fit, Windows, axis_hint, check_uneven, divides, local_size
from roofline.ops.sharding.local import (
    MeshPlacement,
    OpenSplit,
    PlanTime,
    TimeCosts,
    operations_and_splits,
    sizes_of_all,
)
from roofline.ops.sharding.plans import Costs, Found, Plan, assumes_any_axis_order, plans
from roofline.quantity import format_amount, in_a_row, whole_number
from roofline.signatures import call, spelled
from roofline.sizes import Size, is_array, is_symbol, product, sums_by_name
from roofline.statements import Assumption
from roofline.work import Op, Work

#: How many plans are listed; a program of several operations on several axes may have more, none of them better.
MOST = 256

#: How many plans a reader sees; only these get a price where sizes are open or arrays, which takes longer.
SHOWN_PLANS = 8

#: How many rows of arrays a plan for all of them is chosen by.
LOOKED_AT = 5

#: Byte policies under which what an operation moves does not depend on the others, so that parts of a plan add up.
BY_PART = ("each-op", "tiled")


@dataclass(frozen=True, slots=True, eq=False)
class RankedPlan:
    """A plan with its price on one chip.

    ``price`` makes it, and is None for plans far down a list whose sizes are open or arrays: they have no times and no
    bytes. ``whole`` is the layout that it leaves the result in, where none is written, ``sums`` its partial sums;
    ``layout`` is that of the line, where every layout is asked.
    """

    rank: int
    plan: Plan
    price: Callable[[], Bound] | None = field(default=None, repr=False)
    whole: str = ""
    sums: str = ""
    layout: str = ""
    _made: list[Bound] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        """Its collectives and slices, in order."""
        return self.plan.name

    @property
    def result(self) -> str:
        """The layout that it leaves the result in, with partial sums, where none is written."""
        return f"{self.whole} {self.sums}".strip()

    @property
    def bound(self) -> Bound | None:
        """All of the price, made when it is first asked for; None where there is none."""
        if not self._made and self.price is not None:
            self._made.append(self.price())
        return self._made[0] if self._made else None

    @property
    def link_bytes(self) -> Size | None:
        """Bytes one chip sends one way, over all links."""
        return None if self.bound is None else sum(self.bound.wire.values())

    @property
    def memory(self) -> Size | None:
        """Bytes one chip needs at once."""
        return None if self.bound is None or self.bound.footprint is None else self.bound.footprint.total

    @property
    def math(self) -> Size | None:
        """T_math: the time of the busiest unit."""
        return None if self.bound is None else self.bound.math

    @property
    def comms(self) -> Size | None:
        """T_comms: the time of the busiest link, or of the hops where that is longer."""
        return None if self.bound is None else self.bound.comms

    @property
    def moving(self) -> Size | None:
        """The time of the busiest memory level."""
        return None if self.bound is None else self.bound.moving

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data in SI units."""
        body: dict[str, Any] = {"rank": self.rank, "name": self.name, "result": self.result or None}
        body |= {"layout": self.layout} if self.layout else {}
        if self.bound is not None:
            formulas: dict[str, str] = {}
            for name in ("lower", "op_by_op", "upper", "estimate"):
                body[name] = open_as_null(name, getattr(self.bound, name), formulas)
            for name in ("math", "moving", "comms", "link_bytes", "memory"):
                body[name] = open_as_null(name, getattr(self, name), formulas)
            body["bound_by"] = decoded(self.bound.bound_by)
            body |= {"formulas": formulas} if formulas else {}
        return body

    def __repr__(self) -> str:
        name = f"{self.layout}: {self.name}" if self.layout else self.name
        if self.bound is None:
            return f"<Plan {self.rank}: {name}>"
        best, worst = format_amount(self.bound.lower, "s"), format_amount(self.bound.upper, "s")
        return f"<Plan {self.rank}: {name}: {best} at best, {worst} at worst>"


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


def lay_out(asked: Question) -> LaidOut:
    """Choose the plan of a question and build its operations."""
    search = _Search.of(asked)
    if asked.plan_of_all is not None and not asked.plan_of_all.axes & search.mesh.single:
        return search.laid_out(asked.plan_of_all, ())
    if asked.conventions.plan == FEWEST or (asked.conventions.plan is None and not search.plain):
        return search.laid_out(search.first(), ())
    rank = None if asked.conventions.plan is None else whole_number(str(asked.conventions.plan))
    if asked.conventions.plan is not None and rank is None:
        return search.laid_out(search.named(str(asked.conventions.plan)), ())
    if not search.plain:
        hint = "name it by its collectives; a rank goes by the times, which take numbers"
        raise InputError(f"plan {asked.conventions.plan} is a rank, and some sizes are open or arrays", hint=hint)
    listed = search.ranked()
    return search.laid_out(_of_rank(listed, rank), listed)


def _of_rank(listed: Sequence[RankedPlan], rank: int | None) -> Plan:
    """The plan of a rank, the best where none is named."""
    at = 1 if rank is None else rank
    if not 1 <= at <= len(listed[:at]):
        raise InputError(f"there is no plan {at}", hint=f"there are {len(listed)}; {call('shard')} lists them")
    return listed[at - 1].plan


def first_plan(asked: Question) -> Plan:
    """The plan that sends over the fewest mesh axes, of those that every size of the question allows.

    >>> from roofline.bounds.api import question
    >>> line = "h = bf16[B, D_X] * bf16[D_X, F]; gelu(h)"
    >>> [first_plan(question(line, on="h100:8", B=sizes, D=1024, F=4096)).name for sizes in ([64, 128], [64, 100])]
    ['ReduceScatter_{X,B}(h[B, F] {U_X})', 'ReduceScatter_{X,F}(h[B, F] {U_X})']
    """
    return _Search.of(asked).first()


def plan_for_rows(asked: Question) -> Plan:
    """The plan that takes the least over some rows together, by the product of its times, of those that all rows allow.

    Looked at are rows at even distances, the plans that are the best at one of them, and the one that sends over the
    fewest mesh axes. Of plain numbers it is the best, or that of the rank that is named.

    >>> from roofline.bounds.api import question
    >>> line = "bf16[B_X, D] * bf16[D_X, F] -> bf16[B_X, F]"
    >>> for sizes in ([160, 320], [16000, 32000]):
    ...     print(plan_for_rows(question(line, on="h100:8", B=sizes, D=8192, F=5120)).name)
    AllToAll_{X,D}(bf16[B_X, D]); ReduceScatter_{X,B}(bf16[B, F] {U_X})
    AllGather_X(bf16[D_X, F])
    """
    search = _Search.of(asked)
    if not any(map(is_array, asked.sizes.values())):
        rank = whole_number(str(asked.conventions.plan))
        return _of_rank(search.ranked(), rank) if search.plain else search.first()
    fewest, allowed = search.first(), {plan.name: plan for plan in search.listed()}
    each, rows = {fewest.name: fewest}, []
    for sizes in _some_rows(asked.sizes):
        row = _Search.of(asked.vary(sizes=sizes))
        with suppress(SizeError):  # rows that cannot be are for the answer to name
            best = row.ranked()[0].plan if row.plain else fewest
            each |= {best.name: best} if best.name in allowed else {}
            rows.append(row)
    if len(each) == 1:
        return fewest
    taken = {name: sum(log(row.price(plan).lower or float_info.min) for row in rows) for name, plan in each.items()}
    return each[min(taken, key=lambda name: taken[name])]


def _some_rows(sizes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sizes of a few rows of arrays that broadcast, at even distances, the first and the last among them."""
    arrays = {name: value for name, value in sizes.items() if is_array(value)}
    flat = dict(zip(arrays, map(np.ravel, np.broadcast_arrays(*arrays.values())), strict=True))
    last = len(next(iter(flat.values()))) - 1
    places = sorted({round(last * part / (LOOKED_AT - 1)) for part in range(LOOKED_AT)})
    return [{**sizes, **{name: int(column[at]) for name, column in flat.items()}} for at in places]


def ranked(asked: Question) -> Sequence[RankedPlan]:
    """List every plan, best first; with open sizes or arrays list them, the least to send first."""
    if not asked.is_sharded:
        hint = f"shard a dimension, as in bf16[B_X, D], or let plans use a mesh axis: {spelled('use', 'X')}"
        raise InputError("nothing is sharded here, so there is nothing to plan", hint=hint)
    search = _Search.of(asked)
    return search.ranked() if search.plain else search.unranked()


@lru_cache(maxsize=256)
def _first_of_open(text: str, compute: str | None, single: frozenset[str], also: tuple[str, ...]) -> tuple[Plan, ...]:
    """The plan that sends over the fewest mesh axes, if any, where all sizes are open: layouts alone decide."""
    return tuple(islice(plans(program(text, compute).steps, single=single, also=also), 1))


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """The plans of one question."""

    asked: Question
    parsed: Program
    machine: Machine
    mesh: Mesh
    sizes: Mapping[str, Any]
    known: Found = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, asked: Question) -> _Search:
        check_uneven(asked.conventions.uneven)
        parsed = asked.parsed
        machine = asked.on_mesh()
        if machine.mesh is None and machine.shape:
            machine = with_mesh(machine)
        if machine.mesh is None:
            axis = (parsed.axes or asked.conventions.use or ("X",))[0]
            hint = f"{axis_hint(axis)}, or write a target with a shape, as in {machine.key}:4"
            raise _at_axis(parsed, axis, f"mesh axis {axis} is not declared: {machine.name} is one chip", hint)
        for axis in (*parsed.axes, *asked.conventions.use):
            if axis not in machine.mesh.sizes:
                wrong = f"mesh axis {axis} is not declared; the axes are: {', '.join(machine.mesh.sizes) or 'none'}"
                raise _at_axis(parsed, axis, wrong, axis_hint(axis))
        beside = {*asked.mesh_names, *machine.mesh.sizes} - set(parsed.labels)
        sizes = {name: value for name, value in asked.sizes.items() if name not in beside}
        found = cls(asked, parsed, machine, machine.mesh, label_sizes(parsed, sizes, machine.mesh.sizes))
        found.check_written()
        return found

    def check_written(self) -> None:
        """Refuse sizes that do not divide over the axes they are written with."""
        shapes = (shape for step in self.parsed.steps for shape in (*step.inputs, step.output))
        for axis in (axis for shape in shapes for axis in shape.axes if axis.shard and axis.label in self.sizes):
            size, ways = self.sizes[axis.label], product(self.mesh.sizes[name] for name in axis.shard)
            local_size(size, ways, label=self.show(axis.label), uneven=self.asked.conventions.uneven)

    @property
    def plain(self) -> bool:
        """Whether every size is a plain number."""
        every = (*self.sizes.values(), *self.mesh.sizes.values())
        return not any(is_array(size) or is_symbol(size) for size in every)

    def listed(self) -> list[Plan]:
        """Every plan, the least to send first, up to the most that are looked at."""
        return list(islice(self.plans(), MOST))

    def plans(self, costs: Costs | None = None) -> Iterator[Plan]:
        """Every plan in the order of its costs, without any the least to send first."""
        single = self.mesh.single
        also = [axis for axis in self.asked.conventions.use if axis not in single]
        return plans(
            self.parsed.steps, single=single, also=also, may_split=self.may_split, show=self.show, costs=costs,
            known=self.known,
        )  # fmt: skip

    def unranked(self) -> Sequence[RankedPlan]:
        """Every plan, the least to send first; the first of them with prices in formulas or arrays."""
        return tuple(
            RankedPlan(rank, plan, partial(self.price, plan) if rank <= SHOWN_PLANS else None, *self.result(plan))
            for rank, plan in enumerate(self.listed(), 1)
        )

    def first(self) -> Plan:
        """The plan that sends over the fewest mesh axes."""
        if all(is_symbol(size) and not is_unnamed(label) for label, size in self.sizes.items()):
            single = self.mesh.single
            also = tuple(axis for axis in self.asked.conventions.use if axis not in single)
            return self.some(list(_first_of_open(self.asked.text, self.asked.conventions.compute, single, also)))[0]
        return self.some(list(islice(self.plans(), 1)))[0]

    def some(self, found: list[Plan]) -> list[Plan]:
        """Check that there is a plan at all."""
        if not found:
            wrong, at = "no plan gives the result as it is written", self.parsed.steps[-1].span.start
            hint = "partial sums {U_X} come only from contracting what X shards in both operands"
            raise NotationError(wrong, text=self.parsed.text, position=at, hint=hint)
        return found

    def named(self, wanted: str) -> Plan:
        """Choose a plan by its name, or by words of it: of several the one that sends over the fewest mesh axes."""
        found = self.some(self.listed())
        plain = "".join(wanted.lower().split())
        exact = [plan for plan in found if plan.name == wanted]
        matching = exact or [plan for plan in found if plain in "".join(plan.name.lower().split())]
        if matching:
            return matching[0]
        more = f" …; {call('shard')} lists all" if len(found) > 4 else ""
        listed = "; or ".join(f"'{plan.name}'" for plan in found[:4])
        raise InputError(f"no plan with {wanted!r}", hint=f"plans are: {listed}{more}")

    def may_split(self, label: str | int | Windows, axes: tuple[str, ...], fit: Fit = "padded", /) -> bool:
        """Say whether mesh axes fit a size, every one of an array; of windows no array does."""
        if isinstance(label, Windows):
            sizes = self.sizes_of_results()
            taps = sizes[label.taps] if isinstance(label.taps, str) else label.taps
            image, ways = sizes[label.label], product(self.mesh.sizes[axis] for axis in axes)
            if fit == "reach":
                return bool(label.reach(image, taps, ways)[1] > 0)
            even = self.asked.conventions.uneven == "pad" and not label.is_transposed
            return label.scale(image, taps, ways) and (even or divides(image, ways))
        if fit == "padded" and self.asked.conventions.uneven == "pad":
            return True
        sizes = self.sizes if label in self.sizes else self.sizes_of_results()
        size = sizes[label] if isinstance(label, str) else label
        ways = product(self.mesh.sizes[axis] for axis in axes)
        return divides(ways, size) if fit == "multiple" else divides(size, ways)

    def sizes_of_results(self) -> Mapping[str, Any]:
        """The sizes of labels, with those that follow from operations, worked out once."""
        if not self.derived:
            self.derived.update(sizes_of_results(self.parsed.steps, dict(self.sizes)))
        return self.derived

    def show(self, label: str) -> str:
        """A label as a reader would write it."""
        if not is_unnamed(label):
            return label
        return str((self.sizes if label in self.sizes else self.sizes_of_results()).get(label, "?"))

    @property
    def place(self) -> MeshPlacement:
        """Where its operations run and how they are counted."""
        asked = self.asked.conventions
        return MeshPlacement(
            self.mesh, Chooser(asked.algorithm, self.machine), asked.uneven, asked.exact, asked.count_padding,
            arithmetic_dtype(asked.compute), asked.density,
        )  # fmt: skip

    def build(self, plan: Plan) -> tuple[tuple[Op, ...], tuple[OpenSplit, ...]]:
        """Make the operations of a plan, and list what has to hold of open sizes."""
        return operations_and_splits(self.parsed.steps, plan, self.sizes, self.place)

    def price(self, plan: Plan) -> Bound:
        """Price a plan."""
        return self.asked.price(self.asked.finished(self.build(plan)[0]), self.machine)

    def ranked(self) -> Sequence[RankedPlan]:
        """List plans by the times that plain numbers give, best first."""
        first = self.first()
        axes = [axis for axis in (*self.parsed.axes, *self.asked.conventions.use) if self.mesh.sizes[axis] != 1]
        found = enumerate(islice(self.plans(self.time_costs(first, axes)), MOST), 1)
        listed = PlanList(RankedPlan(rank, plan, partial(self.price, plan), *self.result(plan)) for rank, plan in found)
        if self.asked.conventions.policy in BY_PART:
            return listed
        overlap = self.asked.conventions.overlap is not None or self.asked.conventions.overhead is not None
        exact = sorted(listed, key=lambda each: _merit(each.bound, overlap))
        return [replace(each, rank=rank) for rank, each in enumerate(exact, 1)]

    def time_costs(self, first: Plan, axes: Sequence[str]) -> TimeCosts:
        """Make the costs of the program's choices; ``first`` is any plan, ``axes`` the mesh axes that may be used.

        Under a policy in which bytes depend on all operations together they are left out: what is searched by is then
        less than what a plan takes.
        """
        quiet = self.place._replace(algorithm=replace(self.place.algorithm, compares=False))
        sizes = sizes_of_all(self.parsed.steps, first, self.sizes, quiet)
        return TimeCosts(self.parsed.steps, sizes, quiet, axes, self.may_split, self.spent)

    def spent(self, ops: Sequence[Op]) -> PlanTime:
        """The time of operations that run one after the other, as it adds up to that of a plan."""
        conventions, ops = self.asked.conventions, self.asked.finished(tuple(ops))
        moved = None if conventions.policy in BY_PART else [Work()] * len(ops)
        parts = Case(ops, self.machine, conventions, moved=moved).prices()
        times = sums_by_name(time for part in parts for time in part.times.items())
        op_by_op, upper = sum(part.lower for part in parts), sum(part.upper for part in parts)
        sent = sum(use.amount for part in parts for use in part.uses if use.quantity == "wire")
        more = (conventions.overhead or 0) * sum(op.repeat for op in ops)
        apart = 0.0 if conventions.overlap is None else 1 - conventions.overlap
        return PlanTime(times, op_by_op, upper, sent, more, apart)

    def laid_out(self, plan: Plan, others: Sequence[RankedPlan]) -> LaidOut:
        """Build the operations of a plan; say what was chosen, and what of the mesh is assumed."""
        ops, splits = self.build(plan)
        said = [Assumption("plan", f"every figure is {self.mesh.of_one_chip}")]
        used = {*self.parsed.axes, *self.asked.conventions.use, *self.mesh.single}
        idle = [axis.name for axis in self.mesh if axis.name not in used]
        if idle:
            text = f"nothing is sharded over {in_a_row(idle)}: every chip along it does the same"
            said.append(Assumption("layout", text))
        if self.asked.conventions.uneven == "pad":
            text = "sizes that do not divide are padded: every chip holds the part rounded up"
            said.append(Assumption("layout", text))
        if self.asked.conventions.plan is None and self.asked.plan_of_all is not None:
            each = "at every size; asked alone, each takes its own fastest"
            said.append(Assumption("plan", f"plan: {plan.name}, {each}"))
        elif self.asked.conventions.plan in (None, FEWEST) and others == ():
            fewest = "which sends over the fewest mesh axes, at every size; of plain numbers the fastest is taken"
            said.append(Assumption("plan", f"plan: {plan.name}, {fewest}"))
        else:
            said.append(Assumption("plan", f"plan: {plan.name}"))
        settled = self.settled(plan)
        if settled.steps[-1] is not self.parsed.steps[-1]:
            made = settled.steps[-1].output.written
            said.append(Assumption("layout", f"the layout of the result is not written: the plan leaves it as {made}"))
        if assumes_any_axis_order(self.parsed.steps, plan):
            text = "parts of a dimension over several mesh axes may lie in any order: J_XY is taken as J_YX"
            said.append(Assumption("layout", text))
        expression = self.asked.written_as(settled)
        return LaidOut(self.machine, ops, plan.name, others, (*said, *self.mesh.notes), expression, splits)

    def result(self, plan: Plan) -> tuple[str, str]:
        """The layout that a plan leaves the result in, and its partial sums, where none is written."""
        if self.parsed.steps[-1].laid_out:
            return "", ""
        output = self.settled(plan).steps[-1].output
        return output.dtype + show_axes(output.axes, self.show), show_sums(output.unreduced)

    def settled(self, plan: Plan) -> Program:
        """The program with the layouts that the plan leaves results in, where none is written."""
        steps = []
        for step, choice in zip(self.parsed.steps, plan.choices, strict=True):
            if step.laid_out or choice is None:
                steps.append(step)
                continue
            made = choice.result
            axes = tuple(TensorDim(label, shard) for label, shard in zip(made.labels, made.shards, strict=True))
            written = step.output.dtype + made.text(self.show)
            output = step.output._replace(axes=axes, unreduced=made.unreduced, written=written)
            steps.append(step._replace(output=output, laid_out=True))
        return self.parsed._replace(steps=tuple(steps))


def _merit(found: Bound | None, estimated: bool) -> tuple[Any, ...]:
    if found is None:
        return ()
    first = found.estimate if estimated else found.lower
    return (first, found.op_by_op, found.upper, sum(found.wire.values()))


def _at_axis(parsed: Program, axis: str, message: str, hint: str) -> InputError:
    """Point at the place where a mesh axis is used."""
    word = re.search(rf"_(?:[A-Z]*{re.escape(axis)}|\{{[^}}]*\b{re.escape(axis)}\b)", parsed.text)
    if word is None:
        return HardwareError(message, hint=hint)
    return NotationError(message, text=parsed.text, position=word.end() - len(axis), hint=hint)
