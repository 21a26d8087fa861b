"""Layers that share weights: held, reduced and updated once, used by each; with keys and activations of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import roofline
from roofline.bounds.bound import Bound
from roofline.errors import InputError
from roofline.frozen import replace
from roofline.models import advise_step, decode, load, prefill, serve_bound, train
from roofline.models.closed_form import formula
from roofline.models.description import Model
from roofline.models.parallelism.splitting import split_into_stages
from roofline.models.serving.step import served_model
from roofline.models.training.budget import adapter_parameters
from tests.models.small import small
from tests.models.test_published import sizes

#: Published configurations, with the parameters of transformers' classes: without a head, with a pooler.
ALBERTS = {
    "albert-base-v2": ((768, 12, 12, 3072), 11_683_584),
    "albert-large-v2": ((1024, 24, 16, 4096), 17_683_968),
    "albert-xlarge-v2": ((2048, 24, 16, 8192), 58_724_864),
    "albert-xxlarge-v2": ((4096, 12, 64, 16384), 222_595_584),
}


def albert(name: str) -> dict[str, Any]:
    return sizes(
        "albert", *ALBERTS[name][0], 30000, embedding_size=128, inner_group_num=1, num_hidden_groups=1,
        max_position_embeddings=512, type_vocab_size=2, hidden_act="gelu_new", net_structure_type=0, gap_size=0,
        num_memory_blocks=0, down_scale_factor=1, classifier_dropout_prob=0.1, torch_dtype="bfloat16",
    )  # fmt: skip


@pytest.mark.parametrize("name", ALBERTS)
def test_albert(name: str) -> None:
    """One layer's weights serve all layers; a token uses all of them but rows of the tables."""
    model, (shape, parameters) = load(albert(name)), ALBERTS[name]
    tables = (512 + 2 - 2) * 128
    assert (model.parameters, model.active_parameters, model.gaps) == (parameters, parameters - tables, ())
    assert (len(model.layers), model.weight_bytes()) == (shape[1], 2 * parameters)
    assert f"{shape[1]} layers use one set of weights" in " ".join(model.notes)


#: Published: Zamba, 7B, one block in 13 layers; Zamba2, 7.4B, two blocks that take turns in 13. Parameters are those
#: that transformers 5.24 builds and ties.
ZAMBA = {
    "model_type": "zamba",
    "hidden_size": 3712,
    "num_hidden_layers": 76,
    "num_attention_heads": 16,
    "vocab_size": 32000,
    "intermediate_size": 14848,
}
ZAMBA2 = sizes(
    "zamba2", 3584, 81, 32, 14336, 32000, adapter_rank=128, add_bias_linear=False, attention_head_dim=224,
    attention_hidden_size=7168, hybrid_layer_ids=[6, *range(11, 78, 6)], mamba_d_conv=4, mamba_d_state=64,
    mamba_expand=2, mamba_headdim=64, mamba_ngroups=2, n_mamba_heads=112, num_mem_blocks=2, use_mem_rope=True,
    use_shared_attention_adapter=False, kv_channels=112, num_query_groups=32, num_key_value_heads=32,
    use_shared_mlp_adapter=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("data", "parameters", "kv", "turns"),
    [(ZAMBA, 7_232_490_496, 13 * 2 * 16 * 464 * 2, [13]), (ZAMBA2, 7_356_749_648, 13 * 2 * 32 * 224 * 2, [7, 6])],
)
def test_zamba(data: dict[str, Any], parameters: int, kv: int, turns: list[int]) -> None:
    model = load(data)
    assert (model.parameters, model.active_parameters) == (parameters, parameters)
    assert (model.kv_bytes_per_token(), model.gaps) == (kv, ())
    assert [count for layer, count in model.layer_counts() if layer.shared] == turns
    # 2 FLOPs a parameter and use: those that layers share are used by each
    held = [each for each in model.layer_weights() if each.shared and each.weight.kind == "linear"]
    uses = {f"block {turn}": count for turn, count in enumerate(turns)}
    again = sum((uses[each.shared] - 1) * each.weight.elements for each in held)
    step = decode(model, batch=1, context=1)
    flops = sum(op.work.total("flops", "matrix") * op.repeat for op in step if op.kind == "contraction")
    once = sum(w.elements for _, w in matrices(model))
    assert flops == 2 * (once + again + model.vocabulary * model.width)


def test_states_are_said_beside_keys_and_values() -> None:
    found = roofline.llm(ZAMBA2, on="h100", batch=8, context=4096)
    states = 81 * (112 * 64 * 64 * 4 + 3 * (7168 + 2 * 2 * 64) * 2)  # the mixers' in fp32, the convolutions' in bf16
    assert found.model.state_bytes() == states
    assert found.memory.parts["kv"] == 8 * (4097 * found.model.kv_bytes_per_token() + states)
    assert "(373 kB a token, states 152 MB a sequence)" in " ".join(str(found).split())


