"""Latent and compressed attention with experts: DeepSeek-V2 to V4, Kimi-K2, GLM-5, MiniCPM 3; Kimi Linear; LongCat."""

from __future__ import annotations

from typing import Any

from roofline.errors import InputError
from roofline.frozen import replace
from roofline.models.blocks import residual
from roofline.models.blocks.attention import Indexer
from roofline.models.blocks.feed_forward import MixtureOfExperts, Mlp
from roofline.models.blocks.latent_attention import CompressedAttention, LatentAttention
from roofline.models.blocks.recurrent import GatedDeltaNet, KimiDeltaAttention
from roofline.models.blocks.residual import IdleBlocks, Norm, ResidualAdd
from roofline.models.description import Block, Layer, Model
from roofline.models.families import decoder, family
from roofline.models.families.decoder import (
    EXPERT_NAMES,
    Decoder,
    DecoderSizes,
    Routing,
    activation,
    add,
    after_first,
    build_model,
    layer_types,
)
from roofline.models.fields import Fields, divide_evenly


def _latent_sizes(fields: Fields) -> Fields:
    """Heads need not divide the width, and have latents in place of keys of their own."""
    fields.ignore("head_dim", "num_key_value_heads")
    return fields.with_values(head_dim=_rotated(fields) or 1, num_key_value_heads=None)


def _rotated(fields: Fields) -> int:
    """How much of a key is rotated: 0 only where the configuration says so."""
    return 0 if fields.get("qk_rope_head_dim") == 0 else fields.size("qk_rope_head_dim")


