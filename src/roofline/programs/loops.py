"""Loops whose steps are walked together: of an array from outside each step may take another part.

So does a loop that picks a layer of stacked weights by its counter. The first step is walked apart, and the others read
as many parts beside its own as the array still has; what they take beyond that was read before.

>>> stack, layer = Tensor("w", (6, 8), "fp32", touched=8), Tensor("h", (8,), "fp32")
>>> op = Op("gather", "gather", reads=(stack,), writes=(layer,))
>>> def parts(length):
...     steps = LoopSteps(length - 1, before=1)
...     return [(each.reads[0].needed, times) for each, times in part_by_part(op, "w", steps, set())]
>>> parts(6), parts(9)
([(None, 5)], [(None, 5), (0, 3)])
>>> first_part(op, ("gather",), LoopSteps(5, before=1, in_parts={"w"})).reads[0].ident
'w[0]'
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from roofline.frozen import NamedTuple, replace
from roofline.sizes import Size
from roofline.work import Op, Tensor


class LoopSteps(NamedTuple):
    """Steps of a loop that are walked as one, behind ``before`` others.

    ``differ`` are tensors that differ from step to step, ``in_parts`` arrays from outside that are read part by part.
    ``again`` says that an outer loop runs through the steps more than once.
    """

    times: Size
    before: int
    differ: Any = frozenset()
    in_parts: Any = frozenset()
    again: bool = False


#: Operations that give several whole numbers one result, in JAX and ONNX: what they say is no part of its own.
_MANY_TO_ONE = frozenset(("div", "sign", "shift_right_logical", "shift_right_arithmetic", "Div", "Sign", "BitShift"))


def differing(name: str, results: Sequence[Tensor]) -> set[str]:
    """Results of an operation whose operands differ from step to step that differ as well; ``i // 2`` may not.

    >>> half, layer = Tensor("half", (), "int32"), Tensor("layer", (4, 4), "bf16")
    >>> differing("add", [half]), differing("div", [half]), differing("div", [layer])
    ({'half'}, set(), {'layer'})
    """
    return {
        each.ident
        for each in results
        if not (each.elements == 1 and (each.dtype == "bool" or ("int" in each.dtype and name in _MANY_TO_ONE)))
    }


def part_by_part(op: Op, source: str, steps: LoopSteps, read: set[str]) -> Sequence[tuple[Op, Size]]:
    """The operation, of which each step takes another part of ``source``, and in how many of the steps it does so.

    ``read`` are the arrays of which loops have read parts. An outer loop that runs through them again reads no more.
    """
    taken = next(t for t in op.reads if t.ident == source)
    size, name = taken.touched, f"{source}[{steps.before}:]"
    if not size or not all(isinstance(n, int) for n in (size, taken.elements, *steps[:2])):
        return [(op, steps.times)]
    fresh = 0 if steps.again else min(steps.times, max(0, taken.elements // size - steps.before))
    if taken.elements // size < 2 or (steps.again and source not in read):
        return [(op, steps.times)]

    def taking(part: Tensor) -> Op:
        return replace(op, reads=tuple(part if t is taken else t for t in op.reads))

    part = replace(taken, ident=name, storage=taken.storage or source)
    read.add(source)
    shares = [(part, fresh), (replace(part, needed=0), steps.times - fresh)]
    return [(taking(each), times) for each, times in shares if times]


def first_part(op: Op, names: Collection[str], steps: LoopSteps) -> Op:
    """An operation of a loop's first step, its part of an array that later steps read part by part named as such."""
    if op.name not in names or not op.reads or op.reads[0].ident not in steps.in_parts:
        return op
    taken = op.reads[0]
    part = replace(taken, ident=f"{taken.ident}[0]", storage=taken.storage or taken.ident)
    return replace(op, reads=(replace(part, needed=0) if steps.again else part, *op.reads[1:]))
