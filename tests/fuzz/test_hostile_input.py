"""A short run of hostile input; ``make fuzz`` runs it for long. A defect is found where there is one."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from tests.fuzz import calls, lines, running
from tests.fuzz.inputs import GIVEN, KINDS, Input, make
from tests.fuzz.running import alone, run_input
from tests.models.tiny import TINY
from tests.strategies import LONG, some


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.symlink(Path(__file__).parents[2] / "docs", "docs")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bomb"])
def test_no_input_of_a_kind_is_a_defect(kind: str, tmp_path: Path) -> None:
    if kind == "graph":
        pytest.importorskip("onnx")
    pytest.importorskip("uvicorn")
    with alone():
        for seed in range(4):
            words, files = KINDS[kind][1](random.Random(seed))
            made = Input(kind, [word.replace("\x00", "\x01") for word in words], files)
            defect = run_input(seed, made, str(tmp_path))
            assert defect is None, defect


@pytest.mark.filterwarnings("ignore")
def test_no_hostile_argument_of_a_function_is_a_defect() -> None:
    for name in calls.QUESTIONS:
        if "calibrate" not in name and name != "measurement.run_function":
            assert [found for found in calls.some(name, calls.QUESTIONS[name], 4 if LONG else 1) if found[2]] == [], (
                name
            )


#: Answers whose methods are asked in a short run: together they are of most classes.
ASKED = (
    "bound", "bound of arrays", "bound in formulas", "sweep of machines", "table", "serving in formulas",
    "training of arrays", "formula", "compiled", "plan", "collective", "comparison", "chart", "points", "work",
    "memory of a bound", "layout of chips", "estimator",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", some(ASKED, 4))
def test_no_hostile_argument_of_a_method_is_a_defect(name: str) -> None:
    for again in calls.AGAIN:
        for method, question in calls.methods(name, again).items():
            if not again or random.Random(method).random() < 0.1:
                assert [found for found in calls.some(method, question, 1) if found[2]] == [], method


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", some(["bound", "chips", "llm", "sweep", "train"], 3, 2))
def test_a_question_in_threads_has_the_answer_that_it_has_alone(name: str) -> None:
    assert calls.at_once(calls.QUESTIONS[name], 8 if LONG else 4) == ""


def test_an_answer_that_threads_change_is_found() -> None:
    said = iter(range(99))
    assert "in threads another answer" in calls.at_once(calls.Question(lambda: next(said)))


def test_a_value_stands_inside_what_is_right() -> None:
    assert calls.made("-1 inside [*right, it]", (8,)) == [8, -1]
    assert calls.made("-1 inside {**right, its: it}", {"B": 8}) == {"B": -1}
    assert calls.made("[] inside {it: right}", 8) == {"h100": {"hbm": []}}


def test_every_function_of_the_package_is_asked() -> None:
    import roofline

    functions = {name for name in roofline.__all__ if name.islower()} - {"measure", "trace"}
    assert functions <= {name.partition(" ")[0] for name in calls.QUESTIONS}


def test_every_command_and_every_option_is_drawn() -> None:
    drawn = {line[0] for line in (*lines.SHORT, *lines.LONG_LINES)}
    assert drawn == set(lines.command_names())
    rng = random.Random(0)
    for name in drawn:
        wanted = {word for each in lines.options_of(name) for word in each.opts if word.startswith("--")}
        wanted -= {word for each in lines.options_of(name) for word in each.opts if word != max(each.opts, key=len)}
        found: set[str] = set()
        for _ in range(400):
            found |= set(lines.with_options(rng, [name], 50)[1:])
            if wanted <= found:
                break
        assert wanted <= found, (name, wanted - found)


def test_files_that_lines_name_are_made() -> None:
    named = {word for line in (*lines.SHORT, *lines.LONG_LINES) for word in line if word.startswith("given")}
    assert {name.partition(":")[0] for name in (*named, *lines.READ.values())} <= set(GIVEN)


def test_a_request_is_answered_or_refused(tmp_path: Path) -> None:
    asked = {"words": ["bf16[64, 64] * bf16[64, 64]"], "options": {"on": "h100"}}
    right = Input("request", ["POST", "/token/api/bound", "host=127.0.0.1:1"], {"body": json.dumps(asked).encode()})
    assert running._request(right) == 0
    assert running._request(Input("request", [*right.words[:2], "host=elsewhere"], right.files)) == 2


def test_a_file_left_half_written_is_a_defect(tmp_path: Path) -> None:
    (tmp_path / "o.1.part.json").write_text("{")
    assert "half written" in running._cleared(str(tmp_path), Input("command", ["bound"]))
    (tmp_path / "o.json").write_text('{"lower": -1}')
    assert "lower is negative" in running._cleared(str(tmp_path), Input("command", ["bound"]))
    assert os.listdir(tmp_path) == ["docs"]


def test_a_seed_gives_the_same_input_each_time() -> None:
    assert make(12_345) == make(12_345)


@pytest.mark.parametrize(
    ("code", "out", "err", "said"),
    [
        (1, "", "", "code 1"),
        (2, "", "", "without a message"),
        (2, "", "x" * 7000, "over 6,000 characters"),
        (0, '{"lower": 2, "upper": 1}', "", "not in order"),
        (0, '{"lower": -1}', "", "lower is negative"),
        (0, '{"a": NaN}', "", "a is not finite"),
        (0, '{"lower": -0.0}', "", "lower is -0"),
        (0, "takes nan s", "", "nan is printed"),
        (2, "", "error: <class 'int'> is no chip", "<class  is printed"),
        (0, "{", "", "no JSON"),
        (2, "", "Traceback (most recent call last)", "a traceback is printed"),
        (0, '{"lower": 1, "upper": 2}', "", ""),
    ],
)
def test_what_is_wrong_is_said(code: int, out: str, err: str, said: str) -> None:
    found = running._wrong(code, out, err, ["bound", "--json"])
    assert said in found
    assert bool(said) == bool(found)


def test_indices_of_no_kind_are_no_traceback(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    values = [onnx.helper.make_tensor_value_info(name, kind, [8, 8]) for name, kind in (("x", 1), ("i", 0), ("y", 1))]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Gather", ["x", "i"], ["y"])], "g", values[:2], values[2:])
    (tmp_path / "g.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    made = Input("graph", ["trace", "g.onnx", "--on", "v5e", "--json"], {"g.onnx": (tmp_path / "g.onnx").read_bytes()})
    assert run_input(0, made, str(tmp_path)) is None


@pytest.mark.parametrize("made", some([
    Input("option", ["calibrate", "runs.csv", "--on", "h100"], {"runs.csv": b"m,n,k,dtype,us,library\n" + b"".join(
        b"%d,4096,4096,bf16,%d,%s\n" % (64 * row, 20 + row, b"inf" if row == 5 else b"vllm") for row in range(1, 9)
    )}),
    Input("configuration", ["train", "c.json", "--on", "h100:8", "--batch-tokens", "65536", "--json"], {
        "c.json": json.dumps({**TINY["laguna"], "num_attention_heads_per_layer": [4, 2, float("nan")]}).encode()
    }),
], 2), ids=some(["a library called inf", "no number of heads"], 2))  # fmt: skip
def test_words_and_lists_that_hold_no_number_are_no_defect(made: Input, tmp_path: Path) -> None:
    assert run_input(0, made, str(tmp_path)) is None


def test_a_length_of_thousands_of_digits_is_too_long(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    words = ["POST", "/token/file?name=x", "host=127.0.0.1:1", f"content-length={'9' * 5000}"]
    assert run_input(0, Input("request", words, {"body": b"{}"}), str(tmp_path)) is None
