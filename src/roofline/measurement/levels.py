"""Memory levels from a curve of bandwidth over working set: where it steps down, whatever sizes the system reports.

>>> sizes = [2.0**k for k in range(12, 29)]
>>> curve = [(s, 400e9 if s <= 2**15 else 170e9 if s <= 2**21 else 17e9) for s in sizes]
>>> [(level.name, level.capacity, level.bandwidth) for level in find_levels(curve)]
[('l1', 32768.0, 400000000000.0), ('l2', 2097152.0, 170000000000.0), ('dram', None, 17000000000.0)]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from statistics import median, median_low

from roofline.frozen import dataclass

#: Levels below the main memory, innermost first.
INNER = ("l1", "l2", "l3", "l4")

#: Two neighbouring levels differ by at least this factor; less is noise or a change of mode.
STEP = 1.2

#: Each further level must reduce the summed distance (in natural logarithms of bandwidth) by this much.
PRICE = 0.25

#: How many times larger than a cache a working set must be before the cache no longer helps it.
BEYOND = 8.0

#: From its smallest to its largest working set a level spans at least this factor: caches grow by more.
WIDTH = 3.9

#: A level stands on at least this many points; between two levels single points may belong to neither.
LEAST_POINTS = 2

#: Working sets of two kernels within these ratios are the same one: vectors and arrays round them.
NEAR_LOW, NEAR_HIGH = 0.85, 1.18


@dataclass(frozen=True, slots=True)
class Level:
    """A plateau of the curve: its ``bandwidth``, and the largest working set that still had it.

    ``capacity`` is None for the outermost level, whose end the curve does not show. ``first`` is its smallest working
    set.
    """

    name: str
    bandwidth: float
    capacity: float | None
    first: float

    def points_within(self, points: Sequence[tuple[float, float]], inner: float | None) -> list[tuple[float, float]]:
        """Keep the points of one kernel that lie within this level; the level before holds ``inner`` bytes."""
        end = self.capacity or math.inf
        inside = [point for point in points if self.first <= point[0] <= end]
        if self.capacity is None:
            return plateau_points(points_beyond_cache(inside, inner))
        return inside if inner is None else plateau_points(inside)  # of the innermost no point is of a level before


def find_levels(curve: Sequence[tuple[float, float]], most: int | None = None) -> list[Level]:
    """Find the levels of a curve of (working set in bytes, bandwidth in B/s), innermost first.

    The curve, in logarithms, is covered by falling plateaus: the segmentation with the least sum of distances from
    each plateau's median, one level more only where it pays :data:`PRICE`. Points on the way down from one level to
    the next belong to neither. Small sets are slowed by the ends of loops and by launches, so a set counts as fast as
    the fastest larger one. A level's bandwidth is the best of its points, each of which is a median itself; that
    of the outermost level the best of those at least :data:`BEYOND` times as large as the level before holds.

    No more than ``most`` levels are found, the main memory among them: the smallest steps are no levels then.
    """
    points = _falling(sorted(curve))
    if not points:
        return []
    logs = [math.log(bandwidth) for _, bandwidth in points]
    groups = _wide(_merged(_segments(logs), logs), [size for size, _ in points])
    ends = groups
    while most is not None and len(groups) > max(most, 1):
        groups, ends = _without_smallest_step(groups, ends, logs)
    found: list[Level] = []
    for number, (start, end) in enumerate(groups):
        outermost = number == len(groups) - 1
        inside = points[start:end] if outermost or not number else plateau_points(points[start:end])
        inner = found[-1].capacity if found else None
        best = max(bandwidth for _, bandwidth in (points_beyond_cache(inside, inner) if outermost else inside))
        enough = math.exp(median_low(logs[slice(*ends[number])])) / STEP
        within = [size for size, bandwidth in inside if bandwidth >= enough]
        name = "dram" if outermost else INNER[number] if number < len(INNER) else f"l{number + 1}"
        found.append(Level(name, best, None if outermost else max(within), inside[0][0]))
    return found


def _falling(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Replace every bandwidth by the best at its set or any larger one.

    >>> _falling([(1, 2.0), (2, 5.0), (4, 3.0)])
    [(1, 5.0), (2, 5.0), (4, 3.0)]
    """
    found: list[tuple[float, float]] = []
    best = 0.0
    for size, bandwidth in reversed(points):
        best = max(best, bandwidth)
        found.append((size, best))
    return found[::-1]


