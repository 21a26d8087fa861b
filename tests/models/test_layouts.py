"""Which layout is named for what fits: against every layout there is, and in one answer always the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from roofline import llm, train
from roofline.cli import main
from roofline.errors import RooflineError
from roofline.hardware import chip
from roofline.hardware.mesh import with_chips
from roofline.hardware.rate import ridge
from roofline.models import load, serve_bound
from roofline.models.description import Model
from roofline.models.parallelism.block_splitting import divides
from roofline.models.parallelism.layout import Parallelism
from roofline.models.parallelism.splitting import local_model
from roofline.models.serving.fit import fewest
from roofline.models.serving.layouts import decode_footprint, memory_capacity
from tests.models.test_commands import Capture, as_json, run
from tests.models.tiny import TINY
from tests.strategies import some

CASES: list[tuple[str, str, int, int, dict[str, Any]]] = [
    ("llama-3-70b", "h100", 32, 8000, {}),
    ("mixtral-8x7b", "a100", 32, 32000, {}),
    ("deepseek-v3", "h200", 32, 32000, {"weights": "fp8"}),
    ("gpt-oss-120b", "l4", 8, 60000, {}),
    ("qwen3-235b-a22b", "h100", 16, 32000, {}),
    ("llama-3-8b", "l4", 64, 4000, {"kv": "fp8"}),
]


def _laid_out(model: Model, on: str, chips: int) -> Iterator[Model]:
    """One chip's part of a model in every layout over so many chips without stages, of equal parts."""
    machine = with_chips(chip(on), chips)
    ways = [n for n in range(1, chips + 1) if chips % n == 0]
    for tensor, context, kv, expert in product(ways, repeat=4) if machine is not None else ():
        if divides(model, tensor, expert):
            try:
                laid = Parallelism.on(machine, tensor=tensor, context=context, kv=kv, expert=expert)
                yield local_model(model, machine, laid)[0]
            except RooflineError:
                continue


@pytest.mark.parametrize(("name", "on", "batch", "context", "formats"), some(CASES, 3, 1))
def test_no_layout_holds_it_on_fewer_chips_or_holds_more(
    name: str, on: str, batch: int, context: int, formats: dict[str, Any]
) -> None:
    model, capacity = load(name), memory_capacity(chip(on))

    def holds(local: Model, past: int) -> bool:
        return float(decode_footprint(local, batch, past + 1, formats).total) <= capacity

    found = fewest(name, on=on, batch=batch, context=context + 1, **formats)
    assert found.split is not None
    assert found.longest is not None
    assert found.longest.context is not None
    for chips in range(found.chips, found.split):
        assert not any(holds(local, context) for local in _laid_out(model, on, chips))
    every = list(_laid_out(model, on, found.split))
    assert any(holds(local, context) for local in every)
    assert not any(holds(local, int(found.longest.context * 1.02) + 2) for local in every)
    asked = {"batch": batch, **found.longest.layout, **formats}
    steps = [llm(name, on=found.longest.target, context=found.longest.context + more, **asked) for more in (0, 1)]
    assert [step.fits for step in steps] == [True, False]


@pytest.mark.long
@pytest.mark.parametrize("on", some(["h200", "h200:8"], 2))
def test_one_answer_names_one_layout(on: str, capsys: Capture) -> None:
    """The nearest fit, the fewest chips, the longest context and the step that is shown have the same layout."""
    words = ("llm", "deepseek-v3", "--on", on, "--batch", "32", "--context", "32k", "--weights", "fp8")
    layout = {"tensor": 8, "kv_parallel": 8}
    near = as_json(capsys, *words)["memory"]["nearest"]
    assert near["split_as"] == layout
    assert near["layouts"] == ([layout] if ":" in on else [])
    found = as_json(capsys, *words, "--fit")
    assert (found["fewest"]["split"], found["fewest"]["layout"]) == (8, layout)
    assert found["fewest"]["longest"]["layout"] == layout
    assert found["memory"]["fits"] is True
    assert found["parallelism"] == {"chips": 8, **layout}
    text = " ".join(run(capsys, *words, "--fit").split())
    assert "DOES NOT FIT" not in text
    assert "fits on h200:8 with --tensor 8 --kv-parallel 8 (batch 32, context 32,000)" in text
    assert text.count("longest context") == 1
    split = " ".join(run(capsys, *words).split())
    assert split.count("(--tensor 8 --kv-parallel 8)") == 2  # the headline, and beside the memory
    assert "2 such chips" not in split


