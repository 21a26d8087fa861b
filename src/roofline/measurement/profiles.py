"""Profiles of other tools: traces of torch.profiler, reports of Nsight Compute, plain tables of runs.

A CSV of Nsight Compute → runs: one a kernel, from the metrics of its roofline section.

``ncu --csv --page raw --metrics …`` gives a column a metric and a row of units below the header; ``--page details``
gives a line a metric. Both are read, whatever the program printed before them, with a comma before thousands or
before decimals. FLOPs are adds and multiplies once, fused multiply-adds twice, and the operations of the tensor cores
as their own metric counts them. A report of rates alone (``--set full``) gives amounts as rate × time.

Source: Nsight Compute documentation, "Metrics Reference" and "Roofline Charts"; C. Yang, arXiv:2009.05257.

A trace of torch.profiler (Chrome's JSON) → runs: time from the trace, FLOPs and bytes from our own rules.

An operation counts where its caller does not: of ``linear`` calling ``addmm`` the outermost that has a rule is taken.
On an accelerator its time is that of the kernels it launched, joined to it by the trace's own numbers: the External id
of both, or the correlation of a kernel and of the call that launched it, which has such an id or lies within the
operation. On a CPU it is the operation's own. All time is accounted for: what has no rule is listed with its time, and
so is what a caller without one spends beside the operations it calls, and what no operation launched.

A row is the call it was, priced by the rules that price traced programs. A trace carries no FLOPs or bytes; names,
shapes, formats and plain arguments it does. PyTorch is not needed. An operation without a rule, or of shapes its rule
does not take, is not priced, and whoever reads the trace lists it.

>>> op = price_profiled_call(ProfiledCall("aten::mm", ((64, 128), (128, 32)), ("float", "float")))
>>> op.kind, op.work.total("flops")
('contraction', 524288)
>>> price_profiled_call(ProfiledCall("aten::unique_dim", ((64,),), ("float",))) is None
True
"""

from __future__ import annotations

