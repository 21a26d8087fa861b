"""A plan and sizes → operations with local sizes, and the collectives between them.

>>> from roofline.hardware import chip
>>> from roofline.notation import program
>>> from roofline.ops.sharding.plans import plans
>>> line = program("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]")
>>> place = MeshPlacement(chip("v5e:2").mesh)
>>> matmul, reduced = operations(line.steps, next(plans(line.steps)), {"B": 64, "D": 1024, "F": 4096}, place)
>>> matmul.dims, reduced.work
({'m': 64, 'n': 4096, 'k': 512, 'batch': 1}, Work(wire/X: 524288, hops/X: 1))

Every operation is built by its own rule from the sizes one chip has; nothing is scaled afterwards.

A search over plans needs the time of every choice, and prices each part of a choice once. A choice is an operation on
its local sizes and the moves of its operands and of its result. Their times do not depend on the rest of the plan, so
the search adds up prices and builds no plan.

>>> one, other = PlanTime({"mxu": 3e-6}, 3e-6, 3e-6), PlanTime({"ici X": 2e-6}, 2e-6, 2e-6, 512)
>>> one.plus(other).merit
(3e-06, 5e-06, 5e-06, 512.0, 0, 0, 0)
>>> one.never_worse(other), PlanTime({"mxu": 1e-6}, 1e-6, 1e-6).never_worse(one)
(False, True)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, le
from typing import Any

from roofline import dtypes
from roofline.frozen import NamedTuple, replace
from roofline.hardware.machine import Mesh
from roofline.notation.scope import is_unnamed
from roofline.notation.structure import Shape, Step
from roofline.ops.collectives.choice import Chooser
from roofline.ops.collectives.cost import collective
from roofline.ops.collectives.routing import Density
from roofline.ops.rules import Context, family_of, leaving, rule_for
from roofline.ops.sharding import plans
from roofline.ops.sharding.layout import (
    STATISTICS,
    Layout,
    Move,
    Windows,
    layout_of,
    local_size,
    loops_of,
    split_images,
    windows_along,
)
from roofline.ops.sharding.plans import Choice, MaySplit, Plan, Score, key_of
from roofline.quantity import in_a_row
from roofline.sizes import (
    Size,
    ceil_div,
    exact_div,
    is_array,
    is_number,
    is_one,
    is_symbol,
    minimum,
    product,
    sums_by_name,
)
from roofline.work import Op, Tensor, Work


class MeshPlacement(NamedTuple):
    """The mesh that operations run on, and how they are counted: algorithms of collectives, sizes that do not divide.

    ``density`` is the share of an AllToAll that is sent, or the routing of its rows.
    """

    mesh: Mesh
    algorithm: Chooser = Chooser()
    uneven: str = "error"
    exact: bool = False
    count_padding: bool = True
    compute: str | None = None
    density: Density = 1


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """A tensor as one chip holds it: the name of the array in memory, the layout that is used, the layout in memory."""

    name: str
    layout: Layout
    whole: Layout


class OpenSplit(NamedTuple):
    """What must hold of open sizes for a plan to run: ``size`` is a multiple of ``of``; ``reason`` is why not."""

    size: Size
    of: Size
    reason: str


def operations(steps: Sequence[Step], plan: Plan, sizes: Mapping[str, Size], place: MeshPlacement) -> tuple[Op, ...]:
    """Build the operations of a plan on one chip, in order; ``sizes`` are those of the whole tensors, by label."""
    return operations_and_splits(steps, plan, sizes, place)[0]


def operations_and_splits(
    steps: Sequence[Step], plan: Plan, sizes: Mapping[str, Size], place: MeshPlacement
) -> tuple[tuple[Op, ...], tuple[OpenSplit, ...]]:
    """Build the operations of a plan, and list the open sizes that numbers of chips have to divide.

    >>> from roofline.hardware import chip
    >>> from roofline.notation import program
    >>> from roofline.ops.sharding.plans import plans
    >>> from roofline.sizes import symbol
    >>> line, place = program("bf16[B, D_X] * bf16[D_X, F]"), MeshPlacement(chip("v5e:2").mesh)
    >>> sizes = {name: symbol(name) for name in line.labels}
    >>> [split.reason for split in operations_and_splits(line.steps, next(plans(line.steps)), sizes, place)[1]]
    ['D is no multiple of the 2 chips that it is split over']
    """
    build = _Build(place, dict(sizes))
    build.all(steps, plan)
    return leaving(build.ops, build.results), tuple(build.splits.values())


def moves_alone(
    x: Shape, layout: Layout, moves: Sequence[Move], sizes: Mapping[str, Size], place: MeshPlacement
) -> list[Op]:
    """Build the collectives that moving one tensor takes."""
    build = _Build(place, dict(sizes))
    build.move(x, HeldTensor(x.ident, layout, layout), moves, f"{x.ident} moved", "activation", plans.word_of(x))
    return build.ops


def sizes_of_all(
    steps: Sequence[Step], plan: Plan, sizes: Mapping[str, Size], place: MeshPlacement
) -> Mapping[str, Size]:
    """Sizes of every label, with those that follow from an operation."""
    if all(label in sizes for step in steps for label in step.output.labels):
        return sizes
    build = _Build(place, dict(sizes))
    build.all(steps, plan)
    return build.sizes


@dataclass(slots=True)
class _Build:
    place: MeshPlacement
    sizes: dict[str, Size]
    ops: list[Op] = field(default_factory=list)
    held: dict[tuple[str, object], HeldTensor] = field(default_factory=dict)
    splits: dict[tuple[Size, Size], OpenSplit] = field(default_factory=dict)
    results: list[str] = field(default_factory=list)

    def all(self, steps: Sequence[Step], plan: Plan) -> None:
        """Do every step."""
        for step, choice in zip(steps, plan.choices, strict=True):
            made = self.written_collective(step) if choice is None else self.step(step, choice)
            if step.leaves:
                self.results.append(made.name)

    def step(self, step: Step, choice: Choice) -> HeldTensor:
        """Move the operands, do the operation, move the result."""
        held = [self.find(x, layout) for x, layout in zip(step.inputs, choice.given, strict=True)]
        names = [self.named(h.name, steps) for h, steps in zip(held, choice.before, strict=True)]
        ends = [plans.moved(h.layout, steps) for h, steps in zip(held, choice.before, strict=True)]
        raw_name = self.raw_name(step.output.ident, choice.after)
        inputs = [x._replace(ident=name) for x, name in zip(step.inputs, names, strict=True)]
        inputs, layouts = self.apart(inputs, ends)
        local = step._replace(inputs=tuple(inputs), output=step.output._replace(ident=raw_name))
        context = self.context(layouts, {axis for axis, _ in choice.routed})
        self.parts_split(step, layouts)
        local, sizes = self.windows_of_a_part(local, context.sizes, choice.raw)
        op = rule_for(family_of(step))(local, context._replace(sizes=sizes))
        roles = {tensor.ident: tensor.role for tensor in op.reads}
        parts: dict[str, HeldTensor] = {}
        for x, h, moves, name in zip(step.inputs, held, choice.before, names, strict=True):
            end = self.move(x, h, moves, name, roles.get(name, "activation"), plans.word_of(x))
            self.held[x.ident, key_of(end.layout)] = end
            parts[end.name] = end
        image = parts[names[0]]
        if image.layout != image.whole:  # the rows of others are in memory too
            op = self.with_borders(op, step, image, [x for x in sizes if sizes[x] is context.sizes[x]])
        elif sizes is not context.sizes:  # the rows of others are read as they arrive
            op = replace(op, reads=(replace(op.reads[0], dims=self.dims(layouts[0]), touched=None), *op.reads[1:]))
        borders = []
        for axis, label, at in choice.bordered:
            axes = [each for each, *split in choice.bordered if split == [label, at]]
            borders.append(self.send_borders(step, axis, label, op.reads[at], at, axes))
        op = replace(op, reads=(*op.reads, *filter(None, borders)))
        self.ops += [self.routed(axis, op.reads[1]) for axis, asks in choice.routed if asks]
        self.ops.append(self.whole(self.noted(op, step, choice), parts))
        self.ops += [self.routed(axis, op.writes[0], plans.rows_words(axis)) for axis, _ in choice.routed]
        if choice.exchanged:
            self.exchange(step, choice, op.writes[0], context.groups(step))
        for label, size in zip(step.output.labels, op.writes[0].dims, strict=True):
            self.sizes.setdefault(label, size * choice.raw.ways(label, self.place.mesh.sizes))
        raw = HeldTensor(raw_name, choice.raw, choice.raw)
        word = plans.word_of(step.output)
        end = self.move(step.output, raw, choice.after, step.output.ident, "activation", word)
        self.held[step.output.ident, key_of(choice.result)] = end
        return end

    def parts_split(self, step: Step, ends: Sequence[Layout]) -> None:
        """Note open numbers of groups that chips divide, and of key heads that several chips share."""
        for loop in loops_of(step) if any(end.axes for end in ends) else ():
            ways = ends[0].ways(str(loop.labels[0]), self.place.mesh.sizes)
            for label, fit in loop.sizes:
                size = self.sizes.get(label) if isinstance(label, str) else None
                if fit == "divides" and size is not None:
                    self.must_divide(size, ways, f"{ways} chips do not divide the {size} groups")
                if fit == "multiple" and size is not None and not ends[1].over(str(label)):
                    reason = f"{ways} chips are no multiple of the {size} heads of keys that they share"
                    self.must_divide(ways, size, reason)

    def must_divide(self, size: Size, of: Size, reason: str) -> None:
        """Note that a size is a multiple of another, where one of them is open and neither is 1."""
        if (is_symbol(size) or is_symbol(of)) and not (is_one(size) or is_one(of)):
            self.splits[size, of] = OpenSplit(size, of, reason)

    def taps(self, along: Windows) -> Size:
        """Taps of a window."""
        return self.sizes[along.taps] if isinstance(along.taps, str) else along.taps

    def split_results(self, step: Step, raw: Layout) -> Iterator[tuple[int, Windows, Size, Size, Size]]:
        """Dimensions of an image whose results are split: place, windows, taps, results, over how many chips."""
        if family_of(step) not in ("convolution", "pooling") or step.function == "conv_transpose":
            return
        for at, label in enumerate(raw.labels[1:-1], 1):
            along, ways = windows_along(step, at), raw.ways(label, self.place.mesh.sizes)
            taps = self.taps(along)
            if not is_one(ways) and all(isinstance(size, int) for size in (self.sizes[along.label], taps, ways)):
                yield at, along, taps, along.results(self.sizes[along.label], taps), ways

    def windows_of_a_part(self, step: Step, local: Mapping[str, Size], raw: Layout) -> tuple[Step, Mapping[str, Size]]:
        """The step and its sizes on one chip's part of an image: windows that shrink or grow it reach further."""
        sizes, pads = dict(local), step.options.get("pad", ())
        for at, along, taps, results, ways in self.split_results(step, raw):
            part = ceil_div(results, ways)
            if along.results(sizes[along.label], taps) != part:
                sizes[along.label] = (part - 1) * along.stride + along.extent(taps)
                pads = (*pads[: at - 1], 0, *pads[at:])
        if sizes == local:
            return step, local
        return step._replace(options={**step.options, "pad": pads}), sizes

    def with_borders(self, op: Op, step: Step, image: HeldTensor, kept: Collection[str]) -> Op:
        """The operation on a slice of an image: its windows reach over the borders, of dimensions that they keep."""
        if family_of(step) not in ("convolution", "pooling"):
            return op
        dims = [*op.reads[0].dims]
        for at, label in enumerate(step.inputs[0].labels[1:-1], 1):
            if label in kept and image.layout.over(label) != image.whole.over(label):
                dims[at] = dims[at] + self.reach(windows_along(step, at), self.sizes[label], dims[at])[1]
        return replace(op, reads=(replace(op.reads[0], dims=tuple(dims), touched=None), *op.reads[1:]))

    def exchange(self, step: Step, choice: Choice, result: Tensor, groups: Size) -> None:
        """Exchange the statistics of rows that chips share: of each group of each row of the result on one chip.

        The largest entries go with their places, which are int32; no switch merges them.
        """
        along = step.over if step.function != "attention" else step.output.labels[-1:]
        rows = [n for label, n in zip(step.output.labels, result.dims, strict=True) if label not in along]
        width, dtype = choice.statistics, "fp32"
        if step.function == "topk":
            entry = dtypes.get(step.inputs[0].dtype).bits + dtypes.get("int32").bits
            width, dtype = exact_div(entry, 8), "uint8"
        sent = Tensor(f"statistics of {result.ident}", (*rows, *(() if is_one(groups) else (groups,)), width), dtype)
        over, name = self.place.mesh.select(choice.exchanged), choice.exchange()
        self.ops.append(collective("AllReduce", sent, over, algorithm=self.place.algorithm, name=name))

    def routed(self, axis: str, part: Tensor, name: str = "indices sent to their rows") -> Op:
        """Send indices to the chips that have their rows of a table, or the rows back, as many to each."""
        arrived = replace(part, ident=f"{name} before")
        over = self.place.mesh.select((axis,))
        return collective("AllToAll", arrived, over, out=part, algorithm=self.place.algorithm, name=name)

    def send_borders(
        self, step: Step, axis: str, label: str, part: Tensor, operand: int, axes: Sequence[str]
    ) -> Tensor | None:
        """Send the rows that the windows of neighbours reach, to each its side; the rows of others that arrive.

        A chip behind switches sends both sides over one link; on a torus, over several tiers, and of two chips, one.
        Each goes one hop. The windows of an attention reach back only: there is one side. Of several ``axes`` that
        split one dimension each has the neighbours of one side, all at once.
        """
        at = step.inputs[operand].labels.index(label)
        if family_of(step) == "attention":
            one_side = reach = minimum(step.options["window"] - 1, self.sizes[label] - part.dims[at])
        else:
            one_side, reach = self.reach(windows_along(step, at), self.sizes[label], part.dims[at])
        if is_number(reach) and not reach:
            return None
        both = reach is not one_side and not (is_number(reach) and reach == one_side)
        over = self.place.mesh.select((axis,))
        segments = over[0].segments
        one, behind_switch = len(axes) > 1 or is_one(over[0].size - 1), segments[0].topology == "switch"
        behind_switch = behind_switch and len(segments) == 1
        side, sides = ([*part.dims[:at], rows, *part.dims[at + 1 :]] for rows in (one_side, reach))
        sent = Tensor(f"borders of {part.ident}", tuple(sides if behind_switch and not one else side), part.dtype)
        arrived = replace(sent, ident=f"{axis} borders of {part.ident} of others", dims=tuple(side if one else sides))
        held = replace(part, touched=arrived.elements)
        name = plans.border_words(axis, self.show(label))
        way = "direct" if both and segments[0].topology == "torus" else None  # one side goes round each way of a ring
        made = collective("Permute", sent, over, out=arrived, algorithm=way, name=name)
        near = {key: n if key.quantity != "hops" else minimum(1, n) for key, n in made.work.items()}
        if axis != axes[-1]:
            near = {key: n for key, n in near.items() if key.quantity != "hops"}
        self.ops.append(replace(made, work=Work(near), reads=(held,), options={**made.options, "borders": label}))
        return arrived

    def reach(self, along: Windows, size: Size, part: Size) -> tuple[Size, Size]:
        """Rows that windows reach over the borders of a part, of as many as others have: on one side, and in all.

        All rows of several others come round a ring from both sides.
        """
        taps, others = self.taps(along), size - part
        one_side, reach = along.reach(size, taps, ceil_div(size, part) if isinstance(part, int) else size / part)
        if is_number(reach) and is_number(others) and reach >= others:
            one_side, reach = min(one_side, others if others <= part else ceil_div(others, 2)), others
        return one_side, reach

    def written_collective(self, step: Step) -> HeldTensor:
        """A collective that the program writes."""
        (x,) = step.inputs
        single = self.place.mesh.single
        held = self.find(x, layout_of(x).without(single))
        result = layout_of(step.output).without(single)
        axes = tuple(axis for axis in step.over if axis not in single)
        self.place.mesh.select(step.over)
        name = held.name
        if axes:
            name = step.output.ident
            self.send(step.function, axes, held, HeldTensor(name, result, result), x.dtype, "activation", step.text)
        whole = result if axes else held.whole
        end = self.held[step.output.ident, key_of(result)] = HeldTensor(name, result, whole)
        return end

    def find(self, x: Shape, layout: Layout) -> HeldTensor:
        """The tensor as it is held in this layout; an input is in memory as written."""
        return self.held.setdefault((x.ident, key_of(layout)), HeldTensor(x.ident, layout, layout))

    def move(self, x: Shape, held: HeldTensor, moves: Sequence[Move], final: str, role: str, word: str) -> HeldTensor:
        """Make the moves of one tensor; ``final`` is the name of what the last collective makes."""
        said = plans.describe(word, held.layout, moves, self.show)
        sent = [at for at, move in enumerate(moves) if move.sends]
        for at, move in enumerate(moves):
            layout = move.after(held.layout)
            if not move.sends:
                held = replace(held, layout=layout)
                continue
            name = final if at == sent[-1] else f"{move.name()}({held.name})"
            following = HeldTensor(name, layout, layout)
            self.send(move.kind, move.axes, held, following, x.dtype, role, said[at])
            held = following
        return held

    def send(
        self, kind: str, axes: Sequence[str], held: HeldTensor, out: HeldTensor, dtype: str, role: str, name: str
    ) -> None:
        over = self.place.mesh.select(axes)
        made = collective(
            kind,
            self.tensor(held, dtype, role),
            over,
            out=self.tensor(out, dtype, role),
            sent=Tensor(held.name, self.padded(held.layout, out.layout), dtype) if self.place.uneven == "pad" else None,
            algorithm=self.place.algorithm,
            density=self.place.density,
            name=name,
        )
        chips = made.dims["chips"]
        if is_array(chips):
            made = replace(made, reads=_where_more(made.reads, chips), writes=_where_more(made.writes, chips))
        self.ops.append(made)

    def tensor(self, held: HeldTensor, dtype: str, role: str) -> Tensor:
        """One chip's part; of a slice the whole is in memory and the part is touched."""
        dims = self.dims(held.layout)
        if held.layout == held.whole:
            return Tensor(held.name, dims, dtype, role, label=held.layout.text(self.show))
        return Tensor(held.name, self.dims(held.whole), dtype, role, product(dims), held.layout.text(self.show))

    def dims(self, layout: Layout) -> tuple[Size, ...]:
        """Local sizes of a layout."""
        return tuple(self.local(label, layout) for label in layout.labels)

    def padded(self, before: Layout, after: Layout) -> tuple[Size, ...]:
        """Local sizes before a move; those that it splits further with the padding that makes their parts equal."""
        axes = {each: [axis for axis in after.over(each) if axis not in before.over(each)] for each in before.labels}
        return tuple(
            self.local(label, after) * product(self.place.mesh[axis].size for axis in more)
            if more
            else self.local(label, before)
            for label, more in axes.items()
        )

    def local(self, label: str, layout: Layout) -> Size:
        """One chip's part of a label's size."""
        ways, size = product(self.place.mesh[axis].size for axis in layout.over(label)), self.sizes[label]
        if self.place.uneven == "error":
            self.must_divide(size, ways, f"{size} is no multiple of the {ways} chips that it is split over")
        return local_size(size, ways, label=self.show(label), uneven=self.place.uneven)

    def apart(self, inputs: Sequence[Shape], layouts: Sequence[Layout]) -> tuple[list[Shape], list[Layout]]:
        """Give a label that an operand splits as the ones before it do not a name of its own there."""
        first: dict[str, frozenset[str]] = {}
        shapes, ends = [], []
        for x, layout in zip(inputs, layouts, strict=True):
            names = {}
            for label in layout.labels:
                over = frozenset(layout.over(label))
                if first.setdefault(label, over) != over:
                    names[label] = f"{label} of {x.ident}"
                    self.sizes.setdefault(names[label], self.sizes[label])
            dims = tuple(dim._replace(label=names.get(dim.label, dim.label)) for dim in x.axes)
            shapes.append(x._replace(axes=dims) if names else x)
            ends.append(replace(layout, labels=tuple(names.get(each, each) for each in layout.labels)))
        return shapes, ends

    def context(self, inputs: Sequence[Layout], routed: Collection[str] = ()) -> Context:
        """The context of an operation's rule: the sizes that one chip has.

        Chips along the axes ``routed`` look up as many rows of a table as each has indices.
        """
        local = {label: self.local(label, layout) for layout in inputs for label in layout.labels}
        mesh, place = self.place.mesh.sizes, self.place
        inputs = [layout.without(routed) for layout in inputs] if routed else inputs
        ways = {label: layout.ways(label, mesh) for layout in inputs for label in layout.labels if layout.over(label)}
        return Context({**self.sizes, **local}, place.exact, place.count_padding, place.compute, ways)

    def whole(self, op: Op, parts: Mapping[str, HeldTensor]) -> Op:
        """Give operands that are slices the size of the whole that is in memory."""
        views = {name: held for name, held in parts.items() if held.layout != held.whole}
        if not views:
            return op
        reads = tuple(
            replace(t, dims=self.dims(views[t.ident].whole), touched=t.traffic_elements) if t.ident in views else t
            for t in op.reads
        )
        return replace(op, reads=reads)

    def noted(self, op: Op, step: Step, choice: Choice) -> Op:
        """Note the work that every chip repeats, and the statistics that chips exchange."""
        said = [op.note] if op.note else []
        if choice.repeated:
            said.append(f"{op.name}: every chip along {in_a_row(choice.repeated)} does the same")
        if choice.exchanged:
            share = f"chips along {in_a_row(choice.exchanged)} share each row"
            dtype = f"{step.inputs[0].dtype} and int32" if step.function == "topk" else "fp32"
            several = in_a_row(STATISTICS[step.function][: choice.statistics])
            said.append(f"{op.name}: {share} and exchange {several} of it, in {dtype}")
        if choice.routed:
            along = in_a_row(axis for axis, _ in choice.routed)
            said.append(f"{op.name}: chips along {along} send each other the rows that they look up, as many from each")
        for axis, label in dict.fromkeys((axis, label) for axis, label, _ in choice.bordered):
            counts = self.place.count_padding or step.function == "pool"
            left_out = "" if counts else "; what reaches over them is not counted"
            said.append(f"{op.name}: neighbours along {axis} exchange the borders of {self.show(label)}{left_out}")
        for _, windows, _, results, ways in self.split_results(step, choice.raw):
            if results % ways:
                said.append(f"{op.name}: of {results} results along {self.show(windows.label)} the last chip has fewer")
        if images := split_images(step, [*choice.given, choice.result], choice.raw):
            shown = in_a_row(dict.fromkeys(map(self.show, images)))
            made = f"made with all of {shown} on every chip"
            said.append(f"{op.name}: {made}; an exchange of borders, not tried, sends less")
        return replace(op, note="; ".join(said)) if said else op

    def named(self, name: str, moves: Sequence[Move]) -> str:
        """Name of an operand after its moves."""
        for move in moves:
            if move.sends:
                name = f"{move.name()}({name})"
        return name

    @staticmethod
    def raw_name(ident: str, moves: Sequence[Move]) -> str:
        """Name of the result before its moves; the last move gives it its own name."""
        return f"{ident} before {moves[-1].kind}" if any(move.sends for move in moves) else ident

    def show(self, label: str) -> str:
        """A label as text; a number in place of a label that stands for one."""
        return str(self.sizes.get(label, "?")) if is_unnamed(label) else label


