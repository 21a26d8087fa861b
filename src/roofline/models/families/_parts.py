"""What several families read alike: widths and heads, layer types, dense and expert layers, prediction layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from roofline.errors import InputError
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.experts import MixtureOfExperts
from roofline.models.blocks.mlp import ACTIVATIONS, Mlp
from roofline.models.blocks.residual import Linear, Norm, ParallelBranches, ResidualAdd
from roofline.models.description import Block, Layer, Model
from roofline.models.fields import Fields, divide


class Shape:
    """The sizes nearly every configuration has: width, layers, vocabulary, heads and their width."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.width = fields.size("hidden_size", "n_embd", "d_model")
        self.layers = fields.size("num_hidden_layers", "n_layer", "n_layers", "num_layers", default=_listed(fields))
        self.vocabulary = fields.size("vocab_size")
        self.heads = fields.size("num_attention_heads", "n_head", "n_heads", "num_heads")
        self.kv_heads = fields.size("num_key_value_heads", default=self.heads)
        text = "a width of {total} does not divide into {parts} heads"
        self.head = fields.size("head_dim", default=0) or divide(fields, self.width, self.heads, text)
        divide(fields, self.heads, self.kv_heads, "{total} query heads do not share {parts} key heads evenly")
        self.rotary = rotary(fields, self.head)
        self.context = fields.get("max_position_embeddings") or fields.get("n_positions")


def _listed(fields: Fields) -> int | None:
    kinds = fields.get("layers_block_type") or fields.get("layer_types")
    return len(kinds) if isinstance(kinds, list) and kinds else None


def rotary(fields: Fields, head: int) -> int:
    """How much of a head is rotated."""
    parameters = fields.section("rope_parameters") or fields.section("rope_scaling")
    share = fields.share("partial_rotary_factor") or (parameters.share("partial_rotary_factor") if parameters else None)
    if fields.get("rotary_dim") is not None:
        return fields.size("rotary_dim")
    return head if share is None else int(head * share)


def activation(fields: Fields, *names: str, default: str = "silu") -> str:
    """The activation's name, checked."""
    for name in names:
        if name in fields:
            return fields.choice(name, ACTIVATIONS)
    return default


def layer_types(fields: Fields, layers: int, known: dict[str, str]) -> list[str]:
    """Kinds of attention by layer, in our words (full, sliding, chunked, linear …); all full where nothing is said."""
    listed = fields.listed("layer_types", layers)
    if listed is None:
        return ["full"] * layers
    for kind in listed:
        if kind not in known:
            from roofline.errors import suggest

            raise InputError(
                f"layer type {kind!r} of {fields.name} is not understood",
                hint=suggest(str(kind), known, what="known here"),
            )
    return [known[kind] for kind in listed[:layers]]


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


def chosen(fields: Fields, experts: int, *names: str) -> int:
    """Experts a token is sent to, no more than there are."""
    count = fields.size(*names)
    if count > experts:
        raise InputError(f"{fields.name} sends a token to {count} of {experts} experts", hint="check the configuration")
    return count


#: Kinds of models whose experts are in eight groups, of which a token takes four, where nothing is said.
_GROUPED = ("deepseek_v3", "deepseek_v32", "axk1")


def limited(fields: Fields, experts: int) -> tuple[int, int]:
    """Of how many groups a token's experts may be, and how many there are: DeepSeek's routing; else one of one."""
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


def attention(shape: Shape, name: str = "self_attn", **more: Any) -> Attention:
    """Attention with the shape's heads, rotated as the configuration says; ``more`` replaces or adds fields."""
    usual: dict[str, Any] = {
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "key": shape.head,
        "value": shape.head,
        "rotary": shape.rotary,
    }
    return Attention(name, shape.width, **{**usual, **more})


def dense(
    fields: Fields, shape: Shape, act: str, *, size: str = "intermediate_size", name: str = "mlp", **more: Any
) -> Mlp:
    """The feed-forward block of every token, as wide as the field ``size`` says."""
    return Mlp(name, shape.width, fields.size(size), activation=act, **more)


