"""Runs of one's own: which are left out and why, constants held against them, constants moved to them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner

import roofline
from roofline import bound
from roofline.cli.measure import accuracy_command, calibrate_command, profile_command
from roofline.errors import InputError
from roofline.estimates import calibrate, calibrate_served, calibration, estimated, held_accuracy
from roofline.estimates.calibration import Calibration, interval_of, refitted
from roofline.estimates.constants import KERNELS, LEFT_OUT, read_constants, shipped
from roofline.estimates.estimator import Estimator, kernels_of
from roofline.estimates.fitting import Rows, fit_from_few
from roofline.estimates.kernel_model import ChipFigures
from roofline.estimates.own_runs import by_kind, plausible, read_kernels, row_expression, timer_step
from roofline.hardware import chip
from roofline.measurement import measured_kernels, write_machine_file
from roofline.models.serving.answer import serve
from roofline.quantity import format_percent
from tests.measurement.made import CALL, made
from tests.strategies import short_fits, some

NO_CHIP = ChipFigures(1, 1, 1, 1)
SHAPES = [(m, n, 4096) for m in (16, 64, 256, 1024, 4096) for n in (4096, 14336)]


def times(on: str, factor: float = 1.0) -> list[float]:
    """What constants of the chip say of some products, times a factor, with a ripple of five percent."""
    estimator, ripple = Estimator("vllm"), 1 + 0.05 * np.cos(np.arange(len(SHAPES)))
    found = (estimator.expect(bound(f"bf16[{m}, {k}] @ bf16[{k}, {n}]", on=on)).value for m, n, k in SHAPES)
    return [factor * wave * float(time) for time, wave in zip(found, ripple, strict=True)]


def written(path: Path, seconds: list[float], more: str = "") -> Path:
    rows = [f"{m},{n},{k},bf16,{time:.9g}" for (m, n, k), time in zip(SHAPES, seconds, strict=True)]
    path.write_text("m,n,k,dtype,seconds\n" + "\n".join(rows) + "\n" + more)
    return path


@pytest.fixture
def to_the_end() -> None:
    """For tests of how well a fit goes."""


@pytest.fixture(autouse=True)
def _few_steps(request: pytest.FixtureRequest) -> Iterator[None]:
    """A fit ends after two steps in tests of what is read and said."""
    with nullcontext() if "to_the_end" in request.fixturenames else short_fits():
        yield


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Calibration]:
    """Ten rows of an h200 that takes 1.3 times as long as its constants say, and what is fitted to them."""
    path = written(tmp_path_factory.mktemp("runs") / "mine.csv", times("h200", 1.3))
    return path, calibrate(path, "h200")


def test_constants_are_held_against_runs_without_fitting(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.csv", times("h100", 1.2))
    found = held_accuracy(path, "h100")
    (one,) = found.kinds
    assert one.errors.bias == pytest.approx(1 / 1.2 - 1, abs=0.03)
    assert one.errors.count == len(SHAPES)
    assert one.basis == "h100 vllm"
    assert held_accuracy(written(path, times("h100")), "h100").kinds[0].coverage == 1.0


def test_the_command_holds_and_says_what_is_missing(tmp_path: Path) -> None:
    path = str(written(tmp_path / "mine.csv", times("h100")))
    data = json.loads(CliRunner().invoke(accuracy_command, ["h100", "--data", path, "--json"]).output)
    assert data["schema"] == "roofline/held-accuracy/1"
    assert data["kinds"][0]["count"] == len(SHAPES)
    with pytest.raises(InputError, match="rows of one chip"):
        CliRunner().invoke(accuracy_command, ["--data", path], catch_exceptions=False)


def test_tables_as_people_have_them_are_read(tmp_path: Path) -> None:
    """Rows of other chips, libraries' own names, commas between thousands, units in cells, repeats."""
    path = tmp_path / "mine.csv"
    rows = list(zip(SHAPES, times("h100"), strict=True))
    lines = [f'NVIDIA H100 80GB HBM3,vLLM 0.24.0,{m},"{n:,}",{k},bf16,{time * 1e6:.3f} us' for (m, n, k), time in rows]
    lines += [f"A100-SXM4-80GB,vLLM 0.24.0,{m},{n},{k},bf16,{time * 2e6:.3f} us" for (m, n, k), time in rows]
    lines += [lines[0].replace(f"{rows[0][1] * 1e6:.3f} us", f"{rows[0][1] * 1.1e6:.3f}us")]
    path.write_text("gpu,backend,m,n,k,dtype,latency\n" + "\n".join(lines) + "\n")
    (one,) = (found := held_accuracy(path, "h100")).kinds
    assert (one.library, one.errors.count) == ("vllm", len(SHAPES))
    assert abs(one.errors.bias) < 0.06
    assert found.rejected == {
        "measured on another chip, a100": len(SHAPES),
        "the same shape again: the median of its times is taken": 1,
    }
    (constants,) = calibrate(path, "h100").constants
    assert constants.library == "vllm"
    path.write_text(path.read_text().replace("vLLM 0.24.0", "cuBLAS"))
    assert [(each.library, each.basis) for each in held_accuracy(path, "h100").kinds] == [("cublas", "h100 vllm")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("64,8192,8192,bf16,51.2\n64,4096,4096,bf16,20.1\n", "the first line of .* is a row, not names"),
        ("m,n,k,dtype,time\n64,8192,8192,bf16,51.2\n", "line 2: time has no unit"),
        ("gpu,m,n,k,us\nA100,64,8192,8192,51.2\n", "line 2: measured on another chip, a100; rows of h100, or on="),
        (
            "m,n,k,dtype,us\n64,8192,8192,bf16,51.2\n64,8192,8192,bf16,91.2\n",
            "nothing can be fitted: 2 rows: one shape",
        ),
    ],
)
def test_a_table_that_cannot_be_read_says_what_is_in_the_way(text: str, said: str, tmp_path: Path) -> None:
    (path := tmp_path / "mine.csv").write_text(text)
    with pytest.raises(InputError, match=said) as wrong:
        calibrate(path, "h100")
    assert "0 rows" not in wrong.value.message


