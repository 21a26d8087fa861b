"""What a terminal is told: nothing is cut where it is narrow, and colours only where they are wanted."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys

import pytest

from roofline.cli import main
from roofline.cli.output import never_fail
from tests.strategies import some

LINE = "In[B_X, D] * Wi[D_X, F] * Wo[F, D_X] -> Out[B_X, D]"
SHARD = ["shard", LINE, "--on", "v5e:16", "B=16384", "D=8192", "F=32768"]
PLOT = ["plot", "bf16[512, 8192] @ bf16[8192, 8192]", "--on", "h100"]


@pytest.fixture
def terminal(monkeypatch, capsys):
    def shown(words, columns=80, **settings):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in {"COLUMNS": str(columns), "TERM": "xterm", **settings}.items():
            monkeypatch.setenv(name, value)
        assert main(words) == 0
        return capsys.readouterr().out

    return shown


@pytest.mark.parametrize("columns", [50, 60, 80])
@pytest.mark.parametrize("words", [SHARD, ["chips", "--filter", "amd"], ["chips", "h100"]], ids=lambda words: words[0])
def test_nothing_is_cut_where_it_is_narrow(terminal, words, columns):
    assert "…" not in terminal(words, columns, NO_COLOR="1")


def test_a_picture_has_colours_where_they_are_wanted(terminal):
    assert "\x1b[34m" in terminal(PLOT)
    assert "\x1b" not in terminal(PLOT, NO_COLOR="1")
    assert "\x1b" not in terminal(PLOT, TERM="dumb")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp437"])
@pytest.mark.parametrize(
    "words", [PLOT, ["bound", *PLOT[1:]], ["bound", "--help"], ["chips", "h100", "--json"]], ids=str
)
def test_an_encoding_without_our_signs_gets_likenesses(monkeypatch, words, encoding):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    never_fail()
    assert main(words) == 0
    sys.stdout.flush()
    assert "h100" in written.getvalue().decode("utf-8" if encoding == "ascii" else encoding).lower()


@pytest.mark.parametrize("words", [PLOT, [*PLOT, "--json"], ["bound", *PLOT[1:]]], ids=str)
def test_an_answer_that_cannot_be_printed_is_an_error(monkeypatch, capsys, words):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    assert main(words) == 2
    assert "cannot read or write the answer: No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "closed", "code"),
    some(
        [
            (["chips", "h100"], ">&-", 0),
            (["chips", "h100"], "2>&-", 0),
            (["chips", "h100"], "<&- >&- 2>&-", 0),
            (["chips", "h999"], "2>&-", 2),
            (["chips", "h100"], ">/dev/full", 2),
            (["chips", "--nope"], "2>/dev/full", 2),
            (["chips", "h999"], "2>/dev/full", 2),
        ],
        3,
    ),
    ids=str,
)
def test_a_closed_or_full_output_changes_no_exit_code_but_of_an_answer_that_is_lost(words, closed, code):
    command = [sys.executable, "-m", "roofline", *words]
    ended = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command], capture_output=True, text=True)
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr
    assert bool(ended.stdout) == (not code and ">&-" not in closed.replace("2>&-", ""))


@pytest.mark.parametrize("words", [["bound", *PLOT[1:], "-o", "a.html"], [*PLOT, "-o", "a.svg"]], ids=str)
def test_a_folder_that_is_gone_is_said(tmp_path, monkeypatch, capsys, words):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        assert main(words) == 2
    finally:
        os.chdir(tmp_path)
    assert "the folder that this runs in is gone; go to another" in capsys.readouterr().err
