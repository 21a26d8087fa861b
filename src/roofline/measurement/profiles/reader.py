"""Reads a file of any profiler. The content tells which profiler wrote it; the file's name does not matter."""

from __future__ import annotations

import os
from collections.abc import Sequence
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
    """Read a trace of torch.profiler, a CSV of Nsight Compute, or rows of your own: FLOPs and bytes, or shapes."""
    name = os.fspath(path)
    content = read_bytes(name, "trace").lstrip(b"\xef\xbb\xbf \t\r\n")
    if not content:
        raise InputError(f"{name} is empty", hint="give a trace of torch.profiler or a CSV file")
    if content[:1] in (b"{", b"["):
        return read_torch_trace(name)
    nsight = b"Kernel Name" in content and holds_nsight(content.decode("utf-8", "replace").splitlines())
    return read_nsight(name) if nsight else Profile(read_measured(name), own=True)


@estimable
@takes(target)
def profile(
    path: str | os.PathLike[str] | Sequence[Any], *, on: str | Machine, top: int | None = None, **options: Any
) -> MeasuredPoints:
    """Put what a profiler saw, or rows of your own, under a machine's roof; ``top`` keeps as many runs.

    ``path`` is what :func:`read_profile` reads, or a list of rows as :func:`roofline.calibrate` takes them. Of a
    profiler's runs the longest come first, of rows those that lose most time above their floors. A run that says that
    it ran on another machine is an error. The rest are options of the target, as in :func:`roofline.bound`.

    >>> rows = [{"m": 64, "n": 8192, "k": 8192, "us": 96}, {"m": 4096, "n": 4096, "k": 4096, "seconds": 6.2e-4}]
    >>> frame = profile(rows, on="a100", estimate=True).to_pandas()
    >>> frame[["fraction", "bound_by"]].round(2).values.tolist()
    [[0.71, 'tensor'], [0.7, 'hbm']]
    """
    check_top(top, "runs")
    machine = target(on, **options)
    found = read_profile(path) if isinstance(path, str | os.PathLike) else Profile(read_measured(path), own=True)
    runs = sorted(found.runs, key=lambda run: -run.seconds)
    for run in runs:
        check_ran_on(run, machine)
    if found.own:
        points = sorted(points_of(runs, machine), key=lambda point: -point.lost)
        return MeasuredPoints(points[:top], machine, found)
    return MeasuredPoints(points_of(runs[:top], machine), machine, found)
