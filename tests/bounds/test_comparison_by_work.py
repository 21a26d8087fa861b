"""Several models or amounts of bytes on several machines: a row an answer, ranked among those about its work."""

import pytest

from roofline import llm
from roofline.bounds.comparison import SideBySideByWork
from roofline.cli import main
from roofline.models import load as load_model
from roofline.quantity import format_number
from roofline.rendering.terminal import as_text
from roofline.sections import Table

MODELS, CHIPS = ["llama-3-8b", "llama-3-70b"], ["h100:8", "h200:8", "b200:8"]


def _found() -> SideBySideByWork:
    found = llm(MODELS, on=CHIPS, tensor=8, context=8192)
    assert isinstance(found, SideBySideByWork)
    return found


def test_a_model_is_ranked_as_if_it_were_asked_alone() -> None:
    found = _found()
    by_name: dict[str, float | None] = {}
    for model in MODELS:
        alone = llm(model, on=CHIPS, tensor=8, context=8192)
        by_name |= dict(zip((f"{who} {model}" for who in alone.names), alone.times_the_best, strict=True))
        assert found.parts[model].names == alone.names
        for name in ("a token at best", "tokens/s a chip", "memory there"):
            best = [who.partition(" ")[0] for who in found.best(name) if who.endswith(f" {model}")]
            assert tuple(best) == alone.best(name)
    assert dict(zip(found.names, found.times_the_best, strict=True)) == by_name
    assert found.fastest is None
    assert found.to_dict()["fastest"] is None


@pytest.mark.parametrize(
    ("names", "works"), [(("my model", "your model"),) * 2, (("mine", "mine"), ("mine (1)", "mine (2)"))]
)
def test_models_are_told_apart_whatever_their_names(names: tuple[str, str], works: tuple[str, str]) -> None:
    models = [load_model(model, name=name) for model, name in zip(MODELS, names, strict=True)]
    found = llm(models, on=CHIPS[:2], tensor=8, context=8192)
    assert isinstance(found, SideBySideByWork)
    assert {work: [each.model.name for each in part.answers] for work, part in found.parts.items()} == {
        work: [name] * 2 for work, name in zip(works, names, strict=True)
    }
    assert [part.answers[0].decode.lower for part in found.parts.values()] == [
        llm(model, on=CHIPS[0], tensor=8, context=8192).decode.lower for model in MODELS
    ]


def test_the_headline_names_the_best_of_each_model_and_by_how_much() -> None:
    found = _found()
    said = " ".join(as_text(found.sections(), 80).split())
    assert "llama-3-8b and llama-3-70b: b200:8 has the lowest floor: all are memory-bound" in said  # said once
    for part in found.parts.values():
        first, second = sorted(float(each.decode.lower) for each in part.answers)[:2]
        assert f"h200:8 comes next and takes {format_number(second / first, 3)}x as long" in said
    assert "* best of its model" in said


def test_one_line_says_once_who_leads_and_counts_many_answers() -> None:
    found = llm([*MODELS, "llama-2-13b"], on=CHIPS, batch=8, context=4096)
    said = found.one_line()
    assert said.startswith("SideBySide: all 3 models: b200:8 has the lowest floor of 9 answers; DOES NOT FIT on ")
    assert len(said) < 160
    shown = [line for line in as_text(found.sections(), 120).splitlines() if line.strip()]
    alerts = [line for line in shown if "DOES NOT FIT on" in line]
    assert len(alerts) == sum(not fits for fits in found.fitting)
    assert shown[1 : 2 + len(alerts)] == [*alerts, "  ask about one alone, and its answer says what would fit instead"]


def test_the_rate_of_a_format_stands_with_the_machine_where_models_have_others() -> None:
    found = llm(["llama-3-8b", "llama-2-13b"], on=["h100", "a100"], context=1024)  # bf16, and fp16
    by_work, machines = (part for part in found.fact_tables() if isinstance(part, Table))
    assert not any("matrix" in column.name for column in by_work.columns)
    rates = {column.name: str(cell) for column, cell in zip(machines.columns, machines.rows[1].cells, strict=True)}
    assert {rates["matrix bf16"], rates["matrix fp16"]} == {"312 TFLOP/s"}


