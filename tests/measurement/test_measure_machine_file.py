"""The machine file: it loads as a chip of the catalog, and comes back as the measurement it was."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest
from made import made, summary
from rich.console import Console
from tests.strategies import some

from roofline import bound, chip
from roofline.charts.roofline_charts import measured_chart
from roofline.charts.specification import Line
from roofline.errors import HardwareError
from roofline.hardware.catalog import check_figures
from roofline.measurement import read_machine_file, to_toml, write_machine_file
from roofline.measurement.levels import ALONE, SHARED
from roofline.measurement.machine_file import NOT_BELIEVED, check_machine_file
from roofline.measurement.result import Ceiling, Conditions, Curve, Measurement
from roofline.rendering.terminal import as_text


@pytest.fixture
def path(tmp_path):
    name = tmp_path / "deep" / "this.toml"
    write_machine_file(made(), name)
    return str(name)


def test_it_comes_back_as_it_was(path):
    before, after = made(), read_machine_file(path)
    assert after.conditions == before.conditions
    for one, other in zip(before.ceilings, after.ceilings, strict=True):
        assert replace(one, summary=other.summary) == other
        assert other.summary.value == pytest.approx(one.summary.value, rel=1e-5)
    assert [c.values() for c in after.curves] == [
        [(pytest.approx(s, abs=1), pytest.approx(v)) for s, v in c.values()] for c in before.curves
    ]


def test_it_is_a_chip_of_the_catalog(path):
    machine = chip("this", files=[path])
    assert [memory.name for memory in machine.memories] == ["dram", "l3", "l2", "l1"]
    assert machine.memories[0].bandwidth.value == 90e9
    assert machine.memories[0].bandwidth.basis == "measured"
    assert "load, 2 threads" in machine.memories[0].bandwidth.source
    assert machine.units[0].peaks["bf16"].value == 1024e9
    assert "quartiles" in machine.units[0].peaks["bf16"].note
    assert machine.units[0].achievable["bf16"].value == pytest.approx(0.5)
    assert check_figures(machine) == []
    assert chip("this-core", files=[path]).units[0].peaks["bf16"].value == 512e9


def test_a_measured_file_is_a_target_as_it_is(path):
    assert chip(str(path)).name == chip(f"{path}#this").name


def test_main_memory_is_never_slower_than_on_fewer_threads():
    measured = made()
    slow = [
        curve if curve.threads == 1 else replace(curve, points=[(size, summary(1e9)) for size, _ in curve.points])
        for curve in measured.curves
    ]
    contended = replace(measured, curves=tuple(slow))
    assert contended.levels(2)[-1].bandwidth == measured.levels(1)[-1].bandwidth
    assert 'source = "load, 1 thread, ' in to_toml(contended).partition("[chip.this-core]")[0]


def test_a_peak_is_never_lower_than_on_fewer_threads():
    measured = made()
    slow = [replace(c, summary=summary(1e9)) if c.threads == 2 else c for c in measured.ceilings]
    written = to_toml(replace(measured, ceilings=tuple(slow))).partition("[chip.this-core]")[0]
    assert "peak.fp32 = { value = 2.56e+11" in written
    assert "peak.bf16 = { value = 5.12e+11" in written


def test_a_library_is_held_against_the_peak_on_as_many_threads(tmp_path):
    measured = made()
    some = tuple(c for c in measured.ceilings if not (c.name == "library" and c.dtype == "fp32" and c.threads == 2))
    found = replace(measured, ceilings=some)
    write_machine_file(found, tmp_path / "this.toml")
    for key in ("this", "this-core"):
        share = chip(f"{tmp_path}/this.toml#{key}").units[0].achievable["fp32"]
        assert share.value == pytest.approx(0.5)  # of the peak on one thread, not on two
        assert share.source == "torch, 1 thread, of the peak on 1 thread"
    assert "fp32 library, 1 thread" in {line.label for line in measured_chart(found).marks if isinstance(line, Line)}


def test_a_level_that_no_second_round_confirms_is_marked_everywhere(tmp_path):
    measured = made()
    l1 = [
        replace(curve, points=[(size, summary(found.value, doubts=(ALONE,) * (size < 97e3))) for size, found in
                               curve.points]) if curve.threads == 2 else curve
        for curve in measured.curves
    ]  # fmt: skip
    found = replace(measured, curves=tuple(l1))
    assert "KiB  ? 1.08 TB/s  ? 1.08 TB/s" in re.sub(r"  +", "  ", as_text(found.sections(), 140))
    assert "? no second round" in as_text(found.sections(), 140)
    levels = found.to_dict()["levels"]
    assert [level["confirmed"] for level in levels["2"]] == [False, True, True, True]
    assert all(level["confirmed"] for level in levels["1"])
    write_machine_file(found, tmp_path / "this.toml")
    memories = {memory.name: memory.bandwidth for memory in chip(f"{tmp_path}/this.toml#this").memories}
    assert memories["l1"].doubt == "in doubt, as no second round confirms it"
    assert not memories["l2"].doubt
    line = {"on": f"{tmp_path}/this.toml#this", "M": 64, "N": 64}
    for level, is_doubted in (("l1", True), ("l2", False)):
        answer = bound("fp32[M, N] + fp32[M, N]", **line, over=level)
        said = " ".join(as_text(answer.sections(), 140).split())
        assert ("the rate of l1 is in doubt, as no second round confirms it" in said) is is_doubted
        assert ("? 1.08 TB/s" in said) is is_doubted


def test_two_compute_roofs(path):
    register = bound("bf16[1024, 1024] @ bf16[1024, 1024]", on="this", files=[path])
    library = bound("bf16[1024, 1024] @ bf16[1024, 1024]", on="this", files=[path], achievable=True)
    assert library.lower == pytest.approx(2 * register.lower)
    assert "the highest rates measured on this machine" in " ".join(register.assumptions)


@pytest.mark.parametrize(
    ("side", "level", "speed"),
    some([(64, "l1", 1080e9), (256, "l2", 420e9), (1024, "l3", 220e9), (8192, "dram", 90e9)], 2),
)
def test_warm_data_lies_in_the_level_that_holds_it(path, side, level, speed):
    """fp32 a + b → c touches 12·side² bytes; cold it comes from dram, warm from where it fits."""
    line = f"fp32[{side}, {side}] + fp32[{side}, {side}]"
    warm, cold = (bound(line, on="this", files=[path], over=over) for over in ("warm", None))
    assert warm.uses[-1].resource == level
    assert warm.uses[-1].rate.value == pytest.approx(speed, rel=1e-3)
    assert cold.uses[-1].resource == "dram"
    assert warm.lower <= cold.lower


def test_warm_over_arrays_is_warm_one_by_one(path):
    import numpy as np

    sizes = np.array([64, 200, 1024, 8192])
    many = bound("fp32[N, M] + fp32[N, M]", on="this", files=[path], over="warm", N=sizes, M=1000)
    for index, size in enumerate(sizes):
        one = bound("fp32[N, M] + fp32[N, M]", on="this", files=[path], over="warm", N=int(size), M=1000)
        assert many.lower[index] == pytest.approx(one.lower, rel=1e-9)


def test_an_interrupted_contended_measurement_says_so(tmp_path):
    path = tmp_path / "x.toml"
    write_machine_file(made(clean=0.4, interrupted=True, doubts=("1.20 of what theory allows",)), path)
    said = read_machine_file(path).warnings()
    assert said[0] == "stopped early: only what was measured until then is here"
    assert "contended: a thread was held up in 60% of the windows" in said[1]
    assert any(line.startswith("1.20 of what theory allows: register fp32 on 1 thread, ") for line in said)
    assert "stopped early" in chip("this", files=[str(path)]).notes[1]


def test_windows_on_shared_cores_are_told_and_do_not_make_figures_doubtful(tmp_path):
    """Others were there in many of the windows, but every figure was reached on cores of its own."""
    path, found = tmp_path / "x.toml", made(clean=0.55)
    write_machine_file(replace(found, conditions=replace(found.conditions, ran=0.99)), path)
    shared = read_machine_file(path)
    assert not shared.contended
    [said] = [line for line in shared.warnings() if line.startswith("shared cores")]
    assert said.startswith("shared cores: others used the cores in 44% of the windows, unseen by this system; ")


def test_cores_that_others_use_most_of_the_time_are_contended():
    """No window tells what they do to the memory meanwhile."""
    found = made(clean=0.4)
    filled = replace(found, conditions=replace(found.conditions, ran=0.99))
    assert filled.contended
    assert filled.warnings()[0].startswith("contended: others used the cores in 60% of the windows")


@pytest.mark.parametrize("doubt", ["two states: around 1 and 2", "rounds apart: from 1 to 2", "shared core: 0.7 of x"])
def test_registers_that_change_their_speed_tell_of_others(doubt):
    found = made(doubts=(doubt,))
    assert found.contended
    assert found.warnings()[0].startswith("contended: kernels that need no memory changed their speed")
    assert not made(doubts=("1.20 of what theory allows",)).contended


def test_figures_that_nothing_confirms_make_a_machine_contended():
    found = made()
    lonely = replace(found.ceilings[0].summary, doubts=(f"{ALONE}: no other came within 5% of the best",))
    few = replace(found, ceilings=(replace(found.ceilings[0], summary=lonely), *found.ceilings[1:]))
    assert 0 < few.unconfirmed < 0.05
    assert not few.contended
    assert few.to_dict()["ceilings"][0]["confirmed"] is False
    assert sum(line["confirmed"] for line in few.to_dict()["ceilings"]) == len(few.ceilings) - 1
    [load, *others] = found.curves
    many = replace(found, curves=(replace(load, points=tuple((size, lonely) for size, _ in load.points)), *others))
    assert many.contended
    assert re.match(r"contended: \d+% of the figures rest on one round that no other came near", many.warnings()[0])


@pytest.mark.long
def test_a_figure_in_doubt_is_marked(capsys):
    def shown(measured):
        Console(width=140).print(measured)
        return capsys.readouterr().out

    found = made()
    assert "? " not in shown(found)
    for place, one in some(list(enumerate(found.ceilings)), 4):
        lonely = replace(one, summary=replace(one.summary, doubts=(f"{SHARED}: others were busy on them",)))
        text = shown(replace(found, ceilings=(*found.ceilings[:place], lonely, *found.ceilings[place + 1 :])))
        assert text.count("? ") == 2
        assert "? no second round on cores of its own came within 5% of it" in text


def test_doubts_of_shapes_come_back(tmp_path):
    """Or a file shown again says less than the measurement did."""
    table, *rest = made().shapes
    points = [(rows, side, replace(found, doubts=("two states: 1 and 2",))) for rows, side, found in table.points]
    found = replace(made(), shapes=(replace(table, points=tuple(points)), *rest))
    write_machine_file(found, tmp_path / "doubtful.toml")
    again = read_machine_file(tmp_path / "doubtful.toml")
    assert again.warnings() == found.warnings() != made().warnings()
    assert again.shapes[0].points[3][2].doubts == ("two states: 1 and 2",)


def test_names_with_quotes_and_newlines_survive(tmp_path):
    conditions = Conditions('A "quoted" \\ name\n\x7f', "2026-01-01", 1, 1.0)
    measured = Measurement(conditions, (Ceiling("register fp32", "FLOP/s", "k\t", 1, summary(1e9), "fp32"),))
    write_machine_file(measured, tmp_path / "x.toml")
    assert read_machine_file(tmp_path / "x.toml").conditions.processor == 'A "quoted" \\ name\n\x7f'


def test_an_accelerator_stands_beside_its_data_sheet(tmp_path):
    conditions = Conditions("NVIDIA H200", "2026-01-01", 1, 1.0, device=True)
    ceilings = (Ceiling("library", "FLOP/s", "product", 1, summary(700e12), "bf16"),)
    curve = Curve("copy", "a = b", 1, tuple((2.0**n, summary(8e12 if n < 26 else 4e12)) for n in range(18, 32)))
    write_machine_file(Measurement(conditions, ceilings, (curve,)), tmp_path / "d.toml")
    machine = chip("this-device", files=[tmp_path / "d.toml"])
    sheet = chip("h200")
    tensor = next(unit for unit in machine.units if unit.kind == "matrix")
    assert tensor.peaks["bf16"].value == sheet.units[0].peaks["bf16"].value
    assert tensor.achievable["bf16"].value == pytest.approx(700e12 / tensor.peaks["bf16"].value, rel=1e-4)
    assert machine.memories[0].achievable.value == pytest.approx(4e12 / sheet.memories[0].bandwidth.value, rel=1e-4)


def test_an_accelerator_without_a_data_sheet_has_plain_figures(tmp_path):
    conditions = Conditions("Nobody's Chip", "2026-01-01", 1, 1.0, device=True)
    ceilings = (
        Ceiling("library", "FLOP/s", "product", 1, summary(70e12), "bf16"),
        Ceiling("from host", "B/s", "sends", 1, summary(25e9)),
    )
    curve = Curve("copy", "a = b", 1, tuple((2.0**n, summary(8e12 if n < 26 else 4e12)) for n in range(18, 32)))
    write_machine_file(Measurement(conditions, ceilings, (curve,)), tmp_path / "d.toml")
    machine = chip("this-device", files=[tmp_path / "d.toml"])
    assert [(m.name, m.bandwidth.value) for m in machine.memories] == [("hbm", 4e12), ("l2", 8e12), ("pcie", 25e9)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema = 1", "holds no measurement; make one with `roofline measure`"),
        ("[measurement]\nversion = 99", "is of version 99, this reads 1; measure again"),
        ("[measurement]\nversion = 1", "the measurement is damaged at 'processor'"),
        ("[measurement", "does not read as TOML"),
    ],
)
def test_a_damaged_file_is_a_clear_error(tmp_path, text, said):
    (tmp_path / "x.toml").write_text(text, encoding="utf-8")
    with pytest.raises(HardwareError, match=said.replace("[", r"\[")):
        read_machine_file(tmp_path / "x.toml")


@pytest.mark.parametrize(
    ("pattern", "instead", "said"),
    some(
        [
            (r"figures = \[[^,]*", "figures = [nan", "figures are above 0"),
            (r"figures = \[[^,]*", "figures = [0.0", "figures are above 0"),
            (r"(?m)^quick = [^\n]*", "quick = 3.5", "quick is 3.5"),
            (r"(?m)^seconds = [^\n]*", 'seconds = "long"', "seconds is 'long'"),
            (r"(?m)^pinned = [^\n]*", "pinned = 1", "pinned is 1"),
            (r"(?m)^missing = [^\n]*", "missing = [3]", r"missing is \(3,\)"),
            (r"(?m)^threads = [^\n]*", "threads = -1", "threads is -1"),
            (r"points = \[\n.*?\n\]", "points = []", "'load': points at sizes above 0 are expected"),
            (r"points = \[\n  \[[^,]*", "points = [\n  [-8", "'load': points at sizes above 0 are expected"),
        ],
        3,
    ),
)
def test_figures_that_cannot_be_are_told(tmp_path, pattern, instead, said):
    """Those of a file edited by hand ended a chart in a traceback."""
    text = re.sub(pattern, instead, to_toml(made()), count=1, flags=re.DOTALL)
    (tmp_path / "x.toml").write_text(text, encoding="utf-8")
    with pytest.raises(HardwareError, match=f"the measurement is damaged at .*{said}; measure again"):
        read_machine_file(tmp_path / "x.toml")


def test_a_mark_of_an_editor_at_the_start_is_passed(tmp_path):
    for name, mark in (("x.toml", ""), ("y.toml", "\ufeff")):
        (tmp_path / name).write_text(mark + to_toml(made()), encoding="utf-8")
    assert read_machine_file(tmp_path / "x.toml") == read_machine_file(tmp_path / "y.toml")


def test_a_missing_file_says_how_to_make_one(tmp_path):
    with pytest.raises(HardwareError, match="make it with `roofline measure`"):
        read_machine_file(tmp_path / "none.toml")


def test_a_file_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(HardwareError, match=r"cannot write .* name another file"):
        write_machine_file(made(), tmp_path / "file" / "x.toml")


def test_a_file_that_cannot_be_written_is_told_before_and_leaves_nothing(tmp_path):
    for bad in (tmp_path, tmp_path / "there" / "x.toml"):
        (tmp_path / "there").write_text("", encoding="utf-8")
        with pytest.raises(HardwareError, match="name another file"):
            check_machine_file(bad)
    (tmp_path / "x.toml").write_text("before", encoding="utf-8")
    check_machine_file(tmp_path / "x.toml")
    check_machine_file(tmp_path / "new.toml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there", "x.toml"]
    assert (tmp_path / "x.toml").read_text(encoding="utf-8") == "before"


@pytest.mark.skipif(os.name != "posix", reason="links and pipes as on Unix")
def test_links_and_pipes_stay_what_they_are(tmp_path):
    """To write to /dev/null as root put a file in its place."""
    (tmp_path / "link.toml").symlink_to(tmp_path / "real.toml")
    write_machine_file(made(), tmp_path / "link.toml")
    assert (tmp_path / "link.toml").is_symlink()
    assert read_machine_file(tmp_path / "real.toml").ceilings
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    small = replace(made(), curves=(), shapes=())
    check_machine_file(f"/dev/fd/{writing}")
    write_machine_file(small, f"/dev/fd/{writing}")
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as file:
        assert "[measurement]" in file.read()


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        ("[[2, 1e9], [1, 1e9]]", "curve: does not rise; expected pairs"),
        ("[[1, 0]]", "expected pairs of bytes and B/s"),
        ('"x"', "expected pairs of bytes and B/s"),
    ],
)
def test_a_wrong_curve_in_a_file_is_named(tmp_path, curve, said):
    text = f'schema = 1\n[[chip.x.memory]]\nlevel = "dram"\nbandwidth = 1e9\ncurve = {curve}\n'
    (tmp_path / "x.toml").write_text(text, encoding="utf-8")
    with pytest.raises(HardwareError, match=said):
        chip(str(tmp_path / "x.toml"))


def test_this_machine_is_known_to_python_too_once_measured(tmp_path, monkeypatch):
    """``on="this"`` said that nothing was measured, where the command line knew it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(HardwareError, match="no measurement of this machine is known"):
        chip("this")
    (tmp_path / "roofline").mkdir()
    write_machine_file(made(), tmp_path / "roofline" / "this.toml")
    assert bound("fp32[64, 64] @ fp32[64, 64]", on="this").machine.name == chip("This").name
    assert chip("this-core").name != chip("this").name
    with pytest.raises(HardwareError, match="no measurement of an accelerator"):
        chip("this-device")


