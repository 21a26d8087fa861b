"""The roofline's specification: its ridges, slopes, ceilings and points are what ``bound`` and ``ridge`` say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from charts_to_draw import MATMUL, SOFTMAX, two_bandwidths

from roofline.bounds.api import bound
from roofline.charts import plot, roofline_chart
from roofline.charts.drawing import drawn_layout
from roofline.errors import HardwareError, InputError, SizeError
from roofline.hardware import chip, override
from roofline.hardware.rate import ridge


def test_ridge_of_the_v5e_with_the_books_bandwidth():
    chart = plot(on="v5e", set={"hbm": 8.2e11})
    assert chart.ridges[0].x == pytest.approx(240.24, abs=0.01)
    assert chart.ridges[0].y == 1.97e14
    assert chart.ridges[0].text == "240 FLOP/B"


def test_one_ridge_per_dtype_and_level():
    machine = chip("v5e")
    chart = plot(on=machine, dtypes=["bf16", "int8"], levels=["hbm", "vmem"])
    found = {mark.label: mark.x for mark in chart.ridges}
    assert found == {
        f"v5e mxu {dtype} over {level}": ridge(machine, dtype, level)
        for dtype in ("bf16", "int8")
        for level in ("hbm", "vmem")
    }


def test_slopes_rise_with_the_bandwidth_and_end_at_their_last_ridge():
    chart = plot(on="v5e", dtypes=["bf16", "int8"])
    slope = chart.line("v5e hbm")
    assert [y / x for x, y in zip(slope.x, slope.y, strict=True)] == pytest.approx([8.19e11] * 2)
    assert slope.x[1] == max(mark.x for mark in chart.ridges)


def test_ceilings_start_at_their_first_ridge_and_are_level():
    chart = plot(on="v5e", dtypes=["bf16"], levels=["hbm", "vmem"])
    ceiling = chart.line("v5e mxu bf16")
    assert ceiling.x[0] == pytest.approx(min(mark.x for mark in chart.ridges))
    assert ceiling.y == (1.97e14, 1.97e14)


@pytest.mark.parametrize("target", ["h100", "a100", "v5e", "gtx-1080-ti", "mi300x"])
@pytest.mark.parametrize("line", [MATMUL, SOFTMAX, "fp32[4096] + fp32[4096]"])
def test_a_point_is_the_bound(target, line):
    answer = bound(line, on=target)
    point = plot(line, on=target).points[0]
    assert (point.x, point.y, point.bound_by) == (answer.intensity, answer.attainable, answer.bound_by)
    assert point.kind == "bound"
    assert point.share is None


def test_ceilings_of_the_points_come_without_being_asked_for():
    labels = [line.label for line in plot(MATMUL, SOFTMAX, on="h100").lines]
    assert labels == ["h100 hbm", "h100 tensor bf16", "h100 cuda fp32"]


def test_dtypes_that_are_asked_for_stand_beside_those_of_the_points():
    labels = [line.label for line in plot(MATMUL, on="h100", dtypes=["fp8"]).lines]
    assert labels == ["h100 hbm", "h100 tensor fp8", "h100 tensor bf16"]


def test_several_chips_have_a_roof_and_a_point_each_in_their_own_colour():
    chart = plot(MATMUL, on=["h100", "a100"])
    assert [(p.on, p.series) for p in chart.points] == [("h100", 0), ("a100", 1)]
    assert chart.points[1].y == bound(MATMUL, on="a100").attainable
    assert {line.series for line in chart.lines if line.label.startswith("a100")} == {1}
    assert [bool(point.text) for point in chart.points] == [True, False]


def test_one_chip_with_two_bandwidths_given_as_machines():
    slow, fast = chip("v5e", hbm="4e11 B/s"), chip("v5e", hbm="8e11 B/s")
    chart = roofline_chart([slow, fast], [bound(MATMUL, on=fast), bound(MATMUL, on=slow)])
    assert [point.series for point in chart.points] == [1, 0]


def test_lists_of_raw_amounts_are_points():
    """The article's chart: both networks by their intensities."""
    chart = plot(on="1080ti", intensity=[7, 25], dtype="fp32", names=["MobileNet", "VGG16"])
    assert [(p.label, p.x, p.bound_by) for p in chart.points] == [("MobileNet", 7, "dram"), ("VGG16", 25, "cuda")]
    chart = plot(on="1080ti", flops=[31e9, 1.1e9], bytes=1e9, dtype="fp32")
    assert [(p.label, round(p.x, 1)) for p in chart.points] == [
        ("flops 31000000000.0, bytes 1000000000.0", 31.0),
        ("flops 1100000000.0, bytes 1000000000.0", 1.1),
    ]


