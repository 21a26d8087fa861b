"""``roofline trace`` from the command line."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from roofline.cli import main

MODEL = """
from torch import nn

def build():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16 * 16, 10))

def scale(x):
    return x * 2

class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

number = 3
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def run(capsys, *words):
    code = main(["trace", *words])
    return code, capsys.readouterr()


def test_tree_and_bound(capsys, model):
    code, said = run(capsys, f"{model}:build", "--input", "fp32[1, 3, 16, 16]", "--on", "1080ti")
    assert code == 0
    assert "Conv2d" in said.out
    assert "memory-bound" in said.out
    assert "GTX 1080 Ti" in said.out


def test_json_has_stable_keys(capsys, model):
    words = ("--input", "fp32[B, 3, 16, 16]", "B=2", "--json", "--on", "h100", "--policy", "minimal", "--backward")
    code, said = run(capsys, f"{model}:build", *words)
    found = json.loads(said.out)
    assert code == 0
    assert found["schema"] == "roofline/trace/1"
    assert found["bound"]["schema"] == "roofline/bound/1"
    forward = 2 * 2 * (8 * 27 * 256 + 2048 * 10)
    assert found["flops"]["flops"] == forward * 2 + 2 * 2 * 2048 * 10
    assert found["ops"][0]["where"] == "0"


def test_functions_classes_and_the_flat_list(capsys, model, tmp_path):
    assert "mul" in run(capsys, f"{model}:scale", "--input", "bf16[4]", "--flat")[1].out
    assert run(capsys, f"{model}:Net", "--input", "fp32[2, 4]")[0] == 0
    page = tmp_path / "ops.html"
    assert run(capsys, f"{model}:build", "--input", "fp32[1, 3, 16, 16]", "-o", str(page))[0] == 0
    assert "Conv2d" in page.read_text()


@pytest.mark.parametrize(("program", "words", "message"), [
    ("{}:bild", [], "has no 'bild'; did you mean 'build'?"),
    ("{}", [], "does not say which function"),
    ("nowhere.py:build", [], "there is no file 'nowhere.py'"),
    ("{}:build", ["--input", "fp32[1, 4, 16, 16]"], "check the shapes of the inputs"),
    ("{}:build", ["--input", "fp32[1, 3, H, 16]"], "addmm"),
    ("{}:build", ["--input", "fp32[1, 3, 16, 16]", "--on", "1081ti"], "1080ti"),
    ("{}:build", ["--input", "fp32[1, 3, 16, 16]", "--count", "flop"], "did you mean 'flops'"),
    ("{}:build", ["B"], "'B' is not SIZE=VALUE"),
    ("{}:number", [], "cannot be traced"),
])  # fmt: skip
def test_messages(capsys, model, program, words, message):
    code, said = run(capsys, program.format(model), *words)
    assert code == 2
    assert message in said.err
    assert "Traceback" not in said.err


def test_help_shows_examples():
    from roofline.cli.trace import command

    assert "model.py:build" in CliRunner().invoke(command, ["--help"]).output


@pytest.mark.parametrize(("words", "message"), [
    (["--batch", "4"], "error: --batch is for ONNX files; name the size"),
    (["D=4"], "error: no input names the size D; sizes are: B"),
    (["b=4"], "error: no input names the size b; did you mean 'B'?"),
])  # fmt: skip
def test_sizes_that_nothing_takes(capsys, model, words, message):
    code, said = run(capsys, f"{model}:scale", "--input", "fp32[B, 8]", *words)
    assert code == 2
    assert said.err.startswith(message)


def test_a_size_that_stays_open(capsys, model):
    code, said = run(capsys, f"{model}:Net", "--input", "fp32[B, 4]", "--on", "h100")
    assert code == 0
    assert "32*B FLOP" in said.out
    assert "the formulas hold for whole B from 2 on" in said.out
    code, said = run(capsys, f"{model}:Net", "--input", "fp32[B, 4]", "--json")
    assert json.loads(said.out)["flops"]["flops"] == "32*B"
