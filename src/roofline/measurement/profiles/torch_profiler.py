"""A trace of torch.profiler (Chrome's JSON) → runs: time from the trace, FLOPs and bytes from our own rules.

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
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from roofline.bounds.traffic import traffic
from roofline.errors import InputError
from roofline.files import read_json
from roofline.frozen import dataclass, replace
from roofline.measurement.runs import AROUND, Measured, Profile, not_of_torch
from roofline.programs.pytorch.profiled_results import SIGNATURES, with_results
from roofline.programs.pytorch.registry import UNTOLD, Call, TensorOperand, price
from roofline.progress import counted
from roofline.quantity import whole_number
from roofline.work import Key, Op, Tensor, Work

#: Formats as a trace names them.
FORMATS = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "signed char": "int8",
    "unsigned char": "uint8", "short": "int16", "short int": "int16", "int": "int32", "long": "int64",
    "long int": "int64", "bool": "bool", "c10::Float8_e4m3fn": "fp8_e4m3", "c10::Float8_e5m2": "fp8_e5m2",
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
            args = tuple(_number(item, kind) for item, kind in zip_longest(args, self.formats))
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
        priced = price(call)
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


def _number(item: Any, kind: Any) -> Any:
    return _NUMBERS.get(kind, item) if isinstance(item, TensorOperand) and not item.shape else item


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
    calls = [e for e in events if e.get("ph") == "X" and _category(e) in OPERATIONS and _timed(e)]
    if not calls:
        raise not_of_torch(name, events)
    odd = next((e for e in (*calls, *_device_work(events)) if not 0 <= e["dur"] < math.inf), None)
    if odd is not None:
        raise InputError(f"{name}: {odd['name']} took {odd['dur']} us", hint="a time is a number, and not below 0")
    if not any(_dims(e) is not None for e in calls):
        raise InputError(f"{name} holds no shapes", hint="profile with record_shapes=True")
    kernels = _kernel_seconds(events, calls)
    runs: list[Measured] = []
    unpriced: dict[str, float] = {}
    timeless = 0
    prices, sparse = _prices(calls)
    picked, passed = _outermost(calls, prices)
    for call, inside in picked:
        plain = str(call["name"])
        op = prices.get(id(call))
        seconds = _seconds(call, inside, kernels)
        if op is not None and seconds > 0:
            runs.append(replace(_run(plain, op, _frozen(_dims(call)), bool(kernels)), seconds=seconds))
        elif seconds > 0:
            around = _is_free(plain) or (_OWN.fullmatch(plain) and all(map(_is_bare, inside)))
            said = AROUND if around else _plain(plain)
            unpriced[said] = unpriced.get(said, 0.0) + seconds
        timeless += op is not None and seconds <= 0
    for called, seconds in _beside(calls, passed, kernels, prices):
        unpriced[called] = unpriced.get(called, 0.0) + seconds
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


def _timed(event: dict[str, Any]) -> bool:
    return all(isinstance(event.get(key), int | float) for key in ("ts", "dur")) and isinstance(event.get("name"), str)


TraceCall = tuple[dict[str, Any], list[dict[str, Any]]]

#: Priced operations by the id of their call.
Prices = dict[int, Op]


def _outermost(calls: Sequence[dict[str, Any]], prices: Prices) -> tuple[list[TraceCall], list[TraceCall]]:
    """Pick, thread by thread, the outermost calls that are priced or hold nothing priced, with all they contain.

    A call that calls itself on tensors of other formats, as under autocast, is none of them: what it calls is, and
    the casts beside. Second come the calls around these, with all they contain.
    """
    picked: list[TraceCall] = []
    passed: list[TraceCall] = []
    threads: dict[Any, list[dict[str, Any]]] = {}
    for call in calls:
        threads.setdefault((str(call.get("pid")), str(call.get("tid"))), []).append(call)
    for listed in threads.values():
        listed.sort(key=_order)
        position = 0
        while position < len(listed):
            call = listed[position]
            end = call["ts"] + call["dur"]
            stop = position + 1
            while stop < len(listed) and listed[stop]["ts"] < end:
                stop += 1
            inside = listed[position + 1 : stop]
            own = id(call) in prices and not _recast(call, inside)
            if own or not any(id(event) in prices for event in inside):
                picked.append((call, inside))
                position = stop
            else:
                passed.append((call, inside))
                position += 1
    return picked, passed


def _recast(call: dict[str, Any], inside: Sequence[dict[str, Any]]) -> bool:
    """Whether a call contains the same operation on tensors of other formats, as under autocast."""
    kinds = _told(call).get("Input type")
    return any(event["name"] == call["name"] and _told(event).get("Input type") != kinds for event in inside)


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


def _device_work(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if _category(event) in DEVICE_WORK and _timed(event)]


def _kernel_seconds(events: Sequence[dict[str, Any]], calls: Sequence[dict[str, Any]]) -> dict[str | None, float]:
    """Seconds of device work by the External id of the operation that launched it."""
    found: dict[str | None, float] = {}
    known = {_number_of(call) for call in calls}
    launchers: dict[str, str | None] | None = None
    for event in _device_work(events):
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
    threads: dict[tuple[str, str], list[dict[str, Any]]] = {}
    launches = [e for e in events if _category(e) in LAUNCHES and _timed(e) and "correlation" in _told(e)]
    for event in (*calls, *launches):
        threads.setdefault((str(event.get("pid")), str(event.get("tid"))), []).append(event)
    for listed in threads.values():
        around: list[dict[str, Any]] = []
        for event in sorted(listed, key=_order):
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
def _run(name: str, op: Op, dims: Any, of_device: bool) -> Measured:
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
