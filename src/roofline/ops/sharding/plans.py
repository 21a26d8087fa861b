"""Plans of a sharded program: a choice for every operation, and the ways to choose.

A choice is a role for each mesh axis, and the moves that it takes. One rule gives the four cases of the book. Each mesh
axis either shards one loop of the operation or none. The operands move to that layout, and the result moves to the
layout that is wanted:

>>> from roofline.notation import program
>>> from roofline.ops.sharding.layout import layout_of
>>> def cases(text):
...     step = program(text).steps[0]
...     found = choices(step, [layout_of(x) for x in step.inputs], layout_of(step.output))
...     best = min(found, key=lambda choice: choice.score)
...     return best.words(("A", "B"), "C")
>>> cases("A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]")             # no shared sharding: nothing to send
[]
>>> cases("A[I, J_X] * B[J, K] -> C[I, K]")                   # one operand sharded along the contraction
['AllGather_X(A[I, J_X])']
>>> cases("A[I, J_X] * B[J_X, K] -> C[I, K_X]")               # both along it: partial sums
['ReduceScatter_{X,K}(C[I, K] {U_X})']
>>> cases("A[I_X, J] * B[J, K_X] -> C[I_X, K]")               # both on one axis outside it
['AllGather_X(B[J, K_X])']

Source: "How To Scale Your Model", chapter 3.

A plan is a choice for every operation of a program. The cheapest plans come first:

>>> mlp = program("In[B_X, D_Y] * Wi[D_X, F_Y] * Wo[F_Y, D_X] -> Out[B_X, D_Y]").steps
>>> for word in next(plans(mlp)).words:
...     print(word)
AllGather_Y(In[B_X, D_Y])
AllGather_X(Wi[D_X, F_Y])
AllGather_X(Wo[F_Y, D_X])
ReduceScatter_{Y,D}(Out[B_X, D] {U_Y})
>>> len(list(plans(program("A[I_X, J] * B[J, K_Y] -> C[I, K]").steps)))
16

A plan depends on sizes only where they rule out choices. Without costs, plans that send over the fewest mesh axes come
first. A result whose layout is not written may have any. Partial sums stay so through operations that are linear in
them, and are added up before any other. No operand is moved in order to leave a final result partial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from heapq import heappop, heappush
from itertools import count, islice, product
from typing import Any, Protocol, TypeAlias

from roofline.frozen import NamedTuple, Same
from roofline.notation.structure import Shape, Step
from roofline.ops.sharding.layout import (
    NO_SUMS,
    UNREDUCED,
    Fit,
    Layout,
    Loop,
    Move,
    State,
    Windows,
    layout_of,
    linear_loops,
    loops_of,
    moves,
)


class MaySplit(Protocol):
    """Says whether a label, or a number, may be split over mesh axes."""

    def __call__(self, label: str | int | Windows, axes: tuple[str, ...], fit: Fit = "padded", /) -> bool:
        """Say so."""


def _splits_all(label: str | int | Windows, axes: tuple[str, ...], fit: Fit = "padded", /) -> bool:
    return fit not in ("strides", "reach")


class Score(NamedTuple):
    """The cost of a choice without any size: mesh axes sent over, then slices, then axes of repeated work."""

    sent: int = 0
    slices: int = 0
    repeated: int = 0

    def plus(self, other: Score) -> Score:
        """Add up, number by number."""
        return Score(self.sent + other.sent, self.slices + other.slices, self.repeated + other.repeated)

    @property
    def merit(self) -> Score:
        """The key that scores are ordered by."""
        return self

    def never_worse(self, other: Score) -> bool:
        """Say whether it stays in front of another one, whatever is added to both."""
        return self <= other


class Choice(NamedTuple):
    """One way to do an operation: the moves of its operands, from the layouts given, and those of its raw result.

    ``repeated`` are the mesh axes along which every chip does the same work. Over the axes ``exchanged``, chips add up
    ``statistics`` numbers of each row. ``bordered`` are axes over which neighbours send each other the borders of their
    parts, each with the dimension that it splits. Over axes ``routed`` they send each other rows that they look up,
    each axis with whether the indices are sent before.
    """

    given: tuple[Layout, ...]
    before: tuple[tuple[Move, ...], ...]
    raw: Layout
    after: tuple[Move, ...]
    repeated: tuple[str, ...]
    exchanged: tuple[str, ...] = ()
    statistics: int = 0
    bordered: tuple[tuple[str, str, int], ...] = ()
    routed: tuple[tuple[str, bool], ...] = ()

    @property
    def result(self) -> Layout:
        """The layout the result ends in."""
        return moved(self.raw, self.after)

    @property
    def collectives(self) -> set[str]:
        """The kinds of its collectives."""
        kinds = {move.kind for steps in (*self.before, self.after) for move in steps if move.sends}
        others = (("AllReduce", self.exchanged), ("Permute", self.bordered), ("AllToAll", self.routed))
        return kinds | {kind for kind, axes in others if axes}

    @property
    def score(self) -> Score:
        """Mesh axes that its collectives go over, its slices, axes of repeated work."""
        made = [move for steps in (*self.before, self.after) for move in steps]
        sent = sum(len(move.axes) for move in made if move.sends)
        sent += len(self.exchanged) + len(self.bordered) + len(self.routed)
        return Score(sent, sum(not move.sends for move in made), len(self.repeated))

    def words(self, inputs: Sequence[str], result: str, show: Callable[[str], str] = str) -> list[str]:
        """Name every move with the tensor it moves."""
        said: list[str] = []
        for name, layout, steps in zip(inputs, self.given, self.before, strict=True):
            said += describe(name, layout, steps, show)
        if self.exchanged:
            said.append(self.exchange())
        said += dict.fromkeys(border_words(axis, show(label)) for axis, label, _ in self.bordered)
        said += [rows_words(axis) for axis, _ in self.routed]
        return said + describe(result, self.raw, self.after, show)

    def exchange(self) -> str:
        """Name the collective that adds up the statistics of rows."""
        return f"{Move('AllReduce', self.exchanged, ()).name()}(statistics)"


def rows_words(axis: str) -> str:
    """Name what chips send each other of a table that they split by rows: ``AllToAll_X(rows of the table)``."""
    return f"{Move('AllToAll', (axis,), ()).name()}(rows of the table)"


def border_words(axis: str, label: str) -> str:
    """Name what neighbours send each other of a dimension that they split: ``Permute_X(borders of H)``."""
    return f"{Move('Permute', (axis,), ()).name()}(borders of {label})"


def describe(name: str, layout: Layout, steps: Sequence[Move], show: Callable[[str], str] = str) -> list[str]:
    """Name the moves of one tensor: ``AllGather_X(A[I, J_X])``."""
    said = []
    for move in steps:
        said.append(f"{move.name(show)}({name}{layout.text(show)})")
        layout = move.after(layout)
    return said


@lru_cache(maxsize=4096)
def moved(layout: Layout, steps: tuple[Move, ...]) -> Layout:
    """Make moves one after the other."""
    for move in steps:
        layout = move.after(layout)
    return layout


def choices(
    step: Step,
    inputs: Sequence[Layout],
    wanted: Layout | None,
    *,
    also: Sequence[str] = (),
    may_split: MaySplit = _splits_all,
    sums: bool = True,
) -> Iterator[Choice]:
    """List every way to do a step from these layouts; ``wanted`` is what its result must be, None for any layout.

    ``also`` names mesh axes that stand in none of the tensors and may be used. ``may_split`` rules out loops, and
    layouts on the way, that the axes do not divide. ``sums`` says that partial operands are partial sums.
    """
    loops = (*loops_of(step), *(linear_loops(step) if sums else ()))
    axes = tuple(dict.fromkeys([a for x in (*inputs, *([wanted] if wanted else [])) for a in x.axes] + list(also)))
    ways = _Ways(step, tuple(inputs), wanted, axes, may_split)
    for roles in product(*((None, *_worth(loops, inputs, axis)) for axis in axes)):
        found = ways.choice(roles)
        if found is not None:
            yield found


def _worth(loops: Sequence[Loop], inputs: Sequence[Layout], axis: str) -> Iterator[Loop]:
    """The loops an axis may shard. One with statistics or borders is left out where it already shards another loop.

    No move makes a partial sum.
    """
    for loop in loops:
        states = [(x.state(axis), label) for x, label in zip(inputs, loop.labels, strict=True)]
        if any(label == UNREDUCED != state for state, label in states):
            continue
        there = any(state == label is not None for state, label in states)
        if not (loop.statistics or loop.borders) or there or all(state in (None, UNREDUCED) for state, _ in states):
            yield loop


class _Ways:
    """One step, the layouts it starts from and is to end in, and the moves found so far by the states they lead to."""

    def __init__(
        self, step: Step, inputs: tuple[Layout, ...], wanted: Layout | None, axes: tuple[str, ...], may_split: MaySplit
    ) -> None:
        self.inputs, self.wanted, self.axes, self.may_split = inputs, wanted, axes, may_split
        self.whole = empty(step)
        self.before: list[dict[tuple[State, ...], tuple[Move, ...] | None]] = [{} for _ in inputs]
        self.after: dict[tuple[State, ...], tuple[Layout, tuple[Move, ...] | None]] = {}

    def choice(self, roles: tuple[Loop | None, ...]) -> Choice | None:
        """The choice in which each axis shards its loop, or None where axes do not divide or no moves lead there."""
        split: dict[tuple[str | int | Windows, Fit], tuple[str, ...]] = {}
        for axis, loop in zip(self.axes, roles, strict=True):
            for label, fit in loop.sizes if loop else ():
                split[label, fit] = (*split.get((label, fit), ()), axis)
        for (label, fit), over in split.items():
            # chips that split the key heads and those that share each are so many together
            together = (*split.get((label, "padded"), ()), *over) if fit == "multiple" else over
            if not self.may_split(label, together, fit):
                return None
        before = []
        for position, known in enumerate(self.before):
            states = tuple(loop.labels[position] if loop else None for loop in roles)
            if states not in known:
                known[states] = _legal(self.inputs[position], dict(zip(self.axes, states, strict=True)), self.may_split)
            steps = known[states]
            if steps is None:
                return None
            before.append(steps)
        ends = tuple(loop.result if loop else None for loop in roles)
        if ends not in self.after:
            raw = self.whole.put(dict(zip(self.axes, ends, strict=True)))
            wanted = None if self.wanted is None else dict.fromkeys(raw.axes) | self.wanted.states
            self.after[ends] = raw, () if wanted is None else _legal(raw, wanted, self.may_split)
        raw, after = self.after[ends]
        if after is None:
            return None
        repeated = tuple(axis for axis, loop in zip(self.axes, roles, strict=True) if loop is None)
        taken = [(axis, loop) for axis, loop in zip(self.axes, roles, strict=True) if loop]
        sharing = {axis: loop.statistics for axis, loop in taken if loop.statistics}
        shared = [(axis, loop) for axis, loop in taken if loop.borders]
        inner = {loop: axis for axis, loop in shared}  # windows of keys reach one side, on the inner axis mostly
        others = (
            zip(loop.labels, other.labels, strict=True) for _, loop in shared for _, other in taken if other != loop
        )
        if any(a == b is not None for pairs in others for a, b in pairs):  # borders of other parts
            return None
        bordered = tuple(
            (axis, str(loop.labels[at]), at)
            for axis, loop in shared
            for at in loop.borders
            if self.inputs[at].state(axis) == loop.labels[at]
            and (0 in loop.borders or inner[loop] == axis)
            and (loop.windows is None or self.may_split(loop.windows, split[loop.windows, "strides"], "reach"))
        )
        statistics = max(sharing.values(), default=0)
        routed = tuple((a, self.inputs[1].state(a) == loop.labels[1]) for a, loop in taken if loop.routed)
        return Choice(self.inputs, tuple(before), raw, after, repeated, tuple(sharing), statistics, bordered, routed)


def _legal(layout: Layout, states: Mapping[str, State], may_split: MaySplit) -> tuple[Move, ...] | None:
    """List the moves to these states; None where no moves lead there or axes do not divide a size on the way."""
    steps = moves(layout, states)
    for move in steps or ():
        following = move.after(layout)
        for label, before, after in zip(layout.labels, layout.shards, following.shards, strict=True):
            asked = [after] if len(after) > len(before) else [each for each in (before, after) if each and move.sends]
            if not all(may_split(label, axes) for axes in asked):
                return None
        layout = following
    return steps


def empty(step: Step) -> Layout:
    """The result of a step, whole on every chip."""
    return Layout(step.output.labels, tuple(() for _ in step.output.labels))


#: A partial plan is dropped once so many others with the same layouts are never worse. So the first so many plans are
#: the best ones.
KEPT = 16

#: A layout as a set of states: the order of the axes of one label does not matter.
Key: TypeAlias = frozenset[tuple[str, State]]

#: Every way to do a step from the layouts of its operands, by both.
Found: TypeAlias = dict[object, tuple[Choice, ...]]

#: The layouts every tensor is held in, the given one first.
HeldLayouts: TypeAlias = Mapping[str, tuple[Layout, ...]]


class Cost(Protocol):
    """The cost of a part of a plan: it adds up, has an order, and knows when it is never worse than another."""

    @property
    def merit(self) -> Any:
        """The key that costs are ordered by."""

    def plus(self, other: Any) -> Any:
        """Add up."""

    def never_worse(self, other: Any) -> bool:
        """Say whether it stays in front of another one, whatever is added to both."""


class Costs(Protocol):
    """The costs of a program's choices; ``choice`` is None for a collective that the program writes itself."""

    def of(self, at: int, choice: Choice | None) -> Cost:
        """Return the cost of a choice for step ``at``."""

    def least(self, at: int) -> Cost:
        """Return a lower limit of the cost of all steps from ``at`` on."""


