"""Values of the package as Python's own tools meet them: copied, pickled, shown, asked for by name."""

from __future__ import annotations

import copy
import io
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from rich.console import Console

import roofline
from roofline import models
from roofline.answers import Part, plain_table
from roofline.cli import main
from roofline.errors import MissingExtraError, NotationError, RooflineError, SizeError
from roofline.frozen import Frozen
from roofline.models import fewest, load, serve, train
from roofline.sizes import symbol
from tests.strategies import short_fits

LINE = "bf16[B, D] * int8[D, F] -> bf16[B, F]"
SHARDED = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
SIZES = {"B": 64, "D": 4096, "F": 4096}

VALUES: dict[str, Callable[[], Any]] = {
    "chip": lambda: roofline.chip("h100"),
    "program": lambda: roofline.program(LINE),
    "bound": lambda: roofline.bound(LINE, on="v5e", **SIZES),
    "bound in formulas": lambda: roofline.bound(LINE, on="v5e"),
    "bound of arrays": lambda: roofline.bound(LINE, on="v5e", **{**SIZES, "B": [1, 2, 3]}),
    "bound with plans": lambda: roofline.bound(SHARDED, on="v5e:8", **SIZES),
    "formula": lambda: roofline.formula(LINE, on="v5e"),
    "solution": lambda: roofline.solve(LINE, "B", on="v5e"),
    "advice": lambda: roofline.advise(LINE, on="v5e", **SIZES),
    "sweep": lambda: roofline.sweep(LINE, on="v5e", **{**SIZES, "B": [1, 2, 3]}),
    "plans": lambda: roofline.shard(SHARDED, on="v5e:8", **SIZES),
    "collective": lambda: roofline.comm("AllReduce_X(bf16[1024])", on="v5e:8"),
    "condition": lambda: roofline.scaling("dp", on="v5p"),
    "chart": lambda: roofline.plot(LINE, on="v5e", **SIZES),
    "model": lambda: load("llama-2-7b"),
    "serving": lambda: serve("llama-2-7b", on="h100", context=128),
    "fewest chips": lambda: fewest("llama-2-70b", on="h100", batch=1, context=128),
    "training": lambda: train("llama-2-7b", on="h100:8", batch_tokens=1e6, fsdp=8),
}


PROGRAM = "h = bf16[B, D] * bf16[D, F]; gelu(h)"

#: Answers with a terminal form beside those above: arrays, formulas, and further answers about serving.
MORE: dict[str, Callable[[], Any]] = {
    "bound of several operations and arrays": lambda: roofline.bound(PROGRAM, on="h100", **{**SIZES, "B": [1, 2000]}),
    "formats": lambda: roofline.solve_dtypes(LINE, on="v5e", **SIZES),
    "zones": lambda: roofline.zones("h100"),
    "serving of arrays": lambda: serve("llama-2-7b", on="h100", batch=[1, 2], context=128),
    "serving in formulas": lambda: serve("llama-2-7b", on="h100", batch=symbol("B"), context=128),
    "table": lambda: models.serve_table("llama-2-7b", "decode", on="h100", batch=[1, 2], context=128),
    "front": lambda: models.latency_throughput("llama-2-7b", on="h100", batch=[1, 2], context=128),
    "generation": lambda: models.generation("llama-2-7b", on="h100", prompt=128, output=9),
    "chunks": lambda: models.chunked("llama-2-7b", on="h100", prompt=128, chunk=64),
    "draft": lambda: models.speculate("llama-2-7b", on="h100", context=128, draft=4, by=0.1, acceptance=0.7),
    "disaggregation": lambda: models.disaggregate(
        "llama-2-7b", prompt=128, output=9, prefill={"on": "h100"}, decode={"on": "h200"}
    ),
    "training of arrays": lambda: train("llama-2-7b", on="h100:8", batch_tokens=[2**20, 2**21], fsdp=8),
    "training in formulas": lambda: train("llama-2-7b", on="h100:8", batch_tokens=4096 * symbol("B"), fsdp=8),
}
NOT_SHOWN = ("chip", "program", "model", "chart")
# no test changes a value, so all share it
VALUES, MORE = ({name: cache(make) for name, make in each.items()} for each in (VALUES, MORE))
ANSWERS = {name: make for name, make in (VALUES | MORE).items() if name not in NOT_SHOWN}


