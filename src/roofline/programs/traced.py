"""Traced: a program as a list of operations, whichever front end it came from; frozen, and able to show itself.

>>> from roofline.ops.contraction import matmul
>>> from dataclasses import replace
>>> ops = [replace(matmul(8, 16, 32), where=f"layers.{i}.up") for i in range(2)]
>>> program = Traced("demo", tuple(ops), modules={"layers": "ModuleList", "layers.0.up": "Linear"})
>>> program.flops(), program.flops("macs"), program.totals()
(16384, 8192, {'contraction': 16384})
>>> program.check({"layers.0": 8192, "layers.1": 8000})[1]
Difference(what='layers.1', ours=8192, theirs=8000)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from roofline.bounds.shown import Shown
from roofline.ops.counting import each
from roofline.ops.pricing import LEAST_SENT_NOTE, UNKNOWN
from roofline.sizes import Size, is_symbol
from roofline.statements import Gap, assume
from roofline.work import Op

if TYPE_CHECKING:
    from roofline.bounds.bound import Bound
    from roofline.hardware.machine import Machine
    from roofline.programs.compare import Comparison, Difference


@dataclass(frozen=True, slots=True)
class UncountedOperation:
    """An operation that has no rule: its name, how often it occurs, the bytes of its tensors, where it is first met."""

    name: str
    count: int
    bytes: Size
    where: str = ""
    reason: str = "no rule"

    def __str__(self) -> str:
        from roofline.quantity import format_amount as show

        place = f", first in {self.where}" if self.where else ""
        return f"not counted: {self.name} x{self.count} ({self.reason}): FLOPs unknown, {show(self.bytes, 'B')}{place}"


@dataclass(frozen=True, slots=True, eq=False)
class Traced(Shown):
    """Operations in the order they ran, the tree of modules they came from, and what could not be counted.

    Attributes
        ``ops``          every operation, those without a rule as kind ``unknown``; ``where`` is the module path, and
                         ``options`` holds ``source`` ("model.py:12") and ``phase`` (forward, backward, optimizer)
        ``modules``      class by module path, for the tree
        ``gaps``         operations without a rule, worked out from ``ops`` unless the front end gives its own
        ``assumptions``  what had to be assumed, in words
        ``inputs``       the inputs as written in the notation
        ``sizes``        named sizes, where the front end has them
    """

    name: str
    ops: tuple[Op, ...]
    modules: Mapping[str, str] = field(default_factory=dict)
    gaps: tuple[UncountedOperation, ...] = ()
    assumptions: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    sizes: Mapping[str, Size] = field(default_factory=dict)

    def flops(self, convention: str = "flops") -> Size:
        """Count the whole program under a convention of :data:`~roofline.ops.counting.CONVENTIONS`."""
        return _sum([each(op, convention) for op in self.ops])

    def macs(self) -> Size:
        """Multiply-adds of matmuls, convolutions and attention."""
        return self.flops("macs")

    def bytes(self, policy: str = "each-op") -> Size:
        """Bytes moved under a policy that needs no tile: ``each-op`` (unfused), ``fused``, ``minimal``."""
        from roofline.bounds.traffic import traffic

        loads = traffic(self.ops, policy)
        return _sum([load.total("bytes") * op.repeat for op, load in zip(self.ops, loads, strict=True)])

    def intensity(self, policy: str = "each-op", convention: str = "flops") -> Size:
        """FLOPs a byte."""
        return self.flops(convention) / self.bytes(policy)

    def parameters(self) -> Size:
        """Elements of all weights that were read, each once; buffers (running statistics) are among them."""
        found = {t.storage or t.ident: t for op in self.ops for t in op.reads if t.role == "weight"}
        return _sum([tensor.elements for tensor in found.values()])

    def totals(self, convention: str = "flops") -> dict[str, Size]:
        """Counts by kind of operation, the kinds that count nothing left out."""
        found: dict[str, Size] = {}
        for op in self.ops:
            amount = each(op, convention)
            if is_symbol(amount) or amount:
                found[op.kind] = found.get(op.kind, 0) + amount
        return found

    def collectives(self) -> tuple[Op, ...]:
        """The collective operations, in order."""
        return tuple(op for op in self.ops if op.kind == "collective")

    def under(self, path: str) -> Traced:
        """The part of the program that belongs to one module (``layers.0.attn``)."""
        ops = tuple(op for op in self.ops if op.where == path or op.where.startswith(f"{path}."))
        return replace(self, name=f"{self.name}.{path}", ops=ops, gaps=())

    def only(self, **wanted: str) -> Traced:
        """The operations whose kind, name or option (``phase="backward"``) is the one wanted."""
        ops = tuple(op for op in self.ops if all(_fact(op, name) == value for name, value in wanted.items()))
        return replace(self, ops=ops, gaps=())

    def bound(
        self,
        on: str | Machine | None = None,
        **choices: Any,
    ) -> Bound:
        """Place every operation under the roof of a machine; what has no rule is listed under ``incomplete``.

        Collectives go over the network of a target with a shape (:mod:`roofline.programs.network`).

        ``choices`` are conventions of operations (``policy``, ``tile``, ``overlap``, ``overhead``) and those of a
        target (``set``, ``files``, ``unit``, ``over``, ``achievable``), as in :func:`roofline.bound`.
        """
        from roofline.bounds.api import target
        from roofline.bounds.case import Case
        from roofline.bounds.conventions import taken_from
        from roofline.programs.network import place

        conventions = taken_from(choices)
        placed = place(self.ops, target(on, **choices))
        known = [line for line in self.assumptions if line != LEAST_SENT_NOTE or not placed.assumptions]
        missing = [gap for gap in self.listed_gaps() if is_symbol(gap.bytes) or gap.bytes]
        return Case(
            placed.ops,
            placed.machine,
            conventions,
            name=self.name,
            sizes=self.sizes,
            assumptions=(*assume("program", known), *assume("network", placed.assumptions)),
            gaps=[Gap("operation", str(gap)) for gap in missing],
        ).answer()

    def listed_gaps(self) -> tuple[UncountedOperation, ...]:
        """Operations without a rule, by name: given by the front end, or found among the operations."""
        return self.gaps or gaps_of(self.ops)

    @property
    def complete(self) -> bool:
        """Whether every operation has a rule."""
        return not self.listed_gaps()

    def diff(self, other: Traced, convention: str = "flops") -> Comparison:
        """Compare with another program, or the same at other shapes, module by module."""
        from roofline.programs.compare import compare

        return compare(self, other, convention)

    def check(self, hand: Size | Mapping[str, Size], convention: str = "flops") -> tuple[Difference, ...]:
        """Compare with a count made by hand: one total, or one for each module path or kind."""
        from roofline.programs.compare import against

        return against(self, hand, convention)

    def to_dict(self) -> dict[str, Any]:
        """The program under documented, stable keys in SI units (schema ``roofline/trace/1``)."""
        from roofline.programs.record import record

        return record(self)

    def tree(self, depth: int | None = None) -> Any:
        """Render as a tree of modules, ``depth`` levels deep."""
        from roofline.programs.show import tree

        return tree(self, depth)

    def table(self, most: int | None = None) -> Any:
        """Render as a flat list of operations, the first ``most`` of them."""
        from roofline.programs.show import flat

        return flat(self, most)

    def __rich__(self) -> Any:
        return self.tree()

    def __repr__(self) -> str:
        from roofline.programs.show import one_line

        return one_line(self)


def gaps_of(ops: Sequence[Op]) -> tuple[UncountedOperation, ...]:
    """Gather the operations without a rule by name."""
    found: dict[str, UncountedOperation] = {}
    for op in ops:
        if op.kind != UNKNOWN:
            continue
        moved = _sum([tensor.traffic_bytes for tensor in (*op.reads, *op.writes)]) * op.repeat
        old = found.get(op.name)
        reason = op.note or "no rule"
        place = op.where or op.options.get("source", "")
        if old is None:
            found[op.name] = UncountedOperation(op.name, op.repeat, moved, place, reason)
        else:
            found[op.name] = replace(old, count=old.count + op.repeat, bytes=old.bytes + moved)
    return tuple(found.values())


def _fact(op: Op, name: str) -> Any:
    return getattr(op, name) if name in ("kind", "name", "where") else op.options.get(name)


def _sum(amounts: list[Any]) -> Any:
    return sum(amounts[1:], amounts[0]) if amounts else 0
