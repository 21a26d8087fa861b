"""Parts that readers of several families share: sizes, layer types, layers with experts, prediction layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roofline.errors import InputError, quoted, suggest
from roofline.models.blocks.feed_forward import ACTIVATIONS
from roofline.models.blocks.residual import IdleBlocks, Linear, Norm, PositionEmbedding
from roofline.models.description import Block, Layer, Model
from roofline.models.fields import Fields, divide_evenly

#: Formats of a recurrent state by the names configurations give them.
STATE_FORMATS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
#: Our words for kinds of attention, by the names in ``layer_types``.
FULL_OR_SLIDING = {"full_attention": "full", "sliding_attention": "sliding"}
FULL_OR_LINEAR = {"full_attention": "full", "linear_attention": "linear"}
#: Types whose experts are in eight groups, of which a token takes four, where nothing is said.
_GROUPED = ("deepseek_v3", "deepseek_v32", "axk1", "bailing_hybrid")


class DecoderSizes:
    """The sizes nearly every configuration has: width, layers, vocabulary, heads and their width."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.width = fields.size("hidden_size", "n_embd", "d_model")
        self.layers = fields.layers("num_hidden_layers", "n_layer", "n_layers", "num_layers", default=_listed(fields))
        self.vocabulary = fields.size("vocab_size")
        self.heads = fields.size("num_attention_heads", "n_head", "n_heads", "num_heads")
        self.kv_heads = fields.size("num_key_value_heads", default=self.heads)
        text = "a width of {total} does not divide into {parts} heads"
        self.head = fields.size("head_dim", "attention_head_dim", default=0) or divide_evenly(
            fields, self.width, self.heads, text
        )
        divide_evenly(fields, self.heads, self.kv_heads, "{total} query heads do not share {parts} key heads evenly")
        self.rotary = _rotary(fields, self.head)
        self.context = fields.optional("max_position_embeddings") or fields.optional("n_positions")


def _listed(fields: Fields) -> int | None:
    kinds = fields.get("layers_block_type") or fields.get("layer_types")
    return len(kinds) if isinstance(kinds, list) and kinds else None


def _rotary(fields: Fields, head: int) -> int:
    """How much of a head is rotated."""
    parameters = fields.section("rope_parameters") or fields.section("rope_scaling")
    share = fields.fraction("partial_rotary_factor") or (
        parameters.fraction("partial_rotary_factor") if parameters else None
    )
    if fields.get("rotary_dim") is not None:
        return fields.size("rotary_dim")
    return head if share is None else int(head * share)


def activation(fields: Fields, *names: str, default: str = "silu") -> str:
    """The activation's name, checked."""
    for name in names:
        if name in fields:
            return fields.choice(name, ACTIVATIONS)
    return default


def by_layer(fields: Fields, layers: int, names: Mapping[str, str]) -> list[Fields]:
    """The fields of each layer: ``per_layer_config`` of transformers 5 gives some layers values of their own.

    ``names`` are the fields it may give, and what they are called in the rest of the configuration.

    >>> fields = Fields({"head_dim": 256, "per_layer_config": {"01": {"head_dim": 512}}}, "a model")
    >>> [each.get("global_head_dim") for each in by_layer(fields, 2, {"head_dim": "global_head_dim"})]
    [None, 512]
    """
    given = fields.get("per_layer_config")
    if not given:
        return [fields] * layers
    if not isinstance(given, Mapping) or not all(isinstance(own, Mapping) for own in given.values()):
        wrong = f"per_layer_config of {fields.name} is {quoted(given)}"
        raise InputError(wrong, hint="fields by the number of a layer")
    own = {int(number): values for number, values in given.items() if str(number).isdigit()}
    other = {name for values in own.values() for name in values} - {*names}
    if other or len(own) < len(given):
        wrong = f"per_layer_config of {fields.name} has {', '.join(sorted(other)) or 'keys that are no numbers'}"
        raise InputError(wrong, hint=f"numbers of layers, with {' and '.join(names)}")
    found = [{names[name]: value for name, value in own.get(number, {}).items()} for number in range(layers)]
    return [fields.with_values(**values) for values in found]


def own_keys(fields: Fields) -> Fields:
    """Refuse layers that read keys and values of the layer before (``use_cla`` of Hunyuan's own code)."""
    if fields.get("use_cla"):
        raise InputError(f"{fields.name} shares keys between layers (use_cla)", hint="that is not read")
    return fields


#: Fields of layers of a kind, by our word for it: they say nothing of a model that lists its layers and has none of it.
_OF_KIND = {
    "full": ("global_head_dim", "num_global_key_value_heads", "attention_k_eq_v"),
    "sliding": ("sliding_window",),
    "chunked": ("attention_chunk_size",),
    "linear": (
        "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
        "linear_conv_kernel_dim",
    ),
    "recurrent": (
        "mamba_n_heads", "mamba_n_groups", "mamba_d_head", "mamba_d_state", "mamba_d_conv", "mamba_expand",
        "mamba_dt_rank", "conv_L_cache",
    ),
}  # fmt: skip