import ast
import csv
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from roofline.bounds.memory import traffic
from roofline.errors import InputError
from roofline.files import as_text, read_bytes, read_json, table_rows
from roofline.frozen import dataclass, replace
from roofline.measurement.runs import AROUND, COLLECT, Measured, Profile, not_of_torch, own_profile
from roofline.programs.pytorch.profiled_results import POINTWISE, SIGNATURES, with_results
from roofline.programs.pytorch.registry import UNTOLD, Call, TensorOperand, price
from roofline.progress import counted
from roofline.quantity import whole_number
from roofline.signatures import takes
from roofline.sizes import grouped, sums_by_name
from roofline.work import Key, Op, Tensor, Work

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
    """Read the kernels of a report; where none has a time and bytes an error names the metric, else they are left out.

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
    lost = [title for title, metrics in kernels if TIME not in metrics or not _bytes_in(metrics)]
    if 0 < len(lost) < len(kernels):
        many, names = f"{len(lost)} of {len(kernels)} kernels", ", ".join([*dict.fromkeys(lost)][:MOST_NAMED])
        notes.append(f"{many} have no time or no bytes in the report and are left out: {names}")
        kernels = [kernel for kernel in kernels if TIME in kernel[1] and _bytes_in(kernel[1])]
    runs = [_nsight_run(title, metrics, name) for title, metrics in kernels]
    idle = sums_by_name((run.name, run.seconds) for run in runs if not run.flops and not run.bytes)
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


def _nsight_run(title: str, metrics: Metrics, name: str) -> Measured:
    if TIME not in metrics:
        raise InputError(f"{name}: {title}: the metric {TIME} is missing", hint=COLLECT)
    seconds = _figure(metrics, TIME, _SECONDS, name)
    if not 0 < seconds < math.inf:
        raise InputError(f"{name}: {title}: {TIME} is {metrics[TIME][0]}", hint="a time is above 0")
    found = _bytes_in(metrics)
    if not found:
        raise InputError(f"{name}: {title}: the metric {BYTES[0][0]} is missing", hint=COLLECT)
    moved = sum(_figure(metrics, metric, _BYTES, name) for metric in found)
    flops = _flops(metrics, name)
    main = max(flops, key=lambda dtype: flops[dtype], default="fp32")
    return Measured(title, sum(flops.values()), moved, seconds, main)


def _bytes_in(metrics: Metrics) -> Sequence[str]:
    """The metrics of bytes that a kernel has, by the names of one generation; none where one of them is missing."""
    return next((names for names in BYTES if all(metric in metrics for metric in names)), ())


def _flops(metrics: Metrics, name: str) -> dict[str, float]:
    """FLOPs by dtype. One count may be there under several names (sm and smsp, all and without sparsity): once only.

    The largest of its names is the whole; a tensor operation's count over all results stands for those of each.
    """
    counts: dict[tuple[str, str, str], float] = {}
    for metric in metrics:
        if matched := _CUDA.fullmatch(metric):
            key, amount = (_CUDA_DTYPES[matched[1]], "", matched[2]), 2.0 if matched[2] == "fma" else 1.0
        elif (matched := _TENSOR.fullmatch(metric)) and matched[1] in _TENSOR_DTYPES:
            key, amount = (_TENSOR_DTYPES[matched[1]], matched[1], matched[2] or ""), 1.0
        else:
            continue
        counts[key] = max(counts.get(key, 0.0), amount * _figure(metrics, metric, {}, name))
    return sums_by_name(
        (dtype, amount)
        for (dtype, source, part), amount in counts.items()
        if not part or (dtype, source, "") not in counts
    )


def _figure(metrics: Metrics, metric: str, units: Mapping[str, float], name: str) -> float:
    written, unit = metrics[metric]
    try:
        value = float(written.replace(",", ""))
    except ValueError:
        raise InputError(f"{name}: {metric} is {written!r}, not a number") from None
    if units and unit not in units:
        raise InputError(f"{name}: {metric} is in {unit!r}", hint=f"units are: {', '.join(units)}")
    return value * units.get(unit, 1.0)


#: Formats as a trace names them.
FORMATS = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "signed char": "int8",
    "unsigned char": "uint8", "short": "int16", "short int": "int16", "int": "int32", "long": "int64",
    "long int": "int64", "bool": "bool", "c10::Float8_e4m3fn": "fp8_e4m3", "c10::Float8_e5m2": "fp8_e5m2",
    "c10::complex<c10::Half>": "complex32",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
    "c10::qint8": "int8", "c10::quint8": "uint8", "c10::qint32": "int32",
}  # fmt: skip

#: What a Python number beside a tensor is written as: a tensor without dimensions of one of these formats.
_NUMBERS: dict[str, float] = {"double": math.nan, "long": 0, "long int": 0}

#: The largest size a tensor may have.
LARGEST = 2**50


@dataclass(frozen=True, slots=True)
class ProfiledCall:
    """One call as a trace tells it, argument by argument: shape, format, plain value as text, strides.

    Of a list of tensors the formats are a sequence too. ``gradients`` are the names of the backward operations that the
    trace holds: what a forward one keeps for its gradient is written only where there is one.
    """

    name: str
    shapes: Sequence[Any]
    formats: Sequence[Any]
    values: Sequence[Any] = ()
    strides: Sequence[Any] = ()
    gradients: frozenset[str] | None = None

    def call(self) -> Call:
        """The same call as the rules of traced programs take it, without its results."""
        plain = self.name.removeprefix("aten::")
        is_private = plain.startswith("__")
        name = plain if is_private else plain.rstrip("_") or plain
        told = zip_longest(self.shapes, self.formats, self.values, self.strides, fillvalue=None)
        args = tuple(_argument(place, *one) for place, one in enumerate(told))
        if any(isinstance(item, TensorOperand) and item.shape for item in args):
            args = tuple(
                _NUMBERS.get(kind, item) if isinstance(item, TensorOperand) and not item.shape else item
                for item, kind in zip_longest(args, self.formats)
            )
        names = tuple(SIGNATURES.get(name, "").split())
        if name == "sort" and len(args) > 3:
            names = ("self", "stable", "dim", "descending")
        return Call(f"aten.{name}", name, args, names, in_place=not is_private and plain.endswith("_"))

    def is_kept(self, gradient: str) -> bool:
        """Whether the trace holds a gradient whose name ends so."""
        return self.gradients is None or any(name.endswith(gradient) for name in self.gradients)


def price_profiled_call(row: ProfiledCall) -> Op | None:
    """Price a call of the dispatcher; None where it has no rule, or not the shapes its rule takes."""
    if not row.name.startswith("aten::"):
        return None
    try:
        call = with_results(row.call(), saved=row.is_kept)
        priced = price(call, pointwise=call.name in POINTWISE)
    except (InputError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    ops = [priced] if isinstance(priced, Op) else list(priced or ())
    op = _together(call.name, ops) if ops else None
    return op if op is not None and _is_sound(op) else None


def _argument(place: int, shape: Any, kind: Any, value: Any, strides: Any) -> Any:
    if isinstance(kind, str) and kind in FORMATS and _is_shape(shape) and (shape or not value):
        return _operand(f"x{place}", shape, kind, strides)
    if isinstance(kind, list | tuple) and isinstance(shape, list | tuple):
        every = strides if isinstance(strides, list | tuple) and len(strides) == len(shape) else [None] * len(shape)
        parts = enumerate(zip(shape, kind, every, strict=True))
        return tuple(_operand(f"x{place}.{number}", *one) for number, one in parts)
    if not isinstance(value, str):
        return UNTOLD if value is None else value
    try:
        return ast.literal_eval(value.capitalize() if value in ("true", "false") else value)
    except (ValueError, SyntaxError):
        return UNTOLD


def _operand(ident: str, shape: Sequence[int], kind: str, strides: Any) -> TensorOperand:
    """A tensor; a dimension that was expanded, of stride 0, is read once."""
    sizes, dtype = tuple(shape), FORMATS[kind]
    steps = strides if isinstance(strides, list | tuple) and len(strides) == len(sizes) else [None] * len(sizes)
    dims = tuple(1 if step == 0 else size for size, step in zip(sizes, steps, strict=True))
    return TensorOperand(sizes, dtype, Tensor(ident, dims, dtype))


def _together(name: str, ops: Sequence[Op]) -> Op:
    """Several kernels behind one call as one operation, each of which reads and writes for itself."""
    if len(ops) == 1:
        return ops[0]
    reads = [replace(t, ident=f"{t.ident}:{n}") for n, op in enumerate(ops) for t in op.reads]
    writes = [replace(t, ident=f"{t.ident}:{n}") for n, op in enumerate(ops) for t in op.writes]
    work = sum((op.work for op in ops), Work())
    return Op(name, ops[0].kind, work, tuple(reads), tuple(writes), ops[0].dims)


def _is_sound(op: Op) -> bool:
    """Whether what a damaged trace tells still makes an operation: whole sizes, and an amount of work."""
    sizes = (size for tensor in (*op.reads, *op.writes) for size in tensor.dims)
    whole = all(isinstance(size, int) and 0 <= size <= LARGEST for size in sizes)
    return whole and all(isinstance(amount, int | float) and 0 <= amount < math.inf for _, amount in op.work.items())


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list | tuple) and all(isinstance(size, int) and size > 0 for size in shape)


#: Categories of events, in small letters: operations, work of a device, calls that launch it. PyTorch before 1.12 wrote
#: Operator, Kernel, Memcpy, Memset and Runtime.
OPERATIONS = frozenset({"cpu_op", "operator"})
DEVICE_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
LAUNCHES = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime", "runtime"})

#: Operations that move and compute nothing: views, bookkeeping of the dispatcher, and creation of tensors (whose fill
#: is an operation of its own).
FREE = frozenset(
    (  # noqa: SIM905
        "view reshape _reshape_alias as_strided transpose t permute expand squeeze unsqueeze slice select detach alias "
        "empty empty_like empty_strided resize to _to_copy result_type narrow split chunk unbind flatten numpy_T "
        "contiguous item _local_scalar_dense is_nonzero resolve_conj resolve_neg expand_as view_as size lift_fresh "
        "_unsafe_view unsafe_chunk unsafe_split unflatten broadcast_tensors type_as new_empty new_empty_strided mT mH "
        "adjoint matrix_H movedim swapaxes diagonal unfold split_with_sizes tensor_split real view_as_real "
        "view_as_complex resize_as cudnn_is_acceptable sparse_dim dense_dim _nnz _indices _values indices values "
        "crow_indices col_indices scalar_tensor zeros zeros_like new_zeros ones ones_like new_ones full full_like "
        "new_full rand rand_like randn randn_like randint"
    ).split()
)

#: Operations named in a note.
MOST_NAMED = 6

#: Operations whose form stands in a word, which a trace does not hold.
UNTOLD_FORM = ("aten::gelu", "aten::gelu_")

#: Label of the time of kernels that no operation launched.
NOBODY = "kernels of no operation"

#: Label of the time of code compiled by torch.compile. A trace of a CPU does not show its kernels one by one.
COMPILED = "kernels of torch.compile"
_REGIONS = ("Torch-Compiled Region", "CompiledFunction")

#: Prefixes of the events of torch.compile around compiled code.
_BESIDE_REGIONS = ("TorchDynamo ", "Pregraph ", "AOTDispatcher ")

#: Names of the events that autograd records around the gradient of an operation.
_ENGINE = "autograd::engine::evaluate_function: "
_OWN = re.compile(rf"{_ENGINE}.*|torch::autograd::AccumulateGrad|\w+Backward\d+")

_FP32, _TF32 = (Key("flops", "matrix", dtype) for dtype in ("fp32", "tf32"))

#: The type of a list of tensors.
LIST = "TensorList"


def read_torch_trace(path: str | os.PathLike[str]) -> Profile:
    """Read a trace that ``torch.profiler.profile(record_shapes=True)`` exported; ``.json`` or ``.json.gz``.

    Raises :class:`~roofline.errors.InputError` for a file that is cut short, holds no operations, or holds no shapes.
    """
    name = os.fspath(path)
    events = _events(name)
    calls = [e for e in _timed(events, OPERATIONS) if e.get("ph") == "X"]
    if not calls:
        raise not_of_torch(name, events)
    odd = next((e for e in (*calls, *_timed(events, DEVICE_WORK)) if not 0 <= e["dur"] < math.inf), None)
    if odd is not None:
        raise InputError(f"{name}: {odd['name']} took {odd['dur']} us", hint="a time is a number, and not below 0")
    if not any(_dims(e) is not None for e in calls):
        raise InputError(f"{name} holds no shapes", hint="profile with record_shapes=True")
    kernels = _kernel_seconds(events, calls)
    runs: list[Measured] = []
    ruleless: list[tuple[str, float]] = []
    timeless = 0
    prices, sparse = _prices(calls)
    picked, passed = _outermost(calls, prices)
    for call, inside in picked:
        plain = str(call["name"])
        op = prices.get(id(call))
        seconds = _seconds(call, inside, kernels)
        if op is not None and seconds > 0:
            runs.append(replace(_torch_run(plain, op, _frozen(_dims(call)), bool(kernels)), seconds=seconds))
        elif seconds > 0:
            around = _is_free(plain) or (_OWN.fullmatch(plain) and all(map(_is_bare, inside)))
            ruleless.append((AROUND if around else _plain(plain), seconds))
        timeless += op is not None and seconds <= 0
    unpriced = sums_by_name([*ruleless, *_beside(calls, passed, kernels, prices)])
    if not runs:
        names = ", ".join(sorted(unpriced.keys() - {AROUND})[:MOST_NAMED])
        raise InputError(f"{name} holds no operation that has a rule", hint=f"it holds: {names}")
    whose = "kernels of the device" if kernels else "operations of the CPU: the trace holds no kernels of a device"
    notes = [f"times are those of the {whose}"]
    if not any("Concrete Inputs" in _told(e) for e in calls):
        notes += ["the trace tells no strides and no masks, as older ones do: operations that need them have no rule"]
    if any(LIST in _list(_told(call).get("Input type")) for call, _ in picked if id(call) in prices):
        notes += ["formats of tensors in lists, which a trace does not tell, are those of the tensors of their shapes"]
    if sparse:
        notes.append(
            f"no rule for {', '.join(sorted(sparse)[:MOST_NAMED])} of tensors without strides, as sparse ones are: "
            "a trace does not tell how many elements these store"
        )
    if any(str(call["name"]) in UNTOLD_FORM and id(call) in prices for call, _ in picked):
        notes.append("a trace does not tell whether a GELU is by tanh: the fewer FLOPs, those of the exact one, count")
    if any(run.op is not None and _TF32 in run.op.work for run in runs):
        notes.append("convolutions of fp32 are held to tf32, as torch.backends.cudnn.allow_tf32 is set unless unset")
    if timeless:
        notes.append(f"{timeless} operation{'s' * (timeless > 1)} with a rule took no time and stand nowhere")
    return Profile(tuple(runs), unpriced, tuple(notes), of_cpu=not kernels)


def holds_torch_trace(content: bytes) -> bool:
    """Say whether a file is a trace of torch.profiler: it is JSON."""
    return content[:1] in (b"{", b"[")


def _events(name: str) -> list[dict[str, Any]]:
    data = read_json(name, "trace")
    found = data.get("traceEvents", data.get("points")) if isinstance(data, dict) else data
    if not isinstance(found, list):
        raise InputError(f"{name} holds no traceEvents", hint="export it with torch.profiler's export_chrome_trace")
    return [event for event in found if isinstance(event, dict)]


def _told(event: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an event; none if they are damaged."""
    told = event.get("args")
    return told if isinstance(told, dict) else {}


