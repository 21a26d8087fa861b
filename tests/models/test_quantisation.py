"""Which module is stored in which format, for every form the section takes."""

from __future__ import annotations

from typing import Any

import pytest

import roofline
from roofline.bounds.memory import traffic
from roofline.errors import InputError
from roofline.models import load
from roofline.models.operations import decode
from roofline.models.weights import read_quantisation


def formats(name: str) -> dict[str, set[str]]:
    """Formats by module over all layers, and of the head."""
    model = load(name)
    of, found = model.storages(), {}
    for _, numbers, layer in model.layer_groups():
        within = of(f"layers.{numbers[0]}")
        for block in layer.blocks:
            for weight in block.weights():
                path = ".".join(filter(None, (block.name, weight.name)))
                found.setdefault(path, set()).add(within(path, weight).dtype)
    return found


SHIPPED: list[tuple[str, dict[str, set[str]]]] = [
    (
        "deepseek-v3",
        {
            "self_attn.q_b_proj": {"fp8_e4m3"},
            "mlp.gate": {"bf16"},
            "mlp.experts.up_proj": {"fp8_e4m3"},
            "input_layernorm": {"bf16"},
        },
    ),
    ("gpt-oss-120b", {"self_attn.q_proj": {"bf16"}, "mlp.experts.up_proj": {"mxfp4"}, "mlp.router": {"bf16"}}),
    (
        "kimi-k2.5",
        {"self_attn.o_proj": {"bf16"}, "mlp.experts.down_proj": {"int4"}, "mlp.shared_experts.up_proj": {"bf16"}},
    ),
    ("kimi-k2.6-nvfp4", {"self_attn.o_proj": {"bf16"}, "mlp.up_proj": {"bf16"}, "mlp.experts.down_proj": {"nvfp4"}}),
    (
        "deepseek-v4-flash",
        {
            "attn.q_a_proj": {"fp8_e4m3"},
            "attn.compressor.kv_proj": {"bf16"},
            "ffn.experts.up_proj": {"mxfp4"},
            "attn_hc.fn": {"fp32"},
        },
    ),
    ("deepseek-v4-flash-fp8", {"ffn.experts.up_proj": {"fp8_e4m3"}}),
    (
        "deepseek-v4-pro-nvfp4",
        {"attn.q_a_proj": {"fp8_e4m3"}, "ffn.experts.up_proj": {"nvfp4"}, "ffn.shared_experts.up_proj": {"fp8_e4m3"}},
    ),
    (
        "qwen3.6-27b-nvfp4",
        {"self_attn.q_proj": {"fp8_e4m3"}, "linear_attn.in_proj_qkv": {"fp8_e4m3"}, "mlp.up_proj": {"nvfp4"}},
    ),
    ("minimax-m2.5-nvfp4", {"self_attn.q_proj": {"bf16"}, "block_sparse_moe.experts.up_proj": {"nvfp4"}}),
    ("gemma-4-26b-a4b-nvfp4", {"mlp.up_proj": {"bf16"}, "experts.up_proj": {"nvfp4"}, "self_attn.k_proj": {"bf16"}}),
    ("glm-5-fp8", {"self_attn.q_b_proj": {"fp8_e4m3"}, "self_attn.indexer.k_norm": {"bf16"}}),
]


@pytest.mark.parametrize(("name", "expected"), SHIPPED)
def test_shipped_checkpoints(name: str, expected: dict[str, set[str]]) -> None:
    found = formats(name)
    assert {path: found[path] for path in expected} == expected


@pytest.mark.parametrize(
    ("name", "kv"),
    [("qwen3-32b-fp8-static-pertensor", "fp8_e4m3"), ("kimi-k2.6-nvfp4", "fp8_e4m3"), ("deepseek-v3", None)],
)
def test_formats_of_keys_and_values(name: str, kv: str | None) -> None:
    section = load(name).quantisation
    assert section is not None
    assert section.kv == kv