def test_a_layout_that_was_given_stays() -> None:
    found = llm("deepseek-v3", on="h200", batch=32, context=32000, weights="fp8", expert=8, fit=True)
    fit = found.further["fewest"]
    assert found.ways.sizes() == {"data": 8, "expert": 8}
    assert (fit.split, fit.layout, fit.longest.layout) == (8, {"expert": 8}, {"expert": 8})
    short = llm("deepseek-v3", on="h200:8", batch=32, context=32000, weights="fp8", tensor=8, fit=True)
    assert short.fits is False
    near = short.nearest()
    assert near is not None
    assert near.layouts == (short.further["fewest"].layout,)
    assert short.further["fewest"].longest.layout == {"tensor": 8}


def test_the_fewest_chips_hold_the_prompt_too() -> None:
    found = llm("llama-3-8b", on="l4", batch=64, prompt=8000, fit=True, price=0.5)
    assert found.fits is True
    assert found.chips == found.further["fewest"].split
    assert found.cost["output"].dollars > 0


def test_one_chip_beside_several_says_that_it_is_one() -> None:
    """Rows of chips and layouts have no gaps; beside other single chips there are none."""
    facts = llm("llama-3-8b", on=("a100:2", "mi300x"), context=512).facts
    assert [fact.value for fact in facts["chips"]] == [2, 1]
    assert [fact.value for fact in facts["laid out"]] == ["data 2", "one chip"]
    assert not {"chips", "laid out"} & {*llm("llama-3-8b", on=("a100", "mi300x"), context=512).facts}


def test_several_machines_on_the_fewest_chips_each(capsys: Capture) -> None:
    """Which chip is cheapest, on how many: a column a machine, laid out as it fits there."""
    on, prices = ("h100", "mi300x", "b200"), (2.5, 2.2, 5)
    found = llm("llama-3-70b", on=on, batch=32, context=8000, price=list(prices), fit=True)
    assert [fact.value for fact in found.facts["chips"]] == [4, 2, 2]
    assert [fact.value for fact in found.facts["laid out"]] == ["tensor 4", "tensor 2", "tensor 2"]
    both = found.facts["$ a million output tokens"], found.partial["$ a million output tokens"]
    costs = [(whole if part is None else part).value for whole, part in zip(*both, strict=True)]
    for name, price, chips, cost, longest in zip(
        on, prices, (4, 2, 2), costs, found.facts["longest context"], strict=True
    ):
        alone = llm("llama-3-70b", on=f"{name}:{chips}", tensor=chips, batch=32, context=8000, price=price)
        assert alone.cost["output"].dollars == cost
        assert longest.value == fewest("llama-3-70b", on=f"{name}:{chips}", batch=32).longest.context
    words = ("llm", "llama-3-70b", "--on", ",".join(on), "--batch", "32", "--context", "8k", "--fit")
    text = " ".join(run(capsys, *words, "--price", ",".join(map(str, prices))).split())
    part, timed = sorted(costs)[:2]  # no hop of mi300x's links has a latency
    hop = r"mi300x is the cheapest unless a hop there takes over [\d.]+ µs .then by direct, in [0-9]+ hops."
    said = re.search(f"{hop}: (.*?) of b200", text)
    assert said
    assert said[1] == f"≥ ${part:.4g} against ${timed:.4g} a million output tokens"
    assert found.to_pandas()["chips"].tolist() == [4, 2, 2]
    assert "h100 assumes" in text
    assert "h100:3 holds it in unequal parts: --tensor 3 (padded) or --pipeline 3 (stages of layers)" in text
    with pytest.raises(RooflineError, match="answers of this kind do not compare; give context="):
        llm("llama-3-70b", on=on, fit=True)


@pytest.mark.parametrize(
    ("model", "on", "batch", "unequal"),
    some(
        [
            ("llama-3-70b", "h100", 32, ({"tensor": 3}, {"pipeline": 3})),
            ("deepseek-v3", "h200", 32, ()),
            ("llama-3-70b", "h100", 1, ()),
        ],
        2,
    ),
)
def test_fewer_chips_that_hold_it_in_unequal_parts_are_named(
    model: str, on: str, batch: int, unequal: tuple[dict[str, int], ...]
) -> None:
    """What the search leaves out is said to fit only where a step in that layout fits."""
    found = fewest(model, on=on, batch=batch, context=8000)
    assert found.unequal == unequal
    assert bool(found.fewer) is (found.split != found.have)
    assert ("no equal parts" in found.least) is (bool(found.fewer) and not unequal)
    assert found.slice is not None
    for name in ("tensor", "pipeline") if found.fewer else ():
        sizes = {"batch": batch, "context": 7999, name: found.have}
        assert llm(model, on=found.slice.target, **sizes).fits is ({name: found.have} in unequal)


