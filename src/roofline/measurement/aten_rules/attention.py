"""Attention in the dispatcher's several forms, forward and backward."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from roofline.errors import InputError
from roofline.measurement.aten import Seen, like, rule
from roofline.ops import pricing
from roofline.ops.attention import attend
from roofline.programs.pytorch.price_tables import ATTENTION_BACKWARD
from roofline.work import Op, Tensor


class Places(NamedTuple):
    """Where an operation says that it is causal, and where it has its mask."""

    causal: int
    mask: int | None = None


ATTENTION = {
    "scaled_dot_product_attention": Places(5, 3),
    "_scaled_dot_product_flash_attention_for_cpu": Places(4, 5),
    "_scaled_dot_product_flash_attention": Places(4),
    "_scaled_dot_product_efficient_attention": Places(6, 3),
    "_scaled_dot_product_cudnn_attention": Places(6, 3),
    "_scaled_dot_product_fused_attention_overrideable": Places(5, 3),
}

#: Gradients: the gradient of the result comes first, then queries, keys and values.
BACKWARD = {
    "_scaled_dot_product_flash_attention_for_cpu_backward": Places(7, 8),
    "_scaled_dot_product_flash_attention_backward": Places(11),
    "_scaled_dot_product_efficient_attention_backward": Places(11, 4),
    "_scaled_dot_product_cudnn_attention_backward": Places(14, 8),
    "_scaled_dot_product_fused_attention_overrideable_backward": Places(13, 4),
}


@rule(*ATTENTION)
def forward(seen: Seen) -> Op:
    """Attend; a mask is read beside the operands, and every score counts that it hides."""
    places = ATTENTION[seen.plain]
    op = _attention(seen, 0, places.causal)
    return replace(op, reads=(*op.reads, *_mask(seen, places)))


@rule(*BACKWARD)
def backward(seen: Seen) -> Op:
    """The gradient of such a kernel, which works the scores out again."""
    places = BACKWARD[seen.plain]
    facts = dict(_attention(seen, 1, places.causal).dims)
    del facts["transcendentals"]
    facts["pairs"] *= facts["batch"] * facts["heads"]
    grad, q, k, v = (seen.tensor(place) for place in range(4))
    writes = [like(tensor, ident=f"grad {tensor.ident}") for tensor in (q, k, v)]
    reads = (q, k, v, grad, *_mask(seen, places))
    return pricing.attention(seen.name, reads, writes, matmuls=ATTENTION_BACKWARD, **facts)


def _mask(seen: Seen, places: Places) -> tuple[Tensor, ...]:
    return () if places.mask is None else seen.some(places.mask)


def _attention(seen: Seen, first: int, causal_at: int) -> Op:
    """Operands stand as [batch, heads, length, size] there, as [batch, length, heads, size] here."""
    q, k, v = (_lengths_first(seen.tensor(first + n), "kv" if n else "activation") for n in range(3))
    causal = seen.stated(causal_at) is True
    if causal and q.dims[-3] != k.dims[-3]:
        q, k, v = _upper_left(q, k, v)
    return attend(q, k, v, causal=causal, name=seen.name)


def _upper_left(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Leave out the keys no query sees, where PyTorch aligns the first query with the first key, and we the last ones.

    Queries beyond the last key see all of them, which has no rule here.
    """
    queries = q.dims[-3]
    if queries > k.dims[-3]:
        raise InputError("more queries than keys under a causal mask")
    k, v = (replace(x, dims=(*x.dims[:-3], queries, *x.dims[-2:])) for x in (k, v))
    return q, k, v


def _lengths_first(x: Tensor, role: str) -> Tensor:
    *before, heads, length, size = x.dims
    return Tensor(x.ident, (*before, length, heads, size), x.dtype, role)