def test_seed_1080_ti_vgg16_and_mobilenet():
    machine = chip("gtx-1080-ti", fp32=11.3e12, dram=484e9)
    answers = [bound(intensity=i, dtype="fp32", on=machine) for i in (25, 7)]
    chart = roofline_chart([machine], answers, names={0: "VGG16", 1: "MobileNet"})
    assert [(p.label, p.x, round(p.y / 1e12, 2)) for p in chart.points] == [("VGG16", 25, 11.3), ("MobileNet", 7, 3.39)]
    assert chart.ridges[0].x == pytest.approx(23.35, abs=0.01)


def test_a_program_has_a_point_for_each_operation():
    chart = plot("h = bf16[512, 4096] * bf16[4096, 16384]; gelu(h)", on="h100")
    assert [point.bound_by for point in chart.points] == ["tensor", "hbm"]
    assert "->" not in chart.points[0].label


def test_a_size_with_several_values_has_a_point_for_each():
    chart = plot("bf16[B, D] * bf16[D, F]", on="v5e", B=[1, 64, 512], D=4096, F="D")
    assert [p.label for p in chart.points] == ["B = 1", "B = 64", "B = 512"]
    assert chart.points[1].x == bound("bf16[B, D] * bf16[D, F]", on="v5e", B=64, D=4096, F=4096).intensity


def test_warm_points_lie_under_the_levels_that_hold_their_data():
    chart = plot("bf16[B, D] * bf16[D, F]", on="h100", over="warm", B=[1, 16, 1024], D=1024, F=16384)
    slopes = {"hbm": 3.35232e12, "l2": 8.9856e12, "smem": 33.5e12}
    for point in chart.points:
        answer = bound("bf16[B, D] * bf16[D, F]", on="h100", over="warm", B=int(point.label[4:]), D=1024, F=16384)
        (level,) = answer.bytes
        assert point.y <= point.x * slopes[level] * 1.01
        assert f" {level} " in chart.to_text()


def test_sizes_in_names_are_whole_numbers():
    chart = plot("bf16[B, D] * bf16[D, F]", "softmax(bf16[B, D])", on="h100", B=[1, 64], D=4096, F=4096)
    assert "softmax(bf16[B, D]), B = 64:" in chart.to_text()
    assert "64.0" not in chart.to_text()


def test_two_bandwidths_colour_three_regions():
    chart = two_bandwidths()
    assert [(r.color, round(r.x1, 1)) for r in chart.regions[:2]] == [("red", 240.2), ("yellow", 480.5)]
    assert chart.regions[2].color == "green"
    assert [r.x0 for r in chart.regions[1:]] == [r.x1 for r in chart.regions[:2]]
    assert [round(mark.x, 1) for mark in chart.ridges] == [240.2, 480.5]


