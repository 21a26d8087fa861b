"""Which storage formats make it compute-bound? One operand at a time, at the given sizes.

>>> found = solve_dtypes("bf16[B, D] * bf16[D, F]", 1, on="v5e", B=200, D=8192, F=8192)
>>> [(row.dtype, row.bound.kind) for row in found.rows if row.dtype in ("fp32", "bf16", "int8")]
[('fp32', 'memory-bound'), ('bf16', 'memory-bound'), ('int8', 'compute-bound')]
>>> found.flips_at
'fp8'
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline import dtypes
from roofline.answers import Comparable, Fact, on_several
from roofline.bounds.advice_engine import operands, retype
from roofline.bounds.api import question
from roofline.bounds.bound import Bound
from roofline.bounds.question import Question, of_several_chips
from roofline.errors import InputError
from roofline.frozen import dataclass, replace
from roofline.notation import program
from roofline.quantity import format_amount
from roofline.sections import Section, named, word_pairs
from roofline.signatures import takes

#: Formats tried, widest first.
FORMATS = ("fp64", "fp32", "bf16", "fp8", "int8", "mxfp4", "nvfp4", "int4")


@dataclass(frozen=True, slots=True, eq=False)
class FormatBound:
    """One format and the bound with it."""

    dtype: str
    bound: Bound


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DTypeSolution(Comparable):
    """The bound for every storage format of one operand, widest first; ``flips_at`` is the first that changes kind."""

    question: Question
    operand: str
    rows: tuple[FormatBound, ...]

    @property
    def flips_at(self) -> str | None:
        """The widest format at which another kind of resource binds than at the widest of all; None if none."""
        first = self.rows[0].bound.kind
        return next((row.dtype for row in self.rows if row.bound.kind != first), None)

    @property
    def verdict(self) -> str:
        """Where it flips, in words."""
        return f"flips at {self.flips_at}" if self.flips_at else f"{self.rows[0].bound.kind} in every format"

    @property
    def target(self) -> str:
        """The machine, as a person reads it."""
        return self.question.machine.name

    def facts(self) -> Iterator[Fact]:
        """Where it flips, and the time and what binds in each format, for a comparison."""
        yield Fact("answer", self.verdict)
        for row in self.rows:
            yield Fact(row.dtype, row.bound.lower, "s", "less")
            yield Fact(f"{row.dtype} bound by", str(row.bound.bound_by))
        if self.incomplete:
            yield Fact("incomplete", "; ".join(self.incomplete))

    def assumed(self) -> tuple[str, ...]:
        return ()

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What could not be timed in some format."""
        return tuple(dict.fromkeys(line for row in self.rows for line in row.bound.incomplete))

    def sections(self) -> tuple[Section, ...]:
        """The time and what binds in each format."""
        pairs = [
            (row.dtype, f"{format_amount(row.bound.lower, 's')}, {row.bound.kind} ({row.bound.bound_by})")
            for row in self.rows
        ]
        pairs = [("answer", self.verdict), *pairs, *named("incomplete", self.incomplete)]
        subject = f"{self.question.expression}, {self.operand} stored in other formats"
        return word_pairs(subject, self.question.machine.name, pairs)

    def one_line(self) -> str:
        """Where it flips."""
        return f"DTypeSolution: {self.operand} {self.verdict} on {self.question.machine.name}"

    def to_dict(self) -> dict[str, Any]:
        """The rows under stable keys (schema ``roofline/dtypes/1``)."""
        return {
            "schema": "roofline/dtypes/1",
            "expression": self.question.expression,
            "target": self.question.machine.name,
            "machine": self.question.machine.key,
            "operand": self.operand,
            "flips_at": self.flips_at,
            "rows": [
                {"dtype": r.dtype, "lower": r.bound.lower, "bound_by": r.bound.bound_by, "kind": r.bound.kind}
                for r in self.rows
            ],
            "incomplete": list(self.incomplete),
        }


@on_several
@takes(question)
def solve_dtypes(expression: str, operand: int = 0, **arguments: Any) -> DTypeSolution:
    """Store one operand (0 is the first) in each format in turn; the arithmetic dtype stays what it was.

    Sizes must be plain numbers.
    """
    asked = of_several_chips(question(expression, **arguments))
    kinds = (
        {asked.conventions.compute}
        if asked.conventions.compute
        else {step.compute for step in program(expression).steps}
    )
    asked = asked.vary(compute=kinds.pop()) if len(kinds) == 1 else asked
    if asked.conventions.compute is None and asked.is_sharded:
        raise InputError(
            f"its steps compute in {' and '.join(sorted(kinds))}", hint="say compute=, or ask step by step"
        )
    inputs = operands(asked)
    if not 0 <= operand < len(inputs):
        names = ", ".join(f"{o.position} ({o.written})" for o in inputs)
        raise InputError(f"there is no operand {operand}", hint=f"operands are: {names}")
    rows = []
    for name in sorted(FORMATS, key=lambda n: -dtypes.get(n).bits_per_element):
        answer = (
            retype(asked, {operand: name}).answer()
            if asked.conventions.compute
            else _kept(asked, inputs[operand].ident, name)
        )
        if not isinstance(answer.kind, str):
            raise InputError("a choice of dtypes needs plain numbers", hint="give every size one value")
        rows.append(FormatBound(name, answer))
    return DTypeSolution(asked, inputs[operand].written, tuple(rows))


def _kept(asked: Question, ident: str, name: str) -> Bound:
    """Answer with one operand stored in another format, where each step keeps an arithmetic dtype of its own."""
    ops = [
        replace(op, reads=tuple(replace(t, dtype=name) if t.ident == ident else t for t in op.reads))
        for op in asked.ops()
    ]
    return asked.price(tuple(ops), asked.machine)
