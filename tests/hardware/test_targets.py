"""Targets as they are typed: forgiving names, shapes, files, and the message when one does not read."""

from pathlib import Path

import pytest
from tests.strategies import for_each

from roofline.cli import main
from roofline.errors import HardwareError, InputError
from roofline.frozen import fields
from roofline.hardware import chip, names
from roofline.hardware.machine import figures_by_path

ALIASES = {
    "h100": ["H100", "H100 SXM", "h100-sxm5", "h100_sxm", "NVIDIA H100", "nvidia-h100-sxm5", "NVIDIA H100 SXM5 80GB"],
    "h100-pcie": ["h100 pcie", "H100-PCIe", "h100pcie"],
    "h100-nvl": ["H100 NVL"],
    "h200": ["H200", "h200-sxm"],
    "b200": ["B200", "NVIDIA B200"],
    "gb200": ["GB200"],
    "a100": ["A100", "A100 80GB", "a100-sxm4", "NVIDIA A100 SXM4 80GB", "A100-SXM 80 GB", "GPU A100"],
    "a100-40gb": ["a100 40gb", "A100-SXM4-40GB", "A100-SXM 40 GB"],
    "a100-pcie": ["A100 PCIe"],
    "v100": ["V100", "Tesla V100", "v100-sxm2", "V100-SXM 16 GB", "Ｖ１００"],
    "v100-pcie": ["V100 PCIe"],
    "p100": ["P100"],
    "t4": ["T4", "Tesla T4"],
    "l4": ["L4"],
    "l40s": ["L40S"],
    "a10": ["A10"],
    "a10g": ["A10G"],
    "a30": ["a30"],
    "a40": ["a40"],
    "gtx-1080-ti": ["1080ti", "gtx1080ti", "GTX 1080 Ti", "GeForce GTX 1080 Ti", "1080 ti"],
    "rtx-2080-ti": ["2080ti", "rtx2080ti", "RTX 2080 Ti"],
    "rtx-3090": ["3090", "RTX 3090", "rtx3090"],
    "rtx-4090": ["4090", "GeForce RTX 4090"],
    "rtx-5090": ["5090"],
    "mi300x": ["MI300X", "Instinct MI300X", "amd-mi300x"],
    "mi250x-gcd": ["MI250X (per GCD)", "mi250x gcd"],
    "v2": ["TPU v2", "tpuv2"],
    "v3": ["tpu-v3"],
    "v4": ["TPU v4", "tpu_v4"],
    "v5e": ["V5E", "tpu-v5e", "TPU v5e", "tpuv5e", "Google TPU v5e", "cloud-tpu-v5e", "v5litepod"],
    "v5p": ["TPU v5p"],
    "v6e": ["trillium", "TPU v6e"],
    "tpu7x": ["ironwood", "tpu7x", "TPU7x (Ironwood)", "v7x"],
    "trn1": ["Trainium1", "aws-trn1"],
    "trn2": ["trainium2"],
    "trn3": ["trn3"],
    "inf2": ["Inferentia2"],
    "gaudi2": ["Gaudi 2", "intel gaudi2"],
    "gaudi3": ["gaudi-3"],
    "m1": ["Apple M1"],
    "m4-max": ["m4 max", "M4Max"],
    "910b": ["Ascend 910B"],
    "spr": ["Sapphire Rapids", "Xeon SPR"],
    "genoa": ["EPYC 9654", "genoa"],
}


@for_each(("key", "written"), [(key, w) for key, listed in ALIASES.items() for w in listed])
def test_names_are_forgiving(key, written):
    assert chip(written).key == key


def test_a_shape_may_stand_behind_full_width_signs():
    assert chip("v5e：４×４").shape == (4, 4)


def test_a_name_nearly_right_is_answered_with_a_key():
    with pytest.raises(HardwareError, match="did you mean 'a100-40gb'"):
        chip("a100-40g")


def test_shapes():
    assert chip("h100").shape == ()
    assert chip("h100:8").shape == (8,)
    assert chip("v5e:4x4").shape == (4, 4)
    assert chip("v4:2x2x4").shape == (2, 2, 4)
    assert chip("v5e:4X4").shape == (4, 4)
    assert chip(" v5e : 16×16".replace(" : ", ":")).shape == (16, 16)


OWN = "for a chip of your own roofline.chip({…}) takes its figures"


@pytest.mark.parametrize("shape", ["4xx4", "x4", "4x", "-4", "4.5", "", " ", "4 x", "99999999", "1" * 5000])
def test_bad_shapes(shape):
    with pytest.raises(HardwareError, match=r"does not read; write sizes joined by x, such as v5e:4x4 or h100:8"):
        chip(f"v5e:{shape}")


