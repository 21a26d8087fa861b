"""Parts of one stretch of memory: which of its places each part has, so that each place is read once.

>>> left, right = Stretches(0, ((4, 32), (16, 1))), Stretches(16, ((4, 32), (16, 1)))  # halves of four rows of 32
>>> pieces([left, right])
Pieces(sizes=(64, 64), of=((0,), (1,)))
>>> pieces([left, Stretches(0, ((4, 32), (24, 1)))])                               # the second holds the first
Pieces(sizes=(64, 32), of=((0,), (0, 1)))
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

#: Parts are told apart place by place up to so many stretches between their edges, times parts.
_MOST = 10**7


class Stretches(NamedTuple):
    """The places that a part has: where they start, and how many there are at which distances."""

    start: int
    steps: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """How many they are."""
        return prod(n for n, _ in self.steps)

    @property
    def last(self) -> int:
        """The last of them."""
        return self.start + sum((n - 1) * stride for n, stride in self.steps)


class Pieces(NamedTuple):
    """What regions are made of: the places of each piece, and the pieces of each region."""

    sizes: tuple[int, ...]
    of: tuple[tuple[int, ...], ...]

    def union(self, regions: Sequence[int]) -> int:
        """Places of these regions together."""
        return sum(self.sizes[piece] for piece in {piece for region in regions for piece in self.of[region]})

    @property
    def apart(self) -> bool:
        """Whether no two regions share a place."""
        return sum(map(len, self.of)) == len(self.sizes)


def pieces(regions: Sequence[Stretches]) -> Pieces | None:
    """Cut regions where one of them begins or ends, place by place where they are no boxes; None for too many."""
    cut = _boxes(regions) or _places(regions)
    if cut is None:
        return None
    held, spans = cut
    marks = np.random.default_rng(0).integers(1, 2**63, len(regions), dtype=np.int64)  # a sum names who holds a cell
    cells = np.zeros(held.shape, np.int64)
    for span, mark in zip(spans, marks, strict=True):
        cells[span] ^= mark
    names, numbers = np.unique(cells, return_inverse=True)
    numbers = numbers.reshape(held.shape)
    sizes = np.bincount(numbers.ravel(), weights=held.ravel(), minlength=len(names))
    kept = {int(number): 0 for span in spans for number in np.unique(numbers[span])}
    order = {number: at for at, number in enumerate(kept)}
    of = tuple(tuple(sorted(order[int(number)] for number in np.unique(numbers[span]))) for span in spans)
    return Pieces(tuple(int(sizes[number]) for number in kept), of)


#: Places in each cell, and the cells of each region.
_Cells = tuple[np.ndarray[Any, Any], list[Any]]


def _boxes(regions: Sequence[Stretches]) -> _Cells | None:
    """Cells between the edges of regions that are boxes on one grid."""
    strides = sorted({stride for region in regions for _, stride in region.steps}, reverse=True)
    if any(far % near for far, near in pairwise(strides)):
        return None
    boxes = [_box(region, strides) for region in regions]
    if not all(boxes):
        return None
    edges = [sorted({edge for box in boxes for edge in box[level]}) for level in range(len(strides))]
    shape = [len(level) - 1 for level in edges]
    if prod(shape) * len(regions) > _MOST:
        return None
    at = [{edge: place for place, edge in enumerate(level)} for level in edges]
    held = np.ones(shape, np.int64)
    for level, edge in enumerate(edges):
        held *= np.diff(edge).reshape([-1 if place == level else 1 for place in range(len(shape))])
    return held, [tuple(slice(at[n][a], at[n][b]) for n, (a, b) in enumerate(box)) for box in boxes]


def _places(regions: Sequence[Stretches]) -> _Cells | None:
    """Every place as a cell of its own."""
    extent = max(region.last for region in regions) + 1
    if extent * len(regions) > _MOST:
        return None
    spans = []
    for region in regions:
        places = np.array([region.start])
        for n, stride in region.steps:
            places = np.add.outer(places, np.arange(n) * stride).ravel()
        spans.append(np.unique(places))
    return np.ones(extent, np.int64), spans


def _box(region: Stretches, strides: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """First and last place of a region at each distance; nothing where it is no box."""
    counts = {stride: n for n, stride in region.steps}
    if len(counts) < len(region.steps):
        return ()
    box, left = [], region.start
    for level, stride in enumerate(strides):
        first, left = divmod(left, stride)
        n = counts.get(stride, 1)
        if level and first + n > strides[level - 1] // stride:
            return ()
        box.append((first, first + n))
    return tuple(box)


def in_one_stretch(regions: Sequence[Stretches]) -> bool:
    """Whether the stretches of memory that regions span run into each other."""
    spans = sorted((region.start, region.last) for region in regions)
    return any(second[0] <= first[1] for first, second in pairwise(spans))
