"""What to expect, drawn: a dashed roof below the roof, whiskers, sizes that the launch binds."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from roofline import bound, sweep
from roofline.charts import plot
from roofline.cli.lines import plot_command
from roofline.errors import InputError
from roofline.estimates import Estimator, expected_roof
from roofline.quantity import format_quantity

LINES = ("bf16[512, 8192] @ bf16[8192, 8192]", "bf16[16, 1024] @ bf16[1024, 1024]")
CURVE = "bf16[B, D] * bf16[D, F]"


def test_a_roofline_has_the_roof_that_products_reach() -> None:
    plain, chart = plot(*LINES, on="h100"), plot(*LINES, on="h100", estimate="vllm")
    roof = expected_roof("h100")
    assert chart.marks[: len(plain.marks)] == plain.marks
    assert chart.line("h100 expected bf16").y == (roof.peak, roof.peak)
    slope = chart.line("h100 expected bf16 slope")
    assert slope.y == pytest.approx([roof.bandwidth * x for x in slope.x])
    assert slope.dash == 1
    small = f"{format_quantity(roof.half_bytes, 'B')} or {format_quantity(roof.half_flops, 'FLOP')}"
    assert roof.half_bytes == pytest.approx(2.8e-6 * 3.0e12, rel=0.05)
    assert any(f"launch-bound below n½ = {small}" in note for note in chart.notes)


def test_whiskers_hold_what_is_expected_of_an_operation() -> None:
    chart = plot(*LINES, on="h100", estimate="vllm")
    whiskers = [line for line in chart.lines if line.label.startswith("expected: ")]
    for text, line in zip(LINES, whiskers, strict=True):
        answer = bound(text, on="h100")
        found = Estimator("vllm").expect(answer)
        assert line.x == pytest.approx([answer.intensity] * 2)
        assert line.y == pytest.approx([answer.flops / found.high, answer.flops / found.low])
        assert chart.y.limits[0] < line.y[0]


def test_a_chart_over_a_size_has_an_expected_curve_and_sizes_that_the_launch_binds() -> None:
    sizes = {"B": range(1, 513), "D": 1024, "F": "D"}
    chart = plot(CURVE, on="h100", vary="B", estimate="vllm", **sizes)
    plain = plot(CURVE, on="h100", vary="B", **sizes)
    curve = next(line for line in chart.lines if line.label.startswith("expected: "))
    for x, y in list(zip(curve.x, curve.y, strict=True))[::8]:
        answer = bound(CURVE, on="h100", B=int(x), D=1024, F=1024)
        assert y == pytest.approx(answer.flops / Estimator("vllm").expect(answer).value)
        assert y < answer.attainable
    (region,) = chart.regions
    around = (max(x for x in curve.x if x <= region.x1), min(x for x in curve.x if x >= region.x1))
    found = (Estimator("vllm").expect(bound(CURVE, on="h100", B=int(x), D=1024, F=1024)) for x in around)
    before, after = (one.kernels[0].parts["launch"] / one.value for one in found)
    assert 0.45 < after <= 0.5 <= before < 0.55
    assert not plain.regions
    said = "dashed: what is expected of kernels of vllm, at 25 sizes at most; whiskers: 80%"
    assert chart.notes == (said, *plain.notes)
    assert plot(CURVE, on="h100", vary="B", kind="time", estimate="vllm", **sizes).line(curve.label).y[0] > 2e-6


def test_a_machine_without_constants_says_what_would_provide_them() -> None:
    chart = plot(LINES[0], on="mi300x", estimate="vllm")
    assert "no constants of vllm are known; roofline calibrate makes some" in chart.subtitle
    assert not any("expected" in line.label for line in chart.lines)


def test_the_command_draws_it_and_refuses_what_has_no_meaning() -> None:
    words = [LINES[0], "--on", "h100", "--estimate", "--library", "trtllm", "--json"]
    data = json.loads(CliRunner().invoke(plot_command, words, catch_exceptions=False).output)
    assert "h100 expected bf16" in [mark["label"] for mark in data["marks"]]
    with pytest.raises(InputError, match="go with --estimate"):
        CliRunner().invoke(plot_command, [LINES[0], "--on", "h100", "--library", "trtllm"], catch_exceptions=False)


def test_what_is_expected_on_several_machines_names_the_machine() -> None:
    chart = plot(LINES[0], on=["a100", "h100"], estimate="vllm")
    whiskers = [line.label for line in chart.lines if line.label.startswith("expected: ")]
    assert [f" on {name}: " in text for name, text in zip(("a100", "h100"), whiskers, strict=True)] == [True, True]


def test_answers_with_what_to_expect_draw_it() -> None:
    """Over sizes the curve of the table's own figures; of one size a bar a kernel, as long as its time."""
    line = "attention(q[B,1,32,128], k[B,T,8,128], v[B,T,8,128])"
    table = sweep(line, on="h100", B=8, T=[512, 8192], estimate=True)
    curve = next(each for each in table.plot("time").lines if each.label.startswith("expected: "))
    ends = bound(line, on="h100", B=8, T=[512, 8192], estimate=True)
    assert (curve.y[0], curve.y[-1]) == pytest.approx(table["expected"].tolist())
    assert ends.plot("time").line(curve.label).y[0] == pytest.approx(curve.y[0])
    one = bound(f"o = {line}; gelu(o)", on="h100", B=8, T=8192, estimate=True)
    bars = one.plot("estimate").bars
    assert max(bar.x1 for bar in bars) == pytest.approx(max(each.value for each in one.expectation.kernels))
    assert {"memory", "waves", "launch"} <= {bar.part for bar in bars}
    steps = sweep("llama-3-8b", on="h100", batch=[1, 8, 64], context=[1024, 8192], estimate=True)
    lines = [each for each in steps.plot("time").lines if each.label.startswith("expected: ")]
    assert [each.label for each in lines] == ["expected: context = 1024", "expected: context = 8192"]
    assert lines[0].y == tuple(steps["expected"].tolist()[::2])
