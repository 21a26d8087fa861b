"""Charts over a number of chips and over a sharded size: only sizes that divide, crossings marked, no empty lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roofline import bound, comm, plot, solve, sweep
from roofline.charts.specification import Line, Ridge

TEXT = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"


def test_time_over_a_number_of_chips() -> None:
    sizes = {"B": 4096, "D": 8192, "F": 8192}
    counts = [1, 2, 4, 8, 16, 32, 64]
    chart = plot(TEXT, on="h100", mesh={"X": "n"}, kind="time", vary="n", n=counts, **sizes)
    lines = {mark.label: mark for mark in chart.marks if isinstance(mark, Line)}
    assert {"tensor", "nvlink", "nic", "lower", "upper"} <= set(lines)
    assert min(lines["nvlink"].x) == 2  # one chip sends nothing, and there is no line at zero
    assert all(time > 0 for line in lines.values() for time in line.y)
    for n in counts:
        one = bound(TEXT, on="h100", mesh={"X": n}, plan="fewest", **sizes)
        assert lines["lower"].y[lines["lower"].x.index(n)] == pytest.approx(one.lower)
    crossings = [mark for mark in chart.marks if isinstance(mark, Ridge)]
    (crossing,) = (mark for mark in crossings if "nvlink binds" in mark.label)
    assert crossing.text == "n between 2 and 4"  # no other number of chips between them divides the sizes
    exact = solve(TEXT, on="h100", mesh={"X": "n"}, for_="n", **sizes).value
    assert crossing.x == pytest.approx(exact, rel=0.05)  # a straight line of logarithms


def test_time_over_a_size_that_must_divide() -> None:
    chart = plot(
        TEXT, on="v5e:8", link=4.5e10, kind="time", vary="D", D=[1024 * 2**i for i in range(8)], B=4096, F=8192
    )
    (crossing,) = (mark for mark in chart.marks if isinstance(mark, Ridge) and "mxu binds" in mark.label)
    # a chain sends the array once over each link: 2·B·F·D/8/P = 2·B·F/W
    assert crossing.x == pytest.approx(8 * 197e12 / 4.5e10, abs=8)
    exact = solve(TEXT, on="v5e:8", link=4.5e10, for_="D", B=4096, F=8192).value
    assert crossing.x == pytest.approx(exact, abs=8)


def test_a_note_that_holds_at_one_end_of_a_size_names_that_end() -> None:
    asked: dict[str, Any] = {"B": 4096, "D": 8192, "F": 8192, "mesh": {"X": "n"}, "kind": "time", "vary": "n"}
    notes = plot("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", on="h100", n=[1, 8, 512], **asked).notes
    assert "dense data-sheet peaks and one-way bandwidths" in notes
    assert "at n = 1: every figure is one chip's, of 1: X=1" in notes
    assert any(each.startswith("at n = 512: AllReduce over X (512 chips): in-switch") for each in notes)
    assert not any(each.startswith("every figure is one chip's") for each in notes)


RING = """schema = 1
[chip.mine]
name = "mine"
[chip.mine.unit.matrix]
peak = { bf16 = "400 TFLOP/s" }
[[chip.mine.memory]]
level = "hbm"
bandwidth = "2 TB/s"
[[chip.mine.link]]
name = "link"
topology = "ring"
wrap = "always"
domain = 64
bandwidth = "50 GB/s"
latency = "1 us"
"""


def test_times_step_where_another_algorithm_is_faster_and_no_crossing_is_marked_there(tmp_path: Path) -> None:
    """Direct sends P²/8·b/W in 16 hops; both ways round 31/32·b/W in 31, as fast at best at 25,806."""
    file = tmp_path / "mine.toml"
    file.write_text(RING, encoding="utf-8")
    text, on = "AllReduce_X(bf16[N])", f"{file}:32"
    chart = sweep(text, on=on, N=[500, 50_000, 90_000, 5_000_000]).plot("time")
    assert [round(mark.x) for mark in chart.ridges] == [25_806, 800_000]
    sizes = [49_999, 50_000]
    each = bound(text, on=on, N=sizes)
    for label, times in {"lower": each.lower, "upper": each.upper, "link X": each.times["link X"]}.items():
        drawn = dict(zip(chart.line(label).x, chart.line(label).y, strict=True))
        assert [drawn[size] for size in sizes] == pytest.approx(times.tolist())


def test_a_collective_over_sizes_draws_its_time_at_sizes_between_too() -> None:
    """Direct is faster up to 38,571 numbers, where the switches take over and the links are idle most of the time."""
    text, sizes = "AllReduce_X(bf16[N])", [1000, 10**9]
    charts = [
        comm(text, on="h100:8", N=sizes).plot(),
        sweep(text, on="h100:8", N=sizes).plot(),
        sweep(text, on="h100", mesh={"X": 8}, N=sizes).plot(),
    ]
    for chart in charts:
        assert chart.kind == "time"
        assert [round(mark.x) for mark in chart.ridges] == [19_286, 270_000]
        assert {38_571, 38_572} <= set(chart.line("nvlink").x)
    split = sweep("bf16[B, D_X] * bf16[D_X, F]", on="v5e:8", B=64, D=[1024, 65536], F=1024).plot("time")
    assert all(x % 8 == 0 for x in split.line("mxu").x)


def test_a_size_that_follows_from_another_adds_no_curve() -> None:
    table = sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 64, 4096], D=[1024, 4096], F="D")
    assert [line.label for line in table.plot("time").lines][::2] == ["D = F = 1024", "D = F = 4096"]
