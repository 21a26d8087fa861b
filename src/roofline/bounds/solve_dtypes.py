"""Which storage formats make it compute-bound? One operand at a time, at the given sizes.

>>> found = solve_dtypes("bf16[B, D] * bf16[D, F]", 1, on="v5e", B=200, D=8192, F=8192)
>>> [(row.dtype, row.bound.kind) for row in found.rows if row.dtype in ("fp32", "bf16", "int8")]
[('fp32', 'memory-bound'), ('bf16', 'memory-bound'), ('int8', 'compute-bound')]
>>> found.flips_at
'fp8'
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from roofline import dtypes
from roofline.bounds.api import question
from roofline.bounds.bound import Bound
from roofline.bounds.question import Question
from roofline.bounds.question_mesh import is_sharded, of_several_chips
from roofline.bounds.variants import operands, retype
from roofline.errors import InputError
from roofline.notation import program

#: Formats tried, widest first.
FORMATS = ("fp64", "fp32", "bf16", "fp8", "int8", "mxfp4", "nvfp4", "int4")


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One format and the bound with it."""

    dtype: str
    bound: Bound


@dataclass(frozen=True, slots=True, eq=False)
class DTypeSolution:
    """The bound for every storage format of one operand, widest first; ``flips_at`` is the first that changes kind."""

    question: Question
    operand: str
    rows: tuple[Row, ...]

    @property
    def flips_at(self) -> str | None:
        """The widest format at which another kind of resource binds than at the widest of all; None if none."""
        first = self.rows[0].bound.kind
        return next((row.dtype for row in self.rows if row.bound.kind != first), None)

    def __rich__(self) -> Any:
        from roofline.bounds.show import dtype_lines, pairs_table

        return pairs_table(self._title(), self.question.machine.name, dtype_lines(self))

    def _repr_html_(self) -> str:
        from roofline.bounds.show import dtype_lines, pairs_html

        return pairs_html(self._title(), self.question.machine.name, dtype_lines(self))

    def __repr__(self) -> str:
        said = f"flips at {self.flips_at}" if self.flips_at else f"{self.rows[0].bound.kind} in every format"
        return f"<DTypeSolution: {self.operand} {said} on {self.question.machine.name}>"

    def _title(self) -> str:
        return f"{self.question.expression}, {self.operand} stored in other formats"

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
            "incomplete": list(dict.fromkeys(line for row in self.rows for line in row.bound.incomplete)),
        }


def solve_dtypes(expression: str, operand: int = 0, **arguments: Any) -> DTypeSolution:
    """Store one operand (0 is the first) in each format in turn; the arithmetic dtype stays what it was.

    Sizes must be plain numbers.
    """
    asked = of_several_chips(question(expression, **arguments))
    kinds = {asked.compute} if asked.compute else {step.compute for step in program(expression).steps}
    asked = asked.vary(compute=kinds.pop()) if len(kinds) == 1 else asked
    if asked.compute is None and is_sharded(asked):
        raise InputError(
            f"its steps compute in {' and '.join(sorted(kinds))}", hint="say compute=, or ask step by step"
        )
    inputs = operands(asked)
    if not 0 <= operand < len(inputs):
        names = ", ".join(f"{o.position} ({o.written})" for o in inputs)
        raise InputError(f"there is no operand {operand}", hint=f"operands are: {names}")
    rows = []
    for name in sorted(FORMATS, key=lambda n: -dtypes.get(n).bits_per_element):
        answer = retype(asked, {operand: name}).answer() if asked.compute else _kept(asked, inputs[operand].ident, name)
        if answer.kind is None:
            raise InputError("a choice of dtypes needs plain numbers", hint="give every size one value")
        rows.append(Row(name, answer))
    return DTypeSolution(asked, inputs[operand].written, tuple(rows))


def _kept(asked: Question, ident: str, name: str) -> Bound:
    """Answer with one operand stored in another format, where each step keeps an arithmetic dtype of its own."""
    ops = [
        replace(op, reads=tuple(replace(t, dtype=name) if t.ident == ident else t for t in op.reads))
        for op in asked.ops()
    ]
    return asked.price(tuple(ops), asked.machine)
