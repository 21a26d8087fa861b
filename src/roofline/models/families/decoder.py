"""Parts that readers of several families share: sizes, layer types, layers with experts, prediction layers.

Ordinary decoders as rows of a table: norms, attention, MLP, experts and ends of each model type.

A :class:`Decoder` describes a type by its differences from Llama, and :func:`read` makes a model of a configuration of
that type. The rows stand in :mod:`~roofline.models.families.dense`, ``mixtures``, ``hybrids`` and ``deepseek``; each
file adds its rows with :func:`add`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from roofline.errors import InputError, quoted, suggest
from roofline.frozen import dataclass, field, replace
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.feed_forward import ACTIVATIONS, MixtureOfExperts, Mlp
from roofline.models.blocks.recurrent import LightningAttention
from roofline.models.blocks.residual import (
    AttentionResidual,
    IdleBlocks,
    Linear,
    Norm,
    ParallelBranches,
    PositionEmbedding,
    ResidualAdd,
)
from roofline.models.description import Block, Layer, Model
from roofline.models.families import family
from roofline.models.fields import Fields, divide_evenly
from roofline.quantity import in_a_row

#: Formats of a recurrent state by the names configurations give them.
STATE_FORMATS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
#: Our words for kinds of attention, by the names in ``layer_types``.
FULL_OR_SLIDING = {"full_attention": "full", "sliding_attention": "sliding"}
FULL_OR_LINEAR = {"full_attention": "full", "linear_attention": "linear"}
INDEXED_OR_LINEAR = {**FULL_OR_LINEAR, "indexed_attention": "full"}
#: Names of layers in published configurations, by what transformers reads them as.
_READ_AS = {
    "mamba": "linear_attention", "attention": "full_attention", "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}  # fmt: skip
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
    own = {int(number): values for number, values in given.items() if str(number).isdecimal()}
    other = {name for values in own.values() for name in values} - {*names}
    if other or len(own) < len(given):
        wrong = f"per_layer_config of {fields.name} has {', '.join(sorted(other)) or 'keys that are no numbers'}"
        raise InputError(wrong, hint=f"numbers of layers, with {in_a_row(names)}")
    found = [{names[name]: value for name, value in own.get(number, {}).items()} for number in range(layers)]
    return [fields.with_values(**values) for values in found]


def cross_layer(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    """Cross-layer attention (``use_cla`` of Hunyuan): of each ``cla_share_factor`` layers the first alone makes keys.

    Source: Sun et al., Hunyuan-Large, arXiv:2411.02265, section 2.2.
    """
    factor = fields.size("cla_share_factor", default=1) if fields.flag("use_cla", False) else 1
    if factor == 1:
        return {}
    return {"reads_kv_of" if number % factor else "shares_kv_as": "lending"}


def cross_layer_ends(fields: Fields, shape: DecoderSizes) -> dict[str, Any]:
    """Say how keys and values that several layers read are counted."""
    said = "some layers attend to keys and values of the layer before: the floor reads those once"
    return {"notes": (said,)} if cross_layer(fields, shape, "full", 0) else {}


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
        "mamba_dt_rank", "mamba_conv_bias", "mamba_proj_bias", "conv_L_cache", "conv_bias",
    ),
}  # fmt: skip


def layer_types(
    fields: Fields, layers: int, known: Mapping[str, str] = FULL_OR_SLIDING,
    usual: Callable[[int], str] = lambda number: "full",
) -> list[str]:  # fmt: skip
    """Kinds of attention by layer, in our words (full, sliding, linear …); ``usual`` by number where nothing is said.

    >>> layer_types(Fields({}, "a model"), 4, usual=lambda number: "sliding" if (number + 1) % 4 else "full")
    ['sliding', 'sliding', 'sliding', 'full']
    >>> layer_types(Fields({"layer_types": ["mamba", "attention"]}, "a model"), 2, FULL_OR_LINEAR)
    ['linear', 'full']
    """
    listed = fields.listed("layer_types", layers)
    if listed is None:
        return list(map(usual, range(layers)))
    listed = [kind if kind in known else _READ_AS.get(kind, kind) for kind in listed]
    unknown = [kind for kind in listed if kind not in known]
    if unknown:
        hint = suggest(str(unknown[0]), known, what="known here")
        raise fields.not_understood(f"layer type {quoted(unknown[0])}", hint)
    kinds = [known[kind] for kind in listed[:layers]]
    fields.ignore(*(name for kind, names in _OF_KIND.items() if kind not in kinds for name in names))
    return kinds


def in_groups(fields: Fields, layers: int) -> list[str]:
    """Kinds of Ling's layers as listed, else linear attention but in the last of each group and in what no group has.

    >>> in_groups(Fields({"layer_group_size": 3}, "a model"), 5)
    ['linear', 'linear', 'full', 'full', 'full']
    """
    every = fields.size("layer_group_size", default=6)
    grouped = layers // every * every
    linear = [number < grouped and (number + 1) % every > 0 for number in range(layers)]
    return layer_types(fields, layers, FULL_OR_LINEAR, lambda number: "linear" if linear[number] else "full")


def lightning_of_ling(name: str, fields: Fields, width: int, heads: int, head: int) -> LightningAttention:
    """The linear attention of Ling 2.5 and Ring-linear; its groups of heads are normalised apart."""
    biased = fields.flag("use_bias", False)
    return LightningAttention(
        name, width, heads, head, "silu" if fields.flag("linear_silu", False) else "",
        groups=fields.size("group_norm_size", default=1), qk_norm=fields.flag("use_qk_norm", False),
        rotary=_rotary(fields, head) if fields.flag("linear_rope", True) else 0,
        bias=biased or fields.flag("use_qkv_bias", False), out_bias=biased,
        names=("query_key_value", "g_norm", "g_proj", "dense"),
    )  # fmt: skip


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


def with_block_residuals(model: Model, size: int, names: tuple[str, str, str], first: bool = True) -> Model:
    """Before each norm the states of earlier blocks of ``size`` layers are mixed in (Kimi K3); at the end too.

    ``names`` are those of the mixture before attention, before the MLP and at the end; ``first``: the first layer's
    attention has one.
    """
    named = dict(zip(USUAL_NORMS, names, strict=False))

    def changed(layer: Layer, number: int) -> Layer:
        blocks: list[Block] = []
        for each in layer.blocks:
            if each.name in named and (first or number or each.name != USUAL_NORMS[0]):
                blocks.append(AttentionResidual(named[each.name], model.width, number // size + 2))
            blocks.append(each)
        return Layer(tuple(blocks))

    layers = tuple(changed(layer, number) for number, layer in enumerate(model.layers))
    last = AttentionResidual(names[2], model.width, -(-len(layers) // size) + 1)
    return replace(model, layers=layers, after=(last, *model.after))


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


#: A switch: fixed, a field of the configuration with its default, or any of several.
Flag = bool | tuple[str, Any] | list[Any]

#: Which of a model's layers see what (full, sliding, linear …), by the configuration and the number of layers.
Kinds = Callable[[Fields, int], list[str]]

#: Where norms stand, and their names.
Arrangement = tuple[str, tuple[str, ...]]
USUAL_NORMS = ("input_layernorm", "post_attention_layernorm")
AROUND = (*USUAL_NORMS, "pre_feedforward_layernorm", "post_feedforward_layernorm")


def flag(fields: Fields, spec: Flag) -> bool:
    """The value of a switch; a default may be a switch itself."""
    if isinstance(spec, bool):
        return spec
    if isinstance(spec, list):
        found = [flag(fields, each) for each in spec]
        return any(found)
    name, default = spec
    return fields.flag(name, flag(fields, default))


def all_full(fields: Fields, layers: int) -> list[str]:
    """Every layer sees everything."""
    return ["full"] * layers


def all_sliding(fields: Fields, layers: int) -> list[str]:
    """Every layer sees a window, where the configuration gives its width."""
    return ["sliding"] * layers


def listed(every: int = 0, *names: str, last: bool = True) -> Kinds:
    """Kinds as listed, else windows in all but each n-th layer: by the first of the fields ``names``, or ``every``.

    The last of n layers sees everything, or the first where ``last`` is false; no windows where n is 0.
    """

    def kinds(fields: Fields, layers: int) -> list[str]:
        found = layer_types(fields, layers)
        fields.ignore(*names)  # beside a list, they say how it was made
        if "layer_types" in fields:
            return found
        n = fields.size(*names, default=every) if names else every
        place = 1 if last else 0
        return ["sliding" if n and (number + place) % n else "full" for number in range(layers)]

    return kinds


def patterned(fields: Fields, layers: int) -> list[str]:
    """Kinds as listed, else by ``sliding_window_pattern``: each n-th layer sees everything, or letters such as LLLG."""
    kinds = layer_types(fields, layers)
    if "layer_types" in fields or not fields.optional("sliding_window"):
        return kinds
    pattern = fields.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        return ["full" if pattern[number % len(pattern)] == "G" else "sliding" for number in range(layers)]
    every = fields.size("sliding_window_pattern", default=4)
    return ["sliding" if (number + 1) % every else "full" for number in range(layers)]


def switched(on: bool = False, full: Callable[[Fields, int], bool] = lambda fields, number: False) -> Kinds:
    """Kinds as listed, else windows in all layers but ``full`` ones, if ``use_sliding_window`` (by default ``on``)."""

    def kinds(fields: Fields, layers: int) -> list[str]:
        fields.ignore("sliding_window", "max_window_layers")
        switch = fields.flag("use_sliding_window", on)
        if "layer_types" in fields:
            return layer_types(fields, layers)
        if not switch or fields.get("sliding_window") is None:
            return ["full"] * layers
        return ["full" if full(fields, number) else "sliding" for number in range(layers)]

    return kinds


def to_each_side(fields: Fields) -> Fields:
    """A window is as wide to each side of a token."""
    return fields.with_values(sliding_window=2 * fields.size("sliding_window", default=128))


def everywhere(fields: Fields, kinds: Sequence[str]) -> list[bool]:
    """Every layer rotates."""
    return [True] * len(kinds)


def by_list(fields: Fields, kinds: Sequence[str]) -> list[bool]:
    """All layers rotate, except where ``layer_rope_theta`` or ``no_rope_layers`` is 0 (SmolLM3, Granite)."""
    thetas = fields.listed("layer_rope_theta", len(kinds))
    if thetas is not None:
        return [bool(theta) for theta in thetas[: len(kinds)]]
    fields.ignore("no_rope_layer_interval")
    flags = fields.listed("no_rope_layers", len(kinds))
    return [True] * len(kinds) if flags is None else [bool(each) for each in flags[: len(kinds)]]


def in_windows(fields: Fields, kinds: Sequence[str]) -> list[bool]:
    """Layers that see a window rotate, those that see everything do not."""
    return [kind == "sliding" for kind in kinds]


def in_windows_if_any(fields: Fields, kinds: Sequence[str]) -> list[bool]:
    """Layers that see everything do not rotate where the configuration gives a window."""
    window = fields.optional("sliding_window")
    return [not window or kind == "sliding" for kind in kinds]


def rotary_part(parts: int) -> Callable[[Fields, DecoderSizes], int]:
    """One of so many parts of each head is rotated where the configuration says nothing."""

    def rotary(fields: Fields, shape: DecoderSizes) -> int:
        names = "partial_rotary_factor", "rope_parameters", "rotary_dim"
        return shape.rotary if any(fields.get(name) is not None for name in names) else shape.head // parts

    return rotary


def rotary_by_kind(fields: Fields, shape: DecoderSizes, kind: str, number: int) -> dict[str, Any]:
    """How much of a head layers of a kind rotate, where ``rope_parameters`` says it by kind."""
    parameters = fields.section("rope_parameters")
    of = parameters.section(f"{kind}_attention") if parameters else None
    share = of.fraction("partial_rotary_factor") if of else None
    return {} if share is None else {"rotary": int(shape.head * share)}


def arranged(
    name: str, default: bool, on: Arrangement, off: Arrangement = ("before", USUAL_NORMS)
) -> Callable[[Fields], Arrangement]:
    """Norms as in ``on`` where the field ``name`` is true, else as in ``off``."""
    return lambda fields: on if fields.flag(name, default) else off


def every_layer(fields: Fields, layers: int) -> list[bool]:
    """Every layer has experts."""
    return [True] * layers


def after_first(first: int, name: str = "") -> Callable[[Fields, int], list[bool]]:
    """Layers with experts as the usual fields say, else all but the first: as many as the field ``name`` says."""

    def sparse(fields: Fields, layers: int) -> list[bool]:
        if "mlp_layer_types" in fields or (not name and "first_k_dense_replace" in fields):
            return expert_layers(fields, layers)
        dense = fields.count(name) if name and name in fields else first
        return [number >= dense for number in range(layers)]

    return sparse


#: Names of DeepSeek's fields under which others publish them.
EXPERT_NAMES = {
    "num_experts": "n_routed_experts",
    "num_shared_experts": "n_shared_experts",
    "num_mtp_layers": "num_nextn_predict_layers",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Routing:
    """The experts of a type: fields of the configuration, and facts that stand in no field.

    Attributes
        ``module``        name of the module; ``names``: of its router, its experts and its shared experts
        ``experts``       fields of the number of experts; ``top_k``: of the experts of a token
        ``hidden``        fields of an expert's width
        ``shared_count``  how many shared experts there are: a number, or a field and its default
        ``shared_width``  fields of a shared expert's width; none: as wide as a routed one
        ``shared_gate``   whether a gate scales what shared experts give; ``shared_bias``: whether they have biases
        ``scored``        the router's function; or a field and its default
        ``limited``       whether a token's experts are of few groups (``n_group``, ``topk_group``)
        ``score_bias``    name of a trained vector that is added to the scores
        ``added``         name of a trained vector that is added to what the experts give
        ``router_bias``   whether the router has a bias; ``expert_bias``: whether the experts have biases
        ``idle``          fields of the number of further experts that return their input, and are chosen like others
        ``layers``        which layers have experts; ``when``: whether any do
    """

    module: str = "mlp"
    experts: tuple[str, ...] = ("n_routed_experts",)
    top_k: tuple[str, ...] = ("num_experts_per_tok",)
    hidden: tuple[str, ...] = ("moe_intermediate_size",)
    shared_count: int | tuple[str, int] = ("n_shared_experts", 0)
    shared_width: tuple[str, ...] = ()
    shared_gate: bool = False
    shared_bias: Flag = False
    scored: str | tuple[str, str] = "softmax"
    limited: bool = False
    score_bias: str = ""
    added: str = ""
    router_bias: bool = False
    expert_bias: bool = False
    idle: tuple[str, ...] = ()
    names: tuple[str, str, str] = ("gate", "experts", "shared_experts")
    layers: Callable[[Fields, int], list[bool]] = every_layer
    when: Callable[[Fields], bool] = lambda fields: True

    def read(self, fields: Fields, width: int, act: str) -> MixtureOfExperts | None:
        """The experts of a configuration, where it has any; else what it says of them changes nothing."""
        if self.when(fields):
            return self.block(fields, width, act)
        fields.ignore(*self.experts, *self.top_k, *self.hidden, *self.shared_width)
        return None

    def block(self, fields: Fields, width: int, act: str) -> MixtureOfExperts:
        """The experts of a configuration."""
        count, hidden = fields.size(*self.experts), fields.size(*self.hidden)
        shared = fields.count(*self.shared_width) if self.shared_width else hidden
        if isinstance(self.shared_count, int):
            shared *= self.shared_count
        else:
            name, default = self.shared_count
            shared *= fields.count(name) if name in fields else default
        scored = self.scored if isinstance(self.scored, str) else str(fields.get(*self.scored))
        limit = group_limit(fields, count) if self.limited else (1, 1)
        idle = fields.count(*self.idle) if self.idle else 0
        chosen, rest = divmod(experts_per_token(fields, count + idle, *self.top_k) * count, count + idle)
        if rest:
            hint = f"{count} experts compute and {idle} do not: experts a token × {count} ÷ {count + idle} is whole"
            raise InputError(f"{fields.name} sends a token to a fraction of an expert on average", hint=hint)
        beside = Mlp("shared", width, shared, activation=act, bias=flag(fields, self.shared_bias))
        return MixtureOfExperts(
            self.module, width, hidden, count, chosen, activation=act,
            shared=beside if shared else None, shared_gate=self.shared_gate,
            scoring=scored, group_limit=limit,
            router_scales=((self.score_bias, count + idle),) if self.score_bias else (), router_bias=self.router_bias,
            expert_bias=self.expert_bias, idle=idle, added=self.added, names=self.names,
        )  # fmt: skip


#: Experts beside one that every token uses, as wide as a field of its own says.
ONE_SHARED = Routing(
    experts=("num_experts", "num_local_experts"), shared_width=("shared_expert_intermediate_size",), shared_count=1,
    names=("gate", "experts", "shared_expert"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decoder:
    """How a type of model differs from Llama; every field's default is Llama's.

    Attributes
        ``prepare``      checks a configuration and gives its fields the usual names; ``renames`` does only the second
        ``norm``         the norms' function, and whether they shift; ``scaled``: whether they have a scale
        ``order``        where norms stand: ``before`` each block, ``after`` it, ``around`` it, ``behind`` each sum
                         (BERT), or before blocks that run ``beside`` each other; ``norms`` are their names
        ``arrange``      order and names where the configuration decides
        ``attention``    name of its module; ``projections``: names of its matrices
        ``bias``         whether queries, keys and values have biases; ``out_bias``: the output, None: as these
        ``kv_heads``     number of heads of keys, where it is not in ``num_key_value_heads``
        ``causal``       whether a token sees only those up to itself; ``cached``: whether later tokens see its keys;
                         ``sinks``: whether each head has a trained sink
        ``out_norm``     how what attention gives is normalised before its output matrix: ``full``, ``plain``
        ``qk_norm``      norm of queries and keys (see :class:`~roofline.models.blocks.attention.Attention`) where
                         ``qk_switch`` is on; ``qk_function`` and ``qk_shift`` say which
        ``rotary``       how much of a head is rotated, ``rotates`` in which layers
        ``kinds``        what each layer sees
        ``window``       the field of the window's width and its default: None where layers see everything without it,
                         ``"needed"`` where it must be there
        ``attend``       further fields of attention, by kind and number of the layer
        ``mixer``        replaces attention, by kind and number of the layer
        ``mlp``          name of the MLP's module, ``mlp_names`` of its matrices; ``gated``, ``mlp_norm`` as in
                         :class:`~roofline.models.blocks.feed_forward.Mlp`
        ``mlp_bias``     whether its matrices have biases; ``down_bias``: whether the last alone has one
        ``hidden``       fields of its width, by default ``hidden_times`` the model's
        ``act_fields``   fields of the activation, ``act`` where there is none
        ``routing``      its experts
        ``predicts``     fields that count layers which predict further tokens; ``predicted``: they are like the last
                         layer, or of that kind, with experts where there are any and it is not ``dense`` as well
        ``first_norm``   whether the first layer's first norm is there
        ``tied``         whether embedding and head share a table where the configuration says nothing
        ``last_norm``    name of the norm before the head; ``embedding``, ``head``: names of their tables;
                         ``head_bias``: whether the head has a bias; ``prefix``: start of module paths
        ``shares``       modules of each layer whose weights other layers use too, each with the name of these weights
        ``ends``         further fields of the :class:`~roofline.models.description.Model`
        ``finish``       changes the model that was read
    """

    prepare: Callable[[Fields], Fields] = lambda fields: fields
    renames: Mapping[str, str] = field(default_factory=dict)
    norm: tuple[str, Flag] | Callable[[Fields], tuple[str, Flag]] = ("rms_norm", False)
    scaled: Flag = True
    order: str = "before"
    norms: tuple[str, ...] = USUAL_NORMS
    arrange: Callable[[Fields], Arrangement] | None = None
    attention: str = "self_attn"
    projections: tuple[str, str, str, str] = ("q_proj", "k_proj", "v_proj", "o_proj")
    bias: Flag = ("attention_bias", False)
    out_bias: Flag | None = None
    kv_heads: Callable[[Fields, DecoderSizes], int] = lambda fields, shape: shape.kv_heads
    causal: bool = True
    cached: bool = True
    sinks: bool = False
    out_norm: str | None = None
    qk_norm: str | None = None
    qk_switch: Flag = True
    qk_function: str = "rms_norm"
    qk_shift: bool = False
    rotary: Callable[[Fields, DecoderSizes], int] = lambda fields, shape: shape.rotary
    rotates: Callable[[Fields, Sequence[str]], list[bool]] = everywhere
    kinds: Kinds = all_full
    window: tuple[str, int | str | None] = ("sliding_window", None)
    attend: Callable[[Fields, DecoderSizes, str, int], dict[str, Any]] | None = None
    mixer: Callable[[Fields, DecoderSizes, str, int, Attention], Block] | None = None
    mlp: str = "mlp"
    mlp_names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    mlp_bias: Flag = ("mlp_bias", False)
    down_bias: bool = False
    mlp_norm: str = ""
    gated: bool = True
    hidden: tuple[str, ...] = ("intermediate_size",)
    hidden_times: int | None = None
    act_fields: tuple[str, ...] = ("hidden_act",)
    act: str = "silu"
    routing: Routing | None = None
    predicts: tuple[str, ...] = ()
    predicted: str = "last"
    first_norm: bool = True
    tied: bool = False
    last_norm: str = "norm"
    prefix: str = "model."
    embedding: str = "embed_tokens"
    head: str = "lm_head"
    head_bias: Flag = False
    shares: Callable[[Fields, int], list[tuple[tuple[str, str], ...]]] | None = None
    ends: Callable[[Fields, DecoderSizes], dict[str, Any]] = lambda fields, shape: {}
    finish: Callable[[Model, Fields], Model] = lambda model, fields: model


def add(rows: Mapping[str, Decoder]) -> None:
    """Let the types of some rows be read by them; several types of one row are separated by spaces."""
    for types, row in rows.items():
        family(*types.split())(partial(read, row))


def read(row: Decoder, fields: Fields) -> Model:
    """Read a configuration of a row's type."""
    fields = row.prepare(fields)
    fields = fields.renamed(**row.renames) if row.renames else fields
    # no MLP is read where every layer has experts
    fields.ignore(*row.hidden)
    shape = DecoderSizes(fields)
    layers = _Layers(row, fields, shape)
    more: dict[str, Any] = {}
    made = layers.all()
    if row.predicts:
        kind, _, dense = row.predicted.partition(" ")
        extra = made[-1] if kind == "last" else layers.layer(kind, row.routing is not None and not dense, -1)
        more = prediction(shape.width, [extra] * fields.layers(*row.predicts, default=0))
    if not layers.scaled:
        more["after"] = (layers.norm(row.last_norm),)
    if not (row.causal and row.cached):
        more |= {"causal": False, "head": False}
    model = build_model(
        fields, shape, made, layers.function, row.tied, row.last_norm,
        **{
            "prefix": row.prefix, "embedding_name": row.embedding, "head_name": row.head,
            "head_bias": flag(fields, row.head_bias), **more, **row.ends(fields, shape),
        },
    )  # fmt: skip
    return row.finish(model, fields)


