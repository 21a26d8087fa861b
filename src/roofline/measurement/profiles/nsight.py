"""A CSV of Nsight Compute → runs: one a kernel, from the metrics of its roofline section.

``ncu --csv --page raw --metrics …`` gives a column a metric and a row of units below the header; ``--page details``
gives a line a metric. Both are read, whatever the program printed before them, with a comma before thousands or
before decimals. FLOPs are adds and multiplies once, fused multiply-adds twice, and the operations of the tensor cores
as their own metric counts them. A report of rates alone (``--set full``) gives amounts as rate × time.

Source: Nsight Compute documentation, "Metrics Reference" and "Roofline Charts"; C. Yang, arXiv:2009.05257.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from roofline.errors import InputError
from roofline.files import as_text, read_bytes, table_rows
from roofline.measurement.runs import COLLECT, Measured, Profile

TIME = "gpu__time_duration.sum"

#: Bytes of the main memory: in all, or read and written, by the names of several generations.
BYTES = (
    ("dram__bytes.sum",),
    ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    ("dram__bytes_op_read.sum", "dram__bytes_op_write.sum"),
)

#: Instructions of the CUDA cores: dtype by letter, FLOPs for every thread that executes one.
_CUDA = re.compile(r"s[mp]\w*__sass_thread_inst_executed_op_([dfh])(add|mul|fma)_pred_on\.sum")
_CUDA_DTYPES = {"d": "fp64", "f": "fp32", "h": "fp16"}

#: Operations of the tensor cores, by the format of their operands and of their result.
_TENSOR = re.compile(
    r"sm__ops_path_tensor(?:_op_\w+?)?_src_([a-z]+\d+)(?:_dst_([a-z]+\d+))?(?:_sparsity_o(?:n|ff))?\.sum"
)
_TENSOR_DTYPES = {name: name for name in ("fp64", "tf32", "fp16", "bf16", "fp8", "int8", "int4")}

#: What counts work of the tensor cores: operations of other formats, or instructions, as older reports do.
_OTHER = re.compile(r"sm\w*__(ops_path_tensor_|inst_executed_pipe_tensor)")

#: Seconds and bytes of the units a report may be in.
_SECONDS = {f"{n}{word}": 10.0**power for n, power in (("n", -9), ("u", -6), ("m", -3), ("", 0))
            for word in ("s", "second")}  # fmt: skip
_BYTES = {"": 1.0, "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12, "B": 1.0, "KB": 1e3,
          "MB": 1e6, "GB": 1e9}  # fmt: skip

#: A count as a rate, and what twice the fused multiply-adds a cycle are called.
_RATE = re.compile(r"(?P<base>(?P<unit>\w+?)__\w+\.sum)\.(?P<per>per_second|per_cycle_elapsed)")
_DOUBLED = re.compile(r"derived__(?P<base>(?P<unit>smsp)__sass_thread_inst_executed_op_[dfh]fma_pred_on)_x2")
_COUNTED = {"inst": 1.0, "cycle": 1.0, **{unit: size for unit, size in _BYTES.items() if unit}}
_RATES = {f"{what}/{time}": size / _SECONDS[time] for what, size in _COUNTED.items() for time in _SECONDS}
_RATES |= {"hz": 1.0, "Khz": 1e3, "Mhz": 1e6, "Ghz": 1e9}

#: A figure as it is written where a comma separates thousands, and what stands for a metric that is not there.
_FIGURE = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)?(\.\d+)?([eE][-+]?\d+)?")
_ABSENT = ("", "n/a", "nan", "(!) n/a")
_SWAP = str.maketrans(",.", ".,")

#: Narrow and fixed spaces and apostrophes between thousands.
_BETWEEN = dict.fromkeys(map(ord, "\u00a0\u2009\u202f'\u2019"))


def holds_nsight(content: bytes) -> bool:
    """Say whether a file is a report of Nsight Compute: some line is a header with its column of kernels."""
    return b"Kernel Name" in content and any(map(_is_header, content.decode("utf-8", "replace").splitlines()))


def read_nsight(path: str | os.PathLike[str]) -> Profile:
    """Read the kernels of a report; a kernel without a time or bytes is an error that names the metric.

    A kernel without FLOPs of which nothing reached the main memory has no bound: it is listed with its time.
    """
    name = os.fspath(path)
    text = as_text(read_bytes(name, "table"), name)
    lines = ["\n" if line.startswith("==") else line for line in text.splitlines(keepends=True)]
    start = next((number for number, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        raise InputError(f"{name} is no report of Nsight Compute: it has no column 'Kernel Name'", hint=COLLECT)
    header, *body = table_rows("".join(lines[start:]), name, COLLECT, first=start + 1, strict=False)
    long = "Metric Name" in header[1]
    kernels = list(_long(header[1], body, name) if long else _wide(header[1], body, name))
    if not kernels:
        raise InputError(f"{name} holds no kernels", hint=COLLECT)
    if _comma_is_decimal(kernels):
        kernels = [(t, {m: (v.translate(_SWAP), unit) for m, (v, unit) in told.items()}) for t, told in kernels]
    given, kernels = kernels, [(title, _amounts(metrics, name)) for title, metrics in kernels]
    notes = ["where the report holds rates alone, amounts are rate x time"] if given != kernels else []
    runs = [_run(title, metrics, name) for title, metrics in kernels]
    idle: dict[str, float] = {}
    for run in runs:
        if not run.flops and not run.bytes:
            idle[run.name] = idle.get(run.name, 0.0) + run.seconds
    return Profile(tuple(run for run in runs if run.flops or run.bytes), idle, (*notes, *_notes(kernels, name)))


Metrics = Mapping[str, tuple[str, str]]
Rows = Sequence[tuple[int, Sequence[str]]]


def _notes(kernels: Sequence[tuple[str, Metrics]], name: str) -> Iterator[str]:
    """Tell what a report does not count, and what it counts in a way that gives no FLOPs."""
    told = {metric: one for _, one in kernels for metric in one}
    if not any(_counts_flops(metric) for metric in told):
        yield "the report counts no FLOPs, so every run is under the roof of its bytes alone"
    for metric in sorted(told):
        if _OTHER.match(metric) and metric.endswith(".sum") and not _counts_flops(metric):
            used = sum(_figure(one, metric, {}, name) for _, one in kernels if metric in one)
            if used > 0:
                yield f"{metric} has no FLOPs here: work of the tensor cores is missing"


def _counts_flops(metric: str) -> bool:
    tensor = _TENSOR.fullmatch(metric)
    return _CUDA.fullmatch(metric) is not None or (tensor is not None and tensor[1] in _TENSOR_DTYPES)


def _is_header(line: str) -> bool:
    return "Kernel Name" in line and "Kernel Name" in next(csv.reader([line]), [])


def _comma_is_decimal(kernels: Sequence[tuple[str, Metrics]]) -> bool:
    """Say whether a figure is there that only reads where a comma stands before decimals: 1.234.567 or 12,5."""
    figures = {value for _, metrics in kernels for metric, (value, _) in metrics.items() if _is_counted(metric)}
    return any(not _FIGURE.fullmatch(f) and _FIGURE.fullmatch(f.translate(_SWAP)) is not None for f in figures)


def _amounts(metrics: Metrics, name: str) -> Metrics:
    """Add the amounts of what is there as a rate alone: a second, or a cycle where the cycles of its unit a second are.

    Source: the section "SpeedOfLight_RooflineChart" of Nsight Compute multiplies the same figures.
    """
    found = dict(metrics)
    for metric in metrics:
        matched = _RATE.fullmatch(metric) or _DOUBLED.fullmatch(metric)
        if matched is None or TIME not in metrics:
            continue
        amount = matched["base"].removesuffix(".sum") + ".sum"
        if amount in found or not (_is_counted(amount) or _OTHER.match(amount)):
            continue
        rate = 0.5 if "derived" in metric else 1.0
        if metric.endswith(".per_second"):
            rate *= _figure(metrics, metric, _RATES, name)
        elif (cycles := f"{matched['unit']}__cycles_elapsed.avg.per_second") in metrics:
            rate *= _figure(metrics, metric, {}, name) * _figure(metrics, cycles, _RATES, name)
        else:
            continue
        found[amount] = (repr(rate * _figure(metrics, TIME, _SECONDS, name)), "")
    return found


def _is_counted(metric: str) -> bool:
    metric = matched["base"] if (matched := _RATE.fullmatch(metric)) else metric
    known = metric == TIME or any(metric in names for names in BYTES)
    return known or _CUDA.fullmatch(metric) is not None or _TENSOR.fullmatch(metric) is not None


def _wide(header: Sequence[str], body: Rows, name: str) -> Iterator[tuple[str, Metrics]]:
    """One kernel a row; the row below the header holds units."""
    if not body:
        return
    (first, units), *rest = body
    _check_width(header, units, f"{name}:{first}")
    for number, row in rest:
        _check_width(header, row, f"{name}:{number}")
        told = dict(zip(header, zip(row, units, strict=True), strict=True))
        yield told["Kernel Name"][0], _present(told)


def _long(header: Sequence[str], body: Rows, name: str) -> Iterator[tuple[str, Metrics]]:
    """One metric a row; rows of one ID belong together."""
    for column in ("ID", "Metric Name", "Metric Unit", "Metric Value"):
        if column not in header:
            raise InputError(f"{name}: column {column!r} is missing", hint=COLLECT)
    kernels: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {}
    for number, row in body:
        _check_width(header, row, f"{name}:{number}")
        told = dict(zip(header, row, strict=True))
        metrics = kernels.setdefault(told["ID"], (told["Kernel Name"], {}))[1]
        metrics[told["Metric Name"]] = (told["Metric Value"], told["Metric Unit"])
    yield from ((title, _present(metrics)) for title, metrics in kernels.values())


def _check_width(header: Sequence[str], row: Sequence[str], where: str) -> None:
    if len(row) != len(header):
        raise InputError(f"{where}: {len(row)} values in {len(header)} columns: the report was cut short")


def _present(metrics: Metrics) -> Metrics:
    """Leave out metrics that the device has not, and what some countries write between thousands."""
    told = {metric: (value.translate(_BETWEEN), unit) for metric, (value, unit) in metrics.items()}
    return {metric: one for metric, one in told.items() if one[0].strip().lower() not in _ABSENT}


def _run(title: str, metrics: Metrics, name: str) -> Measured:
    if TIME not in metrics:
        raise InputError(f"{name}: {title}: the metric {TIME} is missing", hint=COLLECT)
    seconds = _figure(metrics, TIME, _SECONDS, name)
    if not 0 < seconds < math.inf:
        raise InputError(f"{name}: {title}: {TIME} is {metrics[TIME][0]}", hint="a time is above 0")
    found = next((names for names in BYTES if all(metric in metrics for metric in names)), None)
    if found is None:
        raise InputError(f"{name}: {title}: the metric {BYTES[0][0]} is missing", hint=COLLECT)
    moved = sum(_figure(metrics, metric, _BYTES, name) for metric in found)
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
