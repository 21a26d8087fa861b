"""Reads a file of any profiler. The content tells which profiler wrote it; the file's name does not matter."""

from __future__ import annotations

import os
from typing import Any

from roofline.answers import estimable
from roofline.bounds.api import target
from roofline.errors import InputError
from roofline.files import read_bytes
from roofline.hardware.machine import Machine
from roofline.measurement.points import MeasuredPoints, check_ran_on, points_of
from roofline.measurement.profiles.nsight import holds_nsight, read_nsight
from roofline.measurement.profiles.torch_profiler import read_torch_trace
from roofline.measurement.runs import Profile, read_measured
from roofline.signatures import check_top, takes


@takes()
def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Read a trace of torch.profiler, a CSV of Nsight Compute, or a CSV of ``name,dtype,flops,bytes,seconds``."""
    name = os.fspath(path)
    content = read_bytes(name, "trace").lstrip(b"\xef\xbb\xbf \t\r\n")
    if not content:
        raise InputError(f"{name} is empty", hint="give a trace of torch.profiler or a CSV file")
    if content[:1] in (b"{", b"["):
        return read_torch_trace(name)
    nsight = b"Kernel Name" in content and holds_nsight(content.decode("utf-8", "replace").splitlines())
    return read_nsight(name) if nsight else Profile(read_measured(name))


@estimable
@takes(target)
def profile(
    path: str | os.PathLike[str], *, on: str | Machine, top: int | None = None, **options: Any
) -> MeasuredPoints:
    """Put what a profiler saw under a machine's roof, the longest runs first; ``top`` keeps as many of them.

    ``path`` is what :func:`read_profile` reads. A run that says that it ran on another machine is an error. The rest
    are options of the target, as in :func:`roofline.bound`.
    """
    check_top(top, "runs")
    machine = target(on, **options)
    found = read_profile(path)
    runs = sorted(found.runs, key=lambda run: -run.seconds)
    for run in runs:
        check_ran_on(run, machine)
    return MeasuredPoints(points_of(runs[:top], machine), machine, found)