class _Layers:
    """The layers of a configuration; equal ones are one object."""

    def __init__(self, row: Decoder, fields: Fields, shape: DecoderSizes) -> None:
        self.row, self.fields, self.shape = row, fields, shape
        self.act = activation(fields, *row.act_fields, default=row.act)
        function, shift = row.norm(fields) if callable(row.norm) else row.norm
        self.function, self.scaled = (function, flag(fields, shift)), flag(fields, row.scaled)
        self.order, self.names = row.arrange(fields) if row.arrange else (row.order, row.norms)
        bias = flag(fields, row.bias)
        self.attention: dict[str, Any] = {
            "heads": shape.heads,
            "kv_heads": row.kv_heads(fields, shape),
            "key": shape.head,
            "value": shape.head,
            "bias": bias,
            "out_bias": bias if row.out_bias is None else flag(fields, row.out_bias),
            "norm": row.qk_norm if row.qk_norm and flag(fields, row.qk_switch) else None,
            "norm_function": row.qk_function,
            "norm_shift": row.qk_shift,
            "rotary": row.rotary(fields, shape),
            "sinks": row.sinks,
            "out_norm": row.out_norm,
            "causal": row.causal,
            "cached": row.cached,
            "names": row.projections,
        }
        self.experts = row.routing.read(fields, shape.width, self.act) if row.routing else None
        self._dense: Mlp | None = None
        self._made: dict[Any, Layer] = {}

    def all(self) -> list[Layer]:
        """Every layer, in order."""
        row, fields, count = self.row, self.fields, self.shape.layers
        kinds = row.kinds(fields, count)
        if row.kinds is not all_full:
            fields.ignore(row.window[0])  # a window that no layer has changes nothing
        turned = row.rotates(fields, kinds)
        sparse = row.routing.layers(fields, count) if row.routing else [False] * count
        shared = row.shares(fields, count) if row.shares else [()] * count
        return [
            self.layer(kind, routes, number, rotates, of)
            for number, (kind, routes, rotates, of) in enumerate(zip(kinds, sparse, turned, shared, strict=True))
        ]

    def layer(
        self, kind: str, sparse: bool, number: int, rotates: bool = True, shared: tuple[tuple[str, str], ...] = ()
    ) -> Layer:
        """One layer of a kind; ``number`` is -1 for a layer that predicts further tokens."""
        row, fields, shape = self.row, self.fields, self.shape
        asked = {**self.attention, **({} if rotates else {"rotary": 0})}
        if kind == "sliding":
            name, usual = row.window
            asked["window"] = fields.optional(name) if usual is None else fields.size(
                name, default=None if isinstance(usual, str) else usual
            )  # fmt: skip
        if row.attend is not None:
            asked |= row.attend(fields, shape, kind, number)
        attention = Attention(row.attention, shape.width, **asked)
        mixer = attention if row.mixer is None else row.mixer(fields, shape, kind, number, attention)
        sparse, first = sparse and self.experts is not None, number == 0 and not row.first_norm
        key = mixer, sparse, first, shared
        if key not in self._made:
            feed = self.experts if sparse and self.experts else self.dense()
            blocks = ORDERS[self.order](self.norm, self.names, mixer, feed)
            self._made[key] = Layer(blocks[1:] if first else blocks, shared=shared)
        return self._made[key]

    def norm(self, name: str, restarts: bool = False) -> Norm:
        """A norm of the type's kind."""
        return Norm(name, self.shape.width, *self.function, restarts, self.scaled)

    def dense(self) -> Mlp:
        """The MLP of layers without experts."""
        if self._dense is None:
            row, width = self.row, self.shape.width
            usual = None if row.hidden_times is None else row.hidden_times * width
            hidden = self.fields.size(*row.hidden, default=usual) if row.hidden else usual or width
            bias = flag(self.fields, row.mlp_bias)
            more = {"down_bias": row.down_bias}
            self._dense = Mlp(row.mlp, width, hidden, row.gated, self.act, bias, row.mlp_names, row.mlp_norm, **more)
        return self._dense


