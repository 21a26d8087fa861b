"""Every collective and algorithm against a step-by-step simulation: the right array, bytes over each link, hops, time.

Bytes are exact fractions of V: the formulas are asked for a V that every count divides.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations, product
from math import prod

import pytest
from simulate import (
    Dimension,
    Trace,
    all_gather,
    all_reduce,
    balanced_orders,
    gather_schedule,
    reduce_scatter,
)
from simulate_moves import all_to_all, binomial, busy_line, chained, pipelined, reducing_switch

from roofline.hardware.network import Level, MeshAxis
from roofline.ops.collective import cost
from roofline.work import Key

RUNS = {"AllGather": all_gather, "ReduceScatter": reduce_scatter, "AllReduce": all_reduce}
V = prod(range(1, 13)) ** 4


def level(place: str, size: int, kind: str, *, tier: int = 0, below: int = 1, nested: bool = False) -> Level:
    torus = kind in ("ring", "line", "one-way")
    topology = "torus" if torus else "mesh" if kind == "mesh" else "switch"
    link = "ici" if torus else place.rpartition(".")[2]
    return Level(place, place, link, tier, topology, size, kind == "ring", below, nested=nested, reduces=True)


def axis(dimension: Dimension) -> MeshAxis:
    place, size, kind, _ = dimension
    return MeshAxis(place, size, (level(place, size, kind),) if size > 1 else ())


def agrees(trace: Trace, work, places, *, serial: bool = True, passes: int = 1) -> None:
    """Bytes over the busiest link of each pass, bytes one after the other, hops; so the time, at any rates."""
    for place in places:
        wire = Fraction(work[Key("wire", place)]) / V
        each = len(trace.steps) // passes
        assert sum(Trace(trace.steps[i * each : (i + 1) * each]).busiest(place) for i in range(passes)) == wire, place
        if serial:
            assert trace.serial(place) == wire, place
            assert trace.hops(place) == work[Key("hops", place)], place


# ---- one axis

ONE_AXIS = [
    ("one-way", "one-way ring"),
    ("ring", "two-way ring"),
    ("line", "line"),
    ("switch", "one-way ring"),
    ("direct", "direct"),
    ("tree", "tree"),
    ("mesh", "direct"),
]


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("kind", ["AllGather", "ReduceScatter", "AllReduce"])
@pytest.mark.parametrize(("how", "algorithm"), ONE_AXIS)
def test_one_axis(how, algorithm, kind, n):
    if kind == "AllReduce" and algorithm == "direct":
        algorithm = "two-shot"
    dimension = Dimension("X", n, how)
    steps = gather_schedule([dimension], [((0,), Fraction(1))])
    trace = RUNS[kind]([dimension], steps).trace
    axes = [axis(dimension._replace(kind="ring" if how == "one-way" else how))]
    agrees(trace, cost(kind, axes, V, algorithm=algorithm).work, "X", passes=2 if kind == "AllReduce" else 1)


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("how", ["ring", "line", "direct", "mesh"])
def test_direct_all_reduce_gathers_all_partials(how, n):
    """Every chip's whole partial sum is a shard of a gathered array n times as large."""
    dimension = Dimension("X", n, how)
    trace = all_gather([dimension], gather_schedule([dimension], [((0,), Fraction(1))])).trace
    work = cost("AllReduce", [axis(dimension)], V, algorithm="direct").work
    assert trace.busiest("X") * n == Fraction(work[Key("wire", "X")]) / V
    assert trace.hops("X") == work[Key("hops", "X")]


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize(
    ("how", "algorithm"), [("one-way", "one-way ring"), ("ring", "two-way ring"), ("line", "line")]
)
def test_all_to_all_on_one_axis(how, algorithm, n):
    dimension = Dimension("X", n, how)
    axes = [axis(dimension._replace(kind="ring" if how == "one-way" else how))]
    agrees(all_to_all([dimension]), cost("AllToAll", axes, V, algorithm=algorithm).work, "X", serial=how != "line")


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("how", ["switch", "mesh"])
def test_all_to_all_direct(how, n):
    dimension = Dimension("X", n, how)
    agrees(all_to_all([dimension]), cost("AllToAll", [axis(dimension)], V).work, "X")


@pytest.mark.parametrize("n", range(1, 13))
def test_a_line_can_keep_its_middle_link_busy_all_the_time(n):
    work = cost("AllToAll", [axis(Dimension("X", n, "line"))], n * n).work
    assert busy_line(n) == work[Key("wire", "X")]


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize(("how", "algorithm"), [("ring", "two-way ring"), ("line", "line"), ("switch", "one-way ring")])
def test_pipelined_broadcast(how, algorithm, n):
    """With k pieces it takes k − 1 steps beside the hops, which vanish against the bytes as k grows."""
    dimension, pieces = Dimension("X", n, how), 12
    trace, steps = pipelined(dimension, pieces)
    work = cost("Broadcast", [axis(dimension)], V, algorithm=algorithm).work
    hops = work[Key("hops", "X")]
    assert trace.busiest("X") == Fraction(work[Key("wire", "X")]) / V
    a_way = pieces // 2 if how == "ring" and n > 2 else pieces
    assert steps == (hops + a_way - 1 if n > 1 else 0)


