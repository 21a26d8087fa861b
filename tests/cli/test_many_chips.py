"""The commands about several chips: what they print, as JSON and as text, and their messages."""

from __future__ import annotations

import json

import pytest

from roofline.cli import main

SPLIT = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_bound_takes_the_best_plan_and_lists_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("bound", SPLIT, "--on", "v5e:2", "--link", "4.5e10", "B=64", "D=1024", "F=32768")
    found = json.loads(run(capsys, *words, "--json"))
    assert found["plan"] == "AllReduce_X(bf16[B, F] {U_X})"
    assert found["times"]["ici X"] / found["times"]["mxu"] == pytest.approx(8.5503472222)
    assert [plan["rank"] for plan in found["plans"]] == [1, 2, 3, 4]
    assert found["comms_over_math"] == pytest.approx(8.5503472222)
    shown = run(capsys, *words)
    assert "93.2 µs of communication against 10.9 µs of arithmetic: 8.55 times as long" in shown
    assert "plans  1.  AllReduce_X" in shown
    assert "AllReduce over X (2 chips): direct" in shown


def test_solve_names_every_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "solve", SPLIT, "--for", "D", "--on", "v5e:8", "--link", "4.5e10", "--json"))
    values = {row["algorithm"]: round(row["value"], 1) for row in found["by_algorithm"]}
    assert values["direct"] == 245155.6
    assert values["one-way ring"] == 61288.9
    assert values["two-way ring"] == 30644.4
    assert values["book"] == 35022.2
    assert found["collectives"] == ["AllReduce over X by chain"]
    shown = run(capsys, "solve", SPLIT, "--for", "D", "--on", "v5e:8", "--link", "4.5e10")
    assert "AllReduce over X by chain" in shown