def test_runs_to_measure_are_advised_and_read_when_they_are_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    answered = CliRunner().invoke(calibrate_command, ["--on", "h200", "-o", str(path)], catch_exceptions=False)
    assert "runs to measure on h200" in answered.output
    header, *rows = path.read_text().splitlines()
    cells = [dict(zip(header.split(","), row.split(","), strict=True)) for row in rows]
    assert Counter(row["dtype"] for row in cells) == {"bf16": 10, "fp8": 10}
    filled = [{**row, "us": f"{1.2e6 * float(row['expected [s]'])}"} for row in cells]
    found = calibrate(filled, "h200")
    assert [len(found.fitted), dict(found.rejected)] == [2, {}]
    assert all(one.before.bias == pytest.approx(1 / 1.2 - 1, abs=0.01) for one in found.fitted)
    assert roofline.calibrate(on="t4").to_dict()["runs"][0]["dtype"] == "fp16"
    assert all(one.expected is None for one in roofline.calibrate(on="mi300x").runs)
    with pytest.raises(InputError, match="has no matrix units in bf16, fp16, fp8, nvfp4, so no products are advised"):
        roofline.calibrate(on="genoa")
    with pytest.raises(InputError, match="runs are of a chip, which on= names"):
        roofline.calibrate()
    with pytest.raises(InputError, match="served runs are needed to fit steps"):
        roofline.calibrate(on="h100", model="llama-3-8b")


def test_rows_of_another_chip_are_not_taken() -> None:
    with pytest.raises(InputError, match="measured on another chip, a100"):
        calibrate([{"gpu": "a100", "m": 64, "n": 8192, "k": 8192, "us": 51.2}], "h100")


def test_rows_that_cannot_be_are_counted_by_reason(tmp_path: Path) -> None:
    odd = [
        "8192,8192,8192,bf16,1e-5",  # over the peak
        "16,4096,4096,bf16,1e-9",  # a shape that was timed rightly too
        "1,65536,65536,bf16,1e-3",  # eight gigabytes in a millisecond
        "64,8192,1024,bf16,1.0123",  # a second: in another unit
        "32,8192,1024,bf16,2.01e-5",
        "32,8192,1024,bf16,4.01e-5",
    ]
    path = written(tmp_path / "odd.csv", times("h100"), "\n".join(odd) + "\n")
    machine = chip("h100")
    counted: defaultdict[str, list[str]] = defaultdict(list)
    for members in by_kind(read_kernels(path, machine), "vllm", machine, counted).values():
        assert len(plausible(members, machine, Estimator("vllm"), counted)) == len(SHAPES)
    words = " ".join(counted)
    for word in ("faster than the peak", "faster than memory", "another unit", "differ by over a quarter"):
        assert word in words, counted
    assert sum(map(len, counted.values())) == len(odd)


def test_a_calibration_says_the_format_that_was_measured_and_its_errors_in_a_line() -> None:
    rows = [{"m": m, "n": 4096, "k": 4096, "dtype": "fp16", "us": 100 + m} for m in range(256, 2816, 256)]
    found = calibrate(rows, on="t4")
    assert found.to_pandas()["format"].tolist() == ["fp16"]
    one = found.fitted[0]
    errors = f"error {format_percent(one.before.mdape)} → {format_percent(one.after.mdape)}"
    assert repr(found) == f"<Calibration of t4: matmul (contraction) in fp16, {one.after.count} runs, {errors}>"
    assert held_accuracy(rows, on="t4").to_pandas()["format"].tolist() == ["fp16"]
    both = calibrate([*rows[:5], *({**row, "dtype": "bf16"} for row in rows[5:])], on="t4")
    assert both.to_pandas()["format"].tolist() == ["fp16, bf16"]


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("M,N,K,Precision,time_ms", "64,8192,8192,torch.bfloat16,0.051"),
        ("m;n;k;type;Latency (us)", "64;8192;8192;bfloat16;51,0"),
        ("kernel,K,N,M,duration_ns", "gemm,8192,8192,64,51000"),
        ("name,median_us", '"bf16[64, 8192] @ bf16[8192, 8192]",51'),
        ("name;time/us", "bf16[64,8192] @ bf16[8192,8192];51,0"),
        ("sep=;\nm;n;k;us", "64;8192;8192;51"),
        ("# on an idle machine\nm,n,k,ms", '64,"8,192","8,192","0,051"'),
        ("gpu,m,n,k,kernel_time", "L40S,64,8192,8192,51 us"),
        ("m\tn\tk\tcuda time (nsecond)", "64\t8192\t8192\t51000"),
        ("m,n,k,p50_us", "64,8Ki,8192,51"),
        ("m,n,k,min_ms", "64,8192,8192,0.051"),
        ("m,n,k,min_us,p99_us,avg_us", "64,8192,8192,40,60,51"),
        ("m,n,k,median", "64,8192,8192,51 us"),
    ],
)
def test_a_file_may_name_its_columns_as_others_do(tmp_path: Path, header: str, cells: str) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text(f"{header}\n{cells}\n")
    ((run, seconds, _, wrong, where, *_),) = read_kernels(path, chip("l40s" if "gpu" in header else "h100"))
    sizes = tuple(float(run.shapes[name]) for name in "mnk")
    assert (run.kernel, run.dtype, sizes, wrong) == ("contraction", "bf16", (64, 8192, 8192), "")
    assert where == f"line {2 + header.count(chr(10))}"
    assert seconds == pytest.approx(51e-6)


@pytest.mark.parametrize(("name", "cell"), [("TFLOPS", "168.5"), ("GFLOP/s", "168459"), ("tflops/s", "168.5")])
def test_the_time_of_a_product_follows_from_its_rate_where_it_has_no_other(name: str, cell: str) -> None:
    row = {"m": 64, "n": 8192, "k": 8192, "batch_count": 2, name: cell}
    (read,) = read_kernels([row], chip("h100"))
    assert read.seconds == pytest.approx(102e-6, rel=1e-3)
    assert read.unread == ()
    (read,) = read_kernels([{**row, "us": 51}], chip("h100"))
    assert (read.seconds, read.unread) == (51e-6, (name.lower(),))


