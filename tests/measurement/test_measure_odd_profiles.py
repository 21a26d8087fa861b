"""Profiles as they come: damaged or unusual traces, reports of other generations and countries, files with zeros."""

from __future__ import annotations

import gzip
import json

import pytest
from made import made
from rich.console import Console

from roofline import bound
from roofline.charts.bars import RULELESS, split_chart
from roofline.charts.plot import plot
from roofline.cli import main
from roofline.errors import InputError
from roofline.hardware import chip
from roofline.measurement import Measured, points_of, read_measured, read_profile, write_machine_file
from roofline.measurement.points import point_sections, time_by_operation
from roofline.measurement.profiles import NOBODY, TIME
from roofline.measurement.runs import AROUND, write_runs
from roofline.rendering.terminal import terminal


def call(name, ts, dur, dims, **more):
    told = {"Input Dims": dims, "Input type": ["float"] * len(dims), **more}
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1, "args": told}


MM = call("aten::mm", 0, 100, [[64, 64], [64, 64]], **{"External id": 1})

#: A call without a rule around one with: most of its time is its own. A wrapper that only calls.
RECURRENT = [
    call("aten::recurrent", 0, 1000, [[64, 64]]),
    call("aten::copy_", 100, 50, [[64, 64], [64, 64]]),
    call("aten::einsum", 2000, 110, []),
    call("aten::bmm", 2005, 100, [[1, 64, 64], [1, 64, 64]]),
    call("aten::cumsum", 3000, 40, [[64]]),
]


@pytest.fixture
def machine(tmp_path):
    write_machine_file(made(), tmp_path / "this.toml")
    return chip("this", files=[tmp_path / "this.toml"])


def written(folder, content, name="trace.json"):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_all_time_of_a_trace_is_accounted_for(tmp_path):
    """What a caller without a rule does itself is listed; it was lost where something inside it had a rule."""
    found = read_profile(written(tmp_path, RECURRENT))
    assert [run.name for run in found.runs] == ["copy_ 64x64", "bmm 1x64x64 1x64x64"]
    assert found.unpriced == {
        "aten::recurrent": pytest.approx(950e-6),
        "aten::cumsum": pytest.approx(40e-6),
        AROUND: pytest.approx(10e-6),
    }
    assert sum(run.seconds for run in found.runs) + sum(found.unpriced.values()) == pytest.approx(1150e-6)


@pytest.mark.parametrize(
    ("name", "dims", "values", "flops", "moved"),
    [
        ("aten::sum", [[8, 16], []], ["", ""], 8 * 16 - 1, 4 * (128 + 1)),
        ("aten::sum", [[8, 16], []], ["", "[1]"], 8 * 15, 4 * (128 + 8)),
        ("aten::mean", [[8, 16], []], ["", "[0, 1]"], 8 * 16, 4 * (128 + 1)),
        ("aten::amax", [[8, 16], []], ["", "-1"], 8 * 15, 4 * (128 + 8)),
        ("aten::lerp_", [[8, 16], [8, 16], []], ["", "", "0.1"], 3 * 128, 4 * 3 * 128),
        ("aten::addcmul_", [[8, 16]] * 3, [], 3 * 128, 4 * 4 * 128),
        ("aten::addcdiv", [[8, 16]] * 3, [], 3 * 128, 4 * 4 * 128),
    ],
)
def test_reductions_and_updates_of_optimizers_have_rules(tmp_path, name, dims, values, flops, moved):
    one = call(name, 0, 10, dims, **{"Concrete Inputs": values})
    [run] = read_profile(written(tmp_path, [one])).runs
    assert (run.flops, run.bytes) == (flops, moved)


def test_all_time_of_a_device_is_accounted_for(tmp_path):
    """Kernels of a call around others, of no call, and joined by the small letters of older traces."""
    outer = call("aten::recurrent", 0, 1000, [[64, 64]], **{"External id": 7})
    inner = call("aten::mm", 10, 100, [[64, 64], [64, 64]], **{"External id": "8"})
    names = ({"External id": 7}, {"external id": 8}, {"External id": 99}, {})
    kernels = [
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 5000, "dur": 10 * 2**place, "args": told}
        for place, told in enumerate(names)
    ]
    found = read_profile(written(tmp_path, [outer, inner, *kernels]))
    assert [(run.name, run.seconds) for run in found.runs] == [("mm 64x64 64x64", pytest.approx(20e-6))]
    assert found.unpriced == {"aten::recurrent": pytest.approx(10e-6), NOBODY: pytest.approx(120e-6)}


