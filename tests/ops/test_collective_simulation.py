"""Every collective by every algorithm on every small network, against a simulation: the right array, bytes, hops, time.

Bytes are exact fractions of V: the formulas are asked for a V that every count divides. An algorithm without a
simulation fails :func:`test_every_algorithm_is_simulated`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache
from itertools import product as every
from math import prod
from typing import Any, NamedTuple

import pytest
from simulate import (
    Chip,
    Dimension,
    Message,
    Piece,
    Trace,
    all_gather,
    balanced_orders,
    gather_schedule,
    links_between,
    reduce_scatter,
    straight_schedule,
)
from simulate_clock import pipelined, step_by_step
from simulate_moves import all_to_all, busy_line, by_all_ways, permute, send, striped_against, striped_permute
from simulate_networks import NETWORKS, Network, one, tiered
from simulate_spread import (
    broadcast,
    double_tree_all_reduce,
    one_shot,
    relayed_broadcast,
    straight_broadcast,
    switch_all_reduce,
    switch_broadcast,
    turning_all_reduce,
    whole_sums,
)
from tests.strategies import LONG, some

from roofline.errors import HardwareError
from roofline.hardware import catalog, chip
from roofline.hardware.machine import MeshAxis
from roofline.ops.collectives.cost import KINDS, algorithms, cost, limit_reason
from roofline.ops.collectives.registry import ALGORITHMS, LIKE, link_groups, register
from roofline.work import Key, Work

V = prod(range(1, 13)) ** 6 * 23 * 31  # trees and relays over 24 and 32 chips

#: A message of one chip that goes to all, and backwards: the sum of all goes to one.
SPREADING = ("Broadcast", "Reduce")


class Simulated(NamedTuple):
    """Traces of the passes that follow one another, and by how much a limit differs from what was simulated."""

    passes: Sequence[Trace]
    scale: Callable[[str], Fraction] = lambda place: Fraction(1)


Simulation = Callable[[Network, str], Simulated]

#: The passes of a gather schedule by what they do.
RUNS = {"AllGather": [all_gather], "ReduceScatter": [reduce_scatter], "AllReduce": [reduce_scatter, all_gather]}


def gathering(network: Network, kind: str) -> Simulated:
    """AllGather, ReduceScatter, or both: outer tiers gather first, parts by the axes of a torus in different orders."""
    kind = LIKE.get(kind, kind)  # what one chip gathers or scatters goes over its own links, as where all do
    return Simulated([_gathered(network.tiers, run) for run in RUNS[kind]])


@cache
def _gathered(tiers: tuple[tuple[Dimension, ...], ...], run: Callable[..., Trace]) -> Trace:
    dimensions = [dimension for tier in reversed(tiers) for dimension in tier]
    return run(dimensions, gather_schedule(dimensions, _orders(tiers)))


@cache
def _shuffled(tiers: tuple[tuple[Dimension, ...], ...]) -> Trace:
    return all_to_all(Network("", tiers, ()))


def _orders(tiers: Sequence[tuple[Dimension, ...]]) -> list[tuple[tuple[int, ...], Fraction]]:
    found: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    first = 0
    for tier in reversed(tiers):
        own = balanced_orders(tier)
        found = [
            ((*order, *(first + i for i in more)), share * part) for (order, share), (more, part) in every(found, own)
        ]
        first += len(tier)
    return found


def through(**kinds: str) -> Simulation:
    """Simulate any collective on a network whose dimensions pass data on in these ways."""

    def simulate(network: Network, kind: str) -> Simulated:
        by = network.by(kinds)
        if kind == "AllToAll":
            return Simulated(
                [_shuffled(network.by({k: way for k, way in kinds.items() if k in ("ring", "line")}).tiers)]
            )
        if kind in SPREADING:
            spread = network.by({**kinds, "switch": {"direct": "relay"}.get(kinds["switch"], kinds["switch"])})
            return Simulated([broadcast(spread, by, backwards=kind == "Reduce")])
        return gathering(by, kind)

    return simulate


NATURAL = through(switch="direct")


def turning(**kinds: str) -> Simulation:
    """Simulate an AllReduce whose sums meet at links where all axes are rings of even sizes, and not at chips."""

    def simulate(network: Network, kind: str) -> Simulated:
        sides = [d for d in network.by(kinds).dimensions if d.size > 1]
        rings = all(d.size % 2 == 0 and (d.kind in ("ring", "both") or d.size == 2) for d in sides)
        tiers = [tier for tier in network.tiers if any(d.size > 1 for d in tier)]
        if kind == "AllReduce" and len(tiers) == 1 and rings:
            return Simulated([turning_all_reduce(sides)])
        return through(**kinds)(network, kind)

    return simulate


def flat(network: Network, kind: str) -> Simulated:
    """Rings over all chips: each enters every unit at another chip, and so leaves it by another."""
    dimensions = network.by({"switch": "direct"}).dimensions
    rings = list(_flat_rings([d.size for d in dimensions]))
    steps: list[list[Message]] = []
    for shift in range(network.chips - 1):
        steps.append([])
        for at, ring in enumerate(rings):
            for place, source in enumerate(ring):
                target = ring[(place + 1) % len(ring)]
                axis = next(i for i, (a, b) in enumerate(zip(source, target, strict=True)) if a != b)
                piece = Piece(ring[place - shift], Fraction(at, len(rings)), Fraction(at + 1, len(rings)))
                steps[-1].append(Message(source, target, links_between(dimensions[axis], source, target), piece))
    return Simulated([run(dimensions, steps) for run in RUNS[LIKE.get(kind, kind)]])


def _flat_rings(sizes: Sequence[int]) -> Iterator[list[Chip]]:
    """Every order that starts within a unit of each tier elsewhere; the outermost coordinate stands first."""
    outer, *inner = sizes
    for starts in every(*map(range, inner)):
        rows = [range(outer), *([(s + i) % n for i in range(n)] for s, n in zip(starts, inner, strict=True))]
        yield list(every(*rows))


def direct(network: Network, kind: str) -> Simulated:
    if kind in ("Permute", "Send"):
        return Simulated([_by_unit(network, {"Permute": permute, "Send": send}[kind](network))])
    by = network.by({"switch": "direct"})
    if kind == "AllReduce":
        return Simulated([one_shot(by)])
    near, backwards = network.is_torus(0), kind == "Reduce"
    if kind in SPREADING:
        network = by.by({"ring": "shortest"})
        found = (broadcast if near else straight_broadcast)(network, backwards=backwards)
        return Simulated([_by_unit(network, found)])
    return (NATURAL if near or kind == "AllToAll" else straight)(network, kind)


def striped(network: Network, kind: str) -> Simulated:
    """A Permute in parts; or a Send that one unit scatters, all of its chips send on, and another unit gathers."""
    if network.chips == 1:
        return Simulated([])
    network = network._replace(tiers=tuple(tier for tier in network.tiers if any(d.size > 1 for d in tier)))
    if len(network.tiers) == 1:
        return Simulated([by_all_ways(network, kind)])
    inner = network.by({"switch": "direct"}).tiers[:1]
    if kind == "Permute" and network.is_torus(0):
        return Simulated([striped_against(network)])
    if kind == "Permute":
        return Simulated([_by_unit(network, striped_permute(network.by({"switch": "direct"})))])
    scattered, gathered = (_gathered(inner, run) for run in (reduce_scatter, all_gather))
    there = [{(place, ("there", a), ("there", b)): n for (place, a, b), n in step.items()} for step in gathered.steps]
    part = Fraction(1, prod(d.size for d in inner[0]))
    tiers = network._replace(tiers=network.tiers[1:])
    sent = [{link: n * part for link, n in step.items()} for step in _by_unit(tiers, send(tiers)).steps]
    return Simulated([Trace([*scattered.steps, *sent, *there])])


def _by_unit(network: Network, trace: Trace) -> Trace:
    """The links that lead on from the second tier of a fat tree are a unit's: its chips have a part of each."""
    sizes = [d.size for d in network.dimensions]
    tree = [d.place for tier in network.tiers for d in tier if d.size > 1 and _is_nested(network, d.place)]
    width = {place: len(sizes) - [d.place for d in network.dimensions].index(place) - 1 for place in tree[1:]}
    found = Trace()
    for step in trace.steps:
        parts = []
        for (place, way, at), size in step.items():
            below = width.get(place, 0)
            unit = at[: len(at) - below] if below else at
            parts.append(((place, way, unit), size / prod(sizes[len(sizes) - below :])))
        found.add(parts)
    return found


