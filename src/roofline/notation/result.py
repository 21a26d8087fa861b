"""The written result of an operation, matched with the dimensions the operation gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.notation.scope import Scope, Wanted, is_number, rename
from roofline.notation.structure import Axis, CallNode, Shape, Span, TensorNode


def finish(
    scope: Scope,
    call: CallNode,
    operands: Sequence[Shape],
    given: Sequence[Axis],
    wanted: Wanted,
    *,
    typed_by: Sequence[Shape] = (),
    dtype: str | None = None,
    computed: Sequence[str] = (),
    over: Sequence[str] = (),
    unreduced: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> Shape:
    """Add the step of a call whose result has the ``given`` axes; return that result.

    Its dtype is ``dtype``, or that of the operands (or of those in ``typed_by``). Labels that the written result
    renames are renamed in the operands, in ``over`` and in the groups of the options.
    """
    axes, renamed = match(scope, given, wanted, call.function, computed=computed)
    compute, storage = scope.dtypes(typed_by or operands, call.span)
    chosen = dict(call.options if options is None else options)
    if isinstance(chosen.get("groups"), str):
        chosen["groups"] = renamed.get(chosen["groups"], chosen["groups"])
    return scope.add(
        "function",
        call.function,
        [rename(shape, renamed) for shape in operands],
        axes,
        dtype=dtype or storage,
        compute=compute,
        span=call.span,
        wanted=wanted,
        unreduced=unreduced,
        over=tuple(renamed.get(label, label) for label in over),
        options=chosen,
        spelt=bool(call.over),
    )


def match(
    scope: Scope, given: Sequence[Axis], wanted: Wanted, what: str, *, computed: Sequence[str] = ()
) -> tuple[tuple[Axis, ...], dict[str, str]]:
    """Match the written result, position by position, with what an operation gives.

    Return the axes of the result and the labels to be replaced in the operands. ``computed`` labels are sizes
    that a cost rule works out (a convolution's output): a name written there names that size.
    """
    if wanted.output is None or wanted.output.dims is None:
        return tuple(given), {}
    node, dims = wanted.output, wanted.output.dims
    wrong = scope.fail(f"{what} gives {scope.show_axes(given)}", node.span, "write the result so, or leave it out")
    if len(dims) != len(given):
        raise wrong
    axes: list[Axis] = []
    renamed: dict[str, str] = {}
    for dim, axis in zip(dims, given, strict=True):
        label = axis.label
        if dim.name is None:
            size = scope.sizes.get(label)
            settable = not is_number(label) and label not in scope.derived
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
        axes.append(Axis(label, dim.axes))
    _distinct(scope, axes, node)
    return tuple(axes), renamed


def _name_computed(scope: Scope, label: str, name: str, span: Span) -> None:
    size = scope.sizes.get(label)
    if name in scope.derived or _stands_in_inputs(scope, name):
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


def _stands_in_inputs(scope: Scope, name: str) -> bool:
    return any(label == name for _, label in scope.places)


def _distinct(scope: Scope, axes: Sequence[Axis], node: TensorNode) -> None:
    seen: set[str] = set()
    for axis, dim in zip(axes, node.dims or (), strict=True):
        if axis.label in seen:
            raise scope.fail(f"{axis.label} stands twice in the result", dim.span)
        seen.add(axis.label)