MakeNorm = Callable[..., Norm]
Order = Callable[[MakeNorm, Sequence[str], Block, Block], tuple[Block, ...]]
_ADD = ResidualAdd("add_attention"), ResidualAdd("add_feed_forward")


def _in_turn(*places: int | str, restarts: bool = False) -> Order:
    """Both blocks, a sum behind each (``+``), and norms by their numbers, one after the other."""

    def blocks(norm: MakeNorm, names: Sequence[str], mixer: Block, feed: Block) -> tuple[Block, ...]:
        made = {"mixer": mixer, "mixer+": _ADD[0], "feed": feed, "feed+": _ADD[1]}
        return tuple(made[at] if isinstance(at, str) else norm(names[at], restarts=restarts) for at in places)

    return blocks


_before = _in_turn(0, "mixer", "mixer+", 1, "feed", "feed+")
_after = _in_turn("mixer", 0, "mixer+", "feed", 1, "feed+")


def _beside(norm: MakeNorm, names: Sequence[str], mixer: Block, feed: Block) -> tuple[Block, ...]:
    """Attention and MLP from the same hidden state, behind one norm or behind one each."""
    if len(names) == 1:
        return norm(names[0]), ParallelBranches("", ((mixer,), (feed,)), inside=True), ResidualAdd("add")
    return ParallelBranches("", ((norm(names[0]), mixer), (norm(names[1]), feed))), ResidualAdd("add")