def matrices(model: Model) -> list[tuple[int, Any]]:
    return [(n, each.weight) for each in model.layer_weights() if each.weight.kind == "linear" for n in each.layers]


def test_the_looped_inkling_2() -> None:
    """Every number is the class's own in transformers 5.24: 12 of 24 layers run three times, 48 in all."""

    def looped(**more: Any) -> Model:
        text = {"model_type": "inkling2_loop_text", **more}
        return load({"model_type": "inkling2_loop", "dtype": "bfloat16", "text_config": text})

    model, plain = looped(), looped(loop_num_passes=1)
    assert (model.parameters, len(model.layers)) == (26_068_156_416, 48)
    experts = 24 * 120 * 3 * 2304 * 1152
    assert model.active_parameters == model.parameters - experts - 966 * 2304
    assert model.kv_bytes_per_token() == 2 * 48 * 8 * (128 + 128)
    # gates of 4 messages, and what a token hears of, are the loop's own: run in two of three turns
    gates = 12 * (4 * (64 * 2 * 2304 + 2 * 2304 * 64) + 4 * 2304)
    assert (plain.parameters, plain.active_parameters) == (model.parameters, model.active_parameters - gates)
    assert len(plain.layers) == 24
    assert len(looped(loop_config={"core_start": 12, "num_passes": 6}).layers) == 24 + 5 * 6
    with pytest.raises(InputError, match="is not understood; it starts and ends with blocks of 6 layers"):
        looped(loop_layer_index_start=5)


@pytest.mark.parametrize("uses", [1, 2])
def test_mobile_layers_run_twice(uses: int) -> None:
    """Published: 124.6M with 30 layers, and as many with layers that are used twice in turn."""
    data = sizes(
        "mobilellm", 576, 30, 9, 1536, 32000, num_key_value_heads=3, head_dim=64, share_embedding=True,
        layer_sharing=uses == 2, tie_word_embeddings=False, torch_dtype="float16",
    )  # fmt: skip
    model = load(data)
    assert (model.parameters, len(model.layers), model.gaps) == (124_635_456, 30 * uses, ())
    assert model.kv_bytes_per_token() == 30 * uses * 2 * 3 * 64 * 2
    flops = sum(op.work.total("flops", "matrix") * op.repeat for op in decode(model, batch=1, context=1))
    norms = 61 * 576
    layers = 124_635_456 - 32000 * 576 - norms
    assert flops == 2 * (uses * layers + 32000 * 576) + uses * 30 * 9 * 4 * 64 * 2


def test_stages_after_the_first_lack_the_embedding() -> None:
    with pytest.raises(InputError, match="a stage of the pipeline needs the embedding from an earlier one"):
        serve_bound(load(ZAMBA2), "decode", on="h100:2", pipeline=2, context=100)
    step = train(load(ZAMBA2), on="h100:64", batch_tokens=2**20, tensor=8)
    assert 0 < step.lower <= step.op_by_op


#: Three layers of Llama, whose last two share all weights, or their MLPs.
PLAIN = load(small("llama", num_hidden_layers=3, torch_dtype="bfloat16"))
ATTENTION, MLP, NORMS = 2 * 64 * 64 + 2 * 64 * 32, 3 * 64 * 48, 2 * 64


def sharing(*modules: str) -> Model:
    first, *rest = PLAIN.layers
    shared = tuple((module, "both") for module in modules)
    return replace(PLAIN, layers=(first, *(replace(layer, shared=shared) for layer in rest)))


@pytest.mark.parametrize(("modules", "each"), [(("",), ATTENTION + MLP + NORMS), (("mlp",), MLP)])
def test_what_layers_share_is_held_once_and_used_by_each(modules: tuple[str, ...], each: int) -> None:
    model, batch = sharing(*modules), 4
    assert PLAIN.parameters - model.parameters == PLAIN.active_parameters - model.active_parameters == each
    assert PLAIN.weight_bytes() - model.weight_bytes() == 2 * each
    assert model.cache_bytes(100) == PLAIN.cache_bytes(100)
    assert model.kv_bytes_per_token() == PLAIN.kv_bytes_per_token()
    for build, size in ((prefill, {"prompt": 50}), (decode, {"context": 50})):
        flops = [
            sum(op.work.total("flops") * op.repeat for op in build(one, batch=batch, **size)) for one in (model, PLAIN)
        ]
        assert flops[0] == flops[1]


def parts(step: Bound) -> Mapping[str, Any]:
    assert step.footprint is not None
    return step.footprint.parts


@pytest.mark.parametrize("policy", ["minimal", "streamed", "fused", "each-op"])
def test_a_floor_reads_shared_weights_once_and_operations_read_them_each(policy: str) -> None:
    asked: dict[str, Any] = {"on": "h100", "batch": 4, "context": 50, "policy": policy}
    shared, plain = (serve_bound(one, "decode", **asked) for one in (sharing("mlp"), PLAIN))
    once = policy in ("minimal", "streamed")
    assert sum(plain.bytes.values()) - sum(shared.bytes.values()) == (2 * MLP if once else 0)
    less, same = ([parts(step)[name] for step in (plain, shared)] for name in ("weights", "activations"))
    assert less[0] - less[1] == 2 * MLP
    assert same[0] == same[1]


