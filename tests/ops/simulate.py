"""A step-by-step simulation of collectives: who sends which bytes of which shard to whom, over which link, when.

The unit is a *gather schedule*: steps of messages by which every chip gets every other's shard exactly once. Run
forwards it is an AllGather. Run backwards, adding up instead of copying, it is a ReduceScatter; one after the other
they are an AllReduce. Both check the arrays that come out. A :class:`Trace` counts bytes by step and link.

Chips have coordinates, one a physical axis. Nothing here uses the formulas of the package.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations, product
from math import lcm, prod
from typing import NamedTuple

import numpy as np

Chip = tuple[int, ...]


class Piece(NamedTuple):
    """Part of one chip's shard: from ``start`` to ``stop``, as fractions of the shard."""

    owner: Chip
    start: Fraction
    stop: Fraction

    def halves(self) -> tuple[Piece, Piece]:
        middle = (self.start + self.stop) / 2
        return Piece(self.owner, self.start, middle), Piece(self.owner, middle, self.stop)


class Message(NamedTuple):
    """One piece on its way over one link, or over several that it crosses at once (a fat tree)."""

    source: Chip
    target: Chip
    links: tuple[tuple[object, ...], ...]
    piece: Piece


Step = list[Message]


class Dimension(NamedTuple):
    """One physical axis: how many chips, joined how, and the places (tiers) its messages cross.

    ``kind`` is ring, line, one-way, switch (everyone's port), tree (a switch, by doubling), direct (a switch, all at
    once) or mesh (a link for every pair, all at once).
    """

    place: str
    size: int
    kind: str
    crossed: tuple[str, ...] = ()


@dataclass
class Trace:
    """Bytes by step and link, of each place."""

    steps: list[dict[tuple[object, ...], Fraction]] = field(default_factory=list)

    def add(self, sizes: Iterable[tuple[tuple[object, ...], Fraction]]) -> None:
        step: dict[tuple[object, ...], Fraction] = defaultdict(Fraction)
        for link, size in sizes:
            step[link] += size
        self.steps.append(dict(step))

    def busiest(self, place: str) -> Fraction:
        """Bytes over the busiest link of a place."""
        total: dict[tuple[object, ...], Fraction] = defaultdict(Fraction)
        for step in self.steps:
            for link, size in step.items():
                total[link] += size
        return max((size for link, size in total.items() if link[0] == place), default=Fraction(0))

    def serial(self, place: str) -> Fraction:
        """Bytes that follow one another when every step waits for its slowest link."""
        return sum(
            (max((s for link, s in step.items() if link[0] == place), default=Fraction(0)) for step in self.steps),
            Fraction(0),
        )

    def hops(self, place: str) -> int:
        """Steps in which anything crosses a place."""
        return sum(any(link[0] == place for link in step) for step in self.steps)


# ---- one axis: positions 0 … n − 1; a schedule says, step by step, who sends whose data to whom


def _ring_one_way(n: int) -> Iterator[list[tuple[int, int, int, int | None]]]:
    for t in range(n - 1):
        yield [(i, (i + 1) % n, (i - t) % n, None) for i in range(n)]


