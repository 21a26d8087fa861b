"""Answers about serving → pictures: operations under the roof, time by operation, memory against capacity.

>>> from roofline.models import serve
>>> found = serve("llama-3-8b", on="h100", batch=8, prompt=1024)
>>> time_by_operation(found, phase="decode").bars[0].label
'layers.0-31.mlp.up_proj: hbm'
>>> [bar.part for bar in memory_by_part(found).bars if bar.row == 0]
['weights', 'kv', 'activations']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from roofline.bounds.bound import Bound, OpBound
from roofline.charts.bars_chart import MOST_ROWS, Row, bars_chart
from roofline.charts.chart import Chart
from roofline.charts.gathered import gathered, only
from roofline.charts.marks import Point
from roofline.charts.roofline_chart import roofline_chart
from roofline.errors import InputError
from roofline.models.report import Serving
from roofline.quantity import format_quantity
from roofline.sizes import is_array

#: Points of a phase on a roofline, the longest first; the rest are said to be left out.
MOST_POINTS = 7

#: Names of operations that one point carries.
MOST_NAMES = 4


def serving_roofline(found: Serving, *, theme: str = "light") -> Chart:
    """Each operation of prefill and decode under the roof of the chip it runs on; those in one place share a point."""
    phases = _phases(found)
    first = phases[0][1].machine
    together = [(name, *_together(_single(phase))) for name, phase in phases]
    kept = [
        only(replace(phase, machine=first), [part for part, _ in groups])
        for (_, phase), (_, groups, _) in zip(phases, together, strict=True)
    ]
    chart = roofline_chart([first], kept, title=f"{found.model.name} on {first.name}", theme=theme)
    labels = [(number, text) for number, (_, groups, _) in enumerate(together) for _, text in groups]
    several = len(phases) > 1
    marks = []
    left = iter(labels)
    for mark in chart.marks:
        if isinstance(mark, Point):
            number, text = next(left)
            name = f"{phases[number][0]}: {text}" if several else text
            mark = replace(mark, series=number if several else 0, shape=number, label=name, text=name)
        marks.append(mark)
    rest = [f"{count} shorter or byte-free operations of {name} left out" for name, _, count in together if count]
    asked = " · ".join(_sizes(name, phase) for name, phase in phases)
    return replace(chart, subtitle=asked, marks=tuple(marks), notes=(*rest, *chart.notes), height=520)


def time_by_operation(found: Serving, *, phase: str | None = None, theme: str = "light") -> Chart:
    """How long each operation of a phase takes at best, the longest first, in the colour of what binds it."""
    name, bound = _one(found, phase)
    _single(bound)
    ordered = sorted(bound.ops, key=lambda part: -float(part.lower))
    shown = ordered if len(ordered) <= MOST_ROWS else ordered[: MOST_ROWS - 1]
    rows: list[Row] = [(part.op.where, [(str(part.bound_by), float(part.lower))]) for part in shown if part.lower]
    rest = ordered[len(shown) :]
    if rest:
        binds = str(max(rest, key=lambda part: float(part.lower)).bound_by)
        rows.append((f"{len(rest)} more", [(binds, sum(float(part.lower) for part in rest))]))
    total = format_quantity(float(bound.op_by_op), "s")
    lower = format_quantity(float(bound.lower), "s")
    return bars_chart(
        rows,
        title=f"Time by operation: {found.model.name} {name} on {bound.target}",
        subtitle=f"{_sizes(name, bound)} · at best {lower} if all overlaps, {total} one after the other",
        label="time at best",
        unit="s",
        of="operation",
        notes=("colours: what binds each operation", *bound.assumptions),
        theme=theme,
    )


def memory_by_part(found: Serving, *, theme: str = "light") -> Chart:
    """Weights, keys and values and activations against what the chip holds, for each configuration asked for."""
    phases = _phases(found)
    needed = found.memory
    if not is_array(needed.total):
        rows: list[Row] = [
            (_sizes(name, phase), [(part, float(size)) for part, size in phase.footprint.parts.items()])
            for name, phase in phases
            if phase.footprint is not None
        ]
    else:
        rows = list(_configurations(found))
    capacity = needed.capacity
    return bars_chart(
        rows,
        title=f"Memory of {found.model.name} on {phases[0][1].target}",
        subtitle="" if found.ways.chips == 1 else f"of each of {found.ways.chips} chips",
        label="memory",
        unit="B",
        limit=None if capacity is None else (needed.level, float(capacity)),
        notes=phases[-1][1].assumptions,
        theme=theme,
    )


def _configurations(found: Serving) -> Iterator[Row]:
    """A row a configuration, spread evenly where they are many."""
    import numpy as np

    needed = found.memory
    varying = {name: size for _, phase in _phases(found) for name, size in phase.sizes.items() if is_array(size)}
    sizes = np.broadcast_arrays(*varying.values(), *needed.parts.values())
    flat = [array.ravel() for array in sizes]
    count = len(flat[0])
    kept = range(count)
    if count > MOST_ROWS:
        kept = sorted({round(i * (count - 1) / (MOST_ROWS - 1)) for i in range(MOST_ROWS)})  # type: ignore[assignment]
    for index in kept:
        name = ", ".join(f"{name} {int(array[index]):,}" for name, array in zip(varying, flat, strict=False))
        parts = zip(needed.parts, flat[len(varying) :], strict=True)
        yield name, [(part, float(array[index])) for part, array in parts]


def _phases(found: Serving) -> list[tuple[str, Bound]]:
    return [(name, phase) for name, phase in (("prefill", found.prefill), ("decode", found.decode)) if phase]


def _one(found: Serving, phase: str | None) -> tuple[str, Bound]:
    """The phase asked for; by default decode, which most time goes to."""
    have = dict(_phases(found))
    name = phase or list(have)[-1]
    if name not in have:
        raise InputError(f"no {name} was asked for", hint=f"there is {' and '.join(have)}")
    return name, have[name]


def _single(bound: Bound) -> Bound:
    if is_array(bound.lower):
        raise InputError(
            "this picture is of one configuration",
            hint="give every size one value, or ask for the view front or memory",
        )
    return bound


def _sizes(name: str, phase: Bound) -> str:
    asked = ", ".join(f"{key} {value:,}" for key, value in phase.sizes.items() if not is_array(value))
    return f"{name} ({asked})"


def _together(phase: Bound) -> tuple[list[tuple[OpBound, str]], int]:
    """An operation for each point with the names of all that share it; and how many operations are left out."""
    groups, left = gathered(phase, MOST_POINTS)
    return [(members[0], _named(members)) for members in groups], left


def _named(members: Sequence[OpBound]) -> str:
    """The operations of one point: the last words of their places, each once."""
    names = list(dict.fromkeys(part.op.where.rpartition(".")[2] for part in members))
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
