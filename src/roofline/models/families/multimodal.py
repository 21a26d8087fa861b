"""Configurations with a language model as ``text_config`` beside a vision tower: both are read; Llama 3.2 Vision.

``vision_config`` holds the tower and projector of each family that has one. Sources: the families' modelling code in
transformers 5.23 (``modeling_qwen3_vl``, ``modeling_qwen3_5``, ``modeling_kimi_k25``, ``modeling_gemma4``) and their
image processors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any

from roofline import dtypes
from roofline.errors import InputError, quoted
from roofline.frozen import replace
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.encoder import DeepStackAdd, GridPositionEmbedding, MergePatches, PoolPatches
from roofline.models.blocks.feed_forward import Mlp
from roofline.models.blocks.residual import IdleBlocks, Linear, Norm, ResidualAdd
from roofline.models.description import Block, Layer, Model, Vision
from roofline.models.families import family, language_part, read_as, reader_of, with_defaults
from roofline.models.families.decoder import Decoder, activation, rows_beyond_the_head
from roofline.models.families.decoder import read as read_decoder
from roofline.models.fields import Fields, divide_evenly, inert_fields

_HEADS = "a vision tower {total} wide does not divide into {parts} heads"


def vision(fields: Fields, width: int) -> tuple[Vision | None, list[str]]:
    """Read the tower of a configuration whose language model is ``width`` wide; also the gaps."""
    inner = fields.section("vision_config")
    if inner is None:
        return None, []
    read = _TOWERS.get(fields.kind)
    if read is None:
        return None, ["vision_config is not modelled: only the language part is"]
    if "projection_hidden_size" in fields:
        inner = inner.with_values(mm_hidden_size=fields.get("projection_hidden_size"))
    fields.ignore("projection_hidden_size", "projection_layer_norm_eps")
    found = read(inner, width)
    return found, [f"vision_config.{field} is not understood and not modelled" for field in inner.unread()]


def _qwen(fields: Fields, width: int) -> Vision:
    """Qwen3-VL and Qwen3.5: biases everywhere, positions interpolated, 2 x 2 patches merged by an MLP.

    A still image stands in both of a patch's two frames. Qwen3-VL's DeepStack hands the hidden states of some layers,
    each through a merger of its own, to the first layers of the language model.
    """
    inside = fields.size("hidden_size")
    patch, merge = fields.size("patch_size"), fields.size("spatial_merge_size")
    elements = fields.size("in_channels", default=3) * fields.size("temporal_patch_size", default=2) * patch**2
    rows, out = fields.size("num_position_embeddings"), fields.size("out_hidden_size")
    if out != width:
        wrong = f"out_hidden_size of {fields.name} is {out} and the language model is {width} wide"
        raise InputError(wrong, hint="the two contradict each other")
    heads = fields.size("num_heads")
    layer = _layer(fields, inside, heads, ("qkv.q", "qkv.k", "qkv.v", "proj"), ("", "linear_fc1", "linear_fc2"))
    together = inside * merge * merge

    def merger(name: str, after: bool) -> tuple[Block, ...]:
        norm = Norm(f"{name}.norm", together if after else inside, "layer_norm", shift=True)
        first = Linear(f"{name}.linear_fc1", together, together, "gelu")
        return (*((MergePatches(name, merge), norm) if after else (norm, MergePatches(name, merge))), first,
                Linear(f"{name}.linear_fc2", together, width))  # fmt: skip

    deep = fields.listed("deepstack_visual_indexes") or []
    branch = Layer((*merger("deepstack_merger", True), DeepStackAdd("deepstack")))
    prefix = "model.visual."
    positions = GridPositionEmbedding("pos_embed", rows, inside, taps=2, weighted=True)
    return Vision(
        tower=_model(
            fields, prefix, elements, inside, [layer] * fields.layers("depth"),
            before=(Linear("patch_embed.proj", elements, inside), positions),
        ),
        projector=_model(fields, prefix, inside, width, [branch] * len(deep), after=merger("merger", False)),
        patch=patch,
        merge=merge,
        fit="nearest",
        usual=(isqrt(rows) * patch, isqrt(rows) * patch),
    )  # fmt: skip


def _kimi(fields: Fields, width: int) -> Vision:
    """Kimi K2.5's MoonViT: positions interpolated from 16 neighbours, 2 x 2 patches merged; still images."""
    inside = fields.size("vt_hidden_size", "hidden_size")
    patch = fields.size("patch_size")
    kernel = fields.listed("merge_kernel_size") or [2, 2]
    if len(kernel) != 2 or kernel[0] != kernel[1] or not isinstance(kernel[0], int) or kernel[0] < 1:
        raise InputError(f"merge_kernel_size of {fields.name} is {quoted(kernel)}", hint="two equal sides, as [2, 2]")
    merge, elements = kernel[0], 3 * patch**2
    high, wide = (fields.size(f"init_pos_emb_{side}", f"pos_emb_{side}") for side in ("height", "width"))
    fields.ignore("init_pos_emb_time", "pos_emb_time", "projector_hidden_act", "projector_ln_eps")
    usual = {"merge_type": "sd2_tpool", "mm_projector_type": "patchmerger", "pos_emb_type": "divided_fixed"}
    for name, known in {**usual, "video_attn_type": "spatial_temporal"}.items():
        fields.choice(name, [known], known)
    for name, meant in (("mm_hidden_size", inside), ("text_hidden_size", width)):
        if fields.size(name, default=meant) != meant:
            wrong = f"{name} of {fields.name} is {fields.get(name)}, not {meant}"
            raise InputError(wrong, hint="the two contradict each other")
    moved = fields.renamed(vt_intermediate_size="intermediate_size")
    heads = fields.size("vt_num_attention_heads", "num_attention_heads")
    layer = _layer(moved, inside, heads, ("q_proj", "k_proj", "v_proj", "proj"), ("", "fc1", "fc2"))
    together = inside * merge * merge
    positions = GridPositionEmbedding("patch_embed.pos_emb", high * wide, inside, taps=4, weighted=True)
    count = fields.layers("vt_num_hidden_layers", "num_hidden_layers")
    return Vision(
        tower=_model(
            fields, "vision_tower.", elements, inside, [layer] * count,
            before=(Linear("patch_embed.proj", elements, inside), positions),
            after=(Norm("final_layernorm", inside, "layer_norm", shift=True),),
        ),
        projector=_model(
            fields, "mm_projector.", inside, width, [],
            after=(
                Norm("pre_norm", inside, "layer_norm", shift=True), MergePatches("merge", merge),
                Linear("in_proj", together, together, "gelu"), Linear("out_proj", together, width),
            ),
        ),
        patch=patch,
        merge=merge,
        fit="padded",
        usual=(high * patch, wide * patch),
    )  # fmt: skip