class _Fewest:
    """Counts mesh axes that are sent over; knows no size."""

    def of(self, at: int, choice: Choice | None) -> Score:
        return choice.score if choice else Score()

    def least(self, at: int) -> Score:
        return Score()


class Plan(NamedTuple):
    """A choice for every step, None for a collective that the program writes itself."""

    choices: tuple[Choice | None, ...]
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its collectives and slices, in order; what a caller chooses it by."""
        return "; ".join(self.words) or "no communication"

    @property
    def axes(self) -> frozenset[str]:
        """The mesh axes that it goes over."""
        found = [choice for choice in self.choices if choice is not None]
        layouts = (layout.axes for choice in found for layout in (*choice.given, choice.raw))
        moved = (move.axes for choice in found for moves in (*choice.before, choice.after) for move in moves)
        return frozenset(axis for axes in (*layouts, *moved) for axis in axes)


class _Partial(NamedTuple):
    """The choices so far, and the layouts that tensors are held in before the last of them."""

    choices: tuple[Choice | None, ...]
    held: HeldLayouts


def plans(
    steps: Sequence[Step],
    *,
    single: frozenset[str] = frozenset(),
    also: Sequence[str] = (),
    may_split: MaySplit = _splits_all,
    show: Callable[[str], str] = str,
    costs: Costs | None = None,
    known: Found | None = None,
) -> Iterator[Plan]:
    """List the plans of a program by ``costs``, or by mesh axes sent over, then slices, then repeated work.

    ``single`` are mesh axes of one chip, which shard nothing; ``also`` axes that no tensor names and that may be
    used. ``may_split`` rules out what axes do not divide; ``show`` writes labels. ``known`` keeps the choices found,
    for another search of the same program.
    """
    search = _Search(steps, single, tuple(also), may_split, show, {} if known is None else known)
    priced: Costs = costs or _Fewest()
    order = count()
    none: Cost | None = None
    queue: list[Any] = [((), 0, next(order), none, _Partial((), {}))]
    seen: dict[object, list[Cost]] = {}
    while queue:
        _, _, _, spent, partial = heappop(queue)
        done = len(partial.choices)
        if done == len(steps):
            yield Plan(partial.choices, search.words(partial.choices))
            continue
        held = search.held(partial)
        if spent is not None:
            others = seen.setdefault(search.state(done, held), [])
            if sum(1 for _ in islice((each for each in others if each.never_worse(spent)), KEPT)) == KEPT:
                continue
            others.append(spent)
        for choice in search.follow(done, held):
            cost = priced.of(done, choice)
            total = cost if spent is None else spent.plus(cost)
            rank = total.merit if done + 1 == len(steps) else total.plus(priced.least(done + 1)).merit
            heappush(queue, (rank, -done, next(order), total, _Partial((*partial.choices, choice), held)))


class _Search:
    """The steps of one program, and facts about them that are found once."""

    def __init__(
        self,
        steps: Sequence[Step],
        single: frozenset[str],
        also: tuple[str, ...],
        may_split: MaySplit,
        show: Callable[[str], str],
        found: Found,
    ) -> None:
        self.steps, self.single, self.also, self.may_split, self.show = steps, single, also, cache(may_split), show
        self.last_use = {x.ident: at for at, step in enumerate(steps) for x in step.inputs}
        self.no_sums = {step.output.ident for step in steps if step.function in NO_SUMS}
        self.collected = {x.ident for step in steps if step.kind == "collective" for x in step.inputs}
        self._found = found
        self._said: dict[Same[Choice], list[str]] = {}

    def state(self, done: int, held: HeldLayouts) -> tuple[int, frozenset[tuple[str, frozenset[Key]]]]:
        """The facts that later steps depend on: the layouts of the tensors that are still used."""
        live = {name: layouts for name, layouts in held.items() if self.last_use.get(name, -1) >= done}
        return done, frozenset((name, frozenset(map(key_of, layouts))) for name, layouts in live.items())

    def held(self, partial: _Partial) -> HeldLayouts:
        """The layouts that tensors are held in, among them the operands of the step to come."""
        held, done = dict(partial.held), len(partial.choices)
        if done:
            step, choice = self.steps[done - 1], partial.choices[-1]
            if choice is None:
                held[step.output.ident] = (layout_of(step.output).without(self.single),)
            else:
                for shape, given, before in zip(step.inputs, choice.given, choice.before, strict=True):
                    layouts, end = held[shape.ident], moved(given, before)
                    if key_of(end) not in map(key_of, layouts):
                        held[shape.ident] = (*layouts, end)
                held[step.output.ident] = (choice.result,)
        for shape in self.steps[done].inputs if done < len(self.steps) else ():
            held.setdefault(shape.ident, (layout_of(shape).without(self.single),))
        return held

    def follow(self, at: int, held: HeldLayouts) -> Iterator[Choice | None]:
        """Do step ``at`` in every way."""
        step = self.steps[at]
        if step.kind == "collective":
            yield None
            return
        names = [x.ident for x in step.inputs]
        again = len(set(names)) < len(names) or any(len(held[name]) > 1 for name in names)
        for choice in self.choices(at, step, [held[name][0] for name in names]):
            yield _reuse(names, choice, held) if again else choice

    def words(self, made: Sequence[Choice | None]) -> tuple[str, ...]:
        """Name the moves of a plan, those that the program writes itself as it writes them."""
        said: list[str] = []
        for step, choice in zip(self.steps, made, strict=True):
            if choice is None:
                said.append(step.text.partition(" -> ")[0])
                continue
            if (known := Same(choice)) not in self._said:  # many plans make it, and each choice is of one step
                inputs = [word_of(x) for x in step.inputs]
                self._said[known] = choice.words(inputs, word_of(step.output), self.show)
            said += self._said[known]
        return tuple(said)

    def choices(self, at: int, step: Step, inputs: Sequence[Layout]) -> tuple[Choice, ...]:
        """Every way to do a step from these layouts, found once."""
        key = (at, tuple(inputs))
        if key not in self._found:
            fixed = step.laid_out or step.output.ident in self.collected
            wanted = layout_of(step.output).without(self.single) if fixed else None
            sums = not any(x.ident in self.no_sums for x in step.inputs)
            found = choices(step, inputs, wanted, also=self.also, may_split=self.may_split, sums=sums)
            if wanted is None and step.output.ident not in self.last_use:
                found = (end for choice in found for end in self.ends(choice))
            self._found[key] = tuple(found)
        return self._found[key]

    def ends(self, choice: Choice) -> Iterator[Choice]:
        """A choice of the last step, whose layout is open: sums that its moves made are added up where they cost least.

        They are scattered into the first dimension that the axes divide, else each chip gets the whole: alone, or with
        the sums that no move made, which may stay.
        """
        raw, over = choice.raw, {axis for steps in choice.before for move in steps for axis in move.axes}
        made = tuple(axis for axis in raw.unreduced if axis in over)
        if not made:
            yield choice
            return
        for sums in dict.fromkeys((made, raw.unreduced)):
            ways: Iterator[tuple[State, ...]] = product((*raw.labels, None), repeat=len(sums))
            states = (raw.states | dict(zip(sums, way, strict=True)) for way in ways)
            legal = (_legal(raw, each, self.may_split) for each in states)
            after = next((moves for moves in legal if moves is not None), None)
            if after is not None:
                yield choice._replace(after=after)


def word_of(x: Shape) -> str:
    """Name of a tensor in the words of a plan: its own, or its format where it has none."""
    return x.dtype if x.ident[0] == "%" else x.ident


def _reuse(names: Sequence[str], choice: Choice, held: HeldLayouts) -> Choice:
    """Use operands that are already held in the wanted layout."""
    now = dict(held)
    given, before = list(choice.given), list(choice.before)
    for position, name in enumerate(names):
        end = moved(given[position], before[position])
        same = next((x for x in now[name] if key_of(x) == key_of(end)), None)
        if same is None:
            now[name] = (*now[name], end)
        else:
            given[position], before[position] = same, ()
    return choice._replace(given=tuple(given), before=tuple(before))


@lru_cache(maxsize=4096)
def key_of(layout: Layout) -> Key:
    """The states of a layout's axes, in no order."""
    return frozenset((axis, layout.state(axis)) for axis in layout.axes)


