"""The simplest prices, which the others are made of: work on the vector unit, bytes that move, an unknown operation.

>>> x, y = Tensor("x", (64, 8192), "bf16"), Tensor("y", (64, 8192), "bf16")
>>> vector("double", "elementwise", [x], [y], flops=x.elements).work
Work(flops/vector/bf16: 524288)
>>> move("copy", [x], [y]).work, unknown("my_kernel", [x], [y]).note
(Work(), 'no rule')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline import dtypes
from roofline.errors import DTypeError
from roofline.sizes import Size, is_zero
from roofline.work import Op, Tensor, Work

#: The kind of an operation without a rule: its tensors are known, its arithmetic is not.
UNKNOWN = "unknown"


def arithmetic(tensors: Sequence[Tensor]) -> str:
    """Choose the arithmetic dtype of an operation: the widest float among its tensors, else the widest integer.

    >>> arithmetic([Tensor("i", (8,), "int64"), Tensor("x", (8,), "bf16")])
    'bf16'
    """
    formats = {tensor.dtype: dtypes.get(tensor.dtype) for tensor in tensors}
    floats = [name for name, found in formats.items() if found.family != "int"]
    try:
        return dtypes.arithmetic(floats or formats or ["fp32"])
    except DTypeError:
        return max((formats[name] for name in floats or formats), key=lambda found: found.bits).arithmetic


def written(op: Op) -> Size:
    """Elements of the results."""
    amounts = [tensor.elements if tensor.touched is None else tensor.touched for tensor in op.writes]
    return sum(amounts[1:], amounts[0]) if amounts else 0


def vector(
    name: str,
    kind: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    flops: Size,
    elements: Size | None = None,
    transcendentals: Size = 0,
    dims: Mapping[str, Size] | None = None,
    one_each: Size | None = None,
    compute: str | None = None,
    note: str = "",
) -> Op:
    """Anything on the vector unit: stated FLOPs over the tensors that move."""
    dtype = compute or arithmetic([*reads, *writes])
    work = Work() if is_zero(flops) else Work.flops("vector", dtype, flops)
    options: dict[str, Any] = {} if one_each is None else {"one_each": one_each}
    op = Op(name, kind, work, tuple(reads), tuple(writes), options=options, note=note)
    facts = {"elements": written(op) if elements is None else elements, "transcendentals": transcendentals}
    return Op(name, kind, work, op.reads, op.writes, {**facts, **(dims or {})}, note=note, options=options)


def move(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, kind: str = "copy", note: str = "") -> Op:
    """Move bytes and compute nothing: a copy, a concatenation, a gather, a fill."""
    op = Op(name, kind, Work(), tuple(reads), tuple(writes), note=note)
    return Op(name, kind, Work(), op.reads, op.writes, {"elements": written(op)}, note=note)


def unknown(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], reason: str = "no rule") -> Op:
    """An operation without a rule: its tensors are known, its arithmetic is not; it is listed as a gap."""
    return Op(name, UNKNOWN, Work(), tuple(reads), tuple(writes), note=reason)
