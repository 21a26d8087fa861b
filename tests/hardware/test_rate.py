"""Which unit and level an amount runs on, at which rate, and what is said about it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import dtypes
from roofline.errors import HardwareError
from roofline.hardware import chip, chips, with_choices
from roofline.hardware.machine import Figure, Machine, Memory
from roofline.hardware.rate import choose_unit, find_link, level, main_level, rate, ridge, unit_for
from roofline.work import Key

ALL = chips()


def flops(machine, dtype, place="matrix"):
    return rate(machine, Key("flops", place, dtype))


MATRIX = [
    ("h100", "bf16", "tensor", "bf16", 989.4e12, ""),
    ("h100", "fp8", "tensor", "fp8", 1978.9e12, ""),
    ("h100", "fp8_e5m2", "tensor", "fp8", 1978.9e12, ""),
    (
        "h100",
        "fp32",
        "cuda",
        "fp32",
        66.9e12,
        "no fp32 peak on tensor: runs on cuda; rounded to tf32 products run on tensor at 495 TFLOP/s "
        "(set tensor.fp32=495TFLOP/s); code that takes 6 passes of bf16 on tensor reaches 165 TFLOP/s",
    ),
    ("h100", "tf32", "tensor", "tf32", 494.7e12, ""),
    (
        "h100",
        "int4",
        "tensor",
        "int8",
        1978.9e12,
        "no int4 peak on NVIDIA H100 SXM5 80GB: matrix products run as int8 on tensor",
    ),
    (
        "h100",
        "fp4",
        "tensor",
        "fp8",
        1978.9e12,
        "no fp4 peak on NVIDIA H100 SXM5 80GB: matrix products run as fp8 on tensor",
    ),
    (
        "a100",
        "fp8",
        "tensor",
        "bf16",
        312e12,
        "no fp8 peak on NVIDIA A100 SXM4 80GB: matrix products run as bf16 on tensor",
    ),
    (
        "v100",
        "bf16",
        "cuda",
        "fp32",
        15.7e12,
        "no bf16 peak on NVIDIA V100 SXM2 16/32GB: matrix products run as fp32 on cuda",
    ),
    ("v100", "fp16", "tensor", "fp16", 125e12, ""),
    ("v5e", "bf16", "mxu", "bf16", 197e12, ""),
    (
        "v5e",
        "fp32",
        "vpu",
        "fp32",
        6.144e12,
        "no fp32 peak on mxu: runs on vpu; code that takes 6 passes of bf16 on mxu reaches 32.8 TFLOP/s",
    ),
    (
        "gtx-1080-ti",
        "fp32",
        "cuda",
        "fp32",
        11.3e12,
        "fp32 on cuda: cards above the data sheet's clock reached 11.7 TFLOP/s",
    ),
    (
        "gtx-1080-ti",
        "bf16",
        "cuda",
        "fp32",
        11.3e12,
        "no bf16 peak on NVIDIA GTX 1080 Ti: matrix products run as fp32 on cuda; "
        "fp32 on cuda: cards above the data sheet's clock reached 11.7 TFLOP/s",
    ),
    (
        "rtx-4090",
        "fp16",
        "tensor",
        "fp16",
        165.2e12,
        "fp16 on tensor accumulates in fp32; fp16_acc16 has 330 TFLOP/s; "
        "fp16 on tensor: cards above the data sheet's clock reached 172 TFLOP/s",
    ),
    ("rtx-4080", "bf16", "tensor", "bf16", 97.48e12, ""),
    ("rtx-4080", "fp8", "tensor", "fp8", 194.95e12, "fp8 on tensor accumulates in fp32; fp8_acc16 has 390 TFLOP/s"),
    ("rtx-4090", "fp16_acc16", "tensor", "fp16_acc16", 330.3e12, ""),
    (
        "v100",
        "fp16_acc16",
        "tensor",
        "fp16",
        125e12,
        "no fp16_acc16 peak on NVIDIA V100 SXM2 16/32GB: matrix products run as fp16 on tensor",
    ),
    ("m4-max", "fp16", "gpu", "fp16", 18.4e12, ""),
    ("b200", "nvfp4", "tensor", "fp4", 9000e12, ""),
    ("b200", "nf4", "tensor", "bf16", 2250e12, "no nf4 peak on NVIDIA B200 SXM: matrix products run as bf16 on tensor"),
    (
        "b300",
        "int8",
        "tensor",
        "int8",
        153.5e12,
        "code that converts int8 to fp16, whose sums in fp32 are exact to 2^24, reaches 2.25 PFLOP/s on tensor",
    ),
    ("trn3", "mxfp8", "tensor", "fp8", 2517e12, ""),
    (
        "mi355x",
        "fp32",
        "vector",
        "fp32",
        157.3e12,
        "no fp32 peak on matrix: runs on vector; code that takes 6 passes of bf16 on matrix reaches 419 TFLOP/s",
    ),
    ("h20", "bf16", "tensor", "bf16", 148e12, ""),
    ("h800", "fp8", "tensor", "fp8", 1979e12, ""),
    ("l4", "fp16", "tensor", "fp16", 121.15968e12, ""),
    ("b60", "fp16", "xmx", "fp16", 98.304e12, ""),
    (
        "a100-pcie",
        "fp32",
        "cuda",
        "fp32",
        19.5e12,
        "no fp32 peak on tensor: runs on cuda; rounded to tf32 products run on tensor at 156 TFLOP/s "
        "(set tensor.fp32=156TFLOP/s); code that takes 6 passes of bf16 on tensor reaches 52 TFLOP/s",
    ),
]


@pytest.mark.parametrize(("target", "dtype", "unit", "runs_as", "value", "note"), MATRIX)
def test_matmuls(target, dtype, unit, runs_as, value, note):
    found = flops(chip(target), dtype)
    assert (found.resource, found.dtype, found.note) == (unit, runs_as, note)
    assert found.value == pytest.approx(value, rel=1e-4)


def test_a_given_peak_or_clock_is_the_card_s_own():
    assert "clock" in flops(chip("rtx-5090"), "bf16").note
    assert "clock" in flops(chip("rtx-5090", fp16="250 TFLOP/s"), "bf16").note
    assert flops(chip("rtx-5090", bf16="200 TFLOP/s"), "bf16").note == ""
    faster = flops(chip("rtx-5090", tensor={"clock": "2.85 GHz"}), "bf16")
    assert faster.note == ""
    assert faster.value == pytest.approx(170 * 512 * 2.85e9)


def test_a_choice_of_unit_holds_where_a_unit_is_called_by_its_kind():
    chosen = flops(chip("mi300x", unit="vector"), "fp64")
    assert (chosen.resource, chosen.value) == ("vector", 81.7e12)


VECTOR = [
    ("h100", "bf16", "cuda", "bf16", 133.8e12, ""),
    ("v5e", "bf16", "vpu", "fp32", 6.144e12, "no bf16 peak on vpu of TPU v5e: elementwise work runs as fp32 there"),
    ("v5e", "int8", "vpu", "fp32", 6.144e12, "no int8 peak on vpu of TPU v5e: elementwise work runs as fp32 there"),
    ("a100", "fp64", "cuda", "fp64", 9.74592e12, ""),
    ("l4", "int32", "cuda", "fp32", 30.3e12, "no int32 peak on cuda of NVIDIA L4: elementwise work is timed as fp32 "
     "there, which integers are no faster than"),
    ("h100", "uint64", "cuda", "fp32", 66.9e12, "no int64 peak on cuda of NVIDIA H100 SXM5 80GB: elementwise work is "
     "timed as fp32 there, which integers are no faster than"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "dtype", "unit", "runs_as", "value", "note"), VECTOR)
def test_elementwise(target, dtype, unit, runs_as, value, note):
    found = flops(chip(target), dtype, "vector")
    assert (found.resource, found.dtype, found.value, found.note) == (unit, runs_as, value, note)


@pytest.mark.parametrize(
    ("target", "place", "dtype"),
    [
        ("v4", "vector", "fp32"),  # no vector unit listed
        ("v5e", "matrix", "fp64"),  # nothing that wide
        ("xeon-max", "matrix", "bf16"),  # no unit at all
        ("spr", "matrix", "bf16"),  # a unit without a peak
        ("h100", "matrix", "nonsense"),
        ("h100", "matrix", ""),
        ("h100", "matrix", "int64"),
    ],
)
def test_untimed_arithmetic(target, place, dtype):
    assert flops(chip(target), dtype, place) is None


def test_vector_work_that_does_not_go_to_the_chosen_unit_says_so():
    chosen = with_choices(chip("h100"), unit="tensor")
    found = rate(chosen, Key("flops", "vector", "fp32"))
    assert (found.resource, found.note) == ("cuda", "elementwise work and dot products stay on cuda")
    assert rate(with_choices(chip("v5e"), unit="mxu"), Key("flops", "vector", "bf16")).note == (
        "elementwise work and dot products stay on vpu; "
        "no bf16 peak on vpu of TPU v5e: elementwise work runs as fp32 there"
    )
    assert rate(with_choices(chip("h100"), unit="vector"), Key("flops", "vector", "fp32")).note == ""


def test_a_chosen_unit_takes_matmuls_but_no_matrix_unit_takes_vector_work():
    vector = with_choices(chip("h100"), unit="vector")
    assert flops(vector, "bf16").resource == "cuda"
    assert flops(with_choices(chip("h100"), unit="cuda"), "fp8").dtype == "bf16"
    tensor = with_choices(chip("h100"), unit="tensor")
    assert flops(tensor, "bf16").resource == "tensor"
    assert flops(tensor, "fp32").dtype == "fp64"
    assert flops(tensor, "bf16", "vector").resource == "cuda"
    assert with_choices(tensor, unit="auto").unit is None


def test_memory():
    h100 = chip("h100")
    assert rate(h100, Key("bytes", "main")).resource == "hbm"
    assert rate(h100, Key("bytes", "l2")).value == 8.9856e12
    assert rate(h100, Key("bytes", "pcie")).value == 64e9
    assert rate(h100, Key("bytes", "host")).resource == "pcie"
    assert rate(chip("gtx-1080-ti"), Key("bytes", "hbm")).resource == "dram"
    assert rate(h100, Key("bytes", "vmem")) is None
    assert rate(chip("t4"), Key("bytes", "l2")) is None
    unknown = replace(h100, memories=tuple(memory._replace(bandwidth=None) for memory in h100.memories))
    assert rate(unknown, Key("bytes", "main")) is None


def test_over_moves_main_only():
    vmem = with_choices(chip("v5e"), over="vmem")
    assert rate(vmem, Key("bytes", "main")).resource == "vmem"
    assert rate(vmem, Key("bytes", "hbm")).resource == "hbm"
    assert with_choices(vmem, over="main").over is None
    assert with_choices(chip("gtx-1080-ti"), over="hbm").over == "dram"


def test_links():
    v5e = chip("v5e")
    assert rate(v5e, Key("wire", "ici")).value == 45e9
    assert rate(v5e, Key("wire", "link")).resource == "ici"
    assert rate(v5e, Key("hops", "link")).value == pytest.approx(1e6)
    assert rate(v5e, Key("hops", "link")).resource == "ici latency"
    assert rate(v5e, Key("wire", "nvlink")) is None
    assert rate(chip("mi300x"), Key("hops", "xgmi")) is None
    assert rate(chip("m1"), Key("wire", "link")) is None
    assert rate(v5e, Key("joules", "main")) is None


def test_measured_fractions_apply_only_when_asked_for():
    asked = chip("h100", achievable=True)
    found = flops(asked, "bf16")
    assert found.value == pytest.approx(989.4e12 * 0.803)
    assert found.note == "bf16 on tensor: 0.803 of the data-sheet figure, as measured"
    assert found.figure.value == 989.4e12
    assert flops(asked, "tf32").value == 494.7e12
    assert flops(asked, "tf32").note == "no measured fraction for tf32 on tensor: the data-sheet figure stands"
    given = chip("h100", achievable=True, bf16=1e15, tf32=5e14)
    assert flops(given, "bf16").note == "bf16 on tensor: 0.803 of the given figure, as measured"
    assert flops(given, "tf32").note == "no measured fraction for tf32 on tensor: the given figure stands"
    assert rate(chip("h800", achievable=True), Key("bytes", "main")).value == pytest.approx(3e12, rel=1e-3)
    assert flops(chip("h100"), "bf16").note == ""


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"unit": "mxuu"}, "TPU v5e has no unit 'mxuu'; did you mean 'mxu'?"),
        ({"unit": "quantum"}, "TPU v5e has no unit 'quantum'; its units are: mxu, vpu, matrix, vector"),
        ({"over": "vmen"}, "TPU v5e has no memory level 'vmen'; did you mean 'vmem'?"),
        ({"over": "xyz"}, "TPU v5e has no memory level 'xyz'; its levels are: hbm, vmem, pcie"),
    ],
)
def test_unknown_choices_list_this_chips(choice, message):
    with pytest.raises(HardwareError) as caught:
        chip("v5e", **choice)
    assert str(caught.value) == message


def test_a_level_without_bandwidth_is_an_error_when_asked_for():
    with pytest.raises(HardwareError, match=r"no bandwidth is known for l2 of NVIDIA T4; give one: l2='… B/s'"):
        chip("t4", over="l2")
    assert chip("t4", over="l2", l2="1.2 TB/s").over == "l2"


def test_a_machine_without_memory_says_so():
    bare = Machine("bare", "Bare", (), (Memory("pcie", Figure(1e9), link=True),))
    with pytest.raises(HardwareError, match=r"Bare lists no memory of its own; give one: hbm='… B/s'"):
        main_level(bare)
    assert rate(bare, Key("bytes", "main")) is None


def test_ridge_is_peak_over_bandwidth():
    assert ridge(chip("v5e", vmem="1.78e13"), "bf16", level="vmem") == pytest.approx(197e12 / 1.78e13)
    assert ridge(chip("v5e"), "bf16", level="l2") is None
    assert ridge(chip("v5e"), "fp64") is None


@given(st.sampled_from(ALL), st.sampled_from(sorted(dtypes.DTYPES)), st.sampled_from(["matrix", "vector"]))
def test_a_rate_is_one_of_the_chips_own_figures_and_never_of_a_narrower_dtype(machine, dtype, place):
    found = flops(machine, dtype, place)
    if found is None:
        return
    unit = next(u for u in machine.units if u.name == found.resource)
    assert unit.peaks[found.dtype].value == found.value
    assert unit_for(machine, place, dtype) is unit
    allowed = {dtypes.arithmetic_name(dtype)} | {name for group in dtypes.wider(dtype) for name in group}
    assert found.dtype in allowed | ({"fp32"} if dtypes.get(dtype).family == "int" else set())
    if place == "vector":
        assert unit.kind == "vector"


@given(st.sampled_from(ALL), st.sampled_from(sorted(dtypes.DTYPES)), st.floats(1.0, 10.0))
def test_a_higher_peak_is_never_slower(machine, dtype, factor):
    from roofline.hardware import override

    before = flops(machine, dtype)
    if before is not None:
        more = override(machine, {f"{before.resource}.{before.dtype}": before.value * factor})
        assert flops(more, dtype).value >= before.value


def test_levels_are_found_by_name():
    assert level(chip("mi300x"), "l3").name == "llc"
    assert level(chip("mi300x"), "lds").name == "smem"
    assert find_link(chip("h100"), "link").name == "nvlink"


def test_floats_run_in_a_wider_format_that_is_faster():
    for name in ("gtx-1080-ti", "p40", "p4"):
        for place in ("matrix", "vector"):
            for dtype in ("fp16", "fp8", "fp32"):
                assert choose_unit(chip(name), place, dtype).dtype == "fp32"
    assert choose_unit(chip("p40"), "matrix", "int8").dtype == "int8"
    assert choose_unit(chip("p40"), "matrix", "fp8").note == (
        "no fp8 peak on NVIDIA P40, and fp16 on cuda has 184 GFLOP/s: matrix products run as fp32 on cuda"
    )
    assert choose_unit(chip("p40", fp16=1e12), "matrix", "fp16").dtype == "fp16"  # the caller's own figure
    for name in ("p100", "h100", "t4", "mi300x"):
        assert choose_unit(chip(name), "matrix", "fp16").dtype == "fp16"


@pytest.mark.parametrize(("name", "first"), [("fp12", ("fp16", "bf16")), ("int3", ("int4",)), ("int5", ("int8",))])
def test_an_arithmetic_that_no_unit_has_runs_as_the_next_wider_one(monkeypatch, name, first):
    if name not in dtypes.DTYPES:
        monkeypatch.setitem(dtypes.DTYPES, name, dtypes.DType(name, 12, "float", name))
    assert dtypes.wider.__wrapped__(name)[0] == first
    assert dtypes.wider.__wrapped__(name)[-1] == ("fp64",)
