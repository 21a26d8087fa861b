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

from roofline.ops.collective_picks import Picks, logarithm, skewed


def carried(picks: Picks, shape: Sequence[int], ways: Mapping[int, str]) -> dict[int, float]:
    """Rows over the busiest link of each axis, one way, for a row that each chip sends.

    ``shape`` are the axes from the outside in; those of a torus have ``ways``: ``ring``, ``line`` or ``one-way``. A row
    is at its chip's place along an axis without, in every unit that has some of its chips. Chips that have it before
    all along the innermost axes send it on from there, unless it is less to send as if they had not.
    """
    asked = tuple(shape), tuple(sorted(ways.items()))
    plain = _carried(replace(picks, copies=1), *asked)
    copied = _carried(picks, *asked) if picks.copies > 1 else plain
    return min(plain, copied, key=lambda rows: max(rows.values(), default=0.0))


@lru_cache(maxsize=256)
def _carried(picks: Picks, shape: tuple[int, ...], ways: tuple[tuple[int, str], ...]) -> dict[int, float]:
    held = _held(shape, picks.copies)
    moving = [axis for axis, _ in ways if axis not in held and shape[axis] > 1]
    first = [axis for axis in range(len(shape)) if axis not in moving]
    orders = [moving[start:] + moving[:start] for start in range(len(moving))]
    there, found = _receivers(picks, shape), dict.fromkeys((axis for axis, _ in ways), 0.0)
    for axis in moving:
        before = [[*first, *order[: order.index(axis)]] for order in orders]
        rows = [_rows(picks, there, beside, axis, dict(ways)[axis]) for beside in before]
        found[axis] = float(sum(rows[1:], rows[0]).max()) / len(orders)
    return found


def _held(shape: Sequence[int], copies: int) -> set[int]:
    """The innermost axes along which every chip has the row."""
    found, left = set[int](), copies
    for axis in reversed(range(len(shape))):
        if left == 1 or left % shape[axis]:
            break
        left //= shape[axis]
        found.add(axis)
    return found


def _receivers(picks: Picks, shape: Sequence[int]) -> Any:
    """Of each chip: how many receivers of each group lie on it; where they are skewed, how likely it is missed too.

    That is the logarithm: of the skewed ones, then of as many that are not.
    """
    import numpy as np

    chips, size = int(np.prod(shape)), picks.count // picks.groups
    found = np.zeros((chips, picks.groups + 2 * bool(picks.skew)))
    for chip in range(chips):
        own = range(picks.count * chip // chips, picks.count * (chip + 1) // chips)
        for receiver in own:
            found[chip, receiver // size] += 1
        if picks.skew:
            evenly = picks.hit_evenly([int(many) for many in found[chip, : picks.groups]])
            found[chip, picks.groups :] = logarithm(1 - picks.hit(own)), logarithm(1 - evenly)
    return found.reshape(*shape, -1)


def _rows(picks: Picks, there: Any, beside: Sequence[int], axis: int, way: str) -> Any:
    """Rows over every link of one axis, each way, of rows that are at their chips' places along the axes ``beside``.

    Along the axes that a row has not taken yet it is at its sender's place.
    """
    import numpy as np

    rest = tuple(other for other in range(there.ndim - 1) if other not in beside and other != axis)
    along = np.moveaxis(there.sum(axis=rest, keepdims=True), axis, -2)
    n, senders = there.shape[axis], float(np.prod([there.shape[other] for other in beside]))
    if way == "line":
        # of n places in a row those up to a link send to all behind it, and the other way round
        left, right = np.cumsum(along, axis=-2), np.cumsum(along[..., ::-1, :], axis=-2)
        share = np.arange(n - 1, 0, -1)
        links = np.stack([share * _hits(picks, part[..., :-1, :]) for part in (left, right)])
    else:
        # the chip opposite gets its rows either way
        reach = [n - 1] if way == "one-way" else [(n - 1) // 2, n // 2]
        ahead = sum(_arcs(picks, along, length) for length in reach) / len(reach)
        behind = sum(_arcs(picks, along[..., ::-1, :], length) for length in reach) / len(reach)
        links = np.stack([ahead] if way == "one-way" else [ahead, behind])
    return np.moveaxis(links, -1, axis + 1) * senders


def _arcs(picks: Picks, along: Any, reach: int) -> Any:
    """Rows over the link before each place of a ring, of rows that go on so far at most from where they are sent."""
    import numpy as np

    total, arc = np.zeros(along.shape[:-1]), np.zeros(along.shape)
    for distance in range(reach):
        arc = arc + np.roll(along, -distance, axis=-2)
        total = total + _hits(picks, arc)
    return total


def _hits(picks: Picks, sets: Any) -> Any:
    """How likely some of a row's receivers are in each set of chips."""
    import numpy as np

    each, where = np.unique(sets.reshape(-1, sets.shape[-1]), axis=0, return_inverse=True)
    found = [picks.hit_evenly([int(many) for many in one[: picks.groups]]) for one in each]
    if picks.skew:
        logarithms = each[:, picks.groups :].tolist()
        found = [skewed(hit, *two) if 0 < hit < 1 else hit for hit, two in zip(found, logarithms, strict=True)]
    return np.array(found)[where].reshape(sets.shape[:-1])


__all__ = ["carried"]