@pytest.mark.parametrize("n", range(1, 9))
def test_chain(n):
    """Each link carries V once each way; k pieces take k − 1 steps beside the hops."""
    pieces = 12
    trace, steps = chained(n, pieces)
    work = cost("AllReduce", [axis(Dimension("X", n, "line"))], V, algorithm="chain").work
    assert trace.busiest("X") == Fraction(work[Key("wire", "X")]) / V
    assert steps == (work[Key("hops", "X")] + pieces - 1 if n > 1 else 0)


@pytest.mark.parametrize("n", range(1, 18))
def test_tree_broadcast(n):
    agrees(
        binomial(Dimension("X", n, "switch")),
        cost("Broadcast", [axis(Dimension("X", n, "switch"))], V, algorithm="tree").work,
        "X",
    )


# ---- several axes

SIZES_2D = [(a, b) for a, b in product((1, 2, 3, 4, 5, 8), repeat=2)]
SIZES_3D = [(2, 2, 2), (2, 3, 4), (1, 2, 4), (3, 3, 3), (4, 4, 1), (2, 2, 5), (4, 2, 2)]
KINDS_2D = [("ring", "ring"), ("ring", "line"), ("line", "line")]
KINDS_3D = [("ring", "ring", "ring"), ("line", "ring", "line")]
TORI = [
    *((sizes, kinds) for sizes in SIZES_2D for kinds in KINDS_2D),
    *((sizes, kinds) for sizes in SIZES_3D for kinds in KINDS_3D),
]


@pytest.mark.parametrize("kind", ["AllGather", "ReduceScatter"])
@pytest.mark.parametrize(("sizes", "kinds"), TORI)
def test_torus(kind, sizes, kinds):
    dimensions = [Dimension(place, n, how) for place, n, how in zip("XYZ", sizes, kinds, strict=False)]
    trace = RUNS[kind](dimensions, gather_schedule(dimensions, balanced_orders(dimensions))).trace
    work = cost(kind, [axis(d) for d in dimensions], V, algorithm="torus").work
    agrees(trace, work, [d.place for d in dimensions], serial=False)


@pytest.mark.parametrize("kinds", [("ring",) * 3, ("line",) * 3, ("ring",) * 2, ("line",) * 2])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_cube_in_step(n, kinds):
    """On a cube all axes are busy in every phase, so the time is exact, hops too."""
    dimensions = [Dimension(place, n, how) for place, how in zip("XYZ", kinds, strict=False)]
    count = len(dimensions)
    turns = [tuple((first + k) % count for k in range(count)) for first in range(count)]
    trace = all_reduce(dimensions, gather_schedule(dimensions, [(t, Fraction(1, count)) for t in turns])).trace
    work = cost("AllReduce", [axis(d) for d in dimensions], V).work
    for d in dimensions:
        assert trace.serial(d.place) == Fraction(work[Key("wire", d.place)]) / V
    assert len(trace.steps) == work.total("hops")


@pytest.mark.parametrize(("sizes", "kinds"), [(s, k) for s, k in TORI if prod(s) <= 36])
def test_all_to_all_on_a_torus(sizes, kinds):
    dimensions = [Dimension(place, n, how) for place, n, how in zip("XYZ", sizes, kinds, strict=False)]
    work = cost("AllToAll", [axis(d) for d in dimensions], V).work
    agrees(all_to_all(dimensions), work, [d.place for d in dimensions], serial=set(kinds) == {"ring"})


# ---- tiers


def tiered(sizes, nested=()) -> tuple[list[Dimension], MeshAxis]:
    """One mesh axis over tiers of switches, innermost first; the simulation has the outermost dimension first."""
    names = ["nvlink", "ib", "spine"][: len(sizes)]
    levels, below = [], 1
    for tier, (name, n) in enumerate(zip(names, sizes, strict=True)):
        levels.append(level(f"X.{name}", n, "switch", tier=tier, below=below, nested=name in nested))
        below *= n
    crossed = {name: tuple(f"X.{inner}" for inner in names[:t] if inner in nested) for t, name in enumerate(names)}
    dimensions = [Dimension(f"X.{name}", n, "switch", crossed[name]) for name, n in zip(names, sizes, strict=True)]
    return dimensions[::-1], MeshAxis("X", below, tuple(x for x in levels if x.size > 1))


TIERS = [(2, 2), (4, 2), (2, 4), (8, 3), (3, 1), (1, 3), (2, 2, 2), (4, 2, 3), (2, 4, 2)]


@pytest.mark.parametrize("kind", ["AllGather", "ReduceScatter", "AllReduce"])
@pytest.mark.parametrize("nested", [(), ("ib", "spine")])
@pytest.mark.parametrize("sizes", TIERS)
def test_tiers(sizes, nested, kind):
    """Outer tiers gather first, every chip of a unit with its part; a fat tree's inner links carry the outer bytes."""
    dimensions, x = tiered(sizes, nested)
    order = tuple(range(len(dimensions)))
    trace = RUNS[kind](dimensions, gather_schedule(dimensions, [(order, Fraction(1))])).trace
    work = cost(kind, [x], V, algorithm="hierarchical" if len(x.levels) > 1 else None).work
    for d in dimensions:
        if d.size > 1:
            place = d.place
            assert trace.busiest(place) == Fraction(work[Key("wire", place)]) / V, place
    assert len(trace.steps) == work.total("hops")