@pytest.mark.parametrize(
    ("lines", "given", "ridge"),
    [
        ((), {}, 240.2),
        ((), {"dtype": "int8"}, 479.3),
        ((), {"dtypes": ["vector/fp32"]}, 7.49),
        ((), {"intensity": [50, 1000], "dtype": "int8"}, 479.3),
        (("int8[64, 8192] * int8[8192, 8192]",), {}, 479.3),
        (("int8[64, 8192] * int8[8192, 8192]",), {"dtypes": ["bf16"]}, 240.2),
        (("softmax(bf16[64, 8192])",), {}, 7.49),
    ],
)
def test_regions_are_those_of_the_ceiling_that_work_runs_under(lines, given, ridge):
    chart = plot(*lines, on="v5e", bandwidths=["410 GB/s", "820 GB/s"], **given)
    assert [round(region.x1, 2) for region in chart.regions[:2]] == pytest.approx([ridge, 2 * ridge], rel=1e-3)
    assert {round(region.x1, 6) for region in chart.regions[:2]} <= {round(mark.x, 6) for mark in chart.ridges}


def test_the_dtype_of_a_roof_without_work_is_its_ceiling():
    chart = plot(on=["v100", "a100", "h100"], dtype="fp16")
    assert [round(mark.x, 1) for mark in chart.ridges] == [138.9, 153.0, 295.1]


@pytest.mark.parametrize("given", [{"compute": "fp8"}, {"B": 64}, {"exact": True}, {"tile": (1, 2, 3)}])
def test_what_only_work_could_have_is_an_error_on_a_roof_without(given):
    with pytest.raises(InputError, match=f"^{next(iter(given))}= says nothing about a roof without work under it"):
        plot(on="h100", **given)


def test_algorithms_stand_under_both_bandwidths():
    chart = two_bandwidths()
    first = [point.y for point in chart.points if point.label == "Algo 1"]
    slow = bound("bf16[64, 8192] @ bf16[8192, 8192]", on=override(chip("v5e"), {"hbm": 4.1e11}))
    assert first == pytest.approx([2 * slow.attainable, slow.attainable])


def test_one_bandwidth_leaves_no_yellow():
    assert [r.color for r in plot(on="h100", bandwidths=["3 TB/s"]).regions] == ["red", "green"]


def test_limits_hold_everything():
    chart = plot(MATMUL, SOFTMAX, on=["h100", "a100"], levels=["hbm", "pcie"])
    for mark in (*chart.points, *chart.ridges):
        assert chart.x.limits[0] < mark.x < chart.x.limits[1]
        assert chart.y.limits[0] < mark.y < chart.y.limits[1]


def test_notes_say_the_conventions_and_what_was_given():
    notes = plot(MATMUL, on="h100", set={"hbm": "3 TB/s"}).notes
    assert "2 FLOPs per multiply-add" in notes
    assert any(note.startswith("given by the caller: hbm") for note in notes)


def test_a_dtype_that_runs_as_another_is_said():
    assert any(note.startswith("no fp8 peak on NVIDIA A100") for note in plot(on="a100", dtypes=["fp8"]).notes)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            {"on": "h100", "dtypes": ["bf61"]},
            InputError,
            "no peak for 'bf61' on NVIDIA H100 SXM5 80GB; did you mean 'bf16'",
        ),
        ({"on": "h100", "levels": ["hmb"]}, HardwareError, "no memory level 'hmb'; did you mean 'hbm'?"),
        (
            {"on": "t4", "levels": ["l2"]},
            InputError,
            "no bandwidth is known for l2 of NVIDIA T4",
        ),
        ({"on": ["h100", "a100"], "bandwidths": [1e12]}, InputError, "bandwidths go with one machine; draw h100 alone"),
        ({"on": "h100", "bandwidths": [1e12], "levels": ["l2"]}, InputError, "two ways to say the slopes"),
        ({"on": []}, InputError, "`on` is empty; name at least one machine"),
        ({"on": 5}, InputError, "5 is not a target; name a chip"),
        ({}, InputError, "no machine to run on"),
    ],
)
def test_messages(arguments, kind, message):
    with pytest.raises(kind) as caught:
        plot(**arguments)
    assert message in str(caught.value)


def test_open_sizes_are_an_error_that_names_one():
    with pytest.raises(SizeError, match="size B has no value; a point needs numbers, as in B=64"):
        plot("bf16[B, D] * bf16[D, F]", on="h100", D=8, F=8)