def test_the_head_only_where_it_is_listed() -> None:
    for name, dtype in (("qwen3.6-27b-nvfp4", "nvfp4"), ("deepseek-v3", None)):
        section = load(name).quantisation
        assert section is not None
        found = section.storage("lm_head", "head")
        assert (found.dtype if found else None) == dtype


_MIXED = {"quant_method": "auto-round", "bits": 4, "group_size": 128}
SECTIONS: list[tuple[dict[str, Any], str, str, str | None]] = [
    ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "model.layers.0.mlp.up_proj", "linear", "int4"),
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, "lm_head", "head", None),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, "model.layers.0.mlp.up_proj", "linear", "int4"),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}, "lm_head", "head", "int4"),
    ({**_MIXED, "dynamic": {"-:.*attn": {}}}, "model.layers.0.self_attn.q_proj", "linear", None),
    ({**_MIXED, "dynamic": {r"+:.*\.1\..*down": {"bits": 8}}}, "model.layers.1.mlp.down_proj", "linear", "int8"),
    ({**_MIXED, "dynamic": {r"+:.*\.1\..*down": {"bits": 8}}}, "model.layers.2.mlp.down_proj", "linear", "int4"),
    (
        {**_MIXED, "extra_config": {"model.layers.1.mlp.up_proj": {"bits": 16}}},
        "model.layers.1.mlp.up_proj",
        "linear",
        None,
    ),
    ({**_MIXED, "extra_config": {"lm_head": {"bits": 8}}}, "lm_head", "head", "int8"),
    ({**_MIXED, "extra_config": {"lm_head": {"bits": 16, "data_type": "fp"}}}, "lm_head", "head", None),
    ({"load_in_8bit": True}, "model.layers.0.mlp.up_proj", "linear", "int8"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "lm_head", "head", None),
    (
        {"load_in_4bit": True, "llm_int8_skip_modules": ["model.layers.1.mlp"]},
        "model.layers.1.mlp.up_proj",
        "linear",
        None,
    ),
    ({"quant_method": "fbgemm_fp8"}, "model.layers.3.mlp.up_proj", "linear", "fp8_e4m3"),
    (
        {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.3.mlp.up_proj"]},
        "model.layers.3.mlp.up_proj",
        "linear",
        None,
    ),
    ({"quant_method": "fp8"}, "model.layers.0.mlp.gate", "router", None),
    (
        {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.1.mlp"]},
        "model.layers.1.mlp.up_proj",
        "linear",
        None,
    ),
    (
        {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.1.mlp"]},
        "model.layers.11.mlp.up_proj",
        "linear",
        "fp8_e4m3",
    ),
    (
        {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.{2-4,9}.mlp"]},
        "model.layers.9.mlp.up_proj",
        "linear",
        None,
    ),
    (
        {"quant_algo": "NVFP4", "ignore": ["*.mlp.shared_expert.*"]},
        "model.layers.1.mlp.shared_expert.up_proj",
        "linear",
        None,
    ),
    (
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"a": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}},
            "ignore": ["re:.*self_attn.*"],
        },
        "model.layers.3.self_attn.q_proj",
        "linear",
        None,
    ),
]


@pytest.mark.parametrize(("section", "path", "kind", "dtype"), SECTIONS)
def test_sections(section: dict[str, Any], path: str, kind: str, dtype: str | None) -> None:
    found = read_quantisation(section).storage(path, kind)
    assert (found.dtype if found else None) == dtype


