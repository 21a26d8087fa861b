"""Mixtures of experts as rows of the table: Mixtral, Qwen, gpt-oss, GLM-4.5, MiniMax, Llama 4, ERNIE, DBRX …"""

from __future__ import annotations

from functools import partial
from typing import Any

from roofline.errors import InputError
from roofline.frozen import replace
from roofline.models.blocks.attention import BlockIndexer
from roofline.models.blocks.feed_forward import MixtureOfAttention, MixtureOfExperts
from roofline.models.blocks.residual import IdleBlocks, Norm, ResidualAdd
from roofline.models.description import Block, Model
from roofline.models.families import decoder, family
from roofline.models.families.decoder import (
    AROUND,
    ONE_SHARED,
    Decoder,
    DecoderSizes,
    Routing,
    add,
    after_first,
    all_sliding,
    expert_layers,
    experts_per_token,
    in_windows,
    layer_types,
    listed,
    read,
)
from roofline.models.fields import Fields, divide_evenly

_ROUTER = ("router", "experts", "")
_NO_BIAS = Decoder(bias=False, mlp_bias=False)

#: The older mixtures: experts are as wide as a dense MLP would be.
_LOCAL = Routing(module="block_sparse_moe", experts=("num_local_experts",), hidden=("intermediate_size",))
_SHARED_WIDTH = replace(_LOCAL, shared_width=("shared_intermediate_size",), shared_count=1)


def _mixtral(fields: Fields) -> Fields:
    """Prediction layers: modules of one or more layers each, where ``use_mtp`` is not off."""
    modules = fields.layers("num_mtp_modules", default=0) if fields.flag("use_mtp", True) else 0
    depth = fields.layers("mtp_transformer_layers", default=0) or 1
    return fields.with_values(_prediction_layers=modules * depth)


def _minimax(fields: Fields) -> Fields:
    if any(kind != 1 for kind in fields.listed("attn_type_list", fields.layers("num_hidden_layers")) or []):
        wrong = f"attn_type_list of {fields.name} has linear attention"
        raise InputError(wrong, hint="only full attention (1) is read")
    return _mixtral(fields)


