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
from typing import NamedTuple, TypeAlias

from roofline.notation.structure import Step
from roofline.ops.sharding.layout import UNREDUCED, Layout, Move, State, moves
from roofline.ops.sharding.loops import Loop, loops_of, stays_partial

#: Says whether a label may be split over mesh axes, which have to divide its size.
MaySplit = Callable[[str, tuple[str, ...]], bool]

#: Moves found already, by the position of the operand and the states they lead to.
Known: TypeAlias = dict[tuple[object, ...], "tuple[Move, ...] | None"]


class Score(NamedTuple):
    """The cost of a choice without any size: mesh axes sent over, then slices, then axes of repeated work."""

    sent: int = 0
    slices: int = 0
    repeated: int = 0

    def plus(self, other: Score) -> Score:
        """Add up, number by number."""
        return Score(*(a + b for a, b in zip(self, other, strict=True)))

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
    axes = list(dict.fromkeys([a for x in (*inputs, *([wanted] if wanted else [])) for a in x.axes] + list(also)))
    known: Known = {}
    for roles in product(*((None, *_worth(loops, inputs, axis)) for axis in axes)):
        chosen = dict(zip(axes, roles, strict=True))
        found = _choice(step, inputs, wanted, chosen, may_split, known)
        if found is not None:
            yield found
    if sums and stays_partial(step):
        yield from _linear(step, inputs, wanted, may_split)


def _worth(loops: Sequence[Loop], inputs: Sequence[Layout], axis: str) -> Iterator[Loop]:
    """The loops an axis may shard. One with statistics is left out where the axis already shards another loop."""
    for loop in loops:
        states = [(x.state(axis), label) for x, label in zip(inputs, loop.labels, strict=True)]
        there = any(state == label is not None for state, label in states)
        if not loop.statistics or there or all(state in (None, UNREDUCED) for state, _ in states):
            yield loop


def _choice(
    step: Step,
    inputs: Sequence[Layout],
    wanted: Layout | None,
    roles: Mapping[str, Loop | None],
    may_split: MaySplit,
    known: Known,
) -> Choice | None:
    split: dict[str, list[str]] = {}
    for axis, loop in roles.items():
        if loop is not None:
            for label in {*loop.labels} - {None}:
                split.setdefault(str(label), []).append(axis)
    if not all(may_split(label, tuple(over)) for label, over in split.items()):
        return None
    before = []
    for position, layout in enumerate(inputs):
        states = {axis: loop.labels[position] if loop else None for axis, loop in roles.items()}
        key = (position, *states.values())
        if key not in known:
            known[key] = _legal(layout, states, may_split)
        steps = known[key]
        if steps is None:
            return None
        before.append(steps)
    raw = empty(step).put({axis: loop.result if loop else None for axis, loop in roles.items()})
    repeated = tuple(axis for axis, loop in roles.items() if loop is None)
    found = _finished(inputs, before, raw, wanted, repeated, may_split)
    sharing = {axis: loop.statistics for axis, loop in roles.items() if loop is not None and loop.statistics}
    if found is None or not sharing:
        return found
    return found._replace(exchanged=tuple(sharing), statistics=max(sharing.values()))


def _linear(step: Step, inputs: Sequence[Layout], wanted: Layout | None, may_split: MaySplit) -> Iterator[Choice]:
    """Add up partial sums without moving them, where the operands have the same layout."""
    first = inputs[0]
    if first.unreduced and all(set(x.unreduced) == set(first.unreduced) for x in inputs):
        states = {axis: first.state(axis) for axis in first.axes}
        if all(x.labels == first.labels and {a: x.state(a) for a in x.axes} == states for x in inputs):
            found = _finished(inputs, [()] * len(inputs), empty(step).put(states), wanted, (), may_split)
            if found is not None:
                yield found


def _finished(
    given: Sequence[Layout],
    before: Sequence[tuple[Move, ...]],
    raw: Layout,
    wanted: Layout | None,
    repeated: tuple[str, ...],
    may_split: MaySplit,
) -> Choice | None:
    if wanted is None:
        return Choice(tuple(given), tuple(before), raw, (), repeated)
    states = {axis: wanted.state(axis) for axis in (*raw.axes, *wanted.axes)}
    after = _legal(raw, states, may_split)
    if after is None:
        return None
    return Choice(tuple(given), tuple(before), raw, after, repeated)


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
