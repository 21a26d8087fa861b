"""Operations of a step of a model: a table of the longest, and a note on those that run beside the matrix unit."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.bounds.bound import Bound, OpBound, amount_cells, amount_columns, module_of, sends_anything, share_of
from roofline.hardware.rate import rate
from roofline.quantity import format_percent
from roofline.sections import Amount, Column, Row, Table
from roofline.signatures import spelled
from roofline.work import Key

#: The share of the time below which a kind of module is not named.
LITTLE = 0.001

#: Operations that are shown, and kinds of module that a line names.
SHOWN, MODULES = 16, 4


def longest_operations(step: Bound, phase: str = "") -> Table:
    """The operations that take longest, one a row, and their shares of the time that all take one after the other.

    A narrow terminal breaks their names, not the figures.
    """
    ordered = sorted(step.ops, key=lambda part: -float(part.lower))
    sends = sends_anything(ordered)
    columns, shown, rest = amount_columns(sends), ordered[:SHOWN], ordered[SHOWN:]
    named = (
        Column("operation", wrap="dots"),
        *columns,
        Column("share", "right", spare=1),
        Column("bound by", wrap="words"),
    )
    whole = sum(part.lower for part in ordered)

    def rows(parts: Sequence[OpBound]) -> list[Row]:
        return [
            Row((part.op.where, *amount_cells(part, sends), share_of(part.lower, whole), str(part.bound_by or "")))
            for part in parts
        ]

    if not rest:
        return Table(named, rows(shown), "operations", indent=4, phase=phase)
    time = sum(part.lower for part in rest)
    more = Row((f"{len(rest)} more", *[""] * (len(columns) - 1), Amount(time, "s"), share_of(time, whole), ""))
    return Table(named, [*rows(shown), more], "operations", indent=4, every=lambda: rows(ordered), phase=phase)


def shares_of_modules(step: Bound) -> str:
    """What each kind of module takes of the time that operations take one after the other; collectives by themselves.

    >>> from roofline.models import serve_bound
    >>> shares_of_modules(serve_bound("mixtral-8x7b", "decode", on="h100:2", tensor=2, batch=8, context=4096))
    'block_sparse_moe 92%, self_attn 7.9%, lm_head 0.3%, communication 0.29% of the time'
    """
    times: dict[str, float] = {}
    for part in step.ops:
        name = module_of(part.op)
        times[name] = times.get(name, 0.0) + float(part.lower)
    whole = sum(times.values())
    longest = sorted((name for name in times if times[name] > LITTLE * whole), key=lambda name: -times[name])[:MODULES]
    return ", ".join(f"{name} {format_percent(times[name] / whole)}" for name in longest) + " of the time"


def off_matrix_unit(step: Bound, option: str) -> list[str]:
    """Say that matrix products run on another unit, or none, as the matrix unit lacks the format, and which it has."""
    matrix = {unit.name for unit in step.machine.units if unit.kind == "matrix"}
    runs = {name: rate(step.machine, Key("flops", "matrix", name)) for name in ("bf16", "fp16")}
    usual = next(((name, found.resource) for name, found in runs.items() if found and found.resource in matrix), None)
    products = next((part for part in step.ops if part.op.kind == "contraction"), None)
    if usual is None or products is None:
        return []
    formats = {key.dtype for key, _ in products.op.work.items() if key.quantity == "flops" and key.place == "matrix"}
    found = {rate(step.machine, Key("flops", "matrix", name)) for name in formats} - {None}
    other = next((each.resource for each in found if each and each.resource not in matrix), None)
    if other is None and (found or not formats):
        return []
    where = "run on no unit" if other is None else f"run on {other}"
    names = ", ".join(sorted(formats))
    return [f"matrix products {where}: {usual[1]} takes no {names}; {spelled(option, usual[0])} would run on it"]
