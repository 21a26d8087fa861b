"""From one layout to another: a slice where every chip has all of it, else a collective.

============  ==============  =====================================
from          to              move
============  ==============  =====================================
whole         sharded         slice: every chip keeps its part
sharded       whole           AllGather
sharded       sharded anew    AllToAll
partial sums  whole           AllReduce
partial sums  sharded         ReduceScatter
============  ==============  =====================================

Nothing makes partial sums of a tensor. What makes a tensor smaller comes first.

>>> x = Layout(("B", "D"), (("X",), ("Y",)), ("Z",))
>>> [move.name() for move in moves(x, {"X": "D", "Y": None, "Z": "B"})]
['ReduceScatter_{Z,B}', 'AllToAll_{X,D}', 'AllGather_Y']
>>> moves(x, {"X": UNREDUCED}) is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from roofline.ops.sharding.layout import UNREDUCED, Layout, State

#: The kinds of moves, in the order they are made.
ORDER = ("slice", "ReduceScatter", "AllReduce", "AllToAll", "AllGather")

_WITH_TARGET = ("slice", "ReduceScatter", "AllToAll")


class Move(NamedTuple):
    """One move of a tensor: which mesh axes change their state, and to what."""

    kind: str
    axes: tuple[str, ...]
    to: tuple[State, ...]

    @property
    def sends(self) -> bool:
        """Whether anything is sent: everything but a slice."""
        return self.kind != "slice"

    def after(self, layout: Layout) -> Layout:
        """The layout it gives."""
        return _after(self, layout)

    def name(self, show: Callable[[str], str] = str) -> str:
        """Write it as the notation does: ``AllGather_X``, ``ReduceScatter_{X,K}``."""
        targets = dict.fromkeys(show(label) for label in self.to if label) if self.kind in _WITH_TARGET else {}
        words = [*self.axes, *targets]
        return f"{self.kind}_{words[0]}" if len(words) == 1 else f"{self.kind}_{{{','.join(words)}}}"


@lru_cache(maxsize=16_384)
def _after(move: Move, layout: Layout) -> Layout:
    return layout.put(dict(zip(move.axes, move.to, strict=True)))


def moves(layout: Layout, wanted: Mapping[str, State]) -> tuple[Move, ...] | None:
    """List the moves that bring mesh axes to their wanted states, or None where nothing does."""
    found: dict[tuple[str, State], list[tuple[str, State]]] = {}
    for axis, state in wanted.items():
        now = layout.state(axis)
        if now == state:
            continue
        if state == UNREDUCED:
            return None
        kind = _kind(now, state)
        found.setdefault((kind, state if kind == "AllToAll" else None), []).append((axis, state))
    made = [Move(kind, tuple(a for a, _ in to), tuple(s for _, s in to)) for (kind, _), to in found.items()]
    return tuple(sorted(made, key=lambda move: ORDER.index(move.kind)))


def _kind(now: State, to: State) -> str:
    if now is None:
        return "slice"
    if now == UNREDUCED:
        return "AllReduce" if to is None else "ReduceScatter"
    return "AllGather" if to is None else "AllToAll"
