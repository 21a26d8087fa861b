"""What to expect is shown wherever an answer is: sweeps, programs, training steps, and in their JSON."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import roofline
from roofline import bound, sweep
from roofline.cli import main
from roofline.cli.lines import sweep_command
from roofline.cli.measure import accuracy_command
from roofline.cli.models import train_command
from roofline.errors import InputError
from roofline.estimates import Estimator, estimated
from roofline.models import serve_bound, train
from roofline.quantity import format_quantity, parse
from tests.strategies import some

LINE = "bf16[B, D] * bf16[D, F]"


def test_rows_of_a_sweep_are_what_bounds_of_them_say() -> None:
    table = estimated(sweep(LINE, on="h100", B=[1, 64, 4096], D=[4096, 8192], F=8192))
    assert table.plain("B") == [1, 1, 64, 64, 4096, 4096]
    for index in range(len(table)):
        one = Estimator().expect(table.row(index))
        assert table["expected"][index] == pytest.approx(one.value)
        assert table["lower"][index] <= table["low"][index] <= table["expected"][index] <= table["high"][index]


@pytest.mark.parametrize(
    ("line", "on", "sizes", "options"),
    some(
        [
            ("bf16[B, D] * bf16[D, F]", "h100", {"B": [1, 100, 8192], "D": [7, 4096], "F": [64, 8192]}, {}),
            ("fp8[B, D] * fp8[D, F]", "h200", {"B": [1, 100, 8192], "D": [7, 4096], "F": [64, 8192]}, {}),
            (
                "bf16[B, D] * bf16[D, F]",
                "a100",
                {"B": [1, 100, 8192], "D": [7, 4096], "F": [64, 8192]},
                {"eager": True},
            ),
            (
                "h = bf16[B, D] * bf16[D, F]; gelu(h); h * bf16[F, D]",
                "h100",
                {"B": [1, 512], "D": [64, 512], "F": [256]},
                {},
            ),
            (
                "attention(bf16[B, S, N, 128], bf16[B, T, K, 128], bf16[B, T, K, 128], causal)",
                "h100",
                {"B": [1, 8], "S": [1, 2, 512], "T": [512, 4096], "N": [32], "K": [1, 8, 32]},
                {},
            ),
            (
                "attention(bf16[B, S, N, H], bf16[B, T, N, H], bf16[B, T, N, V], causal)",
                "h100",
                {"B": [1, 8], "S": [1, 512], "T": [512, 4096], "N": [32], "H": [64, 128], "V": [64, 128]},
                {},
            ),
            ("rmsnorm_D(bf16[B, D])", "h100", {"B": [1, 4096], "D": [64, 8192]}, {}),
            ("softmax_T(fp32[B, T])", "h100", {"B": [1, 4096], "T": [64, 8192]}, {}),
            (
                "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]",
                "h100",
                {"B": [8, 4096], "D": [1024], "F": [256, 8192], "n": [2, 8, 64]},
                {"mesh": {"X": "n"}, "plan": "fewest"},
            ),
            ("bf16[B, D] * bf16[D, F]", "mi300x", {"B": [1, 64], "D": [64], "F": [64]}, {}),
        ],
        2,
    ),
)
def test_arrays_are_expected_to_take_what_their_numbers_are(
    line: str, on: str, sizes: dict[str, Any], options: dict[str, Any]
) -> None:
    """Kernels differ from row to row, as a decode from a prefill, and some rows have no constants."""
    every = [dict(zip(sizes, row, strict=True)) for row in itertools.product(*sizes.values())]
    arrays = {name: np.array([row[name] for row in every]) for name in sizes}
    found = bound(line, on=on, sizes=arrays, estimate=True, **options)
    alone = [bound(line, on=on, sizes=row, estimate=True, **options) for row in every]
    each = [one.expectation for one in alone]
    wanted = [(o.value, o.low, o.high) if o.is_known else (np.nan,) * 3 for o in each]
    expected = found.expectation
    np.testing.assert_allclose(np.stack([expected.value, expected.low, expected.high], axis=1), wanted, rtol=1e-12)
    assert found.estimate is None if np.isnan(wanted).all() else found.estimate is expected.value
    assert [one.estimate is not None for one in alone] == expected.is_known.tolist()
    told = Estimator(eager=options.pop("eager", False)).expect(bound(line, on=on, sizes=arrays, **options))
    np.testing.assert_array_equal(told.value, expected.value)


def test_an_array_says_what_to_expect_in_words_in_json_and_in_its_table() -> None:
    found = bound(LINE, on="h100", B=[64, 4096], D=8192, F=8192, estimate=True)
    low, high = (format_quantity(time, "s") for time in found.estimate)
    assert f"expect {low} … {high}, each with an interval of 80% of its own" in str(found)
    assert found.to_dict()["expectation"]["time"] == found.estimate.tolist()
    assert found.to_pandas()["expected"].tolist() == found.estimate.tolist()
    nothing = bound(LINE, on="mi300x", B=[64, 4096], D=8192, F=8192, estimate=True)
    assert "no constants of vllm are known for these rows, so only their bounds hold" in str(nothing)
    assert nothing.to_dict()["expectation"]["time"] == [None, None]


def test_the_command_of_sweeps_shows_columns_with_units() -> None:
    words = [LINE, "--on", "h100", "B=1,64", "D=8192", "F=8192", "--estimate"]
    text = CliRunner().invoke(sweep_command, words).output
    assert "expected" in text
    assert "µs" in text.splitlines()[3].split("hbm")[1]
    data = json.loads(CliRunner().invoke(sweep_command, [*words, "--json"]).output)
    assert {"expected", "low", "high"} <= set(data["columns"])


def test_rows_without_constants_are_expected_to_take_nothing_known() -> None:
    words = [LINE, "--on", "mi300x,h100", "B=1,64", "D=8192", "F=8192", "--estimate"]
    text = CliRunner().invoke(sweep_command, words).output
    assert "incomplete  nothing is expected of 2 of 4 rows: no constants of vllm are known for them" in text
    data = json.loads(CliRunner().invoke(sweep_command, [*words, "--json"]).output)
    assert [value is None for value in data["columns"]["expected"]] == [True, True, False, False]
    assert not any("mi300x" in line.lower() for line in data["assumptions"])


def test_a_training_step_takes_its_floor_and_more() -> None:
    found = estimated(train("llama-3-8b", on="h100:64", batch_tokens=1_048_576))
    expected = found.expectation
    assert found.lower < expected.low < expected.value < expected.high
    assert expected.value == pytest.approx(found.lower * expected.source.values["step_factor"])
    words = ["llama-3-8b", "--on", "h100:64", "--batch-tokens", "1048576", "--estimate"]
    assert "a step: expect" in CliRunner().invoke(train_command, words).output
    data = json.loads(CliRunner().invoke(train_command, [*words, "--json"]).output)
    assert data["expectation"]["time"] == pytest.approx(expected.value)


def test_published_training_steps_lie_near_the_floor_times_one_factor() -> None:
    """The error with a run's source left out is told, and the baseline of operations one by one is worse."""
    record = next(one for one in Estimator().records if one.kernel == "training_step")
    assert record.error["mdape"] < 0.11 < record.error["by_one_by_one"]


