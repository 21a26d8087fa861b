"""Step-by-step simulation of what is no gathering: AllToAll, pipelined broadcasts, trees, switches that reduce.

Bytes are fractions of V, as :mod:`roofline.ops.collective` defines it for each. Nothing here uses its formulas.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
from simulate import Chip, Dimension, Trace, chips_of


def _routes(n: int, kind: str, source: int, target: int) -> list[tuple[list[int], Fraction]]:
    """Ways from one position to another, with the share that takes each: two where both ways round are as long."""
    if source == target:
        return [([source], Fraction(1))]
    right = [(source + k) % n for k in range((target - source) % n + 1)]
    left = [(source - k) % n for k in range((source - target) % n + 1)]
    if kind == "one-way":
        return [(right, Fraction(1))]
    if kind == "line":
        return [(right if target > source else left, Fraction(1))]
    if kind in ("switch", "mesh"):
        return [([source, target], Fraction(1))]
    if len(right) == len(left) and n > 2:
        return [(right, Fraction(1, 2)), (left, Fraction(1, 2))]
    return [(right if len(right) <= len(left) else left, Fraction(1))]


def all_to_all(dimensions: Sequence[Dimension]) -> Trace:
    """Every chip sends every other its chunk, along one axis after the other; chunks move one hop a step."""
    chips = chips_of(dimensions)
    at: dict[Chip, list[tuple[Chip, Chip]]] = {chip: [(chip, other) for other in chips] for chip in chips}
    size = Fraction(1, len(chips) ** 2)
    trace = Trace()
    for axis, dimension in enumerate(dimensions):
        flights = []
        arrived: dict[Chip, list[tuple[Chip, Chip]]] = defaultdict(list)
        for chip, chunks in at.items():
            for chunk in chunks:
                goal = (*chip[:axis], chunk[1][axis], *chip[axis + 1 :])
                arrived[goal].append(chunk)
                for path, share in _routes(dimension.size, dimension.kind, chip[axis], goal[axis]):
                    flights.append(([(*chip[:axis], p, *chip[axis + 1 :]) for p in path], share * size))
        longest = max(len(path) for path, _ in flights) - 1
        for t in range(longest):
            trace.add((_port(dimension, p[t], p[t + 1]), s) for p, s in flights if len(p) > t + 1)
        at = arrived
    for chip in chips:
        assert sorted(at[chip]) == [(source, chip) for source in chips], f"{chip} lacks a chunk"
    return trace


def _port(dimension: Dimension, source: Chip, target: Chip) -> tuple[object, ...]:
    return (dimension.place, source) if dimension.kind == "switch" else (dimension.place, source, target)


def busy_line(n: int) -> int:
    """Chunk times of an AllToAll on a line when every link always sends the chunk that has farthest to go."""
    waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
    for source in range(n):
        for target in range(n):
            if target != source:
                waiting[source, 1 if target > source else -1].append(target)
    ticks = 0
    while any(waiting.values()):
        moved = []
        for (place, way), targets in waiting.items():
            if targets:
                farthest = max(targets, key=lambda target: abs(target - place))
                targets.remove(farthest)
                moved.append((place + way, way, farthest))
        for place, way, target in moved:
            if place != target:
                waiting[place, way].append(target)
        ticks += 1
    return ticks


def pipelined(dimension: Dimension, pieces: int) -> tuple[Trace, int]:
    """Broadcast by passing small pieces on; a ring sends one half of them each way. Returns the steps too."""
    n = dimension.size
    both = dimension.kind == "ring" and n > 2
    have = {position: set(range(pieces)) if position == 0 else set() for position in range(n)}
    ways = [(1, [p for p in range(pieces) if not both or p % 2 == 0])]
    if both:
        ways.append((-1, [p for p in range(pieces) if p % 2 == 1]))
    trace, steps = Trace(), 0
    while any(len(got) < pieces for got in have.values()):
        sent = []
        for way, mine in ways:
            for k in range(n - 1):
                source, target = (way * k) % n, (way * (k + 1)) % n
                piece = next((p for p in mine if p in have[source] and p not in have[target]), None)
                if piece is not None:
                    sent.append((source, target, piece))
        trace.add((_port(dimension, (s,), (t,)), Fraction(1, pieces)) for s, t, _ in sent)
        for _, target, piece in sent:
            have[target].add(piece)
        steps += 1
    return trace, steps


def chained(n: int, pieces: int) -> tuple[Trace, int]:
    """AllReduce on a line: small pieces are added up towards one end, and go back as they are done."""
    trace, steps = Trace(), 0
    up = [pieces if k == n - 1 else 0 for k in range(n)]
    down = [0] * n
    while down[-1] < pieces and n > 1:
        sent = []
        done = up[0]
        for k in range(n - 1, 0, -1):
            if (k == n - 1 or up[k] > up[k - 1]) and up[k - 1] < pieces:
                sent.append((k, k - 1))
        for k in range(n - 1):
            if (done if k == 0 else down[k]) > down[k + 1]:
                sent.append((k, k + 1))
        trace.add((("X", (a,), (b,)), Fraction(1, pieces)) for a, b in sent)
        for a, b in sent:
            if b < a:
                up[b] += 1
            else:
                down[b] += 1
        steps += 1
    return trace, steps


def binomial(dimension: Dimension) -> Trace:
    """Broadcast by doubling: everyone that has the message sends it on."""
    have, trace = [0], Trace()
    while len(have) < dimension.size:
        new = [chip + len(have) for chip in have if chip + len(have) < dimension.size]
        trace.add(((dimension.place, chip), Fraction(1)) for chip, _ in zip(have, new, strict=False))
        have += new
    return trace


def reducing_switch(sizes: Sequence[int], places: Sequence[str]) -> Trace:
    """AllReduce with switches that add up and multicast, tier by tier; checks the sum."""
    chips = list(product(*map(range, reversed(sizes))))
    elements = len(chips)
    rng = np.random.default_rng(1)
    data = {chip: rng.integers(1, 9, elements) for chip in chips}
    total = sum(data.values())
    parts = {chip: slice(0, elements) for chip in chips}
    trace = Trace()
    for tier in range(len(sizes)):
        trace.add(_up(data, parts, tier, sizes, places[tier], elements))
    for tier in reversed(range(len(sizes))):
        trace.add(_down(data, parts, tier, sizes, places[tier], elements))
    for chip in chips:
        assert np.array_equal(data[chip], total), f"the sum at {chip} is wrong"
    return trace


def _peers(chip: Chip, tier: int, size: int) -> list[Chip]:
    axis = len(chip) - 1 - tier
    return [(*chip[:axis], p, *chip[axis + 1 :]) for p in range(size)]


def _up(
    data: dict[Chip, np.ndarray], parts: dict[Chip, slice], tier: int, sizes: Sequence[int], place: str, elements: int
) -> Iterator[tuple[tuple[object, ...], Fraction]]:
    """Every chip sends the others' parts to the switch, which adds them up and hands each its own."""
    before = {chip: values.copy() for chip, values in data.items()}
    for chip in data:
        mine, n = parts[chip], sizes[tier]
        length = (mine.stop - mine.start) // n
        own = slice(
            mine.start + chip[len(chip) - 1 - tier] * length, mine.start + (chip[len(chip) - 1 - tier] + 1) * length
        )
        data[chip][own] = sum(before[peer][own] for peer in _peers(chip, tier, n))
        parts[chip] = own
        yield (place, chip), Fraction(length * (n - 1), elements)


def _down(
    data: dict[Chip, np.ndarray], parts: dict[Chip, slice], tier: int, sizes: Sequence[int], place: str, elements: int
) -> Iterator[tuple[tuple[object, ...], Fraction]]:
    """Every chip sends its own part to the switch, which multicasts it."""
    before = {chip: values.copy() for chip, values in data.items()}
    owned = dict(parts)
    for chip in data:
        peers = _peers(chip, tier, sizes[tier])
        for peer in peers:
            data[chip][owned[peer]] = before[peer][owned[peer]]
        parts[chip] = slice(min(owned[p].start for p in peers), max(owned[p].stop for p in peers))
        alone = sizes[tier] == 1
        yield (place, chip), Fraction(0 if alone else owned[chip].stop - owned[chip].start, elements)
