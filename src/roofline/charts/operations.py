"""Answers → operations on a roofline chart: one point for each operation that has both FLOPs and bytes.

>>> from roofline.bounds.api import bound
>>> [(o.name, round(o.intensity), o.bound_by) for o in operations(bound("bf16[64, 8192] @ bf16[8192, 8192]", on="v5e"))]
[('bf16[64, 8192] * bf16[8192, 8192]', 63, 'hbm')]
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.bounds.bound import Bound, OpBound
from roofline.errors import SizeError
from roofline.hardware.machine import Machine
from roofline.sizes import Size, is_array, is_symbol


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A point under a roof: FLOP a byte, and the FLOP/s it attains at best."""

    name: str
    machine: Machine
    intensity: float
    attainable: float
    bound_by: str
    dtype: str


def operations(answer: Bound, name: str | None = None) -> list[Operation]:
    """List the operations of an answer that have a place on the chart; ``name`` replaces the written one.

    A program gives a point an operation. Sizes that have no number are an error.
    """
    dtype = next((use.dtype for use in answer.uses if use.quantity == "flops"), "")
    return [
        Operation(
            part.name,
            answer.machine,
            float(part.intensity or 0),
            float(part.flops / part.lower),
            str(part.bound_by),
            dtype,
        )
        for part in _parts(answer, name)
        if not part.wanting
    ]


def left_out(answer: Bound, name: str | None = None) -> list[str]:
    """Say which operations have no place on the chart, and why: ``copy(bf16[64]) has no FLOPs``."""
    return [f"{part.name} {part.wanting}" for part in _parts(answer, name) if part.wanting]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What is or is not a point: a whole answer, or one operation of a program."""

    name: str
    machine: Machine
    flops: Size
    intensity: Size | None
    lower: Size
    bound_by: str | None
    timed: bool

    @property
    def wanting(self) -> str:
        """Why it cannot be placed; empty where it can."""
        if not self.flops:
            return "has no FLOPs"
        if not self.timed:
            return f"has FLOPs that {self.machine.name} has no peak for"
        return "" if self.intensity else "moves no bytes"


def _parts(answer: Bound, name: str | None) -> list[_Part]:
    _check_numbers(answer)
    machine = answer.machine
    if len(answer.ops) == 1 or name is not None:
        text, timed = name or without_output(answer.expression), answer.attainable is not None
        return [_Part(text, machine, answer.flops, answer.intensity, answer.lower, str(answer.bound_by), timed)]
    return [
        _Part(
            _name(op),
            machine,
            op.flops,
            op.intensity,
            op.lower,
            op.bound_by,
            any(use.quantity == "flops" for use in op.uses),
        )
        for op in answer.ops
    ]


def without_output(expression: str) -> str:
    """The left side of an expression, which is enough to know it by.

    >>> without_output("bf16[B, D] * bf16[D, F] -> bf16[B, F]")
    'bf16[B, D] * bf16[D, F]'
    """
    return expression.partition(" -> ")[0]


def _name(part: OpBound) -> str:
    return part.op.where or without_output(part.op.name)


def _check_numbers(answer: Bound) -> None:
    values: tuple[Size, ...] = (answer.flops, answer.intensity)
    for value in values:
        if is_symbol(value):
            names = sorted(str(symbol) for symbol in value.free_symbols)
            raise SizeError(f"size {names[0]} has no value", hint=f"a point needs numbers, as in {names[0]}=64")
        if is_array(value):
            raise SizeError("a point needs single sizes, not arrays", hint="say which size to draw over: vary='B'")
