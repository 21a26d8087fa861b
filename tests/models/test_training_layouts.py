"""Training with experts spread over chips and sequences shared by chips: conservation, bytes sent, memory, messages."""

from __future__ import annotations

from collections import Counter
from math import comb
from typing import Any

import pytest

from roofline.cli import main
from roofline.models import load
from roofline.models.training import train
from tests.models.tiny import TINY
from tests.strategies import some

MOE: dict[str, Any] = {"on": "h100:64", "batch_tokens": 2**20, "checkpoint": "none"}


def sent(found: Any, name: str) -> float:
    """Bytes that a chip sends one way in operations of this name."""
    parts = [part for part in found.bound.ops if name in part.op.where]
    return float(sum(use.amount for part in parts for use in part.uses if use.quantity == "wire"))


@pytest.mark.parametrize(
    "ways", [{"expert": 8}, {"expert": 8, "tensor": 2}, {"expert": 4, "tensor": 4}, {"context_parallel": 4},
             {"expert": 8, "context_parallel": 2, "tensor": 2}, {"expert": 8, "pipeline": 2}],
)  # fmt: skip
def test_flops_are_conserved(ways: dict[str, Any]) -> None:
    whole = {"sequence_parallel": False} if "tensor" in ways else {}
    found = train("mixtral-8x7b", **MOE, **ways, **whole, unfused=True, count="full")
    assert found.chips == 64
    assert found.flops == pytest.approx(found.model_flops, rel=1e-3 if ways.get("tensor", 1) > 1 else 1e-9)
    assert found.lower <= found.op_by_op * (1 + 1e-12) <= found.upper * (1 + 1e-9)


def test_branches_side_by_side_split_by_tokens() -> None:
    """Behind one norm they take one AllGather and give one ReduceScatter; behind two it is an error."""
    config = {"model_type": "gptj", "n_embd": 512, "n_layer": 2, "n_head": 8, "vocab_size": 800, "rotary_dim": 64}
    at: dict[str, Any] = {"on": "a100:8", "batch_tokens": 2**15, "sequence": 2048, "checkpoint": "none"}
    plain = train(load(config, name="side"), **at, tensor=8, sequence_parallel=False)
    split = train(load(config, name="side"), **at, tensor=8)
    assert split.flops == plain.flops
    hidden = 2**15 * 512 * 2 * 7 / 8
    assert sent(plain, "layers.") == pytest.approx(2 * 2 * 2 * hidden)
    # gathered once more in the backward pass
    assert sent(split, "layers.") == pytest.approx(2 * 5 * hidden)


def test_states_are_shared_by_what_each_chip_holds() -> None:
    """Experts by the chips that hold the same ones, the rest by all: 2 + 2 + 12 bytes of each parameter."""
    model = load("mixtral-8x7b")
    experts = sum(n for name, n in model.parameters_by_module().items() if ".experts." in name)
    found = train("mixtral-8x7b", expert=8, **MOE)
    held = sum(found.memory.parts[name] for name in ("weights", "gradients", "optimizer"))
    assert found.ways["expert"] == 8
    assert held == pytest.approx(16 * ((model.parameters - experts) / 64 + experts / 8 / 8))


@pytest.mark.parametrize(
    "layout", [{"fsdp": 1, "data": 8}, {"zero": 1}, {"zero": 2}, {"zero": 3}, {"zero": 3, "lora": 8}]
)
def test_chips_send_a_tied_table_once(layout: dict[str, Any]) -> None:
    """A head tied to the table is one weight with it: one gradient is exchanged, and one copy is gathered."""
    config = {**TINY["llama"], "vocab_size": 1024}
    sizes: dict[str, Any] = {"on": "h100:8", "batch_tokens": 2**13, "sequence": 256}
    apart, tied = (train(load({**config, "tie_word_embeddings": each}), **sizes, **layout) for each in (False, True))
    # the last norm stands beside them
    assert sent(apart, "other weights") == pytest.approx(2 * sent(tied, "other weights"), rel=2e-3)
    assert tied.memory.total < apart.memory.total


