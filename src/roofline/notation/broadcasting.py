"""Elementwise operations: which dimensions their operands share and what the result looks like.

Operands broadcast when one label set contains the other; numbers pair from the right as in numpy, and a written 1
stretches. With a written result every operand's labels must stand in it.

>>> from roofline.notation import program
>>> program("bf16[D] + bf16[B, S, D]").steps[0].output.labels
('B', 'S', 'D')
>>> program("bf16[B, 1] + bf16[1, D]").steps[0].output.labels
('B', 'D')
>>> program("bf16[B] + bf16[D] -> bf16[B, D]").steps[0].output.labels
('B', 'D')
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.errors import NotationError
from roofline.notation.result import match
from roofline.notation.scope import Scope, Wanted, is_number, rename
from roofline.notation.structure import Axis, Shape, Span


def broadcast(
    scope: Scope, shapes: Sequence[Shape], wanted: Wanted, span: Span | int, what: str
) -> tuple[list[Shape], tuple[Axis, ...]]:
    """Pair the dimensions of all operands; return them relabelled, and the axes of the result."""
    if wanted.dims and wanted.output and all(dim.name for dim in wanted.output.dims or ()):
        named = _by_written_labels(scope, shapes, wanted)
        if named is not None:
            return list(shapes), named
    operands = [shapes[0]]
    axes = shapes[0].axes
    for shape in shapes[1:]:
        axes, renamed = _join(scope, axes, shape, span, what)
        operands = [rename(operand, renamed) for operand in (*operands, shape)]
    if wanted.dims and wanted.output:
        written = _reordered(axes, wanted)
        axes, renamed = match(scope, written or axes, wanted, what)
        operands = [rename(operand, renamed) for operand in operands]
    return operands, axes


def _by_written_labels(scope: Scope, shapes: Sequence[Shape], wanted: Wanted) -> tuple[Axis, ...] | None:
    output = wanted.output
    if output is None or any(is_number(label) for shape in shapes for label in shape.labels):
        return None
    dims = output.dims or ()
    written = [dim.name or "" for dim in dims]
    for position, name in enumerate(written):
        if name in written[:position]:
            raise scope.fail(f"{name} stands twice in the result", dims[position].span)
        if not any(name in shape.labels for shape in shapes):
            raise scope.fail(f"{name} stands in the result and in no operand", dims[position].span)
    for shape in shapes:
        for label in shape.labels:
            if label not in written:
                place = scope.place(shape, label, output.span)
                hint = f"add {label} to the result, or sum over it first: sum_{label}(…)"
                raise scope.fail(f"{label} stands in an operand and not in the result", place, hint)
    return tuple(Axis(dim.name or "", dim.axes) for dim in dims)


def _reordered(axes: Sequence[Axis], wanted: Wanted) -> tuple[Axis, ...] | None:
    """Put the axes into the written order where the written names are the same set."""
    dims = wanted.output.dims if wanted.output else None
    by_label = {axis.label: axis for axis in axes}
    if not dims or {dim.name for dim in dims} != set(by_label) or len(dims) != len(axes):
        return None
    return tuple(by_label[dim.name or ""] for dim in dims)


def _join(
    scope: Scope, axes: tuple[Axis, ...], shape: Shape, span: Span | int, what: str
) -> tuple[tuple[Axis, ...], dict[str, str]]:
    large, small = (axes, shape.axes) if len(axes) >= len(shape.axes) else (shape.axes, axes)
    within = {axis.label for axis in large}
    if all(axis.label in within for axis in small):
        return _with_shards(large, small), {}
    if not any(is_number(axis.label) for axis in (*axes, *shape.axes)):
        raise _unlike(scope, axes, shape.axes, span, what)
    offset = len(large) - len(small)
    joined = list(large)
    renamed: dict[str, str] = {}
    for position, axis in enumerate(small):
        other = large[offset + position]
        if scope.is_one(axis.label):
            continue
        if scope.is_one(other.label):
            joined[offset + position] = axis
            continue
        label = scope.pair(other.label, axis.label)
        if label is None:
            raise _unlike(scope, axes, shape.axes, span, what, other.label, axis.label)
        renamed.update({old: label for old in (other.label, axis.label) if old != label})
        joined[offset + position] = Axis(label, other.shard or axis.shard)
    if len({axis.label for axis in joined}) != len(joined):
        raise _unlike(scope, axes, shape.axes, span, what)
    return tuple(joined), renamed


def _with_shards(large: Sequence[Axis], small: Sequence[Axis]) -> tuple[Axis, ...]:
    shards = {axis.label: axis.shard for axis in small}
    return tuple(axis if axis.shard else Axis(axis.label, shards.get(axis.label, ())) for axis in large)


def _unlike(
    scope: Scope,
    left: Sequence[Axis],
    right: Sequence[Axis],
    span: Span | int,
    what: str,
    one: str = "",
    other: str = "",
) -> NotationError:
    shown = f"{what} of {scope.show_axes(left)} and {scope.show_axes(right)}"
    if one and is_number(one) and is_number(other):
        message = f"{shown}: {scope.show_label(one)} meets {scope.show_label(other)}"
        return scope.fail(message, span, "sizes are equal or 1, paired from the right")
    hint = "the dimensions of one must contain those of the other, or write the result: -> …"
    if "?" in shown:
        hint = "name the computed sizes where they arise, as in conv(…) -> bf16[B, P, Q, O]"
    return scope.fail(f"{shown}: neither contains the other", span, hint)
