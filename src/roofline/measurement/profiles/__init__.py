"""Profiles of other tools: traces of torch.profiler, reports of Nsight Compute, plain tables of runs."""

from __future__ import annotations

import os

from roofline.errors import InputError
from roofline.files import read_bytes
from roofline.measurement.profiles.nsight import holds_nsight, read_nsight
from roofline.measurement.profiles.torch_profiler import holds_torch_trace, read_torch_trace
from roofline.measurement.runs import Profile, own_profile
from roofline.signatures import takes

#: The formats of other tools: whether the bytes of a file are one, and what reads it.
FORMATS = ((holds_torch_trace, read_torch_trace), (holds_nsight, read_nsight))


@takes()
def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Read a trace of torch.profiler, a CSV of Nsight Compute, or rows of your own: FLOPs and bytes, or shapes."""
    name = os.fspath(path)
    content = read_bytes(name, "trace").lstrip(b"\xef\xbb\xbf \t\r\n")
    if not content:
        raise InputError(f"{name} is empty", hint="give a trace of torch.profiler or a CSV file")
    read = next((read for holds, read in FORMATS if holds(content)), None)
    return own_profile(name) if read is None else read(name)