def plateau_points(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the points less than a step above the median: a higher one still belongs to the level before.

    The median is that of a point, the lower one of two: between two plateaus of one length there is none.

    >>> plateau_points([(1, 9.0), (2, 4.1), (4, 4.0), (8, 4.0)])
    [(2, 4.1), (4, 4.0), (8, 4.0)]
    """
    middle = median_low([bandwidth for _, bandwidth in points]) if points else 0.0
    return [point for point in points if point[1] <= STEP * middle]


def points_beyond_cache(points: Sequence[tuple[float, float]], inner: float | None) -> Sequence[tuple[float, float]]:
    """Keep the points of the outermost level that a cache of ``inner`` bytes no longer helps; at least the last one.

    >>> points_beyond_cache([(10, 9.0), (80, 5.0), (160, 4.0)], 10)
    [(80, 5.0), (160, 4.0)]
    """
    return [point for point in points if point[0] >= BEYOND * (inner or 0.0)] or points[-1:]


def _segments(logs: Sequence[float]) -> list[tuple[int, int]]:
    """Cut into runs with the least Σ|log − median| + PRICE·runs, each of at least LEAST_POINTS where there are any."""
    least = min(LEAST_POINTS, len(logs))

    @cache
    def cost(start: int, end: int) -> float:
        middle = median(logs[start:end])
        return sum(abs(value - middle) for value in logs[start:end])

    best: list[tuple[float, int]] = [(0.0, 0)]
    for end in range(1, len(logs) + 1):
        options = [
            (best[start][0] + cost(start, end) + PRICE, start)
            for start in range(end - least + 1)
            if math.isfinite(best[start][0])
        ]
        best.append(min(options, default=(math.inf, 0)))
    cuts, end = [], len(logs)
    while end:
        start = best[end][1]
        cuts.append((start, end))
        end = start
    return cuts[::-1]


def _merged(groups: list[tuple[int, int]], logs: Sequence[float]) -> list[tuple[int, int]]:
    """Join neighbours that do not step down."""
    joined: list[tuple[int, int]] = []
    for group in groups:
        if joined and _middle(joined[-1], logs) - _middle(group, logs) < math.log(STEP):
            joined[-1] = (joined[-1][0], group[1])
        else:
            joined.append(group)
    return joined


def extended_capacity(loads: Sequence[tuple[float, float]], level: Level, following: float) -> float:
    """Find the largest working set below the ``following`` level's that a kernel still loads at a level's bandwidth.

    A kernel of several arrays stands in a cache with gaps between them, and so ends before one that only loads.

    >>> level = Level("l1", 9.0, 2.0, 1.0)
    >>> extended_capacity([(1, 9.0), (2, 9.0), (4, 8.5), (8, 3.0), (16, 3.0)], level, 16.0)
    4
    """
    end = level.capacity or level.first
    inside = [bandwidth for size, bandwidth in loads if level.first <= size <= end]
    if not inside:
        return end
    enough = median(inside) / STEP
    return max([end, *(size for size, bandwidth in loads if end < size < following and bandwidth >= enough)])


Runs = list[tuple[int, int]]


def _without_smallest_step(groups: Runs, ends: Runs, logs: Sequence[float]) -> tuple[Runs, Runs]:
    """Join the two neighbours whose bandwidths are nearest; ``ends`` are the last runs each was made of."""
    steps = [_middle(before, logs) - _middle(after, logs) for before, after in pairwise(groups)]
    at = steps.index(min(steps))
    joined = [*groups[:at], (groups[at][0], groups[at + 1][1]), *groups[at + 2 :]]
    return joined, [*ends[:at], *ends[at + 1 :]]


def agreed_curve(curves: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Combine the curves of several kernels into one, on the working sets of the first: their median.

    Each is taken relative to its own best, in logarithms; the median over the kernels counts, so that a disturbance
    of one kernel is no level.

    >>> load, disturbed = [(1, 8.0), (2, 8.0), (4, 2.0)], [(1, 4.0), (2, 2.0), (4, 1.0)]
    >>> agreed_curve([load, disturbed, [(1, 6.0), (2, 6.0), (4, 1.5)]])
    [(1, 8.0), (2, 8.0), (4, 2.0)]
    """
    if not curves:
        return []
    best = [max((bandwidth for _, bandwidth in curve), default=1.0) for curve in curves]
    found = []
    for size, _ in curves[0]:
        at = [
            bandwidth / most
            for curve, most in zip(curves, best, strict=True)
            for other, bandwidth in curve
            if NEAR_LOW <= other / size <= NEAR_HIGH
        ]
        found.append((size, best[0] * median(at)))
    return found


def _wide(groups: Runs, sizes: Sequence[float]) -> Runs:
    """Drop runs between two levels that span less than a factor WIDTH of sizes: transitions from one to the next.

    Narrow runs side by side count as one: a level of two states is no way.
    """
    joined: Runs = []
    for number, (start, end) in enumerate(groups):
        narrow = 0 < number < len(groups) - 1 and sizes[end - 1] < WIDTH * sizes[start]
        before = joined[-1] if len(joined) > 1 else None
        if narrow and before is not None and sizes[before[1] - 1] < WIDTH * sizes[before[0]]:
            joined[-1] = (before[0], end)
        else:
            joined.append((start, end))
    last = len(joined) - 1
    return [
        (start, end)
        for number, (start, end) in enumerate(joined)
        if number in (0, last) or sizes[end - 1] >= WIDTH * sizes[start]
    ]


def _middle(group: tuple[int, int], logs: Sequence[float]) -> float:
    return median(logs[slice(*group)])
