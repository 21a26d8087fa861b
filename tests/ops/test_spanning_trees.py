"""Trees over all chips of a torus, a grid or a mesh: as many as the links hold, and no more.

The trees of an AllReduce are packed by a linear program over all spanning trees, made column by column: at the prices
of the links that bind, the cheapest tree comes in until none is cheaper than what it sends. Those of a Broadcast are as
many as links cut the root off from any chip (Edmonds): a maximum flow to each chip counts them. Over tiers of different
rates the cut of any set of chips is counted: the slowest is the optimum (L. Zhao et al., ForestColl, arXiv:2402.06787).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import prod
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_matrix, lil_matrix
from scipy.sparse.csgraph import maximum_flow, minimum_spanning_tree, shortest_path
from simulate import chips_of
from simulate_networks import Network, one, torus
from tests.strategies import for_each, some

from roofline.hardware import chip as machine_of
from roofline.hardware.mesh import with_mesh
from roofline.hardware.rate import rate as machine_rate
from roofline.ops.collectives.choice import Chooser
from roofline.ops.collectives.cost import cost, default_algorithm
from roofline.ops.collectives.registry import LinkGroup, link_groups
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


#: Nodes of two chips, two of them under each of two leaf switches, which may add up, as those above them.
CLUSTER = """
[system.pod]
chip = "{chip}"
link = [
  {{ name = "nvlink", bandwidth = "50 GB/s", domain = 2 }},
  {{ name = "leaf", topology = "fat-tree", bandwidth = "50 GB/s", domain = 4, reduces = {adds} }},
  {{ name = "spine", topology = "fat-tree", bandwidth = "50 GB/s", domain = 8, reduces = {adds} }},
]
"""

#: Chips of several tiers, the axes that are asked, and other rates of links.
TIERS: list[tuple[str, str, dict[str, float]]] = [
    *(("h100:16", "X", {"nic": rate}) for rate in (10e9, 50e9, 400e9)),
    *(("a100:16", "X", {"nic": rate}) for rate in (25e9, 200e9)),
    *(("trn2-ultraserver:4x4x4", "YZ", {"neuronlink-z": rate}) for rate in (16e9, 64e9, 256e9)),
    *(
        (target, names, {"dcn": rate})
        for target, names in (("v5e:2x4:2", "XYS"), ("v5e:1x4:4", "YS"))
        for rate in (6.25e9, 4e10)
    ),
    *(
        (f"{of} {adds}", "X", {"nvlink": inner, "spine": outer})
        for of, adds in product(("a100", "b200"), ("false", "true"))
        for inner, outer in ((20e9, 12.5e9), (20e9, 100e9), (450e9, 12.5e9))
    ),
]


@for_each(("target", "names", "rates"), TIERS)
def test_no_cut_over_tiers_is_slower_than_the_floor(
    target: str, names: str, rates: dict[str, float], tmp_path: Path
) -> None:
    """Into a set of chips go the shards of all others, or a message, over each switch and link out of it."""
    if " " in target:
        of, adds = target.split()
        file = tmp_path / "pod.toml"
        file.write_text(CLUSTER.format(chip=of, adds=adds))
        target = f"{file}:8"
    machine = machine_of(target, **rates)
    axes = [axis for axis in machine.mesh if axis.name in names]
    groups = link_groups(axes)
    each = [machine_rate(machine, Key("wire", group.segments[0].place)).value for group in groups]
    chips = prod(group.size for group in groups)
    sets = (np.arange(1, 2**chips - 1)[:, None] >> np.arange(chips)) & 1
    capacity = capacity_out_of(sets, groups, each)
    sides = [segment for group in groups[::-1] for segment in group.segments]
    far = np.ravel_multi_index(
        [s.size // 2 if s.topology == "torus" and s.wrap else s.size - 1 for s in sides], [s.size for s in sides]
    )
    floors = {
        "AllGather": ((1 - sets.sum(axis=1) / chips) / capacity).max(),
        "Broadcast": (1 / capacity).max(),
        "Send": (1 / capacity[(sets[:, 0] == 1) & (sets[:, far] == 0)]).max(),
        "AllReduce": least_time_of_sums(groups, each),
        "AllToAll": ((sent := sets.sum(axis=1)) * (chips - sent) / chips**2 / capacity).max(),
    }
    if any(group.topology == "torus" for group in groups):
        del floors["AllToAll"]
    if groups[1].segments[0].nested:
        inner, outer, spine = each
        floors["Permute"] = max(2 / (inner + 2 * outer), 1 / (2 * outer), 1 / (4 * spine))
    for kind, floor in floors.items():
        found = Chooser(None, machine).cost(kind, axes, V, 1, "bf16")
        times = [amount / machine_rate(machine, k).value for k, amount in found.work.items() if k.quantity == "wire"]
        assert max(times) == pytest.approx(V * floor, rel=1e-9), (kind, rates, found)


#: Units of chips with a link each to a switch that joins them all.
UNITS = """
[system.units]
chip = "a100"
link = [
  {{ name = "inner", topology = "{topology}", bandwidth = "{inner} GB/s", {links} domain = {size} }},
  {{ name = "outer", bandwidth = "10 GB/s", domain = {chips} }},
]
"""


@pytest.mark.parametrize(
    ("topology", "size"),
    [("switch", 2), ("switch", 3), ("switch", 4), ("mesh", 3), ("mesh", 4), ("line", 4), ("grid", 4)],
)
@pytest.mark.parametrize("inner", [2, 13, 28])
def test_no_flows_of_a_permute_take_less_than_its_floor(topology: str, size: int, inner: int, tmp_path: Path) -> None:
    """Flows of one byte from each chip to the next, as fast as a linear program finds them; out of slices to all."""
    chips = 2 * size
    row = {"line": size, "grid": 2}.get(topology)
    if row:
        machine = machine_of(f"v5e:{size // row}x{row}:2", ici=inner * 1e9, dcn=10e9)
    else:
        links = f"links = {size - 1}," if topology == "mesh" else ""
        file = UNITS.format(topology=topology, size=size, chips=chips, inner=inner, links=links)
        (tmp_path / "units.toml").write_text(file)
        machine = machine_of(f"{tmp_path / 'units.toml'}:{chips}")
    ways = [(a, b, tier) for a, b in product(range(chips), repeat=2) for tier in (0, 1)
            if a != b and (tier or (a // size == b // size and (not row or _are_neighbours(a, b, row))))]  # fmt: skip
    crossed: dict[object, dict[int, float]] = {}
    for at, (a, b, tier) in enumerate(ways):
        ports = ((a, b),) if topology != "switch" and not tier else ((a, "out", tier), (b, "into", tier))
        for port in ports:
            crossed.setdefault(port, {-1: -10e9 if tier else -inner * 1e9})
            crossed[port] |= {message * len(ways) + at: 1 for message in range(chips)}
    limits, left = lil_matrix((len(crossed), chips * len(ways) + 1)), lil_matrix((chips**2, chips * len(ways) + 1))
    for row, port in enumerate(crossed.values()):
        for column, amount in port.items():
            limits[row, column] = amount
    for message, (at, (a, b, _)) in product(range(chips), enumerate(ways)):
        left[message * chips + a, message * len(ways) + at], left[message * chips + b, message * len(ways) + at] = 1, -1
    sent = np.concatenate([np.eye(chips)[message] - np.eye(chips)[(message + 1) % chips] for message in range(chips)])
    time = np.zeros(chips * len(ways) + 1)
    time[-1] = 1e9
    to_all = chips * np.eye(chips).ravel() - 1
    for kind, moved, share, closely in (("Permute", sent, 1, 1.0), ("AllToAll", to_all, chips**-2, 0.88)):
        if kind == "AllToAll" and topology not in ("line", "grid"):
            continue
        least = V * share * linprog(time, limits.tocsr(), np.zeros(len(crossed)), left.tocsr(), moved).fun / 1e9
        found = Chooser(None, machine).cost(kind, list(machine.mesh or ()), V, 1, "bf16")
        times = [amount / machine_rate(machine, k).value for k, amount in found.work.items() if k.quantity == "wire"]
        assert closely * least * (1 - 1e-6) <= max(times) <= least * (1 + 1e-6), found


@pytest.mark.parametrize(
    ("topology", "size", "chips", "inner"), [("switch", 3, 5, 6), ("switch", 2, 3, 2), ("mesh", 3, 5, 3)]
)
def test_no_trees_over_uneven_units_are_slower_than_the_floor(
    topology: str, size: int, chips: int, inner: int, tmp_path: Path
) -> None:
    """An AllReduce by trees: each link of one goes once out of and into its ends, at the prices of what is busy."""
    links = f"links = {size - 1}," if topology == "mesh" else ""
    file = UNITS.format(topology=topology, size=size, chips=12 * size, inner=inner, links=links)
    (tmp_path / "units.toml").write_text(file)
    machine = machine_of(f"{tmp_path / 'units.toml'}:{chips}")
    units = -(-chips // size)
    unit = [at * units // chips for at in range(chips)]
    ways: dict[tuple[int, int], list[list[object]]] = {}
    for a, b in combinations(range(chips), 2):
        ways[a, b] = [[(a, "out"), (b, "out")]]
        if unit[a] == unit[b]:
            ways[a, b].append([(a, b)] if topology == "mesh" else [a, b])
    ports = {port: i for i, port in enumerate({port: 0 for each in ways.values() for way in each for port in way})}
    limits = [10.0 if isinstance(port, tuple) and port[1] == "out" else float(inner) for port in ports]
    prices, trees, packed = np.ones(len(ports)), [], 0.0
    while True:
        chosen = {ends: min(each, key=lambda way: sum(prices[ports[p]] for p in way)) for ends, each in ways.items()}
        costs = [sum(prices[ports[p]] for p in way) + 1e-9 for way in chosen.values()]
        graph = csr_matrix((costs, np.array([*chosen]).T), shape=(chips, chips))
        tree = np.zeros(len(ports))
        for ends in zip(*minimum_spanning_tree(graph).nonzero(), strict=True):
            for port in chosen[min(ends), max(ends)]:
                tree[ports[port]] += 1
        if trees and prices @ tree >= 1 - 1e-7:
            break
        trees.append(tree)
        found = linprog(-np.ones(len(trees)), A_ub=np.array(trees).T, b_ub=limits, method="highs")
        packed, prices = -found.fun, -found.ineqlin.marginals
    counted = Chooser(None, machine).cost("AllReduce", list(machine.mesh or ()), V, 1, "bf16")
    times = [amount / machine_rate(machine, k).value for k, amount in counted.work.items() if k.quantity == "wire"]
    assert max(times) == pytest.approx(V / (packed * 1e9), rel=1e-6), counted


def _are_neighbours(a: int, b: int, row: int) -> bool:
    """Of chips in rows of so many."""
    return abs(a // row - b // row) + abs(a % row - b % row) == 1


@pytest.mark.parametrize("spine", [10e9, 40e9])
def test_one_message_up_a_fat_tree_has_the_links_of_all_its_unit(spine: float, tmp_path: Path) -> None:
    """One chip of each node: two of them have twice the way to the spine, each its own link to the leaf switch."""
    (tmp_path / "pod.toml").write_text(CLUSTER.format(chip="a100", adds="false"))
    machine = with_mesh(machine_of(f"{tmp_path / 'pod.toml'}:8", spine=spine), {"X": 4, "Y": 2})
    assert machine.mesh is not None
    for kind in ("Permute", "Send", "Broadcast", "Reduce"):
        found = Chooser(None, machine).cost(kind, machine.mesh.select("X"), V, 1, "bf16")
        times = [amount / machine_rate(machine, k).value for k, amount in found.work.items() if k.quantity == "wire"]
        assert max(times) == pytest.approx(V * max(1 / 50e9, 1 / (2 * spine))), found


def test_all_that_goes_up_a_fat_tree_crosses_its_first_links() -> None:
    """Chips of one place in their nodes get all but their shard through their own link, over whichever switches."""
    machine = with_mesh(machine_of("dgx-h100:1024"), {"X": 128, "Y": 8})
    assert machine.mesh is not None
    for kind, share in (("AllGather", 127 / 128), ("AllReduce", 1), ("Broadcast", 1)):
        found = Chooser(None, machine).cost(kind, machine.mesh.select("X"), V, 1, "bf16")
        assert found.work[Key("wire", "X.ib")] == share * V


def capacity_out_of(sets: np.ndarray, groups: Sequence[LinkGroup], rates: Sequence[float]) -> np.ndarray:
    """Bytes a second out of each set of chips, where every switch is on the side that lets the fewest out."""
    shape = [segment.size for group in groups[::-1] for segment in group.segments]
    total, axis, is_tree = np.zeros(len(sets)), len(shape), groups[1].segments[0].nested
    for group, links in zip(groups[: 2 if is_tree else None], rates, strict=False):
        axis -= len(group.segments)
        for place, segment in enumerate(group.segments):
            laid = np.moveaxis(sets.reshape(-1, *shape), 1 + axis + place, -1)
            if segment.topology != "switch":
                near = laid != np.roll(laid, 1, axis=-1)
                kept = near[..., (not segment.wrap) or segment.size == 2 :]
                total += links * kept.sum(axis=tuple(range(1, near.ndim)))
                continue
            # the second switch joins all chips below it, and what goes further up comes through it
            joined = segment.size * group.below
            inside = sets.reshape(len(sets), -1, joined).sum(axis=-1)
            up = joined * rates[-1] / links if is_tree and group is groups[1] else 0
            sides = np.minimum(inside, joined - inside + up), np.minimum(inside + up, joined - inside)
            total += links * np.minimum(*(side.sum(axis=-1) for side in sides))
    return total


def least_time_of_sums(groups: Sequence[LinkGroup], rates: Sequence[float]) -> float:
    """Seconds a byte that an AllReduce takes at least.

    n partial sums take n − 1 messages to become one, the sum n − 1 to reach all; with a switch that adds up n each, of
    which each crosses one link and not two. A unit counts as one chip for what goes between units. So for every byte
    each chip sends ``straight`` over the second tier, or it spares some of it by ``inside`` bytes over the innermost.
    No byte takes less of U + W·spared/inside, at which both cost as much.
    """
    first, second = groups[:2]
    chips = prod(group.size for group in groups)
    sent = [rate * links_of_a_chip(group) for group, rate in zip(groups, rates, strict=True)]
    adds = [group.reduces is not None and group.reduces.adds("bf16") for group in groups]
    outer = [1 / g.below if a else 2 * (chips / g.below - 1) / chips for g, a in zip(groups, adds, strict=True)]
    straight = 1 if adds[1] else 2 * (chips - 1) / chips
    inside = 1 if adds[0] else 2 * (first.size - 1) / first.size
    least = [straight / (sent[1] + sent[0] * (straight - outer[1]) / inside)]
    least += [amount / rate for amount, rate in zip(outer[1:], sent[1:], strict=True)]
    if second.topology == "torus":  # it joins chips of one place, which are a unit too
        least.append(2 * (chips / second.size - 1) / chips / sent[0])
    return max(least)


def links_of_a_chip(group: LinkGroup) -> float:
    """Links that a chip sends on, of chips along a line on average."""
    if group.topology == "switch":
        return 1
    return sum(2 * (s.size - (not s.wrap or s.size == 2)) / s.size for s in group.segments)