@pytest.mark.parametrize("sizes", TIERS)
def test_trees_over_tiers(sizes):
    dimensions, x = tiered(sizes)
    steps = gather_schedule([d._replace(kind="tree") for d in dimensions], [(tuple(range(len(sizes))), Fraction(1))])
    trace = all_gather(dimensions, steps).trace
    agrees(trace, cost("AllGather", [x], V, algorithm="tree").work, [d.place for d in dimensions if d.size > 1])


@pytest.mark.parametrize("sizes", [(1,), (2,), (4,), (8,), *TIERS])
def test_switches_that_reduce(sizes):
    places = ["X.nvlink", "X.ib", "X.spine"][: len(sizes)]
    _, x = tiered(sizes)
    trace = reducing_switch(sizes, places)
    agrees(
        trace,
        cost("AllReduce", [x], V, algorithm="in-switch").work,
        [p for p, n in zip(places, sizes, strict=True) if n > 1],
    )


@pytest.mark.parametrize(("inner", "outer"), [((2, 2), 2), ((4, 4), 2), ((3, 2), 3)])
def test_slices_over_a_network(inner, outer):
    """A torus inside, a switch outside: shards come over the network first, then go round the torus."""
    dimensions = [Dimension("S", outer, "switch"), Dimension("X", inner[0], "ring"), Dimension("Y", inner[1], "ring")]
    orders = [((0, *(i + 1 for i in order)), share) for order, share in balanced_orders(dimensions[1:])]
    trace = all_gather(dimensions, gather_schedule(dimensions, orders)).trace
    across = MeshAxis("S", outer, (level("S", outer, "switch", tier=1),))
    work = cost("AllGather", [*(axis(d) for d in dimensions[1:]), across], V).work
    agrees(trace, work, "SXY", serial=False)


@pytest.mark.parametrize(("nodes", "gpus", "nested"), [(2, 4, False), (3, 4, False), (2, 2, True), (4, 2, True)])
def test_all_to_all_over_tiers(nodes, gpus, nested):
    """Each chip sends every other its chunk by the outermost tier that parts them, and by those it is nested in."""
    sizes = (gpus, nodes, 2) if nested else (gpus, nodes)
    names = ("ib", "spine") if nested else ()
    dimensions, x = tiered(sizes, names)
    chips = list(product(*(range(d.size) for d in dimensions)))
    sent = dict.fromkeys((d.place for d in dimensions), 0)
    for other in chips[1:]:
        parts = next(i for i, part in enumerate(other) if part)
        for place in {dimensions[parts].place, *dimensions[parts].crossed}:
            sent[place] += 1
    work = cost("AllToAll", [x], V).work
    for place, chunks in sent.items():
        assert Fraction(chunks, len(chips) ** 2) == Fraction(work[Key("wire", place)]) / V


# ---- single messages


@pytest.mark.parametrize("sizes", [(4,), (8,), (4, 4), (2, 8), (4, 2, 3), (1, 5)])
@pytest.mark.parametrize("how", ["ring", "line"])
def test_send_by_all_axes_at_once(sizes, how):
    """Parts of the message go by the axes in different orders; no link is used by two of them."""
    dimensions = [Dimension(place, n, how) for place, n in zip("XYZ", sizes, strict=False)]
    used = [i for i, n in enumerate(sizes) if n > 1]
    goal = [n // 2 if how == "ring" else n - 1 for n in sizes]
    turns = [tuple(used[(first + k) % len(used)] for k in range(len(used))) for first in range(len(used))]
    links = []
    for turn in turns:
        at = [0] * len(sizes)
        for i in turn:
            while at[i] != goal[i]:
                before = tuple(at)
                at[i] += 1
                links.append((before, tuple(at)))
    assert len(links) == len(set(links))
    work = cost("Send", [axis(d) for d in dimensions], V).work
    for i in used:
        assert work[Key("wire", dimensions[i].place)] == V // len(used)
        assert work[Key("hops", dimensions[i].place)] == goal[i]


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("how", ["ring", "line", "switch", "mesh"])
def test_permute(how, n):
    """On a line the last chip's message goes back over every link, against the others."""
    work = cost("Permute", [axis(Dimension("X", n, how))], V).work
    crossing = dict.fromkeys(permutations(range(n), 2), 0)
    longest = 0
    for i in range(n):
        path = list(range(n - 1, -1, -1)) if how == "line" and i == n - 1 else [i, (i + 1) % n]
        for a, b in pairwise(path):
            if a != b:
                crossing[a, b] += 1
        longest = max(longest, len(path) - 1 if n > 1 else 0)
    assert work[Key("wire", "X")] == V * max(crossing.values(), default=0)
    assert work[Key("hops", "X")] == longest
