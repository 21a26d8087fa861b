"""Figures set by the caller: where they land, what is made, what is noted, and the message if there is no such one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import bound
from roofline.errors import HardwareError, InputError, QuantityError
from roofline.hardware import chip, names, override
from roofline.hardware.machine import Figure, Machine, Memory
from roofline.hardware.overrides import describe_given, settable_figures
from roofline.hardware.rate import find_level, find_link, rate
from roofline.work import Key


def peak(machine, unit, dtype):
    return next(u for u in machine.units if u.name == unit).peaks[dtype]


@pytest.mark.parametrize(
    ("target", "key", "value", "path", "expected"),
    [
        ("v5e", "hbm", "8.1e11 B/s", "hbm.bandwidth", 8.1e11),
        ("v5e", "HBM", "810 GB/s", "hbm.bandwidth", 8.1e11),
        ("v5e", "memory", 8.1e11, "hbm.bandwidth", 8.1e11),
        ("v5e", "bandwidth", 8.1e11, "hbm.bandwidth", 8.1e11),
        ("v5e", "memory.bandwidth", 8.1e11, "hbm.bandwidth", 8.1e11),
        ("v5e", "hbm.bandwidth", 8.1e11, "hbm.bandwidth", 8.1e11),
        ("v5e", "hbm.capacity", "32 GiB", "hbm.capacity", 32 * 2**30),
        ("v5e", "capacity", "32 GiB", "hbm.capacity", 32 * 2**30),
        ("gtx-1080-ti", "hbm", 1e12, "dram.bandwidth", 1e12),
        ("h100", "dram", 1e12, "hbm.bandwidth", 1e12),
        ("h100", "vmem", 1e13, "vmem.bandwidth", 1e13),
        ("h100", "l2", "5.5 TB/s", "l2.bandwidth", 5.5e12),
        ("h100", "pcie", "55 GB/s", "pcie.bandwidth", 5.5e10),
        ("a10", "pcie", "55 GB/s", "pcie.bandwidth", 5.5e10),
        ("h100", "host", "55 GB/s", "pcie.bandwidth", 5.5e10),
    ],
)
def test_memory_figures(target, key, value, path, expected):
    machine = override(chip(target), {key: value})
    level, _, part = path.partition(".")
    figure = getattr(find_level(machine, level), part)
    assert figure.value == expected
    assert figure.basis == "given"
    assert machine.given == (path,)


@pytest.mark.parametrize(
    ("target", "key", "unit", "dtype"),
    [
        ("h100", "bf16", "tensor", "bf16"),
        ("h100", "bfloat16", "tensor", "bf16"),
        ("h100", "fp8_e4m3", "tensor", "fp8"),
        ("h100", "fp4", "tensor", "fp4"),
        ("h100", "fp32", "cuda", "fp32"),
        ("h100", "peak.bf16", "tensor", "bf16"),
        ("h100", "tensor.bf16", "tensor", "bf16"),
        ("h100", "matrix.bf16", "tensor", "bf16"),
        ("h100", "vector.fp32", "cuda", "fp32"),
        ("h100", "cuda.fp32", "cuda", "fp32"),
        ("v5e", "mxu.fp32", "mxu", "fp32"),
        ("v5e", "tensor.bf16", "mxu", "bf16"),
        ("v5e", "peak.fp32", "mxu", "fp32"),
        ("v5e", "vector.bf16", "vpu", "bf16"),
        ("v4", "vpu.fp32", "vpu", "fp32"),
        ("gtx-1080-ti", "bf16", "cuda", "bf16"),
        ("genoa", "fp32", "vector", "fp32"),
        ("rtx-4090", "fp16_acc16", "tensor", "fp16_acc16"),
    ],
)
def test_peaks(target, key, unit, dtype):
    machine = override(chip(target), {key: "123 TFLOP/s"})
    assert peak(machine, unit, dtype).value == 123e12
    assert machine.given == (f"{unit}.{dtype}",)


def test_peak_sets_every_dtype_of_the_main_unit():
    machine = chip("v5e", peak=1e15)
    assert {figure.value for figure in machine.units[0].peaks.values()} == {1e15}
    assert machine.given == ("mxu.bf16", "mxu.int8", "mxu.int4")
    assert machine.units[1].peaks["fp32"].basis == "derived"


def test_dictionaries_reach_inside():
    machine = chip("h100", hbm={"bandwidth": "3 TB/s", "capacity": "96 GB"}, peak={"bf16": 1e15, "fp8": 2e15})
    assert machine.given == ("hbm.bandwidth", "hbm.capacity", "tensor.bf16", "tensor.fp8")


def test_links_power_and_clocks():
    machine = chip("v5e", link=5e10, ici={"latency": "2 us"}, tdp="200 W")
    assert find_link(machine, "ici").bandwidth.value == 5e10
    assert find_link(machine, "ici").latency.value == 2e-6
    assert machine.tdp.value == 200
    assert find_link(chip("a10", link=1e10), "link").bandwidth.value == 1e10
    assert find_link(chip("a10", nic=1e10), "nic").topology == "network"


def test_peaks_that_no_source_counts_per_clock_follow_the_clock():
    half = chip("a100", tensor={"clock": "0.705 GHz"})
    assert peak(half, "tensor", "int4").value == pytest.approx(624e12)
    assert peak(half, "tensor", "bf16").value == pytest.approx(156e12, rel=1e-2)


def test_a_given_peak_does_not_follow_a_clock():
    for order in (1, -1):
        given = dict([("tensor.bf16", "900 TFLOP/s"), ("tensor.clock", "1.5 GHz")][::order])
        machine = override(chip("h100"), given)
        assert peak(machine, "tensor", "bf16").value == 900e12
        assert peak(machine, "tensor", "fp8").value == pytest.approx(132 * 8192 * 1.5e9)


def test_a_clock_that_no_peak_can_follow_is_an_error():
    with pytest.raises(HardwareError, match=r"the peak tensor\.bf16 of NVIDIA L40S goes with no known clock; give"):
        chip("l40s", tensor={"clock": "2.2 GHz"})


def test_a_clock_gives_the_peaks_a_source_counts_per_clock():
    machine = chip("spr", amx={"clock": "2 GHz"})
    assert peak(machine, "amx", "bf16").value == 56 * 1024 * 2e9
    assert peak(machine, "amx", "int8").value == 56 * 2048 * 2e9
    assert peak(machine, "amx", "bf16").basis == "derived"
    assert machine.given == ("amx.clock",)


def test_a_doubled_figure_is_kept_and_noted():
    note = "given tensor.bf16 is exactly twice the catalog's figure: a sparse (or duplex) figure?"
    machine = chip("h100", bf16="1979 TFLOPS")
    assert note in machine.warnings
    assert peak(machine, "tensor", "bf16").value == 1979e12
    assert any("hbm.bandwidth is exactly twice" in n for n in chip("v5e", hbm=1.638e12).warnings)
    assert any("nvlink.bandwidth is exactly twice" in n for n in chip("h100", nvlink="900 GB/s").warnings)
    assert not any("twice" in n for n in chip("h100", bf16=1.9e15).warnings)


def test_a_figure_without_its_unit_is_doubted():
    said = "given hbm.bandwidth is below a thousandth of the catalog's figure: is its unit missing?"
    assert override(chip("v5e"), {"hbm": 819}).warnings[-1] == said
    assert said not in override(chip("v5e"), {"hbm": "1 GB/s"}).warnings


def test_the_last_of_two_wins_and_is_listed_once():
    machine = override(chip("v5e"), {"hbm": 1e12, "memory": 2e12})
    assert machine.memories[0].bandwidth.value == 2e12
    assert machine.given == ("hbm.bandwidth",)


@pytest.mark.parametrize(
    ("target", "key", "message"),
    [
        ("h100", "hmb", "NVIDIA H100 SXM5 80GB has no figure 'hmb'; did you mean 'hbm'?"),
        ("h100", "tensro.bf16", "NVIDIA H100 SXM5 80GB has no figure 'tensro.bf16'; did you mean 'tensor.bf16'?"),
        ("h100", "nvlnk", "NVIDIA H100 SXM5 80GB has no figure 'nvlnk'; did you mean 'nvlink'?"),
        ("v5e", "nvlink", "TPU v5e has no figure 'nvlink'; did you mean 'link'?"),
        ("v5e", "mxu.bf61", "mxu has no figure 'bf61'; did you mean 'bf16'?"),
        ("v5e", "hbm.bandwith", "hbm has no figure 'bandwith'; did you mean 'bandwidth'?"),
        ("v5e", "ici.latncy", "ici has no figure 'latncy'; did you mean 'latency'?"),
        (
            "spr",
            "amx",
            "amx of Intel Xeon Sapphire Rapids (56 cores, such as 8480+) lists no dtype; say which: amx.bf16",
        ),
    ],
)
def test_unknown_figures(target, key, message):
    with pytest.raises(HardwareError) as caught:
        override(chip(target), {key: 1e12})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "hbm",
            "80 GB",
            "hbm: '80 GB' is an amount of bytes; expected a bandwidth in bytes per second, such as '3.35 TB/s'",
        ),
        ("bf16", "3 TB/s", "bf16: '3 TB/s' is a bandwidth in bytes per second; expected a rate of arithmetic"),
        ("hbm", 0, "hbm: 0 is zero; expected a bandwidth in bytes per second above 0"),
        ("hbm", math.nan, "hbm: nan is not finite"),
        ("hbm", None, "hbm: None is not a figure"),
        ("hbm.achievable", 1.5, "hbm.achievable: 1.5 is above 1; a fraction is above 0 and at most 1"),
    ],
)
def test_bad_values_name_the_figure(key, value, message):
    with pytest.raises(QuantityError) as caught:
        override(chip("h100"), {key: value})
    assert str(caught.value).startswith(message)


def test_a_main_memory_that_is_missing_goes_outermost():
    bare = Machine("bare", "Bare", (), (Memory("l2", Figure(1e13)), Memory("pcie", Figure(1e10), link=True)))
    assert rate(override(bare, {"hbm": 1e12}), Key("bytes", "main")).resource == "hbm"
    assert override(bare, {"memory": 2e13}).given == ("l2.bandwidth",)
    assert override(Machine("none", "None", (), ()), {"memory": 1e12}).given == ("hbm.bandwidth",)


def test_what_can_be_set_can_be_set():
    for name in names():
        machine = chip(name)
        for key in settable_figures(machine):
            if key == "peak" and not any(u.peaks for u in machine.units[:1]):
                continue
            if key in {u.name for u in machine.units if not u.peaks} | {"matrix", "vector"}:
                continue
            value = "1 GB" if key.endswith("capacity") else 123.0
            assert override(machine, {key: value}).given, (name, key)


def test_an_override_takes_effect_in_the_rate():
    for name in names():
        machine = chip(name)
        for unit in machine.units:
            for dtype in unit.peaks:
                changed = override(machine, {f"{unit.name}.{dtype}": 42.0})
                assert rate(changed, Key("flops", unit.name, dtype)).value == 42.0
        assert rate(override(machine, {"memory": 42.0}), Key("bytes", "main")).value == 42.0


def test_the_capacity_follows_that_of_one_core():
    machine = chip("h100", smem={"per_core": "100 KiB"})
    assert find_level(machine, "smem").capacity.value == 132 * 100 * 1024


def test_every_figure_that_is_set_is_said_with_its_value():
    machine = chip("h100", tensor={"clock": "1.5 GHz"}, hbm={"capacity": "96 GB", "achievable": 0.9}, tdp=350)
    machine = override(machine, {"nvlink": 4e11, "nvlink.latency": "1 us", "fp8": "2 PFLOPS"})
    assert [line.removeprefix("given by the caller: ") for line in describe_given(machine)] == [
        "tensor.clock at 1.5 GHz",
        "hbm.capacity at 96 GB",
        "hbm.achievable at 0.9, which only counts with achievable",
        "tdp at 350 W",
        "nvlink at 400 GB/s",
        "nvlink.latency at 1 µs",
        "fp8 on tensor at 2 PFLOP/s",
    ]


def test_the_catalog_is_not_changed_by_an_override():
    before = chip("h100").memories[0].bandwidth.value
    chip("h100", hbm=1.0)
    assert chip("h100").memories[0].bandwidth.value == before


@pytest.mark.fuzz
@given(st.text(max_size=12), st.text(max_size=8) | st.floats() | st.none() | st.integers())
def test_any_override_works_or_says_why_not(key, value):
    try:
        said = override(chip("h100"), {key: value}).given
    except InputError as error:
        said = str(error)
    assert said


def test_a_fraction_that_is_reached_can_be_given():
    """The chapter's footnote: 80 to 85 % on an H100, 95 % on a TPU."""
    given = {"tensor.achievable.bf16": 0.85}
    assert bound(flops=1e12, on="h100", set=given, achievable=True).attainable == pytest.approx(0.85 * 989.4e12)
    assert bound(flops=1e12, on="v6e", set={"mxu.achievable": "0.95"}, achievable=True).attainable == 0.95 * 918e12
    idle = bound(flops=1e12, on="h100", set=given)
    assert idle.attainable == pytest.approx(989.4e12)
    assert "given by the caller: tensor.achievable.bf16 at 0.85, which only counts with achievable" in idle.assumptions
    with pytest.raises(QuantityError, match="is above 1"):
        chip("h100", **{"tensor.achievable.bf16": 1.2})


