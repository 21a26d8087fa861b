"""Operations of a step: equal to published and counted totals, to loops over pairs, the same for every kind of size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline.errors import InputError, RooflineError
from roofline.models import chunked, decode, load, names, prefill, serve_bound
from roofline.models.blocks.feed_forward import touched_experts
from roofline.models.blocks.residual import IdleBlocks, ParallelBranches
from roofline.models.description import block_parameters
from roofline.ops.masks import CAUSAL, chunked_pairs, compressed_pairs, selected_pairs, sliding_window
from roofline.sizes import symbol
from roofline.work import Op
from tests.models.tiny import TINY
from tests.strategies import for_each, some

COUNTED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "matrix_flops.json").read_text(encoding="utf-8")
)["models"]


def matrix(ops: tuple[Op, ...], without: str = "") -> Any:
    """FLOPs on the matrix unit."""
    return sum(op.work.total("flops", "matrix") * op.repeat for op in ops if op.kind != without)


# ---- whole models, as counted by other tools and by hand (2 FLOPs per MAC; every pair of query and key)

WHOLE = [
    ("llama-2-7b", {"prompt": 2048, "logits": "all", "count": "full"}, 29_261_612_187_648),
    ("mixtral-8x7b", {"prompt": 1024, "logits": "all", "count": "full"}, 26_658_862_006_272),
    ("gpt-2", {"prompt": 1024, "logits": "all", "count": "full"}, 291_648_307_200),
    ("bert-base", {"prompt": 128, "count": "full"}, 22_348_431_360),
    ("llama-2-7b", {"batch": 8, "prompt": 1024}, 108_306_139_971_584),
]


@pytest.mark.parametrize(("name", "sizes", "flops"), WHOLE)
def test_whole_models(name: str, sizes: dict[str, Any], flops: int) -> None:
    assert matrix(prefill(load(name), **sizes)) == flops


def test_decode_steps() -> None:
    model = load("llama-2-7b")
    assert matrix(decode(model, batch=1, context=2048)) == 14_288_420_864
    assert matrix(decode(model, batch=8, context=1024)) == 110_012_399_616


def test_forward_and_backward_is_three_times_forward() -> None:
    """Each product has two more in the backward pass, of the same size."""
    assert 3 * matrix(prefill(load("llama-2-7b"), prompt=2048, logits="all", count="full")) == 87_784_836_562_944


# ---- small models, as counted by torch while they run

#: What the counter sees beyond ours, by model: (prefill, decode), worked out below for 2 x 21 tokens, then 2 x 1.
T, ONE = 2 * 21, 2
# an indexer's weighted sum over its 2 heads is a product there, vector arithmetic here; 3 layers
INDEXER = (3 * 2 * T * 2 * 21, 3 * 2 * ONE * 2 * 22)
INDEXER_OF_2 = (2 * 2 * T * 2 * 21, 2 * 2 * ONE * 2 * 22)
# the convolution of one step computes two positions and uses one; recurrences run as chunks in prefill
DELTA = (None, 2 * (2 * 2 * 4 * (2 * 2 * 8 + 4 * 12) * 2))
# Mamba-2 of 8 heads of 16, 2 groups, a state of 10: the convolution, and state · C as a product, each layer
MAMBA2 = 2 * (2 * 2 * 4 * (8 * 16 + 2 * 2 * 10)) + 2 * 2 * 8 * 16 * 10
# Mamba of 128 channels and a state of 8: the convolution over 3 more positions, and state · C, each layer
MAMBA = (2 * 2 * 128 * 4 * 24 + 2 * T * 128 * 8, 2 * (2 * 2 * 128 * 4) + 2 * ONE * 128 * 8)
# LFM2's convolution of 3, in 2 layers
SHORT = (2 * 2 * 2 * 64 * 3 * 23, 2 * 2 * (2 * 2 * 64 * 3))
# LFM3's of 7, in one layer
SHORT_OF_7 = (2 * 2 * 64 * 7 * 27, 2 * (2 * 2 * 64 * 7))
# Kimi's convolutions of 6 heads of 8 as queries, keys and values, in 3 layers
KIMI = (None, 3 * (2 * 2 * 4 * (3 * 6 * 8) * 2))
# AltUp's mixture of n streams is a product there, vector arithmetic here; 6 layers
ALTUP = (6 * 2 * T * 64, 6 * 2 * ONE * 64)
EXPLAINED: dict[str, tuple[int | None, int]] = {
    "kimi_linear": KIMI,
    "gemma3n_text": (16 * ALTUP[0], 16 * ALTUP[1]),
    "gemma3n_text with biases": (9 * ALTUP[0], 9 * ALTUP[1]),
    "mamba": (3 * MAMBA[0], 3 * MAMBA[1]),
    "falcon_mamba": (3 * MAMBA[0], 3 * MAMBA[1]),
    "jamba": (3 * MAMBA[0], 3 * MAMBA[1]),
    "mamba2": (None, 3 * MAMBA2),
    "falcon_h1": (None, 3 * MAMBA2),
    "falcon_h1 with biases": (None, 3 * MAMBA2),
    "bamba": (None, 2 * MAMBA2),
    "granitemoehybrid": (None, 2 * MAMBA2),
    # the same with a state of 10 in 9 layers; with one group in 3
    "zamba": (
        9 * (2 * 2 * 128 * 4 * 24 + 2 * T * 128 * 10),
        9 * (2 * (2 * 2 * 128 * 4) + 2 * ONE * 128 * 10),
    ),
    "zamba2": (None, 6 * MAMBA2),
    "zamba2 of one block with biases": (None, 3 * (MAMBA2 - 2 * (2 * 2 * 4 * 2 * 10))),
    "lfm2": SHORT,
    "lfm3": SHORT_OF_7,
    "lfm3 normed and gated less": SHORT_OF_7,
    "lfm2_moe": SHORT,
    # its cache is not cut to the window of 8: 14 keys masked in 2 layers
    "gpt_neo": (0, 2 * ONE * 4 * 14 * 2 * (16 + 16)),
    "bailing_hybrid": (None, 2 * (2 * 2 * 4 * (3 * 4 * 8) * 2)),
    "olmo_hybrid": (None, 2 * (2 * 2 * 4 * (2 * 4 * 8 + 4 * 12) * 2)),
    # scores of 2 heads of an indexer are weighed in a product there, in 2 layers
    "mistral_large4_text": (2 * 2 * T * 21 * 2, 2 * 2 * ONE * 22 * 2),
    # mixing 4 streams is a product there (6 times), as are the weights of 2 heads of an indexer over 5 pools of keys
    "glm5_next_text": (None, 2 * (2 * 2 * 4 * (3 * 6 * 8)) + 6 * 2 * ONE * 16 * 64 + 2 * ONE * 5 * 2),
    # scores are made twice there, once for each half of the values: 4 heads of 16 in 3 layers
    "diffllama": (3 * 2 * T * 21 * 4 * 16, 3 * 2 * ONE * 22 * 4 * 16),
    # convolutions of 4 over keys and values (48, 64 and 48 channels) and two of the width in each layer
    "inkling_text": (2 * 2 * (160 + 6 * 64) * 4 * 24, 2 * (2 * 2 * (160 + 6 * 64) * 4)),
    # the same over keys and values of 2 layers and two of the width in 4; 24 states are mixed by products there
    "inkling2_text": (
        2 * 2 * (2 * 48 + 8 * 64) * 4 * 24 + 2 * 2 * T * 24 * 64,
        2 * (2 * 2 * (2 * 48 + 8 * 64) * 4) + 2 * 2 * ONE * 24 * 64,
    ),
    # convolutions: of 80 channels at two positions in 3 layers, of 3 streams in 2
    "qwen4_exp_text": (None, 3 * (2 * 2 * 4 * 80 * 2) + 2 * (2 * 2 * 4 * 3 * 64)),
    # 8 layers with windows and 8 others as they run, and 218 states
    "inkling2_loop_text": (
        2 * 2 * (8 * 48 + 32 * 64) * 4 * 24 + 2 * 2 * T * 218 * 64,
        2 * (2 * 2 * (8 * 48 + 32 * 64) * 4) + 2 * 2 * ONE * 218 * 64,
    ),
    # what it ends with is of every token there, here of one row of each of 2 sequences, which is as good
    "embedding_gemma2_text": (2 * (T - 2) * 64 * 40, 0),
    # a step of 2 sequences is broadcast to 2 x 2 tokens there
    "rwkv": (0, 2 * ONE * (3 * (5 * 64 * 64 + 2 * 64 * 80) + 96 * 64)),
    "axk2": INDEXER,
    "hy_v4": INDEXER_OF_2,
    "dots3_note_text": INDEXER_OF_2,
    "glm_moe_dsa": INDEXER,
    "deepseek_v32": INDEXER,
    "qwen3_5_text": DELTA,
    "qwen3_5_text with biases": DELTA,
    "qwen3_5_moe_text": DELTA,
    "qwen3_next": DELTA,
    "lara_mini": DELTA,
    # the same, and state · C as a product, which is half of our recurrence
    "nemotron_h": (None, 2 * (2 * 2 * 4 * (6 * 8 + 2 * 2 * 10) * 2) + 2 * 2 * 2 * 6 * 8 * 10),
    # every expert runs on every token there and is multiplied by 0: 5 of 6 for nothing, in 2 layers; the cache holds a
    # chunk of 8 of which 6 are seen, in 3 layers
    "llama4_text": (
        2 * 5 * T * 3 * 2 * 64 * 48,
        2 * 5 * ONE * 3 * 2 * 64 * 48 + 3 * 2 * ONE * 4 * 2 * (16 + 16),
    ),
    # mixing 4 streams is a product there (8 times); 3 of 5 compressed entries are masked there, not left out (2 layers)
    "deepseek_v4": (8 * 2 * T * 16 * 64, 8 * 2 * ONE * 16 * 64 + 2 * 3 * ONE * 4 * 2 * (32 + 32)),
}
#: Models whose keys are selected by masking there, so that all of them count.
MASKED = ("glm_moe_dsa", "deepseek_v32", "axk2", "hy_v4", "mistral_large4_text", "glm5_next_text", "qwen4_exp_text")


@for_each("name", sorted(TINY))
def test_small_models_equal_what_torch_counts(name: str) -> None:
    """Caches of windows are cut there too; latents are expanded, as there."""
    model, counted = load(TINY[name], name=name), COUNTED[name]
    assert model.parameters == counted["parameters"]
    more, later = EXPLAINED.get(name, (0, 0))
    if more is not None:
        ops = prefill(model, batch=2, prompt=21, logits="all" if model.causal else "last", count="full")
        assert matrix(ops, "recurrence") + more == counted["prefill"]
    if "decode" in counted:
        count = "full" if name in MASKED else "causal"
        ops = decode(model, batch=2, context=21, absorbed=False, count=count)
        assert matrix(ops, "recurrence") + later == counted["decode"]


#: What transformers keeps of 2 x 21 tokens beyond ours: keys of Falcon's 4 heads, of which 2 are equal, in 3
#: layers; no window is cut off in GPT-Neo (2 layers); GLM-5.3-Flash keeps a key, its gates and a mark of each token
#: in place of one key of each pool; Qwen4 keeps each key of an indexer, and no further input of streams;
#: DeepSeek-V4 keeps inputs of what is not compressed yet.
KEPT_MORE = {
    "falcon 40b": 3 * 2 * 2 * 21 * 2 * 16,
    "gpt_neo": 2 * 2 * 2 * 14 * 64,
    "glm5_next_text": 2 * (21 * (2 * 16 + 1) - 5 * 16),
    "qwen4_exp_text": 2 * 2 * (21 - 5) * 16 - 2 * 2 * 3 * 64 * 3,
}
OTHER_CACHE = ("deepseek_v4",)


def kept_there(block: Any) -> Any:
    """Numbers of 21 tokens: transformers keeps one token less of a window, and one input more of a convolution."""
    if isinstance(block, ParallelBranches):
        return sum(kept_there(each) for branch in block.branches for each in branch)
    total = sum(part.elements for part in block.cache(21))
    window = getattr(block, "window", None) or getattr(block, "chunk", None)
    kernel = getattr(block, "kernel", 0) or getattr(block, "kv_kernel", 0)
    if window and window <= 21:
        total -= block.kv_per_token()
    return total + sum(part.elements // (kernel - 1) for part in block.cache(21) if kernel and part.name == "inputs")


@for_each("name", sorted(name for name in TINY if "kept" in COUNTED[name] and name not in OTHER_CACHE))
def test_small_models_keep_what_transformers_keeps(name: str) -> None:
    model = load(TINY[name], name=name)
    kept = 2 * sum(kept_there(block) for layer in model.layers for block in layer.blocks)
    assert kept + KEPT_MORE.get(name, 0) == COUNTED[name]["kept"]


# ---- pairs, by loops


@pytest.mark.parametrize("past", [0, 1, 5, 8, 13])
@pytest.mark.parametrize("new", [1, 2, 7, 16])
def test_pairs_by_loops(new: int, past: int) -> None:
    positions = range(past, past + new)
    assert CAUSAL.pairs(new, past + new) == sum(p + 1 for p in positions)
    for width in (1, 3, 8, 50):
        assert sliding_window(width).pairs(new, past + new) == sum(min(p + 1, width) for p in positions)
        assert selected_pairs(new, past + new, width) == sum(min(p + 1, width) for p in positions)
        assert chunked_pairs(new, past + new, width) == sum(p % width + 1 for p in positions)
        assert compressed_pairs(new, past + new, width) == sum((p + 1) // width for p in positions)
        for most in (1, 2, 4):
            assert compressed_pairs(new, past + new, width, most) == sum(min((p + 1) // width, most) for p in positions)


def test_experts_touched_by_simulation() -> None:
    generator = np.random.default_rng(7)
    hit = [len({int(e) for _ in range(12) for e in generator.choice(16, 3, replace=False)}) for _ in range(4000)]
    assert np.mean(hit) == pytest.approx(touched_experts(16, 3, 12), rel=0.01)
    assert touched_experts(16, 3, 1) == pytest.approx(3)
    assert touched_experts(16, 3, 10**6) == 16
    assert touched_experts(16, 3, 12, skew=(1,) * 16) == pytest.approx(touched_experts(16, 3, 12))


# ---- laws


@pytest.mark.parametrize("name", some(sorted(TINY), 30, 3))
def test_number_equals_array_equals_symbol(name: str) -> None:
    model = load(TINY[name], name=name)
    B, P = symbol("B"), symbol("P")
    for build, size in ((prefill, "prompt"), (decode, "context")):
        if build is decode and not model.causal:
            continue
        plain = build(model, batch=3, **{size: 40})
        arrays = build(model, batch=np.array([3.0, 5.0]), **{size: np.array([40.0, 60.0])})
        symbols = build(model, batch=B, **{size: P})
        assert len(plain) == len(arrays) == len(symbols)
        for one, many, letters in zip(plain, arrays, symbols, strict=True):
            for key, amount in one.work.items():
                assert np.broadcast_to(many.work[key], (2,))[0] == pytest.approx(float(amount), rel=1e-12)
                assert float(_at(letters.work[key], B, P)) == pytest.approx(float(amount), rel=1e-12)
            for plainly, array, letter in zip(
                (*one.reads, *one.writes), (*many.reads, *many.writes), (*letters.reads, *letters.writes), strict=True
            ):
                bytes_ = float(plainly.traffic_bytes)
                assert np.broadcast_to(array.traffic_bytes, (2,))[0] == pytest.approx(bytes_, rel=1e-12)
                assert float(_at(letter.traffic_bytes, B, P)) == pytest.approx(bytes_, rel=1e-9, abs=1)


def _at(value: Any, B: Any, P: Any) -> Any:
    return value.subs({B: 3, P: 40}) if hasattr(value, "subs") else value


@for_each("name", some(sorted(TINY), 4))
def test_chunks_of_a_prompt_add_up(name: str) -> None:
    """Prefill in two chunks does the same attention as in one."""
    model = load(TINY[name], name=name)
    if not model.causal:
        return

    def attention(ops: tuple[Op, ...]) -> int:
        return sum(op.dims["pairs"] * op.repeat for op in ops if "pairs" in op.dims)

    whole = attention(prefill(model, prompt=60))
    parts = attention(prefill(model, prompt=28)) + attention(prefill(model, prompt=32, past=28))
    assert parts == whole


@for_each("name", sorted(TINY))
def test_every_weight_is_read_and_every_layer_is_named(name: str) -> None:
    """With many tokens every parameter moves at least once, but the rows of tables that nobody names."""
    model = load(TINY[name], name=name)
    ops = prefill(model, batch=64, prompt=100, absorbed=False)
    read = {}
    for op in ops:
        for tensor in op.reads:
            if tensor.role == "weight":
                # of weights that layers share a floor reads the part of each use
                part = tensor.elements if tensor.needed is None else tensor.needed
                read.setdefault(tensor.ident, part * op.repeat)
    total = sum(read.values())
    # what is idle in the first turn of a loop of layers runs in the next
    blocks = [block for layer in model.layers if not layer.shared for block in layer.blocks]
    held = block_parameters(block for block in (*model.before, *blocks) if isinstance(block, IdleBlocks))
    expected = model.parameters + (model.vocabulary * model.width if model.tied and model.head else 0)
    assert total == expected - held
    covered = sorted(number for _, numbers, _ in model.layer_groups() for number in numbers)
    assert covered == list(range(len(model.layers)))


@pytest.mark.parametrize("new", [1, 3, 21, 200])
def test_windows_to_both_sides_by_loops(new: int) -> None:
    """Half of a window of 8 to each side, in the three layers of ModernBERT that have one."""
    seen = sum(abs(query - key) <= 4 for query in range(new) for key in range(new))
    ops = prefill(load({**TINY["modernbert"], "max_position_embeddings": 512}), prompt=new)
    found = [op.dims["pairs"] for op in ops if op.kind == "attention" for _ in range(op.repeat)]
    assert sorted(found) == [*[seen] * 3, *[new * new] * 2]


def test_listed_windows_are_each_layers_own_by_loops() -> None:
    """Ultrabert: so many tokens to each side, 0 for all of them."""
    listed = [2, 9, 0, 5]
    model = load({**TINY["ultrabert"], "num_hidden_layers": 4, "attention_windows": listed})
    ops = prefill(model, prompt=21)
    found = [op.dims["pairs"] for op in ops if op.kind == "attention" for _ in range(op.repeat)]
    every = [sum(abs(q - k) <= (side or 21) for q in range(21) for k in range(21)) for side in listed]
    assert sorted(found) == sorted(every)


def test_a_gemma_that_sees_both_ways_is_an_encoder() -> None:
    """EmbeddingGemma: no cache, no head, no decode step."""
    model = load({**TINY["gemma3_text"], "use_bidirectional_attention": True})
    assert not model.causal
    assert not any(op.name == "lm_head" for op in prefill(model, prompt=8))
    assert model.kv_bytes_per_token() == 0
    with pytest.raises(InputError, match="is an encoder, which does not decode"):
        decode(model, context=8)


def test_layers_that_only_attend_to_pictures_are_held_and_not_run() -> None:
    """Each of two such layers: a norm, attention with norms of its heads, an MLP and its norm, two gates."""
    model = load(TINY["mllama_text_model"])
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 2 * 16 + 3 * 64 * 48 + 2 * 64 + 2
    plain = load({**TINY["mllama_text_model"], "cross_attention_layers": []})
    assert model.parameters - plain.parameters == 2 * (2 * 16 + 2)
    # what is not run, the table's rows for pictures among it, is no token's either
    assert model.active_parameters == model.parameters - 2 * layer - 8 * 64
    assert matrix(decode(model, context=9)) == matrix(
        decode(load({**plain_llama(), "num_hidden_layers": 3}), context=9)
    )


def plain_llama() -> dict[str, Any]:
    return {**TINY["mllama_text_model"], "model_type": "llama"}


def test_absorbed_and_expanded_read_the_same_weights() -> None:
    model = load("deepseek-v3")
    for absorbed in (True, False):
        ops = decode(model, batch=1, context=100, absorbed=absorbed)
        matrices = [t for op in ops for t in op.reads if t.role == "weight" and "kv_b_proj" in t.ident]
        shares = {t.ident: t.elements for t in matrices if "scale" not in t.ident and "layers.0-2" in t.ident}
        assert sum(shares.values()) == 512 * 128 * 256


def test_formats_stand_apart() -> None:
    ops = decode(load("llama-2-7b"), batch=4, context=100, weights="int8", kv="fp8", activations="bf16")
    roles = {(t.role, t.dtype) for op in ops for t in (*op.reads, *op.writes)}
    assert {("weight", "int8"), ("kv", "fp8"), ("activation", "bf16"), ("weight", "bf16")} <= roles
    assert ("kv", "bf16") not in roles


@pytest.mark.parametrize(("weights", "rest"), [("bf16", "bf16"), ("int8", "fp32")])
def test_a_float_of_16_bits_converts_the_whole_model(weights: str, rest: str) -> None:
    """OLMo 2 and Bamba are published in fp32: in bf16 their embedding, norms and head are bf16 too."""
    model = load({**TINY["llama"], "torch_dtype": "float32"})
    ops = decode(model, batch=4, context=10, weights=weights, activations="bf16")
    formats = {
        t.ident.removesuffix(".weight").split(".")[-1]: t.dtype for op in ops for t in op.reads if t.role == "weight"
    }
    assert formats["up_proj"] == weights
    assert formats["lm_head"] == formats["embed_tokens"] == formats["input_layernorm"] == rest
    stored = 4 if rest == "fp32" else 2
    matrices = sum(n for name, n in model.parameters_by_module().items() if "_proj" in name)
    others = model.parameters - matrices
    assert model.weight_bytes(weights) == matrices * {"bf16": 2, "int8": 1}[weights] + others * stored


def test_groups_of_layers() -> None:
    assert [label for label, _, _ in load("deepseek-v3").layer_groups()] == ["layers.0-2", "layers.3-60"]
    assert [label for label, _, _ in load("gpt-oss-20b").layer_groups()] == ["layers.0-22:2", "layers.1-23:2"]
    assert [label for label, _, _ in load("qwen3.6-27b-nvfp4").layer_groups()][1] == "layers.3-63:4"


def test_every_shipped_model_runs_both_phases() -> None:
    for name in some(names(), 3):
        model = load(name)
        assert matrix(prefill(model, batch=2, prompt=64)) > 0
        if model.causal:
            assert matrix(decode(model, batch=2, context=64)) > 0


MESSAGES: list[tuple[Any, dict[str, Any], str]] = [
    (prefill, {"prompt": 0}, "size prompt is 0; a size is a whole number of at least 1"),
    (prefill, {"prompt": 5, "batch": 0}, "size batch is 0; a size is a whole number of at least 1"),
    (prefill, {"prompt": 5, "logits": "some"}, "logits 'some' is not understood; 'last', 'all' or 'none'"),
    (prefill, {"prompt": 5, "count": "half"}, "count 'half' is not understood; 'causal' or 'full'"),
    (prefill, {"prompt": 5, "weights": "int9"}, "unknown dtype 'int9'; did you mean"),
    (decode, {"context": -1}, "size context is -1; a size is a whole number of at least 0"),
    (decode, {"context": 2.5}, "size context is 2.5; a size is a whole number of at least 0"),
    (decode, {"context": [4, -1]}, "size context is -1 at index 1; a size is a whole number of at least 0"),
]


@pytest.mark.parametrize(("build", "sizes", "message"), MESSAGES)
def test_messages(build: Any, sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(RooflineError) as caught:
        build(load("llama-2-7b"), **sizes)
    assert message in str(caught.value)


def test_an_encoder_does_not_decode() -> None:
    with pytest.raises(InputError, match="bert-base is an encoder, which does not decode; ask for prefill"):
        decode(load("bert-base"), context=10)
    with pytest.raises(InputError, match="bert-base keeps no keys and values: its tokens see later ones; leave past"):
        prefill(load("bert-base"), prompt=8, past=8)
    with pytest.raises(InputError, match="bert-base reads a text whole: its tokens see later ones; leave chunk= out"):
        chunked("bert-base", on="h100", prompt=8, chunk=4)
    one, two = (serve_bound("bert-base", "prefill", on=f"h100:{n}", pipeline=n, prompt=512) for n in (1, 2))
    assert sum(stage.flops for stage in two.stages) == one.flops  # type: ignore[attr-defined]
    assert two.lower == pytest.approx(one.lower, rel=0.01)