def _qk_norm(default: str) -> Any:
    """Norms of queries and keys, over all heads together (per_layer) or head by head, unless switched off."""

    def attend(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
        if default == "per_layer" and not fields.flag("use_qk_norm", True):
            return {"norm": None}
        said = fields.choice("qk_norm_type", ("per_layer", "per_head"), default)
        return {"norm": {"per_layer": "full", "per_head": "head"}[said]}

    return attend


_MIXTRAL = replace(
    _NO_BIAS, prepare=_mixtral, kinds=all_sliding, routing=replace(_SHARED_WIDTH, scored=("scoring_func", "softmax")),
    predicts=("_prediction_layers",),
)  # fmt: skip
_GRANITE = Decoder(mlp_bias=False, routing=replace(_SHARED_WIDTH, names=("router", "experts", "shared_mlp")))


def _dbrx(fields: Fields) -> Fields:
    """Sizes of attention and of the experts stand in sections of their own."""
    heads, inner = fields.section("attn_config"), fields.section("ffn_config")
    if heads is None or inner is None:
        raise InputError(f"{fields.name} has no attn_config or no ffn_config", hint="a dbrx configuration needs both")
    function = inner.section("ffn_act_fn")
    return fields.with_values(
        num_key_value_heads=heads.get("kv_n_heads", 1),
        hidden_act=decoder.activation(function, "name") if function is not None else "silu",
        n_routed_experts=inner.size("moe_num_experts"),
        num_experts_per_tok=inner.size("moe_top_k"),
        moe_intermediate_size=inner.size("ffn_hidden_size"),
    )


def _second_grok(fields: Fields) -> Fields:
    """Grok 2, whose type is published as ``git``: an MLP that every token uses stands beside its experts."""
    if not fields.flag("residual_moe", False):
        wrong = f"model_type 'git' of {fields.name} is read as Grok 2 alone"
        raise InputError(wrong, hint="residual_moe is true there; Microsoft's GIT is not modelled")
    return fields


_GROK = replace(
    _NO_BIAS, order="around", norms=("pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm"),
    attention="attn", act_fields=(), act="gelu",
)  # fmt: skip


def _arctic(fields: Fields) -> Fields:
    """Only the form of the published checkpoint: an MLP and experts side by side."""
    if not (fields.flag("use_residual", True) and fields.flag("parallel_attn_mlp_res", False)):
        wrong = f"{fields.name} has no MLP beside its experts"
        raise InputError(wrong, hint="use_residual and parallel_attn_mlp_res, both true")
    return fields


def _arctic_layers(fields: Fields, layers: int) -> list[bool]:
    every = fields.size("moe_layer_frequency", default=2)
    return [(number + 1) % every == 0 for number in range(layers)]


def _hunyuan(fields: Fields) -> Fields:
    """Numbers may be listed by layer; one shared expert is as wide as the others."""
    fields = fields.with_single_values("moe_topk", "num_shared_expert", "moe_intermediate_size", "num_experts")
    if fields.get("use_mixed_mlp_moe") is False or fields.get("num_shared_expert", 1) != 1:
        raise InputError(f"{fields.name} has not one shared expert", hint="that is not read")
    return fields


def _jetmoe(fields: Fields) -> Fields:
    """JetMoE, also under the names of its own code; heads are those of the experts of a token."""
    fields = fields.renamed(
        kv_channels="head_dim", ffn_hidden_size="intermediate_size", moe_num_experts="num_local_experts",
        moe_top_k="num_experts_per_tok",
    )  # fmt: skip
    each = fields.size("num_key_value_heads", default=16)
    heads = each * experts_per_token(fields, fields.size("num_local_experts"), "num_experts_per_tok")
    fields.ignore("num_attention_heads")
    return fields.with_values(num_attention_heads=heads, num_key_value_heads=each)


def _attention_of_experts(fields: Fields, shape: DecoderSizes, kind: str, number: int, attention: Block) -> Block:
    count, top_k = fields.size("num_local_experts"), shape.heads // shape.kv_heads
    return MixtureOfAttention(
        "self_attention", shape.width, shape.heads, shape.kv_heads, shape.head, shape.head, rotary=shape.rotary,
        count=count, top_k=top_k,
    )  # fmt: skip


_GPT_OSS = Decoder(
    bias=("attention_bias", True), sinks=True, mlp_bias=False, kinds=listed(2),
    routing=replace(
        _LOCAL, module="mlp", top_k=("num_experts_per_tok", "experts_per_token"), shared_count=0, router_bias=True,
        expert_bias=True, names=_ROUTER,
    ),
)  # fmt: skip

add({
    "mixtral": _MIXTRAL,
    "jetmoe": Decoder(
        prepare=_jetmoe, mixer=_attention_of_experts, act_fields=("activation_function",), tied=True,
        routing=Routing(
            experts=("num_local_experts",), hidden=("intermediate_size",), names=("router.layer", "experts", ""),
            added="bias",
        ),
    ),
    "minimax_m2": replace(_MIXTRAL, prepare=_minimax, attend=_qk_norm("per_layer")),
    "granitemoe granitemoeshared": _GRANITE,
    "granitemoe_swa": replace(
        _GRANITE, sinks=True, kinds=decoder.switched(on=True, full=lambda fields, number: number % 4 == 0),
        rotates=decoder.by_list,
    ),
    "phimoe": Decoder(
        norm=("layer_norm", True), mlp_bias=False, kinds=all_sliding,
        routing=replace(_LOCAL, module="mlp", shared_count=0, names=_ROUTER), head_bias=("lm_head_bias", False),
    ),
    "olmoe": Decoder(
        qk_norm="full", mlp_bias=False, routing=Routing(experts=("num_experts",), hidden=("intermediate_size",)),
    ),
    "flex_olmo": Decoder(
        order="after", norms=("post_attention_layernorm", "post_feedforward_layernorm"), qk_norm="full", mlp_bias=False,
        kinds=decoder.patterned,
        routing=Routing(experts=("num_experts",), hidden=("intermediate_size",), shared_count=0),
    ),
    "dbrx": replace(
        _NO_BIAS, prepare=_dbrx, norm=("layer_norm", False), norms=("norm_attn_norm.norm_1", "norm_attn_norm.norm_2"),
        attention="norm_attn_norm.attn",
        routing=Routing(module="ffn", shared_count=0, names=("router.layer", "experts.mlp", "")), last_norm="norm_f",
        prefix="transformer.", embedding="wte", ends=lambda fields, shape: {"context": fields.optional("max_seq_len")},
    ),
    "grok-1": replace(
        _GROK, tied=True,
        routing=Routing(module="moe_block", experts=("num_experts",), hidden=("intermediate_size",), shared_count=0),
    ),
    "git": replace(
        _GROK, prepare=_second_grok,
        routing=replace(
            _LOCAL, hidden=("moe_intermediate_size",), shared_width=("intermediate_size",), shared_count=1,
            names=("gate", "experts", "mlp"),
        ),
    ),
    "arctic": replace(
        _NO_BIAS, prepare=_arctic, order="residual mlp",
        norms=("input_layernorm", "post_attention_layernorm", "residual_layernorm"), bias=("attention_bias", False),
        mlp_names=("w1", "w3", "w2"), kinds=all_sliding, routing=replace(_LOCAL, shared_count=0, layers=_arctic_layers),
    ),
    "hunyuan_v1_moe hunyuan": Decoder(
        prepare=_hunyuan, qk_norm="head", qk_switch=("use_qk_norm", True), attend=decoder.cross_layer,
        ends=decoder.cross_layer_ends, mlp_bias=False,
        routing=Routing(
            experts=("num_experts",), top_k=("moe_topk",), hidden=("intermediate_size",), shared_count=1,
            names=("gate.wg", "experts", "shared_mlp"),
        ),
    ),
    "gpt_oss": _GPT_OSS,
    "openai_privacy_filter": replace(_GPT_OSS, causal=False, kinds=all_sliding, prepare=decoder.to_each_side),
})  # fmt: skip


def _qwen_kinds(older: bool) -> Any:
    """Windows where they are switched on: in all layers, or of Qwen2 in every second of the first ones."""

    def kinds(fields: Fields, layers: int) -> list[str]:
        if not fields.flag("use_sliding_window", False) or fields.get("sliding_window") is None:
            fields.ignore("layer_types")
            return ["full"] * layers
        if "layer_types" in fields:
            return layer_types(fields, layers)
        first = fields.size("max_window_layers", default=28) if older else layers
        return ["sliding" if i < first and not (older and i % 2) else "full" for i in range(layers)]

    return kinds


_QWEN_ROUTING = replace(ONE_SHARED, layers=expert_layers, when=lambda fields: fields.get("num_experts", 1) != 0)
_QWEN = Decoder(
    bias=[("attention_bias", False), ("qkv_bias", False)], out_bias=("attention_bias", False), qk_norm="head",
    mlp_bias=False, kinds=_qwen_kinds(older=False), routing=_QWEN_ROUTING,
)  # fmt: skip
_GLM_ROUTING = Routing(scored="sigmoid", limited=True, layers=expert_layers)
_GLM = Decoder(
    out_bias=False, qk_norm="head", qk_switch=("use_qk_norm", False), mlp_bias=False,
    kinds=lambda fields, layers: ["full" for _ in layer_types(fields, layers)], routing=_GLM_ROUTING,
    predicts=("num_nextn_predict_layers",), predicted="full",
)  # fmt: skip


def _ernie_layers(fields: Fields, layers: int) -> list[bool]:
    if "mlp_layer_types" in fields:
        return expert_layers(fields, layers)
    first, every = fields.count("moe_layer_start_index"), fields.size("moe_layer_interval", default=1)
    last = fields.count("moe_layer_end_index") if fields.get("moe_layer_end_index", -1) != -1 else layers - 1
    return [(number + 1) % every == 0 and first <= number <= last for number in range(layers)]


_ERNIE_ROUTING = Routing(
    experts=("moe_num_experts",), top_k=("moe_k",), shared_count=("moe_num_shared_experts", 0),
    shared_bias=("use_bias", False), score_bias="gate.moe_statics.e_score_correction_bias", layers=_ernie_layers,
)  # fmt: skip
_ERNIE = Decoder(
    bias=("use_bias", False), mlp_bias=("use_bias", False), head_bias=("use_bias", False), routing=_ERNIE_ROUTING,
    tied=True,
)  # fmt: skip


def _llama4_rotates(fields: Fields, kinds: Any) -> list[bool]:
    every = fields.size("no_rope_layer_interval", default=4)
    usual = [int((number + 1) % every != 0) for number in range(len(kinds))]
    # published Llama 4 say [] where they mean the usual
    listed = fields.listed("no_rope_layers", len(kinds)) if fields.get("no_rope_layers") else usual
    return [bool(each) for each in (listed or usual)[: len(kinds)]]


def _llama4_kinds(fields: Fields, layers: int) -> list[str]:
    """Chunked attention in the layers that rotate, where nothing else is listed."""
    known, turned = {"full_attention": "full", "chunked_attention": "chunked"}, _llama4_rotates(fields, range(layers))
    return layer_types(fields, layers, known, lambda number: "chunked" if turned[number] else "full")


def _llama4(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    """Queries and keys are normalised without a scale in the layers that rotate them."""
    normed = fields.flag("use_qk_norm", True) and _llama4_rotates(fields, [""] * shape.layers)[number]
    chunk = fields.size("attention_chunk_size") if kind == "chunked" else None
    return {"norm": "plain" if normed else None, "chunk": chunk}


def _llama4_layers(fields: Fields, layers: int) -> list[bool]:
    step = fields.size("interleave_moe_layer_step", default=1)
    numbers = fields.listed("moe_layers")
    sparse = set(range(step - 1, layers, step) if numbers is None else numbers)
    return [number in sparse for number in range(layers)]


_LING = Decoder(
    bias=("use_qkv_bias", False), out_bias=("use_bias", False), qk_norm="head", qk_switch=("use_qk_norm", False),
    mlp_bias=False, projections=("q_proj", "k_proj", "v_proj", "dense"), attention="attention",
    routing=Routing(
        experts=("num_experts",), shared_count=("num_shared_experts", 0), limited=True,
        scored=("score_function", "softmax"), layers=expert_layers,
    ),
    predicts=("num_nextn_predict_layers",), predicted="full", embedding="word_embeddings",
)  # fmt: skip

add({
    "qwen3_moe sdar_moe": _QWEN,
    "qwen2_moe": replace(
        _QWEN, bias=[("attention_bias", False), ("qkv_bias", True)], out_bias=False, qk_norm=None,
        kinds=_qwen_kinds(older=True), routing=replace(_QWEN_ROUTING, shared_gate=True),
    ),
    "glm4_moe": _GLM,
    "sarvam_moe": replace(
        _GLM, renames={**decoder.EXPERT_NAMES, "use_qkv_bias": "attention_bias"}, qk_switch=("use_qk_norm", True),
    ),
    # the first DeepSeek, and Ling
    "deepseek": Decoder(mlp_bias=False, routing=Routing(layers=expert_layers)),
    "bailing_moe bailing_moe_v2 llada2_moe": _LING,
    # Ring-linear: linear attention in all but the last layer of each group
    "bailing_moe_linear": replace(
        _LING, kinds=decoder.in_groups,
        mixer=lambda fields, shape, kind, number, attention: attention if kind == "full" else decoder.lightning_of_ling(
            "attention", fields, shape.width, shape.heads, shape.head
        ),
    ),
    # experts in every layer, whatever else is said
    "solar_open": replace(_GLM, prepare=lambda fields: fields.with_values(first_k_dense_replace=0)),
    "dots1": replace(_GLM, out_bias=None, qk_switch=True, kinds=listed()),
    "exaone_moe": replace(
        _NO_BIAS, qk_norm="head", kinds=decoder.patterned, rotates=decoder.in_windows_if_any,
        routing=replace(_GLM_ROUTING, experts=("num_experts",), shared_count=("num_shared_experts", 0)),
    ),
    "ernie4_5_moe": _ERNIE,
    "llama4_text": Decoder(
        kinds=_llama4_kinds, rotates=_llama4_rotates, attend=_llama4, mlp="feed_forward", mlp_bias=False,
        hidden=("intermediate_size_mlp",),
        routing=Routing(
            module="feed_forward", experts=("num_local_experts",), hidden=("intermediate_size",), shared_count=1,
            scored="sigmoid", names=("router", "experts", "shared_expert"), layers=_llama4_layers,
        ),
    ),
})  # fmt: skip


@family("ernie4_5_vl_moe_text")
def read_ernie(fields: Fields) -> Model:
    """Read ERNIE 4.5 VL; what has two values by kind of token has that of words first, then that of pictures."""
    names = "moe_num_experts", "moe_intermediate_size", "moe_layer_start_index", "moe_layer_end_index"
    fields = fields.with_values(moe_intermediate_size=fields.get("moe_intermediate_size", [1536, 512]))
    both = {name: fields.listed(name) for name in names if isinstance(fields.get(name), list)}
    if any(len(values or []) != 2 for values in both.values()):
        raise fields.not_understood(" or ".join(both), "one for words and one for pictures")
    words, pictures = (
        fields.with_values(**{name: values[number] for name, values in both.items() if values}) for number in (0, 1)
    )
    model, routing = read(_ERNIE, words), replace(_ERNIE_ROUTING, module="mlp.vision_moe", shared_count=0)
    idle = IdleBlocks("", (routing.block(pictures, model.width, "silu"),))

    model = model.with_blocks(lambda block: (block, idle) if isinstance(block, MixtureOfExperts) else block)
    return replace(model, notes=("experts of pictures are in memory and not run: pictures are not modelled",))


def _mimo_kinds(fields: Fields, layers: int) -> list[str]:
    pattern = fields.listed("hybrid_layer_pattern", layers)
    return layer_types(fields, layers) if pattern is None else ["sliding" if p else "full" for p in pattern[:layers]]


def _mimo(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    """Windows with sinks and further key heads; heads of keys wider than those of values.

    transformers saves neither the heads of windows, twice the others, nor their sinks.
    """
    value = fields.size("v_head_dim", default=shape.head)
    if kind != "sliding":
        return {"value": value, "sinks": fields.flag("add_full_attention_sink_bias", False)}
    before = fields.count("sliding_window_size")
    return {
        "heads": fields.size("swa_num_attention_heads", default=shape.heads),
        "kv_heads": fields.size("swa_num_key_value_heads", default=2 * shape.kv_heads),
        "key": fields.size("swa_head_dim", default=shape.head),
        "value": fields.size("swa_v_head_dim", default=value),
        "sinks": fields.flag("add_swa_attention_sink_bias", True),
        # the reference attends to so many tokens before the query, which comes on top
        "window": before + 1 if before else fields.size("sliding_window", default=129),
    }


def _step(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    """Windows with heads of their own: in a section, as published, or by the name that transformers writes."""
    found: dict[str, Any] = {"gate": "head"}
    other = fields.section("attention_other_setting")
    if other is not None:
        other.ignore("true_head_dim")
    if kind == "sliding":
        found["heads"] = fields.size("num_sliding_attention_heads", default=shape.heads)
        if other is not None and other.text("attention_type") in ("", "sliding_attention"):
            head = other.size("head_dim", default=shape.head)
            found |= {"heads": other.size("num_attention_heads", default=found["heads"]), "key": head, "value": head}
            found |= {"kv_heads": other.size("num_attention_groups", default=_groups(fields, shape))}
    return found


def _groups(fields: Fields, shape: DecoderSizes, default: int = 0) -> int:
    """Heads of keys; 1 in every published configuration of Step-3."""
    found = fields.size("num_attention_groups", default=default or shape.kv_heads)
    divide_evenly(fields, shape.heads, found, "{total} query heads do not share {parts} key heads evenly")
    return found


def _step3_layers(fields: Fields, layers: int) -> list[bool]:
    """The numbers of the layers with experts, listed or as a text; all but the first where there is none."""
    given = fields.get("moe_layers_enum", "")
    named = [str(number) for number in given] if isinstance(given, list) else fields.text("moe_layers_enum").split(",")
    if not all(number.strip().isdecimal() for number in named if number):
        raise fields.not_understood("moe_layers_enum", 'numbers of layers: "4,5,6"')
    numbers = {int(number) for number in named if number} or set(range(1, layers))
    return [number in numbers for number in range(layers)]


def _step_layers(fields: Fields, layers: int) -> list[bool]:
    listed = "moe_layers_enum" in fields and "mlp_layer_types" not in fields
    return _step3_layers(fields, layers) if listed else expert_layers(fields, layers)


def _minimax_m3(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    """In most layers each query attends to the blocks of keys that a small attention picks."""
    found: dict[str, Any] = _qk_norm("per_head")(fields, shape, kind, number)
    found["gate"] = "full" if fields.flag("attention_output_gate", False) else None
    sparse = fields.section("sparse_attention_config")
    names: tuple[str, ...] = ()
    if sparse is not None and sparse.flag("use_sparse_attention", True):
        frequency = sparse.listed("sparse_attention_freq", shape.layers) or [1] * shape.layers
        names = ("sparse_num_index_heads", "sparse_index_dim", "sparse_block_size", "sparse_topk_blocks")
        names = names if frequency[number] else ()
    elif kind == "sparse":  # as transformers writes it
        sparse, names = fields, ("index_n_heads", "index_head_dim", "index_block_size", "index_topk_blocks")
    # local blocks are among those that are picked; the rest has no meaning where no layer picks any
    fields.ignore("index_local_blocks", "index_n_heads", "index_head_dim", "index_block_size", "index_topk_blocks")
    if sparse is not None and names:
        heads, width, block, blocks = map(sparse.size, names)
        found["indexer"] = BlockIndexer(heads, width, block, blocks)
    return found


def _laguna(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    """Gates of attention, numbers of heads by layer, parts of heads that are rotated by kind of layer."""
    name = "num_attention_heads_per_layer"
    heads = fields.listed(name, shape.layers)
    gate = "head" if fields.get("gating", True) in (True, "per-head") else "full"
    return {
        **decoder.rotary_by_kind(fields, shape, kind, number),
        "heads": fields.with_values(**{name: heads[number]}).size(name) if heads and number >= 0 else shape.heads,
        "gate": gate,
    }


_MELLUM = Decoder(
    qk_norm="head", mlp_bias=False, kinds=listed(), window=("sliding_window", "needed"), attend=decoder.rotary_by_kind,
    routing=replace(ONE_SHARED, names=("gate", "experts", "shared_experts"), layers=after_first(0)),
    predicts=("num_mtp_layers",), predicted="sliding",
)  # fmt: skip


def _cohere_kinds(fields: Fields, layers: int) -> list[str]:
    """Dense layers that come first see windows in a pattern of their own."""
    prefix = fields.count("first_k_dense_replace")
    own = fields.size("prefix_dense_sliding_window_pattern", default=1)
    every = fields.size("sliding_window_pattern", default=4)

    def usual(number: int) -> str:
        place = (number + 1) % own if number < prefix else (number - prefix + 1) % every
        return "sliding" if place else "full"

    return layer_types(fields, layers, usual=usual)


def _beam_kinds(fields: Fields, layers: int) -> list[str]:
    """Each sixth layer and the last see everything where nothing is listed."""
    kinds = listed(6)(fields, layers)
    return kinds if "layer_types" in fields else [*kinds[:-1], "full"]


def _cohere_rotates(fields: Fields, kinds: Any) -> list[bool]:
    """Layers that see everything do not rotate, but for dense ones that come first without a pattern of their own."""
    own = fields.size("prefix_dense_sliding_window_pattern", default=1)
    sparse = after_first(0)(fields, len(kinds))
    return [kind == "sliding" or (own == 1 and not routes) for kind, routes in zip(kinds, sparse, strict=True)]


_KOLIBRI = ("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm")


def _by_layout(fields: Fields, layers: int) -> list[str]:
    """SmallThinker's windows, 1 where a layer has one; all layers have experts."""
    if not all(fields.listed("moe_layer_layout", layers) or [1]):
        raise fields.not_understood("moe_layer_layout", "1 for every layer")
    return [
        "sliding" if one else "full"
        for one in (fields.listed("sliding_window_layout", layers) or [0] * layers)[:layers]
    ]


add({
    "mimo_v2_flash": Decoder(
        out_bias=False, mlp_bias=False, kinds=_mimo_kinds, attend=_mimo, routing=_GLM_ROUTING,
        predicts=("num_nextn_predict_layers",), predicted="sliding dense",
    ),
    "step3_text": replace(
        _NO_BIAS, kv_heads=partial(_groups, default=1),
        attend=lambda fields, *asked: {"query_rank": fields.size("share_q_dim")},
        routing=Routing(
            module="moe", experts=("moe_num_experts",), top_k=("moe_top_k",), shared_width=("share_expert_dim",),
            shared_count=1, names=("gate", "experts", "share_expert"), layers=_step3_layers,
        ),
        ends=lambda fields, shape: {"context": fields.optional("max_seq_len")},
    ),
    "step3p7 step3p5": Decoder(
        out_bias=False, qk_norm="head", mlp_bias=False, kinds=listed(), window=("sliding_window", "needed"),
        attend=_step, kv_heads=_groups,
        routing=Routing(
            experts=("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"),
            top_k=("num_experts_per_tok", "moe_top_k"), shared_width=("share_expert_dim", "share_expert_dims"),
            shared_count=("n_shared_experts", 1), scored="sigmoid", layers=_step_layers,
        ),
        predicts=("num_nextn_predict_layers",),
    ),
    "minimax_m3 minimax_m3_vl_text": replace(
        _NO_BIAS, attend=_minimax_m3, hidden=("dense_intermediate_size",),
        kinds=partial(layer_types, known={"full_attention": "full", "minimax_m3_sparse": "sparse"}),
        routing=Routing(
            experts=("num_local_experts",), hidden=("intermediate_size",), shared_count=("n_shared_experts", 1),
            shared_width=("shared_intermediate_size",),
            scored="sigmoid", layers=expert_layers,
        ),
        predicts=("num_mtp_modules", "num_nextn_predict_layers"),
    ),
    "hy_v3": Decoder(
        qk_norm="head",
        routing=Routing(
            experts=("num_experts",), shared_count=("num_shared_experts", 0), shared_bias=("mlp_bias", False),
            scored="sigmoid", layers=after_first(1),
        ),
        predicts=("num_nextn_predict_layers",), predicted="full",
    ),
    "mellum": _MELLUM,
    "flint": Decoder(
        qk_norm="head", mlp_bias=False, sinks=True, kinds=listed(), rotates=in_windows, window=("sliding_window", 513),
        routing=replace(ONE_SHARED, scored="sigmoid", layers=expert_layers),
    ),
    "kolibri1": Decoder(
        bias=False, order="around", norms=_KOLIBRI, qk_norm="head", mlp_bias=False, kinds=listed(),
        rotates=decoder.in_windows_if_any, window=("sliding_window", 513), hidden=("moe_intermediate_size",),
        routing=replace(ONE_SHARED, names=("gate", "experts", "shared_experts"), scored="sigmoid"),
    ),
    "aria_text": Decoder(
        routing=Routing(
            shared_bias=("mlp_bias", False),
            experts=("moe_num_experts",), top_k=("moe_topk",), hidden=("moe_intermediate_size", "intermediate_size"),
            shared_count=("moe_num_shared_experts", 2), names=("router", "experts", "shared_experts"),
        ),
    ),
    "laguna": replace(
        _MELLUM, attend=_laguna,
        routing=replace(
            _MELLUM.routing or Routing(), scored="sigmoid", score_bias="gate.e_score_correction_bias",
            layers=after_first(1),
        ),
    ),
    "smallthinker": Decoder(
        bias=False, mlp_bias=False, act_fields=(), act="relu", kinds=_by_layout, tied=True,
        rotates=lambda fields, kinds: [bool(n) for n in fields.listed("rope_layout", len(kinds)) or [1] * len(kinds)],
        window=("sliding_window_size", 4096),
        routing=Routing(
            module="block_sparse_moe", experts=("moe_num_primary_experts",), top_k=("moe_num_active_primary_experts",),
            hidden=("moe_ffn_hidden_size",), shared_count=0, scored="sigmoid", names=("primary_router", "experts", ""),
        ),
    ),
    "afmoe": Decoder(
        order="around",
        norms=("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"),
        qk_norm="head", mlp_bias=False, kinds=listed(4, "global_attn_every_n_layers"), rotates=in_windows,
        window=("sliding_window", 1024), attend=lambda *asked: {"gate": "full"},
        routing=Routing(
            experts=("num_experts",), shared_count=("num_shared_experts", 2), scored="sigmoid",
            score_bias="expert_bias", names=("router.gate", "experts", "shared_experts"),
            layers=after_first(1, "num_dense_layers"),
        ),
    ),
    "beam": Decoder(
        order="around", norms=AROUND, qk_norm="head", mlp_bias=False, kinds=_beam_kinds, rotates=in_windows,
        window=("sliding_window", 512), attend=lambda *asked: {"gate": "full", "gate_bias": True},
        routing=replace(_GLM_ROUTING, experts=("num_experts",), shared_count=0, layers=after_first(3)),
    ),
    "cohere2_moe": Decoder(
        norm=lambda fields: ("rms_norm" if "rms_norm_eps" in fields else "layer_norm", False), order="beside",
        norms=("input_layernorm",), mlp_bias=False, kinds=_cohere_kinds, rotates=_cohere_rotates,
        window=("sliding_window", 4096), hidden=("prefix_dense_intermediate_size",),
        routing=Routing(
            experts=("num_experts",), hidden=("intermediate_size",), shared_count=("num_shared_experts", 0),
            scored=("expert_selection_fn", "softmax"), layers=after_first(0),
        ),
        tied=True,
    ),
})  # fmt: skip

# Muse: norms around both blocks, gates of attention; the open Spark has experts in a latent space and gated sums


def _every_fourth_from_the_end(fields: Fields, layers: int) -> list[str]:
    return layer_types(fields, layers, usual=lambda number: "sliding" if (layers - 1 - number) % 4 else "full")


def _muse_rotates(fields: Fields, kinds: Any) -> list[bool]:
    if "layer_rope_theta" in fields:
        return decoder.by_list(fields, kinds)
    return [kind == "sliding" for kind in _every_fourth_from_the_end(fields.with_values(layer_types=None), len(kinds))]


_MUSE = Decoder(
    order="around", norms=AROUND, qk_norm="plain", mlp_bias=False, kinds=_every_fourth_from_the_end,
    rotates=_muse_rotates, window=("sliding_window", 2048), attend=lambda *asked: {"gate": "full"},
    act_fields=("hidden_activation",),
    ends=lambda fields, shape: {
        "before": (Norm("embed_tokens.embed_norm", shape.width, restarts=True, scaled=False),)
    },
)  # fmt: skip


def _spark(model: Model, fields: Fields) -> Model:
    """Muse Spark: experts between two projections, a norm of what each returns, gates on both of what is added."""
    latent = fields.size("moe_hidden_size", default=4096)
    names = "pre_expert_proj", "post_expert_proj"

    def changed(block: Block) -> Block:
        if isinstance(block, MixtureOfExperts):
            return replace(
                block, latent=latent, latent_names=names, latent_norms=("pre_expert_norm", ""),
                expert_norm="experts.post_expert_norm",
            )  # fmt: skip
        if isinstance(block, ResidualAdd):
            return replace(block, gated=model.width)
        if isinstance(block, Norm) and block.name == "post_attention_layernorm":
            return replace(block, scaled=False)
        return block

    return model.with_blocks(changed)


add({
    "muse_glimmer_text": _MUSE,
    "muse_spark_text": replace(
        _MUSE, out_norm="plain", act_fields=("hidden_act",), finish=_spark,
        routing=Routing(experts=("num_local_experts",), shared_count=0, scored="sigmoid", layers=expert_layers),
    ),
})  # fmt: skip
