"""``roofline model`` and ``roofline llm``: what they print, their JSON, and what they say to bad input."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roofline import llm, models, train
from roofline.cli import main
from roofline.errors import InputError
from roofline.rendering.terminal import as_text
from tests.strategies import LONG, some

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def as_json(capsys: Capture, *words: str) -> Any:
    return json.loads(run(capsys, *words, "--json"))


def test_models_side_by_side(capsys: Capture) -> None:
    text = run(capsys, "model", "llama-2-7b", "llama-2-13b", "llama-2-70b", "gpt-3")
    for word in ("llama-2-7b", "gpt-3", "6.74B", "175B", "524 kB", "parameters", "FLOP/B", "KV per"):
        assert word in text
    assert "…" not in text


def test_models_may_be_named_with_commas(capsys: Capture) -> None:
    one, other = (run(capsys, "model", *names) for names in (("llama-3-8b,qwen3-8b",), ("llama-3-8b", "qwen3-8b")))
    assert one == other


def test_models_say_their_formats_and_what_is_beyond_their_training(capsys: Capture, tmp_path: Path) -> None:
    words = ["model", "deepseek-v3", "qwen3-32b", "--context", "256k"]
    text = " ".join(run(capsys, *words, "--kv", "fp8").split())
    assert "qwen3-32b: weights bf16, activations bf16, keys and values fp8" in text
    assert "256,000 tokens are longer than the 163,840 that deepseek-v3 was trained on" in text
    run(capsys, *words, "-o", str(tmp_path / "x.csv"))
    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    assert [row["model"] for row in rows] == ["deepseek-v3", "qwen3-32b"]
    assert float(rows[1]["KV of 256,000 [B]"]) == 64 * 2 * 8 * 128 * 2 * 256_000


def test_the_table_as_json(capsys: Capture) -> None:
    found = as_json(capsys, "model", "llama-2-7b", "--batch", "8", "--prompt", "1024")
    (model,) = found["models"]
    assert found["schema"] == "roofline/model/1"
    assert model["model"]["parameters"] == 6738415616
    assert model["flops"] == 108306139971584
    assert model["kv_bytes_per_token"] == 524288
    assert model["intensity"] == model["flops"] / model["bytes"]


def test_modules(capsys: Capture) -> None:
    found = as_json(capsys, "model", "llama-2-7b", "--modules")
    assert found["total"] == 6738415616 == sum(found.values()) / 2
    assert "layers.mlp.up_proj" in run(capsys, "model", "llama-2-7b", "--modules")


def test_names_are_listed(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    head, *rows = (line.split() for line in run(capsys, "model").splitlines())
    assert head[:2] == ["model", "parameters"]
    found = {row[0]: row[1:] for row in rows if row}
    assert found["deepseek-v3"] == ["671B", "37.6B", "163,840"]
    assert found["llama2-7b"][:2] == ["6.74B", "4,096"]  # dense: all are active
    assert "llama-2-7b" in found["llama2-7b"][2]
    assert {"deepseek-v3", "llama-2-7b"} <= set(as_json(capsys, "model"))


def test_serving(capsys: Capture) -> None:
    text = run(capsys, "llm", "llama-2-13b", "--on", "a100:1", "--batch", "8", "--prompt", "1024", "--context", "1536")
    for word in (
        "compute-bound (tensor)",
        "memory-bound (hbm)",
        "layers.0-39.mlp.up_proj",
        "fits",
        "tokens/s for each user",
    ):
        assert word in text


def test_serving_as_json(capsys: Capture) -> None:
    words = ("llm", "llama-2-7b", "--on", "a100", "--set", "hbm=2.039e12", "--batch", "8", "--context", "1024")
    found = as_json(capsys, *words, "--policy", "streamed", "--activations", "bf16")
    assert found["prefill"] is None
    assert found["decode"]["flops"] == 110012399616
    assert found["time_per_token"] == found["decode"]["lower"] == pytest.approx(8.58917e-3, rel=1e-6)
    assert found["tokens_per_second_per_user"] == 1 / found["time_per_token"]
    assert (
        sum(op["flops"] for op in found["decode"]["ops"] if op["kind"] in ("contraction", "attention")) == 110012399616
    )


def test_a_table_over_batches(capsys: Capture) -> None:
    text = run(capsys, "llm", "mixtral-8x7b", "--on", "h200", "--batch", "1:64:*2", "--context", "4096")
    assert "all of them fit" in text
    first, most, turns = text.splitlines()[2:5]
    assert first.startswith("  fastest: batch 1, ")
    assert most.startswith("  most tokens a second: batch 64, ")
    assert turns.startswith("  compute-bound at no batch: keys and values grow with it")
    found = as_json(capsys, "llm", "mixtral-8x7b", "--on", "h200", "--batch", "1,64", "--context", "4096")
    assert len(found["time_per_token"]) == len(found["front"]["choices"]) == 2
    assert found["decode"]["bound_by"] == ["hbm", "hbm"]


def test_a_file(capsys: Capture, tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 100,
        "unheard_of": 7,
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(config))
    text = run(capsys, "llm", str(path), "--on", "h100", "--prompt", "16")
    assert "mine" in text
    assert "unheard_of is not understood and not modelled" in text


def test_an_encoder_has_no_decode(capsys: Capture) -> None:
    found = as_json(capsys, "llm", "bert-base", "--on", "h100", "--prompt", "128")
    assert found["decode"] is None
    assert found["time_per_token"] is None


def test_what_does_not_fit(capsys: Capture) -> None:
    text = run(capsys, "llm", "llama-2-70b", "--on", "h100", "--prompt", "1000")
    assert text.index("DOES NOT FIT: needs 138 GB, hbm has 84.9 GB · would fit: fp8 weights") < text.index("prefill")
    assert "does not fit" in text
    assert "instead: fp8 weights; or 2 such chips hold it (--tensor 2); or one NVIDIA H200 SXM" in text


def test_a_question_without_a_context_takes_the_usual_one_and_says_so(capsys: Capture) -> None:
    text = run(capsys, "llm", "llama-2-7b", "--on", "h100")
    assert "decode (batch 1, context 4096)" in text
    assert "assumes  a context of 4,096 tokens, as neither a prompt nor a context was given" in text
    with pytest.raises(InputError, match="nothing is asked for; give a prompt to prefill, a context to decode after"):
        models.serve("llama-2-7b", on="h100")


@pytest.mark.parametrize("given", [{"past": 100}, {"logits": "all"}])
def test_what_is_of_prefill_alone_is_refused_without_a_prompt(given: dict[str, Any]) -> None:
    said = f"{next(iter(given))}= says nothing without prompt=; add it, or leave it out"
    with pytest.raises(InputError, match=said):
        llm("llama-3-8b", on="h100", context=8192, **given)


def test_several_formats_stand_side_by_side(capsys: Capture) -> None:
    asked = ("llm", "llama-3-8b", "--on", "h100,h200", "--context", "8192", "--kv", "bf16,fp8")
    text = run(capsys, *asked)
    assert "h200 kv fp8 has the lowest floor" in text
    found = json.loads(run(capsys, *asked, "--json"))
    alone = llm("llama-3-8b", on="h100", context=8192, kv="fp8")
    assert found["facts"]["a token at best"][1] == alone.decode.lower
    trained = train("llama-3-8b", on="h100:8", batch_tokens=2**16, weights=["bf16", "fp8"])
    assert trained.names == ("h100:8 weights bf16", "h100:8 weights fp8")


@pytest.mark.parametrize(
    ("batch", "context", "prompt"), [(1, 4096, None), (8, 8192, None), (30, 1000, None), (8, 8192, 8000)]
)
def test_memory_is_full_from_the_batch_that_is_said(batch: int, context: int, prompt: int | None) -> None:
    found = models.serve("llama-3-8b", on="h100", batch=batch, context=context, prompt=prompt)
    most = found.full_from()
    assert most is not None
    assert models.serve("llama-3-8b", on="h100", batch=most, context=context, prompt=prompt).memory.fits
    assert not models.serve("llama-3-8b", on="h100", batch=most + 1, context=context, prompt=prompt).memory.fits
    decoding = models.serve("llama-3-8b", on="h100", batch=batch, context=context).full_from()
    assert decoding is not None
    beside = f" ({most:,} with all their prompts in one prefill)" if most < decoding else ""
    said = " ".join(as_text(found.sections(), 200).split())
    assert f"memory holds batches up to about {decoding:,}{beside}" in said


@pytest.mark.parametrize("batch", some([1, 4, 5, 8], 6))
def test_memory_of_copies_holds_as_many_whatever_batch_is_asked(batch: int) -> None:
    asked = {"on": "h100:2", "context": 32000, "kv": "fp8"}
    assert models.serve("qwen3-32b", batch=batch, **asked).full_from() == 8
    assert models.serve("qwen3-32b", batch=8, **asked).memory.fits
    assert not models.serve("qwen3-32b", batch=9, **asked).memory.fits
    advised = [line.change for line in models.serve("qwen3-32b", batch=batch, **asked).advise()]
    batches = {1: ["batch 8", "batch 2"], 4: ["batch 8"]}.get(batch, [])
    assert [change for change in advised if change.startswith("batch ")] == batches
    laid = as_text(llm("qwen3-32b", batch=batch, data=2, fit=True, **asked).sections(), 200)
    assert "h100:2 holds 8 sequences of this context as laid out (data 2, 4 on each copy), 24 if memory" in laid
    split = as_text(llm("qwen3-32b", batch=batch, tensor=2, fit=True, **asked).sections(), 200)
    assert "as laid out" not in split


MESSAGES = [
    (["llm", "lama-2-7b", "--on", "h100", "--prompt", "8"], "no model 'lama-2-7b'; did you mean 'llama-2-7b'?"),
    (["llm", "llama-2-7b", "--prompt", "8"], "no machine to run on"),
    (["llm", "llama-2-7b", "--on", "h200:8", "--prompt", "8", "--tensor", "3"], "tensor 3 does not divide the 8"),
    (["llm", "llama-2-7b", "--on", "h100", "--prompt", "x"], "--prompt 'x' is not a size; a number, a list"),
    (["llm", "llama-2-7b", "--on", "h100", "--host-layers", "x"], "--host-layers 'x' is not a size; a number, a list"),
    (["llm", "llama-2-7b", "--on", "h100", "--prompt", "8", "--batch", "0"], "size batch is 0"),
    (["llm", "llama-2-7b", "--on", "h100", "--prompt", "8", "--weights", "fp9"], "unknown dtype 'fp9'; did you mean"),
    (["model", "llama-2-7b", "gpt-3", "--modules"], "--modules opens one model up, not 2; name one"),
    (["model", "llama-2-7b", "--prompt", "0"], "--prompt '0' is not a number of tokens"),
]


@pytest.mark.parametrize(("words", "message"), MESSAGES)
def test_messages(words: list[str], message: str, capsys: Capture) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out


def test_plain_numbers_load_nothing_heavy() -> None:
    code = (
        "import sys, roofline.cli;"
        "roofline.cli.main(['llm', 'deepseek-v3', '--on', 'h100', '--prompt', '64', '--json']);"
        "print([m for m in ('numpy', 'sympy', 'matplotlib', 'rich') if m in sys.modules], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.strip() == "[]"


# ---- further answers about serving

SPLIT = ("llm", "llama-3-70b", "--on", "h200:8", "--tensor", "8", "--batch", "16")

FURTHER = {
    "generation": ("--prompt", "1000", "--output", "100"),
    "chunked": ("--prompt", "1000", "--context", "2000", "--chunk", "256"),
    "speculation": ("--context", "2000", "--draft", "3", "--draft-by", "llama-3-8b", "--accept", "0.7"),
    "disaggregation": ("--prompt", "1000", "--output", "100", "--prefill-on", "h100:8", "--link", "50 GB/s"),
    "cost": ("--prompt", "1000", "--price", "2.5", "--power", "tdp"),
    "fewest": ("--context", "2000", "--fit"),
    "advice": ("--context", "2000", "--advise"),
}

PRINTED = {
    "generation": (
        "answers of 100 tokens to prompts of 1,000",
        "first tokens of 16 prompts, read",
        "answers/s with 16 at once",
    ),
    "chunked": ("in 4 chunks of 256 beside 16 that decode", "with no chunk", "bound by"),
    "speculation": (
        "3 tokens by llama-3-8b, each accepted with probability 70% if all before it are",
        "2.533 tokens a check",
        "times as fast as",
        "best with",
    ),
    "disaggregation": (
        "first token after",
        "one server of each:",
        "prefill on 8 x NVIDIA H100",
        "prefill servers for each that decodes",
        "8 x 50 GB/s",
    ),
    "cost": ("a million input tokens:", "a million output tokens:", "$", "kWh", "data sheet's 700 W"),
    "fewest": ("2 hold it by memory", "fits on h200:2 with --tensor 2", "in equal parts: 2 (--tensor 2)"),
    "advice": ("faster  decode, for the same tokens", "int4 weights", "keys and values", "tensor 16, 16 chips"),
}


@pytest.mark.parametrize("key", FURTHER)
def test_further_answers(key: str, capsys: Capture) -> None:
    text = run(capsys, *SPLIT, *FURTHER[key])
    for words in PRINTED[key]:
        assert words in text, words
    found = as_json(capsys, *SPLIT, *FURTHER[key])
    assert found["schema"] == "roofline/llm/1"
    assert found[key]
    for other in set(FURTHER) - {key, "generation"}:
        assert other not in found


def test_prefill_on_chips_of_its_own_is_the_first_that_is_said(capsys: Capture) -> None:
    """The answer that was asked for, not that of prefill on the chips that decode."""
    lines = run(capsys, *SPLIT, *FURTHER["disaggregation"]).splitlines()
    assert [line.strip().split(":")[0][:17] for line in lines[2:5]] == [
        "prefill and decod", "first token after", "one server of eac",
    ]  # fmt: skip
    assert any(line.strip().startswith("with prefill on the same chips: answers of 100 tokens") for line in lines)
    outline = run(
        capsys,
        "llm",
        "8B",
        "--on",
        "h100",
        "--batch",
        "8",
        "--prompt",
        "1000",
        "--output",
        "10",
        "--prefill-on",
        "h100",
    )
    assert "prefill sets the pace" in outline
    assert "(busy: prefill 100%" in outline


def test_what_is_printed_is_what_the_library_says(capsys: Capture) -> None:
    from roofline.models import chunked, fewest, generation, token_cost

    split: dict[str, Any] = {"on": "h200:8", "tensor": 8, "batch": 16}
    whole = generation("llama-3-70b", prompt=1000, output=100, **split)
    assert as_json(capsys, *SPLIT, *FURTHER["generation"])["generation"]["total"] == whole.total
    parts = chunked("llama-3-70b", prompt=1000, chunk=256, context=2000, **split)
    assert as_json(capsys, *SPLIT, *FURTHER["chunked"])["chunked"]["times"] == list(parts.times)
    least = fewest("llama-3-70b", on="h200", batch=16, context=2001)
    assert as_json(capsys, *SPLIT, *FURTHER["fewest"])["fewest"]["ratio"] == least.ratio
    priced = as_json(capsys, *SPLIT, *FURTHER["cost"])
    made = token_cost(time=priced["time_per_token"], tokens=16, chips=8, price=2.5, power=700)
    assert priced["cost"]["output"]["dollars"] == pytest.approx(made.dollars)
    assert priced["cost"]["output"]["joules_per_token"] == pytest.approx(made.joules)
    read = token_cost(time=priced["time_to_first_token"], tokens=16000, chips=8, price=2.5)
    assert priced["cost"]["input"]["dollars"] == pytest.approx(read.dollars)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--context", "4000", "--draft", "4"], "with drafts of 4 "),
        (["--context", "32000", "--fit", "--weights", "fp8"], "h100:4 holds 25 sequences of this context"),
    ],
)
def test_what_was_asked_stands_before_the_table(capsys: Capture, more: list[str], line: str) -> None:
    text = run(capsys, "llm", "llama-3-70b", "--on", "h100:4", "--tensor", "4", *more)
    assert line in text
    assert text.index(line) < text.index("operation  ")


def test_advice_stands_below_the_times_and_over_the_operations(capsys: Capture) -> None:
    asked = ("llm", "llama-3-8b", "--on", "h100", "--batch", "4", "--prompt", "1000", "--advise")
    text = run(capsys, *asked)
    order = ["prefill (batch 4", "decode (batch 4", "faster  prefill", "faster  decode", "GB free",
             "operations of prefill", "operations of decode", "assumes  "]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert text.count("  faster  decode") == 1
    assert "--set FIGURE=VALUE" in run(capsys, "llm", "-h")


def test_a_sweep_takes_several_formats_by_commas(capsys: Capture) -> None:
    text = run(capsys, "sweep", "llama-3-8b", "--on", "l40s", "--kv", "bf16,fp8", "--weights", "bf16,int8", "--json",
               "--context", "32k")  # fmt: skip
    columns = json.loads(text)["columns"]
    assert [*zip(columns["weights"], columns["kv"], strict=True)] == [
        ("bf16", "bf16"), ("bf16", "fp8"), ("int8", "bf16"), ("int8", "fp8"),
    ]  # fmt: skip


def test_contexts_that_are_all_the_same_are_answered_one_by_one(capsys: Capture) -> None:
    text = run(capsys, "llm", "llama-3-8b", "--on", "h100", "--context", "512,512", "--batch", "8")
    assert "compute-bound at no batch" in " ".join(text.split())
    text = run(capsys, "llm", "llama-3-8b", "--on", "h100", "--context", "64:512:64", "--batch", "8")
    assert "; of 8 contexts 64, 192, 384 and 512 were looked at" in " ".join(text.split())
    assert "decode (batch 8, context 64 … 128)" in str(llm("8B", on="h100", context=[64, 128], batch=8))


def test_prompts_that_are_read_together_hold_less_than_decode_does(capsys: Capture) -> None:
    """The prompt that is said fits, and one token more does not."""
    found = llm("llama-3-8b", on="a100-40gb", batch=16, fit=True)
    assert 0 < found.longest_prompt < found.longest.context
    fits = [llm("llama-3-8b", on="a100-40gb", batch=16, prompt=found.longest_prompt + more).fits for more in (0, 1)]
    assert fits == [True, False]
    said = f"16 prompts read together may have {found.longest_prompt:,} tokens each: longer ones are read in turn"
    assert said in " ".join(run(capsys, "llm", "llama-3-8b", "--on", "a100-40gb", "--batch", "16", "--fit").split())


def test_the_longest_context_stands_alone_where_the_longest_prompt_is_not_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["llm", "qwen3-vl-2b-instruct", "--on", "h100", "--prompt", "512", "--images", "1"]
    assert main([*asked, "--image-size", "640x480", "--fit"]) == 0
    shown = capsys.readouterr().out
    assert "longest context of one sequence on h100: 703,348 tokens" in shown
    assert "a prompt read whole" not in shown


def test_sequences_that_one_chip_holds_stand_in_the_first_line(capsys: Capture) -> None:
    text = run(capsys, "llm", "llama-3-8b", "--on", "l40s", "--context", "32k", "--kv", "int4", "--fit")
    fits = "fits on l40s (batch 1, context 32,000); l40s holds 30 sequences of this context"
    assert fits in " ".join(text.split())
    longest = "longest context of one sequence on l40s: 974,706 tokens; Meta-Llama-3.1-8B was trained on"
    assert longest in " ".join(text.split())


@pytest.mark.parametrize(
    ("formats", "said"),
    [
        (["--weights", "fp4", "--kv", "int4"], "weights fp4 without scales (embedding and head bf16)"),
        (["--weights", "fp4", "--kv", "int4"], "keys and values int4 without scales"),
        (["--weights", "mxfp4"], "weights mxfp4 (embedding and head bf16)"),
    ],
)
def test_four_bits_say_whether_scales_are_counted(capsys: Capture, formats: list[str], said: str) -> None:
    text = run(capsys, "llm", "llama-3-8b", "--on", "b200", "--context", "1000", *formats)
    assert said in " ".join(text.split())


def test_the_fewest_chips_without_a_step(capsys: Capture) -> None:
    text = run(capsys, "llm", "deepseek-v3", "--on", "h200", "--fit")
    assert "5 hold it by memory" in text
    assert "in equal parts: 8 (--tensor 8 --kv-parallel 8)" in text


def test_a_front_over_batches_and_chips(capsys: Capture) -> None:
    words = ("llm", "llama-3-70b", "--on", "h200", "--tensor", "2,4,8", "--batch", "1:512:*4", "--context", "8000")
    text = run(capsys, *words)
    for part in ("each user", "each chip", "best", "3 of 15 do not fit and are left out"):
        assert part in text
    found = as_json(capsys, *words)["front"]
    assert found["schema"] == "roofline/llm-front/1"
    assert len(found["choices"]) == 15
    assert {choice["chips"] for choice in found["choices"]} == {2, 4, 8}


def test_a_pool_of_chips(capsys: Capture) -> None:
    words = ("--batch", "8", "--context", "1024", "--policy", "streamed", "--activations", "bf16")
    alone = as_json(capsys, "llm", "llama-2-70b", "--on", "h100", *words)
    eight = as_json(capsys, "llm", "llama-2-70b", "--on", "h100", "--pool", "8", *words)
    assert eight["time_per_token"] == pytest.approx(alone["time_per_token"] / 8)
    assert "8 x NVIDIA H100 SXM5 80GB sharing evenly" in run(
        capsys, "llm", "llama-2-70b", "--on", "h100", "--pool", "8", *words
    )


ISSUE = (
    "llm", "deepseek-v3", "--on", "h200:8", "--tensor", "8", "--expert", "8", "--weights", "fp8", "--kv", "bf16",
    "--batch", "1:1024", "--context", "8192",
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "file"),
    some(
        [
            (ISSUE, "pareto.svg"),
            ((*SPLIT, "--context", "2000", "--view", "time", "--dark", "--width", "600"), "time.png"),
            *(
                (
                    ((*SPLIT, "--prompt", "1000", "--context", "2000"), "roofline.svg"),
                    ((*SPLIT, "--context", "2000", "--view", "memory"), "memory.svg"),
                    (
                        ("llm", "llama-3-8b", "--on", "h100", "--batch", "1,8", "--prompt", "100", "--view", "memory"),
                        "memory.png",
                    ),
                )
                if LONG
                else ()
            ),
        ],
        3,
        1,
    ),
)
def test_pictures(words: tuple[str, ...], file: str, capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / file
    assert f"wrote {path}" in run(capsys, *words, "-o", str(path))
    assert path.read_bytes().startswith(b"<?xml" if file.endswith("svg") else b"\x89PNG")


def test_pictures_in_the_terminal(capsys: Capture) -> None:
    assert "Latency and throughput of deepseek-v3" in run(capsys, *ISSUE, "--view", "front")
    assert "hbm 141 GB" in run(capsys, *SPLIT, "--context", "2000", "--view", "memory")
    assert "layers.0-79.mlp.up_proj" in run(capsys, *SPLIT, "--context", "2000", "--view", "time")
    assert "prefill: " in run(capsys, *SPLIT, "--prompt", "2000", "--view", "roofline")


WRONG = [
    (["--context", "9", "--output", "8"], "--output needs --prompt; for instance --prompt 1024"),
    (["--context", "9", "--chunk", "8"], "--chunk needs --prompt"),
    (["--prompt", "9,18", "--chunk", "8"], "--chunk is about one configuration; give --prompt one value"),
    (["--prompt", "9", "--output", "8,16", "--fit"], "--fit is about one configuration; give --output one value"),
    (
        ["--tpot", "9ms", "--output", "8"],
        "--output is about one configuration, and --tpot chooses among several; give --batch one value, and leave "
        "--tpot out",
    ),
    (
        ["--tpot", "9ms", "--prompt", "9", "--batch", "1:64"],
        "--tpot chooses among steps of decoding, and --prompt asks for prefill; leave --prompt out: --context is what",
    ),
    (["--prompt", "9", "--prefill-on", "h100"], "--prefill-on needs --output; tokens of an answer"),
    (["--prompt", "9", "--power", "lots"], "'lots'"),
    (["--prompt", "9", "--price", "-3"], "price is -3"),
    (["--prompt", "9", "--draft", "2", "--accept", "7"], "an acceptance of 7.0 is no probability"),
    (["--prompt", "9", "--draft", "2", "--draft-by", "nobody"], "no model 'nobody'"),
    (
        ["--prompt", "9", "-o", "x.bmp"],
        "an answer cannot be saved as 'x.bmp'; end the name in .html, .json, .txt, .csv,",
    ),
    (["--prompt", "9", "-o", "x.parquet"], ".svg, .png or .pdf; roofline sweep writes tables"),
    (["--context", "9", "--view", "time", "--phase", "prefill"], "no prefill was asked for; there is decode"),
    (["--context", "9", "--batch", "1,2", "--view", "time"], "this picture is of one configuration"),
    (["--context", "9", "--tensor", "1,2", "--view", "time"], "this picture is of one configuration"),
    (["--context", "9", "--tensor", "0"], "size tensor is 0"),
    (["--context", "9", "--tensor", "two"], "--tensor 'two' is not a number of chips"),
    (["--prompt", "9", "--chunk", "0"], "size chunk is 0"),
    (["--context", "9", "--form", "upper"], "--form upper says nothing about a step, which has all three bounds"),
    (["--context", "9", "--pool", "4", "--tensor", "2"], "a pool of chips is not split by tensor too"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_messages_of_further_answers(words: list[str], message: str, capsys: Capture) -> None:
    assert main(["llm", "llama-3-8b", "--on", "h100", *words]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err


def test_further_answers_on_numbers_load_no_drawing() -> None:
    code = (
        "import sys, roofline.cli;"
        "words = ['llm', 'llama-3-8b', '--on', 'h100', '--context', '64', '--fit', '--price', '2', '--json'];"
        "roofline.cli.main(words);"
        "print([m for m in ('numpy', 'sympy', 'matplotlib', 'rich') if m in sys.modules], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.strip() == "[]"


@pytest.mark.parametrize("option", [["--output", "8"], ["--draft", "3"], ["--advise"]])
def test_several_layouts_and_what_is_about_one(capsys: Capture, option: list[str]) -> None:
    words = ["llm", "llama-3-8b", "--on", "h100:8", "--prompt", "4096", "--tensor", "2,4", *option]
    assert main(words) == 2
    assert capsys.readouterr().err == f"error: {option[0]} is about one configuration; give --tensor one value\n"


@pytest.mark.parametrize(("phase", "other"), [("prefill", "decode"), ("decode", "prefill")])
def test_a_phase_is_asked_for_alone(capsys: Capture, phase: str, other: str) -> None:
    words = ("llm", "llama-3-8b", "--on", "h100", "--prompt", "1000", "--batch", "8")
    whole, alone = as_json(capsys, *words), as_json(capsys, *words, "--phase", phase)
    assert (alone[phase], alone[other]) == (whole[phase], None)
    text = run(capsys, *words, "--phase", phase)
    assert f"{phase} (batch 8" in text
    assert f"{other} (batch 8" not in text
    beside = as_json(capsys, *words[:3], "h100,h200", *words[4:], "--phase", phase)
    assert [answer[other] for answer in beside["answers"]] == [None, None]


def test_a_picture_and_json_are_two_answers(capsys: Capture) -> None:
    words = ["llm", "llama-3-8b", "--on", "h100", "--prompt", "128", "--view", "time"]
    assert main([*words, "--json"]) == 2
    assert "--json and a picture are two answers" in capsys.readouterr().err
    assert main([*words, "--output", "8"]) == 0
    assert "answers/s" in capsys.readouterr().out


def test_tokens_are_priced_over_the_answer_or_with_the_drafts_that_are_asked_for() -> None:
    asked: dict[str, Any] = {"on": "h100", "batch": 128, "prompt": 512, "price": 2}
    step, whole = llm("llama-3-8b", **asked), llm("llama-3-8b", **asked, output=2048)
    mean = whole.further["generation"].mean_time_per_token
    assert whole.cost["output"].chip_hours == pytest.approx(mean / 128 * 1e6 / 3600)
    assert whole.cost["input"].dollars == step.cost["input"].dollars
    assert whole.cost["output"].dollars > 1.5 * step.cost["output"].dollars
    assert "output: the mean step of answers of 2,048 tokens" in as_text(whole.sections(), 200)
    drafted = llm("llama-3-8b", on="h100", batch=4, context=2048, price=2, draft=4)
    each = drafted.further["speculation"].asked.time_per_token
    assert drafted.cost["output"].chip_hours == pytest.approx(each / 4 * 1e6 / 3600)
    too_long = llm("llama-3-8b", **{**asked, "batch": 256}, output=8192)
    assert "no cost of tokens, as it does not fit" in as_text(too_long.sections(), 200)
    assert {fact.value for fact in too_long.facts() if "$" in fact.name} == {"none: does not fit"}


def test_machines_side_by_side_have_prices_of_their_own_and_say_what_tokens_cost() -> None:
    asked: dict[str, Any] = {"tensor": 8, "batch": 64, "context": 8192}
    alone = llm("llama-3-70b", on="h200:8", price=3, **asked).cost["output"]
    for prices in ([2, 3], {"h100": 2, "h200:8": 3}):
        beside: Any = llm("llama-3-70b", on=["h100:8", "h200:8"], price=prices, **asked)
        assert beside.answers[1].cost["output"].dollars == alone.dollars
        assert "$ a million output tokens" in [fact.name for fact in beside.answers[0].facts()]
    assert f"dollars={alone.dollars!r}" in repr(alone)
    for wrong in ([2, 3, 4], {"b200": 2, "h100": 3}):
        with pytest.raises(InputError, match=r"not one price for each of h100:8, h200:8: [23] given; one for all"):
            llm("llama-3-70b", on=["h100:8", "h200:8"], price=wrong, **asked)


def test_a_model_in_outline_without_a_cache_says_so() -> None:
    found: Any = llm("8b", on="h100", batch=8, context=8192)
    assert "a model in outline: parameters alone, no keys and values" in found.decode.assumptions


@pytest.mark.parametrize("several", [["--batch", "1,8,64"], ["--context", "1k,8k"], ["--tensor", "1,2"]])
def test_a_tile_is_one_value_beside_several_sizes_and_layouts(
    capsys: pytest.CaptureFixture[str], several: list[str]
) -> None:
    words = ["llm", "llama-2-7b", "--on", "h100:2", "--tile", "128,128,64", "--context", "1000", *several]
    assert main(words[: words.index("--context")] + several if "--context" in several else words) == 0
    assert "tile" in capsys.readouterr().out
