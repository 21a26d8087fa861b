"""Formats of indexers: the narrowest that public kernels use on a chip; ``kv`` and ``compute`` reach them."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from roofline import dtypes
from roofline.bounds.bound import Bound
from roofline.errors import InputError
from roofline.hardware import chip
from roofline.models import load, serve_bound
from roofline.models.blocks.attention import with_index_formats
from roofline.models.description import Model
from roofline.models.operations import prefill
from roofline.models.serving.fit import fewest
from tests.models.tiny import TINY

GLM = "glm-5-fp8"
FAMILIES = (GLM, "glm-5.2", "deepseek-v4-flash", "minimax-m3")


def scores(found: Bound) -> tuple[set[str], set[str]]:
    """Arithmetic of the scores, and formats of the cached keys they read."""
    ops = [part.op for part in found.ops if part.op.role == "selection"]
    assert ops
    compute = {key.dtype for op in ops for key in op.work if key.place == "matrix"}
    return compute, {t.dtype for op in ops for t in op.reads if t.role == "kv"}


def priced(model: str | Model, on: str, **options: Any) -> Bound:
    return serve_bound(model, "prefill", on=on, tensor=8, prompt=512, past=4096, **options)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    ("on", "arithmetic", "bits"), [("a100:8", "bf16", 16), ("h200:8", "fp8", 8), ("b200:8", "fp4", 4)]
)
def test_the_narrowest_format_of_public_kernels(name: str, on: str, arithmetic: str, bits: int) -> None:
    found = priced(name, on)
    compute, kept = scores(found)
    assert compute == {arithmetic}
    assert {dtypes.get(each).bits for each in kept} == {bits}
    assert [line.kind for line in found.assumptions if "indexer scores in" in line] == ["formats"]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_caller_chooses_the_formats(name: str) -> None:
    assert scores(priced(name, "h200:8", kv="bf16")) == ({"bf16"}, {"bf16"})
    assert scores(priced(name, "h200:8", compute="bf16")) == ({"bf16"}, {"fp8_e4m3"})
    assert scores(priced(name, "b200:8", kv="fp8")) == ({"fp8"}, {"fp8"})
    said = [line for line in priced(name, "h200:8", kv="bf16").assumptions if "indexer scores" in line]
    assert said == ["the indexer scores in bf16 and keeps its keys in bf16"]


def test_narrower_keys_take_less_memory() -> None:
    """GLM-5: 78 layers keep a key of 128 numbers beside latents of 576 in bf16."""
    plain, narrow = load(GLM), with_index_formats(load(GLM), chip("h200"))
    assert plain.kv_bytes_per_token() == 78 * 2 * (576 + 128)
    assert narrow.kv_bytes_per_token() == 78 * (2 * 576 + 128)
    assert narrow.kv_bytes_per_token("bf16") == plain.kv_bytes_per_token()
    assert narrow.cache_bytes(1000) == 1000 * narrow.kv_bytes_per_token()
    for kind in (np.uint8, np.int64):
        several = narrow.cache_bytes(1000, batch=np.array([2, 200], kind))
        assert several.tolist() == [2000 * narrow.kv_bytes_per_token(), 200_000 * narrow.kv_bytes_per_token()]
    found = serve_bound(GLM, "decode", on="h200:8", tensor=8, batch=1, context=999)
    assert found.footprint is not None
    assert found.footprint.parts["kv"] == narrow.cache_bytes(1000)
    assert fewest(GLM, on="h200", batch=1, context=1000).needed.parts["kv"] == narrow.cache_bytes(1000)


def test_a_ring_passes_keys_in_their_formats() -> None:
    options: dict[str, Any] = {"on": "h200:8", "context_parallel": 8, "prompt": 8192}
    wide, narrow = (serve_bound(GLM, "prefill", **options, **more) for more in ({"kv": "bf16"}, {}))
    sent = [sum(part.op.dims["bytes"] * part.op.repeat for part in found.ops if part.op.where.endswith(".ring"))
            for found in (wide, narrow)]  # fmt: skip
    assert sent == [8192 * 78 * 2 * 704, 8192 * 78 * (2 * 576 + 128)]
    gathered = serve_bound("deepseek-v3", "prefill", on="h200:8", tensor=8, kv_parallel=8, prompt=64, past=8192)
    for found in (narrow, gathered):
        assert not any("converting" in line and "int8" in line for line in found.assumptions)


def test_long_prompts_of_deepseek_v32() -> None:
    """Scores of all pairs: 61 layers, 64 heads of 128; fp8 on Hopper has twice the rate of bf16."""
    sizes = {"index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048}
    path = files("roofline.models") / "catalog" / "deepseek-ai--deepseek-v3.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    model = load({**fields, "model_type": "deepseek_v32", **sizes}, name="deepseek-v3.2")
    length = 131072
    flops = 61 * 2 * 64 * 128 * length * (length + 1) // 2
    found = serve_bound(model, "prefill", on="h200:8", tensor=8, prompt=length)
    ops = [part.op for part in found.ops if part.op.role == "selection"]
    assert sum(op.work.total("flops", "matrix") * op.repeat for op in ops) == flops
    assert found.lower == pytest.approx(5.4, rel=0.02)
    assert serve_bound(model, "prefill", on="h200:8", tensor=8, prompt=length, kv="bf16").lower > 9.6


@pytest.mark.parametrize("name", ["glm-5.1", "deepseek-v4-flash", "minimax-m3"])
def test_keys_that_choose_are_not_taken_for_those_that_are_attended_to(name: str) -> None:
    """The indexer's keys are in fp8 beside keys and values in bf16."""
    usual, narrow = (
        " ".join(serve_bound(name, "decode", on="h200", context=4096, **kv).assumptions) for kv in ({}, {"kv": "fp8"})
    )
    assert "the indexer scores in fp8" in usual
    assert ["keys and values in fp8 are multiplied in fp8" in each for each in (usual, narrow)] == [False, True]


