"""Stand-ins without values for a program's parameters, buffers and inputs; all is put back when the call ends."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeAlias
from unittest import mock

import torch
from torch.fx.experimental.symbolic_shapes import is_nested_int
from torch.optim.optimizer import register_optimizer_step_pre_hook

from roofline.errors import InputError
from roofline.programs.api import Spec, check_values, closed_over, first_line, globals_named, stated_values
from roofline.programs.api import spec as read_spec
from roofline.programs.pytorch.functions import nested_input
from roofline.programs.pytorch.open_sizes import OpenSizes
from roofline.programs.pytorch.tensors import LARGEST_CONSTANT, dtype_name, outside
from roofline.programs.regions import HIDDEN
from roofline.sizes import Size, is_symbol, product

#: What says of a tensor which role it has, and what it is called.
Declare: TypeAlias = Callable[[Any, str, str], None]

#: What gives the stand-in for a tensor.
StandIn: TypeAlias = Callable[[Any], Any]

TORCH_DTYPES = {
    "fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2, "int64": torch.int64,
    "int32": torch.int32, "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool,
    "complex32": torch.complex32, "complex64": torch.complex64, "complex128": torch.complex128,
}  # fmt: skip


def find_modules(program: Any, inputs: Any = ()) -> dict[str, Any]:
    """Find the modules a program uses: itself, or what a function refers to, closes over or is given.

    A single one has the empty name, so that paths start inside it.
    """
    found: dict[str, Any] = {}
    _look(program, "", found, depth=0)
    for index, value in enumerate(inputs):
        _look(value, f"input{index}", found, depth=2)
    unique = {id(module): (name, module) for name, module in reversed(found.items())}
    inner = {id(m) for _, module in unique.values() for m in module.modules() if m is not module}
    kept = {name: module for name, module in reversed(unique.values()) if id(module) not in inner}
    return {"": next(iter(kept.values()))} if len(kept) == 1 else kept


def find_optimizers(program: Any) -> list[Any]:
    """Find the optimizers a function refers to or closes over."""
    found: dict[str, Any] = {}
    _look(program, "", found, depth=0, kind=torch.optim.Optimizer)
    return list({id(item): item for item in found.values()}.values())


def _look(value: Any, name: str, found: dict[str, Any], depth: int, kind: Any = torch.nn.Module) -> None:
    if isinstance(value, kind):
        found[name] = value
        return
    if depth > 3:
        return
    if isinstance(value, functools.partial):
        for index, item in enumerate((value.func, *value.args, *value.keywords.values())):
            _look(item, name or f"part{index}", found, depth + 1, kind)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _look(item, f"{name}.{index}" if name else str(index), found, depth + 1, kind)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _look(item, f"{name}.{key}" if name else str(key), found, depth + 1, kind)
    elif callable(value):
        owner = getattr(value, "__self__", None)
        if owner is not None and not isinstance(owner, type(functools)):
            _look(owner, name or "self", found, depth + 1, kind)
        inner = getattr(value, "__func__", value)
        if not hasattr(inner, "__code__"):
            return
        for label, item in closed_over(inner):
            _look(item, label, found, depth + 1, kind)
        for label, item in globals_named(inner):
            _look(item, label, found, depth + 2, kind)


@contextmanager
def standing_in(
    roots: Mapping[str, Any], optimizers: list[Any], declare: Declare, made: dict[int, Any], leaf_of: StandIn
) -> Iterator[None]:
    """Give every module stand-ins for its parameters and buffers; put its own back at the end.

    ``made``     the stand-ins, by what they stand for
    ``leaf_of``  the stand-in for a parameter of an optimizer that is no module's
    """
    undo: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for prefix, root in roots.items():
            for path, module in root.named_modules():
                where = ".".join(part for part in (prefix, path) if part)
                for table, role in ((module._parameters, "weight"), (module._buffers, "state")):
                    for name, tensor in table.items():
                        if tensor is None:
                            continue
                        if torch.nn.parameter.is_lazy(tensor):
                            raise InputError(
                                f"{where or type(module).__name__}.{name} has no shape yet: a lazy module takes it "
                                "from its first input",
                                hint="run the module once on an example, or say how many features it has",
                            )
                        undo.append((table, name, tensor))
                        if id(tensor) not in made:
                            standin = tensor.clone() if _is_constant(table, module, tensor) else _weight(tensor)
                            made[id(tensor)] = standin
                            for held in (standin, *_held(standin).values(), *_local(standin), *_local(tensor)):
                                declare(held, role, f"{where}.{name}" if where else name)
                        table[name] = made[id(tensor)]
        with _optimizers_standing_in(optimizers, declare, made, leaf_of):
            yield
    finally:
        for table, name, tensor in reversed(undo):
            table[name] = tensor


@contextmanager
def _optimizers_standing_in(
    optimizers: list[Any], declare: Declare, made: Mapping[int, Any], leaf_of: StandIn
) -> Iterator[None]:
    """Give optimizers, also those found at their first step, stand-ins; one that a program makes itself has them."""
    met: dict[int, Any] = {}
    undo: list[tuple[Any, Any, list[list[Any]]]] = []
    initialise = torch.optim.Optimizer.__init__

    def make(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        met[id(optimizer)] = optimizer
        initialise(optimizer, *args, **kwargs)

    def meet(optimizer: Any, *_: Any) -> None:
        if id(optimizer) in met:
            return
        met[id(optimizer)] = optimizer
        undo.append((optimizer, optimizer.state, [group["params"] for group in optimizer.param_groups]))
        with outside():
            for group in optimizer.param_groups:
                group["params"] = [made[id(p)] if id(p) in made else leaf_of(p) for p in group["params"]]
            optimizer.state = type(optimizer.state)(dict)
            prepared(optimizer, declare)

    hook = register_optimizer_step_pre_hook(meet)
    try:
        for optimizer in optimizers:
            meet(optimizer)
        with mock.patch.object(torch.optim.Optimizer, "__init__", make):
            yield
    finally:
        hook.remove()
        for optimizer, state, parameters in undo:
            optimizer.state = state
            for group, own in zip(optimizer.param_groups, parameters, strict=False):
                group["params"] = own


@contextmanager
def restoring_attributes(roots: Mapping[str, Any]) -> Iterator[None]:
    """Give every module back the attributes it had: what a program keeps for its next call has no values here."""
    kept: list[tuple[dict[str, Any], dict[str, Any]]] = []
    inside: list[tuple[Any, Any]] = []
    for module in {id(module): module for root in roots.values() for module in root.modules()}.values():
        held = vars(module)
        kept.append((held, dict(held)))
        inside += [(value, copy(value)) for value in held.values() if type(value) in (dict, OrderedDict, list, set)]
    try:
        yield
    finally:
        for place, before in (*kept, *inside):
            place.clear()
            place.extend(before) if isinstance(place, list) else place.update(before)


#: What an optimizer refuses to do on shapes alone; what it keeps from step to step does not depend on it.
_FOR_DEVICES = ("fused", "capturable")


def prepared(optimizer: Any, declare: Declare) -> None:
    """Take a step without data, so that the one that is traced finds what an optimizer keeps from step to step."""
    if not type(optimizer).__module__.startswith("torch.optim"):  # what others do in a step is not known
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    hooks = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if hooks or any(type(p) not in (torch.Tensor, torch.nn.Parameter) or not p.is_meta for p in parameters):
        return
    optimizer.state = type(optimizer.state)(dict)
    kept = [p.grad for p in parameters]
    wished = [{name: group[name] for name in _FOR_DEVICES if group.get(name)} for group in optimizer.param_groups]
    for p in parameters:
        p.grad = torch.empty_like(p) if p.requires_grad else None
    for group, names in zip(optimizer.param_groups, wished, strict=True):
        group.update(dict.fromkeys(names, False))
    item = torch.Tensor.item
    try:
        with mock.patch.object(torch.Tensor, "item", lambda held: 1.0 if held.is_meta else item(held)):
            type(optimizer).step(optimizer)
    except (RuntimeError, TypeError, NotImplementedError):  # one that needs a closure, or values, starts with nothing
        optimizer.state = type(optimizer.state)(dict)
    for p, grad in zip(parameters, kept, strict=True):
        p.grad = grad
    for group, names in zip(optimizer.param_groups, wished, strict=True):
        group.update(names)
    for held in optimizer.state.values():
        for name, tensor in held.items():
            if isinstance(tensor, torch.Tensor):
                declare(tensor, "state", name)


def _is_constant(table: Any, module: Any, tensor: Any) -> bool:
    """Whether it is a buffer that programs look at and has values: sizes, positions, masks, and single numbers."""
    plain = table is module._buffers and type(tensor) in (torch.Tensor, torch.nn.Buffer) and not tensor.is_quantized
    held = plain and tensor.device.type == "cpu" and tensor.layout == torch.strided
    if not held or tensor.nbytes > LARGEST_CONSTANT:
        return False
    return not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 1 or _is_mask(tensor)


def _is_mask(tensor: Any) -> bool:
    """Whether real numbers of several dimensions are 0 and 1, or 0 and so low that their exponential is zero."""
    if tensor.dim() < 2 or tensor.is_complex() or tensor.element_size() == 1:
        return False
    low, high = map(float, tensor.aminmax()) if tensor.numel() else (0.0, 0.0)
    ends = (low, high) == (0.0, 1.0) or (low <= HIDDEN and high == 0.0)
    return ends and bool(((tensor == 0) | (tensor == (high or low))).all())


def shape_only(tensor: Any) -> Any:
    """A tensor of the same shape, strides and dtype without values; a sharded tensor keeps its mesh."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return _sharded(tensor)
    with torch.no_grad():
        if tensor.device.type == "meta":
            plain = tensor.detach()
        elif tensor.layout != torch.strided:  # how many elements it stores is what it costs
            return tensor.detach().to("cpu")
        else:
            plain = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(plain, requires_grad=tensor.requires_grad)
    return plain.requires_grad_(tensor.requires_grad)