def test_experts_have_constants_in_every_format_of_weights() -> None:
    for model in ("mixtral-8x7b", "gpt-oss-120b", "deepseek-v3"):
        found = Estimator("vllm").expect(serve_bound(model, "decode", on="h100:8", tensor=8, batch=16, context=100))
        experts = [one for one in found.kernels if one.run.kernel == "experts"]
        assert [one.basis for one in experts if one.source is None] == [], model
        assert len(experts) >= 1, model


def test_ten_thousand_kernels_take_a_fraction_of_a_second() -> None:
    """Elementwise and attention kernels at 10^5 a second, products at 2·10^4; a tenth of it on a shared machine."""
    import time

    import numpy as np

    from roofline.estimates.constants import KERNELS
    from roofline.estimates.kernel_model import ChipFigures
    from tests.estimates.test_kernels import MORE, SHAPES

    chip = ChipFigures(132, 989.4e12, 3.35e12, 50e6)
    least = {"elementwise": 1e5, "decode_attention": 1e5, "prefill_attention": 1e5, "contraction": 2e4}
    for name, rate in least.items():
        model, count = KERNELS[name], 10_000
        shapes = {**SHAPES[name], MORE[name]: np.geomspace(1, 1000, count)}
        took = []
        for _ in range(3):  # of the processor, not of a clock: others use the machine too
            start = time.process_time()
            model.times(shapes, chip, model.defaults(), model.policies[0])
            took.append(time.process_time() - start)
        assert count > rate / 10 * min(took), name


