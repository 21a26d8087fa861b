"""Nemotron-H: layers of one block each (Mamba-2, attention, MLP, experts); Nemotron-NAS: Llama with uneven layers."""

from __future__ import annotations

from roofline.errors import InputError, suggest
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.recurrent import Mamba2
from roofline.models.description import Block, Layer, Model
from roofline.models.families import family
from roofline.models.families._parts import (
    MixtureOfExperts,
    Mlp,
    Norm,
    ResidualAdd,
    Shape,
    activation,
    chosen,
    limited,
    make,
    prediction,
    shared_expert,
)
from roofline.models.fields import Fields, divide

_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_WORDS = {"linear_attention": "mamba", "full_attention": "attention"}
_STATES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@family("nemotron_h")
def hybrid(fields: Fields) -> Model:
    """Read the hybrid; no rotation in its attention, squared ReLU without a gate in its MLPs."""
    shape = Shape(fields)
    kinds = _kinds(fields, "layers_block_type", "hybrid_override_pattern")
    if not kinds:
        raise InputError(
            f"{fields.name} has no layers_block_type",
            hint="a nemotron_h configuration needs it or hybrid_override_pattern",
        )
    if len(kinds) != shape.layers:
        raise InputError(
            f"{fields.name} names {len(kinds)} layers and num_hidden_layers says {shape.layers}",
            hint="the two contradict each other",
        )
    fields.ignore("partial_rotary_factor", "expand", "mamba_hidden_act", "intermediate_size")
    blocks = {kind: _block(fields, shape, kind) for kind in dict.fromkeys(kinds)}

    def layer(kind: str) -> Layer:
        block = blocks[kind] if kind in blocks else _block(fields, shape, kind)
        return Layer((Norm("norm", shape.width), block, ResidualAdd("add")))

    further = _kinds(fields, "mtp_layers_block_type", "mtp_hybrid_override_pattern")
    modules = fields.count("num_nextn_predict_layers")
    more = prediction(shape.width, [layer(kind) for kind in further] * modules)
    more["extra_blocks"] = more["extra_blocks"][: 4 * modules]
    return make(
        fields,
        shape,
        [layer(kind) for kind in kinds],
        prefix="backbone.",
        embedding_name="embeddings",
        after=(Norm("norm_f", shape.width),),
        **more,
    )


def _kinds(fields: Fields, listed: str, pattern: str) -> list[str]:
    found = fields.listed(listed) or list(fields.text(pattern))
    kinds = [_WORDS.get(kind, _LETTERS.get(kind, kind)) for kind in found]
    for kind in kinds:
        if kind not in _LETTERS.values():
            raise InputError(
                f"layer {kind!r} of {fields.name} is not understood",
                hint=suggest(str(kind), _LETTERS.values(), what="known"),
            )
    return kinds


def _block(fields: Fields, shape: Shape, kind: str) -> Block:
    act, width = activation(fields, "mlp_hidden_act", default="relu2"), shape.width
    if kind == "attention":
        bias = fields.flag("attention_bias", False)
        return Attention("mixer", width, shape.heads, shape.kv_heads, shape.head, shape.head, bias=bias, out_bias=bias)
    if kind == "mamba":
        return Mamba2(
            "mixer",
            width,
            fields.size("mamba_num_heads"),
            fields.size("mamba_head_dim"),
            fields.size("n_groups"),
            fields.size("ssm_state_size"),
            fields.size("conv_kernel"),
            fields.flag("use_bias", False),
            fields.flag("use_conv_bias", True),
            _STATES[fields.choice("mamba_ssm_cache_dtype", _STATES, "float32")],
            out_bias=fields.flag("use_bias", False),
        )
    bias = fields.flag("mlp_bias", False)
    if kind == "mlp":
        return Mlp("mixer", width, fields.size("intermediate_size"), gated=False, activation=act, bias=bias)
    if bias:
        raise InputError(f"mlp_bias of {fields.name} is true and it has experts", hint="theirs are not read")
    experts = fields.size("n_routed_experts")
    return MixtureOfExperts(
        "mixer",
        width,
        fields.size("moe_intermediate_size"),
        experts,
        chosen(fields, experts, "num_experts_per_tok"),
        gated=False,
        activation=act,
        latent=fields.count("moe_latent_size") or None,
        scored="sigmoid",
        shared=shared_expert(
            width,
            fields.count("n_shared_experts") * fields.count("moe_shared_expert_intermediate_size"),
            act,
            gated=False,
        ),
        limit=limited(fields, experts),
    )


@family("nemotron-nas", "deci")
def searched(fields: Fields) -> Model:
    """Read ``block_configs``: each layer has attention or none, and an MLP of its own width or none."""
    width, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    head = fields.size(
        "head_dim", default=divide(fields, width, heads, "a width of {total} does not divide into {parts} heads")
    )
    count = fields.size("num_hidden_layers")
    configs = fields.listed("block_configs", count)
    if configs is None:
        raise InputError(f"{fields.name} has no block_configs", hint="a nemotron-nas configuration needs one a layer")
    fields.ignore("num_key_value_heads", "intermediate_size")
    act = activation(fields, "hidden_act")
    layers = []
    for number, config in enumerate(configs[:count]):
        attention, feed_forward = dict(config.get("attention") or {}), dict(config.get("ffn") or {})
        for part, name in ((attention, "attention"), (feed_forward, "ffn")):
            for field in ("replace_with_linear", "sparsify", "window_length", "num_sink_tokens"):
                if part.get(field):
                    raise InputError(f"{field} in the {name} of layer {number} of {fields.name} is not modelled")
        blocks: list[Block] = []
        if not attention.get("no_op"):
            kv_heads = divide(
                fields,
                heads,
                int(attention["n_heads_in_group"]),
                "{total} query heads do not fall into groups of {parts}",
            )
            made = Attention(
                "self_attn", width, heads, kv_heads, head, head, bias=fields.flag("attention_bias", False), rotary=head
            )
            blocks += [Norm("input_layernorm", width), made, ResidualAdd("add_attention")]
        if not feed_forward.get("no_op"):
            hidden = int(2 * float(feed_forward["ffn_mult"]) * width / 3)
            mlp = Mlp("mlp", width, -(-hidden // 256) * 256, activation=act, bias=fields.flag("mlp_bias", False))
            blocks += [Norm("post_attention_layernorm", width), mlp, ResidualAdd("add_feed_forward")]
        layers.append(Layer(tuple(blocks)))
    return Model(
        name=fields.name,
        family=fields.kind,
        width=width,
        vocabulary=fields.size("vocab_size"),
        layers=tuple(layers),
        dtype="",
        after=(Norm("norm", width),),
        tied=fields.flag("tie_word_embeddings", False),
        context=fields.get("max_position_embeddings"),
    )
