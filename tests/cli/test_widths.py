"""What commands print at any width: nothing is cut, no word is broken, no line ends in blanks."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from roofline.cli import main

ROOT = Path(__file__).parents[2]
WIDTHS = (60, 80, 120)

#: Lines that say what a reader types or names, which nobody may break.
_LONG = re.compile(r"roofline |https?:|\S{50}")


def lines() -> list[str]:
    """The commands of the README and of the demo that write to the terminal, and take no machine to measure.

    A formula in LaTeX has the lines of its own source.
    """
    readme = re.findall(r"`(roofline [^`]+)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    demo = (ROOT / "docs" / "demo.txt").read_text(encoding="utf-8").splitlines()
    shown = [
        line
        for line in (*readme, *demo)
        if not re.search(r" -o |measure|model\.py|completion|COMMAND|explore|--latex", line)
    ]
    return list(dict.fromkeys(shown))


LINES = lines() if "ROOFLINE_LONG" in os.environ else lines()[::3]


@pytest.mark.parametrize("line", LINES)
def test_nothing_is_cut_or_broken(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words: dict[int, list[str]] = {}
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(shlex.split(line)[1:]) in (0, 3)
        shown = capsys.readouterr().out
        rows = shown.splitlines()
        assert not [row for row in rows if row != row.rstrip()], "a line ends in blanks"
        assert not [row for row in rows if row.endswith("…")], "a line is cut"
        assert not [row for row in rows if len(row) > width and not _LONG.search(row)], "a line is too long"
        words[width] = sorted(re.findall(r"\w{3,}", shown))
    names = [word for word in words[120] if "_" in word]  # a module's name may be longer than its column
    for width in WIDTHS[:-1]:
        broken = [word for word in set(words[width]) - set(words[120]) if not any(word in name for name in names)]
        assert not broken, "a word is broken"


def test_errors_are_coloured_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    assert main(["bound", "bf16[4]", "--on", "nothing"]) == 2
    assert "\x1b" not in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    main(["bound", "bf16[4]", "--on", "nothing"])
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize("more", ["--batch 64 --context 8k", "--tensor 8 --batch 64 --context 8k", "--prompt 1k"])
def test_a_row_of_operations_has_all_its_figures_on_one_line_of_80(
    more: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["llm", "llama-3-70b", "--on", "h200:8", *more.split()]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("    operation"))
    rows = [line for line in lines[head:] if re.search(r"\d (?:s|ms|µs|ns) +<?[\d.]+%", line)]
    assert len(rows) >= 10
    assert all(re.search(r"% +(hbm|tensor|cuda|nvlink)$", line) for line in rows if " more " not in line)
    assert any(line.strip() == "layers.0-79." for line in lines)