def test_an_answer_says_that_tokens_may_choose_the_same_keys() -> None:
    asked = {"on": "h200:8", "tensor": 8, "batch": 8, "prompt": 32}
    said = "keys in the cache: as many as new tokens can choose; tokens that choose the same ones read fewer"
    assert said in serve_bound("glm-5-fp8", "prefill", past=65536, **asked).assumptions
    assert said not in serve_bound("glm-5-fp8", "prefill", **asked).assumptions
    assert said not in serve_bound("llama-3-8b", "prefill", past=65536, **asked).assumptions


def test_mistral_large_4() -> None:
    """Mistral-Large-4-1T-A52B: every number that its configuration leaves out is the class's own in transformers 5.24.

    Parameters are those that transformers builds; each fourth layer keeps no rotated part of keys.
    """
    text = {"model_type": "mistral_large4_text"}
    fields = {"model_type": "mistral_large4", "dtype": "bfloat16", "text_config": text}
    model = load(fields)
    assert model.parameters == 1_050_118_202_912
    assert model.active_parameters - 204800 * 6144 == pytest.approx(52e9, rel=0.005)
    assert model.kv_bytes_per_token() == 2 * (54 * 576 + 18 * 512 + 72 * 128)
    decode = serve_bound(model, "decode", on="h200:8", tensor=8, expert=8, context=65535)
    read = {part.op.where: part for part in decode.ops if part.op.where.endswith("self_attn.attention")}
    # of 54 and of 18 layers, each 2,048 latents
    assert [part.op.dims["head_size"] for part in read.values()] == [576, 576, 512]
    text["kv_source_layers"] = [0] * 72
    with pytest.raises(InputError, match="has layers that read the latents of another; that is not modelled"):
        load(fields)


def test_glm_5_3_flash() -> None:
    """Every number is the class's own in transformers 5.24, and parameters are those that it builds.

    Of 11 layers that pick keys each keeps a latent of 512 for each token and a key of 128 for each 16.
    """
    text: dict[str, Any] = {"model_type": "glm5_next_text"}
    fields = {"model_type": "glm5_next", "dtype": "bfloat16", "text_config": text}
    model = load(fields)
    assert model.parameters == 313_326_816_766
    assert model.kv_bytes_per_token() == 2 * 11 * (512 + 128 / 16)
    text["qk_rope_head_dim"] = 64
    with pytest.raises(InputError, match=r"qk_rope_head_dim of .* is 64; 0 is read: nothing rotates"):
        load(fields)
    text.update(qk_rope_head_dim=0, index_kpool=15)
    with pytest.raises(InputError, match="an index_topk of 2048 is no whole number of pools of 15 keys"):
        load(fields)
    text["layer_types"] = [["indexed_attention"]]
    with pytest.raises(InputError, match=r"layer_types of .* lists \['indexed_attention'\]; a list of words"):
        load(fields)


@pytest.mark.parametrize(("new", "past"), [(1, 0), (1, 21), (1, 23), (7, 13), (40, 0)])
@pytest.mark.parametrize("tail", [True, False])
def test_pools_of_keys_by_loops(new: int, past: int, tail: bool) -> None:
    """Pools of 4 of which a query picks 3, and sees what stands behind the last whole one."""
    model = load({**TINY["glm5_next_text"], "index_kpool_always_select_tail": tail})
    ops = prefill(model, prompt=new, past=past)
    seen = [p + 1 for p in range(past, past + new)]
    chosen = sum(4 * min(n // 4, 3) + (n % 4 if tail else 0) for n in seen)
    assert {op.dims["pairs"] for op in ops if op.kind == "attention" and op.role != "selection"} == {chosen}
    assert [op.dims["pairs"] for op in ops if op.role == "selection"] == [sum(n // 4 for n in seen)]


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("glm5_next_text", "deepseek_sparse_attention"),
        ("dots3_note_text", "deepseek_sparse_attention"),
        ("qwen4_exp_text", "qwen_sparse_attention"),
    ],
)
def test_layers_that_pick_keys_go_by_the_names_of_published_configurations(name: str, published: str) -> None:
    data = TINY[name]
    kinds = [published if kind in ("indexed_attention", "full_attention") else kind for kind in data["layer_types"]]
    assert published in kinds
    assert load({**data, "layer_types": kinds}).layers == load(data).layers
