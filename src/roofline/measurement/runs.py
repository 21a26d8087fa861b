"""Measured points: what really ran, from a CSV or from tuples, to be drawn beside what the machine allows.

A file has a header and one run a line; amounts may carry units, and ``dtype`` and ``on`` may be left out. ``ms`` or
``us`` may stand for ``seconds``. A copy has 0 FLOPs; what ran within a cache moved 0 bytes::

    name,flops,bytes,seconds,dtype
    up projection,137 GFLOP,"201 MB",210 us,bf16

>>> read_measured([("up projection", 137e9, "201 MB", "210 us")])
(Measured(name='up projection', flops=137000000000.0, bytes=201000000.0, seconds=0.00021, dtype='bf16', on=''),)

A profile of any tool holds such runs, and the time of what has no price. Files of profilers that cannot be read are
recognised by their content, and the error says which file to export instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from roofline import dtypes
from roofline.errors import InputError, SizeError, quoted, suggest
from roofline.files import as_text, read_bytes, table_rows, write_rows
from roofline.frozen import dataclass, field, replace
from roofline.notation import program
from roofline.ops.rules import build
from roofline.quantity import LEAST, MOST, in_a_row, parse
from roofline.signatures import either, takes
from roofline.work import Op

COLUMNS = ("name", "flops", "bytes", "seconds")
OPTIONAL = ("dtype", "on")

#: The dtype of a run that states none.
UNSTATED = "bf16"

_UNITS = {"flops": "FLOP", "bytes": "B", "seconds": "s"}

#: What others call a column, and an example of a figure with its unit where the name tells one.
_MEANT: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("time", "duration", "latency", "runtime", "elapsed", "sec", "s"), ("seconds", "")),
    **dict.fromkeys(("ms", "us", "ns", "milliseconds", "microseconds", "nanoseconds"), ("seconds", "210 us")),
    **dict.fromkeys(("work", "operations"), ("flops", "")),
    **dict.fromkeys(("mflops", "gflops", "tflops", "mflop", "gflop", "tflop"), ("flops", "137 GFLOP")),
    **dict.fromkeys(("traffic", "memory", "b"), ("bytes", "")),
    **dict.fromkeys(("kb", "mb", "gb", "kib", "mib", "gib"), ("bytes", "201 MB")),
    **dict.fromkeys(("operation", "op", "kernel"), ("name", "")),
    **dict.fromkeys(("precision", "type", "data_type"), ("dtype", "")),
    **dict.fromkeys(("device", "machine", "chip", "gpu"), ("on", "")),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: its FLOPs, the bytes it moved, the seconds it took; ``on`` is the key of its machine, if said.

    ``stated`` tells whether the source named the dtype, ``op`` is the operation, where the source tells its shapes.
    Of several equal ``calls`` in one ``seconds`` is their mean. ``unread`` are columns of its row that were not read.
    """

    name: str
    flops: float
    bytes: float
    seconds: float
    dtype: str = UNSTATED
    on: str = ""
    stated: bool = field(default=True, compare=False, repr=False)
    op: Op | None = field(default=None, compare=False, repr=False)
    calls: int = field(default=1, compare=False, repr=False)
    unread: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def in_all(self) -> float:
        """Seconds of all its calls."""
        return self.seconds * self.calls

    @property
    def intensity(self) -> float:
        """FLOP a byte."""
        return self.flops / self.bytes

    @property
    def rate(self) -> float:
        """FLOP/s reached."""
        return self.flops / self.seconds


def equal_calls(runs: Iterable[Measured]) -> list[Measured]:
    """Equal calls as one run of their mean time, with how many they are; those first that take longest in all.

    >>> runs = [Measured("mm", 8.0, 4.0, seconds) for seconds in (1.0, 3.0)] + [Measured("mm", 9.0, 4.0, 3.5)]
    >>> [(run.flops, run.calls, run.seconds, run.in_all) for run in equal_calls(runs)]
    [(8.0, 2, 2.0, 4.0), (9.0, 1, 3.5, 3.5)]
    """
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    for run in runs:
        dims = None if run.op is None else tuple(run.op.dims.items())
        groups.setdefault((run.name, run.dtype, run.flops, run.bytes, run.on, dims), []).append(run)
    each = [
        replace(same[0], seconds=sum(run.seconds for run in same) / len(same), calls=len(same))
        for same in groups.values()
    ]
    return sorted(each, key=lambda run: -run.in_all)