@pytest.mark.parametrize(
    "ways", [{"context_parallel": 8}, {"context_parallel": 2, "expert": 4, "tensor": 4}, {"context_parallel": 4,
             "expert": 4}, {"context_parallel": 2, "expert": 8, "tensor": 4}],
)  # fmt: skip
def test_chips_that_share_sequences_share_the_experts_that_are_the_same(ways: dict[str, Any]) -> None:
    """ZeRO 3 holds 16 bytes of each parameter once over all chips, and the gradients of all copies are added up."""
    asked: dict[str, Any] = {**MOE, "on": "h100:8", "sequence": 8192}
    found, model = train("mixtral-8x7b", **asked, **ways), load("mixtral-8x7b")
    held = sum(found.memory.parts[name] for name in ("weights", "gradients", "optimizer"))
    assert held * 8 == pytest.approx(16 * model.parameters, rel=1e-3)
    if ways.get("expert") == 8:  # experts that no chips share are there: table, head and last norm are most to gather
        assert found.memory.parts["a layer at work"] == 2 * (2 * 32000 * 4096 / 4 + 4096)
    if "tensor" not in ways and "expert" not in ways:
        assert sent(found, ": gradients") == pytest.approx(sent(train("mixtral-8x7b", **asked), ": gradients"))


def test_tokens_go_to_their_experts_and_back_twice() -> None:
    """Two AllToAlls forward and two backward of every chip's rows, of which 1/8 stay; fewer weights are gathered."""
    found = train("mixtral-8x7b", expert=8, **MOE)
    rows = 2**20 / 64 * 2
    assert sent(found, "all_to_all") == pytest.approx(32 * 4 * rows * 4096 * 2 * 7 / 8)
    each = train("mixtral-8x7b", expert=8, expert_exchange="per-expert", **MOE)
    assert sent(each, "all_to_all") == pytest.approx(sent(found, "all_to_all"))
    assert sent(train("mixtral-8x7b", expert=4, **MOE), "all_to_all") == pytest.approx(
        32 * 4 * rows / 2 * 4 * (1 - comb(6, 2) / comb(8, 2)) * 4096 * 2 * 3 / 4
    )
    alone = train("mixtral-8x7b", **MOE)
    assert sent(found, "weights for forward") < sent(alone, "weights for forward") / 4


def test_keys_and_values_go_round() -> None:
    """Ring attention: forward, once more for backward, and their gradients: 3 · (c − 1)/c of a sequence's."""
    found = train("llama-3-8b", on="h100:8", batch_tokens=2**17, sequence=8192, context_parallel=4, checkpoint="none")
    each = 2**17 / 2 / 8192 * 8192 * 2 * 8 * 128 * 2
    assert sent(found, "ring") == pytest.approx(32 * 3 * each * 3 / 4)
    whole = train("llama-3-8b", on="h100:8", batch_tokens=2**17, sequence=8192, checkpoint="none")
    assert found.memory.parts["activations"] == pytest.approx(whole.memory.parts["activations"], rel=1e-9)
    assert found.bound.flops == pytest.approx(whole.bound.flops, rel=1e-9)
    assert not any("converting" in line for line in found.bound.assumptions), "they come in their own format"


MESSAGES = [
    (["llama-2-7b", "--expert", "8"], "llama-2-7b has no experts to spread over 8 chips; leave expert out"),
    (["mixtral-8x7b", "--expert", "3", "--tensor", "2"], "experts on 3 chips, of which 2 run a copy; a multiple of 2"),
    (["mixtral-8x7b", "--expert", "32"], "expert 32 does not divide the 16 chips of h100:16"),
    (["mixtral-8x7b", "--expert", "8", "--expert-exchange", "ring"], "unknown exchange of tokens and experts 'ring'"),
    (["mixtral-8x7b", "--expert", "8", "--expert-exchange", "all-reduce"], "an AllReduce does not do; all-to-all"),
    (["qwen3.5-35b-a3b", "--context-parallel", "2"], "its GatedDeltaNet layers (linear_attn) pass a state"),
]


@pytest.mark.parametrize(("words", "message"), MESSAGES)
def test_messages(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *words, "--on", "h100:16", "--batch-tokens", "65536"]) == 2
    assert message in capsys.readouterr().err


def test_the_published_training_of_deepseek_v3_is_above_the_floor() -> None:
    """180,000 H800 hours for 10¹² tokens on 2,048 chips, experts over 64 (arXiv:2412.19437, sections 1 and 3.2)."""
    tokens = 15360 * 4096
    measured = tokens * 180e3 * 3600 / 1e12 / 2048
    layout: dict[str, Any] = {"expert": 64, "pipeline": 16, "zero": 1, "batch_tokens": tokens, "sequence": 4096}
    for checkpoint in ("none", "full"):
        assert 0.4 * measured < train("deepseek-v3", on="h800:2048", checkpoint=checkpoint, **layout).time < measured


