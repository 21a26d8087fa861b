"""Trace a PyTorch module or function: shapes go through it, every operation is written down.

>>> import torch
>>> model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512))
>>> program = trace(model, "fp32[64, 512]")
>>> [(op.name, op.where) for op in program.ops]
[('linear', '0'), ('gelu', '1'), ('linear', '2')]
>>> program.flops() == 2 * 2 * 64 * 512 * 2048
True
>>> step = trace(model, "fp32[64, 512]", backward=True)
>>> step.flops() - program.flops() == 3 * 2 * 64 * 512 * 2048          # the first layer's input needs no gradient
True

A size without a number stays open, and the count is a formula (:mod:`roofline.programs.pytorch.open_sizes`):

>>> trace(model, "fp32[B, 512]").flops()
4194304*B

Nothing is computed and nothing is left behind: parameters are stood in for during the call, the module gets its own
back, and both context managers that watch end with it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import fields, is_dataclass
from typing import Any
from unittest import mock

import torch
from torch._functorch import eager_transforms

from roofline.errors import InputError, RooflineError, SizeError, a_or_an, check_one_of, quoted
from roofline.ops.attention import FUSED_ATTENTION
from roofline.programs.api import call_hint, failing_line, first_line, is_call, own_error
from roofline.programs.pytorch import standins
from roofline.programs.pytorch.functions import on_shapes
from roofline.programs.pytorch.open_sizes import SMALLER, dispatched_in_python
from roofline.programs.pytorch.operators import autocast_without_a_device
from roofline.programs.pytorch.recorder import (
    NEEDS_NUMBERS,
    DispatchWatcher,
    FunctionWatcher,
    LocationFinder,
    Recorder,
    module_paths,
)
from roofline.programs.pytorch.tensors import always, dtype_name, tensors_given_back, tensors_in
from roofline.programs.regions import needed_at_most
from roofline.programs.tensor_parts import given_back
from roofline.programs.traced import Traced
from roofline.progress import stopped
from roofline.signatures import either
from roofline.sizes import Size

_OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adafactor", "Muon")
OPTIMIZERS = {name.lower(): getattr(torch.optim, name) for name in _OPTIMIZERS}


def trace(
    program: Any,
    *inputs: Any,
    backward: bool = False,
    input_gradients: bool = False,
    optimizer: Any = None,
    recompute_attention: bool = True,
    sizes: Mapping[str, Size] | None = None,
    name: str | None = None,
    device: Any = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Traced:
    """Find every operation of a module or function.

    ``inputs``     example tensors, or specifications in the notation; ``kwargs`` likewise, by name, or words
    ``backward``   also the gradient of everything that requires one, from a gradient of each result given from outside
    ``input_gradients``  also the gradient of every floating input, as of a layer inside a network; implies ``backward``
    ``optimizer``  also a step: ``adamw`` and the like, a class, or a function of the parameters; implies ``backward``
    ``recompute_attention``  the backward pass of attention makes its scores again, as FlashAttention does and ``train``
                   counts (5 matmuls); False: the forward pass writes its probabilities, and backward reads them (4)
    ``sizes``      sizes of named dimensions in the specifications; a name without one stays open
    ``device``     what the program is told when it asks a tensor for its device (default: the module's, or cpu)

    A function runs as it is, so one that calls ``backward()`` and ``step()`` itself is a training step.
    """
    if isinstance(program, torch.export.ExportedProgram):
        program = program.module()
    if not callable(program):
        raise InputError(f"{a_or_an(type(program).__name__)} cannot be traced", hint="give a module or a function")
    given = (inputs, backward or input_gradients or optimizer is not None, optimizer, sizes, name, kwargs)
    roots = standins.find_modules(program, inputs)

    def once(float_constants: bool = True, leaf_values: bool = False, smaller: int = 0) -> Traced:
        locations, told = LocationFinder(module_paths(roots)[0]), _device(device, roots)
        facts = recompute_attention, float_constants, given[1], leaf_values, SMALLER[smaller]
        recorder = Recorder(locations, told, *facts)
        try:
            return _traced(program, roots, recorder, *given, input_gradients)
        except _GradientOfAConstant:
            return once(False, leaf_values, smaller)
        except InputError:
            if recorder.met_leaves and not leaf_values:  # it may look at values of a tensor with a gradient
                with suppress(InputError):
                    return once(float_constants, True, smaller)
            if recorder.open.has_branched() and smaller + 1 < len(SMALLER):  # it may hold for smaller sizes alone
                with suppress(InputError):
                    return once(float_constants, leaf_values, smaller + 1)
            raise
        finally:
            recorder.give_back()

    return once()


class _GradientOfAConstant(Exception):
    """What has a gradient was written into a constant, which has values where the gradient has none."""


def _traced(
    program: Any,
    roots: Mapping[str, Any],
    recorder: Recorder,
    inputs: tuple[Any, ...],
    backward: bool,
    optimizer: Any,
    sizes: Mapping[str, Size] | None,
    name: str | None,
    kwargs: Mapping[str, Any] | None,
    input_gradients: bool,
) -> Traced:
    """Run a program once and gather what the recorder saw."""
    declare = recorder.identities.declare
    with ExitStack() as stack:
        stack.enter_context(standins.restoring_attributes(roots))
        optimizers = standins.find_optimizers(program)
        stack.enter_context(standins.standing_in(roots, optimizers, declare, recorder.leaves, recorder.leaf_of))

        def made(value: Any, label: str, is_named: bool = False) -> Any:
            return standins.make_input(value, sizes or {}, recorder.open, declare, label, is_named)

        values = [made(value, f"input{i}") for i, value in enumerate(inputs)]
        named = {key: made(value, key, is_named=True) for key, value in (kwargs or {}).items()}
        floating = [tensor for tensor in tensors_in([values, named]) if tensor.is_floating_point() and tensor.is_leaf]
        for tensor in floating if input_gradients else ():
            tensor.requires_grad_()
        without = backward and any(not tensor.requires_grad for tensor in floating)
        recorder.give(tensors_in([inputs, dict(kwargs or {})]))
        for parameter in _parameters(roots):
            parameter.grad = None
        stepper = None
        if optimizer is not None:
            stepper = _optimizer(optimizer, [p for p in _parameters(roots) if p.requires_grad])
            standins.prepared(stepper, declare)
        quiet = isinstance(program, torch.nn.Module) and not backward
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(torch.no_grad() if quiet else torch.enable_grad())
        if recorder.open:
            stack.enter_context(dispatched_in_python())
        stack.enter_context(autocast_without_a_device())
        stack.enter_context(on_shapes())
        stack.enter_context(_without_questions_about_values())
        wrapping = recorder.wrapped_on_shapes(eager_transforms._wrap_all_tensors)
        stack.enter_context(mock.patch.object(eager_transforms, "_wrap_all_tensors", wrapping))
        stack.enter_context(mock.patch.object(torch.distributions.Distribution, "_validate_args", False))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile", UserWarning)
        sending: AbstractContextManager[None] = nullcontext()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            from roofline.programs.pytorch.data_parallel import averaging_gradients

            sending = averaging_gradients(roots, recorder)
        stack.enter_context(FunctionWatcher(recorder))
        stack.enter_context(DispatchWatcher(recorder))
        cut: list[str] = []
        try:
            with sending:
                result = run_program(program, values, named, recorder.outside_gradients if backward else None, stepper)
            tensors, identities = tensors_given_back(result), recorder.identities
            leaves = [*tensors_in([values, named]), *_parameters(roots), *recorder.leaves.values()]
            held = identities.gradients_of(leaves)
            results = identities.made_whole(tensors)
            parts = {name: recorder.open.plain_tensor(t) for name, t in identities.made_in_part(tensors).items()}
            shown = ([], set()) if backward else (tensors, results)  # gradients need what their results do not
            needed, given = identities.needed(recorder.ops, recorder.calls, *shown, recorder.open.least())
            recorder.open.check()
        except KeyboardInterrupt:
            if not recorder.ops:
                raise
            results, parts, needed, given, held = set(), {}, {}, {}, set()
            cut = [f"{stopped(len(recorder.ops), None, 'operations')}: the rest is not counted"]
        except RooflineError:
            raise
        except Exception as error:
            recorder.open.check()
            inner = own_error(error)
            if inner is not None:
                raise inner from error
            if recorder.float_constants and "expected device cpu but got meta" in str(error):
                raise _GradientOfAConstant from error
            raise _explained(recorder, error, _other_dtype(roots, values)) from error
    settled = recorder.identities.settle(recorder.ops, results | parts.keys(), given)
    ops = given_back(needed_at_most(settled, needed), results, parts, held=held)
    return Traced(
        name or _name(program),
        ops,
        modules=module_paths(roots)[1],
        assumptions=(*_assumptions(recorder), *[_first_layer()] * without, *cut),
        inputs=tuple(standins.written(value, recorder.open) for value in (*values, *named.values())),
        sizes=dict(sizes or {}),
        weights=recorder.identities.weights(),
    )


def _parameters(roots: Mapping[str, Any]) -> list[Any]:
    return [parameter for module in roots.values() for parameter in module.parameters()]


def run_program(
    program: Any,
    values: list[Any],
    named: dict[str, Any],
    gradients: Callable[[list[Any]], list[Any]] | None,
    stepper: Any,
) -> Any:
    """Run it: forward, and backward from ``gradients`` of its results, and a step; give what the program does."""
    result = program(*values, **named)
    if gradients is None:
        return result
    outs = _differentiable(result)
    if not outs:
        more = either("--input-gradients", "input_gradients=True")
        hint = f"trace without backward, or with {more} for those of inputs"
        raise InputError("nothing that came out requires a gradient", hint=hint)
    torch.autograd.backward(outs, gradients(outs))
    if stepper is not None:
        stepper.step()
    return result


def _differentiable(result: Any) -> list[Any]:
    """What to differentiate: the loss where there is one, else every result that has a gradient."""
    loss = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        return [loss]
    if isinstance(result, torch.Tensor):
        return [result] if result.requires_grad else []
    if isinstance(result, Mapping):
        result = list(result.values())
    elif is_dataclass(result) and not isinstance(result, type):
        result = [getattr(result, item.name) for item in fields(result)]
    if isinstance(result, list | tuple):
        return [out for item in result for out in _differentiable(item)]
    return []


def _optimizer(chosen: Any, parameters: list[Any]) -> Any:
    if isinstance(chosen, str):
        check_one_of(f"unknown optimizer {chosen!r}", chosen.lower(), OPTIMIZERS, "optimizers")
        chosen = OPTIMIZERS[chosen.lower()]
    if not parameters:
        raise InputError("there are no parameters to optimise", hint="trace a module that has some")
    try:
        return chosen(parameters)
    except ValueError as error:  # as Muon of anything but matrices
        raise InputError(f"the optimizer refuses these parameters: {first_line(error)}") from None


def _device(given: str | None, roots: Mapping[str, Any]) -> Any:
    if given is not None:
        try:
            return torch.device(given)
        except RuntimeError:
            raise InputError(f"device {quoted(given)} is none of torch's", hint="cpu, cuda or mps") from None
    for root in roots.values():
        for tensor in root.parameters():
            return torch.device("cpu") if tensor.device.type == "meta" else tensor.device
    return torch.device("cpu")


def _name(program: Any) -> str:
    if isinstance(program, torch.nn.Module):
        return type(program).__name__
    return str(getattr(program, "__name__", type(program).__name__)).strip("<>")


#: Questions of libraries about values, which there are none of: the module, who holds the function, its answer.
_ABOUT_VALUES = (
    ("transformers.modeling_utils", "PreTrainedModel", "warn_if_padding_and_no_attention_mask", None),
    ("torch.ao.quantization.observer", "", "check_min_max_valid", True),
)


@contextmanager
def _without_questions_about_values() -> Iterator[None]:
    """Transformers looks for padding in ids only to warn of it; an observer checks that it has seen finite numbers."""
    with ExitStack() as stack:
        for module, owner, name, answer in _ABOUT_VALUES:
            holder = sys.modules.get(module)
            holder = getattr(holder, owner, None) if owner else holder
            if hasattr(holder, name):
                stack.enter_context(mock.patch.object(holder, name, always(answer)))
        yield


def _assumptions(recorder: Recorder) -> tuple[str, ...]:
    notes = dict.fromkeys(op.note for op in recorder.ops if op.note and op.kind != "unknown")
    if any(op.kind == "attention" and op.phase == "backward" for op in recorder.ops):
        kept = "the probabilities of attention are written, and read again in the backward pass"
        notes[FUSED_ATTENTION if recorder.recompute_attention else kept] = None
    return (*notes, *recorder.open.conditions())


def _first_layer() -> str:
    """What the backward pass of a program leaves out whose inputs ask for no gradient."""
    more = either("--input-gradients", "input_gradients=True")
    return f"no gradient of the inputs is counted, as of a first layer; {more} counts it too"


def _other_dtype(roots: Mapping[str, Any], values: Iterable[Any]) -> str:
    """What makes the inputs and the parameters of one dtype each alike; empty where they are, or are of several."""
    weights = {p.dtype for module in roots.values() for p in module.parameters() if p.is_floating_point()}
    floats = [value for value in values if isinstance(value, torch.Tensor) and value.is_floating_point()]
    given = {value.dtype for value in floats}
    if len(weights) != 1 or len(given) != 1 or weights == given:
        return ""
    own, other = dtype_name(weights.pop()), given.pop()
    return f"the model is {own}: give the inputs as {own}[...], or return model.to({other})"


def _explained(recorder: Recorder, error: Exception, dtypes_differ: str) -> InputError:
    """The user's line on which the program failed, and what it said."""
    line, reason = failing_line(error, recorder.locations.is_user), first_line(error)
    hint = dtypes_differ or "check the inputs' shapes and dtypes"
    if NEEDS_NUMBERS in str(error):  # a derivative that PyTorch takes apart below Python
        return SizeError(f"{line}{NEEDS_NUMBERS}", hint="give them numbers")
    if any(word in reason for word in ("numpy", "tolist", "unallocated storage", "data_ptr")):
        hint = "it asks for the values of a tensor: trace what is before and what is after it as functions of their own"
    elif "does not require grad" in reason:
        hint = f"ask for gradients with {either('--backward', 'backward=True')}, or begin with x.requires_grad_()"
    elif "jax" in reason.lower() or "abstract array" in reason:
        hint = "trace a function of JAX with " + either("--jax", "frontend='jax'")
    elif is_call(reason):
        hint = call_hint()
    return InputError(f"{line}the program fails on shapes alone: {reason.rstrip('.')}", hint=hint)
