"""``roofline chips``: every figure whole at any width, what is odd about a machine, families."""

from __future__ import annotations

import json
import re

import pytest
from rich.console import Console

from roofline.bounds.chip_list import _figures as machine_figures
from roofline.bounds.chip_list import row_figures
from roofline.bounds.ridges import rules_of_thumb
from roofline.cli import chips, main
from roofline.hardware import chip
from roofline.hardware import chips as all_machines
from roofline.quantity import format_number
from roofline.rendering.terminal import terminal
from tests.strategies import some


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("key", some(["h100", "b200", "mi300x", "rtx-4090", "v5e", "m1"], 2))
def test_no_rule_of_thumb_is_cut(width, key):
    machine = chip(key)
    console = Console(width=width, highlight=False, markup=False)
    with console.capture() as seen:
        console.print(terminal(chips.detail(machine)))
    words = seen.get().split()
    for rule in rules_of_thumb(machine):
        assert format_number(rule.value) in words, rule.name


def test_a_format_that_runs_in_a_wider_one_is_named_beside_the_critical_batches(capsys):
    said = "run here in a wider format, so without a batch of their own: "
    main(["chips", "a100"])
    assert f"{said}fp8 in bf16\n" in capsys.readouterr().out
    main(["chips", "t4"])
    assert f"{said}bf16 in fp32, fp8 in fp16\n" in capsys.readouterr().out
    main(["chips", "h100"])
    assert said not in capsys.readouterr().out
    main(["chips", "a100", "h100", "t4"])
    rows = {line[:30].strip(): line.split()[5:] for line in capsys.readouterr().out.splitlines() if "critical" in line}
    assert rows["critical batch fp8 x fp8"] == ["runs", "in", "bf16", "295.2", "runs", "in", "fp16"]
    assert rows["critical batch bf16 x int8"] == ["76.51", "147.6", "runs", "in", "fp32"]
    main(["chips", "a100", "--json"])
    assert json.loads(capsys.readouterr().out)["chips"][0]["runs_in"] == {"fp8": "bf16"}


def test_chips_side_by_side_are_whole(capsys):
    main(["chips", "a100", "h100", "b200", "mi300x", "mi355x", "gaudi3", "trn2", "v5p", "v6e", "tpu7x"])
    said = capsys.readouterr().out
    assert "…" not in said
    assert "2.25 PFLOP/s" in said


def test_what_is_odd_about_a_chip_is_said(capsys):
    twice = ["chips", "h100", "--set", "bf16=1979 TFLOPS"]
    main(twice)
    assert "given tensor.bf16 is exactly twice the catalog's figure" in capsys.readouterr().out
    main([*twice, "--json"])
    assert "exactly twice" in json.loads(capsys.readouterr().out)["chips"][0]["warnings"][0]


def test_json_holds_what_other_sources_say(capsys):
    main(["chips", "v5e", "--json"])
    found = json.loads(capsys.readouterr().out)["chips"][0]
    said = {(item["of"], item["value"]): item["rejected"] for item in found["alternates"]}
    assert said["hbm.bandwidth", 8.1e11] is True


@pytest.mark.parametrize("width", ["60", "100"])
@pytest.mark.parametrize("key", ["h100", "v5e", "910b"])
def test_each_source_stands_once_and_whole(key, width, capsys, monkeypatch):
    """A figure has the number of its source; the list below has each source in one line, whatever the width."""
    monkeypatch.setenv("COLUMNS", width)
    main(["chips", key, "--sources"])
    said = capsys.readouterr().out
    lines = [line.strip() for line in said.splitlines()]
    machine = chip(key)
    figures = [figure for *_, figure in machine_figures(machine)] + [item.figure for item in machine.alternates]
    for source in {figure.source for figure in figures if figure.source}:
        (number,) = (line.split()[0] for line in lines if line.partition(" ")[2] == source)
        assert said.count(source) == 1 or any(source in other and source != other for other in lines)
        assert said.count(number) > 1


def test_a_note_says_which_book():
    for machine in all_machines():
        for *_, figure in machine_figures(machine):
            assert not re.search(r"\bbook\b", figure.note), (machine.key, figure.note)
        for item in machine.alternates:
            assert not re.search(r"\bbook\b", item.figure.note), (machine.key, item.figure.note)


def test_a_filter_takes_an_architecture(capsys):
    main(["chips", "--filter", "volta"])
    assert "3 chips" in capsys.readouterr().out
    main(["chips", "--filter", "GeForce"])
    assert "rtx-4080" in capsys.readouterr().out


