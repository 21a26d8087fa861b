"""Attention: the fused calls a user makes, the kernels behind them, their gradients, and the pairs masks let see."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.nn.functional as F

from roofline.programs.pytorch.price_tables import ATTENTION_BACKWARD
from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import Call, Priced, function, pricing, rule
from roofline.programs.pytorch.whole import Whole, run_whole
from roofline.work import Op, Tensor

#: A mask that is added hides a score from here down.
HIDDEN = -1e4


class Facts(NamedTuple):
    """Sizes of one attention; ``pairs`` over all heads of the whole batch."""

    batch: int
    heads: int
    kv_heads: int
    q_length: int
    kv_length: int
    head_size: int
    v_head_size: int
    pairs: int
    note: str


def facts(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False) -> Facts:
    """Read sizes off q [.., N, S, H], k [.., K, T, H], v [.., K, T, V], and count the pairs that see each other."""
    S, H = q.shape[-2:]
    T, V = k.shape[-2], v.shape[-1]
    lead = torch.broadcast_shapes(q.shape[:-3], k.shape[:-3])
    heads = q.shape[-3] if q.dim() > 2 else 1
    batch = prod(lead)
    pairs, note = batch * heads * S * T, ""
    if causal:
        pairs, note = batch * heads * top_left_pairs(S, T), "causal attention"
    elif mask is not None:
        found = visible(mask, (*lead, heads, S, T))
        if found is None:
            note = "the values of an attention mask are not known: every score is counted"
        elif found != pairs:
            pairs, note = found, "attention masks are looked at: only scores they let through are counted"
    kv_heads = k.shape[-3] if k.dim() > 2 else 1
    return Facts(batch, heads, kv_heads, S, T, H, V, pairs, note)


def top_left_pairs(S: int, T: int) -> int:
    """Pairs of a causal mask aligned at the top left, as PyTorch's is_causal: query i sees keys 0 … i.

    >>> top_left_pairs(3, 3), top_left_pairs(1, 5), top_left_pairs(5, 2)
    (6, 1, 9)
    """
    return S * (S + 1) // 2 if S <= T else T * (T + 1) // 2 + (S - T) * T


def visible(mask: Any, shape: Sequence[int]) -> int | None:
    """Count the scores a mask lets through, None where its values are not known."""
    if mask.device.type == "meta":
        return None
    chosen = mask if mask.dtype == torch.bool else mask > HIDDEN
    repeated = prod(shape) // max(1, prod(torch.broadcast_shapes(mask.shape, (1,) * len(shape))))
    return int(chosen.sum().item() * repeated)


def operation(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], found: Facts, *, matmuls: int = 2) -> Op:
    """Make the operation from its sizes."""
    sizes = found._asdict()
    return pricing.attention(name, reads, writes, matmuls=matmuls, **sizes)


def whole(recorder: Recorder, name: str, tensors: Sequence[Any], found: Facts, outs: Any, mask: Any = None) -> Any:
    """Run one attention whole, its gradient too: 4 matmuls, 5 where the scores are worked out again."""
    extra = [recorder.read(mask)] if mask is not None else []

    def forward(made: Sequence[Any]) -> Op:
        q, k, v = tensors[:3]
        reads = [recorder.read(q), recorder.read(k, "kv"), recorder.read(v, "kv"), *extra]
        return operation(name, reads, [recorder.wrote(out) for out in made], found)

    def backward(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> Op:
        reads = [*(recorder.read(t) for t in (*grads, *saved)), *extra]
        matmuls = ATTENTION_BACKWARD if recorder.recompute_attention else 4
        ordered = [reads[1], reads[2], reads[3], reads[0], *reads[4:]]
        return operation(f"{name}_backward", ordered, [recorder.wrote(t) for t in made], found, matmuls=matmuls)

    return run_whole(recorder, Whole(outs, forward, backward), tensors)


@function(F.scaled_dot_product_attention)
def sdpa(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Attention whole, whichever kernel would run."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = dict(zip(names, args, strict=False)) | kwargs
    q, k, v, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
    bias = mask if type(mask).__name__ == "CausalBias" else None
    if bias is not None:
        given["is_causal"], mask = bias.variant.name == "UPPER_LEFT", None
    seen = mask if mask is None or recorder.known(mask) else recorder.shape_of(mask)
    _check(recorder, func, q, k, v, given)
    with torch._C.DisableTorchFunction(), _values():
        found = facts(q, k, v, seen, bool(given.get("is_causal")))
    if bias is not None and not given["is_causal"]:
        pairs = packed_pairs([found.q_length], [found.kv_length], True, (-1, -1))
        found = found._replace(
            pairs=found.batch * found.heads * pairs, note="causal attention, the last query at the last key"
        )
    shape = (*torch.broadcast_shapes(q.shape[:-3], k.shape[:-3]), *q.shape[-3:-1], v.shape[-1])
    shape = shape if q.dim() > 2 else (q.shape[0], v.shape[-1])
    outs = [(shape, q.dtype)]
    return whole(recorder, "scaled_dot_product_attention", (q, k, v), found, outs, mask)[0]


@function(torch.ops.higher_order.flex_attention)
def flex(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Flex attention: the pairs its mask function lets through; what its score function does is not counted."""
    q, k, v, score, block, *_ = args
    found = facts(q, k, v)
    pairs, note = _block_pairs(recorder, block, found)
    if score is not None and getattr(score, "__name__", "") != "_identity":
        note += ("; " if note else "") + "the score function of flex attention is not counted"
    found = found._replace(pairs=pairs, note=note)
    stats = (q.shape[:-1], torch.float32)
    outs = [((*q.shape[:-1], v.shape[-1]), q.dtype), stats, stats]
    return whole(recorder, "flex_attention", (q, k, v), found, outs)