@pytest.mark.parametrize("shape", ["0", "0x4", "4x0"])
def test_a_size_of_0_is_no_shape(shape):
    with pytest.raises(HardwareError, match="has a size of 0; each size is at least 1, as in v5e:4x4 or h100:8"):
        chip(f"v5e:{shape}")


@pytest.mark.parametrize("shape", ["n", "a"])
def test_an_open_number_of_chips_is_of_a_formula(shape):
    with pytest.raises(
        HardwareError, match=r"does not read; a number, as in h100:8; roofline.formula\(\) leaves it open"
    ):
        chip(f"h100:{shape}")


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("8 x h200", "h200:8"), ("8×H200", "h200:8"), ("h200 x 8", "h200:8"), ("8*h200", "h200:8"),
        ("H200 : 8", "h200:8"), ("v5e x 4x4", "v5e:4x4"), ("v5e: 4 x 4", "v5e:4x4"), ("8xmi300x", "mi300x:8"),
        ("2 x rtx-4090", "rtx-4090:2"), ("NVIDIA H100 80GB HBM3 x 8", "h100:8"), ("mi300x", "mi300x"),
        ("8 H200s", "h200:8"), ("2 l40s", "l40s:2"),
    ],
)  # fmt: skip
def test_a_number_of_chips_as_people_write_it(written, target):
    assert chip(written).target == target


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("h10", "unknown chip 'h10'; did you mean 'h100'? (roofline.chips() lists all)"),
        ("mine", "unknown chip 'mine'; roofline.chips() lists all; " + OWN),
        ("v6f", "unknown chip 'v6f'; did you mean 'v6e'? (roofline.chips() lists all)"),
        ("950pr", "unknown chip '950pr'; did you mean '950dt'? (roofline.chips() lists all)"),
        ("b100", "unknown chip 'b100'; did you mean 'b300'? (roofline.chips() lists all)"),
        ("rtx 4060 ti 16gb", "unknown chip 'rtx 4060 ti 16gb'; did you mean '4060ti'? (roofline.chips() lists all)"),
        ("gb300-nvl72", "unknown chip 'gb300-nvl72'; did you mean 'gb300'? (roofline.chips() lists all)"),
        ("tpu-v5ee", "unknown chip 'tpu-v5ee'; did you mean 'v5e'? (roofline.chips() lists all)"),
        ("h100,A100", "unknown chip 'h100,A100'; chips are named one by one: 'h100' and 'A100'"),
        ("8 x dgx-h100", "unknown chip '8 x dgx-h100'; did you mean 'dgx-h100'? (roofline.chips() lists all)"),
        ("h100:8 h200:8", "shape '8 h200:8' of 'h100:8 h200:8' does not read; name machines one by one"),
        ("h100 h200", "unknown chip 'h100 h200'; chips are named one by one: 'h100' and 'h200'"),
        ("v5e-16", "unknown chip 'v5e-16'; several chips stand behind a colon: 'v5e:16'"),
        ("v5p-128", "unknown chip 'v5p-128'; Google counts its TensorCores, two a chip: write 'v5p:64' for 64 chips"),
        ("my.json", "'my.json' is no machine file; one is TOML, and its name ends in .toml"),
        ("/", "'/' is a folder; lay its files over the catalog with files="),
        ("A100 40", "unknown chip 'A100 40'; did you mean 'a100-40gb'? (roofline.chips() lists all)"),
        ("h100 sxm 80g", "unknown chip 'h100 sxm 80g'; did you mean 'h100'? (roofline.chips() lists all)"),
        ("Volta", "unknown chip 'Volta'; chips of that family are: v100, v100-pcie, v100s"),
        ("quantum", "unknown chip 'quantum'; roofline.chips() lists all; " + OWN),
        ("", "'' is not a chip; name one, such as 'h100', or give a TOML file"),
        ("  ", "'  ' is not a chip; name one, such as 'h100', or give a TOML file"),
        (None, "None is not a chip; name one, such as 'h100', or give a TOML file"),
        (7, "7 is not a chip; name one, such as 'h100', or give a TOML file"),
        *(
            (
                name,
                "no measurement of this machine is known; make one with `roofline measure`, or name a chip or "
                "on='FILE.toml'",
            )
            for name in ("this", "THIS:4")
        ),
        ("nowhere/x.toml", "cannot read 'nowhere/x.toml': No such file or directory; check the path"),
        (":8", "unknown chip ''; roofline.chips() lists all; " + OWN),
    ],
)
def test_what_does_not_resolve(target, message):
    with pytest.raises(HardwareError) as caught:
        chip(target)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("H100 80GB HBM3", "h100"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("V100-SXM2-32GB", "v100"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
    ],
)
def test_the_name_a_driver_reports_is_a_target(name, key):
    assert chip(name).key == key