def _category(event: dict[str, Any]) -> str:
    return str(event.get("cat")).lower()


def _dims(event: dict[str, Any]) -> Any:
    """The shapes of the inputs; None if they are damaged. Old traces write the key with a small letter."""
    told = _told(event)
    found = told.get("Input Dims", told.get("Input dims"))
    return found if isinstance(found, list) and all(map(_is_list_of_sizes, found)) else None


def _is_list_of_sizes(value: Any) -> bool:
    """Whether this is a list of sizes, or a list of shapes, as that of a list of tensors is."""
    if not isinstance(value, list):
        return False
    return all(isinstance(size, int) for size in value) or all(map(_is_list_of_sizes, value))


def _number_of(event: dict[str, Any]) -> str | None:
    """The number that joins an operation to its kernels. Old traces write the key with a small letter, or a text."""
    told = _told(event)
    found = told.get("External id", told.get("external id"))
    return None if found is None else str(found)


def _plain(name: str) -> str:
    """The label of a call: a gradient without autograd's prefix, compiled code under one name."""
    plain = name.removeprefix(_ENGINE)
    return COMPILED if plain.startswith(_REGIONS) else plain


def _is_free(name: str) -> bool:
    return name.startswith(_BESIDE_REGIONS) or name.removeprefix("aten::").rstrip("_") in FREE


