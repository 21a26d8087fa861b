"""``-o FILE`` beside ``--json``, and what each command writes."""

from __future__ import annotations

import csv
import json
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest

import roofline
from roofline import scaling, sweep, train
from roofline.charts.drawing import THEMES
from roofline.cli import main
from roofline.cli.explore import catalog
from roofline.errors import InputError
from roofline.models import load
from roofline.web.report import page_of
from tests.strategies import short_fits, some

Capture = pytest.CaptureFixture[str]
BOUND = ["bound", "bf16[64, 8192] @ bf16[8192, 8192]", "--on", "h100"]
LLM = ["llm", "llama-3-8b", "--on", "h100"]
PLAN = ["plan", "llama-3-8b", "--on", "h100", "--count", "1", "--rate", "1/s", "--prompt", "512", "--output", "64"]


@pytest.mark.parametrize("words", some([BOUND, LLM, PLAN], 2))
def test_the_answer_and_its_table_are_files_of_every_answer(words: list[str], tmp_path: Path) -> None:
    for name in ("x.json", "x.txt", "x.csv"):
        assert main([*words, "-o", str(tmp_path / name)]) == 0
    assert json.loads((tmp_path / "x.json").read_text())["schema"].startswith(f"roofline/{words[0]}/")
    assert "h100" in (tmp_path / "x.txt").read_text().lower()
    assert len(list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))) >= 1


def test_an_explanation_is_a_file_of_text(tmp_path: Path, capsys: Capture) -> None:
    assert main([*BOUND, "--explain"]) == 0
    explained = capsys.readouterr().out
    assert main([*BOUND, "--explain", "-o", str(tmp_path / "x.txt")]) == 0
    assert (tmp_path / "x.txt").read_text() == explained


def test_every_file_is_checked_before_the_first_is_written(tmp_path: Path, capsys: Capture) -> None:
    words = ["formula", "bf16[B, 8] * bf16[8, 8]", "--on", "v5e", "--js"]
    assert main([*words, "-o", str(tmp_path / "a.js"), "-o", str(tmp_path / "a.py")]) == 2
    said = capsys.readouterr()
    assert "a.py is named as a formula by --python, and another language is asked for" in said.err
    assert (said.out, list(tmp_path.iterdir())) == ("", [])
    assert main([*LLM, "--explain", "-o", str(tmp_path / "a.txt"), "-o", str(tmp_path / "a.svg")]) == 2
    said = capsys.readouterr()
    assert "--explain and a picture are two answers" in said.err
    assert (said.out, list(tmp_path.iterdir())) == ("", [])
    line = ["bound", "--flops", "1e12", "--on", "h100", "-o", str(tmp_path / "a.html"), "-o", str(tmp_path / "a.svg")]
    assert main(line) == 2
    said = capsys.readouterr()
    assert "there is no picture of a bound without both FLOPs and bytes in numbers" in said.err
    assert (said.out, list(tmp_path.iterdir())) == ("", [])


def test_files_whose_names_end_alike_are_told_apart(tmp_path: Path, capsys: Capture) -> None:
    assert main([*BOUND, "-o", str(tmp_path / "a.html"), "-o", str(tmp_path / "data.html")]) == 0
    for name in ("a.html", "data.html"):
        assert f'"command":{json.dumps(BOUND, separators=(",", ":"))}' in (tmp_path / name).read_text()
    assert main([*BOUND, "-o", "a.html", "-o", "data.html", "-o", "./a.html"]) == 2
    assert "-o names one file twice" in capsys.readouterr().err


