"""Figures of machine files: what follows from others, under which names and units they stand, what is asked about."""

from roofline.hardware import chip
from roofline.hardware.rate import choose_unit, find_level


def test_a_peak_follows_from_cores_and_clock(write):
    path = write("""
[chip.cpu]
cores = 16
[chip.cpu.unit.avx]
clock = "4.5 GHz"
per_clock = { fp32 = 64, fp64 = 32 }
peak.fp64 = "2 TFLOP/s"
[[chip.cpu.memory]]
level = "dram"
bandwidth = "80 GB/s"
[[chip.cpu.memory]]
level = "l2"
bandwidth = "4 TB/s"
per_core = "1 MiB"
[chip.slow]
inherits = "cpu"
[chip.slow.unit.avx]
clock = "3 GHz"
""")
    peaks = chip(f"{path}#cpu").units[0].peaks
    assert (peaks["fp32"].value, peaks["fp32"].basis) == (16 * 64 * 4.5e9, "derived")
    assert peaks["fp64"].value == 2e12
    assert find_level(chip(f"{path}#cpu"), "l2").capacity.value == 16 * 2**20
    assert chip(f"{path}#slow").units[0].peaks["fp32"].value == 16 * 64 * 3e9


def test_a_peak_stands_under_any_name_of_its_format(write):
    path = write("[chip.x.unit.tensor]\npeak = { float16 = 1e12, fp8_e4m3 = 2e12, nvfp4 = 4e12, bf16_acc32 = 1e12 }\n")
    tensor = chip(path).units[0]
    assert {name: peak.value for name, peak in tensor.peaks.items()} == {
        "fp16": 1e12,
        "fp8": 2e12,
        "fp4": 4e12,
        "bf16": 1e12,
    }
    assert choose_unit(chip(path), "matrix", "mxfp8").dtype == "fp8"


def test_capitals_in_names_of_levels_units_and_links(write):
    path = write("""
[chip.x.unit.Tensor]
peak.bf16 = 1e12
[[chip.x.memory]]
level = "HBM"
bandwidth = 1e12
[[chip.x.link]]
name = "NVLink"
bandwidth = 1e11
""")
    machine = chip(path, hbm=2e12, NVLink=2e11, over="hbm", unit="Tensor")
    assert [m.bandwidth.value for m in machine.memories] == [2e12]
    assert machine.links[0].bandwidth.value == 2e11


def test_a_curve_may_have_units_and_gives_the_bandwidth(write):
    text = '[[chip.x.memory]]\nlevel = "dram"\ncurve = [["32 KiB", "400 GB/s"], [1048576, 2e11]]\n'
    memory = chip(write(text)).memories[0]
    assert memory.curve == ((32768, 4e11), (1048576, 2e11))
    assert memory.bandwidth.value == 2e11


def test_a_file_saved_with_a_byte_order_mark_reads(write):
    assert chip(write('\ufeff[chip.x]\nname = "My chip"\n[chip.x.unit.tensor]\npeak.bf16 = 1e12\n')).name == "My chip"


def test_a_figure_without_its_unit_is_asked_about(write):
    text = "[chip.x.unit.tensor]\npeak.bf16 = 989\nper_clock.fp8 = 512\n"
    machine = chip(write(text + "[[chip.x.memory]]\nlevel = 'hbm'\nbandwidth = 3350\ncapacity = 80\n"))
    assert machine.warnings == (
        "tensor.bf16 is 989 FLOP/s: is its unit missing?",
        "hbm.bandwidth is 3.35 kB/s: is its unit missing?",
        "hbm.capacity is 80 B: is its unit missing?",
        "tensor has FLOP per clock in fp8 and no clock, so no peak",
    )