def test_views_that_nothing_calls_are_time_too(tmp_path):
    """A view within another call was counted, one that the program calls itself was lost."""
    filled = [call("aten::zeros", 300, 20, []), call("aten::zero_", 305, 10, [[64]])]
    found = read_profile(written(tmp_path, [MM, call("aten::view", 200, 7, [[64, 64]]), *filled]))
    assert [run.name for run in found.runs] == ["mm 64x64 64x64", "zero_ 64"]
    assert found.unpriced == {AROUND: pytest.approx(17e-6)}


def test_the_split_counts_what_has_no_rule(tmp_path, machine):
    found = read_profile(written(tmp_path, RECURRENT))
    points = points_of(found.runs, machine)
    shares = {name: share for name, _, share in time_by_operation(found.runs, found.unpriced)}
    assert shares["aten::recurrent"] == pytest.approx(950 / 1150)
    assert sum(shares.values()) == pytest.approx(1)
    bars = [bar for bar in split_chart(points, unpriced=found.unpriced).bars if bar.part == RULELESS]
    assert sum(bar.x1 - bar.x0 for bar in bars) == pytest.approx(1000e-6)


@pytest.mark.parametrize(
    "damage",
    [
        {"args": None},
        {"args": [1]},
        {"args": {"Input Dims": [[], [64]]}},
        {"args": {"Input Dims": [64, [64, 64]]}},
        {"args": {"Input Dims": [[[64, 64], 64]], "Input type": 5}},
    ],
)
def test_a_damaged_event_is_not_priced(tmp_path, damage):
    found = read_profile(written(tmp_path, [{**MM, **damage, "ts": 500}, MM]))
    assert len(found.runs) == 1
    assert found.unpriced == {"aten::mm": pytest.approx(100e-6)}


def test_shapes_that_a_rule_does_not_take_have_no_rule(tmp_path):
    odd = {**MM, "ts": 500, "args": {"Input Dims": [[64], [64, 64]], "Input type": ["float", "float"]}}
    assert len(read_profile(written(tmp_path, [odd, MM])).runs) == 1


@pytest.mark.parametrize("time", ["NaN", "Infinity", "-1"])
def test_a_time_that_is_none_is_an_error(tmp_path, time):
    text = json.dumps([MM]).replace('"dur": 100', f'"dur": {time}')
    with pytest.raises(InputError, match=r"aten::mm took (nan|inf|-1) us; a time is a number, and not below 0"):
        read_profile(written(tmp_path, text))


def test_operations_that_took_no_time_are_told(tmp_path):
    found = read_profile(written(tmp_path, [MM, {**MM, "ts": 500, "dur": 0}]))
    assert len(found.runs) == 1
    assert "1 operation with a rule took no time and stand nowhere" in found.notes


def test_a_packed_trace_is_known_by_its_content(tmp_path):
    whole = gzip.compress(json.dumps([MM]).encode())
    (tmp_path / "trace.bin").write_bytes(whole)
    assert len(read_profile(tmp_path / "trace.bin").runs) == 1
    for broken in (whole[:40], whole[:12] + b"\xff" * 30 + whole[42:]):
        (tmp_path / "trace.bin").write_bytes(broken)
        with pytest.raises(InputError, match="is packed and cut short or damaged"):
            read_profile(tmp_path / "trace.bin")


COLUMNS = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Section Name", "Metric Name", "Metric Unit",
    "Metric Value",
)  # fmt: skip
HEADER = ",".join(f'"{column}"' for column in COLUMNS)


def long_report(*rows):
    lines = [
        f'"{number}","1","p","h","{kernel}","s","{metric}","{unit}","{value}"'
        for number, kernel, metric, unit, value in rows
    ]
    return "\n".join([HEADER, *lines]) + "\n"


def test_what_the_program_printed_may_stand_before_a_report(tmp_path):
    report = long_report(("0", "k", TIME, "ns", "1,000"), ("0", "k", "dram__bytes.sum", "byte", "64"))
    [run] = read_profile(written(tmp_path, 'epoch "1\n' * 60 + "==PROF== done\n" + report, "k.csv")).runs
    assert (run.name, run.bytes, run.seconds) == ("k", 64, pytest.approx(1e-6))