def test_memory_is_its_capacity_or_its_bandwidth_as_the_unit_says() -> None:
    h100 = chip("h100")
    assert override(h100, {"memory": "192 GB"}).given == ("hbm.capacity",)
    assert override(h100, {"memory": "6 TB/s"}).given == ("hbm.bandwidth",)
    assert override(h100, {"memory": "2x hbm"}).figure("hbm").value == 2 * h100.figure("hbm").value
    for value in (192e9, "192e9", 80 * 10**9):
        with pytest.raises(HardwareError, match="may be its capacity or its bandwidth; say which: capacity=192e9"):
            override(h100, {"memory": value})


def test_a_figure_may_be_said_by_what_it_is() -> None:
    h100 = chip("h100")
    hbm, peak = h100.figure("hbm").value, h100.figure("bf16").value
    for text, times in {"+20%": 1.2, "-10 %": 0.9, "1.5x": 1.5, "1.5×": 1.5, "80%": 0.8}.items():
        changed = override(h100, {"hbm": text, "bf16": text, "nvlink.latency": text})
        assert changed.figure("hbm").value == pytest.approx(times * hbm)
        assert changed.figure("bf16").value == pytest.approx(times * peak)
        assert changed.links[0].latency.value == pytest.approx(times * h100.links[0].latency.value)
    more = override(h100, {"hbm": "+100 GB/s", "nvlink.latency": "-0.1 us", "tdp": "+50W", "nvlink.duplex": "+20GB/s"})
    assert more.figure("hbm").value == hbm + 100e9
    assert more.links[0].latency.value == pytest.approx(0.5e-6)
    assert (more.figure("tdp").value, more.links[0].bandwidth.value) == (750, 460e9)
    doubled = override(h100, {"peak": "2x", "capacity": "2x"})
    assert all(doubled.units[0].peaks[name].value == 2 * h100.units[0].peaks[name].value for name in ("bf16", "fp8"))
    assert doubled.warnings == h100.warnings  # twice was said, and is no slip
    for text in ("-100%", "-150%", "0x", "0%", "-4 TB/s"):
        with pytest.raises(QuantityError, match="leaves nothing of it"):
            override(h100, {"hbm": text})
    for text in ("1.2.3x", "+%"):
        with pytest.raises((QuantityError, HardwareError)):
            override(h100, {"hbm": text})
    with pytest.raises(HardwareError, match="no figure"):
        override(chip("v5e"), {"nic": "1.2x"})
    reached = override(h100, {"tensor.achievable.bf16": "80%"})
    assert reached.units[0].achievable["bf16"].value == 0.8


