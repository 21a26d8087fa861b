"""``trace``: the function you already run → its operations.

Inputs are specified in the notation:

>>> spec("bf16[1, 3, 224, 224]")
Spec(dtype='bf16', dims=(1, 3, 224, 224))
>>> spec("int32[B, S]", {"B": 2, "S": 128}).dims
(2, 128)
>>> spec("bf16[B, 8]")
Traceback (most recent call last):
roofline.errors.SizeError: input bf16[B, 8] does not say how large B is; write a number, or give it beside: B=…
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from inspect import signature, unwrap
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, overload

from roofline import dtypes
from roofline.answers import on_several
from roofline.bounds.api import target
from roofline.bounds.bound import Bound
from roofline.bounds.conventions import OF_OPERATIONS, Conventions
from roofline.bounds.question import resolve_sizes
from roofline.counts import typed_sizes
from roofline.errors import (
    InputError,
    NotationError,
    RooflineError,
    SizeError,
    a_or_an,
    check_one_of,
    did_you_mean,
    load_extra,
)
from roofline.frozen import NamedTuple
from roofline.hardware.machine import Machine
from roofline.notation import parse
from roofline.notation.structure import TensorNode
from roofline.programs.traced import Traced
from roofline.quantity import whole_number
from roofline.signatures import either, optional, renamed, spelled, takes
from roofline.sizes import Size, check, is_array, is_symbol, product, symbol

if TYPE_CHECKING:
    from roofline.bounds.comparison import SideBySide


class FrontEnd(NamedTuple):
    """Where a kind of program is read: the library it needs, the extra that brings it, the module with ``trace``."""

    library: str
    extra: str
    module: str


#: Front ends by name; each module has ``trace(program, *inputs, **options) -> Traced``.
FRONT_ENDS: dict[str, FrontEnd] = {
    "torch": FrontEnd("torch", "torch", "roofline.programs.pytorch.trace"),
    "jax": FrontEnd("jax", "jax", "roofline.programs.jax.trace"),
    "onnx": FrontEnd("onnx", "onnx", "roofline.programs.onnx.trace"),
}

#: Words for inputs, which stand after the program.
_INPUTS = ("input", "inputs", "args", "example_inputs")


@overload
def trace(program: Any, *inputs: Any, on: list[Any] | tuple[Any, ...], **options: Any) -> SideBySide: ...
@overload
def trace(program: Any, *inputs: Any, on: str | Machine, **options: Any) -> Bound: ...
@overload
def trace(program: Any, *inputs: Any, frontend: str | None = None, on: None = None, **options: Any) -> Traced: ...
@on_several
@takes(
    optional(
        backward="bool", input_gradients="bool", optimizer="Any", sizes="Mapping[str, Size]", trips="Any", batch="int",
        dtype="str", weights="Any", recompute_attention="bool", name="str", device="str", kwargs="Mapping[str, Any]",
        on="str | Machine",
    ),
    target,
    Traced.bound,
    renamed(Conventions, dict(zip(OF_OPERATIONS, OF_OPERATIONS, strict=True))),
)  # fmt: skip
def trace(program: Any, *inputs: Any, frontend: str | None = None, **options: Any) -> Any:
    """Find every operation of a module, a function or a file; no weights and no accelerator are needed.

    ``program`` is a torch module or function, a JAX function (``frontend="jax"``, or found by its inputs and by what
    its code names), or an ONNX file, its path or loaded. ``inputs`` are example tensors or specifications in the
    notation (``"bf16[1, 3, 224, 224]"``), one after the other or as ``inputs=``, a list or the only one.
    With ``on``, a machine, the answer is that of :meth:`Traced.bound`, which takes ``set``, ``policy``, ``estimate`` …
    ``sizes`` are those of named dimensions. A front end refuses an option that it does not take.

    See :mod:`roofline.programs.pytorch.trace` for what each gives. A missing library is an error that names the extra.
    """
    listed = options.pop("inputs", ())
    inputs = (*inputs, *(listed if isinstance(listed, list | tuple) else (listed,)))
    own = ("on", *signature(target).parameters, *signature(Traced.bound).parameters, *OF_OPERATIONS)
    placed = {name: options.pop(name) for name in dict.fromkeys(own) if name in options}
    if placed.get("on") is None and placed:
        raise InputError(f"{next(iter(placed))}= is of a machine, and none is named", hint="as in on='h100'")
    if options.get("sizes"):
        options["sizes"] = resolve_sizes(typed_sizes(options["sizes"]))
    found = front_end(frontend or guess(program, inputs))
    _check_options(options, signature(found.trace).parameters)
    traced: Traced = found.trace(program, *inputs, **options)
    return traced.bound(**placed) if placed else traced


def _check_options(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse an argument that a front end does not take, such as an input by its name."""
    for name in options:
        if name not in known:
            near = did_you_mean(name, known) if name not in _INPUTS else None
            if name == "dtype":
                hint = "a module has its own, as in model.to(torch.bfloat16), an input says it: 'bf16[8, 512]'"
                raise InputError("dtype= is for ONNX files", hint=hint)
            if name == "input_gradients":
                hint = "backward=True of JAX has it of every floating input, and an ONNX file runs forward"
                raise InputError(f"{spelled(name)} is for torch", hint=hint)
            hint = "an input stands after the program, trace(program, x), or by its name in kwargs={'x': x}"
            if name == "input":
                near = "inputs"
            if len(name) == 1:  # a size, which other functions take by its name
                hint = f"a size of an input is one of sizes={{{name!r}: 8}}; {hint}"
            raise InputError(f"there is no argument {name!r}", hint=f"did you mean {near!r}?" if near else hint)