def _gemma4(fields: Fields, width: int) -> Vision:
    """Gemma 4: positions by row and column, norms before and after each block, 3 x 3 patches averaged to a token."""
    inside, patch = fields.size("hidden_size"), fields.size("patch_size")
    heads, pool = fields.size("num_attention_heads"), fields.size("pooling_kernel_size")
    kv_heads = fields.size("num_key_value_heads", default=heads)
    head = fields.size("head_dim", default=0) or divide_evenly(fields, inside, heads, _HEADS)
    fields.ignore("global_head_dim", "max_position_embeddings")
    attention = Attention(
        "self_attn", inside, heads, kv_heads, head, head, norm="head", value_norm=True, rotary=head, causal=False
    )
    act = activation(fields, "hidden_activation", default="gelu_pytorch_tanh")
    mlp = Mlp("mlp", inside, fields.size("intermediate_size"), activation=act)
    layer = Layer((
        Norm("input_layernorm", inside), attention, Norm("post_attention_layernorm", inside),
        ResidualAdd("add_attention"),
        Norm("pre_feedforward_layernorm", inside), mlp, Norm("post_feedforward_layernorm", inside),
        ResidualAdd("add_feed_forward"),
    ))  # fmt: skip
    elements, rows = 3 * patch**2, fields.size("position_embedding_size")
    most = fields.size("default_output_length", default=280)
    positions = GridPositionEmbedding("patch_embedder.position_embedding_table", 2 * rows, inside, taps=2, axes=True)
    side = isqrt(most) * pool * patch
    # a mean is a product more than a sum; then the scale, and where it is standardised a difference and a product
    after = PoolPatches("pooler", pool, steps=4 if fields.flag("standardize") else 2)
    return Vision(
        tower=_model(
            fields, "model.vision_tower.", elements, inside, [layer] * fields.layers("num_hidden_layers"),
            before=(Linear("patch_embedder.input_proj", elements, inside, bias=False), positions), after=(after,),
        ),
        projector=_model(
            fields, "model.embed_vision.", inside, width, [],
            after=(
                Norm("embedding_pre_projection_norm", inside, scaled=False),
                Linear("embedding_projection", inside, width, bias=False),
            ),
        ),
        patch=patch,
        merge=pool,
        fit="budget",
        usual=(side, side),
        most=most,
    )  # fmt: skip