def _is_bare(event: dict[str, Any]) -> bool:
    """Whether a call inside a gradient is no operation of its own: a view, or a wrapper."""
    name = str(event["name"])
    return _is_free(name) or not name.startswith("aten::")


def _timed(events: Sequence[dict[str, Any]], categories: Set[str]) -> list[dict[str, Any]]:
    """The events of some categories that have a name and a time."""
    kinds = {"ts": int | float, "dur": int | float, "name": str}
    found = [event for event in events if _category(event) in categories]
    return [event for event in found if all(isinstance(event.get(key), kind) for key, kind in kinds.items())]


TraceCall = tuple[dict[str, Any], list[dict[str, Any]]]

#: Priced operations by the id of their call.
Prices = dict[int, Op]


def _outermost(calls: Sequence[dict[str, Any]], prices: Prices) -> tuple[list[TraceCall], list[TraceCall]]:
    """Pick, thread by thread, the outermost calls that are priced or hold nothing priced, with all they contain.

    A call that calls itself on tensors of other formats, as under autocast, is none of them: what it calls is, and
    the casts beside. Nor is a product that contains itself several times. Second come the calls around these.
    """
    picked: list[TraceCall] = []
    passed: list[TraceCall] = []
    for listed in _by_thread(calls):
        position = 0
        while position < len(listed):
            call = listed[position]
            end = call["ts"] + call["dur"]
            stop = position + 1
            while stop < len(listed) and listed[stop]["ts"] < end:
                stop += 1
            inside = listed[position + 1 : stop]
            own = id(call) in prices and not _recast(call, inside) and not _is_mapped(call, inside, prices)
            if own or not any(id(event) in prices for event in inside):
                picked.append((call, inside))
                position = stop
            else:
                passed.append((call, inside))
                position += 1
    return picked, passed