def _experts_normed(norm: MakeNorm, names: Sequence[str], mixer: Block, feed: Block) -> tuple[Block, ...]:
    """Norms before each block, and one behind the experts (A.X K1)."""
    *blocks, add_last = _before(norm, names, mixer, feed)
    return (*blocks, *(() if isinstance(feed, Mlp) else (norm(names[2]),)), add_last)


def _after_attention(norm: MakeNorm, names: Sequence[str], mixer: Block, feed: Block) -> tuple[Block, ...]:
    """Norms after the blocks of layers that attend, before those of recurrent ones (OLMo Hybrid)."""
    return (_after if isinstance(mixer, Attention) else _before)(norm, names, mixer, feed)


def _residual_mlp(norm: MakeNorm, names: Sequence[str], mixer: Block, feed: Block) -> tuple[Block, ...]:
    """Experts beside an MLP as wide as the model (Arctic); a layer without experts has no such MLP.

    The experts see the hidden state from before attention, which is as large as the one behind it.
    """
    if isinstance(feed, Mlp):
        return _before(norm, names, mixer, feed)
    width = norm(names[0]).width
    act = getattr(feed, "activation", "silu")
    dense = Mlp("residual_mlp", width, width, activation=act, names=("w1", "w3", "w2"))
    branches = (norm(names[1]), feed), (norm(names[2]), dense)
    return norm(names[0]), mixer, _ADD[0], ParallelBranches("", branches), _ADD[1]


#: Orders of norms and blocks in a layer.
ORDERS: Mapping[str, Order] = {
    "before": _before,
    "after": _after,
    "after attention": _after_attention,
    "around": _in_turn(0, "mixer", 1, "mixer+", 2, "feed", 3, "feed+"),
    # norms of each sum, as in BERT
    "behind": _in_turn("mixer", "mixer+", 0, "feed", "feed+", 1, restarts=True),
    "beside": _beside,
    "experts normed": _experts_normed,
    # norms before each block, whose results are what is added to (MiniMax-Text-01)
    "restarted": _in_turn(0, "mixer", "mixer+", 1, "feed", "feed+", restarts=True),
    "residual mlp": _residual_mlp,
}
