"""An expression over one size, as curves: what :func:`roofline.bounds.sweep.sweep` answers, split by the other sizes.

>>> curves = series("bf16[B, D] * int8[D, F] -> bf16[B, F]", "B", on="v5e", set={"hbm": 8.2e11},
...                 sizes={"B": range(1, 512), "D": [1024, 4096], "F": "D"})
>>> [(curve.label, round(curve.knees[0].x, 1), curve.knees[0].before) for curve in curves]
[('D = F = 1024', 226.3, 'hbm'), ('D = F = 4096', 136.1, 'hbm')]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from roofline.bounds.bound import Bound
from roofline.bounds.sweep import Sweep, resized, sweep
from roofline.errors import SizeError, did_you_mean
from roofline.frozen import dataclass
from roofline.quantity import format_number
from roofline.statements import Assumption

COLUMNS = ("flops", "lower", "upper", "attainable", "times", "bound_by")

#: The most curves one chart can hold and still be told apart.
MOST_CURVES = 12

#: Rows of one refinement when a knee is looked for between two sizes that are far apart.
_REFINED = 1024

# Of a sharded expression, 2 to this power of sizes are tried one by one, since not all divide.
_SHARDED_BITS = 6

#: Sizes this near each other, as a share, have a straight line between them.
_CLOSE = 0.02

#: A time that is less than this part of what a fall with the cube of a size leaves has made a step.
_STEEP = 0.99


@dataclass(frozen=True, slots=True)
class Knee:
    """A point of a curve. Of a knee what binds changes at ``x``, from ``before`` to ``after``; times by resource.

    ``ends`` are the sizes on both sides of it that were evaluated, the nearest there are.
    """

    x: float
    attainable: float
    lower: float
    upper: float
    times: Mapping[str, float]
    before: str
    after: str
    ends: tuple[int, int]

    def text(self, unknown: str) -> str:
        """Where it is: a figure between sizes that are close, else both sizes, for nothing between them can be run.

        >>> Knee(2.5, 1.0, 1.0, 1.0, {}, "hbm", "mxu", (2, 3)).text("B")
        'B = 2.5'
        >>> Knee(3.2, 1.0, 1.0, 1.0, {}, "mxu", "ici", (2, 4)).text("n")
        'n between 2 and 4'
        """
        low, high = self.ends
        if _close(low, high):
            return f"{unknown} = {format_number(self.x)}"
        return f"{unknown} between {low} and {high}"

    def label(self, unknown: str) -> str:
        """Where it is, and what binds beyond: ``from B = 255.5 mxu binds``."""
        return f"from {self.text(unknown)} {self.after} binds"


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One curve: sizes in rising order, its knees among them, and for each what is attainable and how long it takes.

    ``answer`` is the whole bound at the largest size, for its rates and assumptions, ``smallest`` that at the smallest;
    ``sizes`` are the other sizes that differ between curves; ``left_out`` says which rows have no figures.
    """

    expression: str
    unknown: str
    sizes: Mapping[str, int]
    x: tuple[float, ...]
    attainable: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    times: Mapping[str, tuple[float, ...]]
    knees: tuple[Knee, ...]
    answer: Bound
    smallest: Bound | None = None
    left_out: tuple[str, ...] = ()

    @property
    def said(self) -> list[str]:
        """What was assumed and left out over all sizes, and of what differs at which end."""
        last = _said_of(self.answer)
        if self.smallest is None:
            return last
        first = _said_of(self.smallest)
        ends = ((self.x[0], first, last), (self.x[-1], last, first))
        only = [
            _at_size(note, f"{self.unknown} = {size:g}")
            for size, own, other in ends
            for note in own
            if note not in other
        ]
        return [*(note for note in last if note in first), *only, *self.left_out]

    @property
    def label(self) -> str:
        """The sizes that tell this curve from its neighbours: ``D = F = 1024``."""
        by_value: dict[int, list[str]] = {}
        for name, value in self.sizes.items():
            by_value.setdefault(value, []).append(name)
        return ", ".join(" = ".join([*names, str(value)]) for value, names in by_value.items())


def _said_of(answer: Bound) -> list[str]:
    return [*answer.assumptions, *answer.incomplete]


def _at_size(note: str, size: str) -> str:
    """A statement with the size that it is of."""
    text = f"at {size}: {note}"
    return Assumption(note.kind, text) if isinstance(note, Assumption) else text


