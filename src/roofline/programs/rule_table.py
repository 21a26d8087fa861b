"""The rules of a front end by name, and what the rules of several front ends share.

A table is filled the first time it is asked, by the files of one folder or by a single one. A rule of one's own stands
before these.

>>> table: RuleTable[str] = RuleTable("roofline.programs")
>>> table.rule("add", "sub")("elementwise")
'elementwise'
>>> table.find("sub"), table.find("sort")
('elementwise', None)

Loops and branches: how often a loop runs where the user states it, and which branch is the larger.

>>> stated(10, "step.py:12", "how often this loop runs depends on its data")
10
>>> stated({"step.py:3": 10}, "step.py:12", "how often this loop runs depends on its data")
Traceback (most recent call last):
roofline.errors.InputError: step.py:12: how often this loop runs depends on its data; ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from numbers import Integral
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from roofline.errors import InputError
from roofline.frozen import replace
from roofline.ops import pricing
from roofline.ops.counting import count
from roofline.signatures import either, spelled
from roofline.sizes import Size, at_typical_size, ceil_div, is_symbol, is_zero, log2, minimum
from roofline.work import Op, Tensor, Work

Rule = TypeVar("Rule")

#: What a rule gives: an operation, several, or None for what costs nothing (a view, an allocation).
Priced: TypeAlias = "Op | Sequence[Op] | None"


class _Called(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def reads(self) -> tuple[Tensor, ...]: ...
    @property
    def writes(self) -> tuple[Tensor, ...]: ...


class PricedCall:
    """The prices that a call of any front end takes under its own name, over all that it reads and writes."""

    __slots__ = ()

    def move(self: _Called, **facts: Any) -> Op:
        """Bytes that move, and no arithmetic; ``reads`` and ``writes`` where not all of them do."""
        return pricing.move(self.name, **{"reads": self.reads, "writes": self.writes, **facts})

    def elementwise(self: _Called, function: str) -> Op:
        """A function of :data:`~roofline.ops.elementwise.PER_ELEMENT`."""
        return pricing.elementwise(function, self.reads, self.writes, name=self.name)

    def vector(self: _Called, kind: str, flops: Size, elements: Size, **facts: Any) -> Op:
        """So many FLOPs on the vector unit; ``reads`` and ``writes`` where not all of them move."""
        moved = {"reads": self.reads, "writes": self.writes, **facts}
        return pricing.vector(self.name, kind, flops=flops, elements=elements, **moved)

    def for_each(self: _Called, kind: str, size: Size, flops: Size = 1, special: int = 0, **facts: Any) -> Op:
        """So many FLOPs, ``special`` of them transcendental, for each of ``size`` elements."""
        moved = {"reads": self.reads, "writes": self.writes, "transcendentals": special and special * size, **facts}
        return pricing.vector(self.name, kind, flops=flops * size, elements=size, one_each=size, **moved)

    def beside(self: _Called, op: Op, flops: Size, dtype: str = "fp32", **facts: Any) -> Op:
        """An operation over all that the call reads (or ``reads``), with so many FLOPs more on the vector unit."""
        work = op.work if is_zero(flops) else op.work + Work.flops("vector", dtype, flops)
        return replace(op, **{"reads": self.reads, "work": work, **facts})

    def unknown(self: _Called, reason: str) -> Op:
        """A gap: no rule can tell what it costs."""
        return pricing.unknown(self.name, self.reads, self.writes, reason)


def touching(amount: Size, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors of each of which so many elements move, or as many as it has."""
    return tuple(replace(t, touched=minimum(amount, t.elements)) for t in tensors)


class _WithOperands(Protocol):
    @property
    def operands(self) -> Sequence[Tensor | None]: ...
    def read(self, *places: int) -> tuple[Tensor, ...]: ...


class CallOfTensors(PricedCall):
    """A call whose ``operands`` are tensors in order, None where one is left out or a number that the program holds."""

    __slots__ = ()

    def read(self: _WithOperands, *places: int) -> tuple[Tensor, ...]:
        """The operands at these places that are there."""
        given = self.operands
        return tuple(t for place in places if place < len(given) and (t := given[place]) is not None)

    def touch(self: _WithOperands, place: int, amount: Size, part: str = "") -> tuple[Tensor, ...]:
        """An operand of which only so many elements are read: those of a part, where it has a name."""
        reads = self.read(place)
        if part:  # of what is repeated it says no places
            reads = tuple(replace(t, ident=f"{t.ident}[{part}]") if t.touched is None else t for t in reads)
        return tuple(replace(t, touched=minimum(amount, t.traffic_elements)) for t in reads)


