"""Data movement: copies, which compute nothing, and rows looked up in a table.

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

from collections.abc import Sequence
from dataclasses import replace

from roofline.notation.structure import Step
from roofline.ops.basic import move
from roofline.ops.rules import Context, register
from roofline.sizes import Size, ceil_div, is_symbol, minimum
from roofline.work import Op, Tensor


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
    even = rows / parts if is_symbol(rows) or is_symbol(parts) else ceil_div(rows, parts)
    touched = minimum(even, table.dims[0]) * table.dims[1]
    return Op(
        name=name,
        kind="embedding",
        reads=(replace(table, touched=touched), indices),
        writes=tuple(writes),
        dims={"rows": rows, "width": table.dims[1], "table_rows": table.dims[0]},
        note="an embedding reads the rows its indices name, not the whole table",
    )


@register("copy")
def copy_rule(step: Step, context: Context) -> Op:
    """Price a transposition: read once, written once."""
    x, out = context.tensor(step.inputs[0]), context.tensor(step.output)
    return move(step.text or step.function, [x], [out])


@register("embedding")
def embedding_rule(step: Step, context: Context) -> Op:
    """Price a lookup: the table, then the indices."""
    table, indices = step.inputs
    return embedding(
        step.text or "embedding",
        (context.operand(table), context.tensor(indices, "index")),
        (context.tensor(step.output),),
        parts=context.ways.get(table.labels[0], 1),
    )
