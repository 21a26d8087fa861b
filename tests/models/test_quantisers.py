"""Sections that quantisation libraries write: bytes of a matrix worked out by hand, formats by module."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.errors import InputError
from roofline.frozen import replace
from roofline.models import load
from roofline.models.weights import read_quantisation

PATH = "model.layers.0.mlp.up_proj"
#: A matrix of 256 rows and 512 columns, by bits a weight.
EIGHT, FOUR = 256 * 512, 256 * 512 // 2
ROWS = 256
LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 512, "vocab_size": 1000, "num_key_value_heads": 4, "torch_dtype": "bfloat16",
}  # fmt: skip


def torchao(kind: str, **data: Any) -> dict[str, Any]:
    return {"quant_method": "torchao", "quant_type": {"default": {"_type": kind, "_version": 1, "_data": data}}}


def hqq(bits: int, group: int, **more: Any) -> dict[str, Any]:
    weight = {"nbits": bits, "group_size": group, "axis": 1}
    return {"quant_method": "hqq", "quant_config": {"weight_quant_params": weight, **more}}


def quark(weight: Any, inputs: str | None = None, **more: Any) -> dict[str, Any]:
    general = {"weight": weight, "input_tensors": {"dtype": inputs} if inputs else None}
    return {"quant_method": "quark", "global_quant_config": general, "exclude": ["lm_head"], **more}


def modelopt(algorithm: str, **more: Any) -> dict[str, Any]:
    return {"quant_method": "modelopt", "quant_algo": algorithm, **more}


def auto_round(bits: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"quant_method": "auto-round", "bits": bits, "data_type": kind, **more}


def aqlm(books: int, bits: int) -> dict[str, Any]:
    sizes = {"in_group_size": 8, "out_group_size": 1, "num_codebooks": books, "nbits_per_codebook": bits}
    return {"quant_method": "aqlm", "linear_weights_not_to_quantize": ["lm_head.weight"], **sizes}


PER_ROW = {"_type": "PerRow", "_data": {"dim": -1}}
MX_OPERANDS, FP4 = ("weight_dtype", "activation_dtype"), {"_type": "torch.dtype", "_data": "float4_e2m1fn_x2"}
GROUPS = {"_type": "PerGroup", "_data": {"group_size": 32}}


@pytest.mark.parametrize(
    ("section", "nbytes", "compute"),
    [
        (hqq(4, 64), FOUR + 2 * 2 * ROWS * 8, ""),
        (hqq(2, 16), FOUR // 2 + 2 * 2 * ROWS * 32, ""),
        (hqq(4, 64, scale_quant_params={"nbits": 8, "group_size": 128}), FOUR + (1 + 2) * ROWS * 8 + 4 * 16, ""),
        ({"quant_method": "quanto", "weights": "int4"}, FOUR + 2 * 2 * ROWS * 4, ""),
        ({"quant_method": "quanto", "weights": "float8", "activations": "float8"}, EIGHT + 2 * ROWS, "fp8"),
        ({"quant_method": "eetq"}, EIGHT + 2 * ROWS, ""),
        ({"quant_method": "w8a8_int8", "ignore": ["lm_head"]}, EIGHT + 4 * ROWS, "int8"),
        ({"quant_method": "w8a8_fp8"}, EIGHT + 4 * ROWS, "fp8"),
        ({"quant_method": "blockwise_int8", "weight_block_size": [128, 128]}, EIGHT + 4 * 2 * 4, "int8"),
        ({"quant_method": "modelopt_fp4"}, FOUR + EIGHT // 16, "fp4"),
        ({"quant_method": "modelopt_fp8"}, EIGHT + 4, "fp8"),
        ({"quant_method": "modelopt_mxfp8"}, EIGHT + EIGHT // 32, "fp8"),
        (modelopt("FP8_PER_CHANNEL_PER_TOKEN"), EIGHT + 4 * ROWS, "fp8"),
        (modelopt("fp8_pb_wo"), EIGHT + 4 * 2 * 4, ""),
        (modelopt("FP8_BLOCK_SCALES"), EIGHT + 4 * 2 * 4, "fp8"),
        (modelopt("W4A8_NVFP4_FP8"), FOUR + EIGHT // 16, "fp8"),
        (modelopt("W4A8_MXFP4_MXFP8"), FOUR + EIGHT // 32, "fp8"),
        (modelopt("W4A8_AWQ"), FOUR + 2 * ROWS * 4, "fp8"),
        (modelopt("W4A16_AWQ", group_size=64), FOUR + 2 * ROWS * 8, ""),
        (modelopt("W8A16"), EIGHT + 2 * ROWS, ""),
        (modelopt("W8A8_SQ_PER_CHANNEL"), EIGHT + 4 * ROWS, "int8"),
        ({"quant_method": "nvfp4"}, FOUR + EIGHT // 16, "fp4"),
        ({"quant_method": "mxfp8", "ignored_layers": ["lm_head"]}, EIGHT + EIGHT // 32, "fp8"),
        ({"quant_method": "fouroversix", "dtype": "mxfp4"}, FOUR + EIGHT // 32, "fp4"),
        ({"quant_method": "metal", "bits": 4, "group_size": 64}, FOUR + 2 * 2 * ROWS * 8, ""),
        ({"bits": 8, "group_size": 32}, EIGHT + 2 * 2 * ROWS * 16, ""),  # MLX
        *(({"bits": bits, "group_size": 64}, EIGHT // 8 * bits + 2 * 2 * ROWS * 8, "") for bits in (2, 3, 5, 6)),
        ({"bits": 4, "group_size": 16, "mode": "nvfp4"}, FOUR + EIGHT // 16, ""),
        (auto_round(4, "mx_fp_rceil", act_bits=4), FOUR + EIGHT // 32, "fp4"),
        (auto_round(4, "nv_fp"), FOUR + EIGHT // 16, ""),
        (auto_round(8, "mx_fp", act_bits=8), EIGHT + EIGHT // 32, "fp8"),
        (aqlm(1, 16), FOUR // 2 + 2 * ROWS + 2 * 2**16 * 8, ""),
        (aqlm(2, 8), FOUR // 2 + 2 * ROWS + 2 * 2 * 2**8 * 8, ""),
        (torchao("Int4WeightOnlyConfig", group_size=32), FOUR + 2 * 2 * ROWS * 16, ""),
        (torchao("Int8WeightOnlyConfig"), EIGHT + 2 * ROWS, ""),
        (torchao("Int8DynamicActivationInt8WeightConfig"), EIGHT + 2 * ROWS, "int8"),
        (torchao("Int8DynamicActivationInt4WeightConfig"), FOUR + 2 * ROWS * 16, "int8"),
        (torchao("Float8DynamicActivationFloat8WeightConfig"), EIGHT + 4, "fp8"),
        (torchao("Float8DynamicActivationFloat8WeightConfig", granularity=[PER_ROW] * 2), EIGHT + 4 * ROWS, "fp8"),
        (
            torchao(
                "Int8DynamicActivationIntxWeightConfig", weight_granularity=GROUPS,
                weight_dtype={"_type": "torch.dtype", "_data": "int4"},
            ),
            FOUR + 2 * ROWS * 16, "int8",
        ),
        (
            torchao("IntxWeightOnlyConfig", weight_dtype="torch.int6", granularity=GROUPS),
            3 * FOUR // 2 + 2 * ROWS * 16, "",
        ),
        (
            {"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 64}},
            FOUR + 2 * 2 * ROWS * 8, "",
        ),
        (torchao("NVFP4WeightOnlyConfig"), FOUR + EIGHT // 16, ""),
        (torchao("MXDynamicActivationMXWeightConfig"), EIGHT + EIGHT // 32, "fp8"),
        (torchao("MXDynamicActivationMXWeightConfig", **dict.fromkeys(MX_OPERANDS, FP4)), FOUR + EIGHT // 32, "fp4"),
        (quark({"dtype": "fp8_e4m3", "qscheme": "per_tensor"}, "fp8_e4m3"), EIGHT + 4, "fp8"),
        (quark({"dtype": "fp6_e3m2", "qscheme": "per_group", "group_size": 32}), EIGHT * 6 // 8 + EIGHT // 32, ""),
        # rounded twice: NVFP4 under one scale, int4 in rows under fp8
        (quark([{"dtype": "fp4", "group_size": 16}, {"dtype": "fp8_e4m3"}], "fp4"), FOUR + EIGHT // 16, "fp4"),
        (
            quark([{"dtype": "fp8_e4m3"}, {"dtype": "int4", "qscheme": "per_channel"}], "fp8_e4m3"), FOUR + 2 * ROWS,
            "fp8",
        ),
        (quark({"dtype": "fp8_e4m3", "qscheme": "per_channel"}, "fp8_e4m3"), EIGHT + 4 * ROWS, "fp8"),
        (quark({"dtype": "fp4", "qscheme": "per_group", "group_size": 32}, "fp4"), FOUR + ROWS * 16, "fp4"),
        (quark({"dtype": "int4", "qscheme": "per_group", "group_size": 128}), FOUR + 2 * ROWS * 4, ""),
    ],
)  # fmt: skip
def test_bytes_of_a_matrix(section: dict[str, Any], nbytes: int, compute: str) -> None:
    """Weights, the scales beside them, and zero points where numbers do not lie evenly around 0."""
    storage = read_quantisation(section).storage(PATH, "linear")
    assert storage is not None
    assert (storage.nbytes((256, 512)), storage.compute) == (nbytes, compute)


def test_formats_by_module() -> None:
    """torchao: a name before a pattern before the rest; HQQ: the module of that name in every layer."""
    four, eight = ({"_type": f"Int{n}WeightOnlyConfig", "_data": {}} for n in (4, 8))
    by = {"_default": four, "re:model\\.layers\\..+\\.mlp.*": eight, "model.layers.1.mlp.up_proj": None}
    found = read_quantisation(torchao("ModuleFqnToConfig", module_fqn_to_config=by))
    assert found.storage("model.layers.0.self_attn.q_proj", "linear").dtype == "int4"  # type: ignore[union-attr]
    assert found.storage(PATH, "linear").dtype == "int8"  # type: ignore[union-attr]
    assert found.storage("lm_head", "head") is None
    dynamic = read_quantisation(
        {"quant_method": "hqq", "quant_config": {"mlp.up_proj": {"weight_quant_params": {"nbits": 2}}}}
    )
    assert dynamic.storage("model.layers.7.mlp.up_proj", "linear").dtype == "int2"  # type: ignore[union-attr]
    assert dynamic.storage("model.layers.7.mlp.down_proj", "linear") is None


def test_a_module_that_is_left_alone_comes_before_patterns() -> None:
    eight = {"_type": "Int8WeightOnlyConfig", "_data": {}}
    by = {"re:.*up_proj": eight, "model.layers.1.mlp.up_proj": None}
    found = read_quantisation(torchao("ModuleFqnToConfig", module_fqn_to_config=by))
    assert found.storage("model.layers.1.mlp.up_proj", "linear") is None
    assert found.storage(PATH, "linear") is not None


def test_a_table_that_is_quantised_apart_from_the_head() -> None:
    """8 bits a row for the table, 4 bits in groups of 32 for the head, which it was tied to."""
    rows = {"weight_dtype": {"_type": "torch.dtype", "_data": "int8"}, "granularity": {"_type": "PerAxis", "_data": {}}}
    groups = {"weight_dtype": {"_type": "torch.dtype", "_data": "int4"}, "weight_granularity": GROUPS}
    by = {
        "_default": {"_type": "Int8DynamicActivationIntxWeightConfig", "_data": groups},
        "model.embed_tokens": {"_type": "IntxWeightOnlyConfig", "_data": rows},
    }
    section = torchao("ModuleFqnToConfig", module_fqn_to_config=by)
    section |= {"include_input_output_embeddings": True, "untie_embedding_weights": True}
    tied = {**LLAMA, "tie_word_embeddings": True}
    one, both = load(tied), load({**tied, "quantization_config": section})
    assert both.parameters == one.parameters + 1000 * 256
    matrices = 2 * (4 * 256 * 256 + 3 * 256 * 512) + 1000 * 256
    table = 1000 * 256 + 2 * 1000
    assert both.weight_bytes() == matrices // 2 + 2 * matrices // 32 + table + 2 * 5 * 256


@pytest.mark.parametrize(
    ("name", "books", "bits", "published"),
    [
        ("llama-2-7b", 1, 16, 2.4),
        ("llama-2-13b", 1, 16, 4.1),
        ("llama-2-70b", 1, 16, 18.8),
        ("llama-2-70b", 2, 8, 18.2),
    ],
)
def test_checkpoints_of_aqlm_are_as_large_as_published(name: str, books: int, bits: int, published: float) -> None:
    """Gigabytes of the checkpoints, by the README of AQLM."""
    stored = replace(load(name), quantisation=read_quantisation(aqlm(books, bits)))
    assert round(stored.weight_bytes() / 1e9, 1) == published


def test_modules_are_named_by_their_weights_too() -> None:
    found = read_quantisation({**aqlm(1, 16), "linear_weights_not_to_quantize": [f"{PATH}.weight", "o_proj.weight"]})
    left = [found.storage(path, "linear") is None for path in (PATH, f"{PATH[:-7]}down_proj", "layers.1.mlp.o_proj")]
    assert left == [True, False, True]


def test_keys_and_values_that_quark_quantises() -> None:
    fp8 = {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}
    by = {f"*{name}": {"weight": fp8, "output_tensors": fp8} for name in ("k_proj", "v_proj")}
    assert read_quantisation(quark(fp8, "fp8_e4m3", layer_quant_config=by)).kv == "fp8_e4m3"
    assert read_quantisation(quark(fp8, "fp8_e4m3")).kv is None


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (hqq(3, 64), "^bits of HQQ: 3 is not understood; known are: 8, 4, 2, 1$"),
        ({"quant_method": "quanto", "weights": "int3"}, "weights of Quanto: 'int3' is not understood"),
        (torchao("Float7WeightOnlyConfig"), "'Float7WeightOnlyConfig' is not understood; did you mean 'Float8Weig"),
        (aqlm(1, 12), "^bits of AQLM: 1.5 is not understood; known are: 8, 4, 2, 1$"),
        ({**aqlm(1, 16), "in_group_size": 0}, "in_group_size of AQLM: 0 is not understood"),
        ({**aqlm(1, 16), "in_group_size": [[1]], "out_group_size": 2**31}, "in_group_size of AQLM: .* is not underst"),
        ({"quant_method": "fouroversix", "dtype": "fp8"}, "weights of Four Over Six: 'fp8' is not understood"),
        ({"quant_method": "metal", "bits": 3}, "^bits of Metal: 3 is not understood; known are: 8, 4, 2$"),
        ({"bits": 7, "group_size": 64}, "^bits of MLX: 7 is not understood; known are: 8, 6, 5, 4, 3, 2$"),
        ({"bits": 4, "group_size": 64, "mode": "nf4"}, "^a mode of MLX: 'nf4' is not understood; did you mean"),
        (auto_round(6, "mx_fp"), "^weights of auto-round: 'mxfp6' is not understood; did you mean 'mxfp8'"),
        ({"quant_method": "vptq"}, "^quantisation method 'vptq' is not understood; methods are: fp8, mxfp8, compr"),
        ({"quant_method": "quark"}, "the quark section says no format of weights"),
        (quark({"dtype": "fp5_e3m1", "group_size": 32}), "weights of Quark: 'fp5_e3m1' is not understood"),
        ({"quant_method": "torchao", "quant_type": {"default": [1]}}, "torchao section is not of its usual form"),
    ],
)
def test_messages(section: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_quantisation(section)


@pytest.mark.parametrize("section", ["quantization", "quantization_config"])
def test_mlx_stores_tables_and_head_as_well(section: str) -> None:
    """The file of mlx-community's Llama 3.1 8B in 4 bits has 4.52 GB; older files have the first name alone."""
    fields = {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
    }  # fmt: skip
    model = load({**fields, section: {"group_size": 64, "bits": 4}})
    norms = 65 * 4096
    assert model.weight_bytes() == (model.parameters - norms) * 9 // 16 + 2 * norms == 4517404672
    assert model.gaps == ()
