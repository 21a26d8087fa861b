"""Function calls: each family's shapes in and out. One rule for each family, found by name.

A rule takes the scope, the call, its operands and what is written as the result, and adds one step.

>>> from roofline.notation import program
>>> program("sum_T(bf16[B, T])").steps[0].output.labels
('B',)
>>> program("where([B, D], fp32[B, D], fp32[D])").steps[0].inputs[0].dtype
'bool'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from roofline.frozen import Frozen
from roofline.notation.broadcasting import broadcast
from roofline.notation.call_attention import attention, embedding, transpose
from roofline.notation.call_collective import collective
from roofline.notation.call_windows import convolution, pooling
from roofline.notation.functions import FUNCTIONS, no_flag, usual_over
from roofline.notation.result import finish, match
from roofline.notation.scope import Scope, Wanted, is_number, rename
from roofline.notation.structure import CallNode, Shape, TensorNode

Rule = Callable[[Scope, CallNode, Sequence[Shape], Wanted], Shape]

#: Formats of operands that nobody would write in the default dtype.
OPERAND_DTYPES: Mapping[str, tuple[str, ...]] = Frozen({"embedding": ("bf16", "int32"), "where": ("bool",)})
#: Formats of results that do not follow the operands.
RESULT_DTYPES: Mapping[str, str] = Frozen({"compare": "bool", "argmax": "int32", "argmin": "int32"})


def resolve_call(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Resolve one call by its family's rule."""
    return RULES[FUNCTIONS[call.function].family](scope, call, shapes, wanted)


def check_words(scope: Scope, call: CallNode) -> None:
    """Raise where a bare word among the operands names no tensor and is nearly one of the function's flags."""
    for argument in call.arguments if FUNCTIONS[call.function].flags else ():
        if not isinstance(argument, TensorNode) or argument.dims is not None or argument.name is None:
            continue
        if argument.name not in scope.names and argument.name not in scope.declared:
            error = no_flag(FUNCTIONS[call.function], argument.name)
            if error:
                raise scope.fail(error[0], argument.span, error[1])


def elementwise(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """One result for each element; several operands broadcast. ``where`` computes in its last two operands' dtype."""
    if call.function == "cast" and not (wanted.output and wanted.output.dtype):
        raise scope.fail("cast needs the dtype of its result", call.span, "as in cast(x) -> int8")
    if call.function == "rope":
        axes, renamed = match(scope, shapes[0].axes, wanted, "rope")
        operands = [rename(shape, renamed) for shape in shapes]
    else:
        operands, axes = broadcast(scope, shapes, wanted, call.span, call.function)
    valued = operands[1:] if call.function == "where" else operands[:1] if call.function == "rope" else operands
    compute, storage = scope.dtypes(valued, call.span)
    return scope.add(
        "function",
        call.function,
        operands,
        axes,
        dtype=RESULT_DTYPES.get(call.function, storage),
        compute=compute,
        span=call.span,
        wanted=wanted,
        options=call.options,
    )


def along(scope: Scope, call: CallNode, shape: Shape) -> tuple[str, ...]:
    """The labels written after ``_``, none where nothing is written.

    ``_last``, and any word on a tensor of numbers only, mean the last dimension.
    """
    labels = shape.labels
    if not call.over:
        return ()
    if not labels:
        raise scope.fail(f"{call.function}_{call.over[0]} works along a dimension; this is a scalar", call.span)
    if call.over == ("last",) and "last" not in labels:
        return labels[-1:]
    if all(is_number(label) for label in labels):
        said = f"{call.function}_{','.join(call.over)} of {shape.written} is along its last dimension"
        scope.assume(said)
        return labels[-1:]
    found: list[str] = []
    for word in call.over:
        letters = list(word) if word not in labels and all(letter in labels for letter in word) else [word]
        for label in letters:
            if label not in labels:
                hint = f"it has {scope.show_axes(shape.axes)}"
                raise scope.fail(f"{call.function}_{word}: the operand has no {label}", call.span, hint)
            found.append(label)
    return tuple(dict.fromkeys(found))


def last(scope: Scope, call: CallNode, shape: Shape) -> tuple[str, ...]:
    """The last dimension, as the default to work along; the answer says so."""
    if not shape.axes:
        raise scope.fail(f"{call.function} works along a dimension; this is a scalar", call.span)
    (label,) = usual_over(call.function, shape.labels)
    scope.assume(f"{call.function} is along the last dimension, {scope.show_label(label)}")
    return (label,)


def _one(scope: Scope, call: CallNode, over: tuple[str, ...]) -> None:
    if len(over) > 1:
        raise scope.fail(f"{call.function} works along one dimension, not {len(over)}", call.span)


def along_one(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Softmax and running sums: the result is shaped as the operand."""
    over = along(scope, call, shapes[0]) or last(scope, call, shapes[0])
    _one(scope, call, over)
    return _like_first(scope, call, shapes, wanted, over)


def norm(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Layer, RMS, batch and group norm: x, then a scale and a shift that broadcast to it."""
    x = shapes[0]
    operands, axes = broadcast(scope, shapes, Wanted(), call.span, call.function)
    if len(axes) != len(x.axes):
        raise scope.fail(f"the scale of {call.function} has more dimensions than x", call.span)
    if call.function == "group_norm":
        if "groups" not in call.options:
            raise scope.fail("group_norm needs groups=", call.span, "as in group_norm(x, groups=32)")
        if len(x.axes) < 2:
            raise scope.fail("group_norm works on [B, …, C]", call.span)
        over = along(scope, call, operands[0]) or usual_over(call.function, operands[0].labels)
    else:
        over = along(scope, call, operands[0]) or last(scope, call, operands[0])
    return _like_first(scope, call, operands, wanted, over)


def _like_first(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted, over: tuple[str, ...]) -> Shape:
    dtype = None if len(shapes) == 1 else shapes[0].dtype
    return finish(scope, call, shapes, shapes[0].axes, wanted, dtype=dtype, over=over)


def reduction(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Sums and the like: the named dimensions go; without any, those the written result lacks, or all."""
    x = shapes[0]
    over = along(scope, call, x)
    if not over and wanted.output and wanted.output.dims and all(dim.name for dim in wanted.output.dims):
        kept = {dim.name for dim in wanted.output.dims}
        over = tuple(label for label in x.labels if label not in kept)
    elif not over:
        over = usual_over(call.function, x.labels)
    given = tuple(axis for axis in x.axes if axis.label not in over)
    shards = tuple(a for axis in x.axes if axis.label in over for a in axis.shard)
    return finish(scope, call, [x], given, wanted, dtype=RESULT_DTYPES.get(call.function), over=over, unreduced=shards)


RULES: Mapping[str, Rule] = Frozen(
    {
        "elementwise": elementwise,
        "reduction": reduction,
        "scan": along_one,
        "softmax": along_one,
        "norm": norm,
        "collective": collective,
        "attention": attention,
        "embedding": embedding,
        "copy": transpose,
        "convolution": convolution,
        "pooling": pooling,
    }
)
