"""Pictures of serving: what is drawn is what the answers say; bars in files and in the terminal."""

from __future__ import annotations

import struct
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from charts_to_draw import (
    ALL,
    bars,
    front_of_one,
    front_of_several,
    memory_of_batches,
    operations_of_both,
    times_of_step,
)
from tests.strategies import some

import roofline
from roofline import chip, llm, sweep, train
from roofline.charts.bars import bars_chart
from roofline.charts.drawing import drawn_layout
from roofline.charts.model_charts import front_chart, memory_by_part, serving_roofline, time_by_operation
from roofline.errors import InputError
from roofline.models import latency_throughput, serve
from roofline.quantity import format_percent, format_quantity


def test_times_are_those_of_the_operations():
    found = serve("llama-3-70b", on="h200:8", tensor=8, batch=8, prompt=1024, context=4096)
    for phase, answer in (("prefill", found.prefill), ("decode", found.decode)):
        chart = time_by_operation(found, phase=phase)
        assert sum(bar.x1 - bar.x0 for bar in chart.bars) == pytest.approx(answer.op_by_op, rel=1e-9)
        longest = max(answer.ops, key=lambda part: part.lower)
        assert chart.bars[0].x1 == pytest.approx(longest.lower)
        assert chart.y.names[0] == longest.op.where
        binds = {part.op.where: part.bound_by for part in answer.ops}
        assert all(bar.part == binds[chart.y.names[bar.row]] for bar in chart.bars if chart.y.names[bar.row] in binds)
    assert time_by_operation(found).y.names == time_by_operation(found, phase="decode").y.names


def test_the_bar_of_the_rest_says_what_binds_each_part_of_it():
    found = train("llama-3-70b", on="h100:64", fsdp=16, tensor=4, checkpoint="full", batch_tokens="4M")
    last = [bar for bar in time_by_operation(found).bars if "more" in bar.label]
    assert {"tensor", "nvlink", "nic"} <= {bar.part for bar in last}
    assert len({bar.series for bar in last}) == len(last)
    ordered = sorted(found.bound.ops, key=lambda part: -float(part.lower))[15:]
    for bar in last:
        sent = sum(float(part.lower) for part in ordered if part.bound_by == bar.part)
        assert bar.x1 - bar.x0 == pytest.approx(sent)


def test_memory_is_stacked_part_on_part_against_the_capacity():
    found = serve("llama-3-8b", on="h100", batch=np.array([1.0, 16.0, 64.0, 256.0]), context=8000)
    chart = memory_by_part(found)
    assert chart.y.names == ("batch 1", "batch 16", "batch 64", "batch 256")
    for row, total in enumerate(found.memory.total):
        stack = [bar for bar in chart.bars if bar.row == row]
        assert stack[0].x0 == 0
        assert all(one.x1 == other.x0 for one, other in pairwise(stack))
        assert stack[-1].x1 == pytest.approx(total)
    (limit,) = chart.lines
    assert set(limit.x) == {found.memory.capacity}


def test_every_point_stands_where_its_operation_does():
    found = serve("llama-3-8b", on="h100", batch=8, prompt=512)
    chart = serving_roofline(found)
    assert {point.label.partition(":")[0] for point in chart.points} == {"prefill", "decode"}
    for point in chart.points:
        phase, _, names = point.label.partition(": ")
        answer = found.prefill if phase == "prefill" else found.decode
        name = names.split(",")[0]
        parts = [part for part in answer.ops if part.op.where.rpartition(".")[2] == name]
        assert (point.x, point.y) in [(part.intensity, part.flops / part.lower) for part in parts]
    assert any("left out" in note for note in chart.notes)


def test_an_operation_without_bytes_of_its_own_is_said_with_its_time():
    found = serve("llama-2-7b", on="l4", prompt=2048)
    [part] = [part for part in found.prefill.ops if part.op.where.endswith("attention") and part.flops > 1e12]
    assert not part.bytes
    [said] = [note for note in serving_roofline(found).notes if "not on the chart" in note]
    share = format_percent(part.lower / found.prefill.op_by_op)
    time = f"attention {format_quantity(part.lower, 's')} ({share} of the time)"
    assert said == f"prefill: not on the chart, having no bytes of its own: {time}"


