"""Adapters (LoRA) trained beside frozen weights, and served: sums by hand, and the same step without adapters."""

from __future__ import annotations

from typing import Any

import pytest

from roofline import llm
from roofline.cli import main
from roofline.errors import InputError, RooflineError
from roofline.models import load, mixed, serve_bound, train, training_memory
from roofline.models.training.budget import adapter_parameters, budget
from tests.models.small import small
from tests.models.tiny import TINY
from tests.strategies import some

#: Sizes of Llama 3 8B: the width, heads' and keys' columns, hidden columns, layers, vocabulary.
D, Q, K, F, L, V = 4096, 4096, 1024, 14336, 32, 128256
MATRICES = L * (2 * D * Q + 2 * D * K + 3 * D * F)
RANK = 16
ADAPTERS = L * RANK * (2 * (D + Q) + 2 * (D + K) + 3 * (D + F))
ATTENDED = 4 * L * Q  # FLOPs of a pair of tokens, forward
TOKENS, SEQUENCE = 8192, 2048


def step(**asked: Any) -> Any:
    """A step of Llama 3 8B."""
    more = {"on": "h100", "batch_tokens": TOKENS, "sequence": SEQUENCE, **asked}
    return train("llama-3-8b", **more)


def test_flops_of_frozen_matrices_are_two_thirds() -> None:
    # published: PEFT prints 41,943,040 trainable parameters of Llama 3 8B at rank 16, all linear layers
    assert adapter_parameters(load("llama-3-8b"), RANK) == ADAPTERS == 41_943_040
    pairs = TOKENS // SEQUENCE * SEQUENCE * (SEQUENCE + 1) // 2
    frozen, trained = 2 * TOKENS * (MATRICES + V * D), 2 * TOKENS * ADAPTERS
    found = step(lora=RANK)
    # no gradient of the first layer's input is needed: q, k and v, and the first matrices of their adapters
    first = 2 * TOKENS * (D * (Q + 2 * K) + 3 * D * RANK)
    assert found.model_flops == 2 * frozen + 3 * trained + 3 * ATTENDED * pairs - first
    # attention makes its scores again in the backward pass: five products in place of four
    assert found.flops == found.model_flops + ATTENDED * pairs // 2
    assert found.six == (4 * load("llama-3-8b").parameters + 6 * ADAPTERS) * TOKENS


def test_gradients_end_at_the_first_adapters() -> None:
    asked: dict[str, Any] = {"on": "h100", "batch_tokens": 64, "sequence": 64, "lora": 4}
    found = [train(load(small("llama", num_hidden_layers=layers)), **asked).bound.ops for layers in (1, 2)]
    times = [{each.op.where: each.op.repeat for each in ops} for ops in found]
    q, norm = "layers.0.self_attn.q_proj", "layers.0.input_layernorm gradient"
    assert not {norm, f"{q} input gradient", f"{q}.lora_A input gradient"} & set(times[0])
    assert times[0]["layers.0.mlp.up_proj input gradient"] == 1
    assert times[0][f"{q}.lora_A weight gradient"] == times[0][f"{q}.lora_B input gradient"] == 1
    both = ("self_attn.q_proj input gradient", "input_layernorm gradient")
    assert [times[1][f"layers.0-1.{name}"] for name in both] == [1, 1]
    assert times[1]["layers.0-1.self_attn.q_proj.lora_A weight gradient"] == 2


def test_states_are_those_of_adapters() -> None:
    parts = step(lora=RANK).memory.parts
    whole = step().memory.parts
    assert parts["gradients"] == 2 * ADAPTERS
    assert parts["optimizer"] == 12 * ADAPTERS
    assert parts["weights"] == whole["weights"] + 2 * ADAPTERS
    # the head's input is not needed for a gradient; what stands between the two matrices of each adapter is
    between = 7 * L * RANK * TOKENS * 2
    assert parts["activations"] == whole["activations"] - TOKENS * D * 2 + between


def test_of_a_matrix_and_its_adapter_the_sum_is_kept() -> None:
    """Where results of products are kept: adapters add only what stands between their two matrices."""
    whole, adapted = (step(checkpoint="matmuls", **more) for more in ({}, {"lora": RANK}))
    between = 7 * L * RANK * TOKENS * 2
    kept = whole.memory.parts["activations"] - TOKENS * D * 2 + between
    assert adapted.memory.parts["activations"] == kept
    assert not [each for each in adapted.bound.ops if each.op.where.endswith("lora_add again")]


