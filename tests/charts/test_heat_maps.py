"""Heat maps: a cell for each pair of two sizes, coloured by its figure, with a line where what binds changes."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from charts_to_draw import map_of_few, map_of_many
from plain_geometry import contrast

import roofline
from roofline.charts.drawing import THEMES, drawn_layout, svg
from roofline.charts.heat_maps import SHADES
from roofline.charts.specification import LeftOut
from roofline.cli import main
from roofline.errors import InputError

LINE = "bf16[B, D] * bf16[D, F]"


def test_each_cell_is_the_answer_of_its_row() -> None:
    table = roofline.sweep(LINE, on="h100", B=[1, 64, 512, 4096], D=[256, 1024, 4096, 8192], F="D")
    found = {kind: table.plot(kind) for kind in ("rate-map", "time-map", "limit-map")}
    assert table.plot().to_dict() == table.plot("heatmap").to_dict() == found["rate-map"].to_dict()
    for row in range(len(table)):
        answer = table.row(row)
        place = (f"{answer.sizes['B']:,}", f"{answer.sizes['D']:,}")
        for kind, value in (("rate-map", answer.attainable), ("time-map", answer.lower), ("limit-map", 0.0)):
            chart = found[kind]
            (cell,) = (c for c in chart.cells if (chart.x.names[c.column], chart.y.names[c.row]) == place)
            assert cell.value == pytest.approx(value)
            assert f"{answer.bound_by} binds" in cell.label


def test_a_line_runs_between_cells_that_another_resource_binds_and_nowhere_else() -> None:
    chart = map_of_few()
    binding = {(cell.column, cell.row): re.search(r"(\w+) binds", cell.label)[1] for cell in chart.cells}  # type: ignore[index]
    drawn = set()
    for line in chart.lines:
        corners = list(zip(line.x, line.y, strict=True))
        for (x0, y0), (x1, y1) in pairwise(corners):
            along = range(int(min(x0, x1)), int(max(x0, x1))), range(int(min(y0, y1)), int(max(y0, y1)))
            drawn |= {frozenset({(x, y0 - 1), (x, y0)}) for x in along[0]}
            drawn |= {frozenset({(x0 - 1, y), (x0, y)}) for y in along[1]}
    beside = [((x, y), other) for x, y in binding for other in ((x + 1, y), (x, y + 1)) if other in binding]
    assert drawn == {frozenset(pair) for pair in beside if binding[pair[0]] != binding[pair[1]]}


def test_a_shade_grows_with_the_figure_and_the_key_says_its_range() -> None:
    chart = map_of_few()
    cells = sorted(chart.cells, key=lambda cell: cell.value)
    assert [cell.shade for cell in cells] == sorted(cell.shade for cell in cells)
    assert cells[0].part == "below 5 TFLOP/s"
    assert cells[-1].part == "500 TFLOP/s or more"
    assert {cell.part: cell.shade for cell in cells}.keys() == {part for _, part in {(c.shade, c.part) for c in cells}}


def test_many_sizes_are_thinned_and_that_is_said_and_the_picture_is_small() -> None:
    chart = map_of_many()
    assert (len(chart.x.names), len(chart.y.names)) == (48, 48)
    assert [note for note in chart.notes if isinstance(note, LeftOut)] == [
        "48 of 128 values of B are drawn",
        "48 of 64 values of D are drawn",
    ]
    assert sorted(cell.text for cell in chart.cells if cell.text) == ["hbm binds", "tensor binds"]
    assert len(svg(chart)) < 100_000


def test_what_does_not_fit_is_striped_and_what_cannot_be_is_left_blank() -> None:
    table = roofline.sweep("llama-3-70b", on="h100:8", tensor=[3, 8], batch=[1, 256], context=8192)
    chart = table.plot("time-map")
    assert (chart.x.names, chart.y.names) == (("3", "8"), ("1", "256"))
    assert [(c.column, c.row, c.over) for c in chart.cells] == [(1, 0, False), (1, 1, True)]
    assert "╳ does not fit" in chart.to_text()
    assert chart.left_out == ("a blank cell does not fit the memory or is not possible",)


def test_the_scale_is_of_what_fits_and_what_does_not_is_pale() -> None:
    sizes: dict[str, list[int]] = {"batch": [1, 4, 16, 64], "context": [1000, 4000, 16000, 64000]}
    chart = roofline.sweep("llama-3-8b", on="l4", **sizes).plot()
    fitting = [cell for cell in chart.cells if not cell.over]
    assert {fitting[0].shade, max(cell.shade for cell in fitting)} == {0, SHADES - 1}
    assert max(cell.value for cell in fitting) < 0.1 < max(cell.value for cell in chart.cells)
    drawn = svg(chart)
    shown = {each for each in re.findall("#[0-9a-f]{6}", drawn) if each in THEMES["light"].shades}
    assert shown == {THEMES["light"].shades[cell.shade] for cell in fitting}
    assert all(THEMES[name].grid not in THEMES[name].shades for name in THEMES)
    limits = roofline.sweep("llama-3-8b", on="l4", **sizes).plot("limit-map")
    assert [cell.text for cell in limits.cells if cell.text] == ["dram binds"]


def test_tables_of_several_machines_have_a_map_of_the_fastest_and_no_other() -> None:
    line = roofline.sweep("bf16[B, D] * bf16[D, F]", on=["a100", "l40s"], B=[1, 4096], D=[256, 8192], F="D")
    steps = roofline.sweep("llama-3-8b", on=["h100", "a100"], batch=[1, 8], context=[1024, 4096])
    for table in (line, steps):
        said = "no picture 'limit-map' of .*; a heat map is of a table over two sizes on one machine"
        with pytest.raises(InputError, match=said):
            table.plot("limit-map")
        assert table.plot("heatmap").to_dict() == table.plot("fastest-map").to_dict()
    for cell in line.plot("fastest-map").cells:
        size = {"B": (1, 4096)[cell.column], "D": (256, 8192)[cell.row]}
        both = roofline.bound("bf16[B, D] * bf16[D, F]", on="a100,l40s", F="D", **size)
        assert cell.text in ("", f"{both.fastest} is the fastest")
        assert cell.label.partition(": ")[2].startswith(f"{both.fastest} is the fastest, ")
    of_layouts = roofline.sweep("llama-3-8b", on="h100:8", tensor=[4, 8], batch=[1, 8], context=[1024, 4096])
    assert of_layouts.plot("fastest-map").title == "The fastest choice of llama-3-8b decode over batch and context"
    of_three = roofline.sweep(LINE, on=["h100", "a100"], B=[1, 8], D=[256, 512], F=[256, 512])
    with pytest.raises(InputError, match="no picture 'fastest-map' of a table"):
        of_three.plot("fastest-map")


def test_few_sizes_are_curves_and_chips_may_be_one_side_of_a_map() -> None:
    table = roofline.sweep(LINE, on=["h100", "v5e"], B=[1, 8, 64], D=8192, F=8192)
    assert table.plot().kind == "throughput"
    chart = table.plot("heatmap")
    assert (chart.x.label, chart.y.label, chart.y.names) == ("size B", "chips", ("h100", "v5e"))
    with pytest.raises(InputError, match="a heat map is of a table over two sizes"):
        roofline.sweep(LINE, on="h100", B=[1, 8], D=[256, 512], F=[256, 512]).plot("heatmap")


def test_every_column_of_figures_has_a_map() -> None:
    sizes = {"batch": [1, 4, 16, 64], "context": [1000, 2000, 4000, 8000]}
    table = roofline.sweep("llama-3-8b", on="l4", columns=["memory", "fits", "time_per_token"], **sizes)
    chart = table.plot()
    assert chart.title == "Memory of llama-3-8b decode over batch and context"
    assert {(c.column, c.row): c.value for c in chart.cells}[3, 0] == table["memory"][12]
    assert table.plot("time-per-token-map").cells[0].text == "50.5 ms"
    assert any(cell.over for cell in chart.cells)
    with pytest.raises(InputError, match="of a column over two sizes"):
        roofline.sweep("llama-3-8b", on="l4", columns=["memory"], batch=[1, 2], context=1000).plot()


def test_a_price_makes_a_map_of_the_cost() -> None:
    table = roofline.sweep("llama-3-8b", on="h100", batch=[1, 2, 4, 8], context=[1024, 2048, 4096, 8192], price=2.5)
    cells = table.plot().cells
    assert [cell.value for cell in cells if (cell.column, cell.row) == (0, 0)] == [table["cost_per_million"][0]]
    assert cells[0].text.startswith("$3.137")


@pytest.mark.parametrize("theme", THEMES)
def test_text_is_read_on_every_shade(theme: str) -> None:
    colors = THEMES[theme]
    assert min(contrast(shade, colors.text) for shade in colors.shades) > 4.5


def test_the_command_chooses_one_and_draws_it_in_a_terminal_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["sweep", LINE, "--on", "v5e", "B=64:1024:*2", "D=256:4096:*2", "F=8192", "--kind", "limit-map"]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert said.startswith("What binds over B and D\n")
    assert said.endswith("▁ hbm binds\n█ mxu binds\n")
    path = tmp_path / "x.svg"
    assert main([*asked, "-o", str(path)]) == 0
    assert "What binds over B and D" in path.read_text()
    for more in (["-o", str(tmp_path / "x.csv")], ["--json"], ["-o", f"{tmp_path}/grid/"]):
        assert main([*asked, *more]) == 2
        assert "--kind is that of a picture; end -o in .svg, .png or .pdf, or leave it" in capsys.readouterr().err
    assert main([*asked[:-1], "limits"]) == 2
    assert "no picture 'limits' of a table; did you mean 'limit-map'?" in capsys.readouterr().err


def test_an_option_whose_columns_a_picture_does_not_draw_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "x.svg")
    curve = ["sweep", LINE, "--on", "h100", "B=1:8", "D=1024", "F=1024", "-o", path]
    steps = ["sweep", "llama-2-7b", "--on", "h100", "--batch", "1:8", "-o", path]
    for asked, kind in (
        ([*curve, "--columns", "upper"], "throughput"),
        ([*steps, "--context", "64", "--price", "2"], "time"),
    ):
        assert main(asked) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"adds nothing that the picture {kind} draws; leave it out, or write a table" in said
    assert main([*curve, "--estimate"]) == main([*steps, "--context", "64", "--estimate"]) == 0
    over_two = ["sweep", LINE, "--on", "h100", "B=1:8", "D=1024:8192:*2", "F=D", "-o", path]
    assert main([*over_two, "--columns", "upper", "--kind", "upper-map"]) == 0
    assert main([*over_two, "--estimate", "--kind", "expected-map"]) == 0
    assert main([*curve, "--columns", "lower,upper", "--kind", "time"]) == 0
    assert main([*steps, "--context", "64:72", "--price", "2"]) == 0


@pytest.mark.long
def test_the_command_draws_one(tmp_path: Path) -> None:
    path = tmp_path / "map.svg"
    assert main(["sweep", LINE, "--on", "h100", "B=1:8", "D=1024:8192:*2", "F=D", "-o", str(path)]) == 0
    assert "<title>Attainable throughput over B and D</title>" in path.read_text()


def test_figures_of_narrow_cells_stand_on_two_lines_or_not_at_all() -> None:
    line, wide = "bf16[B, D] * bf16[D, F]", [1024 * n for n in range(1, 11)]
    for batches, figures in (([16, 32, 64, 128], 40), ([2**n for n in range(10)], 0)):
        drawn = svg(roofline.sweep(line, on="h100", B=batches, D=wide, F="D").plot("rate-map"))
        assert drawn.count(">TFLOP/s</text>") == figures
        assert not re.search(r">\d+ TFLOP/s</text>", drawn)


def test_each_cell_of_a_narrow_map_has_its_figure_those_at_its_edges_too() -> None:
    sizes = {"batch": [2**i for i in range(9)], "context": [1000 * 2**i for i in range(7)]}
    chart = roofline.sweep("llama-3-8b", on="l4", **sizes).plot().with_size(360, 420)
    assert len(drawn_layout(chart).labels) == 63
