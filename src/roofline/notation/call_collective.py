"""Collectives: what moving data over mesh axes does to the sharding of a tensor.

``AllGather_X`` takes X off the dimension it shards; ``ReduceScatter_{X,K}`` sums partial results over X and shards K;
``AllReduce_X`` sums them and keeps every copy; ``AllToAll_{X,J}`` moves X from its dimension to J.

>>> from roofline.notation import program
>>> [program(f"{text}(bf16[I_X, J])").steps[0].output.written for text in ("AllGather_X", "AllToAll_{X,J}")]
['bf16[I, J]', 'bf16[I, J_X]']
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.notation.scope import Scope, Wanted
from roofline.notation.structure import Axis, CallNode, Dim, Shape

_REDUCING = ("ReduceScatter", "AllReduce")
_RESHARDING = ("ReduceScatter", "AllToAll")


def collective(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Resolve a collective: ``over`` holds its mesh axes, the option ``dim`` the dimension that is sharded anew."""
    (x,) = shapes
    axes, targets = _axes_and_target(scope, call, x)
    sharding = {axis: axis_of for axis_of in x.axes for axis in axis_of.shard}
    unreduced = x.unreduced
    if call.function in ("AllGather", "AllToAll"):
        for axis in axes:
            if axis not in sharding:
                known = ", ".join(sharding) or "none"
                hint = f"the axes that shard it: {known}"
                raise scope.fail(f"{call.function}_{axis}: {axis} shards no dimension of the operand", call.span, hint)
    if call.function in _REDUCING:
        unreduced = _reduced(scope, call, x, axes, sharding)
    given = x.axes
    if call.function in ("AllGather", "AllToAll"):
        given = tuple(Axis(a.label, tuple(s for s in a.shard if s not in axes)) for a in given)
    options = {}
    if call.function in _RESHARDING:
        target = targets or _written_target(scope, call, axes, wanted)
        if target not in x.labels:
            hint = f"it has {scope.show_axes(x.axes)}"
            raise scope.fail(f"{call.function}: the operand has no dimension {target}", call.span, hint)
        if call.function == "AllToAll":
            _moves(scope, call, x, axes, target)
        options["dim"] = target
        given = tuple(Axis(a.label, (*a.shard, *axes)) if a.label == target else a for a in given)
    compute, storage = scope.dtypes(shapes, call.span)
    return scope.add(
        "collective",
        call.function,
        shapes,
        _checked(scope, call, given, wanted),
        dtype=storage,
        compute=compute,
        span=call.span,
        wanted=wanted,
        unreduced=unreduced,
        over=axes,
        options=options,
    )


def _axes_and_target(scope: Scope, call: CallNode, x: Shape) -> tuple[tuple[str, ...], str]:
    """Tell mesh axes from the dimension among what stands after ``_``."""
    axes = tuple(word for word in call.over if word not in x.labels)
    dims = [word for word in call.over if word in x.labels]
    if not axes:
        raise scope.fail(f"{call.function} needs the mesh axes it goes over", call.span, f"as in {call.function}_X(…)")
    if dims and call.function not in _RESHARDING:
        message = f"{dims[0]} is a dimension of the operand; {call.function} goes over mesh axes"
        raise scope.fail(message, call.span)
    if len(dims) > 1:
        raise scope.fail(f"{call.function} shards one dimension, not {' and '.join(dims)}", call.span)
    return axes, dims[0] if dims else ""


def _moves(scope: Scope, call: CallNode, x: Shape, axes: tuple[str, ...], target: str) -> None:
    """Refuse an AllToAll that would move an axis to the dimension it shards already."""
    there = next((axis for one in x.axes if one.label == target for axis in one.shard if axis in axes), None)
    if there is not None:
        own, other = scope.show_label(target), next((name for name in x.labels if name != target), "")
        message = f"AllToAll_{there} moves {there} to another dimension, and it shards {own} already"
        hint = f"as in AllToAll_{{{there},{scope.show_label(other)}}}(…)" if other else "the operand has no other"
        raise scope.fail(message, call.span, hint)


def _reduced(
    scope: Scope, call: CallNode, x: Shape, axes: tuple[str, ...], sharding: dict[str, Axis]
) -> tuple[str, ...]:
    for axis in axes:
        if axis in sharding:
            label = scope.show_label(sharding[axis].label)
            hint = "partial sums over an axis are not sharded by it"
            raise scope.fail(f"{call.function}_{axis}: {axis} shards {label} of the operand", call.span, hint)
        if axis not in x.unreduced:
            scope.assume(f"the operand of {call.function}_{axis} holds partial sums over {axis}")
    return tuple(axis for axis in x.unreduced if axis not in axes)


def _written_target(scope: Scope, call: CallNode, axes: tuple[str, ...], wanted: Wanted) -> str:
    """The dimension that the written result shards by these axes."""
    for dim in (wanted.output.dims if wanted.output else None) or ():
        if dim.name and set(axes) <= set(dim.axes):
            return dim.name
    example = f"{call.function}_{{{','.join(axes)},K}}(…)"
    raise scope.fail(f"{call.function} needs the dimension to shard", call.span, f"as in {example}")


def _checked(scope: Scope, call: CallNode, given: tuple[Axis, ...], wanted: Wanted) -> tuple[Axis, ...]:
    dims = wanted.output.dims if wanted.output else None
    if wanted.output is None or dims is None:
        return given
    if len(dims) == len(given) and all(_fits(scope, dim, axis) for dim, axis in zip(dims, given, strict=True)):
        return given
    raise scope.fail(f"{call.function} gives {scope.show_axes(given)}", wanted.output.span, "write the result so")


def _fits(scope: Scope, dim: Dim, axis: Axis) -> bool:
    same = dim.name == axis.label if dim.name else scope.sizes.get(axis.label) == dim.size
    return same and set(dim.axes) == set(axis.shard)