def test_frozen_weights_may_be_narrow() -> None:
    parts = step(lora=RANK, weights="nf4").memory.parts
    # nf4: half a byte, and an fp32 scale for 64; tables and norms stay in bf16
    narrow = MATRICES * (4 + 32 / 64) / 8 + 2 * (2 * V * D + (2 * L + 1) * D)
    assert parts["weights"] == pytest.approx(narrow + 2 * ADAPTERS, rel=1e-12)
    assert step(lora=RANK, weights="nf4").model_flops == step(lora=RANK).model_flops
    assert sum(training_memory("llama-3-8b", lora=RANK, weights="nf4").parts.values()) == pytest.approx(
        narrow + 16 * ADAPTERS, rel=1e-12
    )


def test_chips_send_gradients_of_adapters_alone() -> None:
    def sent(found: Any, text: str) -> float:
        ops = [each.op for each in found.bound.ops if text in each.op.where]
        return sum(op.dims["bytes"] * op.repeat for op in ops)

    shared, copied = step(on="h100:8", lora=RANK), step(on="h100:8", lora=RANK, data=8, fsdp=1, batch_tokens=8 * TOKENS)
    assert sent(shared, ": gradients") == 2 * ADAPTERS
    assert sent(copied, ": gradients of copies") == 2 * ADAPTERS
    everything = 2 * (load("llama-3-8b").parameters + ADAPTERS)
    assert sent(shared, "weights for forward") == pytest.approx(everything, rel=1e-9)
    assert shared.memory.parts["weights"] == pytest.approx(everything / 8, rel=1e-9)
    assert shared.memory.parts["optimizer"] == 12 * ADAPTERS / 8


def test_chips_that_split_matrices_add_up_gradients_of_the_halves_that_all_hold() -> None:
    """A beside what is split by outputs, B beside what is split by inputs: the width, of each of seven matrices."""
    found = step(on="h100:8", lora=RANK, tensor=8, batch_tokens=8 * TOKENS)
    (added,) = (each.op for each in found.bound.ops if "tensor chips add up" in each.op.where)
    assert (added.dims["chips"], added.dims["bytes"]) == (8, 2 * L * RANK * 7 * D)


def test_chips_that_split_layers_share_the_work() -> None:
    whole, part = step(lora=RANK), step(lora=RANK, on="h100:4", tensor=4)
    # of each adapter one matrix is split, the other is held and run by every chip
    assert whole.model_flops == part.model_flops
    assert whole.flops < part.flops < whole.flops * 1.02


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3", "qwen3.5-35b-a3b", "nemotron-super-49b"])
def test_adapters_of_other_layers_add_up(name: str) -> None:
    found = train(name, on="b200", batch_tokens=2048, sequence=1024, lora=8)
    assert found.memory.parts["gradients"] == 2 * adapter_parameters(load(name), 8)


@pytest.mark.parametrize("what", ["weights", "gradients", "master"])
def test_what_is_trained_is_in_a_format_that_something_computes_in(what: str) -> None:
    """Weights in nf4 are looked up and never computed in: they wait, frozen, beside adapters."""
    said = f"{what}= nf4 cannot be trained: nf4 is stored only, nothing computes in it; "
    said += ".* trains adapters beside frozen nf4 weights, or take bf16" if what == "weights" else "take bf16$"
    for ask in (step, lambda **given: training_memory("llama-3-8b", **given)):
        with pytest.raises(InputError, match=said.replace("= nf4", "='nf4'")):
            ask(**{what: "nf4"})
    with pytest.raises(InputError, match="weights='nf4' cannot be trained"):
        budget("llama-3-8b", tokens=1e12, on="h100", weights="nf4")
    for weights in ("int4", "int8", "fp8", "mxfp4", "nvfp4", "fp32"):
        assert float(step(weights=weights, checkpoint="full", master="none").hfu) <= 1 + 1e-12


def test_a_step_has_gradients_and_layers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "llama-3-8b", "--on", "h100", "--batch-tokens", "4096", "--gradients", "none"]) == 2
    assert "--gradients none: a step adds up gradients, which have a format; leave it out" in capsys.readouterr().err
    assert main(["train", "8e9", "--on", "h100", "--batch-tokens", "4096"]) == 2
    said = "a step is of a model's layers, and 8e9 parameters have none; name a model, as in llama-3-8b; --memory and"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("ways", [{"fsdp": 8}, {"fsdp": 2, "context_parallel": 4}, {"fsdp": 2, "data": 4}])