def test_a_bound_that_is_estimated_keeps_its_bound() -> None:
    plain = bound("bf16[64, 8192] @ bf16[8192, 8192]", on="h100")
    assert estimated(plain).lower == plain.lower


@pytest.mark.long
def test_the_table_of_errors_says_how_its_own_rows_were_measured() -> None:
    halves = "one random half of the measured kernels"
    assert halves in _table("h100")
    assert halves not in _table("any")
    assert "no graph, started by the host" in _table("b60")


def test_an_expectation_by_another_generation_says_so() -> None:
    answer = bound("bf16[64, 8192] @ bf16[8192, 8192]", on="b200")
    assert "vllm (another generation); median error" in Estimator().expect(answer).in_words()


def _table(chip: str) -> str:
    return " ".join(CliRunner().invoke(accuracy_command, [chip]).output.split())


def test_an_explanation_has_the_estimate_its_interval_and_its_source() -> None:
    line = roofline.bound("bf16[4096, 8192] * bf16[8192, 8192]", on="h100", estimate=True)
    said, found = line.explain(), line.expectation
    assert found.in_words() in said
    assert found.kernels[0].source.source in said
    assert "expected" not in roofline.bound("bf16[4096, 8192] * bf16[8192, 8192]", on="h100").explain()
    served = roofline.llm("llama-3-8b", on="h100", batch=8, context=8192, estimate=True)
    assert served.decode.expectation.in_words() in served.explain()
    assert "served by vllm" in served.explain()
    step = roofline.train("llama-3-8b", on="h100:8", batch_tokens=819200, fsdp=8, estimate=True)
    assert step.expectation.in_words("a step") in step.explain()


def test_one_line_of_an_answer_has_its_estimate() -> None:
    line = roofline.bound("bf16[4096, 8192] * bf16[8192, 8192]", on="h100", estimate=True)
    assert "at worst, expected 681 µs on" in repr(line)
    served = roofline.llm("llama-3-8b", on="h100", batch=8, context=8192, estimate=True)
    assert f"expected {format_quantity(served.decode.expectation.value, 's')}" in repr(served)
    assert ", expected " in repr(roofline.train("llama-3-8b", on="h100:8", batch_tokens=819200, fsdp=8, estimate=True))


def test_the_error_of_steps_in_another_format_is_said_to_be_theirs() -> None:
    options: dict[str, Any] = {"on": "h100:8", "tensor": 8, "batch": 64, "context": 4096, "estimate": True}
    said = roofline.llm("llama-3-70b", **options)
    for text in (said.decode.expectation.in_words(), str(said.expectation.time_per_token.in_words("a token"))):
        assert re.search(r"none was measured for bf16; .*median error of fp8 steps [1-9.]+%", text)
    eight = roofline.llm("llama-3-70b", weights="fp8", compute="fp8", **options).decode.expectation
    assert "none was measured" not in eight.in_words()
    half = roofline.llm("llama-3-70b", weights="fp8", **options)  # products of bf16: neither kernels nor steps
    assert half.expectation is None
    assert half.decode.expectation.in_words().startswith("no expectation: no constants of vllm are known for contra")


