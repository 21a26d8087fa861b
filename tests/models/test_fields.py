"""Fields of configurations: second names of one thing, defaults that are not in the file."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.errors import InputError
from roofline.models import load
from roofline.models.families import known_types
from tests.models.small import small
from tests.models.tiny import TINY
from tests.strategies import for_each, some

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip


def test_the_width_of_a_head_has_two_names() -> None:
    assert load({**LLAMA, "attention_head_dim": 32}).parameters == load({**LLAMA, "head_dim": 32}).parameters
    assert load({**LLAMA, "attention_head_dim": 32}).parameters > load(LLAMA).parameters
    assert load({**LLAMA, "attention_head_dim": 32, "head_dim": 16}).gaps == ()


@pytest.mark.parametrize(("more", "gaps"), [({"num_kv_heads": 2}, 0), ({"num_kv_heads": 4}, 1), ({"new_trick": 2}, 1)])
def test_a_field_that_repeats_another_is_no_gap(more: dict[str, Any], gaps: int) -> None:
    assert len(load({**LLAMA, **more}).gaps) == gaps


@for_each("name", some(sorted(TINY), 3))
def test_defaults_that_are_not_in_the_file_are_no_gaps(name: str) -> None:
    """Whatever a configuration leaves out, a gap names a field that it has."""
    fields = TINY[name]
    for left in list(fields):
        if left in ("model_type", "text_config", "vision_config"):
            continue
        rest = {key: value for key, value in fields.items() if key != left}
        try:
            gaps = load(rest, name=name).gaps
        except InputError:  # what a type needs is tested elsewhere
            continue
        for gap in gaps:
            field = gap.split(" is not understood")[0].removeprefix("text_config.")
            assert field in rest or field in (rest.get("text_config") or {}), gap


@for_each(
    ("kind", "field"),
    [
        (kind, field)
        for kind, fields in sorted(TINY.items())
        for field in fields
        if "nextn" in field or "mtp" in field or field in ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
        if isinstance(fields[field], int) and not isinstance(fields[field], bool)
    ],
)
def test_layers_are_not_made_by_the_billion(kind: str, field: str) -> None:
    with pytest.raises(InputError, match=r"from 1 to 10,000|contradict|layers"):
        load({**TINY[kind], field: 2**31}, name=kind)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"layer_types": [{}, "full_attention"]}, "layer_types of .* lists {}; a list of words or numbers"),
        ({"layer_types": [float("nan"), "full_attention"]}, "layer_types of .* lists nan; a list of words or numbers"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": [[0]]}, r"mlp_only_layers of .* lists \[0\]"),
        ({"max_position_embeddings": "4096"}, "max_position_embeddings of .* is '4096'"),
        ({"max_position_embeddings": [4096]}, "max_position_embeddings"),
        ({"quantization_config": {"quant_method": "quanto", "weights": {"a": 1}}}, "weights of Quanto: {'a': 1}"),
        ({"model_type": "nemotron-nas", "block_configs": ["x", {}]}, "layer 0 of block_configs of .* is 'x'"),
        ({"model_type": "nemotron-nas", "block_configs": [{}] * 2}, "has no attention; a layer without one says"),
        (
            {"model_type": "nemotron-nas", "block_configs": [{"attention": {"n_heads_in_group": 2}, "ffn": {}}] * 2},
            "ffn_mult of ffn of layer 0 of .* is None",
        ),
        (
            {"model_type": "nemotron-nas", "block_configs": [{"attention": {"n_heads_in_group": 3}, "ffn": {}}] * 2},
            "4 query heads do not fall into groups of 3",
        ),
        ({"model_type": "gpt_neo", "attention_types": [[["x"], 10**12]]}, "'global' or 'local' for every layer"),
    ],
)
def test_a_list_or_a_text_in_the_wrong_place_is_an_error(more: dict[str, Any], said: str) -> None:
    usual = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "num_layers": 2, "num_heads": 4}
    with pytest.raises(InputError, match=said):
        load({**LLAMA, **usual, **more})


#: What transformers 5.23 writes when it saves a model of these types again, and the parameters of its own model.
SAVED: list[tuple[int, dict[str, Any]]] = [
    (131_280, {
        "model_type": "mimo_v2_flash", "head_dim": 12, "hidden_size": 64, "intermediate_size": 96, "v_head_dim": 8,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "moe_intermediate_size": 24,
        "mlp_layer_types": ["dense", "sparse", "sparse"], "n_routed_experts": 6, "num_attention_heads": 8,
        "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_key_value_heads": 2, "sliding_window": 129,
        "tie_word_embeddings": False, "vocab_size": 100,
    }),
    (213_080, {
        "model_type": "gemma4_text", "attention_k_eq_v": False, "enable_moe_block": False, "head_dim": 16,
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 64, "hidden_size_per_layer_input": 8,
        "intermediate_size": 96, "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
        "num_attention_heads": 4, "num_hidden_layers": 6, "num_key_value_heads": 2, "num_kv_shared_layers": 0,
        "per_layer_config": {"5": {"head_dim": 24}}, "sliding_window": 512, "tie_word_embeddings": True,
        "use_double_wide_mlp": False, "vocab_size": 100, "vocab_size_per_layer_input": 100,
    }),
    (197_459, {
        "model_type": "deepseek_v4", "hc_mult": 2, "head_dim": 16, "hidden_size": 64, "index_head_dim": 8,
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128},
        "index_n_heads": 2, "index_topk": 16, "mlp_layer_types": ["hash_moe", "hash_moe", "hash_moe", "moe"],
        "layer_types": ["heavily_compressed_attention"] * 3 + ["compressed_sparse_attention"],
        "moe_intermediate_size": 24, "n_routed_experts": 6, "n_shared_experts": 1, "num_attention_heads": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 1, "o_groups": 2, "o_lora_rank": 12,
        "q_lora_rank": 24, "qk_rope_head_dim": 8, "sliding_window": 128, "tie_word_embeddings": False,
        "vocab_size": 100,
    }),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "fields"), SAVED, ids=[fields["model_type"] for _, fields in SAVED])
def test_what_transformers_saves_is_read(parameters: int, fields: dict[str, Any]) -> None:
    model = load(fields)
    assert (model.parameters, model.gaps) == (parameters, ())


#: Configurations that leave fields out whose value of the class follows from no other, and its parameters (5.24).
CUT_SHORT: list[tuple[int, dict[str, Any]]] = [
    (964_592, {
        "model_type": "granitemoehybrid", "layer_types": ["mamba", "attention", "mamba"], "num_attention_heads": 8,
        "num_key_value_heads": 8, "mamba_n_heads": 8, "mamba_d_head": 16, "tie_word_embeddings": False,
    }),
    (143_520, {
        "model_type": "lfm2_moe", "layer_types": ["conv", "full_attention", "conv", "conv"], "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
        "tie_word_embeddings": True,
    }),
    # the last layer sees everything, whatever is said of it
    (519_136, {
        "model_type": "gemma4_text", "layer_types": ["sliding_attention"] * 6, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 100,
        "num_kv_shared_layers": 0,
    }),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "fields"), CUT_SHORT, ids=[fields["model_type"] for _, fields in CUT_SHORT])
def test_what_a_configuration_leaves_out_is_the_classes(parameters: int, fields: dict[str, Any]) -> None:
    layers = len(fields["layer_types"])
    sizes = {"hidden_size": 64, "intermediate_size": 48, "vocab_size": 100, "num_hidden_layers": layers}
    assert load({**sizes, **fields}).parameters == parameters


@pytest.mark.parametrize(
    ("kind", "other"),
    [("qwen3_vl_text", "qwen3"), ("hunyuan_vl_text", "hunyuan_v1_dense"), ("granite_docling_text", "granite"),
     ("deepseek_ocr2_text", "deepseek"), ("hy_v4_vl_text", "hy_v4")],
)  # fmt: skip
def test_language_parts_are_read_by_themselves_and_in_any_type(kind: str, other: str) -> None:
    fields = {**TINY.get(other, TINY["dots1"] if other == "deepseek" else LLAMA), "model_type": other}
    model = load({**fields, "model_type": kind})
    assert (model.parameters, model.family, model.gaps) == (load(fields).parameters, kind, ())
    inside = load({"model_type": "seen_by_nobody", "text_config": {**fields, "model_type": kind}})
    assert inside.parameters == model.parameters


def test_what_changes_nothing_is_no_gap() -> None:
    """Experts that are switched off, a window that no layer has, biases that the code of a type leaves out."""
    experts = {"num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 24, "enable_moe_block": False}
    assert load({**TINY["gemma4_text"], **experts}).gaps == ()
    assert load({**TINY["jamba"], "num_experts": 1}).gaps == ()
    assert load({**TINY["cohere2"], "layer_types": ["full_attention"] * 3}).gaps == ()
    published = {"activation_function": "gelu", "attention_softmax_in_fp32": True, "hidden_act": "gelu_pytorch_tanh"}
    assert load({**TINY["starcoder2"], **published}).gaps == ()
    ling = small("bailing_moe", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, intermediate_size=96)
    off = {"sliding_window": 4096, "use_sliding_window": False, "transformers.js_config": {"dtype": "q4"}}
    assert load({**ling, **off}).gaps == ()
    biased = load({**TINY["deepseek_v3"], "mlp_bias": True})
    assert (biased.parameters, biased.gaps) == (load(TINY["deepseek_v3"]).parameters, ())
    first = load({**TINY["deepseek_v2"], "mlp_bias": True}).parameters - load(TINY["deepseek_v2"]).parameters
    assert first == (48 + 48 + 64) + 2 * (24 + 24 + 64)


@pytest.mark.parametrize("name", ["qwen3_moe", "qwen2_moe", "qwen3_next"])
def test_no_experts_are_dense_layers(name: str) -> None:
    """Qwen's code has experts where ``num_experts`` is above 0, and an MLP elsewhere."""
    fields = TINY[name]
    none = load({**fields, "num_experts": 0}, name=name)
    dense = load({**fields, "mlp_only_layers": [*range(fields["num_hidden_layers"])]}, name=name)
    assert (none.parameters, none.gaps, none.sparsity) == (dense.parameters, (), None)