def _is_nested(network: Network, place: str) -> bool:
    return any(s.nested for axis in network.axes for s in axis.segments if s.place == place)


def straight(network: Network, kind: str) -> Simulated:
    """Every chip to every other, over all tiers at once, in each of the passes."""
    dimensions = network.by({"switch": "direct"}).dimensions
    return Simulated([run(dimensions, straight_schedule(dimensions)) for run in RUNS[LIKE.get(kind, kind)]])


def two_shot(network: Network, kind: str) -> Simulated:
    if kind in SPREADING:
        return Simulated([relayed_broadcast(network.by({"switch": "direct"}), backwards=kind == "Reduce")])
    return straight(network, kind)


def trees(network: Network, kind: str) -> Simulated:
    by = network.by({"switch": "tree"})
    return Simulated([broadcast(by, backwards=kind == "Reduce")]) if kind in SPREADING else gathering(by, kind)


def double_tree(network: Network, kind: str) -> Simulated:
    if kind in SPREADING:
        return Simulated([broadcast(network.by({"switch": "trees"}), backwards=kind == "Reduce")])
    return Simulated([double_tree_all_reduce(_single(network).dimensions[0])])


def outside(count: int) -> Simulation:
    """Whole partial sums along ``count`` axes or tiers, the outermost and longest; along all of them for 0."""

    def simulate(network: Network, kind: str) -> Simulated:
        return _whole_outside(network.by({"switch": "direct", "trees": "direct"}), count)

    return simulate


