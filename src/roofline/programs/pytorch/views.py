"""Views of one storage: which bytes each reaches, so that an operation reads each of them once.

>>> left, right = ByteRegion(0, ((4, 32), (16, 1))), ByteRegion(16, ((4, 32), (16, 1)))  # halves of four rows of 32 B
>>> pieces([left, right])
Pieces(sizes=(64, 64), of=((0,), (1,)))
>>> pieces([left, ByteRegion(0, ((4, 32), (24, 1)))])                           # the second holds the first
Pieces(sizes=(64, 32), of=((0,), (0, 1)))
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from roofline.programs.pytorch.open_sizes import hinted_size
from roofline.sizes import Size
from roofline.work import Op, Tensor

#: Views of one storage are told apart byte by byte up to so many stretches between their edges, times views.
_MOST = 10**7


class ByteRegion(NamedTuple):
    """The bytes that a view reaches: where they start, and how many there are at which distances."""

    start: int
    steps: tuple[tuple[int, int], ...]

    @property
    def bytes(self) -> int:
        """How many they are."""
        return prod(n for n, _ in self.steps)

    @property
    def last(self) -> int:
        """The last of them."""
        return self.start + sum((n - 1) * stride for n, stride in self.steps)


class Pieces(NamedTuple):
    """What regions are made of: the bytes of each piece, and the pieces of each region."""

    sizes: tuple[int, ...]
    of: tuple[tuple[int, ...], ...]

    def union(self, regions: Sequence[int]) -> int:
        """Bytes of these regions together."""
        return sum(self.sizes[piece] for piece in {piece for region in regions for piece in self.of[region]})

    @property
    def apart(self) -> bool:
        """Whether no two regions share a byte."""
        return sum(map(len, self.of)) == len(self.sizes)


def region_of(tensor: Any) -> ByteRegion:
    """The bytes that a view reaches in its storage; an open size counts as PyTorch takes it."""
    width = tensor.element_size()
    shape, strides = map(hinted_size, tensor.shape), map(hinted_size, tensor.stride())
    steps = sorted(
        ((n, stride * width) for n, stride in zip(shape, strides, strict=True) if n > 1 and stride), key=_far
    )
    return ByteRegion(hinted_size(tensor.storage_offset()) * width, (*steps, (width, 1)))


def _far(step: tuple[int, int]) -> int:
    return -step[1]


def pieces(regions: Sequence[ByteRegion]) -> Pieces | None:
    """Cut regions where one of them begins or ends; None where they are not boxes on one grid, or too many."""
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
    places = [{edge: at for at, edge in enumerate(level)} for level in edges]
    spans = [tuple(slice(at[a], at[b]) for at, (a, b) in zip(places, box, strict=True)) for box in boxes]
    marks = np.random.default_rng(0).integers(1, 2**63, len(regions), dtype=np.int64)  # a sum names who holds a cell
    cells = np.zeros(shape, np.int64)
    for span, mark in zip(spans, marks, strict=True):
        cells[span] ^= mark
    held = np.ones(shape, np.int64)
    for level, edge in enumerate(edges):
        held *= np.diff(edge).reshape([-1 if place == level else 1 for place in range(len(shape))])
    names, numbers = np.unique(cells, return_inverse=True)
    numbers = numbers.reshape(shape)
    sizes = np.bincount(numbers.ravel(), weights=held.ravel(), minlength=len(names))
    kept = {int(number): 0 for span in spans for number in np.unique(numbers[span])}
    order = {number: at for at, number in enumerate(kept)}
    of = tuple(tuple(sorted(order[int(number)] for number in np.unique(numbers[span]))) for span in spans)
    return Pieces(tuple(int(sizes[number]) for number in kept), of)


def _box(region: ByteRegion, strides: Sequence[int]) -> tuple[tuple[int, int], ...]:
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


@dataclass(slots=True)
class _Seen:
    """The views of one tensor that were read, and whether the program made it."""

    made: bool
    numbers: dict[ByteRegion, int] = field(default_factory=dict)


class ViewsRead:
    """Names the views that a program reads, and says at its end what each operation reads of a tensor."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def name(self, ident: str, tensor: Any, made: bool) -> str:
        """The name of a view that reaches a part of the tensor ``ident``."""
        numbers = self._seen.setdefault(ident, _Seen(made)).numbers
        return f"{ident}[{numbers.setdefault(region_of(tensor), len(numbers))}]"

    def settled(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        """The operations; parts of an outside tensor under names of their own, all others under that of the whole.

        What an operation reads of one tensor through several views moves once. Parts of an outside tensor that overlap
        are read as the pieces they have in common and those they have not, unless something reads the tensor whole.
        """
        readers: dict[str, list[list[Tensor]]] = defaultdict(list)
        for op in ops:
            for base, views in _by_tensor(op.reads).items():
                readers[base].append(views)
        change: dict[str, _Whole] = {}
        for ident, seen in self._seen.items():
            read = readers[ident]
            if seen.made and all(len(views) == 1 for views in read):
                change[ident] = _Whole(ident)
                continue
            cut = pieces(list(seen.numbers))
            apart = cut.apart if cut else not _in_one_stretch(list(seen.numbers))
            whole = any(t.ident == ident for views in read for t in views)
            if seen.made or whole or not apart:
                fixed = cut is not None and all(_fixed(t) for views in read for t in views)
                in_pieces = fixed and not seen.made and not whole and len(read) > 1
                change[ident] = _Whole(ident, list(seen.numbers), cut, in_pieces, apart)
        return tuple(replace(op, reads=_changed(op.reads, change)) for op in ops) if change else tuple(ops)


def _by_tensor(reads: Sequence[Tensor]) -> dict[str, list[Tensor]]:
    """What an operation reads by the tensor that it is a view of."""
    views: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in reads:
        views[tensor.ident.partition("[")[0]].append(tensor)
    return views


def _fixed(tensor: Tensor) -> bool:
    """Whether a number of elements moves, all that the view reaches."""
    return type(tensor.elements) is int and tensor.touched is None


def _changed(reads: Sequence[Tensor], change: Mapping[str, _Whole]) -> tuple[Tensor, ...]:
    """What an operation reads, the views of each tensor together."""
    become = {base: iter(change[base].read(held)) for base, held in _by_tensor(reads).items() if base in change}
    bases = [tensor.ident.partition("[")[0] for tensor in reads]
    return tuple(
        made
        for tensor, base in zip(reads, bases, strict=True)
        for made in (next(become[base]) if base in become else (tensor,))
    )


@dataclass(frozen=True, slots=True)
class _Whole:
    """What an operation reads of one tensor through its views."""

    ident: str
    regions: Sequence[ByteRegion] = ()
    cut: Pieces | None = None
    in_pieces: bool = False
    apart: bool = False

    def read(self, views: Sequence[Tensor]) -> Sequence[Sequence[Tensor]]:
        """For each of the views that an operation reads, what moves: the bytes of all of them once."""
        numbers = {t.ident: int(t.ident.partition("[")[2][:-1]) for t in views if t.ident != self.ident}
        if self.in_pieces:
            return [self._pieces(views[0], list(numbers.values())), *((),) * (len(views) - 1)]
        named = [replace(t, ident=self.ident) for t in views]
        if len(numbers) == len(views) == 1 or not numbers:
            return [(t,) for t in named]
        whole = next((t for t in views if t.ident == self.ident), None)
        if whole is not None:
            return [(_touching(t, whole.elements if whole.touched is None else whole.touched),) for t in named]
        if self.cut is not None and all(map(_fixed, views)):
            nbytes = self.cut.union(list(numbers.values()))
            held = [self.regions[numbers[t.ident]].bytes for t in views]
            return [(_touching(t, nbytes * t.elements // own),) for t, own in zip(named, held, strict=True)]
        if self.apart:
            amounts = {t.ident: t.elements if t.touched is None else t.touched for t in views}
            return [(replace(t, touched=sum(amounts.values())),) for t in named]
        return [(t,) for t in named]

    def _pieces(self, like: Tensor, views: Sequence[int]) -> Sequence[Tensor]:
        assert self.cut is not None
        own = self.regions[views[0]].bytes
        return [
            replace(like, ident=f"{self.ident}[{piece}]", dims=(self.cut.sizes[piece] * like.elements // own,))
            for piece in sorted({piece for view in views for piece in self.cut.of[view]})
        ]


def _touching(tensor: Tensor, elements: Size) -> Tensor:
    """The tensor with so many elements of it moved."""
    plain = type(elements) is int and type(tensor.elements) is int and elements == tensor.elements
    return tensor if plain and tensor.touched is None else replace(tensor, touched=elements)


def _in_one_stretch(regions: Sequence[ByteRegion]) -> bool:
    """Whether the stretches of memory that regions span run into each other."""
    spans = sorted((region.start, region.last) for region in regions)
    return any(second[0] <= first[1] for first, second in pairwise(spans))
