"""Step-by-step simulation of messages along paths, and of what is no gathering: AllToAll, Permute, Send, trees, chains.

Bytes are fractions of V, as :mod:`roofline.ops.collectives.cost` defines it for each. Nothing here uses its formulas.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import lcm, prod
from typing import NamedTuple

import numpy as np
from simulate import Chip, Dimension, Link, Trace, back_path, chips_of, links_between
from simulate_networks import Network


class Move(NamedTuple):
    """Part of an array goes from one chip to others, and is copied there or added to what they have."""

    source: Chip
    targets: tuple[Chip, ...]
    links: tuple[Link, ...]
    start: Fraction
    stop: Fraction
    add: bool = False


def run(arrays: dict[Chip, np.ndarray], steps: Iterable[Sequence[Move]], *, handed_on: bool = False) -> Trace:
    """Do the moves of each step at once, on one array a chip; count their bytes.

    ``handed_on``: what a chip sends it has no more, so that nothing is added up twice.
    """
    trace = Trace()
    for step in steps:
        if not step:
            continue
        sent = [_taken(m, arrays[m.source], handed_on) for m in step]
        for move, data in zip(step, sent, strict=True):
            for target in move.targets:
                here = arrays[target]
                where = _range(move, here.size)
                here[where] = here[where] + data if move.add else data
        trace.add((link, m.stop - m.start) for m in step for link in m.links)
    return trace


def _taken(move: Move, values: np.ndarray, handed_on: bool) -> np.ndarray:
    where = _range(move, values.size)
    found = values[where].copy()
    if handed_on:
        values[where] = 0
    return found


def _range(move: Move, elements: int) -> slice:
    start, stop = move.start * elements, move.stop * elements
    assert start.denominator == stop.denominator == 1, "the array does not divide"
    return slice(int(start), int(stop))


def elements(steps: Iterable[Sequence[Move]]) -> int:
    """Elements of an array that make every part whole."""
    return lcm(*(f.denominator for step in steps for m in step for f in (m.start, m.stop)), 1)


# ---- messages along paths


class Flight(NamedTuple):
    """A chunk on its way: the chips it goes through, and the links between each two of them."""

    chunk: object
    size: Fraction
    path: list[Chip]
    links: list[tuple[Link, ...]]


def fly(flights: Sequence[Flight], at: dict[Chip, set[object]]) -> Trace:
    """Move every chunk one hop a step; a chip sends on only what it has."""
    trace = Trace()
    for t in range(max((len(f.path) for f in flights), default=1) - 1):
        flying = [f for f in flights if len(f.path) > t + 1]
        for f in flying:
            assert f.chunk in at[f.path[t]], "a chip sends what it does not have"
        for f in flying:
            at[f.path[t]].discard(f.chunk)
            at[f.path[t + 1]].add(f.chunk)
        trace.add((link, f.size) for f in flying for link in f.links[t])
    return trace


def _routes(n: int, kind: str, source: int, target: int) -> list[tuple[list[int], Fraction]]:
    """Ways from one position to another, with the share that takes each: two where both ways round are as long."""
    if source == target:
        return [([source], Fraction(1))]
    right = [(source + k) % n for k in range((target - source) % n + 1)]
    left = [(source - k) % n for k in range((source - target) % n + 1)]
    if kind == "one-way":
        return [(right, Fraction(1))]
    if kind == "back":
        return [(back_path(n, source, target), Fraction(1))]
    if kind == "line":
        return [(right if target > source else left, Fraction(1))]
    if kind != "ring":
        return [([source, target], Fraction(1))]
    if len(right) == len(left) and n > 2:
        return [(right, Fraction(1, 2)), (left, Fraction(1, 2))]
    return [(right if len(right) <= len(left) else left, Fraction(1))]


def _axis_flights(
    dimensions: Sequence[Dimension], axis: int, waiting: dict[object, tuple[Chip, Chip]], size: Fraction
) -> list[Flight]:
    """Chunks that go along one axis to where their goal is on it; halves of a chunk are chunks of their own."""
    dimension, flights = dimensions[axis], []
    for chunk, (here, goal) in waiting.items():
        for part, (path, share) in enumerate(_routes(dimension.size, dimension.kind, here[axis], goal[axis])):
            way = [(*here[:axis], p, *here[axis + 1 :]) for p in path]
            links = [links_between(dimension, a, b) for a, b in pairwise(way)]
            flights.append(Flight((chunk, part), share * size, way, links))
    return flights


def all_to_all(network: Network) -> Trace:
    """Every chip sends every other its chunk: directly over switches, then along one axis of a torus after the other.

    Where the outermost tier that parts two chips is a switch, the chunk crosses it in one hop: to the goal itself
    where there is no torus, to the chip at its own place of the other slice where there is.
    """
    dimensions = network.dimensions
    chips = chips_of(dimensions)
    waiting: dict[object, tuple[Chip, Chip]] = {(s, t): (s, t) for s in chips for t in chips}
    size, trace = Fraction(1, len(chips) ** 2), Trace()
    switched = [i for i, d in enumerate(dimensions) if d.kind in ("switch", "mesh")]
    if switched:
        direct = [_directly(dimensions, switched, chunk, *ends, size) for chunk, ends in waiting.items()]
        trace = _land(direct, waiting)
    for axis in range(len(dimensions)):
        if axis not in switched:
            flown = _land(_axis_flights(dimensions, axis, waiting, size), waiting)
            trace.steps += flown.steps
    for chunk, (here, goal) in waiting.items():
        assert here == goal, f"chunk {chunk} is at {here}"
    assert set(waiting) == {(s, t) for s in chips for t in chips}
    return trace


def _directly(
    dimensions: Sequence[Dimension], switched: Sequence[int], chunk: object, here: Chip, goal: Chip, size: Fraction
) -> Flight:
    """One hop over the outermost switch that parts two chips, to the same place of the torus there."""
    end = tuple(goal[i] if i in switched else here[i] for i in range(len(here)))
    parted = next((i for i in switched if here[i] != goal[i]), None)
    if parted is None:
        return Flight((chunk, 0), size, [here], [])
    return Flight((chunk, 0), size, [here, end], [links_between(dimensions[parted], here, end)])


def _land(flights: Sequence[Flight], waiting: dict[object, tuple[Chip, Chip]]) -> Trace:
    """Fly, check that every part of every chunk has arrived, and remember where the chunks are."""
    at: dict[Chip, set[object]] = defaultdict(set)
    for f in flights:
        at[f.path[0]].add(f.chunk)
    trace = fly(flights, at)
    for f in flights:
        assert f.chunk in at[f.path[-1]], "a chunk has not arrived"
        chunk = f.chunk[0]  # type: ignore[index]
        waiting[chunk] = (f.path[-1], waiting[chunk][1])
    return trace


def permute(network: Network) -> Trace:
    """Every chip sends to the next, inner chips first; where a line ends the message goes all the way back."""
    dimensions = network.dimensions
    chips = chips_of(dimensions)
    order = sorted(chips)
    following = dict(zip(order, [*order[1:], order[0]], strict=True))
    switched = [i for i, d in enumerate(dimensions) if d.kind in ("switch", "mesh")]
    waiting: dict[object, tuple[Chip, Chip]] = {chip: (chip, following[chip]) for chip in chips}
    flights = []
    for chip, (here, goal) in waiting.items():
        path, links = [here], []
        for axis in [i for i in range(len(dimensions)) if i not in switched]:
            d = dimensions[axis]
            (way, _), *_ = _routes(d.size, "line" if d.kind == "line" else "one-way", path[-1][axis], goal[axis])
            for p in way[1:]:
                path.append((*path[-1][:axis], p, *path[-1][axis + 1 :]))
                links.append(links_between(d, path[-2], path[-1]))
        hop = _directly(dimensions, switched, chip, path[-1], goal, Fraction(1))
        flights.append(Flight((chip, 0), Fraction(1), [*path, *hop.path[1:]], [*links, *hop.links]))
    trace = _land(flights, waiting)
    assert all(here == goal for here, goal in waiting.values())
    return trace


def striped_permute(network: Network) -> Trace:
    """As a Permute, but what leaves a unit of the innermost tier goes in parts by way of all of its chips.

    A part that needs no way inside a unit waits there.
    """
    order = sorted(chips_of(network.dimensions))
    inner, flights = network.dimensions[-1], []
    waiting: dict[object, tuple[Chip, Chip]] = {}
    for here, goal in zip(order, [*order[1:], order[0]], strict=True):
        if here[:-1] == goal[:-1]:
            waiting[here, 0] = (here, goal)
            if inner.kind == "mesh":
                flights += _by_way_of(inner, here, goal, [(*here[:-1], i) for i in range(inner.size)], 2)
            else:
                flights.append(Flight(((here, 0), 0), Fraction(1), [here, goal], [links_between(inner, here, goal)]))
            continue
        for part in range(inner.size):
            waiting[here, part] = (here, goal)
            path = [here, (*here[:-1], part), (*goal[:-1], part), goal]
            parted = next(d for d, a, b in zip(network.dimensions, here, goal, strict=True) if a != b)
            links = [
                links_between(d, *ends) if ends[0] != ends[1] else ()
                for d, ends in zip((inner, parted, inner), pairwise(path), strict=True)
            ]
            flights.append(Flight(((here, part), 0), Fraction(1, inner.size), path, links))
    trace = _land(flights, {**waiting, **{f.chunk[0]: (f.path[0], f.path[-1]) for f in flights}})  # type: ignore[index]
    return trace


def _by_way_of(mesh: Dimension, here: Chip, goal: Chip, unit: Sequence[Chip], straight: int) -> list[Flight]:
    """A message in equal parts by way of each other chip of a mesh, and ``straight`` of them by the link itself."""
    flights = []
    for via in unit:
        if via != goal:
            path = [here, goal] if via == here else [here, via, goal]
            links = [links_between(mesh, *ends) for ends in pairwise(path)]
            size = Fraction(straight if via == here else 1, len(unit) - 2 + straight)
            flights.append(Flight(((here, via), 0), size, path, links))
    return flights


def striped_against(network: Network) -> Trace:
    """As a Permute, but what leaves a torus of one or two axes goes in parts by way of all its chips.

    The parts go backwards, there along the first axis first, back along it last. A chip's own message goes
    forwards, at the end of a line back to its start; where it changes both places, by shares first along the one or the
    other, so that all links carry as much.
    """
    count, flights = len(network.tiers[0]), []
    units, sizes = network.dimensions[:-count], [d.size for d in network.dimensions[-count:]]
    axes = range(len(units), len(units) + count)
    order = sorted(chips_of(network.dimensions))
    for here, goal in zip(order, [*order[1:], order[0]], strict=True):
        if here[: len(units)] == goal[: len(units)]:
            kinds = [d.kind for d in network.dimensions]
            turns = [(i, goal[i] - here[i] if kinds[i] == "line" else 1) for i in axes if here[i] != goal[i]]
            first = Fraction(sizes[0] - 1 - here[axes[0]], sizes[0]) if len(turns) > 1 else Fraction(1)
            for way, share in ((turns[::-1], first), (turns, 1 - first)):
                flights += [_by_turns(network, way, share, here)] if share else []
            continue
        out = [(i, (b - a) if d.kind in ("line", "switch") else 1)
               for i, (d, a, b) in enumerate(zip(units, here, goal, strict=False)) if a != b]  # fmt: skip
        for part in chips_of(network.dimensions[-count:]):
            there = [(i, part[i - axes[0]] - here[i]) for i in axes]
            back = [(i, -part[i - axes[0]]) for i in reversed(axes)]
            flights.append(_by_turns(network, [*there, *out, *back], Fraction(1, prod(sizes)), here))
            assert flights[-1].path[-1] == goal
    return _land(flights, {f.chunk[0]: (f.path[0], f.path[-1]) for f in flights})  # type: ignore[index]


def send(network: Network) -> Trace:
    """One message to the farthest chip: straight over the outermost switch; by all axes of a torus at once.

    Parts of it go by the axes in different orders, so no link carries two of them.
    """
    at = (0,) * len(network.dimensions)
    trace, first = Trace(), 0
    for tier in reversed(range(len(network.tiers))):
        dimensions = network.tiers[tier]
        axes = [first + i for i, d in enumerate(dimensions) if d.size > 1]
        first += len(dimensions)
        if not network.is_torus(tier):
            if axes:
                end = tuple(network.dimensions[i].size - 1 for i in range(len(at)))
                trace.add((link, Fraction(1)) for link in links_between(dimensions[0], at, end))
                return trace
            continue
        goal = {i: network.dimensions[i].size for i in axes}
        goal = {i: n // 2 if network.dimensions[i].kind == "ring" else n - 1 for i, n in goal.items()}
        turns = [axes[k:] + axes[:k] for k in range(len(axes))]
        flights = [_turn(network, at, turn, goal, Fraction(1, len(axes))) for turn in turns]
        used = [link for f in flights for links in f.links for link in links]
        assert len(used) == len(set(used)), "two parts share a link"
        waiting: dict[object, tuple[Chip, Chip]] = {f.chunk[0]: (at, f.path[-1]) for f in flights}  # type: ignore[index]
        trace.steps += _land(flights, waiting).steps
        at = tuple(goal.get(i, p) for i, p in enumerate(at))
    return trace


def _turn(network: Network, at: Chip, turn: Sequence[int], goal: dict[int, int], size: Fraction) -> Flight:
    path, links = [at], []
    for axis in turn:
        for p in range(at[axis] + 1, goal[axis] + 1):
            path.append((*path[-1][:axis], p, *path[-1][axis + 1 :]))
            links.append(links_between(network.dimensions[axis], path[-2], path[-1]))
    return Flight((tuple(turn), 0), size, path, links)


def by_all_ways(network: Network, kind: str) -> Trace:
    """All ways within a tier: round both sides of the rings of a torus, by way of all other chips of a mesh."""
    (mesh, *_), chips = network.dimensions, chips_of(network.dimensions)
    flights = []
    if mesh.kind == "mesh":
        permutes = kind == "Permute"
        pairs = zip(chips, [*chips[1:], chips[0]], strict=True) if permutes else [(chips[0], chips[-1])]
        flights = [f for ends in pairs for f in _by_way_of(mesh, *ends, chips, 1 + permutes)]
    elif kind == "Permute":
        flights = list(_round_both_sides(network, sorted(chips)))
    else:
        sizes = {i: d.size for i, d in enumerate(network.dimensions) if d.size > 1}
        rings = [i for i, n in sizes.items() if n > 2 and network.dimensions[i].kind == "ring"]
        goal = {i: n // 2 if i in rings else n - 1 for i, n in sizes.items()}
        axes = list(sizes)
        turns = [[(i, goal[i]) for i in axes[k:] + axes[:k]] for k in range(len(axes))]
        for ring in rings:  # one hop the other way round, then all other axes, then the rest of the way
            others = [(i, goal[i]) for i in axes if i != ring]
            turns.append([(ring, -1), *others, (ring, goal[ring] - sizes[ring] + 1)])
        flights = [_by_turns(network, turn, Fraction(1, len(turns))) for turn in turns]
        used = [link for f in flights for links in f.links for link in links]
        assert len(used) == len(set(used)), "two parts share a link"
        assert len({f.path[-1] for f in flights}) == 1
    return _land(flights, {f.chunk[0]: (f.path[0], f.path[-1]) for f in flights})  # type: ignore[index]


def _round_both_sides(network: Network, order: Sequence[Chip]) -> Iterator[Flight]:
    """Every chip's message to the next: along an inner ring of n its n-th part goes backwards.

    Half of what goes on to another row does so first, half last.
    """
    *outer, inner = (axis for axis, d in enumerate(network.dimensions) if d.size > 1)
    for here, goal in zip(order, [*order[1:], order[0]], strict=True):
        n, steps = network.dimensions[inner].size, goal[inner] - here[inner]
        ways = [(1, Fraction(n - 1, n)), (1 - n, Fraction(1, n))] if steps else [(0, Fraction(1))]
        rows = [
            (axis, 1 if network.dimensions[axis].kind == "ring" else goal[axis] - here[axis])
            for axis in reversed(outer)
            if goal[axis] != here[axis]
        ]
        parts = [([(inner, way), *rows], size / 2) for way, size in ways]
        parts += [([*rows, (inner, way)], size / 2) for way, size in ways]
        if not rows:
            parts = [([(inner, way)], size) for way, size in ways]
        yield from (_by_turns(network, turns, size, here) for turns, size in parts)


def _by_turns(network: Network, turns: Sequence[tuple[int, int]], size: Fraction, start: Chip | None = None) -> Flight:
    """So many steps along one axis after the other, those below 0 backwards; a switch is crossed in one."""
    path: list[Chip] = [start or (0,) * len(network.dimensions)]
    links = []
    for axis, steps in turns:
        dimension = network.dimensions[axis]
        way = (steps > 0) - (steps < 0) if dimension.kind in ("ring", "line") else steps
        for _ in range(steps // way if way else 0):
            at = path[-1]
            path.append((*at[:axis], (at[axis] + way) % dimension.size, *at[axis + 1 :]))
            links.append(links_between(dimension, at, path[-1]))
    return Flight(((start, tuple(turns)), 0), size, path, links)


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
