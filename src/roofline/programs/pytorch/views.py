"""Views of one storage: which bytes each reaches, so that an operation reads each of them once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from roofline.programs.pytorch.open_sizes import hinted_size
from roofline.programs.regions import Pieces, Stretches, in_one_stretch, pieces
from roofline.sizes import Size
from roofline.work import Op, Tensor


def region_of(tensor: Any) -> Stretches:
    """The bytes that a view reaches in its storage; an open size counts as PyTorch takes it."""
    width = tensor.element_size()
    shape, strides = map(hinted_size, tensor.shape), map(hinted_size, tensor.stride())
    steps = sorted(
        ((n, stride * width) for n, stride in zip(shape, strides, strict=True) if n > 1 and stride), key=_far
    )
    return Stretches(hinted_size(tensor.storage_offset()) * width, (*steps, (width, 1)))


def _far(step: tuple[int, int]) -> int:
    return -step[1]


@dataclass(slots=True)
class _Seen:
    """The views of one tensor that were read, and whether the program made it."""

    made: bool
    numbers: dict[Stretches, int] = field(default_factory=dict)


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
            apart = cut.apart if cut else not in_one_stretch(list(seen.numbers))
            whole = any(t.ident == ident for views in read for t in views)
            if seen.made or whole or not apart:
                fixed = cut is not None and all(_fixed(t) for views in read for t in views)
                in_pieces = fixed and not seen.made and not whole and len(read) > 1
                change[ident] = _Whole(ident, list(seen.numbers), cut, in_pieces, apart, not seen.made)
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
    regions: Sequence[Stretches] = ()
    cut: Pieces | None = None
    in_pieces: bool = False
    apart: bool = False
    outside: bool = False

    def read(self, views: Sequence[Tensor]) -> Sequence[Sequence[Tensor]]:
        """For each of the views that an operation reads, what moves: the bytes of all of them once."""
        numbers = {t.ident: int(t.ident.partition("[")[2][:-1]) for t in views if t.ident != self.ident}
        if self.in_pieces:
            return [self._pieces(views[0], list(numbers.values())), *((),) * (len(views) - 1)]
        named = [replace(t, ident=self.ident) for t in views]
        if len(views) == 1 or not numbers:
            return [(_part(t) if numbers and self.outside else t,) for t in named]
        whole = next((t for t in views if t.ident == self.ident), None)
        if whole is not None:
            return [(_touching(t, whole.elements if whole.touched is None else whole.touched),) for t in named]
        if self.cut is not None and all(map(_fixed, views)):
            nbytes = self.cut.union(list(numbers.values()))
            held = [self.regions[numbers[t.ident]].size for t in views]
            moved = [_touching(t, nbytes * t.elements // own) for t, own in zip(named, held, strict=True)]
            return [(_part(t) if self.outside else t,) for t in moved]
        if self.apart:
            amounts = {t.ident: t.elements if t.touched is None else t.touched for t in views}
            return [(replace(t, touched=sum(amounts.values())),) for t in named]
        return [(t,) for t in named]

    def _pieces(self, like: Tensor, views: Sequence[int]) -> Sequence[Tensor]:
        assert self.cut is not None
        own = self.regions[views[0]].size
        return [
            replace(like, ident=f"{self.ident}[{piece}]", dims=(self.cut.sizes[piece] * like.elements // own,))
            for piece in sorted({piece for view in views for piece in self.cut.of[view]})
        ]


def _part(tensor: Tensor) -> Tensor:
    """The tensor as a part of one that is read whole elsewhere."""
    return tensor if tensor.touched is not None else replace(tensor, touched=tensor.elements)


def _touching(tensor: Tensor, elements: Size) -> Tensor:
    """The tensor with so many elements of it moved."""
    plain = type(elements) is int and type(tensor.elements) is int and elements == tensor.elements
    return tensor if plain and tensor.touched is None else replace(tensor, touched=elements)