@pytest.mark.parametrize("take", some([calibrate, held_accuracy], 2))
def test_bf16_is_said_where_rows_have_no_format(take: Any) -> None:
    each = zip(SHAPES, times("h100"), strict=True)
    rows = [{"m": m, "n": n, "k": k, "us": 1e6 * time} for (m, n, k), time in each]
    assert take(rows, on="h100").assumptions == ("bf16 where no dtype is stated",)
    assert take([{**row, "dtype": "bf16"} for row in rows], on="h100").assumptions == ()


def test_columns_say_the_format_of_each_operand() -> None:
    """A plain format is of both operands, as fp8 is; weights in few bits beside bf16 have names of their own."""
    sizes, machine = {"m": 4096, "n": 4096, "k": 4096, "us": 110}, chip("h100")
    for cells, line in (
        ({"dtype": "int8"}, "int8[4096, 4096] * int8[4096, 4096] -> bf16[4096, 4096]"),
        ({"dtype": "int8_wo"}, "bf16[4096, 4096] * int8[4096, 4096]"),
        ({"dtype": "int4"}, "bf16[4096, 4096] * int4[4096, 4096]"),
        ({"activation_dtype": "bf16", "weight_dtype": "int8"}, "bf16[4096, 4096] * int8[4096, 4096]"),
        ({"a_dtype": "int8", "b_dtype": "int8", "out_dtype": "int32"}, "int8[4096, 4096] * int8[4096, 4096]"),
        ({"dtype": "fp8", "out_dtype": "fp16"}, "fp8[4096, 4096] * fp8[4096, 4096] -> fp16[4096, 4096]"),
        ({"dtype": "bf16", "weights": "fp8"}, "bf16[4096, 4096] * fp8[4096, 4096]"),
    ):
        ((run, *_),) = read_kernels([sizes | cells], machine)
        (same,) = kernels_of(bound(line, on=machine))
        wide = {"out_bytes": 4.0} if cells.get("out_dtype") == "int32" else {}
        assert (run.kernel, run.dtype, run.path) == (same.kernel, same.dtype, same.path)
        assert run.shapes == {**same.shapes, **wide}
        (point,) = roofline.profile([sizes | cells], on="h100")
        assert point.run.name == (line + " -> int32[4096, 4096]" if wide else line)
    (point,) = roofline.profile([{**sizes, "dtype": "int8"}], on="h100")
    assert point.fraction == pytest.approx(2 * 4096**3 / 1979e12 / 110e-6, rel=1e-3)
    (point,) = roofline.profile([sizes | {"us": 220}], on="h100")
    assert "bf16 where no dtype is stated" in point.assumptions
    with pytest.raises(InputError, match="b_dtype stands alone; a_dtype and b_dtype, or one of them beside dtype"):
        read_kernels([{**sizes, "weight_dtype": "fp8"}], machine)
    row = {"batch": 8, "heads": 32, "kv_heads": 8, "head_size": 128, "length": 4096, "us": 61}
    kernels = read_kernels([row, {**row, "kv_cache_dtype": "fp8_e4m3"}, {**row, "dtype": "fp8", "kv": ""}], machine)
    assert [one.run.shapes["kv_bytes"] for one in kernels] == [2, 1, 1]


@pytest.mark.parametrize("queries", [1, 4, 16, 17, 512])
def test_attention_in_shapes_is_the_kernel_that_its_line_names(queries: int) -> None:
    """A few tokens after many run as one does, however they are written."""
    sizes = dict(zip(("batch", "heads", "kv_heads", "head_size", "length"), (2, 32, 8, 128, 4096), strict=True))
    row = {name: str(size) for name, size in sizes.items()} | {"q_length": str(queries), "us": "1e5"}
    told = {"expression": row_expression(row), "us": "1e5"}
    by_shapes, by_line = (one.run for one in read_kernels([row, told], chip("h100")))
    assert (by_shapes.kernel, by_shapes.path) == (by_line.kernel, by_line.path)
    assert by_shapes.shapes == by_line.shapes


def test_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    rows = [
        {"m": m, "n": n, "k": k, "us": 1e6 * time, "p99_us": 900, "tflops": 7, "flops": 1, "note": "", "dtype": "bf16"}
        for (m, n, k), time in zip(SHAPES, times("h100"), strict=True)
    ]
    said = "columns that are not read: p99_us and tflops"
    assert held_accuracy(rows, "h100").assumptions == calibrate(rows, "h100").assumptions == (said,)
    assert said in " ".join(str(held_accuracy(rows, "h100")).split())
    assert roofline.profile(rows, on="h100").to_dict()["notes"] == [said]
    assert any(said in note for note in roofline.plot(on="h100", measured=rows).notes)
    assert held_accuracy(written(tmp_path / "mine.csv", times("h100")), "h100").assumptions == ()


@pytest.mark.parametrize(("size", "hint"), [("4k", "4000, or 4Ki: 4096"), ("2 M", "2000000, or 2Mi: 2097152")])
def test_a_size_that_may_be_of_thousands_or_of_1024s_is_asked_about(size: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"m is {size}, of thousands or of 1024s; {hint}"):
        read_kernels([{"m": size, "n": 64, "k": 64, "us": 5}], chip("h100"))


