"""Attention as the user calls it: whole, whichever kernel would run, and its gradient as one operation too."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch.nested._internal import sdpa as nested_attention
from torch.nested._internal.nested_tensor import NestedTensor, nested_view_from_values_offsets_lengths
from torch.utils._python_dispatch import _disable_current_modes

from roofline.ops.attention import AttentionSizes, attention
from roofline.ops.masks import CAUSAL
from roofline.programs.pytorch.recorder import Recorder, WholeOperation, run_whole
from roofline.programs.pytorch.registry import ATTENTION_BACKWARD, Call, function
from roofline.programs.pytorch.rules.sequences import attention_sizes, keys_seen
from roofline.programs.pytorch.tensors import dtype_name
from roofline.sizes import Size, exact_div
from roofline.work import Op, Tensor

#: The largest square of queries and keys that a mask function is asked about.
LARGEST_MASK = 2**27


def attend(
    recorder: Recorder,
    name: str,
    tensors: Sequence[Any],
    sizes: AttentionSizes,
    outs: Any,
    mask: Any = None,
    causal: bool = False,
) -> Any:
    """Run one attention whole, its gradient too: 5 matmuls, or 4 where its probabilities are written and kept."""
    extra = [recorder.read(mask)] if mask is not None else []
    keeps = not recorder.recompute_attention and torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    dtype = dtype_name(tensors[0].dtype)
    kept = [Tensor(f"probabilities{len(recorder.ops)}", (sizes.pairs,), dtype, "activation")] if keeps else []

    def forward(made: Sequence[Any]) -> Op:
        q, k, v = tensors[:3]
        reads = (recorder.read(q), recorder.read(k, "kv"), recorder.read(v, "kv"), *extra)
        return attention(name, reads, [*map(recorder.wrote, made), *kept], sizes)

    def backward(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> Op:
        grad, q, k, v, *rest = [recorder.read(t) for t in (*grads, *saved)]
        matmuls = ATTENTION_BACKWARD if recorder.recompute_attention else ATTENTION_BACKWARD - 1
        reads = (q, k, v, grad, *rest, *extra, *kept)
        return attention(f"{name}_backward", reads, [recorder.wrote(t) for t in made], sizes, matmuls=matmuls)

    def called(made: Sequence[Any]) -> Call:
        given = [*tensors, *([] if mask is None else [mask]), causal]
        return recorder.call(name, given, made[:1], (*(str(at) for at in range(len(given) - 1)), "is_causal"))

    return run_whole(recorder, WholeOperation(outs, forward, backward, called), tensors)


@function(F.scaled_dot_product_attention)
def sdpa(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Attention whole, whichever kernel would run."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = dict(zip(names, args, strict=False)) | kwargs
    q, k, v, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
    bias = mask if type(mask).__name__ == "CausalBias" else None
    if bias is not None:
        given["is_causal"], mask = bias.variant.name == "UPPER_LEFT", None
    causal = bool(given.get("is_causal"))
    _check(recorder, func, q, k, v, given)
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        looked_at = None if mask is None else recorder.operand(mask)
        sizes = attention_sizes([recorder.shape(item) for item in (q, k, v)], looked_at, causal)
    if bias is not None and not causal:
        pairs = sizes.batch * sizes.heads * CAUSAL.pairs(sizes.q_length, sizes.kv_length)
        sizes = sizes._replace(pairs=pairs, note="causal attention, the last query at the last key")
    shape = (*torch.broadcast_shapes(q.shape[:-3], k.shape[:-3]), *q.shape[-3:-1], v.shape[-1])
    shape = shape if q.dim() > 2 else (q.shape[0], v.shape[-1])
    outs = [(shape, q.dtype)]
    return attend(recorder, "scaled_dot_product_attention", (q, k, v), sizes, outs, mask, causal)[0]


@function(torch.ops.higher_order.flex_attention)
def flex(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Flex attention: the pairs its mask function lets through; what its score function does is not counted."""
    q, k, v, score, block, *_ = args
    sizes = attention_sizes([recorder.shape(item) for item in (q, k, v)])
    pairs, keys, note = _block_pairs(block, q.shape[-2], k.shape[-2], sizes)
    if score is not None and getattr(score, "__name__", "") != "_identity":
        note += ("; " if note else "") + "the score function of flex attention is not counted, nor what it reads"
    sizes = sizes._replace(pairs=pairs, keys=keys, note=note)
    stats = (q.shape[:-1], torch.float32)
    outs = [((*q.shape[:-1], v.shape[-1]), q.dtype), stats, stats]
    return attend(recorder, "flex_attention", (q, k, v), sizes, outs)