def test_a_slice_shows_what_its_chips_have_together(capsys: pytest.CaptureFixture[str]) -> None:
    """A v5p pod: 8,960 chips of two cores, four a host; the cut crosses 16 x 20 rings of 28 twice."""
    assert main(["chips", "v5p:16x20x28", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["chips"]
    sums = found["slice"]
    assert (sums["chips"], sums["hosts"], sums["cores"]) == (8960, 2240, 17920)
    assert sums["bf16_peak"] == pytest.approx(8960 * 459e12)
    assert sums["bisection_bandwidth_one_way"] == pytest.approx(16 * 20 * 2 * 90e9)
    assert main(["chips", "v5p:16x20x28"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "v5p:16x20x28 together: chips 8,960, hosts 2,240, cores 17,920" in shown
    assert main(["chips", "v5p", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["chips"][0]["slice"] is None


@pytest.mark.parametrize(
    ("words", "holds", "lacks"),
    [(["nvidia"], "h100", "mi300x"), (["TPU"], "v5p", "h100"), (["hopper", "amd"], "mi300x", "v5p")],
)
def test_a_maker_or_a_family_filters(words, holds, lacks, capsys):
    assert main(["chips", *words]) == 0
    keys = [line.split(" ")[0] for line in capsys.readouterr().out.splitlines()]
    assert holds in keys
    assert lacks not in keys


def test_side_by_side_rows_are_meanings_and_the_best_is_marked(capsys):
    assert main(["chips", "h100", "v5p"]) == 0
    cells = {
        name: row for name, *row in (re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines())
    }
    assert cells["matrix bf16"] == ["989 TFLOP/s*", "459 TFLOP/s"]
    assert cells["main memory capacity"] == ["84.9 GB", "102 GB*"]
    names = list(cells)
    assert (
        names.index("matrix bf16") < names.index("main memory bandwidth") < names.index("ridge bf16 over main memory")
    )


def test_a_ratio_ranks_makers_and_keeps_the_order_of_names(capsys):
    assert main(["chips", "nvidia", "--ratio", "bf16/price", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["ratios"])[:2] == ["gb200", "b200"]
    assert found["ratios"]["h100"] == pytest.approx(989.4e12 / 2.69)
    assert found["ratios"]["l4"] is None
    assert found["values"]["h100"] == [pytest.approx(989.4e12), 2.69]
    assert main(["chips", "h100", "--ratio", "hbm/price"]) == 0
    assert "NVIDIA H100 SXM5 80GB  3.35 TB/s  $2.69/h  1.25 TB/s per $/h" in capsys.readouterr().out
    assert main(["chips", "v4", "v5p", "--ratio", "hbm/pcie"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["chip", "v4", "v5p"]
    assert main(["chips", "amd", "--ratio", "bf16/price"]) == 2
    assert "none of the 25 chips: no price of mi100 is listed; listed are those of a100" in capsys.readouterr().err
    # the first of all that have one, not of the first chips of the catalog
    assert main(["chips", "--ratio", "bf16/power", "--top", "3", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["ratios"]
    assert main(["chips", "--ratio", "bf16/power", "--json"]) == 0
    assert list(first.items()) == list(json.loads(capsys.readouterr().out)["ratios"].items())[:3]


def test_the_list_in_python_has_the_methods_of_answers(tmp_path):
    found = chips.chips("nvidia", sort="memory", top=5)
    assert [each.key for each in found] == ["grace", "gb300", "b300", "rubin", "gb200"]
    frame = found.to_pandas()
    assert (frame["capacity"] > 1.8e11).all()
    assert frame.attrs["units"]["bandwidth"] == "B/s"
    found.save(tmp_path / "chips.csv")
    assert (tmp_path / "chips.csv").read_text().startswith("chip,name,maker,peak")
    assert found[1:2].to_dict()["chips"][0]["key"] == "gb300"
    assert found.plot().kind == "roofline"
    assert repr(found.ratio("hbm", "hbm.capacity")).startswith("<RatioList: hbm over hbm.capacity of 5 chips")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("memory>=8TB", "no chip has memory>=8TB; another limit, or fewer conditions"),
        ("memory>=80", "80 has no unit, and is 80 B; as in 80 GB"),
        ("bf16>1.5", "1.5 has no unit, and is 1.5 FLOP/s; as in 1.5 TFLOP/s"),
        ("name>3", "'name' is no figure; figures are: peak, bandwidth"),
        ("fp9", "no chip holds 'fp9'; makers are"),
    ],
)
def test_a_filter_takes_formats_and_figures(asked, says, capsys):
    assert main(["chips", "--filter", asked]) == 2
    assert says in capsys.readouterr().err
    kept = chips.chips("nvidia", filter="fp8, memory>=80GB, price<3")
    assert [machine.key for machine in kept] == ["h100"]
    every = chips.chips()
    fast = {m.key for m in every if any("bf16" in u.peaks and u.peaks["bf16"].value > 1e15 for u in m.units)}
    wide = {m.key for m in chips.chips(filter="bandwidth>4TB/s") if m.memories[0].name == "hbm"}
    for text, wanted in {"bf16>1PFLOP/s": fast, "hbm>4TB/s": wide, "nvlink>=450GB/s, h200": {"h200"}}.items():
        assert {machine.key for machine in chips.chips(filter=text)} == wanted


def test_every_chip_of_the_catalog_is_of_one_kind():
    kinds = {
        kind: [machine.key for machine in chips.chips(filter=kind)] for kind in ("gpu", "TPUs", "cpu", "accelerator")
    }
    assert sorted(key for keys in kinds.values() for key in keys) == sorted(machine.key for machine in chips.chips())
    assert {"h100", "mi300x", "max-1550", "m3-max"} <= set(kinds["gpu"])
    assert ("v5e" in kinds["TPUs"], "grace" in kinds["cpu"], "gaudi3" in kinds["accelerator"]) == (True, True, True)


def test_a_filter_counts_the_chips_that_it_cannot_judge(capsys):
    main(["chips", "--filter", "gpu, power<400W", "--sort", "-ridge", "--top", "3"])
    shown = capsys.readouterr().out
    unknown = sum(machine.tdp is None for machine in chips.chips(filter="gpu"))
    assert f"{unknown} chips without a figure of power are left out by power<400W" in shown
    main(["chips", "--filter", "h100, power<400W"])
    assert "without a figure" not in capsys.readouterr().out


@pytest.mark.parametrize("figure", ["ridge", "power", "price", "name", "bandwidth"])
def test_an_order_is_turned_round(figure):
    known = [m.key for m in chips.chips(sort=figure) if figure == "name" or row_figures(m, "bf16", figure)[figure]]
    turned = [m.key for m in chips.chips(sort=f"-{figure}")]
    values = [figure == "name" or row_figures(chip(key), "bf16", figure)[figure] for key in turned[: len(known)]]
    assert sorted(turned[: len(known)]) == sorted(known)
    assert values == sorted(values, reverse=figure == "price")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("h100 --dtype fp8", "--dtype is the peak that a list shows, and a chip that is named has all of its own"),
        ("h100 --sort peak", "--sort says nothing of one chip; leave it out"),
        ("h100 --top 1", "--top says nothing of one chip; leave it out"),
        ("nvidia --sources", "--sources is of chips by name; as in: roofline chips h100 --sources"),
        ("h100 --set hbm=4e12 --sort peak", "--sort is of a list, and --set goes with chips by name"),
        ("h100 --set hbm=4e12 --filter amd", "--filter is of a list, and --set goes with chips by name"),
    ],
)
def test_an_option_that_shows_nothing_is_refused(words, said, capsys):
    assert main(["chips", *words.split()]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", ["h100 a100 --sort peak --dtype fp8", "h100 a100 --top 1", "h100 --sources"])
def test_where_it_shows_something_it_is_taken(words, capsys):
    assert main(["chips", *words.split()]) == 0


def test_a_list_of_chips_draws_the_peaks_that_it_lists(tmp_path, capsys):
    assert (
        main(["chips", "nvidia", "--sort", "ridge", "--dtype", "fp8", "--top", "2", "-o", str(tmp_path / "a.svg")]) == 0
    )
    assert capsys.readouterr().out.endswith("a.svg\n")
    drawn = (tmp_path / "a.svg").read_text()
    assert "agx-thor fp8 518 TFLOP/s" in drawn
    assert "bf16" not in drawn


def test_only_a_table_makes_lines_longer_where_nobody_says_a_width(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["sweep", "llama-3-8b", "--on", "h100:8", "--tensor", "8", "--batch", "1,64", "--context", "1k"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.strip() == "sums together" for line in lines)
    assert max(map(len, lines)) <= 100