def test_one_operation_in_sight_is_one_point():
    from roofline.models import outline

    found = serve(outline(1e9, kv=1000), on="h100", context=100)
    assert [point.text for point in serving_roofline(found).points] == ["parameters"]


def test_a_front_draws_every_choice_that_fits():
    found = latency_throughput("llama-3-70b", on="h200", tensor=[2, 4, 8], batch=[1, 8, 64, 512], context=8000)
    chart = front_chart(found)
    curves = [line for line in chart.lines if line.role == "curve"]
    drawn = sorted(pair for line in curves for pair in zip(line.x, line.y, strict=True))
    assert drawn == sorted((c.tokens_per_second_per_user, c.tokens_per_second_per_chip) for c in found.fitting)
    (band,) = [line for line in chart.lines if line.role == "lower"]
    assert len(band.x) == len(found.best)
    assert found.said[0] in chart.notes


def test_messages():
    with pytest.raises(InputError, match="no choice fits, so there is nothing to draw; DOES NOT FIT: none of them"):
        front_chart(latency_throughput("llama-3-70b", on="h100", context=10))
    many = serve("llama-3-8b", on="h100", batch=np.array([1.0, 2.0]), context=10)
    for view in (time_by_operation, serving_roofline):
        with pytest.raises(InputError, match="this picture is of one configuration"):
            view(many)
    with pytest.raises(InputError, match="no prefill was asked for; there is decode"):
        time_by_operation(many, phase="prefill")
    with pytest.raises(InputError, match="17 rows of bars; from 1 to 16"):
        bars_chart([("row", [("part", 1.0)])] * 17, title="", label="", unit="s")


def test_a_key_names_every_part_in_its_colour():
    chart = bars()
    keyed = {text.lines[0]: text.swatch[0] for text in drawn_layout(chart).around if text.swatch}
    assert {bar.part: bar.series for bar in chart.bars}.items() <= keyed.items()


def test_bars_in_a_terminal_are_as_long_as_they_say():
    lines = memory_of_batches().to_text(80).splitlines()
    rows = [line for line in lines if line.startswith("batch")]
    filled = [sum(cell in "█▒▓░" for cell in row) for row in rows]
    assert filled == sorted(filled)
    assert all("┃" in row for row in rows)
    assert "weights" in lines[-1]


@pytest.mark.parametrize(
    "make", [bars, times_of_step, memory_of_batches, operations_of_both, front_of_one, front_of_several]
)
def test_a_specification_is_plain_data(make):
    import json

    assert ALL[make.__name__].__wrapped__ is make
    data = json.loads(json.dumps(make().to_dict(), allow_nan=False))
    assert data["marks"]


@pytest.mark.parametrize("width", some([320, 400, 2000], 3))
@pytest.mark.parametrize("make", [times_of_step, front_of_one])
def test_another_width_keeps_the_rows_of_bars_and_room_for_text(tmp_path, make, width):
    chart, file = make(), tmp_path / "a.svg"
    chart.save(file, width=width)
    height = chart.height if chart.bars else max(240, round(width * chart.height / chart.width))
    assert f'width="{width:g}" height="{height:g}"' in file.read_text(encoding="utf-8")


def test_a_picture_of_one_phase_holds_that_phase():
    found = serve("llama-3-8b", on="h100", batch=8, prompt=512)
    both, decode = serving_roofline(found), serving_roofline(found, phase="decode")
    names = {point.label.removeprefix("decode: ") for point in both.points if point.label.startswith("decode")}
    assert {point.label for point in decode.points} == names
    assert decode.subtitle == both.subtitle.partition(" · ")[2]
    assert len(memory_by_part(found, phase="decode").y.names) == 1
    only_prefill = serve("llama-3-8b", on="h100", batch=8, prompt=512, context=None)
    with pytest.raises(InputError, match="no sampling was asked for; there is prefill and decode"):
        serving_roofline(only_prefill, phase="sampling")