def _check(recorder: Recorder, func: Any, q: Any, k: Any, v: Any, given: dict[str, Any]) -> None:
    """Let PyTorch refuse shapes that do not fit."""
    shared = q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
    grouped = given.get("enable_gqa") or q.dim() < 3 or k.dim() < 3 or k.shape[-3] in (1, q.shape[-3])
    if shared and grouped and q.dtype == k.dtype == v.dtype:
        return
    with recorder.silence():
        func(q, k, v, enable_gqa=bool(given.get("enable_gqa")))


@contextmanager
def on_shapes() -> Iterator[None]:
    """Let a program make causal biases and attend over nested tensors, which PyTorch does not do while it is watched.

    A nested tensor (``torch.jagged``) takes the kernel for packed sequences, as it does on a GPU. Where its sequences
    end are values, which its data has none of: PyTorch is told that both are on one device.
    """
    bias = getattr(sys.modules.get("torch.nn.attention.bias"), "CausalBias", None)

    def new(cls: Any, *args: Any) -> Any:
        with _disable_current_modes():
            return torch.Tensor._make_subclass(cls, torch.empty(0))

    make = NestedTensor.__new__

    def nested(cls: Any, *args: Any, **kwargs: Any) -> Any:
        with mock.patch.object(torch.Tensor, "device", property(lambda tensor: torch.device("meta")), create=True):
            return make(cls, *args, **kwargs)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(NestedTensor, "__new__", nested))
        if bias is not None:
            stack.enter_context(mock.patch.object(bias, "__new__", new))
        stack.enter_context(mock.patch.object(nested_attention, "_is_computing_meta_flops", return_value=True))
        stack.enter_context(mock.patch.object(nested_attention, "_select_sdp_backend", return_value=None))
        yield


def _block_pairs(block: Sequence[Any], S: Any, T: Any, sizes: AttentionSizes) -> tuple[Size, Size, str]:
    """Ask the mask function of a flex attention about every pair, one batch entry and head at a time.

    Gives the pairs, the keys of one head that some query sees on average, and what is to be said.
    """
    full, is_visible = sizes.pairs, block[-1]
    if not callable(is_visible) or S * T > LARGEST_MASK:
        return full, T, "the mask of flex attention is too large to look at: every score is counted"
    counts = block[2]
    batches, heads = (counts.shape[0], counts.shape[1]) if counts is not None else (1, 1)
    total, read = 0, []
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        rows, columns = torch.arange(S)[:, None], torch.arange(T)[None, :]
        try:
            for b in range(batches):
                for h in range(heads):
                    seen = is_visible(torch.tensor(b), torch.tensor(h), rows, columns)
                    seen = torch.broadcast_to(seen, (S, T))
                    total += int(seen.sum().item())
                    read.append(seen.any(0))
        except (RuntimeError, NotImplementedError, IndexError):
            return full, T, "the mask of flex attention depends on data: every score is counted"
        keys = keys_seen(torch.stack(read).unflatten(0, (batches, heads)), sizes.heads, sizes.kv_heads, T)
    found = total * exact_div(sizes.batch, batches) * exact_div(sizes.heads, heads)
    note = "" if found == full else "the mask of flex attention is looked at: scores it lets through count"
    return found, keys, note


def nested_input(values: Any, given: Any) -> Any:
    """A nested tensor over other values, its sequences as long as those of the one that is given."""
    lengths = {"lengths": given.lengths(), "ragged_idx": given._ragged_idx}
    with on_shapes():
        return nested_view_from_values_offsets_lengths(values, given.offsets(), **lengths)