@rule("_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu",
      "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
      "_scaled_dot_product_attention_math", "_scaled_dot_product_attention_math_for_mps",
      "_scaled_dot_product_fused_attention_overrideable", "_scaled_dot_product_flash_attention_for_xpu")  # fmt: skip
def kernel(call: Call) -> Priced:
    """A kernel behind scaled_dot_product_attention."""
    q, k, v = call.args[:3]
    mask = call.get("attn_bias", call.get("attn_mask"))
    found = facts(q, k, v, mask, bool(call.get("is_causal", False)))
    return operation(call.name.strip("_"), (*call.read(q, k, v), *call.read(mask)), call.writes[:1], found)


@rule("_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_efficient_attention_backward",
      "_scaled_dot_product_cudnn_attention_backward", "_scaled_dot_product_flash_attention_for_cpu_backward",
      "_scaled_dot_product_fused_attention_overrideable_backward")  # fmt: skip
def kernel_backward(call: Call) -> Priced:
    """The gradient of such a kernel, which works the scores out again: 5 matmuls."""
    grad, q, k, v = call.args[:4]
    mask = call.get("attn_bias", call.get("attn_mask"))
    found = facts(q, k, v, mask, bool(call.get("is_causal", False)))
    reads = (*call.read(q, k, v), *call.read(grad), *call.read(mask))
    return operation(call.name.strip("_"), reads, call.writes, found, matmuls=ATTENTION_BACKWARD)


@rule("_flash_attention_forward", "_efficient_attention_forward", "_flash_attention_backward",
      "_efficient_attention_backward", "torch_attn._varlen_attn", "torch_attn._varlen_attn_backward")  # fmt: skip
def packed(call: Call) -> Priced:
    """Kernels in the layout [B, S, N, H]; sequences packed into one need their lengths, which have to be known."""
    backward = call.name.endswith("backward")
    q, k, v = call.args[1:4] if backward else call.args[:3]
    starts = call.get("cum_seq_q", call.get("cu_seqlens_q", call.get("cu_seq_q")))
    causal = bool(call.get("is_causal", call.get("causal", call.get("custom_mask_type", 0))))
    found = facts(q.transpose(-3, -2), k.transpose(-3, -2), v.transpose(-3, -2), None, causal)
    if starts is not None:
        ends = call.get("cum_seq_k", call.get("cu_seqlens_k", call.get("cu_seq_k")))
        ends = starts if ends is None else ends
        if "meta" in (starts.device.type, ends.device.type):
            space = "torch_attn" if "varlen" in call.name else "aten"
            reason = "how long its sequences are is not known: give them as a tensor with values"
            return pricing.unknown(f"{space}.{call.name}", call.reads, call.writes, reason)
        pairs = packed_pairs(starts.diff().tolist(), ends.diff().tolist(), causal, _window(call))
        found = found._replace(batch=1, pairs=found.heads * pairs, note="sequences packed into one see only themselves")
    reads = (*call.read(q, k, v), *(item for item in call.reads if item not in call.read(q, k, v)))
    matmuls = ATTENTION_BACKWARD if backward else 2
    return operation(call.name.strip("_"), reads, call.writes[: 3 if backward else 1], found, matmuls=matmuls)