def test_a_formula_calls_shared_weights_weights() -> None:
    """Their reads are spread over the layers: a 13th of each, whose sum is whole but for rounding."""
    (memory,) = (term for term in formula(ZAMBA2, on="h100", batch=8).terms if term.resource == "hbm")
    assert [part.label for part in memory.parts] == ["weights", "activations", "states", "keys and values"]


def test_the_chips_of_a_stage_hold_what_its_layers_share() -> None:
    """Of three stages two have a layer with the same MLP; of two stages one has both."""
    model = sharing("mlp")
    assert sum(part.parameters for part in split_into_stages(model, 3)) == PLAIN.parameters
    stages = split_into_stages(model, 2, [2.0, 1.0, 1.0])
    assert sum(part.parameters for part in stages) == model.parameters
    split, plain = (serve_bound(one, "decode", on="h100:2", tensor=2, batch=4, context=50) for one in (model, PLAIN))
    assert sum(plain.bytes.values()) - sum(split.bytes.values()) == 2 * MLP / 2
    assert parts(plain)["weights"] - parts(split)["weights"] == 2 * MLP / 2


def test_shared_weights_stay_on_the_chip_and_have_one_adapter() -> None:
    model = sharing("mlp")
    with_host = served_model(model, {"host_layers": 2})
    assert with_host.host_bytes() == 2 * 2 * (ATTENTION + NORMS)
    assert with_host.weight_bytes() + with_host.host_bytes() == model.weight_bytes()
    one = 8 * 3 * (64 + 48)
    assert adapter_parameters(PLAIN, 8) - adapter_parameters(model, 8) == one
    served = served_model(model, {"lora": 8, "adapters": 2})
    assert served.weight_bytes() - model.weight_bytes() == 2 * 2 * adapter_parameters(model, 8)
    quantised = {"quant_method": "fp8", "weight_block_size": [16, 16]}
    narrow = load(small("llama", torch_dtype="bfloat16", quantization_config=quantised))
    less = narrow.weight_bytes() - replace(narrow, layers=model.layers).weight_bytes()
    assert less == MLP + 4 * MLP // 256


def sent(step: Any, name: str) -> float:
    found = [op.op for stage in step.stages for op in stage.bound.ops if name in op.op.where]
    return float(sum(op.dims["bytes"] * op.repeat for op in found))


def test_shared_weights_are_trained_once() -> None:
    """Their gradients are reduced, gathered and kept once, and the optimizer updates them once."""
    asked: dict[str, Any] = {"on": "h100:4", "batch_tokens": 512, "sequence": 32, "gradients": "bf16"}
    shared, plain = (train(one, **asked) for one in (sharing("mlp"), PLAIN))
    assert shared.flops == plain.flops
    assert shared.model_flops == plain.model_flops
    assert sent(plain, ": gradients") - sent(shared, ": gradients") == 2 * MLP
    assert sent(plain, "weights for forward") - sent(shared, "weights for forward") == 2 * MLP
    before, after = (step.memory.parts for step in (plain, shared))
    for name, each in (("weights", 2), ("gradients", 2), ("optimizer", 12), ("activations", 0)):
        assert before[name] - after[name] == each * MLP / 4
    moved = [step.bound.bytes["hbm"] for step in (plain, shared)]
    # a weight and its gradient once; the chip that looks after them reads and writes states, and the new weight
    assert moved[0] - moved[1] == pytest.approx((2 + 2 + (2 * 12 + 2) / 4) * MLP, rel=1e-9)


@pytest.mark.parametrize(("stages", "held"), [(3, 2), (2, 1)])
def test_stages_that_hold_the_same_weights_exchange_gradients(stages: int, held: int) -> None:
    """Each of two stages sends all its gradients; where one stage has both layers, none is sent."""
    shared = sharing("mlp")
    first, *rest = shared.layers
    step = train(
        replace(shared, layers=(*rest, first)), on=f"h100:{stages}", batch_tokens=96, sequence=32, pipeline=stages
    )
    assert sent(step, "that stages share") == (2 * 2 * MLP if held == 2 else 0)
    assert sum(stage.memory.parts["weights"] * len(stage.numbers) for stage in step.stages) == 2 * (
        PLAIN.parameters - (MLP if held == 1 else 0)
    )


def test_half_the_layers_have_the_same_shared_weights() -> None:
    found = advise_step(sharing("mlp"), "decode", on="h100", batch=4, context=50)
    reasons = {each.reason for each in found if " layers in place of " in each.change}
    assert reasons == {"distilled: half the arithmetic, not the shared weights"}
