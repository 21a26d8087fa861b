"""What an answer or an error tells a reader to type works: options added to the question, and whole lines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from roofline.cli import main
from tests.strategies import some

#: A value of an option as it stands in a sentence; the words that follow a bare option are none.
_VALUE = r"(?: (?!ranks\b|gives\b|plans\b|keeps\b|splits\b|for\b|and\b|or\b|is\b)[\w.,=:%+-]*[\w%])?"

#: Options that are told one after the other are one suggestion.
_OPTIONS = re.compile(rf"(?<![\w-])--[a-z][a-z-]*{_VALUE}(?: --[a-z][a-z-]*{_VALUE})*")
_LINES = re.compile("`(roofline [^`…]+)`")

#: Questions whose answers and errors tell the reader what to add.
ASKED = [
    "plan llama-3-8b --on l40s,h100 --count 1 --rate 4/s --prompt 1000 --output 300 --price table",
    "plan llama-3-8b --on l40s,h100 --count 1,2 --rate 20/s --prompt 1000 --output 300 --ttft 400ms",
    "llm llama-3-8b --on l40s,h100 --context 8k --price table",
    "llm llama-3-8b --on l40s --context 8k --price table",
    "llm llama-3-70b --on h100:8 --batch 8 --context 8k",
    "llm llama-3-8b",
    "llm llama-3-8b --on h100:2 --context 8k",
    'bound "fp32[64, 8192] * fp32[8192, 8192]" --on h100',
    "bound 64x8192x8192 --on h100",
    "advise llama-3-8b --on h100",
    "chips nvida",
]


def _run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(words)
    said = capsys.readouterr()
    return code, " ".join((said.out + said.err).split())


@pytest.mark.parametrize("line", some(ASKED, 6))
def test_what_is_told_to_type_works(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)  # where what is told to write does so
    words = shlex.split(line)
    code, said = _run(words, capsys)
    said = said.replace("=…", "=1")  # a place that the reader fills
    for whole in dict.fromkeys(_LINES.findall(said)):
        assert _run(shlex.split(whole)[1:], capsys)[0] in (0, 3), whole
    if code == 2:
        return
    for told in dict.fromkeys(_OPTIONS.findall(said)):
        name, kept = told.split()[0], list(words)
        if name in kept:
            del kept[kept.index(name) : kept.index(name) + 2]
        found, why = _run([*kept, *shlex.split(told)], capsys)
        assert found in (0, 3), f"{told}: {why}"


def test_the_patterns_find_what_is_told() -> None:
    said = "split over the 8 (--tensor 8 --kv-parallel 8); --price table,l40s=1 ranks by dollars, --estimate vllm plans"
    assert _OPTIONS.findall(said) == ["--tensor 8 --kv-parallel 8", "--price table,l40s=1", "--estimate vllm"]
    assert _LINES.findall("ask `roofline chips` or `roofline llm …`") == ["roofline chips"]
