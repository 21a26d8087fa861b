"""A profiler's file → runs, whatever profiler it is from: known by its content, not by its name."""

from __future__ import annotations

import csv
import os

from roofline.errors import InputError
from roofline.measurement.nsight import is_nsight, read_nsight
from roofline.measurement.runs import read_measured
from roofline.measurement.torch_trace import Imported, read_torch_trace

#: Lines at the head of a file in which a report of Nsight Compute shows itself.
_HEAD = 40


def read_profile(path: str | os.PathLike[str]) -> Imported:
    """Read a trace of torch.profiler, a CSV of Nsight Compute, or a CSV of ``name,dtype,flops,bytes,seconds``."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            first = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
        if not first:
            raise InputError(f"{name} is empty", hint="give a trace of torch.profiler or a CSV file")
        if first[:1] in (b"{", b"[") or first[:2] == b"\x1f\x8b":
            return read_torch_trace(name)
        with open(name, encoding="utf-8-sig", errors="replace", newline="") as file:
            head = [row for row, _ in zip(csv.reader(file), range(_HEAD), strict=False)]
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from None
    except csv.Error:
        head = []
    if any(is_nsight(row) for row in head):
        return Imported(read_nsight(name))
    return Imported(read_measured(name))
