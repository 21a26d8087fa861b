"""Answers that are complete: no option passed over in silence, no table cut, every choice that was asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roofline.cli import main
from roofline.errors import SizeError
from roofline.models import advise_step, latency_throughput, load, serve, serve_bound, serve_table
from roofline.models.operations import longest_operations
from roofline.models.summary import summary, summary_sections
from roofline.models.training import train
from roofline.models.training.advice import best_mix
from roofline.rendering.terminal import terminal
from tests.strategies import some

Capture = pytest.CaptureFixture[str]

ONE = "llm llama-2-7b --on a100 --context 100"
MANY = "train llama-3-8b --on h100:8 --batch-tokens 65536"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (f"{ONE} --past 50", "--past says nothing without --prompt; add it, or leave --past out"),
        (f"{ONE} --all-logits", "--all-logits says nothing without --prompt"),
        (f"{ONE} --accept 0.5", "--accept says nothing without --draft"),
        (f"{ONE} --draft 2 --draft-weights int4", "--draft-weights says nothing without --draft-by"),
        (f"{ONE} --link 1GB/s", "--prefill-link says nothing without --prefill-on"),
        (f"{ONE} --prefill-batch 1", "--prefill-batch says nothing without --prefill-on"),
        (f"{ONE} --micro-batches 4", "--microbatches says nothing without --pipeline"),
        (f"{ONE} --dispatch fp8", "--dispatch says nothing without --expert"),
        (f"{ONE} --sequence-parallel", "--sequence-parallel says nothing without --tensor"),
        (f"{ONE} --dark", "--dark is of a picture; end -o in .svg, .png or .pdf, or leave it out"),
        (f"{ONE} --view time --dark", "--dark is of a picture; end -o in .svg, .png or .pdf, or leave it out"),
        (f"{ONE} --view memory --policy fused", "--policy is of a step's time, and --view memory shows none"),
        (f"{ONE} --view memory --estimate", "--estimate is of a step's time, and --view memory shows none"),
        (f"{ONE} --view memory --measured 1s", "--measured is of a step's time, and --view memory shows none"),
        (f"{ONE} --view time --explain", "--explain and a picture are two answers; leave --explain or --view and -o"),
        (f"{ONE} --library vllm", "--library, --constants and --eager go with --estimate; add --estimate"),
        (f"{ONE} --phase prefill", "--phase prefill needs a prompt to read; as in --prompt 1024"),
        (f"{ONE} --prompt 9 --phase prefill --draft 4", "--phase prefill is of one step, and --draft needs the other"),
        (f"{ONE} --prompt 9 --batch 1,2 --phase prefill --tpot 9ms", "is of one step, and --tpot needs the other"),
        (f"{ONE} --prompt 9 --batch 1,2 --phase prefill --view front", "and --view front needs the other; leave one"),
        (
            "llm llama-2-7b --on a100 --fit --phase decode",
            "--phase is of a step, and --fit alone is of memory; add --prompt or --context",
        ),
        (f"{MANY} --schedule zb-h1", "--schedule says nothing without --pipeline"),
        (f"{MANY} --schedule foo", "no pipeline schedule 'foo'; schedules are: gpipe, 1f1b, interleaved, zb-h1, zb-h2"),
        (
            "train llama-2-7b --on h100 --memory --estimate --no-sequence-parallel --tensor 2",
            "is of one step, and --memory is of training in all, without a layout; a step lists its own memory: "
            "roofline train llama-2-7b --batch-tokens=4M --on=h100 --no-sequence-parallel --tensor=2 --estimate",
        ),
        (
            "train llama-2-7b --on h100:8 --memory --batch-tokens 1M --checkpoint none,full",
            "its own memory: roofline train llama-2-7b --on=h100:8 --batch-tokens=1M --checkpoint=none,full",
        ),
        ("train llama-2-7b --on h100 --memory --mfu 0.4", "--mfu says nothing about --memory; ask for each by itself"),
        (f"{MANY} --price 2", "--price says nothing without --tokens"),
        (f"{MANY} --no-sequence-parallel", "--no-sequence-parallel says nothing without --tensor"),
    ],
)
def test_an_option_that_says_nothing_is_an_error(words: str, message: str, capsys: Capture) -> None:
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "llm llama-2-7b --on h100 --fit",
        "train llama-2-7b --on h100 --memory",
        "train llama-2-7b --on h100:8 --tokens 1T --mfu 0.4",
    ],
)
def test_a_figure_that_changes_nothing_is_said(words: str, capsys: Capture) -> None:
    assert main([*words.split(), "--set", "hbm=1e12"]) == 0
    assert "given by the caller: hbm at 1 TB/s" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("words", some([ONE, MANY], 2))
def test_where_data_starts_is_said_where_it_was_chosen(words: str, capsys: Capture) -> None:
    for more, said in (("", False), (" --cold", False), (" --warm", True)):
        assert main((words + more).split()) == 0
        assert ("data starts in whichever level holds it all" in " ".join(capsys.readouterr().out.split())) is said


def test_several_batches_and_contexts_are_all_asked(capsys: Capture) -> None:
    words = "llm llama-3-8b --on h200 --batch 1,16,64 --context 4096,5000 --json"
    assert main(words.split()) == 0
    choices = json.loads(capsys.readouterr().out)["front"]["choices"]
    wanted = {(batch, context) for batch in (1, 16, 64) for context in (4096, 5000)}
    assert {(each["batch"], each["context"]) for each in choices} == wanted
    for each in choices:
        alone = serve("llama-3-8b", on="h200", batch=each["batch"], context=each["context"])
        assert each["time_per_token"] == pytest.approx(alone.time_per_token, rel=1e-12)


ARRAYS = {"batch": np.array([1, 2, 3]), "context": np.array([64, 128])}


@pytest.mark.parametrize(
    "ask",
    [
        lambda: serve_bound("llama-3-8b", "decode", on="h200", **ARRAYS),
        lambda: serve_table("llama-3-8b", "decode", on="h200", **ARRAYS),
        lambda: latency_throughput("llama-3-8b", on="h200", **ARRAYS),
        lambda: serve("llama-3-8b", on="h200:8", tensor=[1, 2, 4, 8], batch=ARRAYS["batch"], context=64),
        lambda: train("llama-3-8b", on="h200", batch_tokens=ARRAYS["batch"] * 8192, sequence=ARRAYS["context"]),
    ],
)
def test_sizes_that_do_not_broadcast(ask: Any) -> None:
    with pytest.raises(SizeError, match=r"do not broadcast: .* \(\d,\).* \(\d,\); make them of one length; sweep"):
        ask()


def test_training_takes_one_layout() -> None:
    with pytest.raises(SizeError, match=r"tensor is not one number of chips; one layout at a time; roofline\.sweep"):
        train("llama-3-8b", on="h100:8", batch_tokens=65536, tensor=[2, 4])  # type: ignore[arg-type]


def drawn(answer: Any, width: int) -> str:
    """What a terminal shows of an answer, or of sections of one."""
    from rich.console import Console

    console = Console(width=width, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(answer if hasattr(answer, "__rich__") else terminal(answer))
    return captured.get()


def test_tables_are_not_cut_in_a_narrow_terminal() -> None:
    experts = serve("deepseek-v3", on="h200:32", expert=32, batch=1024, context=4096)
    step = train("llama-3-70b", on="v5p:16x16x16", batch_tokens=2**22, tensor=8, checkpoint="full")
    many = serve("llama-3-8b", on="h200", prompt=1024, batch=[16, 256], context=[4096, 5000])
    models = [summary(load(name), batch=1, prompt=1024) for name in ("llama-2-7b", "mixtral-8x7b", "gpt-3")]
    tables = [experts, step, many, list(summary_sections(models))]
    for table in tables:
        text = drawn(table, 80)
        assert "…" not in text.replace(" … ", "")
        assert all(len(line) <= 80 for line in text.splitlines())
    assert experts.decode
    shown = [drawn([longest_operations(experts.decode)], width).splitlines()[1:] for width in (200, 70)]
    for wide, narrow in zip(*([line.split()[0] for line in lines] for lines in shown), strict=False):
        assert wide.startswith(narrow)
        if wide != narrow:  # the first name that is broken is broken after a dot
            assert narrow.endswith(".")
            break


def test_operations_have_their_share_of_the_time() -> None:
    step = serve("llama-3-8b", on="l40s", context=32000).decode
    assert step
    table = longest_operations(step)
    heads = [column.name for column in table.columns]
    shares = [str(row.cells[heads.index("share")]) for row in table.rows]
    assert shares[0] == f"{max(part.lower for part in step.ops) / step.op_by_op:.0%}"
    assert shares[-1] == "<0.1%"


def test_the_shortest_operations_are_one_row_where_they_take_a_hundredth_together() -> None:
    step = serve("llama-3-70b", on="h200:8", tensor=8, batch=64, context=8000).decode
    assert step
    table, ordered = longest_operations(step), sorted((part.lower for part in step.ops), reverse=True)
    named = len(table.rows) - 1
    assert sum(ordered[named:]) <= 0.01 * sum(ordered) < sum(ordered[named - 1 :])
    assert str(table.rows[-1].cells[0]) == f"{len(ordered) - named} more"
    assert len(table.in_full().rows) == len(ordered)  # a data frame has them all


def test_groups_of_layers_that_take_the_same_are_one_row() -> None:
    """Even and odd layers of gpt-oss differ in attention alone; the rows add up as before."""
    step = serve("gpt-oss-20b", on="h100", batch=32, context=8000).decode
    assert step
    table = longest_operations(step)
    names, times = zip(*((str(row.cells[0]), float(row.cells[4].value)) for row in table.rows), strict=True)
    assert sum(times) == pytest.approx(step.op_by_op)
    both = sum(part.lower for part in step.ops if part.op.where.endswith("mlp.experts.up_proj"))
    assert times[names.index("layers.0-23.mlp.experts.up_proj")] == pytest.approx(both)
    assert [name for name in names if name.endswith("self_attn.attention")] == [
        f"layers.{layers}.self_attn.attention" for layers in ("1-23:2", "0-22:2")
    ]
    assert len(table.in_full().rows) == len(step.ops)
    assert str(table.in_full().rows[1].cells[0]).startswith("layers.0-22:2.")


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_a_tied_table_is_exchanged_by_both_ends(zero: int) -> None:
    """Each of the two chips that share a copy sends its half, without ZeRO within their own AllReduce."""
    found = train("Qwen/Qwen3-0.6B", on="h100:8", batch_tokens=2**18, pipeline=4, zero=zero, gradients="fp32")
    table = 151936 * 1024 * 4 / 2
    sent = {
        stage.numbers: [op.op.dims["bytes"] for op in stage.bound.ops if "stages share" in op.op.where]
        for stage in found.stages
    }
    assert sent.pop((0,)) == sent.pop((3,)) == [table]
    assert not any(sent.values())
    (op,) = (op for op in found.stages[0].bound.ops if "stages share" in op.op.where)
    assert op.times["nvlink"] == pytest.approx(table / 450e9)


def test_an_untied_table_and_a_single_stage_exchange_nothing() -> None:
    untied = train("llama-3-8b", on="h100:8", batch_tokens=2**18, pipeline=4)
    whole = train("Qwen/Qwen3-0.6B", on="h100:8", batch_tokens=2**18)
    for found in (untied, whole):
        assert not [op for stage in found.stages for op in stage.bound.ops if "tied" in op.op.where]


def test_the_best_mix_is_the_best_of_fresh_answers() -> None:
    asked: dict[str, Any] = {"on": "v5p:16x16x16", "batch_tokens": 4 * 10**6, "checkpoint": "full"}
    found = train("llama-3-70b", tensor=8, fsdp=512, **asked)
    mix = best_mix(found)
    fresh = {}
    for tensor in (1, 2, 4, 8, 16, 32, 64):
        step = train("llama-3-70b", tensor=tensor, fsdp=4096 // tensor, **asked)
        if not step.bound.incomplete:
            fresh[tensor] = step.lower
    assert mix is not None
    assert mix.lower == min(fresh.values()) == fresh[mix.tensor]
    assert mix.lower < mix.now == found.lower
    assert f"best mix fsdp {mix.fsdp:,}, tensor {mix.tensor}" in drawn(found, 120)
    assert best_mix(train("llama-3-8b", on="h100:8", batch_tokens=65536)) is None


def test_what_is_not_worked_out_over_stages_is_said() -> None:
    text = drawn(serve("llama-3-70b", on="a100:2", pipeline=2, batch=64, context=8000, balance="time"), 120)
    assert "where it becomes compute-bound or network-bound is not worked out over stages" in text
    assert "the nearest that fits is not worked out over stages that are cut by their times" in text


@pytest.mark.parametrize("more", some([{}, {"prompt": 500}, {"micro_batches": 8}], 2))
def test_what_would_fit_over_stages_does_and_one_more_does_not(more: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"on": "h100:4", "tensor": 2, "pipeline": 2, "context": 30000, **more}
    near = serve("llama-3-70b", **asked, batch=200).nearest()
    assert near is not None
    assert near.batch
    assert serve("llama-3-70b", **asked, batch=near.batch).fits
    assert not serve("llama-3-70b", **asked, batch=near.batch + 1).fits
    shared = serve("llama-3-70b", **asked, batch=near.batch + 4).nearest()
    assert shared is not None
    for layout in shared.layouts:
        assert serve(
            "llama-3-70b", on="h100:4", batch=near.batch + 4, context=30000, prompt=more.get("prompt"), **layout
        ).fits
    for part, name in shared.formats:
        assert serve("llama-3-70b", **asked, batch=near.batch + 4, **{part: name}).fits


@pytest.mark.parametrize(
    ("words", "said"),
    some(
        [
            (
                "llm llama-2-7b --on v5e --context 64",
                "matrix products run on vpu: mxu takes no fp16; --activations bf16",
            ),
            (
                "train llama-2-7b --on v5e:16 --batch-tokens 65536",
                "run on vpu: mxu takes no fp16; --weights bf16 would",
            ),
            ("llm llama-2-7b --on v6e --context 64", "matrix products run on no unit: mxu takes no fp16; "),
            ("llm llama-2-7b --on v5e --context 64 --activations bf16", ""),
            (
                "llm llama-3-8b --on v100 --context 64",
                "run on cuda: tensor takes no bf16; --activations fp16 would run on",
            ),
            (
                "llm bert-base --on t4 --prompt 128",
                "run on cuda: tensor takes no fp32; --activations fp16 would run on it",
            ),
            ("llm llama-2-7b --on v100 --context 64", ""),
            ("llm llama-2-7b --on a100 --context 64", ""),
            ("train llama-2-7b --on v5e:16 --batch-tokens 65536 --weights bf16", ""),
        ],
        2,
    ),
)
def test_products_off_the_matrix_unit_are_said(words: str, said: str, capsys: Capture) -> None:
    assert main(words.split()) == 0
    text = capsys.readouterr().out
    assert said in text
    assert said or "matrix products run on" not in text


def test_decode_follows_what_was_in_the_cache_and_the_prompt(capsys: Capture) -> None:
    found = serve("llama-3-8b", on="h100", prompt=1000, past=500, batch=4)
    after = serve("llama-3-8b", on="h100", context=1500, batch=4)
    assert found.time_per_token == after.time_per_token
    several = serve("llama-3-8b", on="h100", prompt=[1000, 2000], past=500, batch=4)
    assert several.time_per_token is not None
    assert several.time_per_token[0] == after.time_per_token
    words = "llm llama-3-8b --on h100 --prompt 1000 --past 500 --draft 2 --json"
    assert main(words.split()) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["speculation"]["plain"] == answer["time_per_token"]
    words = "llm llama-3-8b --on h100 --prompt 1000 --past 500 --output 8 --prefill-on h100"
    assert main(words.split()) == 2
    assert "prefill on chips of its own is about whole prompts; leave --past out" in capsys.readouterr().err


def test_half_the_layers_are_half_of_each_kind() -> None:
    plain = load("llama-3-8b").layers[0]
    other = load("mixtral-8x7b").layers[0]
    model = replace(load("llama-3-8b"), layers=(plain, other) * 8 + (other,) * 4)
    found = advise_step(model, "decode", on="h200", batch=4, context=1000)
    half = next(each for each in found if each.change == "10 layers in place of 20")
    fresh = replace(model, layers=(plain,) * 4 + (other,) * 6)
    assert half.after.lower == pytest.approx(serve_bound(fresh, "decode", on="h200", batch=4, context=1000).lower)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (f"{ONE} --overlap 2", "overlap 2.0 is not a fraction"),
        (f"{MANY} --overlap -1", "overlap -1.0 is not a fraction"),
        ("llm bert-base --on h100 --context 100", "bert-base is an encoder, which does not decode; give a prompt"),
    ],
)
def test_what_cannot_be_is_an_error(words: str, message: str, capsys: Capture) -> None:
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err


def test_an_estimate_is_shown() -> None:
    found = serve("llama-3-8b", on="a100", context=10, overlap=0.5, overhead="5us")
    assert found.decode
    assert found.decode.estimate is not None
    text = drawn(found, 120)
    assert f"{found.decode.estimate * 1e3:.3g} ms by the stated overlap and overhead, an estimate" in text


def test_models_side_by_side_say_each_prompt_where_they_differ() -> None:
    models = [summary(load(name), batch=8, prompt=n) for name, n in (("gpt-3", 1024), ("bert-base-uncased", 512))]
    text = drawn(summary_sections(models), 100)
    assert "prefill of 8 x prompt tokens" in text
    gpt, bert = (next(line.split() for line in text.splitlines() if line.startswith(name)) for name in ("gpt", "bert"))
    assert (gpt[2], bert[2]) == ("1,024", "512")
    assert models[1].kv_per_token == 0  # an encoder keeps no keys and values
    assert "prefill of 8 x 512 tokens" in drawn(summary_sections(models[1:]), 100)


@pytest.mark.parametrize("context", [64, 127, 128, 4096])
def test_a_window_keeps_the_own_token_and_reads_those_before_it(context: int) -> None:
    """gpt-oss-20b: 12 layers of all tokens and 12 of the last 128, keys and values of 8 heads of 64 in bf16."""
    found, token = serve("gpt-oss-20b", on="h100", context=context), 2 * 8 * 64 * 2
    assert found.memory.parts["kv"] == 12 * token * (context + 1 + min(128, context + 1))
    read = 12 * token * (context + min(127, context))
    assert found.moved is not None
    assert found.moved["kv"] == read + 24 * token  # and each layer writes the own token's
