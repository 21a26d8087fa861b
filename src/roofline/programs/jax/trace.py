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

Primitives that hold a program repeat it, branch to it or call it: scan, while, cond, jit, derivatives, shard_map,
Pallas kernels. ``scan`` happens its length times, ``cond`` counts its largest branch (which is said), ``while`` runs
as often as its counter says, and needs a stated number of trips where that depends on data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from roofline import dtypes
from roofline.errors import DTypeError, InputError, a_or_an
from roofline.frozen import replace
from roofline.ops import pricing
from roofline.programs import api
from roofline.programs.jax.indices import SAME, held_numbers, number_of, of_positions
from roofline.programs.jax.needs import LEAST, MaskFinder, needed_of
from roofline.programs.jax.registry import Value, automatic, mesh_axes, scanned, size_of, untyped, value_of
from roofline.programs.jax.rules import without_a_device
from roofline.programs.jax.walker import PICKING, JaxprContext, JaxprWalker, Operand, Region, is_user, open_jaxpr
from roofline.programs.positions import Elements, of_values
from roofline.programs.regions import WHOLE, as_named, counted_from, elements_of, needed_at_most, picked_together
from roofline.programs.rule_table import RuleTable, branch_cost, stated
from roofline.programs.tensor_parts import LoopSteps, first_part
from roofline.programs.traced import Traced
from roofline.progress import stopped
from roofline.quantity import format_amount as show
from roofline.signatures import either
from roofline.sizes import Size, ceil_div, is_symbol, maximum, product
from roofline.work import Op, Tensor, Work


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
                  (a number, a string of options) is passed on as it is. One with values (``"int32[2] = 0, 1"``) is a
                  numpy constant of the program, which may look at it
    ``backward``  also gradients, from one of each result: of ``weights`` where they are named, else of every floating
                  input
    ``weights``   positions of inputs that hold parameters, as ``argnums`` of ``jax.grad``
    ``trips``     how often ``while`` loops run: a number, or one for each source line (``{"step.py:12": 10}``)
    ``sizes``     sizes of named dimensions; a name without one stays a symbol

    What no result depends on is left out, as XLA leaves it out. Gradients may be taken in the function itself.
    """
    if not callable(program):
        raise InputError(f"{a_or_an(type(program).__name__)} cannot be traced", hint="give a function")
    if optimizer is not None:
        raise InputError("a JAX optimizer is part of the function", hint="trace the training step with its update")
    given, names = _leaves(inputs, kwargs or {}, sizes or {})
    leaves, tree = jax.tree.flatten(given)
    slots = [place for place, leaf in enumerate(leaves) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]
    seen = [leaves[i] for i in slots]
    stated = [leaf.sharding if isinstance(leaf, jax.ShapeDtypeStruct) else None for leaf in seen]
    shapes = [jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=s) for v, s in zip(seen, stated, strict=True)]
    held = _positions(weights, len(inputs))
    wanted = [not held or names[i][0] in held for i in slots] if backward else None
    closed = _jaxpr(program, leaves, tree, dict(zip(slots, shapes, strict=True)), wanted)
    typed = _typed_by_jit(closed.jaxpr, shapes)
    if typed != shapes:
        with suppress(InputError):  # where JAX cannot tell a result's sharding from these, they stay the compiler's
            closed = _jaxpr(program, leaves, tree, dict(zip(slots, typed, strict=True)), wanted)
            shapes = typed
    pruned, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    walker = JaxprWalker(REGIONS.find, trips)
    if wanted is not None:
        walker.assume(_gradients_in_words(held, shapes, [names[i][0] for i in slots]))
    tensors = [
        walker.tensor(value_of(var.aval), "weight" if place in held else "activation", label)
        for var, (place, label) in zip(pruned.invars, (names[i] for i in slots), strict=False)
    ]
    for var in pruned.invars[len(slots) :]:
        tensors.append(walker.tensor(value_of(var.aval), "gradient", "gradient of the result"))
    for tensor, shape in zip(tensors, shapes, strict=False):
        walker.left_to_compiler(automatic(shape.sharding), [tensor], JaxprContext())
    try:
        numbers = [*map(held_numbers, closed.consts), *(None for _ in tensors)]
        results = walker.inline(pruned, tensors, JaxprContext(), numbers)
        results = walker.written_out(results, [value_of(var.aval) for var in pruned.outvars])
    except KeyboardInterrupt:
        if not walker.ops:
            raise
        results = []
        walker.assume(f"{stopped(len(walker.ops), None, 'operations')}: the rest is not counted")
    hidden = masked(pruned, closed.consts)
    if hidden:
        walker.assume(hidden)
    for var, shape in zip(pruned.invars, shapes, strict=False):
        if var.aval.dtype != shape.dtype:
            walker.assume(f"{shape.dtype} is {var.aval.dtype} to JAX unless jax_enable_x64 is set")
    amounts = _amounts(pruned, closed.consts, tensors)
    ops = needed_at_most(picked_together(walker.settled(results), amounts, (*PICKING, "slice")), amounts)
    written = {i: leaf.written for i, leaf in enumerate(leaves) if isinstance(leaf, _Stated)}
    written |= {place: _written(shape) for place, shape in zip(slots, shapes, strict=True)}
    return Traced(
        name or str(getattr(program, "__name__", type(program).__name__)).strip("<>"),
        ops,
        modules=walker.scopes,
        gaps=walker.gaps(ops),
        assumptions=tuple(walker.assumptions),
        inputs=tuple(written[place] for place in sorted(written)),
        weights={tensor.ident: tensor.elements for tensor in tensors if tensor.role == "weight"},
    )


def _amounts(jaxpr: Any, held: Sequence[Any], tensors: Sequence[Tensor]) -> dict[str, Size]:
    """Elements of each input that the results need, where these are not all of it."""
    numbers = [*map(held_numbers, held), *(None for _ in tensors)]
    needed = needed_of(jaxpr, numbers, [WHOLE] * len(jaxpr.outvars), in_place=True)[len(jaxpr.constvars) :]
    parts = zip(tensors, jaxpr.invars, needed, strict=True)
    return {
        t.ident: as_named(elements_of(region, counted_from(LEAST, t.dims)))
        for t, var, region in parts
        if region is not WHOLE and t.dims == tuple(map(size_of, var.aval.shape))
    }


def masked(jaxpr: Any, held: Sequence[Any]) -> str:
    """Say how much of the matmuls of attention a mask hides, since all of it is counted; nothing where none is."""
    masks = MaskFinder()
    masks.walk(jaxpr, [*map(of_values, held), *(None for _ in jaxpr.invars)])
    lines = masks.lines()
    if not lines:
        return ""
    flops, hidden = (sum(amounts[1:], amounts[0]) for amounts in zip(*lines.values(), strict=True))
    where = ", ".join(sorted(filter(None, lines)))
    return (
        f"masked scores are counted, as the program computes them: a kernel that knows the mask would skip "
        f"{show(hidden, 'FLOP')} of {show(flops, 'FLOP')}" + (f" ({where})" if where else "")
    )


class _Stated:
    """An input with values: a constant of the program, an array of numpy, so that the program may look at it."""

    def __init__(self, values: Any, wanted: api.Spec) -> None:
        self.array = values.astype(_dtype(wanted.dtype))
        self.written = str(wanted)


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
        text, numbers = api.stated_values(value)
        found = api.spec(text, sizes, symbolic=True)
        if numbers is not None:
            api.check_values(found, numbers)
            return _Stated(np.broadcast_to(np.array(numbers), product(found.dims)).reshape(found.dims), found)
        dims = []
        for dim in found.dims:
            if not isinstance(dim, int):
                from jax.export import SymbolicScope, symbolic_shape

                scope = scope or SymbolicScope()
                dim = symbols.setdefault(str(dim), symbolic_shape(str(dim), scope=scope)[0])
            dims.append(dim)
        return jax.ShapeDtypeStruct(tuple(dims), _dtype(found.dtype))

    given = jax.tree.map(read, (inputs, dict(kwargs)))
    paths = jax.tree_util.tree_flatten_with_path(given)[0]
    names = [
        (path[1].idx if path[0].idx == 0 else -1, f"input{jax.tree_util.keystr(path[1:])}" if path[0].idx == 0 else "")
        for path, _ in paths
    ]
    return given, names


#: JAX's names of dtypes where they are not ours.
_DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn",
           "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2", "fp8_e8m0": "float8_e8m0fnu",
           "fp4": "float4_e2m1fn", "fp4_e2m1": "float4_e2m1fn"}  # fmt: skip


def _dtype(name: str) -> Any:
    try:
        return jnp.dtype(_DTYPES.get(name, name))
    except TypeError:
        raise DTypeError(f"JAX has no dtype for {name}", hint="give an array, or a dtype that JAX has") from None


def _positions(weights: int | Sequence[int], count: int) -> set[int]:
    """The positions of parameters; one at which no input stands is refused."""
    held = {weights} if isinstance(weights, int) else set(weights)
    wrong = next((place for place in held if not isinstance(place, int) or not 0 <= place < count), None)
    if wrong is not None:
        inputs = "the only input is at 0" if count == 1 else f"inputs are at 0 to {count - 1}"
        raise InputError(f"weights: no input stands at {wrong!r}", hint=inputs)
    return held


def _gradients_in_words(held: set[int], shapes: Sequence[Any], places: Sequence[int]) -> str:
    """Of which inputs the backward pass gives gradients, and how another choice is asked."""
    if held:
        at = ", ".join(map(str, sorted(held)))
        return f"the backward pass gives gradients of the weights alone, input{'s' * (len(held) > 1)} {at}"
    floating = {at for at, shape in zip(places, shapes, strict=True) if jnp.issubdtype(shape.dtype, jnp.inexact)}
    which = "of every floating input" if len(floating) > 1 else "of the input"
    more = either("", ": weights=0 has that of the first alone") if len(floating) > 1 else ""
    return f"the backward pass gives gradients {which}{more}"


def _jaxpr(
    program: Any, leaves: Sequence[Any], tree: Any, shapes: Mapping[int, Any], wanted: Sequence[bool] | None
) -> Any:
    """The function as JAX writes it down: of inputs of these shapes, by their positions among all leaves.

    ``wanted`` says of each whether its gradient is asked for; None: only the function.
    """

    def called(*values: Any) -> Any:
        filled = [leaf.array if isinstance(leaf, _Stated) else leaf for leaf in leaves]
        for place, value in zip(shapes, values, strict=True):
            filled[place] = value
        args, named = jax.tree.unflatten(tree, filled)
        return program(*args, **named)

    try:
        with without_a_device():
            if wanted is None:
                return jax.make_jaxpr(called)(*shapes.values())
            results = jax.tree.leaves(jax.eval_shape(called, *shapes.values()))
            gradients = [result for result in results if result.shape and jnp.issubdtype(result.dtype, jnp.inexact)]
            return jax.make_jaxpr(_both(called, wanted))(*shapes.values(), *gradients)
    except Exception as error:
        raise api.own_error(error) or _explained(error, str([shape.shape for shape in shapes.values()])) from error


def _typed_by_jit(jaxpr: Any, shapes: Sequence[Any]) -> list[Any]:
    """The inputs with the shardings that a jit gives them by its ``in_shardings``, over explicit axes of a mesh."""
    found, places = list(shapes), {var: place for place, var in enumerate(jaxpr.invars[: len(shapes)])}
    for eqn in jaxpr.eqns:
        for atom, sharding in zip(eqn.invars, eqn.params.get("in_shardings") or (), strict=False):
            place = None if hasattr(atom, "val") else places.get(atom)
            if place is not None and found[place].sharding is None and untyped(sharding, atom.aval) > 1:
                found[place] = jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype, sharding=sharding)
    return found


def _both(called: Any, wanted: Sequence[bool]) -> Any:
    """A function and the gradients of its floating inputs that are wanted, from one of each result, behind the inputs.

    The gradient of a result without dimensions, a loss, is one.
    """

    def run(*given: Any) -> Any:
        values, gradients = given[: len(wanted)], iter(given[len(wanted) :])
        asked = zip(values, wanted, strict=True)
        floating = [is_wanted and jnp.issubdtype(value.dtype, jnp.inexact) for value, is_wanted in asked]
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
        return result, pull([next(gradients) if out.shape else jnp.ones_like(out) for out in outs])

    return run


def _written(shape: Any) -> str:
    dtype = str(shape.dtype)
    name = dtypes.get(dtype).name if dtypes.is_dtype(dtype) else dtype
    return f"{name}[{', '.join(map(str, shape.shape))}]"


def _explained(error: Exception, shapes: str) -> InputError:
    """The user's line on which the program failed, and what it said, which names sizes of ``shapes`` that are open."""
    line, reason = api.failing_line(error, lambda code: is_user(code.co_filename)), api.first_line(error)
    if isinstance(error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError):
        said = "what is done here depends on the values of an array, which shapes alone do not have"
        return InputError(line + said, hint="use jax.lax.cond or jnp.where, or pass the value as a Python number")
    words = str(error) + type(error).__name__
    if any(word in words for word in ("nconclusive", "min(", "max(")):  # which JAX says of open sizes alone
        said = f"a size without a number is not enough here: {reason.partition(': ')[2]}"
        given, told = (dict.fromkeys(re.findall(r"[^\W\d]\w*", text)) for text in (shapes, reason))
        named = [name for name in given if name in told] or [*given]
        needed = "it a number" if len(named) == 1 else "them numbers"
        return InputError(line + said, hint=f"give {needed}: {', '.join(f'{name}=…' for name in named)}")
    hint = "check the inputs' shapes and dtypes"
    if "must be Tensor, not" in reason:
        hint = "trace PyTorch " + either("without --jax", "with frontend='torch'")
    elif api.is_call(reason):
        hint = api.call_hint()
    return InputError(f"{line}the program fails on shapes alone: {reason}", hint=hint)