def test_each_file_of_a_table_is_checked_before_the_first_is_written(tmp_path: Path, capsys: Capture) -> None:
    line = ["sweep", "bf16[B, 64] * bf16[64, 64]", "--on", "h100", "B=1:4", "-o", str(tmp_path / "g.csv"), "-o"]
    assert main([*line, str(tmp_path / "g.md")]) == 2
    assert "g.md'; endings are: .csv" in capsys.readouterr().err
    run = ["sweep", "llama-3-8b", "--on", "h100", "--batch", "1:4", "--context", "4k", "--keep", "top=2", "-o"]
    assert main(["plot", "--on", "v5e", "-o", str(tmp_path / "p.svg"), "-o", str(tmp_path / "p.csv")]) == 2
    assert "p.csv'; end the name in .html, .json, .txt, .svg, .png or .pdf" in capsys.readouterr().err
    assert main([*run, f"{tmp_path}/run/", "-o", str(tmp_path / "s.svg")]) == 2
    assert "s.svg; name a folder: -o grid/" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_title_that_ends_like_a_picture_is_none(capsys: Capture) -> None:
    assert main(["plot", "--on", "v5e", "--title", "a.svg", "--dark"]) == 2
    assert "--dark is of a picture; end -o in" in capsys.readouterr().err


def test_a_table_is_of_one_answer(tmp_path: Path, capsys: Capture) -> None:
    words = ["scaling", "dp", "fsdp", "--on", "v5p", "-o"]
    assert main([*words, str(tmp_path / "x.csv")]) == 2
    assert "x.csv' holds one table, and these are several answers; ask for one, or end" in capsys.readouterr().err
    assert main([*words, str(tmp_path / "x.txt")]) == 0
    assert (tmp_path / "x.txt").read_text().count("scales while") == 2


@pytest.mark.parametrize(("words", "hint"), [
    (["chips", "-o", "x.svg"], "up to 12 have: name them, or list fewer"),
    (["formula", "bf16[B, 8] * bf16[8, 8]", "--on", "v5e", "-o", "x.svg"], "of a size: roofline sweep draws it"),
    (["train", "7e9", "--on", "h100", "--memory", "-o", "x.csv"], "has no table; end the name in .html, .json or .txt"),
])  # fmt: skip
def test_what_else_the_file_could_be_is_said_in_words_of_the_command_line(
    words: list[str], hint: str, capsys: Capture
) -> None:
    assert main(words) == 2
    assert hint in capsys.readouterr().err


def test_two_files_are_written_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, picture = tmp_path / "x.csv", tmp_path / "x.svg"
    assert main([*LLM, "--batch", "1:8:*2", "-o", str(table), "--output-file", str(picture)]) == 0
    assert len(list(csv.DictReader(table.read_text().splitlines()))) == 4
    assert picture.read_text().startswith("<?xml")
    assert capsys.readouterr().out.count("llama-3-8b") == 1  # what opens the answer is said once beside both
    page = tmp_path / "x.html"
    assert main([*LLM, f"-o{table}", f"--output-file={picture}", "-o", str(page), "--dark", "--width", "600"]) == 0
    assert f'"command":{json.dumps(LLM, separators=(",", ":"))}' in page.read_text()
    assert main([*LLM, "--estimate", "sglang", "-o", str(page)]) == 0  # flags last: a library is no flag
    asked = json.dumps([*LLM, "--library", "sglang", "--estimate"], separators=(",", ":"))
    assert f'"command":{asked}' in page.read_text()
    grid = ["sweep", "bf16[B, 64] * bf16[64, 64]", "--on", "h100", "B=1:4"]
    data = tmp_path / "x.json"
    with patch("roofline.bounds.sweep.sweep", wraps=sweep) as swept:
        assert main([*grid, "-o", str(page), "-o", str(table), "-o", str(picture), "-o", str(data)]) == 0
    swept.assert_called_once()
    assert [path.read_text()[:5] for path in (page, table, picture, data)] == ["<!doc", "expre", "<?xml", '{"sch']
    capsys.readouterr()
    for words, said in (
        ([*LLM, "-o", "x.csv", "--output-file=x.csv"], "-o names one file twice"),
        (["measure", "-o", "a.toml", "-o", "b.toml"], "-o is given 2 times; give it once"),
    ):
        assert main(words) == 2
        assert said in capsys.readouterr().err
    assert main([*LLM, "-o", str(tmp_path / "a.json"), "-o", str(tmp_path / "b.json"), "--json"]) == 2
    said = capsys.readouterr()
    assert (said.out, (tmp_path / "a.json").exists()) == ("", False)
    assert "--json prints one answer, and each file is one; name one file" in said.err


