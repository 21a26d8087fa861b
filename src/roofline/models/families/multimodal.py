"""Configurations with a language model as ``text_config`` beside a vision tower: both are read; Llama 3.2 Vision."""

from __future__ import annotations

from dataclasses import replace

from roofline.errors import InputError
from roofline.models.blocks.residual import IdleBlocks, Norm, PositionEmbedding
from roofline.models.description import Layer, Model
from roofline.models.families import family, reader_of, with_defaults
from roofline.models.families.decoder_table import Decoder
from roofline.models.families.decoder_table import read as read_decoder
from roofline.models.families.vision_towers import vision
from roofline.models.fields import Fields

#: The type whose reader the language part of each goes to where it names none that is known, and its prefix.
_TEXT = {
    "qwen3_vl": ("qwen3", "model.language_model."),
    "qwen3_vl_moe": ("qwen3_moe", "model.language_model."),
    "qwen3_5": ("qwen3_5_text", "model.language_model."),
    "qwen3_5_moe": ("qwen3_5_moe_text", "model.language_model."),
    "kimi_k25": ("deepseek_v3", "language_model.model."),
    "kimi_k3": ("kimi_linear", "language_model.model."),
    "llama4": ("llama4_text", "language_model.model."),
    "gemma4": ("gemma4_text", "model.language_model."),
    "gemma3": ("gemma3_text", "language_model.model."),
    "gemma3n": ("gemma3n_text", "model.language_model."),
    "mllama": ("mllama_text_model", "model.language_model."),
    "mistral3": ("mistral", "language_model.model."),
    "paligemma": ("gemma", "language_model.model."),
    "aya_vision": ("cohere2", "language_model.model."),
    "cohere2_vision": ("cohere2", "language_model.model."),
    "lfm2_vl": ("lfm2", "model.language_model."),
    "glm4v": ("glm4v_text", "model.language_model."),
    "glm4v_moe": ("glm4v_moe_text", "model.language_model."),
    "glm46v": ("glm4v_text", "model.language_model."),
    "exaone4_5": ("exaone4", "model.language_model."),
    "hyperclovax_vision_v2": ("hyperclovax", "model.language_model."),
    "video_llama_3": ("qwen2", "model.language_model."),
    "minicpmv4_6": ("qwen3_5_text", "model.language_model."),
    "kimi_vl": ("deepseek_v3", "language_model.model."),
    "internvl_chat": ("qwen2", "language_model.model."),
    "qwen2_vl": ("qwen2_vl_text", "model.language_model."),
    "qwen2_5_vl": ("qwen2_5_vl_text", "model.language_model."),
    **dict.fromkeys(("llava_onevision", "internvl", "got_ocr2", "ovis2"), ("qwen2", "language_model.model.")),
    **dict.fromkeys(
        ("llava", "llava_next", "vipllava", "idefics3", "smolvlm", "voxtral", "deepseek_vl", "perception_lm"),
        ("llama", "language_model.model."),
    ),
}
#: Types of language parts that are read as another's.
_SAME = {
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "kimi_k2": "deepseek_v3",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "glm4v_text": "glm4",
    "glm4v_moe_text": "glm4_moe",
}
#: What the code of a type does whatever its configuration says.
_ALWAYS = {"glm4v_text": {"attention_bias": True}}
#: Types whose published configurations hold the language model's fields beside ``vision_config``.
_FLAT = ("qwen2_vl", "qwen2_5_vl")
_OF_BOTH = ("model_type", "vision_config", "architectures", "_name_or_path")
#: How a tower's output is chosen and brought to the language model: part of the tower, which is a gap if not modelled.
_JOINED = """
projector_hidden_act multimodal_projector_bias spatial_merge_size vision_feature_layer image_seq_length
vision_feature_select_strategy vision_aspect_ratio image_grid_pinpoints image_newline_parameter downsample_factor
use_image_newline_parameter mm_tokens_per_image boi_token_index eoi_token_index projection_dim scale_factor
text_config projector_hidden_size projector_bias projector_use_layernorm alignment_intermediate_size
adapter_layer_norm_eps vision_use_cls_token projector_pooling_ratio hidden_size projector_layernorm_eps
downsample_ratio visual_indicator_token_ids vocab_size template ps_version select_layer use_thumbnail
dynamic_image_size force_image_size min_dynamic_patch max_dynamic_patch pad2square llm_config insert_layer_id
image_size downsample_mode merge_kernel_size merger_times patch_size
"""


