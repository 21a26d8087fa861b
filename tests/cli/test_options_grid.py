"""Every option of every command with a right value and hostile ones: an answer, or one clear error.

A sample of them; ten hostile values of each option under ``ROOFLINE_LONG=1``.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

import roofline
from roofline.cli import main
from roofline.quantity import format_number, format_quantity
from tests.fuzz.inputs import GIVEN, Input
from tests.fuzz.lines import LONG_LINES, ODD_WORDS, SHORT, command_names, options_of
from tests.fuzz.running import alone, run_input
from tests.strategies import LONG

#: A short question of each command, to which each option is added.
BASE = {line[0]: line for line in reversed(SHORT + LONG_LINES)}


def lines_of(name: str, hostile: int) -> list[list[str]]:
    """The question of a command with each option and as many hostile values, its choices and no value at all.

    Values are drawn by the option's name: with more values the first stay the same.
    """
    found = []
    for option in options_of(name):
        words = [*BASE[name], max(option.opts, key=len)]
        if option.is_flag:
            found.append(words)
            continue
        values = random.Random(f"{name} {words[-1]}").sample(ODD_WORDS, hostile)
        found += [[*words, value.replace("\x00", "\x01")] for value in (*values, *getattr(option.type, "choices", ()))]
        found.append(words)
    return found


@pytest.mark.parametrize("name", command_names())
def test_every_option_answers_or_says_what_is_wrong(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("uvicorn")
    if name == "trace":
        pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    os.symlink(Path(__file__).parents[2] / "docs", "docs")
    cases = lines_of(name, 10 if LONG else 1)
    given = {file: make(random.Random(0)) for file, make in GIVEN.items()}
    defects = []
    with alone():
        for words in cases if LONG else cases[len(name) % 18 :: 18]:  # a sample, another of each command
            files = {file: given[file] for file in given if any(file in word for word in words)}
            defects.append(run_input(0, Input("option", words, files), str(tmp_path)))
    assert [defect for defect in defects if defect] == []


#: Short questions that need no file, no measurement and no server.
ANSWERED = [line for line in SHORT if line[0] not in ("measure", "run", "explore") and "given" not in " ".join(line)]


@pytest.mark.parametrize("line", ANSWERED, ids=" ".join)
def test_the_questions_that_options_are_added_to_are_answered(line: tuple[str, ...]) -> None:
    assert main([*line]) == 0


def test_what_figures_of_ones_own_change_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """The question behind --set is how much faster it would be: both times, and their ratio."""
    line = ["bound", "int8[40, 4096] @ int8[4096, 11008]", "--on", "a100"]
    assert main([*line, "--set", "hbm=+20%"]) == 0
    said = "at best: 22.4 µs with the catalog's figures, 18.7 µs with yours, 1.20x"
    assert said in " ".join(capsys.readouterr().out.split())
    assert main(["llm", "llama-3-8b", "--on", "h100", "--context", "1000", "--set", "hbm=1.2x"]) == 0
    assert "with yours, 1.20x" in capsys.readouterr().out.splitlines()[2]
    assert main(["llm", "llama-3-70b", "--on", "h100", "--context", "1000", "--set", "hbm=1.2x"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("DOES NOT FIT") < shown.index("with yours, 1.20x") < shown.index("decode (batch")
    assert main(["train", "llama-3-8b", "--on", "h100:64", "--batch-tokens", "4M", "--set", "bf16=-10%"]) == 0
    assert "with yours, 0.90x" in " ".join(capsys.readouterr().out.split())
    assert main([*line, "--set", "hbm=+20%", "--set", "int8=2x"]) == 0
    assert f"{said} each alone: hbm=+20% 1.20x, int8=2x 1.00x" in " ".join(capsys.readouterr().out.split())
    assert main([*line, "--set", "int8=2x", "--set", "l2=1.5x"]) == 0
    assert "each alone" not in capsys.readouterr().out
    assert main(["bound", "--intensity", "50", "--on", "h100", "--set", "hbm=3TB/s", "--set", "bf16=5e14"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "attainable: 168 TFLOP/s with the catalog's figures, 150 TFLOP/s with yours, 0.89x" in shown
    assert "each alone: hbm=3TB/s 0.89x, bf16=5e14 1.00x" in shown
    for words in (line, [*line[:3], "a100,h100", "--set", "hbm=+20%"], [*line, "--set", "hbm=+20%", "--json"]):
        assert main(words) == 0
        assert "with yours" not in capsys.readouterr().out


def test_estimate_takes_the_library_behind_it(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["bound", "bf16[64, 4096] @ bf16[4096, 4096]", "--on", "h100"]
    assert main([*line, "--estimate", "trtllm"]) == 0
    told = capsys.readouterr().out
    assert "constants of h100 trtllm" in " ".join(told.split())
    assert main([*line, "--estimate", "--library", "trtllm"]) == 0
    assert capsys.readouterr().out == told


def test_a_measured_step_of_a_model_says_its_bandwidth_and_likely_causes(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["llm", "qwen3-32b", "--on", "h100:2", "--tensor", "2", "--batch", "16", "--context", "8k", "--measured"]
    assert main([*line, "20ms"]) == 0
    assert "2.44 TB/s, 73% of bandwidth; 32.3 TFLOP/s, 3.3% of peak" in " ".join(capsys.readouterr().out.split())
    assert main([*line, "14ms"]) == 0
    assert "a shorter context, a smaller batch, narrower formats or another chip ran" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize("option", [["--chunk", "512"], ["--draft", "4"]])
def test_beside_an_expectation_what_is_a_bound_is_said(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    line = ["llm", "llama-3-8b", "--on", "h100", "--prompt", "1k", *option]
    said = "these are bounds: what to expect (--estimate) is said of each step alone"
    assert main([*line, "--estimate"]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    assert main(line) == 0
    assert said not in " ".join(capsys.readouterr().out.split())


def test_a_whole_answer_has_its_expected_times_beside_the_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["llm", "llama-3-8b", "--on", "l40s", "--prompt", "1k", "--output", "256"]
    assert main([*line, "--estimate", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    first, step = (found[name]["estimate"] for name in ("prefill", "decode"))
    whole = found["generation"]["expectation"]
    assert whole["total"]["time"] == pytest.approx(first + 255 * step, rel=0.02)
    assert whole["total"]["time"] == pytest.approx(first + 255 * whole["mean_step"]["time"])
    assert whole["total"]["low"] == pytest.approx(
        found["prefill"]["expectation"]["low"] + 255 * whole["mean_step"]["low"]
    )
    assert whole["total"]["low"] < whole["total"]["time"] < whole["total"]["high"]
    assert main([*line, "--estimate"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    total, rate = format_quantity(whole["total"]["time"], "s"), format_number(256 / whole["total"]["time"])
    assert f"prompts of 1,000: expect {total} (" in said
    assert f"extrapolated), {rate} tokens/s; at best " in said
    assert f"expect the first token after {format_quantity(first, 's')} (" in said
    assert "roofline calibrate makes it surer by runs of your own" in said
    assert said.index("memory") < said.index("operations of prefill")
    assert main(line) == 0
    assert "expect" not in capsys.readouterr().out


def test_side_by_side_no_option_is_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["llm", "llama-3-8b", "--on", "h100"]
    assert main([*line, "--on", "h200", "--power", "700"]) == 0
    assert "kWh a million output tokens" in capsys.readouterr().out
    assert main([*line, "--kv", "bf16,fp8", "--measured", "9ms"]) == 2
    assert "--measured is a time of one answer, and these are" in capsys.readouterr().err
    assert main([*line, "--fit", "--view", "time"]) == 2
    assert "a picture is of a step, and --fit alone is of memory; add --context 8k" in capsys.readouterr().err


def test_a_formula_in_another_language_is_written_to_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = ["bf16[B, D] * bf16[D, F]", "--on", "h100,a100"]
    for words, file in (
        (["formula", *line, "--python"], "f.py"),
        (["formula", *line, "--c"], "f.c"),
        (["solve", *line, "--for", "B", "--latex", "D=8192", "F=8192"], "f.tex"),
    ):
        assert main(words) == 0
        printed = capsys.readouterr().out
        assert main([*words, "-o", file]) == 0
        assert Path(file).read_text() == printed
        assert capsys.readouterr().out == f"wrote {file}\n"
    assert main(["formula", *line[:2], "h100", "--js", "-o", "f.html"]) == 2
    assert "a formula in another language is text, and f.html is not" in capsys.readouterr().err
    for words, said in (
        ([], "f.c is named as a formula by --c, and no language is asked for; add --c, or"),
        (["--python"], "f.c is named as a formula by --c, and another language is asked for; end the name in .txt"),
    ):
        assert main(["formula", *line, *words, "-o", "f.c"]) == 2
        assert said in capsys.readouterr().err
    Path("m.py").write_text("import torch\n\ndef build():\n    return torch.nn.Linear(8, 8)\n")
    traced = ["trace", "m.py:build", "--input", "fp32[B, 8]", "B=4", "--on", "h100", "--formula"]
    assert main([*traced, "--c", "-o", "t.c"]) == 0
    assert Path("t.c").read_text().startswith("#include <math.h>")
    assert main([*traced, "-o", "t.js"]) == 2
    assert "t.js is named as a formula by --js" in capsys.readouterr().err
    assert main([*traced, "-o", "t.json"]) == 0
    assert json.loads(Path("t.json").read_text())["schema"].startswith("roofline/formula/")


@pytest.mark.long
def test_a_formula_says_the_memory_and_where_it_does_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["formula", "llama-3-70b", "--batch", "16", "--context", "4096", "--on"]
    assert main([*line, "h100:8", "--tensor", "8"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    step = roofline.llm("llama-3-70b", on="h100:8", tensor=8, batch=16, context=4096)
    assert isinstance(step, roofline.Serving)
    assert f"{format_quantity(step.memory.total, 'B')} a chip" in shown
    assert main(["formula", "bf16[B, D] * bf16[D, F]", "--on", "h100", "B=64", "D=8192", "F=8192"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "memory = 2 · B · D + 2 · B · F + 2 · D · F bytes at B 64" in shown
    assert "136 MB of memory" in shown
    assert main([*line, "h100:n", "n=12", "--tensor", "n"]) == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert "n 12 the formula does not hold" in shown
    assert "from n = 16 on chips hold copies of keys and values, which have 8 heads" in shown
    assert main([*line, "h100:n", "n=12", "--tensor", "n", "--json"]) == 3


def test_a_module_is_bound_by_what_the_whole_is_bound_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.py"
    file.write_text(
        "import torch\n\ndef build():\n    return torch.nn.Sequential(torch.nn.Conv2d(256, 256, 1), torch.nn.ReLU(),"
        " torch.nn.ReLU())\n"
    )
    line = ["trace", f"{file}:build", "--input", "fp32[8, 256, 64, 64]", "--on", "1080ti"]
    assert main([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bound"]["bound_by"] == "dram"
    assert main(line) == 0
    root = next(row for row in capsys.readouterr().out.splitlines() if row.startswith("  Sequential"))
    assert root.split()[-1] == "dram"


def test_a_whole_answer_that_nothing_is_known_of_says_so_first(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["llm", "llama-3-8b", "--on", "v5e", "--prompt", "1k", "--output"]
    assert main([*line, "128", "--estimate"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "tokens/s; what to expect of all steps is not known, as said below first token after" in said
    assert "127 steps of 18.5 ms " in said
    assert main([*line, "1"]) == 0
    assert "answers of 1 token to prompts of 1,000: at best" in " ".join(capsys.readouterr().out.split())


def test_times_and_costs_by_a_stated_overlap_are_no_floors_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["llm", "llama-3-8b", "--batch", "16", "--prompt", "2k", "--output", "500", "--price", "2", "--on"]
    assert main([*line, "h100,h200", "--overlap", "0.5"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "h200 has the lowest estimate of whole answers; h100 comes next" in shown
    assert "a million answers, by the stated overlap and overhead ($0.008" in shown
    for row in ("whole answers, estimated", "their tokens/s, estimated", "$ a million answers, estimated"):
        assert f" {row} " in shown
    assert "whole answers at best" not in shown
    assert main(["bound", "bf16[64, 4096] * bf16[4096, 4096]", "--on", "h100,v5e", "--price=2", "--overlap=0.5"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "a million runs, by the stated overlap and overhead" in shown
    assert "has the lowest floor" in shown


def test_whole_answers_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["llm", "llama-3-8b", "--batch", "16", "--prompt", "1k", "--output", "512", "--estimate", "--on"]
    assert main([*line, "h100,h200,mi300x", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    whole = [answer["generation"] for answer in found["answers"]]
    assert found["facts"]["whole answers at best"] == [each["total"] for each in whole]
    assert found["facts"]["whole answers, expected"][:2] == [each["expectation"]["total"]["time"] for each in whole[:2]]
    assert next(iter(found["facts"])) == "whole answers at best"
    assert main([*line, "h100,h200,mi300x"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "mi300x has the lowest floor whole" not in shown
    assert "has the lowest floor: all are" not in shown  # of prefill and decode together no one resource decides
    assert "not known" in shown
    assert "80% from" not in shown  # the interval stands behind the time, also where one answer has none
