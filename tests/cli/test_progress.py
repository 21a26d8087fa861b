"""Long work says how far it is, on a terminal's standard error alone, and Ctrl-C ends a command with one line."""

from __future__ import annotations

import io
import sys
import time

import pytest

from roofline.cli import main
from roofline.cli import progress as module
from roofline.cli.progress import working


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    seen = Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setenv("TERM", "xterm")
    return seen


def test_work_of_a_moment_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with working("reading") as report:
        report(1, 2)
    assert terminal.getvalue() == ""


def test_longer_work_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    monkeypatch.setattr(module, "MOMENT", 0.01)
    with working("reading") as report:
        report(1, 4)
        until = time.monotonic() + 20  # a busy machine takes its time to load the bar
        while "pages" not in terminal.getvalue() and time.monotonic() < until:
            report(2, 4, "pages")
            time.sleep(0.02)
    assert "reading pages" in terminal.getvalue()
    assert "left" in terminal.getvalue()


def test_a_pipe_sees_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "MOMENT", 0.0)
    with working("reading") as report:
        report(1, 2)
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_ends_with_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("roofline.estimates.accuracy", stopped)
    assert main(["accuracy", "h100"]) == 130
    shown = capsys.readouterr()
    assert (shown.out, shown.err.strip()) == ("", "stopped")