def series(expression: str | None, unknown: str, *, sizes: Mapping[str, Any], **arguments: Any) -> list[Series]:
    """Evaluate an expression over ``unknown``, one curve a combination of the other sizes with several values.

    ``arguments`` are those of :func:`roofline.bound`. Sizes given as text are formulas and add no curve.
    """
    _check(unknown, sizes)
    table = sweep(expression, columns=COLUMNS, sizes=sizes, **arguments)

    def finer(values: Sequence[int], others: Mapping[str, int]) -> Sweep:
        fixed = {k: v if isinstance(v, str) else others[k] for k, v in sizes.items() if k != unknown}
        return resized(table, COLUMNS, {**fixed, unknown: values})

    return [_curve(table, rows, unknown, others, finer) for rows, others in _groups(table, unknown, sizes)]


_AS_IN = ", as in {0}=range(1, 512), on a command line {0}=1:511"


def _check(unknown: str, sizes: Mapping[str, Any]) -> None:
    if unknown not in sizes:
        near = did_you_mean(unknown, sizes)
        hint = f"did you mean {near!r}?" if near else f"give it several values{_AS_IN.format(unknown)}"
        raise SizeError(f"nothing varies: size {unknown} is not given", hint=hint)
    given = sizes[unknown]
    if not _is_listed(given) or len({float(value) for value in given}) < 2:
        raise SizeError(
            f"size {unknown} has one value, {given!r}", hint=f"a curve needs several{_AS_IN.format(unknown)}"
        )
    several = {name: len(set(value)) for name, value in sizes.items() if name != unknown and _is_listed(value)}
    curves = math.prod(several.values())
    if curves > MOST_CURVES:
        hint = f"give fewer values to {', '.join(name for name, count in several.items() if count > 1)}"
        raise SizeError(f"{curves:,} curves are more than a chart can tell apart ({MOST_CURVES})", hint=hint)


def _is_listed(value: Any) -> bool:
    return not isinstance(value, str) and hasattr(value, "__len__")


def _groups(table: Sweep, unknown: str, sizes: Mapping[str, Any]) -> list[tuple[Any, dict[str, int]]]:
    """Row numbers of each curve that have figures, by rising unknown, with its other sizes."""
    import numpy as np

    others = [name for name in table.names if name != unknown and not isinstance(sizes.get(name), str)]
    known = ~np.isnan(table["lower"])
    keys: dict[tuple[int, ...], None] = dict.fromkeys(
        zip(*(map(int, table[name].tolist()) for name in others), strict=True) if others else [()]
    )
    groups = []
    for key in keys:
        same = known.copy()
        for name, value in zip(others, key, strict=True):
            same &= table[name] == value
        rows = np.flatnonzero(same)
        if not len(rows):
            continue
        _, first = np.unique(table[unknown][rows], return_index=True)
        groups.append((rows[first], dict(zip(others, key, strict=True))))
    return groups


def _curve(
    table: Sweep, rows: Any, unknown: str, others: Mapping[str, int], finer: Callable[[Sequence[int], Any], Sweep]
) -> Series:
    varied = {name for name in table.names if len(set(table[name].tolist())) > 1 and len(set(table[name][rows])) == 1}
    first, answer = int(rows[0]), table.row(int(rows[-1]))
    asked = _points(table, unknown, rows)
    drawn: list[Knee] = asked[:1]
    for left, right in pairwise(asked):
        drawn += [*_bends(left, right, lambda values: _points(_refined(values, others, finer), unknown)), right]
    return Series(
        expression=table.question.text or table.question.expression,
        unknown=unknown,
        sizes={name: int(table[name][first]) for name in table.names if name in varied},
        **{name: tuple(getattr(point, name) for point in drawn) for name in ("x", "attainable", "lower", "upper")},
        times={name: tuple(point.times.get(name, 0.0) for point in drawn) for name in _resources(table)},
        knees=tuple(point for point in drawn if point.after != point.before),
        answer=answer,
        smallest=table.row(first),
        left_out=tuple(line for line in table.incomplete if line not in answer.incomplete),
    )


def _points(table: Sweep, unknown: str, rows: Any = slice(None)) -> list[Knee]:
    """Rows of a table as points of a curve, at which nothing changes."""
    names = [f"time.{name}" for name in _resources(table)]
    columns = (table[name][rows].tolist() for name in (unknown, "attainable", "lower", "upper", "bound_by", *names))
    return [
        Knee(float(x), rate, lower, upper, dict(zip(_resources(table), times, strict=True)), by, by, (int(x), int(x)))
        for x, rate, lower, upper, by, *times in zip(*columns, strict=True)
    ]


def _close(low: float, high: float) -> bool:
    return high - low <= max(1, _CLOSE * low)