def test_a_report_where_commas_stand_before_decimals(tmp_path):
    """A European Windows writes 117344 ns as 117.344 and 27595520 bytes as 27.595.520."""
    rows = [("0", "k", TIME, "ns", "117.344"), ("0", "k", "dram__bytes.sum", "byte", "27.595.520")]
    [run] = read_profile(written(tmp_path, long_report(*rows), "k.csv")).runs
    assert (run.seconds, run.bytes) == (pytest.approx(117344e-9), 27595520)
    rows = [("0", "k", TIME, "us", "12,5"), ("0", "k", "dram__bytes.sum", "Mbyte", "1.234,5")]
    [run] = read_profile(written(tmp_path, long_report(*rows), "k.csv")).runs
    assert (run.seconds, run.bytes) == (pytest.approx(12.5e-6), pytest.approx(1234.5e6))


def test_metrics_a_device_has_not_are_not_there(tmp_path):
    """Some devices count reads and writes under other names, without a unit; the rest they call n/a."""
    rows = [
        ("0", "k", TIME, "ns", "10,196,000"),
        ("0", "k", "dram__bytes.sum", "", "n/a"),
        ("0", "k", "dram__bytes_op_read.sum", "", "53,261,312"),
        ("0", "k", "dram__bytes_op_write.sum", "", "3,377,920"),
        ("0", "k", "sm__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst", "1,000"),
        ("0", "k", "sm__ops_path_tensor_src_fp8_dst_fp32.sum", "", "n/a"),
    ]
    [run] = read_profile(written(tmp_path, long_report(*rows), "k.csv")).runs
    assert (run.bytes, run.flops, run.dtype) == (53261312 + 3377920, 2000, "fp32")
    with pytest.raises(InputError, match=r"the metric dram__bytes\.sum is missing"):
        read_profile(written(tmp_path, long_report(*rows[:3]), "k.csv"))


def test_a_kernel_that_neither_computes_nor_reaches_memory_is_listed(tmp_path):
    rows = [
        ("0", "k", TIME, "us", "5"), ("0", "k", "dram__bytes.sum", "byte", "64"),
        ("1", "idle", TIME, "us", "2"), ("1", "idle", "dram__bytes.sum", "byte", "0"),
    ]  # fmt: skip
    found = read_profile(written(tmp_path, long_report(*rows), "k.csv"))
    assert [run.name for run in found.runs] == ["k"]
    assert found.unpriced == {"idle": pytest.approx(2e-6)}


def test_kernels_that_a_report_has_no_time_or_bytes_of_are_named(tmp_path):
    rows = [
        ("0", "k", TIME, "us", "5"), ("0", "k", "dram__bytes.sum", "byte", "64"),
        ("1", "lost", TIME, "us", "n/a"), ("1", "lost", "dram__bytes.sum", "byte", "64"),
        ("2", "bare", TIME, "us", "2"), ("2", "bare", "dram__bytes.sum", "byte", "n/a"),
    ]  # fmt: skip
    found = read_profile(written(tmp_path, long_report(*rows), "k.csv"))
    assert [run.name for run in found.runs] == ["k"]
    assert "2 of 3 kernels have no time or no bytes in the report and are left out: lost, bare" in found.notes


def test_an_error_names_the_line_of_the_file(tmp_path):
    report = "started\n" + long_report(("0", "k", TIME, "ns", "1")) + '"0","1"\n'
    with pytest.raises(InputError, match=r"k.csv:4: 2 values in 9 columns: the report was cut short"):
        read_profile(written(tmp_path, report, "k.csv"))


def test_what_a_profile_writes_is_read_again(tmp_path, machine):
    """A copy has no FLOPs: its line was refused when read back."""
    runs = (Measured("copy", 0.0, 1e9, 1e-3, "fp32"), Measured("in cache", 1e9, 0.0, 1e-3, "fp32"))
    write_runs(runs, tmp_path / "runs.csv")
    assert read_profile(tmp_path / "runs.csv").runs == runs
    assert [point.fraction > 0 for point in points_of(runs, machine)] == [True, True]
    for run, lacking in zip(runs, ("FLOPs", "bytes"), strict=True):
        with pytest.raises(InputError, match=f"'{run.name}' has no {lacking}, so no place in a roofline"):
            plot(on="h100", measured=[run])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,flops,bytes,seconds\na,0,0,1\n", ":2: the run has neither FLOPs nor bytes; state what it computes"),
        ("name;flops;bytes;seconds\na;1;1\n", ":2: 3 values in 4 columns; leave no figure out"),
        ("name\tflops\tbytes\tseconds\n", "has a header and no runs"),
    ],
)
def test_a_plain_file_says_what_is_wrong_with_it(tmp_path, text, said):
    with pytest.raises(InputError, match=said):
        read_measured(written(tmp_path, text, "runs.csv"))


