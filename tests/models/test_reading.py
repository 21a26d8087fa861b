"""Reading configurations: all of the shipped ones, files and folders, and what is said about bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.errors import InputError, RooflineError
from roofline.models import load, names, prefill
from roofline.models.families import known_types
from roofline.statements import kind_of
from tests.models.tiny import TINY
from tests.strategies import LONG, for_each, some

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
}


def changed(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**LLAMA, **changes}.items() if value is not ...}


def test_every_shipped_name_reads() -> None:
    for name in names():
        model = load(name)
        assert model.layers
        assert model.source


@pytest.mark.parametrize("name", ["llama13b", "LLaMA_13B", "llama 13b"])
def test_names_read_without_what_stands_between_their_parts(name: str) -> None:
    assert load(name).parameters == load("llama-13b").parameters


def test_unknown_fields_of_the_shipped_are_none() -> None:
    """What is not modelled of the shipped models is towers and sections that are missing, never a field."""
    for name in names():
        assert not [gap for gap in load(name).gaps if "is not understood" in gap], name


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert load(tmp_path).parameters == load(tmp_path / "config.json").parameters == load(LLAMA).parameters
    assert load(tmp_path).name == load(tmp_path / "config.json").name == tmp_path.name
    assert load(tmp_path).name == tmp_path.name


def test_quantisation_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps(
            {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
        )
    )
    plain, narrow = load(LLAMA), load(tmp_path)
    assert narrow.quantisation is not None
    assert narrow.weight_bytes() < plain.weight_bytes()


BESIDE = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}


@pytest.mark.parametrize(
    ("config", "beside", "found"),
    [
        ("config.json", "hf_quant_config.json", True),
        ("toy.json", "toy_hf_quant_config.json", True),
        ("toy.json", "hf_quant_config.json", False),
        ("toy.json", "other_hf_quant_config.json", False),
    ],
)
def test_a_file_names_the_section_beside_it(tmp_path: Path, config: str, beside: str, found: bool) -> None:
    (tmp_path / config).write_text(json.dumps(LLAMA))
    (tmp_path / beside).write_text(json.dumps(BESIDE))
    assert (load(tmp_path / config).quantisation is not None) is found


def test_the_section_beside_adds_what_the_configuration_leaves_out(tmp_path: Path) -> None:
    own = {"quant_method": "modelopt", "quant_algo": "FP8"}
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "quantization_config": own}))
    quantization = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": quantization}))
    found = load(tmp_path).quantisation
    assert found is not None
    assert found.kv == "fp8_e4m3"
    assert found.default is not None
    assert found.default.dtype == "fp8_e4m3"


def test_sections_that_number_experts(tmp_path: Path) -> None:
    sizes = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "model_type": "qwen3_moe"}
    for listed in (
        {f"model.layers.0.mlp.experts.{n}.up_proj": {"quant_algo": "NVFP4"} for n in range(4)},
        {"model.layers.0.mlp.experts.*.up_proj": {"quant_algo": "NVFP4"}},
        {r"re:.*layers\.0\.mlp\.experts\.\d+\.up_proj": {"quant_algo": "NVFP4"}},
    ):
        section = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": listed}
        model = load(changed(**sizes, quantization_config=section))
        held = {
            (number, weight.name): model.storages()(f"layers.{number}")(f"mlp.{weight.name}", weight).dtype
            for number, layer in enumerate(model.layers) for weight in layer.blocks[4].weights()
        }  # fmt: skip
        assert {key for key, dtype in held.items() if dtype == "nvfp4"} == {(0, "experts.up_proj")}


FACTS: dict[str, dict[str, int]] = json.loads(
    (Path(__file__).parents[1] / "data" / "checkpoint_facts.json").read_text(encoding="utf-8")
)["models"]


@for_each("name", sorted(FACTS))
def test_parameters_and_bytes_of_published_checkpoints(name: str) -> None:
    model = load(name)
    beside = 0 if model.vision is None else model.vision.weight_bytes()
    found = {"parameters": model.parameters, "prediction": model.mtp_parameters, "bytes": model.weight_bytes() - beside}
    assert found == FACTS[name]
    assert not model.gaps


def test_a_model_that_judges_or_embeds_has_no_head_and_generates_nothing() -> None:
    """E5-Mistral's published file holds 7.11 billion numbers; ChatGLM's class generates, by the code beside it."""
    sizes = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32}
    mistral = {"model_type": "mistral", **sizes, "num_key_value_heads": 8, "vocab_size": 32000}
    found = load({**mistral, "tie_word_embeddings": False, "architectures": ["MistralModel"]})
    assert found.parameters == 7_110_660_096
    assert "MistralModel has no head over the vocabulary: it generates nothing" in found.notes
    read = prefill(found, batch=1, prompt=9)
    pairs = next(op.dims["pairs"] for op in read if op.kind == "attention")
    assert (pairs, found.cache_bytes(9)) == (45, 0)
    for code in ({"AutoModelForCausalLM": "its.code"}, {"AutoModel": "code.ChatGLMForConditionalGeneration"}):
        by_code = {"architectures": ["MistralModel"], "auto_map": code}
        assert load({**mistral, **by_code, "tie_word_embeddings": False}).head


def test_no_shipped_name_promises_a_format_it_does_not_have() -> None:
    for name in names():
        model = load(name)
        if any(word in name for word in ("fp8", "nvfp4")):
            assert model.quantisation is not None, name


def test_a_field_nobody_understands_is_listed() -> None:
    model = load(changed(new_kind_of_memory=4))
    assert model.gaps == ("new_kind_of_memory is not understood and not modelled",)
    assert load(changed(new_kind_of_memory=None, other=False)).gaps == ()


def test_a_name_that_promises_a_format_is_listed() -> None:
    gaps = load(LLAMA, name="Llama-FP8").gaps
    assert gaps == ("the name says FP8, the configuration has no quantization_config: weights as bf16",)
    assert kind_of(gaps[0]) == "format"


MESSAGES: list[tuple[dict[str, Any], str]] = [
    (changed(model_type=...), "toy has no model_type; a config.json names its family there"),
    (
        changed(model_type="lama"),
        "no reader for model_type 'lama'; did you mean 'llama'? Or if its layers are those of",
    ),
    (changed(model_type=[1] * 99), "model_type of toy is [1, 1, 1, 1, …]; it is a text"),
    (changed(model_type=None), "toy has no model_type; a config.json names its family there"),
    (changed(tie_word_embeddings=[1] * 99), "tie_word_embeddings of toy is [1, 1, 1, 1, …]; it is true or false"),
    (
        changed(model_type="zamba2", num_attention_heads=999, num_key_value_heads=...),
        "toy: twice the width, 128, does not divide into 999 heads; check the configuration",
    ),
    (changed(model_type="minicpmv", version=3.7), "version of toy is '3.7'; known for version are: 2.0, 2.5, 2.6, 4.0"),
    (
        changed(model_type="lfm2", block_ffn_dim_multiplier="1", conv_L_cache=3, layer_types=["conv", "conv"]),
        "block_ffn_dim_multiplier of toy is '1'; it is a number above 0",
    ),
    (
        changed(model_type="exaone4", sliding_window=8, sliding_window_pattern=""),
        "sliding_window_pattern of toy is ''; it is a whole number of at least 1",
    ),
    (changed(vocab_size=...), "toy has no vocab_size; a llama configuration needs it"),
    (changed(hidden_size=0), "hidden_size of toy is 0; it is a whole number of at least 1"),
    (changed(hidden_size=2.5), "hidden_size of toy is 2.5; it is a whole number of at least 1"),
    (changed(hidden_size="64"), "hidden_size of toy is '64'; it is a whole number of at least 1"),
    (changed(num_hidden_layers=-2), "num_hidden_layers of toy is -2; it is a whole number of at least 1"),
    (changed(num_attention_heads=5), "toy: a width of 64 does not divide into 5 heads; check the configuration"),
    (changed(num_key_value_heads=3), "toy: 4 query heads do not share 3 key heads evenly; check the configuration"),
    (changed(hidden_act="silo"), "hidden_act of toy is 'silo'; did you mean 'silu'?"),
    (changed(tie_word_embeddings="yes"), "tie_word_embeddings of toy is 'yes'; it is true or false"),
    (
        changed(layer_types=["full_attention"]),
        "layer_types of toy lists 1 layers and num_hidden_layers says 2; the two contradict each other",
    ),
    (changed(layer_types=["full_attention", "ful"]), "layer type 'ful' of toy is not understood; "),
    (changed(layer_types=["full_attention", None]), "layer type None of toy is not understood; "),
    (changed(layer_types="full"), "layer_types of toy is 'full'; it is a list"),
    (
        changed(model_type="mixtral", num_local_experts=4, num_experts_per_tok=8),
        "toy sends a token to 8 of 4 experts; check the configuration",
    ),
    (
        changed(model_type="gemma4", text_config=...),
        "toy has no text_config; a gemma4 configuration holds its language model there",
    ),
    (changed(quantization_config="fp8"), "quantization_config of toy is 'fp8'; it is a set of fields"),
    (changed(vision_config=[1]), "vision_config of toy is [1]; it is a set of fields"),
    (changed(text_config="x"), "text_config of toy is 'x'; it is a set of fields"),
    (changed(text_config={"quantization_config": 8}), "quantization_config of the language part of toy is 8; it is a"),
    (
        changed(quantization_config={"quant_method": "fp9"}),
        "quantisation method 'fp9' is not understood; did you mean 'fp8'?",
    ),
    (
        changed(quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP5"}),
        "quant_algo 'NVFP5' is not understood; did you mean 'NVFP4'?",
    ),
    (
        changed(model_type="prophetnet"),
        "model_type 'prophetnet' has an encoder beside its decoder of a kind that is not modelled; decoders, a few",
    ),
    (changed(model_type="musicgen"), "model_type 'musicgen' has an encoder beside its decoder"),
    (changed(model_type="siglip"), "model_type 'siglip' has no language model"),
    (changed(model_type="dbrx"), "toy has no attn_config or no ffn_config; a dbrx configuration needs both"),
    (
        changed(model_type="jamba", num_experts=1, attn_layer_period=None),
        "toy has no layer_types; a hybrid's configuration says which layers attend",
    ),
    (
        changed(model_type="lfm2", conv_L_cache=3, layer_types=["conv", "full"]),
        "layer type 'full' of toy is not understood; did you mean 'full_attention'?",
    ),
    (
        changed(model_type="falcon_h1", mamba_n_heads=8, mamba_d_head=16, mamba_d_state=10, mamba_d_ssm=100),
        "mamba_d_ssm of toy is 100 and its heads make 128",
    ),
    (
        changed(model_type="mpt", attn_config={"attn_type": "multiquery_attention"}),
        "attn_type of attn_config of toy is 'multiquery_attention'; it is read only as 'multihead_attention'",
    ),
    (
        changed(model_type="gpt_neo", attention_types=[[["global", "near"], 1]]),
        "attention_types of toy is not understood; 'global' or 'local' for every layer",
    ),
    (
        changed(model_type="hunyuan_v1_moe", num_experts=4, moe_topk=[1, 2]),
        "moe_topk of toy is [1, 2]; it is a whole number of at least 1",
    ),
    (
        changed(model_type="llada", block_type="sequential"),
        "block_type of toy is 'sequential'; it is read only as 'llama'",
    ),
    (changed(model_type="llada", num_experts=64), "num_experts of toy is 64; leave it out"),
    (changed(model_type="dory", swa_num_key_value_heads=3), "swa_num_key_value_heads of toy is 3; it is read only as"),
    (changed(model_type="jais"), "activation_function of toy is 'gelu_new'; known for activation_function are: swiglu"),
    (
        changed(model_type="gigachat3_5", linear_attention_type="KimiDeltaAttention"),
        "linear_attention_type of toy is 'KimiDeltaAttention'; it is read only as 'Qwen3NextGatedDeltaNet'",
    ),
    (changed(torch_dtype="bfloat17"), "unknown dtype 'bfloat17'; did you mean 'bfloat16'?"),
]


@pytest.mark.parametrize(("data", "message"), MESSAGES)
def test_messages(data: dict[str, Any], message: str) -> None:
    with pytest.raises(RooflineError) as caught:
        load(data, name="toy")
    assert message in str(caught.value)


def test_a_tuned_model_is_read_as_its_base_with_or_without_its_owner() -> None:
    for name in ("Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", "llama-3-70b-instruct"):
        found = load(name)
        assert (found.parameters, found.notes[-1].startswith(f"{name} is read as llama-3")) == (70_553_706_496, True)


def test_messages_about_files(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_text(json.dumps(LLAMA)[:40])
    listing = tmp_path / "list.json"
    listing.write_text("[1, 2]")
    for source, message in (
        (cut, "is not valid JSON at line 1, column 41; is it cut short?"),
        (listing, "is not a configuration; a config.json is a set of fields in braces"),
        (tmp_path / "none.json", "no file "),
        (tmp_path, "holds no config.json; name the file itself"),
        ("lama-2-7b", "no model 'lama-2-7b'; did you mean 'llama-2-7b'?"),
        ("bert-large", "did you mean 'bert-base'? it is not shipped, but model_type 'bert' is read"),
    ):
        with pytest.raises(InputError) as caught:
            load(source)
        assert message in str(caught.value)


#: What a field is broken by: left out, or of a wrong kind.
VALUES: tuple[Any, ...] = (..., 0, "x", [1], None)


def test_a_cut_configuration_never_crashes() -> None:
    """Drop each field of each family once: an answer or one clear message."""
    seen, refused = set(), 0
    for name in names():
        source = Path(__file__).parents[2] / "src/roofline/models/catalog"
        file = json.loads((source / "index.json").read_text(encoding="utf-8"))[name]
        data = json.loads((source / file).read_text(encoding="utf-8"))
        if data["model_type"] in seen:
            continue
        seen.add(data["model_type"])
        inner = data.get("text_config", data)
        for field in list(inner):
            for value in VALUES if LONG else (VALUES[len(field) % 5],):
                broken = {k: v for k, v in {**inner, field: value}.items() if v is not ...}
                try:
                    load({**data, "text_config": broken} if inner is not data else broken, name="toy")
                except RooflineError:
                    refused += 1
    assert refused > (500 if LONG else 100)
    assert len(seen) > 15


@for_each("name", some(sorted(TINY), 4))
def test_a_cut_small_configuration_never_crashes(name: str) -> None:
    """The same of every family that is read."""
    refused = 0
    for field in TINY[name]:
        for value in (*VALUES, {}) if LONG else ((*VALUES, {})[len(field) % 6],):
            try:
                load({k: v for k, v in {**TINY[name], field: value}.items() if v is not ...}, name="toy")
            except RooflineError:
                refused += 1
    assert refused > 2


@pytest.mark.parametrize("name", ["qwen3_moe", "mellum", "kolibri1"])
def test_experts_are_counted_by_the_name_that_transformers_saves(name: str) -> None:
    """Published files say num_experts, those that transformers 5 writes num_local_experts."""
    count = next(TINY[name][field] for field in ("num_experts", "num_local_experts") if field in TINY[name])
    plain = {k: v for k, v in TINY[name].items() if k not in ("num_experts", "num_local_experts")}
    found = {load({**plain, field: count}, name=name).parameters for field in ("num_experts", "num_local_experts")}
    assert found == {load(TINY[name]).parameters}


def test_known_types() -> None:
    assert {"llama", "gpt2", "bert", "deepseek_v3", "nemotron_h", "gemma4"} <= set(known_types())


def test_a_pattern_may_list_more_layers_than_there_are() -> None:
    data = TINY["mimo_v2_flash"]
    assert len(load({**data, "num_hidden_layers": 2}).layers) == 2


def test_a_configuration_is_a_model_wherever_a_model_is_asked(tmp_path: Path) -> None:
    fields = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 2}
    fields |= {"num_attention_heads": 4, "vocab_size": 96}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    for source in (fields, path, str(path)):
        assert roofline.llm(source, on="h100", context=8).decode.lower > 0
        assert roofline.train(source, on="h100", batch_tokens=4096).lower > 0
        assert roofline.model(source).parameters == 63_808
    assert roofline.train(8e9, on="h100:8", tokens=1e12, mfu=0.4).days > 0


def test_a_configuration_object_is_its_fields() -> None:
    class LlamaConfig:
        model_type = "llama"

        def to_dict(self) -> dict[str, Any]:
            return {
                "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                "intermediate_size": 128, "vocab_size": 100,
            }  # fmt: skip

    given: Any = LlamaConfig()
    assert load(given).parameters == load(given.to_dict()).parameters
    assert roofline.llm(given, on="l4", context=64).model.parameters == load(given).parameters
    with pytest.raises(InputError, match="is not a model; give a shipped name"):
        load(object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("llama3", "llama-3-405b, llama-3-70b, llama-3-8b"), ("gpt-oss", "gpt-oss-120b, gpt-oss-20b"),
        ("llama-70b", "llama-3-70b, llama-3.1-70b-instruct-fp8, llama2-70b"),
    ],
)  # fmt: skip
def test_models_that_have_all_parts_of_a_name_are_named(asked: str, named: str) -> None:
    with pytest.raises(InputError) as wrong:
        load(asked)
    assert wrong.value.hint == f"shipped are: {named}"


def test_all_unknown_models_of_one_call_are_named_at_once() -> None:
    named = ["llama-3-8b", "bloom-7b1", "lama-2-7b"]
    said = r"no models 'bloom-7b1', 'lama-2-7b'; bloom-7b1: it is not shipped.*; lama-2-7b: did you mean 'llama-2-7b'\?"
    for asked in (roofline.llm, roofline.sweep):
        with pytest.raises(InputError, match=rf"{said}; `roofline model` lists the shipped ones"):
            asked(named, on=["h100"], batch=8, context=4096)
    with pytest.raises(InputError, match="no models 'nosuch', 'nope'; nosuch, nope: `roofline model` lists") as wrong:
        roofline.llm(["nosuch", "nope"], on="h100", batch=8, context=4096)
    assert str(wrong.value).count("lists the shipped ones") == 1
    with pytest.raises(InputError, match=r"no models 'a\.json', 'b\.json'; a\.json, b\.json: check the path; `roof"):
        roofline.llm(["llama-3-8b", "a.json", "b.json"], on="h100", batch=8, context=4096)
    with pytest.raises(InputError, match=r"no model 'bloom-7b1'; .*`roofline model` lists the shipped ones"):
        roofline.llm(["llama-3-8b", "bloom-7b1"], on="h100", batch=8, context=4096)


def test_a_text_that_is_no_name_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="no model '-----"):
        load("-" * 200_000 + "a")


def test_of_many_unknown_models_the_first_are_named() -> None:
    with pytest.raises(InputError, match=r"no models 'a0', 'a1', .*'a7'; ") as wrong:
        roofline.llm([f"a{at}" for at in range(2000)], on="h100", batch=8, context=4096)
    assert "a8" not in str(wrong.value)


def test_a_word_for_inputs_names_the_argument() -> None:
    with pytest.raises(InputError, match="there is no argument 'input'; did you mean 'inputs'"):
        roofline.trace(lambda x: x, input="bf16[8, 8]", on="h100")


@pytest.mark.long
def test_titles_say_whose_configuration_stands_under_the_name_of_another_release() -> None:
    found = {name: load(name).checkpoint for name in names()}
    other = {name: checkpoint for name, checkpoint in found.items() if checkpoint}
    sizes = {f"llama-3-{size.lower()}": f"Meta-Llama-3.1-{size}" for size in ("8B", "70B", "405B")}
    same = {"llama-3.3-70b": "Meta-Llama-3.1-70B", "mistral-7b-v0.3": "Mistral-7B-Instruct-v0.3"}
    assert other == {**sizes, **same}
    asked = {"on": "h100:8", "tensor": 8, "context": 2048}
    for found_of in (
        roofline.llm("llama-3-70b", **asked),
        roofline.llm("llama-3-70b", batch=[1, 2], front=True, **asked),
        roofline.llm("llama-3-70b", on="h100", fit=True),
        roofline.train("llama-3-70b", on="h100:64", batch_tokens="1M"),
        roofline.sweep("llama-3-70b", batch=[1, 2], **asked),
    ):
        assert str(found_of).startswith("llama-3-70b (Meta-Llama-3.1-70B)")