def _bends(left: Knee, right: Knee, between: Callable[[tuple[int, int]], list[Knee]]) -> Iterator[Knee]:
    """What a curve does between two of its points: knees, and the two points of each step."""
    before, after = _narrowed(left, right, between, _fall) if _is_step(left, right) else (left, right)
    if not _is_step(before, after):
        if left.before == right.before:
            return
        before, after = _narrowed(left, right, between, _flip)
        if not _is_step(before, after):
            yield _knee(before, after)
            return
    if before.x > left.x:
        yield from (*_bends(left, before, between), before)
    if after.x < right.x:
        yield from (after, *_bends(after, right, between))


def _is_step(low: Knee, high: Knee) -> bool:
    """Whether a time falls so much faster than sizes rise that a line would mislead: another algorithm is faster."""
    ratio = low.x / high.x
    return any(time > 0 and high.times[name] < _STEEP * ratio**3 * time for name, time in low.times.items())


def _fall(points: Sequence[Knee]) -> int:
    """The point before which a time falls most."""

    def left_over(at: int) -> float:
        times = points[at - 1].times.items()
        return min((points[at].times[name] / time for name, time in times if time > 0), default=1.0)

    return min(range(1, len(points)), key=left_over)


def _flip(points: Sequence[Knee]) -> int:
    """The first point at which something else binds."""
    return next(at for at, point in enumerate(points) if point.before != points[0].before)


def _narrowed(
    low: Knee,
    high: Knee,
    between: Callable[[tuple[int, int]], list[Knee]],
    change: Callable[[Sequence[Knee]], int],
) -> tuple[Knee, Knee]:
    """The two sizes next to each other that a change lies between, or the nearest that can be run."""
    while high.x - low.x > 1:
        points = between((int(low.x), int(high.x)))
        at = change(points)
        low, high = points[at - 1], points[at]
        if len(points) == 2:
            break
    return low, high


def _knee(low: Knee, high: Knee) -> Knee:
    """Put the crossing of what binds between two sizes by a straight line.

    Times are linear in a size between neighbours, or nearly so, which makes it exact. Between sizes that are far apart,
    where nothing can be run, the line is that of the logarithms, as it is drawn, of all that has one.
    """
    before, after = low.before, high.before
    far = not _close(low.x, high.x)

    def straight(begin: float, end: float, bent: bool) -> tuple[float, float]:
        return (math.log(begin), math.log(end)) if bent else (begin, end)

    there = [(low.times[name], high.times[name]) for name in (before, after)]
    bent = far and min(map(min, there)) > 0
    first, second = (straight(*ends, bent) for ends in there)
    gap = first[0] - second[0], first[1] - second[1]
    part = gap[0] / (gap[0] - gap[1]) if gap[0] != gap[1] else 0.5
    left, right = straight(low.x, high.x, bent)
    x = math.exp(left + part * (right - left)) if bent else left + part * (right - left)

    def at_knee(begin: float, end: float) -> float:
        """A figure at the knee; of sizes far apart by its logarithm, where it has one at both."""
        bent = far and min(begin, end) > 0
        (begin, end), (left, right) = straight(begin, end, bent), straight(low.x, high.x, bent)
        found = begin + (end - begin) * ((math.log(x) if bent else x) - left) / (right - left)
        return math.exp(found) if bent else found

    times = {name: at_knee(low.times[name], high.times[name]) for name in low.times}
    time = times[after]
    flops = at_knee(low.attainable * low.lower, high.attainable * high.lower)
    upper, ends = at_knee(low.upper, high.upper), (int(low.x), int(high.x))
    return Knee(x, flops / time, time, upper, times | {before: time}, before, after, ends)


def _refined(ends: tuple[int, int], others: Mapping[str, int], finer: Callable[[Sequence[int], Any], Sweep]) -> Sweep:
    """Evaluate sizes between two; of a sharded expression those that its mesh axes divide."""
    import numpy as np

    start, stop = ends
    found = finer(sorted({int(size) for size in np.linspace(start, stop, _REFINED).tolist()}), others)
    if np.isnan(found["lower"]).any():
        step = 1 << max((stop - start).bit_length() - _SHARDED_BITS, 0)
        inside = [s for s in range(start - start % step + step, stop, step) if _divides(s, others, finer)]
        return finer([start, *inside, stop], others)
    return found


def _divides(size: int, others: Mapping[str, int], finer: Callable[[Sequence[int], Any], Sweep]) -> bool:
    try:
        finer([size], others)
    except SizeError:
        return False
    return True


def _resources(table: Sweep) -> list[str]:
    return [name.removeprefix("time.") for name in table.columns if name.startswith("time.")]
