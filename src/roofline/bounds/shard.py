"""Every legal plan of a sharded expression, ranked: what is sent, before or after, and what that costs.

>>> for plan in shard("A[I_X, J] * B[J, K_Y] -> C[I, K_Y]", on="v5e:4x4", I=8192, J=8192, K=8192).plans[:2]:
...     print(plan)
<Plan 1: AllGather_X(C[I_X, K_Y]): 559 µs at best, 1.05 ms at worst>
<Plan 2: slice_{Y,I}(A[I_X, J]); AllGather_X(A[I_XY, J]); ...

What one chip holds of a sharded tensor: its local shape, bytes on each chip and in all, how often it is copied.

>>> found = layout("int8[I_XY, J]", mesh={"X": 2, "Y": 8, "Z": 2}, I=128, J=2048)
>>> found
<Layout: int8[I_XY, J] is int8[8, 2048] on each of 32 chips, 16.4 kB; 262 kB in all, 2 copies>
>>> found.local, found.bytes, found.global_bytes, found.total_bytes, found.copies
((8, 2048), 16384, 262144, 524288, 2)
>>> layout("bf16[B_X, D]", on="v5e:4x4", B=10, D=8, uneven="pad").padding
2
>>> layout("bf16[B_X, D]", mesh={"X": "n"}).bytes
2*B*D/n

Partial sums ``{U_X}`` are held whole by every chip along X: that is no copy, but one of the parts of the sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from roofline import dtypes
from roofline.answers import Comparable, Fact, attributes, expected_facts, machine_asked, on_several, plain_data
from roofline.bounds.api import question, refuse_model, target
from roofline.bounds.conventions import named_axes
from roofline.bounds.question import AboutQuestion, Question, axis_size, refuse_idle, resolve_sizes
from roofline.bounds.scaling import hiding_in_words
from roofline.bounds.sharding_plans import SHOWN_PLANS, RankedPlan, ranked
from roofline.counts import typed_sizes
from roofline.errors import InputError, NotationError, RooflineError, SizeError, suggest
from roofline.formulas.printers import text
from roofline.frozen import dataclass, replace
from roofline.hardware.machine import Machine, MeshAxis
from roofline.hardware.mesh import shape_axes, with_mesh
from roofline.notation import canonical, parse
from roofline.notation.canonical import laid_out
from roofline.notation.scope import DEFAULT_DTYPE, is_unnamed
from roofline.notation.structure import MemoryLayout, TensorNode, tiled_elements
from roofline.ops import formula_names
from roofline.ops.sharding.layout import Layout, axis_hint, check_uneven, local_size
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
    named,
    word_pairs,
)
from roofline.signatures import call, either, spelled, takes
from roofline.sizes import Size, check, is_array, is_number, is_one, is_symbol, product, symbol
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

        return tuple(itertools.takewhile(equal, self.plans))

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
        best = self.best
        lower = None if best.bound is None else best.bound.lower
        yield Fact("at best", lower, "s", "less", timed=True, kind="floor")
        if best.bound is None or not is_number(lower):
            return
        yield Fact("at worst", best.bound.upper, "s", "less", timed=True, form="upper")
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
            yield Fact("next plan at best", slower.bound.lower, "s", "less", timed=True, kind="floor")

    def assumed(self) -> Sequence[str]:
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
        subject, ended = self.question.expression, list[Section]()
        if self.best.result:
            last = self.question.parsed.steps[-1]
            subject = subject.removesuffix(f" -> {last.output.dtype}")
            sums = f", the first in partial sums {self.best.sums} that are not added up" if self.best.sums else ""
            ends = f"plans end in several layouts{sums}, as none of the result is written; with one, all end alike"
            ended = [Sentences([f"{ends}: -> {self.best.whole}"]), BLANK]
        yield from (Headline(subject, f"on {self.question.machine.name}"), BLANK, *ended)
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
        return f"{len(self)} plans; best: {self.best!r}"


def _in_words(plan: RankedPlan) -> str:
    """A plan's collectives and slices, of several collectives each with its time; the layout that it ends in."""
    parts = () if plan.bound is None else plan.bound.ops
    times = [(part.op.name, part.lower) for part in parts if part.op.kind == "collective"]  # two may have one name
    timed = len(times) > 1 and not any(is_symbol(time) or is_array(time) for _, time in times)
    took = {word: f" {format_amount(time, 's')}" for word, time in times} if timed else {}
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
    ways = list(itertools.product((*labels, None), repeat=len(mesh.axes)))[:-1]
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TensorLayout(Comparable):
    """A tensor laid out on a mesh.

    Attributes
        ``dims``, ``local``   sizes of the whole tensor and of one chip's part
        ``elements``          of one chip's part; ``global_elements`` of the tensor, ``tiled_elements`` in memory
        ``bytes``             bytes that one chip holds, padding included
        ``global_bytes``      bytes of the tensor itself; ``total_bytes`` of what all chips hold together
        ``copies``            how many chips hold the same part
        ``partial``           how many partial sums there are of every element (1 where it is no partial sum)
        ``padding``           elements of padding in each direction, added up over the dimensions
        ``used``              share of the elements in memory that are no padding of tiles
        ``space``             memory that a layout of XLA names: ``HBM``, ``VMEM``; None where it names none
        ``mesh``              sizes of the mesh axes by name
    """

    text: str
    dtype: str
    layout: Layout
    dims: tuple[Size, ...]
    local: tuple[Size, ...]
    mesh: Mapping[str, Size]
    assumptions: tuple[str, ...] = ()
    memory: MemoryLayout | None = None

    @property
    def elements(self) -> Size:
        """Elements of one chip's part, without the padding of tiles."""
        return product(self.local)

    @property
    def global_elements(self) -> Size:
        """Elements of the whole tensor, once and without padding."""
        return product(self.dims)

    @property
    def tiled_elements(self) -> Size:
        """Elements that one chip's part takes in memory, with the padding of XLA's tiles."""
        return tiled_elements(self.local, self.memory)

    @property
    def used(self) -> Size:
        """Share of the elements in memory that are no padding of XLA's tiles.

        >>> layout("bf16[100,300]{1,0:T(128,128)}").used
        0.6103515625
        """
        return self.elements / self.tiled_elements

    @property
    def space(self) -> str | None:
        """Memory that the layout names; None where it names none."""
        return None if self.memory is None or self.memory.space is None else _SPACES.get(self.memory.space)

    @property
    def target(self) -> str:
        """The tensor, which is what layouts differ in."""
        return self.text

    @property
    def is_floor(self) -> bool:
        return False

    def facts(self) -> Iterator[Fact]:
        yield Fact("bytes on each chip", self.bytes, "B", "less")
        yield Fact("bytes of the tensor", self.global_bytes, "B")
        yield Fact("bytes in all", self.total_bytes, "B", "less")
        yield from (Fact("copies", self.copies), Fact("elements on each chip", self.elements))

    @property
    def bytes(self) -> Size:
        """Bytes one chip holds, with the padding of XLA's tiles."""
        return dtypes.get(self.dtype).nbytes(self.tiled_elements)

    @property
    def global_bytes(self) -> Size:
        """Bytes of the whole tensor, once and without padding."""
        return dtypes.get(self.dtype).nbytes(self.global_elements)

    @property
    def chips(self) -> Size:
        """Chips in the mesh."""
        return product(self.mesh.values())

    @property
    def total_bytes(self) -> Size:
        """Bytes all chips hold together."""
        return self.bytes * self.chips

    @property
    def copies(self) -> Size:
        """How many chips hold the same part."""
        return product(size for axis, size in self.mesh.items() if self.layout.state(axis) is None)

    @property
    def partial(self) -> Size:
        """How many partial sums there are of every element."""
        return product(self.mesh[axis] for axis in self.layout.unreduced)

    @property
    def padding(self) -> Size:
        """Elements of padding, added over the dimensions; each is padded to a multiple of its axes."""
        parts = zip(self.dims, self.local, self.layout.shards, strict=True)
        return sum(here * product(self.mesh[axis] for axis in shard) - size for size, here, shard in parts)

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/layout/1``); formulas as text."""
        return {
            "schema": "roofline/layout/1",
            "tensor": self.text,
            **attributes(self, "dtype", "mesh", "dims", "local", "chips", "bytes", "global_bytes", "total_bytes"),
            **attributes(self, "elements", "global_elements", "tiled_elements", "copies", "partial", "padding"),
            **attributes(self, "used", "space", "assumptions"),
        }

    def sections(self) -> tuple[Section, ...]:
        local = ", ".join(map(_count, self.local))
        here = f"{self.dtype}[{local}], {format_amount(self.bytes, 'B')}, {_amount(self.elements)} elements"
        whole = f"{format_amount(self.global_bytes, 'B')}, {_amount(self.global_elements)} elements"
        lines = [
            ("each chip", here),
            ("the tensor", f"{whole}, over {_count(self.chips)} {'chip' if is_one(self.chips) else 'chips'}"),
            ("in all", f"{format_amount(self.total_bytes, 'B')}: {_times(self.copies)}"),
        ]
        if self.memory is not None and self.memory.tiles:
            said = f"{_amount(self.tiled_elements)} elements on each chip with the padding of tiles"
            used = f"{100 * self.used:.4g}%" if isinstance(self.used, float) else _count(self.used)
            lines.insert(1, ("in memory", f"{said}, {used} of them used"))
        if self.layout.unreduced:
            over = ", ".join(self.layout.unreduced)
            lines.append(("partial sums", f"{_count(self.partial)} of every element, over {over}"))
        mesh = ",".join(f"{axis}={'[…]' if is_array(size) else size}" for axis, size in self.mesh.items())
        where = f"mesh {mesh}" if mesh else "one chip"
        return word_pairs(self.text, where, [*lines, *named("assumes", self.assumptions)])

    def one_line(self) -> str:
        local = ", ".join(map(_count, self.local))
        here = f"{self.dtype}[{local}] on each of {_count(self.chips)} chips, {format_amount(self.bytes, 'B')}"
        return f"Layout: {self.text} is {here}; {format_amount(self.global_bytes, 'B')} in all, {_times(self.copies)}"


#: Memories by their number in a layout of XLA.
_SPACES = {0: "HBM", 1: "VMEM"}


def _memory(node: TensorNode) -> tuple[str, ...]:
    """Say which memory a layout of XLA puts the tensor in."""
    if node.layout is None or node.layout.space is None:
        return ()
    where = _SPACES.get(node.layout.space, "a memory that is not known here")
    return (f"lies in {where} (S({node.layout.space})); S(0) or none is HBM",)


@takes()
def layout(
    tensor: str,
    *,
    mesh: Mapping[str, Any] | None = None,
    on: Any = None,
    uneven: str = "error",
    local: bool = False,
    sizes: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
    **named: Any,
) -> TensorLayout:
    """Lay out one tensor on a mesh.

    ``mesh`` gives the size of each axis: a number, an array, or a formula of sizes; ``on`` takes the axes of a target's
    shape instead. Sizes are numbers or arrays; those left out are symbols, and are taken to divide. A size that its
    axes do not divide is an error; with ``uneven="pad"`` every chip holds the part rounded up. ``local`` says that the
    sizes are those of one chip's part, as a profile shows them:

    >>> layout("bf16[4096_X, 8192]", mesh={"X": 8}, local=True).dims
    (32768, 8192)

    >>> layout("bf16[B_X, D]", mesh={"X": 4}, B=10, D=8)
    Traceback (most recent call last):
    roofline.errors.SizeError: size B of 10 does not divide over 4 chips; ...
    >>> layout("bf16[B_Z, D]", on="v5e:4x4")
    Traceback (most recent call last):
    roofline.errors.NotationError: mesh axis Z is not declared; the axes are: X, Y; declare it, as in mesh={'Z': 4}
      bf16[B_Z, D]
           ^
    """
    check_uneven(uneven)
    refuse_model(tensor, "one tensor", f"what each chip holds of it: {call('llm', tensor, on='h100:8', tensor=8)}")
    node, shape = _tensor(tensor), named_axes(mesh)
    twice = sorted({*(sizes or {})} & {*named})
    if twice:
        raise InputError(f"size {twice[0]} is given twice", hint="give it once")
    given = resolve_sizes(typed_sizes({**(sizes or {}), **named}))
    axes, notes = _axes(node, tensor, shape, on, files, given)
    labels = [dim.name for dim in node.dims or () if dim.name]
    beside = {*axes, *(name for size in shape.values() if isinstance(size, str) for name in formula_names(size))}
    unknown = next((name for name in given if name not in labels and name not in beside), None)
    if unknown is not None:
        raise SizeError(f"size {unknown} stands nowhere in the tensor", hint=suggest(unknown, labels, what="sizes"))
    known = {name: check(name, given[name]) if name in given else symbol(name) for name in labels}
    given_dims = node.dims or ()
    names = tuple(dim.name or f"#{i}" for i, dim in enumerate(given_dims))
    where = Layout(names, tuple(dim.axes for dim in given_dims), node.unreduced)
    dims = tuple(known[dim.name] if dim.name else dim.size for dim in given_dims)
    ways = [product(axes[axis] for axis in dim.axes) for dim in given_dims]
    if local:
        dims = tuple(size * way for size, way in zip(dims, ways, strict=True))
    parts = tuple(
        local_size(size, way, label=dim.name or "", uneven=uneven)
        for size, way, dim in zip(dims, ways, given_dims, strict=True)
    )
    dtype = dtypes.get(node.dtype or DEFAULT_DTYPE).name
    said = [] if node.dtype else [f"default dtype {DEFAULT_DTYPE}"]
    text, assumed = tensor.strip(), (*said, *_memory(node), *notes)
    found = TensorLayout(text, dtype, where, dims, parts, axes, assumed, node.layout)
    if uneven == "pad" and not is_array(found.padding) and found.padding != 0:
        return replace(found, assumptions=(*assumed, f"padded to a multiple of the axes: {found.padding} more in all"))
    return found


def _tensor(text: str) -> TensorNode:
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{text!r} is no tensor", hint="as in layout('bf16[B_X, D]', mesh={'X': 4})")
    parsed = parse(text)
    node = parsed.statements[0].value
    if len(parsed.statements) > 1 or not isinstance(node, TensorNode) or parsed.statements[0].output or not node.dims:
        hint = "as in bf16[B_X, D]; 'roofline shard' lays out whole expressions"
        raise NotationError("a layout is that of one tensor with its dimensions", text=text, hint=hint)
    return node


def _axes(
    node: TensorNode, text: str, mesh: dict[str, Any], on: Any, files: Sequence[str], sizes: Mapping[str, Any]
) -> tuple[dict[str, Size], tuple[str, ...]]:
    """Sizes of the mesh axes, from the caller or from the target's shape."""
    axes = {axis: axis_size(size, sizes) for axis, size in mesh.items()}
    notes: tuple[str, ...] = ()
    if on is not None:
        machine = target(on, files=files)
        if mesh and machine.links:
            machine = with_mesh(machine, axes)
        if machine.mesh is not None:
            axes, notes = dict(machine.mesh.sizes), machine.mesh.notes
        else:
            axes = axes or shape_axes(machine)
    axes = {axis: check(axis, size) for axis, size in axes.items()}
    for dim in node.dims or ():
        for axis in dim.axes:
            _declared(axis, axes, text, dim.span.start + len(dim.name or str(dim.size)) + 1)
    for axis in node.unreduced:
        _declared(axis, axes, text, text.find("{"))
    return axes, notes


def _declared(axis: str, axes: Mapping[str, Size], text: str, position: int) -> None:
    if axis not in axes:
        known = f"the axes are: {', '.join(axes)}" if axes else "there are none"
        message = f"mesh axis {axis} is not declared; {known}"
        raise NotationError(message, text=text, position=position, hint=axis_hint(axis))


def _times(copies: Size) -> str:
    return "1 copy" if is_one(copies) else f"{_count(copies)} copies"


def _count(size: Size) -> str:
    """A number as it stands, an array as its range."""
    if not is_array(size):
        return str(size)
    return " … ".join(dict.fromkeys(f"{end:.12g}" for end in (float(size.min()), float(size.max()))))


def _amount(size: Size) -> str:
    """A number with separators, an array or a formula as it stands."""
    return f"{size:,}" if isinstance(size, int) else _count(size)
