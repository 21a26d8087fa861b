"""Importers on small files made here: what they read, and how they refuse."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.cli import main
from roofline.errors import InputError
from roofline.measurement import points_of, profile, read_profile
from roofline.measurement.points import time_by_operation
from roofline.measurement.profiles import TIME, ProfiledCall, price_profiled_call
from roofline.measurement.runs import AROUND
from roofline.programs.pytorch.profiled_results import known_operations


def call(name, ts, dur, dims, kinds=None, values=(), **more):
    told = {"Input Dims": dims, "Input type": kinds or ["float"] * len(dims), "Concrete Inputs": list(values), **more}
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1, "args": told}


LINEAR = [
    call("aten::linear", 0, 1000, [[256, 1024], [4096, 1024], [4096]], **{"External id": 1}),
    call("aten::t", 10, 5, [[4096, 1024]]),
    call("aten::addmm", 20, 970, [[4096], [256, 1024], [1024, 4096]], **{"External id": 2}),
    call("aten::softmax", 2000, 300, [[256, 1024], [], []], ["float", "Scalar", ""], ["", "-1", ""]),
    call("aten::cumsum", 3000, 50, [[256, 1024], []], ["float", "Scalar"]),
    call("aten::view", 4000, 2, [[256, 1024], []], ["float", ""]),
]


def written(folder, content, name="trace.json"):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_the_outermost_operation_with_a_rule_counts_once(tmp_path):
    found = read_profile(written(tmp_path, {"traceEvents": LINEAR}))
    assert [run.name for run in found.runs] == ["linear 256x1024 4096x1024", "softmax 256x1024"]
    linear, softmax = found.runs
    assert linear.flops == 2 * 256 * 1024 * 4096 + 256 * 4096
    assert linear.bytes == 4 * (256 * 1024 + 4096 * 1024 + 4096 + 256 * 4096)
    assert (linear.seconds, linear.dtype) == (1e-3, "fp32")
    assert softmax.flops == 5 * 256 * 1024
    assert found.unpriced == {"aten::cumsum": pytest.approx(50e-6), AROUND: pytest.approx(2e-6)}


def test_equal_calls_stand_in_one_row_with_their_number_and_their_time_in_all(tmp_path, capsys):
    layers = [call("aten::mm", 1000 * n, 90 + n, [[64, 512], [512, 512]]) for n in range(32)]
    head = call("aten::mm", 50_000, 1500, [[64, 512], [512, 4096]])
    path = written(tmp_path, {"traceEvents": [*layers, head]})
    found = profile(path, on="spr")
    assert [(point.run.calls, point.run.in_all) for point in found] == [
        (32, pytest.approx(sum(90 + n for n in range(32)) * 1e-6)), (1, pytest.approx(1500e-6)),
    ]  # fmt: skip
    (layer, _) = found
    assert layer.run.seconds == pytest.approx(layer.run.in_all / 32)
    assert layer.lost == pytest.approx(32 * (layer.run.seconds - float(layer.bound.lower)))
    assert sum(seconds for _, seconds, _ in time_by_operation(point.run for point in found)) == pytest.approx(4.876e-3)
    assert main(["profile", str(path), "--on", "spr", "--top", "1", "--csv", str(tmp_path / "runs.csv")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "operation calls in all time at best" in shown
    assert "mm 64x512 512x512 32 3.38 ms 105 µs" in shown
    assert "1 shorter run is not shown" in shown
    assert len((tmp_path / "runs.csv").read_text().splitlines()) == 1 + 33  # each call by itself


def test_times_of_a_cpu_are_not_judged_under_the_roof_of_another_chip(tmp_path):
    path = written(tmp_path, {"traceEvents": LINEAR})
    found = profile(path, on="h100", estimate=True)
    assert found.profile is not None
    assert found.profile.of_cpu
    assert [point.expected for point in found] == [None, None]
    said = " ".join(str(found).split())
    assert "times of a CPU's operations and no kernels of a device" in said
    assert not any(word in said for word in ("than its kind", "most to gain", "did they run on this machine"))
    for own in ("spr", "docs/examples/measured.toml#this"):
        assert "times of a CPU's operations and no" not in " ".join(str(profile(path, on=own)).split())
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 5000, "dur": 7, "args": {"External id": 2}}
    on_device = profile(written(tmp_path, {"traceEvents": [*LINEAR, kernel]}), on="h100", estimate=True)
    assert "a CPU's operations" not in str(on_device)


def test_why_nothing_is_expected_is_told_apart():
    rows = [
        {"m": 4096, "n": 4096, "k": 4096, "dtype": "bf16", "us": 300},
        {"name": "mine", "dtype": "bf16", "flops": 1e9, "bytes": 1e6, "seconds": 1e-3},
        {"name": "mine too", "dtype": "bf16", "flops": 2e9, "bytes": 1e6, "seconds": 1e-3},
    ]
    one, *rest = rows
    said = "nothing is expected of these runs: their shapes are not known (2)"
    found = profile(rest, on="h100", estimate=True)
    assert said in " ".join(str(found).split())
    assert found.to_dict()["not_expected"] == said
    assert "constants of vllm for their kernels are not known (1)" in " ".join(
        str(profile([one], on="spr", estimate=True)).split()
    )
    known = profile([one], on="h100", estimate=True)
    assert "nothing is expected" not in str(known)
    assert known.to_dict()["not_expected"] is None


def test_on_an_accelerator_the_kernels_count(tmp_path):
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 5000, "dur": 7, "args": {"External id": 2}}
    found = read_profile(written(tmp_path, {"traceEvents": [*LINEAR, kernel, {**kernel, "dur": 3}]}))
    assert [(run.name, run.seconds) for run in found.runs] == [("linear 256x1024 4096x1024", pytest.approx(10e-6))]


def test_a_real_trace_says_what_its_profiler_says(tmp_path):
    """The same seconds as its own account of the same calls, and priced by our own rules."""
    torch = pytest.importorskip("torch")
    a, b = torch.rand(512, 768), torch.rand(768, 1024)
    linear, heads = torch.nn.Linear(768, 1024), torch.rand(4, 8, 128, 64)
    with torch.no_grad(), torch.profiler.profile(record_shapes=True) as profiler:
        for call in (lambda: a @ b, lambda: linear(a), lambda: torch.bmm(heads[0], heads[0].transpose(1, 2))) * 4:
            call()
        torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        torch.softmax(a, -1)
    profiler.export_chrome_trace(str(tmp_path / "real.json"))
    found = read_profile(tmp_path / "real.json")
    names = [run.name.split()[0] for run in found.runs]
    assert names == ["matmul", "linear", "bmm"] * 4 + ["scaled_dot_product_attention", "softmax"]
    outermost = [event for event in profiler.events() if event.cpu_parent is None]
    told = [event.time_range.elapsed_us() for event in outermost if event.name.removeprefix("aten::") in names]
    assert [run.seconds * 1e6 for run in found.runs] == pytest.approx(told, abs=0.01)
    product, bias = 2 * 512 * 768 * 1024, 512 * 1024
    assert [run.flops for run in found.runs[:3]] == [product, product + bias, 2 * 8 * 128 * 128 * 64]
    assert found.runs[12].flops > 4 * 4 * 8 * 64 * 128 * 129 / 2
    assert found.runs[0].bytes == 4 * (512 * 768 + 768 * 1024 + 512 * 1024)


def test_a_packed_trace_and_a_bare_list_are_read(tmp_path):
    with gzip.open(tmp_path / "trace.json.gz", "wt", encoding="utf-8") as file:
        json.dump(LINEAR, file)
    assert len(read_profile(tmp_path / "trace.json.gz").runs) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps({"traceEvents": LINEAR})[:400], "is not valid JSON at line 1, column .*; is it cut short"),
        ({"traceEvents": []}, "holds no operations of PyTorch"),
        ({"events": []}, "holds no traceEvents"),
        ({"traceEvents": [{**LINEAR[0], "dur": -3}]}, "aten::linear took -3 us; a time is a number, and not below 0"),
        ({"traceEvents": [{**LINEAR[0], "args": {}}]}, "holds no shapes; profile with record_shapes=True"),
        ({"traceEvents": [LINEAR[4]]}, "holds no operation that has a rule; it holds: aten::cumsum"),
        ("", "is empty; give a trace of torch.profiler or a CSV file"),
    ],
)
def test_a_trace_that_does_not_serve_says_why(tmp_path, content, said):
    with pytest.raises(InputError, match=said):
        read_profile(written(tmp_path, content))


def test_a_packed_trace_cut_short_says_so(tmp_path):
    whole = gzip.compress(json.dumps({"traceEvents": LINEAR}).encode())
    (tmp_path / "trace.json.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cannot read|cut short"):
        read_profile(tmp_path / "trace.json.gz")


def test_broken_events_are_passed_over(tmp_path):
    odd = [None, 7, {"ph": "X"}, {**LINEAR[0], "dur": "x"}, {**LINEAR[0], "args": {"Input Dims": 3}, "ts": 9000}]
    assert len(read_profile(written(tmp_path, {"traceEvents": [*odd, *LINEAR]})).runs) == 2


@pytest.mark.parametrize(
    ("name", "dims", "values", "flops"),
    [
        ("aten::mm", [[3, 4], [4, 5]], (), 2 * 3 * 4 * 5),
        ("aten::bmm", [[7, 3, 4], [7, 4, 5]], (), 2 * 7 * 3 * 4 * 5),
        ("aten::addmm", [[5], [3, 4], [4, 5]], (), 2 * 3 * 4 * 5),
        ("aten::matmul", [[2, 3, 4], [4, 5]], (), 2 * 2 * 3 * 4 * 5),
        (
            "aten::conv2d", [[2, 3, 8, 8], [6, 3, 3, 3], [], [], [], [], []],
            ("", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"), 2 * 2 * 8 * 8 * 6 * 3 * 9,
        ),
        ("aten::scaled_dot_product_attention", [[1, 2, 5, 4]] * 3, ("", "", "", "", "0.", "False"), 4 * 2 * 5 * 5 * 4),
        ("aten::gelu", [[10, 10]], (), 5 * 100),
        ("aten::add_", [[10, 10], [10, 10]], (), 100),
        ("aten::layer_norm", [[4, 8], [], [8], [8]], (), 7 * 32 + 2 * 4),
    ],
)  # fmt: skip
def test_operations_are_priced_by_our_own_rules(name, dims, values, flops):
    op = price_profiled_call(ProfiledCall(name, dims, ["float"] * len(dims), values))
    matrix = op.work.total("flops", "matrix")
    assert (matrix or op.work.total("flops")) == flops


def test_an_operation_without_rule_or_shape_is_not_priced():
    assert price_profiled_call(ProfiledCall("aten::sort", [[5]], ["float"])) is None
    assert price_profiled_call(ProfiledCall("aten::mm", [[], []], ["float", "float"])) is None
    assert price_profiled_call(ProfiledCall("aten::mm", [[2, 3]], ["float"])) is None
    assert price_profiled_call(ProfiledCall("mine::mm", [[2, 3], [3, 2]], ["float", "float"])) is None
    real = ProfiledCall("aten::_fft_c2r", [[8, 9], [], [], []], ["float", "ScalarList", "Scalar", "Scalar"],
                        ["", "[1]", "0", "16"])  # fmt: skip
    assert price_profiled_call(real) is None
    assert "mm" in known_operations()


ADDS, FMAS = (f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum" for name in ("fadd", "ffma"))

WIDE = f"""==PROF== Connected
"ID","Kernel Name","{TIME}","dram__bytes.sum","{FMAS}","{ADDS}"
"","","ns","Mbyte","inst","inst"
"0","saxpy(float)","2,000","12.5","1,000,000","500"
"""

LONG = f"""ID,Kernel Name,Metric Name,Metric Unit,Metric Value
0,gemm,{TIME},us,10
0,gemm,dram__bytes_read.sum,Kbyte,100
0,gemm,dram__bytes_write.sum,Kbyte,50
0,gemm,sm__ops_path_tensor_src_bf16_dst_fp32.sum,,4e9
1,add,{TIME},us,5
1,add,dram__bytes.sum,Kbyte,7
"""


def test_a_wide_report_of_nsight(tmp_path):
    [run] = read_profile(written(tmp_path, WIDE, "k.csv")).runs
    assert run.name == "saxpy(float)"
    assert run.flops == 2 * 1_000_000 + 500
    assert (run.bytes, run.seconds, run.dtype) == (12.5e6, pytest.approx(2e-6), "fp32")


def test_a_long_report_of_nsight(tmp_path):
    gemm, add = read_profile(written(tmp_path, LONG, "k.csv")).runs
    assert (gemm.flops, gemm.bytes, gemm.seconds, gemm.dtype) == (4e9, 150e3, pytest.approx(10e-6), "bf16")
    assert (add.flops, add.bytes) == (0, 7e3)


TENSOR = "sm__ops_path_tensor_src_bf16_dst_fp32"
CUTLASS = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_64x4_nn_align8>(Params)"
AGAIN = f"""ID,Kernel Name,Metric Name,Metric Unit,Metric Value
0,"{CUTLASS}",{TIME},us,"1,234.5"
0,"{CUTLASS}",dram__bytes.sum,Mbyte,302.1
0,gemm,{TENSOR}.sum,,"137,438,953,472"
0,gemm,{TENSOR}_sparsity_off.sum,,"137,438,953,472"
0,gemm,{TENSOR}_sparsity_on.sum,,0
0,gemm,sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32_sparsity_off.sum,,"137,438,953,472"
0,gemm,sm__sass_thread_inst_executed_op_ffma_pred_on.sum,inst,"1,048,576"
0,gemm,smsp__sass_thread_inst_executed_op_ffma_pred_on.sum,inst,"1,048,576"
"""


def test_a_count_under_several_names_counts_once(tmp_path):
    """What ``regex:sm__ops_path_tensor_src_.*`` collects holds every count with, without and over sparsity."""
    [run] = read_profile(written(tmp_path, AGAIN, "k.csv")).runs
    assert run.flops == 2 * 4096**3 + 2 * 1048576
    assert (run.bytes, run.seconds, run.dtype) == (pytest.approx(302.1e6), pytest.approx(1234.5e-6), "bf16")
    both = AGAIN + '0,gemm,sm__ops_path_tensor_src_bf16.sum,,"137,438,953,472"\n'
    assert read_profile(written(tmp_path, both, "k.csv")).runs[0].flops == run.flops


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WIDE.replace(TIME, "sm__cycles"), f"the metric {TIME} is missing; collect it with: ncu"),
        (WIDE.replace("dram__bytes.sum", "x"), "the metric dram__bytes.sum is missing"),
        (WIDE.replace('"2,000"', '"0"'), "is 0; a time is above 0"),
        (WIDE.replace('"2,000"', '"-3"'), "is -3; a time is above 0"),
        (WIDE.replace('"2,000"', '"fast"'), "is 'fast', not a number"),
        (WIDE.replace('"ns"', '"weeks"'), "is in 'weeks'; units are"),
        (WIDE[:-20], "the report was cut short"),
        (WIDE.replace(',"ns"', "", 1), "the report was cut short"),
        (LONG.replace("Metric Unit", "Unit"), "column 'Metric Unit' is missing"),
        (WIDE.splitlines()[1] + "\n", "holds no kernels"),
    ],
)
def test_a_report_that_does_not_serve_says_why(tmp_path, text, said):
    with pytest.raises(InputError, match=said):
        read_profile(written(tmp_path, text, "k.csv"))


PLAIN = "name,dtype,flops,bytes,seconds\nup,bf16,1e12,2e9,1e-3\n"


def test_a_plain_file_always_works(tmp_path):
    [run] = read_profile(written(tmp_path, PLAIN, "runs.csv")).runs
    assert (run.name, run.dtype, run.flops, run.bytes, run.seconds) == ("up", "bf16", 1e12, 2e9, 1e-3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLAIN.replace(",seconds", "").replace(",1e-3", ""), "column seconds is missing"),
        (PLAIN.replace("seconds", "duration"), "unknown column 'duration'; the column is seconds"),
        (PLAIN.replace("flops", "GFLOPs"), "unknown column 'gflops'; the column is flops, with the unit beside each"),
        (PLAIN.replace("dtype", "dtyp"), "unknown column 'dtyp'; did you mean 'dtype'"),
        (PLAIN.replace("1e-3", "0"), "seconds '0' is zero; expected a time above 0"),
        (PLAIN.replace("1e-3", "-1"), "seconds '-1' is negative"),
        (PLAIN.replace("1e12", "nan"), "flops 'nan' is not finite"),
        (PLAIN.replace("bf16", "bf61"), "unknown dtype 'bf61'; did you mean 'bf16'"),
        (PLAIN.splitlines()[0], "has a header and no runs"),
    ],
)
def test_a_plain_file_that_does_not_serve_says_why(tmp_path, text, said):
    with pytest.raises(InputError, match=said):
        read_profile(written(tmp_path, text, "runs.csv"))


RATES = f"""ID,Kernel Name,{TIME},dram__bytes.sum.per_second,smsp__cycles_elapsed.avg.per_second,\
{ADDS}.per_cycle_elapsed,{FMAS}.per_cycle_elapsed
,,us,Gbyte/s,Ghz,inst/cycle,inst/cycle
0,sgemm,100,450.5,1.5,10,"4,000"
"""


@pytest.mark.parametrize(
    "text",
    [
        RATES,
        RATES.replace("Gbyte/s", "Gbyte/second").replace("Ghz", "cycle/nsecond").replace("us", "usecond"),
        RATES.replace(f"{FMAS}.per_cycle_elapsed", f"derived__{FMAS.removesuffix('.sum')}_x2").replace(
            "4,000", "8,000"
        ),
        RATES.replace("bytes.sum.per_second", "bytes.sum").replace("Gbyte/s", "Mbyte").replace("450.5", "45.05"),
    ],
)
def test_a_report_of_rates_alone_gives_amounts_as_rate_times_time(tmp_path, text):
    """As the roofline sections of Nsight Compute hold them: bytes a second, instructions a cycle, cycles a second."""
    found = read_profile(written(tmp_path, text, "k.csv"))
    [run] = found.runs
    assert run.bytes == pytest.approx(450.5e9 * 1e-4)
    assert (run.flops, run.dtype) == (pytest.approx((10 + 2 * 4000) * 1.5e9 * 1e-4), "fp32")
    assert "where the report holds rates alone, amounts are rate x time" in found.notes


def test_a_rate_a_cycle_needs_the_cycles_a_second(tmp_path):
    text = RATES.replace("smsp__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.max")
    found = read_profile(written(tmp_path, text, "k.csv"))
    assert found.runs[0].flops == 0
    assert "the report counts no FLOPs, so every run is under the roof of its bytes alone" in found.notes


ROWS = [
    {"m": 64, "n": 8192, "k": 8192, "seconds": 1.2e-4},
    {"M": 4096, "N": 4096, "K": 4096, "dtype": "fp16", "time (ms)": 0.62, "name": "square"},
    {"expression": "bf16[512, 4096] * bf16[4096, 4096]", "us": 110},
    {"batch": 8, "heads": 32, "kv_heads": 8, "head_dim": 128, "seq_len": 4096, "us": 180},
]


def test_rows_of_shapes_have_the_floor_and_expectation_of_their_expression() -> None:
    found = profile(ROWS, on="a100", estimate=True)
    lines = {
        "square": "fp16[4096, 4096] * fp16[4096, 4096]",
        **{point.run.name: point.run.name for point in found if "[" in point.run.name},
    }
    assert len(lines) == 4
    for point in found:
        alone = roofline.bound(lines[point.run.name], on="a100", estimate=True)
        assert float(point.bound.lower) == pytest.approx(alone.lower, rel=1e-12)
        assert point.bound.bound_by == alone.bound_by
        assert point.expected is not None
        assert point.expected.value == alone.expectation.value
    lost = [point.run.seconds - float(point.bound.lower) for point in found]
    assert lost == sorted(lost, reverse=True)
    frame = found.to_pandas()
    assert list(frame) == [
        *("name", "calls", "dtype", "flops", "bytes", "seconds", "lower", "lost", "fraction", "bound_by"),
        *("expected", "low", "high", "of_expected"),
    ]
    assert frame["lost"].tolist() == lost
    assert len(profile(ROWS, on="a100", top=2)) == 2


def test_rows_of_shapes_are_read_from_a_file_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs.csv"
    file.write_text("m;n;k;dtype;microseconds\n64;8192;8192;bf16;120\n4096;4096;4096;bf16;620\n")
    assert [point.run.seconds for point in profile(file, on="a100")] == pytest.approx([620e-6, 120e-6])
    assert main(["profile", str(file), "--on", "a100", "--top", "1"]) == 0
    assert "1 run that loses less is not shown (--top)" in capsys.readouterr().out
    assert len(points_of(ROWS, "a100")) == len(ROWS)
    assert "4 points" in repr(roofline.plot(on="a100", measured=ROWS))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"m": 1, "n": 2, "k": 3}, "point 1: no time; a column seconds, ms or us"),
        ({"m": 1.5, "n": 2, "k": 3, "us": 1}, "point 1: m is no whole number"),
        ({"m": 1, "n": 2, "k": 3, "us": 1, "dtype": "bf17"}, "point 1: unknown dtype 'bf17'; did you mean 'bf16'?"),
        ({"expression": "relu(bf16[B])", "us": 3}, "point 1: size B has no value; sizes of a row are numbers"),
        ({"m": 1, "n": 2}, "point 1: name is missing; give name, flops, bytes, seconds, or shapes"),
        (
            {"name": "x", "flops": 1e9, "bytes": 1e6, "time": 5e-3},
            "point 1: seconds is missing; 'time' is called seconds here, or ms or us by its unit",
        ),
    ],
)
def test_a_row_that_does_not_read_says_what_is_missing(row: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        profile([row], on="a100")


def test_a_convolution_in_fp32_is_held_to_tf32_where_a_device_ran_it(tmp_path):
    """As PyTorch leaves torch.backends.cudnn.allow_tf32; products of matrices stay in fp32."""
    dims, values = [[8, 256, 56, 56], [256, 256, 3, 3], [], [], [], [], []], ["", "", "", "[1]", "[1]", "[1]", "1"]
    calls = [
        call("aten::conv2d", 0, 900, dims, values=values, **{"External id": 1}),
        call("aten::mm", 1000, 900, [[4096, 4096], [4096, 4096]], **{"External id": 2}),
    ]
    kernels = [
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 5000 + n, "dur": 900, "args": {"External id": n}}
        for n in (1, 2)
    ]
    said = "convolutions of fp32 are held to tf32, as torch.backends.cudnn.allow_tf32 is set unless unset"
    for events, dtype in ((calls, "fp32"), ([*calls, *kernels], "tf32")):
        found = profile(written(tmp_path, events), on="a100")
        assert [point.run.dtype for point in found] == [dtype, "fp32"]
        assert (said in found.profile.notes) == (dtype == "tf32")
        peak = roofline.chip("a100").figure("tensor.tf32" if dtype == "tf32" else "cuda.fp32").value
        flops = 2 * 8 * 56 * 56 * 256 * 256 * 9
        assert float(found[0].bound.lower) == pytest.approx(flops / peak, rel=1e-3)
    older = profile(written(tmp_path, [*calls, *kernels]), on="v100")
    assert float(older[0].bound.lower) == pytest.approx(
        flops / roofline.chip("v100").figure("cuda.fp32").value, rel=1e-3
    )


def test_a_profiler_of_torch_is_read_itself_again_and_again(tmp_path) -> None:
    torch = pytest.importorskip("torch")
    unused = torch.profiler.profile()
    with pytest.raises(InputError, match=r"the profiler gives no trace: .*; end its block first"):
        profile(unused, on="genoa")
    x = torch.ones(64, 64)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        x @ x
    found = [profile(profiler, on="genoa") for _ in range(2)]
    assert [[point.run.name for point in each] for each in found] == [["matmul 64x64 64x64"]] * 2
