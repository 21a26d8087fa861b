"""Files of other profilers, files that are no text, columns with units in their heads: what would serve instead."""

from __future__ import annotations

import gzip
import json

import pytest

from roofline.errors import InputError
from roofline.measurement import read_measured, read_profile

HLO = {"ph": "X", "pid": 1, "tid": 2, "ts": 1.0, "dur": 5.0, "name": "dot.3", "args": {"hlo_op": "dot.3"}}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("k.csv", b"Time (%),Total Time (ns),Instances,Avg (ns),Name\n45.0,123,10,12,k\n", "summary of Nsight Systems"),
        ("k.csv", b"Processing [r.sqlite]...\n\nTime (%),Total Time (ns),Instances,Name\n1,1,1,k\n", "with: ncu --csv"),
        ("k.csv", b"Start (ns),Duration (ns),CorrId,Name\n1,2,3,k\n", "table of Nsight Systems"),
        ("k.csv", b'==1== NVPROF is profiling process 1\n"Type","Time(%)"\n', "table of nvprof"),
        (
            "k.csv",
            b'"Index","KernelName","gpu-id","DurationNs"\n0,"k",0,25\n',
            "nor bytes; write it as name,",
        ),
        ("k.csv", b'"Kind","Kernel_Name","Start_Timestamp","End_Timestamp"\n', "table of rocprofv3"),
        ("k.txt", b"-----  -----\n Name  Self CPU %  # of Calls\n", "record_shapes=True instead"),
        ("k.csv", b'"ID","Function Name","Demangled Name"\n"0","k","k"\n', "the window of Nsight Compute; collect it"),
        ("k.ncu-rep", b"NVR\0", "is a report of Nsight Compute; write it as CSV: ncu --import FILE"),
        ("k.xplane.pb", b"\x0a\x90\x04", "a trace of XLA, which holds neither FLOPs nor bytes"),
        ("k.npy", b"\x93NUMPY\0\0", "is no text; write it as name,flops,bytes,seconds"),
        ("k.csv", "name,flops\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        ("k.json", json.dumps({"traceEvents": [HLO]}).encode(), "tells neither shapes nor FLOPs; price the program"),
        ("k.json", b'{"points": [{"name": "a", "flops": 1, "seconds": 1}]}', "runs as JSON; write_runs writes them"),
        ("k.json", b'[{"name": "a", "flops": 1, "bytes": 1, "seconds": 1}]', "else write it as name,flops"),
        ("k.json", b'{"config": 1}', "holds no traceEvents"),
        ("k.json.gz", gzip.compress(json.dumps({"traceEvents": [HLO]}).encode()), "is a trace of XLA"),
    ],
)
def test_a_file_of_another_profiler_says_what_would_serve(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_profile(tmp_path / name)


@pytest.mark.parametrize("between", ["\u202f", "\u00a0", "\u2019"])
def test_a_report_with_spaces_or_apostrophes_between_thousands(tmp_path, between):
    head = '"ID","Kernel Name","gpu__time_duration.sum","dram__bytes.sum"\n"","","ns","byte"\n'
    (tmp_path / "k.csv").write_text(f'{head}"0","k","117{between}344","27{between}595{between}520"\n', encoding="utf-8")
    [run] = read_profile(tmp_path / "k.csv").runs
    assert (run.bytes, run.seconds) == (27595520, pytest.approx(117344e-9))


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("flops (GFLOP)", "the column is flops, with the unit beside each figure, such as 137 GFLOP"),
        ("bytes [MB]", "the column is bytes, with the unit beside each figure, such as 201 MB"),
        ("seconds (ms)", "the column is seconds, with the unit beside each figure, such as 210 us"),
        ("Duration_ns", "duration_ns and seconds are two times of a run; give one"),
        ("Time", "the column is seconds$"),
        ("kernel name", "the column is name$"),
        ("memory time", "columns are: name, flops"),
    ],
)
def test_a_unit_in_the_head_of_a_column_is_told(tmp_path, head, said):
    """``seconds [ms]`` was answered with seconds, which is a thousand times too long."""
    (tmp_path / "runs.csv").write_text(f"{head},flops,bytes,seconds\n", encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read_measured(tmp_path / "runs.csv")