def _weight(tensor: Any) -> Any:
    """A stand-in for a weight; one of a class of its own (torchao's quantised ones) holds stand-ins in turn."""
    held = {name: shape_only(inner) for name, inner in _held(tensor).items()}
    if not held:
        return shape_only(tensor)
    made = type(tensor).__tensor_unflatten__(held, tensor.__tensor_flatten__()[1], tensor.shape, tensor.stride())
    return made.requires_grad_(tensor.requires_grad)


def _held(tensor: Any) -> dict[str, Any]:
    """The plain tensors that one of a class of its own is made of; a sharded one is looked into elsewhere."""
    if not hasattr(tensor, "__tensor_flatten__") or hasattr(tensor, "placements"):
        return {}
    held = {name: getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]}
    return held if all(type(inner) in (torch.Tensor, torch.nn.Parameter) for inner in held.values()) else {}


def _local(tensor: Any) -> list[Any]:
    """The part of a sharded tensor that is on this device; ``fully_shard`` reads that of the parameter it was given."""
    return [tensor._local_tensor] if hasattr(tensor, "_local_tensor") else []


def _sharded(tensor: Any) -> Any:
    from torch.distributed.tensor import DTensor

    if not isinstance(tensor, DTensor):
        return tensor
    local = shape_only(tensor.to_local().detach())
    made = DTensor.from_local(
        local, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made


def make_input(
    value: Any, sizes: Mapping[str, Size], opened: OpenSizes, declare: Declare, label: str, is_named: bool = False
) -> Any:
    """Turn an example input into what the program gets: text into a tensor of that shape, data into its shape.

    Integers keep their values where they have any. A named size without a number stays open. A word without sizes that
    is given by name is an option of the program.
    """
    if isinstance(value, str):
        if is_named and "[" not in value:
            return value
        text, numbers = stated_values(value)
        return _from_spec(read_spec(text, sizes, symbolic=True), numbers, opened, declare, label)
    if isinstance(value, Spec):
        return _from_spec(value, None, opened, declare, label)
    if isinstance(value, torch.Tensor) and value.is_nested:
        if value.layout != torch.jagged:
            raise InputError(f"{label} is a nested tensor without offsets", hint="make it with layout=torch.jagged")
        made = shape_only(value.values())
        declare(made, "activation", label)
        return nested_input(made, value)
    if isinstance(value, torch.Tensor):
        whole = not value.is_floating_point() and not value.is_complex()
        if whole and value.device.type == "cpu" and type(value) is torch.Tensor:
            declare(value, "index", label)
            return value
        made = shape_only(value)
        if type(made) in (torch.Tensor, torch.nn.Parameter):
            declare(made, "index" if whole else "activation", label)
        return made
    named = isinstance(value, tuple) and hasattr(value, "_fields")
    if named or type(value) in (list, tuple):
        made = [make_input(item, sizes, opened, declare, f"{label}.{i}") for i, item in enumerate(value)]
        return type(value)(*made) if named else type(value)(made)
    if type(value) is dict:
        return {key: make_input(item, sizes, opened, declare, str(key)) for key, item in value.items()}
    return value


def _from_spec(wanted: Spec, numbers: list[float] | None, opened: OpenSizes, declare: Declare, label: str) -> Any:
    """A tensor of a shape; one with values a program may look at: a mask, an index."""
    if numbers is not None:
        check_values(wanted, numbers)
    if wanted.dtype not in TORCH_DTYPES:
        raise InputError(f"torch has no dtype for {wanted.dtype}", hint="it has " + ", ".join(TORCH_DTYPES))
    dtype = TORCH_DTYPES[wanted.dtype]
    if numbers is None:
        dims = tuple(opened.size(str(dim)) if is_symbol(dim) else dim for dim in wanted.dims)
        try:
            made = torch.empty(dims, dtype=dtype, device="meta")
        except RuntimeError as error:
            said = f"{wanted} is too large for torch: {first_line(error)}"
            raise InputError(said, hint="give smaller sizes") from None
    else:
        made = torch.tensor(numbers).to(dtype).expand(product(wanted.dims)).reshape(wanted.dims).clone()
    is_whole = not dtype.is_floating_point and not dtype.is_complex
    declare(made, "activation" if numbers is None and not is_whole else "index", label)
    return made


def written(value: Any, opened: OpenSizes) -> str:
    """An input as the notation writes it."""
    if isinstance(value, torch.Tensor):
        dims = value.shape if not value.is_nested else ("j" if is_nested_int(size) else size for size in value.shape)
        return f"{dtype_name(value.dtype)}[{', '.join(str(opened.plain(size)) for size in dims)}]"
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, int | float) else type(value).__name__
