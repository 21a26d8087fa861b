"""Operations × Machine → Bound: the only evaluator. A single operation is a list of one.

For every amount, time = amount ÷ rate. Per resource the times add up over operations, and then::

    lower    = max over resources of Σ over operations            (everything overlaps)
    op_by_op = Σ over kernels of max over resources               (each operation overlaps within itself, with what
                                                                   a byte policy runs inside its kernel)
    upper    = Σ over both                                        (nothing overlaps)

Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009; "How To Scale Your Model", chapter 1.

Rates as symbols, for closed forms: ``P_bf16`` for a peak, ``W_hbm`` for a bandwidth; numbers go in last.

>>> from roofline.hardware import chip
>>> from roofline.work import Key
>>> found = symbolic_rates(chip("v5e"), Key("flops", "matrix", "bf16"), None)[0]
>>> found.value, values_of([found])
(P_bf16, {P_bf16: 197000000000000.0})
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from roofline.bounds.bound import Bound, OpBound, ResourceUse, binding, headline_flops, one_after_another, ratio
from roofline.bounds.memory import Footprint
from roofline.errors import InputError, UntimedError
from roofline.hardware.machine import Machine, Rate
from roofline.hardware.rate import rates
from roofline.lazy import np, sympy
from roofline.quantity import format_quantity
from roofline.signatures import setting, takes
from roofline.sizes import Size, check, is_array, maximum, sums_by_name
from roofline.statements import Assumption, Gap
from roofline.work import Key, Op, Work

_LETTER = {"flops": "P", "bytes": "W", "wire": "W", "hops": "L"}


def symbolic_rates(machine: Machine, key: Key, op: Op | None) -> list[Rate]:
    """Do what :func:`roofline.hardware.rate.rates` does, with a symbol for each value; the figure keeps the number."""
    return [_as_symbol(machine, key, found) for found in rates(machine, key, op)]


def _as_symbol(machine: Machine, key: Key, found: Rate) -> Rate:
    # hops share one resource, and those of each link have a latency of their own
    level = machine.segment(key.place) if key.quantity == "hops" else None
    named = found.dtype or key.dtype or (found.resource if level is None else level.link)
    name = re.sub(r"\W", "_", f"{_LETTER[key.quantity]}_{named}")
    units = {unit.name: unit.kind for unit in machine.units}
    if key.quantity == "flops" and units.get(found.resource) != "matrix":
        name += f"_{found.resource}"
    return found._replace(value=rate_symbol(name), plain=found.value)


@cache
def rate_symbol(name: str) -> Any:
    """Make the symbol of a rate: a positive real number."""
    return sympy.Symbol(name, positive=True)


def values_of(rates: Iterable[Rate]) -> dict[Any, float]:
    """Map the symbols of rates to the numbers they stand for."""
    return {rate.value: rate.plain for rate in rates if rate.plain is not None}


RatesOf = Callable[[Machine, Key, Op], Sequence[Rate]]


def bound_of_work(
    ops: Sequence[Op],
    moved: Sequence[Work],
    machine: Machine,
    *,
    expression: str = "",
    sizes: Mapping[str, Size] | None = None,
    footprint: Footprint | None = None,
    overlap: float | None = None,
    overhead: float | None = None,
    assumptions: Sequence[str] = (),
    gaps: Sequence[str] = (),
    request: Mapping[str, Any] | None = None,
    question: Any = None,
    rates_of: RatesOf = rates,
    kernels: Sequence[int] | None = None,
) -> Bound:
    """Price operations and the bytes each moves on ``machine``; amounts are numbers, arrays of one shape or symbols.

    ``kernels`` says of each operation which one starts the kernel that it runs in; left out, each has its own.
    """
    missing: dict[Key, Size] = {}
    notes: dict[str, None] = dict.fromkeys(assumptions)
    parts: list[OpBound] = []
    starts: Sequence[int | None] = kernels or [None] * len(ops)
    for op, load, kernel in zip(ops, moved, starts, strict=True):
        part = price_op(op, (op.work + load) * op.repeat, machine, rates_of, missing, kernel)
        parts.append(part)
        notes.update(dict.fromkeys(Assumption("rates", use.rate.note) for use in part.uses if use.rate.note))
    times = sums_by_name(time for part in parts for time in part.times.items())
    if not times:
        raise UntimedError(_nothing_timed(machine, missing))
    lower, upper = maximum(*times.values()), sum(times.values())
    uses = _merge(use for part in parts for use in part.uses)
    work = sum((part.op.work * part.op.repeat for part in parts), Work())
    flops = headline_flops(work)
    loaded = _amounts(uses, "bytes")
    compute = _headline_time(uses, work)
    memory_time = sum(u.time for u in uses if u.quantity == "bytes")
    moved_bytes = sum(loaded.values())
    return Bound(
        expression=expression, machine=machine, sizes=dict(sizes or {}), flops=flops,
        flops_by=sums_by_name((f"{u.resource}/{u.dtype}", u.amount) for u in uses if u.quantity == "flops"),
        bytes=loaded, wire=_amounts(uses, "wire"), intensity=ratio(flops, moved_bytes),
        critical_intensity=_ridge(flops, compute, moved_bytes, memory_time),
        times=times, lower=lower, op_by_op=one_after_another(parts), upper=upper, bound_by=binding(times),
        attainable=None if compute is None else flops / lower,
        utilisation=None if compute is None else compute / lower,
        uses=uses, ops=tuple(parts), footprint=footprint, estimate=_estimate(lower, upper, ops, overlap, overhead),
        assumptions=tuple(notes), request=dict(request or {}), question=question,
        incomplete=(*gaps, *(untimed(machine, key, amount) for key, amount in missing.items())),
    )  # fmt: skip


def price_op(
    op: Op, work: Work, machine: Machine, rates_of: RatesOf, missing: dict[Key, Size], kernel: int | None = None
) -> OpBound:
    """Price one operation; an amount without a rate goes to ``missing``."""
    uses = []
    for key, amount in work.items():
        if isinstance(amount, int | float) and amount == 0:
            continue
        all_rates = rates_of(machine, key, op)
        if not all_rates:
            missing[key] = missing[key] + amount if key in missing else amount
        for found in all_rates:
            dtype, part = found.dtype or key.dtype, amount * found.share
            uses.append(ResourceUse(found.resource, key.quantity, key.place, dtype, part, found, part / found.value))
    times = sums_by_name((use.resource, use.time) for use in uses)
    return OpBound(op, tuple(uses), times, maximum(*times.values()), sum(times.values()), kernel)


def _merge(uses: Any) -> tuple[ResourceUse, ...]:
    """Add up the uses of one resource at one rate."""
    merged: dict[tuple[str, str, str, str], list[Any]] = {}
    for use in uses:
        known = merged.setdefault((use.resource, use.quantity, use.place, use.dtype), [])
        known[:] = [known[0] + use.amount, known[1], known[2] + use.time] if known else [use.amount, use.rate, use.time]
    return tuple(ResourceUse(*key, amount, rate, time) for key, (amount, rate, time) in merged.items())


def _amounts(uses: Sequence[ResourceUse], quantity: str) -> dict[str, Size]:
    return sums_by_name((use.resource, use.amount) for use in uses if use.quantity == quantity)


def _headline_time(uses: Sequence[ResourceUse], work: Work) -> Size | None:
    """Time of the FLOPs that ``flops`` counts: those asked of the matrix unit, or of the vector unit."""
    places = {k.place for k in work if k.quantity == "flops"}
    place = "matrix" if "matrix" in places else "vector"
    chosen = [u.time for u in uses if u.quantity == "flops" and u.place == place]
    return sum(chosen) if chosen else None


def _ridge(flops: Size, compute: Size | None, loaded: Size, memory: Size) -> Size | None:
    """FLOP/B at which computing takes as long as moving: (flops ÷ T_math) ÷ (bytes ÷ T_comms)."""
    if compute is None or (isinstance(loaded, int | float) and loaded == 0):
        return None
    if is_array(compute):
        with np.errstate(invalid="ignore"):  # rows without FLOPs have no ridge
            return (flops / compute) / (loaded / memory)
    return (flops / compute) / (loaded / memory)


@takes(bound_of_work, but=("request", "question", "rates_of", "kernels"))
def evaluate(ops: Sequence[Op], moved: Sequence[Work], machine: Machine, **options: Any) -> Bound:
    """Price operations and the bytes each moves on ``machine``; amounts are numbers, arrays of one shape or symbols."""
    if len(ops) != len(moved):
        raise InputError(f"{len(ops)} operations, and bytes of {len(moved)}", hint="give one Work for each operation")
    text = next((name for name in ("assumptions", "gaps") if isinstance(options.get(name), str)), None)
    if text is not None:
        raise InputError(f"{text} is one text, and takes a list of sentences", hint=f"as in {text}=['…']")
    if isinstance(sizes := options.get("sizes"), Mapping):
        options["sizes"] = {name: check(name, value, 0) for name, value in sizes.items()}
    return bound_of_work(ops, moved, machine, **options)


def _estimate(
    lower: Size, upper: Size, ops: Sequence[Op], overlap: float | None, overhead: float | None
) -> Size | None:
    """lower + (1 − overlap)·(upper − lower) + overhead for every operation started."""
    if overlap is None and overhead is None:
        return None
    base = lower if overlap is None else lower + (1 - overlap) * (upper - lower)
    return base if overhead is None else base + overhead * sum(op.repeat for op in ops)


def untimed(machine: Machine, key: Key, amount: Size | None = None) -> Gap:
    """Say what has no rate, and how much of it where that is one number or formula."""
    what = f"{key.quantity} on {key.place}" if key.quantity == "flops" else f"{key.quantity} at {key.place}"
    given = f" in {key.dtype}" if key.dtype else ""
    unit = {"flops": "FLOP", "hops": "hops"}.get(key.quantity, "B")
    said = format_quantity(amount, unit) if isinstance(amount, int | float) else amount
    count = "" if amount is None or is_array(amount) else f" ({said})"
    kind = "latency" if key.quantity == "hops" else "rate"
    named = figure = ""
    if key.quantity == "hops":
        over = machine.segment(key.place)
        figure = f"{'link' if over is None else over.link}.latency"
        named = f"setting {machine.key}.{figure}" if machine.vendor else figure
    elif key.quantity == "flops" and not machine.vendor:  # a machine of the user's own figures
        named = f"{key.place}.{key.dtype}"
    own = f": {named} gives it one" if named else ""
    brief = f"not timed: {what}{given}"
    return Gap(kind, f"{brief}{count}; {machine.name} has no figure for it{own}", figure, brief)


def _nothing_timed(machine: Machine, missing: Mapping[Key, Size]) -> str:
    if not missing:
        return "there is nothing to time: no FLOPs and no bytes"
    said, first = "; ".join(untimed(machine, key, amount) for key, amount in missing.items()), next(iter(missing))
    return f"{said}; give one, for instance {setting(first.dtype or first.place)}"