#: Functions of :data:`~roofline.ops.elementwise.PER_ELEMENT` by the name that all front ends have for them.
NAMED_ALIKE = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "pow": "power", "tanh": "tanh", "exp": "exp",
    "log": "log", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "erf": "erf", "abs": "abs", "neg": "neg",
    "reciprocal": "reciprocal", "sign": "sign", "floor": "floor", "ceil": "floor", "round": "round", "sinh": "exp",
    "cosh": "exp", "tan": "sin", "asin": "sin", "acos": "cos", "atan": "sin", "acosh": "log", "asinh": "log",
    "atanh": "log",
}  # fmt: skip


class RuleTable(Generic[Rule]):
    """Rules by the name of what they price, or by the function itself; importing ``package`` and its files fills it.

    A name without a dot is of the namespace ``space``.
    """

    def __init__(self, package: str, space: str = "") -> None:
        self._package, self._space = package, space
        self._rules: dict[Any, Rule] = {}
        self._loaded = False

    def rule(self, *names: Any) -> Callable[[Rule], Rule]:
        """Register a rule under each of the names."""
        full = [f"{self._space}.{name}" if self._space and "." not in name else name for name in names]

        def keep(chosen: Rule) -> Rule:
            self._rules.update(dict.fromkeys(full, chosen))
            return chosen

        return keep

    def find(self, name: Any) -> Rule | None:
        """The rule of this name, None where there is none."""
        self._load()
        return self._rules.get(name)

    def names(self) -> list[str]:
        """What has a rule, in order."""
        self._load()
        return sorted(self._rules)

    def _load(self) -> None:
        """Import every file of rules once."""
        if self._loaded:
            return
        from pkgutil import iter_modules

        own = dict(self._rules)
        for found in iter_modules(getattr(import_module(self._package), "__path__", ())):
            import_module(f"{self._package}.{found.name}")
        self._rules.update(own)
        self._loaded = True


def levels_of(n: Size) -> Size:
    """⌈log₂ n⌉, the levels of a binary tree over n leaves, and at least 1: what sorting compares each element.

    >>> levels_of(8), levels_of(9), levels_of(1)
    (3, 4, 1)
    """
    return ceil_div(log2(n), 1) if is_symbol(n) else max(1, (int(n) - 1).bit_length())


def compared(row: Size, wanted: Size) -> Size:
    """How often each element of a row is compared, of which some are wanted in order: once, or as a sort compares all.

    >>> compared(1024, 8), compared(1024, 1024)
    (1, 10)
    """
    return levels_of(row) if wanted == row else 1


def stated(trips: Any, place: str, why: str) -> Size:
    """The stated number of trips of the loop at ``place``; an error that says ``why`` it is needed if there is none."""
    chosen = trips.get(place) if isinstance(trips, Mapping) else trips
    if chosen is None:
        each = either(f"--trips {place}=10", f'trips={{"{place}": 10}}')
        raise InputError(f"{place}: {why}", hint=f"say {spelled('trips', 10)}, or {each} where there are several")
    if not is_symbol(chosen) and (isinstance(chosen, bool) or not isinstance(chosen, Integral) or chosen < 0):
        raise InputError(f"{place}: a loop cannot run {chosen!r} times", hint="trips are a whole number from 0 on")
    return chosen


def branch_cost(ops: Sequence[Op]) -> float:
    """How long a branch takes, to compare it with others: its bytes, and FLOPs of which 100 take as long as one.

    Ridges of chips lie on both sides of it: some 20 FLOP/B of vector units, some 300 of matrix units.
    """
    moved = [tensor.traffic_bytes * op.repeat for op in ops for tensor in (*op.reads, *op.writes)]
    return at_typical_size(count(ops, "all") / 100 + sum(moved[1:], moved[0]) if moved else 0)
