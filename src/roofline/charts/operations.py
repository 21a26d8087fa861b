"""Answers → operations on a roofline chart: one point for each operation that has both FLOPs and bytes.

>>> from roofline.bounds.api import bound
>>> [(o.name, round(o.intensity), o.bound_by) for o in operations(bound("bf16[64, 8192] @ bf16[8192, 8192]", on="v5e"))]
[('bf16[64, 8192] * bf16[8192, 8192]', 63, 'hbm')]
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.bounds.bound import Bound, OpBound
from roofline.errors import InputError, SizeError
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
    _check_numbers(answer)
    if len(answer.ops) == 1 or name is not None:
        text = name or without_output(answer.expression)
        parts = [(text, answer.flops, answer.intensity, answer.lower, str(answer.bound_by))]
    else:
        parts = [(_name(o), o.flops, o.intensity, o.lower, str(o.bound_by)) for o in answer.ops]
    dtype = next((use.dtype for use in answer.uses if use.quantity == "flops"), "")
    found = [
        Operation(text, answer.machine, float(intensity), float(flops / lower), bound_by, dtype)
        for text, flops, intensity, lower, bound_by in parts
        if flops and intensity
    ]
    if not found:
        raise InputError(f"{answer.expression} has no FLOPs or moves no bytes, so it has no place on a roofline chart")
    return found


def left_out(answer: Bound) -> list[str]:
    """Name the operations of a program that have no FLOPs or move no bytes."""
    parts = answer.ops if len(answer.ops) > 1 else ()
    return [_name(part) for part in parts if not (part.flops and part.intensity)]


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
