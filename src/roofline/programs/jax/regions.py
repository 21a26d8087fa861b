"""What repeats, branches or calls: scan, while, cond, jit, derivatives, shard_map, Pallas kernels.

``scan`` happens its length times, ``cond`` counts its largest branch (which is said), ``while`` needs a stated number
of trips, because how often it runs depends on data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from roofline.errors import InputError
from roofline.ops import pricing
from roofline.programs.jax.registry import Value
from roofline.programs.jax.values import automatic, mesh_axes, scanned, size_of, value_of
from roofline.programs.jax.walker import JaxprContext, JaxprWalker, Operand, Region, open_jaxpr
from roofline.programs.loops import branch_cost, stated
from roofline.sizes import Size, is_symbol
from roofline.work import Op, Tensor, Work

REGIONS: dict[str, Region] = {}


def region(*names: str) -> Callable[[Region], Region]:
    """Register how primitives that hold programs are walked."""

    def keep(chosen: Region) -> Region:
        REGIONS.update(dict.fromkeys(names, chosen))
        return chosen

    return keep


@region("scan")
def scan(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """``length`` times the body; slices of what is scanned over are read one by one.

    Where the body reads something from outside anew in every step, or starts from it, the first step is written apart
    from the others, so that the policy ``minimal`` counts it once.
    """
    params = eqn.params
    if params.get("length") is None:
        raise InputError(f"{context.source}: a scan without a length cannot be counted", hint="give it a length")
    length, (shared, moving) = size_of(params["length"]), scanned(params)
    carried = shared + moving
    consts, state, rows = operands[:shared], operands[shared:carried], operands[carried:]
    if not is_symbol(length) and length == 0:
        fresh: list[Operand] = [walker.tensor(value_of(var.aval)) for var in eqn.outvars[len(state) :]]
        return [*state, *fresh]
    body, _ = open_jaxpr(params["jaxpr"])
    slices = [value_of(var.aval) for var in body.invars[carried:]]
    stacks = [walker.tensor(value_of(var.aval)) for var in eqn.outvars[len(state) :]]
    anew = any(t is not None and t.dims for t in consts) or _from_outside(walker, state)
    for name, times in _steps(length, anew):
        seen = [
            None if row is None else walker.part(row, name, (times, *value.shape), value.shape)
            for row, value in zip(rows, slices, strict=True)
        ]
        if name != "0" and (is_symbol(times) or times > 1):
            state = _loop_state(walker, state)
        found = walker.inline(
            params["jaxpr"], [*consts, *state, *seen], context._replace(repeat=context.repeat * times)
        )
        state = _carry(walker, state, found[: len(state)], name != "0")
        for stack, made in zip(stacks, found[len(state) :], strict=True):
            if made is not None and made.ident != stack.ident and made.role == "activation":
                walker.same.setdefault(made.ident, stack.ident)
    return [*state, *stacks]


def _steps(times: Size, apart: bool) -> list[tuple[str, Size]]:
    """All steps of a loop at once, or the first apart from the others."""
    return [("0", 1), ("1:", times - 1)] if apart and (is_symbol(times) or times > 1) else [("", times)]


def _from_outside(walker: JaxprWalker, state: Sequence[Operand]) -> bool:
    """Whether a loop starts from what the program was given."""
    return any(t is not None and t.dims and t.ident not in walker.written for t in state)


def _loop_state(walker: JaxprWalker, state: Sequence[Operand]) -> list[Operand]:
    """What a loop carries, under a name of its own: a step reads what the one before wrote."""
    found: list[Operand] = []
    for tensor in state:
        if tensor is None:
            found.append(None)
            continue
        carried = replace(walker.tensor(Value(tensor.dims, tensor.dtype)), role=tensor.role)
        if tensor.ident in walker.written:
            walker.same.setdefault(carried.ident, tensor.ident)
        walker.written.add(carried.ident)
        found.append(carried)
    return found


def _carry(walker: JaxprWalker, before: Sequence[Operand], after: Sequence[Operand], looped: bool) -> list[Operand]:
    results: list[Operand] = []
    for old, new in zip(before, after, strict=True):
        if looped and old is not None and new is not None and old.ident != new.ident and new.role == "activation":
            walker.same.setdefault(new.ident, old.ident)
        results.append(new)
    return results


@region("while")
def while_loop(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The body as often as ``trips`` says, the condition once more."""
    params = eqn.params
    trips = stated(walker.trips, context.source, "how often this while loop runs depends on its data")
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    consts, state = operands[first:second], operands[second:]
    for name, times in _steps(trips, _from_outside(walker, state)):
        if name != "0":
            state = _loop_state(walker, state)
        body = context._replace(repeat=context.repeat * times)
        after = walker.inline(params["body_jaxpr"], [*consts, *state], body)
        state = _carry(walker, state, after, name != "0")
    checked = context._replace(repeat=context.repeat * (trips + 1))
    walker.inline(params["cond_jaxpr"], [*operands[:first], *state], checked)
    walker.assume(f"{context.source}: a while loop runs {trips} times, as stated")
    return state