def test_attention_goes_by_the_names_others_give(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("batch_size,num_heads,num_kv_heads,head_dim,seq_len,latency_us\n8,64,8,256,4096,61.2\n")
    ((run, seconds, *_),) = read_kernels(path, chip("h100"))
    assert (run.kernel, run.path) == ("decode_attention", "shared key heads, windows, wide heads or large groups")
    assert seconds == pytest.approx(61.2e-6)


def test_rows_that_cannot_be_read_are_counted_unless_none_can(tmp_path: Path) -> None:
    odd = "1,2,,bf16,1e-5\n1,2,3,bf16,\n1,2,3,bf16,x\n1,2,3,bf16,-1\n1,2,3,bf61,1\n"
    found = held_accuracy(written(tmp_path / "odd.csv", times("h100"), odd), "h100")
    assert dict(found.rejected) == {
        "no kernel is named": 1,
        "no time": 1,
        "time is no number above 0": 2,
        "unknown dtype 'bf61'": 1,
    }
    first = len(SHAPES) + 2  # behind the line of names and those that can be
    assert f"2 rows: time is no number above 0 (lines {first + 2} and {first + 3})" in str(found)
    assert found.to_dict()["left_out"]["no time"] == [f"line {first + 1}"]
    assert found.kinds[0].errors.count == len(SHAPES)
    path = tmp_path / "none.csv"
    path.write_text("m,n,k,time\n1,2,3,4\n")
    said = r"none.csv, line 2: time has no unit; a column seconds, ms or us, as in latency_us"
    with pytest.raises(InputError, match=said):
        held_accuracy(path, "h100")


def test_the_step_of_a_timer_is_seen() -> None:
    assert timer_step([3e-6, 5e-6, 11e-6]) == 1e-6
    assert timer_step([3.37e-6, 5.21e-6]) == 0.0
    assert timer_step([5e-6]) == 0.0


def test_ten_rows_move_the_constants_of_the_nearest_chip(moved: tuple[Path, Calibration]) -> None:
    _, found = moved
    (one,) = found.fitted
    assert one.before.mdape > 0.15 > 0.08 > one.after.mdape
    assert found.started_from == ("h100 vllm (its generation)",)


@pytest.mark.long
@pytest.mark.usefixtures("to_the_end")
def test_rows_are_dicts_in_python_too(moved: tuple[Path, Calibration]) -> None:
    rows = [
        {"m": m, "N": np.int64(n), "k": k, "dtype": "bf16", "latency_us": 1e6 * time, "library": None}
        for (m, n, k), time in zip(SHAPES, times("h200", 1.3), strict=True)
    ]
    found = calibrate(rows, "h200").fitted[0]
    (of_file,) = moved[1].fitted
    assert found.constants.values == pytest.approx(of_file.constants.values, rel=1e-3)
    assert held_accuracy(rows, "h200").kinds[0].errors.count == len(SHAPES)


def test_a_row_of_another_kind_is_told_what_a_row_is() -> None:
    said = r"runs\[0\] is \(64, 8192, 8192, 5e-05\), and each row is a dict; .*\"m\": 64, .* times are seconds"
    with pytest.raises(InputError, match=said):
        calibrate([(64, 8192, 8192, 5e-5)] * 5, "h100")  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"runs\[0\] is 'm', and each row is a dict; .*; a frame has to_dict"):
        calibrate({"m": 64, "n": 64, "k": 64, "us": 9}, "h100")  # type: ignore[arg-type]
    mixed: list[Any] = [{"batch": 8, "prompt": 64, "output": 64, "tpot_ms": 9}, 3]
    said = r"runs\[1\] is 3, and each row is a dict; \[\{\"batch\": 16, .*\"tpot_ms\": 9.4"
    with pytest.raises(InputError, match=said):
        calibrate(mixed, "h100", model="llama-3-8b")
    with pytest.raises(InputError, match=r"runs\[0\]: no time; a column seconds, ms or us"):
        calibrate([{"m": 64, "n": 64, "k": 64}], "h100")