def front_end(name: str) -> Any:
    """Load a front end's module, or say which extra brings its library."""
    check_one_of(f"unknown front end {name!r}", name, FRONT_ENDS, "front ends")
    found = FRONT_ENDS[name]
    load_extra(found.library, found.extra)
    return import_module(found.module)


def guess(program: Any, inputs: tuple[Any, ...]) -> str:
    """Tell which front end a program belongs to: a path by its ending, a callable by the library of its inputs.

    Else by its own class, or by what its code names. A loaded file is its own sign.

    >>> guess("resnet50.onnx", ()), guess(len, ("bf16[8]",))
    ('onnx', 'torch')
    """
    if isinstance(program, str) or hasattr(program, "__fspath__"):
        if not str(program).endswith(".onnx"):
            raise InputError(f"{str(program)!r} is not an ONNX file", hint="give a function, a module, or a .onnx file")
        return "onnx"
    if type(program).__name__ == "ModelProto":
        return "onnx"
    if not callable(program):
        hint = "give a module, a function, or the path of a .onnx file"
        raise InputError(f"{a_or_an(type(program).__name__)} cannot be traced", hint=hint)
    libraries = {type(value).__module__.partition(".")[0] for value in _leaves(inputs)}
    kind = program if isinstance(program, type) else type(program)
    libraries |= {cls.__module__.partition(".")[0] for cls in kind.__mro__}
    if not libraries & {*_OF_JAX, "torch"}:
        libraries |= _named_in(program, {})
    return "jax" if libraries & _OF_JAX and "torch" not in libraries else "torch"


#: Libraries whose objects are programs of JAX.
_OF_JAX = {"jax", "jaxlib", "flax"}


def _named_in(function: Any, seen: dict[int, None]) -> set[str]:
    """The libraries of what a function's code names, and of the functions of its own that it calls.

    >>> "inspect" in _named_in(signature, {}), _named_in(len, {})
    (True, set())
    """
    function = unwrap(getattr(function, "func", function))  # of a partial, and below decorators
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen:
        return set()
    seen[id(code)] = None
    found = set()
    for _, value in (*closed_over(function), *globals_named(function)):
        module = value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", ""))
        library = module.partition(".")[0]
        found |= {library}
        found |= _named_in(value, seen) if library not in ("jax", "torch") and callable(value) else set()
    return found


def closed_over(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function written in Python closes over, by name."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with suppress(ValueError):  # a cell that is still empty
            yield name, cell.cell_contents


def globals_named(function: Any, code: CodeType | None = None) -> Iterator[tuple[str, Any]]:
    """The global values that the code of a function names, and that of the functions written inside it."""
    code = code or function.__code__
    yield from ((name, function.__globals__[name]) for name in code.co_names if name in function.__globals__)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from globals_named(function, inner)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def call_hint() -> str:
    """What to do about a call that Python itself refuses."""
    each = either("--input 'bf16[8, 512]', once for each", "inputs=['bf16[8, 512]', …]")
    return f"give one input for each argument, in order, as in {each}"


def is_call(reason: str) -> bool:
    """Whether an error is that inputs are missing or too many.

    >>> is_call("TypeError: step() missing 1 required positional argument: 'x'")
    True
    """
    return "TypeError" in reason and ("positional argument" in reason or "unexpected keyword" in reason)


def failing_line(error: BaseException, is_user: Callable[[CodeType], bool]) -> str:
    """The user's line on which a program failed, as ``file.py:12: ``."""
    line, step = "", error.__traceback__
    while step is not None:
        if is_user(step.tb_frame.f_code):
            line = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}: "
        step = step.tb_next
    return line


