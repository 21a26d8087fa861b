"""Question: everything an answer depends on, as one frozen value; ``replace`` it and ask again.

Advice, sweeps, solutions and charts all vary a question and answer it afresh, so that each of their numbers is what
a plain :func:`roofline.bound` of the same question gives.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from roofline import dtypes
from roofline.bounds.amounts import AMOUNT_UNITS, amount, written
from roofline.bounds.bound import Bound
from roofline.bounds.evaluate import evaluate
from roofline.bounds.footprint import Footprint, footprint
from roofline.bounds.question_mesh import is_sharded, size_names
from roofline.bounds.traffic import traffic
from roofline.errors import InputError, SizeError, suggest
from roofline.hardware.machine import Machine
from roofline.hardware.overrides import describe_given
from roofline.hardware.rate import WARM, data_level, rate, unit_for
from roofline.notation import canonical, program
from roofline.ops import build, formula, formula_names, padded, raw, tile_bytes
from roofline.quantity import format_quantity
from roofline.sizes import check, is_array, is_symbol, product, symbol
from roofline.work import Op

if TYPE_CHECKING:
    from roofline.bounds.plans import LaidOut
    from roofline.notation.structure import Program

Tile = tuple[int, int, int]

#: What rates are taken, by whether they were measured.
_RATES_TEXT = {
    False: "dense data-sheet peaks and one-way bandwidths",
    True: "the highest rates measured on this machine, in registers and from each memory level",
}

#: What an answer says about its plan: chips, collectives.
_OF_A_PLAN = re.compile(r"every figure is|plan:|(?:All|ReduceScatter|Permute|Broadcast|Send)\w* over ")

#: Parts of a question that are no choices of conventions.
_NOT_CHANGES = frozenset(("machine", "text", "sizes", "formulas"))

_POLICY_TEXT = {
    "each-op": "each operand read once and each result written once",
    "fused": "elementwise operations run inside the kernel that made their operand; the rest read and write",
    "tiled": "contractions load their operands again for every output tile",
    "minimal": "inputs, weights and final outputs move once, intermediates nothing: the physical floor",
}


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is asked: a line of notation or raw work, on a machine, at given sizes, under stated conventions.

    ``raw`` holds FLOPs, bytes or an intensity instead of an expression. ``sizes`` may hold numbers, arrays or
    nothing for a name; ``formulas`` are those that were given as text (``F="4*D"``), which follow the others.
    ``mesh`` gives mesh axes a number or a formula of sizes, ``use`` names axes that plans may use though no tensor is
    sharded over them.
    """

    machine: Machine
    text: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    policy: str = "each-op"
    tile: Tile | None = None
    exact: bool = False
    count_padding: bool = True
    pad: bool = False
    compute: str | None = None
    overlap: float | None = None
    overhead: float | None = None
    mesh: Mapping[str, Any] = field(default_factory=dict)
    plan: str | int | None = None
    algorithm: str | Mapping[str, str] | None = None
    uneven: str = "error"
    use: tuple[str, ...] = ()
    wrap: bool | None = None
    density: Any = 1
    formulas: Mapping[str, Any] = field(default_factory=dict)

    def ops(self) -> tuple[Op, ...]:
        """Build the operations at these sizes; sizes that are not given become symbols."""
        laid = self.laid_out()
        return self.finished(self._ops() if laid is None else laid.ops)

    def laid_out(self) -> LaidOut | None:
        """The plan of a sharded program on its mesh, None where there is one chip."""
        if self.raw or not (self.use or program(self.text, self.compute).axes):
            return None
        from roofline.bounds.plans import lay_out

        return lay_out(self)

    def _ops(self) -> tuple[Op, ...]:
        """Build the operations on one chip."""
        if self.raw:
            return (self._raw_op(),)
        return build(
            program(self.text, self.compute),
            self.sizes,
            exact=self.exact,
            count_padding=self.count_padding,
            compute=self.compute,
        )

    def finished(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        """Pad operations to the matrix unit's tile where that was asked for."""
        return tuple(self._padded(op) for op in ops) if self.pad and not self.raw else ops

    def answer(self, *, symbolic: bool = False) -> Bound:
        """Price the operations; ``symbolic`` keeps the rates as symbols (``P_bf16``, ``W_hbm``)."""
        laid = self.laid_out()
        if laid is None:
            return self.price(self.finished(self._ops()), self.machine, symbolic=symbolic)
        found = self.price(self.finished(laid.ops), laid.machine, symbolic=symbolic, said=laid.said)
        return replace(found, expression=laid.expression, plan=laid.name, plans=laid.others)

    def price(
        self, ops: tuple[Op, ...], machine: Machine, *, symbolic: bool = False, said: Sequence[str] = ()
    ) -> Bound:
        """Price operations on the machine, in the conventions of the question."""
        moved = traffic(ops, self.policy, self.tile)
        rate_of: Any = rate
        if symbolic or _has_symbols(ops):
            from roofline.bounds.closed import symbolic_rate

            rate_of = symbolic_rate
        needed = self._footprint(ops)
        return evaluate(
            ops,
            moved,
            machine,
            expression=self.expression,
            sizes=self.sizes,
            footprint=needed,
            overlap=self.overlap,
            overhead=self.overhead,
            assumptions=self._assumptions(ops, needed, said),
            request=self.changes(),
            question=self,
            rate_of=rate_of,
        )

    @property
    def expression(self) -> str:
        """The line in its one-line form, with the sizes that are plain numbers put in."""
        if self.raw:
            return ", ".join(f"{name} {written(value)}" for name, value in self.raw.items() if value is not None)
        return self.written_as(program(self.text, self.compute))

    def written_as(self, parsed: Program) -> str:
        """A program in its one-line form, with the sizes that are plain numbers put in."""
        return canonical(parsed, sizes={k: v for k, v in self.sizes.items() if isinstance(v, int)})

    def one_plan(self) -> Question:
        """The question with one plan for all sizes, where none is named: the one that sends over the fewest axes."""
        from roofline.bounds.plans import FEWEST

        return self.vary(plan=FEWEST) if self.plan is None and is_sharded(self) else self

    def vary(self, **changes: Any) -> Question:
        """Return the question with some of its parts replaced."""
        return replace(self, **changes)

    def with_sizes(self, **sizes: Any) -> Question:
        """Return the question at other sizes; None opens one. Sizes that are formulas of them follow."""
        now = {**self.sizes, **sizes}
        tied = {name: given for name, given in self.formulas.items() if name not in sizes}
        found = resolve_sizes({**now, **tied}, size_names(self)) if tied else now
        return replace(self, sizes={name: found[name] for name in now if found.get(name) is not None})

    def changes(self) -> dict[str, Any]:
        """List the parts that are not at their default, by name."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _NOT_CHANGES}
        kept = {k: v for k, v in plain.items() if v not in (None, False, {}, ()) and (k, v) != ("policy", "each-op")}
        kept.pop("count_padding", None)
        for name, usual in (("uneven", "error"), ("density", 1)):
            if getattr(self, name) is usual or getattr(self, name) == usual:
                kept.pop(name, None)
        return kept if self.count_padding else {**kept, "count_padding": False}

    def _raw_op(self) -> Op:
        given = {k: v for k, v in self.raw.items() if v is not None}
        dtype = given.pop("dtype", "bf16")
        unit = given.pop("unit", "matrix")
        amounts = {k: amount(v, AMOUNT_UNITS[k], self.sizes) for k, v in given.items()}
        return raw(dtype=dtype, unit=unit, **amounts)

    def _padded(self, op: Op) -> Op:
        """Round the matrix work of an operation up to the unit's tile; an operation without any stays as it is."""
        key = next((k for k in op.work if k.quantity == "flops" and k.place == "matrix"), None)
        return op if key is None else padded(op, self._tile_of_unit(key.dtype))

    def _tile_of_unit(self, dtype: str) -> tuple[int, int]:
        unit = unit_for(self.machine, "matrix", dtype)
        if unit is None or unit.tile is None:
            what = f"for {unit.name}, on which this runs" if unit and unit.kind == "vector" else "for its matrix unit"
            raise InputError(
                f"{self.machine.name} has no tile size {what}",
                hint="padding is known for TPUs' matrix units; give tile figures in a machine file",
            )
        return unit.tile

    def _footprint(self, ops: Sequence[Op]) -> Footprint | None:
        if self.raw:
            return None
        where = data_level(self.machine)
        capacity = where.capacity.value if where.capacity else None
        return replace(footprint(ops), level=where.name, capacity=capacity)

    def conventions(self) -> list[str]:
        """What answers of this kind take for granted: how FLOPs, rates and bytes are counted."""
        where = "whichever level holds it all" if self.machine.over == WARM else data_level(self.machine).name
        rates = "measured fractions of the data-sheet rates where known"
        return [
            "exact FLOPs: one add fewer than multiplies per output" if self.exact else "2 FLOPs per multiply-add",
            rates if self.machine.use_achievable else _RATES_TEXT[self._measured() == "peaks too"],
            *([] if self.raw else [f"{_POLICY_TEXT[self.policy]}; data starts in {where}"]),
        ]

    def particular(self, assumptions: Sequence[str]) -> list[str]:
        """Those of the assumptions that are no conventions, nor about a plan and its collectives."""
        usual = self.conventions()
        return [said for said in assumptions if said not in usual and not _OF_A_PLAN.match(said)]

    def _measured(self) -> str:
        """What of the machine was measured: the bandwidth data comes at, peaks too, or nothing."""
        bandwidth = data_level(self.machine).bandwidth
        if bandwidth is None or bandwidth.basis != "measured":
            return ""
        peaks = any(figure.basis == "measured" for unit in self.machine.units for figure in unit.peaks.values())
        return "peaks too" if peaks else "bandwidth"

    def _assumptions(self, ops: Sequence[Op], needed: Footprint | None, more: Sequence[str] = ()) -> list[str]:
        said = self.conventions()
        if any(dtypes.get(t.dtype).family == "complex" for op in ops for t in op.reads):
            said.insert(1, "8 real FLOPs per complex multiply-add, 4 where one factor is real")
        if self._measured() == "bandwidth":
            said.append(f"the bandwidth of {data_level(self.machine).name} is a measured one")
        if not self.raw:
            said += program(self.text, self.compute).assumptions
        said += more
        chips = [n for n in (tuple(self.mesh.values()) or self.machine.shape) if n != 1]
        if chips and not (self.text and program(self.text, self.compute).axes):
            each = f"each of the {product(chips)} chips" if all(isinstance(n, int) for n in chips) else "each chip"
            said.append(f"nothing is sharded: {each} does all of this")
        said += [op.note for op in ops if op.note]
        said += describe_given(self.machine)
        said += self.machine.warnings
        if self.overlap is not None:
            said.append(f"the estimate lets {self.overlap:.0%} of the shorter times overlap")
        if self.overhead is not None:
            said.append(f"the estimate adds {format_quantity(self.overhead, 's')} for every operation started")
        if needed is not None and needed.fits is False:
            total, capacity = format_quantity(needed.total, "B"), format_quantity(needed.capacity or 0, "B")
            said.append(f"does not fit: the operands need {total}, {needed.level} holds {capacity}")
        said += self._tile_said(ops)
        return list(dict.fromkeys(said))

    def _tile_said(self, ops: Sequence[Op]) -> list[str]:
        """Say where a tile is larger than the innermost memory of the core that works on it."""
        inner = [m for m in self.machine.memories if m.capacity is not None and not m.link]
        if self.tile is None or len(inner) < 2:
            return []
        memory = inner[-1]
        holds = memory.per_core or memory.capacity
        needed = [tile_bytes(op, *self.tile) for op in ops if op.kind == "contraction"]
        plain = [amount for amount in needed if isinstance(amount, int | float)]
        if holds is None or max(plain, default=0) <= holds.value:
            return []
        where = f"{memory.name} of one core" if memory.per_core else memory.name
        need, capacity = format_quantity(max(plain), "B"), format_quantity(holds.value, "B")
        return [f"does not fit: a tile needs {need}, {where} holds {capacity}"]


def resolve_sizes(given: Mapping[str, Any], names: Collection[str] = ()) -> dict[str, Any]:
    """Work out sizes that are written as formulas of others; one of ``names`` that has no value is a symbol.

    >>> resolve_sizes({"D": 4096, "F": "4*D", "G": "F/2"})
    {'D': 4096, 'F': 16384, 'G': 8192}
    >>> resolve_sizes({"F": "4*D"}, ["D", "F"])
    {'F': 4*D}
    >>> resolve_sizes({"D": "F", "F": "D"})
    Traceback (most recent call last):
    roofline.errors.SizeError: size D depends on itself (D = F)
    """
    done: dict[str, Any] = {}

    def value(name: str, within: tuple[str, ...]) -> Any:
        if name in done:
            return done[name]
        raw_value = given[name]
        if isinstance(raw_value, list | tuple | range) or is_array(raw_value):
            raw_value = check(name, raw_value)
        if isinstance(raw_value, str):
            if name in within:
                raise SizeError(f"size {name} depends on itself ({name} = {raw_value})")
            known = _Lookup(given, lambda other: value(other, (*within, name)), name, names)
            result = formula(raw_value, known)
            raw_value = int(result) if isinstance(result, float) and result.is_integer() else result
        done[name] = raw_value
        return raw_value

    return {name: value(name, ()) for name in given if given[name] is not None}


def without_helpers(sizes: Mapping[str, Any], given: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """Drop sizes that stand in no tensor and were only given for another size's formula.

    >>> without_helpers({"D": 8, "F": 32}, {"D": 8, "F": "4*D"}, ["F"])
    {'F': 32}
    """
    helpers = {name for value in given.values() if isinstance(value, str) for name in formula_names(value)}
    return {name: value for name, value in sizes.items() if name in labels or name not in helpers}


class _Lookup(Mapping[str, Any]):
    """Sizes as a mapping that works out formulas when asked."""

    def __init__(self, given: Mapping[str, Any], value: Any, name: str, names: Collection[str]) -> None:
        self._given, self._value, self._name, self._names = given, value, name, names

    def __getitem__(self, key: str) -> Any:
        if self._given.get(key) is None:
            if key in self._names:
                return symbol(key)
            hint = suggest(key, dict.fromkeys((*self._names, *self._given)), what="sizes")
            raise SizeError(f"size {self._name} is a formula of {key}, which has no value", hint=hint)
        return self._value(key)

    def __iter__(self) -> Any:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


def _has_symbols(ops: Sequence[Op]) -> bool:
    return any(
        is_symbol(value)
        for op in ops
        for value in (
            *(v for _, v in op.work.items()),
            *op.dims.values(),
            *(d for t in op.reads for d in t.dims),
        )
    )


def has_arrays(sizes: Mapping[str, Any]) -> bool:
    """Say whether any size holds several values."""
    return any(is_array(v) or isinstance(v, list | tuple | range) for v in sizes.values())