def seen(value: Any) -> Any:
    """What a value says of itself."""
    return value.to_dict() if hasattr(value, "to_dict") else repr(value)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_value_is_the_same_when_copied_or_sent_to_another_process(name: str, again: Callable[[Any], Any]) -> None:
    value = VALUES[name]()
    assert seen(again(value)) == seen(value)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_closed_forms_over_stages_are_copied_and_sent_as_they_are(again: Callable[[Any], Any]) -> None:
    """Not compared part by part anew, which took minutes of a step with experts."""
    value = serve("llama-2-7b", on="h100:2", pipeline=2, batch=symbol("B"), prompt=128, context=128)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sympy.Max._new_args_filter", None)  # what it would begin with
        same = again(value)
    assert seen(same) == seen(value)
    assert (same.prefill.forms, same.prefill.definitions) == (value.prefill.forms, value.prefill.definitions)


def test_a_question_goes_on_in_another_process() -> None:
    found = pickle.loads(pickle.dumps(roofline.bound(LINE, on="v5e")))
    assert found.question.with_sizes(**SIZES).answer().lower == roofline.bound(LINE, on="v5e", **SIZES).lower


@pytest.mark.parametrize(
    "error", [MissingExtraError("torch", "torch"), NotationError("expected ']'", text="bf16[B", position=6)]
)
def test_an_error_comes_back_from_another_process(error: RooflineError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    "change",
    [
        lambda mapping: mapping.update(a=2),
        lambda mapping: mapping.pop("a"),
        lambda mapping: mapping.setdefault("b", 1),
        lambda mapping: mapping.clear(),
        lambda mapping: mapping.__delitem__("a"),
        lambda mapping: mapping.__ior__({"b": 1}),
    ],
)
def test_a_frozen_mapping_is_not_changed(change: Callable[[Any], Any]) -> None:
    mapping = Frozen({"a": 1})
    with pytest.raises(TypeError, match="make a new one"):
        change(mapping)
    assert mapping == {"a": 1}
    assert hash(mapping) == hash(Frozen(a=1))


def test_rooms_are_reached_by_their_names_alone() -> None:
    code = "import roofline; print(roofline.models.load('llama-2-7b').layers and roofline.errors.SizeError.__name__)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "SizeError\n"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("speculate", "models.speculate"),
        ("serve", "models.serve"),
        ("largest_batch", "models.largest_batch"),
        ("machine", "chip"),
        ("swep", "sweep"),
    ],
)
def test_what_stands_elsewhere_or_under_another_name_is_pointed_to(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}; did you mean roofline.{meant}?")):
        getattr(roofline, name)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_has_a_line_a_table_a_page_and_plain_data(name: str) -> None:
    answer = ANSWERS[name]()
    written = repr(answer)
    assert len(written.splitlines()) == 1
    assert written.startswith(("<", "(<"))
    screen = io.StringIO()
    Console(file=screen, width=300).print(answer)
    # an array of figures is a range
    assert "[[" not in screen.getvalue()
    assert screen.getvalue().strip() not in ("", written)
    assert answer._repr_html_().startswith("<")
    data = answer.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_what_is_open_is_null_and_a_formula() -> None:
    found = serve("llama-2-7b", on="h100", batch=symbol("B"), context=128).to_dict()
    assert found["batch"] is None
    assert found["formulas"]["batch"] == "B"
    assert "B" in found["formulas"]["time_per_token"]


def test_a_model_and_a_chip_may_be_named_wherever_one_is_asked_for() -> None:
    model, chip = load("llama-2-7b"), roofline.chip("h100:8")
    assert load(model) is model
    for ask in (models.prefill, models.decode):
        length = {"prompt" if ask is models.prefill else "context": 128}
        assert len(ask("llama-2-7b", **length)) == len(ask(model, **length))
    assert len(models.mixed("llama-2-7b", chunk=8, context=8)) == len(models.mixed(model, chunk=8, context=8))
    assert models.largest_batch("llama-2-7b", 80e9, context=99) == models.largest_batch(model, 80e9, context=99)
    assert models.longest_context("llama-2-7b", 20e9, batch=1) == models.longest_context(model, 20e9, batch=1)
    asked = {"batch": 1, "context": 128}
    assert repr(models.nearest("llama-2-7b", "h100:8", **asked)) == repr(models.nearest(model, chip, **asked))
    limits = [
        models.network_limit(*what, context=128)
        for what in (("llama-2-7b", "decode", "h100:8"), (model, "decode", chip))
    ]
    assert repr(limits[0]) == repr(limits[1])