def test_json_is_not_written_into_a_page_or_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("x.html", "x.csv"):
        assert main([*BOUND, "--json", "-o", str(tmp_path / name)]) == 2
        assert f"{name} are two answers; -o FILE.json writes what --json prints" in capsys.readouterr().err
        assert not (tmp_path / name).exists()
    assert main([*BOUND, "--json", "-o", str(tmp_path / "x.json")]) == 0
    vary = ["plot", "bf16[B, D] * bf16[D, F]", "--on", "h100", "--vary", "B=1:16", "D=512", "F=512", "--json"]
    for words in (vary, ["trace", "any.onnx", "--on", "h100", "--json"]):
        assert main([*words, "-o", str(tmp_path / "y.txt")]) == 2
        assert "y.txt are two answers; -o FILE.json writes what --json prints" in capsys.readouterr().err
    assert main([*vary, "-o", str(tmp_path / "y.json")]) == 0
    assert json.loads((tmp_path / "y.json").read_text())["schema"] == "roofline/chart/1"


def test_the_name_of_a_file_stands_not_behind_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--json", "-o", str(tmp_path / "x.svg")]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["schema"] == "roofline/plan/1"
    assert said.err.endswith(f"wrote {tmp_path}/x.svg\n")


def test_beside_a_picture_stands_what_was_worked_out(tmp_path: Path, capsys: Capture) -> None:
    assert main([*LLM, "--context", "8k", "--price", "2", "-o", str(tmp_path / "x.svg")]) == 0
    said = capsys.readouterr().out
    assert "$" in said.rpartition("\n\nwrote ")[0]
    assert "\n\n\n" not in said
    assert main([*LLM, "--context", "8k", "--view", "memory", "--width", "800"]) == 2
    assert "--width is of a picture; end -o in .svg, .png or .pdf, or leave it out" in capsys.readouterr().err


@pytest.mark.parametrize("kind", some(["html", "csv", "svg"], 3, 1))
def test_beside_a_file_stands_that_nothing_meets_the_limits(kind: str, tmp_path: Path, capsys: Capture) -> None:
    assert main([*PLAN, "--tpot", "1ms", "-o", str(tmp_path / f"x.{kind}")]) == 3
    assert "NOTHING MEETS THE LIMITS" in capsys.readouterr().out.rpartition("\nwrote ")[0]


