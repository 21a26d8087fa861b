"""A time that was measured beside its floor, for every answer of one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from roofline import bound, comm, llm, trace
from roofline.cli import main
from roofline.errors import InputError
from roofline.quantity import format_quantity

LINE = "bf16[4096, 4096] @ bf16[4096, 4096]"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def ask(*words: str, code: int = 0) -> str:
        monkeypatch.setenv("COLUMNS", "200")
        assert main(list(words)) == code
        written = capsys.readouterr()
        return " ".join((written.out + written.err).split())

    return ask


def test_a_measured_time_is_put_beside_its_floor() -> None:
    found = bound(LINE, on="a100", measured="550us")
    assert found.measured == 550e-6
    assert found.over_floor == pytest.approx(550e-6 / (2 * 4096**3 / 312e12))
    assert found.overlapped is None
    assert bound(LINE, on="a100", measured=(found.lower + found.upper) / 2).overlapped == pytest.approx(0.5)
    assert "measured" not in bound(LINE, on="a100").to_dict()
    written = found.to_dict()
    assert (written["measured"], written["over_floor"], written["overlapped"]) == (550e-6, found.over_floor, None)
    assert written["fraction"] == found.fraction == pytest.approx(1 / found.over_floor)


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (
            "550us",
            "measured 550 µs: 1.25 times the floor, and 60.1 µs more than where nothing overlaps · 250 TFLOP/s, 80%",
        ),
        ("470us", "1.07 times the floor: as if 40% of the times overlapped"),
        ("210us", "it cannot be: the floor is 441 µs; another size, format or chip ran than asked about · it would be"),
        ("210us", "48% of the work would fit"),
        ("310us", "70% of the work would fit, or int8 at 624 TFLOP/s"),
    ],
)
def test_words_say_how_far_it_is(time: str, words: str, said: Callable[..., str]) -> None:
    assert words in said("bound", LINE, "--on", "a100", "--measured", time)


def test_a_time_that_cannot_be_has_the_rate_that_it_would_be(said: Callable[..., str]) -> None:
    line = "fp16[512, 4096] * fp16[4096, 12288]"
    text = said("bound", line, "--on", "a10g", "--measured", "210us")
    # 2·512·4096·12288 FLOPs in 210 µs, against 70 TFLOP/s
    assert "it would be 245 TFLOP/s, 351% of peak" in text


def test_faster_than_memory_may_come_from_a_cache_and_an_estimate_says_what_is_usual(
    said: Callable[..., str],
) -> None:
    line = "bf16[64, 8192] @ bf16[8192, 8192]"
    assert "data came from a cache, or another size" in said("bound", line, "--on", "h100", "--measured", "30us")
    for time, words in (("43us", "faster than"), ("50us", "within"), ("90us", "slower than")):
        text = said("bound", line, "--on", "h100", "--measured", time, "--estimate")
        assert f"{words} the interval that is expected" in text
        assert ("not explained" in text) == (words == "slower than")


def test_a_step_slower_than_expected_is_the_floor_what_is_usual_and_the_rest(said: Callable[..., str]) -> None:
    found = llm("llama-2-13b", on="a100", batch=16, context=1000, measured="51ms", estimate=True).decode
    usual = found.expectation.value
    parts = [format_quantity(float(each), "s") for each in (found.lower, usual - found.lower, 51e-3 - usual)]
    line = "slower than the interval that is expected: {} at best + {} usual + {} not explained, as of prompts read"
    words = ("--batch", "16", "--context", "1000", "--measured", "51ms", "--estimate")
    assert line.format(*parts) in said("llm", "llama-2-13b", "--on", "a100", *words)
    assert "as of prompts" not in said("llm", "llama-2-13b", "--on", "a100", *words[:5], "20ms", "--estimate")


def test_every_answer_of_one_step_takes_it(said: Callable[..., str]) -> None:
    found = comm("allreduce", bytes=1e9, on="h200:8", measured="4ms")
    assert found.bound.over_floor == pytest.approx(4e-3 / found.bound.lower)
    assert "438 GB/s on the bus" in said("comm", "allreduce 1GB", "--on", "h200:8", "--measured", "4ms")
    bus = said("comm", "allreduce 1GB", "--on", "h100:8", "--measured", "380GB/s")
    assert "380 GB/s on the bus: 48% of 788 GB/s by in-switch, 84% of 450 GB/s by two-shot" in " ".join(bus.split())
    assert comm("allreduce", bytes=1e9, on="h100:8", measured="437.5 GBps").bound.measured == pytest.approx(4e-3)
    alone = said("comm", "allgather 1GB", "--on", "v5e:8", "--measured", "30GB/s")
    assert "30 GB/s on the bus, 67% of what is possible" in " ".join(alone.split())
    step = llm("llama-3-8b", on="h100", batch=8, context=8192, measured="11ms")
    assert step.decode.over_floor == pytest.approx(11e-3 / step.decode.lower)
    text = said("llm", "llama-3-8b", "--on", "h100", "--batch", "8", "--context", "8192", "--measured", "11ms")
    assert "measured 11 ms: 1.56 times the floor" in text
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(512, 512)
    traced = trace(layer, torch.zeros(8, 512), on="h100", measured="9us")
    assert traced.measured == 9e-6
    prefill = llm("llama-3-8b", on="h100", batch=1, prompt=1024, measured="11ms")
    assert prefill.decode.measured == 11e-3


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["bound", LINE, "--on", "a100,h100", "--measured", "1ms"], "--measured is a time on one machine"),
        (["bound", "bf16[B, 8] @ bf16[8, 8]", "--on", "a100", "--measured", "1ms"], "of one configuration"),
        (["bound", "--intensity", "8", "--on", "a100", "--measured", "1ms"], "of an amount of work"),
        (["bound", LINE, "--on", "a100", "--measured", "0s"], "0"),
        (["llm", "llama-3-8b", "--on", "h100", "--batch", "1,8", "--context", "8k", "--measured", "1ms"], "of one"),
        (["trace", "x.py:f", "--measured", "1ms"], "--measured says nothing without a machine"),
        (["trace", "x.py:f", "--on", "h100", "--formula", "--measured", "1ms"], "a formula is that of a bound"),
    ],
)
def test_what_has_no_one_time_takes_none(words: list[str], wrong: str, said: Callable[..., str]) -> None:
    assert wrong in said(*words, code=2)


def test_python_says_it_in_its_own_words() -> None:
    with pytest.raises(InputError, match="a measured time is of one step on one machine; leave measured= out"):
        bound(LINE, on=["a100", "h100"], measured=1e-3)
    with pytest.raises(InputError, match="a measured time is of one configuration; give each size one number"):
        bound("bf16[B, 8] @ bf16[8, 8]", on="a100", B=np.array([1, 2]), measured=1e-3)


def test_the_arithmetic_too_has_the_measured_time_and_what_does_not_fit(said: Callable[..., str]) -> None:
    assert "measured 620 µs: 1.41 times the floor" in said(
        "bound", LINE, "--on", "a100", "--measured", "620us", "--explain"
    )
    asked = ("llm", "llama-3-70b", "--on", "h100", "--batch", "1", "--context", "8k", "--measured", "60ms", "--explain")
    assert "DOES NOT FIT: needs 144 GB, hbm has 84.9 GB T_hbm" in said(*asked)
    assert "measured 60 ms: 1.42 times the floor" in said(*asked)


def test_a_time_without_a_unit_that_is_far_above_the_floor_is_asked_about(said: Callable[..., str]) -> None:
    question = "(a time without a unit is in seconds: 0.62ms is 620 µs)"
    assert question in said("bound", LINE, "--on", "a100", "--measured", "0.62")
    assert "without a unit" not in said("bound", LINE, "--on", "a100", "--measured", "60ms")


def test_a_price_and_a_power_give_the_cost_of_a_million_runs_by_the_rule_of_tokens(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By hand: chips · seconds · 10⁶/3600 · dollars; and of a step of a model what llm says of its tokens."""
    line: dict[str, Any] = {"B": 8192, "D": 8192, "F": 8192}
    for on, chips in (("h100", 1), ("h100:8", 8)):
        found = bound("bf16[B, D] * bf16[D, F]", on=on, **line, price=3.6, power=500)
        assert found.cost is not None
        assert found.cost.dollars == pytest.approx(chips * found.lower * 1e6 / 3600 * 3.6)
        assert found.cost.joules == pytest.approx(chips * found.lower * 500)
        assert found.to_dict()["cost"]["joules_per_run"] == found.cost.joules
    served = llm("llama-3-8b", on="h100:2", tensor=2, batch=64, context=4096, price=2.5, power="tdp")
    step = served.decode.priced(2.5, "tdp").cost
    assert step.dollars / 64 == pytest.approx(served.cost["output"].dollars)
    assert step.joules / 64 == pytest.approx(served.cost["output"].joules)
    big = bound("bf16[B, D] * bf16[D, F]", on="h100", B=10**6, D=10**6, F=1, price=2)
    assert big.cost is not None
    assert (big.cost.dollars, "DOES NOT FIT" in str(big), "a million runs" in str(big)) == (None, True, False)
    several = bound("bf16[B, 64] * bf16[64, 64]", on="h100", B=np.array([64, 128]), price=2)
    assert several.cost is not None
    assert several.cost.dollars.tolist() == pytest.approx((several.lower / 3600 * 1e6 * 2).tolist())
    assert "of the cheapest at the floor" in " ".join(str(several).split())
    beside = ["bf16[8192, 8192] * bf16[8192, 8192]", "--on", "h100,b200,l40s", "--price", "table"]
    assert main(["bound", *beside]) == 0
    shown = capsys.readouterr().out
    assert "b200 is the cheapest: $" in shown
    assert "no price of l40s is listed: --price table,l40s=… gives yours" in shown
    with pytest.raises(InputError, match="a cost is of one size or several; give each size a number"):
        bound("bf16[B, 64] * bf16[64, 64]", on="h100", price=2)
    with pytest.raises(InputError, match="a cost is of an amount of work; give FLOPs and bytes, not an intensity"):
        bound(intensity=7, on="h100", price=2)
