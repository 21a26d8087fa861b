"""``trace``: the function you already run → its operations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib import import_module
from inspect import signature, unwrap
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, overload

from roofline.answers import on_several
from roofline.bounds.api import target
from roofline.bounds.conventions import OF_OPERATIONS, Conventions
from roofline.counts import typed_sizes
from roofline.errors import InputError, a_or_an, did_you_mean, load_extra, suggest
from roofline.frozen import NamedTuple
from roofline.programs.traced import Traced
from roofline.signatures import optional, renamed, takes

if TYPE_CHECKING:
    from roofline.bounds.bound import Bound
    from roofline.bounds.comparison import SideBySide
    from roofline.hardware.machine import Machine


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
        backward="bool", optimizer="Any", sizes="Mapping[str, Size]", trips="Any", batch="int", weights="Any",
        recompute_attention="bool", name="str", device="str", kwargs="Mapping[str, Any]", on="str | Machine",
    ),
    target,
    Traced.bound,
    renamed(Conventions, dict(zip(OF_OPERATIONS, OF_OPERATIONS, strict=True))),
)  # fmt: skip
def trace(program: Any, *inputs: Any, frontend: str | None = None, **options: Any) -> Any:
    """Find every operation of a module, a function or a file; no weights and no accelerator are needed.

    ``program`` is a torch module or function, a JAX function (``frontend="jax"``, or found by its inputs and by what
    its code names), or an ONNX file, its path or loaded. ``inputs`` are example tensors or specifications in the
    notation (``"bf16[1, 3, 224, 224]"``), one after the other or as a list, ``inputs=[…]``.
    With ``on``, a machine, the answer is that of :meth:`Traced.bound`, which takes ``set``, ``policy``, ``estimate`` …
    ``sizes`` are those of named dimensions. A front end refuses an option that it does not take.

    See :mod:`roofline.programs.pytorch.trace` for what each gives. A missing library is an error that names the extra.
    """
    inputs = (*inputs, *options.pop("inputs", ()))
    own = ("on", *signature(target).parameters, *signature(Traced.bound).parameters, *OF_OPERATIONS)
    placed = {name: options.pop(name) for name in dict.fromkeys(own) if name in options}
    if placed.get("on") is None and placed:
        raise InputError(f"{next(iter(placed))}= is of a machine, and none is named", hint="as in on='h100'")
    if options.get("sizes"):
        from roofline.bounds.question import resolve_sizes

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
            hint = "an input stands after the program, trace(program, x), or by its name in kwargs={'x': x}"
            raise InputError(f"there is no argument {name!r}", hint=f"did you mean {near!r}?" if near else hint)


def front_end(name: str) -> Any:
    """Load a front end's module, or say which extra brings its library."""
    if name not in FRONT_ENDS:
        raise InputError(f"unknown front end {name!r}", hint=suggest(name, FRONT_ENDS, what="front ends"))
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
        raise InputError(
            f"{a_or_an(type(program).__name__)} cannot be traced",
            hint="give a module, a function, or the path of a .onnx file",
        )
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
    codes, names = [code], set()
    while codes:
        each = codes.pop()
        names |= set(each.co_names)
        codes += [inner for inner in each.co_consts if isinstance(inner, CodeType)]
    known = [function.__globals__[name] for name in names if name in function.__globals__]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a cell that is still empty
            known.append(cell.cell_contents)
    found = set()
    for value in known:
        module = value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", ""))
        library = module.partition(".")[0]
        found |= {library}
        found |= _named_in(value, seen) if library not in ("jax", "torch") and callable(value) else set()
    return found


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]