def test_a_file_of_constants_is_one_path_or_several(moved: tuple[Path, Calibration], tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    moved[1].save(str(path))
    line = "bf16[64, 4096] @ bf16[4096, 4096]"
    found = [bound(line, on="h200", estimate=True, constants=each).estimate for each in (str(path), path, [path])]
    assert found[0] == found[1] == found[2] != bound(line, on="h200", estimate=True).estimate


def test_rows_that_cannot_be_are_counted_under_their_reason(tmp_path: Path) -> None:
    """A format that the chip has no units for, and sizes that are none."""
    more = "4096,4096,4096,nvfp4,0.001\n256,5e-324,4096,bf16,0.001\n256,64.5,4096,bf16,0.001\n"
    found = calibrate(written(tmp_path / "mine.csv", times("h100", 1.3), more), "h100")
    assert found.rejected["the data sheet has no peak for its format"] == 1
    assert found.rejected["n is no whole number"] == 2


SERVED = """batch,prompt,output,tpot_ms,ttft_ms
4,1024,1024,9.11,70
16,1024,1024,11.2,
32,1024,1024,12.9,
64,1024,1024,15.45,
16,1024,8192,11.58,
64,1024,8192,0.016,
"""
LAYOUT = {"on": "h100:8", "tensor": 8, "weights": "fp8", "activations": "fp8"}


def test_steps_of_a_framework_move_to_served_runs(tmp_path: Path) -> None:
    """Published runs of vLLM (ai-dynamo/aiconfigurator), the last one with its time in a wrong unit."""
    path = tmp_path / "served.csv"
    path.write_text(SERVED)
    found = calibrate_served(path, "llama-3.1-70b", **LAYOUT)
    (one,) = found.fitted
    assert one.constants.key[:5] == ("h100", "served_step", "fp8", "vllm", "dense")
    assert one.after.count == 5
    assert one.after.mdape < 0.1
    assert [where for why, where in found.left_out.items() if "faster than its bound" in why] == [["line 7"]]
    found.save(tmp_path / "mine.toml")
    asked = serve("llama-3.1-70b", batch=16, prompt=1024, **LAYOUT)
    token = estimated(asked, "vllm", files=[str(tmp_path / "mine.toml")], output=1024).expectation.time_per_token
    assert token.value == pytest.approx(11.2e-3, rel=0.1)
    path.write_text("batch,prompt,tpot_ms\n4,1024,9.1\n")
    with pytest.raises(InputError, match=r"served\.csv: no column output; batch, prompt, output and tpot_ms of"):
        calibrate_served(path, "llama-3.1-70b", **LAYOUT)


@pytest.mark.long
@pytest.mark.usefixtures("to_the_end")
def test_steps_without_prefills_are_of_their_context_alone(tmp_path: Path) -> None:
    """Times of a framework 1.2 times as slow; taken as runs with an output they would need prefills at no time."""
    asked = {(n, c): serve("llama-3.1-70b", batch=n, context=c, **LAYOUT) for n in (1, 8, 64) for c in (512, 4096)}
    expected = {each: estimated(one, "vllm").expectation.time_per_token for each, one in asked.items()}
    rows = [{"batch": n, "context": c, "ms": 1200 * one.value} for (n, c), one in expected.items()]
    found = calibrate_served(rows, "llama-3.1-70b", **LAYOUT)
    (one,) = found.fitted
    assert one.constants.values["prefill_factor"] == expected[1, 512].source.values["prefill_factor"]
    assert [one.before.bias, one.after.bias] == pytest.approx([1 / 1.2 - 1, 0.0], abs=0.03)
    assert found.assumptions == ("the time of a step at a context holds no prefill",)
    runs = [
        {"batch": n, "prompt": c, "output": 64, "tpot_ms": row["ms"]} for (n, c), row in zip(asked, rows, strict=True)
    ]
    shown = " ".join(str(calibrate_served([*runs, {**runs[-1], "tpot_ms": 60}], "llama-3.1-70b", **LAYOUT)).split())
    assert "of their time alone: times without prefills have a context in place of prompt and output" in shown
    assert (
        "the time between tokens of a run holds prefills of other requests, (batch − 1)/output of them a step" in shown
    )
    odd = calibrate_served([*rows * 3, {**rows[3], "ms": 2 * rows[3]["ms"]}], "llama-3.1-70b", **LAYOUT)
    assert odd.fitted[0].outside[0][0] == odd.to_dict()["fitted"][0]["outside"][0] == "runs[18]"
    assert "of 19 runs of served step, dense in fp8 lie" in (said := " ".join(str(odd).split()))
    assert "outside the interval of 80% of their own constants, furthest runs[18]: " in said


@pytest.mark.usefixtures("to_the_end")
def test_ten_steps_of_a_slower_host_move_its_time_a_sequence() -> None:
    """Steps of a host that takes eight times as long a sequence, with a ripple of five percent."""
    record = next(one for one in shipped("served_step", chip="h100", library="vllm", path="dense") if not one.version)
    batch, context = np.array([1, 8, 64, 1, 8, 64, 4, 16, 32, 128], float), np.resize([1024, 8192], 10)
    shapes = {"batch": batch, "decode": 5e-3 + 4e-9 * batch * context, "kernels": np.full(10, 400.0)}
    shapes["mixed"] = batch * np.resize([4e-5, 1e-5, 2e-5], 10)
    there = {**record.values, "request_time": 8 * record.values["request_time"]}
    seconds = KERNELS[record.kernel].times(shapes, NO_CHIP, there, "") * (1 + 0.05 * np.cos(np.arange(10)))
    found = refitted([(record, 1.0)], Rows(shapes, seconds, NO_CHIP), "h100", "vllm", [""] * 10)
    assert found.constants.values["request_time"] == pytest.approx(there["request_time"], rel=0.07)


def test_each_row_of_a_table_is_of_the_kind_of_its_filled_cells(tmp_path: Path) -> None:
    """A table of served runs and of steps by themselves says of each what a list of dicts says."""
    served = [{"batch": n, "prompt": 1024, "output": 1024, "tpot_ms": ms} for n, ms in ((4, 9.1), (16, 11.2), (64, 15))]
    steps = [{"batch": n, "context": 2048, "ms": ms} for n, ms in ((4, 9), (32, 11), (64, 13.5))]
    names = ("batch", "prompt", "output", "tpot_ms", "context", "ms")
    lines = [",".join(str(row.get(name, "")) for name in names) for row in (*served, *steps)]
    (path := tmp_path / "both.csv").write_text("\n".join([",".join(names), *lines]))
    ours, theirs = (calibrate_served(each, "llama-3.1-70b", **LAYOUT) for each in (path, [*served, *steps]))
    assert ours.left_out == theirs.left_out == {}
    assert ours.fitted[0].constants.values == theirs.fitted[0].constants.values
    assert len(ours.assumptions) == 2


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("batch,kk,ms", "served.csv: no column context; batch, prompt, output and tpot_ms of runs, or batch, context"),
        ("batch,prompt,tpot_ms", "served.csv: no column output; "),
        ("batch,tpot_s,prompt,output_tokens", "served.csv: no column output; "),
        ("concurrency,isl,osl,tpot", r"served.csv: no column tpot_ms \(tpot has no unit\); "),
        ("gpu,time", "served.csv: no columns batch, context and ms; "),
    ],
)
def test_all_columns_that_a_table_of_steps_lacks_are_named_at_once(header: str, said: str, tmp_path: Path) -> None:
    (path := tmp_path / "served.csv").write_text(f"{header}\n{','.join('3' * (header.count(',') + 1))}\n")
    with pytest.raises(InputError, match=said):
        calibrate_served(path, "llama-3.1-70b", **LAYOUT)
    with pytest.raises(
        InputError, match=r"runs\[0\]: the row lacks context and ms; batch, prompt, output and tpot_ms of"
    ):
        calibrate_served([{"batch": 8}], "llama-3.1-70b", **LAYOUT)