def _whole_outside(network: Network, count: int) -> Simulated:
    tiers = [[d for d in sorted(tier, key=lambda d: d.size) if d.size > 1] for tier in network.tiers]
    steps = [(number, d) for number, tier in enumerate(tiers) for d in tier]
    inside = steps[: len(steps) - count] if count else []
    outer = [d for _, d in reversed(steps[len(inside) :])]
    trace = whole_sums(outer, range(len(outer))[::-1], Fraction(1, prod(d.size for _, d in inside)))
    if not inside:
        return Simulated([trace])
    within = Network("", tuple(tuple(d for n, d in inside if n == number) for number in {n for n, _ in inside}), ())
    able = any(d.reduces for _, d in inside)
    parts = [switch_all_reduce(within)] if able else gathering(within, "AllReduce").passes
    parts = [_beside(each, len(outer), 0) for each in parts]
    chips = [*parts[:1], _beside(trace, 0, len(inside)), *parts[1:]]
    found = Trace([step for each in chips for step in each.steps])
    alike = len(tiers) == 1 and len({(d.kind, d.size) for _, d in steps}) == 1
    return Simulated([_by_turns(found, [d.place for _, d in steps]) if alike else found])


def _by_turns(trace: Trace, places: Sequence[str]) -> Trace:
    """Each axis is the outermost one for its share of the data; a row of an axis stands for all of its rows."""
    found = Trace()
    for step in trace.steps:
        rows = [
            (place, ends, size) for (place, *ends), size in step.items() if sum(map(any, zip(*ends, strict=True))) == 1
        ]
        turns = [
            ((places[(places.index(place) + turn) % len(places)], *map(sum, ends)), size / len(places))
            for turn in range(len(places))
            for place, ends, size in rows
        ]
        found.add(turns)
    return found


