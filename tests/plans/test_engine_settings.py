"""Settings of engines hold the answers that the load has."""

from __future__ import annotations

import pytest

from roofline.cli import main


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
