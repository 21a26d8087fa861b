"""A short run of hostile input; ``make fuzz`` runs it for long. A defect is found where there is one."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.fuzz import running
from tests.fuzz.inputs import KINDS, Input, make
from tests.fuzz.running import run_input


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.symlink(Path(__file__).parents[2] / "docs", "docs")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bomb"])
def test_no_input_of_a_kind_is_a_defect(kind: str, tmp_path: Path) -> None:
    if kind == "graph":
        pytest.importorskip("onnx")
    for seed in range(6):
        words, files = KINDS[kind][1](random.Random(seed))
        made = Input(kind, [word.replace("\x00", "\x01") for word in words], files)
        defect = run_input(seed, made, str(tmp_path))
        assert defect is None, defect


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
        (0, "{", "", "no JSON"),
        (2, "", "Traceback (most recent call last)", "a traceback is printed"),
        (0, '{"lower": 1, "upper": 2}', "", ""),
    ],
)
def test_what_is_wrong_is_said(code: int, out: str, err: str, said: str) -> None:
    found = running._wrong(code, out, err, ["bound", "--json"])
    assert said in found
    assert bool(said) == bool(found)