def test_each_collective_takes_the_fastest_algorithm_at_its_size() -> None:
    """A backward AllReduce of 32 kB goes by one shot, as its forward twin; an algorithm that is asked for is taken."""
    asked: dict[str, Any] = {"on": "a100:8", "batch_tokens": 4 * 64, "sequence": 4, "tensor": 8, "microbatches": 64}

    def taken(**more: Any) -> dict[str, set[str]]:
        parts = train("llama-3-8b", **asked, sequence_parallel=False, **more).bound.ops
        summed = [part.op for part in parts if part.op.options.get("collective") == "AllReduce"]
        return {
            phase: {name for op in summed if op.phase == phase for name in op.options["algorithms"]}
            for phase in ("forward", "backward")
        }

    assert taken() == {"forward": {"direct"}, "backward": {"direct"}}
    assert taken(algorithm="two-shot") == {"forward": {"two-shot"}, "backward": {"two-shot"}}


@pytest.mark.parametrize("command", some(["train", "formula --phase train", "sweep --phase train"], 2))
def test_an_algorithm_on_one_chip_is_refused_wherever_training_is_asked_about(command: str, capsys: Any) -> None:
    name, *more = command.split()
    line = [name, "llama-3-8b", *more, "--batch-tokens", "8192", "--algorithm", "tree", "--on"]
    assert main([*line, "h100"]) == 2
    assert "--algorithm says nothing of one chip: nothing is sent; leave it out" in capsys.readouterr().err
    assert main([*line, "h100:8"]) == 0


def test_switches_add_up_gradients_in_formats_that_they_can() -> None:
    found = {
        gradients: sent(train("llama-3-8b", on="h100:8", batch_tokens=2**16, data=8, gradients=gradients), "copies")
        for gradients in ("bf16", "int8")
    }
    assert found["bf16"] == pytest.approx(2 * load("llama-3-8b").parameters, rel=1e-3)
    assert found["int8"] == pytest.approx(2 * 7 / 8 * load("llama-3-8b").parameters, rel=1e-3)


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_chips_that_hold_the_same_weights_add_up_their_gradients(zero: int) -> None:
    """8 heads of keys and values on 16 chips are held by two each; norms by all, which run them on their own tokens."""

    def sent(**more: Any) -> dict[int, float]:
        found = train("llama-3-70b", on="h100:32", tensor=16, fsdp=2, zero=zero, **more)
        ops = [each.op for each in found.bound.ops if "tensor chips add up" in each.op.where]
        return {int(op.dims["chips"]): op.dims["bytes"] * op.repeat for op in ops}

    keys, norms = 2 * 80 * 2 * 128 * 8192, 2 * (2 * 80 + 1) * 8192
    # the two chips that share a copy each look after half
    assert sent(batch_tokens=2**18) == {2: keys / 2, 16: norms / 2}
    assert sent(batch_tokens=2**18, sequence_parallel=False) == {2: keys / 2}
    # of 2,048 tokens the gradients of keys and values themselves are fewer than those of their matrices of 8,192 rows
    assert sent(batch_tokens=4096, sequence=2048) == {2: keys / 2 * 2048 / 8192, 16: norms / 2}
    plain = train("llama-3-70b", on="h100:32", tensor=8, batch_tokens=2**18, sequence_parallel=False, zero=zero)
    assert not [each for each in plain.bound.ops if "tensor chips add up" in each.op.where]


def test_copies_add_up_what_each_chip_looks_after() -> None:
    """Without ZeRO too: between the two halves of the AllReduce of the chips that share, which is of each microbatch
    where chips keep a part of the gradients alone, from the second stage of ZeRO on."""
    whole = 2 * load("llama-3-8b").parameters
    for zero, times in ((0, 1), (1, 1), (2, 2)):
        asked: dict[str, Any] = {"on": "h100:16", "batch_tokens": 2**17, "data": 2, "fsdp": 8, "microbatches": 2}
        sent = Counter[str]()
        for each in train("llama-3-8b", **asked, zero=zero).bound.ops:
            sent[each.op.name] += each.op.dims.get("bytes", 0) * each.op.repeat
        assert (sent["gradients"], sent["gradients of copies"]) == (times * whole, whole / 8)


