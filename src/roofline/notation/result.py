"""The dimensions of a result: what operands share, and how the written result matches.

Operands of an elementwise operation broadcast when one label set contains the other. Numbers pair from the right as in
numpy, and a written 1 stretches. With a written result every operand's labels must stand in it.

>>> from roofline.notation import program
>>> program("bf16[D] + bf16[B, S, D]").steps[0].output.labels
('B', 'S', 'D')
>>> program("bf16[B, 1] + bf16[1, D]").steps[0].output.labels
('B', 'D')
>>> program("bf16[B] + bf16[D] -> bf16[B, D]").steps[0].output.labels
('B', 'D')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.errors import NotationError
from roofline.notation.scope import Scope, Wanted, is_unnamed, rename
from roofline.notation.structure import Axes, CallNode, Dim, Shape, Span, TensorDim


def finish(
    scope: Scope,
    call: CallNode,
    operands: Sequence[Shape],
    given: Sequence[TensorDim],
    wanted: Wanted,
    *,
    computed: Sequence[str] = (),
    over: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Shape:
    """Add the step of a call whose result has the ``given`` axes; return that result.

    Labels that the written result renames are renamed in the operands, in ``over`` and in the groups of the options.
    Further ``facts`` are those of :meth:`Scope.add`.
    """
    axes, renamed = match(scope, given, wanted, call.function, computed=computed)
    chosen = dict(call.options if options is None else options)
    if isinstance(chosen.get("groups"), str):
        chosen["groups"] = renamed.get(chosen["groups"], chosen["groups"])
    return scope.add(
        "function",
        call.function,
        [rename(shape, renamed) for shape in operands],
        axes,
        span=call.span,
        wanted=wanted,
        over=tuple(renamed.get(label, label) for label in over),
        options=chosen,
        spelt=bool(call.over),
        **facts,
    )


def match(
    scope: Scope, given: Sequence[TensorDim], wanted: Wanted, what: str, *, computed: Sequence[str] = ()
) -> tuple[tuple[TensorDim, ...], dict[str, str]]:
    """Match the written result, position by position, with what an operation gives.

    Return the axes of the result and the labels to be replaced in the operands. ``computed`` labels are sizes
    that a cost rule works out (a convolution's output): a name written there names that size.
    """
    node, dims = wanted.output, wanted.dims
    if node is None or dims is None:
        return tuple(given), {}
    wrong = scope.fail(f"{what} gives {scope.show_axes(given)}", node.span, "write the result so, or leave it out")
    if len(dims) != len(given):
        raise wrong
    axes: list[TensorDim] = []
    renamed: dict[str, str] = {}
    for dim, axis in zip(dims, given, strict=True):
        label = axis.label
        if dim.name is None:
            size = scope.sizes.get(label)
            settable = not is_unnamed(label) and label not in scope.derived
            if size is None and settable and dim.size:
                scope.sizes[label] = size = dim.size
                scope.assume(f"{label} = {size}, the number it meets")
            if size != dim.size:
                raise wrong
        elif dim.name != label:
            if label in computed:
                _name_computed(scope, label, dim.name, dim.span)
            elif scope.pair(label, dim.name) is None:
                raise wrong
            else:
                renamed[label] = dim.name
            label = dim.name
        axes.append(TensorDim(label, dim.axes))
    repeated = next((n for n, axis in enumerate(axes) if axis.label in [one.label for one in axes[:n]]), None)
    if repeated is not None:
        raise scope.fail(f"{axes[repeated].label} stands twice in the result", dims[repeated].span)
    return tuple(axes), renamed


def _name_computed(scope: Scope, label: str, name: str, span: Span) -> None:
    size = scope.sizes.get(label)
    if name in scope.derived or name in {label for _, label in scope.places}:
        known = scope.sizes.get(name)
        if size is None or known != size:
            owner = "another computed size" if name in scope.derived else "an input's size"
            shown = f" = {known}" if known is not None else ""
            computed = f"is {size}" if size is not None else "is computed"
            message = f"{name}{shown} is {owner}; this size of the result {computed}"
            raise scope.fail(message, span, "give it a name of its own")
    scope.derived.add(name)
    if size is not None:
        scope.sizes[name] = size


def broadcast(
    scope: Scope, shapes: Sequence[Shape], wanted: Wanted, span: Span | int, what: str
) -> tuple[list[Shape], tuple[TensorDim, ...]]:
    """Pair the dimensions of all operands; return them relabelled, and the axes of the result."""
    if wanted.dims is not None and all(dim.name for dim in wanted.dims):
        named = _by_written_labels(scope, shapes, wanted)
        if named is not None:
            return list(shapes), named
    operands = [shapes[0]]
    axes = shapes[0].axes
    for shape in shapes[1:]:
        axes, renamed = _join(scope, axes, shape, span, what)
        operands = [rename(operand, renamed) for operand in (*operands, shape)]
    if wanted.dims is not None:
        named = reordered(scope, axes, wanted.dims) if all(dim.name for dim in wanted.dims) else None
        axes, renamed = match(scope, named or axes, wanted, what)
        operands = [rename(operand, renamed) for operand in operands]
    return operands, axes


def _by_written_labels(scope: Scope, shapes: Sequence[Shape], wanted: Wanted) -> tuple[TensorDim, ...] | None:
    output = wanted.output
    if output is None or any(is_unnamed(label) for shape in shapes for label in shape.labels):
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
    return tuple(TensorDim(dim.name or "", dim.axes) for dim in dims)


def reordered(scope: Scope, given: Sequence[TensorDim], dims: Sequence[Dim]) -> tuple[TensorDim, ...] | None:
    """The given axes in the written order, where the names are the same and the other sizes too."""
    free = [axis.label for axis in given]
    if len(dims) != len(free):
        return None
    for dim in dims:
        if dim.name and dim.name not in free:
            return None
        if dim.name:
            free.remove(dim.name)
    axes: list[TensorDim] = []
    for dim in dims:
        label = dim.name or next((item for item in free if scope.sizes.get(item) == dim.size), None)
        if label is None:
            return None
        if dim.name is None:
            free.remove(label)
        axes.append(TensorDim(label, dim.axes))
    return tuple(axes)


def _join(scope: Scope, axes: Axes, shape: Shape, span: Span | int, what: str) -> tuple[Axes, dict[str, str]]:
    large, small = (axes, shape.axes) if len(axes) >= len(shape.axes) else (shape.axes, axes)
    within = {axis.label for axis in large}
    if all(axis.label in within for axis in small):
        shards = {axis.label: axis.shard for axis in small}
        return tuple(axis if axis.shard else TensorDim(axis.label, shards.get(axis.label, ())) for axis in large), {}
    if not any(is_unnamed(axis.label) for axis in (*axes, *shape.axes)):
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
        joined[offset + position] = TensorDim(label, other.shard or axis.shard)
    if len({axis.label for axis in joined}) != len(joined):
        raise _unlike(scope, axes, shape.axes, span, what)
    return tuple(joined), renamed


def _unlike(
    scope: Scope, left: Axes, right: Axes, span: Span | int, what: str, one: str = "", other: str = ""
) -> NotationError:
    shown = f"{what} of {scope.show_axes(left)} and {scope.show_axes(right)}"
    if one and is_unnamed(one) and is_unnamed(other):
        message = f"{shown}: {scope.show_label(one)} meets {scope.show_label(other)}"
        return scope.fail(message, span, "sizes are equal or 1, paired from the right")
    hint = "the dimensions of one must contain those of the other, or write the result: -> …"
    if "?" in shown:
        hint = "name the computed sizes where they arise, as in conv(…) -> bf16[B, P, Q, O]"
    return scope.fail(f"{shown}: neither contains the other", span, hint)
