"""Trees over all chips of a torus, a grid or a mesh: as many as the links hold, and no more.

The trees of an AllReduce are packed by a linear program over all spanning trees, made column by column: at the prices
of the links that bind, the cheapest tree comes in until none is cheaper than what it sends. Those of a Broadcast are as
many as links cut the root off from any chip (Edmonds): a maximum flow to each chip counts them. Over tiers of different
rates the cut of any set of chips is counted: the slowest is the optimum (L. Zhao et al., ForestColl, arXiv:2402.06787).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_matrix, lil_matrix
from scipy.sparse.csgraph import maximum_flow, minimum_spanning_tree, shortest_path
from simulate import chips_of
from simulate_networks import Network, one, torus
from tests.strategies import for_each, some

from roofline.hardware import chip as machine_of
from roofline.hardware.rate import rate as machine_rate
from roofline.ops.collectives.choice import Chooser
from roofline.ops.collectives.cost import cost, default_algorithm
from roofline.ops.collectives.registry import link_groups
from roofline.work import Key

R, L = "ring", "line"
GRIDS: list[Network] = [
    *(one(kind, n) for kind in (R, L, "mesh") for n in (2, 3, 5, 8)),
    *(torus((a, p), (b, q)) for (a, b), p, q in product(((2, 2), (2, 4), (3, 5), (4, 4)), (R, L), (R, L))),
    torus((2, L), (3, L), (4, L)),
    torus((3, R), (2, L), (4, L)),
    torus((3, L), (3, L), (3, L)),
]
V = 2.0**40


def links(network: Network) -> list[tuple[int, int]]:
    """Pairs of chips that a link joins, each once."""
    place = {chip: i for i, chip in enumerate(chips_of(network.dimensions))}
    found = set()
    for chip in place:
        for axis, dimension in enumerate(network.dimensions):
            n = dimension.size
            reach = range(1, n) if dimension.kind == "mesh" else (1,)
            for step in reach:
                there = chip[axis] + step
                if there < n or dimension.kind == R:
                    other = (*chip[:axis], there % n, *chip[axis + 1 :])
                    found.add(frozenset((place[chip], place[other])))
    return sorted((min(pair), max(pair)) for pair in found if len(pair) == 2)


def most_trees(network: Network) -> float:
    """The most of spanning trees, parts counted, of which no link is in more than one."""
    pairs, chips = links(network), network.chips
    row = {pair: i for i, pair in enumerate(pairs)}
    packed, prices = 0.0, np.ones(len(pairs))
    trees: list[np.ndarray] = []
    for _ in range(2000):
        graph = csr_matrix((prices + 1e-9, np.array(pairs).T), shape=(chips, chips))
        tree = np.zeros(len(pairs))
        for a, b in zip(*minimum_spanning_tree(graph).nonzero(), strict=True):
            tree[row[min(a, b), max(a, b)]] = 1
        if trees and prices @ tree >= 1 - 1e-7:
            return packed
        trees.append(tree)
        found = linprog(-np.ones(len(trees)), A_ub=np.array(trees).T, b_ub=np.ones(len(pairs)), method="highs")
        packed, prices = -found.fun, -found.ineqlin.marginals
    raise AssertionError("no end")


@pytest.mark.parametrize("network", some(GRIDS, 4, 1), ids=lambda network: network.name)
def test_an_all_reduce_takes_all_links(network: Network) -> None:
    work = cost("AllReduce", network.axes, V, algorithm="spanning trees").work
    wires = {float(amount) for key, amount in work.items() if key.quantity == "wire"}
    assert max(wires) == pytest.approx(V / most_trees(network), rel=1e-6)
    least = cost("AllReduce", network.axes, V, algorithm=default_algorithm("AllReduce", network.axes)).work
    assert max(float(a) for k, a in least.items() if k.quantity == "wire") == pytest.approx(max(wires))


def most_shallow_trees(network: Network) -> float:
    """The most of trees about a link, in which each chip hangs on one that is nearer to it, of one hop less than round.

    A chip takes the cheapest link to a nearer one, so the cheapest tree is found at once.
    """
    pairs, radius = links(network), sum(d.size // 2 for d in network.dimensions)
    far = shortest_path(
        csr_matrix((np.ones(len(pairs)), np.array(pairs).T), shape=(network.chips,) * 2), directed=False
    )
    centres = []
    for middle, (a, b) in enumerate(pairs):
        near = np.minimum(far[a], far[b])
        if near.max() == radius - 1:
            up = [[i for i, ends in enumerate(pairs) if c in ends and near[sum(ends) - c] < near[c]]
                  for c in range(network.chips) if c not in (a, b)]  # fmt: skip
            centres.append((middle, up))
    prices, trees, packed = np.ones(len(pairs)), [], 0.0
    while True:
        tried = [[middle, *(min(way, key=prices.__getitem__) for way in up)] for middle, up in centres]
        tree = min(tried, key=lambda each: prices[each].sum())
        if trees and prices[tree].sum() >= 1 - 1e-7:
            return packed
        trees.append(np.bincount(tree, minlength=len(pairs)))
        found = linprog(-np.ones(len(trees)), A_ub=np.array(trees).T, b_ub=np.ones(len(pairs)), method="highs")
        packed, prices = -found.fun, -found.ineqlin.marginals


@pytest.mark.parametrize(
    ("sides", "full"), some([("4R 3R", True), ("4R 4R", True), ("2R 4R", True), ("4L 4R", False)], 2)
)
def test_sums_meet_at_a_link_where_all_axes_close_and_one_is_even(sides: str, full: bool) -> None:
    network = torus(*((int(n), {"R": R, "L": L}[kind]) for n, kind in sides.split()))
    hops = cost("AllReduce", network.axes, V, algorithm="spanning trees").work.total("hops")
    assert (most_shallow_trees(network) == pytest.approx(most_trees(network))) == full
    assert hops == 2 * sum(d.size // 2 for d in network.dimensions) - full


@pytest.mark.parametrize("network", GRIDS, ids=lambda network: network.name)
def test_a_broadcast_takes_as_many_trees_as_links_cut_a_chip_off(network: Network) -> None:
    both = [(a, b) for pair in links(network) for a, b in (pair, pair[::-1])]
    graph = csr_matrix((np.ones(len(both), dtype=np.int32), np.array(both).T), shape=(network.chips,) * 2)
    trees = min(maximum_flow(graph, 0, chip).flow_value for chip in range(1, network.chips))
    work = cost("Broadcast", network.axes, V, algorithm="spanning trees").work
    assert max(float(a) for k, a in work.items() if k.quantity == "wire") == pytest.approx(V / trees)


def test_a_corner_is_no_limit_of_an_all_reduce_on_a_grid() -> None:
    """4 x 4 chips without wrap-around: 24 links hold 24/15 trees; rings in two orders send 15/16 of V."""
    axes = torus((4, L), (4, L)).axes
    trees, rings = (cost("AllReduce", axes, 960, algorithm=name).work for name in ("spanning trees", "torus"))
    assert (trees[Key("wire", "X")], rings[Key("wire", "X")]) == (600, 900)
    assert (trees.total("hops"), rings.total("hops")) == (8, 12)


def have_depth(network: Network, count: int, depth: int) -> bool:
    """Whether so many trees from the first chip to all others share no link and are no deeper: an integer program.

    Of a tree each chip but the first has one link in, at a depth one more than that of a link into where it comes from.
    """
    both = [(a, b) for pair in links(network) for a, b in (pair, pair[::-1]) if b]
    keys = [(t, e, k) for t, k in product(range(count), range(1, depth + 1)) for e in both if (e[0] == 0) == (k == 1)]
    column = {key: i for i, key in enumerate(keys)}
    rows: list[tuple[dict[int, int], float, float]] = []
    for e in both:
        rows.append(({column[key]: 1 for key in keys if key[1] == e}, 0, 1))
    for t, chip in product(range(count), range(1, network.chips)):
        rows.append(({column[key]: 1 for key in keys if key[0] == t and key[1][1] == chip}, 1, 1))
    for t, e, k in keys:
        if k > 1:
            before = {column[t, f, k - 1]: -1 for f in both if f[1] == e[0] and (t, f, k - 1) in column}
            rows.append(({column[t, e, k]: 1, **before}, -np.inf, 0))
    matrix = lil_matrix((len(rows), len(keys)))
    for i, (row, _, _) in enumerate(rows):
        for j, value in row.items():
            matrix[i, j] = value
    _, least, most = zip(*rows, strict=True)
    met = milp(
        np.zeros(len(keys)),
        constraints=LinearConstraint(matrix.tocsr(), least, most),
        integrality=np.ones(len(keys)),
        bounds=Bounds(0, 1),
    )
    return met.status == 0


@pytest.mark.parametrize(
    "sides",
    [((3, R), (3, R)), ((3, L), (3, L)), ((4, R), (3, L)), ((2, L), (4, L)), ((4, R), (4, R)), ((4, L), (4, L))],
)
def test_the_trees_of_a_broadcast_are_no_deeper_than_its_hops(sides: tuple[tuple[int, str], ...]) -> None:
    network = torus(*sides)
    work = cost("Broadcast", network.axes, 12, algorithm="spanning trees").work
    hops, trees = work.total("hops"), 12 // max(a for key, a in work.items() if key.quantity == "wire")
    assert have_depth(network, int(trees), int(hops))
    assert not have_depth(network, int(trees), int(hops) - 1)


#: Chips of two tiers, the links of either: a switch, or which chips have a link; and other rates of the outer one.
TWO_TIERS = [
    ("h100:16", "X", "nic", (10e9, 50e9, 100e9, 400e9)),
    ("a100:16", "X", "nic", (25e9, 200e9)),
    ("trn2-ultraserver:4x4x4", "YZ", "neuronlink-z", (16e9, 64e9, 256e9)),
    ("v5e:2x4:2", "XYS", "dcn", (6.25e9, 40e9)),
    ("v5e:1x4:4", "YS", "dcn", (6.25e9, 40e9)),
]


@for_each(("target", "names", "outer", "rates"), TWO_TIERS)
def test_no_cut_over_two_tiers_is_slower_than_the_floor(
    target: str, names: str, outer: str, rates: Sequence[float]
) -> None:
    """Into a set of chips go the shards of all others, or a message, over each switch and link out of it."""
    for bandwidth in rates:
        machine = machine_of(target, **{outer: bandwidth})
        axes = [axis for axis in machine.mesh if axis.name in names]
        groups = link_groups(axes)
        shape = [segment.size for group in groups[::-1] for segment in group.segments]
        n = prod(shape)
        sets = (np.arange(1, 2**n - 1)[:, None] >> np.arange(n)) & 1
        capacity, axis = np.zeros(len(sets)), len(shape)
        for group in groups:
            axis -= len(group.segments)
            for place, segment in enumerate(group.segments):
                laid = np.moveaxis(sets.reshape(-1, *shape), 1 + axis + place, -1)
                links = machine_rate(machine, Key("wire", segment.place)).value
                if segment.topology == "switch":  # of all chips where it is the outer one
                    of_unit = sets[:, None, :] if group is groups[-1] else laid.reshape(len(sets), -1, segment.size)
                    inside = of_unit.sum(axis=-1)
                    capacity += links * np.minimum(inside, of_unit.shape[-1] - inside).sum(axis=-1)
                else:
                    near = laid != np.roll(laid, 1, axis=-1)
                    capacity += links * near[..., (not segment.wrap) or segment.size == 2 :].sum(
                        axis=tuple(range(1, near.ndim))
                    )
        for kind, into in (("AllGather", 1 - sets.sum(axis=1) / n), ("Broadcast", 1)):
            found = Chooser(None, machine).cost(kind, axes, V, 1)
            times = [
                amount / machine_rate(machine, key).value
                for key, amount in found.work.items()
                if key.quantity == "wire"
            ]
            assert max(times) == pytest.approx((V * into / capacity).max(), rel=1e-9), (kind, bandwidth, found)