def test_a_run_of_another_machine_is_not_put_under_this_one(machine):
    assert len(points_of([Measured("a", 1e9, 1e9, 1.0, on="H100")], chip("h100"))) == 1
    with pytest.raises(
        InputError, match=r"'a' ran on 'h100', not on Made-up CPU.*; ask on='h100', or leave the column"
    ):
        points_of([Measured("a", 1e9, 1e9, 1.0, on="h100")], machine)


def test_a_format_the_machine_lacks_is_told(machine):
    """An int4 run under the roof of another format, and the answer said nothing."""
    [point] = points_of([Measured("a", 1e9, 1e9, 1.0, "int4")], machine)
    said = [text for text in point.to_dict()["assumptions"] if text.startswith("no int4 peak on Made-up CPU")]
    assert len(said) == 1
    console = Console(width=200)
    with console.capture() as captured:
        console.print(terminal(point_sections([point], "on x")))
    assert said[0] in captured.get()


@pytest.mark.parametrize(
    ("name", "dims", "kinds", "values", "flops", "moved"),
    [
        ("matmul", [[1, 8, 4], [6, 4, 8]], None, (), 2 * 6 * 8 * 8 * 4, 4 * (32 + 6 * 32 + 6 * 64)),
        ("matmul", [[2, 1, 8, 4], [2, 3, 4, 8]], None, (), 2 * 6 * 8 * 8 * 4, 4 * (64 + 6 * 32 + 6 * 64)),
        ("matmul", [[8, 4], [6, 4, 8]], None, (), 2 * 6 * 8 * 8 * 4, 4 * (32 + 6 * 32 + 6 * 64)),
        ("addmv", [[8], [8, 4], [4]], None, (), 2 * 8 * 4 + 8, 4 * (32 + 4 + 8 + 8)),
        ("addmm_", [[8, 6], [8, 4], [4, 6]], None, (), 2 * 192 + 48, 4 * (32 + 24 + 48 + 48)),
        ("baddbmm", [[2, 8, 6], [2, 8, 4], [2, 4, 6], [], []], None, ("", "", "", "0.", "1"), 768, 4 * (112 + 96)),
        ("addbmm", [[8, 6], [2, 8, 4], [2, 4, 6]], None, (), 2 * 384 + 96, 4 * (112 + 48 + 48)),
        ("conv1d", [[2, 4, 9], [6, 4, 3], [6], [], [], [], []], None, ("", "", "", "[1]", "[0]", "[1]", "1"),
         2 * 2 * 7 * 6 * 12 + 2 * 7 * 6, 4 * (72 + 72 + 6 + 84)),
        ("dot", [[9], [9]], None, (), 18, 4 * 19),
        ("_int_mm", [[8, 4], [4, 8]], ["signed char"] * 2, (), 512, 32 + 32 + 4 * 64),
        ("_scaled_mm", [[8, 4], [4, 8]], ["c10::Float8_e4m3fn"] * 2, (), 512, 32 + 32 + 2 * 64),
        ("mul", [[8, 1], [1, 4]], None, (), 32, 4 * (8 + 4 + 32)),
        ("mul", [[8, 1], [4]], None, (), 32, 4 * (8 + 4 + 32)),
        ("add", [[8, 4], [4]], ["c10::BFloat16", "float"], (), 32, 2 * 32 + 4 * 4 + 4 * 32),
        ("add_", [[8, 4], [4]], ["c10::BFloat16", "float"], (), 32, 2 * 32 + 4 * 4 + 2 * 32),
        ("mul", [[8], [8]], ["long int", "float"], (), 8, 8 * 8 + 4 * 8 + 4 * 8),
        ("gt", [[8], []], ["float", "Scalar"], (), 8, 4 * 8 + 8),
        ("where", [[8], [8], [8]], ["bool", "float", "float"], (), 8, 8 + 3 * 4 * 8),
        ("where", [[8], [], []], ["bool", "float", "float"], (), 8, 8 + 2 * 4 + 4 * 8),
        ("copy_", [[8, 4], [8, 4]], ["c10::BFloat16", "float"], (), 0, 2 * 32 + 4 * 32),
        ("copy_", [[8, 4], [4]], None, (), 0, 4 * 32 + 4 * 4),
        ("zero_", [[8, 4]], None, (), 0, 4 * 32),
        (
            "convolution", [[2, 8, 6, 6], [8, 4, 3, 3], *[[]] * 7], None,
            ("", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "True", "[0, 0]", "1"),
            2 * 2 * 36 * 8 * 4 * 9, 4 * (2 * 8 * 36 + 8 * 4 * 9 + 2 * 4 * 11 * 11),
        ),
        (
            "conv_transpose2d", [[2, 8, 6, 6], [8, 4, 3, 3], *[[]] * 6], None,
            ("", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "2", "[1, 1]"),
            2 * 2 * 36 * 8 * 4 * 9, 4 * (2 * 8 * 36 + 8 * 4 * 9 + 2 * 8 * 12 * 12),
        ),
        (
            "mkldnn_convolution", [[2, 8, 6, 6], [4, 8, 3, 3], *[[]] * 5], None,
            ("", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"), 2 * 2 * 9 * 4 * 8 * 9, 4 * (2 * 8 * 36 + 288 + 2 * 4 * 9),
        ),
        (
            "scaled_dot_product_attention", [[1, 2, 4, 8], [1, 2, 6, 8], [1, 2, 6, 8]], None,
            ("", "", "", "", "0.", "True"), (4 * 8 + 5) * 2 * 10, 4 * 2 * 8 * (4 + 4 + 4 + 4),
        ),
    ],
)  # fmt: skip
def test_shapes_and_formats_of_operands_are_the_operations_own(tmp_path, name, dims, kinds, values, flops, moved):
    """Broadcasting, casting, turned convolutions, results of another format, causal masks from the upper left."""
    told = {"Concrete Inputs": list(values), **({"Input type": kinds} if kinds else {})}
    [run] = read_profile(written(tmp_path, [call(f"aten::{name}", 0, 10, dims, **told)])).runs
    assert (run.flops, run.bytes) == (flops, moved)


def test_what_a_trace_does_not_tell_is_not_guessed(tmp_path):
    """A padding in words is not in the trace: the operation within says it in numbers. Older traces tell no values."""
    dims = [[2, 8, 6, 6], [4, 8, 3, 3], [], [], [], [], []]
    words = {"Concrete Inputs": ["", "", "", "[1, 1]", "", "[1, 1]", "1"]}
    plain = {"Concrete Inputs": ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]}
    calls = [call("aten::conv2d", 0, 10, dims, **words), call("aten::convolution", 1, 8, [*dims, [], []], **plain)]
    assert [run.flops for run in read_profile(written(tmp_path, calls)).runs] == [2 * 2 * 36 * 4 * 8 * 9]
    found = read_profile(written(tmp_path, [call("aten::conv2d", 500, 10, dims), MM]))
    assert list(found.unpriced) == ["aten::conv2d"]
    assert "the trace tells no strides and no masks" in found.notes[1]