def test_comm_by_the_switches(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("comm", "AllReduce_X(bf16[B, D] {U_X})", "--on", "dgx-h100:1024", "--sharp", "B=8192", "D=8192", "--json")
    found = json.loads(run(capsys, *words))
    assert found["algorithm"] == "in-switch"
    assert {"tree", "book"} <= {row["algorithm"] for row in found["algorithms"]}


def test_layout(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("layout", "int8[I_XY, J]", "--mesh", "X=2,Y=8,Z=2", "I=128", "J=2048")
    found = json.loads(run(capsys, *words, "--json"))
    assert (found["local"], found["bytes"], found["total_bytes"], found["copies"]) == ([8, 2048], 16384, 524288, 2)
    assert "each chip" in run(capsys, *words)


def test_shard_lists_every_plan(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("shard", "A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]", "--on", "v5p:4x4x4", "I=8192", "J=8192", "K=8192")
    found = json.loads(run(capsys, *words, "--json"))
    assert found["plans"][0]["name"] == "AllGather_X(B[J_X, K_Y])"
    assert "1. " in run(capsys, *words)


def test_open_sizes_give_formulas_of_every_plan(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("shard", "A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]", "--on", "v5p:4x4x4")
    first = json.loads(run(capsys, *words, "--json"))["plans"][0]
    assert first["link_bytes"] is None
    assert first["formulas"]["link_bytes"] == "3*J*K/16"
    assert first["formulas"]["math"] == "I*J*K/(8*P_bf16)"
    shown = run(capsys, *words)
    assert "3*J*K/16" in shown
    assert "sizes are open or arrays" in shown


def test_arrays_give_the_range_of_every_plan(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("shard", "A[I_X, J] * B[J, K_X] -> C[I, K_X]", "--on", "v5p:4", "I=4096,8192", "J=8192", "K=8192")
    found = json.loads(run(capsys, *words, "--json"))["plans"][0]
    assert found["link_bytes"] == [3 * 4096 * 8192 // 2, 3 * 8192 * 8192 // 2]
    assert "559 µs … 1.12 ms" in run(capsys, *words)


def test_formulas_of_a_collective_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "comm", "AllReduce_X(bf16[B, D] {U_X})", "--on", "dgx-h100:1024", "--sharp")
    assert "…" not in shown
    assert "in-switch 4 Max(B*D/(4*W_ib), 2*B*D/W_nvlink, B*D/(128*W_spine))" in " ".join(shown.split())
    shown = run(capsys, "comm", "AllGather_X(bf16[B_X, D])", "--on", "v5e", "--mesh", "X=n")
    assert "latency-bound below 45000*n**2/(n - 1) bytes" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("shard",), "the expression is missing"),
        (
            ("shard", SPLIT, "--on", "v5e:2", "--plan", "2"),
            "No such option '--plan'; that is an option of",
        ),
        (("comm", "bf16[B, D] * bf16[D, F]", "--on", "v5e:2"), "comm prices one collective"),
        (("layout", "bf16[B_Q, D]", "--mesh", "X=2"), "mesh axis Q is not declared; the axes are: X"),
        (("layout", "bf16[B_X, D]", "--mesh", "X"), "--mesh 'X' is not AXIS=SIZE"),
        (("bound", SPLIT, "--on", "v5e", "--mesh", "X=0", "B=8", "D=8", "F=8"), "size X is 0"),
        (("bound", SPLIT, "--on", "v5e:2", "--algorithm", "a", "--algorithm", "b"), "several algorithms are given"),
    ],
)
def test_messages(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    assert main(list(words)) == 2
    assert message in capsys.readouterr().err


def test_a_shape_without_a_known_link_asks_for_the_link_and_still_lays_out(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("B=64", "D=64", "F=64")
    assert main(["bound", SPLIT, "--on", "mi250x-gcd:4", *words]) != 0
    said = capsys.readouterr().err
    assert "no link from AMD" in said
    assert "--link 50GB/s" in said
    assert "binds" in run(capsys, "bound", SPLIT, "--on", "mi250x-gcd:4", "--link", "32GB/s", *words)
    for asked in (("--on", "mi250x-gcd:4"), ("--on", "l4", "--mesh", "X=4")):
        found = json.loads(run(capsys, "layout", "bf16[B_X, D]", *asked, "B=64", "D=64", "--json"))
        assert (found["mesh"], found["local"]) == ({"X": 4}, [16, 64])


def test_a_result_that_is_not_written_is_shown_as_the_plan_leaves_it(capsys: pytest.CaptureFixture[str]) -> None:
    line, words = "cumsum_V(fp32[B, V_X])", ("--on", "v5e:8", "B=1024", "V=128000")
    shown = run(capsys, "bound", line, *words)
    assert "cumsum_V(fp32[1024, 128000_X]) -> fp32[1024, 128000_X]" in shown
    assert "the layout of the result is not written: the plan leaves it as fp32[B, V_X]" in shown
    assert run(capsys, "shard", line, *words).startswith("cumsum_V(fp32[1024, 128000_X])  on TPU v5e")
    written = run(capsys, "bound", f"{line} -> fp32[B, V_X]", *words)
    assert "-> fp32[1024, 128000_X]  on TPU v5e" in written
    assert "not written" not in written
    assert "-> bf16[1024, 512] {U_X}" in run(
        capsys, "bound", "bf16[B, D_X] * bf16[D_X, F]", "--on", "v5e:8", "B=1024", "D=8192", "F=512"
    )


def test_a_layout_of_arrays_shows_ranges(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "layout", "bf16[B_X, D]", "--mesh", "X=4,Y=n", "B=64,128", "n=2,4", "D=128")
    assert "bf16[16 … 32, 128], 4.1 kB … 8.19 kB" in shown
    assert "over 8 … 16 chips" in shown
    assert "2 … 4 copies" in shown


def test_shard_says_how_plans_end_where_no_result_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["shard", "bf16[B, D_X] * bf16[D_X, F_Y]", "--on", "v5p", "--mesh", "X=4,Y=2"]
    sizes = ["B=1024", "D=8192", "F=32768"]
    assert main([*line, *sizes]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "the first in partial sums {U_X} that are not added up" in shown
    assert "with one, all end alike: -> bf16[B, F_Y]" in shown
    assert "1. no communication ->" in shown
    assert "F_Y]) 746 µs ->" in shown
    assert "assumes 2 FLOPs per multiply-add" in shown
    assert main([*line, *sizes, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plans"][0]["result"] == "bf16[B, F_Y] {U_X}"
    two = "; ".join(["bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"] * 2)  # collectives of one name have their times too
    shown = " ".join(run(capsys, "shard", two, "--on", "v5p", "--mesh", "X=4", *sizes).split())
    assert "1. AllReduce_X(bf16[B, F] {U_X})" in shown
    assert shown.partition(" 2. ")[0].count("746 µs") == 4
    line[1] += " -> bf16[B, F_Y]"
    assert main([*line, *sizes]) == 0
    assert "several layouts" not in capsys.readouterr().out
