"""The floor of serving: the published floor to all its digits, never below physics, memory and formats."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline
from roofline.errors import RooflineError
from roofline.hardware import chip
from roofline.models import decode, load, names, serve_bound
from roofline.models.config import _index
from roofline.models.description import Model
from roofline.models.operations import moved_by_part
from roofline.models.serving.answer import serve
from roofline.models.serving.fit import largest_batch, longest_context
from roofline.models.serving.limits import compute_bound_batch
from roofline.models.serving.step import needs
from roofline.sections import Sentences, Table
from roofline.work import Tensor
from tests.models.tiny import TINY
from tests.strategies import few, some

A100 = {"on": "a100", "set": {"bf16": 312e12, "hbm": 2.039e12}}
H100 = {"on": "h100", "set": {"bf16": 989.4e12, "hbm": 3.35e12}}

#: Milliseconds, bf16, all efficiencies 1; TP8 is the whole divided by 8. Exact matmul FLOPs, every streamed weight
#: once, keys and values once, activations nothing.
FLOOR = [
    ("llama-2-7b", "prefill", {"batch": 8, "prompt": 1024}, 1, 347.135, 109.466),
    ("llama-2-7b", "decode", {"batch": 8, "context": 1024}, 1, 8.58917, 5.22786),
    ("llama-2-13b", "decode", {"batch": 8, "context": 1024}, 1, 15.9003, 9.67781),
    ("llama-3.1-8b", "decode", {"batch": 64, "context": 1024}, 1, 11.5780, 7.04706),
    ("llama-2-70b", "decode", {"batch": 8, "context": 1024}, 8, 8.58959, 5.22811),
]


@pytest.mark.parametrize(("name", "phase", "sizes", "chips", "a100", "h100"), FLOOR)
def test_the_published_floor(
    name: str, phase: str, sizes: dict[str, int], chips: int, a100: float, h100: float
) -> None:
    for machine, expected in ((A100, a100), (H100, h100)):
        found = serve_bound(name, phase, activations="bf16", policy="streamed", **machine, **sizes)
        assert float(f"{found.lower * 1e3 / chips:.6g}") == expected


def test_the_published_amounts() -> None:
    found = serve_bound("llama-2-7b", "decode", batch=8, context=1024, activations="bf16", policy="streamed", **A100)
    assert found.flops == 110_012_399_616
    assert sum(found.bytes.values()) == 17_513_316_352
    assert round(found.intensity, 2) == 6.28
    assert serve_bound("llama-2-7b", "prefill", batch=8, prompt=1024, **A100).flops == 108_306_139_971_584


def test_streamed_moves_the_states_of_recurrent_layers() -> None:
    """Of each delta layer: 48 value heads of 128 x 128 in fp32, and 3 inputs of 10,240 channels, read and written."""
    moved = {
        batch: serve_bound("qwen3.6-27b-nvfp4", "decode", on="h200", batch=batch, context=1, policy="streamed")
        for batch in (1, 2)
    }
    described = load("qwen3.6-27b-nvfp4")
    [delta] = {b for layer in described.layers for b in layer.blocks if type(b).__name__ == "GatedDeltaNet"}
    layers = sum(layer.blocks.count(delta) for layer in described.layers)
    state = 2 * 4 * delta.value_heads * delta.key * delta.value
    inputs = 2 * 2 * (delta.kernel - 1) * (2 * delta.key_heads * delta.key + delta.value_heads * delta.value)
    more = sum(moved[2].bytes.values()) - sum(moved[1].bytes.values())
    assert layers * (state + inputs) < more < layers * (state + inputs) * 1.02  # and keys of the attention layers


def test_what_minimal_adds_to_streamed() -> None:
    """Norm scales, the rows gathered, token numbers and the logits: nothing else."""
    options: dict[str, Any] = {"batch": 8, "context": 1024, "activations": "bf16", **A100}
    minimal = serve_bound("llama-2-7b", "decode", policy="minimal", **options)
    streamed = serve_bound("llama-2-7b", "decode", policy="streamed", **options)
    more = sum(minimal.bytes.values()) - sum(streamed.bytes.values())
    assert more == 65 * 4096 * 2 + 8 * 4096 * 2 + 8 * 4 + 8 * 32000 * 2


# ---- never below physics

CHIPS = ["a100", "h100", "b200", "mi300x", "v5e", "v5p", "gtx-1080-ti"]
FILES = sorted({file.removesuffix(".json") for file in _index().values()})


def least(model: Model, tokens: int, batch: int, past: int) -> tuple[float, float]:
    """The fewest FLOPs and bytes a step can have, counted without its operations: matrices alone, and the old cache."""
    of, flops, bytes_ = model.storages(), 0, 0.0
    for number, layer in enumerate(model.layers):
        within = of(f"layers.{number}")
        for block in layer.blocks:
            for weight in block.weights():
                size = within(".".join(filter(None, (block.name, weight.name))), weight).nbytes(weight.shape)
                if weight.kind == "linear":
                    flops += 2 * tokens * weight.elements
                    bytes_ += size
                elif weight.kind == "expert":
                    bytes_ += size / weight.shape[0]
    if model.head:
        flops += 2 * batch * model.vocabulary * model.width
    return flops, bytes_


@given(
    name=st.sampled_from(FILES),
    on=st.sampled_from(CHIPS),
    batch=st.integers(1, 300),
    length=st.integers(1, 500),
    decoding=st.booleans(),
    policy=st.sampled_from(["minimal", "each-op", "fused", "streamed"]),
)
def test_no_answer_is_below_physics(name: str, on: str, batch: int, length: int, decoding: bool, policy: str) -> None:
    model = load(name)
    decoding = decoding and model.causal
    phase, sizes = ("decode", {"context": length}) if decoding else ("prefill", {"prompt": length})
    found = serve_bound(model, phase, on=on, batch=batch, policy=policy, **sizes)
    machine = chip(on)
    fastest = max(figure.value for unit in machine.units for figure in unit.peaks.values())
    bandwidth = next(memory.bandwidth.value for memory in machine.memories if not memory.link and memory.bandwidth)
    tokens = batch * (1 if decoding else length)
    flops, bytes_ = least(model, tokens, batch, length)
    assert found.flops >= flops * (1 - 1e-12)
    assert sum(found.bytes.values()) >= bytes_ * (1 - 1e-12)
    assert found.lower >= max(found.flops / fastest, sum(found.bytes.values()) / bandwidth) * (1 - 1e-12)
    assert found.lower <= found.op_by_op * (1 + 1e-12) <= found.upper * (1 + 1e-9)
    assert found.upper <= len(found.times) * found.lower * (1 + 1e-9)


@given(name=st.sampled_from(FILES), batch=st.integers(1, 64), context=st.integers(1, 400))
def test_decode_moves_at_least_the_cache(name: str, batch: int, context: int) -> None:
    """Without selection every cached key and value is read, and every state is read and written."""
    model = load(name)
    if not model.causal or model.family in ("glm_moe_dsa", "deepseek_v4", "deepseek_ref", "minimax_m3", "llama4"):
        return
    found = serve_bound(model, "decode", on="h100", batch=batch, context=context)
    reads = sum(part.bytes for part in found.ops if part.op.kind in ("attention", "recurrence"))
    grown = model.cache_bytes(context, batch=batch) - model.cache_bytes(1, batch=batch)
    assert reads >= grown * (1 - 1e-12)


@given(name=st.sampled_from(["llama-3-8b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b"]), batch=st.integers(1, 200))
@few(30)
def test_fewer_bits_and_more_bandwidth_never_slow_a_step(name: str, batch: int) -> None:
    base = serve_bound(name, "decode", on="h100", batch=batch, context=200, weights="bf16", compute="bf16")
    narrow = serve_bound(name, "decode", on="h100", batch=batch, context=200, weights="int8", compute="bf16")
    faster = serve_bound(
        name, "decode", on="h100", batch=batch, context=200, weights="bf16", compute="bf16", set={"hbm": "5 TB/s"}
    )
    assert narrow.lower <= base.lower
    assert faster.lower <= base.lower


def test_policies_are_ordered() -> None:
    for name in ("llama-2-7b", "mixtral-8x7b", "deepseek-v3", "nemotron-super-49b", "qwen3.5-35b-a3b"):
        for phase, sizes in (("prefill", {"prompt": 300}), ("decode", {"context": 300})):
            moved = [
                sum(serve_bound(name, phase, on="h100", batch=4, policy=policy, **sizes).bytes.values())
                for policy in ("minimal", "fused", "each-op")
            ]
            assert moved == sorted(moved)


# ---- arrays


def test_arrays_broadcast() -> None:
    batch, context = np.array([[1], [8], [64]]), np.array([128, 1024])
    found = serve_bound("llama-3-8b", "decode", on="h100", batch=batch, context=context)
    assert found.lower.shape == (3, 2)
    for i in range(3):
        for j in range(2):
            one = serve_bound("llama-3-8b", "decode", on="h100", batch=int(batch[i, 0]), context=int(context[j]))
            assert found.lower[i, j] == pytest.approx(one.lower, rel=1e-12)
    assert moved_by_part(found)["kv"][2, 1] == pytest.approx(moved_by_part(one)["kv"], rel=1e-12)


def test_lists_are_arrays() -> None:
    listed = serve_bound("llama-3-8b", "decode", on="h100", batch=[1, 8], context=range(100, 300, 100))
    arrays = serve_bound("llama-3-8b", "decode", on="h100", batch=np.array([1, 8]), context=np.array([100, 200]))
    assert listed.lower.tolist() == arrays.lower.tolist()


def test_a_closed_form() -> None:
    from roofline.sizes import symbol

    B = symbol("B")
    found = serve_bound("llama-2-7b", "decode", on="a100", batch=B, context=1024, policy="streamed")
    weights = 2 * (6738415616 - 32000 * 4096 - 65 * 4096)
    assert found.bytes["hbm"].expand() == weights + B * 524288 * 1025


# ---- memory


def test_weights_as_published() -> None:
    """Sizes of the checkpoints on their hubs, to the per cent that towers and prediction layers leave."""
    for name, gigabytes in (
        ("llama-2-7b", 13.48),
        ("gpt-oss-120b", 65.2),
        ("gpt-oss-20b", 13.8),
        ("kimi-k2.5", 594),
        ("deepseek-v3", 673),
        ("qwen3-30b-a3b-fp8", 31.2),
    ):
        assert load(name).weight_bytes() / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_fp8_blocks_carry_their_scales() -> None:
    model = load("qwen3-30b-a3b-fp8")
    plain = load("qwen3-30b-a3b")
    converted = (plain.weight_bytes() - model.weight_bytes()) * 16384 / (16384 - 4)
    kept = 2 * plain.vocabulary * plain.width + 48 * (128 * 2048) + 48 * (2 * 2048 + 2 * 128) + 2048
    assert converted == pytest.approx(plain.parameters - kept, rel=1e-3)


def test_keys_and_values_per_token() -> None:
    for name, elements in (("llama-2-70b", 2 * 80 * 8 * 128), ("deepseek-v3", 61 * 576), ("gpt-3", 2 * 96 * 12288)):
        assert load(name).kv_bytes_per_token("bf16") == 2 * elements
        assert load(name).kv_bytes_per_token("int8") == elements


def written(bound: Any) -> float:
    """Bytes of keys, values and states that a floor writes."""
    found = 0.0
    for part in bound.ops:
        for tensor in part.op.writes:
            if tensor.role in ("kv", "state"):
                count = tensor.elements if tensor.given is None else tensor.given
                found += Tensor("", (1,), tensor.dtype, touched=count).traffic_bytes * part.op.repeat
    return found


KEEPING = (
    "mistral with a window", "gpt_oss", "llama4_text", "deepseek_v4", "kimi_linear", "inkling_text", "gemma3n_text",
)  # fmt: skip


@pytest.mark.parametrize("name", KEEPING)
def test_the_floor_writes_what_sequences_keep(name: str) -> None:
    """Of a prompt a window's last tokens, and in a step of chunks beside sequences that decode as in both alone."""
    model, asked = load(TINY[name]), {"on": "h200"}
    for prompt in (6, 64):
        bound = serve_bound(model, "prefill", batch=2, prompt=prompt, **asked)
        assert written(bound) == bound.footprint.parts["kv"]
    chunk, other = {"past": 16}, {"batch": 4, "context": 40}
    both = serve_bound(model, "mixed", chunk=16, prompts=2, **chunk, **other, **asked)
    first = serve_bound(model, "prefill", batch=2, prompt=16, logits="none", **chunk, **asked)
    assert written(both) == written(first) + written(serve_bound(model, "decode", **other, **asked))