def test_a_price_of_what_does_not_fit_is_said_to_be_none(capsys: Capture) -> None:
    words = ("llm", "llama-3-70b", "--on", "h100:4,h200:2", "--tensor", "2", "--batch", "32", "--context", "8k")
    text = run(capsys, *words, "--price", "2.5,3.5")
    row = next(line for line in text.splitlines() if "$ a million output" in line)
    assert "none: does not fit" in row
    assert "1.411" in row


def test_each_of_several_machines_may_have_a_layout_of_its_own(capsys: Capture) -> None:
    layout: dict[str, Any] = {"on": ["h100:8", "h200:4"], "tensor": [8, 4]}
    found = llm("llama-3-70b", batch=64, context=8192, **layout)
    alone = [
        llm("llama-3-70b", on=on, tensor=ways, batch=64, context=8192) for on, ways in (("h100:8", 8), ("h200:4", 4))
    ]
    assert [each.decode.lower for each in found.answers] == [each.decode.lower for each in alone]
    words = ("llm", "llama-3-70b", "--on", "h100:8,h200:4", "--batch", "64", "--context", "8192", "--tensor")
    assert as_json(capsys, *words, "8,4")["facts"] == found.to_dict()["facts"]
    steps = train("llama-3-8b", batch_tokens=2**20, on=layout["on"], fsdp=[8, 4])
    words = ("train", "llama-3-8b", "--on", "h100:8,h200:4", "--batch-tokens", str(2**20), "--fsdp")
    assert as_json(capsys, *words, "8,4")["facts"] == steps.to_dict()["facts"]


TWO = "--on h100:8,h200:4"
SAYS_HOW = "or one for each machine, as in --tensor 8,4"
LAYOUTS_REFUSED = {
    f"llm llama-3-70b --context 8k {TWO} --tensor 8": f"4: 1, 2, 4; {SAYS_HOW}, or --fit, which lays it out on each",
    f"llm llama-3-70b --context 8k {TWO} --tensor 8 --fit": f"a divisor of 4: 1, 2, 4; {SAYS_HOW}",
    f"llm llama-3-70b --context 8k {TWO} --tensor 8,4,2": "one for all, or one for each in their order; sweep takes "
    "each with each",
    f"train llama-3-8b --batch-tokens 1M {TWO} --fsdp 8": "or one for each machine, as in --fsdp 8,4",
    "train llama-3-8b --batch-tokens 1M --on h100:8 --data 8,4": "--data has several values, one a machine, and one "
    "is asked; ask for one layout at a time, for the fastest by --search, or for a table by `roofline sweep`",
}


@pytest.mark.parametrize("words", ["llm 13B --pipeline 2", "llm llama-3-8b --expert 4"])
def test_what_no_number_of_chips_splits_is_not_told_to_try_others(words: str, capsys: Capture) -> None:
    assert main(f"{words} {TWO} --batch 8".split()) == 2
    assert "or one for each machine" not in capsys.readouterr().err


@pytest.mark.parametrize(("words", "said"), LAYOUTS_REFUSED.items())
def test_a_layout_that_a_machine_lacks_says_how_each_has_its_own(words: str, said: str, capsys: Capture) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err.endswith(f"{said}\n")


@pytest.mark.long
def test_copies_that_wait_are_said(capsys: Capture) -> None:
    words = ("llm", "gpt-oss-120b", "--context", "8k", "--on")
    split = as_json(capsys, *words, "h200:8", "--tensor", "8")["time_per_token"]
    said = "1 of 8 copies of the model works at batch 1, the others wait: --tensor 8 splits the model over them"
    text = " ".join(run(capsys, *words, "h200:8").split())
    assert f"{said}, {split * 1e6:.3g} µs a token at best" in text
    assert "on each copy" in text
    assert f"h200:8: {said}" in " ".join(run(capsys, *words, "h200:8,h100:8").split())
    assert "wait" not in run(capsys, *words, "h200:8", "--batch", "8")


