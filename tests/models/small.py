"""The sizes that small configurations share."""

from __future__ import annotations

from typing import Any

SMALL: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 48,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-6,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def small(model_type: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"model_type": model_type, **SMALL}
    for part in (*parts, more):
        found.update(part)
    return {key: value for key, value in found.items() if value is not ...}
