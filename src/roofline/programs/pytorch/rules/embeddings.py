"""Lookups: a row for every index, summed in bags; their gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.programs.pytorch.open_sizes import least
from roofline.programs.pytorch.registry import Call, Priced, pricing, rule
from roofline.work import Tensor

_NOTE = "an embedding reads the rows its indices name, not the whole table"


@rule("embedding")
def embedding(call: Call) -> Priced:
    """Gather one row of a table for every index."""
    table, indices = call.args[:2]
    reads = (_rows(call.read(table)[0], indices), *call.read(indices))
    return pricing.move("embedding", reads, call.writes, kind="embedding", note=_NOTE)


@rule("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def bag(call: Call) -> Priced:
    """Gather rows and add them up bag by bag."""
    table, indices = call.args[:2]
    others = [item for item in call.reads if item not in call.read(table)]
    flops = indices.numel() * table.shape[-1]
    reads = (_rows(call.read(table)[0], indices), *others)
    return pricing.vector(
        "embedding_bag", "embedding", reads, call.writes[:1], flops=flops, elements=flops, one_each=flops, note=_NOTE
    )


@rule("embedding_dense_backward", "_embedding_bag_dense_backward", "_embedding_bag_backward", "embedding_backward",
      "_embedding_bag_per_sample_weights_backward")  # fmt: skip
def backward(call: Call) -> Priced:
    """Add every gradient to its row; the dense gradient is written whole."""
    size = call.args[0].numel()
    return pricing.vector(call.name, "embedding", call.reads, call.writes, flops=size, elements=size, one_each=size)


def _rows(table: Tensor, indices: Any) -> Tensor:
    width = table.dims[-1] if table.dims else 1
    return replace(table, touched=least(indices.numel() * width, table.elements))
