"""The written result of an operation, matched with the dimensions the operation gives."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.notation.scope import Scope, Wanted, is_number
from roofline.notation.structure import Axis, Span, TensorNode


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