def test_a_table_of_contexts_says_where_each_flips() -> None:
    """As a question of one context does."""
    asked: dict[str, Any] = {"on": "h100:8", "tensor": 8, "kv": "int4"}
    first, other = (
        llm("llama-2-70b", batch=1, context=context, **asked).compute_bound_from()["whole"] for context in (256, 1000)
    )
    table = llm("llama-2-70b", batch=[1, 1, 8, 8], context=[256, 1000] * 2, front=True, **asked).front
    said = f"compute-bound from batch {first:,} after 256 tokens and from batch {other:,} after 1,000 tokens; the"
    assert first < other
    assert said in " ".join(str(table).split())
    alike = llm("8B", on="h100", batch=[1, 1, 8, 8], context=[256, 1000] * 2, front=True).front
    assert "compute-bound from batch 296; the" in " ".join(str(alike).split())


def test_a_table_of_batches_says_where_it_flips(capsys: Capture) -> None:
    words = ("llm", "llama-3-8b", "--on", "l40s", "--context", "4k", "--weights", "fp8", "--batch")
    flips = (
        "compute-bound at no batch: keys and values grow with it, 4 FLOP/B in attention against a ridge of 424 FLOP/B"
    )
    flips += "; the matrices alone from batch 230"
    assert flips in " ".join(run(capsys, *words, "64").split())
    table = run(capsys, *words, "1:1024:*2")
    assert flips in " ".join(table.split())
    assert "best" not in table.split("bound by")[1].split("compute-bound")[0]  # a mark on every row marks none


def test_keys_and_values_of_a_context(capsys: Capture) -> None:
    """Half of the layers of gpt-oss-120b keep 128 tokens: 36 layers, 2 x 8 heads of 64, 2 bytes."""
    names = ("deepseek-v3", "qwen3-32b", "gpt-oss-120b")
    found = as_json(capsys, "model", *names, "--context", "128k", "--prompt", "1k")["models"]
    layer = 2 * 8 * 64 * 2
    by_hand = [61 * (512 + 64) * 2 * 128_000, 64 * 2 * 8 * 128 * 2 * 128_000, 18 * layer * (128_000 + 128)]
    assert [each["kv_bytes_of_context"] for each in found] == pytest.approx(by_hand, rel=1e-3)
    assert [each["kv_bytes_per_late_token"] for each in found][1:] == [64 * 2 * 8 * 128 * 2, 18 * layer]
    text = " ".join(run(capsys, "model", *names).split())
    assert "gpt-oss-120b: a token adds 36.9 kB of keys and values once windows are full" in text
    assert "qwen3-32b: a token adds" not in text
    assert "4.72 GB" in run(capsys, "model", "gpt-oss-120b", "--context", "128k")


def test_the_ridge_of_attention_is_that_of_its_own_format(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-V3's products are fp8 and its attention bf16."""
    assert main(["llm", "deepseek-v3", "--on", "h200:8", "--tensor", "8", "--batch", "8"]) == 0
    bf16 = ridge(chip("h200"), "bf16")
    said = f"30.2 FLOP/B in attention against a ridge of {bf16:.0f} FLOP/B"
    assert said in " ".join(capsys.readouterr().out.split())


def test_a_row_says_the_bytes_over_the_link_that_it_waits_for_and_what_keeps_matrices_from_computing() -> None:
    asked = {"on": "h200:32", "expert": 32, "context": 4096}
    found = llm("deepseek-v3", batch=1024, **asked)
    (dispatch,) = [part for part in found.decode.ops if part.op.name == "dispatch.all_to_all"]
    assert dispatch.bound_by == "nic"
    assert dispatch.sent / dispatch.lower == pytest.approx(found.decode.machine.links[-1].bandwidth.value)
    said = " ".join(str(found).split())
    assert "the matrices alone at no batch: nic takes longer than they do; memory" in said
    far = llm("deepseek-v3", batch=2**30, **asked).decode
    times: Counter[str] = Counter()
    for part in far.ops:
        times.update(part.times if part.op.kind != "attention" else {})
    assert times.most_common(1)[0][0] == "nic"


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_layers_that_are_not_run_share_no_sequences(phase: str) -> None:
    """Llama 3.2's layers that attend to pictures are in memory, and have no keys that chips could pass."""
    model = load(TINY["mllama_text_model"])
    sizes: dict[str, Any] = {"batch": 2, "prompt": 16} if phase == "prefill" else {"batch": 2, "context": 16}
    one, two = (serve_bound(model, phase, on=f"h200:{n}", context_parallel=n, **sizes) for n in (1, 2))
    assert two.wire
    assert two.footprint.parts["weights"] == one.footprint.parts["weights"]  # type: ignore[union-attr]
