"""Trace a JAX function: its jaxpr is made from shapes alone and walked; nothing is computed.

>>> import jax
>>> def mlp(x, up, down):
...     with jax.named_scope("mlp"):
...         return jax.numpy.tanh(x @ up) @ down
>>> program = trace(mlp, "bf16[64, 512]", "bf16[512, 2048]", "bf16[2048, 512]", weights=(1, 2))
>>> [(op.name, op.where) for op in program.ops]
[('dot_general', 'mlp'), ('tanh', 'mlp'), ('dot_general', 'mlp')]
>>> program.flops() == 2 * 2 * 64 * 512 * 2048, program.parameters() == 2 * 512 * 2048
(True, True)
>>> step = trace(mlp, "bf16[64, 512]", "bf16[512, 2048]", "bf16[2048, 512]", backward=True)
>>> step.flops() == 3 * program.flops()
True

A size without a number stays a symbol, and the count is a formula:

>>> trace(lambda x, w: x @ w, "bf16[B, 512]", "bf16[512, 2048]").flops()
2097152*B
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters.partial_eval import dce_jaxpr

from roofline import dtypes
from roofline.errors import DTypeError, InputError
from roofline.programs.jax.masks import MaskFinder, constant
from roofline.programs.jax.regions import REGIONS
from roofline.programs.jax.registry import load
from roofline.programs.jax.rules.contractions import without_a_device
from roofline.programs.jax.values import automatic, value_of
from roofline.programs.jax.walker import (
    JaxprContext,
    JaxprWalker,
    called_program,
    failing_line,
    open_jaxpr,
    source_line,
)
from roofline.programs.specs import CALL_HINT, is_call, own_error, spec
from roofline.programs.traced import Traced
from roofline.quantity import format_amount as show
from roofline.sizes import Size


def trace(
    program: Any,
    *inputs: Any,
    backward: bool = False,
    optimizer: Any = None,
    weights: int | Sequence[int] = (),
    trips: Any = None,
    sizes: Mapping[str, Size] | None = None,
    name: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Traced:
    """Find every operation of a function.

    ``inputs``    arrays, ``jax.ShapeDtypeStruct`` or specifications in the notation, in any pytree; what is neither
                  (a number, a string of options) is passed on as it is
    ``backward``  also the gradient of every floating input, from a gradient of each result
    ``weights``   positions of inputs that hold parameters
    ``trips``     how often ``while`` loops run: a number, or one for each source line (``{"step.py:12": 10}``)
    ``sizes``     sizes of named dimensions; a name without one stays a symbol

    What no result depends on is left out, as XLA leaves it out. Gradients may be taken in the function itself.
    """
    if not callable(program):
        raise InputError(f"a {type(program).__name__} cannot be traced", hint="give a function")
    if optimizer is not None:
        raise InputError(
            "a JAX optimizer is part of the function",
            hint="trace the training step with its update",
        )
    load()
    given, names = _leaves(inputs, kwargs or {}, sizes or {})
    leaves, tree = jax.tree.flatten(given)
    slots = [place for place, leaf in enumerate(leaves) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]

    def called(*values: Any) -> Any:
        filled = list(leaves)
        for place, value in zip(slots, values, strict=True):
            filled[place] = value
        args, named = jax.tree.unflatten(tree, filled)
        return program(*args, **named)

    shapes = [jax.ShapeDtypeStruct(leaves[i].shape, leaves[i].dtype, sharding=_sharding(leaves[i])) for i in slots]
    try:
        with without_a_device():
            closed = jax.make_jaxpr(_both(called) if backward else called)(*shapes)
    except Exception as error:
        raise own_error(error) or _explained(error) from error
    pruned, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    walker = JaxprWalker(REGIONS, trips)
    held = {weights} if isinstance(weights, int) else set(weights)
    tensors = [
        walker.tensor(value_of(var.aval), "weight" if place in held else "activation", label)
        for var, (place, label) in zip(pruned.invars, (names[i] for i in slots), strict=True)
    ]
    for tensor, shape in zip(tensors, shapes, strict=True):
        walker.left_to_compiler(automatic(shape.sharding), [tensor], JaxprContext())
    results = walker.inline(pruned, tensors, JaxprContext())
    results = walker.written_out(results, [value_of(var.aval) for var in pruned.outvars])
    hidden = masked(pruned, closed.consts)
    if hidden:
        walker.assume(hidden)
    for var, shape in zip(pruned.invars, shapes, strict=True):
        if var.aval.dtype != shape.dtype:
            walker.assume(f"{shape.dtype} is {var.aval.dtype} to JAX unless jax_enable_x64 is set")
    ops = walker.settled(results)
    return Traced(
        name or str(getattr(program, "__name__", type(program).__name__)).strip("<>"),
        ops,
        modules=walker.scopes,
        gaps=walker.gaps(ops),
        assumptions=tuple(walker.assumptions),
        inputs=tuple(_written(shape) for shape in shapes),
        weights={tensor.ident: tensor.elements for tensor in tensors if tensor.role == "weight"},
    )


def masked(jaxpr: Any, held: Sequence[Any]) -> str:
    """Say how much of the matmuls of attention a mask hides, since all of it is counted; nothing where none is."""
    masks = MaskFinder(open_jaxpr, called_program, source_line)
    masks.walk(jaxpr, [*map(constant, held), *(None for _ in jaxpr.invars)])
    lines = masks.lines()
    if not lines:
        return ""
    flops, hidden = (sum(amounts[1:], amounts[0]) for amounts in zip(*lines.values(), strict=True))
    where = ", ".join(sorted(filter(None, lines)))
    return (
        f"masked scores are counted, as the program computes them: a kernel that knows the mask would skip "
        f"{show(hidden, 'FLOP')} of {show(flops, 'FLOP')}" + (f" ({where})" if where else "")
    )


def _leaves(
    inputs: tuple[Any, ...], kwargs: Mapping[str, Any], sizes: Mapping[str, Size]
) -> tuple[Any, list[tuple[int, str]]]:
    """The inputs with specifications as shapes, and for every leaf its position and name."""
    symbols: dict[str, Any] = {}
    scope: Any = None

    def read(value: Any) -> Any:
        nonlocal scope
        if not isinstance(value, str) or "[" not in value:
            return value
        found = spec(value, sizes, symbolic=True)
        dims = []
        for dim in found.dims:
            if not isinstance(dim, int):
                if scope is None:
                    from jax.export import SymbolicScope

                    scope = SymbolicScope()
                dim = symbols.setdefault(str(dim), _symbol(str(dim), scope))
            dims.append(dim)
        return jax.ShapeDtypeStruct(tuple(dims), _dtype(found.dtype))

    given = jax.tree.map(read, (inputs, dict(kwargs)))
    paths = jax.tree_util.tree_flatten_with_path(given)[0]
    names = [
        (path[1].idx if path[0].idx == 0 else -1, f"input{jax.tree_util.keystr(path[1:])}" if path[0].idx == 0 else "")
        for path, _ in paths
    ]
    return given, names


def _symbol(text: str, scope: Any) -> Any:
    from jax.export import symbolic_shape

    return symbolic_shape(text, scope=scope)[0]


#: JAX's names of dtypes where they are not ours.
_DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn",
           "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2", "fp8_e8m0": "float8_e8m0fnu",
           "fp4": "float4_e2m1fn", "fp4_e2m1": "float4_e2m1fn"}  # fmt: skip


def _dtype(name: str) -> Any:
    try:
        return jnp.dtype(_DTYPES.get(name, name))
    except TypeError:
        raise DTypeError(f"JAX has no dtype for {name}", hint="give an array, or a dtype that JAX has") from None


def _sharding(leaf: Any) -> Any:
    """The sharding of an abstract input, where its type carries one."""
    return leaf.sharding if isinstance(leaf, jax.ShapeDtypeStruct) else None


def _both(called: Any) -> Any:
    """A function and the gradient of its floating inputs."""

    def run(*values: Any) -> Any:
        floating = [jnp.issubdtype(value.dtype, jnp.inexact) for value in values]
        if not any(floating):
            raise InputError("no input has a gradient: none is floating", hint="trace without backward")

        def differentiable(*some: Any) -> Any:
            rest = iter(some)
            result = called(*(next(rest) if f else value for f, value in zip(floating, values, strict=True)))
            outs = [out for out in jax.tree.leaves(result) if jnp.issubdtype(jnp.result_type(out), jnp.inexact)]
            return outs, result

        outs, pull, result = jax.vjp(
            differentiable, *(value for f, value in zip(floating, values, strict=True) if f), has_aux=True
        )
        if not outs:
            raise InputError("nothing that came out has a gradient", hint="trace without backward")
        return result, pull([jnp.ones_like(out) for out in outs])

    return run


def _written(shape: Any) -> str:
    dtype = str(shape.dtype)
    name = dtypes.get(dtype).name if dtypes.is_dtype(dtype) else dtype
    return f"{name}[{', '.join(map(str, shape.shape))}]"


def _explained(error: Exception) -> InputError:
    """The user's line on which the program failed, and what it said."""
    said = str(error).strip().splitlines()
    line = failing_line(error)
    if isinstance(error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError):
        return InputError(
            f"{line}what is done here depends on the values of an array, which shapes alone do not have",
            hint="use jax.lax.cond or jnp.where, or pass the value as a Python number",
        )
    if "inconclusive" in str(error).lower() or type(error).__name__ == "InconclusiveDimensionOperation":
        return InputError(f"{line}a size without a number is not enough here: {said[0]}", hint="give it: B=8")
    reason = f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
    hint = "check the inputs' shapes and dtypes"
    if "must be Tensor, not" in reason:
        hint = "trace PyTorch with frontend='torch' (no --jax)"
    elif is_call(reason):
        hint = CALL_HINT
    return InputError(f"{line}the program fails on shapes alone: {reason}", hint=hint)