@pytest.mark.parametrize(("phase", "size"), some([("decode", "context"), ("prefill", "prompt")], 2))
def test_a_table_of_steps_expects_of_each_row_what_its_own_answer_does(phase: str, size: str) -> None:
    asked = {"on": ["h100:8", "h200:8"], "tensor": [3, 8], "batch": [1, 64], size: 1024}
    table = roofline.sweep("llama-3-70b", phase, estimate=True, **asked)
    assert [each is None for each in table.plain("expected")] == [True, True, False, False] * 2
    assert [table.is_possible(row) for row in (0, 2, -1)] == [False, True, True]
    with pytest.raises(InputError, match="there is no row 8; of 8 rows the first is 0"):
        table.is_possible(8)
    for row in (2, 7):
        one = {**table.asked_in(row), "estimate": True}
        alone = getattr(roofline.llm("llama-3-70b", **one), phase).expectation
        found = [table.plain(name)[row] for name in ("expected", "low", "high")]
        assert found == pytest.approx([alone.value, alone.low, alone.high], rel=1e-12)
    assert not [line for line in table.incomplete if "nothing is expected" in line]
    without_times = roofline.sweep("llama-3-70b", phase, estimate=True, columns=["throughput"], **asked)
    assert without_times.plain("expected") == table.plain("expected")
    assert without_times.incomplete == table.incomplete


def test_a_table_of_training_steps_expects_of_each_row_what_train_does() -> None:
    table = roofline.sweep("llama-3-8b", "train", on="h100:64", batch_tokens=[2**20, 2**22], estimate=True)
    for row, tokens in enumerate((2**20, 2**22)):
        alone = roofline.train("llama-3-8b", on="h100:64", batch_tokens=tokens, estimate=True)
        assert table.plain("expected")[row] == pytest.approx(alone.expectation.value, rel=1e-12)
    with pytest.raises(InputError, match="library= is of kernels, and a training step is expected as a whole"):
        roofline.sweep("llama-3-8b", "train", on="h100:64", batch_tokens=2**20, estimate="sglang")


def test_steps_over_lists_expect_each_what_it_alone_does(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"on": "h200", "context": 8192, "estimate": True}
    several = roofline.llm("llama-3-70b", tensor=np.array([[2], [4]]), batch=np.array([1, 8, 16]), **asked)
    for at, tensor in enumerate((2, 4)):
        for number, batch in enumerate((1, 8, 16)):
            alone = roofline.llm("llama-3-70b", tensor=tensor, batch=batch, **asked)
            assert several.decode.estimate[at, number] == pytest.approx(alone.decode.estimate, rel=1e-12)
    words = ["llm", "llama-3-70b", "--on", "h200", "--tensor", "2,4", "--batch", "1,8", "--context", "8Ki"]
    assert main([*words, "--estimate"]) == 0
    assert "decode at best  expected" in capsys.readouterr().out
    with pytest.raises(InputError, match="worked out step by step, up to 2,000 of them, and there are 3,000; ask for"):
        roofline.llm("llama-3-70b", tensor=4, batch=range(1, 3001), **asked)


def test_one_phase_may_have_several_sizes_and_the_other_one() -> None:
    asked: dict[str, Any] = {"on": "h100", "batch": 8, "context": 128, "estimate": True}
    several = roofline.llm("llama-3-8b", prompt=[100, 200], **asked)
    for place, prompt in enumerate((100, 200)):
        one = roofline.llm("llama-3-8b", prompt=prompt, **asked)
        assert several.prefill.expectation.value[place] == pytest.approx(one.prefill.expectation.value)
        assert several.decode.expectation.value == pytest.approx(one.decode.expectation.value)


def test_a_limit_on_decoding_holds_what_is_expected_of_each_batch() -> None:
    asked: dict[str, Any] = {"on": "h200:2", "tensor": 2, "context": 16000}
    several = roofline.llm("mixtral-8x7b", batch=[74, 75, 76], **asked, estimate=True)
    time_of = dict(zip((74, 75, 76), several.decode.estimate.tolist(), strict=True))
    limit = (time_of[75] + time_of[76]) / 2
    (most,) = roofline.llm("mixtral-8x7b", **asked, tpot=limit, estimate=True).front.within
    (at_best,) = roofline.llm("mixtral-8x7b", **asked, tpot=limit).front.within
    assert (most.batch, at_best.batch) == (75, 89)
    assert most.time_per_token == pytest.approx(time_of[75], rel=1e-12)
    assert most.at_best <= most.low < most.time_per_token < most.high
    sought = roofline.llm("llama-3-8b", on="h100", context=4096, tensor=[1, 2], tpot="5ms", estimate=True).front.choices
    assert len({(choice.batch, choice.tensor) for choice in sought}) == len(sought)  # none is in time on one chip
    given = roofline.llm("mixtral-8x7b", batch=[48, 74, 89], **asked, tpot=limit, price=3, estimate=True)
    assert given.front.to_dict()["form"] == "expected"
    assert [choice.batch for choice in given.front.within] == [74]
    # the cost is of the same time: hours of two chips for a million of 74 tokens a step
    dollars = 3 * 2 * time_of[74] * 1e6 / 74 / 3600
    assert given.cost["output"].dollars == pytest.approx(dollars, rel=1e-12)
    assert given.cost["output"].to_dict()["form"] == "expected"
    assert given.front.cost_per_million(given.front.within[0]) == pytest.approx(dollars, rel=1e-12)


