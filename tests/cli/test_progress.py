"""Long work says how far it is, on a terminal's standard error alone, and Ctrl-C ends a command with one line."""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from roofline.cli import main, run
from roofline.cli import output as module
from roofline.cli.output import working
from tests.strategies import some

ROOT = Path(__file__).parents[2]


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


def test_the_bar_is_one_line_of_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(module, "BLINK", 0.0)
    bar = module._Bar("sweeping", "rows")
    bar.timer.cancel()
    bar._start()
    for done in (8_928_000, 9_928_000):
        bar.report(done, 80_000_000, f"{done:,} of 80,000,000 rows")
        bar.shown.refresh()
    bar.stop()
    last = terminal.getvalue().rpartition("sweeping")[2].partition("left")[0]
    assert "9,928,000 of 80,000,000 rows" in last
    assert "rows/s" in last
    assert "\n" not in last


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
    monkeypatch.setattr("roofline.cli.main", stopped)  # while modules load, before a command runs
    for name, stand_in in {"os._exit": sys.exit, "gc.freeze": int, "gc.set_threshold": lambda *given: None}.items():
        monkeypatch.setattr(name, stand_in)
    with pytest.raises(SystemExit, match="130"):
        run()
    assert capsys.readouterr().err.strip() == "stopped"


PLANNED = "plan llama-3-8b --on h100 --rate 4/s --prompt 1024 --output 128 --ttft 500ms --tpot 30ms"


def resolve(name: str) -> Any:
    """A module, or a class within one, by its name."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        home, _, last = name.rpartition(".")
        return getattr(import_module(home), last)


LONG_WORK = {
    "plan": PLANNED,
    "sweep": 'sweep "bf16[B, 64] * bf16[64, 64]" --on h100 B=1:64',
    "trace": f"trace {ROOT}/docs/examples/cnns.py:vgg16 --input 'fp32[1, 3, 224, 224]'",
    "accuracy": "accuracy h100 --runs runs.csv",
}


@pytest.mark.parametrize("name", some(list(LONG_WORK), 2))
def test_long_work_tells_how_far_it_is(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.chdir(tmp_path)
    rows = (f'"bf16[{size}, 4096] @ bf16[4096, 4096]",{5e-5 + size * 1e-9:.9g}' for size in (64, 128, 256))
    Path("runs.csv").write_text("\n".join(["expression,seconds", *rows]), encoding="utf-8")
    terminal_of(monkeypatch)
    monkeypatch.setattr(module._Bar, "report", lambda bar, done, total=1.0, part="": seen.append(done / total))
    assert main(shlex.split(LONG_WORK[name])) in (0, 3)
    assert seen
    assert seen == sorted(seen)
    assert 0.9 <= seen[-1] <= 1


#: Commands, the function that Ctrl-C ends at its second call, and what is counted.
STOPS = {
    "plan": (PLANNED + " --formats bf16,fp8", "plans.search.Search.best_of", "chips and formats"),
    "sweep": ("sweep llama-3-8b --on h100,h200 --batch 1:8 --context 64", "models.sweeps.StepTable.evaluated", "rows"),
    "accuracy": ("accuracy h100 --runs runs.csv", "estimates.accuracy._hold", "kinds of kernels"),
    "profile": ("profile points.csv --on h100", "measurement.points.bound", "runs, the longest"),
    "trace": ("trace model.py:f --input 'fp32[8, 8]'", "programs.pytorch.recorder.Recorder.emit", "operations"),
    "trace --jax": (
        "trace jaxed.py:f --jax --input 'fp32[8, 8]'", "programs.jax.walker.JaxprWalker.emit", "operations",
    ),
    "calibrate": ("calibrate kinds.csv --on h100", "estimates.calibration.refitted", "kinds of kernels"),
}  # fmt: skip


@pytest.mark.parametrize("name", some(list(STOPS), 2))
def test_ctrl_c_shows_what_is_done(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, place, what = STOPS[name]
    monkeypatch.chdir(tmp_path)
    rows = ['"bf16[64, 4096] @ bf16[4096, 4096]",5.1e-5,matmul', '"gelu(bf16[64, 4096])",5e-6,gelu']
    Path("runs.csv").write_text("\n".join(["expression,seconds,name", *rows]), encoding="utf-8")
    Path("points.csv").write_text(
        "name,dtype,flops,bytes,seconds\na,bf16,1e12,1e9,2e-3\nb,bf16,2e12,1e9,1e-3\n", encoding="utf-8"
    )
    Path("model.py").write_text("def f(x):\n    return (x @ x).relu() @ x\n", encoding="utf-8")
    kinds = (f"{m},1024,1024,{dtype},{m / 400 + 2}" for dtype in ("bf16", "fp8") for m in range(512, 5120, 512))
    Path("kinds.csv").write_text("\n".join(["m,n,k,dtype,us", *kinds]), encoding="utf-8")
    Path("jaxed.py").write_text("def f(x):\n    return (x @ x).sum() + (x @ x)\n", encoding="utf-8")
    target, method = f"roofline.{place}".rsplit(".", 1)
    home: Any = resolve(target)
    real, calls = getattr(home, method), []

    def once(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return real(*given, **named)

    monkeypatch.setattr(home, method, once)
    assert main(shlex.split(words)) == 130
    shown = capsys.readouterr()
    assert re.search(rf"stopped after [\d,]+( of [\d,]+)? {what}: what is shown is of these", shown.err)
    assert len(shown.out.splitlines()) > 3


@pytest.mark.skipif(
    "ROOFLINE_LONG" not in os.environ or not hasattr(os, "killpg"), reason="its workers load for seconds"
)
def test_ctrl_c_ends_every_process_of_the_explorer_without_a_traceback() -> None:
    pytest.importorskip("uvicorn")
    with subprocess.Popen(
        [sys.executable, "-m", "roofline", "explore", "--no-browser"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    ) as running:  # fmt: skip
        assert running.stdout is not None
        assert running.stdout.readline() == "starting the explorer; Ctrl-C ends it\n"
        time.sleep(0.4)  # its workers load
        os.killpg(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode in (0, 130)
    assert said.strip() in ("", "stopped")
