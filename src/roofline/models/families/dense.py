"""Dense transformers as rows of the table: Llama, Qwen, Mistral, GLM, OLMo, GPT-2, OPT, Falcon, Cohere, BERT …

Gemma 2, 3, 3n, 4, and the encoder like it: norms around each block, shared keys and values, experts beside MLPs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from roofline.errors import InputError
from roofline.frozen import replace
from roofline.models.blocks import residual
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.encoder import DisentangledAttention, DistanceBiasedAttention, RelativePositions
from roofline.models.blocks.feed_forward import MixtureOfExperts, Mlp
from roofline.models.blocks.residual import (
    IdleBlocks,
    Linear,
    Norm,
    ParallelBranches,
    PerLayerEmbedding,
    PerLayerInput,
    PositionEmbedding,
    ResidualAdd,
)
from roofline.models.description import Block, Layer, Model
from roofline.models.families import decoder, family
from roofline.models.families.decoder import (
    AROUND,
    USUAL_NORMS,
    Decoder,
    DecoderSizes,
    Routing,
    activation,
    add,
    arranged,
    build_model,
    by_layer,
    layer_types,
    listed,
    rotary_part,
    rows_beyond_the_head,
    switched,
    to_each_side,
)
from roofline.models.fields import Fields, divide_evenly

_SHIFTED = ("layer_norm", True)
_UNSHIFTED = ("layer_norm", False)
_TWO = ("", "up_proj", "down_proj")
_FC = ("", "fc1", "fc2")
_C_FC = ("", "c_fc", "c_proj")
_TO_4H = ("", "dense_h_to_4h", "dense_4h_to_h")
_DENSE_OUT = ("q_proj", "k_proj", "v_proj", "dense")
_OUT_PROJ = ("q_proj", "k_proj", "v_proj", "out_proj")

#: Experts of types that mostly have none, as wide as an MLP (MiniCPM-MoE-8x2B).
_WHERE_COUNTED = Routing(
    experts=("num_experts",), hidden=("intermediate_size",), shared_count=0, when=lambda fields: "num_experts" in fields
)  # fmt: skip

LLAMA = Decoder(
    out_bias=("attention_out_bias", ("attention_bias", False)), act_fields=("hidden_activation", "hidden_act"),
    kinds=switched(), rotates=decoder.by_list, predicts=("num_nextn_predict_layers",),
)  # fmt: skip
_QKV = replace(LLAMA, out_bias=("attention_out_bias", False))
_WINDOWS = replace(LLAMA, kinds=switched(on=True))
_ONE_FULL_OF_FOUR = replace(LLAMA, kinds=switched(on=True, full=lambda fields, number: number % 4 == 0))
_QWEN_WINDOWS = switched(full=lambda fields, number: number < fields.count("max_window_layers"))


def _delay_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Matrices that make scales of a step's delay, one row for all tokens: in memory and not run."""
    width = shape.width
    made = (Linear("linear1", width, 32, bias=False), Linear("linear2", 32, width, bias=False))
    return {"before": (IdleBlocks("ada_rms_norm", made * shape.layers),)}


def _codebook_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Rows of the table for codes of sounds, of which a step adds one of each codebook to that of its word."""
    rows = fields.size("num_codebooks", default=32) * fields.size("codebook_vocab_size", default=2049) + 1
    return {"before": rows_beyond_the_head(shape.width, rows)}


def _ultrabert(fields: Fields) -> Fields:
    """Published configurations list a window for every layer, 0 where it sees everything."""
    windows = fields.listed("attention_windows", fields.layers("num_hidden_layers"))
    if windows is not None:
        kinds = ["sliding_attention" if window else "full_attention" for window in windows]
        fields = fields.with_values(layer_types=fields.get("layer_types") or kinds)
    return decoder.to_each_side(fields)


def _own_windows(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    """Each layer's own window, where they are listed."""
    own = (fields.listed("attention_windows", shape.layers) or [0] * shape.layers)[number]
    if kind != "sliding" or not own:
        return {}
    return {"window": 2 * fields.with_values(attention_windows=own).size("attention_windows")}


def _mobile(fields: Fields) -> Fields:
    """With ``layer_sharing`` each layer runs twice in turn; ``share_embedding`` ties the head to the table."""
    uses = 2 if fields.flag("layer_sharing", False) else 1
    tied = fields.flag("share_embedding", False) or fields.flag("tie_word_embeddings", False)
    numbers = range(fields.layers("num_hidden_layers"))
    return _in_order(fields.with_values(tie_word_embeddings=tied), [n for n in numbers for _ in range(uses)])


def _in_order(fields: Fields, order: Sequence[int]) -> Fields:
    """Layers that run in an order, some of them several times."""
    fields, kinds = fields.with_values(_layers=len(order), _order=order), fields.get("layer_types")
    if isinstance(kinds, list) and len(kinds) > max(order):
        fields = fields.with_values(layer_types=[kinds[number] for number in order])
    return fields.with_values(num_hidden_layers=fields.layers("_layers"))


def _by_order(fields: Fields, layers: int) -> list[tuple[tuple[str, str], ...]]:
    """The weights of layers that run several times."""
    order = fields.listed("_order", layers) or []
    uses = Counter(order)
    return [(("", f"layer {number}"),) if uses[number] > 1 else () for number in order]


def _ouro(fields: Fields) -> Fields:
    """All layers run ``total_ut_steps`` times in turn (Zhu et al., arXiv:2510.25741)."""
    turns, layers = fields.size("total_ut_steps", default=4, most=1000), fields.layers("num_hidden_layers")
    fields.listed("layer_types", layers)
    return _in_order(fields.with_values(_turn=layers), [*range(layers)] * turns)


def _nanbeige(fields: Fields) -> Fields:
    """All layers run ``num_loops`` times in turn (Nanbeige 4.2), of what its code has those alone.

    Weights of the turns before the last one, for training, say how many turns there are as well.
    """
    off = ("qk_layernorm", "enable_double_loop_split", "loop_share_kv", "enable_hyper_connection", "enable_mhc")
    fields.refuse_other(**dict.fromkeys((*off, "enable_depth_attention", "skip_loop_final_norm"), False))
    fields.refuse_other(emb_neighbor_num=None, loop_middle_layers=None)
    turns, layers = fields.size("num_loops", default=1, most=1000), fields.layers("num_hidden_layers")
    turns = len(fields.listed("loop_loss_weights") or range(turns - 1)) + 1
    return _in_order(fields.with_values(_turn=layers), [*range(layers)] * turns)