def test_a_maker_of_many_chips_is_told_how_to_list_them():
    with pytest.raises(HardwareError, match=r"roofline.chips\(filter='nvidia'\) lists its \d\d chips"):
        chip("nvidia")


def test_a_machine_passes_through():
    machine = chip("h100", hbm=3e12)
    assert chip(machine) is machine
    assert chip(machine, over="l2").over == "l2"


def test_every_name_resolves():
    for name in names():
        assert chip(name).key == name


def test_errors_are_input_errors():
    with pytest.raises(InputError):
        chip("nope")


def test_a_machine_says_what_it_is():
    assert repr(chip("v5e:4x4", hbm=8.1e11)) == "Machine(v5e:4x4, given: hbm.bandwidth)"


def test_a_node_of_a100_is_a_system() -> None:
    """Eight chips on NVLink, then 25 GB/s a chip."""
    machine = chip("dgx-a100:16")
    assert machine.mesh is not None
    assert [(segment.link, segment.size) for axis in machine.mesh for segment in axis.segments] == [
        ("nvlink", 8), ("nic", 2)]  # fmt: skip


def test_cards_that_bridges_can_join_say_that_none_is_assumed() -> None:
    for key in ("a100-pcie", "a30", "h100-pcie", "h100-nvl"):
        assert any("NVLink bridges, which no answer assumes" in note for note in chip(key).notes), key


def test_words_of_full_names_list_what_there_is() -> None:
    with pytest.raises(HardwareError, match=r"of that name the catalog has agx-orin \(NVIDIA Jetson .*\), orin-nano "):
        chip("jetson-orin")


def test_the_template_is_a_machine_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chips", "--template"]) == 0
    path = tmp_path / "my-chip.toml"
    path.write_text(capsys.readouterr().out)
    machine = chip(f"{path}:8")
    assert (machine.name, machine.units[0].peaks["bf16"].value) == ("My chip", 1e15)
    assert main(["chips", str(path)]) == 0
    assert main(["comm", "allreduce", "1GB", "--on", f"{path}:8"]) == 0


