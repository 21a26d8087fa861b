"""Pictures of a measurement and of runs: what is drawn, in data units."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from made import made

from roofline import chip
from roofline.charts.bars import MOST_OPERATIONS, split_chart
from roofline.charts.plot import plot
from roofline.charts.roofline_charts import measured_chart
from roofline.cli import main
from roofline.errors import InputError
from roofline.hardware.rate import with_choices
from roofline.measurement import Measured, points_of, write_machine_file
from roofline.measurement.machine_file import csv_rows


@pytest.fixture
def measured(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    write_machine_file(made(), tmp_path / "roofline" / "this.toml")
    return tmp_path / "roofline" / "this.toml"


def test_a_roof_has_every_level_and_two_ceilings_a_dtype():
    chart = measured_chart(made())
    slopes = {line.label: line.y[0] / line.x[0] for line in chart.lines if line.role == "slope"}
    assert slopes == pytest.approx({"l1": 1080e9, "l2": 420e9, "l3": 220e9, "dram": 90e9})
    ceilings = {line.label: line.y[0] for line in chart.lines if line.role == "ceiling"}
    assert ceilings == {"fp32 registers": 512e9, "fp32 library": 256e9, "bf16 registers": 1024e9, "bf16 library": 512e9}
    dashes = {line.label.split()[1]: line.dash for line in chart.lines if line.role == "ceiling"}
    assert dashes["registers"] != dashes["library"]


def test_one_thread_has_a_roof_of_its_own():
    chart = measured_chart(made(), threads=1, dtypes=["fp32"])
    assert {line.y[0] for line in chart.lines if line.role == "ceiling"} == {256e9, 128e9}


def test_a_data_sheet_stands_beside():
    chart = measured_chart(made(), sheet=chip("h100"))
    beside = {line.text: line.dash for line in chart.lines if "data sheet" in line.text}
    assert [text.split()[0] for text in beside] == ["hbm", "bf16", "fp32"]
    assert set(beside.values()) == {2}
    assert "beside it NVIDIA H100" in chart.subtitle


def test_points_have_their_gap(measured):
    points = points_of([Measured("mine", 1e9, 1e9, 0.1, "fp32")], chip("this", files=[measured]))
    [point] = measured_chart(made(), points=points).points
    assert (point.x, point.y) == (1.0, 1e10)
    assert point.roof == pytest.approx(90e9)
    assert point.text == "mine\n11% of the roof"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"threads": 7}, "no roof was measured on 7 threads; measured on 1, 2 threads"),
        ({"dtypes": ["fp64"]}, "no ceiling was measured in fp64; drawn by default: fp32, bf16"),
    ],
)
def test_what_was_not_measured_is_not_drawn(options, said):
    with pytest.raises(InputError, match=said):
        measured_chart(made(), **options)


def test_time_is_split_longest_first(measured):
    runs = [Measured(f"op {n}", 1e9, 1e9, 0.1 * n, "fp32") for n in range(1, MOST_OPERATIONS + 3)]
    chart = split_chart(points_of(runs, chip("this", files=[measured])))
    rows = chart.y.names
    assert [name.partition(",")[0] for name in rows[:2]] == [f"op {MOST_OPERATIONS + 2}", f"op {MOST_OPERATIONS + 1}"]
    assert (len(rows), rows[-1]) == (MOST_OPERATIONS + 1, "2 more, 2.9%")
    least, rest = (bar for bar in chart.bars if bar.row == 0)
    assert least.x1 == rest.x0 == pytest.approx(1e9 / 90e9)
    assert rest.x1 == pytest.approx(runs[-1].seconds)
    ends = [bar.x1 for bar in chart.bars if bar.part == rest.part]
    assert sum(ends) == pytest.approx(sum(run.seconds for run in runs))
    assert not chart.notes
    faster = [Measured("add", 1e9, 1e9, 1e-3, "fp32"), *runs[:2]]
    notes = split_chart(points_of(faster, chip("this", files=[measured]))).notes
    assert notes == ("1 operation took less than the roof allows",)
    with pytest.raises(InputError, match="there are no runs to split the time of"):
        split_chart([])


def test_the_table_holds_every_figure(measured, tmp_path):
    assert main(["measure", "--show", "--csv", str(tmp_path / "x.csv")]) == 0
    with open(tmp_path / "x.csv", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert len(found) == len(made().summaries()) == len(list(csv_rows(made())))
    assert {row["kind"] for row in found} == {"ceiling", "curve", "shape"}
    one = next(row for row in found if row["name"] == "register bf16" and row["threads"] == "2")
    assert (float(one["value"]), one["unit"], one["dtype"]) == (1024e9, "FLOP/s", "bf16")


def test_pictures_are_drawn_again_from_the_file(measured, tmp_path, capsys):
    files = [str(tmp_path / name) for name in ("roof.svg", "bandwidth.svg")]
    assert main(["measure", "--show", "--roofline", files[0], "--chart", files[1], "--against", "h100"]) == 0
    assert all(Path(file).read_text(encoding="utf-8").startswith("<?xml") for file in files)
    assert f"wrote {files[0]}" in capsys.readouterr().out
    assert main(["measure", "--show", "--against", "h100"]) == 2
    assert "--against goes with --roofline; name the picture" in capsys.readouterr().err


def test_runs_are_drawn_and_kept(measured, tmp_path, capsys):
    files = {name: str(tmp_path / name) for name in ("roof.svg", "split.svg", "runs.csv", "a.json", "b.json")}
    line = ["run", "fp32[64, 64] @ fp32[64, 64]", "--chart", files["roof.svg"], "--split", files["split.svg"]]
    assert main([*line, "--csv", files["runs.csv"], "-o", files["a.json"], "-o", files["b.json"]]) == 0
    text = Path(files["a.json"]).read_text(encoding="utf-8")
    assert text == Path(files["b.json"]).read_text(encoding="utf-8")  # timed once
    [point] = json.loads(text)["points"]
    assert point["flops"] == 2 * 64**3
    assert Path(files["runs.csv"]).read_text(encoding="utf-8").startswith("name,dtype,flops,bytes,seconds")
    assert main(["profile", files["runs.csv"], "--on", "this", "--split", files["split.svg"]]) == 0


def test_a_data_sheet_far_above_leaves_the_measured_roof_in_sight():
    """An H100 beside a small processor: the slopes of the caches and the lowest ceiling stay inside the picture."""
    alone, beside = measured_chart(made()), measured_chart(made(), sheet=chip("h100"))
    assert beside.x.limits[0] == pytest.approx(alone.x.limits[0])
    low, high = beside.y.limits
    assert all(low <= line.y[1] <= high for line in beside.lines)
    assert any("data sheet 989 TFLOP/s" in line.text for line in beside.lines)


def test_a_data_sheet_without_a_peak_says_so():
    chart = measured_chart(made(), sheet=chip("spr"))
    assert any(note.startswith("the catalog has no peak of Intel Xeon Sapphire Rapids") for note in chart.notes)
    assert not any("no peak" in note for note in measured_chart(made(), sheet=chip("h100")).notes)


def test_the_table_shows_what_the_levels_stand_on():
    """A point still of the level before, or of a cache just outgrown, is in no level's row."""
    measured = made()
    [curve] = [one for one in measured.curves if one.threads == 1 and one.name == "load"]
    levels = measured.levels(1)
    first = next(place for place, (size, _) in enumerate(curve.points) if size >= levels[1].first)
    size, found = curve.points[first]
    lifted = replace(found, value=levels[0].bandwidth * 0.9)
    points = (*curve.points[:first], (size, lifted), *curve.points[first + 1 :])
    for level, inner in zip(levels, (None, *levels), strict=False):
        told = level.points_within(replace(curve, points=points).values(), inner and inner.capacity)
        cell = max(value for _, value in told)
        assert cell <= level.bandwidth * 1.001


def test_a_chart_of_warm_runs_has_the_roofs_of_the_table(tmp_path):
    """The picture drew the main memory's slope alone, and another share than the table beside it."""
    write_machine_file(made(), tmp_path / "this.toml")
    machine = with_choices(chip("this", files=[tmp_path / "this.toml"]), over="warm")
    small, large = Measured("small", 4e3, 5e4, 1e-6, "fp32"), Measured("large", 1e9, 1e10, 1.0, "fp32")
    chart = plot(on=machine, measured=[small, large])
    points = points_of([small, large], machine)
    assert [point.y / point.roof for point in chart.points] == [pytest.approx(p.fraction) for p in points]
    assert {line.label.split()[1] for line in chart.lines if line.role == "slope"} == {"dram", points[0].bound.bound_by}