def test_served_runs_as_people_have_them_are_read(tmp_path: Path) -> None:
    """Columns of a benchmark, rows of other chips and models, rows that cannot be read, times in another unit."""
    path = tmp_path / "served.csv"
    rows = [f"H100 SXM,llama-3.1-70b,{n},1024,1024,{9 + n / 8}" for n in (1, 4, 16, 32)]
    odd = ["A100,llama-3.1-70b,1,1024,1024,19", "H100 SXM,llama-3-8b,1,1024,1024,2", "H100 SXM,,x,1024,1024,9"]
    odd += ["H100 SXM,,8,1024,1024,9400", "H100 SXM,,8,1024,1,9"]
    path.write_text("gpu,model,max_concurrency,input_len,output_len,Mean TPOT (ms)\n" + "\n".join([*rows, *odd]) + "\n")
    found = calibrate_served(path, "llama-3.1-70b", **LAYOUT)
    assert found.fitted[0].after.count == 4
    assert found.rejected == {
        "measured on another chip, a100": 1,
        "measured with another model, llama-3-8b": 1,
        "max_concurrency is no number above 0": 1,
        "served step over 50 times its bound: another unit": 1,
        "an answer of one token has no time between tokens": 1,
    }
    asked = "gpu,model,max_concurrency,random_input_len,random_output_len,p99_itl_ms,mean_itl_ms\n"
    path.write_text(asked + "\n".join(f"{row.rpartition(',')[0]},99,{row.rpartition(',')[2]}" for row in rows) + "\n")
    assert calibrate_served(path, "llama-3.1-70b", **LAYOUT).fitted[0].after == found.fitted[0].after
    path.write_text("gpu,batch,prompt,output,tpot_ms\nA100,1,1024,1024,9\n")
    with pytest.raises(InputError, match="line 2: measured on another chip, a100; rows of h100"):
        calibrate_served(path, "llama-3.1-70b", **LAYOUT)
    path.write_text("batch,prompt,output,tpot\n1,1024,1024,9\n")
    with pytest.raises(InputError, match=r"served\.csv: no column tpot_ms \(tpot has no unit\)"):
        calibrate_served(path, "llama-3.1-70b", **LAYOUT)
    path.write_text("model,batch,prompt,output,tpot_ms\nllama-3-8b,1,1024,1024,9\n")
    with pytest.raises(InputError, match=r"line 2: measured with another model, llama-3-8b; rows of llama-3.1-70b"):
        calibrate_served(path, "llama-3.1-70b", **LAYOUT)


def test_steps_keep_the_format_that_was_served(tmp_path: Path) -> None:
    """Constants start from those of fp8 steps, and are of bf16: the answer says nothing of another format."""
    path = tmp_path / "served.csv"
    path.write_text("batch,prompt,output,tpot_ms\n" + "".join(f"{n},1024,256,{12 + n / 5}\n" for n in (1, 4, 16, 64)))
    layout = {"on": "h200:8", "tensor": 8}
    found = calibrate_served(path, "llama-3-70b", **layout)
    assert [one.constants.dtype for one in found.fitted] == ["bf16"]
    assert found.started_from == ("h200 vllm (steps in fp8, drawn to all runs that vllm was measured with)",)
    found.save(tmp_path / "mine.toml")
    asked = serve("llama-3-70b", batch=16, context=1152, **layout)
    said = estimated(asked, "vllm", files=[str(tmp_path / "mine.toml")]).expectation.time_per_token
    assert said.basis == "h200 vllm bf16 dense with bf16 cache"
    assert "none was measured" not in said.in_words("a token")
    for kv, cache in (("fp8_e4m3", "fp8 cache"), ("int8", "")):
        assert calibrate_served(path, "llama-3-70b", kv=kv, **layout).constants[0].policy == cache
    mixture = serve("deepseek-v3", on="h200:8", tensor=8, batch=32, context=4096)
    told = estimated(mixture, "vllm").expectation.time_per_token.in_words("a token")
    assert "none was measured" not in told


def test_options_of_serving_need_a_model(tmp_path: Path) -> None:
    words = [str(tmp_path / "x.csv"), "--on", "h100", "--tensor", "8"]
    with pytest.raises(InputError, match="tensor= is of a model"):
        CliRunner().invoke(calibrate_command, words, catch_exceptions=False)


@pytest.mark.usefixtures("to_the_end")
def test_a_chip_whose_vendor_has_no_constants_gets_its_own_from_ten_rows(tmp_path: Path) -> None:
    """Times of a chip with its own launch and rates, as a file of ``roofline run --csv`` holds them."""
    peak, rate, launch = 6e14, 4e12, 8e-6
    lines = ["name,flops,bytes,seconds,dtype"]
    for m, n, k in SHAPES:
        flops, moved = 2 * m * n * k, 2 * (m * k + k * n + m * n)
        lines.append(
            f'"bf16[{m}, {k}] @ bf16[{k}, {n}]",{flops},{moved},{max(flops / peak, moved / rate) + launch},bf16'
        )
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(lines) + "\n")
    found = calibrate(path, "mi300x", library="vllm")
    (one,) = found.fitted
    assert found.started_from == ("typical values",)
    assert one.after.mdape < 0.08 < one.before.mdape
    found.save(tmp_path / "mine.toml")
    line = bound("bf16[128, 4096] @ bf16[4096, 8192]", on="mi300x")
    assert estimated(line).estimate is None
    own = estimated(line, files=[str(tmp_path / "mine.toml")])
    assert own.estimate == pytest.approx(2 * (128 * 4096 + 4096 * 8192 + 128 * 8192) / rate + launch, rel=0.15)
    elsewhere = estimated(bound("bf16[128, 4096] @ bf16[4096, 8192]", on="h100"), files=[str(tmp_path / "mine.toml")])
    assert elsewhere.expectation.kernels[0].basis == "h100 vllm"


TRACE = Path(__file__).parents[1] / "data" / "torch_trace_products.json"
"""An export of torch.profiler (torch 2.13.0, one thread): nine products, each three times; operations are kept."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The machine file of a made-up processor."""
    path, whole = tmp_path_factory.mktemp("machine") / "this.toml", made()
    tables = [one for one in whole.shapes if one.dtype == "fp32"]
    few = tuple(
        replace(one, points=tuple(point for point in one.points if point[0] in (12, 192, 768))) for one in tables
    )
    write_machine_file(replace(whole, shapes=few), path)
    return str(path)


@pytest.mark.usefixtures("to_the_end")
def test_a_trace_of_torch_makes_constants(here: str) -> None:
    machine = chip(f"{here}#this")
    kernels = measured_kernels(TRACE, machine)
    assert len(kernels) == 9
    assert all(one.where for one in (*kernels, *measured_kernels(here, machine)))  # each row has a name to be told by
    assert {(one.run.kernel, one.run.dtype) for one in kernels} == {("contraction", "fp32")}
    assert sorted((one.run.shapes["m"], one.run.shapes["n"]) for one in kernels)[:2] == [(8, 256), (8, 512)]
    found = calibrate(kernels, machine, library="torch")
    (one,) = found.fitted
    assert one.constants.library == "torch"
    assert one.constants.error["n_fit"] + sum(found.rejected.values()) == 9
    assert one.after.mdape < one.before.mdape


