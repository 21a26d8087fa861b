"""A model over several chips: the published floor, conservation, replicated heads, and what cannot be split."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import llm
from roofline.cli import main
from roofline.errors import RooflineError
from roofline.hardware import chip
from roofline.models import decode, load, prefill, serve_bound, serve_table
from roofline.models.blocks.encoder import with_source
from roofline.models.description import Block, Layer, Model
from roofline.models.parallelism.block_splitting import split_by_layout
from roofline.models.parallelism.layout import Parallelism, name_axes
from roofline.models.parallelism.splitting import local_model
from roofline.models.serving.answer import serve
from tests.models.tiny import TINY

A100: dict[str, Any] = {"on": "a100:8", "set": {"bf16": 312e12, "hbm": 2.039e12}}
H100: dict[str, Any] = {"on": "h100:8", "set": {"bf16": 989.4e12, "hbm": 3.35e12}}
NETWORK = ("nvlink", "hop latency")


@pytest.mark.parametrize(("machine", "milliseconds"), [(A100, 8.58959), (H100, 5.22811)])
def test_the_published_floor_of_eight_chips(machine: dict[str, Any], milliseconds: float) -> None:
    """Llama-2-70B, tensor parallel over 8, decode of 8 sequences after 1024 tokens, links left out."""
    found = serve_bound(
        "llama-2-70b", "decode", batch=8, context=1024, tensor=8, activations="bf16", policy="streamed", **machine
    )
    alone = max(time for resource, time in found.times.items() if resource not in NETWORK)
    assert float(f"{alone * 1e3:.6g}") == milliseconds
    assert all(found.times[resource] > 0 for resource in NETWORK)


def matrix(ops: Any) -> Any:
    """FLOPs on the matrix unit."""
    return sum(op.work.total("flops", "matrix") * op.repeat for op in ops)


@given(
    name=st.sampled_from(["llama-2-7b", "llama-3-70b", "gpt-3", "llama-3-8b"]),
    ways=st.sampled_from([2, 4, 8]),
    batch=st.integers(1, 9),
    decoding=st.booleans(),
)
def test_flops_weights_and_cache_are_conserved(name: str, ways: int, batch: int, decoding: bool) -> None:
    model = load(name)
    local, _ = local_model(model, chip(f"h100:{ways}"), tensor=ways)
    build: Any = decode if decoding else prefill
    sizes = {"context": 96} if decoding else {"prompt": 96}
    whole, part = (build(each, batch=batch, **sizes) for each in (model, local))
    if model.vocabulary % ways == 0:
        assert matrix(part) * ways == matrix(whole)
    assert local.cache_bytes(97, batch=batch) * ways == model.cache_bytes(97, batch=batch)
    assert model.parameters <= local.parameters * ways < model.parameters * 1.01


@pytest.mark.parametrize("expert", [1, 8])
def test_experts_are_conserved(expert: int) -> None:
    """Eight chips do one model's work, but for the router, which each runs on every token."""
    for name in ("mixtral-8x7b", "deepseek-v3"):
        model = load(name)
        local, _ = local_model(model, chip("h200:8"), tensor=8, expert=expert)

        def routed(ops: Any) -> Any:
            return matrix(op for op in ops if ".experts." in op.where)

        whole, part = (prefill(each, batch=2, prompt=64) for each in (model, local))
        assert routed(part) * 8 == pytest.approx(routed(whole))
        read = [sum(float(t.traffic_bytes) for op in ops if ".experts." in op.where for t in op.reads
                    if t.role == "weight") for ops in (whole, part)]  # fmt: skip
        assert read[1] * 8 == pytest.approx(read[0], rel=1e-3)


def test_a_layer_has_two_collectives_of_the_hidden_state() -> None:
    local, machine = local_model(load("llama-2-70b"), chip("h200:8"), tensor=8)
    ops = [op for op in decode(local, batch=8, context=100) if op.kind == "collective"]
    assert [op.where for op in ops] == [
        "embed_tokens.all_reduce",
        "layers.0-79.self_attn.all_reduce",
        "layers.0-79.mlp.all_reduce",
    ]
    assert {op.dims["bytes"] for op in ops} == {8 * 8192 * 2}
    assert str(machine.mesh) == "Mesh(tensor=8 nvlink switch)"


