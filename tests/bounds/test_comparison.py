"""Answers side by side: facts are those of each answer by itself, the best is marked, what does not fit comes first."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofline
from roofline import advise, bound, comm, llm, scaling, shard, solve, train
from roofline.bounds.comparison import compare
from roofline.cli import main
from roofline.errors import InputError, RooflineError
from roofline.models import load
from roofline.quantity import format_amount, format_quantity, format_range
from roofline.sections import Table
from tests.strategies import some

LINE = "bf16[64, 8192] * bf16[8192, 8192]"


def test_each_column_is_the_answer_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", LINE, "--on", "a100,h100", "--on", "mi300x", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for at, chip in enumerate(("a100", "h100", "mi300x")):
        alone = bound(LINE, on=chip)
        assert found["facts"]["at best"][at] == alone.lower
        assert found["facts"]["memory there"][at] == alone.footprint.capacity  # type: ignore[union-attr]
        assert main(["bound", LINE, "--on", chip, "--json"]) == 0
        assert found["answers"][at] == json.loads(capsys.readouterr().out)
    assert found["fastest"] == "mi300x"
    assert found["best"]["at best"] == ["mi300x"]


def test_equal_figures_have_no_best() -> None:
    both = compare(bound(LINE, on="h100"), bound(LINE, on="h100"))
    assert both.names == ("h100 (1)", "h100 (2)")
    assert {name: who for name in both.facts if (who := both.best(name))} == {}
    assert both.times_the_best == [1.0, 1.0]


def test_the_cheapest_of_those_that_fit_is_marked_wherever_it_stands() -> None:
    """What does not fit has words in the place of a price, and says nothing of which price is better."""
    asked = {"tensor": 8, "batch": 256, "context": 8000}
    for on, price in (
        ("h100:8,h200:8,b200:8", "2.5,3.5,5"),
        ("b200:8,h200:8,h100:8", "5,3.5,2.5"),
        ("h100:8,b200:8", "2.5,5"),
    ):
        found = llm("llama-3-70b", on=on, price=price, **asked)
        assert found.best("$ a million output tokens") == ("b200:8",)
        assert found.to_dict()["best"]["$ a million output tokens"] == ["b200:8"]
        row = next(line for line in str(found).splitlines() if "$ a million output" in line)
        assert row.count("*") == 1
        assert "0.5495*" in row


def test_what_fits_is_faster_than_what_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["llm", "llama-3-8b", "--on", "v5e,l40s", "--context", "16k"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "DOES NOT FIT on v5e: needs" in shown
    assert "l40s has the lowest floor of those that it fits on" in shown


def test_a_step_that_cannot_be_run_is_not_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer tokens than a sequence a chip is no step: it is out of every rank as what does not fit is."""
    asked: dict[str, Any] = {"batch_tokens": 4e6, "tokens": 1e12, "price": 2.0}
    found = train("llama-3-8b", on="h100:64,h100:2048", **asked)
    few, many = found.answers
    assert many.lower < few.lower
    assert many.fits is False
    assert many.memory.fits
    assert (many.cost, few.cost is None, found.fastest) == (None, False, "h100:64")
    for name in ("a step at best", "MFU at most", "tokens a day", "days", "cost"):
        assert found.best(name) == ("h100:64",), name
    assert found.to_pandas()["fits"].tolist() == [True, False]
    assert re.match("h100:2048, fsdp 2,048, does not run: ", found.plot().marks[-1].label)
    assert "DOES NOT RUN on h100:2048" in found.one_line()
    assert train("llama-3-8b", on="h100:2048", **asked).obstacle == many.obstacle
    assert main(["train", "llama-3-8b", "--on", "h100:64,h100:2048", "--batch-tokens", "4M"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "DOES NOT RUN on h100:2048: 0.477 sequences in a microbatch, and a chip takes whole ones · would run:" in told
    )
    assert "h100:64 has the lowest floor of those that run" in told
    assert "runs yes no: it does not run" in told
    by_size = train("llama-3-8b", on="h100:64,h100:2048", batch_tokens=[4e6, 16e6])
    assert [one.fastest for one in by_size.each] == ["h100:64", "h100:2048"]
    assert by_size.plot().left_out == ("3 of 4 answers are drawn: 1 does not fit the memory or run",)


def test_training_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "llama-3-8b", "--on", "h100:64,b200:64", "--batch-tokens", "4M", "--tokens", "15T", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "roofline/comparison/1"
    assert [each["batch_tokens"] for each in found["answers"]] == [4_000_000] * 2
    assert found["fastest"] == "b200:64"
    assert found["facts"]["days"][0] == pytest.approx(found["answers"][0]["days"])


def test_answers_compare_with_their_like() -> None:
    one = bound(LINE, on="h100")
    assert one.compare(bound(LINE, on="a100"), names=("new", "old")).fastest == "new"
    with pytest.raises(InputError, match="needs two answers"):
        one.compare()
    with pytest.raises(InputError, match="1 names for 2 answers"):
        one.compare(bound(LINE, on="a100"), names=("one",))
    with pytest.raises(InputError, match="plain numbers"):
        one.compare(bound("bf16[B, 8192] * bf16[8192, 8192]", on="a100"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bound", LINE, "--on", "a100,"], "--on names no machine beside a comma; as in --on h100:8,h200:8"),
        (["llm", "llama-3-8b", "--on", "a100,h100", "--context", "1k", "--draft", "9"], "--draft is of one step"),
        (["bound", LINE, "--on", "a100,g100"], "unknown chip 'g100'"),
    ],
)
def test_what_cannot_be_compared_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_collectives_and_programs_stand_side_by_side(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["comm", "allreduce", "--bytes", "1GB", "--json", "--on"]
    alone = []
    for chips in ("h100:8", "mi300x:8"):
        assert main([*words, chips]) == 0
        alone.append(json.loads(capsys.readouterr().out))
    assert main([*words, "h100:8,mi300x:8"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answers"] == alone
    assert found["fastest"] == "h100:8"
    path = tmp_path / "m.py"
    path.write_text("from torch import nn\n\ndef build():\n    return nn.Linear(64, 64)\n")
    words = ["trace", f"{path}:build", "--input", "fp32[8, 64]", "--on", "h100", "--on", "a100"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["bound"]
    assert found["schema"] == "roofline/comparison/1"
    assert found["names"] == ["h100", "a100"]
    assert main(words) == 0
    assert "h100 has the lowest floor" in capsys.readouterr().out
    assert main([*words, "-o", str(tmp_path / "a.svg")]) == 0
    assert "Roofline of NVIDIA H100 SXM5 80GB and NVIDIA A100" in (tmp_path / "a.svg").read_text()


def test_several_sizes_of_a_program_stand_side_by_side(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("from torch import nn\n\ndef build():\n    return nn.Linear(64, 64)\n")
    words = ["trace", f"{path}:build", "--input", "fp32[B, 64]", "--on"]

    def asked(*more: str) -> Any:
        assert main([*words, *more, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    alone = {size: asked("h100", f"B={size}")["bound"] for size in (8, 64)}
    assert asked("h100", "B=8,64")["answers"] == list(alone.values())
    both = asked("h100,a100", "B=8,64")
    assert both["sizes"] == {"B": [8, 64]}
    assert [each["answers"][0] for each in both["comparisons"]] == list(alone.values())
    for ending in ("html", "csv", "txt", "svg"):
        assert main([*words, "h100", "B=8,64", "-o", str(tmp_path / f"x.{ending}")]) == 0
    assert "B 64" in (tmp_path / "x.svg").read_text()
    capsys.readouterr()
    assert main([*words, "h100", "B=8,64"]) == 0
    assert "*" not in capsys.readouterr().out.partition("assumes")[0]  # of another work nothing is best
    for more, said in {
        (): "several sizes stand side by side on a machine; name one: --on h100",
        ("--on", "h100", "B=1:100"): "answers side by side take up to 64 sizes, not 100;",
    }.items():
        assert main([*words[:-1], *(more or ("B=8,64",))]) == 2
        assert said in capsys.readouterr().err


def test_a_figure_may_be_set_of_one_of_several_machines(capsys: pytest.CaptureFixture[str]) -> None:
    line, figures = "bf16[64, 8192] * bf16[8192, 8192]", {"A100.hbm": 4e12, "bf16": 5e14}
    both = bound(line, on="a100,h100", set=figures)
    alone = [bound(line, on="a100", set={"hbm": 4e12, "bf16": 5e14}), bound(line, on="h100", set={"bf16": 5e14})]
    assert [each.times for each in both.answers] == [each.times for each in alone]
    assert bound(line, on="a100", set=figures).times == alone[0].times
    assert main(["bound", line, "--on", "a100,h100", "--set", "a100.hbm=4e12", "--set", "bf16=5e14", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["lower"] for each in found["answers"]] == [each.lower for each in alone]
    with pytest.raises(InputError, match=r"has no figure 'b200\.hbm'; hbm alone sets it; .* given as b200"):
        bound(line, on="a100,h100", set={"b200.hbm": 4e12})


def test_a_figure_may_be_set_by_any_name_of_its_machine(tmp_path: Path) -> None:
    line = "bf16[64, 8192] * bf16[8192, 8192]"
    (tmp_path / "mine.toml").write_text(
        '[chip.fast]\ninherits = "h100"\naliases = ["quick"]\n[[chip.fast.memory]]\nlevel = "hbm"\nbandwidth = 4e12\n'
    )
    mine, slow = str(tmp_path / "mine.toml"), bound(line, on="h100", set={"hbm": 2e12}).lower
    for on, name, files in (
        ("h100-sxm", "h100", ()), ("h100", "h100-sxm", ()), ("h100:8", "NVIDIA H100 SXM5 80GB", ()),
        ("quick", "fast", mine), ("fast", "quick", mine), ("fast", "fast", mine), (mine, "quick", ()),
        (mine, "fast", ()),
    ):  # fmt: skip
        assert bound(line, on=on, set={f"{name}.hbm": 2e12}, files=files).lower == slow, (on, name)
        both = bound(line, on=["a100", on], set={f"{name}.hbm": 2e12, "a100-sxm.hbm": 1e12}, files=files)
        assert [each.lower for each in both.answers] == [bound(line, on="a100", set={"hbm": 1e12}).lower, slow]
    sizes = {"B": 64, "D": 8192, "F": 8192}
    named = {"on": "h100-sxm", "set": {"h100.hbm": 2e12}}
    assert roofline.formula("bf16[B, D] * bf16[D, F]", **named)(**sizes)["lower"] == pytest.approx(slow, rel=1e-12)
    assert roofline.sweep("bf16[B, D] * bf16[D, F]", **named, **sizes)["lower"] == pytest.approx([slow], rel=1e-12)
    with pytest.raises(RooflineError, match="has no figure 'hbmm'; did you mean 'hbm'"):
        bound(line, on="h100-sxm", set={"h100.hbmm": 2e12})


def test_a_figure_of_one_of_several_machines_is_its_own_in_tables_pictures_and_plans(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line, both, figures = "bf16[B, D] * bf16[D, F]", ["a100", "h100"], {"A100.hbm": 1.6e12, "bf16": 3e14}
    of_each: list[dict[str, Any]] = [{"hbm": 1.6e12, "bf16": 3e14}, {"bf16": 3e14}]
    sizes: dict[str, Any] = {"B": 8, "D": 8192, "F": 8192}
    alone = [bound(line, on=on, set=own, **sizes).lower for on, own in zip(both, of_each, strict=True)]
    assert roofline.sweep(line, on=both, set=figures, **sizes)["lower"].tolist() == alone
    kept = roofline.sweep(line, on=both, set=figures, **sizes, keep="top=2")
    assert sorted(kept["top"]["lower"].tolist()) == sorted(alone)
    machines = [roofline.chip(on, **own) for on, own in zip(both, of_each, strict=True)]
    drawn = [
        roofline.plot(line, **sizes, **asked).to_dict() for asked in ({"on": both, "set": figures}, {"on": machines})
    ]
    assert drawn[0] == drawn[1]

    step: dict[str, Any] = {"batch": 8, "context": 1024}
    grid = roofline.sweep("llama-3-8b", on=both, set=figures, **step)
    steps = [roofline.sweep("llama-3-8b", on=on, set=own, **step) for on, own in zip(both, of_each, strict=True)]
    assert grid["lower"].tolist() == [one["lower"][0] for one in steps]
    assert [grid.row(at).lower for at in (0, 1)] == pytest.approx(grid["lower"].tolist())

    load: dict[str, Any] = {"rate": "2/s", "prompt": 1024, "output": 128, "formats": ["bf16"], "price": "table"}
    plan = roofline.plan("llama-3-8b", on=both, set=figures, **load)
    for on, own in zip(both, of_each, strict=True):
        best = roofline.plan("llama-3-8b", on=on, set=own, **load).best
        assert best.first_token == plan.assess(f"{on}:1").first_token

    assert main(["chips", *both, "--set", "a100.hbm=1.6TB/s", "--json"]) == 0
    assert "1600000000000" in capsys.readouterr().out
    for command in (["sweep", line, "B=8", "D=8192", "F=8192"], ["plot", line, "B=8", "D=8192", "F=8192"]):
        assert main([*command, "--on", "a100,h100", "--set", "a100.hbm=1.6TB/s"]) == 0
        capsys.readouterr()


def test_a_budget_is_no_floor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "70e9", "--on", "h100:1024,b200:512", "--tokens", "15T", "--mfu", "0.4"]) == 0
    said = capsys.readouterr().out
    assert "b200:512 takes the fewest chip-hours" in said
    assert "floor" not in said


MATMUL = "bf16[B, D] * bf16[D, F]"


@pytest.mark.parametrize(
    ("words", "key"),
    some(
        [
            ([MATMUL, "--for", "B", "D=8192", "F=8192"], "value"),
            ([MATMUL, "--for", "hbm", "B=64", "D=8192", "F=8192"], "value"),
            ([MATMUL, "--for", "dtype:1", "B=200", "D=8192", "F=8192"], "flips_at"),
            (["--for", "intensity"], "red_below"),
            (["bf16[B, D] * bf16[B, D, F] -> bf16[B, F]", "--for", "B", "D=4096", "F=4096"], "verdict"),
            ([MATMUL, "bf16[B, D] * bf16[D, M]; bf16[B, M] * bf16[M, F]", "--for", "M"], "form"),
        ],
        2,
    ),
)
def test_where_it_flips_stands_side_by_side(words: list[str], key: str, capsys: pytest.CaptureFixture[str]) -> None:
    alone = []
    for chip in ("v5e", "v5p"):
        assert main(["solve", *words, "--on", chip, "--json"]) == 0
        alone.append(json.loads(capsys.readouterr().out))
    for several in (["--on", "v5e,v5p"], ["--on", "v5e", "--on", "v5p"]):
        assert main(["solve", *words, *several, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["schema"], found["names"], found["fastest"]) == ("roofline/comparison/1", ["v5e", "v5p"], None)
        assert found["answers"] == alone
        assert all(key in each for each in alone)
    assert main(["solve", *words, "--on", "v5e,v5p"]) == 0
    shown = capsys.readouterr().out
    assert "side by side" in " ".join(shown.split())
    assert "times the least" not in shown


def test_solutions_in_python_are_those_of_each_machine() -> None:
    found = solve(MATMUL, "B", on=["v5e", "v5p"], D=8192, F=8192)
    alone = [solve(MATMUL, "B", on=chip, D=8192, F=8192) for chip in ("v5e", "v5p")]
    assert [fact and fact.value for fact in found.facts["B to take"]] == [256, 174] == [each.pick for each in alone]
    assert (found.fastest, found.times_the_best) == (None, [])
    assert repr(found) == "<SideBySide: v5e, v5p>"


def test_the_most_chips_are_the_best_where_more_is_better(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", "tp", "--for", "Y", "--on", "v5p,v6e", "F=30000"]) == 0
    assert "v5p allows the most Y" in capsys.readouterr().out
    found = scaling("tp", on=["v5p", "v6e"], unknown="Y", F=30000)
    assert found.fastest == "v5p"  # type: ignore[attr-defined]
    assert scaling("tp", on="v5p,v6e").fastest is None  # type: ignore[attr-defined]


def test_one_machine_alone_is_said_where_a_command_takes_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "docs/examples/profile.csv", "--on", "h100,a100"]) == 2
    assert "profile takes one machine, and --on names 2: h100, a100" in capsys.readouterr().err


def test_advice_of_several_machines_has_a_row_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"B": 64, "D": 8192, "F": 8192}
    found = advise(MATMUL, on=["h100", "a100"], chips=["b200"], **sizes)
    alone = {chip: {line.change: line.gain for line in advise(MATMUL, on=chip, **sizes)} for chip in ("h100", "a100")}
    assert (found.names, found.fastest) == (("h100", "a100"), "h100")
    for change in ("int4 weights", "fp8 weights", "memory at twice the bandwidth"):
        gains = [None if fact is None else fact.value for fact in found.facts[f"with {change}"]]
        assert gains == [alone[chip].get(change) for chip in ("h100", "a100")], change
    assert found.facts["with fp8 weights"][1] is None  # an A100 does not compute in fp8
    order = [*found.facts]
    assert order.index("with B = 159") < order.index("on NVIDIA B200 SXM"), "another chip stands last"
    words = ["B=64", "D=8192", "F=8192"]
    assert main(["advise", MATMUL, "--on", "h100,a100", "--than", "v5p", *words]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"with int4 operands +3\.91x +3\.91x", shown)
    assert re.search(r"on TPU v5p +1\.36x", shown)
    assert main(["advise", MATMUL, "--on", "h100", "--policy", "each-op,fused", *words]) == 0
    assert "h100 policy fused" in capsys.readouterr().out


def test_the_best_plans_of_several_machines_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    line, sizes = "A[I_X, J] * B[J_X, K] -> C[I_X, K]", {"I": 8192, "J": 8192, "K": 8192}
    found = shard(line, on=["h100:8", "v5e:8"], **sizes)
    for at, on in enumerate(found.names):
        alone = shard(line, on=on, **sizes)
        said = {name: facts[at].value for name, facts in found.facts.items()}
        assert (said["best plan"], said["at best"]) == (alone.best.name, alone.best.bound.lower)
        assert said["next plan at best"] == alone[1].bound.lower > said["at best"]
    words = [f"{name}={size}" for name, size in sizes.items()]
    assert main(["shard", line, "--on", "h100:8,v5e:8", *words]) == 0
    shown = capsys.readouterr().out
    assert "h100:8 has the lowest floor" in shown
    assert shown.count("AllGather_X(B[J_X, K])") == 2
    assert main(["shard", line, "--on", "h100:8,v5e:8"]) == 2
    assert "a comparison is of plain numbers, and " in capsys.readouterr().err


def test_bytes_over_one_link_of_meshes_and_switches_are_told_and_not_ranked() -> None:
    sizes = {"B": 512, "D": 8192, "F": 32768}
    plans = shard("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", on=["h100:8", "mi300x:8"], **sizes)
    gathers = comm("allgather", bytes=5e8, on=["h100:8", "mi300x:8"])
    for found in (plans, gathers):
        switch, mesh = found.facts["each link carries"]
        assert not switch.better
        assert mesh.value < switch.value
    # of seven links a chip sends as much as through one switch
    assert 7 * mesh.value == pytest.approx(switch.value)
    through_switch, over_mesh = gathers.facts["all chips send"]
    assert through_switch.value == 8 * switch.value
    assert over_mesh is None


def test_columns_of_one_machine_are_headed_by_what_was_asked_of_each() -> None:
    asked = {"on": "h100:64", "batch_tokens": 2**22}
    stages = train("llama-3-8b", **asked, zero=1).compare(train("llama-3-8b", **asked, zero=3))
    assert [name.startswith("h100:64 microbatches ") for name in stages.names] == [True, True]
    assert [name.rpartition(", ")[2] for name in stages.names] == ["zero 1", "zero 3"]
    kept = compare(train("llama-3-8b", **asked), train("llama-3-8b", **asked, checkpoint="full", fsdp=8))
    assert kept.names[1].endswith(" fsdp 8, checkpoint full") or kept.names[1].endswith(" checkpoint full, fsdp 8")
    same = train("llama-3-8b", **asked)
    assert same.compare(same).names == ("h100:64 (1)", "h100:64 (2)")
    line = {"on": "h100", "B": 64, "D": 64, "F": 64}
    several = [bound("bf16[B, D] * bf16[D, F]", **line, policy=policy) for policy in ("each-op", "minimal")]
    assert [name.rpartition(" policy ")[2] for name in compare(*several).names] == ["each-op", "minimal"]


TWO_LAYERS = """from torch import nn

def build():
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
"""


def test_a_layer_has_its_time_on_each_machine(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.py"
    path.write_text(TWO_LAYERS)
    words = ["trace", f"{path}:build", "--input", "fp32[8, 64]", "--on", "h100,a100"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["bound"]
    for at, alone in enumerate(found["answers"]):
        times = {op["where"]: op["lower"] for op in alone["ops"]}
        assert {each["where"]: each["lower"][at] for each in found["operations"]} == times
    for option, name in (([], "modules"), (["--flat"], "operations")):
        assert main([*words, *option]) == 0
        shown = capsys.readouterr().out
        heads = next(line for line in shown.splitlines() if "bound by" in line)
        assert ("a100" in heads, "h100" in heads, name) == (True, True, name)
        assert ("\n  sum " in shown) == bool(option)
    assert main([*words, "-o", str(tmp_path / "m.csv")]) == 0
    head, *rows = (tmp_path / "m.csv").read_text().splitlines()
    assert head.startswith("on,phase,operation,kind,module,")
    assert [row.partition(",")[0] for row in rows] == ["h100"] * 3 + ["a100"] * 3


@pytest.mark.parametrize("context", [1024, 8192])
def test_operations_of_a_step_stand_side_by_side(context: int) -> None:
    both = llm("llama-3-8b", on="h100,a100", context=context)
    table = both.table().named("operations")
    rows = both.to_dict()["operations"]
    assert [column.name for column in table.columns][2:] == ["h100", "bound by", "a100", "bound by"]
    for at, answer in enumerate(both.answers):
        assert sum(each["lower"][at] for each in rows) == pytest.approx(answer.decode.op_by_op)
        alone = {part.op.where: part.lower for part in answer.decode.ops}
        assert {each["name"]: each["lower"][at] for each in rows} == alone
    frame = both.to_pandas("operations")
    assert frame.groupby("on")["lower"].sum()["a100"] == pytest.approx(both.answers[1].decode.op_by_op)
    listed = next(each for each in both.sections() if getattr(each, "name", "") == "operations")
    shown = [str(row.cells[0]) for row in listed.rows]  # type: ignore[union-attr]
    assert shown[-2:] == ["2 more", "sum"]


def test_a_frame_has_a_row_a_machine() -> None:
    frame = bound(LINE, on="a100,h100").to_pandas()
    assert list(frame["on"]) == ["a100", "h100"]
    assert frame["lower"].dtype.kind == "f"
    assert list(frame["bound_by"]) == ["hbm"] * 2
    with pytest.raises(InputError, match="these answers have no operations; their table is comparison"):
        scaling("tp", on=["v5p", "v6e"], unknown="Y", F=30000).to_pandas("operations")


def test_programs_that_differ_in_some_operations_have_a_table_of_them_all() -> None:
    before, after = (bound(f"h = bf16[8, 512] * bf16[512, 512]; {act}(h)", on="h100") for act in ("relu", "gelu"))
    listed = before.compare(after, names=["before", "after"]).table().named("operations")
    assert [column.name for column in listed.columns][1::2] == ["before", "after"]
    assert len(listed.rows) == 3  # the product, and each function


def test_steps_of_other_models_have_no_table_of_operations() -> None:
    other = llm("llama-3-70b", on="h100", context=1024).compare(llm("llama-3-8b", on="h100", context=1024))
    assert other.to_dict()["operations"] == []
    assert [part.name for part in other.table().tables()] == ["comparison"]


def test_elementwise_work_that_could_join_is_told_of_each_machine() -> None:
    line = "bf16[512, 64] * bf16[64, 4096] -> x[512, 4096]; gelu(x[512, 4096])"
    shown = " ".join(str(bound(line, on=["h100", "l4"])).split())
    assert "times at best are floors" in shown
    assert "l4: " in shown
    assert "is elementwise work in kernels of its own" in shown
    fused = bound(line, on="l4", policy="fused")
    assert f"→ {format_quantity(float(fused.op_by_op), 's')}, one after the other" in shown


def test_fusing_that_gains_nothing_is_not_advised() -> None:
    """What a norm reads is written apart: no elementwise operation comes after it."""
    line = "h = bf16[8192, 8192] + bf16[8192, 8192]; layer_norm(h)"
    assert bound(line, on="a100").op_by_op == bound(line, on="a100", policy="fused").op_by_op
    assert "kernels of its own" not in " ".join(str(bound(line, on="a100", policy=["each-op", "fused"])).split())


def test_a_frame_of_machines_says_where_it_fits() -> None:
    pytest.importorskip("pandas")
    found = llm("llama-3-70b", on=["h100:8", "mi300x:8"], batch=8, context=1000)
    assert repr(found).endswith("; DOES NOT FIT on h100:8>")
    assert found.to_pandas()["fits"].tolist() == [False, True]
    operations = found.operations_as_data()
    assert operations is not None
    assert len(operations.rows) == len(found.to_pandas("operations")) == 36
    assert set(found.to_pandas("operations")["on"]) == {"h100:8", "mi300x:8"}


def test_the_fastest_is_said_with_what_decides() -> None:
    products = bound("int8[4096, 4096] * int8[4096, 11008]", on=["l40s", "a100"])
    assert "l40s has the lowest floor: all are compute-bound, and it has the most matrix int8 FLOP/s" in " ".join(
        str(products).split()
    )
    thin = bound("bf16[8, 4096] * bf16[4096, 11008]", on=["a100", "h100"])
    assert "h100 has the lowest floor: all are memory-bound, and it has the most memory bandwidth" in " ".join(
        str(thin).split()
    )
    mixed = bound("bf16[200, 8192] * bf16[8192, 8192]", on=["a100", "h100"])  # one is bound by each
    assert "has the lowest floor: " not in str(mixed)


FIGURES: dict[str, Any] = {"name": "Mine", "bf16": "400 TFLOP/s", "hbm": {"bandwidth": "3 TB/s", "capacity": "96 GB"}}


def test_machines_in_a_list_are_named_as_they_are_typed() -> None:
    line, sizes = "bf16[B, D] * bf16[D, F]", {"D": 4096, "F": 4096}
    machines = [FIGURES, roofline.chip(FIGURES), "h100", roofline.chip("h100", hbm="4 TB/s")]
    names = ("mine (1)", "mine (2)", "h100", "h100 hbm 4 TB/s")
    asked = [
        bound(line, on=machines, B=8, **sizes),
        solve(line, "B", on=machines, **sizes),
        llm("llama-3-8b", on=machines),
        roofline.trace(lambda x: x @ x, "bf16[128, 128]", on=machines, frontend="jax"),
    ]
    assert [answer.names for answer in asked] == [names] * 4
    assert asked[0].to_pandas()["on"].tolist() == list(names)
    assert roofline.plot(line, on=machines[1:3], B=8, **sizes).title == "Roofline of Mine and NVIDIA H100 SXM5 80GB"


def test_a_table_over_machines_names_them_apart() -> None:
    machines = ["h100", roofline.chip("h100", hbm="4 TB/s"), FIGURES]
    table = roofline.sweep("bf16[B, D] * bf16[D, F]", on=machines, B=8, D=4096, F=4096)
    assert table["on"].tolist() == ["h100", "h100 hbm 4 TB/s", "mine"]
    steps = roofline.sweep("llama-3-8b", on=machines, batch=[1, 2], context=4096)
    assert steps["on"].tolist()[::2] == table["on"].tolist()


def test_answers_on_chips_of_one_name_say_what_was_set_or_their_shape() -> None:
    line = "bf16[4096, 4096] * bf16[4096, 4096]"
    faster = bound(line, on="h100").compare(bound(line, on="h100", set={"hbm": "4 TB/s", "bf16": "2 PFLOP/s"}))
    assert faster.names == ("h100", "h100 hbm 4 TB/s bf16 2 PFLOP/s")
    assert bound(line, on="v5e").compare(bound(line, on="v5e:2x2")).names == ("v5e", "v5e:2x2")


def test_a_description_of_a_chip_is_a_machine_wherever_one_is_asked_for() -> None:
    line = "bf16[4096, 4096] * bf16[4096, 4096]"
    assert bound(line, on=FIGURES).machine.name == "Mine"
    assert roofline.formula(line, on=FIGURES).machine.name == "Mine"
    assert advise(line, on=FIGURES)
    with pytest.raises(RooflineError, match="'4 TB/s' is a bandwidth in bytes per second"):
        bound(line, on=[{"name": "Mine", "bf16": "4 TB/s", "hbm": "3 TB/s"}, "h100"])


def test_answers_on_one_chip_are_named_by_what_is_asked_and_ranked_where_the_work_is_one() -> None:
    asked = [
        bound(line, on="h100") for line in (LINE, "bf16[64, 8192] * fp8[8192, 8192]", "bf16[9, 8192] * bf16[8192, 9]")
    ]
    same, other = compare(*asked[:2]), compare(asked[0], asked[2])
    assert same.names == tuple(answer.expression for answer in asked[:2])
    assert (same.subject, same.is_one_work, other.is_one_work) == ("2 questions", True, False)
    assert "has the lowest floor" in str(same)
    assert "times the least" in str(same)
    assert "lowest floor" not in str(other)
    assert "times the least" not in str(other)


def test_answers_are_named_by_what_differs() -> None:
    def served(model: str = "llama-3-8b", **asked: Any) -> Any:
        return roofline.llm(model, **{"on": "h100", "context": 8192, **asked})

    chip, one = "h100", served(batch=8)
    assert one.compare(served(batch=64)).names == (f"{chip} batch 8", f"{chip} batch 64")
    assert one.compare(served(batch=8, weights="int8")).names == (chip, f"{chip} weights int8")
    both = one.compare(served("llama-3-70b", on="h200", batch=8))
    assert both.names == (f"llama-3-8b on {chip}", "llama-3-70b on h200")
    assert both.to_pandas()["on"].tolist() == list(both.names)
    layouts = (served(on="h100:4", tensor=ways, pipeline=4 // ways) for ways in (4, 2))
    assert compare(*layouts).names == tuple(f"{chip}:4 tensor {4 // n}, pipeline {n}" for n in (1, 2))
    assert one.compare(one).names == (f"{chip} (1)", f"{chip} (2)")
    sent = (roofline.comm("allreduce", bytes=1e9, on="h100:8", algorithm=way) for way in (None, "ring"))
    assert compare(*sent).names == (f"{chip}:8", f"{chip}:8 algorithm ring")
    laid = [roofline.layout(tensor, on="v5e:4x4", B=64, D=64) for tensor in ("bf16[B_X, D]", "bf16[B_X, D_Y]")]
    assert compare(*laid).names == ("bf16[B_X, D]", "bf16[B_X, D_Y]")


def test_what_is_not_all_timed_is_not_ranked_and_has_no_time() -> None:
    sizes = {"B": 4096, "D": 8192, "F": 8192}
    found = bound("fp64[B, D] * fp64[D, F]", on=["h100", "v5e", "l4"], **sizes)
    assert (found.fastest, found.best("at best")) == ("h100", ())  # v5e may take less
    assert found.facts["at best"][1].value is None
    said = " ".join(str(found).split())
    assert "NOT RANKED: v5e not timed: flops on matrix in fp64 (550 GFLOP); TPU v5e has no figure for it" in said
    assert found.to_pandas()["lower"].isna().tolist() == [False, True, False]
    assert "INCOMPLETE: not all is timed" in repr(bound("fp64[B, D] * fp64[D, F]", on="v5e", **sizes))
    nowhere = bound("fp64[B, D] * fp64[D, F]", on=["v5e", "v5p"], **sizes)
    assert nowhere.fastest is None
    large = bound("fp64[N, K] * fp64[K, M]", on=["h100", "a100", "v5e"], N=2**15, K=2**15, M=2**15)
    assert (large.fitting, large.fastest, large.best("at best")) == ([True, True, False], "h100", ("h100",))
    assert "≥ 31.5 ms" in str(large)
    assert "lowest floor" not in str(nowhere)


def test_a_price_by_name_is_that_of_a_chip_of_ones_own_too() -> None:
    own = {"bf16": 3e14, "hbm": 2e12}
    both = bound("bf16[64, 64] * bf16[64, 64]", on=[own, "h100:8"], price="table,chip=1")
    alone = bound("bf16[64, 64] * bf16[64, 64]", on=own, price="chip=1")
    dollars = both.facts["$ a million runs"]
    assert [fact.value for fact in alone.facts() if fact.name.startswith("$")] == [dollars[0].value]
    assert dollars[1].value > dollars[0].value > 0
    with pytest.raises(InputError, match=r"each of chip: 1 given; .* price='chip=2.5'; table"):
        bound("bf16[64, 64] * bf16[64, 64]", on=own, price="h200=1")


def test_what_is_not_all_timed_shows_the_floor_of_its_timed_part_and_the_rates_of_its_chip() -> None:
    """An untimed part can only add: times of the rest are that or more, rates that or less, and no figure is hidden."""
    found = llm("llama-3-8b", on=["h100", "v6e", "v5e"], context=4096, price=2)
    alone = llm("llama-3-8b", on="v6e", context=4096, price=2)
    part = {name: facts[1] for name, facts in found.partial.items()}
    own = {fact.name: fact.value for fact in alone.facts()}
    assert set(part) == {name for name in own if name.endswith("at best") or name.startswith(("tokens/s", "$", "kWh"))}
    assert all(fact is not None and fact.value == own[name] for name, fact in part.items())
    assert [found.facts[name][1].value for name in ("matrix bf16", "main memory")] == [918e12, own["main memory"]]
    said = " ".join(str(found).split())
    assert "a token at best 4.64 ms* ≥ 9.49 ms 19 ms" in said
    assert "times the least 1x* ≥ 2.05x 4.09x" in said
    assert "tokens/s at best 215.6* ≤ 105.4 52.68" in said
    assert "h100 has the lowest floor: all are memory-bound" in said
    filled = llm("llama-3-8b", on="v6e", context=4096, price=2, set={"vector.bf16": "10TFLOP/s"})
    assert filled.decode is not None
    assert own["a token at best"] <= float(filled.decode.lower)
    trained = roofline.train("llama-3-8b", on=["h100:8", "v6e:8"], batch_tokens=2**16)
    steps = {f"a step {how}" for how in ("at best", "op by op", "at worst")}
    assert {*trained.partial} == {*steps, "MFU at most", "tokens a day"}
    assert "h100 alone is timed whole" in str(bound("fp64[4096, 8192] * fp64[8192, 8192]", on=["h100", "v5e"]))


@pytest.mark.parametrize("latency", some([None, "1us"], 2))
def test_hops_without_a_latency_are_an_untimed_part_that_may_change_the_order(latency: str | None) -> None:
    """One that lacks a part has no star and no rank; others have one only where its timed part takes longer already."""
    given = {"mi300x.xgmi.latency": latency} if latency else {}
    for found in (
        comm("AllReduce", bytes=64e3, on="mi300x:8,h100:8", set=given),
        llm("llama-3-70b", on="mi300x:8,h100:8", tensor=8, context=4096, price=2, set=given),
        roofline.train("llama-3-8b", on="mi300x:8,h100:8", fsdp=8, batch_tokens=2**16, set=given),
        shard("A[I, J_X] * B[J_X, K] -> C[I, K]", on="mi300x:8,h100:8", I=512, J=512, K=512, set=given),
    ):
        best = found.headline
        part = found.partial.get(best, (None,))[0]
        stars = found.best(best)
        said = " ".join(str(found).split())
        assert ("mi300x:8: not timed: hops" in said) is (latency is None)
        assert "NOT RANKED" not in said
        assert list(found.to_dict()["untimed"]) == ["mi300x:8"] * (latency is None)
        if part is not None:
            least = min(fact.value for fact in found.facts[best][1:])
            assert found.fastest != "mi300x:8"
            assert not stars if part.value < least else "mi300x:8" not in stars
            assert ("unless a hop there takes over" in said) is (
                best in found.break_evens[0] if found.break_evens else False
            )
            assert (part.value < least) is any(best in each for each in found.break_evens)
    same = llm("llama-3-70b", on="mi300x:8", kv="bf16,fp8", tensor=8, context=4096)
    assert (same.fastest, tuple(same.untimed_alike)) == ("mi300x:8 kv fp8", same.answers[0].incomplete)
    assert "incomplete not timed: hops" in " ".join(str(same).split())


def test_a_hop_of_the_break_even_makes_both_cost_the_same() -> None:
    """Longer or shorter by 1 % and one of them is the cheaper."""
    name, asked = "$ a million output tokens", {"tensor": 8, "batch": 64, "context": 8000, "weights": "fp8"}
    found = llm("llama-3.1-405b", on="b200:8,mi300x:8", price="5,2.2", **asked)
    said = " ".join(str(found).split())
    way = "then by direct, in 253 hops"  # where no latency is known the fewest bytes are taken, in 506
    assert f"cheapest unless a hop there takes over 94 µs ({way}): ≥ $1.202 against $1.818 a million" in said
    assert "weights alone are fp8: activations='fp8' has products, keys and values in it too" in said
    assert not roofline.llm("llama-3-8b", on="h100", weights="int4").weights_alone()
    assert found.to_dict()["break_evens"] == {"mi300x:8": found.break_evens[1]}
    longest, whole = found.break_evens[1][name], found.facts[name][0].value
    for times in (0.99, 1.01):
        alone = llm("llama-3.1-405b", on="mi300x:8", price=2.2, set={"xgmi.latency": times * longest}, **asked)
        assert (alone.cost["output"].dollars < whole) is (times < 1)
    apart = llm("llama-3.1-405b", on="b200:8", price=5, **asked).compare(
        llm("llama-3.1-405b", on="mi300x:8", price=2.2, **asked)
    )
    assert "NOT RANKED: mi300x:8" in str(apart)  # answers asked apart do not know how to be asked again


def test_a_sweep_says_that_hops_without_a_latency_are_not_in_its_ranking() -> None:
    grid = roofline.sweep("llama-3-70b", on="mi300x:8,h200:8", tensor=8, batch=[1, 8], context=4096)
    assert ("fastest", "h200:8 of those timed whole at both sizes") in grid.remarks()
    assert next(iter(grid.remarks()))[1].startswith("mi300x:8: not timed: hops at tensor")
    alike = roofline.sweep("llama-3-70b", on="mi300x:8", tensor=8, weights=["bf16", "fp8"], batch=[1, 8], context=4096)
    assert ("fastest", "by what is timed, weights fp8 at both sizes") in alike.remarks()


def test_the_cheapest_row_is_timed_whole_and_each_machine_has_its_own_above_the_table() -> None:
    """A part of the work at a lower cost ranks nobody: the same rule as side by side."""
    asked: dict[str, Any] = {"on": "h100:8,mi325x:8", "tensor": 8, "context": 4096, "price": 2.0}
    grid = roofline.sweep("mixtral-8x7b", batch=[8, 64], **asked)
    beside = llm("mixtral-8x7b", batch=64, **asked)
    assert grid.cheapest == 1
    assert grid["on"][grid.cheapest] == beside.fastest == "h100:8"
    assert grid["cost_per_million"][3] < grid["cost_per_million"][1]
    frame = grid.to_pandas()
    whole = frame[frame["incomplete"] == ""]
    assert whole["cost_per_million"].idxmin() == grid.cheapest
    assert set(frame["incomplete"][2:]) == {"; ".join(beside.untimed[1])}
    assert "incomplete" not in roofline.sweep("llama-3-8b", on="h100,h200", batch=[1, 8]).to_pandas()
    last = roofline.sweep("llama-3-8b", on=["h100:8", "mi325x:8"], tensor=[8, 16], batch=[1, 8], context=4096)
    assert [last.is_partial(row) for row in range(8)] == [False] * 4 + [True] * 2 + [False] * 2
    assert list(last.sections())
    said = str(grid)
    dollars, tokens = float(grid["cost_per_million"][1]), 1e6 / float(grid["cost_per_million"][1])
    assert f"${dollars:.4g} a million tokens ({tokens / 1e6:.3g}M for a dollar) of those timed whole: on h100:8" in said
    drawn = [mark.label for mark in beside.plot().marks if "at best" in mark.label]
    assert [re.sub(r": [\d.]+ ms", "", label) for label in drawn] == [
        "h100:8: a token at best",
        "mi325x:8, by what is timed: a token at best",
    ]
    assert "NOT RANKED" not in beside.one_line()
    best = [row for row in said.split("the cheapest row of each")[1].splitlines() if row.startswith(("h100", "mi325x"))]
    assert [row.split()[:2] for row in best[:2]] == [["h100:8", "64"], ["mi325x:8", "64"]]
    assert "≥ $" not in best[0]
    assert best[1].count("≥") == 3
    assert said.index("the cheapest row of each") < said.index("at best") < said.index("assumes")


def test_several_batches_stand_beside_several_formats_and_machines() -> None:
    """Each cell is what the question alone answers, of a chip with room enough where it does not fit."""
    found = llm("llama-3-8b", on="h100", batch=[8, 65, 66], context=8000, kv="bf16,fp8")
    for sizes, one in zip(found.sizes, found.each, strict=True):
        for kv, answer in zip(("bf16", "fp8"), one.answers, strict=True):
            assert answer.decode.lower == llm("llama-3-8b", on="h100", context=8000, kv=kv, **sizes).decode.lower
    assert found.each[2].fitting == [False, True]
    (head,) = [line for line in str(found).splitlines() if line.split()[:1] == ["66"]][:1]
    assert f"does not fit: {found.each[2].answers[0].decode.lower * 1e3:.3g} ms" in head
    assert "does not fit: of a chip with room enough" in str(found)
    (ratios,) = [each for each in found.sections() if isinstance(each, Table) and each.name == "times the least"]
    over = [[cell.value for cell in row.cells[1:]] for row in ratios.rows]
    assert over == [one.times_the_best for one in found.each]
    assert "h100 kv fp8 has the lowest floor" in str(found)
    crossed = llm("llama-3-8b", on=["h100", "h200"], batch=[1, 8], context=[4096, 8192])
    assert [dict(each) for each in crossed.sizes] == [{"batch": 1, "context": 4096}, {"batch": 8, "context": 8192}]
    assert crossed.to_pandas()["on"].tolist() == ["h100", "h200"] * 2
    with pytest.raises(InputError, match="sizes do not go in pairs: 3 of batch=, 2 of context=; lists of one length"):
        llm("llama-3-8b", on=["h100", "h200"], batch=[1, 8, 64], context=[4096, 8192])
    with pytest.raises(InputError, match="take up to 64 sizes, not 100; sweep takes several machines, formats and"):
        llm("llama-3-8b", on=["h100", "h200"], batch=range(1, 101), context=4096)


def test_where_all_are_equal_none_has_the_lowest_floor() -> None:
    line = "bf16[64, 8192] * bf16[8192, 8192]"
    same = compare(
        *(bound(line, on="h100", policy=policy) for policy in ("each-op", "minimal")), names=["one", "other"]
    )
    assert same.is_even
    assert "all have the same floor" in str(same)
    assert "1x*" not in str(same)
    assert same.one_line() == "SideBySide: one, other"
    assert not compare(bound(line, on="a100"), bound(line, on="h100")).is_even
    asked = {"on": ["h100", "h200", "b200"], "context": 4096, "set": {"hbm": "1 TB/s"}}
    batches = llm("llama-3-8b", batch=[1, 200, 300, 1024], **asked)
    assert str(batches).splitlines()[2:6] == [
        "  all have the same floor at batch 1",
        "  those that it fits on have the same floor at batch 200",
        "  b200 has the lowest floor at batch 300",
        "  nothing fits at batch 1,024",
    ]
    assert "all have the same floor, if it fitted" in str(llm("llama-3-8b", batch=1024, **asked))


def test_where_the_best_changes_with_the_batch_it_is_said_from_which_on() -> None:
    said = str(llm("llama-3-8b", on=["l40s", "a100"], batch=[1, 8, 2048], context=64)).splitlines()
    assert said[2:4] == [
        "  a100 has the lowest floor from batch 1 to batch 8",
        "  l40s has the lowest floor at batch 2,048",
    ]


def test_answers_at_several_sizes_are_drawn_over_the_size_with_the_most_values(tmp_path: Path) -> None:
    asked = {"on": ["h100", "h200"], "context": 8192}
    found = llm("llama-3-8b", batch=[1, 8, 64], **asked)
    lines = {line.label: dict(zip(line.x, line.y, strict=True)) for line in found.plot().lines}
    for who in ("h100", "h200"):
        for batch, time in lines[who].items():
            alone = llm("llama-3-8b", on=who, batch=int(batch), context=8192)
            assert time == pytest.approx(float(alone.time_per_token), rel=1e-12)
    words = ["llm", "llama-3-8b", "--on", "h100,h200", "--batch", "1,8,64", "--context", "8Ki"]
    assert main([*words, "-o", str(tmp_path / "x.svg")]) == 0
    assert "a token at best over batch" in (tmp_path / "x.svg").read_text()
    one = ["llm", "llama-3-8b", "--on", "h100,h200", "--context", "8Ki", "-o", str(tmp_path / "y.svg")]
    assert main(one) == 0
    assert "h200" in (tmp_path / "y.svg").read_text()
    with pytest.raises(InputError, match="no answer fits the memory, so there is nothing to draw"):
        llm("llama-3-8b", batch=[4096, 8192], **asked).plot()


def test_answers_side_by_side_explain_each_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    alone = {chip: llm("llama-3-8b", on=chip, batch=8, context=8192).explain() for chip in ("h100", "h200")}
    assert llm("llama-3-8b", on=["h100", "h200"], batch=8, context=8192).explain() == "\n\n".join(
        f"{chip}\n\n{said}" for chip, said in alone.items()
    )
    words = ["llm", "llama-3-8b", "--on", "h100,h200", "--batch", "1,8", "--context", "8Ki", "--explain"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert all(each in said for each in alone.values())
    assert said.startswith("batch 1\n")
    with pytest.raises(InputError, match=r"explain\(\) says nothing of this answer; it is of steps and operations"):
        solve("bf16[B, D] * bf16[D, F]", "B", on=["h100", "v5e"], D=8192, F=8192).explain()


def test_byte_policies_stand_side_by_side_in_python_and_in_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    line = "x = relu(bf16[8192, 8192]); sum(x)"
    for listed in ("each-op,fused", ["each-op", "fused"]):
        found = bound(line, on="h100", policy=listed)
        assert found.names == ("h100 policy each-op", "h100 policy fused")
        assert [each.lower for each in found.answers] == [
            bound(line, on="h100", policy=policy).lower for policy in ("each-op", "fused")
        ]
    assert main(["llm", "llama-3-8b", "--on", "h100", "--context", "8Ki", "--policy", "each-op,minimal"]) == 0
    assert "h100 policy minimal" in capsys.readouterr().out


def test_machines_are_ranked_within_a_byte_policy() -> None:
    """A policy counts other bytes of the same run: it is no candidate."""
    line = "gelu(bf16[64, 8192] * bf16[8192, 8192])"
    found = bound(line, on="h100,a100", policy="each-op,minimal")
    said = " ".join(str(found).split())
    assert found.policies == ("each-op", "minimal") * 2
    for policy in ("each-op", "minimal"):
        assert f"by policy {policy} h100 has the lowest floor" in said
    assert "h100 policy minimal has the lowest" not in said
    assert "lowest floor" not in str(bound(line, on="h100", policy="each-op,minimal"))
    assert "by policy minimal h100 has the lowest floor" in " ".join(
        str(llm("llama-3-8b", on="h100,a100", policy="each-op,minimal", context=[1024, 2048])).split()
    )
    alike = llm("llama-3-8b", on="h100", context=1024).compare(
        llm("llama-3-8b", on="a100", policy="minimal", context=1024)
    )
    assert "by policy" not in str(alike)


def test_a_saved_answer_is_data() -> None:
    found = bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100")
    for saved in ("x.json", Path("x.json"), found.to_dict()):
        with pytest.raises(InputError, match=r"saved is data, as json.load reads it.*pickle.load gives back an answer"):
            compare(saved, saved)
    kept = pickle.loads(pickle.dumps(found))
    assert compare(found, kept, names=("now", "then")).times_the_best == [1.0, 1.0]


def test_whole_sizes_are_written_as_whole_numbers() -> None:
    found = llm("llama-3-8b", on=["h100", "h200"], batch=np.array([1.0, 8.0]), context=8192)
    assert found.sizes == ({"batch": 1}, {"batch": 8})
    assert "1.0" not in str(found).split("assumes")[0]


def test_what_decides_is_said_of_the_time_that_is_compared() -> None:
    found = llm("llama-3-8b", on="a100,h100", batch=8, prompt=512, context=1024)
    assert {each.prefill.kind for each in found.answers} == {"compute-bound"}
    said = " ".join(str(found).split())  # of prefill, which gives the first token
    assert said.startswith("llama-3-8b prefill and decode, batch 8, prompt 512, context 1,024, side by side")
    assert "h100 has the lowest floor of first tokens: all are compute-bound, and it has the most matrix" in said
    alone = str(llm("llama-3-8b", on="a100,h100", batch=[8, 9], context=1024))
    assert alone.startswith("llama-3-8b  decode, context 1,024, side by side\n\n  h100 has the lowest floor\n")
    each = [llm(model, on=on, context=4096) for model in ("llama-3-8b", "qwen3-8b") for on in ("h100", "h200")]
    said = " ".join(str(compare(*each)).split())
    assert "all are memory-bound, and of those with the most memory bandwidth it moves the fewest bytes" in said


def test_chips_that_are_as_fast_lead_alike() -> None:
    line = "bf16[8192, 8192] @ bf16[8192, 8192]"
    found = bound(line, on="h100,gh200,a100")
    said = " ".join(str(found).split())
    reason = "all are compute-bound, and they have the most matrix bf16 FLOP/s"
    assert f"h100 and gh200 alike have the lowest floor: {reason}" in said
    assert "times the least 1x* 1x* 3.17x" in said
    alike = llm("llama-3-8b", on="h200,h200-nvl,a100", context=[1024, 4096], price=2)
    assert "h200 and h200-nvl alike have the lowest floor" in str(alike)
    assert "h200 and h200-nvl alike have the lowest $ a million output tokens" in str(alike)
    assert "h200 and h200-nvl alike are the cheapest: $" in " ".join(str(alike.each[0]).split())


def test_expected_times_stand_with_their_intervals() -> None:
    line = "bf16[4096, 4096] * bf16[4096, 4096]"
    alone = bound(line, on="a100", estimate=True).expectation
    both = bound(line, on="a100,h100", estimate=True)
    shown, frame = str(both), both.to_pandas()
    assert f"({alone.low * 1e6:.0f}–{alone.high * 1e6:.0f} µs)" in shown
    assert (frame["low"][0], frame["high"][0]) == (alone.low, alone.high)
    assert "at worst" in shown
    assert "at most" not in shown
    steps = roofline.train("llama-3-8b", on="h100:64,a100:64", batch_tokens=2**20, estimate=True)
    assert steps.facts["a step, expected"][0].value == steps.answers[0].expectation.value


def test_what_is_expected_has_its_interval_in_every_table_of_machines(capsys: pytest.CaptureFixture[str]) -> None:
    found = bound(LINE, on="h100,a100", estimate=True)
    ends = [(each.expectation.low, each.expectation.high) for each in found.answers]
    assert [fact.interval for fact in found.facts["expected"]] == ends
    assert found.to_pandas()["low"].tolist() == [low for low, _ in ends]
    assert "80% from" not in str(found)
    served = llm("llama-3-8b", on="h100,a100", batch=[1, 8], context=8192, estimate=True)
    for one in served.each:
        for answer, fact in zip(one.answers, one.facts["decode, expected"], strict=True):
            expected = answer.decode.expectation
            assert fact.interval == (expected.low, expected.high)
            assert f"({format_range(expected.low, expected.high, 's')}, extrapolated)" in str(served)
    assert "in brackets where 80% of runs are expected" in str(found)
    assert "in brackets" not in str(served)  # no step of that format was measured
    assert main(["llm", "llama-3-8b", "--on", "h100,a100", "--batch", "1,8", "--context", "8k"]) == 0
    assert "in brackets" not in capsys.readouterr().out


def test_the_cheapest_of_several_batches_and_what_would_fit_are_said() -> None:
    asked = {"on": "h100:8,h200:8,b200:8", "context": 8000}
    found = llm("llama-3-70b", tensor=8, batch=[8, 128, 256], price="2,3.5,5", **asked)
    text = " ".join(str(found).split())
    assert "h100:8 has the lowest $ a million output tokens from batch 8 to batch 128" in text
    assert "b200:8 has the lowest $ a million output tokens at batch 256" in text
    assert "h100:8 at batch 256 would fit: batch 205 at this context" in text
    copies = " ".join(str(llm("llama-3-70b", batch=[32, 64], **asked)).split())
    assert "h100:8 at batch 32 would fit: split over the 8 (tensor=8)" in copies
    assert copies.count("would fit:") == 1
    assert "would fit" not in str(llm("llama-3-70b", tensor=8, batch=[8, 16], **asked))


def test_several_models_stand_side_by_side_as_several_machines_do(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is its own answer; the facts name its model, on the command line too."""
    models, chips = ["llama-3-8b", "qwen3-8b"], ["h100", "a100"]
    found = llm(models, on=chips, batch=8, context=4096)
    each = [llm(model, on=on, batch=8, context=4096).time_per_token for on in chips for model in models]
    assert [one.time_per_token for one in found.answers] == each
    assert found.names == ("h100 llama-3-8b", "h100 qwen3-8b", "a100 llama-3-8b", "a100 qwen3-8b")
    assert found.to_pandas()["model"].tolist() == models * 2
    assert found.subject == "llama-3-8b, qwen3-8b"
    assert llm(models, on="h100", batch=[1, 8], context=64).names == found.names[:2]
    steps = train([load(model) for model in models], on="h100:8", batch_tokens=65536)
    assert steps.names == ("h100:8 llama-3-8b", "h100:8 qwen3-8b")
    asked = ["llm", ",".join(models), "--on", ",".join(chips), "--batch", "8", "--context", "4096", "--json"]
    main(asked)
    assert json.loads(capsys.readouterr().out)["facts"]["a token at best"] == each
    assert llm(model=",".join(models), on="h100", context=64).names == found.names[:2]
    alone = llm(models[0], on="h100", context=64).time_per_token
    for one in (llm(models[:1], on="h100", context=64), llm(model=f"{models[0]},", on="h100", context=64)):
        assert one.time_per_token == alone
    with pytest.raises(InputError, match="measured= is a time of one answer, and these are 2"):
        train(models, on="h100:8", batch_tokens=65536, measured="10 s")
    with pytest.raises(InputError, match=r"one model here, not 2: .*; llm and train put several"):
        load(",".join(models))


def test_several_collectives_stand_side_by_side_as_they_are_named_or_listed() -> None:
    found = comm("all-gather,reduce_scatter 1GB", on="a100:8")
    assert found.names == ("a100:8 all-gather 1GB", "a100:8 reduce_scatter 1GB")
    listed = comm(["AllGather", "ReduceScatter"], bytes=1e9, on="a100:8")
    each = [comm(name, bytes=1e9, on="a100:8").time for name in ("allgather", "reduce-scatter")]
    assert [one.time for one in found.answers] == [one.time for one in listed.answers] == each


def test_policies_are_compared_by_what_each_alone_takes_kernel_by_kernel() -> None:
    line = "h = gelu(bf16[512, 1024] @ bf16[1024, 4096]); h @ bf16[4096, 1024]"
    policies = ("each-op", "fused")
    alone = [bound(line, on="a100", policy=policy).op_by_op for policy in policies]
    found = bound(line, on="a100", policy=list(policies))
    assert [fact.value for fact in found.facts["kernel by kernel"]] == alone
    # by hand: a joined gelu lies under the arithmetic of its product; apart it reads and writes 4.2 MB each
    product, moved = 2 * 512 * 1024 * 4096 / 312e12, 2 * 2 * 512 * 4096 / 2.039e12
    assert alone == pytest.approx([2 * product + moved, 2 * product], rel=1e-3)
    text = str(found)
    assert "kernel by kernel a100 policy fused takes the least" in " ".join(text.split())
    assert re.search(r"kernel by kernel +31.6 µs +27.5 µs\n", text)


def test_layouts_of_a_step_say_which_resource_makes_the_difference() -> None:
    asked: dict[str, Any] = {"on": "h100:8", "batch_tokens": 65_536}
    one = roofline.train("llama-3-70b", tensor=8, **asked)
    other = roofline.train("llama-3-70b", tensor=4, data=2, **asked)
    found = roofline.compare(one, other, names=["tp8", "tp4 x dp2"])
    times = [fact.value for fact in found.facts["time on nvlink"] if fact is not None]
    assert times == [answer.bound.times["nvlink"] for answer in (one, other)]
    assert [format_amount(time, "s") for time in times] == ["1.68 s", "798 ms"]
    said = "op by op tp4 x dp2 takes the least: time on nvlink is 798 ms, and 1.68 s of tp8"
    assert said in " ".join(str(found).split())
    frame = found.to_pandas()
    assert frame["time_on_nvlink"].tolist() == times
    assert "not alike" not in str(found)
    assert [line for line in found.explain().splitlines() if line in found.names] == ["tp8", "tp4 x dp2"]
    assert "layers.0-79.mlp.reduce_scatter gradient " in str(found)


def test_layouts_whose_microbatches_were_chosen_for_them_are_told_apart_beside_the_verdict() -> None:
    asked: dict[str, Any] = {"on": "h100:64", "batch_tokens": "512*4096", "sequence": 4096, "checkpoint": "full"}
    layouts: list[dict[str, Any]] = [{"tensor": 8, "fsdp": 8}, {"tensor": 4, "data": 2, "fsdp": 8}]
    alone = [roofline.train("llama-3-70b", **asked, **each) for each in layouts]
    found = alone[0].compare(alone[1])
    assert [answer.microbatches for answer in alone] == [1, 2]
    head = " ".join(str(found).partition("a step at best")[0].split())
    assert "not alike: microbatches 1 and 2, as none were given, and each has the fewest that fit" in head
    nvlink = [format_amount(fact.value, "s") for fact in found.facts["time on nvlink"] if fact is not None]
    assert f"time on nvlink is {nvlink[1]}, and {nvlink[0]} of" in head
    same = [roofline.train("llama-3-70b", microbatches=2, **asked, **each) for each in layouts]
    assert "not alike" not in str(same[0].compare(same[1]))


def test_stages_that_wait_and_a_changed_chip_are_said_to_make_the_difference() -> None:
    asked: dict[str, Any] = {"on": "h100:64", "tensor": 8, "pipeline": 8, "batch_tokens": "1Mi"}
    few, many = (roofline.train("llama-3-70b", microbatches=count, **asked) for count in (64, 128))
    found = roofline.compare(few, many, names=["64", "128"])
    waits = [fact.value for fact in found.facts["waiting for other stages"] if fact is not None]
    assert waits == [pytest.approx(answer.idle) for answer in (few, many)]
    assert "128 has the lowest floor: waiting for other stages takes 389 ms, and 778 ms of 64" in " ".join(
        str(found).split()
    )
    asked = {"batch": 8, "context": 4096}
    usual = roofline.llm("llama-3-8b", on="h100", **asked)
    quick = roofline.llm("llama-3-8b", on=roofline.chip("h100", hbm="+20%"), **asked)
    said = " ".join(str(roofline.compare(usual, quick, names=["usual", "quick"])).split())
    assert "decode time on hbm" in said
    assert "time on" not in str(roofline.llm("llama-3-8b", on="h100,h200", **asked))


def test_a_name_of_ones_own_with_a_colon_is_no_number_of_chips() -> None:
    on_eight = llm("llama-3-70b", on="h100:8", tensor=8, batch=8, context=4096)
    on_four = llm("llama-3-70b", on="h200:4", tensor=4, batch=8, context=4096)
    (said,) = compare(on_eight, on_four, names=["ours: now", "then"]).verdicts()
    assert said.startswith("ours: now has the lowest floor on 8 chips; then comes next")
    (said,) = compare(on_eight, on_four).verdicts()
    assert said.startswith("h100:8 tensor 8 has the lowest floor; h200:4 tensor 4 comes next")