def test_what_can_be_set_names_the_latency_of_each_link_and_nothing_twice() -> None:
    names = settable_figures(chip("h100:16"))
    assert {"nvlink.latency", "nic.latency"} <= {*names}
    assert len(names) == len({*names})


def test_a_capacity_is_led_to_its_name_and_an_absent_level_is_unknown() -> None:
    with pytest.raises(
        QuantityError, match=r"smem: '100 MB' is an amount of bytes; .* TB/s'; a capacity is set as smem\.capacity"
    ):
        chip("h100", smem="100 MB")
    for value in ("100 MB", "2x"):
        with pytest.raises(
            HardwareError, match=r"has no figure 'sram'; .* on the chip are: l2\.capacity, smem\.capacity$"
        ):
            chip("h100", sram=value)
    assert chip("h100", sram="30 TB/s").given == ("sram.bandwidth",)


def test_a_capacity_that_no_floor_depends_on_is_said_to_enter_none() -> None:
    larger = chip("h100", **{"l2.capacity": "2x", "hbm.capacity": "90 GB"})  # type: ignore[arg-type]
    line = "bf16[4096, 4096] * bf16[4096, 4096]"
    usual, warm = (bound(line, on=larger, over=over) for over in (None, "warm"))
    given = [[text for text in each.assumptions if text.startswith("given")] for each in (usual, warm)]
    assert given[0] == [
        "given by the caller: l2.capacity at 105 MB, which enters no floor here",
        "given by the caller: hbm.capacity at 90 GB",
    ]
    assert given[1][0] == "given by the caller: l2.capacity at 105 MB"
    assert usual.lower == bound(line, on="h100").lower


def test_the_bandwidth_of_a_memory_on_the_chip_is_said_to_enter_no_floor_and_to_leave_its_capacity() -> None:
    line = "bf16[4096, 4096] * bf16[4096, 4096]"
    found = bound(line, on=chip("h100", smem="2x"))
    assert found.assumptions[-1] == (
        "given by the caller: smem.bandwidth at 66.9 TB/s, which enters no floor here; its capacity stays 30.8 MB, "
        "which smem.capacity sets"
    )
    for policy in ("each-op", "fused", "minimal", "streamed"):
        times = {bound(line, on=chip("h100", smem=each), policy=policy).upper for each in ("1x", "100x", "1%")}
        assert len(times) == 1
    both = chip("h100", set={"smem": "2x", "smem.capacity": "2x"})
    assert both.given == ("smem.bandwidth", "smem.capacity")
    assert bound(line, on=both).assumptions[-2].endswith("66.9 TB/s, which enters no floor here")
