"""Settings of engines hold the answers that the load has."""

from __future__ import annotations

import pytest

from roofline.cli import main
from roofline.plans.deployment_words import engine_settings
from roofline.plans.replicas import Replica
from roofline.plans.search import Deployment


def test_answers_of_open_length_are_not_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten times the mean: of a geometric length with a mean of 256, one in 20,000 is longer."""
    words = [
        "plan",
        "llama-3-8b",
        "--on",
        "l40s",
        "--count",
        "1",
        "--rate",
        "1/s",
        "--prompt",
        "1024",
        "--output",
        "256",
    ]
    assert main([*words, "--formats", "bf16", "--explain"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "vllm serve MODEL" in shown
    assert "--max-model-len 3584" in shown
    assert (1 - 1 / 256) ** 2560 < 1 / 20_000


def test_every_way_of_parallelism_is_in_the_settings_or_said_to_be_missing() -> None:
    found = engine_settings(Deployment(Replica("h100", "bf16", 4, context=2), 1), "MODEL", 65_536, 0.9)
    assert "--tensor-parallel-size 4 --prefill-context-parallel-size 2" in found["vllm"]
    for name in ("sglang", "tensorrt-llm"):
        assert found[name].endswith("# we know of no option for context 2")
    stages = engine_settings(Deployment(Replica("l40s", "bf16", 2, pipeline=2), 1, 0, 64), "MODEL", 4096, 0.9)
    assert all(
        word in stages[name] for name, word in (("vllm", "--pipeline-parallel-size 2"), ("sglang", "--pp-size 2"))
    )