def packed_pairs(q: Sequence[int], k: Sequence[int], causal: bool, window: tuple[int, int]) -> int:
    """Pairs within sequences of lengths ``q`` and ``k``; the last query stands at the last key, -1 is no window.

    >>> packed_pairs([3, 5], [3, 5], False, (-1, -1)), packed_pairs([3, 1], [3, 5], True, (-1, -1))
    (34, 11)
    >>> packed_pairs([4], [4], True, (1, -1))
    7
    """
    left, right = window[0], 0 if causal else window[1]
    total = 0
    for S, T in zip(q, k, strict=True):
        for place in range(T - S, T):
            first = 0 if left < 0 else max(0, place - left)
            last = T - 1 if right < 0 else min(T - 1, place + right)
            total += max(0, last - first + 1)
    return total


def _window(call: Call) -> tuple[int, int]:
    both = call.get("window_size")
    if both is not None:
        return int(both[0]), int(both[1])
    sides = (call.get("window_size_left"), call.get("window_size_right"))
    return tuple(-1 if side is None else int(side) for side in sides)  # type: ignore[return-value]


def _check(recorder: Recorder, func: Any, q: Any, k: Any, v: Any, given: dict[str, Any]) -> None:
    """Shapes that do not fit are PyTorch's to refuse: it gets stand-ins of them."""
    shared = q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
    grouped = given.get("enable_gqa") or q.dim() < 3 or k.dim() < 3 or k.shape[-3] in (1, q.shape[-3])
    if shared and grouped and q.dtype == k.dtype == v.dtype:
        return
    with recorder.silence():
        func(q, k, v, enable_gqa=bool(given.get("enable_gqa")))


@contextmanager
def making_biases() -> Iterator[None]:
    """Let a program make causal biases (``causal_lower_right``), which PyTorch cannot while it is watched."""
    kind = getattr(sys.modules.get("torch.nn.attention.bias"), "CausalBias", None)
    if kind is None:
        yield
        return

    def new(cls: Any, *args: Any) -> Any:
        with _values():
            return torch.Tensor._make_subclass(cls, torch.empty(0))

    with mock.patch.object(kind, "__new__", new):
        yield


def _values() -> Any:
    """Work on values outside the trace."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def _block_pairs(recorder: Recorder, block: Sequence[Any], found: Facts) -> tuple[int, str]:
    """Ask the mask function of a flex attention about every pair, one batch entry and head at a time."""
    full = found.batch * found.heads * found.q_length * found.kv_length
    rule_of_mask = block[-1]
    if not callable(rule_of_mask) or found.q_length * found.kv_length > 2**27:
        return full, "the mask of flex attention is too large to look at: every score is counted"
    counts = block[2]
    batches, heads = (counts.shape[0], counts.shape[1]) if counts is not None else (1, 1)
    total = 0
    with torch._C.DisableTorchFunction(), _values():
        rows = torch.arange(found.q_length)[:, None]
        columns = torch.arange(found.kv_length)[None, :]
        try:
            for b in range(batches):
                for h in range(heads):
                    seen = rule_of_mask(torch.tensor(b), torch.tensor(h), rows, columns)
                    total += int(torch.broadcast_to(seen, (found.q_length, found.kv_length)).sum().item())
        except (RuntimeError, NotImplementedError, IndexError):
            return full, "the mask of flex attention depends on data: every score is counted"
    repeated = (found.batch // batches) * (found.heads // heads)
    note = "" if total * repeated == full else "the mask of flex attention is looked at: scores it lets through count"
    return total * repeated, note