@pytest.mark.parametrize("ways", ["context_parallel", "kv_parallel"])
def test_chips_that_share_a_sequence_write_their_part_of_it(ways: str) -> None:
    model, asked = load(TINY["deepseek_v3"]), {"on": "h200:4", "tensor": 4 if ways == "kv_parallel" else 1, ways: 4}
    bound = serve_bound(model, "prefill", batch=4, prompt=64, **asked)
    grown = bound.footprint.parts["kv"] / 64
    assert written(bound) == grown * 64
    assert written(serve_bound(model, "decode", batch=4, context=64, **asked)) == grown


def test_windows_and_states_stop_growing() -> None:
    sliding, hybrid = load("gpt-oss-20b"), load("qwen3.5-35b-a3b")
    full = 12 * 2 * 8 * 64 * 2
    assert sliding.cache_bytes(9000) - sliding.cache_bytes(8000) == 1000 * full
    assert hybrid.cache_bytes(2) - hybrid.cache_bytes(1) == 10 * 2 * 2 * 256 * 2
    assert hybrid.cache_bytes(1) > 30 * 32 * 128 * 128 * 4
    read = {tensor.traffic_elements for op in decode(sliding, batch=1, context=1000) for tensor in op.reads
            if "cache" in tensor.ident}  # fmt: skip
    assert read == {127 * 8 * 64, 1000 * 8 * 64}  # a token sees itself and 127 before it