def test_a_measured_machine_makes_its_own_constants(here: str, tmp_path: Path) -> None:
    """The made-up library takes a call and the FLOPs at its best rate; large products are expected so."""
    mine = tmp_path / "mine.toml"
    words = [here, "--on", f"{here}#this", "-o", str(mine), "--json"]
    data = json.loads(CliRunner().invoke(calibrate_command, words, catch_exceptions=False).stdout)
    assert [(one["constants"]["kernel"], one["constants"]["dtype"]) for one in data["fitted"]] == [
        ("contraction", "fp32")
    ]
    line = bound("fp32[768, 3072] @ fp32[3072, 3072]", on=f"{here}#this")
    found = estimated(line, files=[str(mine)])
    assert found.estimate == pytest.approx(CALL + line.flops / 256e9, rel=0.15)
    assert found.expectation.kernels[0].basis.startswith("this")


def test_measured_runs_stand_beside_what_their_kind_usually_takes(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    names = [f"bf16[{m}, {k}] @ bf16[{k}, {n}]" for m, n, k in SHAPES]
    rows = [*zip(names, times("h100"), strict=True), (names[0], 1e-2), ("x", 1e-3)]
    path.write_text("name,flops,bytes,seconds\n" + "".join(f'"{name}",1e9,1e9,{time}\n' for name, time in rows))
    words = [str(path), "--on", "h100", "--estimate"]
    data = json.loads(CliRunner().invoke(profile_command, [*words, "--json"], catch_exceptions=False).output)
    known = [point["expected"] for point in data["points"] if "expected" in point]
    assert len(known) == len(SHAPES) + 1
    assert [one["unusual"] for one in known] == [True, *(False for _ in SHAPES)]
    assert all(one["low"] < one["time"] < one["high"] and one["basis"] == "h100 vllm" for one in known)
    text = " ".join(CliRunner().invoke(profile_command, words).output.split())
    assert "slower than its kind usually is" in text
    assert "nothing is expected of 1 of 12 runs" in text
    assert "expected" not in json.loads(CliRunner().invoke(profile_command, [*words[:3], "--json"]).output)["points"][0]


def test_constants_start_from_one_chip_that_is_named(tmp_path: Path) -> None:
    """Also from one of another generation, which alone stands behind no expectation."""
    path = written(tmp_path / "mine.csv", times("h200"))
    assert calibrate(path, "h200", start="h100+vllm").started_from == ("h100 vllm (its generation)",)
    assert calibrate(path, "h200", start="a100+trtllm").started_from == ("a100 trtllm (another generation)",)
    with pytest.raises(InputError, match="no constants of vllm on 'h10'; did you mean 'h100'"):
        calibrate(path, "h200", start="h10+vllm")
    with pytest.raises(InputError, match=r"constants of b60\+vllm say nothing of contraction on h200"):
        calibrate(path, "h200", start="b60+vllm")


@pytest.mark.parametrize(("library", "start"), [("sglang", "sglang"), ("my-own", "vllm")])
def test_constants_start_from_the_library_that_ran(tmp_path: Path, library: str, start: str) -> None:
    """On a chip without constants every chip behind the expectation is a start."""
    rows = "".join(f"{batch},32,8,128,4096,bf16,{40 + 4 * batch}.3\n" for batch in (1, 3, 9, 20, 40))
    path = tmp_path / "mine.csv"
    path.write_text("batch,heads,kv_heads,head_size,length,dtype,us\n" + rows)
    chips = ("h100", "a100", "rtx-pro-6000", "l40s")
    *others, last = (f"{key} {start}" for key in chips)
    wanted = f"{', '.join(others)} and {last} (another generation)"
    assert calibrate(path, "b200", library=library).started_from == (wanted,)


def test_a_window_of_attention_is_read() -> None:
    """Over a window kernels of their own run; a window as long as the sequence is none."""
    row = {"batch": 32, "heads": 32, "kv_heads": 8, "head_size": 128, "length": 32768, "us": 40.0}
    whole, same, narrow = (
        read_kernels([{**row, "sliding_window": window}], chip("h100")) for window in (-1, 32768, 512)
    )
    assert whole[0].run.shapes == same[0].run.shapes
    assert narrow[0].run.shapes["window"] == 512
    assert narrow[0].run.path.endswith("windows, wide heads or large groups")
    rejected: defaultdict[str, list[str]] = defaultdict(list)
    assert not plausible(whole, chip("h100"), Estimator(), rejected)
    assert len(plausible(narrow, chip("h100"), Estimator(), rejected)) == 1
    assert list(rejected) == ["faster than memory, with data over twice the cache"]


@pytest.mark.parametrize("count", some([3, 4, 5, 6, 8, 9, 12, 30], 3, 1))
def test_an_interval_of_a_few_runs_holds_eight_of_ten_further_ones(count: int) -> None:
    """Of log-normal ratios, over 2,000 draws: the quantiles of five hold but 60%."""
    random = np.random.default_rng(count)
    ratios = np.exp(random.normal(0.1, 0.3, (2000, count + 50)))
    inside = [
        np.mean((row[count:] >= low) & (row[count:] <= high))
        for row in ratios
        for low, high in [interval_of(row[:count])]
    ]
    assert 0.78 <= np.mean(inside) <= 0.83


def test_an_expectation_says_that_its_constants_are_of_own_runs(
    moved: tuple[Path, Calibration], tmp_path: Path
) -> None:
    path, found = moved
    found.save(str(tmp_path / "mine.toml"))
    asked = bound("bf16[64, 8192] @ bf16[8192, 8192]", on="h200", estimate=True, constants=str(tmp_path / "mine.toml"))
    assert f"constants of h200 vllm, from {len(SHAPES)} runs of your own; " in asked.explain()
    (tmp_path / "l40.toml").write_text((tmp_path / "mine.toml").read_text().replace('"h200"', '"l40"'))
    sister = bound("bf16[64, 8192] @ bf16[8192, 8192]", on="rtx-4090", estimate=True, constants=tmp_path / "l40.toml")
    assert f"from {len(SHAPES)} runs of your own (its generation)" in sister.explain()
    files = {"constants": str(tmp_path / "mine.toml")}
    held = held_accuracy(str(path), "h200", **files)
    shipped = held_accuracy(str(path), "h200")
    for answer in (asked, found, held, roofline.accuracy("h200", **files)):  # which errors these are, in the same words
        assert LEFT_OUT in " ".join(str(answer).split())
    assert "not fitted to" not in str(asked)
    assert LEFT_OUT not in " ".join(str(shipped).split())


def test_constants_are_taken_as_they_were_fitted_or_from_their_file(tmp_path: Path) -> None:
    rows = [{"m": m, "n": 4096, "k": 4096, "us": 900 + m * 2.1} for m in (64, 128, 256, 512, 1024, 2048)]
    found, file, line = calibrate(rows, "t4"), tmp_path / "mine.toml", "fp16[1024, 4096] * fp16[4096, 4096]"
    found.save(file)
    shipped = roofline.bound(line, on="t4", estimate=True).estimate
    for own in (found, [found], [str(file), found]):
        estimate = roofline.bound(line, on="t4", estimate=True, constants=own).estimate
        assert estimate == pytest.approx(
            roofline.bound(line, on="t4", estimate=True, constants=file).estimate, rel=1e-3
        )
        assert estimate != pytest.approx(shipped, rel=0.1)
    assert roofline.plot(line, on="t4", estimate=True, constants=found).lines
    told = roofline.accuracy("t4", constants=found, runs=rows)
    assert str(told) == str(roofline.accuracy("t4", files=[found], data=rows))  # words that it had before
    assert str(roofline.accuracy("h100", op="gemm")) == str(roofline.accuracy("h100", kernel="gemm"))
    told = str(roofline.accuracy("t4", constants=found, op="gemm"))
    assert "vllm, your own" in told
    assert "your own constants, from 6 runs, m 64 to 2048" in told
    with pytest.raises(InputError, match="3 holds no constants; a file that roofline calibrate wrote, or what"):
        roofline.accuracy("t4", constants=3)
    with pytest.raises(InputError, match="constants is 3, and takes text or PathLike or Calibration or a list of text"):
        roofline.bound(line, on="t4", estimate=True, constants=3)


@pytest.mark.usefixtures("to_the_end")
def test_a_row_far_off_the_others_is_left_out_and_says_so() -> None:
    """One of ten times is ten times too long: the others are fitted, as without it."""
    rows = [
        dict(zip(("m", "n", "k", "seconds"), (*sizes, time), strict=True))
        for sizes, time in zip(SHAPES, times("h200", 1.1), strict=True)
    ]
    odd = [*rows[:-1], {**rows[-1], "seconds": rows[-1]["seconds"] * 10}]
    found, without = calibrate(odd, on="h200"), calibrate(rows[:-1], on="h200")
    ((why, count),) = found.rejected.items()
    assert count == 1
    assert "than the other rows tell" in why
    assert found.left_out[why] == [f"runs[{len(rows) - 1}]"]
    assert found.constants[0].values == without.constants[0].values


@pytest.mark.usefixtures("to_the_end")
@pytest.mark.long
def test_rows_that_bring_no_gain_say_so() -> None:
    """Times that differ by no rule tell nothing of other sizes."""
    sizes = [*zip(SHAPES, times("h100"), strict=True)]
    for factors, gain in ((np.full(10, 1.5), True), (np.resize([1.0, 1.7, 0.9], 10), False)):
        rows = [
            dict(zip(("m", "n", "k", "seconds"), (*one, time * factor), strict=True))
            for (one, time), factor in zip(sizes, factors, strict=True)
        ]
        found = calibrate(rows, on="h100")
        assert (found.fitted[0].after.mdape < found.fitted[0].before.mdape) is gain
        assert ("above that before" in str(found)) is not gain


@pytest.mark.parametrize("on", some(["h100", "b200"], 2))
def test_runs_that_a_fit_is_far_off_leave_the_constants_that_it_started_from(on: str, monkeypatch: Any) -> None:
    """Fits to four of five are over twice as far off the fifth as the start is; of several starts their mean stays."""
    monkeypatch.setattr(calibration, "fit_from_few", off := Mock(wraps=fit_from_few))
    sizes = zip(SHAPES[:5], times(on), strict=False)
    rows = [dict(zip(("m", "n", "k", "seconds"), (*one, time), strict=True)) for one, time in sizes]
    (well,) = calibrate(rows, on=on).fitted
    off.side_effect = lambda *given, **more: replace(
        moved := fit_from_few(*given, **more), values={**moved.values, "launch_time": 5e-5}
    )
    found = calibrate(rows, on=on)
    (one,) = found.fitted
    assert (well.kept, one.kept, found.to_dict()["fitted"][0]["kept"]) == (False, True, True)
    assert "over twice that before: the constants it started from stay" in " ".join(str(found).split())
    assert one.after.mape < 1.2 * one.before.mape
    (run,) = kernels_of(bound("bf16[16, 4096] @ bf16[4096, 4096]", on=on))
    starts = [source for source, _ in Estimator().sources(run, chip(on))]
    for name, value in one.constants.values.items():
        each = [start.values[name] for start in starts]
        assert min(each) * 0.999 <= value <= max(each) * 1.001


def test_a_zero_with_a_sign_in_a_file_of_constants_is_zero(tmp_path: Path) -> None:
    record = 'chip = "h100"\nkernel = "eager_kernel"\ndtype = "any"\nlibrary = "x"\ninterval = [[-0.0, 1]]\n'
    figures = "[constants.values]\nhost_time = 1e-6\n[constants.figures]\nmatrix_peak = -0.0\n"
    file = tmp_path / "own.toml"
    file.write_text(f'schema = "roofline/constants/1"\n[[constants]]\n{record}{figures}')
    (found,) = read_constants(file)
    assert "-0" not in str((found.figures, found.interval))
