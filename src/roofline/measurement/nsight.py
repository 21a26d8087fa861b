"""A CSV of Nsight Compute → runs: one a kernel, from the metrics of its roofline section.

``ncu --csv --page raw --metrics …`` gives a column a metric and a row of units below the header; ``--page details``
gives a line a metric. Both are read. FLOPs are adds and multiplies once, fused multiply-adds twice, and the operations
of the tensor cores as their own metric counts them.

Source: Nsight Compute documentation, "Metrics Reference" and "Roofline Charts"; C. Yang, arXiv:2009.05257.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from roofline.errors import InputError
from roofline.measurement.runs import Measured

TIME = "gpu__time_duration.sum"
BYTES = ("dram__bytes.sum", "dram__bytes_read.sum", "dram__bytes_write.sum")

#: Instructions of the CUDA cores: dtype by letter, FLOPs for every thread that executes one.
_CUDA = re.compile(r"s[mp]\w*__sass_thread_inst_executed_op_([dfh])(add|mul|fma)_pred_on\.sum")
_CUDA_DTYPES = {"d": "fp64", "f": "fp32", "h": "fp16"}

#: Operations of the tensor cores, by the format of their operands and of their result.
_TENSOR = re.compile(
    r"sm__ops_path_tensor(?:_op_\w+?)?_src_([a-z]+\d+)(?:_dst_([a-z]+\d+))?(?:_sparsity_o(?:n|ff))?\.sum"
)
_TENSOR_DTYPES = {"fp64": "fp64", "tf32": "tf32", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8", "int8": "int8"}

#: Seconds and bytes of the units a report may be in.
_SECONDS = {
    "ns": 1e-9,
    "nsecond": 1e-9,
    "us": 1e-6,
    "usecond": 1e-6,
    "ms": 1e-3,
    "msecond": 1e-3,
    "s": 1.0,
    "second": 1.0,
}
_BYTES = {
    "byte": 1.0,
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
    "Tbyte": 1e12,
    "B": 1.0,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
}

_HINT = (
    "collect it with: ncu --csv --page raw --metrics gpu__time_duration.sum,dram__bytes.sum,"
    "regex:sm__sass_thread_inst_executed_op_[dfh](add|mul|fma)_pred_on.sum,regex:sm__ops_path_tensor_src_.*"
)


def is_nsight(header: Sequence[str]) -> bool:
    """Say whether a CSV's header is that of a report of Nsight Compute."""
    return "Kernel Name" in header


def read_nsight(path: str | os.PathLike[str]) -> tuple[Measured, ...]:
    """Read the kernels of a report; a kernel without a time or bytes is an error that names the metric."""
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(line for line in file if not line.startswith("==")) if row]
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{name} is not a CSV file: {error}", hint=_HINT) from None
    start = next((index for index, row in enumerate(rows) if is_nsight(row)), None)
    if start is None:
        raise InputError(f"{name} is no report of Nsight Compute: it has no column 'Kernel Name'", hint=_HINT)
    header, body = rows[start], rows[start + 1 :]
    kernels = list(_long(header, body, name) if "Metric Name" in header else _wide(header, body, name))
    if not kernels:
        raise InputError(f"{name} holds no kernels", hint=_HINT)
    return tuple(_run(title, metrics, name) for title, metrics in kernels)


Metrics = Mapping[str, tuple[str, str]]


def _wide(header: Sequence[str], body: Sequence[Sequence[str]], name: str) -> Iterator[tuple[str, Metrics]]:
    """One kernel a row; the row below the header holds units."""
    if not body:
        return
    units = body[0]
    for number, row in enumerate(body[1:], 3):
        if len(row) != len(header):
            raise InputError(f"{name}:{number}: {len(row)} values in {len(header)} columns: the report was cut short")
        told = dict(zip(header, zip(row, units, strict=False), strict=False))
        yield told["Kernel Name"][0], told


def _long(header: Sequence[str], body: Sequence[Sequence[str]], name: str) -> Iterator[tuple[str, Metrics]]:
    """One metric a row; rows of one ID belong together."""
    for column in ("ID", "Metric Name", "Metric Unit", "Metric Value"):
        if column not in header:
            raise InputError(f"{name}: column {column!r} is missing", hint=_HINT)
    kernels: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {}
    for number, row in enumerate(body, 2):
        if len(row) != len(header):
            raise InputError(f"{name}:{number}: {len(row)} values in {len(header)} columns: the report was cut short")
        told = dict(zip(header, row, strict=True))
        metrics = kernels.setdefault(told["ID"], (told["Kernel Name"], {}))[1]
        metrics[told["Metric Name"]] = (told["Metric Value"], told["Metric Unit"])
    yield from kernels.values()


def _run(title: str, metrics: Metrics, name: str) -> Measured:
    if TIME not in metrics:
        raise InputError(f"{name}: {title}: the metric {TIME} is missing", hint=_HINT)
    seconds = _figure(metrics, TIME, _SECONDS, name)
    if seconds <= 0:
        raise InputError(f"{name}: {title}: {TIME} is {metrics[TIME][0]}", hint="a time is above 0")
    found = [metric for metric in BYTES if metric in metrics]
    if not found:
        raise InputError(f"{name}: {title}: the metric {BYTES[0]} is missing", hint=_HINT)
    moved = sum(_figure(metrics, metric, _BYTES, name) for metric in (found[:1] if found[0] == BYTES[0] else found))
    flops = _flops(metrics, name)
    main = max(flops, key=lambda dtype: flops[dtype], default="fp32")
    return Measured(title, sum(flops.values()), moved, seconds, main)


def _flops(metrics: Metrics, name: str) -> dict[str, float]:
    """FLOPs by dtype. One count may be there under several names (sm and smsp, all and without sparsity): once only.

    The largest of its names is the whole; a tensor operation's count over all results stands for those of each.
    """
    counts: dict[tuple[str, str], float] = {}
    for metric in metrics:
        if matched := _CUDA.fullmatch(metric):
            key, amount = (_CUDA_DTYPES[matched[1]], matched[2]), 2.0 if matched[2] == "fma" else 1.0
        elif (matched := _TENSOR.fullmatch(metric)) and matched[1] in _TENSOR_DTYPES:
            key, amount = (f"tensor {matched[1]}", matched[2] or ""), 1.0
        else:
            continue
        counts[key] = max(counts.get(key, 0.0), amount * _figure(metrics, metric, {}, name))
    found: dict[str, float] = {}
    for (source, part), amount in counts.items():
        dtype = _TENSOR_DTYPES[source.removeprefix("tensor ")] if source.startswith("tensor ") else source
        if part and (source, "") in counts:
            continue
        found[dtype] = found.get(dtype, 0.0) + amount
    return found


def _figure(metrics: Metrics, metric: str, units: Mapping[str, float], name: str) -> float:
    written, unit = metrics[metric]
    try:
        value = float(written.replace(",", ""))
    except ValueError:
        raise InputError(f"{name}: {metric} is {written!r}, not a number") from None
    if units and unit not in units:
        raise InputError(f"{name}: {metric} is in {unit!r}", hint=f"units are: {', '.join(units)}")
    return value * units.get(unit, 1.0)