def test_largest_batch_and_context_are_the_largest() -> None:
    model = load("llama-3-8b")

    def total(batch: int, context: int) -> float:
        return float(needs(model, decode(model, batch=batch, context=context), context + 1, batch, {}).total)

    most = largest_batch(model, 80e9, context=4096)
    assert total(most, 4096) <= 80e9 < total(most + 1, 4096)
    longest = longest_context(model, 80e9, batch=32)
    assert total(32, longest) <= 80e9 < total(32, longest + 1)


def test_what_does_not_fit_is_said_with_what_would() -> None:
    too_many = serve("llama-2-7b", on="h100", batch=500, context=1024)
    assert too_many.memory.fits is False
    most = largest_batch(too_many.model, too_many.memory.capacity or 0, context=1024)
    assert (too_many.fitting() or "").startswith(f"batch {most} at this context; or ")
    assert any("does not fit: it needs" in said for said in too_many.decode.assumptions)  # type: ignore[union-attr]
    assert (serve("llama-2-70b", on="h100", context=1024).fitting() or "").startswith("fp8 weights; or ")
    assert serve("deepseek-v3", on="h100", context=1024).fitting() == (
        "8 such chips have the memory, 16 split it evenly (tensor=16 kv_parallel=16); "
        "or the weights of 52 of 61 layers in the host's memory (host_layers=52)"
    )
    assert serve("llama-2-7b", on="h100", context=1024).fitting() is None


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b", "qwen3-30b-a3b-fp8", "deepseek-v3"])
@pytest.mark.parametrize(("context", "attention"), [(64, True), (64, False), (4000, False)])
def test_the_batch_where_decode_flips(name: str, context: int, attention: bool) -> None:
    model, machine = load(name), chip("h100")
    found = compute_bound_batch(model, machine, context=context, attention=attention)

    def computing(batch: int) -> bool:
        answer = serve_bound(model, "decode", on="h100", batch=batch, context=context, policy="streamed")
        parts = [part for part in answer.ops if attention or part.op.kind != "attention"]
        times = {name: sum(part.times.get(name, 0) for part in parts) for name in answer.times}
        return max(time for resource, time in times.items() if resource != "hbm") >= times["hbm"]

    assert found is not None
    assert computing(found)
    assert not computing(found - 1)


