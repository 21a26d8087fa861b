"""Walk a jaxpr: name its tensors, price its primitives by rule, follow what it calls.

What repeats, branches or calls (``scan``, ``cond``, ``while``, ``jit`` …) is a region of
:mod:`~roofline.programs.jax.trace`; every other primitive is a rule of ``jax/rules.py``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from roofline.frozen import NamedTuple, replace
from roofline.ops import pricing
from roofline.ops.counting import count
from roofline.programs.jax.indices import TAKEN_WHOLE, Numbers, held_numbers, number_of, of_positions, worked_out
from roofline.programs.jax.registry import Call, Value, find, mesh_axes, value_of
from roofline.programs.positions import Elements
from roofline.programs.precision import allowing, jax_products
from roofline.programs.tensor_parts import (
    LoopSteps,
    as_stored,
    named_apart,
    shares_of_steps,
    with_views,
    without_unused,
)
from roofline.programs.traced import UncountedOperation, enter, gaps_of
from roofline.progress import counted
from roofline.sizes import Size, is_symbol, product
from roofline.work import Op, Tensor

#: A tensor, or None for a constant that the program holds itself.
Operand = Tensor | None
Operands = Sequence[Operand]


class JaxprContext(NamedTuple):
    """Where the walk is: how often what it meets happens, under which scope, in which pass, over which mesh.

    ``steps`` are those of the innermost loop.
    """

    repeat: Size = 1
    scope: str = ""
    backward: bool = False
    source: str = ""
    axes: Mapping[str, int] = {}
    steps: LoopSteps | None = None

    @property
    def place(self) -> str:
        """The line of the program ahead of what is said of it, where it is known."""
        return f"{self.source}: " if self.source else ""


Region = Callable[["JaxprWalker", Any, list[Operand], JaxprContext], "list[Operand]"]


@dataclass
class JaxprWalker:
    """The state of one walk: operations so far, what was assumed, which tensors are one."""

    region_of: Callable[[str], Region | None]
    trips: Any = None
    ops: list[Op] = field(default_factory=list)
    assumptions: dict[str, None] = field(default_factory=dict)
    scopes: dict[str, str] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    held: dict[str, tuple[Size, ...]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    updated: set[str] = field(default_factory=set)
    carried: list[Tensor] = field(default_factory=list)
    used: set[Any] = field(default_factory=set)
    sharded: list[UncountedOperation] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)
    made: int = 0
    numbers: dict[Any, Numbers] = field(default_factory=dict)
    chose: bool = False
    of_einsums: dict[str, set[str]] = field(default_factory=dict)

    def tensor(self, value: Value, role: str = "activation", label: str = "") -> Tensor:
        """Name a new tensor."""
        self.made += 1
        self.held[f"t{self.made}"] = value.shape
        return Tensor(f"t{self.made}", value.shape, value.dtype, role, None, label)

    def part(self, tensor: Tensor, name: str, dims: tuple[Size, ...], seen: tuple[Size, ...]) -> Tensor:
        """Name a part of a tensor: the dimensions it holds, and those that are seen of it at a time.

        Of a row that an outer loop takes it holds as many as there are rows.
        """
        ident = f"{tensor.ident}[{name}]" if name else tensor.ident
        whole = self.held.get(tensor.ident, ())
        rows = whole[: max(0, len(whole) - len(tensor.dims))] if "[" in tensor.ident else ()
        self.held.setdefault(ident, (*rows, *dims))
        return replace(tensor, ident=ident, dims=seen, touched=None)

    def assume(self, text: str) -> None:
        """State an assumption once."""
        self.assumptions[text] = None

    def inline(
        self, program: Any, operands: Sequence[Operand], context: JaxprContext, numbers: Sequence[Numbers] = ()
    ) -> list[Operand]:
        """Walk a jaxpr, closed or open, with these operands, and their values where known; give its results."""
        jaxpr, held = open_jaxpr(program)
        known: dict[Any, Operand] = {}
        places = [*jaxpr.constvars, *jaxpr.invars]
        values = [*map(held_numbers, held or ()), *numbers]
        self.numbers |= dict.fromkeys(places) | dict(zip(places[len(places) - len(values) :], values, strict=True))
        for var in jaxpr.constvars:
            known[var] = self.tensor(value_of(var.aval), "weight", "constant")
        if held is None:
            known |= dict(zip(places[len(places) - len(operands) :], operands, strict=True))
        else:
            known |= dict(zip(jaxpr.invars, operands, strict=True))

        def look(atom: Any) -> Operand:
            if not hasattr(atom, "val"):
                return known[atom]
            is_array = bool(getattr(atom.aval, "shape", ()))
            return self.tensor(value_of(atom.aval), "weight", "constant") if is_array else None

        self.used.update(atom for eqn in jaxpr.eqns for atom in eqn.invars if not hasattr(atom, "val"))
        self.used.update(atom for atom in jaxpr.outvars if not hasattr(atom, "val"))
        for eqn in counted(jaxpr.eqns):
            given = [look(atom) for atom in eqn.invars]
            for var, out in zip(eqn.outvars, self.step(eqn, given, context), strict=True):
                known[var] = out
        return [look(atom) for atom in jaxpr.outvars]

    def step(self, eqn: Any, operands: list[Operand], context: JaxprContext) -> list[Operand]:
        """Walk one equation; give its results."""
        stack = str(eqn.source_info.name_stack)
        scope = ".".join(part for part in (context.scope, _scope(stack)) if part)
        enter(self.scopes, scope)
        inner = context._replace(
            scope=scope, backward=context.backward or "transpose(" in stack, source=source_line(eqn) or context.source
        )
        name = eqn.primitive.name
        numbers = [number_of(atom, self.numbers) for atom in eqn.invars]
        self.numbers |= dict.fromkeys(eqn.outvars)
        region = self.region_of(name)
        if region is not None:
            return region(self, eqn, operands, inner)
        inside = called_program(eqn) if find(name) is None else None
        if inside is not None:
            return self.call(inside, eqn, operands, inner)
        if eqn.outvars:
            is_open = any(map(is_symbol, value_of(eqn.outvars[0].aval).shape)) or name == "dim_as_value"
            is_open = is_open or any(isinstance(each, Elements) for each in numbers)
            self.numbers[eqn.outvars[0]] = (of_positions if is_open else worked_out)(eqn, numbers)
        results = self.price(eqn, operands, inner, numbers)
        if name == "dot_general" and is_open and _is_of_einsum(eqn):
            made = self.of_einsums.setdefault(inner.source, set())
            if any(tensor is not None and tensor.ident in made for tensor in operands):
                order = "JAX multiplies the operands of an einsum in one order at all sizes"
                self.assume(f"{inner.place}{order}: at some another may take fewer FLOPs")
            made |= {tensor.ident for tensor in results if tensor is not None}
        return results

    def call(self, program: Any, eqn: Any, operands: Sequence[Operand], context: JaxprContext) -> list[Operand]:
        """Walk a program that an equation calls with its own operands."""
        numbers = [number_of(atom, self.numbers) for atom in eqn.invars]
        results = self.inline(program, operands, context, numbers)
        found = [number_of(atom, self.numbers) for atom in open_jaxpr(program)[0].outvars]
        if eqn.params.get("name") in TAKEN_WHOLE and any(isinstance(each, Elements) for each in numbers):
            found = [of_positions(eqn, numbers)]
        self.numbers |= dict(zip(eqn.outvars, found, strict=True))
        return results

    def price(self, eqn: Any, operands: Operands, context: JaxprContext, numbers: Sequence[Numbers]) -> list[Operand]:
        """Price one primitive by its rule; without one it is listed as a gap."""
        outs = [value_of(var.aval) for var in eqn.outvars]
        axes = dict(context.axes)
        for var in (*eqn.invars, *eqn.outvars):
            mesh = getattr(getattr(var.aval, "sharding", None), "mesh", None)
            axes |= mesh_axes(mesh) if getattr(mesh, "shape", None) else {}
        ins, writes = [value_of(atom.aval) for atom in eqn.invars], tuple(map(self.tensor, outs))
        used = tuple(var in self.used for var in eqn.outvars)
        call = Call(eqn.primitive.name, eqn.params, ins, outs, operands, writes, axes, self._inner, used, numbers)
        given = [tensor for tensor in operands if tensor is not None]
        of_sizes = bool(given) and all(not t.dims and t.touched == 0 for t in given)
        if call.name == "dim_as_value" or (of_sizes and not any(value.shape for value in outs)):
            return [replace(tensor, touched=0) for tensor in writes]  # a number that whoever starts the program knows
        chosen = find(call.name)
        empty = any(value.size == 0 for value in (*call.ins[:1], *outs[:1]))
        if chosen is None:
            self.emit(pricing.unknown(call.name, call.reads, call.writes), context)
        elif not empty:
            priced, products = chosen(call), jax_products(eqn.params.get("precision", "HIGHEST"))
            for op in () if priced is None else (priced,) if isinstance(priced, Op) else priced:
                op = with_views(op, zip(operands, map(id, eqn.invars), strict=True))
                picked = operands if call.name in PICKING else ()
                shares = shares_of_steps(allowing(op, products), picked, context.steps, context.repeat, self.parts)
                for each, times in shares:
                    self.emit(each, context._replace(repeat=times))
        if context.steps is not None:
            context.steps.follow(call.name, operands, writes)
        results: list[Operand] = list(call.writes)
        for result, operand in call.aliases.items():
            source = operands[operand]
            results[result] = None if source is None else seen_as(source, outs[result])
        return results

    def emit(self, op: Op, context: JaxprContext) -> None:
        """Write an operation down with its place."""
        phase = "backward" if context.backward else "forward"
        options = {**op.options, "source": context.source} if context.source else op.options
        repeat = op.repeat * context.repeat
        self.ops.append(replace(op, where=context.scope, repeat=repeat, phase=phase, options=options))
        self.written |= {tensor.ident for tensor in op.writes}
        self.updated |= {tensor.updates for tensor in op.writes}
        if op.note and op.kind != "unknown":
            self.assume(op.note)

    def written_out(self, results: Sequence[Operand], values: Sequence[Value]) -> list[Operand]:
        """Write down results that no operation writes: constants, and inputs in another form."""
        found: list[Operand] = []
        for tensor, value in zip(results, values, strict=True):
            forwarded = tensor is not None and tensor.label != "constant" and self.held.get(tensor.ident) == value.shape
            is_whole = tensor is not None and tensor.touched is None and not self._is_row(tensor)
            if tensor is not None and is_whole and (tensor.ident in self.written or forwarded):
                found.append(tensor)
                continue
            found.append(made := self.tensor(value))
            self._copy(tensor, made, JaxprContext())
        return found

    def stack(self, made: Operand, stack: Tensor, fresh: dict[str, str], context: JaxprContext) -> None:
        """Stack what each step of a loop gives: the body writes it there, or it is copied, as of what goes in.

        ``fresh`` are the tensors that the body makes, each with the one that it updates a part of. One that a loop both
        carries and stacks is a row of the stack.
        """
        name = None if made is None else self.settle(made).ident
        if name in fresh and made is not None and made.role == "activation":
            fresh.pop(name)
            self.same.setdefault(made.ident, stack.ident)
            return
        if name in fresh.values():  # a row of what goes in, updated where it lies
            return
        self._copy(made, replace(stack, dims=stack.dims[1:]), context)

    def _copy(self, source: Operand, made: Tensor, context: JaxprContext) -> None:
        """Write down that a tensor is copied, or that a constant is written."""
        reads = () if source is None else (source,)
        self.emit(pricing.move("constant" if source is None else "copy", reads, (made,)), context)

    def left_to_compiler(self, devices: int, tensors: Operands, context: JaxprContext, by: str = "automatic") -> None:
        """List tensors whose sharding is automatic, since what is sent between the devices cannot be known."""
        if devices == 1:
            return
        moved = [tensor.traffic_bytes * context.repeat for tensor in tensors if tensor is not None]
        reason = f"{by} over {devices} devices: the compiler chooses what is sent between them"
        if moved:
            place = context.scope or context.source
            self.sharded.append(UncountedOperation("sharding", context.repeat, sum(moved[1:], moved[0]), place, reason))
        self.assume(
            f"{by}{' sharding' * (by == 'automatic')} over {devices} devices: "
            + ("everything" if by == "automatic" else "what has no such sharding by its type")
            + " is counted whole, as one device would do it; explicit shardings and shard_map count what each device "
            "does and sends"
        )

    def gaps(self, ops: Sequence[Op]) -> tuple[UncountedOperation, ...]:
        """Operations without a rule, and shardings left to the compiler, those of one reason together."""
        joined: dict[str, UncountedOperation] = {}
        for gap in self.sharded:
            old = joined.get(gap.reason)
            more = gap if old is None else replace(old, count=old.count + gap.count, bytes=old.bytes + gap.bytes)
            joined[gap.reason] = more
        return (*gaps_of(ops), *joined.values()) if joined else ()

    def branch(self, program: Any, operands: Operands, context: JaxprContext) -> tuple[list[Op], list[Operand]]:
        """Walk a jaxpr apart; give its operations and results."""
        kept, self.ops = self.ops, []
        try:
            results = self.inline(program, operands, context)
            return self.ops, results
        finally:
            self.ops = kept

    def settled(self, results: Sequence[Operand] = ()) -> tuple[Op, ...]:
        """The operations, tensors that turned out to be one under one name; ``results`` are written for good."""
        ops: Sequence[Op] = [
            replace(op, reads=tuple(map(self.settle, op.reads)), writes=tuple(map(self.settle, op.writes)))
            for op in self.ops
        ]
        given = {self.settle(result).ident for result in results if result is not None}
        ops = _leading_to(ops, given) if self.chose else ops
        ops = without_unused(named_apart(ops), given)
        rows = {t.ident for op in ops for t in op.writes if self._stored(t).touched is not None} & given
        from_outside = {t.ident for op in ops for t in op.reads if self._stored(t).touched is not None}
        whole_reads = {t.ident for op in ops for t in op.reads if self._stored(t).touched is None}
        from_outside -= whole_reads | {t.ident for op in ops for t in op.writes}
        ops = _given_back(ops, given - rows, from_outside, {self.settle(tensor).ident for tensor in self.carried})
        for_good = rows & {t.ident for op in ops for t in op.reads}

        made = {t.ident for op in ops for t in op.writes}
        buffers = {ident.partition("[")[0] for ident in given} - made

        def written(tensor: Tensor) -> Tensor:
            if tensor.updates == tensor.base and tensor.base not in buffers:  # a part of what is not given back
                return self._stored(replace(tensor, given=0))
            return self._stored(replace(tensor, role="state") if tensor.ident in for_good else tensor)

        return tuple(
            replace(op, reads=tuple(map(self._stored, op.reads)), writes=tuple(map(written, op.writes))) for op in ops
        )

    def _stored(self, tensor: Tensor) -> Tensor:
        return as_stored(tensor, self.held.get(tensor.ident))

    def _is_row(self, tensor: Tensor) -> bool:
        """Whether a tensor is one step's row of what a loop stacks."""
        dims = self.held.get(self.settle(tensor).ident, ())
        return dims[1:] == tensor.dims and product(dims) != tensor.elements

    def settle(self, tensor: Tensor) -> Tensor:
        """A tensor under the name that it has in the end."""
        base, bracket, part = tensor.ident.partition("[")
        seen: set[str] = set()
        while base in self.same and base not in seen:
            seen.add(base)
            base = self.same[base]
        return replace(tensor, ident=f"{base}{bracket}{part}")

    def _inner(self, program: Any) -> Size:
        """FLOPs of a program that a parameter holds."""
        jaxpr, _ = open_jaxpr(program)
        ops, _ = self.branch(program, [None] * len(jaxpr.invars), JaxprContext())
        return count(ops, "all")