def _beside(trace: Trace, before: int, after: int) -> Trace:
    """The same among all chips, by the row whose other coordinates are 0."""

    def placed(end: object) -> object:
        return (*(0,) * before, *end, *(0,) * after) if isinstance(end, tuple) else end

    return Trace(
        [{(place, placed(a), placed(b)): size for (place, a, b), size in step.items()} for step in trace.steps]
    )


def _single(network: Network) -> Network:
    """Leave out dimensions of one chip: one is left."""
    several = tuple(tier for tier in network.tiers if any(d.size > 1 for d in tier)) or network.tiers[:1]
    (tier,) = several
    kept = tuple(d for d in tier if d.size > 1) or tier
    return network._replace(tiers=(tuple(d._replace(kind={"switch": "tree"}.get(d.kind, d.kind)) for d in kept),))


def in_switch(network: Network, kind: str) -> Simulated:
    return Simulated([(switch_broadcast if kind in SPREADING else switch_all_reduce)(network)])


def closed(network: Network, kind: str) -> Simulated:
    """The two-way ring is taken to close: the ring that does is what was simulated."""
    return turning(line="ring", switch="both", mesh="ring")(network, kind)


def book(network: Network, kind: str) -> Simulated:
    """The book's limit: what was simulated on closed axes, n/(n − 1) as much, each axis taken to have two ways."""
    found = through(line="ring", switch="direct")(network, kind)
    scales = {}
    for group in link_groups(network.axes):
        sides = [int(x.size) for x in group.segments]
        ways = [1 if n == 2 else 2 for n in sides]
        for place, n, d in zip([x.place for x in group.segments], sides, ways, strict=True):
            scales[place] = Fraction(group.units, group.units - 1)
            if group.topology == "mesh":
                scales[place] = Fraction(1)
            elif group.topology == "torus" and kind == "AllToAll":
                scales[place] = Fraction(n * n, 4) / (n * n // 4) * Fraction(d, 2)
            elif group.topology == "torus":
                scales[place] *= Fraction(sum(ways), 2 * len(sides))
    return Simulated(found.passes, lambda place: scales[place])


def book_levels(network: Network, kind: str) -> Simulated:
    """Each tier by itself: what was simulated, less what crosses it on its way further out."""
    found = NATURAL(network, kind)
    scales = {
        level.place: Fraction(group.size - 1, group.size) * Fraction(group.units, group.units - 1)
        for group in link_groups(network.axes)
        for level in group.segments
    }
    return Simulated(found.passes, lambda place: scales[place] if kind != "AllToAll" else levels_of(network, place))


def levels_of(network: Network, place: str) -> Fraction:
    group = next(
        g for g in link_groups(network.axes) if g.segments[0].place == place or place in [x.place for x in g.segments]
    )
    return Fraction(1) if group.topology == "torus" else Fraction(group.size - 1, group.units - 1)


SIMULATIONS: dict[str, Simulation] = {
    "one-way ring": through(ring="one-way", line="back", switch="switch", mesh="one-way"),
    "two-way ring": closed,
    "line": through(ring="line", switch="switch", mesh="one-way"),
    "torus": turning(switch="direct"),
    "hierarchical": NATURAL,
    "flat ring": flat,
    "whole sums": outside(0),
    "outer one-shot": outside(1),
    "two outer one-shots": outside(2),
    "rails": lambda network, kind: NATURAL(network.joined, kind),
    "whole sums by rails": lambda network, kind: outside(0)(network.joined, kind),
    "one-shot by rails": lambda network, kind: outside(1)(network.joined, kind),
    "striped": striped,
    "chain": lambda network, kind: Simulated(
        [whole_sums(_single(network.by({"ring": "line"})).dimensions, [0], Fraction(1))]
    ),
    "direct": direct,
    "two-shot": two_shot,
    "tree": trees,
    "double binary tree": double_tree,
    "in-switch": in_switch,
    "book": book,
    "book-levels": book_levels,
}


#: Algorithms of which another test shows that the links hold them (:mod:`tests.ops.test_spanning_trees`).
PACKED = ("spanning trees", "balanced", "balanced in-switch")


def shape(axes: Sequence[MeshAxis]) -> tuple[tuple[str, bool, bool], ...]:
    """What kind of tiers a network has."""
    return tuple((g.topology, len(g.segments) > 1, g.segments[0].nested) for g in link_groups(axes))


def chosen(whole: bool) -> Iterator[tuple[Network, str, str]]:
    """List networks with a collective and an algorithm that each can run: all of them if ``whole``.

    Else each collective by each algorithm on the smallest network of each kind of tiers, and one collective by each
    algorithm on each network of up to 12 chips.
    """
    seen: set[Any] = set()
    for number, network in enumerate(sorted(NETWORKS, key=lambda each: each.chips)):
        kinds = {name: [kind for kind in KINDS if name in algorithms(kind, network.axes)] for name in SIMULATIONS}
        for name, able in kinds.items():
            for place, kind in enumerate(able):
                stratum = shape(network.axes), kind, name
                if whole or stratum not in seen or (place == number % len(able) and network.chips <= 12):
                    seen.add(stratum)
                    yield network, kind, name


@cache
def cases() -> dict[str, list[tuple[Network, str, str]]]:
    """The chosen cases by the name of their network."""
    found: dict[str, list[tuple[Network, str, str]]] = {}
    for case in chosen(LONG):
        found.setdefault(case[0].name, []).append(case)
    return found


@pytest.mark.parametrize("name", some(dict.fromkeys(network.name for network in NETWORKS), 2))
def test_formula_and_simulation(name: str) -> None:
    for case in cases().get(name, ()):
        agree(*case)


def agree(network: Network, kind: str, name: str) -> None:
    work = cost(kind, network.axes, V, algorithm=name).work
    found = SIMULATIONS[name](network, kind)
    places = [d.place for d in network.dimensions if d.size > 1]
    assert {key.place for key in work} <= set(places)
    wire = {place: Fraction(work[Key("wire", place)]) / V for place in places}
    busy = {place: sum(trace.busiest(place) for trace in found.passes) * found.scale(place) for place in places}
    assert sum(len(trace.steps) for trace in found.passes) == work.total("hops")
    if (
        name == "striped" and kind == "Permute" and len(network.tiers) > 1 and places and network.is_torus(0)
    ):  # one of the axes is that busy
        assert max(busy.values()) == max(wire.values())
        return
    if name == "outer one-shot" and sum(d.size > 1 for d in network.tiers[0]) > 2 and not all_rings(network):
        assert max(wire.values()) <= max(busy.values())  # inside sums go by trees (tests.ops.test_spanning_trees)
        return
    assert busy == wire
    if not limit_reason(kind, network.axes, name):
        in_time(network, work, found.passes, wire)


def all_rings(network: Network) -> bool:
    return all(d.kind == "ring" or d.size < 3 for d in network.dimensions)


def in_time(network: Network, work: Work, passes: Sequence[Trace], wire: dict[str, Fraction]) -> None:
    """At any rates: cut into k pieces that follow one another, 1/k of the bytes of all steps but one come on top.

    So the larger of bytes and hops is a bound, and bytes and hops together are what many small pieces come down to.
    """
    speed = {d.place: Fraction(3 + i, 2) for i, d in enumerate(d for tier in network.tiers for d in tier)}
    latency = {d.place: Fraction(1 + i, 7) for i, tier in enumerate(network.tiers) for d in tier}
    bytes_take = {place: wire[place] / speed[place] for place in wire}
    hops_take = sum(work[Key("hops", place)] * latency[place] for place in wire)
    busiest = max(bytes_take.values(), default=Fraction(0))
    pieces = 3
    took = sum(pipelined(trace, speed, latency, pieces) for trace in passes)
    most = max((len(trace.steps) for trace in passes), default=0)
    # of steps in which some cross one tier and some another the slowest is waited for, and the hops of a path add up
    waits = sum(max(latency[link[0]] for link in step) for trace in passes for step in trace.steps)
    assert busiest + hops_take <= took <= busiest * (1 + Fraction(max(most - 1, 0), pieces)) + waits
    assert waits == hops_take or all({link[0] for link in step} >= {*wire} for trace in passes for step in trace.steps)
    if len(places := [place for place in wire if wire[place]]) == 1:
        lockstep = sum(step_by_step(trace, speed, latency) for trace in passes)
        assert lockstep >= bytes_take[places[0]] + hops_take


@pytest.mark.parametrize("sizes", [(2, 3), (4, 2), (2, 2, 3)])
def test_the_longest_path_round_a_flat_ring_has_the_hops_of_its_formula(sizes: tuple[int, ...]) -> None:
    network = tiered(sizes)
    work = cost("AllGather", network.axes, V, algorithm="flat ring").work
    slow = {d.place: 10**tier for tier, (d,) in enumerate(network.tiers)}
    dimensions = network.dimensions
    for ring in _flat_rings([d.size for d in dimensions]):
        edges = []
        for source, target in zip(ring, [*ring[1:], ring[0]], strict=True):
            axis = next(i for i, (a, b) in enumerate(zip(source, target, strict=True)) if a != b)
            edges.append(slow[dimensions[axis].place])
        assert sum(edges) - min(edges) == sum(work[Key("hops", place)] * slow[place] for place in slow)


def test_every_algorithm_is_simulated() -> None:
    """Every collective of every algorithm is among the cases, and has a simulation."""
    assert {*SIMULATIONS, *PACKED} == set(ALGORITHMS)
    every_kind = {(k, a.name) for a in ALGORITHMS.values() for k in a.kinds if a.name not in PACKED}
    assert {(kind, name) for each in cases().values() for _, kind, name in each} == every_kind


SLICES = ("2", "8", "16", "64", "256", "1024", "4x4", "4x4x4", "8x8", "8:2", "4x4:2", "16x16:2", "4x4x4:2", "8x32x4")


def _catalog() -> Iterator[Sequence[MeshAxis]]:
    """Networks of all chips and systems in several sizes, those that there are."""
    known = catalog.read_index()
    for target in (f"{key}:{slice_}" for key in (*known.chips, *known.systems) for slice_ in SLICES):
        with suppress(HardwareError):
            yield tuple(chip(target).mesh or ())


def test_every_network_of_the_catalog_is_simulated() -> None:
    """Whatever collective and algorithm a target offers has been simulated on a network of the same kind of tiers."""
    simulated = {(shape(network.axes), kind, name) for each in cases().values() for network, kind, name in each}
    offered = {
        (shape(axes), kind, name)
        for axes in _catalog()
        if axes
        for kind in KINDS
        for name in algorithms(kind, axes)
        if name not in PACKED
    }
    assert len({shape for shape, _, _ in offered}) >= 10
    assert offered <= simulated


def test_an_algorithm_without_a_simulation_is_noticed() -> None:
    register("carrier pigeon", ["Send"], "one bird")(lambda call: Work())
    try:
        with pytest.raises(AssertionError):
            test_every_algorithm_is_simulated()
    finally:
        del ALGORITHMS["carrier pigeon"]


@pytest.mark.parametrize("n", range(1, 13))
def test_a_line_can_keep_its_middle_link_busy_all_the_time(n: int) -> None:
    assert busy_line(n) == cost("AllToAll", one("line", n).axes, n * n).work.total("wire")