def routed(
    fields: Fields,
    shape: Shape,
    act: str,
    *,
    name: str = "mlp",
    experts: Sequence[str] = ("n_routed_experts",),
    each: Sequence[str] = ("num_experts_per_tok",),
    hidden: Sequence[str] = ("moe_intermediate_size",),
    shared: int | None = None,
    **more: Any,
) -> MixtureOfExperts:
    """Experts a token is sent to some of; the arguments name the fields that count them, and those of a token.

    ``shared`` is the width of the expert every token uses; by default ``n_shared_experts`` times that of one.
    """
    count, width = fields.size(*experts), fields.size(*hidden)
    beside = width * fields.count("n_shared_experts") if shared is None else shared
    usual: dict[str, Any] = {"activation": act, "shared": shared_expert(shape.width, beside, act)}
    return MixtureOfExperts(name, shape.width, width, count, chosen(fields, count, *each), **{**usual, **more})


def decoder_layer(
    width: int,
    attention: Block,
    feed_forward: Block,
    function: str = "rms_norm",
    shift: bool = False,
    names: Sequence[str] = ("input_layernorm", "post_attention_layernorm"),
) -> Layer:
    """The usual layer: norm, attention, add; norm, feed-forward, add."""
    return Layer(
        (
            Norm(names[0], width, function, shift),
            attention,
            ResidualAdd("add_attention"),
            Norm(names[1], width, function, shift),
            feed_forward,
            ResidualAdd("add_feed_forward"),
        )
    )


def unscaled(layer: Layer) -> Layer:
    """The same layer with norms that have no scale."""
    return Layer(tuple(replace(block, scaled=False) if isinstance(block, Norm) else block for block in layer.blocks))


def side_by_side(
    width: int,
    attention: Block,
    feed_forward: Block,
    function: str = "layer_norm",
    shift: bool = True,
    names: Sequence[str] = ("input_layernorm",),
) -> Layer:
    """Attention and feed-forward from the same hidden state, behind one norm or behind one each."""
    norms = [Norm(name, width, function, shift) for name in names]
    if len(norms) == 1:
        return Layer((norms[0], ParallelBranches("", ((attention,), (feed_forward,)), inside=True), ResidualAdd("add")))
    return Layer((ParallelBranches("", ((norms[0], attention), (norms[1], feed_forward))), ResidualAdd("add")))


def prediction(width: int, layers: Sequence[Layer]) -> dict[str, Any]:
    """Layers that predict further tokens in their usual form: each with three norms and a projection 2·width → width.

    Source: DeepSeek-V3, arXiv:2412.19437, section 2.2. Embedding and head are those of the model.
    """
    blocks: list[Block] = []
    for _ in layers:
        blocks += [
            Norm("enorm", width),
            Norm("hnorm", width),
            Linear("eh_proj", 2 * width, width, bias=False),
            Norm("norm", width),
        ]
    return {"extra": tuple(layers), "extra_blocks": tuple(blocks)}


def make(
    fields: Fields,
    shape: Shape,
    layers: Sequence[Layer],
    norm: tuple[str, bool] = ("rms_norm", False),
    tied: bool = False,
    ends: str = "norm",
    **more: Any,
) -> Model:
    """Put a model together: a norm at the end, whose name is ``ends``; ``tied`` where the configuration says nothing.

    ``norm`` is the function, and whether it shifts what it scales.
    """
    defaults: dict[str, Any] = {
        "after": (Norm(ends, shape.width, *norm),),
        "tied": fields.flag("tie_word_embeddings", tied),
        "context": shape.context if isinstance(shape.context, int) else None,
    }
    return Model(
        name=fields.name,
        family=fields.kind,
        width=shape.width,
        vocabulary=shape.vocabulary,
        layers=tuple(layers),
        dtype="",
        **{**defaults, **more},
    )


def shared_expert(width: int, hidden: int, act: str, gated: bool = True, bias: bool = False) -> Mlp | None:
    """The expert every token uses, or none where its width is 0."""
    return Mlp("shared", width, hidden, gated=gated, activation=act, bias=bias) if hidden else None


__all__ = [
    "MixtureOfExperts",
    "Mlp",
    "Norm",
    "ResidualAdd",
    "Shape",
    "activation",
    "attention",
    "chosen",
    "decoder_layer",
    "dense",
    "expert_layers",
    "layer_types",
    "make",
    "prediction",
    "rotary",
    "routed",
    "shared_expert",
    "side_by_side",
    "unscaled",
]
