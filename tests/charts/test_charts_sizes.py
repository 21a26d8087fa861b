"""Throughput and time over a size: the curves are what ``bound`` says, and the knees are where ``solve`` puts them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from charts_to_draw import WEIGHTS_INT8, a100_time, exercise_3, operations_of_experts, times_of_two
from hypothesis import given
from hypothesis import strategies as st
from plain_geometry import crosses
from tests.strategies import few, some

import roofline
from roofline.bounds.api import bound
from roofline.bounds.solve import solve
from roofline.charts import plot
from roofline.charts.drawing import drawn_layout
from roofline.charts.layout import clipped
from roofline.charts.placement import Segments
from roofline.charts.specification import ticks
from roofline.errors import InputError, SizeError


def test_exercise_3_has_its_two_knees_at_the_peak():
    chart = exercise_3()
    assert [round(knee.x, 1) for knee in chart.ridges] == [226.3, 136.1]
    assert [knee.y for knee in chart.ridges] == pytest.approx([1.97e14, 1.97e14])
    assert [knee.text for knee in chart.ridges] == ["B = 226.3", "B = 136.1"]


def test_exercise_3_draws_the_formula_of_the_book():
    chart = exercise_3()
    for width in (1024, 4096):
        line = chart.line(f"D = F = {width}")
        for size, rate in zip(line.x, line.y, strict=True):
            flops = 2 * size * width * width
            moved = 2 * size * width + width * width + 2 * size * width
            assert rate == pytest.approx(flops / max(flops / 1.97e14, moved / 8.2e11), rel=1e-9)


def test_a_curve_is_the_bound_at_every_size_given():
    line = exercise_3().line("D = F = 4096")
    for size in (1, 136, 137, 511):
        answer = bound(WEIGHTS_INT8, on="v5e", set={"hbm": 8.2e11}, B=size, D=4096, F=4096)
        assert line.y[line.x.index(size)] == pytest.approx(answer.attainable, rel=1e-12)


def test_peak_is_drawn():
    peak = exercise_3().line("peak mxu bf16")
    assert peak.y == (1.97e14, 1.97e14)


@few(8)
@given(st.integers(400, 9000), st.sampled_from(["v5e", "h100", "a100"]))
def test_knees_are_where_solve_puts_them(width, target):
    chart = plot("bf16[B, D] * bf16[D, F]", on=target, vary="B", B=[1, 100_000], D=width, F="D")
    exact = solve("bf16[B, D] * bf16[D, F]", "B", on=target, D=width, F=width)
    found = [knee.x for knee in chart.ridges]
    expected = [exact.value] if exact.value is not None and exact.value < 100_000 else []
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_knee_of_a_curved_time_is_found_between_far_apart_sizes():
    line = "attention(bf16[1, S, 8, 128], bf16[1, S, 8, 128], bf16[1, S, 8, 128])"
    coarse = plot(line, on="h100", kind="time", S=[1, 5000])
    fine = plot(line, on="h100", kind="time", S=range(1, 5000))
    assert [k.label for k in coarse.ridges] == [k.label for k in fine.ridges]
    assert [k.x for k in coarse.ridges] == pytest.approx([k.x for k in fine.ridges])
    assert coarse.ridges


def test_a_knee_between_sizes_far_apart_lies_on_the_lines_as_they_are_drawn():
    line = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
    sizes = {"n": [1, 2, 4, 8, 16, 32], "B": 4096, "D": 8192, "F": 8192}
    chart = plot(line, on="h100", kind="time", vary="n", mesh={"X": "n"}, **sizes)
    assert [knee.text for knee in chart.ridges] == ["n between 2 and 4", "n between 8 and 16"]
    tensor, lower = chart.line("tensor"), chart.line("lower")
    assert [x * time for x, time in zip(tensor.x, tensor.y, strict=True)] == pytest.approx([tensor.y[0]] * 8)
    at = dict(zip(lower.x, lower.y, strict=True))
    assert [at[knee.x] for knee in chart.ridges] == pytest.approx([at[4], at[4]])


def test_a100_one_token_and_208_differ_by_8_percent():
    lower = a100_time().line("lower")
    at = dict(zip(lower.x, lower.y, strict=True))
    assert at[208] / at[1] == pytest.approx(1.08, abs=0.005)


def test_time_lines_are_the_bound():
    chart = a100_time()
    answer = bound("fp16[B, 5120] * fp16[5120, 5120]", on="a100", set={"hbm": 1.5e12}, B=300)
    row = chart.line("lower").x.index(300)
    assert chart.line("lower").y[row] == pytest.approx(answer.lower)
    assert chart.line("upper").y[row] == pytest.approx(answer.upper)
    for resource in ("tensor", "hbm"):
        assert chart.line(resource).y[row] == pytest.approx(answer.times[resource])


def test_the_crossing_lies_on_both_lines():
    chart = a100_time()
    knee = chart.ridges[0]
    row = chart.line("tensor").x.index(knee.x)
    assert chart.line("tensor").y[row] == pytest.approx(knee.y)
    assert chart.line("hbm").y[row] == pytest.approx(knee.y)
    assert knee.label == "from B = 226.4 tensor binds"


def test_several_curves_have_lower_and_upper_each():
    labels = [line.label for line in times_of_two().lines]
    assert labels == ["v5e", "v5e, upper", "h100", "h100, upper"]


def test_lower_is_never_above_upper():
    chart = times_of_two()
    for name in ("v5e", "h100"):
        pairs = zip(chart.line(name).y, chart.line(f"{name}, upper").y, strict=True)
        assert all(low <= high for low, high in pairs)


def test_axes_are_log_where_sizes_are_spread_by_factors():
    assert times_of_two().x.scale == times_of_two().y.scale == "log"
    assert exercise_3().x.scale == "linear"
    assert exercise_3().x.limits == (0.0, 511.0)


def test_raw_work_can_be_a_formula_of_the_size():
    chart = plot(flops="2*B*D*D", bytes="2*D*D + 4*B*D", on="h100", vary="B", B=range(1, 999), D=4096)
    same = plot("bf16[B, D] * bf16[D, F]", on="h100", vary="B", B=range(1, 999), D=4096, F="D")
    assert chart.lines[0].y == pytest.approx(same.lines[0].y)


def test_a_formula_may_stand_on_a_size_the_expression_does_not_have():
    chart = plot("bf16[B, D] * bf16[D, F]", "gelu(bf16[B, F])", on="h100", vary="B", B=[1, 64], D=512, F="4*D")
    answer = bound("gelu(bf16[B, F])", on="h100", B=64, F=2048)
    assert chart.lines[1].y[-1] == pytest.approx(answer.attainable)


def test_expressions_side_by_side_use_the_sizes_they_have():
    chart = plot("bf16[B, D] * bf16[D, F]", "gelu(bf16[B, F])", on="h100", vary="B", B=[1, 64, 512], D=512, F="4*D")
    assert [line.label for line in chart.lines[:2]] == ["bf16[B, D] * bf16[D, F]", "gelu(bf16[B, F])"]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"vary": "B", "B": 64, "D": 8, "F": 8}, SizeError, "size B has one value, 64; a curve needs several"),
        ({"vary": "B", "B": [7, 7], "D": 8, "F": 8}, SizeError, "size B has one value, [7, 7]"),
        ({"vary": "C", "B": [1, 2], "D": 8, "F": 8}, SizeError, "nothing varies: size C is not given"),
        ({"kind": "time", "B": 64, "D": 8, "F": 8}, SizeError, "which size to draw over: no size has several values"),
        ({"kind": "time", "B": [1, 2], "D": [8, 9], "F": 8}, SizeError, "B, D have several values; say vary='B'"),
        ({"kind": "tim", "B": 64, "D": 8, "F": 8}, InputError, "unknown kind of chart 'tim'; did you mean 'time'?"),
        ({"kind": "roofline", "vary": "B", "B": [1, 2]}, InputError, "drawn over intensity, not over a size"),
        ({"vary": "B", "B": [1, 2], "D": 8}, SizeError, "F"),
        ({"vary": "B", "B": [0, 2], "D": 8, "F": 8}, SizeError, "size B is 0"),
        ({"vary": "B", "B": [1, 2], "D": list(range(1, 20)), "F": 8}, SizeError, "19 curves are more"),
        ({"vary": "B", "B": [1, 2], "D": 8, "F": 8, "levels": ["hbm"]}, InputError, "levels goes with a roofline"),
        ({"B": list(range(1, 200)), "D": 8, "F": 8}, SizeError, "199 points are more than a chart can hold (64)"),
        ({"B": 1, "D": 8, "F": 8, "names": ["a", "b"]}, InputError, "2 names for 1 expressions"),
        ({"B": 1, "D": 8, "F": 8, "sizes": {"B": 2}}, SizeError, "size B is given twice"),
        ({"B": 1, "D": 8, "F": 8, "theme": "drak"}, InputError, "unknown theme 'drak'; did you mean 'dark'?"),
    ],
)  # fmt: skip
def test_messages(arguments, kind, message):
    with pytest.raises(kind) as caught:
        plot("bf16[B, D] * bf16[D, F]", on="h100", **arguments)
    assert message in str(caught.value)


def test_a_size_no_expression_has_is_an_error():
    with pytest.raises(SizeError, match="size Q is used by none of the expressions"):
        plot("bf16[B, 8] * bf16[8, 8]", "gelu(bf16[B, 8])", on="h100", vary="B", B=[1, 2], Q=3)


def test_an_expression_without_the_size_drawn_over_is_an_error():
    with pytest.raises(SizeError, match="has no size B to draw it over"):
        plot("bf16[B, 8] * bf16[8, 8]", "gelu(bf16[K, 8])", on="h100", vary="B", B=[1, 2], K=3)


@pytest.mark.parametrize(
    ("line", "target", "message"),
    [
        ("copy(bf16[B])", "h100", "copy(bf16[B]) has no FLOPs, so it has no throughput; kind='time' draws its time"),
        ("gelu(bf16[B])", "gaudi2", "gelu(bf16[B]) has FLOPs that Intel Gaudi2 has no peak for, so it has no through"),
    ],
)
def test_what_has_no_throughput_is_an_error_and_has_a_time(line, target, message):
    with pytest.raises(InputError) as caught:
        plot(line, on=target, vary="B", B=[1, 64])
    assert message in str(caught.value)
    chart = plot(line, on=target, kind="time", B=[1, 64])
    assert chart.line("lower").y[-1] == pytest.approx(bound(line, on=target, B=64).lower)


def test_nothing_to_draw_over_a_size_is_an_error():
    with pytest.raises(InputError, match="nothing to draw over a size; give an expression"):
        plot(on="h100", vary="B", B=[1, 2])


def test_a_curve_is_not_named_by_a_size_that_changes_along_it():
    chart = plot("bf16[B, D] * bf16[D, F]", on="h100", vary="D", B=[1, 512], D=[64, 1024, 8192], F="4*D")
    assert [line.text for line in chart.lines if line.role == "curve"] == ["B = 1", "B = 512"]


def test_sizes_are_marked_at_whole_numbers():
    for values in ([1, 2, 3, 4], [1000, 1001, 1002]):
        axis = plot("bf16[B, 64] * bf16[64, 64]", on="h100", vary="B", B=values).x
        assert [value for value, _ in ticks(axis)][-len(values) :] == values


@pytest.mark.parametrize("sizes", [{"B": range(1, 16), "F": 10**30}, {"B": [10**19, 10**20, 10**26], "F": 64}])
def test_sizes_beyond_64_bits_are_drawn(sizes):
    chart = plot("bf16[B, D] * bf16[D, F]", on="h100", vary="B", D=512, **sizes)
    assert chart.lines[0].x[0] == pytest.approx(float(min(sizes["B"])))


def test_bounds_of_several_machines_are_told_by_their_lines_and_chips_by_themselves():
    several = roofline.sweep("bf16[B, D] * bf16[D, F]", on=["h100", "h200"], B="1:512", D=8192, F=8192).plot("time")
    assert several.notes[0] == "solid: everything overlaps; dotted: nothing does"
    alone = roofline.sweep("bf16[B, D] * bf16[D, F]", on="h100", B="1:512", D=8192, F=8192).plot("time")
    assert alone.notes[0] == "lower: everything overlaps; upper: nothing does"
    steps = roofline.sweep("llama-3-8b", on=["h100", "h200"], batch=[1, 8, 64], context=8192).plot("time")
    assert [line.label for line in steps.lines] == ["h100", "h200"]


def test_a_solution_draws_the_times_that_cross_where_it_flips() -> None:
    found = solve("bf16[B, D] * int8[D, F] -> bf16[B, F]", "B", on="v5e", D=4096, F=4096)
    chart = found.plot()
    assert [ridge.x for ridge in chart.ridges] == [pytest.approx(found.value)]
    assert chart.lines[0].x[0] < found.value < chart.lines[0].x[-1]
    split = solve("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "D", on="v5e:4", B=64, F=8192)
    assert [ridge.x for ridge in split.plot().ridges] == [pytest.approx(split.value)]
    line, words = "bf16[B, D] * bf16[D, F]", "a solution without a size in numbers at which it flips"
    for other, said in (
        (solve(line, "hbm", on="v5e", B=64, D=4096, F=4096), words),
        (solve(line, "B", on="v5e"), words),
        (solve(line, "B", on="v5e", D=8, F=8), words),  # it never flips
        (solve(line, "B", on="v5e", D=4096, F=4096, time="1ms"), "a solution for a time"),
    ):
        with pytest.raises(InputError, match=f"there is no picture of {said}; "):
            other.plot()


def test_a_formula_steps_where_its_algorithm_changes() -> None:
    """Between powers of two a slope led from one algorithm to the other."""
    form = roofline.formula("AllReduce_X(bf16[N] {U_X})", on="h100:8", mesh={"X": 8})
    chart = form(N=[2**k for k in range(6, 24)]).plot()
    for line in chart.lines:
        every = form(N=[int(x) for x in line.x])[f"time.{line.label}"].tolist()
        assert list(line.y) == pytest.approx(every, rel=1e-12)
    (nvlink,) = (line for line in chart.lines if line.label == "nvlink")
    falls = [(x, after) for (x, y), (after, then) in pairwise(zip(nvlink.x, nvlink.y, strict=True)) if then < y]
    assert falls == [(38571.0, 38572.0)]  # two shots in the switch send less from there on
    assert {int(x) for x in nvlink.x} >= {2**k for k in range(6, 24)}


@pytest.mark.parametrize("width", some([390, 600], 2))
def test_a_name_is_nearer_to_its_own_line_than_to_another(width: int) -> None:
    """Memory and compute that run close together: a name below both seemed that of the lower one."""
    line = "h = bf16[B, D] * bf16[D, F]; g = gelu(h); g * bf16[F, D]"
    table = roofline.sweep(line, on="h100", B=[1, 4, 16, 64, 256, 1024], D=4096, F=16384)
    chart = table.plot("time").with_width(width)
    found = drawn_layout(chart)
    paths = {
        each.text: Segments([*pairwise(clipped([found.frame.at(*at) for at in points], found.frame.box))])
        for each in chart.lines
        for points in [zip(each.x, each.y, strict=True)]
    }
    named = [text for text in found.labels if text.lines[0] in paths]
    assert named
    for text in named:
        far = {name: path.distance([text.box])[0] for name, path in paths.items()}
        assert far[text.lines[0]] <= min(far.values()) + 2


def test_no_line_to_a_point_runs_through_a_name() -> None:
    found = drawn_layout(operations_of_experts().with_width(600))
    leaders = [(each.lines, each.leader) for each in found.labels if each.leader is not None]
    assert not [
        text.lines for text in found.labels for of, leader in leaders if of != text.lines and crosses(leader, text.box)
    ]


def test_a_curve_of_one_size_that_can_be_asked_is_refused() -> None:
    line, sizes = "bf16[B, D_X] * bf16[D_X, F]", {"B": [1, 8], "D": "4*B", "F": 64}
    with pytest.raises(SizeError, match="of the values of size B only 8 can be asked; a curve needs several"):
        plot(line, on="h100:8", vary="B", sizes=sizes)


def test_steps_of_which_one_batch_fits_are_drawn() -> None:
    chart = roofline.sweep("llama-3-8b", on="h100", batch=[1, 600], context=4096).plot()
    assert [line.x for line in chart.lines] == [(1.0,)]
    assert chart.x.limits == (0.0, 1.0)