def assumes_any_axis_order(steps: Sequence[Step], plan: Plan) -> bool:
    """Say whether a plan is right only if the parts of a dimension may lie in any order over several mesh axes.

    ``J_XY`` and ``J_YX`` give a chip different parts. Plans only look at which axes shard a dimension, as in the book.

    >>> from roofline.notation import program
    >>> def first(text):
    ...     steps = program(text).steps
    ...     return assumes_any_axis_order(steps, next(plans(steps)))
    >>> first("A[I, J_XY] * B[J_XY, K] -> C[I, K]"), first("A[I, J_XY] * B[J_YX, K] -> C[I, K]")
    (False, True)
    >>> first("A[I_XY, J] * B[J, K] -> C[I_X, K]"), first("A[I_XY, J] * B[J, K] -> C[I_Y, K]")  # inner axis, outer axis
    (False, True)
    """
    pairs = zip(steps, plan.choices, strict=True)
    return any(choice is not None and _assumes_order(step, choice) for step, choice in pairs)


def _assumes_order(step: Step, choice: Choice) -> bool:
    moves = [*zip(choice.given, choice.before, strict=True), (choice.raw, choice.after)]
    *ends, result = [moved(layout, made) for layout, made in moves]
    written = [layout_of(step.output)] if step.laid_out else []
    shuffled = any(_shuffles(layout, made) for layout, made in moves)
    return shuffled or not _alike([*ends, choice.raw]) or not _alike([result, *written])


def _shuffles(layout: Layout, made: Sequence[Move]) -> bool:
    """Whether an axis leaves a dimension while axes behind it go on sharding it: its parts then lie apart."""
    for move in made:
        following = move.after(layout)
        for before, after in zip(layout.shards, following.shards, strict=True):
            kept = tuple(axis for axis in before if axis in after)
            if kept != before[: len(kept)]:
                return True
        layout = following
    return False


def _alike(layouts: Sequence[Layout]) -> bool:
    """Whether all layouts that shard a label over the same axes have these axes in the same order."""
    orders: dict[tuple[str, frozenset[str]], tuple[str, ...]] = {}
    for layout in layouts:
        for label, shard in zip(layout.labels, layout.shards, strict=True):
            if orders.setdefault((label, frozenset(shard)), shard) != shard:
                return False
    return True
