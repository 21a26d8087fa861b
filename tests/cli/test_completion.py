"""Completion by the shells' own protocol: what a shell hands over in its environment, and what it gets back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from roofline.cli import cli, main
from roofline.cli.command import SHELLS


def completed(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What bash is offered for the last word of a line."""
    monkeypatch.setenv("_ROOFLINE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - (not line.endswith(" "))))
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    return [row.partition(",")[2] for row in capsys.readouterr().out.splitlines()]


def test_what_is_offered_is_what_is_taken() -> None:
    """Completion has lists of words, so that it need not import what takes them."""
    from roofline.models.parallelism.schedules import SCHEDULES
    from roofline.models.training.stage import OPTIMIZERS

    of_pytorch = pytest.importorskip("roofline.programs.pytorch.trace").OPTIMIZERS
    newer = {*of_pytorch, "adafactor", "muon"}  # an older PyTorch lacks these
    taken = {("train", "optimizer"): OPTIMIZERS, ("train", "schedule"): SCHEDULES, ("trace", "optimizer"): newer}
    for (command, name), words in taken.items():
        found = next(each for each in cli.get_command(click.Context(cli), command).params if each.name == name)
        assert sorted(found.values.split()) == sorted(words), (command, name)


CASES = [
    ("roofline bo", {"bound"}, {"llm"}),
    ("roofline ", {"bound", "completion", "chips"}, set()),
    ("roofline bound --on h10", {"h100", "h100-pcie"}, {"a100"}),
    ("roofline llm --on h100,b2", {"h100,b200"}, {"b200"}),
    ("roofline chips mi3", {"mi300x"}, {"h100"}),
    ("roofline llm llama-3", {"llama-3-70b", "llama-3-8b"}, {"llama-2-7b"}),
    ("roofline llm --weights fp", {"fp8", "fp4"}, {"bf16"}),
    ("roofline bound --policy ", {"fused", "minimal", "each-op"}, set()),
    ("roofline bound --algorithm t", {"tree", "two-shot"}, {"auto"}),
    ("roofline llm x --ten", {"--tensor"}, {"--on"}),
    ("roofline train x --checkpoint ", {"none", "selective", "matmuls", "full"}, set()),
    ("roofline trace m.py:build --convention ", {"flops", "macs"}, set()),
    ("roofline completion ", set(SHELLS), set()),
    ("roofline plan x --objective ", {"cost", "chips", "energy"}, set()),
    ("roofline scaling ", {"dp", "fsdp", "tp"}, set()),
    ("roofline chips --sort ", {"peak", "ridge"}, set()),
    ("roofline plot x --kind t", {"time", "throughput"}, {"roofline"}),
    ("roofline llm x --view ", {"time", "memory", "front"}, set()),
]


@pytest.mark.parametrize(("line", "offered", "others"), CASES, ids=[line for line, _, _ in CASES])
def test_bash_is_offered(line, offered, others, monkeypatch, capsys) -> None:
    found = set(completed(line, monkeypatch, capsys))
    assert offered <= found
    assert not others & found


def test_nothing_fails_where_a_line_makes_no_sense(monkeypatch, capsys) -> None:
    for line in ("roofline nonsense --o", "roofline bound --on --set x --zz ", "roofline bound --dtype a --dtype b -"):
        completed(line, monkeypatch, capsys)


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_ROOFLINE_COMPLETE={shell}_complete" in script


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_is_offered_values_with_commas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Real fish, with a program in place of ours that answers as ours does."""
    assert main(["completion", "fish"]) == 0
    program = tmp_path / "roofline"
    program.write_text("#!/bin/sh\necho plain,h100,b200\n", encoding="utf-8")
    program.chmod(0o755)
    script = capsys.readouterr().out + "\ncomplete -C 'roofline llm --on h100,b2'"
    words = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    shown = subprocess.run(["fish", "-c", script], env=words, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["h100,b200"]


def test_fish_splits_a_value_from_its_kind_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 0
    assert 'string split "," $completion' not in capsys.readouterr().out


def test_bash_takes_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    subprocess.run(["bash", "-n"], input=capsys.readouterr().out, text=True, check=True)


def test_completing_a_command_loads_none() -> None:
    code = (
        "import sys\nfrom roofline.cli import cli\nimport click\n"
        "names = [item.value for item in cli.shell_complete(click.Context(cli), 'b')]\n"
        "print(names, 'roofline.bounds' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["['bound']", "False"]
    assert cli.name == "cli"


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_takes_the_script_without_settings_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plain ~/.zshrc has not loaded what completes: the script does that itself."""
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert script.startswith("(( $+functions[compdef] ))")
    words = {**os.environ, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    line = script + "\necho ${_comps[roofline]}"
    shown = subprocess.run(["zsh", "-fc", line], env=words, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["_roofline_completion"]