def test_a_trace_of_the_first_versions_is_read(tmp_path):
    """Categories with capitals, shapes with a small letter, whole microseconds: linear and addmm take the same time."""
    inner = {"Input dims": [[4096], [256, 1024], [1024, 4096]], "Input type": ["float"] * 3, "External id": "3"}
    outer = {"Input dims": [[256, 1024], [4096, 1024]], "Input type": ["float"] * 2, "External id": "2"}
    calls = [
        {"ph": "X", "cat": "Operator", "name": name, "ts": 0, "dur": 9, "pid": 1, "tid": "1", "args": told}
        for name, told in (("aten::addmm", inner), ("aten::linear", outer))
    ]
    [run] = read_profile(written(tmp_path, calls)).runs
    assert (run.name, run.seconds) == ("linear 256x1024 4096x1024", pytest.approx(9e-6))
    kernel = {"ph": "X", "cat": "Kernel", "name": "k", "ts": 50, "dur": 7, "args": {"external id": "3"}}
    [run] = read_profile(written(tmp_path, [*calls, kernel])).runs
    assert run.seconds == pytest.approx(7e-6)


@pytest.mark.parametrize("number", [None, 1])
def test_a_kernel_belongs_to_the_operation_whose_launch_it_correlates_with(tmp_path, number):
    """Without an External id of its own: by that of the launch, or by the operation the launch lies in."""
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 20, "dur": 5, "pid": 1, "tid": 1}
    launch["args"] = {"correlation": 41} if number is None else {"correlation": 41, "External id": number}
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 900, "dur": 7, "args": {"correlation": 41}}
    other = {**kernel, "args": {"correlation": 42}, "dur": 3}
    found = read_profile(written(tmp_path, [MM, launch, kernel, other]))
    assert [(run.name, run.seconds) for run in found.runs] == [("mm 64x64 64x64", pytest.approx(7e-6))]
    assert found.unpriced == {NOBODY: pytest.approx(3e-6)}