def test_a_limit_holds_what_is_expected_of_rows_and_their_costs_are_by_it() -> None:
    asked: dict[str, Any] = {"on": "h200:2", "tensor": 2, "batch": [64, 89], "context": 16000, "price": 3}
    floors = roofline.sweep("mixtral-8x7b", tpot="30ms", **asked)
    table = roofline.sweep("mixtral-8x7b", tpot="30ms", estimate=True, **asked)
    assert (floors.plain("within"), table.plain("within")) == ([True, True], [True, False])
    assert (floors.cheapest, table.cheapest) == (1, 0)
    ratio = table.plain("expected")[0] / table.plain("lower")[0]
    assert table.plain("cost_per_million")[0] == pytest.approx(ratio * floors.plain("cost_per_million")[0], rel=1e-12)
    said = [line for name, line in table.remarks() if name == "no cost"]
    assert said == ["1 of 2 rows: expected to take longer than the limit of 30 ms"]
    assert ("assumes", "costs and the limit are by the times to expect") in table.notes
    later = roofline.sweep("mixtral-8x7b", tpot="29ms", estimate=True, **asked)  # one is late at best too
    assert [line for name, line in later.remarks() if name == "no cost"] == [
        "1 of 2 rows: expected to take longer than the limit of 29 ms"
    ]


def test_costs_are_ranked_by_one_form_as_expected_of_all_or_at_the_floor_of_all() -> None:
    asked: dict[str, Any] = {"context": 8192, "batch": 32, "price": "h100=1.8,mi300x=3"}
    floors = roofline.llm("llama-3-8b", on="h100,mi300x", **asked)
    mixed = roofline.llm("llama-3-8b", on="h100,mi300x", **asked, estimate=True)  # nothing is expected of an MI300X
    name = "$ a million output tokens"
    assert [fact.value for fact in mixed.facts[name]] == [fact.value for fact in floors.facts[name]]
    assert mixed.best(name) == floors.best(name) == ("h100",)
    assert mixed.facts[f"{name}, expected"][1] is None
    assert mixed.best(f"{name}, expected") == ()
    untimed = roofline.llm("llama-3-8b", on="h100:8,mi300x:8", tensor=8, context=4096, estimate=True)
    assert untimed.best("decode, expected") == ()  # of one alone
    (said,) = mixed.cheapest()
    assert [f"{line}, at the floor" for line in floors.cheapest()] == [said]
    both = roofline.llm("llama-3-8b", on="h100,h200", **{**asked, "price": "1.8,3"}, estimate=True)
    (said,) = both.cheapest()
    costs = [answer.cost["output"] for answer in both]
    assert said == f"h100 is the cheapest: ${costs[0].dollars:.4g} {name.removeprefix('$ ')}, expected"
    assert costs[0].floor.dollars == floors[0].cost["output"].dollars < costs[0].dollars < costs[1].dollars
    sizes: dict[str, Any] = {"batch": [8, 64], "context": 4000, "price": 3}
    plain = roofline.sweep("llama-3-8b", on=["h100", "mi300x"], tpot="6ms", **sizes)
    table = roofline.sweep("llama-3-8b", on=["h100", "mi300x"], tpot="6ms", **sizes, estimate=True)
    for column in ("cost_per_million", "within"):
        assert table.plain(column) == plain.plain(column)
    assert "costs and the limit are by floors, as what to expect is not known of all rows" in str(table)


