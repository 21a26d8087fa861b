"""The commands: what they print, what they write, how they refuse."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
from made import made
from tests.strategies import some

from roofline.charts.roofline_charts import bandwidth_chart
from roofline.cli import main
from roofline.errors import HardwareError, InputError, MissingExtraError
from roofline.measurement import write_machine_file
from roofline.measurement.machine_file import this_machine


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "roofline"


@pytest.fixture
def measured(home):
    write_machine_file(made(), home / "this.toml")
    return home / "this.toml"


@pytest.fixture
def little(monkeypatch):
    """A real measurement of this machine that is short since it takes little, not since its time is over."""
    pytest.importorskip("llvmlite")
    from roofline.measurement import cpu

    little = {"QUICK_MEMORY": 2**22, "ROUNDS": 1, "WINDOWS": 3, "QUICK_SECONDS": 3000.0, "QUICK_LIMIT": 6000.0}
    for name, value in little.items():
        monkeypatch.setattr(cpu, name, value)


def test_this_without_a_measurement_says_how_to_make_one(home, capsys):
    for arguments in (["bound", "gelu(fp32[8])", "--on", "this"], ["run", "gelu(fp32[8])"]):
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert "no measurement of this machine is known; make one with `roofline measure`" in said


def test_this_is_the_measured_machine(measured, capsys):
    assert main(["bound", "fp32[64, 64] + fp32[64, 64]", "--on", "this", "--json"]) == 0
    cold = json.loads(capsys.readouterr().out)
    assert main(["bound", "fp32[64, 64] + fp32[64, 64]", "--on", "this", "--warm", "--json"]) == 0
    warm = json.loads(capsys.readouterr().out)
    assert list(cold["bytes"]) == ["dram"]
    assert list(warm["bytes"]) == ["l1"]
    assert warm["lower"] < cold["lower"]
    assert main(["bound", "fp32[64, 64] + fp32[64, 64] on this", "--cold"]) == 0


def test_what_was_measured_is_shown_again_without_measuring(measured, capsys):
    assert main(["measure", "--show"]) == 0
    text = capsys.readouterr().out
    for word in ("Made-up CPU", "register bf16", "1.02 TFLOP/s", "l1", "1.08 TB/s", "100% of the windows were clean"):
        assert word in text


def test_the_record_is_plain_data(measured, capsys):
    assert main(["measure", "--show", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "roofline/measurement/1"
    assert [level["name"] for level in data["levels"]["2"]] == ["l1", "l2", "l3", "dram"]
    assert {"name", "unit", "kernel", "threads", "value", "low", "high", "samples", "clean"} <= data["ceilings"][
        0
    ].keys()


def test_the_chart_shows_every_kernel_and_where_levels_end(measured, tmp_path, capsys):
    chart = bandwidth_chart(made())
    assert [line.label for line in chart.lines] == ["load"]
    assert [ridge.text.split()[0] for ridge in chart.ridges] == ["l1", "l2", "l3"]
    assert main(["measure", "--show", "--chart", str(tmp_path / "bw.svg")]) == 0
    assert (tmp_path / "bw.svg").read_text(encoding="utf-8").startswith("<?xml")
    with pytest.raises(InputError, match="no bandwidth was measured on 7 threads; measured on 1, 2 threads"):
        bandwidth_chart(made(), threads=7)


def test_a_profile_under_a_roof(measured, tmp_path, capsys):
    path = tmp_path / "runs.csv"
    path.write_text("name,dtype,flops,bytes,seconds\nup,fp32,1e9,1e6,1e-2\nfast,fp32,1e6,9e9,1e-2\n", encoding="utf-8")
    assert main(["profile", str(path), "--on", "this", "--chart", str(tmp_path / "x.svg")]) == 0
    text = capsys.readouterr().out
    assert "of the roof: data was already in a cache" in text
    assert main(["profile", str(path), "--on", "this", "--json", "--csv", str(tmp_path / "again.csv")]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [point["name"] for point in data["points"]] == ["up", "fast"]
    assert "fast,fp32" in (tmp_path / "again.csv").read_text(encoding="utf-8")


def test_a_missing_file_is_one_line(measured, capsys):
    assert main(["profile", "none.json", "--on", "this"]) == 2
    assert capsys.readouterr().err == "error: cannot read 'none.json': No such file or directory; check the path\n"


def test_measuring_without_llvmlite_names_the_extra(home, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    from roofline.measurement import measure

    with pytest.raises(MissingExtraError, match=r"llvmlite is not installed; it comes with: pip install '\.\[mea"):
        measure()
    assert main(["measure", "--quick"]) == 2
    assert capsys.readouterr().err.startswith("error: llvmlite is not installed")
    assert not (home / "this.toml").exists()


def test_an_unknown_device_is_one_line(home, capsys):
    assert main(["measure", "--device", "gpu"]) == 2
    assert "--device gpu is not one; cuda (of ROCm's PyTorch too), jax, or one of several" in capsys.readouterr().err


def test_ctrl_c_writes_what_was_measured(home, little, capsys, monkeypatch):
    """One of the first probes is interrupted: those before it have a figure, and the file says so."""
    from roofline.measurement import probes

    taken = []
    plain = probes.ThreadTeam.windows

    def windows(team, jobs, count):
        taken.append(count)
        if len(taken) == 60:
            raise KeyboardInterrupt
        return plain(team, jobs, count)

    monkeypatch.setattr(probes.ThreadTeam, "windows", windows)
    assert main(["measure", "--quick", "--no-library", "-o", str(home / "part.toml")]) == 130
    assert "stopped early" in capsys.readouterr().out
    assert main(["measure", "--show", "-o", str(home / "part.toml")]) == 0


def test_a_small_measurement_of_this_machine_loads(home, little, capsys):
    assert main(["measure", "--quick", "--no-library"]) == 0
    assert "use it with --on this" in capsys.readouterr().out
    assert main(["bound", "fp32[64, 64] @ fp32[64, 64]", "--on", "this"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "0.5"], "0.5 seconds of sampling are too few; from 1 to 3600"),
        (["--seconds", "nan"], "nan seconds of sampling are too many; from 1 to 3600"),
        (["--seconds", "1e9"], "1e+09 seconds of sampling are too many; from 1 to 3600"),
        (["--seconds", "60", "--device", "cuda"], "--seconds is for processors"),
    ],
)
def test_time_that_cannot_be_taken_is_said(home, capsys, arguments, said):
    assert main(["measure", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_sampling_takes_the_seconds_it_is_given_or_that_are_left(home, monkeypatch):
    pytest.importorskip("llvmlite")
    from roofline.measurement import cpu

    given = []
    monkeypatch.setattr(cpu, "QUICK_MEMORY", 2**22)
    monkeypatch.setattr(cpu, "sample", lambda probes, **options: given.append(options["seconds"]) or True)
    assert main(["measure", "--quick", "--no-library", "--seconds", "90", "-o", str(home / "long.toml")]) == 0
    assert main(["measure", "--quick", "--no-library", "-o", str(home / "usual.toml")]) == 0
    monkeypatch.setattr(cpu, "QUICK_LIMIT", 0.0)
    assert main(["measure", "--quick", "--no-library", "-o", str(home / "late.toml")]) == 0
    assert given[0] == 90.0
    assert cpu.LEAST_SHARE * cpu.QUICK_SECONDS <= given[1] <= cpu.QUICK_SECONDS
    assert given[2] == cpu.LEAST_SHARE * cpu.QUICK_SECONDS


def test_a_device_without_a_measurement_says_how_to_make_one(home, capsys):
    assert main(["bound", "gelu(fp32[8])", "--on", "this-device"]) == 2
    assert "no measurement of an accelerator of this machine is known; make one" in capsys.readouterr().err
    assert main(["measure", "--show", "--device", "cuda"]) == 2
    assert "make it with `roofline measure --device cuda`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--against", "h100"], "--against goes with --roofline"),
        (["--against", "nosuch", "--roofline", "x.png"], "unknown chip 'nosuch'"),
        (["--roofline", "x.xyz"], "a chart cannot be saved as .xyz"),
        (["--chart", "none/x.svg"], "there is no folder 'none' to write 'none/x.svg' in"),
        (["-o", "."], "cannot write '.': Is a directory; name another file: -o FILE"),
        (["--csv", "."], "cannot write '.': it is a folder; name a file in it"),
        (["--csv", "none/x.csv"], "there is no folder 'none' to write 'none/x.csv' in"),
    ],
)
def test_what_cannot_be_written_is_said_before_measuring(home, capsys, monkeypatch, arguments, said):
    from roofline.cli import measure as command

    monkeypatch.setattr(command, "_measured", lambda **given: pytest.fail("it measured first"))
    assert main(["measure", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_what_was_measured_is_shown_where_it_cannot_be_kept(home, capsys, monkeypatch):
    """A disk that is full after a minute of measuring took all figures with it."""
    from roofline import measurement
    from roofline.cli import measure as command
    from roofline.errors import HardwareError

    def full(*_):
        raise HardwareError("cannot write 'x': No space left on device", hint="name another file: -o FILE")

    monkeypatch.setattr(command, "_measured", lambda **given: made())
    monkeypatch.setattr(measurement, "write_machine_file", full)
    assert main(["measure"]) == 2
    shown, error = capsys.readouterr()
    assert "Made-up CPU" in shown
    assert "No space left on device" in error


def test_run_and_profile_refuse_a_picture_before_their_work(measured, capsys):
    for arguments in (["run", "gelu(fp32[8])"], ["profile", "none.csv", "--on", "this"]):
        assert main([*arguments, "--chart", "x.xyz"]) == 2
        assert "a chart cannot be saved as .xyz" in capsys.readouterr().err


def test_a_picture_that_cannot_be_drawn_does_not_take_the_times_with_it(measured, tmp_path, capsys):
    """Runs on a number of threads that was not measured, or in a format without a ceiling."""
    assert main(["run", "int32[8, 8] + int32[8, 8]", "--chart", str(tmp_path / "x.svg")]) == 2
    shown, error = capsys.readouterr()
    assert "int32[8, 8] + int32[8, 8]" in shown
    assert "no ceiling was measured in int32" in error


def test_a_measurement_stopped_before_its_curves_is_shown(home, tmp_path, capsys, monkeypatch):
    from roofline.cli import measure as command

    monkeypatch.setattr(command, "_measured", lambda **given: replace(made(interrupted=True), curves=()))
    assert main(["measure", "--chart", str(tmp_path / "x.svg")]) == 2
    shown, error = capsys.readouterr()
    assert "Made-up CPU" in shown
    assert "no bandwidth was measured" in error


@pytest.mark.parametrize("option", some(["--quick", "--no-library", "--seconds"], 3))
def test_showing_measures_nothing(measured, capsys, option):
    assert main(["measure", "--show", option, *["9"] * (option == "--seconds")]) == 2
    assert f"--show measures nothing, so {option} says nothing" in capsys.readouterr().err


def test_stopping_early_does_not_cost_the_whole_measurement(measured, capsys, monkeypatch):
    """What is there already stands when it is whole; one that was stopped itself is written over."""
    from roofline.cli import measure as command

    before = measured.read_text(encoding="utf-8")
    stopped = measured.with_name("this.toml.stopped")
    monkeypatch.setattr(command, "_measured", lambda **given: made(interrupted=True))
    assert main(["measure"]) == 0
    assert f"{stopped}; {measured} keeps the whole measurement" in capsys.readouterr().out.replace("\n", " ")
    assert measured.read_text(encoding="utf-8") == before
    assert main(["measure", "-o", str(stopped)]) == 0
    assert sorted(path.name for path in measured.parent.iterdir()) == ["this.toml", "this.toml.stopped"]


def test_a_roof_is_named_as_measure_says_it():
    path = "docs/examples/measured.toml"
    named = [this_machine(f"{path}{which}").on.key for which in ("", "#this", "#this-core")]
    assert named == ["this", "this", "this-core"]
    with pytest.raises(HardwareError, match="holds no chip 'that'; its chips are: this, this-core"):
        this_machine(f"{path}#that")


def test_a_run_of_more_than_there_is(measured, capsys):
    pytest.importorskip("torch")
    assert main(["run", "gelu(fp32[8])", "--threads", "64"]) == 2
    assert "64 threads have no roof: this machine was measured on 2; from 1 to 2" in capsys.readouterr().err
    assert main(["run", "fp32[9000000, 9000000] @ fp32[9000000, 2]"]) == 2
    assert "does not fit here: its operands need 324 TB; run a smaller one" in capsys.readouterr().err
    assert main(["run", "gelu(int8[64])"]) == 2
    assert "cannot run gelu(int8[64]) -> int8[64] here: " in capsys.readouterr().err
    for word in ("--on", "--machine"):
        assert main(["run", "gelu(fp32[8])", word, "none.toml"]) == 2
        assert "there is no file 'none.toml'; make it with `roofline measure -o none.toml`" in capsys.readouterr().err
    assert main(["run", "gelu(fp32[8])", "--on", "h100"]) == 2
    said = "'h100' is no machine file; operations run on this machine, whose measurement is --on FILE.toml or this"
    assert said in capsys.readouterr().err


def test_ctrl_c_in_the_all_reduce_keeps_the_rest(monkeypatch):
    torch = pytest.importorskip("torch")
    from roofline.measurement import accelerator

    def stopped(accelerator):
        raise KeyboardInterrupt

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(accelerator, "all_reduce", stopped)
    monkeypatch.setattr(accelerator, "measure_device", lambda device, **how: made())
    monkeypatch.setattr(accelerator, "_named", lambda name: None)
    found = accelerator.measured_device("cuda")
    assert found.ceilings == made().ceilings
    assert found.conditions.interrupted
