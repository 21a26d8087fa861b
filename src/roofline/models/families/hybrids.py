"""Models with recurrent layers: Mamba 1 and 2, Jamba, Granite 4, Falcon H1, Qwen3-Next, LFM2, MiniMax, Nemotron-H.

Nemotron-NAS stands here as well: a Llama with uneven layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any

from roofline.errors import InputError, quoted, suggest
from roofline.frozen import replace
from roofline.models.blocks import recurrent, residual
from roofline.models.blocks.attention import Attention, MeanIndexer
from roofline.models.blocks.feed_forward import MixtureOfExperts, Mlp
from roofline.models.blocks.residual import IdleBlocks, Norm, ResidualAdd
from roofline.models.description import Block, Layer, Model
from roofline.models.families import decoder, family
from roofline.models.families.decoder import (
    FULL_OR_LINEAR,
    STATE_FORMATS,
    Decoder,
    DecoderSizes,
    Routing,
    activation,
    layer_types,
)
from roofline.models.fields import Fields, divide_evenly


def _recurrent_kinds(*names: str) -> Callable[[Fields, int], list[str]]:
    """Kinds of layer in order: listed, recurrent ones under ``names`` too; else attention where usual fields put it."""

    def kinds(fields: Fields, layers: int) -> list[str]:
        fields.ignore("attn_layer_indices", "attn_layer_period", "attn_layer_offset", "full_attn_idxs")
        listed = fields.listed("layers_block_type", layers) or fields.listed("layer_types", layers)
        if listed is not None:
            known = {**dict.fromkeys((*names, "linear_attention"), "recurrent"), **decoder.FULL_OR_SLIDING}
            return layer_types(fields.with_values(layer_types=listed), layers, known)
        indices = fields.listed("attn_layer_indices") or fields.listed("full_attn_idxs")
        if indices is not None:
            return ["full" if number in indices else "recurrent" for number in range(layers)]
        if fields.kind == "bamba":
            return ["recurrent"] * layers
        if "attn_layer_period" not in fields:
            hint = "a hybrid's configuration says which layers attend"
            raise InputError(f"{fields.name} has no layer_types", hint=hint)
        period, offset = fields.size("attn_layer_period"), fields.count("attn_layer_offset")
        return ["full" if number % period == offset else "recurrent" for number in range(layers)]

    return kinds


def _mamba1(fields: Fields, prefix: str = "", name: str = "mixer") -> recurrent.Mamba1:
    """A Mamba mixer; without a rank of the step widths in the configuration it is a sixteenth of the width."""
    width = fields.size("hidden_size")
    rank = f"{prefix}dt_rank" if prefix else "time_step_rank"
    long = bool(prefix)
    inner = width * fields.size(f"{prefix}expand" if long else "expand", default=2)
    return recurrent.Mamba1(
        name, width, inner if long or fields.get("intermediate_size") is None else fields.size("intermediate_size"),
        fields.size("mamba_d_state" if long else "state_size", default=16),
        -(-width // 16) if fields.get(rank, "auto") == "auto" else fields.size(rank),
        fields.size("mamba_d_conv" if long else "conv_kernel", default=4),
        fields.flag("mamba_proj_bias" if long else "use_bias", False),
        fields.flag("mamba_conv_bias" if long else "use_conv_bias", True), norms=long or fields.kind == "falcon_mamba",
        plain=fields.kind == "falcon_mamba",
    )  # fmt: skip


def _mamba2(fields: Fields, name: str, **more: Any) -> recurrent.Mamba2:
    """A Mamba-2 mixer, under either set of names."""
    bias = fields.flag("mamba_proj_bias", False) or fields.flag("use_bias", False)
    return recurrent.Mamba2(
        name, fields.size("hidden_size"), fields.size("mamba_n_heads", "num_heads"),
        fields.size("mamba_d_head", "head_dim"), fields.size("mamba_n_groups", "n_groups", default=1),
        fields.size("mamba_d_state", "state_size"), fields.size("mamba_d_conv", "conv_kernel", default=4), bias,
        fields.flag("mamba_conv_bias", True) and fields.flag("use_conv_bias", True), **{"out_bias": bias, **more},
    )  # fmt: skip


@family("mamba", "falcon_mamba", "mamba2")
def read_mamba(fields: Fields) -> Model:
    """Read a model of mixers alone."""
    mixer = _mamba2(fields, "mixer") if fields.kind == "mamba2" else _mamba1(fields)
    # heads that such a model does not have, so that the usual sizes can be read
    shape = DecoderSizes(fields.with_values(num_attention_heads=1, head_dim=1))
    layer = Layer((Norm("norm", shape.width), mixer, ResidualAdd("add")))
    return decoder.build_model(
        fields, shape, [layer] * shape.layers, tied=fields.kind != "mamba2", last_norm="norm_f", prefix="backbone.",
        embedding_name="embeddings", context=None,
    )  # fmt: skip


@family("rwkv", "rwkv5")
def read_rwkv(fields: Fields) -> Model:
    """Read RWKV-4 or 5: mixing of tokens and of channels, and no attention."""
    shape = DecoderSizes(fields.with_values(num_attention_heads=1, head_dim=1))
    width, norm = shape.width, ("layer_norm", True)
    inner, usual = fields.size("attention_hidden_size", default=width), 4 * width
    mix: Block = recurrent.TimeMix("attention", width, inner)
    if fields.kind == "rwkv5":
        fields.refuse_other(model_version="5_2")
        head, usual = fields.size("head_size", default=64), width * 7 // 64 * 32
        heads = divide_evenly(fields, inner, head, "a width of {total} does not divide into heads of {parts}")
        mix = recurrent.HeadedTimeMix("attention", width, heads, head)
    layer = Layer((
        Norm("ln1", width, *norm), mix, ResidualAdd("add_attention"), Norm("ln2", width, *norm),
        recurrent.ChannelMix("feed_forward", width, fields.size("intermediate_size", default=usual)),
        ResidualAdd("add_feed_forward"),
    ))  # fmt: skip
    return decoder.build_model(
        fields, shape, [layer] * shape.layers, norm, last_norm="ln_out", prefix="rwkv.", embedding_name="embeddings",
        head_name="head", before=(Norm("blocks.0.pre_ln", width, *norm, restarts=True),),
        context=fields.optional("context_length"),
    )  # fmt: skip


def _mixers(made: Callable[[Fields, DecoderSizes], Block]) -> Any:
    """Attention in layers that see everything, layers that are ``made`` elsewhere."""

    def mixer(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> Block:
        return made(fields, shape) if kind in ("recurrent", "linear") else attention

    return mixer


def _every_second(fields: Fields, layers: int) -> list[bool]:
    period, offset = fields.size("expert_layer_period", default=2), fields.count("expert_layer_offset")
    return [number % period == offset for number in range(layers)]


def _falcon_h1(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> Block:
    """Attention and a Mamba-2 mixer side by side."""
    inner = fields.get("mamba_d_ssm")
    mixer = _mamba2(
        fields, "mamba", normed=fields.flag("mamba_rms_norm", False), out_bias=fields.flag("projectors_bias", False)
    )
    if inner is not None and inner != mixer.inner:
        raise InputError(f"mamba_d_ssm of {fields.name} is {quoted(inner)} and its heads make {mixer.inner}")
    return residual.ParallelBranches("", ((attention,), (mixer,)), inside=True)


def _delta_net(fields: Fields, shape: DecoderSizes) -> Block:
    return recurrent.GatedDeltaNet(
        "linear_attn", shape.width, fields.size("linear_num_key_heads"), fields.size("linear_num_value_heads"),
        fields.size("linear_key_head_dim"), fields.size("linear_value_head_dim"), fields.size("linear_conv_kernel_dim"),
        state=STATE_FORMATS[fields.choice("mamba_ssm_dtype", STATE_FORMATS, "float32")],
    )  # fmt: skip


def _qwen_kinds(fields: Fields, layers: int) -> list[str]:
    every = fields.size("full_attention_interval", default=4)
    return layer_types(fields, layers, FULL_OR_LINEAR, lambda number: "linear" if (number + 1) % every else "full")


def _lara_kinds(fields: Fields, layers: int) -> list[str]:
    """Kinds as listed, else in fives: a state, a window, a state, everything, a window."""
    fives = ("linear", "sliding", "linear", "full", "sliding")
    return layer_types(fields, layers, {**decoder.FULL_OR_SLIDING, **FULL_OR_LINEAR}, lambda number: fives[number % 5])


def _minimax_kinds(fields: Fields, layers: int) -> list[str]:
    """Kinds as listed, or numbers of them: 1 where a layer attends to everything, 0 where it keeps a state."""
    numbers = fields.listed("attn_type_list", layers)
    if numbers is None and "layer_types" in fields:
        return layer_types(fields, layers, FULL_OR_LINEAR)
    if numbers is not None and not set(numbers) <= {0, 1}:
        raise fields.not_understood("attn_type_list", "0 (linear) or 1 (full) a layer")
    return ["full" if full else "linear" for full in (numbers or [0, 1] * layers)[:layers]]


def _minimax(fields: Fields) -> Fields:
    """MiniMax-Text-01 as published: what is added to is behind each norm, and no expert is shared."""
    fields.refuse_other(postnorm=True)
    return fields


def _lfm2(fields: Fields) -> Fields:
    """LFM2's width of the MLP, rounded up to a multiple; the mixture has dense layers of the width it says."""
    hidden = fields.size("block_ff_dim", "intermediate_size")
    if fields.kind == "lfm2" and fields.flag("block_auto_adjust_ff_dim", True):
        more = "block_ffn_dim_multiplier"
        hidden = int((fields.factor(more) if more in fields else 1) * int(2 * hidden / 3))
        rounded = fields.size("block_multiple_of", default=256)
        hidden = -(-hidden // rounded) * rounded
    if "tie_word_embeddings" not in fields:
        fields = fields.with_values(tie_word_embeddings=bool(fields.get("tie_embedding", True)))
    return fields.with_values(intermediate_size=hidden)


def _lfm3(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    return {
        **decoder.rotary_by_kind(fields, shape, kind, number),
        "gate": "head" if fields.flag("use_attention_gate", True) else None,
    }


def _griffin(fields: Fields) -> Fields:
    """RecurrentGemma's width of the MLP, said of both halves; half of each head rotates where nothing is said."""
    share = fields.fraction("partial_rotary_factor") or 0.5
    half = max(fields.size("intermediate_size") // 2, 1)
    return fields.with_values(intermediate_size=half, partial_rotary_factor=share)


def _griffin_kinds(fields: Fields, layers: int) -> list[str]:
    """Kinds that repeat: two recurrent layers and one with a window, where nothing is said."""
    kinds = fields.listed("block_types") or fields.listed("_block_types") or ["recurrent", "recurrent", "attention"]
    fields.ignore("layers_block_type")
    if not {*kinds} <= {"recurrent", "attention"}:
        raise fields.not_understood("block_types", "'recurrent' and 'attention'")
    return ["sliding" if kinds[number % len(kinds)] == "attention" else "recurrent" for number in range(layers)]


def _griffin_mixer(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> Block:
    if kind == "sliding":
        return attention
    width = fields.size("lru_width", default=shape.width)
    divide_evenly(fields, width, shape.heads, "a recurrence {total} wide does not divide into {parts} blocks")
    act = activation(fields, "hidden_activation", default="gelu_pytorch_tanh")
    kernel = fields.size("conv1d_width", default=4)
    return recurrent.RealGatedRecurrence("temporal_block", shape.width, width, shape.heads, kernel, act)


def _plamo_kinds(fields: Fields, layers: int) -> list[str]:
    """One layer in each ``mamba_step`` attends: the middle one; to all tokens where ``full_attention_idx`` has it."""
    every, full = fields.size("mamba_step", default=2), fields.listed("full_attention_idx") or []
    if not fields.flag("mamba_enabled", True):
        attends = range(layers)
    elif layers <= every // 2:
        attends = range(layers - 1, layers)
    else:
        attends = range(every // 2, layers, every)
    return ["recurrent" if n not in attends else "full" if n in full else "sliding" for n in range(layers)]


def _plamo_mixer(fields: Fields, shape: DecoderSizes) -> Block:
    heads = fields.size("mamba_num_heads", default=64)
    return recurrent.Mamba1(
        "mixer", shape.width, heads * shape.head, fields.size("mamba_d_state", default=64), max(64, shape.width // 16),
        fields.size("mamba_d_conv", default=4), conv_bias=False, norms=True, steps=heads,
    )  # fmt: skip


_HYBRID = Decoder(
    norms=("input_layernorm", "pre_ff_layernorm"), kinds=_recurrent_kinds(),
    mixer=_mixers(lambda fields, shape: _mamba2(fields, "mamba")), mlp="feed_forward", last_norm="final_layernorm",
)  # fmt: skip
_LFM2_NORMS = ("operator_norm", "ffn_norm")
_LFM3_NORMS = ("operator_norm", "post_operator_norm", "ffn_norm", "post_ffn_norm")
_LFM2 = Decoder(
    prepare=_lfm2, norms=_LFM2_NORMS, projections=("q_proj", "k_proj", "v_proj", "out_proj"),
    bias=False, qk_norm="head", kinds=_recurrent_kinds("conv"),
    mixer=_mixers(lambda fields, shape: recurrent.ShortConvolution(
        "conv", shape.width, fields.size("conv_L_cache"), fields.flag("conv_bias", False),
    )),
    mlp="feed_forward", mlp_bias=False, mlp_names=("w1", "w3", "w2"), act_fields=(), last_norm="embedding_norm",
)  # fmt: skip

_QWEN_ROUTING = replace(
    decoder.ONE_SHARED, shared_gate=True, layers=decoder.expert_layers,
    when=lambda fields: bool(fields.get("num_experts", 0)),
)  # fmt: skip
_QWEN = Decoder(
    qk_norm="head", mlp_bias=False, kinds=_qwen_kinds,
    attend=lambda fields, *of: {"gate": "query" if fields.flag("attn_output_gate", True) else None},
    mixer=_mixers(_delta_net), routing=_QWEN_ROUTING, predicts=("mtp_num_hidden_layers",), predicted="full",
)  # fmt: skip


def _alice_delta(fields: Fields, shape: DecoderSizes) -> Block:
    heads, head = fields.size("linear_num_key_heads"), fields.size("linear_key_head_dim")
    fields.refuse_other(linear_num_value_heads=heads, linear_value_head_dim=head)
    return recurrent.KimiDeltaAttention("linear_attn", shape.width, heads, head, fields.size("linear_conv_kernel_dim"))


def _alice(model: Model, fields: Fields) -> Model:
    """Alice AI: Qwen 3 Next with Kimi's delta attention, and residuals of earlier blocks."""
    names = "attn_res", "mlp_res", "attnres_final"
    return decoder.with_block_residuals(model, fields.size("block_attn_res_block_size", default=4), names, first=False)


decoder.add({
    "jamba": replace(
        _HYBRID, bias=False, rotary=lambda fields, shape: 0,
        mixer=_mixers(lambda fields, shape: _mamba1(fields, "mamba_", "mamba")), mlp_bias=False,
        routing=Routing(
            module="feed_forward", experts=("num_experts",), hidden=("intermediate_size",), shared_count=0,
            names=("router", "experts", ""), layers=_every_second, when=lambda fields: fields.size("num_experts") > 1,
        ),
    ),
    "bamba": replace(_HYBRID, rotary=decoder.rotary_part(2)),
    "plamo2": Decoder(
        prepare=lambda fields: fields.with_values(head_dim=fields.size("hidden_size_per_head", default=128)),
        order="around", norms=("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm"),
        attention="mixer", bias=False, qk_norm="own", kinds=_plamo_kinds, window=("attention_window_size", 2048),
        mixer=_mixers(_plamo_mixer), mlp_bias=False, act_fields=(), tied=True,
    ),
    "falcon_h1": replace(_HYBRID, kinds=decoder.all_full, mixer=_falcon_h1),
    "granitemoehybrid": replace(
        _HYBRID, norms=("input_layernorm", "post_attention_layernorm"),
        rotary=lambda fields, shape: shape.rotary if fields.get("position_embedding_type") == "rope" else 0,
        mlp="shared_mlp", mlp_bias=False, hidden=("shared_intermediate_size",),
        routing=Routing(
            module="block_sparse_moe", experts=("num_local_experts",), hidden=("intermediate_size",),
            shared_width=("shared_intermediate_size",), shared_count=1, names=("router", "experts", "shared_mlp"),
            when=lambda fields: bool(fields.get("num_local_experts")),
        ),
        last_norm="norm",
    ),
    "qwen3_5_text qwen3_5_moe_text qwen3_next": _QWEN,
    "alice_ai": replace(
        _QWEN, mixer=_mixers(_alice_delta), routing=replace(_QWEN_ROUTING, scored="sigmoid"), finish=_alice
    ),
    "lara_mini": replace(
        _QWEN, kinds=_lara_kinds, rotates=decoder.in_windows, attend=None, window=("sliding_window", 512),
        routing=replace(_QWEN_ROUTING, shared_gate=False), predicts=(),
    ),
    "olmo_hybrid": Decoder(
        order="after attention", qk_norm="full", mlp_bias=False, kinds=_qwen_kinds, mixer=_mixers(_delta_net),
    ),
    "minimax minimax_text_01 minimax_m1": Decoder(
        prepare=_minimax, order="restarted", bias=False, kinds=_minimax_kinds,
        mixer=_mixers(lambda fields, shape: recurrent.LightningAttention(
            "self_attn", shape.width, shape.heads, shape.head, activation(fields, "hidden_act"),
        )),
        routing=Routing(
            module="block_sparse_moe", experts=("num_local_experts",), hidden=("intermediate_size",),
            shared_width=("shared_intermediate_size",), shared_count=1, names=("gate", "experts", "shared_mlp"),
        ),
    ),
    "recurrent_gemma": Decoder(
        prepare=_griffin, norms=("temporal_pre_norm", "channel_pre_norm"), attention="temporal_block", out_bias=True,
        kinds=_griffin_kinds, window=("attention_window_size", 2048), mixer=_griffin_mixer, mlp="mlp_block",
        mlp_bias=True, act_fields=("hidden_activation",), act="gelu_pytorch_tanh", tied=True, last_norm="final_norm",
    ),
    "lfm2": _LFM2,
    "lfm3": replace(
        _LFM2, arrange=decoder.arranged("use_sandwich_norm", True, ("around", _LFM3_NORMS), ("before", _LFM2_NORMS)),
        projections=("q_proj", "k_proj", "v_proj", "o_proj"),
        bias=("attention_bias", False), window=("sliding_window", "needed"), attend=_lfm3, tied=True,
    ),
    "lfm2_moe": replace(
        _LFM2,
        routing=Routing(
            module="feed_forward", experts=("num_experts",), shared_count=0, scored="sigmoid",
            layers=decoder.after_first(0, "num_dense_layers"),
        ),
    ),
})  # fmt: skip

# Inkling: convolutions of keys, values and results; biases by distance; the router scores shared experts too


def _inkling(fields: Fields) -> Fields:
    """Widths as the checkpoint names them: that of the experts, and ``dense_intermediate_size``."""
    fields = fields.renamed(sconv_kernel_size="conv_kernel_size", model_max_length="max_position_embeddings")
    if "dense_intermediate_size" in fields:
        return fields.with_values(
            moe_intermediate_size=fields.size("intermediate_size"),
            intermediate_size=fields.size("dense_intermediate_size"),
        )
    return fields


def _inkling_kinds(fields: Fields, layers: int) -> list[str]:
    numbers = fields.listed("local_layer_ids")
    windows = [number for number in range(layers) if (number + 1) % 6] if numbers is None else numbers
    known = {"hybrid": "full", "hybrid_sliding": "sliding"}
    return layer_types(fields, layers, known, lambda number: "sliding" if number in windows else "full")


def _inkling_attention(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    sliding = kind == "sliding"
    window = fields.size("sliding_window_size", "sliding_window", default=512)
    head = fields.size("swa_head_dim", default=shape.head) if sliding else shape.head
    return {
        "heads": fields.size("swa_num_attention_heads", default=shape.heads) if sliding else shape.heads,
        "kv_heads": fields.size("swa_num_key_value_heads", default=shape.kv_heads) if sliding else shape.kv_heads,
        "key": head, "value": head, "window": window if sliding else None,
        "kv_kernel": fields.size("conv_kernel_size", default=4),
        "relative": (fields.size("d_rel", default=16), window if sliding else fields.size("rel_extent", default=1024)),
    }  # fmt: skip


def _inkling_blocks(model: Model, fields: Fields) -> Model:
    """A convolution stands behind each block; the scales of a whole MLP or of the router are one number."""
    kernel = fields.size("conv_kernel_size", "sconv_kernel_size", default=4)

    def changed(block: Block) -> Block | tuple[Block, ...]:
        if isinstance(block, ResidualAdd):
            name = "attn_sconv" if block.name == "add_attention" else "mlp_sconv"
            return recurrent.ResidualConvolution(name, model.width, kernel), block
        if isinstance(block, Mlp):
            return IdleBlocks(block.name, (Norm("global_scale", 1),)), block
        if isinstance(block, MixtureOfExperts):
            shared = fields.count("n_shared_experts") or 2
            return replace(block, shared_scored=shared, router_scales=(("gate.global_scale", 1),))
        return block

    return model.with_blocks(changed)


_INKLING = Decoder(
    prepare=_inkling, bias=False, qk_norm="head", rotary=lambda fields, shape: 0, kinds=_inkling_kinds,
    attend=_inkling_attention, mlp_bias=False,
    routing=Routing(
        shared_count=("n_shared_experts", 2), scored="sigmoid", layers=decoder.after_first(0, "dense_mlp_idx"),
    ),
    ends=lambda fields, shape: {"before": (Norm("embed_tokens.embed_norm", shape.width, restarts=True),)},
    finish=_inkling_blocks,
)  # fmt: skip

decoder.add({"inkling_text": _INKLING})


# Inkling 2: blocks of layers are mixed; layers that see everything make queries, keys and values of inputs of their own


def _inkling2(fields: Fields) -> Fields:
    """What its class takes where a configuration leaves a field out that goes by two names, or says less."""
    hidden, experts = (1152, 128) if fields.kind == "inkling2_loop_text" else (2304, 384)
    return _inkling(fields).with_values(
        moe_intermediate_size=fields.size("moe_intermediate_size", "intermediate_size", default=hidden),
        n_routed_experts=fields.size("n_routed_experts", "num_local_experts", default=experts),
        sliding_window_size=fields.size("sliding_window_size", "sliding_window", default=1024),
        swa_num_key_value_heads=fields.size("swa_num_key_value_heads", default=8),
        swa_head_dim=fields.size("swa_head_dim", default=128),
    )


def _inkling2_attention(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    made = {"gate": "full", "value_norm": True, "made_sinks": True, "parted": kind == "full"}
    return {**_inkling_attention(fields, shape, kind, number), **made}


_INKLING2 = replace(
    _INKLING, prepare=_inkling2, qk_norm="clipped", attend=_inkling2_attention, finish=lambda model, fields: model,
    routing=Routing(shared_count=0, scored=("scoring_func", "sigmoid")),
)  # fmt: skip


def _loop(fields: Fields, width: int, block: int, layers: Sequence[Layer]) -> list[Layer]:
    """Every layer in the order it runs: some of them run several times, and hear of the turn before.

    What a turn hears of is a mixture of the states of its blocks of layers; gates add it to what layers read.
    """
    given, names = fields.section("loop_config"), ("core_start", "core_end", "num_passes", "gate_rank")
    own = ("loop_layer_index_start", "loop_layer_index_end", "loop_num_passes", "loop_gate_rank")
    start, end, turns, rank = (
        given.size(name) if given and name in given else fields.size(other, default=usual)
        for name, other, usual in zip(names, own, (6, 18, 3, 64), strict=True)
    )
    if not 0 < start < end <= len(layers) or start % block or end % block:
        said = f"blocks of {block} layers behind the first, of {len(layers)}"
        raise fields.not_understood("the loop of layers", f"it starts and ends with {said}")
    hears = residual.LoopMessages("message_input", width, (end - start) // block, 4)
    gates = residual.MessageGates("", width, rank, ("q", "k", "v")), residual.MessageGates("", width, rank, ("mlp",))
    first, again = [], []
    for number, layer in enumerate(layers[start:end], start):
        mixed, *rest = layer.blocks
        at = next(n for n, each in enumerate(rest) if each.name == "mlp_input") + 1
        blocks = (hears, mixed, gates[0], *rest[:at], gates[1], *rest[at:])
        first.append(Layer((*layer.blocks, IdleBlocks("", (hears, *gates))), shared=(("", f"layer {number}"),)))
        again.append(Layer(blocks, shared=first[-1].shared))
    return [*layers[:start], *first, *again * (turns - 1), *layers[end:]]


@family("inkling2_text", "inkling2_loop_text")
def read_inkling2(fields: Fields) -> Model:
    """Read Inkling 2: the head has fewer rows than the table."""
    rows, block = fields.size("vocab_size"), fields.size("n_layers_per_attn_res_block")
    said = min(fields.size("unpadded_vocab_size", default=rows), rows)
    model = decoder.read(_INKLING2, fields.with_values(vocab_size=said))
    width, kernel = model.width, fields.size("conv_kernel_size", "sconv_kernel_size", default=4)

    def changed(layer: Layer, number: int) -> Layer:
        first, attention, add_first, second, experts, add_second = layer.blocks
        parted = isinstance(attention, Attention) and attention.parted
        mixed = residual.AttentionResidual("attention_input", width, -(-number // block) + 1, 3 if parted else 1)
        return Layer((
            *([mixed] if number else []), *([] if parted else [first]), attention,
            recurrent.ResidualConvolution("post_attention_convolution", width, kernel),
            *([add_first] if number % block else []),
            residual.AttentionResidual("mlp_input", width, number // block + 2, 1), second, experts,
            recurrent.ResidualConvolution("post_mlp_convolution", width, kernel), add_second,
        ))  # fmt: skip

    layers = [changed(layer, number) for number, layer in enumerate(model.layers)]
    last = residual.AttentionResidual("final_input", width, -(-len(layers) // block) + 1, 1)
    layers = _loop(fields, width, block, layers) if fields.kind == "inkling2_loop_text" else layers
    before = (*decoder.rows_beyond_the_head(width, rows - said), *model.before)
    return replace(model, layers=tuple(layers), before=before, after=(last, *model.after))


# Qwen4: gated streams, means of keys that an indexer picks, tables of several words


def _qwen4_kinds(fields: Fields, layers: int) -> list[str]:
    if "layer_types" not in fields:
        return _qwen_kinds(fields, layers)
    return layer_types(fields, layers, decoder.INDEXED_OR_LINEAR)


def _qwen4_attention(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    names = "indexer_n_heads", "indexer_head_dim", "indexer_budget", "indexer_compress_ratio"
    if kind != "full" or names[0] not in fields:
        fields.ignore(*names)
        return {"gate": "query"}
    heads, width, budget, pool = map(fields.size, names)
    return {"gate": "query", "indexer": MeanIndexer(heads, width, budget // pool * pool, pool=pool)}


def _primes_after(start: int, count: int) -> list[int]:
    """So many primes from ``start`` on.

    >>> _primes_after(20, 3), _primes_after(7, 1)
    ([23, 29, 31], [7])
    """
    found: list[int] = []
    while len(found) < count:
        if start > 1 and all(start % divisor for divisor in range(2, isqrt(start) + 1)):
            found.append(start)
        start += 1
    return found


def _hashed(fields: Fields, width: int, streams: int) -> dict[int, Block]:
    """The tables of several words by the layer that reads them, each of rows for every head: a prime of its own."""
    given = fields.listed("ple_layer_ids") or []
    listed = sorted({number for number in given if isinstance(number, int)})
    words, each = fields.size("ngram_size", default=3), fields.size("heads_per_ngram", default=8)
    first = fields.size("ngram_vocab_size_base", default=20_000_000, most=10**9)
    whole = fields.size("make_ngram_vocab_size_divisible_by", default=128)
    kernel = fields.size("ple_conv_kernel_size", default=4)
    inside, heads = fields.size("ple_embed_dim", default=width), (words - 1) * each
    primes = _primes_after(first, heads * len(listed)) if heads * len(listed) <= 1024 else []
    if heads < 1 or (given and not primes) or not {*given} <= {*listed}:
        raise fields.not_understood("ple_layer_ids", "1,024 tables at most, and an ngram_size of at least 2")
    rows = [sum(primes[at * heads : (at + 1) * heads]) for at in range(len(listed))]
    return {
        number - 1: residual.HashedEmbedding(
            "ple", streams, width, (-(-row // whole) * whole, inside // heads), heads, kernel, words
        )
        for number, row in zip(listed, rows, strict=True)
    }  # fmt: skip


_QWEN4 = replace(_QWEN, kinds=_qwen4_kinds, attend=_qwen4_attention, predicts=())


@family("qwen4_exp_text")
def read_qwen4(fields: Fields) -> Model:
    """Read Qwen4's experiment: every layer mixes streams in place of norms."""
    fields.ignore("indexer_kv_heads", "split_ngram_parts", "output_gate_type", "seed")
    model, streams = decoder.read(_QWEN4, fields), fields.size("hc_count", default=4)
    width, rank = model.width, fields.size("hc_lowrank", default=320)
    tables = _hashed(fields, width, streams)

    def collapse(name: str, last: bool = False) -> Block:
        return residual.GatedCollapse(name, streams, width, rank, last)

    def expand(name: str) -> Block:
        return residual.ExpandStreams(name, streams, width, mixed=False)

    made: dict[int, Layer] = {}

    def changed(layer: Layer, number: int) -> Layer:
        _, mixer, _, _, experts, _ = layer.blocks
        return Layer((
            *([tables[number]] if number in tables else []), collapse("attn_hyper_connection"), mixer,
            expand("attn_inject"), collapse("mlp_hyper_connection"), experts, expand("mlp_inject"),
        ))  # fmt: skip

    layers = [
        changed(layer, number) if number in tables else made.setdefault(id(layer), changed(layer, number))
        for number, layer in enumerate(model.layers)
    ]
    before = (residual.CopyToStreams("embed_streams", streams, width), *model.before)
    return replace(model, layers=tuple(layers), before=before, after=(collapse("hyper_connection_mixer", True),))


# Zamba: in some layers a transformer block, whose weights they share, reads the embedding beside the hidden state


def _zamba_kinds(fields: Fields, layers: int) -> list[str]:
    """Kinds as listed, else by period and offset behind the first three (Zamba), or as Zamba2's class says."""
    listed = fields.listed("layers_block_type", layers) or fields.listed("layer_types", layers)
    period, offset = fields.size("attn_layer_period", default=6), fields.get("attn_layer_offset", 4)
    hybrid = fields.listed("hybrid_layer_ids")
    if hybrid is None and fields.kind == "zamba":
        hybrid = [2, *(number for number in range(3, layers) if (number - 3) % period == offset)]
    hybrid = [*range(6, 43, 6), 47, 51] if hybrid is None else hybrid
    known = {"linear_attention": "recurrent", "hybrid": "hybrid"}
    fields = fields.with_values(layer_types=listed)
    return layer_types(fields, layers, known, lambda number: "hybrid" if number in hybrid else "recurrent")


def _zamba_transformer(fields: Fields, shape: DecoderSizes, name: str) -> tuple[Block, ...]:
    """The blocks that layers share, and adapters of each layer's own (Zamba2)."""
    width, is_second = shape.width, fields.kind == "zamba2"
    rank = fields.size("adapter_rank", default=128) if is_second else 0
    attention = Attention(
        f"{name}.self_attn", 2 * width, shape.heads, shape.kv_heads, shape.head, shape.head, outputs=width,
        rotary=shape.head if fields.flag("use_mem_rope", False) else 0,
        adapter_rank=rank if fields.flag("use_shared_attention_adapter", False) else 0,
    )  # fmt: skip
    mlp = Mlp(
        f"{name}.feed_forward", width, fields.size("intermediate_size", "ffn_hidden_size", default=4 * width),
        activation=activation(fields, "hidden_act", default="gelu"), bias=fields.flag("add_bias_linear", False),
        adapter_rank=rank,
    )  # fmt: skip
    return (
        residual.ConcatenateEmbedding(f"{name}.concatenate", width), Norm(f"{name}.input_layernorm", 2 * width),
        attention, Norm(f"{name}.pre_ff_layernorm", width), mlp, residual.Linear("linear", width, width, bias=False),
        ResidualAdd("add_transformer", inside=True),
    )  # fmt: skip


def _zamba_mixer(fields: Fields, name: str) -> Block:
    if fields.kind == "zamba":
        heads = fields.size("n_mamba_heads", default=2)
        return replace(_mamba1(fields, "mamba_", name), norms=False, heads=heads)
    width, heads = fields.size("hidden_size"), fields.size("n_mamba_heads", default=8)
    inner = width * fields.size("mamba_expand", default=2)
    fields.ignore("use_conv_bias", "mamba_headdim")
    bias = fields.flag("add_bias_linear", False)
    return recurrent.Mamba2(
        name, width, heads, divide_evenly(fields, inner, heads, "{total} channels do not divide into {parts} heads"),
        fields.size("mamba_ngroups", default=1), fields.size("mamba_d_state", default=64),
        fields.size("mamba_d_conv", default=4), bias, out_bias=bias,
    )  # fmt: skip


@family("zamba", "zamba2")
def read_zamba(fields: Fields) -> Model:
    """Read mixers, some with a transformer block before them: one for all (Zamba), or some that take turns."""
    width, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    head = fields.optional("attention_head_dim") if fields.kind == "zamba" else None
    even = "twice the width, {total}, does not divide into {parts} heads"
    shape = DecoderSizes(fields.with_values(head_dim=head or divide_evenly(fields, 2 * width, heads, even)))
    name = "shared_transf" if fields.kind == "zamba" else "shared_transformer"
    fields.ignore("attention_hidden_size", "attention_head_dim", "kv_channels", "num_query_groups")
    turns = fields.size("num_mem_blocks", default=1)
    transformer = _zamba_transformer(fields, shape, name)
    modules = dict.fromkeys(
        weight.name.removesuffix(".bias")
        for _, weight in Layer(transformer).weights()
        if weight.name.startswith(name) and "adapter" not in weight.name
    )
    made: dict[int, Layer] = {}

    def layer(turn: int) -> Layer:
        """A layer with the block of a turn, or without one."""
        place = "mamba_decoder." if turn >= 0 else ""
        before = transformer if turn >= 0 else ()
        mixer = _zamba_mixer(fields, f"{place}mamba")
        blocks = (*before, Norm(f"{place}input_layernorm", width), mixer, ResidualAdd("add"))
        return Layer(blocks, shared=tuple((module, f"block {turn}") for module in modules) if before else ())

    layers: list[Layer] = []
    uses = 0
    for kind in _zamba_kinds(fields, shape.layers):
        turn = uses % turns if kind == "hybrid" else -1
        uses += kind == "hybrid"
        layers.append(made.setdefault(turn, made.get(turn) or layer(turn)))
    return decoder.build_model(
        fields, shape, layers, tied=True, last_norm="final_layernorm", before=(residual.KeepEmbedding("embedding"),)
    )


# Nemotron-H: one block a layer; Nemotron-NAS: attention and MLP of each layer's own

_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_WORDS = {"linear_attention": "mamba", "full_attention": "attention"}


@family("nemotron_h")
def read_nemotron(fields: Fields) -> Model:
    """Read the hybrid; no rotation in its attention, squared ReLU without a gate in its MLPs."""
    shape = DecoderSizes(fields)
    kinds = _nemotron_kinds(fields, "layers_block_type", "hybrid_override_pattern")
    if not kinds:
        wrong = f"{fields.name} has no layers_block_type"
        raise InputError(wrong, hint="a nemotron_h configuration needs it or hybrid_override_pattern")
    if len(kinds) != shape.layers:
        wrong = f"{fields.name} names {len(kinds)} layers and num_hidden_layers says {shape.layers}"
        raise InputError(wrong, hint="the two contradict each other")
    blocks = {kind: _nemotron_block(fields, shape, kind) for kind in dict.fromkeys(kinds)}

    def layer(kind: str) -> Layer:
        block = blocks[kind] if kind in blocks else _nemotron_block(fields, shape, kind)
        return Layer((Norm("norm", shape.width), block, ResidualAdd("add")))

    further = _nemotron_kinds(fields, "mtp_layers_block_type", "mtp_hybrid_override_pattern")
    modules = fields.layers("num_nextn_predict_layers", default=0)
    # Refuses a product of more layers than can be made one by one.
    fields.with_values(_prediction_layers=len(further) * modules).layers("_prediction_layers", default=0)
    more = decoder.prediction(shape.width, [layer(kind) for kind in further] * modules)
    more["extra_blocks"] = more["extra_blocks"][: 4 * modules]
    return decoder.build_model(
        fields, shape, [layer(kind) for kind in kinds], prefix="backbone.", embedding_name="embeddings",
        after=(Norm("norm_f", shape.width),), **more,
    )  # fmt: skip


def _nemotron_kinds(fields: Fields, listed: str, pattern: str) -> list[str]:
    found = fields.listed(listed) or list(fields.text(pattern))
    kinds = [_WORDS.get(kind, _LETTERS.get(kind, kind)) for kind in found]
    unknown = [kind for kind in kinds if kind not in _LETTERS.values()]
    if unknown:
        hint = suggest(str(unknown[0]), _LETTERS.values(), what="known")
        raise fields.not_understood(f"layer {quoted(unknown[0])}", hint)
    return kinds


def _nemotron_block(fields: Fields, shape: DecoderSizes, kind: str) -> Block:
    act, width = activation(fields, "mlp_hidden_act", default="relu2"), shape.width
    if kind == "attention":
        bias = fields.flag("attention_bias", False)
        return Attention("mixer", width, shape.heads, shape.kv_heads, shape.head, shape.head, bias=bias, out_bias=bias)
    if kind == "mamba":
        return recurrent.Mamba2(
            "mixer", width, fields.size("mamba_num_heads"), fields.size("mamba_head_dim"), fields.size("n_groups"),
            fields.size("ssm_state_size"), fields.size("conv_kernel"), fields.flag("use_bias", False),
            fields.flag("use_conv_bias", True),
            STATE_FORMATS[fields.choice("mamba_ssm_cache_dtype", STATE_FORMATS, "float32")],
            out_bias=fields.flag("use_bias", False),
        )  # fmt: skip
    bias = fields.flag("mlp_bias", False)
    if kind == "mlp":
        return Mlp("mixer", width, fields.size("intermediate_size"), gated=False, activation=act, bias=bias)
    if bias:
        raise InputError(f"mlp_bias of {fields.name} is true and it has experts", hint="theirs are not read")
    experts = fields.size("n_routed_experts")
    shared = fields.count("n_shared_experts") * fields.count("moe_shared_expert_intermediate_size")
    return MixtureOfExperts(
        "mixer", width, fields.size("moe_intermediate_size"), experts,
        decoder.experts_per_token(fields, experts, "num_experts_per_tok"), gated=False, activation=act,
        latent=fields.count("moe_latent_size") or None, scoring="sigmoid",
        shared=Mlp("shared", width, shared, gated=False, activation=act) if shared else None,
        group_limit=decoder.group_limit(fields, experts),
    )  # fmt: skip


def _nas_part(layer: Fields, name: str) -> Fields:
    """The attention or the feed-forward part of a layer."""
    part = layer.section(name)
    if part is None:
        raise InputError(f"{layer.name} has no {name}", hint='a layer without one says "no_op": true in it')
    for field in ("replace_with_linear", "sparsify", "window_length", "num_sink_tokens"):
        if part.get(field):
            raise InputError(f"{field} of {part.name} is not modelled")
    return part


@family("nemotron-nas", "deci")
def read_nas(fields: Fields) -> Model:
    """Read ``block_configs``: each layer has attention or none, and an MLP of its own width or none."""
    shape = DecoderSizes(fields)
    width, heads, head = shape.width, shape.heads, shape.head
    configs = fields.sections("block_configs", shape.layers)
    if configs is None:
        raise InputError(f"{fields.name} has no block_configs", hint="a nemotron-nas configuration needs one a layer")
    act = activation(fields, "hidden_act")
    layers = []
    for config in configs:
        attention, feed_forward = (_nas_part(config, name) for name in ("attention", "ffn"))
        blocks: list[Block] = []
        if not attention.flag("no_op"):
            group = attention.size("n_heads_in_group")
            kv_heads = divide_evenly(fields, heads, group, "{total} query heads do not fall into groups of {parts}")
            made = Attention(
                "self_attn", width, heads, kv_heads, head, head, bias=fields.flag("attention_bias", False), rotary=head
            )
            blocks += [Norm("input_layernorm", width), made, ResidualAdd("add_attention")]
        if not feed_forward.flag("no_op"):
            hidden = int(2 * feed_forward.factor("ffn_mult") * width / 3)
            mlp = Mlp("mlp", width, -(-hidden // 256) * 256, activation=act, bias=fields.flag("mlp_bias", False))
            blocks += [Norm("post_attention_layernorm", width), mlp, ResidualAdd("add_feed_forward")]
        layers.append(Layer(tuple(blocks)))
    return decoder.build_model(fields, shape, layers)
