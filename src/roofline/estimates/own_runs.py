"""Measured kernels of one's own: rows of a CSV, or dicts, as kernels and seconds, without those that cannot be.

A row is one kernel: an ``expression`` of the notation, or the shapes of a kind of kernel, with the time it took::

    m,n,k,dtype,seconds                                batch,heads,kv_heads,head_size,length,dtype,us
    64,8192,8192,bf16,5.1e-5                           8,32,8,128,4096,bf16,61.2

``us`` or ``ms`` may stand for ``seconds``, as may ``latency_us``, ``p50_us`` or ``time (ms)``; of several times the
first counts, a least one after all others. Where there is none, that of a product follows from its ``TFLOPS``.
``library`` and ``q_length`` are optional. ``dtype`` is the format of both operands, except that ``int4``, ``int4_wo``
and ``int8_wo`` are weights beside bf16; ``a_dtype``, ``b_dtype`` and ``out_dtype`` say each by itself. Columns go by
the names that others give them too (``head_dim``, ``seq_len``), cells may have tabs, semicolons, bars or spaces
between. A file of ``roofline run --csv`` has its expressions under ``name``. Rows that cannot be, or that cannot be
read, are left out and counted by their reason; columns that are not read are named.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from roofline import dtypes
from roofline.answers import capability
from roofline.bounds.api import bound
from roofline.counts import count
from roofline.errors import HardwareError, InputError, did_you_mean, quoted
from roofline.estimates.constants import KERNELS, KernelConstants
from roofline.estimates.estimator import (
    Estimator,
    KernelRun,
    attention_of,
    attention_run,
    cache_format,
    chip_figures,
    kernel_format,
    kernels_of,
    product_kind,
)
from roofline.estimates.kernel_model import data_sheet_bound, data_sheet_times
from roofline.estimates.vector_and_collectives import FRAMEWORKS
from roofline.files import MOST_SAMPLES, as_text, read_bytes, table_rows
from roofline.frozen import NamedTuple
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.quantity import in_a_row
from roofline.signatures import spelled
from roofline.statements import Assumption

#: Units of times by the word in a column's name, and the other words that such a name may have.
_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecond", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "usecond", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nsecond", "nanosecond", "nanoseconds"), 1e-9),
}
#: Times of the fastest of several runs, which count where there is no other.
_LEAST = ("min", "minimum")
_MIDDLE = ("median", "mean", "avg", "average")
_OF_TIMES = ("time", "latency", "duration", "measured", "elapsed", "runtime", *_MIDDLE, *_LEAST)
#: Words beside these that say whose time it is: alone they name no time.
_WHOSE = ("gpu", "cuda", "device", "kernel", "execution", "exec", "wall")
#: FLOP/s of the unit that a column of rates has in its name.
_FLOP_RATES: dict[tuple[str, ...], float] = {
    words: unit
    for prefix, unit in {"g": 1e9, "t": 1e12, "p": 1e15}.items()
    for words in ((f"{prefix}flops",), (f"{prefix}flop", "s"), (f"{prefix}flops", "s"))
}
#: What others call our columns.
_ALSO = {
    "batch": "batch_size batch_count num_batches bs b",
    "heads": "num_heads n_heads nheads num_attention_heads num_q_heads q_heads h",
    "kv_heads": "num_kv_heads n_kv_heads num_key_value_heads",
    "head_size": "head_dim headdim head_dimension d",
    "length": "seq_len seqlen sequence_length kv_len kv_length context_length context seqlen_k",
    "q_length": "q_len query_length seqlen_q",
    "window": "sliding_window window_size",
    "dtype": "type data_type datatype precision format gemm_dtype attn_dtype",
    "a_dtype": "activation_dtype activations_dtype act_dtype input_dtype x_dtype q_dtype dtype_a a_type activations",
    "b_dtype": "weight_dtype weights_dtype w_dtype dtype_b b_type weights",
    "out_dtype": "output_dtype c_dtype dtype_c dtype_out out_type c_type",
    "kv": "kv_dtype kv_cache_dtype cache_dtype",
    "library": "backend framework",
    "chip": "gpu device gpu_name device_name gpu_type accelerator hardware",
    "expression": "name",
}
#: What others call the libraries.
_LIBRARIES = {name: ours for ours, names in FRAMEWORKS.items() for name in names.split()}
_OURS = {name: ours for ours, names in _ALSO.items() for name in names.split()}
#: Where a row's time and its unit stand, whatever its column is called, and the columns that are not read.
_TIME, _UNIT, _UNREAD = "time", "unit of time", "not read"
#: Columns that tell what others do, or whose row this is.
_TOLD = {*_OURS, *_OURS.values(), "m", "n", "k", "kernel", "op", "on", "flops", "bytes", "expected", "expected [s]"}
#: Formats of weights beside activations in bf16.
_ONLY_WEIGHTS = {"int4": "int4", "int4_wo": "int4", "int8_wo": "int8"}
_PRODUCT = ("m", "n", "k")
_ATTENTION = ("batch", "heads", "head_size", "length")
#: How a row tells its kernel.
_FORMS = "an expression, or m, n, k, or batch, heads, head_size, length"
#: Where constants start from on a chip whose vendor has none.
TYPICAL = "typical values"
#: Times under so many steps of the timer tell too little.
STEPS = 20
#: Times over so many bounds, and over so many seconds, are of another kernel or in another unit.
SLOW, SLOW_SECONDS = 50, 50e-6


#: The 50th percentile of times.
_HALF = re.compile(r"(?<![^\W_])p50(?!\d)")
#: A sliding window that is none.
_NO_WINDOW = ("", "-1", "none", "null", "nan", "false")
_NOTHING = KernelRun("", "", "", {}, ())


class MeasuredKernel(NamedTuple):
    """One kernel, the seconds it took, the library and the format that the row names, and ``where`` it stands.

    ``wrong`` says why a row is none, ``unread`` which of its columns are not read, ``stated`` that it says its format.
    """

    run: KernelRun
    seconds: float
    library: str
    wrong: str = ""
    where: str = ""
    dtype: str = ""
    unread: tuple[str, ...] = ()
    stated: bool = True


def said_of(kernels: Sequence[MeasuredKernel]) -> tuple[Assumption, ...]:
    """What is taken of rows: columns that are not read, and bf16 where a row says no format."""
    silent = any(not one.stated and not one.wrong for one in kernels)
    told = (Assumption("notation", "bf16 where no dtype is stated"),) if silent else ()
    return (*columns_left_out(one.unread for one in kernels), *told)


def columns_left_out(each: Iterable[Sequence[str]]) -> tuple[Assumption, ...]:
    """Which columns of rows are not read, in one sentence, where there are any.

    >>> columns_left_out([(), ("tflops",), ("tflops", "power")]), columns_left_out([()])
    (('columns that are not read: tflops and power',), ())
    """
    names = list(dict.fromkeys(name for names in each for name in names))
    return (Assumption("notation", f"columns that are not read: {in_a_row(_few(names))}"),) if names else ()


def says_format(row: Mapping[str, str]) -> bool:
    """Whether a row says a format; bf16 is taken where it says none."""
    return "[" in row.get("expression", "") or any(row.get(name) for name in ("dtype", "a_dtype"))


def unread(row: Mapping[str, str]) -> tuple[str, ...]:
    """The filled columns of a row that are not read."""
    return tuple(filter(None, row.get(_UNREAD, "").split("\n")))


def formats_of(kernels: Sequence[MeasuredKernel]) -> str:
    """The formats of kernels of one kind as their rows name them; else that of the constants."""
    return ", ".join(dict.fromkeys(one.dtype or one.run.dtype for one in kernels))


#: A row of a kernel, for instance.
A_KERNEL = (
    '[{"m": 64, "n": 8192, "k": 8192, "dtype": "bf16", "us": 51.2}] of products, [{"batch": 8, "heads": 32, '
    '"kv_heads": 8, "head_size": 128, "length": 4096, "dtype": "bf16", "us": 61.2}] of attention; times are seconds, '
    "ms or us"
)


def read_kernels(runs: str | Path | Iterable[Any], machine: Machine) -> list[MeasuredKernel]:
    """Read rows of a file or a list; of those that cannot be read the reason is kept, unless none can be."""
    found, first, rows = [], None, list(rows_of(runs, A_KERNEL))
    if isinstance(runs, str | Path) and rows and (lacks := _kernel_lacks(rows[0][1])):
        hint = f"{_FORMS}; {spelled('model')} names one that is served"
        raise no_columns(str(runs), lacks, rows[0][1], (*_OURS, *_OURS.values(), "kernel", "kv"), hint)
    for where, row in rows:
        try:
            kernel = _read(row, machine, other_chip(row.get("chip", ""), machine))
        except InputError as wrong:
            first = first or (where, wrong)
            kernel = MeasuredKernel(_NOTHING, 0.0, "", wrong.message)
        found.append(kernel._replace(where=place(where), unread=unread(row), stated=says_format(row)))
    if first is not None and all(one.wrong for one in found):
        raise first[1].worded(f"{first[0]}: ")
    return found


@lru_cache(maxsize=64)
def other_chip(name: str, machine: Machine) -> str:
    """The chip that a row names, where it is another than the one asked for; nothing of a name that no chip has."""
    try:
        key = chip(name).key if name else machine.key
    except HardwareError:
        return ""
    return "" if key == machine.key else key


def chip_of_all(runs: Any) -> str | None:
    """The chip of a table whose rows all name one; None where they do not, or it is no table.

    >>> rows = [{"gpu": "H100", "m": 64}, {"gpu": "NVIDIA H100", "m": 65}]
    >>> chip_of_all(rows), chip_of_all([*rows, {"gpu": "a100", "m": 64}]), chip_of_all([{"m": 64}])
    ('h100', None, None)
    """
    try:
        named = {chip(row.get("chip", "")).key for _, row in rows_of(runs, A_KERNEL)}
    except (InputError, HardwareError, TypeError):
        return None
    return named.pop() if len(named) == 1 else None


def kernels_from(
    runs: str | Path | Sequence[MeasuredKernel | Mapping[str, Any]], machine: Machine
) -> Sequence[MeasuredKernel]:
    """Kernels of a CSV file, a trace of torch.profiler, a machine file or a list of rows, or those already read."""
    if isinstance(runs, str | Path):
        return capability("measured_kernels")(runs, machine)  # type: ignore[no-any-return]
    if runs and all(isinstance(one, MeasuredKernel) for one in runs):
        return runs  # type: ignore[return-value]
    return read_kernels(runs, machine)


#: Where rows that were left out stand, by the reason.
Rejected = dict[str, list[str]]
#: Most of them that are named.
NAMED = 6


def place(where: str) -> str:
    """Where a row stands within its file or list.

    >>> place("mine.csv, line 7"), place("runs[3]")
    ('line 7', 'runs[3]')
    """
    return where.rpartition(", ")[2]


class OfRows:
    """An answer from rows, which says where those stand that were ``left_out``, by the reason."""

    __slots__ = ()

    left_out: Mapping[str, Sequence[str]]

    @property
    def rejected(self) -> dict[str, int]:
        """How many rows were left out, by the reason."""
        return {why: len(places) for why, places in self.left_out.items()}


def left_out(rejected: Mapping[str, Sequence[str]], what: str = "row") -> list[str]:
    """How many rows were left out, by reason, and where they stand.

    >>> left_out({"no time": ["line 3"], "another unit": ["runs[0]", "runs[4]"], "another shape": ["", ""]})
    ['1 row: no time (line 3)', '2 rows: another unit (runs[0] and runs[4])', '2 rows: another shape']
    >>> left_out({"no time": [f"line {number}" for number in range(3, 1203)]})
    ['1,200 rows: no time (lines 3, 4, 5, 6, 7, 8 and 1,194 more)']
    """
    many = {why: f"{len(places):,} {what}{'s' if len(places) != 1 else ''}" for why, places in rejected.items()}
    return [f"{many[why]}: {why}{_places(places)}" for why, places in rejected.items()]


def _places(places: Sequence[str]) -> str:
    known = list(filter(None, places))
    if not known:
        return ""
    lines = len(known) > 1 and all(each.startswith("line ") for each in known)
    words = _few([each.removeprefix("line ") if lines else each for each in known])
    return f" ({'lines ' if lines else ''}{in_a_row(words)})"


def _few(words: Sequence[str]) -> list[str]:
    """The first words, and how many more there are."""
    return [*words[:NAMED], *[f"{len(words) - NAMED:,} more"] * (len(words) > NAMED)]


def by_kind(
    kernels: Iterable[MeasuredKernel], library: str, machine: Machine, rejected: Rejected
) -> dict[tuple[str, str, str, str], list[MeasuredKernel]]:
    """Kernels by kind, format, path and library; ``library`` is that of rows which name none."""
    found: dict[tuple[str, str, str, str], list[MeasuredKernel]] = defaultdict(list)
    for one in kernels:
        if one.wrong:
            rejected[one.wrong].append(one.where)
            continue
        whose = named_library(one.library) or library
        run = attention_of(whose, one.run, machine)
        found[run.kernel, run.dtype, run.path, whose].append(one._replace(run=run))
    return found


def named_library(name: str) -> str:
    """The library of a row by the name that constants have for it, without its version.

    >>> named_library("vLLM 0.24.0"), named_library("TensorRT-LLM"), named_library("cuBLAS"), named_library("sglang")
    ('vllm', 'trtllm', 'cublas', 'sglang')
    """
    words = name.lower().split()
    while len(words) > 1 and words[-1].lstrip("v")[:1].isdigit():
        words.pop()
    word = " ".join(words)
    return _LIBRARIES.get(word, word)


def plausible(
    members: Sequence[MeasuredKernel], machine: Machine, estimator: Estimator, rejected: Rejected
) -> list[MeasuredKernel]:
    """Rows of one kind that can be: those that cannot stand under their reason."""
    times: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    kept: dict[tuple[Any, ...], MeasuredKernel] = {}
    record = estimator.record(members[0].run, machine) or typical(members[0].run, machine, "")
    possible = []
    for one in members:
        if why := _impossible(one, chip_figures(machine, record, one.run)):
            rejected[why].append(one.where)
        else:
            possible.append(one)
            times[tuple(sorted(one.run.shapes.items()))].append(one.seconds)
    step = timer_step([one.seconds for one in possible])
    for one in possible:
        key = tuple(sorted(one.run.shapes.items()))
        every = times[key]
        if max(every) > 1.25 * min(every):
            rejected["one shape has times that differ by over a quarter"].append(one.where)
        elif one.seconds < STEPS * step:
            rejected[f"under {STEPS} steps of a timer of {step * 1e6:g} µs"].append(one.where)
        elif key in kept:
            rejected["the same shape again: the median of its times is taken"].append(one.where)
        else:
            kept[key] = one._replace(seconds=median(every))
    return list(kept.values())


def typical(run: KernelRun, machine: Machine, library: str) -> KernelConstants:
    """A start for a chip whose vendor has no constants of a kind of kernel: the typical values of its model."""
    model = KERNELS[run.kernel]
    return KernelConstants(
        machine.key, run.kernel, run.dtype, library, model.defaults(), policy=model.policies[0], path=run.path,
        figures={"cores": float(machine.cores or 100)}, transferred_from=TYPICAL,
    )  # fmt: skip


def _impossible(one: MeasuredKernel, chip: Any) -> str:
    """Why a kernel cannot have taken its time; nothing where it can."""
    shapes = one.run.shapes
    if "window" in shapes:  # it is no faster than over the keys of one window alone
        shapes = {**shapes, "length": min(shapes["length"], shapes["window"]), "past": 0.0}
    compute, memory = data_sheet_times(one.run.kernel, shapes, chip)
    floor, working_set = data_sheet_bound(one.run.kernel, shapes, chip)
    if compute and not chip.matrix_peak:
        return "the data sheet has no peak for its format"
    if one.seconds < 0.98 * float(compute):
        return "faster than the peak: another clock or format than the data sheet's, or another unit"
    if one.seconds < 0.98 * float(memory) and working_set > 2 * chip.cache:
        return "faster than memory, with data over twice the cache"
    if one.seconds > SLOW_SECONDS + SLOW * float(floor):
        return f"over {SLOW} times its bound: another kernel, or another unit"
    return ""


def timer_step(seconds: Sequence[float]) -> float:
    """The step of the timer: the largest of 100, 10, 1 and 0.1 µs that all times are whole numbers of, else zero.

    >>> timer_step([5e-6, 12e-6, 7e-6]), timer_step([5.1e-6, 12.33e-6, 7e-6])
    (1e-06, 0.0)
    """
    if len(seconds) < 2:
        return 0.0
    whole = (step for step in (1e-4, 1e-5, 1e-6, 1e-7) if all(_is_whole(each / step) for each in seconds))
    return next(whole, 0.0)


def _is_whole(count: float) -> bool:
    return count >= 0.5 and abs(count - round(count)) < 1e-6 * max(count, 1.0)


def rows_of(runs: str | Path | Iterable[Any], example: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows of a CSV file, or of a list of dicts, with where each stands: what else a list holds is no row.

    >>> next(rows_of([{"M": 64, "latency_us": 51.2, "library": None}], A_KERNEL))
    ('runs[0]', {'m': '64', 'latency_us': '51.2', 'library': '', 'time': '51.2', 'unit of time': '1e-06'})
    """
    if isinstance(runs, str | Path):
        yield from _csv_rows(runs)
        return
    for number, row in enumerate(runs):
        if not isinstance(row, Mapping):
            hint = f'{example}; a frame has to_dict("records")'
            raise InputError(f"runs[{number}] is {quoted(row)}, and each row is a dict", hint=hint)
        cells = ["" if each is None or each != each else _as_typed(each) for each in row.values()]
        yield f"runs[{number}]", _named([_as_typed(word).strip().lower() for word in row], cells)


