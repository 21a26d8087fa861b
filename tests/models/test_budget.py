"""Token budgets: each of MFU, chip-hours, days, chips and cost from the others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofline import train
from roofline.cli import main
from roofline.errors import RooflineError
from roofline.models import budget, load

V5P: dict[str, Any] = {"on": "v5p:16x20x28", "set": {"bf16": 4.59e14}, "tokens": 15e12}


def test_the_days_of_the_book() -> None:
    """Chapter 6: 70e9 parameters, 15e12 tokens, 8960 v5p at 40 %."""
    found = budget(70e9, mfu=0.4, **V5P)
    assert (found.flops_per_token, found.flops) == (420_000_000_000, pytest.approx(6.3e24))
    assert (found.seconds, found.days) == (pytest.approx(3829656.8627451), pytest.approx(44.324732207698))


def test_each_follows_from_the_others() -> None:
    first = budget(70e9, mfu=0.4, price=4.2, **V5P)
    by_hours = budget(70e9, chip_hours=first.chip_hours, price=4.2, **V5P)
    by_days = budget(70e9, days=first.days, price=4.2, **V5P)
    open_chips = budget(70e9, days=first.days, mfu=0.4, price=4.2, **{**V5P, "on": "v5p"})
    for other in (by_hours, by_days, open_chips):
        for name in ("mfu", "chip_hours", "days", "chips", "cost", "flops_per_dollar"):
            assert getattr(other, name) == pytest.approx(getattr(first, name)), name
    assert first.cost is not None
    assert first.flops / first.cost == pytest.approx(first.flops_per_dollar)


def test_mfu_from_published_hours() -> None:
    """DeepSeek-V3: 2.664 million H800 hours for 14.8e12 tokens; experts that a token does not use do not count."""
    found = budget("deepseek-v3", tokens=14.8e12, on="h800", chip_hours=2.664e6, price=2)
    assert found.parameters == load("deepseek-v3").active_parameters
    assert found.mfu == pytest.approx(6 * found.parameters * 14.8e12 / (2.664e6 * 3600 * found.peak))
    assert found.cost == pytest.approx(5.328e6)


def test_the_command_gives_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--on", "v5p:16x20x28", "--set", "bf16=4.59e14", "--tokens", "15e12", "--mfu", "40%"]
    for name in ("70e9", "70B"):
        assert main(["train", name, *words, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["schema"] == "roofline/budget/1"
        assert found["days"] == pytest.approx(44.324732207698)
    assert main(["train", "70e9", *words]) == 0
    assert "44.32 on 8,960 chips" in capsys.readouterr().out
    assert main(["train", "deepseek-v3", "--on", "h800", "--tokens", "14.8T", "--chip-hours", "2.664M"]) == 0
    assert "MFU      35.2%" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "said"), [
    ((), "--batch-tokens is missing; tokens of one step over all chips"),
    (("--tokens", "1e12", "--tensor", "8"), "--tensor says nothing without --batch-tokens"),
    (("--tokens", "1e12", "--mfu", "0.4", "--chip-hours", "100"), "MFU and chip-hours are given"),
    (("--tokens", "1e12", "--mfu", "0"), "mfu is 0.0; a number above 0"),
    (("--batch-tokens", "8192", "--days", "3"), "--days says nothing without --tokens"),
    (("--batch-tokens", "8192", "--tokens", "1e12", "--days", "3"), "--days is of a budget without a step"),
])  # fmt: skip
def test_messages(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    assert main(["train", "llama-3-8b", "--on", "h100", *words]) == 2
    assert said in capsys.readouterr().err


def test_chips_that_a_shape_gives_are_not_given_again() -> None:
    with pytest.raises(RooflineError, match="chips=4, and h100:8 has 8"):
        budget("llama-3-8b", tokens=1e12, on="h100:8", chips=4)


def test_a_budget_says_what_attention_adds(capsys: pytest.CaptureFixture[str]) -> None:
    """As a step in such sequences says."""
    words = ["train", "llama-3-8b", "--on", "h100:64", "--tokens", "2T", "--mfu", "0.4", "--price", "2.2"]
    assert main(words) == 0
    assert "47.04 days, $158,958 with attention in sequences of 8,192 (1.07 times)" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main([*words, "--batch-tokens", "4M", "--sequence", "8192", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["days"] == pytest.approx(47.04, abs=0.01)


def test_energy_is_that_of_the_data_sheet_unless_watts_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "llama-3-8b", "--on", "h100:64", "--tokens", "2T", "--mfu", "0.4", "--json"]
    found = []
    for more in ([], ["--power", "tdp"], ["--power", "350"]):
        assert main([*words, *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert [each["power"] for each in found] == [700, 700, 350]
    assert found[0]["energy"] == found[0]["chip_hours"] * 3600 * 700 == 2 * found[2]["energy"]
    assert main([*words, "--batch-tokens", "4M", "--power", "tdp"]) == 0
    capsys.readouterr()
    assert train("llama-3-8b", on="h100:64", batch_tokens=4e6, tokens=2e12, power="tdp").power == 700