@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b"])
def test_frozen_weights_are_shared_as_those_that_are_trained(name: str, ways: dict[str, int]) -> None:
    asked: dict[str, Any] = {"on": "h100:8", "batch_tokens": 65536, "sequence": 8192, **ways}
    whole, adapted = (train(name, lora=lora, **asked).memory.parts["weights"] for lora in (None, RANK))
    shared = ways["fsdp"] * ways.get("context_parallel", 1)
    assert adapted == pytest.approx(whole + 2 * adapter_parameters(load(name), RANK) / shared, rel=1e-12)


def test_what_is_said_and_refused(capsys: pytest.CaptureFixture[str]) -> None:
    shown = " ".join(str(step(lora=RANK, weights="nf4")).split())
    assert "times (4·frozen + 6·trained parameters)·tokens" in shown
    assert "adapters of rank 16 beside each matrix of a layer are trained (experts have none), adam; grad" in shown
    assert "all other weights are frozen in nf4: gradients go through them down to the first adapters" in shown
    with pytest.raises(InputError, match="lora= with pipeline= is not modelled; leave pipeline out"):
        step(on="h100:2", lora=RANK, pipeline=2)
    encoded = {"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
    with pytest.raises(InputError, match="training of t5 is not modelled: it has an encoder"):
        training_memory(load({**encoded, "vocab_size": 100}), lora=RANK)
    with pytest.raises(InputError, match="lora= is of matrices; name a model"):
        training_memory(8e9, lora=RANK)
    words = ["train", "llama-3-70b", "--on", "h100", "--lora", "16", "--memory", "--weights", "nf4"]
    assert main(words) == 0
    assert "in all 46 GB without activations: weights 43.1 GB" in " ".join(capsys.readouterr().out.split())
    for wrong in ("0", "-1"):
        assert main(["train", "llama-3-8b", "--on", "h100", "--batch-tokens", "4096", "--lora", wrong]) == 2
        assert "lora" in capsys.readouterr().err


def served(**options: Any) -> Any:
    return llm("llama-3-8b", policy="streamed", **{"on": "h100", "batch": 8, "context": 4096, **options})


@pytest.mark.parametrize(("batch", "adapters", "read"), [(8, 1, 1), (8, 64, 8), (32, 4, 4), (1, 1, 1)])
def test_a_step_reads_the_adapters_that_its_sequences_use(batch: int, adapters: int, read: int) -> None:
    """Two matrices beside each of a layer: 2·rank·(in + out) bytes an adapter, 2·rank·(in + out) FLOPs a token."""
    plain, found = served(batch=batch), served(batch=batch, lora=RANK, adapters=adapters)
    assert found.decode.bytes["hbm"] - plain.decode.bytes["hbm"] == pytest.approx(2 * ADAPTERS * read, rel=1e-9)
    matrix = [
        sum(each.op.work.total("flops", "matrix") * each.op.repeat for each in of.decode.ops) for of in (plain, found)
    ]
    assert matrix[1] - matrix[0] == 2 * ADAPTERS * batch
    assert found.memory.parts["weights"] - plain.memory.parts["weights"] == 2 * ADAPTERS * adapters
    assert (found.to_dict()["lora"], found.to_dict()["adapters"], plain.to_dict()["lora"]) == (RANK, adapters, None)


@pytest.mark.parametrize(("chips", "batch", "adapters"), [(4, 64, 64), (16, 8, 64), (16, 8, 1)])
def test_chips_that_split_matrices_hold_and_read_equal_parts_of_adapters(chips: int, batch: int, adapters: int) -> None:
    """Of A its inputs are dealt out and of B its outputs: a chip has rank·(in + out)/chips beside each matrix."""
    at: dict[str, Any] = {"on": f"h100:{chips}", "tensor": chips, "batch": batch}
    plain, found = served(**at), served(**at, lora=RANK, adapters=adapters)
    read = min(batch, adapters)
    assert found.decode.bytes["hbm"] - plain.decode.bytes["hbm"] == pytest.approx(2 * ADAPTERS * read / chips, rel=1e-9)
    assert found.memory.parts["weights"] - plain.memory.parts["weights"] == 2 * ADAPTERS * adapters / chips
    products = [op for op in found.decode.ops if op.op.role == "adapter"]
    assert sum(each.op.work.total("flops", "matrix") * each.op.repeat for each in products) == pytest.approx(
        2 * ADAPTERS * batch / chips
    )
    assert found.decode.wire == plain.decode.wire
    said = "chips that split a matrix hold and read equal parts of its adapters (fully sharded)"
    assert any(said in line for line in found.decode.assumptions)
    assert not found.decode.incomplete


def test_an_adapter_beside_a_matrix_that_every_chip_holds_whole_is_whole() -> None:
    """Latent attention (DeepSeek-V3): its projections to latents, 7168 to 1536 and to 576, are on every chip."""
    at: dict[str, Any] = {"on": "h200:8", "tensor": 8, "batch": 8, "context": 4096, "weights": "fp8"}
    plain, found = (llm("deepseek-v3", **at, **more) for more in ({}, {"lora": RANK}))
    heads, dense, shared = 128, 18432, 2048
    whole = 61 * ((7168 + 1536) + (7168 + 576))
    split = 61 * ((1536 + heads * 192) + (512 + heads * 256) + (heads * 128 + 7168))
    split += 3 * 3 * (7168 + dense) + 58 * 3 * (7168 + shared)
    added = found.memory.parts["weights"] - plain.memory.parts["weights"]
    assert added == 2 * RANK * (whole + split / 8)


def test_served_adapters_in_every_kind_of_step() -> None:
    """Several batches, a chunk beside what decodes, and the longest context are those of a step with them."""
    several = served(batch=[1, 8, 64], lora=RANK, adapters=16).decode.lower
    assert several.tolist() == [served(batch=batch, lora=RANK, adapters=16).decode.lower for batch in (1, 8, 64)]
    model = served(lora=RANK, adapters=16).model
    beside = {"chunk": 256, "context": 4096, "batch": 8}
    ops = [op for op in mixed(model, **beside) if op.role == "adapter"]
    assert {op.reads[1].dims[0] for op in ops} == {9}  # those of 8 that decode and of a prompt
    at: dict[str, Any] = {"on": "h100", "batch": 8, "fit": True}
    alone, beside_them = (llm("llama-3-8b", **at, **more) for more in ({}, {"lora": RANK, "adapters": 200}))
    fewer = alone.longest.context - beside_them.longest.context
    assert 8 * fewer * 131072 == pytest.approx(200 * 2 * ADAPTERS, abs=8 * 131072)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"adapters": 4}, "adapters= says nothing without lora="),
        ({"lora": 0}, "lora"),
        ({"lora": [8, 16]}, "lora= is one number"),
        ({"lora": 8, "adapters": 0}, "adapters"),
    ],
)
def test_what_is_no_adapter_that_could_be_served_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RooflineError, match=message):
        served(**options)