UNKNOWN_MEMORY = replace(chip("h100"), memories=(chip("h100").memories[0]._replace(bandwidth=None),))


@pytest.mark.parametrize(
    ("lines", "target", "message"),
    [
        (["copy(bf16[64])"], "h100", "nothing to place on a roofline: copy(bf16[64]) has no FLOPs; a point needs"),
        (["gelu(bf16[64])"], "gaudi2", "gelu(bf16[64]) has FLOPs that Intel Gaudi2 has no peak for"),
        (["gelu(fp32[64])"], UNKNOWN_MEMORY, "gelu(fp32[64]) moves no bytes at a known bandwidth"),
        (["copy(bf16[64]); transpose(bf16[8, 8])"], "h100", "copy(bf16[64]) has no FLOPs; transpose(bf16[8, 8]) has"),
    ],
)
def test_operations_without_a_place_are_named_in_one_error(lines, target, message):
    with pytest.raises(InputError) as caught:
        plot(*lines, on=target)
    assert message in str(caught.value)


@pytest.mark.parametrize("lines", [["copy(bf16[64])", "gelu(bf16[64])"], ["gelu(bf16[64]); copy(bf16[64])"]])
def test_an_operation_without_a_place_is_said_beside_one_that_has_one(lines):
    chart = plot(*lines, on="h100")
    assert [point.label for point in chart.points] == ["gelu(bf16[64])"]
    assert "not on the chart: copy(bf16[64]) has no FLOPs" in chart.notes


def test_two_machines_of_one_name_are_told_apart_in_the_key():
    chart = roofline_chart([chip("v5e", hbm="4e11 B/s"), chip("v5e", hbm="8e11 B/s")])
    assert list(dict.fromkeys(line.group for line in chart.lines)) == ["v5e (1)", "v5e (2)"]


def test_a_level_only_one_machine_has_is_drawn_there_and_said():
    chart = plot(on=["t4", "h100"], levels=["l2"])
    assert [line.label for line in chart.lines if line.role == "slope"] == ["h100 l2"]
    assert any("no bandwidth is known for these levels of NVIDIA T4" in note for note in chart.notes)


def test_a_bound_of_another_machine_is_an_error():
    with pytest.raises(InputError, match="a bound on TPU v5e has no roof in this chart"):
        roofline_chart([chip("h100")], [bound(MATMUL, on="v5e")])


def test_ceilings_of_one_height_meet_a_slope_in_one_ridge():
    chart = plot(on="h100", dtypes=["vector/fp32", "fp64", "bf16"])
    assert [ridge.label for ridge in chart.ridges] == [
        "h100 tensor bf16 over hbm",
        "h100 tensor fp64 and cuda fp32 over hbm",
    ]
    assert len([line for line in chart.lines if line.role == "ceiling"]) == 3


def test_a_region_between_several_bandwidths_says_what_holds_in_all_of_it():
    chart = plot(on="h100", bandwidths=["1 TB/s", "2 TB/s", "8 TB/s"])
    assert [region.label for region in chart.regions] == [
        "memory-bound even at 8 TB/s",
        "memory-bound at 1 TB/s, compute-bound at 8 TB/s",
        "compute-bound",
    ]


def test_raw_amounts_are_named_as_they_are_typed():
    chart = plot(on="h100", flops=1e12, bytes=2.5e9)
    assert chart.points[0].label == "flops 1e12, bytes 2.5e9, dtype bf16"


def test_an_operation_lies_under_each_level_that_is_shown():
    chart = plot(
        "bf16[512, 8192] @ bf16[8192, 8192]", "softmax(fp32[8, 32, 2048, 2048])", on="h100", levels=["hbm", "l2"]
    )
    [product, softmax, at_l2] = chart.points
    assert at_l2.label == "softmax(fp32[8, 32, 2048, 2048]) at l2"
    assert at_l2.y / softmax.y == pytest.approx(8.9856 / 3.35232, rel=0.01)
    assert at_l2.size < softmax.size
    assert softmax.size > product.size, "it takes longer"
    assert "a larger point takes longer" in chart.notes


