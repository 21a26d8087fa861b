"""A resolved step of notation → a call of PyTorch or NumPy that does it, on operands made up for it.

A kind of step is a registered function for each library; what has none cannot be run here, and the error says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roofline import dtypes
from roofline.errors import InputError, MissingExtraError, check_one_of, load_extra, quoted
from roofline.frozen import dataclass
from roofline.lazy import np
from roofline.measurement.library import thread_setter
from roofline.measurement.processor import available_cores
from roofline.measurement.threads import LibraryThreads, core_watch
from roofline.notation.structure import Step
from roofline.ops.rules import family_of
from roofline.quantity import format_quantity
from roofline.work import Op

#: Names of formats in the libraries.
TORCH = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8", "uint8": "uint8",
    "int16": "int16", "int32": "int32", "int64": "int64", "bool": "bool", "complex64": "complex64",
}  # fmt: skip
NUMPY = {"fp64": "float64", "fp32": "float32", "int32": "int32", "int64": "int64", "int8": "int8", "int16": "int16"}

#: Functions of one or two tensors whose name in ``torch`` or ``torch.nn.functional`` differs from ours.
RENAMED = {
    "subtract": "sub", "divide": "div", "multiply": "mul", "power": "pow", "variance": "var", "max": "amax",
    "min": "amin", "copy": "clone", "compare": "lt",
}  # fmt: skip

#: Arguments of functions beside their tensor; their values do not change the time.
WITH = {"clip": (-1, 1), "dropout": (0.5, True)}


@dataclass(frozen=True, slots=True)
class Library:
    """A library that can run steps: its ``name`` with version, the module, and how to make an operand.

    ``set_threads`` gives it a number of threads, each on a core of its own, until ``free`` lets them run anywhere.
    """

    name: str
    module: Any
    formats: dict[str, str]
    make: Callable[[Sequence[int], str], Any]
    set_threads: Callable[[int], None]
    free: Callable[[], None]


Call = Callable[[], Any]
Maker = Callable[[Library, Step, Sequence[Any]], Call]

_MAKERS: dict[tuple[str, str], Maker] = {}


def can_run(library: str, *families: str) -> Callable[[Maker], Maker]:
    """Register how a library runs steps of some families."""

    def keep(maker: Maker) -> Maker:
        for family in families:
            _MAKERS[library, family] = maker
        return maker

    return keep


def torch_library() -> Library:
    """Use PyTorch on the CPU."""
    torch = load_extra("torch", "torch")

    def make(dims: Sequence[int], dtype: str) -> Any:
        kind = getattr(torch, TORCH[dtype])
        if not kind.is_floating_point and not kind.is_complex:
            return torch.ones(*dims, dtype=kind)
        return torch.rand(*dims).to(kind)

    core_watch()
    threads = LibraryThreads(available_cores())

    def set_threads(count: int) -> None:
        thread_setter(torch, count, threads)()

    return Library(f"torch {torch.__version__}", torch, TORCH, make, set_threads, threads.free)


def numpy_library() -> Library:
    """Use NumPy, whose threads cannot be set from here."""

    def make(dims: Sequence[int], dtype: str) -> Any:
        return np.ones(tuple(dims), NUMPY[dtype])

    return Library(f"numpy {np.__version__}", np, NUMPY, make, lambda count: None, lambda: None)


#: What runs operations, by name.
BACKENDS: Mapping[str, Callable[[], Library]] = {"torch": torch_library, "numpy": numpy_library}


def any_library(backend: str | None = None) -> Library:
    """Use the library of a name: ``torch`` or ``numpy``; without one PyTorch where it is installed, else NumPy."""
    if backend is not None:
        check_one_of(f"no backend {quoted(backend)}", backend, BACKENDS, "backends")
        return BACKENDS[backend]()
    try:
        return torch_library()
    except MissingExtraError:
        return numpy_library()


def executor(library: Library, step: Step, op: Op) -> Call:
    """Make the operands of a step and the call that runs it."""
    family = family_of(step)
    name = library.name.split()[0]
    maker = _MAKERS.get((name, family))
    if maker is None:
        known = sorted(f for n, f in _MAKERS if n == name)
        raise InputError(f"{name} cannot run {step.text or step.function} here", hint=f"it runs: {', '.join(known)}")
    operands = []
    for tensor in op.reads[: len(step.inputs)]:
        dtype = dtypes.get(tensor.dtype).name
        if dtype not in library.formats:
            formats = ", ".join(library.formats)
            raise InputError(f"{name} has no {dtype} to run {step.text or step.function} in", hint=f"it has: {formats}")
        try:
            operands.append(library.make([int(size) for size in tensor.dims], dtype))
        except (MemoryError, RuntimeError) as error:
            needed = format_quantity(sum(float(one.capacity_bytes) for one in op.reads), "B")
            wrong = f"{step.text or step.function} does not fit here: its operands need {needed}"
            raise InputError(wrong, hint="run a smaller one") from error
    return maker(library, step, operands)


def result_format(library: Library, result: Any) -> str:
    """The notation's name for the format of a call's result; empty where it has none."""
    kind = str(getattr(result, "dtype", "")).removeprefix("torch.")
    return next((ours for ours, theirs in library.formats.items() if theirs == kind), "")


@can_run("torch", "contraction")
def _torch_contraction(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    torch, (a, b) = library.module, operands
    one_kind = {shape.dtype for shape in step.inputs}
    if len(one_kind) > 1:
        raise InputError(f"torch multiplies one format by itself, not {' by '.join(sorted(one_kind))}")
    if (product := _plain_product(step)) and one_kind == {"int8"}:
        return lambda: torch._int_mm(a, b)
    if product:
        return lambda: torch.matmul(a, b)
    equation = _equation(step)
    return lambda: torch.einsum(equation, a, b)


@can_run("numpy", "contraction")
def _numpy_contraction(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    numpy, (a, b) = library.module, operands
    if _plain_product(step):
        return lambda: numpy.matmul(a, b)
    equation = _equation(step)
    return lambda: numpy.einsum(equation, a, b, optimize=True)


def _plain_product(step: Step) -> bool:
    (a, b), out = (shape.labels for shape in step.inputs), step.output.labels
    return len(step.contracted) == 1 and len(b) == 2 and len(a) >= 2 and (*a[:-1], b[-1]) == out and a[-1] == b[0]


def _equation(step: Step) -> str:
    """Write the labels of a contraction in the letters einsum takes."""
    labels = dict.fromkeys(label for shape in (*step.inputs, step.output) for label in shape.labels)
    letters = {label: chr(ord("a") + index) for index, label in enumerate(labels)}
    sides = ["".join(letters[label] for label in shape.labels) for shape in (*step.inputs, step.output)]
    return f"{sides[0]},{sides[1]}->{sides[2]}"


@can_run("torch", "elementwise")
def _torch_elementwise(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    torch, functional = library.module, library.module.nn.functional
    aligned = _aligned(step, operands)
    name = RENAMED.get(step.function, step.function)
    if name == "gelu_tanh":
        return lambda: functional.gelu(aligned[0], approximate="tanh")
    if name == "cast":
        kind = getattr(torch, library.formats[step.output.dtype])
        return lambda: aligned[0].to(kind)
    call = getattr(torch, name, None) or getattr(functional, name, None)
    if call is None:
        hint = "write it in functions that torch has, as in g = silu(x); g * y"
        raise InputError(f"torch has no function {step.function!r} to run here", hint=hint)
    more = WITH.get(step.function, ())
    return lambda: call(*aligned, *more)


@can_run("numpy", "elementwise")
def _numpy_elementwise(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    aligned = _aligned(step, operands)
    call = getattr(library.module, step.function, None)
    if call is None:
        raise InputError(f"numpy has no function {step.function!r}", hint="install torch to run it")
    return lambda: call(*aligned)


def _aligned(step: Step, operands: Sequence[Any]) -> list[Any]:
    """Give operands the dimensions of the result, 1 where they lack one, so that they broadcast by name."""
    out, found = step.output.labels, []
    for shape, operand in zip(step.inputs, operands, strict=True):
        sizes = dict(zip(shape.labels, operand.shape, strict=True))
        fits = [label for label in out if label in sizes] == list(shape.labels)
        found.append(operand.reshape([sizes.get(label, 1) for label in out]) if fits and sizes else operand)
    return found


@can_run("torch", "softmax")
def _torch_softmax(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    axis = _only_axis(step)
    call = library.module.log_softmax if step.function == "log_softmax" else library.module.softmax
    return lambda: call(operands[0], axis)


@can_run("torch", "reduction")
def _torch_reduction(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    x, axes = operands[0], [step.inputs[0].labels.index(label) for label in step.over]
    if step.function == "norm":
        return lambda: library.module.linalg.vector_norm(x, dim=axes)
    call = getattr(library.module, RENAMED.get(step.function, step.function))
    if step.function not in ("argmax", "argmin", "prod"):
        return lambda: call(x, axes)
    if len(axes) == x.dim():
        return lambda: call(x)
    axis = _only_axis(step)
    return lambda: call(x, axis)


@can_run("torch", "scan")
def _torch_scan(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    call, axis = getattr(library.module, step.function), _only_axis(step)
    return lambda: call(operands[0], axis)


@can_run("torch", "copy")
def _torch_transpose(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    order = [step.inputs[0].labels.index(label) for label in step.output.labels]
    return lambda: operands[0].permute(order).contiguous()


@can_run("torch", "pooling")
def _torch_pool(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    window, stride, pad, dilation = (step.options[name] for name in ("window", "stride", "pad", "dilation"))
    if isinstance(pad, str):
        raise InputError(f"torch pools with no pad={pad}", hint="say how many: pad=1")
    x = operands[0].movedim(-1, 1).contiguous()
    call = getattr(library.module.nn.functional, f"max_pool{len(window)}d")
    return lambda: call(x, window, stride, pad, dilation)


@can_run("torch", "norm")
def _torch_norm(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    functional, (x, *affine) = library.module.nn.functional, operands
    if step.function not in ("layer_norm", "rms_norm") or _only_axis(step) != len(step.inputs[0].labels) - 1:
        raise InputError(f"{step.function} cannot be run here", hint="layer_norm and rms_norm along the last axis can")
    call = getattr(functional, step.function)
    return lambda: call(x, x.shape[-1:], *affine)


@can_run("torch", "attention")
def _torch_attention(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    q, k, *v = (operand.transpose(1, 2).contiguous() for operand in operands)
    values = v[0] if v else k[..., : step.options["values"]]
    causal = bool(step.options.get("causal")) and q.shape[2] > 1
    if step.options.get("window") is not None or (causal and q.shape[2] != k.shape[2]):
        raise InputError("torch's attention has no window, and its causal mask needs equal lengths")
    if step.options.get("unfused"):
        raise InputError("torch's attention is fused", hint="leave unfused out, or run its products and softmax")
    call = library.module.nn.functional.scaled_dot_product_attention
    return lambda: call(q, k, values, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


@can_run("torch", "convolution")
def _torch_convolution(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    x, w, *rest = operands
    dims = x.dim() - 2
    turned = step.function == "conv_transpose"
    x, w = x.movedim(-1, 1).contiguous(), w.movedim((-2, -1), (0, 1) if turned else (1, 0)).contiguous()
    options = {ours: step.options[theirs] for ours, theirs in _CONV.items() if theirs in step.options}
    call = getattr(library.module.nn.functional, f"{step.function}{dims}d")
    return lambda: call(x, w, *rest, **options)


_CONV = {"stride": "stride", "padding": "pad", "dilation": "dilation", "groups": "groups",
         "output_padding": "output_pad"}  # fmt: skip


@can_run("torch", "embedding")
def _torch_embedding(library: Library, step: Step, operands: Sequence[Any]) -> Call:
    table, indices = operands
    indices = library.module.randint(0, table.shape[0], tuple(indices.shape))
    return lambda: library.module.nn.functional.embedding(indices, table)


def _only_axis(step: Step) -> int:
    if len(step.over) != 1:
        raise InputError(f"{step.function} along {len(step.over)} dimensions cannot be run here", hint="one can")
    return step.inputs[0].labels.index(step.over[0])