#: Primitives that read a part of an array where indices say.
PICKING = ("dynamic_slice", "gather")


def seen_as(tensor: Tensor, value: Value) -> Tensor:
    """A tensor in another form: what moves is what it holds, however often it is repeated in the new one."""
    held = tensor.traffic_elements
    return replace(tensor, dims=value.shape, touched=None if held == value.size else held)


def _leading_to(ops: Sequence[Op], results: set[str]) -> list[Op]:
    """The operations without those that a branch left out alone would have read: JAX leaves out what nothing reads."""
    used, found = set(results), list[Op]()
    for op in reversed(ops):
        pure = op.kind in ("copy", "gather", "elementwise") and op.writes
        if not pure or any(t.role != "activation" or t.base in used for t in op.writes):
            used |= {t.base for t in op.reads}
            found.append(op)
    return found[::-1]


def _given_back(ops: Sequence[Op], results: set[str], rows: set[str], carried: set[str]) -> list[Op]:
    """Results that the program reads too, or a loop carries, are written for good: as state, or by a loop's last step.

    Of tensors that a loop reads row by row, ``rows``, the last step reads one of its own.
    """
    inside = results & ({t.ident for op in ops for t in op.reads} | carried)
    last = {t.ident: place for place, op in enumerate(ops) for t in op.writes if t.ident in inside}
    places = set(last.values())
    found: list[Op] = []
    for place, op in enumerate(ops):
        if place not in places:
            found.append(op)
            continue
        chosen = [last.get(t.ident) == place for t in op.writes]
        if not is_symbol(op.repeat) and op.repeat == 1:
            writes = [replace(t, role="state") if kept else t for t, kept in zip(op.writes, chosen, strict=True)]
            found.append(replace(op, writes=tuple(writes)))
            continue
        names = [f"{t.ident}[result]" if kept else t.ident for t, kept in zip(op.writes, chosen, strict=True)]
        writes = [replace(t, ident=name) for t, name in zip(op.writes, names, strict=True)]
        reads = [
            replace(t, ident=f"{t.ident}.last", storage=t.storage or t.ident) if t.ident in rows else t
            for t in op.reads
        ]
        last_step = replace(op, repeat=1, reads=tuple(reads), writes=tuple(writes))
        before = [replace(t, given=0) if kept else t for t, kept in zip(op.writes, chosen, strict=True)]
        found += [replace(op, repeat=op.repeat - 1, writes=tuple(before)), last_step]
    return found


