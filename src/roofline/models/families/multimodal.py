"""Configurations that hold a language model as ``text_config`` beside a vision tower: both are read."""

from __future__ import annotations

from dataclasses import replace

from roofline.errors import InputError
from roofline.models.description import Model
from roofline.models.families import family, reader
from roofline.models.families._towers import vision
from roofline.models.fields import Fields

#: The type whose reader the language part of each goes to where it names none that is known, and its prefix.
_TEXT = {
    "qwen3_vl": ("qwen3", "model.language_model."),
    "qwen3_vl_moe": ("qwen3_moe", "model.language_model."),
    "qwen3_5": ("qwen3_5_text", "model.language_model."),
    "qwen3_5_moe": ("qwen3_5_moe_text", "model.language_model."),
    "kimi_k25": ("deepseek_v3", "language_model.model."),
    "llama4": ("llama4_text", "language_model.model."),
    "gemma4": ("gemma4_text", "model.language_model."),
    "gemma3": ("gemma3_text", "language_model.model."),
}
#: Types of language parts that are read as another's.
_SAME = {"qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe", "kimi_k2": "deepseek_v3"}


@family(*_TEXT)
def read(fields: Fields) -> Model:
    """Read the language part, and the tower for pictures; what of a tower is not modelled is listed."""
    kind, prefix = _TEXT[fields.kind]
    text = fields.get("text_config")
    if not isinstance(text, dict):
        raise InputError(
            f"{fields.name} has no text_config", hint=f"a {fields.kind} configuration holds its language model there"
        )
    named = str(text.get("model_type") or kind)
    tied = fields.get("tie_word_embeddings", text.get("tie_word_embeddings", fields.kind.startswith("gemma")))
    inner = Fields({**text, "model_type": _SAME.get(named, named), "tie_word_embeddings": tied}, fields.name)
    model = reader(inner.kind)(inner)
    fields.ignore(*inner.unread(), "text_config", "projector_hidden_act")
    seen, gaps = vision(fields, model.width)
    if seen is not None and text.get("use_bidirectional_attention"):
        seen = replace(seen, both_ways=True)
    if "audio_config" in fields:
        gaps.append("audio_config is not modelled: only the language part is")
    gaps += [f"text_config.{field} is not understood and not modelled" for field in inner.unread()]
    head = "lm_head" if prefix.startswith("model.") else "language_model.lm_head"
    return replace(model, family=fields.kind, prefix=prefix, head_name=head, gaps=(*model.gaps, *gaps), vision=seen)