def test_activations_decide_the_arithmetic() -> None:
    """Weights alone in 4 bits are widened before they are used; with 4-bit activations the product is in fp4."""
    assert read_quantisation({"quant_algo": "NVFP4"}).default.compute == "fp4"  # type: ignore[union-attr]
    assert read_quantisation({"quant_algo": "W4A16_NVFP4"}).default.compute == ""  # type: ignore[union-attr]
    assert read_quantisation({"quant_method": "fp8"}).default.compute == "fp8"  # type: ignore[union-attr]
    assert read_quantisation({"quant_method": "fp8", "kv_cache_scheme": "static"}).kv == "fp8_e4m3"


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"quant_method": "gptq", "bits": 5}, "quantisation to 5 bits is not understood; known are 2, 3, 4 and 8"),
        ({"quant_method": "fp8", "expert_dtype": "int3"}, "expert_dtype 'int3' is not understood; known are: fp8, "),
        ({"quant_method": "fp8", "store_dtype": "nvfp4"}, "store_dtype 'nvfp4' is not understood; did you mean 'fp4'"),
        ({"quant_method": "fp8", "weight_block_size": 128}, "the fp8 section is not of its usual form"),
        ({"quant_method": "compressed-tensors", "config_groups": [1]}, "section is not of its usual form"),
        ({"quant_method": ["fp8"]}, "quantisation method .* is not understood"),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": "FP6"}, "keys and values of the form 'FP6' are not understood"),
        ({"quant_method": "bitsandbytes"}, "section says neither load_in_8bit nor load_in_4bit"),
        ({"quant_method": "auto-round", "bits": 4, "data_type": "log"}, "auto-round: 'log4' is not understood"),
        ({**_MIXED, "extra_config": {"lm_head": {"data_type": "log"}}}, "auto-round: 'log4' is not understood"),
        ({"quant_method": "compressed-tensors"}, "the quantisation section has no config_groups"),
        ({"quant_algo": "MIXED_PRECISION"}, "the quantisation section says mixed precision and lists no layers"),
    ],
)
def test_messages(section: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_quantisation(section)


@pytest.mark.parametrize(
    ("section", "zeros"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, True),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": False}, False),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, False),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": False}, True),
    ],
)
def test_zero_points_lie_beside_scales(section: dict[str, Any], zeros: bool) -> None:
    """4 bits a weight, and for each 128 of a row a scale of 16 bits, and a zero point of 4 where there is one."""
    storage = read_quantisation(section).storage("model.layers.0.mlp.up_proj", "linear")
    assert storage is not None
    assert storage.nbytes((256, 512)) == 256 * 512 // 2 + 2 * 256 * 4 + (256 * 4 // 2 if zeros else 0)


def test_three_bits_of_gptq_fill_their_words() -> None:
    """32 weights are 3 words of 32 bits; of zero points beside the scales as well."""
    section = {"quant_method": "gptq", "bits": 3, "group_size": 128, "sym": False}
    storage = read_quantisation(section).storage("model.layers.0.mlp.up_proj", "linear")
    assert storage is not None
    assert storage.nbytes((256, 512)) == 256 * 512 // 32 * 3 * 4 + 2 * 256 * 4 + 256 * 4 // 32 * 3 * 4


def test_scales_of_rows() -> None:
    storage = read_quantisation({"quant_method": "fbgemm_fp8"}).storage("model.layers.0.mlp.up_proj", "linear")
    assert storage is not None
    assert storage.nbytes((256, 512)) == 256 * 512 + 4 * 256


