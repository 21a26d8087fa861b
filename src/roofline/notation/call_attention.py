"""Shapes of attention, of a lookup in a table, and of a transposition.

>>> from roofline.notation import program
>>> program("attention(q[B, S, N, H], k[B, T, K, H], v[B, T, K, V])").steps[0].output.labels
('B', 'S', 'N', 'V')
>>> program("embedding(bf16[V, D], tokens[B, S])").steps[0].inputs[1].dtype
'int32'
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.notation.result import finish
from roofline.notation.scope import Scope, Wanted, is_number, rename
from roofline.notation.structure import Axis, CallNode, Shape

_LAYOUT = "q[B, S, N, H], k[B, T, K, H], v[B, T, K, H], or all three without B"


def attention(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """softmax(q·kᵀ)·v for each head: q[B,S,N,H], k[B,T,K,H], v[B,T,K,V] → [B,S,N,V].

    The same label for S and T is self attention; K < N shares each key head among N/K query heads.
    """
    for shape in shapes:
        if len(shape.axes) != len(shapes[0].axes) or len(shape.axes) not in (3, 4):
            ranks = ", ".join(scope.show_axes(shape.axes) for shape in shapes)
            raise scope.fail(f"attention of {ranks}", call.span, f"it takes {_LAYOUT}")
    if {"causal", "full"} <= call.options.keys():
        raise scope.fail("attention is causal or full, not both", call.place("causal", "full"))
    if not isinstance(call.options.get("window", 1), int):
        raise scope.fail("the window of attention is one number", call.place("window"))
    q, k, v = shapes
    batched = len(q.axes) == 4
    pairs = [("length", 1, 2, -3), ("heads", 1, 2, -2), ("head size", 0, 1, -1)]
    pairs += [("batch", 0, 1, 0), ("batch", 1, 2, 0)] if batched else []
    operands = [q, k, v]
    for what, first, second, position in pairs:
        one, other = operands[first].labels[position], operands[second].labels[position]
        label = scope.pair(one, other)
        if label is None:
            who = "qkv"[first] + " and " + "qkv"[second]
            shown = f"{scope.show_label(one)} and {scope.show_label(other)}"
            place = scope.place(shapes[second], shapes[second].labels[position], call.span)
            raise scope.fail(f"the {what} of {who} differs: {shown}", place, f"attention takes {_LAYOUT}")
        renamed = {old: label for old in (one, other) if old != label}
        operands = [rename(shape, renamed) for shape in operands]
    q, k, v = operands
    heads, shared = scope.sizes.get(q.labels[-2]), scope.sizes.get(k.labels[-2])
    if heads and shared and heads % shared:
        hint = "the query heads are a multiple of the key heads"
        raise scope.fail(f"{heads} query heads do not share {shared} key heads evenly", call.span, hint)
    return finish(scope, call, operands, (*q.axes[:-1], v.axes[-1]), wanted)


def embedding(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Rows of table[V, D] at indices[…] → […, D]."""
    table, indices = shapes
    if len(table.axes) != 2:
        message = f"the table of an embedding is [V, D], not {scope.show_axes(table.axes)}"
        raise scope.fail(message, call.span, "embedding(table[V, D], int32[B, S])")
    repeated = next((label for label in indices.labels if label in table.labels), None)
    if repeated:
        message = f"{repeated} stands in the table and in the indices"
        raise scope.fail(message, scope.place(indices, repeated, call.span), "give one of them another name")
    given = (*indices.axes, table.axes[1])
    return finish(scope, call, shapes, given, wanted, typed_by=(table,))


def transpose(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """A copy in the written order; without one the last two dimensions change places."""
    (x,) = shapes
    if len(x.axes) < 2:
        raise scope.fail(f"transpose needs two dimensions, not {scope.show_axes(x.axes)}", call.span)
    given = (*x.axes[:-2], x.axes[-1], x.axes[-2])
    if wanted.output and wanted.output.dims is not None:
        given = _permuted(scope, x, wanted) or given
    return finish(scope, call, shapes, given, wanted, unreduced=x.unreduced)


def _permuted(scope: Scope, x: Shape, wanted: Wanted) -> tuple[Axis, ...] | None:
    """The operand's axes in the written order; numbers go by size, from the last dimension on."""
    free = list(reversed(x.axes))
    found: list[Axis] = []
    for dim in (wanted.output.dims if wanted.output else None) or ():
        for axis in free:
            if dim.name == axis.label or (is_number(axis.label) and scope.sizes.get(axis.label) == dim.size):
                found.append(axis)
                free.remove(axis)
                break
    return tuple(found) if not free and len(found) == len(x.axes) else None
