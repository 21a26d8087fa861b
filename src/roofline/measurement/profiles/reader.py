"""Reads a file of any profiler. The content tells which profiler wrote it; the file's name does not matter."""

from __future__ import annotations

import os

from roofline.errors import InputError
from roofline.measurement.profiles.nsight import holds_nsight, read_nsight
from roofline.measurement.profiles.profile import Profile
from roofline.measurement.profiles.torch_profiler import read_torch_trace
from roofline.measurement.runs import read_measured


def read_profile(path: str | os.PathLike[str]) -> Profile:
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
            nsight = holds_nsight(file)
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from None
    return read_nsight(name) if nsight else Profile(read_measured(name))
