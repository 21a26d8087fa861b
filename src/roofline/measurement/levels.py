"""Statistics for a machine that others use too: which samples count, what they say, what makes them doubtful.

A sample is one short window of work. It counts when every thread really ran: CPU time at least 97 % of the wall time,
on a core that nobody else used (:mod:`roofline.measurement.threads`). Several rounds are interleaved over all
kernels, so that a busy second spoils one round and not one kernel; the answer is the median of the best round, with
that round's quartiles.

>>> quiet = [Sample(100.0 + i % 3, (1.0, 0.99)) for i in range(9)]
>>> busy = [Sample(60.0, (1.0, 0.55)) for _ in range(9)]
>>> found = summarise([busy, quiet, busy])
>>> found.value, found.low, found.high, found.samples, round(found.clean, 2)
(101.0, 100.0, 102.0, 9, 0.33)
>>> summarise([busy]).doubts
('no window in which every thread ran: a lower limit',)

Memory levels from a curve of bandwidth over working set: where it steps down, whatever sizes the system reports.

>>> sizes = [2.0**k for k in range(12, 29)]
>>> curve = [(s, 400e9 if s <= 2**15 else 170e9 if s <= 2**21 else 17e9) for s in sizes]
>>> [(level.name, level.capacity, level.bandwidth) for level in find_levels(curve)]
[('l1', 32768.0, 400000000000.0), ('l2', 2097152.0, 170000000000.0), ('dram', None, 17000000000.0)]
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise
from statistics import median, median_low

from roofline.frozen import NamedTuple, dataclass
from roofline.lazy import np
from roofline.quantity import format_percent, format_quantity

#: The least share of the wall time that every thread must have run for a window to count.
CLEAN = 0.97

#: The least share of its instruction fetching that a core must have to itself for a window to count.
OWN = 0.9

#: Two clusters of samples this far apart, each with at least this share of them, are two states of the machine.
MODES_APART, MODE_SHARE = 0.15, 0.2

#: Where a quarter of the rounds is this many times slower than the best, others used the machine.
ROUNDS_APART = 1.1

#: How near the best round another must come to confirm it: a processor's clock alone moves by steps of 3 to 4 %.
CONFIRMED = 0.05

#: A figure is settled with this many rounds near the best, and this share of all: more would not change it.
SETTLED, SETTLED_SHARE = 5, 0.5

#: Clean windows that a round needs to count, or half of the most that any round has where these are few.
ENOUGH = 3

#: Kinds of doubts: the figure was never taken on cores of its own, its threads never all ran, no other round confirms
#: its best one, its samples fall into two states, its rounds differ, others used its unit within the core.
SHARED, HELD_UP, ALONE = "shared cores", "no window in which every thread ran", "one round alone"
TWO_STATES, ROUNDS_DIFFER, SHARED_UNIT = "two states", "rounds apart", "shared core"

#: Kinds of doubts that tell of a machine that changed, or is not all there.
CHANGED = frozenset({SHARED, ALONE, TWO_STATES, ROUNDS_DIFFER, SHARED_UNIT})

#: A value is doubted above this multiple of what theory allows: clocks drift between two windows.
ABOVE_THEORY = 1.05

#: A thread that ran less than this share of a typical window idled or was taken away.
IDLE = 0.5


class Sample(NamedTuple):
    """One window: the rate it reached, and for every thread its CPU time as a share of the wall time.

    ``core`` is the least share a thread had of its core, which others may use unseen by this system, and ``clock`` the
    Hz it went at, None where that is not known.
    """

    value: float
    shares: tuple[float, ...]
    core: float = 1.0
    clock: float | None = None

    @property
    def ran(self) -> bool:
        """Whether every thread ran throughout."""
        return min(self.shares) >= CLEAN

    @property
    def clean(self) -> bool:
        """Whether every thread ran throughout, on a core of its own."""
        return self.ran and self.core >= OWN


@dataclass(frozen=True, slots=True)
class SampleSummary:
    """What the samples of one kernel say.

    ``value`` is the median of the best round, ``low`` and ``high`` its quartiles, ``samples`` how many windows it
    rests on, ``clean`` the share of all windows that were clean, ``doubts`` what a reader should know, ``clock`` the Hz
    that the cores went at meanwhile, None where that is not known.
    """

    value: float
    low: float
    high: float
    samples: int
    clean: float
    doubts: tuple[str, ...] = ()
    clock: float | None = None

    @property
    def confirmed(self) -> bool:
        """Whether a second round on cores of their own came near the best: what other runs find again."""
        return not self.doubted({ALONE, SHARED, HELD_UP})

    def doubted(self, kinds: Collection[str]) -> bool:
        """Whether a doubt is of one of these kinds."""
        return any(kind_of_doubt(doubt) in kinds for doubt in self.doubts)


def kind_of_doubt(doubt: str) -> str:
    """The kind of a doubt, which stands before a colon and its particulars.

    >>> kind_of_doubt("two states: around 10 and 20")
    'two states'
    """
    return doubt.partition(":")[0]


def summarise(
    rounds: Sequence[Sequence[Sample]],
    *,
    per_cycle: float | None = None,
    clock: float | None = None,
    smaller_is_better: bool = False,
    unit: str = "",
) -> SampleSummary | None:
    """Summarise the rounds of one kernel; None where nothing was sampled.

    ``per_cycle`` is the most that is possible in a cycle, of ``clock`` where the windows do not tell theirs.
    ``smaller_is_better`` is for times; doubts name figures in ``unit``. The best round on cores of its own stands where
    it comes near the best of all; else that one does, for it was reached. Where no thread ran throughout the fastest
    quarter stands in. Both are said.

    >>> summarise([[Sample(2.0, (1.0,)), Sample(3.0, (1.0,))], [Sample(5.0, (1.0,))]], smaller_is_better=True).value
    2.5
    >>> summarise([]) is None
    True
    """
    everything = [sample for one in rounds for sample in one]
    if not everything:
        return None
    doubts = []
    ordered = _ranked(rounds, smaller_is_better)
    if not ordered:
        by_value = sorted((sample.value for sample in everything), reverse=not smaller_is_better)
        ordered = [_Round(by_value[: max(1, len(by_value) // 4)], True, None)]
        doubts.append(f"{HELD_UP}: {'an upper' if smaller_is_better else 'a lower'} limit")
    fastest = ordered[0].median
    own = [one for one in ordered if one.own]
    alike = own if own and _near(fastest, own[0].median) else ordered
    best = alike[0].values
    value, low, high = median(best), quantile(best, 0.25), quantile(best, 0.75)
    doubts += _doubts(everything, [value for one in alike for value in one.values], unit)
    went = alike[0].clock or clock
    theory = None if per_cycle is None or went is None else per_cycle * went
    if theory is not None and value > ABOVE_THEORY * theory:
        doubts.append(f"{value / theory:.2f} of what theory allows")
    if not alike[0].own:
        doubts.append(f"{SHARED}: others were busy on them in the best round")
    medians = [one.median for one in alike]
    if len(rounds) > 1 and sum(_near(medians[0], other) for other in medians) < 2:
        doubts.append(f"{ALONE}: no other came within {format_percent(CONFIRMED)} of the best")
    usual = quantile(medians, 0.75 if smaller_is_better else 0.25)
    if max(usual, value) > ROUNDS_APART * min(usual, value):
        apart = f"from {format_quantity(value, unit)}, a quarter of them beyond {format_quantity(usual, unit)}"
        doubts.append(f"{ROUNDS_DIFFER}: {apart}")
    clean = sum(sample.clean for sample in everything) / len(everything)
    return SampleSummary(value, low, high, len(best), clean, tuple(doubts), alike[0].clock)


class RoundAgreement(NamedTuple):
    """Of the rounds on cores of their own, how many came near the best of all, and how many there are."""

    near: int
    own: int

    @property
    def settled(self) -> bool:
        """Whether half of them, five at least, came near: more would not change the figure."""
        return self.near >= max(SETTLED, SETTLED_SHARE * self.own)


def round_agreement(rounds: Sequence[Sequence[Sample]], *, smaller_is_better: bool = False) -> RoundAgreement:
    """Count the rounds that agree with the best one.

    >>> slow, fast = ([Sample(value, (1.0,))] * 5 for value in (60.0, 100.0))
    >>> round_agreement([slow, fast, fast])
    RoundAgreement(near=2, own=3)
    >>> [round_agreement(some).settled for some in ([fast, fast], [slow, slow, fast] * 5, [slow, fast] * 5)]
    [False, False, True]
    """
    ordered = _ranked(rounds, smaller_is_better)
    own = [one.median for one in ordered if one.own]
    return RoundAgreement(sum(_near(ordered[0].median, one) for one in own), len(own))


def _near(best: float, other: float) -> bool:
    """Whether another round comes near the best."""
    return abs(other - best) <= CONFIRMED * best


class _Round(NamedTuple):
    """The values of one round that count, whether they were taken on cores of their own, and at which clock."""

    values: list[float]
    own: bool
    clock: float | None

    @property
    def median(self) -> float:
        return median(self.values)


def _ranked(rounds: Sequence[Sequence[Sample]], smaller_is_better: bool) -> list[_Round]:
    """Sort rounds by their medians, the best first; those with too few values do not count.

    Of each the clean windows count; or all in which every thread ran, where too few were clean or these did better:
    a look before a window and one after it do not tell what came between.
    """
    enough = min(ENOUGH, max((sum(sample.ran for sample in one) for one in rounds), default=0) / 2)
    found = []
    for one in rounds:
        clean = _round([sample for sample in one if sample.clean], True)
        ran = _round([sample for sample in one if sample.ran], len(clean.values) >= enough > 0)
        counting = [some for some in (clean, ran) if some.values and len(some.values) >= enough]
        if counting:
            found.append((min if smaller_is_better else max)(counting, key=lambda some: some.median))
    return sorted(found, key=lambda some: some.median, reverse=not smaller_is_better)


def _round(counting: Sequence[Sample], own: bool) -> _Round:
    clocks = [sample.clock for sample in counting if sample.clock is not None]
    return _Round([sample.value for sample in counting], own, median(clocks) if clocks else None)


def _doubts(everything: Sequence[Sample], kept: Sequence[float], unit: str) -> list[str]:
    said = []
    modes = two_modes(kept)
    if modes is not None:
        said.append(f"{TWO_STATES}: around {' and '.join(format_quantity(mode, unit) for mode in modes)}")
    for thread in range(len(everything[0].shares)):
        if median(sample.shares[thread] for sample in everything) < IDLE:
            said.append(f"thread {thread} was idle or taken away most of the time")
    return said


def quantile(values: Sequence[float], at: float) -> float:
    """Value below which a share ``at`` of the values lies, interpolated.

    >>> quantile([1, 2, 3, 4, 5], 0.25), quantile([7.0], 0.75)
    (2.0, 7.0)
    """
    return float(np.quantile(values, at))


def two_modes(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the medians of two clusters where the values fall into two, else None.

    The values are cut at their widest gap; both sides need a fifth of them, medians 15 % apart, and a gap wider than
    either side's own spread.

    >>> two_modes([10, 10.1, 10.2, 10.1, 20, 20.1, 20.2, 20.1])
    (10.1, 20.1)
    >>> two_modes([10, 10.5, 11, 11.5, 12, 12.5, 13]) is None
    True
    """
    ordered = sorted(values)
    if len(ordered) < 6:
        return None
    gaps = [(after - before, index) for index, (before, after) in enumerate(pairwise(ordered), 1)]
    gap, cut = max(gaps)
    below, above = ordered[:cut], ordered[cut:]
    if min(len(below), len(above)) < MODE_SHARE * len(ordered):
        return None
    low, high = median(below), median(above)
    own = max(below[-1] - below[0], above[-1] - above[0])
    return (low, high) if high - low > MODES_APART * high and gap > own else None


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
    """Cut what falls into runs with the least Σ|log − median| + PRICE·runs, each of LEAST_POINTS or more."""
    least, upto = min(LEAST_POINTS, len(logs)), [0.0, *accumulate(logs)]

    def cost(start: int, end: int) -> float:
        half = (end - start) // 2  # of the falling ones the sum of distances from the median
        return upto[start + half] - upto[start] - (upto[end] - upto[end - half])

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