def _where_more(tensors: Sequence[Tensor], chips: Any) -> tuple[Tensor, ...]:
    """One chip alone moves nothing."""
    several = minimum(1, chips - 1)
    return tuple(replace(t, touched=t.traffic_elements * several) for t in tensors)


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
        times = sums_by_name((*self.times.items(), *other.times.items()))
        op_by_op, upper, sent, more = map(add, self._parts(), other._parts())
        return PlanTime(times, op_by_op, upper, sent, more, max(self.apart, other.apart), self.score.plus(other.score))

    def never_worse(self, other: PlanTime) -> bool:
        """Say whether nothing here is more."""
        amounts = all(map(le, self._parts(), other._parts())) and self.score <= other.score
        return amounts and all(time <= other.times.get(name, 0) for name, time in self.times.items())

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
            total = self._alone(at, choice).plus(PlanTime(score=choice.score))
            for shape, layout, moves in zip(step.inputs, choice.given, choice.before, strict=True):
                total = total.plus(self._moved(shape, layout, moves))
            self._known[key] = total.plus(self._moved(step.output, choice.raw, choice.after))
        return self._known[key]

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
        for choice in plans.choices(step, whole, None, also=self.axes, may_split=self.may_split):
            spent = self._alone(at, choice)
            found = spent if found is None else found.least_of(spent)
        return found or PlanTime()

    def _alone(self, at: int, choice: Choice) -> PlanTime:
        """Price the operation of a choice, without its moves."""
        step = self.steps[at]
        ends = tuple(plans.moved(layout, moves) for layout, moves in zip(choice.given, choice.before, strict=True))
        bare = choice._replace(given=ends, before=((),) * len(ends), raw=plans.empty(step), after=())
        key = (at, ends, bare.bordered, bare.routed)
        return self._once(key, lambda: operations((step,), Plan((bare,), ()), self.sizes, self.place))

    def _moved(self, x: Shape, layout: Layout, moves: Sequence[Move]) -> PlanTime:
        if not any(move.sends for move in moves):
            return PlanTime()
        key = (x.ident, layout, tuple(moves))
        return self._once(key, lambda: moves_alone(x, layout, moves, self.sizes, self.place))

    def _once(self, key: Any, build: Callable[[], Sequence[Op]]) -> PlanTime:
        if key not in self._known:
            self._known[key] = self.price(build())
        return self._known[key]
