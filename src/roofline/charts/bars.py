"""Bars in rows, each made of parts, against a limit: time by operation, memory by part, measured time by operation.

>>> rows = [("batch 8", [("weights", 8e9), ("kv", 4e9)])]
>>> chart = bars_chart(rows, title="Memory", label="memory", unit="B", limit=("hbm", 16e9))
>>> chart
<Chart 'Memory': bars with 1 line, 2 bars>
>>> [(bar.part, bar.x0, bar.x1, bar.text) for bar in chart.bars]
[('weights', 0.0, 8000000000.0, ''), ('kv', 8000000000.0, 12000000000.0, '12 GB')]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from roofline.bounds.bound import Bound
from roofline.charts.chart import Chart
from roofline.charts.specification import NEUTRAL, Axis, Bar, LeftOut, Line
from roofline.errors import InputError
from roofline.hardware.rate import main_level
from roofline.measurement.points import MeasuredPoint, time_by_operation
from roofline.quantity import format_percent, format_quantity
from roofline.sizes import sums_by_name

#: A row: its name, and its parts with their sizes.
Row = tuple[str, Sequence[tuple[str, float]]]

#: The most rows a picture holds.
MOST_ROWS = 16

#: Pixels of a row, and of what stands around the rows.
ROW, AROUND = 26, 170

#: Operations of a split that have a bar of their own.
MOST_OPERATIONS = 12

#: The parts of a bar of a split.
LEAST, REST, RULELESS = "the least its roof allows", "the rest", "no rule"

#: The colour of each kind of part, the same in every picture; parts of no kind take what these leave.
COLORS = {
    "weights": 0, "kv": 1, "activations": 2, "gradients": 3, "optimizer": 4, "a layer at work": 1,
    "attention": 0, "mlp": 1, "experts": 2, "recurrent": 3, "vocabulary": 4, "norms": 5,
    "fits": 0, "does not fit": 1, "does not run": 2, LEAST: 0, REST: 1, RULELESS: 2,
}  # fmt: skip

#: The colours of what binds, those that curves of times have: computing, moving, sending, hops; other units, memories.
MATRIX, MAIN, NETWORK, LATENCY, OTHER_UNIT, OTHER_MEMORY = range(6)

#: The share of the width that is left for the figures beside the longest bar.
BESIDE = 0.25


def left_out(rows: int, what: str) -> tuple[str, ...]:
    """A note on rows that a chart of bars has no room for.

    >>> left_out(40, "configurations"), left_out(16, "configurations")
    (('16 of 40 configurations are drawn',), ())
    """
    return (LeftOut(f"{MOST_ROWS} of {rows:,} {what} are drawn"),) if rows > MOST_ROWS else ()


def with_the_rest(rows: Sequence[Row]) -> list[Row]:
    """The first rows, and of those that have no room a last one: parts of one name together, the longest first.

    >>> rows = [("a", [("hbm", 9.0)])] * 15 + [("b", [("nic", 1.0)]), ("c", [("hbm", 2.0)])]
    >>> with_the_rest(rows)[-1]
    ('2 more', [('hbm', 2.0), ('nic', 1.0)])
    """
    shown = list(rows if len(rows) <= MOST_ROWS else rows[: MOST_ROWS - 1])
    left = rows[len(shown) :]
    sizes = sums_by_name((part, size) for _, parts in left for part, size in parts)
    together = sorted(sizes.items(), key=lambda each: -each[1])
    return [*shown, (f"{len(left):,} more", together)] if left else shown


def bars_chart(
    rows: Sequence[Row],
    *,
    title: str,
    label: str,
    unit: str,
    of: str = "",
    limit: tuple[str, float] | None = None,
    colors: Mapping[str, int] | None = None,
    subtitle: str = "",
    notes: Sequence[str] = (),
    texts: Mapping[str, str] | None = None,
) -> Chart:
    """Draw the ``rows`` from the top; each bar is as long as its parts together. Its size, or its text, is beside it.

    ``label`` and ``unit`` are those of the sizes, ``of`` says what the rows are. Parts of one name have one colour,
    that of their kind where they have one: :data:`COLORS`, or ``colors`` of the caller.
    ``limit`` is a line across all rows with its name; what lies beyond it is striped.
    """
    if not rows or len(rows) > MOST_ROWS:
        raise InputError(f"{len(rows)} rows of bars", hint=f"from 1 to {MOST_ROWS}")
    series = _colors(dict.fromkeys(part for _, parts in rows for part, _ in parts), {**COLORS, **(colors or {})})
    marks: list[Bar | Line] = []
    longest = 0.0
    for row, (name, parts) in enumerate(rows):
        at = 0.0
        for number, (part, size) in enumerate(parts, 1):
            text = (texts or {}).get(name) or format_quantity(at + size, unit) if number == len(parts) else ""
            over = limit[1] if limit is not None and at + float(size) > limit[1] else None
            marks.append(Bar(f"{name}: {part}", row, at, at + float(size), series[part], part, text, over))
            at += float(size)
        longest = max(longest, at)
    if limit is not None:
        what, most = limit
        across = (0.0, float(len(rows)))
        text = f"{what} {format_quantity(most, unit)}"
        marks.append(Line(what, (most, most), across, "ceiling", NEUTRAL, 1, text))
        longest = max(longest, most)
    return Chart(
        kind="bars",
        title=title,
        subtitle=subtitle,
        x=Axis(label, unit, "linear", (0.0, longest * (1 + BESIDE) or 1.0)),
        y=Axis(of, "", "linear", (float(len(rows)), 0.0), tuple(name for name, _ in rows)),
        marks=tuple(marks),
        notes=tuple(notes),
        height=max(260, AROUND + ROW * len(rows)),
    )


def memory_chart(rows: Sequence[Row], needed: Any, **said: Any) -> Chart:
    """Draw what a chip holds, part by part, against what the level of ``needed`` memory has, where that is known."""
    limit = None if needed.capacity is None else (needed.level, float(needed.capacity))
    return bars_chart(rows, label="memory", unit="B", limit=limit, **said)


def _colors(names: Iterable[str], kinds: Mapping[str, int]) -> dict[str, int]:
    """The colour of each part: that of its kind, of those without one the first that is left.

    >>> _colors(["kv", "weights", "buffers"], COLORS)
    {'kv': 1, 'weights': 0, 'buffers': 2}
    """
    taken = {kinds[name] for name in names if name in kinds}
    free = (color for color in count() if color not in taken)
    return {name: kinds[name] if name in kinds else next(free) for name in names}


def colors_of_resources(bound: Bound) -> dict[str, int]:
    """The colour of each resource that a bound uses, by what it is, whatever a machine calls it.

    The first of a kind has it; another one, as the second of two networks, takes a colour that is left.

    >>> from roofline import bound
    >>> line = "h = bf16[64, 8192] * bf16[8192, 8192]; gelu(h)"
    >>> [sorted(colors_of_resources(bound(line, on=chip)).items()) for chip in ("v5e", "l4")]
    [[('hbm', 1), ('mxu', 0), ('vpu', 4)], [('cuda', 4), ('dram', 1), ('tensor', 0)]]
    """
    main = main_level(bound.machine).name
    matrix = {unit.name for unit in bound.machine.units if unit.kind == "matrix"}
    kinds = {"wire": NETWORK, "hops": LATENCY}
    found: dict[str, int] = {}
    for use in bound.uses:
        if use.quantity == "flops":
            color = MATRIX if use.resource in matrix else OTHER_UNIT
        elif use.quantity == "bytes":
            color = MAIN if use.resource == main else OTHER_MEMORY
        else:
            color = kinds.get(use.quantity, OTHER_MEMORY)
        if color not in found.values():
            found.setdefault(use.resource, color)
    return found


def split_chart(points: Sequence[MeasuredPoint], *, unpriced: Mapping[str, float] | None = None) -> Chart:
    """Draw the time every operation took, longest first, and in each bar the part that its roof cannot do without.

    Operations of one name count together, those beyond the first :data:`MOST_OPERATIONS` names as one.

    ``unpriced`` are seconds of operations without a rule: what their roof allows is unknown.
    """
    if not points:
        raise InputError("there are no runs to split the time of", hint="give points of a run or a profile")
    ruleless = dict(unpriced or {})
    total = sum(point.run.in_all for point in points) + sum(ruleless.values())
    least = dict.fromkeys(ruleless, 0.0) | sums_by_name((point.run.name, point.least) for point in points)
    rows = time_by_operation([point.run for point in points], ruleless)
    shown = [
        _split_row(f"{name}, {format_percent(share)}", seconds, least[name], ruleless.get(name, 0.0))
        for name, seconds, share in rows[:MOST_OPERATIONS]
    ]
    others = [name for name, _, _ in rows[MOST_OPERATIONS:]]
    rest = sum(seconds for _, seconds, _ in rows[MOST_OPERATIONS:])
    if rest:
        within, without = (sum(part.get(name, 0.0) for name in others) for part in (least, ruleless))
        shown.append(_split_row(f"{len(others)} more, {format_percent(rest / total)}", rest, within, without))
    within = sum(1 for name, seconds, _ in rows if seconds - ruleless.get(name, 0.0) < least[name])
    which = "1 operation" if within == 1 else f"{within} operations"
    return bars_chart(
        shown,
        notes=[f"{which} took less than the roof allows"] if within else [],
        title="Time by operation",
        subtitle=f"{format_quantity(total, 's')} in all, under the roof of {points[0].bound.machine.name}",
        label="time",
        unit="s",
    )


def _split_row(name: str, seconds: float, least: float, ruleless: float) -> Row:
    """A bar as long as the time; one above its roof has no rest."""
    inside = min(least, seconds - ruleless)
    parts = [(LEAST, inside), (REST, seconds - inside - ruleless), (RULELESS, ruleless)]
    return name, parts if ruleless else parts[:2]