def test_the_template_goes_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.txt"
    for more in (["h100"], ["--json"], ["--sources"], ["--ratio", "bf16/price"], ["-o", str(path)], ["--top", "3"]):
        assert main(["chips", "--template", *more]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("error: --template goes alone; as in: roofline chips --template >")
    assert not path.exists()


def test_a_machine_file_is_told_all_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("""schema = 1
[chip.mine]
bf16 = 1e15
speed = 3
[chip.mine.unit.matrix]
bf16 = 1e15
[chip.mine.memory.hbm]
capacity = 3
""")
    with pytest.raises(HardwareError) as caught:
        chip(str(path))
    assert "3 things are wrong" in caught.value.message
    assert "chip.mine: unknown keys 'bf16', 'speed'; keys are: name, announced, inherits" in caught.value.message
    assert "chip.mine.unit.matrix: unknown key 'bf16'; a peak is written peak.bf16" in caught.value.message
    assert "expected a list of tables, [[chip.mine.memory]]" in caught.value.message
    assert caught.value.hint == "roofline.chip({…}) takes its figures"


@pytest.mark.parametrize("figures", [
    {"bf16": 1e14, "hbm": 1e12, "hbm.capacity": "32 GB"}, {"hbm.capacity": 32e9, "bf16": 1e14, "hbm": "1 TB/s"},
    {"bf16": 1e14, "hbm": {"bandwidth": 1e12, "capacity": 32e9}},
    {"bf16": 1e14, "hbm": {"bandwidth": 1e12}, "hbm.capacity": 32e9},
    {"bf16": 1e14, "hbm": 1e12, "capacity": 32e9}, {"capacity": "32 GB", "bf16": 1e14, "bandwidth": "1 TB/s"},
    {"bf16": 1e14, "l2": 9e12, "memory": [{"level": "hbm", "bandwidth": 1e12}], "capacity": 32e9},
])  # fmt: skip
def test_a_figure_of_a_described_chip_may_stand_behind_a_dot(figures):
    memory = chip(figures).memories[0]
    assert (memory.name, memory.bandwidth.value, memory.capacity.value) == ("hbm", 1e12, 32e9)
    with pytest.raises(HardwareError, match="memory: has 101 tables, and one chip has fewer; at most 100"):
        chip({f"level{at}": {"bandwidth": 8} for at in range(101)})
    assert chip({"inherits": "h100", "hbm.capacity": 32e9}).figure("hbm.capacity").value == 32e9


@pytest.mark.parametrize(("figures", "levels"), [
    ({"ddr": {"bandwidth": 1e11}, "capacity": 100.0}, [("ddr", 1e11, 100.0)]),
    ({"l2": 8e12, "bandwidth": 2e12, "capacity": 80e9}, [("hbm", 2e12, 80e9), ("l2", 8e12, None)]),
    ({"pcie": 64e9, "bandwidth": 2e12, "capacity": 80e9}, [("hbm", 2e12, 80e9), ("pcie", 64e9, None)]),
    ({"l2": 8e12, "dram": 2e12, "capacity": 80e9}, [("dram", 2e12, 80e9), ("l2", 8e12, None)]),
    ({"sram": 8e13, "capacity": 2e8}, [("sram", 8e13, 2e8)]),
    ({"sram": 8e13, "hbm": 2e12, "capacity": 80e9}, [("hbm", 2e12, 80e9), ("sram", 8e13, None)]),
])  # fmt: skip
def test_words_for_the_main_memory_mean_the_level_that_is_neither_a_cache_nor_a_link(figures, levels):
    found = [
        (m.name, *(f and f.value for f in (m.bandwidth, m.capacity))) for m in chip({"bf16": 3e14, **figures}).memories
    ]
    assert found == levels


@pytest.mark.parametrize("figures", [
    {"hbm": {"bandwidth": 2e12, "capacity": 40e9}, "capacity": 80e9}, {"hbm": 2e12, "bandwidth": 1e12},
    {"bandwidth": 2e12, "main": 1e12},
])  # fmt: skip
def test_a_figure_of_the_main_memory_is_stated_once(figures):
    with pytest.raises(HardwareError, match="and the main level 'hbm' has "):
        chip({"bf16": 3e14, **figures})


def test_a_target_is_one_machine_each_time_it_is_named():
    """So that what is worked out for a machine is found by the next question; with a figure of one's own it is not."""
    assert chip("h100:8") is chip(" h100:8") is not chip("h100:4")
    slower = chip("h100:8", hbm="3 TB/s")
    assert slower.figure("hbm").value == 3e12 != chip("h100:8").figure("hbm").value
    assert slower.mesh is not None


@for_each("key", names()[::4])
def test_a_chip_that_is_saved_as_a_machine_file_reads_back_to_it(key, tmp_path):
    saved = chip(key, hbm="4.5 TB/s", **{"tensor.bf16": 1e15} if "tensor" in {u.name for u in chip(key).units} else {})
    saved.save(tmp_path / "mine.toml")
    read = chip(str(tmp_path / "mine.toml"))
    differs = {each.name for each in fields(saved) if getattr(saved, each.name) != getattr(read, each.name)}
    assert differs <= {"given", "warnings", "file"}


def test_a_machine_of_ones_own_is_equal_to_what_it_was_saved_as(tmp_path):
    figures = {"name": "mine", "bf16": "100 TFLOP/s", "hbm": {"bandwidth": "1 TB/s", "capacity": "16 GB"}}
    mine = chip(figures)
    mine.save(tmp_path / "mine.toml")
    read = chip(str(tmp_path / "mine.toml"))
    assert mine == read
    assert len({mine, read}) == 1
    assert mine != chip({**figures, "bf16": "101 TFLOP/s"}) != "mine"
    assert {figure.basis for figure in figures_by_path(read).values()} == {"given"}
    cited = chip({**figures, "bf16": {"value": 1e14, "source": "a data sheet"}})
    assert [cited.figure(name).basis for name in ("bf16", "hbm")] == ["spec", "given"]
    # a peak of its own follows its clock; one that was set does not
    clocked = chip({"name": "mine", "unit": {"matrix": {"clock": 1e9, "peak": {"bf16": 1e14}}}, "hbm": 1e12})
    faster = {"matrix.clock": 2e9}
    assert chip(clocked, **faster).figure("bf16").value == pytest.approx(2e14)
    assert chip(chip(clocked, bf16=3e14), **faster).figure("bf16").value == 3e14


def test_a_machine_file_holds_chips_and_nothing_more(tmp_path):
    with pytest.raises(HardwareError, match=r"holds one chip, .*ask with the rest: on='mine.toml:8'"):
        chip("h100:8").save(tmp_path / "mine.toml")
    assert main(["chips", "h100", "a100", "--set", "hbm=4TB/s", "-o", str(tmp_path / "two.toml")]) == 0
    assert chip(f"{tmp_path}/two.toml#a100").figure("hbm").value == 4e12
    assert chip(str(tmp_path / "two.toml#h100") + ":8").shape == (8,)