@family(*_TEXT)
def read(fields: Fields) -> Model:
    """Read the language part and the vision tower; parts of the tower that are not modelled are listed."""
    kind, prefix = _TEXT[fields.kind]
    text = fields.get("text_config") or fields.get("llm_config")
    if text is None and fields.kind in _FLAT:
        text = {name: fields.get(name) for name in fields.names() if name not in _OF_BOTH}
    if not isinstance(text, dict):
        raise InputError(
            f"{fields.name} has no text_config", hint=f"a {fields.kind} configuration holds its language model there"
        )
    named = str(text.get("model_type") or kind)
    tied = fields.get("tie_word_embeddings", text.get("tie_word_embeddings"))
    own = Fields({**text, "model_type": named, **({} if tied is None else {"tie_word_embeddings": tied})}, fields.name)
    inner, left = with_defaults(own, sizes=True)
    inner = inner.with_values(model_type=_SAME.get(named, named), **_ALWAYS.get(named, {}))
    model = reader_of(inner.kind)(inner)
    fields.ignore(*inner.unread(), *_JOINED.split())
    seen, gaps = vision(fields, model.width)
    if seen is not None and text.get("use_bidirectional_attention"):
        seen = replace(seen, both_ways=True)
    if "audio_config" in fields:
        gaps.append("audio_config is not modelled: only the language part is")
    gaps += [f"text_config.{field} is not understood and not modelled" for field in inner.unread()]
    head = "lm_head" if prefix.startswith("model.") else "language_model.lm_head"
    return replace(
        model, family=fields.kind, prefix=prefix, head_name=head, gaps=(*model.gaps, *gaps), vision=seen,
        notes=(*model.notes, *left),
    )  # fmt: skip


# Llama 3.2 Vision: a Llama with layers between that attend to pictures, and do not run without any

#: Where these layers stand in the smaller model, if nothing is said.
_PICTURE_LAYERS = (3, 8, 13, 18, 23, 28, 33, 38)
#: Rows of the table beyond the vocabulary: words that only stand for pictures.
_SPECIAL_WORDS = 8
_MLLAMA = Decoder(bias=False, mlp_bias=False)
_PICTURES = replace(_MLLAMA, attention="cross_attn", qk_norm="head", rotary=lambda fields, shape: 0)


@family("mllama_text_model")
def read_mllama(fields: Fields) -> Model:
    """Read the language part; layers that attend to pictures are held in memory, and not run."""
    model = read_decoder(_MLLAMA, fields)
    seeing = read_decoder(_PICTURES, fields).layers[0]
    numbers = fields.listed("cross_attention_layers")
    numbers = list(_PICTURE_LAYERS) if numbers is None else numbers
    gates = (Norm("cross_attn_attn_gate", 1), Norm("cross_attn_mlp_gate", 1))
    idle = Layer((IdleBlocks("", (*(block for block in seeing.blocks if block.weights()), *gates)),))
    layers = tuple(idle if number in numbers else layer for number, layer in enumerate(model.layers))
    skipped = sum(layer is idle for layer in layers)
    said = f"{skipped} layers that attend to pictures are in memory and not run: pictures are not modelled"
    special = PositionEmbedding("", _SPECIAL_WORDS, model.width)
    return replace(
        model, layers=layers, before=(IdleBlocks("embed_tokens.special", (special,)),), notes=(said,) if skipped else ()
    )