def test_the_small_print_of_a_low_picture_is_whole():
    chart = serve("llama-3-70b", on="h200:8", tensor=8, batch=8, prompt=1024, context=4096).plot("memory")
    shown = [line for text in drawn_layout(chart).around if text.role == "muted" for line in text.lines]
    assert any(line.endswith("which the answer lists") for line in shown)
    assert not any(line.endswith("…") for line in shown)


def test_a_chart_is_saved_as_wide_as_asked(tmp_path):
    chart, file = front_of_one(), tmp_path / "a.svg"
    chart.save(file, width=1200)
    assert 'width="1200" ' in file.read_text(encoding="utf-8")
    assert chart.width != 1200
    pixels, answer = tmp_path / "a.png", serve("llama-3-8b", on="h100", context=64)
    for save, wide in ((partial(chart.save, scale=2), 1200), (chart.save, 600), (answer.save, 600)):
        save(pixels, width=600)
        assert struct.unpack(">I", pixels.read_bytes()[16:20]) == (wide,)


def test_the_front_is_the_picture_of_an_answer_that_was_asked_for_one(tmp_path):
    batches = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    found = llm("llama-3-70b", on="h200", tensor=[2, 4, 8], batch=batches, context=8192, front=True)
    assert found.plot().to_dict() == found.front.plot().to_dict()
    found.save(tmp_path / "front.svg")
    assert "Latency and throughput" in (tmp_path / "front.svg").read_text()
    found.save(tmp_path / "front.html")
    assert "Latency and throughput" in (tmp_path / "front.html").read_text()
    frame = found.to_pandas("front")
    assert len(frame) == len(found.front.fitting)
    assert frame["best"].sum() == len(found.front.best)
    assert found.plot("memory").notes[0] == "16 of 27 configurations are drawn"


def test_several_layouts_are_drawn_as_latency_against_throughput() -> None:
    asked = {"on": "h100", "context": 8192}
    found = llm("llama-3-70b", tensor=[2, 4, 8], batch=[1, 8], **asked)
    points = found.plot().points
    assert found.plot().kind == "front"
    alone = [llm("llama-3-70b", tensor=tensor, batch=batch, **asked) for tensor in (2, 4, 8) for batch in (1, 8)]
    rates = [
        (1 / one.time_per_token, one.tokens_per_second / tensor)
        for one, tensor in zip(alone, (2, 2, 4, 4, 8, 8), strict=True)
    ]
    assert sorted((point.x, point.y) for point in points) == [pytest.approx(each) for each in sorted(rates)]
    assert llm("llama-3-70b", tensor=[2, 4], batch=[1, 8], on="h100", context=[64, 128]).plot().kind == "bars"


def test_a_picture_of_some_steps_says_how_many_there_are():
    table = sweep("llama-3-8b", on=["h100", "h200"], batch=8, context=1024, kv=["bf16", "fp8"])
    assert not any("are drawn" in note for note in table.plot().notes)
    weights, kv = ["bf16", "fp8", "int8", "int4"], ["bf16", "fp8", "int8"]
    table = sweep("llama-3-8b", on=["h100", "h200"], batch=8, context=1024, weights=weights, kv=kv)
    assert "16 of 24 choices are drawn" in table.plot().notes