@pytest.mark.parametrize("width", [80, 120])
def test_an_answer_has_a_line_of_its_own(width: int) -> None:
    lines = as_text(_found().sections(), width).splitlines()
    rows = [line.split() for line in lines if line.startswith("  llama-3-")]
    starts = [row[:2] for row in rows if row[0] in MODELS and row[1] in CHIPS]
    assert starts == [[model, chip] for model in MODELS for chip in CHIPS]
    assert max(map(len, lines)) <= width
    machines = [line.split()[0] for line in lines if line.startswith(("  h100:8  ", "  h200:8  ", "  b200:8  "))]
    assert sorted({*machines}) == sorted(CHIPS)  # rates of a machine stand once, whatever the model


def test_what_does_not_fit_has_its_row_and_is_not_the_best() -> None:
    found = llm(MODELS, on="l40s,h200", context=8192)
    assert found.best("a token at best") == ("h200 llama-3-8b", "h200 llama-3-70b")  # of llama-3-70b none fits
    assert "llama-3-70b: h200 has the lowest floor, if it fitted" in " ".join(str(found).split())
    rows = [line.split() for line in str(found).splitlines() if line.split()[1:2] and line.split()[0] in MODELS]
    assert [row[-1] for row in rows if row[1] in ("l40s", "h200")] == ["yes", "yes", "no", "no"]


def test_a_data_frame_has_the_work_and_the_machine_in_columns_of_their_own() -> None:
    frame = _found().to_pandas()
    assert frame[["on", "model"]].drop_duplicates().shape == (6, 2)
    assert sorted(set(frame["on"])) == sorted(CHIPS)
    assert sorted(set(frame["model"])) == sorted(MODELS)


def test_models_on_one_machine_are_columns() -> None:
    found = llm(MODELS, on="h200:8", tensor=8, context=8192)
    assert not isinstance(found, SideBySideByWork)
    assert found.fastest == "h200:8 llama-3-8b"


def test_formats_are_ranked_within_a_model() -> None:
    found = llm(MODELS, on="h200:8", tensor=8, context=8192, kv="bf16,fp8", batch=[1, 8])
    assert [line for line in str(found).splitlines() if "lowest floor" in line] == [
        "  llama-3-8b: h200:8 kv fp8 has the lowest floor", "  llama-3-70b: h200:8 kv fp8 has the lowest floor",
    ]  # fmt: skip


def test_bytes_are_ranked_among_as_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["comm", "all-gather,all-reduce 1GB,2GB", "--on", "h100:8"]) == 0
    shown = capsys.readouterr().out
    assert "1GB and 2GB: h100:8 all-gather has the lowest floor; h100:8 all-reduce comes next" in shown


def test_a_machine_without_a_price_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--on", "h100:8,mi300x:8", "--tensor", "8", "--context", "8k", "--price", "table"]
    assert main(["llm", ",".join(MODELS), *words]) == 0
    assert "no price of mi300x:8 is listed: --price table,mi300x=… gives yours" in capsys.readouterr().out


def test_a_picture_of_many_answers_has_the_shortest() -> None:
    chips = ["a100", "a100-40gb", "h100", "h200", "b200", "mi300x", "mi325x", "mi355x", "l40s"]
    found = llm(MODELS, on=chips, context=99)
    chart = found.plot()
    drawn = {mark.row for mark in chart.marks}
    assert len(drawn) == 16
    assert "16 of 18 answers are drawn" in chart.notes


def test_several_sizes_have_the_tables_of_each_model_below_each_other() -> None:
    found = llm(MODELS, on=CHIPS, tensor=8, context=8192, batch=[1, 8])
    for model, part in found.by_work().items():
        alone = llm(model, on=CHIPS, tensor=8, context=8192, batch=[1, 8])
        assert [str(each) for each in part.tables_by_size()] == [str(each) for each in alone.tables_by_size()]
    assert [line for line in as_text(found.sections(), 80).splitlines() if line.strip() in MODELS] == [
        f"  {model}" for model in MODELS
    ]