def test_memory_is_told_in_the_same_words_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "llama-2-7b", "--json"]) == 0
    answers = {
        "model": json.loads(capsys.readouterr().out)["models"][0]["memory"],
        "serve": serve("llama-2-7b", on="h100", context=128).to_dict()["memory"],
        "bound": roofline.bound(LINE, on="v5e", **SIZES).to_dict()["footprint"],
        "generation": MORE["generation"]().to_dict()["memory"],
        "fewest": VALUES["fewest chips"]().to_dict()["needed"],
        "training": VALUES["training"]().to_dict()["memory"],
    }
    for name, memory in answers.items():
        assert {"level", "parts", "total", "capacity", "fits"} <= set(memory), name
        assert sum(memory["parts"].values()) == memory["total"], name


def test_a_table_says_what_it_could_not_time() -> None:
    asked = {"on": "v6e", "batch": [1, 512], "context": 128}
    table = models.serve_table("llama-2-7b", "decode", **asked)
    for line, said in zip(table.incomplete, serve("llama-2-7b", **asked).decode.incomplete, strict=True):
        start, _, end = said.partition(";")
        assert line.startswith(f"{start} (")  # how much of it, as a formula of the sizes
        assert line.endswith(end)
    assert table.to_dict()["incomplete"] == list(table.incomplete) != []


def test_a_size_of_raw_work_stands_as_a_name_of_its_own() -> None:
    with pytest.raises(SizeError, match="size B stands nowhere in the raw work; did you mean 'NB'"):
        roofline.bound(flops="2*NB", bytes="NB", on="h100", NB=1000, B=3)
    with pytest.raises(SizeError, match="size G stands nowhere"):
        roofline.bound(flops="2*N", bytes="3 GB", on="h100", N=3, G=5)
    assert roofline.bound(flops="2*N", bytes="N", on="h100", N="4*n", n=5).flops == 40


def test_sizes_are_whole_numbers_in_json_too() -> None:
    bound = roofline.bound(LINE, on="v5e", **{**SIZES, "B": [1, 64]}).to_dict()["sizes"]
    found = serve("llama-2-7b", on="h100", batch=[1, 64], context=128).to_dict()
    trained = MORE["training of arrays"]().to_dict()
    for sizes in (bound["B"], found["batch"], found["decode"]["sizes"]["batch"], trained["batch_tokens"]):
        assert len(sizes) == 2
        assert {type(size) for size in sizes} == {int}


#: A figure as it is shown: a percentage, a number with a unit or a word for one that is not known.
_SHOWN_FIGURE = re.compile(r"^[<~+-]?[\d.,]+ ?(%|x|[kMGTPµmn]?(s|B|FLOP|B/s|FLOP/s|W|tokens?/s|FLOP/B))$|^not known$")


def further_answers(tmp: Any) -> Iterator[Any]:
    """Answers that are not of one question: measured runs, errors, machines side by side."""
    runs = tmp / "runs.csv"
    runs.write_text("name,flops,bytes,seconds\na,1e12,1e9,2e-3\nb,1e9,1e9,1e-3\n", encoding="utf-8")
    kernels = [{"m": m, "n": 4096, "k": 4096, "dtype": "bf16", "us": 40 + 0.3 * m} for m in range(64, 2048, 160)]
    yield roofline.profile(str(runs), on="h100")
    yield roofline.accuracy("h100", kernel="decode")
    yield roofline.accuracy("h100", data=kernels)
    with short_fits():
        yield roofline.calibrate(kernels, on="h100")
    yield roofline.chips("h100", "a100")
    yield roofline.llm("llama-3-70b", on=["h100:8", "mi300x:8"], tensor=8, batch=8, context=1000)
    yield roofline.train("llama-3-8b", on="h100:8", batch_tokens=1e6, search=True)
    yield roofline.plan("llama-3-8b", on=["h100", "a100"], rate="2/s", prompt=512, output=64, price="table")
    yield roofline.formula(LINE, on="v5e", **SIZES)


def test_figures_in_tables_of_data_are_numbers(tmp_path: Any) -> None:
    """A share is a part of 1, and a figure that is not known is None: no text that a reader has to take apart."""
    for answer in (*(make() for make in ANSWERS.values()), *further_answers(tmp_path)):
        try:
            shown = answer.table()
        except (AttributeError, RooflineError):  # not every answer has a table
            continue
        data = [answer.plain_table(None)]
        if isinstance(shown, Part):
            data += [plain_table(shown.named(name)) for name in {each.name for each in shown.tables()} - {""}]
        for _, rows, _ in data:
            texts = [cell for row in rows for cell in row if isinstance(cell, str) and _SHOWN_FIGURE.match(cell)]
            assert texts == [], (type(answer).__name__, texts[:3])