def test_runs_and_a_budget_of_tokens_cost_what_is_expected_too() -> None:
    line = "bf16[4096, 4096] * bf16[4096, 4096]"
    found = roofline.bound(line, on="h100", price=2, estimate=True)
    floor = roofline.bound(line, on="h100", price=2).cost
    assert found.cost.dollars == pytest.approx(2 * found.estimate * 1e6 / 3600)
    assert (found.cost.to_dict()["form"], found.cost.floor.dollars) == ("expected", floor.dollars)
    assert ", at the time to expect\n" in str(found)
    unknown = roofline.bound(line, on="mi300x", price=2, estimate=True)
    assert "form" not in unknown.cost.to_dict()
    assert roofline.bound(line, on="h100", price=2, overlap=0.5).cost.to_dict()["form"] == "estimate"
    assert ", at the floor\n" in str(unknown)
    asked: dict[str, Any] = {"on": "h100:8", "fsdp": 8, "batch_tokens": 65536, "tokens": "1T", "price": 2}
    step, at_best = (roofline.train("llama-3-8b", **asked, estimate=given) for given in (True, False))
    more = step.expectation.value / step.lower
    assert (step.days, step.cost) == pytest.approx((at_best.days * more, at_best.cost * more))
    assert "1T tokens take 116.6 days at the time to expect, cost $" in str(step)
    in_part = roofline.train("llama-3-8b", **{**asked, "on": "gaudi3:8"}, estimate=True)  # a hop is not timed
    said = " ".join(str(in_part).split())
    assert "1T tokens take at least " in said
    assert "days at the time to expect, cost at least $" in said
    assert " at least " not in str(roofline.train("llama-3-8b", **{**asked, "on": "gaudi3:8"}, mfu=0.4)).split("MWh")[0]
    several = roofline.train("llama-3-8b", **{**asked, "batch_tokens": [65536, 131072]}, estimate=True)
    assert several.to_pandas()["days"].tolist() == several.days.tolist()
    assert several.days[0] == step.days
    stated = roofline.train("llama-3-8b", **asked, mfu=0.4, estimate=True)
    assert stated.days == roofline.train("llama-3-8b", **asked, mfu=0.4).days


def test_a_cost_is_at_the_times_to_expect_where_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, Any] = {"on": "h100", "batch": 8, "prompt": 1000, "output": 100, "price": 2}
    found = roofline.llm("llama-3-8b", **asked, estimate=True)
    mean = found.further["generation"].expectation.parts[1].value
    assert found.cost["output"].dollars == pytest.approx(2 * mean * 1e6 / 8 / 3600)
    assert found.cost["input"].dollars == pytest.approx(2 * found.prefill.estimate * 1e6 / 8000 / 3600)
    assert found.cost["output"].dollars > roofline.llm("llama-3-8b", **asked).cost["output"].dollars
    words = ["llm", "llama-3-8b", "--on", "h100", "--context", "4k", "--price", "2", "--estimate"]
    assert main(words) == 0
    assert re.search(r"\$[\d.]+ a million output tokens: as expected\n", capsys.readouterr().out)


