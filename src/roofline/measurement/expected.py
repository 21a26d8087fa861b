"""Measured times beside expected ones: which runs are slower than their kind usually is, and kernels to calibrate from.

An operation with shapes has an expected time: of a line that ``roofline run`` timed, of a torch.profiler trace, of a
run whose name is an expression. A run of FLOPs and bytes alone has none, for these do not tell its kernel.

The same files calibrate constants (:func:`roofline.estimates.calibrate`): a trace, a machine file of ``roofline
measure``, or a CSV of kernels.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from statistics import median
from typing import Any

from roofline.bounds.api import bound
from roofline.bounds.bound import Bound
from roofline.bounds.case import Case
from roofline.errors import InputError
from roofline.estimates.estimator import Estimator, Expectation, KernelRun, elements_run, kernels_of
from roofline.estimates.own_runs import MeasuredKernel, read_kernels
from roofline.files import read_bytes
from roofline.hardware.machine import Machine
from roofline.hardware.rate import with_choices
from roofline.measurement.machine_file import read_machine_file
from roofline.measurement.profiles.torch_profiler import read_torch_trace
from roofline.measurement.result import Measurement
from roofline.measurement.runs import Measured
from roofline.signatures import takes

#: The table of a machine file that holds a library's products, and the curve that stands for operations of elements.
PRODUCTS, COPY = "library", "copy"


def priced_run(run: Measured, machine: Machine) -> Bound | None:
    """The bound of a run's operation with cold data, which an expectation needs; None where its shapes are unknown."""
    cold = with_choices(machine, over="main")
    if run.op is not None:
        return Case([run.op], cold, name=run.name).answer()
    if "[" not in run.name:
        return None
    try:
        return bound(run.name, on=cold)
    except InputError:
        return None


def expected_time(run: Measured, machine: Machine, estimator: Estimator) -> Expectation | None:
    """What to expect of a run: None where its operation or constants for it are unknown."""
    answer = priced_run(run, machine)
    if answer is None or not answer.ops:
        return None
    found = estimator.expect(answer)
    return found if found.kernels and all(one.source is not None for one in found.kernels) else None


@takes()
def measured_kernels(path: str | os.PathLike[str], machine: Machine) -> list[MeasuredKernel]:
    """Kernels and their seconds from a trace of torch.profiler, a machine file of ``roofline measure`` or a CSV.

    Of a trace the kernel of each operation is taken; runs of one shape become their median. Of a machine file the
    library's products on all threads are taken, and copies as operations of elements.
    """
    name = os.fspath(path)
    content = read_bytes(name, "table").lstrip(b"\xef\xbb\xbf \t\r\n")
    if content[:1] in (b"{", b"[", b"\x1f") and b"[measurement]" not in content:
        return list(_of_trace(name, machine))
    if b"[measurement]" in content:
        return list(_of_machine_file(read_machine_file(name), machine))
    return read_kernels(name, machine)


def _of_trace(path: str, machine: Machine) -> Iterator[MeasuredKernel]:
    runs: dict[Any, KernelRun] = {}
    times: dict[Any, list[float]] = defaultdict(list)
    for one in read_torch_trace(path).runs:
        answer = priced_run(one, machine)
        kernels = [] if answer is None else kernels_of(answer)
        if len(kernels) == 1:
            key = kernels[0].kernel, kernels[0].dtype, kernels[0].path, tuple(sorted(kernels[0].shapes.items()))
            runs[key] = kernels[0]
            times[key].append(one.seconds)
    if not runs:
        raise InputError(f"{path} holds no operation that one kernel runs", hint="profile products, attention, norms")
    for key, run in runs.items():
        yield MeasuredKernel(run, median(times[key]), "")


def _of_machine_file(measured: Measurement, machine: Machine) -> Iterator[MeasuredKernel]:
    threads = max(measured.thread_counts(), default=1)
    for table in measured.shapes:
        if table.name == PRODUCTS and table.threads == threads:
            for rows, side, summary in table.points:
                line = f"{table.dtype}[{rows:.0f}, {side:.0f}] @ {table.dtype}[{side:.0f}, {side:.0f}]"
                (run,) = kernels_of(bound(line, on=with_choices(machine, over="main")))
                yield MeasuredKernel(run, 2 * rows * side**2 / summary.value, "")
    for curve in measured.curves:
        if curve.name == COPY and curve.threads == threads:
            for size, summary in curve.points:
                yield MeasuredKernel(elements_run(size), size / summary.value, "")