def _ring_two_way(n: int) -> Iterator[list[tuple[int, int, int, int | None]]]:
    """Both ways; the chip opposite is reached by one half each way; two chips have one way."""
    if n == 2:
        yield from _ring_one_way(2)
        return
    for t in range(n // 2):
        half = n % 2 == 0 and t == n // 2 - 1
        right = [(i, (i + 1) % n, (i - t) % n, 0 if half else None) for i in range(n)]
        left = [(i, (i - 1) % n, (i + t) % n, 1 if half else None) for i in range(n)]
        yield right + left


def _line(n: int) -> Iterator[list[tuple[int, int, int, int | None]]]:
    for t in range(n - 1):
        right = [(i, i + 1, i - t, None) for i in range(n - 1) if i - t >= 0]
        left = [(i, i - 1, i + t, None) for i in range(1, n) if i + t < n]
        yield right + left


def _at_once(n: int) -> Iterator[list[tuple[int, int, int, int | None]]]:
    if n > 1:
        yield [(i, j, i, None) for i in range(n) for j in range(n) if i != j]


def _doubling(n: int) -> Iterator[list[tuple[int, int, int, int | None]]]:
    """Bruck: in step k a chip sends what it has, at most what is missing, 2^k places back."""
    have = 1
    while have < n:
        count = min(have, n - have)
        yield [(i, (i - have) % n, (i + block) % n, None) for i in range(n) for block in range(count)]
        have += count


SCHEDULES: dict[str, Callable[[int], Iterator[list[tuple[int, int, int, int | None]]]]] = {
    "one-way": _ring_one_way,
    "ring": _ring_two_way,
    "line": _line,
    "switch": _ring_one_way,
    "direct": _at_once,
    "mesh": _at_once,
    "tree": _doubling,
}


def _link(dimension: Dimension, place: str, source: Chip, target: Chip) -> tuple[object, ...]:
    """A link of its own for every pair of neighbours or of a mesh; a switch has one port for each chip."""
    port = dimension.kind in ("switch", "direct", "tree")
    return (place, source) if port else (place, source, target)


# ---- several axes


def chips_of(dimensions: Sequence[Dimension]) -> list[Chip]:
    return list(product(*(range(d.size) for d in dimensions)))


def phase(dimensions: Sequence[Dimension], axis: int, held: dict[Chip, list[Piece]]) -> list[Step]:
    """All lines along one axis gather at once; ``held`` is brought up to date."""
    dimension = dimensions[axis]
    steps: list[Step] = []
    for moves in SCHEDULES[dimension.kind](dimension.size):
        step: Step = []
        for rest in product(*(range(d.size) if i != axis else (0,) for i, d in enumerate(dimensions))):
            at = [(*rest[:axis], p, *rest[axis + 1 :]) for p in range(dimension.size)]
            for source, target, origin, which in moves:
                links = tuple(
                    _link(dimension, place, at[source], at[target]) for place in (dimension.place, *dimension.crossed)
                )
                for whole in held[at[origin]]:
                    piece = whole if which is None else whole.halves()[which]
                    step.append(Message(at[source], at[target], links, piece))
        steps.append(step)
    before = {chip: list(pieces) for chip, pieces in held.items()}
    for chip in held:
        held[chip] = [piece for p in range(dimension.size) for piece in before[(*chip[:axis], p, *chip[axis + 1 :])]]
    return steps


def gather_schedule(dimensions: Sequence[Dimension], orders: Sequence[tuple[tuple[int, ...], Fraction]]) -> list[Step]:
    """Split every shard into parts that gather by the axes in different orders, at the same time."""
    steps: list[Step] = []
    start = Fraction(0)
    for order, share in orders:
        held = {chip: [Piece(chip, start, start + share)] for chip in chips_of(dimensions)}
        part = [step for axis in order for step in phase(dimensions, axis, held)]
        for index, step in enumerate(part):
            if index == len(steps):
                steps.append([])
            steps[index].extend(step)
        start += share
    return steps


def balanced_orders(dimensions: Sequence[Dimension]) -> list[tuple[tuple[int, ...], Fraction]]:
    """Shares of the orders of the axes at which every link of a torus carries the same.

    By the order a b c, axis a moves (a − 1)/N of the array, b moves a(b − 1)/N and c moves ab(c − 1)/N; the shares
    make each axis move as much as it has ways round, of all ways.
    """
    used = [i for i, d in enumerate(dimensions) if d.size > 1]
    if not used:
        return [((), Fraction(1))]
    ways = {i: 2 if dimensions[i].kind == "ring" and dimensions[i].size > 2 else 1 for i in used}
    total = prod(dimensions[i].size for i in used) - 1
    target = [Fraction(total * ways[i], sum(ways.values())) for i in used]
    loads = {order: _loads(dimensions, order, used) for order in permutations(used)}
    for chosen in _subsets(list(loads), len(used)):
        shares = _solve([loads[order] for order in chosen], target)
        if shares is not None:
            return [(order, share) for order, share in zip(chosen, shares, strict=True) if share > 0]
    raise AssertionError("no balanced shares")


def _loads(dimensions: Sequence[Dimension], order: tuple[int, ...], used: Sequence[int]) -> list[Fraction]:
    before, load = 1, {}
    for i in order:
        load[i] = Fraction(before * (dimensions[i].size - 1))
        before *= dimensions[i].size
    return [load[i] for i in used]


def _subsets(items: list[tuple[int, ...]], count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    from itertools import combinations

    for size in range(1, count + 1):
        yield from combinations(items, size)


def _solve(columns: list[list[Fraction]], target: list[Fraction]) -> list[Fraction] | None:
    """Non-negative shares with Σ share·column = target, exactly, or None."""
    rows = [[column[r] for column in columns] + [target[r]] for r in range(len(target))]
    count, pivots = len(columns), []
    row = 0
    for col in range(count):
        best = next((r for r in range(row, len(rows)) if rows[r][col] != 0), None)
        if best is None:
            return None
        rows[row], rows[best] = rows[best], rows[row]
        rows[row] = [x / rows[row][col] for x in rows[row]]
        for r in range(len(rows)):
            if r != row:
                rows[r] = [x - rows[r][col] * y for x, y in zip(rows[r], rows[row], strict=True)]
        pivots.append(row)
        row += 1
    if any(rows[r][-1] != 0 for r in range(row, len(rows))):
        return None
    shares = [rows[r][-1] for r in pivots]
    return shares if all(s >= 0 for s in shares) else None


# ---- running a schedule on arrays


@dataclass
class Run:
    """What a schedule did: the trace, with bytes as fractions of the whole array V = 1."""

    trace: Trace
    chips: int


def _elements(steps: Sequence[Step]) -> int:
    """Elements of a shard that make every piece whole."""
    return lcm(*(f.denominator for step in steps for m in step for f in (m.piece.start, m.piece.stop)), 1)


def _slice(piece: Piece, place: dict[Chip, int], elements: int) -> slice:
    base = place[piece.owner] * elements
    return slice(base + int(piece.start * elements), base + int(piece.stop * elements))


def all_gather(dimensions: Sequence[Dimension], steps: Sequence[Step]) -> Run:
    """Run the schedule forwards: copy, and check that every chip ends with the whole array."""
    chips = chips_of(dimensions)
    place = {chip: i for i, chip in enumerate(chips)}
    elements = _elements(steps)
    whole = np.arange(1, len(chips) * elements + 1)
    have = {chip: np.zeros_like(whole) for chip in chips}
    for chip in chips:
        own = _slice(Piece(chip, Fraction(0), Fraction(1)), place, elements)
        have[chip][own] = whole[own]
    trace = Trace()
    for step in steps:
        sent = [(m, have[m.source][_slice(m.piece, place, elements)].copy()) for m in step]
        for message, data in sent:
            here = _slice(message.piece, place, elements)
            assert data.all(), "a chip sends what it does not have"
            assert not have[message.target][here].any(), "a chip gets a piece twice"
            have[message.target][here] = data
        trace.add(_sizes(step, len(chips)))
    for chip in chips:
        assert np.array_equal(have[chip], whole), f"{chip} lacks something"
    return Run(trace, len(chips))


def reduce_scatter(dimensions: Sequence[Dimension], steps: Sequence[Step]) -> Run:
    """Run the schedule backwards: add, and check that every chip ends with the sum of its shard."""
    chips = chips_of(dimensions)
    place = {chip: i for i, chip in enumerate(chips)}
    elements = _elements(steps)
    rng = np.random.default_rng(0)
    partial = {chip: rng.integers(1, 100, len(chips) * elements) for chip in chips}
    total = sum(partial.values())
    trace = Trace()
    for step in reversed(steps):
        sent = [(m, partial[m.target][_slice(m.piece, place, elements)].copy()) for m in step]
        for message, _ in sent:
            partial[message.target][_slice(message.piece, place, elements)] = 0
        for message, data in sent:
            partial[message.source][_slice(message.piece, place, elements)] += data
        trace.add(_sizes([m._replace(links=_back(m)) for m in step], len(chips)))
    for chip in chips:
        own = _slice(Piece(chip, Fraction(0), Fraction(1)), place, elements)
        assert np.array_equal(partial[chip][own], total[own]), f"the sum at {chip} is wrong"
    return Run(trace, len(chips))


def _back(message: Message) -> tuple[tuple[object, ...], ...]:
    """The same links the other way: the port of the chip that sends now."""
    return tuple(
        (link[0], message.target) if len(link) == 2 else (link[0], message.target, message.source)
        for link in message.links
    )


def _sizes(step: Step, chips: int) -> Iterator[tuple[tuple[object, ...], Fraction]]:
    for message in step:
        for link in message.links:
            yield link, (message.piece.stop - message.piece.start) / chips


def all_reduce(dimensions: Sequence[Dimension], steps: Sequence[Step]) -> Run:
    """Run the schedule backwards, then forwards."""
    first, second = reduce_scatter(dimensions, steps), all_gather(dimensions, steps)
    return Run(Trace([*first.trace.steps, *second.trace.steps]), first.chips)