@pytest.mark.parametrize("name", ["gemma2", "gemma3_text", "gemma4_text", "qwen3_next", "llama4_text", "bamba", "lfm3"])
def test_fields_of_a_kind_of_layer_that_no_layer_is_of_are_no_gaps(name: str) -> None:
    """A model that lists its layers, all of which see everything, has no windows, chunks or states."""
    fields = TINY[name]
    more = {"mamba_conv_bias": True} if name == "bamba" else {}
    found = load({**fields, **more, "layer_types": ["full_attention"] * fields["num_hidden_layers"]}, name=name)
    assert found.gaps == ()
    assert not found.cache_bytes(0)


def test_the_head_may_say_fewer_words_than_are_read() -> None:
    model = load(TINY["apertus1p5_text"])
    assert (model.vocabulary, model.parameters_by_module()["lm_head"]) == (80, 80 * 64)
    with pytest.raises(InputError, match=r"output_vocab_size of .* is 97 and its vocab_size 96"):
        load({**TINY["apertus1p5_text"], "output_vocab_size": 97})


def test_biases_are_those_of_shared_experts_and_of_the_head_too() -> None:
    plain, biased = (load({**TINY["ernie4_5_moe"], "use_bias": use}) for use in (False, True))
    attention, dense, shared, head = 3 * (64 + 32 + 32 + 64), 48 + 48 + 64, 2 * (24 + 24 + 64), 96
    assert biased.parameters - plain.parameters == attention + dense + shared + head


