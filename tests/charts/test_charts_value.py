"""A chart is a value: it can be looked into, changed by copies, and written out under stable keys."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest
from charts_to_draw import ALL, exercise_3, two_bandwidths, two_chips

from roofline import bound
from roofline.charts import Axis, plot, throughput_chart
from roofline.charts import chart as registry
from roofline.charts.chart import Chart, draws
from roofline.charts.drawing import drawn_layout
from roofline.charts.roofline_charts import roofline_chart
from roofline.charts.specification import Line, log_axis, ticks
from roofline.cli import main
from roofline.errors import InputError


def test_methods_return_copies():
    chart = exercise_3()
    changed = chart.with_title("Exercise 3", "TPU v5e").with_size(600, 400).with_theme("dark")
    assert (changed.title, changed.subtitle, changed.width, changed.theme) == ("Exercise 3", "TPU v5e", 600, "dark")
    assert (chart.title, chart.width, chart.theme) == ("Attainable throughput over B", 720, "light")
    assert changed.marks == chart.marks


def test_a_chart_is_frozen():
    with pytest.raises(FrozenInstanceError):
        exercise_3().title = "x"


def test_repr_is_one_line():
    assert repr(two_chips()) == (
        "<Chart 'Roofline of NVIDIA H100 SXM5 80GB and NVIDIA A100 SXM4 80GB':"
        " roofline with 6 lines, 4 points, 4 ridges>"
    )


@pytest.mark.parametrize("name", ALL)
def test_to_dict_is_json_without_nan(name):
    record = ALL[name]().to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["schema"] == "roofline/chart/1"
    assert list(record) == ["schema", "kind", "title", "subtitle", "x", "y", "marks", "notes"]


def test_to_dict_names_its_marks():
    marks = [mark["mark"] for mark in two_bandwidths().to_dict()["marks"]]
    assert sorted(set(marks)) == ["line", "point", "region", "ridge"]


def test_looking_a_line_up():
    assert exercise_3().line("D = F = 1024").role == "curve"
    with pytest.raises(InputError, match="no line 'D = F = 102' in this chart; did you mean 'D = F = 1024'"):
        exercise_3().line("D = F = 102")


def test_the_same_question_gives_an_equal_specification():
    assert exercise_3().to_dict() == exercise_3().to_dict()


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (Axis("", "FLOP/s", "log", (1e12, 2e15)), ["1 TFLOP/s", "10 TFLOP/s", "100 TFLOP/s", "1 PFLOP/s"]),
        (Axis("", "FLOP/s", "log", (2e13, 3e14)), ["20 TFLOP/s", "50 TFLOP/s", "100 TFLOP/s", "200 TFLOP/s"]),
        (Axis("", "", "log", (30.0, 2900.0)), ["50", "100", "200", "500", "1,000", "2,000"]),
        (Axis("", "", "log", (15.0, 9000.0)), ["20", "50", "100", "200", "500", "1,000", "2,000", "5,000"]),
        (Axis("", "FLOP/B", "log", (0.1, 2000.0)), ["0.1", "1", "10", "100", "1,000"]),
        (Axis("", "s", "linear", (0.0, 1.3e-4)), ["0 s", "20 µs", "40 µs", "60 µs", "80 µs", "100 µs", "120 µs"]),
        (Axis("", "FLOP/s", "linear", (0.0, 2.3e14)), ["0", "50 TFLOP/s", "100 TFLOP/s", "150 TFLOP/s", "200 TFLOP/s"]),
        (Axis("", "", "linear", (900.0, 1000.0)), ["900", "920", "940", "960", "980", "1,000"]),
    ],
)  # fmt: skip
def test_ticks_are_what_an_engineer_would_write(axis, expected):
    assert [text for _, text in ticks(axis)] == expected


@pytest.mark.parametrize("name", ALL)
def test_every_axis_has_at_least_two_ticks_in_order(name):
    chart = ALL[name]()
    for axis in (chart.x, chart.y):
        values = [value for value, _ in ticks(axis)]
        assert len(values) >= 2
        assert values == sorted(set(values))
        low, high = sorted(axis.limits)
        assert all(low * (1 - 1e-9) <= value <= high * (1 + 1e-9) for value in values)


def test_a_chart_that_registers_itself_is_known_everywhere(monkeypatch, capsys):
    """Adding a chart touches the file that draws it: the library and the command list what is registered."""
    monkeypatch.setattr(registry, "_DRAWN", {**registry._DRAWN})

    @draws("size", "intensity")
    def intensity_chart(curves, *, title="", theme="light"):
        return throughput_chart(curves, title=title or "Intensity", theme=theme)

    sizes = {"B": [1, 64, 512], "D": 4096, "F": 4096}
    assert plot("bf16[B, D] * bf16[D, F]", on="v5e", kind="intensity", vary="B", sizes=sizes).title == "Intensity"
    words = ["plot", "bf16[B, D] * bf16[D, F]", "--on", "v5e", "--vary", "B=1,64,512", "D=4096", "F=4096"]
    assert main([*words, "--kind", "intensity"]) == 0
    assert capsys.readouterr().out.startswith("Intensity")
    assert main([*words, "--kind", "sideways"]) == 2
    assert "'roofline', 'throughput', 'time', 'intensity'" in capsys.readouterr().err


def test_a_second_kind_of_roofline_is_drawn_by_its_own_function(monkeypatch):
    """A kind is looked up with its subject, so what a roofline takes goes to every kind of roofline."""
    monkeypatch.setattr(registry, "_DRAWN", {**registry._DRAWN})

    @draws("roofline", "hierarchical")
    def hierarchical_chart(machines, bounds=(), *, title="", **rest):
        return roofline_chart(machines, bounds, title=title or "Hierarchical", **rest)

    line = "bf16[512, 8192] @ bf16[8192, 8192]"
    chart = plot(line, on="h100", kind="hierarchical", dtypes=["fp8"])
    assert (chart.title, len(chart.points)) == ("Hierarchical", 1)
    with pytest.raises(InputError, match="drawn over intensity, not over a size"):
        plot(line, on="h100", kind="hierarchical", vary="B")


def test_valid_only_reaches_the_chart(capsys):
    """Padded positions are left out of the point of a convolution as they are out of its bound."""
    line = "conv(bf16[1, 8, 8, 64], bf16[3, 3, 64, 64], pad=1)"
    found = []
    for options in ([], ["--valid-only"]):
        assert main(["plot", line, "--on", "h100", "--json", *options]) == 0
        marks = json.loads(capsys.readouterr().out)["marks"]
        found += [mark["x"] for mark in marks if mark["mark"] == "point"]
    whole, valid = (bound(line, on="h100", count_padding=counted).intensity for counted in (True, False))
    assert found == pytest.approx([whole, valid])
    assert valid < whole


def test_ticks_that_would_touch_are_the_powers_of_ten_whatever_their_unit() -> None:
    x, y = log_axis("time per token", "s", [1e-6, 1e-4]), log_axis("tokens", "", [1.0, 100.0])
    chart = Chart("front", "", x, y, (Line("a", (1e-6, 1e-4), (1.0, 100.0)),), width=320, height=240)
    assert [text for _, text in drawn_layout(chart).x_ticks] == ["1 µs", "10 µs", "100 µs"]