def layer_types(
    fields: Fields, layers: int, known: Mapping[str, str] = FULL_OR_SLIDING,
    usual: Callable[[int], str] = lambda number: "full",
) -> list[str]:  # fmt: skip
    """Kinds of attention by layer, in our words (full, sliding, linear …); ``usual`` by number where nothing is said.

    >>> layer_types(Fields({}, "a model"), 4, usual=lambda number: "sliding" if (number + 1) % 4 else "full")
    ['sliding', 'sliding', 'sliding', 'full']
    """
    listed = fields.listed("layer_types", layers)
    if listed is None:
        return list(map(usual, range(layers)))
    unknown = [kind for kind in listed if kind not in known]
    if unknown:
        raise fields.not_understood(f"layer type {unknown[0]!r}", suggest(str(unknown[0]), known, what="known here"))
    kinds = [known[kind] for kind in listed[:layers]]
    fields.ignore(*(name for kind, names in _OF_KIND.items() if kind not in kinds for name in names))
    return kinds


def expert_layers(fields: Fields, layers: int) -> list[bool]:
    """Which layers have routed experts, from whichever of the usual fields says so."""
    kinds = fields.listed("mlp_layer_types", layers)
    frequency = fields.get("moe_layer_freq")
    dense_first = fields.count("first_k_dense_replace")
    step = fields.size("decoder_sparse_step", default=1)
    dense = set(fields.listed("mlp_only_layers") or [])
    if kinds is not None:
        return [kind not in ("dense",) for kind in kinds[:layers]]
    if isinstance(frequency, list):
        return [bool(flag) for flag in (fields.listed("moe_layer_freq", layers) or [])[:layers]]
    every = fields.size("moe_layer_freq", default=1)
    return [i >= dense_first and i % every == 0 and (i + 1) % step == 0 and i not in dense for i in range(layers)]


def experts_per_token(fields: Fields, experts: int, *names: str) -> int:
    """Experts a token is sent to, no more than there are."""
    count = fields.size(*names)
    if count > experts:
        raise InputError(f"{fields.name} sends a token to {count} of {experts} experts", hint="check the configuration")
    return count


def group_limit(fields: Fields, experts: int) -> tuple[int, int]:
    """How many groups a token's experts may be of, and how many there are (DeepSeek's routing); else one of one."""
    unlimited = fields.get("topk_method", "greedy" if fields.kind == "deepseek_v2" else "") == "greedy"
    if unlimited or not fields.flag("use_grouped_topk", True):
        return 1, 1
    usual = (8, 4) if fields.kind in _GROUPED and experts % 8 == 0 else (1, 1)
    groups = fields.size("n_group", "num_expert_group", default=usual[0])
    taken = fields.size("topk_group", default=usual[1])
    each = fields.size("num_experts_per_tok")
    if experts % groups or taken > groups or taken * experts // groups < each:
        raise InputError(
            f"{fields.name} routes tokens to {each} experts of {taken} of {groups} groups of its {experts}",
            hint="n_group divides n_routed_experts, and topk_group is at most n_group and has experts enough",
        )
    return taken, groups


def prediction(width: int, layers: Sequence[Layer]) -> dict[str, Any]:
    """Layers that predict further tokens in their usual form: each with three norms and a projection 2·width → width.

    Source: DeepSeek-V3, arXiv:2412.19437, section 2.2. Embedding and head are those of the model.
    """
    before = (Norm("enorm", width), Norm("hnorm", width), Linear("eh_proj", 2 * width, width, bias=False))
    return {"extra": tuple(layers), "extra_blocks": (*before, Norm("norm", width)) * len(layers)}


def rows_beyond_the_head(width: int, rows: int) -> tuple[Block, ...]:
    """Rows of the embedding table for words that the head never says: pictures, sounds."""
    return (IdleBlocks("embed_tokens.special", (PositionEmbedding("", rows, width),)),) if rows else ()


def build_model(
    fields: Fields, shape: DecoderSizes, layers: Sequence[Layer], norm: tuple[str, bool] = ("rms_norm", False),
    tied: bool = False, last_norm: str = "norm", **more: Any,
) -> Model:  # fmt: skip
    """Put a model together, with a norm at its end; ``tied`` where the configuration says nothing.

    ``norm`` is the function of the norm, and whether it has a shift.
    """
    usual: dict[str, Any] = {
        "width": shape.width,
        "vocabulary": shape.vocabulary,
        "after": (Norm(last_norm, shape.width, *norm),),
        "tied": fields.flag("tie_word_embeddings", tied) and more.get("head", True),
        "context": shape.context if isinstance(shape.context, int) else None,
    }
    return Model(
        name=fields.name, family=fields.kind, layers=tuple(layers), dtype="", **{**usual, **more},
    )  # fmt: skip