@pytest.mark.parametrize("words", [BOUND, LLM])
@pytest.mark.parametrize("kind", some(["html", "txt", "csv", "svg"], 2))
def test_beside_a_file_stands_the_answer(kind: str, words: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert main([*words, "-o", str(tmp_path / f"x.{kind}")]) == 0
    said = capsys.readouterr().out
    assert "at best" in said.partition("\n\n")[2].partition("\n")[0]
    assert f"\n\nwrote {tmp_path}/x.{kind}" in said
    assert said.count("\n") < 9


def test_a_table_of_numbers_says_their_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid, steps = tmp_path / "grid.csv", tmp_path / "steps.csv"
    assert main(["sweep", "llama-3-8b", "--on", "h100", "--batch", "1,2", "--context", "64", "-o", str(grid)]) == 0
    wrote = f"wrote 2 rows to {grid}: lower, upper in s; memory in B\n2 of 2 rows fit the memory\n"
    assert capsys.readouterr().out == wrote
    words = ["sweep", "llama-3-8b", "--on", "h100,a100", "--batch", "1,512", "--context", "8k", "--price", "3,2"]
    assert main([*words, "-o", str(grid)]) == 0
    _, *brief = capsys.readouterr().out.splitlines()
    assert brief[0] == "2 of 4 rows fit the memory"
    assert brief[1].startswith("cheapest  $")
    assert brief[2] == "fastest  h100 at batch 1; none fits at batch 512"
    assert main([*LLM, "--batch", "1,2", "--context", "64", "-o", str(steps)]) == 0
    rates = "tokens_per_second, tokens_per_second_per_user in token/s"
    said = capsys.readouterr().out
    head = "llama-3-8b (Meta-Llama-3.1-8B)  on NVIDIA H100 SXM5 80GB"
    ends = ("fastest: batch 1, 4.48 ms a token, 223.2", "most tokens a second: batch 2, 4.48 ms a token, 446.2")
    lines = "".join(f"  {end} tokens/s\n" for end in ends)
    assert said.startswith(f"{head}\n\n{lines}  compute-bound from batch 356; ")
    assert "\n  all of them fit\n" in said
    assert said.endswith(f"\n\nwrote {steps}: time_per_token in s; {rates}; memory in B\n")
    frame = sweep("llama-3-8b", on="h100", batch=[1, 2], context=64).to_pandas()
    assert frame.attrs["units"] == {"lower": "s", "upper": "s", "memory": "B"}


@pytest.mark.long
def test_accuracy_and_calibration_say_which_file_they_wrote(tmp_path: Path, capsys: Capture) -> None:
    runs, table, own = "docs/examples/t4_runs.csv", tmp_path / "rows.csv", tmp_path / "mine.toml"
    assert main(["accuracy", "t4", "-o", str(table)]) == 0
    assert capsys.readouterr().out.endswith(f"\nwrote {table}\n")
    with short_fits():
        assert main(["calibrate", runs, "--on", "t4", "-o", str(own), "--json"]) == 0
    said = capsys.readouterr()
    assert (said.err, said.out[0]) == (f"wrote {own}\n", "{")


def test_a_sweep_says_what_it_is_of_and_its_csv_what_is_the_same_in_all_rows(tmp_path: Path, capsys: Capture) -> None:
    words = ["sweep", "llama-3-8b", "--on", "h200:2", "--batch", "1,512", "--context", "8000", "--kv", "fp8"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == "llama-3-8b (Meta-Llama-3.1-8B) decode  on 2 x NVIDIA H200 SXM, kv fp8"
    assert "assumes  2 copies, each with its part of the batch" in shown
    assert main([*words, "-o", str(tmp_path / "x.csv")]) == 0
    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    same = {"model": "llama-3-8b", "phase": "decode", "on": "h200:2", "tensor": "1", "weights": "bf16", "kv": "fp8"}
    assert all(row.items() >= same.items() for row in rows)
    assert float(rows[0]["lower [s]"]) == sweep("llama-3-8b", on="h200:2", batch=1, context=8000, kv="fp8")["lower"][0]
    line = ["sweep", "bf16[B, D] * bf16[D, F]", "--on", "h100", "B=1,64", "D=64", "F=64", "-o", str(tmp_path / "y.csv")]
    assert main(line) == 0
    first = next(iter(csv.DictReader((tmp_path / "y.csv").read_text().splitlines())))
    assert (first["on"], first["expression"]) == ("h100", "bf16[B, 64] * bf16[64, 64] -> bf16[B, 64]")
    assert {"attainable [FLOP/s]", "intensity [FLOP/B]"} <= set(first)


def test_copies_of_some_rows_of_a_sweep_are_said() -> None:
    said = {line: name for name, line in sweep("llama-3-70b", on="h200:8", tensor=[4, 8], batch=8).remarks()}
    assert said["of some rows: 2 copies of tensor 4, each with its part of the batch"] == "assumes"


def test_a_picture_says_how_much_is_drawn_and_why_not_all(tmp_path: Path, capsys: Capture) -> None:
    picture = str(tmp_path / "x.svg")
    assert main(["sweep", "llama-3-8b", "--on", "h100", "--batch", "1:512", "--context", "8000", "-o", picture]) == 0
    assert capsys.readouterr().out == f"wrote {picture}: 65 of 512 steps are drawn: 447 do not fit the memory\n"
    assert main([*LLM, "--batch", "1,512", "--context", "8000", "-o", picture]) == 0
    assert f"\nwrote {picture}: 1 of 2 does not fit and is left out" in capsys.readouterr().out


#: Commands that draw by ``-o`` and had no words of their own about how.
DRAWN = [
    ["bound", "bf16[64, 8192] @ bf16[8192, 8192]", "--on", "h100,h200"],
    ["sweep", "bf16[B, D] * bf16[D, F]", "--on", "h100", "B=1:64:*2", "D=256:2048:*2", "F=D"],
    ["train", "llama-3-8b", "--on", "h100:8", "--batch-tokens", "1M", "--microbatches", "4,16"],
    ["chips", "h100"],
    [
        "plan",
        "llama-3-8b",
        "--on",
        "h100",
        "--count",
        "1",
        "--rate",
        "4/s",
        "--prompt",
        "1024",
        "--output",
        "128",
        "--formats",
        "bf16",
    ],
]


@pytest.mark.parametrize("words", some(DRAWN, 4))
def test_any_picture_may_be_dark_and_of_a_width(words: list[str], tmp_path: Path) -> None:
    dark, light, page = (tmp_path / name for name in ("dark.svg", "light.svg", "page.html"))
    assert main([*words, "--dark", "--width", "600", "-o", str(dark), "-o", str(page)]) == 0
    assert main([*words, "-o", str(light)]) == 0
    found = dark.read_text()
    assert THEMES["dark"].background in found
    assert THEMES["dark"].background not in light.read_text()
    assert 'width="600"' in found
    assert 'width="720"' in light.read_text()


def test_how_a_picture_looks_goes_with_a_picture(tmp_path: Path, capsys: Capture) -> None:
    for more in ([], ["-o", str(tmp_path / "x.csv")]):
        assert main([*BOUND, "--dark", *more]) == 2
        said = "error: --dark is of a picture; end -o in .svg, .png or .pdf, or leave it out\n"
        assert capsys.readouterr().err == said


def test_a_page_is_not_offered_how_a_file_looks() -> None:
    offered = catalog()["commands"]
    names = {name: {each["name"] for each in offered[name]["options"]} for name in ("bound", "train", "sweep")}
    assert all(not {"dark", "width", "title", "report_file"} & each for each in names.values())


@pytest.mark.parametrize("words", some([BOUND, PLAN], 2))
def test_a_picture_or_a_page_of_every_command_has_a_title_of_its_readers(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, page, data = (tmp_path / name for name in ("x.svg", "x.html", "x.json"))
    files = [word for each in (picture, page, data) for word in ("-o", str(each))]
    assert main([*words, "--title", "Ours & theirs", *files]) == 0
    assert picture.read_text().count("Ours &amp; theirs") == 2  # drawn, and the title of the file
    assert "<title>Ours &amp; theirs · roofline</title>" in page.read_text()
    assert "theirs" not in data.read_text()
    assert main([*words, "--title", "Ours", "-o", str(data)]) == 2
    assert "--title is of a picture or a page; end -o in .svg, .png, .pdf or .html" in capsys.readouterr().err


def test_an_answer_is_saved_under_a_title(tmp_path: Path) -> None:
    found = sweep("bf16[B, 8] * bf16[8, 8]", on="h100", B=[1, 2])
    for answer in (found, roofline.bound("bf16[8, 8] * bf16[8, 8]", on="h100")):
        for name in ("x.svg", "x.html"):
            answer.save(tmp_path / name, title="Ours")
            assert "Ours" in (tmp_path / name).read_text()
        with pytest.raises(InputError, match=r"^a title is that of a picture"):
            answer.save(tmp_path / "x.csv", title="Ours")


def test_steps_of_training_are_drawn_by_what_they_differ_in(tmp_path: Path) -> None:
    memory = train("llama-3-8b", on="h100:8", batch_tokens=2**20, microbatches=[4, 16])
    chart = memory.plot()
    assert (chart.y.names, chart.lines[0].label) == (("4 microbatches", "16 microbatches"), "hbm")
    total = [max(bar.x1 for bar in chart.bars if bar.row == row) for row in (0, 1)]
    assert total == pytest.approx(memory.memory.total.tolist())
    assert len(page_of([(memory, None, None)])["charts"]) == 1
    times = train("llama-3-8b", on="h100:8", batch_tokens=[2**20, 2**22], microbatches=[4, 64]).plot()
    assert [(bar.part, int(bar.x1)) for bar in times.bars] == [
        ("does not fit", 6),
        ("fits", 25),
    ]
    assert times.subtitle == "8 x NVIDIA H100 SXM5 80GB · 4,096 a sequence"
    assert [name.rpartition(": ")[2].endswith("B a chip") for name in times.y.names] == [True, True]
    times.save(tmp_path / "x.svg")
    drawn = (tmp_path / "x.svg").read_text()
    assert all(f">{text}</text>" in drawn for text in ("fits", "does not fit"))
    assert train("llama-3-8b", on="h200:8", batch_tokens=2**18, microbatches=[1, 2]).plot().y.names[0] == "1 microbatch"


def test_what_has_no_picture_says_which_files_it_may_be(tmp_path: Path, capsys: Capture) -> None:
    words = ["scaling", "fsdp", "--on", "v5e:8,v5p:8", "-o", str(tmp_path / "x.svg")]
    assert main(words) == 2
    said = "error: there is no picture of these answers side by side; end the name in .html, .csv, .json or .txt\n"
    assert capsys.readouterr().err == said
    assert main(["scaling", "fsdp", "--on", "v5e:8", "-o", str(tmp_path / "x.svg")]) == 2
    said = "error: there is no picture of a condition of scaling; end the name in .html, .csv, .json or .txt\n"
    assert capsys.readouterr().err == said
    assert main(["scaling", "fsdp", "--on", "v5e:8", "-o", str(tmp_path / "x.csv")]) == 0
    assert (tmp_path / "x.csv").read_text().startswith("on,")
    with pytest.raises(InputError, match=r"no picture of a condition of scaling; its table\(\) and to_dict"):
        scaling("fsdp", on="v5e:8").plot()


def test_models_are_drawn_by_their_parts(tmp_path: Path) -> None:
    assert main(["model", "llama-3-8b", "qwen3-32b", "-o", str(tmp_path / "x.svg")]) == 0
    picture = (tmp_path / "x.svg").read_text()
    assert "billions of parameters" in picture
    assert "qwen3-32b" in picture
    assert load("llama-3-8b").plot().title == "Parameters of llama-3-8b"


def test_a_file_of_no_known_kind_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def works(*_: object, **__: object) -> None:
        raise AssertionError("work was done")

    monkeypatch.setattr("roofline.plans.training.search_training", works)
    words = ["train", "llama-3-8b", "--on", "h100:8", "--batch-tokens", "64k", "--search"]
    for name in ("x.md", "x.js", "x.toml"):
        assert main([*words, "-o", name]) == 2
        assert f"an answer cannot be saved as '{name}'; end the name in .html, .json, .txt" in capsys.readouterr().err


def test_a_table_of_no_known_kind_is_refused_before_any_row(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def works(*_: object, **__: object) -> None:
        raise AssertionError("work was done")

    monkeypatch.setattr("roofline.bounds.sweep.sweep", works)
    words = ["sweep", "bf16[B, D] * bf16[D, F]", "--on", "h100", "B=1:4000", "D=1:2000", "F=64"]
    for name, said in (
        ("x.md", "cannot write a table to 'x.md'; endings are: .csv"),
        ("none/x.svg", "there is no fol"),
    ):
        assert main([*words, "-o", name]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "room"), [(LLM, "models.serving.llm"), (PLAN, "plans.answer"), (["plot", "--on", "h100"], "charts.plot")]
)
def test_a_picture_in_no_folder_is_refused_before_any_work(
    words: list[str], room: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def works(*_: object, **__: object) -> None:
        raise AssertionError("work was done")

    monkeypatch.setattr(import_module(f"roofline.{room}"), words[0], works)
    assert main([*words, "-o", "none/x.svg"]) == 2
    assert "there is no folder 'none'" in capsys.readouterr().err
