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


#: A link of a place: of its own for a pair of chips, or the way out of a chip into a switch, or the way in.
Link = tuple[str, object, object]


class Message(NamedTuple):
    """One piece on its way over one link, or over several that it crosses at once (a switch, a fat tree).

    ``again`` says that the target has it already and only passes it on.
    """

    source: Chip
    target: Chip
    links: tuple[Link, ...]
    piece: Piece
    again: bool = False


Step = list[Message]


class Dimension(NamedTuple):
    """One physical axis: how many chips, joined how, and the places (tiers) its messages cross.

    Links of a torus: ``one-way``, ``back`` (one way round a line, whose last chip sends back over all of it), ``ring``,
    ``line``. Ports of a switch: ``switch`` (one way round), ``both`` (both ways), ``tree`` (by doubling), ``direct``
    (all at once), ``trees`` (two binary trees), ``relay`` (a part to each, which sends it on). ``mesh``: a link for
    every pair, all at once; a ring over a mesh is as one of links of its own. ``reduces`` says that a switch adds up
    and multicasts. ``beyond`` are places that are crossed too between members of different blocks of so many.
    """

    place: str
    size: int
    kind: str
    crossed: tuple[str, ...] = ()
    reduces: bool = False
    beyond: tuple[tuple[str, int], ...] = ()


@dataclass
class Trace:
    """Bytes by step and link, of each place."""

    steps: list[dict[Link, Fraction]] = field(default_factory=list)

    def add(self, sizes: Iterable[tuple[Link, Fraction]]) -> None:
        step: dict[Link, Fraction] = defaultdict(Fraction)
        for link, size in sizes:
            step[link] += size
        self.steps.append(dict(step))

    def busiest(self, place: str) -> Fraction:
        """Bytes over the busiest link of a place."""
        total: dict[Link, Fraction] = defaultdict(Fraction)
        for step in self.steps:
            for link, size in step.items():
                total[link] += size
        return max((size for link, size in total.items() if link[0] == place), default=Fraction(0))


# ---- one axis: positions 0 … n − 1; a schedule says, step by step, who sends whose data to whom


class Hop(NamedTuple):
    """From one position to another goes what ``origin`` had; one half of it where ``half`` is 0 or 1."""

    source: int
    target: int
    origin: int
    half: int | None = None
    again: bool = False


Schedule = Iterator[list[Hop]]


def _ring_one_way(n: int) -> Schedule:
    for t in range(n - 1):
        yield [Hop(i, (i + 1) % n, (i - t) % n) for i in range(n)]


def _ring_two_way(n: int) -> Schedule:
    """Both ways; the chip opposite is reached by one half each way; two chips have one way."""
    if n == 2:
        yield from _ring_one_way(2)
        return
    for t in range(n // 2):
        half = n % 2 == 0 and t == n // 2 - 1
        right = [Hop(i, (i + 1) % n, (i - t) % n, 0 if half else None) for i in range(n)]
        left = [Hop(i, (i - 1) % n, (i + t) % n, 1 if half else None) for i in range(n)]
        yield right + left


def back_path(n: int, source: int, target: int) -> list[int]:
    """One way round a line: up to the last chip, back to the first over all links, and up again."""
    if source <= target:
        return list(range(source, target + 1))
    return [*range(source, n), *range(n - 2, 0, -1), *range(target + 1)]


def _line_one_way(n: int) -> Schedule:
    paths = {origin: back_path(n, origin, (origin - 1) % n) for origin in range(n)}
    for t in range(max(len(path) for path in paths.values()) - 1):
        yield [
            Hop(path[t], path[t + 1], origin, again=path[t + 1] in path[: t + 1])
            for origin, path in paths.items()
            if len(path) > t + 1
        ]


def _line(n: int) -> Schedule:
    for t in range(n - 1):
        right = [Hop(i, i + 1, i - t) for i in range(n - 1) if i - t >= 0]
        left = [Hop(i, i - 1, i + t) for i in range(1, n) if i + t < n]
        yield right + left


def _at_once(n: int) -> Schedule:
    if n > 1:
        yield [Hop(i, j, i) for i in range(n) for j in range(n) if i != j]


def _doubling(n: int) -> Schedule:
    """Bruck: in step k a chip sends what it has, at most what is missing, 2^k places back."""
    have = 1
    while have < n:
        count = min(have, n - have)
        yield [Hop(i, (i - have) % n, (i + block) % n) for i in range(n) for block in range(count)]
        have += count


SCHEDULES: dict[str, Callable[[int], Schedule]] = {
    "one-way": _ring_one_way,
    "back": _line_one_way,
    "ring": _ring_two_way,
    "line": _line,
    "switch": _ring_one_way,
    "both": _ring_two_way,
    "direct": _at_once,
    "mesh": _at_once,
    "tree": _doubling,
}


#: Kinds of dimensions whose chips have one port into a switch.
PORTS = ("switch", "both", "direct", "tree", "trees", "relay")


def links_between(dimension: Dimension, source: Chip, target: Chip) -> tuple[Link, ...]:
    """The link of two neighbours or of a pair of a mesh; at a switch the way out of one chip and into the other."""
    if dimension.kind not in PORTS:
        return ((dimension.place, source, target),)
    ends = list(zip(source, target, strict=True))
    further = (place for place, width in dimension.beyond if any(a // width != b // width for a, b in ends))
    places = (dimension.place, *dimension.crossed, *further)
    return tuple(link for place in places for link in ((place, "out", source), (place, "in", target)))


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
            for source, target, origin, half, again in moves:
                links = links_between(dimension, at[source], at[target])
                for whole in held[at[origin]]:
                    piece = whole if half is None else whole.halves()[half]
                    step.append(Message(at[source], at[target], links, piece, again))
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


def straight_schedule(dimensions: Sequence[Dimension]) -> list[Step]:
    """Every chip sends its shard to every other at once, over the outermost switch that parts the two."""
    step: Step = []
    for source, target in permutations(chips_of(dimensions), 2):
        parted = next(d for d, a, b in zip(dimensions, source, target, strict=True) if a != b)
        piece = Piece(source, Fraction(0), Fraction(1))
        step.append(Message(source, target, links_between(parted, source, target), piece))
    return [step] if step else []


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


def _elements(steps: Sequence[Step]) -> int:
    """Elements of a shard that make every piece whole."""
    return lcm(*(f.denominator for step in steps for m in step for f in (m.piece.start, m.piece.stop)), 1)


def _slice(piece: Piece, place: dict[Chip, int], elements: int) -> slice:
    base = place[piece.owner] * elements
    return slice(base + int(piece.start * elements), base + int(piece.stop * elements))


def all_gather(dimensions: Sequence[Dimension], steps: Sequence[Step]) -> Trace:
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
            assert message.again == have[message.target][here].any(), "a chip gets a piece twice"
            have[message.target][here] = data
        trace.add(_sizes(step, len(chips)))
    for chip in chips:
        assert np.array_equal(have[chip], whole), f"{chip} lacks something"
    return trace


def reduce_scatter(dimensions: Sequence[Dimension], steps: Sequence[Step]) -> Trace:
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
    return trace


def _back(message: Message) -> tuple[Link, ...]:
    """The same links the other way: out of the chip that sends now, into the other."""
    turned = {"out": ("in", message.source), "in": ("out", message.target)}
    return tuple((link[0], *turned.get(str(link[1]), (message.target, message.source))) for link in message.links)


def _sizes(step: Step, chips: int) -> Iterator[tuple[Link, Fraction]]:
    for message in step:
        for link in message.links:
            yield link, (message.piece.stop - message.piece.start) / chips
