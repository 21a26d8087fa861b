"""Options that would have no effect are errors; tables mark what does not fit, and take lists of raw amounts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline import bound, solve, sweep
from roofline.bounds.solve import solve_dtypes
from roofline.cli import main
from roofline.errors import InputError
from tests.strategies import some

MATMUL = "bf16[B, D] * bf16[D, F] -> bf16[B, F]"
SIZES: dict[str, Any] = {"B": 64, "D": 8192, "F": 8192}
SEVERAL: list[tuple[dict[str, Any], str]] = [
    ({"plan": "fewest"}, "plan="),
    ({"density": 0.5}, "density="),
    ({"algorithm": "book"}, "algorithm="),
    ({"wrap": False}, "wrap="),
    ({"uneven": "pad"}, "uneven="),
]


@pytest.mark.parametrize(("idle", "name"), SEVERAL)
def test_options_about_several_chips_need_several_chips(idle: dict[str, Any], name: str) -> None:
    message = re.escape(f"{name} has no effect: nothing is sharded here, and nothing is a collective; shard a dim")
    for ask in (bound, sweep):
        with pytest.raises(InputError, match=message):
            ask(MATMUL, on="v5e:4", **SIZES, **idle)
    with pytest.raises(InputError, match=message):
        solve(MATMUL, for_="B", on="v5e:4", D=8192, F=8192, **idle)
    with pytest.raises(InputError, match=message):
        solve_dtypes(MATMUL, on="v5e:4", **SIZES, **idle)
    word = name.partition("=")[0]
    with pytest.raises(InputError, match=f"{word}= says nothing about raw work"):
        bound(flops=1e12, on="v5e:4", **idle)
    if word != "plan":  # of a collective alone there is one
        assert bound("AllToAll_{X,D}(bf16[B_X, D])", on="v5e:4", B=64, D=64, **idle).lower > 0


@pytest.mark.parametrize("option", ["--sharp", "--density=0.5", "--plan=1", "--algorithm=book"])
@pytest.mark.parametrize("command", ["bound", "solve", "sweep", "advise"])
def test_the_commands_refuse_them_too(command: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    rest = ["--for", "B"] if command == "solve" else ["B=64"]
    assert main([command, MATMUL, "--on", "v5e:4", "D=8192", "F=8192", *rest, option]) == 2
    assert "has no effect: nothing is sharded here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "work", "more"),
    some(
        [
            (command, work, more)
            for command in ("advise", "plot")
            for work in ([MATMUL, "B=64", "D=8192", "F=8192"], ["--flops", "1e12", "--bytes", "1e9"])
            for more in (["--link", "1e9"], ["--set", "nvlink=1e9"])
        ],
        3,
    ),
)
def test_a_link_says_nothing_of_one_chip(
    command: str, work: list[str], more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *work, "--on", "h100:8", *more]) == 2
    assert "a link's figure has no effect: nothing is sharded here" in capsys.readouterr().err
    sharded = ["bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "B=64", "D=8192", "F=8192"]
    assert main([command, *sharded, "--on", "h100:8", *more]) == 0
    # a bound says it among its assumptions
    assert main(["bound", *work, "--on", "h100:8", *more]) == 0
    assert "given by the caller: nvlink at 1 GB/s" in capsys.readouterr().out


def test_a_hop_of_a_link_says_nothing_of_one_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", MATMUL, "B=64", "D=8192", "F=8192", "--on", "h100:8", "--set", "nvlink.latency=2us"]) == 2
    assert "a link's figure has no effect: nothing is sharded here" in capsys.readouterr().err


@pytest.mark.parametrize(
    "asked", [["from_host(bf16[B, D]) * bf16[D, F]"], [MATMUL, "--over", "pcie"], [MATMUL, "--over", "host"]]
)
@pytest.mark.parametrize("command", ["advise", "plot"])
def test_a_link_over_which_data_comes_from_the_host_has_an_effect(command: str, asked: list[str]) -> None:
    """The bus of a card without another link: its chips send each other data over it, and the host does."""
    assert main([command, *asked, "B=64", "D=8192", "F=8192", "--on", "rtx-4090", "--set", "pcie=2e10"]) == 0


def test_axes_to_use_that_are_used_anyway_are_idle() -> None:
    line = "bf16[B, D_X] * bf16[D_X, F]"
    with pytest.raises(InputError, match="use= has no effect: each of its axes is sharded over already"):
        bound(line, on="v5e:8", **SIZES, use=("X",))
    assert bound(line, on="v5e:4x2", **SIZES, mesh={"X": 4, "Y": 2}, use=("X", "Y")).lower > 0


@pytest.mark.parametrize("command", some(["bound", "shard", "advise", "plot", "sweep", "formula"], 2))
def test_an_algorithm_of_a_collective_that_no_plan_has_is_idle(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = () if command == "formula" else ("B=64", "D=8192", "F=8192")
    line = "bf16[B, D_X] * bf16[D_X, F]"
    assert main([command, line, "--on", "h100:8", "--sharp", *sizes]) == 2
    assert "--algorithm (or --sharp) has no effect: no collective here is of that kind" in capsys.readouterr().err
    assert main([command, f"{line} -> bf16[B, F]", "--on", "h100:8", "--sharp", *sizes]) == 0
    assert main([command, f"{line} -> bf16[B, F]", "--on", "h100:8", "--valid-only", *sizes]) == 2
    assert "--valid-only has no effect: nothing here is a convolution" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--dark", "--width=400"])
def test_a_look_of_a_picture_needs_its_file(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "--on", "h100", option]) == 2
    assert f"{option.partition('=')[0]} is of a picture; end -o in .svg, .png or .pdf" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mesh", "each"),
    [
        ({"X": 4, "Y": 2}, "each of the 8 chips"),
        ({"X": np.int8(4), "Y": np.float32(2)}, "each of the 8 chips"),
        ({"X": "n"}, "each chip"),
    ],
)
def test_a_mesh_over_which_nothing_is_sharded_is_said(mesh: dict[str, Any], each: str) -> None:
    alone, meshed = (bound(MATMUL, on="h100", **SIZES, **more) for more in ({}, {"mesh": mesh}))
    assert meshed.lower == alone.lower
    assert meshed.idle_copies().startswith(f"nothing is sharded: {each} does all of this; an axis behind a size shares")
    json.dumps(meshed.to_dict())
    assert not any("sharded" in said for said in alone.assumptions)
    with pytest.raises(InputError, match="mesh= says nothing about raw work"):
        bound(flops=1e12, on="h100", mesh=mesh)


def test_a_row_says_what_bound_says_of_its_memory() -> None:
    grid = sweep(MATMUL, on="h100", B=[1, 64], D=[8192, 262144], F="D")
    assert grid.plain("fits") == [True, False, True, False]
    for index in range(4):
        needed = grid.row(index).footprint
        assert needed is not None
        assert needed.fits is grid.plain("fits")[index]
    assert [str(row[-2]) for row in grid.rows(2)] == ["yes", "no"]
    assert "fits" not in sweep(MATMUL, on="h100", **SIZES).columns
    assert sweep(MATMUL, on="h100", columns="fits", **SIZES).plain("fits") == [True]
    assert sweep(flops=1e12, on="h100", columns="lower, fits").plain("fits") == [None]
    split = {"on": "h100:8", "B": 64, "D": [8192, 262144], "F": "D"}
    assert sweep("bf16[B, D] * bf16[D, F_X] -> bf16[B, F_X]", columns=["fits"], **split).plain("fits") == [True, True]


def test_a_table_has_the_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = sweep(MATMUL, on="h100", overlap=0.5, B=[1, 64], D=8192, F=8192)
    assert grid["estimate"][1] == bound(MATMUL, on="h100", overlap=0.5, **SIZES).estimate
    words = ["sweep", MATMUL, "--on", "h100", "B=64", "D=8192,262144", "F=D", "--overhead", "5us"]
    assert main([*words, "--json"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert columns["fits"] == [True, False]
    assert columns["estimate"][0] == pytest.approx(columns["lower"][0] + 5e-6)
    assert main([*words, "-o", str(tmp_path / "grid.csv")]) == 0
    assert (tmp_path / "grid.csv").read_text().splitlines()[2].split(",")[-2:] == ["False", "hbm"]


def test_lists_of_raw_work() -> None:
    work = {"bytes": 1e9, "on": "h100"}
    several = bound(flops=[1e12, "2 TFLOP"], **work)
    assert several.lower.tolist() == bound(flops=np.array([1e12, 2e12]), **work).lower.tolist()
    assert bound(intensity=[1, 1000], on="h100").bound_by.decode() == ["hbm", "tensor"]
    grid = sweep(flops=[1e12, 2e12], bytes=[5e9], on="h100", columns="lower")
    assert (grid.names, grid.plain("flops")) == (("flops", "bytes"), [1e12, 2e12])
    assert grid.row(1).lower == grid["lower"][1] == bound(flops=2e12, bytes=5e9, on="h100").lower
    assert sweep(intensity=np.array([0.5, 2]), on="h100").plain("intensity") == [0.5, 2]
    assert list(sweep(intensity=[0.5, 2], on="h100")) == ["intensity", "attainable", "bound_by"]
    assert "lower" in sweep(intensity=[0.5, 2], on="h100", columns="lower,attainable")
    assert len(sweep(flops=[1e12, 2e12], bytes="4*n", n=[1, 2, 3], on="h100")) == 6
    with pytest.raises(InputError, match="-1 is negative"):
        bound(flops=[1, -1], **work)
    with pytest.raises(InputError, match=re.escape("-1.0 is negative")):
        sweep(flops=np.array([1, -1.0]), **work)


def test_an_axis_stays_where_it_is_only_by_no_collective() -> None:
    message = re.escape("AllToAll_X moves X to another dimension, and it shards B already; as in AllToAll_{X,D}(…)")
    for line in ("AllToAll_{X,B}(bf16[B_X, D])", "AllToAll_{X,B}(bf16[B_XY, D])"):
        with pytest.raises(InputError, match=message):
            bound(line, on="v5e:4x4", B=64, D=64)
    assert bound("AllToAll_{X,D}(bf16[B_X, D_Y])", on="v5e:4x4", B=64, D=64).lower > 0


def test_an_axis_says_whether_it_closes() -> None:
    """A bare axis of a torus: what numbers, arrays and formulas take."""
    asked: dict[str, Any] = {"on": "v5p", "mesh": {"X": "n"}, "B": 65536, "D": 8192}
    said = {
        "axis X: 16 chips in a line, without wrap-around": {"n": 16},
        "axis X: a ring where a slice of its size closes, else a line without wrap-around": {"n": np.array([8, 16])},
        "axis X: taken to have wrap-around and an even size above 2": {},
        "axis X: without wrap-around, as asked": {"wrap": False},
    }
    for words, given in said.items():
        assert words in bound("AllGather_X(bf16[B_X, D])", **asked, **given).assumptions
    line = bound("AllGather_X(bf16[B_X, D])", **asked, wrap=False).times["ici X"]
    number = bound("AllGather_X(bf16[B_X, D])", **asked, n=16).times["ici X"]
    assert float(line.subs({s: 16 if s.is_integer else 9e10 for s in line.free_symbols})) == pytest.approx(number)


@pytest.mark.parametrize("given", [["--intensity", "7,25"], ["--intensity", "I", "I=7,25"]])
def test_several_intensities_are_shown_from_the_least_to_the_most(given, capsys) -> None:
    assert main(["bound", *given, "--dtype", "fp32", "--on", "1080ti"]) == 0
    assert "attainable 3.39 TFLOP/s … 11.3 TFLOP/s, 30% … 100% of peak" in capsys.readouterr().out


def test_a_list_of_amounts_is_written_as_one() -> None:
    assert bound(intensity=[7, 25], dtype="fp32", on="1080ti").expression == "intensity [7, 25], dtype fp32"
    assert bound(flops=np.arange(1, 9) * 1e12, on="h100").expression == "flops [1e+12, 2e+12, …, 8e+12], dtype bf16"
