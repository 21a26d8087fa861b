"""A program's operations on one roofline: alike ones together, what has no place or takes least left out and said."""

from __future__ import annotations

import pytest

from roofline import formula
from roofline.bounds.api import bound
from roofline.charts.plot import plot
from roofline.charts.roofline_charts import MOST_POINTS, gather_operations, program_roofline
from roofline.errors import InputError, SizeError
from roofline.models.serving.answer import serve
from roofline.models.sweeps import sweep
from roofline.models.training import train

LAYERS = "h = bf16[B, D] * bf16[D, F]; g = gelu(h); y = g * bf16[F, D]; transpose(y)"


def test_operations_in_one_place_share_a_point():
    chart = program_roofline(bound(LAYERS, on="h100", B=512, D=4096, F=4096))
    assert [(round(point.x, 1), point.bound_by) for point in chart.points] == [(409.6, "tensor"), (1.2, "hbm")]
    assert chart.points[0].label == "bf16[B, D] * bf16[D, F] -> bf16[B, F], bf16[B, F] * bf16[F, D] -> bf16[B, D]"
    assert chart.notes[0] == "1 shorter, byte-free or FLOP-free operations left out"
    assert chart.notes[1].startswith("not on the chart, having no FLOPs of its own: transpose(bf16[B, D]) ")


def test_the_longest_have_points_and_all_others_are_counted():
    lines = "; ".join(f"x{n} = bf16[B, {64 * 2**n}] * bf16[{64 * 2**n}, F]" for n in range(5))
    answer = bound(lines, on="h100", B=512, F=8192)
    groups, left = gather_operations(answer, 3)
    assert (len(groups), left) == (3, 2)
    times = [float(members[0].lower) for members in groups]
    assert times == sorted(times, reverse=True)
    assert gather_operations(answer, MOST_POINTS)[1] == 0


def test_what_cannot_be_drawn():
    with pytest.raises(InputError, match="no operation of the program has both FLOPs and bytes"):
        program_roofline(bound("transpose(bf16[B, D])", on="h100", B=8, D=8))
    with pytest.raises(SizeError, match="size B has no value"):
        program_roofline(bound(LAYERS, on="h100", D=8, F=8))


def test_gradients_of_a_training_step_are_told_from_what_they_are_of():
    chart = train("llama-3-8b", on="h100:64", batch_tokens=2**22, tensor=4).plot()
    names = {point.text for point in chart.points}
    assert "input_layernorm, post_attention_layernorm, norm" in names
    assert "gradients of post_attention_layernorm, input_layernorm, norm" in names


def test_operations_under_one_roof_have_a_colour_and_a_marker_each() -> None:
    step = serve("llama-3-8b", on="h100", batch=8, context=1024).plot()
    for chart in (plot("bf16[64, 512] @ bf16[512, 512]", "softmax(fp32[64, 512])", on="h100"), step):
        assert len({(point.series, point.shape) for point in chart.points}) == len(chart.points) > 1


def test_training_steps_draw_the_time_of_operations_and_side_by_side_what_they_take_at_worst() -> None:
    steps = [train("llama-3-8b", on="h100:8", batch_tokens=2**19, tensor=ways) for ways in (1, 8)]
    bars = steps[0].plot("time").bars
    assert sum(bar.x1 - bar.x0 for bar in bars) == pytest.approx(steps[0].bound.op_by_op)
    both = steps[0].compare(steps[1]).plot("time").bars
    assert [(bar.row, bar.x1) for bar in both] == [
        (row, pytest.approx(end)) for row, step in enumerate(steps) for end in (step.lower, step.upper)
    ]
    name = "h100:8"
    assert [bar.label for bar in both[1::2]] == [
        f"{name} tensor 1, fsdp 8, does not fit: and at worst",
        f"{name} tensor 8, does not fit: and at worst",
    ]
    assert steps[0].compare(steps[1]).plot("time").subtitle == "batch tokens 524,288, sequence 4,096"


def test_rows_that_cannot_be_are_counted_below_the_bars_of_a_sweep() -> None:
    chart = sweep("llama-3-8b", phase="train", on="h100:8", tensor=[1, 3, 8], batch_tokens=2**19).plot()
    assert chart.subtitle == "8 x NVIDIA H100 SXM5 80GB, batch tokens 524,288, sequence 4,096"
    assert chart.left_out == ("2 of 3 choices are drawn",)
    assert chart.notes[1].startswith("1 row has no figures: on h100:8, tensor 3: tensor 3 does not divide the 8 ")


def test_the_picture_of_a_formula_names_its_machine_and_the_algorithms_of_its_collective() -> None:
    found = formula("AllReduce_X(bf16[N])", on="h100:8", mesh={"X": 8})
    chart = found(N=[2**at for at in range(4, 26, 2)]).plot()
    assert chart.subtitle == "8 x NVIDIA H100 SXM5 80GB"
    assert chart.notes[0] == "AllReduce over X: the fastest at each size: direct, in-switch from 77.1 kB"