@takes()
def read_measured(source: Any) -> tuple[Measured, ...]:
    """Read measured points from a CSV file, or from tuples, dictionaries or :class:`Measured` values.

    >>> read_measured([{"name": "x", "flops": 1e9, "bytes": 1e6, "seconds": 0}])
    Traceback (most recent call last):
    roofline.errors.QuantityError: point 1: seconds 0 is zero; expected a time above 0, such as '5 us'
    """
    if isinstance(source, str | os.PathLike):
        return _from_file(os.fspath(source))
    hint = "give a CSV file or (name, flops, bytes, seconds)"
    if not isinstance(source, Iterable) or getattr(source, "ndim", 1) == 0:
        raise InputError(f"{quoted(source)} holds no measured points", hint=hint)
    points = tuple(_from_value(item, number) for number, item in enumerate(source, 1))
    if not points:
        raise InputError("there are no measured points", hint=hint)
    return points


def _from_file(path: str) -> tuple[Measured, ...]:
    from roofline.estimates.own_runs import A_KERNEL, rows_of, tells_shapes

    content = read_bytes(path, "table")
    check_plain(path, content)
    text = as_text(content, path)
    if tells_shapes(next((row for _, row in table_rows(text, path, PLAIN)), [])):
        return tuple(_of_shapes(row, where) for where, row in rows_of(path, A_KERNEL))
    rows = table_rows(text, path, PLAIN)
    line, header = next(rows, (0, []))
    if not header:
        raise InputError(f"{path} is empty", hint=PLAIN)
    names = _header(header, f"{path}:{line}")
    found = tuple(_from_row(names, row, f"{path}:{line}") for line, row in rows)
    if not found:
        raise InputError(f"{path} has a header and no runs", hint="one run a line below it")
    return found


def _header(header: list[str], where: str) -> list[str]:
    names = [name.strip().lower() for name in header]
    told = _in_seconds(dict.fromkeys(names), where)
    for name in told:
        if name not in (*COLUMNS, *OPTIONAL):
            raise InputError(f"{where}: unknown column {name!r}", hint=_column_hint(name))
    for name in COLUMNS:
        if name not in told:
            hint = f"the header is {','.join(COLUMNS)}, and {in_a_row(OPTIONAL)} where wanted"
            raise InputError(f"{where}: column {name} is missing", hint=hint)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{where}: column {twice} stands twice", hint="once is enough")
    return names


def _column_hint(name: str) -> str:
    """Say which column is meant, as by ``time_ms`` or ``time [ms]``; a unit is written beside each figure."""
    known = {**_MEANT, **{column: (column, "") for column in COLUMNS}}
    meant = [known.get(word, ("", "")) for word in re.findall("[a-z]+", name)]
    column = meant[0][0] if len({column for column, _ in meant}) == 1 else ""
    if column and (example := "".join(dict.fromkeys(example for _, example in meant))):
        return f"the column is {column}, with the unit beside each figure, such as {example}"
    return f"the column is {column}" if column else suggest(name, (*COLUMNS, *OPTIONAL), what="columns")


def _from_row(names: list[str], row: list[str], where: str) -> Measured:
    if len(row) != len(names):
        raise InputError(f"{where}: {len(row)} values in {len(names)} columns", hint="leave no figure out")
    return _point(_in_seconds(dict(zip(names, row, strict=True)), where), where)