T5: dict[str, Any] = {
    "model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 100,
    "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(("name", "tokens"), [("llama-3-8b", {64}), (T5, {64, 48})])
def test_chips_look_up_an_even_share_of_the_tokens(name: Any, tokens: set[int]) -> None:
    """A token's row of the table lies on one of the chips that split the vocabulary, those of an encoder too."""
    whole = load(name) if len(tokens) == 1 else with_source(load(name), 48)
    local, _ = local_model(whole, chip("h100:4"), tensor=4)
    for model, ways in ((whole, 1), (local, 4)):
        tables = [op.reads[0] for op in prefill(model, batch=1, prompt=64) if op.kind == "embedding"]
        assert {table.touched for table in tables} == {count // ways * model.width for count in tokens}


def reduced(model: Model) -> int:
    """Collectives of one layer of a model over two chips."""
    local, _ = local_model(model, chip("h100:2"), tensor=2)
    ops = prefill(local, prompt=8)
    first = next(op.where.split(".")[1] for op in ops if op.where.startswith("layers."))
    return sum(op.kind == "collective" and op.where.startswith(f"layers.{first}.") for op in ops)


def test_branches_side_by_side_share_one() -> None:
    """GPT-NeoX adds attention and MLP before they are summed over chips; Gemma 4 normalises each branch first."""
    assert reduced(load(TINY["gpt_neox"], name="neox")) == 1
    assert reduced(load("llama-3-8b")) == 2
    assert reduced(load("gemma-4-26b-a4b-nvfp4")) == 3


def test_heads_of_keys_fewer_than_chips_are_held_by_several() -> None:
    found = serve_bound("llama-3-70b", "decode", on="h100:16", tensor=16, batch=4, context=1000)
    assert "8 heads of keys and values on 16 chips: each is held by 2" in found.assumptions
    local, _ = local_model(load("llama-3-70b"), chip("h100:16"), tensor=16)
    assert local.kv_bytes_per_token() * 8 == load("llama-3-70b").kv_bytes_per_token()


def test_algorithms_of_the_collectives() -> None:
    options: dict[str, Any] = {"on": "h200:8", "tensor": 8, "batch": 8, "context": 1024}
    usual = serve_bound("llama-2-70b", "decode", algorithm="two-shot", **options)
    reduced, ring, auto = (
        serve_bound("llama-2-70b", "decode", algorithm=name, **options)
        for name in ("in-switch", "one-way ring", "auto")
    )
    assert reduced.times["hop latency"] < ring.times["hop latency"] == pytest.approx(7 * usual.times["hop latency"])
    assert reduced.times["nvlink"] < usual.times["nvlink"] == pytest.approx(ring.times["nvlink"])
    assert reduced.lower == usual.lower == ring.lower
    assert auto.op_by_op <= min(reduced.op_by_op, usual.op_by_op) < ring.op_by_op
    assert serve_bound("llama-2-70b", "decode", **options).op_by_op == auto.op_by_op


def test_more_chips_never_slow_the_memory_and_compute_of_a_step() -> None:
    times = [
        serve_bound("llama-2-70b", "decode", on=f"h200:{n}", tensor=n, batch=16, context=1024) for n in (1, 2, 4, 8)
    ]
    assert [t.times["hbm"] for t in times] == sorted((t.times["hbm"] for t in times), reverse=True)
    assert times[-1].footprint.total < times[0].footprint.total / 7  # type: ignore[union-attr]


def test_a_table_over_chips() -> None:
    batch = np.array([1, 8, 64])
    found = serve_table("llama-2-70b", "decode", on="h200:8", tensor=8, batch=batch, context=1024)
    for index, size in enumerate(batch):
        one = serve_bound("llama-2-70b", "decode", on="h200:8", tensor=8, batch=int(size), context=1024)
        assert found["lower"][index] == pytest.approx(one.lower, rel=1e-12)


@pytest.mark.long
def test_what_does_not_fit_counts_all_chips() -> None:
    found = serve("deepseek-v3", on="h100:4", tensor=4, context=1024)
    assert found.memory.fits is False
    assert (found.fitting() or "").startswith("8 such chips have the memory")
    found = serve("deepseek-v3", on="h100:8", tensor=8, batch=8, context=8192)
    assert (found.fitting() or "").startswith("16 such chips hold it (tensor=16 kv_parallel=16)")


# ---- axes of a slice


def test_an_axis_of_a_slice_may_be_cut() -> None:
    mesh = name_axes(chip("v5p:16x16x16"), {"data": 2, "fsdp": 256, "tensor": 8}).mesh
    assert str(mesh) == ("Mesh(data=2 ici line, fsdp=256 ici line 8, ici ring 16, ici line 2, tensor=8 ici line)")
    assert mesh is not None
    assert [level.resource for level in mesh["tensor"].segments] == ["ici Z"]


def test_sequence_parallelism_sends_the_same_bytes() -> None:
    machine = name_axes(chip("a100:8"), {"tensor": 8})
    sent = []
    for sequence in (False, True):
        local = split_by_layout(load("llama-2-7b"), Parallelism(tensor=8, sequence=sequence), machine)
        ops = prefill(local, prompt=512, logits="all")
        sent.append(sum(op.work.total("wire") * op.repeat for op in ops if not op.where.startswith("lm_head")))
    # the table's result is not gathered before the first layer's own gather, which stands for it
    hidden = 512 * 4096 * 2 * 7 / 8
    assert sent == [130 * hidden, 129 * hidden]


# ---- the command


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")  # in narrower ones names break at their dots
    words = ["llm", "llama-2-70b", "--on", "h200:8", "--tensor", "8", "--batch", "8", "--context", "1024"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "on 8 x NVIDIA H200 SXM" in text
    assert "self_attn.all_reduce" in text
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tensor"] == 8
    assert found["model"]["parameters"] == load("llama-2-70b").parameters
    assert found["compute_bound_from"]["matrices"] > 0


CONTEXT = ["--context", "100"]
MESSAGES = [
    ("llama-2-7b --on h100:8 --tensor 3", "tensor 3 does not divide the 8 chips of h100:8"),
    ("llama-2-7b --on h100:8 --tensor 3", "a divisor of 8: 1, 2, 4, 8"),
    ("llama-2-7b --on h100:8 --tensor 4 --data 1", "tensor 4 is 4 chips, and h100:8 has 8; their product is the chips"),
    ("llama-2-7b --on h100:8 --tensor 4 --data 1", "the chips: data 2"),
    ("llama-2-7b --on h100:8 --tensor 0", "size tensor is 0"),
    ("llama-2-7b --on h100:8 --tensor many", "--tensor 'many' is not a number of chips; a number, or a list 1,2,4,8"),
    ("llama-2-7b --on h100:8 --tensor 8 --expert 8", "llama-2-7b has no experts to spread over 8"),
    (
        "mixtral-8x7b --on h100:8 --tensor 8 --expert 3",
        "experts on 3 chips, of which 8 split the model; experts on 1, 2",
    ),
    ("mixtral-8x7b --on h100:8 --tensor 4 --expert 8 --expert-exchange all-reduce", "an AllReduce does not do"),
    ("mixtral-8x7b --on h100:8 --tensor 8 --expert 2 --expert-exchange all-to-all", "not on 2; say expert 8"),
    (
        "mixtral-8x7b --on h100:8 --tensor 8 --expert 8 --expert-exchange mail",
        "unknown exchange of tokens and experts 'mail'",
    ),
    ("llama-2-7b --on h100:8 --tensor 8 --algorithm tre", "unknown algorithm 'tre'; did you mean"),
    ("llama-2-7b --on h100:64 --pipeline 64", "llama-2-7b has 32 layers, too few for 64 stages; a pipeline of at most"),
    ("llama-2-7b --on h100:8 --pipeline 8 --balance luck", "unknown balance of stages 'luck'"),
    (
        "qwen3.5-35b-a3b --on h100:8 --context-parallel 8",
        "its GatedDeltaNet layers (linear_attn) pass a state from token to",
    ),
    ("mixtral-8x7b --on h100:8 --expert 8 --dispatch fp9", "unknown dtype 'fp9'; did you mean"),
    ("llama-2-7b --on h100:8 --pipeline 8 --micro-batches 0", "size microbatches is 0"),
    ("llama-2-7b --on h100:8 --tensor 2,3", "tensor 3 does not divide the 8 chips of h100:8"),
    ("llama-2-7b --on h100:8 --tensor 4,8 --pipeline 1,2", "--tensor and --pipeline go together, the first of each"),
    ("llama-2-7b --on epyc-9654 --tensor 2", "no link from"),
]


@pytest.mark.parametrize(("words", "message"), MESSAGES)
def test_messages(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", *words.split(), *CONTEXT]) == 2
    assert message in capsys.readouterr().err


def test_chips_that_share_weights_are_of_training() -> None:
    with pytest.raises(RooflineError, match="fsdp 4 shares weights in training alone; leave fsdp out"):
        local_model(load("llama-2-7b"), chip("h100:8"), tensor=2, fsdp=4)


class Unknown(Block):
    """A layer nobody has a rule for."""


def test_layers_without_a_rule_are_an_error() -> None:
    with pytest.raises(RooflineError, match="it has Unknown layers"):
        local_model(replace(load("llama-2-7b"), layers=(Layer((Unknown("new"),)),)), chip("h100:8"), tensor=8)


@pytest.mark.parametrize("value", [[1, 2], np.array([1, 2]), np.ones((2, 2, 2), int), 2.5, "two", 0])
@pytest.mark.parametrize("name", ["data", "fsdp", "tensor", "pipeline"])
def test_ways_are_plain_numbers_of_chips(name: str, value: Any) -> None:
    with pytest.raises(RooflineError, match=rf"{name} is"):
        Parallelism(**{name: value})
    with pytest.raises(RooflineError, match=rf"{name} is"):
        Parallelism.on(chip("h100:8"), **{name: value})


@pytest.mark.parametrize(("name", "summed"), [("lfm2", 0), ("jamba", 4 + 2 * 8), ("falcon_mamba", 4 + 2 * 8)])
def test_channels_of_recurrent_layers_are_split(name: str, summed: int) -> None:
    """Each of two chips has half of the states and of the work; Mamba adds up what its steps, B and C are made of."""
    model = load(TINY[name], name=name)
    local, _ = local_model(model, chip("h100:2"), tensor=2)
    assert local.cache_bytes(50, batch=3) * 2 == model.cache_bytes(50, batch=3)
    for build, sizes, tokens in ((prefill, {"prompt": 10}, 20), (decode, {"context": 20}, 2)):
        whole, part = (build(each, batch=2, **sizes) for each in (model, local))
        routed = matrix([op for op in whole if op.where.endswith(".router")])
        assert matrix(part) * 2 == matrix(whole) + routed
        sums = [op.reads[0].dims for op in part if op.where.endswith("x_proj.all_reduce")]
        assert set(sums) == ({(tokens, summed)} if summed else set())


@pytest.mark.parametrize(("on", "message"), [("trn2", "how many neuronlink links"), ("m4-max", "no link from Apple")])
def test_copies_need_no_link_between_their_chips(on: str, message: str) -> None:
    four, one = (llm("llama-3-8b", on=target, batch=batch) for target, batch in ((f"{on}:4", 4), (on, 1)))
    assert four.decode.lower == one.decode.lower
    with pytest.raises(RooflineError, match=message):
        llm("llama-3-8b", on=f"{on}:4", tensor=4)
