"""Families of models: readers from a configuration's fields to a :class:`Model`, by ``model_type``.

An ordinary decoder is a row of a table (``dense``, ``mixtures``, ``hybrids``, ``deepseek``), read by ``decoder``.
An unusual type has a reader of its own, registered with :func:`family`. Fields that change no cost are listed in
``models/inert.toml``, defaults of transformers in ``defaults.json``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, did_you_mean, quoted

if TYPE_CHECKING:
    from roofline.models.description import Model
    from roofline.models.fields import Fields

#: Types that hold no decoder, or layers that are not modelled, and what stands in the way.
_OTHERS = {
    "an encoder beside its decoder of a kind that is not modelled": (
        "bigbird_pegasus", "prophetnet", "trocr",
        "speech_to_text", "florence2", "encoder-decoder", "vision-encoder-decoder", "musicgen",
    ),
    "no language model": ("clip", "siglip", "siglip2", "vit", "dinov2", "wav2vec2", "hubert", "sam", "detr"),
    "layers that are not modelled": (
        "xlnet", "xlstm", "reformer", "doge", "hgrn", "zaya", "hrm_text", "big_bird", "roc_bert", "blt", "moshi",
        "rwkv6", "rwkv7", "phi4flash", "phi3small", "deepseek_v41", "longcat2", "unlimited_ocr",
        "unlimited_ocr_text", "diffusion_gemma", "diffusion_gemma_text", "iquestloopcoder", "baichuan_m1",
    ),
    "layers over the keys and values of the model it drafts for": (
        "gemma4_assistant", "gemma4_unified_assistant", "muse_glimmer_assistant",
    ),
}  # fmt: skip

#: Types that are read as another: language parts of models of several, and types whose code is the other's.
_READ_AS = {
    kind: reader
    for reader, kinds in {
        "qwen2": "qwen2_vl_text qwen2_5_vl_text qwen2_5_omni_text",
        "qwen3": "qwen3_vl_text",
        "qwen3_moe": "qwen3_vl_moe_text qwen3_omni_moe_text",
        "glm4": "glm_ocr_text",
        "glm4_moe": "glm4v_moe_text",
        "deepseek": "deepseek_ocr2_text",
        "granite": "granite4_vision_text granite_docling_text",
        "hunyuan_v1_dense": "hunyuan_vl_text",
        "ernie4_5": "paddleocr_vl_text",
        "hy_v4": "hy_v4_vl_text",
    }.items()
    for kind in kinds.split()
}

#: What a configuration of its own has to say.
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")

#: Files with rows and readers, those of most types first.
_FILES = ("dense", "mixtures", "deepseek", "hybrids", "multimodal", "encoder_decoders")

Reader = Callable[["Fields"], "Model"]

_READERS: dict[str, Reader] = {}


def family(*model_types: str) -> Callable[[Reader], Reader]:
    """Register a reader under the model types it reads."""

    def register(reader: Reader) -> Reader:
        _READERS.update(dict.fromkeys(model_types, reader))
        return reader

    return register


#: What to do with a type that no reader knows.
_LIKE_A_KNOWN_ONE = (
    "if its layers are those of one of the {} known types (llama, mixtral …), say that one as its model_type"
)


def reader_of(model_type: str) -> Reader:
    """The reader of a model type, or an error that names the nearest known ones."""
    readers = _found(model_type)
    other = next((why for why, types in _OTHERS.items() if model_type in types), None)
    if other is not None:
        wrong = f"model_type {quoted(model_type)} has {other}"
        raise InputError(wrong, hint="decoders, a few encoders, and both together as in T5 are read")
    if model_type not in readers:
        near = did_you_mean(model_type, known_types())
        wrong = f"no reader for model_type {quoted(model_type)}"
        also = _LIKE_A_KNOWN_ONE.format(len(known_types()))
        raise InputError(wrong, hint=f"did you mean {near!r}? Or {also}" if near else also)
    return readers[model_type]


def reader_for(fields: Fields) -> Reader:
    """The reader of a configuration: that of its type, or of any type whose language part is one that is known.

    >>> from roofline.models.fields import Fields
    >>> inner = {"text_config": {"model_type": "qwen3", "hidden_size": 64}}
    >>> reader_for(Fields({"model_type": "seen_by_nobody", **inner}, "a model")).__module__
    'roofline.models.families.multimodal'
    """
    kind = read_as(str((language_part(fields) or {}).get("model_type", "")))
    is_refused = any(fields.kind in types for types in _OTHERS.values())
    is_nested = (
        bool(kind) and kind in _found(kind) and ("hidden_size" not in fields or fields.kind not in _found(fields.kind))
    )
    return reader_of("qwen3_vl" if is_nested and not is_refused else fields.kind)


def language_part(fields: Fields) -> dict[str, Any] | None:
    """The section that holds the language model of several parts, None where there is none."""
    names = ("text_config", "llm_config", "language_config")
    return next((part for part in map(fields.get, names) if isinstance(part, dict)), None)


def with_defaults(fields: Fields, sizes: bool = False) -> tuple[Fields, Callable[[], list[str]]]:
    """Fill in fields that a configuration leaves out, with its type's defaults, as transformers does on loading.

    Returned as well is what makes a sentence, once the model is read, of those that were read.

    The sizes of the model itself (width, layers, heads, vocabulary) only where ``sizes`` says so: published
    ``text_config`` sections leave even these out, a configuration of its own that does is cut short.
    """
    found = _defaults().get(fields.kind, {})
    left = {n: value for n, value in found.items() if n not in fields.names() and (sizes or n not in _SIZES)}
    filled = fields.with_values(**left)

    def told() -> list[str]:
        said = ", ".join(f"{name} {value}" for name, value in left.items() if filled.was_read(name))
        return [f"left out, so as transformers takes it for {fields.kind}: {said}"] if said else []

    return filled, told


@cache
def _defaults() -> dict[str, dict[str, Any]]:
    """The defaults of transformers by model type."""
    import json

    with open(os.path.join(os.path.dirname(__file__), "defaults.json"), encoding="utf-8") as file:
        return dict(json.load(file))


def read_as(model_type: str) -> str:
    """The type whose reader reads a type: mostly its own.

    >>> read_as("qwen3_vl_text"), read_as("qwen3")
    ('qwen3', 'qwen3')
    """
    return _READ_AS.get(model_type, model_type)


def known_types() -> list[str]:
    """Every model type that can be read."""
    return sorted({*_found(""), *_READ_AS})


def type_in_name(name: str) -> str | None:
    """The longest known type that a part of a model's name begins with; None where there is none.

    >>> [type_in_name(name) for name in ("openai/whisper-large-v3", "flan-t5-xl", "gemma-2-9b", "resnet-50")]
    ['whisper', 't5', 'gemma2', None]
    """
    parts = re.split(r"[-_. ]", name.lower().rpartition("/")[2])
    starts = {"".join(parts[first:last]) for first in range(len(parts)) for last in range(first + 1, len(parts) + 1)}
    return max((kind for kind in known_types() if re.sub(r"[-_.]", "", kind) in starts), key=len, default=None)


def _found(model_type: str) -> dict[str, Reader]:
    """Import files until one reads the type, files of a similar name first."""
    from importlib import import_module

    for module in sorted(_FILES, key=lambda name: not (model_type and model_type.startswith(name))):
        if model_type in _READERS:
            break
        import_module(f"{__name__}.{module}")
    return _READERS
