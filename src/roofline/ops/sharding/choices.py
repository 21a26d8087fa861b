"""The ways to do one operation on sharded operands: a role for each mesh axis, and the moves that it takes.

One rule gives the four cases of the book. Each mesh axis either shards one loop of the operation or none. The operands
move to that layout, and the result moves to the layout that is wanted:

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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from roofline.notation.structure import Step
from roofline.ops.sharding.layout import UNREDUCED, Layout, Move, State, moves
from roofline.ops.sharding.loops import Loop, loops_of, stays_partial

#: Says whether a label may be split over mesh axes, which have to divide its size.
MaySplit = Callable[[str, tuple[str, ...]], bool]


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
    ``statistics`` numbers of each row.
    """

    given: tuple[Layout, ...]
    before: tuple[tuple[Move, ...], ...]
    raw: Layout
    after: tuple[Move, ...]
    repeated: tuple[str, ...]
    exchanged: tuple[str, ...] = ()
    statistics: int = 0

    @property
    def result(self) -> Layout:
        """The layout the result ends in."""
        return moved(self.raw, self.after)

    @property
    def moves_to_sums(self) -> bool:
        """Whether operands are moved over axes over which the raw result is then a partial sum."""
        made = {axis for steps in self.before for move in steps for axis in move.axes}
        return not made.isdisjoint(self.raw.unreduced)

    @property
    def score(self) -> Score:
        """Mesh axes that its collectives go over, its slices, axes of repeated work."""
        made = [move for steps in (*self.before, self.after) for move in steps]
        sent = sum(len(move.axes) for move in made if move.sends)
        return Score(sent + len(self.exchanged), sum(not move.sends for move in made), len(self.repeated))

    def words(self, inputs: Sequence[str], result: str, show: Callable[[str], str] = str) -> list[str]:
        """Name every move with the tensor it moves."""
        said: list[str] = []
        for name, layout, steps in zip(inputs, self.given, self.before, strict=True):
            said += describe(name, layout, steps, show)
        if self.exchanged:
            said.append(self.exchange())
        return said + describe(result, self.raw, self.after, show)

    def exchange(self) -> str:
        """Name the collective that adds up the statistics of rows."""
        return f"{Move('AllReduce', self.exchanged, ()).name()}(statistics)"


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
    may_split: MaySplit = lambda label, axes: True,
    sums: bool = True,
) -> Iterator[Choice]:
    """List every way to do a step from these layouts; ``wanted`` is what its result must be, None for any layout.

    ``also`` names mesh axes that stand in none of the tensors and may be used. ``may_split`` rules out loops, and
    layouts on the way, that the axes do not divide. ``sums`` says that partial operands are partial sums.
    """
    loops = loops_of(step)
    axes = tuple(dict.fromkeys([a for x in (*inputs, *([wanted] if wanted else [])) for a in x.axes] + list(also)))
    ways = _Ways(step, tuple(inputs), wanted, axes, may_split)
    for roles in product(*((None, *_worth(loops, inputs, axis)) for axis in axes)):
        found = ways.choice(roles)
        if found is not None:
            yield found
    if sums and stays_partial(step):
        yield from ways.linear()


def _worth(loops: Sequence[Loop], inputs: Sequence[Layout], axis: str) -> Iterator[Loop]:
    """The loops an axis may shard. One with statistics is left out where the axis already shards another loop."""
    for loop in loops:
        states = [(x.state(axis), label) for x, label in zip(inputs, loop.labels, strict=True)]
        there = any(state == label is not None for state, label in states)
        if not loop.statistics or there or all(state in (None, UNREDUCED) for state, _ in states):
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
        split: dict[str, tuple[str, ...]] = {}
        for axis, loop in zip(self.axes, roles, strict=True):
            for label in dict.fromkeys(loop.labels) if loop else ():
                if label is not None:
                    split[label] = (*split.get(label, ()), axis)
        if not all(self.may_split(label, over) for label, over in split.items()):
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
            self.after[ends] = self.finished(dict(zip(self.axes, ends, strict=True)))
        raw, after = self.after[ends]
        if after is None:
            return None
        sharing = {
            axis: loop.statistics for axis, loop in zip(self.axes, roles, strict=True) if loop and loop.statistics
        }
        repeated = tuple(axis for axis, loop in zip(self.axes, roles, strict=True) if loop is None)
        return Choice(
            self.inputs, tuple(before), raw, after, repeated, tuple(sharing), max(sharing.values(), default=0)
        )

    def linear(self) -> Iterator[Choice]:
        """Add up partial sums without moving them, where the operands have the same layout."""
        first = self.inputs[0]
        if first.unreduced and all(set(x.unreduced) == set(first.unreduced) for x in self.inputs):
            states = {axis: first.state(axis) for axis in first.axes}
            if all(x.labels == first.labels and {a: x.state(a) for a in x.axes} == states for x in self.inputs):
                raw, after = self.finished(states)
                if after is not None:
                    yield Choice(self.inputs, ((),) * len(self.inputs), raw, after, ())

    def finished(self, states: Mapping[str, State]) -> tuple[Layout, tuple[Move, ...] | None]:
        """The raw result in these states, and the moves from there to the layout that is wanted."""
        raw = self.whole.put(states)
        if self.wanted is None:
            return raw, ()
        ends = dict.fromkeys(raw.axes) | self.wanted.states
        return raw, _legal(raw, ends, self.may_split)


def _legal(layout: Layout, states: Mapping[str, State], may_split: MaySplit) -> tuple[Move, ...] | None:
    """List the moves to these states; None where no moves lead there or axes do not divide a size on the way."""
    steps = moves(layout, states)
    for move in steps or ():
        following = move.after(layout)
        for label, before, after in zip(layout.labels, layout.shards, following.shards, strict=True):
            if len(after) > len(before) and not may_split(label, after):
                return None
        layout = following
    return steps


def empty(step: Step) -> Layout:
    """The result of a step, whole on every chip."""
    return Layout(step.output.labels, tuple(() for _ in step.output.labels))
