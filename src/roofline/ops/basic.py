"""The simplest prices, which the others are made of: work on the vector unit, bytes that move, an unknown operation.

>>> x, y = Tensor("x", (64, 8192), "bf16"), Tensor("y", (64, 8192), "bf16")
>>> vector("double", "elementwise", [x], [y], flops=x.elements).work
Work(flops/vector/bf16: 524288)
>>> move("copy", [x], [y]).work, unknown("my_kernel", [x], [y]).note
(Work(), 'no rule')

Raw work is FLOPs and bytes, or an intensity, with no operation behind them:

>>> raw(flops=1e12, bytes=2e9).work
Work(flops/matrix/bf16: 1000000000000.0, bytes/main: 2000000000.0)
>>> raw(intensity=25, dtype="fp32").work                  # as many FLOPs for each byte
Work(flops/matrix/fp32: 25, bytes/main: 1)

Data also moves as copies, which compute nothing, and as rows looked up in a table:

>>> x = Tensor("x", (64, 4096), "bf16")
>>> move("transpose", [x], [Tensor("y", (4096, 64), "bf16")]).work
Work()
>>> table = Tensor("table", (128256, 4096), "bf16", "weight")
>>> tokens, out = Tensor("tokens", (8, 1), "int32", "index"), Tensor("h", (8, 1, 4096), "bf16")
>>> op = embedding("embedding", (table, tokens), (out,))
>>> op.work, op.reads[0].traffic_bytes, op.reads[0].capacity_bytes
(Work(), 65536, 1050673152)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline import dtypes
from roofline.errors import DTypeError, InputError, SizeError, check_one_of
from roofline.frozen import replace
from roofline.notation.structure import Step
from roofline.ops.rules import Context, register, show_size
from roofline.signatures import spelled, takes
from roofline.sizes import Size, ceil_div, has_exact, is_array, is_number, is_symbol, is_zero, minimum
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


def written_elements(op: Op) -> Size:
    """Elements of the results."""
    return sum(tensor.traffic_elements for tensor in op.writes)


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
    function: str = "",
) -> Op:
    """Anything on the vector unit: stated FLOPs over the tensors that move; ``function`` is the one it is priced as.

    A formula in n − 1 gives less than nothing for an empty axis, where nothing is done.
    """
    flops = 0 if is_number(flops) and flops < 0 else flops
    one_each = 0 if one_each is not None and is_number(one_each) and one_each < 0 else one_each
    dtype = compute or arithmetic([*reads, *writes])
    work = Work() if is_zero(flops) else Work.flops("vector", dtype, flops)
    options: dict[str, Any] = {} if one_each is None else {"one_each": one_each}
    options |= {"function": function} if function else {}
    elements = sum(tensor.traffic_elements for tensor in writes) if elements is None else elements
    dims = {"elements": elements, "transcendentals": transcendentals, **(dims or {})}
    return Op(name, kind, work, tuple(reads), tuple(writes), dims, note=note, options=options)


def move(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, kind: str = "copy", note: str = "") -> Op:
    """Move bytes and compute nothing: a copy, a concatenation, a gather, a fill."""
    dims = {"elements": sum(tensor.traffic_elements for tensor in writes)}
    return Op(name, kind, Work(), tuple(reads), tuple(writes), dims, note=note)


def unknown(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], reason: str = "no rule") -> Op:
    """An operation without a rule: its tensors are known, its arithmetic is not; it is listed as a gap."""
    return Op(name, UNKNOWN, Work(), tuple(reads), tuple(writes), note=reason)


_UNITS = ("matrix", "vector")


@takes()
def raw(
    *,
    flops: Size | None = None,
    bytes: Size | None = None,
    intensity: Size | None = None,
    dtype: str = "bf16",
    unit: str = "matrix",
    name: str = "raw work",
) -> Op:
    """Make an operation of given amounts: FLOPs on a unit in one arithmetic dtype, bytes at ``main``.

    Amounts are positive numbers, arrays or symbols; they need not be whole. ``intensity`` in FLOP/B stands alone: it is
    that many FLOPs for one byte.

    >>> raw(flops=-1)
    Traceback (most recent call last):
    roofline.errors.SizeError: flops is -1; an amount of work is a finite number above 0
    >>> raw(bytes=1e9, intensity=3)
    Traceback (most recent call last):
    roofline.errors.InputError: an intensity stands alone; give intensity=, or flops= and bytes=
    """
    check_one_of(f"unknown unit {unit!r}", unit, _UNITS, "units")
    if intensity is not None:
        if flops is not None or bytes is not None:
            hint = f"give {spelled('intensity')}, or {spelled('flops')} and {spelled('bytes')}"
            raise InputError("an intensity stands alone", hint=hint)
        flops, bytes = _amount("intensity", intensity), 1
    if flops is None and bytes is None:
        hint = f"give {spelled('flops')}, {spelled('bytes')} or both, or {spelled('intensity')}"
        raise InputError("raw work needs an amount", hint=hint)
    work = Work()
    if flops is not None:
        work += Work.flops(unit, dtypes.arithmetic_name(dtype), _amount("flops", flops))
    if bytes is not None:
        work += Work.bytes("main", _amount("bytes", bytes))
    return Op(name, "raw", work)


def _amount(name: str, value: Any) -> Size:
    if is_symbol(value) and not value.is_number:
        return value
    hint = "an amount of work is a finite number above 0"
    if is_array(value):
        if value.dtype.kind not in "iuf" or value.size == 0:
            raise SizeError(f"{name} is not an array of numbers", hint=hint)
        if not ((value > 0) & (value < float("inf"))).all():
            raise SizeError(f"{name} is {show_size(value)}", hint=hint)
        return value.astype(float)
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise SizeError(f"{name} is {value!r}", hint=hint)
    if not 0 < value < float("inf"):
        raise SizeError(f"{name} is {value}", hint=hint)
    return value


def embedding(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, parts: Size = 1) -> Op:
    """Gather one row of a table [V, D] for every index; ``reads`` are the table and the indices.

    0 FLOPs, and only the rows that are touched move::

        table bytes = min(indices, V)·D elements         a row that several indices name is read once at best
        indices read once, indices·D elements written

    Of a table split by rows into ``parts`` this is one with V rows: it holds what an even share of the indices names,
    and writes zeros for the others.

    Which rows repeat depends on the data; for fewer indices than rows this takes them all to differ.
    """
    table, indices = reads
    rows = indices.elements
    is_open = any(is_symbol(size) and not has_exact(size) for size in (rows, parts))
    even = rows / parts if is_open else ceil_div(rows, parts)
    touched = minimum(even, table.dims[0]) * table.dims[1]
    dims = {"rows": rows, "width": table.dims[1], "table_rows": table.dims[0]}
    note = "an embedding reads the rows its indices name, not the whole table"
    read = replace(table, touched=touched), indices
    return Op(name, "embedding", Work(), read, tuple(writes), dims, note=note)


@register("copy")
def copy_rule(step: Step, context: Context) -> Op:
    """Price a transposition: read once, written once."""
    x, out = context.tensor(step.inputs[0]), context.tensor(step.output)
    return move(step.text or step.function, [x], [out])


@register("embedding")
def embedding_rule(step: Step, context: Context) -> Op:
    """Price a lookup: the table, then the indices."""
    table, indices = step.inputs
    reads, out = (context.operand(table), context.tensor(indices, "index")), context.tensor(step.output)
    return embedding(step.text or "embedding", reads, (out,), parts=context.ways.get(table.labels[0], 1))
