"""``roofline scaling``: what it prints, as text and as JSON, and its messages."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from roofline import scaling
from roofline.cli import main


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["scaling", *words]) == 0
    return capsys.readouterr().out


def test_without_a_condition_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys)
    for name in ("dp", "fsdp", "tp", "dcn", "moe-dp", "ep", "decode-tp", "mixed", "2d"):
        assert f"\n  {name} " in shown


@pytest.mark.parametrize("idle", ["--on=v5e", "--dtype=bf16", "--for=Y", "--sharp", "B=4"])
def test_beside_the_list_nothing_else_says_anything(idle: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", idle]) == 2
    said = f"{idle.partition('=')[0]} says nothing without a condition; as in: roofline scaling fsdp --on v5p"
    assert said in capsys.readouterr().err


def test_a_condition_is_what_the_library_gives(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("fsdp", "--on", "v5p", "--torus-axes", "X=3", "--set", "bf16=4.59e14")
    found = json.loads(run(capsys, *words, "--json"))
    assert found == scaling("fsdp", on="v5p", torus_axes={"X": 3}, set={"bf16": "4.59e14"}).to_dict()
    assert (found["value"], found["form"]) == (pytest.approx(850), "P_bf16/(6*W_ici_X)")
    shown = run(capsys, *words)
    assert "tokens per chip ≥ 850" in shown
    assert "AllGather over X, X2, X3 (X*X2*X3 chips): book" in shown


def test_ways_and_the_best_split(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Y ≤ 11.76" in run(capsys, "tp", "--for", "Y", "--on", "v5p", "F=30000")
    assert "Y ≤ 5.882 … 11.76" in run(capsys, "tp", "--for", "Y", "--on", "v5p", "F=15000,30000")
    shown = run(capsys, "mixed", "--on", "v5p", "--torus-axes", "X=2", "F=32768", "B=2e6", "N=4096")
    assert "tokens per chip ≥ 99.22" in shown
    assert "= 707.1" in shown
    assert "chips ≥ 16" in run(capsys, "2d", "--on", "v5p", "D=8192", "F=32768")


def test_several_conditions_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "dp", "tp", "--on", "h100", "--json"))
    assert found["schema"] == "roofline/scalings/1"
    assert [each["form"] for each in found["conditions"]] == ["P_bf16/W_nvlink", "P_bf16*Y/W_nvlink"]
    assert run(capsys, "dp", "tp", "--on", "h100").count("closed form") == 2
    assert "scales while  F ≥ 2199*Y" in run(capsys, "tp", "--on", "h100")
    assert "scales while  ways ≤ 0.1342*F/B" in run(capsys, "decode-tp", "--on", "h100")


def test_one_link_and_another_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("dp", "--on", "dgx-h100:16", "--network", "ib", "--algorithm", "hierarchical", "--set", "bf16=9.9e14")
    assert json.loads(run(capsys, *words, "--json"))["value"] == pytest.approx(1237.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tp",), "the target is missing; for instance --on v5p"),
        (("ddp", "--on", "v5p"), "unknown condition 'ddp'; did you mean 'dp'?"),
        (("tp", "--on", "v5p", "--torus-axes", "Y"), "is not AXIS="),
        (("tp", "--on", "mi250x-gcd"), "to other chips is known"),
        (("tp", "--on", "v5p", "F=8"), "F is what is solved for"),
    ],
)
def test_messages(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    assert main(["scaling", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_list_needs_no_arithmetic_in_symbols_and_an_answer_no_arrays() -> None:
    """What a command does not use is not imported: numpy and sympy for the list, numpy for a closed form."""

    def loaded(*words: str) -> set[str]:
        code = f"import sys; from roofline.cli import main; main({list(words)!r}); print(*sys.modules, file=sys.stderr)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return set(done.stderr.split())

    assert not {"numpy", "sympy", "matplotlib"} & loaded("scaling")
    answered = loaded("scaling", "tp", "--on", "v5p")
    assert "sympy" in answered
    assert not {"numpy", "matplotlib", "torch"} & answered