def test_decode_of_many_keys_never_flips() -> None:
    assert compute_bound_batch(load("llama-2-7b"), chip("h100"), context=1024) is None
    assert serve("llama-2-7b", on="h100", context=1024).compute_bound_from() == {"whole": None, "matrices": 300}


# ---- what is said


def test_gaps_make_an_answer_incomplete() -> None:
    fields: dict[str, Any] = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    fields |= {"intermediate_size": 128, "vocab_size": 100, "new_trick": 3}
    found = serve(load(fields, name="toy-nvfp4"), on="h100", context=100)
    decode = found.decode
    assert decode is not None
    assert len(decode.incomplete) == 2
    first, head, *_ = [part for part in found.sections() if isinstance(part, Sentences)]
    assert first.lines[0].startswith("the name says nvfp4")
    assert head.lines[0].endswith("for what is modelled: see incomplete below")
    assert not serve_bound("qwen3-0.6b", "decode", on="h100", context=100).incomplete


def test_an_answer_is_json_with_stable_keys() -> None:
    found = serve("llama-2-7b", on="a100", batch=np.array([1.0, 8.0]), prompt=64)
    text = json.dumps(found.to_dict(), allow_nan=False)
    data = json.loads(text)
    assert data["schema"] == "roofline/llm/1"
    assert len(data["decode"]["lower"]) == len(data["tokens_per_second"]) == 2
    assert {"prefill", "decode", "memory", "time_to_first_token", "time_per_token", "model"} <= set(data)


MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"phase": "decod", "context": 5}, "no phase 'decod'; did you mean 'decode'?"),
    ({"phase": "decode"}, "decode needs context=; for instance context=1024"),
    ({"phase": "prefill"}, "prefill needs prompt=; for instance prompt=1024"),
    ({"phase": "decode", "context": 5, "policy": "tiled"}, "the byte policy 'tiled' needs a tile"),
    ({"phase": "decode", "context": 5, "policy": "tild"}, "unknown byte policy 'tild'; did you mean 'tiled'?"),
    ({"phase": "decode", "context": 5, "on": "h10"}, "unknown chip 'h10'; did you mean 'h100'?"),
]


@pytest.mark.parametrize(("arguments", "message"), MESSAGES)
def test_messages(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RooflineError) as caught:
        serve_bound("llama-2-7b", **{"on": "h100", **arguments})
    assert message in str(caught.value)


def test_every_shipped_model_has_a_bound_on_every_kind_of_chip() -> None:
    for name in some(list(names()), 3):
        model = load(name)
        found = serve_bound(model, "prefill", on="v5p", batch=2, prompt=32)
        assert 0 < found.lower < float("inf")


@pytest.mark.parametrize(
    "sizes", [{"prompt": 1025}, {"prompt": 1000, "past": 25}, {"prompt": 1024}, {"prompt": [512, 1025]}]
)
def test_beyond_the_length_a_model_was_trained_on_is_an_assumption(sizes: dict[str, Any]) -> None:
    found = serve("gpt2", on="h100", **sizes)
    decode = found.decode
    assert decode is not None
    said = [line for line in decode.assumptions if "was trained on" in line]
    longest = max(sizes["prompt"]) if isinstance(sizes["prompt"], list) else sizes["prompt"]
    total = longest + sizes.get("past", 0) + 1
    assert said == [f"sequences of {total:,} tokens are longer than the 1,024 that gpt2 was trained on"]
    assert not [line for line in serve("gpt2", on="h100", prompt=1023).decode.assumptions if "was trained on" in line]


@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("mamba2", "weights bf16, activations bf16, states fp32"),
        ("falcon_h1", "weights bf16, activations bf16, keys and values bf16, states fp32"),
        ("llama", "weights bf16, activations bf16, keys and values bf16"),
    ],
)
def test_formats_of_what_a_sequence_keeps_are_said(name: str, formats: str) -> None:
    said = serve_bound(load({**TINY[name], "torch_dtype": "bfloat16"}), "decode", on="h100", context=99).assumptions
    assert formats in said
    assert any("causal attention" in each for each in said) == ("keys" in formats)


def test_an_answer_over_a_list_says_which_fit() -> None:
    from roofline.models import serve

    found = serve("llama-3-8b", on="l4", batch=[1, 4, 8, 16], context=8192)
    assert "4 configurations, 2 of which fit" in repr(found)
    assert list(found.to_pandas()["fits"]) == [True, True, False, False]
    assert "of which" not in repr(serve("llama-3-8b", on="l4", batch=[1, 4], context=8192))


def test_a_frame_has_every_row_and_a_page_some() -> None:
    from roofline.models import serve

    found = serve("llama-3-8b", on="h100", batch=range(1, 101), context=1024)
    assert list(found.to_pandas()["batch"]) == list(range(1, 101))
    assert sum(len(each.rows) for each in found.sections() if isinstance(each, Table)) < 100


def test_arrays_that_go_together_are_counted_as_pairs() -> None:
    """Four hundred batches with four hundred contexts are four hundred steps, on several layouts each."""
    batch, context = np.arange(1, 401), np.arange(1, 401) * 10
    found = roofline.llm("llama-3-8b", on="h100", batch=batch, context=context).decode.lower
    assert found == pytest.approx(roofline.formula("llama-3-8b", on="h100")(batch=batch, context=context)["lower"])
    both = roofline.llm("llama-3-8b", on="h100:2", batch=batch[:350], context=context[:350], tensor=[1, 2])
    assert both.decode.lower.shape == (2, 350)