def _latent(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> LatentAttention:
    """Attention over latents; a layer that predicts further tokens selects keys as the first layer that does."""
    indexers = _indexers(fields, shape.layers)
    indexer = next((found for found in indexers if found), None) if number < 0 else indexers[number]
    return LatentAttention(
        "self_attn", shape.width, shape.heads, fields.count("q_lora_rank"), fields.size("kv_lora_rank"),
        fields.size("qk_nope_head_dim"), _rotated(fields), fields.size("v_head_dim"),
        bias=fields.flag("attention_bias", False), indexer=indexer, rotates=_rotated(fields) > 0,
    )  # fmt: skip


def _indexers(fields: Fields, layers: int) -> list[Indexer | None]:
    """Which layers select keys themselves, which take over the choice of the layer before."""
    if "index_topk" not in fields:
        return [None] * layers
    pool, chosen = fields.count("index_kpool"), fields.size("index_topk")
    made = Indexer(
        fields.size("index_n_heads"), fields.size("index_head_dim"), chosen, pool=pool,
        tail=fields.flag("index_kpool_always_select_tail", True),
    )  # fmt: skip
    divide_evenly(fields, chosen, pool or 1, "an index_topk of {total} is no whole number of pools of {parts} keys")
    kinds = fields.listed("indexer_types", layers)
    pattern = fields.text("index_topk_pattern")
    frequency, skip = fields.size("index_topk_freq", default=1), "index_skip_topk_offset"
    offset = fields.count(skip) if skip in fields else 2
    if kinds is None and pattern:
        kinds = [{"F": "full", "S": "shared"}.get(letter) for letter in pattern]
    if kinds is None:
        kinds = ["full" if max(i - offset + 1, 0) % frequency == 0 else "shared" for i in range(layers)]
    if not set(kinds) <= {"full", "shared"} or len(kinds) < layers:
        raise fields.not_understood("indexer_types", "a list of 'full' and 'shared', one a layer")
    of_kind = {kind: replace(made, shared=kind == "shared") for kind in ("full", "shared")}
    return [of_kind[kind] for kind in kinds[:layers]]


_ROUTING = Routing(scored=("scoring_func", "softmax"), limited=True, layers=decoder.expert_layers)
_DEEPSEEK = Decoder(
    prepare=_latent_sizes, mixer=_latent, mlp_bias=False, routing=_ROUTING,
    predicts=("num_nextn_predict_layers",), predicted="full",
)  # fmt: skip


# Kimi Linear: three layers of delta attention to one of latent attention that does not rotate


def _kimi(fields: Fields) -> Fields:
    fields = fields.renamed(
        num_experts="n_routed_experts", num_local_experts="n_routed_experts", num_shared_experts="n_shared_experts",
        num_experts_per_token="num_experts_per_tok",
    )  # fmt: skip
    fields.refuse_other(moe_layer_freq=1)
    return _latent_sizes(fields)


def _kimi_kinds(fields: Fields, layers: int) -> list[str]:
    """Kinds as listed, by ``linear_attn_config``, which numbers layers from 1, or full attention in each fourth."""
    section = fields.section("linear_attn_config")
    listed = section.listed("full_attn_layers") if section is not None else None
    full = range(4, layers + 1, 4) if listed is None else listed
    known = decoder.INDEXED_OR_LINEAR if "index_topk" in fields else decoder.FULL_OR_LINEAR
    return layer_types(fields, layers, known, lambda number: "full" if number + 1 in full else "linear")


def _kimi_mixer(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> Block:
    section = fields.section("linear_attn_config")
    heads, head, kernel = (
        section.size(inside) if section is not None and inside in section else fields.size(name, default=usual)
        for inside, name, usual in (
            ("num_heads", "linear_num_heads", 32), ("head_dim", "linear_head_dim", 128),
            ("short_conv_kernel_size", "linear_conv_kernel_dim", 4),
        )
    )  # fmt: skip
    if kind == "linear":
        whole = section is not None and section.flag("use_full_rank_gate", False)
        return KimiDeltaAttention("self_attn", shape.width, heads, head, kernel, full_gate=whole)
    gate = "full" if fields.flag("mla_use_output_gate", False) else None
    return replace(_latent(fields, shape, kind, number, attention), indexer=None, rotates=False, gate=gate)


def _kimi_k3(model: Model, fields: Fields) -> Model:
    """The language part of Kimi K3 has experts in a latent space, and residuals of earlier blocks."""
    latent, block = fields.count("routed_expert_hidden_size"), fields.count("attn_res_block_size")
    norm = "routed_expert_norm" if fields.flag("latent_moe_use_norm", False) else ""
    names = "routed_expert_down_proj", "routed_expert_up_proj"

    def changed(each: Block) -> Block:
        if not latent or not isinstance(each, MixtureOfExperts):
            return each
        return replace(each, name="block_sparse_moe", latent=latent, latent_names=names, latent_norms=("", norm))

    model = model.with_blocks(changed)
    named = "self_attention_res", "mlp_res", "output_attn_res"
    return decoder.with_block_residuals(model, block, named) if block else model


_KIMI = Decoder(
    prepare=_kimi, kinds=_kimi_kinds, mixer=_kimi_mixer, mlp_bias=False,
    routing=Routing(scored="sigmoid", limited=True, layers=after_first(1)),
)  # fmt: skip


def _minicpm(fields: Fields) -> Fields:
    """MiniCPM 3 leaves out the width of the heads of values: the model's by the number of heads."""
    shape = fields.size("hidden_size"), fields.size("num_attention_heads")
    usual = divide_evenly(fields, *shape, "a width of {total} does not divide into {parts} heads")
    return _latent_sizes(fields.with_values(v_head_dim=fields.size("v_head_dim", default=usual)))


#: Norms of openPangu Ultra MoE.
_PANGU_NORMS = ("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm")


def _pangu(fields: Fields) -> Fields:
    """DeepSeek's fields under the names of openPangu Ultra MoE."""
    return _latent_sizes(fields.renamed(
        attention_q_lora_dim="q_lora_rank", attention_kv_lora_dim="kv_lora_rank", attention_qk_dim="qk_nope_head_dim",
        attention_qk_rope_dim="qk_rope_head_dim", attention_v_dim="v_head_dim", num_routed_experts="n_routed_experts",
        num_shared_experts="n_shared_experts", num_dense_layers="first_k_dense_replace",
        num_mtp_layers="num_nextn_predict_layers",
    ))  # fmt: skip


_TIED = Decoder(prepare=_latent_sizes, mixer=_latent, tied=True)

add({
    "kimi_linear": replace(_KIMI, finish=_kimi_k3),
    "deepseek_v2": replace(
        _DEEPSEEK, mlp_bias=("mlp_bias", False), routing=replace(_ROUTING, shared_bias=("mlp_bias", False))
    ),
    "deepseek_v3 kimi_k2 glm_moe_dsa deepseek_v32 glm4_moe_lite mistral4": _DEEPSEEK,
    "axk1": replace(
        _DEEPSEEK, order="experts normed",
        norms=("input_layernorm", "post_attention_layernorm", "mlp.post_mlp_layernorm"),
    ),
    "sarvam_mla": replace(_DEEPSEEK, renames=EXPERT_NAMES),
    "pangu_ultra_moe": replace(
        _DEEPSEEK, prepare=_pangu, routing=replace(_ROUTING, scored="sigmoid", limited=False),
        arrange=decoder.arranged("sandwich_norm", False, ("around", _PANGU_NORMS)),
    ),
    "minicpm3": replace(_TIED, prepare=_minicpm), "youtu youtu_llm": _TIED,
})  # fmt: skip

# Mistral Large 4: no latents of queries, which are scaled by their place; each fourth layer does not rotate


def _large(fields: Fields) -> Fields:
    sources, layers = fields.listed("kv_source_layers"), fields.layers("num_hidden_layers")
    if sources is not None and sources != list(range(layers)):
        raise InputError(f"{fields.name} has layers that read the latents of another", hint="that is not modelled")
    return _latent_sizes(fields.with_values(q_lora_rank=0))


def _large_mixer(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> Block:
    every = fields.size("no_rope_layer_interval", default=4)
    flags = fields.listed("no_rope_layers", shape.layers)
    made = replace(_latent(fields, shape, kind, number, attention), scaled=True)
    if (number + 1) % every if flags is None else flags[number]:
        return made
    return replace(made, nope=made.nope + made.rotary, rotary=0, rotates=False)


def _large_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Frequencies of its rotation are scaled by numbers that are learned."""
    fields.ignore("final_logit_softcapping")
    learned = Norm("rotary_emb.alpha", fields.size("qk_rope_head_dim") // 2)
    return {"before": (IdleBlocks("", (learned,)),)}


# A.X K2: gates on norms and of queries; Hy4: residual streams; Dots 3: windows over latents; Ling 3: delta attention


def _gated(gate: str, **more: Any) -> Any:
    def mixer(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> Block:
        if gate == "query":
            fields.size("q_lora_rank")  # refused where there are no latents to make gates of
        return replace(_latent(fields, shape, kind, number, attention), gate=gate, **more)

    return mixer


def _hy_indexers(fields: Fields) -> Fields:
    """The first two layers and each fourth after them select keys themselves where nothing is listed."""
    return _latent_sizes(fields.with_values(index_topk_freq=fields.size("index_topk_freq", default=4)))


def _gated_norms(model: Model, fields: Fields) -> Model:
    """All norms of A.X K2's layers have a gate, but that before a dense MLP."""
    rank = fields.size("gated_norm_rank")

    def changed(layer: Layer) -> Layer:
        plain = "post_attention_layernorm" if any(isinstance(block, Mlp) for block in layer.blocks) else ""
        return Layer(tuple(
            replace(block, gate_rank=rank) if isinstance(block, Norm) and block.name != plain else block
            for block in layer.blocks
        ))  # fmt: skip

    return model.with_layers(changed)


def _in_streams(model: Model, streams: int, *, mixed: bool, dtype: str = "fp32", head: bool = True) -> Model:
    """A model between several residual streams: ``head`` says whether they are weighed at its end."""

    def changed(block: Block) -> Block | tuple[Block, ...]:
        name = "attn_hc" if block.name in ("input_layernorm", "add_attention") else "ffn_hc"
        if isinstance(block, ResidualAdd):
            return residual.ExpandStreams(f"{name}_mix", streams, model.width, mixed=mixed)
        if isinstance(block, Norm):
            return residual.CollapseStreams(name, streams, model.width, mixed=mixed, dtype=dtype), block
        return block

    last = residual.CollapseStreams("hc_head", streams, model.width, last=True, trained=head)
    return replace(
        model.with_blocks(changed), before=(residual.CopyToStreams("streams", streams, model.width),),
        after=(last, *model.after),
    )  # fmt: skip


#: The streams' mean is what the head sees.
_BY_MEAN: dict[str, Any] = {"dtype": "", "head": False}

#: What layers with windows have of their own, where neither ``per_layer_config`` nor ``swa_…`` says it.
_DOTS = {
    "num_attention_heads": 64, "q_lora_rank": 1024, "kv_lora_rank": 1024, "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64, "v_head_dim": 128,
}  # fmt: skip


def _dots_kinds(fields: Fields, layers: int) -> list[str]:
    full = "indexed" if fields.flag("use_dsa", "per_layer_config" not in fields) else "full"
    known = {"full_attention": full, "indexed_attention": "indexed", "sliding_attention": "sliding"}
    usual = ("sliding", "indexed")
    return layer_types(fields, layers, known, lambda number: usual[number < 2 or number % 4 == 1])


def _dots(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> Block:
    names = {name: name for name in (*_DOTS, "num_key_value_heads", "head_dim")}
    own = decoder.by_layer(fields, shape.layers, names)[number]
    sliding = kind == "sliding"
    if sliding and "per_layer_config" not in fields:
        own = fields.with_values(**{name: fields.size(f"swa_{name}", default=usual) for name, usual in _DOTS.items()})
    made = replace(
        _latent(own, shape, kind, number, attention), heads=own.size("num_attention_heads"), gate="head", key_norm=True,
        window=fields.size("sliding_window", "sliding_window_size", default=512) if sliding else None,
    )  # fmt: skip
    return made if kind == "indexed" else replace(made, indexer=None)


def _ling(fields: Fields) -> Fields:
    """Ling 3, and 2.5, which has no short convolutions. Heads of linear attention are as wide as ``head_dim``.

    transformers, which has Ling 3 alone, saves that under another name.
    """
    fields = fields.renamed(num_expert_group="n_group", short_conv_kernel_size="linear_conv_kernel_dim")
    heads = {"linear_head_dim": fields.size("linear_head_dim", "head_dim", default=128)}
    heads["linear_num_heads"] = fields.size("linear_num_heads", "num_attention_heads")
    return _kimi(
        fields.with_values(**heads, _delta=fields.get("linear_conv_kernel_dim") or "group_norm_size" not in fields)
    )


def _ling_mixer(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> Block:
    delta = fields.get("_delta")
    if kind == "linear" and not delta:
        heads = fields.size("linear_num_heads"), fields.size("linear_head_dim")
        return decoder.lightning_of_ling("self_attn", fields, shape.width, *heads)
    made = _kimi_mixer(fields, shape, kind, number, attention)
    if isinstance(made, KimiDeltaAttention):
        whole = fields.flag("no_kda_lora", True)
        return replace(made, full_gate=whole, full_decay=whole)
    headed = fields.text("gated_attention_proj_granularity_type") in ("", "head_wise")
    gate = ("head" if headed else "full") if delta else None
    return replace(_latent(fields, shape, kind, number, attention), gate=gate)


#: Norms of GigaChat 3.5.
_GIGA_NORMS = (
    "input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_feedforward_layernorm",
)  # fmt: skip


def _giga(fields: Fields) -> Fields:
    """GigaChat 3.5: a gated delta net but in a few layers, whose latents are DeepSeek's; norms have gates."""
    fields.refuse_other(use_shared_expert_sigmoid=False, nextn_is_sparse=False, linear_use_short_conv=True)
    fields.refuse_other(linear_attention_type="Qwen3NextGatedDeltaNet", num_krope_heads=1)
    full, layers = fields.listed("full_attention_layers"), fields.layers("num_hidden_layers")
    if full or not fields.get("layer_types"):
        kinds = ["full_attention" if number in (full or ()) else "linear_attention" for number in range(layers)]
        fields = fields.with_values(layer_types=kinds)
    gates = {"ZeroCenteredGatedNorm": 16, "GatedNorm": 16, "ZeroCenteredRMSNorm": 0, "LlamaRMSNorm": 0}
    rank = gates[fields.choice("norm_type", gates, "ZeroCenteredGatedNorm")]
    return _latent_sizes(fields.with_values(gated_norm_rank=rank))


def _giga_mixer(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> Block:
    if kind == "linear":
        return GatedDeltaNet(
            "self_attn", shape.width, fields.size("linear_num_key_heads"), fields.size("linear_num_value_heads"),
            fields.size("linear_key_head_dim"), fields.size("linear_value_head_dim"),
            fields.size("linear_conv_kernel_dim"),
        )  # fmt: skip
    gate = "full" if fields.flag("gated_attention", True) else None
    made = _latent(fields, shape, kind, number, attention)
    return replace(made, gate=gate, gate_rank=fields.count("gated_norm_rank"))


def _giga_gates(model: Model, fields: Fields) -> Model:
    rank = fields.count("gated_norm_rank")

    def changed(block: Block) -> Block:
        return replace(block, gate_rank=rank) if isinstance(block, Norm) else block

    after, extra = (tuple(map(changed, blocks)) for blocks in (model.after, model.extra_blocks))
    layers = tuple(Layer(tuple(map(changed, layer.blocks))) for layer in model.extra)
    return replace(model.with_blocks(changed), after=after, extra=layers, extra_blocks=extra)


_AXK2 = replace(
    _DEEPSEEK, mixer=_gated("query"), routing=replace(_ROUTING, scored="sigmoid", layers=after_first(1)),
    finish=_gated_norms,
)  # fmt: skip

add({
    "mistral_large4_text": replace(
        _DEEPSEEK, prepare=_large, mixer=_large_mixer, routing=replace(_ROUTING, layers=after_first(1)),
        ends=_large_ends,
    ),
    "axk2": _AXK2,
    # blocks of DeepSeek-V3.2 with gates and sinks, between several residual streams that do not mix
    "hy_v4": replace(
        _AXK2, prepare=_hy_indexers, mixer=_gated("full", sinks=True),
        finish=lambda model, fields: _in_streams(model, fields.size("hc_mult"), mixed=False),
    ),
    "gigachat3_5": replace(
        _DEEPSEEK, prepare=_giga, mixer=_giga_mixer, finish=_giga_gates, predicted="full dense",
        kinds=lambda fields, layers: layer_types(fields, layers, decoder.FULL_OR_LINEAR),
        arrange=lambda fields: (
            {"pre_post": ("around", _GIGA_NORMS), "pre": ("before", decoder.USUAL_NORMS)}[
                fields.choice("layernorm_type", ("pre_post", "pre"), "pre_post")
            ]
        ),
        routing=replace(_ROUTING, scored=("scoring_func", "sigmoid")),
    ),
    "xing4_0 xingchen4": replace(
        _DEEPSEEK, finish=lambda model, fields: _in_streams(model, fields.size("hc_mult"), mixed=True, **_BY_MEAN)
    ),
    "dots3_note_text": replace(
        _DEEPSEEK, kinds=_dots_kinds, mixer=_dots,
        routing=replace(
            _ROUTING, scored="sigmoid", shared_count=("n_shared_experts", 1),
            shared_width=("shared_experts_intermediate_size", "moe_shared_expert_intermediate_size"),
            layers=after_first(1),
        ),
    ),
    "bailing_hybrid": replace(
        _KIMI, prepare=_ling, kinds=decoder.in_groups, mixer=_ling_mixer, predicts=("num_nextn_predict_layers",),
        predicted="full",
        routing=replace(
            _ROUTING, scored=("score_function", "sigmoid"), layers=after_first(2),
            shared_width=("moe_shared_expert_intermediate_size", "moe_intermediate_size"),
        ),
    ),
})  # fmt: skip

# GLM-5.3-Flash: delta attention, and latents that are not rotated whose indexer picks pools of keys; streams that mix


def _glm(fields: Fields) -> Fields:
    """What picks keys has latents that do not rotate."""
    if _rotated(fields):
        raise InputError(f"qk_rope_head_dim of {fields.name} is {_rotated(fields)}", hint="0 is read: nothing rotates")
    return _kimi(fields)


def _glm_mixer(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> Block:
    made = _kimi_mixer(fields, shape, kind, number, attention)
    return made if isinstance(made, KimiDeltaAttention) else _latent(fields, shape, kind, number, attention)


add({
    "glm5_next_text": replace(
        _DEEPSEEK, prepare=_glm, kinds=_kimi_kinds, mixer=_glm_mixer,
        routing=replace(_ROUTING, scored="sigmoid", layers=after_first(3)),
        finish=lambda model, fields: _in_streams(model, fields.size("hc_mult"), mixed=True, **_BY_MEAN),
    ),
})  # fmt: skip

# LongCat-Flash: two attentions and two MLPs a layer, and experts beside the first MLP

_LONGCAT = Routing(
    top_k=("moe_topk",), hidden=("expert_ffn_hidden_size",), shared_count=0, idle=("zero_expert_num",),
    score_bias="router.e_score_correction_bias", names=("router.classifier", "experts", ""),
)  # fmt: skip


def _ngrams(fields: Fields, shape: DecoderSizes) -> tuple[Block, ...]:
    """Rows for words with those before them, of LongCat-Flash-Lite."""
    if fields.kind != "longcat_flash_ngram":
        return ()
    heads = fields.size("emb_split_num", default=4) * (fields.size("emb_neighbor_num", default=4) - 1)
    if not 0 < heads <= shape.width:
        raise fields.not_understood("emb_neighbor_num", "2 at least: a word and one before it")
    rows = fields.size("ngram_vocab_size_ratio", default=78) * shape.vocabulary
    table = heads * (rows + heads), shape.width // heads
    return (residual.NgramEmbedding("ngram_embeddings", table, heads, shape.width),)


@family("longcat_flash", "longcat_flash_ngram")
def read_longcat(fields: Fields) -> Model:
    """Read LongCat-Flash; what experts return is added at once, not at the layer's end, which costs the same."""
    fields = _latent_sizes(fields.with_values(num_hidden_layers=fields.layers("num_layers")))
    shape = DecoderSizes(fields)
    act, dense = activation(fields, "hidden_act"), fields.size("ffn_hidden_size")
    scored = fields.size("n_routed_experts") + fields.count("zero_expert_num")
    experts = _LONGCAT.block(fields, shape.width, act)
    experts = replace(experts, router_bias=fields.flag("router_bias", False))
    blocks: list[Block] = []
    for number in range(2):
        attention = replace(_latent(fields, shape, "full", 0, Norm("", 1)), name=f"self_attn.{number}")
        mlp: Block = Mlp(f"mlps.{number}", shape.width, dense, activation=act)
        blocks += [
            Norm(f"input_layernorm.{number}", shape.width), attention, ResidualAdd(f"add_attention.{number}"),
            Norm(f"post_attention_layernorm.{number}", shape.width),
            mlp if number else residual.ParallelBranches("", ((experts,), (mlp,)), inside=True),
            ResidualAdd(f"add_feed_forward.{number}"),
        ]  # fmt: skip
    note = f"{fields.size('moe_topk')} of {scored} experts a token, {experts.idle} of which return their input: "
    note += f"{experts.top_k} of the other {experts.count} on average, as many as every token is taken to have"
    more: dict[str, Any] = {"notes": (note,) if experts.idle else (), "before": _ngrams(fields, shape)}
    return build_model(fields, shape, [Layer(tuple(blocks))] * shape.layers, **more)


# DeepSeek-V4: windows and compressed entries in place of a full cache, several residual streams

#: Compression rates by the names newer configurations give the layers.
_RATES = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
_EXPERTS = Routing(module="ffn", shared_bias=("mlp_bias", False), scored=("scoring_func", "sqrtsoftplus"))


@family("deepseek_v4", "deepseek_ref")
def read_v4(fields: Fields) -> Model:
    """Read a decoder with compressed attention; ``deepseek_ref`` is the name the reference code uses."""
    shape = DecoderSizes(fields)
    width, streams = shape.width, fields.size("hc_mult")
    experts = _EXPERTS.block(fields, width, activation(fields, "hidden_act"))

    def layer(rate: int) -> Layer:
        return Layer((
            residual.CollapseStreams("attn_hc", streams, width),
            Norm("input_layernorm", width),
            _compressed(fields, shape, rate),
            residual.ExpandStreams("attn_mix", streams, width),
            residual.CollapseStreams("ffn_hc", streams, width),
            Norm("post_attention_layernorm", width),
            experts,
            residual.ExpandStreams("ffn_mix", streams, width),
        ))  # fmt: skip

    layers = {rate: layer(rate) for rate in (0, *_rates(fields, shape.layers))}
    hashed = fields.count("num_hash_layers") or (fields.listed("mlp_layer_types") or []).count("hash_moe")
    more: dict[str, Any] = decoder.prediction(width, [layers[0]] * fields.layers("num_nextn_predict_layers", default=0))
    if hashed:
        more["notes"] = (f"the first {hashed} routers look experts up by token; they still score all of them",)
    return build_model(
        fields, shape, [layers[rate] for rate in _rates(fields, shape.layers)],
        before=(residual.CopyToStreams("streams", streams, width),),
        after=(residual.CollapseStreams("hc_head", streams, width, last=True), Norm("norm", width)),
        prefix="", head_name="head", **more,
    )  # fmt: skip


def _compressed(fields: Fields, shape: DecoderSizes, rate: int) -> CompressedAttention:
    indexer = None
    if rate and rate < 128:
        indexer = Indexer(fields.size("index_n_heads"), fields.size("index_head_dim"), fields.size("index_topk"))
    return CompressedAttention(
        "attn", shape.width, shape.heads, shape.head, fields.size("q_lora_rank"), fields.size("qk_rope_head_dim"),
        fields.size("sliding_window"), fields.size("o_groups"), fields.size("o_lora_rank"), rate, indexer,
    )  # fmt: skip


def _rates(fields: Fields, layers: int) -> list[int]:
    ratios = fields.listed("compress_ratios", layers)
    kinds = fields.listed("layer_types", layers)
    given = fields.section("compress_rates")
    if ratios is None and kinds is not None:
        known = {**_RATES, **{kind: given.size(kind) for kind in given.names()}} if given is not None else _RATES
        ratios = [known.get(kind) for kind in kinds]
    if ratios is None:
        wrong = f"{fields.name} has no compress_ratios"
        raise InputError(wrong, hint="a deepseek_v4 configuration needs them or layer_types")
    if any(rate not in _RATES.values() for rate in ratios):
        raise fields.not_understood("compress_ratios", "each is 0 (window alone), 4 or 128")
    return [int(rate) for rate in ratios[:layers]]