def _in_seconds(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A run whose time stands under the name of its unit, such as ``ms`` or ``latency_us``, in seconds.

    >>> _in_seconds({"name": "up", "ms": 5}, ""), _in_seconds({"latency (us)": "7 ms"}, "")
    ({'name': 'up', 'seconds': 0.005}, {'seconds': '7 ms'})
    """
    from roofline.estimates.own_runs import time_unit

    units = {name: time_unit(str(name).strip().lower()) for name in fields if name not in COLUMNS}
    timed = [name for name, unit in units.items() if unit is not None]
    times = [name for name in fields if name in (*timed, "seconds")]
    if len(times) > 1:
        raise InputError(f"{where}: {in_a_row(times)} are two times of a run", hint="give one")
    found = {name: value for name, value in fields.items() if name not in timed}
    for name in timed:
        value = fields[name]
        try:
            found["seconds"] = float(value) * (units[name] or 1)
        except (TypeError, ValueError):  # a figure with its own unit
            found["seconds"] = value
    return found


def _of_shapes(row: Mapping[str, str], where: str) -> Measured:
    """A run whose row tells its shapes: FLOPs and bytes are those of its expression."""
    from roofline.estimates.own_runs import row_expression, row_time, says_format, unread

    try:
        (time, unit), line = row_time(row), row_expression(row)
        parsed = program(line)
        if parsed.labels:
            raise SizeError(f"size {next(iter(parsed.labels))} has no value", hint="sizes of a row are numbers")
        ops = build(parsed, {})
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    amounts = [(key, amount) for op in ops for key, amount in op.work.items() if key.quantity == "flops"]
    main = max(amounts, key=lambda each: each[1])[0] if amounts else None
    fields = {
        "name": row.get("name") or line,
        "flops": sum(amount for key, amount in amounts if main is not None and key.place == main.place),
        "bytes": sum(tensor.traffic_bytes for op in ops for tensor in (*op.reads, *op.writes)),
        "seconds": time,
        "dtype": UNSTATED if main is None else main.dtype,
        "on": row.get("on"),
    }
    found = _point(fields, where)
    op, stated = ops[0] if len(ops) == 1 else None, found.stated and says_format(row)
    return replace(found, seconds=found.seconds * unit, op=op, stated=stated, unread=unread(row))


def _from_value(item: Any, number: int) -> Measured:
    where = f"point {number}"
    if isinstance(item, Measured):
        again = _point({name: getattr(item, name) for name in (*COLUMNS, *OPTIONAL)}, where)
        return replace(again, stated=item.stated, op=item.op, unread=item.unread)
    if isinstance(item, Mapping):
        from roofline.estimates.own_runs import A_KERNEL, rows_of, tells_shapes

        if tells_shapes(item):
            return _of_shapes(next(rows_of([item], A_KERNEL))[1], where)
        item = _in_seconds(item, where)
        missing = next((name for name in COLUMNS if name not in item), None)
        if missing is not None:
            hint = f"give {', '.join(COLUMNS)}, or shapes: {A_KERNEL}"
            meant = next((name for name in item if _MEANT.get(str(name).lower(), ("",))[0] == missing), None)
            if meant is not None:
                hint = f"{meant!r} is called {missing} here{', or ms or us by its unit' * (missing == 'seconds')}"
            raise InputError(f"{where}: {missing} is missing", hint=hint)
        return _point(item, where)
    if isinstance(item, tuple | list) and len(COLUMNS) <= len(item) <= len(COLUMNS) + len(OPTIONAL):
        return _point(dict(zip((*COLUMNS, *OPTIONAL), item, strict=False)), where)
    hint = "give (name, flops, bytes, seconds), and a dtype where wanted"
    raise InputError(f"{where}: {quoted(item)} is not a run", hint=hint)


def _point(fields: Mapping[str, Any], where: str) -> Measured:
    name = str(fields["name"]).strip()
    if not name:
        raise InputError(f"{where}: the run has no name", hint="name every run; the name stands beside its point")
    flops, moved, seconds = (_amount(fields[column], column, where) for column in _UNITS)
    if not flops and not moved:
        raise InputError(f"{where}: the run has neither FLOPs nor bytes", hint="state what it computes or moves")
    said = str(fields.get("dtype") or "").strip()
    dtype = said or UNSTATED
    try:
        dtypes.get(dtype.partition("_acc")[0])
    except InputError as error:
        raise error.worded(f"{where}: ") from None
    return Measured(name, flops, moved, seconds, dtype=dtype, on=str(fields.get("on") or "").strip(), stated=bool(said))


def _amount(value: Any, column: str, where: str) -> float:
    try:
        plain = float(value) if isinstance(value, str) else 0.0
    except ValueError:  # a figure with its unit
        plain = 0.0
    if LEAST <= plain <= MOST:
        return plain
    if isinstance(value, str) and not value.strip():
        raise InputError(f"{where}: {column} is missing", hint=f"give it, in {_UNITS[column]}")
    try:
        return parse(value, _UNITS[column], zero=column != "seconds")
    except InputError as error:
        raise error.worded(f"{where}: {column} ") from None


def write_runs(runs: Iterable[Measured], path: str | os.PathLike[str]) -> None:
    """Write runs as the CSV that :func:`read_measured` reads."""
    columns = ("name", "dtype", "flops", "bytes", "seconds")
    write_rows(path, [columns, *([getattr(run, column) for column in columns] for run in runs)])


#: How Nsight Compute collects what a point needs.
COLLECT = (
    "collect it with: ncu --csv --page raw --metrics gpu__time_duration.sum,dram__bytes.sum,"
    "regex:sm__sass_thread_inst_executed_op_[dfh](add|mul|fma)_pred_on.sum,regex:sm__ops_path_tensor_src_.*"
)

#: A plain table, which can always be read.
PLAIN = "write it as name,flops,bytes,seconds and one run a line, such as up projection,137 GFLOP,201 MB,210 us"

_TRACE = "export a trace made with record_shapes=True instead: export_chrome_trace"

_TIMES = "holds times, but neither FLOPs nor bytes"

#: Marks at the beginning of a file, what the file is, and what to export instead.
_MARKS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("Total Time (ns)", "Instances"), f"is a summary of Nsight Systems, which {_TIMES}", COLLECT),
    (("Duration (ns)", "CorrId"), f"is a table of Nsight Systems, which {_TIMES}", COLLECT),
    (("NVPROF is profiling",), f"is a table of nvprof, which {_TIMES}", PLAIN),
    (("KernelName", "DurationNs"), f"is a table of rocprof, which {_TIMES}", PLAIN),
    (("Kernel_Name", "End_Timestamp"), f"is a table of rocprofv3, which {_TIMES}", PLAIN),
    (("Self CPU",), "is a table of torch.profiler's key_averages, which holds no single runs", _TRACE),
    (("Function Name", "Demangled Name"), "was saved by the window of Nsight Compute", COLLECT),
)

#: Binary files, by the ending of their names.
_BINARY = {
    ".ncu-rep": ("a report of Nsight Compute", "write it as CSV: ncu --import FILE --csv --page raw"),
    ".nsys-rep": ("a report of Nsight Systems, which holds neither FLOPs nor bytes", COLLECT),
    ".pb": ("a trace of XLA, which holds neither FLOPs nor bytes", "price the program: roofline trace"),
    ".xlsx": ("a workbook", "save the sheet as CSV"),
}

#: Bytes at the beginning of a file that are searched for marks.
HEAD = 4096


def check_plain(path: str, content: bytes) -> None:
    """Raise an error if a file is not a plain CSV: another profiler's, or binary."""
    head = content[:HEAD]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is UTF-16 text", hint="save it as UTF-8")
    known = next((told for end, told in _BINARY.items() if path.endswith(end)), None)
    if known is not None or b"\0" in head:
        what, hint = known or ("no text", PLAIN)
        raise InputError(f"{path} is {what}", hint=hint)
    text = head.decode("utf-8", errors="replace")
    for marks, what, hint in _MARKS:
        if all(mark in text for mark in marks):
            raise InputError(f"{path} {what}", hint=hint)


def not_of_torch(path: str, events: Sequence[dict[str, Any]]) -> InputError:
    """The error for a file without operations of PyTorch: it says what the file is."""
    if any("flops" in event and "seconds" in event for event in events):
        hint = f"{either('--csv', 'write_runs')} writes them as they are read here; else {PLAIN}"
        return InputError(f"{path} holds runs as JSON", hint=hint)
    told = [event.get("args") for event in events]
    if any(isinstance(one, dict) and ("hlo_op" in one or "hlo_module" in one) for one in told):
        wrong = f"{path} is a trace of XLA, which tells neither shapes nor FLOPs"
        return InputError(wrong, hint="price the program (roofline trace --jax), or write its runs as a plain CSV")
    hint = "export it with torch.profiler's export_chrome_trace"
    return InputError(f"{path} holds no operations of PyTorch", hint=hint)


#: Label of the time that callers spend outside the operations they call.
AROUND = "around other operations"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a profile held: ``runs`` that could be priced, and the seconds of ``unpriced`` operations by name.

    ``own`` says that they are rows that somebody wrote and no profiler's, ``of_cpu`` that the times are those of
    operations of the CPU, as the profile holds no kernels of a device.
    """

    runs: tuple[Measured, ...]
    unpriced: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    own: bool = False
    of_cpu: bool = False


def own_profile(source: Any) -> Profile:
    """Rows that somebody wrote, as :func:`read_measured` reads them, and which of their columns were not read."""
    from roofline.estimates.own_runs import columns_left_out

    runs = read_measured(source)
    return Profile(runs, notes=columns_left_out(run.unread for run in runs), own=True)
