"""``roofline llm`` over pools and several layouts: what is of a chip counts every chip."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.models import disaggregate, pool
from tests.models.test_commands import Capture, as_json, run

SEVENTY = ("llm", "llama-3-70b", "--context", "8191")


def dollars(capsys: Capture, *words: str) -> float:
    found: float = as_json(capsys, *SEVENTY, *words, "--price", "2")["cost"]["output"]["dollars"]
    return found


def test_a_price_is_of_each_chip_of_a_pool(capsys: Capture) -> None:
    split = dollars(capsys, "--on", "h200", "--tensor", "8", "--batch", "64")
    pooled = as_json(capsys, *SEVENTY, "--on", "h200", "--pool", "8", "--batch", "64", "--price", "2", "--power", "tdp")
    assert pooled["parallelism"]["chips"] == 8
    made = pooled["cost"]["output"]
    assert made["chip_hours"] == pytest.approx(pooled["time_per_token"] * 8 / 64 * 1e6 / 3600)
    assert made["dollars"] == pytest.approx(split, rel=1e-3)
    assert made["joules_per_token"] == pytest.approx(8 * 700 * pooled["time_per_token"] / 64)


def test_a_front_of_a_pool_is_of_each_chip(capsys: Capture) -> None:
    words = ("--on", "h200", "--pool", "8", "--batch", "1,64")
    for choice in as_json(capsys, *SEVENTY, *words)["front"]["choices"]:
        assert choice["chips"] == 8
        each = choice["batch"] / choice["time_per_token"] / 8
        assert choice["tokens_per_second_per_chip"] == pytest.approx(each)
    text = run(capsys, *SEVENTY, *words)
    assert "one chip, no network" not in text
    assert "8 chips share everything evenly" in text


def test_servers_of_a_pool_are_as_many_chips() -> None:
    from roofline.hardware import chip

    asked: dict[str, Any] = {"prompt": 1000, "output": 100, "batch": 64, "prefill": {"on": "h100:8", "tensor": 8}}
    found = disaggregate("llama-3-70b", decode={"on": pool(chip("h200"), 8)}, **asked)
    assert found.decode_chips == 8
    assert found.chips_ratio == found.ratio


@pytest.mark.parametrize("target", ["h200", "h200:8"])
def test_several_layouts_are_priced_by_their_chips(target: str, capsys: Capture) -> None:
    each = [dollars(capsys, "--on", target, "--tensor", ways, "--batch", "64") for ways in ("4", "8")]
    both = dollars(capsys, "--on", target, "--tensor", "4,8", "--batch", "64")
    assert both == pytest.approx(min(each))


def test_what_does_not_fit_is_no_price(capsys: Capture) -> None:
    one = dollars(capsys, "--on", "h200", "--tensor", "8", "--batch", "64")
    words = ("--on", "h200", "--tensor", "8", "--batch", "64,1000")
    assert dollars(capsys, *words) == pytest.approx(one)
    assert "the least of the configurations that fit" in run(capsys, *SEVENTY, *words, "--price", "2")
    none = run(capsys, *SEVENTY, "--on", "h200", "--batch", "64,1000", "--price", "2")
    assert "the least of the configurations, none of which fits" in none
