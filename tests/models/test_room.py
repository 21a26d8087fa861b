"""What is left on given chips beside weights, and how many sequences end at steady state."""

from __future__ import annotations

import json

import pytest

from roofline import llm
from roofline.cli import main
from roofline.models import disaggregate, fewest, generation, largest_batch, outline, serve
from roofline.rendering.terminal import as_text

V5E = {"hbm": {"bandwidth": 8.2e11, "capacity": 16e9}, "bf16": 1.97e14}


def test_what_weights_leave_on_given_chips() -> None:
    """Chapter 7, question 6: 211.7 GB of int8 weights on 128 chips of 16 GB."""
    model = outline(211_658_735_616, kv=2 * 64 * 8 * 256)
    given = fewest(model, on="v5e:8x16", set=V5E, weights="int8", kv="int8", context=8192).given
    assert given is not None
    assert (given.chips, given.left_each) == (128, pytest.approx((128 * 16e9 - 211_658_735_616) / 128))
    assert given.tokens == int((128 * 16e9 - 211_658_735_616) // (2 * 64 * 8 * 256)) - 1  # a step adds one
    assert given.sequences == largest_batch(model, 128 * 16e9, context=8191, weights="int8", kv="int8")
    assert fewest(model, on="v5e", set=V5E, weights="int8").given is None


def test_chips_that_hold_no_weights_are_told() -> None:
    given = fewest("llama-3-405b", on="h100:8").given
    assert given is not None
    assert given.left < 0
    assert given.tokens == 0
    assert "weights do not fit" in given.sentence()


def test_the_fewest_chips_name_the_host_layers_with_which_the_given_ones_are_enough() -> None:
    asked = {"on": "rtx5090:2", "context": 32000}
    found = llm("gpt-oss-120b", fit=True, **asked)
    said = " ".join(as_text(found.sections(), 120).split())
    assert "on rtx-5090:2 weights do not fit: 1.25 GB too many; they do with tensor=2 host_layers=2" in said
    assert "as laid out" not in said
    assert serve("gpt-oss-120b", tensor=2, host_layers=2, **asked).memory.fits
    assert not serve("gpt-oss-120b", tensor=2, host_layers=1, **asked).memory.fits


def test_sequences_that_end_at_steady_state() -> None:
    """Chapter 8: of 32 sequences whose answers take 512 steps, one ends every 16 steps."""
    found = generation("llama-3-8b", on="h100", prompt=8192, output=513, batch=32)
    assert found.evictions_per_step == 32 / 512
    assert found.evictions_per_second == pytest.approx(32 / found.decoding)
    both = {"on": "h100:8", "tensor": 8}
    apart = disaggregate("llama-3-70b", prompt=8192, output=513, batch=32, prefill=both, decode=both)
    assert apart.evictions_per_step == 32 / 512
    per_token = apart.cache_bytes / 8192
    assert apart.bytes_freed_per_second == pytest.approx(apart.answers_per_second * per_token * (8192 + 512))


def test_the_command_says_both(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "llm",
        "llama-3-8b",
        "--on",
        "h100:2",
        "--tensor",
        "2",
        "--batch",
        "32",
        "--prompt",
        "1024",
        "--output",
        "129",
    ]
    assert main([*words, "--fit", "--json"]) == 0
    text = capsys.readouterr().out
    assert '"evictions_per_step": 0.25' in text
    assert json.loads(text)
    assert '"left_each"' in text