#: How primitives that hold programs are walked.
REGIONS: RuleTable[Region] = RuleTable("roofline.programs.jax")
region = REGIONS.rule


@region("scan")
def scan(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """``length`` times the body; slices of what is scanned over are read one by one.

    Where the body reads something from outside anew in every step, or starts from it, the first step is written apart
    from the others, so that the policy ``minimal`` counts it once.
    """
    params = eqn.params
    if params.get("length") is None:
        raise InputError(f"{context.place}a scan without a length cannot be counted", hint="give it a length")
    length, (shared, moving) = size_of(params["length"]), scanned(params)
    carried = shared + moving
    consts, state, rows = operands[:shared], operands[shared:carried], operands[carried:]
    if not is_symbol(length) and length == 0:
        return [*state, *(walker.tensor(value_of(var.aval)) for var in eqn.outvars[len(state) :])]
    body, _ = open_jaxpr(params["jaxpr"])
    slices = [value_of(var.aval) for var in body.invars[carried:]]
    stacks = [walker.tensor(value_of(var.aval)) for var in eqn.outvars[len(state) :]]
    anew = any(t is not None and t.dims for t in consts) or _begins_apart(walker, state, body.invars[shared:carried])
    begun = len(walker.ops)
    for name, times in _steps(length, anew, walker, f"{context.place}a scan"):
        seen = [
            None if row is None else walker.part(row, name or "0:", (times, *value.shape), value.shape)
            for row, value in zip(rows, slices, strict=True)
        ]
        looped = name != "0" and (is_symbol(times) or times > 1)
        state = _loop_state(walker, state) if looped else state
        before, step = len(walker.ops), _inside(context, times, [*state, *seen], name)
        found = walker.inline(params["jaxpr"], [*consts, *state, *seen], step)
        fresh = {t.ident: t.updates for op in walker.ops[before:] for t in map(walker.settle, op.writes)}
        for stack, made in zip(stacks, found[len(state) :], strict=True):
            walker.stack(made, stack, fresh, step)
        state = _carry(walker, state, found[: len(state)], looped)
        _first_parts(walker, begun, step)
    return [*state, *stacks]


def _steps(times: Size, apart: bool, walker: JaxprWalker, loop: str) -> list[tuple[str, Size]]:
    """All steps of a loop at once, or the first apart from the others, which is said."""
    if not apart or not (is_symbol(times) or times > 1):
        return [("", times)]
    said = f"{loop} of {times} steps stands as its first and {times - 1} more"
    walker.assume(f"{said}: the first reads what is outside the loop")
    return [("0", 1), ("1:", times - 1)]


def _inside(context: JaxprContext, times: Size, differ: Sequence[Operand], name: str) -> JaxprContext:
    """The body of a loop, and which operands differ from step to step."""
    again, before = is_symbol(context.repeat) or context.repeat > 1, int(name == "1:")
    steps = LoopSteps(times, before, {t.ident for t in differ if t is not None}, set(), again)
    return context._replace(repeat=context.repeat * times, steps=None if name == "0" else steps)


def _first_parts(walker: JaxprWalker, first: int, step: JaxprContext) -> None:
    """Name what the first step, from this operation on, reads of arrays that the others read part by part."""
    if step.steps is not None and step.steps.in_parts:
        walker.ops[first:] = [first_part(op, PICKING, step.steps) for op in walker.ops[first:]]


def _begins_apart(walker: JaxprWalker, state: Sequence[Operand], carried: Sequence[Any]) -> bool:
    """Whether a loop starts from what the program was given, or from a constant array, which no step reads."""
    given = any(t is not None and t.ident not in walker.written for t in state)
    return given or any(t is None and var.aval.shape for t, var in zip(state, carried, strict=True))


def _loop_state(walker: JaxprWalker, state: Sequence[Operand]) -> list[Operand]:
    """What a loop carries, under a name of its own: a step reads what the one before wrote."""
    found: list[Operand] = []
    for tensor in state:
        if tensor is None:
            found.append(None)
            continue
        carried = replace(walker.tensor(Value(tensor.dims, tensor.dtype)), role=tensor.role)
        if tensor.ident in walker.written or tensor.ident in walker.updated:
            walker.same.setdefault(carried.ident, tensor.ident)
        walker.written.add(carried.ident)
        found.append(carried)
    return found


def _carry(walker: JaxprWalker, before: Sequence[Operand], after: Sequence[Operand], looped: bool) -> list[Operand]:
    for old, new in zip(before, after, strict=True):
        if looped and old is None and new is not None:
            walker.carried.append(new)
        if looped and old is not None and new is not None and old.ident != new.ident and new.role == "activation":
            walker.same.setdefault(new.ident, old.ident)
    return list(after)


@region("while")
def while_loop(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The body as often as a counter or ``trips`` says, the condition once more."""
    params = eqn.params
    counted = counted_trips(eqn, walker.numbers)
    trips = counted
    if trips is None:
        trips = stated(walker.trips, context.source, "how often this while loop runs depends on its data")
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    consts, state = operands[first:second], operands[second:]
    body_program, _ = open_jaxpr(params["body_jaxpr"])
    carried = body_program.invars[len(body_program.invars) - len(state) :]
    apart = _begins_apart(walker, state, carried)
    begun = len(walker.ops)
    for name, times in _steps(trips, apart, walker, f"{context.place}a while loop"):
        if name != "0":
            handed = zip(state, carried, body_program.outvars, strict=True)
            sizes = [old if new is var and old is not None and old.touched == 0 else None for old, var, new in handed]
            state = [size or made for size, made in zip(sizes, _loop_state(walker, state), strict=True)]
        body = _inside(context, times, state, name)
        after = walker.inline(params["body_jaxpr"], [*consts, *state], body)
        state = _carry(walker, state, after, name != "0")
        _first_parts(walker, begun, body)
    checked = context._replace(repeat=context.repeat * (trips + 1))
    walker.inline(params["cond_jaxpr"], [*operands[:first], *state], checked)
    if counted is None:
        walker.assume(f"{context.place}a while loop runs {trips} times, as stated")
    return state


#: Comparisons of a counter with a bound: the condition with its sides exchanged, and the steps until it fails.
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "ne": "ne"}
_STEPS: dict[str, Callable[[int, int, int], range]] = {
    "lt": lambda start, bound, step: range(start, bound, max(step, 0)),
    "le": lambda start, bound, step: range(start, bound + 1, max(step, 0)),
    "gt": lambda start, bound, step: range(start, bound, min(step, 0)),
    "ge": lambda start, bound, step: range(start, bound - 1, min(step, 0)),
    "ne": lambda start, bound, step: range(start, bound, step if bound in range(start, bound + step, step) else 0),
}


def counted_trips(eqn: Any, known: Mapping[Any, Any]) -> Size | None:
    """How often a loop runs whose condition compares a counter with a ``known`` number; None for any other.

    The counter starts at a whole number, and the body adds one to it or subtracts one. Either may be an open size.
    """
    condition, body = (open_jaxpr(eqn.params[name])[0] for name in ("cond_jaxpr", "body_jaxpr"))
    outside, inside = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    starts, carried = eqn.invars[outside + inside :], body.invars[inside:]
    given = dict(zip(condition.invars, (*eqn.invars[:outside], *starts), strict=True))
    given |= dict(zip(body.invars, eqn.invars[outside:], strict=True))
    pairs = zip(condition.invars[outside:], carried, body.outvars, strict=True)
    moving = {var for tested, old, new in pairs if old is not new for var in (tested, old)}

    def number(atom: Any, at_start: bool = False) -> Size | None:
        """The whole number that an operand is, in every step or at the start."""
        if not hasattr(atom, "val"):
            atom = given.get(atom, atom) if at_start or atom not in moving else None
        found = None if atom is None else number_of(atom, known)
        if isinstance(found, Elements):
            return found.number
        return int(found) if isinstance(found, np.ndarray) and not found.ndim and found.dtype.kind in "iu" else None

    *before, test = condition.eqns or [eqn]
    known = dict(known)
    for each in before:  # which give an open size as a number
        found = [number_of(given.get(atom, atom), known) for atom in each.invars]
        known[each.outvars[0]] = of_positions(each, found) if each.primitive.name in ("dim_as_value", *SAME) else None
    if test.primitive.name not in _STEPS or any(known[each.outvars[0]] is None for each in before):
        return None
    name, (counter, bound) = test.primitive.name, test.invars
    if number(counter) is not None:
        name, counter, bound = _MIRRORED[name], bound, counter
    if hasattr(counter, "val") or counter not in condition.invars[outside:]:
        return None
    place = condition.invars.index(counter) - outside
    made = {var: each for each in body.eqns for var in each.outvars}.get(body.outvars[place])
    if made is None or made.primitive.name not in ("add", "sub") or carried[place] not in made.invars:
        return None
    other = made.invars[1 if made.invars[0] is carried[place] else 0]
    start, end, step = number(counter, at_start=True), number(bound), number(other)
    if start is None or end is None or not step or (made.primitive.name == "sub" and other is made.invars[0]):
        return None
    step = -step if made.primitive.name == "sub" else step
    if any(map(is_symbol, (start, end, step))):
        way = {"l": 1, "g": -1}.get(name[0], 0)
        is_told = not is_symbol(step) and step * way > 0
        return maximum(0, ceil_div(way * (end - start) + int(name[1] == "e"), abs(step))) if is_told else None
    try:
        return len(_STEPS[name](start, end, step))
    except ValueError:  # the counter runs away from its bound
        return None


@region("cond")
def cond(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The branch that a constant or the platform chooses, else the largest."""
    which, branches = number_of(eqn.invars[0], walker.numbers), eqn.params["branches"]
    which = which if isinstance(which, np.ndarray) else None
    platforms = eqn.params.get("branches_platforms") or ()
    if which is not None or None in platforms:
        walker.chose = True
        taken = platforms.index(None) if which is None else min(max(int(which), 0), len(branches) - 1)
        return walker.inline(branches[taken], operands[1:], context)
    tried = [walker.branch(branch, operands[1:], context) for branch in branches]
    ops, results = max(tried, key=lambda found: branch_cost(found[0]))
    walker.ops += ops
    if len({branch_cost(found[0]) for found in tried}) > 1:
        walker.assume(f"{context.place}of a cond's {len(tried)} branches the largest is counted")
    return results


@region("custom_linear_solve")
def linear_solve(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The solve that was given; its operands follow those of the other three programs."""
    lengths, programs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    start = lengths.matvec + lengths.vecmat
    held = operands[start : start + lengths.solve]
    right = operands[start + lengths.solve + lengths.transpose_solve :]
    return walker.inline(programs.solve, [*held, *right], context)


@region("custom_vjp_call", "custom_vjp_call_jaxpr", "custom_jvp_call", "custom_vmap_call")
def custom(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The function itself; its derivatives are traced where they are taken."""
    held = (eqn.params.get(name) for name in ("call_jaxpr", "fun_jaxpr", "call"))
    return walker.inline(next(filter(None, held)), operands, context)


@region("shard_map")
def shard_map(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The program of one device: inside, shapes are its share."""
    params = eqn.params
    body, _ = open_jaxpr(params["jaxpr"])

    def shaped(tensor: Operand, var: Any) -> Operand:
        return None if tensor is None else replace(tensor, dims=value_of(var.aval).shape, touched=None)

    local = [shaped(*pair) for pair in zip(operands, body.invars, strict=True)]
    walker.assume("inside shard_map everything is what one device does; its inputs lie on the devices as it says")
    found = walker.inline(params["jaxpr"], local, context._replace(axes={**context.axes, **mesh_axes(params["mesh"])}))
    return [shaped(*pair) for pair in zip(found, eqn.outvars, strict=True)]


@region("sharding_constraint")
def sharding_constraint(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The same tensor; what the compiler of an automatic mesh sends to get it there is not known, which is listed."""
    walker.left_to_compiler(automatic(eqn.params["sharding"]), operands, context)
    return operands


@region("jit", "pjit")
def jit(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The program inside; shardings of its inputs and results that their types do not have are the compiler's."""
    results = walker.call(eqn.params["jaxpr"], eqn, operands, context)
    for name, tensors, atoms in (("in_shardings", operands, eqn.invars), ("out_shardings", results, eqn.outvars)):
        for sharding, tensor, atom in zip(eqn.params.get(name) or (), tensors, atoms, strict=False):
            walker.left_to_compiler(automatic(sharding), [tensor], context)
            walker.left_to_compiler(untyped(sharding, atom.aval), [tensor], context, f"jit's {name}")
    return results


@region("pallas_call")
def pallas_call(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """A kernel by its ``cost_estimate``; without one it is a gap."""
    name = str(eqn.params.get("name") or "pallas_call")
    writes = [walker.tensor(value_of(var.aval)) for var in eqn.outvars]
    reads = list({t.ident: t for t in operands if t is not None}.values())
    estimate = eqn.params.get("cost_estimate")
    if estimate is None:
        walker.emit(pricing.unknown(name, reads, writes, "a Pallas kernel without a cost_estimate"), context)
        return list(writes)
    walker.emit(_kernel(name, reads, writes, estimate), context)
    return list(writes)


def _kernel(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], estimate: Any) -> Op:
    """A kernel's FLOPs run on the matrix unit, half as many multiply-adds; its transcendentals on the vector unit."""
    dtype = pricing.arithmetic([*reads, *writes])
    flops, special = int(estimate.flops), int(estimate.transcendentals)
    work = Work.flops("matrix", dtype, flops) + (Work.flops("vector", dtype, special) if special else Work())
    dims = {"m": 1, "n": 1, "k": flops // 2, "batch": 1, "transcendentals": special}
    note = f"Pallas kernel {name}: FLOPs from its cost_estimate, all counted as multiply-adds"
    options = {"macs": flops // 2, "kernel": 1}
    return Op(name, "contraction", work, tuple(reads), tuple(writes), dims, note=note, options=options)
