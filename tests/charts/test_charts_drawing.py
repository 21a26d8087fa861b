"""Drawing: every label is inside, none covers another, and files come out the same each time in every format."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise, product
from xml.etree import ElementTree

import pytest
from charts_to_draw import ALL, exercise_3, fifteen_matmuls, times_of_two, two_chips
from plain_geometry import contrast, crosses, overlap
from tests.strategies import LONG, some

from roofline import llm
from roofline.charts import drawing, plot
from roofline.charts.answer_charts import plot_answer
from roofline.charts.bars import bars_chart
from roofline.charts.chart import SMALLEST
from roofline.charts.drawing import DASHES, THEMES, drawn_layout, text_width
from roofline.charts.layout import MARKER, SMALL, TITLE, ridge_drop, words, wrap
from roofline.charts.model_charts import front_chart
from roofline.charts.placement import Box, Boxes, Segments, segment_box
from roofline.errors import InputError
from roofline.models import latency_throughput

SIZES = [(600, 400), (720, 480), (1200, 720)]

#: Every other picture at the size that is hardest to fill, and some at the largest; in the long test each at each.
SIZED = list(product(ALL, SIZES)) if LONG else [*product([*ALL][::2], SIZES[:1]), *product([*ALL][1::6], SIZES[2:])]


def inside(box, width, height):
    return all(0 <= x <= width and 0 <= y <= height for x, y in box.corners())


@cache
def laid_out(name, size):
    return drawn_layout(ALL[name]().with_size(*size))


def without_chip(text, chart):
    """A label without the chip that it may name: the rest is the text of its line."""
    chip, _, rest = text.partition(" ")
    return rest if chip in {line.group for line in chart.lines if line.group} else text


@pytest.mark.parametrize("name", ["two_chips", "levels_of_two"])
def test_of_several_chips_each_label_names_its_own_where_there_is_room(name):
    lines = [line for line in ALL[name]().lines if line.text]
    drawn = [text.lines[0] for text in laid_out(name, (1200, 720)).labels]
    assert lines
    assert all(f"{line.group} {line.text}" in drawn for line in lines)


CROWDED = ("program", "fifteen_matmuls", "roofs_of_four", "operations_of_both", "operations_of_experts")
WITH_LIMITS = ("bars", "memory_of_batches")


def no_text_covers_another_or_leaves_the_picture(chart, found):
    for first, second in combinations((*found.around, *found.labels), 2):
        assert not overlap(first.box, second.box), (first.lines, second.lines)
    for text in (*found.around, *found.labels):
        assert inside(text.box, chart.width, chart.height), text.lines


def no_label_covers_a_marker(chart, found):
    markers = [Box(*found.frame.at(mark.x, mark.y), MARKER, MARKER) for mark in (*chart.points, *chart.ridges)]
    for label in found.labels:
        assert not any(overlap(label.box, marker) for marker in markers), label.lines


def a_line_is_labelled_where_it_is_or_in_the_key_with_its_figure_and_its_stroke(chart, found):
    beside = {(without_chip(text.lines[0], chart), text.series) for text in found.labels}
    for line in chart.lines:
        keyed = [t for t in found.around if t.swatch == (line.series, line.dash) and line.text in t.lines[0]]
        assert (line.text, line.series) in beside or keyed or not line.text, line.label


def no_thin_line_runs_through_another_label(chart, found):
    names = {point.text for point in chart.points}
    for text in found.labels:
        if text.leader is not None and "\n".join(text.lines) in names:
            others = [other.box for other in found.labels]
            assert not Boxes.of(others).overlap(segment_box(text.leader)).any(), text.lines


def every_label_finds_a_place(chart, found):
    wanted = sorted(m.text for m in (*chart.lines, *chart.points, *chart.ridges) if m.text)
    drawn = [without_chip(" ".join(t.lines), chart) for t in found.labels if t.series is not None]
    assert sorted(drawn) == [text.replace("\n", " ") for text in wanted]


@pytest.mark.parametrize(("name", "size"), some(SIZED, 2), ids=str)
def test_texts_of_a_picture_keep_apart_and_name_what_they_stand_beside(name, size):
    """Placing labels takes longest, so one test has all checks of a picture."""
    chart, found = ALL[name]().with_size(*size), laid_out(name, size)
    no_text_covers_another_or_leaves_the_picture(chart, found)
    no_label_covers_a_marker(chart, found)
    a_line_is_labelled_where_it_is_or_in_the_key_with_its_figure_and_its_stroke(chart, found)
    no_thin_line_runs_through_another_label(chart, found)
    if size == SIZES[0] and name not in (*CROWDED, *WITH_LIMITS):
        every_label_finds_a_place(chart, found)


@pytest.mark.parametrize("size", SIZES[::2], ids=str)
@pytest.mark.parametrize("name", some(["two_chips", "roofs_of_four", "levels_of_two"], 2))
def test_of_several_chips_each_is_named_in_the_key_in_the_stroke_of_its_ceilings(name, size):
    chart = ALL[name]()
    keyed = {text.lines[0].partition(":")[0]: text.swatch for text in laid_out(name, size).around if text.swatch}
    chips = {line.group: (line.series, line.dash) for line in chart.lines if line.role == "ceiling"}
    assert keyed == chips
    assert len(set(chips.values())) == len(chips) > 1


@pytest.mark.parametrize("size", SIZES[::2], ids=str)
@pytest.mark.parametrize("name", ["two_chips", "roofs_of_four", "levels", "levels_of_h100", "levels_of_two"])
def test_no_line_runs_through_the_label_of_a_slope_or_ceiling(name, size):
    chart, found = ALL[name](), laid_out(name, size)
    paths = [[found.frame.at(x, y) for x, y in zip(line.x, line.y, strict=True)] for line in chart.lines]
    texts = {line.text for line in chart.lines}
    labels = [text for text in found.labels if without_chip(text.lines[0], chart) in texts]
    assert labels
    for text in labels:
        assert not any(crosses((path[0], path[1]), text.box) for path in paths), text.lines


def test_every_ridge_of_three_levels_and_three_dtypes_is_numbered():
    drawn = [text.lines[0] for text in laid_out("levels_of_h100", (600, 400)).labels]
    wanted = [ridge.text for ridge in ALL["levels_of_h100"]().ridges]
    assert len(wanted) == 9
    assert set(wanted) <= set(drawn)


@pytest.mark.parametrize("name", dict.fromkeys([*CROWDED[:: 1 if LONG else 4], *some([*ALL], 12, 3)]))
def test_the_smallest_picture_still_holds_its_frame_and_its_text(name):
    chart = ALL[name]().with_size(*SMALLEST)
    found = drawn_layout(chart)
    assert min(found.frame.width, found.frame.height) >= 80
    if LONG or name in CROWDED:  # drawing takes longer than placing, and all kinds of marks are among these
        assert chart._repr_svg_()
    for text in (*found.around, *found.labels):
        assert inside(text.box, *SMALLEST), text.lines


@pytest.mark.parametrize("size", some([SMALL, TITLE], 2))
def test_lines_are_broken_as_if_each_were_measured_whole(size):
    """Words are measured one by one, and a line only where their sum is near the width."""
    text = " ".join(ALL["operations_of_experts"]().notes)[:400]
    for width in range(155, 700, 35 if LONG else 105):  # a word that is wider is broken
        lines = [""]
        for word in words(text):
            longer = f"{lines[-1]} {word}".strip()
            fits = text_width(longer, size, False) <= width or not lines[-1]
            lines = [*lines[:-1], longer] if fits else [*lines, word]
        assert wrap(text, width, size, text_width) == lines


def test_points_that_find_no_place_are_numbered_in_a_key():
    found = laid_out("fifteen_matmuls", (600, 400))
    texts = " ".join(line for text in sorted(found.around, key=lambda t: -t.y) for line in text.lines)
    for number, point in enumerate(fifteen_matmuls().points, 1):
        assert f"{number} {point.label}" in texts


def test_the_check_for_overlaps_can_fail():
    assert overlap(Box(0, 0, 10, 10), Box(9, 9, 10, 10))
    assert not overlap(Box(0, 0, 10, 10), Box(11, 0, 10, 10))


@pytest.mark.parametrize("ending", some(["svg", "png", "pdf"], 2))
def test_files_are_the_same_each_time(tmp_path, ending):
    first, second = tmp_path / f"first.{ending}", tmp_path / f"second.{ending}"
    times_of_two().save(first)
    times_of_two().save(second)
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes()) > 5000
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[ending]
    assert first.read_bytes().startswith(start)


def test_an_svg_has_real_text_a_title_and_a_description():
    chart = exercise_3()
    drawn = chart._repr_svg_()
    assert "<dc:date>" not in drawn
    assert len(drawn) < 100_000
    thousand = plot("bf16[B, D] * bf16[D, F]", on=["v5e", "h100"], vary="B", B=range(1, 1025), D=8192, F="D")
    assert len(thousand._repr_svg_()) < 35_000
    assert f"<title>{chart.title}</title>" in drawn
    assert "<desc>TPU v5e" in drawn
    assert "B = 136.1" in drawn
    assert "font-family: 'DejaVu Sans', Verdana, sans-serif" in drawn
    assert "@font-face" not in drawn


def test_what_does_not_fit_is_striped_and_the_key_says_so():
    chart = bars_chart([("a", [("weights", 5e9), ("kv", 5e9)])], title="m", label="m", unit="B", limit=("hbm", 8e9))
    assert [bar.over for bar in chart.bars] == [None, 8e9]
    drawn = chart._repr_svg_()
    assert "does not fit" in drawn
    assert "<pattern" in drawn


def test_notes_are_whole_or_counted():
    chart = replace(exercise_3(), notes=tuple(f"note {'x' * 90} {i}" for i in range(9)))
    shown = " ".join(line for text in drawn_layout(chart).around for line in text.lines)
    assert "…" not in shown
    assert "more, which the answer lists" in shown


def test_a_larger_point_takes_longer():
    chart = plot_answer(llm("llama-3-8b", on="h100", context=4096))
    sizes = [point.size for point in chart.points]
    assert max(sizes) == 1.4
    assert min(sizes) < 1.0
    assert "a larger point takes longer" in chart.notes


def test_the_users_settings_change_nothing_and_are_left_alone():
    import matplotlib

    plain = two_chips()._repr_svg_()
    with matplotlib.rc_context(
        {"font.size": 30, "axes.facecolor": "red", "svg.hashsalt": "mine", "lines.linewidth": 9}
    ):
        assert two_chips()._repr_svg_() == plain
        assert matplotlib.rcParams["font.size"] == 30
        assert matplotlib.rcParams["svg.hashsalt"] == "mine"


def test_a_date_of_the_environment_that_is_no_number_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "abc")
    with pytest.raises(InputError, match="SOURCE_DATE_EPOCH is 'abc', and takes seconds since 1970; unset it"):
        two_chips().save(tmp_path / "x.pdf")


def test_a_good_date_is_not_blamed_for_what_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    times_of_two().save(tmp_path / "x.pdf")
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *given, **named: int("y"))
    with pytest.raises(ValueError, match="invalid literal"):
        two_chips().save(tmp_path / "y.pdf")


def test_a_backend_of_the_environment_that_there_is_not_is_said():
    told = {**os.environ, "MPLBACKEND": "bogus"}
    ended = subprocess.run(
        [sys.executable, "-m", "roofline", "plot", "--on", "h100", "-o", "a.png"],
        env=told,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: matplotlib does not load: Key backend: 'bogus'")
    assert ended.stderr.endswith("; unset MPLBACKEND, or set it to agg\n")


@pytest.mark.long
def test_a_png_has_the_pixels_asked_for(tmp_path):
    import struct

    path = tmp_path / "x.png"
    for scale in (1, 2):
        two_chips().with_size(600, 400).save(path, scale=scale)
        assert struct.unpack(">II", path.read_bytes()[16:24]) == (600 * scale, 400 * scale)


@pytest.mark.long
def test_dark_differs_from_light(tmp_path):
    chart = exercise_3()
    assert THEMES["dark"].background in chart.with_theme("dark")._repr_svg_()
    assert THEMES["dark"].background not in chart._repr_svg_()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("x.gif", "a chart cannot be saved as .gif; end the name in .svg, .png or .pdf"),
        ("x", "'x' has no ending that says a format; end the name in .svg, .png or .pdf"),
        ("no/such/x.svg", "there is no folder 'no/such' to write 'no/such/x.svg' in"),
    ],
)
def test_paths_that_cannot_be_saved_to(path, message):
    with pytest.raises(InputError) as caught:
        exercise_3().save(path)
    assert message in str(caught.value)


def test_a_folder_that_is_named_like_a_picture(tmp_path):
    (tmp_path / "x.svg").mkdir()
    with pytest.raises(InputError, match=r"cannot write '.*x\.svg': it is a folder"):
        exercise_3().save(tmp_path / "x.svg")


def test_text_is_readable_in_both_themes():
    for theme in THEMES.values():
        for color in (*theme.series, theme.text, theme.muted):
            assert contrast(color, theme.background) >= 4.5
        for name, wash in theme.regions.items():
            assert contrast(theme.region_text[name], wash) >= 4.5
            assert all(contrast(color, wash) >= 4.0 for color in theme.series)


def test_series_differ_in_more_than_colour():
    chart = plot("bf16[B, 8192] * bf16[8192, 8192]", on=["v5e", "v5p", "h100", "a100"], vary="B", B=range(1, 99))
    dashes = [line.dash % len(DASHES) for line in chart.lines]
    assert len(set(dashes)) == len(dashes)


def test_levels_differ_in_colour_and_stroke():
    slopes = [line for line in ALL["levels_of_h100"]().lines if line.role == "slope"]
    assert len({line.series for line in slopes}) == len({line.dash for line in slopes}) == 3


def test_of_several_chips_the_stroke_tells_levels_and_the_colour_chips():
    slopes = {line.label: (line.series, line.dash) for line in ALL["levels_of_two"]().lines if line.role == "slope"}
    assert slopes == {"h100 hbm": (0, 0), "h100 pcie": (0, 1), "v5e hbm": (1, 0), "v5e pcie": (1, 1)}


def test_importing_charts_loads_no_drawing_library():
    code = "import sys, roofline.charts; print(*{'matplotlib', 'numpy', 'sympy', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_size_of_a_bar_stands_beside_the_limit_not_under_it() -> None:
    rows = [("near", [("weights", 7.4e9)]), ("far", [("weights", 2e9)]), ("over", [("weights", 9e9)])]
    chart = bars_chart(rows, title="m", label="m", unit="B", limit=("hbm", 8e9)).with_size(600, 300)
    drawn = drawn_layout(chart)
    limit = drawn.frame.at(8e9, 0.0)[0]
    boxes = [text.box for text in drawn.labels if text.lines[0] in ("7.4 GB", "2 GB", "9 GB")]
    assert len(boxes) == 3
    assert all(limit < box.x - box.width / 2 or box.x + box.width / 2 < limit for box in boxes)


@pytest.mark.long
def test_an_svg_names_the_same_fonts_on_every_machine(monkeypatch):
    monkeypatch.setattr(drawing, "_families", lambda: [drawing.FONT, "DejaVu Sans Mono"])
    drawing._font.cache_clear()
    drawn = two_chips().with_title("other fonts")._repr_svg_()
    drawing._font.cache_clear()
    assert set(re.findall(r"font-family: ([^;]+);", drawn)) == {"'DejaVu Sans', Verdana, sans-serif"}


@pytest.mark.parametrize(
    "said", some(["T" * 300, "a\nb\tc", "a very long title " * 30, "nul\0 and bell\a", "矩阵 $x_1$ <b>&"], 3)
)
def test_whatever_a_title_holds_stays_in_the_picture_and_is_xml(said):
    chart = two_chips().with_title(said, said).with_width(600)
    found = drawn_layout(chart)
    assert all(inside(text.box, chart.width, chart.height) for text in found.around)
    assert found.frame.height > 150
    ElementTree.fromstring(chart._repr_svg_())
    heading = [text.lines[0] for text in found.around if text.align == "left" and text.size > SMALL]
    assert "\n" not in "".join(heading)
    assert any(line.endswith(" …") for line in heading) == (len(said) >= 300)
    with pytest.raises(InputError, match=r"title has a character that is no text, U\+DC80; leave it out"):
        chart.with_title("\udc80")


@pytest.mark.long
def test_many_chips_are_counted_and_their_picture_is_higher():
    chart = plot("bf16[512, 8192] @ bf16[8192, 8192]", on=["h100", "a100", "v5e", "v5p", "mi300x", "l4", "t4"])
    assert chart.title == "Roofline of 7 chips"
    assert chart.height == 480 + 4 * 14
    assert chart.with_width(600).height == 400 + 4 * 14
    assert drawn_layout(chart.with_width(600)).frame.height > 200


def test_work_of_which_only_the_rate_is_known_has_points_of_one_size():
    chart = plot(on="h100", intensity=[7, 25, 1e6])
    assert [point.size for point in chart.points] == [1, 1, 1]
    assert "a larger point takes longer" not in chart.notes


def test_a_run_is_as_large_as_its_time_and_a_small_point_lies_on_a_large_one():
    runs = [("short", 1e9, 1e6, 1e-5), ("long", 1e9, 1e6, 4e-5), ("longest", 1e9, 1e6, 1e-4)]
    chart = plot(on="h100", measured=runs)
    short, long, longest = (point.size for point in chart.points)
    assert short < long < longest
    assert "a larger point takes longer" in chart.notes
    layers = [drawing.layer(point) for point in chart.points]
    assert layers == sorted(layers, reverse=True)


@pytest.mark.long
def test_numbers_of_batches_stand_for_themselves():
    batches = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    chart = front_chart(latency_throughput("llama-3-8b", on="h200", tensor=[1, 2, 4, 8], batch=batches, context=1000))
    found = drawn_layout(chart.with_width(400))
    keyed = [text.lines[0] for text in found.around if text.size == SMALL]
    assert not any(re.match(r"[\d,]+( [\d,]+)?$", line) for line in keyed), keyed


def test_a_front_of_more_curves_than_can_be_told_apart_is_an_error():
    contexts = list(range(1000, 14000, 1000))
    found = latency_throughput("llama-3-8b", on="h100", batch=[1] * 13, context=contexts)
    with pytest.raises(InputError, match=r"13 curves are more than a chart can tell apart \(12\)"):
        front_chart(found)


@pytest.mark.parametrize("size", [(360, 420), (600, 480)])
def test_no_line_runs_through_the_label_of_a_region(size):
    """On a phone it stands on more lines, beside the slope."""
    chart = ALL["two_bandwidths"]().with_size(*size)
    found = drawn_layout(chart)
    lines = [[found.frame.at(x, y) for x, y in zip(line.x, line.y, strict=True)] for line in chart.lines]
    strokes = Boxes.of([segment_box(pair) for line in lines for pair in pairwise(line)])
    colors = {region.color for region in chart.regions}
    regions = [text for text in found.labels if text.role in colors and not text.angle]
    assert len(regions) == 2
    assert not any(strokes.overlap(text.box).any() for text in regions)


@pytest.mark.parametrize(("name", "most"), some([("a100_time", 0), ("levels", 3), ("levels_of_two", 3)], 3, 2))
def test_a_label_stands_beside_the_line_down_from_a_ridge_where_a_place_there_is_as_near(name, most):
    chart = ALL[name]().with_width(600)
    found = drawn_layout(chart)
    drops = Boxes.of([segment_box(ridge_drop(ridge, found.frame)) for ridge in chart.ridges])
    assert sum(drops.overlap(text.box).any() for text in found.labels) <= most


def test_a_region_without_room_for_its_label_has_it_in_the_key():
    found = drawn_layout(plot("bf16[512, 8192] @ bf16[8192, 8192]", on="v5e", bandwidths=("8.1e11 B/s", "8.2e11 B/s")))
    assert "memory-bound at 810 GB/s only" in [text.lines[0] for text in found.around]


def test_a_name_that_would_lie_across_a_line_is_a_number() -> None:
    found = drawn_layout(ALL["program"]().with_width(600))
    assert {"1", "2", "3"} <= {text.lines[0] for text in found.labels}


def test_the_lines_that_join_labels_to_their_points_do_not_cross():
    leaders = [text.leader for text in drawn_layout(ALL["roofs_of_four"]().with_width(600)).labels if text.leader]
    assert len(leaders) > 1
    assert not any(Segments(leaders).cross(leader).any() for leader in leaders)


def test_the_letters_of_a_row_stand_on_one_height():
    chart = plot("bf16[1, 8] @ bf16[8, 8]", "softmax(fp32[8, 2048])", on=["h100", "v5e"])
    feet = re.findall(r'y="([\d.]+)" transform="[^"]*">[\d,.]+<', chart._repr_svg_())
    assert len(feet) > 4
    below = drawn_layout(chart).frame
    row = [y for y in feet if float(y) > (chart.height - below.bottom) * 0.72]
    assert len(row) > 2
    assert len(set(row)) == 1


@pytest.mark.long
def test_labels_keep_off_the_pale_band():
    drawn = drawn_layout(ALL["a100_time"]())
    lower = ALL["a100_time"]().line("lower")
    path = [drawn.frame.at(x, y) for x, y in zip(lower.x, lower.y, strict=True)]
    for up in (-2, 2):
        band = Boxes.of([segment_box(pair) for pair in pairwise([(x, y + up) for x, y in path])])
        assert not any(band.overlap(text.box).any() for text in drawn.labels)