def test_curves_of_throughput_end_where_memory_does() -> None:
    asked = {"on": "h100:8", "tensor": 8, "batch": [16, 32, 64, 128, 256], "context": [8000, 32000]}
    table = sweep("llama-3-70b", **asked, columns="tokens_per_second")
    whole = sweep("llama-3-70b", **asked)
    rates = {
        (b, c): (b / t, f) for b, c, t, f in zip(*map(whole.plain, ("batch", "context", "lower", "fits")), strict=True)
    }
    chart = table.plot()
    assert (chart.kind, chart.y.unit) == ("throughput", "token/s")
    drawn = {(x, line.label): y for line in chart.lines for x, y in zip(line.x, line.y, strict=True)}
    assert drawn == {(b, f"context = {c}"): pytest.approx(rate) for (b, c), (rate, fits) in rates.items() if fits}
    assert chart.notes[0] == f"{len(drawn)} of 10 steps are drawn: {10 - len(drawn)} do not fit the memory"
    assert table.plain("fits") == whole.plain("fits")
    assert [cell.over for cell in table.plot("rate-map").cells].count(True) == 10 - len(drawn)
    fitting = sweep("llama-3-70b", **{**asked, "batch": [8, 16]}, columns="throughput")
    assert list(fitting) == ["batch", "context", "throughput"]


def test_a_picture_of_a_sweep_says_what_is_the_same_in_all_and_leaves_out_what_does_not_fit() -> None:
    asked = {"on": "h200:2", "tensor": 2, "batch": range(1, 257), "context": 8000, "weights": ["fp8", "bf16"]}
    table = sweep("qwen3-32b", **asked)
    chart = table.plot()
    assert chart.subtitle == "2 x NVIDIA H200 SXM, tensor 2, context = 8000"
    assert chart.x.label == "batch"
    fits = table["fits"].tolist()
    assert sum(len(line.x) for line in chart.lines) == sum(fits) < len(fits)
    said = f"{sum(fits)} of 512 steps are drawn: {fits.count(False)} do not fit the memory"
    assert said in chart.notes
    assert chart.left_out == (said,)
    mine = sweep("qwen3-32b", **{**asked, "on": chip({"name": "Mine", "bf16": 1e15, "hbm": 4e12}), "tensor": 1})
    assert mine.same_in_all == "Mine, tensor 1"


def test_a_sweep_without_a_context_is_after_the_usual_one() -> None:
    assert sweep("llama-3-8b", on="h100", batch=[1, 2])["context"].tolist() == [4096, 4096]


def test_memory_of_one_configuration_is_named_below_the_title_and_its_rows_are_never_cut():
    found = serve("llama-3-70b", on="h200:8", tensor=8, batch=64, prompt=2048, context=8192)
    chart = memory_by_part(found)
    assert chart.y.names == ("prefill", "decode")
    assert chart.subtitle.split(" · ") == [
        "of each of 8 chips",
        "prefill (batch 64, prompt 2,048, tensor 8)",
        "decode (batch 64, context 8,192, tensor 8)",
    ]


def test_a_budget_draws_its_days_and_what_they_would_be_at_the_peak() -> None:
    found = roofline.train("llama-3-70b", on="h100:2048", tokens="15T", mfu=0.4)
    peak, rest = found.plot().bars
    assert (peak.x1, rest.x1) == (pytest.approx(0.4 * found.days), pytest.approx(found.days))
    both = roofline.train("llama-3-70b", on="h100:2048,b200:2048", tokens="15T", mfu=0.4)
    assert [bar.x1 for bar in both.plot().bars[1::2]] == [pytest.approx(each.days) for each in both.answers]


def test_a_kind_of_part_has_one_colour_in_every_picture() -> None:
    served = roofline.llm("llama-3-8b", on="h100", batch=8, prompt=64, context=8192)
    trained = roofline.train("llama-3-8b", on="h100:64", batch_tokens="1M")
    colors: dict[str, set[int]] = {}
    for chart in (served.plot("memory"), trained.plot("memory")):
        assert len({bar.series for bar in chart.bars}) == len({bar.part for bar in chart.bars})
        for bar in chart.bars:
            colors.setdefault(bar.part, set()).add(bar.series)
    assert all(len(each) == 1 for each in colors.values())
    main = {
        bar.series
        for chip, name in (("h100", "hbm"), ("l4", "dram"), ("v5e", "hbm"))
        for bar in roofline.llm("llama-3-8b", on=chip, batch=1, context=1024).plot("time").bars
        if bar.part == name
    }
    assert main == {1}
