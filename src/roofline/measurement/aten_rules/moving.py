"""Operations that move bytes and compute little or nothing: copies, fills, concatenations, lookups."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from roofline.measurement.aten import Seen, like, rule, widest
from roofline.ops import pricing
from roofline.work import Op


@rule("fill_", "zero_", "bernoulli_", "normal_", "uniform_", "random_", "exponential_")
def filled(seen: Seen) -> Op:
    """Memory that is written and not read; the arithmetic of random numbers is not counted."""
    return pricing.move(seen.name, (), (seen.tensor(0),), kind="elementwise")


@rule("cat", "stack")
def joined(seen: Seen) -> Op:
    """Read what goes in, write it side by side in the widest of its formats."""
    parts = seen.listed(0)
    out = like(parts[0], (sum(part.elements for part in parts),), widest([part.dtype for part in parts]))
    return pricing.move(seen.name, parts, (out,))


@rule("tril", "triu", "tril_", "triu_", "roll", "flip")
def rearranged(seen: Seen) -> Op:
    """Read all, write as much."""
    x = seen.tensor(0)
    return pricing.move(seen.name, (x,), (like(x),))


@rule("repeat")
def repeated(seen: Seen) -> Op:
    """Read once, write as often as it is repeated."""
    x = seen.tensor(0)
    return pricing.move(seen.name, (x,), (like(x, (x.elements * prod(seen.stated(1)),)),))


@rule("constant_pad_nd")
def padded(seen: Seen) -> Op:
    """Copy with a margin, whose widths stand from the last dimension on."""
    x, widths = seen.tensor(0), seen.stated(1)
    sizes = list(x.dims)
    for number, width in enumerate(widths):
        sizes[-1 - number // 2] += width
    return pricing.move(seen.name, (x,), (like(x, sizes),))


@rule("embedding")
def embedding(seen: Seen) -> Op:
    """Gather one row of a table for every index."""
    table, indices = seen.tensor(0), seen.tensor(1)
    out = like(table, (*indices.dims, table.dims[1]), ident=f"embedding({table.ident})")
    return pricing.embedding(seen.name, (table, indices), (out,))


@rule("embedding_dense_backward")
def embedding_backward(seen: Seen) -> Op:
    """Add every gradient to its row; the dense gradient is written whole."""
    grad, rows = seen.tensor(0), seen.stated(2)
    out, size = like(grad, (rows, grad.dims[-1])), grad.elements
    return pricing.vector(seen.name, "embedding", seen.every(), (out,), flops=size, elements=size)


@rule("index_select", "gather")
def gathered(seen: Seen) -> Op:
    """Read the elements that indices name, at most the whole table."""
    x, index = seen.tensor(0), seen.tensor(2)
    dim = seen.stated(1)
    if seen.plain == "gather":
        dims = index.dims
    else:
        dims = tuple(index.elements if place == dim % len(x.dims) else size for place, size in enumerate(x.dims))
    table = replace(x, touched=min(prod(dims), x.elements))
    return pricing.move(seen.name, (table, index), (like(x, dims),), kind="gather")


@rule("scatter_")
def scattered(seen: Seen) -> Op:
    """Write values, or one value, where indices name."""
    x, index, values = seen.tensor(0), seen.tensor(2), seen.some(3)
    part = like(x, (min(index.elements, x.elements),))
    return pricing.move(seen.name, (index, *values), (part,), kind="scatter")


@rule("scatter_add", "scatter_add_", "index_add", "index_add_")
def added(seen: Seen) -> Op:
    """Add values where indices name: what was there is read and written again; all of it where not in place."""
    x, index, values = seen.tensor(0), seen.tensor(2), seen.tensor(3)
    size = values.elements
    part = replace(x, touched=min(size, x.elements)) if seen.plain.endswith("_") else x
    writes = (replace(part, ident="out"),)
    return pricing.vector(seen.name, "scatter", (part, index, values), writes, flops=size, elements=size)