def test_what_made_a_list_of_layers_is_no_gap() -> None:
    layers = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 32}
    assert load({**LLAMA, **layers, "model_type": "afmoe", "num_experts": 4, "num_experts_per_tok": 2,
                 "moe_intermediate_size": 24, "global_attn_every_n_layers": 2}).gaps == ()  # fmt: skip


def test_the_language_part_of_any_type_is_read() -> None:
    """Whatever stands around it is a gap."""
    for name in ("text_config", "llm_config", "language_config"):
        around = {"model_type": "seen_by_nobody", name: LLAMA, "vision_config": {"depth": 2}, "seen_tokens": 64}
        model = load(around)
        assert model.parameters == load(LLAMA).parameters
        assert model.gaps == (
            "vision_config is not modelled: only the language part is", "seen_tokens is not understood and not modelled"
        )  # fmt: skip
    with pytest.raises(InputError, match="model_type 'musicgen' has an encoder beside its decoder"):
        load({"model_type": "musicgen", "text_config": LLAMA})
    with pytest.raises(InputError, match=f"no reader for .*'seen_by_nobody'; .* the {len(known_types())} known types"):
        load({"model_type": "seen_by_nobody", "text_config": {**LLAMA, "model_type": "neither"}})


def test_fields_of_single_layers_are_those_that_are_known() -> None:
    fields = dict(SAVED[1][1], per_layer_config={"5": {"head_dim": 24, "hidden_size": 32}})
    with pytest.raises(InputError, match=r"per_layer_config of .* has hidden_size; numbers of layers, with head_dim"):
        load(fields)
