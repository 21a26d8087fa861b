"""Measurements that others published: none may be faster than our bound of the same work.

A bound far below a good measurement would hold as well, and say nothing, so each case has the share of the measured
time that its bound reaches (a little less than it does today), and most what binds. GeForce cards clock above their
data sheet: there the answer must say so.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from roofline import bound
from roofline.models import load, serve_bound, train
from tests.cases.kernels import lower, newer, question
from tests.cases.layers import layer_bound, layer_question
from tests.strategies import for_each

DATA = Path(__file__).parent.parent / "data" / "published_measurements.json"
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in json.loads(DATA.read_text(encoding="utf-8"))["cases"]}
FASTER = [name for name, case in CASES.items() if case.get("above_the_data_sheet")]
HELD = [name for name in CASES if name not in FASTER]


@cache
def answer(name: str) -> tuple[float, str, str]:
    """The lower bound of a case, what sets it, and what was assumed."""
    case = CASES[name]
    options = case.get("options", {})
    if case["ask"] == "bound":
        found = bound(case.get("text"), on=case["on"], **case.get("sizes", {}), **options)
        return found.lower, str(found.bound_by), "\n".join(found.assumptions)
    model = load(case["model"], name="" if isinstance(case["model"], str) else name)
    if case["ask"] == "train":
        step = train(model, on=case["on"], **options)
        return float(step.lower), str(step.bound.bound_by), "\n".join(step.bound.assumptions)
    served = serve_bound(model, case["ask"], on=case["on"], **options)
    return served.lower, str(served.bound_by), "\n".join(served.assumptions)


def test_there_are_many_and_each_has_its_source() -> None:
    assert len(CASES) > 150
    assert all(case["source"] and case["seconds"] > 0 for case in CASES.values())


@for_each("name", HELD)
def test_no_published_measurement_is_faster_than_the_bound(name: str) -> None:
    lower, binds, _ = answer(name)
    case = CASES[name]
    assert case["share"] * case["seconds"] <= lower <= case["seconds"]
    assert binds == case.get("binds", binds)


@pytest.mark.parametrize("name", FASTER)
def test_cards_that_clock_higher_are_told(name: str) -> None:
    lower, _, assumptions = answer(name)
    assert 1 < lower / CASES[name]["seconds"] < 1.2
    assert "cards above the data sheet's clock reached" in assumptions


def test_a_run_whose_stated_chips_do_not_hold_it_is_told() -> None:
    """The one served run of 1,388 below its bound: 235 GB of weights on each of 8 copies, experts' chips not stated."""
    found = serve_bound(
        "qwen3-235b-a22b", "decode", on="h100:8", data=8, batch=56, context=4500, kv="fp8", weights="fp8",
        activations="fp8",
    )  # fmt: skip
    assert found.lower > 20.09e-3
    assert found.footprint is not None
    assert found.footprint.fits is False


def test_a_measured_layer_is_above_its_bound() -> None:
    """One layer's attention of DeepSeek-V3, 8 heads on one H100 (ai-dynamo/aiconfigurator, TensorRT-LLM 1.3.0rc20)."""
    row = {
        "table": "mla_generation_module", "model": "deepseek-ai/DeepSeek-V3", "op_name": "mla_generation_module",
        "num_heads": "8", "gemm_type": "fp8_block", "kv_cache_dtype": "fp8", "batch_size": "8", "isl": "1",
        "step": "128",
    }  # fmt: skip
    asked = layer_question(row)
    assert asked is not None
    [floor], [moved] = layer_bound("h100", asked, [row])
    width, q_rank, kv_rank, heads, key, value, rotary = 7168, 1536, 512, 8, 128, 128, 64
    weights = width * (q_rank + kv_rank + rotary) + q_rank * heads * (key + rotary)
    weights += kv_rank * heads * (key + value) + heads * value * width
    assert moved == pytest.approx(weights + 8 * 128 * (kv_rank + rotary), rel=0.01)
    assert floor == pytest.approx(moved / 3.35232e12, rel=1e-9)
    assert floor < 48.6e-6


def test_measured_kernels_are_asked_for_what_their_collectors_run() -> None:
    """Rows of ai-dynamo/aiconfigurator (Apache-2.0), whose stated shapes are not those of the tensors that ran."""
    heads = {"num_k_heads": "16", "head_k_dim": "128", "num_v_heads": "64", "head_v_dim": "128"}
    row = {"table": "gdn", "backend": "trtllm", "version": "1.3.0rc20", "batch_size": "16", "num_tokens": "131072"}
    shape = dict.fromkeys(("window_size", "num_experts", "gpu"), "") | heads
    keys_alone = newer(row | shape | {"kernel_source": "causal_conv1d_fn"})
    assert keys_alone is not None
    assert keys_alone["e"] == str(131072 * 2048)
    asked = question(keys_alone)
    assert asked is not None
    [floor], _ = lower("h100", asked, [keys_alone])
    assert floor == pytest.approx(131072 * 2048 * 4 / 3.35232e12)  # in and out; 964 µs for the 12,288 stated channels
    assert floor < 384.84e-6
    one = row | shape | {"table": "kda", "backend": "vllm", "batch_size": "1", "kernel_source": "causal_conv1d_fn_qkv3"}
    skipped, half = newer(one), newer(one | {"batch_size": "2"})
    assert skipped is not None
    assert question(skipped) is None  # its one sequence has the cache index of padding
    assert half is not None
    assert half["e"] == str(131072 // 2 * (2 * 2048 + 8192))
