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
    return [_point(answer, text, part) for text, part, missing in _parts(answer, name) if not missing]


def placed(answer: Bound) -> list[tuple[OpBound, Operation]]:
    """List the operations of a program that have a place on the chart, each with its point."""
    _check_numbers(answer)
    named = [(op, _name(op)) for op in answer.ops]
    return [(op, _point(answer, text, op)) for op, text in named if not wanting(op, answer.machine) and op.intensity]


def _point(answer: Bound, text: str, part: Bound | OpBound) -> Operation:
    dtype = next((use.dtype for use in answer.uses if use.quantity == "flops"), "")
    attainable = float(part.flops / part.lower)
    return Operation(text, answer.machine, float(part.intensity or 0), attainable, str(part.bound_by), dtype)


def left_out(answer: Bound, name: str | None = None) -> list[str]:
    """Say which operations have no place on the chart, and why: ``copy(bf16[64]) has no FLOPs``."""
    return [f"{text} {missing}" for text, _, missing in _parts(answer, name) if missing]


def wanting(answer: Bound | OpBound, machine: Machine) -> str:
    """Why no FLOP/s can be given for an answer or an operation; empty where they can."""
    if not answer.flops:
        return "has no FLOPs"
    parts = answer.ops if isinstance(answer, Bound) else (answer,)
    places = {key.place for part in parts for key in part.op.work if key.quantity == "flops"}
    counted = "matrix" if "matrix" in places else "vector"
    if not any(use.quantity == "flops" and use.place == counted for use in answer.uses):
        return f"has FLOPs that {machine.name} has no peak for"
    return ""


def _parts(answer: Bound, name: str | None) -> list[tuple[str, Bound | OpBound, str]]:
    """What could be a point: the whole answer, or each operation of a program; with its name, and why it is none."""
    _check_numbers(answer)
    whole = len(answer.ops) == 1 or name is not None
    named: list[tuple[str, Bound | OpBound]] = (
        [(name or without_output(answer.expression), answer)] if whole else [(_name(op), op) for op in answer.ops]
    )
    unmoved = "moves no bytes at a known bandwidth"
    return [(text, part, wanting(part, answer.machine) or ("" if part.intensity else unmoved)) for text, part in named]


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