@pytest.mark.parametrize(
    "name", some(["deepseek_v3", "deepseek_v4", "zamba", "zamba2", "inkling2_loop_text", "llama"], 2)
)
@pytest.mark.parametrize("chips", [1, 2])
def test_a_step_reads_all_adapters_that_are_held(name: str, chips: int) -> None:
    """Absorbed matrices, diagonal blocks and weights that layers share have adapters beside them too."""
    asked: dict[str, Any] = {"on": f"h200:{chips}", "batch": 4, "context": 50, **({"tensor": 2} if chips > 1 else {})}
    try:
        plain = serve_bound(load(TINY[name]), "decode", **asked)
    except RooflineError:
        assert chips > 1  # not split over chips
        return
    found = serve_bound(load(TINY[name]), "decode", lora=8, adapters=2, **asked)
    held = [each.footprint.parts["weights"] for each in (plain, found)]  # type: ignore[union-attr]
    assert found.total_bytes - plain.total_bytes == pytest.approx(held[1] - held[0], rel=1e-6)


def test_adapters_beside_an_absorbed_matrix_run_head_by_head() -> None:
    """qᵀ·B·A of each head, and A and B of what it has of latents: rank 16, 128 heads of 128 over latents of 512."""
    asked: dict[str, Any] = {"on": "h200:8", "data": 8, "expert": 8, "batch": 8, "context": 100}
    found = [serve_bound("deepseek-v3", "decode", lora=16, absorbed=way, **asked).ops for way in (True, False)]
    flops = [
        sum(part.flops for part in ops if ".kv_b_proj.lora_" in part.op.where and part.op.kind == "contraction")
        for ops in found
    ]
    assert flops[0] == 61 * 2 * 16 * 128 * (128 + 512 + 512 + 128)
    assert flops[1] == 61 * 2 * 16 * 101 * (512 + 128 * (128 + 128))  # expanded: of all 101 tokens