def test_what_a_report_does_not_count_is_told(tmp_path):
    """Formats of the tensor cores without a rate here, and the instructions older reports count, were silent zeros."""
    rows = [("0", "k", TIME, "us", "5"), ("0", "k", "dram__bytes.sum", "byte", "64")]
    [note] = read_profile(written(tmp_path, long_report(*rows), "k.csv")).notes
    assert note.startswith("the report counts no FLOPs")
    more = [
        ("0", "k", "sm__ops_path_tensor_src_int4_dst_int32.sum", "", "4,000"),
        ("0", "k", "sm__ops_path_tensor_src_int1.sum", "", "0"),
        ("0", "k", "sm__ops_path_tensor_src_fp6_dst_fp32.sum", "", "8"),
        ("0", "k", "sm__inst_executed_pipe_tensor.sum", "inst", "9"),
    ]
    found = read_profile(written(tmp_path, long_report(*rows, *more), "k.csv"))
    assert [(run.flops, run.dtype) for run in found.runs] == [(4000, "int4")]
    assert [note.split()[0] for note in found.notes] == [
        "sm__inst_executed_pipe_tensor.sum", "sm__ops_path_tensor_src_fp6_dst_fp32.sum",
    ]  # fmt: skip


def test_bytes_of_a_run_may_be_warm(tmp_path, machine):
    """The flag of a run above its roof says to compare with the warm bound, which was the cold one for stated bytes."""
    from roofline.hardware.rate import with_choices

    cold, warm = machine, with_choices(machine, over="warm")
    run = Measured("a", 0.0, 12288.0, 1e-9, "fp32")
    [first], [second] = points_of([run], cold), points_of([run], warm)
    assert (first.bound.bound_by, second.bound.bound_by) == ("dram", "l1")
    whole = bound("fp32[32, 32] + fp32[32, 32]", on=warm)
    assert second.bound.lower == pytest.approx(whole.times["l1"])
    assert "warm data" in first.flags[0]
    assert "warm data" not in second.flags[0]
    [large] = points_of([Measured("a", 0.0, 1e11, 1.0, "fp32")], warm)
    assert large.bound.bound_by == "dram"


@pytest.mark.parametrize(
    "text",
    [
        '\ufeff"name";"flops";"bytes";"seconds"\n"a";"1,5";"2";"1.234,5"\n',
        "name\tflops\tbytes\tseconds\na\t1.5\t2\t1234.5\n",
        "| name | flops | bytes | seconds |\n|:--|--:|--:|---|\n| a | 1.5 | 2 | 1,234.5 |\n",
        "  name  flops  bytes  seconds\n  a       1.5      2   1234.5 \n",
    ],
)
def test_tables_of_other_signs_between_cells_are_read(tmp_path, text):
    assert read_measured(written(tmp_path, text, "runs.csv")) == (Measured("a", 1.5, 2.0, 1234.5),)


def test_a_name_of_numbers_keeps_its_commas_and_an_empty_cell_its_place(tmp_path):
    text = "| name | flops | bytes | seconds | dtype |\n|--|--|--|--|--|\n| 64,128 | 1,000 | 2 | 3 | |\n"
    (found,) = read_measured(written(tmp_path, text, "runs.csv"))
    assert (found.name, found.flops, found.seconds) == ("64,128", 1000.0, 3.0)
    text = "| library | m | n | k | dtype | us |\n|--|--|--|--|--|--|\n| | 64 | 128 | 256 | bf16 | 5 |\n"
    (found,) = read_measured(written(tmp_path, text, "shapes.csv"))
    assert (found.flops, found.seconds) == (2 * 64 * 128 * 256, pytest.approx(5e-6))


def test_a_chart_of_runs_without_a_place_is_refused_in_words(tmp_path, capsys):
    path = written(tmp_path, "name,flops,bytes,seconds\ncopy,0,1 GB,1 ms\n", "runs.csv")
    assert main(["profile", str(path), "--on", "h100", "--chart", str(tmp_path / "x.svg")]) == 2
    assert "none of the 1 longest runs has both FLOPs and bytes" in capsys.readouterr().err