def first_line(error: Exception) -> str:
    """The kind of an error, and the first line of what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def own_error(error: BaseException) -> RooflineError | None:
    """An error of ours that went through the program's own handlers."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, RooflineError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def one_size(name: str, value: Any) -> Size:
    """One whole number of at least 1, or a symbol: a program has one shape at a time.

    >>> one_size("B", [1, 8])
    Traceback (most recent call last):
    roofline.errors.SizeError: size B is several numbers; trace the program once for each, or leave it open
    """
    found = check(name, value)
    if is_array(found):
        raise SizeError(f"size {name} is several numbers", hint="trace the program once for each, or leave it open")
    return found


class Spec(NamedTuple):
    """Dtype and dimensions of one input."""

    dtype: str
    dims: tuple[Size, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.dims))}]"


def spec(text: str, sizes: Mapping[str, Size] | None = None, *, symbolic: bool = False) -> Spec:
    """Read one input; with ``symbolic`` a name without a size stays a symbol."""
    dtype, named = _read(text)
    known = sizes or {}
    dims: list[Size] = []
    for label, size in named:
        if size is not None:
            dims.append(size)
        elif label in known:
            dims.append(one_size(label, known[label]))
        elif symbolic:
            dims.append(symbol(label))
        else:
            hint = f"write a number, or give it beside: {label}=…"
            raise SizeError(f"input {text.strip()} does not say how large {label} is", hint=hint)
    return Spec(dtype, tuple(dims))


def stated_values(text: str) -> tuple[str, list[float] | None]:
    """The tensor and the values it is given, where a program looks at them: one for all elements, or one for each.

    >>> stated_values("int64[2, 2] = [[0, 1], [1, 0]]"), stated_values("bool[4] = true"), stated_values("bf16[8]")
    (('int64[2, 2] ', [0, 1, 1, 0]), ('bool[4] ', [1]), ('bf16[8]', None))
    >>> stated_values("int64[2] = a, b")
    Traceback (most recent call last):
    roofline.errors.InputError: the values of int64[2] are not numbers; as in 'int64[4] = 0, 2, 1, 3', or one for all
    """
    tensor, equals, said = text.partition("=")
    if not equals:
        return text, None
    words = re.sub(r"[\[\](),]", " ", said).split()
    known = {"true": 1, "false": 0}
    try:
        numbers = [known.get(word.lower(), whole_number(word)) for word in words]
        return tensor, [float(w) if number is None else number for w, number in zip(words, numbers, strict=True)]
    except ValueError:
        hint = "as in 'int64[4] = 0, 2, 1, 3', or one for all"
        raise InputError(f"the values of {tensor.strip()} are not numbers", hint=hint) from None


#: The most elements of an input with values: a mask of 16,384 by 16,384.
MOST_VALUES = 2**28


def check_values(wanted: Spec, numbers: Sequence[float]) -> None:
    """Refuse values that an input cannot hold: each element has its own, or all have one.

    >>> check_values(Spec("bool", (2, 2)), [1, 0, 1])
    Traceback (most recent call last):
    roofline.errors.InputError: bool[2, 2] holds 4 values, and 3 are given; give each, or one
    """
    if any(is_symbol(dim) for dim in wanted.dims):
        raise InputError(f"{wanted} has values and an open size", hint="give the size a number")
    amount = product(wanted.dims)
    if len(numbers) not in (1, amount):
        raise InputError(f"{wanted} holds {amount} values, and {len(numbers)} are given", hint="give each, or one")
    if amount > MOST_VALUES:
        raise InputError(f"{wanted} holds {amount:,} values", hint=f"at most {MOST_VALUES:,} can be looked at")


def _read(text: str) -> tuple[str, list[tuple[str, int | None]]]:
    hint = "as in 'bf16[1, 3, 224, 224]'"
    if re.fullmatch(r"[\[(]?\s*\d+(\s*[x×,]\s*\d+)*\s*,?\s*[\])]?", text.strip()):
        written = f"as in 'bf16[{', '.join(re.findall(r'[0-9]+', text))}]'"
        raise NotationError("an input names its dtype", text=text, hint=written)
    node = parse(text)
    value = node.statements[0].value if len(node.statements) == 1 else None
    if not isinstance(value, TensorNode) or value.dims is None:
        raise NotationError("an input is one tensor", text=text, hint=hint)
    if value.dtype is None:
        raise NotationError("an input names its dtype", text=text, hint=hint)
    return dtypes.get(value.dtype).name, [(dim.name or "", dim.size) for dim in value.dims]