def test_a_figure_that_so_many_threads_cannot_have_is_marked_and_not_believed(tmp_path):
    """Two threads reach at most twice what one does."""
    measured = made()
    assert measured.odd() == []
    curves = [
        replace(curve, points=tuple((size, summary(found.value * (4.6 if size > 100e6 and curve.threads == 2 else 1)))
                                    for size, found in curve.points))
        for curve in measured.curves
    ]  # fmt: skip
    ceilings = [replace(c, summary=summary(5e12)) if (c.name, c.threads) == ("register bf16", 2) else c
                for c in measured.ceilings if (c.name, c.threads) != ("register fp32", 2)]  # fmt: skip
    found = replace(measured, curves=tuple(curves), ceilings=tuple(ceilings))
    assert found.odd() == ["register bf16 on 2 threads", "dram on 2 threads"]
    text = as_text(found.sections(), 200)
    assert re.search(r"dram +\? \d", text)
    assert re.search(r"register bf16 +512 GFLOP/s +\? 5 TFLOP/s", text)
    assert "not believed: above its share of what fewer threads reached: register bf16 on 2 threads" in text
    write_machine_file(found, tmp_path / "this.toml")
    this = chip(f"{tmp_path}/this.toml#this")
    assert this.name == "Made-up CPU, 2 threads or fewer, as measured"  # of fp32 one thread alone was measured
    assert this.memories[0].bandwidth.source.startswith("load, 2 threads")
    assert this.memories[0].bandwidth.doubt == this.units[0].peaks["bf16"].doubt == NOT_BELIEVED
    said = " ".join(str(bound("bf16[64, 64] * bf16[64, 64]", on=f"{tmp_path}/this.toml#this")).split())
    assert said.count(NOT_BELIEVED) == 2  # of the units and of the main memory