_TOWERS: dict[str, Callable[[Fields, int], Vision]] = {
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _qwen),
    "kimi_k25": _kimi,
    "gemma4": _gemma4,
}


def _layer(
    fields: Fields, width: int, heads: int, projections: tuple[str, str, str, str], matrices: tuple[str, str, str]
) -> Layer:
    """The usual layer of a vision transformer: layer norms, rotated heads, a plain MLP, biases everywhere."""
    head = divide_evenly(fields, width, heads, _HEADS)
    act = activation(fields, "hidden_act", default="gelu_pytorch_tanh")
    return Layer((
        Norm("norm1", width, "layer_norm", shift=True),
        Attention(
            "attn", width, heads, heads, head, head, bias=True, out_bias=True, rotary=head, causal=False,
            names=projections,
        ),
        ResidualAdd("add_attention"),
        Norm("norm2", width, "layer_norm", shift=True),
        Mlp("mlp", width, fields.size("intermediate_size"), False, act, True, matrices),
        ResidualAdd("add_feed_forward"),
    ))  # fmt: skip


def _model(fields: Fields, prefix: str, given: int, width: int, layers: Sequence[Layer], **blocks: Any) -> Model:
    """A part of the tower as a model: ``given`` elements a patch come in, and there is no table and no head."""
    written = fields.get("dtype") or fields.get("torch_dtype")
    return Model(
        name=fields.name, family=fields.kind, width=width, vocabulary=0, layers=tuple(layers),
        dtype=dtypes.get(str(written)).name if written else "", head=False, causal=False, receives=given, prefix=prefix,
        **blocks,
    )  # fmt: skip


#: The type whose reader the language part of each goes to where it names none that is known, and its prefix.
_TEXT = {
    kind: (reader, prefix)
    for prefix, readers in {
        "model.language_model.": {
            "qwen3": "qwen3_vl", "qwen3_moe": "qwen3_vl_moe", "qwen3_5_text": "qwen3_5 minicpmv4_6 minicpmv4_7",
            "qwen3_5_moe_text": "qwen3_5_moe", "gemma4_text": "gemma4", "gemma3n_text": "gemma3n",
            "mllama_text_model": "mllama", "lfm2": "lfm2_vl", "glm4v_text": "glm4v glm46v",
            "glm4v_moe_text": "glm4v_moe", "exaone4": "exaone4_5", "hyperclovax": "hyperclovax_vision_v2",
            "gemma4_unified_text": "gemma4_unified", "minimax_m3_vl_text": "minimax_m3_vl", "aria_text": "aria",
            "dots3_note_text": "dots3_note", "cohere_compass_text": "cohere_compass",
            "inkling_text": "inkling_mm_model", "glm_ocr_text": "glm_ocr", "hunyuan_vl_text": "hunyuan_vl",
            "paddleocr_vl_text": "paddleocr_vl", "muse_glimmer_text": "muse_glimmer", "muse_spark_text": "muse_spark",
            "molmo2_text": "molmo2", "cosmos3_edge_text": "cosmos3_edge", "apertus1p5_text": "apertus1p5",
            "hy_v4_vl_text": "hy_v4_vl", "granite4_vision_text": "granite4_vision", "lfm3": "lfm3_vl",
            "granite_docling_text": "granite_docling", "ernie4_5_vl_moe_text": "ernie4_5_vl_moe",
            "deepseek_ocr2_text": "deepseek_ocr2", "voxtral_realtime_text": "voxtral_realtime",
            "qwen2": "video_llama_3", "qwen2_vl_text": "qwen2_vl", "qwen2_5_vl_text": "qwen2_5_vl",
            "mistral_large4_text": "mistral_large4", "glm5_next_text": "glm5_next", "inkling2_text": "inkling2",
            "inkling2_loop_text": "inkling2_loop", "qwen4_exp_text": "qwen4_exp",
        },
        "language_model.model.": {
            "deepseek_v3": "kimi_k25 kimi_vl", "kimi_linear": "kimi_k3", "llama4_text": "llama4",
            "gemma3_text": "gemma3", "mistral": "mistral3", "gemma": "paligemma",
            "cohere2": "aya_vision cohere2_vision", "qwen2": "internvl_chat llava_onevision internvl got_ocr2 ovis2",
            "llama": "llava llava_next vipllava idefics3 smolvlm voxtral deepseek_vl perception_lm",
        },
        "thinker.model.": {
            "qwen3_moe": "qwen3_omni_moe", "qwen2": "qwen2_5_omni",
        },
        "model.text_model.": {
            "emu3_text_model": "emu3",
        },
        "language.model.": {
            "deepseek_v2": "deepseek_vl_v2",
        },
        "model.": {
            "step3_text": "step3_vl", "ernie4_5_vl_moe_text": "ernie4_5_moe_vl", "qwen2": "dots_ocr",
            "mimo_v2_flash": "mimo_v2",
        },
        "llm.model.": {
            "qwen2": "minicpmv minicpmo",
        },
    }.items()
    for reader, kinds in readers.items()
    for kind in kinds.split()
}  # fmt: skip
#: Types whose published configurations hold the language model's fields beside ``vision_config``.
_FLAT = (
    "qwen2_vl", "qwen2_5_vl", "ernie4_5_moe_vl", "dots_ocr", "minicpmv", "minicpmo", "mimo_v2", "paddleocr_vl",
    "hunyuan_vl",
)  # fmt: skip
#: What the language part of a MiniCPM-V is by ``version``, as vLLM reads it; the older two may leave it out.
_MINICPM = {"2.0": "minicpm", "2.5": "llama", "2.6": "qwen2", "4.0": "llama", "4.5": "qwen3"}
#: The parts of a model that make speech of what its language part (``thinker_config``) says.
_SPEAKING = ("talker_config", "code2wav_config", "token2wav_config")
_OF_BOTH = ("model_type", "vision_config", "audio_config", "architectures", "_name_or_path")