@pytest.mark.parametrize(
    ("section", "nbytes"),
    [
        ({"load_in_8bit": True}, 256 * 512 + 4 * 256),
        ({"load_in_4bit": True}, 256 * 512 // 2 + 4 * 256 * 8),
        ({"load_in_4bit": True, "bnb_4bit_use_double_quant": True}, 256 * 512 // 2 + 256 * 8 + 4 * 8),
    ],
)
def test_bitsandbytes(section: dict[str, Any], nbytes: int) -> None:
    """A scale for each row, or for each 64 weights; those quantised again with one for each 256 of them."""
    storage = read_quantisation({"quant_method": "bitsandbytes", **section}).storage(
        "model.layers.0.mlp.up_proj", "linear"
    )
    assert storage is not None
    assert storage.nbytes((256, 512)) == nbytes
    assert storage.compute == ("int8" if "load_in_8bit" in section else "")


@pytest.mark.parametrize(
    ("section", "kept"),
    [
        ({"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["self_attn", "model.layers.3.", "up"]}, "aul"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["self_attn", "up"]}, "a"),
        ({"load_in_4bit": True, "llm_int8_skip_modules": ["self_attn.q_proj", "mlp"]}, "aul"),
    ],
)
def test_names_of_kept_modules_may_stand_inside_a_path(section: dict[str, Any], kept: str) -> None:
    """AWQ looks for any part of a path (vLLM's ``is_layer_skipped_awq``), transformers for whole names in it."""
    found = read_quantisation(section)
    paths = {"a": "layers.0.self_attn.q_proj", "u": "layers.0.mlp.up_proj", "l": "layers.3.mlp.down_proj"}
    assert "".join(name for name, path in paths.items() if found.storage(f"model.{path}", "linear") is None) == kept


@pytest.mark.parametrize(
    "section",
    [
        {"quant_method": "awq", "bits": 4, "group_size": 128},
        {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False},
        {"load_in_4bit": True, "bnb_4bit_use_double_quant": True},
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
    ],
)
@pytest.mark.parametrize("experts", [{}, {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 8}])
def test_a_step_reads_all_that_lies_beside_its_weights(section: dict[str, Any], experts: dict[str, Any]) -> None:
    """Scales and zero points are read with their weights: what is in memory is what moves, but for the table's rows."""
    model = load({
        "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8,
        "intermediate_size": 2048, "vocab_size": 1000, "num_key_value_heads": 8, "tie_word_embeddings": False,
        "quantization_config": section, **experts,
    })  # fmt: skip
    ops = decode(model, batch=1, context=0)
    weights = {t.ident: t.traffic_bytes * op.repeat for op in ops for t in op.reads if t.role == "weight"}
    table = 2 * 1000 * 1024
    read = sum(nbytes for ident, nbytes in weights.items() if not ident.startswith(model.embedding_name))
    assert read == model.weight_bytes() - table
    # but for norms, and keys and values of one token, matrices alone are the same
    moved = sum(work.total("bytes") * op.repeat for work, op in zip(traffic(ops, "streamed"), ops, strict=True))
    norms, kept = 5 * 1024 * 2, 2 * 2 * 1024 * 2
    assert moved == read - norms + kept


def test_a_layer_of_which_one_weight_is_stored_otherwise_is_a_group_of_its_own() -> None:
    """By hand: 64·128 weights of two bytes instead of one, and no scale of four bytes."""
    sizes = {"num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    config = {"model_type": "llama", "vocab_size": 100, "torch_dtype": "bfloat16", **sizes}
    kept = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.2.mlp.down_proj"]}
    model = load({**config, "quantization_config": kept}, name="one")
    assert [numbers for _, numbers, _ in model.layer_groups()] == [(0, 1, 3), (2,)]
    plain = load({**config, "quantization_config": {"quant_method": "fp8"}}, name="all")
    assert model.weight_bytes() - plain.weight_bytes() == 64 * 128 - 4


@pytest.mark.parametrize("block", [[128, "llama"], [128, True], [128, -1], ["128", 128], [128, 1.5], [None, 128]])
def test_a_block_is_two_whole_numbers(block: list[Any]) -> None:
    with pytest.raises(InputError, match="a block of weights is"):
        read_quantisation({"quant_method": "fp8", "weight_block_size": block})


@pytest.mark.parametrize("group", [-5, True, 1.5, "128"])
@pytest.mark.parametrize("method", ["gptq", "awq", "torchao"])
def test_a_group_is_a_whole_number(method: str, group: Any) -> None:
    form = {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": group}}}
    with pytest.raises(InputError, match="a block of weights is"):
        read_quantisation({"quant_method": method, "bits": 4, "group_size": group, "quant_type": form})


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("deepseek-v3", "fp8"),
        ("qwen3-32b-fp8-static-pertensor", "fp8_e4m3"),
        ("kimi-k2.5", "int4"),
        ("gpt-oss-20b", "mxfp4"),
        ("qwen3-235b-a22b-nvfp4", "nvfp4"),
        ("llama-3-8b", "bf16"),
    ],
)
def test_naming_the_format_that_a_checkpoint_has_changes_nothing(name: str, own: str) -> None:
    model = load(name)
    assert model.weight_bytes(own) == model.weight_bytes()
    plain, named = (decode(model, batch=8, context=4096, **more) for more in ({}, {"weights": own}))
    assert [repr(op) for op in named] == [repr(op) for op in plain]


def test_naming_one_format_of_a_mixed_checkpoint_converts_the_others() -> None:
    model = load("deepseek-v4-flash")
    of = model.storages("fp8")("layers.5")
    weights = {w.kind: (f"{b.name}.{w.name}", w) for b in model.layers[5].blocks for w in b.weights()}
    assert (of(*weights["expert"]).dtype, of(*weights["linear"])) == (
        "fp8", model.storages()("layers.5")(*weights["linear"])
    )  # fmt: skip


def test_weights_alone_in_eight_bits_say_what_products_run_in() -> None:
    said = {
        weights: " ".join(roofline.llm("llama-3-8b", on="h100", batch=1, context=64, **asked).decode.assumptions)
        for weights, asked in {
            "fp8": {"weights": "fp8"}, "both": {"weights": "fp8", "activations": "fp8"}, "int4": {"weights": "int4"},
        }.items()
    }  # fmt: skip
    words = "products in bf16: only weights are fp8 (W8A8 has activations='fp8' too)"
    assert [words in text or "only weights" in text for text in said.values()] == [True, False, False]
    assert words in said["fp8"]


def test_keys_and_values_in_fp8_are_widened_where_the_chip_has_no_such_products() -> None:
    said = {on: roofline.llm("llama-3-8b", on=on, batch=1, context=64, kv="fp8").decode for on in ("a100", "h100")}
    multiplied, widened = "keys and values in fp8 are multiplied in fp8", "keys and values in fp8 are widened to bf16"
    for on, words, other in (("h100", multiplied, widened), ("a100", widened, multiplied)):
        assert any(line.startswith(words) for line in said[on].assumptions)
        assert not any(line.startswith(other) for line in said[on].assumptions)


def test_products_of_two_formats_are_told_apart_where_sources_are_shown() -> None:
    told = roofline.llm("deepseek-v3", on="h200:8", tensor=8, batch=8).explain()
    assert ("T_tensor (fp8) = " in told, "T_tensor (bf16) = " in told) == (True, True)
    assert "T_tensor = " in roofline.llm("llama-3-8b", on="h100").explain()


def test_sparse_weights_are_told() -> None:
    """Half of the values are stored and multiplied: counted as dense, the answer is no floor of such a run."""
    groups = {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 128}}}
    dense = {"format": "dense", "sparsity_structure": "unstructured"}
    config = {
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "tie_word_embeddings": False,
    }  # fmt: skip
    for section, told in (
        ({"sparsity_config": {"format": "sparse-24-bitmask", "sparsity_structure": "2:4"}}, True),
        ({"config_groups": groups, "format": "marlin-24"}, True),
        ({"config_groups": groups, "sparsity_config": dense}, False),
    ):
        found = load({**config, "quantization_config": {"quant_method": "compressed-tensors", **section}})
        assert any("2:4 sparse" in gap for gap in found.gaps) is told


@pytest.mark.parametrize(
    ("weights", "scales"),
    [
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, 300 * 2),
        ({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}, 3 * 4 * 2),
        ({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32}, 300 * 16),
        ({"num_bits": 8, "type": "float"}, 2),
        ({"num_bits": 4, "type": "int", "group_size": -1}, 300 * 2),
        ({"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group"}, 300 * 4 * 2),
    ],
)
def test_scales_of_compressed_tensors_follow_the_strategy(weights: dict[str, Any], scales: int) -> None:
    """A scale for each row, block, group or whole matrix of 300 x 512 weights."""
    groups = {"a": {"targets": ["Linear"], "weights": weights}}
    found = read_quantisation({"quant_method": "compressed-tensors", "config_groups": groups}).default
    assert found is not None
    assert found.nbytes((300, 512)) == 300 * 512 * weights["num_bits"] // 8 + scales
