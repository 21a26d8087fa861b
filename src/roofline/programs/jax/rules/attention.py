"""cuDNN's attention, which ``jax.nn.dot_product_attention(…, implementation="cudnn")`` calls: one kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from roofline.ops.masks import FULL, TOP_LEFT, BandMask
from roofline.programs.jax.registry import Call, Priced, pricing, rule

_NOTES = {
    "CAUSAL": "causal attention",
    "PADDING": "padded queries and keys are counted",
    "PADDING_CAUSAL": "causal attention; padded queries and keys are counted",
}


@rule("dot_product_attention_fwd_wrapper", "dot_product_attention_fwd", "dot_product_attention_fp8_fwd_wrapper",
      "dot_product_attention_fp8_fwd")  # fmt: skip
def forward(call: Call) -> Priced:
    """Both products and the softmax."""
    return _attend(call, 2, "")


@rule("dot_product_attention_bwd_wrapper", "dot_product_attention_bwd", "dot_product_attention_fp8_bwd_wrapper",
      "dot_product_attention_fp8_bwd")  # fmt: skip
def backward(call: Call) -> Priced:
    """Five products: the scores are worked out again."""
    return _attend(call, 5, "the backward pass of cuDNN's attention works its scores out again")


def _attend(call: Call, matmuls: int, more: str) -> Priced:
    """q is [B, T, heads, H], or [B, heads, T, H] in the layout of number 1."""
    long, heads = (2, 1) if call.params.get("layout") == 1 else (1, 2)
    q, k, v = (value.shape for value in call.ins[:3])
    kind = call.params.get("mask_type")
    word = (
        str(getattr(kind, "name", kind)) if kind is not None else "CAUSAL" if call.params.get("use_causal_mask") else ""
    )
    note = "; ".join(filter(None, (_NOTES.get(word, ""), more)))
    mask = _mask("CAUSAL" in word, call.params.get("sliding_window_length"))
    return pricing.attention(
        call.name,
        call.reads,
        call.writes,
        batch=q[0],
        heads=q[heads],
        kv_heads=k[heads],
        q_length=q[long],
        kv_length=k[long],
        head_size=q[3],
        v_head_size=v[3],
        pairs=q[0] * q[heads] * mask.pairs(q[long], k[long]),
        keys=mask.keys(q[long], k[long]),
        matmuls=matmuls,
        note=note,
    )


def _mask(causal: bool, window: int | None) -> BandMask:
    """Query i sees keys up to the one of its number, of which the last ``window``.

    >>> _mask(True, None).pairs(4, 2), _mask(False, None).pairs(3, 5), _mask(True, 2).pairs(5, 3)
    (7, 15, 6)
    """
    return TOP_LEFT._replace(before=window - 1) if window else TOP_LEFT if causal else FULL


@contextmanager
def without_a_device() -> Iterator[None]:
    """Let a program ask for cuDNN where there is none: its shapes do not depend on it."""
    try:
        from jax._src.cudnn import fused_attention_stablehlo as fused
    except ImportError:
        fused = None
    if fused is None or getattr(fused, "cuda_versions", None) is not None:
        yield
        return
    names = {"check_cudnn_version": 91_100, "check_compute_capability": True, "is_cuda_compute_capability_equal": False}
    stand = {name: _always(value) for name, value in names.items() if hasattr(fused, name)}
    with mock.patch.multiple(fused, **stand):
        yield


def _always(value: Any) -> Any:
    return lambda *_: value
