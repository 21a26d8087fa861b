"""Measured points: read from a CSV or from values, drawn below their bound, refused with the place named."""

from __future__ import annotations

import os

import pytest
from charts_to_draw import RUNS

from roofline.bounds.api import bound
from roofline.charts import Measured, plot, read_measured
from roofline.charts.drawing import drawn_layout
from roofline.errors import InputError


def written(folder, text):
    path = folder / "runs.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_with_units_a_dtype_and_quotes(tmp_path):
    path = written(
        tmp_path, 'name,flops,bytes,seconds,dtype\n"up, gate",137 GFLOP,"201 MB",210 us,bf16\n\nx,1e9,1e6,1e-3,\n'
    )
    assert read_measured(path) == (
        Measured("up, gate", 137e9, 201e6, pytest.approx(210e-6), "bf16"),
        Measured("x", 1e9, 1e6, 1e-3, "bf16"),
    )


def test_columns_stand_in_any_order_and_case(tmp_path):
    path = written(tmp_path, "Seconds, name ,BYTES,flops\n1 ms,x,1 MB,1 GFLOP\n")
    assert read_measured(str(path)) == (Measured("x", 1e9, 1e6, 1e-3),)


def test_a_point_stands_below_its_bound():
    chart = plot(on="h100", measured=RUNS)
    for (_, flops, moved, _, *dtype), point in zip(RUNS, chart.points, strict=True):
        answer = bound(flops=flops, bytes=moved, dtype=(dtype or ["bf16"])[0], on="h100")
        assert point.kind == "measured"
        assert point.roof == answer.attainable
        assert point.x == pytest.approx(answer.intensity)
    assert chart.points[0].y == pytest.approx(137e9 / 210e-6)
    assert chart.points[0].text == "up projection\n66% of the roof"
    assert chart.points[0].share == pytest.approx(137e9 / 989.4e12 / 210e-6)


@pytest.mark.parametrize("took", ["1.1ms", 1.1e-3])
def test_one_time_is_that_of_the_one_expression(took):
    chart = plot("fp16[4096, 4096] @ fp16[4096, 4096]", on="rtx-4090", measured=took)
    (ran,) = [point for point in chart.points if point.kind == "measured"]
    allowed = bound("fp16[4096, 4096] @ fp16[4096, 4096]", on="rtx-4090", measured="1.1ms")
    assert ran.y == pytest.approx(2 * 4096**3 / 1.1e-3)
    assert ran.share == pytest.approx(allowed.lower / 1.1e-3)
    assert ran.x == pytest.approx(allowed.intensity)


def test_one_time_of_two_expressions_or_machines_is_an_error():
    lines = ["bf16[8, 8] @ bf16[8, 8]", "bf16[8, 9] @ bf16[9, 8]"]
    message = "one measured time is that of one expression with FLOPs on one machine; give one expression"
    for drawn, machines in ((lines, "h100"), (lines[:1], ["h100", "a100"])):
        with pytest.raises(InputError, match=message):
            plot(*drawn, on=machines, measured="1.1ms")


def test_a_run_faster_than_its_bound_is_said():
    chart = plot(on="h100", measured=[("cached", 1e9, "1 GB", "0.1 ms")])
    assert chart.points[0].share > 1
    assert any(note.startswith("cached ran faster than its bound") for note in chart.notes)
    assert repr(chart).endswith(", 1 above the roof>")


def test_with_several_machines_a_run_names_its_own():
    chart = plot(on=["h100", "a100"], measured=[("x", 1e12, 1e9, "10 ms", "bf16", "a100")])
    assert (chart.points[0].on, chart.points[0].series) == ("a100", 1)
    assert chart.points[0].roof == 312e12


def test_with_several_machines_a_run_that_names_none_is_an_error():
    with pytest.raises(InputError, match="it is not said which machine 'x' ran on; add a column 'on'"):
        plot(on=["h100", "a100"], measured=[("x", 1e12, 1e9, "10 ms")])
    with pytest.raises(InputError, match="'x' ran on 'a10', which is not in this chart; did you mean 'a100'"):
        plot(on=["h100", "a100"], measured=[("x", 1e12, 1e9, "10 ms", "bf16", "a10")])


def test_a_run_in_a_dtype_without_a_peak_is_an_error():
    with pytest.raises(InputError, match="'x' has FLOPs that TPU v5e has no peak for, so it has no roof; give one"):
        plot(on="v5e", measured=[("x", 1e9, 1e6, 1e-3, "fp64")])


