"""A resolved program written back as one line of notation.

>>> from roofline.notation import canonical, program
>>> line = program("A[B,D]·int8[D , F]")
>>> canonical(line)
'A:bf16[B, D] * int8[D, F] -> bf16[B, F]'
>>> canonical(line, {"B": 64, "D": 8192, "F": 8192})
'A:bf16[64, 8192] * int8[8192, 8192] -> bf16[64, 8192]'
>>> canonical(program("gelu(bf16[B, D] * bf16[D, F])"))
'%3 = bf16[B, D] * bf16[D, F] -> bf16[B, F]; gelu(%3) -> bf16[B, F]'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.notation.functions import FUNCTIONS
from roofline.notation.scope import is_number, show_axes
from roofline.notation.structure import Program, Shape, Step

_OPERATORS = {"contract": "*", "multiply": "*", "add": "+", "subtract": "-", "divide": "/"}


def canonical(program: Program, sizes: Mapping[str, Any] | None = None) -> str:
    """Write a program as one line; named sizes that are whole numbers in ``sizes`` are put in.

    Without ``sizes`` the line reads back as the same program.
    """
    known = {**program.sizes, **{k: v for k, v in (sizes or {}).items() if isinstance(v, int)}}
    put_in = frozenset(sizes or ())
    seen: set[str] = set()
    lines = []
    for position, step in enumerate(program.steps):
        later = {shape.ident for other in program.steps[position + 1 :] for shape in other.inputs}
        named = step.output.ident[0] != "%" or step.output.ident in later
        target = f"{step.output.ident} = " if named else ""
        lines.append(target + _step(step, known, seen, put_in))
    return "; ".join(lines) + _clauses(program)


def step_text(step: Step, sizes: Mapping[str, int]) -> str:
    """Write one step, its operands in full."""
    return _step(step, sizes, None, frozenset())


def _clauses(program: Program) -> str:
    text = ""
    if program.mesh:
        text += " mesh " + ",".join(f"{axis}={size}" for axis, size in program.mesh.items())
    if program.on:
        text += f" on {program.on}"
    if program.over:
        text += f" over {program.over}"
    return text


def _step(step: Step, sizes: Mapping[str, Any], seen: set[str] | None, put_in: frozenset[str]) -> str:
    operands = [_operand(shape, sizes, seen, put_in) for shape in step.inputs]
    if step.function in _OPERATORS and step.kind != "function":
        value = f" {_OPERATORS[step.function]} ".join(operands)
    else:
        value = f"{step.function}{_suffix(step)}({', '.join([*operands, *_options(step)])})"
    if any(is_number(label) and label not in sizes for label in step.output.labels):
        return f"{value} -> {step.output.dtype}"
    return f"{value} -> {step.output.dtype}{_axes(step.output, sizes, put_in)}"


def _operand(shape: Shape, sizes: Mapping[str, Any], seen: set[str] | None, put_in: frozenset[str]) -> str:
    named = shape.ident[0] != "%"
    if seen is not None and (shape.source == "step" or shape.ident in seen):
        return shape.ident
    if seen is None:
        return shape.written
    seen.add(shape.ident)
    written = shape.dtype + _axes(shape, sizes, put_in) if put_in else shape.written
    return f"{shape.ident}:{written}" if named else written


def _axes(shape: Shape, sizes: Mapping[str, Any], put_in: frozenset[str]) -> str:
    def show(label: str) -> str:
        return str(sizes.get(label, "?")) if is_number(label) or label in put_in else label

    return show_axes(shape.axes, show, shape.unreduced)


def _suffix(step: Step) -> str:
    if step.kind == "collective":
        words = [*step.over, *([step.options["dim"]] if "dim" in step.options else [])]
        if any(is_number(word) for word in words):
            words = list(step.over)
    elif not FUNCTIONS[step.function].suffix or all(is_number(label) for label in step.over):
        return ""
    else:
        words = list(step.over)
    return f"_{{{','.join(words)}}}" if len(words) > 1 else f"_{words[0]}"


def _options(step: Step) -> list[str]:
    if step.kind == "collective":
        return []
    function = FUNCTIONS[step.function]
    found = []
    for key, value in step.options.items():
        if value is True:
            found.append(key)
        elif key == "groups" and "depthwise" in step.options:
            continue
        elif key in function.options:
            found.append(f"{key}={'x'.join(map(str, value)) if isinstance(value, tuple) else value}")
    return found
