"""``roofline llm`` over pools and several layouts: what is of a chip counts every chip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roofline.cli import main
from roofline.models import disaggregate, pool, serve_bound
from roofline.models.serving.llm import llm
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
    assert "no cost of tokens, as none of these fits" in none


@pytest.mark.parametrize(
    ("words", "form", "said"),
    [
        ((), "lower", "at the floor: a real run takes longer"),
        (("--form", "upper"), "upper", "if nothing overlaps"),
        (("--overlap", "0.5", "--overhead", "5us"), "estimate", "by the stated overlap and overhead"),
    ],
)
def test_the_time_that_is_priced(words: tuple[str, ...], form: str, said: str, capsys: Capture) -> None:
    asked = ("llm", "llama-3-8b", "--on", "h100", "--context", "1000", "--batch", "16", "--price", "3", *words)
    found = as_json(capsys, *asked)
    hours = found["decode"][form] / 16 * 1e6 / 3600
    assert found["cost"]["output"]["dollars"] == pytest.approx(3 * hours)
    assert said in run(capsys, *asked)


def test_the_choice_in_the_time_a_token_may_take(capsys: Capture) -> None:
    asked = ("llm", "llama-3-70b", "--on", "h200", "--tensor", "2,4,8", "--batch", "1:256:*2", "--context", "8192")
    text = " ".join(run(capsys, *asked, "--tpot", "20ms").split())
    assert "in 20 ms a token after 8,192 tokens: batch 128 on 8 chips, 1,273 tokens/s of each chip" in text
    assert text.index("in 20 ms a token") < text.index("decode after 8,192 tokens")  # the answer is first
    (choice,) = as_json(capsys, *asked, "--tpot", "20ms")["front"]["within"]
    assert (choice["batch"], choice["chips"]) == (128, 8)
    assert "no choice takes 1 ms a token or less: the least is 3.69 ms" in run(capsys, *asked, "--tpot", "1ms")


def test_an_estimate_is_said_to_be_one(capsys: Capture) -> None:
    words = ("llm", "llama-3-8b", "--on", "h100", "--overhead", "50us", "--prompt", "1000", "--batch", "8")
    more = ("--context", "1000", "--output", "10", "--chunk", "100", "--draft", "2")
    text = " ".join(run(capsys, *words, *more).split())
    # an answer, two headlines, two steps, drafts
    assert text.count("by the stated overlap and overhead") == 6
    assert "if all overlaps" not in text
    found = as_json(capsys, *words, *more)
    assert {found[key]["form"] for key in ("generation", "chunked", "speculation")} == {"estimate"}
    assert found["generation"]["time_to_first_token"] == found["prefill"]["estimate"]
    priced = as_json(capsys, *words, "--context", "1000", "--price", "2")["cost"]
    assert {each["form"] for each in priced.values()} == {"estimate"}
    front = run(capsys, *words[:-4], "--context", "1000", "--batch", "1,8")
    assert "decode after 1,000 tokens, by the stated overlap and overhead" in front
    assert main([*words, "--output", "9", "--form", "upper"]) == 2
    assert "form upper and a stated overhead are two answers" in capsys.readouterr().err


def test_what_would_fit_in_place_of_a_pool_is_in_chips(capsys: Capture) -> None:
    words = ("llm", "llama-3-405b", "--batch", "8", "--context", "4096")
    alone, pooled = (as_json(capsys, *words, "--on", "h100", *more, "--fit") for more in ((), ("--pool", "2")))
    given = pooled["fewest"].pop("given")  # what weights leave on the chips of the pool
    assert alone["fewest"].pop("given") is None
    assert pooled["fewest"] == alone["fewest"]
    assert alone["fewest"]["chips"] == 10
    left = 2 * pooled["fewest"]["capacity"] - pooled["memory"]["parts"]["weights"]
    assert alone["parallelism"] == {"chips": 16, **alone["fewest"]["layout"]}  # the step is laid out on the fewest
    alone = as_json(capsys, *words, "--on", "h100")
    assert (given["chips"], given["left"], given["left_each"]) == (2, left, left / 2)
    assert (given["sequences"], given["tokens"]) == (0, 0)
    assert "on 2 x h100 weights do not fit" in run(capsys, *words, "--on", "h100", "--pool", "2", "--fit")
    for found in (alone, pooled):
        assert (
            "10 such chips have the memory, 16 split it evenly (--tensor 16 --kv-parallel 2)"
            in found["memory"]["instead"]
        )
    nine = as_json(capsys, *words, "--on", "h100", "--pool", "9")
    assert "or 9 x NVIDIA H100 NVL 94GB; or the weights of 11 of 126 layers" in nine["memory"]["instead"]


def test_another_chip_in_place_of_those_of_a_pool() -> None:
    from roofline.hardware import chip
    from roofline.models import advise_step

    arguments: dict[str, Any] = {"batch": 8, "context": 4096}
    lines = advise_step("llama-3-70b", "decode", on=pool(chip("h100"), 8), **arguments)
    other = next(line for line in lines if line.change == "NVIDIA B200 SXM")
    times = [serve_bound("llama-3-70b", "decode", on=pool(chip(n), 8), **arguments).lower for n in ("h100", "b200")]
    assert other.gain == pytest.approx(times[0] / times[1])


def test_the_fewest_chips_of_a_prompt_as_long_as_the_model_takes(capsys: Capture) -> None:
    words = ("llm", "gpt2", "--on", "h100", "--batch", "64", "--fit")
    whole, longest = (as_json(capsys, *words, *more) for more in (("--prompt", "1024"), ("--context", "1023")))
    a_token = 64 * 2 * 12 * 768 * 4  # sequences, keys and values, layers, width, fp32
    for found, tokens in ((whole, 1025), (longest, 1024)):  # a decode step adds a token
        assert found["fewest"]["needed"]["parts"]["kv"] == found["memory"]["parts"]["kv"] == tokens * a_token
        beyond = [line for line in found["decode"]["assumptions"] if "longer than the 1,024" in line]
        assert len(beyond) == (tokens > 1024)


def test_sequences_that_fit_have_the_tokens_asked_for() -> None:
    from roofline.models import fewest, load

    model = load("llama-2-7b")
    found = fewest(model, on="h100", batch=1, context=4096)  # as long as the model takes
    each = model.cache_bytes(4096)
    room = found.capacity - model.weight_bytes()
    assert found.sequences * each <= room < (found.sequences + 1) * each + 10**8  # activations have to fit as well


def test_the_cheapest_of_a_prompt_and_an_answer_is_that_of_both_together(capsys: pytest.CaptureFixture[str]) -> None:
    """L4 reads cheapest and T4 writes cheapest: who is the cheapest of a whole answer is one line, with the parts."""
    words = ("llm", "llama-3.1-8b", "--on", "l4,a10g,t4", "--prompt", "2000", "--output", "500", "--fit")
    said = " ".join(run(capsys, *words, "--price", "0.8,1.0,0.35").split())
    line = "t4 is the cheapest on 2 chips: $2,667 a million answers ($0.1731 a million input tokens, $4.65 a million"
    assert line in said
    assert said.count("the cheapest") == 1
    assert "a token and tokens/s are at context 2,000, output tokens cost the mean of an answer's 499 steps" in said
    (alone, _), (_, single), (drafts, _) = (
        [answer.facts_at() for answer in llm("llama-3-8b", on="h100,h200", prompt=2000, price=2, **more)]
        for more in ({"output": 1}, {"output": 2}, {"output": 500, "draft": 2})
    )
    assert alone == drafts == "a token and tokens/s are at context 2,000"
    assert single == f"{alone}, output tokens cost the mean of an answer's 1 step"
    found = llm("llama-3.1-8b", on="t4:2", tensor=2, batch=4, prompt=2000, output=500, price=0.35, power=70)
    whole = found.further["generation"].total
    assert found.cost["answer"].dollars == pytest.approx(1e6 * 2 * 0.35 * whole / 3600 / 4)
    parts = 2000 * found.cost["input"].dollars + 499 * found.cost["output"].dollars
    assert found.cost["answer"].dollars * 1e6 == pytest.approx(parts * 1e6)
    assert found.to_dict()["cost"]["answer"]["joules_per_answer"] == pytest.approx(2 * 70 * whole / 4)
    assert "J an answer)" in str(found)
    assert "answer" not in llm("llama-3.1-8b", on="a10g", prompt=2000, price=1).cost


def test_the_cheapest_is_of_those_that_it_fits_on_and_the_fewest_chips_of_each_are_priced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("llm", "llama-3.1-8b", "--on", "l4,a10g,t4", "--price", "0.8,1.0,0.35")
    said = " ".join(run(capsys, *words).split())
    assert "a10g is the cheapest of those that it fits on: $7.198 a million output tokens; --fit prices each" in said
    each = " ".join(run(capsys, *words, "--fit").split())
    assert "t4 has the lowest floor on 2 chips" in each
    assert "t4 is the cheapest on 2 chips: $4.724 a million output tokens" in each
    # by hand: two chips read 16.06 GB of weights, the rows of embeddings aside, and 4,096 tokens of 131,072 bytes
    moved = 16.06e9 - 128256 * 4096 * 2 + 4097 * 131072
    assert pytest.approx(2 * 0.35 * 1e6 / 3600 * moved / (2 * 320e9), rel=0.01) == 4.724
    alone = " ".join(run(capsys, "llm", "llama-3.1-8b", "--on", "a10g", "--price", "1").split())
    assert "output at batch 14, about as many as memory holds: $0.7451 a million tokens" in alone
    at_14 = llm("llama-3.1-8b", on="a10g", batch=14, context=4096, price=1)
    assert at_14.cost["output"].dollars == pytest.approx(0.7451, rel=1e-3)
    assert at_14.fits


def test_contexts_of_one_sequence_have_a_price(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*["llm", "llama-3-8b", "--on", "h100", "--context", "1k,2k", "--price", "2"]]) == 0
    assert "at least $2.509 a million output tokens (context 1,000)" in capsys.readouterr().out


@pytest.mark.long
def test_side_by_side_a_chip_without_the_format_says_which_one_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("llm", "llama-3.1-8b", "--on", "l4,t4:2", "--context", "4096", "--tensor", "1,2")
    said = " ".join(run(capsys, *words).split())
    assert "t4:2: matrix products run on cuda: tensor takes no bf16; --activations fp16 would run on it" in said
    assert "l4: matrix products" not in said
    trained = run(capsys, "train", "llama-3-8b", "--on", "h100:64,v5e:8x8", "--batch-tokens", "1M", "--weights", "fp16")
    assert "v5e:8x8: matrix products run on vpu: mxu takes no fp16; --weights bf16" in " ".join(trained.split())


def test_a_table_of_batches_begins_with_both_ends_of_the_front(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("llm", "llama-3-70b", "--on", "h100:8", "--tensor", "4,8", "--batch", "1:128", "--context", "8k")
    shown = run(capsys, *words)
    front = llm("llama-3-70b", on="h100:8", tensor=[4, 8], batch=range(1, 129), context=8000, front=True).front
    assert front.best[0] == min(front.fitting, key=lambda choice: choice.time_per_token)
    most = max(front.fitting, key=lambda choice: choice.tokens_per_second_per_chip)
    assert front.best[-1] == most
    assert (most.batch, most.tensor) == (128, 8)
    assert (
        "\n  fastest: batch 1, tensor 8, 5.28 ms a token, 189.3 tokens/s\n  most tokens a second: batch 128, " in shown
    )
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("best ")][-1] == "128"
    assert f"best: {len(front.best)} of them, which no other beats in both rates" in " ".join(shown.split())
    for name in ("front.svg", "front.csv"):
        assert "most tokens a second: batch 128, tensor 8" in run(capsys, *words, "-o", str(tmp_path / name))


def test_a_limit_on_decoding_says_where_memory_and_not_time_is_what_binds(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("llm", "mixtral-8x7b", "--tensor", "2", "--context", "16k")
    label = " ".join(run(capsys, *words, "--on", "h200:2", "--tpot", "30ms").split())
    assert "29.1 ms a token: memory holds no more, 141 GB of hbm, the vendor's label: a driver may report" in label
    reported = " ".join(
        run(capsys, *words[:2], "--tensor", "4", *words[4:], "--on", "h100:4", "--tpot", "30ms").split()
    )
    assert "25.2 ms a token: memory holds no more, 84.9 GB of hbm compute-bound at no batch" in reported
    late = " ".join(run(capsys, *words, "--on", "h200:2", "--tpot", "20ms").split())
    assert "memory holds no more" not in late
    measured = run(capsys, *words, "--on", "h200:2", "--batch", "64", "--measured", "40ms")
    assert "--estimate says what kernels and the host take of such a step" in " ".join(measured.split())


def test_what_misses_a_labelled_capacity_by_little_says_that_it_is_the_label(
    capsys: pytest.CaptureFixture[str],
) -> None:
    near = run(capsys, "llm", "llama-3.1-8b", "--on", "t4")
    assert "needs 16.6 GB, dram has 16 GB by the vendor's label" in near
    far = run(capsys, "llm", "llama-3-70b", "--on", "h100")
    assert "hbm has 84.9 GB" in far
    assert "label" not in far


def test_with_prefill_apart_the_page_shows_the_steps_of_both_servers() -> None:
    asked = {"batch": 64, "prompt": 4000, "output": 512, "tensor": 16}
    found = llm("deepseek-v3", on="h200:16", prefill_on="h200:8", **asked)
    alone = llm("deepseek-v3", on="h200:8", tensor=8, prompt=4000, phase="prefill")
    decode = llm("deepseek-v3", on="h200:16", tensor=16, batch=64, context=4000)
    apart = found.further["disaggregation"]
    assert apart.server.prefill.lower == apart.prefill_time == alone.prefill.lower
    said = str(found)
    assert "prefill (batch 64" not in said  # which no chip runs
    server = said.partition("a prefill server  on 8 x NVIDIA H200 SXM\n\n")[2]
    assert server.startswith("  prefill (batch 1, prompt 4000, tensor 8): at best 27.2 ms, compute-bound (tensor)\n")
    assert "memory 86.1 GB: weights 85.1 GB" in server
    assert found.memory.total == decode.memory.total
    assert apart.to_dict()["prefill"]["memory"]["total"] == alone.memory.total
    steps = found.explain()
    assert alone.prefill.explain() in steps
    assert decode.decode.explain() in steps
    assert "hand-over: 281 MB of keys and values, 8 chips send a prompt, 50 GB/s of each chip = 703 µs" in steps