def _in_turns(model: Model, fields: Fields) -> Model:
    """The norm behind each turn is one."""
    turn = fields.size("_turn")
    norm = Norm("norm", model.width, restarts=True)
    ends = [Layer((*layer.blocks, norm), shared=layer.shared) for layer in model.layers[turn - 1 :: turn]]
    layers = [ends[n // turn] if (n + 1) % turn == 0 else layer for n, layer in enumerate(model.layers)]
    return replace(model, layers=tuple(layers), after=())


def _leaves_early(model: Model, fields: Fields) -> Model:
    """The gate that may end a text's turns early is in memory and not run."""
    gate = IdleBlocks("", (Linear("early_exit_gate", model.width, 1),))
    said = "every token takes all turns: one that leaves early takes fewer"
    return replace(_in_turns(model, fields), before=(gate,), notes=(said,))


def _dory(fields: Fields) -> Fields:
    """Layers between the first and the last run ``n_recurrent_loops`` times in turn (Dory).

    Published configurations list an attention and an MLP as two layers, by words or letters.
    """
    fields.refuse_other(recurrent_kv_cache_mode="per_loop", ngpt=True, fngpt=True, ngpt_enable_final_norm=False)
    fields.refuse_other(initial_state="input_copy", input_transform="residual", output_transform="replace")
    fields.refuse_other(mixer_type=None, attention_output_gate=True)
    fields.refuse_other(**{f"swa_{name}": fields.get(name) for name in ("num_attention_heads", "num_key_value_heads")})
    fields = fields.renamed(swa_window_size="sliding_window", mlp_hidden_act="hidden_act")
    letters = {"S": "sliding_attention", "*": "full_attention", "-": "mlp"}
    if pattern := fields.text("hybrid_layer_pattern"):
        fields = fields.with_values(layer_types=[letters.get(letter, letter) for letter in pattern])
    layers = fields.layers("num_hidden_layers")
    kinds = fields.listed("layer_types", layers)
    parts = 2 if kinds and "mlp" in kinds else 1
    numbers, turns = range(layers // parts), fields.size("n_recurrent_loops", default=2, most=1000)
    first, last = (fields.size(f"n_{end}_layers", default=8 * parts) // parts for end in ("input", "output"))
    inner = numbers[first : len(numbers) - last]
    if not inner or fields.size("n_recurrent_layers", default=len(inner) * parts) != len(inner) * parts:
        raise fields.not_understood("n_recurrent_layers", "all layers but the first and the last, at least one")
    usual = ["full_attention" if number % 4 == 3 else "sliding_attention" for number in numbers]
    starts = [first + turn * len(inner) for turn in range(turns)]
    head = fields.size("head_dim", "attention_head_dim", default=256)
    fields.refuse_other(swa_head_dim=head)
    fields = fields.with_values(_starts=starts, head_dim=head, layer_types=kinds[::parts] if kinds else usual)
    return _in_order(fields, [*numbers[:first], *[*inner] * turns, *numbers[inner.stop :]])


def _interpolated(model: Model, fields: Fields) -> Model:
    """Each block moves the state, whose norm is 1, a part of the way, by a rate for each channel (nGPT, 2410.01131).

    A turn starts from the state before all turns and from the one before it.
    """

    def changed(block: Block) -> Block:
        if isinstance(block, ResidualAdd):
            return replace(block, gated=model.width)
        if isinstance(block, Mlp):
            return replace(block, gate_scale=True)
        return replace(block, restarts=True) if isinstance(block, Norm) and block.name in AROUND[::2] else block

    layers = list(model.with_blocks(changed).layers)
    begin = Norm("norm", model.width, restarts=True, scaled=False), ResidualAdd("add_input")
    for start in fields.listed("_starts") or ():
        layers[start] = replace(layers[start], blocks=(*begin, *layers[start].blocks))
    return replace(model, layers=tuple(layers))


def _denoised(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """A step of denoising runs every token of the prompt and of the answer, and keeps nothing."""
    said = "a step of denoising is a prefill of prompt and answer together; with logits of all tokens where it asks so"
    return {"head": True, "notes": (said,)}


def _llada(fields: Fields) -> Fields:
    """LLaDA under the names of its own code, which is OLMo's; of its blocks those of Llama alone are read."""
    fields.refuse_other(
        block_type="llama", layer_norm_type="rms", rope=True, alibi=False, activation_type="silu", include_bias=False,
        input_emb_norm=False, num_experts=None, layer_norm_with_affine=True,
    )  # fmt: skip
    fields = fields.renamed(
        n_kv_heads="num_key_value_heads", mlp_hidden_size="intermediate_size", weight_tying="tie_word_embeddings",
        max_sequence_length="max_position_embeddings", embedding_size="vocab_size",
    )  # fmt: skip
    width = fields.size("hidden_size", "d_model")
    one = {"num_key_value_heads": 1} if fields.flag("multi_query_attention", False) else {}
    hidden = fields.size("intermediate_size", default=fields.size("mlp_ratio", default=4) * width)
    return fields.with_values(intermediate_size=hidden, **one)


def _skips(model: Model, fields: Fields) -> Model:
    """Before some layers of Solar Pro a state from before an earlier one is mixed in."""
    at, skip = {*(fields.listed("bskcn_3") or ()), *(fields.listed("bskcn_4") or ())}, [ResidualAdd("add_skip")]
    return replace(model, layers=tuple(Layer((*skip * (n in at), *one.blocks)) for n, one in enumerate(model.layers)))


add({
    "llama smollm3 granite iquestcoder aquila xverse telechat3": LLAMA,
    "kormo": replace(LLAMA, norms=("pre_attention_layernorm", "pre_mlp_layernorm")),
    "orion": replace(LLAMA, norm=_SHIFTED),
    "mobilellm": replace(LLAMA, prepare=_mobile, shares=_by_order),
    "mistral ministral ministral3 phi3 phi3_v phi4mm phi4_multimodal": _WINDOWS,
    "voxtral_realtime_text": replace(_WINDOWS, tied=True, ends=_delay_ends),
    "kyutai_speech_to_text": Decoder(  # ffn_dim counts gate and up together
        prepare=lambda fields: fields.with_values(intermediate_size=max(fields.size("ffn_dim") // 2, 1)),
        kinds=decoder.all_sliding, ends=_codebook_ends,
    ),
    # the larger Chameleon's norms stand behind its blocks
    "chameleon": Decoder(
        arrange=arranged("swin_norm", False, ("after", USUAL_NORMS)), qk_norm="own", qk_function="layer_norm",
        qk_shift=True,
    ),
    "cwm": _ONE_FULL_OF_FOUR,
    "granite_swa": replace(_ONE_FULL_OF_FOUR, sinks=True),
    "gemma": replace(LLAMA, tied=True),
    "eurobert": replace(LLAMA, causal=False),
    "ultrabert": replace(LLAMA, prepare=_ultrabert, causal=False, kinds=listed(3), attend=_own_windows),
    "qwen2": replace(_QKV, bias=("attention_bias", True), kinds=_QWEN_WINDOWS),
    "Dream": replace(_QKV, bias=("attention_bias", True), causal=False, ends=_denoised),
    "llada": replace(
        LLAMA, prepare=_llada, causal=False, bias=("include_qkv_bias", False), out_bias=False, mlp_bias=False,
        qk_norm="full", qk_switch=("attention_layer_norm", False), ends=_denoised,
    ),
    "ouro": replace(
        LLAMA, prepare=_ouro, order="around", bias=False, out_bias=False, mlp_bias=False,
        norms=("input_layernorm", "input_layernorm_2", "post_attention_layernorm", "post_attention_layernorm_2"),
        shares=_by_order, finish=_leaves_early,
    ),
    "nanbeige": replace(LLAMA, prepare=_nanbeige, shares=_by_order, finish=_in_turns),
    "dory": replace(
        LLAMA, prepare=_dory, scaled=False, order="around", norms=AROUND, out_bias=None, qk_norm="clipped",
        out_norm="full", mlp_norm="rms_norm", kinds=listed(), window=("sliding_window", 1024), head_bias=True,
        attend=lambda *asked: {"gate": "full"}, rotates=decoder.everywhere, shares=_by_order, finish=_interpolated,
    ),
    "qwen3 sdar": replace(LLAMA, qk_norm="head", kinds=_QWEN_WINDOWS),
    "mimo": replace(_QKV, bias=("attention_bias", True)),
    "seed_oss helium": _QKV,
    "internlm PanguEmbedded openpangu_dense": replace(LLAMA, bias=("bias", True), out_bias=None),
    "telechat": replace(
        LLAMA, renames={"ffn_hidden_size": "intermediate_size"}, bias=False, out_bias=True, mlp_bias=False,
        down_bias=True,
    ),
    "plamo": replace(
        _QKV, order="beside", norms=("norm",), bias=False,
        kv_heads=lambda fields, shape: -(-shape.heads // fields.size("n_shared_head", default=8)),
    ),
    "plamo3": replace(
        LLAMA, order="around", norms=("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm"),
        attention="mixer", qk_norm="head", act_fields=(), kinds=listed(8, "sliding_window_pattern"),
        window=("window_size", 2048), kv_heads=lambda fields, shape: fields.size("num_key_value_heads", default=4),
        tied=True,
    ),
    "solar": replace(LLAMA, finish=_skips),
    "minicpm": replace(LLAMA, tied=True, routing=_WHERE_COUNTED),
    "internlm3": replace(LLAMA, renames={"qkv_bias": "attention_bias", "bias": "mlp_bias"}),
})  # fmt: skip


@family("openelm")
def read_openelm(fields: Fields) -> Model:
    """Read OpenELM, whose layers have heads and widths of their own (Mehta et al., arXiv:2404.14619, section 2.1)."""
    fields.refuse_other(ffn_with_glu=True, normalization_layer_name="rms_norm")
    fields = fields.renamed(
        model_dim="hidden_size", max_context_length="max_position_embeddings", activation_fn_name="hidden_act",
        share_input_output_layers="tie_word_embeddings",
    )  # fmt: skip
    width, step, count = fields.size("hidden_size"), fields.size("ffn_dim_divisor"), "num_transformer_layers"
    row = replace(
        LLAMA, norms=("attn_norm", "ffn_norm"), attention="attn", projections=_OUT_PROJ, qk_norm="head", mlp="ffn",
        qk_switch=("normalize_qk_projections", False), tied=True, prefix="transformer.", embedding="token_embeddings",
    )  # fmt: skip
    heads, kv_heads = (fields.sizes(name, fields.layers(count)) for name in ("num_query_heads", "num_kv_heads"))
    made = []
    listed = fields.listed("ffn_multipliers", len(heads)) or [None] * len(heads)
    for h, kv, times in zip(heads, kv_heads, listed, strict=False):
        steps = fields.with_values(ffn_multipliers=times).factor("ffn_multipliers") * width / step
        sizes = {"num_hidden_layers": 1, "num_attention_heads": h, "num_key_value_heads": kv}
        hidden = max(int(steps + 0.5), -int(-0.9 * steps // 1)) * step
        made.append(decoder.read(row, fields.with_values(**sizes, intermediate_size=hidden)))
    return replace(made[0], layers=tuple(model.layers[0] for model in made))


_GLM = Decoder(out_bias=False, mlp_bias=False, rotary=rotary_part(2))
_GLM4 = replace(
    _GLM, order="around",
    norms=("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"),
)  # fmt: skip
_OLMO2 = Decoder(
    order="after", norms=("post_attention_layernorm", "post_feedforward_layernorm"), qk_norm="full", mlp_bias=False,
    kinds=decoder.patterned,
)  # fmt: skip
_USE_BIAS = ("use_bias", False)
_POST_NORMS = ("input_layernorm", "post_norm1", "post_attention_layernorm", "post_norm2")

add({
    "olmo": Decoder(norm=_UNSHIFTED, scaled=False, mlp_bias=False),
    "olmo2": replace(_OLMO2, kinds=listed()),
    "olmo3": _OLMO2,
    "exaone4": replace(_OLMO2, qk_norm="head", rotates=decoder.in_windows_if_any),
    "bitnet": Decoder(out_norm="full", mlp_norm="rms_norm", mlp_bias=False, act="relu2"),
    "hyperclovax": Decoder(arrange=arranged("use_post_norm", True, ("around", _POST_NORMS))),
    "glm": _GLM,
    "glm4": _GLM4,
    "glm4v_text": replace(_GLM4, bias=True),
    "ernie4_5": Decoder(bias=_USE_BIAS, mlp_bias=_USE_BIAS, tied=True),
    "hunyuan_v1_dense": Decoder(
        qk_norm="head", attend=decoder.cross_layer, ends=decoder.cross_layer_ends, mlp_bias=False,
    ),
})  # fmt: skip


def _compass_rotates(fields: Fields, kinds: Any) -> list[bool]:
    """Layers of a kind rotate where ``rope_parameters`` has a section for it, or one for all."""
    given = fields.get("rope_parameters") or {}
    by_kind = any(str(name).endswith("_attention") for name in given)
    return [not by_kind or given.get(f"{kind}_attention") is not None for kind in kinds]


def _molmo_norm(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    """Norms of queries and keys: head by head as in Qwen 3, or over all heads as in OLMo 2."""
    return {"norm": {"qwen3": "head", "olmo": "full"}[fields.choice("qk_norm_type", ("qwen3", "olmo"), "qwen3")]}


def _molmo_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    rows = fields.count("additional_vocab_size") if "additional_vocab_size" in fields else 128
    gaps = () if fields.kind == "molmo2_text" else ("the vision tower, which no field describes, is not modelled",)
    return {"before": rows_beyond_the_head(shape.width, rows), "gaps": gaps}


_MOLMO2 = Decoder(
    renames={"qkv_bias": "attention_bias"}, arrange=arranged("norm_after", False, ("after", USUAL_NORMS)),
    out_bias=False, attend=_molmo_norm, mlp_bias=False, ends=_molmo_ends,
)  # fmt: skip

add({
    "emu3_text_model": LLAMA,
    "diffllama": Decoder(attend=lambda *asked: {"differential": True}, mlp_bias=False),
    "molmo2_text": _MOLMO2,
})  # fmt: skip


def _fewer_said(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Apertus 1.5's head has rows for the words that it says alone, and not for pictures and sounds."""
    said = fields.size("output_vocab_size", default=shape.vocabulary)
    if said > shape.vocabulary:
        wrong = f"output_vocab_size of {fields.name} is {said} and its vocab_size {shape.vocabulary}"
        raise InputError(wrong, hint="the head says words of the vocabulary")
    return {"vocabulary": said, "before": rows_beyond_the_head(shape.width, shape.vocabulary - said)}


def _patches(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Fuyu's pictures are rows of patches, each through one matrix to a token: no tower."""
    fields.ignore("image_size", "text_model_type")
    colours = fields.size("num_channels", default=3) * fields.size("patch_size", default=30) ** 2
    matrix = IdleBlocks("", (Linear("vision_embed_tokens", colours, shape.width),))
    return {"before": (matrix,), "notes": ("the matrix of patches of pictures is in memory and not run",)}


_UNGATED = Decoder(gated=False, mlp_names=_TWO, act="relu2")
_PERSIMMON = replace(
    _UNGATED, norm=_SHIFTED, bias=True, projections=_DENSE_OUT, rotary=rotary_part(2), qk_norm="head",
    qk_switch=("qk_layernorm", True), qk_function="layer_norm", qk_shift=True, mlp_bias=True, mlp_names=_TO_4H,
    last_norm="final_layernorm",
)  # fmt: skip

add({
    "arcee": _UNGATED,
    "nemotron": replace(_UNGATED, norm=_SHIFTED, rotary=rotary_part(2)),
    "jais2": replace(_UNGATED, norm=_SHIFTED, bias=("attention_bias", True), mlp_bias=("mlp_bias", True)),
    "starcoder2": replace(
        _UNGATED, norm=_SHIFTED, bias=("attention_bias", ("use_bias", True)), mlp_bias=("mlp_bias", ("use_bias", True)),
        mlp_names=_C_FC, act="gelu_pytorch_tanh", kinds=decoder.all_sliding, tied=True,
    ),
    "cosmos3_edge_text": replace(_UNGATED, mlp_names=_FC),
    "apertus apertus1p5_text": replace(
        _UNGATED, norms=("attention_layernorm", "feedforward_layernorm"), qk_norm="head", act="xielu", ends=_fewer_said,
    ),
    "nanochat": replace(
        _UNGATED, scaled=False, qk_norm="plain", mlp_names=_FC, mlp_bias=False,
        ends=lambda fields, shape: {"before": (Norm("norm", shape.width, restarts=True, scaled=False),)},
    ),
    "persimmon": _PERSIMMON,
    "fuyu": replace(_PERSIMMON, ends=_patches),
})  # fmt: skip

_REMOTE = Decoder(bias=("bias", False), mlp_bias=False, act_fields=("hidden_act", "activation_function"))


def _chatglm(fields: Fields) -> Fields:
    if fields.flag("add_bias_linear", False) or not fields.flag("rmsnorm", True):
        raise InputError(f"{fields.name} has layer norms or biases everywhere; that is not read")
    grouped = fields.flag("multi_query_attention", False)
    groups = fields.optional("multi_query_group_num")
    fields = fields.renamed(
        num_layers="num_hidden_layers", padded_vocab_size="vocab_size", seq_length="max_position_embeddings",
        kv_channels="head_dim", ffn_hidden_size="intermediate_size",
    )  # fmt: skip
    return fields.with_values(num_key_value_heads=groups) if grouped and groups is not None else fields


def _first_qwen(fields: Fields) -> Fields:
    """The first Qwen's ``intermediate_size`` is of gate and up together."""
    both = fields.size("intermediate_size")
    half = divide_evenly(fields, both, 2, "an intermediate_size of {total} does not divide into gate and up")
    return fields.renamed(kv_channels="head_dim").with_values(intermediate_size=half)


def _first_molmo(fields: Fields) -> Fields:
    """The first Molmo's width is of gate and up together too; its head has rows of padding."""
    return _first_qwen(fields.with_values(vocab_size=fields.size("embedding_size", "vocab_size")))


add({
    "internlm2 exaone": _REMOTE,
    # the larger Baichuan has slopes of scores in place of rotation
    "baichuan": replace(_REMOTE, rotary=lambda fields, shape: 0 if shape.width == 5120 else shape.rotary),
    "chatglm": Decoder(
        prepare=_chatglm, bias=("add_qkv_bias", False), out_bias=False, rotary=lambda fields, shape: shape.head // 2,
        mlp_bias=False, act_fields=(),
    ),
    "qwen": Decoder(prepare=_first_qwen, bias=True, out_bias=False, mlp_bias=False, act_fields=()),
    "molmo": replace(
        _MOLMO2, prepare=_first_molmo, attend=None, qk_norm="full", qk_switch=("attention_layer_norm", False),
        act_fields=(),
    ),
})  # fmt: skip


def _neox_rotary(fields: Fields, shape: DecoderSizes) -> int:
    return int(shape.head * (fields.fraction("rotary_pct") or 1)) if "rotary_pct" in fields else shape.rotary


def _falcon_heads(fields: Fields, shape: DecoderSizes) -> int:
    """One head of keys for all (7B), groups of them (40B, 180B, 11B), or one for each (RW)."""
    if fields.flag("new_decoder_architecture", False):
        return fields.size("num_kv_heads", "n_head_kv", default=shape.heads)
    return 1 if fields.flag("multi_query", True) else shape.kv_heads


def _falcon_order(fields: Fields) -> decoder.Arrangement:
    newer = fields.flag("new_decoder_architecture", False)
    norms = fields.size("num_ln_in_parallel_attn", default=2 if newer else 1)
    if newer or fields.flag("parallel_attn", True):
        return "beside", ("ln_attn", "ln_mlp") if newer and norms == 2 else ("input_layernorm",)
    return "before", USUAL_NORMS


_COHERE = Decoder(
    norm=_UNSHIFTED, order="beside", norms=("input_layernorm",), qk_norm="own", qk_switch=("use_qk_norm", False),
    qk_function="layer_norm", mlp_bias=False, kinds=listed(), window=("sliding_window", 4096), tied=True,
)  # fmt: skip

add({
    "gpt_neox": Decoder(
        norm=_SHIFTED, arrange=arranged("use_parallel_residual", True, ("beside", USUAL_NORMS)), attention="attention",
        bias=("attention_bias", True), rotary=_neox_rotary, gated=False, mlp_bias=True,
        mlp_names=_TO_4H, act="gelu", last_norm="final_layer_norm", prefix="gpt_neox.", embedding="embed_in",
        head="embed_out",
    ),
    "gpt_neox_japanese": Decoder(
        prepare=lambda fields: fields.with_values(
            intermediate_size=fields.size("hidden_size") * fields.size("intermediate_multiple_size", default=4)
        ),
        norm=_SHIFTED, attention="attention", projections=_DENSE_OUT, bias=False, rotary=_neox_rotary,
        attend=lambda fields, shape, kind, number: {"out_bias": number == shape.layers - 1}, gated=False,
        mlp_bias=False, mlp_names=_TO_4H, act="gelu", tied=True, last_norm="final_layer_norm",
        prefix="gpt_neox_japanese.", embedding="embed_in",
    ),
    "gptj codegen": Decoder(
        norm=_SHIFTED, order="beside", norms=("ln_1",), attention="attn", projections=_OUT_PROJ, bias=False,
        gated=False, mlp_bias=True, mlp_names=("", "fc_in", "fc_out"), hidden=("n_inner",), hidden_times=4,
        act_fields=("activation_function",), act="gelu_new", last_norm="ln_f", prefix="transformer.", embedding="wte",
        head_bias=True,
    ),
    # phi-msft: the names of its own first code
    "phi phi-msft": Decoder(
        renames={"n_head_kv": "num_key_value_heads"}, norm=_SHIFTED, order="beside", norms=("input_layernorm",),
        projections=_DENSE_OUT, bias=True, rotary=rotary_part(2), qk_norm="head", qk_switch=("qk_layernorm", False),
        qk_function="layer_norm", qk_shift=True, gated=False, mlp_bias=True, mlp_names=_FC,
        hidden=("intermediate_size", "n_inner"), hidden_times=4, act_fields=("hidden_act", "activation_function"),
        act="gelu_new", last_norm="final_layernorm", head_bias=True,
    ),
    "falcon": Decoder(
        norm=_SHIFTED, arrange=_falcon_order, attention="self_attention", bias=("bias", False), kv_heads=_falcon_heads,
        rotary=lambda fields, shape: 0 if fields.flag("alibi", False) else shape.rotary, gated=False,
        mlp_bias=("bias", False), mlp_names=_TO_4H, hidden=("ffn_hidden_size",), hidden_times=4,
        act_fields=("activation",), act="gelu", tied=True, last_norm="ln_f", prefix="transformer.",
        embedding="word_embeddings",
    ),
    "cohere": _COHERE,
    "cohere_compass_text": replace(_COHERE, qk_switch=False, rotates=_compass_rotates),
    "cohere2": replace(_COHERE, kinds=listed(4, "sliding_window_pattern"), rotates=decoder.in_windows),
    "stablelm": Decoder(
        norm=_SHIFTED, arrange=arranged("use_parallel_residual", False, ("beside", ("input_layernorm",))),
        bias=("use_qkv_bias", False), out_bias=False, rotary=rotary_part(4), qk_norm="own",
        qk_switch=("qk_layernorm", False), qk_function="layer_norm", mlp_bias=False,
    ),
})  # fmt: skip

_GPT2 = Decoder(
    norm=_SHIFTED, norms=("ln_1", "ln_2"), attention="attn", bias=True, rotary=lambda fields, shape: 0, gated=False,
    mlp_bias=True, mlp_names=_C_FC, hidden=("n_inner",), hidden_times=4, act_fields=("activation_function",),
    act="gelu_new", tied=True, last_norm="ln_f", prefix="transformer.", embedding="wte",
    ends=lambda fields, shape: _positions(shape, fields.size("n_positions", "n_ctx", default=1024)),
)  # fmt: skip


def _positions(shape: DecoderSizes, rows: int) -> dict[str, Any]:
    return {"before": (PositionEmbedding("wpe", rows, shape.width),), "context": rows}


def _jais(fields: Fields) -> Fields:
    """Of Jais what is published: biases for distances in place of positions."""
    fields.choice("activation_function", ("swiglu",), "gelu_new")
    fields.choice("position_embedding_type", ("alibi",), "learned")
    return fields


def _neo_kinds(fields: Fields, layers: int) -> list[str]:
    """Windows as ``attention_layers`` lists them, or ``attention_types`` in runs: [[["global", "local"], 12]]."""
    fields.ignore("attention_types", "attention_layers")
    kinds = fields.listed("attention_layers", layers)
    if kinds is None:
        kinds = []
        for run in fields.listed("attention_types", nested=True) or []:
            known = isinstance(run, list) and len(run) == 2 and isinstance(run[0], list) and isinstance(run[1], int)
            kinds += run[0] * min(run[1], layers) if known else ["?"]
    if len(kinds) < layers or any(kind not in ("global", "local") for kind in kinds):
        raise fields.not_understood("attention_types", "'global' or 'local' for every layer")
    return ["sliding" if kind == "local" else "full" for kind in kinds[:layers]]


def _mpt(fields: Fields) -> Fields:
    if (inner := fields.section("attn_config")) is not None:
        inner.refuse_other(attn_type="multihead_attention", prefix_lm=False, qk_ln=False)
    width = fields.size("hidden_size", "n_embd", "d_model")
    return fields.with_values(n_inner=fields.size("expansion_ratio", default=4) * width)


def _first_gpt(fields: Fields) -> Fields:
    said = fields.text("afn") or "gelu"
    return fields.with_values(afn="gelu_new" if said == "gelu" else said)


def _sines(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    rows = fields.size("max_position_embeddings", "n_positions")
    return {"before": (PositionEmbedding("positions", rows, shape.width, trained=False),), "context": rows}


def _two_more(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    rows = fields.size("max_position_embeddings", default=1024)
    return {"before": (PositionEmbedding("embed_positions", rows + 2, shape.width),), "context": rows}


def _of_pictures_or_words(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    ends = _sines(fields, shape)
    return {**ends, "before": (*ends["before"], PositionEmbedding("segment_emb", 2, shape.width))}


def _opt_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Two more rows of positions than it takes tokens; one model has a narrower table, and norms after its blocks."""
    width, rows = shape.width, fields.size("max_position_embeddings", default=2048)
    table = fields.size("word_embed_proj_dim", default=width)
    before: tuple[Block, ...] = (PositionEmbedding("embed_positions", rows + 2, width),)
    first = fields.flag("do_layer_norm_before", True) and not fields.flag("_remove_final_layer_norm", False)
    trained = fields.flag("layer_norm_elementwise_affine", True)
    last = Norm("final_layer_norm", width, "layer_norm", trained, scaled=trained)
    after: tuple[Block, ...] = (last,) if first else ()
    if table != width:
        before = (Linear("project_in", table, width, bias=False), *before)
        after = (*after, Linear("project_out", width, table, bias=False))
    return {"before": before, "after": after, "context": rows, "width": table}


_OPT_NORMS = ("self_attn_layer_norm", "final_layer_norm")
_AFFINE = ("layer_norm_elementwise_affine", True)
_BIOGPT = replace(
    _GPT2, norms=_OPT_NORMS, attention="self_attn", projections=_OUT_PROJ,
    mlp_names=_FC, hidden=("intermediate_size",), hidden_times=None, act_fields=("hidden_act",), act="gelu",
    last_norm="layer_norm", prefix="biogpt.", embedding="embed_tokens", ends=_two_more,
)  # fmt: skip

_KOSMOS = replace(
    _BIOGPT,
    renames={"embed_dim": "hidden_size", "layers": "num_hidden_layers", "attention_heads": "num_attention_heads"},
    qk_function="layer_norm", qk_shift=True, mlp_norm="layer_norm", hidden=("ffn_dim",),
    act_fields=("activation_function",), prefix="model.", ends=_sines,
)  # fmt: skip

add({
    "gpt2 gpt-sw3": replace(_GPT2, kv_heads=lambda fields, shape: shape.heads),
    "jais": replace(
        _GPT2, prepare=_jais, kv_heads=lambda fields, shape: shape.heads, gated=True,
        mlp_names=("c_fc2", "c_fc", "c_proj"), act_fields=(), act="silu", ends=lambda fields, shape: {},
    ),
    "gpt_bigcode": replace(
        _GPT2, kv_heads=lambda fields, shape: 1 if fields.flag("multi_query", True) else shape.heads,
        act="gelu_pytorch_tanh",
    ),
    "gpt_neo": replace(
        _GPT2, attention="attn.attention", bias=False, out_bias=True, kinds=_neo_kinds, window=("window_size", 256),
        hidden=("intermediate_size",),
        ends=lambda fields, shape: _positions(shape, fields.size("max_position_embeddings", default=2048)),
    ),
    "bloom": replace(
        _GPT2, prepare=lambda fields: fields if "hidden_size" in fields else fields.renamed(n_embed="hidden_size"),
        norms=USUAL_NORMS, attention="self_attention", mlp_names=_TO_4H, hidden=(), act_fields=(),
        act="gelu_pytorch_tanh", embedding="word_embeddings",
        ends=lambda fields, shape: {"before": (Norm("word_embeddings_layernorm", shape.width, *_SHIFTED),)},
    ),
    "openai-gpt": replace(
        _GPT2, prepare=_first_gpt, order="behind", hidden=(), act_fields=("afn",), embedding="tokens_embed",
        ends=lambda fields, shape: {**_positions(shape, fields.size("n_positions", default=512)), "after": ()},
    ),
    "ctrl": replace(
        _GPT2, norms=("layernorm1", "layernorm2"), attention="multi_head_attention",
        projections=("Wq", "Wk", "Wv", "dense"), mlp="ffn", mlp_names=("", "0", "2"), hidden=("dff",),
        hidden_times=None, act_fields=(), act="relu", last_norm="layernorm", embedding="w", head_bias=True, ends=_sines,
    ),
    "biogpt": _BIOGPT,
    "xglm": replace(
        _BIOGPT, renames={"attention_heads": "num_attention_heads"}, hidden=("ffn_dim",),
        act_fields=("activation_function",), prefix="model.", ends=_sines,
    ),
    "kosmos_2_text_model": replace(_KOSMOS, out_norm="full"),
    "kosmos_2_5_text_model": replace(_KOSMOS, ends=_of_pictures_or_words),
    "mpt": replace(
        _GPT2, prepare=_mpt, norm=_UNSHIFTED, norms=("norm_1", "norm_2"), bias=False, mlp="ffn", mlp_bias=False,
        mlp_names=_TWO, act_fields=(), act="gelu", last_norm="norm_f",
        ends=lambda fields, shape: {"context": fields.optional("max_seq_len")},
    ),
    "opt": replace(
        _GPT2, norm=("layer_norm", _AFFINE), scaled=_AFFINE, bias=("enable_bias", True), attention="self_attn",
        projections=_OUT_PROJ, mlp_bias=("enable_bias", True), mlp_names=_FC, hidden=("ffn_dim",),
        arrange=arranged("do_layer_norm_before", True, ("before", _OPT_NORMS), ("behind", _OPT_NORMS)),
        hidden_times=None, act="relu", prefix="model.decoder.", embedding="embed_tokens", ends=_opt_ends,
    ),
})  # fmt: skip

#: Encoders without token types; without a pooler; without a norm of their tables, which stands behind the last layer,
#: as it does in those whose norms stand before the blocks; those whose positions begin at 2.
_NO_TYPES = ("distilbert", "bert-generation", "mpnet")
_NO_POOLER = (
    "distilbert", "bert-generation", "electra", "roformer", "splinter", "nomic_bert", "gte", "new", "layoutlmv3",
)  # fmt: skip
_ONE_TYPE = ("gte", "new", "jina_embeddings_v3", "clap_text_model")
_ROTATED = ("nomic_bert", "gte", "new", "jina_embeddings_v3")
_NO_FIRST_NORM = ("megatron-bert", "xlm-roberta-xl")
_NORMS_FIRST = (*_NO_FIRST_NORM, "roberta-prelayernorm")
_FROM_2 = (
    "roberta", "xlm-roberta", "camembert", "data2vec-text", "xlm-roberta-xl", "roberta-prelayernorm", "mpnet", "ibert",
    "clap_text_model", "layoutlmv3", "longformer",
)  # fmt: skip


def _bert_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Tables, a projection where they are narrower than the model, a pooler and no head.

    RoBERTa's table of positions has two more rows than it takes tokens; RoFormer's holds what it rotates by.
    """
    kind, width, rows = fields.kind, shape.width, fields.size("max_position_embeddings", default=512)
    inside = fields.size("embedding_size", "input_embedding_size", default=width)
    positions: Block = PositionEmbedding("position_embeddings", rows, inside)
    if kind == "roformer":
        positions = IdleBlocks("encoder", (PositionEmbedding("embed_positions", rows, shape.head),))
    before = [] if kind in _ROTATED else [positions]
    said = fields.get("type_vocab_size") is not None
    types = fields.count("type_vocab_size") if said else 2 - (kind in _ONE_TYPE)
    if kind not in _NO_TYPES and types:
        before.append(PositionEmbedding("token_type_embeddings", types, inside))
    if fields.flag("use_task_id", False):
        tasks = fields.size("task_type_vocab_size", default=3)
        before.append(PositionEmbedding("task_type_embeddings", tasks, inside))
    before += _places(fields, inside)
    if kind not in _NO_FIRST_NORM:
        before.append(Norm("embeddings.LayerNorm", inside, *_SHIFTED, restarts=True))
    if inside != width or kind in ("rembert", "albert"):
        before.append(Linear("embeddings_project", inside, width, restarts=True))
    return {
        "before": tuple(before), "width": inside,
        "final": () if kind in _NO_POOLER else (Linear("pooler", width, width, "tanh"),),
        "context": rows - 2 if kind in _FROM_2 else rows,
        **({} if kind in _NORMS_FIRST else {"after": ()}),
    }  # fmt: skip


def _places(fields: Fields, inside: int) -> list[Block]:
    """Tables of places on a page (LayoutLM), of which a row is as wide as the model, or six rows together are."""
    if "max_2d_position_embeddings" not in fields:
        return []
    rows = fields.size("max_2d_position_embeddings")
    ends, sides = (fields.size(name, default=inside) for name in ("coordinate_size", "shape_size"))
    widths = {"x": ends, "y": ends, "h": sides, "w": sides}
    return [PositionEmbedding(f"{name}_position_embeddings", rows, width) for name, width in widths.items()]


def _with_pictures(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Patches of a picture of the page stand before the words, where there is one: their weights are not run."""
    found, width = _bert_ends(fields, shape), shape.width
    fields.ignore("input_size", "patch_size", "num_channels")
    if not fields.flag("visual_embed", True):
        return found
    patch, side = fields.size("patch_size", default=16), fields.size("input_size", default=224)
    patches = (Linear("patch_embed.proj", fields.size("num_channels", default=3) * patch**2, width),)
    rows = (PositionEmbedding("cls_token", 1, width), PositionEmbedding("pos_embed", (side // patch) ** 2 + 1, width))
    again = Norm("LayerNorm", width, *_SHIFTED, restarts=True)
    idle = IdleBlocks("visual", (*patches, *rows, Norm("norm", width, *_SHIFTED)))
    said = "the picture of a page is not modelled: its weights are in memory, words and their places are run"
    return {**found, "before": (idle, *found["before"], again), "notes": (said,)}


def _text_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Positions, and a matrix behind one token: SigLIP's, and that of a ``CLIPTextModelWithProjection``."""
    head = fields.size("projection_size", default=shape.width) if "siglip" in fields.kind else 0
    positions = _positions(shape, fields.size("max_position_embeddings", default=64 if head else 77))
    if any(name.endswith("WithProjection") for name in fields.classes):
        inside = fields.size("projection_dim", default=512)
        return {**positions, "final": (Linear("text_projection", shape.width, inside, bias=False),)}
    return {**positions, "final": (Linear("head", shape.width, head),) if head else ()}


def _wide_windows(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    """Longformer's windows, half to each side."""
    return {"window": fields.sizes("attention_window", shape.layers, 512)[number]}


def _global_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Matrices of tokens that see all others, of which there are none unless a task has some."""
    found, width = _bert_ends(fields, shape), shape.width
    return {**found, "before": (*found["before"], global_matrices(width, shape.layers))}


def global_matrices(width: int, layers: int) -> Block:
    """The matrices of a Longformer's global tokens, in memory and not run."""
    each = tuple(Linear(f"{name}_global", width, width) for name in ("query", "key", "value"))
    return IdleBlocks("global", each * layers)


def _esm_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Positions where nothing rotates, and a head that finds contacts in attention maps, which no plain step runs."""
    width, rows = shape.width, fields.size("max_position_embeddings", default=1026)
    maps = shape.layers * shape.heads
    before: list[Block] = [IdleBlocks("contact_head", (Linear("regression", maps, 1),))]
    if fields.get("position_embedding_type", "absolute") == "absolute":
        before.append(PositionEmbedding("position_embeddings", rows, width))
    if fields.flag("emb_layer_norm_before", False):
        before.append(Norm("embeddings.layer_norm", width, *_SHIFTED, restarts=True))
    return {"before": tuple(before), "final": (Linear("pooler", width, width, "tanh"),), "context": rows - 2}


def _relative(fields: Fields) -> int:
    """Rows of the table of relative positions; 0 where there is none."""
    longest = fields.optional("max_relative_positions", -1)
    span = longest or fields.size("max_position_embeddings", default=512)
    buckets = fields.optional("position_buckets", -1)
    return 2 * (buckets or span) if fields.flag("relative_attention", False) else 0


def _disentangled(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Attention) -> Block:
    """Scores of relative positions, where there are any."""
    given = fields.get("pos_att_type")
    if isinstance(given, str):
        parts = [part for part in given.replace(" ", "").lower().split("|") if part]
    else:
        parts = fields.listed("pos_att_type") or []
    if not {*parts} <= {"c2p", "p2c"}:
        raise fields.not_understood("pos_att_type", "c2p, p2c or both")
    first = fields.kind == "deberta"
    same, rows = fields.flag("share_att_key", False) and not first, _relative(fields)
    if fields.flag("talking_head", False):
        raise InputError(f"talking_head of {fields.name} is set", hint="scores that heads mix are not read")
    if not rows:
        return attention
    return attention.as_kind(DisentangledAttention, rows=rows, parts_added=tuple(parts), same=same, own=first)


def _deberta_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Tables, a projection where they are narrower, a norm, and relative positions for all layers."""
    if fields.get("conv_kernel_size"):
        raise InputError(f"conv_kernel_size of {fields.name} is set", hint="a convolution of all channels is not read")
    width, rows = shape.width, fields.size("max_position_embeddings", default=512)
    inside, before = fields.size("embedding_size", default=width), list[Block]()
    if fields.flag("position_biased_input", True):
        before.append(PositionEmbedding("position_embeddings", rows, inside))
    if types := fields.count("type_vocab_size"):
        before.append(PositionEmbedding("token_type_embeddings", types, inside))
    if inside != width:
        before.append(Linear("embeddings.embed_proj", inside, width, bias=False, restarts=True))
    before.append(Norm("embeddings.LayerNorm", width, *_SHIFTED, restarts=True))
    normed = "layer_norm" in str(fields.get("norm_rel_ebd", "none")).lower() and fields.kind != "deberta"
    if relative := _relative(fields):
        before.append(RelativePositions("encoder", relative, width, normed))
    elif normed:
        before.append(IdleBlocks("encoder", (Norm("LayerNorm", width, *_SHIFTED),)))
    return {"before": tuple(before), "width": inside, "after": (), "context": rows}


def _nomic(fields: Fields) -> Fields:
    """Names of its own code: biases are off, and half of a SwiGLU's two parts is said."""
    act = fields.text("activation_function")
    return fields.renamed(n_inner="intermediate_size").with_values(
        **({"hidden_act": "silu" if act == "swiglu" else act} if act else {}),
        max_position_embeddings=fields.size("max_position_embeddings", "n_positions", default=2048),
    )


def _distances(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Attention) -> Block:
    """A number for each head and distance is added to the scores, of one table for all layers."""
    buckets = fields.size("relative_attention_num_buckets", "rel_pos_bins", default=32)
    if "rel_2d_pos_bins" in fields:  # LayoutLMv3: distances along the text and in two directions of the page
        buckets = fields.flag("has_relative_attention_bias", True) * buckets
        buckets += fields.flag("has_spatial_attention_bias", True) * 2 * fields.size("rel_2d_pos_bins")
        if not buckets:
            return attention
    return attention.as_kind(DistanceBiasedAttention, buckets=buckets, holds=number == 0)


_BERT = Decoder(
    norm=_SHIFTED, order="behind", norms=("attention.output.LayerNorm", "output.LayerNorm"), attention="attention",
    projections=("query", "key", "value", "output"), bias=True, causal=False, rotary=lambda fields, shape: 0,
    gated=False, mlp_bias=True, mlp_names=("", "intermediate", "output"), act="gelu", prefix="bert.",
    embedding="word_embeddings", ends=_bert_ends,
)  # fmt: skip


def _albert(fields: Fields) -> Fields:
    """Each use of a group runs all of its layers."""
    inner = fields.size("inner_group_num", default=1)
    return fields.with_values(
        num_hidden_layers=fields.layers("num_hidden_layers") * inner,
        embedding_size=fields.size("embedding_size", default=128),
    )


def _albert_groups(fields: Fields, layers: int) -> list[tuple[tuple[str, str], ...]]:
    """The layers of a group share weights with those of the same place in its other uses."""
    inner, groups = (fields.size(name, default=1) for name in ("inner_group_num", "num_hidden_groups"))
    uses = layers // inner
    placed = ((min(number // inner * groups // uses, groups - 1), number % inner) for number in range(layers))
    return [(("", f"albert_layer_groups.{group}.albert_layers.{at}"),) for group, at in placed]


def _modern_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    shift = fields.flag("norm_bias", False)
    return {"before": (Norm("embeddings.norm", shape.width, "layer_norm", shift, restarts=True),)}


def _modern_decoder_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """A matrix and a norm before the head."""
    width, shift = shape.width, fields.flag("norm_bias", False)
    act = activation(fields, "classifier_activation", default="gelu")
    dense = Linear("lm_head.dense", width, width, act, bias=fields.flag("classifier_bias", False))
    return {**_modern_ends(fields, shape), "final": (dense, Norm("lm_head.norm", width, "layer_norm", shift))}


_MODERN = Decoder(
    norm=("layer_norm", ("norm_bias", False)), norms=("attn_norm", "mlp_norm"), attention="attn", causal=False,
    kinds=listed(3, "global_attn_every_n_layers", last=False), window=("local_attention", 128),
    act_fields=("hidden_activation",), act="gelu", first_norm=False, last_norm="final_norm",
    embedding="embeddings.tok_embeddings", ends=_modern_ends,
)  # fmt: skip

_JINA = replace(
    _BERT, norms=("post_attention_layernorm", "post_mlp_layernorm"), attention="self_attn",
    projections=("q_proj", "k_proj", "v_proj", "o_proj"), rotary=lambda fields, shape: shape.rotary, mlp_names=_FC,
)  # fmt: skip

_TEXT = replace(
    _BERT, order="before", norms=("layer_norm1", "layer_norm2"), attention="self_attn", projections=_OUT_PROJ,
    mlp_names=_FC, causal=True, cached=False, act="quick_gelu", last_norm="final_layer_norm",
    embedding="token_embedding", prefix="text_model.", ends=_text_ends,
)  # fmt: skip

add({
    "bert roberta xlm-roberta camembert ernie data2vec-text electra rembert bert-generation splinter": _BERT,
    "layoutlm ibert align_text_model clap_text_model chinese_clip_text_model": _BERT,
    "layoutlmv3": replace(_BERT, mixer=_distances, ends=_with_pictures),
    "longformer": replace(_BERT, attend=_wide_windows, ends=_global_ends),
    "clip_text_model metaclip_2_text_model owlvit_text_model owlv2_text_model xclip_text_model": _TEXT,
    "clipseg_text_model groupvit_text_model": _TEXT,
    "siglip_text_model siglip2_text_model": replace(_TEXT, causal=False, act="gelu_pytorch_tanh"),
    "deberta": replace(
        _BERT, projections=("query_proj", "key_proj", "value_proj", "output"), mixer=_disentangled,
        attend=lambda fields, shape, kind, number: {"key_bias": False}, prefix="deberta.", ends=_deberta_ends,
    ),
    "deberta-v2": replace(
        _BERT, projections=("query_proj", "key_proj", "value_proj", "output"), mixer=_disentangled,
        prefix="deberta.", ends=_deberta_ends,
    ),
    "mpnet": replace(_BERT, projections=("q", "k", "v", "o"), mixer=_distances),
    "esm": replace(
        _BERT, order="before", last_norm="encoder.emb_layer_norm_after", act_fields=(), prefix="esm.", ends=_esm_ends,
        rotary=lambda fields, shape: shape.head if fields.get("position_embedding_type") == "rotary" else 0,
    ),
    "esmc": Decoder(
        norm=_SHIFTED, qk_norm="full", qk_function="layer_norm", causal=False,
        ends=lambda fields, shape: {"after": (Norm("norm", shape.width, *_UNSHIFTED),)},
    ),
    "jina_embeddings_v3": _JINA,
    "gte new": replace(
        _JINA, gated=True, mlp_bias=False, down_bias=True, mlp_names=("gate_proj", "up_proj", "down_proj"),
    ),
    "nomic_bert": replace(
        _JINA, prepare=_nomic, bias=("qkv_proj_bias", False), gated=True, mlp_bias=("mlp_fc1_bias", False),
        mlp_names=("gate_proj", "up_proj", "down_proj"), act="silu",
    ),
    "roformer": replace(_BERT, rotary=lambda fields, shape: shape.head),
    "megatron-bert xlm-roberta-xl roberta-prelayernorm": replace(_BERT, order="before", last_norm="encoder.LayerNorm"),
    "albert": replace(
        _BERT, prepare=_albert, norms=("attention.LayerNorm", "full_layer_layer_norm"),
        projections=("query", "key", "value", "dense"), mlp_names=("", "ffn", "ffn_output"), act="gelu_new",
        prefix="albert.", shares=_albert_groups,
    ),
    "distilbert": replace(
        _BERT, renames={"dim": "hidden_size", "hidden_dim": "intermediate_size", "activation": "hidden_act"},
    ),
    "modernbert": _MODERN,
    "modernbert-decoder": replace(
        _MODERN, causal=True, projections=("q_proj", "k_proj", "v_proj", "Wo"), window=("sliding_window", 64),
        prepare=lambda fields: fields.with_values(
            sliding_window=max(fields.size("local_attention", default=128) // 2, 1)
        ),
        tied=True, head="decoder", head_bias=("decoder_bias", True), ends=_modern_decoder_ends,
    ),
})  # fmt: skip


#: Types whose queries and keys are not normalised, and whose layers see a window in turn.
_OLDER = ("gemma2", "vaultgemma")
_AFTER = ("post_attention_layernorm", "post_feedforward_layernorm")
#: An encoder like Gemma 4, without a table of inputs to each layer, whose full layers have values of their own.
_ENCODER = "embedding_gemma2_text"


@family("gemma2", "gemma3_text", "gemma4_text", "gemma4_unified_text", "vaultgemma", _ENCODER)
def read(fields: Fields) -> Model:
    """Read the decoder. The embedding is the output head too unless the configuration says otherwise."""
    if fields.kind == _ENCODER:
        fields = to_each_side(fields.with_values(use_bidirectional_attention="all", vocab_size_per_layer_input=0))
    shape = DecoderSizes(fields)
    width = shape.width
    both = _both_ways(fields)
    each = fields.count("hidden_size_per_layer_input")
    act = activation(fields, "hidden_activation", "hidden_act", default="gelu_pytorch_tanh")
    kinds = layer_types(fields, shape.layers)
    if "layer_types" not in fields:
        every = fields.size("sliding_window_pattern", default=2 if fields.kind in _OLDER else 6)
        kinds = ["full" if (i + 1) % every == 0 else "sliding" for i in range(shape.layers)]
    if fields.kind.startswith("gemma4"):
        kinds = [*kinds[:-1], "full"]  # whatever is listed
    borrows = _borrowing(fields, kinds)
    hidden, doubled = fields.size("intermediate_size"), fields.flag("use_double_wide_mlp", False)
    experts = _experts(fields, width, act)
    layers = [
        Layer((
            Norm("input_layernorm", width),
            _attention(own, shape, kind, borrowed, any(borrows)),
            Norm("post_attention_layernorm", width),
            ResidualAdd("add_attention"),
            *_feed_forward(
                width, Mlp("mlp", width, hidden * (2 if borrowed and doubled else 1), activation=act), experts
            ),
            Norm("post_feedforward_layernorm", width),
            ResidualAdd("add_feed_forward"),
            *((PerLayerInput("", width, each, act), ResidualAdd("add_per_layer_input")) if each else ()),
        ))
        for kind, borrowed, own in zip(kinds, borrows, by_layer(fields, shape.layers, _OF_FULL), strict=True)
    ]  # fmt: skip
    if fields.kind == "vaultgemma":  # norms before each block alone
        layers = [Layer(tuple(block for block in layer.blocks if block.name not in _AFTER)) for layer in layers]
    before: tuple[Block, ...] = ()
    if each:
        before = (PerLayerEmbedding("", fields.count("vocab_size_per_layer_input"), width, each, shape.layers),)
    inside = fields.count("embedding_dim")
    return build_model(
        fields, shape, layers, tied=True, before=before, notes=_borrowing_notes(borrows), causal=not both,
        head=not both, final=(residual.Linear("embedding_projection", width, inside, bias=False),) if inside else (),
    )  # fmt: skip


#: What ``per_layer_config`` says of full layers, by its names.
_OF_FULL = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}


def _both_ways(fields: Fields) -> bool:
    """Say whether every token sees later ones too, as in encoders made of a Gemma; elsewhere pictures alone may."""
    return fields.get("use_bidirectional_attention") in (True, "all")


def _borrowing(fields: Fields, kinds: Sequence[str]) -> list[bool]:
    """Which layers attend to keys and values that the last layer of their kind before them made."""
    count = fields.count("num_kv_shared_layers")
    first = len(kinds) - count
    if first <= 0 or not set(kinds[first:]) <= set(kinds[:first]):
        wrong = f"num_kv_shared_layers of {fields.name} is {count}, and its other layers leave no keys of every kind"
        raise InputError(wrong, hint="the two contradict each other")
    return [number >= first for number in range(len(kinds))]


def _borrowing_notes(borrows: Sequence[bool]) -> tuple[str, ...]:
    """Say how keys and values that several layers read are counted."""
    if not any(borrows):
        return ()
    first = borrows.index(True)
    return (
        f"layers from {first} on attend to keys and values of earlier ones: the floor reads those once",
        f"a prefill runs all layers on every token; those from {first} on leave no keys, so the last token would do",
    )


def _attention(fields: Fields, shape: DecoderSizes, kind: str, borrowed: bool, lends: bool) -> Attention:
    """Gemma 4's full layers have wider heads, fewer of keys, and values made from the keys' matrix."""
    full = kind == "full"
    head = fields.size("global_head_dim", default=shape.head) if full else shape.head
    encodes, equal = fields.kind == _ENCODER, full and fields.flag("attention_k_eq_v", False)
    latest = encodes or fields.kind.startswith("gemma4")
    # else heads of full layers count only where values are made from the keys' matrix
    fields.ignore("num_global_key_value_heads")
    own = equal or (full and encodes)
    kv_heads = fields.size("num_global_key_value_heads", default=shape.kv_heads) if own else shape.kv_heads
    parameters = fields.section("rope_parameters")
    turned = parameters.section("full_attention") if parameters and latest and full else None
    share = (turned.fraction("partial_rotary_factor") if turned else None) or 1
    bias = fields.flag("attention_bias", False)
    return Attention(
        "self_attn", shape.width, shape.heads, kv_heads, head, head, bias=bias, out_bias=bias,
        norm=None if fields.kind in _OLDER else "head", value_norm=latest, rotary=int(head * share),
        window=None if full else fields.size("sliding_window"), shared_kv=equal, causal=not _both_ways(fields),
        shares_kv_as=kind if lends and not borrowed else "", reads_kv_of=kind if borrowed else "",
    )  # fmt: skip


_ROUTING = Routing(
    module="", experts=("num_experts",), top_k=("top_k_experts",), shared_count=0, names=("router.proj", "experts", ""),
    when=lambda fields: fields.flag("enable_moe_block", False),
)  # fmt: skip


def _experts(fields: Fields, width: int, act: str) -> MixtureOfExperts | None:
    found = _ROUTING.read(fields, width, act)
    if found is None:
        return None
    return replace(found, router_scales=(("router.scale", width), ("router.per_expert_scale", found.count)))


def _feed_forward(width: int, mlp: Mlp, experts: MixtureOfExperts | None) -> tuple[Block, ...]:
    """The dense MLP, and the experts beside it, each between norms of its own."""
    if experts is None:
        return Norm("pre_feedforward_layernorm", width), mlp
    dense = (Norm("pre_feedforward_layernorm", width), mlp, Norm("post_feedforward_layernorm_1", width))
    routed = (Norm("pre_feedforward_layernorm_2", width), experts, Norm("post_feedforward_layernorm_2", width))
    return (ParallelBranches("", (dense, routed)),)


@family("gemma3n_text")
def read_3n(fields: Fields) -> Model:
    """Read the language part; widths of the MLP may be listed by layer."""
    shape = DecoderSizes(fields)
    width, each, streams = shape.width, fields.size("hidden_size_per_layer_input"), fields.size("altup_num_inputs")
    act = activation(fields, "hidden_activation", default="gelu_pytorch_tanh")
    kinds = layer_types(fields, shape.layers, usual=lambda number: "sliding" if (number + 1) % 5 else "full")
    borrows = _borrowing(fields, kinds)
    bias = fields.flag("attention_bias", False)

    def layer(kind: str, borrowed: bool, hidden: int, cut: bool) -> Layer:
        attention = Attention(
            "self_attn", width, shape.heads, shape.kv_heads, shape.head, shape.head, bias=bias, out_bias=bias,
            norm="head", value_norm=True, rotary=shape.head, shares_kv_as="" if borrowed else kind,
            reads_kv_of=kind if borrowed else "", window=fields.size("sliding_window") if kind == "sliding" else None,
        )  # fmt: skip
        beside = (residual.LowRankResidual("laurel", width, fields.size("laurel_rank")),)
        return Layer((
            residual.AltUpPredict("altup", streams, width),
            Norm("input_layernorm", width),
            ParallelBranches("", (beside, (attention, Norm("post_attention_layernorm", width))), inside=True),
            ResidualAdd("add_attention"),
            Norm("pre_feedforward_layernorm", width),
            Mlp("mlp", width, hidden, activation=act, cut=cut),
            Norm("post_feedforward_layernorm", width),
            ResidualAdd("add_feed_forward"),
            residual.AltUpCorrect("altup", streams, width),
            PerLayerInput("", width, each, act),
            residual.AddToOtherStreams("altup.add", streams, width),
        ))  # fmt: skip

    table = PerLayerEmbedding("", fields.size("vocab_size_per_layer_input"), width, each, shape.layers)
    widths, cuts = fields.sizes("intermediate_size", shape.layers), _cuts(fields, shape.layers)
    return build_model(
        fields, shape, [layer(*of) for of in zip(kinds, borrows, widths, cuts, strict=True)],
        tied=True, before=(table, residual.StreamProjections("altup_projections", streams, width)),
        after=(residual.StreamProjections("altup_unembed_projections", streams, width, back=True), Norm("norm", width)),
        notes=(
            *_borrowing_notes(borrows),
            *(["zeros that the MLP's cut leaves are multiplied like other numbers"] if any(cuts) else []),
        ),
    )  # fmt: skip


def _cuts(fields: Fields, layers: int) -> list[bool]:
    """Layers that set most of their gate to zero: by default the first ten."""
    found = fields.get("activation_sparsity_pattern")
    if found is None:
        return [layers > 10 and number < 10 for number in range(layers)]
    if not isinstance(found, list):
        return [bool(found)] * layers
    return [bool(each) for each in (fields.listed("activation_sparsity_pattern", layers) or [])[:layers]]
