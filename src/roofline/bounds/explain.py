"""The arithmetic behind a bound, line by line, with the source of every figure used."""

from __future__ import annotations

from roofline.bounds.bound import Bound, Use
from roofline.quantity import format_quantity
from roofline.sizes import Size, is_array, is_symbol

_UNITS = {"flops": ("FLOP", "FLOP/s"), "bytes": ("B", "B/s"), "wire": ("B", "B/s"), "hops": ("hops", "hops/s")}


def explain(answer: Bound) -> str:
    """Write out time = amount ÷ rate for every resource, then the bounds, then where each rate comes from.

    >>> from roofline import bound
    >>> answer = bound("bf16[B, D] * int8[D, F] -> bf16[B, F]", on="v5e", B=64, D=8192, F=8192)
    >>> print("\\n".join(explain(answer).splitlines()[1:5]))
    T_mxu = 8.59 GFLOP / 197 TFLOP/s = 43.6 µs
    T_hbm = 69.2 MB / 819 GB/s = 84.5 µs
    lower bound = max = 84.5 µs (hbm binds); upper bound = sum = 128 µs
    intensity = 124 FLOP/B, ridge = 241 FLOP/B
    """
    lines = [f"{answer.expression}  on {answer.target}"]
    lines += [_line(use) for use in answer.uses]
    lines.append(_bounds(answer))
    if answer.intensity is not None and answer.critical_intensity is not None:
        lines.append(
            f"intensity = {show(answer.intensity, 'FLOP/B')}, ridge = {show(answer.critical_intensity, 'FLOP/B')}"
        )
    lines += ["", "figures"]
    lines += dict.fromkeys(_source(use) for use in answer.uses)
    lines += ["", "assumed", *(f"  {item}" for item in answer.assumptions)]
    if answer.incomplete:
        lines += ["", "incomplete", *(f"  {item}" for item in answer.incomplete)]
    return "\n".join(lines)


def show(value: Size, unit: str) -> str:
    """Format a number with its unit, a symbol as its formula, an array as its range.

    >>> import numpy as np
    >>> show(np.array([1.0, 2e3]), "B"), show(np.array([3.0, 3.0]), "s"), show(np.array([np.nan, 2.0]), "s")
    ('1 B … 2 kB', '3 s', '2 s')
    """
    if is_symbol(value) and value.free_symbols:
        return f"{value} {'bytes' if unit == 'B' else unit}"
    if is_array(value):
        known = value[value == value]
        ends = (known.min(), known.max()) if known.size else (value.min(),)
        return " … ".join(dict.fromkeys(format_quantity(float(end), unit) for end in ends))
    return format_quantity(float(value), unit)


def _line(use: Use) -> str:
    amount, per_second = _UNITS[use.quantity]
    name = f"T_{use.resource}" + (f" ({use.dtype})" if use.place == "vector" else "")
    return f"{name} = {show(use.amount, amount)} / {show(use.rate.value, per_second)} = {show(use.time, 's')}"


def _bounds(answer: Bound) -> str:
    binds = f" ({answer.bound_by} binds)" if isinstance(answer.bound_by, str) else ""
    middle = f"; op by op {show(answer.op_by_op, 's')}" if len(answer.ops) > 1 else ""
    return (
        f"lower bound = max = {show(answer.lower, 's')}{binds}{middle}; upper bound = sum = {show(answer.upper, 's')}"
    )


def _source(use: Use) -> str:
    figure = use.rate.figure
    value = use.rate.plain if use.rate.plain is not None else use.rate.value
    what = f"  {use.resource} {use.dtype}".rstrip() + f" {show(value, _UNITS[use.quantity][1])}"
    if figure is None:
        return what
    detail = ", ".join(filter(None, (figure.basis, figure.source, figure.date, figure.note)))
    return f"{what}  [{detail}]"
