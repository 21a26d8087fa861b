"""What commands print at any width: nothing is cut, no word is broken, no line ends in blanks."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from roofline.cli import main
from tests.strategies import some

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
    return list(dict.fromkeys((*shown, "roofline model")))


LINES = lines() if "ROOFLINE_LONG" in os.environ else lines()[::3]


@pytest.mark.parametrize("line", some(LINES, 2))
def test_nothing_is_cut_or_broken(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words: dict[int, list[str]] = {}
    for width in some(WIDTHS, 2):  # both ends
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(shlex.split(line)[1:]) in (0, 3)
        shown = capsys.readouterr().out
        rows = shown.splitlines()
        assert not [row for row in rows if row != row.rstrip()], "a line ends in blanks"
        assert not [row for row in rows if row.endswith("…")], "a line is cut"
        assert not [row for row in rows if len(row) > width and not _LONG.search(row)], "a line is too long"
        words[width] = sorted(re.findall(r"\w{3,}", shown))
    names = [word for word in words[120] if "_" in word]  # a module's name may be longer than its column
    for width in list(words)[:-1]:
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
    assert len(rows) >= 8
    assert all(re.search(r"% +(hbm|tensor|cuda|nvlink)$", line) for line in rows if " more " not in line)
    assert any(line.strip() == "layers.0-79." for line in lines)


#: Answers with tables of many columns, or of several machines.
WIDE = """
llm llama-3.1-70b --on h200:4,b200:4,mi300x:4 --tensor 4 --weights fp8 --batch 32 --context 16k --price 3.5,6,3
llm llama-3.1-70b --on h200:4 --tensor 4 --weights fp8 --batch 32 --context 16k
llm llama-3-8b --on l40s --batch 1,8 --context 2k,8k --prompt 2k
bound "bf16[64, 4096] * bf16[4096, 14336]" --on h100,mi300x,v5p
train llama-3-8b --on h100:64 --batch-tokens 4M --sequence 8192
comm allreduce --bytes 64MB --on v5e:4x4,h100:16
chips h100 a100 mi300x
""".strip().splitlines()


@pytest.mark.parametrize(("line", "width"), some([(line, width) for line in WIDE for width in WIDTHS], 4))
def test_no_cell_stands_below_its_row(
    line: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from roofline.rendering import terminal

    parts: list[int] = []
    made = terminal._FittedTable._parts

    def counted(self: terminal._FittedTable, *given: object) -> list[list[tuple[int, list[int]]]]:
        found = made(self, *given)  # type: ignore[arg-type]
        parts.append(len(found) if self.headed else len(found[0]))
        return found

    monkeypatch.setattr(terminal._FittedTable, "_parts", counted)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(shlex.split(line)) == 0
    assert set(parts) == {1}


def test_more_machines_than_fit_stand_below_under_a_head_of_their_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(shlex.split("llm llama-3-8b --on h100,h200,b200,mi300x,a100")) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split() for line in lines if line.split() in (["h100", "h200", "b200"], ["mi300x", "a100"])]
    assert heads == [["h100", "h200", "b200"], ["mi300x", "a100"]]
    assert len([line for line in lines if line.startswith("  a token at")]) == 2


def test_what_several_machines_share_has_one_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elementwise work in the format that each has; of links all that a chip has, 7 x 64 GB/s of a mesh."""
    monkeypatch.setenv("COLUMNS", "100")
    assert main(shlex.split("llm llama-3-70b --on h200:4,b200:4,mi300x:4 --tensor 4")) == 0
    rows = {line[:26].strip(): line[26:].split() for line in capsys.readouterr().out.splitlines()}
    assert rows["all links of a chip"] == ["450", "GB/s", "900", "GB/s*", "448", "GB/s"]
    assert (len(rows["vector bf16"]), len(rows["vector fp32"])) == (2, 4)


def test_a_part_of_a_table_leaves_out_rows_that_say_nothing_in_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(shlex.split("chips h100 a100 mi300x v5p b200")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.split()[:2] == ["matrix", "fp4"]]) == 1  # of b200 alone
    assert len([line for line in lines if line.split()[:2] == ["matrix", "bf16"]]) >= 2