def _as_typed(value: Any) -> str:
    """A value as a file has it; of lists deep in each other the outer ones."""
    try:
        return str(value)
    except RecursionError:
        return quoted(value)


def _csv_rows(path: str | Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Lines of a CSV file, each by its names of columns."""
    hint, name = "a CSV file with a line of names first", str(path)
    text = as_text(read_bytes(path, "table"), name)
    rows = table_rows(text, name, hint, most=MOST_SAMPLES)
    _, header = next(rows, (0, []))
    names = [word.strip().lower() for word in header]
    if any(_is_number(word) for word in names):
        raise InputError(f"the first line of {name} is a row, not names", hint="names first: m,n,k,dtype,us")
    for line, row in rows:
        yield f"{path}, line {line}", _named(names, row)


def _is_number(word: str) -> bool:
    try:
        return float(word) >= 0
    except ValueError:
        return False


def _named(names: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """Cells under their names, under ours where others are usual, the time with its unit, and what is not read."""
    each = sorted(zip(names, cells, strict=False), key=lambda one: not set(_LEAST).isdisjoint(_words(one[0])))
    held = dict(each)
    held |= {_OURS[word]: held[word] for word in held if word in _OURS and not held.get(_OURS[word])}
    times = ((word, value, unit) for word, value in each if value and (unit := time_unit(word)))
    within = ((word, *found) for word, value in each if _says_time(word) and (found := _with_unit(value)))
    column, value, unit = next(times, None) or next(within, None) or _time_at_rate(held) or ("", "", 0.0)
    unread = [word for word, value in each if value and word != column and word not in _TOLD]
    return {
        **held,
        **({_TIME: value, _UNIT: repr(unit)} if value else {}),
        **({_UNREAD: "\n".join(unread)} if unread else {}),
    }


def _time_at_rate(held: Mapping[str, str]) -> tuple[str, str, float] | None:
    """The time of a product that a column of FLOP/s tells: the column's name, the seconds, 1.

    >>> _time_at_rate({"m": "1000", "n": "1000", "k": "500", "tflops": "10"}), _time_at_rate({"tflops": "10"})
    (('tflops', '0.0001', 1.0), None)
    """
    rates = ((name, _FLOP_RATES[_words(name)]) for name, value in held.items() if value and _words(name) in _FLOP_RATES)
    name, unit = next(rates, ("", 0.0))
    try:
        flops = 2 * math.prod(row_size(held, size) for size in _PRODUCT) * row_size(held, "batch", default=1.0)
        return (name, repr(flops / (unit * row_number(held, name))), 1.0) if name else None
    except InputError:
        return None


@lru_cache(maxsize=1024)
def _words(name: str) -> tuple[str, ...]:
    """The words of a column's name, the 50th percentile as the median that it is.

    >>> _words("p50_us"), _words("time (ms)"), _words("p99_us")
    (('median', 'us'), ('time', 'ms'), ('p', 'us'))
    """
    name = _HALF.sub("median", name)
    return tuple("".join(letter if letter.isalpha() else " " for letter in name).split())


def _says_time(name: str) -> bool:
    """Whether a column is of times, whatever their unit: time, latency, mean time."""
    words = _words(name)
    return any(word in _OF_TIMES for word in words) and all(word in (*_OF_TIMES, *_WHOSE) for word in words)


def _with_unit(cell: str) -> tuple[str, float] | None:
    """A time with its unit in the cell: its number, and the seconds of the unit.

    >>> _with_unit("16.4 us"), _with_unit("2ms"), _with_unit("16.4")
    (('16.4', 1e-06), ('2', 0.001), None)
    """
    number = cell.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµμ")
    unit = _SECONDS.get(cell[len(number) :].lower())
    return (number.strip(), unit) if unit else None


@lru_cache(maxsize=1024)
def time_unit(name: str) -> float | None:
    """Seconds of the unit that a column of times has in its name; None of other columns.

    >>> time_unit("kernel_latency_us"), time_unit("time (ms)"), time_unit("tpot_ms"), time_unit("time")
    (1e-06, 0.001, None, None)
    """
    words = _words(name)
    found = [_SECONDS[word] for word in words if word in _SECONDS]
    known = all(word in _SECONDS or word in _OF_TIMES or word in _WHOSE for word in words)
    return found[0] if len(found) == 1 and known else None


def tells_shapes(names: Iterable[str]) -> bool:
    """Whether columns tell a kernel by its shapes, or as an expression.

    >>> tells_shapes(["M", "N", "K", "us"]), tells_shapes(["name", "flops", "bytes", "seconds"])
    (True, False)
    """
    words = {word.strip().lower() for word in map(str, names)}
    ours = words | {_OURS[word] for word in words - {"name"} if word in _OURS}
    told = any(ours.issuperset(each) for each in (_PRODUCT, _ATTENTION, ("expression",)))
    return told and not {"flops", "bytes"} <= words


def row_expression(row: Mapping[str, str]) -> str:
    """The line of notation of a row: its own, or that of a product or of attention of its shapes.

    >>> row_expression({"m": "64", "n": "512", "k": "128", "dtype": "fp8"})
    'fp8[64, 128] * fp8[128, 512] -> bf16[64, 512]'
    """
    if "[" in row.get("expression", ""):
        return row["expression"]
    if all(row.get(size) for size in _PRODUCT):
        m, n, k = (int(row_size(row, size)) for size in _PRODUCT)
        many = int(row_size(row, "batch", default=1.0))
        lead = f"{many}, " * (many > 1)
        a, b, out = _product_formats(row)
        written = f" -> {out}[{lead}{m}, {n}]" * (out != a)
        return f"{a}[{lead}{m}, {k}] * {b}[{lead}{k}, {n}]{written}"
    if all(row.get(size) for size in _ATTENTION):
        batch, heads, size, length = (int(row_size(row, each)) for each in _ATTENTION)
        shared = int(row_size(row, "kv_heads", default=heads))
        queries = int(row_size(row, "q_length", default=1.0))
        name, held = _attention_formats(row)
        keys = f"{held}[{batch}, {length}, {shared}, {size}]"
        window = f", window={int(row_size(row, 'window'))}" if _has_window(row) else ""
        mask = ", causal" if queries > 1 else ""
        return f"attention({name}[{batch}, {queries}, {heads}, {size}], {keys}, {keys}{mask}{window})"
    raise InputError("no kernel is named", hint=_FORMS)


def _kernel_lacks(row: Mapping[str, str]) -> list[str]:
    """The columns that a row of a kernel lacks: of the forms that it may have those of the one that lacks fewest."""
    timed = any(time_unit(name) or _says_time(name) for name in row)
    forms = [[name for name in names if name not in row] for names in (_PRODUCT, _ATTENTION)]
    lacks = [] if "expression" in row else min(forms, key=len)
    return [*lacks, *["us"] * bool(lacks and not timed)]


def no_columns(path: str, lacks: Sequence[str], names: Iterable[str], known: Collection[str], hint: str) -> InputError:
    """The error of a table that lacks columns, with the name that one of them may be a slip of."""
    unknown = [name for name in names if name not in known and not time_unit(name)]
    slips = ((name, did_you_mean(column, unknown)) for column in lacks for name in [column.partition(" ")[0]])
    slip = next((f"unknown column {other!r}: did you mean {name!r}?" for name, other in slips if other), "")
    return InputError(f"{path}: no column{'s' if len(lacks) > 1 else ''} {in_a_row(lacks)}", hint=slip or hint)


def row_time(row: Mapping[str, str]) -> tuple[str, float]:
    """The time of a row as it is written, and the seconds of its unit."""
    if _UNIT not in row:
        bare = next((name for name in row if row[name] and _says_time(name)), None)
        said = f"{bare} has no unit" if bare else "no time"
        raise InputError(said, hint="a column seconds, ms or us, as in latency_us")
    return row[_TIME], float(row[_UNIT])


def _read(row: Mapping[str, str], machine: Machine, other: str = "") -> MeasuredKernel:
    """One row as a kernel, its seconds, and the library it names; one of another chip is none."""
    if other:
        hint = f"rows of {machine.key}, or {spelled('on')} {other}"
        raise InputError(f"measured on another chip, {other}", hint=hint)
    seconds = row_time(row)[1] * row_number(row, _TIME)
    expression = row.get("expression")
    if expression and "[" in expression:
        runs = kernels_of(bound(expression, on=machine, policy="fused"))  # a row is one kernel
        if len(runs) != 1:
            raise InputError(f"the expression makes {len(runs)} kernels", hint="one operation a row")
        return MeasuredKernel(runs[0], seconds, row.get("library", ""))
    for names, make in ((_PRODUCT, _product), (_ATTENTION, _attention)):
        if all(row.get(name) for name in names):
            run = make(row)
            of_both = "" if run.path == "weights only" else _format(row, "a_dtype", "dtype")
            return MeasuredKernel(run, seconds, row.get("library", ""), dtype=of_both)
    raise InputError("no kernel is named", hint=_FORMS)


def row_number(row: Mapping[str, str], name: str, default: float | None = None) -> float:
    """A figure of a row, above zero."""
    text = row.get(name, "")
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < 1e18:
        raise InputError(f"{name} is no number above 0", hint="a number above 0")
    return value


def _has_window(row: Mapping[str, str]) -> bool:
    """Whether attention has a sliding window: 0, -1 and none are none."""
    return row.get("window", "").lower().strip("0.") not in _NO_WINDOW


def row_size(row: Mapping[str, str], name: str, default: float | None = None) -> float:
    """A size of a row, a whole number of at least 1: ``4Ki`` is 4096, and ``4k`` may be that or 4000."""
    text = row.get(name, "")
    if text[-1:].lower() in ("k", "m") and (many := count(text)) is not None:
        kilo = f"{text[:-1].strip()}{text[-1].upper()}i"
        raise InputError(f"{name} is {text}, of thousands or of 1024s", hint=f"{many}, or {kilo}: {count(kilo)}")
    row = {name: str(count(text) or text)} if text[-1:] == "i" else row
    value = row_number(row, name, default=default)
    if value != int(value):
        raise InputError(f"{name} is no whole number", hint="a size is a whole number of at least 1")
    return value


def _format(row: Mapping[str, str], *columns: str) -> str:
    """The format in the first of some columns that is filled."""
    name = next(filter(None, (row.get(column) for column in columns)), "bf16").lower().removeprefix("torch.")
    return dtypes.get(_ONLY_WEIGHTS.get(name, name)).name


def _product_formats(row: Mapping[str, str]) -> tuple[str, str, str]:
    """The formats of activations, of weights and of what a product writes.

    >>> [_product_formats({"dtype": name}) for name in ("int8", "int8_wo", "int4")]
    [('int8', 'int8', 'bf16'), ('bf16', 'int8', 'bf16'), ('bf16', 'int4', 'bf16')]
    >>> _product_formats({"dtype": "bf16", "b_dtype": "int8"}), _product_formats({"a_dtype": "fp16", "b_dtype": "fp8"})
    (('bf16', 'int8', 'bf16'), ('fp16', 'fp8', 'fp16'))
    """
    given = [name for name in ("a_dtype", "b_dtype") if row.get(name)]
    if len(given) == 1 and not row.get("dtype"):
        raise InputError(f"{given[0]} stands alone", hint="a_dtype and b_dtype, or one of them beside dtype")
    b = _format(row, "b_dtype", "dtype")
    a = _format(row, "a_dtype", *["dtype"] * (row.get("dtype", "").lower() not in _ONLY_WEIGHTS))
    return a, b, _format(row, "out_dtype") if dtypes.get(a).bits < 16 or row.get("out_dtype") else a


def _attention_formats(row: Mapping[str, str]) -> tuple[str, str]:
    """The formats of queries, and of keys and values."""
    return _format(row, "a_dtype", "dtype"), _format(row, "kv", "dtype", "a_dtype")


def _product(row: Mapping[str, str]) -> KernelRun:
    a, b, out = _product_formats(row)
    kernel, dtype, path = product_kind(a, b)
    if dtype not in ("bf16", "fp8", "nvfp4", "int8", "int4"):
        raise InputError(f"no kernels of {quoted(dtype)} are known", hint="bf16, fp8, nvfp4, int8, int4")
    shapes = {name: row_size(row, name) for name in _PRODUCT} | {"batch": row_size(row, "batch", default=1.0)}
    for name, each in zip(("a_bytes", "b_bytes", "out_bytes"), (a, b, out), strict=True):
        shapes[name] = dtypes.get(each).bits_per_element / 8
    return KernelRun(kernel, dtype, path, shapes, ())


def _attention(row: Mapping[str, str]) -> KernelRun:
    shapes = {name: row_size(row, name) for name in _ATTENTION}
    shapes["kv_heads"] = row_size(row, "kv_heads", default=shapes["heads"])
    if shapes["heads"] % shapes["kv_heads"]:
        raise InputError("heads are no multiple of kv_heads", hint="as in 32 and 8")
    read, held = _attention_formats(row)
    shapes["kv_bytes"] = dtypes.get(held).bits_per_element / 8
    queries, keys = row_size(row, "q_length", default=1.0), shapes.pop("length")
    if queries > keys:
        raise InputError("q_length is above length", hint="length counts the keys, new ones among them")
    if _has_window(row) and (window := row_size(row, "window")) < keys:
        shapes["window"] = window
    return attention_run(shapes, queries, keys, kernel_format(read), cache_format(read, held))
