"""The time of a host to start a kernel without a CUDA graph, from small all-reduces timed eagerly.

An eager row is the launch of an all-reduce and of a clone of its input (the source says so): of small messages it is
the time of the host to start two kernels. One half of the rows of a chip and framework is fitted: half of their median.
The other half is reported on. Over PCIe the wire takes longer than the host, so that chips without NVLink tell nothing.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.estimates.fits import SOURCES, conformal, halves
from benchmarks.estimates.rows import CHIPS, Group
from roofline.estimates.constants import KernelConstants
from roofline.estimates.fitting import Errors

#: Most elements of a message whose time is that of the host, and kernels that a row starts.
SMALL, KERNELS = 16_384, 2
WITH_NVLINK = ("a100", "h100")
#: Fewest rows of a chip and framework.
LEAST = 6


def fitted_eager(data: Path) -> list[KernelConstants]:
    """The time of a kernel's start by chip and framework."""
    rows: dict[Group, list[float]] = defaultdict(list)
    with gzip.open(data / "kernels_more.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            small = (
                row["table"] == "custom_allreduce" and "eager" in row["flag"] and float(row["message_size"]) <= SMALL
            )
            if small and CHIPS.get(row["gpu"]) in WITH_NVLINK:
                key = Group(CHIPS[row["gpu"]], "eager_kernel", "any", row["backend"], "", version=row["version"])
                rows[key].append(float(row["measured_us"]) * 1e-6 / KERNELS)
    return [_fitted(group, np.array(each)) for group, each in sorted(rows.items()) if len(each) >= LEAST]


def _fitted(group: Group, seconds: np.ndarray) -> KernelConstants:
    first, second = halves(group, len(seconds))
    host = float(np.median(seconds[first]))
    low, high = conformal(seconds[first] / host)
    ratios = seconds[second] / host
    errors = Errors.of(np.full(len(second), host), seconds[second])
    error = {name: getattr(errors, name) for name in ("mdape", "mape", "p90", "bias")}
    error |= {"n_fit": len(first), "n_test": len(second)}
    return KernelConstants(
        chip=group.chip,
        kernel=group.kernel,
        dtype=group.dtype,
        library=group.library,
        version=group.version,
        values={"host_time": host},
        interval=((low, high),),
        state="all-reduces of small messages, eager: with the clone of their input two kernels",
        source=SOURCES["graph"][0],
        error={**error, "coverage": float(np.mean((ratios >= low) & (ratios <= high)))},
    )
