"""Every legal plan of a sharded expression, ranked: what is sent, before or after, and what that costs.

>>> for plan in shard("A[I_X, J] * B[J, K_Y] -> C[I, K_Y]", on="v5e:4x4", I=8192, J=8192, K=8192).plans[:2]:
...     print(plan)
<Plan 1: AllGather_X(C[I_X, K_Y]): 559 µs at best, 1.05 ms at worst>
<Plan 2: slice_{Y,I}(A[I_X, J]); AllGather_X(A[I_XY, J]); ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product, takewhile
from typing import TYPE_CHECKING, Any, overload

from roofline.answers import Fact, expected_facts, machine_asked, on_several, plain_data
from roofline.bounds.api import question
from roofline.bounds.hiding import hiding_in_words
from roofline.bounds.question import AboutQuestion, Question, refuse_idle
from roofline.bounds.sharding_plans import SHOWN_PLANS, RankedPlan, ranked
from roofline.errors import InputError, RooflineError
from roofline.formulas.printers import text
from roofline.frozen import dataclass, replace
from roofline.hardware.axes import MeshAxis
from roofline.hardware.machine import Machine
from roofline.notation import canonical
from roofline.notation.canonical import laid_out
from roofline.notation.scope import is_unnamed
from roofline.quantity import format_amount
from roofline.sections import (
    BLANK,
    Amount,
    Cell,
    Column,
    Headline,
    Row,
    Section,
    Sentences,
    Table,
    assumes,
    figures,
    incomplete,
)
from roofline.signatures import either, spelled, takes
from roofline.sizes import is_array, is_number, is_symbol
from roofline.statements import Assumption, assume

if TYPE_CHECKING:
    from roofline.bounds.comparison import SideBySide

#: Columns that a narrow terminal leaves out, the highest first.
_SPARE = {"needs": 3, "none does": 2, "sent": 1}

#: What stands for a figure of a plan that is listed without a price.
NOT_PRICED = "not worked out"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShardPlans(AboutQuestion):
    """Every legal plan of a sharded program, best first: the answer of :func:`shard`."""

    question: Question
    plans: Sequence[RankedPlan]

    @property
    def best(self) -> RankedPlan:
        """The first plan."""
        return self.plans[0]

    @property
    def as_good(self) -> tuple[RankedPlan, ...]:
        """The plans from the best on that take as long, with the sizes as plain numbers.

        >>> found = shard("A[I, J] * B[J, K]", on="v4:2x2x1", algorithm="book", I=4096, J=4096, K=4096)
        >>> found.best.name, len(found.as_good) > 1
        ('slice_{X,I}(A[I, J]); slice_{Y,K}(B[J, K])', True)
        """
        least = None if self.best.bound is None else self.best.bound.lower
        if least is None or is_symbol(least) or is_array(least):
            return (self.best,)

        def equal(plan: RankedPlan) -> bool:
            return plan.bound is not None and plan.bound.lower <= least * (1 + 1e-9)

        return tuple(takewhile(equal, self.plans))

    def __len__(self) -> int:
        return len(self.plans)

    def __iter__(self) -> Iterator[RankedPlan]:
        return iter(self.plans)

    def __getitem__(self, index: int) -> RankedPlan:
        return self.plans[index]

    @property
    def machine(self) -> Machine:
        """The machine, without a mesh that the question gives it."""
        return self.question.machine

    @property
    def incomplete(self) -> Sequence[str]:
        """What of the best plan could not be timed."""
        return () if self.best.bound is None else self.best.bound.incomplete

    def facts(self) -> Iterator[Fact]:
        """The time of the best plan, which it is, what it sends; the next that takes longer."""
        best = self.best
        if best.bound is None or not is_number(best.bound.lower):
            yield Fact("at best", None if best.bound is None else best.bound.lower, "s", "less", timed=True)
            return
        yield Fact("at best", best.bound.lower, "s", "less", timed=True)
        yield Fact("at worst", best.bound.upper, "s", "less", timed=True)
        yield from expected_facts("expected", best.bound.estimate, best.bound.expectation)
        yield Fact("best plan", _named(best))
        for name in ("math", "comms"):
            yield Fact(name, getattr(best, name), "s", "less", timed=True)
        wire = best.bound.wire
        for link, amount in wire.items():
            yield Fact(f"{link if len(wire) > 1 else 'each link'} carries", amount, "B")
        yield Fact("needs", best.memory, "B", "less")
        slower = next(iter(self.plans[len(self.as_good) :][:1]), None)
        if slower is not None and slower.bound is not None:
            yield Fact("next plan", _named(slower))
            yield Fact("next plan at best", slower.bound.lower, "s", "less", timed=True)

    def assumed(self) -> Sequence[str]:
        """What all plans assume, and the shape of the mesh."""
        best, mesh = self.best, self.question.on_mesh().mesh
        bound = best.bound
        said = [] if bound is None else [e for e in assume("plan", bound.assumptions) if e.kind != "collective"]
        whole = Assumption("layout", "no tensor of the line is sharded: every chip starts with all, and plans slice it")
        said = [whole if each.kind == "alike" else each for each in said]
        if best.layout:
            alike = "each mesh axis splits one dimension, in all tensors that have it and in the result"
            said = [*said, Assumption("layout", f"{alike}, or holds copies")]
        return [*said, *(() if mesh is None else mesh.notes)]

    def needed(self) -> Any:
        """The memory that the best plan needs."""
        return None if self.best.bound is None else self.best.bound.needed()

    def to_dict(self) -> dict[str, Any]:
        """The plans under stable keys (schema ``roofline/plans/1``)."""
        return {
            "schema": "roofline/plans/1",
            "expression": self.question.expression,
            **machine_asked(self.question.machine),
            "mesh": {axis.name: plain_data(axis.size) for axis in self._axes()},
            "links": {axis.name: [f"{each.link} {each.shape}" for each in axis.segments] for axis in self._axes()},
            "tensors": list(self._tensors()),
            "plans": [plan.to_dict() for plan in self.plans],
        }

    def _axes(self) -> tuple[MeshAxis, ...]:
        mesh = self.question.on_mesh().mesh
        return () if mesh is None else mesh.axes

    def _tensors(self) -> Iterator[dict[str, Any]]:
        """Each tensor with its dimensions, their sizes, and the mesh axes that each is sharded over."""
        asked = self.question.parsed
        sizes = {**asked.sizes, **self.question.sizes}
        shapes = (shape for step in asked.steps for shape in (*step.inputs, step.output))
        for name, shape in {shape.ident: shape for shape in shapes}.items():
            each = ((dim.label, plain_data(sizes.get(dim.label)), list(dim.shard)) for dim in shape.axes)
            dims = [{"label": label, "size": size, "over": over} for label, size, over in each]
            yield {"name": name, "dtype": shape.dtype, "source": shape.source, "dims": dims}

    def sections(self) -> Iterator[Section]:
        """Every plan with T_math, T_comms, the bounds, the bytes it sends and those one chip needs; what was assumed.

        Where no layout of the result is written, plans end in several, and each says in which.
        """
        bound = self.best.bound
        formulas = bound is not None and is_symbol(bound.lower)
        arrays = bound is not None and is_array(bound.lower)
        estimated = bound is not None and bound.estimate is not None
        subject = self.question.expression
        open_end = self.best.result
        if open_end:
            last = self.question.parsed.steps[-1]
            subject = subject.removesuffix(f" -> {last.output.dtype}")
        yield from (Headline(subject, f"on {self.question.machine.name}"), BLANK)
        if open_end:
            whole, _, partial = open_end.partition(" {")
            sums = f", the first in partial sums {{{partial} that are not added up" if partial else ""
            ends = f"plans end in several layouts{sums}, as none of the result is written; with one, all end alike"
            yield from (Sentences([f"{ends}: -> {whole}"]), BLANK)
        if said := list(hiding_in_words(self.question, self.best)):
            yield from (Sentences(said), BLANK)
        if formulas:
            columns = tuple(Column(name, wrap="words") for name in ("sent, bytes", "math, s"))
        elif arrays:
            columns = figures("comms", "all overlaps")
        else:
            names = ("math", "comms", "all overlaps", *["estimate"] * estimated, "none does", "sent", "needs")
            columns = tuple(Column(name, "right", spare=_SPARE.get(name, 0)) for name in names)
        one_more = len(self) == SHOWN_PLANS + 1 and not (formulas or arrays)  # its row is as short as saying so
        shown = self.plans[: SHOWN_PLANS + one_more]
        cells = _formulas if formulas else _ranges if arrays else _figures

        def rows(plans: Sequence[RankedPlan]) -> list[Row]:
            laid = [(plan.layout,) if plan.layout else () for plan in plans]
            return [
                Row((Amount(plan.rank, "", f"{plan.rank}."), *way, _in_words(plan), *cells(plan)))
                for plan, way in zip(plans, laid, strict=True)
            ]

        layout = (Column("layout"),) if self.best.layout else ()
        head = (Column(align="right", meaning="rank"), *layout, Column("plan", wrap="anywhere"))
        yield Table((*head, *columns), rows(shown), "plans", every=lambda: rows(self.plans))
        rest = len(self) - len(shown)
        if rest > 0:
            figures_too = "; with a number for every size they have figures too" if formulas or arrays else ""
            yield Sentences([f"{rest} more; {either('--json', 'to_dict()')} lists them all{figures_too}"], "quiet")
        if formulas or arrays:
            yield Sentences(["sizes are open or arrays: the plans that send over the fewest mesh axes first"], "quiet")
        if bound is not None:
            yield from (BLANK, assumes(self.assumed()), incomplete(self.incomplete))

    def one_line(self) -> str:
        """How many plans there are, and the best."""
        return f"{len(self)} plans; best: {self.best!r}"


def _in_words(plan: RankedPlan) -> str:
    """A plan's collectives and slices, of several collectives each with its time; the layout that it ends in."""
    parts = () if plan.bound is None else plan.bound.ops
    times = {part.op.name: part.lower for part in parts if part.op.kind == "collective"}
    timed = len(times) > 1 and not any(is_symbol(time) or is_array(time) for time in times.values())
    took = {word: f" {format_amount(time, 's')}" for word, time in times.items()} if timed else {}
    words = [f"{word}{took.get(word, '')}" for word in plan.plan.words]
    return _whole_name(plan, "; ".join(words) or "no communication")


