"""Latent attention takes the faster of absorbed and expanded, by the step's time on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.models import load, serve_bound
from roofline.models.closed_form import serve_table
from roofline.sizes import symbol
from tests.models.tiny import TINY
from tests.strategies import few

ON: dict[str, Any] = {"on": "h200:8", "tensor": 8}


def said(found: Any) -> list[str]:
    return [line for line in found.assumptions if line.startswith("latent attention is")]


def test_a_short_prompt_after_a_long_prefix_is_absorbed() -> None:
    options: dict[str, Any] = {**ON, "batch": 8, "prompt": 32, "past": 65536}
    found = serve_bound("deepseek-v3", "prefill", **options)
    expanded = serve_bound("deepseek-v3", "prefill", **options, absorbed=False)
    assert found.lower == pytest.approx(37.5e-3, rel=0.01)
    assert expanded.lower == pytest.approx(79.8e-3, rel=0.01)
    assert serve_bound("deepseek-v3", "prefill", **options, absorbed=None).lower == found.lower
    assert said(found) == [
        "latent attention is absorbed: it works on the cached latents; the faster of absorbed and expanded here"
    ]
    assert said(expanded) == ["latent attention is expanded: keys and values are made from the cached latents"]


@few(10)
@given(
    phase=st.sampled_from(["prefill", "decode", "mixed"]),
    new=st.integers(1, 3000),
    past=st.integers(0, 40000),
    on=st.sampled_from(["h200", "a100", "v5p"]),
)
def test_no_way_is_faster(phase: str, new: int, past: int, on: str) -> None:
    options: dict[str, Any] = {"on": on, "batch": 4}
    options |= {
        "prefill": {"prompt": new, "past": past},
        "decode": {"tokens": new, "context": past},
        "mixed": {"chunk": new, "past": past, "context": 4000},
    }[phase]
    model = load(TINY["deepseek_v3"] | {"max_position_embeddings": 100_000})
    found = serve_bound(model, phase, **options)
    ways = [serve_bound(model, phase, **options, absorbed=absorbed) for absorbed in (False, True)]
    assert found.lower <= min(way.lower for way in ways) * (1 + 1e-12)


def test_arrays_tables_and_pipelines_choose_row_by_row() -> None:
    prompts = [32, 2048, 8192]
    each = [serve_bound("deepseek-v3", "prefill", **ON, batch=8, prompt=prompt, past=65536).lower for prompt in prompts]
    found = serve_bound("deepseek-v3", "prefill", **ON, batch=8, prompt=np.array(prompts), past=65536)
    assert found.lower.tolist() == pytest.approx(each)
    assert len(said(found)) == 2
    columns = ("lower", "bound_by", "memory")
    table = serve_table("deepseek-v3", "prefill", **ON, batch=8, prompt=np.array(prompts), past=65536, columns=columns)
    assert table["lower"].tolist() == pytest.approx(each)
    assert set(table.columns) == {"prompt", *columns}
    piped: dict[str, Any] = {"on": "h200:16", "tensor": 8, "pipeline": 2, "batch": 16, "prompt": 32, "past": 65536}
    ways = [serve_bound("deepseek-v3", "prefill", **piped, **more).lower for more in ({}, {"absorbed": False})]
    assert ways[0] < ways[1]


def test_open_sizes_say_which_way_is_taken() -> None:
    found = serve_bound("deepseek-v3", "prefill", **ON, prompt=32, past=symbol("P"))
    assert said(found) == [
        "latent attention is expanded: keys and values are made from the cached latents; sizes that are given decide "
        "whether the other way is faster"
    ]


def test_over_keys_and_values_in_fp8_attention_multiplies_in_fp8() -> None:
    """A kernel of TensorRT-LLM on an RTX PRO 6000 is 1.46 times as fast as products in bf16 could be."""

    def formats(**asked: Any) -> set[str]:
        step = serve_bound("deepseek-v3", "decode", on="h200:8", data=8, expert=8, batch=64, context=4096, **asked)
        (attention, *_) = [op.op for op in step.ops if op.op.kind == "attention"]
        return {key.dtype for key in attention.work if key.quantity == "flops" and key.place == "matrix"}

    assert formats(kv="fp8") == formats(kv="nvfp4") == formats(kv="fp8", compute="fp8") == {"fp8"}
    assert formats(kv="fp8", compute="bf16") == formats(kv="int8") == formats() == {"bf16"}
    said = list(serve_bound("llama-3-8b", "prefill", on="h100", prompt=64, kv="fp8").assumptions)
    assert "keys and values in fp8 are multiplied in fp8, with queries cast to it, as vLLM and TensorRT-LLM do" in said


def test_windows_over_latents() -> None:
    """A layer with a window of 8 keeps 8 latents, others all of them and their index keys (16 wide)."""
    model = load(TINY["dots3_note_text"])
    each = (20 + 8) + 16
    assert model.kv_bytes_per_token("bf16") == 2 * (2 * each + 28 + 8)
    assert model.cache_bytes(100, dtype="bf16") == 2 * (100 * 2 * each + 8 * (28 + 8))


def test_indexers_that_take_a_choice_over_keep_no_keys() -> None:
    model = load(TINY["hy_v4"])
    assert model.kv_bytes_per_token("bf16") == 2 * (3 * (20 + 8) + 2 * 16)


def test_chips_that_share_a_sequence_expand_each_latent_once() -> None:
    """Whether they pass latents or keys and values, no FLOP and no byte less will do."""
    asked: dict[str, Any] = {"prompt": 4096, "past": 2048, "absorbed": False}
    one = serve_bound("deepseek-v3", "prefill", on="h200:8", tensor=8, **asked)
    four = serve_bound("deepseek-v3", "prefill", on="h200:32", tensor=8, context_parallel=4, **asked)
    expanded = [next(part.op for part in step.ops if part.op.role == "expand") for step in (one, four)]
    assert expanded[0].dims["m"] == 4 * expanded[1].dims["m"] == 4096 + 2048
    assert any("no less can be sent or computed" in line for line in four.assumptions)
