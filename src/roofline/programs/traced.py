"""Traced: a program as a list of operations, whichever front end it came from; frozen, and able to show itself.

>>> from roofline.ops.contraction import matmul
>>> from dataclasses import replace
>>> ops = [replace(matmul(8, 16, 32), where=f"layers.{i}.up") for i in range(2)]
>>> program = Traced("demo", tuple(ops), modules={"layers": "ModuleList", "layers.0.up": "Linear"})
>>> program.flops(), program.flops("macs"), program.totals()
(16384, 8192, {'contraction': 16384})
>>> program.check({"layers.0": 8192, "layers.1": 8000})[1]
Difference(what='layers.1', ours=8192, theirs=8000)

Its collectives are placed on the network of a target that has a shape. Which devices take part is a tuple of groups
``(name, size, stride)`` over the numbered devices of the program: a mesh of data=4, model=2 has the groups ("data", 4,
2) and ("model", 2, 1). A program's devices lie on the chips in order, so sizes and strides say which axes of the target
a collective goes over:

>>> from roofline.hardware import chip
>>> from roofline.ops import pricing
>>> from roofline.work import Tensor
>>> x = (Tensor("x", (1024, 1024), "bf16"),)
>>> op = pricing.least_collective("psum", x, x, does="AllReduce", nbytes=2**21, devices=4, groups=(("model", 4, 1),))
>>> op.work
Work(wire/link: 3145728)
>>> for target in ("v5p:4x4x4", "h100:64"):
...     placed = place([op], chip(target))
...     print(placed.machine.mesh, placed.ops[0].work)
Mesh(X=4 ici ring, Y=4 ici ring, Z=4 ici ring) Work(wire/Z: 1572864, hops/Z: 3)
Mesh(X=16 nvlink switch 2, nic switch 8, model=4 nvlink switch) Work(wire/model: 2097152, hops/model: 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from typing import Any

from roofline import dtypes
from roofline.answers import Answer, Part, attributes, estimable, measurable
from roofline.bounds.api import target
from roofline.bounds.bound import Bound
from roofline.bounds.case import Case
from roofline.bounds.conventions import taken_from
from roofline.bounds.memory import traffic
from roofline.errors import HardwareError, InputError, suggest
from roofline.frozen import NamedTuple, dataclass, field, replace
from roofline.hardware.machine import AXIS_NAMES, SLICE_AXIS, Machine, MeshAxis
from roofline.hardware.mesh import with_mesh
from roofline.ops.collectives.registry import KINDS
from roofline.ops.counting import CONVENTIONS, count_operation
from roofline.ops.pricing import LEAST_SENT_NOTE, UNKNOWN, DeviceGroup
from roofline.programs.precision import multiplied_on
from roofline.programs.tables import (
    GAP,
    added_by_phases,
    kernels_in_words,
    module_table,
    modules_above,
    operation_table,
    parameters_of,
    time_at_best,
    under_the_roof,
)
from roofline.quantity import format_amount
from roofline.sections import (
    BLANK,
    Amount,
    Column,
    Headline,
    Row,
    Section,
    Sentences,
    Table,
    assumes,
    figures,
    incomplete,
)
from roofline.sizes import Size, is_symbol, is_zero, product, sums_by_name
from roofline.statements import Gap, assume
from roofline.work import Op, Tensor

SCHEMA = "roofline/trace/1"

#: Byte policies of a program's totals: tiles are not asked for here, and `streamed` leaves out what a program moves.
SHOWN_POLICIES = ("each-op", "fused", "minimal")


@dataclass(frozen=True, slots=True)
class UncountedOperation:
    """An operation that has no rule: its name, how often it occurs, the bytes of its tensors, where it is first met."""

    name: str
    count: int
    bytes: Size
    where: str = ""
    reason: str = "no rule"

    @property
    def brief(self) -> str:
        """Its name, and how often it occurs."""
        return f"not counted: {self.name} x{self.count}"

    def __str__(self) -> str:
        place = f", first in {self.where}" if self.where else ""
        moved = format_amount(self.bytes, "B")
        return f"{self.brief} ({self.reason}): FLOPs unknown, {moved}{place}"


@dataclass(frozen=True, slots=True, eq=False)
class Traced(Answer):
    """Operations in the order they ran, the tree of modules they came from, and what could not be counted.

    Attributes
        ``ops``          every operation, those without a rule as kind ``unknown``; ``where`` is the module path,
                         ``phase`` forward, backward or optimizer, and ``options["source"]`` the line ("model.py:12")
        ``modules``      class by module path, for the tree
        ``gaps``         operations without a rule, worked out from ``ops`` unless the front end gives its own
        ``assumptions``  what had to be assumed, in words
        ``inputs``       the inputs as written in the notation
        ``sizes``        named sizes, where the front end has them
        ``weights``      elements of each parameter by the name of its memory, where an operation may read a part
    """

    name: str
    ops: tuple[Op, ...]
    modules: Mapping[str, str] = field(default_factory=dict)
    gaps: tuple[UncountedOperation, ...] = ()
    assumptions: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    sizes: Mapping[str, Size] = field(default_factory=dict)
    weights: Mapping[str, Size] = field(default_factory=dict)

    def flops(self, convention: str = "flops") -> Size:
        """Count the whole program under a convention of :data:`~roofline.ops.counting.CONVENTIONS`."""
        return sum(count_operation(op, convention) for op in self.ops)

    def macs(self) -> Size:
        """Multiply-adds of matmuls, convolutions and attention."""
        return self.flops("macs")

    def bytes(self, policy: str = "each-op") -> Size:
        """Bytes moved under a policy that needs no tile: ``each-op`` (unfused), ``fused``, ``minimal``."""
        loads = traffic(self.ops, policy)
        return sum(load.total("bytes") * op.repeat for op, load in zip(self.ops, loads, strict=True))

    @property
    def sent(self) -> Size:
        """Bytes that each device sends at least in its collectives: one way over one link, of no network."""
        return sum(op.work.total("wire") * op.repeat for op in self.ops)

    def intensity(self, policy: str = "each-op", convention: str = "flops") -> Size:
        """FLOPs a byte."""
        return self.flops(convention) / self.bytes(policy)

    def intensity_of_writes(self, *kinds: str, times: int = 1, convention: str = "flops") -> Size:
        """FLOPs a byte of all parameters and so many passes over what operations of these kinds give, as papers count.

        >>> from torch import nn
        >>> from roofline.programs import trace
        >>> found = trace(nn.Sequential(nn.Linear(64, 32, bias=False), nn.ReLU()), "fp32[16, 64]")
        >>> found.intensity_of_writes("contraction") == 2 * 16 * 64 * 32 / (4 * (64 * 32 + 16 * 32))
        True
        """
        amounts = [t.traffic_bytes * op.repeat * times for op in self.ops if op.kind in kinds for t in op.writes]
        weights: dict[str, Size] = {}
        for op in self.ops:
            stored = next((t.dtype for t in op.reads if t.role == "weight"), "fp32")
            found = parameters_of(op, self.weights)
            weights |= {name: dtypes.get(stored).nbytes(elements) for name, elements in found.items()}
        return self.flops(convention) / sum([*weights.values(), *amounts])

    def parameters(self) -> Size:
        """Elements of the parameters that are read, each once and whole, however many parts of it are; no buffers."""
        found: dict[str, Size] = {}
        for op in self.ops:
            found |= parameters_of(op, self.weights)
        return sum(found.values())

    def totals(self, convention: str = "flops") -> dict[str, Size]:
        """Counts by kind of operation, the kinds that count nothing left out."""
        found = _sums_by("kind", self.ops, convention)
        return {kind: amount for kind, amount in found.items() if is_symbol(amount) or amount}

    def collectives(self) -> tuple[Op, ...]:
        """The collective operations, in order."""
        return tuple(op for op in self.ops if op.kind == "collective")

    def under(self, path: str) -> Traced:
        """The part of the program that belongs to one module (``layers.0.attn``)."""
        ops = tuple(op for op in self.ops if op.where == path or op.where.startswith(f"{path}."))
        return replace(self, name=f"{self.name}.{path}", ops=ops, gaps=())

    def only(self, **wanted: str) -> Traced:
        """The operations whose kind, name, place, phase (``phase="backward"``) or option is the one wanted."""

        def has(op: Op, name: str, value: str) -> bool:
            own = name in ("kind", "name", "where", "phase")
            return bool((getattr(op, name) if own else op.options.get(name)) == value)

        ops = tuple(op for op in self.ops if all(has(op, name, value) for name, value in wanted.items()))
        return replace(self, ops=ops, gaps=())

    @measurable
    @estimable
    def bound(self, on: str | Machine | None = None, **choices: Any) -> Bound:
        """Place every operation under the roof of a machine; what has no rule is listed under ``incomplete``.

        Collectives go over the network of a target with a shape (:mod:`roofline.programs.traced`).

        ``choices`` are conventions of operations (``policy``, ``tile``, ``overlap``, ``overhead``) and those of a
        target (``set``, ``files``, ``unit``, ``over``, ``achievable``), as in :func:`roofline.bound`.
        """
        conventions = taken_from(choices)
        placed = place(self.ops, target(on, **choices))
        ops, rounded = multiplied_on(placed.ops, placed.machine)
        known = [line for line in self.assumptions if line != LEAST_SENT_NOTE or not placed.assumptions]
        missing = [gap for gap in self.listed_gaps() if is_symbol(gap.bytes) or gap.bytes]
        found = Case(
            ops,
            placed.machine,
            conventions,
            name=self.name,
            sizes=self.sizes,
            assumptions=(*assume("program", (*known, *rounded)), *assume("network", placed.assumptions)),
            gaps=[Gap("operation", str(gap), brief=gap.brief) for gap in missing],
        ).answer()
        return replace(found, program=self)

    def listed_gaps(self) -> tuple[UncountedOperation, ...]:
        """Operations without a rule, by name: given by the front end, or found among the operations."""
        return self.gaps or gaps_of(self.ops)

    @property
    def complete(self) -> bool:
        """Whether every operation has a rule."""
        return not self.listed_gaps()

    def diff(self, other: Traced, convention: str = "flops") -> Comparison:
        """Compare with another program, or the same at other shapes, module by module."""
        lines = [
            Difference("total", self.flops(convention), other.flops(convention)),
            Difference("bytes", self.bytes(), other.bytes()),
        ]
        for prefix, key in (("", "kind"), ("in ", "where")):
            ours, theirs = (_sums_by(key, program.ops, convention) for program in (self, other))
            lines += [Difference(prefix + name, ours.get(name, 0), theirs.get(name, 0)) for name in {**ours, **theirs}]
        return Comparison(self, other, convention, tuple(lines))

    def check(self, hand: Size | Mapping[str, Size], convention: str = "flops") -> tuple[Difference, ...]:
        """Compare with a count made by hand: one total, or one for each of total, bytes, module paths and kinds."""
        hand = hand if isinstance(hand, Mapping) else {"total": hand}
        return tuple(Difference(what, _part_of(self, what, convention), theirs) for what, theirs in hand.items())

    def to_dict(self) -> dict[str, Any]:
        """The program under documented, stable keys in SI units (schema ``roofline/trace/1``); formulas are text."""
        names = ("name", "count", "bytes", "where", "reason")
        gaps = [{name: _plain(getattr(gap, name)) for name in names} for gap in self.listed_gaps()]
        return {
            "schema": SCHEMA,
            **attributes(self, "name", "inputs"),
            "flops": {name: _plain(self.flops(name)) for name in CONVENTIONS},
            "bytes": {policy: _plain(self.bytes(policy)) for policy in SHOWN_POLICIES},
            "sent": _plain(self.sent),
            "parameters": _plain(self.parameters()),
            "kinds": {kind: _plain(amount) for kind, amount in self.totals("all").items()},
            "modules": dict(self.modules),
            "ops": [_operation_data(op) for op in self.ops],
            "gaps": gaps,
            "assumptions": list(self.assumptions),
        }

    def sections(self, depth: int | None = None, under: Mapping[str, Bound] | None = None) -> Iterator[Section]:
        """The modules as a tree, ``depth`` levels deep, with their times ``under`` roofs; then totals and gaps."""
        yield Headline(self.name, ", ".join(self.inputs))
        yield from _time_under(under or {})
        yield from (BLANK, module_table(self.name, self.ops, self.modules, self.weights, depth, under or {}), BLANK)
        yield from self._totals(under or {})

    def operation_sections(
        self, most: int | None = None, under: Mapping[str, Bound] | None = None
    ) -> Iterator[Section]:
        """The operations as a flat list, the first ``most``, with their times ``under`` roofs; totals and gaps."""
        yield from (Headline(self.name), *_time_under(under or {}))
        yield from (BLANK, *operation_table(self.ops, most, under or {}), BLANK)
        yield from self._totals(under or {})

    def modules_under(self, bound: Bound) -> Table:
        """Every module with all that is in it: FLOPs, bytes, and its time under the roof of one machine."""
        return module_table(self.name, self.ops, self.modules, self.weights, None, {"": bound}).in_full()

    def sections_under(
        self, bound: Bound, advice: Sequence[Section] = (), depth: int | None = None, flat: bool = False,
        most: int | None = 15,
    ) -> Iterator[Section]:  # fmt: skip
        """The modules, or a ``flat`` list, with their times on one machine; the resources, and what takes longest."""
        yield from self._listed({"": bound}, depth, flat)
        yield from (BLANK, *under_the_roof(bound, most, advice))

    def sections_beside(self, found: Any, depth: int | None = None, flat: bool = False) -> Iterator[Section]:
        """Of answers side by side who is fastest; the modules with their times on each; what else the answers say."""
        said = [*found.sections(operations=False)]
        before = [*takewhile(lambda part: not isinstance(part, Table), said)]
        head, *listed = self._listed(dict(zip(found.names, found.answers, strict=True)), depth, flat)
        verdict = [part for part in before if not isinstance(part, Headline)]
        yield from (head, *verdict[: -1 if verdict[-1] is BLANK else None])
        yield from (*listed, BLANK, *said[len(before) :])

    def _listed(self, under: Mapping[str, Bound], depth: int | None, flat: bool) -> Iterator[Section]:
        return self.operation_sections(under=under) if flat else self.sections(depth, under)

    def is_same(self, other: Traced | None) -> bool:
        """Whether another program has the same operations in the same places, at the same sizes."""
        if other is None or (self.name, self.inputs, dict(self.sizes)) != (other.name, other.inputs, dict(other.sizes)):
            return False
        ours, theirs = ([(op.name, op.where, op.phase) for op in each.ops] for each in (self, other))
        return ours == theirs and str(self.flops()) == str(other.flops())

    def _totals(self, under: Mapping[str, Bound]) -> Iterator[Section]:
        yield Sentences(list(added_by_phases(self.ops, under)))
        kinds = ", ".join(f"{kind} {format_amount(amount, 'FLOP')}" for kind, amount in self.totals("all").items())
        moved = ", ".join(f"{policy} {format_amount(self.bytes(policy), 'B')}" for policy in SHOWN_POLICIES)
        whole = f"{format_amount(self.flops(), 'FLOP')} in matmuls (2 per multiply-add); all work: {kinds or 'none'}"
        # of a network its bound says what is sent
        sent = "" if under or is_zero(self.sent) else f"; each device sends {format_amount(self.sent, 'B')} at least"
        yield Sentences([*kernels_in_words(under), whole, f"bytes: {moved}{sent}"])
        # where a network prices collectives, what is said of the least that they send does not hold
        priced = under and not any(LEAST_SENT_NOTE in bound.assumptions for bound in under.values())
        below = set.intersection(*(set(bound.assumptions) for bound in under.values())) if under else set[str]()
        below |= {LEAST_SENT_NOTE} if priced else set()
        yield assumes([line for line in self.assumptions if line not in below])
        # of a network and of a roof its bound says what is missing
        yield incomplete(
            gap for gap in map(str, self.listed_gaps()) if not any(gap in each.incomplete for each in under.values())
        )

    def tree(self, depth: int | None = None) -> Part:
        """Show it as a tree of modules, ``depth`` levels deep."""
        return Part(self.sections(depth))

    def table(self, most: int | None = None) -> Part:
        """Show it as a flat list of operations, the first ``most`` of them."""
        return Part(self.operation_sections(most))

    def __repr__(self) -> str:
        many = f"{len(self.ops)} operation{'s' if len(self.ops) != 1 else ''}"
        gaps = self.listed_gaps()
        missing = f", {len(gaps)} without a rule" if gaps else ""
        flops, moved = format_amount(self.flops(), "FLOP"), format_amount(self.bytes(), "B")
        return f"<Traced {self.name}: {many}, {flops}, {moved} unfused{missing}>"


class Difference(NamedTuple):
    """One line of a comparison: what was counted, our count, the other."""

    what: str
    ours: Size
    theirs: Size

    @property
    def ratio(self) -> float | None:
        """Ours over theirs, None where theirs is nothing."""
        return float(self.ours) / float(self.theirs) if self.theirs else None

    @property
    def equal(self) -> bool:
        """Whether both are the same."""
        return bool(self.ours == self.theirs)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(Answer):
    """Two programs under one convention: totals, then by kind, then by module; ``changed`` holds what differs."""

    ours: Traced
    theirs: Traced
    convention: str
    lines: tuple[Difference, ...]

    @property
    def changed(self) -> tuple[Difference, ...]:
        """Lines that differ."""
        return tuple(line for line in self.lines if not line.equal)

    def sections(self) -> Iterator[Section]:
        """What differs between the two."""
        ours, theirs = self.ours.name, self.theirs.name
        if ours == theirs:  # the same at other shapes
            ours, theirs = (f"{p.name} {', '.join(p.inputs)}" for p in (self.ours, self.theirs))
        rows = []
        for line in self.changed:
            unit = "B" if line.what == "bytes" else "FLOP"
            ratio = "" if line.ratio is None else Amount(line.ratio, "", format_amount(line.ratio))
            rows.append(Row((line.what, Amount(line.ours, unit), Amount(line.theirs, unit), ratio)))
        yield Headline(f"{ours} beside {theirs}, counted as {self.convention}")
        yield Table((Column(), *figures(ours, theirs, "ratio")), rows, "differences", gap=GAP)


def _time_under(roofs: Mapping[str, Bound]) -> Iterator[Section]:
    """The time at best under the roof of one machine; of several it stands beside their names."""
    return time_at_best(roofs[""]) if "" in roofs else iter(())


def _sums_by(key: str, ops: Iterable[Op], convention: str) -> dict[str, Size]:
    """Counts by kind or by module path."""
    return sums_by_name((name, count_operation(op, convention)) for op in ops if (name := getattr(op, key)))


def _part_of(program: Traced, what: str, convention: str) -> Size:
    """The count of a total, of a kind or of a module; an error that says which parts there are."""
    if what == "total":
        return program.flops(convention)
    if what == "bytes":
        return program.bytes()
    kinds = _sums_by("kind", program.ops, convention)
    if what in kinds:
        return kinds[what]
    part = program.under(what)
    if not part.ops and what not in program.modules:
        known = ["total", "bytes", *kinds, *filter(None, program.modules)]
        raise InputError(f"nothing in {program.name} is called {what!r}", hint=suggest(what, known, what="parts"))
    return part.flops(convention)


def enter(modules: dict[str, str], path: str) -> None:
    """List a module and those that it lies in, where they do not stand there already.

    >>> found = {"layers": "ModuleList"}
    >>> enter(found, "layers.0")
    >>> found
    {'layers': 'ModuleList', 'layers.0': ''}
    """
    for above in modules_above(path)[1:]:
        modules.setdefault(above, "")


def gaps_of(ops: Sequence[Op]) -> tuple[UncountedOperation, ...]:
    """Gather the operations without a rule by name."""
    found: dict[str, UncountedOperation] = {}
    for op in ops:
        if op.kind != UNKNOWN:
            continue
        moved = sum(tensor.traffic_bytes for tensor in (*op.reads, *op.writes)) * op.repeat
        old = found.get(op.name)
        reason = op.note or "no rule"
        place = op.where or op.options.get("source", "")
        if old is None:
            found[op.name] = UncountedOperation(op.name, op.repeat, moved, place, reason)
        else:
            found[op.name] = replace(old, count=old.count + op.repeat, bytes=old.bytes + moved)
    return tuple(found.values())


def _operation_data(op: Op) -> dict[str, Any]:
    return {
        "name": op.name,
        "kind": op.kind,
        "where": op.where or None,
        "source": op.options.get("source"),
        "phase": op.phase or None,
        "repeat": _plain(op.repeat),
        "dims": {name: _plain(size) for name, size in op.dims.items()},
        "flops": None if op.kind == UNKNOWN else _plain(count_operation(op)),
        "all_flops": None if op.kind == UNKNOWN else _plain(count_operation(op, "all")),
        "reads": [_tensor_data(tensor) for tensor in op.reads],
        "writes": [_tensor_data(tensor) for tensor in op.writes],
        "note": op.note or None,
    }


def _tensor_data(tensor: Tensor) -> dict[str, Any]:
    return {
        "tensor": tensor.ident,
        "dtype": tensor.dtype,
        "dims": [_plain(size) for size in tensor.dims],
        "role": tensor.role,
        "bytes": _plain(tensor.traffic_bytes),
    }


def _plain(value: Any) -> Any:
    return str(value) if is_symbol(value) else value


_ORDER_NOTE = "the program's devices lie on {} in order, those of the last axis of its mesh next to each other"


class Placed(NamedTuple):
    """Operations whose collectives go over the axes of ``machine``, and what was assumed of those that do."""

    ops: tuple[Op, ...]
    machine: Machine
    assumptions: tuple[str, ...]


def place(ops: Sequence[Op], machine: Machine) -> Placed:
    """Price the collectives on the target's network, each by the algorithm that is the fastest for its size.

    Without a shape of the target they stay as they are. So do those whose devices do not fit it, which is said.
    """
    sent = [op for op in ops if op.options.get("collective") in KINDS and op.work]
    if machine.mesh is None or not isinstance(machine.mesh.chips, int):
        return Placed(tuple(ops), machine, ())
    if not sent:
        many = machine.mesh.chips
        alone = (f"nothing is sent between chips: this is what one of the {many} chips of {machine.target} does",)
        return Placed(tuple(ops), machine, alone if many > 1 else ())
    chips = machine.mesh.chips
    cuts = {1, chips}
    for op in sent:
        wanted = cuts | {end for _, size, stride in _groups(op) for end in (stride, stride * size)}
        is_nested = all(outer % inner == 0 for inner, outer in pairwise(sorted(wanted)))
        cuts = wanted if is_nested and max(wanted) == chips else cuts
    axes = _in_order(machine)
    if not cuts <= {int(product(axis.size for axis in axes[start:])) for start in range(len(axes) + 1)}:
        with suppress(HardwareError):  # links that cannot be cut so: those groups do not fit
            machine = with_mesh(machine, _axes(sorted(cuts), sent))
    return _placed(ops, machine)


def _placed(ops: Sequence[Op], machine: Machine) -> Placed:
    from roofline.ops.collectives.choice import Chooser
    from roofline.ops.collectives.cost import cost

    axes, chooser = _in_order(machine), Chooser(machine=machine)
    where = machine.target
    notes: dict[str, None] = {}
    priced = []
    for op in ops:
        does = op.options.get("collective")
        if does not in KINDS or not op.work:
            priced.append(op)
            continue
        over = _over(op, axes)
        if not over:
            alone = "it sends the least that each has to, one way over one link"
            notes[f"{op.name} over {op.dims['devices']} devices does not fit {where}: {alone}"] = None
            priced.append(op)
            continue
        dtype = next((tensor.dtype for tensor in (*op.reads, *op.writes)), "")
        found = cost(does, over, op.dims["bytes"], algorithm=chooser, dtype=dtype)
        notes[_ORDER_NOTE.format(where)] = None
        notes[f"{op.name} is {found.note}"] = None
        if not op.options["groups"]:
            notes[f"which {op.dims['devices']} devices take part in {op.name} is not known: next to each other"] = None
        priced.append(replace(op, work=found.work, note=found.note))
    cut = () if machine.mesh is None else machine.mesh.notes
    return Placed(tuple(priced), machine, (*notes, *cut))


def _over(op: Op, axes: Sequence[MeshAxis]) -> tuple[MeshAxis, ...]:
    """Axes of the target that the groups of a collective are; none where they do not fit."""
    found: list[MeshAxis] = []
    for _, size, stride in _groups(op):
        inside, chosen = 1, {}
        for axis in reversed(axes):
            if stride <= inside < stride * size and axis.size != 1:
                chosen[inside] = axis
            inside *= int(axis.size)
        if product(axis.size for axis in chosen.values()) != size or min(chosen) != stride:
            return ()
        found += chosen.values()
    return tuple(axis for axis in axes if axis in found)


def _groups(op: Op) -> tuple[DeviceGroup, ...]:
    """Groups that take part; those whose members are not known are taken to lie next to each other."""
    given: tuple[DeviceGroup, ...] = op.options["groups"]
    return tuple(group for group in given if group[1] > 1) or (("", int(op.dims["devices"]), 1),)


def _in_order(machine: Machine) -> tuple[MeshAxis, ...]:
    """Axes of the target, the outermost first: slices are outside the axes of one."""
    axes = () if machine.mesh is None else machine.mesh.axes
    return tuple(sorted(axes, key=lambda axis: axis.name != SLICE_AXIS))


def _axes(cuts: Sequence[int], sent: Sequence[Op]) -> dict[str, Size]:
    """Axes between the cuts, by the names that the program gives them."""
    names = {(stride, stride * size): name for op in sent for name, size, stride in _groups(op)}
    spare = iter(AXIS_NAMES)
    found: dict[str, Size] = {}
    for inner, outer in reversed(list(pairwise(cuts))):
        name = names.get((inner, outer), "").replace("_", "")
        usable = name.isidentifier() and name not in found and name not in AXIS_NAMES
        found[name if usable else next(spare)] = outer // inner
    return found