@family(*_TEXT)
def read(fields: Fields) -> Model:
    """Read the language part and the vision tower; parts of the tower that are not modelled are listed."""
    kind, prefix = _TEXT.get(fields.kind, ("", "model.language_model."))
    said = [f"{part} is not modelled: only the language part is" for part in _SPEAKING if part in fields]
    thinker = fields.section("thinker_config")
    if thinker is not None:
        fields.ignore("enable_audio_output", "enable_talker")
        fields = thinker.with_values(model_type=fields.kind)
    text = language_part(fields)
    if text is None and fields.kind in _FLAT:
        beside = inert_fields(fields.kind) | {*_OF_BOTH}
        text = {name: fields.get(name) for name in fields.names() if name not in beside}
        if fields.kind.startswith("minicpm"):
            usual = "2.0" if fields.get("hidden_size") == 2304 else "2.5"
            version = fields.with_values(version=str(fields.get("version", usual))).choice("version", _MINICPM)
            kind = _MINICPM[version]
    if text is None:
        wrong = f"{fields.name} has no text_config"
        raise InputError(wrong, hint=f"a {fields.kind} configuration holds its language model there")
    named = str(text.get("model_type") or kind)
    if named == "deepseek_v2" and text.get("use_mla") is False:  # the small DeepSeek-VL2, DeepSeek-OCR
        named = "deepseek"
    tied = fields.get("tie_word_embeddings", text.get("tie_word_embeddings"))
    own = Fields({**text, "model_type": named, **({} if tied is None else {"tie_word_embeddings": tied})}, fields.name)
    inner, left = with_defaults(own, sizes=True)
    inner = inner.with_values(model_type=read_as(named))
    inner.ignore_inert()
    inner.ignore("use_mla")
    model = reader_of(inner.kind)(inner)
    repeated = (name for name, value in text.items() if fields.get(name) == value)
    fields.ignore(*inner.unread(), *inert_fields("vision"), *repeated)
    seen, gaps = vision(fields, model.width)
    gaps += said
    if seen is not None and text.get("use_bidirectional_attention"):
        seen = replace(seen, both_ways=True)
    if "audio_config" in fields:
        gaps.append("audio_config is not modelled: only the language part is")
    gaps += [f"text_config.{field} is not understood and not modelled" for field in inner.unread()]
    head = "lm_head" if prefix.startswith("model.") else "language_model.lm_head"
    return replace(
        model, family=fields.kind, prefix=prefix, head_name=head, gaps=(*model.gaps, *gaps), vision=seen,
        notes=(*model.notes, *left()),
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
    special = rows_beyond_the_head(model.width, _SPECIAL_WORDS)
    return replace(model, layers=layers, before=special, notes=(said,) if skipped else ())