def test_chips_that_share_tokens_make_and_gather_latents() -> None:
    """As Megatron-LM does: 1,536 + 576 numbers a token are gathered, 7,168 not, and no chip makes another's latents."""
    found = train("deepseek-v3", on="h100:64", tensor=8, batch_tokens=2**18)
    ops = {each.op.where: each.op for each in found.bound.ops}
    tokens = 2**18 / 8
    assert ops["layers.3-60.self_attn.q_a_all_gather"].dims["bytes"] == tokens * 1536 * 2
    assert ops["layers.3-60.self_attn.kv_a_all_gather"].dims["bytes"] == tokens * 576 * 2
    assert "layers.3-60.self_attn.all_gather" not in ops
    assert ops["layers.3-60.self_attn.q_a_proj"].dims["m"] == ops["layers.3-60.self_attn.kv_a_proj_with_mqa"].dims["m"]
    assert ops["layers.3-60.self_attn.q_a_proj"].dims["m"] == tokens / 8
    assert ops["layers.3-60.self_attn.q_b_proj"].dims["m"] == tokens
    # beside attention's scores, made again, chips repeat the choice of experts alone
    scores = {
        name: sum(op.work.total("flops", "matrix") * op.repeat for where, op in ops.items() if where.endswith(name))
        for name in (".attention", ".attention gradient")
    }
    router = 3 * 2 * 58 * tokens * 7168 * 256 * 7 / 8
    more = scores[".attention gradient"] - 2 * scores[".attention"] + router
    assert found.flops - found.model_flops == pytest.approx(64 * more, rel=1e-12)
    matrices = 61 * (7168 * (1536 + 576) + 1536 + 512) + (2 * 61 + 1) * 7168
    added = ops["other weights: gradients that 8 tensor chips add up"]
    assert added.dims["bytes"] == 2 * matrices / 8
    # each chip has the part of its own heads where all make the latents of all tokens, too; norms are computed alike
    found = train("deepseek-v3", on="h100:64", tensor=8, batch_tokens=2**18, sequence_parallel=False)
    (added,) = [each.op for each in found.bound.ops if "tensor chips add up" in each.op.where]
    assert added.dims["bytes"] == 2 * 61 * (7168 * (1536 + 576) + 1536 + 512) / 8
    sizes = {"tensor": 8, "batch_tokens": 2**18, "lora": 16}
    for alike in (True, False):
        found = train("deepseek-v3", on="h100:64", sequence_parallel=alike, **sizes)
        (added,) = [each.op for each in found.bound.ops if "tensor chips add up" in each.op.where]
        latents, heads, columns = 2 * 7168 + 1536 + 576, 1536 + 512 + 7168, 3 * 7168
        assert added.dims["bytes"] == 2 * 16 * (61 * (latents + heads + columns)) / 8
    # without latents of queries, their matrices need the inputs of all tokens
    lite = train(load({**TINY["deepseek_v3"], "q_lora_rank": None}), on="h100:2", tensor=2, batch_tokens=2**15)
    assert any(each.op.where.endswith("self_attn.all_gather") for each in lite.bound.ops)


def test_what_comes_back_from_experts_is_added_up_and_not_kept() -> None:
    """A sum needs nothing of its terms: kept are the rows that were sent, and what experts make of them, by hand."""
    found = train("mixtral-8x7b", on="h100:16", batch_tokens=2**18, expert=8, zero=1, checkpoint="none")
    width, hidden, tokens = 4096, 14336, 2**14
    around = 2 * (4 * width + width + 2 * 1024 + width) + 4 * 32  # norms' inputs and results; queries, keys, values
    experts = 2 * 2 * (width + 3 * hidden + width) + 2 * (8 + 2)
    head = 2 * (2 * width + 32000)
    assert found.memory.parts["activations"] == pytest.approx(tokens * (32 * (around + experts) + head), rel=1e-4)


@pytest.mark.parametrize(
    ("more", "alike"), some([({"sequence_parallel": False}, True), ({"fsdp": 8, "tensor": 1}, False)], 2)
)
def test_what_several_chips_compute_alike_is_said(more: dict[str, Any], alike: bool) -> None:
    asked: dict[str, Any] = {"on": "h100:8", "tensor": 8, "batch_tokens": 2**18}
    said = " ".join(str(train("deepseek-v3", **{**asked, **more})).split())
    assert ("with attention's scores made again and what several chips compute alike" in said) is alike


def test_experts_that_no_chips_share_are_said() -> None:
    said = [
        train("mixtral-8x7b", on=on, expert=8, batch_tokens=2**18).bound.assumptions for on in ("h100:8", "h100:16")
    ]
    assert "each expert is on one chip" in said[0]
    assert "of the experts 2 chips share one copy" in said[1]