@region("cond")
def cond(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The largest of the branches."""
    tried = [walker.branch(branch, operands[1:], context) for branch in eqn.params["branches"]]
    ops, results = max(tried, key=lambda found: branch_cost(found[0]))
    walker.ops += ops
    if len({branch_cost(found[0]) for found in tried}) > 1:
        line = f"{context.source}: " if context.source else ""
        walker.assume(f"{line}of a cond's {len(tried)} branches the largest is counted")
    return results


@region("custom_linear_solve")
def linear_solve(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The solve that was given; its operands follow those of the other three programs."""
    lengths, programs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    start = lengths.matvec + lengths.vecmat
    held = operands[start : start + lengths.solve]
    right = operands[start + lengths.solve + lengths.transpose_solve :]
    return walker.inline(programs.solve, [*held, *right], context)


@region("custom_vjp_call", "custom_vjp_call_jaxpr")
def custom_vjp(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The function itself; its derivatives are traced where they are taken."""
    return walker.inline(eqn.params.get("call_jaxpr") or eqn.params["fun_jaxpr"], operands, context)


@region("custom_jvp_call", "custom_vmap_call")
def custom_jvp(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The function itself."""
    return walker.inline(eqn.params.get("call_jaxpr") or eqn.params["call"], operands, context)


@region("shard_map")
def shard_map(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The program of one device: inside, shapes are its share."""
    params = eqn.params
    body, _ = open_jaxpr(params["jaxpr"])
    local = [
        None if t is None else replace(t, dims=value_of(var.aval).shape, touched=None)
        for t, var in zip(operands, body.invars, strict=True)
    ]
    walker.assume("inside shard_map everything is what one device does; its inputs lie on the devices as it says")
    found = walker.inline(params["jaxpr"], local, context._replace(axes={**context.axes, **mesh_axes(params["mesh"])}))
    return [
        None if t is None else replace(t, dims=value_of(var.aval).shape, touched=None)
        for t, var in zip(found, eqn.outvars, strict=True)
    ]


@region("sharding_constraint")
def sharding_constraint(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The same tensor; what the compiler of an automatic mesh sends to get it there is not known, which is listed."""
    walker.left_to_compiler(automatic(eqn.params["sharding"]), operands, context)
    return operands


@region("jit", "pjit")
def jit(walker: JaxprWalker, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
    """The program inside; shardings of its inputs and results are the compiler's."""
    results = walker.inline(eqn.params["jaxpr"], operands, context)
    for name, tensors in (("in_shardings", operands), ("out_shardings", results)):
        for sharding, tensor in zip(eqn.params.get(name) or (), tensors, strict=False):
            walker.left_to_compiler(automatic(sharding), [tensor], context)
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
    return Op(
        name,
        "contraction",
        work,
        tuple(reads),
        tuple(writes),
        dims,
        note=note,
        options={"macs": flops // 2, "kernel": 1},
    )
