"""What the floor has to know of tensors: parts that are cut out of them, results that the program reads too.

A part goes by the name of its tensor with a bracket: ``x[0:4]``.

>>> halves = [Tensor(f"x[{at}:{at + 4}]", (8,), "fp32", touched=4) for at in (0, 4)]
>>> ops = [Op("add", "elementwise", reads=(part,)) for part in halves]
>>> [t.ident for op in named_apart(ops) for t in op.reads]
['x[0:4]', 'x[4:8]']
>>> ops.append(Op("sum", "reduction", reads=(Tensor("x", (8,), "fp32"),)))
>>> [t.ident for op in named_apart(ops) for t in op.reads]
['x', 'x', 'x']
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from roofline.sizes import Size
from roofline.work import Op, Tensor


def named_apart(ops: Sequence[Op]) -> tuple[Op, ...]:
    """The operations, parts that do not overlap under names of their own, all others under that of the whole."""
    kept = apart(ops)
    return tuple(replace(op, reads=tuple(whole(t, kept) for t in op.reads)) for op in ops)


def apart(ops: Sequence[Op]) -> set[str]:
    """Tensors from outside whose parts are read under names of their own, since the parts do not overlap.

    So the policy ``minimal`` counts each part. A part of what the program made, of what is read whole too, or of what
    is read more than once over, goes by the name of the whole.
    """
    parts: dict[str, dict[str, Size]] = {}
    plain = {t.ident for op in ops for t in (*op.reads, *op.writes)}
    sizes: dict[str, Size] = {}
    for op in ops:
        for tensor in op.reads:
            base, bracket, _ = tensor.ident.partition("[")
            if bracket:
                held = tensor.elements if tensor.touched is None else tensor.touched
                parts.setdefault(base, {})[tensor.ident] = held
                sizes[base] = tensor.elements if tensor.touched is not None else held
    found = set()
    for base, regions in parts.items():
        amounts = list(regions.values())
        numbers = all(isinstance(amount, int) for amount in (*amounts, sizes[base]))
        looped = any(ident.endswith("[1:]") for ident in regions)
        if base not in plain and (looped or (numbers and sum(amounts) <= sizes[base])):
            found.add(base)
    return found


def whole(tensor: Tensor, kept: set[str]) -> Tensor:
    """A part under its own name where its tensor is among those kept apart, else under that of the whole."""
    base, bracket, _ = tensor.ident.partition("[")
    return tensor if not bracket or base in kept else replace(tensor, ident=base)


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