def within_caches(curve):
    """The curve as a machine leaves it that was too busy for the larger working sets."""
    return replace(curve, points=tuple(point for point in curve.points if point[0] < 8e5))


def test_a_working_set_within_the_caches_says_nothing_of_main_memory(tmp_path):
    whole = made()
    cut = replace(whole, curves=tuple(within_caches(c) if c.threads == 2 else c for c in whole.curves))
    assert whole.reaches_memory(2)
    assert not cut.reaches_memory(2)
    one = whole.levels(1)
    assert [(level.name, level.bandwidth) for level in cut.levels(2)[-2:]] == [(x.name, x.bandwidth) for x in one[-2:]]
    assert cut.levels(2)[0] == whole.levels(2)[0]
    write_machine_file(cut, tmp_path / "this.toml")
    main = chip(f"{tmp_path}/this.toml#this").memories[0]
    assert (main.name, main.bandwidth.value, main.curve) == ("dram", one[-1].bandwidth, ())
    assert main.bandwidth.source.startswith("load, 1 thread, ")
    assert chip(f"{tmp_path}/this.toml#this-core").memories[0].curve


def test_where_no_working_set_leaves_the_caches_main_memory_has_no_bandwidth(tmp_path):
    whole = made()
    curves = tuple(map(within_caches, whole.curves))
    cut = replace(whole, curves=curves, conditions=replace(whole.conditions, largest_cache=32e6))
    assert not any(level.name == "dram" for threads in (1, 2) for level in cut.levels(threads))
    write_machine_file(cut, tmp_path / "this.toml")
    assert read_machine_file(tmp_path / "this.toml").conditions == cut.conditions
    answer = bound("fp32[64, 64] * fp32[64, 64]", on=f"{tmp_path}/this.toml#this")
    assert answer.times.keys() == {"vector"}
    assert any("bytes at main" in gap for gap in answer.incomplete)