def open_jaxpr(program: Any) -> tuple[Any, Any]:
    """A jaxpr and the constants it holds; None for an open one, whose constants are operands."""
    return (program.jaxpr, program.consts) if hasattr(program, "jaxpr") else (program, None)


def called_program(eqn: Any) -> Any:
    """The one program that a primitive without a rule calls, where its operands are the primitive's."""
    found = [value for value in eqn.params.values() if hasattr(value, "eqns") or hasattr(value, "jaxpr")]
    if len(found) != 1:
        return None
    jaxpr, held = open_jaxpr(found[0])
    wanted = len(jaxpr.invars) + (len(jaxpr.constvars) if held is None else 0)
    same = len(jaxpr.outvars) == len(eqn.outvars) and len(eqn.invars) in (wanted, len(jaxpr.invars))
    return found[0] if same else None


#: Names that recomputing puts on what it works out again: like a transformation, it is no place.
_NO_PLACE = ("", "checkpoint", "rematted_computation")


@cache
def _scope(stack: str) -> str:
    """``transpose(jvp(layer))/attention`` is layer.attention: the transformations are the phase, not the place."""
    names = re.sub(r"\b[\w-]+\(|\)", "", stack).replace("...", "…")
    return ".".join(part for part in names.split("/") if part not in _NO_PLACE)


def source_line(eqn: Any) -> str:
    """The user's line of an equation, as ``file.py:12``."""
    traceback = eqn.source_info.traceback
    if traceback is None:
        return ""
    for frame in traceback.frames:
        if is_user(frame.file_name):
            return f"{os.path.basename(frame.file_name)}:{frame.line_num}"
    return ""


def _is_of_einsum(eqn: Any) -> bool:
    """Whether JAX wrote an equation down for an einsum."""
    frames = getattr(eqn.source_info.traceback, "frames", ())
    return any(frame.function_name == "einsum" and not is_user(frame.file_name) for frame in frames)


@cache
def is_user(name: str) -> bool:
    """Whether a file is the user's: neither JAX's nor ours."""
    import jax

    library, ours = os.path.dirname(os.path.abspath(jax.__file__)), os.path.dirname(os.path.dirname(__file__))
    skipped = (library, os.path.join(os.path.dirname(library), "jaxlib"), ours, "<frozen")
    return not name.startswith(skipped) and f"{os.sep}flax{os.sep}" not in name