def test_the_name_of_one_of_two_near_points_is_joined_to_it():
    # nearer to its own point than to the other one, or with a line that leads to it
    amounts = [bound(intensity=value, dtype="fp16", on="a100") for value in (4945, 7563)]
    chart = roofline_chart([chip("a100")], amounts, names={0: "with bytes", 1: "as printed"})
    drawn = drawn_layout(chart)
    at = {point.text.split("\n")[0]: drawn.frame.at(point.x, point.y) for point in chart.points}
    for text in drawn.labels:
        if text.lines[0] in at:
            own, other = (math.dist(text.box.nearest(at[n]), at[n]) for n in sorted(at, key=text.lines[0].__ne__))
            assert text.leader is not None or own < other, text.lines


def test_a_level_that_one_of_the_machines_lacks_is_said() -> None:
    chart = roofline_chart([chip("h100"), chip("v5e")], levels=["hbm", "vmem"])
    assert "no slope for vmem: no bandwidth of it is known on NVIDIA H100 SXM5 80GB" in chart.notes
    assert not any("TPU v5e" in note and "no slope" in note for note in chart.notes)


def test_rows_of_sizes_that_go_in_pairs_are_points_at_their_intensity():
    shapes = np.array([[1, 4096, 64], [64, 8192, 512], [512, 1024, 4096], [4096, 4096, 4096]])
    sizes = dict(zip("MKN", shapes.T, strict=True))
    chart = bound("bf16[M, K] * bf16[K, N]", on="h100", **sizes).plot()
    assert chart.kind == "roofline"
    alone = [bound("bf16[M, K] * bf16[K, N]", on="h100", M=int(m), K=int(k), N=int(n)) for m, k, n in shapes]
    told = {(point.x, point.y, point.bound_by) for point in chart.points}
    assert told == {(each.intensity, each.attainable, each.bound_by) for each in alone}
    assert max(chart.points, key=lambda point: point.size).label == "M = 4096, K = 4096, N = 4096"


def test_of_many_rows_in_nearly_one_place_the_longest_is_drawn():
    rows = np.random.default_rng(0).integers(1, 8192, (3, 10_000))
    many = bound("bf16[M, K] * bf16[K, N]", on="h100", **dict(zip("MKN", rows, strict=True)))
    chart = many.plot()
    assert len(chart.points) < 400
    assert (
        chart.notes[0] == f"{len(chart.points)} of 10,000 rows: of those in nearly one place the one that takes longest"
    )
    assert {point.x for point in chart.points} <= set(many.intensity.tolist())
    longest = int(many.lower.argmax())
    assert chart.points[0].label == ", ".join(
        f"{name} = {size[longest]}" for name, size in zip("MKN", rows, strict=True)
    )


def test_sizes_each_with_each_stay_curves():
    grid = bound("bf16[B, D] * bf16[D, F]", on="h100", B=np.array([[1], [64]]), D=np.array([1024, 4096]), F=8192)
    assert grid.plot().kind == "throughput"


def test_a_name_by_a_ridge_is_the_ridges_or_has_a_line_to_its_point() -> None:
    """Three points of which one stands beside the ridge: a name as near to the ridge would seem its name."""
    lines = [f"bf16[{size}, 8192] @ bf16[8192, 8192]" for size in (512, 64, 4096)]
    chart = plot(*lines, on="h100")
    found = drawn_layout(chart)
    marks = {point.text: found.frame.at(point.x, point.y) for point in chart.points}
    (ridge,) = (found.frame.at(ridge.x, ridge.y) for ridge in chart.ridges)
    shown = [text for text in found.labels if "\n".join(text.lines) in marks]
    assert len(shown) == 3
    for text in shown:
        at = marks["\n".join(text.lines)]
        room = math.dist(text.box.nearest(at), at)
        others = [ridge, *(other for other in marks.values() if other != at)]
        assert text.leader is not None or all(math.dist(text.box.nearest(other), other) > room for other in others)