HEADER = "name,flops,bytes,seconds\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "runs.csv is empty; write it as name,flops,bytes,seconds"),
        ("\n\n", "runs.csv is empty"),
        (HEADER, "runs.csv has a header and no runs"),
        ("name,flops,bytes\nx,1,1\n", "runs.csv:1: column seconds is missing; the header is name,flops,bytes,seconds"),
        ("name,flop,bytes,seconds\nx,1,1,1\n", "runs.csv:1: unknown column 'flop'; did you mean 'flops'?"),
        ("name,name,flops,bytes,seconds\nx,x,1,1,1\n", "runs.csv:1: column name stands twice"),
        ("name,,flops,bytes,seconds\nx,bf16,1,1,1\n", "runs.csv:1: unknown column ''"),
        (HEADER + "x,1e9,1e6,1e-3\ny,1e9,1e6,0\n", "runs.csv:3: seconds '0' is zero; expected a time above 0"),
        (HEADER + "x,1e9,1e6,-1 ms\n", "runs.csv:2: seconds '-1 ms' is negative"),
        (HEADER + "x,1e9,1e6,nan\n", "runs.csv:2: seconds 'nan' is not finite"),
        (HEADER + "x,1e9,,1e-3\n", "runs.csv:2: bytes is missing; give it, in B"),
        (HEADER + "x,1e9,1e6,3 GB\n", "runs.csv:2: seconds '3 GB' is an amount of bytes; expected a time"),
        (HEADER + "x,1e9,1e6\n", "runs.csv:2: 3 values in 4 columns; leave no figure out"),
        (HEADER + "x,1,000,1e6,1\n", "runs.csv:2: 5 values in 4 columns; quote a cell that holds the sign"),
        (HEADER + ",1e9,1e6,1\n", "runs.csv:2: the run has no name"),
        ("name,flops,bytes,seconds,dtype\nx,1e9,1e6,1,bf61\n", "2: unknown dtype 'bf61'; did you mean 'bf16'?"),
        (HEADER + '"x,1e9,1e6,1\n', "is not a CSV file"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_at_its_line(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        read_measured(written(tmp_path, text))
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"cannot read '.*none\.csv': No such file"):
        read_measured(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfd\xff")
    with pytest.raises(InputError, match=r"binary\.csv is not UTF-8 text"):
        read_measured(tmp_path / "binary.csv")


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no pipes by name")
def test_a_pipe_is_read():
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as file:
        file.write("name,flops,bytes,seconds\na,1e9,1e6,1e-3\n")
    try:
        assert [point.name for point in read_measured(f"/dev/fd/{reading}")] == ["a"]
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "there are no measured points"),
        (7, "7 holds no measured points"),
        ([("x", 1)], "point 1: ('x', 1) is not a run; give (name, flops, bytes, seconds)"),
        ([{"name": "x", "flops": 1}], "point 1: bytes is missing"),
        ([("x", 1e9, 1e6, float("nan"))], "point 1: seconds nan is not finite"),
    ],
)
def test_bad_values_are_refused(values, message):
    with pytest.raises(InputError) as caught:
        read_measured(values)
    assert message in str(caught.value)


def test_runs_above_the_roof_are_named_together():
    runs = [(f"run {i}", 2e12, "1 GB", "1 ms") for i in range(6)]
    (note,) = (note for note in plot(on="h100", measured=runs).notes if "faster" in note)
    assert note.startswith("run 0, run 1, run 2 and others ran faster than their bounds: ")
    assert "run 5 ran faster than its bound" in plot(on="h100", measured=runs[5:]).notes[-1]


@pytest.mark.long
def test_a_picture_of_many_runs_grows_and_has_them_all_in_its_key():
    runs = [(f"kernel {i}", 10.0 ** (8 + i % 5), 10.0 ** (6 + i / 20), 10.0 ** (-4 + i % 3)) for i in range(36)]
    chart = plot(on="h100", measured=runs)
    key = " ".join(line for text in drawn_layout(chart).around for line in text.lines)
    assert chart.height > 480 == plot(on="h100", measured=runs[:9]).height
    assert all(f"{i + 1} kernel {i}, " in key for i in range(36))


def test_thousands_of_runs_are_drawn_with_names_at_the_longest():
    runs = [Measured(f"op {n}", flops=1e9 * (1 + n % 7), bytes=1e7, seconds=1e-3 + n * 1e-6) for n in range(2000)]
    chart = plot(on="h100", measured=runs)
    named = [point for point in chart.points if point.text]
    assert len(chart.points) == 2000
    assert {point.label for point in named} == {f"op {n}" for n in range(1940, 2000)}
    assert "names stand beside the 60 of 2,000 points that take the most time" in chart.notes


def test_points_under_a_bare_roof_are_given_by_the_word_of_the_command(tmp_path):
    given = [
        {"name": "g", "flops": 1e12, "bytes": 1e9, "ms": 5},
        {"name": "h", "flops": 1e12, "bytes": 1e9, "us": 5000},
    ]
    (tmp_path / "runs.csv").write_text("name,flops,bytes,latency_us\ng,1e12,1e9,5000\nh,1e12,1e9,5 ms\n")
    (tmp_path / "us.csv").write_text("name,flops,bytes,us\ng,1e12,1e9,5000\nh,1e12,1e9,5000\n")
    for points in (given, tmp_path / "runs.csv", tmp_path / "us.csv"):
        chart = plot(on="a100", points=points)
        assert [(point.label, round(point.y)) for point in chart.points] == [("g", 2 * 10**14), ("h", 2 * 10**14)]
    both = plot("bf16[512, 8192] @ bf16[8192, 8192]", on="a100", points=given)
    assert [point.kind for point in both.points].count("measured") == 2
    with pytest.raises(InputError, match="point 1: ms and seconds are two times of a run"):
        plot(on="a100", points=[{**given[0], "seconds": 1}])
    with pytest.raises(InputError, match="two words for the same"):
        plot(on="a100", points=given, measured=given)