def _by_thread(events: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The events of each thread, callers before what they call."""
    for listed in grouped(((str(event.get("pid")), str(event.get("tid"))), event) for event in events).values():
        yield sorted(listed, key=_order)


def _recast(call: dict[str, Any], inside: Sequence[dict[str, Any]]) -> bool:
    """Whether a call contains the same operation on tensors of other formats, as under autocast."""
    kinds = _told(call).get("Input type")
    return any(event["name"] == call["name"] and _told(event).get("Input type") != kinds for event in inside)


def _is_mapped(call: dict[str, Any], inside: Sequence[dict[str, Any]], prices: Prices) -> bool:
    """Whether a product contains itself several times: ``vmap`` tells the shapes of one entry first, then of all.

    A derivative along a direction (``jvp``) contains the product and those of its tangents.
    """
    own = prices[id(call)]
    if own.kind != "contraction":
        return False
    products = [event for event in inside if id(event) in prices and prices[id(event)].kind == own.kind]
    starts = [*(event["ts"] for event in products[1:]), math.inf]
    innermost = [event for event, after in zip(products, starts, strict=False) if event["ts"] + event["dur"] <= after]
    return bool(sum(prices[id(event)].work.total("flops") for event in innermost) >= 2 * own.work.total("flops"))


def _order(call: dict[str, Any]) -> tuple[float, float, int]:
    """Callers before what they call: of two of one time, as in traces of whole microseconds, the one numbered first."""
    return call["ts"], -call["dur"], whole_number(_number_of(call) or "") or 0


def _beside(
    calls: Sequence[dict[str, Any]], passed: Sequence[TraceCall], kernels: dict[str | None, float], prices: Prices
) -> Iterator[tuple[str, float]]:
    """The time of unpriced callers outside what they call, under their own name if it is most of their time."""
    for call, inside in passed:
        if kernels:
            seconds, whole = kernels.get(_number_of(call), 0.0), 0.0
        else:
            seconds, whole = _own_seconds(call, inside), call["dur"] * 1e-6
        if seconds > 0:
            name = str(call["name"])
            most = seconds > whole / 2 and not (_is_free(name) or _OWN.fullmatch(name) or id(call) in prices)
            yield (_plain(name) if most or _plain(name) == COMPILED else AROUND), seconds
    launched = {_number_of(call) for call in calls}
    nobody = sum(seconds for number, seconds in kernels.items() if number is None or number not in launched)
    if nobody > 0:
        yield NOBODY, nobody


def _own_seconds(call: dict[str, Any], inside: Sequence[dict[str, Any]]) -> float:
    """The time of a call minus the time of the calls inside it."""
    own, end = float(call["dur"]), float(call["ts"])
    for event in inside:
        if event["ts"] >= end:
            own -= event["dur"]
            end = event["ts"] + event["dur"]
    return max(own, 0.0) * 1e-6


def _prices(calls: Sequence[dict[str, Any]]) -> tuple[Prices, set[str]]:
    """Price every call that has a rule; those of sparse tensors have none, and are named.

    Of the tensors in a list a trace tells the shapes alone: each is taken to be of the format of the last tensor of its
    shape before, or of the first behind.
    """
    found: Prices = {}
    sparse: set[str] = set()
    gradients = frozenset(str(call["name"]) for call in calls if str(call["name"]).endswith("_backward"))
    inputs = [(call, _frozen(_dims(call)), _frozen(_told(call).get("Input type", []))) for call in calls]
    inputs = [one for one in inputs if isinstance(one[1], tuple) and isinstance(one[2], tuple)]
    inputs.sort(key=lambda one: _order(one[0]))
    formats: dict[Any, str] = {}
    for _, dims, kinds in reversed(inputs):
        formats.update(_known(dims, kinds))
    for call, dims, kinds in counted(inputs, "prices"):
        formats.update(_known(dims, kinds))
        if LIST in kinds:
            pairs = zip(dims, kinds, strict=False)
            kinds = tuple(_listed(shapes, kind, formats) if kind == LIST else kind for shapes, kind in pairs)
        values, strides = (_frozen(_list(_told(call).get(key))) for key in ("Concrete Inputs", "Input Strides"))
        op = _price(str(call["name"]), dims, kinds, values, _expanded(strides), gradients)
        if op is not None and _is_sparse(call):
            sparse.add(str(call["name"]))
        elif op is not None:
            found[id(call)] = op
    return found, sparse


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _expanded(strides: Any) -> Any:
    """Strides where a tensor was expanded: of others nothing depends on them."""
    return strides if "0" in str(strides).replace(",", " ").replace("(", " ").replace(")", " ").split() else ()


def _is_sparse(call: dict[str, Any]) -> bool:
    """Whether a tensor has a shape and no strides: of what it stores, a trace does not tell how much."""
    shapes, strides = _dims(call), _told(call).get("Input Strides")
    pairs = zip(shapes, strides, strict=False) if isinstance(shapes, list) and isinstance(strides, list) else ()
    return any(one == [] and isinstance(shape, list) and shape and isinstance(shape[0], int) for shape, one in pairs)


def _known(dims: Sequence[Any], kinds: Sequence[Any]) -> dict[Any, str]:
    """Formats by shape, of the tensors of which both are told."""
    return {shape: kind for shape, kind in zip(dims, kinds, strict=False) if kind in FORMATS}


def _listed(shapes: Any, kind: str, formats: Mapping[Any, str]) -> Any:
    """Name the formats of a list's tensors, where all are known."""
    if not isinstance(shapes, tuple) or not all(shape in formats for shape in shapes):
        return kind
    return tuple(formats[shape] for shape in shapes)


@lru_cache(maxsize=4096)
def _price(name: str, dims: Any, kinds: Any, values: Any, strides: Any, gradients: frozenset[str]) -> Op | None:
    """Price a call; a trace holds the same ones again and again."""
    return price_profiled_call(ProfiledCall(name, dims, kinds, values, strides, gradients))


def _frozen(value: Any) -> Any:
    """Make a key of what a trace tells."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return str(value) if isinstance(value, dict) else value


def _kernel_seconds(events: Sequence[dict[str, Any]], calls: Sequence[dict[str, Any]]) -> dict[str | None, float]:
    """Seconds of device work by the External id of the operation that launched it."""
    found: dict[str | None, float] = {}
    known = {_number_of(call) for call in calls}
    launchers: dict[str, str | None] | None = None
    for event in _timed(events, DEVICE_WORK):
        number, link = _number_of(event), _told(event).get("correlation")
        if (number is None or number not in known) and link is not None:
            launchers = _launchers(events, calls) if launchers is None else launchers
            number = launchers.get(str(link), number)
        found[number] = found.get(number, 0.0) + event["dur"] * 1e-6
    return found


def _launchers(events: Sequence[dict[str, Any]], calls: Sequence[dict[str, Any]]) -> dict[str, str | None]:
    """The External id of the operation behind every correlation: the launch's own, or that of the call it lies in."""
    known = {_number_of(call) for call in calls}
    found: dict[str, str | None] = {}
    launches = [e for e in _timed(events, LAUNCHES) if "correlation" in _told(e)]
    for listed in _by_thread((*calls, *launches)):
        around: list[dict[str, Any]] = []
        for event in listed:
            while around and around[-1]["ts"] + around[-1]["dur"] <= event["ts"]:
                around.pop()
            if _category(event) not in LAUNCHES:
                around.append(event)
                continue
            number = _number_of(event)
            if number not in known:
                number = next((_number_of(call) for call in reversed(around) if _number_of(call) is not None), None)
            if number is not None:
                found[str(_told(event)["correlation"])] = number
    return found


def _seconds(call: dict[str, Any], inside: Sequence[dict[str, Any]], kernels: dict[str | None, float]) -> float:
    if not kernels:
        return float(call["dur"]) * 1e-6
    numbers = {_number_of(event) for event in (call, *inside)}
    return sum(kernels.get(number, 0.0) for number in numbers if number is not None)


@lru_cache(maxsize=4096)
def _torch_run(name: str, op: Op, dims: Any, of_device: bool) -> Measured:
    """An operation as a run of one second, under its name and the first two shapes that the trace tells of it.

    A trace does not tell the format that a device multiplies in: it is that of PyTorch's settings as they come.
    """
    if of_device and op.kind == "convolution" and _FP32 in op.work:
        op = replace(op, work=Work({_TF32 if key == _FP32 else key: amount for key, amount in op.work.items()}))
    [moved] = traffic([op])
    tensors = op.reads or op.writes
    dtype = next((key.dtype for key in op.work if key.quantity == "flops"), "")
    dtype = dtype or (tensors[0].dtype if tensors else "fp32")
    shapes = _shapes(dims)
    places = dict.fromkeys(tensor.ident.partition(":")[0] for tensor in op.reads)
    named = [shapes[place] for place in places if place in shapes] or list(shapes.values())
    words = " ".join("x".join(map(str, shape)) for shape in named[:2])
    flops = float(sum(amount for key, amount in op.work.items() if key.quantity == "flops"))
    label = f"{name.removeprefix('aten::')} {words}".strip()
    return Measured(label, flops, float(moved.total("bytes")), 1.0, dtype, op=op)


def _shapes(dims: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the arguments, and of those in lists, by the names that a profiled call gives them."""
    found: dict[str, tuple[int, ...]] = {}
    for place, shape in enumerate(dims):
        if shape and isinstance(shape[0], tuple):
            found |= {f"x{place}.{number}": one for number, one in enumerate(shape) if one}
        elif shape:
            found[f"x{place}"] = shape
    return found


#: The formats of other tools: whether the bytes of a file are one, and what reads it.
READERS = ((holds_torch_trace, read_torch_trace), (holds_nsight, read_nsight))


@takes()
def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Read a trace of torch.profiler, a CSV of Nsight Compute, or rows of your own: FLOPs and bytes, or shapes."""
    name = os.fspath(path)
    content = read_bytes(name, "trace").lstrip(b"\xef\xbb\xbf \t\r\n")
    if not content:
        raise InputError(f"{name} is empty", hint="give a trace of torch.profiler or a CSV file")
    read = next((read for holds, read in READERS if holds(content)), None)
    return own_profile(name) if read is None else read(name)
