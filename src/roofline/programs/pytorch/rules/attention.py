"""Attention: the call a user makes, the kernels behind it, their gradients, and the pairs that masks let see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from roofline.ops.masks import TOP_LEFT, BandMask, packed_pairs
from roofline.programs.pytorch.price_tables import ATTENTION_BACKWARD
from roofline.programs.pytorch.registry import Call, Priced, TensorOperand, pricing, rule
from roofline.sizes import Size, is_symbol, product
from roofline.work import Op, Tensor

#: A mask that is added hides a score from here down.
HIDDEN = -1e4


class AttentionSizes(NamedTuple):
    """Sizes of one attention; ``pairs`` over all heads of the whole batch."""

    batch: Size
    heads: Size
    kv_heads: Size
    q_length: Size
    kv_length: Size
    head_size: Size
    v_head_size: Size
    pairs: Size
    keys: Size
    note: str


def attention_sizes(
    shapes: Sequence[Sequence[Size]], mask: TensorOperand | None = None, causal: bool = False
) -> AttentionSizes:
    """Read sizes off q [.., N, S, H], k [.., K, T, H], v [.., K, T, V], and count the pairs that see each other."""
    q, k, v = shapes
    S, H = q[-2:]
    T, V = k[-2], v[-1]
    lead = broadcast(q[:-3], k[:-3])
    heads = q[-3] if len(q) > 2 else 1
    batch = product(lead)
    pairs, keys, note = batch * heads * S * T, T, ""
    if causal:
        pairs, keys, note = batch * heads * TOP_LEFT.pairs(S, T), TOP_LEFT.keys(S, T), "causal attention"
    elif mask is not None:
        found = pairs_let_through(mask, pairs)
        if found is None:
            note = "the values of an attention mask are not known: every score is counted"
        elif found != pairs:
            pairs, note = found, "attention masks are looked at: only scores they let through are counted"
    return AttentionSizes(batch, heads, k[-3] if len(k) > 2 else 1, S, T, H, V, pairs, keys, note)


def pairs_let_through(mask: TensorOperand, pairs: Size) -> Size | None:
    """Count the scores a mask lets through, None where its values are not known."""
    if mask.values is None:
        return None
    chosen = mask.values if mask.dtype == "bool" else mask.values > HIDDEN
    return int(chosen.sum().item()) * (pairs // max(1, mask.elements))


def broadcast(*shapes: Sequence[Size]) -> tuple[Size, ...]:
    """The shape that operands have together: sizes stand from the last, and a 1 is repeated as often as needed.

    >>> broadcast((4, 1, 8), (6, 8))
    (4, 6, 8)
    """
    rank = max(map(len, shapes))
    columns = zip(*[(*[1] * (rank - len(shape)), *shape) for shape in shapes], strict=True)
    return tuple(next((size for size in column if is_symbol(size) or size != 1), 1) for column in columns)


def operation(
    name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], sizes: AttentionSizes, *, matmuls: int = 2
) -> Op:
    """Make the operation from its sizes."""
    return pricing.attention(name, reads, writes, matmuls=matmuls, **sizes._asdict())


@rule("scaled_dot_product_attention", "_scaled_dot_product_flash_attention",
      "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention",
      "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_attention_math",
      "_scaled_dot_product_attention_math_for_mps", "_scaled_dot_product_fused_attention_overrideable",
      "_scaled_dot_product_flash_attention_for_xpu")  # fmt: skip
def kernel(call: Call) -> Priced:
    """Attention in one kernel; a mask is read beside the operands."""
    return _kernel(call, call.operands(0, 1, 2), ())


@rule("_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_efficient_attention_backward",
      "_scaled_dot_product_cudnn_attention_backward", "_scaled_dot_product_flash_attention_for_cpu_backward",
      "_scaled_dot_product_fused_attention_overrideable_backward")  # fmt: skip
def kernel_backward(call: Call) -> Priced:
    """The gradient of such a kernel, which works the scores out again: 5 matmuls."""
    grad, *operands = call.operands(0, 1, 2, 3)
    return _kernel(call, operands, call.read(grad), matmuls=ATTENTION_BACKWARD)


def _kernel(call: Call, operands: Sequence[TensorOperand], more: Sequence[Tensor], matmuls: int = 2) -> Op:
    q, k, v = operands
    mask = call.operand("attn_bias") or call.operand("attn_mask")
    causal = bool(call.stated("is_causal", False))
    sizes = attention_sizes((q.shape, k.shape, v.shape), mask, causal)
    reads = (*call.read(q, k, v), *more, *call.read(mask))
    writes = call.writes[:1] if matmuls == 2 else call.writes
    return operation(call.name.strip("_"), reads, writes, sizes, matmuls=matmuls)


@rule("_flash_attention_forward", "_efficient_attention_forward", "_flash_attention_backward",
      "_efficient_attention_backward", "torch_attn._varlen_attn", "torch_attn._varlen_attn_backward")  # fmt: skip
def packed(call: Call) -> Priced:
    """Kernels in the layout [B, S, N, H]; sequences packed into one need their lengths, which have to be known."""
    backward = call.name.endswith("backward")
    q, k, v = call.operands(1, 2, 3) if backward else call.operands(0, 1, 2)
    starts = _first(call, "cum_seq_q", "cu_seqlens_q", "cu_seq_q")
    causal = bool(call.get("is_causal", call.get("causal", call.get("custom_mask_type", 0))))
    sizes = attention_sizes((_heads_first(q.shape), _heads_first(k.shape), _heads_first(v.shape)), causal=causal)
    if starts is not None:
        ends = _first(call, "cum_seq_k", "cu_seqlens_k", "cu_seq_k") or starts
        if starts.values is None or ends.values is None:
            reason = "how long its sequences are is not known: give them as a tensor with values"
            return pricing.unknown(call.full_name, call.reads, call.writes, reason)
        lengths = starts.values.diff().tolist(), ends.values.diff().tolist()
        note = "sequences packed into one see only themselves"
        pairs = sizes.heads * packed_pairs(_mask(call, causal), *lengths)
        sizes = sizes._replace(batch=1, pairs=pairs, keys=sizes.kv_length, note=note)
    reads = (*call.read(q, k, v), *call.read_without(q, k, v))
    matmuls = ATTENTION_BACKWARD if backward else 2
    return operation(call.name.strip("_"), reads, call.writes[: 3 if backward else 1], sizes, matmuls=matmuls)


def _first(call: Call, *names: str) -> TensorOperand | None:
    return next((found for name in names if (found := call.operand(name)) is not None), None)


def _heads_first(shape: Sequence[Size]) -> tuple[Size, ...]:
    *batch, length, heads, size = shape
    return (*batch, heads, length, size)


def _mask(call: Call, causal: bool) -> BandMask:
    """The mask within each sequence, whose last query stands at its last key; −1 is no limit."""
    both: Any = call.get("window_size")
    sides = (call.get("window_size_left"), call.get("window_size_right")) if both is None else both
    before, after = (None if side is None or int(side) < 0 else int(side) for side in sides)
    return BandMask(before=before, after=0 if causal else after)
