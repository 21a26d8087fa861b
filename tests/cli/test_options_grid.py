"""Every option of every command with a right, a wrong and an absurd value: an answer, or one clear error.

A sample of them; all of them under ``ROOFLINE_LONG=1``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from roofline.cli import main, reference

LONG = "ROOFLINE_LONG" in os.environ
LINE = ["bf16[B, D] * bf16[D, F]", "B=8", "D=64", "F=64"]
SERVED = ["llama-3-8b", "--on", "h100:2", "--batch", "2", "--context", "64"]

#: A question of each command that is quick, to which each option is added.
BASE: dict[str, list[str]] = {
    "bound": [*LINE, "--on", "h100"],
    "solve": [*LINE, "--on", "h100", "--for", "hbm"],
    "advise": [*LINE, "--on", "h100"],
    "shard": ["bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "--on", "v5e:4", "B=8", "D=64", "F=64"],
    "scaling": ["dp", "--on", "v5p"],
    "comm": ["allreduce", "--bytes", "1e6", "--on", "h100:8"],
    "layout": ["bf16[B_X, D]", "--on", "v5e:4", "B=8", "D=8"],
    "formula": [*LINE, "--on", "h100"],
    "sweep": [*LINE, "--on", "h100"],
    "plot": [*LINE, "--on", "h100"],
    "model": ["llama-3-8b"],
    "llm": SERVED,
    "train": ["llama-3-8b", "--on", "h100:8", "--batch-tokens", "65536"],
    "accuracy": ["h100"],
    "chips": ["h100"],
}

#: Options that name a file that is written, take long, or end in another command's answer.
SKIPPED = {"-o", "--output-file", "--keep", "--scheduler", "--scheduler-file", "--workers", "--search", "--help-all"}
VALUES = ("1", "-3", "zzz", "1e999") if LONG else ("zzz",)

CASES = [
    (entry.name, next(word for word in option.words if word[:2] == "--"), option.form)
    for entry in reference()
    if entry.name in BASE
    for group in entry.groups.values()
    for option in group
    if not SKIPPED & set(option.words)
]


@pytest.mark.parametrize("name", list(BASE))
def test_every_option_answers_or_says_what_is_wrong(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = [(word, form) for command, word, form in CASES if command == name]
    for word, form in cases if LONG else cases[len(name) % 5 :: 5]:  # a sample, another of each command
        for value in VALUES if form else ("",):
            words = [name, *BASE[name], word, *([value] if value else [])]
            code = main(words)
            shown = capsys.readouterr()
            assert code in (0, 2, 3), words
            assert "Traceback" not in shown.out + shown.err, words
            if code == 2:
                assert shown.out == "", words
                said = [line for line in shown.err.splitlines() if line.lower().startswith("error")]
                assert len(said) == 1, (words, shown.err)
                assert len(said[0]) > 20, words
            else:
                assert shown.out.strip(), words
