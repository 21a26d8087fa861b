"""What the floor has to know of tensors: parts that are cut out of them, results that the program reads too.

A part goes by the name of its tensor with a bracket, first:last:step of each dimension where they are known:

>>> halves = [Tensor(f"x[{at}:{at + 4}]", (8,), "fp32", touched=4) for at in (0, 4)]
>>> ops = [Op("add", "elementwise", reads=(part,)) for part in halves]
>>> [t.ident for op in named_apart(ops) for t in op.reads]
['x[0]', 'x[1]']
>>> ops.append(Op("sum", "reduction", reads=(Tensor("x", (8,), "fp32"),)))
>>> [t.ident for op in named_apart(ops) for t in op.reads]
['x', 'x', 'x']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from roofline.programs.regions import Stretches, pieces
from roofline.sizes import Size, product
from roofline.work import Op, Tensor


def named_apart(ops: Sequence[Op]) -> tuple[Op, ...]:
    """The operations, parts of an outside tensor under names of their own, all others under that of the whole.

    So the policy ``minimal`` counts what the parts have together. Parts whose places are known are read as the pieces
    that they have in common and those that they have not; of others each is one, if there are no more of them than the
    tensor holds. A part of what the program made, or of what is read whole too, goes by the name of the whole.
    """
    parts: dict[str, dict[str, Tensor]] = {}
    plain = {t.ident for op in ops for t in (*op.reads, *op.writes)}
    for op in ops:
        for tensor in op.reads:
            base, bracket, _ = tensor.ident.partition("[")
            if bracket and base not in plain:
                parts.setdefault(base, {})[tensor.ident] = tensor
    cut: dict[str, tuple[Tensor, ...]] = {}
    kept: set[str] = set()
    for base, found in parts.items():
        known = _pieces(base, found)
        cut |= known
        if not known and _apart(found):
            kept.add(base)

    def named(tensor: Tensor) -> tuple[Tensor, ...]:
        base, bracket, _ = tensor.ident.partition("[")
        whole = tensor if not bracket or base in kept else replace(tensor, ident=base)
        return cut.get(tensor.ident, (whole,))

    return tuple(replace(op, reads=tuple(each for t in op.reads for each in named(t))) for op in ops)


def _apart(parts: Mapping[str, Tensor]) -> bool:
    """Whether parts whose places are not known are taken to be apart: together they are no more than the tensor."""
    held = [t.elements if t.touched is None else t.touched for t in parts.values()]
    last = list(parts.values())[-1]
    whole: Size = held[-1] if last.touched is None else last.elements
    numbers = all(isinstance(amount, int) for amount in (*held, whole))
    return any(ident.endswith("[1:]") for ident in parts) or (numbers and sum(held) <= whole)


def _pieces(base: str, parts: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, ...]]:
    """The pieces that each part is made of; nothing where the places of one are not known."""
    if len({t.dims for t in parts.values()}) != 1:
        return {}
    regions = [_stretches(tensor) for tensor in parts.values()]
    known = [region for region in regions if region is not None]
    found = pieces(known) if len(known) == len(regions) else None
    if found is None:
        return {}
    return {
        ident: tuple(
            replace(tensor, ident=f"{base}[{piece}]", dims=(found.sizes[piece],), touched=None) for piece in held
        )
        for (ident, tensor), held in zip(parts.items(), found.of, strict=True)
    }


def _stretches(tensor: Tensor) -> Stretches | None:
    """The places of a part by its name, where they are numbers."""
    edges = [edge.split(":") for edge in tensor.ident.partition("[")[2].rstrip("]").split(",")]
    numbers = all(len(edge) in (2, 3) and all(word.isdigit() for word in edge) for edge in edges)
    if not numbers or len(edges) != len(tensor.dims) or not all(type(size) is int for size in tensor.dims):
        return None
    start, steps = 0, []
    for place, edge in enumerate(edges):
        first, last, step = *map(int, edge[:2]), int(edge[2]) if len(edge) == 3 else 1
        stride = int(product(tensor.dims[place + 1 :]))
        start += first * stride
        steps.append((-(-(last - first) // step), step * stride))
    kept = [(n, stride) for n, stride in steps if n > 1]
    if not any(stride == 1 for _, stride in kept):
        kept.append((1, 1))
    return Stretches(start, tuple(sorted(kept, key=lambda step: -step[1])))


def given_back(ops: Sequence[Op], results: Set[str]) -> tuple[Op, ...]:
    """The operations, what they give back written for good though the program reads it too.

    >>> h, y = Tensor("h", (8,), "fp32"), Tensor("y", (8,), "fp32")
    >>> ops = [Op("linear", "contraction", writes=(h,)), Op("relu", "elementwise", reads=(h,), writes=(y,))]
    >>> [t.role for op in given_back(ops, {"h", "y"}) for t in op.writes]
    ['state', 'activation']
    """
    read = {t.ident for op in ops for t in op.reads} & results
    last = {t.ident: place for place, op in enumerate(ops) for t in op.writes if t.ident in read and t.touched is None}

    def kept(place: int, tensor: Tensor) -> Tensor:
        stays = tensor.ident in read and tensor.role == "activation" and last.get(tensor.ident, place) == place
        return replace(tensor, role="state") if stays else tensor

    return tuple(
        replace(op, writes=tuple(kept(place, t) for t in op.writes)) if read else op for place, op in enumerate(ops)
    )