def test_what_is_expected_says_how_many_tokens_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["llm", "llama-3-70b", "--on", "h100:16", "--tensor", "16", "--batch", "64", "--context", "4096"]
    assert main([*words, "--estimate"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    expect = re.search(r"expect (\S+ ms) .*?\): ([\d,]+) tokens/s, ([\d.]+) tokens/s for each user", said)
    assert expect is not None
    time, tokens, user = parse(expect[1], "s"), float(expect[2].replace(",", "")), float(expect[3])
    assert (tokens * time, user * time) == pytest.approx((64, 1), rel=0.01)
    assert said.count(", extrapolated;") == 1  # the step that is served is the same: its parts alone are told
    assert "at best the network does not bind up to tensor 64" in said
    several = roofline.llm("llama-3-70b", on="h100", tensor=[8, 16], batch=64, context=4096, estimate=True)
    assert "fastest of those that fit: as expected, tensor 8" in str(several)
    assert several.expected_tokens_per_second.tolist() == pytest.approx((64 / several.decode.estimate).tolist())
    found = roofline.llm("llama-3-70b", on="h100:8", tensor=8, batch=64, prompt=1000, output=500, estimate=True)
    whole = found.further["generation"].expectation
    assert f"with 64 at once expect {64 / whole.value:.4g} answers/s, at best 15.27 answers/s" in str(found)
    assert re.search(r"and prefills of new ones between steps: expect [\d.]+ ms", " ".join(str(found).split()))
    assert found.to_dict()["expected_tokens_per_second"] == pytest.approx(64 / found.decode.expectation.value)


def test_a_limit_on_decoding_holds_floors_where_nothing_is_expected() -> None:
    asked: dict[str, Any] = {"on": "v5e:8", "tensor": 8, "context": 4000, "weights": "int8", "tpot": "10ms"}
    found, floors = (roofline.llm("llama-3-8b", **asked, estimate=given) for given in (True, False))
    assert (found.front.form, found.front.choices) == ("lower", floors.front.choices)
    said = " ".join(str(found).split())
    assert "NOTHING IS EXPECTED of some choices, as said below: times and limit are floors in 10 ms a token" in said
    assert "incomplete no constants of vllm are known for all of these choices" in said


def test_an_interval_of_a_format_that_was_not_measured_promises_no_share() -> None:
    asked: dict[str, Any] = {"on": "h100", "batch": 32, "context": 4096, "estimate": True}
    found = roofline.llm("llama-3-8b", **asked)
    step = found.expectation
    assert (step.value, step.low, step.high) == tuple(
        getattr(found.decode.expectation, name) for name in ("value", "low", "high")
    )
    assert ", extrapolated; steps of h100 vllm fp8" in " ".join(str(found).split())
    assert step.low == found.decode.lower
    assert f"({format_quantity(step.low, 's')}, the floor, to " in " ".join(str(found).split())
    assert (found.decode.expectation.holds, found.decode.expectation.to_dict()["coverage"]) == ("extrapolated", None)
    measured = roofline.llm("llama-3-8b", weights="fp8", activations="fp8", **asked).decode.expectation
    assert (measured.holds, measured.coverage) == ("80%", 0.8)
    rows = roofline.llm("llama-3-8b", **{**asked, "batch": [32, 64]}).decode.expectation
    assert rows.to_dict()["coverage"] is None


def test_an_interval_that_held_few_runs_is_not_said_to_hold_80_percent() -> None:
    asked: dict[str, Any] = {"on": "h200:8", "tensor": 8, "batch": 32, "library": "trtllm", "estimate": True}
    told: dict[str, Any] = {"context": 4096, "weights": "fp8", "activations": "fp8"}
    found = roofline.llm("llama-3-70b", **asked, **told)
    held = found.decode.expectation.framework_errors
    few = f"held {100 * held['coverage']:.0f}% of {held['n_test']:g} runs"
    assert f"{few}; steps of h200 trtllm" in str(found)
    assert found.decode.expectation.to_dict()["coverage"] == held["coverage"] < 0.65
    other = roofline.llm("llama-3-8b", **asked, **told).decode.expectation  # as wide as other models had to have it
    assert "kernels" in other.outside
    assert ", 80%; steps of h200 trtllm" in other.in_words()
    assert other.to_dict()["coverage"] == 0.8
    rows = roofline.llm("llama-3-70b", **{**asked, "batch": [16, 32]}, **told).decode.expectation
    assert rows.in_words().endswith(f"each with an interval of its own ({few})")
    assert rows.to_dict()["coverage"] == held["coverage"]
    both = roofline.llm("llama-3-70b", **{**asked, "on": "h200:8,b200:8"}, **told)
    assert [None if fact is None else fact.held for fact in both.facts["decode, expected"]] == [few, ""]
    assert [end is None for end in both.facts["decode, expected, 80% from"]] == [True, False]
    wide = {**told, "weights": "nvfp4", "activations": "nvfp4"}  # in which no step was measured on an H200
    both = roofline.llm("llama-3-70b", **{**asked, "on": "b200:8,h200:8"}, **wide)
    assert [None if fact is None else fact.held for fact in both.facts["decode, expected"]] == ["", ""]
    assert not both.answers[1].decode.expectation.is_known  # neither kernels nor steps of it were
