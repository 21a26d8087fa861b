"""Looking rows up in a table.

>>> table = Tensor("table", (128256, 4096), "bf16", "weight")
>>> op = embedding(table, Tensor("tokens", (8, 1), "int32", "index"))
>>> op.work, op.reads[0].traffic_bytes, op.reads[0].capacity_bytes
(Work(), 65536, 1050673152)
"""

from __future__ import annotations

from dataclasses import replace

from roofline.notation.structure import Step
from roofline.ops.context import Context, like, weight_or_activation
from roofline.ops.registry import register
from roofline.sizes import Size, ceil_div, is_symbol, minimum
from roofline.work import Op, Tensor


def embedding(
    table: Tensor, indices: Tensor, out: Tensor | None = None, *, parts: Size = 1, name: str = "embedding"
) -> Op:
    """Gather one row of ``table`` [V, D] for every index: 0 FLOPs, and only the rows that are touched move.

    ::

        table bytes = min(indices, V)·D elements         a row that several indices name is read once at best
        indices read once, indices·D elements written

    Of a table split by rows into ``parts`` this is one with V rows: it holds what an even share of the indices names,
    and writes zeros for the others.

    Which rows repeat depends on the data; for fewer indices than rows this takes them all to differ.
    """
    rows = indices.elements
    even = rows / parts if is_symbol(rows) or is_symbol(parts) else ceil_div(rows, parts)
    touched = minimum(even, table.dims[0]) * table.dims[1]
    result = out or like(table, "embedding", (*indices.dims, table.dims[1]))
    return Op(
        name=name,
        kind="embedding",
        reads=(replace(table, touched=touched), indices),
        writes=(result,),
        dims={"rows": rows, "width": table.dims[1], "table_rows": table.dims[0]},
        note="an embedding reads the rows its indices name, not the whole table",
    )


@register("embedding")
def rule(step: Step, context: Context) -> Op:
    """Price a lookup: the table, then the indices."""
    table, indices = step.inputs
    return embedding(
        context.tensor(table, weight_or_activation(table)),
        context.tensor(indices, "index"),
        context.tensor(step.output),
        parts=context.ways.get(table.labels[0], 1),
        name=step.text or "embedding",
    )