def _whole_name(plan: RankedPlan, name: str) -> str:
    """What a plan is called, with the layout that it ends in where none is written."""
    return f"{name} -> {plan.result}" if plan.result else name


def _named(plan: RankedPlan) -> str:
    """What a plan is called, with the layout of the line too where every layout is asked."""
    return f"{plan.layout}: {plan.name}" if plan.layout else _whole_name(plan, plan.name)


def _figures(plan: RankedPlan) -> list[Cell]:
    bound = plan.bound
    if bound is None:
        return []
    estimate = [] if bound.estimate is None else [bound.estimate]
    times = [Amount(time, "s") for time in (plan.math, plan.comms, bound.lower, *estimate, bound.upper)]
    return [*times, Amount(plan.link_bytes, "B"), "" if plan.memory is None else Amount(plan.memory, "B")]


def _formulas(plan: RankedPlan) -> list[Cell]:
    """Bytes and time as formulas in words, as a closed form shows them."""
    return [NOT_PRICED if form is None else text(form, "words") for form in (plan.link_bytes, plan.math)]


def _ranges(plan: RankedPlan) -> list[Cell]:
    return [NOT_PRICED] * 2 if plan.bound is None else [Amount(plan.comms, "s"), Amount(plan.bound.lower, "s")]


@overload
def shard(expression: str, *, on: list[Any] | tuple[Any, ...], **arguments: Any) -> SideBySide: ...
@overload
def shard(expression: str, **arguments: Any) -> ShardPlans: ...
@on_several
@takes(question, but=("plan", "flops", "bytes", "intensity", "dtype"))
def shard(expression: str, *, layouts: bool = False, **arguments: Any) -> ShardPlans | SideBySide:
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

    The best plans of several machines stand side by side:

    >>> both = shard("A[I_X, J] * B[J_X, K] -> C[I_X, K]", on="h100:8,v5e:8", I=8192, J=8192, K=8192)
    >>> [fact.value for fact in both.facts["best plan"]]
    ['AllGather_X(B[J_X, K])', 'AllGather_X(B[J_X, K])']

    With ``layouts`` a line that shards nothing is asked in every layout: each mesh axis splits one dimension, in all
    tensors that have it and in the result, or holds copies. The best plan of each is listed, the fastest first:

    >>> for plan in shard("A[B, D] * W[D, F] -> C[B, F]", on="v5e:8", layouts=True, B=512, D=8192, F=32768):
    ...     print(plan)
    <Plan 1: F_X: no communication: 174 µs at best, 272 µs at worst>
    <Plan 2: B_X: AllGather_X(A[B_X, D]); slice_{X,F}(W[D, F]); AllToAll_{X,B}(C[B, F_X]): 350 µs at best, ...
    <Plan 3: D_X: AllReduce_X(C[B, F] {U_X}): 746 µs at best, 1.13 ms at worst>
    """
    asked = question(expression, **arguments)
    if asked.conventions.plan is not None:
        raise InputError("shard lists every plan, and one is asked for", hint="ask bound for the answer by one plan")
    if layouts:
        return _in_every_layout(asked)
    if not asked.is_sharded:
        mesh = asked.on_mesh().mesh
        asked = asked.vary(use=tuple(mesh.sizes) if mesh is not None else ())
    refuse_idle(asked)
    found = ShardPlans(asked, ranked(asked))
    _ = found.best  # what is wrong with the question is said here, not where the answer is shown
    return found


#: Layouts of a line that are asked one by one.
MOST_LAYOUTS = 64


def _in_every_layout(asked: Question) -> ShardPlans:
    """The best plan in each layout of a line that shards nothing, the fastest first."""
    mesh, line = asked.on_mesh().mesh, asked.parsed
    if asked.conventions.use:
        hint = f"leave {spelled('use')} out"
        raise InputError(f"every layout is asked, and {spelled('use')} is of axes that a layout leaves over", hint=hint)
    if asked.is_sharded or mesh is None:
        wrong = "the line has a layout of its own" if asked.is_sharded else "there are no chips to lay a line out on"
        hint = f"leave its mesh axes or {spelled('layouts')} out" if asked.is_sharded else "as in v5e:8 or mesh X=8"
        raise InputError(f"every layout is asked, and {wrong}", hint=hint)
    inputs = [shape for step in line.steps for shape in step.inputs]
    labels = dict.fromkeys(label for shape in inputs for label in shape.labels if not is_unnamed(label))
    ways = list(product((*labels, None), repeat=len(mesh.axes)))[:-1]
    if len(ways) > MOST_LAYOUTS:
        said = f"{len(labels)} dimensions over {len(mesh.axes)} mesh axes have {len(ways)} layouts"
        raise InputError(said, hint=f"at most {MOST_LAYOUTS}: fewer mesh axes, or numbers for sizes that are not split")
    layouts: dict[str, Question] = {}
    for way in ways:
        over = {label: tuple(a.name for a, one in zip(mesh.axes, way, strict=True) if one == label) for label in labels}
        name = ", ".join(f"{label}_{''.join(axes)}" for label, axes in over.items() if axes)
        layouts[name] = asked.vary(text=canonical(laid_out(line, over)))
    refuse_idle(*layouts.values())
    found: list[tuple[float, float, RankedPlan]] = []
    wrong_way: RooflineError | None = None
    for name, laid in layouts.items():
        try:
            best = ranked(laid)[0]
            times = (None, None) if best.bound is None else (best.bound.lower, best.bound.upper)
        except RooflineError as error:  # sizes that chips do not divide, a dimension that cannot be split
            wrong_way = wrong_way or error
            continue
        if not all(map(is_number, times)):
            raise InputError("layouts are compared at numbers", hint="give every size one value")
        found.append((*times, replace(best, layout=name)))
    if not found:
        raise wrong_way or InputError("the line has no dimension to split", hint="name its sizes: A[B, D]")
    found.sort(key=lambda each: each[:2])
    return ShardPlans(asked, [replace(plan, rank=rank) for rank, (*_, plan) in enumerate(found, 1)])
