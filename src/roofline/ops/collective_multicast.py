"""Rows that go to several chips of a torus each: a link that leads to some of them carries the row once.

Rows go along one axis after the other, each way as far as the farthest chip that is nearest that way, and are left on
their way wherever some of theirs are; parts of the data take the axes in different orders. What comes back is added up
on the same way. With every chip among a row's it is an AllGather:

>>> carried(Picks(16, 16), [16], {0: "ring"}), carried(Picks(16, 16), [4, 4], {0: "ring", 1: "ring"})
({0: 7.5}, {0: 3.75, 1: 3.75})
>>> {axis: round(rows, 2) for axis, rows in carried(Picks(256, 8), [16], {0: "ring"}).items()}
{0: 6.21}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from roofline.ops.collective_picks import Picks


def carried(picks: Picks, shape: Sequence[int], ways: Mapping[int, str]) -> dict[int, float]:
    """Rows over the busiest link of each axis, one way, for a row that each chip sends.

    ``shape`` are the axes from the outside in; those of a torus have ``ways``: ``ring``, ``line`` or ``one-way``. A row
    is at its chip's place along an axis without, in every unit that has some of its chips, and all along the innermost
    axes whose chips have it before.
    """
    even = replace(picks, skew=())
    found = _carried(even, tuple(shape), tuple(sorted(ways.items())))
    chips = _product(shape)
    busier = picks.reached(chips, busiest=True) / even.reached(chips) if picks.skew else 1.0
    return {axis: rows * busier for axis, rows in found.items()}


@lru_cache(maxsize=256)
def _carried(picks: Picks, shape: tuple[int, ...], ways: tuple[tuple[int, str], ...]) -> dict[int, float]:
    held = _held(shape, picks.copies)
    moving = [axis for axis, _ in ways if axis not in held and shape[axis] > 1]
    first = [axis for axis in range(len(shape)) if axis not in moving]
    orders = [moving[start:] + moving[:start] for start in range(len(moving))]
    found: dict[int, list[float]] = {axis: [] for axis, _ in ways}
    there = _receivers(picks, shape)
    for order in orders:
        for place, axis in enumerate(order):
            beside = [*first, *order[:place]]
            rows = _rows(picks, there, beside, axis, dict(ways)[axis])
            found[axis] = [sum(both) for both in zip(found[axis] or [0.0] * len(rows), rows, strict=True)]
    return {axis: max(rows, default=0.0) / len(orders) for axis, rows in found.items()}


def _held(shape: Sequence[int], copies: int) -> set[int]:
    """The innermost axes along which every chip has the row."""
    found, left = set[int](), copies
    for axis in reversed(range(len(shape))):
        if left % shape[axis]:
            break
        left //= shape[axis]
        found.add(axis)
        if left == 1:
            break
    return found if left == 1 and copies > 1 else set()


def _receivers(picks: Picks, shape: Sequence[int]) -> Any:
    """How many receivers of each group lie on each chip."""
    import numpy as np

    chips, size = _product(shape), picks.count // picks.groups
    found = np.zeros((chips, picks.groups), dtype=int)
    for chip in range(chips):
        for receiver in range(picks.count * chip // chips, picks.count * (chip + 1) // chips):
            found[chip, receiver // size] += 1
    return found.reshape(*shape, picks.groups)


def _rows(picks: Picks, there: Any, beside: Sequence[int], axis: int, way: str) -> list[float]:
    """Rows over the links of one axis, where each is at its chip's place along the axes that it has not yet taken.

    Those of a ring carry alike; a line has each link forward, then each backward.
    """
    import numpy as np

    rest = tuple(other for other in range(there.ndim - 1) if other not in beside and other != axis)
    along = np.moveaxis(there, axis, -2).sum(axis=tuple(other - (other > axis) for other in rest))
    n = along.shape[-2]
    lines = along.reshape(-1, n, along.shape[-1])
    if way == "line":
        left, right = np.cumsum(lines, axis=1), np.cumsum(lines[:, ::-1], axis=1)
        # of n places in a row those up to a link send to all behind it, and the other way round
        return [(n - i) * _hits(picks, part[:, i - 1]) for part in (left, right) for i in range(1, n)]
    twice = np.concatenate([lines, lines], axis=1)
    sums = np.concatenate([np.zeros_like(twice[:, :1]), np.cumsum(twice, axis=1)], axis=1)
    within = [(sums[:, length : length + n] - sums[:, :n]).reshape(-1, lines.shape[-1]) for length in range(1, n)]
    arcs: list[float] = [0.0, *(_hits(picks, sets) / n for sets in within)]
    if way == "one-way":
        return [sum(arcs)]
    # rows for the chip opposite go either way
    return [(sum(arcs[: (n - 1) // 2 + 1]) + sum(arcs[: n // 2 + 1])) / 2]


def _hits(picks: Picks, sets: Any) -> float:
    """How many of some sets of receivers, numbered by group, have some of a row's."""
    import numpy as np

    each, many = np.unique(sets, axis=0, return_counts=True)
    return float(sum(n * picks.hit_evenly([int(own) for own in one]) for one, n in zip(each, many, strict=True)))


def _product(sizes: Sequence[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


__all__ = ["carried"]
